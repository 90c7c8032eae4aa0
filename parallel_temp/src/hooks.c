/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  The hooks on the way of every statement, in one place.
 *
 * Most statements have nothing to do with temporary tables, and the short ones must
 * not feel the library.  So each hook is there once, asks in a few instructions
 * whether a part of the library has something to do, and calls it only then.  The
 * executor's hooks are not even there in a session that has no use for them: the
 * first statement that may load or read a temporary table in our way sets them,
 * through query_watch_executor().
 *
 * A statement that the library has to do with gets a record (query.c), pushed and popped
 * here around its run.  The PG_TRY of that would cost others as much as all the rest
 * here.  So a run without a record that fails leaves the depth of nesting too large, and it is put right where an error can be
 * caught: in a utility statement, at the end of the subtransaction, and of the
 * transaction.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "compat_executor.h"
#include "hooks.h"
#include "load/fastload.h"
#include "parallel/plan_fill.h"
#include "parallel/pool.h"
#include "parallel/worker.h"
#include "query.h"
#include "statistics/gathered.h"

/* The hooks that were there before, or the server's functions. */
static struct
{
	ExecutorStart_hook_type start;
	ExecutorRun_hook_type run;
	ExecutorEnd_hook_type end;
	object_access_hook_type object_access;	/* may be NULL */
	ProcessUtility_hook_type utility;
} next		pg_attribute_aligned(PG_CACHE_LINE_SIZE);

/* executor_depth when the subtransaction of each nesting level started */
static int *depth_at_start = NULL;
static int	levels = 0;

/* The executor's hooks are set. */
static bool watching = false;

static void pg_attribute_hot
hook_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	if (unlikely(pt_running.fills > 0))
		fastload_plan_starts(queryDesc);
	if (unlikely(pt_running.explained != NULL))
		fastload_explain_start(queryDesc, eflags);
	if (unlikely(IsParallelWorker()))
		worker_executor_start(queryDesc);
	else
	{
		if (queryDesc->operation == CMD_INSERT)
			pool_before_insert(queryDesc->plannedstmt);
		if (queryDesc->plannedstmt->parallelModeNeeded)
			plan_fill_start(queryDesc);
	}
	next.start(queryDesc, eflags);
}

/*
 * Run a statement that may fill a table, or has a part for workers.
 */
static pg_noinline void
run_recorded(EXECUTORRUN_PARAMS_compat)
{
	PtQuery		query;

	query_push(&query);
	pt_running.executor_depth = query.executor_depth + 1;
	PG_TRY();
	{
		query_set_run(&query, queryDesc);
		if (fastload_may_fill(queryDesc))
			fastload_run_begin(&query);
		if (queryDesc->plannedstmt->parallelModeNeeded || IsParallelWorker())
			pool_run(&query, next.run, EXECUTORRUN_ARGS_compat);
		else
			next.run(EXECUTORRUN_ARGS_compat);
		if (query.fill != NULL)
			fastload_run_end(&query);
	}
	PG_FINALLY();
	{
		query_pop(&query);
	}
	PG_END_TRY();
}

static void pg_attribute_hot
hook_ExecutorRun(EXECUTORRUN_PARAMS_compat)
{
	int			depth = query_executor_depth();

	/* A cursor that is fetched from has started long ago. */
	if (unlikely(pt_running.fills > 0))
		fastload_before_plan(queryDesc->plannedstmt);
	pt_running.transaction = CurrentLxid_compat;
	if (unlikely(queryDesc->plannedstmt->parallelModeNeeded || IsParallelWorker() || fastload_may_fill(queryDesc)))
	{
		pt_running.executor_depth = depth;
		run_recorded(EXECUTORRUN_ARGS_compat);
	}
	else
	{
		pt_running.executor_depth = depth + 1;
		next.run(EXECUTORRUN_ARGS_compat);
		pt_running.executor_depth = depth;
	}
	if (unlikely(gathered_tables > 0 && (queryDesc->operation != CMD_SELECT || queryDesc->plannedstmt->hasModifyingCTE)))
		gathered_count_changes(queryDesc);
}

static void pg_attribute_hot
hook_ExecutorEnd(QueryDesc *queryDesc)
{
	if (unlikely(pt_running.explained != NULL))
		fastload_print(queryDesc);
	if (unlikely(pt_running.fills > 0))
		fastload_plan_ended(queryDesc);
	next.end(queryDesc);
	if (unlikely(IsParallelWorker()))
		worker_executor_end(queryDesc);
}

static void watch_executor(void);

/*
 * A utility statement that a part of the library wants to see, or that may run
 * queries.
 */
static pg_noinline void
watched_utility(PROCESSUTILITY_PARAMS_compat)
{
	Node	   *statement = pstmt->utilityStmt;
	PtQuery		query;

	/*
	 * The user's own CREATE TABLE AS, EXPLAIN or EXECUTE is as good as the
	 * query in it; others may run queries of functions.
	 */
	bool		transparent = context == PROCESS_UTILITY_TOPLEVEL &&
		(IsA(statement, CreateTableAsStmt) || IsA(statement, ExplainStmt) || IsA(statement, ExecuteStmt));

	if (IsA(statement, CreateTableAsStmt) || IsA(statement, ExplainStmt) || fastload_may_copy(statement))
		watch_executor();
	if (unlikely(pt_running.fills > 0))
		fastload_before_utility(statement);
	if (pool_descriptor() < 0)
		pool_before_utility(statement);

	query_push(&query);
	if (IsA(statement, CreateTableAsStmt) && IsA(((CreateTableAsStmt *) statement)->query, Query))
		query.fills_new = query_into_temporary(((CreateTableAsStmt *) statement)->into);
	if (!transparent)
		pt_running.utility_depth++;
	if (IsA(statement, ExplainStmt))
		pt_running.explain_depth++;
	PG_TRY();
	{
		if (fastload_may_copy(statement))
			fastload_copy_begin(&query, (CopyStmt *) statement);
		next.utility(PROCESSUTILITY_ARGS_compat);
		if (query.fill != NULL)
		{
			Oid			relid = query.fill->relid;

			fastload_copy_end(&query);
			gathered_copied(relid);
		}
	}
	PG_FINALLY();
	{
		query_pop(&query);
	}
	PG_END_TRY();
}

static void pg_attribute_hot
hook_ProcessUtility(PROCESSUTILITY_PARAMS_compat)
{
	switch (nodeTag(pstmt->utilityStmt))
	{
			/* Short, many, and no business of ours. */
		case T_CreateStmt:
		case T_TruncateStmt:
		case T_DropStmt:
			if (unlikely(pt_running.fills > 0))
				watched_utility(PROCESSUTILITY_ARGS_compat);
			else
				next.utility(PROCESSUTILITY_ARGS_compat);
			break;
		case T_TransactionStmt:
		case T_VariableSetStmt:
			next.utility(PROCESSUTILITY_ARGS_compat);
			break;
		default:
			watched_utility(PROCESSUTILITY_ARGS_compat);
			break;
	}
}

static void pg_attribute_hot
hook_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (next.object_access)
		next.object_access(access, classId, objectId, subId, arg);
	if (access == OAT_POST_CREATE && classId == RelationRelationId && subId == 0 && !IsBootstrapProcessingMode())
		fastload_ctas_saw_relation(objectId);
	if (access == OAT_DROP && classId == RelationRelationId && subId == 0)
		gathered_dropped(objectId);
}

static void
note_depth_at_start(int level)
{
	if (level >= levels)
	{
		int			wanted = Max(16, 2 * level);

		depth_at_start = depth_at_start == NULL ?
			MemoryContextAlloc(TopMemoryContext, wanted * sizeof(int)) :
			repalloc(depth_at_start, wanted * sizeof(int));
		levels = wanted;
	}
	depth_at_start[level] = query_executor_depth();
}

static void
subtransaction_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_START_SUB)
		note_depth_at_start(level);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		pt_running.executor_depth = depth_at_start[level];
		gathered_end_level(level, true);
		if (unlikely(pt_running.fills > 0))
			fastload_plans_end_level(level, true);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		gathered_end_level(level, false);
		if (unlikely(pt_running.fills > 0))
			fastload_plans_end_level(level, false);
	}
}

/*
 * Who sets a hook for a while puts back what was there when he came, and that may have
 * been before ours: then ours is gone, for nothing below it calls it.
 */
static void
put_back_hooks(void)
{
	if (unlikely((ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart) == next.start))
		ExecutorStart_hook = hook_ExecutorStart;
	if (unlikely((ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun) == next.run))
		ExecutorRun_hook = hook_ExecutorRun;
	if (unlikely((ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd) == next.end))
		ExecutorEnd_hook = hook_ExecutorEnd;
}

static void
watch_executor(void)
{
	if (watching)
	{
		put_back_hooks();
		return;
	}

	/* The subtransactions that have started already count from here. */
	for (int level = 1; level <= GetCurrentTransactionNestLevel(); level++)
		note_depth_at_start(level);
	RegisterSubXactCallback(subtransaction_callback, NULL);
	next.start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = hook_ExecutorStart;
	next.run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = hook_ExecutorRun;
	next.end = ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd;
	ExecutorEnd_hook = hook_ExecutorEnd;
	watching = true;
}

/*
 * A parallel worker of a server that has the library preloaded gets no call of ours
 * before its plan starts, but for this: it forgets all caches when it has its
 * leader's state.  The cache that we register for hardly ever changes otherwise.
 */
static void
caches_forgotten(Datum arg, int cacheid, uint32 hashvalue)
{
	if (IsParallelWorker())
		watch_executor();
}

void
hooks_install(void)
{
	query_watch_executor_by(watch_executor);
	next.utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = hook_ProcessUtility;
	next.object_access = object_access_hook;
	object_access_hook = hook_object_access;
	CacheRegisterSyscacheCallback(TSTEMPLATEOID, caches_forgotten, (Datum) 0);
}

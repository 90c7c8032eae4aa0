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
 * through hooks_watch_executor().
 *
 * PG_TRY in ExecutorRun would cost as much as all the rest here.  So a run that fails
 * leaves the depth of nesting too large, and it is put right where an error can be
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
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "compat_executor.h"
#include "hooks.h"
#include "load/fastload.h"
#include "parallel/pool.h"
#include "parallel/worker.h"

Statements	statements pg_attribute_aligned(PG_CACHE_LINE_SIZE);

/* executor_depth when the subtransaction of each nesting level started */
static int *depth_at_start = NULL;
static int	levels = 0;

/* The executor's hooks are set. */
static bool watching = false;

int			pg_attribute_hot
executor_depth(void)
{
	return statements.transaction == CurrentLxid_compat ? statements.executor_depth : 0;
}

int
utility_depth(void)
{
	return statements.utility_depth;
}

bool
explaining(void)
{
	return statements.explain_depth > 0;
}

static void pg_attribute_hot
hook_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	if (unlikely(statements.fills != NULL))
		fastload_before_plan(queryDesc->plannedstmt);
	if (unlikely(IsParallelWorker()))
		worker_executor_start(queryDesc);
	else if (queryDesc->operation == CMD_INSERT)
		pool_before_insert(queryDesc->plannedstmt);
	statements.next_start(queryDesc, eflags);
}

static void pg_attribute_hot
hook_ExecutorRun(EXECUTORRUN_PARAMS_compat)
{
	int			depth = executor_depth();

	/* A cursor that is fetched from has started long ago. */
	if (unlikely(statements.fills != NULL))
		fastload_before_plan(queryDesc->plannedstmt);
	statements.transaction = CurrentLxid_compat;
	statements.executor_depth = depth + 1;
	if (unlikely(queryDesc->operation == CMD_INSERT || (queryDesc->dest && queryDesc->dest->mydest == DestIntoRel)))
		fastload_run(EXECUTORRUN_ARGS_compat);
	else
		hooks_run(EXECUTORRUN_ARGS_compat);
	statements.executor_depth = depth;
}

/*
 * A run of the executor, after fast load has had its look at it.
 */
void		pg_attribute_hot
hooks_run(EXECUTORRUN_PARAMS_compat)
{
	if (unlikely(queryDesc->plannedstmt->parallelModeNeeded || IsParallelWorker()))
		pool_run(EXECUTORRUN_ARGS_compat);
	else
		statements.next_run(EXECUTORRUN_ARGS_compat);
}

static void pg_attribute_hot
hook_ExecutorEnd(QueryDesc *queryDesc)
{
	if (unlikely(statements.explained != NULL))
		fastload_print();
	statements.next_end(queryDesc);
	if (unlikely(IsParallelWorker()))
		worker_executor_end(queryDesc);
}

/*
 * A utility statement that a part of the library wants to see, or that may run
 * queries.
 */
static pg_noinline void
watched_utility(PROCESSUTILITY_PARAMS_compat)
{
	Node	   *statement = pstmt->utilityStmt;
	volatile int outer_executor = executor_depth();
	volatile int outer_utility = statements.utility_depth;
	volatile int outer_explain = statements.explain_depth;

	/*
	 * The user's own CREATE TABLE AS, EXPLAIN or EXECUTE is as good as the
	 * query in it; others may run queries of functions.
	 */
	bool		transparent = context == PROCESS_UTILITY_TOPLEVEL &&
		(IsA(statement, CreateTableAsStmt) || IsA(statement, ExplainStmt) || IsA(statement, ExecuteStmt));

	if (!watching && (IsA(statement, CreateTableAsStmt) || IsA(statement, ExplainStmt) || fastload_may_copy(statement)))
		hooks_watch_executor();
	if (unlikely(statements.fills != NULL))
		fastload_before_utility(statement);
	if (pool_descriptor() < 0)
		pool_before_utility(statement);

	if (!transparent)
		statements.utility_depth++;
	if (IsA(statement, ExplainStmt))
		statements.explain_depth++;
	PG_TRY();
	{
		if (fastload_may_copy(statement))
			fastload_copy(PROCESSUTILITY_ARGS_compat);
		else
			statements.next_utility(PROCESSUTILITY_ARGS_compat);
	}
	PG_FINALLY();
	{
		statements.executor_depth = outer_executor;
		statements.utility_depth = outer_utility;
		statements.explain_depth = outer_explain;
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
			if (unlikely(statements.fills != NULL))
			{
				watched_utility(PROCESSUTILITY_ARGS_compat);
				break;
			}
			/* FALLTHROUGH */
		case T_TransactionStmt:
		case T_VariableSetStmt:
			statements.next_utility(PROCESSUTILITY_ARGS_compat);
			break;
		default:
			watched_utility(PROCESSUTILITY_ARGS_compat);
			break;
	}
}

static void pg_attribute_hot
hook_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (statements.next_object_access)
		statements.next_object_access(access, classId, objectId, subId, arg);
	if (access == OAT_POST_CREATE && classId == RelationRelationId && subId == 0 && !IsBootstrapProcessingMode())
		fastload_ctas_saw_relation(objectId);
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
	depth_at_start[level] = executor_depth();
}

static void
subtransaction_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_START_SUB)
		note_depth_at_start(level);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		statements.executor_depth = depth_at_start[level];
}

void
hooks_watch_executor(void)
{
	if (watching)
		return;

	/* The subtransactions that have started already count from here. */
	for (int level = 1; level <= GetCurrentTransactionNestLevel(); level++)
		note_depth_at_start(level);
	RegisterSubXactCallback(subtransaction_callback, NULL);
	statements.next_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = hook_ExecutorStart;
	statements.next_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = hook_ExecutorRun;
	statements.next_end = ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd;
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
		hooks_watch_executor();
}

void
hooks_install(void)
{
	statements.next_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = hook_ProcessUtility;
	statements.next_object_access = object_access_hook;
	object_access_hook = hook_object_access;
	CacheRegisterSyscacheCallback(TSTEMPLATEOID, caches_forgotten, (Datum) 0);
}

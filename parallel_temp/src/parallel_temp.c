/*-------------------------------------------------------------------------
 *
 * parallel_temp.c
 *	  Entry points: library initialization, and the hooks on the way of every statement.
 *
 * The library works preloaded (shared_ or session_preload_libraries) and loaded by LOAD or
 * by the first call of one of its functions.  All hooks are installed when it is loaded;
 * each keeps the hook that was there before and calls it.  Most statements have nothing to
 * do with temporary tables, so each hook returns to the next one after a few instructions
 * if no part of the library has something to do.
 *
 * A statement that the library has to do with gets a record (query.c), pushed and popped
 * here around its run.  The PG_TRY of that would cost others as much as all the rest here.
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
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"

#include "compat_executor.h"
#include "compat_module.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "plan/plan.h"
#include "query.h"
#include "scan/scan.h"
#include "share/share.h"
#include "statistics/gathered.h"

PG_MODULE_MAGIC_COMPAT("parallel_temp");

void		_PG_init(void);

/* The hooks that were there before, or the server's functions. */
static struct
{
	ExecutorStart_hook_type start;
	ExecutorRun_hook_type run;
	ExecutorEnd_hook_type end;
	object_access_hook_type object_access;	/* may be NULL */
	ProcessUtility_hook_type utility;
} next		pg_attribute_aligned(PG_CACHE_LINE_SIZE);

static void pg_attribute_hot
hook_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	if (unlikely(pt_running.fills > 0))
		pt_load_plan_starts(queryDesc);
	if (unlikely(pt_running.explained != NULL))
		pt_load_explain_start(queryDesc, eflags);
	if (unlikely(IsParallelWorker()))
		pt_worker_executor_start(queryDesc);
	else
	{
		if (queryDesc->operation == CMD_INSERT)
			pt_pool_before_insert(queryDesc->plannedstmt);
		if (queryDesc->plannedstmt->parallelModeNeeded)
			pt_plan_fill_start(queryDesc);
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

	pt_query_push(&query);
	PG_TRY();
	{
		pt_query_set_run(&query, queryDesc);
		if (pt_load_may_fill(queryDesc))
			pt_load_run_begin(&query);
		if (queryDesc->plannedstmt->parallelModeNeeded || IsParallelWorker())
			pt_run_parallel_plan(&query, next.run, EXECUTORRUN_ARGS_compat);
		else
			next.run(EXECUTORRUN_ARGS_compat);
		if (query.fill != NULL)
			pt_load_run_end(&query);
	}
	PG_FINALLY();
	{
		pt_query_pop(&query);
		pt_load_run_leave(&query);
	}
	PG_END_TRY();
}

static void pg_attribute_hot
hook_ExecutorRun(EXECUTORRUN_PARAMS_compat)
{
	/* A cursor that is fetched from has started long ago. */
	if (unlikely(pt_running.fills > 0))
		pt_load_before_plan(queryDesc->plannedstmt);
	if (unlikely(queryDesc->plannedstmt->parallelModeNeeded || IsParallelWorker() || pt_load_may_fill(queryDesc)))
		run_recorded(EXECUTORRUN_ARGS_compat);
	else
		next.run(EXECUTORRUN_ARGS_compat);
	if (unlikely(pt_gathered_tables > 0 && (queryDesc->operation != CMD_SELECT || queryDesc->plannedstmt->hasModifyingCTE)))
		pt_gathered_count_changes(queryDesc);
}

static void pg_attribute_hot
hook_ExecutorEnd(QueryDesc *queryDesc)
{
	if (unlikely(pt_running.explained != NULL))
		pt_load_print(queryDesc);
	if (unlikely(pt_running.fills > 0))
		pt_load_open_plans_end(queryDesc, 0, false);
	next.end(queryDesc);
	if (unlikely(IsParallelWorker()))
		pt_worker_executor_end(queryDesc);
}

/*
 * A utility statement that a part of the library wants to see, or that may run
 * queries.
 */
static pg_noinline void
watched_utility(PROCESSUTILITY_PARAMS_compat)
{
	Node	   *statement = pstmt->utilityStmt;
	int			utility_depth = pt_running.utility_depth;
	int			explain_depth = pt_running.explain_depth;
	PtQuery		query;

	/*
	 * The user's own CREATE TABLE AS, EXPLAIN or EXECUTE is as good as the
	 * query in it; others may run queries of functions.
	 */
	bool		transparent = context == PROCESS_UTILITY_TOPLEVEL &&
		(IsA(statement, CreateTableAsStmt) || IsA(statement, ExplainStmt) || IsA(statement, ExecuteStmt));

	if (unlikely(pt_running.fills > 0))
		pt_load_before_utility(statement);
	if (pt_pool_descriptor() < 0)
		pt_pool_before_utility(statement);

	pt_query_push(&query);
	if (IsA(statement, CreateTableAsStmt) && pt_query_into_temporary(((CreateTableAsStmt *) statement)->into))
	{
		query.fills_new = (Query *) ((CreateTableAsStmt *) statement)->query;
		query.fills_new_text = queryString;
	}
	if (!transparent)
		pt_running.utility_depth++;
	if (IsA(statement, ExplainStmt))
		pt_running.explain_depth++;
	PG_TRY();
	{
		next.utility(PROCESSUTILITY_ARGS_compat);
		if (pt_gathered_tables > 0 && IsA(statement, CopyStmt))
			pt_gathered_after_copy((CopyStmt *) statement);
	}
	PG_FINALLY();
	{
		pt_query_pop(&query);
		pt_running.utility_depth = utility_depth;
		pt_running.explain_depth = explain_depth;
	}
	PG_END_TRY();
}

static void pg_attribute_hot
hook_ProcessUtility(PROCESSUTILITY_PARAMS_compat)
{
	switch (nodeTag(pstmt->utilityStmt))
	{
			/* Short, frequent, and irrelevant here. */
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
		pt_load_ctas_saw_relation(objectId);
	if (access == OAT_DROP && classId == RelationRelationId && subId == 0)
		pt_gathered_dropped(objectId);
}

static void
subtransaction_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	bool		aborted = event == SUBXACT_EVENT_ABORT_SUB;

	if (!aborted && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	pt_gathered_end_level(level, aborted);
	if (unlikely(pt_running.fills > 0))
		pt_load_open_plans_end(NULL, level, aborted);
}

void
_PG_init(void)
{
	pt_define_settings();
	pt_scan_install();
	pt_filler_install();
	pt_plan_install();
	pt_gathered_install();
	pt_load_explain_install();
	RegisterSubXactCallback(subtransaction_callback, NULL);

	next.start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	next.run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	next.end = ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd;
	next.utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	next.object_access = object_access_hook;
	pt_query_set_executor_hooks(hook_ExecutorStart, hook_ExecutorRun, hook_ExecutorEnd);
	ProcessUtility_hook = hook_ProcessUtility;
	object_access_hook = hook_object_access;
}

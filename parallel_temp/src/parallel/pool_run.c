/*-------------------------------------------------------------------------
 *
 * pool_run.c
 *	  What happens when a query that reads temporary tables in parallel runs, in
 *	  the leader and in its workers.
 *
 * The leader shares what the plan's workers will read before the executor runs
 * the plan, and takes it back afterwards, when no worker is left.  How workers
 * learn of it: the executor sends its range table to every worker, so an entry
 * that stands for no relation is added to it whose alias carries the handle of
 * the shared area.  A worker looks for that entry when its executor starts
 * (worker.c).  This reaches every worker of every Gather, whatever nodes its part
 * of the plan has.
 *
 * A plan whose temporary tables cannot be shared at this moment is run by the
 * leader alone, exactly as core runs a parallel plan through a cursor.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat_executor.h"
#include "parallel/plan_insert.h"
#include "parallel/pool.h"
#include "parallel/scan.h"
#include "parallel/stats.h"
#include "parallel/worker.h"
#include "parallel_temp.h"

Share *
share_of(EState *estate)
{
	for (PtQuery *query = pt_running.innermost; query != NULL; query = query->outer)
	{
		if (query->share != NULL && query->queryDesc->estate == estate)
			return query->share;
	}
	return NULL;
}

static bool
pool_has_temporary_table(List *rtable)
{
	ListCell   *lc;

	foreach(lc, rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION &&
			get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
			return true;
	}
	return false;
}

static RangeTblEntry *
pool_share_entry(Share *share)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	char	   *handle = psprintf("%u", dsm_segment_handle(share->segment));

	rte->rtekind = RTE_RESULT;
	rte->alias = makeAlias(SHARE_ALIAS, list_make1(makeString(handle)));
	rte->eref = rte->alias;
	return rte;
}

/*
 * Run a plan in the leader alone, though it has a Gather.
 */
static void
pool_run_without_workers(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat)
{
	PlannedStmt alone = *query->plannedstmt;

	/* after an error query_pop() puts the plan back */
	alone.parallelModeNeeded = false;
	queryDesc->plannedstmt = &alone;
	next(EXECUTORRUN_ARGS_compat);
	queryDesc->plannedstmt = query->plannedstmt;
}

static void
pool_run_with_share(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat)
{
	EState	   *estate = queryDesc->estate;
	Share	   *share = query->share;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	/* query_pop() puts both back */
	estate->es_range_table = lappend(list_copy(query->range_table), pool_share_entry(share));
	MemoryContextSwitchTo(old);
	if (share->leader_stays_out)
	{
		query->participation = parallel_leader_participation;
		query->stays_out = true;
		parallel_leader_participation = false;
	}
	temp_scan_prepare(queryDesc);
	next(EXECUTORRUN_ARGS_compat);

	/* On an ERROR the resource owner gives back pins and segment instead. */
	query->share = NULL;
	temp_scan_finish(queryDesc->planstate, share);
	scan_tidy_after(share->area, estate->es_snapshot);
	share_end(share);
}

/*
 * Why the rows that a statement inserts must be made without workers after all, or NULL.
 */
static const char *
insertion_refusal(QueryDesc *queryDesc, uint64 count)
{
	ModifyTableState *state = (ModifyTableState *) queryDesc->planstate;

	if (!IsA(state, ModifyTableState))
		return "not a plan of this library";
	if (!pt_enabled || !pt_parallel_insert)
		return "parallel_temp.parallel_insert is off";
	/* core would run it alone, too, but for some minor releases */
	if (count != 0)
		return "not all rows are asked for";
	return insert_target_refusal(state->resultRelInfo->ri_RelationDesc);
}

void
pool_run(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat)
{
	TempPlan	plan;
	bool		temporary;
	const char *reason = NULL;

	if (IsParallelWorker())
	{
		if (worker_leaves_work(queryDesc))
			return;
		if (worker_area())
			temp_scan_prepare(queryDesc);
		next(EXECUTORRUN_ARGS_compat);
		return;
	}

	if (queryDesc->operation == CMD_INSERT)
	{
		reason = insertion_refusal(queryDesc, count);
		if (reason != NULL)
		{
			stats_count_alone(reason);
			pool_run_without_workers(query, next, EXECUTORRUN_ARGS_compat);
			return;
		}
		/* nobody can get one while there are workers */
		(void) GetCurrentTransactionId();
	}

	temporary = pool_has_temporary_table(queryDesc->plannedstmt->rtable);
	if (pt_enabled)
		fetch_values_for_workers(queryDesc, temporary);
	if (!temporary)
	{
		next(EXECUTORRUN_ARGS_compat);
		return;
	}

	temp_plan_collect(queryDesc->plannedstmt, &plan);
	if (!plan.below)
	{
		next(EXECUTORRUN_ARGS_compat);
		return;
	}

	/*
	 * The server runs the plan of a cursor or of a FOR loop without workers;
	 * some minor releases do so only if it may run more than once.
	 */
	if (count != 0)
	{
		pool_run_without_workers(query, next, EXECUTORRUN_ARGS_compat);
		return;
	}
	if (!pt_enabled)
		reason = "parallel_temp.enabled is off";
	else if (plan.unsafe_node)
		reason = "a node of the plan cannot read a temporary table in a worker";
	if (reason == NULL)
		query->share = share_begin(queryDesc, &plan, &reason);
	if (query->share != NULL)
		pool_run_with_share(query, next, EXECUTORRUN_ARGS_compat);
	else
	{
		stats_count_alone(reason);
		pool_run_without_workers(query, next, EXECUTORRUN_ARGS_compat);
	}
}

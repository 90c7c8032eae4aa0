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
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat_executor.h"
#include "hooks.h"
#include "parallel/pool.h"
#include "parallel/scan.h"
#include "parallel/stats.h"
#include "parallel/worker.h"
#include "parallel_temp.h"

/* The shares of the queries that are running, innermost first. */
static Share *shares = NULL;

Share *
share_of(EState *estate)
{
	for (Share *share = shares; share != NULL; share = share->outer)
	{
		if (share->estate == estate)
			return share;
	}
	return NULL;
}

static bool
has_temporary_table(List *rtable)
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
share_entry(Share *share)
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
run_without_workers(EXECUTORRUN_PARAMS_compat)
{
	PlannedStmt *stmt = queryDesc->plannedstmt;
	PlannedStmt alone = *stmt;

	alone.parallelModeNeeded = false;
	queryDesc->plannedstmt = &alone;
	PG_TRY();
	{
		statements.next_run(EXECUTORRUN_ARGS_compat);
	}
	PG_FINALLY();
	{
		queryDesc->plannedstmt = stmt;
	}
	PG_END_TRY();
}

static void
run_with_share(Share *share, EXECUTORRUN_PARAMS_compat)
{
	EState	   *estate = queryDesc->estate;
	List	   *range_table = estate->es_range_table;
	bool		participation = parallel_leader_participation;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	estate->es_range_table = lappend(list_copy(range_table), share_entry(share));
	MemoryContextSwitchTo(old);
	share->outer = shares;
	shares = share;
	if (share->leader_stays_out)
		parallel_leader_participation = false;
	PG_TRY();
	{
		temp_scan_prepare(queryDesc);
		statements.next_run(EXECUTORRUN_ARGS_compat);
	}
	PG_FINALLY();
	{
		shares = share->outer;
		estate->es_range_table = range_table;
		parallel_leader_participation = participation;
	}
	PG_END_TRY();

	/* On an ERROR the resource owner gives back pins and segment instead. */
	temp_scan_finish(queryDesc->planstate, share);
	scan_tidy_after(share->area, estate->es_snapshot);
	share_end(share);
}

/*
 * Run a plan with parallel parts, or a part of one in a worker.
 */
void
pool_run(EXECUTORRUN_PARAMS_compat)
{
	TempPlan	plan;
	Share	   *share;
	bool		temporary;
	const char *reason = NULL;

	if (IsParallelWorker())
	{
		if (worker_leaves_work(queryDesc))
			return;
		if (worker_area())
			temp_scan_prepare(queryDesc);
		statements.next_run(EXECUTORRUN_ARGS_compat);
		return;
	}

	temporary = has_temporary_table(queryDesc->plannedstmt->rtable);
	if (pt_enabled)
		fetch_values_for_workers(queryDesc, temporary);
	if (!temporary)
	{
		statements.next_run(EXECUTORRUN_ARGS_compat);
		return;
	}

	temp_plan_collect(queryDesc->plannedstmt, &plan);
	if (!plan.below)
	{
		statements.next_run(EXECUTORRUN_ARGS_compat);
		return;
	}

	/*
	 * The server runs the plan of a cursor or of a FOR loop without workers;
	 * some minor releases do so only if it may run more than once.
	 */
	if (count != 0)
	{
		run_without_workers(EXECUTORRUN_ARGS_compat);
		return;
	}
	if (!pt_enabled)
		reason = "parallel_temp.enabled is off";
	else if (plan.unsafe_node)
		reason = "a node of the plan cannot read a temporary table in a worker";
	share = reason ? NULL : share_begin(queryDesc, &plan, &reason);
	if (share)
		run_with_share(share, EXECUTORRUN_ARGS_compat);
	else
	{
		stats_count_alone(reason);
		run_without_workers(EXECUTORRUN_ARGS_compat);
	}
}

/*-------------------------------------------------------------------------
 *
 * scan_run.c
 *	  What happens when a query that reads temporary tables in parallel runs, in
 *	  the leader and in its workers.
 *
 * The leader shares what the plan's workers will read before the executor runs
 * the plan, and unshares it afterwards, when no worker is left.  Workers
 * find it as follows: the executor sends its range table to every worker, so an entry
 * without a relation is added to it whose alias contains the handle of
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

#include "compat_executor.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "scan/scan.h"
#include "share/share.h"

PtShare *
pt_share_of(EState *estate)
{
	for (PtQuery *query = pt_running.innermost; query != NULL; query = query->outer)
	{
		if (query->share != NULL && query->queryDesc->estate == estate)
			return query->share;
	}
	return NULL;
}

static RangeTblEntry *
share_entry(PtShare *share)
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
run_without_workers(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat)
{
	PlannedStmt alone = *query->plannedstmt;

	/* after an error pt_query_pop() puts the plan back */
	alone.parallelModeNeeded = false;
	queryDesc->plannedstmt = &alone;
	next(EXECUTORRUN_ARGS_compat);
	queryDesc->plannedstmt = query->plannedstmt;
}

static void
run_with_share(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat)
{
	EState	   *estate = queryDesc->estate;
	PtShare    *share = query->share;
	int			nest_level = 0;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	/* pt_query_pop() puts it back */
	estate->es_range_table = lappend(list_copy(query->range_table), share_entry(share));
	MemoryContextSwitchTo(old);
	if (share->leader_stays_out)
	{
		/* an error ends the nest level with the (sub)transaction */
		nest_level = NewGUCNestLevel();
		(void) set_config_option("parallel_leader_participation", "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	}
	pt_scan_prepare(queryDesc);
	next(EXECUTORRUN_ARGS_compat);
	if (nest_level > 0)
		AtEOXact_GUC(true, nest_level);

	/* On an ERROR the resource owner releases pins and segment instead. */
	query->share = NULL;
	(void) pt_scan_finish(queryDesc->planstate, share);
	pt_scan_set_hint_bits(share->area, estate->es_snapshot);
	pt_share_end(share);
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
	/* core would run it alone as well, except in some minor releases */
	if (count != 0)
		return "not all rows are asked for";
	return pt_insert_target_refusal(state->resultRelInfo->ri_RelationDesc);
}

void
pt_run_parallel_plan(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat)
{
	TempPlan	plan;
	const char *reason = NULL;

	if (IsParallelWorker())
	{
		if (pt_worker_leaves_work(queryDesc))
			return;
		if (pt_worker.area)
			pt_scan_prepare(queryDesc);
		next(EXECUTORRUN_ARGS_compat);
		return;
	}

	if (queryDesc->operation == CMD_INSERT)
	{
		reason = insertion_refusal(queryDesc, count);
		if (reason != NULL)
		{
			pt_count_run_alone(reason);
			run_without_workers(query, next, EXECUTORRUN_ARGS_compat);
			return;
		}
		/* none can be assigned while there are workers */
		(void) GetCurrentTransactionId();
	}

	pt_temp_plan_collect(queryDesc->plannedstmt, &plan);
	if (pt_enabled)
		pt_fetch_values_for_workers(queryDesc, plan.uses != NIL);
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
		run_without_workers(query, next, EXECUTORRUN_ARGS_compat);
		return;
	}
	if (!pt_enabled)
		reason = "parallel_temp.enabled is off";
	else if (plan.unsafe_node)
		reason = "a node of the plan cannot read a temporary table in a worker";
	if (reason == NULL)
		query->share = pt_share_begin(queryDesc, &plan, &reason);
	if (query->share != NULL)
		run_with_share(query, next, EXECUTORRUN_ARGS_compat);
	else
	{
		pt_count_run_alone(reason);
		run_without_workers(query, next, EXECUTORRUN_ARGS_compat);
	}
}

/*
 * What EXPLAIN shows of a temp scan.  Without ANALYZE: the planned method.  With ANALYZE:
 * the pages that leader and workers read together.  They are those of our scans of the
 * table, whatever node of the plan caused them.
 */
void
pt_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	TempScanState *scan = (TempScanState *) node;
	const char *method = scan->reported ? scan->method : scan->plan.flush ? "flush" : "share";

	if (es->analyze && !scan->reported)
		method = "none";
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Temp Method", method, es);
		if (es->analyze)
		{
			ExplainPropertyInteger("Temp Pages Shared", NULL, scan->shared_pages, es);
			ExplainPropertyInteger("Temp Pages Flushed", NULL, scan->flushed, es);
			ExplainPropertyInteger("Hash Lookups Prefetched", NULL, scan->prefetches, es);
			if (es->buffers)
			{
				ExplainPropertyInteger("Temp Pool Reads", NULL, scan->pool_reads, es);
				ExplainPropertyInteger("Temp File Reads", NULL, scan->file_reads, es);
			}
		}
		return;
	}

	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Temp Pages: method=%s", method);
	if (es->analyze && scan->reported)
	{
		appendStringInfo(es->str, " shared=" INT64_FORMAT " flushed=" INT64_FORMAT,
						 scan->shared_pages, scan->flushed);
		if (es->buffers)
			appendStringInfo(es->str, " pool=" INT64_FORMAT " file=" INT64_FORMAT,
							 scan->pool_reads, scan->file_reads);
		if (scan->prefetches > 0)
			appendStringInfo(es->str, " prefetched=" INT64_FORMAT, scan->prefetches);
	}
	appendStringInfoChar(es->str, '\n');
}

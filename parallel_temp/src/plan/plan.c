/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  The planner hook: at most two planner runs, and the check of the second one's plan.
 *
 * A query that may read temporary tables is first planned by the server alone.  If that plan
 * reads one and is expensive enough (pt_second_run_bound()), a copy of the query is planned
 * again.  In this run our path hooks add paths by which workers read temporary tables, and
 * all paths of these tables cost what their pages cost where they are, so add_path()
 * chooses between serial and parallel ones.  The server's plan is used unless workers read
 * a temporary table in the new one: a plan without workers is always the server's.
 *
 * INSERT ... SELECT into a temporary table is planned by the server, and its SELECT in the
 * second run (plan_insert.c).  For CREATE TABLE AS the first run also offers workers that
 * fill pages (plan_fill.c).
 *
 * The new plan is walked before it is used: if workers would run a node on a temporary
 * table that only the leader can run, the server's plan is used as well.  (The executor
 * hook checks again, because plans may come from elsewhere.)
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "buffers/buffers.h"
#include "compat_planner.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "plan/plan.h"
#include "query.h"
#include "scan/scan.h"
#include "share/share.h"

static planner_hook_type previous_planner = NULL;

PtPlanning *
pt_current_planning(void)
{
	for (PtQuery *query = pt_running.innermost; query != NULL; query = query->outer)
	{
		if (query->plans)
			return query->planning;
	}
	return NULL;
}

/*
 * Is one of these functions in FROM not built in?  Its body may be put in
 * its place later, with the tables that it reads.
 */
static bool
calls_users_function(List *functions)
{
	ListCell   *lc;

	foreach(lc, functions)
	{
		Node	   *call = lfirst_node(RangeTblFunction, lc)->funcexpr;

		if (IsA(call, FuncExpr) && ((FuncExpr *) call)->funcid >= FirstUnpinnedObjectId)
			return true;
	}
	return false;
}

/*
 * May the query read a temporary table?
 */
static bool
mentions_temporary(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_FUNCTION)
			return calls_users_function(rte->functions);
		/* A target of INSERT has a stronger lock. */
		if (rte->rtekind != RTE_RELATION || rte->rellockmode > RowShareLock)
			return false;
		if (get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
			return true;
		/* A temporary table may inherit from a permanent one. */
		return rte->inh && rte->relkind == RELKIND_RELATION && has_subclass(rte->relid);
	}
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		/* Without sublinks only the range table and WITH name relations. */
		if (!query->hasSubLinks)
			return range_table_walker(query->rtable, mentions_temporary, context, QTW_EXAMINE_RTES_BEFORE) ||
				(query->cteList != NIL && mentions_temporary((Node *) query->cteList, context));
		return query_tree_walker(query, mentions_temporary, context, QTW_EXAMINE_RTES_BEFORE);
	}
	return expression_tree_walker(node, mentions_temporary, context);
}

/*
 * May the statement have a hint for pg_hint_plan, which may ask for workers?
 */
static bool
has_hint(const char *query_string)
{
	return query_string != NULL && strstr(query_string, "/*+") != NULL;
}

/*
 * May the query read a temporary table?  "small" is set if one is all that it reads
 * and workers would not be used for so small a table.  Such queries are short and
 * many, so what is done for others is saved.
 */
static bool pg_attribute_hot
reads_temporary(Query *parse, const char *query_string, bool *small)
{
	RangeTblEntry *rte;
	Relation	rel;
	bool		temporary;

	*small = false;
	if (parse->hasSubLinks || parse->cteList != NIL || QueryRelations_compat(parse) != 1)
		return mentions_temporary((Node *) parse, NULL);
	rte = linitial_node(RangeTblEntry, parse->rtable);
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION)
		return mentions_temporary((Node *) parse, NULL);

	rel = table_open(rte->relid, NoLock);
	temporary = rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
		(rte->inh && rel->rd_rel->relhassubclass);
	if (temporary && !rel->rd_rel->relhassubclass && rel->rd_islocaltemp && !pt_debug_force && !has_hint(query_string))
		*small = RelationGetParallelWorkers(rel, -1) < 0 &&
			pt_relfile_known_blocks(rel) < (BlockNumber) min_parallel_table_scan_size;
	table_close(rel, NoLock);
	return temporary;
}

static PlannedStmt *pg_attribute_hot
plan_next(PLANNER_PARAMS_compat)
{
	if (previous_planner)
		return previous_planner(PLANNER_ARGS_compat);
	return standard_planner(PLANNER_ARGS_compat);
}

/*
 * Plan within a frame; "frame" is NULL if the library takes no part.
 */
static PlannedStmt *
plan_framed(PtPlanning *frame, PLANNER_PARAMS_compat)
{
	PlannedStmt *volatile result = NULL;
	bool		last = frame != NULL && pt_plan_paths_come_last();
	PtQuery		query;

	pt_query_push(&query);
	query.plans = true;
	query.planning = frame;
	PG_TRY();
	{
		result = plan_next(PLANNER_ARGS_compat);
	}
	PG_FINALLY();
	{
		pt_query_pop(&query);
		if (last)
			pt_plan_paths_restore_order();
	}
	PG_END_TRY();
	return result;
}

/*
 * Plan as if the library were not there.  A frame of an outer query must not be
 * taken for this one's.
 */
static PlannedStmt *pg_attribute_hot
plan_without_us(PLANNER_PARAMS_compat)
{
	if (likely(pt_current_planning() == NULL))
		return plan_next(PLANNER_ARGS_compat);
	return plan_framed(NULL, PLANNER_ARGS_compat);
}

/*
 * Plan with our paths on offer, at this parallel_setup_cost.
 */
static PlannedStmt *
plan_with_workers(PtPlanning *frame, Cost setup_cost, PLANNER_PARAMS_compat)
{
	int			nest_level = NewGUCNestLevel();
	PlannedStmt *result;

	frame->for_explain = pt_query_is_explained();
	frame->setup_scale = pt_plan_setup_scale();
	frame->settings = pt_cost_settings();
	pt_set_cost_setting("parallel_setup_cost", setup_cost);
	result = plan_framed(frame, PLANNER_ARGS_compat);
	AtEOXact_GUC(true, nest_level);
	return result;
}

/*
 * Does the query put more than a single row into a temporary table?
 */
static bool
fills_temporary(Query *parse)
{
	return parse->jointree->fromlist != NIL &&
		get_rel_persistence(rt_fetch(parse->resultRelation, parse->rtable)->relid) == RELPERSISTENCE_TEMP;
}

/*
 * The pages of all temporary tables of this plan.
 */
static double
temporary_pages(PlannedStmt *serial)
{
	List	   *seen = NIL;
	double		pages = 0;
	ListCell   *lc;

	foreach(lc, serial->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Relation	relation;

		if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION || list_member_oid(seen, rte->relid))
			continue;
		seen = lappend_oid(seen, rte->relid);
		relation = table_open(rte->relid, NoLock);
		if (relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
			pages += RelationGetNumberOfBlocks(relation);
		table_close(relation, NoLock);
	}
	return pages;
}

/*
 * The highest number of workers that divide a table of this plan.
 */
static int
most_workers(PlannedStmt *serial, bool leader)
{
	int			workers = 0;
	ListCell   *lc;

	foreach(lc, serial->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY && rte->inh)
			workers = Max(workers, 1);	/* a UNION ALL is an append relation */
		if (rte->rtekind != RTE_RELATION || rte->relkind == RELKIND_VIEW)
			continue;
		if (!rte->inh && (rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW))
		{
			Relation	relation = table_open(rte->relid, NoLock);

			workers = Max(workers, pt_table_workers(relation, leader, pt_plan_setup_scale()));
			table_close(relation, NoLock);
		}
		else
			/* members of append relations have no minimum size */
			workers = Max(workers, 1);
	}
	return workers;
}

/*
 * Plan a query a second time.  "serial" is the server's plan of the statement, which is
 * returned if there is no better one, and "pairs" the number of pairs of relations that its
 * planner run has joined.  If it is an insertion, "parse" is its SELECT.
 */
static PlannedStmt *
plan_again(PlannedStmt *serial, uint64 pairs, bool temporary, bool fills, PLANNER_PARAMS_compat)
{
	TempPlan	plan;
	PtPlanning	frame = {.temp_paths = temporary,.fills = fills,.serial = &plan};
	bool		insert = serial->commandType == CMD_INSERT;
	bool		replanned = false;
	int			workers;
	PlannedStmt *result;
	PtRefusal	refusal;
	Oid			function;

	/*
	 * The plan also has children of permanent tables, and the bodies of
	 * functions.
	 */
	pt_temp_plan_collect(serial, &plan);
	if (!insert && plan.uses == NIL)
		return serial;
	frame.leader_counts = pt_leader_counts(fills, temporary_pages(serial));
	workers = most_workers(serial, frame.leader_counts);

	/* Only another run finds each table's reason, and follows a hint. */
	if (!pt_explain_refusals && !ParallelIsTested_compat() && !pt_debug_force && !has_hint(query_string))
	{
		Cost		bound = pt_second_run_bound(serial, workers, pairs);

		elog(DEBUG1, "the server's plan costs %.2f, a second planner run pays from %.2f", serial->planTree->total_cost, bound);
		refusal = REFUSED_NOT;
		if (workers == 0)
			refusal = REFUSED_SMALL;
		else if (!PlanIsDisabled_compat(serial->planTree) && serial->planTree->total_cost < bound)
			refusal = REFUSED_COST;
		if (refusal != REFUSED_NOT)
		{
			pt_report_refusals(serial, refusal, InvalidOid);
			return serial;
		}
	}

	/* If the server finds a reason against workers, it would find it again. */
	refusal = pt_query_refusal(parse, &frame.unknown_function, &function);
	if (refusal != REFUSED_NOT)
	{
		pt_report_refusals(serial, refusal, function);
		return serial;
	}

	/* The user who gives a hint decides what is worth while. */
	result = plan_with_workers(&frame, has_hint(query_string) ? parallel_setup_cost : pt_second_run_setup_cost(serial, workers),
							   PLANNER_ARGS_compat);
	memset(&plan, 0, sizeof(plan));
	if (result->parallelModeNeeded)
		pt_temp_plan_collect(result, &plan);
	if (plan.unsafe_node)
	{
		ereport(DEBUG1,
				(errmsg_internal("%s of temporary table \"%s\" in a part of the plan that workers run: the server's plan is used",
								 plan.unsafe_node, get_rel_name(plan.unsafe_relid))));
		replanned = true;
		pt_counters.replanned++;
	}
	else if (plan.below ? frame.setup_scale == 0 || has_hint(query_string) || pt_workers_add_processes(&plan) : insert && result->parallelModeNeeded)
		serial = result;
	else
		memset(&plan, 0, sizeof(plan));
	pt_account_refusals(&frame, &plan, replanned);
	return serial;
}

/*
 * parallel_temp.debug_force, for tests: our scans in any plan.  There is a second run only if that
 * plan cannot be used.
 */
static PlannedStmt *
plan_forced(PLANNER_PARAMS_compat)
{
	PtPlanning	frame = {.temp_paths = true};
	TempPlan	plan = {0};
	Query	   *copy = copyObject(parse);
	PlannedStmt *result;
	Oid			function;

	if (pt_query_refusal(parse, &frame.unknown_function, &function) != REFUSED_NOT)
		return plan_without_us(PLANNER_ARGS_compat);
	result = plan_with_workers(&frame, parallel_setup_cost, PLANNER_ARGS_compat);
	if (result->parallelModeNeeded)
		pt_temp_plan_collect(result, &plan);
	if (plan.unsafe_node == NULL)
		return result;
	parse = copy;
	return plan_without_us(PLANNER_ARGS_compat);
}

/*
 * Is the query to be planned with our paths, as far as the session and its tables go?
 * "small" as of reads_temporary().
 */
static bool pg_attribute_hot
concerns_us(Query *parse, const char *query_string, bool *small)
{
	return pt_enabled && parse->commandType == CMD_SELECT && max_parallel_workers_per_gather > 0 &&
		!IsParallelWorker() && reads_temporary(parse, query_string, small);
}

/*
 * May the session have workers for a statement that fills a table?  EXPLAIN would show a
 * Gather that a setting for tests hides.
 */
static bool
may_have_workers(int cursor_options)
{
	return pt_enabled && max_parallel_workers_per_gather > 0 && !IsInParallelMode() &&
		(cursor_options & CURSOR_OPT_PARALLEL_OK) != 0 && !(InvisibleGather_compat() && pt_query_is_explained());
}

static bool
workers_may_fill(int cursor_options)
{
	return pt_fast_load && pt_fill_pages && may_have_workers(cursor_options);
}

/*
 * An insertion of a query's rows into a temporary table: the query gets workers if it
 * would alone.
 */
static PlannedStmt *
plan_insert(PLANNER_PARAMS_compat)
{
	Query	   *insert = parse;
	Query	   *copy = copyObject(parse);
	uint64		pairs = pt_joined_pairs;
	PlannedStmt *serial = plan_without_us(PLANNER_ARGS_compat);
	const char *reason;

	/* another library's planner may return a different node */
	if (!IsA(serial->planTree, ModifyTable) ||
		(serial->planTree->total_cost < parallel_setup_cost && !ParallelIsTested_compat() && !has_hint(query_string)))
		return serial;
	reason = pt_insert_refusal(copy);
	if (reason == NULL)
	{
		bool		fills = workers_may_fill(cursor_options) && pt_insert_may_fill(copy, serial);
		bool		small = false;
		bool		temporary;
		PlannedStmt *result;

		parse = pt_insert_source(copy);
		temporary = concerns_us(parse, query_string, &small) && !small;
		pairs = pt_joined_pairs - pairs;
		result = plan_again(serial, pairs, temporary, fills, PLANNER_ARGS_compat);
		if (result == serial)
			return serial;
		result = pt_insert_with_source(serial, result, &reason);
		if (result != NULL)
			return result;
	}
	pt_explain_serial_source(insert, reason);
	return serial;
}

static PlannedStmt *pg_attribute_hot
plan_any(PLANNER_PARAMS_compat)
{
	PlannedStmt *serial;
	Query	   *copy = NULL;
	uint64		pairs = pt_joined_pairs;
	bool		small;
	bool		fills;

	pt_running.plannings++;
	pt_query_check_executor_hooks();
	if (parse->commandType == CMD_INSERT && fills_temporary(parse) && pt_parallel_insert && may_have_workers(cursor_options))
		return plan_insert(PLANNER_ARGS_compat);
	fills = unlikely(pt_query_fills_new_table(parse, query_string)) && workers_may_fill(cursor_options);
	if (concerns_us(parse, query_string, &small))
	{
		if (small)
			pt_report_refusal(linitial_node(RangeTblEntry, parse->rtable)->relid, REFUSED_SMALL, InvalidOid);
		else if ((cursor_options & CURSOR_OPT_PARALLEL_OK) == 0)
		{
			/* The server does not consider workers. */
			serial = plan_without_us(PLANNER_ARGS_compat);
			pt_report_refusals(serial, REFUSED_CURSOR, InvalidOid);
			return serial;
		}
		else if (pt_debug_force && !pt_query_is_explained())
			return plan_forced(PLANNER_ARGS_compat);
		else
			copy = copyObject(parse);
	}
	if (fills)
	{
		PtPlanning	frame = {.fills = true,.setup_scale = pt_plan_setup_scale()};

		serial = plan_framed(&frame, PLANNER_ARGS_compat);
	}
	else
		serial = plan_without_us(PLANNER_ARGS_compat);
	if (copy == NULL)
		return serial;
	parse = copy;
	return plan_again(serial, pt_joined_pairs - pairs, true, fills, PLANNER_ARGS_compat);
}

static PlannedStmt *pg_attribute_hot
plan_planner(PLANNER_PARAMS_compat)
{
	PtPlanning *outer = pt_current_planning();
	PlannedStmt *result;
	int			nest_level;

	if (likely(outer == NULL || !outer->temp_paths))
		return plan_any(PLANNER_ARGS_compat);

	/*
	 * A function that the planner evaluates plans a statement, and may keep
	 * its plan: by the user's settings.
	 */
	nest_level = NewGUCNestLevel();
	pt_restore_cost_settings(&outer->settings);
	result = plan_any(PLANNER_ARGS_compat);
	AtEOXact_GUC(true, nest_level);
	return result;
}

void
pt_plan_install(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_planner;
	pt_plan_paths_install();
	pt_plan_cost_install();
	pt_plan_fill_install();
}

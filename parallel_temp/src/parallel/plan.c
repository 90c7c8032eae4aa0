/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  The planner hook: frame of a planning, and check of the finished plan.
 *
 * A query that may read temporary tables is planned by the server alone first.  If
 * that plan names one and is not too cheap to gain from workers, the query is planned again from a
 * copy with our paths on offer, and the server's plan stays unless workers read a
 * temporary table in the other one and it is cheaper by what pages cost where they
 * are (plan_held.c, plan_prices.c).  That is then walked: should workers have to run
 * a node on a temporary table that only the leader can run, the server's plan stays
 * as well.  (The executor hook checks once more, for plans that come another way.)
 * A statement that stays serial is remembered, and planned once from then on
 * (plan_memo.c).
 * Here it is also known which tables are read in parallel in the end, and
 * parallel_temp.explain_refusals tells the user about the others.
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
#include "tcop/tcopprot.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "buffers/relfile.h"
#include "compat_planner.h"
#include "parallel/plan.h"
#include "parallel/plan_fill.h"
#include "parallel/plan_held.h"
#include "parallel/plan_insert.h"
#include "parallel/plan_memo.h"
#include "parallel/plan_paths.h"
#include "parallel/plan_prices.h"
#include "parallel/plan_refusal.h"
#include "parallel/plan_walk.h"
#include "parallel_temp.h"
#include "query.h"
#include "statistics/gathered.h"

static planner_hook_type previous_planner = NULL;

Planning *
current_planning(void)
{
	for (PtQuery *query = pt_running.innermost; query != NULL; query = query->outer)
	{
		if (query->plans)
			return query->planning;
	}
	return NULL;
}

/*
 * Is one of these functions in FROM not the server's own?  Its body may be put in
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
		/* What has rows put into it is locked for that. */
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
 * May the query read a temporary table?  "small" is set if one is all that it reads
 * and workers would not be used for so small a table.  Such queries are short and
 * many, so what is done for others is saved.
 */
static bool pg_attribute_hot
reads_temporary(Query *parse, bool *small)
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
	if (temporary && !rel->rd_rel->relhassubclass && rel->rd_islocaltemp && !pt_force)
		*small = RelationGetParallelWorkers(rel, -1) < 0 &&
			relfile_known_blocks(rel) < (BlockNumber) min_parallel_table_scan_size;
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
 * Plan within a frame; "frame" is NULL where our paths have no place.
 */
static PlannedStmt *
plan_framed(Planning *frame, PLANNER_PARAMS_compat)
{
	PlannedStmt *volatile result = NULL;
	PtQuery		query;

	query_push(&query);
	query.plans = true;
	query.planning = frame;
	PG_TRY();
	{
		result = plan_next(PLANNER_ARGS_compat);
	}
	PG_FINALLY();
	{
		query_pop(&query);
	}
	PG_END_TRY();
	return result;
}

/*
 * Plan as if the library were not there.  A frame of an outer query must not be
 * taken for this one's.
 */
static PlannedStmt *pg_attribute_hot
plan_apart(PLANNER_PARAMS_compat)
{
	if (current_planning() == NULL)
		return plan_next(PLANNER_ARGS_compat);
	return plan_framed(NULL, PLANNER_ARGS_compat);
}

/*
 * A plan is made that needs our other hooks when it runs.  The first one of a
 * session sets them.
 */
static void
watch(void)
{
	static bool watching = false;

	query_watch_executor();
	if (watching)
		return;
	plan_paths_install();
	plan_joins_install();
	watching = true;
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
 * Workers must win by this part of the serial plan's cost, and by no more than what
 * their start costs.  Estimates of short queries are not finer, and a plan that ties
 * takes processors from other sessions for nothing: "open orders" of bench-analytics
 * (a join of two filters that the estimates take for independent) came out 0.03
 * cheaper and took a tenth longer.  With a tenth, which is what bench-sweep allows, a
 * right estimate leaves no more than that to either side, and what starting a process
 * takes changes with the hour by more.
 */
#define WORKERS_MARGIN	0.10

/*
 * Is the plan with workers clearly the cheaper one, by what pages cost where they are?
 */
static bool
workers_win(Planning *frame, PlannedStmt *workers, TempPlan *plan, PlannedStmt *serial)
{
	Cost		with = held_cost(frame, workers, true) + processes_cost(frame, plan, held_repeated_cost(frame, workers));
	Cost		without = held_serial_cost(frame, serial);

	/* What was charged for the start of workers may be too much as well. */
	with += plan->gathers * Min(plan->workers * pt_worker_start_cost - parallel_setup_cost, 0);
	elog(DEBUG1, "a plan with workers costs %.2f, the server's %.2f", with, without);
	return with < without - Min(without * WORKERS_MARGIN, plan->workers * pt_worker_start_cost);
}

/*
 * Does the query read a temporary table?  Children of a permanent table and bodies of
 * functions may, which its text does not say; its plan names all relations.
 */
static bool
plan_names_temporary(PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
			return true;
	}
	return false;
}

/*
 * Plan with our paths on offer.  "serial" is the server's plan, which is returned unless
 * the other one is cheaper; NULL with parallel_temp.force, for tests, which wants our
 * scans in any plan.
 */
static PlannedStmt *
plan_beside(PlannedStmt *serial, PLANNER_PARAMS_compat)
{
	Planning	frame = {0};
	TempPlan	plan = {0};
	Query	   *copy = NULL;
	PlannedStmt *result;
	Refusal		refusal;
	Oid			function;
	uint64		key = 0;
	bool		replanned = false;

	if (serial != NULL && !plan_names_temporary(serial))
		return serial;

	/* What each table's own reason is only another planning tells. */
	if (serial != NULL && !pt_explain_refusals && !ParallelIsTested_compat())
	{
		if (too_cheap_for_workers(&frame, serial))
		{
			refusals_tell(serial, REFUSED_COST, InvalidOid);
			return serial;
		}
		if (too_small_for_workers(serial))
		{
			refusals_tell(serial, REFUSED_SMALL, InvalidOid);
			return serial;
		}
		if (pt_compare_plans && !query_is_explained())
			key = plan_memo_key(parse, query_string, cursor_options, serial, held_serial_cost(&frame, serial));
		if (plan_memo_stays_serial(key))
		{
			refusals_tell(serial, REFUSED_COST, InvalidOid);
			return serial;
		}
	}

	/* Where the server finds a reason against workers, so it would again. */
	refusal = query_refusal(parse, &frame.hazard, &function);
	if (refusal != REFUSED_NOT)
	{
		if (serial == NULL)
			serial = plan_apart(PLANNER_ARGS_compat);
		refusals_tell(serial, refusal, function);
		return serial;
	}

	watch();
	frame.outer = current_planning();
	frame.for_explain = query_is_explained();
	frame.prices = pt_compare_plans && !pt_force && !InvisibleGather_compat();
	if (serial == NULL)
		copy = copyObject(parse);
	result = plan_framed(&frame, PLANNER_ARGS_compat);

	if (result->parallelModeNeeded)
		temp_plan_collect(result, &plan);
	if (plan.unsafe_node)
	{
		ereport(DEBUG1,
				(errmsg_internal("%s of temporary table \"%s\" in a part of the plan that workers run: planning again",
								 plan.unsafe_node, get_rel_name(plan.unsafe_relid))));
		replanned = true;
		stats_count_replanned();
	}
	else if (serial == NULL || (plan.below && (!frame.prices || workers_win(&frame, result, &plan, serial))))
		serial = result;
	else
	{
		memset(&plan, 0, sizeof(plan));
		plan_memo_note_serial(key);
	}
	refusals_account(&frame, &plan, replanned);
	if (serial == NULL)
	{
		frame.off = true;
		parse = copy;
		serial = plan_framed(&frame, PLANNER_ARGS_compat);
	}
	return serial;
}

/*
 * Is the query to be planned with our paths, as far as the session and its tables go?
 * "small" as of reads_temporary().
 */
static bool pg_attribute_hot
concerns_us(Query *parse, bool *small)
{
	return pt_enabled && parse->commandType == CMD_SELECT && max_parallel_workers_per_gather > 0 &&
		!IsParallelWorker() && reads_temporary(parse, small);
}

static bool
is_forced(void)
{
	return pt_force && !query_is_explained();
}

static PlannedStmt *plan_planner(PLANNER_PARAMS_compat);

/*
 * May workers fill pages of a table, as far as the session goes?
 */
static bool
workers_may_fill(int cursor_options)
{
	return pt_enabled && pt_fast_load && pt_fill_pages && max_parallel_workers_per_gather > 0 && !IsInParallelMode() &&
		(cursor_options & CURSOR_OPT_PARALLEL_OK) != 0 && !(InvisibleGather_compat() && query_is_explained());
}

/*
 * Is this the query whose rows go into a new temporary table?  The first one that is
 * planned is, and no other.
 */
static inline bool
fills_new_table(void)
{
	PtQuery    *query = pt_running.innermost;

	if (likely(query == NULL || !query->fills_new || query->planned_new))
		return false;
	query->planned_new = true;
	return true;
}

/*
 * An insertion of a query's rows into a temporary table: the query gets workers where it
 * would alone.  Not worth a look is what costs less than starting them.  The server's plan
 * of the insertion is its plan of the query, too.
 */
static PlannedStmt *
plan_insert(PLANNER_PARAMS_compat)
{
	uint64		planning = pt_running.plannings;
	const char *reason;
	Query	   *copy = copyObject(parse);
	PlannedStmt *serial = plan_apart(PLANNER_ARGS_compat);
	PlannedStmt *result;
	bool		small;

	/* another planner may have made something of its own */
	if (!IsA(serial->planTree, ModifyTable) ||
		(serial->planTree->total_cost < parallel_setup_cost && !ParallelIsTested_compat()))
		return serial;
	reason = insert_refusal(copy);
	if (reason == NULL)
	{
		bool		fills = workers_may_fill(cursor_options) && insert_may_fill(copy, serial);

		parse = insert_source(copy);
		if (fills)
			result = plan_filling(plan_planner, PLANNER_ARGS_compat);
		else if (concerns_us(parse, &small) && !small)
			result = plan_beside(is_forced() ? NULL : serial, PLANNER_ARGS_compat);
		else
			result = plan_apart(PLANNER_ARGS_compat);
		if (result == serial || !result->parallelModeNeeded)
			return serial;
		result = insert_with_source(serial, result, &reason);
		if (result != NULL)
			return result;
	}
	query_note_serial_source(reason, planning);
	return serial;
}

/*
 * May an insertion have workers, as far as the session goes?  EXPLAIN would show a
 * Gather that a setting for tests hides.
 */
static bool
may_have_workers(int cursor_options)
{
	return pt_enabled && pt_parallel_insert && max_parallel_workers_per_gather > 0 && !IsInParallelMode() &&
		(cursor_options & CURSOR_OPT_PARALLEL_OK) != 0 && !(InvisibleGather_compat() && query_is_explained());
}

static PlannedStmt *pg_attribute_hot
plan_planner(PLANNER_PARAMS_compat)
{
	PlannedStmt *serial = NULL;
	Query	   *copy;
	bool		small;

	pt_running.plannings++;
	if (pt_statistics)
		gathered_watch();
	if (parse->commandType == CMD_INSERT && fills_temporary(parse))
	{
		watch();
		if (may_have_workers(cursor_options))
			return plan_insert(PLANNER_ARGS_compat);
	}
	if (parse->commandType == CMD_SELECT && fills_new_table() && workers_may_fill(cursor_options))
		return plan_filling(plan_planner, PLANNER_ARGS_compat);
	if (!concerns_us(parse, &small))
		return plan_apart(PLANNER_ARGS_compat);
	if (small)
	{
		refusal_tell(linitial_node(RangeTblEntry, parse->rtable)->relid, REFUSED_SMALL, InvalidOid);
		return plan_apart(PLANNER_ARGS_compat);
	}

	/* What the server runs without workers is planned once, and not copied. */
	if ((cursor_options & CURSOR_OPT_PARALLEL_OK) == 0)
	{
		serial = plan_apart(PLANNER_ARGS_compat);
		refusals_tell(serial, REFUSED_CURSOR, InvalidOid);
		return serial;
	}
	copy = copyObject(parse);
	if (!is_forced())
		serial = plan_apart(PLANNER_ARGS_compat);
	parse = copy;
	return plan_beside(serial, PLANNER_ARGS_compat);
}

void
plan_install(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_planner;
}

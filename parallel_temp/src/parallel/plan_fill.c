/*-------------------------------------------------------------------------
 *
 * plan_fill.c
 *	  Plans whose workers fill pages of a temporary table.
 *
 * The node that does it (load/fastload_filler.c) stands below a Gather at the top of
 * the query whose rows go into the table: there nothing is done with a row but to put
 * it away, and no order is to be kept.  The node is put there when the plan starts, into
 * a copy of the few nodes above it: only then it is known where the rows go, for a plan
 * may be kept, and the table may get an index or a trigger meanwhile.  EXPLAIN starts a
 * plan, too.
 *
 * The planner asks a price for each row that a worker hands over, which keeps workers
 * from queries that give many rows.  Rows in pages cost nothing of it: the
 * leader copies a page, or not even that, and in return others form their part of the
 * rows, which is worth a part of what workers' start costs.  So a query whose plan has
 * no Gather at the top is planned once more at these prices; only if it has one then,
 * that plan is taken.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "parser/parsetree.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "load/fastload_pages.h"
#include "parallel/plan_fill.h"
#include "parallel/plan_prices.h"
#include "parallel/plan_walk.h"
#include "parallel_temp.h"
#include "query.h"

/*
 * What is asked for a row that comes in a page, where the server asks
 * parallel_tuple_cost.
 */
#define PAGE_TUPLE_COST 0.0

/*
 * What it costs to form a row, and a byte of it, in the planner's units: it is in the
 * price of no plan, but takes a quarter to two thirds as long as making the row.  (Of 73
 * bytes 48 ns on 15 where a unit was 2.3 us: results/15/fill.)
 */
#define FORM_ROW_COST	0.008
#define FORM_BYTE_COST	0.00016

/* Fewer pages are not worth the node. */
#define FEW_PAGES 64

/*
 * Does a column of the Gather come from its child as it is?  The planner has
 * constants and parameters computed in both nodes.
 */
static bool
passes_by(TargetEntry *tle, TargetEntry *below)
{
	Var		   *var = (Var *) tle->expr;

	if (tle->resjunk || below->resjunk)
		return false;
	if (IsA(var, Var))
		return var->varno == OUTER_VAR && var->varattno == below->resno;
	return (IsA(var, Const) || IsA(var, Param)) && equal(var, below->expr);
}

/*
 * Bytes that the rows of this plan take on pages.
 */
static double
bytes_on_pages(Plan *plan)
{
	return plan->plan_rows * (plan->plan_width + SizeofHeapTupleHeader + sizeof(ItemIdData));
}

/*
 * Are the rows of this plan too few for pages?  Tests want pages of any.
 */
static bool
few_rows(Plan *plan)
{
	return pt_compare_plans && !pt_force && bytes_on_pages(plan) < (double) FEW_PAGES * BLCKSZ;
}

/*
 * What so many workers that form rows of this plan, which has none, spare the leader: as the
 * rest of what they do is divided.
 */
static Cost
saved_by_forming(Plan *serial, int workers)
{
	Cost		form = serial->plan_rows * FORM_ROW_COST + bytes_on_pages(serial) * FORM_BYTE_COST;

	return form * (1 - 1 / parallel_divisor(workers));
}

/*
 * What starting workers costs in a plan that fills pages, whatever tables it reads.
 */
static inline Cost
price_of_start(void)
{
	return Max(parallel_setup_cost, pt_worker_start_cost);
}

/*
 * The Gather at the top whose rows workers could put on pages, or NULL.
 */
static Gather *
page_gather(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;
	ListCell   *lc;
	ListCell   *below;

	if (IsA(top, ModifyTable))
		top = top->lefttree;
	if (top == NULL || !IsA(top, Gather) || ((Gather *) top)->single_copy || ((Gather *) top)->num_workers < 1 ||
		top->qual != NIL || list_length(top->targetlist) != list_length(top->lefttree->targetlist) || few_rows(top))
		return NULL;
	forboth(lc, top->targetlist, below, top->lefttree->targetlist)
	{
		if (!passes_by(lfirst_node(TargetEntry, lc), lfirst_node(TargetEntry, below)))
			return NULL;
	}
	return (Gather *) top;
}

bool
insert_may_fill(Query *insert, PlannedStmt *serial)
{
	Relation	rel;
	bool		result;

	if (insert->returningList != NIL || insert->withCheckOptions != NIL || insert->onConflict != NULL ||
		few_rows(outerPlan(serial->planTree)))
		return false;
	rel = table_open(rt_fetch(insert->resultRelation, insert->rtable)->relid, NoLock);
	result = fastload_pages_unfit(rel) == NULL;
	table_close(rel, NoLock);
	return result;
}

/*
 * Plan at the price of rows in pages.  What forming them in workers saves is taken off the
 * price of starting workers, the server's and ours, and no more than that: without that
 * price a plan with workers still has to be the cheaper one.  Where tables are permanent,
 * too, to start one costs no less than we take for it.
 */
static PlannedStmt *
plan_at_price(PlanAsUsual plan, Cost saved, PLANNER_PARAMS_compat)
{
	PlannedStmt *volatile result = NULL;
	double		tuple_cost = parallel_tuple_cost;
	double		setup_cost = parallel_setup_cost;
	double		start_cost = pt_worker_start_cost;
	bool		tells = pt_explain_refusals;

	parallel_tuple_cost = Min(tuple_cost, PAGE_TUPLE_COST);
	parallel_setup_cost = Max(price_of_start() - saved, 0);
	pt_worker_start_cost = Max(start_cost - saved / max_parallel_workers_per_gather, 0);
	pt_explain_refusals = false;
	PG_TRY();
	{
		result = plan(PLANNER_ARGS_compat);
	}
	PG_FINALLY();
	{
		parallel_tuple_cost = tuple_cost;
		parallel_setup_cost = setup_cost;
		pt_worker_start_cost = start_cost;
		pt_explain_refusals = tells;
	}
	PG_END_TRY();
	return result;
}

PlannedStmt *
plan_filling(PlanAsUsual plan, PLANNER_PARAMS_compat)
{
	Query	   *copy = copyObject(parse);
	PlannedStmt *usual = plan(PLANNER_ARGS_compat);
	PlannedStmt *result;
	Gather	   *gather;
	Cost		saved;
	Cost		saved_less;

	if (parallel_tuple_cost <= PAGE_TUPLE_COST || usual->planTree->total_cost < parallel_setup_cost ||
		few_rows(usual->planTree) || page_gather(usual))
		return usual;
	parse = copy;
	saved = saved_by_forming(usual->planTree, max_parallel_workers_per_gather);
	result = plan_at_price(plan, saved, PLANNER_ARGS_compat);
	gather = page_gather(result);
	if (gather == NULL)
		return usual;

	/* the table may be worth fewer workers, who save less */
	saved_less = saved_by_forming(usual->planTree, gather->num_workers);
	if (pt_compare_plans && !pt_force &&
		result->planTree->total_cost + Min(saved, price_of_start()) - Min(saved_less, price_of_start()) > usual->planTree->total_cost)
		return usual;
	return result;
}

/*
 * The same columns, as a node sees those of its child ("varno").
 */
static List *
columns_of(List *targetlist, int varno)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		tle->expr = (Expr *) makeVarFromTargetEntry(varno, tle);
		result = lappend(result, tle);
	}
	return result;
}

/*
 * The node over the child of the Gather.
 */
static Plan *
make_filler(PlannedStmt *stmt, Plan *child)
{
	CustomScan *filler = makeNode(CustomScan);

	/*
	 * what it costs, how many rows it has and what it depends on: as its
	 * child
	 */
	filler->scan.plan = *child;
	NodeSetTag(filler, T_CustomScan);
	filler->scan.plan.targetlist = columns_of(child->targetlist, INDEX_VAR);
	filler->custom_scan_tlist = columns_of(child->targetlist, OUTER_VAR);
	filler->scan.plan.qual = NIL;
	filler->scan.plan.initPlan = NIL;
	filler->scan.plan.lefttree = child;
	filler->scan.plan.righttree = NULL;
	filler->scan.plan.parallel_aware = true;
	filler->scan.plan.parallel_safe = true;
	filler->scan.plan.async_capable = false;
	filler->scan.plan.plan_node_id = plan_highest_node_id(stmt) + 1;
	filler->methods = filler_methods();
	return &filler->scan.plan;
}

/*
 * Does the statement put its rows into a table that workers may fill pages of?
 */
static bool
fills_table(QueryDesc *queryDesc)
{
	PlannedStmt *stmt = queryDesc->plannedstmt;
	ModifyTable *insert = (ModifyTable *) stmt->planTree;
	Relation	rel;
	bool		result;

	if (queryDesc->operation == CMD_SELECT)
		return queryDesc->dest != NULL && queryDesc->dest->mydest == DestIntoRel && pt_running.innermost != NULL && pt_running.innermost->fills_new;
	if (queryDesc->operation != CMD_INSERT || !IsA(insert, ModifyTable) || insert->operation != CMD_INSERT ||
		list_length(insert->resultRelations) != 1 || insert->returningLists != NIL ||
		insert->withCheckOptionLists != NIL || insert->onConflictAction != ONCONFLICT_NONE)
		return false;
	/* it has been locked with the plan */
	rel = table_open(rt_fetch(linitial_int(insert->resultRelations), stmt->rtable)->relid, NoLock);
	result = fastload_pages_unfit(rel) == NULL;
	table_close(rel, NoLock);
	return result;
}

void
plan_fill_start(QueryDesc *queryDesc)
{
	PlannedStmt *stmt = queryDesc->plannedstmt;
	Gather	   *gather = pt_enabled && pt_fast_load && pt_fill_pages ? page_gather(stmt) : NULL;
	Gather	   *copy;
	MemoryContext old;

	/* parallel_temp.explain: EXPLAIN shows what the server alone would */
	if (gather == NULL || (!pt_explain && query_is_explained()) || !fills_table(queryDesc))
		return;

	/* as long as the QueryDesc, which may outlive the executor's memory */
	old = MemoryContextSwitchTo(GetMemoryChunkContext(queryDesc));
	copy = makeNode(Gather);
	memcpy(copy, gather, sizeof(Gather));
	copy->plan.targetlist = columns_of(gather->plan.targetlist, OUTER_VAR);
	copy->plan.lefttree = make_filler(stmt, gather->plan.lefttree);
	queryDesc->plannedstmt = makeNode(PlannedStmt);
	memcpy(queryDesc->plannedstmt, stmt, sizeof(PlannedStmt));
	if (IsA(stmt->planTree, ModifyTable))
	{
		ModifyTable *insert = makeNode(ModifyTable);

		memcpy(insert, stmt->planTree, sizeof(ModifyTable));
		insert->plan.lefttree = &copy->plan;
		queryDesc->plannedstmt->planTree = &insert->plan;
	}
	else
		queryDesc->plannedstmt->planTree = &copy->plan;
	MemoryContextSwitchTo(old);
}

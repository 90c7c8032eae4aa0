/*-------------------------------------------------------------------------
 *
 * plan_fill.c
 *	  Plans whose workers fill pages of a temporary table.
 *
 * The node that does it (load/fastload_worker.c) is below a Gather at the top of
 * the query whose rows go into the table: there nothing is done with a row but to put
 * it away, and no order is to be kept.  The node is put there when the plan starts, into
 * a copy of the few nodes above it: only then it is known where the rows go, for a plan
 * may be kept, and the table may get an index or a trigger later.  EXPLAIN starts a
 * plan, too.
 *
 * The server charges parallel_tuple_cost for each row that a worker sends, which keeps
 * workers from queries that return many rows.  A page costs the leader almost nothing, and
 * workers form their part of the rows.  So while the query is planned, a Gather at its top
 * is offered at a different cost, in the hook that core calls when it has all paths of the
 * query (UPPERREL_FINAL): nothing per row, and the start of workers less the cost that they
 * save by forming rows.  add_path() compares it with all other paths.
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
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "load/fastload.h"
#include "parallel_temp.h"
#include "plan/plan.h"
#include "query.h"
#include "scan/scan.h"
#include "share/share.h"

/*
 * The cost of forming a row, and a byte of it.  No plan's cost includes it, although it takes
 * a quarter to two thirds of the time of computing the row.  (73 bytes: 48 ns on 15 where a
 * unit was 2.3 us, results/15/fill.)
 */
#define FORM_ROW_COST	0.008
#define FORM_BYTE_COST	0.00016

/* Fewer pages are not worth the node. */
#define FEW_PAGES 64

static create_upper_paths_hook_type previous_create_upper_paths = NULL;

/*
 * Does a column of the Gather come from its child as it is?  The planner has
 * constants and parameters computed in both nodes.
 */
static bool
is_passed_on(TargetEntry *tle, TargetEntry *below)
{
	Var		   *var = (Var *) tle->expr;

	if (tle->resjunk || below->resjunk)
		return false;
	if (IsA(var, Var))
		return var->varno == OUTER_VAR && var->varattno == below->resno;
	return (IsA(var, Const) || IsA(var, Param)) && equal(var, below->expr);
}

/*
 * The size of rows on pages.
 */
static inline double
bytes_on_pages(double rows, int width)
{
	return rows * (width + SizeofHeapTupleHeader + sizeof(ItemIdData));
}

/*
 * Are the rows too few for pages?  Not if workers are free: tests want pages of any.
 */
static bool
few_rows(double rows, int width)
{
	return pt_plan_setup_scale() > 0 && !pt_debug_force && bytes_on_pages(rows, width) < (double) FEW_PAGES * BLCKSZ;
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
		top->qual != NIL || list_length(top->targetlist) != list_length(top->lefttree->targetlist) ||
		few_rows(top->plan_rows, top->plan_width))
		return NULL;
	forboth(lc, top->targetlist, below, top->lefttree->targetlist)
	{
		if (!is_passed_on(lfirst_node(TargetEntry, lc), lfirst_node(TargetEntry, below)))
			return NULL;
	}
	return (Gather *) top;
}

bool
pt_insert_may_fill(Query *insert, PlannedStmt *serial)
{
	Relation	rel;
	bool		result;

	if (insert->returningList != NIL || insert->withCheckOptions != NIL || insert->onConflict != NULL ||
		few_rows(outerPlan(serial->planTree)->plan_rows, outerPlan(serial->planTree)->plan_width))
		return false;
	rel = table_open(rt_fetch(insert->resultRelation, insert->rtable)->relid, NoLock);
	result = pt_load_pages_unfit(rel) == NULL;
	table_close(rel, NoLock);
	return result;
}

/*
 * All paths of a query are known: offer the Gather whose rows go to pages.
 */
static void
plan_fill_create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra)
{
	PtPlanning *planning = pt_current_planning();
	Path	   *partial;
	GatherPath *gather;
	Cost		start;
	Cost		form;
	int			width;

	if (previous_create_upper_paths)
		previous_create_upper_paths(root, stage, input_rel, output_rel, extra);
	if (likely(planning == NULL) || !planning->fills || stage != UPPERREL_FINAL || root->query_level > 1 ||
		input_rel->partial_pathlist == NIL || ((FinalPathExtraData *) extra)->limit_needed || root->parse->rowMarks != NIL)
		return;
	partial = linitial(input_rel->partial_pathlist);
	width = partial->pathtarget->width;
	if (few_rows(input_rel->rows, width))
		return;

	/* Starting workers costs the same over permanent tables. */
	start = Max(parallel_setup_cost, pt_workers_start_cost(partial->parallel_workers, planning->setup_scale));
	form = input_rel->rows * FORM_ROW_COST + bytes_on_pages(input_rel->rows, width) * FORM_BYTE_COST;
	start = Max(start - form * (1 - 1 / pt_cpu_divisor(partial->parallel_workers)), 0);

	gather = create_gather_path(root, output_rel, partial, partial->pathtarget, NULL, &input_rel->rows);
	gather->path.startup_cost = partial->startup_cost + start;
	gather->path.total_cost = partial->total_cost + start;
	add_path(output_rel, &gather->path);
}

void
pt_plan_fill_install(void)
{
	previous_create_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = plan_fill_create_upper_paths;
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
	filler->scan.plan.plan_node_id = pt_highest_node_id(stmt) + 1;
	filler->methods = pt_filler_methods();
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
		return queryDesc->dest != NULL && queryDesc->dest->mydest == DestIntoRel && pt_running.innermost != NULL && pt_running.innermost->fills_new != NULL &&
			pt_running.innermost->fills_new->commandType == CMD_SELECT;
	if (queryDesc->operation != CMD_INSERT || !IsA(insert, ModifyTable) || insert->operation != CMD_INSERT ||
		list_length(insert->resultRelations) != 1 || insert->returningLists != NIL ||
		insert->withCheckOptionLists != NIL || insert->onConflictAction != ONCONFLICT_NONE)
		return false;
	/* it has been locked with the plan */
	rel = table_open(rt_fetch(linitial_int(insert->resultRelations), stmt->rtable)->relid, NoLock);
	result = pt_load_pages_unfit(rel) == NULL;
	table_close(rel, NoLock);
	return result;
}

void
pt_plan_fill_start(QueryDesc *queryDesc)
{
	PlannedStmt *stmt = queryDesc->plannedstmt;
	Gather	   *gather = pt_enabled && pt_fast_load && pt_fill_pages ? page_gather(stmt) : NULL;
	Gather	   *copy;
	MemoryContext old;

	/* parallel_temp.explain: EXPLAIN shows what the server alone would */
	if (gather == NULL || (!pt_explain && pt_query_is_explained()) || !fills_table(queryDesc))
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

/*-------------------------------------------------------------------------
 *
 * temp_plan.c
 *	  Find the temporary tables of a finished plan and who will read them.
 *
 * The planner hook uses this to verify a plan (a node that workers cannot run on
 * a temporary table must not be where workers run it); the executor hook uses it
 * to learn what the workers need.  Both walk the plan itself and trust no flag
 * set during planning.
 *
 * Workers run everything below a Gather or Gather Merge, and every subplan
 * marked parallel-safe when the plan has a Gather (the executor sends them all),
 * except initplans of nodes that only the leader has: their values are sent.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "scan/scan.h"
#include "share/share.h"

typedef struct WalkContext
{
	PlannedStmt *stmt;
	TempPlan   *result;
	bool		leader_too;		/* the leader may run it as well as workers */
	Bitmapset  *initplans;		/* plan_ids of subplans that the leader runs
								 * once */
} WalkContext;

static void walk_plan(Plan *plan, WalkContext *context, bool below);

static TempUse *
find_use(TempPlan *result, Oid relid)
{
	TempUse    *use;
	ListCell   *lc;

	foreach(lc, result->uses)
	{
		use = lfirst(lc);
		if (use->relid == relid)
			return use;
	}
	use = palloc0(sizeof(TempUse));
	use->relid = relid;
	result->uses = lappend(result->uses, use);
	return use;
}

/*
 * May the value of one of these columns, as pull_varattnos() numbers them, be stored out
 * of line?
 */
bool
pt_has_toastable_column(Relation rel, Bitmapset *attrs)
{
	int			attr = -1;

	while (OidIsValid(rel->rd_rel->reltoastrelid) && (attr = bms_next_member(attrs, attr)) >= 0)
	{
		int			attno = attr + FirstLowInvalidHeapAttributeNumber;

		if (attno == 0 ||
			(attno > 0 && TupleDescAttr(RelationGetDescr(rel), attno - 1)->attlen == -1 &&
			 TupleDescAttr(RelationGetDescr(rel), attno - 1)->attstorage != TYPSTORAGE_PLAIN))
			return true;
	}
	return false;
}

/*
 * Might the node read a column whose value is stored out of line?
 */
static bool
uses_toastable_column(Scan *scan, List *more_exprs, Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	Bitmapset  *attrs = NULL;
	bool		result;

	pull_varattnos((Node *) scan->plan.targetlist, scan->scanrelid, &attrs);
	pull_varattnos((Node *) scan->plan.qual, scan->scanrelid, &attrs);
	pull_varattnos((Node *) more_exprs, scan->scanrelid, &attrs);
	result = pt_has_toastable_column(rel, attrs);
	table_close(rel, NoLock);
	return result;
}

static void
note_scan(Scan *scan, WalkContext *context, bool below)
{
	RangeTblEntry *rte;
	TempUse    *use;
	List	   *more_exprs = NIL;
	const char *unsafe = NULL;
	Oid			index = InvalidOid;

	if (scan->scanrelid == 0)
		return;
	rte = rt_fetch(scan->scanrelid, context->stmt->rtable);
	if (rte->rtekind != RTE_RELATION || get_rel_persistence(rte->relid) != RELPERSISTENCE_TEMP)
		return;

	use = find_use(context->result, rte->relid);
	switch (nodeTag(scan))
	{
		case T_CustomScan:
			if (!pt_is_temp_scan((Plan *) scan))
				unsafe = "Custom Scan";
			else if (below)
				use->own_below = true;
			break;
		case T_IndexScan:
			index = ((IndexScan *) scan)->indexid;
			more_exprs = ((IndexScan *) scan)->indexqualorig;
			break;
		case T_IndexOnlyScan:
			index = ((IndexOnlyScan *) scan)->indexid;
			break;
		case T_BitmapIndexScan:
			index = ((BitmapIndexScan *) scan)->indexid;
			break;
		case T_BitmapHeapScan:
			more_exprs = ((BitmapHeapScan *) scan)->bitmapqualorig;
			break;
		case T_SeqScan:
			unsafe = "Seq Scan";
			break;
		case T_SampleScan:
			unsafe = "Sample Scan";
			break;
		case T_TidScan:
		case T_TidRangeScan:
			unsafe = "Tid Scan";
			break;
		default:
			unsafe = "scan of another kind";
			break;
	}
	if (OidIsValid(index))
	{
		context->result->indexes = list_append_unique_oid(context->result->indexes, index);
		if (below)
			use->indexes = list_append_unique_oid(use->indexes, index);
	}
	if ((!below || context->leader_too) && !pt_is_temp_scan((Plan *) scan))
		use->stock_above++;
	if (!below)
		return;

	context->result->below = true;
	if (unsafe)
	{
		context->result->unsafe_node = unsafe;
		context->result->unsafe_relid = rte->relid;
		return;
	}
	if (!use->own_below || !pt_is_temp_scan((Plan *) scan))
		use->stock_below = true;
	if (!IsA(scan, BitmapIndexScan) && !use->toast_below)
		use->toast_below = uses_toastable_column(scan, more_exprs, rte->relid);
}

/*
 * Could this output of a Gather be a value that is still out of line?  A partial
 * aggregate's state in serialized form cannot; it says so one node below.
 */
static bool
may_be_out_of_line(TargetEntry *tle, Plan *below)
{
	if (get_typlen(exprType((Node *) tle->expr)) != -1)
		return false;
	if (IsA(tle->expr, Var) && ((Var *) tle->expr)->varno == OUTER_VAR)
	{
		TargetEntry *source = list_nth_node(TargetEntry, below->targetlist, ((Var *) tle->expr)->varattno - 1);

		if (IsA(source->expr, Aggref) && ((Aggref *) source->expr)->aggtranstype == INTERNALOID)
			return false;
	}
	return true;
}

static void
note_gather(Plan *plan, TempPlan *result)
{
	ListCell   *lc;

	result->gathers++;
	result->workers = Max(result->workers, IsA(plan, Gather) ? ((Gather *) plan)->num_workers : ((GatherMerge *) plan)->num_workers);
	if (IsA(plan, Gather) && ((Gather *) plan)->single_copy)
		result->single_copy = true;
	foreach(lc, plan->targetlist)
	{
		if (may_be_out_of_line(lfirst_node(TargetEntry, lc), plan->lefttree))
			result->gathers_varlena = true;
	}
}

static void
walk_list(List *plans, WalkContext *context, bool below)
{
	ListCell   *lc;

	foreach(lc, plans)
		walk_plan((Plan *) lfirst(lc), context, below);
}

static void
walk_plan(Plan *plan, WalkContext *context, bool below)
{
	ListCell   *lc;

	if (plan == NULL)
		return;
	check_stack_depth();

	context->result->highest_node_id = Max(context->result->highest_node_id, plan->plan_node_id);
	if (!below)
	{
		foreach(lc, plan->initPlan)
			context->initplans = bms_add_member(context->initplans, lfirst_node(SubPlan, lc)->plan_id);
	}
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapIndexScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_ForeignScan:
			note_scan((Scan *) plan, context, below);
			break;
		case T_CustomScan:
			note_scan((Scan *) plan, context, below);
			if (pt_is_temp_scan(plan) && pt_scan_has_unknown_function((CustomScan *) plan))
				context->result->unknown_function = true;
			walk_list(((CustomScan *) plan)->custom_plans, context, below);
			break;
		case T_Gather:
		case T_GatherMerge:
			note_gather(plan, context->result);
			below = true;
			break;
		case T_Append:
			walk_list(((Append *) plan)->appendplans, context, below);
			break;
		case T_MergeAppend:
			walk_list(((MergeAppend *) plan)->mergeplans, context, below);
			break;
		case T_BitmapAnd:
			walk_list(((BitmapAnd *) plan)->bitmapplans, context, below);
			break;
		case T_BitmapOr:
			walk_list(((BitmapOr *) plan)->bitmapplans, context, below);
			break;
		case T_SubqueryScan:
			walk_plan(((SubqueryScan *) plan)->subplan, context, below);
			break;
		default:
			break;
	}
	walk_plan(plan->lefttree, context, below);
	walk_plan(plan->righttree, context, below);
}

/*
 * Describe the temporary tables of a plan in *result.
 */
void
pt_temp_plan_collect(PlannedStmt *stmt, TempPlan *result)
{
	WalkContext context = {.stmt = stmt,.result = result};

	memset(result, 0, sizeof(*result));
	walk_plan(stmt->planTree, &context, false);
	context.leader_too = true;

	/* A subplan within another one has the lower number. */
	for (int id = list_length(stmt->subplans); id > 0; id--)
	{
		Plan	   *subplan = list_nth(stmt->subplans, id - 1);

		if (subplan)
			walk_plan(subplan, &context, stmt->parallelModeNeeded && subplan->parallel_safe &&
					  !bms_is_member(id, context.initplans));
	}
	bms_free(context.initplans);
}

int
pt_highest_node_id(PlannedStmt *stmt)
{
	TempPlan	plan;

	pt_temp_plan_collect(stmt, &plan);
	return plan.highest_node_id;
}

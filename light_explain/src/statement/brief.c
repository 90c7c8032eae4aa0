/*-------------------------------------------------------------------------
 *
 * brief.c
 *	  Statements of EXPLAIN ANALYZE that end before a record would be of use.
 *
 * To make records of a statement's nodes, to show them to other sessions and to
 * settle them at its end takes some 5,000 instructions, which is more than what they
 * save in a statement of a few calls.  So such a statement begins as those do that
 * auto_explain measures: each call is timed, into the server's own structs.
 *
 * Others cannot see it until it gets records.  So it must be one that either ends soon
 * or calls a node often: it is cheap, waits for no row that somebody else has locked, and
 * calls no function of which nobody knows how long it takes, as pg_sleep().  What its
 * nodes used without those below them is the difference in the plan's tree: there must
 * be no subplans, which are evaluated elsewhere, and no workers.
 *
 * Appends and set operations could be brief as well, but gather so many rows that
 * records at once are cheaper.
 *
 * All is read from the plan, when ExecutorStart has prepared it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "statement/statement.h"
#include "utils/fmgroids.h"

/* The planner's cost up to which a statement is cheap: at worst 250 pages in no order. */
#define CHEAP 1000.0

static bool expression_is_plain(const Node *expr);

static bool
list_is_plain(const List *list)
{
	ListCell   *lc;

	foreach(lc, list)
	{
		const Node *expr = lfirst(lc);

		/* most are columns of a target list: no calls for those */
		if (expr != NULL && IsA(expr, TargetEntry))
			expr = (const Node *) ((const TargetEntry *) expr)->expr;
		if (expr != NULL && !IsA(expr, Var) && !expression_is_plain(expr))
			return false;
	}
	return true;
}

/* A function of the server behind an operator or an aggregate: no such one waits. */
static inline bool
function_is_plain(Oid function)
{
	return function < FirstUnpinnedObjectId;
}

/* A function that returns rows without waiting, and of whose number the planner knows something? */
static bool
makes_rows(const FuncExpr *expr)
{
	switch (expr->funcid)
	{
		case F_GENERATE_SERIES_INT4_INT4:
		case F_GENERATE_SERIES_INT4_INT4_INT4:
		case F_GENERATE_SERIES_INT8_INT8:
		case F_GENERATE_SERIES_INT8_INT8_INT8:
		case F_UNNEST_ANYARRAY:
			return true;
		default:
			return false;
	}
}

/*
 * A function scan keeps all rows in its first call: they must be as many as the planner
 * took them for.
 */
static bool
functions_are_plain(const List *functions)
{
	ListCell   *lc;

	foreach(lc, functions)
	{
		const Node *expr = lfirst_node(RangeTblFunction, lc)->funcexpr;
		ListCell   *arg;

		if (!IsA(expr, FuncExpr) || !makes_rows((const FuncExpr *) expr))
			return false;
		foreach(arg, ((const FuncExpr *) expr)->args)
		{
			if (!IsA(lfirst(arg), Const))
				return false;
		}
	}
	return true;
}

/* Columns, values and what the server's operators and aggregates make of them? */
static bool
expression_is_plain(const Node *expr)
{
	if (expr == NULL)
		return true;
	switch (nodeTag(expr))
	{
		case T_Var:
		case T_Const:
			return true;
		case T_Param:
			return ((const Param *) expr)->paramkind == PARAM_EXEC;
		case T_List:
			return list_is_plain((const List *) expr);
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return function_is_plain(((const OpExpr *) expr)->opfuncid) && list_is_plain(((const OpExpr *) expr)->args);
		case T_ScalarArrayOpExpr:
			return function_is_plain(((const ScalarArrayOpExpr *) expr)->opfuncid) && list_is_plain(((const ScalarArrayOpExpr *) expr)->args);
		case T_FuncExpr:
			return makes_rows((const FuncExpr *) expr) && list_is_plain(((const FuncExpr *) expr)->args);
		case T_BoolExpr:
			return list_is_plain(((const BoolExpr *) expr)->args);
		case T_ArrayExpr:
			return list_is_plain(((const ArrayExpr *) expr)->elements);
		case T_NullTest:
			return expression_is_plain((const Node *) ((const NullTest *) expr)->arg);
		case T_RelabelType:
			return expression_is_plain((const Node *) ((const RelabelType *) expr)->arg);
		case T_WindowFunc:
			return function_is_plain(((const WindowFunc *) expr)->winfnoid) && list_is_plain(((const WindowFunc *) expr)->args) &&
				expression_is_plain((const Node *) ((const WindowFunc *) expr)->aggfilter);
		case T_Aggref:
			return function_is_plain(((const Aggref *) expr)->aggfnoid) && list_is_plain(((const Aggref *) expr)->args) &&
				expression_is_plain((const Node *) ((const Aggref *) expr)->aggfilter);
		default:
			return false;
	}
}

static bool plan_is_plain(const Plan *plan, int *nodes);

static bool
plans_are_plain(const List *plans, int *nodes)
{
	ListCell   *lc;

	foreach(lc, plans)
	{
		if (!plan_is_plain(lfirst(lc), nodes))
			return false;
	}
	return true;
}

/* Nodes with nothing to wait for. */
static bool
plan_is_plain(const Plan *plan, int *nodes)
{
	if (plan == NULL)
		return true;
	if (++*nodes > LIGHT_BRIEF_NODES || plan->initPlan != NIL || !list_is_plain(plan->targetlist) || !list_is_plain(plan->qual))
		return false;
	switch (nodeTag(plan))
	{
		case T_Agg:
		case T_Group:
		case T_Hash:
		case T_Material:
		case T_ProjectSet:
		case T_SeqScan:
		case T_Sort:
		case T_Unique:
			break;
		case T_Result:
			if (!expression_is_plain(((const Result *) plan)->resconstantqual))
				return false;
			break;
		case T_Limit:
			if (!expression_is_plain(((const Limit *) plan)->limitOffset) || !expression_is_plain(((const Limit *) plan)->limitCount))
				return false;
			break;
		case T_IndexScan:
			if (!list_is_plain(((const IndexScan *) plan)->indexqual) || ((const IndexScan *) plan)->indexorderby != NIL)
				return false;
			break;
		case T_IndexOnlyScan:
			if (!list_is_plain(((const IndexOnlyScan *) plan)->indexqual) || ((const IndexOnlyScan *) plan)->indexorderby != NIL)
				return false;
			break;
		case T_WindowAgg:
			if (!expression_is_plain(((const WindowAgg *) plan)->startOffset) || !expression_is_plain(((const WindowAgg *) plan)->endOffset) ||
				!list_is_plain(((const WindowAgg *) plan)->runCondition))
				return false;
			break;
		case T_SubqueryScan:
			return plan_is_plain(((const SubqueryScan *) plan)->subplan, nodes);
		case T_BitmapAnd:
			return plans_are_plain(((const BitmapAnd *) plan)->bitmapplans, nodes);
		case T_BitmapOr:
			return plans_are_plain(((const BitmapOr *) plan)->bitmapplans, nodes);
		case T_BitmapHeapScan:
			if (!list_is_plain(((const BitmapHeapScan *) plan)->bitmapqualorig))
				return false;
			break;
		case T_BitmapIndexScan:
			if (!list_is_plain(((const BitmapIndexScan *) plan)->indexqual))
				return false;
			break;
		case T_TidScan:
			if (!list_is_plain(((const TidScan *) plan)->tidquals))
				return false;
			break;
		case T_FunctionScan:
			if (!functions_are_plain(((const FunctionScan *) plan)->functions))
				return false;
			break;
		case T_ValuesScan:
			if (!list_is_plain(((const ValuesScan *) plan)->values_lists))
				return false;
			break;
		case T_HashJoin:
			if (!list_is_plain(((const HashJoin *) plan)->hashclauses) || !list_is_plain(((const HashJoin *) plan)->join.joinqual))
				return false;
			break;
		case T_MergeJoin:
			if (!list_is_plain(((const MergeJoin *) plan)->mergeclauses) || !list_is_plain(((const MergeJoin *) plan)->join.joinqual))
				return false;
			break;
		case T_NestLoop:
			if (!list_is_plain(((const NestLoop *) plan)->join.joinqual))
				return false;
			break;
		default:
			return false;
	}
	return plan_is_plain(plan->lefttree, nodes) && plan_is_plain(plan->righttree, nodes);
}

/*
 * Is a statement of EXPLAIN ANALYZE one that needs no records at its beginning?  It was
 * prepared for execution and has instrumentation.
 */
bool
light_is_brief(const PlannedStmt *stmt)
{
	int			nodes = 0;

	return stmt->commandType == CMD_SELECT && stmt->planTree->total_cost <= CHEAP && stmt->rowMarks == NIL &&
		stmt->subplans == NIL && !stmt->hasModifyingCTE && !stmt->parallelModeNeeded && plan_is_plain(stmt->planTree, &nodes);
}

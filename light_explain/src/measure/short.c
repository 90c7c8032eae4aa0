/*-------------------------------------------------------------------------
 *
 * short.c
 *	  Scans of which most calls are short, whatever the data: see pages.c.
 *
 * Such a call returns the next row of a page that the scan has read.  It copies
 * columns, and at most evaluates a filter of immutable built-in functions of values
 * of fixed length.  Nothing else runs in it, it waits for nothing, and it changes no counter.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/transam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_proc.h"
#include "measure/measure.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* Elements of an array with which a filter compares. */
#define MAX_ELEMENTS 32

/* Does making a row of a node's result no more than copy columns and constants? */
static bool
copies_columns(const Plan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->targetlist)
	{
		const Expr *expr = ((TargetEntry *) lfirst(lc))->expr;

		/* a whole row may fetch what is out of line */
		if (!IsA(expr, Const) && (!IsA(expr, Var) || ((const Var *) expr)->varattno == 0))
			return false;
	}
	return true;
}

/*
 * May a function take long, or move counters?  Its types are checked where they are used.  Of
 * those that are immutable and built in, with arguments of fixed length, these read catalogs.
 */
static bool
function_takes_long(Oid function, void *context)
{
	switch (function)
	{
		case F_ENUM_LT:
		case F_ENUM_LE:
		case F_ENUM_GT:
		case F_ENUM_GE:
		case F_ENUM_CMP:
		case F_ENUM_SMALLER:
		case F_ENUM_LARGER:
		case F_PG_PARTITION_ROOT:
		case F_SATISFIES_HASH_PARTITION:
			return true;
		default:
			return function >= FirstUnpinnedObjectId || func_volatile(function) != PROVOLATILE_IMMUTABLE;
	}
}

/* Are there parts of a filter that may take long, wait or move counters?  An expression_tree_walker. */
static bool
filter_takes_long(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_BoolExpr:
			break;
		case T_Const:
			/* the other side of an array's comparison has been checked there */
			return get_typlen(((Const *) node)->consttype) < 0;
		case T_Var:
			/* columns of any length may be stored out of line */
			return ((Var *) node)->varattno == 0 || get_typlen(((Var *) node)->vartype) < 0;
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN || get_typlen(((Param *) node)->paramtype) < 0;
		case T_OpExpr:
		case T_FuncExpr:
			if (get_typlen(exprType(node)) < 0 || expression_returns_set(node))
				return true;
			break;
		case T_ScalarArrayOpExpr:
			{
				ScalarArrayOpExpr *in = (ScalarArrayOpExpr *) node;
				Const	   *array = lsecond(in->args);

				if (function_takes_long(in->opfuncid, NULL) || !IsA(array, Const) || array->constisnull ||
					get_typlen(ARR_ELEMTYPE(DatumGetArrayTypeP(array->constvalue))) < 0 ||
					ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(array->constvalue)), ARR_DIMS(DatumGetArrayTypeP(array->constvalue))) > MAX_ELEMENTS)
					return true;
				return filter_takes_long(linitial(in->args), context);
			}
		case T_NullTest:
			return ((NullTest *) node)->argisrow || filter_takes_long((Node *) ((NullTest *) node)->arg, context);
		case T_BooleanTest:
		case T_RelabelType:
			break;
		default:
			return true;
	}
	return check_functions_in_node(node, function_takes_long, NULL) || expression_tree_walker(node, filter_takes_long, context);
}

static bool
is_btree(Relation index)
{
	return index != NULL && index->rd_rel->relam == BTREE_AM_OID;
}

/*
 * Does a node move counters from page to page only?  Headers of tables and indexes
 * must be the server's.
 */
bool
light_scans_pages(PlanState *node)
{
	static int	trusted = -1;
	Relation	relation;

	if (node->ps_ProjInfo != NULL && !copies_columns(node->plan))
		return false;
	if (node->qual != NULL && (!IsA(node, SeqScanState) || filter_takes_long((Node *) node->plan->qual, NULL)))
		return false;
	if (trusted < 0)
		trusted = !light_other_minor();
	if (!trusted)
		return false;
	switch (nodeTag(node))
	{
		case T_SeqScanState:
			break;
		case T_IndexScanState:
			if (((IndexScan *) node->plan)->indexorderby != NIL || !is_btree(((IndexScanState *) node)->iss_RelationDesc))
				return false;
			break;
		case T_IndexOnlyScanState:
			if (((IndexOnlyScan *) node->plan)->indexorderby != NIL || !is_btree(((IndexOnlyScanState *) node)->ioss_RelationDesc))
				return false;
			break;
		default:
			return false;
	}
	relation = ((ScanState *) node)->ss_currentRelation;
	return relation != NULL && relation->rd_tableam == GetHeapamTableAmRoutine();
}

/*-------------------------------------------------------------------------
 *
 * short.c
 *	  Nodes of which most calls are short, whatever the data: see pages.c.
 *
 * Such a call returns the next row of a page that the scan has read.  It copies
 * columns, and at most evaluates a filter of immutable built-in functions of values
 * of fixed length.  Nothing else runs in it, it waits for nothing, and it changes no counter.
 * A probe of a hash table is short as well if the planner has proved that the keys in it are
 * unique, and there are no nulls among them, which a right or full join keeps: all in one
 * bucket.  So no bucket is long.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_proc.h"
#include "executor/hashjoin.h"
#include "measure/measure.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* More entries of an index are not checked at a time. */
#define MAX_ROWS 128

/* Elements of an array with which a filter compares. */
#define MAX_ELEMENTS 32

/* ---- which nodes --------------------------------------------------------- */

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

/* Does a function take a time that does not depend on its data?  Its types are checked where they are used. */
static bool
function_takes_long(Oid function, void *context)
{
	return function >= FirstUnpinnedObjectId || func_volatile(function) != PROVOLATILE_IMMUTABLE;
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

/* 19 fetches rows of an index scan in another way. */
static bool
is_btree(Relation index)
{
	return PG_VERSION_NUM < 190000 && index != NULL && index->rd_rel->relam == BTREE_AM_OID;
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

/* Does a join take hashes of an operator's operands by functions that are short? */
static bool
hashes_take_long(Oid operator)
{
	RegProcedure outer;
	RegProcedure inner;

	return !get_op_hash_functions(operator, &outer, &inner) || function_takes_long(outer, NULL) || function_takes_long(inner, NULL);
}

/* Has the hash table of a join of this type rows without a key? */
static bool
keeps_nulls(JoinType type)
{
	return type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI;
}

/*
 * Does a join do no more than look up the rows of such a scan in a hash table with unique
 * keys?  Whether the table is in memory is known when it has been built.
 */
bool
light_joins_pages(PlanState *node)
{
	HashJoin   *join = (HashJoin *) node->plan;
	ListCell   *lc;

	if (!IsA(node, HashJoinState) || !join->join.inner_unique || keeps_nulls(join->join.jointype) || join->join.plan.parallel_aware ||
		node->qual != NULL || join->join.joinqual != NIL || (node->ps_ProjInfo != NULL && !copies_columns(node->plan)) ||
		filter_takes_long((Node *) join->hashclauses, NULL) || filter_takes_long((Node *) join->hashkeys, NULL))
		return false;
	foreach(lc, join->hashoperators)
	{
		if (hashes_take_long(lfirst_oid(lc)))
			return false;
	}

	/*
	 * A join above such a join is timed: what its caller does in some ten
	 * nanoseconds would be too small compared with a call of three nodes (4
	 * to 8 points off in 013's "join of two tables").
	 */
	return light_scans_pages(outerPlanState(node));
}

/* ---- how many ----------------------------------------------------------- */

/* How many rows will a sequential scan return from this page? */
static int32
rows_left_of_page(const HeapScanDescData *scan)
{
	if (scan == NULL || !scan->rs_inited || (scan->rs_base.rs_flags & SO_ALLOW_PAGEMODE) == 0)
		return 0;
	return (int32) ((int64) scan->rs_ntuples - (int64) scan->rs_cindex - 1);
}

/*
 * How many of the next entries that an index scan has read of the index's page point to
 * the page of the table to which the one before points?
 */
static int32
rows_of_block(const IndexScanDescData * scan)
{
	const BTScanOpaqueData *position = (const BTScanOpaqueData *) scan->opaque;
	BlockNumber block = ItemPointerGetBlockNumber(&scan->xs_heaptid);
	int32		rows = 0;

	if (!BTScanPosIsValid(position->currPos))
		return 0;
	for (int i = position->currPos.itemIndex + 1; i <= position->currPos.lastItem && rows < MAX_ROWS; i++, rows++)
	{
		if (ItemPointerGetBlockNumber(&position->currPos.items[i].heapTid) != block)
			break;
	}
	return rows;
}

/*
 * How many will an index scan return before it needs another page of the index or the
 * table?  All rows on the page of the row that it returned must be visible to all: so
 * they are to its snapshot, whatever becomes of them now.
 */
static int32
rows_left_of_index(const IndexScanDescData * scan)
{
	const IndexFetchHeapData *heap;

	if (scan == NULL || scan->xs_heapfetch == NULL || scan->xs_recheck || scan->xs_heap_continue ||
		!IsMVCCSnapshot(scan->xs_snapshot) || scan->xs_snapshot->takenDuringRecovery)
		return 0;
	heap = (const IndexFetchHeapData *) scan->xs_heapfetch;
	if (!BufferIsValid(heap->xs_cbuf))
		return 0;
	if (!PageIsAllVisible(BufferGetPage(heap->xs_cbuf)))
		return 0;
	return rows_of_block(scan);
}

/*
 * The same of an index-only scan, which checks the visibility map for each row.  If
 * another session changes the page concurrently, it fetches the rest of its rows, and the one
 * buffer that it has to find for that is counted as its caller's.
 */
static int32
rows_left_of_index_only(IndexOnlyScanState *node)
{
	const		IndexScanDescData *scan = node->ioss_ScanDesc;

	if (scan == NULL || scan->xs_recheck || !BufferIsValid(node->ioss_VMBuffer) || !IsMVCCSnapshot(scan->xs_snapshot) ||
		!VM_ALL_VISIBLE(node->ss.ss_currentRelation, ItemPointerGetBlockNumber(&scan->xs_heaptid), &node->ioss_VMBuffer))
		return 0;
	return rows_of_block(scan);
}

/*
 * How many outer rows will a join get before the scan below leaves its page?  Each
 * returns one row at most.
 */
static int32
rows_left_of_outer(PlanState *join)
{
	const HashJoinTableData *table = ((HashJoinState *) join)->hj_HashTable;
	const LightRecord *outer = light_outer_record(join);

	if (table == NULL || table->nbatch != 1 || outer == NULL || !light_is_skipping(outer))
		return 0;
	return outer->skip_left + outer->skipped.granted_later;
}

/* How many rows will come from this page? */
int32
light_rows_left(PlanState *node)
{
	int32		rows;

	if (!ScanDirectionIsForward(node->state->es_direction))
		return 0;
	if (IsA(node, HashJoinState))
		rows = rows_left_of_outer(node);
	else if (IsA(node, SeqScanState))
		rows = rows_left_of_page((HeapScanDesc) ((ScanState *) node)->ss_currentScanDesc);
	else if (IsA(node, IndexScanState) && ScanDirectionIsForward(((IndexScan *) node->plan)->indexorderdir))
		rows = rows_left_of_index(((IndexScanState *) node)->iss_ScanDesc);
	else if (IsA(node, IndexOnlyScanState) && ScanDirectionIsForward(((IndexOnlyScan *) node->plan)->indexorderdir))
		rows = rows_left_of_index_only((IndexOnlyScanState *) node);
	else
		rows = 0;
	return rows >= LIGHT_MIN_ROWS ? rows : 0;
}

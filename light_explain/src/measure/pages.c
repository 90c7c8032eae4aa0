/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  Calls of a scan that stays on its page: measured by not looking.
 *
 * A sequential scan of a heap without filter takes all visible rows of a page at
 * once.  Until it needs the next page it moves no counter: whatever moved since
 * the last look is its caller's, to whom the next look books it.  So there is no
 * need to look at the counters, nor for the scan to be on the stack, and each call
 * returns a row: calls are counted down, and the rows are known from that.
 *
 * A full wrapper runs when a page ends, when a call is to be timed, and when
 * anything is not as it was: another caller, a new cycle, a scan backwards.  It is
 * followed by a look at how many rows are left, and only so many calls go past it.
 * If a call is cancelled, its row stays counted.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "measure/measure.h"
#include "nodes/primnodes.h"
#include "utils/rel.h"

/* Does making a row of a node's result no more than copy columns? */
bool
light_copies_columns(const Plan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->targetlist)
	{
		const Expr *expr = ((TargetEntry *) lfirst(lc))->expr;

		/* a whole row may fetch what is out of line */
		if (!IsA(expr, Var) || ((const Var *) expr)->varattno == 0)
			return false;
	}
	return true;
}

/*
 * Does a node move counters from page to page only?  The header of heaps must be
 * the server's.
 */
bool
light_scans_pages(PlanState *node)
{
	static int	trusted = -1;
	Relation	relation;

	if (!IsA(node, SeqScanState) || node->qual != NULL || (node->ps_ProjInfo != NULL && !light_copies_columns(node->plan)))
		return false;
	if (trusted < 0)
		trusted = !light_other_minor();
	relation = ((ScanState *) node)->ss_currentRelation;
	return trusted && relation != NULL && relation->rd_tableam == GetHeapamTableAmRoutine();
}

/* Calls that went past the wrapper were calls, and each returned a row, of this cycle or the one before. */
void
light_pages_settle(LightRecord *record)
{
	int32		passed = light_rows_passed(record);

	if (record->books->clock == LIGHT_CLOCK_SAMPLED)
		record->left[1] -= passed;
	record->granted = record->in_page = 0;
	record->core.ntuples += passed;
}

/* How many rows will come from this page? */
static int32
rows_left(PlanState *node)
{
	const HeapScanDescData *scan = (HeapScanDesc) ((ScanState *) node)->ss_currentScanDesc;

	if (scan == NULL || !scan->rs_inited || (scan->rs_base.rs_flags & SO_ALLOW_PAGEMODE) == 0 ||
		!ScanDirectionIsForward(node->state->es_direction))
		return 0;
	return (int32) ((int64) scan->rs_ntuples - (int64) scan->rs_cindex - 1);
}

static pg_noinline TupleTableSlot *
look(PlanState *node, LightRecord *record)
{
	TupleTableSlot *slot;

	light_pages_settle(record);
	slot = record->books->wrapper(node);
	if (!TupIsNull(slot))
	{
		int32		rows = rows_left(node);

		/* the last one of them is to be timed */
		if (record->books->clock == LIGHT_CLOCK_SAMPLED)
			rows = Min(rows, record->left[1] - 1);
		record->granted = record->in_page = Max(rows, 0);
	}
	return slot;
}

/* A call of such a scan. */
TupleTableSlot *pg_attribute_hot
light_scan_pages(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	TupleTableSlot *slot;

	if (unlikely(record->under != light.top || !record->core.running ||
				 !ScanDirectionIsForward(node->state->es_direction) || --record->in_page < 0))
		return look(node, record);
	slot = node->ExecProcNodeReal(node);
	Assert(!TupIsNull(slot));
	return slot;
}

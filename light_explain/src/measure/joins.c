/*-------------------------------------------------------------------------
 *
 * joins.c
 *	  Calls of a hash join whose table is in memory: measured by not looking.
 *
 * Once such a join has built its table, which it does in the first call of a cycle,
 * it moves no counter itself: it compares plain values, copies columns, and has no
 * second batch in a file.  Whatever moved since the last look is then its caller's,
 * or of the node that it calls, which looks itself.  So there is no need to look at
 * the counters, nor for the join to be on the stack: its caller stays on top, and
 * what that one used is booked to it by the next look, wherever that is.
 *
 * The node that the join calls finds the join's caller on top then, but is called by
 * the join: light_change_caller() knows by "granted", of which less are left in
 * "in_page" from the first call that was passed until the next full one.
 *
 * A full wrapper runs in the first call of a cycle and when another node than before
 * is on top.  In a call to be timed it looks at the counters, for that takes part of
 * what it was found to cost, but the join is passed: what it calls would else find
 * another one on top twice.
 *
 * A node below that another library wrapped does not look, and what it used would be
 * booked to the join's caller: no call of a join above such a one is passed.
 *
 * Of a call that is passed only its end is left to see: whether it returned a row.
 * A join that returns no rows of the hashed side alone ends in the call in which the
 * node below it does, and that one has a wrapper, which tells it: the call becomes a
 * jump, with nothing after it ("leapt").  If an error ends a call that is passed, its
 * row stays counted: nobody knows whether the call was going on or had returned.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "executor/hashjoin.h"
#include "executor/tuptable.h"
#include "measure/measure.h"
#include "nodes/primnodes.h"

/* Is it a column whose value is where the row is, and is compared without asking a catalog? */
static bool
is_plain_column(const Node *expr)
{
	if (!IsA(expr, Var))
		return false;
	switch (((const Var *) expr)->vartype)
	{
		case BOOLOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case UUIDOID:
			return true;
		default:
			return false;
	}
}

/*
 * Does a node, once its first call has returned, move no counter itself as long as it
 * has one batch?  The header of hash joins must be the server's.
 */
bool
light_passes_join(PlanState *node)
{
	const HashJoin *join = (const HashJoin *) node->plan;
	ListCell   *lc;

	if (!IsA(node, HashJoinState) || node->qual != NULL || join->join.joinqual != NIL || node->plan->parallel_aware ||
		innerPlan(join)->parallel_aware || !light_copies_columns(node->plan) || light_other_minor())
		return false;
	foreach(lc, join->hashclauses)
	{
		const OpExpr *clause = lfirst(lc);

		if (!IsA(clause, OpExpr) || clause->opfuncid >= FirstUnpinnedObjectId || list_length(clause->args) != 2 ||
			!is_plain_column(linitial(clause->args)) || !is_plain_column(lsecond(clause->args)))
			return false;
	}
	return true;
}

/* A call that was passed returned no row. */
static void
passed_end(LightRecord *record)
{
	light_pages_settle(record);
	record->core.ntuples -= 1.0;
}

/*
 * A node returned no row: so does the join that waits for it, if it is in a call that
 * was leapt over, and so on above that.
 */
void
light_joins_ended(const LightRecord *record)
{
	for (LightRecord *join = record->passed; join != NULL && join->leapt && light_passed(join); join = join->passed)
		passed_end(join);
}

/*
 * Does the node below a join look at the counters itself?  One that got its caller in
 * this statement carries our wrapper.  What another library's function calls is booked
 * to who is on top, which has to be the join then.
 */
static bool
looks_below(PlanState *node, const LightRecord *record)
{
	const LightBooks *books = record->books;
	const LightRecord *outer = (const LightRecord *) outerPlanState(node)->instrument;

	return outer > books->records && outer < books->records + books->nrecords && outer->caller == record;
}

/* Will the node below a join, which looks itself, tell when it ends? */
static bool
learns_of_end(PlanState *node, const LightRecord *record)
{
	switch (((const HashJoin *) node->plan)->join.jointype)
	{
		case JOIN_INNER:
		case JOIN_LEFT:
		case JOIN_SEMI:
		case JOIN_ANTI:
			return ((const LightRecord *) outerPlanState(node)->instrument)->passed == record;
		default:
			return false;
	}
}

static TupleTableSlot *leap_join(PlanState *node);

static pg_noinline TupleTableSlot *
look(PlanState *node, LightRecord *record)
{
	TupleTableSlot *slot;

	/* only the last call that was granted is counted below 0 */
	bool		timed = record->granted > 0 && record->in_page < 0;

	light_pages_settle(record);

	/* the call to be timed, up to which they were granted, is passed too */
	if (timed)
		record->granted = 1;
	slot = record->books->wrapper(node);
	record->granted = record->in_page = 0;
	if (!TupIsNull(slot))
	{
		const HashJoinTableData *table = ((HashJoinState *) node)->hj_HashTable;
		int32		calls = 0;

		/* the last one of them is to be timed */
		if (table != NULL && table->nbatch == 1 && table->parallel_state == NULL && looks_below(node, record))
			calls = record->books->clock == LIGHT_CLOCK_SAMPLED ? record->left[1] - 1 : PG_INT32_MAX;
		record->granted = record->in_page = Max(calls, 0);
		if (!record->leapt && node->ExecProcNode == light_pass_join && looks_below(node, record) && learns_of_end(node, record))
		{
			record->leapt = true;
			node->ExecProcNode = leap_join;
		}
	}
	return slot;
}

/* May a call go past the wrapper?  It is counted then. */
static inline bool
passes(LightRecord *record)
{
	return likely(record->under == light.top && record->core.running && --record->in_page >= 0);
}

/* A call of such a join. */
TupleTableSlot *pg_attribute_hot
light_pass_join(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	TupleTableSlot *slot;

	if (!passes(record))
		return look(node, record);
	slot = node->ExecProcNodeReal(node);
	if (unlikely(TupIsNull(slot)))
	{
		passed_end(record);
		light_joins_ended(record);
	}
	return slot;
}

/* A call of a join that learns of its end from below. */
static TupleTableSlot *pg_attribute_hot
leap_join(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	TupleTableSlot *slot;

	if (!passes(record))
		return look(node, record);
	slot = node->ExecProcNodeReal(node);
	Assert(TupIsNull(slot) == (record->granted == 0));
	return slot;
}

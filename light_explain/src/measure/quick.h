/*-------------------------------------------------------------------------
 *
 * quick.h
 *	  A call of a node before there are records, for statements of which most is
 *	  known: see light_call_quickly().
 *
 * Short statements have no other calls.  So it is inlined where they begin, and
 * what has to be remembered during the call is in plain variables: a compiler that
 * guards stacks takes an array, or a variable whose address is taken, for something
 * to be guarded, in each call.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_QUICK_H
#define LIGHT_QUICK_H

#include "executor/tuptable.h"
#include "measure/measure.h"

/* What core's struct keeps of a call that measured it itself. */
static pg_attribute_always_inline void
light_count_row(NodeInstrumentation_compat *instr, TupleTableSlot *slot)
{
	if (!TupIsNull(slot))
		instr->tuplecount += 1.0;
	if (!instr->running)
	{
		instr->running = true;
		InstrSetFirstTuple_compat(instr);
	}
}

/*
 * Where core's counters are.  Volatile, so that a wrapper reads the pointers at
 * both looks instead of saving registers to keep them across the call.
 */
static const BufferUsage *volatile buffers_at = &pgBufferUsage;
static const WalUsage *volatile wal_at = &pgWalUsage;

/*
 * The clock of core's fields, of which only differences are meaningful.  The second function
 * is for the end of a call: see light_now_ordered().
 */
#if HAVE_QUICK_INSTR_CLOCK_COMPAT
static pg_attribute_always_inline int64
light_core_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT_FAST(now);
	return now.ticks;
}

static pg_attribute_always_inline int64
light_core_now_ordered(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return now.ticks;
}
#else
static pg_attribute_always_inline int64
light_core_now(void)
{
	return light_now();
}

static pg_attribute_always_inline int64
light_core_now_ordered(void)
{
	return light_now_ordered();
}
#endif

/*
 * One call of a node as core's ExecProcNodeInstr makes it, with the same results in
 * core's fields, in a statement that is timed by a quick clock, without times of
 * I/O.  "running": it is not the first one of a cycle.
 * The statement, not the node, determines what is measured.
 *
 * Only the node is kept in a register across the call: each further register
 * would have to be saved first.
 */
static pg_attribute_always_inline TupleTableSlot *
light_call_quickly(PlanState *node, bool running)
{
	const LightWords2 *now = (const LightWords2 *) buffers_at;
	LightWords2 before0 = now[0];
	LightWords2 before1 = now[1];
	LightWords2 before2 = now[2];
	LightWords2 before3 = now[3];
	LightWords2 before4 = now[4];
	WalUsage	wal = *wal_at;
	NodeInstrumentation_compat *instr;
	int			options;
	int64		start;
	int32		outer = light_stack.cell.node;
	TupleTableSlot *slot;

	StaticAssertStmt(LIGHT_LITE_WORDS == 10, "the counters of blocks are five pairs");
	light_stack.cell.node = node->plan->plan_node_id;
	start = light_core_now();
	slot = node->ExecProcNodeReal(node);
	light_stack.cell.node = outer;

	/* the node may have got a record during the call */
	instr = node->instrument;
	InstrAddCounter_compat(instr, Max(light_core_now_ordered() - start, 0));
	options = node->state->es_instrument;
	if (likely(options & INSTRUMENT_BUFFERS))
	{
		LightWords2 *sum = (LightWords2 *) InstrBuffers_compat(instr);

		now = (const LightWords2 *) buffers_at;
		sum[0] += now[0] - before0;
		sum[1] += now[1] - before1;
		sum[2] += now[2] - before2;
		sum[3] += now[3] - before3;
		sum[4] += now[4] - before4;
	}
	if (unlikely(wal_at->wal_records != wal.wal_records) && (options & INSTRUMENT_WAL))
		slot = light_add_wal_since(instr, wal, slot);
	if (!running)
		light_count_row(node->instrument, slot);
	else if (!TupIsNull(slot))
		node->instrument->tuplecount += 1.0;
	return slot;
}

#endif							/* LIGHT_QUICK_H */

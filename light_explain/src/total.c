/*-------------------------------------------------------------------------
 *
 * total.c
 *	  The server's measure of a statement as a whole.
 *
 * auto_explain and pg_stat_statements ask the executor for the time and the
 * counters of ExecutorRun and ExecutorFinish, in QueryDesc.totaltime.  In a
 * statement of two microseconds taking them is a good part of what measuring
 * costs.  So the field is hidden from the executor while it runs, and we fill
 * what it points to, from the processor's counter.  Who asked looks at it after
 * ExecutorFinish.  A statement that failed is never asked for its figures: then
 * the field stays hidden.
 *
 * Called by the hooks around ExecutorRun and ExecutorFinish.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "compat_instrument.h"
#include "light_explain.h"

#if !HAVE_QUICK_INSTR_CLOCK_COMPAT

/* The executor is about to run or, with "finish", to finish a statement. */
void		pg_attribute_hot
light_total_start(LightTotal *total, LightQuery *query, bool finish)
{
	QueryDesc  *queryDesc = query->queryDesc;
	Instrumentation *instr = queryDesc->totaltime;

	total->hidden = NULL;
	if (instr == NULL || !query->quick || !instr->need_timer || !instr->need_bufusage || !instr->need_walusage)
		return;
	total->hidden = instr;
	queryDesc->totaltime = NULL;
	/* no triggers, no rows that WITH did not fetch: finishing does nothing */
	total->empty = finish && query->estate->es_auxmodifytables == NIL &&
		(query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0;
	if (total->empty)
		return;
#pragma GCC unroll 8
	for (int i = 0; i < LIGHT_LITE_WORDS / 2; i++)
		total->blocks[i] = ((const LightWords2 *) &pgBufferUsage)[i];
	total->wal = pgWalUsage;
	total->start = light_now();
}

/* It is done. */
void		pg_attribute_hot
light_total_stop(LightTotal *total, LightQuery *query, bool finish)
{
	Instrumentation *instr = total->hidden;

	if (instr == NULL)
		return;
	query->queryDesc->totaltime = instr;
	if (total->empty)
		return;
	InstrAddCounter_compat(instr, (int64) ((light_now() - total->start) * light_ns_per_tick));
	if (!finish)
		instr->tuplecount += query->estate->es_processed;

	/*
	 * times of I/O are zero in a quick statement, except for the rare one
	 * that turns them on
	 */
#pragma GCC unroll 8
	for (int i = 0; i < LIGHT_LITE_WORDS / 2; i++)
		((LightWords2 *) &instr->bufusage)[i] += ((const LightWords2 *) &pgBufferUsage)[i] - total->blocks[i];
	if (unlikely(pgWalUsage.wal_records != total->wal.wal_records))
		WalUsageAccumDiff(&instr->walusage, &pgWalUsage, &total->wal);
	if (!instr->running)
	{
		instr->running = true;
		InstrSetFirstTuple_compat(instr);
	}
}

#else

void
light_total_start(LightTotal *total, LightQuery *query, bool finish)
{
	total->hidden = NULL;
}

void
light_total_stop(LightTotal *total, LightQuery *query, bool finish)
{
}

#endif

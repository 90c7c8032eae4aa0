/*-------------------------------------------------------------------------
 *
 * total.c
 *	  The server's measure of a statement as a whole.
 *
 * auto_explain and pg_stat_statements ask the executor for the time and the
 * counters of ExecutorRun and ExecutorFinish, in QueryDesc.totaltime.  In a
 * statement of two microseconds taking them is a good part of what measuring
 * costs.  So we fill the struct ourselves, from the processor's counter, and keep
 * the executor from it by taking away the flags that say what to measure.
 *
 * Other extensions' hooks look at the struct whenever they like.  So this is done
 * only if the executor itself is next, and only while it runs: before and after,
 * and after an error as well, the struct is what the executor would have made of
 * it.  A library that was loaded earlier has hooks between ours and the executor;
 * then the server measures.
 *
 * Called by the hooks around ExecutorRun and ExecutorFinish.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "statement/statement.h"

#if !HAVE_QUICK_INSTR_CLOCK_COMPAT

/*
 * The executor is about to run or, with "finish", to finish a statement, and no
 * other hook comes before it.  Returns whether we measure; then light_total_stop()
 * must follow, or light_total_failed() after an error.
 */
bool		pg_attribute_hot
light_total_start(LightTotal *total, LightQuery *query, bool finish)
{
	Instrumentation *instr = query->queryDesc->totaltime;

	if (instr == NULL || !query->quick || !instr->need_timer || !instr->need_bufusage || !instr->need_walusage)
		return false;
	total->instr = instr;
	total->first = !instr->running;
	InstrSetNeeds_compat(instr, 0);
	/* no triggers, no rows that WITH did not fetch: finishing does nothing */
	total->empty = finish && query->estate->es_auxmodifytables == NIL &&
		(query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0;
	if (total->empty)
		return true;
	light_glance(&total->before, &pgBufferUsage, &pgWalUsage);
	total->start = light_now();
	return true;
}

/* It is done. */
void		pg_attribute_hot
light_total_stop(LightTotal *total)
{
	Instrumentation *instr = total->instr;

	InstrSetNeeds_compat(instr, INSTRUMENT_ALL);
	if (total->empty)
		return;
	InstrAddCounter_compat(instr, (int64) ((light_now() - total->start) * light_ns_per_tick));

	/*
	 * times of I/O are zero in a quick statement, except for the rare one
	 * that turns them on
	 */
	light_add_blocks_since(&total->before, &instr->bufusage, &pgBufferUsage);
	if (unlikely(pgWalUsage.wal_records != total->before.wal.wal_records))
		WalUsageAccumDiff(&instr->walusage, &pgWalUsage, &total->before.wal);

	/* the executor has counted the rows */
	if (total->first)
		InstrSetFirstTuple_compat(instr);
}

/*
 * An error ended it: leave the struct as the executor does, which has begun to
 * measure and not stopped.
 */
void
light_total_failed(LightTotal *total)
{
	Instrumentation *instr = total->instr;

	InstrSetNeeds_compat(instr, INSTRUMENT_ALL);
	InstrSetStarted_compat(instr, (int64) ((light_now() - total->start) * light_ns_per_tick));
	instr->bufusage_start = pgBufferUsage;
	light_blocks_at(&total->before, &instr->bufusage_start);
	instr->walusage_start = total->before.wal;
}

#else

bool
light_total_start(LightTotal *total, LightQuery *query, bool finish)
{
	return false;
}

void
light_total_stop(LightTotal *total)
{
}

void
light_total_failed(LightTotal *total)
{
}

#endif

/*-------------------------------------------------------------------------
 *
 * total.c
 *	  The server's measure of a statement as a whole.
 *
 * auto_explain and pg_stat_statements ask the executor for the time and the
 * counters of ExecutorRun and ExecutorFinish, in QueryDesc.totaltime.  In a
 * statement of a few microseconds taking them is a good part of what measuring
 * costs.  So where the executor itself is next, we fill the struct, by our clock, and
 * keep the executor from it by taking away the flags that say what to measure.  Before
 * and after, and after an error as well, the struct is what the executor would have
 * made of it.
 *
 * Measured on 15, lookups by key in PL/pgSQL under auto_explain with log_analyze:
 * CPU time over that of plain statements, lower quartile of 31 rounds of 4,000
 * statements, twice.  Core 1.09 and 1.12; we without this file 1.11 and 1.12, with it
 * 1.05 and 1.06.  In instructions that auto_explain adds to a prepared pgbench -S (lab/run
 * instructions --ways auto_explain): 0.93 of core's, without this file 1.02.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_executor.h"
#include "statement/statement.h"

#if !HAVE_QUICK_INSTR_CLOCK_COMPAT

/* Is all asked for, and nothing that takes more than our clock and a glance? */
static inline bool
can_measure(const LightQuery *query, const Instrumentation *total)
{
	return query->fast && total != NULL && InstrNeedTimer_compat(total) && InstrNeedBuffers_compat(total) && InstrNeedWal_compat(total);
}

/*
 * standard_ExecutorRun(), with the work of core's InstrStartNode() and InstrStopNode()
 * around it.  Those only count rows then, since the flags that select
 * measurements are cleared.
 */
void		pg_attribute_hot
light_total_run(LightQuery *query, EXECUTORRUN_PARAMS_compat)
{
	Instrumentation *total = queryDesc->totaltime;
	LightGlance before;
	int64		start;
	bool		first;

	if (!can_measure(query, total))
	{
		standard_ExecutorRun(EXECUTORRUN_ARGS_compat);
		return;
	}
	first = !total->running;
	InstrSetNeeds_compat(total, 0);
	light_glance(&before, &pgBufferUsage, &pgWalUsage);
	start = light_now();
	PG_TRY();
	{
		standard_ExecutorRun(EXECUTORRUN_ARGS_compat);
	}
	PG_CATCH();
	{
		/*
		 * as the executor leaves it, which has begun to measure and not
		 * stopped
		 */
		InstrSetNeeds_compat(total, INSTRUMENT_ALL);
		InstrSetStarted_compat(total, light_now() - start);
		total->bufusage_start = pgBufferUsage;
		light_blocks_at(&before, &total->bufusage_start);
		total->walusage_start = before.wal;
		PG_RE_THROW();
	}
	PG_END_TRY();
	InstrSetNeeds_compat(total, INSTRUMENT_ALL);
	InstrAddCounter_compat(total, Max(light_now() - start, 0));
	light_add_blocks_since(&before, InstrBuffers_compat(total), &pgBufferUsage);
	if (unlikely(pgWalUsage.wal_records != before.wal.wal_records))
		WalUsageAccumDiff(InstrWal_compat(total), &pgWalUsage, &before.wal);
	if (first)
		InstrSetFirstTuple_compat(total);
}

/* standard_ExecutorFinish() of a statement that has nothing to finish: there is nothing to measure. */
void		pg_attribute_hot
light_total_finish_empty(QueryDesc *queryDesc)
{
	Instrumentation *total = queryDesc->totaltime;

	queryDesc->totaltime = NULL;
	standard_ExecutorFinish(queryDesc);
	queryDesc->totaltime = total;
}

#else

/* The server's clock is as fast. */
void
light_total_run(LightQuery *query, EXECUTORRUN_PARAMS_compat)
{
	standard_ExecutorRun(EXECUTORRUN_ARGS_compat);
}

void
light_total_finish_empty(QueryDesc *queryDesc)
{
	standard_ExecutorFinish(queryDesc);
}

#endif

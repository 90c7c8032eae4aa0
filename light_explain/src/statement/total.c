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
 * Who asks for the struct allocates it after ours of the hooks in ExecutorStart
 * has returned, if there is none yet: 400 bytes, for which the statement's memory
 * often has to grow.  So in a session where somebody did, the next statements get
 * one of a few of ours before he looks.  It is his then, until the statement's
 * memory goes away.
 *
 * Called by the hooks around ExecutorStart, ExecutorRun and ExecutorFinish.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "statement/statement.h"

#if !HAVE_QUICK_INSTR_CLOCK_COMPAT

/* ---- structs of ours ---------------------------------------------------- */

/* Statements that get one after somebody else made one. */
#define WANTED_FOR 1000

typedef struct OwnTotal
{
	Instrumentation instr;
	bool		used;
	MemoryContextCallback callback;
} OwnTotal;

static OwnTotal own_totals[4] pg_attribute_aligned(64);
static int	wanted_for = 0;

/* Called, not inlined: for this size compilers choose an instruction that starts slowly. */
static void *(*volatile clear) (void *, int, size_t) = memset;

static void
release_total(void *arg)
{
	((OwnTotal *) arg)->used = false;
}

/*
 * A statement was prepared for execution: give it the struct that somebody is
 * likely to ask for.  Not EXPLAIN ANALYZE's own statement, which nobody measures.
 *
 * Nor that of a portal, which is prepared without a receiver: a cursor that begins in a
 * function, or in DECLARE, ends outside of it, where those who would not measure it at its
 * beginning would take a struct for their own.  The same holds for statements of SQL
 * functions that return rows one by one: if not all are asked for, such a function ends
 * with the statement around it.
 */
void		pg_attribute_hot
light_total_provide(QueryDesc *queryDesc)
{
	if (wanted_for == 0 || queryDesc->totaltime != NULL || queryDesc->dest == NULL ||
		queryDesc->dest->mydest == DestNone || queryDesc->dest->mydest == DestSQLFunction)
		return;
	wanted_for--;
	for (int i = 0; i < lengthof(own_totals); i++)
	{
		OwnTotal   *total = &own_totals[i];

		if (total->used)
			continue;
		(void) clear(&total->instr, 0, sizeof(Instrumentation));
		InstrSetNeeds_compat(&total->instr, INSTRUMENT_ALL);
		total->used = true;
		total->callback.func = release_total;
		total->callback.arg = total;
		MemoryContextRegisterResetCallback(queryDesc->estate->es_query_cxt, &total->callback);
		queryDesc->totaltime = &total->instr;
		break;
	}
}

/* Somebody has asked for a struct: was it one of theirs? */
static inline void
note_total(const Instrumentation *instr)
{
	if (unlikely((const char *) instr < (const char *) own_totals || (const char *) instr >= (const char *) (own_totals + lengthof(own_totals))))
		wanted_for = WANTED_FOR;
}

/* ---- measuring ---------------------------------------------------------- */

/*
 * The executor is about to run or to finish a statement, and no other hook comes
 * before it.  Returns whether we measure; then light_total_stop()
 * must follow, or light_total_failed() after an error.
 */
bool		pg_attribute_hot
light_total_start(LightTotal *total, LightQuery *query)
{
	Instrumentation *instr = query->queryDesc->totaltime;

	if (instr == NULL)
		return false;
	note_total(instr);
	if (!query->quick || !instr->need_timer || !instr->need_bufusage || !instr->need_walusage)
		return false;
	total->instr = instr;
	total->first = !instr->running;
	InstrSetNeeds_compat(instr, 0);
	light_glance(&total->before, &pgBufferUsage, &pgWalUsage);
	total->start = light_query_begin(query);
	return true;
}

/* It is done. */
void		pg_attribute_hot
light_total_stop(LightTotal *total)
{
	Instrumentation *instr = total->instr;

	InstrSetNeeds_compat(instr, INSTRUMENT_ALL);
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

/* The executor finishes a statement that has nothing to finish, so there is nothing to measure. */
void		pg_attribute_hot
light_total_finish_empty(QueryDesc *queryDesc)
{
	Instrumentation *total = queryDesc->totaltime;

	queryDesc->totaltime = NULL;
	standard_ExecutorFinish(queryDesc);
	queryDesc->totaltime = total;
}

#else

void
light_total_finish_empty(QueryDesc *queryDesc)
{
	standard_ExecutorFinish(queryDesc);
}

void
light_total_provide(QueryDesc *queryDesc)
{
}

bool
light_total_start(LightTotal *total, LightQuery *query)
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

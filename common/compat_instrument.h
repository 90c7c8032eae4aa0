/*-------------------------------------------------------------------------
 *
 * compat_instrument.h
 *	  Differences between PostgreSQL 15 and 19 in the instrumentation of plan
 *	  nodes and in how extensions take part in EXPLAIN.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_INSTRUMENT_H
#define COMPAT_INSTRUMENT_H

#include "executor/instrument.h"
#include "portability/instr_time.h"

/*
 * A plan node's instrumentation is one struct up to 18; 19 splits it into a
 * part that anything can use and what only nodes need.
 */
#if PG_VERSION_NUM >= 190000
typedef NodeInstrumentation NodeInstrumentation_compat;
#define InstrAllocNode_compat(options) InstrAllocNode(options, false)
#define InstrNeedTimer_compat(node) ((node)->instr.need_timer)
#define InstrStarted_compat(node) ((node)->instr.starttime)
#define InstrNeedBuffers_compat(node) ((node)->instr.need_bufusage)
#define InstrNeedWal_compat(node) ((node)->instr.need_walusage)
#define InstrSetNeeds_compat(node, options) \
	((node)->instr.need_timer = ((options) & INSTRUMENT_TIMER) != 0, \
	 (node)->instr.need_bufusage = ((options) & INSTRUMENT_BUFFERS) != 0, \
	 (node)->instr.need_walusage = ((options) & INSTRUMENT_WAL) != 0)
#define InstrBuffers_compat(node) (&(node)->instr.bufusage)
#define InstrWal_compat(node) (&(node)->instr.walusage)
#define InstrTotal_compat(node) (INSTR_TIME_GET_DOUBLE((node)->instr.total) + INSTR_TIME_GET_DOUBLE((node)->counter))
static inline void
InstrAddTime_compat(NodeInstrumentation * node, double startup, double total)
{
	instr_time	t;

	INSTR_TIME_SET_ZERO(t);
	INSTR_TIME_ADD_NANOSEC(t, (int64) (startup * 1e9));
	INSTR_TIME_ADD(node->startup, t);
	INSTR_TIME_SET_ZERO(t);
	INSTR_TIME_ADD_NANOSEC(t, (int64) (total * 1e9));
	INSTR_TIME_ADD(node->instr.total, t);
}
#else
typedef Instrumentation NodeInstrumentation_compat;
#define InstrAllocNode_compat(options) InstrAlloc(1, options, false)
#define InstrNeedTimer_compat(node) ((node)->need_timer)
#define InstrStarted_compat(node) ((node)->starttime)
#define InstrNeedBuffers_compat(node) ((node)->need_bufusage)
#define InstrNeedWal_compat(node) ((node)->need_walusage)
#define InstrSetNeeds_compat(node, options) \
	((node)->need_timer = ((options) & INSTRUMENT_TIMER) != 0, \
	 (node)->need_bufusage = ((options) & INSTRUMENT_BUFFERS) != 0, \
	 (node)->need_walusage = ((options) & INSTRUMENT_WAL) != 0)
#define InstrBuffers_compat(node) (&(node)->bufusage)
#define InstrWal_compat(node) (&(node)->walusage)
#define InstrTotal_compat(node) ((node)->total + INSTR_TIME_GET_DOUBLE((node)->counter))
static inline void
InstrAddTime_compat(Instrumentation *node, double startup, double total)
{
	node->startup += startup;
	node->total += total;
}
#endif

/*
 * Add to a node's run time in its current cycle: nanoseconds, on 19 ticks of the
 * server's clock, which may be the CPU's counter.
 */
#if PG_VERSION_NUM >= 190000
#define HAVE_QUICK_INSTR_CLOCK_COMPAT 1
#define InstrAddCounter_compat(node, n) ((node)->counter.ticks += (n))
#define InstrSetFirstTuple_compat(node) ((node)->firsttuple = (node)->counter)
#else
#define HAVE_QUICK_INSTR_CLOCK_COMPAT 0
#define InstrSetFirstTuple_compat(node) ((node)->firsttuple = INSTR_TIME_GET_DOUBLE((node)->counter))
#if PG_VERSION_NUM >= 160000
#define InstrAddCounter_compat(node, ns) ((node)->counter.ticks += (ns))
/* A node began to run that many nanoseconds ago and still does. */
#define InstrSetStarted_compat(node, ns) \
	(INSTR_TIME_SET_CURRENT((node)->starttime), (node)->starttime.ticks -= (ns))
#else
static inline void
InstrAddCounter_compat(Instrumentation *node, int64 ns)
{
	ns += node->counter.tv_nsec;
	if (unlikely(ns >= INT64CONST(1000000000)))
	{
		node->counter.tv_sec += ns / INT64CONST(1000000000);
		ns %= INT64CONST(1000000000);
	}
	node->counter.tv_nsec = ns;
}
static inline void
InstrSetStarted_compat(Instrumentation *node, int64 ns)
{
	int64		start;

	INSTR_TIME_SET_CURRENT(node->starttime);
	start = node->starttime.tv_sec * INT64CONST(1000000000) + node->starttime.tv_nsec - ns;
	node->starttime.tv_sec = start / INT64CONST(1000000000);
	node->starttime.tv_nsec = start % INT64CONST(1000000000);
}
#endif
#endif

/*
 * A sum of differences of struct timespec (the times in BufferUsage up to 15)
 * has nanoseconds out of their range.
 */
#if PG_VERSION_NUM >= 160000
#define BufferUsageNormalize_compat(usage) ((void) (usage))
#else
static inline void
BufferUsageNormalize_compat(BufferUsage *usage)
{
	instr_time *times[] = {&usage->blk_read_time, &usage->blk_write_time,
	&usage->temp_blk_read_time, &usage->temp_blk_write_time};

	for (int i = 0; i < lengthof(times); i++)
	{
		int64		ns;

		/* they are taken with track_io_timing only */
		if (likely(times[i]->tv_nsec == 0))
			continue;
		ns = times[i]->tv_sec * INT64CONST(1000000000) + times[i]->tv_nsec;

		times[i]->tv_sec = ns / INT64CONST(1000000000);
		times[i]->tv_nsec = ns % INT64CONST(1000000000);
	}
}
#endif

/* EXPLAIN takes options and prints fields of extensions since 18. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#if PG_VERSION_NUM >= 190000
#define RegisterExplainOption_compat(name, handler) RegisterExtensionExplainOption(name, handler, GUCCheckBooleanExplainOption)
#else
#define RegisterExplainOption_compat(name, handler) RegisterExtensionExplainOption(name, handler)
#endif
#endif

#endif							/* COMPAT_INSTRUMENT_H */

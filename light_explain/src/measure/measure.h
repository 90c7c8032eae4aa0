/*-------------------------------------------------------------------------
 *
 * measure.h
 *	  The lowest floor: the record of a plan node, the stack of running nodes,
 *	  the functions that stand around a node's calls, and arithmetic of usage.
 *
 * Nothing here knows of statements: the records of one have their books in
 * common.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_MEASURE_H
#define LIGHT_MEASURE_H

#include "postgres.h"

#include "compat_instrument.h"
#include "executor/instrument.h"
#include "light_explain.h"
#include "measure/clock.h"
#include "nodes/execnodes.h"

/* ---- usage -------------------------------------------------------------- */

typedef struct LightUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} LightUsage;

/* Core's structs are counters of 64 bits, and so is ours; times of I/O, too. */
typedef int64 LightWord __attribute__((may_alias));

#define LIGHT_BUFFER_WORDS (sizeof(BufferUsage) / sizeof(LightWord))
#define LIGHT_WAL_WORDS (sizeof(WalUsage) / sizeof(LightWord))
#define LIGHT_USAGE_WORDS (sizeof(LightUsage) / sizeof(LightWord))

StaticAssertDecl(offsetof(LightUsage, wal) == sizeof(BufferUsage) &&
				 LIGHT_USAGE_WORDS == LIGHT_BUFFER_WORDS + LIGHT_WAL_WORDS, "no gap in LightUsage");

/* The counters of blocks, all but times of I/O: the first ten of BufferUsage. */
#define LIGHT_LITE_WORDS 10

StaticAssertDecl(offsetof(BufferUsage, temp_blks_written) == (LIGHT_LITE_WORDS - 1) * sizeof(LightWord),
				 "block counters come first in BufferUsage");
StaticAssertDecl(offsetof(WalUsage, wal_records) == 0, "the number of records comes first in WalUsage");

/* Two counters at a time, as every processor of ours can. */
typedef long long LightWords2 __attribute__((vector_size(16), aligned(8), may_alias));

StaticAssertDecl(LIGHT_LITE_WORDS % 2 == 0, "counters are taken by twos");

/* Functions that are compiled for newer processors as well. */
#if defined(__x86_64__)
#define LIGHT_HAVE_AVX2 1
#define LIGHT_FOR_AVX2 __attribute__((target("avx2")))
#else
#define LIGHT_HAVE_AVX2 0
#endif

/* Block counters and WAL as they were: what short calls copy. */
typedef struct LightGlance
{
	LightWords2 blocks[LIGHT_LITE_WORDS / 2];
	WalUsage	wal;
} LightGlance;

/*
 * Short calls copy what counts blocks and WAL before, and add the difference to
 * core's figures after.
 */
static pg_attribute_always_inline void
light_glance(LightGlance *glance, const BufferUsage *buffers, const WalUsage *wal)
{
#pragma GCC unroll 8
	for (int i = 0; i < LIGHT_LITE_WORDS / 2; i++)
		glance->blocks[i] = ((const LightWords2 *) buffers)[i];
	glance->wal = *wal;
}

static pg_attribute_always_inline void
light_add_blocks_since(const LightGlance *glance, BufferUsage *to, const BufferUsage *buffers)
{
	const LightWords2 *now = (const LightWords2 *) buffers;
	LightWords2 *sum = (LightWords2 *) to;

#pragma GCC unroll 8
	for (int i = 0; i < LIGHT_LITE_WORDS / 2; i++)
		sum[i] += now[i] - glance->blocks[i];
}

/* The counters as they were at the glance, but for times of I/O. */
static inline void
light_blocks_at(const LightGlance *glance, BufferUsage *to)
{
	for (int i = 0; i < LIGHT_LITE_WORDS / 2; i++)
		((LightWords2 *) to)[i] = glance->blocks[i];
}

static inline void
light_add_words(void *to, const void *what, int n)
{
	for (int i = 0; i < n / 2; i++)
		((LightWords2 *) to)[i] += ((const LightWords2 *) what)[i];
	if (n % 2 != 0)
		((LightWord *) to)[n - 1] += ((const LightWord *) what)[n - 1];
}

static inline void
light_subtract_words(void *from, const void *what, int n)
{
	for (int i = 0; i < n / 2; i++)
		((LightWords2 *) from)[i] -= ((const LightWords2 *) what)[i];
	if (n % 2 != 0)
		((LightWord *) from)[n - 1] -= ((const LightWord *) what)[n - 1];
}

/* Book what counters moved since they were seen; they are seen now. */
static pg_attribute_always_inline void
light_book_words(void *to, void *seen, const void *counters, int n)
{
	for (int i = 0; i < n; i++)
	{
		LightWord	now = ((const LightWord *) counters)[i];

		((LightWord *) to)[i] += now - ((LightWord *) seen)[i];
		((LightWord *) seen)[i] = now;
	}
}

/* The same of the counters of blocks only. */
static pg_attribute_always_inline void
light_book_blocks(BufferUsage *to, BufferUsage *seen, const BufferUsage *counters)
{
	LightWords2 *sum = (LightWords2 *) to;
	LightWords2 *before = (LightWords2 *) seen;

#pragma GCC unroll 8
	for (int i = 0; i < LIGHT_LITE_WORDS / 2; i++)
	{
		LightWords2 now = ((const LightWords2 *) counters)[i];

		sum[i] += now - before[i];
		before[i] = now;
	}
}

static inline void
light_usage_add(LightUsage *to, const LightUsage *what)
{
	light_add_words(to, what, LIGHT_USAGE_WORDS);
}

/* Add what was used from one look at the counters to another. */
static inline void
light_usage_add_since(LightUsage *to, const LightUsage *before, const LightUsage *now)
{
	for (int i = 0; i < LIGHT_USAGE_WORDS / 2; i++)
		((LightWords2 *) to)[i] += ((const LightWords2 *) now)[i] - ((const LightWords2 *) before)[i];
	if (LIGHT_USAGE_WORDS % 2 != 0)
		((LightWord *) to)[LIGHT_USAGE_WORDS - 1] +=
			((const LightWord *) now)[LIGHT_USAGE_WORDS - 1] - ((const LightWord *) before)[LIGHT_USAGE_WORDS - 1];
}

static inline void
light_usage_subtract(LightUsage *from, const LightUsage *what)
{
	light_subtract_words(from, what, LIGHT_USAGE_WORDS);
}

static inline bool
light_usage_any(const LightUsage *usage)
{
	LightWord	any = 0;

	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
		any |= ((const LightWord *) usage)[i];
	return any != 0;
}

/* Core's figures of a node. */
static inline void
light_usage_add_core(LightUsage *to, NodeInstrumentation_compat *instr)
{
	light_add_words(&to->buffers, InstrBuffers_compat(instr), LIGHT_BUFFER_WORDS);
	light_add_words(&to->wal, InstrWal_compat(instr), LIGHT_WAL_WORDS);
}

/* Add usage to core's figures of a node, as far as they are asked for. */
static inline void
light_usage_add_to_core(NodeInstrumentation_compat *instr, const LightUsage *usage)
{
	if (InstrNeedBuffers_compat(instr))
	{
		light_add_words(InstrBuffers_compat(instr), &usage->buffers, LIGHT_BUFFER_WORDS);
		BufferUsageNormalize_compat(InstrBuffers_compat(instr));
	}
	if (InstrNeedWal_compat(instr))
		light_add_words(InstrWal_compat(instr), &usage->wal, LIGHT_WAL_WORDS);
}

/*
 * Nothing is less than nothing.  The times of I/O are no plain numbers on every
 * version, and are not shown.
 */
static inline void
light_usage_clamp(LightUsage *usage)
{
	LightWord  *words = (LightWord *) usage;

	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
	{
		if (i < LIGHT_LITE_WORDS || i >= LIGHT_BUFFER_WORDS)
			words[i] = Max(words[i], 0);
	}
}

/* Does usage count at least as many blocks of each kind as another one? */
static inline bool
light_usage_covers(const LightUsage *usage, const LightUsage *other)
{
	for (int i = 0; i < LIGHT_LITE_WORDS; i++)
	{
		if (((const LightWord *) usage)[i] < ((const LightWord *) other)[i])
			return false;
	}
	return true;
}

/* ---- records ------------------------------------------------------------ */

/* How the wrapper around a node reads the clock. */
typedef enum LightClock
{
	LIGHT_CLOCK_NONE,			/* not at all */
	LIGHT_CLOCK_TSC,			/* processor's counter, unordered */
	LIGHT_CLOCK_ORDERED,		/* processor's counter, ordered after loads */
	LIGHT_CLOCK_SYSTEM,			/* clock_gettime(), as core up to 18 */
	LIGHT_CLOCK_SAMPLED			/* in some of the calls: see sample.c */
} LightClock;

/* Calls of a node that were timed, of one kind: see sample.c. */
typedef struct LightSamples
{
	int32		weight;			/* calls for which the next timed one stands */
	int32		timed;			/* calls that were timed */
	int64		average;		/* ticks of a usual call, many times */
	int64		assumed;		/* ticks of calls that were not timed */
	double		v[3];			/* of the estimate's variance: sums of w(w-1),
								 * w(w-1)t, w(w-1)t^2 */
} LightSamples;

/*
 * The record of one plan node, to which PlanState.instrument points once the
 * statement's nodes have records.  Core goes on using its own part; of that part
 * the wrappers only keep "running", "tuplecount" and, for calls that needed no look,
 * "ntuples".  What they measure is here
 * and is added to core's part when the statement is finished.
 *
 * The second part is one cache line: all that a call of the node touches beside
 * the first line of core's part.
 */
typedef struct LightRecord
{
	NodeInstrumentation_compat core;	/* must be first */

	struct LightRecord *caller pg_attribute_aligned(64);	/* who called this node
															 * last */
	struct LightRecord *under;	/* on top when it did: the caller, unless that
								 * was passed: see joins.c */
	int64		total;			/* ticks in this node and what it called */
	int64		startup;		/* ... of the first call of each cycle */
	struct LightRecord *callees;	/* list of nodes whose caller this is */
	struct LightRecord *next_callee;
	int32		left[2];		/* calls until one is timed: first ones of a
								 * cycle, others */
	int32		in_page;		/* calls that need no look, of those that
								 * were; -1 in the call after them */
	int32		granted;		/* ... granted last: see pages.c and joins.c */

	/* seldom touched */
	LightUsage	self pg_attribute_aligned(64);	/* usage while on top */
	int64		total_moved;	/* part of total booked under earlier callers */
	int64		total_taken;	/* ticks of nodes called from here earlier,
								 * from elsewhere now */
	LightUsage *moved;			/* usage taken from callees that went to other
								 * callers, less usage booked under earlier
								 * callers of this node */
	struct LightBooks *books;
	struct LightRecord *passed; /* the join above it, if that may be passed */
	bool		leapt;			/* a join that learns of its end from below:
								 * see joins.c */
	struct LightBlocks *blocks; /* see blocks.c */
	int64		cost;			/* ticks of a call that is not timed, for us */
	int64		added;			/* part of total that measuring costs */
	LightSamples samples[2];	/* of first calls of a cycle, of others */
} LightRecord;

StaticAssertDecl(sizeof(LightRecord) - sizeof(NodeInstrumentation_compat) + sizeof(LightUsage) <= 640,
				 "a record takes at most 640 bytes beyond core's struct");

/* Clear our part of a record. */
static inline void
light_record_clear(LightRecord *record)
{
	memset((char *) record + offsetof(LightRecord, caller), 0, sizeof(LightRecord) - offsetof(LightRecord, caller));
}

/* Rows of calls that needed no look since the last one, which are in no other count. */
static inline int32
light_rows_passed(const LightRecord *record)
{
	return record->granted - Max(record->in_page, 0);
}

/* Is a join in a call in which its caller stays on the stack's top?  See joins.c. */
static inline bool
light_passed(const LightRecord *join)
{
	return join->in_page < join->granted;
}

/* What the records of a statement have in common. */
typedef struct LightBooks
{
	LightRecord *records;		/* [0] is the root: the executor itself */
	int			nrecords;		/* with the root */
	LightClock	clock;
	MemoryContext context;		/* lives as long as the records */
	ExecProcNodeMtd wrapper;	/* around the calls of nodes with records */
	bool		usage;			/* count buffers and WAL */
	bool		usage_full;		/* also times of I/O may change */
	bool		watched;		/* a call was left out: see sample.c */
	LightUsage	entry;			/* counters when the root was put on top */
	int64		entered;		/* clock at that moment */

	/* since a call was left out */
	int64		watched_from;	/* clock at the last look */
	int64		watched_cpu;	/* microseconds of the processor then */
	int64		watched_waits;	/* voluntary ones, then */
	int64		ran;			/* ticks between looks, ... */
	int64		cpu;			/* microseconds of the processor, ... */
	int64		waits;			/* and waits in them */
} LightBooks;

/*
 * The stack of running nodes: its top; the links are LightRecord.under.  The
 * counters were last looked at when they were "seen".
 */
typedef struct LightState
{
	LightUsage	seen pg_attribute_aligned(64);
	LightRecord *volatile top pg_attribute_aligned(64);
} LightState;

extern LIGHT_PRIVATE LightState light;
extern LIGHT_PRIVATE LightRecord light_bottom;

/* ---- functions ---------------------------------------------------------- */

/* selftest.c */
extern LIGHT_PRIVATE ExecProcNodeMtd light_core_first;
extern LIGHT_PRIVATE ExecProcNodeMtd light_core_instr;
extern LIGHT_PRIVATE const char *light_off_reason;	/* NULL: it is not off */
extern LIGHT_PRIVATE bool light_server_fits(void);
extern LIGHT_PRIVATE bool light_other_minor(void);
extern LIGHT_PRIVATE void light_warn_version(void);
extern LIGHT_PRIVATE void light_not_shared(const char *what);

/* clock.c */
extern LIGHT_PRIVATE bool light_tsc_usable;
extern LIGHT_PRIVATE double light_ns_per_tick;
extern LIGHT_PRIVATE bool light_clock_is_quick(void);
extern LIGHT_PRIVATE void light_clock_init(void);
extern LIGHT_PRIVATE const char *light_clock_name(void);
extern LIGHT_PRIVATE double light_seconds_per_tick(void);
extern LIGHT_PRIVATE int64 light_ticks(double seconds);

/* The clock in ticks, as the wrappers of all but the system clock read it. */
static inline int64
light_now(void)
{
	if (likely(light_tsc_usable))
		return light_counter();
	return light_system_ns();
}

/* sample.c */
extern LIGHT_PRIVATE void light_sample_init(void);
extern LIGHT_PRIVATE double light_sample_cost(void);
extern LIGHT_PRIVATE void light_quick_cost(double *in_node, double *in_caller);
extern LIGHT_PRIVATE void light_sample_start(LightRecord *record, bool unlooked);
extern LIGHT_PRIVATE void light_sample(LightRecord *record, int kind, int64 elapsed);
extern LIGHT_PRIVATE bool light_sampled(const LightRecord *record);
extern LIGHT_PRIVATE void light_sample_finish(LightBooks *books, double seconds_per_tick);
extern LIGHT_PRIVATE double light_sample_added(const LightRecord *record);
extern LIGHT_PRIVATE double light_sample_variance(const LightRecord *record);
extern LIGHT_PRIVATE void light_watch(LightBooks *books);
extern LIGHT_PRIVATE void light_watched(LightBooks *books);

/* hotpath.c */
extern LIGHT_PRIVATE TupleTableSlot *light_call_as_core(PlanState *node, bool system_clock);
extern LIGHT_PRIVATE TupleTableSlot *light_add_wal_since(NodeInstrumentation_compat *instr, WalUsage before, TupleTableSlot *slot);
extern LIGHT_PRIVATE void light_sync(LightRecord *record);
extern LIGHT_PRIVATE ExecProcNodeMtd light_wrapper_for(LightClock clock, bool usage, bool full);
extern LIGHT_PRIVATE bool light_hotpath_init(void);

/* pages.c */
extern LIGHT_PRIVATE bool light_scans_pages(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_scan_pages(PlanState *node);
extern LIGHT_PRIVATE bool light_copies_columns(const Plan *plan);
extern LIGHT_PRIVATE void light_pages_settle(LightRecord *record);

/* joins.c */
extern LIGHT_PRIVATE bool light_passes_join(PlanState *node);
extern LIGHT_PRIVATE void light_joins_ended(const LightRecord *record);
extern LIGHT_PRIVATE TupleTableSlot *light_pass_join(PlanState *node);

/* blocks.c */
extern LIGHT_PRIVATE bool light_counts_blocks(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_count_blocks(PlanState *node);
extern LIGHT_PRIVATE double light_blocks_estimate(const LightRecord *record);

/* usage.c */
extern LIGHT_PRIVATE void light_change_caller(LightRecord *record, LightRecord *top);
extern LIGHT_PRIVATE void light_root_enter(LightBooks *books, LightRecord *caller);
extern LIGHT_PRIVATE void light_root_leave(LightBooks *books, LightRecord *caller);
extern LIGHT_PRIVATE void light_settle_usage(LightBooks *books);

#endif							/* LIGHT_MEASURE_H */

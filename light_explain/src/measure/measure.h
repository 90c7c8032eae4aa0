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
#include "measure/cell.h"
#include "measure/clock.h"
#include "nodes/execnodes.h"

/* ---- usage -------------------------------------------------------------- */

typedef struct LightUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} LightUsage;

/* Usage of a node without the nodes that it called. */
typedef struct LightSelf
{
	double		time;			/* seconds */
	LightUsage	usage;
} LightSelf;

/* Core's structs consist of 64-bit counters, and so does LightUsage; also times of I/O. */
typedef int64 LightWord __attribute__((may_alias));

#define LIGHT_BUFFER_WORDS (sizeof(BufferUsage) / sizeof(LightWord))
#define LIGHT_WAL_WORDS (sizeof(WalUsage) / sizeof(LightWord))
#define LIGHT_USAGE_WORDS (sizeof(LightUsage) / sizeof(LightWord))

StaticAssertDecl(offsetof(LightUsage, wal) == sizeof(BufferUsage) &&
				 LIGHT_USAGE_WORDS == LIGHT_BUFFER_WORDS + LIGHT_WAL_WORDS, "no gap in LightUsage");

/* The counters of blocks, without times of I/O: the first ten of BufferUsage. */
#define LIGHT_LITE_WORDS 10

StaticAssertDecl(offsetof(BufferUsage, temp_blks_written) == (LIGHT_LITE_WORDS - 1) * sizeof(LightWord),
				 "block counters come first in BufferUsage");
StaticAssertDecl(offsetof(WalUsage, wal_records) == 0, "the number of records comes first in WalUsage");

/* Two counters at a time, as every supported CPU can. */
typedef long long LightWords2 __attribute__((vector_size(16), aligned(8), may_alias));

StaticAssertDecl(LIGHT_LITE_WORDS % 2 == 0, "counters are taken by twos");

/* Functions that are also compiled for newer CPUs. */
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

/* The counters as they were at the glance, without times of I/O. */
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

/* Add the usage between two readings of the counters. */
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

/* Core's counters of a node. */
static inline void
light_usage_add_core(LightUsage *to, NodeInstrumentation_compat *instr)
{
	light_add_words(&to->buffers, InstrBuffers_compat(instr), LIGHT_BUFFER_WORDS);
	light_add_words(&to->wal, InstrWal_compat(instr), LIGHT_WAL_WORDS);
}

/* Add usage to core's counters of a node, as far as they are enabled. */
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

/* ---- records ------------------------------------------------------------ */

/* How the wrapper around a node reads the clock. */
typedef enum LightClock
{
	LIGHT_CLOCK_NONE,			/* not at all */
	LIGHT_CLOCK_AUTO,			/* light_now(), light_now_ordered() at the end */
	LIGHT_CLOCK_SYSTEM			/* clock_gettime(), as core up to 18 */
} LightClock;

#define LIGHT_CLOCKS (LIGHT_CLOCK_SYSTEM + 1)

/*
 * State of the skipped calls of a scan, see pages.c.  All times are in
 * nanoseconds.
 */
typedef struct LightSkipped
{
	int64		began;			/* clock when the skipped calls of this page
								 * began */
	int64		timed;			/* time of calls that were timed lately, with
								 * the clock's */
	int64		timed_caller;	/* ... time until the next call of each */
	int32		timed_clock;	/* ... what reading the clock took of both */
	int32		timed_rows;		/* ... and rows of the table that they
								 * examined */
	int16		timed_calls;	/* ... their number */

	/*
	 * the call that is timed, until the next one; it returned at "entered"
	 */
	int16		one_rows;		/* rows that it examined; 0: it has not
								 * returned */
	int16		one_clock;		/* what reading the clock took before it */
	bool		warm;			/* more than one was timed */
	uint8		map_bit;		/* in map_byte */
	int32		calls;			/* skipped calls of this page */
	int32		rows;			/* ... and rows that they examined */
	int32		granted_later;	/* calls to be skipped, with the one to be
								 * timed */

	/* of a scan with a filter */
	int32		rows_of_page;	/* that it had yet to see when calls were
								 * granted */
	union
	{
		int64		rows_to_filter; /* ... and has now; below 1: none are
									 * skipped */
		const uint8 *map_byte;	/* of an index-only scan, while calls are
								 * granted: of the visibility map, which has
								 * the table's page */
	};
	int64		entered;		/* clock when the scan came to the page's last
								 * row; between calls, when the timed one
								 * returned */
	ExprStateEvalFunc filter;	/* the filter itself */

	/* since the last reading of the process's CPU time */
	int64		time;			/* of skipped calls, not in "total" yet */
	float		spans;			/* from the first to the last one of each page */
	float		unexplained;	/* ... beyond the time of timed calls */
	int64		looked;			/* clock then, or at the first page */
	int64		processor;		/* CPU time of the process then; 0: not read
								 * yet */
	int32		waits;			/* voluntary ones of the process until then */
	int32		one;			/* what the call that is timed took, until the
								 * next one */
} LightSkipped;

/*
 * The record of one plan node, to which PlanState.instrument points once the
 * statement's nodes have records.  Core still uses its part; of that part
 * the wrappers only keep "running", "tuplecount" and, for skipped calls,
 * "ntuples".  Their measurements are here and are added to core's part when the
 * statement is finished.
 *
 * The second part is one cache line: all that a call of the node touches in addition
 * to the first line of core's part.
 */
typedef struct LightRecord
{
	NodeInstrumentation_compat core;	/* must be first */

	struct LightRecord *caller pg_attribute_aligned(64);	/* the last caller of
															 * this node, below it
															 * on the stack */
	int64		total;			/* nanoseconds in this node and what it called */
	int64		startup;		/* ... of the first call of each cycle */
	struct LightRecord *callees;	/* list of nodes whose caller this is */
	struct LightRecord *next_callee;
	int32		skip_left;		/* calls that may be skipped, of those that
								 * were granted; -1 in the call after them */
	int32		skip_granted;	/* ... last: see pages.c */
	int32		node_id;		/* Plan.plan_node_id; -1 for the root */
	bool		init_plan;		/* at its top: any node may evaluate it */
	struct LightBooks *books;

	/* seldom touched */
	LightUsage	self pg_attribute_aligned(64);	/* usage while on top */
	int64		reattributed_total; /* part of total booked under earlier
									 * callers */
	LightUsage *reattributed;	/* usage taken from callees that went to other
								 * callers, less usage booked under earlier
								 * callers of this node */
	LightSelf  *init_plans;		/* what InitPlans used that this node
								 * evaluated */
	struct LightBlocks *blocks; /* see blocks.c */
	LightSkipped skipped;
} LightRecord;

StaticAssertDecl(sizeof(LightRecord) - sizeof(NodeInstrumentation_compat) + sizeof(LightUsage) <= 640,
				 "a record takes at most 640 bytes beyond core's struct");

/* Clear our part of a record. */
static inline void
light_record_clear(LightRecord *record)
{
	memset((char *) record + offsetof(LightRecord, caller), 0, sizeof(LightRecord) - offsetof(LightRecord, caller));
}

/* Rows of calls that were skipped since the last one that was not, which are in no other count. */
static inline int32
light_rows_skipped(const LightRecord *record)
{
	return record->skip_granted - Max(record->skip_left, 0);
}

/* State that all records of a statement share. */
typedef struct LightBooks
{
	LightRecord *records;		/* [0] is the root: the executor itself */
	int			nrecords;		/* with the root */
	LightClock	clock;
	MemoryContext context;		/* lives as long as the records */
	ExecProcNodeMtd wrapper;	/* around the calls of nodes with records */
	bool		usage;			/* count buffers and WAL */
	bool		usage_full;		/* also times of I/O may change */
	LightUsage	entry;			/* counters when the root was put on top */
	int64		entered;		/* clock at that moment */
} LightBooks;

/* The stack of running nodes is in cell.h; its links are LightRecord.caller. */

/* The counters as they were when they were last read. */
extern LIGHT_PRIVATE LightUsage light_seen;
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

/* hotpath.c */
extern LIGHT_PRIVATE TupleTableSlot *light_call_as_core(PlanState *node, bool system_clock);
extern LIGHT_PRIVATE int64 light_read_clock(LightClock clock, bool returning);
extern LIGHT_PRIVATE TupleTableSlot *light_add_wal_since(NodeInstrumentation_compat *instr, WalUsage before, TupleTableSlot *slot);
extern LIGHT_PRIVATE void light_sync(LightRecord *record);
extern LIGHT_PRIVATE ExecProcNodeMtd light_wrapper_for(LightClock clock, bool usage, bool full);
extern LIGHT_PRIVATE bool light_hotpath_init(void);

/* short.c */
extern LIGHT_PRIVATE bool light_scans_pages(PlanState *node);

/* pages.c */
extern LIGHT_PRIVATE void light_watch_filter(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_scan_pages(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_filter_pages(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_index_only_pages(PlanState *node);
extern LIGHT_PRIVATE void light_pages_finish(LightRecord *record);

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

/*-------------------------------------------------------------------------
 *
 * hotpath.c
 *	  ExecProcNode wrappers for plan nodes that have a LightRecord.
 *
 * These functions run once per row and node, so every instruction counts.  A
 * wrapper has the same effect as core's ExecProcNodeInstr, but touches only
 * counters that changed.  Core copies all of pgBufferUsage and pgWalUsage at entry and adds
 * all differences at exit.  Here one copy, light_seen, serves all nodes: it is
 * compared with the counters when a node is entered and when it is left, and
 * only if a counter has changed since the last comparison, the difference is charged to the
 * node that was on top of the stack in that time.  So usage is exclusive here;
 * light_settle_usage() converts it to core's inclusive counters.
 *
 * The "lite" comparison covers the block counters and the number of WAL records,
 * eleven of 18 to 21 words.  The other WAL counters never change
 * without the number of records, and times of I/O change only with
 * track_io_timing, for which there are wrappers that compare all counters.
 *
 * A wrapper is a copy of call_node() with constants for clock and comparison.
 * Invariants: light_stack.top is never NULL (light_bottom is below every
 * statement), and a node that has a wrapper has a LightRecord where core
 * expects its instrumentation.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/tuptable.h"
#include "measure/measure.h"
#include "measure/quick.h"
#include "storage/bufmgr.h"

#if LIGHT_HAVE_AVX2
#include <x86intrin.h>
#endif

LightStack	light_stack
pg_attribute_aligned(4096) =
{
	.cell =
	{
		.top = &light_bottom,.node = LIGHT_NO_NODE
	}
};
LightUsage	light_seen pg_attribute_aligned(64);

/* Below all statements; usage charged to it is not reported. */
LightRecord light_bottom;

typedef enum Compare
{
	COMPARE_NOTHING,			/* statement counts no buffers and no WAL */
	COMPARE_LITE,
	COMPARE_ALL
} Compare;

/* Charges the usage since the last comparison to a record, and returns its second argument. */
typedef void *(*BookUsage) (LightRecord *record, void *pass);

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Has any counter moved since the last look? */
ALWAYS_INLINE bool
changed_portable(Compare compare)
{
	const int64 *now = (const int64 *) buffers_at;
	const int64 *seen = (const int64 *) &light_seen.buffers;
	int64		difference = wal_at->wal_records ^ light_seen.wal.wal_records;
	int			n = compare == COMPARE_LITE ? LIGHT_LITE_WORDS : LIGHT_BUFFER_WORDS;

#pragma GCC unroll 16
	for (int i = 0; i < n; i++)
		difference |= now[i] ^ seen[i];
	return difference != 0;
}

#if LIGHT_HAVE_AVX2

/*
 * The same, 32 bytes at a time.  The sizes are no multiple of that, so the last
 * load overlaps the one before.
 */
typedef long long Words4 __attribute__((vector_size(32), aligned(8), may_alias));

LIGHT_FOR_AVX2
ALWAYS_INLINE bool
changed_avx2(Compare compare)
{
	const char *now = (const char *) buffers_at;
	const char *seen = (const char *) &light_seen.buffers;
	size_t		size = compare == COMPARE_LITE ? LIGHT_LITE_WORDS * sizeof(LightWord) : sizeof(BufferUsage);
	Words4		difference = *(const Words4 *) now ^ *(const Words4 *) seen;

#pragma GCC unroll 8
	for (size_t i = 32; i + 32 <= size; i += 32)
		difference |= *(const Words4 *) (now + i) ^ *(const Words4 *) (seen + i);
	if (size % 32 != 0)
		difference |= *(const Words4 *) (now + size - 32) ^ *(const Words4 *) (seen + size - 32);
	return unlikely(!_mm256_testz_si256((__m256i) difference, (__m256i) difference)) ||
		unlikely(wal_at->wal_records != light_seen.wal.wal_records);
}

#endif

/*
 * Charge the usage since the last comparison to a record.  "pass" is returned: a value that the
 * caller needs afterwards then takes no additional register while no counter changes.
 */
static pg_noinline void *
book_all_portable(LightRecord *record, void *pass)
{
	light_book_words(&record->self.buffers, &light_seen.buffers, &pgBufferUsage, LIGHT_BUFFER_WORDS);
	light_book_words(&record->self.wal, &light_seen.wal, &pgWalUsage, LIGHT_WAL_WORDS);
	return pass;
}

/*
 * The same without times of I/O: most often only blocks were counted,
 * which in index lookups happens in every call.
 */
static pg_noinline void *
book_lite_portable(LightRecord *record, void *pass)
{
	if (unlikely(track_io_timing))
		return book_all_portable(record, pass);
	light_book_blocks(&record->self.buffers, &light_seen.buffers, &pgBufferUsage);
	if (unlikely(pgWalUsage.wal_records != light_seen.wal.wal_records))
		light_book_words(&record->self.wal, &light_seen.wal, &pgWalUsage, LIGHT_WAL_WORDS);
	return pass;
}

#if LIGHT_HAVE_AVX2

/*
 * Compilers clear the upper halves of registers on the way to the node's own
 * function, but not on the way here.  Left as they are, whatever the server runs
 * until the next look would wait for them: building a hash table took three times
 * as long.
 */
LIGHT_FOR_AVX2
static pg_noinline void *
book_all_avx2(LightRecord *record, void *pass)
{
	_mm256_zeroupper();
	return book_all_portable(record, pass);
}

LIGHT_FOR_AVX2
static pg_noinline void *
book_lite_avx2(LightRecord *record, void *pass)
{
	_mm256_zeroupper();
	return book_lite_portable(record, pass);
}

#endif

/*
 * Book everything that is pending to a record: used where a statement begins or
 * ends, so that what others did is not mixed with what its nodes do.
 */
void
light_sync(LightRecord *record)
{
	if (changed_portable(COMPARE_ALL))
		(void) book_all_portable(record, NULL);
}

/* "returning": the node is done. */
ALWAYS_INLINE int64
read_clock(LightClock clock, bool returning)
{
	switch (clock)
	{
		case LIGHT_CLOCK_NONE:
			return 0;
		case LIGHT_CLOCK_SYSTEM:
			return light_system_now();
		case LIGHT_CLOCK_AUTO:
			break;
	}
	return returning ? light_now_ordered() : light_now();
}

/* Read the clock outside the hot path. */
int64
light_read_clock(LightClock clock, bool returning)
{
	return read_clock(clock, returning);
}

/*
 * One call of a node: the clock, what changed until now is the caller's, the node on
 * the stack; and the same the other way round.
 */
ALWAYS_INLINE TupleTableSlot *
call_node(PlanState *node, const LightClock clock, const Compare compare, bool (*changed) (Compare), BookUsage book)
{
	LightRecord *record = (LightRecord *) node->instrument;
	LightRecord *caller = light_stack.top;
	TupleTableSlot *slot;
	int64		elapsed = -read_clock(clock, false);

	if (compare != COMPARE_NOTHING && unlikely(changed(compare)))
		(void) book(caller, NULL);
	if (unlikely(record->caller != caller))
		light_change_caller(record, caller);
	light_stack.top = record;

	slot = node->ExecProcNodeReal(node);

	if (compare != COMPARE_NOTHING && unlikely(changed(compare)))
		slot = book(record, slot);
	light_stack.top = caller;
	if (!TupIsNull(slot))
		record->core.tuplecount += 1.0;
	elapsed += read_clock(clock, true);
	record->total += elapsed;
	if (unlikely(!record->core.running))
	{
		record->core.running = true;
		record->startup += elapsed;
	}
	return slot;
}

/*
 * One call of a node as core's ExecProcNodeInstr makes it, for statements whose
 * nodes have no records: the same counters in core's fields, at a lower cost.  It copies
 * and subtracts the block counters only, unless times of I/O are kept, and reads
 * the clock of core's fields in order when the node returns, which core's own code does not do on 19:
 * see light_now_ordered().
 */
TupleTableSlot *
light_call_as_core(PlanState *node, bool system_clock)
{
	NodeInstrumentation_compat *instr = node->instrument;
	bool		usage = InstrNeedBuffers_compat(instr) || InstrNeedWal_compat(instr);
	LightGlance before;
	int64		start;
	int32		outer = light_stack.cell.node;
	TupleTableSlot *slot;

	light_stack.cell.node = node->plan->plan_node_id;
	if (system_clock || (usage && unlikely(track_io_timing)))
	{
		InstrStartNode(instr);
		slot = node->ExecProcNodeReal(node);
		light_stack.cell.node = outer;
		InstrStopNode(node->instrument, TupIsNull(slot) ? 0.0 : 1.0);
		return slot;
	}

	/* not asking whether they are needed is cheaper than asking */
	light_glance(&before, buffers_at, wal_at);
	start = light_core_now();
	slot = node->ExecProcNodeReal(node);
	light_stack.cell.node = outer;

	/* the node may have got a record during the call */
	instr = node->instrument;
	if (InstrNeedTimer_compat(instr))
		InstrAddCounter_compat(instr, Max(light_core_now_ordered() - start, 0));
	if (InstrNeedBuffers_compat(instr))
		light_add_blocks_since(&before, InstrBuffers_compat(instr), buffers_at);
	if (InstrNeedWal_compat(instr) && unlikely(wal_at->wal_records != before.wal.wal_records))
		WalUsageAccumDiff(InstrWal_compat(instr), &pgWalUsage, &before.wal);
	light_count_row(instr, slot);
	return slot;
}

/* WAL that a quick call wrote: see light_call_quickly().  Returns its last argument. */
TupleTableSlot *
light_add_wal_since(NodeInstrumentation_compat *instr, WalUsage before, TupleTableSlot *slot)
{
	WalUsageAccumDiff(InstrWal_compat(instr), &pgWalUsage, &before);
	return slot;
}

#define WRAPPER(name, clock, compare, with) \
static TupleTableSlot * \
name(PlanState *node) \
{ \
	return call_node(node, clock, compare, changed_##with, compare == COMPARE_ALL ? book_all_##with : book_lite_##with); \
}

#define WRAPPERS(clock, CLOCK) \
WRAPPER(clock##_nothing, CLOCK, COMPARE_NOTHING, portable) \
WRAPPER(clock##_lite, CLOCK, COMPARE_LITE, portable) \
WRAPPER(clock##_all, CLOCK, COMPARE_ALL, portable)

WRAPPERS(none, LIGHT_CLOCK_NONE)
WRAPPERS(auto, LIGHT_CLOCK_AUTO)
WRAPPERS(system, LIGHT_CLOCK_SYSTEM)

static const ExecProcNodeMtd portable_wrappers[LIGHT_CLOCKS][3] = {
	[LIGHT_CLOCK_NONE] = {none_nothing, none_lite, none_all},
	[LIGHT_CLOCK_AUTO] = {auto_nothing, auto_lite, auto_all},
	[LIGHT_CLOCK_SYSTEM] = {system_nothing, system_lite, system_all},
};

static const ExecProcNodeMtd (*wrappers)[3] = portable_wrappers;

#if LIGHT_HAVE_AVX2

#define AVX2_WRAPPERS(clock, CLOCK) \
LIGHT_FOR_AVX2 WRAPPER(clock##_lite_avx2, CLOCK, COMPARE_LITE, avx2) \
LIGHT_FOR_AVX2 WRAPPER(clock##_all_avx2, CLOCK, COMPARE_ALL, avx2)

AVX2_WRAPPERS(none, LIGHT_CLOCK_NONE)
AVX2_WRAPPERS(auto, LIGHT_CLOCK_AUTO)
AVX2_WRAPPERS(system, LIGHT_CLOCK_SYSTEM)
static const ExecProcNodeMtd avx2_wrappers[LIGHT_CLOCKS][3] = {
	[LIGHT_CLOCK_NONE] = {none_nothing, none_lite_avx2, none_all_avx2},
	[LIGHT_CLOCK_AUTO] = {auto_nothing, auto_lite_avx2, auto_all_avx2},
	[LIGHT_CLOCK_SYSTEM] = {system_nothing, system_lite_avx2, system_all_avx2},
};

#endif

/* Choose the wrappers that this CPU can run; returns whether those are for AVX2. */
bool
light_hotpath_init(void)
{
#if LIGHT_HAVE_AVX2
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2"))
		wrappers = avx2_wrappers;
#endif
	return wrappers != portable_wrappers;
}

/* The wrapper of nodes with records. */
ExecProcNodeMtd
light_wrapper_for(LightClock clock, bool usage, bool full)
{
	return wrappers[clock][usage ? (full ? COMPARE_ALL : COMPARE_LITE) : COMPARE_NOTHING];
}

/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  Calls of a scan that stays on its page: only one of them is measured.
 *
 * A sequential scan of a heap reads all visible rows of a page at once.  Until it
 * needs the next page each call returns one of these rows, of which it copies columns,
 * and changes no counter.  Without a filter, or with one of immutable built-in functions
 * of values of fixed length, such a call is short, whatever the data, and any
 * usage since the last comparison belongs to its caller, to which the next comparison
 * charges it.  So neither the counters nor the clock have to be read, nor has the scan to
 * be on the stack.  Calls are counted down, and the rows are known from that.  The same holds
 * for an index scan without filter as long as its next index entries point to the page
 * of the last row.
 *
 * A call is not skipped when a page ends, and when anything has changed: another caller or a
 * new cycle.  It is measured as by a full wrapper.  When it has returned, the rows that are
 * left on the page are counted, and that many calls are granted: none while the statement runs
 * backwards, see light_turn_back().  If one is canceled, its row stays counted.
 *
 * With a filter it is not known when a call begins whether it will leave the page.  So
 * the filter is watched: at the last row of the page watch_filter() does what a full
 * wrapper does when a node is entered, in the middle of a call, and the rest of the call,
 * all pages without a match for example, is measured until it returns.
 *
 * Of the skipped calls of a page one is timed, and also the work of its caller until the
 * next one: in order, because otherwise the CPU executes the end of one with the beginning
 * of the other.  The ratio of their sums over some hundred pages divides the time from the first
 * to the last of the skipped calls, and timed calls are extrapolated to all of them by the rows of
 * the table that they examined.  So the time that reading the clock takes, or delays other
 * instructions, is in both.  The sums are updated in the next call, because otherwise
 * that work would be in the caller's time: a count(*)'s scan then had 65 to 66 % of the time on an AMD EPYC,
 * where a profiler saw it in 72 to 77 % of its samples; this way it is 70 %.  Only a call that is
 * timed alone, less the readings, was 39 to 54 % (lab/run shares).
 *
 * While other processes use the CPU, time passes in skipped calls as in all
 * others, but hardly ever in the one that is timed.  So the kernel is asked how long this
 * process had the CPU: from time to time, and after each page that took long.  Unless the process
 * waited voluntarily, skipped calls and their callers get the rest by the CPU time that each had.
 * The first time is after 0.05 ms, because a statement of some milliseconds is interrupted
 * once: when it was 5 ms later, a hash join had 98 % of such a statement instead of 20.  Not at once,
 * because it would take a statement of 41 rows as long as all else that is measured.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>

#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/visibilitymap.h"
#include "measure/measure.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
#include "utils/rel.h"

/*
 * The kernel is asked once in so many nanoseconds, for the first time after so many, and after a page that took
 * so many: that takes a microsecond.  In the middle of most pages nothing takes long, unless another process
 * has the CPU.
 */
#define LOOK_EVERY INT64CONST(5000000)
#define LOOK_FIRST INT64CONST(50000)
#define LONG_PAGE INT64CONST(100000)

/* Fewer rows are not worth the readings of the clock that they take together. */
#define MIN_ROWS 8

/* More entries of an index are not checked at a time. */
#define MAX_ROWS 128

/* When this many calls were timed, earlier ones count half. */
#define TIMED_CALLS 256

/* More than reading the clock takes, in nanoseconds: something interrupted it. */
#define MOST_CLOCK 1000

/* How many times as long as those before it a timed call or its caller may take and be counted. */
#define MOST_TIMES 64

/* How many rows will a sequential scan return from this page? */
static int32
rows_left_of_page(const HeapScanDescData *scan)
{
	if (scan == NULL || !scan->rs_inited || (scan->rs_base.rs_flags & SO_ALLOW_PAGEMODE) == 0)
		return 0;
	return (int32) ((int64) scan->rs_ntuples - (int64) scan->rs_cindex - 1);
}

/*
 * How many of the next entries that an index scan has read of the index's page point to
 * the page of the table to which the one before points?
 */
static int32
rows_of_block(const IndexScanDescData * scan)
{
	const BTScanOpaqueData *position = (const BTScanOpaqueData *) scan->opaque;
	BlockNumber block = ItemPointerGetBlockNumber(&scan->xs_heaptid);
	int32		rows = 0;

	if (!BTScanPosIsValid(position->currPos))
		return 0;
	for (int i = position->currPos.itemIndex + 1; i <= position->currPos.lastItem && rows < MAX_ROWS; i++, rows++)
	{
		if (ItemPointerGetBlockNumber(&position->currPos.items[i].heapTid) != block)
			break;
	}
	return rows;
}

/*
 * How many will an index scan return before it needs another page of the index or the
 * table?  All rows on the page of the row that it returned must be visible to all: so
 * they are to its snapshot, whatever becomes of them now.
 */
static int32
rows_left_of_index(const IndexScanDescData * scan)
{
	const IndexFetchHeapData *heap;

	if (scan == NULL || scan->xs_heapfetch == NULL || scan->xs_recheck || scan->xs_heap_continue ||
		!IsMVCCSnapshot(scan->xs_snapshot) || scan->xs_snapshot->takenDuringRecovery)
		return 0;
	heap = (const IndexFetchHeapData *) scan->xs_heapfetch;
	if (!BufferIsValid(heap->xs_cbuf))
		return 0;
	if (!PageIsAllVisible(BufferGetPage(heap->xs_cbuf)))
		return 0;
	return rows_of_block(scan);
}

/* Are all rows visible of the page of which calls of an index-only scan are skipped? */
static inline bool
page_is_visible(const LightSkipped *skipped)
{
	return (*skipped->map_byte & skipped->map_bit) != 0;
}

/*
 * The same of an index-only scan, which looks at the visibility map for each row, and
 * fetches it from a page that was changed.  So the map's bit, where visibilitymap.c has it, is
 * looked at before each call that may be skipped.  The map's buffer stays pinned.
 */
static int32
rows_left_of_index_only(IndexOnlyScanState *node)
{
	const BlockNumber per_byte = BITS_PER_BYTE / BITS_PER_HEAPBLOCK;
	const BlockNumber per_page = (BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * per_byte;
	LightSkipped *skipped = &((LightRecord *) node->ss.ps.instrument)->skipped;
	const		IndexScanDescData *scan = node->ioss_ScanDesc;
	BlockNumber block;

	if (scan == NULL || scan->xs_recheck || !BufferIsValid(node->ioss_VMBuffer) || !IsMVCCSnapshot(scan->xs_snapshot))
		return 0;
	block = ItemPointerGetBlockNumber(&scan->xs_heaptid);
	if (!VM_ALL_VISIBLE(node->ss.ss_currentRelation, block, &node->ioss_VMBuffer))
		return 0;
	skipped->map_byte = (const uint8 *) PageGetContents(BufferGetPage(node->ioss_VMBuffer)) + block % per_page / per_byte;
	skipped->map_bit = VISIBILITYMAP_ALL_VISIBLE << (block % per_byte * BITS_PER_HEAPBLOCK);
	return page_is_visible(skipped) ? rows_of_block(scan) : 0;
}

/* How many rows will come from this page? */
static int32
rows_left(PlanState *node)
{
	int32		rows;

	if (!ScanDirectionIsForward(node->state->es_direction))
		return 0;
	if (IsA(node, SeqScanState))
		rows = rows_left_of_page((HeapScanDesc) ((ScanState *) node)->ss_currentScanDesc);
	else if (IsA(node, IndexScanState) && ScanDirectionIsForward(((IndexScan *) node->plan)->indexorderdir))
		rows = rows_left_of_index(((IndexScanState *) node)->iss_ScanDesc);
	else if (IsA(node, IndexOnlyScanState) && ScanDirectionIsForward(((IndexOnlyScan *) node->plan)->indexorderdir))
		rows = rows_left_of_index_only((IndexOnlyScanState *) node);
	else
		rows = 0;
	return rows >= MIN_ROWS ? rows : 0;
}

/* Grant calls to be skipped. */
static inline void
grant(LightRecord *record, int32 calls)
{
	record->skip_granted = record->skip_left = calls;
}

/* Skipped calls were calls, and each returned a row, of this cycle or the one before. */
static void
count_skipped(LightRecord *record)
{
	LightSkipped *skipped = &record->skipped;
	int32		rows = light_rows_skipped(record);

	grant(record, 0);
	record->core.ntuples += rows;
	if (record->books->clock != LIGHT_CLOCK_NONE)
	{
		skipped->calls += rows;
		skipped->rows += skipped->filter == NULL ? rows : skipped->rows_of_page - (int32) Max(skipped->rows_to_filter, 0);
	}
	skipped->granted_later = skipped->rows_of_page = 0;
	skipped->rows_to_filter = 0;
	skipped->one_rows = 0;
}

/*
 * Add the time of skipped calls since the CPU time was last read.  "lost": nanoseconds since then in
 * which another process had the CPU.  In the middle of pages it was lost as far as these took longer
 * than expected, by the calls and their callers as each had the CPU.
 */
static void
add_skipped(LightRecord *record, double lost)
{
	LightSkipped *skipped = &record->skipped;
	double		had = Max(skipped->spans - Min(lost, skipped->unexplained), (double) skipped->time);

	if (had > 0)
		record->total += (int64) (skipped->time * (skipped->spans / had));
	skipped->time = 0;
	skipped->spans = skipped->unexplained = 0;
}

/*
 * Read the process's CPU time; before the first call its earlier time is unknown.  Returns the clock
 * after that: another process that waits for the CPU gets it when a call of the kernel ends, so the
 * time until then is like that lost in the middle of pages.
 */
static int64
look_at_processor(LightRecord *record, int64 now)
{
	LightSkipped *skipped = &record->skipped;
	int64		passed = now - skipped->looked;
	int64		processor;
	struct rusage usage;
	struct timespec had;
	double		lost = 0;
	int64		after;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &had);
	getrusage(RUSAGE_SELF, &usage);
	after = light_read_clock(record->books->clock, false);
	processor = had.tv_sec * INT64CONST(1000000000) + had.tv_nsec;
	if (skipped->processor != 0 && (int32) usage.ru_nvcsw == skipped->waits)
		lost = Max(passed - (processor - skipped->processor), 0);
	skipped->spans += after - now;
	skipped->unexplained += after - now;
	add_skipped(record, lost + (after - now));
	skipped->looked = after;
	skipped->processor = processor;
	skipped->waits = (int32) usage.ru_nvcsw;
	return after;
}

/*
 * Add the time of a page's skipped calls, which took "all" together with what their callers
 * did between them.
 *
 * It is their part of "all", as one of them and its caller were timed in the same way.
 * Where that is less than the timed calls took without the readings of the clock, these kept the
 * CPU from executing both at once.  Where it is more than they took with them, a caller has
 * waited, or another process had the CPU: the CPU time will show which.
 */
static void
add_page(LightSkipped *skipped, double all)
{
	double		by_row = (double) skipped->rows / skipped->timed_rows;
	double		most = skipped->timed * by_row;
	double		least = Max(skipped->timed - skipped->timed_clock, 0) * by_row;
	double		callers = (double) Max(skipped->timed_caller - skipped->timed_clock, 0) / skipped->timed_calls * skipped->calls;
	double		part = least + callers > 0 ? least / (least + callers) : 1;

	skipped->time += (int64) Min(Max(Min(part * all, most), least), all);
	skipped->spans += all;
	if (part * all > most)
		skipped->unexplained += all - most / part;
}

/*
 * The skipped calls of a page are over.  "last": there are no others after it, for which the
 * CPU time would have to be known from here on.  Returns the clock after that.
 */
static int64
end_page(LightRecord *record, int64 now, bool last)
{
	LightSkipped *skipped = &record->skipped;
	int64		all = now - skipped->began;
	int64		every = skipped->processor == 0 ? LOOK_FIRST : LOOK_EVERY;

	if (all > 0 && skipped->timed_rows > 0)
		add_page(skipped, (double) all);
	skipped->rows = skipped->calls = 0;
	if (record->books->clock != LIGHT_CLOCK_NONE && !(last && skipped->processor == 0) &&
		(now - skipped->looked >= every || all >= LONG_PAGE))
		now = look_at_processor(record, now);
	return now;
}

/* The statement is finished: add what is known of skipped calls. */
void
light_pages_finish(LightRecord *record)
{
	count_skipped(record);
	if (record->skipped.rows > 0)
		(void) end_page(record, light_read_clock(record->books->clock, false), true);
	add_skipped(record, 0);
}

/* How many calls may be skipped before a scan with a filter needs the next page, if as many rows match as until now? */
static int32
calls_to_expect(PlanState *node, const LightRecord *record, int32 rows)
{
	double		matched = record->core.ntuples + record->core.tuplecount;

	return node->qual == NULL ? rows : (int32) (rows * matched / (matched + record->core.nfiltered1));
}

/* After a row has been returned: may calls be skipped until the page ends?  "now": the clock then, 0 if it was not read. */
static void
grant_page(PlanState *node, LightRecord *record, int64 now)
{
	LightSkipped *skipped = &record->skipped;
	int32		rows = rows_left(node);
	int32		calls = calls_to_expect(node, record, rows);

	if (calls < MIN_ROWS)
		return;
	if (record->books->clock != LIGHT_CLOCK_NONE)
	{
		skipped->began = now != 0 ? now : light_read_clock(record->books->clock, false);
		if (skipped->looked == 0)
			skipped->looked = skipped->began;
		skipped->granted_later = skipped->timed_rows > 0 ? rows - calls / 2 : rows;
	}
	if (node->qual != NULL)
		skipped->rows_of_page = skipped->rows_to_filter = rows;
	grant(record, rows - skipped->granted_later);
}

/* Calls were skipped, and this one leaves the page: what a full wrapper does when a node is entered. */
static void
enter_page(LightRecord *record)
{
	int64		now = light_read_clock(record->books->clock, false);

	Assert(light_stack.top == record->caller);
	count_skipped(record);
	now = end_page(record, now, false);
	if (record->books->usage)
		light_sync(record->caller);
	light_stack.top = record;
	record->skipped.entered = now;
}

/* The function around a filter: is this the last row of a page of which calls were skipped? */
static Datum
watch_filter(ExprState *filter, ExprContext *context, bool *isnull)
{
	LightRecord *record = (LightRecord *) filter->parent->instrument;
	LightSkipped *skipped = &record->skipped;
	Datum		matches;

	if (unlikely(--skipped->rows_to_filter == 0))
	{
		record->skip_left++;	/* this call is not one of those */
		enter_page(record);
	}
	matches = skipped->filter(filter, context, isnull);

	/* core replaces its function in the first call */
	if (unlikely(filter->evalfunc != watch_filter))
	{
		skipped->filter = filter->evalfunc;
		filter->evalfunc = watch_filter;
	}
	return matches;
}

/* A scan whose pages are skipped has got its record. */
void
light_watch_filter(PlanState *node)
{
	if (node->qual == NULL)
		return;
	Assert(node->qual->parent == node);
	((LightRecord *) node->instrument)->skipped.filter = node->qual->evalfunc;
	node->qual->evalfunc = watch_filter;
}

/* The call that left its page returns: the rest of the full wrapper's work. */
static TupleTableSlot *
leave_page(PlanState *node, LightRecord *record, TupleTableSlot *slot)
{
	int64		now;

	if (record->books->usage)
		light_sync(record);
	light_stack.top = record->caller;
	now = light_read_clock(record->books->clock, true);
	record->total += now - record->skipped.entered;
	if (!TupIsNull(slot))
	{
		record->core.tuplecount += 1.0;
		grant_page(node, record, now);
	}
	return slot;
}

/*
 * The call in the middle of a page, for all that are skipped there.  The next call adds its
 * time to the sums, because its caller is being timed as soon as it returns.
 */
static TupleTableSlot *
time_one(PlanState *node, LightRecord *record)
{
	LightSkipped *skipped = &record->skipped;
	LightClock	clock = record->books->clock;
	int32		rows = skipped->rows_to_filter;
	int64		before;
	int64		called;
	TupleTableSlot *slot;

	/* this one and those before it were skipped */
	record->skip_granted++;
	record->skip_left = 0;
	skipped->granted_later--;
	before = light_read_clock(clock, true);
	called = light_read_clock(clock, true);
	skipped->one_clock = (int16) Min(called - before, MOST_CLOCK);
	slot = node->ExecProcNodeReal(node);
	if (unlikely(light_stack.top == record))
		return leave_page(node, record, slot);
	skipped->entered = light_read_clock(clock, true);
	skipped->one = (int32) Min(skipped->entered - called, PG_INT32_MAX);
	skipped->one_rows = node->qual == NULL ? 1 : rows - skipped->rows_to_filter;
	return slot;
}

/* The call after that: its caller has been timed as well.  As many calls are skipped as are left. */
static void
time_caller(LightRecord *record)
{
	LightSkipped *skipped = &record->skipped;
	int64		caller = light_read_clock(record->books->clock, true) - skipped->entered;
	int64		one = skipped->one;

	if (!skipped->warm)
	{
		/*
		 * the first one of all had code and data to fetch: it only counts
		 * until the next
		 */
		skipped->warm = skipped->timed_calls > 0;
		skipped->timed = skipped->timed_caller = 0;
		skipped->timed_clock = skipped->timed_rows = skipped->timed_calls = 0;
	}
	else if (skipped->timed_calls >= TIMED_CALLS)
	{
		skipped->timed /= 2;
		skipped->timed_clock /= 2;
		skipped->timed_caller /= 2;
		skipped->timed_rows /= 2;
		skipped->timed_calls /= 2;
	}

	/*
	 * another process had the CPU in one that took much longer than the
	 * others, and a caller that waited is not all of them
	 */
	skipped->timed += skipped->timed_calls == 0 ? one : Min(one, MOST_TIMES * skipped->timed / skipped->timed_calls);
	skipped->timed_calls++;
	skipped->timed_caller += Min(caller, MOST_TIMES * skipped->timed / skipped->timed_calls);
	skipped->timed_clock += skipped->one_clock;
	skipped->timed_rows += skipped->one_rows;
	skipped->one_rows = 0;
	record->skip_granted += skipped->granted_later;
	record->skip_left = skipped->granted_later - 1;
	skipped->granted_later = 0;
}

/* A call that is not skipped: most often the first one of a page. */
static TupleTableSlot *
call_and_grant(PlanState *node, LightRecord *record)
{
	bool		first = !record->core.running;
	TupleTableSlot *slot;

	if (record->skip_granted > 0 || record->skipped.granted_later > 0)
	{
		if (!first && record->caller == light_stack.top)
		{
			enter_page(record);
			return leave_page(node, record, node->ExecProcNodeReal(node));
		}
		count_skipped(record);
		if (record->skipped.rows > 0)
			(void) end_page(record, light_read_clock(record->books->clock, false), false);
	}
	slot = record->books->wrapper(node);

	/* an index scan often returns one row only */
	if (!TupIsNull(slot) && (!first || IsA(node, SeqScanState)))
		grant_page(node, record, 0);
	return slot;
}

/* A call of which light_scan_pages() does not know that it may be skipped. */
static pg_noinline TupleTableSlot *
end_of_skipped(PlanState *node, LightRecord *record)
{
	TupleTableSlot *slot;

	/* not -1: they have not ended, but something has changed */
	if (record->skip_left >= 0 || record->skipped.granted_later == 0)
		return call_and_grant(node, record);
	if (record->skipped.one_rows == 0)
		return time_one(node, record);
	time_caller(record);
	slot = node->ExecProcNodeReal(node);
	return unlikely(light_stack.top == record) ? leave_page(node, record, slot) : slot;
}

/* A call of a scan without filter. */
TupleTableSlot *pg_attribute_hot
light_scan_pages(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	TupleTableSlot *slot;

	if (unlikely(record->caller != light_stack.top || !record->core.running || --record->skip_left < 0))
		return end_of_skipped(node, record);
	slot = node->ExecProcNodeReal(node);
	Assert(!TupIsNull(slot));
	return slot;
}

/* A call of an index-only scan: its page may have been changed, also by what its caller did. */
TupleTableSlot *pg_attribute_hot
light_index_only_pages(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	TupleTableSlot *slot;

	if (unlikely(record->caller != light_stack.top || !record->core.running))
		return end_of_skipped(node, record);
	if (unlikely(record->skip_left + record->skipped.granted_later > 0 && !page_is_visible(&record->skipped)))
		return call_and_grant(node, record);
	if (unlikely(--record->skip_left < 0))
		return end_of_skipped(node, record);
	slot = node->ExecProcNodeReal(node);
	Assert(!TupIsNull(slot));
	return slot;
}

/* A call of a scan with a filter: it may leave the page after it has begun, see watch_filter(). */
TupleTableSlot *pg_attribute_hot
light_filter_pages(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	TupleTableSlot *slot;

	if (unlikely(record->caller != light_stack.top || !record->core.running || --record->skip_left < 0))
		return end_of_skipped(node, record);
	slot = node->ExecProcNodeReal(node);
	return unlikely(light_stack.top == record) ? leave_page(node, record, slot) : slot;
}

/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  A sample of a temporary table's rows.
 *
 * Pages are fewer than those that ANALYZE reads, and of their rows only as many are
 * read as are taken, because a statement waits for its plan.  So they are
 * chosen one out of each stretch of the table, not only at random: values that are
 * stored together are found in proportion to their number.  sample_column.c computes
 * statistics from them.
 *
 * Sampling sets no hint bits, which would dirty pages; a page that is not in a buffer is
 * read from the file into private memory, without evicting another one.
 *
 * An error would fail a statement that the server would have planned, so only built-in
 * functions are called, and a damaged page is skipped: the statement might not need it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "commands/vacuum.h"
#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/sampling.h"
#include "utils/snapmgr.h"

#include "buffers/buffers.h"
#include "compat_storage.h"
#include "statistics/gathered.h"

/*
 * Rows of a sample: by the root of how many the table has, so that what looking costs is
 * an ever smaller part of what filling the table did, within bounds.  In units of
 * default_statistics_target, for which ANALYZE takes 300 times as many of any table.
 */
#define ROWS_BY_ROOT 0.02
#define LEAST_ROWS 2
#define MOST_ROWS 100

/* Pages that are sampled: all of a small table, and by the root of a larger one. */
#define LEAST_PAGES 50
#define PAGES_BY_ROOT 5
#define MOST_PAGES 1000

/* Memory for rows, at most. */
#define SAMPLE_BYTES (16 * 1024 * 1024)

/* A sample that became too large, or too small, is repeated this many times. */
#define MOST_TRIES 4

/* Rows whose widths are measured. */
#define WIDTH_ROWS 100

/*
 * How many line pointers to skip before the next one is checked.  Steps of one
 * length could match a pattern in the table.
 */
static double
next_step(double step, pg_prng_state *random)
{
	return step <= 1 ? 1 : 1 + 2 * (step - 1) * sampler_random_fract(random);
}

/*
 * Sampled rows are spread over the table: each page's header, each line
 * pointer and each row has to come from memory, and waiting for that took longer than
 * all that is done with them.  Memory answers many at once.  So each of these steps is
 * done for several pages, and for several rows, before the next one; each prefetches the
 * memory that the next one needs.
 */
#define PAGES_AT_ONCE 32
#define ROWS_AT_ONCE 128

typedef struct LookedAtPage
{
	BlockNumber block;
	Buffer		buffer;			/* that has it, pinned; or InvalidBuffer */
	Page		page;			/* NULL: damaged */
} LookedAtPage;

typedef struct LookedAtRow
{
	LookedAtPage *from;
	OffsetNumber offset;
} LookedAtRow;

/* A sample while it is taken. */
typedef struct Look
{
	Relation	rel;
	TableSample *sample;
	BlockNumber nblocks;		/* of the table */
	uint32		nstretches;		/* that it is divided into */
	uint32		stretch;		/* the next one */
	pg_prng_state random;
	SnapshotData snapshot;
	VisibilityMemo memo;
	char	   *memory;			/* for pages that are in no buffer */
	Buffer		last_buffer;	/* of the page that was found last */
	BlockNumber last_block;
	int			room;			/* rows that the sample can have; 0: not known
								 * yet */
	double		looked_at;		/* rows until now, seen or not */
	int			npages;
	int			nrows;
	LookedAtPage pages[PAGES_AT_ONCE];
	LookedAtRow rows[ROWS_AT_ONCE];
} Look;

/*
 * One block of the next stretch.  Their lengths differ by one at most.
 */
static BlockNumber
choose_block(Look *look)
{
	BlockNumber first = (uint64) look->stretch * look->nblocks / look->nstretches;
	BlockNumber end = (uint64) ++look->stretch * look->nblocks / look->nstretches;

	Assert(first < end && end <= look->nblocks);
	return end - first == 1 ? first : first + (BlockNumber) (sampler_random_fract(&look->random) * (end - first));
}

/*
 * Pin the buffer that has a page, if one has.  A load puts adjacent pages into adjacent
 * buffers, so the page is first looked for as far from the last one as their blocks are
 * apart: that touches the one descriptor that has to be looked at in any case.
 */
static Buffer
pin_page(Look *look, BlockNumber block)
{
	RelFileLocator_compat locator = rd_locator_compat(look->rel);

	/* local buffers have negative numbers */
	int64		guess = (int64) look->last_buffer - ((int64) block - look->last_block);
	Buffer		buffer;

	if (BufferIsValid(look->last_buffer) && guess < 0 && guess >= -NLocBuffer &&
		ReadRecentBuffer(locator, MAIN_FORKNUM, block, (Buffer) guess))
		buffer = (Buffer) guess;
	else
	{
		Buffer		recent = PrefetchBuffer(look->rel, MAIN_FORKNUM, block).recent_buffer;

		if (!BufferIsValid(recent) || !ReadRecentBuffer(locator, MAIN_FORKNUM, block, recent))
			return InvalidBuffer;
		buffer = recent;
	}
	look->last_buffer = buffer;
	look->last_block = block;
	return buffer;
}

/*
 * Choose the next pages, and find out where they are.  False if there are no more.
 */
static bool
choose_pages(Look *look)
{
	look->npages = 0;
	while (look->npages < PAGES_AT_ONCE && look->stretch < look->nstretches)
	{
		LookedAtPage *looked_at = &look->pages[look->npages++];

		looked_at->block = choose_block(look);
		looked_at->buffer = pin_page(look, looked_at->block);
		if (BufferIsValid(looked_at->buffer))
			__builtin_prefetch(BufferGetPage(looked_at->buffer));
	}
	return look->npages > 0;
}

/*
 * Get a page: in its buffer, or read into memory.
 */
static void
open_page(Look *look, LookedAtPage *looked_at)
{
	Page		memory;
	instr_time	io_start;

	if (BufferIsValid(looked_at->buffer))
	{
		looked_at->page = BufferGetPage(looked_at->buffer);
		return;
	}
	if (look->memory == NULL)
		look->memory = palloc(PAGES_AT_ONCE * BLCKSZ + 4096);
	memory = (Page) ((char *) TYPEALIGN(4096, look->memory) + (looked_at - look->pages) * BLCKSZ);
	io_start = IoTimeStart_compat();
	smgrreadn_compat(RelationGetSmgr(look->rel), MAIN_FORKNUM, looked_at->block, memory, 1);
	CountTempRead_compat(io_start, 1);
	pgBufferUsage.local_blks_read++;
	looked_at->page = PageIsVerified_compat(memory, looked_at->block, false) ? memory : NULL;
}

/*
 * Line pointers of a page that was opened.
 */
static int
lines_on(const LookedAtPage *looked_at)
{
	if (looked_at->page == NULL || PageIsNew(looked_at->page))
		return 0;
	return Min(PageGetMaxOffsetNumber(looked_at->page), MaxHeapTuplesPerPage);
}

/*
 * The line pointer of a row, if it can be one.
 */
static ItemId
item_of(const LookedAtRow *row)
{
	ItemId		item = PageGetItemId(row->from->page, row->offset);

	/* a header may be whole where the rest is not */
	if (!ItemIdIsNormal(item) || ItemIdGetLength(item) < SizeofHeapTupleHeader ||
		ItemIdGetOffset(item) + ItemIdGetLength(item) > BLCKSZ)
		return NULL;
	return item;
}

static bool
is_full(const Look *look)
{
	return look->room > 0 && (look->sample->nrows >= look->room || look->sample->bytes >= SAMPLE_BYTES);
}

/*
 * Take those of the chosen rows that the transaction would find.
 */
static void
take_rows(Look *look)
{
	TableSample *sample = look->sample;

	for (int i = 0; i < look->nrows; i++)
	{
		ItemId		item = item_of(&look->rows[i]);

		if (item != NULL)
		{
			const char *tuple = (const char *) PageGetItem(look->rows[i].from->page, item);

			__builtin_prefetch(tuple);
			__builtin_prefetch(tuple + Min(ItemIdGetLength(item) - 1, PG_CACHE_LINE_SIZE / 2));
		}
	}
	for (int i = 0; i < look->nrows && !is_full(look); i++)
	{
		LookedAtRow *row = &look->rows[i];
		ItemId		item = item_of(row);
		HeapTupleData tuple;

		look->looked_at++;
		if (item == NULL)
			continue;
		tuple.t_tableOid = RelationGetRelid(look->rel);
		tuple.t_data = (HeapTupleHeader) PageGetItem(row->from->page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, row->from->block, row->offset);
		if (!pt_visible_tuple(&look->memo, tuple.t_data, &look->snapshot))
			continue;
		sample->rows[sample->nrows++] = heap_copytuple(&tuple);
		sample->bytes += tuple.t_len + HEAPTUPLESIZE;
		sample->external |= HeapTupleHasExternal(&tuple);
	}
	look->nrows = 0;
}

static void
choose_row(Look *look, LookedAtPage *from, OffsetNumber offset)
{
	LookedAtRow *row = &look->rows[look->nrows++];

	row->from = from;
	row->offset = offset;
	__builtin_prefetch(PageGetItemId(from->page, offset));
	if (look->nrows == ROWS_AT_ONCE)
		take_rows(look);
}

static void
close_pages(Look *look)
{
	for (int i = 0; i < look->npages; i++)
	{
		if (BufferIsValid(look->pages[i].buffer))
			ReleaseBuffer(look->pages[i].buffer);
	}
}

/*
 * Of how many rows one is taken, as the first pages have them, and space for them all:
 * pages differ, so for twice as many.
 */
static void
choose_step(Look *look, double *step, double *wanted)
{
	double		lines = 0;

	for (int i = 0; i < look->npages; i++)
		lines += lines_on(&look->pages[i]);
	if (lines == 0)
		return;
	lines /= look->npages;
	*wanted = Max(Min(ROWS_BY_ROOT * sqrt(look->nblocks * lines), MOST_ROWS), LEAST_ROWS) * default_statistics_target;
	if (*step == 0)
		*step = look->nstretches * lines / *wanted;
	if (*step < 2)
		*step = 1;
	look->room = (int) Min(2 * *wanted, (double) look->nstretches * MaxHeapTuplesPerPage) + 1;
	look->sample->rows = palloc(sizeof(HeapTuple) * look->room);
}

/*
 * Take a sample, of a row out of "step" where that is not 0; it gets what was used.
 * *wanted gets the rows that a sample of this table should have, and *full_at the part of
 * the pages after which the sample had no space for more (0: it had).
 */
static TableSample *
sample_once(Relation rel, MemoryContext parent, double *step, double *wanted, double *full_at)
{
	MemoryContext context = AllocSetContextCreate(parent, "parallel_temp sample", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	TableSample *sample = palloc0(sizeof(TableSample));
	Look	   *look = palloc0(sizeof(Look));
	double		pages = 0;		/* until now */
	double		lines = 0;		/* line pointers on these */
	double		place = 0;		/* the next row to sample, counted as these */

	sample->context = context;
	look->rel = rel;
	look->sample = sample;
	look->last_buffer = InvalidBuffer;
	look->snapshot = *GetActiveSnapshot();
	Assert(IsMVCCSnapshot(&look->snapshot));
	/* what the statement itself has done until now counts as well */
	look->snapshot.curcid = InvalidCommandId;
	look->nblocks = RelationGetNumberOfBlocks(rel);
	look->nstretches = Min(look->nblocks, (uint32) Min(LEAST_PAGES + PAGES_BY_ROOT * sqrt(look->nblocks), MOST_PAGES));
	sampler_random_init_state(pg_prng_uint32(&pg_global_prng_state), &look->random);

	while (!is_full(look) && choose_pages(look))
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < look->npages; i++)
			open_page(look, &look->pages[i]);
		if (look->room == 0)
		{
			choose_step(look, step, wanted);
			place = next_step(*step, &look->random);
		}
		for (int i = 0; i < look->npages; i++)
		{
			LookedAtPage *from = &look->pages[i];
			int			on_page = lines_on(from);

			if (from->page == NULL)
				continue;
			pages++;
			lines += on_page;
			while (place <= lines && on_page > 0)
			{
				choose_row(look, from, (OffsetNumber) (on_page - (int) (lines - place)));
				place = floor(place) + next_step(*step, &look->random);
			}
		}
		take_rows(look);
		close_pages(look);
	}
	*full_at = is_full(look) ? (double) look->stretch / look->nstretches : 0;
	if (look->looked_at > 0)
		sample->density = lines / pages * sample->nrows / look->looked_at;
	/* the sample may be kept */
	if (look->memory != NULL)
		pfree(look->memory);
	pfree(look);
	MemoryContextSwitchTo(old);
	return sample;
}

TableSample *
pt_sample_table(Relation rel, MemoryContext parent)
{
	double		step = 0;
	double		wanted = 0;
	double		full_at;
	TableSample *sample = sample_once(rel, parent, &step, &wanted, &full_at);

	/*
	 * Most of the rows are dead; or there are many more of them, or wider
	 * ones, than the first pages have.  To sample more, or less, from some
	 * page on would count its rows for more, or less, than those before.
	 */
	for (int tries = 1; tries < MOST_TRIES; tries++)
	{
		if (full_at > 0)
			step *= Max(Max(sample->nrows / wanted, sample->bytes / (SAMPLE_BYTES / 2.0)) / full_at, 2);
		else if (tries == 1 && sample->nrows < wanted / 2 && step > 1)
			step *= Max(sample->nrows, 1) / wanted;
		else
			break;
		MemoryContextDelete(sample->context);
		sample = sample_once(rel, parent, &step, &wanted, &full_at);
	}
	return sample;
}

void
pt_sample_widths(Relation rel, const TableSample *sample, int32 *widths)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			step = Max(sample->nrows / WIDTH_ROWS, 1);
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);
	double	   *sums = palloc0(sizeof(double) * desc->natts);
	int		   *counts = palloc0(sizeof(int) * desc->natts);

	for (int row = 0; row < sample->nrows; row += step)
	{
		heap_deform_tuple(sample->rows[row], desc, values, nulls);
		for (int i = 0; i < desc->natts; i++)
		{
			if (nulls[i] || TupleDescAttr(desc, i)->attlen != -1)
				continue;
			sums[i] += VARSIZE_ANY(DatumGetPointer(values[i]));
			counts[i]++;
		}
	}
	for (int i = 0; i < desc->natts; i++)
		widths[i] = counts[i] > 0 ? (int32) Max(sums[i] / counts[i], 1) : 0;
	pfree(values);
	pfree(nulls);
	pfree(sums);
	pfree(counts);
}

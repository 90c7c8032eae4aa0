/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  A sample of a temporary table's rows, and statistics computed from it.
 *
 * Pages are fewer than those that ANALYZE reads, and of their rows only as many are looked
 * at as are taken, because this is done while somebody waits for a plan.  So they are
 * chosen one out of each stretch of the table, not by chance alone: values that lie
 * together are met as often as there are of them.  What a column's statistics are is
 * computed by the type's own function, that of ANALYZE.
 *
 * Looking leaves no trace.  No hint bits are set, which would make clean pages dirty; a page
 * that is in no buffer is read from the file into memory of our own, and takes the place
 * of no other.
 *
 * An error would fail a statement that the server would have planned, so nothing is
 * called that is not the server's own, and a damaged page is passed by: the statement
 * may not need it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "commands/vacuum.h"
#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/attoptcache.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/sampling.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "buffers/localbuf.h"
#include "buffers/visibility.h"
#include "compat_statistics.h"
#include "compat_storage.h"
#include "statistics/sample.h"
#include "statistics/sample_order.h"

/*
 * Rows of a sample: by the root of how many the table has, so that what looking costs is
 * an ever smaller part of what filling the table did, within bounds.  In units of
 * default_statistics_target, for which ANALYZE takes 300 times as many of any table.
 */
#define ROWS_BY_ROOT 0.02
#define LEAST_ROWS 2
#define MOST_ROWS 100

/* Pages that are looked at: all of a small table, and by the root of a larger one. */
#define LEAST_PAGES 50
#define PAGES_BY_ROOT 5
#define MOST_PAGES 1000

/* Memory for rows, at most. */
#define SAMPLE_BYTES (16 * 1024 * 1024)

/* A sample that became too large, or too small, is taken anew so often. */
#define MOST_TRIES 4

/* Rows whose widths are looked at. */
#define WIDTH_ROWS 100

/*
 * How many line pointers to pass by before the next one is looked at.  Steps of one
 * length would fall into step with what the table holds.
 */
static double
next_step(double step, pg_prng_state *random)
{
	return step <= 1 ? 1 : 1 + 2 * (step - 1) * sampler_random_fract(random);
}

/*
 * Rows that are looked at are spread over the table: each page's header, each line
 * pointer and each row has to come from memory, and waiting for that took longer than
 * all that is done with them.  Memory answers many at once.  So each of these steps is
 * done for several pages, and for several rows, before the next one; each asks for what
 * the next one needs.
 */
#define PAGES_AT_ONCE 32
#define ROWS_AT_ONCE 128

typedef struct LookedAtPage
{
	BlockNumber block;
	int			buf_id;			/* of the local buffer that has it, or -1 */
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
	int			last_buf_id;	/* of the page that was found last, or -1 */
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
 * Where a page is.  A load puts neighbours into neighbouring buffers, so the page is first
 * looked for as far from the last one as their blocks are apart: that touches the one
 * descriptor that has to be looked at in any case.
 */
static int
find_page(Look *look, BlockNumber block)
{
	RelFileLocator_compat locator = rd_locator_compat(look->rel);
	int			buf_id = -1;

	if (look->last_buf_id >= 0)
	{
		int64		guess = (int64) look->last_buf_id + block - look->last_block;

		if (guess >= 0 && guess < NLocBuffer && localbuf_holds((int) guess, locator, block))
			buf_id = (int) guess;
	}
	if (buf_id < 0)
	{
		Buffer		recent = PrefetchBuffer(look->rel, MAIN_FORKNUM, block).recent_buffer;

		if (!BufferIsValid(recent) || !localbuf_holds(-recent - 1, locator, block))
			return -1;
		buf_id = -recent - 1;
	}
	look->last_buf_id = buf_id;
	look->last_block = block;
	return buf_id;
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
		looked_at->buf_id = find_page(look, looked_at->block);
		if (looked_at->buf_id >= 0)
			__builtin_prefetch(LocalBufferBlockPointers[looked_at->buf_id]);
	}
	return look->npages > 0;
}

/*
 * Get a page: in its buffer, or read into memory.
 *
 * The buffer needs no pin: until the rows of these pages are taken nothing is called
 * that could give it to another page (close_pages() asserts it).
 */
static void
open_page(Look *look, LookedAtPage *looked_at)
{
	Page		memory;
	instr_time	io_start;

	if (looked_at->buf_id >= 0)
	{
		looked_at->page = (Page) LocalBufferBlockPointers[looked_at->buf_id];
		pgBufferUsage.local_blks_hit++;
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
		if (!visible_tuple(&look->memo, tuple.t_data, &look->snapshot))
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

/*
 * Done with these pages, which are still where they were.
 */
static void
close_pages(Look *look)
{
	for (int i = 0; i < look->npages; i++)
		Assert(look->pages[i].buf_id < 0 ||
			   localbuf_holds(look->pages[i].buf_id, rd_locator_compat(look->rel), look->pages[i].block));
}

/*
 * Of how many rows one is taken, as the first pages have them, and room for them all:
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
 * the pages after which the sample had no room for more (0: it had).
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
	double		place = 0;		/* the next row to look at, counted as these */

	sample->context = context;
	look->rel = rel;
	look->sample = sample;
	look->last_buf_id = -1;
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
sample_table(Relation rel, MemoryContext parent)
{
	double		step = 0;
	double		wanted = 0;
	double		full_at;
	TableSample *sample = sample_once(rel, parent, &step, &wanted, &full_at);

	/*
	 * Most of the rows are dead; or there are many more of them, or wider
	 * ones, than the first pages have.  To look at more, or less, from some
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
sample_widths(Relation rel, const TableSample *sample, int32 *widths)
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

static Datum
fetch_value(VacAttrStatsP stats, int rownum, bool *isnull)
{
	return heap_getattr(stats->rows[rownum], stats->tupattnum, stats->tupDesc, isnull);
}

/*
 * Are a type's comparisons, and what ANALYZE computes for it, the server's own?
 * *less_than gets the operator by which the server's function for scalar types sorts, if
 * it is that function.
 */
static bool
type_is_the_servers(Oid type, Form_pg_type form, Oid *less_than)
{
	TypeCacheEntry *entry;

	if (form->typanalyze >= FirstNormalObjectId)
		return false;
	if (type >= FirstNormalObjectId && form->typtype != TYPTYPE_ENUM)
		return false;
	if (OidIsValid(form->typelem) && form->typelem >= FirstNormalObjectId)
		return false;
	if (form->typtype == TYPTYPE_COMPOSITE || form->typtype == TYPTYPE_PSEUDO)
		return false;
	entry = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR);
	*less_than = !OidIsValid(form->typanalyze) && OidIsValid(entry->eq_opr) ? entry->lt_opr : InvalidOid;
	return entry->eq_opr < FirstNormalObjectId && entry->lt_opr < FirstNormalObjectId;
}

/*
 * Prepare what the type's function wants to know, and let it say what it would do.
 * False if it would do nothing.
 */
static bool
examine_column(Relation rel, AttrNumber attno, VacAttrStats *stats, Oid *less_than)
{
	Form_pg_attribute attr = TupleDescAttr(RelationGetDescr(rel), attno - 1);
	HeapTuple	type;
	Oid			typeid = getBaseType(attr->atttypid);

	if (attr->attisdropped || !StatsTargetSet_compat(stats, rel, attr))
		return false;
	type = SearchSysCacheCopy1(TYPEOID, ObjectIdGetDatum(typeid));
	if (!HeapTupleIsValid(type))
		return false;
	stats->attrtypid = typeid;
	stats->attrtypmod = attr->atttypmod;
	stats->attrcollid = attr->attcollation;
	stats->attrtype = (Form_pg_type) GETSTRUCT(type);
	stats->anl_context = CurrentMemoryContext;
	stats->tupattnum = attno;
	for (int i = 0; i < STATISTIC_NUM_SLOTS; i++)
	{
		stats->statypid[i] = stats->attrtypid;
		stats->statyplen[i] = stats->attrtype->typlen;
		stats->statypbyval[i] = stats->attrtype->typbyval;
		stats->statypalign[i] = stats->attrtype->typalign;
	}
	if (!type_is_the_servers(typeid, stats->attrtype, less_than))
		return false;
	if (OidIsValid(stats->attrtype->typanalyze))
	{
		if (!DatumGetBool(OidFunctionCall1(stats->attrtype->typanalyze, PointerGetDatum(stats))))
			return false;
	}
	else if (!std_typanalyze(stats))
		return false;
	return stats->compute_stats != NULL;
}

/*
 * The row of pg_statistic.
 */
static HeapTuple
form_statistics(Relation rel, AttrNumber attno, VacAttrStats *stats)
{
	Relation	catalog = table_open(StatisticRelationId, AccessShareLock);
	Datum		values[Natts_pg_statistic] = {0};
	bool		nulls[Natts_pg_statistic] = {0};
	HeapTuple	result;

	values[Anum_pg_statistic_starelid - 1] = ObjectIdGetDatum(RelationGetRelid(rel));
	values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(attno);
	values[Anum_pg_statistic_stainherit - 1] = BoolGetDatum(false);
	values[Anum_pg_statistic_stanullfrac - 1] = Float4GetDatum(stats->stanullfrac);
	values[Anum_pg_statistic_stawidth - 1] = Int32GetDatum(stats->stawidth);
	values[Anum_pg_statistic_stadistinct - 1] = Float4GetDatum(stats->stadistinct);
	for (int k = 0; k < STATISTIC_NUM_SLOTS; k++)
	{
		int			numbers = stats->numnumbers[k];

		values[Anum_pg_statistic_stakind1 - 1 + k] = Int16GetDatum(stats->stakind[k]);
		values[Anum_pg_statistic_staop1 - 1 + k] = ObjectIdGetDatum(stats->staop[k]);
		values[Anum_pg_statistic_stacoll1 - 1 + k] = ObjectIdGetDatum(stats->stacoll[k]);
		nulls[Anum_pg_statistic_stanumbers1 - 1 + k] = numbers <= 0;
		nulls[Anum_pg_statistic_stavalues1 - 1 + k] = stats->numvalues[k] <= 0;
		if (numbers > 0)
		{
			Datum	   *datums = palloc(sizeof(Datum) * numbers);

			for (int i = 0; i < numbers; i++)
				datums[i] = Float4GetDatum(stats->stanumbers[k][i]);
			values[Anum_pg_statistic_stanumbers1 - 1 + k] =
				PointerGetDatum(construct_array(datums, numbers, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT));
		}
		if (stats->numvalues[k] > 0)
			values[Anum_pg_statistic_stavalues1 - 1 + k] =
				PointerGetDatum(construct_array(stats->stavalues[k], stats->numvalues[k], stats->statypid[k],
												stats->statyplen[k], stats->statypbyval[k], stats->statypalign[k]));
	}
	result = heap_form_tuple(RelationGetDescr(catalog), values, nulls);
	table_close(catalog, AccessShareLock);
	return result;
}

/*
 * Let the type's function compute what it does; "in_order" has the values in order if it
 * is faster so.
 */
static bool
compute_column(Relation rel, const TableSample *sample, AttrNumber attno, double total_rows, bool in_order, OrderedColumn *column)
{
	VacAttrStats *stats = &column->stats;
	Oid			less_than = InvalidOid;

	if (!examine_column(rel, attno, stats, &less_than))
		return false;
	stats->rows = sample->rows;
	stats->tupDesc = RelationGetDescr(rel);
	in_order = in_order && sample_order(column, less_than, sample->nrows);
	stats->compute_stats(stats, in_order ? sample_ordered_value : fetch_value, sample->nrows, Max(total_rows, sample->nrows));
	if (in_order)
		sample_set_correlation(column);
	return stats->stats_valid;
}

#ifdef USE_ASSERT_CHECKING
/*
 * Are these the same statistics, to the last digit?
 */
static bool
computed_alike(const VacAttrStats *a, const VacAttrStats *b)
{
	if (a->stanullfrac != b->stanullfrac || a->stawidth != b->stawidth || a->stadistinct != b->stadistinct)
		return false;
	for (int k = 0; k < STATISTIC_NUM_SLOTS; k++)
	{
		if (a->stakind[k] != b->stakind[k] || a->numnumbers[k] != b->numnumbers[k] || a->numvalues[k] != b->numvalues[k])
			return false;
		if (a->numnumbers[k] > 0 && memcmp(a->stanumbers[k], b->stanumbers[k], sizeof(float4) * a->numnumbers[k]) != 0)
			return false;
		for (int i = 0; i < a->numvalues[k]; i++)
		{
			if (!datumIsEqual(a->stavalues[k][i], b->stavalues[k][i], a->statypbyval[k], a->statyplen[k]))
				return false;
		}
	}
	return true;
}
#endif

HeapTuple
sample_column(Relation rel, TableSample *sample, AttrNumber attno, double total_rows, MemoryContext context)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "parallel_temp column", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	OrderedColumn *column = palloc0(sizeof(OrderedColumn));
	VacAttrStats *stats = &column->stats;
	HeapTuple	result = NULL;

	if (sample->nrows > 0 && compute_column(rel, sample, attno, total_rows, true, column))
	{
		AttributeOpts *options = get_attribute_options(RelationGetRelid(rel), attno);
		HeapTuple	formed;

#ifdef USE_ASSERT_CHECKING
		OrderedColumn *again = palloc0(sizeof(OrderedColumn));

		Assert(compute_column(rel, sample, attno, total_rows, false, again));
		Assert(computed_alike(stats, &again->stats));
#endif
		if (options != NULL && options->n_distinct != 0.0)
			stats->stadistinct = options->n_distinct;
		formed = form_statistics(rel, attno, stats);
		MemoryContextSwitchTo(context);
		result = heap_copytuple(formed);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return result;
}

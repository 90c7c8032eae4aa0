/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  A sample of a temporary table's rows, and statistics computed from it.
 *
 * Pages are chosen as ANALYZE chooses them, but fewer, and of their rows only as many are
 * looked at as are taken, because this is done while somebody waits for a plan.  What a
 * column's statistics are is computed by the type's own function, that of ANALYZE.
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
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/sampling.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat_statistics.h"
#include "compat_storage.h"
#include "parallel/scan_visibility.h"
#include "statistics/sample.h"

/*
 * Rows of a sample: by the root of how many the table has, so that what looking costs is
 * an ever smaller part of what filling the table did, within bounds.  In units of
 * default_statistics_target, for which ANALYZE takes 300 times as many of any table.
 */
#define ROWS_BY_ROOT 0.03
#define LEAST_ROWS 3
#define MOST_ROWS 100

/* Pages that are looked at: all of a small table, and by the root of a larger one. */
#define LEAST_PAGES 200
#define PAGES_BY_ROOT 13
#define MOST_PAGES 2500

/* Memory for rows, at most. */
#define SAMPLE_BYTES (16 * 1024 * 1024)

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
 * A page of the table: in its buffer, which is pinned then, or read into "memory"; NULL
 * if it is damaged.
 */
static Page
sample_page(Relation rel, BlockNumber block, Buffer *buffer, Page memory)
{
	Buffer		recent = PrefetchBuffer(rel, MAIN_FORKNUM, block).recent_buffer;
	instr_time	io_start;

	*buffer = InvalidBuffer;
	if (BufferIsValid(recent) && ReadRecentBuffer(rd_locator_compat(rel), MAIN_FORKNUM, block, recent))
	{
		*buffer = recent;
		return BufferGetPage(recent);
	}
	io_start = IoTimeStart_compat();
	smgrreadn_compat(RelationGetSmgr(rel), MAIN_FORKNUM, block, memory, 1);
	CountTempRead_compat(io_start, 1);
	pgBufferUsage.local_blks_read++;
	return PageIsVerified_compat(memory, block, false) ? memory : NULL;
}

/*
 * The row at a line pointer, if it is one that the transaction would find.
 */
static bool
sample_row(Relation rel, Page page, BlockNumber block, OffsetNumber off, Snapshot snapshot,
		   VisibilityMemo *memo, HeapTuple tuple)
{
	ItemId		item = PageGetItemId(page, off);

	/* a header may be whole where the rest is not */
	if (!ItemIdIsNormal(item) || ItemIdGetLength(item) < SizeofHeapTupleHeader ||
		ItemIdGetOffset(item) + ItemIdGetLength(item) > BLCKSZ)
		return false;
	tuple->t_tableOid = RelationGetRelid(rel);
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	ItemPointerSet(&tuple->t_self, block, off);
	return visible_tuple(memo, tuple->t_data, snapshot);
}

/*
 * Take a sample, of a row out of "step" where that is not 0; it gets what was used.
 * *wanted gets the rows that a sample of this table should have.
 */
static TableSample *
sample_once(Relation rel, MemoryContext parent, double *step, double *wanted)
{
	MemoryContext context = AllocSetContextCreate(parent, "parallel_temp sample", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	TableSample *sample = palloc0(sizeof(TableSample));
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	pg_prng_state random;
	BlockSamplerData blocks;
	SnapshotData snapshot = *GetActiveSnapshot();
	VisibilityMemo memo = {0};
	double		npages = Min(nblocks, Min(LEAST_PAGES + PAGES_BY_ROOT * sqrt(nblocks), MOST_PAGES));
	double		pages = 0;
	double		lines = 0;
	double		looked_at = 0;
	double		place = 0;
	int			room = 0;
	char	   *unaligned = palloc(BLCKSZ + 4096);
	Page		memory = (Page) TYPEALIGN(4096, unaligned);

	Assert(IsMVCCSnapshot(&snapshot));
	/* what the statement itself has done until now counts as well */
	snapshot.curcid = InvalidCommandId;
	sample->context = context;
	(void) BlockSampler_Init(&blocks, nblocks, (int) npages, pg_prng_uint32(&pg_global_prng_state));
	sampler_random_init_state(pg_prng_uint32(&pg_global_prng_state), &random);

	while (BlockSampler_HasMore(&blocks))
	{
		BlockNumber block = BlockSampler_Next(&blocks);
		Buffer		buffer;
		Page		page;
		int			on_page;

		CHECK_FOR_INTERRUPTS();
		page = sample_page(rel, block, &buffer, memory);
		if (page == NULL)
			continue;
		on_page = PageIsNew(page) ? 0 : Min(PageGetMaxOffsetNumber(page), MaxHeapTuplesPerPage);
		if (room == 0 && on_page > 0)
		{
			double		rows = (double) nblocks * on_page;

			*wanted = Max(Min(ROWS_BY_ROOT * sqrt(rows), MOST_ROWS), LEAST_ROWS) * default_statistics_target;
			if (*step == 0)
				*step = npages * on_page / *wanted;
			if (*step < 2)
				*step = 1;
			/* no page is as this one: with room for twice as many */
			room = (int) Min(2 * *wanted, npages * MaxHeapTuplesPerPage) + 1;
			sample->rows = palloc(sizeof(HeapTuple) * room);
			place = next_step(*step, &random);
		}
		pages++;
		lines += on_page;
		while (place <= lines && sample->nrows < room && sample->bytes < SAMPLE_BYTES)
		{
			OffsetNumber off = (OffsetNumber) (on_page - (int) (lines - place));
			HeapTupleData tuple;

			place = floor(place) + next_step(*step, &random);
			looked_at++;
			if (!sample_row(rel, page, block, off, &snapshot, &memo, &tuple))
				continue;
			sample->rows[sample->nrows++] = heap_copytuple(&tuple);
			sample->bytes += tuple.t_len + HEAPTUPLESIZE;
			sample->external |= HeapTupleHasExternal(&tuple);
		}
		if (BufferIsValid(buffer))
			ReleaseBuffer(buffer);
	}
	if (looked_at > 0)
		sample->density = lines / pages * sample->nrows / looked_at;
	pfree(unaligned);			/* the sample may be kept */
	MemoryContextSwitchTo(old);
	return sample;
}

TableSample *
sample_table(Relation rel, MemoryContext parent)
{
	double		step = 0;
	double		wanted = 0;
	TableSample *sample = sample_once(rel, parent, &step, &wanted);

	/*
	 * Most of the rows are dead.  To look at more from some page on would
	 * count its rows for more than those before.
	 */
	if (sample->nrows < wanted / 2 && step > 1)
	{
		step *= Max(sample->nrows, 1) / wanted;
		MemoryContextDelete(sample->context);
		sample = sample_once(rel, parent, &step, &wanted);
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
 */
static bool
type_is_the_servers(Oid type, Form_pg_type form)
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
	return entry->eq_opr < FirstNormalObjectId && entry->lt_opr < FirstNormalObjectId;
}

/*
 * Prepare what the type's function wants to know, and let it say what it would do.
 * False if it would do nothing.
 */
static bool
examine_column(Relation rel, AttrNumber attno, VacAttrStats *stats)
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
	if (!type_is_the_servers(typeid, stats->attrtype))
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

HeapTuple
sample_column(Relation rel, TableSample *sample, AttrNumber attno, double total_rows, MemoryContext context)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "parallel_temp column", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	VacAttrStats *stats = palloc0(sizeof(VacAttrStats));
	HeapTuple	result = NULL;

	if (sample->nrows > 0 && examine_column(rel, attno, stats))
	{
		AttributeOpts *options = get_attribute_options(RelationGetRelid(rel), attno);

		stats->rows = sample->rows;
		stats->tupDesc = RelationGetDescr(rel);
		stats->compute_stats(stats, fetch_value, sample->nrows, Max(total_rows, sample->nrows));
		if (options != NULL && options->n_distinct != 0.0)
			stats->stadistinct = options->n_distinct;
		if (stats->stats_valid)
		{
			HeapTuple	formed = form_statistics(rel, attno, stats);

			MemoryContextSwitchTo(context);
			result = heap_copytuple(formed);
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return result;
}

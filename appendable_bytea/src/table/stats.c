/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Disk space of a table's values: appendable_bytea_stats and the total size.
 *
 * Reads the rows of the table, and of the chunks a sample: costs as much as a sequential scan of a
 * table without its large values.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "table/table.h"

PG_FUNCTION_INFO_V1(appendable_bytea_stats);
PG_FUNCTION_INFO_V1(appendable_bytea_total_size);

static int64
total_size(Oid relid)
{
	return DatumGetInt64(DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(relid)));
}

/* pages of a store that are read */
#define SAMPLED_PAGES	100

/* The share of bytes in chunks that are in compressed ones, by a sample; -1 if there are none. */
static double
compressed_share(Oid store)
{
	Relation	heap = try_relation_open(store, AccessShareLock);
	TableScanDesc scan;
	TupleTableSlot *slot;
	ItemPointerData first,
				last;
	BlockNumber nblocks;
	int64		all = 0;
	int64		compressed = 0;

	if (heap == NULL)
		return -1;
	nblocks = RelationGetNumberOfBlocks(heap);
	slot = table_slot_create(heap, NULL);
	ItemPointerSet(&first, 0, 0);
	ItemPointerSet(&last, 0, MaxOffsetNumber);
	scan = table_beginscan_tidrange_compat(heap, GetActiveSnapshot(), &first, &last);
	for (int i = 0; i < (int) Min(nblocks, SAMPLED_PAGES); i++)
	{
		BlockNumber block = (uint64) i * nblocks / Min(nblocks, SAMPLED_PAGES);
		AbChunk		chunk;

		CHECK_FOR_INTERRUPTS();
		ItemPointerSetBlockNumber(&first, block);
		ItemPointerSetBlockNumber(&last, block);
		table_rescan_tidrange(scan, &first, &last);
		while (table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot))
		{
			if (!ab_chunk_parse(ExecFetchSlotHeapTuple(slot, false, NULL), &chunk))
				continue;
			all += chunk.length;
			compressed += chunk.compressed ? chunk.length : 0;
		}
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	relation_close(heap, AccessShareLock);
	return all > 0 ? (double) compressed / all : -1;
}

/* Measure the values of a table: one row of appendable_bytea_stats(). */
static void
stats_row(ReturnSetInfo *rsinfo, Relation rel)
{
	Datum		values[11];
	bool		nulls[11] = {0};
	Oid			relid = RelationGetRelid(rel);
	AbValueScan scan;
	PgStat_StatTabEntry *counters = pgstat_fetch_stat_tabentry(relid);
	Oid			store = ab_store_find(relid);
	bool		has_store = OidIsValid(store);
	int64		count = 0,
				stored = 0,
				inlined = 0,
				in_chunks = 0,
				file_size = 0;
	double		share = -1;

	ab_values_begin(&scan, rel, GetActiveSnapshot());
	while (ab_values_next(&scan))
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(scan.context);
		int64		chunk_bytes = ab_length_in_chunks(scan.value);

		count++;
		stored += chunk_bytes;
		inlined += ab_length(scan.value) - chunk_bytes;
		if (chunk_bytes > 0)
			in_chunks++;
		MemoryContextSwitchTo(oldcontext);
	}
	ab_values_end(&scan);
	if (has_store)
	{
		file_size = DatumGetInt64(DirectFunctionCall1(pg_table_size, ObjectIdGetDatum(store)));
		share = compressed_share(store);
	}

	values[0] = ObjectIdGetDatum(relid);
	values[1] = ObjectIdGetDatum(store);
	nulls[1] = !has_store;
	values[2] = Int64GetDatum(count);
	values[3] = Int64GetDatum(in_chunks);
	values[4] = Int64GetDatum(stored);
	values[5] = Int64GetDatum(inlined);
	values[6] = Int64GetDatum(file_size);
	values[7] = Int64GetDatum(Max(file_size - stored, 0));
	values[8] = Int64GetDatum(has_store ? total_size(store) : 0);
	if (counters == NULL || counters->tuples_updated == 0)
		nulls[9] = true;
	else
		values[9] = Float8GetDatum((double) counters->tuples_hot_updated /
								   counters->tuples_updated);
	nulls[10] = share < 0;
	values[10] = Float8GetDatum(share);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* appendable_bytea_stats(regclass): see the SQL script for the columns. */
Datum
appendable_bytea_stats(PG_FUNCTION_ARGS)
{
	ab_report_tables(fcinfo, stats_row);
	return (Datum) 0;
}

/* appendable_bytea_total_size(regclass): the table with all that belongs to it. */
Datum
appendable_bytea_total_size(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Oid			store = ab_store_find(relid);
	int64		size;

	if (get_rel_name(relid) == NULL)
		PG_RETURN_NULL();
	size = total_size(relid);
	if (OidIsValid(store))
		size += total_size(store);
	PG_RETURN_INT64(size);
}

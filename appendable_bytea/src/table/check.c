/*-------------------------------------------------------------------------
 *
 * check.c
 *	  What is in tables and their stores: appendable_bytea_check(), chunks without an
 *	  owner, appendable_bytea_stats() and the total size.
 *
 * Chunks begin and end in the transactions in which the row versions that refer to
 * them do.  So one snapshot sees both or neither: the chunks that it sees of a value are
 * exactly those that the value consists of, and all that it sees are those of values
 * that it sees.  A problem is reported as a row instead of an error, so that one damaged
 * value does not hide the next.  Memory does not depend on the size or number of values.
 *
 * Chunks without an owner are left by code that removes values without deleting rows by the
 * access method: a dropped column, a rewrite that computes new values, pglogical's apply
 * worker, which calls simple_heap_delete().  They are counted here, and removed by
 * appendable_bytea_repair().
 *
 * Statistics read the rows of the table, and of the chunks a sample: they cost as much as a
 * sequential scan of a table without its large values.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"

#include "table/table.h"

PG_FUNCTION_INFO_V1(appendable_bytea_check);
PG_FUNCTION_INFO_V1(appendable_bytea_stats);
PG_FUNCTION_INFO_V1(appendable_bytea_total_size);

/* pages of a store that are read for statistics */
#define SAMPLED_PAGES	100

/*
 * Call a function for each value of a table that a snapshot sees, in memory that is freed
 * after each call.
 */
static void
visit_values(Relation rel, Snapshot snapshot,
			 void (*visit) (void *arg, TupleTableSlot *row, AttrNumber attnum, Datum value), void *arg)
{
	TupleDesc	desc = RelationGetDescr(rel);
	TupleTableSlot *row = table_slot_create(rel, NULL);
	TableScanDesc scan = table_beginscan_compat(rel, snapshot, 0, NULL);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea values",
												  ALLOCSET_DEFAULT_SIZES);

	while (table_scan_getnextslot(scan, ForwardScanDirection, row))
	{
		CHECK_FOR_INTERRUPTS();
		for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
		{
			bool		isnull;
			Datum		value = slot_getattr(row, n, &isnull);
			MemoryContext oldcontext = MemoryContextSwitchTo(context);

			if (!isnull)
				visit(arg, row, n, value);
			MemoryContextSwitchTo(oldcontext);
			MemoryContextReset(context);
		}
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(row);
	MemoryContextDelete(context);
}

typedef struct Check
{
	ReturnSetInfo *rsinfo;
	Relation	rel;
	Snapshot	snapshot;		/* taken when the table is locked */
	bool		has_store;
	AbStore		store;
	Tuplesortstate *vids;		/* of all values */
	int64		chunks;			/* that belong to them */
} Check;

static void
report_problem(Check *check, ItemPointer tid, const char *column, const char *problem)
{
	Datum		values[4];
	bool		nulls[4] = {0};

	values[0] = ObjectIdGetDatum(RelationGetRelid(check->rel));
	values[1] = PointerGetDatum(tid);
	nulls[1] = tid == NULL;
	if (column)
		values[2] = CStringGetTextDatum(column);
	nulls[2] = column == NULL;
	values[3] = CStringGetTextDatum(problem);
	tuplestore_putvalues(check->rsinfo->setResult, check->rsinfo->setDesc, values, nulls);
}

/* The chunks of a value that were checked so far. */
typedef struct CheckedChunks
{
	AbChunkCursor cursor;
	int64		count;
	int64		end;			/* of the last one */
	uint32		crc;			/* its checksum */
	int64		continuations;	/* if they are counted */
} CheckedChunks;

/* Check the chunks from one place of a reference up to another; the fault, or NULL. */
static const char *
check_range(CheckedChunks *checked, const AbRef *ref, int64 at, int64 until)
{
	while (at < until)
	{
		const AbChunk *chunk = ab_chunk_cursor_find(&checked->cursor, ref, at, until);

		if (chunk == NULL)
			return checked->cursor.problem ? checked->cursor.problem :
				psprintf("byte %lld is in no chunk", (long long) at);
		if (ref->counted)
			checked->continuations += ab_count_continuations(chunk->data + (at - chunk->off),
															 Min(until, chunk->off + chunk->length) - at);
		at = chunk->off + chunk->length;
		/* a range may begin in the chunk in which the one before it ends */
		if (at <= checked->end)
			continue;

		/* chunks that touch were written one after the other */
		if (chunk->off == checked->end && chunk->prev != checked->crc)
			return psprintf("the chunk at offset %lld does not continue the one before it",
							(long long) chunk->off);
		checked->crc = chunk->crc;
		checked->end = at;
		checked->count++;
	}
	return NULL;
}

/*
 * Check the chunks of a value; returns the fault, or NULL.  Those of a list are checked in
 * stored order, and the last one although no piece may need it.
 */
static const char *
check_chunks(Check *check, const AbValue *value)
{
	const AbRef *ref = &value->base;
	CheckedChunks checked = {.cursor = {.context = CurrentMemoryContext,.mode = AB_READ_COMPARE,
	.snapshot = check->snapshot},.crc = AB_CRC_INIT};
	int			count = ab_chunk_segments(value);
	AbSegment  *pieces;
	const char *problem = NULL;

	if (!check->has_store)
		return "the table has no chunk store";
	pieces = palloc(count * sizeof(AbSegment));
	memcpy(pieces, value->segments, count * sizeof(AbSegment));
	qsort(pieces, count, sizeof(AbSegment), ab_compare_sources);
	for (int i = 0; problem == NULL && i < count; i++)
		problem = check_range(&checked, ref, pieces[i].source, pieces[i].source + pieces[i].length);
	if (problem == NULL && ref->counted && checked.continuations != ref->continuations)
		problem = psprintf("the value has %lld characters less than bytes in chunks, and its reference %lld",
						   (long long) checked.continuations, (long long) ref->continuations);
	if (problem == NULL)
		problem = check_range(&checked, ref, ref->stored - 1, ref->stored);
	ab_chunk_cursor_close(&checked.cursor);
	if (problem)
		ab_chunks_count(&check->store, ref->vid, check->snapshot, &check->chunks, NULL);
	else
		check->chunks += checked.count;
	return problem;
}

/*
 * Take a datum apart that a row contains; what is wrong with it, or NULL.  Nothing but
 * memory is used once the datum is fetched, so that an error leaves nothing behind.
 */
const char *
ab_parse_stored(Datum datum, AbValue *value)
{
	MemoryContext context = CurrentMemoryContext;
	const Datum fetched = PointerGetDatum(PG_DETOAST_DATUM_PACKED(datum));
	const char *volatile problem = NULL;

	PG_TRY();
	{
		ab_parse(fetched, value);
		if (value->edited)
			problem = "the value is one that is never stored";
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		FlushErrorState();
		problem = psprintf("%s: %s", error->message, error->detail ? error->detail : "");
	}
	PG_END_TRY();
	return problem;
}

static void
check_value(void *arg, TupleTableSlot *row, AttrNumber attnum, Datum value)
{
	Check	   *check = arg;
	AbValue		parsed;
	const char *problem = ab_parse_stored(value, &parsed);

	if (problem == NULL && parsed.base.vid != 0 && parsed.base.relid != RelationGetRelid(check->rel))
		problem = psprintf("the chunks belong to table %u", parsed.base.relid);
	else if (problem == NULL && parsed.base.vid != 0)
	{
		tuplesort_putdatum(check->vids, Int64GetDatum(parsed.base.vid), false);
		problem = check_chunks(check, &parsed);
	}
	if (problem)
		report_problem(check, &row->tts_tid,
					   NameStr(TupleDescAttr(RelationGetDescr(check->rel), attnum - 1)->attname), problem);
}

/* Value ids, to be sorted: work memory, then files. */
static Tuplesortstate *
begin_vids(void)
{
	return tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false,
								 maintenance_work_mem, NULL, TUPLESORT_NONE);
}

/* The next value id in order; false at the end. */
static bool
next_vid(Tuplesortstate *vids, int64 *vid)
{
	Datum		value;
	bool		isnull;

	if (!tuplesort_getdatum_compat(vids, true, &value, &isnull, NULL))
		return false;
	*vid = DatumGetInt64(value);
	return true;
}

/* Report values that have their chunks in common, and chunks of no value. */
static void
check_owners(Check *check)
{
	int64		vid;
	int64		last = 0;
	int64		chunks = 0;
	bool		common = false;
	SysScanDesc scan;

	tuplesort_performsort(check->vids);
	while (next_vid(check->vids, &vid))
	{
		if (vid == last)
		{
			report_problem(check, NULL, NULL, psprintf("value " INT64_FORMAT " is in more than one place", vid));
			common = true;
		}
		last = vid;
	}
	if (!check->has_store || common)
		return;
	scan = systable_beginscan(check->store.heap, InvalidOid, false, check->snapshot, 0, NULL);
	while (systable_getnext(scan) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		chunks++;
	}
	systable_endscan(scan);
	if (chunks != check->chunks)
		report_problem(check, NULL, NULL,
					   psprintf(INT64_FORMAT " chunks belong to no value", chunks - check->chunks));
}

static void
check_table(ReturnSetInfo *rsinfo, Relation rel)
{
	Check		check = {.rsinfo = rsinfo,.rel = rel,.snapshot = GetActiveSnapshot()};

	check.has_store = ab_store_open(RelationGetRelid(rel), AccessShareLock, &check.store);
	check.vids = begin_vids();
	visit_values(rel, check.snapshot, check_value, &check);
	check_owners(&check);
	tuplesort_end(check.vids);
	if (check.has_store)
		ab_store_close(&check.store, AccessShareLock);
}

/* Add the id of a value, which must be understood, to those that are sorted. */
static void
collect_vid(void *vids, TupleTableSlot *row, AttrNumber attnum, Datum value)
{
	AbRef		ref;

	if (ab_parse_reference(value, &ref))
		tuplesort_putdatum(vids, Int64GetDatum(ref.vid), false);
}

/*
 * Delete the chunks of no value of a table, and count them, until *chunks are "max".  Raises an error, and
 * deletes nothing, if there is a value that cannot be understood.
 *
 * The caller's lock excludes DDL and other repairs, not readers and writers.  The end of a
 * value is proven by one snapshot, which is taken under that lock: a chunk that it sees
 * belongs to a transaction that has committed, and so does the row version that the
 * transaction stored with it.  If the snapshot sees no row with the value, the row has
 * ended.  No later row can refer to the value, because only an update of its row would.
 * A reader with an older snapshot may still see the row, and reads the chunk, which
 * is deleted by an xmax that is newer than the row's, so vacuum keeps it longer.
 */
void
ab_free_unowned(Oid relid, int64 max, int64 *chunks, int64 *bytes)
{
	Relation	rel = table_open(relid, NoLock);
	AbStore		store;
	Snapshot	snapshot;
	Tuplesortstate *vids;
	SysScanDesc scan;
	HeapTuple	tuple;
	int64		vid = 0;
	bool		more;

	Assert(CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true));
	if (!ab_is_appendable(rel) || !ab_store_open(relid, RowExclusiveLock, &store))
	{
		table_close(rel, NoLock);
		return;
	}
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	vids = begin_vids();
	visit_values(rel, snapshot, collect_vid, vids);
	tuplesort_performsort(vids);
	more = next_vid(vids, &vid);
	scan = systable_beginscan_ordered(store.heap, store.index, snapshot, 0, NULL);
	while (*chunks < max && (tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		AbChunk		chunk;

		CHECK_FOR_INTERRUPTS();
		/* what a damaged row belongs to is not known */
		if (!ab_chunk_parse(tuple, &chunk))
			continue;
		while (more && vid < chunk.vid)
			more = next_vid(vids, &vid);
		if (more && vid == chunk.vid)
			continue;
		ab_chunk_delete(store.heap, tuple);
		(*chunks)++;
		*bytes += chunk.length;
	}
	systable_endscan_ordered(scan);
	tuplesort_end(vids);
	UnregisterSnapshot(snapshot);
	ab_store_close(&store, NoLock);
	table_close(rel, NoLock);
}

/*
 * Have a function add rows to the result of a set-returning function for its first argument,
 * a table or the partitions of one; or, if that is NULL, for each table with chunks that the user may read.  Tables
 * are locked one after the other, and each is read with a snapshot that is taken when it is
 * locked: an older one would not match the chunks of a table that was rewritten in the
 * meantime.
 */
static void
report_tables(FunctionCallInfo fcinfo, void (*report) (ReturnSetInfo *rsinfo, Relation rel))
{
	List	   *tables = PG_ARGISNULL(0) ? ab_store_tables() : ab_tables_of(PG_GETARG_OID(0), AB_READ);
	const int	skip = AB_SKIP_MISSING | (PG_ARGISNULL(0) ? AB_SKIP_DENIED : 0);
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, tables)
	{
		Relation	rel = ab_open_checked(lfirst_oid(lc), AccessShareLock, AB_READ, skip);

		if (rel == NULL)
			continue;
		if (ab_is_appendable(rel))
		{
			PushActiveSnapshot(GetLatestSnapshot());
			report((ReturnSetInfo *) fcinfo->resultinfo, rel);
			PopActiveSnapshot();
		}
		relation_close(rel, AccessShareLock);
	}
}

/* appendable_bytea_check(regclass): a row for each value that is not as it must be. */
Datum
appendable_bytea_check(PG_FUNCTION_ARGS)
{
	report_tables(fcinfo, check_table);
	return (Datum) 0;
}

/* ---- statistics ---------------------------------------------------------- */

static int64
total_size(Oid relid)
{
	return DatumGetInt64(DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(relid)));
}

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

/* Counters of a table's values. */
typedef struct ValueCounts
{
	int64		values;
	int64		in_chunks;		/* of them */
	int64		stored;			/* bytes in chunks */
	int64		inlined;		/* bytes in rows */
} ValueCounts;

static void
count_value(void *arg, TupleTableSlot *row, AttrNumber attnum, Datum value)
{
	ValueCounts *counts = arg;
	AbValue		parsed;
	int64		inlined;

	counts->values++;
	/* how long a damaged value is, is not known */
	if (ab_parse_stored(value, &parsed) != NULL)
		return;
	inlined = ab_literal_bytes(parsed.segments, parsed.nsegments);
	counts->in_chunks += parsed.base.vid != 0;
	counts->stored += parsed.length - inlined;
	counts->inlined += inlined;
}

/* Measure the values of a table: one row of appendable_bytea_stats(). */
static void
stats_row(ReturnSetInfo *rsinfo, Relation rel)
{
	Datum		values[11];
	bool		nulls[11] = {0};
	Oid			relid = RelationGetRelid(rel);
	PgStat_StatTabEntry *counters = pgstat_fetch_stat_tabentry(relid);
	Oid			store = ab_store_find(relid);
	bool		has_store = OidIsValid(store);
	ValueCounts counts = {0};
	int64		file_size = 0;
	double		share = -1;

	visit_values(rel, GetActiveSnapshot(), count_value, &counts);
	if (has_store)
	{
		file_size = DatumGetInt64(DirectFunctionCall1(pg_table_size, ObjectIdGetDatum(store)));
		share = compressed_share(store);
	}

	values[0] = ObjectIdGetDatum(relid);
	values[1] = ObjectIdGetDatum(store);
	nulls[1] = !has_store;
	values[2] = Int64GetDatum(counts.values);
	values[3] = Int64GetDatum(counts.in_chunks);
	values[4] = Int64GetDatum(counts.stored);
	values[5] = Int64GetDatum(counts.inlined);
	values[6] = Int64GetDatum(file_size);
	values[7] = Int64GetDatum(Max(file_size - counts.stored, 0));
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
	report_tables(fcinfo, stats_row);
	return (Datum) 0;
}

/* appendable_bytea_total_size(regclass): the table with all that belongs to it. */
Datum
appendable_bytea_total_size(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Oid			store = ab_store_find(relid);

	if (get_rel_name(relid) == NULL)
		PG_RETURN_NULL();
	PG_RETURN_INT64(total_size(relid) + (OidIsValid(store) ? total_size(store) : 0));
}

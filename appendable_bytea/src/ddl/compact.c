/*-------------------------------------------------------------------------
 *
 * compact.c
 *	  appendable_compact: store values that no longer grow in full, compressed chunks.
 *	  appendable_shrink: move what is on the last pages of a table and its store.
 *
 * A row is compacted by a separate update: under the row's lock its values are written
 * again, as new values in compressed chunks (compress.c), the row version that refers to
 * them replaces the old one, and the old chunks are deleted with that version.  So
 * snapshots, standbys, prepared transactions, rollback, vacuum and logical decoding see the
 * same as after an UPDATE that replaces the value.  Unlike an UPDATE, it fires no trigger,
 * because no value changes.
 *
 * Each row is a transaction if the caller lets us commit (CALL outside of a transaction
 * block), so that an append waits for one row at most; a row that another session has locked
 * or changed is skipped.  The rows are found first, by a query for each range of pages,
 * with the caller's condition, which is checked again once we hold the row's lock: it may
 * also be about other rows.
 *
 * A value is compacted if more than an eighth of it is at its end in chunks that are plain,
 * and they are small or do compress.  So nothing is compacted twice needlessly, and growing
 * values are written over again a limited number of times.  A value in pieces is always
 * compacted, to one piece.
 *
 * appendable_shrink() compacts the values that have chunks on the store's last pages, so that these are
 * empty once vacuum has removed the old chunks.  Then it moves the rows on the table's last
 * pages (pages.c has which those are).  An update puts the new version on the same page while that has
 * room, so a row is updated until it is elsewhere; the rows of a page are moved by one
 * transaction, because its first row fills the page for the others.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "compat_executor.h"
#include "ddl/ddl.h"

PG_FUNCTION_INFO_V1(appendable_compact);
PG_FUNCTION_INFO_V1(appendable_shrink);

/* pages of a table whose rows are looked for at once */
#define PAGES_AT_ONCE	1024

/* plain chunks of a value that are tried to compress before it is left alone */
#define SAMPLED_CHUNKS	16

/* Counters of a call. */
typedef struct Compaction
{
	int64		rows;
	int64		skipped;		/* locked, changed concurrently or damaged:
								 * left to a later call */
	int64		chunks_before;
	int64		chunks_after;
	int64		bytes_before;	/* that the chunks take in the store's pages */
	int64		bytes_after;

	/* what is not a result */
	const char *condition;		/* that picks rows, or NULL */
	bool		commits;		/* after each row */
	MemoryContext context;		/* for one row */

	/* of appendable_shrink() */
	bool		shrinks;
	BlockNumber chunk_limit;	/* pages of the store that are to remain */
	int64		moved;			/* rows */
	int64		pages_before;
	int64		pages_after;	/* once vacuum has cut off the others */
} Compaction;

/*
 * Is there something to gain from compacting a value?  Looks at the plain chunks at its
 * end, and at no more of them than it takes.
 */
static bool
is_worth_compacting(const AbStore *store, const AbRef *ref, Snapshot snapshot)
{
	SysScanDesc scan;
	int64		enough = ref->stored / 8;
	int64		chunks = 0;
	int64		bytes = 0;
	int			samples = 0;
	bool		compressible = false;
	AbChunk		chunk;

	if (ref->pieces)
		return true;
	scan = ab_chunk_scan(store, snapshot, ref->vid, 0, ref->stored);
	while (bytes <= enough && ab_chunk_next(scan, BackwardScanDirection, &chunk))
	{
		if (chunk.problem || chunk.compressed)
			break;
		chunks++;
		bytes += chunk.length;
		if (!compressible && samples++ < SAMPLED_CHUNKS)
			compressible = ab_compressible(chunk.data, Min(chunk.length, ab_chunk_size));
	}
	systable_endscan_ordered(scan);
	return bytes > enough &&
		(compressible || chunks > 2 + bytes / ab_chunk_size + bytes / ab_chunk_size / 4);
}

/* Put a row version in the place of another, with entries in indexes if they need any; sets tuple->t_self. */
static void
replace_row(Relation rel, ItemPointer tid, HeapTuple tuple, Snapshot snapshot)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
	TM_FailureData failure;
	LockTupleMode mode;
	TU_UpdateIndexes_compat indexes;
	TM_Result	result;

	ExecStoreHeapTuple(tuple, slot, false);

	/* heap's own routine: the chunks of the new values are written already */
	result = GetHeapamTableAmRoutine()->tuple_update(rel, tid, slot, GetCurrentCommandId(true),
													 SINCE_19_compat(0,) snapshot,
													 InvalidSnapshot, true, &failure, &mode,
													 &indexes);
	if (result != TM_Ok)
		elog(ERROR, "row (%u,%u) of table \"%s\" cannot be updated while it is locked",
			 ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
			 RelationGetRelationName(rel));

	tuple->t_self = slot->tts_tid;

	/* indexes that sum up pages know these values already */
	if (indexes == TU_All_compat)
	{
		EState	   *estate = CreateExecutorState();
		ResultRelInfo *target = makeNode(ResultRelInfo);
		int			nesting = NewGUCNestLevel();
		Oid			user;
		int			security;

		/* expressions are the owner's */
		ab_become_owner(rel, &user, &security);
		InitResultRelInfo(target, rel, 0, NULL, 0);
		ExecOpenIndices(target, false);
		ExecInsertIndexTuples_compat(target, slot, estate);
		ExecCloseIndices(target);
		FreeExecutorState(estate);
		AtEOXact_GUC(false, nesting);
		SetUserIdAndSecContext(user, security);
	}
	ExecDropSingleTupleTableSlot(slot);
}

/* Compact the values of a row version that is locked; wanted: which of its columns. */
static void
compact_row(Compaction *done, Relation rel, AbStore *store, TupleTableSlot *slot,
			const bool *wanted, Snapshot snapshot)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum	   *values = palloc0(desc->natts * sizeof(Datum));
	bool	   *nulls = palloc0(desc->natts * sizeof(bool));
	AbRef	   *before = palloc(desc->natts * sizeof(AbRef));
	AbRef	   *after = palloc(desc->natts * sizeof(AbRef));
	AbReader   *reader;
	ItemPointerData tid = slot->tts_tid;
	HeapTuple	old = ExecFetchSlotHeapTuple(slot, false, NULL);

	for (int i = 0; i < desc->natts; i++)
	{
		bool		isnull;
		Datum		value;

		if (!wanted[i])
			continue;
		value = heap_getattr(old, i + 1, desc, &isnull);
		(void) ab_parse_reference(value, &before[i]);
		reader = ab_reader_open(value);
		after[i].counted = ab_counts_characters(TupleDescAttr(desc, i)->atttypid);
		ab_write_compressed(RelationGetRelid(rel), reader, false, &after[i]);
		ab_reader_close(reader);
		values[i] = ab_make_stored(&after[i], NULL, 0, NULL, 0, 0);
	}
	replace_row(rel, &tid, heap_modify_tuple(old, desc, values, nulls, (bool *) wanted), snapshot);
	for (int i = 0; i < desc->natts; i++)
	{
		if (!wanted[i])
			continue;
		ab_chunks_count(store, before[i].vid, snapshot, &done->chunks_before, &done->bytes_before);
		ab_chunks_count(store, after[i].vid, SnapshotSelf, &done->chunks_after, &done->bytes_after);
		ab_chunks_delete(RelationGetRelid(rel), before[i].vid);
	}
	done->rows++;
}

/* Which columns of a row are to be compacted?  False if none is, or if one is damaged. */
static bool
find_wanted(Compaction *done, Relation rel, AbStore *store, TupleTableSlot *slot,
			Snapshot snapshot, bool *wanted)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		any = false;

	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		AbValue		parsed;
		const AbRef *ref = &parsed.base;
		bool		isnull;
		Datum		value = slot_getattr(slot, n, &isnull);

		if (isnull)
			continue;
		if (ab_parse_stored(value, &parsed) != NULL)
		{
			done->skipped++;
			return false;
		}
		if (ref->vid != 0 && ref->relid == RelationGetRelid(rel) &&
			(done->shrinks ? ab_chunks_beyond(store, ref->vid, done->chunk_limit) :
			 is_worth_compacting(store, ref, snapshot)))
			any = wanted[n - 1] = true;
	}
	return any;
}

/*
 * The rows that the caller's condition names, of those from one place in the table up to
 * another; *count of them.
 */
static ItemPointerData *
find_rows(Relation rel, BlockNumber from, OffsetNumber from_offset,
		  BlockNumber before, OffsetNumber before_offset, const char *condition, uint64 *count)
{
	StringInfoData query;
	ItemPointerData *rows;
	ItemPointerData first;
	ItemPointerData end;
	bool		valid;

	ItemPointerSet(&first, from, from_offset);
	ItemPointerSet(&end, before, before_offset);
	initStringInfo(&query);
	appendStringInfo(&query,
					 "SELECT ctid FROM ONLY %s WHERE ctid OPERATOR(pg_catalog.>=) '(%u,%u)'::pg_catalog.tid"
					 " AND ctid OPERATOR(pg_catalog.<) '(%u,%u)'::pg_catalog.tid",
					 ab_qualified_name(rel), from, from_offset, before, before_offset);
	if (condition)
		appendStringInfo(&query, " AND (%s)", condition);
	if (SPI_execute(query.data, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not find the rows of table \"%s\"", RelationGetRelationName(rel));
	*count = SPI_processed;
	rows = palloc(Max(*count, 1) * sizeof(ItemPointerData));

	/*
	 * a condition that is not an expression can give other columns, rows
	 * without a ctid, or those of other places
	 */
	valid = SPI_tuptable->tupdesc->natts == 1 && SPI_gettypeid(SPI_tuptable->tupdesc, 1) == TIDOID;
	for (uint64 i = 0; valid && i < *count; i++)
	{
		bool		isnull;
		Datum		tid = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);

		valid = !isnull && ItemPointerCompare((ItemPointer) DatumGetPointer(tid), &first) >= 0 &&
			ItemPointerCompare((ItemPointer) DatumGetPointer(tid), &end) < 0;
		if (valid)
			rows[i] = *(ItemPointer) DatumGetPointer(tid);
	}
	if (!valid)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("condition must be a single expression"),
				 errhint("Specify an expression that is valid in a WHERE clause.")));
	SPI_freetuptable(SPI_tuptable);
	pfree(query.data);
	return rows;
}

/* Does the condition, if there is one, still name a row version that is locked? */
static bool
still_named(Relation rel, ItemPointer tid, const char *condition)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);
	uint64		count;

	if (condition == NULL)
		return true;
	pfree(find_rows(rel, block, offset, block, offset + 1, condition, &count));
	return count > 0;
}

/* Did a row end with a version that was seen before and is not seen any more? */
static bool
row_ended(Relation rel, ItemPointer tid)
{
	HeapTupleData tuple;
	Buffer		buffer;
	bool		ended = false;

	tuple.t_self = *tid;
	if (heap_fetch(rel, SnapshotAny, &tuple, &buffer, true))
	{
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		ended = HeapTupleHeaderIndicatesMovedPartitions(tuple.t_data) ||
			ItemPointerEquals(&tuple.t_self, &tuple.t_data->t_ctid);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	return ended;
}

/* Lock a row version, unless another session uses it or the condition names it no more. */
static bool
lock_row(Compaction *done, Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	TM_FailureData failure;
	TM_Result	result;

	CheckCmdReplicaIdentity(rel, CMD_UPDATE);
	result = table_tuple_lock(rel, tid, snapshot, slot, GetCurrentCommandId(true),
							  LockTupleNoKeyExclusive, LockWaitSkip, 0, &failure);
	if (result != TM_Ok)
	{
		done->skipped += result != TM_Deleted;
		return false;
	}
	return still_named(rel, tid, done->condition);
}

/* Compact a row version if that is worth it and no other session uses it. */
static void
visit_row(Compaction *done, Relation rel, ItemPointer tid)
{
	Snapshot	snapshot = GetActiveSnapshot();
	TupleTableSlot *slot;
	bool	   *wanted;
	AbStore		store;

	/* vacuum has cut the table, and nothing was there */
	if (ItemPointerGetBlockNumber(tid) >= RelationGetNumberOfBlocks(rel))
		return;
	slot = table_slot_create(rel, NULL);
	wanted = palloc0(RelationGetDescr(rel)->natts * sizeof(bool));
	if (!table_tuple_fetch_row_version(rel, tid, snapshot, slot))
		done->skipped += !row_ended(rel, tid);
	else if (ab_store_open(RelationGetRelid(rel), RowExclusiveLock, &store))
	{
		if (find_wanted(done, rel, &store, slot, snapshot, wanted) &&
			lock_row(done, rel, tid, snapshot, slot))
			compact_row(done, rel, &store, slot, wanted, snapshot);
		ab_store_close(&store, NoLock);
	}
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * Update a row version until it is on another page, if no other session uses it.  Each
 * update is a separate command, because a command does not update the versions that it creates.  Returns
 * false if that page is none of those that are to remain: they are full.
 */
static bool
move_row(Compaction *done, Relation rel, ItemPointer tid, BlockNumber limit)
{
	Snapshot	snapshot = GetActiveSnapshot();
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	bool		has_room = true;

	if (!table_tuple_fetch_row_version(rel, tid, snapshot, slot))
		done->skipped += !row_ended(rel, tid);
	else if (lock_row(done, rel, tid, snapshot, slot))
	{
		HeapTuple	tuple = ExecCopySlotHeapTuple(slot);
		ItemPointerData from = *tid;

		for (int i = 0; i < MaxHeapTuplesPerPage; i++)
		{
			replace_row(rel, &from, tuple, snapshot);
			CommandCounterIncrement();
			from = tuple->t_self;
			if (ItemPointerGetBlockNumber(&from) != ItemPointerGetBlockNumber(tid))
				break;
		}
		has_room = ItemPointerGetBlockNumber(&from) < limit;
		done->moved += has_room;
	}
	ExecDropSingleTupleTableSlot(slot);
	return has_room;
}

/* Begin what one transaction does, or a part of it where we may not commit. */
static Relation
begin_step(Compaction *done, Oid relid)
{
	Relation	rel = ab_open_checked(relid, RowExclusiveLock, AB_MAINTAIN, AB_SKIP_MISSING);

	if (rel == NULL)
		return NULL;

	/*
	 * deferred checks of constraints take a row version that was replaced for
	 * one looked at since
	 */
	if (AfterTriggerPendingOnRel(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot compact table \"%s\" because it has pending trigger events",
						RelationGetRelationName(rel)),
				 errhint("Compact it outside of this transaction, or after SET CONSTRAINTS ALL IMMEDIATE.")));
	if (done->commits)
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
	PushActiveSnapshot(GetTransactionSnapshot());
	return rel;
}

static void
end_step(Compaction *done, Relation rel)
{
	if (rel)
	{
		PopActiveSnapshot();
		table_close(rel, NoLock);
	}
	if (done->commits)
		SPI_commit();
	else
		CommandCounterIncrement();
}

/* Compact the rows of one table. */
static void
compact_table(Compaction *done, Oid relid)
{
	BlockNumber nblocks = 1;

	for (BlockNumber from = 0; from < nblocks; from += PAGES_AT_ONCE)
	{
		Relation	rel = begin_step(done, relid);
		ItemPointerData *rows = NULL;
		uint64		count = 0;

		if (rel && from == 0)
			nblocks = ab_is_appendable(rel) ? RelationGetNumberOfBlocks(rel) : 0;
		if (rel && from < nblocks)
			rows = find_rows(rel, from, 0, from + PAGES_AT_ONCE, 0, done->condition, &count);
		end_step(done, rel);
		if (rel == NULL)
			return;
		for (uint64 i = 0; i < count; i++)
		{
			MemoryContext oldcontext = MemoryContextSwitchTo(done->context);

			rel = begin_step(done, relid);
			if (rel && ab_is_appendable(rel))
				visit_row(done, rel, &rows[i]);
			MemoryContextSwitchTo(oldcontext);
			end_step(done, rel);
			MemoryContextReset(done->context);
			CHECK_FOR_INTERRUPTS();
		}
		if (rows)
			pfree(rows);
		if (nblocks - from <= PAGES_AT_ONCE)
			break;
	}
}

/*
 * Decide what is to remain of a table and its store, and compact and move the rest.
 */
static void
shrink_table(Compaction *done, Oid relid)
{
	Relation	rel = begin_step(done, relid);
	BlockNumber limit = 0;
	BlockNumber nblocks = 0;
	bool		has_room = true;
	AbStore		store;

	if (rel && ab_is_appendable(rel))
	{
		CheckCmdReplicaIdentity(rel, CMD_UPDATE);
		nblocks = RelationGetNumberOfBlocks(rel);
		limit = ab_pages_needed(rel, rel->rd_rel->reltuples);
		ab_pages_close(rel, limit);
		done->pages_before += nblocks;
		done->pages_after += limit;
		done->chunk_limit = MaxBlockNumber;
		if (ab_store_open(relid, RowExclusiveLock, &store))
		{
			done->chunk_limit = ab_pages_needed(store.heap, rel->rd_rel->reltuples);
			ab_pages_close(store.heap, done->chunk_limit);
			done->pages_before += RelationGetNumberOfBlocks(store.heap);
			done->pages_after += done->chunk_limit;
			ab_store_close(&store, NoLock);
		}
	}
	end_step(done, rel);
	compact_table(done, relid);
	for (BlockNumber block = nblocks; has_room && block-- > limit;)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(done->context);

		rel = begin_step(done, relid);
		if (rel && ab_is_appendable(rel) && block < RelationGetNumberOfBlocks(rel))
		{
			uint64		count;
			ItemPointerData *rows = find_rows(rel, block, 0, block + 1, 0, done->condition, &count);

			for (uint64 i = 0; has_room && i < count; i++)
				has_room = move_row(done, rel, &rows[i], limit);
		}
		MemoryContextSwitchTo(oldcontext);
		end_step(done, rel);
		MemoryContextReset(done->context);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Call "process" for the table or its partitions, as a procedure's arguments say; returns the
 * procedure's row, of "results" in their order.
 */
static Datum
process_tables(FunctionCallInfo fcinfo, Compaction *done, const char *name,
			   void (*process) (Compaction *, Oid), int64 *const results[], int nresults)
{
	Datum	   *values = palloc(nresults * sizeof(Datum));
	List	   *tables;
	ListCell   *lc;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table must not be null")));
	PreventCommandDuringRecovery(name);
	PreventCommandIfReadOnly(name);
	PreventCommandIfParallelMode(name);
	done->commits = fcinfo->context && IsA(fcinfo->context, CallContext) &&
		!castNode(CallContext, fcinfo->context)->atomic;
	if (SPI_connect_ext(done->commits ? SPI_OPT_NONATOMIC : 0) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");

	/* in memory that stays until the end */
	if (!PG_ARGISNULL(1))
		done->condition = text_to_cstring(PG_GETARG_TEXT_PP(1));
	tables = ab_tables_of(PG_GETARG_OID(0), AB_MAINTAIN);
	done->context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea compaction",
										  ALLOCSET_DEFAULT_SIZES);
	if (done->commits)
		SPI_commit();
	foreach(lc, tables)
		process(done, lfirst_oid(lc));
	SPI_finish();

	for (int i = 0; i < nresults; i++)
		values[i] = Int64GetDatum(*results[i]);
	return ab_make_row(fcinfo, values);
}

/* appendable_compact(regclass, text): see the SQL script for the results. */
Datum
appendable_compact(PG_FUNCTION_ARGS)
{
	Compaction	done = {0};
	int64	   *const results[] = {&done.rows, &done.skipped, &done.chunks_before,
	&done.chunks_after, &done.bytes_before, &done.bytes_after};

	PG_RETURN_DATUM(process_tables(fcinfo, &done, "appendable_compact()", compact_table,
								   results, lengthof(results)));
}

/* appendable_shrink(regclass, text): see the SQL script for the results. */
Datum
appendable_shrink(PG_FUNCTION_ARGS)
{
	Compaction	done = {.shrinks = true};
	int64	   *const results[] = {&done.rows, &done.moved, &done.skipped,
	&done.pages_before, &done.pages_after};

	PG_RETURN_DATUM(process_tables(fcinfo, &done, "appendable_shrink()", shrink_table,
								   results, lengthof(results)));
}

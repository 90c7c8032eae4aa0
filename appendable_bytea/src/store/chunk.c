/*-------------------------------------------------------------------------
 *
 * chunk.c
 *	  Rows of a chunk store: taking one apart, finding and deleting a value's.
 *
 * Chunks live and die like an out-of-line value of the server.  They are inserted
 * and deleted by the transactions that insert and delete the row version that refers
 * to them, and ordinary vacuum removes them.  Which of them count for a reader is
 * decided in chunk_cursor.c.
 *
 * A chunk's crc covers its predecessor's, its own key and its data as they are stored, so
 * one chunk can be verified alone, and a run of them as a chain.
 *
 * Data are stored plainly, or compressed in the server's format, which the length word
 * shows: then a chunk holds up to eight pages of its value (compress.c).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "store/store.h"

/*
 * A value id is a transaction id and a counter in 63 bits.  Ids of transactions below
 * 2^38, which a server needs years to reach, begin with a zero bit and leave 24 bits to
 * count with; all others begin with a one, 48 bits and 14 to count with.
 */
#define SHORT_XID_BITS	38
#define LONG_XID_BITS	48
#define VID_BITS		63

/* Check and parse a row of a store; data points into it.  Returns the fault, or NULL. */
static const char *
parse_row(HeapTuple tuple, AbChunk *chunk)
{
	HeapTupleHeader header = tuple->t_data;
	AbChunkRow *row = (AbChunkRow *) ((char *) header + header->t_hoff);
	int			most = AB_CHUNK_MAX;

	/* no nulls and no further columns: then every field has a fixed place */
	if (HeapTupleHasNulls(tuple) || HeapTupleHeaderGetNatts(header) != AB_CHUNK_NATTS)
		return "a null, or a column too many or too few";
	if (tuple->t_len < header->t_hoff + offsetof(AbChunkRow, data) ||
		!(VARATT_IS_4B_U(row->length_word) || VARATT_IS_4B_C(row->length_word)) ||
		VARSIZE_4B(row->length_word) < VARHDRSZ ||
		VARSIZE_4B(row->length_word) > tuple->t_len - header->t_hoff - offsetof(AbChunkRow, length_word))
		return "data that are not stored in the row";
	chunk->vid = row->vid;
	chunk->off = row->off;
	chunk->prev = row->prev;
	chunk->crc = row->crc;
	chunk->stored = row->data;
	chunk->stored_length = (int) VARSIZE_4B(row->length_word) - VARHDRSZ;
	chunk->compressed = VARATT_IS_4B_C(row->length_word);
	if (chunk->compressed)
	{
		if (chunk->stored_length <= (int) (VARHDRSZ_COMPRESSED - VARHDRSZ))
			return "data that are compressed to nothing";
		most = AB_COMPRESSED_MAX;
		chunk->length = (int) VARDATA_COMPRESSED_GET_EXTSIZE(row->length_word);
		chunk->data = NULL;
	}
	else
	{
		chunk->length = chunk->stored_length;
		chunk->data = chunk->stored;
	}
	if (chunk->vid <= 0 || chunk->off < 0 || chunk->length <= 0 ||
		chunk->length > most || chunk->off > AB_MAX_LENGTH)
		return "an impossible position";
	return NULL;
}

/* Take a row of a store apart; false, and chunk->problem, if it is not as it must be. */
bool
ab_chunk_parse(HeapTuple tuple, AbChunk *chunk)
{
	chunk->problem = parse_row(tuple, chunk);
	return chunk->problem == NULL;
}

/* The checksum that a chunk must have. */
uint32
ab_chunk_crc(const AbChunk *chunk)
{
	pg_crc32c	crc = chunk->prev;

	COMP_CRC32C(crc, &chunk->vid, sizeof(chunk->vid));
	COMP_CRC32C(crc, &chunk->off, sizeof(chunk->off));
	/* so that neither form of the data can pass for the other */
	if (chunk->compressed)
		COMP_CRC32C(crc, "compressed", 10);
	COMP_CRC32C(crc, chunk->stored, chunk->stored_length);
	return crc;
}

/* The bits that count the values of a transaction. */
static int
counter_bits(uint64 xid)
{
	return VID_BITS - 1 - (xid >> SHORT_XID_BITS ? LONG_XID_BITS : SHORT_XID_BITS);
}

/*
 * A full transaction id that no other session has and this transaction does not use yet:
 * that of a subtransaction that does nothing.
 */
static uint64
unused_xid(int most)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	uint64		xid;

	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot store more than %d appendable values during a parallel operation",
						most),
				 errhint("Set max_parallel_workers_per_gather to 0 for this command.")));
	BeginInternalSubTransaction(NULL);
	xid = U64FromFullTransactionId(GetCurrentFullTransactionId());
	ReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return xid;
}

/*
 * A value id that no other value of this cluster ever had or will have: the full id
 * of the transaction, or another one that it takes for this when it has stored more
 * values than can be counted, and a counter.
 */
int64
ab_new_vid(void)
{
	static uint64 transaction = 0;
	static uint64 xid = 0;
	static uint32 counter = 0;
	uint64		now = U64FromFullTransactionId(GetTopFullTransactionId());
	int			most;
	int64		vid;

	if (now != transaction)
	{
		transaction = xid = now;
		counter = 0;
	}
	most = (1 << counter_bits(xid)) - 1;
	if (counter == most)
	{
		xid = unused_xid(most);
		counter = 0;
	}
	if (xid >> LONG_XID_BITS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("transaction ID is too large for an appendable value")));
	vid = (int64) (xid << counter_bits(xid)) | ++counter;
	if (xid >> SHORT_XID_BITS)
		vid |= INT64CONST(1) << (VID_BITS - 1);
	return vid;
}

/* Scan the chunks of a value with from <= off < before, in order of offset. */
SysScanDesc
ab_chunk_scan(const AbStore *store, Snapshot snapshot, int64 vid, int64 from, int64 before)
{
	ScanKeyData key[3];

	ScanKeyInit(&key[0], AB_CHUNK_VID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(vid));
	ScanKeyInit(&key[1], AB_CHUNK_OFF, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	ScanKeyInit(&key[2], AB_CHUNK_OFF, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(before));
	return systable_beginscan_ordered(store->heap, store->index, snapshot, 3, key);
}

/* The state of the row at which a scan is positioned, as vacuum sees it; sets hint bits. */
static HTSV_Result
chunk_vacuum_state(SysScanDesc scan, TransactionId *dead_after)
{
	BufferHeapTupleTableSlot *slot = (BufferHeapTupleTableSlot *) scan->slot;
	HTSV_Result state;

	LockBuffer(slot->buffer, BUFFER_LOCK_SHARE);
	state = HeapTupleSatisfiesVacuumHorizon(slot->base.tuple, slot->buffer, dead_after);
	LockBuffer(slot->buffer, BUFFER_LOCK_UNLOCK);
	return state;
}

/*
 * Is the chunk at which a scan is positioned settled: inserted by a transaction that
 * has committed, or by our own (and not by a subtransaction that was rolled back)?
 */
bool
ab_chunk_is_settled(SysScanDesc scan)
{
	HeapTupleHeader tuple = ((BufferHeapTupleTableSlot *) scan->slot)->base.tuple->t_data;
	TransactionId dead_after;
	HTSV_Result state;

	if (HeapTupleHeaderXminCommitted(tuple) ||
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple)))
		return true;
	state = chunk_vacuum_state(scan, &dead_after);
	return state == HEAPTUPLE_LIVE || state == HEAPTUPLE_RECENTLY_DEAD || state == HEAPTUPLE_DELETE_IN_PROGRESS;
}

/*
 * Does the chunk match the scan's keys?  On a standby the place that an index entry
 * names can contain another chunk by the time that it is read: replay removes dead
 * entries and reuses their rows under a scan that has no MVCC snapshot.
 */
static bool
is_in_scan(SysScanDesc scan, const AbChunk *chunk)
{
	ScanKey		key = scan->iscan->keyData; /* those of ab_chunk_scan() */

	return chunk->vid == DatumGetInt64(key[0].sk_argument) &&
		chunk->off >= DatumGetInt64(key[1].sk_argument) &&
		chunk->off < DatumGetInt64(key[2].sk_argument);
}

/*
 * The next chunk of a scan, which may have a problem; false at the end.  The scan's
 * snapshot decides: with SnapshotAny, this returns every chunk that exists.
 */
bool
ab_chunk_next(SysScanDesc scan, ScanDirection direction, AbChunk *chunk)
{
	HeapTuple	tuple;

	while ((tuple = systable_getnext_ordered(scan, direction)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();

		/*
		 * a chunk is never updated: no other version of it is to be looked
		 * for
		 */
		scan->iscan->xs_heap_continue = false;
		if (!ab_chunk_parse(tuple, chunk) || is_in_scan(scan, chunk))
			return true;
	}
	return false;
}

/*
 * Add the number of chunks of a value that a snapshot sees to *chunks, and the bytes that
 * they take in pages to *bytes if that is not NULL.
 */
void
ab_chunks_count(const AbStore *store, int64 vid, Snapshot snapshot, int64 *chunks, int64 *bytes)
{
	SysScanDesc scan = ab_chunk_scan(store, snapshot, vid, 0, PG_INT64_MAX);
	AbChunk		chunk;

	while (ab_chunk_next(scan, ForwardScanDirection, &chunk))
	{
		(*chunks)++;
		if (bytes && !chunk.problem)
			*bytes += MAXALIGN(AB_CHUNK_ROW_HEADER + offsetof(AbChunkRow, data) + chunk.stored_length) +
				sizeof(ItemIdData);
	}
	systable_endscan_ordered(scan);
}

/*
 * Set the mark that a store has as a user catalog table, by which vacuum and pruning
 * leave what a slot has not read; returns what it was.
 *
 * While a row is inserted or deleted, neither of which prunes, it is off.  With it the
 * server would log the row's command ids, and decoding would take the transaction for one
 * that changes a catalog: it makes a snapshot after each of those and hands it to all that
 * are in progress.  Chunks are read without a snapshot (chunk_cursor.c), and what keeps them is
 * the slot's catalog_xmin, which is no newer than any transaction that is still to be
 * decoded, whatever that changed.  No other session can see the mark of this session's relcache
 * entry, or change the option: that takes a lock that conflicts with a writer's.
 */
static pg_noinline bool
set_catalog_mark(Relation heap, bool mark)
{
	bool		before = RelationIsUsedAsCatalogTable(heap);

	if (before != mark && heap->rd_options)
		((StdRdOptions *) heap->rd_options)->user_catalog_table = mark;
	return before;
}

/* Insert a row of a store; sets tuple->t_self.  bulk: as for heap_insert(). */
void
ab_chunk_insert(Relation heap, HeapTuple tuple, CommandId cid, BulkInsertState bulk)
{
	const bool	mark = set_catalog_mark(heap, false);

	PG_TRY();
	{
		/*
		 * Logical decoding reads chunks where values refer to them; they must
		 * not be sent as separate changes, for example by a publication of
		 * all tables
		 */
		heap_insert(heap, tuple, cid, HEAP_INSERT_NO_LOGICAL, bulk);
	}
	PG_FINALLY();
	{
		set_catalog_mark(heap, mark);
	}
	PG_END_TRY();
}

/*
 * Delete one chunk that is visible to SnapshotSelf.  No other session can be about to,
 * because the caller holds the row that it belongs to, or a lock that excludes all others.
 */
void
ab_chunk_delete(Relation heap, HeapTuple tuple)
{
	CommandId	cid = GetCurrentCommandId(true);
	bool		mark;
	TM_FailureData failure;
	volatile TM_Result result = TM_Ok;

	/* what this very command inserted can only be deleted by a later one */
	if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)) &&
		HeapTupleHeaderGetCmin(tuple->t_data) >= cid)
		cid = HeapTupleHeaderGetCmin(tuple->t_data) + 1;
	mark = set_catalog_mark(heap, false);
	PG_TRY();
	{
		result = table_tuple_delete_compat(heap, &tuple->t_self, cid, InvalidSnapshot,
										   InvalidSnapshot, true, &failure);
	}
	PG_FINALLY();
	{
		set_catalog_mark(heap, mark);
	}
	PG_END_TRY();
	if (result != TM_Ok)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("chunk (%u,%u) in \"%s\" was changed concurrently",
						ItemPointerGetBlockNumber(&tuple->t_self),
						ItemPointerGetOffsetNumber(&tuple->t_self),
						RelationGetRelationName(heap))));
}

/* Delete the chunks of a value, in the transaction that deletes or replaces the row version that refers to them. */
void
ab_chunks_delete(Oid relid, int64 vid)
{
	AbStore		store;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!ab_store_open(relid, RowExclusiveLock, &store))
		return;
	scan = ab_chunk_scan(&store, SnapshotSelf, vid, 0, PG_INT64_MAX);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		/* a damaged row goes with its value */
		ab_chunk_delete(store.heap, tuple);
	}
	systable_endscan_ordered(scan);
	ab_store_close(&store, NoLock);
}

/* Delete all chunks of a store, whose table is being emptied. */
void
ab_chunks_delete_all(Relation heap)
{
	SysScanDesc scan = systable_beginscan(heap, InvalidOid, false, SnapshotSelf, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		ab_chunk_delete(heap, tuple);
	}
	systable_endscan(scan);
}

/*-------------------------------------------------------------------------
 *
 * chunk_cursor.c
 *	  Find the chunk that covers a byte of a reference.
 *
 * Reading, comparing and checking a value all use a chunk cursor.  Of the chunks that
 * count for the reference (chunk_counts() is the visibility rule) only one covers the
 * byte.  Consecutive requests continue one
 * index scan.  Otherwise a slice takes three descents of the index: for the chunk at the
 * reference's end, for the one at its start, and for those that follow it.
 *
 * Invariant: The result is the bytes that were written, or "no chunk", or an
 * error, but never other bytes.  The chunk at the reference's end must be the
 * one that was written with the reference, and every chunk must match its crc.  A caller that uses part
 * of a value has the end verified first; one that uses nothing before it has
 * requested the last chunk gets the end verified last, which saves a descent.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "store/store.h"

/*
 * The last reference whose end was verified and settled, in this subtransaction or an outer
 * one.  A statement with three slices takes 237,000 instructions instead of 263,000.
 */
static AbRef verified;

static void
forget_verified_subxact(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		verified.vid = 0;
}

static void
forget_verified_xact(XactEvent event, void *arg)
{
	verified.vid = 0;
}

/* Forget what was verified at the end of a transaction, or of a failed subtransaction. */
void
ab_chunk_cursor_install(void)
{
	RegisterXactCallback(forget_verified_xact, NULL);
	RegisterSubXactCallback(forget_verified_subxact, NULL);
}

/*
 * Open the store of a reference.  As in core's get_toast_snapshot(), a snapshot
 * must be held: it is what keeps vacuum from removing chunks while we read.
 */
static void
open_reference(AbChunkCursor *cursor, const AbRef *ref)
{
	if (!HaveRegisteredOrActiveSnapshot() && !HistoricSnapshotActive())
		elog(ERROR, "cannot read an appendable value without an active snapshot");
	if (!ab_store_open(ref->relid, AccessShareLock, &cursor->store))
	{
		const char *name = get_rel_name(ref->relid);

		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("missing chunk store of an %s value", ab_value_type_name(ref->relid)),
				 name ? errdetail("Table \"%s\" has no chunk store.", name) :
				 errdetail("The value refers to table %u, which no longer exists in this database or has no chunks.",
						   ref->relid)));
	}
	cursor->ref = *ref;
}

/* Forget the chunk that was found last, and end the scan. */
void
ab_chunk_cursor_rewind(AbChunkCursor *cursor)
{
	if (cursor->scan)
		systable_endscan_ordered(cursor->scan);
	cursor->scan = NULL;
	cursor->chunk.length = 0;
	if (cursor->decompressed)
		pfree(cursor->decompressed);
	cursor->decompressed = NULL;
}

/* Is a damaged chunk an answer, instead of an error? */
static bool
reports_damage(const AbChunkCursor *cursor)
{
	return cursor->mode == AB_READ_COMPARE || cursor->mode == AB_READ_TRY;
}

/* Raise an error for a damaged chunk, or record the problem and return false. */
static bool
refuse_chunk(AbChunkCursor *cursor, const AbChunk *chunk)
{
	if (reports_damage(cursor) && chunk->problem)
		cursor->problem = psprintf("the chunk after byte %lld has %s",
								   (long long) cursor->scan_at, chunk->problem);
	else if (reports_damage(cursor))
		cursor->problem = psprintf("the chunk at offset %lld is damaged", (long long) chunk->off);
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged chunk of an %s value in table \"%s\"",
						ab_value_type_name(cursor->ref.relid), get_rel_name(cursor->ref.relid)),
				 chunk->problem ?
				 errdetail("A chunk of value " UINT64_FORMAT " after byte %lld has %s.",
						   (uint64) cursor->ref.vid, (long long) cursor->scan_at, chunk->problem) :
				 errdetail("The chunk at offset %lld of value " UINT64_FORMAT " does not match its checksum.",
						   (long long) chunk->off, (uint64) chunk->vid),
				 errhint("appendable_bytea_check() reports the row of each damaged value.")));
	return false;
}

/*
 * Scan the reference's value from one offset to another.  Once another transaction has
 * written at the place of a chunk whose transaction failed, the entry of that chunk is
 * marked as dead by the index's check for duplicates.
 */
static SysScanDesc
begin_cursor_scan(AbChunkCursor *cursor, int64 from, int64 before)
{
	SysScanDesc scan = ab_chunk_scan(&cursor->store, cursor->snapshot, cursor->ref.vid,
									 Max(from, 0), before);

	if (cursor->traced)
		scan->iscan->ignore_killed_tuples = false;
	return scan;
}

/* Release the scan, the store and the memory. */
void
ab_chunk_cursor_close(AbChunkCursor *cursor)
{
	ab_chunk_cursor_rewind(cursor);
	if (cursor->writes)
		pfree(cursor->writes);
	if (cursor->store.heap)
		ab_store_close(&cursor->store, AccessShareLock);
}

/* Order the unsettled chunks as they are found: backwards. */
static int
compare_places(const void *a, const void *b)
{
	const AbChunkPlace *x = a;
	const AbChunkPlace *y = b;

	return x->off > y->off ? -1 : x->off < y->off;
}

/*
 * Does the chunk at which a scan is positioned count for the cursor's reference?
 *
 * This is the visibility rule; HeapTupleSatisfiesToast() is core's.  As there, no
 * snapshot decides.  A process that has a reference has seen the row version that
 * contains it: by some snapshot, or as a row in progress, as SnapshotDirty and
 * index builds do.  Chunks are written before their row, so they exist; and they
 * are read although their transaction has failed in the meantime, or has deleted
 * them, until vacuum removes them.
 *
 * Core gives each TOAST value its own ID.  Here several transactions may have
 * written at one place of a value, of which all except one have failed.  Call a chunk
 * settled if its inserting transaction has committed or is our own.  Writers hold
 * the row lock and continue only what the row version refers to (invariant I2 in
 * storing.c), so there is at most one settled chunk for a place, and
 * whatever precedes a settled chunk in the order of writing is settled as well.
 * Hence:
 *
 * 1. If the chunk at the reference's end is settled, the reference consists of
 * settled chunks, and no others count.
 *
 * 2. Otherwise another transaction wrote the end, and is in progress or has failed.
 * The chunks that the crc chain leads to count, whatever became of their
 * transactions, and before them the settled chunks of the value that they continue:
 * trace_unsettled_writes() finds both.
 *
 * A check reads by its own MVCC snapshot instead: see check.c.
 */
static bool
chunk_counts(const AbChunkCursor *cursor, SysScanDesc scan, const AbChunk *chunk)
{
	if (cursor->snapshot != SnapshotAny)
		return true;
	if (cursor->traced && !chunk->problem)
	{
		AbChunkPlace place = {.off = chunk->off};
		AbChunkPlace *written = NULL;

		if (cursor->nwrites > 0)
			written = bsearch(&place, cursor->writes, cursor->nwrites, sizeof(AbChunkPlace), compare_places);
		if (written)
			return written->crc == chunk->crc;
		if (chunk->off >= cursor->settled_end)
			return false;
	}
	return ab_chunk_is_settled(scan);
}

/*
 * Follow the crc chain back from the reference's end, to the first chunk that is
 * settled or to the value's start.  Records the unsettled chunks in cursor->writes,
 * and where the settled part ends.  Returns false if the chain is broken.
 *
 * Writes have ascending offsets, so that a backward scan finds them one after the other.
 */
static bool
trace_unsettled_writes(AbChunkCursor *cursor)
{
	const AbRef *ref = &cursor->ref;
	uint32		crc = ref->crc;
	int			allocated = 0;
	bool		complete = false;
	SysScanDesc scan;
	AbChunk		chunk;

	Assert(!cursor->traced && cursor->snapshot == SnapshotAny);
	cursor->traced = true;
	cursor->settled_end = 0;
	scan = begin_cursor_scan(cursor, 0, ref->stored);
	while (!complete && ab_chunk_next(scan, BackwardScanDirection, &chunk))
	{
		if (chunk.problem || chunk.crc != crc ||
			(cursor->nwrites == 0 && chunk.off + chunk.length != ref->stored))
			continue;
		if (ab_chunk_is_settled(scan))
		{
			cursor->settled_end = chunk.off + chunk.length;
			complete = true;
			break;
		}
		if (cursor->nwrites == allocated)
		{
			allocated = Max(2 * allocated, 16);
			cursor->writes = cursor->writes ?
				repalloc_huge(cursor->writes, allocated * sizeof(AbChunkPlace)) :
				palloc(allocated * sizeof(AbChunkPlace));
		}
		cursor->writes[cursor->nwrites].off = chunk.off;
		cursor->writes[cursor->nwrites++].crc = chunk.crc;
		crc = chunk.prev;
		complete = chunk.off == 0 && crc == AB_CRC_INIT;
	}
	systable_endscan_ordered(scan);
	cursor->traced = complete;
	return complete;
}

/* The next chunk of a scan that counts for the reference; false at the end. */
static bool
next_counting(const AbChunkCursor *cursor, SysScanDesc scan, ScanDirection direction, AbChunk *chunk)
{
	while (ab_chunk_next(scan, direction, chunk))
	{
		if (chunk_counts(cursor, scan, chunk))
			return true;
	}
	return false;
}

/*
 * Is the chunk at the reference's end the one that was written with it?  Every write
 * ends with that chunk, whose crc covers what was written before it.  Chooses between
 * cases 1 and 2 of chunk_counts().
 */
static bool
verify_end(AbChunkCursor *cursor)
{
	const AbRef *ref = &cursor->ref;
	SysScanDesc scan;
	AbChunk		chunk;
	bool		found;

	if (cursor->traced || ab_same_reference(ref, &verified))
		return true;

	/*
	 * settled chunks do not overlap: the last one before the end is the only
	 * one that may reach it
	 */
	scan = begin_cursor_scan(cursor, ref->stored - AB_COMPRESSED_MAX, ref->stored);
	found = next_counting(cursor, scan, BackwardScanDirection, &chunk);
	systable_endscan_ordered(scan);
	if (found && chunk.problem)
	{
		cursor->scan_at = ref->stored - 1;
		found = refuse_chunk(cursor, &chunk);
	}
	if (!found || chunk.crc != ref->crc || chunk.off + chunk.length != ref->stored)
		return trace_unsettled_writes(cursor);
	verified = *ref;
	return true;
}

/*
 * Make the bytes of the chunk that was looked for available, or those up to byte "at" and
 * as many more as are needed.
 */
static bool
accept_chunk(AbChunkCursor *cursor, AbChunk *chunk, int64 at)
{
	int			length = chunk->length;

	if (cursor->decompressed)
		pfree(cursor->decompressed);
	cursor->decompressed = NULL;
	if (chunk->compressed)
	{
		if (cursor->needed > 0)
			length = Min(length, at - chunk->off + cursor->needed);
		cursor->decompressed = ab_decompress(chunk, length, reports_damage(cursor));
		if (cursor->decompressed == NULL)
			return refuse_chunk(cursor, chunk);
		chunk->data = VARDATA(cursor->decompressed);
	}
	cursor->chunk_length = chunk->length;
	cursor->chunk = *chunk;
	cursor->chunk.length = length;
	return true;
}

/* Move the scan to the chunk that covers byte "at".  False if it is not there. */
static bool
advance_cursor(AbChunkCursor *cursor, int64 at, ScanDirection direction)
{
	const AbRef *ref = &cursor->ref;
	AbChunk		chunk;

	cursor->chunk.length = 0;
	while (next_counting(cursor, cursor->scan, direction, &chunk))
	{
		if (chunk.problem)
			return refuse_chunk(cursor, &chunk);

		if (chunk.off + chunk.length <= cursor->scan_at)
			continue;
		if (chunk.off > cursor->scan_at)
			return false;
		if (ab_chunk_crc(&chunk) != chunk.crc)
			return refuse_chunk(cursor, &chunk);
		cursor->scan_at = chunk.off + chunk.length;
		if (cursor->scan_at > ref->stored ||
			(cursor->scan_at == ref->stored && chunk.crc != ref->crc))
		{
			cursor->problem = "the last chunk is not the one that was written last";
			return false;
		}
		if (cursor->scan_at > at)
			return accept_chunk(cursor, &chunk, at);
	}
	return false;
}

/* Start a scan at the chunk that covers "at".  False if there is none. */
static bool
start_at(AbChunkCursor *cursor, int64 at, int64 until)
{
	const AbRef *ref = &cursor->ref;
	bool		follows = cursor->chunk.length > 0 && at == cursor->chunk.off + cursor->chunk_length;
	ScanDirection direction = ForwardScanDirection;
	int64		from = at;

	ab_chunk_cursor_rewind(cursor);

	/*
	 * An index scan reads all matching entries of a leaf page at once, so a
	 * slice also sets an end.
	 */
	cursor->scan_end = Min(ref->stored, Max(until, at + 1));
	cursor->scan_at = at;
	if (at > 0 && !follows)
	{
		/* a step back is enough, whatever the length of chunks */
		direction = BackwardScanDirection;
		cursor->scan_end = at + 1;
		from = at - AB_COMPRESSED_MAX + 1;
	}
	cursor->scan = begin_cursor_scan(cursor, from, cursor->scan_end);
	return advance_cursor(cursor, at, direction);
}

/*
 * The chunk that covers byte "at" of a reference, or NULL if there is none.  It is
 * valid until the next call.  until: bytes before this one will be requested next.
 * All calls for a cursor must pass the same reference.
 */
const AbChunk *
ab_chunk_cursor_find(AbChunkCursor *cursor, const AbRef *ref, int64 at, int64 until)
{
	const AbChunk *chunk = &cursor->chunk;
	MemoryContext oldcontext;
	bool		found = false;

	if (at >= chunk->off && at < chunk->off + chunk->length)
		return chunk;
	oldcontext = MemoryContextSwitchTo(cursor->context);
	if (cursor->store.heap == NULL)
		open_reference(cursor, ref);
	if (chunk->length > 0 && at >= chunk->off && at < chunk->off + cursor->chunk_length)
	{
		/* more of the chunk at which the scan is positioned */
		AbChunk		whole = *chunk;

		whole.length = cursor->chunk_length;
		cursor->chunk.length = 0;
		found = accept_chunk(cursor, &whole, at);
	}
	else if (cursor->scan && at == cursor->scan_at && at < cursor->scan_end)
		found = advance_cursor(cursor, at, ForwardScanDirection);
	else if ((cursor->mode != AB_READ_PART && cursor->mode != AB_READ_TRY) || verify_end(cursor))
		found = start_at(cursor, at, until);
	MemoryContextSwitchTo(oldcontext);
	return found ? chunk : NULL;
}

/* Raise the error for a byte of the reference that is in no chunk. */
void
ab_chunk_cursor_missing(AbChunkCursor *cursor, int64 at)
{
	/*
	 * An index that was rebuilt on the primary has no entries for chunks that
	 * only old snapshots of a replica see, and the server does not cancel
	 * those for it
	 */
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("canceling statement due to conflict with recovery"),
				 errdetail("The statement needs a chunk of an %s value that the primary has removed.",
						   ab_value_type_name(cursor->ref.relid)),
				 errhint("Run the statement again.")));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("missing chunk of an %s value in table \"%s\"",
					ab_value_type_name(cursor->ref.relid), get_rel_name(cursor->ref.relid)),
			 errdetail("Byte %lld of value " UINT64_FORMAT " is in no chunk.",
					   (long long) at, (uint64) cursor->ref.vid),
			 errhint("appendable_bytea_check() reports the row if it is damaged.  A value that was kept outside its table, as in a variable or a holdable cursor, ends once its row is deleted or changed and vacuumed.")));
}

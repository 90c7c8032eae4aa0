/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  Which chunk covers a byte of a reference?
 *
 * The one place that knows: reading, comparing and overwriting ask here.  Of the chunks
 * that cover the byte it is the one with the highest edition not above the reference's.
 * As long as the questions follow each other, one index scan goes on.
 *
 * No snapshot decides which chunks count, for whoever has a reference may read what it
 * refers to: see chunk.c.  The chunk at the reference's end must be the one that was
 * written with it, every chunk must be what its crc says, and one that covers others may
 * not be missing: else there is an answer of "no chunk", or an error, never other bytes.
 * A check (check.c) walks a value's chunks from the first to the last, as one snapshot
 * sees them.  Who reads up to the end before any of it is used need not have the end
 * looked at first.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "store.h"

/*
 * The reference that was found to be whole last, in this subtransaction or before:
 * who reads many slices of one value looks at its end once.
 */
static AbRef verified;

static void
forget_verified(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		verified.vid = 0;
}

static void
forget_verified_at_end(XactEvent event, void *arg)
{
	verified.vid = 0;
}

/* Have the end of a transaction or subtransaction forget what was verified. */
void
ab_layout_install(void)
{
	RegisterXactCallback(forget_verified_at_end, NULL);
	RegisterSubXactCallback(forget_verified, NULL);
}

static void
open_store(AbLayout *layout, const AbRef *ref)
{
	if (!ab_store_open(ref->relid, AccessShareLock, &layout->store))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("chunks of an appendable_bytea value are gone"),
				 errdetail("The value refers to table %u, which no longer exists in this database or has no chunks.",
						   ref->relid)));
	layout->ref = *ref;
}

static void
end_scan(AbLayout *layout)
{
	if (layout->scan)
		systable_endscan_ordered(layout->scan);
	layout->scan = NULL;
	layout->chunk.length = 0;
	if (layout->decompressed)
		pfree(layout->decompressed);
	layout->decompressed = NULL;
}

/* A chunk is not as it must be: an error, or for the lenient no chunk, and why. */
static bool
refuse_chunk(AbLayout *layout, const AbChunk *chunk)
{
	const char *store = RelationGetRelationName(layout->store.heap);

	if (layout->lenient && chunk->problem)
		layout->problem = psprintf("the chunk after byte %lld has %s",
								   (long long) layout->scan_at, chunk->problem);
	else if (layout->lenient)
		layout->problem = psprintf("the chunk at offset %lld is damaged", (long long) chunk->off);
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged chunk of an appendable_bytea value"),
				 chunk->problem ?
				 errdetail("A chunk of value " UINT64_FORMAT " in \"%s\" has %s.",
						   (uint64) layout->ref.vid, store, chunk->problem) :
				 errdetail("Chunk at offset %lld of value " UINT64_FORMAT " in \"%s\".",
						   (long long) chunk->off, (uint64) chunk->vid, store)));
	return false;
}

/* Scan the reference's value from one offset to another. */
static SysScanDesc
begin_scan(AbLayout *layout, int64 from, int64 before)
{
	return ab_chunk_scan(&layout->store, layout->snapshot, layout->ref.vid, Max(from, 0), before);
}

/* Give back everything. */
void
ab_layout_close(AbLayout *layout)
{
	end_scan(layout);
	if (layout->store.heap)
		ab_store_close(&layout->store, AccessShareLock);
}

/*
 * Find the chunk that holds byte "at" in the reference's edition, and does not begin more
 * than "reach" bytes before it; its data are not to be used.  False if there is none.
 */
static bool
find_covering(AbLayout *layout, int64 at, int reach, AbChunk *found)
{
	const AbRef *ref = &layout->ref;
	SysScanDesc scan = begin_scan(layout, at - reach + 1, at + 1);
	AbChunk		chunk;
	AbChunk		damaged;

	found->length = 0;
	damaged.problem = NULL;
	while (ab_chunk_next(scan, BackwardScanDirection, &chunk))
	{
		if (chunk.problem)
			damaged = chunk;
		else if (chunk.edition <= ref->edition && chunk.off + chunk.length > at &&
				 (found->length == 0 || chunk.edition > found->edition))
		{
			*found = chunk;
			/* it is the only one */
			if (ref->edition == 0)
				break;
		}
	}
	systable_endscan_ordered(scan);
	if (found->length == 0 && damaged.problem)
		(void) refuse_chunk(layout, &damaged);
	return found->length > 0;
}

/*
 * Start scanning so that the first chunk accepted is the one that covers "at" and does not
 * begin more than "reach" bytes before it.
 */
static void
start_scan(AbLayout *layout, int64 at, int64 until, int reach)
{
	const AbRef *ref = &layout->ref;
	int64		from = 0;
	AbChunk		chunk;

	/*
	 * chunks of older editions may lie across, and compressed ones begin
	 * anywhere
	 */
	if (at > 0 && ref->edition == 0 && reach == AB_CHUNK_MAX)
		from = Max(at - AB_CHUNK_MAX + 1, 0);
	else if (at > 0 && find_covering(layout, at, reach, &chunk))
		from = chunk.off;
	else if (at > 0)
		return;

	/*
	 * An index scan looks at all matching entries of a leaf page at once, so
	 * a slice names its end too.
	 */
	layout->scan_end = Min(ref->stored, Max(until, at + 1));
	layout->scan = begin_scan(layout, from, layout->scan_end);
	layout->scan_at = ref->edition == 0 ? at : from;
}

/* The chunk is what was looked for: have its bytes. */
static bool
accept_chunk(AbLayout *layout, AbChunk *chunk)
{
	if (layout->decompressed)
		pfree(layout->decompressed);
	layout->decompressed = NULL;
	if (chunk->compressed && layout->verifying && !ab_decompressible(chunk))
		layout->undecompressed = true;
	else if (chunk->compressed)
	{
		layout->decompressed = ab_decompress(chunk, layout->lenient);
		if (layout->decompressed == NULL)
			return refuse_chunk(layout, chunk);
		chunk->data = VARDATA(layout->decompressed);
	}
	layout->chunk = *chunk;
	return true;
}

/* Move the scan to the chunk that covers byte "at".  False if it is not there. */
static bool
advance(AbLayout *layout, int64 at)
{
	const AbRef *ref = &layout->ref;
	AbChunk		chunk;

	layout->chunk.length = 0;
	if (layout->scan == NULL)
		return false;
	while (ab_chunk_next(layout->scan, ForwardScanDirection, &chunk))
	{
		CHECK_FOR_INTERRUPTS();
		if (chunk.problem)
			return refuse_chunk(layout, &chunk);
		if (chunk.edition > ref->edition)
			continue;

		/*
		 * scan_at is where a chunk of the reference's edition starts, except
		 * at the start of a scan of a value that was never edited: there any
		 * chunk that reaches it will do, for no two overlap.
		 */
		if (chunk.off + chunk.length <= layout->scan_at ||
			(chunk.off < layout->scan_at && ref->edition != 0))
			continue;
		if (chunk.off > layout->scan_at)
			return false;

		/*
		 * What covered it in the reference's edition may be gone already, if
		 * the reference was kept while its row was changed and vacuumed.
		 */
		if (chunk.edition < ref->edition && ab_chunk_removable(layout->scan))
			return false;
		if (!ab_chunk_intact(&chunk))
			return refuse_chunk(layout, &chunk);
		layout->scan_at = chunk.off + chunk.length;
		if (layout->scan_at > ref->stored ||
			(layout->scan_at == ref->stored && chunk.crc != ref->crc))
		{
			layout->problem = "the last chunk is not the one that was written last";
			return false;
		}
		if (layout->scan_at > at)
			return accept_chunk(layout, &chunk);
	}
	return false;
}

/*
 * Is the chunk at the reference's end the one that was written with it?  Every
 * write ends with that chunk, and its crc covers what was written before it.  A
 * reference that somebody kept while the change that made it was rolled back can
 * meet the chunks of another change at the same offsets; this is where they are
 * told apart.
 */
static bool
end_matches(AbLayout *layout, int reach)
{
	const AbRef *ref = &layout->ref;
	AbChunk		chunk;

	if (ab_same_reference(ref, &verified))
		return true;
	if (!find_covering(layout, ref->stored - 1, reach, &chunk) ||
		chunk.crc != ref->crc || chunk.off + chunk.length != ref->stored)
		return false;
	verified = *ref;
	return true;
}

/*
 * The chunk that covers byte "at" of a reference, or NULL if there is none; it lives until
 * the next call.  until: bytes up to here will be asked for next.  A layout is of one
 * reference.
 */
const AbChunk *
ab_layout_find(AbLayout *layout, const AbRef *ref, int64 at, int64 until)
{
	const AbChunk *chunk = &layout->chunk;
	MemoryContext oldcontext;
	bool		found = false;

	if (at >= chunk->off && at < chunk->off + chunk->length)
		return chunk;
	oldcontext = MemoryContextSwitchTo(layout->context);
	if (layout->store.heap == NULL)
		open_store(layout, ref);
	if (layout->scan == NULL || at != layout->scan_at || at >= layout->scan_end)
	{
		end_scan(layout);
		if (layout->to_end || end_matches(layout, AB_CHUNK_MAX) ||
			end_matches(layout, AB_COMPRESSED_MAX))
		{
			start_scan(layout, at, until, AB_CHUNK_MAX);
			found = advance(layout, at);

			/*
			 * A compressed chunk may begin further before it.  All of them
			 * have the first edition, so what was found there goes before.
			 */
			if (!found && at >= AB_CHUNK_MAX && layout->problem == NULL)
			{
				end_scan(layout);
				start_scan(layout, at, until, AB_COMPRESSED_MAX);
				found = advance(layout, at);
			}
		}
	}
	else
		found = advance(layout, at);
	MemoryContextSwitchTo(oldcontext);
	return found ? chunk : NULL;
}

/* Raise the error that a byte of the reference is in no chunk. */
void
ab_layout_missing(AbLayout *layout, int64 at)
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
				 errdetail("The statement needs a chunk of an appendable_bytea value that the primary has removed."),
				 errhint("Run the statement again.")));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("missing chunk of an appendable_bytea value"),
			 errdetail("Byte %lld of value " UINT64_FORMAT " in \"%s\".",
					   (long long) at, (uint64) layout->ref.vid,
					   RelationGetRelationName(layout->store.heap)),
			 HistoricSnapshotActive() ?
			 errhint("Logical decoding reads chunks of published tables alone: add the table to a publication, even if the output plugin needs none.") :
			 errhint("A value that was kept outside its table, as in a variable or a holdable cursor, ends when its row is gone and vacuumed, or what stored it is rolled back.")));
}

/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading a value: literal bytes from the datum, the rest from chunks.
 *
 * Called by every function of the type that looks at bytes, and by the access
 * method when it copies a value.  A reader walks the value's segments; within a
 * range of chunks one index scan goes on as long as reading is sequential.
 *
 * No snapshot decides which chunks are read, for whoever has a reference may read what
 * it refers to, as with the server's out-of-line values: see chunk.c.  So writers that
 * look at rows of transactions in progress, old snapshots, replicas and logical decoding
 * all read the same way, and without predicate locks: SERIALIZABLE transactions conflict
 * on rows of the table alone.  If a chunk is not found, or is not what its crc says, the
 * reader raises an error: it never returns part of a value.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "store.h"

struct AbReader
{
	AbValue    *value;
	AbValue		own;			/* what value points to after ab_reader_open */
	MemoryContext context;
	int64		position;		/* of the next piece */
	int64		until;			/* value offset up to which is being read, or
								 * 0 */
	int			segment;		/* that position is in, or nsegments */
	int64		segment_start;	/* value offset of that segment */

	/* the store, once it is needed */
	bool		opened;
	AbStore		store;

	/* an index scan whose next chunk covers or follows scan_at */
	SysScanDesc scan;
	int64		scan_at;		/* chunk offset that the scan stands before */
	int64		scan_end;		/* chunks from this offset on are not in the
								 * scan */
	int64		wanted;			/* bytes of chunks are wanted up to here */
	bool		lenient;		/* a damaged chunk counts as a missing one */

	/* the chunk that was read last; its data live until the scan moves */
	bool		has_chunk;
	AbChunk		chunk;
};

static AbReader *
make_reader(void)
{
	AbReader   *reader = palloc0(sizeof(AbReader));

	reader->context = CurrentMemoryContext;
	reader->wanted = PG_INT64_MAX;
	return reader;
}

/* Open a datum; see appendable.h. */
AbReader *
ab_reader_open(Datum datum)
{
	AbReader   *reader = make_reader();

	ab_parse(datum, &reader->own);
	reader->value = &reader->own;
	return reader;
}

/* Open a value that is taken apart already and outlives the reader. */
AbReader *
ab_reader_open_value(AbValue *value)
{
	AbReader   *reader = make_reader();

	reader->value = value;
	return reader;
}

int64
ab_reader_length(AbReader *reader)
{
	return reader->value->length;
}

static void
end_scan(AbReader *reader)
{
	if (reader->scan)
		systable_endscan_ordered(reader->scan);
	reader->scan = NULL;
	reader->has_chunk = false;
}

/* Give back everything. */
void
ab_reader_close(AbReader *reader)
{
	end_scan(reader);
	if (reader->opened)
		ab_store_close(&reader->store, AccessShareLock);
	if (reader->value == &reader->own)
		ab_value_free(&reader->own);
	pfree(reader);
}

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
ab_reader_install(void)
{
	RegisterXactCallback(forget_verified_at_end, NULL);
	RegisterSubXactCallback(forget_verified, NULL);
}

static void
open_store(AbReader *reader)
{
	Oid			home = reader->value->base.home;

	if (reader->opened)
		return;
	if (!ab_store_open(home, AccessShareLock, &reader->store))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("chunks of an appendable_bytea value are gone"),
				 errdetail("The value refers to table %u, which no longer exists in this database or has no chunks.",
						   home)));
	reader->opened = true;
}

/*
 * Where does the chunk start that holds byte "at" in the reference's edition?  Only
 * edited values need the question: chunks of older editions may lie across.
 * Returns -1 if no chunk covers the byte.
 */
static int64
chunk_start(AbReader *reader, int64 at)
{
	const AbRef *ref = &reader->value->base;
	SysScanDesc scan;
	AbChunk		chunk;
	int64		start = -1;
	int64		best = -1;

	scan = ab_chunk_scan(&reader->store, SnapshotAny,
						 ref->vid, Max(at - AB_CHUNK_MAX + 1, 0), at + 1);
	while (ab_chunk_next(scan, ForwardScanDirection, &chunk))
	{
		if (chunk.edition <= ref->edition && chunk.off + chunk.length > at &&
			(int64) chunk.edition > best)
		{
			best = chunk.edition;
			start = chunk.off;
		}
	}
	systable_endscan_ordered(scan);
	return start;
}

/* Start scanning so that the first chunk accepted is the one that covers "at". */
static void
start_scan(AbReader *reader, int64 at)
{
	const AbRef *ref = &reader->value->base;
	int64		from;

	if (at == 0)
		from = 0;
	else if (ref->edition == 0)
		from = Max(at - AB_CHUNK_MAX + 1, 0);
	else
		from = chunk_start(reader, at);
	if (from < 0)
		return;

	/*
	 * An index scan looks at all matching entries of a leaf page at once, so
	 * a slice names its end too.
	 */
	reader->scan_end = Min(ref->stored, Max(reader->wanted, at + 1));
	reader->scan = ab_chunk_scan(&reader->store, SnapshotAny, ref->vid, from, reader->scan_end);
	reader->scan_at = ref->edition == 0 ? at : from;
}

/* Move the scan to the chunk that covers byte "at".  False if it is not there. */
static bool
advance(AbReader *reader, int64 at)
{
	const AbRef *ref = &reader->value->base;
	AbChunk    *chunk = &reader->chunk;

	reader->has_chunk = false;
	if (reader->scan == NULL)
		return false;
	while (ab_chunk_next(reader->scan, ForwardScanDirection, chunk))
	{
		CHECK_FOR_INTERRUPTS();
		if (chunk->edition > ref->edition)
			continue;

		/*
		 * scan_at is where a chunk of the reference's edition starts, except
		 * at the start of a scan of a value that was never edited: there any
		 * chunk that reaches it will do, for no two overlap.
		 */
		if (chunk->off + chunk->length <= reader->scan_at ||
			(chunk->off < reader->scan_at && ref->edition != 0))
			continue;
		if (chunk->off > reader->scan_at)
			return false;

		/*
		 * What covered it in the reference's edition may be gone already, if
		 * the reference was kept while its row was changed and vacuumed.
		 */
		if (chunk->edition < ref->edition && ab_chunk_removable(reader->scan))
			return false;
		if (chunk->off + chunk->length > ref->stored || !ab_chunk_intact(chunk))
		{
			if (reader->lenient)
				return false;
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("damaged chunk of an appendable_bytea value"),
					 errdetail("Chunk at offset %lld of value " UINT64_FORMAT " in \"%s\".",
							   (long long) chunk->off, (uint64) chunk->vid,
							   RelationGetRelationName(reader->store.heap))));
		}
		reader->scan_at = chunk->off + chunk->length;
		if (reader->scan_at > at)
		{
			reader->has_chunk = true;
			return true;
		}
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
end_is_ours(AbReader *reader)
{
	const AbRef *ref = &reader->value->base;
	SysScanDesc scan;
	AbChunk		chunk;
	bool		ours = false;

	if (ab_same_reference(ref, &verified))
		return true;
	scan = ab_chunk_scan(&reader->store, SnapshotAny,
						 ref->vid, Max(ref->stored - AB_CHUNK_MAX, 0), ref->stored);
	while (!ours && ab_chunk_next(scan, BackwardScanDirection, &chunk))
	{
		ours = chunk.edition <= ref->edition && chunk.crc == ref->crc &&
			chunk.off + chunk.length == ref->stored;
	}
	systable_endscan_ordered(scan);
	if (ours)
		verified = *ref;
	return ours;
}

/*
 * Find the chunk that covers byte "at" of the base.  Its data live until the next
 * call.  Returns false only if nothing covers it.
 */
bool
ab_reader_chunk(AbReader *reader, int64 at, AbChunk *result)
{
	MemoryContext oldcontext;
	bool		found;

	if (reader->has_chunk && at >= reader->chunk.off &&
		at < reader->chunk.off + reader->chunk.length)
	{
		*result = reader->chunk;
		return true;
	}

	oldcontext = MemoryContextSwitchTo(reader->context);
	open_store(reader);
	if (reader->scan == NULL || at != reader->scan_at || at >= reader->scan_end)
	{
		end_scan(reader);
		if (end_is_ours(reader))
			start_scan(reader, at);
	}
	found = advance(reader, at);
	MemoryContextSwitchTo(oldcontext);
	if (found)
		*result = reader->chunk;
	return found;
}

/* Stand before byte "offset" of the value. */
void
ab_reader_seek(AbReader *reader, int64 offset)
{
	AbValue    *value = reader->value;

	Assert(offset >= 0 && offset <= value->length);
	if (offset < reader->segment_start)
	{
		reader->segment = 0;
		reader->segment_start = 0;
	}
	while (reader->segment < value->nsegments &&
		   offset >= reader->segment_start + value->segments[reader->segment].length)
		reader->segment_start += value->segments[reader->segment++].length;
	reader->position = offset;
}

/* The byte at the reader's position is in no chunk. */
static pg_noinline void
chunk_missing(AbReader *reader)
{
	AbValue    *value = reader->value;
	int64		at = value->segments[reader->segment].source + reader->position - reader->segment_start;

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
					   (long long) at, (uint64) value->base.vid,
					   RelationGetRelationName(reader->store.heap)),
			 HistoricSnapshotActive() ?
			 errhint("Logical decoding reads chunks of published tables alone: add the table to a publication, even if the output plugin needs none.") :
			 errhint("A value that was kept outside its table, as in a variable or a holdable cursor, ends when its row is gone and vacuumed, or what stored it is rolled back.")));
}

/* The next piece; -1 if it is in no chunk, and 0 at the end. */
static inline int64
next_piece(AbReader *reader, const char **piece)
{
	AbValue    *value = reader->value;
	AbSegment  *s;
	int64		within;
	int64		n;

	if (reader->position >= value->length)
		return 0;
	s = &value->segments[reader->segment];
	within = reader->position - reader->segment_start;
	if (s->source < 0)
	{
		*piece = s->data + within;
		n = s->length - within;
	}
	else
	{
		AbChunk		chunk;
		int64		at = s->source + within;

		if (reader->until > reader->position)
			reader->wanted = at + Min(s->length - within, reader->until - reader->position);
		else
			reader->wanted = PG_INT64_MAX;
		if (!ab_reader_chunk(reader, at, &chunk))
			return -1;
		*piece = chunk.data + (at - chunk.off);
		n = Min(chunk.off + chunk.length - at, s->length - within);
	}
	ab_reader_seek(reader, reader->position + n);
	return n;
}

/* The next piece; see appendable.h. */
int64
ab_reader_next(AbReader *reader, const char **piece)
{
	int64		n = next_piece(reader, piece);

	if (unlikely(n < 0))
		chunk_missing(reader);
	return n;
}

/*
 * The next piece of a value that may be damaged: -1 if it is not there or not whole.
 */
int64
ab_reader_try_next(AbReader *reader, const char **piece)
{
	reader->lenient = true;
	return next_piece(reader, piece);
}

/* Copy a range; see appendable.h. */
void
ab_reader_read(AbReader *reader, int64 offset, char *buf, int64 length)
{
	if (offset < 0 || length < 0 || offset > reader->value->length - length)
		elog(ERROR, "read of %lld bytes at %lld is outside a value of %lld bytes",
			 (long long) length, (long long) offset, (long long) reader->value->length);
	ab_reader_seek(reader, offset);
	reader->until = offset + length;
	while (length > 0)
	{
		const char *piece;
		int64		n = ab_reader_next(reader, &piece);

		Assert(n > 0);
		n = Min(n, length);
		memcpy(buf, piece, n);
		buf += n;
		offset += n;
		length -= n;
		CHECK_FOR_INTERRUPTS();
	}
	reader->until = 0;
	if (reader->position != offset)
		ab_reader_seek(reader, offset);
}

/* A range as a bytea. */
bytea *
ab_read_bytea(Datum datum, int64 offset, int64 length)
{
	AbReader   *reader;
	bytea	   *result;

	if (length > (int64) MaxAllocSize - VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot return %lld bytes of an appendable_bytea value at once",
						(long long) length),
				 errhint("Read it in slices, with substr().")));
	result = ab_palloc(length + VARHDRSZ);
	SET_VARSIZE(result, length + VARHDRSZ);
	reader = ab_reader_open(datum);
	ab_reader_read(reader, offset, VARDATA(result), length);
	ab_reader_close(reader);
	return result;
}

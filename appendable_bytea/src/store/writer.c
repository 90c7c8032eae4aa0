/*-------------------------------------------------------------------------
 *
 * writer.c
 *	  Writing chunks.
 *
 * A chunk is written once and never updated.  The writer is given the reference
 * it continues and hands back the one that includes what it wrote; the caller
 * holds the row lock that makes it the only one to continue that reference
 * (invariant I2), and the unique index turns a mistake there into an error.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "store/store.h"

struct AbWriter
{
	AbStore		store;
	AbRef		ref;			/* includes all chunks written so far */
	BulkInsertState bulk;		/* NULL for a write of a few chunks */
	MemoryContext context;
	int			npending;		/* data in the row being made that do not fill
								 * a chunk yet */
	CommandId	cid;
};

/*
 * The row being made, with space for the largest chunk.  A writer is closed before another
 * one is opened: between the two nothing runs that could write other values.
 */
static PGAlignedBlock row_space;

/*
 * Start writing to the store of "relid", which is created if it is missing.  from: the
 * reference to continue; a vid of 0 starts a new value.  expected: about how many bytes
 * will be written.
 */
AbWriter *
ab_writer_open(Oid relid, const AbRef *from, int64 expected)
{
	AbWriter   *writer = palloc0(sizeof(AbWriter));

	while (!ab_store_open(relid, RowExclusiveLock, &writer->store))
		ab_store_create(relid);
	writer->ref = *from;
	writer->ref.relid = relid;
	if (writer->ref.vid == 0)
	{
		writer->ref.vid = ab_new_vid();
		writer->ref.stored = 0;
		writer->ref.crc = AB_CRC_INIT;
		writer->ref.edition = 0;
	}
	if (expected > 4 * ab_chunk_size)
	{
		/*
		 * It keeps the page being filled, but has no ring of buffers, with
		 * which this session would flush WAL and write pages repeatedly.
		 */
		writer->bulk = GetBulkInsertState();
		FreeAccessStrategy(writer->bulk->strategy);
		writer->bulk->strategy = NULL;
	}
	writer->context = AllocSetContextCreate(CurrentMemoryContext,
											"appendable_bytea chunk",
											ALLOCSET_DEFAULT_SIZES);
	writer->cid = GetCurrentCommandId(true);
	return writer;
}

static inline AbChunkRow *
chunk_row(void)
{
	return (AbChunkRow *) (row_space.data + AB_CHUNK_ROW_HEADER);
}

/*
 * Write a chunk of the row's data.  The row is formed here instead of by heap_form_tuple,
 * which would copy the data a second time.  length: of the data as they are stored.
 */
static void
write_chunk(AbWriter *writer, int64 off, int length, bool compressed)
{
	AbChunkRow *row = chunk_row();
	AbChunk		chunk;
	Datum		values[AB_CHUNK_NATTS];
	bool		nulls[AB_CHUNK_NATTS] = {0};
	HeapTupleHeader header = (HeapTupleHeader) row_space.data;
	HeapTupleData tuple;
	MemoryContext oldcontext = MemoryContextSwitchTo(writer->context);

	StaticAssertStmt(offsetof(AbChunkRow, data) + AB_CHUNK_MAX + AB_CHUNK_ROW_HEADER <= MaxHeapTupleSize,
					 "a chunk of the largest size must fit a page");

	Assert(length <= AB_CHUNK_MAX);
	chunk.vid = row->vid = writer->ref.vid;
	chunk.off = row->off = off;
	chunk.prev = row->prev = writer->ref.crc;
	chunk.compressed = compressed;
	chunk.stored_length = length;
	chunk.stored = row->data;
	row->crc = ab_chunk_crc(&chunk);
	if (compressed)
		SET_VARSIZE_COMPRESSED(row->length_word, length + VARHDRSZ);
	else
		SET_VARSIZE(row->length_word, length + VARHDRSZ);

	memset(header, 0, AB_CHUNK_ROW_HEADER);
	ItemPointerSetInvalid(&header->t_ctid);
	HeapTupleHeaderSetNatts(header, AB_CHUNK_NATTS);
	header->t_hoff = AB_CHUNK_ROW_HEADER;
	header->t_infomask = HEAP_HASVARWIDTH;
	tuple.t_len = AB_CHUNK_ROW_HEADER + offsetof(AbChunkRow, data) + length;
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = RelationGetRelid(writer->store.heap);
	tuple.t_data = header;

	ab_chunk_insert(writer->store.heap, &tuple, writer->cid, writer->bulk);

	values[AB_CHUNK_VID - 1] = Int64GetDatum(row->vid);
	values[AB_CHUNK_OFF - 1] = Int64GetDatum(row->off);
	for (int i = 0; i < writer->store.nindexes; i++)
	{
		Relation	index = writer->store.indexes[i];

		if (index->rd_index->indisready)
			index_insert(index, values, nulls, &tuple.t_self, writer->store.heap,
						 UNIQUE_CHECK_YES, false, NULL);
	}
	writer->ref.crc = row->crc;
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(writer->context);
	CHECK_FOR_INTERRUPTS();
}

/* Append bytes to the value, in chunks as large as they may be. */
void
ab_writer_put(AbWriter *writer, const char *data, int64 length)
{
	if (writer->ref.counted)
		writer->ref.continuations += ab_count_continuations(data, length);
	while (length > 0)
	{
		int			n = Min(length, ab_chunk_size - writer->npending);

		memcpy(chunk_row()->data + writer->npending, data, n);
		writer->npending += n;
		data += n;
		length -= n;
		if (writer->npending == ab_chunk_size)
		{
			writer->npending = 0;
			write_chunk(writer, writer->ref.stored, ab_chunk_size, false);
			writer->ref.stored += ab_chunk_size;
		}
	}
}

/* Append a chunk of bytes that the caller compressed; none may be pending. */
void
ab_writer_put_compressed(AbWriter *writer, const struct varlena *compressed)
{
	int			length = VARSIZE(compressed) - VARHDRSZ;

	Assert(writer->npending == 0 && VARATT_IS_COMPRESSED(compressed));
	memcpy(chunk_row()->data, VARDATA(compressed), length);
	write_chunk(writer, writer->ref.stored, length, true);
	writer->ref.stored += VARDATA_COMPRESSED_GET_EXTSIZE(compressed);
}

/* Write what is pending and close; *ref includes everything written. */
void
ab_writer_close(AbWriter *writer, AbRef *ref)
{
	if (writer->npending > 0)
	{
		write_chunk(writer, writer->ref.stored, writer->npending, false);
		writer->ref.stored += writer->npending;
	}
	*ref = writer->ref;
	if (writer->bulk)
		FreeBulkInsertState(writer->bulk);
	ab_store_close(&writer->store, NoLock);
	MemoryContextDelete(writer->context);
	pfree(writer);
}

/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading a value: literal bytes from the datum, the rest from chunks.
 *
 * Called by every function of the type that looks at bytes, and by the access
 * method when it copies a value.  A reader walks the value's segments; layout.c finds the
 * chunks, and one that is not found is an error: a reader never returns part of a value.
 * No predicate locks are taken: SERIALIZABLE transactions conflict on rows of the table
 * alone.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifndef WIN32
#include <sys/mman.h>
#endif

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "store.h"

/* the size from which on malloc maps memory in any case, and of the kernel's large pages */
#define HUGE_SIZE			((Size) 33 * 1024 * 1024)
#define HUGE_PAGE			((Size) 2 * 1024 * 1024)

struct AbReader
{
	AbValue    *value;
	AbValue		own;			/* what value points to after ab_reader_open */
	int64		position;		/* of the next piece */
	int64		until;			/* value offset up to which is being read, or
								 * 0 */
	int			segment;		/* that position is in, or nsegments */
	int64		segment_start;	/* value offset of that segment */
	AbLayout	layout;			/* of the value's chunks */
};

static AbReader *
make_reader(void)
{
	AbReader   *reader = palloc0(sizeof(AbReader));

	reader->layout.context = CurrentMemoryContext;
	reader->layout.snapshot = SnapshotAny;
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

/* Give back everything. */
void
ab_reader_close(AbReader *reader)
{
	ab_layout_close(&reader->layout);
	if (reader->value == &reader->own)
		ab_value_free(&reader->own);
	pfree(reader);
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

/*
 * The chunk of the value that covers byte "at" of the base; it lives until the next call.
 * One that is missing is an error.
 */
const AbChunk *
ab_reader_chunk(AbReader *reader, int64 at)
{
	const AbChunk *chunk = ab_layout_find(&reader->layout, &reader->value->base, at, PG_INT64_MAX);

	if (chunk == NULL)
		ab_layout_missing(&reader->layout, at);
	return chunk;
}

/* The next piece; -1 if it is in no chunk, and 0 at the end. */
static inline int64
next_piece(AbReader *reader, const char **piece)
{
	AbValue    *value = reader->value;
	AbSegment  *s;
	int64		within;
	int64		n;

	*piece = NULL;
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
		int64		at = s->source + within;
		int64		until = PG_INT64_MAX;
		const AbChunk *chunk;

		if (reader->until > reader->position)
			until = at + Min(s->length - within, reader->until - reader->position);
		chunk = ab_layout_find(&reader->layout, &value->base, at, until);
		if (chunk == NULL)
			return -1;
		*piece = chunk->data + (at - chunk->off);
		n = Min(chunk->off + chunk->length - at, s->length - within);
	}
	ab_reader_seek(reader, reader->position + n);
	return n;
}

/* All pieces will be read; see appendable.h. */
void
ab_reader_whole(AbReader *reader)
{
	reader->layout.to_end = !reader->value->edited;
}

/* The next piece; see appendable.h. */
int64
ab_reader_next(AbReader *reader, const char **piece)
{
	int64		n = next_piece(reader, piece);

	if (unlikely(n < 0))
	{
		ab_layout_missing(&reader->layout, reader->value->segments[reader->segment].source +
						  reader->position - reader->segment_start);
		pg_unreachable();
	}
	return n;
}

/*
 * The next piece of a value that may be damaged: -1 if it is not there or not whole.
 */
int64
ab_reader_try_next(AbReader *reader, const char **piece)
{
	reader->layout.lenient = true;
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
	reader->layout.to_end = !reader->value->edited && reader->until >= reader->value->base.stored;
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
	reader->layout.to_end = false;
	if (reader->position != offset)
		ab_reader_seek(reader, offset);
}

/*
 * palloc for a value or a part of one.  A huge one is always a mapping of its own:
 * have the kernel fill it with large pages, or a third of the time that it takes to
 * read such a value goes into page faults.
 */
void *
ab_palloc(Size size)
{
	char	   *p = palloc(size);

#ifdef MADV_HUGEPAGE
	if (size >= HUGE_SIZE)
	{
		char	   *from = (char *) TYPEALIGN(HUGE_PAGE, p);
		char	   *to = (char *) TYPEALIGN_DOWN(HUGE_PAGE, p + size);

		/* only advice: where it is not taken nothing changes */
		(void) madvise(from, to - from, MADV_HUGEPAGE);
	}
#endif
	return p;
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

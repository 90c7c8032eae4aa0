/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading a value: literal bytes from the datum, the rest from chunks.
 *
 * Called by every function of the type that reads bytes, and by the access
 * method when it copies a value.  A reader walks the value's segments; chunk_cursor.c finds
 * the chunks, and one that is not found is an error: a reader never returns part of a
 * value.
 * No predicate locks are taken: SERIALIZABLE transactions conflict on rows of the table
 * alone.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/snapmgr.h"

#include "store/store.h"

/* Bytes that are compared before more than the start of a chunk is decompressed. */
#define FIRST_COMPARED	512

struct AbReader
{
	AbValue    *value;
	AbValue		own;			/* what value points to after ab_reader_open */
	int64		position;		/* of the next piece */
	int64		until;			/* value offset up to which is being read, or
								 * 0 */
	int			segment;		/* that position is in, or nsegments */
	int64		segment_start;	/* value offset of that segment */
	AbChunkCursor cursor;		/* of the value's chunks */
	char	   *loaded;			/* the value's bytes from here on, or NULL */
	int64		loaded_from;
};

static AbReader *
make_reader(void)
{
	AbReader   *reader = palloc0(sizeof(AbReader));

	reader->cursor.context = CurrentMemoryContext;
	reader->cursor.snapshot = SnapshotAny;
	return reader;
}

/* Open a datum; see store.h. */
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

/* Open bytes in memory that outlive the reader. */
AbReader *
ab_reader_open_bytes(const char *data, int64 length)
{
	AbReader   *reader = make_reader();

	reader->value = &reader->own;
	reader->own.segments = reader->own.space;
	if (length > 0)
		ab_add_segment(&reader->own, -1, length, data);
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
	ab_chunk_cursor_close(&reader->cursor);
	if (reader->loaded)
		pfree(reader->loaded);
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
	const AbChunk *chunk = ab_chunk_cursor_find(&reader->cursor, &reader->value->base, at, PG_INT64_MAX);

	if (chunk == NULL)
		ab_chunk_cursor_missing(&reader->cursor, at);
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
		else if (value->base.pieces)
			until = at + s->length - within;
		chunk = ab_chunk_cursor_find(&reader->cursor, &value->base, at, until);
		if (chunk == NULL)
			return -1;
		*piece = chunk->data + (at - chunk->off);
		n = Min(chunk->off + chunk->length - at, s->length - within);
	}
	ab_reader_seek(reader, reader->position + n);
	return n;
}

/* The next piece; see store.h. */
int64
ab_reader_next(AbReader *reader, const char **piece)
{
	int64		n = next_piece(reader, piece);

	if (unlikely(n < 0))
		ab_chunk_cursor_missing(&reader->cursor, reader->value->segments[reader->segment].source +
								reader->position - reader->segment_start);
	return n;
}

/* The piece before the position, which moves to its begin; see store.h. */
int64
ab_reader_previous(AbReader *reader, const char **piece)
{
	const AbSegment *s;
	int64		n;

	if (reader->position == 0)
		return 0;
	ab_reader_seek(reader, reader->position - 1);
	s = &reader->value->segments[reader->segment];
	/* bytes of the segment up to the one at the position */
	n = reader->position - reader->segment_start + 1;
	if (s->source < 0)
		*piece = s->data;
	else
	{
		int64		end = s->source + n;
		const AbChunk *chunk = ab_reader_chunk(reader, end - 1);

		n = Min(n, end - chunk->off);
		*piece = chunk->data + (end - n - chunk->off);
	}
	ab_reader_seek(reader, reader->position + 1 - n);
	return n;
}

/*
 * Copy "length" bytes from the reader's position to buf; false if a chunk is not
 * found, which is an error with AB_READ_PART.
 */
static bool
copy_pieces(AbReader *reader, char *buf, int64 length)
{
	while (length > 0)
	{
		const char *piece;
		int64		n = reader->cursor.mode == AB_READ_PART ? ab_reader_next(reader, &piece) :
			next_piece(reader, &piece);

		if (n < 0)
			return false;
		Assert(n > 0);
		n = Min(n, length);
		memcpy(buf, piece, n);
		buf += n;
		length -= n;
	}
	return true;
}

/*
 * Copy a range; see store.h.  The caller uses the buffer only after we return, so a
 * range that includes the end of the chunks is first read without verifying that end.
 */
void
ab_reader_read(AbReader *reader, int64 offset, char *buf, int64 length)
{
	AbValue    *value = reader->value;

	if (offset < 0 || length < 0 || offset > value->length - length)
		elog(ERROR, "read of %lld bytes at %lld is outside a value of %lld bytes",
			 (long long) length, (long long) offset, (long long) value->length);
	ab_reader_seek(reader, offset);
	reader->until = offset + length;
	/* only then the last chunk that is read is the one at the end */
	if (!value->edited && !value->base.pieces && reader->until >= value->base.stored)
		reader->cursor.mode = AB_READ_ALL;
	if (!copy_pieces(reader, buf, length))
	{
		reader->cursor.mode = AB_READ_PART;
		ab_chunk_cursor_rewind(&reader->cursor);
		ab_reader_seek(reader, offset);
		(void) copy_pieces(reader, buf, length);
	}
	reader->until = 0;
	reader->cursor.mode = AB_READ_PART;
	if (reader->position != offset + length)
		ab_reader_seek(reader, offset + length);
}

/*
 * How many bytes of the value, in [from, until), are those of "data".  A missing or damaged
 * chunk is a difference.
 */
static int64
common_bytes(AbReader *reader, int64 from, int64 until, const char *data)
{
	int64		at = from;

	ab_reader_seek(reader, from);
	while (at < until)
	{
		const char *piece;
		int64		n = next_piece(reader, &piece);

		n = Min(n, until - at);
		if (n > 0 && memcmp(data + (at - from), piece, n) != 0)
			return at - from + ab_common_prefix(piece, data + (at - from), n);
		if (n <= 0)
			break;
		at += n;
	}
	return at - from;
}

/*
 * How many bytes of the value, from "from" on, are those of "data".  whole: the caller reads
 * all that follows, in order, before it relies on that.
 */
int64
ab_reader_common(AbReader *reader, int64 from, const char *data, int64 length, bool whole)
{
	const int64 until = from + Min(length, reader->value->length - from);
	const int64 first = Min(until, from + FIRST_COMPARED);
	int64		common;

	reader->cursor.mode = whole && !reader->value->base.pieces ? AB_READ_COMPARE : AB_READ_TRY;
	/* most values that have nothing in common differ here */
	reader->cursor.needed = FIRST_COMPARED;
	common = common_bytes(reader, from, first, data);
	reader->cursor.needed = 0;
	if (from + common == first)
		common += common_bytes(reader, first, until, data + common);
	return common;
}

/* As ab_reader_read() after ab_reader_common(), but false if a chunk is missing or damaged. */
bool
ab_reader_try_read(AbReader *reader, int64 offset, char *buf, int64 length)
{
	bool		done;

	Assert(offset >= 0 && length >= 0 && offset <= reader->value->length - length);
	if (reader->loaded)
	{
		memcpy(buf, reader->loaded + (offset - reader->loaded_from), length);
		return true;
	}
	ab_reader_seek(reader, offset);
	reader->until = offset + length;
	reader->cursor.needed = length;
	done = copy_pieces(reader, buf, length);
	reader->until = reader->cursor.needed = 0;
	return done;
}

/*
 * The whole value is to be read (see ab_reader_common()): have all bytes from "from" on in memory,
 * for ab_reader_try_read().  False if a chunk is missing or damaged.
 */
bool
ab_reader_load(AbReader *reader, int64 from)
{
	char	   *loaded;

	if (reader->cursor.mode != AB_READ_COMPARE)
		return true;
	loaded = palloc(reader->value->length - from);
	if (!ab_reader_try_read(reader, from, loaded, reader->value->length - from))
		return false;
	reader->loaded = loaded;
	reader->loaded_from = from;
	return true;
}

/*
 * Is "ref" an earlier state of the value that has only been appended to since?  Then a
 * chunk ends where it ends, with its crc.
 */
bool
ab_reader_has_ancestor(AbReader *reader, const AbRef *ref)
{
	const AbRef *base = &reader->value->base;
	const AbChunk *chunk;

	if (ref->relid != base->relid || ref->vid != base->vid ||
		ref->edition != base->edition || ref->pieces != base->pieces || ref->stored >= base->stored)
		return false;
	reader->cursor.mode = AB_READ_COMPARE;
	chunk = ab_chunk_cursor_find(&reader->cursor, base, ref->stored - 1, PG_INT64_MAX);
	return chunk && chunk->off + chunk->length == ref->stored && chunk->crc == ref->crc;
}

/* Compare the next n bytes of two readers, which both have; as memcmp(). */
int
ab_reader_compare(AbReader *a, AbReader *b, int64 n)
{
	const char *x = NULL;
	const char *y = NULL;
	int64		x_left = 0;
	int64		y_left = 0;
	int			result = 0;

	while (result == 0 && n > 0)
	{
		int64		size;

		if (x_left == 0)
			x_left = ab_reader_next(a, &x);
		if (y_left == 0)
			y_left = ab_reader_next(b, &y);
		size = Min(n, Min(x_left, y_left));
		result = memcmp(x, y, size);
		x += size;
		y += size;
		x_left -= size;
		y_left -= size;
		n -= size;
	}
	return result;
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
				 errmsg("cannot return %lld bytes of an appendable value at once",
						(long long) length),
				 errhint("Read it in slices, with substr().")));
	result = palloc(length + VARHDRSZ);
	SET_VARSIZE(result, length + VARHDRSZ);
	reader = ab_reader_open(datum);
	ab_reader_read(reader, offset, VARDATA(result), length);
	ab_reader_close(reader);
	return result;
}

/* All of it. */
bytea *
ab_read_whole(Datum datum)
{
	AbValue		value;
	bytea	   *result;

	ab_parse(datum, &value);
	if (value.base.vid == 0)
	{
		/* an -> takes 3,279 instructions instead of 3,848 with a reader */
		Assert(value.nsegments <= 1);
		result = palloc(value.length + VARHDRSZ);
		SET_VARSIZE(result, value.length + VARHDRSZ);
		if (value.length > 0)
			memcpy(VARDATA(result), value.segments[0].data, value.length);
	}
	else
		result = ab_read_bytea(datum, 0, value.length);
	ab_value_free(&value);
	return result;
}

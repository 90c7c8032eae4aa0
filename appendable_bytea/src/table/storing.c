/*-------------------------------------------------------------------------
 *
 * storing.c
 *	  Convert a value computed by a statement into the datum to be stored.
 *
 * For each column of the type, the access method calls ab_storing_decide(), which
 * writes nothing; then, after locking the row if any column writes chunks,
 * ab_storing_write(), which writes them and returns the datum; and, once the row is
 * stored, ab_storing_finish(), which deletes the chunks that the new row version
 * supersedes.  So chunks exist before any row version that refers to them, as TOAST
 * rows do (heaptoast.c): whoever finds the row, even in progress, finds them.
 *
 * Invariant I1: A stored reference names the table in which it is stored.
 * Invariant I2: A row version continues the chunks of value v only if the version
 * that it replaces contains a reference to v, and then from exactly that reference;
 * or if v was created by the call that stores the row.  Any other value is copied to
 * a new value.  Consequently, v belongs to a single chain of row versions, along
 * which either "stored" or the edition increases.  The row version owns v's chunks:
 * they are deleted in the transaction that deletes the row version or replaces it by
 * one without v, or without them.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"

#include "table/table.h"

/* The smallest append that becomes a chunk at once. */
#define DIRECT_MIN			200

/* That, and inline bytes, in a table that is decoded logically. */
#define LOGGED_DIRECT_MIN	48
#define LOGGED_TAIL_MAX		96

/* Bytes at the end of a new value that stay in the row, at most. */
#define CLOSING_MAX			16

/* A shorter value is read once, from the front, for the one that replaces it. */
#define READ_ONCE_MAX		262144

/* Bytes that a row of the table gathers before they become a chunk. */
int
ab_tail_max_of(const AbTarget *target)
{
	return target->logged ? Min(ab_tail_max, LOGGED_TAIL_MAX) : ab_tail_max;
}

/* Bytes that become a chunk at once. */
int
ab_direct_min_of(const AbTarget *target)
{
	return target->logged ? LOGGED_DIRECT_MIN : DIRECT_MIN;
}

/*
 * Bytes to keep for an inline part of n bytes, so that it keeps its size over the
 * next appends; 0 for no padding.
 */
int64
ab_room_for(const AbTarget *target, int64 n)
{
	int64		room = 32;

	if (target->logged || target->temporary || n == 0)
		return 0;
	while (room <= n)
		room *= 2;
	if (room > ab_tail_max + 1)
		room = Max(ab_tail_max + 1, n + 1);
	return room;
}

/* Make a value continue the chunks of the old one, with n literal bytes after them. */
static void
set_tail(AbStoring *storing, const char *tail, int64 n)
{
	AbValue    *value = &storing->value;
	const AbValue *old = &storing->old;

	value->base = old->base;
	value->length = ab_chunk_bytes(old);
	value->segments = palloc((old->nsegments + 1) * sizeof(AbSegment));
	value->nsegments = ab_cut_out_segments(old, 0, value->length, value->segments);
	if (n > 0)
		ab_add_segment(value, -1, n, tail);
}

/*
 * A value that was sent whole continues the chunks of the old one: how many bytes at its
 * end stay in the row, because the old row has them at its end as well?  What an
 * application puts before them is then an append, also the next time.
 */
static int64
common_end(const AbTarget *target, const AbValue *value, const AbValue *old)
{
	int64		most = target->logged ? ab_tail_max_of(target) : AB_KEPT_END_MAX;
	const AbSegment *tail = &value->segments[value->nsegments - 1];
	const AbSegment *old_tail = &old->segments[old->nsegments - 1];

	if (!ab_store_differences || tail->source >= 0 || old_tail->source >= 0)
		return 0;
	/* an append to the row's tail is no other than any */
	if (tail->length >= old_tail->length && memcmp(tail->data, old_tail->data, old_tail->length) == 0)
		return 0;
	return ab_common_suffix(tail->data + tail->length, old_tail->data + old_tail->length,
							Min(Min(tail->length, old_tail->length), most));
}

/*
 * Let a value that does not refer to the chunks of the row version that it replaces
 * continue them, if it has their bytes.  Two kinds of values do:
 *
 * A flat value that starts with these bytes.  An application, or a subscriber of
 * logical replication, that sends values whole appends to them at the cost of a read.
 *
 * A reference to an ancestor: the row's value before others, or this transaction,
 * appended to it.  A variable that is appended to in a loop and UPDATE ... FROM after
 * a concurrent append store it.  Only the bytes appended since need be compared; if
 * they differ, the value is an edit of the row's, which truncates or overwrites it.
 *
 * A damaged old value is no reason to refuse the new one, which may be there to
 * replace it.
 */
static void
continue_old_value(AbStoring *storing, const AbTarget *target)
{
	AbValue    *value = &storing->value;
	AbValue    *old = &storing->old;
	const int64 stored = ab_chunk_bytes(old);
	AbReader   *reader;
	const char *data = NULL;
	int64		length = 0;

	if (!OidIsValid(ab_store_find(old->base.relid)))
		return;
	if (value->nsegments > 0 && value->segments[value->nsegments - 1].source < 0)
	{
		data = value->segments[value->nsegments - 1].data;
		length = value->segments[value->nsegments - 1].length;
	}
	reader = ab_reader_open_value(old);
	if (value->base.vid == 0)
	{
		bool		differences = ab_store_differences && value->length > ab_inline_max;
		int64		common = 0;

		if (differences || length >= stored)
			common = ab_reader_common(reader, 0, data, length, !differences ||
									  old->length <= Min(READ_ONCE_MAX, (int64) ab_difference_memory_kb * 1024));
		if (common >= stored)
		{
			set_tail(storing, data + stored, length - stored);
			storing->kept_end = common_end(target, value, old);
		}
		else if (differences)
			ab_pieces_find(storing, target, reader, common);
	}
	else if (ab_reader_has_ancestor(reader, &value->base))
	{
		bool		continues = !value->edited && ab_pieces_continue(value, old, false);
		int64		known = continues ? ab_chunk_bytes(value) : 0;

		if (continues && length >= stored - known &&
			ab_reader_common(reader, known, data, stored - known, true) == stored - known)
			set_tail(storing, data + (stored - known), length - (stored - known));
		else
		{
			value->base = old->base;
			value->base.counted = false;
			value->edited = true;
		}
	}
	ab_reader_close(reader);
}

static void
decide_flat(AbStoring *storing, const AbTarget *target)
{
	int64		length = storing->value.length;

	if (!storing->has_old || storing->old.base.vid != 0 || length <= storing->old.length)
	{
		/* a new value, not one that grows */
		storing->action = length <= ab_inline_max ? AB_KEEP : AB_NEW_VALUE;
		return;
	}
	storing->grows = true;
	if (length <= ab_tail_max_of(target) && length - storing->old.length < ab_direct_min_of(target))
		storing->action = AB_INLINE;
	else
		storing->action = AB_NEW_VALUE;
}

/*
 * Decide for a value that consists of chunks of the row version that it replaces, and of
 * other bytes.
 */
static void
decide_own(AbStoring *storing, const AbTarget *target)
{
	AbValue    *value = &storing->value;
	AbValue    *old = &storing->old;
	int64		tail;
	int64		old_tail;

	if (!value->edited && value->base.pieces)
	{
		const AbSegment *last = &old->segments[ab_chunk_segments(old) - 1];

		/*
		 * A list that a transaction that failed made is another one; and an
		 * append makes it longer if its last piece is not at the physical end
		 */
		if (!ab_pieces_continue(value, old, true) ||
			(ab_chunk_segments(old) >= ab_max_pieces &&
			 last->source + last->length != old->base.stored))
			value->edited = true;
	}
	if (value->edited)
	{
		if (value->length <= ab_tail_max_of(target))
			storing->action = AB_INLINE;
		else if (storing->compared || ab_pieces_accept(storing, target))
			storing->action = AB_STORE_PIECES;
		else
			storing->action = AB_NEW_VALUE;
		return;
	}
	tail = value->length - ab_chunk_bytes(value);
	old_tail = old->length - ab_chunk_bytes(old);
	storing->grows = true;
	if (tail <= ab_tail_max_of(target) && tail - old_tail < ab_direct_min_of(target))
		storing->action = AB_INLINE;
	else
		storing->action = value->base.pieces ? AB_STORE_PIECES : AB_APPEND;
}

/*
 * Decide what storing "datum" in target takes.  has_old/old: the column in the row
 * version that is replaced.  Keeps pointers to both; writes nothing.
 */
void
ab_storing_decide(AbStoring *storing, const AbTarget *target, Datum datum, bool has_old, Datum old)
{
	AbRef		ref;
	AbValue    *value = &storing->value;

	memset(storing, 0, sizeof(*storing));
	storing->datum = datum;
	storing->counted = target->counted;

	/*
	 * the same stored image?  A damaged one is kept, which is another
	 * column's UPDATE.
	 */
	if (has_old && datumIsEqual(datum, old, false, -1) &&
		(!ab_parse_reference_lenient(datum, true, &ref) || ref.relid == target->relid))
	{
		storing->action = AB_KEEP;
		storing->grows = true;
		return;
	}

	ab_parse(datum, value);
	ab_check_length(value->length);
	if (target->temporary)
	{
		storing->action = value->base.vid == 0 ? AB_KEEP : AB_INLINE;
		return;
	}
	if (target->rewriting && value->base.vid != 0 && !value->edited &&
		value->base.relid == target->relid)
	{
		storing->action = AB_KEEP;
		return;
	}
	/* what is damaged, or was never stored, is not continued */
	has_old = storing->has_old = has_old && ab_parse_stored(old, &storing->old) == NULL;
	if (has_old && storing->old.base.vid != 0 && storing->old.base.relid == target->relid &&
		!ab_same_reference(&value->base, &storing->old.base))
		continue_old_value(storing, target);

	if (value->base.vid == 0)
		decide_flat(storing, target);
	else if (!has_old || value->base.relid != target->relid ||
			 !ab_same_reference(&value->base, &storing->old.base) ||
			 !ab_pieces_within(value, &storing->old))
		storing->action = value->length <= ab_inline_max ? AB_INLINE : AB_NEW_VALUE;
	else
		decide_own(storing, target);
}

/* The whole value as one flat datum. */
static Datum
flatten_value(AbStoring *storing, const AbTarget *target)
{
	char	   *data;
	Datum		result;
	AbReader   *reader;

	if (storing->value.length > AB_MAX_FLAT)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot store an %s value of %lld bytes in a temporary table",
						ab_value_type_name(target->relid), (long long) storing->value.length)));
	result = ab_alloc_flat(storing->value.length, &data);
	reader = ab_reader_open_value(&storing->value);
	ab_reader_read(reader, 0, data, storing->value.length);
	ab_reader_close(reader);
	return result;
}

static Datum
make_inline(AbStoring *storing, const AbTarget *target)
{
	AbValue    *value = &storing->value;
	AbSegment  *last = value->nsegments > 0 ? &value->segments[value->nsegments - 1] : NULL;
	const char *tail = NULL;
	int64		n = 0;

	if (!storing->grows)
		return flatten_value(storing, target);
	if (last && last->source < 0)
	{
		tail = last->data;
		n = last->length;
	}
	return ab_make_stored(value->base.vid != 0 ? &value->base : NULL,
						  value->segments, ab_chunk_segments(value), tail, n, ab_room_for(target, n));
}

/* How many of n new bytes stay inline behind the chunks. */
int64
ab_inline_rest(const AbTarget *target, int64 n)
{
	int64		rest = n % ab_chunk_size;

	if (n <= ab_chunk_size || rest >= ab_direct_min_of(target) || rest > ab_tail_max_of(target))
		return 0;
	return rest;
}

/*
 * Write bytes [from, length) of the value as chunks, except a short rest that stays
 * inline; close the writer and make the datum.
 */
static Datum
write_rest(AbStoring *storing, const AbTarget *target, AbReader *reader, AbWriter *writer,
		   int64 from, int64 rest)
{
	int64		until = storing->value.length - rest;
	char	   *tail = palloc(rest + 1);
	AbRef		ref;

	ab_reader_seek(reader, from);
	while (from < until)
	{
		const char *piece;
		int64		n = ab_reader_next(reader, &piece);

		Assert(n > 0);
		n = Min(n, until - from);
		ab_writer_put(writer, piece, n);
		from += n;
	}
	ab_reader_read(reader, until, tail, rest);
	ab_writer_close(writer, &ref);
	return ab_make_stored(&ref, NULL, 0, tail, rest, storing->has_old ? ab_room_for(target, rest) : 0);
}

/*
 * Write the part of the value that follows a reference to its first chunks; a reference
 * without a value id makes this write all of it under a new id.  By invariant I2, no
 * other transaction continues the reference.  If one did, its first chunk would have the
 * same offset, and the unique index would raise an error.
 */
static Datum
write_after(AbStoring *storing, const AbTarget *target, const AbRef *ref)
{
	int64		n = storing->value.length - ref->stored;
	AbReader   *reader = ab_reader_open_value(&storing->value);
	AbWriter   *writer = ab_writer_open(target->relid, ref, n);
	Datum		result;

	result = write_rest(storing, target, reader, writer, ref->stored,
						storing->kept_end > 0 ? Min(storing->kept_end, n) : ab_inline_rest(target, n));
	ab_reader_close(reader);
	return result;
}

/*
 * How many bytes at a value's end close what JSON has open?  In the row, for an application puts
 * before them what it adds: then that is an append, which takes no list of pieces.
 */
static int
closing_bytes(const AbSegment *last)
{
	int			n = 0;

	while (last->source < 0 && n < Min(last->length - 1, CLOSING_MAX) &&
		   memchr("\"]} \n", last->data[last->length - 1 - n], 5))
		n++;
	return n;
}

/* Write the whole value under a new id, compressed unless it grew to its first chunk. */
static Datum
write_new_value(AbStoring *storing, const AbTarget *target)
{
	AbSegment  *last = &storing->value.segments[storing->value.nsegments - 1];
	AbRef		ref = {.counted = storing->counted};
	AbReader   *reader;

	Assert(storing->value.nsegments > 0);
	if (ab_store_differences)
		storing->kept_end = closing_bytes(last);
	if (storing->grows || !ab_compress_new)
		return write_after(storing, target, &ref);
	last->length -= storing->kept_end;
	storing->value.length -= storing->kept_end;
	reader = ab_reader_open_value(&storing->value);
	ab_write_compressed(target->relid, reader, true, &ref);
	ab_reader_close(reader);
	return ab_make_stored(&ref, NULL, 0, storing->kept_end > 0 ? last->data + last->length : NULL, storing->kept_end, 0);
}

/*
 * The row is stored: delete the chunks that the replaced row version had and the new
 * one does not have.
 */
void
ab_storing_finish(AbStoring *storing, const AbTarget *target)
{
	if (storing->action == AB_STORE_PIECES)
		ab_pieces_finish(storing, target);
}

/* Write what has to be written; the datum to store in the row. */
Datum
ab_storing_write(AbStoring *storing, const AbTarget *target)
{
	switch (storing->action)
	{
		case AB_KEEP:
			return storing->datum;
		case AB_INLINE:
			return make_inline(storing, target);
		case AB_APPEND:
			return write_after(storing, target, &storing->value.base);
		case AB_STORE_PIECES:
			return ab_pieces_write(storing, target);
		case AB_NEW_VALUE:
			return write_new_value(storing, target);
	}
	return (Datum) 0;			/* not reached */
}

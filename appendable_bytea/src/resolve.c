/*-------------------------------------------------------------------------
 *
 * resolve.c
 *	  From the value that a statement computed to the datum that may be stored.
 *
 * The access method calls ab_plan for each column of the type, which writes
 * nothing, and ab_plan_execute once it has the row lock if any plan writes chunks; or
 * ab_plan_execute_later, and ab_plan_finish when the row is stored, if all of them may wait.
 *
 * Invariant I1: a stored reference names the table that it is stored in.
 * Invariant I2: a row version continues the chunks of value v only if the version
 * that it replaces holds exactly that reference, or if the call that stores it
 * made v.  Everything else is copied to a new value.  Hence v sits on one chain of
 * row versions; along it "stored" grows, or the edition does.  And so the row version
 * owns v's chunks: when it is deleted, or replaced by one without v, they are deleted
 * in the same transaction; a rewrite deletes those that it supersedes.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "store.h"

/* The smallest append that becomes a chunk at once. */
#define DIRECT_MIN			200

/* That, and inline bytes, in a table that is decoded logically. */
#define LOGGED_DIRECT_MIN	48
#define LOGGED_TAIL_MAX		96

static int
tail_max(const AbTarget *target)
{
	return target->logged ? Min(ab_tail_max, LOGGED_TAIL_MAX) : ab_tail_max;
}

static int
direct_min(const AbTarget *target)
{
	return target->logged ? LOGGED_DIRECT_MIN : DIRECT_MIN;
}

/*
 * Bytes to keep for an inline part of n bytes, so that it keeps its size over the
 * next appends; 0 for no padding.
 */
static int64
room_for(const AbTarget *target, int64 n)
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

/* Are two datums the same stored image? */
static bool
same_image(Datum a, Datum b)
{
	struct varlena *x = (struct varlena *) DatumGetPointer(a);
	struct varlena *y = (struct varlena *) DatumGetPointer(b);

	return VARSIZE_ANY(x) == VARSIZE_ANY(y) && memcmp(x, y, VARSIZE_ANY(x)) == 0;
}

/*
 * Does a flat value start with the bytes of the reference that it replaces?  Then
 * only what follows need be written: an application, or a subscriber of logical
 * replication, that sends values whole grows them at the cost of a read.  Turns
 * the plan's value into that reference and a tail.  A damaged old value is no reason
 * to refuse the new one, which may be there to replace it.
 */
static bool
recognize_append(AbPlan *plan)
{
	AbValue    *value = &plan->value;
	AbValue    *old = &plan->old;
	AbReader   *reader;
	const char *data;
	const char *piece;
	int64		n;
	int64		at = 0;

	if (value->nsegments != 1 || value->length < old->length ||
		!OidIsValid(ab_store_find(old->base.relid)))
		return false;
	data = value->segments[0].data;
	reader = ab_reader_open_value(old);
	while ((n = ab_reader_try_next(reader, &piece)) > 0)
	{
		if (memcmp(data + at, piece, n) != 0)
			break;
		at += n;
	}
	ab_reader_close(reader);
	if (at != old->length)
		return false;
	value->base = old->base;
	value->segments = value->space;
	value->segments[0].source = 0;
	value->segments[0].length = old->base.stored;
	value->segments[0].data = NULL;
	value->nsegments = 1;
	if (value->length > old->base.stored)
	{
		value->segments[1].source = -1;
		value->segments[1].length = value->length - old->base.stored;
		value->segments[1].data = data + old->base.stored;
		value->nsegments = 2;
	}
	return true;
}

static void
plan_flat(AbPlan *plan, const AbTarget *target)
{
	int64		length = plan->value.length;

	if (!plan->has_old || plan->old.base.vid != 0 || length <= plan->old.length)
	{
		/* a new value, not one that grows */
		plan->action = length <= ab_inline_max ? AB_KEEP : AB_COPY;
		return;
	}
	plan->grows = true;
	if (length <= tail_max(target) && length - plan->old.length < direct_min(target))
		plan->action = AB_INLINE;
	else
		plan->action = AB_COPY;
}

/*
 * Decide what storing "datum" in target takes.  has_old/old: the column in the row
 * version that is replaced.  Keeps pointers to both; writes nothing.
 */
void
ab_plan(AbPlan *plan, const AbTarget *target, Datum datum, bool has_old, Datum old)
{
	AbRef		ref;
	AbValue    *value = &plan->value;

	memset(plan, 0, sizeof(*plan));
	plan->datum = datum;
	if (has_old && same_image(datum, old) &&
		(!ab_parse_reference(datum, &ref) || ref.relid == target->relid))
	{
		plan->action = AB_KEEP;
		return;
	}

	ab_parse(datum, value);
	ab_check_length(value->length);
	if (target->temporary)
	{
		plan->action = value->base.vid == 0 ? AB_KEEP : AB_COPY;
		return;
	}
	if (target->rewriting && value->base.vid != 0 && !value->edited &&
		value->base.relid == target->relid)
	{
		plan->action = AB_KEEP;
		return;
	}
	if (has_old)
	{
		ab_parse(old, &plan->old);
		plan->has_old = true;
	}

	if (value->base.vid == 0 &&
		!(plan->has_old && plan->old.base.vid != 0 &&
		  plan->old.base.relid == target->relid && recognize_append(plan)))
	{
		plan_flat(plan, target);
		return;
	}

	if (!plan->has_old || value->base.relid != target->relid ||
		!ab_same_reference(&value->base, &plan->old.base))
		plan->action = value->length <= ab_inline_max ? AB_INLINE : AB_COPY;
	else if (value->edited)
		plan->action = value->length <= tail_max(target) ? AB_INLINE : AB_REWRITE;
	else
	{
		int64		tail = value->length - value->base.stored;
		int64		old_tail = plan->old.length - plan->old.base.stored;

		plan->grows = true;
		if (tail <= tail_max(target) && tail - old_tail < direct_min(target))
			plan->action = AB_INLINE;
		else
			plan->action = AB_APPEND;
	}
}

/* Will carrying out the plan write chunks? */
bool
ab_plan_writes(const AbPlan *plan)
{
	return plan->action == AB_APPEND || plan->action == AB_REWRITE ||
		plan->action == AB_COPY;
}

/* The whole value as one flat datum. */
static Datum
flatten(AbPlan *plan)
{
	char	   *data;
	Datum		result;
	AbReader   *reader;

	if (plan->value.length > AB_MAX_FLAT)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot store an appendable_bytea value of %lld bytes in a temporary table",
						(long long) plan->value.length)));
	result = ab_alloc_flat(plan->value.length, &data);
	reader = ab_reader_open_value(&plan->value);
	ab_reader_read(reader, 0, data, plan->value.length);
	ab_reader_close(reader);
	return result;
}

static Datum
make_inline(AbPlan *plan, const AbTarget *target)
{
	AbValue    *value = &plan->value;
	AbSegment  *last = value->nsegments > 0 ? &value->segments[value->nsegments - 1] : NULL;
	const char *tail = NULL;
	int64		n = 0;

	if (!plan->grows)
		return flatten(plan);
	if (last && last->source < 0)
	{
		tail = last->data;
		n = last->length;
	}
	return ab_make_stored(value->base.vid != 0 ? &value->base : NULL,
						  tail, n, room_for(target, n));
}

/* Start writing to the store of the table, made if need be, if it is fit to hold that. */
static AbWriter *
open_writer(const AbTarget *target, const AbRef *from, int64 expected)
{
	AbWriter   *writer;

	ab_store_create(target->relid);
	writer = ab_writer_open(target->relid, from, expected);
	if (target->permanent && !target->rewriting && !ab_writer_is_permanent(writer))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("chunk store of table \"%s\" is less durable than the table",
						get_rel_name(target->relid)),
				 errhint("Call appendable_bytea_repair() for the table.")));
	return writer;
}

/* How many of n new bytes stay inline behind the chunks. */
static int64
inline_rest(const AbTarget *target, int64 n)
{
	int64		rest = n % ab_chunk_size;

	if (n <= ab_chunk_size || rest >= direct_min(target) || rest > tail_max(target))
		return 0;
	return rest;
}

/*
 * Write bytes [from, length) of the value as chunks, but for a short rest that
 * stays inline; close the writer and make the datum.
 */
static Datum
write_rest(AbPlan *plan, const AbTarget *target, AbReader *reader, AbWriter *writer,
		   int64 from, int64 rest)
{
	int64		until = plan->value.length - rest;
	char	   *tail = palloc(rest + 1);
	AbRef		ref;
	Datum		result;

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
	result = ab_make_stored(&ref, tail, rest, plan->has_old ? room_for(target, rest) : 0);
	pfree(tail);
	return result;
}

/*
 * Write the value behind a reference to its first chunks; one without a value id writes
 * all of it under a new id.  By invariant I2 nobody else continues the reference.  If that
 * were wrong, the other one's first chunk would have this offset and edition too, and the
 * unique index would stop us: no need to look.
 */
static Datum
write_behind(AbPlan *plan, const AbTarget *target, const AbRef *ref)
{
	int64		n = plan->value.length - ref->stored;
	AbReader   *reader;
	AbWriter   *writer;
	Datum		result;

	reader = ab_reader_open_value(&plan->value);
	writer = open_writer(target, ref, n);
	result = write_rest(plan, target, reader, writer, ref->stored, inline_rest(target, n));
	ab_reader_close(reader);
	return result;
}

/* Write the whole value under a new id. */
static Datum
copy_value(AbPlan *plan, const AbTarget *target)
{
	AbRef		none = {0};

	return target->temporary ? flatten(plan) : write_behind(plan, target, &none);
}

/*
 * Can the row be stored before what the plan writes?  Then the update of the row
 * itself is what keeps others from continuing the value, and no lock needs to be
 * taken and logged before.  That is for one chunk that continues a value, the usual
 * append: it needs nothing but a reference that can be told in advance.  Logical
 * decoding must find chunks when it meets their row, so there they come first.
 */
bool
ab_plan_deferrable(const AbPlan *plan, const AbTarget *target)
{
	return plan->action == AB_APPEND && !target->logged && !target->rewriting &&
		plan->value.nsegments == 2 && plan->value.segments[1].length < ab_chunk_size &&
		OidIsValid(ab_store_find(target->relid));
}

/*
 * Make the chunk that ab_plan_deferrable() allows to be written later, and the datum to
 * store.  ab_plan_finish() must be called when the row is stored, or is not.
 */
Datum
ab_plan_execute_later(AbPlan *plan, const AbTarget *target)
{
	AbSegment  *tail = &plan->value.segments[1];
	AbRef		ref;

	plan->writer = open_writer(target, &plan->value.base, tail->length);
	ab_writer_put(plan->writer, tail->data, tail->length);
	ab_writer_seal(plan->writer, &ref);
	return ab_make_stored(&ref, NULL, 0, 0);
}

/* Delete what the row version that was replaced had and the new one has not. */
static void
delete_superseded(AbPlan *plan, const AbTarget *target)
{
	int64		vid = plan->value.base.vid;
	ListCell   *lc;

	foreach(lc, plan->overwritten)
	{
		int64		off = *(int64 *) lfirst(lc);

		if (off < plan->cut)
			ab_chunks_delete(target->relid, vid, off, off + 1, plan->edition);
	}
	ab_chunks_delete(target->relid, vid, plan->cut, PG_INT64_MAX, plan->edition);
}

/*
 * The row was stored, or not: write what waited for it, and delete the chunks that it
 * superseded.
 */
void
ab_plan_finish(AbPlan *plan, const AbTarget *target, bool stored)
{
	AbRef		ref;

	if (plan->writer && stored)
		ab_writer_close(plan->writer, &ref);
	else if (plan->writer)
		ab_writer_abandon(plan->writer);
	plan->writer = NULL;
	if (stored && plan->edition > 0)
		delete_superseded(plan, target);
}

/*
 * Write a chunk anew, and note that it supersedes the one that was there.  What was
 * compressed becomes as many plain chunks as it takes: none of them may be covered by it.
 */
static void
overwrite_chunk(AbPlan *plan, AbWriter *writer, int64 off, const char *data, int length)
{
	int64	   *superseded = palloc(sizeof(int64));

	for (int done = 0; done < length; done += AB_CHUNK_MAX)
		ab_writer_overwrite(writer, off + done, data + done, Min(length - done, AB_CHUNK_MAX));
	*superseded = off;
	plan->overwritten = lappend(plan->overwritten, superseded);
}

/*
 * Write, once each, the chunks before "kept" that literal bytes fall into; and
 * last, if asked for, the one that ends at "kept", so that the writer ends with the
 * crc of the chunk at the value's end as every write does.
 */
static void
overwrite_chunks(AbPlan *plan, AbReader *reader, AbWriter *writer, int64 kept, bool to_end)
{
	AbValue    *value = &plan->value;
	char	   *buf = palloc(AB_COMPRESSED_MAX);
	int64		position = 0;
	int64		done = 0;

	for (int i = 0; i < value->nsegments && position < kept; i++)
	{
		int64		end = position + value->segments[i].length;
		int64		at = Max(position, done);

		position = end;
		if (value->segments[i].source >= 0)
			continue;
		while (at < Min(end, kept))
		{
			AbChunk		chunk = *ab_reader_chunk(reader, at);

			ab_reader_read(reader, chunk.off, buf, chunk.length);
			overwrite_chunk(plan, writer, chunk.off, buf, chunk.length);
			at = done = chunk.off + chunk.length;
		}
	}
	if (to_end && done < kept)
	{
		const AbChunk *chunk = ab_reader_chunk(reader, kept - 1);

		memcpy(buf, chunk->data, chunk->length);
		overwrite_chunk(plan, writer, chunk->off, buf, chunk->length);
	}
	pfree(buf);
}

/*
 * Store an edit of the value that the replaced row version holds, under the next
 * edition.  Chunks in front of the first byte that moved or is cut off stay where
 * they are; those among them that were written to are written anew, and what
 * follows is written behind them.  By invariant I2 nobody else writes that edition, but
 * who was rolled back.
 */
static Datum
rewrite_value(AbPlan *plan, const AbTarget *target)
{
	AbValue    *value = &plan->value;
	AbRef		from = value->base;
	int64		in_place = 0;
	int64		kept = from.stored;
	int64		rest;
	AbReader   *reader;
	AbWriter   *writer;
	Datum		result;

	for (int i = 0; i < value->nsegments; i++)
	{
		if (value->segments[i].source >= 0 && value->segments[i].source != in_place)
			break;
		in_place += value->segments[i].length;
	}

	reader = ab_reader_open_value(value);
	if (in_place < from.stored)
		kept = ab_reader_chunk(reader, in_place)->off;
	rest = value->length - kept;
	if (kept == 0 || from.edition >= PG_INT32_MAX)
	{
		ab_reader_close(reader);
		return copy_value(plan, target);
	}
	if (rest > tail_max(target))
		rest = inline_rest(target, rest);

	from.edition++;
	from.stored = kept;
	plan->edition = from.edition;
	plan->cut = kept;
	writer = open_writer(target, &from, value->length - kept);
	overwrite_chunks(plan, reader, writer, kept, value->length - rest == kept);
	result = write_rest(plan, target, reader, writer, kept, rest);
	ab_reader_close(reader);
	return result;
}

/* Do what was planned; the datum to store. */
Datum
ab_plan_execute(AbPlan *plan, const AbTarget *target)
{
	switch (plan->action)
	{
		case AB_KEEP:
			return plan->datum;
		case AB_INLINE:
			return make_inline(plan, target);
		case AB_APPEND:
			return write_behind(plan, target, &plan->value.base);
		case AB_REWRITE:
			return rewrite_value(plan, target);
		case AB_COPY:
			return copy_value(plan, target);
	}
	return (Datum) 0;			/* not reached */
}

/*-------------------------------------------------------------------------
 *
 * edit.c
 *	  Edits of appendable_bytea: values in memory only, made of ranges of a stored
 *	  value and of new bytes.
 *
 * The functions of the type that change a value make one with ab_append or ab_splice;
 * the access method stores what it says.  As pure as datum.c.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "value/value.h"

/* AB_EDIT after the reference: length, number of segments, the segments */
#define EDIT_FIXED_SIZE		(8 + 4)
#define EDIT_SEGMENT_SIZE	16

/* Decode the segments of an edit. */
void
ab_parse_edit(const char *p, int64 n, AbValue *value)
{
	int64		length;
	int32		count;
	const char *end = p + n;
	const char *table = p + ab_read_reference(p, n, &value->base) + EDIT_FIXED_SIZE;
	const char *literal;

	if (table > end)
		ab_report_corrupted("The edit is truncated.");
	memcpy(&length, table - EDIT_FIXED_SIZE, 8);
	memcpy(&count, table - 4, 4);
	if (count < 1 || count > (end - table) / EDIT_SEGMENT_SIZE)
		ab_report_corrupted("The edit has a wrong number of segments.");
	literal = table + (int64) count * EDIT_SEGMENT_SIZE;
	value->edited = true;
	value->segments = palloc_extended(count * sizeof(AbSegment), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
	{
		int64		source,
					len;

		memcpy(&source, table + (int64) i * EDIT_SEGMENT_SIZE, 8);
		memcpy(&len, table + (int64) i * EDIT_SEGMENT_SIZE + 8, 8);
		if (len <= 0 || len > AB_MAX_LENGTH || source < -1 ||
			value->length + len > AB_MAX_LENGTH)
			ab_report_corrupted("A segment of the edit is impossible.");
		if (source < 0)
		{
			if (len > end - literal)
				ab_report_corrupted("A segment of the edit exceeds its data.");
			ab_add_segment(value, -1, len, literal);
			literal += len;
		}
		else
		{
			if (source > value->base.stored - len)
				ab_report_corrupted("A segment of the edit exceeds the stored value.");
			ab_add_segment(value, source, len, NULL);
		}
	}
	if (value->length != length || literal != end)
		ab_report_corrupted("The edit's length is wrong.");
	if (value->base.continuations > length - ab_literal_bytes(value->segments, count))
		ab_report_corrupted("The edit's number of characters is wrong.");
}

/* The segments of a value, which is no edit, before its tail: all are of chunks. */
int
ab_chunk_segments(const AbValue *value)
{
	int			n = value->nsegments;

	Assert(!value->edited);
	return n > 0 && value->segments[n - 1].source < 0 ? n - 1 : n;
}

/* Bytes of a value, which is no edit, that are in chunks. */
int64
ab_chunk_bytes(const AbValue *value)
{
	int			n = ab_chunk_segments(value);

	return value->length - (n < value->nsegments ? value->segments[n].length : 0);
}

/* How many first bytes two values take from the same places of the same chunks. */
int64
ab_shared_bytes(const AbValue *a, const AbValue *b)
{
	int64		shared = 0;

	for (int i = 0; i < a->nsegments && i < b->nsegments; i++)
	{
		const AbSegment *s = &a->segments[i];
		const AbSegment *t = &b->segments[i];

		if (s->source < 0 || s->source != t->source)
			break;
		shared += Min(s->length, t->length);
		if (s->length != t->length)
			break;
	}
	return shared;
}

/* Join literal segments that follow each other in memory, and pieces that touch; returns how many remain. */
int
ab_join_segments(AbSegment *segments, int count)
{
	int			n = 0;

	for (int i = 0; i < count; i++)
	{
		AbSegment  *s = &segments[i];
		AbSegment  *last = n > 0 ? &segments[n - 1] : NULL;

		if (s->length == 0)
			continue;
		if (last && last->source >= 0 && s->source == last->source + last->length)
			last->length += s->length;
		else if (last && last->source < 0 && s->source < 0 && last->data + last->length == s->data)
			last->length += s->length;
		else
			segments[n++] = *s;
	}
	return n;
}

/* Bytes of the literal segments. */
int64
ab_literal_bytes(const AbSegment *segments, int count)
{
	int64		result = 0;

	for (int i = 0; i < count; i++)
		result += segments[i].source < 0 ? segments[i].length : 0;
	return result;
}

/*
 * Encode base + segments in the simplest form that says the same.  The segments
 * are joined in place.
 */
static Datum
encode_value(const AbRef *base, AbSegment *segments, int count)
{
	int			n = ab_join_segments(segments, count);
	int64		literals = ab_literal_bytes(segments, n);
	int64		length = literals;
	bool		chunks;
	bool		plain;
	struct varlena *result;
	char	   *literal;

	for (int i = 0; i < n; i++)
		length += segments[i].source >= 0 ? segments[i].length : 0;
	chunks = length > literals;
	ab_check_length(length);

	/*
	 * a list may be changed only by the access method, which counts the
	 * changes
	 */
	plain = chunks && !base->pieces && segments[0].source == 0 && segments[0].length == base->stored;
	for (int i = 1; i < n; i++)
		plain = plain && segments[i].source < 0;

	if (!chunks || plain)
		literal = ab_alloc_stored(plain ? base : NULL, NULL, 0, false, literals, &result);
	else
	{
		int32		nsegments = n;
		char	   *table = ab_alloc_datum(ab_reference_size(base) + EDIT_FIXED_SIZE +
										   (int64) n * EDIT_SEGMENT_SIZE + literals, &result);

		table = ab_write_reference(table, base->pieces ? AB_EDIT_PIECES : AB_EDIT, base);
		memcpy(table, &length, 8);
		memcpy(table + 8, &nsegments, 4);
		table += EDIT_FIXED_SIZE;
		for (int i = 0; i < n; i++)
		{
			memcpy(table + (int64) i * EDIT_SEGMENT_SIZE, &segments[i].source, 8);
			memcpy(table + (int64) i * EDIT_SEGMENT_SIZE + 8, &segments[i].length, 8);
		}
		literal = table + (int64) n * EDIT_SEGMENT_SIZE;
	}
	for (int i = 0; i < n; i++)
	{
		if (segments[i].source < 0)
		{
			memcpy(literal, segments[i].data, segments[i].length);
			literal += segments[i].length;
		}
	}
	return PointerGetDatum(result);
}

/* The segments of bytes [from, until) of a value; returns how many. */
int
ab_cut_out_segments(const AbValue *value, int64 from, int64 until, AbSegment *segments)
{
	int			n = 0;
	int64		position = 0;

	for (int i = 0; i < value->nsegments; i++)
	{
		AbSegment	s = value->segments[i];
		int64		skip = Max(from - position, 0);
		int64		end = Min(until - position, s.length);

		position += s.length;
		if (skip >= end)
			continue;
		if (s.source >= 0)
			s.source += skip;
		else
			s.data += skip;
		s.length = end - skip;
		segments[n++] = s;
	}
	return n;
}

/* ab_splice_counted for a value that is taken apart already. */
static Datum
splice_value(AbValue *value, int64 offset, int64 removed, const char *data, int64 length, int64 continuations)
{
	/* one of the value's segments may come in two parts */
	AbSegment  *segments = palloc((value->nsegments + 2) * sizeof(AbSegment));
	int			n;
	Datum		result;

	if (offset < 0 || removed < 0 || length < 0 ||
		removed > value->length || offset > value->length - removed)
		elog(ERROR, "splice of %lld bytes at %lld is outside a value of %lld bytes",
			 (long long) removed, (long long) offset, (long long) value->length);
	n = ab_cut_out_segments(value, 0, offset, segments);
	segments[n].source = -1;
	segments[n].length = length;
	segments[n++].data = data;
	n += ab_cut_out_segments(value, offset + removed, value->length, segments + n);
	if (continuations > value->base.continuations)
		ab_report_corrupted("The reference's number of characters is wrong.");
	if (continuations >= 0)
		value->base.continuations -= continuations;
	else if (value->length - ab_literal_bytes(value->segments, value->nsegments) !=
			 value->length - removed + length - ab_literal_bytes(segments, n))
		value->base.counted = false;
	result = encode_value(&value->base, segments, n);
	pfree(segments);
	return result;
}

/* value || data; see value.h. */
Datum
ab_append(Datum datum, const char *data, int64 length)
{
	AbValue		value;
	Datum		result;

	ab_parse(datum, &value);
	if (value.edited)
		result = splice_value(&value, value.length, 0, data, length, -1);
	else
	{
		/* chunks and a tail at most: this is what every append does */
		int			nchunks = ab_chunk_segments(&value);
		int64		tail = value.nsegments > nchunks ? value.segments[nchunks].length : 0;
		const char *old = tail > 0 ? value.segments[nchunks].data : NULL;
		struct varlena *v;
		char	   *p;

		Assert(length >= 0);
		ab_check_length(value.length + length);
		p = ab_alloc_stored(value.base.vid != 0 ? &value.base : NULL, value.segments, nchunks, false,
							tail + length, &v);
		if (tail > 0)
			memcpy(p, old, tail);
		if (length > 0)
			memcpy(p + tail, data, length);
		result = PointerGetDatum(v);
	}
	ab_value_free(&value);
	return result;
}

/* Replace a range; see value.h. */
Datum
ab_splice_counted(Datum datum, int64 offset, int64 removed, const char *data, int64 length, int64 continuations)
{
	AbValue		value;
	Datum		result;

	ab_parse(datum, &value);
	result = splice_value(&value, offset, removed, data, length, continuations);
	ab_value_free(&value);
	return result;
}

Datum
ab_splice(Datum datum, int64 offset, int64 removed, const char *data, int64 length)
{
	return ab_splice_counted(datum, offset, removed, data, length, -1);
}

/* Characters of a value in UTF8; see value.h. */
int64
ab_characters(const AbValue *value)
{
	int64		result = value->length - value->base.continuations;

	if (value->base.vid != 0 && !value->base.counted)
		return -1;
	for (int i = 0; i < value->nsegments; i++)
	{
		if (value->segments[i].source < 0)
			result -= ab_count_continuations(value->segments[i].data, value->segments[i].length);
	}
	return result;
}

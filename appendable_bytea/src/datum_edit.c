/*-------------------------------------------------------------------------
 *
 * datum_edit.c
 *	  Values made of others: appended to, or with a range replaced.
 *
 * As pure as datum.c, whose encodings it puts together: no chunk is read or written.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "appendable.h"
#include "datum.h"
#include "store.h"

/*
 * Encode base + segments in the simplest form that says the same.  The segments
 * are merged in place where they touch.
 */
static Datum
encode(const AbRef *base, AbSegment *segments, int count)
{
	int			n = 0;
	int64		length = 0,
				literals = 0;
	bool		chunks = false;
	bool		plain;
	struct varlena *result;
	char	   *p,
			   *literal;

	for (int i = 0; i < count; i++)
	{
		AbSegment  *s = &segments[i];

		if (s->length == 0)
			continue;
		length += s->length;
		if (s->source < 0)
			literals += s->length;
		else
			chunks = true;
		if (n > 0 && s->source >= 0 && segments[n - 1].source >= 0 &&
			segments[n - 1].source + segments[n - 1].length == s->source)
			segments[n - 1].length += s->length;
		else
			segments[n++] = *s;
	}
	ab_check_length(length);

	plain = chunks && segments[0].source == 0 && segments[0].length == base->stored;
	for (int i = 1; i < n; i++)
		plain = plain && segments[i].source < 0;

	if (!chunks)
	{
		p = ab_datum_alloc(1 + literals, &result);
		p[0] = AB_FLAT;
		literal = p + 1;
	}
	else if (plain)
	{
		p = ab_datum_alloc(AB_REF_SIZE + literals, &result);
		ab_datum_write_reference(p, AB_REF, base);
		literal = p + AB_REF_SIZE;
	}
	else
	{
		int32		nsegments = n;
		char	   *table;

		p = ab_datum_alloc(EDIT_FIXED_SIZE + (int64) n * EDIT_SEGMENT_SIZE + literals, &result);
		ab_datum_write_reference(p, AB_EDIT, base);
		memcpy(p + AB_REF_SIZE, &length, 8);
		memcpy(p + AB_REF_SIZE + 8, &nsegments, 4);
		table = p + EDIT_FIXED_SIZE;
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

/* value || data; see appendable.h. */
Datum
ab_append(Datum datum, const char *data, int64 length)
{
	int64		n;
	void	   *copy;
	char	   *old = ab_datum_payload(datum, &n, &copy);
	char		format;
	int64		head;
	AbRef		ref = {0};
	struct varlena *result;
	char	   *p;

	switch (old[0])
	{
		case AB_FLAT:
		case AB_FLAT_PADDED:
			format = AB_FLAT;
			head = 1;
			break;
		case AB_REF:
		case AB_REF_PADDED:
			format = AB_REF;
			head = AB_REF_SIZE;
			ab_datum_read_reference(old, n, &ref);
			break;
		default:
			{
				AbValue		value;

				ab_parse(datum, &value);
				return ab_splice_value(&value, value.length, 0, data, length);
			}
	}

	/* the common case: what there is without its padding, then the new bytes */
	if (old[0] != format)
		n = head + ab_datum_unpadded(old + head, n - head);
	ab_check_length(ref.stored + n - head + length);
	p = ab_datum_alloc(n + length, &result);
	memcpy(p, old, n);
	p[0] = format;
	if (length > 0)
		memcpy(p + n, data, length);
	if (copy)
		pfree(copy);
	return PointerGetDatum(result);
}

/* Replace a range; see appendable.h. */
Datum
ab_splice(Datum datum, int64 offset, int64 removed, const char *data, int64 length)
{
	AbValue		value;

	ab_parse(datum, &value);
	return ab_splice_value(&value, offset, removed, data, length);
}

/* ab_splice for a value that is taken apart already. */
Datum
ab_splice_value(AbValue *value, int64 offset, int64 removed, const char *data, int64 length)
{
	AbSegment  *segments = palloc((value->nsegments + 3) * sizeof(AbSegment));
	int			n = 0;
	int64		position = 0;
	bool		inserted = false;

	if (offset < 0 || removed < 0 || length < 0 ||
		removed > value->length || offset > value->length - removed)
		elog(ERROR, "splice of %lld bytes at %lld is outside a value of %lld bytes",
			 (long long) removed, (long long) offset, (long long) value->length);

	for (int i = 0; i <= value->nsegments; i++)
	{
		AbSegment	s;
		int64		before,
					after;

		if (!inserted && (i == value->nsegments || position + value->segments[i].length > offset))
		{
			/* the part of this segment in front of the new bytes */
			if (i < value->nsegments && position < offset)
			{
				s = value->segments[i];
				s.length = offset - position;
				segments[n++] = s;
			}
			segments[n].source = -1;
			segments[n].length = length;
			segments[n++].data = data;
			inserted = true;
		}
		if (i == value->nsegments)
			break;
		s = value->segments[i];
		before = position;
		after = position + s.length;
		position = after;
		if (after <= offset)
			segments[n++] = s;
		else if (after > offset + removed)
		{
			/* what remains behind the removed range */
			int64		skip = Max(offset + removed - before, 0);

			s.length -= skip;
			if (s.source >= 0)
				s.source += skip;
			else
				s.data += skip;
			segments[n++] = s;
		}
	}
	return encode(&value->base, segments, n);
}

/*-------------------------------------------------------------------------
 *
 * datum.c
 *	  Encodings of appendable_bytea: taking datums apart, putting them together.
 *
 * Everything here is pure: no relation is opened and nothing is written.  The
 * type's functions make values with ab_make_flat, ab_append and ab_splice; the
 * access method makes what goes to disk with ab_make_stored.  Whoever takes a
 * datum apart gets one form, a list of segments, whatever its encoding, and an
 * error for anything that is not exactly what this file writes: a datum may come
 * from a damaged page or from a superuser's cast.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/memutils.h"

#include "value/value.h"

/* AB_EDIT after the reference: length, number of segments, the segments */
#define EDIT_FIXED_SIZE		(AB_REF_SIZE + 8 + 4)
#define EDIT_SEGMENT_SIZE	16

/* padding ends with this byte before the zeros, or has nothing after it */
#define PAD_MARK			((char) 0x80)

static void
report_corrupted(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("invalid appendable_bytea value"),
			 errdetail_internal("%s", detail)));
}

/* Raise an error if a value may not be that long. */
void
ab_check_length(int64 length)
{
	int64		most = (int64) ab_max_size_mb * 1024 * 1024;

	if (length > most)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("appendable value of %lld bytes is too large",
						(long long) length),
				 errdetail("The limit is %lld bytes.", (long long) most),
				 errhint("Raise appendable_bytea.max_size. A value beyond 1 GB can only be read in slices, so that pg_dump cannot dump it.")));
}

/*
 * The payload of a datum, fetched and decompressed if need be: then *copy is what has
 * to be freed, else it is NULL.
 */
static char *
detoast_payload(Datum datum, int64 *length, void **copy)
{
	struct varlena *v = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(datum));

	*copy = v == (struct varlena *) DatumGetPointer(datum) ? NULL : v;
	*length = VARSIZE_ANY_EXHDR(v);
	if (*length < 1)
		report_corrupted("The value has no format byte.");
	return VARDATA_ANY(v);
}

/* Length of what precedes the padding of n bytes. */
static int64
unpadded_length(const char *data, int64 n)
{
	uint64		word;

	while (n >= (int64) sizeof(word))
	{
		memcpy(&word, data + n - sizeof(word), sizeof(word));
		if (word != 0)
			break;
		n -= sizeof(word);
	}
	while (n > 0 && data[n - 1] == 0)
		n--;
	if (n == 0 || data[n - 1] != PAD_MARK)
		report_corrupted("The padding is not terminated.");
	return n - 1;
}

/* False if it is not one that was ever written. */
static bool
decode_reference(const char *p, AbRef *ref)
{
	memcpy(&ref->relid, p + 1, 4);
	memcpy(&ref->vid, p + 5, 8);
	memcpy(&ref->stored, p + 13, 8);
	memcpy(&ref->crc, p + 21, 4);
	memcpy(&ref->edition, p + 25, 4);
	return OidIsValid(ref->relid) && ref->vid > 0 && ref->stored > 0 &&
		ref->stored <= AB_MAX_LENGTH;
}

static void
read_reference(const char *p, int64 n, AbRef *ref)
{
	if (n < AB_REF_SIZE)
		report_corrupted("The reference is truncated.");
	if (!decode_reference(p, ref))
		report_corrupted("The reference is not one that was ever written.");
}

static void
write_reference(char *p, char format, const AbRef *ref)
{
	p[0] = format;
	memcpy(p + 1, &ref->relid, 4);
	memcpy(p + 5, &ref->vid, 8);
	memcpy(p + 13, &ref->stored, 8);
	memcpy(p + 21, &ref->crc, 4);
	memcpy(p + 25, &ref->edition, 4);
}

static void
add_segment(AbValue *value, int64 source, int64 length, const char *data)
{
	AbSegment  *s = &value->segments[value->nsegments++];

	s->source = source;
	s->length = length;
	s->data = data;
	value->length += length;
}

/* Decode the segments of an edit. */
static void
parse_edit(const char *p, int64 n, AbValue *value)
{
	int64		length;
	int32		count;
	const char *table = p + EDIT_FIXED_SIZE;
	const char *literal;

	read_reference(p, n, &value->base);
	if (n < EDIT_FIXED_SIZE)
		report_corrupted("The edit is truncated.");
	memcpy(&length, p + AB_REF_SIZE, 8);
	memcpy(&count, p + AB_REF_SIZE + 8, 4);
	if (count < 1 || count > (n - EDIT_FIXED_SIZE) / EDIT_SEGMENT_SIZE)
		report_corrupted("The edit has a wrong number of segments.");
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
			report_corrupted("A segment of the edit is impossible.");
		if (source < 0)
		{
			if (len > (p + n) - literal)
				report_corrupted("A segment of the edit exceeds its data.");
			add_segment(value, -1, len, literal);
			literal += len;
		}
		else
		{
			if (source > value->base.stored - len)
				report_corrupted("A segment of the edit exceeds the stored value.");
			add_segment(value, source, len, NULL);
		}
	}
	if (value->length != length || literal != p + n)
		report_corrupted("The edit's length is wrong.");
}

/* Take a datum apart; see value.h. */
void
ab_parse(Datum datum, AbValue *value)
{
	int64		n;
	void	   *copy;
	char	   *p = detoast_payload(datum, &n, &copy);
	int64		tail;

	memset(value, 0, sizeof(*value));
	value->copy = copy;
	value->segments = value->space;
	switch (p[0])
	{
		case AB_FLAT:
		case AB_FLAT_PADDED:
			tail = n - 1;
			if (p[0] == AB_FLAT_PADDED)
				tail = unpadded_length(p + 1, tail);
			if (tail > 0)
				add_segment(value, -1, tail, p + 1);
			break;
		case AB_REF:
		case AB_REF_PADDED:
			read_reference(p, n, &value->base);
			tail = n - AB_REF_SIZE;
			if (p[0] == AB_REF_PADDED)
				tail = unpadded_length(p + AB_REF_SIZE, tail);
			add_segment(value, 0, value->base.stored, NULL);
			if (tail > 0)
				add_segment(value, -1, tail, p + AB_REF_SIZE);
			break;
		case AB_EDIT:
			parse_edit(p, n, value);
			break;
		default:
			report_corrupted("The format byte is unknown.");
	}
}

/* Free what ab_parse() allocated. */
void
ab_value_free(AbValue *value)
{
	if (value->segments != value->space)
		pfree(value->segments);
	if (value->copy)
		pfree(value->copy);
}

/*
 * Copy the first bytes of a datum's payload to a buffer of AB_HEADER_SIZE: *n of them,
 * at least one, and *whole bytes in all.
 */
static void
copy_header(Datum datum, char *buf, int64 *n, int64 *whole)
{
	struct varlena *v = (struct varlena *) DatumGetPointer(datum);

	*whole = toast_raw_datum_size(datum) - VARHDRSZ;
	if (VARATT_IS_EXTERNAL(v) || VARATT_IS_COMPRESSED(v))
		v = detoast_attr_slice(v, 0, AB_HEADER_SIZE);
	*n = Min(VARSIZE_ANY_EXHDR(v), AB_HEADER_SIZE);
	if (*n < 1)
		report_corrupted("The value has no format byte.");
	memcpy(buf, VARDATA_ANY(v), *n);
	if (v != (struct varlena *) DatumGetPointer(datum))
		pfree(v);
}

/* Bytes of a padded datum, whose fixed part has "head" bytes, without the padding. */
static int64
unpadded_datum_length(Datum datum, int64 head)
{
	int64		n;
	void	   *copy;
	char	   *p = detoast_payload(datum, &n, &copy);
	int64		length = unpadded_length(p + head, n - head);

	if (copy)
		pfree(copy);
	return length;
}

/* As copy_header(), and the reference that is in it (vid 0: none); returns the encoding. */
static char
header_reference(Datum datum, char *buf, int64 *n, int64 *whole, AbRef *ref)
{
	copy_header(datum, buf, n, whole);
	ref->vid = 0;
	if (buf[0] == AB_REF || buf[0] == AB_REF_PADDED || buf[0] == AB_EDIT)
		read_reference(buf, *n, ref);
	else if (buf[0] != AB_FLAT && buf[0] != AB_FLAT_PADDED)
		report_corrupted("The format byte is unknown.");
	return buf[0];
}

/* The reference alone; see value.h. */
bool
ab_parse_reference(Datum datum, AbRef *ref)
{
	int64		n,
				whole;
	char		p[AB_HEADER_SIZE];

	(void) header_reference(datum, p, &n, &whole, ref);
	return ref->vid != 0;
}

/*
 * The reference of a datum that is stored in a row, as far as it can be understood: a
 * damaged value can be deleted and replaced, and its chunks then belong to no value.
 */
bool
ab_parse_reference_lenient(Datum datum, AbRef *ref)
{
	int64		n,
				whole;
	char		p[AB_HEADER_SIZE];

	if (toast_raw_datum_size(datum) <= VARHDRSZ)
		return false;
	copy_header(datum, p, &n, &whole);
	return (p[0] == AB_REF || p[0] == AB_REF_PADDED) && n >= AB_REF_SIZE &&
		decode_reference(p, ref);
}

/* Bytes of a value; see value.h. */
int64
ab_length(Datum datum)
{
	int64		n,
				whole,
				length;
	char		p[AB_HEADER_SIZE];
	AbRef		ref;

	switch (header_reference(datum, p, &n, &whole, &ref))
	{
		case AB_FLAT:
			return whole - 1;
		case AB_FLAT_PADDED:
			return unpadded_datum_length(datum, 1);
		case AB_REF:
			return ref.stored + whole - AB_REF_SIZE;
		case AB_REF_PADDED:
			return ref.stored + unpadded_datum_length(datum, AB_REF_SIZE);
		default:
			if (n < AB_HEADER_SIZE)
				report_corrupted("The edit is truncated.");
			memcpy(&length, p + AB_REF_SIZE, 8);
			if (length < 0 || length > AB_MAX_LENGTH)
				report_corrupted("The edit's length is wrong.");
			return length;
	}
}

/* Do two references name the same bytes? */
bool
ab_same_reference(const AbRef *a, const AbRef *b)
{
	return a->relid == b->relid && a->vid == b->vid && a->stored == b->stored &&
		a->crc == b->crc && a->edition == b->edition;
}

/* Room for a datum with this payload. */
static char *
alloc_datum(int64 n, struct varlena **result)
{
	if (n > AB_MAX_FLAT + 1)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("appendable value needs %lld bytes in memory, more than a field can have",
						(long long) n),
				 errhint("Append in smaller steps, one UPDATE each.")));
	*result = palloc(n + VARHDRSZ);
	SET_VARSIZE(*result, n + VARHDRSZ);
	return VARDATA(*result);
}

/* Room for a datum of a reference (NULL: none) and n bytes behind it, which are returned. */
static inline char *
alloc_plain(const AbRef *ref, bool padded, int64 n, struct varlena **result)
{
	int64		head = ref ? AB_REF_SIZE : 1;
	char	   *p = alloc_datum(head + n, result);

	if (ref)
		write_reference(p, padded ? AB_REF_PADDED : AB_REF, ref);
	else
		p[0] = padded ? AB_FLAT_PADDED : AB_FLAT;
	return p + head;
}

/* A flat value to be filled in by the caller. */
Datum
ab_alloc_flat(int64 length, char **data)
{
	struct varlena *result;

	ab_check_length(length);
	*data = alloc_plain(NULL, false, length, &result);
	return PointerGetDatum(result);
}

/* A flat value. */
Datum
ab_make_flat(const char *data, int64 length)
{
	char	   *p;
	Datum		result = ab_alloc_flat(length, &p);

	if (length > 0)
		memcpy(p, data, length);
	return result;
}

/*
 * What goes to disk: the reference (NULL: none), then n bytes, then padding so
 * that the inline part takes "room" bytes (0: no padding; else more than n).
 */
Datum
ab_make_stored(const AbRef *ref, const char *tail, int64 n, int64 room)
{
	struct varlena *result;
	char	   *p = alloc_plain(ref, room > 0, room > 0 ? room : n, &result);

	Assert(room == 0 || room > n);
	if (n > 0)
		memcpy(p, tail, n);
	if (room > 0)
	{
		p[n] = PAD_MARK;
		memset(p + n + 1, 0, room - n - 1);
	}
	return PointerGetDatum(result);
}

/*
 * Encode base + segments in the simplest form that says the same.  The segments
 * are merged in place where they touch.
 */
static Datum
encode_value(const AbRef *base, AbSegment *segments, int count)
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
		p = alloc_datum(1 + literals, &result);
		p[0] = AB_FLAT;
		literal = p + 1;
	}
	else if (plain)
	{
		p = alloc_datum(AB_REF_SIZE + literals, &result);
		write_reference(p, AB_REF, base);
		literal = p + AB_REF_SIZE;
	}
	else
	{
		int32		nsegments = n;
		char	   *table;

		p = alloc_datum(EDIT_FIXED_SIZE + (int64) n * EDIT_SEGMENT_SIZE + literals, &result);
		write_reference(p, AB_EDIT, base);
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

/* The segments of bytes [from, until) of a value; returns how many. */
static int
cut_out_segments(const AbValue *value, int64 from, int64 until, AbSegment *segments)
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

/* ab_splice for a value that is taken apart already. */
static Datum
splice_value(AbValue *value, int64 offset, int64 removed, const char *data, int64 length)
{
	/* one of the value's segments may come in two parts */
	AbSegment  *segments = palloc((value->nsegments + 2) * sizeof(AbSegment));
	int			n;
	Datum		result;

	if (offset < 0 || removed < 0 || length < 0 ||
		removed > value->length || offset > value->length - removed)
		elog(ERROR, "splice of %lld bytes at %lld is outside a value of %lld bytes",
			 (long long) removed, (long long) offset, (long long) value->length);
	n = cut_out_segments(value, 0, offset, segments);
	segments[n].source = -1;
	segments[n].length = length;
	segments[n++].data = data;
	n += cut_out_segments(value, offset + removed, value->length, segments + n);
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
		result = splice_value(&value, value.length, 0, data, length);
	else
	{
		/* chunks and a tail at most: this is what every append does */
		const AbRef *ref = value.base.vid != 0 ? &value.base : NULL;
		int64		tail = value.length - value.base.stored;
		struct varlena *v;
		char	   *p;

		Assert(length >= 0 && value.nsegments == (ref != NULL) + (tail > 0));
		ab_check_length(value.length + length);
		p = alloc_plain(ref, false, tail + length, &v);
		if (tail > 0)
			memcpy(p, value.segments[value.nsegments - 1].data, tail);
		if (length > 0)
			memcpy(p + tail, data, length);
		result = PointerGetDatum(v);
	}
	ab_value_free(&value);
	return result;
}

/* Replace a range; see value.h. */
Datum
ab_splice(Datum datum, int64 offset, int64 removed, const char *data, int64 length)
{
	AbValue		value;
	Datum		result;

	ab_parse(datum, &value);
	result = splice_value(&value, offset, removed, data, length);
	ab_value_free(&value);
	return result;
}

/*-------------------------------------------------------------------------
 *
 * datum.c
 *	  Encodings of appendable_bytea: taking datums apart, putting them together.
 *
 * Everything here is pure: no relation is opened and nothing is written.  The
 * type's functions make values with ab_make_flat, ab_append and ab_splice (edit.c); the
 * access method makes stored datums with ab_make_stored.  A function that parses a
 * datum gets one form, a list of segments, whatever its encoding, and an
 * error for anything that is not exactly what this file writes: a datum may come
 * from a damaged page or from a superuser's cast.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"

#include "value/value.h"

/* padding ends with this byte before the zeros, or has nothing after it */
#define PAD_MARK			((char) 0x80)

/* Raise the error for a datum that nothing here wrote. */
void
ab_report_corrupted(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("invalid appendable value"),
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
		ab_report_corrupted("The value has no format byte.");
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
		ab_report_corrupted("The padding is not terminated.");
	return n - 1;
}

/* The encoding that a first byte names, without AB_COUNTED; 0 for none. */
static inline char
encoding_of(char format)
{
	char		encoding = format & ~AB_COUNTED;

	return encoding > AB_EDIT_PIECES || (encoding < AB_REF && encoding != format) ? 0 : encoding;
}

static inline bool
is_padded(char encoding)
{
	return encoding == AB_FLAT_PADDED || encoding == AB_REF_PADDED || encoding == AB_PIECES_PADDED;
}

/* How many bytes an encoding's reference takes. */
int
ab_reference_size(const AbRef *ref)
{
	int			size = AB_REF_SIZE;

	for (int64 rest = ref->continuations; ref->counted && (rest > 0 || size == AB_REF_SIZE); rest >>= 7)
		size++;
	return size;
}

/* Decode a reference at the begin of n bytes; returns how many it takes, 0 if it is not one that was ever written. */
static int
decode_reference(const char *p, int64 n, AbRef *ref)
{
	char		encoding = encoding_of(p[0]);
	int			count = 0;

	ref->pieces = encoding == AB_PIECES || encoding == AB_PIECES_PADDED || encoding == AB_EDIT_PIECES;
	ref->counted = encoding != p[0];
	ref->continuations = 0;
	memcpy(&ref->relid, p + 1, 4);
	memcpy(&ref->vid, p + 5, 8);
	p += 13;
	for (; ref->counted && count < Min(n - AB_REF_SIZE, AB_COUNT_MAX) && (count == 0 || (p[-1] & 0x80)); count++)
		ref->continuations = ref->continuations << 7 | (*p++ & 0x7F);
	memcpy(&ref->stored, p, 8);
	memcpy(&ref->crc, p + 8, 4);
	memcpy(&ref->edition, p + 12, 4);
	/* each change that makes a list, and no other, raises the edition */
	return OidIsValid(ref->relid) && ref->vid > 0 && ref->stored > 0 &&
		ref->stored <= AB_MAX_LENGTH && ref->pieces == (ref->edition > 0) &&
		(!ref->counted || (ref->continuations <= ref->stored && (p[-1] & 0x80) == 0 &&
						   ab_reference_size(ref) == AB_REF_SIZE + count)) ? AB_REF_SIZE + count : 0;
}

/* The reference that a payload of n bytes begins with; returns how many bytes it takes. */
int
ab_read_reference(const char *p, int64 n, AbRef *ref)
{
	int			size;

	if (n < AB_REF_SIZE)
		ab_report_corrupted("The reference is truncated.");
	size = decode_reference(p, n, ref);
	if (size == 0)
		ab_report_corrupted("The reference is not one that was ever written.");
	return size;
}

/*
 * Write the format byte and a reference; returns where it ends.  The last byte of the count is next
 * to the first one of "stored": an append changes these and few others.
 */
char *
ab_write_reference(char *p, char format, const AbRef *ref)
{
	p[0] = ref->counted ? format | AB_COUNTED : format;
	memcpy(p + 1, &ref->relid, 4);
	memcpy(p + 5, &ref->vid, 8);
	p += 13;
	for (int i = ab_reference_size(ref) - AB_REF_SIZE - 1; i >= 0; i--)
		*p++ = (char) ((ref->continuations >> (7 * i) & 0x7F) | (i > 0 ? 0x80 : 0));
	memcpy(p, &ref->stored, 8);
	memcpy(p + 8, &ref->crc, 4);
	memcpy(p + 12, &ref->edition, 4);
	return p + 16;
}

/* How many of n bytes continue a character in UTF8: less than -64 if signed.  Sixteen at once: an all-new 7 kB takes 1.08 of stock's instructions, not 1.105. */
int64
ab_count_continuations(const char *data, int64 n)
{
	typedef signed char Bytes __attribute__((vector_size(16)));
	int64		count = 0;

	while (n >= (int64) sizeof(Bytes))
	{
		Bytes		sums = {0};
		Bytes		limit = sums - 64;
		const char *end = data + Min(n / sizeof(Bytes), SCHAR_MAX) * sizeof(Bytes);

		for (n -= end - data; data < end; data += sizeof(Bytes))
		{
			Bytes		bytes;

			memcpy(&bytes, data, sizeof(bytes));
			sums -= bytes < limit;	/* true is -1 */
		}
		for (int i = 0; i < (int) sizeof(Bytes); i++)
			count += sums[i];
	}
	for (; n > 0; n--)
		count += (*data++ & 0xC0) == 0x80;
	return count;
}

/* Add a segment to a value that has space for it. */
void
ab_add_segment(AbValue *value, int64 source, int64 length, const char *data)
{
	AbSegment  *s = &value->segments[value->nsegments++];

	s->source = source;
	s->length = length;
	s->data = data;
	value->length += length;
}

/* Take a datum apart; see value.h. */
void
ab_parse(Datum datum, AbValue *value)
{
	int64		n;
	void	   *copy;
	char	   *p = detoast_payload(datum, &n, &copy);
	char		encoding = encoding_of(p[0]);
	int64		head = 0;
	int64		tail;

	memset(value, 0, sizeof(*value));
	value->copy = copy;
	value->segments = value->space;
	switch (encoding)
	{
		case AB_FLAT:
		case AB_FLAT_PADDED:
			head = 1;
			break;
		case AB_REF:
		case AB_REF_PADDED:
			head = ab_read_reference(p, n, &value->base);
			ab_add_segment(value, 0, value->base.stored, NULL);
			break;
		case AB_PIECES:
		case AB_PIECES_PADDED:
			head = ab_parse_list(p, n, value);
			break;
		case AB_EDIT:
		case AB_EDIT_PIECES:
			ab_parse_edit(p, n, value);
			return;
		default:
			ab_report_corrupted("The format byte is unknown.");
	}
	tail = is_padded(encoding) ? unpadded_length(p + head, n - head) : n - head;
	if (tail > 0)
		ab_add_segment(value, -1, tail, p + head);
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
		ab_report_corrupted("The value has no format byte.");
	memcpy(buf, VARDATA_ANY(v), *n);
	if (v != (struct varlena *) DatumGetPointer(datum))
		pfree(v);
}

/* As copy_header(), and the reference that is in it (vid 0: none); returns the encoding. */
static char
header_reference(Datum datum, char *buf, int64 *n, int64 *whole, AbRef *ref)
{
	char		encoding;

	copy_header(datum, buf, n, whole);
	encoding = encoding_of(buf[0]);
	ref->vid = 0;
	if (encoding >= AB_REF)
		(void) ab_read_reference(buf, *n, ref);
	else if (encoding != AB_FLAT && encoding != AB_FLAT_PADDED)
		ab_report_corrupted("The format byte is unknown.");
	return encoding;
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
 * edits: also that of an edit, which a table on heap can contain.
 */
bool
ab_parse_reference_lenient(Datum datum, bool edits, AbRef *ref)
{
	int64		n,
				whole;
	char		p[AB_HEADER_SIZE];
	char		encoding;

	if (toast_raw_datum_size(datum) <= VARHDRSZ)
		return false;
	copy_header(datum, p, &n, &whole);
	encoding = encoding_of(p[0]);
	return encoding >= AB_REF && (edits || (encoding != AB_EDIT && encoding != AB_EDIT_PIECES)) &&
		n >= AB_REF_SIZE && decode_reference(p, n, ref) != 0;
}

/* Bytes of a value; see value.h. */
int64
ab_length(Datum datum)
{
	int64		n,
				whole,
				head = 1,
				in_chunks = 0,
				length;
	char		p[AB_HEADER_SIZE];
	char	   *padded;
	void	   *copy;
	AbRef		ref;
	const char	encoding = header_reference(datum, p, &n, &whole, &ref);

	switch (encoding)
	{
		case AB_FLAT:
		case AB_FLAT_PADDED:
			break;
		case AB_REF:
		case AB_REF_PADDED:
			in_chunks = ref.stored;
			head = ab_reference_size(&ref);
			break;
		case AB_PIECES:
		case AB_PIECES_PADDED:
			head = ab_list_header(p, ab_reference_size(&ref), n, whole, &in_chunks);
			break;
		default:
			head = ab_reference_size(&ref);
			if (n < head + 8)
				ab_report_corrupted("The edit is truncated.");
			memcpy(&length, p + head, 8);
			if (length < 0 || length > AB_MAX_LENGTH)
				ab_report_corrupted("The edit's length is wrong.");
			return length;
	}
	if (!is_padded(encoding))
		return in_chunks + whole - head;
	padded = detoast_payload(datum, &n, &copy);
	length = in_chunks + unpadded_length(padded + head, n - head);
	if (copy)
		pfree(copy);
	return length;
}

/* Do two references name the same chunks, and lists of the same change? */
bool
ab_same_reference(const AbRef *a, const AbRef *b)
{
	return a->relid == b->relid && a->vid == b->vid && a->stored == b->stored &&
		a->crc == b->crc && a->edition == b->edition && a->pieces == b->pieces;
}

/* Room for a datum with this payload. */
char *
ab_alloc_datum(int64 n, struct varlena **result)
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

/*
 * Room for a datum that may be stored: the reference (NULL: none), with the list of its pieces
 * if it has one, and n bytes behind that, which are returned.
 */
char *
ab_alloc_stored(const AbRef *ref, const AbSegment *pieces, int npieces, bool padded,
				int64 n, struct varlena **result)
{
	int64		head = ref ? ab_reference_size(ref) : 1;
	char	   *p;

	if (ref && ref->pieces)
		return ab_alloc_list(ref, pieces, npieces, padded, n, result);
	p = ab_alloc_datum(head + n, result);
	if (ref)
		return ab_write_reference(p, padded ? AB_REF_PADDED : AB_REF, ref);
	p[0] = padded ? AB_FLAT_PADDED : AB_FLAT;
	return p + head;
}

/* A flat value to be filled in by the caller. */
Datum
ab_alloc_flat(int64 length, char **data)
{
	struct varlena *result;

	ab_check_length(length);
	*data = ab_alloc_stored(NULL, NULL, 0, false, length, &result);
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
 * Make a datum to be stored: the reference (NULL: none), with the list of its pieces if it has
 * one, then n bytes, then padding so that the inline part takes "room" bytes (0: no
 * padding; else more than n).
 */
Datum
ab_make_stored(const AbRef *ref, const AbSegment *pieces, int npieces,
			   const char *tail, int64 n, int64 room)
{
	struct varlena *result;
	char	   *p = ab_alloc_stored(ref, pieces, npieces, room > 0, room > 0 ? room : n, &result);

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

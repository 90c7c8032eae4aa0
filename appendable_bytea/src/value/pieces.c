/*-------------------------------------------------------------------------
 *
 * pieces.c
 *	  The list of pieces of a value whose chunks are not in the order of its bytes.
 *
 * A value that was changed other than by appends consists of *pieces*: ranges of the
 * chunks of one value id, in the order of the value's bytes.  Positions in chunks are
 * called physical here.  The list is in the row, between the reference and the tail:
 *
 *	chunk bytes (8)		sum of the pieces' lengths
 *	list bytes (2)		length of what follows
 *	pieces				for each: step from the end of the piece before it
 *						(zigzag), length; both as varints
 *
 * A byte in a chunk is in one piece at most, and pieces that touch are one piece.  A
 * list that says anything else was not written here, and is refused.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "value/value.h"

/* what precedes the pieces */
#define LIST_FIXED_SIZE		(8 + 2)

/* The longest varint of a number that a list may contain, below 2^52. */
#define VARINT_MAX			8
#define LIST_MAX			(AB_MAX_PIECES * 2 * VARINT_MAX)

StaticAssertDecl(AB_REF_SIZE + AB_COUNT_MAX + LIST_FIXED_SIZE == AB_HEADER_SIZE, "a header includes the sizes of a list");

static char *
put_varint(char *p, uint64 number)
{
	while (number >= 0x80)
	{
		*p++ = (char) (number | 0x80);
		number >>= 7;
	}
	*p++ = (char) number;
	return p;
}

/* Read a varint that is as short as it can be. */
static const char *
get_varint(const char *p, const char *end, uint64 *number)
{
	uint64		result = 0;

	for (int i = 0; i < VARINT_MAX; i++)
	{
		unsigned char byte;

		if (p == end)
			break;
		byte = (unsigned char) *p++;
		result |= (uint64) (byte & 0x7F) << (7 * i);
		if (byte < 0x80)
		{
			if (byte == 0 && i > 0)
				break;
			*number = result;
			return p;
		}
	}
	ab_report_corrupted("A number of the list of pieces is not one that was ever written.");
	return NULL;
}

/* Write the pieces; returns how many bytes they take. */
static int
encode_pieces(const AbSegment *pieces, int n, char *buf)
{
	char	   *p = buf;
	int64		at = 0;

	Assert(n > 0 && n <= AB_MAX_PIECES);
	for (int i = 0; i < n; i++)
	{
		int64		step = pieces[i].source - at;

		Assert(pieces[i].source >= 0 && pieces[i].length > 0);
		p = put_varint(p, ((uint64) step << 1) ^ (uint64) (step >> 63));
		p = put_varint(p, pieces[i].length);
		at = pieces[i].source + pieces[i].length;
	}
	return p - buf;
}

/*
 * Room for a datum of a reference, its list of pieces, and n bytes behind them, which are
 * returned.
 */
char *
ab_alloc_list(const AbRef *ref, const AbSegment *pieces, int npieces, bool padded, int64 n,
			  struct varlena **result)
{
	char		list[LIST_MAX];
	int			size = encode_pieces(pieces, npieces, list);
	uint16		stored_size = size;
	int64		length = 0;
	char	   *p = ab_alloc_datum(ab_reference_size(ref) + LIST_FIXED_SIZE + size + n, result);

	Assert(ref->pieces);
	for (int i = 0; i < npieces; i++)
		length += pieces[i].length;
	p = ab_write_reference(p, padded ? AB_PIECES_PADDED : AB_PIECES, ref);
	memcpy(p, &length, 8);
	memcpy(p + 8, &stored_size, 2);
	memcpy(p + LIST_FIXED_SIZE, list, size);
	return p + LIST_FIXED_SIZE + size;
}

/*
 * The sizes that a list begins with: *length bytes are in chunks, and what precedes the
 * tail is returned.  n bytes are at p, of "whole", and the list follows a "head" of them.
 */
int64
ab_list_header(const char *p, int64 head, int64 n, int64 whole, int64 *length)
{
	uint16		size;

	if (n < head + LIST_FIXED_SIZE)
		ab_report_corrupted("The list of pieces is truncated.");
	memcpy(length, p + head, 8);
	memcpy(&size, p + head + 8, 2);
	head += LIST_FIXED_SIZE;
	if (size == 0 || size > LIST_MAX || size > whole - head)
		ab_report_corrupted("The list of pieces has an impossible size.");
	if (*length <= 0 || *length > AB_MAX_LENGTH)
		ab_report_corrupted("The length of the pieces is wrong.");
	return head + size;
}

/* Order pieces by their place in the chunks. */
int
ab_compare_sources(const void *a, const void *b)
{
	const AbSegment *x = a;
	const AbSegment *y = b;

	return x->source < y->source ? -1 : x->source > y->source;
}

/* Do two of at most AB_MAX_PIECES segments have a byte in chunks in common? */
bool
ab_segments_overlap(const AbSegment *segments, int n)
{
	AbSegment	sorted[AB_MAX_PIECES];

	Assert(n <= AB_MAX_PIECES);
	memcpy(sorted, segments, n * sizeof(AbSegment));
	qsort(sorted, n, sizeof(AbSegment), ab_compare_sources);
	for (int i = 1; i < n; i++)
	{
		if (sorted[i - 1].source >= 0 && sorted[i].source < sorted[i - 1].source + sorted[i - 1].length)
			return true;
	}
	return false;
}

/* Decode a payload with a list; returns how many bytes precede the tail. */
int64
ab_parse_list(const char *p, int64 n, AbValue *value)
{
	int64		at = 0;
	int64		length;
	int			size = ab_read_reference(p, n, &value->base);
	int64		head = ab_list_header(p, size, n, n, &length);
	const char *end = p + head;

	p += size + LIST_FIXED_SIZE;
	/* a piece takes two bytes at least; and one more, for a tail */
	value->segments = palloc(((end - p) / 2 + 1) * sizeof(AbSegment));
	while (p < end)
	{
		uint64		step;
		uint64		size;
		int64		source;

		if (value->nsegments == AB_MAX_PIECES)
			ab_report_corrupted("The list has too many pieces.");
		p = get_varint(p, end, &step);
		p = get_varint(p, end, &size);
		source = at + ((int64) (step >> 1) ^ -(int64) (step & 1));
		if (size == 0 || size > value->base.stored || source < 0 ||
			source > value->base.stored - (int64) size)
			ab_report_corrupted("A piece exceeds the stored value.");
		if (value->nsegments > 0 && step == 0)
			ab_report_corrupted("Two pieces touch.");
		ab_add_segment(value, source, size, NULL);
		at = source + size;
	}
	if (ab_segments_overlap(value->segments, value->nsegments))
		ab_report_corrupted("Two pieces overlap.");
	if (value->length != length || value->base.continuations > length)
		ab_report_corrupted("The length of the pieces is wrong.");
	return head;
}

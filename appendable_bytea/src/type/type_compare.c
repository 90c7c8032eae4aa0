/*-------------------------------------------------------------------------
 *
 * type_compare.c
 *	  Order and equality of values, among themselves and against bytea.
 *
 * The order is bytea's: byte by byte, a prefix before what it is a prefix of.
 * Two values are read side by side, a chunk of each at a time, and only as far
 * as they agree.  Equality compares the lengths first, and two references to
 * the same log with the same end and checksum are equal without reading it.
 *
 * Every function here has one body for the three combinations of types; the
 * SQL function's argument types tell which argument is a plain bytea.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "type/type.h"

/* The kinds of the two arguments. */
typedef enum Sides
{
	VALUE_VALUE,
	VALUE_BYTES,
	BYTES_VALUE
} Sides;

/* One side of a comparison: a value that is read, or bytes in memory. */
typedef struct Side
{
	Datum		value;
	AbReader   *reader;			/* opened at the first need; NULL for bytes */
	bool		in_memory;
	bytea	   *copy;			/* of bytes that had to be fetched */
	int64		length;
	const char *piece;			/* what is not compared yet of the last piece */
	int64		left;
} Side;

static void
side_init(Side *side, Datum value, bool is_bytea)
{
	memset(side, 0, sizeof(*side));
	side->value = value;
	side->in_memory = is_bytea;
	if (is_bytea)
	{
		bytea	   *bytes = DatumGetByteaPP(value);

		if ((Pointer) bytes != DatumGetPointer(value))
			side->copy = bytes;
		side->piece = VARDATA_ANY(bytes);
		side->left = side->length = VARSIZE_ANY_EXHDR(bytes);
	}
	else
		side->length = ab_length(value);
}

static void
side_open(Side *side)
{
	if (!side->in_memory)
		side->reader = ab_reader_open(side->value);
}

/* Give everything back: a sort compares in memory that lives as long as it does. */
static void
side_end(Side *side)
{
	if (side->reader != NULL)
		ab_reader_close(side->reader);
	if (side->copy)
		pfree(side->copy);
}

/* Have something in "piece"; false at the end. */
static bool
side_fill(Side *side)
{
	if (side->left == 0 && side->reader != NULL)
		side->left = ab_reader_next(side->reader, &side->piece);
	return side->left > 0;
}

/* The same bytes, as far as known without reading a chunk?  See appendable.h. */
bool
ab_identical(Datum a, Datum b)
{
	AbValue		x,
				y;
	bool		identical;

	ab_parse(a, &x);
	ab_parse(b, &y);
	identical = x.length == y.length && x.nsegments == y.nsegments &&
		ab_same_reference(&x.base, &y.base);
	for (int i = 0; identical && i < x.nsegments; i++)
	{
		AbSegment  *s = &x.segments[i];
		AbSegment  *t = &y.segments[i];

		identical = s->source == t->source && s->length == t->length &&
			(s->source >= 0 || memcmp(s->data, t->data, s->length) == 0);
	}
	ab_value_free(&x);
	ab_value_free(&y);
	return identical;
}

/*
 * Compare two values as far as the shorter one goes.  Negative, 0 or positive
 * as for memcmp().
 */
static int
compare_bytes(Side *a, Side *b)
{
	int			result = 0;

	if (!a->in_memory && !b->in_memory && ab_identical(a->value, b->value))
		return 0;
	side_open(a);
	side_open(b);
	while (result == 0 && side_fill(a) && side_fill(b))
	{
		int64		n = Min(a->left, b->left);

		result = memcmp(a->piece, b->piece, n);
		a->piece += n;
		a->left -= n;
		b->piece += n;
		b->left -= n;
	}
	return result;
}

/* The order of two values; if only their equality matters, those of other lengths are not read. */
static int
compare_values(FunctionCallInfo fcinfo, Sides sides, bool equality)
{
	Side		a;
	Side		b;
	int			result = 0;

	side_init(&a, PG_GETARG_DATUM(0), sides == BYTES_VALUE);
	side_init(&b, PG_GETARG_DATUM(1), sides == VALUE_BYTES);
	if (!equality || a.length == b.length)
		result = compare_bytes(&a, &b);
	if (result == 0 && a.length != b.length)
		result = a.length < b.length ? -1 : 1;
	side_end(&a);
	side_end(&b);
	return result < 0 ? -1 : result > 0 ? 1 : 0;
}

static int
compare_sides(FunctionCallInfo fcinfo, Sides sides)
{
	return compare_values(fcinfo, sides, false);
}

static bool
equal_values(FunctionCallInfo fcinfo, Sides sides)
{
	return compare_values(fcinfo, sides, true) == 0;
}

/* The order of the collation, which needs all of both texts; "C" is that of the bytes. */
static int
compare_text(FunctionCallInfo fcinfo, Sides sides)
{
	bytea	   *a;
	bytea	   *b;
	int			result;

	if (PG_GET_COLLATION() == C_COLLATION_OID)
		return compare_sides(fcinfo, sides);
	a = sides == BYTES_VALUE ? PG_GETARG_BYTEA_PP(0) : ab_read_whole(PG_GETARG_DATUM(0));
	b = sides == VALUE_BYTES ? PG_GETARG_BYTEA_PP(1) : ab_read_whole(PG_GETARG_DATUM(1));
	result = varstr_cmp(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
						VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b), PG_GET_COLLATION());
	if ((Pointer) a != DatumGetPointer(PG_GETARG_DATUM(0)))
		pfree(a);
	if ((Pointer) b != DatumGetPointer(PG_GETARG_DATUM(1)))
		pfree(b);
	return result < 0 ? -1 : result > 0 ? 1 : 0;
}

/* Texts are equal if their bytes are, unless the collation says otherwise. */
static bool
equal_texts(FunctionCallInfo fcinfo, Sides sides)
{
	if (OidIsValid(PG_GET_COLLATION()) && get_collation_isdeterministic(PG_GET_COLLATION()))
		return equal_values(fcinfo, sides);
	return compare_text(fcinfo, sides) == 0;
}

/* The order of jsonb, which needs all of both. */
static int
compare_jsonb(FunctionCallInfo fcinfo, Sides sides)
{
	Datum		a;
	Datum		b;
	int			result;

	if (ab_identical(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)))
		return 0;
	a = ab_as_jsonb(PG_GETARG_DATUM(0));
	b = ab_as_jsonb(PG_GETARG_DATUM(1));
	result = compareJsonbContainers(&DatumGetJsonbP(a)->root, &DatumGetJsonbP(b)->root);
	pfree(DatumGetPointer(a));
	pfree(DatumGetPointer(b));
	return result < 0 ? -1 : result > 0 ? 1 : 0;
}

static bool
equal_jsonb(FunctionCallInfo fcinfo, Sides sides)
{
	return compare_jsonb(fcinfo, sides) == 0;
}

#define COMPARISON(name, return_result) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		return_result; \
	} \
	extern Datum name(PG_FUNCTION_ARGS)

#define COMPARISONS(prefix, sides, equal, compare) \
	COMPARISON(prefix##_eq, PG_RETURN_BOOL(equal(fcinfo, sides))); \
	COMPARISON(prefix##_ne, PG_RETURN_BOOL(!equal(fcinfo, sides))); \
	COMPARISON(prefix##_lt, PG_RETURN_BOOL(compare(fcinfo, sides) < 0)); \
	COMPARISON(prefix##_le, PG_RETURN_BOOL(compare(fcinfo, sides) <= 0)); \
	COMPARISON(prefix##_gt, PG_RETURN_BOOL(compare(fcinfo, sides) > 0)); \
	COMPARISON(prefix##_ge, PG_RETURN_BOOL(compare(fcinfo, sides) >= 0)); \
	COMPARISON(prefix##_cmp, PG_RETURN_INT32(compare(fcinfo, sides)))

COMPARISONS(appendable, VALUE_VALUE, equal_values, compare_sides);
COMPARISONS(appendable_bytea, VALUE_BYTES, equal_values, compare_sides);
COMPARISONS(bytea_appendable, BYTES_VALUE, equal_values, compare_sides);
COMPARISONS(appendable_texts, VALUE_VALUE, equal_texts, compare_text);
COMPARISONS(appendable_text, VALUE_BYTES, equal_texts, compare_text);
COMPARISONS(text_appendable, BYTES_VALUE, equal_texts, compare_text);
COMPARISONS(appendable_jsonb, VALUE_VALUE, equal_jsonb, compare_jsonb);

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

/* The same bytes, as far as known without reading a chunk?  See type.h. */
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

/* Open an argument: a value, or the bytes of one that is a bytea. */
static AbReader *
open_side(Datum value, bytea *bytes)
{
	return bytes ? ab_reader_open_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)) : ab_reader_open(value);
}

/* The order of two values; if only their equality matters, those of other lengths are not read. */
static int
compare_values(FunctionCallInfo fcinfo, Sides sides, bool equality)
{
	Datum		a = PG_GETARG_DATUM(0);
	Datum		b = PG_GETARG_DATUM(1);
	bytea	   *a_bytes = sides == BYTES_VALUE ? DatumGetByteaPP(a) : NULL;
	bytea	   *b_bytes = sides == VALUE_BYTES ? DatumGetByteaPP(b) : NULL;
	int64		a_length = a_bytes ? VARSIZE_ANY_EXHDR(a_bytes) : ab_length(a);
	int64		b_length = b_bytes ? VARSIZE_ANY_EXHDR(b_bytes) : ab_length(b);
	int			result = 0;

	if ((!equality || a_length == b_length) && (sides != VALUE_VALUE || !ab_identical(a, b)))
	{
		AbReader   *x = open_side(a, a_bytes);
		AbReader   *y = open_side(b, b_bytes);

		result = ab_reader_compare(x, y, Min(a_length, b_length));
		ab_reader_close(x);
		ab_reader_close(y);
	}
	if (result == 0 && a_length != b_length)
		result = a_length < b_length ? -1 : 1;
	/* a sort compares in memory that lives as long as it does */
	if (a_bytes)
		PG_FREE_IF_COPY(a_bytes, 0);
	if (b_bytes)
		PG_FREE_IF_COPY(b_bytes, 1);
	return result < 0 ? -1 : result > 0 ? 1 : 0;
}

/* Are texts equal if and only if their bytes are? */
bool
ab_is_deterministic(Oid collation)
{
	return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

/*
 * The order of the collation, which needs all of both texts; "C" is that of the bytes, and
 * texts that a deterministic collation finds equal have the same bytes.
 */
static int
compare_text(FunctionCallInfo fcinfo, Sides sides, bool equality)
{
	bytea	   *a;
	bytea	   *b;
	int			result;

	if (PG_GET_COLLATION() == C_COLLATION_OID || (equality && ab_is_deterministic(PG_GET_COLLATION())))
		return compare_values(fcinfo, sides, equality);
	a = sides == BYTES_VALUE ? PG_GETARG_BYTEA_PP(0) : ab_read_whole(PG_GETARG_DATUM(0));
	b = sides == VALUE_BYTES ? PG_GETARG_BYTEA_PP(1) : ab_read_whole(PG_GETARG_DATUM(1));
	result = varstr_cmp(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
						VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b), PG_GET_COLLATION());
	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return result < 0 ? -1 : result > 0 ? 1 : 0;
}

/* The order of jsonb, which needs all of both. */
static int
compare_jsonb(FunctionCallInfo fcinfo, Sides sides, bool equality)
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

#define COMPARISONS(prefix, sides, compare) \
	AB_FUNCTION(prefix##_eq, PG_RETURN_BOOL(compare(fcinfo, sides, true) == 0)); \
	AB_FUNCTION(prefix##_ne, PG_RETURN_BOOL(compare(fcinfo, sides, true) != 0)); \
	AB_FUNCTION(prefix##_lt, PG_RETURN_BOOL(compare(fcinfo, sides, false) < 0)); \
	AB_FUNCTION(prefix##_le, PG_RETURN_BOOL(compare(fcinfo, sides, false) <= 0)); \
	AB_FUNCTION(prefix##_gt, PG_RETURN_BOOL(compare(fcinfo, sides, false) > 0)); \
	AB_FUNCTION(prefix##_ge, PG_RETURN_BOOL(compare(fcinfo, sides, false) >= 0)); \
	AB_FUNCTION(prefix##_cmp, PG_RETURN_INT32(compare(fcinfo, sides, false)))

COMPARISONS(appendable, VALUE_VALUE, compare_values);
COMPARISONS(appendable_bytea, VALUE_BYTES, compare_values);
COMPARISONS(bytea_appendable, BYTES_VALUE, compare_values);
COMPARISONS(appendable_texts, VALUE_VALUE, compare_text);
COMPARISONS(appendable_text, VALUE_BYTES, compare_text);
COMPARISONS(text_appendable, BYTES_VALUE, compare_text);
COMPARISONS(appendable_jsonb, VALUE_VALUE, compare_jsonb);

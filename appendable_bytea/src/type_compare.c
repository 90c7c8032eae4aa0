/*-------------------------------------------------------------------------
 *
 * type_compare.c
 *	  Order and equality of values, among themselves and against bytea.
 *
 * The order is bytea's: byte by byte, a prefix before what it is a prefix of.
 * Two values are read side by side, a chunk of each at a time, and only as far
 * as they agree.  Equality looks at the lengths first, and two references to
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

#include "fmgr.h"
#include "utils/builtins.h"

#include "appendable.h"

/* What the two arguments are. */
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

static int
compare(FunctionCallInfo fcinfo, Sides sides)
{
	Side		a;
	Side		b;
	int			result;

	side_init(&a, PG_GETARG_DATUM(0), sides == BYTES_VALUE);
	side_init(&b, PG_GETARG_DATUM(1), sides == VALUE_BYTES);
	result = compare_bytes(&a, &b);
	if (result == 0 && a.length != b.length)
		result = a.length < b.length ? -1 : 1;
	side_end(&a);
	side_end(&b);
	return result < 0 ? -1 : result > 0 ? 1 : 0;
}

static bool
equal_values(FunctionCallInfo fcinfo, Sides sides)
{
	Side		a;
	Side		b;
	bool		result;

	side_init(&a, PG_GETARG_DATUM(0), sides == BYTES_VALUE);
	side_init(&b, PG_GETARG_DATUM(1), sides == VALUE_BYTES);
	result = a.length == b.length && compare_bytes(&a, &b) == 0;
	side_end(&a);
	side_end(&b);
	return result;
}

#define COMPARISON(name, sides, expression) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_BOOL(expression); \
	} \
	extern Datum name(PG_FUNCTION_ARGS)

#define COMPARISONS(prefix, sides) \
	COMPARISON(prefix##_eq, sides, equal_values(fcinfo, sides)); \
	COMPARISON(prefix##_ne, sides, !equal_values(fcinfo, sides)); \
	COMPARISON(prefix##_lt, sides, compare(fcinfo, sides) < 0); \
	COMPARISON(prefix##_le, sides, compare(fcinfo, sides) <= 0); \
	COMPARISON(prefix##_gt, sides, compare(fcinfo, sides) > 0); \
	COMPARISON(prefix##_ge, sides, compare(fcinfo, sides) >= 0)

COMPARISONS(appendable, VALUE_VALUE);
COMPARISONS(appendable_bytea, VALUE_BYTES);
COMPARISONS(bytea_appendable, BYTES_VALUE);

/* btree support function 1 */
#define ORDER(name, sides) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_INT32(compare(fcinfo, sides)); \
	} \
	extern Datum name(PG_FUNCTION_ARGS)

ORDER(appendable_cmp, VALUE_VALUE);
ORDER(appendable_bytea_cmp, VALUE_BYTES);
ORDER(bytea_appendable_cmp, BYTES_VALUE);

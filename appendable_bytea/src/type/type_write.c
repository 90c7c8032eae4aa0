/*-------------------------------------------------------------------------
 *
 * type_write.c
 *	  Functions that make a new value of an old one: append, write in the
 *	  middle, truncate.
 *
 * All of them are pure: they return a datum that refers to the old value's
 * chunks and carries only the new bytes (ab_append, ab_splice), so they cost
 * what they add, whatever the value's length.  Chunks are written when the datum
 * is stored in a row.  These files only do the arithmetic of the
 * arguments and the wording of its errors, which are bytea's where bytea has the
 * function.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_cat_bytea);
PG_FUNCTION_INFO_V1(appendable_cat);
PG_FUNCTION_INFO_V1(bytea_cat_appendable);
PG_FUNCTION_INFO_V1(appendable_overlay4);
PG_FUNCTION_INFO_V1(appendable_overlay8);
PG_FUNCTION_INFO_V1(appendable_set_bit);
PG_FUNCTION_INFO_V1(appendable_write);
PG_FUNCTION_INFO_V1(appendable_truncate);

/* value || bytea */
Datum
appendable_cat_bytea(PG_FUNCTION_ARGS)
{
	bytea	   *data = PG_GETARG_BYTEA_PP(1);

	PG_RETURN_DATUM(ab_append(PG_GETARG_DATUM(0), VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data)));
}

/* value || value: the second one's bytes are appended to the first one */
Datum
appendable_cat(PG_FUNCTION_ARGS)
{
	bytea	   *data = ab_read_whole(PG_GETARG_DATUM(1));

	PG_RETURN_DATUM(ab_append(PG_GETARG_DATUM(0), VARDATA(data), VARSIZE(data) - VARHDRSZ));
}

/* bytea || value */
Datum
bytea_cat_appendable(PG_FUNCTION_ARGS)
{
	bytea	   *data = PG_GETARG_BYTEA_PP(0);

	PG_RETURN_DATUM(ab_splice(PG_GETARG_DATUM(1), 0, 0,
							  VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data)));
}

/*
 * overlay(value PLACING data FROM start FOR length): defined by the standard
 * through substring and concatenation, so a range beyond the end is clipped and
 * a negative length repeats bytes.
 */
static Datum
overlay_value(Datum value, bytea *data, int64 start, int64 length)
{
	int64		total;
	int64		from;
	int64		next;

	if (start <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	if (pg_add_s64_overflow(start - 1, length, &next))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	total = ab_length(value);
	from = Min(start - 1, total);
	next = Min(Max(next, 0), total);
	if (next < from)
	{
		/* the bytes between come twice */
		bytea	   *again = ab_read_bytea(value, next, from - next);
		int64		n = VARSIZE_ANY_EXHDR(data);
		int64		m = VARSIZE(again) - VARHDRSZ;
		char	   *both = palloc_extended(n + m, MCXT_ALLOC_HUGE);

		memcpy(both, VARDATA_ANY(data), n);
		memcpy(both + n, VARDATA(again), m);
		return ab_splice(value, from, 0, both, n + m);
	}
	return ab_splice(value, from, next - from, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
}

/* overlay(value, data, start [, length]) */
Datum
appendable_overlay4(PG_FUNCTION_ARGS)
{
	bytea	   *data = PG_GETARG_BYTEA_PP(1);
	int32		start = PG_GETARG_INT32(2);
	int32		length = PG_NARGS() > 3 ? PG_GETARG_INT32(3) : (int32) VARSIZE_ANY_EXHDR(data);
	int32		end;

	/* bytea's overlay refuses this */
	if (start > 0 && pg_add_s32_overflow(start, length, &end))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("integer out of range")));
	PG_RETURN_DATUM(overlay_value(PG_GETARG_DATUM(0), data, start, length));
}

Datum
appendable_overlay8(PG_FUNCTION_ARGS)
{
	bytea	   *data = PG_GETARG_BYTEA_PP(1);

	PG_RETURN_DATUM(overlay_value(PG_GETARG_DATUM(0), data, PG_GETARG_INT64(2),
								  PG_NARGS() > 3 ? PG_GETARG_INT64(3) : VARSIZE_ANY_EXHDR(data)));
}

static Datum
set_byte(Datum value, int64 n, int32 byte)
{
	char		data = (char) byte;

	ab_check_index(n, ab_length(value));
	return ab_splice(value, n, 1, &data, 1);
}

AB_FUNCTION(appendable_set_byte4, PG_RETURN_DATUM(set_byte(PG_GETARG_DATUM(0), PG_GETARG_INT32(1), PG_GETARG_INT32(2))));
AB_FUNCTION(appendable_set_byte8, PG_RETURN_DATUM(set_byte(PG_GETARG_DATUM(0), PG_GETARG_INT64(1), PG_GETARG_INT32(2))));

Datum
appendable_set_bit(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		n = PG_GETARG_INT64(1);
	int32		bit = PG_GETARG_INT32(2);
	char		data;

	ab_check_index(n, ab_length(value) * 8);
	if (bit != 0 && bit != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("new bit must be 0 or 1")));
	data = ab_read_byte(value, n / 8) & ~(1 << (n % 8));
	data |= bit << (n % 8);
	PG_RETURN_DATUM(ab_splice(value, n / 8, 1, &data, 1));
}

/*
 * appendable_write(value, data, offset, length): replace length bytes of the
 * value from offset, counted from 0, by data, which may be longer or shorter.
 * offset NULL appends (length is ignored then), length NULL replaces
 * everything from the offset on, data NULL truncates at the offset.  An offset
 * beyond the end is an error; a length that reaches beyond it is clipped.
 * A NULL value is an error: there is nothing to write into.
 */
Datum
appendable_write(PG_FUNCTION_ARGS)
{
	Datum		value;
	int64		total;
	int64		offset;
	int64		removed;
	bytea	   *data;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("cannot write into a null value"),
				 errhint("Store an empty value first.")));
	value = PG_GETARG_DATUM(0);
	total = ab_length(value);
	offset = PG_ARGISNULL(2) ? total : PG_GETARG_INT64(2);
	removed = PG_ARGISNULL(3) ? total : PG_GETARG_INT64(3);
	if (offset < 0 || removed < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("offset and length must not be negative")));
	if (offset > total)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("offset %lld is beyond the end of the value, which has %lld bytes",
						(long long) offset, (long long) total)));
	removed = Min(removed, total - offset);
	if (PG_ARGISNULL(1))
		PG_RETURN_DATUM(ab_splice(value, offset, total - offset, NULL, 0));
	data = PG_GETARG_BYTEA_PP(1);
	if (offset == total)
		PG_RETURN_DATUM(ab_append(value, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data)));
	PG_RETURN_DATUM(ab_splice(value, offset, removed,
							  VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data)));
}

/* appendable_truncate(value, length): the first length bytes of the value */
Datum
appendable_truncate(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		total = ab_length(value);
	int64		length = PG_GETARG_INT64(1);

	if (length < 0 || length > total)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length must be between 0 and the value's length, %lld",
						(long long) total)));
	PG_RETURN_DATUM(ab_splice(value, length, total - length, NULL, 0));
}

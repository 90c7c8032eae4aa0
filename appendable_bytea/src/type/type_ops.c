/*-------------------------------------------------------------------------
 *
 * type_ops.c
 *	  Functions that read a value: its length, slices of it, single bytes and
 *	  bits, the position of a pattern, and the stream of its chunks.
 *
 * Each answers what the function of the same name answers for bytea.  Forms with
 * int4 have its signature, and calls written for bytea run as them (type_plan.c);
 * those with int8 are called by their own names, for values longer than 2 GB.
 * Lengths come from the datum alone; slices read only the chunks that hold them;
 * a search holds one chunk and the pattern in memory.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/int.h"
#include "funcapi.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_substr4);
PG_FUNCTION_INFO_V1(appendable_substr8);
PG_FUNCTION_INFO_V1(appendable_get_bit);
PG_FUNCTION_INFO_V1(appendable_chunks);

AB_FUNCTION(appendable_length, PG_RETURN_INT64(ab_length(PG_GETARG_DATUM(0))));

/* A result of a function whose result type is int4. */
int32
ab_narrow(int64 n, const char *own_form)
{
	if (n > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("integer out of range"),
				 own_form ? errhint("Use %s() for values longer than 2 GB.", own_form) : 0));
	return (int32) n;
}

/* octet_length() and length() */
AB_FUNCTION(appendable_length4, PG_RETURN_INT32(ab_narrow(ab_length(PG_GETARG_DATUM(0)), "appendable_length")));

/*
 * Bytes [start, start + length) of the value, counted from 1, clipped to the
 * value as the SQL standard wants; length is ignored if to_end.
 */
static bytea *
value_substring(Datum value, int64 start, int64 length, bool to_end)
{
	int64		total;
	int64		from = Max(start, 1) - 1;
	int64		end;

	if (!to_end && length < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	/* the one value that start - 1 cannot express */
	if (!to_end && start == PG_INT64_MIN)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	total = ab_length(value);
	if (to_end || pg_add_s64_overflow(start - 1, length, &end) || end > total)
		end = total;
	from = Min(from, total);
	return ab_read_bytea(value, from, Max(end - from, 0));
}

/* substr(value, start [, length]) */
Datum
appendable_substr4(PG_FUNCTION_ARGS)
{
	bool		to_end = PG_NARGS() < 3;

	PG_RETURN_BYTEA_P(value_substring(PG_GETARG_DATUM(0), PG_GETARG_INT32(1),
									  to_end ? 0 : PG_GETARG_INT32(2), to_end));
}

Datum
appendable_substr8(PG_FUNCTION_ARGS)
{
	bool		to_end = PG_NARGS() < 3;

	PG_RETURN_BYTEA_P(value_substring(PG_GETARG_DATUM(0), PG_GETARG_INT64(1),
									  to_end ? 0 : PG_GETARG_INT64(2), to_end));
}

/* Refuse an index outside [0, limit), with bytea's words. */
void
ab_check_index(int64 n, int64 limit)
{
	if (n < 0 || n >= limit)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("index %lld out of valid range, 0..%lld",
						(long long) n, (long long) limit - 1)));
}

/* The byte at an offset counted from 0, which must be in the value. */
int
ab_read_byte(Datum value, int64 offset)
{
	AbReader   *reader = ab_reader_open(value);
	char		byte;

	ab_reader_read(reader, offset, &byte, 1);
	ab_reader_close(reader);
	return (unsigned char) byte;
}

static int
get_byte(Datum value, int64 n)
{
	ab_check_index(n, ab_length(value));
	return ab_read_byte(value, n);
}

AB_FUNCTION(appendable_get_byte4, PG_RETURN_INT32(get_byte(PG_GETARG_DATUM(0), PG_GETARG_INT32(1))));
AB_FUNCTION(appendable_get_byte8, PG_RETURN_INT32(get_byte(PG_GETARG_DATUM(0), PG_GETARG_INT64(1))));

Datum
appendable_get_bit(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		n = PG_GETARG_INT64(1);

	ab_check_index(n, ab_length(value) * 8);
	PG_RETURN_INT32((ab_read_byte(value, n / 8) >> (n % 8)) & 1);
}

/*
 * Position, counted from 1, of the first occurrence of a pattern; 0 if there is
 * none, 1 for an empty pattern.  Each piece that the reader hands out is
 * searched together with the last bytes of what came before it, one fewer than
 * the pattern has.
 */
int64
ab_position(Datum value, bytea *pattern)
{
	const char *needle = VARDATA_ANY(pattern);
	int			needle_len = VARSIZE_ANY_EXHDR(pattern);
	AbReader   *reader;
	StringInfoData window;
	const char *data;
	int64		len;
	int64		base = 0;		/* offset in the value of the window's start */
	int64		result = 0;

	if (needle_len == 0)
		return 1;
	if (needle_len > ab_length(value))
		return 0;

	initStringInfo(&window);
	reader = ab_reader_open(value);
	while (result == 0 && (len = ab_reader_next(reader, &data)) > 0)
	{
		const char *hit;

		/* a value that is in memory as one piece needs no window */
		if (window.len == 0 && len == ab_reader_length(reader))
		{
			hit = memmem(data, len, needle, needle_len);
			result = hit ? (hit - data) + 1 : 0;
			break;
		}
		appendBinaryStringInfo(&window, data, len);
		hit = memmem(window.data, window.len, needle, needle_len);
		if (hit != NULL)
			result = base + (hit - window.data) + 1;
		else if (window.len >= needle_len)
		{
			int			drop = window.len - (needle_len - 1);

			memmove(window.data, window.data + drop, needle_len - 1);
			window.len = needle_len - 1;
			base += drop;
		}
	}
	ab_reader_close(reader);
	pfree(window.data);
	return result;
}

AB_FUNCTION(appendable_position, PG_RETURN_INT64(ab_position(PG_GETARG_DATUM(0), PG_GETARG_BYTEA_PP(1))));
AB_FUNCTION(appendable_position4, PG_RETURN_INT32(ab_narrow(ab_position(PG_GETARG_DATUM(0), PG_GETARG_BYTEA_PP(1)), "appendable_position")));

/* A function's result; see type.h. */
Datum
ab_make_row(FunctionCallInfo fcinfo, Datum *values)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, palloc0(desc->natts * sizeof(bool))));
}

/*
 * appendable_chunks(value, chunk_size): the value as a set of bytea values of
 * chunk_size bytes, the last one shorter, in order; no row for an empty value.
 * One call reads one slice, so a query that has the function in its select list
 * streams a value of any length through a fixed amount of memory.
 */
Datum
appendable_chunks(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	int64		size = PG_GETARG_INT32(1);
	Datum		value;
	int64		from;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		if (size <= 0 || size > MaxAllocSize - VARHDRSZ)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("chunk size must be between 1 and %d",
							(int) (MaxAllocSize - VARHDRSZ))));
		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		/* the argument's memory may be gone at the next call */
		call->user_fctx = PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(0));
		MemoryContextSwitchTo(old);
	}
	call = SRF_PERCALL_SETUP();
	value = PointerGetDatum(call->user_fctx);
	from = call->call_cntr * size;
	if (from >= ab_length(value))
		SRF_RETURN_DONE(call);
	SRF_RETURN_NEXT(call, PointerGetDatum(ab_read_bytea(value, from, Min(size, ab_length(value) - from))));
}

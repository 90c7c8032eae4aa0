/*-------------------------------------------------------------------------
 *
 * type_io.c
 *	  How a value of type appendable_bytea comes in and goes out: text, binary,
 *	  and the casts from and to bytea.
 *
 * Outside, the type is bytea: the same two text formats (bytea_output chooses
 * one for output, both are read), the same binary format (the bytes).  A
 * reference to chunks never leaves the server, so nothing that comes in can
 * forge one: whatever is read becomes a flat value.  Output streams the chunks
 * into the result, so it needs memory for the result alone; a value that does
 * not fit into one result is refused with the advice to read slices.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/fmgrprotos.h"
#include "utils/expandeddatum.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_in);
PG_FUNCTION_INFO_V1(appendable_out);
PG_FUNCTION_INFO_V1(appendable_to_bytea);

/* A flat value with the bytes of a datum of a built-in type. */
Datum
ab_from_plain(Datum plain)
{
	bytea	   *bytes = DatumGetByteaPP(plain);

	return ab_make_flat(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
}

/*
 * Input by the function of a built-in type, with the arguments of this call, and then by
 * "from_plain"; NULL after a soft error.
 */
Datum
ab_input_by(FunctionCallInfo fcinfo, PGFunction input, Datum (*from_plain) (Datum))
{
	Datum		plain = input(fcinfo);

	if (fcinfo->isnull || DatumGetPointer(plain) == NULL)
		PG_RETURN_NULL();
	return from_plain(plain);
}

/* Call a function of a built-in type with the arguments of this call, but this first one. */
Datum
ab_call_with(FunctionCallInfo fcinfo, PGFunction function, Datum plain)
{
	Datum		value = PG_GETARG_DATUM(0);
	Datum		result;

	/* the executor sets an argument that is a constant only once */
	fcinfo->args[0].value = plain;
	result = function(fcinfo);
	fcinfo->args[0].value = value;
	return result;
}

/* The same with the bytes of this call's first argument. */
Datum
ab_call_whole(FunctionCallInfo fcinfo, PGFunction function)
{
	return ab_call_with(fcinfo, function, PointerGetDatum(ab_read_whole(PG_GETARG_DATUM(0))));
}

/* appendable_bytea's input function: both formats are bytea's. */
Datum
appendable_in(PG_FUNCTION_ARGS)
{
	if (strncmp(PG_GETARG_CSTRING(0), "\\x", 2) != 0)
		ab_refuse_plpython(fcinfo->flinfo);
	return ab_input_by(fcinfo, byteain, ab_from_plain);
}

/* Refuse to build a result that does not fit into one allocation. */
static void
check_result_size(int64 value_length, int64 result_size)
{
	if (result_size > (int64) MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("appendable value of %lld bytes is too large to be returned whole",
						(long long) value_length),
				 errhint("Read it in slices with appendable_substr() or appendable_chunks().")));
}

/* appendable_bytea's output function; bytea_output chooses the format. */
Datum
appendable_out(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	AbReader   *reader;
	int64		length;
	const char *data;
	int64		n;
	char	   *result;
	char	   *p;

	ab_refuse_plpython(fcinfo->flinfo);
	if (bytea_output == BYTEA_OUTPUT_ESCAPE)
		return ab_call_whole(fcinfo, byteaout);
	reader = ab_reader_open(value);
	length = ab_reader_length(reader);
	check_result_size(length, length * 2 + 3);
	p = result = palloc(length * 2 + 3);
	*p++ = '\\';
	*p++ = 'x';
	while ((n = ab_reader_next(reader, &data)) > 0)
		p += hex_encode(data, n, p);
	*p = '\0';
	ab_reader_close(reader);
	PG_RETURN_CSTRING(result);
}

/* Binary input: the bytes. */
AB_FUNCTION(appendable_recv, return ab_input_by(fcinfo, bytearecv, ab_from_plain));

/* Binary output: the bytes. */
AB_FUNCTION(appendable_send, PG_RETURN_BYTEA_P(ab_read_whole(PG_GETARG_DATUM(0))));

/*
 * The cast's result for a value in chunks: an expanded object, whose bytes are
 * read on first use.  length() needs the size alone, and many
 * conditions need only whether there is a value.
 */
typedef struct LazyBytes
{
	ExpandedObjectHeader hdr;
	Datum		value;
	int64		length;
} LazyBytes;

static Size
lazy_size(ExpandedObjectHeader *object)
{
	LazyBytes  *lazy = (LazyBytes *) object;

	check_result_size(lazy->length, lazy->length + VARHDRSZ);
	return lazy->length + VARHDRSZ;
}

static void
lazy_flatten(ExpandedObjectHeader *object, void *result, Size size)
{
	LazyBytes  *lazy = (LazyBytes *) object;

	/* The caller's context may be one that cannot free, as a sort's since 17. */
	MemoryContext context = MemoryContextSwitchTo(object->eoh_context);
	AbReader   *reader = ab_reader_open(lazy->value);

	SET_VARSIZE(result, size);
	ab_reader_read(reader, 0, VARDATA(result), lazy->length);
	ab_reader_close(reader);
	MemoryContextSwitchTo(context);
}

static const ExpandedObjectMethods lazy_methods = {lazy_size, lazy_flatten};

/* A value with more than this in memory is not copied to be read later. */
#define LAZY_MAX 8192

/* The cast to bytea. */
Datum
appendable_to_bytea(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	AbRef		ref;
	LazyBytes  *lazy;
	MemoryContext context;

	if (!ab_parse_reference(value, &ref) || toast_raw_datum_size(value) > LAZY_MAX)
		PG_RETURN_BYTEA_P(ab_read_whole(value));
	context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea as bytea",
									ALLOCSET_START_SMALL_SIZES);
	lazy = MemoryContextAlloc(context, sizeof(LazyBytes));
	EOH_init_header(&lazy->hdr, &lazy_methods, context);
	context = MemoryContextSwitchTo(context);
	lazy->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	MemoryContextSwitchTo(context);
	lazy->length = ab_length(lazy->value);
	PG_RETURN_DATUM(EOHPGetRODatum(&lazy->hdr));
}

/* The cast from bytea: a flat value, spilled to chunks when it is stored. */
AB_FUNCTION(appendable_from_bytea, return ab_from_plain(PG_GETARG_DATUM(0)));

/*-------------------------------------------------------------------------
 *
 * type_json.c
 *	  Type appendable_json: input.
 *
 * A value is stored as the bytes of its JSON text, and output, casts and storage are
 * those of appendable_text.  json's own input functions check what comes in, so errors
 * are the server's.  The type has no function that changes a value: the cast from json
 * makes each value that is stored, so what is stored is JSON.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_json_in);
PG_FUNCTION_INFO_V1(appendable_json_recv);

/* The value of what one of json's input functions returns; NULL after a soft error. */
static Datum
check_input(FunctionCallInfo fcinfo, PGFunction json_input)
{
	Datum		json = json_input(fcinfo);
	int64		n;

	if (fcinfo->isnull || DatumGetPointer(json) == NULL)
		PG_RETURN_NULL();
	n = VARSIZE(DatumGetPointer(json)) - VARHDRSZ;
	PG_RETURN_DATUM(ab_make_flat(VARDATA(DatumGetPointer(json)), n));
}

Datum
appendable_json_in(PG_FUNCTION_ARGS)
{
	return check_input(fcinfo, json_in);
}

Datum
appendable_json_recv(PG_FUNCTION_ARGS)
{
	return check_input(fcinfo, json_recv);
}

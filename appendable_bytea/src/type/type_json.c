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

Datum
appendable_json_in(PG_FUNCTION_ARGS)
{
	return ab_input_by(fcinfo, json_in);
}

Datum
appendable_json_recv(PG_FUNCTION_ARGS)
{
	return ab_input_by(fcinfo, json_recv);
}

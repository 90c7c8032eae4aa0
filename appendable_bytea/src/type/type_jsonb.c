/*-------------------------------------------------------------------------
 *
 * type_jsonb.c
 *	  Type appendable_jsonb: input, output, casts, subscripts.
 *
 * A value is stored as the bytes of a jsonb after its length word.  Input and output
 * call jsonb's functions, and the cast to jsonb gives a value to all others: the type has
 * no function that changes a value.  The functions in type_jsonb_walk.c read parts of a
 * large value.
 *
 * jsonb's functions do not check the bytes that they read.  Therefore each value is
 * checked before it becomes a jsonb (ab_check_jsonb()): a damaged one is an error.
 *
 * A container of many entries keeps fewer offsets than jsonb makes, one of each 32 entries.  What
 * is inserted moves the offsets after it, and each part between two of them that moved takes a piece
 * of the value, or is stored again.  jsonb's functions find an entry's offset whatever the distance.
 *
 * Subscripts are those of jsonb with another container: jsonb's parse analysis and
 * assignment, the latter on a copy of the value as jsonb, and another fetch function.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/execExpr.h"
#include "nodes/nodeFuncs.h"
#include "nodes/subscripting.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_jsonb_to_json);
PG_FUNCTION_INFO_V1(appendable_jsonb_subscript);

/* Offsets that a container has at most, unless there are too many entries between them. */
#define OFFSETS_MAX		64
#define STRIDE_MAX		1024

/* A value as jsonb, in newly allocated memory. */
Datum
ab_as_jsonb(Datum value)
{
	bytea	   *bytes = ab_read_whole(value);

	ab_check_jsonb(VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ, true);
	return PointerGetDatum(bytes);
}

/* Have a container, which need not be aligned, and those in it keep fewer offsets. */
static void
thin_out_offsets(char *p)
{
	uint32		header;
	int64		n;
	char	   *data;
	int64		stride = JB_OFFSET_STRIDE;
	int64		at = 0;

	check_stack_depth();
	memcpy(&header, p, sizeof(header));
	n = (int64) (header & JB_CMASK) * ((header & JB_FOBJECT) != 0 ? 2 : 1);
	data = p + sizeof(header) + n * sizeof(JEntry);
	while (n / stride >= OFFSETS_MAX && stride < STRIDE_MAX)
		stride *= 2;
	for (int64 i = 0; i < n; i++)
	{
		char	   *place = p + sizeof(header) + i * sizeof(JEntry);
		JEntry		entry;
		int64		end;

		memcpy(&entry, place, sizeof(entry));
		end = JBE_OFFLENFLD(entry) + (JBE_HAS_OFF(entry) ? 0 : at);
		/* a smaller container has few entries */
		if (JBE_ISCONTAINER(entry) && end - at >= OFFSETS_MAX * JB_OFFSET_STRIDE * sizeof(JEntry))
			thin_out_offsets(data + INTALIGN(at));
		if (JBE_HAS_OFF(entry) && i % stride != 0)
		{
			entry = (entry & JENTRY_TYPEMASK) | (JEntry) (end - at);
			memcpy(place, &entry, sizeof(entry));
		}
		at = end;
	}
}

/* A jsonb as a value. */
Datum
ab_from_jsonb(Datum datum)
{
	Datum		result = ab_from_plain(datum);

	thin_out_offsets((char *) VARDATA(DatumGetPointer(result)) + 1);
	return result;
}

/* Call a function of jsonb with the arguments of this call, the first of which is of our type. */
Datum
ab_call_as_jsonb(FunctionCallInfo fcinfo, PGFunction function)
{
	return ab_call_with(fcinfo, function, ab_as_jsonb(PG_GETARG_DATUM(0)));
}

AB_FUNCTION(appendable_jsonb_in, return ab_input_by(fcinfo, jsonb_in, ab_from_jsonb));
AB_FUNCTION(appendable_jsonb_out, return ab_call_as_jsonb(fcinfo, jsonb_out));
AB_FUNCTION(appendable_jsonb_recv, return ab_input_by(fcinfo, jsonb_recv, ab_from_jsonb));
AB_FUNCTION(appendable_jsonb_send, return ab_call_as_jsonb(fcinfo, jsonb_send));

/* The cast from jsonb. */
AB_FUNCTION(appendable_from_jsonb, return ab_from_jsonb(PG_GETARG_DATUM(0)));

/* The cast to jsonb. */
AB_FUNCTION(appendable_jsonb_to_jsonb, return ab_as_jsonb(PG_GETARG_DATUM(0)));

/* The cast to json; to_json() and similar functions search for it. */
Datum
appendable_jsonb_to_json(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(DatumGetCString(ab_call_as_jsonb(fcinfo, jsonb_out))));
}

AB_FUNCTION(appendable_jsonb_hash, return ab_call_as_jsonb(fcinfo, PG_NARGS() == 1 ? jsonb_hash : jsonb_hash_extended));

/* ---- subscripts ---------------------------------------------------------- */

/* jsonb's routines; ours call their transform and their assignment. */
static const SubscriptRoutines *jsonb_routines;
static ExecEvalSubroutine assign_jsonb;

static void
transform_subscripts(SubscriptingRef *sbsref, List *indirection, struct ParseState *pstate,
					 bool isSlice, bool isAssignment)
{
	ListCell   *lc;

	jsonb_routines->transform(sbsref, indirection, pstate, isSlice, isAssignment);
	if (isAssignment)
		return;
	/* fetch_subscripts() needs a path of texts */
	foreach(lc, sbsref->refupperindexpr)
		lfirst(lc) = coerce_to_target_type(pstate, lfirst(lc), exprType(lfirst(lc)), TEXTOID, -1,
										   COERCION_EXPLICIT, COERCE_IMPLICIT_CAST, -1);
}

static void
fetch_subscripts(ExprState *state, ExprEvalStep *op, ExprContext *econtext)
{
	SubscriptingRefState *subscripts = op->d.sbsref.state;

	*op->resvalue = ab_jsonb_at(*op->resvalue, subscripts->upperindex, subscripts->numupper, AB_AS_JSONB, op->resnull);
}

static void
assign_subscripts(ExprState *state, ExprEvalStep *op, ExprContext *econtext)
{
	if (!*op->resnull)
		*op->resvalue = ab_as_jsonb(*op->resvalue);
	assign_jsonb(state, op, econtext);
	*op->resvalue = ab_from_jsonb(*op->resvalue);
}

static void
set_up_subscripts(const SubscriptingRef *sbsref, SubscriptingRefState *state, SubscriptExecSteps *methods)
{
	jsonb_routines->exec_setup(sbsref, state, methods);
	assign_jsonb = methods->sbs_assign;
	methods->sbs_fetch = fetch_subscripts;
	methods->sbs_assign = assign_subscripts;
	/* needed for assignments to a field of a composite element only */
	methods->sbs_fetch_old = NULL;
}

/* The subscript handler. */
Datum
appendable_jsonb_subscript(PG_FUNCTION_ARGS)
{
	static SubscriptRoutines routines;

	jsonb_routines = (const SubscriptRoutines *) DatumGetPointer(DirectFunctionCall1(jsonb_subscript_handler, PG_GETARG_DATUM(0)));
	routines = *jsonb_routines;
	routines.transform = transform_subscripts;
	routines.exec_setup = set_up_subscripts;
	PG_RETURN_POINTER(&routines);
}

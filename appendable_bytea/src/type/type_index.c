/*-------------------------------------------------------------------------
 *
 * type_index.c
 *	  bytea_column = value finds rows by an index of the bytea column.
 *
 * The operators between a type of the extension and the type that it is like are not in the
 * operator families of bytea and text, so an index on a column of bytea or text would
 * not be used for a comparison with a value of our types, whether of a join, of a subquery or
 * of a PL/pgSQL variable.  The planner asks the support function of such an operator for
 * a condition that the index has: column = value cast to bytea or text.  The comparison
 * itself stays, as a filter.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_equal_support);
PG_FUNCTION_INFO_V1(appendable_as_key);

/* Planner support function of the operators "=" between a type of the extension and its plain type. */
Datum
appendable_equal_support(PG_FUNCTION_ARGS)
{
	SupportRequestIndexCondition *req = (SupportRequestIndexCondition *) PG_GETARG_POINTER(0);
	OpExpr	   *clause;
	Node	   *column;
	Node	   *value;
	const AbCast *cast;
	AbCasts		casts;
	Oid			equal;
	Oid			function;

	if (!IsA(req, SupportRequestIndexCondition) || !is_opclause(req->node) || !ab_find_casts(&casts))
		PG_RETURN_POINTER(NULL);
	clause = (OpExpr *) req->node;
	column = list_nth(clause->args, req->indexarg);
	value = list_nth(clause->args, 1 - req->indexarg);
	cast = ab_cast_of(&casts, exprType(value));
	if (cast == NULL || !is_pseudo_constant_for_index(req->root, value, req->index))
		PG_RETURN_POINTER(NULL);
	if (OidIsValid(req->indexcollation) && req->indexcollation != clause->inputcollid)
		PG_RETURN_POINTER(NULL);
	equal = cast->plain == TEXTOID ? TextEqualOperator : ByteaEqualOperator;
	function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("appendable_as_key"),
							   PointerGetDatum(buildoidvector(&cast->type, 1)), ObjectIdGetDatum(casts.schema));
	if (!op_in_opfamily(equal, req->opfamily) || !OidIsValid(function))
		PG_RETURN_POINTER(NULL);
	value = (Node *) makeFuncExpr(function, cast->plain, list_make1(value), exprCollation(value),
								  InvalidOid, COERCE_EXPLICIT_CALL);
	/* a key is null if the value is too large for any row of the index */
	req->lossy = true;
	PG_RETURN_POINTER(list_make1(make_opclause(equal, BOOLOID, false, (Expr *) column, (Expr *) value,
											   InvalidOid, clause->inputcollid)));
}

/* appendable_as_key(value): the value as bytea or text; null if it is too large for one. */
Datum
appendable_as_key(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		length = ab_length(value);

	if (length > (int64) MaxAllocSize - VARHDRSZ)
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(ab_read_bytea(value, 0, length));
}

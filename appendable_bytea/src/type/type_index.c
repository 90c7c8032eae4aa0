/*-------------------------------------------------------------------------
 *
 * type_index.c
 *	  What the planner gets: indexes of bytea columns, and statistics.
 *
 * The operators between a type of the extension and the type that it is like are not in the
 * operator families of bytea and text, so an index on a column of bytea or text would
 * not be used for a comparison with a value of our types, whether of a join, of a subquery or
 * of a PL/pgSQL variable.  The planner asks the support function of such an operator for
 * a condition that the index has: column = value cast to bytea or text.  The comparison
 * itself stays, as a filter.
 *
 * ANALYZE gathers the share of nulls and the width in the row, nothing else.  Core's
 * default would put sampled values into pg_statistic.  Ours may be references, which do
 * not keep the chunks that they refer to: a plan made after the row and its chunks are
 * gone would fail to read them.  It would also read whole values to sort them.  Distinct
 * values are taken to be as many as rows.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/vacuum.h"
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
PG_FUNCTION_INFO_V1(appendable_typanalyze);

/* Planner support function of the operators "=" between a type of the extension and its plain type. */
Datum
appendable_equal_support(PG_FUNCTION_ARGS)
{
	SupportRequestIndexCondition *req = (SupportRequestIndexCondition *) PG_GETARG_POINTER(0);
	OpExpr	   *clause;
	Node	   *column;
	Node	   *value;
	const AbType *type;
	Oid			equal;
	Oid			function;

	if (!IsA(req, SupportRequestIndexCondition) || !is_opclause(req->node))
		PG_RETURN_POINTER(NULL);
	clause = (OpExpr *) req->node;
	column = list_nth(clause->args, req->indexarg);
	value = list_nth(clause->args, 1 - req->indexarg);
	type = ab_type_of(exprType(value));
	if (type == NULL || !is_pseudo_constant_for_index(req->root, value, req->index))
		PG_RETURN_POINTER(NULL);
	if (OidIsValid(req->indexcollation) && req->indexcollation != clause->inputcollid)
		PG_RETURN_POINTER(NULL);
	equal = type->plain == TEXTOID ? TextEqualOperator : ByteaEqualOperator;
	function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("appendable_as_key"),
							   PointerGetDatum(buildoidvector(&type->oid, 1)), ObjectIdGetDatum(ab_extension_schema()));
	if (!op_in_opfamily(equal, req->opfamily) || !OidIsValid(function))
		PG_RETURN_POINTER(NULL);
	value = (Node *) makeFuncExpr(function, type->plain, list_make1(value), exprCollation(value),
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

static void
compute_stats(VacAttrStats *stats, AnalyzeAttrFetchFunc fetch, int samplerows,
			  double totalrows)
{
	int			nulls = 0;
	double		width = 0;

	for (int i = 0; i < samplerows; i++)
	{
		bool		isnull;
		Datum		value;

		vacuum_delay_point_compat(true);
		value = fetch(stats, i, &isnull);
		if (isnull)
			nulls++;
		else
			width += VARSIZE_ANY(DatumGetPointer(value));
	}
	if (samplerows == 0)
		return;
	stats->stats_valid = true;
	stats->stanullfrac = (double) nulls / samplerows;
	stats->stawidth = samplerows > nulls ? (int) (width / (samplerows - nulls)) : 0;
	stats->stadistinct = -1.0 * (1.0 - stats->stanullfrac);
}

Datum
appendable_typanalyze(PG_FUNCTION_ARGS)
{
	VacAttrStats *stats = (VacAttrStats *) PG_GETARG_POINTER(0);

	stats->compute_stats = compute_stats;
	stats->minrows = 300;
	PG_RETURN_BOOL(true);
}

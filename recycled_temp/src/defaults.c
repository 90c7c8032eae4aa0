/*-------------------------------------------------------------------------
 *
 * defaults.c
 *	  Simple defaults of columns.
 *
 * A default is compared as the text that pg_attrdef has.  A statement's default is
 * transformed by the server's function for that, if it is made of constants,
 * functions, operators and keywords such as CURRENT_DATE.  inspect.c has found
 * that a table's defaults depend only on pinned objects.
 *
 * The text contains positions in the statement before PostgreSQL 17.  They are
 * also compared, so that the row in pg_attrdef is the one of a new table.
 *
 * Defaults are transformed only for a pooled table that is alike otherwise.  So an
 * error in a default is raised after all errors that the server finds before, and
 * it is the error that the server would raise.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "inspect.h"

/* The default of one column of a statement. */
typedef struct DefaultClause
{
	Node	   *raw;
	const char *column;
	Oid			type;
	int32		typmod;
} DefaultClause;

/* Is it made of constants, functions, operators and keywords? */
static bool
is_simple(Node *raw)
{
	ListCell   *lc;

	if (raw == NULL)
		return false;
	/* the parser nests operators without a limit */
	check_stack_depth();
	if (IsA(raw, A_Const) || IsA(raw, SQLValueFunction))
		return true;
	if (IsA(raw, TypeCast))
		return is_simple(((TypeCast *) raw)->arg);
	if (IsA(raw, A_Expr))
	{
		A_Expr	   *expr = (A_Expr *) raw;

		return expr->kind == AEXPR_OP && (expr->lexpr == NULL || is_simple(expr->lexpr)) && is_simple(expr->rexpr);
	}
	if (IsA(raw, FuncCall))
	{
		FuncCall   *call = (FuncCall *) raw;

		if (call->agg_order || call->agg_filter || call->over || call->agg_within_group ||
			call->agg_star || call->agg_distinct || call->func_variadic)
			return false;
		foreach(lc, call->args)
			if (!is_simple(lfirst(lc)))
			return false;
		return true;
	}
	return false;
}

/* The server makes no row in pg_attrdef for a plain NULL. */
bool
default_is_simple(Node *raw)
{
	return is_simple(raw) && !(IsA(raw, A_Const) && ((A_Const *) raw)->isnull);
}

/* Append a column's default to a list. */
List *
default_add(List *defaults, Node *raw, const char *column, Oid type, int32 typmod)
{
	DefaultClause *clause = palloc(sizeof(DefaultClause));

	clause->raw = raw;
	clause->column = column;
	clause->type = type;
	clause->typmod = typmod;
	return lappend(defaults, clause);
}

/* Are the table's defaults those of the statement?  Raises the server's errors. */
bool
defaults_match(RecycledTable *table, RecycledRequest *request)
{
	ParseState *pstate;
	ListCell   *lc,
			   *lc2;
	bool		match = list_length(table->defaults) == list_length(request->defaults);

	if (!match || request->defaults == NIL)
		return match;
	pstate = make_parsestate(NULL);
	pstate->p_sourcetext = request->source;
	forboth(lc, table->defaults, lc2, request->defaults)
	{
		DefaultClause *clause = lfirst(lc2);
		Node	   *expression = cookDefault(pstate, copyObject(clause->raw), clause->type, clause->typmod, clause->column, '\0');

		match = match && strcmp(nodeToString(expression), lfirst(lc)) == 0;
	}
	free_parsestate(pstate);
	return match;
}

/* Read the defaults of a table. */
void
defaults_read(RecycledTable *table)
{
	Relation	rel = table_open(AttrDefaultRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;

	ScanKeyInit(&key, Anum_pg_attrdef_adrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(table->relid));
	scan = systable_beginscan(rel, AttrDefaultIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(row = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		datum = fastgetattr(row, Anum_pg_attrdef_adbin, RelationGetDescr(rel), &isnull);

		table->defaults = lappend(table->defaults, isnull ? pstrdup("") : TextDatumGetCString(datum));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

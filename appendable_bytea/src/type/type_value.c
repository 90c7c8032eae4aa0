/*-------------------------------------------------------------------------
 *
 * type_value.c
 *	  Expressions of bytea and text that can be computed by a type of the extension.
 *
 * For type_plan.c: x::bytea is x; overlay(x::bytea PLACING ...) is the type's form of it; and
 * a text that begins with x is x with something appended, however the statement has it
 * written: x || y, concat(x, y), concat_ws(s, x, y), format('%s...', x, y), and these
 * of coalesce(x, '').
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "type/type.h"

/* Those whose result is a new value. */
static const AbOwnForm writers[] = {
	{F_OVERLAY_BYTEA_BYTEA_INT4_INT4, "appendable_bytea_overlay"},
	{F_OVERLAY_BYTEA_BYTEA_INT4, "appendable_bytea_overlay"},
	{F_SET_BYTE, "appendable_bytea_set_byte"},
	{F_SET_BIT_BYTEA_INT8_INT4, "appendable_bytea_set_bit"},
	{F_BYTEACAT, "appendable_bytea_cat"},
	{F_TEXTCAT, "appendable_text_cat"}
};

/* Does a function cast a value of our types to the plain type (to_plain), or back? */
bool
ab_is_cast(Oid function, bool to_plain)
{
	for (const AbType *type = ab_types(); type < ab_types() + AB_NTYPES; type++)
	{
		if (function == (to_plain ? type->to_plain : type->from_plain))
			return true;
	}
	return false;
}

/* A type's form of a function: its name, first (or "at") argument of the type. */
Oid
ab_own_form(const AbOwnForm *forms, int nforms, Oid function, int at, Oid type)
{
	for (int i = 0; i < nforms; i++)
	{
		Oid		   *types;
		Oid			argtypes[4];
		int			nargs;

		if (forms[i].function != function)
			continue;
		get_func_signature(function, &types, &nargs);
		Assert(nargs <= lengthof(argtypes));
		memcpy(argtypes, types, nargs * sizeof(Oid));
		argtypes[at] = type;
		return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							   CStringGetDatum(forms[i].name),
							   PointerGetDatum(buildoidvector(argtypes, nargs)),
							   ObjectIdGetDatum(ab_extension_schema()));
	}
	return InvalidOid;
}

/* The function and the arguments of a call or an operator; false if it is neither. */
bool
ab_get_call(const Node *node, Oid *function, List **args)
{
	if (node != NULL && IsA(node, FuncExpr))
	{
		*function = ((const FuncExpr *) node)->funcid;
		*args = ((const FuncExpr *) node)->args;
	}
	else if (node != NULL && IsA(node, OpExpr))
	{
		*function = ((const OpExpr *) node)->opfuncid;
		*args = ((const OpExpr *) node)->args;
	}
	else
		return false;
	return *args != NIL;
}

/* Does an expression depend on rows, and not on parameters alone? */
static bool
reads_rows(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_rows, context, 0);
	return expression_tree_walker(node, reads_rows, context);
}

static bool
is_cat(Oid function)
{
	return function == F_BYTEACAT || function == F_TEXTCAT;
}

/* An argument that is a value of appendable_text, or the text of one; otherwise NULL. */
static Expr *
as_text_value(Node *arg, bool parameters)
{
	Expr	   *value = (Expr *) arg;
	const AbType *type = ab_type_of(exprType(arg));

	if (type == NULL)
		value = ab_as_value(arg, parameters);
	else if (parameters && reads_rows(arg, NULL))
		value = NULL;
	if (value == NULL)
		return NULL;
	type = ab_type_of(exprType((Node *) value));
	return type != NULL && type->plain == TEXTOID ? value : NULL;
}

/* A constant of type text; NULL: the null. */
static Expr *
text_constant(const char *text)
{
	return (Expr *) makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1,
							  text ? CStringGetTextDatum(text) : (Datum) 0, text == NULL, false);
}

/* coalesce(first, second), of the type and collation of the first. */
static Expr *
make_coalesce(Expr *first, Expr *second)
{
	CoalesceExpr *result = makeNode(CoalesceExpr);

	result->coalescetype = exprType((Node *) first);
	result->coalescecollid = exprCollation((Node *) first);
	result->args = list_make2(first, second);
	result->location = -1;
	return (Expr *) result;
}

/*
 * The rest of format()'s format after a leading %s.  NULL if the format does not
 * begin with %s, or if a position or a width that is an argument counts from the first one.
 */
static const char *
rest_of_format(const Node *format)
{
	const char *found;

	if (!IsA(format, Const) || ((const Const *) format)->constisnull)
		return NULL;
	found = TextDatumGetCString(((const Const *) format)->constvalue);
	return strncmp(found, "%s", 2) == 0 && strchr(found, '$') == NULL ? found + 2 : NULL;
}

/*
 * For concat(value, ...), concat_ws(separator, value, ...) or format('%s...', value, ...) of a
 * value of appendable_text: coalesce(value, '') || what the same function makes of the other
 * arguments.  These functions take a null for nothing.  NULL if it is another call.
 */
static Expr *
as_appended(const FuncExpr *call, bool parameters)
{
	int			at = call->funcid == F_CONCAT ? 0 : 1;
	FuncExpr   *rest;
	Expr	   *value;
	Expr	   *empty;
	Oid			type;
	Oid			cat;

	if ((call->funcid != F_CONCAT && call->funcid != F_CONCAT_WS && call->funcid != F_FORMAT_TEXT_ANY) ||
		call->funcvariadic || list_length(call->args) < at + 2)
		return NULL;
	value = as_text_value(list_nth(call->args, at), parameters);
	if (value == NULL)
		return NULL;

	rest = makeNode(FuncExpr);
	*rest = *call;
	rest->args = list_delete_nth_cell(list_copy(call->args), at);
	if (call->funcid == F_CONCAT_WS)
	{
		CaseExpr   *nothing = makeNode(CaseExpr);
		CaseWhen   *when = makeNode(CaseWhen);
		NullTest   *test = makeNode(NullTest);

		/*
		 * The separator comes after a value that is not null: have an empty
		 * string in its place.  The value is computed twice.
		 */
		if (!IsA(value, Var) && !IsA(value, Param))
			return NULL;
		test->arg = value;
		test->nulltesttype = IS_NOT_NULL;
		test->location = when->location = nothing->location = -1;
		when->expr = (Expr *) test;
		when->result = text_constant("");
		nothing->casetype = TEXTOID;
		nothing->casecollid = DEFAULT_COLLATION_OID;
		nothing->args = list_make1(when);
		nothing->defresult = text_constant(NULL);
		rest->args = list_insert_nth(rest->args, at, nothing);
	}
	else if (call->funcid == F_FORMAT_TEXT_ANY)
	{
		const char *format = rest_of_format(linitial(call->args));

		if (format == NULL)
			return NULL;
		linitial(rest->args) = text_constant(format);
	}

	type = exprType((Node *) value);
	cat = ab_own_form(writers, lengthof(writers), F_TEXTCAT, 0, type);
	if (!OidIsValid(cat))
		return NULL;
	empty = (Expr *) makeConst(type, -1, exprCollation((Node *) value), -1, ab_make_flat("", 0), false, false);
	return (Expr *) makeFuncExpr(cat, type, list_make2(make_coalesce(value, empty), rest),
								 call->funccollid, call->inputcollid, COERCE_EXPLICIT_CALL);
}

/* coalesce(value, other) of the text of a value: the same of the type; otherwise NULL. */
static Expr *
as_coalesced(const CoalesceExpr *node, bool parameters)
{
	Expr	   *value;
	Expr	   *same;
	Node	   *other;
	const AbType *type;

	if (list_length(node->args) != 2)
		return NULL;
	value = ab_as_value(linitial(node->args), parameters);
	if (value == NULL)
		return NULL;
	type = ab_type_of(exprType((Node *) value));
	other = lsecond(node->args);
	same = ab_as_value(other, parameters);
	if (type->plain != node->coalescetype || (same && exprType((Node *) same) != type->oid))
		return NULL;
	if (same == NULL)
		same = (Expr *) makeFuncExpr(type->from_plain, type->oid, list_make1(other), node->coalescecollid, InvalidOid, COERCE_EXPLICIT_CALL);
	return make_coalesce(value, same);
}

/*
 * For an expression of type bytea or text, one of our type with the same bytes that does
 * not read them; NULL if there is none.  parameters: only one that depends on parameters alone.
 */
Expr *
ab_as_value(Node *node, bool parameters)
{
	Oid			function;
	Oid			own;
	List	   *args;
	Expr	   *value;
	int			at = 0;

	check_stack_depth();
	if (node != NULL && IsA(node, CoalesceExpr))
		return as_coalesced((CoalesceExpr *) node, parameters);
	if (!ab_get_call(node, &function, &args))
		return NULL;
	if (IsA(node, FuncExpr))
	{
		if (ab_is_cast(function, true))
			return parameters && reads_rows(linitial(args), NULL) ? NULL : linitial(args);
		value = as_appended((FuncExpr *) node, parameters);
		if (value != NULL)
			return value;
	}
	else if (!is_cat(function))
		return NULL;
	value = ab_as_value(linitial(args), parameters);
	if (value == NULL && is_cat(function))
	{
		at = 1;
		value = ab_as_value(lsecond(args), parameters);
	}
	if (value == NULL)
		return NULL;
	own = ab_own_form(writers, lengthof(writers), function, at, exprType((Node *) value));
	if (!OidIsValid(own))
		return NULL;
	args = list_copy(args);
	lfirst(list_nth_cell(args, at)) = value;
	return (Expr *) makeFuncExpr(own, exprType((Node *) value), args, exprCollation(node), InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

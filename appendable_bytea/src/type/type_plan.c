/*-------------------------------------------------------------------------
 *
 * type_plan.c
 *	  What the planner gets: own forms of bytea's functions, conditions on indexes, and
 *	  statistics.
 *
 * The type has no overloads of functions: with them an untyped argument would
 * mean something else in statements that have nothing to do with the type.  So
 * sha256(x) is analyzed as sha256(x::bytea), which would read the whole value.
 * When a statement has been planned, its plan is walked here, and such a call
 * becomes appendable_sha256(x), which streams; a call that makes a new value of one to
 * store it, x::bytea set to overlay(x PLACING ...), also becomes the type's form,
 * which carries the change alone.  So do other ways to append to a text: concat(),
 * concat_ws(), format() and coalesce() (type_value.c).  Results are the same.  Operators
 * of jsonb that read a part of a value get the type's function as well, for the same
 * reason: with an overload of ?, '{}' ? 'a' would be ambiguous.
 *
 * The finished plan is changed, and not the query, because indexes on
 * expressions and constraints have been matched by then, against expressions that
 * were stored as they were analyzed.  Only calls on parameters are changed
 * before, because parameters' values are substituted and the cast computed while planning.  Nodes
 * are changed in place: FuncExpr becomes FuncExpr with the same result type.  For a plan
 * without the cast only the functions that it depends on are checked.
 *
 * Expressions that no plan holds (checks, generated columns, index keys while
 * they are computed) run as they are.  There the cast's result is read on
 * first use (type_io.c), so that length() costs nothing, and the functions
 * appendable_* can be called by name.
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
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat_planner.h"
#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_equal_support);
PG_FUNCTION_INFO_V1(appendable_as_key);
PG_FUNCTION_INFO_V1(appendable_typanalyze);

/* Functions of bytea and text that read, and the type's forms of them. */
static const AbOwnForm readers[] = {
	{F_LENGTH_BYTEA, "appendable_bytea_length"},
	{F_OCTET_LENGTH_BYTEA, "appendable_bytea_length"},
	{F_SUBSTR_BYTEA_INT4_INT4, "appendable_bytea_substr"},
	{F_SUBSTR_BYTEA_INT4, "appendable_bytea_substr"},
	{F_SUBSTRING_BYTEA_INT4_INT4, "appendable_bytea_substr"},
	{F_SUBSTRING_BYTEA_INT4, "appendable_bytea_substr"},
	{F_GET_BYTE, "appendable_bytea_get_byte"},
	{F_GET_BIT_BYTEA_INT8, "appendable_bytea_get_bit"},
	{F_POSITION_BYTEA_BYTEA, "appendable_bytea_position"},
	{F_MD5_BYTEA, "appendable_md5"},
	{F_SHA224, "appendable_sha224"},
	{F_SHA256, "appendable_sha256"},
	{F_SHA384, "appendable_sha384"},
	{F_SHA512, "appendable_sha512"},
	{F_LENGTH_TEXT, "appendable_text_length"},
	{F_CHAR_LENGTH_TEXT, "appendable_text_length"},
	{F_CHARACTER_LENGTH_TEXT, "appendable_text_length"},
	{F_OCTET_LENGTH_TEXT, "appendable_text_octet_length"},
	{F_SUBSTR_TEXT_INT4_INT4, "appendable_text_substr"},
	{F_SUBSTR_TEXT_INT4, "appendable_text_substr"},
	{F_SUBSTRING_TEXT_INT4_INT4, "appendable_text_substr"},
	{F_SUBSTRING_TEXT_INT4, "appendable_text_substr"},
	{F_LEFT, "appendable_text_left"},
	{F_RIGHT, "appendable_text_right"},
	{F_POSITION_TEXT_TEXT, "appendable_text_position"},
	{F_STRPOS, "appendable_text_position"},
	{F_MD5_TEXT, "appendable_text_md5"},
	{F_JSONB_OBJECT_FIELD, "appendable_jsonb_object_field"},
	{F_JSONB_OBJECT_FIELD_TEXT, "appendable_jsonb_object_field_text"},
	{F_JSONB_ARRAY_ELEMENT, "appendable_jsonb_array_element"},
	{F_JSONB_ARRAY_ELEMENT_TEXT, "appendable_jsonb_array_element_text"},
	{F_JSONB_EXTRACT_PATH, "appendable_jsonb_extract_path"},
	{F_JSONB_EXTRACT_PATH_TEXT, "appendable_jsonb_extract_path_text"},
	{F_JSONB_EXISTS, "appendable_jsonb_exists"},
	{F_JSONB_ARRAY_LENGTH, "appendable_jsonb_array_length"},
	{F_JSONB_TYPEOF, "appendable_jsonb_typeof"}
};

/* Those whose result is a part of a value, which another one of them or of the above reads a part of. */
static const AbOwnForm parts[] = {
	{F_JSONB_OBJECT_FIELD, "appendable_jsonb_part"},
	{F_JSONB_ARRAY_ELEMENT, "appendable_jsonb_part"},
	{F_JSONB_EXTRACT_PATH, "appendable_jsonb_part"}
};

static planner_hook_type next_planner = NULL;

static bool put_form(const AbOwnForm *forms, int nforms, Oid *function, List **args, bool parameters);

/* For an expression, one of our type with the same bytes, which may be a part of a value; NULL if there is none. */
static Expr *
as_value_or_part(Node *node, bool parameters)
{
	Expr	   *value = ab_as_value(node, parameters);
	Oid			function;
	List	   *args;

	if (value != NULL || !ab_get_call(node, &function, &args))
		return value;
	if (!put_form(parts, lengthof(parts), &function, &args, parameters))
		return NULL;
	return (Expr *) makeFuncExpr(function, exprType(linitial(args)), args, InvalidOid, exprInputCollation(node), COERCE_EXPLICIT_CALL);
}

/* Have a call of a function, or an operator, be that of the form that a value's type has of it; false if there is none. */
static bool
put_form(const AbOwnForm *forms, int nforms, Oid *function, List **args, bool parameters)
{
	Expr	   *value;
	Oid			own;
	int			i = 0;

	/* a column itself is no cast: most calls are done with here */
	if (*args == NIL || IsA(linitial(*args), Var))
		return false;
	while (i < nforms && forms[i].function != *function)
		i++;
	value = i < nforms ? as_value_or_part(linitial(*args), parameters) : NULL;
	if (value == NULL)
		return false;
	own = ab_own_form(forms + i, nforms - i, *function, 0, exprType((Node *) value));
	if (!OidIsValid(own))
		return false;
	*function = own;
	*args = list_copy(*args);
	linitial(*args) = value;
	return true;
}

/*
 * Put the type's forms into an expression, a list of them, or a query.  context: a bool, whether
 * only calls on parameters are changed.
 */
static bool
change_expression(Node *node, void *context)
{
	const bool	parameters = *(bool *) context;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, change_expression, context, 0);
	if (IsA(node, FuncExpr) && ab_is_cast(((FuncExpr *) node)->funcid, false))
	{
		FuncExpr   *call = (FuncExpr *) node;
		const FuncExpr *bytes = linitial(call->args);
		Expr	   *value = ab_as_value((Node *) bytes, parameters);

		/* the cast of a value that nothing is done with stays */
		if (value != NULL && IsA(value, FuncExpr) && !(IsA(bytes, FuncExpr) && ab_is_cast(bytes->funcid, true)))
			*call = *(FuncExpr *) value;
	}
	else if (IsA(node, FuncExpr))
		put_form(readers, lengthof(readers), &((FuncExpr *) node)->funcid, &((FuncExpr *) node)->args, parameters);
	else if (IsA(node, OpExpr))
	{
		/* the operator stays jsonb's, to all that looks at the plan */
		put_form(readers, lengthof(readers), &((OpExpr *) node)->opfuncid, &((OpExpr *) node)->args, parameters);
	}
	return expression_tree_walker(node, change_expression, context);
}

/* A field that only nodes of one kind have. */
typedef struct NodeField
{
	NodeTag		tag;
	size_t		offset;
	bool		plans;			/* a list of plans, and not of expressions */
} NodeField;

/* All except those that get no value of a row, as LIMIT's. */
static const NodeField node_fields[] = {
	{T_Result, offsetof(Result, resconstantqual), false},
	{T_ModifyTable, offsetof(ModifyTable, withCheckOptionLists), false},
	{T_ModifyTable, offsetof(ModifyTable, returningLists), false},
	{T_ModifyTable, offsetof(ModifyTable, onConflictSet), false},
	{T_ModifyTable, offsetof(ModifyTable, onConflictWhere), false},
	{T_ModifyTable, offsetof(ModifyTable, mergeActionLists), false},
	{T_Append, offsetof(Append, appendplans), true},
	{T_MergeAppend, offsetof(MergeAppend, mergeplans), true},
	{T_BitmapAnd, offsetof(BitmapAnd, bitmapplans), true},
	{T_BitmapOr, offsetof(BitmapOr, bitmapplans), true},
	{T_IndexScan, offsetof(IndexScan, indexqual), false},
	{T_IndexScan, offsetof(IndexScan, indexqualorig), false},
	{T_IndexOnlyScan, offsetof(IndexOnlyScan, indexqual), false},
	{T_BitmapIndexScan, offsetof(BitmapIndexScan, indexqual), false},
	{T_BitmapHeapScan, offsetof(BitmapHeapScan, bitmapqualorig), false},
	{T_FunctionScan, offsetof(FunctionScan, functions), false},
	{T_TableFuncScan, offsetof(TableFuncScan, tablefunc), false},
	{T_ValuesScan, offsetof(ValuesScan, values_lists), false},
	{T_ForeignScan, offsetof(ForeignScan, fdw_recheck_quals), false},
	{T_CustomScan, offsetof(CustomScan, custom_exprs), false},
	{T_CustomScan, offsetof(CustomScan, custom_plans), true},
	{T_NestLoop, offsetof(NestLoop, join.joinqual), false},
	{T_MergeJoin, offsetof(MergeJoin, join.joinqual), false},
	{T_MergeJoin, offsetof(MergeJoin, mergeclauses), false},
	{T_HashJoin, offsetof(HashJoin, join.joinqual), false},
	{T_HashJoin, offsetof(HashJoin, hashclauses), false},
	{T_HashJoin, offsetof(HashJoin, hashkeys), false},
	{T_Hash, offsetof(Hash, hashkeys), false},
	{T_Memoize, offsetof(Memoize, param_exprs), false}
};

static void change_plan(Plan *plan);

static void
change_plans(List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		change_plan(lfirst(lc));
}

static void
change_plan(Plan *plan)
{
	/* in a finished plan, all calls are changed */
	bool		parameters = false;

	check_stack_depth();
	if (plan == NULL)
		return;
	change_expression((Node *) plan->targetlist, &parameters);
	change_expression((Node *) plan->qual, &parameters);
	for (int i = 0; i < lengthof(node_fields); i++)
	{
		Node	   *field;

		if (node_fields[i].tag != nodeTag(plan))
			continue;
		field = *(Node **) ((char *) plan + node_fields[i].offset);
		if (node_fields[i].plans)
			change_plans((List *) field);
		else
			change_expression(field, &parameters);
	}
	if (IsA(plan, SubqueryScan))
		change_plan(((SubqueryScan *) plan)->subplan);
	change_plan(plan->lefttree);
	change_plan(plan->righttree);
}

/* Does a plan cast a value to the type it is like, or what a function made of a text back? */
static bool
casts_values(const PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->invalItems)
	{
		const PlanInvalItem *item = lfirst(lc);

		for (const AbType *type = ab_types(); item->cacheId == PROCOID && type < ab_types() + AB_NTYPES; type++)
		{
			if (item->hashValue == type->to_plain_hash ||
				(type->plain == TEXTOID && item->hashValue == type->from_plain_hash))
				return true;
		}
	}
	return false;
}

static PlannedStmt *
plan_own_forms(Query *parse, const char *query_string, int cursor_options,
			   ParamListInfo params SINCE_19_compat(, ExplainState *es))
{
	PlannedStmt *stmt;
	bool		parameters = true;

	if (params != NULL && params->numParams > 0 && OidIsValid(ab_am_oid()))
		change_expression((Node *) parse, &parameters);
	stmt = next_planner(parse, query_string, cursor_options, params SINCE_19_compat(, es));
	if (stmt->invalItems != NIL && OidIsValid(ab_am_oid()) && casts_values(stmt))
	{
		change_plan(stmt->planTree);
		change_plans(stmt->subplans);
	}
	return stmt;
}

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

/* Called once, from _PG_init. */
void
ab_own_forms_install(void)
{
	next_planner = planner_hook ? planner_hook : standard_planner;
	planner_hook = plan_own_forms;
}

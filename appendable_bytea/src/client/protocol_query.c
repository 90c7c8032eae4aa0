/*-------------------------------------------------------------------------
 *
 * protocol_query.c
 *	  Change an analyzed statement so that it takes and returns bytea.
 *
 * A parameter of the type becomes one of bytea: as an operand the operator between
 * the type and bytea takes it (data || $1 appends it without a detour), everywhere
 * else a cast is put around it.  A result column of the type gets a cast to bytea.
 *
 * The cast of a result must run above sorts, DISTINCT and set operations: below
 * them whole values would be sorted instead of references, and a set operation's
 * columns must keep their type.  Such a query becomes a subquery of one that has
 * only the casts.  Its WITH clause moves up with them, because statements that
 * write are allowed in a WITH clause of the top level only.
 *
 * Called by protocol.c, which knows when it is a client that will see the
 * statement.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"

#include "client/client.h"

/* The type by which a client sees a type of the extension; InvalidOid for any other. */
static Oid
client_type(Oid type)
{
	if (type < FirstNormalObjectId)
		return InvalidOid;
	for (const AbType *own = ab_types(); own < ab_types() + AB_NTYPES; own++)
	{
		/* without casts in the script that creates the extension */
		if (type == own->oid && OidIsValid(own->to_plain) && OidIsValid(own->from_plain))
			return own->plain;
		if (type == own->array)
			return own->plain_array;
	}
	return InvalidOid;
}

static Node *
cast_to(Node *node, Oid from, Oid to)
{
	Oid			collation = exprCollation(node);

	node = coerce_to_target_type(NULL, node, from, to, -1, COERCION_EXPLICIT,
								 COERCE_IMPLICIT_CAST, -1);
	/* collations have been assigned by now */
	if (type_is_collatable(to))
		exprSetCollation(node, collation);
	return node;
}

/* May there be anything to do?  Most statements are done with here. */
bool
ab_may_concern(const Query *query, const Oid *types, int ntypes)
{
	ListCell   *lc;

	for (int i = 0; i < ntypes; i++)
	{
		if (types[i] >= FirstNormalObjectId)
			return true;
	}
	if (query->commandType == CMD_UTILITY)
		return query->utilityStmt != NULL && IsA(query->utilityStmt, DeclareCursorStmt);
	foreach(lc, query->commandType == CMD_SELECT ? query->targetList : query->returningList)
	{
		const TargetEntry *tle = lfirst(lc);

		if (!tle->resjunk && exprType((Node *) tle->expr) >= FirstNormalObjectId)
			return true;
	}
	return false;
}

/* ---- parameters ---------------------------------------------------------- */

/* A parameter of the type, which is to become one of bytea. */
static bool
is_parameter(Node *node)
{
	return node != NULL && IsA(node, Param) &&
		((Param *) node)->paramkind == PARAM_EXTERN &&
		OidIsValid(client_type(((Param *) node)->paramtype));
}

static Node *
bytea_parameter(Node *node)
{
	Param	   *param = copyObject((Param *) node);

	param->paramtype = client_type(param->paramtype);
	param->paramtypmod = -1;
	param->paramcollid = get_typcollation(param->paramtype);
	return (Node *) param;
}

/*
 * An operator whose one operand is a value and whose other is a parameter: the
 * operator of the same name between the type and bytea, or NULL.
 */
static Node *
operator_with_bytea(OpExpr *op)
{
	Node	   *left = linitial(op->args);
	Node	   *right = lsecond(op->args);
	const AbType *type = ab_type_of(exprType(left));
	bool		left_bytea = is_parameter(left);
	bool		right_bytea = is_parameter(right);
	List	   *name;
	Oid			found;

	if (left_bytea == right_bytea || type == NULL || exprType(right) != type->oid)
		return NULL;
	name = list_make2(makeString("pg_catalog"), makeString(get_opname(op->opno)));
	/* an unrelated operator of the same name stays */
	if (OpernameGetOprid(name, type->oid, type->oid) != op->opno)
		return NULL;
	found = OpernameGetOprid(name,
							 left_bytea ? type->plain : type->oid,
							 right_bytea ? type->plain : type->oid);
	if (!OidIsValid(found))
		return NULL;
	op = copyObject(op);
	op->opno = found;
	op->opfuncid = get_opcode(found);
	if (left_bytea)
		linitial(op->args) = bytea_parameter(left);
	else
		lsecond(op->args) = bytea_parameter(right);
	return (Node *) op;
}

static Node *
change_parameters(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (is_parameter(node))
		return cast_to(bytea_parameter(node),
					   client_type(((Param *) node)->paramtype),
					   ((Param *) node)->paramtype);
	if (IsA(node, OpExpr) && list_length(((OpExpr *) node)->args) == 2)
	{
		Node	   *op = operator_with_bytea((OpExpr *) node);

		if (op != NULL)
			node = op;
	}
	if (IsA(node, Query))
		return (Node *) query_tree_mutator((Query *) node, change_parameters, context, 0);
	return expression_tree_mutator(node, change_parameters, context);
}

/* The query inside a utility statement that has one, or NULL. */
static Query *
inner_query(const Query *query)
{
	Node	   *stmt = query->utilityStmt;
	Node	   *inner = NULL;

	if (stmt == NULL)
		;
	else if (IsA(stmt, DeclareCursorStmt))
		inner = ((DeclareCursorStmt *) stmt)->query;
	else if (IsA(stmt, ExplainStmt))
		inner = ((ExplainStmt *) stmt)->query;
	else if (IsA(stmt, CreateTableAsStmt))
		inner = ((CreateTableAsStmt *) stmt)->query;
	return inner != NULL && IsA(inner, Query) ? (Query *) inner : NULL;
}

/*
 * Make parameters of the type parameters of bytea, in the statement and in the list
 * of types that its sender gets.
 */
void
ab_parameters_as_plain(Query *query, Oid *types, int ntypes)
{
	bool		found = false;
	Query	   *inner;

	for (int i = 0; i < ntypes; i++)
	{
		Oid			type = client_type(types[i]);

		if (OidIsValid(type))
		{
			types[i] = type;
			found = true;
		}
	}
	if (!found)
		return;
	for (inner = query; inner != NULL; inner = inner_query(inner))
	{
		Query	   *changed = query_tree_mutator(inner, change_parameters, NULL, 0);

		memcpy(inner, changed, sizeof(Query));
		if (inner->utilityStmt != NULL && IsA(inner->utilityStmt, CallStmt))
		{
			CallStmt   *call = (CallStmt *) inner->utilityStmt;

			call->funcexpr = (FuncExpr *) change_parameters((Node *) call->funcexpr, NULL);
			call->outargs = (List *) change_parameters((Node *) call->outargs, NULL);
		}
	}
}

/* ---- results ------------------------------------------------------------- */

/*
 * Is it a column that gets a cast?  "shown" has the columns that the receiver of the
 * rows expects; NULL: it gets bytea everywhere.
 */
static bool
is_result(const TargetEntry *tle, TupleDesc shown)
{
	Oid			type;

	if (tle->resjunk)
		return false;
	type = client_type(exprType((Node *) tle->expr));
	return OidIsValid(type) &&
		(shown == NULL || tle->resno > shown->natts ||
		 TupleDescAttr(shown, tle->resno - 1)->atttypid == type);
}

/* Cast the columns of the type in the target list of a query or of RETURNING. */
static void
cast_columns(List *tlist, TupleDesc shown)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *tle = lfirst(lc);
		Oid			type = exprType((Node *) tle->expr);

		if (is_result(tle, shown))
			tle->expr = (Expr *) cast_to((Node *) tle->expr, type, client_type(type));
	}
}

/* References to the WITH clause that moves up reach one level further. */
static bool
reach_further(Node *node, void *context)
{
	int		   *depth = context;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_CTE && rte->ctelevelsup == *depth)
			rte->ctelevelsup++;
		return false;
	}
	if (IsA(node, Query))
	{
		bool		result;

		(*depth)++;
		result = query_tree_walker((Query *) node, reach_further, context,
								   QTW_EXAMINE_RTES_BEFORE);
		(*depth)--;
		return result;
	}
	return expression_tree_walker(node, reach_further, context);
}

/* Make a query a subquery of one with the same columns. */
static void
wrap_query(Query *query)
{
	Query	   *inner = makeNode(Query);
	Query	   *outer = makeNode(Query);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *names = NIL;
	ListCell   *lc;
	int			depth = 0;

	memcpy(inner, query, sizeof(Query));
	outer->commandType = CMD_SELECT;
	outer->querySource = query->querySource;
	outer->queryId = query->queryId;
	outer->canSetTag = query->canSetTag;
	outer->stmt_location = query->stmt_location;
	outer->stmt_len = query->stmt_len;
	inner->canSetTag = true;

	if (query->cteList != NIL)
	{
		outer->cteList = query->cteList;
		outer->hasModifyingCTE = query->hasModifyingCTE;
		outer->hasRecursive = query->hasRecursive;
		inner->cteList = NIL;
		inner->hasModifyingCTE = false;
		inner->hasRecursive = false;
		query_tree_walker(inner, reach_further, &depth, QTW_EXAMINE_RTES_BEFORE);
	}

	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst(lc);
		TargetEntry *column;
		Var		   *var;

		if (tle->resjunk)
			continue;
		names = lappend(names, makeString(pstrdup(tle->resname ? tle->resname : "?column?")));
		var = makeVar(1, tle->resno, exprType((Node *) tle->expr),
					  exprTypmod((Node *) tle->expr), exprCollation((Node *) tle->expr), 0);
		column = makeTargetEntry((Expr *) var, list_length(names), tle->resname, false);
		column->resorigtbl = tle->resorigtbl;
		column->resorigcol = tle->resorigcol;
		outer->targetList = lappend(outer->targetList, column);
	}
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = inner;
	rte->eref = makeAlias("result", names);
	rte->inFromCl = true;
	outer->rtable = list_make1(rte);
	ref->rtindex = 1;
	outer->jointree = makeFromExpr(list_make1(ref), NULL);
	memcpy(query, outer, sizeof(Query));
}

/* Must the casts of a SELECT run above the rest of it? */
static bool
needs_wrapping(const Query *query, TupleDesc shown)
{
	bool		sorts = query->sortClause != NIL || query->distinctClause != NIL ||
		query->setOperations != NULL;
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst(lc);

		if (is_result(tle, shown) && (sorts || tle->ressortgroupref != 0))
			return true;
	}
	return false;
}

/* Make the result columns of the type columns of bytea, all or those that "shown" has as bytea. */
void
ab_results_as_plain(Query *query, TupleDesc shown)
{
	if (query->commandType == CMD_UTILITY)
	{
		Query	   *inner = IsA(query->utilityStmt, DeclareCursorStmt) ? inner_query(query) : NULL;

		if (inner != NULL)
			ab_results_as_plain(inner, NULL);
		return;
	}
	if (query->commandType == CMD_SELECT && needs_wrapping(query, shown))
		wrap_query(query);
	cast_columns(query->commandType == CMD_SELECT ? query->targetList : query->returningList, shown);
}

/* ---- XML ----------------------------------------------------------------- */

static bool
cast_xml_values(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, cast_xml_values, context, 0);
	if (IsA(node, XmlExpr) && (((XmlExpr *) node)->op == IS_XMLELEMENT || ((XmlExpr *) node)->op == IS_XMLFOREST))
	{
		List	   *values[] = {((XmlExpr *) node)->named_args, ((XmlExpr *) node)->args};
		ListCell   *lc;

		for (int i = 0; i < lengthof(values); i++)
		{
			foreach(lc, values[i])
			{
				Oid			type = exprType(lfirst(lc));
				Oid			plain = client_type(type);

				if (OidIsValid(plain))
					lfirst(lc) = cast_to(lfirst(lc), type, plain);
			}
		}
	}
	return expression_tree_walker(node, cast_xml_values, context);
}

/*
 * XMLELEMENT and XMLFOREST encode a bytea as the setting xmlbinary says, and any other
 * type as its text: have them get bytea and text.
 */
void
ab_xml_of_plain(Query *query)
{
	for (; query != NULL; query = inner_query(query))
		query_tree_walker(query, cast_xml_values, NULL, 0);
}

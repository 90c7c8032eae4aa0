/*-------------------------------------------------------------------------
 *
 * insert_target.c
 *	  What must not run while the leader stores rows that its workers compute.
 *
 * The server gives no such statement workers, so its functions may run other statements.
 * With workers each function must be pinned (created by initdb) or marked parallel safe,
 * and must not begin commands.  Operators, aggregates and types call functions that the
 * query does not name: support functions of operator families, transition functions,
 * checks of domains.  These are not searched: if such an object is not pinned, there are
 * no workers, except for enums and for arrays and domains of allowed types.
 *
 * The planner checks the query and the target of an INSERT ... SELECT (plan_insert.c).
 * The executor checks the target again when a plan runs, because plans are cached, and the
 * table and the functions may have changed since.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "compat_planner.h"
#include "load/fastload.h"

typedef struct LeaderSearch
{
	bool		query;			/* in the query, whose restricted functions
								 * the planner leaves to the leader */
	const char *found;
} LeaderSearch;

/* InvalidOid is pinned: there is nothing to call. */
static inline bool
is_pinned(Oid object)
{
	return object < FirstUnpinnedObjectId;
}

static bool
unsafe_function(Oid funcid, void *context)
{
	LeaderSearch *search = context;
	char		parallel = OidIsValid(funcid) ? func_parallel(funcid) : PROPARALLEL_SAFE;

	if (parallel == PROPARALLEL_UNSAFE || (parallel == PROPARALLEL_RESTRICTED && !search->query))
		search->found = psprintf("function %s() is not parallel safe", get_func_name(funcid));
	else if (is_pinned(funcid))
		return false;

	/*
	 * Before and after each of its statements a volatile function asks for a
	 * new command id, which does not exist while the insertion uses the
	 * current one and has workers.
	 */
	else if (func_volatile(funcid) == PROVOLATILE_VOLATILE)
		search->found = psprintf("function %s() is volatile", get_func_name(funcid));
	else if (get_func_prokind(funcid) != PROKIND_FUNCTION)
		search->found = psprintf("aggregate or window function %s() is not built in", get_func_name(funcid));
	return search->found != NULL;
}

static bool
unsafe_operator(Oid operator, LeaderSearch *search)
{
	if (!is_pinned(operator))
		search->found = psprintf("operator %s is not built in", get_opname(operator));
	return search->found != NULL;
}

static bool
unsafe_type(Oid type, LeaderSearch *search)
{
	char		kind;

	if (is_pinned(type))
		return false;
	if (OidIsValid(get_element_type(type)))
		return unsafe_type(get_element_type(type), search);
	kind = get_typtype(type);
	if (kind == TYPTYPE_DOMAIN && !DomainHasConstraints_compat(type))
		return unsafe_type(getBaseType(type), search);
	if (kind != TYPTYPE_ENUM)
		search->found = psprintf("type %s is not built in", format_type_be(type));
	return search->found != NULL;
}

static bool
unsafe_in_list(List *oids, bool (*unsafe) (Oid, LeaderSearch *), LeaderSearch *search)
{
	ListCell   *lc;

	foreach(lc, oids)
	{
		if (unsafe(lfirst_oid(lc), search))
			return true;
	}
	return false;
}

/*
 * Types are checked where values of them first appear: a pinned operator or aggregate
 * returns a pinned type or one of its arguments'.
 */
static bool
unsafe_node(Node *node, LeaderSearch *search)
{
	switch (nodeTag(node))
	{
		case T_SortGroupClause:
			return unsafe_operator(((SortGroupClause *) node)->eqop, search) ||
				unsafe_operator(((SortGroupClause *) node)->sortop, search);
		case T_WindowClause:
			return unsafe_function(((WindowClause *) node)->startInRangeFunc, search) ||
				unsafe_function(((WindowClause *) node)->endInRangeFunc, search);
		case T_OpExpr:
			return unsafe_operator(((OpExpr *) node)->opno, search);
		case T_ScalarArrayOpExpr:
			return unsafe_operator(((ScalarArrayOpExpr *) node)->opno, search);
		case T_RowCompareExpr:
			return unsafe_in_list(((RowCompareExpr *) node)->opnos, unsafe_operator, search);
		case T_RangeTblFunction:
			return unsafe_in_list(((RangeTblFunction *) node)->funccoltypes, unsafe_type, search);
		case T_TableFunc:
			return unsafe_in_list(((TableFunc *) node)->coltypes, unsafe_type, search);
		case T_NextValueExpr:
			search->found = "a sequence is drawn from";
			return true;
		case T_Var:
		case T_Const:
		case T_Param:
		case T_FuncExpr:
		case T_RelabelType:
		case T_CoerceToDomain:
		case T_CoerceViaIO:
		case T_RowExpr:
			return unsafe_type(exprType(node), search);
		default:
			return unsafe_type(JsonExprType_compat(node), search);
	}
}

static bool
unsafe_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, unsafe_function, context) || unsafe_node(node, context))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, unsafe_walker, context, QTW_EXAMINE_SORTGROUP);
	if (IsA(node, SetOperationStmt) && unsafe_walker((Node *) ((SetOperationStmt *) node)->groupClauses, context))
		return true;
	return expression_tree_walker(node, unsafe_walker, context);
}

const char *
pt_leader_refusal(Node *node, bool query)
{
	LeaderSearch search = {.query = query};

	(void) unsafe_walker(node, &search);
	return search.found;
}

static const char *
trigger_refusal(TriggerDesc *triggers)
{
	if (triggers->trig_insert_before_row || triggers->trig_insert_instead_row || triggers->trig_insert_before_statement)
		return "a trigger runs before the rows are there";
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_INSERT(trigger->tgtype) && trigger->tgqual != NULL)
			return "a trigger has a condition";
	}
	return NULL;
}

/*
 * An index is searched for a new entry's place by functions of its operator classes.
 */
static const char *
index_refusal(Relation rel)
{
	LeaderSearch search = {0};
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		int			functions = IndexRelationGetNumberOfKeyAttributes(index) * index->rd_indam->amsupport;

		if (index->rd_index->indisexclusion)
			search.found = "the table has an exclusion constraint";
		for (int i = 0; i < functions && search.found == NULL; i++)
			(void) unsafe_function(index->rd_support[i], &search);
		if (search.found == NULL && !unsafe_walker((Node *) RelationGetIndexExpressions(index), &search))
			(void) unsafe_walker((Node *) RelationGetIndexPredicate(index), &search);
		index_close(index, NoLock);
		if (search.found)
			break;
	}
	list_free(indexes);
	return search.found;
}

/*
 * A column that the statement does not name gets a NULL that its domain checks.
 */
static const char *
column_refusal(TupleDesc desc)
{
	TupleConstr *constr = desc->constr;
	LeaderSearch search = {0};

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, i);

		if (!attr->attisdropped && unsafe_type(attr->atttypid, &search))
			return search.found;
	}
	for (int i = 0; constr != NULL && i < constr->num_check && search.found == NULL; i++)
		(void) unsafe_walker(stringToNode(constr->check[i].ccbin), &search);
	for (int i = 0; constr != NULL && i < constr->num_defval && search.found == NULL; i++)
	{
		if (TupleDescAttr(desc, constr->defval[i].adnum - 1)->attgenerated)
			(void) unsafe_walker(stringToNode(constr->defval[i].adbin), &search);
	}
	return search.found;
}

const char *
pt_insert_target_refusal(Relation rel)
{
	const char *reason = NULL;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return "the rows go to partitions";
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return "not a table";
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP || !rel->rd_islocaltemp)
		return "not a temporary table of this session";
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return "the table's access method is not heap";
	if (rel->rd_rel->relispartition)
		return "the table is a partition";
	if (rel->trigdesc != NULL)
		reason = trigger_refusal(rel->trigdesc);
	if (reason == NULL)
		reason = column_refusal(RelationGetDescr(rel));
	if (reason == NULL && rel->rd_rel->relhasindex)
		reason = index_refusal(rel);
	return reason;
}

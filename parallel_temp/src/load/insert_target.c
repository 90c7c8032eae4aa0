/*-------------------------------------------------------------------------
 *
 * insert_target.c
 *	  What must not run while the leader stores rows that its workers compute.
 *
 * The server gives no such statement workers, so functions in it do as they like.  With
 * workers every function, operator and type must be pinned (created by initdb) or consist
 * of functions that are marked parallel safe and not volatile.  The planner checks only
 * the functions that a query names.  The server also calls functions of operator families,
 * aggregates, window frames and types by itself, and workers may run them.  Their catalogs
 * are not searched, except for base types and enums: a statement gets no workers if it
 * sorts, groups, joins or aggregates by something else that is not pinned, or has values
 * of another kind of type that is not.
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
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
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
function_must_not(Oid funcid, bool may_be_restricted, LeaderSearch *search)
{
	char		parallel = OidIsValid(funcid) ? func_parallel(funcid) : PROPARALLEL_SAFE;

	if (parallel != PROPARALLEL_SAFE && !(may_be_restricted && parallel == PROPARALLEL_RESTRICTED))
		search->found = psprintf("function %s() is not parallel safe", get_func_name(funcid));

	/*
	 * Before and after each of its statements a volatile function asks for a
	 * new command id, which there is none of while the insertion uses the
	 * current one and has workers.
	 */
	else if (!is_pinned(funcid) && func_volatile(funcid) == PROVOLATILE_VOLATILE)
		search->found = psprintf("function %s() is volatile", get_func_name(funcid));
	return search->found != NULL;
}

static bool
named_must_not(Oid funcid, void *context)
{
	LeaderSearch *search = context;

	return function_must_not(funcid, search->query, search);
}

/* An aggregate, window function or range function has other functions than the named one. */
static bool
compound_must_not(Oid funcid, LeaderSearch *search)
{
	if (!is_pinned(funcid))
		search->found = psprintf("function %s() is not built in", get_func_name(funcid));
	return search->found != NULL;
}

/*
 * An operator by which rows may be sorted, hashed or compared calls functions of its
 * family, too.
 */
static bool
operator_must_not(Oid operator, LeaderSearch *search)
{
	CatCList   *members;

	if (is_pinned(operator))
		return false;
	members = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(operator));
	for (int i = 0; i < members->n_members; i++)
	{
		Oid			method = ((Form_pg_amop) GETSTRUCT(&members->members[i]->tuple))->amopmethod;

		if (method == BTREE_AM_OID || method == HASH_AM_OID)
			search->found = psprintf("operator %s is not built in", get_opname(operator));
	}
	ReleaseSysCacheList(members);
	return search->found != NULL;
}

/*
 * Values of this type are computed, compared by its default operators, read or printed.
 */
static bool
type_must_not(Oid type, LeaderSearch *search)
{
	Oid			functions[8];
	TypeCacheEntry *entry;
	bool		is_varlena;
	char		kind;

	if (is_pinned(type))
		return false;
	kind = get_typtype(type);
	if (kind == TYPTYPE_DOMAIN && !DomainHasConstraints(type))
		return type_must_not(getBaseType(type), search);
	if (OidIsValid(get_element_type(type)))
		return type_must_not(get_element_type(type), search);
	if (kind != TYPTYPE_BASE && kind != TYPTYPE_ENUM)
	{
		search->found = psprintf("type %s is not built in", format_type_be(type));
		return true;
	}
	entry = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR | TYPECACHE_GT_OPR | TYPECACHE_CMP_PROC |
							  TYPECACHE_HASH_PROC | TYPECACHE_HASH_EXTENDED_PROC);
	functions[0] = get_opcode(entry->eq_opr);
	functions[1] = get_opcode(entry->lt_opr);
	functions[2] = get_opcode(entry->gt_opr);
	functions[3] = entry->cmp_proc;
	functions[4] = entry->hash_proc;
	functions[5] = entry->hash_extended_proc;
	getTypeOutputInfo(type, &functions[6], &is_varlena);
	getTypeInputInfo(type, &functions[7], &type);
	for (int i = 0; i < lengthof(functions); i++)
	{
		if (function_must_not(functions[i], false, search))
			return true;
	}
	return false;
}

static bool
oids_must_not(List *oids, bool (*must_not) (Oid, LeaderSearch *), LeaderSearch *search)
{
	ListCell   *lc;

	foreach(lc, oids)
	{
		if (must_not(lfirst_oid(lc), search))
			return true;
	}
	return false;
}

/*
 * What a node calls besides the functions that it names.  Types are checked where values
 * of them first appear.
 */
static bool
node_must_not(Node *node, LeaderSearch *search)
{
	switch (nodeTag(node))
	{
		case T_SortGroupClause:
			return operator_must_not(((SortGroupClause *) node)->eqop, search) ||
				operator_must_not(((SortGroupClause *) node)->sortop, search);
		case T_WindowClause:
			return compound_must_not(((WindowClause *) node)->startInRangeFunc, search) ||
				compound_must_not(((WindowClause *) node)->endInRangeFunc, search);
		case T_NextValueExpr:
			search->found = "a sequence is drawn from";
			return true;
		case T_OpExpr:
			return operator_must_not(((OpExpr *) node)->opno, search) || type_must_not(exprType(node), search);
		case T_ScalarArrayOpExpr:
			return operator_must_not(((ScalarArrayOpExpr *) node)->opno, search);
		case T_RowCompareExpr:
			return oids_must_not(((RowCompareExpr *) node)->opnos, operator_must_not, search);
		case T_Aggref:
			return compound_must_not(((Aggref *) node)->aggfnoid, search) || type_must_not(exprType(node), search);
		case T_WindowFunc:
			return compound_must_not(((WindowFunc *) node)->winfnoid, search) || type_must_not(exprType(node), search);
		case T_RangeTblFunction:
			return oids_must_not(((RangeTblFunction *) node)->funccoltypes, type_must_not, search);
		case T_TableFunc:
			return oids_must_not(((TableFunc *) node)->coltypes, type_must_not, search);
		case T_Var:
		case T_Const:
		case T_Param:
		case T_FuncExpr:
		case T_RelabelType:
		case T_CoerceToDomain:
		case T_CoerceViaIO:
		case T_ConvertRowtypeExpr:
		case T_RowExpr:
		case T_MinMaxExpr:
			return type_must_not(exprType(node), search);
		default:
			return type_must_not(JsonExprType_compat(node), search);
	}
}

static bool
leader_must_not(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, named_must_not, context) || node_must_not(node, context))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, leader_must_not, context, QTW_EXAMINE_SORTGROUP);
	if (IsA(node, SetOperationStmt) && leader_must_not((Node *) ((SetOperationStmt *) node)->groupClauses, context))
		return true;
	return expression_tree_walker(node, leader_must_not, context);
}

const char *
pt_leader_refusal(Node *node, bool query)
{
	LeaderSearch search = {.query = query};

	(void) leader_must_not(node, &search);
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
			(void) function_must_not(index->rd_support[i], false, &search);
		if (search.found == NULL && !leader_must_not((Node *) RelationGetIndexExpressions(index), &search))
			(void) leader_must_not((Node *) RelationGetIndexPredicate(index), &search);
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

		if (attr->attisdropped || get_typtype(attr->atttypid) != TYPTYPE_DOMAIN)
			continue;
		if (attr->attgenerated)
			return "a generated column is of a domain";
		if (type_must_not(attr->atttypid, &search))
			return search.found;
	}
	for (int i = 0; constr != NULL && i < constr->num_check && search.found == NULL; i++)
		(void) leader_must_not(stringToNode(constr->check[i].ccbin), &search);
	for (int i = 0; constr != NULL && i < constr->num_defval && search.found == NULL; i++)
	{
		if (TupleDescAttr(desc, constr->defval[i].adnum - 1)->attgenerated)
			(void) leader_must_not(stringToNode(constr->defval[i].adbin), &search);
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

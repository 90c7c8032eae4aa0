/*-------------------------------------------------------------------------
 *
 * plan_leader.c
 *	  What must not run while the leader puts away rows that workers make.
 *
 * The server gives no such statement workers, so functions in it do as they like.
 * With workers nothing may run that is not parallel safe, or volatile and not the
 * server's own (plan_insert.c says why).  The planner looks at the functions that
 * a query names.  Here are those, too, that the server calls by itself:
 *
 *  - of operators: by which a join, a group or a sort hashes and compares;
 *  - of aggregates;
 *  - of window frames, to add a distance;
 *  - of types: the checks of domains, which text and JSON are put through where
 *    they become rows, the comparisons behind GREATEST and behind those of arrays,
 *    rows and ranges, input and output.
 *
 * Nobody tells the planner of the latter, so workers may come to run them: those
 * have to be safe, where a function that the query names may be restricted.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat_planner.h"
#include "parallel/plan_leader.h"

typedef struct LeaderSearch
{
	bool		query;			/* in the query, whose restricted functions
								 * the planner leaves to the leader */
	List	   *types;			/* that were looked at */
	const char *found;
} LeaderSearch;

static bool leader_must_not(Node *node, void *context);
static bool type_must_not(Oid type, LeaderSearch *search);

static bool
function_must_not(Oid funcid, bool may_be_restricted, LeaderSearch *search)
{
	char		parallel = func_parallel(funcid);

	if (parallel != PROPARALLEL_SAFE && !(may_be_restricted && parallel == PROPARALLEL_RESTRICTED))
	{
		search->found = psprintf("function %s() is not parallel safe", get_func_name(funcid));
		return true;
	}

	/*
	 * Before and after each of its statements a volatile function asks for a
	 * new command id, which there is none of while the insertion uses the
	 * current one and has workers.
	 */
	if (funcid >= FirstUnpinnedObjectId && func_volatile(funcid) == PROVOLATILE_VOLATILE)
	{
		search->found = psprintf("function %s() is volatile", get_func_name(funcid));
		return true;
	}
	return false;
}

/*
 * A function that the query names.
 */
static bool
is_not_for_leader(Oid funcid, void *context)
{
	LeaderSearch *search = context;

	return function_must_not(funcid, search->query, search);
}

/*
 * Functions that the server calls by itself; InvalidOid for none.
 */
static bool
any_must_not(const Oid *functions, int count, LeaderSearch *search)
{
	for (int i = 0; i < count; i++)
	{
		if (OidIsValid(functions[i]) && function_must_not(functions[i], false, search))
			return true;
	}
	return false;
}

/*
 * The functions of an aggregate; its own entry says nothing of them.
 */
static bool
aggregate_must_not(Oid aggregate, LeaderSearch *search)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Form_pg_aggregate agg;
	Oid			functions[8];

	if (!HeapTupleIsValid(tuple))
		return false;
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	functions[0] = agg->aggtransfn;
	functions[1] = agg->aggfinalfn;
	functions[2] = agg->aggcombinefn;
	functions[3] = agg->aggserialfn;
	functions[4] = agg->aggdeserialfn;
	functions[5] = agg->aggmtransfn;
	functions[6] = agg->aggminvtransfn;
	functions[7] = agg->aggmfinalfn;
	ReleaseSysCache(tuple);
	return any_must_not(functions, lengthof(functions), search);
}

/*
 * The checks of a domain.
 */
static bool
domain_must_not(Oid type, LeaderSearch *search)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "parallel_temp domain", ALLOCSET_SMALL_SIZES);
	bool		query = search->query;
	DomainConstraintRef ref;
	ListCell   *lc;

	search->query = false;
	InitDomainConstraintRef(type, &ref, context, false);
	foreach(lc, ref.constraints)
	{
		if (leader_must_not((Node *) lfirst_node(DomainConstraintState, lc)->check_expr, search))
			break;
	}
	MemoryContextDelete(context);
	search->query = query;
	return search->found != NULL;
}

/*
 * The functions by which a join or a group hashes and sorts, and which compare rows; the
 * operator's own says nothing of them.
 */
static bool
operator_must_not(Oid operator, LeaderSearch *search)
{
	Oid			functions[2] = {InvalidOid, InvalidOid};
	CatCList   *families;
	bool		found;

	if (operator < FirstUnpinnedObjectId)
		return false;
	(void) get_op_hash_functions(operator, &functions[0], &functions[1]);
	found = any_must_not(functions, lengthof(functions), search);

	families = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(operator));
	for (int i = 0; i < families->n_members && !found; i++)
	{
		Form_pg_amop entry = (Form_pg_amop) GETSTRUCT(&families->members[i]->tuple);

		if (entry->amopmethod == BTREE_AM_OID)
		{
			functions[0] = get_opfamily_proc(entry->amopfamily, entry->amoplefttype, entry->amoprighttype, BTORDER_PROC);
			found = any_must_not(functions, 1, search);
		}
	}
	ReleaseSysCacheList(families);
	return found;
}

static bool
operators_must_not(List *operators, LeaderSearch *search)
{
	ListCell   *lc;

	foreach(lc, operators)
	{
		if (operator_must_not(lfirst_oid(lc), search))
			return true;
	}
	return false;
}

/*
 * The functions that sort and group, of which the operators' own are only a part.
 */
static bool
order_must_not(const SortGroupClause *clause, LeaderSearch *search)
{
	Oid			functions[2] = {InvalidOid, InvalidOid};

	if (OidIsValid(clause->eqop))
		functions[0] = get_opcode(clause->eqop);
	if (OidIsValid(clause->sortop))
		functions[1] = get_opcode(clause->sortop);
	return any_must_not(functions, lengthof(functions), search) ||
		operator_must_not(clause->eqop, search) || operator_must_not(clause->sortop, search);
}

/*
 * How values of a type are compared and hashed where its default operators are asked for.
 */
static bool
comparison_must_not(Oid type, LeaderSearch *search)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR | TYPECACHE_GT_OPR |
											  TYPECACHE_CMP_PROC | TYPECACHE_HASH_PROC | TYPECACHE_HASH_EXTENDED_PROC);
	Oid			functions[6] = {InvalidOid, InvalidOid, InvalidOid, entry->cmp_proc, entry->hash_proc, entry->hash_extended_proc};

	if (OidIsValid(entry->eq_opr))
		functions[0] = get_opcode(entry->eq_opr);
	if (OidIsValid(entry->lt_opr))
		functions[1] = get_opcode(entry->lt_opr);
	if (OidIsValid(entry->gt_opr))
		functions[2] = get_opcode(entry->gt_opr);
	return any_must_not(functions, lengthof(functions), search);
}

static bool
columns_must_not(Oid rowtype, LeaderSearch *search)
{
	TupleDesc	desc = lookup_rowtype_tupdesc_noerror(rowtype, -1, true);
	bool		found = false;

	if (desc == NULL)
		return false;
	for (int i = 0; i < desc->natts && !found; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			found = type_must_not(TupleDescAttr(desc, i)->atttypid, search);
	}
	ReleaseTupleDesc(desc);
	return found;
}

static bool
range_must_not(Oid type, LeaderSearch *search)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_RANGE_INFO);
	Oid			functions[3] = {entry->rng_cmp_proc_finfo.fn_oid, entry->rng_canonical_finfo.fn_oid,
	entry->rng_subdiff_finfo.fn_oid};

	return any_must_not(functions, lengthof(functions), search) || type_must_not(get_range_subtype(type), search);
}

/*
 * What the server calls for values of a type, without anybody naming it.
 */
static bool
type_must_not(Oid type, LeaderSearch *search)
{
	Oid			functions[2];
	bool		is_varlena;

	if (!OidIsValid(type) || list_member_oid(search->types, type))
		return false;
	check_stack_depth();
	search->types = lappend_oid(search->types, type);
	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			return domain_must_not(type, search) || type_must_not(getBaseType(type), search);
		case TYPTYPE_PSEUDO:
			return false;
		default:
			break;
	}
	/* a row's type, or an array's, may have an operator class of its own */
	if (comparison_must_not(type, search))
		return true;
	switch (get_typtype(type))
	{
		case TYPTYPE_COMPOSITE:
			return columns_must_not(type, search);
		case TYPTYPE_RANGE:
			return range_must_not(type, search);
		case TYPTYPE_MULTIRANGE:
			return type_must_not(get_multirange_range(type), search);
		default:
			break;
	}
	if (OidIsValid(get_element_type(type)))
		return type_must_not(get_element_type(type), search);
	if (type < FirstUnpinnedObjectId)
		return false;
	getTypeInputInfo(type, &functions[0], &functions[1]);
	getTypeOutputInfo(type, &functions[1], &is_varlena);
	return any_must_not(functions, lengthof(functions), search);
}

static bool
types_must_not(List *types, LeaderSearch *search)
{
	ListCell   *lc;

	foreach(lc, types)
	{
		if (type_must_not(lfirst_oid(lc), search))
			return true;
	}
	return false;
}

/*
 * What a node has beyond the functions that it names.  Types are looked at where values
 * of theirs come up.
 */
static bool
node_must_not(Node *node, LeaderSearch *search)
{
	switch (nodeTag(node))
	{
		case T_SortGroupClause:
			return order_must_not((SortGroupClause *) node, search);
		case T_WindowClause:
			{
				Oid			functions[2] = {((WindowClause *) node)->startInRangeFunc, ((WindowClause *) node)->endInRangeFunc};

				return any_must_not(functions, lengthof(functions), search);
			}
		case T_NextValueExpr:
			search->found = "a sequence is drawn from";
			return true;
		case T_OpExpr:
			return operator_must_not(((OpExpr *) node)->opno, search) || type_must_not(exprType(node), search);
		case T_ScalarArrayOpExpr:
			return operator_must_not(((ScalarArrayOpExpr *) node)->opno, search);
		case T_RowCompareExpr:
			return operators_must_not(((RowCompareExpr *) node)->opnos, search);
		case T_Aggref:
			return aggregate_must_not(((Aggref *) node)->aggfnoid, search) || type_must_not(exprType(node), search);
		case T_WindowFunc:
			return aggregate_must_not(((WindowFunc *) node)->winfnoid, search) || type_must_not(exprType(node), search);
		case T_CoerceToDomain:
			return domain_must_not(((CoerceToDomain *) node)->resulttype, search);
		case T_RangeTblFunction:
			return types_must_not(((RangeTblFunction *) node)->funccoltypes, search);
		case T_TableFunc:
			return types_must_not(((TableFunc *) node)->coltypes, search);
		case T_Var:
		case T_Const:
		case T_Param:
		case T_FuncExpr:
		case T_RelabelType:
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
	LeaderSearch *search = context;

	if (node == NULL)
		return false;
	if (check_functions_in_node(node, is_not_for_leader, context) || node_must_not(node, search))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, leader_must_not, context, QTW_EXAMINE_SORTGROUP);
	if (IsA(node, SetOperationStmt) && leader_must_not((Node *) ((SetOperationStmt *) node)->groupClauses, context))
		return true;
	return expression_tree_walker(node, leader_must_not, context);
}

const char *
leader_must_not_evaluate(Node *expression)
{
	LeaderSearch search = {0};

	(void) leader_must_not(expression, &search);
	return search.found;
}

const char *
leader_must_not_query(Query *query)
{
	LeaderSearch search = {.query = true};

	(void) leader_must_not((Node *) query, &search);
	return search.found;
}

const char *
leader_must_not_check(Oid domain)
{
	LeaderSearch search = {0};

	(void) domain_must_not(domain, &search);
	return search.found;
}

const char *
leader_must_not_call(Oid funcid)
{
	LeaderSearch search = {0};

	(void) function_must_not(funcid, false, &search);
	return search.found;
}

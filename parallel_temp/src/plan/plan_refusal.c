/*-------------------------------------------------------------------------
 *
 * plan_refusal.c
 *	  Why a temporary table is not read in parallel.
 *
 * plan_paths.c asks here for the first cause that keeps workers from a table, when
 * the planner comes to it; plan.c counts the causes when the plan is finished, and
 * reports them on request.  A table's expressions are checked in the order in which
 * the server would stop.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/clauses.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat_storage.h"
#include "parallel_temp.h"
#include "plan/plan.h"

/* Looking for what workers cannot do in an expression. */
typedef struct CauseSearch
{
	List	   *known;			/* parameters that workers are given, or make */
	PtRefusal	cause;
	Oid			function;		/* that is not parallel safe, or InvalidOid */
} CauseSearch;

/* Looking at a query as a whole. */
typedef struct QuerySearch
{
	bool		unknown_function;	/* see TempScanPrivate */
	PtRefusal	cause;
	Oid			function;
} QuerySearch;

bool
pt_expressions_parallel_safe(PlannerInfo *root, RelOptInfo *rel)
{
	return is_parallel_safe(root, (Node *) rel->baserestrictinfo) &&
		is_parallel_safe(root, (Node *) rel->reltarget->exprs);
}

static bool
is_not_for_workers(Oid funcid, void *context)
{
	CauseSearch *search = context;

	if (func_parallel(funcid) == PROPARALLEL_SAFE)
		return false;
	search->cause = REFUSED_EXPRESSION;
	search->function = funcid;
	return true;
}

/*
 * Find the first thing in an expression for which is_parallel_safe() is false.
 */
static bool
find_cause(Node *node, void *context)
{
	CauseSearch *search = context;

	if (node == NULL)
		return false;
	if (check_functions_in_node(node, is_not_for_workers, context))
		return true;
	if (IsA(node, RestrictInfo))
		return find_cause((Node *) ((RestrictInfo *) node)->clause, context);
	if (IsA(node, CoerceToDomain))
	{
		search->cause = REFUSED_DOMAIN;
		return true;
	}
	if (IsA(node, SubPlan))
	{
		SubPlan    *subplan = (SubPlan *) node;
		List	   *known = search->known;

		if (!subplan->parallel_safe)
		{
			search->cause = REFUSED_SUBQUERY;
			return true;
		}
		search->known = list_concat_copy(known, subplan->paramIds);
		if (find_cause(subplan->testexpr, context))
			return true;
		search->known = known;
		return find_cause((Node *) subplan->args, context);
	}
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		if (list_member_int(search->known, ((Param *) node)->paramid))
			return false;
		search->cause = REFUSED_CORRELATED;
		return true;
	}
	return expression_tree_walker(node, find_cause, context);
}

/*
 * Results of subqueries that run once, at this level or around it, are given to
 * workers.
 */
static List *
known_parameters(PlannerInfo *root)
{
	List	   *result = NIL;
	ListCell   *lc;

	for (; root != NULL; root = root->parent_root)
	{
		foreach(lc, root->init_plans)
			result = list_concat(result, lfirst_node(SubPlan, lc)->setParam);
	}
	return result;
}

PtRefusal
pt_temp_table_refusal(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, Oid *function)
{
	Relation	relation;
	bool		readable;

	*function = InvalidOid;
	if (!root->glob->parallelModeOK)
		return REFUSED_QUERY;
	if (rte->tablesample != NULL)
		return REFUSED_SAMPLE;
	if (rel->lateral_relids != NULL)
		return REFUSED_LATERAL;
	if (!pt_expressions_parallel_safe(root, rel))
	{
		CauseSearch search = {.cause = REFUSED_EXPRESSION};

		search.known = known_parameters(root);
		if (!find_cause((Node *) rel->baserestrictinfo, &search))
			(void) find_cause((Node *) rel->reltarget->exprs, &search);
		*function = search.function;
		return search.cause;
	}
	relation = table_open(rte->relid, NoLock);
	readable = relation->rd_rel->relam == HEAP_TABLE_AM_OID && RelationUsesLocalBuffers(relation) &&
		!RELATION_IS_OTHER_TEMP(relation);
	table_close(relation, NoLock);
	return readable ? REFUSED_NOT : REFUSED_KIND;
}

static bool
check_function(Oid funcid, void *context)
{
	QuerySearch *search = context;
	char		parallel = func_parallel(funcid);

	if (parallel == PROPARALLEL_UNSAFE)
	{
		search->cause = REFUSED_UNSAFE;
		search->function = funcid;
		return true;
	}
	switch (funcid)
	{
			/* These built-in functions read tables and are not unsafe. */
		case F_TABLE_TO_XML:
		case F_TABLE_TO_XML_AND_XMLSCHEMA:
		case F_SCHEMA_TO_XML:
		case F_SCHEMA_TO_XML_AND_XMLSCHEMA:
		case F_DATABASE_TO_XML:
		case F_DATABASE_TO_XML_AND_XMLSCHEMA:
			search->unknown_function = true;
			break;
		default:
			if (funcid >= FirstUnpinnedObjectId && parallel != PROPARALLEL_SAFE)
				search->unknown_function = true;
			break;
	}
	return false;
}

/*
 * Find what the server itself would find, in one walk with what may be a unknown_function.
 */
static bool
check_query(Node *node, void *context)
{
	QuerySearch *search = context;

	if (node == NULL)
		return false;
	if (check_functions_in_node(node, check_function, context))
		return true;
	/* The check of a domain may call anything, and runs in the leader. */
	if (IsA(node, CoerceToDomain))
		search->unknown_function = true;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		if (query->commandType != CMD_SELECT || query->rowMarks != NIL || query->hasModifyingCTE)
		{
			search->cause = REFUSED_WRITES;
			return true;
		}
		return query_tree_walker(query, check_query, context, 0);
	}
	return expression_tree_walker(node, check_query, context);
}

PtRefusal
pt_query_refusal(Query *query, bool *unknown_function, Oid *function)
{
	QuerySearch search = {.cause = REFUSED_NOT};

	(void) check_query((Node *) query, &search);
	*unknown_function = search.unknown_function;
	*function = search.function;
	return search.cause;
}

static bool
has_index(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	bool		result = rel->rd_rel->relhasindex;

	table_close(rel, NoLock);
	return result;
}

/*
 * The text of the notice.  Where workers do not reach temporary tables by indexes, that may
 * be why a serial plan is cheaper.
 */
static const char *
refusal_detail(Oid relid, PtRefusal refusal, Oid function)
{
	if (refusal == REFUSED_COST && !StockReadsLeaveFiles_compat && has_index(relid))
		return "A plan that reads it serially is cheaper; in this version of PostgreSQL workers do not use indexes of temporary tables.";
	return pt_refusal_text(refusal, function);
}

void		pg_attribute_hot
pt_report_refusal(Oid relid, PtRefusal refusal, Oid function)
{
	pt_counters.planned[refusal]++;
	if (refusal != REFUSED_NOT && pt_explain_refusals)
		ereport(NOTICE,
				(errmsg("temporary table \"%s\" is not read in parallel", get_rel_name(relid)),
				 errdetail_internal("%s", refusal_detail(relid, refusal, function))));
}

void
pt_report_refusals(PlannedStmt *serial, PtRefusal refusal, Oid function)
{
	List	   *counted = NIL;
	ListCell   *lc;

	foreach(lc, serial->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION || rte->inh ||
			list_member_oid(counted, rte->relid) || get_rel_persistence(rte->relid) != RELPERSISTENCE_TEMP)
			continue;
		counted = lappend_oid(counted, rte->relid);
		pt_report_refusal(rte->relid, refusal, function);
	}
	list_free(counted);
}

void
pt_account_refusals(PtPlanning *frame, TempPlan *plan, bool replanned)
{
	List	   *reported = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, frame->considered)
	{
		ConsideredTable *table = lfirst(lc);

		/* A subquery may be planned in two ways, and a table read twice. */
		if (list_member_oid(reported, table->relid))
			continue;
		reported = lappend_oid(reported, table->relid);
		foreach(lc2, plan->uses)
		{
			TempUse    *use = lfirst(lc2);

			if (use->relid == table->relid && (use->own_below || use->stock_below))
				table->refusal = REFUSED_NOT;
		}
		if (replanned)
			table->refusal = REFUSED_REPLANNED;
		pt_report_refusal(table->relid, table->refusal, table->function);
	}
	list_free(reported);
}

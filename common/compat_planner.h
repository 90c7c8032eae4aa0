/*-------------------------------------------------------------------------
 *
 * compat_planner.h
 *	  Differences between PostgreSQL 15 and 19 in planning: the planner's hook,
 *	  paths, and finished plans.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_PLANNER_H
#define COMPAT_PLANNER_H

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"

/* Parameter list of the planner's hook, to declare one and to call on; EXPLAIN's state since 19. */
#if PG_VERSION_NUM >= 190000
#define PLANNER_PARAMS_compat Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo params, ExplainState *es
#define PLANNER_ARGS_compat parse, query_string, cursor_options, params, es
#else
#define PLANNER_PARAMS_compat Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo params
#define PLANNER_ARGS_compat parse, query_string, cursor_options, params
#endif

/*
 * The hook behind what the planner reads of a table into "info".  Since 19 it is asked for
 * entries that are no tables as well, whose relid is invalid.
 */
#if PG_VERSION_NUM >= 190000
#define relation_info_hook_compat build_simple_rel_hook
typedef build_simple_rel_hook_type relation_info_hook_type_compat;
#define RELATION_INFO_PARAMS_compat PlannerInfo *root, RelOptInfo *info, RangeTblEntry *rte
#define RELATION_INFO_ARGS_compat root, info, rte
#define RelationInfoRelid_compat (rte->rtekind == RTE_RELATION ? rte->relid : InvalidOid)
#define RelationInfoInh_compat (rte->inh)
#else
#define relation_info_hook_compat get_relation_info_hook
typedef get_relation_info_hook_type relation_info_hook_type_compat;
#define RELATION_INFO_PARAMS_compat PlannerInfo *root, Oid relationObjectId, bool inhparent, RelOptInfo *info
#define RELATION_INFO_ARGS_compat root, relationObjectId, inhparent, info
#define RelationInfoRelid_compat (relationObjectId)
#define RelationInfoInh_compat (inhparent)
#endif

/* The relations that a plan changes: a list until 18, a set since. */
#if PG_VERSION_NUM >= 190000
#define ResultRelationsCount_compat(stmt) bms_num_members((stmt)->resultRelationRelids)
#define ResultRelationFirst_compat(stmt) bms_next_member((stmt)->resultRelationRelids, -1)
#define SetResultRelations_compat(stmt, from) ((stmt)->resultRelationRelids = (from)->resultRelationRelids)
#else
#define ResultRelationsCount_compat(stmt) list_length((stmt)->resultRelations)
#define ResultRelationFirst_compat(stmt) linitial_int((stmt)->resultRelations)
#define SetResultRelations_compat(stmt, from) ((stmt)->resultRelations = (from)->resultRelations)
#endif

/* The identifier of a plan, which extensions may set since 18; 0: none has. */
#if PG_VERSION_NUM >= 180000
#define PlanId_compat(stmt) ((uint64) (stmt)->planId)
#define SetPlanId_compat(stmt, id) ((stmt)->planId = (int64) (id))
#else
#define PlanId_compat(stmt) UINT64CONST(0)
#define SetPlanId_compat(stmt, id) ((void) (stmt), (void) (id))
#endif

/* Until 17 a disabled path has a very high cost, since 18 it is counted. */
#if PG_VERSION_NUM >= 180000
#define PathSetDisabled_compat(path) ((path)->disabled_nodes++)
#define PathCopyDisabled_compat(path, from) ((path)->disabled_nodes = (from)->disabled_nodes)
#define PlanIsDisabled_compat(plan) ((plan)->disabled_nodes > 0)
#else
#define PlanIsDisabled_compat(plan) ((plan)->total_cost >= disable_cost)
#define PathSetDisabled_compat(path) \
	((path)->startup_cost += disable_cost, (path)->total_cost += disable_cost)
#define PathCopyDisabled_compat(path, from) ((void) 0)	/* it is in the cost */
#endif

/* May a relation be scanned sequentially?  A mask of the relation since 19. */
#if PG_VERSION_NUM >= 190000
#define SeqScanEnabled_compat(rel) (((rel)->pgs_mask & PGS_SEQSCAN) != 0)
#else
#define SeqScanEnabled_compat(rel) (enable_seqscan)
#endif

#if PG_VERSION_NUM >= 160000
#define create_subqueryscan_path_compat(root, rel, subpath, pathkeys, outer) \
	create_subqueryscan_path(root, rel, subpath, false, pathkeys, outer)
#else
#define create_subqueryscan_path_compat(root, rel, subpath, pathkeys, outer) \
	create_subqueryscan_path(root, rel, subpath, pathkeys, outer)
#endif

/* The role whose privileges on a relation of a query count: the owner of the view that reads it, or the current user. */
#include "miscadmin.h"
#include "parser/parsetree.h"
#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"
static inline Oid
RelationReader_compat(PlannerInfo *root, Index varno)
{
	RelOptInfo *rel = root->simple_rel_array != NULL ? root->simple_rel_array[varno] : NULL;
	RangeTblEntry *rte = planner_rt_fetch(varno, root);
	Oid			role = InvalidOid;

	if (rel != NULL)
		role = rel->userid;
	else if (rte->perminfoindex > 0)
		role = getRTEPermissionInfo(root->parse->rteperminfos, rte)->checkAsUser;
	return OidIsValid(role) ? role : GetUserId();
}
#else
static inline Oid
RelationReader_compat(PlannerInfo *root, Index varno)
{
	Oid			role = planner_rt_fetch(varno, root)->checkAsUser;

	return OidIsValid(role) ? role : GetUserId();
}
#endif

/* get_ordering_op_properties(): which comparison an operator is. */
#if PG_VERSION_NUM >= 180000
typedef CompareType OrderingKind_compat;
#else
typedef int16 OrderingKind_compat;
#endif

/* Does a domain, or one that it is based on, have constraints?  Their volatility since 19. */
#if PG_VERSION_NUM >= 190000
#define DomainHasConstraints_compat(type) DomainHasConstraints(type, NULL)
#else
#define DomainHasConstraints_compat(type) DomainHasConstraints(type)
#endif

/* The type of a JSON_VALUE() or similar expression: 17 and later. */
#if PG_VERSION_NUM >= 170000
#define JsonExprType_compat(node) (IsA(node, JsonExpr) ? exprType(node) : InvalidOid)
#else
#define JsonExprType_compat(node) ((void) (node), InvalidOid)
#endif

/* Properties of plan nodes. */
#if PG_VERSION_NUM >= 160000
#define ForeignScanRelids_compat(plan) ((plan)->fs_base_relids)
#define JoinIsRightAnti_compat(jointype) ((jointype) == JOIN_RIGHT_ANTI)
#else
#define ForeignScanRelids_compat(plan) ((plan)->fs_relids)
#define JoinIsRightAnti_compat(jointype) false
#endif
#if PG_VERSION_NUM >= 180000
#define JoinIsRightSemi_compat(jointype) ((jointype) == JOIN_RIGHT_SEMI)
#else
#define JoinIsRightSemi_compat(jointype) false
#endif
#if PG_VERSION_NUM >= 170000
#define TableFuncName_compat(plan) ((plan)->tablefunc->functype == TFT_JSON_TABLE ? "json_table" : "xmltable")
#else
#define TableFuncName_compat(plan) ((void) (plan), "xmltable")
#endif

/* How many relations a query has: 18's range table has an entry for GROUP BY as well. */
#if PG_VERSION_NUM >= 180000
#define QueryRelations_compat(query) (list_length((query)->rtable) - ((query)->hasGroupRTE ? 1 : 0))
#else
#define QueryRelations_compat(query) list_length((query)->rtable)
#endif

/* CleanQuerytext(): the text of one statement of a string of them. */
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif

/*
 * The advice from which pg_plan_advice, of 19 and later, has the planner make a plan again; NULL
 * if the plan does not have it.  Asking whether there is any information of other libraries
 * is cheaper.
 */
#define HAVE_PLAN_ADVICE_COMPAT (PG_VERSION_NUM >= 190000)
#if HAVE_PLAN_ADVICE_COMPAT
#define PlanIsExtended_compat(stmt) ((stmt)->extension_state != NIL)
static inline DefElem *
DefinedElement_compat(List *list, const char *name)
{
	ListCell   *cell;

	foreach(cell, list)
	{
		if (IsA(lfirst(cell), DefElem) && strcmp(lfirst_node(DefElem, cell)->defname, name) == 0)
			return lfirst_node(DefElem, cell);
	}
	return NULL;
}
static inline const char *
PlanAdvice_compat(const PlannedStmt *stmt)
{
	DefElem    *found = DefinedElement_compat(stmt->extension_state, "pg_plan_advice");

	if (found != NULL && found->arg != NULL && IsA(found->arg, List))
		found = DefinedElement_compat((List *) found->arg, "advice_string");
	return found != NULL && found->arg != NULL && IsA(found->arg, String) ? strVal(found->arg) : NULL;
}
#else
#define PlanIsExtended_compat(stmt) ((void) (stmt), false)
#define PlanAdvice_compat(stmt) ((void) (stmt), (const char *) NULL)
#endif

/*
 * Is the setting on that puts a Gather on top of plans, or an invisible one?  Output
 * then has to be that of a serial plan.
 */
#include "optimizer/optimizer.h"
#if PG_VERSION_NUM >= 160000
#define InvisibleGather_compat() (debug_parallel_query == DEBUG_PARALLEL_REGRESS)
#define ParallelIsTested_compat() (debug_parallel_query != DEBUG_PARALLEL_OFF)
#else
#define InvisibleGather_compat() (force_parallel_mode == FORCE_PARALLEL_REGRESS)
#define ParallelIsTested_compat() (force_parallel_mode != FORCE_PARALLEL_OFF)
#endif

#endif							/* COMPAT_PLANNER_H */

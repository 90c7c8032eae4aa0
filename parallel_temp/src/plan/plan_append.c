/*-------------------------------------------------------------------------
 *
 * plan_append.c
 *	  UNION ALL, inheritance and partitioned tables with temporary members.
 *
 * Core excludes an append relation as a whole from parallel planning when it finds
 * a temporary member, and does not even check the members after it.  By the
 * time of our hook this has happened, and the members' paths are made one after
 * another, each followed by the hook.  So at the call for the first member the
 * whole append relation is judged again, temporary members by our rules and all others by
 * core's.  If it passes, the flags are put right before the other members' turn:
 * core then makes their parallel paths itself.  Paths that exist already (the
 * first member's own, and those of arms that stay subqueries, which are planned
 * before) are made parallel here.
 *
 * Temporary members keep their flag off until their own turn, or core would give
 * them stock parallel scans.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tsmapi.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "foreign/fdwapi.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

#include "compat_planner.h"
#include "plan/plan.h"

static RelOptInfo *
parent_of(PlannerInfo *root, RelOptInfo *rel)
{
	if (rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return NULL;
	return find_base_rel(root, root->append_rel_array[rel->relid]->parent_relid);
}

static bool
is_temporary_table(RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && !rte->inh && rte->relkind == RELKIND_RELATION &&
		get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP;
}

/*
 * Would core let workers scan this relation?  (Its own test has not been made.)
 */
static bool
core_allows(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			if (get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
				return false;
			if (rte->tablesample != NULL &&
				(func_parallel(rte->tablesample->tsmhandler) != PROPARALLEL_SAFE ||
				 !is_parallel_safe(root, (Node *) rte->tablesample->args)))
				return false;
			if (rte->relkind == RELKIND_FOREIGN_TABLE &&
				(rel->fdwroutine->IsForeignScanParallelSafe == NULL ||
				 !rel->fdwroutine->IsForeignScanParallelSafe(root, rel, rte)))
				return false;
			break;
		case RTE_SUBQUERY:
			if (limit_needed(rte->subquery))
				return false;
			break;
		case RTE_FUNCTION:
			if (!is_parallel_safe(root, (Node *) rte->functions))
				return false;
			break;
		case RTE_VALUES:
			if (!is_parallel_safe(root, (Node *) rte->values_lists))
				return false;
			break;
		case RTE_RESULT:
			break;
		default:
			return false;
	}
	return pt_expressions_parallel_safe(root, rel);
}

/*
 * The direct members of an append relation, except those that are known to be empty.
 */
static List *
append_members(PlannerInfo *root, RelOptInfo *parent)
{
	List	   *members = NIL;
	ListCell   *lc;

	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *appinfo = lfirst_node(AppendRelInfo, lc);
		RelOptInfo *member = root->simple_rel_array[appinfo->child_relid];

		if (appinfo->parent_relid == parent->relid && member != NULL && !IS_DUMMY_REL(member))
			members = lappend(members, member);
	}
	return members;
}

/*
 * Can every member below this append relation be read by workers?  *temporary is
 * set when a temporary table is among them.
 */
static bool
members_allow(PlannerInfo *root, RelOptInfo *parent, bool *temporary)
{
	ListCell   *lc;

	if (!pt_expressions_parallel_safe(root, parent))
		return false;
	foreach(lc, append_members(root, parent))
	{
		RelOptInfo *member = lfirst(lc);
		RangeTblEntry *rte = planner_rt_fetch(member->relid, root);

		if (rte->inh)
		{
			if (!members_allow(root, member, temporary))
				return false;
		}
		else if (is_temporary_table(rte))
		{
			Oid			function;

			*temporary = true;
			if (pt_temp_table_refusal(root, member, rte, &function) != REFUSED_NOT)
				return false;
		}
		else if (!member->consider_parallel && !core_allows(root, member, rte))
			return false;
	}
	return true;
}

static Path *
subquery_path(PlannerInfo *root, RelOptInfo *rel, Path *subpath, Relids outer)
{
	List	   *pathkeys = convert_subquery_pathkeys(root, rel, subpath->pathkeys,
													 make_tlist_from_pathtarget(subpath->pathtarget));

	return (Path *) create_subqueryscan_path_compat(root, rel, subpath, pathkeys, outer);
}

/*
 * An arm of UNION ALL that stays a subquery has been planned while parallel
 * query was off for it: offer its parallel paths now.
 */
static void
repair_subquery(PlannerInfo *root, RelOptInfo *rel)
{
	RelOptInfo *final = fetch_upper_rel(rel->subroot, UPPERREL_FINAL, NULL);
	ListCell   *lc;

	foreach(lc, final->pathlist)
		add_path(rel, subquery_path(root, rel, lfirst(lc), rel->lateral_relids));
	if (rel->lateral_relids != NULL || !final->consider_parallel)
		return;
	foreach(lc, final->partial_pathlist)
		add_partial_path(rel, subquery_path(root, rel, lfirst(lc), NULL));
}

/*
 * The first member's paths were made just before the flag was put right.
 */
static void
repair_first(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	ListCell   *lc;

	if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE)
		return;
	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		/*
		 * Paths of another library or a foreign-data wrapper stay as they
		 * are.
		 */
		if (!IsA(path, CustomPath) && !IsA(path, ForeignPath))
			path->parallel_safe = true;
	}
	if (rte->rtekind == RTE_RELATION && rte->tablesample == NULL && rel->lateral_relids == NULL)
	{
		int			workers = compute_parallel_worker(rel, rel->pages, -1, max_parallel_workers_per_gather);

		if (workers > 0)
			add_partial_path(rel, create_seqscan_path(root, rel, NULL, workers));
		create_index_paths(root, rel);
	}
}

static void
allow_members(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *first)
{
	ListCell   *lc;

	parent->consider_parallel = true;
	foreach(lc, append_members(root, parent))
	{
		RelOptInfo *member = lfirst(lc);
		RangeTblEntry *rte = planner_rt_fetch(member->relid, root);

		if (rte->inh)
			allow_members(root, member, first);
		else if (!is_temporary_table(rte) && !member->consider_parallel)
		{
			member->consider_parallel = true;
			if (rte->rtekind == RTE_SUBQUERY)
				repair_subquery(root, member);
			else if (member == first)
				repair_first(root, member, rte);
		}
	}
}

bool
pt_append_members_parallel(PlannerInfo *root, RelOptInfo *rel, PtPlanning *planning)
{
	RelOptInfo *parent = parent_of(root, rel);
	RelOptInfo *top;
	bool		temporary = false;

	if (parent == NULL || parent->consider_parallel)
		return true;
	top = parent;
	while (parent_of(root, top) != NULL)
		top = parent_of(root, top);
	if (list_member_ptr(planning->refused_parents, top))
		return false;
	if (!members_allow(root, top, &temporary) || !temporary)
	{
		planning->refused_parents = lappend(planning->refused_parents, top);
		return false;
	}
	allow_members(root, top, rel);
	return true;
}

/*-------------------------------------------------------------------------
 *
 * plan_joins.c
 *	  Parallel nested loops whose inner side is a whole temporary table.
 *
 * For hash and merge joins core looks for the cheapest inner path that workers can
 * run.  For a nested loop it takes the cheapest inner path as it is: that is the
 * sequential scan, which workers cannot run, because our complete path is a little
 * dearer (plan_paths.c).  So the loops over that path are added here, plain and
 * with the inner rows kept in memory, and core decides by cost.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"

#include "compat_planner.h"
#include "parallel/plan.h"
#include "parallel/plan_paths.h"

static set_join_pathlist_hook_type previous_set_join_pathlist = NULL;

static void
add_nested_loop(PlannerInfo *root, RelOptInfo *joinrel, JoinType jointype, JoinPathExtraData *extra,
				Path *outer, Path *inner)
{
	JoinCostWorkspace workspace;

	initial_cost_nestloop_compat(root, &workspace, jointype, outer, inner, extra);
	add_partial_path(joinrel, (Path *)
					 create_nestloop_path(root, joinrel, jointype, &workspace, extra, outer, inner,
										  extra->restrictlist,
										  build_join_pathkeys(root, joinrel, jointype, outer->pathkeys),
										  NULL));
}

static void pg_attribute_hot
plan_set_join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
					   JoinType jointype, JoinPathExtraData *extra)
{
	Planning   *planning = current_planning();
	Path	   *inner;
	ListCell   *lc;

	if (previous_set_join_pathlist)
		previous_set_join_pathlist(root, joinrel, outerrel, innerrel, jointype, extra);
	if (planning == NULL || planning->off || !joinrel->consider_parallel || outerrel->partial_pathlist == NIL ||
		joinrel->lateral_relids != NULL || innerrel->cheapest_total_path == NULL ||
		innerrel->cheapest_total_path->parallel_safe)
		return;
	if (jointype != JOIN_INNER && jointype != JOIN_LEFT && jointype != JOIN_SEMI && jointype != JOIN_ANTI)
		return;
	inner = get_cheapest_parallel_safe_total_inner(innerrel->pathlist);
	if (inner == NULL || inner->param_info != NULL)
		return;

	foreach(lc, outerrel->partial_pathlist)
	{
		Path	   *outer = lfirst(lc);

		if (outer->param_info != NULL)
			continue;
		add_nested_loop(root, joinrel, jointype, extra, outer, inner);
		if (enable_material)
			add_nested_loop(root, joinrel, jointype, extra, outer, (Path *) create_material_path_compat(innerrel, inner));
	}
}

void
plan_joins_install(void)
{
	previous_set_join_pathlist = set_join_pathlist_hook;
	set_join_pathlist_hook = plan_set_join_pathlist;
}

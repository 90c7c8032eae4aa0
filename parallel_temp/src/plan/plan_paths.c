/*-------------------------------------------------------------------------
 *
 * plan_paths.c
 *	  Paths by which workers can read a temporary table, and the costs of all its paths.
 *
 * Called by the planner for each table, after core's paths were added, in a planner run
 * that offers workers (plan.c).  A temporary table that workers can read gets
 *
 *  - a partial path: the processes divide the table;
 *  - a complete path in place of the sequential scan, at the same cost: any process that
 *    runs it reads the complete table, for instance as the inner side of a join;
 *  - its index and bitmap paths again, also partial ones: core's code runs them in
 *    workers too (worker.c).
 *
 * All of them, and those of a temporary table that workers cannot read, cost what
 * plan_cost.c takes for pages where they are.  So add_path() compares serial and parallel
 * paths at the same costs.
 *
 * A worker has to enter the pages of a table and an index before core's code can read them
 * there, which the leader does not.  So an index path is added twice: one for the leader
 * alone, and a more expensive one that workers may run.  add_path() keeps both.  A
 * parameterized path is charged once for each outer row, so its charge is divided by the
 * number of rows that core expects.
 *
 * A serial plan of this planner run only represents the server's plan, which is used if it wins
 * (plan.c).  So there is a path for the leader alone only if the server's plan reads its indexes.
 * Otherwise a serial plan could win that is not used, for instance lookups in an index in place
 * of the server's hash join, and hide a parallel plan that is cheaper than the server's.
 *
 * pg_hint_plan drops all paths of a table that a hint names, creates core's again, and makes
 * the partial ones free.  So before other libraries' hooks we only tell core that workers can
 * read the table, and in the second planner run our paths are added after all others, even of
 * libraries that were loaded later.  If the library has replaced core's paths, they are adopted instead.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat_planner.h"
#include "compat_storage.h"
#include "parallel_temp.h"
#include "plan/plan.h"
#include "scan/scan.h"

static set_rel_pathlist_hook_type previous_set_rel_pathlist = NULL;

/* In the second planner run: the hook of a library that was loaded later, or NULL. */
static set_rel_pathlist_hook_type above_ours = NULL;

static Plan *
plan_temp_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->custom_private = path->custom_private;
	scan->methods = pt_scan_methods();
	return (Plan *) scan;
}

static const CustomPathMethods path_methods = {
	.CustomName = "Temp Scan",
	.PlanCustomPath = plan_temp_scan,
};

/*
 * A custom path, without costs.
 */
static CustomPath *
make_path(RelOptInfo *rel, PtPlanning *planning, int workers, const TempTableCost * cost)
{
	CustomPath *path = makeNode(CustomPath);
	TempScanPrivate members = {.partial = workers > 0,.unknown_function = planning->unknown_function,.flush = cost->flush};

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = true;
	path->path.parallel_aware = workers > 0;
	path->path.parallel_workers = workers;
	path->path.rows = rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = pt_scan_private(&members);
	path->methods = &path_methods;
	return path;
}

/*
 * The processes divide the table, its pages as well: they are in memory, here or in the
 * kernel.
 */
static void
add_partial_scan(RelOptInfo *rel, PtPlanning *planning, int workers, const TempTableCost * cost, Cost start)
{
	CustomPath *path = make_path(rel, planning, workers, cost);
	Cost		run = (cpu_tuple_cost + rel->baserestrictcost.per_tuple) * rel->tuples +
		rel->reltarget->cost.per_tuple * rel->rows + cost->page * rel->pages;

	path->path.rows = clamp_row_est(rel->rows / pt_parallel_divisor(workers));
	path->path.startup_cost = rel->baserestrictcost.startup + rel->reltarget->cost.startup + start;
	path->path.total_cost = path->path.startup_cost + run / pt_cpu_divisor(workers);
	if (!SeqScanEnabled_compat(rel))
		PathSetDisabled_compat(&path->path);
	add_partial_path(rel, &path->path);
}

/*
 * Take what the server charged too much for pages off its sequential scan; if workers can
 * read the table, the complete path replaces it.  A member of an append relation keeps the
 * sequential scan after ours: core cannot make ours depend on rows of another table.
 */
static void
adjust_seqscan(RelOptInfo *rel, PtPlanning *planning, const TempTableCost * cost, bool replace)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);
		CustomPath *ours;

		if (path->pathtype != T_SeqScan)
			continue;
		path->total_cost -= cost->saved;
		if (!replace || path->param_info != NULL)
			continue;
		ours = make_path(rel, planning, 0, cost);
		ours->path.startup_cost = path->startup_cost;
		ours->path.total_cost = path->total_cost;
		PathCopyDisabled_compat(&ours->path, path);
		lfirst(lc) = ours;
		if (rel->reloptkind == RELOPT_OTHER_MEMBER_REL)
			rel->pathlist = list_insert_nth(rel->pathlist, foreach_current_index(lc) + 1, path);
		break;
	}
}

/*
 * The indexes that a path reads, as IndexOptInfo.
 */
static List *
indexes_of(Path *path)
{
	List	   *quals;
	List	   *result = NIL;
	ListCell   *lc;

	switch (nodeTag(path))
	{
		case T_IndexPath:
			return list_make1(((IndexPath *) path)->indexinfo);
		case T_BitmapHeapPath:
			return indexes_of(((BitmapHeapPath *) path)->bitmapqual);
		case T_BitmapAndPath:
			quals = ((BitmapAndPath *) path)->bitmapquals;
			break;
		case T_BitmapOrPath:
			quals = ((BitmapOrPath *) path)->bitmapquals;
			break;
		default:
			return NIL;
	}
	foreach(lc, quals)
		result = list_concat(result, indexes_of(lfirst(lc)));
	return result;
}

static double
index_pages(Path *path)
{
	double		result = 0;
	ListCell   *lc;

	foreach(lc, indexes_of(path))
		result += ((IndexOptInfo *) lfirst(lc))->pages;
	return result;
}

/*
 * Does the server's plan read all indexes of the path?
 */
static bool
server_reads_indexes(PtPlanning *planning, Path *path)
{
	ListCell   *lc;

	if (planning->serial == NULL)
		return true;
	foreach(lc, indexes_of(path))
	{
		if (!list_member_oid(planning->serial->indexes, ((IndexOptInfo *) lfirst(lc))->indexoid))
			return false;
	}
	return true;
}

/*
 * Create core's index paths with the cost of a page at every visit, and with that many workers.
 */
static void
create_index_paths_at(PlannerInfo *root, RelOptInfo *rel, const TempTableCost * cost, int workers)
{
	int			nest_level = NewGUCNestLevel();

	pt_set_cost_setting("max_parallel_workers_per_gather", workers);
	if (!cost->own_page_costs)
	{
		pt_set_cost_setting("random_page_cost", cost->page);
		pt_set_cost_setting("seq_page_cost", cost->page);
		/* further visits to a page are not free */
		pt_set_cost_setting("effective_cache_size", 1);
	}
	create_index_paths(root, rel);
	AtEOXact_GUC(true, nest_level);
}

static bool
is_index_path(const Path *path)
{
	return IsA(path, IndexPath) || IsA(path, BitmapHeapPath);
}

static Path *
copy_index_path(Path *path)
{
	Size		size = IsA(path, IndexPath) ? sizeof(IndexPath) : sizeof(BitmapHeapPath);

	return memcpy(palloc(size), path, size);
}

/*
 * The number of runs of a parameterized path: as many as the smallest table has rows that
 * it depends on, as in core's get_loop_count().
 */
static double
loop_count(PlannerInfo *root, Relids outer)
{
	double		result = 0;
	int			relid = -1;

	while ((relid = bms_next_member(outer, relid)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[relid];

		if (rel != NULL && !IS_DUMMY_REL(rel) && (result == 0 || rel->rows < result))
			result = rel->rows;
	}
	return Max(result, 1.0);
}

/*
 * Replace core's index paths.  Where "charged" is set, each one that workers can run has a
 * cheaper copy for the leader.  A path for the leader alone is only added if the server's plan
 * reads its indexes (see above).  If that leaves none, because the sequential scan is disabled,
 * core's own paths remain.
 */
static void
replace_index_paths(PlannerInfo *root, RelOptInfo *rel, PtPlanning *planning, const TempTableCost * cost, bool charged)
{
	int			workers = pt_most_workers(rel, planning);
	List	   *core_paths = rel->pathlist;
	List	   *others = NIL;
	List	   *paths;
	List	   *partial_paths;
	bool		complete = false;
	ListCell   *lc;

	foreach(lc, core_paths)
	{
		if (!is_index_path(lfirst(lc)))
			others = lappend(others, lfirst(lc));
	}
	rel->pathlist = NIL;
	create_index_paths_at(root, rel, cost, workers);
	paths = rel->pathlist;
	partial_paths = rel->partial_pathlist;
	rel->pathlist = others;
	rel->partial_pathlist = NIL;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);
		bool		leader = !charged || server_reads_indexes(planning, path);
		Cost		start = cost->share + pt_enter_cost(rel->pages + index_pages(path), planning->setup_scale);

		if (charged && path->parallel_safe && start > 0)
		{
			if (leader)
			{
				Path	   *leaders = copy_index_path(path);

				leaders->parallel_safe = false;
				add_path(rel, leaders);
			}
			if (PATH_REQ_OUTER(path) != NULL)
				start *= pt_parallel_divisor(workers) / loop_count(root, PATH_REQ_OUTER(path));
			path->startup_cost += start;
			path->total_cost += start;
		}
		if (leader || path->parallel_safe)
			add_path(rel, path);
	}
	foreach(lc, partial_paths)
	{
		Path	   *path = lfirst(lc);
		Cost		start = cost->share + pt_enter_cost(rel->pages + index_pages(path), planning->setup_scale);

		path->startup_cost += start;
		path->total_cost += start;
		add_partial_path(rel, path);
	}
	foreach(lc, rel->pathlist)
		complete |= bms_equal(PATH_REQ_OUTER((Path *) lfirst(lc)), rel->lateral_relids);
	foreach(lc, complete ? NIL : core_paths)
	{
		if (is_index_path(lfirst(lc)))
			add_path(rel, lfirst(lc));
	}
}

/*
 * Has another library had core's paths of the table created again?  They are marked for
 * workers then, because we set the relation's flag before; core's first ones are not.
 */
static bool
paths_were_replaced(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		if (((Path *) lfirst(lc))->parallel_safe)
			return true;
	}
	return false;
}

/*
 * The other library has chosen the paths and their costs.  Core's sequential scans, which
 * workers cannot run, become ours; index paths remain if workers can run them.
 */
static void
adopt_paths(RelOptInfo *rel, PtPlanning *planning, const TempTableCost * cost, bool index_access)
{
	List	   *partial_paths = rel->partial_pathlist;
	ListCell   *lc;
	ListCell   *lc2;

	adjust_seqscan(rel, planning, cost, true);
	rel->partial_pathlist = NIL;
	foreach(lc, partial_paths)
	{
		Path	   *path = lfirst(lc);
		CustomPath *ours = NULL;

		if (path->pathtype == T_SeqScan)
		{
			ours = make_path(rel, planning, path->parallel_workers, cost);
			ours->path.rows = path->rows;
			ours->path.startup_cost = path->startup_cost;
			ours->path.total_cost = path->total_cost;
			PathCopyDisabled_compat(&ours->path, path);
		}
		if (ours != NULL || index_access)
			rel->partial_pathlist = lappend(rel->partial_pathlist, ours ? &ours->path : path);
		foreach(lc2, rel->pathlist)
		{
			GatherPath *gather = lfirst(lc2);

			if (!IsA(gather, GatherPath) || gather->subpath != path)
				continue;
			if (ours != NULL)
				gather->subpath = &ours->path;
			else if (!index_access)
				rel->pathlist = foreach_delete_current(rel->pathlist, lc2);
		}
	}
	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (is_index_path(path))
			path->parallel_safe &= index_access;
	}
}

static void
add_temp_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, PtPlanning *planning,
			   ConsideredTable *table)
{
	bool		readable = table->refusal == REFUSED_NOT;
	bool		base = root->parent_root == NULL && rel->reloptkind == RELOPT_BASEREL;
	bool		hidden = planning->for_explain && InvisibleGather_compat();
	bool		index_access = readable && pt_index_access && StockReadsLeaveFiles_compat && !planning->unknown_function;
	TempTableCost cost;
	int			workers = 0;

	if (readable && paths_were_replaced(rel))
	{
		table->refusal = REFUSED_COST;
		pt_temp_table_cost(&cost, rel, rte->relid, planning->setup_scale);

		/*
		 * less would make the serial plan win where it does not over other
		 * tables
		 */
		cost.saved = 0;
		adopt_paths(rel, planning, &cost, index_access);
		return;
	}
	if (readable)
	{
		workers = compute_parallel_worker(rel, rel->pages, -1, pt_most_workers(rel, planning));
		table->refusal = workers > 0 ? REFUSED_COST : REFUSED_SMALL;

		/* Nothing to gain from a small table that is all there is. */
		if (workers <= 0 && base && bms_membership(root->all_baserels) == BMS_SINGLETON &&
			!(pt_debug_force && !planning->for_explain))
			return;
	}
	pt_temp_table_cost(&cost, rel, rte->relid, planning->setup_scale);

	/*
	 * parallel_temp.debug_force, for tests: our scan wherever core has a
	 * sequential one. Not for a table that does not fit: tests look at reads
	 * and writes of such a one.
	 */
	if (pt_debug_force && !planning->for_explain && readable)
	{
		if (rel->pages > num_temp_buffers / 2)
			return;
		workers = 0;
	}

	/*
	 * First, because add_path() compares others with it.  Where EXPLAIN must
	 * not show a test's Gather, the server's scan remains.
	 */
	adjust_seqscan(rel, planning, &cost, readable && !hidden);

	/*
	 * Only the cheapest plan of a subquery is used, and core combines the
	 * cheapest paths of an append relation's members.  Workers must be able
	 * to run those, so their paths for workers are not charged.
	 */
	if (rel->indexlist != NIL && !hidden)
	{
		rel->consider_parallel = index_access;
		replace_index_paths(root, rel, planning, &cost, base);
		rel->consider_parallel = readable;
	}
	if (workers > 0)
		add_partial_scan(rel, planning, workers, &cost, cost.share + pt_toast_enter_cost(rel, rte->relid, planning->setup_scale));
}

/*
 * Is it a heap table of this session?
 */
static bool
is_own_temp_table(RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION &&
		get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP;
}

/*
 * The table's entry in planning->considered, with the reason why workers cannot read it; NULL if
 * it is not a temporary table.  Core's flag is set on first sight.
 */
static ConsideredTable *
consider_table(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, PtPlanning *planning)
{
	ConsideredTable *table;
	ListCell   *lc;

	foreach(lc, planning->considered)
	{
		table = lfirst(lc);
		if (table->rel == rel)
			return table;
	}

	/* The first member of an append relation decides for all, whatever it is. */
	if (rel->reloptkind == RELOPT_OTHER_MEMBER_REL && root->glob->parallelModeOK)
		(void) pt_append_members_parallel(root, rel, planning);
	if (!is_own_temp_table(rte))
		return NULL;

	table = palloc0(sizeof(ConsideredTable));
	table->rel = rel;
	table->relid = rte->relid;
	table->refusal = pt_temp_table_refusal(root, rel, rte, &table->function);
	planning->considered = lappend(planning->considered, table);
	if (table->refusal == REFUSED_NOT && rel->reloptkind == RELOPT_OTHER_MEMBER_REL &&
		!pt_append_members_parallel(root, rel, planning))
		table->refusal = REFUSED_MEMBER;
	rel->consider_parallel = table->refusal == REFUSED_NOT;
	return table;
}

static PtPlanning *
planning_of(RelOptInfo *rel, RangeTblEntry *rte)
{
	PtPlanning *planning = pt_current_planning();

	if (likely(planning == NULL) || !planning->temp_paths || IS_DUMMY_REL(rel) || rte->inh)
		return NULL;
	return planning;
}

/*
 * All other libraries' hooks have been called.
 */
static void
finish_relation(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	PtPlanning *planning = planning_of(rel, rte);
	ConsideredTable *table = planning ? consider_table(root, rel, rte, planning) : NULL;

	if (table != NULL && table->refusal != REFUSED_KIND)
		add_temp_paths(root, rel, rte, planning, table);
}

static void pg_attribute_hot
plan_set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	PtPlanning *planning = planning_of(rel, rte);

	if (unlikely(planning != NULL))
		(void) consider_table(root, rel, rte, planning);
	if (previous_set_rel_pathlist)
		previous_set_rel_pathlist(root, rel, rti, rte);
	if (unlikely(planning != NULL) && above_ours == NULL)
		finish_relation(root, rel, rte);
}

static void
plan_set_rel_pathlist_last(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	above_ours(root, rel, rti, rte);
	finish_relation(root, rel, rte);
}

bool
pt_plan_paths_come_last(void)
{
	if (likely(set_rel_pathlist_hook == plan_set_rel_pathlist) || above_ours != NULL)
		return false;
	above_ours = set_rel_pathlist_hook;
	set_rel_pathlist_hook = plan_set_rel_pathlist_last;
	return true;
}

void
pt_plan_paths_restore_order(void)
{
	set_rel_pathlist_hook = above_ours;
	above_ours = NULL;
}

void
pt_plan_paths_install(void)
{
	previous_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = plan_set_rel_pathlist;
}

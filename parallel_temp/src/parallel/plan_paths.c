/*-------------------------------------------------------------------------
 *
 * plan_paths.c
 *	  Paths by which workers can read a temporary table, and what they cost.
 *
 * Called by the planner for each table, after its own paths.  A temporary table
 * that workers can read gets
 *
 *  - a partial path: the processes divide the table;
 *  - a complete path: every worker that runs it reads all of it, as the inner side
 *    of a join with a big permanent table;
 *  - its index and bitmap paths marked parallel-safe, and partial ones: stock code
 *    runs them in workers too (worker.c).
 *
 * Costs are the server's and what plan_prices.c adds, with two exceptions: pages that
 * are in memory cost what they do there, and where processes divide a table its pages
 * are divided as well.  That makes parallel plans too cheap beside serial ones, whose
 * pages all come from a disk: the best one is looked for, and has to pass another
 * test against the server's serial plan when it is finished (plan.c).
 *
 * The complete path is made 2 % dearer than a sequential scan, so that it takes no
 * place in a serial part of a plan: paths that differ by less than 1 % count as
 * equal, and the parallel-safe one would win.  What a parameterized path is charged
 * for its start counts once for every outer row, so there it is spread over as many
 * rows as core expects.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "compat_planner.h"
#include "compat_storage.h"
#include "parallel/plan.h"
#include "parallel/plan_paths.h"
#include "parallel/plan_prices.h"
#include "parallel/plan_refusal.h"
#include "parallel/scan.h"
#include "parallel_temp.h"

#define COMPLETE_PATH_SURCHARGE 1.02

static set_rel_pathlist_hook_type previous_set_rel_pathlist = NULL;

static Plan *
plan_temp_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->custom_private = path->custom_private;
	scan->methods = temp_scan_methods();
	return (Plan *) scan;
}

static const CustomPathMethods path_methods = {
	.CustomName = "Temp Scan",
	.PlanCustomPath = plan_temp_scan,
};

static CustomPath *
make_path(PlannerInfo *root, RelOptInfo *rel, Planning *planning, int workers, const TablePrices *prices,
		  Cost start, double surcharge)
{
	CustomPath *path = makeNode(CustomPath);
	TempScanPrivate members = {.partial = workers > 0,.hazard = planning->hazard,.start_cost = start,.flush = prices->flush};
	double		held_pages = workers > 0 ? prices->held * rel->pages : 0;
	Cost		run;
	double		page_cost;

	/* What was flushed is read from the file, but not from the disk. */
	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	run = (cpu_tuple_cost + rel->baserestrictcost.per_tuple) * rel->tuples +
		rel->reltarget->cost.per_tuple * rel->rows +
		(prices->flush ? page_cost : Min(pt_held_page_cost, page_cost)) * held_pages +
		page_cost * (rel->pages - held_pages);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = true;
	path->path.parallel_aware = workers > 0;
	path->path.parallel_workers = workers;
	path->path.rows = rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = temp_scan_private(&members);
	path->methods = &path_methods;
	if (workers > 0)
	{
		double		divisor = parallel_divisor(workers);

		run /= divisor;
		path->path.rows = clamp_row_est(rel->rows / divisor);
	}
	path->path.startup_cost = rel->baserestrictcost.startup + rel->reltarget->cost.startup + start;
	path->path.total_cost = path->path.startup_cost + run;
	if (!enable_seqscan)
		PathSetDisabled_compat(&path->path);

	/*
	 * Last, so that it tells even where the cost of a disabled path hides the
	 * rest.
	 */
	path->path.total_cost *= surcharge;
	return path;
}

/*
 * Pages of the indexes that a path reads.
 */
static double
index_pages(Path *path)
{
	double		result = 0;
	ListCell   *lc;

	switch (nodeTag(path))
	{
		case T_IndexPath:
			return ((IndexPath *) path)->indexinfo->pages;
		case T_BitmapHeapPath:
			return index_pages(((BitmapHeapPath *) path)->bitmapqual);
		case T_BitmapAndPath:
			foreach(lc, ((BitmapAndPath *) path)->bitmapquals)
				result += index_pages(lfirst(lc));
			return result;
		case T_BitmapOrPath:
			foreach(lc, ((BitmapOrPath *) path)->bitmapquals)
				result += index_pages(lfirst(lc));
			return result;
		default:
			return 0;
	}
}

/*
 * Make core's index paths with pages that cost what they do where they are, at every
 * visit.  If the table's tablespace has prices of its own, pages cost those.
 */
static void
create_held_index_paths(PlannerInfo *root, RelOptInfo *rel, double held)
{
	double		random_cost = random_page_cost;
	double		seq_cost = seq_page_cost;
	int			cache_size = effective_cache_size;

	PG_TRY();
	{
		random_page_cost = seq_page_cost = held_page_price(seq_cost, held);
		effective_cache_size = 1;
		create_index_paths(root, rel);
	}
	PG_FINALLY();
	{
		random_page_cost = random_cost;
		seq_page_cost = seq_cost;
		effective_cache_size = cache_size;
	}
	PG_END_TRY();
}

/*
 * What a path of core's costs less because the way down its index, if it is one, does.
 */
static void
charge_less_for_descent(Path *path)
{
	Cost		saving;

	if (!IsA(path, IndexPath))
		return;
	saving = descent_saving(((IndexPath *) path)->indexinfo->tree_height);
	path->startup_cost = Max(path->startup_cost - saving, 0);
	path->total_cost -= saving;
}

static void
charge_start(Planning *planning, Path *path, Cost start)
{
	StartCharge *charge = palloc(sizeof(StartCharge));

	path->startup_cost += start;
	path->total_cost += start;
	charge->rti = path->parent->relid;
	charge->startup_cost = path->startup_cost;
	charge->start = start;
	planning->start_charges = lappend(planning->start_charges, charge);
}

/*
 * Stock index and bitmap scans run in workers as they are.  Paths that exist were
 * made for a table that workers cannot read; asking core for index paths once more
 * gives those that they can, partial ones among them.
 */
static void
add_index_paths(PlannerInfo *root, RelOptInfo *rel, const TablePrices *prices, Planning *planning,
				bool complete_pays, bool partial_pays)
{
	List	   *serial_paths = rel->pathlist;
	List	   *paths;
	List	   *partial_paths;
	ListCell   *lc;

	rel->pathlist = NIL;
	if (planning->prices)
		create_held_index_paths(root, rel, prices->held);
	else
		create_index_paths(root, rel);
	paths = rel->pathlist;
	partial_paths = rel->partial_pathlist;
	rel->pathlist = NIL;
	rel->partial_pathlist = NIL;

	/* Those with other prices would be taken before their like for workers. */
	foreach(lc, serial_paths)
	{
		if (!planning->prices || !(IsA(lfirst(lc), IndexPath) || IsA(lfirst(lc), BitmapHeapPath)))
			rel->pathlist = lappend(rel->pathlist, lfirst(lc));
	}
	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);
		Relids		outer = PATH_REQ_OUTER(path);
		Cost		start = prices->table + stock_start_cost(rel->pages + index_pages(path));

		if (planning->prices)
			charge_less_for_descent(path);
		if (complete_pays)
		{
			if (outer != NULL)
				start *= parallel_divisor(max_parallel_workers_per_gather) / path_loop_count(root, outer);
			charge_start(planning, path, start);
		}
		add_path(rel, path);
	}
	foreach(lc, partial_paths)
	{
		Path	   *path = lfirst(lc);

		if (planning->prices)
			charge_less_for_descent(path);
		if (partial_pays)
		{
			Cost		start = workers_start_cost(path->parallel_workers) + prices->query +
				prices->table + stock_start_cost(rel->pages + index_pages(path));

			path->startup_cost += start;
			path->total_cost += start;
		}
		add_partial_path(rel, path);
	}
}

/*
 * Our complete scan takes the place of the sequential scan, at its price.  False if
 * there is none.  A member of an append relation keeps its sequential scan behind
 * ours: core cannot make ours depend on rows of another table.
 */
static bool
replace_seqscan(PlannerInfo *root, RelOptInfo *rel, Planning *planning)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->pathtype == T_SeqScan && path->param_info == NULL)
		{
			static const TablePrices free_of_charge = {0};
			CustomPath *ours = make_path(root, rel, planning, 0, &free_of_charge, 0, 1.0);

			ours->path.startup_cost = path->startup_cost;
			ours->path.total_cost = path->total_cost;
			lfirst(lc) = ours;
			if (rel->reloptkind == RELOPT_OTHER_MEMBER_REL)
				rel->pathlist = list_insert_nth(rel->pathlist, foreach_current_index(lc) + 1, path);
			return true;
		}
	}
	return false;
}

static void
add_temp_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, Planning *planning,
			   ConsideredTable *table)
{
	int			workers = compute_parallel_worker(rel, rel->pages, -1, max_parallel_workers_per_gather);
	bool		alone = root->parent_root == NULL && rel->reloptkind == RELOPT_BASEREL &&
		bms_membership(root->all_baserels) == BMS_SINGLETON;
	bool		index_access = pt_index_access && StockReadsLeaveFiles_compat && !planning->hazard &&
		rel->indexlist != NIL;
	TablePrices prices = {0};
	Cost		start;

	table->refusal = workers > 0 ? REFUSED_COST : REFUSED_SMALL;

	/*
	 * parallel_temp.force, for tests: our scan wherever core has a sequential
	 * one. Not for a table that does not fit: tests look at reads and writes
	 * of such a one.
	 */
	if (pt_force && !planning->for_explain && rel->pages <= num_temp_buffers / 2)
	{
		rel->consider_parallel = true;
		(void) replace_seqscan(root, rel, planning);
		if (index_access)
			add_index_paths(root, rel, &prices, planning, false, false);
		return;
	}

	/* Nothing to gain from a small table that is all there is. */
	if (workers <= 0 && alone)
		return;

	table_prices(planning, &prices, rel, rte->relid);
	rel->consider_parallel = true;

	/*
	 * Of a subquery only the cheapest plan goes on.  Workers must be able to
	 * run that, or they could not run a scan with the subquery in its filter.
	 * So there what they can run costs what core's own paths do.  So it does
	 * for members of an append relation, whose cheapest paths core puts
	 * together.
	 */
	if (index_access)
		add_index_paths(root, rel, &prices, planning,
						root->parent_root == NULL && rel->reloptkind == RELOPT_BASEREL, true);
	start = prices.table + toast_start_cost(rel, rte->relid);
	if (workers > 0)
		add_partial_path(rel, (Path *) make_path(root, rel, planning, workers, &prices,
												 workers_start_cost(workers) + prices.query + start, 1.0));
	if (root->parent_root != NULL && !(planning->for_explain && InvisibleGather_compat()) &&
		replace_seqscan(root, rel, planning))
		return;

	/*
	 * Where an invisible Gather is put on top of plans, ours must not take
	 * the place of the server's in them.
	 */
	if (!planning->prices)
		start += workers_start_cost(Max(workers, 1)) + prices.query;
	if (!alone)
		add_path(rel, (Path *) make_path(root, rel, planning, 0, &prices, start, COMPLETE_PATH_SURCHARGE));
}

static void pg_attribute_hot
plan_set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	Planning   *planning = current_planning();
	ConsideredTable *table;

	if (previous_set_rel_pathlist)
		previous_set_rel_pathlist(root, rel, rti, rte);
	if (planning == NULL || planning->off || IS_DUMMY_REL(rel) || rte->inh)
		return;

	/* The first member of an append relation decides for all, whatever it is. */
	if (rel->reloptkind == RELOPT_OTHER_MEMBER_REL && root->glob->parallelModeOK)
		(void) append_family_parallel(root, rel, planning);
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION ||
		get_rel_persistence(rte->relid) != RELPERSISTENCE_TEMP)
		return;

	table = palloc0(sizeof(ConsideredTable));
	table->relid = rte->relid;
	table->refusal = temp_table_refusal(root, rel, rte, &table->function);
	planning->considered = lappend(planning->considered, table);
	if (table->refusal == REFUSED_NOT && rel->reloptkind == RELOPT_OTHER_MEMBER_REL &&
		!append_family_parallel(root, rel, planning))
		table->refusal = REFUSED_FAMILY;
	if (table->refusal == REFUSED_NOT)
		add_temp_paths(root, rel, rte, planning, table);
}

void
plan_paths_install(void)
{
	previous_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = plan_set_rel_pathlist;
}

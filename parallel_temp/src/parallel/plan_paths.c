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
 * Cost: that of a sequential scan, and before it the flush.  The complete path is
 * made 2 % dearer than a sequential scan, so that it takes no place in a serial
 * plan: paths that differ by less than 1 % count as equal, and the parallel-safe
 * one would win.  Flushing is charged by the published formula, per dirty page of
 * the table and per allocated buffer; with a shared pool nothing is flushed, and
 * looking at the buffers is what is left.  A partial path pays for the start of
 * workers besides.
 *
 * A worker that runs stock code starts buffers of its own and enters the pages of
 * the table and its indexes, or of its TOAST table, before its first row.  Paths
 * that make it do so pay for that: partial and complete index paths, and a scan of
 * columns that may be out of line.  What a parameterized path is charged counts
 * once for every outer row, so there it is spread over as many rows as core expects.
 * Serial plans pay nothing: they have core's own index paths, which workers cannot
 * run.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
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

#include "buffers/localbuf.h"
#include "compat_planner.h"
#include "compat_storage.h"
#include "parallel/plan.h"
#include "parallel/plan_paths.h"
#include "parallel/plan_refusal.h"
#include "parallel/pool.h"
#include "parallel/scan.h"
#include "parallel_temp.h"

#define COMPLETE_PATH_SURCHARGE 1.02

/* Sharing, in units of seq_page_cost: looking at a buffer, pinning a page. */
#define LOOK_AT_BUFFER_COST		0.005
#define PIN_PAGE_COST			0.05

/* In a worker that runs stock code: making a buffer, as part of entering a page. */
#define START_BUFFER_PART		0.15

static set_rel_pathlist_hook_type previous_set_rel_pathlist = NULL;

/*
 * What it costs to make the table readable for workers, in units of
 * seq_page_cost.
 */
static Cost
sharing_cost(Oid relid, double pages, bool *flush)
{
	Relation	relation;
	int			allocated;
	int			dirty;

	*flush = !pool_usable();
	if (!*flush)
		return seq_page_cost * (LOOK_AT_BUFFER_COST * NLocBuffer + PIN_PAGE_COST * Min(pages, NLocBuffer));
	relation = table_open(relid, NoLock);
	localbuf_count(&relation, 1, &allocated, &dirty);
	table_close(relation, NoLock);
	return seq_page_cost * (pt_flush_page_cost * dirty + pt_scan_buffer_cost * allocated);
}

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

/*
 * By how much workers, and the leader, make it quicker: as core estimates.
 */
static double
parallel_divisor(int workers)
{
	double		divisor = workers;

	/* The leader helps less, the more workers there are. */
	if (parallel_leader_participation && workers < 4)
		divisor += 1.0 - 0.3 * workers;
	return divisor;
}

/*
 * What each worker does before its first row, if stock code reads so many pages.
 */
static Cost
stock_start_cost(double pages)
{
	return pt_enter_page_cost * (START_BUFFER_PART * num_temp_buffers + pages);
}

/*
 * The same for the TOAST table, if a scan of the table may look into it.
 */
static Cost
toast_start_cost(RelOptInfo *rel, Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	Oid			toast_relid = relation->rd_rel->reltoastrelid;
	TupleDesc	desc = RelationGetDescr(relation);
	Bitmapset  *attrs = NULL;
	BlockNumber pages = 0;
	int			attr = -1;
	bool		found = false;

	if (OidIsValid(toast_relid))
	{
		Relation	toast = table_open(toast_relid, AccessShareLock);

		pages = RelationGetNumberOfBlocks(toast);
		table_close(toast, NoLock);
	}
	if (pages > 0)
	{
		pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attrs);
		pull_varattnos((Node *) extract_actual_clauses(rel->baserestrictinfo, false), rel->relid, &attrs);
	}
	while (!found && (attr = bms_next_member(attrs, attr)) >= 0)
	{
		int			attno = attr + FirstLowInvalidHeapAttributeNumber;

		found = attno == 0 ||
			(attno > 0 && TupleDescAttr(desc, attno - 1)->attlen == -1 &&
			 TupleDescAttr(desc, attno - 1)->attstorage != TYPSTORAGE_PLAIN);
	}
	table_close(relation, NoLock);
	return found ? stock_start_cost(pages) : 0;
}

static CustomPath *
make_path(PlannerInfo *root, RelOptInfo *rel, Planning *planning, int workers, Cost sharing, bool flush,
		  double surcharge)
{
	CustomPath *path = makeNode(CustomPath);
	TempScanPrivate members = {.partial = workers > 0,.hazard = planning->hazard,.start_cost = sharing,.flush = flush};
	Cost		cpu_run;
	double		page_cost;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	cpu_run = (cpu_tuple_cost + rel->baserestrictcost.per_tuple) * rel->tuples +
		rel->reltarget->cost.per_tuple * rel->rows;

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

		cpu_run /= divisor;
		path->path.rows = clamp_row_est(rel->rows / divisor);
	}
	path->path.startup_cost = rel->baserestrictcost.startup + rel->reltarget->cost.startup + sharing;
	path->path.total_cost = path->path.startup_cost + cpu_run + page_cost * rel->pages;
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
 * How often a parameterized path runs: as core estimates, for as many rows as the
 * smallest table has that it depends on.
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
 * Stock index and bitmap scans run in workers as they are.  Paths that exist were
 * made for a table that workers cannot read; asking core for index paths once more
 * gives those that they can, partial ones among them.
 */
static void
add_index_paths(PlannerInfo *root, RelOptInfo *rel, Cost sharing, bool complete_pays, bool partial_pays)
{
	List	   *serial_paths = rel->pathlist;
	List	   *paths;
	List	   *partial_paths;
	ListCell   *lc;

	rel->pathlist = NIL;
	create_index_paths(root, rel);
	paths = rel->pathlist;
	partial_paths = rel->partial_pathlist;
	rel->pathlist = serial_paths;
	rel->partial_pathlist = NIL;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);
		Relids		outer = PATH_REQ_OUTER(path);
		Cost		start = sharing + stock_start_cost(rel->pages + index_pages(path));

		if (complete_pays)
		{
			if (outer != NULL)
				start *= parallel_divisor(max_parallel_workers_per_gather) / loop_count(root, outer);
			path->startup_cost += start;
			path->total_cost += start;
		}
		add_path(rel, path);
	}
	foreach(lc, partial_paths)
	{
		Path	   *path = lfirst(lc);
		Cost		start = sharing + stock_start_cost(rel->pages + index_pages(path)) + pt_worker_start_cost;

		if (partial_pays)
		{
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
			CustomPath *ours = make_path(root, rel, planning, 0, 0, false, 1.0);

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
	Cost		sharing;
	bool		flush;

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
			add_index_paths(root, rel, 0, false, false);
		return;
	}

	/* Nothing to gain from a small table that is all there is. */
	if (workers <= 0 && alone)
		return;

	rel->consider_parallel = true;
	sharing = sharing_cost(rte->relid, rel->pages, &flush);

	/*
	 * Of a subquery only the cheapest plan goes on.  Workers must be able to
	 * run that, or they could not run a scan with the subquery in its filter.
	 * So there what they can run costs what core's own paths do.  So it does
	 * for members of an append relation, whose cheapest paths core puts
	 * together.
	 */
	if (index_access)
		add_index_paths(root, rel, sharing, root->parent_root == NULL && rel->reloptkind == RELOPT_BASEREL, true);
	sharing += toast_start_cost(rel, rte->relid);
	if (workers > 0)
		add_partial_path(rel, (Path *) make_path(root, rel, planning, workers, sharing + pt_worker_start_cost, flush, 1.0));
	if (root->parent_root != NULL && !(planning->for_explain && InvisibleGather_compat()) &&
		replace_seqscan(root, rel, planning))
		return;
	if (!alone)
		add_path(rel, (Path *) make_path(root, rel, planning, 0, sharing, flush, COMPLETE_PATH_SURCHARGE));
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

/*-------------------------------------------------------------------------
 *
 * plan_held.c
 *	  What a finished plan would cost, had the planner known which pages of temporary
 *	  tables are in buffers.
 *
 * The server prices every page as one of a disk, a look-up by an index as a random
 * read of four times the price.  Over a temporary table that is in memory a serial
 * plan of look-ups then seems ten times as dear as it is, and a parallel one of
 * whole scans takes its place.  So the server's plan and the parallel one are
 * compared (plan.c) by what is left when pages in buffers are taken at
 * parallel_temp.held_page_cost.
 *
 * That is computed from the plans: what a node's cost has beyond that of its rows is
 * the price of pages.  The cost of an index scan's first row is that of the way down
 * the index, in which pages are not priced.  How often the inner side of a nested
 * loop runs, and how much of it, shows in the cost of the loop; and in that of any other
 * node, how much of what is below it.
 *
 * Pages that are not in temporary buffers are mostly in the kernel's memory, where a
 * random read is as good as one in order.  But the server takes for granted that a
 * page is read once, however many rows of an index lead there, in any order.  Here each
 * such visit has its price.
 *
 * All of this is one walk over a plan, in which each kind of node has its own part: it is
 * longer than other files for that.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/spccache.h"
#include "utils/syscache.h"

#include "compat_planner.h"
#include "parallel/plan_held.h"
#include "parallel/plan_prices.h"
#include "parallel/scan.h"
#include "parallel_temp.h"
#include "statistics/gathered.h"

/* One relation of the range table. */
typedef struct HeldRel
{
	bool		known;
	bool		temporary;		/* and this session's */
	Oid			relid;
	double		pages;
	double		tuples;
	double		visible;		/* part of its pages whose rows all see */
	double		held;			/* part of its pages */
	double		random_page_cost;
	double		seq_page_cost;
} HeldRel;

typedef struct HeldWalk
{
	Planning   *planning;
	PlannedStmt *stmt;
	HeldRel    *rels;			/* by range table index */
	bool		ours;			/* made with our paths on offer */
	bool		alone;			/* where only the leader runs the plan */
} HeldWalk;

static Cost saving_of(Plan *plan, HeldWalk *walk);

/* One index. */
typedef struct HeldIndex
{
	double		order;			/* that rows are in: 0 for not at all, 1 for
								 * exactly */
	double		pages;
	int			columns;
	int			tree_height;	/* -1: no B-tree */
} HeldIndex;

static HeldIndex
held_index(Oid indexid, Oid relid)
{
	Relation	relation = index_open(indexid, AccessShareLock);
	AttrNumber	attno = relation->rd_index->indkey.values[0];
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(attno != 0 ? relid : indexid),
										Int16GetDatum(attno != 0 ? attno : 1), BoolGetDatum(false));
	HeapTuple	column = HeapTupleIsValid(tuple) ? tuple : gathered_column(relid, attno);
	AttStatsSlot slot;
	HeldIndex	index = {0};

	if (HeapTupleIsValid(column) &&
		get_attstatsslot(&slot, column, STATISTIC_KIND_CORRELATION, InvalidOid, ATTSTATSSLOT_NUMBERS))
	{
		index.order = slot.nnumbers == 1 ? slot.numbers[0] * slot.numbers[0] : 0;
		free_attstatsslot(&slot);
	}
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	index.pages = RelationGetNumberOfBlocks(relation);
	index.columns = IndexRelationGetNumberOfKeyAttributes(relation);
	index.tree_height = relation->rd_rel->relam == BTREE_AM_OID ? _bt_getrootheight(relation) : -1;
	index_close(relation, NoLock);
	return index;
}

static HeldRel *
held_rel(HeldWalk *walk, Index scanrelid)
{
	HeldRel    *rel = &walk->rels[scanrelid - 1];
	RangeTblEntry *rte = rt_fetch(scanrelid, walk->stmt->rtable);

	if (rel->known)
		return rel;
	rel->known = true;
	if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION &&
		get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
	{
		Relation	relation = table_open(rte->relid, NoLock);

		if (!RELATION_IS_OTHER_TEMP(relation))
		{
			BlockNumber pages;

			rel->temporary = true;
			rel->relid = rte->relid;
			estimate_rel_size(relation, NULL, &pages, &rel->tuples, &rel->visible);
			if (relation->rd_rel->reltuples < 0 && gathered_rows(relation) >= 0)
				rel->tuples = gathered_rows(relation);
			/* what the server charged is the tablespace's */
			get_tablespace_page_costs(relation->rd_rel->reltablespace, &rel->random_page_cost, &rel->seq_page_cost);
			rel->pages = held_table(walk->planning, relation)->pages;
			rel->held = held_table(walk->planning, relation)->part;
		}
		table_close(relation, NoLock);
	}
	return rel;
}

/*
 * Of the price of pages, what is too much.
 */
static Cost
saving_on(Cost pages_cost, Cost page_cost, HeldRel *rel)
{
	Cost		price = held_page_price(Min(page_cost, rel->seq_page_cost), rel->held);

	return page_cost > 0 ? Max(pages_cost, 0) * Max(1 - price / page_cost, 0) : 0;
}

/*
 * The same where so many visits are priced one by one.
 */
static Cost
saving_on_visits(Cost pages_cost, double visits, HeldRel *rel)
{
	return Max(pages_cost, 0) - visits * held_page_price(rel->seq_page_cost, rel->held);
}

static Cost
per_tuple_cost(List *exprs)
{
	QualCost	cost;

	cost_qual_eval_node(&cost, (Node *) exprs, NULL);
	return cost.per_tuple;
}

/*
 * How many rows does an index scan take from its table before it filters them?  The
 * plan has only what is left.  So many that core's cost_index() gives this cost for them.
 * Of a table that is larger than the caches pages may be charged again and again, at
 * most once a row.
 */
static double
tuples_fetched(Plan *plan, List *indexqual, const HeldIndex *index, double heap_part, Cost run, Cost per_tuple, HeldRel *rel)
{
	double		all = Max(rel->tuples, plan->plan_rows);
	double		least = plan->plan_rows;
	double		most = all;
	double		pages = Max(rel->pages, 1);
	double		order = index->order * (index->columns > 1 ? 0.75 * 0.75 : 1);

	if (indexqual == NIL)
		return all;
	if (plan->qual == NIL)
		return least;
	while (most - least > 0.5)
	{
		double		tuples = (least + most) / 2;
		double		in_order = tuples / all * pages * heap_part;
		double		at_random = Min(2 * pages * tuples / (2 * pages + tuples), pages);
		Cost		cost;

		if (pages + index->pages > effective_cache_size)
			at_random = tuples;
		cost = tuples * per_tuple + rel->random_page_cost * tuples / all * index->pages +
			(in_order > 0 ? order * (rel->random_page_cost + Max(in_order - 1, 0) * rel->seq_page_cost) : 0) +
			(1 - order) * rel->random_page_cost * at_random * heap_part;
		if (cost < run)
			least = tuples;
		else
			most = tuples;
	}
	return least;
}

/*
 * No visit was charged more than this.  Either price may be 0.
 */
static Cost
highest_page_cost(HeldRel *rel)
{
	return Max(rel->random_page_cost, rel->seq_page_cost);
}

/*
 * At least so many visits were charged for.
 */
static double
visits_charged(Cost pages_cost, HeldRel *rel)
{
	Cost		page_cost = highest_page_cost(rel);

	return page_cost > 0 ? Max(pages_cost, 0) / page_cost : 0;
}

/*
 * Of an index scan's visits the server takes a part for hits in a cache that costs
 * nothing.
 */
static Cost
saving_on_index_scan(Cost pages_cost, double rows, double order, HeldRel *rel)
{
	double		visits = Max(visits_charged(pages_cost, rel), rows * (1 - order));

	/*
	 * each look-up visits a page of the index, and one of the table if it
	 * finds something
	 */
	visits = Max(visits, 1 + Min(rows, 1));
	return saving_on_visits(pages_cost, visits, rel);
}

/*
 * So it does for a bitmap scan that runs many times.  One run visits a page once,
 * however many of its rows it wants: of T pages N rows at random are on 2TN / (2T + N),
 * as core's compute_bitmap_pages() has it (Mackert and Lohman).
 */
static Cost
saving_on_bitmap_scan(Cost pages_cost, double rows, double order, HeldRel *rel)
{
	double		visits = visits_charged(pages_cost, rel);
	double		pages = Max(rel->pages, 1);

	visits = Max(visits, Min(2 * pages * rows / (2 * pages + rows), pages) * (1 - order));
	visits = Max(visits, Min(rows, 1));
	return saving_on_visits(pages_cost, visits, rel);
}

/*
 * A path that workers could run was charged for its start there (plan_paths.c), which
 * is too much if only the leader runs it.
 */
static Cost
start_refund(Plan *plan, HeldWalk *walk)
{
	ListCell   *lc;

	if (!walk->alone)
		return 0;
	foreach(lc, walk->planning->start_charges)
	{
		StartCharge *charge = lfirst(lc);

		if (charge->rti == ((Scan *) plan)->scanrelid && charge->startup_cost == plan->startup_cost)
			return charge->start;
	}
	return 0;
}

static Oid
index_of(Plan *plan)
{
	return IsA(plan, IndexOnlyScan) ? ((IndexOnlyScan *) plan)->indexid : ((IndexScan *) plan)->indexid;
}

/*
 * Paths of ours are charged less for the way down an index (plan_paths.c), which tells
 * the best one of them.  When it is held against the server's plan, both pay the server's price
 * for it: a loop of look-ups is what suffers most where there are more rows than estimated,
 * so it has to be the better one by a safe distance.
 */
static Cost
descent_charge(Plan *plan, HeldRel *rel)
{
	return IsA(plan, IndexScan) || IsA(plan, IndexOnlyScan) ? descent_saving(held_index(index_of(plan), rel->relid).tree_height) : 0;
}

static Cost
saving_of_index_scan(Plan *plan, HeldRel *rel)
{
	bool		only = IsA(plan, IndexOnlyScan);
	List	   *indexqual = only ? ((IndexOnlyScan *) plan)->indexqual : ((IndexScan *) plan)->indexqual;
	List	   *orderby = only ? ((IndexOnlyScan *) plan)->indexorderby : ((IndexScan *) plan)->indexorderby;
	HeldIndex	index = held_index(index_of(plan), rel->relid);
	Cost		per_tuple = cpu_tuple_cost + per_tuple_cost(plan->qual) +
		cpu_index_tuple_cost + (list_length(indexqual) + list_length(orderby)) * cpu_operator_cost;
	Cost		run = plan->total_cost - plan->startup_cost - plan->plan_rows * per_tuple_cost(plan->targetlist);
	double		tuples = tuples_fetched(plan, indexqual, &index, only ? 1 - rel->visible : 1, run, per_tuple, rel);
	Cost		pages_cost = run - tuples * per_tuple;

	return only ? saving_on(pages_cost, highest_page_cost(rel), rel) :
		saving_on_index_scan(pages_cost, tuples, index.order, rel);
}

/*
 * Core charges a bitmap scan for all conditions on each row, those of the index too.
 */
static Cost
saving_of_bitmap_scan(BitmapHeapScan *scan, HeldRel *rel)
{
	Plan	   *plan = &scan->scan.plan;
	Plan	   *bitmap = outerPlan(plan);
	Cost		pages_cost = plan->total_cost - plan->startup_cost - plan->plan_rows * per_tuple_cost(plan->targetlist) -
		bitmap->plan_rows * (cpu_tuple_cost + per_tuple_cost(plan->qual) + per_tuple_cost(scan->bitmapqualorig));

	return saving_on_bitmap_scan(pages_cost, bitmap->plan_rows,
								 IsA(bitmap, BitmapIndexScan) ? held_index(((BitmapIndexScan *) bitmap)->indexid, rel->relid).order : 0, rel);
}

static Cost
saving_of_scan(Plan *plan, HeldWalk *walk)
{
	HeldRel    *rel = held_rel(walk, ((Scan *) plan)->scanrelid);
	Cost		pages_cost;

	if (!rel->temporary)
		return 0;

	/* What workers can run was made with these prices (plan_paths.c). */
	if (walk->ours && plan->parallel_safe && !IsA(plan, CustomScan) &&
		rel->random_page_cost == random_page_cost && rel->seq_page_cost == seq_page_cost)
		return start_refund(plan, walk) - descent_charge(plan, rel);
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_CustomScan:
			/* Where processes divide the table, pages are so priced already. */
			return plan->parallel_aware ? 0 : saving_on(rel->seq_page_cost * rel->pages, rel->seq_page_cost, rel);
		case T_BitmapHeapScan:
			return saving_of_bitmap_scan((BitmapHeapScan *) plan, rel);
		case T_BitmapIndexScan:
			pages_cost = plan->total_cost - plan->plan_rows *
				(cpu_index_tuple_cost + list_length(((BitmapIndexScan *) plan)->indexqual) * cpu_operator_cost);
			return saving_on_visits(pages_cost, Max(visits_charged(pages_cost, rel), 1), rel);
		default:
			Assert(IsA(plan, IndexScan) || IsA(plan, IndexOnlyScan));
			return saving_of_index_scan(plan, rel);
	}
}

static bool
collect_subplans(Node *node, void *context)
{
	List	  **result = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
		*result = lappend(*result, node);
	return expression_tree_walker(node, collect_subplans, context);
}

/*
 * The subplans that this node of a plan has run.
 */
static List *
subplans_of(Plan *plan)
{
	List	   *result = list_copy(plan->initPlan);

	(void) collect_subplans((Node *) plan->targetlist, &result);
	(void) collect_subplans((Node *) plan->qual, &result);
	if (IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin))
		(void) collect_subplans((Node *) ((Join *) plan)->joinqual, &result);
	return result;
}

/*
 * What one run of a subplan was charged, and how much of that is too much.  Of one that
 * asks for a first row only that is charged.
 */
static Cost
subplan_charge(SubPlan *subplan, HeldWalk *walk, Cost *saving)
{
	Plan	   *plan = list_nth(walk->stmt->subplans, subplan->plan_id - 1);
	Cost		charge = subplan->startup_cost + subplan->per_call_cost;

	*saving = plan == NULL ? 0 : saving_of(plan, walk) * Min(charge / Max(plan->total_cost, 1e-9), 1);
	return charge;
}

static List *
children_of(Plan *plan)
{
	List	   *result = NIL;

	switch (nodeTag(plan))
	{
		case T_CustomScan:
			result = list_copy(((CustomScan *) plan)->custom_plans);
			break;
		case T_BitmapAnd:
			result = list_copy(((BitmapAnd *) plan)->bitmapplans);
			break;
		case T_BitmapOr:
			result = list_copy(((BitmapOr *) plan)->bitmapplans);
			break;
		case T_Append:
			result = list_copy(((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			result = list_copy(((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			result = list_make1(((SubqueryScan *) plan)->subplan);
			break;
		default:
			break;
	}
	if (outerPlan(plan) != NULL)
		result = lappend(result, outerPlan(plan));
	if (innerPlan(plan) != NULL)
		result = lappend(result, innerPlan(plan));
	return result;
}

/*
 * How often does the inner side of a nested loop run?
 */
static double
inner_loops(Plan *loop, Cost cost)
{
	Plan	   *outer = outerPlan(loop);
	Plan	   *inner = innerPlan(loop);

	if (IsA(inner, Material) || inner->total_cost <= 0)
		return 1;
	return Max(Min((cost - outer->total_cost) / inner->total_cost, outer->plan_rows), 0);
}

/*
 * A merge join ends with one of its sides; what its cost does not have of both is of the
 * other one's run.
 */
static Cost
saving_of_merge_join(Plan *plan, Cost cost, HeldWalk *walk)
{
	Plan	   *shorter = outerPlan(plan);
	Plan	   *longer = innerPlan(plan);
	Cost		run = longer->total_cost - longer->startup_cost;
	Cost		left_out = shorter->total_cost + longer->total_cost - cost;
	double		part = 1;
	Cost		result;

	if (run < shorter->total_cost - shorter->startup_cost)
	{
		shorter = longer;
		longer = outerPlan(plan);
		run = longer->total_cost - longer->startup_cost;
	}
	if (left_out > 0)
		part = run > left_out ? 1 - left_out / run : 0;
	/* Min() would ask twice, and so would each join below */
	result = saving_of(shorter, walk) + part * saving_of(longer, walk);
	return Min(result, cost);
}

/*
 * Of the plans below another node.  It may run less than the whole of them (below a LIMIT, or where
 * processes take one each); how much shows in its cost.
 */
static Cost
saving_of_children(Plan *plan, Cost cost, HeldWalk *walk)
{
	Cost		whole = 0;
	Cost		result = 0;
	ListCell   *lc;

	foreach(lc, children_of(plan))
	{
		Plan	   *child = lfirst(lc);

		whole += child->total_cost;
		result += saving_of(child, walk);
	}
	return whole > cost ? result * Max(cost, 0) / whole : result;
}

static Cost
saving_of(Plan *plan, HeldWalk *walk)
{
	Cost		cost;			/* without its subplans' */
	Cost		result = 0;
	Cost		saving;
	bool		alone = walk->alone;
	ListCell   *lc;

	if (plan == NULL)
		return 0;
	check_stack_depth();
	cost = plan->total_cost;
	foreach(lc, subplans_of(plan))
	{
		Cost		charge = subplan_charge(lfirst_node(SubPlan, lc), walk, &saving);

		if (list_member_ptr(plan->initPlan, lfirst(lc)))
			cost -= charge;
		result += saving;
	}

	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapIndexScan:
			return result + saving_of_scan(plan, walk);
		case T_BitmapHeapScan:
			return result + saving_of_scan(plan, walk) + saving_of(outerPlan(plan), walk);
		case T_CustomScan:
			if (is_temp_scan(plan))
				return result + saving_of_scan(plan, walk);
			break;
		case T_NestLoop:
			return result + saving_of(outerPlan(plan), walk) + inner_loops(plan, cost) * saving_of(innerPlan(plan), walk);
		case T_MergeJoin:
			return result + saving_of_merge_join(plan, cost, walk);
		case T_Gather:
		case T_GatherMerge:
			walk->alone = false;
			break;
		default:
			break;
	}
	result += saving_of_children(plan, cost, walk);
	walk->alone = alone;
	return result;
}

Cost
held_cost(Planning *planning, PlannedStmt *stmt, bool ours)
{
	HeldWalk	walk = {.planning = planning,.stmt = stmt,.ours = ours,.alone = true};
	Cost		result;

	walk.rels = palloc0(sizeof(HeldRel) * list_length(stmt->rtable));
	result = stmt->planTree->total_cost - saving_of(stmt->planTree, &walk);
	pfree(walk.rels);
	return result;
}

Cost
held_serial_cost(Planning *planning, PlannedStmt *serial)
{
	if (planning->serial_cost == 0)
		planning->serial_cost = held_cost(planning, serial, false);
	return planning->serial_cost;
}

static bool
is_divided(Plan *plan)
{
	ListCell   *lc;

	if (plan->parallel_aware)
		return true;
	foreach(lc, children_of(plan))
	{
		if (is_divided(lfirst(lc)))
			return true;
	}
	return false;
}

/*
 * What each of the processes that run this part of a plan does as a whole: sides of
 * joins of which nothing is divided, and subplans that are kept.  The inner side of a
 * nested loop is repeated for rows, which are divided, unless it is kept.  Arms of an
 * Append that only one process runs are no repetition.
 */
static Cost
repeated_cost(Plan *plan, HeldWalk *walk)
{
	Cost		result = 0;
	Cost		saving;
	ListCell   *lc;

	check_stack_depth();
	if (!is_divided(plan))
	{
		result = plan->total_cost - saving_of(plan, walk);
		return Max(result, 0);
	}
	foreach(lc, subplans_of(plan))
	{
		SubPlan    *subplan = lfirst_node(SubPlan, lc);

		if (subplan->useHashTable || list_member_ptr(plan->initPlan, subplan))
		{
			result += subplan_charge(subplan, walk, &saving);
			result -= saving;
		}
	}
	foreach(lc, children_of(plan))
	{
		Plan	   *child = lfirst(lc);

		if (IsA(plan, NestLoop) && child == innerPlan(plan) && !IsA(child, Material))
			continue;
		if (IsA(plan, Append) && plan->parallel_aware && foreach_current_index(lc) < ((Append *) plan)->first_partial_plan)
			continue;
		result += repeated_cost(child, walk);
	}
	return result;
}

static Cost
repeated_below_gathers(Plan *plan, HeldWalk *walk)
{
	Cost		result = 0;
	ListCell   *lc;

	check_stack_depth();
	if (IsA(plan, Gather) && ((Gather *) plan)->single_copy)
		return 0;
	if (IsA(plan, Gather) || IsA(plan, GatherMerge))
		return repeated_cost(outerPlan(plan), walk);
	foreach(lc, children_of(plan))
		result += repeated_below_gathers(lfirst(lc), walk);
	return result;
}

Cost
held_repeated_cost(Planning *planning, PlannedStmt *stmt)
{
	HeldWalk	walk = {.planning = planning,.stmt = stmt,.ours = true};
	Cost		result;
	ListCell   *lc;

	walk.rels = palloc0(sizeof(HeldRel) * list_length(stmt->rtable));
	result = repeated_below_gathers(stmt->planTree, &walk);
	foreach(lc, stmt->subplans)
	{
		if (lfirst(lc) != NULL)
			result += repeated_below_gathers(lfirst(lc), &walk);
	}
	pfree(walk.rels);
	return result;
}

/*
 * All that workers could save is less than the start of one.
 */
bool
too_cheap_for_workers(Planning *planning, PlannedStmt *serial)
{
	Cost		bound = Max(parallel_setup_cost, pt_worker_start_cost) / (1 - 1 / parallel_divisor(max_parallel_workers_per_gather));

	if (PlanIsDisabled_compat(serial->planTree) || serial->parallelModeNeeded)
		return false;
	return serial->planTree->total_cost < bound || held_serial_cost(planning, serial) < bound;
}

/*
 * May processes divide a table, or one of its indexes?  As core's
 * compute_parallel_worker() has it.
 */
static bool
may_be_divided(RangeTblEntry *rte)
{
	Relation	relation = table_open(rte->relid, NoLock);
	int			workers = RelationGetParallelWorkers(relation, -1);
	bool		result = workers > 0;
	ListCell   *lc;

	if (workers < 0)
	{
		List	   *indexes = RelationGetIndexList(relation);

		result = RelationGetNumberOfBlocks(relation) >= (BlockNumber) min_parallel_table_scan_size;
		foreach(lc, indexes)
		{
			Relation	index;

			if (result)
				break;
			index = index_open(lfirst_oid(lc), AccessShareLock);
			result = RelationGetNumberOfBlocks(index) >= (BlockNumber) min_parallel_index_scan_size;
			index_close(index, NoLock);
		}
		list_free(indexes);
	}
	table_close(relation, NoLock);
	return result;
}

bool
too_small_for_workers(PlannedStmt *serial)
{
	ListCell   *lc;

	foreach(lc, serial->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		/* For members of append relations there is no least size. */
		if (rte->inh)
			return false;
		if (rte->rtekind != RTE_RELATION || rte->relkind == RELKIND_VIEW)
			continue;
		if ((rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW) || may_be_divided(rte))
			return false;
	}
	return true;
}

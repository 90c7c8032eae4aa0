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
 * loop runs, and how much of it, shows in the cost of the loop.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "compat_planner.h"
#include "parallel/plan_held.h"
#include "parallel/plan_prices.h"
#include "parallel/scan.h"
#include "parallel_temp.h"

/* One relation of the range table. */
typedef struct HeldRel
{
	bool		known;
	double		pages;
	double		held;			/* 0 for what is no temporary table */
	double		random_page_cost;
	double		seq_page_cost;
} HeldRel;

typedef struct HeldWalk
{
	List	   *rtable;
	HeldRel    *rels;			/* by range table index */
} HeldWalk;

static Cost saving_of(Plan *plan, HeldWalk *walk);

static HeldRel *
held_rel(HeldWalk *walk, Index scanrelid)
{
	HeldRel    *rel = &walk->rels[scanrelid - 1];
	RangeTblEntry *rte = rt_fetch(scanrelid, walk->rtable);

	if (rel->known)
		return rel;
	rel->known = true;
	if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION &&
		get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
	{
		Relation	relation = table_open(rte->relid, NoLock);

		if (!RELATION_IS_OTHER_TEMP(relation))
		{
			/* what the server charged is the tablespace's */
			get_tablespace_page_costs(relation->rd_rel->reltablespace, &rel->random_page_cost, &rel->seq_page_cost);
			rel->pages = RelationGetNumberOfBlocks(relation);
			rel->held = held_part(relation, rel->pages);
		}
		table_close(relation, NoLock);
	}
	return rel;
}

/*
 * Of the price of pages, what is too much.
 */
static Cost
saving_on(Cost pages_cost, double held, Cost page_cost)
{
	return Max(pages_cost, 0) * held * Max(1 - pt_held_page_cost / Max(page_cost, 1e-9), 0);
}

static Cost
saving_of_scan(Plan *plan, HeldWalk *walk)
{
	HeldRel    *rel = held_rel(walk, ((Scan *) plan)->scanrelid);
	Cost		rows_cost = plan->plan_rows * (cpu_tuple_cost + list_length(plan->qual) * cpu_operator_cost);

	if (rel->held == 0)
		return 0;
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_CustomScan:
			/* Where processes divide the table, pages are so priced already. */
			return plan->parallel_aware ? 0 : saving_on(rel->seq_page_cost * rel->pages, rel->held, rel->seq_page_cost);
		case T_BitmapIndexScan:
			return saving_on(plan->total_cost - plan->plan_rows * cpu_index_tuple_cost, rel->held, rel->random_page_cost);
		case T_IndexScan:
		case T_IndexOnlyScan:
			rows_cost += plan->plan_rows * cpu_index_tuple_cost;
			/* FALLTHROUGH */
		default:
			return saving_on(plan->total_cost - plan->startup_cost - rows_cost, rel->held, rel->random_page_cost);
	}
}

/*
 * How often does the inner side of a nested loop run?
 */
static double
inner_loops(Plan *loop)
{
	Plan	   *outer = outerPlan(loop);
	Plan	   *inner = innerPlan(loop);

	if (IsA(inner, Material) || inner->total_cost <= 0)
		return 1;
	return Max(Min((loop->total_cost - outer->total_cost) / inner->total_cost, outer->plan_rows), 0);
}

static Cost
saving_of_list(List *plans, HeldWalk *walk)
{
	Cost		result = 0;
	ListCell   *lc;

	foreach(lc, plans)
		result += saving_of(lfirst(lc), walk);
	return result;
}

static Cost
saving_of(Plan *plan, HeldWalk *walk)
{
	if (plan == NULL)
		return 0;
	check_stack_depth();

	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapIndexScan:
			return saving_of_scan(plan, walk);
		case T_BitmapHeapScan:
			return saving_of_scan(plan, walk) + saving_of(outerPlan(plan), walk);
		case T_CustomScan:
			return is_temp_scan(plan) ? saving_of_scan(plan, walk) :
				saving_of_list(((CustomScan *) plan)->custom_plans, walk);
		case T_BitmapAnd:
			return saving_of_list(((BitmapAnd *) plan)->bitmapplans, walk);
		case T_BitmapOr:
			return saving_of_list(((BitmapOr *) plan)->bitmapplans, walk);
		case T_Append:
			return saving_of_list(((Append *) plan)->appendplans, walk);
		case T_MergeAppend:
			return saving_of_list(((MergeAppend *) plan)->mergeplans, walk);
		case T_SubqueryScan:
			return saving_of(((SubqueryScan *) plan)->subplan, walk);
		case T_NestLoop:
			return saving_of(outerPlan(plan), walk) + inner_loops(plan) * saving_of(innerPlan(plan), walk);
		case T_Limit:
			return saving_of(outerPlan(plan), walk) *
				Min(1, plan->total_cost / Max(outerPlan(plan)->total_cost, 1e-9));
		default:
			return saving_of(outerPlan(plan), walk) + saving_of(innerPlan(plan), walk);
	}
}

Cost
held_cost(PlannedStmt *stmt)
{
	HeldWalk	walk = {.rtable = stmt->rtable};
	Cost		result;

	walk.rels = palloc0(sizeof(HeldRel) * list_length(stmt->rtable));
	result = stmt->planTree->total_cost - saving_of(stmt->planTree, &walk) - saving_of_list(stmt->subplans, &walk);
	pfree(walk.rels);
	return result;
}

/*
 * The start of workers alone would cost more.
 */
bool
too_cheap_for_workers(PlannedStmt *serial)
{
	Cost		start = parallel_setup_cost + pt_worker_start_cost;

	if (ParallelIsTested_compat() || PlanIsDisabled_compat(serial->planTree) || serial->parallelModeNeeded)
		return false;
	return serial->planTree->total_cost < start || held_cost(serial) < start;
}

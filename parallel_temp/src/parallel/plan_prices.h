/*-------------------------------------------------------------------------
 *
 * plan_prices.h
 *	  What reading a temporary table costs, for one process and for several.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_PRICES_H
#define PLAN_PRICES_H

#include "nodes/pathnodes.h"
#include "utils/relcache.h"

#include "parallel/plan.h"
#include "parallel/plan_walk.h"

/* What is known about the prices of one table while its paths are made. */
typedef struct TablePrices
{
	Cost		query;			/* once a query, beside the start of workers */
	Cost		table;			/* once for the table: pin its pages */
	double		held;			/* part of its pages that is in buffers */
	bool		flush;			/* workers read the file */
} TablePrices;

/* What the start of so many workers costs beside parallel_setup_cost. */
extern Cost workers_start_cost(int workers);

/* Fill in the prices of a temporary table. */
extern void table_prices(Planning *planning, TablePrices *prices, RelOptInfo *rel, Oid relid);

/* What a visit to a page costs if such a part of them is in temporary buffers, and any other page so much. */
extern Cost held_page_price(Cost page_cost, double held);

/*
 * What the server takes too much for the way down a B-tree of this height whose pages are in
 * memory.
 */
extern Cost descent_saving(int tree_height);

/*
 * A temporary table's pages, and which part of them is in temporary buffers, as it was when
 * the statement's planning first asked.
 */
typedef struct HeldTable
{
	Oid			relid;
	double		pages;
	double		part;
} HeldTable;

extern const HeldTable *held_table(Planning *planning, Relation relation);

/* By how much workers, and the leader, make it quicker: as core estimates. */
extern double parallel_divisor(int workers);

/*
 * What each worker does before its first row if stock code reads so many pages of
 * temporary relations there.
 */
extern Cost stock_start_cost(double pages);

/* The same for the TOAST table, if a scan of the table may look into it. */
extern Cost toast_start_cost(RelOptInfo *rel, Oid relid);

/*
 * What a finished plan costs beyond the server's estimate because not so many of its
 * processes can run at once (less than 0: because more can).  "repeated" is what each of
 * them does as a whole.
 */
extern Cost processes_cost(Planning *planning, TempPlan *plan, Cost repeated);

/* How often a parameterized path runs, as core estimates. */
extern double path_loop_count(PlannerInfo *root, Relids outer);

#endif							/* PLAN_PRICES_H */

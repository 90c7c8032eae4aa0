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

/* What is known about the prices of one table while its paths are made. */
typedef struct TablePrices
{
	Cost		query;			/* once a query: start workers, share or flush */
	Cost		table;			/* once for the table: pin its pages */
	double		held;			/* part of its pages that is in buffers */
	bool		flush;			/* workers read the file */
} TablePrices;

/* Fill in the prices of a temporary table. */
extern void table_prices(TablePrices *prices, RelOptInfo *rel, Oid relid, bool hold);

/* Which part of a table's pages is in temporary buffers? */
extern double held_part(Relation relation, double pages);

/* By how much workers, and the leader, make it quicker: as core estimates. */
extern double parallel_divisor(int workers);

/*
 * What each worker does before its first row if stock code reads so many pages of
 * temporary relations there.
 */
extern Cost stock_start_cost(double pages);

/* The same for the TOAST table, if a scan of the table may look into it. */
extern Cost toast_start_cost(RelOptInfo *rel, Oid relid);

/* How often a parameterized path runs, as core estimates. */
extern double path_loop_count(PlannerInfo *root, Relids outer);

#endif							/* PLAN_PRICES_H */

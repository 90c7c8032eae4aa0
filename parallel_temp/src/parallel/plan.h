/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  Planning parallel scans of temporary tables.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_H
#define PLAN_H

#include "nodes/pathnodes.h"

#include "parallel/stats.h"

/* What is known while one query is planned. */
typedef struct Planning
{
	struct Planning *outer;		/* of the query that is planned around this
								 * one */
	bool		off;			/* plan as if the library were not there */
	bool		hazard;			/* see TempScanPrivate */
	bool		for_explain;	/* parallel_temp.force has no effect */
	bool		prices;			/* finished plans are compared by held_cost() */
	List	   *considered;		/* of ConsideredTable */
	List	   *held;			/* of HeldTable: what was looked up of tables'
								 * pages, once a statement (plan_prices.c) */
	List	   *start_charges;	/* of StartCharge */
	Cost		serial_cost;	/* of the server's plan, by held_cost(); 0:
								 * not asked for yet */
	List	   *refused_families;	/* append relations found not to be
									 * parallel */
} Planning;

typedef struct ConsideredTable
{
	Oid			relid;
	Refusal		refusal;		/* why there is no parallel path;
								 * REFUSED_COST: there is one */
	Oid			function;		/* that is the reason, or InvalidOid */
} ConsideredTable;

/*
 * What a path of stock code was charged for being started in workers, each time that it
 * runs.  Its table's index in the range table (the whole query's own tables have the first
 * ones in the plan as well) and its cost before the first row, with the charge, tell it
 * from others.
 */
typedef struct StartCharge
{
	Index		rti;
	Cost		startup_cost;
	Cost		start;
} StartCharge;

extern void plan_install(void);

/* The planning at hand, or NULL when our paths have no place in it. */
extern Planning *current_planning(void);

/*
 * May workers run the append relation that this member belongs to, if any?
 * Decides for the whole family at its first member's call.
 */
extern bool append_family_parallel(PlannerInfo *root, RelOptInfo *rel, Planning *planning);

#endif							/* PLAN_H */

/*-------------------------------------------------------------------------
 *
 * plan_walk.h
 *	  Which temporary relations a finished plan reads, and from where.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_WALK_H
#define PLAN_WALK_H

#include "nodes/plannodes.h"

/*
 * One temporary table of a plan.  "Below" means in a part of the plan that
 * workers may run: below a Gather, or in a parallel-safe subplan.
 */
typedef struct TempUse
{
	Oid			relid;
	bool		own_below;		/* scanned by our node below */
	bool		stock_below;	/* read by a stock index or bitmap scan below */
	int			stock_above;	/* so many stock nodes that only the leader
								 * runs read it */
	bool		toast_below;	/* a column that may be out of line is used
								 * below */
	List	   *indexes;		/* OIDs of the indexes read below */
} TempUse;

typedef struct TempPlan
{
	List	   *uses;			/* of TempUse */
	bool		below;			/* some use is below */
	const char *unsafe_node;	/* a node that workers cannot run on a
								 * temporary table, or NULL */
	Oid			unsafe_relid;
	bool		gathers_varlena;	/* a Gather returns values that may be out
									 * of line */
	bool		single_copy;	/* a Gather in which a worker does all the
								 * work */
	int			gathers;		/* parts of the plan with workers of their own */
	int			workers;		/* planned for one of them, at most */
	Cost		divided;		/* what these parts cost */
	bool		hazard;			/* a function of unknown doings runs in the
								 * leader */
} TempPlan;

extern void temp_plan_collect(PlannedStmt *stmt, TempPlan *result);

/* The highest plan_node_id, subplans included. */
extern int	plan_highest_node_id(PlannedStmt *stmt);

#endif							/* PLAN_WALK_H */

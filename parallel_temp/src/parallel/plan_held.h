/*-------------------------------------------------------------------------
 *
 * plan_held.h
 *	  See plan_held.c.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_HELD_H
#define PLAN_HELD_H

#include "nodes/plannodes.h"

#include "parallel/plan.h"

/*
 * The cost of a finished plan, had the planner known which pages of temporary tables
 * are in buffers.  "ours" says that it was planned with our paths on offer.
 */
extern Cost held_cost(Planning *planning, PlannedStmt *stmt, bool ours);

/* The same for the server's plan, once a statement. */
extern Cost held_serial_cost(Planning *planning, PlannedStmt *serial);

/*
 * What every process that runs a part of a plan for workers does as a whole, by the same
 * prices: inner sides of joins that the processes do not divide.
 */
extern Cost held_repeated_cost(Planning *planning, PlannedStmt *stmt);

/* Is none of its tables large enough for the server to let processes divide it? */
extern bool too_small_for_workers(PlannedStmt *serial);

/* Can no plan with workers be cheaper than this one of the server's? */
extern bool too_cheap_for_workers(Planning *planning, PlannedStmt *serial);

#endif							/* PLAN_HELD_H */

/*-------------------------------------------------------------------------
 *
 * plan_fill.h
 *	  Workers that fill pages of a temporary table: the plans that have them.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_FILL_H
#define PLAN_FILL_H

#include "executor/execdesc.h"
#include "nodes/plannodes.h"

#include "compat_planner.h"

typedef PlannedStmt *(*PlanAsUsual) (PLANNER_PARAMS_compat);

/*
 * Does an insertion, of which the server's plan is known, put nothing but rows into a
 * table that workers may fill pages of, and enough of them?
 */
extern bool insert_may_fill(Query *insert, PlannedStmt *serial);

/*
 * Plan a query whose rows go into a temporary table that workers may fill pages of.
 * "plan" plans any query.
 */
extern PlannedStmt *plan_filling(PlanAsUsual plan, PLANNER_PARAMS_compat);

/* A plan is about to start: if workers may fill pages it gets the node for that. */
extern void plan_fill_start(QueryDesc *queryDesc);

#endif							/* PLAN_FILL_H */

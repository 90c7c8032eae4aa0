/*-------------------------------------------------------------------------
 *
 * plan_refusal.h
 *	  Why a temporary table is not read in parallel.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_REFUSAL_H
#define PLAN_REFUSAL_H

#include "nodes/pathnodes.h"

#include "parallel/plan.h"
#include "parallel/plan_walk.h"

/* Do the relation's own expressions let workers compute them? */
extern bool expressions_parallel_safe(PlannerInfo *root, RelOptInfo *rel);

/*
 * Can this table be read by workers?  REFUSED_NOT if so, else the first cause, and
 * in *function the function that is it, if one is.
 */
extern Refusal temp_table_refusal(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, Oid *function);

/* Count, and tell, why a temporary table is not read in parallel, or that it is. */
extern void refusal_tell(Oid relid, Refusal refusal, Oid function);

/* Count the temporary tables of a plan that is too cheap to be made parallel. */
extern void refusals_count_cheap(PlannedStmt *serial);

/*
 * Count and tell for each temporary table of a planned query, once.  "query" is as it was
 * before planning; it is looked at if no plan of it could have been parallel.
 */
extern void refusals_account(Planning *frame, TempPlan *plan, bool replanned, Query *query, int cursor_options);

#endif							/* PLAN_REFUSAL_H */

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

/*
 * Does the server allow a query as a whole no workers, and what of it is the reason?  If
 * it does (REFUSED_NOT), *hazard says whether the query calls functions that might read
 * temporary tables in the leader.
 */
extern Refusal query_refusal(Query *query, bool *hazard, Oid *function);

/* Count, and tell, for each temporary table of a plan, one reason for all. */
extern void refusals_tell(PlannedStmt *serial, Refusal refusal, Oid function);

/* The same where a plan with workers was looked for. */
extern void refusals_account(Planning *frame, TempPlan *plan, bool replanned);

#endif							/* PLAN_REFUSAL_H */

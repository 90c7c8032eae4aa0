/*-------------------------------------------------------------------------
 *
 * plan_leader.h
 *	  What must not run while the leader puts away rows that workers make.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_LEADER_H
#define PLAN_LEADER_H

#include "nodes/parsenodes.h"

/* Why an expression that the leader evaluates for each row must not; NULL if it may. */
extern const char *leader_must_not_evaluate(Node *expression);

/* The same for a query, of which the planner leaves to the leader what only that can do. */
extern const char *leader_must_not_query(Query *query);

/* The same for the checks of a domain, and for a function that the server calls by itself. */
extern const char *leader_must_not_check(Oid domain);
extern const char *leader_must_not_call(Oid funcid);

#endif							/* PLAN_LEADER_H */

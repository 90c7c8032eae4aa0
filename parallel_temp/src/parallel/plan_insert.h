/*-------------------------------------------------------------------------
 *
 * plan_insert.h
 *	  INSERT ... SELECT into a temporary table, with workers for the SELECT.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_INSERT_H
#define PLAN_INSERT_H

#include "executor/execdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "utils/relcache.h"

/*
 * Why the SELECT of this insertion into a temporary table cannot have workers; NULL if
 * nothing of the statement or of its target is against it.
 */
extern const char *insert_refusal(Query *parse);

/* The same of the target alone, when a plan with workers is about to run. */
extern const char *insert_target_refusal(Relation rel);

/* Make of an insertion, in place, the query that computes the rows, with every column of the target. */
extern Query *insert_source(Query *source);

/*
 * The insertion's plan with the rows of "source", a plan of its source with workers.
 * NULL, with *reason set, if that plan reads the target.
 */
extern PlannedStmt *insert_with_source(PlannedStmt *serial, PlannedStmt *source, const char **reason);

#endif							/* PLAN_INSERT_H */

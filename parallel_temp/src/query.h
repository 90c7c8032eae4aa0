/*-------------------------------------------------------------------------
 *
 * query.h
 *	  What is running: one record for each statement that the library has to do with.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef QUERY_H
#define QUERY_H

#include "executor/execdesc.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "tcop/dest.h"

struct FastFill;
struct PtExplained;
struct PtPlanning;
struct PtShare;

/*
 * A statement that is being planned, explained or run (utility statements, too), in
 * the frame of the function that called pt_query_push().  Each part belongs to the file
 * that is named, and knows nothing of the others.
 */
typedef struct PtQuery
{
	struct PtQuery *outer;		/* the statement that this one is part of */

	/* its run: put back by pt_query_pop() */
	QueryDesc  *queryDesc;		/* NULL unless it is run by the executor */
	PlannedStmt *plannedstmt;
	List	   *range_table;
	DestReceiver *dest;

	const Query *fills_new;		/* the query of CREATE TABLE AS or EXPLAIN
								 * whose rows go into a new temporary table, */
	const char *fills_new_text; /* and the text that it is part of */

	bool		plans;			/* it is being planned (plan.c) */
	struct PtPlanning *planning;	/* NULL: without us */
	struct PtShare *share;		/* what its workers read (scan_run.c) */
	struct FastFill *fill;		/* the table that it fills (fastload.c) */
} PtQuery;

/*
 * All that the hooks of a short statement read and write, side by side: what a
 * statement loses by a library is lines of memory that are not in the cache.
 */
typedef struct PtRunning
{
	int			fills;			/* records with a fill */
	int			utility_depth;	/* utility statements that may run queries,
								 * inside each other, the user's own included
								 * (CREATE TABLE AS, EXPLAIN and EXECUTE do
								 * not count) */
	int			explain_depth;	/* EXPLAIN inside each other */
	PtQuery    *innermost;
	struct PtExplained *explained;	/* the statement that EXPLAIN shows, if it
									 * asks for us (fastload_explain.c) */
	uint64		plannings;		/* counted at the start of each */
} PtRunning;

extern PtRunning pt_running;

/*
 * Put a record on the stack, or take it off however the statement has ended; in
 * between every error is caught (PG_TRY) until it is off.
 */
extern void pt_query_push(PtQuery *query);
extern void pt_query_pop(PtQuery *query);

/* The executor is going to run it: what is changed for that is put back in the end. */
extern void pt_query_set_run(PtQuery *query, QueryDesc *queryDesc);

/* It fills a table, until pt_query_end_fill(), which returns the fill. */
extern void pt_query_set_fill(PtQuery *query, struct FastFill *fill);
extern struct FastFill *pt_query_end_fill(PtQuery *query);

/*
 * Install the executor's hooks.  A library that sets a hook temporarily restores the value
 * that it found, which may predate our hooks; nothing calls them then.
 * pt_query_check_executor_hooks() puts them back.  It is called where a statement begins that
 * depends on them: when it is planned, and when a plan with our nodes starts.
 */
extern void pt_query_set_executor_hooks(ExecutorStart_hook_type start, ExecutorRun_hook_type run, ExecutorEnd_hook_type end);
extern void pt_query_check_executor_hooks(void);

/*
 * Are the query's rows those of the innermost CREATE TABLE AS?  Core plans a copy of its
 * query; a function or trigger of the statement has a different text.
 */
extern bool pt_query_fills_new_table(const Query *parse, const char *query_string);

/* Do rows go into a new temporary table (NULL: not into a table)? */
extern bool pt_query_into_temporary(const IntoClause *into);

/* Is a statement being explained? */
extern bool pt_query_is_explained(void);

/* This record, or the next one around it, that fills a table; NULL if there is none. */
static inline PtQuery *
pt_query_filling(PtQuery *query)
{
	while (query != NULL && query->fill == NULL)
		query = query->outer;
	return query;
}

/* For each table that is being filled, innermost statement first. */
#define foreach_fill(fill) \
	for (PtQuery *filling_ = pt_query_filling(pt_running.innermost); \
		 filling_ != NULL && ((fill) = filling_->fill, true); \
		 filling_ = pt_query_filling(filling_->outer))

#endif							/* QUERY_H */

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
#include "nodes/primnodes.h"
#include "storage/lock.h"
#include "tcop/dest.h"

struct ExplainState;
struct FastFill;
struct FastLoadNote;
struct Planning;
struct Share;

/*
 * A statement that is being planned, explained or run (utility statements, too), in
 * the frame of the function that called query_push().  Its parts know nothing of each
 * other; each belongs to the file that is named.
 */
typedef struct PtQuery
{
	struct PtQuery *outer;		/* the statement that this one is part of */

	/* put back by query_pop(): depths as they were, and what a run changes */
	int			executor_depth;
	int			utility_depth;
	int			explain_depth;
	struct PtQuery *explained;
	bool		stays_out;		/* parallel_leader_participation was changed, */
	bool		participation;	/* from this: while workers run nobody may SET
								 * it */
	QueryDesc  *queryDesc;		/* NULL unless it is run by the executor */
	PlannedStmt *plannedstmt;
	List	   *range_table;
	DestReceiver *dest;

	bool		fills_new;		/* the rows of its query go into a new
								 * temporary table */
	bool		planned_new;	/* and that is planned, or being planned */
	bool		plans;			/* it is being planned (plan.c) */
	struct Planning *planning;	/* NULL: without us */

	List	   *statistics;		/* relids of tables whose gathered statistics
								 * its planning used (gathered.c) */
	MemoryContext explain_context;	/* of that list, and of serial_source */
	uint64		plannings;		/* those that had begun before it */
	bool		explained_runs; /* it is planned, and starts */
	struct ExplainState *explain_state; /* it is being explained
										 * (fastload_explain.c) */
	struct FastLoadNote *note;
	const char *serial_source;	/* why the rows that it inserts are made
								 * without workers (plan.c), or NULL */

	struct Share *share;		/* what its workers read (pool_run.c) */
	struct FastFill *fill;		/* the table that it fills (fastload.c) */
	void		(*leave_fill) (struct FastFill *fill);
} PtQuery;

/*
 * All that the hooks of a short statement read and write, side by side: what a
 * statement loses by a library is lines of memory that are not in the cache.
 */
typedef struct PtRunning
{
	int			fills;			/* records with a fill */
	int			executor_depth; /* see query_executor_depth() */
	LocalTransactionId transaction; /* that executor_depth belongs to */
	PtQuery    *innermost;
	PtQuery    *explained;		/* the record of the statement that EXPLAIN
								 * shows, if it asks for us */
	int			utility_depth;	/* see query_utility_depth() */
	int			explain_depth;
	uint64		plannings;		/* counted at the start of each */
} PtRunning;

extern PtRunning pt_running;

/*
 * Put a record on the stack, or take it off however the statement has ended; in
 * between every error is caught (PG_TRY) until it is off.
 */
extern void query_push(PtQuery *query);
extern void query_pop(PtQuery *query);

/* The executor is going to run it: what is changed for that is put back in the end. */
extern void query_set_run(PtQuery *query, QueryDesc *queryDesc);

/* It fills a table; "leave" gives back what that has taken, if it is not ended before. */
extern void query_set_fill(PtQuery *query, struct FastFill *fill, void (*leave) (struct FastFill *fill));
extern void query_end_fill(PtQuery *query);

/*
 * A statement that will run needs the executor's hooks: have them set, unless they are.
 * Who has them (hooks.c) is above all that asks for them, and says once how.
 */
extern void query_watch_executor(void);
extern void query_watch_executor_by(void (*watch) (void));

/*
 * How many runs of the executor are inside each other, as far as their start was
 * seen: those that were running when the session first used the library are not.
 */
extern int	query_executor_depth(void);

/*
 * How many utility statements that may run queries are running inside each other,
 * the user's own included (CREATE TABLE AS, EXPLAIN and EXECUTE do not count).
 */
extern int	query_utility_depth(void);

/*
 * An insertion is planned whose rows are made without workers: the reason, for EXPLAIN
 * (NULL: with them).  "planning" is the number of its planning (pt_running.plannings).
 */
extern void query_note_serial_source(const char *reason, uint64 planning);

/* The statistics gathered of this table are used in planning: for EXPLAIN. */
extern void query_note_statistics(Oid relid);

/* Do rows go into a new temporary table (NULL: not into a table)? */
extern bool query_into_temporary(const IntoClause *into);

/* Is a statement being explained? */
extern bool query_is_explained(void);

/* This record, or the next one around it, that fills a table; NULL if there is none. */
static inline PtQuery *
query_filling(PtQuery *query)
{
	while (query != NULL && query->fill == NULL)
		query = query->outer;
	return query;
}

/* For each table that is being filled, innermost statement first. */
#define foreach_fill(fill) \
	for (PtQuery *filling_ = query_filling(pt_running.innermost); \
		 filling_ != NULL && ((fill) = filling_->fill, true); \
		 filling_ = query_filling(filling_->outer))

#endif							/* QUERY_H */

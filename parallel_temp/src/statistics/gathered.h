/*-------------------------------------------------------------------------
 *
 * gathered.h
 *	  Statistics of temporary tables that nobody has analyzed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATHERED_H
#define GATHERED_H

#include "access/htup.h"
#include "executor/execdesc.h"
#include "utils/memutils.h"
#include "utils/relcache.h"

#include "statistics/sample.h"

/* What is known of a table, as long as it stays about as it was. */
typedef struct Gathered
{
	Oid			relid;			/* must be first */
	Oid			relfilenode;
	bool		stale;			/* look again before it is used */
	bool		dropped;		/* stale, and gone unless that was undone */
	uint64		planning;		/* good for this one without a look at the
								 * file */
	int			level;			/* of the transaction that may undo what was
								 * looked at; 0: none */
	BlockNumber pages;
	double		density;		/* rows on a page */
	int			sampled;
	double		changed;		/* rows since, as far as they were counted */
	int			natts;
	MemoryContext context;		/* of the following */
	int32	   *widths;			/* of each column, 0: not known */
	bool	   *known;			/* the column was asked for */
	HeapTuple  *columns;		/* row of pg_statistic, or NULL */

	/* what further columns are computed from */
	TableSample *sample;
	bool		keep_sample;	/* longer than one statement is planned: */
	uint64		sample_planning;	/* this one */
	MemoryContextCallback sample_gone;
} Gathered;

/*
 * A statement is going to be planned, and statistics are wanted: set the planner's hooks
 * if the session has temporary tables.
 */
extern void gathered_watch(void);

/* How many tables something is known of. */
extern int	gathered_tables;

/*
 * What is known of a table that is being planned, as the planner was told: the row of
 * pg_statistic of a column, or NULL; the number of rows, or less than 0.  Nothing is
 * looked at for this.
 */
extern HeapTuple gathered_column(Oid relid, AttrNumber attno);
extern double gathered_rows(Relation rel);

/* A statement has run that changes rows. */
extern void gathered_count_changes(QueryDesc *queryDesc);

/* A COPY has put rows into a table. */
extern void gathered_copied(Oid relid);

/* A relation is being dropped. */
extern void gathered_dropped(Oid relid);

/* A transaction or subtransaction of this level has ended. */
extern void gathered_end_level(int level, bool aborted);

/* For each table that something is known of and that is still there (gathered_view.c). */
extern void gathered_each(void (*function) (Gathered *table, void *argument), void *argument);

#endif							/* GATHERED_H */

/*-------------------------------------------------------------------------
 *
 * gathered.h
 *	  Statistics of temporary tables that were not analyzed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATHERED_H
#define GATHERED_H

#include "access/htup.h"
#include "commands/vacuum.h"
#include "executor/execdesc.h"
#include "nodes/pathnodes.h"
#include "utils/memutils.h"
#include "utils/relcache.h"

/* ---- sample.c ---------------------------------------------------------------- */

typedef struct TableSample
{
	MemoryContext context;		/* holds all of it */
	HeapTuple  *rows;			/* in the order of the table */
	int			nrows;
	double		density;		/* rows on a page */
	Size		bytes;			/* of the rows */
	bool		external;		/* some have values stored elsewhere, which
								 * may go */
} TableSample;

/*
 * Take a sample of a temporary heap of this session, from pages spread evenly; its
 * memory is a child of "parent".  It contains the rows that the transaction itself would find
 * now; the active snapshot, which must be an MVCC snapshot, says what others have
 * committed.
 */
extern TableSample *pt_sample_table(Relation rel, MemoryContext parent);

/* The mean width of each column of variable length, 0 for others, from some of the rows. */
extern void pt_sample_widths(Relation rel, const TableSample *sample, int32 *widths);

/*
 * The row that ANALYZE would write into pg_statistic for a column, in memory of
 * "context"; NULL if there is none, or if functions that are not built in would
 * have to be called.
 */
extern HeapTuple pt_sample_column(Relation rel, TableSample *sample, AttrNumber attno, double total_rows, MemoryContext context);

/* ---- sample_order.c: the values of a sample's column, in order --------------- */

/* The input of a type's function; the server passes it to pt_sample_ordered_value(). */
typedef struct OrderedColumn
{
	VacAttrStats stats;			/* must be first */
	Datum	   *values;			/* in order; those that are not counted last */
	bool	   *nulls;
	double		correlation;	/* of order and place in the table */
} OrderedColumn;

/*
 * Put the values of the column that column->stats tells of in order, by the operator
 * "less than" of its type: "nrows" rows of stats.rows.  False if that would not be faster
 * than what ANALYZE does.
 */
extern bool pt_sample_order(OrderedColumn *column, Oid less_than, int nrows);

/* An AnalyzeAttrFetchFunc for these values. */
extern Datum pt_sample_ordered_value(VacAttrStatsP stats, int rownum, bool *isnull);

/*
 * Replace the correlation of statistics that were computed from ordered values, which
 * is always 1.
 */
extern void pt_sample_set_correlation(OrderedColumn *column);

/* ---- gathered.c -------------------------------------------------------------- */

/* The statistics of a table, valid until much of it has changed. */
typedef struct Gathered
{
	Oid			relid;			/* must be first */
	Oid			relfilenode;
	bool		stale;			/* look again before it is used */
	bool		dropped;		/* stale, and gone unless that was undone */
	uint64		planning;		/* valid in this one without a check of the
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
 * The statistics of a table, which is sampled now if required.  NULL if it cannot be
 * sampled, or is empty.
 */
extern Gathered *pt_gathered_table(Relation rel, PlannerInfo *root);

/* The statistics that are there already, even if the catalogs have some; or NULL. */
extern Gathered *pt_gathered_known(Oid relid);

/* The row of pg_statistic for a column, or NULL; the table may be sampled again. */
extern HeapTuple pt_gathered_column(Gathered *table, Relation rel, AttrNumber attno, PlannerInfo *root);

/* How many tables something is known of. */
extern int	pt_gathered_tables;

/* A statement has run that changes rows. */
extern void pt_gathered_count_changes(QueryDesc *queryDesc);

/* A table was emptied without the executor. */
extern void pt_gathered_emptied(Oid relid);

/* A COPY has run. */
extern void pt_gathered_after_copy(CopyStmt *copy);

/* A relation is being dropped. */
extern void pt_gathered_dropped(Oid relid);

/* A transaction or subtransaction of this level has ended. */
extern void pt_gathered_end_level(int level, bool aborted);

/* For each table that something is known of and that is still there (gathered_view.c). */
extern void pt_gathered_each(void (*function) (Gathered *table, void *argument), void *argument);

/* ---- gathered_hooks.c -------------------------------------------------------- */

extern void pt_gathered_install(void);

#endif							/* GATHERED_H */

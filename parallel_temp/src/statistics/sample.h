/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  A sample of a temporary table's rows, and statistics computed from it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "access/htup.h"
#include "utils/relcache.h"

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
 * memory is a child of "parent".  What it has is what the transaction itself would find
 * now; the active snapshot, which must be an MVCC snapshot, says what others have
 * committed.
 */
extern TableSample *sample_table(Relation rel, MemoryContext parent);

/* The mean width of each column of variable length, 0 for others, from some of the rows. */
extern void sample_widths(Relation rel, const TableSample *sample, int32 *widths);

/*
 * The row that ANALYZE would write into pg_statistic for a column, in memory of
 * "context"; NULL if there is none, or if functions that are not the server's own would
 * have to be called.
 */
extern HeapTuple sample_column(Relation rel, TableSample *sample, AttrNumber attno, double total_rows, MemoryContext context);

#endif							/* SAMPLE_H */

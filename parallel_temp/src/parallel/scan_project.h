/*-------------------------------------------------------------------------
 *
 * scan_project.h
 *	  Columns of a row, copied without the expression interpreter.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCAN_PROJECT_H
#define SCAN_PROJECT_H

#include "access/htup.h"
#include "nodes/execnodes.h"

/* A column of the table, as far as finding it in a row goes. */
typedef struct ScanColumn
{
	int			offset;			/* from the row's data in a row without nulls,
								 * or -1 if it depends on the row */
	int16		length;			/* attlen */
	uint8		align;			/* bytes */
	bool		byval;
	int			target;			/* column of the result, or -1 */
} ScanColumn;

typedef struct ScanProjection
{
	TupleTableSlot *result;
	int			needed;			/* the last column that is needed, counted
								 * from 1 */
	int			fixed;			/* how many of these are at a known place in a
								 * row without nulls */
	int			ndirect;		/* entries of direct */
	ScanColumn *direct;			/* those of them that the result has */
	ScanColumn	columns[FLEXIBLE_ARRAY_MEMBER]; /* "needed" of them */
} ScanProjection;

/*
 * How to make the scan's result rows, in the current memory context; NULL if they
 * are more than columns of the table, each at most once, or the table's whole row.
 */
extern ScanProjection *scan_projection_make(ScanState *ss);

/*
 * Make the result row from a row of the table.  False if the row lacks a column
 * that was added to the table after the row: core knows its value.
 */
extern bool scan_project(const ScanProjection *projection, HeapTuple tuple);

/*
 * Where a column, counted from 1, is in a row without nulls: bytes from the row's
 * data, or -1 if that depends on the row.
 */
extern int	column_offset(TupleDesc desc, AttrNumber column);

#endif							/* SCAN_PROJECT_H */

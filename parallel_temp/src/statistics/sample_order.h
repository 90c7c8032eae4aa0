/*-------------------------------------------------------------------------
 *
 * sample_order.h
 *	  The values of a sample's column, in order.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef SAMPLE_ORDER_H
#define SAMPLE_ORDER_H

#include "commands/vacuum.h"

/* What a type's function works on; the server hands it on to sample_ordered_value(). */
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
extern bool sample_order(OrderedColumn *column, Oid less_than, int nrows);

/* An AnalyzeAttrFetchFunc for these values. */
extern Datum sample_ordered_value(VacAttrStatsP stats, int rownum, bool *isnull);

/*
 * Replace the correlation of statistics that were computed from ordered values, which
 * is always 1.
 */
extern void sample_set_correlation(OrderedColumn *column);

#endif							/* SAMPLE_ORDER_H */

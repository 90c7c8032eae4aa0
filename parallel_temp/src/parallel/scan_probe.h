/*-------------------------------------------------------------------------
 *
 * scan_probe.h
 *	  Fetch into the processor's cache what a hash join will look up.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCAN_PROBE_H
#define SCAN_PROBE_H

#include "executor/hashjoin.h"
#include "nodes/execnodes.h"
#include "storage/bufpage.h"

/* The look-ups that the parent of a scan makes for each of its rows. */
typedef struct ScanProbe
{
	HashJoinState *join;
	FmgrInfo	hash;			/* hash function of the key */
	Oid			collation;
	AttrNumber	column;			/* the key, a column of the table */
	int			offset;			/* where it is in a row without nulls */
	int16		length;
} ScanProbe;

/*
 * What the hash join will look up for rows of this scan, its outer side, in the
 * current memory context.  NULL if its key is not one column by value at a known
 * place of the row, or if rows of the scan may not reach the join.
 */
extern ScanProbe *scan_probe_make(HashJoinState *join, ScanState *ss);

/*
 * The scan is about to return these tuples of a page one after another: if the
 * hash table is too large for the processor's caches, begin to fetch what the join
 * will look at.  Returns for how many of them.
 */
extern int	scan_probe_prefetch(ScanProbe *probe, Page page, const OffsetNumber *tuples, int ntuples);

#endif							/* SCAN_PROBE_H */

/*-------------------------------------------------------------------------
 *
 * scan_visibility.h
 *	  MVCC visibility that writes nothing.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCAN_VISIBILITY_H
#define SCAN_VISIBILITY_H

#include "storage/bufpage.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* What a snapshot makes of a transaction. */
typedef enum XidFate
{
	XID_UNSEEN,					/* aborted, or in progress for the snapshot */
	XID_COMMITTED,				/* committed before the snapshot */
	XID_CURRENT					/* this transaction, or a subtransaction of it */
} XidFate;

typedef struct XidMemo
{
	TransactionId xid;
	XidFate		fate;
} XidMemo;

/* The last transaction asked about; good for one snapshot. */
typedef struct VisibilityMemo
{
	XidMemo		xmin;
	XidMemo		xmax;
} VisibilityMemo;

/*
 * Put the line numbers of the tuples on a heap page that the snapshot sees into
 * visible[] (MaxHeapTuplesPerPage of them) and return how many there are; -1 if
 * the page's line pointers make no sense.
 */
extern int	visible_tuples(VisibilityMemo *memo, Page page, Snapshot snapshot, OffsetNumber *visible);

#endif							/* SCAN_VISIBILITY_H */

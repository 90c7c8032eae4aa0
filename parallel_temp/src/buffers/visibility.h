/*-------------------------------------------------------------------------
 *
 * visibility.h
 *	  MVCC visibility that writes nothing.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef VISIBILITY_H
#define VISIBILITY_H

#include "access/htup.h"
#include "storage/bufpage.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* What a snapshot makes of a transaction. */
typedef enum XidFate
{
	XID_UNSEEN,					/* in progress for the snapshot */
	XID_ABORTED,				/* aborted, or ended with a crash */
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
 * What the test found out about rows without hint bits, which are good for whoever
 * reads the page next.  Bits, of which one page can have several.
 */
typedef enum PageNote
{
	PAGE_HINTED = 0,			/* nothing that is not written there */
	PAGE_COMMITTED = 0x01,		/* rows lack the hint that their insertion has
								 * committed: that of all that have none has */
	PAGE_SETTLED = 0x02,		/* some rows lack a hint of any other kind, or
								 * others cannot have one yet */
	PAGE_DEAD_ROWS = 0x04		/* there may be dead rows to prune; not set
								 * here */
} PageNote;

/*
 * Put the line numbers of the tuples on a heap page that the snapshot sees into
 * visible[] (MaxHeapTuplesPerPage of them) and return how many there are; -1 if
 * the page's line pointers make no sense.  *note gets a PageNote.
 */
extern int	visible_tuples(VisibilityMemo *memo, Page page, Snapshot snapshot, OffsetNumber *visible, uint8 *note);

/* Does the snapshot see this tuple?  "memo" is good for one snapshot. */
extern bool visible_tuple(VisibilityMemo *memo, HeapTupleHeader tuple, Snapshot snapshot);

#endif							/* VISIBILITY_H */

/*-------------------------------------------------------------------------
 *
 * scan_visibility.c
 *	  Which tuples of a page an MVCC snapshot sees, without setting hint bits.
 *
 * Core's test writes what it learns into the tuple.  A worker works on a copy of
 * the leader's page and a copy's hint bits help nobody, so this test writes
 * nothing and remembers the last inserting and the last deleting transaction
 * instead: the rows of a temporary table mostly come from a few transactions.
 *
 * The rules are those of an MVCC snapshot: a tuple is seen if its insertion is
 * (inserted and committed before the snapshot, or by this transaction in an
 * earlier command) and its deletion is not.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "utils/combocid.h"
#include "utils/snapmgr.h"

#include "parallel/scan_visibility.h"

static pg_noinline XidFate
look_up(XidMemo *memo, TransactionId xid, bool known_committed, Snapshot snapshot)
{
	XidFate		fate;

	if (!known_committed && TransactionIdIsCurrentTransactionId(xid))
		fate = XID_CURRENT;
	else if (XidInMVCCSnapshot(xid, snapshot))
		fate = XID_UNSEEN;
	else
		fate = known_committed || TransactionIdDidCommit(xid) ? XID_COMMITTED : XID_UNSEEN;
	memo->xid = xid;
	memo->fate = fate;
	return fate;
}

static inline XidFate
fate_of(XidMemo *memo, TransactionId xid, bool known_committed, Snapshot snapshot)
{
	return likely(xid == memo->xid) ? memo->fate : look_up(memo, xid, known_committed, snapshot);
}

/*
 * Is the tuple, whose insertion is seen, deleted as far as the snapshot sees?
 */
static bool
deletion_seen(VisibilityMemo *memo, HeapTupleHeader tuple, Snapshot snapshot)
{
	TransactionId xmax;
	bool		known_committed;

	if (tuple->t_infomask & HEAP_XMAX_IS_MULTI)
	{
		xmax = HeapTupleGetUpdateXid(tuple);
		known_committed = false;
	}
	else
	{
		xmax = HeapTupleHeaderGetRawXmax(tuple);
		known_committed = (tuple->t_infomask & HEAP_XMAX_COMMITTED) != 0;
	}
	switch (fate_of(&memo->xmax, xmax, known_committed, snapshot))
	{
		case XID_COMMITTED:
			return true;
		case XID_CURRENT:
			return HeapTupleHeaderGetCmax(tuple) < snapshot->curcid;
		default:
			return false;
	}
}

static inline bool
tuple_visible(VisibilityMemo *memo, HeapTupleHeader tuple, Snapshot snapshot)
{
	uint16		infomask = tuple->t_infomask;

	if ((infomask & HEAP_XMIN_FROZEN) != HEAP_XMIN_FROZEN)
	{
		if ((infomask & HEAP_XMIN_FROZEN) == HEAP_XMIN_INVALID)
			return false;
		/* Only a version before 9.0 could leave these bits. */
		if (unlikely(infomask & HEAP_MOVED))
			elog(ERROR, "temporary table with a tuple moved by an old VACUUM");
		switch (fate_of(&memo->xmin, HeapTupleHeaderGetRawXmin(tuple),
						(infomask & HEAP_XMIN_COMMITTED) != 0, snapshot))
		{
			case XID_UNSEEN:
				return false;
			case XID_CURRENT:
				if (HeapTupleHeaderGetCmin(tuple) >= snapshot->curcid)
					return false;
				break;
			default:
				break;
		}
	}
	if (infomask & HEAP_XMAX_INVALID || HEAP_XMAX_IS_LOCKED_ONLY(infomask))
		return true;
	return !deletion_seen(memo, tuple, snapshot);
}

int
visible_tuples(VisibilityMemo *memo, Page page, Snapshot snapshot, OffsetNumber *visible)
{
	OffsetNumber last;
	unsigned	lowest;
	bool		all_visible;
	int			count = 0;

	if (PageIsNew(page))
		return 0;
	last = PageGetMaxOffsetNumber(page);
	if (last > MaxHeapTuplesPerPage)
		return -1;
	lowest = ((PageHeader) page)->pd_upper;
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery;
	for (OffsetNumber line = FirstOffsetNumber; line <= last; line++)
	{
		ItemId		id = PageGetItemId(page, line);

		if (!ItemIdIsNormal(id))
			continue;
		if (unlikely(ItemIdGetOffset(id) < lowest ||
					 ItemIdGetLength(id) < SizeofHeapTupleHeader ||
					 ItemIdGetOffset(id) + ItemIdGetLength(id) > BLCKSZ))
			return -1;
		if (all_visible || tuple_visible(memo, (HeapTupleHeader) PageGetItem(page, id), snapshot))
			visible[count++] = line;
	}
	return count;
}

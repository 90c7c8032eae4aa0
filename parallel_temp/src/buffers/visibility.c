/*-------------------------------------------------------------------------
 *
 * visibility.c
 *	  Which tuples of a page an MVCC snapshot sees, without setting hint bits.
 *
 * Core's test writes what it learns into the tuple.  A worker may not write to its
 * leader's pages, so this test writes nothing.  It remembers the last inserting and
 * the last deleting transaction instead: the rows of a temporary table mostly come
 * from a few transactions.  And it says what it has learned of the page's rows that
 * have no hint bits, for the leader to set them when no process reads (scan_hint_bits.c).
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
#include "utils/snapmgr.h"

#include "buffers/buffers.h"

static pg_noinline XidFate
xid_look_up(XidMemo *memo, TransactionId xid, bool known_committed, Snapshot snapshot)
{
	XidFate		fate;

	if (!known_committed && TransactionIdIsCurrentTransactionId(xid))
		fate = XID_CURRENT;
	else if (XidInMVCCSnapshot(xid, snapshot))
		fate = XID_UNSEEN;
	else
		/* not in progress for the snapshot, so one or the other for good */
		fate = known_committed || TransactionIdDidCommit(xid) ? XID_COMMITTED : XID_ABORTED;
	memo->xid = xid;
	memo->fate = fate;
	return fate;
}

static inline XidFate
xid_fate(XidMemo *memo, TransactionId xid, bool known_committed, Snapshot snapshot)
{
	return likely(xid == memo->xid) ? memo->fate : xid_look_up(memo, xid, known_committed, snapshot);
}

/*
 * Is the tuple, whose insertion is seen, deleted as far as the snapshot sees?
 * Sets *settled if that is for good and no hint bit says so.
 */
static bool
tuple_deletion_seen(VisibilityMemo *memo, HeapTupleHeader tuple, Snapshot snapshot, bool *settled)
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
	switch (xid_fate(&memo->xmax, xmax, known_committed, snapshot))
	{
		case XID_COMMITTED:
			if (!known_committed && !(tuple->t_infomask & HEAP_XMAX_IS_MULTI))
				*settled = true;
			return true;
		case XID_CURRENT:
			return HeapTupleHeaderGetCmax(tuple) < snapshot->curcid;
		case XID_ABORTED:
			if (!(tuple->t_infomask & HEAP_XMAX_IS_MULTI))
				*settled = true;
			return false;
		case XID_UNSEEN:
			break;
	}
	return false;
}

static inline bool
tuple_visible(VisibilityMemo *memo, HeapTupleHeader tuple, Snapshot snapshot,
			  uint16 *committed, bool *others, bool *settled)
{
	uint16		infomask = tuple->t_infomask;

	if ((infomask & HEAP_XMIN_FROZEN) != HEAP_XMIN_FROZEN)
	{
		if ((infomask & HEAP_XMIN_FROZEN) == HEAP_XMIN_INVALID)
			return false;
		/* Only a version before 9.0 could leave these bits. */
		if (unlikely(infomask & HEAP_MOVED))
			elog(ERROR, "temporary table with a tuple moved by an old VACUUM");
		switch (xid_fate(&memo->xmin, HeapTupleHeaderGetRawXmin(tuple),
						 (infomask & HEAP_XMIN_COMMITTED) != 0, snapshot))
		{
			case XID_COMMITTED:
				*committed &= infomask;
				break;
			case XID_ABORTED:
				*settled = true;
				return false;
			case XID_UNSEEN:
				*others = true;
				return false;
			case XID_CURRENT:
				*others = true;
				if (HeapTupleHeaderGetCmin(tuple) >= snapshot->curcid)
					return false;
				break;
		}
	}
	if (infomask & HEAP_XMAX_INVALID || HEAP_XMAX_IS_LOCKED_ONLY(infomask))
		return true;
	return !tuple_deletion_seen(memo, tuple, snapshot, settled);
}

int
pt_visible_tuples(VisibilityMemo *memo, Page page, Snapshot snapshot, OffsetNumber *visible, uint8 *note)
{
	OffsetNumber last;
	unsigned	lowest;
	bool		all_visible;
	int			count = 0;
	uint16		committed = HEAP_XMIN_COMMITTED;	/* cleared where a
													 * committed insertion has
													 * no hint */
	bool		others = false; /* an insertion that is not over */
	bool		settled = false;	/* any other hint is missing */

	*note = PAGE_HINTED;
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
		if (all_visible ||
			tuple_visible(memo, (HeapTupleHeader) PageGetItem(page, id), snapshot, &committed, &others, &settled))
			visible[count++] = line;
	}
	if (unlikely(settled || committed == 0))
		*note = settled || others ? PAGE_SETTLED : PAGE_COMMITTED;
	return count;
}

bool
pt_visible_tuple(VisibilityMemo *memo, HeapTupleHeader tuple, Snapshot snapshot)
{
	uint16		committed = HEAP_XMIN_COMMITTED;
	bool		others = false;
	bool		settled = false;

	return tuple_visible(memo, tuple, snapshot, &committed, &others, &settled);
}

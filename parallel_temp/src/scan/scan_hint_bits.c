/*-------------------------------------------------------------------------
 *
 * scan_hint_bits.c
 *	  What a scan leaves on a page for those who read it next: hint bits, and dead
 *	  rows pruned.
 *
 * A table that was filled row by row has another transaction in each row.  Without
 * hint bits every scan would look up every one of them.  The server's scan writes
 * what it learns onto the page; workers may not write to pages of their leader, which
 * they see read-only.  So they, and the leader with them, note it in the shared
 * area, a byte for each block, and the leader writes it when the last worker has
 * gone.  A scan in a leader without workers does it at once.
 *
 * Why that is safe:
 *
 *  - A note is a fact that no longer changes.  "Committed" and "aborted" are said of
 *    a transaction only that the snapshot does not see in progress: its fate is in the
 *    commit log for good.  That includes subtransactions, where "committed" means that
 *    the whole transaction is.  Of the current transaction, and of its running
 *    subtransactions, nothing is noted.  An aborted subtransaction of the current one is no
 *    part of it any more, and not in progress either; so the server's test sees it.
 *  - The rows that a note is about are still those of the page: it was pinned by the
 *    leader from before the first reader to now, so it was not pruned, and while workers
 *    run the server refuses every statement that changes rows.  Processes that read the
 *    same block, as complete scans do, have one snapshot and note the same.
 *  - No other process reads when it is written: workers have ended, and the buffers of a
 *    session are no other process's.  Should a query around this one have workers that
 *    read the page just now, the bits are such as stock code in the leader may set under
 *    them at any time: one aligned store to two bytes, good before and after.  But
 *    pruning moves rows.  It is the server's function, which does nothing unless our pin
 *    is the only one, and those workers' page has a pin for them.
 *  - A page that is made dirty here is pinned, so it is not written before all readers
 *    of the file are gone.  Its checksum is made when it is written.  No bit waits for
 *    the log, as it would on a permanent page: a crash removes the table.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "compat_storage.h"
#include "compat_table.h"
#include "scan/scan.h"
#include "share/share.h"

/*
 * Rows of this page whose insertion has no hint are those of committed transactions.
 */
static void
scan_hint_committed(Page page)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	for (OffsetNumber line = FirstOffsetNumber; line <= last; line++)
	{
		ItemId		id = PageGetItemId(page, line);
		HeapTupleHeader tuple;

		if (!ItemIdIsNormal(id))
			continue;
		tuple = (HeapTupleHeader) PageGetItem(page, id);
		if (tuple->t_infomask & HEAP_XMIN_FROZEN)
			continue;
		Assert(!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple)));
		Assert(TransactionIdDidCommit(HeapTupleHeaderGetRawXmin(tuple)));
		tuple->t_infomask |= HEAP_XMIN_COMMITTED;
	}
}

/*
 * Let the server's test set what hint bits it can.
 */
static void
scan_hint_each(Relation rel, Buffer buffer, Snapshot snapshot)
{
	Page		page = BufferGetPage(buffer);
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	HeapTupleData tuple;

	tuple.t_tableOid = RelationGetRelid(rel);
	for (OffsetNumber line = FirstOffsetNumber; line <= last; line++)
	{
		ItemId		id = PageGetItemId(page, line);

		if (!ItemIdIsNormal(id))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, id);
		tuple.t_len = ItemIdGetLength(id);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), line);
		(void) HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer);
	}
}

static void
scan_hint_buffer(Relation rel, Buffer buffer, uint8 note, Snapshot snapshot)
{
	Assert(BufferIsLocal(buffer) && LocalRefCount[-buffer - 1] > 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (note & PAGE_SETTLED)
		scan_hint_each(rel, buffer, snapshot);
	else if (note & PAGE_COMMITTED)
	{
		scan_hint_committed(BufferGetPage(buffer));
		MarkBufferDirtyHint(buffer, true);
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (note & PAGE_DEAD_ROWS)
		heap_page_prune_opt_compat(rel, buffer);
}

void
pt_scan_note_hint_bits(TempScanState *scan, BlockNumber block, uint8 note)
{
	Snapshot	snapshot = scan->css.ss.ps.state->es_snapshot;

	if (scan->rel == NULL)
	{
		/* Dead rows have gone before the page was read. */
		if (note != PAGE_HINTED)
		{
			scan_hint_buffer(scan->css.ss.ss_currentRelation, scan->buffer, note, snapshot);
			pt_counters.pages_hinted++;
		}
		return;
	}
	if (scan->pages[block] < 0)
		return;					/* a copy */
	if (PRUNES_BY_BUFFER_compat && TransactionIdIsValid(((PageHeader) scan->page)->pd_prune_xid) &&
		TransactionIdPrecedes(((PageHeader) scan->page)->pd_prune_xid, snapshot->xmin) &&
		(PageIsFull(scan->page) || PageGetHeapFreeSpace(scan->page) < scan->crowded))
		note |= PAGE_DEAD_ROWS;
	if (note == PAGE_HINTED)
		return;
	scan->notes[block] = note;
	if (pg_atomic_read_u32(&scan->rel->noted) == 0)
		pg_atomic_write_u32(&scan->rel->noted, 1);
}

void
pt_scan_set_hint_bits(SharedArea *area, Snapshot snapshot)
{
	for (int i = 0; i < area->nrels; i++)
	{
		SharedRel  *shared = &area->rels[i];
		int32	   *pages = pt_shared_relation_pages(area, shared);
		uint8	   *notes = pt_shared_relation_notes(area, shared);
		Relation	rel;
		int64		hinted = 0;

		if (pg_atomic_read_u32(&shared->noted) == 0)
			continue;
		/* the query has it locked */
		rel = table_open(shared->relid, NoLock);
		for (BlockNumber block = 0; block < shared->nblocks; block++)
		{
			if (notes[block] == PAGE_HINTED)
				continue;
			CHECK_FOR_INTERRUPTS();
			Assert(pages[block] >= 0);
			Assert(GetLocalBufferDescriptor(pages[block])->tag.blockNum == block);
			scan_hint_buffer(rel, -pages[block] - 1, notes[block], snapshot);
			hinted++;
		}
		table_close(rel, NoLock);
		pt_counters.pages_hinted += hinted;
	}
}

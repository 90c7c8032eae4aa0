/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  Which pages of a table or store could be cut off its end.
 *
 * VACUUM cuts empty pages off the end of a file.  A page becomes empty only
 * if its rows are stored elsewhere, and the free space map decides where: it
 * offers any page that has room, also one at the end.  So the map is told that the pages to be
 * emptied have no room.  It is only a hint, which other sessions' inserts follow too; VACUUM
 * corrects it when it visits a page from which rows were deleted.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "utils/snapmgr.h"

#include "store/store.h"

/*
 * Free bytes of a page.  The page is looked at if the map says that it has no room: an
 * earlier call that was canceled may have written that.
 */
static Size
page_room(Relation rel, BlockNumber block, BufferAccessStrategy strategy)
{
	Size		room = GetRecordedFreeSpace(rel, block);

	if (room == 0)
	{
		Buffer		buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		Page		page = BufferGetPage(buffer);

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		room = PageIsNew(page) ? MaxHeapTupleSize : PageGetHeapFreeSpace(page);
		UnlockReleaseBuffer(buffer);
	}
	return Min(room, MaxHeapTupleSize);
}

/*
 * The number of pages that could hold what is in the relation.  rows: about how many rows or
 * values it is of; 0: unknown.  Room counts as far as such a row fits in, or a whole page if it is
 * longer, because a value's chunks fill pages when they are written again.  An eighth of it
 * is left over, because sizes differ.
 */
BlockNumber
ab_pages_needed(Relation rel, double rows)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber needed = RelationGetNumberOfBlocks(rel);
	uint16	   *free = palloc_extended(Max(needed, 1) * sizeof(uint16), MCXT_ALLOC_HUGE);
	uint64		used = 0;
	uint64		room = 0;		/* before "needed" */
	uint64		beyond = 0;		/* bytes used from there on */
	Size		unit = MaxHeapTupleSize;

	for (BlockNumber block = 0; block < needed; block++)
	{
		CHECK_FOR_INTERRUPTS();
		free[block] = page_room(rel, block, strategy);
		used += MaxHeapTupleSize - free[block];
	}
	if (used / MaxHeapTupleSize < rows)
		unit = Max(used / rows, 1);
	for (BlockNumber block = 0; block < needed; block++)
		room += free[block] / unit * unit;
	while (needed > 0)
	{
		room -= free[needed - 1] / unit * unit;
		beyond += MaxHeapTupleSize - free[needed - 1];
		if (beyond > room - room / 8)
			break;
		needed--;
	}
	pfree(free);
	FreeAccessStrategy(strategy);
	return needed;
}

/* Make the server put new rows on pages before "limit". */
void
ab_pages_close(Relation rel, BlockNumber limit)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);

	if (limit >= nblocks)
		return;
	for (BlockNumber block = limit; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		RecordPageWithFreeSpace(rel, block, 0);
	}
	FreeSpaceMapVacuumRange(rel, limit, nblocks);
	RelationSetTargetBlock(rel, InvalidBlockNumber);
}

/*
 * Is a chunk of a value on a page from "limit" on?  Reads the index alone, so chunks that
 * vacuum will remove count too.
 */
bool
ab_chunks_beyond(const AbStore *store, int64 vid, BlockNumber limit)
{
	SysScanDesc scan = ab_chunk_scan(store, SnapshotAny, vid, 0, PG_INT64_MAX);
	ItemPointer tid;
	bool		beyond = false;

	while (!beyond && (tid = index_getnext_tid(scan->iscan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		beyond = ItemPointerGetBlockNumber(tid) >= limit;
	}
	systable_endscan_ordered(scan);
	return beyond;
}

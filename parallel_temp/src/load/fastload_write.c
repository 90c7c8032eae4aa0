/*-------------------------------------------------------------------------
 *
 * fastload_write.c
 *	  The bulk writer: pages of a temporary table, and their way to its file.
 *
 * Rows are formed in place (fastload_rows.c).  The first pages, about as
 * many as temp_buffers has, are local buffers, so that a table that fits is
 * resident for the queries that follow, as after the server's own path; their file
 * grows in large steps and is not written.  All further pages are filled in a
 * private batch of 256 kB and written to the file once, past its end; they reach
 * local buffers when somebody reads them.  Pages that parallel workers have filled
 * (fastload_gather.c) are copied in between, each as the table's next block; once
 * pages go to the file, workers are granted blocks in it and write them themselves.
 * Such blocks are in front of those of the batch, whose pages learn their numbers when
 * they are written.
 *
 * What must hold.  Between two calls every row is either on a local buffer, in the
 * file, in the batch, or on a page whose block is granted: whoever may look at the
 * table before the load ends must have fastload_hand_back() called first (fastload.c
 * sees to it).  Nobody else adds blocks to the table while the load runs; each batch
 * and each grant check that.  No worker writes once grants are settled.  At most one pin is
 * held, by the resource owner that was current at the beginning.  An ERROR leaves
 * whole pages behind, whose rows belong to an aborted transaction, and perhaps
 * empty pages at the end of the file: what the server's own path leaves too.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "storage/ipc.h"

#include "buffers/localbuf.h"
#include "buffers/relfile.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "ram_directory.h"

/* Pages of one write to the file: 256 kB stay in the processor's cache. */
#define BATCH_PAGES (256 * 1024 / BLCKSZ)

/* A RAM tablespace's limit is looked at again after so many batches: 16 MB. */
#define CHECK_ROOM_BATCHES 64

/* The file grows by at most this many blocks at once. */
#define MAX_STEP 512

static void next_page(FastLoad *load);
static void close_page(FastLoad *load, bool last);
static void write_batch(FastLoad *load);
static void give_back_blocks(FastLoad *load, bool keep_length);

/*
 * A load's states follow each other.
 */
static inline void
set_state(FastLoad *load, FastLoadState state)
{
	Assert(state > load->state);
	load->state = state;
}

/*
 * Begin a load into a heap that fastload_unfit() found no fault with.  Rows get
 * the current transaction's id and this command id; "frozen" rows are visible to
 * every snapshot at once.
 */
FastLoad *
fastload_begin(Relation rel, CommandId cid, bool frozen, MemoryContext context)
{
	FastLoad   *load = MemoryContextAllocZero(context, sizeof(FastLoad));

	localbuf_ensure();
	load->rel = rel;
	load->relid = RelationGetRelid(rel);
	load->xid = GetCurrentTransactionId();
	load->cid = cid;
	load->frozen = frozen;
	load->save_space = RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR);
	load->owner = CurrentResourceOwner;

	/*
	 * Memory runs out as a matter of course, and must do so in the statement
	 * that wants more: with a lazy file it would be whatever statement needs
	 * a buffer next.
	 */
	load->lazy_file = pt_lazy_files && !ram_directory_is_tablespace(rel->rd_rel->reltablespace);
	load->context = context;
	load->next_page = next_page;
	load->buffer = InvalidBuffer;
	load->old_length = RelationGetNumberOfBlocks(rel);
	load->first_block = load->old_length;
	load->next_block = load->old_length;
	load->file_length = load->first_block;
	load->first_granted = InvalidBlockNumber;
	load->step = 1;
	load->blocks_read = pgBufferUsage.local_blks_read;

	/* leave a little room for the buffers that the statement itself uses */
	load->pool_limit = NLocBuffer - NLocBuffer / 16;
	return load;
}

/*
 * Rows must be found by the buffer manager at once: nothing goes straight to the
 * file, and fastload_add() sets tts_tid.
 */
void
fastload_stay_in_buffers(FastLoad *load)
{
	load->pool_limit = PG_UINT64_MAX;
}

/*
 * The statement scans the table while it fills it.  A scan expects every block that
 * the file had when it began, so the file must not become shorter before the
 * statement ends.
 */
void
fastload_keep_length(FastLoad *load)
{
	load->scanned = true;
	fastload_stay_in_buffers(load);
}

/*
 * Go on filling the table's last page, which the server's own path has just put a
 * row on (so it is not marked all-visible).
 */
void
fastload_continue_at_end(FastLoad *load)
{
	Assert(load->next_block > 0 && load->page == NULL && load->tuples == 0);
	load->block = load->next_block - 1;
	load->buffer = ReadBuffer(load->rel, load->block);
	LockBuffer(load->buffer, BUFFER_LOCK_EXCLUSIVE);
	load->page = BufferGetPage(load->buffer);
	load->used_hole = true;
	load->first_block = load->block;
}

/*
 * Room for the table's next block: a new page of a local buffer, or of the batch
 * (*buffer is Invalid then).  The block counts when this returns, so the caller must
 * make a page of it before anything can fail.
 */
static Page
add_block(FastLoad *load, Buffer *buffer)
{
	Page		page;

	if (load->pool_pages < load->pool_limit)
	{
		Assert(load->state == LOAD_TO_BUFFERS && load->batch_pages == 0);
		if (load->next_block >= load->file_length)
		{
			BlockNumber n = Min(load->step, relfile_room_in_segment(load->file_length));

			/* not beyond what buffers take: see below */
			n = Min(n, load->pool_limit - load->pool_pages);
			/* a nearly full file system may have room for a smaller step */
			while (!relfile_extend(RelationGetSmgr(load->rel), load->file_length, load->file_length + n,
								   load->lazy_file))
				n = (n + 1) / 2;
			load->file_length += n;
			load->step = Min(n * 2, MAX_STEP);
		}
		*buffer = ReadBufferExtended(load->rel, MAIN_FORKNUM, load->next_block,
									 RBM_ZERO_AND_LOCK, NULL);
		page = BufferGetPage(*buffer);
		if (unlikely(!PageIsNew(page)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("block %u of relation \"%s\" has been filled by something other than the load that added it",
							load->next_block, RelationGetRelationName(load->rel)),
					 errhint("Set parallel_temp.fast_load to off for this statement.")));
		MarkBufferDirty(*buffer);
		load->pool_pages++;
	}
	else
	{
		if (load->state == LOAD_TO_BUFFERS)
		{
			/* what goes straight to the file begins at its end */
			Assert(load->file_length == load->next_block);
			load->batch = (char *) TYPEALIGN(BLCKSZ, MemoryContextAlloc(load->context, (BATCH_PAGES + 1) * BLCKSZ));
			set_state(load, LOAD_TO_FILE);
		}
		if (load->batch_pages == BATCH_PAGES)
			write_batch(load);
		page = (Page) (load->batch + (Size) load->batch_pages * BLCKSZ);
		load->batch_pages++;
		load->file_pages++;
		*buffer = InvalidBuffer;
	}
	load->next_block++;
	pgBufferUsage.local_blks_written++;
	return page;
}

/*
 * Leave the page being filled and begin another.
 */
static void
next_page(FastLoad *load)
{
	CHECK_FOR_INTERRUPTS();
	close_page(load, false);

	Assert(load->state < LOAD_HANDED_BACK && load->page == NULL);
	load->page = add_block(load, &load->buffer);
	PageInit(load->page, BLCKSZ, 0);
	load->used_hole = false;
	load->block = load->next_block - 1;
}

/*
 * The rows of a page learn which block it is; "frozen" ones are made so.
 */
static void
set_block(Page page, BlockNumber block, bool frozen)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	for (OffsetNumber i = FirstOffsetNumber; i <= last; i++)
	{
		HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, i));

		ItemPointerSetBlockNumber(&tuple->t_ctid, block);
		if (frozen)
			tuple->t_infomask |= HEAP_XMIN_FROZEN;
	}
}

/*
 * A page full of rows that somebody else has formed, with this load's transaction and
 * command in them, becomes the table's next block.  The page being filled stays.
 */
void
fastload_take_page(FastLoad *load, Page filled)
{
	Buffer		buffer;
	Page		page;

	Assert(load->state < LOAD_HANDED_BACK);
	page = add_block(load, &buffer);
	memcpy(page, filled, BLCKSZ);
	set_block(page, load->next_block - 1, load->frozen);
	if (load->frozen)
		PageSetAllVisible(page);
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	load->tuples += PageGetMaxOffsetNumber(filled);
	load->taken_pages++;
}

/* Is the page being filled in the batch? */
static inline bool
open_page_in_batch(const FastLoad *load)
{
	return load->page != NULL && !BufferIsValid(load->buffer);
}

/*
 * The batch is about to be written, and has the page being filled, which is not for
 * the file yet: it becomes the last one.
 */
static void
move_open_page_last(FastLoad *load)
{
	Page		last = (Page) (load->batch + (Size) (load->batch_pages - 1) * BLCKSZ);

	if (load->page != last)
	{
		PGAlignedBlock open;

		memcpy(open.data, load->page, BLCKSZ);
		memcpy(load->page, last, BLCKSZ);
		memcpy(last, open.data, BLCKSZ);
		load->page = last;
		load->block = load->file_length + load->batch_pages - 1;
	}
}

/*
 * A page of the batch is written as this block.  Its rows may think of another one: pages
 * change places, and blocks that are granted come in between.  Numbers only grow while a
 * page is filled, so that of its first row is the one to look at; where a page went
 * back, that has another number, too.
 */
static void
number_page(Page page, BlockNumber block)
{
	HeapTupleHeader first;

	if (PageGetMaxOffsetNumber(page) == 0)
		return;
	first = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, FirstOffsetNumber));
	if (ItemPointerGetBlockNumberNoCheck(&first->t_ctid) != block)
		set_block(page, block, false);
}

/*
 * Another 256 kB or less are about to be written: look at a RAM tablespace's limit now
 * and then.
 */
static void
count_batch(FastLoad *load)
{
	if (++load->batches % CHECK_ROOM_BATCHES == 0)
	{
		RamCheckRoom check = *(RamCheckRoom *) find_rendezvous_variable(RAM_CHECK_ROOM_VARIABLE);

		if (check)
			check(load->rel->rd_rel->reltablespace);
	}
}

/*
 * The table's next blocks, up to *pages of them and in one segment file, are for full
 * pages that somebody else writes (fastload_write_granted()).  The file gets its length
 * here, so that it has always the one that is known, and no write changes it.  Returns
 * the first block and sets *pages, or InvalidBlockNumber where the load has to write
 * the pages itself.  Nothing can fail after blocks are granted.
 */
BlockNumber
fastload_grant(FastLoad *load, int *pages)
{
	BlockNumber first = load->file_length;
	int			n = Min(*pages, relfile_room_in_segment(first));

	Assert(fastload_is_at_file(load) && load->next_block == load->file_length + load->batch_pages);
	count_batch(load);
	/* a full file system: whoever takes the pages says so */
	if (!relfile_extend(RelationGetSmgr(load->rel), first, first + n, load->lazy_file))
		return InvalidBlockNumber;
	if (load->first_granted == InvalidBlockNumber)
		load->first_granted = first;
	load->file_length += n;
	load->next_block += n;
	if (open_page_in_batch(load))
		load->block += n;
	load->file_pages += n;
	load->taken_pages += n;
	pgBufferUsage.local_blks_written += n;
	*pages = n;
	return first;
}

/*
 * Make pages of rows that blocks were granted for the table's, and write them there: in
 * a worker, or in the leader whose worker did not.
 */
void
fastload_write_granted(RelFile *file, RelFileLocator_compat locator, BlockNumber first,
					   Page *pages, int n, bool frozen)
{
	for (int i = 0; i < n; i++)
	{
		set_block(pages[i], first + i, frozen);
		if (frozen)
			PageSetAllVisible(pages[i]);
	}
	relfile_fill(file, locator, first, (void **) pages, n);
}

/*
 * No worker writes from now on.  With "write", all blocks that were granted have their
 * pages.
 */
void
fastload_settle(FastLoad *load, bool write)
{
	if (load->settle != NULL)
		load->settle(load->settle_owner, write);
	load->settle = NULL;
}

/*
 * The page being filled is complete.  A page with nothing but frozen rows is
 * visible to all; the last page is left unmarked, since rows may follow and would
 * have to clear a visibility map that does not exist.
 */
static void
close_page(FastLoad *load, bool last)
{
	if (load->page == NULL)
		return;
	if (load->frozen && !load->used_hole && !last)
		PageSetAllVisible(load->page);
	if (BufferIsValid(load->buffer))
	{
		ResourceOwner current = CurrentResourceOwner;

		/*
		 * Once more if the page was new: somebody may have flushed it half
		 * filled.
		 */
		MarkBufferDirty(load->buffer);
		CurrentResourceOwner = load->owner;
		UnlockReleaseBuffer(load->buffer);
		CurrentResourceOwner = current;
		load->buffer = InvalidBuffer;
	}
	load->page = NULL;
}

/*
 * Write the batch past the end of the file, but for the page being filled.
 */
static void
write_batch(FastLoad *load)
{
	SMgrRelation reln = RelationGetSmgr(load->rel);
	int			pages = load->batch_pages;
	bool		again;

	if (open_page_in_batch(load))
	{
		move_open_page_last(load);
		pages--;
	}
	if (pages == 0)
		return;

	count_batch(load);
	for (int i = 0; i < pages; i++)
		number_page((Page) (load->batch + (Size) i * BLCKSZ), load->file_length + i);

	/*
	 * A write that failed half-way (and whose error was caught further down)
	 * leaves a file that is too long; those blocks are ours to write again.
	 */
	again = load->batch_failed;
	load->batch_failed = true;
	relfile_append(reln, load->file_length, load->batch, pages, again);
	load->batch_failed = false;
	load->file_length += pages;
	load->batch_pages -= pages;
	if (load->batch_pages > 0)
	{
		memcpy(load->batch, load->page, BLCKSZ);
		load->page = (Page) load->batch;
	}
}

/*
 * Has somebody put rows without a plan (a function in C) at this block or behind it?
 * The load itself leaves no trace there until it is handed back.
 */
static bool
others_have_put_rows(FastLoad *load, BlockNumber block)
{
	BlockNumber target = RelationGetTargetBlock(load->rel);

	return target != InvalidBlockNumber && target >= block;
}

/*
 * Has somebody read blocks that were added and not used (a function that reads a
 * relation's pages without a plan)?  A buffer must not hold a block behind the end
 * of the file: another load would write that block past it.
 */
static bool
unused_blocks_are_read(FastLoad *load)
{
	if (others_have_put_rows(load, load->next_block))
		return true;
	return pgBufferUsage.local_blks_read != load->blocks_read && localbuf_holds_from(load->rel, load->next_block);
}

/*
 * Blocks that were granted have been in the file, empty, before they were written.
 * Somebody may have read one then (see above): that copy goes.  Who has changed it, or
 * still holds it, has done what cannot be put right.
 */
static void
forget_granted_blocks(FastLoad *load)
{
	if (load->first_granted == InvalidBlockNumber)
		return;
	if (others_have_put_rows(load, load->first_granted) ||
		(pgBufferUsage.local_blks_read != load->blocks_read &&
		 !localbuf_discard_from(load->rel, load->first_granted, false)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("blocks of relation \"%s\" have been used by something other than the load that added them",
						RelationGetRelationName(load->rel)),
				 errhint("Set parallel_temp.fast_load to off for this statement.")));
	load->first_granted = InvalidBlockNumber;
}

/*
 * The file has blocks that were not used.  Cut them off; where a scan may come to
 * them they stay, empty, for the server's own path to use.
 */
static void
give_back_blocks(FastLoad *load, bool keep_length)
{
	if (load->file_length <= load->next_block)
		return;
	if (keep_length || unused_blocks_are_read(load))
	{
		for (BlockNumber block = load->next_block; block < load->file_length; block++)
			RecordPageWithFreeSpace(load->rel, block, BLCKSZ - SizeOfPageHeaderData);
		FreeSpaceMapVacuumRange(load->rel, load->next_block, load->file_length);
	}
	else
	{
		relfile_cut(RelationGetSmgr(load->rel), load->file_length, load->next_block);
		load->file_length = load->next_block;
	}
}

/*
 * Make every row visible to the buffer manager, and let the server's own path do
 * the rest of the load.  With "thaw", frozen rows become ordinary rows of this
 * transaction, because somebody is about to look at them with a snapshot that may
 * be older.  May be called deeper than the load itself: a failure leaves the load
 * as it was.
 */
void
fastload_hand_back(FastLoad *load, bool thaw)
{
	BlockNumber target = load->page != NULL ? load->block : load->next_block - 1;

	Assert(load->state < LOAD_HANDED_BACK);
	fastload_settle(load, true);
	forget_granted_blocks(load);
	close_page(load, true);
	write_batch(load);
	give_back_blocks(load, thaw && load->scanned);

	/* where there is room: pages that were taken are full */
	if (load->next_block > 0)
		RelationSetTargetBlock(load->rel, target);

	if (thaw && load->frozen)
	{
		for (BlockNumber block = load->first_block; block < load->next_block; block++)
		{
			Buffer		buffer = ReadBuffer(load->rel, block);
			Page		page = BufferGetPage(buffer);

			CHECK_FOR_INTERRUPTS();
			LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
			for (OffsetNumber i = FirstOffsetNumber; i <= PageGetMaxOffsetNumber(page); i++)
			{
				ItemId		item = PageGetItemId(page, i);
				HeapTupleHeader tuple;

				if (!ItemIdIsNormal(item))
					continue;
				tuple = (HeapTupleHeader) PageGetItem(page, item);
				if (HeapTupleHeaderGetRawXmin(tuple) == load->xid)
					tuple->t_infomask &= ~HEAP_XMIN_FROZEN;
			}
			PageClearAllVisible(page);
			MarkBufferDirty(buffer);
			UnlockReleaseBuffer(buffer);
		}
		load->frozen = false;
	}
	set_state(load, LOAD_HANDED_BACK);
}

/*
 * The statement has failed; its transaction will be aborted.  What the load has added
 * would stay in the table as pages of dead rows and empty ones: with a full disk they
 * could not be written, and all later statements would fail at that.  So they go, out
 * of the buffers and off the file, unless an index points into them or somebody may
 * have looked at them; then only blocks without rows are cut off, if that is possible.
 * No other error may be raised here.
 */
void
fastload_abandon(FastLoad *load)
{
	SMgrRelation reln;

	fastload_settle(load, false);
	if (load->state >= LOAD_HANDED_BACK || load->next_block == 0 || proc_exit_inprogress ||
		others_have_put_rows(load, load->old_length) || unused_blocks_are_read(load))
		return;
	close_page(load, true);
	reln = RelationGetSmgr(load->rel);
	if (load->old_length > 0 && !load->scanned && !load->rel->rd_rel->relhasindex &&
		localbuf_discard_from(load->rel, load->old_length, true))
		relfile_cut_quietly(reln, load->file_length, Max(load->batch_pages, 1), load->old_length);
	else if (load->batch == NULL && load->file_length > load->next_block)
		relfile_cut_quietly(reln, load->file_length, 0, load->next_block);
}

/*
 * The statement has delivered its last row.
 */
void
fastload_end(FastLoad *load)
{
	if (load->state < LOAD_HANDED_BACK)
		fastload_hand_back(load, false);
	set_state(load, LOAD_ENDED);
	if (load->tuples > 0)
		pgstat_count_heap_insert(load->rel, load->tuples);
}

/*-------------------------------------------------------------------------
 *
 * fastload_write.c
 *	  The bulk writer: pages of a temporary table, and their way to its file.
 *
 * Rows are formed in place (fastload_rows.c).  The first pages, about as
 * many as temp_buffers has, are local buffers, so that a table that fits is
 * resident for the queries that follow, as after the server's code; their file
 * grows in large steps and is not written.  All further pages are filled in a
 * private batch of 256 kB and written to the file once, past its end; they reach
 * local buffers when they are read.  Pages that parallel workers have filled
 * (fastload_leader.c) are copied in between, each as the table's next block; once pages
 * go to the file, workers append theirs by themselves (fastload_file_end.c), and a page's
 * block is set when it is written.
 *
 * Invariants: Between two calls every row is either on a local buffer, or in
 * the batch: before any other code reads the table during the load,
 * pt_load_hand_back() is called (by fastload.c).  No other process adds blocks
 * to the table while the load runs; each batch, and each run of a worker's, checks
 * that.  At most one pin is held, by the resource owner that was current at the beginning.  An ERROR leaves
 * whole pages behind, whose rows belong to an aborted transaction, and perhaps
 * empty pages at the end of the file, as the server's code leaves too.
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
#include "storage/lwlock.h"

#include "buffers/buffers.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "ram_directory.h"

/* Pages of one write to the file: 256 kB stay in the CPU's cache. */
#define BATCH_PAGES (256 * 1024 / BLCKSZ)

/* A RAM tablespace's limit is checked again after this many pages: 16 MB. */
#define CHECK_ROOM_PAGES (16 * 1024 * 1024 / BLCKSZ)

/* The file grows by at most this many blocks at once. */
#define MAX_STEP 512

static void next_page(FastLoad *load);
static void close_page(FastLoad *load, bool last);
static void write_batch(FastLoad *load);

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
 * Begin a load into a heap that pt_load_unfit() found no fault with.  Rows get
 * the current transaction's id and this command id; "frozen" rows are visible to
 * every snapshot at once.
 */
FastLoad *
pt_load_begin(Relation rel, CommandId cid, bool frozen, MemoryContext context)
{
	FastLoad   *load = MemoryContextAllocZero(context, sizeof(FastLoad));

	pt_localbuf_ensure();
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
	load->step = 1;
	load->blocks_read = pgBufferUsage.local_blks_read;

	/* leave some buffers for the statement itself */
	load->pool_limit = NLocBuffer - NLocBuffer / 16;

	/* counting rows after a failure must not need memory */
	pgstat_count_heap_insert(rel, 0);
	return load;
}

/*
 * Rows must be found by the buffer manager at once: nothing goes straight to the
 * file, and pt_load_add() sets tts_tid.  If the statement fails its pages stay, dirty,
 * because an index may point into them, or they may have been read (see
 * pt_load_abandon()); so they must have disk space, or no later statement could
 * evict them from the buffers.
 */
void
pt_load_stay_in_buffers(FastLoad *load)
{
	load->pool_limit = PG_UINT64_MAX;
	load->lazy_file = false;
}

/*
 * The statement scans the table while it fills it.  A scan expects every block that
 * the file had when it began, so the file must not become shorter before the
 * statement ends.
 */
void
pt_load_keep_length(FastLoad *load)
{
	load->scanned = true;
	pt_load_stay_in_buffers(load);
}

/*
 * Go on filling the table's last page, on which the server's code has just stored a
 * row (so it is not marked all-visible).
 */
void
pt_load_continue_at_end(FastLoad *load)
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
			BlockNumber n = Min(load->step, pt_relfile_room_in_segment(load->file_length));

			/* not beyond what buffers take: see below */
			n = Min(n, load->pool_limit - load->pool_pages);
			/* a nearly full file system may have space for a smaller step */
			while (!pt_relfile_extend(RelationGetSmgr(load->rel), load->file_length, load->file_length + n,
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
 * A page full of rows that another process has formed, with this load's transaction and
 * command in them, becomes the table's next block.  The page being filled stays.
 */
void
pt_load_take_page(FastLoad *load, Page filled)
{
	Buffer		buffer;
	Page		page;

	Assert(load->state < LOAD_HANDED_BACK);
	page = add_block(load, &buffer);
	memcpy(page, filled, BLCKSZ);
	pt_load_set_block(page, load->next_block - 1, load->frozen);
	if (load->frozen)
		PageSetAllVisible(page);
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	load->tuples += PageGetMaxOffsetNumber(filled);
	load->taken_pages++;
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
 * A page of the batch is written as this block.  Its rows may contain another number: pages
 * change places, and workers append in between.  While a page is filled, numbers only
 * grow, so that of its first row is the one to check.  (What changes places with the
 * page being filled was taken, and all its rows have the same number.)
 */
static void
number_page(Page page, BlockNumber block)
{
	HeapTupleHeader first;

	if (PageGetMaxOffsetNumber(page) == 0)
		return;
	first = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, FirstOffsetNumber));
	if (ItemPointerGetBlockNumberNoCheck(&first->t_ctid) != block)
		pt_load_set_block(page, block, false);
}

/*
 * More pages have been written, or are about to be: check a RAM tablespace's
 * limit from time to time.
 */
void
pt_load_count_written(FastLoad *load, uint64 pages)
{
	load->unchecked += pages;
	if (load->unchecked >= CHECK_ROOM_PAGES)
	{
		RamCheckRoom check = *(RamCheckRoom *) find_rendezvous_variable(RAM_CHECK_ROOM_VARIABLE);

		load->unchecked = 0;
		if (check)
			check(load->rel->rd_rel->reltablespace);
	}
}

/*
 * The page being filled is complete.  A page that has only frozen rows is
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
		 * Again if the page was new: it may have been flushed half filled.
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
 * Write the batch past the end of the file, which no other process writes to, except for the page
 * being filled.
 */
static void
write_batch_at_end(FastLoad *load)
{
	SMgrRelation reln = RelationGetSmgr(load->rel);
	int			pages = load->batch_pages;
	bool		again;

	if (pt_load_page_in_batch(load))
	{
		move_open_page_last(load);
		pages--;
	}
	if (pages == 0)
		return;
	for (int i = 0; i < pages; i++)
		number_page((Page) (load->batch + (Size) i * BLCKSZ), load->file_length + i);

	/*
	 * A write that failed half-way (and whose error was caught further down)
	 * leaves a file that is too long; this load writes those blocks again.
	 */
	again = load->batch_failed;
	load->batch_failed = true;
	pt_relfile_append(reln, load->file_length, load->batch, pages, again ? BATCH_PAGES : 0);
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
 * The same where workers may append as well.
 */
static void
write_batch(FastLoad *load)
{
	FastLoadEnd *end = load->end;

	pt_load_count_written(load, load->batch_pages);
	if (end == NULL)
	{
		write_batch_at_end(load);
		return;
	}
	LWLockAcquire(&end->lock, LW_EXCLUSIVE);
	PG_TRY();
	{
		pt_load_follow_file_end(load);
		write_batch_at_end(load);
	}
	PG_CATCH();
	{
		pt_file_end_failed(end);
		PG_RE_THROW();
	}
	PG_END_TRY();
	end->length = load->file_length;
	LWLockRelease(&end->lock);
}

/*
 * Has a function in C inserted rows without a plan at this block or after it?
 * The load itself leaves no trace there until it is handed back.
 */
static bool
others_have_put_rows(FastLoad *load, BlockNumber block)
{
	BlockNumber target = RelationGetTargetBlock(load->rel);

	return target != InvalidBlockNumber && target >= block;
}

/*
 * Were blocks read that were added and not used (by a function that reads a
 * relation's pages without a plan)?  A buffer must not hold a block behind the end
 * of the file: another load would write that block past it.
 */
static bool
unused_blocks_are_read(FastLoad *load)
{
	if (others_have_put_rows(load, load->next_block))
		return true;
	return pgBufferUsage.local_blks_read != load->blocks_read && pt_localbuf_holds_from(load->rel, load->next_block);
}

/*
 * The file has blocks that were not used.  Cut them off; where a scan may reach
 * them they stay, empty, for the server's code to use.
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
		pt_relfile_cut(RelationGetSmgr(load->rel), load->file_length, load->next_block);
		load->file_length = load->next_block;
	}
}

/*
 * Make every row visible to the buffer manager, and let the server's code do
 * the rest of the load.  With "thaw", frozen rows become ordinary rows of this
 * transaction, because they are about to be read with a snapshot that may
 * be older.  May be called deeper than the load itself: a failure leaves the load
 * as it was.
 */
void
pt_load_hand_back(FastLoad *load, bool thaw)
{
	BlockNumber target;

	Assert(load->state < LOAD_HANDED_BACK);
	pt_load_close_file_end(load);
	target = load->page != NULL ? load->block : load->next_block - 1;
	close_page(load, true);
	write_batch(load);
	give_back_blocks(load, thaw && load->scanned);

	/* the statement continues, and can no longer remove its pages if it fails */
	if (thaw && load->lazy_file && load->file_length > load->old_length)
		pt_relfile_reserve(RelationGetSmgr(load->rel), load->old_length, load->file_length);

	/* where there is space: pages that were taken are full */
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
 * The statement has failed, and its transaction will be aborted.  The blocks that the load has added
 * would stay in the table as pages of dead rows and empty ones: with a full disk they
 * could not be written, and all later statements would fail at that.  So they go, out
 * of the buffers and off the file, unless an index points into them or they may
 * have been read; then only blocks without rows are cut off, if that is possible,
 * and the others have their disk space.  (They cannot be made empty pages instead: the server
 * takes an index entry without a line pointer in the heap for damage when it deletes
 * entries, and VACUUM would not find it before another row takes its place.)
 *
 * Returns whether the rows are gone.
 */
static bool
remove_pages(FastLoad *load)
{
	SMgrRelation reln;

	if (load->state >= LOAD_HANDED_BACK || load->file_length == 0 ||
		others_have_put_rows(load, load->old_length) || unused_blocks_are_read(load))
		return false;
	close_page(load, true);
	reln = RelationGetSmgr(load->rel);
	if (!load->scanned && !load->rel->rd_rel->relhasindex &&
		pt_localbuf_discard_from(load->rel, load->old_length))
	{
		pt_relfile_cut_quietly(reln, load->file_length, BATCH_PAGES, load->old_length);

		/*
		 * where it has segments open that are empty now, it takes them for
		 * the end
		 */
		RelationCloseSmgr(load->rel);
		return true;
	}
	if (load->batch == NULL && load->file_length > load->next_block)
		pt_relfile_cut_quietly(reln, load->file_length, 0, load->next_block);
	return false;
}

/*
 * The statement has failed.  Rows that stay in the table count as inserted and dead, as those of
 * the server's code do.  No other error may be raised here.
 */
void
pt_load_abandon(FastLoad *load)
{
	pt_load_close_file_end(load);
	if (load->state == LOAD_ENDED || proc_exit_inprogress)
		return;
	if (!remove_pages(load) && load->tuples > 0)
		pgstat_count_heap_insert(load->rel, load->tuples);
}

/*
 * The statement has delivered its last row.
 */
void
pt_load_end(FastLoad *load)
{
	/*
	 * a cursor that was opened during the load stays, and must not see the
	 * rows
	 */
	if (load->state < LOAD_HANDED_BACK)
		pt_load_hand_back(load, load->open_plans != NIL);
	set_state(load, LOAD_ENDED);
	if (load->tuples > 0)
		pgstat_count_heap_insert(load->rel, load->tuples);
}

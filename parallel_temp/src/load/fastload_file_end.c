/*-------------------------------------------------------------------------
 *
 * fastload_file_end.c
 *	  The end of a table's file while parallel workers also append pages to it.
 *
 * The leader opens the end to its workers when pages of its load go to the file, and closes
 * it before any other code reads the table.  The lock holder appends complete pages there,
 * and the leader follows when it has the lock.
 *
 * Invariants: No worker appends once the end is closed, or after a write has failed.  The
 * lock is held no longer than a write takes, and no error leaves it locked.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/lwlock.h"

#include "load/fastload.h"

/*
 * Set the block number in the rows of a page, and freeze them if "frozen".
 */
void
pt_load_set_block(Page page, BlockNumber block, bool frozen)
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
 * The leader has the lock, and learns what workers have appended.
 */
void
pt_load_follow_file_end(FastLoad *load)
{
	FastLoadEnd *end = load->end;
	BlockNumber added = end->length - load->file_length;

	Assert(load->state == LOAD_TO_FILE && end->length >= load->file_length);
	load->file_length = end->length;
	load->next_block = load->file_length + load->batch_pages;
	if (pt_load_page_in_batch(load))
		load->block = load->file_length + (((char *) load->page - load->batch) / BLCKSZ);
	load->file_pages += added;
	load->taken_pages += added;
	load->tuples += end->rows;
	end->rows = 0;
	pgBufferUsage.local_blks_written += added;
	if (end->failed)
		load->batch_failed = true;
}

/*
 * From now on workers may append pages: these are the load's own until then, and when
 * the end is closed.
 */
void
pt_load_open_file_end(FastLoad *load, FastLoadEnd *end)
{
	Assert(pt_load_is_at_file(load) && load->end == NULL);
	LWLockAcquire(&end->lock, LW_EXCLUSIVE);
	end->length = load->file_length;
	end->frozen = load->frozen;
	end->failed = false;
	end->rows = 0;
	pg_atomic_write_u32(&end->open, 1);
	LWLockRelease(&end->lock);
	load->end = end;
}

/*
 * No worker appends from now on; what they have appended is counted.  Raises no error.
 */
void
pt_load_close_file_end(FastLoad *load)
{
	FastLoadEnd *end = load->end;

	if (end == NULL)
		return;
	LWLockAcquire(&end->lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&end->open, 0);
	pt_load_follow_file_end(load);
	LWLockRelease(&end->lock);
	load->end = NULL;
	pt_relfile_forget_length(RelationGetSmgr(load->rel));
}

void
pt_file_end_init(FastLoadEnd *end)
{
	/* what waits there waits for others that append, if to a file */
	LWLockInitialize(&end->lock, LWTRANCHE_PARALLEL_APPEND);
	pg_atomic_init_u32(&end->open, 0);
}

/*
 * A worker wants to append.  False, without the lock, if it must not.
 */
bool
pt_file_end_lock(FastLoadEnd *end)
{
	LWLockAcquire(&end->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&end->open) != 0 && !end->failed)
		return true;
	LWLockRelease(&end->lock);
	return false;
}

void
pt_file_end_unlock(FastLoadEnd *end)
{
	LWLockRelease(&end->lock);
}

/*
 * A write with the lock held has failed.  Release the lock before the error is reported:
 * the leader may be waiting for it, and does not process messages while it waits.
 */
void
pt_file_end_failed(FastLoadEnd *end)
{
	end->failed = true;
	HOLD_INTERRUPTS();			/* as they were before the error */
	LWLockRelease(&end->lock);
}

static pg_noinline void
append_or_fail(FastLoadEnd *end, RelFile *file, RelFileLocator_compat locator, Page *pages, int n)
{
	PG_TRY();
	{
		pt_relfile_append_in_worker(file, locator, end->length, (void **) pages, n);
	}
	PG_CATCH();
	{
		pt_file_end_failed(end);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * A worker that has the lock makes full pages of rows the table's next blocks, as many
 * as fit into one segment file: the number is returned, and that of their rows is set.
 */
int
pt_file_end_append(FastLoadEnd *end, RelFile *file, RelFileLocator_compat locator, Page *pages, int n, uint64 *rows)
{
	n = Min(n, pt_relfile_room_in_segment(end->length));
	*rows = 0;
	for (int i = 0; i < n; i++)
	{
		pt_load_set_block(pages[i], end->length + i, end->frozen);
		if (end->frozen)
			PageSetAllVisible(pages[i]);
		*rows += PageGetMaxOffsetNumber(pages[i]);
	}
	append_or_fail(end, file, locator, pages, n);
	end->length += n;
	end->rows += *rows;
	return n;
}

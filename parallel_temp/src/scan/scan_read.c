/*-------------------------------------------------------------------------
 *
 * scan_read.c
 *	  Get the pages of a temporary table for our own scan.
 *
 * Four places a page can come from:
 *
 *  - the leader, no workers: ReadBuffer, as every scan does;
 *  - the leader, with workers, page pinned for the query: the buffer itself;
 *  - a worker, page in the leader's pool: the pool itself, mapped read-only.  The
 *    kernel maps sixteen of its pages at one fault, which costs a third of
 *    copying them; where mapping fails, a private copy is read from the pool's
 *    descriptor;
 *  - leader or worker, page in no pinned buffer: read from the file, in batches.
 *
 * A batch is a run of adjacent blocks of one segment from one source, so that
 * one system call fetches it, if any.  A page from the file is verified as core does; a
 * page that fails, or whose line pointers make no sense, may have been written
 * while it was read, and is read again before that is an error.
 *
 * Nothing here writes to a page that others may be reading.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat_storage.h"
#include "compat_table.h"
#include "parallel_temp.h"
#include "scan/scan.h"

#define READ_ATTEMPTS	10

static void
temp_scan_use_memory(TempScanState *scan)
{
	if (scan->memory == NULL)
	{
		char	   *memory = MemoryContextAlloc(scan->css.ss.ps.state->es_query_cxt,
												(Size) pt_debug_batch_pages * BLCKSZ + 4096);

		scan->memory = (char *) TYPEALIGN(4096, memory);
		scan->memory_pages = pt_debug_batch_pages;
	}
	scan->batch = scan->memory;
}

static void
temp_scan_read_file(TempScanState *scan, BlockNumber block, int n)
{
	Relation	rel = scan->css.ss.ss_currentRelation;

	temp_scan_use_memory(scan);
	for (int attempt = 1;; attempt++)
	{
		bool		last = attempt >= READ_ATTEMPTS;
		int			bad = -1;
		instr_time	io_start = IoTimeStart_compat();

		smgrreadn_compat(RelationGetSmgr(rel), MAIN_FORKNUM, block, scan->batch, n);
		CountTempRead_compat(io_start, n);
		for (int i = 0; i < n && bad < 0; i++)
		{
			if (!PageIsVerified_compat((Page) (scan->batch + (Size) i * BLCKSZ), block + i, last))
				bad = i;
		}
		if (bad < 0)
			break;
		if (last)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("invalid page in block %u of temporary table \"%s\"",
							block + bad, RelationGetRelationName(rel))));
		CHECK_FOR_INTERRUPTS();
		pg_usleep(100L * attempt);
	}
	scan->batch_start = block;
	scan->batch_end = block + n;
	scan->batch_from_file = true;
	pg_atomic_fetch_add_u64(&scan->rel->file_reads, n);
	pgBufferUsage.local_blks_read += n;
	CountScanned_compat(rel, blocks_fetched, n);
}

static void
temp_scan_read_pool(TempScanState *scan, BlockNumber block, int n)
{
	Relation	rel = scan->css.ss.ss_currentRelation;
	Size		size = (Size) n * BLCKSZ;
	off_t		at = (off_t) scan->pages[block] * BLCKSZ;

	Assert(scan->in_worker && scan->pages[block] >= 0);
	if (scan->pool_map)
	{
		/* The pages are pinned: nothing in them changes except hint bits. */
		scan->batch = scan->pool_map + at;
	}
	else
	{
		ssize_t		got;

		temp_scan_use_memory(scan);
		got = pg_pread(scan->pool_fd, scan->batch, size, at);
		if (got != (ssize_t) size)
		{
			if (got >= 0)
				errno = EIO;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read temporary buffers of the parallel leader: %m")));
		}
	}
	scan->batch_start = block;
	scan->batch_end = block + n;
	scan->batch_from_file = false;
	pg_atomic_fetch_add_u64(&scan->rel->pool_reads, n);
	pgBufferUsage.local_blks_hit += n;
	CountScanned_compat(rel, blocks_fetched, n);
	CountScanned_compat(rel, blocks_hit, n);
}

void
pt_scan_release(TempScanState *scan)
{
	if (BufferIsValid(scan->buffer))
	{
		ReleaseBuffer(scan->buffer);
		scan->buffer = InvalidBuffer;
	}
	scan->page = NULL;
	scan->nvisible = scan->current = 0;
}

Page
pt_scan_read_page(TempScanState *scan, BlockNumber block)
{
	Relation	rel = scan->css.ss.ss_currentRelation;
	BlockNumber limit;
	int			n = 1;

	pt_scan_release(scan);
	if (scan->rel == NULL)
	{
		scan->buffer = ReadBuffer(rel, block);
		/* as the server's scan; it checks whether another process has a pin */
		heap_page_prune_opt_compat(rel, scan->buffer);
		return BufferGetPage(scan->buffer);
	}
	Assert(block < scan->nblocks && scan->pages[block] >= -1);
	if (block >= scan->batch_start && block < scan->batch_end)
		return (Page) (scan->batch + (Size) (block - scan->batch_start) * BLCKSZ);

	if (scan->pages[block] >= 0 && !scan->in_worker)
	{
		Assert(LocalRefCount[scan->pages[block]] > 0);
		Assert(GetLocalBufferDescriptor(scan->pages[block])->tag.blockNum == block);
		pgBufferUsage.local_blks_hit++;
		CountScanned_compat(rel, blocks_fetched, 1);
		CountScanned_compat(rel, blocks_hit, 1);
		return (Page) LocalBufferBlockPointers[scan->pages[block]];
	}

	limit = Min(scan->chunk_end - block, scan->memory ? scan->memory_pages : pt_debug_batch_pages);
	if (scan->pool_fd >= 0 && scan->pages[block] >= 0)
	{
		while (n < limit && scan->pages[block + n] == scan->pages[block] + n)
			n++;
		temp_scan_read_pool(scan, block, n);
	}
	else
	{
		limit = Min(limit, RELSEG_SIZE - block % RELSEG_SIZE);
		/* A worker without the pool reads everything from the file. */
		while (n < limit && (scan->pages[block + n] < 0 || (scan->in_worker && scan->pool_fd < 0)))
			n++;
		temp_scan_read_file(scan, block, n);
	}
	return (Page) scan->batch;
}

Page
pt_scan_read_page_again(TempScanState *scan, BlockNumber block, int attempt)
{
	if (scan->rel == NULL || !scan->batch_from_file || attempt >= READ_ATTEMPTS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid line pointers in block %u of temporary table \"%s\"",
						block, RelationGetRelationName(scan->css.ss.ss_currentRelation))));
	CHECK_FOR_INTERRUPTS();
	pg_usleep(100L * attempt);
	scan->batch_start = scan->batch_end = 0;
	return pt_scan_read_page(scan, block);
}

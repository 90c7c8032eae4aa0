/*-------------------------------------------------------------------------
 *
 * localbuf_flush.c
 *	  Write dirty local buffers to their files, in few and ordered writes.
 *
 * Three phases: collect the dirty buffers of the relations asked for; sort them
 * by file, fork and block; write each run of adjacent blocks with one vectored
 * write.  17 and later have smgrwritev() for that.  Before it the storage manager
 * writes one page a call, so a run is written with pwritev() through a descriptor
 * opened here on the same segment file (relfile.c); a page alone still goes through smgrwrite().
 *
 * A page is marked clean only after the write that held it came back whole.  So
 * whatever ends the flush early (disk full, cancel) leaves every other page dirty,
 * and calling it again writes just those.  Pinned pages are written too, as core
 * does: nothing else runs in this process at that time.
 *
 * Where a parallel query is about to start, a write that fails must not be an
 * ERROR: the leader can still run the query alone, with the pages in its buffers.
 * There every write goes through the separate descriptor, on any version.
 *
 * Temporary files are never synced, so neither are these writes.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "buffers/buffers.h"
#include "compat_storage.h"
#include "parallel_temp.h"

/* Pages in one write, at most: what one pwritev() takes (256 kB or 1 MB). */
#define MAX_RUN		PG_IOV_MAX

/* A dirty buffer and where its page belongs. */
typedef struct DirtyBuffer
{
	RelFileLocator_compat locator;
	ForkNumber	fork;
	BlockNumber block;
	int			buf_id;
} DirtyBuffer;

static inline int
dirty_buffer_compare(const DirtyBuffer *a, const DirtyBuffer *b)
{
	if (RelFileNumber_compat(a->locator) != RelFileNumber_compat(b->locator))
		return RelFileNumber_compat(a->locator) < RelFileNumber_compat(b->locator) ? -1 : 1;
	/* the same number in another tablespace is another file */
	if (!RelFileLocatorEquals_compat(a->locator, b->locator))
		return memcmp(&a->locator, &b->locator, sizeof(a->locator));
	if (a->fork != b->fork)
		return a->fork < b->fork ? -1 : 1;
	if (a->block != b->block)
		return a->block < b->block ? -1 : 1;
	return 0;
}

#define ST_SORT sort_dirty_buffers
#define ST_ELEMENT_TYPE DirtyBuffer
#define ST_COMPARE(a, b) dirty_buffer_compare(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Collect the dirty buffers of these relations (all when nrels is 0), except for those
 * that are kept, see pt_localbuf_try_flush().
 */
static DirtyBuffer *
localbuf_collect_dirty(Relation *rels, int nrels, const int32 *kept, BlockNumber nkept, int *n)
{
	DirtyBuffer *dirty;
	int			ndirty;
	int			last = 0;		/* the relation that matched last */

	pt_localbuf_count(rels, nrels, NULL, &ndirty);
	*n = 0;
	if (ndirty == 0)
		return NULL;
	dirty = (DirtyBuffer *) MemoryContextAllocHuge(CurrentMemoryContext, mul_size(sizeof(DirtyBuffer), ndirty));
	for (int i = 0; i < NLocBuffer && *n < ndirty; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		DirtyBuffer *d = &dirty[*n];

		if ((BufStateRead_compat(desc) & (BM_VALID | BM_DIRTY)) != (BM_VALID | BM_DIRTY))
			continue;
		d->locator = BufTagGetRelFileLocator_compat(&desc->tag);
		if (nrels > 0 && !RelFileLocatorEquals_compat(d->locator, rd_locator_compat(rels[last])))
		{
			for (last = 0; last < nrels; last++)
			{
				if (RelFileLocatorEquals_compat(d->locator, rd_locator_compat(rels[last])))
					break;
			}
			if (last == nrels)
			{
				last = 0;
				continue;
			}
		}
		d->fork = BufTagGetForkNum_compat(&desc->tag);
		d->block = desc->tag.blockNum;
		d->buf_id = i;
		if (d->fork != MAIN_FORKNUM || d->block >= nkept || kept[d->block] != i)
			(*n)++;
	}
	Assert(nkept > 0 || *n == ndirty);
	return dirty;
}

/*
 * Write one run and mark its pages clean.  False, with errno set, when the write
 * fails and elevel is less than ERROR.
 */
static bool
localbuf_write_run(RelFile *file, const DirtyBuffer *run, int n, int elevel)
{
	SMgrRelation reln = smgropen(run->locator, TempFileOwner_compat());
	bool		own_write = n > 1 && !HAVE_SMGRWRITEV_COMPAT;
	void	   *pages[MAX_RUN];
	instr_time	start;

	Assert(n > 0 && n <= MAX_RUN);

	for (int i = 0; i < n; i++)
	{
		LocalBufferWaitIO_compat(GetLocalBufferDescriptor(run[i].buf_id));
		pages[i] = LocalBufferBlockPointers[run[i].buf_id];
		LocalPageBeginAccess_compat(pages[i]);
	}
	for (int i = 0; i < n; i++)
	{
		if (pt_debug_flush_method == LOCALBUF_FLUSH_COALESCED)
			pt_page_set_checksum((Page) pages[i], run[i].block,
								 i + 1 < n ? pages[i + 1] : NULL);
		else
			PageSetChecksumInplace_compat((Page) pages[i], run[i].block);
	}

	if (elevel < ERROR && !DirectIO_compat())
		own_write = true;
	start = IoTimeStart_compat();
	if (own_write)
	{
		if (!pt_relfile_write_run(file, run->locator, run->fork, run->block, pages, n, elevel))
			return false;
	}
	else if (n == 1)
		smgrwrite(reln, run->fork, run->block, pages[0], false);
	else
		smgrwritev_compat(reln, run->fork, run->block, (const void **) pages, n);
	CountTempWrite_compat(start, n);

	for (int i = 0; i < n; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(run[i].buf_id);

		BufStateWrite_compat(desc, BufStateRead_compat(desc) & ~(BM_DIRTY | BM_JUST_DIRTIED_compat | BM_IO_ERROR));
		if (LocalRefCount[run[i].buf_id] == 0)
			LocalPageEndAccess_compat(pages[i]);
	}
	pgBufferUsage.local_blks_written += n;
	return true;
}

static int
localbuf_flush_dirty(Relation *rels, int nrels, const int32 *kept, BlockNumber nkept, int elevel)
{
	int			n;
	DirtyBuffer *dirty = localbuf_collect_dirty(rels, nrels, kept, nkept, &n);
	RelFile		file = RELFILE_NONE;
	int			max_run = MAX_RUN;
	int			length;

	if (dirty == NULL)
		return 0;
	if (pt_debug_flush_method != LOCALBUF_FLUSH_BUFFER_ORDER)
		sort_dirty_buffers(dirty, n);

	/*
	 * Where the storage manager cannot write runs and the server avoids the
	 * kernel's page cache, a second descriptor would have to as well; speed
	 * is not needed with such a developer option.
	 */
	if (pt_debug_flush_method != LOCALBUF_FLUSH_COALESCED ||
		(!HAVE_SMGRWRITEV_COMPAT && DirectIO_compat()))
		max_run = 1;

	for (int i = 0; i < n; i += length)
	{
		const DirtyBuffer *run = &dirty[i];

		CHECK_FOR_INTERRUPTS();
		for (length = 1; length < max_run && i + length < n; length++)
		{
			if (run[length].block != run->block + length ||
				run[length].block % ((BlockNumber) RELSEG_SIZE) == 0 ||
				run[length].fork != run->fork ||
				!RelFileLocatorEquals_compat(run[length].locator, run->locator))
				break;
		}
		if (!localbuf_write_run(&file, run, length, elevel))
		{
			int			saved_errno = errno;

			(void) pt_relfile_close(&file, elevel);
			pfree(dirty);
			errno = saved_errno;
			return -1;
		}
	}
	if (!pt_relfile_close(&file, elevel))
		n = -1;
	pfree(dirty);
	return n;
}

int
pt_localbuf_flush(Relation *rels, int nrels)
{
	return nrels == 0 ? 0 : localbuf_flush_dirty(rels, nrels, NULL, 0, ERROR);
}

int
pt_localbuf_flush_all(void)
{
	return localbuf_flush_dirty(NULL, 0, NULL, 0, ERROR);
}

int
pt_localbuf_try_flush(Relation rel, const int32 *kept, BlockNumber nkept)
{
	return localbuf_flush_dirty(&rel, 1, kept, nkept, DEBUG1);
}

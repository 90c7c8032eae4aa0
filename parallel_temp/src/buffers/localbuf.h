/*-------------------------------------------------------------------------
 *
 * localbuf.h
 *	  What the rest of the extension may ask of the session's local buffers.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LOCALBUF_H
#define LOCALBUF_H

#include "nodes/pg_list.h"
#include "storage/block.h"
#include "utils/relcache.h"

#include "compat_storage.h"

/* How localbuf_flush writes pages: parallel_temp.flush_method. */
typedef enum LocalBufFlushMethod
{
	LOCALBUF_FLUSH_COALESCED,	/* sorted by file and block, neighbours in one
								 * write */
	LOCALBUF_FLUSH_SORTED,		/* sorted, one write a page */
	LOCALBUF_FLUSH_BUFFER_ORDER /* as the buffers lie, one write a page */
} LocalBufFlushMethod;

/* What localbuf_evict did. */
typedef struct LocalBufEvicted
{
	int			evicted;		/* pages removed from the buffers */
	int			pinned;			/* pages left because something uses them */
} LocalBufEvicted;

/*
 * Make sure that the session's local buffer table exists (core makes it at the
 * first use of a temporary relation).  Fixes temp_buffers for the session.
 */
extern void localbuf_ensure(void);

/*
 * Tell that the slots whose memory lies in this range got it before they were
 * used (the shared pool points every slot into one mapping).  Such a slot counts
 * as allocated only once it has held a page.  Call it once, before the first slot
 * is pointed there.
 */
extern void localbuf_reserve(const void *start, Size size);

/*
 * Count local buffers: *allocated gets those with memory, *dirty those whose
 * page is not written yet and belongs to one of the relations (all relations
 * when nrels is 0).  Either may be NULL.
 */
extern void localbuf_count(Relation *rels, int nrels, int *allocated, int *dirty);

/*
 * Was this buffer (0 .. NLocBuffer - 1) allocated when localbuf_count last counted
 * those?
 */
extern bool localbuf_is_allocated(int buf_id);

/*
 * Does this buffer (0 .. NLocBuffer - 1) have that block of a relation's main fork?
 */
extern bool localbuf_holds(int buf_id, RelFileLocator_compat locator, BlockNumber block);

/*
 * Write the dirty local buffers of these relations (every fork), sorted by file
 * and block, neighbours in one vectored write.  Buffers stay resident and become
 * clean.  Returns the number of pages written.  An ERROR leaves the pages that
 * were not written dirty.
 */
extern int	localbuf_flush(Relation *rels, int nrels);

/* The same for every temporary relation of the session. */
extern int	localbuf_flush_all(void);

/* Must this buffer's page be written? */
typedef bool (*LocalBufFilter) (int buf_id, void *context);

/*
 * Write the dirty pages of one relation that the filter lets pass (all of them if
 * it is NULL).  A file that cannot be written is no ERROR here: returns -1 with
 * errno set, and the pages that were not written stay dirty.
 */
extern int	localbuf_try_flush(Relation rel, LocalBufFilter filter, void *context);

/*
 * Write the relation's dirty pages, then take every page of it (all forks) that
 * nothing pins out of the local buffers.  Not during a parallel operation:
 * workers may be reading these buffers.
 */
extern LocalBufEvicted localbuf_evict(Relation rel);

/*
 * Is a page of the relation's main fork at or behind this block in a buffer?
 */
extern bool localbuf_holds_from(Relation rel, BlockNumber block);

/*
 * Take the main fork's pages at and behind this block out of the buffers without
 * writing them.  False, and nothing is done, if one of them is in use.
 */
extern bool localbuf_discard_from(Relation rel, BlockNumber block);

/*
 * Mark every resident page of the relation's main fork dirty.  Returns how many
 * were clean before.
 */
extern int	localbuf_mark_dirty(Relation rel);

/*
 * OIDs of the relation, its TOAST table and the indexes of both: everything that
 * a scan of the relation may read.
 */
extern List *localbuf_family(Relation rel);

#endif							/* LOCALBUF_H */

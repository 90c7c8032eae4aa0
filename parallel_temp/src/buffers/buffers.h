/*-------------------------------------------------------------------------
 *
 * buffers.h
 *	  Local buffers, files, pages and row visibility of the session's temporary relations.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "storage/block.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/smgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "compat_storage.h"

/* How pt_localbuf_flush writes pages: parallel_temp.debug_flush_method. */
typedef enum LocalBufFlushMethod
{
	LOCALBUF_FLUSH_COALESCED,	/* sorted by file and block, adjacent ones in
								 * one write */
	LOCALBUF_FLUSH_SORTED,		/* sorted, one write a page */
	LOCALBUF_FLUSH_BUFFER_ORDER /* as the buffers lie, one write a page */
} LocalBufFlushMethod;

/* What pt_localbuf_evict did. */
typedef struct LocalBufEvicted
{
	int			evicted;		/* pages removed from the buffers */
	int			pinned;			/* pages left because something uses them */
} LocalBufEvicted;

/*
 * Make sure that the session's local buffer table exists (core makes it at the
 * first use of a temporary relation).  Fixes temp_buffers for the session.
 */
extern void pt_localbuf_ensure(void);

/*
 * Record that the slots whose memory is in this range got it before they were
 * used (the shared pool points every slot into one mapping).  Such a slot counts
 * as allocated only once it has held a page.  Call it once, before the first slot
 * is pointed there.
 */
extern void pt_localbuf_reserve(const void *start, Size size);

/*
 * Count local buffers: *allocated gets those with memory, *dirty those whose
 * page is not written yet and belongs to one of the relations (all relations
 * when nrels is 0).  Either may be NULL.
 */
extern void pt_localbuf_count(Relation *rels, int nrels, int *allocated, int *dirty);

/*
 * Was this buffer (0 .. NLocBuffer - 1) allocated when pt_localbuf_count last counted
 * those?
 */
extern bool pt_localbuf_is_allocated(int buf_id);

/*
 * Write the dirty local buffers of these relations (every fork), sorted by file
 * and block, adjacent ones in one vectored write.  Buffers stay resident and become
 * clean.  Returns the number of pages written.  An ERROR leaves the pages that
 * were not written dirty.
 */
extern int	pt_localbuf_flush(Relation *rels, int nrels);

/* The same for every temporary relation of the session. */
extern int	pt_localbuf_flush_all(void);

/*
 * Write the dirty pages of one relation, except for the blocks below "nkept" of its main
 * fork that are in the buffer kept[block] (NULL and 0: all are written).  A file that
 * cannot be written is no ERROR here: returns -1 with errno set, and the pages that were
 * not written stay dirty.
 */
extern int	pt_localbuf_try_flush(Relation rel, const int32 *kept, BlockNumber nkept);

/*
 * Write the relation's dirty pages, then take every page of it (all forks) that
 * nothing pins out of the local buffers.  Not during a parallel operation:
 * workers may be reading these buffers.
 */
extern LocalBufEvicted pt_localbuf_evict(Relation rel);

/*
 * Is a page of the relation's main fork at or behind this block in a buffer?
 */
extern bool pt_localbuf_holds_from(Relation rel, BlockNumber block);

/*
 * Take the main fork's pages at and behind this block out of the buffers without
 * writing them.  False, and nothing is done, if one of them is in use.
 */
extern bool pt_localbuf_discard_from(Relation rel, BlockNumber block);

/* Is a page of one of these relations, of any fork, pinned? */
extern bool pt_localbuf_is_pinned(Relation *rels, int nrels);

/*
 * Mark every resident page of the relation's main fork dirty.  Returns how many
 * were clean before.
 */
extern int	pt_localbuf_mark_dirty(Relation rel);

/*
 * Open everything that a scan of the relation may read: the relation itself, which is the
 * first, its indexes, its TOAST table and the index of that.  Close them.
 */
extern Relation *pt_localbuf_open_relations(Relation rel, int *n);
extern void pt_localbuf_close_relations(Relation *rels, int n, LOCKMODE lockmode);

/* ---- toolkit.c: the SQL functions -------------------------------------------- */

/*
 * ERROR unless this process has the session's local buffers: a parallel worker
 * has none, and would answer 0 to every question.  The functions are marked so
 * that no worker gets them; this is for those who mark them otherwise.
 */
extern void pt_require_leader(void);

/* ERROR during a parallel operation: for functions that change buffers. */
extern void pt_require_no_parallel_operation(void);

/* ---- relfile.c: files of temporary relations --------------------------------- */

/*
 * A segment file that is open for our own writes, or none.  The descriptor is the
 * transaction machinery's to close if an ERROR ends its use.
 */
typedef struct RelFile
{
	RelFileLocator_compat locator;
	ForkNumber	fork;
	BlockNumber segment;
	int			fd;				/* -1: none */
	char	   *path;
} RelFile;

#define RELFILE_NONE ((RelFile) {.fd = -1})

/*
 * Path of a segment of a temporary relation's fork, palloc'd.  "owner" is the
 * number that TempFileOwner_compat() or MyFileOwner_compat() gives.
 */
extern char *pt_relfile_path(RelFileLocator_compat locator, int owner, ForkNumber fork, BlockNumber segment);

/* Bytes of one fork in all its segment files; *exists tells whether there is one. */
extern int64 pt_relfile_fork_size(RelFileLocator_compat locator, ForkNumber fork, bool *exists);

/*
 * Write n adjacent blocks of one segment, through *file, which is
 * opened as needed and stays open for the next run.  A page of zero length at the
 * disk's end counts as a full disk.  False, with errno set, when that fails and
 * elevel is less than ERROR.
 */
extern bool pt_relfile_write_run(RelFile *file, RelFileLocator_compat locator, ForkNumber fork, BlockNumber first,
								 void **pages, int n, int elevel);
extern bool pt_relfile_close(RelFile *file, int elevel);

/* How many blocks from "from" on lie in the same segment file. */
extern BlockNumber pt_relfile_room_in_segment(BlockNumber from);

/*
 * The next ones change the main fork's length, or what it takes, by numbers that the caller has kept
 * since it looked: a function in C that has changed it in the meantime (by inserting
 * rows without a plan) would lose its rows.  Each checks the length first, and that
 * is an ERROR.
 *
 * pt_relfile_extend() and pt_relfile_append() are exported under their names, so that
 * tracers can put probes on them as on the server's mdextend().
 */

/*
 * Extend the main fork from "from" to "to" blocks, which must be in one
 * segment file.  The new blocks read as zeroes.  With "lazy" the file system
 * reserves no space for them.  If there is no space for all of them the file stays
 * as it was, and the result is false; for a single block that is an ERROR.
 */
extern PGDLLEXPORT bool pt_relfile_extend(SMgrRelation reln, BlockNumber from, BlockNumber to, bool lazy);

/*
 * Have the file system reserve space for blocks that a lazy extension has added.  An
 * ERROR if there is none.
 */
extern void pt_relfile_reserve(SMgrRelation reln, BlockNumber from, BlockNumber to);

/*
 * Append n finished pages (checksums are set here) at block "first", where the main
 * fork ends.  After an attempt that failed, up to "extra" blocks may be there already.
 */
extern PGDLLEXPORT void pt_relfile_append(SMgrRelation reln, BlockNumber first, char *pages, int n, BlockNumber extra);

/*
 * The same in a parallel worker, without the storage manager, whose idea of the file is
 * the leader's: n pages at block "first", where the main fork ends, all in one segment
 * file, which is made if they are its first ones.  *file stays open for the next run.
 */
extern PGDLLEXPORT void pt_relfile_append_in_worker(RelFile *file, RelFileLocator_compat locator, BlockNumber first,
													void **pages, int n);

/* Others have changed the main fork's length: the storage manager forgets it. */
extern void pt_relfile_forget_length(SMgrRelation reln);

/* Cut blocks behind "to", all of which lie in the last segment file, from a fork that has "from" of them. */
extern void pt_relfile_cut(SMgrRelation reln, BlockNumber from, BlockNumber to);

/*
 * Cut blocks from "to" to "from", and up to "extra" blocks behind these, in
 * any number of segments, while an error is being handled: what cannot be cut stays.
 */
extern void pt_relfile_cut_quietly(SMgrRelation reln, BlockNumber from, BlockNumber extra, BlockNumber to);

/*
 * Truncate all forks of a temporary relation of this session to no length.  The caller
 * closes its files, and drops its buffers.
 */
extern void pt_relfile_empty(RelFileLocator_compat locator);

/*
 * The blocks of a temporary table of this session, for an estimate.  No other session extends
 * or truncates it, so what the storage manager remembers is right, where it remembers;
 * that spares a system call.
 */
static inline BlockNumber
pt_relfile_known_blocks(Relation rel)
{
	BlockNumber known = RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM];

	return known != InvalidBlockNumber ? known : RelationGetNumberOfBlocks(rel);
}

/* ---- page_checksum.c: page checksums, as fast as this CPU can ---------------- */

/*
 * The value that pg_checksum_page() of the server returns.  The page must not be
 * new; its checksum field is zeroed for the time of the call, so no other code
 * may write the page.
 */
extern uint16 pt_page_checksum(Page page, BlockNumber block);

/*
 * What PageSetChecksumInplace() does, with pt_page_checksum().  "next" is the page that
 * the caller will ask for next, which is prefetched into the cache, or NULL.
 */
extern void pt_page_set_checksum(Page page, BlockNumber block, const void *next);

/* ---- visibility.c: which rows of a page a snapshot sees ---------------------- */

/* The state of a transaction for a snapshot. */
typedef enum XidFate
{
	XID_UNSEEN,					/* in progress for the snapshot */
	XID_ABORTED,				/* aborted, or ended with a crash */
	XID_COMMITTED,				/* committed before the snapshot */
	XID_CURRENT					/* this transaction, or a subtransaction of it */
} XidFate;

typedef struct XidMemo
{
	TransactionId xid;
	XidFate		fate;
} XidMemo;

/* The last transaction asked about; good for one snapshot. */
typedef struct VisibilityMemo
{
	XidMemo		xmin;
	XidMemo		xmax;
} VisibilityMemo;

/*
 * The state of rows without hint bits as the test found it, for the next reader of
 * the page.  Bits, of which one page can have several.
 */
typedef enum PageNote
{
	PAGE_HINTED = 0,			/* nothing that is not written there */
	PAGE_COMMITTED = 0x01,		/* rows lack the hint that their insertion has
								 * committed: that of all that have none has */
	PAGE_SETTLED = 0x02,		/* some rows lack a hint of any other kind, or
								 * others cannot have one yet */
	PAGE_DEAD_ROWS = 0x04		/* there may be dead rows to prune; not set
								 * here */
} PageNote;

/*
 * Put the line numbers of the tuples on a heap page that the snapshot sees into
 * visible[] (MaxHeapTuplesPerPage of them) and return how many there are; -1 if
 * the page's line pointers make no sense.  *note gets a PageNote.
 */
extern int	pt_visible_tuples(VisibilityMemo *memo, Page page, Snapshot snapshot, OffsetNumber *visible, uint8 *note);

/* Does the snapshot see this tuple?  "memo" is good for one snapshot. */
extern bool pt_visible_tuple(VisibilityMemo *memo, HeapTupleHeader tuple, Snapshot snapshot);

#endif							/* BUFFERS_H */

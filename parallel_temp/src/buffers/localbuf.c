/*-------------------------------------------------------------------------
 *
 * localbuf.c
 *	  The session's local buffers as data: count them, find a relation's, change
 *	  their state.
 *
 * Core keeps the pages of temporary relations in memory of the session alone: an
 * array of NLocBuffer descriptors, an array of pointers to the pages (NULL until
 * a slot is first used) and an array of pin counts, all exported; only the hash
 * table from tag to buffer is private to core's localbuf.c.  So everything here
 * walks the descriptors, and a page leaves the hash table through core's own
 * function alone (see pt_localbuf_evict).
 *
 * Called by the SQL functions (toolkit*.c), the planner's estimate and the flush
 * before a parallel scan.  Nothing here calls up.  No lock is needed: no other
 * process sees these buffers, and nothing here runs in a signal handler.  What
 * holds on return: pin counts are as they were, and a buffer that is dirty holds
 * a page that its file does not.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "buffers/buffers.h"
#include "compat_storage.h"

/* The range given to pt_localbuf_reserve, and one past the last slot seen in use. */
static const char *reserved_start = NULL;
static Size reserved_size = 0;
static int	used_slots = 0;

/*
 * Make sure that the local buffer table exists.
 *
 * InitLocalBuffers() is static, and a prefetch is the only call that reaches it
 * without touching a temporary relation: the kernel is told that a block of
 * pg_class will be wanted, and that is all.
 */
void
pt_localbuf_ensure(void)
{
	Relation	rel;

	if (NLocBuffer > 0)
		return;
	rel = table_open(RelationRelationId, AccessShareLock);
	(void) PrefetchLocalBuffer(RelationGetSmgr(rel), MAIN_FORKNUM, 0);
	table_close(rel, AccessShareLock);
}

static inline bool
slot_is_reserved(int i)
{
	const char *page = (const char *) LocalBufferBlockPointers[i];

	return reserved_size > 0 && page >= reserved_start && page < reserved_start + reserved_size;
}

/*
 * Raise used_slots to the number of buffers in use now.  Core hands out unused slots in
 * the order of their numbers (a clock sweep that finds no pin and no usage count
 * on them), so one number tells which slots have ever held a page.
 */
static void
note_used_slots(void)
{
	for (int i = NLocBuffer - 1; i >= used_slots; i--)
	{
		if (BufStateRead_compat(GetLocalBufferDescriptor(i)) & BM_TAG_VALID ||
			(LocalBufferBlockPointers[i] != NULL && !slot_is_reserved(i)))
		{
			used_slots = i + 1;
			break;
		}
	}
}

void
pt_localbuf_reserve(const void *start, Size size)
{
	note_used_slots();
	reserved_start = start;
	reserved_size = size;
}

bool
pt_localbuf_is_allocated(int buf_id)
{
	Assert(buf_id >= 0 && buf_id < NLocBuffer);

	if (LocalBufferBlockPointers[buf_id] == NULL)
		return false;
	return buf_id < used_slots || !slot_is_reserved(buf_id);
}

static inline bool
tag_is_of(const BufferTag *tag, Relation *rels, int nrels)
{
	RelFileLocator_compat locator = BufTagGetRelFileLocator_compat(tag);

	for (int r = 0; r < nrels; r++)
	{
		if (RelFileLocatorEquals_compat(locator, rd_locator_compat(rels[r])))
			return true;
	}
	return false;
}

/*
 * Does the buffer have a block of the relation's main fork, this one or a later one?
 */
static inline bool
holds_from(BufferDesc *desc, Relation rel, BlockNumber block)
{
	return (BufStateRead_compat(desc) & BM_TAG_VALID) && desc->tag.blockNum >= block &&
		BufTagGetForkNum_compat(&desc->tag) == MAIN_FORKNUM && tag_is_of(&desc->tag, &rel, 1);
}

void
pt_localbuf_count(Relation *rels, int nrels, int *allocated, int *dirty)
{
	int			nallocated = 0;
	int			ndirty = 0;

	if (allocated)
		note_used_slots();
	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		BufState_compat state = BufStateRead_compat(desc);

		if (allocated && pt_localbuf_is_allocated(i))
			nallocated++;
		if ((state & (BM_VALID | BM_DIRTY)) == (BM_VALID | BM_DIRTY) &&
			(nrels == 0 || tag_is_of(&desc->tag, rels, nrels)))
			ndirty++;
	}
	if (allocated)
		*allocated = nallocated;
	if (dirty)
		*dirty = ndirty;
}

bool
pt_localbuf_holds_from(Relation rel, BlockNumber block)
{
	for (int i = 0; i < NLocBuffer; i++)
	{
		if (holds_from(GetLocalBufferDescriptor(i), rel, block))
			return true;
	}
	return false;
}

bool
pt_localbuf_discard_from(Relation rel, BlockNumber block)
{
	bool		found = false;

	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);

		if (!holds_from(desc, rel, block))
			continue;
		if (LocalRefCount[i] != 0)
			return false;
		LocalBufferWaitIO_compat(desc);
		found = true;
	}
	if (found)
		DropForkLocalBuffers_compat(rd_locator_compat(rel), MAIN_FORKNUM, block);
	return true;
}

int
pt_localbuf_mark_dirty(Relation rel)
{
	int			marked = 0;

	Assert(RelationUsesLocalBuffers(rel));

	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		BufState_compat state = BufStateRead_compat(desc);

		CHECK_FOR_INTERRUPTS();

		if ((state & (BM_VALID | BM_DIRTY)) != BM_VALID ||
			BufTagGetForkNum_compat(&desc->tag) != MAIN_FORKNUM ||
			!tag_is_of(&desc->tag, &rel, 1))
			continue;
		BufStateWrite_compat(desc, state | BM_DIRTY);
		/* what MarkLocalBufferDirty() counts, for EXPLAIN (BUFFERS) */
		pgBufferUsage.local_blks_dirtied++;
		marked++;
	}
	return marked;
}

bool
pt_localbuf_is_pinned(Relation *rels, int nrels)
{
	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);

		if ((BufStateRead_compat(desc) & BM_TAG_VALID) && LocalRefCount[i] != 0 && tag_is_of(&desc->tag, rels, nrels))
			return true;
	}
	return false;
}

/*
 * Take the relation's unpinned pages out of the buffers.
 *
 * Core drops a relation's buffers all or nothing: it stops with an ERROR half way
 * at the first pinned page.  So pinned pages are hidden from it, by clearing the
 * flag that says that their tag is valid, and shown again afterwards.
 */
LocalBufEvicted
pt_localbuf_evict(Relation rel)
{
	LocalBufEvicted result = {0, 0};
	int		   *hidden;
	volatile int nhidden = 0;

	Assert(RelationUsesLocalBuffers(rel));
	Assert(!IsInParallelMode());

	/* Dropping discards dirty pages, so an ERROR here must end it. */
	(void) pt_localbuf_flush(&rel, 1);

	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);

		if (!(BufStateRead_compat(desc) & BM_TAG_VALID) ||
			!tag_is_of(&desc->tag, &rel, 1))
			continue;
		if (LocalRefCount[i] != 0)
			result.pinned++;
		else
		{
			LocalBufferWaitIO_compat(desc);
			result.evicted++;
		}
	}
	if (result.evicted == 0)
		return result;

	hidden = (int *) palloc_extended(mul_size(sizeof(int), Max(result.pinned, 1)), MCXT_ALLOC_HUGE);
	for (int i = 0; i < NLocBuffer && nhidden < result.pinned; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		BufState_compat state = BufStateRead_compat(desc);

		if ((state & BM_TAG_VALID) && LocalRefCount[i] != 0 && tag_is_of(&desc->tag, &rel, 1))
		{
			BufStateWrite_compat(desc, state & ~BM_TAG_VALID);
			hidden[nhidden++] = i;
		}
	}

	/*
	 * Core can only fail here if its hash table is broken; show them even
	 * then.
	 */
	PG_TRY();
	{
		for (ForkNumber fork = MAIN_FORKNUM; fork <= MAX_FORKNUM; fork++)
			DropForkLocalBuffers_compat(rd_locator_compat(rel), fork, 0);
	}
	PG_FINALLY();
	{
		for (int i = 0; i < nhidden; i++)
		{
			BufferDesc *desc = GetLocalBufferDescriptor(hidden[i]);

			BufStateWrite_compat(desc, BufStateRead_compat(desc) | BM_TAG_VALID);
		}
	}
	PG_END_TRY();

	pfree(hidden);
	return result;
}

Relation *
pt_localbuf_open_relations(Relation rel, int *n)
{
	List	   *oids = list_make1_oid(RelationGetRelid(rel));
	Oid			toast = rel->rd_rel->reltoastrelid;
	Relation   *rels;
	ListCell   *lc;

	if (rel->rd_rel->relhasindex)
		oids = list_concat(oids, RelationGetIndexList(rel));
	if (OidIsValid(toast))
	{
		Relation	toastrel = table_open(toast, AccessShareLock);

		oids = list_concat(lappend_oid(oids, toast), RelationGetIndexList(toastrel));
		table_close(toastrel, AccessShareLock);
	}
	*n = 0;
	rels = palloc(sizeof(Relation) * list_length(oids));
	foreach(lc, oids)
		rels[(*n)++] = relation_open(lfirst_oid(lc), AccessShareLock);
	list_free(oids);
	return rels;
}

void
pt_localbuf_close_relations(Relation *rels, int n, LOCKMODE lockmode)
{
	while (n-- > 0)
		relation_close(rels[n], lockmode);
	pfree(rels);
}

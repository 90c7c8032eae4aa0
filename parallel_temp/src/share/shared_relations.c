/*-------------------------------------------------------------------------
 *
 * shared_relations.c
 *	  Make temporary relations readable for the workers of one query.
 *
 * Called by the executor hook (scan_run.c) before a parallel plan runs, and after
 * it.  In between these hold:
 *
 *  - every dirty page of these relations is in a buffer that is pinned and lies
 *    in the pool, or its file is current: written before the workers start;
 *  - a pinned page is not evicted, and not pruned either (pruning wants to be the
 *    only one with a pin), so what a worker reads of it changes in hint bits only;
 *  - a page that is not pinned is read from the file.  Only stock code in the
 *    leader could prune it, evict it and so write to the file while a worker
 *    reads there.  So unless all pages of a relation are pinned, the leader runs
 *    no stock code on it: a plan with such a node outside the workers' part (or
 *    with a function of unknown doings) runs in the leader alone, and when only
 *    the workers' part has one, the leader leaves that part to the workers.  It
 *    cannot if no worker is available, so the plan must have one such part only,
 *    or the workers of another would be reading.
 *
 * Pins belong to separate resource owners below the current one: an ERROR
 * releases them after the workers have ended, as transaction abort stops workers
 * first.  A quarter of temp_buffers, at most 64 MB, is never pinned: the leader goes
 * on working with it (more where its scans need more, see pt_share_unpinned_buffers()).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"
#include "storage/dsm_impl.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "buffers/buffers.h"
#include "compat_storage.h"
#include "parallel_temp.h"
#include "share/share.h"

/*
 * Buffers that the leader needs at the least for its own work.
 */
#define LEAST_UNPINNED		32

/*
 * Pages of one relation that are read in, at most, so that the leader can take part
 * in index scans: building an index leaves its pages in the file.
 */
#define READ_IN_PAGES		16384

/* A worker of this session opened the pool. */
static bool pool_proven = false;

/* Facts about a relation, collected before the area is created. */
typedef struct WantedRel
{
	Relation	rel;
	TempUse    *use;
	bool		toast;			/* the TOAST table or its index */
	bool		stock;
	BlockNumber nblocks;
	bool		must_flush;		/* a dirty page is not in the pool, or not
								 * pinned */
} WantedRel;

static WantedRel *
share_want_relation(List **wanted, Relation rel, TempUse *use, bool toast, bool stock)
{
	WantedRel  *result = palloc0(sizeof(WantedRel));

	result->rel = rel;
	result->use = use;
	result->toast = toast;
	result->stock = stock;
	result->nblocks = RelationGetNumberOfBlocks(rel);
	*wanted = lappend(*wanted, result);
	return result;
}

static List *
share_wanted_relations(TempPlan *plan)
{
	List	   *wanted = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, plan->uses)
	{
		TempUse    *use = lfirst(lc);
		Relation	heap;

		if (!use->own_below && !use->stock_below)
			continue;
		heap = table_open(use->relid, AccessShareLock);
		share_want_relation(&wanted, heap, use, false, use->stock_below);
		foreach(lc2, use->indexes)
			share_want_relation(&wanted, index_open(lfirst_oid(lc2), AccessShareLock), use, false, true);
		if (use->toast_below && OidIsValid(heap->rd_rel->reltoastrelid))
		{
			Relation	toast = table_open(heap->rd_rel->reltoastrelid, AccessShareLock);

			if (RelationGetNumberOfBlocks(toast) == 0)
				table_close(toast, NoLock);
			else
			{
				share_want_relation(&wanted, toast, use, true, true);
				foreach(lc2, RelationGetIndexList(toast))
					share_want_relation(&wanted, index_open(lfirst_oid(lc2), AccessShareLock), use, true, true);
			}
		}
	}
	return wanted;
}

static void
share_close_wanted(List *wanted)
{
	ListCell   *lc;

	foreach(lc, wanted)
		RelationClose(((WantedRel *) lfirst(lc))->rel);
}

static int
share_compare_wanted(const ListCell *a, const ListCell *b)
{
	RelFileLocator_compat x = rd_locator_compat(((WantedRel *) lfirst(a))->rel);
	RelFileLocator_compat y = rd_locator_compat(((WantedRel *) lfirst(b))->rel);

	return memcmp(&x, &y, sizeof(x));
}

/*
 * Does the system have space for a segment of dynamic shared memory?  One is created and
 * removed, by the function for which a failure need not be an ERROR.
 */
static bool
share_segment_has_room(Size size)
{
	void	   *impl_private = NULL;
	void	   *address = NULL;
	Size		mapped = 0;
	dsm_handle	handle = pg_prng_uint32(&pg_global_prng_state) << 1;

	/* a number that is in use is treated as no space; this is rare */
	return dsm_impl_op(DSM_OP_CREATE, handle, size, &impl_private, &address, &mapped, DEBUG1) &&
		dsm_impl_op(DSM_OP_DESTROY, handle, 0, &impl_private, &address, &mapped, WARNING);
}

/*
 * Make a segment of dynamic shared memory.  NULL with *reason set if the system has no
 * space for it.  (If another process uses the space in between, that is an ERROR, as it is
 * for the server's segments.)
 */
static dsm_segment *
share_create_segment(Size size, const char **reason)
{
	dsm_segment *segment = NULL;

	if (!share_segment_has_room(size))
		*reason = "what workers need to know does not fit into shared memory";
	else
	{
		segment = dsm_create(size, DSM_CREATE_NULL_IF_MAXSEGMENTS);
		if (segment == NULL)
			*reason = "there are too many dynamic shared memory segments";
	}
	return segment;
}

static dsm_segment *
share_create_area(List *wanted, const char **reason)
{
	Size		size = offsetof(SharedArea, rels) + sizeof(SharedRel) * list_length(wanted);
	dsm_segment *segment;
	SharedArea *area;
	ListCell   *lc;

	foreach(lc, wanted)
		size = add_size(size, mul_size(((WantedRel *) lfirst(lc))->nblocks, sizeof(int32) + sizeof(uint8)));
	segment = share_create_segment(size, reason);
	if (segment == NULL)
		return NULL;

	area = dsm_segment_address(segment);
	memset(area, 0, offsetof(SharedArea, rels));
	area->magic = SHARED_AREA_MAGIC;
	area->build = SHARED_BUILD(SharedArea) + pt_debug_build;
	area->leader_pid = MyProcPid;
	area->nbuffers = NLocBuffer;
	pt_pool_describe(area);
	area->nrels = list_length(wanted);
	pg_atomic_init_u32(&area->attached, 0);
	pg_atomic_init_u32(&area->refused, 0);

	size = offsetof(SharedArea, rels) + sizeof(SharedRel) * list_length(wanted);
	foreach(lc, wanted)
	{
		WantedRel  *want = lfirst(lc);
		SharedRel  *rel = &area->rels[foreach_current_index(lc)];

		memset(rel, 0, sizeof(*rel));
		rel->relid = RelationGetRelid(want->rel);
		rel->parent = want->use->relid;
		rel->locator = rd_locator_compat(want->rel);
		rel->nblocks = want->nblocks;
		rel->stock = want->stock;
		rel->pages = size;
		pg_atomic_init_u32(&rel->noted, 0);
		pg_atomic_init_u64(&rel->pool_reads, 0);
		pg_atomic_init_u64(&rel->file_reads, 0);
		pg_atomic_init_u64(&rel->prefetches, 0);
		memset(pt_shared_relation_pages(area, rel), 0xff, sizeof(int32) * want->nblocks);
		size += sizeof(int32) * want->nblocks;
		if (want->stock)
			area->stock = true;
	}
	for (int i = 0; i < area->nrels; i++)
	{
		SharedRel  *rel = &area->rels[i];

		rel->notes = size;
		memset(pt_shared_relation_notes(area, rel), 0, rel->nblocks);
		size += rel->nblocks;
	}
	Assert(size <= dsm_segment_map_length(segment));
	return segment;
}

/*
 * Make a resource owner with space for one more pin the current one.
 */
static void
share_use_pin_owner(PtShare *share)
{
	if (share->npins++ % PINS_AN_OWNER == 0)
		share->pin_owner = ResourceOwnerCreate(share->pins, "parallel_temp pins");
	CurrentResourceOwner = share->pin_owner;
}

/*
 * Read in and pin what is missing of relations that stock code reads, if it is not
 * too much.
 */
static void
share_read_in_pages(PtShare *share, List *wanted, int budget)
{
	ResourceOwner saved_owner = CurrentResourceOwner;
	ListCell   *lc;

	foreach(lc, wanted)
	{
		WantedRel  *want = lfirst(lc);
		SharedRel  *rel = &share->area->rels[foreach_current_index(lc)];
		int32	   *pages = pt_shared_relation_pages(share->area, rel);
		int64		missing = (int64) rel->nblocks - rel->resident;

		if (!want->stock || missing == 0 || missing > Min(budget, READ_IN_PAGES))
			continue;
		for (BlockNumber block = 0; block < rel->nblocks; block++)
		{
			Buffer		buffer;

			if (pages[block] >= 0)
				continue;
			CHECK_FOR_INTERRUPTS();
			share_use_pin_owner(share);
			buffer = ReadBuffer(want->rel, block);
			budget--;
			if (!share->area->use_pool || pt_pool_has_buffer(-buffer - 1))
			{
				pages[block] = -buffer - 1;
				rel->resident++;
			}
		}
		CurrentResourceOwner = saved_owner;
	}
}

/*
 * Each scan of the leader outside the workers' part may be a stream that pins as many
 * buffers as it wants, and another one must still find some.
 */
int
pt_share_unpinned_buffers(TempPlan *plan)
{
	int			quarter = Min(NLocBuffer / 4, 64 * 1024 * 1024 / BLCKSZ);
	int64		streams = 2;
	ListCell   *lc;

	foreach(lc, plan->uses)
		streams += ((TempUse *) lfirst(lc))->stock_above;
	streams = Min(streams * ReadStreamPins_compat() + LEAST_UNPINNED, NLocBuffer - NLocBuffer / 4);
	return Max(Max(quarter, (int) streams), LEAST_UNPINNED);
}

/*
 * Pin resident pages of the wanted relations (they are in the order of their
 * locators), as far as buffers may be pinned, and record where they are.
 * Returns how many more may be pinned.
 */
static int
share_pin_pages(PtShare *share, List *wanted, TempPlan *plan)
{
	SharedArea *area = share->area;
	int			budget;
	int			last = 0;
	int64		saved_hits = pgBufferUsage.local_blks_hit;
	ResourceOwner saved_owner = CurrentResourceOwner;

	/*
	 * temp_buffers can be less than NLocBuffer again when it was set in a
	 * transaction that has ended; core computes with both.
	 */
	budget = Min(NLocBuffer, num_temp_buffers) - pt_share_unpinned_buffers(plan);
	for (int i = 0; i < NLocBuffer; i++)
		budget -= LocalRefCount[i] != 0;

	share->pins = ResourceOwnerCreate(CurrentResourceOwner, "parallel_temp");
	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		BufState_compat state = BufStateRead_compat(desc);
		RelFileLocator_compat locator;
		SharedRel  *rel;
		BlockNumber block;

		if ((state & (BM_TAG_VALID | BM_VALID)) != (BM_TAG_VALID | BM_VALID))
			continue;
		locator = BufTagGetRelFileLocator_compat(&desc->tag);
		if (!RelFileLocatorEquals_compat(area->rels[last].locator, locator))
		{
			int			low = 0;
			int			high = area->nrels - 1;
			int			found = -1;

			while (low <= high && found < 0)
			{
				int			middle = (low + high) / 2;
				int			order = memcmp(&locator, &area->rels[middle].locator, sizeof(locator));

				if (order == 0)
					found = middle;
				else if (order < 0)
					high = middle - 1;
				else
					low = middle + 1;
			}
			if (found < 0)
				continue;
			last = found;
		}
		rel = &area->rels[last];

		/*
		 * Index-only scans in workers read the visibility map: it is read
		 * from its file.
		 */
		if (BufTagGetForkNum_compat(&desc->tag) == VISIBILITYMAP_FORKNUM && rel->stock && (state & BM_DIRTY))
			((WantedRel *) list_nth(wanted, last))->must_flush = true;
		block = desc->tag.blockNum;
		if (BufTagGetForkNum_compat(&desc->tag) != MAIN_FORKNUM || block >= rel->nblocks)
			continue;

		if ((area->use_pool && !pt_pool_has_buffer(i)) || (LocalRefCount[i] == 0 && budget <= 0))
		{
			if (state & BM_DIRTY)
				((WantedRel *) list_nth(wanted, last))->must_flush = true;
			continue;
		}
		if (LocalRefCount[i] == 0)
			budget--;
		share_use_pin_owner(share);
		if (!ReadRecentBuffer(locator, MAIN_FORKNUM, block, -i - 1))
			elog(ERROR, "could not pin temporary buffer %d", i);
		Assert(LocalRefCount[i] > 0 && pt_shared_relation_pages(area, rel)[block] < 0);
		pt_shared_relation_pages(area, rel)[block] = i;
		rel->resident++;
	}
	CurrentResourceOwner = saved_owner;

	/* These pins are no reads of the query's. */
	pgBufferUsage.local_blks_hit = saved_hits;
	return budget;
}

/*
 * Bring the files up to date, wholly ("all") or for pages that are not pinned.  A
 * reason is returned when they cannot be written.
 */
static const char *
share_flush_pages(PtShare *share, List *wanted, bool all)
{
	ListCell   *lc;

	foreach(lc, wanted)
	{
		WantedRel  *want = lfirst(lc);
		SharedRel  *rel = &share->area->rels[foreach_current_index(lc)];
		int			written;

		if (!all && !want->must_flush)
			continue;
		written = pt_localbuf_try_flush(want->rel, pt_shared_relation_pages(share->area, rel), all ? 0 : rel->nblocks);
		if (written < 0)
			return psprintf("pages of \"%s\" could not be written: %m", RelationGetRelationName(want->rel));
		rel->flushed = written;
	}
	return NULL;
}

/*
 * Is there a page-reading race that only the leader's staying out, or running
 * alone, can prevent?  See the top of this file.
 */
static const char *
share_check_leader(PtShare *share, List *wanted, TempPlan *plan)
{
	ListCell   *lc;

	foreach(lc, wanted)
	{
		WantedRel  *want = lfirst(lc);
		SharedRel  *rel = &share->area->rels[foreach_current_index(lc)];

		if (want->stock && !StockReadsLeaveFiles_compat)
			return "this version of PostgreSQL changes visibility maps while it reads a table";
		if (rel->resident == rel->nblocks)
			continue;
		if (plan->unknown_function)
			return "temp_buffers cannot hold the table, and a function that is not parallel safe runs in the leader";
		if (want->use->stock_above && !(want->toast && !want->use->toast_below))
			return "temp_buffers cannot hold the table, and the leader reads it in another part of the plan";
		if (want->toast && plan->gathers_varlena)
			return "temp_buffers cannot hold the TOAST table, and the leader may also read it";
		if (want->stock && plan->gathers > 1)
			return "temp_buffers cannot hold the table, and the plan has several parallel parts";
		if (want->stock)
			share->leader_stays_out = true;
	}
	return NULL;
}

PtShare *
pt_share_begin(QueryDesc *queryDesc, TempPlan *plan, const char **reason)
{
	PtShare    *share;
	List	   *wanted;
	instr_time	start;
	bool		pool;

	INSTR_TIME_SET_CURRENT(start);
	pt_localbuf_ensure();
	pool = pt_pool_ensure();

	share = MemoryContextAllocZero(queryDesc->estate->es_query_cxt, sizeof(PtShare));
	wanted = share_wanted_relations(plan);
	list_sort(wanted, share_compare_wanted);
	share->segment = share_create_area(wanted, reason);
	if (share->segment == NULL)
	{
		share_close_wanted(wanted);
		return NULL;
	}
	share->area = dsm_segment_address(share->segment);
	share->area->use_pool = pool;

	share_read_in_pages(share, wanted, share_pin_pages(share, wanted, plan));
	*reason = share_check_leader(share, wanted, plan);
	if (*reason == NULL)
	{
		/*
		 * A worker that cannot open the pool leaves the work to the others,
		 * the leader at least.  Where the leader takes no part the files must
		 * do for such a worker, unless one has opened the pool before.
		 */
		share->area->may_skip = parallel_leader_participation && !share->leader_stays_out &&
			!plan->single_copy;
		share->area->files_current = !pool || (!share->area->may_skip && !pool_proven);
		*reason = share_flush_pages(share, wanted, share->area->files_current);
	}
	for (int i = 0; i < share->area->nrels; i++)
		Assert(share->area->rels[i].resident <= share->area->rels[i].nblocks);
	if (*reason == NULL)
	{
		INSTR_TIME_SET_CURRENT(share->time);
		INSTR_TIME_SUBTRACT(share->time, start);
		pt_count_share(share->area, INSTR_TIME_GET_MILLISEC(share->time));
	}
	share_close_wanted(wanted);
	if (*reason != NULL)
	{
		pt_share_end(share);
		return NULL;
	}
	return share;
}

void
pt_share_release_pins(ResourceOwner pins)
{
	ResourceOwnerRelease(pins, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	ResourceOwnerRelease(pins, RESOURCE_RELEASE_LOCKS, false, false);
	ResourceOwnerRelease(pins, RESOURCE_RELEASE_AFTER_LOCKS, false, false);
	ResourceOwnerDelete(pins);
}

void
pt_share_end(PtShare *share)
{
	if (pg_atomic_read_u32(&share->area->attached) > 0)
		pool_proven = true;
	if (pg_atomic_read_u32(&share->area->refused) > 0)
	{
		pt_pool_disable();
		pt_counters.pool_unreachable++;
	}
	pt_share_release_pins(share->pins);
	dsm_detach(share->segment);
}

SharedRel *
pt_shared_relation_find(SharedArea *area, Oid relid)
{
	for (int i = 0; i < area->nrels; i++)
	{
		if (area->rels[i].relid == relid)
			return &area->rels[i];
	}
	return NULL;
}

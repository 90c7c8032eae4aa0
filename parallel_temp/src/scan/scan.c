/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  The custom scan "Temp Scan": a sequential scan of a temporary table that
 *	  parallel workers can run.
 *
 * A partial scan divides the table: each process takes the next chunk of blocks
 * from a counter in shared memory.  A complete scan reads all of it in every
 * process that runs it (the inner side of a join, for instance) and needs no
 * separate shared memory, so it is not parallel-aware; the facts about the table that
 * workers need are in the area that the leader shared before the query started
 * (scan_run.c), found at the first call.
 *
 * The leader may run the node with or without such an area: without, it reads
 * through its local buffers like any other scan.
 *
 * Tuples are returned in a heap-tuple slot that points into the page at hand and
 * are good until the next call, as from any scan.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relscan.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "compat_executor.h"
#include "compat_storage.h"
#include "compat_table.h"
#include "parallel_temp.h"
#include "scan/scan.h"
#include "share/share.h"

/* Blocks that a process of a partial scan takes at once. */
#define MAX_CHUNK	64

/* How many rows ahead of its turn a row is fetched into the CPU's cache. */
#define ROWS_AHEAD	8

static Node *temp_scan_create_state(CustomScan *plan);

static const CustomScanMethods scan_methods = {
	.CustomName = "Temp Scan",
	.CreateCustomScanState = temp_scan_create_state,
};

const CustomScanMethods *
pt_scan_methods(void)
{
	return &scan_methods;
}

bool
pt_is_temp_scan(Plan *plan)
{
	return IsA(plan, CustomScan) && ((CustomScan *) plan)->methods == &scan_methods;
}

List *
pt_scan_private(const TempScanPrivate *members)
{
	return list_make3(makeInteger(members->partial),
					  makeInteger(members->unknown_function),
					  makeInteger(members->flush));
}

static void
temp_scan_read_private(CustomScan *plan, TempScanPrivate *members)
{
	members->partial = intVal(linitial(plan->custom_private)) != 0;
	members->unknown_function = intVal(lsecond(plan->custom_private)) != 0;
	members->flush = intVal(lthird(plan->custom_private)) != 0;
}

bool
pt_scan_has_unknown_function(CustomScan *plan)
{
	TempScanPrivate members;

	temp_scan_read_private(plan, &members);
	return members.unknown_function;
}

static void
temp_scan_rewind(TempScanState *scan)
{
	pt_scan_release(scan);
	scan->next = 0;
	scan->chunk_end = scan->plan.partial && scan->shared ? 0 : scan->nblocks;
	scan->batch_start = scan->batch_end = 0;
	scan->finished = false;
}

/*
 * First call: find out where the pages are.
 */
static void
temp_scan_start(TempScanState *scan)
{
	Relation	rel = scan->css.ss.ss_currentRelation;
	Snapshot	snapshot = scan->css.ss.ps.state->es_snapshot;
	SharedArea *area = NULL;

	if (snapshot->snapshot_type != SNAPSHOT_MVCC)
		elog(ERROR, "temp scan needs an MVCC snapshot");

	scan->in_worker = IsParallelWorker();
	scan->pool_fd = -1;
	scan->pool_map = NULL;
	if (scan->in_worker)
	{
		area = pt_worker.area;
		scan->pool_fd = pt_worker.pool_fd;
		if (scan->pool_fd >= 0 && pt_debug_pool_read != POOL_READ_COPY)
			scan->pool_map = pt_worker_pool_map();
	}
	else
	{
		PtShare    *share = pt_share_of(scan->css.ss.ps.state);

		if (share)
			area = share->area;
	}
	scan->rel = area ? pt_shared_relation_find(area, RelationGetRelid(rel)) : NULL;
	if (scan->rel != NULL &&
		!RelFileLocatorEquals_compat(scan->rel->locator, rd_locator_compat(rel)))
		elog(ERROR, "temporary table \"%s\" has changed since the query started", RelationGetRelationName(rel));
	if (scan->in_worker && (scan->rel == NULL || (scan->plan.partial && scan->shared == NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("temporary table \"%s\" is not shared with this parallel worker",
						RelationGetRelationName(rel))));

	if (scan->rel)
	{
		scan->pages = pt_shared_relation_pages(area, scan->rel);
		scan->notes = pt_shared_relation_notes(area, scan->rel);
		scan->nblocks = scan->rel->nblocks;
	}
	else
		scan->nblocks = RelationGetNumberOfBlocks(rel);
	scan->chunk = Min(MAX_CHUNK, Max(1, scan->nblocks / 128));
	scan->memo.xmin.xid = scan->memo.xmax.xid = InvalidTransactionId;
	scan->crowded = Max(RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR), BLCKSZ / 10);
	scan->tuple.t_tableOid = RelationGetRelid(rel);
	scan->started = true;
	temp_scan_rewind(scan);
	pgstat_count_heap_scan(rel);
}

static void
temp_scan_prefetch_probes(TempScanState *scan)
{
	int			rows = pt_scan_probe_prefetch(scan->probe, scan->page, scan->visible, scan->nvisible);

	if (rows > 0 && scan->rel != NULL)
		pg_atomic_fetch_add_u64(&scan->rel->prefetches, rows);
}

/*
 * Make the next block with visible tuples the page at hand; false at the end.
 */
static bool
temp_scan_next_page(TempScanState *scan)
{
	Snapshot	snapshot = scan->css.ss.ps.state->es_snapshot;

	for (;;)
	{
		BlockNumber block;
		uint8		note;

		if (scan->next >= scan->chunk_end)
		{
			uint64		taken;

			if (!scan->plan.partial || scan->shared == NULL)
				break;
			taken = pg_atomic_fetch_add_u64(&scan->shared->next, scan->chunk);
			if (taken >= scan->nblocks)
				break;
			scan->next = taken;
			scan->chunk_end = Min(taken + scan->chunk, scan->nblocks);
		}
		CHECK_FOR_INTERRUPTS();
		block = scan->next++;
		scan->page = pt_scan_read_page(scan, block);

		/*
		 * If the session scans alone, subtransactions may end between two
		 * pages: a transaction that was current may no longer be.
		 */
		if (scan->rel == NULL)
			scan->memo.xmin.xid = scan->memo.xmax.xid = InvalidTransactionId;
		for (int attempt = 1;; attempt++)
		{
			scan->nvisible = pt_visible_tuples(&scan->memo, scan->page, snapshot, scan->visible, &note);
			if (scan->nvisible >= 0)
				break;
			scan->page = pt_scan_read_page_again(scan, block, attempt);
		}
		if (unlikely(note != PAGE_HINTED || TransactionIdIsValid(((PageHeader) scan->page)->pd_prune_xid)))
			pt_scan_note_hint_bits(scan, block, note);
		scan->current = 0;
		if (scan->nvisible > 0)
		{
			ItemPointerSetBlockNumber(&scan->tuple.t_self, block);
			if (scan->probe)
				temp_scan_prefetch_probes(scan);
			CountScanned_compat(scan->css.ss.ss_currentRelation, tuples_returned, scan->nvisible);
			return true;
		}
	}
	pt_scan_release(scan);
	return false;
}

/*
 * ExecStoreHeapTuple() for a slot that is a heap-tuple slot for certain, without
 * its three calls a row.
 */
static inline TupleTableSlot *
temp_scan_store_tuple(HeapTuple tuple, TupleTableSlot *slot)
{
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	Assert(TTS_IS_HEAPTUPLE(slot));
	((HeapTupleTableSlot *) slot)->tuple = tuple;
	((HeapTupleTableSlot *) slot)->off = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	slot->tts_tid = tuple->t_self;
	slot->tts_tableOid = tuple->t_tableOid;
	return slot;
}

/*
 * Put the next row that the snapshot sees into scan->tuple; false at the end.
 * "touch" says that the caller will look into it: rows lie on a page backwards,
 * which the CPU's prefetching does not follow well, so they are asked for
 * some rows ahead.
 */
static pg_attribute_always_inline bool
temp_scan_next_tuple(TempScanState *scan, bool touch)
{
	ItemId		id;

	if (unlikely(scan->current >= scan->nvisible))
	{
		if (unlikely(!scan->started))
			temp_scan_start(scan);
		if (scan->finished || !temp_scan_next_page(scan))
		{
			scan->finished = true;
			return false;
		}
	}
	if (touch && scan->current + ROWS_AHEAD < scan->nvisible)
		__builtin_prefetch(PageGetItem(scan->page, PageGetItemId(scan->page, scan->visible[scan->current + ROWS_AHEAD])));
	id = PageGetItemId(scan->page, scan->visible[scan->current]);
	scan->tuple.t_data = (HeapTupleHeader) PageGetItem(scan->page, id);
	scan->tuple.t_len = ItemIdGetLength(id);
	ItemPointerSetOffsetNumber(&scan->tuple.t_self, scan->visible[scan->current]);
	scan->current++;
	return true;
}

static TupleTableSlot *
temp_scan_next(ScanState *ss)
{
	TempScanState *scan = (TempScanState *) ss;

	return temp_scan_next_tuple(scan, false) ? temp_scan_store_tuple(&scan->tuple, ss->ss_ScanTupleSlot) : ExecClearTuple(ss->ss_ScanTupleSlot);
}

static bool
temp_scan_recheck(ScanState *ss, TupleTableSlot *slot)
{
	/* The snapshot decided, and there are no keys. */
	return true;
}

static TupleTableSlot *
temp_scan_exec(CustomScanState *node)
{
	return ExecScan(&node->ss, temp_scan_next, temp_scan_recheck);
}

/*
 * ResetExprContext() without a call for each row that left nothing.
 */
static inline void
temp_scan_reset_row_memory(ExprContext *econtext)
{
	MemoryContext memory = econtext->ecxt_per_tuple_memory;

	if (!memory->isReset || memory->firstchild)
		MemoryContextReset(memory);
}

/*
 * The executor calls this for each row, instead of ExecCustomScan() and
 * ExecScan(): the same with the row source known to the compiler.
 */
static TupleTableSlot *
temp_scan_proc(PlanState *planstate)
{
	TempScanState *scan = (TempScanState *) planstate;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = planstate->ps_ExprContext;
	ExprState  *qual = planstate->qual;
	ProjectionInfo *projection = planstate->ps_ProjInfo;

	if (unlikely(planstate->state->es_epq_active != NULL))
		return temp_scan_exec(&scan->css);
	for (;;)
	{
		temp_scan_reset_row_memory(econtext);
		if (unlikely(!temp_scan_next_tuple(scan, true)))
		{
			ExecClearTuple(slot);
			return projection ? ExecClearTuple(projection->pi_state.resultslot) : slot;
		}
		econtext->ecxt_scantuple = temp_scan_store_tuple(&scan->tuple, slot);
		if (qual == NULL || ExecQual(qual, econtext))
		{
			if (projection == NULL)
				return slot;
			if (scan->projection && pt_scan_project(scan->projection, &scan->tuple))
				return scan->projection->result;
			return ExecProject(projection);
		}
		InstrCountFiltered1(planstate, 1);
	}
}

/*
 * The same for rows of which only columns are used.
 */
static TupleTableSlot *
temp_scan_proc_columns(PlanState *planstate)
{
	TempScanState *scan = (TempScanState *) planstate;

	if (unlikely(planstate->state->es_epq_active != NULL))
		return temp_scan_exec(&scan->css);
	if (unlikely(!temp_scan_next_tuple(scan, true)))
	{
		ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
		return ExecClearTuple(scan->projection->result);
	}
	/* Only a cursor looks for the row that a result came from. */
	if (scan->rel == NULL)
		temp_scan_store_tuple(&scan->tuple, scan->css.ss.ss_ScanTupleSlot);
	if (unlikely(!pt_scan_project(scan->projection, &scan->tuple)))
	{
		temp_scan_reset_row_memory(planstate->ps_ExprContext);
		planstate->ps_ExprContext->ecxt_scantuple = temp_scan_store_tuple(&scan->tuple, scan->css.ss.ss_ScanTupleSlot);
		return ExecProject(planstate->ps_ProjInfo);
	}
	return scan->projection->result;
}

/*
 * The same for rows of which not even a column is asked, but how many there are.
 */
static TupleTableSlot *
temp_scan_proc_count(PlanState *planstate)
{
	TempScanState *scan = (TempScanState *) planstate;
	TupleTableSlot *result = scan->projection->result;

	if (unlikely(planstate->state->es_epq_active != NULL))
		return temp_scan_exec(&scan->css);
	if (unlikely(!temp_scan_next_tuple(scan, false)))
	{
		ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
		return ExecClearTuple(result);
	}
	if (scan->rel == NULL)
		temp_scan_store_tuple(&scan->tuple, scan->css.ss.ss_ScanTupleSlot);
	result->tts_flags &= ~TTS_FLAG_EMPTY;
	return result;
}

static void
temp_scan_begin(CustomScanState *node, EState *estate, int eflags)
{
	TempScanState *scan = (TempScanState *) node;

	/*
	 * Workers need what ExecutorRun's hook shares, also if the plan is a
	 * cached one.
	 */
	pt_query_check_executor_hooks();
	CustomScanRemakeSlot_compat(node, estate, &TTSOpsHeapTuple);
	temp_scan_read_private((CustomScan *) node->ss.ps.plan, &scan->plan);
	scan->buffer = InvalidBuffer;
	scan->projection = pt_scan_projection_make(&node->ss);
	if (scan->projection == NULL || node->ss.ps.qual != NULL)
		node->ss.ps.ExecProcNode = temp_scan_proc;
	else if (scan->projection->needed > 0)
		node->ss.ps.ExecProcNode = temp_scan_proc_columns;
	else
		node->ss.ps.ExecProcNode = temp_scan_proc_count;
}

static void
temp_scan_end(CustomScanState *node)
{
	pt_scan_release((TempScanState *) node);
}

static void
temp_scan_rescan(CustomScanState *node)
{
	TempScanState *scan = (TempScanState *) node;

	scan->finished = false;
	if (scan->started)
	{
		temp_scan_rewind(scan);
		pgstat_count_heap_scan(node->ss.ss_currentRelation);
	}
	ExecScanReScan(&node->ss);
}

static Size
temp_scan_estimate_dsm(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(TempScanShared);
}

/*
 * The leader makes the counter before workers start.  It may have begun to scan
 * alone in an earlier execution, so it starts afresh.
 */
static void
temp_scan_initialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	TempScanState *scan = (TempScanState *) node;

	scan->shared = coordinate;
	pg_atomic_init_u64(&scan->shared->next, 0);
	if (scan->started)
		temp_scan_rewind(scan);
	scan->finished = false;
}

static void
temp_scan_reinitialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	pg_atomic_write_u64(&((TempScanShared *) coordinate)->next, 0);
}

static void
temp_scan_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	((TempScanState *) node)->shared = coordinate;
}

/*
 * The counter ends with the workers.  A caller that requests more tuples before
 * the next rescan has received all of them.
 */
static void
temp_scan_shutdown(CustomScanState *node)
{
	TempScanState *scan = (TempScanState *) node;

	if (scan->shared == NULL)
		return;
	pt_scan_release(scan);
	scan->shared = NULL;
	scan->finished = true;
}

static const CustomExecMethods exec_methods = {
	.CustomName = "Temp Scan",
	.BeginCustomScan = temp_scan_begin,
	.ExecCustomScan = temp_scan_exec,
	.EndCustomScan = temp_scan_end,
	.ReScanCustomScan = temp_scan_rescan,
	.EstimateDSMCustomScan = temp_scan_estimate_dsm,
	.InitializeDSMCustomScan = temp_scan_initialize_dsm,
	.ReInitializeDSMCustomScan = temp_scan_reinitialize_dsm,
	.InitializeWorkerCustomScan = temp_scan_initialize_worker,
	.ShutdownCustomScan = temp_scan_shutdown,
	.ExplainCustomScan = pt_scan_explain,
};

static Node *
temp_scan_create_state(CustomScan *plan)
{
	TempScanState *scan = palloc0(sizeof(TempScanState));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &exec_methods;
	CustomScanSetSlotOps_compat(&scan->css, &TTSOpsHeapTuple);
	return (Node *) scan;
}

static TempScanState *
temp_scan_of(PlanState *planstate)
{
	if (planstate && IsA(planstate, CustomScanState) && ((CustomScanState *) planstate)->methods == &exec_methods)
		return (TempScanState *) planstate;
	return NULL;
}

static bool
temp_scan_prepare_walker(PlanState *planstate, void *context)
{
	if (planstate == NULL)
		return false;
	if (IsA(planstate, HashJoinState))
	{
		TempScanState *scan = temp_scan_of(outerPlanState(planstate));

		if (scan && pt_debug_hash_prefetch)
			scan->probe = pt_scan_probe_make((HashJoinState *) planstate, &scan->css.ss);
	}
	return planstate_tree_walker(planstate, temp_scan_prepare_walker, context);
}

void
pt_scan_prepare(QueryDesc *queryDesc)
{
	MemoryContext old = MemoryContextSwitchTo(queryDesc->estate->es_query_cxt);

	temp_scan_prepare_walker(queryDesc->planstate, NULL);
	MemoryContextSwitchTo(old);
}

bool
pt_scan_finish(PlanState *planstate, void *share_of_query)
{
	PtShare    *share = share_of_query;
	TempScanState *scan = temp_scan_of(planstate);

	if (planstate == NULL)
		return false;
	if (scan)
	{
		SharedRel  *rel = pt_shared_relation_find(share->area, RelationGetRelid(scan->css.ss.ss_currentRelation));

		if (rel)
		{
			scan->reported = true;
			scan->method = share->area->use_pool ? "share" : "flush";
			scan->shared_pages = share->area->use_pool ? rel->resident : 0;
			scan->pool_reads = pg_atomic_read_u64(&rel->pool_reads);
			scan->file_reads = pg_atomic_read_u64(&rel->file_reads);
			scan->flushed = rel->flushed;
			scan->prefetches = pg_atomic_read_u64(&rel->prefetches);
		}
		pt_scan_release(scan);
		scan->rel = NULL;
		scan->pages = NULL;
		scan->notes = NULL;
		scan->started = false;
		scan->finished = true;
	}
	return planstate_tree_walker(planstate, pt_scan_finish, share);
}

void
pt_scan_install(void)
{
	RegisterCustomScanMethods(&scan_methods);
}

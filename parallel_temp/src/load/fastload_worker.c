/*-------------------------------------------------------------------------
 *
 * fastload_worker.c
 *	  The custom scan "Temp Load": parallel workers fill pages of a temporary table.
 *
 * The node is below a Gather at the top of a query whose rows go into a temporary
 * table (plan_fill.c puts it there).  In a worker it forms the rows of its child on
 * heap pages in shared memory, and whole pages go to the leader (fastload_leader.c):
 * no row is copied into a queue, read from it and formed again by the one process
 * that has everything else to do as well.  Once pages go straight to the file, the worker
 * appends them to it, half a ring or more at once.  Rows that only the leader can store, which are
 * those to be toasted and those that violate a NOT NULL constraint, are returned.  In the
 * leader the node gives its rows to the bulk writer itself (fastload_leader.c).
 *
 * A page is formed with the leader's transaction and command in its rows; what
 * depends on where it will lie, and on whether rows are frozen, is added by the process
 * that takes or writes it.  The last page of a worker is not full, and the leader returns its rows.
 *
 * Invariants: A worker waits for space in its ring only, never for another
 * worker: as with the server's queues, a leader that reads all rings while it waits
 * cannot wait for ever.  It holds the lock on the file's end for no longer than a write
 * takes, and no error leaves it locked.  A leader that ends early says so (closed).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "compat_executor.h"
#include "load/fastload.h"
#include "parallel_temp.h"

static Node *filler_create_state(CustomScan *plan);

static const CustomScanMethods methods = {
	.CustomName = "Temp Load",
	.CreateCustomScanState = filler_create_state,
};

const CustomScanMethods *
pt_filler_methods(void)
{
	return &methods;
}

void
pt_filler_install(void)
{
	RegisterCustomScanMethods(&methods);
}

/* ---- a worker ------------------------------------------------------------ */

static inline void
wake_leader(PageFiller *filler)
{
	SetLatch(&filler->shared->leader->procLatch);
}

/* Pages that were handed over and are not done with. */
static inline uint64
pages_waiting(PageFiller *filler)
{
	return filler->filled - pt_ring_first(filler->ring);
}

static inline bool
may_append(PageFiller *filler)
{
	return pg_atomic_read_u32(&filler->shared->end.open) != 0;
}

/*
 * The page being filled is complete.  Wake the leader from time to time, if it is to take the pages.
 */
static void
hand_over(PageFiller *filler, bool full)
{
	if (!full)
		pg_atomic_write_u64(&filler->ring->unfinished, filler->filled);
	pg_write_barrier();
	pg_atomic_write_u64(&filler->ring->filled, ++filler->filled);
	filler->load.page = NULL;
	if (!may_append(filler) && pages_waiting(filler) % WAKE_PAGES == 0)
		wake_leader(filler);
}

static void
append_context(void *arg)
{
	errcontext("writing pages of temporary table \"%s\"", NameStr(((FillShared *) arg)->relname));
}

/*
 * Append pages to the file, if enough of them wait and this worker may.
 */
static void
append_pages(PageFiller *filler, uint64 enough)
{
	FillShared *shared = filler->shared;
	PageRing   *ring = filler->ring;
	Page		pages[RING_PAGES];
	uint64		first;
	uint64		rows = 0;
	int			n = 0;
	ErrorContextCallback context;
	MemoryContext old;

	if (pages_waiting(filler) < enough || !may_append(filler) || !pt_file_end_lock(&shared->end))
		return;

	/* the leader takes none of them now */
	first = pt_ring_first(ring);
	for (uint64 page = first; page < filler->filled; page++)
		pages[n++] = pt_ring_page(shared, ParallelWorkerNumber, page);
	if (n > 0)
	{
		context.callback = append_context;
		context.arg = shared;
		context.previous = error_context_stack;
		error_context_stack = &context;
		/* the file stays open, and has a path */
		old = MemoryContextSwitchTo(filler->css.ss.ps.state->es_query_cxt);
		n = pt_file_end_append(&shared->end, &filler->file, shared->locator, pages, n, &rows);
		MemoryContextSwitchTo(old);
		error_context_stack = context.previous;

		pg_atomic_write_u64(&ring->written, first + n);
		pg_atomic_write_u64(&ring->appended_rows, pg_atomic_read_u64(&ring->appended_rows) + rows);
		pg_write_barrier();
		pg_atomic_write_u64(&ring->appended_pages, pg_atomic_read_u64(&ring->appended_pages) + n);
	}
	pt_file_end_unlock(&shared->end);
	if (++filler->appends % WAKE_APPENDS == 0)
		wake_leader(filler);
}

/*
 * There are no more rows.  The leader takes the remaining pages.
 */
static void
hand_over_last(PageFiller *filler)
{
	append_pages(filler, 1);
	pg_write_barrier();
	pg_atomic_write_u32(&filler->ring->ended, 1);
	if (filler->load.page != NULL)
		hand_over(filler, false);
	wake_leader(filler);
}

/*
 * Hand over the page being filled and begin another.
 */
static void
filler_next_page(FastLoad *load)
{
	PageFiller *filler = (PageFiller *) ((char *) load - offsetof(PageFiller, load));

	if (load->page != NULL)
		hand_over(filler, true);
	append_pages(filler, APPEND_PAGES);
	while (pages_waiting(filler) >= RING_PAGES)
	{
		/* rows that are stored from now on are discarded */
		if (pg_atomic_read_u32(&filler->shared->closed) != 0)
		{
			filler->finished = true;
			break;
		}
		wake_leader(filler);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, 0, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		append_pages(filler, APPEND_PAGES);
	}
	pg_memory_barrier();
	load->page = (Page) (filler->ring_pages + (Size) (filler->filled % RING_PAGES) * BLCKSZ);
	PageInit(load->page, BLCKSZ, 0);
}

/*
 * The node in a worker that fills pages: only rows for the server's queue come out.
 */
static TupleTableSlot *
filler_exec_worker(PlanState *pstate)
{
	PageFiller *filler = (PageFiller *) pstate;
	FastLoad   *load = &filler->load;
	uint64		before = load->tuples;
	TupleTableSlot *slot = NULL;

	while (!filler->finished)
	{
		slot = ExecProcNode(outerPlanState(pstate));
		if (TupIsNull(slot))
		{
			hand_over_last(filler);
			filler->finished = true;
			slot = NULL;
		}
		else if (pt_breaks_not_null(filler->shared, slot) || !pt_load_add_untoasted(load, slot))
		{
			pg_atomic_write_u64(&filler->ring->rows, pg_atomic_read_u64(&filler->ring->rows) + 1);
			break;
		}
		else
			slot = NULL;
	}
	if (pstate->instrument)
		pstate->instrument->tuplecount += load->tuples - before;
	return slot;
}

/* ---- the node --------------------------------------------------------------- */

/*
 * In the leader, and in workers that do not fill pages: rows are returned unchanged.  While the
 * Gather starts workers it gets a dummy row (see start_workers()).
 */
static TupleTableSlot *
filler_exec_proc(PlanState *pstate)
{
	PageFiller *filler = (PageFiller *) pstate;

	if (unlikely(filler->starting))
		return pt_filler_no_row(filler);
	if (filler->running && filler->fill != NULL && filler->shared != NULL)
		return pt_filler_exec_leader(filler);
	return ExecProcNode(outerPlanState(pstate));
}

static TupleTableSlot *
filler_exec(CustomScanState *node)
{
	return filler_exec_proc(&node->ss.ps);
}

static void
filler_begin(CustomScanState *node, EState *estate, int eflags)
{
	PageFiller *filler = (PageFiller *) node;

	filler->split = -1;
	filler->file = RELFILE_NONE;
	node->ss.ps.ExecProcNode = filler_exec_proc;
	outerPlanState(node) = ExecInitNode(outerPlan(node->ss.ps.plan), estate, eflags);
}

/*
 * The leader takes no more pages: workers that wait for space continue, and end.
 */
static void
close_rings(PageFiller *filler)
{
	FillShared *shared = filler->shared;

	if (shared == NULL || IsParallelWorker())
		return;
	filler->shared = NULL;
	if (!shared->active)
		return;
	/* its lock is in memory that is about to go */
	if (filler->fill != NULL && filler->fill->load != NULL)
		pt_load_close_file_end(filler->fill->load);
	pg_atomic_write_u32(&shared->closed, 1);
	pg_memory_barrier();
	for (int i = 0; i < filler->nrings; i++)
	{
		PageRing   *ring = pt_page_ring(shared, i);

		if (pg_atomic_read_u64(&ring->filled) > 0)
		{
			pg_read_barrier();
			SetLatch(&ring->worker->procLatch);
		}
	}
}

static void
filler_shutdown(CustomScanState *node)
{
	close_rings((PageFiller *) node);
}

static void
filler_end(CustomScanState *node)
{
	PageFiller *filler = (PageFiller *) node;

	close_rings(filler);
	pt_relfile_close(&filler->file, ERROR);
	ExecEndNode(outerPlanState(node));
}

static void
filler_rescan(CustomScanState *node)
{
	if (outerPlanState(node)->chgParam == NULL)
		ExecReScan(outerPlanState(node));
}

/* Offsets of what follows the head of the shared memory. */
static uint64
rings_offset(int not_nulls)
{
	return TYPEALIGN(PG_CACHE_LINE_SIZE, offsetof(FillShared, not_null) + sizeof(AttrNumber) * not_nulls);
}

static uint64
pages_offset(int not_nulls, int rings)
{
	return TYPEALIGN(PG_CACHE_LINE_SIZE, rings_offset(not_nulls) + sizeof(PageRing) * rings);
}

/*
 * The leader is about to start workers: will they fill pages?
 */
static Size
filler_estimate_dsm(CustomScanState *node, ParallelContext *pcxt)
{
	PageFiller *filler = (PageFiller *) node;

	pt_filler_activate(filler);
	if (filler->fill == NULL)
		return sizeof(FillShared);
	filler->nrings = pcxt->nworkers;
	return pages_offset(RelationGetNumberOfAttributes(filler->fill->rel), filler->nrings) +
		(Size) filler->nrings * RING_PAGES * BLCKSZ;
}

static void
clear_rings(PageFiller *filler)
{
	pg_atomic_write_u32(&filler->shared->closed, 0);
	pg_atomic_write_u32(&filler->shared->end.open, 0);
	for (int i = 0; i < filler->nrings; i++)
	{
		PageRing   *ring = pt_page_ring(filler->shared, i);

		ring->worker = NULL;
		pg_atomic_init_u64(&ring->filled, 0);
		pg_atomic_init_u64(&ring->unfinished, PG_UINT64_MAX);
		pg_atomic_init_u64(&ring->rows, 0);
		pg_atomic_init_u64(&ring->written, 0);
		pg_atomic_init_u64(&ring->appended_pages, 0);
		pg_atomic_init_u64(&ring->appended_rows, 0);
		pg_atomic_init_u32(&ring->ended, 0);
		pg_atomic_init_u64(&ring->taken, 0);
	}
}

static void
filler_initialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	PageFiller *filler = (PageFiller *) node;
	FillShared *shared = coordinate;
	EState	   *estate = node->ss.ps.state;
	Relation	rel;

	memset(shared, 0, sizeof(FillShared));
	shared->build = SHARED_BUILD(FillShared) + pt_debug_build;
	pg_atomic_init_u32(&shared->closed, 0);
	pt_file_end_init(&shared->end);
	filler->shared = shared;
	if (filler->fill == NULL)
		return;
	rel = filler->fill->rel;
	shared->leader = MyProc;
	shared->xid = GetCurrentTransactionId();
	shared->cid = filler->fill->load ? filler->fill->load->cid : estate->es_output_cid;
	shared->save_space = RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR);
	shared->locator = rd_locator_compat(rel);
	namestrcpy(&shared->relname, RelationGetRelationName(rel));
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		if (TupleDescAttr(RelationGetDescr(rel), i)->attnotnull)
			shared->not_null[shared->not_nulls++] = i + 1;
	}
	shared->rings = rings_offset(shared->not_nulls);
	shared->pages = pages_offset(shared->not_nulls, filler->nrings);
	clear_rings(filler);
	shared->active = true;
}

static void
filler_reinitialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	PageFiller *filler = (PageFiller *) node;

	filler->shared = coordinate;
	if (filler->shared->active)
		clear_rings(filler);
}

static void
filler_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	PageFiller *filler = (PageFiller *) node;
	FillShared *shared = coordinate;

	pt_check_shared_build(shared->build, SHARED_BUILD(FillShared));
	filler->shared = shared;
	if (!shared->active)
		return;
	filler->ring = pt_page_ring(shared, ParallelWorkerNumber);
	filler->ring->worker = MyProc;
	filler->ring_pages = pt_page_ring_pages(shared, ParallelWorkerNumber);
	filler->load.xid = shared->xid;
	filler->load.cid = shared->cid;
	filler->load.save_space = shared->save_space;
	filler->load.next_page = filler_next_page;

	/* what measures nodes calls on through ExecProcNodeReal */
	if (node->ss.ps.ExecProcNode == node->ss.ps.ExecProcNodeReal)
		node->ss.ps.ExecProcNode = filler_exec_worker;
	node->ss.ps.ExecProcNodeReal = filler_exec_worker;
}

static void
filler_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	PageFiller *filler = (PageFiller *) node;
	FastLoad   *load = filler->fill ? filler->fill->load : NULL;
	uint64		by_leader = load ? load->pool_pages + load->file_pages - load->taken_pages : 0;
	const char *why_not = filler->why_not ? filler->why_not : "no workers";
	StringInfoData text;

	if (!es->analyze)
		return;
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		if (filler->fill == NULL)
		{
			ExplainPropertyText("Pages by Leader Only", why_not, es);
			return;
		}
		ExplainPropertyUInteger("Pages by Leader", NULL, by_leader, es);
		ExplainOpenGroup("Pages by Workers", "Pages by Workers", false, es);
		for (int i = 0; i < filler->nrings; i++)
		{
			ExplainOpenGroup("Worker", NULL, true, es);
			ExplainPropertyInteger("Worker Number", NULL, i, es);
			ExplainPropertyUInteger("Pages", NULL, filler->pages[i], es);
			ExplainCloseGroup("Worker", NULL, true, es);
		}
		ExplainCloseGroup("Pages by Workers", "Pages by Workers", false, es);
		return;
	}
	initStringInfo(&text);
	if (filler->fill == NULL)
		appendStringInfo(&text, "by the leader only (%s)", why_not);
	else
	{
		appendStringInfo(&text, UINT64_FORMAT " by the leader, by workers:", by_leader);
		for (int i = 0; i < filler->nrings; i++)
			appendStringInfo(&text, "%s " UINT64_FORMAT, i > 0 ? "," : "", filler->pages[i]);
	}
	ExplainPropertyText("Pages", text.data, es);
	pfree(text.data);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "Temp Load",
	.BeginCustomScan = filler_begin,
	.ExecCustomScan = filler_exec,
	.EndCustomScan = filler_end,
	.ReScanCustomScan = filler_rescan,
	.EstimateDSMCustomScan = filler_estimate_dsm,
	.InitializeDSMCustomScan = filler_initialize_dsm,
	.ReInitializeDSMCustomScan = filler_reinitialize_dsm,
	.InitializeWorkerCustomScan = filler_initialize_worker,
	.ShutdownCustomScan = filler_shutdown,
	.ExplainCustomScan = filler_explain,
};

static Node *
filler_create_state(CustomScan *plan)
{
	PageFiller *filler = palloc0(sizeof(PageFiller));

	NodeSetTag(filler, T_CustomScanState);
	filler->css.methods = &exec_methods;
	return (Node *) filler;
}

PageFiller *
pt_filler_of(PlanState *planstate)
{
	if (planstate && IsA(planstate, CustomScanState) && ((CustomScanState *) planstate)->methods == &exec_methods)
		return (PageFiller *) planstate;
	return NULL;
}

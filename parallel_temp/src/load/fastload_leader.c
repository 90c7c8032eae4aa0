/*-------------------------------------------------------------------------
 *
 * fastload_leader.c
 *	  The leader takes pages that its parallel workers have filled, or lets them write.
 *
 * Rows of a parallel query reach the leader through the server's queues, one at a
 * time.  Where the node "Temp Load" is below the Gather (fastload_worker.c), workers
 * form pages instead, and for that node the server's function of the Gather is
 * replaced.  The server's function starts the workers; after that the replacement checks
 * for rows in the server's queues, for pages, and for a page of rows of the leader's part
 * of the plan, in this order; the latter are stored on the load's page below, without
 * passing the nodes above.  When all workers have ended, the server's function is called
 * to report that, and to raise the errors that they had.
 *
 * A page goes into the table as it is while the load is the bulk writer's: at first by
 * pt_load_take_page(), which copies it.  When pages go straight to the file, its end is
 * opened to the workers, who append theirs (fastload_worker.c), and the leader only
 * counts them, until another statement reads the table or the load ends: the end is
 * closed then.  Pages that are left in a worker's ring are taken here.
 *
 * Before the load begins, after the load was handed back, and where a page is not full, it
 * is split: its rows come out of the Gather one by one, and whatever is
 * above does with them what it does with any row.  So nothing about when a load
 * ends, about visibility or about errors is different with pages.  An INSERT into a
 * table that has no block begins its load before there are workers.
 *
 * Rows of pages are counted where the server would have counted them: as those of
 * the Gather and as those that the statement has processed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/execParallel.h"
#include "executor/executor.h"
#include "executor/tqueue.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "compat_table.h"
#include "load/fastload.h"
#include "parallel_temp.h"

FilledPages pt_filled_pages;

/*
 * Why rows of this table must come one by one; NULL if workers may fill pages of it.
 * The kind of statement matters as well (plan_fill.c).
 */
const char *
pt_load_pages_unfit(Relation rel)
{
	TupleConstr *constr = rel->rd_att->constr;
	const char *why_not;

	if (!pt_fill_pages)
		return "parallel_temp.fill_pages is off";
	why_not = pt_load_unfit(rel);
	if (why_not != NULL)
		return why_not;
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return "not a table";
	if (rel->rd_rel->relispartition)
		return "the table is a partition";
	if (rel->rd_rel->relhasindex)
		return "the table has indexes";
	if (rel->trigdesc != NULL)
		return "the table has triggers";
	if (constr != NULL && constr->num_check > 0)
		return "the table has check constraints";
	if (constr != NULL && HasGeneratedColumns_compat(constr))
		return "the table has generated columns";
	return NULL;
}

static const char *
filler_unfit(PageFiller *filler)
{
	FastFill   *fill = filler->query ? filler->query->fill : NULL;
	const char *why_not;

	if (fill == NULL)
		return "not a load";
	why_not = pt_load_pages_unfit(fill->rel);
	if (why_not != NULL)
		return why_not;
	if (fill->row_by_row != NULL)
		return fill->row_by_row;
	if (fill->in_buffers)
		return "the table has indexes";
	if (fill->scanned)
		return "the statement scans the table";
	/* rows of a new table begin with the load, those of an INSERT lead to it */
	if (fill->state == NULL && !pt_load_is_loading(fill))
		return "the load was given up";
	if (fill->state != NULL && pt_load_held_open(fill))
		return "a cursor or an outer query has the table open";
	if (filler->gather->ps.ps_ProjInfo != NULL ||
		ExecGetResultType(&filler->css.ss.ps)->natts != RelationGetNumberOfAttributes(fill->rel))
		return "rows are changed on their way";
	return NULL;
}

/*
 * Workers are about to start: decide whether they fill pages.
 */
void
pt_filler_activate(PageFiller *filler)
{
	filler->why_not = filler_unfit(filler);
	filler->fill = filler->why_not == NULL ? filler->query->fill : NULL;
}

/* ---- pages --------------------------------------------------------------------- */

/*
 * Is the bulk writer at work, for the transaction and command that workers know of?
 */
static inline bool
may_take(const PageFiller *filler)
{
	const FastFill *fill = filler->fill;

	return pt_load_is_loading(fill) && fill->load->xid == filler->shared->xid && fill->load->cid == filler->shared->cid;
}

static void
done_with_page(PageRing *ring, uint64 page)
{
	pg_memory_barrier();
	pg_atomic_write_u64(&ring->taken, page + 1);
}

/*
 * Rows of a page are in the table, though they did not come out of the node.
 */
static void
count_rows(PageFiller *filler, uint64 rows)
{
	GatherState *gather = filler->gather;

	if (gather->ps.instrument)
		gather->ps.instrument->tuplecount += rows;
	if (filler->fill->state == NULL || filler->fill->state->canSetTag)
		gather->ps.state->es_processed += rows;
}

/*
 * Count what a worker has appended.  (The load has counted it, or will: pt_load_follow_file_end().)
 */
static void
count_appended(PageFiller *filler, int i)
{
	PageRing   *ring = pt_page_ring(filler->shared, i);
	uint64		pages = pg_atomic_read_u64(&ring->appended_pages) - filler->counted_pages[i];
	uint64		rows;

	if (likely(pages == 0))
		return;
	pg_read_barrier();
	rows = pg_atomic_read_u64(&ring->appended_rows) - filler->counted_rows[i];
	filler->counted_pages[i] += pages;
	filler->counted_rows[i] += rows;
	filler->pages[i] += pages;
	pt_filled_pages.filled += pages;
	pt_filled_pages.written += pages;
	count_rows(filler, rows);
	if (may_take(filler))
		pt_load_count_written(filler->fill->load, pages);
}

/*
 * Workers append their pages while that is possible.
 */
static void
open_or_close_end(PageFiller *filler)
{
	FastLoad   *load = filler->fill->load;

	if (load->end != NULL)
	{
		if (unlikely(load->end->failed))
			pt_load_close_file_end(load);
	}
	else if (pt_load_is_at_file(load))
	{
		pt_load_open_file_end(load, &filler->shared->end);
		for (int i = 0; i < filler->nrings; i++)
		{
			PageRing   *ring = pt_page_ring(filler->shared, i);

			if (pg_atomic_read_u64(&ring->filled) > 0)
			{
				pg_read_barrier();
				SetLatch(&ring->worker->procLatch);
			}
		}
	}
}

/*
 * Take the pages that are waiting and are not the workers' to write, until there is one
 * that has to be split.  True if there were any.  "all_ended": there are no workers
 * any more.
 */
static bool
take_pages(PageFiller *filler, bool all_ended)
{
	bool		found = false;
	bool		appended = false;

	if (may_take(filler))
	{
		open_or_close_end(filler);
		appended = filler->fill->load->end != NULL && !all_ended;
	}
	for (int i = 0; i < filler->nrings; i++)
	{
		PageRing   *ring = pt_page_ring(filler->shared, i);
		uint64		filled = pg_atomic_read_u64(&ring->filled);
		uint64		taken;

		pg_read_barrier();
		if (appended && pg_atomic_read_u32(&ring->ended) == 0)
		{
			count_appended(filler, i);
			continue;
		}
		pg_read_barrier();
		count_appended(filler, i);
		taken = pt_ring_first(ring);
		if (likely(taken >= filled))
			continue;
		found = true;
		for (; taken < filled; taken++)
		{
			Page		page = pt_ring_page(filler->shared, i, taken);

			CHECK_FOR_INTERRUPTS();
			if (taken == pg_atomic_read_u64(&ring->unfinished) || !may_take(filler))
			{
				SetLatch(&ring->worker->procLatch);
				filler->split = i;
				filler->split_row = InvalidOffsetNumber;
				return true;
			}
			pt_load_take_page(filler->fill->load, page);
			count_rows(filler, PageGetMaxOffsetNumber(page));
			filler->pages[i]++;
			pt_filled_pages.filled++;
			done_with_page(ring, taken);
		}
		SetLatch(&ring->worker->procLatch);
	}
	return found;
}

/*
 * The next row of the page that is split; NULL after the last one.
 */
static TupleTableSlot *
next_row_of_page(PageFiller *filler)
{
	PageRing   *ring = pt_page_ring(filler->shared, filler->split);
	uint64		taken = pt_ring_first(ring);
	Page		page = pt_ring_page(filler->shared, filler->split, taken);

	if (filler->split_row < PageGetMaxOffsetNumber(page))
	{
		ItemId		item = PageGetItemId(page, ++filler->split_row);

		filler->split_tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		filler->split_tuple.t_len = ItemIdGetLength(item);
		filler->split_tuple.t_tableOid = InvalidOid;
		ItemPointerSetInvalid(&filler->split_tuple.t_self);
		return ExecStoreHeapTuple(&filler->split_tuple, filler->split_slot, false);
	}
	ExecClearTuple(filler->split_slot);
	filler->split = -1;
	done_with_page(ring, taken);
	SetLatch(&ring->worker->procLatch);
	return NULL;
}

/* ---- rows ------------------------------------------------------------------------ */

/*
 * The node "Temp Load" in a leader whose workers fill pages.  The leader's rows are
 * stored directly on the load's page if they need no other processing; only rows that the
 * nodes above must store are returned.  After each page a dummy row is returned
 * (pt_filler_no_row()), so that the leader checks its workers.
 */
TupleTableSlot *
pt_filler_exec_leader(PageFiller *filler)
{
	PlanState  *child = outerPlanState(filler);
	TupleTableSlot *slot;
	int64		rows = 0;		/* that do not come out */

	for (;;)
	{
		FastLoad   *load;
		BlockNumber next_block;

		slot = ExecProcNode(child);

		/* a function of the query may have had the load handed back */
		if (TupIsNull(slot) || !may_take(filler) || pt_breaks_not_null(filler->shared, slot))
			break;
		load = filler->fill->load;
		next_block = load->next_block;
		if (!pt_load_add_untoasted(load, slot))
			break;
		rows++;
		if (load->next_block != next_block)
		{
			slot = pt_filler_no_row(filler);
			break;
		}
	}
	if (rows > 0)
	{
		count_rows(filler, rows);
		if (filler->css.ss.ps.instrument)
			filler->css.ss.ps.instrument->tuplecount += rows;
	}
	return slot;
}

/*
 * Has a worker sent rows through its queue that were not read?
 */
static bool
rows_are_waiting(PageFiller *filler)
{
	uint64		sent = 0;

	for (int i = 0; i < filler->nrings; i++)
		sent += pg_atomic_read_u64(&pt_page_ring(filler->shared, i)->rows);
	return sent > filler->rows;
}

/*
 * A row of the server's queues, if there is one now.  *all_done says that all workers
 * have ended.
 */
static TupleTableSlot *
next_row_of_workers(PageFiller *filler, bool *all_done)
{
	GatherState *gather = filler->gather;

	*all_done = true;
	for (int visited = 0; visited < gather->nreaders; visited++)
	{
		bool		done;
		MinimalTuple tuple;

		if (gather->nextreader >= gather->nreaders)
			gather->nextreader = 0;
		tuple = TupleQueueReaderNext(gather->reader[gather->nextreader], true, &done);
		if (tuple != NULL)
		{
			*all_done = false;
			filler->rows++;
			return ExecStoreMinimalTuple(tuple, gather->funnel_slot, false);
		}
		if (!done)
			*all_done = false;
		gather->nextreader++;
	}
	if (gather->nextreader >= gather->nreaders)
		gather->nextreader = 0;
	return NULL;
}

/*
 * The node has returned the dummy row, and its instrumentation has counted it.
 */
static inline void
uncount_no_row(PageFiller *filler)
{
	if (filler->css.ss.ps.instrument)
		filler->css.ss.ps.instrument->tuplecount -= 1;
}

/*
 * Let the server's function of the Gather only start the workers.  It continues
 * to the first row, for which it may wait; so the leader's part returns a dummy row at
 * once.  The result is a row of a worker, if one was faster.
 */
static TupleTableSlot *
start_workers(PageFiller *filler)
{
	GatherState *gather = filler->gather;
	EState	   *estate = gather->ps.state;
	TupleTableSlot *slot;
	bool		participation = parallel_leader_participation;
	int			nest_level = NewGUCNestLevel();

	/* after an error the setting ends with the (sub)transaction */
	(void) set_config_option("parallel_leader_participation", "on", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	filler->starting = true;
	slot = filler->gather_real(&gather->ps);
	filler->starting = false;
	AtEOXact_GUC(true, nest_level);

	filler->running = true;
	gather->need_to_scan_locally = gather->nworkers_launched == 0 || participation;
	if (slot != gather->funnel_slot)
	{
		uncount_no_row(filler);
		slot = NULL;
	}
	if (filler->shared == NULL || !filler->shared->active)
		filler->fill = NULL;
	else
	{
		MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

		filler->rows = slot != NULL ? 1 : 0;
		filler->pages = palloc0(sizeof(uint64) * Max(filler->nrings, 1));
		filler->counted_pages = palloc0(sizeof(uint64) * Max(filler->nrings, 1));
		filler->counted_rows = palloc0(sizeof(uint64) * Max(filler->nrings, 1));
		filler->split_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(&filler->css.ss.ps), &TTSOpsHeapTuple);
		MemoryContextSwitchTo(old);
	}
	return slot;
}

/*
 * In the place of the server's function of the Gather node.
 */
static TupleTableSlot *
exec_page_gather(PlanState *pstate)
{
	GatherState *gather = castNode(GatherState, pstate);
	PageFiller *filler = pt_filler_of(outerPlanState(gather));
	EState	   *estate = gather->ps.state;
	TupleTableSlot *slot;

	if (unlikely(!filler->running))
	{
		slot = start_workers(filler);
		if (slot != NULL)
			return slot;
	}
	if (filler->fill == NULL || filler->shared == NULL)
		return filler->gather_real(pstate);

	for (;;)
	{
		bool		all_done = false;

		CHECK_FOR_INTERRUPTS();
		if (filler->split >= 0)
		{
			slot = next_row_of_page(filler);
			if (slot != NULL)
				return slot;
		}
		if (!gather->need_to_scan_locally || rows_are_waiting(filler))
		{
			slot = next_row_of_workers(filler, &all_done);
			if (slot != NULL)
				return slot;
		}

		/*
		 * A worker hands over its last page before it ends.  The leader waits
		 * only if it has checked all workers since the latch was set.
		 */
		pg_memory_barrier();
		if (take_pages(filler, all_done) && (filler->split >= 0 || !gather->need_to_scan_locally))
			continue;

		if (gather->need_to_scan_locally)
		{
			ResetExprContext(gather->ps.ps_ExprContext);
			estate->es_query_dsa = gather->pei ? gather->pei->area : NULL;
			slot = ExecProcNode(outerPlanState(gather));
			estate->es_query_dsa = NULL;
			if (TupIsNull(slot))
				gather->need_to_scan_locally = false;
			else if (pt_filler_is_no_row(filler, slot))
				uncount_no_row(filler);
			else
				return slot;
			continue;
		}
		if (all_done)
			return filler->gather_real(pstate);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, 0, WAIT_EVENT_EXECUTE_GATHER);
		ResetLatch(MyLatch);
	}
}

/*
 * A statement is about to run whose rows may go into a temporary table: if its plan
 * has the node, replace the function of the Gather above it.
 */
void
pt_load_pages_prepare(PtQuery *query)
{
	PlanState  *top = query->queryDesc->planstate;
	FastFill   *fill = query->fill;
	PageFiller *filler;

	if (IsA(top, ModifyTableState))
		top = outerPlanState(top);
	if (!IsA(top, GatherState))
		return;
	filler = pt_filler_of(outerPlanState(top));
	if (filler == NULL)
		return;
	filler->query = query;
	if (filler->gather != NULL)
		return;
	filler->gather = castNode(GatherState, top);
	filler->gather_real = top->ExecProcNodeReal;

	/* as for the top node, see pt_load_insert_prepare() */
	if (top->ExecProcNode == top->ExecProcNodeReal)
		top->ExecProcNode = exec_page_gather;
	top->ExecProcNodeReal = exec_page_gather;

	/*
	 * An INSERT that starts workers has more than a few rows, and a table
	 * without a block no room that is to be used first.  So the load has all
	 * rows: none of their pages has to be split because it has not begun, and
	 * a statement that fails leaves no block.
	 */
	if (fill != NULL && fill->state != NULL && fill->first_new_block == 0 && filler_unfit(filler) == NULL)
		pt_load_fill_load(fill, query->queryDesc->estate->es_output_cid, pt_load_fill_freezes(fill));
}

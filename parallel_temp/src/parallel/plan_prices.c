/*-------------------------------------------------------------------------
 *
 * plan_prices.c
 *	  What reading a temporary table costs, for one process and for several.
 *
 * Called while paths are made (plan_paths.c), and by the planner hook for the serial
 * plan that comes first.  The terms are few:
 *
 *  - once a query: parallel_temp.worker_start_cost for each worker, as far as
 *    parallel_setup_cost does not cover it, and looking at the buffers for pages to
 *    share.  A scan that processes divide pays for it, as there is one in every
 *    parallel plan;
 *  - once a table: pinning its pages; or, where nothing can be shared, the flush by
 *    the published formula, per dirty page of the table and per allocated buffer;
 *  - in each worker that runs stock code on a table: making buffers of its own, and
 *    parallel_temp.enter_page_cost for each page of the table and its indexes (or of
 *    its TOAST table);
 *  - what processes do not divide each of them does, and if they are more than there
 *    are processors that takes longer, too;
 *  - a page: parallel_temp.held_page_cost if it is in temporary buffers, else what
 *    the server takes (plan_held.c).  A scan that processes divide divides its pages,
 *    too: those of a file are mostly in the kernel's memory.
 *
 * "make bench-sweep" compares what is chosen by these with what is faster, and
 * "lab/run calibrate" measures the constants.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "utils/rel.h"

#include "buffers/localbuf.h"
#include "compat_planner.h"
#include "compat_storage.h"
#include "parallel/plan_prices.h"
#include "parallel/pool.h"
#include "parallel_temp.h"

/* Sharing, in units of seq_page_cost: looking at a buffer, pinning a page. */
#define LOOK_AT_BUFFER_COST		0.002
#define PIN_PAGE_COST			0.01

/* In a worker that runs stock code: making a buffer, as part of entering a page. */
#define START_BUFFER_PART		0.15

/* So many buffers, at most, are looked at for an estimate. */
#define SAMPLED_BUFFERS			1024

/*
 * A table that is too small for a sample of many buffers counts as held: its pages
 * cost little in any case.
 */
static double
held_part(Relation relation, double pages)
{
	int			step = Max(NLocBuffer / SAMPLED_BUFFERS, 1);
	RelFileLocator_compat locator = rd_locator_compat(relation);
	double		held = 0;

	if (NLocBuffer == 0)
		return 0;
	if (pages < 16 * step)
		return 1.0;
	for (int i = 0; i < NLocBuffer; i += step)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);

		if ((BufStateRead_compat(desc) & BM_TAG_VALID) &&
			RelFileLocatorEquals_compat(BufTagGetRelFileLocator_compat(&desc->tag), locator) &&
			BufTagGetForkNum_compat(&desc->tag) == MAIN_FORKNUM)
			held += step;
	}
	return Min(held / pages, 1.0);
}

const HeldTable *
held_table(Planning *planning, Relation relation)
{
	HeldTable  *table;
	ListCell   *lc;

	foreach(lc, planning->held)
	{
		table = lfirst(lc);
		if (table->relid == RelationGetRelid(relation))
			return table;
	}
	table = palloc(sizeof(HeldTable));
	table->relid = RelationGetRelid(relation);
	table->pages = RelationGetNumberOfBlocks(relation);
	table->part = held_part(relation, table->pages);
	planning->held = lappend(planning->held, table);
	return table;
}

Cost
held_page_price(Cost page_cost, double held)
{
	return held * Min(pt_held_page_cost, page_cost) + (1 - held) * page_cost;
}

/*
 * The server takes 50 operators for each page on the way (DEFAULT_PAGE_CPU_MULTIPLIER).
 * With the pages of index and table that are priced one by one, a look-up would cost 0.6 to
 * 0.75 of a page from a disk.  It takes 0.2 to 0.6 in the order of the index, 0.3 to 1.2 at
 * random, in tables from 20,000 rows to 4 million (on one machine).  With half of it, it is in the middle.
 */
Cost
descent_saving(int tree_height)
{
	return tree_height < 0 ? 0 : (tree_height + 1) * 50 * cpu_operator_cost / 2;
}

Cost
workers_start_cost(int workers)
{
	return Max(workers * pt_worker_start_cost - parallel_setup_cost, 0);
}

void
table_prices(Planning *planning, TablePrices *prices, RelOptInfo *rel, Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	int			allocated;
	int			dirty;

	prices->held = planning->prices ? held_table(planning, relation)->part : 0;
	prices->flush = !pool_usable();
	if (prices->flush)
	{
		localbuf_count(&relation, 1, &allocated, &dirty);
		prices->table = seq_page_cost * (pt_flush_page_cost * dirty + pt_scan_buffer_cost * allocated);
	}
	else
	{
		prices->query = seq_page_cost * LOOK_AT_BUFFER_COST * NLocBuffer;
		prices->table = seq_page_cost * PIN_PAGE_COST * Min(rel->pages, NLocBuffer);
	}
	table_close(relation, NoLock);
}

double
parallel_divisor(int workers)
{
	double		divisor = workers;

	/* The leader helps less, the more workers there are. */
	if (parallel_leader_participation && workers < 4)
		divisor += 1.0 - 0.3 * workers;
	return divisor;
}

Cost
stock_start_cost(double pages)
{
	return pt_enter_page_cost * (START_BUFFER_PART * num_temp_buffers + pages);
}

Cost
toast_start_cost(RelOptInfo *rel, Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	Oid			toast_relid = relation->rd_rel->reltoastrelid;
	TupleDesc	desc = RelationGetDescr(relation);
	Bitmapset  *attrs = NULL;
	BlockNumber pages = 0;
	int			attr = -1;
	bool		found = false;

	if (OidIsValid(toast_relid))
	{
		Relation	toast = table_open(toast_relid, AccessShareLock);

		pages = RelationGetNumberOfBlocks(toast);
		table_close(toast, NoLock);
	}
	if (pages > 0)
	{
		pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attrs);
		pull_varattnos((Node *) extract_actual_clauses(rel->baserestrictinfo, false), rel->relid, &attrs);
	}
	while (!found && (attr = bms_next_member(attrs, attr)) >= 0)
	{
		int			attno = attr + FirstLowInvalidHeapAttributeNumber;

		found = attno == 0 ||
			(attno > 0 && TupleDescAttr(desc, attno - 1)->attlen == -1 &&
			 TupleDescAttr(desc, attno - 1)->attstorage != TYPSTORAGE_PLAIN);
	}
	table_close(relation, NoLock);
	return found ? stock_start_cost(pages) : 0;
}

/*
 * If stock code in workers reads more pages than can be pinned, the leader leaves
 * its part of that work to them ("out"), or runs the plan "alone" (pool_share.c).
 */
static void
leader_foreseen(Planning *planning, TempPlan *plan, bool *out, bool *alone)
{
	double		room = (NLocBuffer > 0 ? Min(NLocBuffer, num_temp_buffers) : num_temp_buffers) - share_unpinned_buffers(plan);
	double		stock_pages = 0;
	ListCell   *lc;
	ListCell   *lc2;

	*alone = plan->hazard || plan->gathers > 1;
	foreach(lc, plan->uses)
	{
		TempUse    *use = lfirst(lc);
		Relation	relation;
		const HeldTable *table;

		if (!use->own_below && !use->stock_below)
			continue;
		relation = table_open(use->relid, NoLock);
		table = held_table(planning, relation);
		if (use->stock_below)
		{
			stock_pages += table->pages;
			if (use->stock_above)
				*alone = true;
		}
		else
			room -= table->part * table->pages;
		table_close(relation, NoLock);
		foreach(lc2, use->indexes)
		{
			Relation	index = index_open(lfirst_oid(lc2), AccessShareLock);

			stock_pages += RelationGetNumberOfBlocks(index);
			index_close(index, NoLock);
		}
	}
	/* of pages that processes divide each reads its own, wherever they are */
	*out = stock_pages > Max(room, 0);
	*alone = *alone && *out;
}

Cost
processes_cost(Planning *planning, TempPlan *plan, Cost repeated)
{
	double		processors = sysconf(_SC_NPROCESSORS_ONLN);
	double		divisor = parallel_divisor(plan->workers);
	double		processes;
	double		running;
	bool		out;
	bool		alone;

	if (plan->workers == 0)
		return 0;
	leader_foreseen(planning, plan, &out, &alone);
	processes = alone ? 1 : plan->workers + (out || !parallel_leader_participation ? 0 : 1);
	running = Min(processes, Max(processors, 2));

	/*
	 * all of the divided part's time, and as many times the repeated one's as
	 * there are processes
	 */
	repeated = Min(repeated, plan->divided);
	return (plan->divided - repeated) * divisor / running + repeated * processes / running - plan->divided;
}

/*
 * For as many rows as the smallest table has that the path depends on.
 */
double
path_loop_count(PlannerInfo *root, Relids outer)
{
	double		result = 0;
	int			relid = -1;

	while ((relid = bms_next_member(outer, relid)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[relid];

		if (rel != NULL && !IS_DUMMY_REL(rel) && (result == 0 || rel->rows < result))
			result = rel->rows;
	}
	return Max(result, 1.0);
}

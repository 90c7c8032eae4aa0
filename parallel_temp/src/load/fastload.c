/*-------------------------------------------------------------------------
 *
 * fastload.c
 *	  Fast load: when it starts, and who must see its rows before it ends.
 *
 * fastload_run_begin() decides: a statement whose rows go into a new table gets a receiver
 * in front of the server's (fastload_ctas.c), an insertion into a temporary table
 * is taken over (fastload_insert.c) or finds callbacks of ours in the table's access
 * method (fastload_am.c), as COPY does.  Each has one FastFill in its record (query.c)
 * for the time of its ExecutorRun or COPY, and leaves it when that returns or fails.
 *
 * While a load runs, functions in its query may start statements of their own.  One
 * that names the table being filled must find every row that the server's own path
 * would have put there, so the load is handed back first, and its frozen rows
 * become ordinary ones: ExecutorStart looks at the relations of each nested plan,
 * ProcessUtility at the few utility statements that read a table.  A statement that
 * puts rows into a partitioned table does not name the partition that they get to.
 *
 * Rows are frozen under the conditions of COPY FREEZE and one more: a statement of
 * the user's own, not one inside a function or DO block, whose caller's snapshot
 * may be older than the table.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/snapmgr.h"

#include "compat_executor.h"
#include "load/fastload_pages.h"
#include "parallel_temp.h"
#include "query.h"

#define READS_TABLE "the statement reads the table while filling it"

/*
 * Says why the bulk writer must leave a relation alone; NULL if it need not.  What
 * matters only to INSERT is fastload_insert.c's to ask.
 */
const char *
fastload_unfit(Relation rel)
{
	if (!pt_fast_load)
		return "parallel_temp.fast_load is off";
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP || !rel->rd_islocaltemp)
		return "not a temporary table of this session";
	if (rel->rd_tableam != GetHeapamTableAmRoutine())
		return "the table's access method is not heap";
	if (IsParallelWorker())
		return "a parallel worker";
	return NULL;
}

/*
 * The statement is over: after success its load has been handed back, after an error
 * perhaps not.
 */
static void
fill_leave(FastFill *fill)
{
	fastload_override_restore(fill);
	if (fill->load != NULL)
		fastload_abandon(fill->load);
}

/*
 * A statement is about to fill a relation that fastload_unfit() found no fault with.
 */
FastFill *
fastload_fill_begin(PtQuery *query, Relation rel, MemoryContext context)
{
	FastFill   *fill = MemoryContextAllocZero(context, sizeof(FastFill));

	fill->rel = rel;
	fill->relid = RelationGetRelid(rel);
	fill->context = context;
	fill->nest_level = GetCurrentTransactionNestLevel();
	fill->first_new_block = RelationGetNumberOfBlocks(rel);
	query_set_fill(query, fill, fill_leave);
	return fill;
}

/*
 * The bulk writer takes the rows from now on.
 */
void
fastload_fill_load(FastFill *fill, CommandId cid, bool freeze)
{
	Assert(fill->load == NULL && fill->given_up == NULL);
	fill->load = fastload_begin(fill->rel, cid, freeze, fill->context);
	if (fill->in_buffers)
		fastload_stay_in_buffers(fill->load);
	if (fill->scanned)
		fastload_keep_length(fill->load);
}

/*
 * Heap has put rows, the last one at "tid": go on with the bulk writer?  Not for the
 * first few; the row must be on a page that the statement has added, and that must be
 * the last one of the table, whatever heap has added ahead.
 */
void
fastload_fill_consider(FastFill *fill, ItemPointer tid, CommandId cid)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);

	if (fill->load != NULL || fill->rebuilt || fill->rows <= FEW_ROWS || block < fill->first_new_block ||
		(!fill->scanned && fastload_held_open(fill->rel, fill->own_references)) ||
		block + 1 != RelationGetNumberOfBlocks(fill->rel))
		return;
	fastload_fill_load(fill, cid, fill->may_freeze != NULL && fill->may_freeze());
	fastload_continue_at_end(fill->load);
}

/*
 * Why not all rows of a statement that has put its last one, and is about to end its
 * load, went to the bulk writer, or NULL.  "held_open" says that a cursor or an outer query has the table open.
 */
const char *
fastload_fill_why_not(const FastFill *fill, bool held_open)
{
	if (fill->given_up)
		return fill->given_up;
	if (fill->load == NULL)
		return held_open ? "a cursor or an outer query has the table open" :
			"few rows, or room for them in the table";
	return fill->load->state == LOAD_HANDED_BACK ? READS_TABLE : NULL;
}

static bool
may_freeze_from_the_start(void)
{
	return true;
}

/*
 * Workers are about to start for a statement.  The server's parallel scans register a
 * snapshot of their own in the leader, too, so whether rows may be frozen can only be
 * asked before.
 */
static void
settle_freezing(FastFill *fill)
{
	if (fill->may_freeze != NULL)
		fill->may_freeze = fill->may_freeze() ? may_freeze_from_the_start : NULL;
}

/*
 * Another plan starts before the load has a row.  It may be a cursor's, with a snapshot
 * that must not see the rows.
 */
static void
unsettle_freezing(FastFill *fill)
{
	if (fill->may_freeze != may_freeze_from_the_start || (fill->load != NULL && fill->load->tuples > 0))
		return;
	fill->may_freeze = NULL;
	if (fill->load != NULL)
		fill->load->frozen = false;
}

/*
 * COPY FREEZE's conditions that do not depend on the table: no snapshot but this
 * statement's own is registered.  A statement around this one has its own, so the
 * depth decides nothing alone, and only spares the look.  An open cursor has its own
 * registered, so portals need no look (ThereAreNoReadyPortals() leaks a hash scan
 * when there are some).
 */
bool
fastload_may_freeze(void)
{
	if (query_executor_depth() > 1 || query_utility_depth() > 0)
		return false;
	InvalidateCatalogSnapshot();
	return ThereAreNoPriorRegisteredSnapshots();
}

/*
 * The same while a COPY runs, which is a utility statement itself and has only
 * pushed its snapshot, so that a single registered one would be somebody else's.
 */
bool
fastload_copy_may_freeze(void)
{
	Snapshot	own;
	bool		result;

	if (query_executor_depth() > 0 || query_utility_depth() > 1 || !ActiveSnapshotSet())
		return false;
	own = RegisterSnapshot(GetActiveSnapshot());
	InvalidateCatalogSnapshot();
	result = ThereAreNoPriorRegisteredSnapshots();
	UnregisterSnapshot(own);
	return result;
}

/*
 * May this plan read or change the relation?  It names all that it may, except the
 * partitions that rows are routed to.
 */
bool
fastload_may_use(PlannedStmt *plan, Relation rel)
{
	ListCell   *cell;

	if (list_member_oid(plan->relationOids, RelationGetRelid(rel)))
		return true;
	if (!rel->rd_rel->relispartition || (plan->commandType == CMD_SELECT && !plan->hasModifyingCTE))
		return false;
	foreach(cell, plan->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_PARTITIONED_TABLE)
			return true;
	}
	return false;
}

/*
 * Somebody is about to look at the table: he must find every row where heap would
 * have put it, and heap's routine.
 */
static void
fill_give_up(FastFill *fill, const char *why)
{
	if (fastload_is_loading(fill))
		fastload_hand_back(fill->load, true);
	if (fill->overrides)
	{
		fill->given_up = why;
		fastload_override_end(fill);
	}
}

/*
 * Loads are about to be handed back: not if rows may have passed by one of them.
 */
static void
check_fills(void)
{
	FastFill   *fill;

	foreach_fill(fill)
	{
		if (fill->overrides)
			fastload_override_check(fill);
	}
}

/*
 * A plan is about to start while tables are being filled.
 */
void
fastload_before_plan(PlannedStmt *plan)
{
	FastFill   *fill;

	check_fills();
	foreach_fill(fill)
		unsettle_freezing(fill);
	if (plan->relationOids == NIL)
		return;
	foreach_fill(fill)
	{
		if ((fill->overrides || fastload_is_loading(fill)) && fastload_may_use(plan, fill->rel))
			fill_give_up(fill, READS_TABLE);
	}
}

/*
 * The same, and it starts now: if it is a cursor's it may outlive a load whose rows are
 * frozen, and call functions that look at them with its snapshot.
 */
void
fastload_plan_starts(QueryDesc *queryDesc)
{
	FastFill   *fill;

	fastload_before_plan(queryDesc->plannedstmt);
	foreach_fill(fill)
	{
		MemoryContext old;
		OpenPlan   *open;

		if (!fastload_is_loading(fill) || !fill->load->frozen)
			continue;
		old = MemoryContextSwitchTo(fill->context);
		open = palloc(sizeof(OpenPlan));
		open->queryDesc = queryDesc;
		open->nest_level = GetCurrentTransactionNestLevel();
		fill->load->open_plans = lappend(fill->load->open_plans, open);
		MemoryContextSwitchTo(old);
	}
}

/*
 * This plan is over; or, where it is NULL, a subtransaction, whose cursors are closed, or
 * the outer one's.  There may be a plan for each row: nothing of it is kept.
 */
static void
open_plans_end(QueryDesc *queryDesc, int nest_level, bool aborted)
{
	FastFill   *fill;

	foreach_fill(fill)
	{
		ListCell   *lc;

		if (fill->load == NULL)
			continue;
		foreach(lc, fill->load->open_plans)
		{
			OpenPlan   *open = lfirst(lc);

			if (queryDesc != NULL ? open->queryDesc != queryDesc : open->nest_level < nest_level)
				continue;
			if (queryDesc != NULL || aborted)
			{
				fill->load->open_plans = foreach_delete_current(fill->load->open_plans, lc);
				pfree(open);
			}
			else
				open->nest_level = nest_level - 1;
		}
	}
}

void
fastload_plan_ended(QueryDesc *queryDesc)
{
	open_plans_end(queryDesc, 0, false);
}

void
fastload_plans_end_level(int nest_level, bool aborted)
{
	open_plans_end(NULL, nest_level, aborted);
}

/* The server's own code has put the last row of a statement. */
static void
override_finish(FastFill *fill, const char *row_by_row)
{
	bool		held_open = !fill->scanned && fastload_held_open(fill->rel, fill->own_references);
	const char *why_not = fastload_fill_why_not(fill, held_open);

	fastload_override_end(fill);
	fastload_remember(fill->load, row_by_row, why_not);
}

/*
 * A statement that may fill a new table, or inserts, is about to run.
 */
void		pg_attribute_hot
fastload_run_begin(PtQuery *query)
{
	QueryDesc  *queryDesc = query->queryDesc;
	const char *why_not;

	if (query->dest != NULL && query->dest->mydest == DestIntoRel)
	{
		/* query_pop() puts the server's receiver back */
		if (!(queryDesc->estate->es_top_eflags & EXEC_FLAG_WITH_NO_DATA))
			queryDesc->dest = fastload_ctas_receiver(query, fastload_may_freeze());
	}
	else
	{
		why_not = fastload_insert_prepare(query);
		if (query->fill != NULL)
			query->fill->row_by_row = why_not;
		else if (why_not != NULL)
			fastload_remember(NULL, NULL, why_not);
	}
	if (queryDesc->plannedstmt->parallelModeNeeded)
	{
		if (query->fill != NULL)
			settle_freezing(query->fill);
		fastload_pages_prepare(query);
	}
}

/*
 * It has run.  Who makes its rows himself has ended his load.
 */
void
fastload_run_end(PtQuery *query)
{
	Assert(query->fill != NULL);
	if (query->fill->row_by_row != NULL)
		override_finish(query->fill, query->fill->row_by_row);
}

/*
 * A utility statement inside a load's query that may read the table being filled
 * without a plan.  Most of those that do (CREATE INDEX, CLUSTER, changes of the table
 * itself) are refused while the table is in use.  What is left looks for rows that
 * break a new constraint: of a domain, of a table that becomes a partition, of the
 * partition that takes what no other does.
 */
static bool
reads_tables(Node *statement)
{
	return IsA(statement, CopyStmt) || IsA(statement, VacuumStmt) || IsA(statement, AlterDomainStmt) ||
		IsA(statement, AlterTableStmt) ||
		(IsA(statement, CreateStmt) && ((CreateStmt *) statement)->partbound != NULL);
}

/*
 * A utility statement is about to run while tables are being filled.  One that looks
 * for rows without a plan may look at any table.  Others may touch any relcache
 * entry, which is noticed except in a subtransaction that fails: what overrides on a
 * level below gives up.
 */
void
fastload_before_utility(Node *statement)
{
	bool		reads = reads_tables(statement);
	FastFill   *fill;

	check_fills();
	foreach_fill(fill)
	{
		if (reads)
			fill_give_up(fill, READS_TABLE);
		else if (fill->overrides && GetCurrentTransactionNestLevel() > fill->nest_level)
			fill_give_up(fill, "a utility statement runs in a subtransaction");
	}
}

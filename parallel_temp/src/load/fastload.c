/*-------------------------------------------------------------------------
 *
 * fastload.c
 *	  Fast load: when it starts, and who must see its rows before it ends.
 *
 * pt_load_run_begin() decides: a statement whose rows go into a new table gets a receiver
 * in front of the server's (fastload_ctas.c), and an insertion into a temporary table
 * gets another function for its top node (fastload_insert.c).  Each has one FastFill in
 * its record (query.c) for the time of its ExecutorRun, and leaves it when that returns
 * or fails.  COPY is the server's: parsing is most of it, and the server has no place
 * below COPY's privilege checks where another writer could begin.
 *
 * While a load runs, functions in its query may start other statements.  One
 * that names the table being filled must find every row that the server's code
 * would have inserted, so the load is handed back first, and its frozen rows
 * become ordinary ones: ExecutorStart checks the relations of each nested plan,
 * ProcessUtility at the few utility statements that read a table.  A statement that
 * inserts rows into a partitioned table does not name the partition that stores them.
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
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/snapmgr.h"

#include "load/fastload.h"
#include "parallel_temp.h"
#include "query.h"

#define READS_TABLE "the statement reads the table while filling it"

/*
 * Says why the bulk writer must leave a relation alone; NULL if it need not.  What
 * matters only to INSERT is fastload_insert.c's to ask.
 */
const char *
pt_load_unfit(Relation rel)
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
 * A statement is about to fill a relation that pt_load_unfit() found no fault with.
 */
FastFill *
pt_load_fill_begin(PtQuery *query, Relation rel, MemoryContext context)
{
	FastFill   *fill = MemoryContextAllocZero(context, sizeof(FastFill));

	fill->rel = rel;
	fill->relid = RelationGetRelid(rel);
	fill->context = context;
	fill->first_new_block = RelationGetNumberOfBlocks(rel);
	pt_query_set_fill(query, fill);
	return fill;
}

/*
 * COPY FREEZE's conditions that do not depend on the table: no snapshot but this
 * statement's own is registered.  A statement around this one and an open cursor have
 * theirs registered, so portals need not be checked (ThereAreNoReadyPortals() leaks a hash
 * scan when there are some).
 */
static bool
snapshots_allow_freezing(void)
{
	if (pt_running.utility_depth > 0)
		return false;
	InvalidateCatalogSnapshot();
	return ThereAreNoPriorRegisteredSnapshots();
}

/*
 * Are the rows of an INSERT stored frozen if its load begins now?
 */
bool
pt_load_fill_freezes(const FastFill *fill)
{
	return fill->may_freeze && (fill->freezing_settled || snapshots_allow_freezing());
}

/*
 * The bulk writer takes the rows from now on.
 */
void
pt_load_fill_load(FastFill *fill, CommandId cid, bool freeze)
{
	Assert(fill->load == NULL);
	fill->load = pt_load_begin(fill->rel, cid, freeze, fill->context);
	if (fill->in_buffers)
		pt_load_stay_in_buffers(fill->load);
	if (fill->scanned)
		pt_load_keep_length(fill->load);
}

/*
 * Heap has put rows, the last one at "tid": continue with the bulk writer?  Not for the
 * first few; the row must be on a page that the statement has added, and that must be
 * the last one of the table, whatever heap has added ahead.
 */
void
pt_load_fill_consider(FastFill *fill, ItemPointer tid, CommandId cid)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);

	if (fill->load != NULL || fill->rows <= FEW_ROWS || block < fill->first_new_block ||
		pt_load_held_open(fill) || block + 1 != RelationGetNumberOfBlocks(fill->rel))
		return;
	pt_load_fill_load(fill, cid, pt_load_fill_freezes(fill));
	pt_load_continue_at_end(fill->load);
}

/*
 * Why not all rows of a statement that has put its last one, and is about to end its
 * load, went to the bulk writer, or NULL.
 */
const char *
pt_load_fill_why_not(const FastFill *fill)
{
	if (fill->load == NULL)
		return pt_load_held_open(fill) ? "a cursor or an outer query has the table open" :
			"few rows, or room for them in the table";
	return fill->load->state == LOAD_HANDED_BACK ? READS_TABLE : NULL;
}

/*
 * Workers are about to start for a statement.  The server's parallel scans register a
 * snapshot also in the leader, so whether rows may be frozen can only be determined
 * before.
 */
static void
settle_freezing(FastFill *fill)
{
	fill->may_freeze = fill->may_freeze && snapshots_allow_freezing();
	fill->freezing_settled = true;
}

/*
 * Another plan starts before the load has a row.  It may be a cursor's, with a snapshot
 * that must not see the rows.
 */
static void
unsettle_freezing(FastFill *fill)
{
	if (!fill->freezing_settled || (fill->load != NULL && fill->load->tuples > 0))
		return;
	fill->may_freeze = false;
	if (fill->load != NULL)
		fill->load->frozen = false;
}

/*
 * May this plan read or change the relation?  It names all that it may, except the
 * partitions that rows are routed to.
 */
static bool
may_use(PlannedStmt *plan, Relation rel)
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
 * The table is about to be read: every row must be found where heap would have put it.
 */
static void
hand_back(FastFill *fill)
{
	if (pt_load_is_loading(fill))
		pt_load_hand_back(fill->load, true);
}

/*
 * A plan is about to start while tables are being filled.
 */
void
pt_load_before_plan(PlannedStmt *plan)
{
	FastFill   *fill;

	foreach_fill(fill)
		unsettle_freezing(fill);
	if (plan->relationOids == NIL)
		return;
	foreach_fill(fill)
	{
		if (pt_load_is_loading(fill) && may_use(plan, fill->rel))
			hand_back(fill);
	}
}

/*
 * The same, and it starts now: if it is a cursor's it may outlive a load whose rows are
 * frozen, and call functions that read them with its snapshot.
 */
void
pt_load_plan_starts(QueryDesc *queryDesc)
{
	FastFill   *fill;

	pt_load_before_plan(queryDesc->plannedstmt);
	foreach_fill(fill)
	{
		MemoryContext old;
		OpenPlan   *open;

		if (!pt_load_is_loading(fill) || !fill->load->frozen)
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
void
pt_load_open_plans_end(QueryDesc *queryDesc, int nest_level, bool aborted)
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

/*
 * A statement that may fill a new table, or inserts, is about to run.
 */
void		pg_attribute_hot
pt_load_run_begin(PtQuery *query)
{
	QueryDesc  *queryDesc = query->queryDesc;
	const char *why_not;

	if (query->dest != NULL && query->dest->mydest == DestIntoRel)
	{
		/* pt_query_pop() puts the server's receiver back */
		if (!(queryDesc->estate->es_top_eflags & EXEC_FLAG_WITH_NO_DATA))
			queryDesc->dest = pt_load_ctas_receiver(query, snapshots_allow_freezing());
	}
	else
	{
		why_not = pt_load_insert_prepare(query);
		if (why_not != NULL)
			pt_load_remember(NULL, why_not);
	}
	if (queryDesc->plannedstmt->parallelModeNeeded)
	{
		if (query->fill != NULL)
			settle_freezing(query->fill);
		pt_load_pages_prepare(query);
	}
}

/*
 * It has run.  One with RETURNING may have been stopped before its last row.
 */
void
pt_load_run_end(PtQuery *query)
{
	FastLoad   *load = query->fill->load;

	if (load != NULL && load->state != LOAD_ENDED)
		pt_load_end(load);
}

/*
 * Its record has been popped: after success the load has been handed back, after an error
 * perhaps not.
 */
void
pt_load_run_leave(PtQuery *query)
{
	FastFill   *fill = query->fill ? pt_query_end_fill(query) : NULL;
	MemoryContext old;

	if (fill == NULL || fill->load == NULL)
		return;
	/* memory may be what the statement has run out of */
	old = MemoryContextSwitchTo(ErrorContext);
	pt_load_abandon(fill->load);
	MemoryContextSwitchTo(old);
}

/*
 * A utility statement inside a load's query that may read the table being filled
 * without a plan.  Most of those that do (CREATE INDEX, CLUSTER, changes of the table
 * itself) are refused while the table is in use.  The remaining ones search for rows that
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
 * A utility statement is about to run while tables are being filled.  One that searches
 * for rows without a plan may read any table.
 */
void
pt_load_before_utility(Node *statement)
{
	FastFill   *fill;

	if (!reads_tables(statement))
		return;
	foreach_fill(fill)
		hand_back(fill);
}

/*-------------------------------------------------------------------------
 *
 * fastload.c
 *	  Fast load: when it starts, and who must see its rows before it ends.
 *
 * fastload_run() decides: a statement whose rows go into a new table gets a receiver
 * in front of the server's (fastload_ctas.c), an insertion into a temporary table
 * is taken over (fastload_insert.c) or given another door to the table
 * (fastload_am.c).  They run inside that one ExecutorRun, so the stack of running
 * loads is cut back when it returns or fails.  COPY gets such a door in
 * ProcessUtility.
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
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "tcop/utility.h"
#include "utils/snapmgr.h"

#include "compat_executor.h"
#include "hooks.h"
#include "load/fastload.h"
#include "parallel_temp.h"

#define READS_TABLE "the statement reads the table while filling it"

static ExplainOneQuery_hook_type prev_ExplainOneQuery = NULL;

/* What to say of the statement that EXPLAIN is running, and how deep it is. */
static int	explain_depth = 0;
static FastLoadNote note;

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

/* The load's rows may be asked for by nested statements from now on. */
void
fastload_push(FastLoad *load)
{
	load->outer = statements.loads;
	statements.loads = load;
}

/*
 * A load, or a statement that did without one, is done: note it for EXPLAIN.
 * "row_by_row" says why the server made the rows ready, if it did.
 */
void
fastload_remember(const FastLoad *load, const char *row_by_row, const char *why_not)
{
	if (statements.explained == NULL || executor_depth() != explain_depth + 1)
		return;
	memset(&note, 0, sizeof(note));
	note.set = true;
	note.row_by_row = row_by_row;
	note.why_not = why_not;
	if (load != NULL)
	{
		note.frozen = load->frozen;
		note.tuples = load->tuples;
		note.pool_pages = load->pool_pages;
		note.file_pages = load->file_pages;
	}
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
	if (executor_depth() > 1 || utility_depth() > 0)
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

	if (executor_depth() > 0 || utility_depth() > 1 || !ActiveSnapshotSet())
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
 * A plan is about to start while loads are running or doors open.
 */
void
fastload_before_plan(PlannedStmt *plan)
{
	fastload_doors_check();
	for (FastLoad *load = statements.loads; load != NULL; load = load->outer)
	{
		if (!load->handed_back && fastload_may_use(plan, load->rel))
			fastload_hand_back(load, true);
	}
	if (plan->relationOids != NIL)
		fastload_doors_shut(plan, READS_TABLE);
}

/*
 * The loads that began inside are over: after success each has been handed back,
 * after an error some have not.
 */
static pg_noinline void
pop_loads(FastLoad *outer)
{
	while (statements.loads != outer)
	{
		fastload_abandon(statements.loads);
		statements.loads = statements.loads->outer;
	}
}

/* The server has put the last row through a door. */
static void
finish_door(FastDoor *door, const char *row_by_row)
{
	const char *why_not = NULL;
	bool		held_open = !door->scanned && fastload_held_open(door->rel, door->own_references);

	fastload_door_close(door);
	if (door->given_up)
		why_not = door->given_up;
	else if (door->load == NULL && held_open)
		why_not = "a cursor or an outer query has the table open";
	else if (door->load == NULL)
		why_not = "few rows, or room for them in the table";
	fastload_remember(door->load, row_by_row, why_not);
}

/*
 * Run a statement that may fill a new table, or inserts.
 */
void		pg_attribute_hot
fastload_run(EXECUTORRUN_PARAMS_compat)
{
	FastLoad   *outer_loads = statements.loads;
	FastDoor   *outer_door = statements.doors;
	DestReceiver *dest = queryDesc->dest;

	if (!pt_fast_load && statements.explained == NULL)
	{
		hooks_run(EXECUTORRUN_ARGS_compat);
		return;
	}
	PG_TRY();
	{
		FastDoor   *door = NULL;
		const char *why_not = NULL;

		if (dest != NULL && dest->mydest == DestIntoRel)
		{
			if (!(queryDesc->estate->es_top_eflags & EXEC_FLAG_WITH_NO_DATA))
				queryDesc->dest = fastload_ctas_receiver(dest, fastload_may_freeze(), queryDesc->estate->es_query_cxt);
		}
		else
		{
			why_not = fastload_insert_prepare(queryDesc, &door);
			if (why_not != NULL && door == NULL)
				fastload_remember(NULL, NULL, why_not);
		}
		hooks_run(EXECUTORRUN_ARGS_compat);
		if (door != NULL)
			finish_door(door, why_not);
	}
	PG_FINALLY();
	{
		fastload_door_forget(outer_door);
		pop_loads(outer_loads);
		queryDesc->dest = dest;
	}
	PG_END_TRY();
}

/*
 * EXPLAIN is about to print its closing lines: the place for ours.
 */
void
fastload_print(void)
{
	if (note.set && statements.explained != NULL && executor_depth() == explain_depth)
	{
		StringInfoData text;

		note.set = false;
		initStringInfo(&text);
		if (note.tuples > 0)
			appendStringInfo(&text, UINT64_FORMAT " rows%s, new pages: " UINT64_FORMAT " in local buffers, "
							 UINT64_FORMAT " to the file",
							 note.tuples, note.frozen ? " frozen" : "", note.pool_pages, note.file_pages);
		if (note.tuples > 0 && note.row_by_row != NULL)
			appendStringInfo(&text, "; row by row (%s)", note.row_by_row);
		if (note.why_not != NULL)
			appendStringInfo(&text, "%s (%s)", note.tuples > 0 ? "; then given up" : "not used", note.why_not);
		if (text.len == 0)
			appendStringInfoString(&text, "no rows");
		ExplainPropertyText("Fast Load", text.data, statements.explained);
		pfree(text.data);
	}
}

static void
fastload_ExplainOneQuery(EXPLAINONEQUERY_PARAMS_compat)
{
	ExplainState *outer_state = statements.explained;
	int			outer_depth = explain_depth;

	statements.explained = es->analyze && pt_explain ? es : NULL;
	explain_depth = executor_depth();
	note.set = false;
	PG_TRY();
	{
		if (prev_ExplainOneQuery)
			prev_ExplainOneQuery(EXPLAINONEQUERY_ARGS_compat);
		else
			standard_ExplainOneQuery_compat(EXPLAINONEQUERY_ARGS_compat);
	}
	PG_FINALLY();
	{
		statements.explained = outer_state;
		explain_depth = outer_depth;
		note.set = false;
	}
	PG_END_TRY();
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

bool		pg_attribute_hot
fastload_may_copy(Node *statement)
{
	return pt_fast_load && IsA(statement, CopyStmt) && ((CopyStmt *) statement)->is_from;
}

/*
 * COPY into a table that the bulk writer may fill.
 */
void
fastload_copy(PROCESSUTILITY_PARAMS_compat)
{
	FastLoad   *outer_loads = statements.loads;
	FastDoor   *outer_door = statements.doors;
	FastDoor   *volatile door = NULL;

	PG_TRY();
	{
		door = fastload_copy_prepare((CopyStmt *) pstmt->utilityStmt);
		statements.next_utility(PROCESSUTILITY_ARGS_compat);
		if (door != NULL)
			fastload_door_close(door);
	}
	PG_CATCH();
	{
		fastload_door_forget(outer_door);
		pop_loads(outer_loads);
		PG_RE_THROW();
	}
	PG_END_TRY();
	fastload_door_forget(outer_door);
	pop_loads(outer_loads);
	if (door != NULL)
		table_close(door->rel, NoLock);
}

/*
 * A utility statement is about to run while loads are running or doors open.
 */
void
fastload_before_utility(Node *statement)
{
	fastload_doors_check();
	if (!reads_tables(statement))
	{
		fastload_doors_shut_above(GetCurrentTransactionNestLevel(), "a utility statement runs in a subtransaction");
		return;
	}
	for (FastLoad *load = statements.loads; load != NULL; load = load->outer)
	{
		if (!load->handed_back)
			fastload_hand_back(load, true);
	}
	fastload_doors_shut(NULL, READS_TABLE);
}

void
fastload_install(void)
{
	prev_ExplainOneQuery = ExplainOneQuery_hook;
	ExplainOneQuery_hook = fastload_ExplainOneQuery;
}

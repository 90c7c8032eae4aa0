/*-------------------------------------------------------------------------
 *
 * fastload.c
 *	  Fast load: when it starts, and who must see its rows before it ends.
 *
 * ExecutorRun decides: a statement whose rows go into a new table gets a receiver
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
 * ProcessUtility at the few utility statements that read a table.
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

#include "fastload.h"
#include "parallel_temp.h"

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorEnd_hook_type prev_ExecutorEnd = NULL;
static ProcessUtility_hook_type prev_ProcessUtility = NULL;
static ExplainOneQuery_hook_type prev_ExplainOneQuery = NULL;
static object_access_hook_type prev_object_access = NULL;

/* Loads in progress, innermost first. */
static FastLoad *loads = NULL;

/* How deep in ExecutorRun, and in utility statements that run others. */
static int	executor_depth = 0;
static int	utility_depth = 0;

/* The statement that EXPLAIN is running, and what to say of it. */
static ExplainState *explain_state = NULL;
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
	load->outer = loads;
	loads = load;
}

/*
 * A load, or a statement that did without one, is done: note it for EXPLAIN.
 * "row_by_row" says why the server made the rows ready, if it did.
 */
void
fastload_remember(const FastLoad *load, const char *row_by_row, const char *why_not)
{
	if (explain_state == NULL || executor_depth != explain_depth + 1)
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
 * statement's own is registered.  An open cursor has its own registered, so portals
 * need no look (ThereAreNoReadyPortals() leaks a hash scan when there are some).
 */
bool
fastload_may_freeze(void)
{
	if (executor_depth > 1 || utility_depth > 0)
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

	if (executor_depth > 0 || utility_depth > 1 || !ActiveSnapshotSet())
		return false;
	own = RegisterSnapshot(GetActiveSnapshot());
	InvalidateCatalogSnapshot();
	result = ThereAreNoPriorRegisteredSnapshots();
	UnregisterSnapshot(own);
	return result;
}

static void
fastload_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	for (FastLoad *load = loads; load != NULL; load = load->outer)
	{
		if (!load->handed_back &&
			list_member_oid(queryDesc->plannedstmt->relationOids, load->relid))
			fastload_hand_back(load, true);
	}
	if (queryDesc->plannedstmt->relationOids != NIL)
		fastload_doors_shut(queryDesc->plannedstmt->relationOids);
	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

/*
 * The loads that began inside are over: after success each has been handed back,
 * after an error some have not.
 */
static pg_noinline void
pop_loads(FastLoad *outer)
{
	while (loads != outer)
	{
		fastload_abandon(loads);
		loads = loads->outer;
	}
}

/* The server has put the last row through a door. */
static void
finish_door(FastDoor *door, const char *row_by_row)
{
	const char *why_not = NULL;

	fastload_door_close(door);
	if (door->given_up)
		why_not = "the statement reads the table while filling it";
	else if (door->load == NULL)
		why_not = "few rows, or room for them in the table";
	fastload_remember(door->load, row_by_row, why_not);
}

static void
fastload_ExecutorRun(EXECUTORRUN_PARAMS_compat)
{
	FastLoad   *outer_loads = loads;
	FastDoor   *outer_door = fastload_innermost_door();
	DestReceiver *dest = queryDesc->dest;

	executor_depth++;
	PG_TRY();
	{
		FastDoor   *door = NULL;
		const char *why_not = NULL;

		if (pt_fast_load || explain_state != NULL)
		{
			if (dest != NULL && dest->mydest == DestIntoRel &&
				!(queryDesc->estate->es_top_eflags & EXEC_FLAG_WITH_NO_DATA))
				queryDesc->dest = fastload_ctas_receiver(dest, fastload_may_freeze(), queryDesc->estate->es_query_cxt);
			else if (queryDesc->operation == CMD_INSERT)
			{
				why_not = fastload_insert_prepare(queryDesc, &door);
				if (why_not != NULL && door == NULL)
					fastload_remember(NULL, NULL, why_not);
			}
		}
		if (prev_ExecutorRun)
			prev_ExecutorRun(EXECUTORRUN_ARGS_compat);
		else
			standard_ExecutorRun(EXECUTORRUN_ARGS_compat);
		if (door != NULL)
			finish_door(door, why_not);
	}
	PG_CATCH();
	{
		executor_depth--;
		fastload_door_forget(outer_door);
		pop_loads(outer_loads);
		queryDesc->dest = dest;
		PG_RE_THROW();
	}
	PG_END_TRY();
	executor_depth--;
	fastload_door_forget(outer_door);
	pop_loads(outer_loads);
	queryDesc->dest = dest;
}

/*
 * EXPLAIN is about to print its closing lines: the place for ours.
 */
static void
fastload_ExecutorEnd(QueryDesc *queryDesc)
{
	if (note.set && explain_state != NULL && executor_depth == explain_depth)
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
		ExplainPropertyText("Fast Load", text.data, explain_state);
		pfree(text.data);
	}
	if (prev_ExecutorEnd)
		prev_ExecutorEnd(queryDesc);
	else
		standard_ExecutorEnd(queryDesc);
}

static void
fastload_ExplainOneQuery(EXPLAINONEQUERY_PARAMS_compat)
{
	ExplainState *outer_state = explain_state;
	int			outer_depth = explain_depth;

	explain_state = es->analyze && pt_explain ? es : NULL;
	explain_depth = executor_depth;
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
		explain_state = outer_state;
		explain_depth = outer_depth;
		note.set = false;
	}
	PG_END_TRY();
}

/*
 * A utility statement inside a load's query that reads tables without a plan.
 */
static bool
reads_tables(Node *statement)
{
	return IsA(statement, CopyStmt) || IsA(statement, VacuumStmt);
}

static bool
fills_table(Node *statement)
{
	return pt_fast_load && IsA(statement, CopyStmt) && ((CopyStmt *) statement)->is_from;
}

/*
 * COPY into a table that the bulk writer may fill.
 */
static void
copy_through_door(PROCESSUTILITY_PARAMS_compat)
{
	FastLoad   *outer_loads = loads;
	FastDoor   *outer_door = fastload_innermost_door();
	FastDoor   *volatile door = NULL;

	PG_TRY();
	{
		door = fastload_copy_prepare((CopyStmt *) pstmt->utilityStmt);
		if (prev_ProcessUtility)
			prev_ProcessUtility(PROCESSUTILITY_ARGS_compat);
		else
			standard_ProcessUtility(PROCESSUTILITY_ARGS_compat);
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

static void
fastload_ProcessUtility(PROCESSUTILITY_PARAMS_compat)
{
	Node	   *statement = pstmt->utilityStmt;

	/*
	 * The user's own CREATE TABLE AS, EXPLAIN or EXECUTE is as good as the
	 * query in it; any other utility statement may run queries of functions.
	 */
	bool		transparent = context == PROCESS_UTILITY_TOPLEVEL &&
		(IsA(statement, CreateTableAsStmt) || IsA(statement, ExplainStmt) || IsA(statement, ExecuteStmt));
	volatile int outer_depth = utility_depth;

	if (loads != NULL && reads_tables(statement))
	{
		for (FastLoad *load = loads; load != NULL; load = load->outer)
		{
			if (!load->handed_back)
				fastload_hand_back(load, true);
		}
	}
	if (reads_tables(statement))
		fastload_doors_shut(NIL);

	if (!transparent)
		utility_depth++;
	PG_TRY();
	{
		if (fills_table(statement))
			copy_through_door(PROCESSUTILITY_ARGS_compat);
		else if (prev_ProcessUtility)
			prev_ProcessUtility(PROCESSUTILITY_ARGS_compat);
		else
			standard_ProcessUtility(PROCESSUTILITY_ARGS_compat);
	}
	PG_FINALLY();
	{
		utility_depth = outer_depth;
	}
	PG_END_TRY();
}

/*
 * How many utility statements are running inside each other, the user's own
 * included (CREATE TABLE AS, EXPLAIN and EXECUTE do not count).
 */
int
fastload_utility_depth(void)
{
	return utility_depth;
}

static void
fastload_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, classId, objectId, subId, arg);
	if (access == OAT_POST_CREATE && classId == RelationRelationId && subId == 0)
		fastload_ctas_saw_relation(objectId);
}

void
fastload_install(void)
{
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = fastload_ExecutorStart;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = fastload_ExecutorRun;
	prev_ExecutorEnd = ExecutorEnd_hook;
	ExecutorEnd_hook = fastload_ExecutorEnd;
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = fastload_ProcessUtility;
	prev_ExplainOneQuery = ExplainOneQuery_hook;
	ExplainOneQuery_hook = fastload_ExplainOneQuery;
	prev_object_access = object_access_hook;
	object_access_hook = fastload_object_access;
}

/*-------------------------------------------------------------------------
 *
 * query.c
 *	  The stack of statements that are running, as far as they concern the library.
 *
 * A record is pushed where the library begins to have to do with a statement
 * (hooks.c for the executor and utility statements, plan.c, fastload_explain.c) and
 * popped there, after success and after an error: nowhere else, and nothing else
 * remembers what is running.  Most statements have none; of them only the depth is
 * counted, which is put right when a record around them is popped, or by hooks.c.
 *
 * Nothing here calls up.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"
#include "storage/proc.h"

#include "compat_executor.h"
#include "query.h"

PtRunning	pt_running pg_attribute_aligned(PG_CACHE_LINE_SIZE);

static void (*watch_executor) (void) = NULL;

void
query_watch_executor_by(void (*watch) (void))
{
	watch_executor = watch;
}

void
query_watch_executor(void)
{
	watch_executor();
}

int			pg_attribute_hot
query_executor_depth(void)
{
	return pt_running.transaction == CurrentLxid_compat ? pt_running.executor_depth : 0;
}

int
query_utility_depth(void)
{
	return pt_running.utility_depth;
}

bool
query_into_temporary(const IntoClause *into)
{
	return into != NULL && into->rel->relpersistence == RELPERSISTENCE_TEMP && !into->skipData;
}

bool
query_is_explained(void)
{
	return pt_running.explain_depth > 0;
}

/* Is the statement that EXPLAIN shows being planned? */
static bool
explained_is_planned(const PtQuery *explained)
{
	return explained != NULL && !explained->explained_runs && query_executor_depth() == explained->executor_depth;
}

void
query_note_serial_source(const char *reason, uint64 planning)
{
	PtQuery    *explained = pt_running.explained;

	/*
	 * the first planning is its own; functions that the planner calls have
	 * others
	 */
	if (explained_is_planned(explained) && planning == explained->plannings + 1)
		explained->serial_source = reason ? MemoryContextStrdup(explained->explain_context, reason) : NULL;
}

void
query_note_statistics(Oid relid)
{
	PtQuery    *explained = pt_running.explained;
	MemoryContext old;

	if (!explained_is_planned(explained))
		return;
	old = MemoryContextSwitchTo(explained->explain_context);
	explained->statistics = list_append_unique_oid(explained->statistics, relid);
	MemoryContextSwitchTo(old);
}

void
query_push(PtQuery *query)
{
	memset(query, 0, sizeof(PtQuery));
	query->outer = pt_running.innermost;
	query->executor_depth = query_executor_depth();
	query->utility_depth = pt_running.utility_depth;
	query->explain_depth = pt_running.explain_depth;
	query->explained = pt_running.explained;
	query->plannings = pt_running.plannings;
	pt_running.innermost = query;
}

void
query_pop(PtQuery *query)
{
	/* Whoever pushes catches every error, so no record inside is left. */
	Assert(pt_running.innermost == query);

	if (query->queryDesc != NULL)
	{
		query->queryDesc->plannedstmt = query->plannedstmt;
		query->queryDesc->estate->es_range_table = query->range_table;
		query->queryDesc->dest = query->dest;
	}
	if (query->stays_out)
		parallel_leader_participation = query->participation;
	pt_running.executor_depth = query->executor_depth;
	pt_running.utility_depth = query->utility_depth;
	pt_running.explain_depth = query->explain_depth;
	pt_running.explained = query->explained;
	pt_running.innermost = query->outer;
	if (query->fill != NULL)
		query_end_fill(query);
	Assert(pt_running.innermost != NULL || pt_running.fills == 0);
}

void
query_set_run(PtQuery *query, QueryDesc *queryDesc)
{
	Assert(query->queryDesc == NULL && queryDesc->estate != NULL);
	query->queryDesc = queryDesc;
	query->plannedstmt = queryDesc->plannedstmt;
	query->range_table = queryDesc->estate->es_range_table;
	query->dest = queryDesc->dest;
}

void
query_set_fill(PtQuery *query, struct FastFill *fill, void (*leave) (struct FastFill *fill))
{
	Assert(query->fill == NULL && fill != NULL);
	query->fill = fill;
	query->leave_fill = leave;
	pt_running.fills++;
}

void
query_end_fill(PtQuery *query)
{
	struct FastFill *fill = query->fill;

	Assert(fill != NULL && pt_running.fills > 0);
	query->fill = NULL;
	pt_running.fills--;
	query->leave_fill(fill);
}

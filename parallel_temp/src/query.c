/*-------------------------------------------------------------------------
 *
 * query.c
 *	  The stack of statements that are running, as far as they concern the library.
 *
 * A record is pushed where the library begins to have to do with a statement
 * (parallel_temp.c for the executor and utility statements, plan.c, fastload_explain.c) and
 * popped there, after success and after an error: nowhere else, and nothing else
 * remembers what is running.  Most statements have none; of them only the depth is
 * counted, which is put right when a record around them is popped, or by parallel_temp.c.
 *
 * Nothing here calls up: the executor's hooks are only stored here, so that every part of
 * the library can have them put back.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/execnodes.h"

#include "compat_executor.h"
#include "query.h"

PtRunning	pt_running pg_attribute_aligned(PG_CACHE_LINE_SIZE);

/* The executor's hooks: ours, and those that were there before. */
static struct
{
	ExecutorStart_hook_type start;
	ExecutorRun_hook_type run;
	ExecutorEnd_hook_type end;
}			ours, before;

void
pt_query_set_executor_hooks(ExecutorStart_hook_type start, ExecutorRun_hook_type run, ExecutorEnd_hook_type end)
{
	before.start = ExecutorStart_hook;
	before.run = ExecutorRun_hook;
	before.end = ExecutorEnd_hook;
	ExecutorStart_hook = ours.start = start;
	ExecutorRun_hook = ours.run = run;
	ExecutorEnd_hook = ours.end = end;
}

void
pt_query_check_executor_hooks(void)
{
	if (unlikely(ExecutorStart_hook == before.start))
		ExecutorStart_hook = ours.start;
	if (unlikely(ExecutorRun_hook == before.run))
		ExecutorRun_hook = ours.run;
	if (unlikely(ExecutorEnd_hook == before.end))
		ExecutorEnd_hook = ours.end;
}

int			pg_attribute_hot
pt_query_executor_depth(void)
{
	return pt_running.transaction == CurrentLxid_compat ? pt_running.executor_depth : 0;
}

bool
pt_query_into_temporary(const IntoClause *into)
{
	return into != NULL && into->rel->relpersistence == RELPERSISTENCE_TEMP && !into->skipData;
}

bool
pt_query_is_explained(void)
{
	return pt_running.explain_depth > 0;
}

/* Is the statement that EXPLAIN shows being planned? */
static bool
explained_is_planned(const PtQuery *explained)
{
	return explained != NULL && !explained->explained_runs && pt_query_executor_depth() == explained->executor_depth;
}

bool		pg_attribute_hot
pt_query_fills_new_table(const Query *parse, const char *query_string)
{
	PtQuery    *query = pt_running.innermost;

	return query != NULL && query->fills_new != NULL && query->fills_new->commandType == CMD_SELECT &&
		parse->commandType == CMD_SELECT && query->fills_new_text == query_string &&
		query->fills_new->queryId == parse->queryId &&
		query->fills_new->stmt_location == parse->stmt_location && query->fills_new->stmt_len == parse->stmt_len;
}

void
pt_query_note_serial_source(const Query *insert, const char *reason)
{
	PtQuery    *explained = pt_running.explained;

	if (explained != NULL && explained->explained_query == insert)
		explained->serial_source = reason ? MemoryContextStrdup(explained->explain_context, reason) : NULL;
}

void
pt_query_note_statistics(Oid relid)
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
pt_query_push(PtQuery *query)
{
	memset(query, 0, sizeof(PtQuery));
	query->outer = pt_running.innermost;
	query->executor_depth = pt_query_executor_depth();
	query->utility_depth = pt_running.utility_depth;
	query->explain_depth = pt_running.explain_depth;
	query->explained = pt_running.explained;
	pt_running.innermost = query;
}

void
pt_query_pop(PtQuery *query)
{
	/*
	 * The caller of pt_query_push() catches every error, so no inner record
	 * is left.
	 */
	Assert(pt_running.innermost == query);

	if (query->queryDesc != NULL)
	{
		query->queryDesc->plannedstmt = query->plannedstmt;
		query->queryDesc->estate->es_range_table = query->range_table;
		query->queryDesc->dest = query->dest;
	}
	pt_running.executor_depth = query->executor_depth;
	pt_running.utility_depth = query->utility_depth;
	pt_running.explain_depth = query->explain_depth;
	pt_running.explained = query->explained;
	pt_running.innermost = query->outer;
}

void
pt_query_set_run(PtQuery *query, QueryDesc *queryDesc)
{
	Assert(query->queryDesc == NULL && queryDesc->estate != NULL);
	query->queryDesc = queryDesc;
	query->plannedstmt = queryDesc->plannedstmt;
	query->range_table = queryDesc->estate->es_range_table;
	query->dest = queryDesc->dest;
}

void
pt_query_set_fill(PtQuery *query, struct FastFill *fill)
{
	Assert(query->fill == NULL && fill != NULL);
	query->fill = fill;
	pt_running.fills++;
}

struct FastFill *
pt_query_end_fill(PtQuery *query)
{
	struct FastFill *fill = query->fill;

	Assert(fill != NULL && pt_running.fills > 0);
	query->fill = NULL;
	pt_running.fills--;
	return fill;
}

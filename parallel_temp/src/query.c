/*-------------------------------------------------------------------------
 *
 * query.c
 *	  The stack of statements that are running, as far as they concern the library.
 *
 * A record is pushed where the library begins to have to do with a statement
 * (parallel_temp.c for the executor and utility statements, plan.c, fastload_explain.c) and
 * popped there, after success and after an error: nowhere else, and nothing else
 * remembers what is running.  Most statements have none.
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
pt_query_push(PtQuery *query)
{
	memset(query, 0, sizeof(PtQuery));
	query->outer = pt_running.innermost;
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

/*-------------------------------------------------------------------------
 *
 * fastload_explain.c
 *	  The output of EXPLAIN ANALYZE about a load.
 *
 * The statement that EXPLAIN runs has a record (query.c) with a note, which is filled
 * in when the statement's load ends and printed when its executor ends, among the
 * closing lines.  Statements of functions and triggers inside it leave the note alone:
 * theirs is another QueryDesc.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "utils/lsyscache.h"

#include "compat_executor.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "query.h"

static ExplainOneQuery_hook_type prev_ExplainOneQuery = NULL;

/*
 * A statement starts.  The first one that is measured, or is only to be shown, is what
 * EXPLAIN runs; those of functions called by the planner come before, and are neither.
 */
void
pt_load_explain_start(QueryDesc *queryDesc, int eflags)
{
	PtQuery    *explained = pt_running.explained;

	if (explained->note->queryDesc == NULL &&
		(queryDesc->instrument_options != 0 || (eflags & EXEC_FLAG_EXPLAIN_ONLY)) &&
		pt_query_executor_depth() == explained->executor_depth)
	{
		explained->note->queryDesc = queryDesc;
		explained->explained_runs = true;
	}
}

/*
 * A load, or a statement that did without one, is done: note it for EXPLAIN.
 */
void
pt_load_remember(const FastLoad *load, const char *why_not)
{
	PtQuery    *explained = pt_running.explained;
	FastLoadNote *note;

	if (explained == NULL || explained->note->queryDesc == NULL ||
		pt_running.innermost->queryDesc != explained->note->queryDesc)
		return;
	note = explained->note;
	*note = (FastLoadNote)
	{
		.queryDesc = note->queryDesc,.set = true,.why_not = why_not
	};
	if (load != NULL)
	{
		note->frozen = load->frozen;
		note->tuples = load->tuples;
		note->pool_pages = load->pool_pages;
		note->file_pages = load->file_pages;
		note->taken_pages = load->taken_pages;
	}
}

/*
 * Print a load: a line of text, or properties with numbers in the other formats.
 */
static void
print_note(const FastLoadNote *note, ExplainState *es)
{
	StringInfoData text;

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		if (note->why_not != NULL)
			ExplainPropertyText(note->tuples > 0 ? "Fast Load Given Up" : "Fast Load Not Used", note->why_not, es);
		if (note->why_not != NULL && note->tuples == 0)
			return;
		ExplainPropertyUInteger("Fast Load Rows", NULL, note->tuples, es);
		ExplainPropertyBool("Fast Load Rows Frozen", note->frozen, es);
		ExplainPropertyUInteger("Fast Load Pages in Local Buffers", NULL, note->pool_pages, es);
		ExplainPropertyUInteger("Fast Load Pages to File", NULL, note->file_pages, es);
		ExplainPropertyUInteger("Fast Load Pages Filled by Workers", NULL, note->taken_pages, es);
		return;
	}
	initStringInfo(&text);
	if (note->tuples > 0)
		appendStringInfo(&text, UINT64_FORMAT " rows%s, new pages: " UINT64_FORMAT " in local buffers, "
						 UINT64_FORMAT " to the file",
						 note->tuples, note->frozen ? " frozen" : "", note->pool_pages, note->file_pages);
	if (note->taken_pages > 0)
		appendStringInfo(&text, ", of which " UINT64_FORMAT " filled by workers", note->taken_pages);
	if (note->why_not != NULL)
		appendStringInfo(&text, "%s (%s)", note->tuples > 0 ? "; then given up" : "not used", note->why_not);
	if (text.len == 0)
		appendStringInfoString(&text, "no rows");
	ExplainPropertyText("Fast Load", text.data, es);
	pfree(text.data);
}

/*
 * EXPLAIN ends the statement that it ran, and is about to print its closing lines: the
 * place for ours.
 */
void
pt_load_print(QueryDesc *queryDesc)
{
	PtQuery    *explained = pt_running.explained;

	if (explained->note->queryDesc != queryDesc)
		return;
	if (explained->serial_source != NULL)
	{
		char	   *text = psprintf("not used (%s)", explained->serial_source);

		explained->serial_source = NULL;
		ExplainPropertyText("Parallel Select", text, explained->explain_state);
		pfree(text);
	}
	if (explained->statistics != NIL)
	{
		List	   *names = NIL;
		ListCell   *lc;

		/* a function that planning has evaluated may have dropped its own */
		foreach(lc, explained->statistics)
		{
			char	   *name = get_rel_name(lfirst_oid(lc));

			if (name != NULL)
				names = lappend(names, name);
		}
		explained->statistics = NIL;
		if (names != NIL)
			ExplainPropertyList("Gathered Statistics", names, explained->explain_state);
	}
	if (explained->note->set)
	{
		explained->note->set = false;
		print_note(explained->note, explained->explain_state);
	}
}

static void
fastload_ExplainOneQuery(EXPLAINONEQUERY_PARAMS_compat)
{
	FastLoadNote note = {0};
	PtQuery		record;

	pt_query_push(&record);
	record.explain_state = es;
	record.note = &note;
	record.explain_context = CurrentMemoryContext;
	record.explained_query = query;
	if (pt_query_into_temporary(into))
	{
		record.fills_new = query;
		record.fills_new_text = queryString;
	}
	pt_running.explained = pt_explain ? &record : NULL;
	PG_TRY();
	{
		if (prev_ExplainOneQuery)
			prev_ExplainOneQuery(EXPLAINONEQUERY_ARGS_compat);
		else
			standard_ExplainOneQuery_compat(EXPLAINONEQUERY_ARGS_compat);
	}
	PG_FINALLY();
	{
		pt_query_pop(&record);
	}
	PG_END_TRY();
}

void
pt_load_explain_install(void)
{
	prev_ExplainOneQuery = ExplainOneQuery_hook;
	ExplainOneQuery_hook = fastload_ExplainOneQuery;
}

/*-------------------------------------------------------------------------
 *
 * fastload_explain.c
 *	  The output of EXPLAIN ANALYZE about a load.
 *
 * The planner's part and the end of a load are noted in a PtExplained, and printed when
 * the executor of the statement that EXPLAIN runs ends, among the closing lines.
 * Statements of functions and triggers inside it leave that alone: theirs is another
 * QueryDesc.
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
 * A statement starts: if it is the one that EXPLAIN runs, remember it.  Statements of
 * functions that the planner has called have another text.
 */
void
pt_load_explain_start(QueryDesc *queryDesc, int eflags)
{
	PtExplained *explained = pt_running.explained;

	if (explained->queryDesc == NULL && queryDesc->sourceText == explained->text &&
		(queryDesc->instrument_options != 0 || (eflags & EXEC_FLAG_EXPLAIN_ONLY)))
		explained->queryDesc = queryDesc;
}

/*
 * The rows of this insertion are computed without workers: the reason (NULL if it is the
 * cost).
 */
void
pt_explain_serial_source(const Query *insert, const char *reason)
{
	PtExplained *explained = pt_running.explained;

	if (explained != NULL && explained->query == insert)
		explained->serial_source = reason ? MemoryContextStrdup(explained->context, reason) : NULL;
}

/*
 * The statistics gathered of this table are used in planning.
 */
void
pt_explain_statistics(Oid relid)
{
	PtExplained *explained = pt_running.explained;
	MemoryContext old;

	if (explained == NULL || explained->queryDesc != NULL)
		return;
	old = MemoryContextSwitchTo(explained->context);
	explained->statistics = list_append_unique_oid(explained->statistics, relid);
	MemoryContextSwitchTo(old);
}

/*
 * A load, or a statement that did without one, is done.  The load is in the memory of the
 * statement's executor.
 */
void
pt_load_remember(const FastLoad *load, const char *why_not)
{
	PtExplained *explained = pt_running.explained;

	if (explained == NULL || explained->queryDesc == NULL || pt_running.innermost->queryDesc != explained->queryDesc)
		return;
	explained->load_ended = true;
	explained->load = load;
	explained->why_not = why_not;
}

static void
print_statistics(const List *relids, ExplainState *es)
{
	List	   *names = NIL;
	const ListCell *lc;

	/* a function that planning has evaluated may have dropped its own */
	foreach(lc, relids)
	{
		char	   *name = get_rel_name(lfirst_oid(lc));

		if (name != NULL)
			names = lappend(names, name);
	}
	if (names != NIL)
		ExplainPropertyList("Gathered Statistics", names, es);
}

/*
 * Print a load: a line of text, or properties with numbers in the other formats.
 * "load" is NULL if none was begun.
 */
static void
print_load(const FastLoad *load, const char *why_not, ExplainState *es)
{
	uint64		tuples = load ? load->tuples : 0;
	StringInfoData text;

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		if (why_not != NULL)
			ExplainPropertyText(tuples > 0 ? "Fast Load Given Up" : "Fast Load Not Used", why_not, es);
		if (why_not != NULL && tuples == 0)
			return;
		ExplainPropertyUInteger("Fast Load Rows", NULL, tuples, es);
		ExplainPropertyBool("Fast Load Rows Frozen", load && load->frozen, es);
		ExplainPropertyUInteger("Fast Load Pages in Local Buffers", NULL, load ? load->pool_pages : 0, es);
		ExplainPropertyUInteger("Fast Load Pages to File", NULL, load ? load->file_pages : 0, es);
		ExplainPropertyUInteger("Fast Load Pages Filled by Workers", NULL, load ? load->taken_pages : 0, es);
		return;
	}

	initStringInfo(&text);
	if (tuples > 0)
		appendStringInfo(&text, UINT64_FORMAT " rows%s, new pages: " UINT64_FORMAT " in local buffers, "
						 UINT64_FORMAT " to the file",
						 tuples, load->frozen ? " frozen" : "", load->pool_pages, load->file_pages);
	if (load != NULL && load->taken_pages > 0)
		appendStringInfo(&text, ", of which " UINT64_FORMAT " filled by workers", load->taken_pages);
	if (why_not != NULL)
		appendStringInfo(&text, "%s (%s)", tuples > 0 ? "; then given up" : "not used", why_not);
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
	PtExplained *explained = pt_running.explained;

	if (explained->queryDesc != queryDesc)
		return;
	if (explained->serial_source != NULL)
		ExplainPropertyText("Parallel Select", psprintf("not used (%s)", explained->serial_source), explained->state);
	if (explained->statistics != NIL)
		print_statistics(explained->statistics, explained->state);
	if (explained->load_ended)
		print_load(explained->load, explained->why_not, explained->state);
	pt_running.explained = NULL;
}

static void
fastload_ExplainOneQuery(EXPLAINONEQUERY_PARAMS_compat)
{
	PtExplained *outer = pt_running.explained;
	PtExplained explained = {.query = query,.text = queryString,.state = es,.context = CurrentMemoryContext};
	PtQuery		record;

	pt_query_push(&record);
	if (pt_query_into_temporary(into))
	{
		record.fills_new = query;
		record.fills_new_text = queryString;
	}
	pt_running.explained = pt_explain ? &explained : NULL;
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
		pt_running.explained = outer;
	}
	PG_END_TRY();
}

void
pt_load_explain_install(void)
{
	prev_ExplainOneQuery = ExplainOneQuery_hook;
	ExplainOneQuery_hook = fastload_ExplainOneQuery;
}

/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  A finished statement: add the records' measurements to core's counters.
 *
 * They are added to core's part of the records, after ExecutorFinish.  So whatever
 * core measured before (calls before there were records), in the meantime (Hash,
 * bitmap index scans, asynchronous nodes, workers) or after them (shutting down
 * of Gather) needs no special case.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "statement/statement.h"

static inline bool
skips(const LightNode *node)
{
	return node->treatment == LIGHT_SKIP_PAGES || node->treatment == LIGHT_SKIP_FILTERED;
}

/*
 * The statement is about to run backwards, where no calls are skipped: nor are
 * those that were granted before.
 */
void
light_turn_back(LightQuery *query)
{
	for (int i = 1; query->phase == LIGHT_TRACKED && i < query->books.nrecords; i++)
	{
		if (skips(&query->nodes.node[i]))
			light_pages_finish(&query->books.records[i]);
	}
}

/* The skipped calls of a node took no longer than the node that called it. */
static void
settle_skipped(LightRecord *record)
{
	const LightRecord *records = record->books->records;
	const LightRecord *caller = record->caller;

	light_pages_finish(record);
	if (caller > records && caller < records + record->books->nrecords)
		record->total = Max(Min(record->total, caller->total), record->startup);
}

/* Add the wrappers' measurements to core's counters: once, when all nodes are done. */
void
light_settle(LightQuery *query)
{
	LightBooks *books = &query->books;

	if (query->phase != LIGHT_TRACKED)
		return;
	Assert(query->nodes.n == books->nrecords);
	light_progress_hide(query);
	for (int i = 1; i < books->nrecords; i++)
	{
		if (skips(&query->nodes.node[i]))
			settle_skipped(&books->records[i]);
	}
	light_settle_usage(books);
	for (int i = 1; query->timer && i < books->nrecords; i++)
	{
		LightRecord *record = &books->records[i];

		if (query->nodes.node[i].treatment != LIGHT_BY_CORE)
			InstrAddTime_compat(&record->core, record->startup / LIGHT_SECOND, record->total / LIGHT_SECOND);
	}
	query->phase = LIGHT_FINISHED;
}

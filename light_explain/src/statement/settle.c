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
	return node->treatment == LIGHT_SKIP_PAGES || node->treatment == LIGHT_SKIP_FILTERED || node->treatment == LIGHT_SKIP_INDEX_ONLY;
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

/* Did a node of the same statement call this one? */
static inline bool
is_called(const LightQuery *query, int i)
{
	const LightRecord *caller = query->books.records[i].caller;

	return caller > query->books.records && caller < query->books.records + query->books.nrecords;
}

/*
 * The skipped calls of a node took no longer than the node that called it did without the other
 * nodes that it called, InitPlans among them, whose calls were timed.  While other processes use
 * the CPU skipped calls get their part of that (see pages.c), although it may have been in the
 * others.
 */
static void
settle_skipped(LightQuery *query)
{
	LightRecord *records = query->books.records;
	int			n = query->books.nrecords;
	int64	   *called = NULL;	/* by caller: time of the nodes that it called */

	for (int i = 1; i < n; i++)
	{
		if (skips(&query->nodes.node[i]))
		{
			light_pages_finish(&records[i]);
			if (called == NULL)
				called = palloc0(n * sizeof(int64));
		}
	}
	if (called == NULL)
		return;
	for (int i = 1; i < n; i++)
	{
		/* an InitPlan's earlier callers have their part of it already */
		int64		earlier = records[i].init_plan ? records[i].reattributed_total : 0;

		if (is_called(query, i))
			called[records[i].caller - records] += records[i].total - earlier;
		if (records[i].init_plans != NULL)
			called[i] += (int64) (records[i].init_plans->time * LIGHT_SECOND);
	}
	for (int i = 1; i < n; i++)
	{
		if (skips(&query->nodes.node[i]) && is_called(query, i))
		{
			int64		excess = called[records[i].caller - records] - records[i].caller->total;

			excess = Max(Min(excess, records[i].total - records[i].startup), 0);
			records[i].total -= excess;
			called[records[i].caller - records] -= excess;
		}
	}
	pfree(called);
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
	settle_skipped(query);
	light_settle_usage(books);
	for (int i = 1; query->timer && i < books->nrecords; i++)
	{
		LightRecord *record = &books->records[i];

		if (query->nodes.node[i].treatment != LIGHT_BY_CORE)
			InstrAddTime_compat(&record->core, record->startup / LIGHT_SECOND, record->total / LIGHT_SECOND);
	}
	query->phase = LIGHT_FINISHED;
}

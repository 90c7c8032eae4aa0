/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  A finished statement: what its records measured becomes core's figures.
 *
 * It is added to core's part of the records, after ExecutorFinish.  So whatever
 * core itself measured before (calls before there were records), beside (Hash,
 * bitmap index scans, asynchronous nodes, workers) or after them (shutting down
 * of Gather) needs no special case.
 *
 * Times that were estimated are made to agree first: no node is below the sum of
 * its children, and none above what its parent is known to have taken.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "statement/statement.h"

/* Seconds of a node in this process. */
static double
seconds(const LightQuery *query, int i)
{
	const LightRecord *record = &query->books.records[i];

	return InstrTotal_compat(&record->core) + record->total * query->tick;
}

static void
set_seconds(const LightQuery *query, int i, double time)
{
	LightRecord *record = &query->books.records[i];
	int64		total = (int64) rint((time - InstrTotal_compat(&record->core)) / query->tick);

	record->total = Max(total, 0);
	record->startup = Min(record->startup, record->total);
}

/* Is this node only called by the one above it in the plan, and in this process? */
static bool
inside_parent(const LightNode *node)
{
	return node->parent > 0 && node->planstate->worker_instrument == NULL && !node->subplan;
}

/*
 * An estimate below its children's sum is raised, and children above what their
 * parent is known to have taken are made smaller in proportion.
 */
static void
agree(LightQuery *query)
{
	LightRecord *records = query->books.records;
	const LightNode *nodes = query->nodes.node;
	int			n = query->nodes.n;
	double	   *below;			/* sum of children */
	double	   *known;			/* ... of those that are no estimates */

	below = MemoryContextAllocZero(query->context, 2 * n * sizeof(double));
	known = below + n;
	for (int i = n - 1; i > 0; i--)
	{
		bool		estimate = light_sampled(&records[i]);

		if (estimate && below[i] > seconds(query, i))
			set_seconds(query, i, below[i]);
		if (inside_parent(&nodes[i]))
		{
			below[nodes[i].parent] += seconds(query, i);
			if (!estimate)
				known[nodes[i].parent] += seconds(query, i);
		}
	}

	/* the executor's own time is known */
	if (n > 1 && light_sampled(&records[1]))
	{
		records[1].total = Min(records[1].total, records[0].total);
		records[1].startup = Min(records[1].startup, records[1].total);
	}
	for (int i = 1; i < n; i++)
	{
		int			parent = nodes[i].parent;
		double		room;

		/* "below" of a parent is what its children had before it was changed */
		if (!inside_parent(&nodes[i]) || !light_sampled(&records[i]))
			continue;
		room = seconds(query, parent);
		if (below[parent] > room && below[parent] > known[parent])
			set_seconds(query, i, seconds(query, i) * Max(room - known[parent], 0) / (below[parent] - known[parent]));
	}
	pfree(below);
}

/* Add what the wrappers measured to core's figures: once, when all nodes are done. */
void
light_settle(LightQuery *query)
{
	LightBooks *books = &query->books;

	if (query->phase != LIGHT_RECORDED)
		return;
	Assert(query->nodes.n == books->nrecords);
	light_progress_hide(query);
	query->others = false;
	for (int i = 1; i < books->nrecords; i++)
	{
		light_pages_settle(&books->records[i]);
		query->others |= light_measured_by_others(query, i) && light_was_called(query->nodes.node[i].planstate);
	}
	light_settle_usage(books);
	if (query->timer)
	{
		query->tick = books->clock == LIGHT_CLOCK_SYSTEM ? 1e-9 : light_seconds_per_tick();
		if (books->clock == LIGHT_CLOCK_SAMPLED)
		{
			light_sample_finish(books, query->tick);
			/* where no call was left out there is no estimate */
			if (books->watched)
				agree(query);
		}
		for (int i = 1; i < books->nrecords; i++)
		{
			LightRecord *record = &books->records[i];

			if (query->nodes.node[i].role != LIGHT_LEFT)
				InstrAddTime_compat(&record->core, record->startup * query->tick, record->total * query->tick);
		}
	}
	query->phase = LIGHT_FINISHED;
}

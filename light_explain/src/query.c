/*-------------------------------------------------------------------------
 *
 * query.c
 *	  Statements with instrumentation, and the stack's root for each of them.
 *
 * A LightQuery lives in the statement's own memory context and leaves our list
 * when that is reset, however the statement ends.  While the executor runs it,
 * its root record is on the stack of running nodes; a guard remembers what was
 * on top before and puts it back, also after an error.  That is the only
 * unwinding there is: an error leaves any number of nodes of the statement, and
 * of nothing else.
 *
 * The counters that a nested statement with instrumentation used belong to the
 * node that called it as well; the guard books them there.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "light_explain.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#define DEFAULT_SWITCH_AFTER 20

/*
 * Short statements should not pay for memory: the innermost ones take one of
 * these.  They are marked by their context.
 */
#define SPARE_QUERIES 4

static LightQuery *queries = NULL;
static LightQuery spare[SPARE_QUERIES];

/* The statement's memory goes away. */
static void
forget_query(void *arg)
{
	LightQuery *query = arg;

	for (LightQuery **link = &queries; *link != NULL; link = &(*link)->next)
	{
		if (*link == query)
		{
			*link = query->next;
			break;
		}
	}
	if (light.current == query)
		light_forget_stack();
	if (query->slot >= 0)
		light_progress_release(query);
	query->context = NULL;
}

static LightQuery *
new_query(MemoryContext context)
{
	for (int i = 0; i < SPARE_QUERIES; i++)
	{
		if (spare[i].context == NULL)
			return &spare[i];
	}
	return MemoryContextAlloc(context, sizeof(LightQuery));
}

/*
 * A statement was prepared for execution: if it has instrumentation, it becomes
 * ours.  "explained" is EXPLAIN ANALYZE's own statement.
 */
void
light_query_start(QueryDesc *queryDesc, bool explained)
{
	EState	   *estate = queryDesc->estate;
	LightQuery *query;

	query = new_query(estate->es_query_cxt);
	query->queryDesc = queryDesc;
	query->estate = estate;
	query->context = estate->es_query_cxt;
	query->timing = light_timing;
	query->explained = explained;
	query->wrapped = false;
	query->upgraded = false;
	query->finished = false;
	query->on_stack = false;
	query->has_gather = false;
	query->count_blocks = false;
	query->ticking = false;
	query->exact_time = light_exact_time;
	query->nrecords = 0;
	query->slot = -1;
	query->records = NULL;
	query->tick = 0;
	if (light_switch_after >= 0)
		query->switch_after = light_switch_after;
	else
		query->switch_after = explained ? 0 : DEFAULT_SWITCH_AFTER;
	if (light_distinct_blocks && explained)
	{
		/* rows before the switch would be missing */
		query->count_blocks = true;
		query->switch_after = 0;
	}
	query->timer = (estate->es_instrument & INSTRUMENT_TIMER) != 0;
	query->usage = (estate->es_instrument & (INSTRUMENT_BUFFERS | INSTRUMENT_WAL)) != 0;
	query->usage_full = track_io_timing;
	query->quick = query->timer && !query->usage_full && query->timing != LIGHT_TIMING_CORE &&
		(likely(light_ns_per_tick != 0) || light_clock_is_quick());

	query->callback.func = forget_query;
	query->callback.arg = query;
	MemoryContextRegisterResetCallback(query->context, &query->callback);
	query->next = queries;
	queries = query;
}

/* Our part of a statement, or NULL. */
LightQuery *
light_query_find(QueryDesc *queryDesc)
{
	for (LightQuery *query = queries; query != NULL; query = query->next)
	{
		if (query->queryDesc == queryDesc)
			return query;
	}
	return NULL;
}

/* The same by the executor's state. */
LightQuery *
light_query_of(EState *estate)
{
	if (light.current != NULL && light.current->estate == estate)
		return light.current;
	for (LightQuery *query = queries; query != NULL; query = query->next)
	{
		if (query->estate == estate)
			return query;
	}
	return NULL;
}

/* Put the root of the statement that runs now on the stack. */
void
light_root_enter(LightQuery *query)
{
	Assert(light.current == query && !query->on_stack);

	light_sync(light.top);
	query->entry = light.seen;
	query->records[0].caller = light.top;
	query->on_stack = true;
	if (query->ticking)
		light_ticker_enter();
	light.top = &query->records[0];
	light.deadline = query->deadline;
}

/* Remember the state before the executor runs a statement. */
void
light_guard_save(LightGuard *guard, LightQuery *query)
{
	guard->query = query;
	guard->outer = light.current;
	guard->top = light.top;
	guard->deadline = light.deadline;
	Assert(guard->outer != NULL || guard->top == &light_bottom);
}

/* The executor runs a statement; to be called with a guard in place. */
void
light_query_enter(LightQuery *query)
{
	light.current = query;
	light.deadline = PG_INT64_MAX;
	if (!query->wrapped)
		light_wrap(query);
	if (query->upgraded)
		light_root_enter(query);
	else if (query->switch_after <= 0)
		(void) light_upgrade(query);
}

/* The executor is done with it, or failed: back to what was before. */
void
light_guard_leave(LightGuard *guard)
{
	LightQuery *query = guard->query;

	if (query->on_stack)
	{
		int64	   *caller = (int64 *) &guard->top->self;
		const int64 *seen = (const int64 *) &light.seen;
		const int64 *entry = (const int64 *) &query->entry;

		light_sync(light.top);
		if (query->ticking)
			light_ticker_leave();
		query->on_stack = false;
		for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
			caller[i] += seen[i] - entry[i];
	}
	light.top = guard->top;
	light.current = guard->outer;
	light.deadline = guard->deadline;
}

/* Leave no trace of running statements: the process ends, or memory went away. */
void
light_forget_stack(void)
{
	light.top = &light_bottom;
	light.current = NULL;
	light.deadline = PG_INT64_MAX;
}

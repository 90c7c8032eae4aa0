/*-------------------------------------------------------------------------
 *
 * query.c
 *	  Statements with instrumentation, and the stack's root for each of them.
 *
 * While the executor runs a statement, it is the innermost of a chain of them
 * and, once it is upgraded, its root record is on the stack of running nodes.
 * The statement remembers what was there before and puts it back when it is
 * left.  An error leaves any number of statements, and any number of nodes of
 * the innermost, without telling: there is no PG_TRY, which short statements
 * would feel.  They are left when their transaction or subtransaction is
 * aborted, which comes before anybody can go on after an error, or at the latest
 * when the memory of one goes away.
 *
 * A LightQuery that has nothing but itself is forgotten by the end of
 * ExecutorFinish, after which no statement is run, or when the transaction or
 * subtransaction in which it started is aborted.  One with records is tied to
 * the statement's memory context and is forgotten when that is reset.
 *
 * The counters that a nested statement with instrumentation used belong to the
 * node that called it as well; light_query_leave() books them there.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
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

static LightQuery spare[SPARE_QUERIES] pg_attribute_aligned(64);

static void
forget(LightQuery *query)
{
	for (LightQuery **link = &light.queries; *link != NULL; link = &(*link)->next)
	{
		if (*link == query)
		{
			*link = query->next;
			break;
		}
	}
	query->context = NULL;
}

/* Leave a statement, and those inside of it, that an error ended. */
static void
leave_failed(LightQuery *query)
{
	LightQuery *running = light.current;

	while (running != NULL && running != query)
		running = running->outer;
	if (running == NULL)
		return;
	while (light.current != query)
		light_query_leave(light.current);
	light_query_leave(query);
}

/* The memory of a statement that is tied to it goes away. */
static void
forget_tied(void *arg)
{
	LightQuery *query = arg;

	leave_failed(query);
	if (query->slot >= 0)
		light_progress_release(query);
	forget(query);
}

/* From now on the statement stays until its memory goes away. */
void
light_query_tie(LightQuery *query)
{
	if (query->tied)
		return;
	query->tied = true;
	query->callers = NULL;
	query->callback.func = forget_tied;
	query->callback.arg = query;
	MemoryContextRegisterResetCallback(query->context, &query->callback);
}

/* The executor has finished a statement. */
void		pg_attribute_hot
light_query_done(LightQuery *query)
{
	if (unlikely(query->tied))
		return;
	if (likely(light.queries == query))
	{
		light.queries = query->next;
		query->context = NULL;
	}
	else
		forget(query);
}

/* Statements that are not tied and started at a level or deeper. */
static void
forget_from(int level)
{
	LightQuery *next;

	for (LightQuery *query = light.queries; query != NULL; query = next)
	{
		next = query->next;
		if (query->level >= level && !query->tied)
			forget(query);
	}
}

static void
subtransaction_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
			light.level = level;
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			for (LightQuery *query = light.queries; query != NULL; query = query->next)
				query->level = Min(query->level, level - 1);
			light.level = level - 1;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			while (light.current != NULL && light.current->run_level >= level)
				light_query_leave(light.current);
			forget_from(level);
			light.level = level - 1;
			break;
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

static void
transaction_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			while (light.current != NULL)
				light_query_leave(light.current);
			forget_from(0);
			light.level = 1;
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			/* there is none, unless somebody left out ExecutorFinish */
			if (unlikely(light.queries != NULL) && light.current == NULL)
				forget_from(0);
			light.level = 1;
			break;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

/* Be told of transactions that end. */
void
light_query_init(void)
{
	light.level = GetCurrentTransactionNestLevel();
	RegisterXactCallback(transaction_callback, NULL);
	RegisterSubXactCallback(subtransaction_callback, NULL);
}

/*
 * A statement was prepared for execution: if it has instrumentation, it becomes
 * ours.  "explained" is EXPLAIN ANALYZE's own statement.
 */
void		pg_attribute_hot
light_query_start(QueryDesc *queryDesc, bool explained)
{
	EState	   *estate = queryDesc->estate;
	LightQuery *query = NULL;

	for (int i = 0; i < SPARE_QUERIES; i++)
	{
		if (likely(spare[i].context == NULL))
		{
			query = &spare[i];
			break;
		}
	}
	if (unlikely(query == NULL))
		query = MemoryContextAlloc(estate->es_query_cxt, sizeof(LightQuery));
	query->queryDesc = queryDesc;
	query->estate = estate;
	query->context = estate->es_query_cxt;
	query->level = light.level;
	query->timing = light_timing;
	query->calls = 0;
	query->nrecords = 0;
	query->slot = -1;
	query->records = NULL;
	query->tick = 0;
	query->watched = false;
	query->explained = explained;
	query->tied = false;
	query->wrapped = false;
	query->upgraded = false;
	query->finished = false;
	query->on_stack = false;
	query->has_gather = false;
	query->whole = false;
	query->count_blocks = false;
	if (light_switch_after >= 0)
		query->switch_after = light_switch_after;
	else
		query->switch_after = explained ? 0 : DEFAULT_SWITCH_AFTER;
	if (unlikely(light_distinct_blocks) && explained)
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

	query->next = light.queries;
	light.queries = query;

	/* EXPLAIN asks for figures after the statement was finished */
	if (unlikely(explained) || unlikely(query < spare || query >= spare + SPARE_QUERIES))
		light_query_tie(query);
}

/* Our part of a statement by the executor's state, or NULL. */
LightQuery *
light_query_of(EState *estate)
{
	if (light.current != NULL && light.current->estate == estate)
		return light.current;
	for (LightQuery *query = light.queries; query != NULL; query = query->next)
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
	light.top = &query->records[0];
	query->entered = query->timer ? light_now() : 0;
	if (unlikely(query->watched))
		light_watch(query);
}

/* The executor runs a statement. */
void		pg_attribute_hot
light_query_enter(LightQuery *query)
{
	Assert(light.current != NULL || light.top == &light_bottom);

	query->run_level = light.level;
	query->outer = light.current;
	query->outer_top = light.top;
	light.current = query;
	if (!query->wrapped)
		light_wrap(query);
	if (unlikely(query->upgraded))
		light_root_enter(query);
	else if (unlikely(query->switch_after <= 0))
		query->whole = light_upgrade(query);
}

/* Take the root from the stack, and all that is above it. */
static pg_noinline void
root_leave(LightQuery *query)
{
	int64	   *caller = (int64 *) &query->outer_top->self;
	const int64 *seen = (const int64 *) &light.seen;
	const int64 *entry = (const int64 *) &query->entry;

	light_sync(light.top);
	if (query->timer)
		query->records[0].total += light_now() - query->entered;
	if (query->watched)
		light_watched(query);
	query->on_stack = false;
	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
		caller[i] += seen[i] - entry[i];
}

/*
 * The executor is done with the innermost statement, or an error was: back to
 * what was before.
 */
void		pg_attribute_hot
light_query_leave(LightQuery *query)
{
	Assert(light.current == query);

	if (unlikely(query->on_stack))
		root_leave(query);
	light.top = query->outer_top;
	light.current = query->outer;
}

/* Leave no trace of running statements: the process ends. */
void
light_forget_stack(void)
{
	light.top = &light_bottom;
	light.current = NULL;
}

/*-------------------------------------------------------------------------
 *
 * query.c
 *	  Statements with instrumentation, and the stack's root for each of them.
 *
 * While the executor runs a statement, it is the innermost of a chain of them
 * and, once its nodes have records, their root is on the stack of running nodes.
 * The statement saves the previous state and restores it when it is
 * left.  An error leaves any number of statements, and any number of nodes of
 * the innermost, without notice: there is no PG_TRY, whose overhead would be noticeable
 * in short statements.  They are left when their transaction or subtransaction is
 * aborted, which happens before the session can continue after an error, or at the latest
 * when the memory of one is reset.
 *
 * A LightQuery without records is forgotten by the end of
 * ExecutorFinish, after which no statement is run, or when the transaction or
 * subtransaction in which it started is aborted.  One with records is tied to
 * the statement's memory context and is forgotten when that is reset.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "statement/statement.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/*
 * Making records takes about as long as a scan whose calls are skipped saves in so many calls.  Statements
 * in a loop, measured by auto_explain, over plain ones, with records from the first call and without:
 * 1.065 and 1.028 with 8 rows, 1.054 and 1.066 with 16, 1.064 and 1.141 with 41, and 1.073
 * and 1.251 with 100 rows and an aggregate (15, 41 interleaved runs, 2026-11-30).  So a statement that the planner
 * expects to return or aggregate as many rows has records before its first call, another one when
 * a node was called as often.
 */
#define DEFAULT_SWITCH_AFTER 16

/*
 * So has a statement which the planner expects to cost as much as this, some ten
 * milliseconds or more: others see it although it returns no row, and so calls nothing again,
 * for long.
 */
#define RECORDED_FROM_START 10000.0

/*
 * Short statements should not pay for memory: the innermost ones take one of
 * these.  They are marked by their context.
 */
#define SPARE_QUERIES 4

/* LightQuery.begun of a statement that the sampler does not see. */
#define NOT_SHOWN (-1)

LightChain	light_chain;

static LightQuery spare[SPARE_QUERIES] pg_attribute_aligned(64);

static void
forget(LightQuery *query)
{
	for (LightQuery **link = &light_chain.queries; *link != NULL; link = &(*link)->next)
	{
		if (*link == query)
		{
			*link = query->next;
			break;
		}
	}
	query->context = NULL;
}

/*
 * Leave the innermost statement, which an error ended.  It does not run again, and its
 * memory may be freed before its transaction ends, if it is a cursor that was opened outside
 * of the subtransaction that failed.
 */
static void
abandon_current(void)
{
	LightQuery *query = light_chain.current;

	light_query_leave(query);
	if (!query->tied)
		forget(query);
}

/* Leave a statement, and those inside of it, that an error ended. */
static void
leave_failed(LightQuery *query)
{
	LightQuery *running = light_chain.current;

	while (running != NULL && running != query)
		running = running->outer;
	if (running == NULL)
		return;
	while (light_chain.current != query)
		abandon_current();
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
	if (likely(light_chain.queries == query))
	{
		light_chain.queries = query->next;
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

	for (LightQuery *query = light_chain.queries; query != NULL; query = next)
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
			light_chain.level = level;
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			for (LightQuery *query = light_chain.queries; query != NULL; query = query->next)
				query->level = Min(query->level, level - 1);
			light_chain.level = level - 1;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			while (light_chain.current != NULL && light_chain.current->run_level >= level)
				abandon_current();
			if (light_sampled)
				light_activity_abort(level);
			forget_from(level);
			light_chain.level = level - 1;
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
			while (light_chain.current != NULL)
				light_query_leave(light_chain.current);
			if (light_sampled)
				light_activity_abort(0);
			forget_from(0);
			light_chain.level = 1;
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			if (light_sampled)
				light_activity_commit(false);
			/* there is none, unless an extension left out ExecutorFinish */
			if (unlikely(light_chain.queries != NULL) && light_chain.current == NULL)
				forget_from(0);
			light_chain.level = 1;
			break;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (light_sampled)
				light_activity_commit(true);
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
	}
}

/* Callback for transactions that end. */
void
light_query_init(void)
{
	light_chain.level = GetCurrentTransactionNestLevel();
	RegisterXactCallback(transaction_callback, NULL);
	RegisterSubXactCallback(subtransaction_callback, NULL);
}

/*
 * Does a plan cost much, or is a node called often?  Only outer nodes are considered, which have most rows,
 * because each statement pays for this; and below a LIMIT not all rows are fetched.
 */
static inline bool
pays_for_records(const Plan *plan)
{
	if (plan->total_cost >= RECORDED_FROM_START)
		return true;
	while (plan->plan_rows < DEFAULT_SWITCH_AFTER)
	{
		if (plan->lefttree == NULL || IsA(plan, Limit))
			return false;
		plan = plan->lefttree;
	}
	return true;
}

/*
 * A statement was prepared for execution: if it has instrumentation, it becomes
 * ours.  "explained" is EXPLAIN ANALYZE's own statement.  If light_explain is disabled, but
 * the profile is not, the server's instrumentation measures it: its nodes get no wrappers.
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
	query->role = GetUserId();
	query->level = light_chain.level;
	query->timing = light_timing;
	query->phase = likely(light_enabled) ? LIGHT_STARTED : LIGHT_CORE;
	query->calls = 0;
	query->slot = -1;
	query->execution = light_sampled ? light_execution_number() : 0;
	query->nodes.node = NULL;
	query->explained = explained;
	query->tied = false;
	query->whole = false;
	query->count_blocks = false;
	if (light_switch_after >= 0)
		query->switch_after = light_switch_after;
	else if (unlikely(explained) || pays_for_records(queryDesc->plannedstmt->planTree))
		query->switch_after = 0;
	else
		query->switch_after = DEFAULT_SWITCH_AFTER;
	if (unlikely(light_distinct_blocks) && explained)
	{
		/* rows before the switch would be missing */
		query->count_blocks = true;
		query->switch_after = 0;
	}
	query->timer = (estate->es_instrument & INSTRUMENT_TIMER) != 0;
	query->io_timing = track_io_timing;
	query->parallel = queryDesc->plannedstmt->parallelModeNeeded;
	query->fast = query->timer && !query->io_timing && query->timing == LIGHT_TIMING_AUTO;

	query->next = light_chain.queries;
	light_chain.queries = query;

	/* EXPLAIN reads the counters after the statement was finished */
	if (unlikely(explained) || unlikely(query < spare || query >= spare + SPARE_QUERIES))
		light_query_tie(query);
}

/* Our part of a statement by the executor's state, or NULL. */
LightQuery *
light_query_of(EState *estate)
{
	if (light_chain.current != NULL && light_chain.current->estate == estate)
		return light_chain.current;
	for (LightQuery *query = light_chain.queries; query != NULL; query = query->next)
	{
		if (query->estate == estate)
			return query;
	}
	return NULL;
}

/* A statement is the innermost one: if its records are private, the sampler must know its nodes. */
static inline void
show_private(const LightQuery *query)
{
	if (light_sampled && query->slot < 0 && query->phase == LIGHT_TRACKED)
		light_activity_private(&query->books);
}

/* The executor runs a statement, or finishes it: "shown" to the sampler if that may take time. */
void		pg_attribute_hot
light_query_enter(LightQuery *query, bool shown)
{
	Assert(light_chain.current != NULL || light_stack.top == &light_bottom);
	Assert(query->phase != LIGHT_FINISHED);

	query->run_level = light_chain.level;
	query->outer = light_chain.current;
	query->outer_top = light_stack.top;
	query->begun = NOT_SHOWN;
	if (light_sampled && likely(shown))
	{
		query->begun = light_activity_begin(LIGHT_EXECUTOR, query->queryDesc->plannedstmt->queryId, query->role, query->execution);
		if (unlikely(query->parallel))
			light_activity_parallel();
	}
	light_chain.current = query;
	if (likely(query->phase == LIGHT_STARTED))
		light_wrap(query);
	else if (query->phase == LIGHT_TRACKED)
	{
		show_private(query);
		light_root_enter(&query->books, query->outer_top);
	}
}

/*
 * The executor is done with the innermost statement, or an error was: back to
 * what was before.
 */
void		pg_attribute_hot
light_query_leave(LightQuery *query)
{
	Assert(light_chain.current == query);

	if (unlikely(query->phase == LIGHT_TRACKED))
	{
		light_root_leave(&query->books, query->outer_top);
		if (query->outer != NULL)
			show_private(query->outer);
	}
	light_stack.top = query->outer_top;
	light_chain.current = query->outer;
	if (light_sampled && query->begun != NOT_SHOWN)
		light_activity_end(query->begun);
}

/* Leave no trace of running statements: the process ends. */
void
light_forget_stack(void)
{
	light_stack.top = &light_bottom;
	light_chain.current = NULL;
}

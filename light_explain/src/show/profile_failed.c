/*-------------------------------------------------------------------------
 *
 * profile_failed.c
 *	  Add a statement that an error has ended to the profile.
 *
 * It is handled in PG_CATCH around the executor: later the statement's memory, or that of
 * its plan, may be freed.  An error there must not hide the error that is being handled.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_instrument.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "show/profile.h"
#include "utils/memutils.h"

/* Time of calls that did not return, in seconds. */
static void
add_time(LightQuery *query, PlanState *node, double seconds)
{
	LightRecord *record = light_record_of(query, node);

	if (seconds <= 0)
		return;
	if (record != NULL && !light_measured_by_core(node))
		record->total += (int64) (seconds * LIGHT_SECOND);
	else
		InstrAddTime_compat(node->instrument, 0, seconds);
}

static double
time_of(LightQuery *query, PlanState *node)
{
	LightRecord *record = light_record_of(query, node);

	return InstrTotal_compat(node->instrument) + (record != NULL ? record->total / LIGHT_SECOND : 0);
}

/* Time of a statement's top node until now: of fetches from a cursor before this one. */
double
light_top_time(LightQuery *query)
{
	PlanState  *top = query->queryDesc->planstate;

	return top->instrument != NULL ? time_of(query, top) : 0;
}

typedef struct CalledContext
{
	LightQuery *query;
	PlanState  *first;			/* never returned */
	int			n;				/* that never returned */
	double		time;			/* of those that did */
} CalledContext;

static bool
look_at_child(PlanState *node, void *arg)
{
	CalledContext *context = arg;

	if (node == NULL || node->instrument == NULL)
		return false;
	if (node->instrument->running || node->instrument->nloops > 0)
		context->time += time_of(context->query, node);
	else
	{
		context->first = node;
		context->n++;
	}
	return false;
}

/*
 * The calls that an error ended have no time yet.  The top node was inside one
 * since the executor was called, so its time is known: "seconds" is that of all calls of
 * the executor.  A node that never
 * returned was inside its first call since the node above was, less the time of
 * siblings that did return; this continues as long as only one node is possible.
 * If nodes return row by row, the call that the error ended was a short one.
 */
static void
complete_times(LightQuery *query, double seconds)
{
	PlanState  *node = query->queryDesc->planstate;

	while (node != NULL && node->instrument != NULL)
	{
		bool		returned = node->instrument->running || node->instrument->nloops > 0;
		CalledContext context = {.query = query};

		add_time(query, node, seconds - time_of(query, node));
		if (!returned)
			node->instrument->running = true;	/* it counts as a loop */
		(void) planstate_tree_walker(node, look_at_child, &context);
		if (returned || context.n != 1)
			break;
		seconds -= context.time;
		node = context.first;
	}
}

/*
 * Is an error the end of a statement that was canceled, or a timeout?  That of
 * waits for locks has the code of NOWAIT, which fails: the message distinguishes them,
 * compared with the server's translation.
 */
static bool
was_cancelled(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		(error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE && error->message_id != NULL &&
		 strcmp(error->message_id, "canceling statement due to lock timeout") == 0);
}

/*
 * Copy the error that is being handled.  The next one's copy replaces it: in a deep recursion
 * each level has one, with a context as long as the recursion is deep, and the memory
 * of all levels would be most of the profile's cost there.
 */
static MemoryContext error_context = NULL;

static void
forget_error_context(void *arg)
{
	error_context = NULL;
}

static ErrorData *
copy_error(void)
{
	MemoryContext old;
	ErrorData  *error;

	if (error_context == NULL)
	{
		MemoryContext context = AllocSetContextCreate(TopTransactionContext, "light_explain error", ALLOCSET_SMALL_SIZES);
		MemoryContextCallback *callback = MemoryContextAlloc(TopTransactionContext, sizeof(MemoryContextCallback));

		callback->func = forget_error_context;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
		error_context = context;
	}
	MemoryContextReset(error_context);
	old = MemoryContextSwitchTo(error_context);
	error = CopyErrorData();
	MemoryContextSwitchTo(old);
	return error;
}

/*
 * An error leaves the executor, which ran the statement inside of "outer" since
 * "started", or finished it if that is 0: called in PG_CATCH.  Its top node's time was
 * "before" then.  Keep what it did until now, and throw the error again.
 */
void
light_profile_failed(LightQuery *query, LightQuery *outer, int64 started, double before)
{
	MemoryContext old = MemoryContextSwitchTo(query->context);
	ErrorData  *error = copy_error();

	FlushErrorState();
	PG_TRY();
	{
		HOLD_INTERRUPTS();
		while (light_chain.current != NULL && light_chain.current != outer)
			light_query_leave(light_chain.current);
		if (query->timer && started != 0)
			complete_times(query, before + (light_now() - started) / LIGHT_SECOND);
		light_settle(query);
		light_profile_add(query, was_cancelled(error) ? LIGHT_CANCELLED : LIGHT_FAILED, NULL);

		/* it is not run or finished any more, and its memory may be freed */
		light_query_done(query);
		RESUME_INTERRUPTS();
	}
	PG_CATCH();
	{
		/* too deep a recursion, or no memory: the first error is what counts */
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	ReThrowError(error);
}

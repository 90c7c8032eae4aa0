/*-------------------------------------------------------------------------
 *
 * profile_store.c
 *	  What a statement that has ended adds to the profile.
 *
 * With light_explain.profile on, every statement is instrumented, which is cheap
 * enough with the light wrappers, and when one has ended, well or not, the
 * figures of its nodes are added to those of its plan.  All that takes time is
 * done before a lock is taken.
 *
 * For a short statement most of the time would go into finding its plan: names
 * are hashed for the plan's identifier, and tables are looked through.  So a
 * session remembers plans of few nodes that it stored: what their names and shape
 * are, letter by letter, and where in the profile they were.  Both are compared
 * before they are relied on, so nobody has to tell when a table gets another name
 * or the plan had to make room.
 *
 * A statement that fails is seen in PG_CATCH around the executor: later its
 * memory, or that of its plan, may be gone.  Nothing that goes wrong there may
 * hide the error that brought us there.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat_instrument.h"
#include "compat_planner.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "show/profile.h"
#include "utils/memutils.h"

/* ---- storing ------------------------------------------------------------ */

/* Add the figures of one execution to a plan, whose lock is held. */
static void
add_execution(int part, LightPlan *plan, const LightFigure *figures, int n, LightOutcome outcome)
{
	pg_atomic_uint64 *stores = &light_part(part)->stores;
	int			chunk = -1;

	/* a number that another process takes as well does not matter */
	plan->used = (int64) pg_atomic_read_u64(stores) + 1;
	pg_atomic_write_u64(stores, plan->used);
	plan->executions++;
	plan->cancelled += outcome == LIGHT_CANCELLED;
	plan->failed += outcome == LIGHT_FAILED;
	for (int i = 0; i < Min(n, plan->nnodes); i++)
	{
		const LightFigure *figure = &figures[i];
		LightPlanNode *node = light_plan_node(part, plan, i, &chunk);

		if (figure->loops <= 0)
			continue;
		node->executions++;
		node->loops += figure->loops;
		node->rows += figure->rows;
		node->plan_rows += figure->plan_rows * figure->loops;
		node->filtered += figure->filtered;
		node->total_time += figure->time;
		node->self_time += figure->self.time;
		node->max_self_time = Max(node->max_self_time, figure->self.time);
		light_usage_add(&node->self, &figure->self.usage);
	}
}

/* ---- plans that this session knows -------------------------------------- */

#define KNOWN_PLANS 64
#define SPELLING_SIZE 352

/* Names and shape of a plan, letter by letter. */
typedef struct Spelling
{
	Size		size;			/* 0: it is too long */
	char text[	SPELLING_SIZE];
} Spelling;

typedef struct KnownPlan
{
	LightPlanKey key;
	int			part;
	LightPlan  *plan;
	Spelling	spelling;
} KnownPlan;

static KnownPlan *known_plans = NULL;

/* Statements of few nodes should not pay for memory: there is one array for all. */
static LightFigure brief_figures[LIGHT_BRIEF_NODES];

/* Where a plan of this statement would be; NULL if there is no memory. */
static KnownPlan *
known_plan(const LightPlanKey *key)
{
	uint64		hash = key->query_id ^ (key->caller_id >> 7) ^ key->role;

	if (unlikely(known_plans == NULL))
		known_plans = MemoryContextAllocExtended(TopMemoryContext, KNOWN_PLANS * sizeof(KnownPlan),
												 MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
	return known_plans == NULL ? NULL : &known_plans[hash % KNOWN_PLANS];
}

/* Equal bytes are an equal plan to light_plan_hash(). */
static void
spell(const LightFigure *figures, int n, Spelling *spelling)
{
	Size		size = 0;

	for (int i = 0; i < n; i++)
	{
		Size		more;

		if (size == SPELLING_SIZE)
			break;
		spelling->text[size++] = (char) figures[i].depth;
		more = light_spell_name(figures[i].planstate, spelling->text +size, SPELLING_SIZE - size);
		if (more == 0)
		{
			size = SPELLING_SIZE;
			break;
		}
		size += more;
	}
	spelling->size = size < SPELLING_SIZE ? size : 0;
}

/* Is this the plan of a statement?  All of "key" but the plan's own identifier counts. */
static bool
is_known(const KnownPlan *known, const LightPlanKey *key, const Spelling *spelling)
{
	return known != NULL && spelling->size > 0 && known->spelling.size == spelling->size &&
		known->key.query_id == key->query_id && known->key.caller_id == key->caller_id &&
		known->key.role == key->role && known->key.database == key->database &&
		memcmp(known->spelling.text, spelling->text, spelling->size) == 0;
}

/* Add to a plan if it is still where it was. */
static bool
store_known(const KnownPlan *known, const LightFigure *figures, int n, LightOutcome outcome)
{
	LightPlan  *plan = known->plan;
	bool		there;

	LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
	there = plan->nnodes > 0 && memcmp(&plan->key, &known->key, sizeof(LightPlanKey)) == 0;
	if (likely(there))
		add_execution(known->part, plan, figures, n, outcome);
	LWLockRelease(&plan->lock);
	return there;
}

/* ---- storing ------------------------------------------------------------ */

/* Make the plan of a statement that has none yet, with names and text. */
static LightPlan *
store_new(int part, const LightPlanKey *key, LightQuery *query, const LightFigure *figures, int n, LightOutcome outcome)
{
	LightNodeName *names = palloc(n * sizeof(LightNodeName));
	int			location = query->queryDesc->plannedstmt->stmt_location;
	int			length = query->queryDesc->plannedstmt->stmt_len;
	const char *source = query->queryDesc->sourceText;
	LightPlan  *plan;

	light_figure_names(figures, n, names, sizeof(LightNodeName));
	if (source != NULL)
		source = CleanQuerytext(source, &location, &length);
	else
		length = 0;

	LWLockAcquire(light_part(part)->lock, LW_EXCLUSIVE);
	light_part(part)->changing = true;
	plan = light_plan_find(part, key);
	if (plan == NULL)
	{
		int			chunk = -1;

		plan = light_plan_make(part, key, n, true);
		light_plan_set_text(part, plan, source, length, GetDatabaseEncoding());
		for (int i = 0; i < plan->nnodes; i++)
		{
			LightPlanNode *node = light_plan_node(part, plan, i, &chunk);

			node->id = figures[i].id;
			node->parent = figures[i].parent;
			node->depth = figures[i].depth;
			node->name = names[i];
		}
	}
	LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
	add_execution(part, plan, figures, n, outcome);
	LWLockRelease(&plan->lock);
	light_part(part)->changing = false;
	LWLockRelease(light_part(part)->lock);
	pfree(names);
	return plan;
}

/* Add to a plan, wherever it is; it is made if it is nowhere. */
static LightPlan *
store_unknown(int part, const LightPlanKey *key, LightQuery *query, const LightFigure *figures, int n, LightOutcome outcome)
{
	LightPlan  *plan;

	LWLockAcquire(light_part(part)->lock, LW_SHARED);
	plan = light_plan_find(part, key);
	if (plan != NULL)
	{
		LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
		add_execution(part, plan, figures, n, outcome);
		LWLockRelease(&plan->lock);
	}
	LWLockRelease(light_part(part)->lock);
	return plan != NULL ? plan : store_new(part, key, query, figures, n, outcome);
}

/*
 * What the nodes of a statement did, in "brief_figures" or palloc'd.  To reckon it takes
 * long where there are many nodes: nobody may wait for that, so no lock is held ("holdoff"
 * is how many interrupts were held off when we were called, which each lock does).
 */
static inline LightFigure *
take_figures(LightQuery *query, uint32 holdoff, int *n)
{
	Assert(InterruptHoldoffCount == holdoff);
	Assert(!LWLockAnyHeldByMe(light_part(0)->lock, light_profile_shared->nparts, sizeof(LWLockPadded)));
	return light_brief_figures(query, brief_figures, n) ? brief_figures : light_figures(query, n);
}

/* A statement has ended and was left: add its figures to the profile. */
static void pg_attribute_hot
store(LightQuery *query, Oid role, LightOutcome outcome)
{
	QueryDesc  *queryDesc = query->queryDesc;
	LightQuery *caller = light_chain.current;
	LightPlanKey key;
	LightPlan  *plan;
	LightFigure *figures;
	KnownPlan  *known = NULL;
	uint32		holdoff = InterruptHoldoffCount;
	Spelling	spelling;
	bool		brief;
	int			n;
	int			part;

	if (queryDesc->plannedstmt->queryId == 0)
	{
		pg_atomic_fetch_add_u64(&light_profile_shared->without_id, 1);
		return;
	}

	/*
	 * An error out of a look at the profile: locks go with the transaction,
	 * and who has one must not wait for another.
	 */
	if (unlikely(outcome != LIGHT_DONE) &&
		LWLockAnyHeldByMe(light_part(0)->lock, light_profile_shared->nparts, sizeof(LWLockPadded)))
		return;
	figures = take_figures(query, holdoff, &n);
	brief = figures == brief_figures;
	if (n == 0)
		return;
	key.database = MyDatabaseId;
	key.role = role;
	key.query_id = queryDesc->plannedstmt->queryId;
	key.caller_id = caller != NULL ? caller->queryDesc->plannedstmt->queryId : 0;
	if (brief)
	{
		known = known_plan(&key);
		spell(figures, n, &spelling);
		if (is_known(known, &key, &spelling) && store_known(known, figures, n, outcome))
			return;
	}
	key.plan_id = light_plan_hash(figures, n);
	part = light_part_of(&key);
	plan = store_unknown(part, &key, query, figures, n, outcome);
	if (known != NULL && spelling.size > 0)
	{
		known->key = key;
		known->part = part;
		known->plan = plan;
		known->spelling.size = spelling.size;
		memcpy(known->spelling.text, spelling.text, spelling.size);
	}
	if (!brief)
		pfree(figures);
}

/* Are statements of this process for the profile?  Not if there is no memory for one. */
bool
light_profiled(void)
{
	return light_profile && light_profile_shared != NULL && !IsParallelWorker();
}

/* A statement is finished: add its figures to the profile. */
void
light_profile_store(LightQuery *query)
{
	MemoryContext old = MemoryContextSwitchTo(query->context);

	store(query, GetUserId(), LIGHT_DONE);
	MemoryContextSwitchTo(old);
}

/* ---- statements that fail ----------------------------------------------- */

/* Seconds of a tick of the statement's records. */
static double
tick_of(LightQuery *query)
{
	return query->timing == LIGHT_TIMING_CORE ? 1e-9 : light_seconds_per_tick();
}

/* Time of calls that did not return, in seconds. */
static void
add_time(LightQuery *query, PlanState *node, double seconds)
{
	LightRecord *record = light_record_of(query, node);

	if (seconds <= 0)
		return;
	if (record != NULL && !light_left_to_core(node))
		record->total += (int64) (seconds / tick_of(query));
	else
		InstrAddTime_compat(node->instrument, 0, seconds);
}

static double
time_of(LightQuery *query, PlanState *node)
{
	LightRecord *record = light_record_of(query, node);

	return InstrTotal_compat(node->instrument) + (record != NULL ? record->total * tick_of(query) : 0);
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
 * returned was inside its first call since the one above was, less what
 * neighbours took that did return; that goes on as long as only one can be meant.
 * Where nodes return row by row, the call that was going on was a short one.
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
 * Is an error the end of a statement that somebody cancelled, or a timeout?  That of
 * waits for locks has the code of NOWAIT, which fails: what it says tells them apart,
 * in the server's own words whatever language it speaks.
 */
static bool
was_cancelled(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		(error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE && error->message_id != NULL &&
		 strcmp(error->message_id, "canceling statement due to lock timeout") == 0);
}

/*
 * An error leaves the executor, which ran the statement inside of "outer" since
 * "started", or finished it if that is 0: called in PG_CATCH.  Its top node's time was
 * "before" then.  Keep what it did until now, and throw the error again.  "role" is
 * whose statement it is: the current one may still be that of a function that failed.
 */
void
light_profile_failed(LightQuery *query, LightQuery *outer, Oid role, int64 started, double before)
{
	MemoryContext old = MemoryContextSwitchTo(query->context);
	ErrorData  *error = CopyErrorData();

	FlushErrorState();
	PG_TRY();
	{
		HOLD_INTERRUPTS();
		while (light_chain.current != NULL && light_chain.current != outer)
			light_query_leave(light_chain.current);
		query->callers = NULL;
		if (query->timer && started != 0)
			complete_times(query, before + (light_now() - started) * light_seconds_per_tick());
		light_settle(query);
		store(query, role, was_cancelled(error) ? LIGHT_CANCELLED : LIGHT_FAILED);

		/* nobody runs or finishes it any more, and its memory may go */
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

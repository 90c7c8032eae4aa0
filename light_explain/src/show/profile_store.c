/*-------------------------------------------------------------------------
 *
 * profile_store.c
 *	  Add a statement that has ended to the profile.
 *
 * With light_explain.profile on, every statement is instrumented, which is cheap
 * enough with the light wrappers, and when one has ended, successfully or not, the
 * counters of its nodes are added to those of its plan.  All work that takes time is
 * done before a lock is taken.
 *
 * For a short statement most of the time would be spent finding its plan: names
 * are hashed for the plan's identifier, and tables are searched.  So a
 * session remembers plans of few nodes that it stored: the exact text of their names, their
 * shape, and their places in the profile.  Both are compared
 * before they are relied on, so no invalidation is needed when a table is renamed
 * or the plan is evicted.  A plan's serial number shows whether it is still there.
 *
 * Statements that fail are in profile_failed.c.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "compat_planner.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "show/history.h"
#include "show/plans.h"
#include "utils/memutils.h"

/* ---- storing ------------------------------------------------------------ */

/* Add what a node did in one execution. */
static inline void
add_figure(LightPlanNode *node, const LightFigure *figure)
{
	int32		log;

	if (figure->loops <= 0)
		return;
	log = light_time_log(figure->self.time);
	node->executions++;
	node->loops += figure->loops;
	node->rows += figure->rows;
	node->plan_rows += figure->plan_rows * figure->loops;
	node->filtered += figure->filtered;
	node->total_time += figure->time;
	node->self_time += figure->self.time;
	node->max_self_time = Max(node->max_self_time, figure->self.time);
	node->log_sum += log;
	node->log_max = Max(node->log_max, log);
	light_usage_add(&node->self, &figure->self.usage);
	node->max_memory = Max(node->max_memory, figure->memory);
	node->spilled += figure->spilled;
}

/* Add the functions that the statement compiled, to its top node. */
static inline void
add_jit(LightPlanNode *top, const LightFigure *figure)
{
	if (likely(figure->jit_functions == 0))
		return;
	top->jit_functions += figure->jit_functions;
	top->jit_time += figure->jit_time;
}

/* Add what it did in several. */
static void
add_node(LightPlanNode *node, const LightPlanNode *more)
{
	node->executions += more->executions;
	node->loops += more->loops;
	node->rows += more->rows;
	node->plan_rows += more->plan_rows;
	node->filtered += more->filtered;
	node->total_time += more->total_time;
	node->self_time += more->self_time;
	node->max_self_time = Max(node->max_self_time, more->max_self_time);
	node->log_sum += more->log_sum;
	node->log_max = Max(node->log_max, more->log_max);
	light_usage_add(&node->self, &more->self);
	node->max_memory = Max(node->max_memory, more->max_memory);
	node->spilled += more->spilled;
	node->jit_functions += more->jit_functions;
	node->jit_time += more->jit_time;
}

/* A plan, whose lock is held, was executed this many times. */
static inline void
count_executions(int part, LightPlan *plan, int64 executions)
{
	pg_atomic_uint64 *stores = &light_part(part)->stores;

	/* a number that another process takes as well does not matter */
	plan->used = (int64) pg_atomic_read_u64(stores) + 1;
	pg_atomic_write_u64(stores, plan->used);
	plan->executions += executions;
}

/* Count an execution that took "seconds" for the history. */
static inline void
count_time(uint32 *times, double *max_time, double seconds)
{
	uint32	   *executions = &times[light_time_interval(seconds)];

	/* more than four billion are too many to count */
	*executions += *executions < PG_UINT32_MAX;
	*max_time = Max(*max_time, seconds);
}

/* Add the counters of one execution to a plan, whose lock is held. */
static void
add_execution(int part, LightPlan *plan, const LightFigure *figures, int n, LightOutcome outcome)
{
	int			chunk = -1;

	count_executions(part, plan, 1);
	plan->cancelled += outcome == LIGHT_CANCELLED;
	plan->failed += outcome == LIGHT_FAILED;
	if (light_profile_shared->timed)
		count_time(light_plan_times(part, plan), &plan->max_time, figures[0].time);
	for (int i = 0; i < Min(n, plan->nnodes); i++)
	{
		LightPlanNode *node = light_plan_node(part, plan, i, &chunk);

		add_figure(node, &figures[i]);
		if (i == 0)
			add_jit(node, &figures[i]);
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

/* The counters of executions that are kept until the plan's lock is free. */
typedef struct PendingSums
{
	LightPlanNode nodes[LIGHT_FEW_NODES];
	double		max_time;
	uint32		times[LIGHT_TIMES];
} PendingSums;

typedef struct KnownPlan
{
	LightPlanKey key;
	int			part;
	LightPlan  *plan;
	int64		serial;			/* of the plan that was there */
	uint64		given;			/* identifier that its last plan had before:
								 * see plan_id_of() */
	bool		extended;		/* other libraries added to its last plan,
								 * perhaps advice */
	int64		npending;		/* executions in "pending" */
	PendingSums *pending;		/* or NULL */
	Spelling	spelling;
} KnownPlan;

static KnownPlan *known_plans = NULL;
static void transaction_callback(XactEvent event, void *arg);

/* Plans of which some are pending. */
static int	pending_plans = 0;

/* Statements of few nodes should not pay for memory: there is one array for all. */
static LightFigure few_figures[LIGHT_FEW_NODES];

/* Add what is pending, if its plan is still there. */
static void
add_pending(KnownPlan *known, bool there)
{
	int			chunk = -1;

	if (there)
	{
		count_executions(known->part, known->plan, known->npending);
		for (int i = 0; i < known->plan->nnodes; i++)
			add_node(light_plan_node(known->part, known->plan, i, &chunk), &known->pending->nodes[i]);
		if (light_profile_shared->timed)
		{
			uint32	   *times = light_plan_times(known->part, known->plan);

			for (int i = 0; i < LIGHT_TIMES; i++)
				times[i] = Min((uint64) times[i] + known->pending->times[i], PG_UINT32_MAX);
			known->plan->max_time = Max(known->plan->max_time, known->pending->max_time);
		}
	}
	known->npending = 0;
	pending_plans--;
}

static void
flush_plan(KnownPlan *known)
{
	LWLockAcquire(&known->plan->lock, LW_EXCLUSIVE);
	add_pending(known, known->plan->serial == known->serial);
	LWLockRelease(&known->plan->lock);
}

/* Store all that is pending in this session. */
void
light_profile_flush(void)
{
	for (int i = 0; i < KNOWN_PLANS && pending_plans > 0; i++)
	{
		if (known_plans[i].npending > 0)
			flush_plan(&known_plans[i]);
	}
}

/* Nothing is pending in a session that is idle, or that has ended. */
static void
transaction_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		light_profile_flush();
}

/* Where a plan of this statement would be; NULL if there is no memory. */
static KnownPlan *
known_plan(const LightPlanKey *key)
{
	uint64		hash = key->query_id ^ (key->caller_id >> 7) ^ key->role;

	if (unlikely(known_plans == NULL))
	{
		known_plans = MemoryContextAllocExtended(TopMemoryContext, KNOWN_PLANS * sizeof(KnownPlan),
												 MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
		if (known_plans != NULL)
			RegisterXactCallback(transaction_callback, NULL);
	}
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

/*
 * Is this the plan of a statement?  All of "key" but the plan's own identifier counts.  A plan
 * that other libraries extended counts as another one the first time: its advice is to be stored.
 */
static bool
is_known(const KnownPlan *known, const LightPlanKey *key, uint64 given, const Spelling *spelling, bool extended)
{
	return known != NULL && (given == known->given || given == known->key.plan_id) && spelling->size > 0 && known->spelling.size == spelling->size && known->extended >= extended &&
		known->key.query_id == key->query_id && known->key.caller_id == key->caller_id &&
		known->key.role == key->role && known->key.database == key->database &&
		memcmp(known->spelling.text, spelling->text, spelling->size) == 0;
}

/* Keep an execution until the plan's lock is free; false if there is no memory. */
static bool
keep_pending(KnownPlan *known, const LightFigure *figures, int n)
{
	if (known->pending == NULL)
		known->pending = MemoryContextAllocExtended(TopMemoryContext, sizeof(PendingSums), MCXT_ALLOC_NO_OOM);
	if (known->pending == NULL)
		return false;
	if (known->npending++ == 0)
	{
		memset(known->pending, 0, sizeof(PendingSums));
		pending_plans++;
	}
	for (int i = 0; i < n; i++)
		add_figure(&known->pending->nodes[i], &figures[i]);
	add_jit(&known->pending->nodes[0], &figures[0]);
	count_time(known->pending->times, &known->pending->max_time, figures[0].time);
	return true;
}

/*
 * Add to a plan if it is still where it was.
 *
 * A session that finds the plan's lock taken keeps the execution and adds it with a later
 * one, at the end of the transaction at the latest.  With sessions that all run one
 * statement in a loop, each would otherwise wait for the lock, and where there are more of
 * them than CPUs, mostly for a process that was interrupted while it had it: of 16 sessions
 * on two CPUs two thirds were waiting.
 */
static bool
store_known(KnownPlan *known, const LightFigure *figures, int n, LightOutcome outcome)
{
	LightPlan  *plan = known->plan;
	bool		there;

	if (!LWLockConditionalAcquire(&plan->lock, LW_EXCLUSIVE))
	{
		if (outcome == LIGHT_DONE && keep_pending(known, figures, n))
			return true;
		LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
	}
	there = plan->serial == known->serial;
	if (unlikely(known->npending > 0))
		add_pending(known, there);
	if (likely(there))
		add_execution(known->part, plan, figures, n, outcome);
	LWLockRelease(&plan->lock);
	return there;
}

/* ---- storing ------------------------------------------------------------ */

/* Store the advice of a plan, whose lock is held, unless it is there. */
static void
store_advice(int part, LightPlan *plan, const PlannedStmt *stmt)
{
	const char *advice = plan->advice_length == 0 ? PlanAdvice_compat(stmt) : NULL;

	if (advice != NULL)
		light_plan_set_advice(part, plan, advice, strlen(advice));
}

/*
 * The identifier of a plan: that which an extension, or the profile, has set in PlannedStmt.planId
 * ("given", 0 if none), or else the hash of its nodes ("shape").  An identifier that is given may be that of
 * plans with other nodes, for example if partitions were pruned, and their counters must not be added
 * up: for the "attempt" after one that another shape has, it is another one.
 */
static uint64
plan_id_of(uint64 given, uint64 shape, int attempt)
{
	uint64		id = given != 0 && attempt == 0 ? given : shape;

	for (int i = given != 0 && given != shape ? 2 : 1; i <= attempt; i++)
		id = hash_combine64(id, shape);
	return id;
}

/*
 * Make the plan of a statement that has none yet, with names and text.  NULL if there is one with
 * another shape.
 */
static LightPlan *
store_new(int part, const LightPlanKey *key, uint64 shape, LightQuery *query, const LightFigure *figures, int n, LightOutcome outcome, int64 *serial)
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

	light_part_lock(part);
	light_part(part)->changing = true;
	plan = light_plan_find(part, key);
	if (plan == NULL)
	{
		int			chunk = -1;

		plan = light_plan_make(part, key, shape, n, true);
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
	if (plan->shape == shape)
	{
		LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
		add_execution(part, plan, figures, n, outcome);
		store_advice(part, plan, query->queryDesc->plannedstmt);
		*serial = plan->serial;
		LWLockRelease(&plan->lock);
	}
	else
		plan = NULL;
	light_part(part)->changing = false;
	light_part_unlock(part);
	pfree(names);
	return plan;
}

/* Add to a plan of a shape, wherever it is; it is made if it is nowhere.  NULL if the key is that of another shape. */
static LightPlan *
store_unknown(int part, const LightPlanKey *key, uint64 shape, LightQuery *query, const LightFigure *figures, int n, LightOutcome outcome, int64 *serial)
{
	LightPlan  *plan;
	bool		other;

	LWLockAcquire(light_part(part)->lock, LW_SHARED);
	plan = light_plan_find(part, key);
	other = plan != NULL && plan->shape != shape;
	if (plan != NULL && !other)
	{
		LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
		add_execution(part, plan, figures, n, outcome);
		store_advice(part, plan, query->queryDesc->plannedstmt);
		*serial = plan->serial;
		LWLockRelease(&plan->lock);
	}
	LWLockRelease(light_part(part)->lock);
	if (other)
		return NULL;
	return plan != NULL ? plan : store_new(part, key, shape, query, figures, n, outcome, serial);
}

/*
 * The counters of a statement's nodes, in "few_figures" or palloc'd.  Computing them takes
 * long if there are many nodes: no process should wait for that, so no lock is held ("holdoff"
 * is how many interrupts were held off when we were called, which each lock does).
 */
static inline LightFigure *
take_figures(LightQuery *query, uint32 holdoff, int *n)
{
	Assert(InterruptHoldoffCount == holdoff);
	Assert(!light_profile_locked());
	return light_figures(query, few_figures, n);
}

/* An execution is in the profile: is its plan to be kept?  "keep" is NULL if none is. */
static inline void
decide_keep(LightKeep *keep, LightPlan *plan, int64 serial, const LightPlanKey *key, double seconds)
{
	if (keep == NULL)
		return;
	seconds += keep->seconds;
	if (likely(seconds * 1000.0 < light_plans_min_duration) || !light_plans_wanted(plan, seconds))
		return;
	keep->plan = plan;
	keep->serial = serial;
	keep->key = *key;
	keep->seconds = seconds;
}

void		pg_attribute_hot
light_profile_add(LightQuery *query, LightOutcome outcome, LightKeep *keep)
{
	QueryDesc  *queryDesc = query->queryDesc;
	LightQuery *caller = light_chain.current;
	LightPlanKey key;
	LightPlan  *plan;
	LightFigure *figures;
	KnownPlan  *known = NULL;
	uint32		holdoff = InterruptHoldoffCount;
	uint64		given = PlanId_compat(queryDesc->plannedstmt);
	uint64		shape;
	Spelling	spelling;
	int64		serial;
	bool		brief;
	int			n;
	int			part = 0;

	/*
	 * the query of a materialized view, and before 18 that of DECLARE CURSOR
	 * has none
	 */
	if (queryDesc->plannedstmt->queryId == 0)
	{
		pg_atomic_fetch_add_u64(IsQueryIdEnabled() ? &light_profile_shared->utility_without_id : &light_profile_shared->without_id, 1);
		light_activity_ended(query->execution, LIGHT_NO_PLAN);
		return;
	}

	/*
	 * An error while the profile was read: locks are released with the
	 * transaction, and a process that holds one must not wait for another.
	 */
	if (unlikely(outcome != LIGHT_DONE) && light_profile_locked())
		return;
	figures = take_figures(query, holdoff, &n);
	brief = figures == few_figures;
	if (n == 0)
		return;
	light_figures_space(query, figures, n, outcome == LIGHT_DONE);
	key.database = MyDatabaseId;
	key.role = query->role;
	key.query_id = queryDesc->plannedstmt->queryId;
	key.caller_id = caller != NULL ? caller->queryDesc->plannedstmt->queryId : 0;
	if (brief)
	{
		known = known_plan(&key);
		spell(figures, n, &spelling);
		if (is_known(known, &key, given, &spelling, PlanIsExtended_compat(queryDesc->plannedstmt)) && store_known(known, figures, n, outcome))
		{
			if (given == 0)
				SetPlanId_compat(queryDesc->plannedstmt, known->key.plan_id);
			light_activity_ended(query->execution, known->key.plan_id);
			decide_keep(keep, known->plan, known->serial, &known->key, figures[0].time);
			return;
		}
	}
	shape = light_plan_hash(figures, n);
	plan = NULL;
	for (int attempt = 0; plan == NULL; attempt++)
	{
		key.plan_id = plan_id_of(given, shape, attempt);
		part = light_part_of(&key);
		plan = store_unknown(part, &key, shape, query, figures, n, outcome, &serial);
	}
	if (given == 0)
		SetPlanId_compat(queryDesc->plannedstmt, key.plan_id);
	light_activity_ended(query->execution, key.plan_id);
	if (known != NULL && spelling.size > 0)
	{
		if (unlikely(known->npending > 0))
			flush_plan(known);
		known->key = key;
		known->given = given;
		known->part = part;
		known->plan = plan;
		known->serial = serial;
		known->extended = PlanIsExtended_compat(queryDesc->plannedstmt);
		known->spelling.size = spelling.size;
		memcpy(known->spelling.text, spelling.text, spelling.size);
	}
	decide_keep(keep, plan, serial, &key, figures[0].time);
	if (!brief)
		pfree(figures);
}

/* Are statements of this process for the profile?  Not if there is no memory for one. */
bool
light_profiled(void)
{
	return light_profile && light_profile_shared != NULL && !IsParallelWorker();
}

/*
 * A statement is finished, whose triggers ran for so many seconds at its end: add its
 * figures to the profile, and keep its plan if it is one of those.
 */
void
light_profile_store(LightQuery *query, double finishing)
{
	MemoryContext old = MemoryContextSwitchTo(query->context);

	if (likely(light_plans == NULL || light_plans_min_duration < 0))
		light_profile_add(query, LIGHT_DONE, NULL);
	else
	{
		LightKeep	keep;

		keep.serial = 0;
		keep.seconds = finishing;
		light_profile_add(query, LIGHT_DONE, &keep);
		if (unlikely(keep.serial != 0))
			light_plans_keep(query, &keep);
	}
	MemoryContextSwitchTo(old);
}

/*-------------------------------------------------------------------------
 *
 * profile.c
 *	  Figures of each plan node added up over all executions of a statement.
 *
 * With light_explain.profile on, every statement is instrumented, which is cheap
 * enough with the light wrappers, and when one has ended, well or not, the
 * figures of its nodes are added to those of its plan in shared memory: one for
 * each database, role, statement (its query identifier), plan and calling
 * statement.  Plans of one statement are told apart by a hash over names and
 * shape.
 *
 * The profile is an array of small hash tables, each with a lock and memory of
 * its own.  All that takes time is done before a lock is taken.  To add to a plan
 * takes its table's lock shared and the plan's own; only to make a plan takes the
 * table's exclusively.  When a table is full, its plan that was not used longest
 * goes.  A plan with more nodes than a table has is kept without the last ones.
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
#include "common/hashfn.h"
#include "compat_instrument.h"
#include "compat_planner.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "show/profile.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

/* A table should have room for plans of this many nodes, if there is that much. */
#define PART_NODES 256
#define MAX_PARTS 256

LightProfileShared *light_profile_shared = NULL;

/* ---- shared memory ------------------------------------------------------ */

/* How many tables, and how many plans and chunks in each. */
static void
dimensions(int *nparts, int *nplans)
{
	*nparts = 1;
	while (*nparts < MAX_PARTS && *nparts * 2 * PART_NODES <= light_profile_max)
		*nparts *= 2;
	*nplans = (light_profile_max / *nparts + LIGHT_CHUNK_NODES - 1) / LIGHT_CHUNK_NODES;
}

/* Sizes of what a table consists of. */
#define HEAD_SIZE MAXALIGN(sizeof(LightProfileShared))
#define PART_SIZE MAXALIGN(sizeof(LightPart))
#define BUCKETS_SIZE(nplans) MAXALIGN(mul_size(nplans, sizeof(int)))
#define PLANS_SIZE(nplans) MAXALIGN(mul_size(nplans, sizeof(LightPlan)))
#define CHUNKS_SIZE(nplans) MAXALIGN(mul_size(nplans, sizeof(LightChunk)))
#define TEXTS_SIZE(nplans, text) MAXALIGN(mul_size(nplans, text))

static Size
part_size(int nplans, int text_size)
{
	Size		size = PART_SIZE;

	size = add_size(size, BUCKETS_SIZE(nplans));
	size = add_size(size, PLANS_SIZE(nplans));
	size = add_size(size, CHUNKS_SIZE(nplans));
	return add_size(size, TEXTS_SIZE(nplans, text_size));
}

LightPart *
light_part(int part)
{
	LightProfileShared *shared = light_profile_shared;

	return (LightPart *) ((char *) shared + HEAD_SIZE + part * part_size(shared->nplans, shared->text_size));
}

static int *
buckets_of(int part)
{
	return (int *) ((char *) light_part(part) + PART_SIZE);
}

/* A plan, by its number in its table. */
LightPlan *
light_plan(int part, int n)
{
	return (LightPlan *) ((char *) buckets_of(part) + BUCKETS_SIZE(light_profile_shared->nplans)) + n;
}

LightChunk *
light_chunk(int part, int n)
{
	return (LightChunk *) ((char *) light_plan(part, 0) + PLANS_SIZE(light_profile_shared->nplans)) + n;
}

/* Where a plan's statement has its text. */
char *
light_plan_text(int part, int n)
{
	return (char *) light_chunk(part, 0) + CHUNKS_SIZE(light_profile_shared->nplans) + (Size) n * light_profile_shared->text_size;
}

/*
 * Node n of a plan.  *chunk is -1 for the first one asked for, then what the call
 * before left there; nodes are asked for in their order.
 */
LightPlanNode *
light_plan_node(int part, const LightPlan *plan, int n, int *chunk)
{
	if (n % LIGHT_CHUNK_NODES == 0)
		*chunk = n == 0 ? plan->chunk : light_chunk(part, *chunk)->next;
	return &light_chunk(part, *chunk)->nodes[n % LIGHT_CHUNK_NODES];
}

/* Shared memory that is wanted. */
Size
light_profile_size(void)
{
	int			nparts;
	int			nplans;

	dimensions(&nparts, &nplans);
	return add_size(HEAD_SIZE, mul_size(nparts, part_size(nplans, light_profile_text)));
}

/* Locks that are wanted. */
int
light_profile_locks(void)
{
	int			nparts;
	int			nplans;

	dimensions(&nparts, &nplans);
	return nparts;
}

/* Forget all plans of a table; its lock is held exclusively, or nobody knows it. */
void
light_part_empty(int part)
{
	LightPart  *p = light_part(part);
	int			nplans = light_profile_shared->nplans;

	p->changing = true;
	p->free_plan = p->free_chunk = 0;
	p->nfree_chunks = nplans;
	p->nplans = p->nnodes = 0;
	for (int i = 0; i < nplans; i++)
	{
		buckets_of(part)[i] = -1;
		light_plan(part, i)->nnodes = 0;
		light_plan(part, i)->chunk = -1;
		light_plan(part, i)->next = i + 1 < nplans ? i + 1 : -1;
		light_chunk(part, i)->next = i + 1 < nplans ? i + 1 : -1;
	}
	p->changing = false;
}

/* Make or find it. */
void
light_profile_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	light_profile_shared = ShmemInitStruct("light_explain profile", light_profile_size(), &found);
	if (!found)
	{
		LightProfileShared *shared = light_profile_shared;
		LWLockPadded *locks = GetNamedLWLockTranche("light_explain");

		dimensions(&shared->nparts, &shared->nplans);
		shared->text_size = light_profile_text;
		pg_atomic_init_u64(&shared->dropped_plans, 0);
		pg_atomic_init_u64(&shared->dropped_nodes, 0);
		pg_atomic_init_u64(&shared->without_id, 0);
		for (int part = 0; part < shared->nparts; part++)
		{
			LightPart  *p = light_part(part);

			p->lock = &locks[part].lock;
			pg_atomic_init_u64(&p->stores, 0);
			for (int i = 0; i < shared->nplans; i++)
				LWLockInitialize(&light_plan(part, i)->lock, p->lock->tranche);
			light_part_empty(part);
		}
	}
	LWLockRelease(AddinShmemInitLock);

	/* the postmaster, or a server of one process, keeps it in a file */
	if (!IsUnderPostmaster)
		on_shmem_exit(light_profile_save, (Datum) 0);
	if (!found)
		light_profile_load();
}

/* ---- plans -------------------------------------------------------------- */

static uint64
hash_of(const LightPlanKey *key)
{
	return hash_bytes_extended((const unsigned char *) key, sizeof(LightPlanKey), 0);
}

/* The table of a plan. */
int
light_part_of(const LightPlanKey *key)
{
	return (hash_of(key) >> 32) & (light_profile_shared->nparts - 1);
}

static int *
bucket_of(int part, const LightPlanKey *key)
{
	return &buckets_of(part)[(uint32) hash_of(key) % light_profile_shared->nplans];
}

/* Find a plan; its table's lock is held. */
static LightPlan *
find_plan(int part, const LightPlanKey *key)
{
	for (int n = *bucket_of(part, key); n >= 0; n = light_plan(part, n)->next)
	{
		if (memcmp(&light_plan(part, n)->key, key, sizeof(LightPlanKey)) == 0)
			return light_plan(part, n);
	}
	return NULL;
}

/* Drop the plan of a table that was not used longest. */
static void
drop_oldest(int part)
{
	LightPart  *p = light_part(part);
	int			oldest = -1;
	LightPlan  *plan;
	int		   *link;
	int			chunk;

	for (int i = 0; i < light_profile_shared->nplans; i++)
	{
		plan = light_plan(part, i);
		if (plan->nnodes > 0 && (oldest < 0 || plan->used < light_plan(part, oldest)->used))
			oldest = i;
	}
	plan = light_plan(part, oldest);
	for (link = bucket_of(part, &plan->key); *link != oldest; link = &light_plan(part, *link)->next)
		;
	*link = plan->next;
	while ((chunk = plan->chunk) >= 0)
	{
		plan->chunk = light_chunk(part, chunk)->next;
		light_chunk(part, chunk)->next = p->free_chunk;
		p->free_chunk = chunk;
		p->nfree_chunks++;
	}
	p->nplans--;
	p->nnodes -= plan->nnodes;
	plan->nnodes = 0;
	plan->next = p->free_plan;
	p->free_plan = oldest;
	pg_atomic_fetch_add_u64(&light_profile_shared->dropped_plans, 1);
}

/*
 * Make a plan with room for up to "nnodes", all of it zero; its table's lock is
 * held exclusively.  Makes room, or gives up if not to "evict".
 */
LightPlan *
light_plan_make(int part, const LightPlanKey *key, int nnodes, bool evict)
{
	LightPart  *p = light_part(part);
	int			chunks;
	int			n;
	int		   *bucket;
	int		   *link;
	LightPlan  *plan;

	chunks = Min((nnodes + LIGHT_CHUNK_NODES - 1) / LIGHT_CHUNK_NODES, light_profile_shared->nplans);
	while (p->free_plan < 0 || p->nfree_chunks < chunks)
	{
		if (!evict)
			return NULL;
		drop_oldest(part);
	}
	n = p->free_plan;
	plan = light_plan(part, n);
	p->free_plan = plan->next;
	plan->key = *key;
	plan->used = plan->executions = plan->cancelled = plan->failed = 0;
	plan->nnodes = Min(nnodes, chunks * LIGHT_CHUNK_NODES);
	plan->encoding = plan->text_length = 0;
	bucket = bucket_of(part, key);
	plan->next = *bucket;
	*bucket = n;

	link = &plan->chunk;
	for (int i = 0; i < chunks; i++)
	{
		int			chunk = p->free_chunk;

		p->free_chunk = light_chunk(part, chunk)->next;
		memset(light_chunk(part, chunk), 0, sizeof(LightChunk));
		*link = chunk;
		link = &light_chunk(part, chunk)->next;
	}
	*link = -1;
	p->nfree_chunks -= chunks;
	p->nplans++;
	p->nnodes += plan->nnodes;
	if (nnodes > plan->nnodes)
		pg_atomic_fetch_add_u64(&light_profile_shared->dropped_nodes, nnodes - plan->nnodes);
	return plan;
}

/* Keep as much of a statement's text as there is room for. */
void
light_plan_set_text(int part, LightPlan *plan, const char *source, int length, int encoding)
{
	plan->encoding = encoding;
	plan->text_length = length <= light_profile_shared->text_size ? length :
		pg_encoding_mbcliplen(encoding, source, length, light_profile_shared->text_size);
	memcpy(light_plan_text(part, plan - light_plan(part, 0)), source, plan->text_length);
}

/* ---- storing ------------------------------------------------------------ */

/* Add the figures of one execution to a plan. */
static void
add_execution(int part, LightPlan *plan, const LightFigure *figures, int n, LightOutcome outcome)
{
	int			chunk = -1;

	plan->used = (int64) pg_atomic_add_fetch_u64(&light_part(part)->stores, 1);
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

/* Make the plan of a statement that has none yet, with names and text. */
static void
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
	plan = find_plan(part, key);
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
	add_execution(part, plan, figures, n, outcome);
	light_part(part)->changing = false;
	LWLockRelease(light_part(part)->lock);
}

/* A statement has ended and was left: add its figures to the profile. */
static void
store(LightQuery *query, Oid role, LightOutcome outcome)
{
	QueryDesc  *queryDesc = query->queryDesc;
	LightQuery *caller = light_chain.current;
	LightPlanKey key;
	LightPlan  *plan;
	LightFigure *figures;
	int			n;
	int			part;

	if (queryDesc->plannedstmt->queryId == 0)
	{
		pg_atomic_fetch_add_u64(&light_profile_shared->without_id, 1);
		return;
	}
	figures = light_figures(query, &n);
	if (n == 0)
		return;
	key.database = MyDatabaseId;
	key.role = role;
	key.query_id = queryDesc->plannedstmt->queryId;
	key.plan_id = light_plan_hash(figures, n);
	key.caller_id = caller != NULL ? caller->queryDesc->plannedstmt->queryId : 0;
	part = light_part_of(&key);

	/* an error out of a look at the profile: locks go with the transaction */
	if (unlikely(LWLockHeldByMe(light_part(part)->lock)))
		return;

	LWLockAcquire(light_part(part)->lock, LW_SHARED);
	plan = find_plan(part, &key);
	if (plan != NULL)
	{
		LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
		add_execution(part, plan, figures, n, outcome);
		LWLockRelease(&plan->lock);
	}
	LWLockRelease(light_part(part)->lock);
	if (plan == NULL)
		store_new(part, &key, query, figures, n, outcome);
	pfree(figures);
}

/* Is the statement one for the profile? */
bool
light_profiled(LightQuery *query)
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
 * since the executor was called, so its time is known.  A node that never
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
 * An error leaves the executor, which ran the statement inside of "outer" since
 * "started", or finished it if that is 0: called in PG_CATCH.  Keep what it did
 * until then, and throw the error again.  "role" is whose statement it is: the
 * current one may still be that of a function that failed.
 */
void
light_profile_failed(LightQuery *query, LightQuery *outer, Oid role, int64 started)
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
			complete_times(query, (light_now() - started) * light_seconds_per_tick());
		light_settle(query);
		store(query, role, error->sqlerrcode == ERRCODE_QUERY_CANCELED ? LIGHT_CANCELLED : LIGHT_FAILED);
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

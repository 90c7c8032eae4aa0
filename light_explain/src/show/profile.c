/*-------------------------------------------------------------------------
 *
 * profile.c
 *	  The profile's shared memory: plans and the counters of their nodes, added up
 *	  over all executions of a statement.  profile_store.c adds to them.
 *
 * There is one plan for each database, role, statement (its query identifier),
 * plan and calling statement.  Plans of one statement are distinguished by a hash
 * over names and shape.
 *
 * The profile is an array of small hash tables, each with a lock and memory of
 * its own.  To look for a plan takes its table's lock shared; to make or drop one
 * takes that exclusively and the plan's own as well.  A plan's own lock is for its
 * figures, and holds which plan it is: a session that remembers where a plan was
 * takes no other.  When a table is full, its plan that was not used longest goes.
 * A plan with more nodes than a table has is kept without the last ones.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "show/history.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

/* A table should have room for plans of this many nodes, if there is that much. */
#define PART_NODES 256
#define MAX_PARTS 256

LightProfileShared *light_profile_shared = NULL;

/* Bytes of a table, and where in it its buckets and what follows begin. */
static struct
{
	Size		part;
	Size		buckets;
	Size		plans;
	Size		chunks;
	Size		times;
	Size		texts;
}			layout;

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

/* Sizes of the parts of a table. */
#define HEAD_SIZE MAXALIGN(sizeof(LightProfileShared))
#define PART_SIZE MAXALIGN(sizeof(LightPart))
#define BUCKETS_SIZE(nplans) MAXALIGN(mul_size(nplans, sizeof(int)))
#define PLANS_SIZE(nplans) MAXALIGN(mul_size(nplans, sizeof(LightPlan)))
#define CHUNKS_SIZE(nplans) MAXALIGN(mul_size(nplans, sizeof(LightChunk)))
#define TEXTS_SIZE(nplans, text) MAXALIGN(mul_size(nplans, (text) + LIGHT_ADVICE_SIZE))
#define TIMES_SIZE(nplans, timed) ((timed) ? MAXALIGN(mul_size(nplans, LIGHT_TIMES * sizeof(uint32))) : 0)

static Size
part_size(int nplans, int text_size, bool timed)
{
	Size		size = PART_SIZE;

	size = add_size(size, BUCKETS_SIZE(nplans));
	size = add_size(size, PLANS_SIZE(nplans));
	size = add_size(size, CHUNKS_SIZE(nplans));
	size = add_size(size, TIMES_SIZE(nplans, timed));
	return add_size(size, TEXTS_SIZE(nplans, text_size));
}

/* The sizes fit: they were added up before memory was asked for. */
static void
lay_out(const LightProfileShared *shared)
{
	layout.part = part_size(shared->nplans, shared->text_size, shared->timed);
	layout.buckets = PART_SIZE;
	layout.plans = layout.buckets + BUCKETS_SIZE(shared->nplans);
	layout.chunks = layout.plans + PLANS_SIZE(shared->nplans);
	layout.times = layout.chunks + CHUNKS_SIZE(shared->nplans);
	layout.texts = layout.times + TIMES_SIZE(shared->nplans, shared->timed);
}

LightPart *
light_part(int part)
{
	return (LightPart *) ((char *) light_profile_shared + HEAD_SIZE + part * layout.part);
}

static int *
buckets_of(int part)
{
	return (int *) ((char *) light_part(part) + layout.buckets);
}

/* A plan, by its number in its table. */
LightPlan *
light_plan(int part, int n)
{
	return (LightPlan *) ((char *) light_part(part) + layout.plans) + n;
}

LightChunk *
light_chunk(int part, int n)
{
	return (LightChunk *) ((char *) light_part(part) + layout.chunks) + n;
}

/* Where a plan's statement has its text. */
char *
light_plan_text(int part, int n)
{
	return (char *) light_part(part) + layout.texts + (Size) n * (light_profile_shared->text_size + LIGHT_ADVICE_SIZE);
}

/* Where a plan has its advice: after the text. */
char *
light_plan_advice(int part, int n)
{
	return light_plan_text(part, n) + light_profile_shared->text_size;
}

/* Executions of a plan in the open bucket of the history, by interval; only if they are "timed". */
uint32 *
light_plan_times(int part, const LightPlan *plan)
{
	Assert(light_profile_shared->timed);
	return (uint32 *) ((char *) light_part(part) + layout.times) + (plan - light_plan(part, 0)) * LIGHT_TIMES;
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
	return add_size(HEAD_SIZE, mul_size(nparts, part_size(nplans, light_profile_text, light_history_memory > 0)));
}

/* Bytes that the nodes of a chunk have for the history. */
#define CHUNK_HISTORY_SIZE (LIGHT_CHUNK_NODES * (sizeof(LightPlanNode) - offsetof(LightPlanNode, log_sum)))

/* Bytes of a chunk, without those for the history. */
Size
light_profile_chunk_size(void)
{
	return sizeof(LightChunk) - (light_history_memory > 0 ? CHUNK_HISTORY_SIZE : 0);
}

/* Shared memory that the profile needs for the history. */
Size
light_profile_history_size(void)
{
	int			nparts;
	int			nplans;

	dimensions(&nparts, &nplans);
	if (light_history_memory == 0)
		return 0;
	return mul_size(nparts, TIMES_SIZE(nplans, true) + mul_size(nplans, CHUNK_HISTORY_SIZE));
}

/* Locks that are wanted: one for each table, and the history's after those. */
int
light_profile_locks(void)
{
	int			nparts;
	int			nplans;

	dimensions(&nparts, &nplans);
	return nparts + 1;
}

/*
 * Lock a table exclusively.  With a history, a plan that is dropped is moved to it, and
 * no reader may miss a plan that is being moved: its lock is taken first.
 */
void
light_part_lock(int part)
{
	if (light_history != NULL)
		LWLockAcquire(light_history->lock, LW_EXCLUSIVE);
	LWLockAcquire(light_part(part)->lock, LW_EXCLUSIVE);
}

void
light_part_unlock(int part)
{
	LWLockRelease(light_part(part)->lock);
	if (light_history != NULL)
		LWLockRelease(light_history->lock);
}

/* Has this process a lock of a table, or the history's? */
bool
light_profile_locked(void)
{
	return LWLockAnyHeldByMe(light_part(0)->lock, light_profile_shared->nparts + 1, sizeof(LWLockPadded));
}

/* Forget all plans of a table, except in the history; it is locked, or not shared yet. */
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
		LightPlan  *plan = light_plan(part, i);

		LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
		if (light_history != NULL && plan->nnodes > 0)
			light_history_dropped(part, plan);
		plan->serial = 0;
		plan->nnodes = 0;
		plan->chunk = -1;
		plan->next = i + 1 < nplans ? i + 1 : -1;
		LWLockRelease(&plan->lock);
		buckets_of(part)[i] = -1;
	}
	for (int i = 0; i < nplans; i++)
		light_chunk(part, i)->next = i + 1 < nplans ? i + 1 : -1;
	p->changing = false;
}

/* Make or find it. */
void
light_profile_startup(void)
{
	bool		found;

	/* after a crash it is that of the time before */
	light_history = NULL;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	light_profile_shared = ShmemInitStruct("light_explain profile", light_profile_size(), &found);
	if (!found)
	{
		LightProfileShared *shared = light_profile_shared;
		LWLockPadded *locks = GetNamedLWLockTranche("light_explain");

		dimensions(&shared->nparts, &shared->nplans);
		shared->text_size = light_profile_text;
		shared->timed = light_history_memory > 0;
		lay_out(shared);
		pg_atomic_init_u64(&shared->dropped_plans, 0);
		pg_atomic_init_u64(&shared->dropped_nodes, 0);
		pg_atomic_init_u64(&shared->without_id, 0);
		pg_atomic_init_u64(&shared->utility_without_id, 0);
		for (int part = 0; part < shared->nparts; part++)
		{
			LightPart  *p = light_part(part);

			p->lock = &locks[part].lock;
			p->made = 0;
			pg_atomic_init_u64(&p->stores, 0);
			for (int i = 0; i < shared->nplans; i++)
				LWLockInitialize(&light_plan(part, i)->lock, p->lock->tranche);
			light_part_empty(part);
		}
	}
	LWLockRelease(AddinShmemInitLock);
	lay_out(light_profile_shared);

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
LightPlan *
light_plan_find(int part, const LightPlanKey *key)
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
	LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
	if (light_history != NULL)
		light_history_dropped(part, plan);
	while ((chunk = plan->chunk) >= 0)
	{
		plan->chunk = light_chunk(part, chunk)->next;
		light_chunk(part, chunk)->next = p->free_chunk;
		p->free_chunk = chunk;
		p->nfree_chunks++;
	}
	p->nplans--;
	p->nnodes -= plan->nnodes;
	plan->serial = 0;
	plan->nnodes = 0;
	LWLockRelease(&plan->lock);
	plan->next = p->free_plan;
	p->free_plan = oldest;
	pg_atomic_fetch_add_u64(&light_profile_shared->dropped_plans, 1);
}

/*
 * Make a plan with room for up to "nnodes", all of it zero; its table's lock is
 * held exclusively.  Makes room, or gives up if not to "evict".
 */
LightPlan *
light_plan_make(int part, const LightPlanKey *key, uint64 shape, int nnodes, bool evict)
{
	LightPart  *p = light_part(part);
	int			chunks;
	int			n;
	int		   *bucket;
	int		   *link;
	LightPlan  *plan;

	Assert(!IsUnderPostmaster || LWLockHeldByMeInMode(p->lock, LW_EXCLUSIVE));
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
	LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
	plan->key = *key;
	plan->shape = shape;
	plan->serial = ++p->made;
	plan->used = plan->executions = plan->cancelled = plan->failed = 0;
	plan->closed_executions = plan->closed_cancelled = plan->closed_failed = 0;
	plan->max_time = plan->kept_slowest = 0;
	plan->kept_resets = 0;
	pg_atomic_init_u64(&plan->kept_last, 0);
	if (light_profile_shared->timed)
		memset(light_plan_times(part, plan), 0, LIGHT_TIMES * sizeof(uint32));
	plan->nnodes = Min(nnodes, chunks * LIGHT_CHUNK_NODES);
	plan->encoding = plan->text_length = plan->advice_length = 0;
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
	LWLockRelease(&plan->lock);
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

/* Keep a plan's advice; its lock is held, or its table's exclusively.  Part of one is of no use. */
void
light_plan_set_advice(int part, LightPlan *plan, const char *advice, int length)
{
	if (length > LIGHT_ADVICE_SIZE)
		return;
	plan->advice_length = length;
	memcpy(light_plan_advice(part, plan - light_plan(part, 0)), advice, length);
}

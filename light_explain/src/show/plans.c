/*-------------------------------------------------------------------------
 *
 * plans.c
 *	  Shared memory for kept plans: of each query and plan the slowest and the last
 *	  execution, as EXPLAIN prints them.
 *
 * Plans are formatted and compressed before the lock is taken (plans_keep.c).  Here
 * their bytes are copied to blocks of equal size.  When there is no room for another
 * one, the plan goes of which no execution was kept for longest.
 *
 * Nothing that can fail is done while the lock is held exclusively.  While it is held,
 * no other lock is taken.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "show/plans.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

/* Bytes of a block: the plan of a key lookup takes two or three. */
#define BLOCK_SIZE 512

/* An execution may take this part of all blocks. */
#define LARGEST_PART 4

/* Kilobytes that are taken at least. */
#define SMALLEST_SIZE 64

/* There is room for as many plans as fill all blocks with two for each. */
#define PLAN_BLOCKS 2

/* A piece of a formatted plan. */
typedef struct Block
{
	int			next;			/* of the plan or of the free ones, or -1 */
	char		data[BLOCK_SIZE];
} Block;

LightPlansShared *light_plans = NULL;

/* ---- shared memory: head, buckets, plans, blocks ------------------------ */

#define HEAD_SIZE MAXALIGN(sizeof(LightPlansShared))
#define BUCKETS_SIZE(n) MAXALIGN(mul_size(n, sizeof(int)))
#define PLANS_SIZE(n) MAXALIGN(mul_size(n, sizeof(LightKeptPlan)))

/* How many plans and blocks light_explain.plans_size has room for. */
static void
dimensions(int *nplans, int *nblocks)
{
	Size		size = mul_size(Max(light_plans_size, SMALLEST_SIZE), 1024);
	Size		of_plan = PLAN_BLOCKS * sizeof(Block) + sizeof(LightKeptPlan) + sizeof(int);

	*nplans = (size - HEAD_SIZE) / of_plan;
	*nblocks = *nplans * PLAN_BLOCKS;
}

static int *
buckets(void)
{
	return (int *) ((char *) light_plans + HEAD_SIZE);
}

static int *
bucket_of(const LightPlanKey *key)
{
	return &buckets()[hash_bytes((const unsigned char *) key, sizeof(LightPlanKey)) % light_plans->nplans];
}

static LightKeptPlan *
plan_at(int n)
{
	return (LightKeptPlan *) ((char *) buckets() + BUCKETS_SIZE(light_plans->nplans)) + n;
}

static Block *
block_at(int n)
{
	return (Block *) ((char *) plan_at(0) + PLANS_SIZE(light_plans->nplans)) + n;
}

/* Shared memory that is wanted, in bytes. */
Size
light_plans_wanted_size(void)
{
	int			nplans;
	int			nblocks;
	Size		size;

	if (light_plans_size == 0)
		return 0;
	dimensions(&nplans, &nblocks);
	size = add_size(HEAD_SIZE, BUCKETS_SIZE(nplans));
	size = add_size(size, PLANS_SIZE(nplans));
	return add_size(size, mul_size(nblocks, sizeof(Block)));
}

/* Create the shared memory of kept plans, or find it; "lock" protects it. */
void
light_plans_startup(LWLock *lock)
{
	bool		found;

	if (light_plans_size == 0)
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	light_plans = ShmemInitStruct("light_explain plans", light_plans_wanted_size(), &found);
	if (!found)
	{
		memset(light_plans, 0, sizeof(LightPlansShared));
		light_plans->lock = lock;
		dimensions(&light_plans->nplans, &light_plans->nblocks);
		pg_atomic_init_u64(&light_plans->failed, 0);
		light_plans_empty();
	}
	LWLockRelease(AddinShmemInitLock);
}

/* Forget all plans; the caller holds the lock exclusively, or is the only process. */
void
light_plans_empty(void)
{
	LightPlansShared *shared = light_plans;

	for (int i = 0; i < shared->nplans; i++)
	{
		buckets()[i] = -1;
		plan_at(i)->used = false;
		plan_at(i)->next = i + 1 < shared->nplans ? i + 1 : -1;
	}
	for (int i = 0; i < shared->nblocks; i++)
		block_at(i)->next = i + 1 < shared->nblocks ? i + 1 : -1;
	shared->oldest = shared->newest = -1;
	shared->free_plan = shared->free_block = 0;
	shared->used_plans = shared->used_blocks = 0;
	shared->kept = shared->dropped = shared->too_large = 0;
	pg_atomic_write_u64(&shared->failed, 0);
	shared->resets++;
}

/* ---- blocks ------------------------------------------------------------- */

static void
free_blocks(const LightKept *kept)
{
	int			last = kept->block;

	while (block_at(last)->next >= 0)
		last = block_at(last)->next;
	block_at(last)->next = light_plans->free_block;
	light_plans->free_block = kept->block;
	light_plans->used_blocks -= kept->nblocks;
}

/* Copy data to free blocks, of which there are enough. */
static void
fill_blocks(LightKept *kept, const char *data)
{
	int		   *link = &kept->block;

	for (int done = 0; done < kept->stored; done += BLOCK_SIZE)
	{
		int			n = light_plans->free_block;
		Block	   *block = block_at(n);

		Assert(n >= 0);
		light_plans->free_block = block->next;
		memcpy(block->data, data + done, Min(BLOCK_SIZE, kept->stored - done));
		*link = n;
		link = &block->next;
	}
	*link = -1;
	light_plans->used_blocks += kept->nblocks;
}

static void
read_blocks(const LightKept *kept, char *data)
{
	int			n = kept->block;

	for (int done = 0; done < kept->stored; done += BLOCK_SIZE)
	{
		memcpy(data + done, block_at(n)->data, Min(BLOCK_SIZE, kept->stored - done));
		n = block_at(n)->next;
	}
}

/* ---- plans -------------------------------------------------------------- */

static LightKeptPlan *
find(const LightPlanKey *key)
{
	for (int n = *bucket_of(key); n >= 0; n = plan_at(n)->next)
	{
		if (memcmp(&plan_at(n)->key, key, sizeof(LightPlanKey)) == 0)
			return plan_at(n);
	}
	return NULL;
}

/* Free what a plan's executions take. */
static void
free_executions(LightKeptPlan *plan)
{
	free_blocks(&plan->kept[LIGHT_SLOWEST]);
	if (!plan->same)
		free_blocks(&plan->kept[LIGHT_LAST]);
}

/* Take a plan out of the order of plans. */
static void
unlink_plan(const LightKeptPlan *plan)
{
	*(plan->older >= 0 ? &plan_at(plan->older)->newer : &light_plans->oldest) = plan->newer;
	*(plan->newer >= 0 ? &plan_at(plan->newer)->older : &light_plans->newest) = plan->older;
}

/* A plan is the newest one now. */
static void
link_plan(LightKeptPlan *plan)
{
	int			n = plan - plan_at(0);

	plan->older = light_plans->newest;
	plan->newer = -1;
	*(plan->older >= 0 ? &plan_at(plan->older)->newer : &light_plans->oldest) = n;
	light_plans->newest = n;
}

/* Drop the plan of which no execution was kept for longest. */
static void
drop_oldest(void)
{
	int			n = light_plans->oldest;
	LightKeptPlan *plan = plan_at(n);
	int		   *link = bucket_of(&plan->key);

	Assert(n >= 0 && plan->used);
	while (*link != n)
		link = &plan_at(*link)->next;
	*link = plan->next;
	unlink_plan(plan);
	free_executions(plan);
	plan->used = false;
	plan->next = light_plans->free_plan;
	light_plans->free_plan = n;
	light_plans->used_plans--;
	light_plans->dropped++;
}

/* Make a plan: the one execution that it will have is slowest and last. */
static LightKeptPlan *
make(const LightPlanKey *key, int encoding)
{
	LightKeptPlan *plan;
	int		   *bucket;

	if (light_plans->free_plan < 0)
		drop_oldest();
	plan = plan_at(light_plans->free_plan);
	light_plans->free_plan = plan->next;
	light_plans->used_plans++;
	plan->used = true;
	plan->key = *key;
	plan->encoding = encoding;
	bucket = bucket_of(key);
	plan->next = *bucket;
	*bucket = plan - plan_at(0);
	plan->same = true;
	link_plan(plan);
	return plan;
}

/*
 * The plan to which an execution that took "seconds" belongs; it is made if there is none.  Frees
 * the execution that the new one replaces; "same" becomes true if the new one is both the
 * slowest and the last.
 */
static LightKeptPlan *
plan_for(const LightPlanKey *key, int encoding, double seconds)
{
	LightKeptPlan *plan = find(key);

	if (plan == NULL)
		return make(key, encoding);
	unlink_plan(plan);
	link_plan(plan);
	if (seconds > plan->kept[LIGHT_SLOWEST].seconds)
	{
		free_executions(plan);
		plan->same = true;
	}
	else
	{
		if (!plan->same)
			free_blocks(&plan->kept[LIGHT_LAST]);
		plan->same = false;
	}
	return plan;
}

/*
 * Keep an execution as the last one of its plan, and as the slowest one if it is.
 * "kept" describes it, except its blocks; "data" are its "stored" bytes.  Returns the
 * duration of the slowest execution that is kept now, in seconds, or -1 if it is too large.
 */
double
light_plans_put(const LightPlanKey *key, const LightKept *kept, const char *data)
{
	LightPlansShared *shared = light_plans;
	int			nblocks = (kept->stored + BLOCK_SIZE - 1) / BLOCK_SIZE;
	int			encoding = GetDatabaseEncoding();
	bool		fits = nblocks <= shared->nblocks / LARGEST_PART;
	double		slowest = -1;

	Assert(kept->stored > 0);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (fits)
	{
		LightKeptPlan *plan = plan_for(key, encoding, kept->seconds);
		LightKept  *to = &plan->kept[plan->same ? LIGHT_SLOWEST : LIGHT_LAST];

		/* it has at most one other execution, so there are older plans */
		while (shared->nblocks - shared->used_blocks < nblocks)
		{
			Assert(shared->oldest != plan - plan_at(0));
			drop_oldest();
		}
		*to = *kept;
		to->nblocks = nblocks;
		fill_blocks(to, data);
		shared->kept++;
		slowest = plan->kept[LIGHT_SLOWEST].seconds;
	}
	else
		shared->too_large++;
	LWLockRelease(shared->lock);
	return slowest;
}

/* ---- reading ------------------------------------------------------------ */

/* A palloc'd array of the plans that a role may see, without what was formatted. */
LightKeptPlan *
light_plans_list(Oid role, bool see_all, int *n)
{
	LightKeptPlan *list = palloc_extended(light_plans->nplans * sizeof(LightKeptPlan), MCXT_ALLOC_HUGE);

	*n = 0;
	LWLockAcquire(light_plans->lock, LW_SHARED);
	for (int i = 0; i < light_plans->nplans; i++)
	{
		const LightKeptPlan *plan = plan_at(i);

		if (plan->used && (see_all || plan->key.role == role))
			list[(*n)++] = *plan;
	}
	LWLockRelease(light_plans->lock);
	return list;
}

/* Is an execution the one that is asked for, rather than "than"? */
static bool
better(const LightKept *kept, const LightKept *than, LightWhich which)
{
	return which == LIGHT_SLOWEST ? kept->seconds > than->seconds : kept->ended > than->ended;
}

/*
 * The slowest or last execution of a query, of one of its plans or (NULL) any, that a role may
 * see.  Returns its stored bytes, palloc'd, with their description and encoding, or NULL
 * if there is none.
 */
char *
light_plans_find(Oid role, bool see_all, uint64 query_id, const uint64 *plan_id, LightWhich which, LightKept *kept, int *encoding)
{
	const LightKeptPlan *found = NULL;
	char	   *data = NULL;

	LWLockAcquire(light_plans->lock, LW_SHARED);
	for (int i = 0; i < light_plans->nplans; i++)
	{
		const LightKeptPlan *plan = plan_at(i);

		if (plan->used && (see_all || plan->key.role == role) && plan->key.query_id == query_id &&
			(plan_id == NULL || plan->key.plan_id == *plan_id) &&
			(found == NULL || better(light_kept(plan, which), light_kept(found, which), which)))
			found = plan;
	}
	if (found != NULL)
	{
		*kept = *light_kept(found, which);
		*encoding = found->encoding;
		data = palloc_extended(kept->stored, MCXT_ALLOC_HUGE);
		read_blocks(kept, data);
	}
	LWLockRelease(light_plans->lock);
	return data;
}

/* Room for plans, how much is taken, and what is not kept. */
void
light_plans_counts(LightPlansCounts *counts)
{
	LightPlansShared *shared = light_plans;

	memset(counts, 0, sizeof(LightPlansCounts));
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counts->max_bytes = (int64) shared->nblocks * BLOCK_SIZE;
	counts->bytes = (int64) shared->used_blocks * BLOCK_SIZE;
	counts->max_plans = shared->nplans;
	counts->plans = shared->used_plans;
	counts->kept = shared->kept;
	counts->dropped = shared->dropped;
	counts->too_large = shared->too_large;
	counts->failed = (int64) pg_atomic_read_u64(&shared->failed);
	LWLockRelease(shared->lock);
}

/* Memory of plans and blocks, and the executions that were dropped, were too large or could not be formatted. */
void
light_plans_memory(LightMemory *memory)
{
	LightPlansCounts counts;

	memset(memory, 0, sizeof(LightMemory));
	if (light_plans == NULL)
		return;
	light_plans_counts(&counts);
	memory->bytes = light_plans_wanted_size();
	memory->max_entries = counts.max_plans;
	memory->entries = counts.plans;
	memory->used = counts.bytes + memory->entries * (sizeof(LightKeptPlan) + sizeof(int));
	memory->discarded = counts.dropped + counts.too_large + counts.failed;
}

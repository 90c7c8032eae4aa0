/*-------------------------------------------------------------------------
 *
 * history.c
 *	  The history's shared memory: the sums of the profile in each of the last
 *	  intervals of time.
 *
 * A statement that ends adds its counters to the profile only, with its time to the
 * intervals of its plan.  The counters that a plan and its nodes had when the last bucket ended are
 * kept next to the present ones.  The open bucket is therefore the difference of the two, and
 * when it ends the differences are copied to shared memory of the history.  Nothing is added up twice, and
 * a statement takes no lock of the history.
 *
 * Buckets are slots of equal size in a ring.  The plans of a bucket that took most time are
 * kept one by one, as many as its slot has room for, and the rest as one sum.  A plan that
 * the profile drops is copied to the open bucket's slot first.  A bucket without executions is
 * begun again, so that it does not replace one that has some.
 *
 * Buckets have the times at which they really began and ended.  If a process that ends them
 * is late, or there is none, they are longer.  The length of a bucket is also measured with the
 * monotonic clock: if the system's time was set, the end is what it would have been,
 * the next bucket begins at the new time, and a counter shows it.  Buckets are
 * ordered by their numbers, not by time.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "show/history.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* The system's time was set if it differs by more from the monotonic clock, in microseconds. */
#define SET_BY INT64CONST(1000000)

LightHistoryShared *light_history = NULL;

/* ---- shared memory: head, slots ----------------------------------------- */

#define HEAD_SIZE MAXALIGN(sizeof(LightHistoryShared))

StaticAssertDecl(sizeof(LightBucket) % MAXIMUM_ALIGNOF == 0 && sizeof(LightHistoryPlan) % MAXIMUM_ALIGNOF == 0 &&
				 sizeof(LightHistoryNode) % MAXIMUM_ALIGNOF == 0 && sizeof(LightHistoryTime) % MAXIMUM_ALIGNOF == 0,
				 "what follows in a slot is aligned");

/* Bytes for the plans of a bucket. */
static Size
bucket_size(void)
{
	return (Size) light_history_memory * 1024 / light_history_buckets / MAXIMUM_ALIGNOF * MAXIMUM_ALIGNOF;
}

/* Shared memory that is wanted, without that in the profile. */
Size
light_history_size(void)
{
	if (light_history_memory == 0)
		return 0;
	/* one more is open */
	return add_size(HEAD_SIZE, mul_size(light_history_buckets + 1, add_size(sizeof(LightBucket), bucket_size())));
}

/* The slot of a bucket. */
LightBucket *
light_bucket(int64 number)
{
	Size		slot = number % light_history->nbuckets;

	return (LightBucket *) ((char *) light_history + HEAD_SIZE + slot * (sizeof(LightBucket) + light_history->bucket_size));
}

/* Create or find it, with its lock.  The profile's memory exists already. */
void
light_history_startup(LWLock *lock)
{
	bool		found;

	if (light_history_memory == 0)
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	light_history = ShmemInitStruct("light_explain history", light_history_size(), &found);
	if (!found)
	{
		memset(light_history, 0, sizeof(LightHistoryShared));
		light_history->lock = lock;
		light_history->nbuckets = light_history_buckets + 1;
		light_history->bucket_size = bucket_size();
		for (int i = 0; i < light_history->nbuckets; i++)
			light_bucket(i)->number = 0;
	}
	LWLockRelease(AddinShmemInitLock);
	/* the postmaster, or a server of one process, keeps it in a file */
	if (!IsUnderPostmaster)
		on_shmem_exit(light_history_save, (Datum) 0);
}

/*
 * Lock a plan for a bucket that ends.  When the postmaster ends the last one, the other
 * processes are gone: it cannot wait for a lock that one of them had.
 */
static bool
lock_plan(LightPlan *plan)
{
	if (IsUnderPostmaster)
		return LWLockAcquire(&plan->lock, LW_EXCLUSIVE), true;
	return LWLockConditionalAcquire(&plan->lock, LW_EXCLUSIVE);
}

/* ---- the open bucket: what plans have since the last one ended ---------- */

/* The counters of a node in the open bucket. */
static void
node_since(const LightPlanNode *node, LightNodeSums *sums)
{
	const LightNodeSums *closed = &node->closed;

	sums->executions = node->executions - closed->executions;
	sums->loops = node->loops - closed->loops;
	sums->rows = node->rows - closed->rows;
	sums->plan_rows = node->plan_rows - closed->plan_rows;
	sums->total_time = node->total_time - closed->total_time;
	sums->self_time = node->self_time - closed->self_time;
	sums->log_sum = node->log_sum - closed->log_sum;
	sums->shared_hit = node->self.buffers.shared_blks_hit - closed->shared_hit;
	sums->shared_read = node->self.buffers.shared_blks_read - closed->shared_read;
	sums->temp_written = node->self.buffers.temp_blks_written - closed->temp_written;
}

/* Fill in the head of a plan, whose lock is held, for the open bucket; false if it has nothing. */
static bool
plan_since(int part, const LightPlan *plan, LightHistoryPlan *head)
{
	const uint32 *times = light_plan_times(part, plan);
	int			chunk = -1;

	if (plan->nnodes == 0 || plan->executions == plan->closed_executions)
		return false;
	memset(head, 0, sizeof(*head));
	head->key = plan->key;
	head->executions = plan->executions - plan->closed_executions;
	head->cancelled = plan->cancelled - plan->closed_cancelled;
	head->failed = plan->failed - plan->closed_failed;
	head->max_time = plan->max_time;
	for (int i = 0; i < plan->nnodes; i++)
	{
		const LightPlanNode *node = light_plan_node(part, plan, i, &chunk);

		if (i == 0)
			head->time = node->total_time - node->closed.total_time;
		head->nnodes += node->executions > node->closed.executions;
	}
	for (int i = 0; i < LIGHT_TIMES; i++)
		head->ntimes += times[i] > 0;
	return true;
}

/* Write what the open bucket has of a plan to memory with room for light_history_size_of(head). */
static void
write_plan(int part, const LightPlan *plan, const LightHistoryPlan *head, char *to)
{
	const uint32 *times = light_plan_times(part, plan);
	LightHistoryNode *node;
	LightHistoryTime *time;
	int			chunk = -1;

	memcpy(to, head, sizeof(*head));
	node = light_history_nodes((LightHistoryPlan *) to);
	time = light_history_times((LightHistoryPlan *) to);
	for (int i = 0; i < plan->nnodes; i++)
	{
		const LightPlanNode *from = light_plan_node(part, plan, i, &chunk);

		if (from->executions == from->closed.executions)
			continue;
		node->id = from->id;
		node->log_max = from->log_max;
		node_since(from, &node->sums);
		node++;
	}
	for (int i = 0; i < LIGHT_TIMES; i++)
	{
		if (times[i] > 0)
			*time++ = (LightHistoryTime)
		{
			.interval = i,.executions = times[i]
		};
	}
	Assert((char *) time == to + light_history_size_of(head));
}

/* All counters of a plan, whose lock is held, are now in buckets that have ended. */
void
light_plan_closed(int part, LightPlan *plan)
{
	int			chunk = -1;

	plan->closed_executions = plan->executions;
	plan->closed_cancelled = plan->cancelled;
	plan->closed_failed = plan->failed;
	plan->max_time = 0;
	for (int i = 0; i < plan->nnodes; i++)
	{
		LightPlanNode *node = light_plan_node(part, plan, i, &chunk);
		LightNodeSums since;

		node->closed = (LightNodeSums)
		{
			0
		};
		node_since(node, &since);
		node->closed = since;
		node->log_max = 0;
	}
	if (light_profile_shared->timed)
		memset(light_plan_times(part, plan), 0, LIGHT_TIMES * sizeof(uint32));
}

/* ---- buckets ------------------------------------------------------------ */

/* Begin a bucket, in place of the oldest one. */
void
light_bucket_open(int64 number, TimestampTz now)
{
	LightBucket *bucket = light_bucket(number);

	if (bucket->number != 0 && bucket->number != number)
		light_history->discarded++;
	memset(bucket, 0, sizeof(*bucket));
	bucket->number = number;
	bucket->start = now;
	light_history->open = number;
	light_history->opened = light_system_now();
}

/* Move what the open bucket has of a plan, whose lock is held, to its slot. */
static void
move_plan(int part, LightPlan *plan)
{
	LightBucket *bucket = light_bucket(light_history->open);
	LightHistoryPlan head;

	if (!plan_since(part, plan, &head))
		return;
	if (light_history_size_of(&head) <= light_history->bucket_size - bucket->used)
	{
		write_plan(part, plan, &head, (char *) (bucket + 1) + bucket->used);
		bucket->used += light_history_size_of(&head);
	}
	else
	{
		const uint32 *times = light_plan_times(part, plan);
		LightHistoryOther *other = &bucket->other;

		other->plans++;
		other->executions += head.executions;
		other->cancelled += head.cancelled;
		other->failed += head.failed;
		other->time += head.time;
		other->max_time = Max(other->max_time, head.max_time);
		for (int i = 0; i < LIGHT_TIMES; i++)
			other->times[i] += times[i];
		light_history->other++;
	}
	light_plan_closed(part, plan);
}

/* A plan is about to be dropped: its lock, its part's and the history's are held exclusively. */
void
light_history_dropped(int part, LightPlan *plan)
{
	Assert(!IsUnderPostmaster || LWLockHeldByMeInMode(light_history->lock, LW_EXCLUSIVE));
	light_history->changing = true;
	move_plan(part, plan);
	light_history->changing = false;
}

typedef struct Candidate
{
	double		time;
	int			part;
	int			n;
} Candidate;

static int
by_time(const void *a, const void *b)
{
	double		first = ((const Candidate *) a)->time;
	double		second = ((const Candidate *) b)->time;

	return first < second ? 1 : first > second ? -1 : 0;
}

/* The plans that the open bucket has, by part and number, and their time in it; returns how many. */
static int
find_candidates(Candidate *candidates)
{
	int			n = 0;

	for (int part = 0; part < light_profile_shared->nparts; part++)
	{
		for (int i = 0; i < light_profile_shared->nplans; i++)
		{
			LightPlan  *plan = light_plan(part, i);
			LightPlanNode *top;
			int			chunk = -1;

			if (plan->nnodes == 0 || light_part(part)->changing || !lock_plan(plan))
				continue;
			top = light_plan_node(part, plan, 0, &chunk);
			if (plan->executions > plan->closed_executions)
				candidates[n++] = (Candidate)
			{
				.time = top->total_time - top->closed.total_time,.part = part,.n = i
			};
			LWLockRelease(&plan->lock);
		}
	}
	return n;
}

/*
 * End the open bucket and begin the next one.  The history's lock is held exclusively, or
 * all other processes are gone.  If there is no memory, the bucket stays open.
 */
void
light_bucket_close(TimestampTz now)
{
	LightHistoryShared *shared = light_history;
	LightBucket *bucket = light_bucket(shared->open);
	TimestampTz end = bucket->start + Max(light_system_now() - shared->opened, 0) / 1000;
	Size		room = (Size) light_profile_shared->nparts * light_profile_shared->nplans * sizeof(Candidate);
	Candidate  *candidates = palloc_extended(room, MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	int			n;

	Assert(!IsUnderPostmaster || LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	if (candidates == NULL)
		return;
	n = find_candidates(candidates);
	qsort(candidates, n, sizeof(Candidate), by_time);
	shared->changing = true;
	for (int i = 0; i < n; i++)
	{
		LightPlan  *plan = light_plan(candidates[i].part, candidates[i].n);

		if (!lock_plan(plan))
			continue;
		move_plan(candidates[i].part, plan);
		LWLockRelease(&plan->lock);
	}
	if (now < bucket->start || now < end - SET_BY || now > end + SET_BY)
		shared->jumps++;
	else
		end = now;
	if (bucket->used == 0 && bucket->other.plans == 0)
		light_bucket_open(shared->open, now);
	else
	{
		bucket->end = end;
		light_bucket_open(shared->open + 1, now);
	}
	shared->changing = false;
	pfree(candidates);
}

/*
 * End the open bucket, forget all, and begin one; returns how many had executions.  The
 * history's lock is held exclusively.
 */
int64
light_history_forget(TimestampTz now)
{
	int64		n = 0;

	light_bucket_close(now);
	for (int i = 0; i < light_history->nbuckets; i++)
	{
		LightBucket *bucket = light_bucket(i);

		n += bucket->number != 0 && bucket->end != 0;
		bucket->number = 0;
	}
	light_bucket_open(light_history->open, now);
	return n;
}

/* Buckets, of plans or waits, were forgotten: have the worker write the file, which has them. */
void
light_history_forgotten(void)
{
	Latch	   *worker;

	if (light_history == NULL)
		return;
	LWLockAcquire(light_history->lock, LW_EXCLUSIVE);
	light_history->forgotten++;
	LWLockRelease(light_history->lock);
	/* if it has ended, a process that got its PGPROC wakes, or none */
	worker = light_history->latch;
	if (worker != NULL)
		SetLatch(worker);
}

/* ---- copies ------------------------------------------------------------- */

static void
add_bytes(LightHistoryCopy *copy, const void *data, Size size)
{
	memcpy(copy->data + copy->size, data, size);
	copy->size += size;
}

/* Copy the plans of a slot that a role may see. */
static void
copy_slot(LightHistoryCopy *copy, const LightBucket *bucket, Oid role, bool see_all)
{
	const char *plans = (const char *) (bucket + 1);

	if (see_all)
	{
		add_bytes(copy, plans, bucket->used);
		return;
	}
	for (Size at = 0; at < bucket->used;)
	{
		const LightHistoryPlan *plan = (const LightHistoryPlan *) (plans + at);
		Size		size = light_history_size_of(plan);

		if (plan->key.role == role)
			add_bytes(copy, plan, size);
		at += size;
	}
}

/* Copy what the open bucket has of plans that a role may see and that are in the profile. */
static void
copy_open(LightHistoryCopy *copy, Oid role, bool see_all)
{
	for (int part = 0; part < light_profile_shared->nparts; part++)
	{
		for (int i = 0; i < light_profile_shared->nplans; i++)
		{
			LightPlan  *plan = light_plan(part, i);
			LightHistoryPlan head;

			if (plan->nnodes == 0 || (!see_all && plan->key.role != role))
				continue;
			LWLockAcquire(&plan->lock, LW_SHARED);
			if (plan_since(part, plan, &head))
			{
				write_plan(part, plan, &head, copy->data + copy->size);
				copy->size += light_history_size_of(&head);
			}
			LWLockRelease(&plan->lock);
		}
	}
}

/* Bytes that a copy needs at most. */
static Size
copy_room(bool open)
{
	Size		room = 0;

	for (int i = 0; i < light_history->nbuckets; i++)
		room += sizeof(LightBucket) + light_bucket(i)->used;
	for (int part = 0; open && part < light_profile_shared->nparts; part++)
		room += light_part(part)->nplans * (sizeof(LightHistoryPlan) + LIGHT_TIMES * sizeof(LightHistoryTime)) +
			light_part(part)->nnodes * sizeof(LightHistoryNode);
	return room;
}

/*
 * Copy all buckets, the oldest first: the parts that a role may see, and also the open one
 * if requested.  The history's lock is held, or all other processes have ended.
 * Returns false if there is no memory.
 */
bool
light_history_copy(LightHistoryCopy *copy, Oid role, bool see_all, bool open)
{
	memset(copy, 0, sizeof(*copy));
	copy->data = palloc_extended(Max(copy_room(open), 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (copy->data == NULL)
		return false;
	for (int64 number = light_history->open - light_history->nbuckets + 1; number <= light_history->open; number++)
	{
		const LightBucket *bucket = number > 0 ? light_bucket(number) : NULL;
		LightBucket *head;

		if (bucket == NULL || bucket->number != number || (bucket->end == 0 && !open))
			continue;
		head = (LightBucket *) (copy->data + copy->size);
		add_bytes(copy, bucket, sizeof(*bucket));
		if (!see_all)
			memset(&head->other, 0, sizeof(head->other));
		copy_slot(copy, bucket, role, see_all);
		if (bucket->end == 0)
			copy_open(copy, role, see_all);
		head->used = copy->data + copy->size - (char *) (head + 1);
		copy->nbuckets++;
	}
	return true;
}

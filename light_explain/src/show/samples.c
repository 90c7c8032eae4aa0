/*-------------------------------------------------------------------------
 *
 * samples.c
 *	  Shared memory for samples: sums by statement, plan, node and wait event, and a
 *	  ring of the last ones.
 *
 * Both have a fixed size.  When there is no space for another sum, the least recently used ones are dropped:
 * all whose last sample is in the older half of the time since the oldest.
 * Samples of dropped sums are counted as discarded.
 *
 * The history of waits has what they were in intervals of time (waits.c).  An entry
 * in its open bucket is found by the sum that has the same key.
 *
 * One lock serves all.  The sampler has it for some microseconds in each round,
 * readers while they copy; running statements never take it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "show/samples.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

LightSamplesShared *light_samples_shared = NULL;

/* ---- shared memory: head, buckets, sums, ring --------------------------- */

#define HEAD_SIZE MAXALIGN(sizeof(LightSamplesShared))
#define BUCKETS_SIZE(n) MAXALIGN(mul_size(n, sizeof(int)))
#define WAITS_SIZE(n) MAXALIGN(mul_size(n, sizeof(LightWait)))

static int *
bucket_of(const LightWaitKey *key)
{
	int		   *buckets = (int *) ((char *) light_samples_shared + HEAD_SIZE);

	return &buckets[hash_bytes((const unsigned char *) key, sizeof(LightWaitKey)) % light_samples_shared->nwaits];
}

LightWait *
light_wait(int n)
{
	return (LightWait *) ((char *) light_samples_shared + HEAD_SIZE + BUCKETS_SIZE(light_samples_shared->nwaits)) + n;
}

/* The sample with a number, as long as it is in the ring. */
LightSample *
light_sample(int64 number)
{
	return (LightSample *) ((char *) light_wait(0) + WAITS_SIZE(light_samples_shared->nwaits)) + number % light_samples_shared->nring;
}

/* Shared memory that is wanted. */
Size
light_samples_size(void)
{
	Size		size;

	if (!light_sampled)
		return 0;
	size = add_size(HEAD_SIZE, BUCKETS_SIZE(light_sample_waits));
	size = add_size(size, WAITS_SIZE(light_sample_waits));
	return add_size(size, mul_size(light_sample_ring, sizeof(LightSample)));
}

/* Create or find it, with its lock. */
void
light_samples_startup(LWLock *lock)
{
	bool		found;

	if (!light_sampled)
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	light_samples_shared = ShmemInitStruct("light_explain samples", light_samples_size(), &found);
	if (!found)
	{
		memset(light_samples_shared, 0, sizeof(LightSamplesShared));
		light_samples_shared->lock = lock;
		light_samples_shared->nwaits = light_sample_waits;
		light_samples_shared->nring = light_sample_ring;
		light_samples_empty();
	}
	LWLockRelease(AddinShmemInitLock);
}

/* Forget all samples; the lock is held exclusively, or they are not shared yet. */
void
light_samples_empty(void)
{
	LightSamplesShared *shared = light_samples_shared;
	int		   *buckets = (int *) ((char *) shared + HEAD_SIZE);

	for (int i = 0; i < shared->nwaits; i++)
	{
		buckets[i] = -1;
		light_wait(i)->samples = 0;
		light_wait(i)->next = i + 1 < shared->nwaits ? i + 1 : -1;
	}
	shared->free = 0;
	shared->used = 0;
	shared->rounds = shared->late = shared->torn = shared->taken = shared->discarded = 0;
	shared->resets++;
}

/* ---- sums --------------------------------------------------------------- */

/* The sum with a key, or NULL. */
LightWait *
light_wait_find(const LightWaitKey *key)
{
	for (int n = *bucket_of(key); n >= 0; n = light_wait(n)->next)
	{
		if (memcmp(&light_wait(n)->key, key, sizeof(LightWaitKey)) == 0)
			return light_wait(n);
	}
	return NULL;
}

/* Drop a sum. */
static void
drop(LightWait *wait)
{
	int			n = wait - light_wait(0);
	int		   *link = bucket_of(&wait->key);

	while (*link != n)
		link = &light_wait(*link)->next;
	*link = wait->next;
	wait->samples = 0;
	wait->next = light_samples_shared->free;
	light_samples_shared->free = n;
	light_samples_shared->used--;
}

/* Make room for new sums. */
static void
drop_old(void)
{
	LightSamplesShared *shared = light_samples_shared;
	int64		oldest = shared->rounds;

	for (int i = 0; i < shared->nwaits; i++)
		oldest = Min(oldest, light_wait(i)->last);
	for (int i = 0; i < shared->nwaits; i++)
	{
		LightWait  *wait = light_wait(i);

		if (wait->last < shared->rounds && wait->last <= (oldest + shared->rounds) / 2)
		{
			shared->discarded += wait->samples;
			drop(wait);
		}
	}
}

/* Find or make a sum; NULL if each of them got a sample in this very round. */
static LightWait *
sum_of(const LightWaitKey *key)
{
	LightSamplesShared *shared = light_samples_shared;
	LightWait  *wait = light_wait_find(key);
	int		   *bucket;

	if (wait != NULL)
		return wait;
	if (shared->free < 0)
		drop_old();
	if (shared->free < 0)
		return NULL;
	wait = light_wait(shared->free);
	shared->free = wait->next;
	shared->used++;
	wait->key = *key;
	wait->samples = 0;
	wait->seconds = 0;
	wait->last = shared->rounds;
	wait->bucket = 0;
	bucket = bucket_of(key);
	wait->next = *bucket;
	*bucket = wait - light_wait(0);
	return wait;
}

static void
add(LightWait *wait, int64 samples, double seconds)
{
	if (wait == NULL)
	{
		light_samples_shared->discarded += samples;
		return;
	}
	wait->samples += samples;
	wait->seconds += seconds;
	wait->last = light_samples_shared->rounds;
}

/* Add samples to their sum, and to the open bucket. */
void
light_wait_add(const LightWaitKey *key, int64 samples, double seconds)
{
	LightWait  *wait = sum_of(key);

	add(wait, samples, seconds);
	light_waits_add(key, wait, samples, seconds);
}

/* Samples belong to a plan that was not known when they were added, in this bucket. */
void
light_wait_move(const LightWaitKey *from, int64 bucket, uint64 plan_id, int64 samples, double seconds)
{
	LightWaitKey to = *from;
	LightWait  *target;
	LightWait  *wait;

	to.plan_id = plan_id;
	target = sum_of(&to);
	light_waits_move(bucket, from, &to, samples, seconds);

	/* the sum may have been dropped since */
	wait = light_wait_find(from);
	samples = wait == NULL ? 0 : Min(samples, wait->samples);
	if (samples > 0)
	{
		add(target, samples, seconds);
		wait->samples -= samples;
		wait->seconds = Max(wait->seconds - seconds, 0);
		if (wait->samples == 0)
			drop(wait);
	}
	if (target != NULL && target->samples == 0)
		drop(target);
}

/* ---- ring --------------------------------------------------------------- */

/* Put a sample into the ring, where it replaces the oldest one; returns its number. */
int64
light_sample_add(const LightSample *sample)
{
	int64		number = light_samples_shared->taken++;

	*light_sample(number) = *sample;
	return number;
}

/*
 * Samples of an execution of this process, and of its workers, in plan nodes: added up by
 * node and wait event, palloc'd.  None of them is older than "since".
 */
LightWait *
light_samples_of(uint32 execution, TimestampTz since, int *n)
{
	LightSamplesShared *shared = light_samples_shared;
	LightWait  *waits = NULL;
	int			allocated = 0;

	*n = 0;
	if (shared == NULL || execution == 0)
		return NULL;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int64 number = shared->taken - 1; number >= Max(shared->taken - shared->nring, 0); number--)
	{
		const LightSample *sample = light_sample(number);
		int			i = 0;

		if (sample->time < since)
			break;
		if (sample->execution != execution || (sample->leader != 0 ? sample->leader : sample->pid) != MyProcPid || sample->key.node < 0)
			continue;
		while (i < *n && (waits[i].key.node != sample->key.node || waits[i].key.wait != sample->key.wait))
			i++;
		if (i == allocated)
		{
			allocated = Max(2 * allocated, 16);
			waits = waits == NULL ? palloc(allocated * sizeof(LightWait)) : repalloc(waits, allocated * sizeof(LightWait));
		}
		if (i == *n)
		{
			waits[i].key = sample->key;
			waits[i].samples = 0;
			(*n)++;
		}
		waits[i].samples++;
	}
	LWLockRelease(shared->lock);
	return waits;
}

/* Memory of sums and ring. */
void
light_samples_memory(LightMemory *sums, LightMemory *ring)
{
	LightSamplesCounts counts;

	memset(sums, 0, sizeof(LightMemory));
	memset(ring, 0, sizeof(LightMemory));
	if (light_samples_shared == NULL)
		return;
	light_samples_counts(&counts);
	ring->bytes = mul_size(counts.ring, sizeof(LightSample));
	ring->max_entries = counts.ring;
	ring->entries = counts.taken - counts.overwritten;
	ring->used = ring->entries * sizeof(LightSample);
	ring->discarded = counts.overwritten;
	sums->bytes = light_samples_size() - ring->bytes;
	sums->max_entries = counts.max_waits;
	sums->entries = counts.waits;
	sums->used = sums->entries * (sizeof(LightWait) + sizeof(int));
	sums->discarded = counts.discarded;
}

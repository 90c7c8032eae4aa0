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

static LightWait *
find(const LightWaitKey *key)
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

/* Add samples to their sum. */
void
light_wait_add(const LightWaitKey *key, int64 samples, double seconds)
{
	LightSamplesShared *shared = light_samples_shared;
	LightWait  *wait = find(key);

	if (wait == NULL)
	{
		int		   *bucket;

		if (shared->free < 0)
			drop_old();
		if (shared->free < 0)
		{
			/* each of them got a sample in this very round */
			shared->discarded += samples;
			return;
		}
		wait = light_wait(shared->free);
		shared->free = wait->next;
		shared->used++;
		wait->key = *key;
		wait->samples = 0;
		wait->seconds = 0;
		bucket = bucket_of(key);
		wait->next = *bucket;
		*bucket = wait - light_wait(0);
	}
	wait->samples += samples;
	wait->seconds += seconds;
	wait->last = shared->rounds;
}

/* Samples belong to a plan that was not known when they were added. */
void
light_wait_move(const LightWaitKey *from, uint64 plan_id, int64 samples, double seconds)
{
	LightWait  *wait = find(from);
	LightWaitKey to = *from;

	/* the sum may have been dropped since */
	if (wait == NULL)
		return;
	samples = Min(samples, wait->samples);
	wait->samples -= samples;
	wait->seconds = Max(wait->seconds - seconds, 0);
	if (wait->samples == 0)
		drop(wait);
	to.plan_id = plan_id;
	light_wait_add(&to, samples, seconds);
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

/*-------------------------------------------------------------------------
 *
 * waits.c
 *	  The history of waits: the sums of samples in each of the last intervals of time.
 *
 * A bucket has the same sums as samples.c, for one interval, a minute by default.  Buckets are slots
 * of equal size in a ring, so a day is kept in memory that is allocated when the
 * server starts, however much it does.  When the entries of a bucket are used, the quarter of them with
 * the fewest samples become one sum, in which they are counted.
 *
 * Samples of a statement that runs are in entries without a plan.  When it has ended they are moved to
 * its plan, in all buckets in which it was seen.  In the open bucket an entry is found by its sum.  In
 * others, where this happens once for each long statement, and if the sum was dropped since, it is found by reading all.
 *
 * The sampler ends a bucket when it takes the first sample of a later interval.  A bucket ends at
 * a multiple of light_explain.waits_interval, or, if the system's time was set before, as long after its
 * beginning as the monotonic clock shows.  A bucket without samples is begun again.
 *
 * Heads and entries are separate, so that memory of buckets that are not used is not touched.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "show/samples.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Injection points (since 17) are named while the server runs, like events of extensions. */
#define WAIT_INJECTION_POINT 0x0B000000U

LightWaitsShared *light_waits = NULL;

/* ---- shared memory: head, heads of buckets, entries --------------------- */

#define HEAD_SIZE MAXALIGN(sizeof(LightWaitsShared))

/* The system's time was set if it differs by more from the monotonic clock, in microseconds. */
#define SET_BY INT64CONST(1000000)

/* The least entries that a bucket has. */
#define LEAST_ENTRIES 4

/* Entries of a bucket. */
static int
entries_of_bucket(void)
{
	return Max((Size) light_waits_memory * 1024 / light_waits_buckets / sizeof(LightWaitEntry), LEAST_ENTRIES);
}

/* Without a sampler there is none, and without a history no process and no file that keep it. */
static bool
is_wanted(void)
{
	return light_sampled && light_history_memory > 0 && light_waits_memory > 0;
}

/* Shared memory that is wanted. */
Size
light_waits_size(void)
{
	Size		entries;

	if (!is_wanted())
		return 0;
	/* one more is open */
	entries = mul_size(entries_of_bucket(), sizeof(LightWaitEntry));
	return add_size(HEAD_SIZE, mul_size(light_waits_buckets + 1, add_size(sizeof(LightWaitBucket), entries)));
}

/* The slot of a bucket. */
static LightWaitBucket *
bucket_of(int64 number)
{
	return (LightWaitBucket *) ((char *) light_waits + HEAD_SIZE) + number % light_waits->nbuckets;
}

static LightWaitEntry *
entries_of(const LightWaitBucket *bucket)
{
	LightWaitBucket *first = bucket_of(0);

	return (LightWaitEntry *) (first + light_waits->nbuckets) + (bucket - first) * (Size) light_waits->nentries;
}

/* Begin a bucket, in place of the oldest one; it began at "start", which is at most a round before. */
static void
open_bucket(int64 number, TimestampTz start, TimestampTz now)
{
	LightWaitBucket *bucket = bucket_of(number);

	if (bucket->number != 0 && bucket->number != number)
		light_waits->discarded++;
	memset(bucket, 0, sizeof(*bucket));
	bucket->number = number;
	bucket->start = start;
	light_waits->open = number;
	light_waits->opened = light_system_now() - (now - start) * 1000;
}

/* Create or find it; the samples' memory exists already. */
void
light_waits_startup(void)
{
	bool		found;

	light_waits = NULL;
	if (!is_wanted())
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	light_waits = ShmemInitStruct("light_explain history of waits", light_waits_size(), &found);
	if (!found)
	{
		memset(light_waits, 0, sizeof(LightWaitsShared));
		light_waits->nbuckets = light_waits_buckets + 1;
		light_waits->nentries = entries_of_bucket();
		light_waits_restored(GetCurrentTimestamp());
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ---- buckets ------------------------------------------------------------ */

/* When a bucket that begins at a time ends by the system's time. */
static TimestampTz
next_multiple(TimestampTz start)
{
	int64		length = light_waits_interval * INT64CONST(1000000);

	/* times of before 2000 are negative */
	return start - ((start % length) + length) % length + length;
}

/* End the open bucket, and begin the next one, or begin it again if it has nothing. */
void
light_waits_close(TimestampTz now)
{
	LightWaitBucket *bucket = bucket_of(light_waits->open);
	TimestampTz start = next_multiple(now) - light_waits_interval * INT64CONST(1000000);
	TimestampTz length = Max(light_system_now() - light_waits->opened, 0) / 1000;
	TimestampTz end = Min(now, next_multiple(bucket->start));

	/* the system's time was set */
	if (now < bucket->start + length - SET_BY || now > bucket->start + length + SET_BY)
		end = Min(bucket->start + length, next_multiple(bucket->start));
	if (start < end)
		start = now;
	if (bucket->used == 0 && bucket->other_samples == 0)
		open_bucket(light_waits->open, start, now);
	else
	{
		bucket->end = end;
		open_bucket(light_waits->open + 1, start, now);
	}
}

/* Samples of a time are about to be added: end the open bucket if it is over.  A reset of the history may have begun it after that time. */
void
light_waits_turn(TimestampTz now)
{
	TimestampTz start;

	if (light_waits == NULL)
		return;
	start = bucket_of(light_waits->open)->start;
	/* if the system's time was set back, at once */
	if (now >= next_multiple(start) || now < start - SET_BY)
		light_waits_close(now);
}

/* Forget all buckets; returns how many had samples.  Then those of running statements are not moved. */
int64
light_waits_forget(TimestampTz now)
{
	int64		n = 0;

	for (int i = 0; i < light_waits->nbuckets; i++)
	{
		LightWaitBucket *bucket = bucket_of(i);

		n += bucket->number != 0 && (bucket->used > 0 || bucket->other_samples > 0);
		bucket->number = 0;
	}
	open_bucket(light_waits->open + 1, now, now);
	return n;
}

/* ---- entries ------------------------------------------------------------ */

/* An entry of the open bucket has this place now. */
static void
note_place(const LightWaitBucket *bucket, int entry)
{
	LightWait  *wait = bucket->number == light_waits->open ? light_wait_find(&entries_of(bucket)[entry].key) : NULL;

	if (wait != NULL)
	{
		wait->bucket = bucket->number;
		wait->entry = entry;
	}
}

/* There is no entry of a key in the open bucket any more: its sum must not find another one. */
static void
forget_place(const LightWaitKey *key)
{
	LightWait  *wait = light_wait_find(key);

	if (wait != NULL)
		wait->bucket = 0;
}

/* The entry of a key, or -1.  A sum without a bucket is new: it may have been dropped since its entry was made. */
static int
find_entry(const LightWaitBucket *bucket, const LightWaitKey *key)
{
	const LightWaitEntry *entries = entries_of(bucket);

	if (bucket->number == light_waits->open)
	{
		LightWait  *wait = light_wait_find(key);

		if (wait != NULL && wait->bucket != 0)
			return wait->bucket == bucket->number ? wait->entry : -1;
	}
	for (int i = 0; i < bucket->used; i++)
	{
		if (memcmp(&entries[i].key, key, sizeof(LightWaitKey)) == 0)
			return i;
	}
	return -1;
}

static int
by_samples(const void *a, const void *b)
{
	uint32		first = ((const LightWaitEntry *) a)->samples;
	uint32		second = ((const LightWaitEntry *) b)->samples;

	return first < second ? 1 : first > second ? -1 : 0;
}

static void
add_other(LightWaitBucket *bucket, int64 entries, int64 samples, double seconds)
{
	bucket->other_entries += entries;
	bucket->other_samples += samples;
	bucket->other_seconds += seconds;
	light_waits->other_entries += entries;
	light_waits->other_samples += samples;
}

/* The entries with the fewest samples become part of the sum of others. */
static void
make_space(LightWaitBucket *bucket)
{
	LightWaitEntry *entries = entries_of(bucket);
	int			kept = light_waits->nentries * 3 / 4;

	qsort(entries, bucket->used, sizeof(LightWaitEntry), by_samples);
	for (int i = kept; i < bucket->used; i++)
	{
		add_other(bucket, 1, entries[i].samples, entries[i].seconds);
		forget_place(&entries[i].key);
	}
	bucket->used = Min(bucket->used, kept);
	for (int i = 0; i < bucket->used; i++)
		note_place(bucket, i);
}

/* Add samples to the open bucket; "wait" is the sum with their key, or NULL. */
void
light_waits_add(const LightWaitKey *key, LightWait *wait, int64 samples, double seconds)
{
	LightWaitBucket *bucket;
	LightWaitEntry *entry;

	if (light_waits == NULL)
		return;
	bucket = bucket_of(light_waits->open);
	if (wait == NULL)
	{
		add_other(bucket, 1, samples, seconds);
		return;
	}
	if (wait->bucket != bucket->number)
	{
		wait->entry = find_entry(bucket, key);
		if (wait->entry < 0)
		{
			if (bucket->used == light_waits->nentries)
				make_space(bucket);
			wait->entry = bucket->used++;
			entries_of(bucket)[wait->entry] = (LightWaitEntry)
			{
				.key = *key
			};
		}
		wait->bucket = bucket->number;
	}
	entry = &entries_of(bucket)[wait->entry];
	Assert(memcmp(&entry->key, key, sizeof(LightWaitKey)) == 0);
	entry->samples += samples;
	entry->seconds += seconds;
}

/*
 * Samples that were added to a bucket have another key.  If they are in the sum of others, or there is
 * no space for another entry, they stay there.
 */
void
light_waits_move(int64 number, const LightWaitKey *from, const LightWaitKey *to, int64 samples, double seconds)
{
	LightWaitBucket *bucket = light_waits != NULL ? bucket_of(number) : NULL;
	LightWaitEntry *entries;
	int			source;
	int			target;

	if (bucket == NULL || number == 0 || bucket->number != number || (source = find_entry(bucket, from)) < 0)
		return;
	entries = entries_of(bucket);
	target = find_entry(bucket, to);
	samples = Min(samples, entries[source].samples);
	if (target < 0 && samples == entries[source].samples)
	{
		if (number == light_waits->open)
			forget_place(from);
		entries[source].key = *to;
		note_place(bucket, source);
		return;
	}
	if (target < 0)
	{
		if (bucket->used == light_waits->nentries)
			return;
		target = bucket->used++;
		entries[target] = (LightWaitEntry)
		{
			.key = *to
		};
		note_place(bucket, target);
	}
	entries[target].samples += samples;
	entries[target].seconds += seconds;
	entries[source].samples -= samples;
	entries[source].seconds = Max(entries[source].seconds - seconds, 0);
	if (entries[source].samples == 0)
	{
		if (number == light_waits->open)
			forget_place(from);
		bucket->used--;
		if (source != bucket->used)
		{
			entries[source] = entries[bucket->used];
			note_place(bucket, source);
		}
	}
}

/* ---- copies ------------------------------------------------------------- */

/* Does a bucket have a part in a period? */
static bool
overlaps(const LightWaitBucket *bucket, TimestampTz start, TimestampTz end)
{
	return bucket->start < end && (bucket->end == 0 || bucket->end > start);
}

/*
 * Copy the parts of a bucket that a role may see: its head, and, palloc'd, its entries.  NULL
 * if there is no such bucket in the period, or no memory.  The samples' lock is held, or all other processes have ended.
 */
LightWaitEntry *
light_waits_copy(int64 number, LightWaitBucket *bucket, TimestampTz start, TimestampTz end, Oid role, bool see_all)
{
	const LightWaitBucket *from = number > 0 ? bucket_of(number) : NULL;
	const LightWaitEntry *entries;
	LightWaitEntry *copy;

	if (from == NULL || from->number != number || !overlaps(from, start, end))
		return NULL;
	*bucket = *from;
	bucket->used = 0;
	entries = entries_of(from);
	copy = palloc_extended(Max(from->used, 1) * sizeof(LightWaitEntry), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (copy == NULL)
		return NULL;
	for (int i = 0; i < from->used; i++)
	{
		if (see_all || entries[i].key.role == role)
			copy[bucket->used++] = entries[i];
	}
	if (!see_all)
	{
		bucket->other_entries = bucket->other_samples = 0;
		bucket->other_seconds = 0;
	}
	return copy;
}

/* Memory of buckets: entries, and the samples for which there were none. */
void
light_waits_memory_used(LightMemory *memory)
{
	memset(memory, 0, sizeof(LightMemory));
	if (light_waits == NULL)
		return;
	memory->bytes = light_waits_size();
	memory->max_entries = (int64) light_waits->nbuckets * light_waits->nentries;
	LWLockAcquire(light_samples_shared->lock, LW_SHARED);
	for (int i = 0; i < light_waits->nbuckets; i++)
	{
		if (bucket_of(i)->number == 0)
			continue;
		memory->entries += bucket_of(i)->used;
		memory->used += sizeof(LightWaitBucket);
	}
	memory->discarded = light_waits->other_samples;
	LWLockRelease(light_samples_shared->lock);
	memory->used += memory->entries * sizeof(LightWaitEntry);
}

/* ---- after a restart ---------------------------------------------------- */

/*
 * Extensions define wait events while the server runs, so their numbers mean others after a restart: only
 * the type is kept.
 */
static uint32
kept_wait(uint32 wait)
{
	uint32		type = wait & 0xFF000000;
	uint32		event = wait & 0x0000FFFF;

	if ((type == PG_WAIT_LWLOCK && event >= LWTRANCHE_FIRST_USER_DEFINED) || (type == PG_WAIT_EXTENSION && event > 0) || type == WAIT_INJECTION_POINT)
		return type | LIGHT_UNKNOWN_EVENT;
	return wait;
}

/* Put a bucket of the file into its slot; false if it is not one that follows the last one. */
bool
light_waits_restore(const LightWaitBucket *bucket, const char *entries)
{
	LightWaitBucket *to = bucket_of(bucket->number);

	if (bucket->number <= light_waits->restored || bucket->end == 0)
		return false;
	*to = *bucket;
	to->used = 0;
	for (int i = 0; i < bucket->used; i++)
	{
		LightWaitEntry entry;

		memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
		entry.key.wait = kept_wait(entry.key.wait);
		/* there may be less space than there was */
		if (to->used < light_waits->nentries)
			entries_of(to)[to->used++] = entry;
		else
			add_other(to, 1, entry.samples, entry.seconds);
	}
	light_waits->restored = bucket->number;
	return true;
}

/* All buckets of the file were restored, or, if "restored" is 0, none: begin the next one. */
void
light_waits_restored(TimestampTz now)
{
	if (light_waits->restored == 0)
	{
		for (int i = 0; i < light_waits->nbuckets; i++)
			bucket_of(i)->number = 0;
		light_waits->other_entries = light_waits->other_samples = 0;
	}
	open_bucket(light_waits->restored + 1, now, now);
	light_waits->discarded = 0;
}

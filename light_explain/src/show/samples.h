/*-------------------------------------------------------------------------
 *
 * samples.h
 *	  The samples' shared memory (samples.c, waits.c), for the files that take them
 *	  (sampler.c), show them (samples_show.c) and keep them (history_file.c).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_SAMPLES_H
#define LIGHT_SAMPLES_H

#include "datatype/timestamp.h"
#include "show/show.h"
#include "storage/lwlock.h"

/* The key by which samples are added up. */
typedef struct LightWaitKey
{
	Oid			database;
	Oid			role;
	uint64		query_id;
	uint64		plan_id;		/* 0 until the statement has ended */
	int32		node;			/* plan_node_id or LIGHT_NO_NODE */
	uint32		wait;			/* wait_event_info; 0: it did not wait */
	int16		activity;		/* LightActivity */
	int16		worker;			/* 1 in a parallel worker */
	int32		padding;		/* 0: keys are compared and hashed as bytes */
} LightWaitKey;

StaticAssertDecl(sizeof(LightWaitKey) == 40, "no gap in LightWaitKey");

/* Samples with one key. */
typedef struct LightWait
{
	LightWaitKey key;
	int64		samples;		/* 0 in a free one */
	double		seconds;
	int64		last;			/* number of the round that found the last one */
	int64		bucket;			/* of the waits' history, with an entry of
								 * this key; 0: none */
	int			entry;			/* its number there */
	int			next;			/* in its bucket or of the free ones, or -1 */
} LightWait;

/* Samples with one key in a bucket of the waits' history. */
typedef struct LightWaitEntry
{
	LightWaitKey key;
	uint32		samples;
	float		seconds;
} LightWaitEntry;

StaticAssertDecl(sizeof(LightWaitEntry) == 48, "no gap in LightWaitEntry");

/* A bucket of the waits' history; its entries are not next to it. */
typedef struct LightWaitBucket
{
	int64		number;			/* they are numbered from 1 on; 0: it is
								 * unused */
	TimestampTz start;
	TimestampTz end;			/* 0 as long as it is open */
	int64		used;			/* entries */

	/* the sum of those for which there was no space */
	int64		other_entries;
	int64		other_samples;
	double		other_seconds;
} LightWaitBucket;

/* The samples' lock is for all of it; only the sampler writes, except for a reset. */
typedef struct LightWaitsShared
{
	int			nbuckets;		/* one of them is open */
	int			nentries;		/* of each */
	int64		open;			/* number of the open one */
	int64		opened;			/* light_system_now() then */
	int64		restored;		/* number of the last one of before the server
								 * started */
	int64		discarded;		/* buckets that newer ones replaced */
	int64		other_entries;
	int64		other_samples;
} LightWaitsShared;

/* The event of a wait of which only the type is known. */
#define LIGHT_UNKNOWN_EVENT 0xFFFF

/* A sample. */
typedef struct LightSample
{
	TimestampTz time;
	LightWaitKey key;
	int			pid;
	int			leader;			/* its process in a parallel worker, else 0 */
	int64		previous;		/* number of the one before of the same
								 * execution, or -1 */
	uint32		execution;		/* of the leader's statement, or 0 */
	float		seconds;		/* that it stands for */
} LightSample;

typedef struct LightSamplesShared
{
	LWLock	   *lock;			/* for all that follows; only the sampler
								 * writes, except for a reset */
	int			nwaits;			/* allocated */
	int			nring;
	int			pid;			/* the sampler's, or 0 */
	int			used;			/* of nwaits */
	int			free;			/* list */
	int64		resets;
	int64		rounds;
	int64		late;			/* rounds that began more than an interval too
								 * late */
	int64		torn;			/* processes that changed at each of several
								 * attempts: left out */
	int64		taken;			/* samples; that many have been put into the
								 * ring */
	int64		discarded;		/* samples that are in no sum any more */
	volatile bool changing;		/* if this stays, its process was killed */
} LightSamplesShared;

extern LIGHT_PRIVATE LightSamplesShared *light_samples_shared;

extern LIGHT_PRIVATE LightWaitsShared *light_waits;

/* samples.c */
extern LIGHT_PRIVATE LightWait *light_wait(int n);
extern LIGHT_PRIVATE LightWait *light_wait_find(const LightWaitKey *key);
extern LIGHT_PRIVATE LightSample *light_sample(int64 number);
extern LIGHT_PRIVATE void light_wait_add(const LightWaitKey *key, int64 samples, double seconds);
extern LIGHT_PRIVATE void light_wait_move(const LightWaitKey *from, int64 bucket, uint64 plan_id, int64 samples, double seconds);
extern LIGHT_PRIVATE int64 light_sample_add(const LightSample *sample);
extern LIGHT_PRIVATE LightWait *light_samples_of(uint32 execution, TimestampTz since, int *n);
extern LIGHT_PRIVATE void light_samples_empty(void);

/* waits.c */
extern LIGHT_PRIVATE void light_waits_turn(TimestampTz now);
extern LIGHT_PRIVATE void light_waits_add(const LightWaitKey *key, LightWait *wait, int64 samples, double seconds);
extern LIGHT_PRIVATE void light_waits_move(int64 number, const LightWaitKey *from, const LightWaitKey *to, int64 samples, double seconds);
extern LIGHT_PRIVATE int64 light_waits_forget(TimestampTz now);
extern LIGHT_PRIVATE LightWaitEntry *light_waits_copy(int64 number, LightWaitBucket *bucket, TimestampTz start, TimestampTz end, Oid role, bool see_all);
extern LIGHT_PRIVATE bool light_waits_restore(const LightWaitBucket *bucket, const char *entries);
extern LIGHT_PRIVATE void light_waits_restored(TimestampTz now);
extern LIGHT_PRIVATE void light_waits_close(TimestampTz now);

#endif							/* LIGHT_SAMPLES_H */

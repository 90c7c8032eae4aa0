/*-------------------------------------------------------------------------
 *
 * samples.h
 *	  The samples' shared memory (samples.c), for the files that take them (sampler.c)
 *	  and show them (samples_show.c).
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
	int			next;			/* in its bucket or of the free ones, or -1 */
} LightWait;

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
} LightSamplesShared;

extern LIGHT_PRIVATE LightSamplesShared *light_samples_shared;

/* samples.c */
extern LIGHT_PRIVATE LightWait *light_wait(int n);
extern LIGHT_PRIVATE LightSample *light_sample(int64 number);
extern LIGHT_PRIVATE void light_wait_add(const LightWaitKey *key, int64 samples, double seconds);
extern LIGHT_PRIVATE void light_wait_move(const LightWaitKey *from, uint64 plan_id, int64 samples, double seconds);
extern LIGHT_PRIVATE int64 light_sample_add(const LightSample *sample);
extern LIGHT_PRIVATE LightWait *light_samples_of(uint32 execution, TimestampTz since, int *n);
extern LIGHT_PRIVATE void light_samples_empty(void);

#endif							/* LIGHT_SAMPLES_H */

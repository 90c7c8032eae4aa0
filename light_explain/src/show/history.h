/*-------------------------------------------------------------------------
 *
 * history.h
 *	  The history's shared memory (history.c), for the files that add to it
 *	  (profile.c, profile_store.c), show it (history_show.c), keep it in a file
 *	  (history_file.c) and end its buckets (history_worker.c).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_HISTORY_H
#define LIGHT_HISTORY_H

#include "datatype/timestamp.h"
#include "show/profile.h"
#include "storage/latch.h"

/*
 * Executions are counted by their time in intervals: eight of equal width between each power of
 * two and the next one.  The first one also has all shorter times, and the last one all
 * longer ones: from 2^-20 seconds (0.95 microseconds) to 2^12 (68 minutes).
 */
#define LIGHT_TIMES 256
#define LIGHT_TIMES_BITS 3
#define LIGHT_TIMES_LEAST (-20)

StaticAssertDecl(sizeof(double) == sizeof(int64), "double has 64 bits");

/* The interval of a time in seconds: exponent and first bits of the fraction are its number. */
static inline int
light_time_interval(double seconds)
{
	int64		bits;

	memcpy(&bits, &seconds, sizeof(bits));
	bits = (bits >> (52 - LIGHT_TIMES_BITS)) - ((int64) (1023 + LIGHT_TIMES_LEAST) << LIGHT_TIMES_BITS);
	return (int) Min(Max(bits, 0), LIGHT_TIMES - 1);
}

/*
 * The binary logarithm of a time in seconds and the microsecond to which clocks are accurate, which is
 * added to it: above that of 2^LIGHT_TIMES_LEAST, so it is positive, and in units of 2^-LIGHT_LOG_BITS.  Exponent and
 * first bits of the fraction are taken as they are, so it is linear between powers of two, and too small
 * by 0.0861 at most.  Sums of these integers are exact, and a node's costs a few instructions.
 */
#define LIGHT_LOG_BITS 20

static inline int32
light_time_log(double seconds)
{
	double		shifted = Max(seconds, 0.0) + 1e-6;
	int64		bits;

	memcpy(&bits, &shifted, sizeof(bits));
	return (int32) ((bits >> (52 - LIGHT_LOG_BITS)) - ((int64) (1023 + LIGHT_TIMES_LEAST) << LIGHT_LOG_BITS));
}

/*
 * A plan in a bucket.  The nodes that ran follow it (LightHistoryNode), then the
 * intervals with executions (LightHistoryTime).
 */
typedef struct LightHistoryPlan
{
	LightPlanKey key;
	int64		executions;
	int64		cancelled;
	int64		failed;
	double		time;			/* of its top node, in seconds */
	double		max_time;		/* of an execution */
	int32		nnodes;
	int32		ntimes;
} LightHistoryPlan;

typedef struct LightHistoryNode
{
	int32		id;				/* plan_node_id */
	int32		log_max;		/* largest light_time_log() of a self time */
	LightNodeSums sums;
} LightHistoryNode;

typedef struct LightHistoryTime
{
	uint32		interval;
	uint32		executions;
} LightHistoryTime;

/* Plans for which a bucket had no room, together. */
typedef struct LightHistoryOther
{
	int64		plans;
	int64		executions;
	int64		cancelled;
	int64		failed;
	double		time;
	double		max_time;
	int64		times[LIGHT_TIMES];
} LightHistoryOther;

/* A bucket; its plans follow it. */
typedef struct LightBucket
{
	int64		number;			/* they are numbered from 1 on; 0: it is
								 * unused */
	TimestampTz start;
	TimestampTz end;			/* 0 as long as it is open */
	Size		used;			/* bytes of its plans */
	LightHistoryOther other;
} LightBucket;

/* Which buckets a file contains.  It is outdated if others have ended, or some were forgotten. */
typedef struct LightHistoryContents
{
	int64		open;			/* numbers of the open buckets, of plans and
								 * of waits: those before them are there */
	int64		open_waits;
	int64		forgotten;
} LightHistoryContents;

/*
 * Invariant: While anybody holds the lock, no plan of the profile is made or dropped.  It
 * is taken before those of parts and plans.
 */
typedef struct LightHistoryShared
{
	LWLock	   *lock;			/* for all that follows */
	int			nbuckets;		/* room: one of them is open */
	Size		bucket_size;	/* bytes for plans in each */
	int64		open;			/* number of the open one */
	int64		opened;			/* light_system_now() then */
	int64		jumps;			/* of the system's time */
	int64		discarded;		/* buckets that newer ones replaced */
	int64		other;			/* plans that a bucket had no room for */
	int			pid;			/* of the worker, or 0 */
	Latch	   *latch;			/* its latch, or NULL */
	TimestampTz saved;			/* when the file was written, or 0 */
	int64		forgotten;		/* how often buckets were */
	LightHistoryContents in_file;	/* as it was written or read */
	volatile bool changing;		/* if this stays, its process was killed */
	bool		loaded;			/* the file was read, if there was one */
} LightHistoryShared;

/* Copied buckets, each followed by its plans. */
typedef struct LightHistoryCopy
{
	char	   *data;			/* palloc'd */
	Size		size;
	int			nbuckets;
} LightHistoryCopy;

extern LIGHT_PRIVATE LightHistoryShared *light_history;

/* Bytes of a plan in a bucket. */
static inline Size
light_history_size_of(const LightHistoryPlan *plan)
{
	return sizeof(LightHistoryPlan) + plan->nnodes * sizeof(LightHistoryNode) + plan->ntimes * sizeof(LightHistoryTime);
}

static inline LightHistoryNode *
light_history_nodes(const LightHistoryPlan *plan)
{
	return (LightHistoryNode *) (plan + 1);
}

static inline LightHistoryTime *
light_history_times(const LightHistoryPlan *plan)
{
	return (LightHistoryTime *) (light_history_nodes(plan) + plan->nnodes);
}

/* history.c */
extern LIGHT_PRIVATE LightBucket *light_bucket(int64 number);
extern LIGHT_PRIVATE void light_bucket_open(int64 number, TimestampTz now);
extern LIGHT_PRIVATE void light_bucket_close(TimestampTz now);
extern LIGHT_PRIVATE int64 light_history_forget(TimestampTz now);
extern LIGHT_PRIVATE void light_history_dropped(int part, LightPlan *plan);
extern LIGHT_PRIVATE void light_plan_closed(int part, LightPlan *plan);
extern LIGHT_PRIVATE bool light_history_copy(LightHistoryCopy *copy, Oid role, bool see_all, bool open);
extern LIGHT_PRIVATE void light_history_forgotten(void);

/* history_file.c */
extern LIGHT_PRIVATE LightHistoryContents light_history_contents(void);
extern LIGHT_PRIVATE void light_history_write(void);
extern LIGHT_PRIVATE void light_history_save(int code, Datum arg);

#endif							/* LIGHT_HISTORY_H */

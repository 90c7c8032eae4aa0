/*-------------------------------------------------------------------------
 *
 * profile.h
 *	  The profile's shared memory (profile.c), for the files that store into it
 *	  (profile_store.c, profile_failed.c), show it (profile_show.c) and keep it across a restart
 *	  (profile_file.c).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_PROFILE_H
#define LIGHT_PROFILE_H

#include "compat_planner.h"
#include "port/atomics.h"
#include "show/show.h"
#include "storage/lwlock.h"

/* Nodes of a plan are kept in chunks of these. */
#define LIGHT_CHUNK_NODES 4

/* Bytes for a plan's advice, from which the server makes the plan again: none where plans have none. */
#define LIGHT_ADVICE_SIZE (HAVE_PLAN_ADVICE_COMPAT ? 1024 : 0)

/* The key by which plans are distinguished. */
typedef struct LightPlanKey
{
	Oid			database;
	Oid			role;
	uint64		query_id;
	uint64		plan_id;
	uint64		caller_id;		/* query of the statement that ran it, or 0 */
} LightPlanKey;

StaticAssertDecl(sizeof(LightPlanKey) == 32, "no gap in LightPlanKey");

/* The counters of a node in the history. */
typedef struct LightNodeSums
{
	int64		executions;
	double		loops;
	double		rows;
	double		plan_rows;
	double		total_time;
	double		self_time;
	int64		log_sum;		/* of light_time_log() of self times */
	int64		shared_hit;
	int64		shared_read;
	int64		temp_written;
} LightNodeSums;

/* Figures of a node over all executions. */
typedef struct LightPlanNode
{
	int			id;				/* plan_node_id */
	int			parent;
	int			depth;
	LightNodeName name;
	int64		executions;		/* of the statement in which the node ran */
	double		loops;
	double		rows;
	double		plan_rows;		/* estimated, over all loops */
	double		filtered;
	double		total_time;		/* seconds */
	double		self_time;
	double		max_self_time;
	LightUsage	self;
	int64		max_memory;		/* bytes in an execution; 0: not known */
	int64		spilled;		/* bytes of temporary files */
	int64		jit_functions;	/* of the statement, if this is the top node */
	double		jit_time;

	/* for the history */
	int64		log_sum;		/* of light_time_log() of self times */
	int32		log_max;		/* the largest one in the open bucket */
	LightNodeSums closed;		/* in buckets that have ended */
} LightPlanNode;

typedef struct LightChunk
{
	int			next;			/* of the plan or of the free ones, or -1 */
	LightPlanNode nodes[LIGHT_CHUNK_NODES];
} LightChunk;

/* A plan of a statement. */
typedef struct LightPlan
{
	LWLock		lock;			/* for the key, what follows it and the nodes'
								 * figures; its chunks come and go with the
								 * plan only */
	LightPlanKey key;
	int64		serial;			/* unique among the plans that its part ever
								 * had; 0 in a free one */
	int64		used;			/* number of the store that used it last */
	int64		executions;
	int64		cancelled;		/* of them: by a user or by a timeout */
	int64		failed;			/* of them: for another reason */
	uint64		shape;			/* light_plan_hash(): all its executions have
								 * the same nodes */
	int			next;			/* in its bucket or of the free ones, or -1 */
	int			chunk;			/* first one, or -1 */
	int			nnodes;			/* 0 in a free one */
	int			encoding;		/* of text and names */
	int			text_length;
	int			advice_length;	/* 0: it is not known, or too long */

	/* in buckets of the history that have ended */
	int64		closed_executions;
	int64		closed_cancelled;
	int64		closed_failed;

	double		max_time;		/* longest execution in the open one, in
								 * seconds */

	/* what of it plans.c has, as plans_keep.c knows: also read without a lock */
	double		kept_slowest;	/* seconds */
	int64		kept_resets;	/* after which that was; 0: never */
	pg_atomic_uint64 kept_last; /* TimestampTz when one was kept last */
} LightPlan;

/* A finished execution whose plan is to be kept. */
typedef struct LightKeep
{
	LightPlan  *plan;
	int64		serial;			/* of the plan; 0: it is not to be kept */
	LightPlanKey key;
	double		seconds;
} LightKeep;

/*
 * A part of the profile with a separate lock.
 *
 * Invariant: While the history's lock is held, the only other locks that are taken are those
 * of parts and plans; while a part's is held, that of one of its plans; and while a
 * plan's is held, none.  So they may also be taken in PG_CATCH, where locks of the
 * function that failed are still held: no process that has one of them waits for those.
 */
typedef struct LightPart
{
	LWLock	   *lock;			/* shared: to find plans; exclusive: to make
								 * or drop them, which takes theirs as well */
	pg_atomic_uint64 stores;	/* about: some may be missing */
	volatile bool changing;		/* plans are being made or dropped: if this
								 * stays, its process was killed */
	int			free_plan;		/* lists */
	int			free_chunk;
	int			nfree_chunks;
	int			nplans;
	int			nnodes;
	int64		made;			/* plans until now */
} LightPart;

typedef struct LightProfileShared
{
	int			nparts;			/* a power of two */
	int			nplans;			/* a part: plans, buckets and chunks */
	int			text_size;		/* bytes kept of a statement's text */
	bool		timed;			/* executions are counted by their time, for
								 * the history */
	pg_atomic_uint64 dropped_plans; /* made room for others */
	pg_atomic_uint64 dropped_nodes; /* of plans that are too large */
	pg_atomic_uint64 without_id;	/* statements, because none are computed */
	pg_atomic_uint64 utility_without_id;	/* statements that the server
											 * computes none for */
} LightProfileShared;

/* How a statement ended. */
typedef enum LightOutcome
{
	LIGHT_DONE,
	LIGHT_CANCELLED,
	LIGHT_FAILED
} LightOutcome;

extern LIGHT_PRIVATE LightProfileShared *light_profile_shared;

/* profile.c */
extern LIGHT_PRIVATE LightPart *light_part(int part);
extern LIGHT_PRIVATE LightPlan *light_plan(int part, int n);
extern LIGHT_PRIVATE LightChunk *light_chunk(int part, int n);
extern LIGHT_PRIVATE char *light_plan_text(int part, int n);
extern LIGHT_PRIVATE char *light_plan_advice(int part, int n);
extern LIGHT_PRIVATE uint32 *light_plan_times(int part, const LightPlan *plan);
extern LIGHT_PRIVATE void light_part_lock(int part);
extern LIGHT_PRIVATE void light_part_unlock(int part);
extern LIGHT_PRIVATE bool light_profile_locked(void);
extern LIGHT_PRIVATE Size light_profile_history_size(void);
extern LIGHT_PRIVATE Size light_profile_chunk_size(void);
extern LIGHT_PRIVATE int light_part_of(const LightPlanKey *key);
extern LIGHT_PRIVATE LightPlan *light_plan_find(int part, const LightPlanKey *key);
extern LIGHT_PRIVATE LightPlan *light_plan_make(int part, const LightPlanKey *key, uint64 shape, int nnodes, bool evict);
extern LIGHT_PRIVATE void light_plan_set_text(int part, LightPlan *plan, const char *source, int length, int encoding);
extern LIGHT_PRIVATE void light_plan_set_advice(int part, LightPlan *plan, const char *advice, int length);
extern LIGHT_PRIVATE void light_part_empty(int part);
extern LIGHT_PRIVATE LightPlanNode *light_plan_node(int part, const LightPlan *plan, int n, int *chunk);

/* profile_store.c */

/*
 * A statement has ended and was left: add its figures to the profile.  If its plan is to be
 * kept, "keep", in which "seconds" is the time of its end, says so; NULL: it is not.
 */
extern LIGHT_PRIVATE void light_profile_add(LightQuery *query, LightOutcome outcome, LightKeep *keep);
extern LIGHT_PRIVATE void light_profile_flush(void);

/* plans_keep.c */
extern LIGHT_PRIVATE bool light_plans_wanted(LightPlan *plan, double seconds);
extern LIGHT_PRIVATE void light_plans_keep(LightQuery *query, const LightKeep *keep);

/* profile_file.c */
extern LIGHT_PRIVATE void light_profile_load(void);
extern LIGHT_PRIVATE void light_profile_save(int code, Datum arg);
extern LIGHT_PRIVATE char *light_read_file(const char *path, Size *size);

#endif							/* LIGHT_PROFILE_H */

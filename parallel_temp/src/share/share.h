/*-------------------------------------------------------------------------
 *
 * share.h
 *	  Temporary relations of a leader in memory that its workers can read.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARE_H
#define SHARE_H

#include "executor/execdesc.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/dsm.h"

#include "compat_executor.h"
#include "compat_storage.h"
#include "query.h"

/* ---- what a plan reads (scan/temp_plan.c) ------------------------------------ */

/*
 * One temporary table of a plan.  "Below" means in a part of the plan that
 * workers may run: below a Gather, or in a parallel-safe subplan.
 */
typedef struct TempUse
{
	Oid			relid;
	bool		own_below;		/* scanned by our node below */
	bool		stock_below;	/* read by a stock index or bitmap scan below */
	int			stock_above;	/* number of stock nodes that only the leader
								 * runs read it */
	bool		toast_below;	/* a column that may be out of line is used
								 * below */
	List	   *indexes;		/* OIDs of the indexes read below */
} TempUse;

typedef struct TempPlan
{
	List	   *uses;			/* of TempUse */
	List	   *indexes;		/* OIDs of the indexes read, also above */
	bool		below;			/* some use is below */
	const char *unsafe_node;	/* a node that workers cannot run on a
								 * temporary table, or NULL */
	Oid			unsafe_relid;
	bool		gathers_varlena;	/* a Gather returns values that may be out
									 * of line */
	bool		single_copy;	/* a Gather in which a worker does all the
								 * work */
	int			gathers;		/* parts of the plan with separate workers */
	int			workers;		/* planned for one of them, at most */
	bool		unknown_function;	/* a function of unknown doings runs in
									 * the leader */
	int			highest_node_id;	/* subplans included */
} TempPlan;

/* ---- what leader and workers share ------------------------------------------- */

#define SHARED_AREA_MAGIC	0x70745032

/*
 * Pins that a resource owner of any version keeps in its array.  More go to a hash
 * table, which costs three times as much, so pins are divided among several owners.
 */
#define PINS_AN_OWNER		32

/*
 * A temporary relation (table, TOAST table or index) that workers read.  "pages"
 * is the offset, from the start of the area, of one int32 for each block: the
 * number of the leader's pinned buffer that holds it, or -1.
 */
typedef struct SharedRel
{
	Oid			relid;
	Oid			parent;			/* the table whose scan needs it */
	RelFileLocator_compat locator;
	BlockNumber nblocks;
	BlockNumber resident;		/* blocks in pinned buffers */
	bool		stock;			/* stock code in workers reads it */
	int			flushed;		/* pages the leader wrote before workers start */
	uint64		pages;
	uint64		notes;			/* offset of one byte for each block, what
								 * scans found there: a PageNote, see
								 * scan_hint_bits.c */
	pg_atomic_uint32 noted;		/* some byte is not 0 */
	pg_atomic_uint64 pool_reads;	/* pages workers took from the pool */
	pg_atomic_uint64 file_reads;	/* pages workers and leader took from the
									 * file */
	pg_atomic_uint64 prefetches;	/* rows whose hash lookups were prefetched */
} SharedRel;

/* Data that the leader of a parallel query passes to its workers. */
typedef struct SharedArea
{
	uint32		magic;
	uint32		build;			/* see parallel_temp.h */
	pid_t		leader_pid;
	bool		use_pool;		/* workers read resident pages from the pool */
	bool		files_current;	/* the files alone are enough, too */
	bool		may_skip;		/* a worker that cannot open the pool may
								 * leave everything to the others */
	bool		stock;			/* some relation has "stock" set */
	int			pool_fd;
	uint64		pool_size;
	uint64		pool_id;		/* the descriptor leads to this file */
	int			nbuffers;		/* the leader's NLocBuffer */
	int			nrels;
	pg_atomic_uint32 attached;	/* workers that opened the pool */
	pg_atomic_uint32 refused;	/* workers that could not */
	SharedRel	rels[FLEXIBLE_ARRAY_MEMBER];
} SharedArea;

static inline int32 *
pt_shared_relation_pages(SharedArea *area, SharedRel *rel)
{
	return (int32 *) ((char *) area + rel->pages);
}

static inline uint8 *
pt_shared_relation_notes(SharedArea *area, SharedRel *rel)
{
	return (uint8 *) area + rel->notes;
}

/* The leader's side of one running parallel query. */
typedef struct PtShare
{
	dsm_segment *segment;
	SharedArea *area;
	ResourceOwner pins;			/* parent of the owners of pins */
	ResourceOwner pin_owner;
	int			npins;
	bool		leader_stays_out;	/* leader must not run the workers' part */
	instr_time	time;
} PtShare;

/* ---- pool.c: the memory ------------------------------------------------ */

/*
 * Move the session's local buffers into shared memory, unless they are there
 * already.  False when the system does not let us: then only flushing is left.
 */
extern bool pt_pool_ensure(void);

/* Will queries share, as far as is known now?  For the planner. */
extern bool pt_pool_usable(void);

/* A worker could not open the pool: flush from now on. */
extern void pt_pool_disable(void);

/* Does this local buffer (0 .. NLocBuffer - 1) lie in the pool? */
extern bool pt_pool_has_buffer(int buf_id);

extern int	pt_pool_descriptor(void);
extern void pt_pool_describe(SharedArea *area);

/* In a worker: a descriptor of the leader's pool, or -1 with errno set. */
extern int	pt_pool_open_leaders(const SharedArea *area);

/* A plan that inserts, or a utility statement, is about to run. */
extern void pt_pool_before_insert(PlannedStmt *plan);
extern void pt_pool_before_utility(Node *statement);

/* ---- shared_relations.c: pinning, flushing, telling workers ------------------- */

/*
 * Make the temporary relations of a plan readable for workers.  Returns NULL
 * with *reason set when the query must run in the leader alone.
 */
extern PGDLLEXPORT PtShare *pt_share_begin(QueryDesc *queryDesc, TempPlan *plan, const char **reason);
extern void pt_share_end(PtShare *share);
extern void pt_share_release_pins(ResourceOwner pins);

/* How many temporary buffers are left to the leader's own work. */
extern int	pt_share_unpinned_buffers(TempPlan *plan);
extern SharedRel *pt_shared_relation_find(SharedArea *area, Oid relid);

/* ---- leader_values.c: what workers get from outside ------------------------- */

extern void pt_fetch_values_for_workers(QueryDesc *queryDesc, bool subplans);

/* The name by which a worker knows the range table entry that carries the handle. */
#define SHARE_ALIAS	"parallel_temp share"

/* ---- worker.c: a worker's view of its leader's relations --------------------- */

extern void pt_worker_executor_start(QueryDesc *queryDesc);
extern void pt_worker_executor_end(QueryDesc *queryDesc);

/* Must this worker leave the query to the others (it cannot open the pool)? */
extern bool pt_worker_leaves_work(QueryDesc *queryDesc);

/* Data that the leader shares with this worker. */
typedef struct PtWorker
{
	SharedArea *area;			/* NULL: nothing */
	int			pool_fd;		/* the pool's descriptor, or -1 when pages
								 * come from files */
} PtWorker;

extern PtWorker pt_worker;

/* The pool, mapped read-only; NULL when that cannot be. */
extern char *pt_worker_pool_map(void);

/* ---- counters.c: counters of this session ------------------------------------ */

/* Why a temporary table is not read in parallel. */
typedef enum PtRefusal
{
	REFUSED_NOT,
	REFUSED_QUERY,
	REFUSED_CURSOR,
	REFUSED_WRITES,
	REFUSED_UNSAFE,
	REFUSED_KIND,
	REFUSED_SAMPLE,
	REFUSED_EXPRESSION,
	REFUSED_DOMAIN,
	REFUSED_SUBQUERY,
	REFUSED_CORRELATED,
	REFUSED_LATERAL,
	REFUSED_MEMBER,
	REFUSED_SMALL,
	REFUSED_REPLANNED,
	REFUSED_COST,
	REFUSAL_COUNT
} PtRefusal;

/* A sentence for the user; "function" is the one that is the reason, if one is. */
extern const char *pt_refusal_text(PtRefusal refusal, Oid function);

typedef struct PtCounters
{
	int64		planned[REFUSAL_COUNT];
	int64		replanned;
	int64		queries_shared;
	int64		queries_flushed;
	int64		queries_alone;
	int64		pages_shared;
	int64		pages_flushed;
	int64		pages_hinted;
	int64		pool_unreachable;
	double		share_time;		/* milliseconds */
} PtCounters;

extern PtCounters pt_counters;

extern void pt_count_share(SharedArea *area, double milliseconds);
extern void pt_count_run_alone(const char *reason);

#endif							/* SHARE_H */

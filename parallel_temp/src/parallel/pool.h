/*-------------------------------------------------------------------------
 *
 * pool.h
 *	  The session's local buffers in memory that parallel workers can open,
 *	  and what a leader tells its workers about temporary relations.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef POOL_H
#define POOL_H

#include "executor/execdesc.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/dsm.h"

#include "compat_executor.h"
#include "compat_storage.h"
#include "parallel/plan_walk.h"
#include "query.h"

#define SHARED_AREA_MAGIC	0x70745031

/*
 * Pins that a resource owner of any version keeps in its array.  More go to a hash
 * table, which costs three times as much, so many pins are given to many owners.
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
								 * scan_tidy.c */
	pg_atomic_uint32 noted;		/* some byte is not 0 */
	pg_atomic_uint64 pool_reads;	/* pages workers took from the pool */
	pg_atomic_uint64 file_reads;	/* pages workers and leader took from the
									 * file */
	pg_atomic_uint64 prefetches;	/* rows whose hash look-ups were
									 * prefetched */
} SharedRel;

/* What the leader of a parallel query tells its workers. */
typedef struct SharedArea
{
	uint32		magic;
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
shared_rel_pages(SharedArea *area, SharedRel *rel)
{
	return (int32 *) ((char *) area + rel->pages);
}

static inline uint8 *
shared_rel_notes(SharedArea *area, SharedRel *rel)
{
	return (uint8 *) area + rel->notes;
}

/* The leader's side of one running parallel query. */
typedef struct Share
{
	dsm_segment *segment;
	SharedArea *area;
	ResourceOwner pins;			/* parent of the owners of pins */
	ResourceOwner pin_owner;
	int			npins;
	SharedRel  *flushing;		/* whose pages are being written */
	bool		leader_stays_out;	/* leader must not run the workers' part */
	instr_time	time;
} Share;

/* ---- pool.c: the memory ------------------------------------------------ */

/*
 * Move the session's local buffers into shared memory, unless they are there
 * already.  False when the system does not let us: then only flushing is left.
 */
extern bool pool_ensure(void);

/* Will queries share, as far as is known now?  For the planner. */
extern bool pool_usable(void);

/* A worker could not open the pool: flush from now on. */
extern void pool_give_up(void);

/* Does this local buffer (0 .. NLocBuffer - 1) lie in the pool? */
extern bool pool_has_buffer(int buf_id);

extern int	pool_descriptor(void);
extern Size pool_bytes(void);
extern uint64 pool_id(void);

/* In a worker: a descriptor of the leader's pool, or -1 with errno set. */
extern int	pool_open_leaders(const SharedArea *area);

/* ---- pool_filling.c: making it in time ------------------------------------ */

/* A plan that inserts, or a utility statement, is about to run. */
extern void pool_before_insert(PlannedStmt *plan);
extern void pool_before_utility(Node *statement);

/* ---- pool_share.c: pinning, flushing, telling workers ------------------- */

/*
 * Make the temporary relations of a plan readable for workers.  Returns NULL
 * with *reason set when the query must run in the leader alone.
 */
extern PGDLLEXPORT Share *share_begin(QueryDesc *queryDesc, TempPlan *plan, const char **reason);
extern void share_end(Share *share);

/* How many temporary buffers are left to the leader's own work. */
extern int	share_unpinned_buffers(TempPlan *plan);
extern SharedRel *shared_rel_find(SharedArea *area, Oid relid);

/* ---- pool_values.c: what workers get from outside ------------------------- */

extern void fetch_values_for_workers(QueryDesc *queryDesc, bool subplans);

/* ---- pool_run.c: when a query runs ---------------------------- */

/*
 * Run a plan with parallel parts, or a part of one in a worker; "next" is who runs
 * plans behind us.
 */
extern void pool_run(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat);

/* The share of the query that this executor state belongs to, or NULL. */
extern Share *share_of(EState *estate);

/* The name by which a worker knows the range table entry that carries the handle. */
#define SHARE_ALIAS	"parallel_temp share"

#endif							/* POOL_H */

/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  A parallel worker's view of its leader's temporary relations.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKER_H
#define WORKER_H

#include "executor/execdesc.h"

#include "parallel/pool.h"

extern void worker_executor_start(QueryDesc *queryDesc);
extern void worker_executor_end(QueryDesc *queryDesc);

/* Must this worker leave the query to the others (it cannot open the pool)? */
extern bool worker_leaves_work(QueryDesc *queryDesc);

/* What the leader shares with this worker, or NULL. */
extern SharedArea *worker_area(void);

/* The pool's descriptor, or -1 when pages come from files. */
extern int	worker_pool_descriptor(void);

/* The pool, mapped read-only; NULL when that cannot be. */
extern char *worker_pool_map(void);

#endif							/* WORKER_H */

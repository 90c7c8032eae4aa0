/*-------------------------------------------------------------------------
 *
 * parallel_temp.h
 *	  What the files of the extension share: settings and entry points.
 *
 * Data goes one way: hook, plan, execute, storage.  README.md has the order of the folders.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PARALLEL_TEMP_H
#define PARALLEL_TEMP_H

#include "utils/guc.h"

/* parallel_temp.method: how workers get at the leader's pages */
typedef enum ParallelTempMethod
{
	PT_METHOD_AUTO,
	PT_METHOD_SHARE,
	PT_METHOD_FLUSH
} ParallelTempMethod;

/* Settings, defined and described in guc.c. */
extern bool pt_enabled;			/* parallel_temp.enabled, and so on */
extern int	pt_method;
extern bool pt_index_access;
extern bool pt_explain_refusals;
extern double pt_worker_start_cost;
extern double pt_enter_page_cost;
extern double pt_held_page_cost;
extern double pt_flush_page_cost;
extern double pt_scan_buffer_cost;
extern bool pt_parallel_insert;
extern bool pt_statistics;
extern bool pt_fast_load;
extern bool pt_fill_pages;
extern bool pt_explain;
extern bool pt_lazy_files;

/* For tests and measurements: parallel_temp.debug_force, and so on. */
extern bool pt_debug_force;
extern int	pt_debug_flush_method;	/* a LocalBufFlushMethod */
extern int	pt_debug_pool_read; /* a PoolReadMethod */
extern int	pt_debug_batch_pages;
extern bool pt_debug_hash_prefetch;
extern int	pt_debug_build;

extern void pt_define_settings(void);

/* ---- which build of the library has made an area of shared memory ------------ */

/*
 * To be raised with each change of what leader and workers share that does not change the
 * size of the area's struct.
 */
#define SHARED_VERSION		1

#define SHARED_BUILD(type)	((uint32) (SHARED_VERSION * 10000 + sizeof(type)))

/* ERROR in a worker whose leader has another build. */
static inline void
pt_check_shared_build(uint32 leaders, uint32 own)
{
	if (unlikely(leaders != own))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("parallel worker has another build of parallel_temp than its leader"),
				 errdetail("The library's files were replaced while the session was running."),
				 errhint("Reconnect, or set parallel_temp.enabled and parallel_temp.fill_pages to off.")));
}

#endif							/* PARALLEL_TEMP_H */

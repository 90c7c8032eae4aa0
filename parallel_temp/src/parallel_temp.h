/*-------------------------------------------------------------------------
 *
 * parallel_temp.h
 *	  What the files of the extension share: settings and entry points.
 *
 * Data walks one way: hook -> plan -> execute -> storage.  localbuf*.c is the
 * storage end and calls nothing above it.
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
extern bool pt_enabled;			/* parallel_temp.enabled */
extern int	pt_method;			/* parallel_temp.method */
extern bool pt_index_access;	/* parallel_temp.index_access */
extern bool pt_explain_refusals;	/* parallel_temp.explain_refusals */
extern bool pt_force;			/* parallel_temp.force */
extern bool pt_compare_plans;	/* parallel_temp.compare_plans */
extern double pt_worker_start_cost; /* parallel_temp.worker_start_cost */
extern double pt_enter_page_cost;	/* parallel_temp.enter_page_cost */
extern double pt_held_page_cost;	/* parallel_temp.held_page_cost */
extern double pt_flush_page_cost;	/* parallel_temp.flush_page_cost */
extern double pt_scan_buffer_cost;	/* parallel_temp.scan_buffer_cost */
extern bool pt_parallel_insert; /* parallel_temp.parallel_insert */
extern bool pt_statistics;		/* parallel_temp.statistics */
extern bool pt_fast_load;		/* parallel_temp.fast_load */
extern bool pt_fill_pages;		/* parallel_temp.fill_pages */
extern bool pt_explain;			/* parallel_temp.explain */
extern bool pt_lazy_files;		/* parallel_temp.lazy_files */
extern int	pt_pool_read;		/* parallel_temp.pool_read, a PoolReadMethod */
extern int	pt_batch_pages;		/* parallel_temp.batch_pages */
extern bool pt_hash_prefetch;	/* parallel_temp.hash_prefetch */
extern int	pt_flush_method;	/* parallel_temp.flush_method, a
								 * LocalBufFlushMethod */

extern void pt_define_settings(void);

#endif							/* PARALLEL_TEMP_H */

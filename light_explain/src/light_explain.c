/*-------------------------------------------------------------------------
 *
 * light_explain.c
 *	  Entry points: the library's initialization and its hooks in the executor.
 *
 * ExecutorStart finds statements with instrumentation (EXPLAIN ANALYZE,
 * auto_explain, anything that sets QueryDesc.instrument_options) and makes
 * LightQuery entries of them; ExecutorRun and ExecutorFinish put the statement
 * on the stack; after ExecutorFinish core's figures are complete, which is when
 * EXPLAIN, auto_explain and a parallel worker's report read them.
 *
 * Everything works per statement, so the order in which libraries with hooks of
 * their own are loaded does not matter.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "light_explain.h"
#include "miscadmin.h"
#include "storage/ipc.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;
static shmem_request_hook_type prev_shmem_request = NULL;
static shmem_startup_hook_type prev_shmem_startup = NULL;

static void
executor_start(QueryDesc *queryDesc, int eflags)
{
	bool		explained = false;

	if (light_enabled && (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
	{
		explained = light_explaining();
		if (light_instrument_all)
			queryDesc->instrument_options |= INSTRUMENT_ALL;
		else if (light_profile && !IsParallelWorker())
			queryDesc->instrument_options |= INSTRUMENT_TIMER | INSTRUMENT_BUFFERS;
	}

	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);

	if (light_enabled && (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 &&
		queryDesc->planstate != NULL && queryDesc->estate->es_instrument != 0)
		light_query_start(queryDesc, explained);
}

static void
executor_run(EXECUTORRUN_PARAMS_compat)
{
	LightQuery *query = light_query_find(queryDesc);
	LightGuard	guard;
	LightTotal	total;

	if (query == NULL)
	{
		if (prev_ExecutorRun)
			prev_ExecutorRun(EXECUTORRUN_ARGS_compat);
		else
			standard_ExecutorRun(EXECUTORRUN_ARGS_compat);
		return;
	}

	light_guard_save(&guard, query);
	PG_TRY();
	{
		light_query_enter(query);
		light_total_start(&total, query, false);
		if (prev_ExecutorRun)
			prev_ExecutorRun(EXECUTORRUN_ARGS_compat);
		else
			standard_ExecutorRun(EXECUTORRUN_ARGS_compat);
		light_total_stop(&total, query, false);
	}
	PG_FINALLY();
	{
		light_guard_leave(&guard);
	}
	PG_END_TRY();
}

/* Core's figures are complete: keep what we show ourselves. */
static void
statement_finished(LightQuery *query)
{
	if (query->explained)
		light_keep_last(query);
	if (light_profile)
		light_profile_store(query);
}

static void
executor_finish(QueryDesc *queryDesc)
{
	LightQuery *query = light_query_find(queryDesc);
	LightGuard	guard;
	LightTotal	total;

	/*
	 * a statement that was not upgraded has nothing that could be on the
	 * stack
	 */
	if (query == NULL || !query->upgraded)
	{
		if (query != NULL)
			light_total_start(&total, query, true);
		if (prev_ExecutorFinish)
			prev_ExecutorFinish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
		if (query != NULL)
		{
			light_total_stop(&total, query, true);
			statement_finished(query);
		}
		return;
	}

	light_guard_save(&guard, query);
	PG_TRY();
	{
		light_query_enter(query);
		light_total_start(&total, query, true);
		if (prev_ExecutorFinish)
			prev_ExecutorFinish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
		light_total_stop(&total, query, true);
	}
	PG_FINALLY();
	{
		light_guard_leave(&guard);
	}
	PG_END_TRY();

	light_settle(query);
	statement_finished(query);
}

static void
request_shmem(void)
{
	if (prev_shmem_request)
		prev_shmem_request();
	RequestAddinShmemSpace(add_size(light_progress_size(), light_profile_size()));
	RequestNamedLWLockTranche("light_explain", 1);
}

static void
startup_shmem(void)
{
	if (prev_shmem_startup)
		prev_shmem_startup();
	light_progress_startup();
	light_profile_startup();
}

/* Library initialization. */
void
_PG_init(void)
{
	const char *reason;

	light_define_settings();

	reason = light_server_fits();
	if (reason != NULL)
	{
		ereport(LOG,
				(errmsg("light_explain is off: %s", reason),
				 errhint("Compile and install light_explain for this server.")));
		return;
	}

	light_clock_init();
	light_hotpath_init();
	light_explain_init();

	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	if (process_shared_preload_libraries_in_progress)
	{
		prev_shmem_request = shmem_request_hook;
		shmem_request_hook = request_shmem;
		prev_shmem_startup = shmem_startup_hook;
		shmem_startup_hook = startup_shmem;
	}
}

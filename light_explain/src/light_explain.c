/*-------------------------------------------------------------------------
 *
 * light_explain.c
 *	  Entry points: the library's initialization and its hooks in the executor.
 *
 * ExecutorStart finds statements with instrumentation (EXPLAIN ANALYZE,
 * auto_explain, anything that sets QueryDesc.instrument_options) and makes
 * LightQuery entries of them; ExecutorRun and ExecutorFinish put the statement
 * on the stack; after ExecutorFinish core's counters are complete, which is when
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

#include "executor/executor.h"
#include "fmgr.h"
#include "compat_executor.h"
#include "compat_module.h"
#include "miscadmin.h"
#include "show/show.h"
#include "storage/ipc.h"

PG_MODULE_MAGIC_COMPAT("light_explain");

void		_PG_init(void);

/* who else has hooks, or the executor itself */
static struct
{
	ExecutorStart_hook_type start;
	ExecutorRun_hook_type run;
	ExecutorFinish_hook_type finish;
}			next;
static shmem_request_hook_type prev_shmem_request = NULL;
static shmem_startup_hook_type prev_shmem_startup = NULL;

static void pg_attribute_hot
executor_start(QueryDesc *queryDesc, int eflags)
{
	bool		profiled = unlikely(light_profile) && light_profiled();
	bool		explained;

	/* any role may disable the library, but only a superuser the profile */
	if ((unlikely(!light_enabled) && !profiled) || (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
	{
		next.start(queryDesc, eflags);
		return;
	}

	/* planning may also run statements: those of functions that it evaluates */
	explained = unlikely(light_in_explain) && light_enabled && queryDesc->instrument_options != 0 && light_explaining(queryDesc);
	if (unlikely(light_instrument_all) && light_enabled)
		queryDesc->instrument_options |= INSTRUMENT_ALL;
	else if (profiled)
		queryDesc->instrument_options |= INSTRUMENT_TIMER | INSTRUMENT_BUFFERS | INSTRUMENT_WAL;
	next.start(queryDesc, eflags);
	if (queryDesc->planstate != NULL && queryDesc->estate->es_instrument != 0)
		light_query_start(queryDesc, explained);
}

/*
 * Call the next one: the executor itself or another extension's hook.
 *
 * When the executor has returned its rows, it starts and stops the instrumentation of
 * each node again, around ExecShutdownNode(), unless the statement may run
 * backwards.  If that has no effect in any node, it is prevented.
 *
 * Measured as in total.c: 1.12 instead of 1.14 with auto_explain, 1.14 instead of 1.15
 * with the profile, without what total.c saves.  In instructions that auto_explain adds to a
 * prepared pgbench -S (lab/run instructions --ways auto_explain): 0.93 of core's, without
 * this 1.02.
 */
static inline void
run_next(LightQuery *query, EXECUTORRUN_PARAMS_compat)
{
	EState	   *estate = query->estate;
	int			eflags = estate->es_top_eflags;

	if (likely(query->phase == LIGHT_CORE_FAST && !query->shuts_down))
		estate->es_top_eflags |= EXEC_FLAG_BACKWARD;
	if (next.run == standard_ExecutorRun)
		light_total_run(query, EXECUTORRUN_ARGS_compat);
	else
		next.run(EXECUTORRUN_ARGS_compat);
	estate->es_top_eflags = eflags;
}

/* The profile also counts statements that fail. */
static pg_noinline void
run_profiled(LightQuery *query, EXECUTORRUN_PARAMS_compat)
{
	volatile int64 started = light_now();
	double		before = light_top_time(query);

	PG_TRY();
	{
		run_next(query, EXECUTORRUN_ARGS_compat);
	}
	PG_CATCH();
	{
		light_profile_failed(query, query->outer, started, before);
	}
	PG_END_TRY();
}

/* Returns how long it took, in seconds. */
static pg_noinline double
finish_profiled(LightQuery *query, LightQuery *outer, QueryDesc *queryDesc)
{
	volatile int64 started = light_now();

	PG_TRY();
	{
		next.finish(queryDesc);
	}
	PG_CATCH();
	{
		light_profile_failed(query, outer, 0, 0);
	}
	PG_END_TRY();
	return (light_now() - started) / LIGHT_SECOND;
}

/* A statement without instrumentation: the sampler sees it, but none of its nodes. */
static void
run_unmeasured(EXECUTORRUN_PARAMS_compat)
{
	int			begun = light_activity_begin(LIGHT_EXECUTOR, queryDesc->plannedstmt->queryId, GetUserId(), 0);

	if (queryDesc->plannedstmt->parallelModeNeeded)
		light_activity_parallel();
	next.run(EXECUTORRUN_ARGS_compat);
	light_activity_end(begun);
}

static void pg_attribute_hot
executor_run(EXECUTORRUN_PARAMS_compat)
{
	LightQuery *query = light_query_find(queryDesc);

	if (query == NULL)
	{
		if (light_sampled)
			run_unmeasured(EXECUTORRUN_ARGS_compat);
		else
			next.run(EXECUTORRUN_ARGS_compat);
		return;
	}
	light_query_enter(query, true);
	if (unlikely(!ScanDirectionIsForward(direction)))
		light_turn_back(query);
	if (unlikely(light_profile) && light_profiled())
		run_profiled(query, EXECUTORRUN_ARGS_compat);
	else
		run_next(query, EXECUTORRUN_ARGS_compat);
	light_query_leave(query);
}

/* Core's figures are complete: keep what we show ourselves.  Triggers took so many seconds. */
static void
statement_finished(LightQuery *query, double finishing)
{
	if (query->explained)
		light_keep_last(query);
	if (light_profiled())
		light_profile_store(query, finishing);
}

static void pg_attribute_hot
executor_finish(QueryDesc *queryDesc)
{
	LightQuery *query = light_query_find(queryDesc);
	LightQuery *outer = light_chain.current;
	double		finishing = 0;
	bool		runs;

	if (query == NULL)
	{
		next.finish(queryDesc);
		return;
	}

	/*
	 * what triggers and checks of keys run is called by this statement;
	 * without, nothing runs or fails
	 */
	runs = (query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) == 0;
	if (runs || light_recorded(query))
		light_query_enter(query, queryDesc->operation != CMD_SELECT || queryDesc->plannedstmt->hasModifyingCTE);
	if (unlikely(light_profile) && runs && light_profiled())
		finishing = finish_profiled(query, outer, queryDesc);
	else if (!runs && next.finish == standard_ExecutorFinish)
		light_total_finish_empty(queryDesc);
	else
		next.finish(queryDesc);
	if (runs || light_recorded(query))
		light_query_leave(query);
	if (unlikely(light_recorded(query)))
		light_settle(query);
	if (unlikely(query->explained || light_profile))
		statement_finished(query, finishing);
	if (unlikely(light_show_self))
		light_note_finished(queryDesc);
	light_query_done(query);
}

/* Was our request for shared memory passed on by libraries that were loaded later? */
static bool shmem_requested = false;

static void
request_shmem(void)
{
	if (prev_shmem_request)
		prev_shmem_request();
	shmem_requested = true;
	RequestAddinShmemSpace(add_size(add_size(light_progress_size(), light_profile_size()), add_size(light_history_size(), light_samples_size())));
	RequestAddinShmemSpace(add_size(light_waits_size(), light_plans_wanted_size()));

	/*
	 * those of the profile and the history, that of the samples, that of kept
	 * plans
	 */
	RequestNamedLWLockTranche("light_explain", light_profile_locks() + 2);
}

static void
startup_shmem(void)
{
	if (prev_shmem_startup)
		prev_shmem_startup();
	if (!shmem_requested)
	{
		/* as plprofiler does: do without instead of failing the server */
		ereport(WARNING,
				(errmsg("light_explain has no shared memory: no progress and no profile"),
				 errdetail("A library that is loaded later does not pass on requests of others."),
				 errhint("Put light_explain behind it in shared_preload_libraries.")));
		return;
	}
	light_progress_startup();
	light_profile_startup();
	light_history_startup(&GetNamedLWLockTranche("light_explain")[light_profile_locks() - 1].lock);
	if (light_sampled)
		light_cells_startup();
	light_samples_startup(&GetNamedLWLockTranche("light_explain")[light_profile_locks()].lock);
	light_waits_startup();
	light_history_load();
	light_plans_startup(&GetNamedLWLockTranche("light_explain")[light_profile_locks() + 1].lock);
}

/* Library initialization. */
void
_PG_init(void)
{
	bool		fits = light_server_fits();

	light_define_settings();
	if (!fits || light_other_minor())
		light_warn_version();
	if (!fits)
	{
		light_explain_init_off();
		return;
	}

	light_clock_init();
	light_phase_init(light_hotpath_init());
	light_explain_init();

	light_query_init();

	next.start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = executor_start;
	next.run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = executor_run;
	next.finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;
	ExecutorFinish_hook = executor_finish;
	if (process_shared_preload_libraries_in_progress)
	{
		prev_shmem_request = shmem_request_hook;
		shmem_request_hook = request_shmem;
		prev_shmem_startup = shmem_startup_hook;
		shmem_startup_hook = startup_shmem;
		if (light_sample_interval > 0)
			light_sampler_init();
		if (light_history_memory > 0)
			light_history_init();
	}
}

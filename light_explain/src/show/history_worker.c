/*-------------------------------------------------------------------------
 *
 * history_worker.c
 *	  The background worker that ends the history's buckets and writes its file.
 *
 * The sampler ends those of waits, which are in the same file.
 *
 * Buckets end at multiples of light_explain.history_interval, by the system's time.  What
 * this process does late is late in the history, but it is not wrong: a bucket has
 * the times at which it began and ended.  It is connected to no database.  It may be
 * terminated, and is started again.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "show/history.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Seconds until a worker that ended is started again. */
#define RESTART_AFTER 5

PGDLLEXPORT void light_explain_history_main(Datum arg);

/* The last multiple of an interval in seconds. */
static TimestampTz
last_multiple(TimestampTz now, int interval)
{
	int64		length = interval * INT64CONST(1000000);

	/* times of before 2000 are negative */
	return now - ((now % length) + length) % length;
}

static TimestampTz
next_multiple(TimestampTz now, int interval)
{
	return last_multiple(now, interval) + interval * INT64CONST(1000000);
}

/* Is something due that is done at multiples of an interval, and was done last at "done"? */
static bool
is_due(TimestampTz now, TimestampTz done, int interval)
{
	/* if the system's time was set back, at once */
	return last_multiple(now, interval) > done || done > now;
}

static void
not_running(int code, Datum arg)
{
	light_history->pid = 0;
	light_history->latch = NULL;
}

/* Must the file be written?  At once if it has buckets that were forgotten: a crash would bring them back. */
static bool
file_is_due(TimestampTz now)
{
	LightHistoryContents contents = light_history_contents();
	LightHistoryContents in_file = light_history->in_file;

	if (light_history_save_interval == 0)
		return false;
	return contents.forgotten != in_file.forgotten ||
		((contents.open != in_file.open || contents.open_waits != in_file.open_waits) && is_due(now, light_history->saved, light_history_save_interval));
}

/* End the open bucket if it is time, and write the file if it is time for that. */
static void
work(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (is_due(now, light_bucket(light_history->open)->start, light_history_interval))
	{
		LWLockAcquire(light_history->lock, LW_EXCLUSIVE);
		light_bucket_close(now);
		LWLockRelease(light_history->lock);
	}
	if (file_is_due(now))
		light_history_write();
}

/* The worker's main function. */
void
light_explain_history_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	/* the library was not preloaded again, or has no memory */
	if (light_history == NULL)
		proc_exit(0);
	on_shmem_exit(not_running, (Datum) 0);
	light_history->pid = MyProcPid;
	light_history->latch = MyLatch;
	while (!ShutdownRequestPending)
	{
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz next = next_multiple(now, light_history_interval);

		if (light_history_save_interval > 0)
			next = Min(next, next_multiple(now, light_history_save_interval));

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT, (long) ((next - now) / 1000) + 1, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (!ShutdownRequestPending)
			work();
	}

	/* not 0: the postmaster starts another one, unless the server stops */
	proc_exit(1);
}

/* Have the postmaster start it. */
void
light_history_init(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = RESTART_AFTER;
	snprintf(worker.bgw_name, BGW_MAXLEN, "light_explain history");
	snprintf(worker.bgw_type, BGW_MAXLEN, "light_explain history");
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "light_explain");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "light_explain_history_main");
	RegisterBackgroundWorker(&worker);
}

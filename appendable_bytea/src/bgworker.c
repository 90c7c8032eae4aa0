/*-------------------------------------------------------------------------
 *
 * bgworker.c
 *	  Vacuum of chunk stores in the background, as autovacuum does for tables.
 *
 * With the library in shared_preload_libraries one launcher runs all the time.
 * Every naptime it starts, one after the other, a worker for each database that
 * accepts connections; the worker ends at once where the extension is not
 * installed.  Elsewhere it looks at each table with a store: when as many rows were
 * updated or deleted since the last time as threshold + scale factor x rows, it
 * vacuums the store in a transaction of its own.  Stores of tables that are gone
 * are dropped.
 *
 * What was done when is kept in shared memory, one entry a table, and shown by
 * appendable_bytea_progress().  It is lost at a restart: every store is then
 * vacuumed once, which is cheap.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/vacuum.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "store.h"
#include "sweep.h"

PG_FUNCTION_INFO_V1(appendable_bytea_progress);

PGDLLEXPORT void appendable_bytea_launcher_main(Datum arg);
PGDLLEXPORT void appendable_bytea_worker_main(Datum arg);

/* tables that are remembered; beyond that they are vacuumed every time */
#define MAX_ENTRIES		4096

typedef struct Entry
{
	Oid			database;		/* InvalidOid: free */
	Oid			home;
	int64		changes;		/* counter of the table when it was done, less
								 * what old snapshots kept from being done */
	TimestampTz started;
	TimestampTz finished;		/* 0 while it runs */
	int64		runs;
	int64		chunks;			/* removed, in all runs */
	int64		bytes;
} Entry;

typedef struct Shared
{
	LWLock	   *lock;
	Entry		entries[MAX_ENTRIES];
} Shared;

static Shared *shared = NULL;
static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

static void
request_shmem(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(Shared)));
	RequestNamedLWLockTranche(AB_EXTENSION, 1);
}

static void
startup_shmem(void)
{
	bool		found;

	if (previous_shmem_startup)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct(AB_EXTENSION, sizeof(Shared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(Shared));
		shared->lock = &GetNamedLWLockTranche(AB_EXTENSION)->lock;
	}
	LWLockRelease(AddinShmemInitLock);
}

/* The entry of a table of this database, or a free one, or NULL; lock held. */
static Entry *
find_entry(Oid home, bool create)
{
	Entry	   *unused = NULL;

	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		Entry	   *e = &shared->entries[i];

		if (e->database == MyDatabaseId && e->home == home)
			return e;
		if (!OidIsValid(e->database) && unused == NULL)
			unused = e;
	}
	if (create && unused)
	{
		memset(unused, 0, sizeof(Entry));
		unused->database = MyDatabaseId;
		unused->home = home;
		unused->changes = -1;
	}
	return create ? unused : NULL;
}

/* Rows of a table; false if it is gone or no longer ours. */
static bool
table_rows(Oid relid, float4 *rows)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		ours;

	if (!HeapTupleIsValid(tuple))
		return false;
	*rows = Max(((Form_pg_class) GETSTRUCT(tuple))->reltuples, 0);
	ours = ((Form_pg_class) GETSTRUCT(tuple))->relam == ab_am_oid();
	ReleaseSysCache(tuple);
	return ours;
}

/* Rows updated or deleted in a table since counting began; -1 if not known. */
static int64
table_changes(Oid relid)
{
	PgStat_StatTabEntry *counters = pgstat_fetch_stat_tabentry(relid);

	return counters ? (int64) counters->tuples_updated + counters->tuples_deleted : -1;
}

/* Vacuum one store if it is due, in a transaction of its own. */
static void
vacuum_if_due(Oid home)
{
	int64		changes;
	float4		rows;
	bool		due = true;
	AbSweepResult result;
	Entry	   *entry;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	changes = table_changes(home);
	if (table_rows(home, &rows))
	{
		LWLockAcquire(shared->lock, LW_SHARED);
		entry = find_entry(home, false);
		if (entry && entry->changes >= 0 && changes >= entry->changes)
			due = changes - entry->changes >=
				ab_autovacuum_threshold + ab_autovacuum_scale_factor * rows;
		LWLockRelease(shared->lock);
	}
	if (due)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		entry = find_entry(home, true);
		if (entry)
		{
			entry->started = GetCurrentTimestamp();
			entry->finished = 0;
		}
		LWLockRelease(shared->lock);
		pgstat_report_activity(STATE_RUNNING, psprintf("appendable_bytea vacuum of table %u", home));
		ab_vacuum_store(home, &result);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	if (!due)
		return;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	entry = find_entry(home, false);
	if (entry)
	{
		entry->finished = GetCurrentTimestamp();
		entry->runs++;
		entry->chunks += result.chunks;
		entry->bytes += result.bytes;
		if (!result.skipped)
			entry->changes = Max(changes - result.dying, 0);
		if (result.dropped)
			memset(entry, 0, sizeof(Entry));
	}
	LWLockRelease(shared->lock);
	if (result.chunks > 0 || result.dropped)
		ereport(DEBUG1,
				(errmsg_internal("appendable_bytea vacuum of table %u removed " INT64_FORMAT " chunks%s",
								 home, result.chunks, result.dropped ? " and the store" : "")));
}

/*
 * Forget what is not there any more: tables of one database that are not in the
 * list, or, without one, databases that are not in it.
 */
static void
forget_entries(Oid database, List *present)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		Entry	   *e = &shared->entries[i];

		if (!OidIsValid(e->database))
			continue;
		if (OidIsValid(database) ?
			e->database == database && !list_member_oid(present, e->home) :
			!list_member_oid(present, e->database))
			memset(e, 0, sizeof(Entry));
	}
	LWLockRelease(shared->lock);
}

/* What is wrong with one table must not keep the others waiting. */
static pg_noinline void
vacuum_and_go_on(Oid home, MemoryContext context)
{
	PG_TRY();
	{
		vacuum_if_due(home);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		MemoryContextSwitchTo(context);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/*
 * What a database's sessions are set to must not stop its vacuum: the same settings
 * are overridden as autovacuum overrides, and that transactions are read-only by
 * default.
 */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", ""},
		{"zero_damaged_pages", "off"},
		{"statement_timeout", "0"},
		{"transaction_timeout", "0"},	/* not before 17 */
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
	};

	for (int i = 0; i < lengthof(settings); i++)
	{
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	}

	/* a standby that is away must not hold up what nobody waits for */
	if (synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
}

/* A worker: one pass over one database. */
void
appendable_bytea_worker_main(Datum arg)
{
	List	   *homes = NIL;
	ListCell   *lc;
	MemoryContext context;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	if (shared == NULL || RecoveryInProgress())
		return;
	override_settings();

	context = AllocSetContextCreate(TopMemoryContext, "appendable_bytea worker",
									ALLOCSET_DEFAULT_SIZES);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (OidIsValid(ab_schema_oid()) && OidIsValid(ab_am_oid()))
	{
		List	   *found = ab_store_list();
		MemoryContext oldcontext = MemoryContextSwitchTo(context);

		homes = list_copy(found);
		MemoryContextSwitchTo(oldcontext);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();

	forget_entries(MyDatabaseId, homes);
	foreach(lc, homes)
	{
		CHECK_FOR_INTERRUPTS();

		vacuum_and_go_on(lfirst_oid(lc), context);
	}
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* OIDs of the databases that accept connections, in the given context. */
static List *
databases(MemoryContext context)
{
	List	   *result = NIL;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext oldcontext = MemoryContextSwitchTo(context);

		if (form->datallowconn && !form->datistemplate && form->datconnlimit != -2)
			result = lappend_oid(result, form->oid);
		MemoryContextSwitchTo(oldcontext);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	return result;
}

/* Start a worker for a database and wait until it ends. */
static void
run_worker(Oid database)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	strlcpy(worker.bgw_library_name, AB_EXTENSION, sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "appendable_bytea_worker_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "appendable_bytea worker", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "appendable_bytea worker", sizeof(worker.bgw_type));
	if (RegisterDynamicBackgroundWorker(&worker, &handle))
		(void) WaitForBackgroundWorkerShutdown(handle);
	else
		ereport(DEBUG1,
				(errmsg_internal("no slot for an appendable_bytea worker"),
				 errhint("Raise max_worker_processes.")));
}

/* The launcher. */
void
appendable_bytea_launcher_main(Datum arg)
{
	MemoryContext context;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	context = AllocSetContextCreate(TopMemoryContext, "appendable_bytea launcher",
									ALLOCSET_DEFAULT_SIZES);

	while (!ShutdownRequestPending)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 ab_autovacuum_naptime * 1000L, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (ab_autovacuum && !ShutdownRequestPending)
		{
			List	   *present = databases(context);
			ListCell   *lc;

			forget_entries(InvalidOid, present);
			foreach(lc, present)
			{
				if (ShutdownRequestPending)
					break;
				run_worker(lfirst_oid(lc));
			}
			MemoryContextReset(context);
		}
	}
	proc_exit(0);
}

/* appendable_bytea_progress(): what the workers did and do in this database. */
Datum
appendable_bytea_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Entry	   *copy;

	InitMaterializedSRF(fcinfo, 0);
	if (shared == NULL)
		return (Datum) 0;
	copy = palloc(sizeof(shared->entries));
	LWLockAcquire(shared->lock, LW_SHARED);
	memcpy(copy, shared->entries, sizeof(shared->entries));
	LWLockRelease(shared->lock);
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		Entry	   *e = &copy[i];
		Datum		values[6];
		bool		nulls[6] = {0};

		if (e->database != MyDatabaseId)
			continue;
		values[0] = ObjectIdGetDatum(e->home);
		values[1] = TimestampTzGetDatum(e->started);
		nulls[1] = e->started == 0;
		values[2] = TimestampTzGetDatum(e->finished);
		nulls[2] = e->finished == 0;
		values[3] = Int64GetDatum(e->runs);
		values[4] = Int64GetDatum(e->chunks);
		values[5] = Int64GetDatum(e->bytes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Called once, from _PG_init; does something only when preloaded by the postmaster. */
void
ab_worker_install(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shmem;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;

	if (IsBinaryUpgrade)
		return;
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 60;
	strlcpy(worker.bgw_library_name, AB_EXTENSION, sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "appendable_bytea_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "appendable_bytea launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "appendable_bytea launcher", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

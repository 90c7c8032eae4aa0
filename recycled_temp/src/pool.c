/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  The tables that this session keeps: limits, idle timeout, SQL functions.
 *
 * A table is in the pool if its pg_class row has the name of a pooled table, as
 * the current transaction sees it.  The list here only has hints: relations that
 * may have a shape.  It is never undone, and an entry whose table is gone, renamed, used
 * or not yet there is harmless.
 *
 * A rollback may return a table to the pool: one that was dropped from it, or used.  So
 * its entry stays, or no limit and no timeout would apply to that table.  An entry is
 * removed by the commit of a transaction that sees no table of this OID.
 *
 * Idle timeout: a timer is armed when a table is pooled and none is armed.  When it
 * fires in an idle session, the interrupt that makes idle sessions read
 * invalidation messages runs an empty transaction, and at its commit old tables are
 * dropped.  In a busy session the next commit does it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/sinval.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "compat_table.h"
#include "recycled_temp.h"

PG_FUNCTION_INFO_V1(recycled_temp_pool);
PG_FUNCTION_INFO_V1(recycled_temp_empty);

/*
 * Entries of tables that a rollback might return to the pool; the tables of others are
 * forgotten.  Each DROP looks up all entries.
 */
#define SPARE_ENTRIES 100

List	   *recycled_pool = NIL;	/* of RecycledEntry, the newest first */

static bool entries_gone = false;	/* an entry had no table when it was last
									 * looked up */
static bool entries_marked = false; /* such entries are marked, by this
									 * transaction */

static volatile sig_atomic_t timer_fired = false;
static bool timer_armed = false;
static TimeoutId timer = MAX_TIMEOUTS;	/* not registered */

char *
pool_name(Oid relid)
{
	return psprintf(RECYCLED_PREFIX "%u", relid);
}

/* Does the current transaction see the entry's table in the pool? */
bool
pool_sees(RecycledEntry *entry)
{
	HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(entry->relid));
	bool		pooled;

	if (!HeapTupleIsValid(row))
	{
		entries_gone = true;
		return false;
	}
	pooled = isTempNamespace(((Form_pg_class) GETSTRUCT(row))->relnamespace) &&
		strcmp(NameStr(((Form_pg_class) GETSTRUCT(row))->relname), pool_name(entry->relid)) == 0;
	ReleaseSysCache(row);
	return pooled;
}

bool
pool_has(uint32 hash)
{
	ListCell   *lc;

	foreach(lc, recycled_pool)
		if (((RecycledEntry *) lfirst(lc))->hash == hash)
		return true;
	return false;
}

/* Was this table in the pool before? */
bool
pool_knows(Oid relid)
{
	ListCell   *lc;

	foreach(lc, recycled_pool)
		if (((RecycledEntry *) lfirst(lc))->relid == relid)
		return true;
	return false;
}

void
pool_add(Oid relid, uint32 hash)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	RecycledEntry *entry = NULL;
	ListCell   *lc;

	foreach(lc, recycled_pool)
		if (((RecycledEntry *) lfirst(lc))->relid == relid)
		entry = lfirst(lc);
	if (entry)
		recycled_pool = list_delete_ptr(recycled_pool, entry);
	else
		entry = palloc0(sizeof(RecycledEntry));
	entry->relid = relid;
	entry->hash = hash;
	entry->since = GetCurrentStatementStartTimestamp();
	recycled_pool = lcons(entry, recycled_pool);
	MemoryContextSwitchTo(old);
	hooks_watch_transactions();
	pool_arm_timer();
}

/*
 * Would something else be dropped with this object, or does an extension keep it?  An
 * object that depends on a table automatically is part of it, except a sequence.
 */
static bool
has_users(Oid class, Oid object)
{
	Relation	depend;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	row;
	bool		found = false;

	if (OidIsValid(getExtensionOfObject(class, object)))
		return true;
	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(class));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (!found && HeapTupleIsValid(row = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(row);

		found = form->deptype == DEPENDENCY_NORMAL ||
			(form->deptype == DEPENDENCY_AUTO && form->classid == RelationRelationId &&
			 get_rel_relkind(form->objid) != RELKIND_INDEX);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	return found;
}

/*
 * Does a statement or cursor of this session use the table, by its pooled name?  It
 * holds a lock then, so the table's descriptor, which would have to be built, is read
 * only if there is any lock.
 */
bool
pool_in_use(Oid relid)
{
	LOCKTAG		tag;
	Relation	rel;
	bool		in_use;
	bool		locked = false;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	for (LOCKMODE mode = AccessShareLock; !locked && mode <= AccessExclusiveLock; mode++)
		locked = LockHeldByMe_compat(&tag, mode);
	rel = locked ? try_relation_open(relid, NoLock) : NULL;
	if (rel == NULL)
		return false;
	in_use = rel->rd_refcnt > 1;
	relation_close(rel, NoLock);
	return in_use;
}

/*
 * Drop a pooled table.  False if it is not in the pool, is locked by
 * another session, is in use, or a user's object depends on it.  In the last three
 * cases it is not used again, and stays until it can be dropped.
 */
bool
pool_drop(RecycledEntry *entry)
{
	Oid			relid = entry->relid;
	bool		dropped = false;

	if (!pool_sees(entry))
		return false;
	if (!pool_in_use(relid) && ConditionalLockRelationOid(relid, AccessExclusiveLock) && pool_sees(entry))
	{
		Oid			rowtype = get_rel_type_id(relid);

		if (!has_users(RelationRelationId, relid) && !has_users(TypeRelationId, rowtype) &&
			!has_users(TypeRelationId, get_array_type(rowtype)))
		{
			ObjectAddress object;

			ObjectAddressSet(object, RelationRelationId, relid);
			performDeletion(&object, DROP_RESTRICT, PERFORM_DELETION_INTERNAL | PERFORM_DELETION_QUIETLY);
			CommandCounterIncrement();
			dropped = true;
		}
	}
	if (dropped)
		entries_gone = true;
	else
		entry->hash = 0;
	return dropped;
}

/* Drop the oldest tables if there are too many.  The list may have more entries than the pool has tables. */
void
pool_make_room(void)
{
	int			tables = 0;
	ListCell   *lc;

	if (list_length(recycled_pool) <= recycled_max_tables)
		return;
	foreach(lc, recycled_pool)
	{
		RecycledEntry *entry = lfirst(lc);

		if (pool_sees(entry))
			tables++;
		else if (list_length(recycled_pool) > recycled_max_tables + SPARE_ENTRIES)
		{
			recycled_pool = foreach_delete_current(recycled_pool, lc);
			pfree(entry);
		}
	}
	for (int i = list_length(recycled_pool) - 1; i >= 0 && tables > recycled_max_tables; i--)
		tables -= pool_drop(list_nth(recycled_pool, i));
}

/* Drop all tables, or those that have been there for the timeout; how many were dropped. */
int
pool_empty(bool idle_only)
{
	TimestampTz now = idle_only ? GetCurrentTimestamp() : 0;
	int			dropped = 0;

	for (int i = list_length(recycled_pool) - 1; i >= 0; i--)
	{
		RecycledEntry *entry = list_nth(recycled_pool, i);

		if (!idle_only || TimestampDifferenceExceeds(entry->since, now, recycled_idle_timeout))
			dropped += pool_drop(entry);
	}
	return dropped;
}

/* ---- entries without a table ---- */

/* Is there an entry to be removed, perhaps? */
bool
pool_has_gone(void)
{
	return entries_gone;
}

/* The transaction is about to be committed: mark entries that have no table then. */
void
pool_mark_gone(void)
{
	ListCell   *lc;

	entries_marked = true;
	foreach(lc, recycled_pool)
		((RecycledEntry *) lfirst(lc))->gone = !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(((RecycledEntry *) lfirst(lc))->relid));
}

/* The transaction has ended: remove the marked entries if it was committed. */
void
pool_at_end(bool committed)
{
	ListCell   *lc;

	if (!entries_marked)
		return;
	entries_marked = false;
	if (committed)
		entries_gone = false;
	foreach(lc, recycled_pool)
	{
		RecycledEntry *entry = lfirst(lc);

		if (entry->gone && committed)
		{
			recycled_pool = foreach_delete_current(recycled_pool, lc);
			pfree(entry);
		}
		else
			entry->gone = false;
	}
}

/* ---- idle timeout ---- */

static void
timer_handler(void)
{
	timer_fired = true;
	/* an idle session runs an empty transaction then */
	HandleCatchupInterrupt();
}

void
pool_arm_timer(void)
{
	if (timer_armed || recycled_idle_timeout == 0 || recycled_pool == NIL)
		return;
	if (timer == MAX_TIMEOUTS)
		timer = RegisterTimeout(USER_TIMEOUT, timer_handler);
	/* a table is there for up to a tenth longer */
	enable_timeout_after(timer, Max(recycled_idle_timeout + recycled_idle_timeout / 10, 10));
	timer_armed = true;
}

/* Are there tables to be dropped later?  Reads catalogs. */
bool
pool_has_tables(void)
{
	ListCell   *lc;

	foreach(lc, recycled_pool)
		if (pool_sees(lfirst(lc)))
		return true;
	return false;
}

/* Did the timer fire since the last call? */
bool
pool_timer_fired(void)
{
	if (!timer_fired)
		return false;
	timer_fired = timer_armed = false;
	return true;
}

/* ---- SQL functions ---- */

/* recycled_temp_pool(OUT relation, OUT dropped_at, OUT bytes): the pool of this session */
Datum
recycled_temp_pool(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, recycled_pool)
	{
		RecycledEntry *entry = lfirst(lc);
		Datum		values[3];
		bool		nulls[3] = {false};

		if (!pool_sees(entry))
			continue;
		values[0] = ObjectIdGetDatum(entry->relid);
		values[1] = TimestampTzGetDatum(entry->since);
		values[2] = DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(entry->relid));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* recycled_temp_empty(): drop the tables in the pool of this session; how many there were */
Datum
recycled_temp_empty(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("recycled_temp_empty()");
	PreventCommandIfParallelMode("recycled_temp_empty()");
	PG_RETURN_INT32(pool_empty(false));
}

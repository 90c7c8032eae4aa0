/*-------------------------------------------------------------------------
 *
 * ramspace.c
 *	  RAM tablespaces: nothing but temporary tables, and a word before memory is
 *	  short.
 *
 * What lies in memory is gone after a reboot, so a relation or database that is
 * not temporary is refused there, however it got the idea: TABLESPACE clause,
 * default_tablespace, ALTER ... SET TABLESPACE, REINDEX (TABLESPACE ...).  The
 * object access hook sees all but the last after the fact and before commit, with
 * the row as the command left it.
 *
 * At the same place a new temporary relation is refused when the tablespace holds
 * more than parallel_temp.ram_limit, and warned about when it, its mount or the
 * machine's memory is nearly full.  A mount that fills up during a statement ends
 * that statement with "No space left on device", as a full disk does.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "parallel_temp.h"
#include "ramspace.h"

#define MEGABYTE ((int64) 1024 * 1024)

/* Is this a RAM tablespace? */
bool
ramspace_is(Oid tablespace)
{
	char	   *location = ramspace_location(tablespace);
	bool		result = ramspace_is_ours(location);

	if (location)
		pfree(location);
	return result;
}

static void
refuse(const char *what, Oid tablespace)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot place %s in RAM tablespace \"%s\"", what, get_tablespace_name(tablespace)),
			 errdetail("Its files are lost when the machine restarts, so it holds temporary relations only."),
			 errhint("Name another tablespace, and set temp_tablespaces rather than default_tablespace to use this one.")));
}

/*
 * Refuse what would not fit any more; with "warn", say when little is left.
 */
void
ramspace_check_room(Oid tablespace, bool warn)
{
	char	   *location = ramspace_location(tablespace);
	RamSpaceState state;
	int64		limit = pt_ram_limit * MEGABYTE;
	int64		nearly = 100 - pt_ram_warn_percent;

	if (!ramspace_is_ours(location))
		return;
	ramspace_inspect(location, &state);
	if (limit > 0 && state.used >= limit)
		ereport(ERROR,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("RAM tablespace \"%s\" is full", get_tablespace_name(tablespace)),
				 errdetail("It holds %lld MB, parallel_temp.ram_limit is %d MB.",
						   (long long) (state.used / MEGABYTE), pt_ram_limit),
				 errhint("Drop temporary tables, choose another temp_tablespaces, or raise the limit.")));
	if (!warn)
		 /* only the limit matters */ ;
	else if (limit > 0 && state.used * 100 >= limit * pt_ram_warn_percent)
		ereport(WARNING,
				(errmsg("RAM tablespace \"%s\" is nearly full", get_tablespace_name(tablespace)),
				 errdetail("It holds %lld MB, parallel_temp.ram_limit is %d MB.",
						   (long long) (state.used / MEGABYTE), pt_ram_limit)));
	else if (state.size > 0 && state.available * 100 <= state.size * nearly)
		ereport(WARNING,
				(errmsg("RAM tablespace \"%s\" is nearly full", get_tablespace_name(tablespace)),
				 errdetail("Its file system has %lld MB of %lld MB left.",
						   (long long) (state.available / MEGABYTE), (long long) (state.size / MEGABYTE))));
	else if (state.memory_available >= 0 && state.memory_available < 256 * MEGABYTE)
		ereport(WARNING,
				(errmsg("memory is short for RAM tablespace \"%s\"", get_tablespace_name(tablespace)),
				 errdetail("%lld MB of memory are available.", (long long) (state.memory_available / MEGABYTE)),
				 errhint("Choose another temp_tablespaces before the server runs out of memory.")));
	pfree(location);
}

/*
 * A relation was made or changed.  Its row is read as this command left it.
 */
void
ramspace_saw_relation(Oid relid, bool created)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			tablespace = InvalidOid;
	char		persistence = RELPERSISTENCE_TEMP;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, ClassOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		tablespace = ((Form_pg_class) GETSTRUCT(tuple))->reltablespace;
		persistence = ((Form_pg_class) GETSTRUCT(tuple))->relpersistence;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);

	if (!OidIsValid(tablespace) || !ramspace_is(tablespace))
		return;
	if (persistence != RELPERSISTENCE_TEMP)
		refuse("a relation that is not temporary", tablespace);
	if (created)
		ramspace_check_room(tablespace, true);
}

void
ramspace_saw_database(Oid database)
{
	Relation	catalog = table_open(DatabaseRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			tablespace = InvalidOid;

	ScanKeyInit(&key, Anum_pg_database_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(database));
	scan = systable_beginscan(catalog, DatabaseOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tablespace = ((Form_pg_database) GETSTRUCT(tuple))->dattablespace;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);

	if (ramspace_is(tablespace))
		refuse("a database", tablespace);
}

/*
 * REINDEX (TABLESPACE ...) moves indexes without telling the object access hook.
 */
void
ramspace_before_reindex(ReindexStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->params)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "tablespace") == 0)
		{
			Oid			tablespace = get_tablespace_oid(defGetString(option), true);

			if (OidIsValid(tablespace) && ramspace_is(tablespace))
				refuse("an index by REINDEX", tablespace);
		}
	}
}

void
ramspace_install(void)
{
	/*
	 * in the postmaster, before any session; a library loaded later is too
	 * late
	 */
	if (process_shared_preload_libraries_in_progress && !IsUnderPostmaster)
		ramspace_restore_directories();
}

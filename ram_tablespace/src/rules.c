/*-------------------------------------------------------------------------
 *
 * rules.c
 *	  RAM tablespaces: accept only temporary tables, and warn before memory is
 *	  short.
 *
 * Files in memory are lost in a reboot, so a relation or database that is not
 * temporary is refused there, by any command: with a TABLESPACE clause,
 * default_tablespace, ALTER ... SET TABLESPACE, REINDEX (TABLESPACE ...).  The
 * object access hook is called for all of these except the last, after the command
 * has written the catalog row and before commit.
 *
 * At the same place a new temporary relation is refused when the tablespace holds
 * more than ram_tablespace.max_size, and warned about when it, its mount or the
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

#include "ram_directory.h"
#include "ram_tablespace.h"

#define MEGABYTE ((int64) 1024 * 1024)

static void
ramspace_refuse(const char *what, Oid tablespace)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot place %s in RAM tablespace \"%s\"", what, get_tablespace_name(tablespace)),
			 errdetail("Its files are lost when the machine restarts, so it holds temporary relations only."),
			 errhint("Name another tablespace, and set temp_tablespaces rather than default_tablespace to use this one.")));
}

/*
 * Refuse what would not fit any more: an ERROR if the tablespace holds its limit.
 * "state" says what it holds.
 */
static void
ramspace_hold_limit(Oid tablespace, const RamSpaceState *state)
{
	if (ramspace_max_size > 0 && state->used >= ramspace_max_size * MEGABYTE)
		ereport(ERROR,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("RAM tablespace \"%s\" is full", get_tablespace_name(tablespace)),
				 errdetail("It holds %lld MB, ram_tablespace.max_size is %d MB.",
						   (long long) (state->used / MEGABYTE), ramspace_max_size),
				 errhint("Drop temporary tables, choose another temp_tablespaces, or raise the limit.")));
}

/*
 * The same for code that extends a file there; other tablespaces have no limit.
 */
void
ramspace_check_limit(Oid tablespace)
{
	char	   *location;
	RamSpaceState state;

	if (ramspace_max_size == 0)
		return;
	if (!ram_directory_is_tablespace(tablespace))
		return;
	location = ram_directory_of(tablespace);
	ramspace_inspect(location, &state);
	ramspace_hold_limit(tablespace, &state);
	pfree(location);
}

/*
 * Refuse a new relation that would not fit, and say when little is left.
 */
static void
ramspace_check_room(Oid tablespace)
{
	char	   *location = ram_directory_of(tablespace);
	RamSpaceState state;
	int64		limit = ramspace_max_size * MEGABYTE;
	int64		nearly = 100 - ramspace_warn_percent;

	Assert(ram_directory_is_tablespace(tablespace));
	ramspace_inspect(location, &state);
	ramspace_hold_limit(tablespace, &state);
	if (limit > 0 && state.used * 100 >= limit * ramspace_warn_percent)
		ereport(WARNING,
				(errmsg("RAM tablespace \"%s\" is nearly full", get_tablespace_name(tablespace)),
				 errdetail("It holds %lld MB, ram_tablespace.max_size is %d MB.",
						   (long long) (state.used / MEGABYTE), ramspace_max_size)));
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

	if (!OidIsValid(tablespace) || !ram_directory_is_tablespace(tablespace))
		return;
	if (persistence != RELPERSISTENCE_TEMP)
		ramspace_refuse("a relation that is not temporary", tablespace);
	if (created)
		ramspace_check_room(tablespace);
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

	if (ram_directory_is_tablespace(tablespace))
		ramspace_refuse("a database", tablespace);
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

			if (OidIsValid(tablespace) && ram_directory_is_tablespace(tablespace))
				ramspace_refuse("an index by REINDEX", tablespace);
		}
	}
}

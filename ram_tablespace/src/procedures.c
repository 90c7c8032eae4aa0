/*-------------------------------------------------------------------------
 *
 * procedures.c
 *	  Procedures and functions for the administrator: create, drop, protect and inspect
 *	  RAM tablespaces.
 *
 * Making and dropping are procedures because a tablespace's directory cannot be
 * rolled back: like CREATE TABLESPACE they refuse to run inside a transaction
 * block, a pipeline or another routine, end their transaction at once, and touch
 * the file system last.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_tablespace.h"
#include "commands/tablespace.h"
#include "common/file_perm.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/scansup.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/portal.h"
#include "utils/tuplestore.h"

#include "ram_directory.h"
#include "ram_tablespace.h"

PG_FUNCTION_INFO_V1(ram_tablespace_create);
PG_FUNCTION_INFO_V1(ram_tablespace_drop);
PG_FUNCTION_INFO_V1(ram_tablespace_protect);
PG_FUNCTION_INFO_V1(ram_tablespace_is_protected);
PG_FUNCTION_INFO_V1(ram_tablespaces);

/* Is this call the client's own CALL statement? */
static bool
called_by_client(FunctionCallInfo fcinfo)
{
	Node	   *statement;

	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) || ((CallContext *) fcinfo->context)->atomic)
		return false;
	if (ActivePortal == NULL || list_length(ActivePortal->stmts) != 1)
		return false;
	statement = linitial_node(PlannedStmt, ActivePortal->stmts)->utilityStmt;
	return statement && IsA(statement, CallStmt) &&
		((CallStmt *) statement)->funcexpr->funcid == fcinfo->flinfo->fn_oid;
}

static void
check_caller(FunctionCallInfo fcinfo, const char *command)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for %s", command),
				 errhint("Must be superuser, as for CREATE TABLESPACE.")));
	if (!called_by_client(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block or a function", command)));

	/*
	 * in a pipeline: not after other statements, and committed before the
	 * next
	 */
	PreventInTransactionBlock(true, command);
}

/*
 * An argument as a string; procedures cannot be strict.
 */
static char *
text_argument(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", what)));
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* The same for a name, which is cut as names in commands are. */
static char *
name_argument(FunctionCallInfo fcinfo, int n)
{
	char	   *name = text_argument(fcinfo, n, "name of a RAM tablespace");

	truncate_identifier(name, strlen(name), true);
	return name;
}

/*
 * The directory becomes part of a path and the name part of a mount command in a
 * hint, so only plain names are taken.
 */
static void
check_name(const char *name)
{
	if (*name == '\0' || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("name of a RAM tablespace must consist of lower-case letters, digits and underscores")));
}

Datum
ram_tablespace_create(PG_FUNCTION_ARGS)
{
	char	   *name;
	char	   *mount_point;
	CreateTableSpaceStmt *create = makeNode(CreateTableSpaceStmt);
	char	   *location;
	struct stat st;
	bool		made = false;

	check_caller(fcinfo, "ram_tablespace_create");
	name = name_argument(fcinfo, 0);
	mount_point = text_argument(fcinfo, 1, "mount point");
	check_name(name);
	canonicalize_path(mount_point);
	if (!is_absolute_path(mount_point))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("mount point must be an absolute path")));
	if (stat(mount_point, &st) != 0 || !S_ISDIR(st.st_mode) || !ramspace_in_memory(mount_point))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not a tmpfs mount", mount_point),
				 errdetail("The server cannot mount file systems itself."),
				 errhint("As root: mkdir -p %s && mount -t tmpfs -o size=4G,mode=0700,uid=%u,gid=%u tmpfs %s; "
						 "for the next boot add to /etc/fstab: tmpfs %s tmpfs size=4G,mode=0700,uid=%u,gid=%u 0 0",
						 mount_point, (unsigned) geteuid(), (unsigned) getegid(), mount_point,
						 mount_point, (unsigned) geteuid(), (unsigned) getegid())));
	if (OidIsValid(get_tablespace_oid(name, true)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("tablespace \"%s\" already exists", name)));

	location = ramspace_make_location(mount_point, name);
	if (mkdir(location, pg_dir_create_mode) == 0)
		made = true;
	else if (errno != EEXIST || lstat(location, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", location)));

	create->tablespacename = name;
	create->location = location;
	PG_TRY();
	{
		ramspace_record(CreateTableSpace(create), WARNING);
	}
	PG_CATCH();
	{
		if (made)
			(void) rmdir(location);
		PG_RE_THROW();
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}

Datum
ram_tablespace_drop(PG_FUNCTION_ARGS)
{
	char	   *name;
	DropTableSpaceStmt *drop = makeNode(DropTableSpaceStmt);
	char	   *location;
	Oid			tablespace;

	check_caller(fcinfo, "ram_tablespace_drop");
	name = name_argument(fcinfo, 0);
	tablespace = get_tablespace_oid(name, false);
	location = ram_directory_of(tablespace);
	if (!ram_directory_is_tablespace(tablespace))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a RAM tablespace", name),
				 errhint("Use DROP TABLESPACE.")));
	drop->tablespacename = name;
	DropTableSpace(drop);
	ramspace_forget(tablespace);

	/* DROP TABLESPACE empties the directory but leaves it */
	if (rmdir(location) != 0)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not remove directory \"%s\": %m", location)));
	PG_RETURN_VOID();
}

/*
 * Make a tablespace in memory a RAM tablespace: one of a copy of the cluster that has no
 * record, or one that was created by CREATE TABLESPACE.
 */
Datum
ram_tablespace_protect(PG_FUNCTION_ARGS)
{
	char	   *name;
	char	   *location;
	Oid			tablespace;

	check_caller(fcinfo, "ram_tablespace_protect");
	name = name_argument(fcinfo, 0);
	tablespace = get_tablespace_oid(name, false);
	location = ram_directory_of(tablespace);
	if (location == NULL || !ramspace_in_memory(location))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("tablespace \"%s\" is not in memory", name),
				 errdetail("Only a tablespace outside of the data directory, on a tmpfs mount, can be a RAM tablespace.")));
	ramspace_record(tablespace, ERROR);
	PG_RETURN_VOID();
}

/*
 * Is this a RAM tablespace, which accepts temporary relations only?
 */
Datum
ram_tablespace_is_protected(PG_FUNCTION_ARGS)
{
	Oid			tablespace = get_tablespace_oid(text_to_cstring(PG_GETARG_TEXT_PP(0)), true);

	PG_RETURN_BOOL(ram_directory_is_tablespace(tablespace));
}

/*
 * One row for each RAM tablespace of the cluster, and for each other tablespace outside
 * of the data directory that is located in memory.
 */
Datum
ram_tablespaces(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	catalog;
	SysScanDesc scan;
	HeapTuple	tuple;

	InitMaterializedSRF(fcinfo, 0);
	catalog = table_open(TableSpaceRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_tablespace form = (Form_pg_tablespace) GETSTRUCT(tuple);
		char	   *location = ram_directory_of(form->oid);
		RamSpaceState state;
		bool		protected;
		Datum		values[10];
		bool		nulls[10] = {0};

		if (location == NULL)
			continue;
		protected = ram_directory_is_tablespace(form->oid);
		if (!protected && !ramspace_in_memory(location))
			continue;
		/* a standby that has replayed its creation */
		if (protected)
			ramspace_record(form->oid, LOG);
		ramspace_inspect(location, &state);
		values[0] = NameGetDatum(&form->spcname);
		values[1] = CStringGetTextDatum(location);
		values[2] = BoolGetDatum(state.in_memory);
		values[3] = BoolGetDatum(state.usable);
		values[4] = Int64GetDatum(state.used);
		values[5] = Int64GetDatum((int64) ramspace_max_size * 1024 * 1024);
		nulls[5] = ramspace_max_size == 0 || !protected;
		values[6] = Int64GetDatum(state.size);
		nulls[6] = state.size == 0;
		values[7] = Int64GetDatum(state.available);
		nulls[7] = state.size == 0;
		values[8] = Int64GetDatum(state.memory_available);
		nulls[8] = state.memory_available < 0;
		values[9] = BoolGetDatum(protected);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return (Datum) 0;
}

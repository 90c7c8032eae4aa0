/*-------------------------------------------------------------------------
 *
 * ram_tablespace.c
 *	  Entry point: settings and hooks.
 *
 * The rules apply only in processes that loaded the library, so it belongs in
 * shared_preload_libraries; only then does it also create directories again that a
 * reboot removed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_tablespace.h"
#include "commands/tablespace.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "compat_executor.h"
#include "compat_module.h"
#include "ram_directory.h"
#include "ram_tablespace.h"

PG_MODULE_MAGIC_COMPAT("ram_tablespace");

int			ramspace_max_size = 0;
int			ramspace_warn_percent = 80;

static ProcessUtility_hook_type next_utility;
static object_access_hook_type next_object_access;

void		_PG_init(void);

static void
ramspace_ProcessUtility(PROCESSUTILITY_PARAMS_compat)
{
	Node	   *statement = pstmt->utilityStmt;
	Oid			dropped = InvalidOid;

	if (IsA(statement, ReindexStmt))
		ramspace_before_reindex((ReindexStmt *) statement);
	else if (IsA(statement, DropTableSpaceStmt))
		dropped = get_tablespace_oid(((DropTableSpaceStmt *) statement)->tablespacename, true);
	next_utility(PROCESSUTILITY_ARGS_compat);
	if (OidIsValid(dropped))
		ramspace_forget(dropped);
	else if (IsA(statement, CreateTableSpaceStmt))
	{
		/* restored from a dump */
		Oid			created = get_tablespace_oid(((CreateTableSpaceStmt *) statement)->tablespacename, true);

		if (ram_directory_is_tablespace(created))
			ramspace_record(created, WARNING);
	}
}

static void
ramspace_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (next_object_access)
		next_object_access(access, classId, objectId, subId, arg);
	if ((access != OAT_POST_CREATE && access != OAT_POST_ALTER) || subId != 0 || IsBootstrapProcessingMode())
		return;
	if (classId == RelationRelationId)
		ramspace_saw_relation(objectId, access == OAT_POST_CREATE);
	else if (classId == DatabaseRelationId)
		ramspace_saw_database(objectId);
	else if (classId == TableSpaceRelationId && access == OAT_POST_CREATE)
		ramspace_forget(objectId);	/* of a tablespace that was dropped
									 * without the library */
}

void
_PG_init(void)
{
	DefineCustomIntVariable("ram_tablespace.max_size",
							"Sets the size of a RAM tablespace above which new temporary relations in it are refused.",
							"Zero means that the size of its file system is the only limit.",
							&ramspace_max_size,
							0, 0, INT_MAX,
							PGC_SIGHUP,
							GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("ram_tablespace.warn_percent",
							"Sets the percentage of a RAM tablespace in use above which new temporary relations in it cause a warning.",
							"It is compared with ram_tablespace.max_size and with the size of its file system.",
							&ramspace_warn_percent,
							80, 1, 100,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);
	MarkGUCPrefixReserved("ram_tablespace");

	next_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = ramspace_ProcessUtility;
	next_object_access = object_access_hook;
	object_access_hook = ramspace_object_access;
	*(RamCheckRoom *) find_rendezvous_variable(RAM_CHECK_ROOM_VARIABLE) = ramspace_check_limit;

	/*
	 * in the postmaster, before any session; a library loaded later is too
	 * late
	 */
	if (process_shared_preload_libraries_in_progress && !IsUnderPostmaster)
		ramspace_restore_directories();
}

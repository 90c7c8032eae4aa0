/*-------------------------------------------------------------------------
 *
 * utility.c
 *	  The one command that neither an object access hook nor an event trigger of
 *	  every supported version sees in time: REINDEX.
 *
 * Logical decoding finds chunks through the index of a store as it was; a REINDEX
 * gives it a new file, and a slot that lags can not read its old transactions any
 * more.  REINDEX of a table does not reach its store; one of the database, of the
 * schema of the stores or of a store by name does, and is refused then.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"

#include "compat_executor.h"
#include "ddl/ddl.h"
#include "store.h"

static ProcessUtility_hook_type previous_hook = NULL;

/* Does a REINDEX statement reach chunk stores? */
static bool
reaches_stores(const ReindexStmt *stmt)
{
	switch (stmt->kind)
	{
		case REINDEX_OBJECT_DATABASE:
			return true;
		case REINDEX_OBJECT_SCHEMA:
			return strcmp(stmt->name, AB_SCHEMA) == 0;
		case REINDEX_OBJECT_TABLE:
		case REINDEX_OBJECT_INDEX:
			{
				Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);

				return OidIsValid(relid) && get_rel_namespace(relid) == ab_schema_oid();
			}
		default:
			return false;
	}
}

static void
refuse_reindex(const ReindexStmt *stmt)
{
	ListCell   *lc;

	if (!OidIsValid(ab_schema_oid()) || !reaches_stores(stmt))
		return;
	foreach(lc, ab_store_list())
		ab_refuse_awaited(ab_store_find(lfirst_oid(lc)));
}

static void
process_utility(PROCESSUTILITY_PARAMS_compat)
{
	if (IsA(pstmt->utilityStmt, ReindexStmt) && IsTransactionState())
		refuse_reindex((const ReindexStmt *) pstmt->utilityStmt);
	if (previous_hook)
		previous_hook(PROCESSUTILITY_ARGS_compat);
	else
		standard_ProcessUtility(PROCESSUTILITY_ARGS_compat);
}

/* Called once, from _PG_init. */
void
ab_utility_install(void)
{
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

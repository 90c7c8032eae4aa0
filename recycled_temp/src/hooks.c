/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  Which statements go by way of the pool, and the end of transactions.
 *
 * CREATE TABLE and DROP TABLE that are executed here do not reach the utility hooks
 * of libraries that were loaded earlier, because those are called by this one.  So
 * the library must be the first one with such a hook; otherwise it cannot be enabled
 * (hooks_obstacle()).  Libraries that were loaded later, such as pgaudit or
 * pg_stat_statements, see each statement as it was written.  Event triggers are
 * called by the server, so the pool is not used in a database that has any.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/evtcache.h"
#include "utils/lsyscache.h"

#include "compat_executor.h"
#include "recycled_temp.h"

static ProcessUtility_hook_type next_utility;
static ExecutorStart_hook_type next_start;
static bool utility_hook_before = false;

/* Why the pool cannot be used in this server, or NULL. */
const char *
hooks_obstacle(void)
{
	return utility_hook_before ? "another library that processes utility statements is loaded before recycled_temp" : NULL;
}

/* May statements go by way of the pool? */
bool
hooks_usable(void)
{
	return recycled_enabled && !utility_hook_before && !XactReadOnly && !IsInParallelMode() && !RecoveryInProgress() &&
		!creating_extension && !IsBinaryUpgrade && !IgnoreSystemIndexes &&
		EventCacheLookup(EVT_DDLCommandStart) == NIL && EventCacheLookup(EVT_DDLCommandEnd) == NIL &&
		EventCacheLookup(EVT_SQLDrop) == NIL;
}

/* Does it name a temporary table?  Contradictions are the server's to report. */
static bool
names_temporary(RangeVar *rv)
{
	return rv->catalogname == NULL && rv->relpersistence != RELPERSISTENCE_UNLOGGED &&
		(rv->schemaname ? strcmp(rv->schemaname, "pg_temp") == 0 : rv->relpersistence == RELPERSISTENCE_TEMP);
}

/* The temporary table of this name, or none. */
static Oid
temporary_table(const char *relname)
{
	Oid			schema,
				toast_schema;

	GetTempNamespaceState(&schema, &toast_schema);
	return OidIsValid(schema) ? get_relname_relid(relname, schema) : InvalidOid;
}

/* The server has made a table, or with IF NOT EXISTS, found one that was there. */
static void
note_created(const char *relname, OnCommitAction oncommit, bool was_there)
{
	Oid			relid = was_there ? InvalidOid : temporary_table(relname);

	if (OidIsValid(relid))
		on_commit_created(relid, oncommit);
}

static void
create_table(PROCESSUTILITY_PARAMS_compat)
{
	CreateStmt *stmt = (CreateStmt *) pstmt->utilityStmt;
	OnCommitAction oncommit = stmt->oncommit;
	char	   *relname = stmt->relation->relname;
	RecycledRequest request = {.relation = stmt->relation,.oncommit = oncommit,.source = queryString};
	bool		was_there = stmt->if_not_exists && OidIsValid(temporary_table(relname));

	if (recycled_pool != NIL && shape_of_statement(stmt, &request) && OidIsValid(recycle_create(&request)))
		return;
	next_utility(PROCESSUTILITY_ARGS_compat);
	note_created(relname, oncommit, was_there);
}

static void
create_table_as(PROCESSUTILITY_PARAMS_compat)
{
	CreateTableAsStmt *stmt = (CreateTableAsStmt *) pstmt->utilityStmt;
	IntoClause *saved = create_as_into;
	OnCommitAction oncommit = stmt->into->onCommit;
	char	   *relname = stmt->into->rel->relname;
	bool		was_there = stmt->if_not_exists && OidIsValid(temporary_table(relname));

	create_as_reused = false;
	create_as_into = recycled_pool != NIL && !stmt->into->skipData ? stmt->into : NULL;
	PG_TRY();
	{
		next_utility(PROCESSUTILITY_ARGS_compat);
	}
	PG_FINALLY();
	{
		create_as_into = saved;
	}
	PG_END_TRY();
	if (!create_as_reused)
		note_created(relname, oncommit, was_there);
}

static void
recycled_ProcessUtility(PROCESSUTILITY_PARAMS_compat)
{
	Node	   *stmt = pstmt->utilityStmt;

	if ((recycled_enabled || recycled_pool != NIL) && context != PROCESS_UTILITY_SUBCOMMAND)
		switch (nodeTag(stmt))
		{
			case T_DropStmt:
				if (((DropStmt *) stmt)->removeType == OBJECT_TABLE && hooks_usable() && recycle_drop((DropStmt *) stmt))
					return;
				break;
			case T_CreateStmt:
				if (names_temporary(((CreateStmt *) stmt)->relation) && hooks_usable())
				{
					create_table(PROCESSUTILITY_ARGS_compat);
					return;
				}
				break;
			case T_CreateTableAsStmt:
				if (((CreateTableAsStmt *) stmt)->objtype == OBJECT_TABLE &&
					names_temporary(((CreateTableAsStmt *) stmt)->into->rel) && hooks_usable())
				{
					create_table_as(PROCESSUTILITY_ARGS_compat);
					return;
				}
				break;
			case T_DropRoleStmt:
			case T_DropOwnedStmt:
			case T_ReassignOwnedStmt:
				/* pooled tables would be in the way */
				if (recycled_pool != NIL && !XactReadOnly && !IsInParallelMode())
					(void) pool_empty(false);
				break;
			default:
				break;
		}
	next_utility(PROCESSUTILITY_ARGS_compat);
}

static void
recycled_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	if (unlikely(create_as_into != NULL))
		create_as_begin(queryDesc);
	next_start(queryDesc, eflags);
}

static void
transaction_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			recycle_at_pre_commit();
			break;
		case XACT_EVENT_COMMIT:
			recycle_at_commit();
			recycle_at_end();
			pool_at_end(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			recycle_at_end();
			pool_at_end(false);
			break;
		default:
			break;
	}
}

/*
 * Call this library at the end of transactions from now on: a session pays for it after
 * its first pooled table or ON COMMIT DROP only.
 */
void
hooks_watch_transactions(void)
{
	static bool watching = false;

	if (!watching)
	{
		RegisterXactCallback(transaction_callback, NULL);
		RegisterResourceReleaseCallback(rollback_resources_released, NULL);
	}
	watching = true;
}

void
hooks_install(void)
{
	utility_hook_before = ProcessUtility_hook != NULL;
	next_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = recycled_ProcessUtility;
	next_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = recycled_ExecutorStart;
}

/*-------------------------------------------------------------------------
 *
 * command.c
 *	  What happens before and after a utility command: the one ProcessUtility hook.
 *
 * While a command runs, relation.c remembers the tables that it creates, alters and
 * drops.  At its end ab_table_changed() determines what has become of each: the chunk
 * store of a table that was dropped, or has no column of the type any more, is dropped,
 * and any other is made like its table.  A command that runs as part of another
 * one (PROCESS_UTILITY_SUBCOMMAND) leaves that to it, because rows may still be rewritten.
 *
 * A session that has not preloaded the library loads it in the middle of its first DDL
 * command, by an event trigger, and the hook does not see that command's end: then
 * the same is done before the transaction's commit.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_subscription_rel.h"
#include "commands/event_trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "storage/lock.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "client/client.h"
#include "ddl/ddl.h"

PG_FUNCTION_INFO_V1(appendable_bytea_command_start);

/* The hook that was set before ours, or what the server does without one. */
static ProcessUtility_hook_type next_utility = NULL;

/* Was the library loaded in this transaction? */
static bool loaded_meanwhile = false;

/*
 * Determine what a command did to a table, and have its store follow.  Raises an error if
 * the table keeps values where their chunks would not.
 */
void
ab_table_changed(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	if (relkind == RELKIND_PARTITIONED_TABLE)
		ab_refuse_partition_key(relid);
	else if (relkind == RELKIND_RELATION && ab_rel_am(relid) == ab_am_oid() && ab_check_defaults(relid))
		ab_store_match(relid);
	else
		ab_store_end(relid);
}

/* A command has ended, or its transaction will. */
static void
finish_command(AbCommand *command)
{
	List	   *changed = command->changed;
	ListCell   *lc;
	bool		pushed = false;

	if (changed == NIL)
		return;
	command->changed = NIL;
	CommandCounterIncrement();
	if (!OidIsValid(ab_am_oid()))
		return;					/* DROP EXTENSION */
	if (!ActiveSnapshotSet())
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		pushed = true;
	}
	list_sort(changed, list_oid_cmp);
	list_deduplicate_oid(changed);
	foreach(lc, changed)
		ab_table_changed(lfirst_oid(lc));
	ab_store_drop_retained();
	if (pushed)
		PopActiveSnapshot();
}

/* Does a name refer to a relation in the schema of the stores? */
static bool
is_store(const RangeVar *name)
{
	Oid			relid = name ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;

	return OidIsValid(relid) && get_rel_namespace(relid) == ab_schema_oid();
}

/* Refuse to alter a store, as the server refuses to alter a TOAST table. */
static void
refuse_store(const RangeVar *name)
{
	if (!IsBinaryUpgrade && is_store(name))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a chunk store", name->relname)));
}

/*
 * Refuse to rename or move what the library finds by its name: columns of the type would
 * not be recognized any more, and be stored as they are.
 */
static void
refuse_rename(ObjectType kind, Node *object, const char *schema)
{
	bool		found = false;

	if (kind == OBJECT_TYPE)
		found = ab_type_of(LookupTypeNameOid(NULL, makeTypeNameFromNameList(castNode(List, object)), true)) != NULL;
	else if (kind == OBJECT_SCHEMA)
		found = strcmp(schema, AB_SCHEMA) == 0;
	else if (kind == OBJECT_FUNCTION || kind == OBJECT_ROUTINE)
		found = LookupFuncWithArgs(kind, castNode(ObjectWithArgs, object), true) ==
			GetSysCacheOid1(AMOID, Anum_pg_am_amhandler, ObjectIdGetDatum(ab_am_oid()));
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot rename or move an object by whose name extension \"%s\" finds values",
						AB_EXTENSION)));
}

/*
 * Logical decoding finds chunks through the index of a store.  One that is rebuilt
 * concurrently has no entries for chunks that are deleted, which a slot may still need;
 * a plain REINDEX keeps them.  Until 16 no event trigger is called for REINDEX, so a
 * session must have loaded the library before.
 */
static void
check_reindex(const ReindexStmt *stmt)
{
	bool		concurrently = false;
	bool		reaches_stores;
	ListCell   *lc;

	foreach(lc, stmt->params)
	{
		if (strcmp(((DefElem *) lfirst(lc))->defname, "concurrently") == 0)
			concurrently = true;
	}
	if (!concurrently)
		return;
	if (stmt->kind == REINDEX_OBJECT_DATABASE)
		reaches_stores = ab_store_tables() != NIL;
	else if (stmt->kind == REINDEX_OBJECT_SCHEMA)
		reaches_stores = strcmp(stmt->name, AB_SCHEMA) == 0;
	else
		reaches_stores = is_store(stmt->relation);
	if (reaches_stores && ab_slots_exist())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("chunk stores cannot be reindexed concurrently while logical replication slots exist"),
				 errhint("Use REINDEX without CONCURRENTLY.")));
}

/* The first key of the advisory lock that pg_repack holds on a table; REPACK_LOCK_PREFIX there. */
#define REPACK_LOCK_KEY		16185446

/*
 * pg_repack locks each table before it creates anything for it, and skips a table that it
 * cannot lock.  Its next step, a log table with a column of the table's row type, in which
 * values could outlive their row, is refused, and it would end there with other tables
 * still to be repacked.
 */
static void
refuse_repack(const LockStmt *stmt)
{
	ListCell   *lc;

	if (stmt->mode != AccessExclusiveLock)
		return;
	foreach(lc, stmt->relations)
	{
		Oid			relid = RangeVarGetRelid(lfirst(lc), NoLock, true);
		LOCKTAG		tag;

		SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, REPACK_LOCK_KEY, relid + (uint32) PG_INT32_MIN, 2);
		if (LockHeldByMe_compat(&tag, ExclusiveLock) && ab_check_defaults(relid))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" cannot be repacked because it has columns of type appendable_bytea, appendable_text, appendable_json or appendable_jsonb",
							get_rel_name(relid)),
					 errhint("Use appendable_shrink() and VACUUM for the table.")));
	}
}

/*
 * Check a command before it runs.
 *
 * A publication of all tables includes chunk stores: nothing in the server keeps a
 * table out of it.  No change of a chunk store is ever sent (store.c), but a
 * subscriber wants a table of that name before anything else.
 */
static void
begin_command(Node *statement)
{
	ListCell   *lc;

	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:
			refuse_store(((AlterTableStmt *) statement)->relation);
			if (!IsBinaryUpgrade)
				ab_check_conversion((AlterTableStmt *) statement);
			break;
		case T_RenameStmt:
			refuse_store(((RenameStmt *) statement)->relation);
			refuse_rename(((RenameStmt *) statement)->renameType, ((RenameStmt *) statement)->object,
						  ((RenameStmt *) statement)->subname);
			break;
		case T_AlterObjectSchemaStmt:
			refuse_store(((AlterObjectSchemaStmt *) statement)->relation);
			refuse_rename(((AlterObjectSchemaStmt *) statement)->objectType,
						  ((AlterObjectSchemaStmt *) statement)->object, NULL);
			break;
		case T_IndexStmt:
			refuse_store(((IndexStmt *) statement)->relation);
			break;
		case T_DropStmt:
			if (((DropStmt *) statement)->removeType == OBJECT_INDEX)
				foreach(lc, ((DropStmt *) statement)->objects)
					refuse_store(makeRangeVarFromNameList(lfirst(lc)));
			break;
		case T_ReindexStmt:
			check_reindex((ReindexStmt *) statement);
			break;
		case T_LockStmt:
			refuse_repack((LockStmt *) statement);
			break;
		case T_CreatePublicationStmt:
			if (((CreatePublicationStmt *) statement)->for_all_tables)
				ereport(WARNING,
						(errmsg("publication of all tables includes the chunk stores of schema \"%s\"", AB_SCHEMA),
						 errdetail("Subscribers cannot create a subscription for them."),
						 errhint("Publish FOR TABLES IN SCHEMA or FOR TABLE instead.")));
			break;
		default:
			break;
	}
}

/*
 * By a publication of all tables, a subscriber would be sent, where its own stores happen to
 * have the same names, chunks that belong to other tables: remove stores from subscriptions
 * before anything is copied.
 */
static void
unsubscribe_stores(void)
{
	ListCell   *lc;

	foreach(lc, ab_catalog_rows(SubscriptionRelRelationId, InvalidOid, 0, NULL, NULL))
	{
		Form_pg_subscription_rel form = (Form_pg_subscription_rel) GETSTRUCT((HeapTuple) lfirst(lc));

		if (get_rel_namespace(form->srrelid) == ab_schema_oid())
			RemoveSubscriptionRel(form->srsubid, form->srrelid);
	}
}

/* A command has ended, and its transaction continues. */
static void
end_command(AbCommand *command)
{
	finish_command(command);
	if ((IsA(command->statement, CreateSubscriptionStmt) || IsA(command->statement, AlterSubscriptionStmt)) &&
		OidIsValid(ab_schema_oid()))
	{
		CommandCounterIncrement();
		unsubscribe_stores();
	}
}

static void
appendable_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, ProcessUtilityContext context,
				   ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	AbCommand	command = {.outer = ab_command,.statement = pstmt->utilityStmt};
	const AbUtility outer = ab_utility;
	const bool	followed = !IsA(pstmt->utilityStmt, TransactionStmt) && context != PROCESS_UTILITY_SUBCOMMAND &&
		IsTransactionState() && !IsAbortedTransactionBlockState();

	if (followed)
	{
		if (OidIsValid(ab_schema_oid()))
			begin_command(pstmt->utilityStmt);
		ab_command = &command;
	}
	PG_TRY();
	{
		ab_protocol_begin(pstmt);
		next_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		if (followed && IsTransactionState() && !IsBinaryUpgrade)
			end_command(&command);
	}
	PG_FINALLY();
	{
		ab_utility = outer;
		if (followed)
			ab_command = command.outer;
	}
	PG_END_TRY();
}

/*
 * The event trigger at the start of a DDL command: that it is called has loaded the
 * library.  The hook has not seen the first such command of a session begin.
 */
Datum
appendable_bytea_command_start(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function was not called as an event trigger")));
	if (ab_command == &ab_command_outside && OidIsValid(ab_schema_oid()))
		begin_command(((EventTriggerData *) fcinfo->context)->parsetree);
	PG_RETURN_NULL();
}

static void
transaction_ends(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			for (AbCommand *command = ab_command; command != NULL; command = command->outer)
				finish_command(command);
			if (loaded_meanwhile && OidIsValid(ab_schema_oid()))
			{
				unsubscribe_stores();
				ab_refuse_unseen_tables();
			}
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			/* a procedure continues after that */
			for (AbCommand *command = ab_command; command != NULL; command = command->outer)
			{
				command->changed = command->computed = NIL;
				NameStr(command->dropped_table)[0] = '\0';
			}
			loaded_meanwhile = false;
			break;
		default:
			break;
	}
}

/* Called once, from _PG_init. */
void
ab_ddl_install(void)
{
	next_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = appendable_utility;
	loaded_meanwhile = IsTransactionState();
	RegisterXactCallback(transaction_ends, NULL);
	ab_relation_install();
}

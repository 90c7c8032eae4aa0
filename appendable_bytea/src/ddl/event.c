/*-------------------------------------------------------------------------
 *
 * event.c
 *	  Event triggers: what must be done when a command begins or is over.
 *
 * The trigger at the start of a command has the library loaded before a session's
 * first CREATE TABLE, so that its hooks see it.  At the end of a command stores
 * follow their tables (persistence, tablespace, publication).  A table that was
 * dropped takes its store with it, unless a logical replication slot may still
 * have to read it; then it goes when another table does, or by repair.  Subscriptions never include stores.
 *
 * These run with whatever search_path the command has, as whatever user: every
 * name is qualified, and what touches stores checks no rights.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_subscription_rel.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "replication/slot.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "compat_table.h"
#include "ddl/ddl.h"
#include "store.h"

PG_FUNCTION_INFO_V1(appendable_bytea_command_start);
PG_FUNCTION_INFO_V1(appendable_bytea_command_end);
PG_FUNCTION_INFO_V1(appendable_bytea_dropped);
PG_FUNCTION_INFO_V1(appendable_bytea_detach);

/*
 * Do all logical replication slots of this database need nothing any more of what a
 * transaction removed?  With InvalidTransactionId: are there none?
 */
static bool
slots_passed(TransactionId xid)
{
	bool		passed = true;

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots && passed; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];
		TransactionId needed;

		if (!slot->in_use)
			continue;
		SpinLockAcquire(&slot->mutex);
		if (slot->data.database == MyDatabaseId)
		{
			needed = slot->effective_catalog_xmin;
			passed = TransactionIdIsNormal(xid) && TransactionIdIsNormal(needed) &&
				TransactionIdPrecedes(xid, needed);
		}
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(ReplicationSlotControlLock);
	return passed;
}

/* Is there a logical replication slot of this database? */
bool
ab_logical_slots_exist(void)
{
	return !slots_passed(InvalidTransactionId);
}

static EventTriggerData *
event(FunctionCallInfo fcinfo)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function was not called as an event trigger")));
	return (EventTriggerData *) fcinfo->context;
}

Datum
appendable_bytea_command_start(PG_FUNCTION_ARGS)
{
	(void) event(fcinfo);
	ab_statement_begins();
	PG_RETURN_NULL();
}

/* The first column of a query's rows as OIDs, in the caller's context. */
static List *
query_oids(const char *query)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	/* not read-only, so as to see what the command has done */
	if (SPI_execute(query, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not run \"%s\"", query);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		Datum		oid = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);
		MemoryContext oldcontext = MemoryContextSwitchTo(context);

		if (!isnull)
			result = lappend_oid(result, DatumGetObjectId(oid));
		MemoryContextSwitchTo(oldcontext);
	}
	SPI_finish();
	return result;
}

/*
 * A publication of all tables includes chunk stores: nothing in the server keeps a
 * table out of it.  No change of a chunk store is ever sent (chunk.c), but a
 * subscriber wants a table of that name before anything else.
 */
static void
warn_of_stores(void)
{
	if (query_oids("SELECT p.oid FROM pg_catalog.pg_event_trigger_ddl_commands() c, pg_catalog.pg_publication p "
				   "WHERE c.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_publication'::pg_catalog.regclass "
				   "AND p.oid OPERATOR(pg_catalog.=) c.objid AND p.puballtables") != NIL)
		ereport(WARNING,
				(errmsg("publication of all tables includes the chunk stores of schema \"%s\"", AB_SCHEMA),
				 errdetail("Subscribers cannot create a subscription for them."),
				 errhint("Publish FOR TABLES IN SCHEMA or FOR TABLE instead.")));
}

/*
 * By such a publication, a subscriber would be sent the catalog of the stores and, where
 * its own stores happen to have the same names, chunks that belong to other tables: take
 * them out of the subscription before anything is copied.
 */
static void
unsubscribe_stores(void)
{
	ListCell   *rel;
	ListCell   *sub;

	foreach(rel, query_oids("SELECT oid FROM pg_catalog.pg_class WHERE relnamespace OPERATOR(pg_catalog.=) "
							"'" AB_SCHEMA "'::pg_catalog.regnamespace"))
	{
		foreach(sub, query_oids(psprintf("SELECT srsubid FROM pg_catalog.pg_subscription_rel "
										 "WHERE srrelid OPERATOR(pg_catalog.=) %u", lfirst_oid(rel))))
			RemoveSubscriptionRel(lfirst_oid(sub), lfirst_oid(rel));
	}
}

/*
 * Remove the store of a table that needs none any more.  If a logical replication slot
 * may still have to read it, it is left for ab_drop_retained_stores(), with a note on it.
 */
static void
drop_store(Oid relid)
{
	Oid			heap = ab_store_find(relid);

	if (!OidIsValid(heap))
		return;
	if (ab_store_decodable(heap) && ab_logical_slots_exist())
		ab_store_retain(relid);
	else
		ab_store_drop(relid);
}

/* Is there a table that uses the store of this OID?  Keeps the table as it is. */
static bool
store_in_use(Oid relid)
{
	Relation	rel;
	bool		used;

	LockRelationOid(relid, AccessShareLock);
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		return false;
	used = ab_is_appendable(rel);
	relation_close(rel, NoLock);
	return used;
}

/*
 * Remove the store of a table that has left the access method.  The table has been looked
 * at by ab_relation_changed(), which puts it back there if it has a column of the type.
 */
static void
drop_unused_store(Oid relid)
{
	if (OidIsValid(ab_store_find(relid)) && OidIsValid(ab_am_oid()) && !store_in_use(relid))
		drop_store(relid);
}

/*
 * Make stores follow a table that a command changed.  What becomes of a partitioned
 * table, or of where it is attached, decides whether its partitions are published.
 */
static void
match_stores(Oid relid)
{
	ListCell   *lc;

	ab_store_match(relid);
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		ab_store_match(lfirst_oid(lc));
}

Datum
appendable_bytea_command_end(PG_FUNCTION_ARGS)
{
	EventTriggerData *data = event(fcinfo);
	List	   *oids;
	ListCell   *lc;
	bool		publication = strstr(GetCommandTagName(data->tag), "PUBLICATION") != NULL;

	if (IsBinaryUpgrade || !OidIsValid(ab_schema_oid()))
		PG_RETURN_NULL();
	if (strstr(GetCommandTagName(data->tag), "SUBSCRIPTION") != NULL)
	{
		unsubscribe_stores();
		PG_RETURN_NULL();
	}
	if (publication)
	{
		warn_of_stores();
		oids = ab_store_list();
	}
	else
		oids = query_oids("SELECT DISTINCT objid FROM pg_catalog.pg_event_trigger_ddl_commands() "
						  "WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass "
						  "AND object_type OPERATOR(pg_catalog.=) 'table'");
	foreach(lc, oids)
	{
		if (!publication)
		{
			ab_refuse_own_row_security(lfirst_oid(lc));
			ab_relation_changed(lfirst_oid(lc));
			ab_refuse_hidden_default(lfirst_oid(lc));
			drop_unused_store(lfirst_oid(lc));
		}
		match_stores(lfirst_oid(lc));
	}
	PG_RETURN_NULL();
}

/*
 * Remove stores that drop_store() left, if all slots have passed the transaction that did:
 * from then on they cannot see its table any more either.  forgotten: remove also stores
 * of tables that were dropped while event triggers were off.
 */
void
ab_drop_retained_stores(bool forgotten)
{
	ListCell   *lc;
	uint64		now = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (!OidIsValid(ab_am_oid()))
		return;
	foreach(lc, ab_store_list())
	{
		Oid			relid = lfirst_oid(lc);
		FullTransactionId dropped_by;

		if (!ab_store_is_retained(relid, &dropped_by))
		{
			/* a table that exists, whatever has become of it, keeps its store */
			if (forgotten && !store_in_use(relid) &&
				!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
				drop_store(relid);
		}
		else if ((U64FromFullTransactionId(dropped_by) + PG_INT32_MAX < now ||
				  slots_passed(XidFromFullTransactionId(dropped_by))) && !store_in_use(relid))
			ab_store_drop(relid);
	}
}

Datum
appendable_bytea_dropped(PG_FUNCTION_ARGS)
{
	List	   *oids;
	ListCell   *lc;

	(void) event(fcinfo);
	if (IsBinaryUpgrade || !OidIsValid(ab_schema_oid()))
		PG_RETURN_NULL();
	oids = query_oids("SELECT objid FROM pg_catalog.pg_event_trigger_dropped_objects() "
					  "WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass "
					  "AND objsubid OPERATOR(pg_catalog.=) 0 AND object_type OPERATOR(pg_catalog.=) 'table'");
	if (oids != NIL)
		ab_drop_retained_stores(false);
	foreach(lc, oids)
		drop_store(lfirst_oid(lc));
	if (query_oids("SELECT objid FROM pg_catalog.pg_event_trigger_dropped_objects() "
				   "WHERE '" AB_SCHEMA "' OPERATOR(pg_catalog.=) ANY (ARRAY[schema_name, address_names[1]]) "
				   "AND object_type OPERATOR(pg_catalog.=) ANY (ARRAY['index', 'trigger'])") != NIL)
		ab_refuse_own_dropped();
	PG_RETURN_NULL();
}

/* Raise an error unless the relation is there and the user owns it. */
static void
require_owner(Oid relid)
{
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!RelationOwnerCheck_compat(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

/*
 * Lock a table of the user's against everybody.  Who has no right to it does not get to
 * wait for it, and what was true before the lock is asked again under it.
 */
void
ab_lock_own_table(Oid relid)
{
	require_owner(relid);
	LockRelationOid(relid, AccessExclusiveLock);
	require_owner(relid);
}

/* ALTER COLUMN ... TYPE bytea or text for every column of ours; NULL if there is none. */
static char *
detach_command(Oid relid)
{
	Relation	rel = relation_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	StringInfoData command;
	const char *separator = " ";

	initStringInfo(&command);
	appendStringInfo(&command, "ALTER TABLE %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)));
	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		const char *column = quote_identifier(NameStr(TupleDescAttr(desc, n - 1)->attname));

		const char *plain = ab_type_of(TupleDescAttr(desc, n - 1)->atttypid)->plain_name;

		Oid			collation = TupleDescAttr(desc, n - 1)->attcollation;

		appendStringInfo(&command, "%sALTER COLUMN %s TYPE pg_catalog.%s%s%s USING %s::pg_catalog.%s",
						 separator, column, plain, OidIsValid(collation) ? " COLLATE " : "",
						 OidIsValid(collation) ? generate_collation_name(collation) : "", column, plain);
		separator = ", ";
	}
	relation_close(rel, NoLock);
	return separator[0] == ',' ? command.data : NULL;
}

/*
 * Go on as the owner of a table: functions of a default or a trigger are his, and must
 * not run with the rights of a superuser who looks after the table.  The former user
 * comes back by SetUserIdAndSecContext(), or with an error by the end of the
 * transaction.
 */
void
ab_become_owner(Relation rel, Oid *user, int *security)
{
	GetUserIdAndSecContext(user, security);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   *security | SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
}

/* A default of our type as text that makes the same bytes as a bytea. */
static char *
default_as_bytea(Relation rel, int attnum)
{
	Node	   *expr = build_column_default(rel, attnum);
	const AbType *type = ab_type_of(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->atttypid);
	Oid			user;
	int			security;

	if (expr == NULL)
		return NULL;
	ab_become_owner(rel, &user, &security);
	expr = eval_const_expressions(NULL, expr);
	SetUserIdAndSecContext(user, security);
	if (IsA(expr, Const))
	{
		Const	   *value = (Const *) expr;
		bytea	   *bytes;
		char	   *hex;
		int			n;

		if (value->constisnull)
			return NULL;
		bytes = ab_read_bytea(value->constvalue, 0, ab_length(value->constvalue));
		if (type->plain == TEXTOID)
			return psprintf("%s::pg_catalog.text", quote_literal_cstr(text_to_cstring(bytes)));
		n = VARSIZE(bytes) - VARHDRSZ;
		hex = palloc(2 * n + 1);
		hex[hex_encode(VARDATA(bytes), n, hex)] = '\0';
		return psprintf("'\\x%s'::pg_catalog.bytea", hex);
	}
	if (IsA(expr, FuncExpr))
	{
		FuncExpr   *cast = (FuncExpr *) expr;

		if (list_length(cast->args) == 1 && exprType(linitial(cast->args)) == type->plain)
			return deparse_expression(linitial(cast->args), NIL, false, false);
	}
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("default of column \"%s\" of table \"%s\" cannot be turned into one of type %s",
					NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname),
					RelationGetRelationName(rel), type->plain_name),
			 errhint("Drop the default first.")));
	return NULL;				/* not reached */
}

/*
 * Add to "drop" and "set" the commands that take the defaults of our columns away
 * from one table and give them back as bytea: a default that is merely cast would
 * keep depending on the extension.
 */
static void
convert_defaults(Oid relid, List **drop, List **set)
{
	Relation	rel = relation_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	const char *table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												   RelationGetRelationName(rel));

	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		Form_pg_attribute att = TupleDescAttr(desc, n - 1);
		const char *column;
		char	   *value;

		if (!att->atthasdef || att->attgenerated != '\0')
			continue;
		column = quote_identifier(NameStr(att->attname));
		value = default_as_bytea(rel, n);
		*drop = lappend(*drop, psprintf("ALTER TABLE ONLY %s ALTER COLUMN %s DROP DEFAULT",
										table, column));
		if (value != NULL)
			*set = lappend(*set, psprintf("ALTER TABLE ONLY %s ALTER COLUMN %s SET DEFAULT %s",
										  table, column, value));
	}
	relation_close(rel, NoLock);
}

/*
 * Run commands through SPI, each alone: an extension that sends DDL to other servers
 * sends the whole text that a command was in.
 */
static void
run_commands(List *commands)
{
	ListCell   *lc;

	foreach(lc, commands)
	{
		if (SPI_execute(lfirst(lc), false, 0) < 0)
			elog(ERROR, "could not run \"%s\"", (char *) lfirst(lc));
	}
}

/*
 * appendable_bytea_detach(regclass): put a table, and all that inherit from it, on
 * heap with columns of type bytea.
 */
Datum
appendable_bytea_detach(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	List	   *tables;
	ListCell   *lc;
	List	   *drop_defaults = NIL;
	List	   *set_defaults = NIL;
	char	   *command;
	Relation	rel;
	Oid			user;
	int			security;

	ab_lock_own_table(relid);
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		require_owner(lfirst_oid(lc));
	tables = find_all_inheritors(relid, AccessExclusiveLock, NULL);
	foreach(lc, tables)
	{
		require_owner(lfirst_oid(lc));
		convert_defaults(lfirst_oid(lc), &drop_defaults, &set_defaults);
	}
	rel = relation_open(relid, NoLock);
	ab_become_owner(rel, &user, &security);
	relation_close(rel, NoLock);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	run_commands(drop_defaults);
	command = detach_command(relid);
	if (command != NULL)
		run_commands(list_make1(command));
	run_commands(set_defaults);
	SPI_finish();
	SetUserIdAndSecContext(user, security);
	foreach(lc, tables)
	{
		bool		appendable;

		rel = relation_open(lfirst_oid(lc), NoLock);
		appendable = ab_is_appendable(rel);
		relation_close(rel, NoLock);
		if (appendable && detach_command(lfirst_oid(lc)) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" has columns of its own of type %s",
							get_rel_name(lfirst_oid(lc)), AB_EXTENSION),
					 errhint("Call appendable_bytea_detach() for that table first.")));
		if (appendable)
		{
			ab_set_access_method(lfirst_oid(lc), HEAP_TABLE_AM_OID);
			drop_store(lfirst_oid(lc));
		}
	}
	PG_RETURN_VOID();
}

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
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_subscription_rel.h"
#include "commands/event_trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat_table.h"
#include "ddl/ddl.h"
#include "store.h"

PG_FUNCTION_INFO_V1(appendable_bytea_command_start);
PG_FUNCTION_INFO_V1(appendable_bytea_command_end);
PG_FUNCTION_INFO_V1(appendable_bytea_dropped);

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
 * Tables of the extension's own were altered, or indexes or triggers of them dropped: refuse
 * what not every server version tells its hooks of in time.
 */
static void
refuse_own_changed(void)
{
	ListCell   *lc;

	foreach(lc, query_oids("SELECT c.oid FROM pg_catalog.pg_class c "
						   "WHERE c.relnamespace OPERATOR(pg_catalog.=) '" AB_SCHEMA "'::pg_catalog.regnamespace "
						   "AND c.relkind OPERATOR(pg_catalog.=) 'r' AND (c.relrowsecurity OR c.relforcerowsecurity "
						   "OR NOT EXISTS (SELECT FROM pg_catalog.pg_index i "
						   "WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisvalid) "
						   "OR c.relname OPERATOR(pg_catalog.=) '" AB_STORES "' AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t "
						   "WHERE t.tgrelid OPERATOR(pg_catalog.=) c.oid AND t.tgname OPERATOR(pg_catalog.=) 'refuse_write'))"))
		ab_refuse_own_table(lfirst_oid(lc));
}

/*
 * Remove the store of a table that needs none any more.  If a logical replication slot
 * may still have to read it, it is left for ab_drop_retained_stores(), with a note on it.
 */
void
ab_end_store(Oid relid)
{
	Oid			heap = ab_store_find(relid);

	if (!OidIsValid(heap))
		return;
	if (ab_store_awaited(heap))
		ab_store_record(relid, heap, GetTopFullTransactionId());
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
		ab_end_store(relid);
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

/* Does a publication name this table, its schema, or one that it is a partition of?  Takes no lock. */
static bool
named_by_publication(Oid relid)
{
	List	   *oids = list_make1_oid(relid);
	ListCell   *lc;

	if (get_rel_relispartition(relid))
		oids = list_concat(oids, get_partition_ancestors(relid));
	foreach(lc, oids)
	{
		CatCList   *tables = SearchSysCacheList1(PUBLICATIONRELMAP, ObjectIdGetDatum(lfirst_oid(lc)));
		CatCList   *schemas = SearchSysCacheList1(PUBLICATIONNAMESPACEMAP, ObjectIdGetDatum(get_rel_namespace(lfirst_oid(lc))));
		bool		found = tables->n_members > 0 || schemas->n_members > 0;

		ReleaseSysCacheList(schemas);
		ReleaseSysCacheList(tables);
		if (found)
			return true;
	}
	return false;
}

/*
 * The tables with stores that a change of some publication may matter to.  Others are not
 * even looked at, which takes a lock on them: a publication of something else must not
 * wait for who rewrites a table of ours.
 */
static List *
published_tables(void)
{
	bool		all = query_oids("SELECT oid FROM pg_catalog.pg_publication WHERE puballtables") != NIL;
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, ab_store_list())
	{
		if (all || named_by_publication(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
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
		oids = published_tables();
	}
	else
		oids = query_oids("SELECT DISTINCT objid FROM pg_catalog.pg_event_trigger_ddl_commands() "
						  "WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass "
						  "AND object_type OPERATOR(pg_catalog.=) 'table'");
	foreach(lc, oids)
	{
		if (!publication)
		{
			if (get_rel_namespace(lfirst_oid(lc)) == ab_schema_oid())
				refuse_own_changed();
			ab_relation_changed(lfirst_oid(lc));
			ab_refuse_hidden_default(lfirst_oid(lc));
			drop_unused_store(lfirst_oid(lc));
		}
		match_stores(lfirst_oid(lc));
	}
	PG_RETURN_NULL();
}

/*
 * Remove stores that ab_end_store() left, if all slots have passed the transaction that did:
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
				ab_end_store(relid);
		}
		else if ((U64FromFullTransactionId(dropped_by) + PG_INT32_MAX < now ||
				  ab_slots_passed(XidFromFullTransactionId(dropped_by))) && !store_in_use(relid))
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
		ab_end_store(lfirst_oid(lc));
	if (query_oids("SELECT objid FROM pg_catalog.pg_event_trigger_dropped_objects() "
				   "WHERE '" AB_SCHEMA "' OPERATOR(pg_catalog.=) ANY (ARRAY[schema_name, address_names[1]]) "
				   "AND object_type OPERATOR(pg_catalog.=) ANY (ARRAY['index', 'trigger'])") != NIL)
		refuse_own_changed();
	PG_RETURN_NULL();
}

/*-------------------------------------------------------------------------
 *
 * store_match.c
 *	  Keep a chunk store like its table.
 *
 * A store has its table's persistence, tablespace and vacuum settings, and is vacuumed
 * with it: what TOAST tables get from ALTER TABLE and VACUUM.  Called at the end of a
 * command that altered the table (ddl/command.c), and by VACUUM through the access method.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/event_trigger.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "store/store.h"

/* The owner of the stores' schema, who owns the stores. */
Oid
ab_schema_owner(void)
{
	return GetSysCacheOid1(NAMESPACEOID, Anum_pg_namespace_nspowner, ObjectIdGetDatum(ab_schema_oid()));
}

/*
 * The storage parameters that the store of a table must have: those of the table that are
 * about vacuum, and the mark that has vacuum wait for logical replication slots.
 */
Datum
ab_store_options(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	List	   *result = list_make1(makeDefElem("user_catalog_table", (Node *) makeString("true"), -1));
	bool		isnull;
	Datum		options;
	ListCell   *lc;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (!isnull)
	{
		foreach(lc, untransformRelOptions(options))
		{
			if (strstr(((DefElem *) lfirst(lc))->defname, "vacuum_") != NULL)
				result = lappend(result, lfirst(lc));
		}
	}
	options = transformRelOptions((Datum) 0, result, NULL, NULL, false, false);
	ReleaseSysCache(tuple);
	return options;
}

/* Lock a relation, and change a column of its row in pg_class. */
void
ab_set_class_column(Oid relid, LOCKMODE mode, AttrNumber column, Datum value, bool isnull)
{
	Relation	catalog;
	HeapTuple	tuple;
	Datum		values[Natts_pg_class] = {0};
	bool		nulls[Natts_pg_class] = {0};
	bool		replace[Natts_pg_class] = {0};

	LockRelationOid(relid, mode);
	catalog = table_open(RelationRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	values[column - 1] = value;
	nulls[column - 1] = isnull;
	replace[column - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replace);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

/*
 * ALTER TABLE on a store or its index, as its owner: the user owns the table only.
 * An error ends the transaction or subtransaction, which restores the user.
 */
static void
alter_store(Oid relid, AlterTableType subtype, const char *name)
{
	AlterTableCmd *cmd = makeNode(AlterTableCmd);
	Oid			user;
	int			security;

	cmd->subtype = subtype;
	cmd->name = name ? pstrdup(name) : NULL;
	cmd->behavior = DROP_RESTRICT;
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(ab_schema_owner(), security | SECURITY_LOCAL_USERID_CHANGE);

	/* not part of the command that event triggers are called for */
	EventTriggerInhibitCommandCollection();
	PG_TRY();
	{
		AlterTableInternal(relid, list_make1(cmd), false);
	}
	PG_FINALLY();
	{
		EventTriggerUndoInhibitCommandCollection();
	}
	PG_END_TRY();
	SetUserIdAndSecContext(user, security);
	CommandCounterIncrement();
}

/* Give a store its table's persistence, which rewrites it. */
static void
set_persistence(Oid heap, Oid relid, char persistence)
{
	/* a rewrite loses chunks that are deleted */
	if (ab_slots_exist())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("chunk store of table \"%s\" cannot be rewritten while logical replication slots exist",
						get_rel_name(relid)),
				 errhint("Drop the slots of this database first.")));

	/*
	 * the server rewrites no user catalog table: ab_store_match() sets that
	 * again
	 */
	ab_set_class_column(heap, AccessExclusiveLock, Anum_pg_class_reloptions, (Datum) 0, true);
	alter_store(heap, persistence == RELPERSISTENCE_PERMANENT ? AT_SetLogged : AT_SetUnLogged, NULL);
}

/* Move a store and its indexes to a tablespace; 0: the database's. */
static void
set_tablespace(Oid heap, Oid tablespace)
{
	char	   *name = get_tablespace_name(OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace);
	Relation	rel = relation_open(heap, AccessExclusiveLock);
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	relation_close(rel, NoLock);
	alter_store(heap, AT_SetTableSpace, name);
	foreach(lc, indexes)
		alter_store(lfirst_oid(lc), AT_SetTableSpace, name);
}

/*
 * Make the store of a table, if it has one, like the table.  The caller holds a lock on
 * the table that keeps others from altering it.
 */
void
ab_store_match(Oid relid)
{
	Oid			heap = ab_store_find(relid);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(heap));
	const char	persistence = get_rel_persistence(relid);
	const Oid	tablespace = get_rel_tablespace(relid);
	Form_pg_class store;
	bool		isnull;
	Datum		options;
	Datum		wanted;

	if (!HeapTupleIsValid(tuple))
		return;
	store = (Form_pg_class) GETSTRUCT(tuple);
	options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (store->relpersistence != persistence)
	{
		set_persistence(heap, relid, persistence);
		isnull = true;
	}
	/* ALTER TABLE ALL IN TABLESPACE also moves stores, but no indexes */
	if (store->reltablespace != tablespace ||
		get_rel_tablespace(get_relname_relid(psprintf("%s_index", NameStr(store->relname)), store->relnamespace)) != tablespace)
		set_tablespace(heap, tablespace);
	wanted = ab_store_options(relid);
	if (store->relrewrite != relid)
		ab_store_mark(heap, relid);
	if (isnull || !datumIsEqual(PointerGetDatum(PG_DETOAST_DATUM(options)), wanted, false, -1))
		ab_set_class_column(heap, ShareUpdateExclusiveLock, Anum_pg_class_reloptions, wanted, false);
}

/*
 * VACUUM of a table also vacuums its store, as it does a TOAST table: in the same
 * transaction, as the table's owner, and unless PROCESS_TOAST is off.  That is how
 * autovacuum comes here, which visits stores by themselves.
 */
void
ab_store_vacuum(Oid relid, VacuumParams_compat params, BufferAccessStrategy strategy)
{
	Oid			heap;
	Relation	rel;

	if ((params->options & VACOPT_PROCESS_TOAST) == 0 ||
		!OidIsValid(heap = ab_store_find(relid)))
		return;
	if ((params->options & VACOPT_SKIP_LOCKED) == 0)
		LockRelationOid(heap, ShareUpdateExclusiveLock);
	else if (!ConditionalLockRelationOid(heap, ShareUpdateExclusiveLock))
	{
		ereport(WARNING,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("skipping vacuum of \"%s\" --- lock not available", get_rel_name(heap))));
		return;
	}
	rel = try_relation_open(heap, NoLock);
	if (rel == NULL)
		return;
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		table_relation_vacuum(rel, params, strategy);
	relation_close(rel, NoLock);
}

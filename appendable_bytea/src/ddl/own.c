/*-------------------------------------------------------------------------
 *
 * own.c
 *	  The extension's own objects stay what and where they are.
 *
 * The type, the access method's handler, the schema of the stores and their catalog are
 * found by their names, stores by what the catalog says, and values are read through
 * them: a superuser could rename, move or alter each (a member of an extension may be),
 * and every value would be out of reach.  Called by hook.c when an object was altered,
 * made or dropped, and by the event trigger for dropped objects; each function raises an
 * error or does nothing.
 *
 * What may change is who owns them, where their files are, and settings of their storage
 * but for the mark that has vacuum wait for logical decoding.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"
#include "store.h"

static void
refuse_change(const char *what, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot alter %s \"%s\" because extension \"%s\" requires it as it is",
					what, name, AB_EXTENSION),
			 errhint("Values of type %s are read through it.", AB_EXTENSION)));
}

/* A copy of a catalog row that may not be visible yet, found by its OID, or NULL. */
HeapTuple
ab_catalog_row(Oid catalog, Oid index, AttrNumber oid_column, Oid objid)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	ScanKeyData key[1];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], oid_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(objid));
	scan = systable_beginscan(rel, index, true, SnapshotSelf, 1, key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tuple;
}

/* The row of an object as a command has left it: the catalog caches still have what was before. */
static void *
row_after(Oid catalog, Oid index, AttrNumber oid_column, Oid objid)
{
	HeapTuple	tuple = ab_catalog_row(catalog, index, oid_column, objid);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "object %u is not in catalog %u", objid, catalog);
	return GETSTRUCT(tuple);
}

/* A table got something that would change what writes to it or reads from it do. */
static void
refuse_for_own_table(Oid relid)
{
	if (get_rel_namespace(relid) == ab_schema_oid())
		refuse_change("table", get_rel_name(relid));
}

static void
type_altered(Oid typid)
{
	HeapTuple	old = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	FormData_pg_type before;
	FormData_pg_type after;

	if (!HeapTupleIsValid(old))
		elog(ERROR, "cache lookup failed for type %u", typid);
	memcpy(&before, GETSTRUCT(old), sizeof(before));
	ReleaseSysCache(old);
	memcpy(&after, row_after(TypeRelationId, TypeOidIndexId, Anum_pg_type_oid, typid), sizeof(after));
	after.typowner = before.typowner;
	if (memcmp(&before, &after, sizeof(before)) != 0)
		refuse_change("type", NameStr(before.typname));
}

static void
schema_altered(Oid schema)
{
	Form_pg_namespace after = row_after(NamespaceRelationId, NamespaceOidIndexId,
										Anum_pg_namespace_oid, schema);

	if (strcmp(NameStr(after->nspname), AB_SCHEMA) != 0)
		refuse_change("schema", AB_SCHEMA);
}

static void
function_altered(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(ab_am_oid()));
	bool		handler;
	Form_pg_proc after;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for access method %u", ab_am_oid());
	handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler == function;
	ReleaseSysCache(tuple);
	if (!handler)
		return;
	after = row_after(ProcedureRelationId, ProcedureOidIndexId, Anum_pg_proc_oid, function);
	if (after->pronamespace != get_func_namespace(function))
		refuse_change("function", get_func_name(function));
}

/* Does a row of pg_class say that logical decoding reads the table? */
static bool
is_decodable(HeapTuple class)
{
	Relation	rel = table_open(RelationRelationId, AccessShareLock);
	bytea	   *options = extractRelOptions(class, RelationGetDescr(rel), NULL);

	table_close(rel, AccessShareLock);
	return options != NULL && ((StdRdOptions *) options)->user_catalog_table;
}

/* A store, its index, the catalog of stores, or a column of one of them (subid). */
static void
store_altered(Oid relid, int subid)
{
	HeapTuple	old = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	HeapTuple	new;
	FormData_pg_class before;
	FormData_pg_class after;
	const char *what;
	bool		decodable;

	/* not there before the command: it is being made */
	if (!HeapTupleIsValid(old))
		return;
	memcpy(&before, GETSTRUCT(old), sizeof(before));
	decodable = before.relnamespace == ab_schema_oid() &&
		before.relkind == RELKIND_RELATION && is_decodable(old);
	ReleaseSysCache(old);
	if (before.relnamespace != ab_schema_oid())
		return;
	what = before.relkind == RELKIND_RELATION ? "table" : "index";
	if (subid != 0)
		refuse_change(what, NameStr(before.relname));
	new = ab_catalog_row(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid);
	if (!HeapTupleIsValid(new))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	memcpy(&after, GETSTRUCT(new), sizeof(after));
	if (decodable && !is_decodable(new) && !ab_store_matching)
		refuse_change(what, NameStr(before.relname));
	heap_freetuple(new);
	after.relowner = before.relowner;
	after.reltablespace = before.reltablespace;
	after.relfilenode = before.relfilenode;
	if (memcmp(&before, &after, sizeof(before)) != 0)
		refuse_change(what, NameStr(before.relname));
}

/* A table was altered in a way of which not every server version tells: row security. */
void
ab_refuse_own_row_security(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class row;

	if (!HeapTupleIsValid(tuple))
		return;
	row = (Form_pg_class) GETSTRUCT(tuple);
	if (row->relnamespace == ab_schema_oid() && (row->relrowsecurity || row->relforcerowsecurity))
		refuse_change("table", NameStr(row->relname));
	ReleaseSysCache(tuple);
}

/* What values are read through is part of the extension. */
static void
extension_altered(Oid extension)
{
	if (extension != get_extension_oid(AB_EXTENSION, true))
		return;
	CommandCounterIncrement();
	for (int i = 0; i < AB_NTYPES; i++)
	{
		const AbType *type = &ab_types()[i];

		if (OidIsValid(type->oid) && getExtensionOfObject(TypeRelationId, type->oid) != extension)
			refuse_change("type", type->name);
	}
	if (getExtensionOfObject(AccessMethodRelationId, ab_am_oid()) != extension)
		refuse_change("access method", AB_AM);
	if (getExtensionOfObject(NamespaceRelationId, ab_schema_oid()) != extension)
		refuse_change("schema", AB_SCHEMA);
	if (getExtensionOfObject(RelationRelationId, ab_stores_oid()) != extension)
		refuse_change("table", AB_STORES);
}

/* An object was altered, a column was added to a relation, or a trigger or rule was made; of inheritance both tables. */
void
ab_refuse_own_altered(Oid classid, Oid objid, int subid)
{
	if (creating_extension)
		return;
	if (classid == RelationRelationId)
		store_altered(objid, subid);
	else if (classid == TypeRelationId && ab_type_of(objid) != NULL)
		type_altered(objid);
	else if (classid == NamespaceRelationId && objid == ab_schema_oid())
		schema_altered(objid);
	else if (classid == ProcedureRelationId)
		function_altered(objid);
	else if (classid == ExtensionRelationId)
		extension_altered(objid);
	else if (classid == TriggerRelationId)
		refuse_for_own_table(((Form_pg_trigger) row_after(TriggerRelationId, TriggerOidIndexId,
														  Anum_pg_trigger_oid, objid))->tgrelid);
	else if (classid == RewriteRelationId)
		refuse_for_own_table(((Form_pg_rewrite) row_after(RewriteRelationId, RewriteOidIndexId,
														  Anum_pg_rewrite_oid, objid))->ev_class);
	else if (classid == InheritsRelationId)
		refuse_for_own_table(objid);
}

/* Does SQL still not write to the catalog of stores? */
static bool
refuses_writes(Relation catalog)
{
	for (int i = 0; catalog->trigdesc && i < catalog->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &catalog->trigdesc->triggers[i];
		const char *function = get_func_name(trigger->tgfoid);

		if (trigger->tgenabled == TRIGGER_FIRES_ALWAYS && function &&
			strcmp(function, "appendable_bytea_refuse_write") == 0 &&
			getExtensionOfObject(ProcedureRelationId, trigger->tgfoid) == get_extension_oid(AB_EXTENSION, true))
			return true;
	}
	return false;
}

static bool
has_index(Relation rel)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		if (get_index_isvalid(lfirst_oid(lc)))
			return true;
	}
	return false;
}

/* Indexes or triggers in the schema of the stores were dropped: are they still needed? */
void
ab_refuse_own_dropped(void)
{
	Relation	catalog = table_open(ab_stores_oid(), AccessShareLock);
	ListCell   *lc;

	if (!refuses_writes(catalog) || !has_index(catalog))
		refuse_change("table", AB_STORES);
	table_close(catalog, AccessShareLock);
	foreach(lc, ab_store_list())
	{
		Oid			relid = lfirst_oid(lc);
		Oid			heap = ab_store_find(relid);
		Relation	store = OidIsValid(heap) ? try_relation_open(heap, AccessShareLock) : NULL;

		if (store && !has_index(store))
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop the index of the chunk store of table \"%s\"",
							get_rel_name(relid)),
					 errhint("Use REINDEX to rebuild it.")));
		if (store)
			table_close(store, AccessShareLock);
	}
}

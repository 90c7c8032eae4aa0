/*-------------------------------------------------------------------------
 *
 * own.c
 *	  The extension's own objects stay what and where they are.
 *
 * The type, the access method's handler, the schema of the stores and their catalog are
 * found by their names, stores by what the catalog says, and values are read through them: a superuser could rename,
 * move or alter each (a member of an extension may be), and every value would be out
 * of reach.  Called by hook.c when an object was altered, made or dropped, and by the
 * event trigger for dropped objects; each function raises an error or does nothing.
 *
 * What may change is who owns them and where their files are.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
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

/* The catalog caches still have the row as it was before the command. */
static void
type_altered(Oid typid)
{
	HeapTuple	old = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	HeapTuple	new = ab_catalog_row(TypeRelationId, TypeOidIndexId, Anum_pg_type_oid, typid);
	FormData_pg_type before;
	FormData_pg_type after;

	if (!HeapTupleIsValid(old) || !HeapTupleIsValid(new))
		elog(ERROR, "cache lookup failed for type %u", typid);
	memcpy(&before, GETSTRUCT(old), sizeof(before));
	memcpy(&after, GETSTRUCT(new), sizeof(after));
	ReleaseSysCache(old);
	heap_freetuple(new);
	after.typowner = before.typowner;
	if (memcmp(&before, &after, sizeof(before)) != 0)
		refuse_change("type", NameStr(before.typname));
}

static void
schema_altered(Oid schema)
{
	HeapTuple	new = ab_catalog_row(NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid, schema);

	if (!HeapTupleIsValid(new))
		elog(ERROR, "cache lookup failed for schema %u", schema);
	if (strcmp(NameStr(((Form_pg_namespace) GETSTRUCT(new))->nspname), AB_SCHEMA) != 0)
		refuse_change("schema", AB_SCHEMA);
	heap_freetuple(new);
}

static void
function_altered(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(ab_am_oid()));
	bool		handler;
	HeapTuple	new;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for access method %u", ab_am_oid());
	handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler == function;
	ReleaseSysCache(tuple);
	if (!handler)
		return;
	new = ab_catalog_row(ProcedureRelationId, ProcedureOidIndexId, Anum_pg_proc_oid, function);
	if (!HeapTupleIsValid(new))
		elog(ERROR, "cache lookup failed for function %u", function);
	if (((Form_pg_proc) GETSTRUCT(new))->pronamespace != get_func_namespace(function))
		refuse_change("function", get_func_name(function));
	heap_freetuple(new);
}

/* A store, its index, or a column of one of them (subid). */
static void
store_altered(Oid relid, int subid)
{
	HeapTuple	old = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	HeapTuple	new;
	FormData_pg_class before;
	FormData_pg_class after;
	const char *what;

	/* not there before the command: it is being made */
	if (!HeapTupleIsValid(old))
		return;
	memcpy(&before, GETSTRUCT(old), sizeof(before));
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
	heap_freetuple(new);
	after.relowner = before.relowner;
	after.reltablespace = before.reltablespace;
	after.relfilenode = before.relfilenode;
	if (memcmp(&before, &after, sizeof(before)) != 0)
		refuse_change(what, NameStr(before.relname));
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

/* An object was altered, or a column was added to a relation. */
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
}

static bool
has_index(Oid heap)
{
	Relation	rel = table_open(heap, AccessShareLock);
	bool		result = RelationGetIndexList(rel) != NIL;

	table_close(rel, AccessShareLock);
	return result;
}

/* Objects were dropped, an index of a store among them: does the store still need it? */
void
ab_refuse_own_dropped(void)
{
	ListCell   *lc;

	foreach(lc, ab_store_list())
	{
		Oid			home = lfirst_oid(lc);
		Oid			heap = ab_store_find(home);

		if (OidIsValid(heap) && !has_index(heap))
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop the index of the chunk store of table \"%s\"",
							get_rel_name(home)),
					 errhint("Use REINDEX to rebuild it.")));
	}
}

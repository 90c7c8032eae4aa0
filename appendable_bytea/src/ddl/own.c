/*-------------------------------------------------------------------------
 *
 * own.c
 *	  The extension's own objects stay what and where they are.
 *
 * The types, the access method's handler, the schema of the stores and their catalog are
 * found by their names, stores by what the catalog says and kept like their tables by event
 * triggers, and values are read through them: a superuser could rename, move or alter each
 * (a member of an extension may be), and every value would be out of reach.  Called by hook.c
 * when an object was altered, made or dropped, and by the event triggers; each function
 * raises an error or does nothing.
 *
 * What may change is who owns them, where their files are, and settings of their storage
 * but for the mark that has vacuum wait for logical decoding.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/objectaccess.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_event_trigger.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"
#include "store.h"

static void
refuse_change(Oid classid, Oid objid)
{
	ObjectAddress object = {classid, objid, 0};
	int			cache = get_object_catcache_oid(classid);
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(objid));
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "object %u is not in catalog %u", objid, classid);
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot alter %s \"%s\" because extension \"%s\" requires it as it is",
					getObjectTypeDescription(&object, false),
					NameStr(*DatumGetName(SysCacheGetAttr(cache, tuple, get_object_attnum_name(classid), &isnull))),
					AB_EXTENSION),
			 errhint("Values of type %s are read through it.", AB_EXTENSION)));
}

/* The row of an object as a command has left it. */
static void *
row_after(Oid catalog, Oid objid)
{
	HeapTuple	tuple = ab_catalog_row(catalog, objid, SnapshotSelf);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "object %u is not in catalog %u", objid, catalog);
	return GETSTRUCT(tuple);
}

/* A table got or lost something that would change what writes to it or reads from it do. */
void
ab_refuse_own_table(Oid relid)
{
	if (get_rel_namespace(relid) == ab_schema_oid())
		refuse_change(RelationRelationId, relid);
}

/* Is an object, as it was before the command, one that values are read through? */
static bool
is_own(Oid classid, Oid objid)
{
	switch (classid)
	{
		case RelationRelationId:
			return OidIsValid(ab_schema_oid()) && get_rel_namespace(objid) == ab_schema_oid();
		case TypeRelationId:
			return ab_type_of(objid) != NULL;
		case NamespaceRelationId:
			return objid == ab_schema_oid();
		case ProcedureRelationId:
			return objid == GetSysCacheOid1(AMOID, Anum_pg_am_amhandler, ObjectIdGetDatum(ab_am_oid()));
		case EventTriggerRelationId:
			/* the one that loads the library for clients keeps nothing */
			return getExtensionOfObject(classid, objid) == get_extension_oid(AB_EXTENSION, true) &&
				strcmp(NameStr(((Form_pg_event_trigger) row_after(classid, objid))->evtevent), "login") != 0;
		default:
			return false;
	}
}

/* May a command have changed this column of an object's row in its catalog? */
static bool
may_change(Oid classid, AttrNumber attnum)
{
	return attnum == get_object_attnum_owner(classid) || attnum == get_object_attnum_acl(classid) ||
		(classid == RelationRelationId &&
		 (attnum == Anum_pg_class_reltablespace || attnum == Anum_pg_class_relfilenode ||
		  attnum == Anum_pg_class_reloptions));
}

/* Was a relation given another file, as by a move to another tablespace? */
static bool
has_new_file(HeapTuple before, HeapTuple after)
{
	return ((Form_pg_class) GETSTRUCT(before))->relfilenode != ((Form_pg_class) GETSTRUCT(after))->relfilenode;
}

/* An object of ours was altered: is it what it was? */
static void
own_altered(Oid classid, Oid objid)
{
	Relation	catalog = table_open(classid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(catalog);
	HeapTuple	before = SearchSysCache1(get_object_catcache_oid(classid), ObjectIdGetDatum(objid));
	HeapTuple	after = ab_catalog_row(classid, objid, SnapshotSelf);
	bool		changed;

	if (!HeapTupleIsValid(before) || !HeapTupleIsValid(after))
		elog(ERROR, "object %u is not in catalog %u", objid, classid);
	changed = classid == RelationRelationId && !ab_store_matching &&
		ab_is_decodable(before) && !ab_is_decodable(after);
	if (classid == RelationRelationId && !ab_store_matching && has_new_file(before, after))
		ab_refuse_awaited(get_rel_relkind(objid) == RELKIND_INDEX ? IndexGetRelation(objid, false) : objid);
	for (AttrNumber n = 1; n <= desc->natts && !changed; n++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, n - 1);
		bool		was_null;
		bool		isnull;
		Datum		was = heap_getattr(before, n, desc, &was_null);
		Datum		is = heap_getattr(after, n, desc, &isnull);

		changed = !may_change(classid, n) &&
			(was_null != isnull || (!isnull && !datumIsEqual(was, is, att->attbyval, att->attlen)));
	}
	if (changed)
		refuse_change(classid, objid);
	ReleaseSysCache(before);
	heap_freetuple(after);
	table_close(catalog, AccessShareLock);
}

static void
require_member(Oid extension, Oid classid, Oid objid)
{
	if (OidIsValid(objid) && getExtensionOfObject(classid, objid) != extension)
		refuse_change(classid, objid);
}

/* What values are read through is part of the extension. */
static void
extension_altered(Oid extension)
{
	ListCell   *lc;

	if (extension != get_extension_oid(AB_EXTENSION, true))
		return;
	CommandCounterIncrement();
	for (int i = 0; i < AB_NTYPES; i++)
		require_member(extension, TypeRelationId, ab_types()[i].oid);
	require_member(extension, AccessMethodRelationId, ab_am_oid());
	require_member(extension, NamespaceRelationId, ab_schema_oid());
	require_member(extension, RelationRelationId, ab_stores_oid());
	foreach(lc, ab_store_list())
		require_member(extension, RelationRelationId, ab_store_find(lfirst_oid(lc)));
}

/* An object was altered, a column was added to a relation, or a trigger or rule was made; of inheritance both tables. */
void
ab_refuse_own_altered(Oid classid, Oid objid, int subid)
{
	if (creating_extension)
		return;
	if (is_own(classid, objid))
	{
		if (subid != 0)
			ab_refuse_own_table(objid);
		own_altered(classid, objid);
	}
	else if (classid == ExtensionRelationId)
		extension_altered(objid);
	else if (classid == TriggerRelationId)
		ab_refuse_own_table(((Form_pg_trigger) row_after(classid, objid))->tgrelid);
	else if (classid == RewriteRelationId)
		ab_refuse_own_table(((Form_pg_rewrite) row_after(classid, objid))->ev_class);
	else if (classid == InheritsRelationId)
		ab_refuse_own_table(objid);
}

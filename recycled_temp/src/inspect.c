/*-------------------------------------------------------------------------
 *
 * inspect.c
 *	  Is a table as CREATE TABLE makes it, and of which shape?
 *
 * inspect_table() reads the catalogs as the current transaction sees them.  It is
 * called when a table is dropped, and again when a pooled table is about to be
 * used: commands, other sessions, or functions that change catalogs directly may
 * have touched it since.  Nothing that was remembered is trusted.  Whatever is
 * not known here makes a table unusual, and the server drops it.
 *
 * All objects that depend on a table are found in pg_depend, by the table, its
 * TOAST table, its two types, its constraints and its indexes; a few objects are
 * expected, and anything else is unusual.  So are the objects on which these parts
 * depend.  parts.c has the rules for each kind of part.  Comments, labels, privileges, options
 * and statistics have no rows there and are looked up.  Columns are read from the
 * catalog cache, because a relation's descriptor lacks some of their properties.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/toast_compression.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_seclabel.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat_catalog.h"
#include "compat_storage.h"
#include "inspect.h"

/* Does nothing depend on an object but one part of it? */
static bool
only_part(ObjectRows *depend, Oid class, Oid object, Oid part_class, Oid part)
{
	ObjectRow  *row;
	bool		only = object_rows_start(depend, class, object);

	while (only && (row = object_rows_next(depend)) != NULL)
		only = OidIsValid(part) && row->depend.deptype == DEPENDENCY_INTERNAL && row->depend.classid == part_class &&
			row->depend.objid == part && row->depend.refobjsubid == 0;
	return only;
}

/* Does an object depend on one other object only, in this way? */
static bool
depends_only_on(ObjectRows *depend, Oid class, Oid object, Oid on_class, Oid on, char deptype)
{
	ObjectRow  *row;
	bool		only = object_rows_start(depend, class, object);

	while (only && (row = object_rows_next(depend)) != NULL)
		only = row->depend.refclassid == on_class && row->depend.refobjid == on && row->depend.deptype == deptype;
	return only;
}

/* The objects that depend on the table: its own parts, and others for the caller to judge. */
static bool
dependents_of_table(ObjectRows *depend, RecycledTable *table, List **constraints)
{
	ObjectRow  *row;

	if (!object_rows_start(depend, RelationRelationId, table->relid))
		return false;
	while ((row = object_rows_next(depend)) != NULL)
	{
		Form_pg_depend form = &row->depend;

		if (form->deptype == DEPENDENCY_INTERNAL && form->refobjsubid == 0 &&
			((form->classid == TypeRelationId && form->objid == table->rowtype) ||
			 (form->classid == RelationRelationId && form->objid == table->toast)))
			continue;
		if (form->deptype != DEPENDENCY_AUTO)
			return false;
		if (form->classid == ConstraintRelationId)
			*constraints = list_append_unique_oid(*constraints, form->objid);
		else if (form->classid == AttrDefaultRelationId)
			table->attrdefs = list_append_unique_oid(table->attrdefs, form->objid);
		else if (form->classid == RelationRelationId && get_rel_relkind(form->objid) == RELKIND_INDEX)
			table->indexes = list_append_unique_oid(table->indexes, form->objid);
		else
			return false;
	}
	return true;
}

/* The index of the TOAST table, on which nothing else depends; or none. */
static Oid
index_of_toast(ObjectRows *depend, Oid toast)
{
	ObjectRow  *row;
	Oid			index = InvalidOid;

	if (!object_rows_start(depend, RelationRelationId, toast))
		return InvalidOid;
	while ((row = object_rows_next(depend)) != NULL)
	{
		if (row->depend.deptype != DEPENDENCY_AUTO || row->depend.classid != RelationRelationId ||
			(OidIsValid(index) && index != row->depend.objid))
			return InvalidOid;
		index = row->depend.objid;
	}
	return index;
}

/*
 * Do the table and its parts depend only on each other and the schema?  Types
 * are pinned, and the owner is in pg_shdepend.  An extension may have been given the
 * table, one of its types or an index.
 */
static bool
depend_on_nothing_else(ObjectRows *depend, RecycledTable *table, Oid schema)
{
	ListCell   *lc;
	bool		plain;

	object_rows_by(depend, DependDependerIndexId);
	plain = depends_only_on(depend, RelationRelationId, table->relid, NamespaceRelationId, schema, DEPENDENCY_NORMAL);
	foreach(lc, table->keys)
	{
		RecycledKey *key = lfirst(lc);

		plain = plain && depends_only_on(depend, RelationRelationId, key->index, ConstraintRelationId, key->constraint, DEPENDENCY_INTERNAL);
	}
	plain = plain &&
		depends_only_on(depend, TypeRelationId, table->rowtype, RelationRelationId, table->relid, DEPENDENCY_INTERNAL) &&
		depends_only_on(depend, TypeRelationId, table->arraytype, TypeRelationId, table->rowtype, DEPENDENCY_INTERNAL);
	foreach(lc, table->attrdefs)
		plain = plain && depends_only_on(depend, AttrDefaultRelationId, lfirst_oid(lc), RelationRelationId, table->relid, DEPENDENCY_AUTO);
	return plain;
}

RelFileLocator_compat
inspect_locator(Form_pg_class form)
{
	return MakeLocator_compat(form->reltablespace ? form->reltablespace : MyDatabaseTableSpace,
							  MyDatabaseId, form->relfilenode);
}

BlockNumber
inspect_blocks(Form_pg_class form)
{
	return smgrnblocks(smgropen(inspect_locator(form), TempFileOwner_compat()), MAIN_FORKNUM);
}

/* ---- the parts ---- */

/* Are the flags of a pg_class row those of a new table? */
static bool
plain_class(HeapTuple row)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(row);

	return form->relkind == RELKIND_RELATION && form->relpersistence == RELPERSISTENCE_TEMP &&
		isTempNamespace(form->relnamespace) && form->relam == HEAP_TABLE_AM_OID && OidIsValid(form->relfilenode) &&
		OidIsValid(form->reltype) && !OidIsValid(form->reloftype) && !form->relisshared && form->relchecks == 0 &&
		!form->relhasrules && !form->relhastriggers && !form->relhassubclass && !form->relrowsecurity &&
		!form->relforcerowsecurity && form->relispopulated && form->relreplident == REPLICA_IDENTITY_DEFAULT &&
		!form->relispartition && !OidIsValid(form->relrewrite) &&
		heap_attisnull(row, Anum_pg_class_relacl, NULL) && heap_attisnull(row, Anum_pg_class_reloptions, NULL) &&
		heap_attisnull(row, Anum_pg_class_relpartbound, NULL);
}

/* System columns have privileges, and nothing else that can be changed. */
static bool
plain_system_columns(Oid relid)
{
	bool		plain = true;

	for (int i = FirstLowInvalidHeapAttributeNumber + 1; plain && i < 0; i++)
	{
		HeapTuple	row = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(i));

		plain = HeapTupleIsValid(row) && heap_attisnull(row, Anum_pg_attribute_attacl, NULL);
		if (HeapTupleIsValid(row))
			ReleaseSysCache(row);
	}
	return plain;
}

/* Are the columns as those of a new table?  Appends them to the shape. */
static bool
plain_columns(RecycledTable *table, int natts, int *notnull_count, int *default_count)
{
	Oid			type = InvalidOid;
	char		storage = 0;

	if (!plain_system_columns(table->relid))
		return false;
	for (int i = 1; i <= natts; i++)
	{
		HeapTuple	row = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table->relid), Int16GetDatum(i));
		Form_pg_attribute form;
		bool		plain;

		if (!HeapTupleIsValid(row))
			return false;
		form = (Form_pg_attribute) GETSTRUCT(row);
		if (form->atttypid != type)
		{
			type = form->atttypid;
			storage = get_typstorage(type);
		}
		plain = !form->attisdropped && form->atttypid < FirstUnpinnedObjectId && !form->attidentity &&
			!form->attgenerated && !form->atthasmissing && form->attislocal &&
			form->attinhcount == 0 && form->attcompression == InvalidCompressionMethod &&
			form->attcollation < FirstUnpinnedObjectId &&
			form->attstorage == storage && !HasStatisticsTarget_compat(row) &&
			heap_attisnull(row, Anum_pg_attribute_attacl, NULL) &&
			heap_attisnull(row, Anum_pg_attribute_attfdwoptions, NULL) && !HasColumnOptions_compat(row);
		if (plain)
			shape_column(&table->shape, NameStr(form->attname), form->atttypid, form->atttypmod,
						 form->attcollation, form->attndims, form->attnotnull, form->atthasdef);
		if (form->attnotnull)
			(*notnull_count)++;
		if (form->atthasdef)
			(*default_count)++;
		ReleaseSysCache(row);
		if (!plain)
			return false;
	}
	return true;
}

static int
compare_keys(const ListCell *a, const ListCell *b)
{
	Oid			first = ((RecycledKey *) lfirst(a))->index;
	Oid			second = ((RecycledKey *) lfirst(b))->index;

	return first < second ? -1 : first > second;
}

static bool
has_comment(ObjectRows *rows, Oid class, Oid object)
{
	return !object_rows_start(rows, class, object) || object_rows_next(rows) != NULL;
}

/* Comments or labels. */
static bool
has_comments(RecycledTable *table, Oid catalog, Oid index)
{
	ObjectRows	rows;
	bool		found;
	ListCell   *lc;

	object_rows_open(&rows, catalog, index);
	found = has_comment(&rows, RelationRelationId, table->relid) || has_comment(&rows, TypeRelationId, table->rowtype) ||
		has_comment(&rows, TypeRelationId, table->arraytype) ||
		(OidIsValid(table->toast) && (has_comment(&rows, RelationRelationId, table->toast) ||
									  has_comment(&rows, RelationRelationId, table->toast_index)));
	foreach(lc, table->keys)
	{
		RecycledKey *key = lfirst(lc);

		found = found || has_comment(&rows, RelationRelationId, key->index) ||
			has_comment(&rows, ConstraintRelationId, key->constraint);
	}
	foreach(lc, table->notnulls)
		found = found || has_comment(&rows, ConstraintRelationId, ((RecycledKey *) lfirst(lc))->constraint);
	object_rows_close(&rows);
	return found;
}

/* Labels need a provider, so the catalog is nearly always empty. */
static bool
has_labels(RecycledTable *table)
{
	Relation	rel = table_open(SecLabelRelationId, AccessShareLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);

	table_close(rel, AccessShareLock);
	return blocks > 0 && has_comments(table, SecLabelRelationId, SecLabelObjectIndexId);
}

static bool
has_statistics(Oid relid)
{
	CatCList   *list = SearchSysCacheList1(STATRELATTINH, ObjectIdGetDatum(relid));
	bool		found = list->n_members > 0;

	ReleaseSysCacheList(list);
	return found;
}

/* Do only parts that CREATE TABLE makes depend on the table, and it on nothing else? */
static const char *
judge_dependents(RecycledTable *table, Form_pg_class form, bool pooled)
{
	ObjectRows	depend;
	List	   *constraints = NIL;
	ListCell   *lc;
	bool		plain;

	object_rows_open(&depend, DependRelationId, DependReferenceIndexId);
	plain = dependents_of_table(&depend, table, &constraints);
	if (plain && OidIsValid(table->toast))
	{
		table->toast_index = index_of_toast(&depend, table->toast);
		plain = plain_toast_index(table) &&
			only_part(&depend, RelationRelationId, table->toast_index, InvalidOid, InvalidOid);
	}
	foreach(lc, table->indexes)
		plain = plain && only_part(&depend, RelationRelationId, lfirst_oid(lc), InvalidOid, InvalidOid);
	foreach(lc, constraints)
		plain = plain && plain_constraint(table, lfirst_oid(lc), form, pooled);
	list_sort(table->keys, compare_keys);
	foreach(lc, table->keys)
	{
		RecycledKey *key = lfirst(lc);

		plain = plain && only_part(&depend, RelationRelationId, key->index, InvalidOid, InvalidOid);
		shape_key(&table->shape, key->primary, key->natts, key->columns);
	}
	plain = plain && only_part(&depend, TypeRelationId, table->rowtype, TypeRelationId, table->arraytype) &&
		only_part(&depend, TypeRelationId, table->arraytype, InvalidOid, InvalidOid);
	foreach(lc, table->keys)
	{
		RecycledKey *key = lfirst(lc);

		plain = plain && only_part(&depend, ConstraintRelationId, key->constraint, RelationRelationId, key->index);
	}
	foreach(lc, table->notnulls)
		plain = plain && only_part(&depend, ConstraintRelationId, ((RecycledKey *) lfirst(lc))->constraint, InvalidOid, InvalidOid);
	plain = plain && depend_on_nothing_else(&depend, table, form->relnamespace);
	object_rows_close(&depend);
	return plain ? NULL : "it depends on other objects or they on it, or it has an unusual constraint";
}

/*
 * Fill in "table".  Returns NULL if it is as CREATE TABLE makes it, apart from rows,
 * plain secondary indexes and gathered statistics, which the caller removes;
 * otherwise the reason why not.  The caller has locked the table.
 */
const char *
inspect_table(Oid relid, RecycledTable *table)
{
	Form_pg_class form;
	const char *why_not;
	int			notnull_count = 0;
	int			default_count = 0;
	bool		pooled;

	memset(table, 0, sizeof(*table));
	table->relid = relid;
	table->row = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(table->row))
		return "it does not exist";
	form = (Form_pg_class) GETSTRUCT(table->row);
	table->rowtype = form->reltype;
	table->file = inspect_locator(form);
	pooled = strcmp(NameStr(form->relname), pool_name(relid)) == 0;
	if (!plain_class(table->row))
		return "it has properties that a new table lacks";
	shape_begin(&table->shape, form->relowner, form->reltablespace);
	if (!plain_columns(table, form->relnatts, &notnull_count, &default_count))
		return "a column has properties that a new one lacks";
	if (!plain_types(table, form->relowner))
		return "its row type has properties that a new one lacks";
	if (!plain_toast(table, form))
		return "its TOAST table is large, old or has been changed";
	why_not = judge_dependents(table, form, pooled);
	if (why_not)
		return why_not;
	if (NOT_NULL_HAS_CONSTRAINT_compat && list_length(table->notnulls) != notnull_count)
		return "a NOT NULL constraint is unusual";
	if (default_count > 0)
		defaults_read(table);
	if (list_length(table->attrdefs) != default_count || list_length(table->defaults) != default_count)
		return "a default is unusual";
	if (table->keys && inspect_blocks(form) > (BlockNumber) recycled_keep_size)
		return "it is large and has a key";
	if (pooled && (form->relpages != 0 || form->reltuples != -1 || form->relallvisible != 0 || ClassAllFrozen_compat(form) != 0))
		return "a command has been over it";
	if (pooled && form->relhasindex != (table->keys != NIL))
		return "it had an index in the pool";
	if (has_comments(table, DescriptionRelationId, DescriptionObjIndexId) || has_labels(table))
		return "it has a comment or a label";
	table->has_statistics = has_statistics(relid);
	return NULL;
}

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
 * expected, and anything else is unusual.  Comments, labels, privileges, options
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
#include "access/tableam.h"
#include "access/toast_compression.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_seclabel.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat_catalog.h"
#include "compat_storage.h"
#include "recycled_temp.h"

/* A horizon may be this old before the server makes a new TOAST table. */
#define TOAST_HORIZON_MAX 10000000

/* The rows of a catalog that belong to one object after another. */
typedef struct ObjectScan
{
	Relation	catalog;
	Relation	index;
	Snapshot	snapshot;
	IndexScanDesc scan;
	TupleTableSlot *slot;
} ObjectScan;

static void
scan_use_index(ObjectScan *scan, Oid index)
{
	scan->index = index_open(index, AccessShareLock);
	scan->scan = index_beginscan_compat(scan->catalog, scan->index, scan->snapshot, 2);
}

static void
scan_open(ObjectScan *scan, Oid catalog, Oid index)
{
	scan->catalog = table_open(catalog, AccessShareLock);
	scan->slot = table_slot_create(scan->catalog, NULL);
	scan->snapshot = RegisterSnapshot(GetCatalogSnapshot(catalog));
	scan_use_index(scan, index);
}

static void
scan_start(ObjectScan *scan, Oid first, Oid second)
{
	ScanKeyData key[2];

	ScanKeyInit(&key[0], 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(first));
	ScanKeyInit(&key[1], 2, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(second));
	index_rescan(scan->scan, key, 2, NULL, 0);
}

/* The next row; valid until the next call. */
static void *
scan_next(ObjectScan *scan)
{
	bool		must_free;

	if (!index_getnext_slot(scan->scan, ForwardScanDirection, scan->slot))
		return NULL;
	return GETSTRUCT(ExecFetchSlotHeapTuple(scan->slot, false, &must_free));
}

static void
scan_leave_index(ObjectScan *scan)
{
	index_endscan(scan->scan);
	index_close(scan->index, AccessShareLock);
}

static void
scan_close(ObjectScan *scan)
{
	scan_leave_index(scan);
	UnregisterSnapshot(scan->snapshot);
	ExecDropSingleTupleTableSlot(scan->slot);
	table_close(scan->catalog, AccessShareLock);
}

/* Does nothing depend on an object but one part of it? */
static bool
only_part(ObjectScan *depend, Oid class, Oid object, Oid part_class, Oid part)
{
	Form_pg_depend form;
	bool		only = true;

	scan_start(depend, class, object);
	while (only && (form = scan_next(depend)) != NULL)
		only = OidIsValid(part) && form->deptype == DEPENDENCY_INTERNAL && form->classid == part_class &&
			form->objid == part && form->refobjsubid == 0;
	return only;
}

/* The objects that depend on the table: its own parts, and indexes and constraints for the caller to judge. */
static bool
dependents_of_table(ObjectScan *depend, RecycledTable *table, List **constraints)
{
	Form_pg_depend form;

	scan_start(depend, RelationRelationId, table->relid);
	while ((form = scan_next(depend)) != NULL)
	{
		if (form->deptype == DEPENDENCY_INTERNAL && form->refobjsubid == 0 &&
			((form->classid == TypeRelationId && form->objid == table->rowtype) ||
			 (form->classid == RelationRelationId && form->objid == table->toast)))
			continue;
		if (form->deptype != DEPENDENCY_AUTO)
			return false;
		if (form->classid == ConstraintRelationId)
			*constraints = list_append_unique_oid(*constraints, form->objid);
		else if (form->classid == RelationRelationId && get_rel_relkind(form->objid) == RELKIND_INDEX)
			table->indexes = list_append_unique_oid(table->indexes, form->objid);
		else
			return false;
	}
	return true;
}

/* The table depends on its schema only: its types are pinned, its owner is in pg_shdepend. */
static bool
depends_on_schema_only(ObjectScan *depend, Oid relid)
{
	Form_pg_depend form;
	bool		only = true;

	scan_leave_index(depend);
	scan_use_index(depend, DependDependerIndexId);
	scan_start(depend, RelationRelationId, relid);
	while (only && (form = scan_next(depend)) != NULL)
		only = form->refclassid == NamespaceRelationId && form->deptype == DEPENDENCY_NORMAL;
	return only;
}

BlockNumber
inspect_blocks(Form_pg_class form)
{
	RelFileLocator_compat locator = MakeLocator_compat(form->reltablespace ? form->reltablespace : MyDatabaseTableSpace,
													   MyDatabaseId, form->relfilenode);

	return smgrnblocks(smgropen(locator, TempFileOwner_compat()), MAIN_FORKNUM);
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

/* Are the columns as those of a new table?  Appends them to the shape. */
static bool
plain_columns(RecycledTable *table, int natts, int *notnull_count)
{
	Oid			type = InvalidOid;
	char		storage = 0;

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
			!form->attgenerated && !form->atthasdef && !form->atthasmissing && form->attislocal &&
			form->attinhcount == 0 && form->attcompression == InvalidCompressionMethod &&
			form->attcollation < FirstUnpinnedObjectId &&
			form->attstorage == storage && !HasStatisticsTarget_compat(row) &&
			heap_attisnull(row, Anum_pg_attribute_attacl, NULL) &&
			heap_attisnull(row, Anum_pg_attribute_attfdwoptions, NULL) && !HasColumnOptions_compat(row);
		if (plain)
			shape_column(&table->shape, NameStr(form->attname), form->atttypid, form->atttypmod,
						 form->attcollation, form->attndims, form->attnotnull);
		if (form->attnotnull)
			(*notnull_count)++;
		ReleaseSysCache(row);
		if (!plain)
			return false;
	}
	return true;
}

/* Are row type and array type as those of a new table? */
static bool
plain_types(RecycledTable *table, Oid owner)
{
	HeapTuple	row = SearchSysCache1(TYPEOID, ObjectIdGetDatum(table->rowtype));
	Form_pg_type form;
	bool		plain;

	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_type) GETSTRUCT(row);
	table->arraytype = form->typarray;
	plain = OidIsValid(form->typarray) && form->typowner == owner && heap_attisnull(row, Anum_pg_type_typacl, NULL);
	ReleaseSysCache(row);
	row = plain ? SearchSysCache1(TYPEOID, ObjectIdGetDatum(table->arraytype)) : NULL;
	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_type) GETSTRUCT(row);
	plain = form->typowner == owner && heap_attisnull(row, Anum_pg_type_typacl, NULL);
	ReleaseSysCache(row);
	return plain;
}

/* Is the TOAST table as a new one, but for its rows? */
static bool
plain_toast(RecycledTable *table, Form_pg_class form)
{
	HeapTuple	row;
	Form_pg_class toast;
	BlockNumber blocks;
	bool		plain;

	table->toast = form->reltoastrelid;
	if (!OidIsValid(table->toast))
		return true;
	row = SearchSysCache1(RELOID, ObjectIdGetDatum(table->toast));
	if (!HeapTupleIsValid(row))
		return false;
	toast = (Form_pg_class) GETSTRUCT(row);
	blocks = inspect_blocks(toast);
	table->toast_used = blocks > 0;
	plain = toast->reltuples == -1 && toast->relpages == 0 && toast->relallvisible == 0 &&
		toast->reltablespace == form->reltablespace && toast->relowner == form->relowner &&
		heap_attisnull(row, Anum_pg_class_relacl, NULL) && heap_attisnull(row, Anum_pg_class_reloptions, NULL) &&
		TransactionIdFollows(toast->relfrozenxid + TOAST_HORIZON_MAX, ReadNextTransactionId()) &&
		blocks <= (BlockNumber) recycled_keep_size;
	ReleaseSysCache(row);
	return plain;
}

/* Is an index as PRIMARY KEY or UNIQUE makes it?  Fills in the key's columns. */
static bool
plain_index(RecycledTable *table, RecycledKey *key, Form_pg_class heap, bool pooled)
{
	HeapTuple	row = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(key->index));
	Form_pg_index index;
	Form_pg_class form;
	BlockNumber blocks;
	bool		plain;

	if (!HeapTupleIsValid(row))
		return false;
	index = (Form_pg_index) GETSTRUCT(row);
	plain = index->indrelid == table->relid && index->indisunique && index->indisprimary == key->primary &&
		index->indisvalid && index->indisready && index->indislive && index->indimmediate && !index->indnullsnotdistinct &&
		!index->indisexclusion && !index->indisclustered && !index->indisreplident && !index->indcheckxmin &&
		index->indnatts == index->indnkeyatts && heap_attisnull(row, Anum_pg_index_indexprs, NULL) &&
		heap_attisnull(row, Anum_pg_index_indpred, NULL);
	key->natts = index->indnatts;
	memcpy(key->columns, index->indkey.values, key->natts * sizeof(int16));
	ReleaseSysCache(row);
	row = plain ? SearchSysCache1(RELOID, ObjectIdGetDatum(key->index)) : NULL;
	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_class) GETSTRUCT(row);
	blocks = inspect_blocks(form);
	table->key_used |= blocks != 1;
	plain = form->relam == BTREE_AM_OID && form->reltablespace == heap->reltablespace &&
		form->relowner == heap->relowner && heap_attisnull(row, Anum_pg_class_reloptions, NULL) &&
		heap_attisnull(row, Anum_pg_class_relacl, NULL) && blocks <= (BlockNumber) recycled_keep_size &&
		(!pooled || (form->relpages == 0 && form->reltuples == 0));
	ReleaseSysCache(row);
	/* renaming a column leaves the index's column alone */
	for (int i = 0; plain && i < key->natts; i++)
	{
		char	   *name = get_attname(table->relid, key->columns[i], true);
		char	   *index_name = get_attname(key->index, i + 1, true);

		plain = key->columns[i] > 0 && name && index_name && strcmp(name, index_name) == 0;
	}
	return plain;
}

/*
 * Is a constraint a plain key or NOT NULL, with the name that the server gives it,
 * or, of a pooled table, that keep.c gives it?
 */
static bool
plain_constraint(RecycledTable *table, Oid constraint, Form_pg_class heap, bool pooled)
{
	HeapTuple	row = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Form_pg_constraint form;
	RecycledKey *key = palloc0(sizeof(RecycledKey));
	char	   *name;
	bool		is_notnull,
				plain;

	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_constraint) GETSTRUCT(row);
	is_notnull = CONSTRAINT_IS_NOT_NULL_compat(form);
	key->constraint = constraint;
	key->index = form->conindid;
	key->primary = form->contype == CONSTRAINT_PRIMARY;
	plain = (is_notnull || key->primary || form->contype == CONSTRAINT_UNIQUE) && form->conrelid == table->relid &&
		!form->condeferrable && !form->condeferred && form->convalidated && form->conislocal &&
		form->coninhcount == 0 && !OidIsValid(form->conparentid) && !ConstraintIsUnusual_compat(form) &&
		form->connoinherit == !is_notnull && OidIsValid(key->index) == !is_notnull;
	if (plain && is_notnull)
	{
		bool		isnull;
		Datum		datum = SysCacheGetAttr(CONSTROID, row, Anum_pg_constraint_conkey, &isnull);
		ArrayType  *array = isnull ? NULL : DatumGetArrayTypeP(datum);

		plain = array && ARR_NDIM(array) == 1 && ARR_DIMS(array)[0] == 1;
		if (plain)
			key->columns[0] = *(int16 *) ARR_DATA_PTR(array);
		key->natts = 1;
	}
	else if (plain)
		plain = plain_index(table, key, heap, pooled);
	if (plain)
	{
		if (pooled)
			name = pool_name(constraint);
		else if (is_notnull)
			name = makeObjectName(NameStr(heap->relname), get_attname(table->relid, key->columns[0], false), "not_null");
		else
		{
			List	   *colnames = NIL;

			for (int i = 0; i < key->natts; i++)
				colnames = lappend(colnames, makeString(get_attname(table->relid, key->columns[i], false)));
			name = shape_key_name(NameStr(heap->relname), colnames, key->primary);
		}
		plain = strcmp(NameStr(form->conname), name) == 0 &&
			(is_notnull || strcmp(get_rel_name(key->index), name) == 0);
	}
	ReleaseSysCache(row);
	if (is_notnull)
		table->notnulls = lappend(table->notnulls, key);
	else
		table->keys = lappend(table->keys, key);
	return plain;
}

static int
compare_keys(const ListCell *a, const ListCell *b)
{
	Oid			first = ((RecycledKey *) lfirst(a))->index;
	Oid			second = ((RecycledKey *) lfirst(b))->index;

	return first < second ? -1 : first > second;
}

static bool
has_comment(ObjectScan *scan, Oid object, Oid class)
{
	scan_start(scan, object, class);
	return scan_next(scan) != NULL;
}

/* Comments or labels, of which both catalogs' indexes begin with object and class. */
static bool
has_comments(RecycledTable *table, Oid catalog, Oid index)
{
	ObjectScan	scan;
	bool		found;
	ListCell   *lc;

	scan_open(&scan, catalog, index);
	found = has_comment(&scan, table->relid, RelationRelationId) || has_comment(&scan, table->rowtype, TypeRelationId) ||
		has_comment(&scan, table->arraytype, TypeRelationId) ||
		(OidIsValid(table->toast) && has_comment(&scan, table->toast, RelationRelationId));
	foreach(lc, table->keys)
	{
		RecycledKey *key = lfirst(lc);

		found = found || has_comment(&scan, key->index, RelationRelationId) ||
			has_comment(&scan, key->constraint, ConstraintRelationId);
	}
	foreach(lc, table->notnulls)
		found = found || has_comment(&scan, ((RecycledKey *) lfirst(lc))->constraint, ConstraintRelationId);
	scan_close(&scan);
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

/* Nothing depends on the TOAST table but its index, which is as a new one. */
static bool
plain_toast_index(ObjectScan *depend, RecycledTable *table)
{
	Form_pg_depend form;
	Oid			index = InvalidOid;
	HeapTuple	row;
	bool		plain = true;

	scan_start(depend, RelationRelationId, table->toast);
	while (plain && (form = scan_next(depend)) != NULL)
	{
		plain = form->deptype == DEPENDENCY_AUTO && form->classid == RelationRelationId &&
			(index == form->objid || !OidIsValid(index));
		index = form->objid;
	}
	row = plain ? SearchSysCache1(RELOID, ObjectIdGetDatum(index)) : NULL;
	if (!HeapTupleIsValid(row))
		return false;
	plain = ((Form_pg_class) GETSTRUCT(row))->relkind == RELKIND_INDEX &&
		((Form_pg_class) GETSTRUCT(row))->relpages == 1 && ((Form_pg_class) GETSTRUCT(row))->reltuples == 0 &&
		heap_attisnull(row, Anum_pg_class_reloptions, NULL);
	ReleaseSysCache(row);
	return plain && only_part(depend, RelationRelationId, index, InvalidOid, InvalidOid);
}

/* Nothing depends on the table's parts, and each index that is not a key's is free of dependents. */
static const char *
judge_dependents(RecycledTable *table, Form_pg_class form, bool pooled)
{
	ObjectScan	depend;
	List	   *constraints = NIL;
	ListCell   *lc;
	bool		plain;

	scan_open(&depend, DependRelationId, DependReferenceIndexId);
	plain = dependents_of_table(&depend, table, &constraints) &&
		only_part(&depend, TypeRelationId, table->rowtype, TypeRelationId, table->arraytype) &&
		only_part(&depend, TypeRelationId, table->arraytype, InvalidOid, InvalidOid);
	if (plain && OidIsValid(table->toast))
		plain = plain_toast_index(&depend, table);
	foreach(lc, table->indexes)
		plain = plain && only_part(&depend, RelationRelationId, lfirst_oid(lc), InvalidOid, InvalidOid);
	foreach(lc, constraints)
		plain = plain && plain_constraint(table, lfirst_oid(lc), form, pooled);
	list_sort(table->keys, compare_keys);
	foreach(lc, table->keys)
	{
		RecycledKey *key = lfirst(lc);

		plain = plain && only_part(&depend, ConstraintRelationId, key->constraint, RelationRelationId, key->index) &&
			only_part(&depend, RelationRelationId, key->index, InvalidOid, InvalidOid);
		shape_key(&table->shape, key->primary, key->natts, key->columns);
	}
	foreach(lc, table->notnulls)
		plain = plain && only_part(&depend, ConstraintRelationId, ((RecycledKey *) lfirst(lc))->constraint, InvalidOid, InvalidOid);
	plain = plain && depends_on_schema_only(&depend, table->relid);
	scan_close(&depend);
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
	bool		pooled;

	memset(table, 0, sizeof(*table));
	table->relid = relid;
	table->row = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(table->row))
		return "it does not exist";
	form = (Form_pg_class) GETSTRUCT(table->row);
	table->rowtype = form->reltype;
	pooled = strcmp(NameStr(form->relname), pool_name(relid)) == 0;
	if (!plain_class(table->row))
		return "it has properties that a new table lacks";
	shape_begin(&table->shape, form->relowner, form->reltablespace);
	if (!plain_columns(table, form->relnatts, &notnull_count))
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
	if (table->keys && inspect_blocks(form) > (BlockNumber) recycled_keep_size)
		return "it is large and has a key";
	if (pooled && (form->relpages != 0 || form->reltuples != -1 || form->relallvisible != 0 || ClassAllFrozen_compat(form) != 0))
		return "a command has been over it";
	if (has_comments(table, DescriptionRelationId, DescriptionObjIndexId) || has_labels(table))
		return "it has a comment or a label";
	table->has_statistics = has_statistics(relid);
	return NULL;
}

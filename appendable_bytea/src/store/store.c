/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Chunk stores as relations: finding, opening, creating and dropping them.
 *
 * The store of table T is the heap table chunks_<OID of T> in schema
 * appendable_store, as a TOAST table is pg_toast_<OID>, with one unique index.  An
 * OID survives pg_upgrade and CREATE DATABASE ... TEMPLATE, and the name is found by
 * a syscache, so logical decoding finds the store that T had by its historic
 * snapshot.  A store is a member of the extension, so pg_dump leaves it out.  It has
 * no dependency on T: an object that is a member of an extension and depends on
 * something else would take the extension with it when that is dropped.  Instead
 * ddl/command.c ends the store at the end of the command that drops T.  No role has
 * privileges on it.
 *
 * Every store is a user catalog table from its creation on, so that vacuum keeps the
 * chunks that a logical replication slot still needs, whenever the slot is created.
 * Without slots the horizon of catalogs is that of data, so the mark is free.  Its
 * pg_class.relrewrite is T: decoding skips all changes of a relation that has it set,
 * and nothing else in the server reads it.  There is no other way until 18 to keep the
 * DELETE of a chunk from output plugins; heap_insert() has an option for that,
 * heap_delete() has none.
 *
 * Lock order, everywhere: T first, then its store.  A store is created with its table
 * (ddl/relation.c).  A table that was created without our hooks gets one when it first
 * needs it; that takes SHARE UPDATE EXCLUSIVE on T, so that first users queue, and
 * before any row is locked.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/toast_compression.h"
#include "access/toast_internals.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat_storage.h"
#include "store/store.h"

/* Names of stores: of a table, and of a dropped table whose store a slot may need. */
#define STORE_PREFIX	"chunks_"
#define RETAINED_PREFIX	"dropped_"

/*
 * Copies of the rows of a catalog that match some keys of an index, or all rows
 * (InvalidOid), as a snapshot sees them; NULL: as the catalog's readers do.
 */
List *
ab_catalog_rows(Oid catalog, Oid index, int nkeys, ScanKey keys, Snapshot snapshot)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, index, OidIsValid(index), snapshot, nkeys, keys);
	List	   *rows = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, heap_copytuple(tuple));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return rows;
}

/*
 * A copy of an object's row in a catalog whose first column is an OID with an index, as a
 * snapshot sees it (SnapshotSelf: as the command that runs has left it); NULL if there is none.
 */
HeapTuple
ab_catalog_row(Oid catalog, Oid index, Oid objid, Snapshot snapshot)
{
	ScanKeyData key;
	List	   *rows;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(objid));
	rows = ab_catalog_rows(catalog, index, 1, &key, snapshot);
	return rows != NIL ? linitial(rows) : NULL;
}

/* The store of a table; InvalidOid if it has none (yet). */
Oid
ab_store_find(Oid relid)
{
	char		name[NAMEDATALEN] = STORE_PREFIX;
	Oid			schema = ab_schema_oid();

	if (!OidIsValid(schema))
		return InvalidOid;
	name[strlen(STORE_PREFIX) + pg_ultoa_n(relid, name + strlen(STORE_PREFIX))] = '\0';
	return get_relname_relid(name, schema);
}

/* The OIDs of the stores whose names begin with a prefix that ends with an underscore. */
static List *
find_stores(const char *prefix)
{
	List	   *result = NIL;
	NameData	from,
				before;
	ScanKeyData key[2];
	ListCell   *lc;

	namestrcpy(&from, prefix);
	namestrcpy(&before, prefix);
	NameStr(before)[strlen(prefix) - 1]++;
	ScanKeyInit(&key[0], Anum_pg_class_relname, BTGreaterEqualStrategyNumber, F_NAMEGE,
				NameGetDatum(&from));
	ScanKeyInit(&key[1], Anum_pg_class_relname, BTLessStrategyNumber, F_NAMELT,
				NameGetDatum(&before));
	foreach(lc, ab_catalog_rows(RelationRelationId, ClassNameNspIndexId, 2, key, NULL))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT((HeapTuple) lfirst(lc));

		if (form->relkind == RELKIND_RELATION && form->relnamespace == ab_schema_oid())
			result = lappend_oid(result, form->oid);
	}
	return result;
}

/* The number in the name of a store: its table's OID, or the transaction of retain_store(). */
static uint64
store_number(Oid heap, const char *prefix)
{
	const char *name = get_rel_name(heap);

	return name ? strtou64(name + strlen(prefix), NULL, 10) : 0;
}

/* OIDs of the tables that have a store; some may be gone. */
List *
ab_store_tables(void)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, find_stores(STORE_PREFIX))
		result = lappend_oid(result, (Oid) store_number(lfirst_oid(lc), STORE_PREFIX));
	return result;
}

/*
 * Record that a table with a store depends on the extension, which it does by the types
 * and the access method anyway: "pg_repack --exclude-extension" leaves out such tables.
 */
static void
depend_on_extension(Oid relid)
{
	ObjectAddress table,
				extension;

	ObjectAddressSet(table, RelationRelationId, relid);
	ObjectAddressSet(extension, ExtensionRelationId, get_extension_oid(AB_EXTENSION, false));
	deleteDependencyRecordsForSpecific(RelationRelationId, relid, DEPENDENCY_NORMAL,
									   ExtensionRelationId, extension.objectId);
	recordDependencyOn(&table, &extension, DEPENDENCY_NORMAL);
}

/*
 * Set what pg_upgrade does not bring along: relrewrite and the dependency.  The lock keeps other
 * writers waiting, because chunks that are written before that is committed would be decoded.
 */
void
ab_store_mark(Oid heap, Oid relid)
{
	ab_set_class_column(heap, ShareUpdateExclusiveLock, Anum_pg_class_relrewrite, ObjectIdGetDatum(relid), false);
	depend_on_extension(relid);
}

/*
 * Have a relation that logical decoding reads point to its present file, because the
 * historic one is gone once it is rebuilt or moved.  The server does so for catalogs and
 * user catalog tables, but not for the indexes of those, and with the historic tablespace.
 * A rebuilt relation has all rows and entries that a slot needs: see vacuum's horizon above.
 */
static void
use_current_file(Relation rel)
{
	Snapshot	snapshot = RegisterSnapshot(GetNonHistoricCatalogSnapshot(RelationRelationId));
	HeapTuple	tuple = ab_catalog_row(RelationRelationId, ClassOidIndexId, RelationGetRelid(rel), snapshot);

	UnregisterSnapshot(snapshot);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		RelFileLocator_compat file = MakeLocator_compat(OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace,
														MyDatabaseId, form->relfilenode);

		if (!RelFileLocatorEquals_compat(file, rd_locator_compat(rel)))
		{
			RelationCloseSmgr(rel);
			rd_locator_compat(rel) = file;
		}
		heap_freetuple(tuple);
	}
}

/*
 * Open the store of a table; false if it has none.  There is one index, and one or two more,
 * which are the same, while REINDEX CONCURRENTLY replaces it or after that has failed.
 */
bool
ab_store_open(Oid relid, LOCKMODE mode, AbStore *store)
{
	Oid			heap;
	int			valid;

	while (OidIsValid(heap = ab_store_find(relid)))
	{
		store->heap = try_table_open(heap, mode);
		if (store->heap == NULL)
			continue;			/* dropped in the meantime, which we know now */
		if (unlikely(RelationGetDescr(store->heap)->natts != AB_CHUNK_NATTS))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("chunk store of table \"%s\" has %d columns instead of %d",
							get_rel_name(relid), RelationGetDescr(store->heap)->natts, AB_CHUNK_NATTS),
					 errhint("A build of before 2026-12 made it, or it was altered.  Convert the table's columns with appendable_bytea_detach() by that build, and back by this one.")));
		if (mode == RowExclusiveLock && unlikely(!OidIsValid(store->heap->rd_rel->relrewrite)))
			ab_store_mark(heap, relid);
		valid = toast_open_indexes(store->heap, mode, &store->indexes, &store->nindexes);
		store->index = store->indexes[valid];
		if (unlikely(HistoricSnapshotActive()))
		{
			use_current_file(store->heap);
			use_current_file(store->index);
		}
		return true;
	}
	return false;
}

/* Close a store; mode: release the lock, NoLock: keep it. */
void
ab_store_close(AbStore *store, LOCKMODE mode)
{
	toast_close_indexes(store->indexes, store->nindexes, mode);
	table_close(store->heap, mode);
}

static void
describe_column(TupleDesc tupdesc, AttrNumber attnum, const char *name, Oid type)
{
	TupleDescInitEntry(tupdesc, attnum, name, type, -1, 0);
	TupleDescAttr(tupdesc, attnum - 1)->attstorage = TYPSTORAGE_PLAIN;
	TupleDescAttr(tupdesc, attnum - 1)->attcompression = InvalidCompressionMethod;
	PopulateCompactAttribute_compat(tupdesc, attnum - 1);
}

/* ANALYZE must not sample a store: no plan uses its statistics. */
static void
set_no_statistics(Oid heap)
{
	Relation	catalog = table_open(AttributeRelationId, RowExclusiveLock);

	for (int i = 1; i <= AB_CHUNK_NATTS; i++)
	{
		HeapTuple	tuple = SearchSysCacheCopy2(ATTNUM, ObjectIdGetDatum(heap), Int16GetDatum(i));
		Datum		values[Natts_pg_attribute] = {0};
		bool		nulls[Natts_pg_attribute] = {0};
		bool		replace[Natts_pg_attribute] = {0};

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for attribute %d of relation %u", i, heap);
		replace[Anum_pg_attribute_attstattarget - 1] = true;
		tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replace);
		CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	}
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

/*
 * Create the store of a table that this session has open.  Another session may do so
 * first.
 */
void
ab_store_create(Oid relid)
{
	Oid			schema;
	Oid			heapid = InvalidOid;
	Relation	table;
	Relation	heap;
	TupleDesc	tupdesc;
	IndexInfo  *info;
	Oid			collations[2] = {InvalidOid, InvalidOid};
	Oid			opclasses[2];
	int16		options[2] = {0, 0};
	char		heapname[NAMEDATALEN];
	char		indexname[NAMEDATALEN];
	ObjectAddress object,
				extension;
	bool		in_script = creating_extension;

	if (OidIsValid(ab_store_find(relid)))
		return;
	LockRelationOid(relid, ShareUpdateExclusiveLock);
	if (OidIsValid(ab_store_find(relid)))
		return;

	schema = ab_schema_oid();
	if (!OidIsValid(schema))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" of extension \"%s\" does not exist",
						AB_SCHEMA, AB_EXTENSION)));
	table = table_open(relid, NoLock);
	snprintf(heapname, NAMEDATALEN, STORE_PREFIX "%u", relid);
	snprintf(indexname, NAMEDATALEN, STORE_PREFIX "%u_index", relid);

	tupdesc = CreateTemplateTupleDesc(AB_CHUNK_NATTS);
	describe_column(tupdesc, AB_CHUNK_VID, "vid", INT8OID);
	describe_column(tupdesc, AB_CHUNK_OFF, "off", INT8OID);
	describe_column(tupdesc, AB_CHUNK_PREV, "prev", INT4OID);
	describe_column(tupdesc, AB_CHUNK_CRC, "crc", INT4OID);
	describe_column(tupdesc, AB_CHUNK_DATA, "data", BYTEAOID);

	/* a store is no part of the extension whose script makes the table */
	creating_extension = false;
	PG_TRY();
	{
		heapid = heap_create_with_catalog(heapname, schema, table->rd_rel->reltablespace,
										  InvalidOid, InvalidOid, InvalidOid, ab_schema_owner(),
										  HEAP_TABLE_AM_OID, tupdesc, NIL,
										  RELKIND_RELATION, table->rd_rel->relpersistence,
										  false, false, ONCOMMIT_NOOP, ab_store_options(relid),
										  false, true, true, relid, NULL);
	}
	PG_FINALLY();
	{
		creating_extension = in_script;
	}
	PG_END_TRY();
	CommandCounterIncrement();

	heap = table_open(heapid, ShareLock);
	info = makeNode(IndexInfo);
	info->ii_NumIndexAttrs = 2;
	info->ii_NumIndexKeyAttrs = 2;
	info->ii_IndexAttrNumbers[0] = AB_CHUNK_VID;
	info->ii_IndexAttrNumbers[1] = AB_CHUNK_OFF;
	info->ii_Unique = true;
	info->ii_ReadyForInserts = true;
	info->ii_Am = BTREE_AM_OID;
	info->ii_Context = CurrentMemoryContext;
	opclasses[0] = opclasses[1] = GetDefaultOpClass(INT8OID, BTREE_AM_OID);
	index_create_compat(heap, indexname, info,
						list_make2("vid", "off"), BTREE_AM_OID,
						table->rd_rel->reltablespace, collations, opclasses, options);
	table_close(heap, NoLock);
	table_close(table, NoLock);

	ObjectAddressSet(object, RelationRelationId, heapid);
	ObjectAddressSet(extension, ExtensionRelationId,
					 get_extension_oid(AB_EXTENSION, false));
	recordDependencyOn(&object, &extension, DEPENDENCY_EXTENSION);
	set_no_statistics(heapid);
	depend_on_extension(relid);
}

/*
 * Does no logical replication slot of this database need rows that a transaction removed?
 * With InvalidTransactionId: are there no slots?
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

/* Are there logical replication slots that may have to read stores of this database? */
bool
ab_slots_exist(void)
{
	return !slots_passed(InvalidTransactionId);
}

static void
drop_store(Oid heap)
{
	ObjectAddress object;

	LockRelationOid(heap, AccessExclusiveLock);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(heap)))
		return;
	ObjectAddressSet(object, RelationRelationId, heap);
	performDeletion(&object, DROP_RESTRICT,
					PERFORM_DELETION_INTERNAL | PERFORM_DELETION_SKIP_EXTENSIONS);
}

static void
rename_relation(Oid relid, const char *name)
{
	const Oid	type = get_rel_type_id(relid);
	NameData	relname;

	namestrcpy(&relname, name);
	ab_set_class_column(relid, ShareUpdateExclusiveLock, Anum_pg_class_relname, NameGetDatum(&relname), false);
	if (OidIsValid(type))
		RenameTypeInternal(type, name, get_rel_namespace(relid));
	CommandCounterIncrement();
}

/*
 * Keep the store of a table that a logical replication slot may still have to read, by a
 * name that contains the transaction that drops the table: historic snapshots find it by
 * its old name.  RenameRelationInternal() would take a lock that conflicts with a
 * walsender's, and in synchronous replication this transaction waits for that at its end.
 */
static void
retain_store(Oid heap)
{
	Relation	rel = table_open(heap, ShareUpdateExclusiveLock);
	List	   *indexes = RelationGetIndexList(rel);
	char	   *name = psprintf(RETAINED_PREFIX UINT64_FORMAT "_%u",
								U64FromFullTransactionId(GetTopFullTransactionId()), heap);
	ListCell   *lc;

	table_close(rel, NoLock);
	rename_relation(heap, name);
	foreach(lc, indexes)
		rename_relation(lfirst_oid(lc), psprintf("%s_index_%u", name, lfirst_oid(lc)));
}

/*
 * Drop the stores that retain_store() kept, if all slots have passed the transaction that did.
 * Called at the end of each command that changes a table with columns of the type, and by repair.
 */
void
ab_store_drop_retained(void)
{
	uint64		now = U64FromFullTransactionId(ReadNextFullTransactionId());
	ListCell   *lc;

	foreach(lc, find_stores(RETAINED_PREFIX))
	{
		uint64		xid = store_number(lfirst_oid(lc), RETAINED_PREFIX);

		if (xid + PG_INT32_MAX < now || slots_passed((TransactionId) xid))
			drop_store(lfirst_oid(lc));
	}
}

/* Drop the store of a table that needs none any more, if it has one. */
void
ab_store_end(Oid relid)
{
	Oid			heap = ab_store_find(relid);

	if (!OidIsValid(heap))
		return;
	if (ab_slots_exist())
		retain_store(heap);
	else
		drop_store(heap);
	deleteDependencyRecordsForSpecific(RelationRelationId, relid, DEPENDENCY_NORMAL,
									   ExtensionRelationId, get_extension_oid(AB_EXTENSION, false));
}

/*
 * Empty the store of a table that is being truncated: by new files, so that a rollback
 * restores the old ones, also if the table is truncated in place, because it was created or
 * rewritten in this transaction.  If there are logical replication slots, the chunks are
 * deleted one by one: they still have to read them.
 */
void
ab_store_truncate(Oid relid)
{
	AbStore		store;
	Oid			heap;

	if (IsBinaryUpgrade || !ab_store_open(relid, AccessExclusiveLock, &store))
		return;
	heap = RelationGetRelid(store.heap);
	if (ab_slots_exist())
	{
		ab_chunks_delete_all(store.heap);
		ab_store_close(&store, NoLock);
	}
	else
	{
		RelationSetNewRelfilenumber_compat(store.heap, store.heap->rd_rel->relpersistence);
		ab_store_close(&store, NoLock);
		reindex_relation_compat(heap);
	}
}

/*-------------------------------------------------------------------------
 *
 * catalog.c
 *	  Which store belongs to which table: the catalog appendable_store.stores.
 *
 * A row (relation, store, dropped_by) is made with a store and goes with it; nothing else
 * tells whose a store is, whatever relations are called.  dropped_by is set when the table
 * is gone and its store is left for logical replication slots to read.
 *
 * The catalog is read as the server's own are, with a catalog snapshot: by old snapshots
 * and in recovery as it is now, by logical decoding as it was (it is marked as a user
 * catalog table).  What is found is kept for the session until the catalog changes; every
 * change sends a relcache invalidation for it.  SQL cannot change it, and replication
 * carries no change of it: OIDs mean nothing elsewhere.
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
#include "catalog/indexing.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/xid8.h"

#include "compat_table.h"
#include "store.h"

PG_FUNCTION_INFO_V1(appendable_bytea_refuse_write);

#define Anum_stores_relation	1
#define Anum_stores_store		2
#define Anum_stores_dropped_by	3
#define Natts_stores			3

/* A store that was found. */
typedef struct FoundStore
{
	Oid			relid;			/* hash key */
	Oid			heap;
} FoundStore;

static HTAB *found_stores = NULL;
static FoundStore last_found;	/* an append asks four times */
static Oid	found_in = InvalidOid;	/* the catalog that they were found in */
static uint32 found_generation = 0;

/* Relcache callback, through the access method's. */
void
ab_stores_invalidated(Oid relid)
{
	if (OidIsValid(relid) && relid != found_in)
		return;
	found_generation++;
	if (found_stores)
		hash_destroy(found_stores);
	found_stores = NULL;
	last_found.relid = InvalidOid;
}

static void
remember(Oid relid, Oid heap)
{
	FoundStore *found;

	if (found_stores == NULL)
	{
		HASHCTL		control;

		control.keysize = sizeof(Oid);
		control.entrysize = sizeof(FoundStore);
		found_stores = hash_create("appendable_bytea stores", 64, &control,
								   HASH_ELEM | HASH_BLOBS);
	}
	found = hash_search(found_stores, &relid, HASH_ENTER, NULL);
	found->heap = heap;
}

/*
 * A copy of an object's row in a catalog whose primary key is its first column, an OID;
 * NULL if there is none.  SnapshotSelf sees what a command has left, which the catalog
 * caches do not know yet.
 */
HeapTuple
ab_catalog_row(Oid catalog, Oid objid, Snapshot snapshot)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	ScanKeyData key[1];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(objid));
	scan = systable_beginscan(rel, RelationGetPrimaryKeyIndex_compat(rel), true, snapshot, 1, key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tuple;
}

static Datum
column(Relation catalog, HeapTuple row, AttrNumber attnum, bool *isnull)
{
	return heap_getattr(row, attnum, RelationGetDescr(catalog), isnull);
}

/* The store of a table; InvalidOid if it has none (yet). */
Oid
ab_store_find(Oid relid)
{
	Oid			stores = ab_stores_oid();
	FoundStore *found;
	Relation	catalog;
	HeapTuple	row;
	Oid			heap = InvalidOid;
	uint32		generation;

	if (!OidIsValid(stores))
		return InvalidOid;
	if (stores != found_in)
		ab_stores_invalidated(InvalidOid);
	found_in = stores;
	if (OidIsValid(relid) && relid == last_found.relid)
		return last_found.heap;
	if (found_stores && (found = hash_search(found_stores, &relid, HASH_FIND, NULL)) != NULL)
	{
		last_found = *found;
		return found->heap;
	}

	catalog = table_open(stores, AccessShareLock);
	generation = found_generation;
	row = ab_catalog_row(stores, relid, NULL);
	if (HeapTupleIsValid(row))
	{
		bool		isnull;

		heap = DatumGetObjectId(column(catalog, row, Anum_stores_store, &isnull));
		heap_freetuple(row);
		/* a superuser can remove a table without anybody being told */
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(heap)))
			heap = InvalidOid;
	}
	table_close(catalog, AccessShareLock);

	/* the catalog may have changed meanwhile */
	if (OidIsValid(heap) && generation == found_generation)
		remember(relid, heap);
	return heap;
}

/* OIDs of the tables that have a store; some may be gone. */
List *
ab_store_list(void)
{
	List	   *result = NIL;
	Relation	catalog;
	SysScanDesc scan;
	HeapTuple	row;

	if (!OidIsValid(ab_stores_oid()))
		return NIL;
	catalog = table_open(ab_stores_oid(), AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while ((row = systable_getnext(scan)) != NULL)
	{
		bool		isnull;

		result = lappend_oid(result, DatumGetObjectId(column(catalog, row, Anum_stores_relation, &isnull)));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

/*
 * Open the catalog to change it.  Logical decoding leaves out changes of a relation with
 * a pg_class.relrewrite, which pg_upgrade does not bring along.
 */
static Relation
open_to_write(void)
{
	Relation	catalog = table_open(ab_stores_oid(), RowExclusiveLock);

	if (!OidIsValid(catalog->rd_rel->relrewrite))
	{
		/* somebody else may have done it while we waited */
		LockRelation(catalog, ShareUpdateExclusiveLock);
		if (!OidIsValid(catalog->rd_rel->relrewrite))
			ab_set_relrewrite(RelationGetRelid(catalog), RelationGetRelid(catalog));
	}
	return catalog;
}

/*
 * Note whose a store is: its table's, or nobody's any more (InvalidOid); or left by the
 * transaction that drops its table.  The caller holds a lock on the table, if it is there,
 * that keeps others from doing the same.
 */
void
ab_store_record(Oid relid, Oid heap, FullTransactionId dropped_by)
{
	Relation	catalog = open_to_write();
	HeapTuple	row = ab_catalog_row(RelationGetRelid(catalog), relid, NULL);

	if (HeapTupleIsValid(row))
		CatalogTupleDelete(catalog, &row->t_self);
	if (OidIsValid(heap))
	{
		Datum		values[Natts_stores] = {0};
		bool		nulls[Natts_stores] = {0};

		values[Anum_stores_relation - 1] = ObjectIdGetDatum(relid);
		values[Anum_stores_store - 1] = ObjectIdGetDatum(heap);
		values[Anum_stores_dropped_by - 1] = FullTransactionIdGetDatum(dropped_by);
		nulls[Anum_stores_dropped_by - 1] = !FullTransactionIdIsValid(dropped_by);
		CatalogTupleInsert(catalog, heap_form_tuple(RelationGetDescr(catalog), values, nulls));
	}
	CacheInvalidateRelcache(catalog);
	table_close(catalog, NoLock);
	CommandCounterIncrement();
}

/* The transaction that dropped a table and left its store; false (and invalid) if there is none. */
bool
ab_store_is_retained(Oid relid, FullTransactionId *dropped_by)
{
	Relation	catalog = table_open(ab_stores_oid(), AccessShareLock);
	HeapTuple	row = ab_catalog_row(RelationGetRelid(catalog), relid, NULL);
	bool		isnull = true;
	Datum		value;

	*dropped_by = InvalidFullTransactionId;
	if (HeapTupleIsValid(row))
	{
		value = column(catalog, row, Anum_stores_dropped_by, &isnull);
		if (!isnull)
			*dropped_by = DatumGetFullTransactionId(value);
	}
	table_close(catalog, AccessShareLock);
	return !isnull;
}

/* The trigger that keeps everybody but this file from writing to the catalog. */
Datum
appendable_bytea_refuse_write(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot change the catalog of chunk stores"),
			 errhint("Values of type %s are read through it.", AB_EXTENSION)));
	PG_RETURN_NULL();
}

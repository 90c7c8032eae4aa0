/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Chunk stores as relations: opening, creating, emptying, removing them and
 *	  keeping them like the tables they belong to.
 *
 * The store of table T is an ordinary heap table with one unique index, which catalog.c
 * says is T's.  It is a member of the extension, so that pg_dump leaves it out, and has
 * no dependency on T, which would get in the way of DROP TABLE: a sql_drop event trigger
 * removes it (ddl/event.c).  Nobody has rights on it.  Its pg_class.relrewrite names T:
 * logical decoding leaves out all changes of a relation that has it set, and nothing else
 * in the server looks at it.
 *
 * Lock order, everywhere: T first, then its store.  A store is made with its table
 * (ddl/hook.c).  A table that came to be without our hooks gets one when it first needs
 * it; that takes SHARE UPDATE EXCLUSIVE on T, so that first users queue, and before
 * any row is locked.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/toast_compression.h"
#include "access/toast_internals.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "replication/slot.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "compat_table.h"
#include "store.h"

bool		ab_store_matching = false;

/* Lock and open a relation; NULL if it is gone.  try_relation_open() asks a catalog first. */
static Relation
try_open(Oid relid, LOCKMODE mode)
{
	Relation	rel;

	LockRelationOid(relid, mode);
	rel = RelationIdGetRelation(relid);
	if (RelationIsValid(rel))
		pgstat_init_relation(rel);
	else
		UnlockRelationOid(relid, mode);
	return rel;
}

/*
 * Open the indexes of a store.  What REINDEX CONCURRENTLY makes of its index is known when
 * the store is locked, not before.  Nearly always there is one, and no list to copy.
 */
static void
open_indexes(AbStore *store, LOCKMODE mode)
{
	Relation	heap = store->heap;
	int			valid;

	if (heap->rd_indexvalid && list_length(heap->rd_indexlist) == 1)
	{
		store->index = index_open(linitial_oid(heap->rd_indexlist), mode);
		store->indexes = &store->index;
		store->nindexes = 1;
		if (store->index->rd_index->indisvalid)
			return;
		index_close(store->index, mode);
	}
	valid = toast_open_indexes(heap, mode, &store->indexes, &store->nindexes);
	store->index = store->indexes[valid];
}

/* Open the store of a table; false if it has none.  It must not be copied while it is open. */
bool
ab_store_open(Oid relid, LOCKMODE mode, AbStore *store)
{
	Oid			heap;

	while (OidIsValid(heap = ab_store_find(relid)))
	{
		store->heap = try_open(heap, mode);
		if (store->heap)
		{
			open_indexes(store, mode);
			return true;
		}
		/* it went meanwhile */
		ab_stores_invalidated(InvalidOid);
	}
	return false;
}

/* Close a store; mode: give back the lock, NoLock: keep it. */
void
ab_store_close(AbStore *store, LOCKMODE mode)
{
	if (store->indexes == &store->index)
		index_close(store->index, mode);
	else
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

static Oid
schema_owner(Oid schema)
{
	HeapTuple	tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(schema));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for schema %u", schema);
	owner = ((Form_pg_namespace) GETSTRUCT(tuple))->nspowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Create the store of a table that this session has open.  Returns with the store
 * there, made by whoever came first.
 */
void
ab_store_create(Oid relid)
{
	Oid			schema;
	Oid			owner;
	Oid			heapid = InvalidOid;
	Relation	table;
	Relation	heap;
	TupleDesc	tupdesc;
	IndexInfo  *info;
	Oid			collations[3] = {InvalidOid, InvalidOid, InvalidOid};
	Oid			opclasses[3];
	int16		options[3] = {0, 0, INDOPTION_DESC | INDOPTION_NULLS_FIRST};
	char		heapname[NAMEDATALEN];
	char		indexname[NAMEDATALEN];
	ObjectAddress object,
				extension;
	bool		in_script = creating_extension;

	if (OidIsValid(ab_store_find(relid)))
		return;
	PreventCommandDuringRecovery("creation of a chunk store");
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot create the chunk store of table \"%s\" while a parallel plan runs",
						get_rel_name(relid)),
				 errhint("Set max_parallel_workers_per_gather to 0 for this command.")));

	LockRelationOid(relid, ShareUpdateExclusiveLock);
	if (OidIsValid(ab_store_find(relid)))
		return;

	schema = ab_schema_oid();
	if (!OidIsValid(ab_stores_oid()))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" of extension \"%s\" does not exist",
						AB_SCHEMA, AB_EXTENSION)));
	owner = schema_owner(schema);
	table = table_open(relid, NoLock);
	/* for people to read */
	snprintf(heapname, NAMEDATALEN, "chunks_%u", relid);
	snprintf(indexname, NAMEDATALEN, "chunks_%u_index", relid);

	tupdesc = CreateTemplateTupleDesc(AB_CHUNK_NATTS);
	describe_column(tupdesc, AB_CHUNK_VID, "vid", INT8OID);
	describe_column(tupdesc, AB_CHUNK_OFF, "off", INT8OID);
	describe_column(tupdesc, AB_CHUNK_EDITION, "edition", INT4OID);
	describe_column(tupdesc, AB_CHUNK_PREV, "prev", INT4OID);
	describe_column(tupdesc, AB_CHUNK_CRC, "crc", INT4OID);
	describe_column(tupdesc, AB_CHUNK_DATA, "data", BYTEAOID);

	/* a store is no part of the extension whose script makes the table */
	creating_extension = false;
	PG_TRY();
	{
		heapid = heap_create_with_catalog(heapname, schema, table->rd_rel->reltablespace,
										  InvalidOid, InvalidOid, InvalidOid, owner,
										  HEAP_TABLE_AM_OID, tupdesc, NIL,
										  RELKIND_RELATION, table->rd_rel->relpersistence,
										  false, false, ONCOMMIT_NOOP, (Datum) 0,
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
	info->ii_NumIndexAttrs = 3;
	info->ii_NumIndexKeyAttrs = 3;
	info->ii_IndexAttrNumbers[0] = AB_CHUNK_VID;
	info->ii_IndexAttrNumbers[1] = AB_CHUNK_OFF;
	info->ii_IndexAttrNumbers[2] = AB_CHUNK_EDITION;
	info->ii_Unique = true;
	info->ii_ReadyForInserts = true;
	info->ii_Am = BTREE_AM_OID;
	info->ii_Context = CurrentMemoryContext;
	opclasses[0] = opclasses[1] = GetDefaultOpClass(INT8OID, BTREE_AM_OID);
	opclasses[2] = GetDefaultOpClass(INT4OID, BTREE_AM_OID);
	index_create_compat(heap, indexname, info,
						list_make3("vid", "off", "edition"), BTREE_AM_OID,
						table->rd_rel->reltablespace, collations, opclasses, options);
	table_close(heap, NoLock);
	table_close(table, NoLock);

	ObjectAddressSet(object, RelationRelationId, heapid);
	ObjectAddressSet(extension, ExtensionRelationId,
					 get_extension_oid(AB_EXTENSION, false));
	recordDependencyOn(&object, &extension, DEPENDENCY_EXTENSION);
	ab_store_record(relid, heapid, InvalidFullTransactionId);
	ab_store_match(relid);
}

/* Remove the store of a table that is gone or needs none, if it has one. */
void
ab_store_drop(Oid relid)
{
	Oid			heap = ab_store_find(relid);
	ObjectAddress object;

	if (OidIsValid(heap))
	{
		LockRelationOid(heap, AccessExclusiveLock);
		if (ab_store_find(relid) != heap)
			return;
		ObjectAddressSet(object, RelationRelationId, heap);
		performDeletion(&object, DROP_RESTRICT,
						PERFORM_DELETION_INTERNAL | PERFORM_DELETION_SKIP_EXTENSIONS);
	}
	ab_store_record(relid, InvalidOid, InvalidFullTransactionId);
}

/*
 * Do all logical replication slots of this database need nothing any more of what a
 * transaction removed?  With InvalidTransactionId: are there none?
 */
bool
ab_slots_passed(TransactionId xid)
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

/* Does a row of pg_class say that logical decoding may read the table? */
bool
ab_is_decodable(HeapTuple class)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	bytea	   *options = NULL;

	if (((Form_pg_class) GETSTRUCT(class))->relkind == RELKIND_RELATION)
		options = extractRelOptions(class, RelationGetDescr(catalog), NULL);
	table_close(catalog, AccessShareLock);
	return options != NULL && ((StdRdOptions *) options)->user_catalog_table;
}

/* May a logical replication slot that there is still have to read a store? */
bool
ab_store_awaited(Oid heap)
{
	Relation	rel = try_relation_open(heap, AccessShareLock);
	bool		result = rel != NULL && RelationIsUsedAsCatalogTable(rel);

	if (rel != NULL)
		relation_close(rel, AccessShareLock);
	return result && !ab_slots_passed(InvalidTransactionId);
}

/* Refuse to give a store, or its index, a new file if that is so. */
void
ab_refuse_awaited(Oid heap)
{
	if (OidIsValid(heap) && ab_store_awaited(heap))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("chunk store \"%s\" cannot be rewritten while logical replication slots exist",
						get_rel_name(heap)),
				 errhint("Drop the slots first. To clean the store up, plain VACUUM will do.")));
}

/* Would the end of this subtransaction throw away a relation's present file? */
static bool
file_is_temporary(Relation rel)
{
	SubTransactionId now = GetCurrentSubTransactionId();

	return rel->rd_createSubid == now || rel->rd_newRelfileSubid_compat == now;
}

/*
 * Empty the store of a table that is being truncated: in place if a rollback would
 * throw its files away anyway, else by new ones, so that the old ones come back
 * with it.  What may be done to the table's file says nothing about the store's: a
 * table that was rewritten in this transaction, which its store was not, is
 * truncated in place.  In a store that logical decoding may still read the chunks are
 * deleted one by one: a new file would break every slot that lags.
 */
void
ab_store_truncate(Oid relid)
{
	AbStore		store;
	Oid			heap;

	if (IsBinaryUpgrade || !ab_store_open(relid, AccessExclusiveLock, &store))
		return;
	heap = RelationGetRelid(store.heap);
	if (ab_store_awaited(heap))
	{
		ab_chunks_delete_all(store.heap);
		ab_store_close(&store, NoLock);
	}
	else if (file_is_temporary(store.heap) && file_is_temporary(store.index))
	{
		heap_truncate_one_rel(store.heap);
		ab_store_close(&store, NoLock);
	}
	else
	{
		RelationSetNewRelfilenumber_compat(store.heap, store.heap->rd_rel->relpersistence);
		ab_store_close(&store, NoLock);
		reindex_relation_compat(heap);
	}
}

/*
 * Do changes of this table go to a publication?  It may be made before the server is
 * set to write what logical decoding needs.
 */
static bool
is_published(Relation table)
{
	PublicationDesc desc;

	if (!is_publishable_relation(table))
		return false;
	RelationBuildPublicationDesc(table, &desc);
	return desc.pubactions.pubinsert || desc.pubactions.pubupdate;
}

/*
 * ALTER TABLE on a store or its index, as its owner: the user owns the table only.
 * An error ends the transaction or subtransaction, which puts the user back.
 */
static void
alter_store(Oid heap, AlterTableType subtype, const char *name, Node *def)
{
	AlterTableCmd *cmd = makeNode(AlterTableCmd);
	Oid			user;
	int			security;

	cmd->subtype = subtype;
	cmd->name = name ? pstrdup(name) : NULL;
	cmd->def = def;
	cmd->behavior = DROP_RESTRICT;
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(schema_owner(ab_schema_oid()), security | SECURITY_LOCAL_USERID_CHANGE);

	/* not part of the command that event triggers are told about */
	EventTriggerInhibitCommandCollection();
	ab_store_matching = true;
	PG_TRY();
	{
		AlterTableInternal(heap, list_make1(cmd), false);
	}
	PG_FINALLY();
	{
		ab_store_matching = false;
		EventTriggerUndoInhibitCommandCollection();
	}
	PG_END_TRY();
	SetUserIdAndSecContext(user, security);
	CommandCounterIncrement();
}

/* The name of a tablespace, the database's own for 0. */
static char *
tablespace_name(Oid tablespace)
{
	return get_tablespace_name(OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace);
}

/*
 * Set pg_class.relrewrite, which is why logical decoding leaves out all changes of a
 * relation: pg_upgrade does not bring it along.
 */
void
ab_set_relrewrite(Oid relid, Oid relrewrite)
{
	Relation	rel = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	((Form_pg_class) GETSTRUCT(tuple))->relrewrite = relrewrite;
	CatalogTupleUpdate(rel, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

/* A table and its store, as they are. */
typedef struct StorePair
{
	FormData_pg_class table;
	FormData_pg_class store;
	bool		published;		/* the table is */
	bool		decodable;		/* logical decoding may read the store */
	bool		moved;			/* store and table are in two tablespaces */
} StorePair;

/* Is the index of a store that is not being altered somewhere else than in a tablespace? */
static bool
index_is_elsewhere(Oid heap, Oid tablespace)
{
	Relation	rel = ConditionalLockRelationOid(heap, AccessShareLock) ? try_relation_open(heap, NoLock) : NULL;
	bool		result = false;
	ListCell   *lc;

	if (rel == NULL)
		return false;
	foreach(lc, RelationGetIndexList(rel))
		result = result || get_rel_tablespace(lfirst_oid(lc)) != tablespace;
	relation_close(rel, AccessShareLock);
	return result;
}

/*
 * Look at a table and its store: false if there is no store or it is like the table.  No
 * lock on the store is waited for: who just publishes its table may have it.
 */
static bool
differs(Oid relid, StorePair *pair)
{
	Relation	table = try_relation_open(relid, AccessShareLock);
	HeapTuple	class = NULL;

	if (table == NULL)
		return false;
	if (ab_is_appendable(table))
		class = SearchSysCache1(RELOID, ObjectIdGetDatum(ab_store_find(relid)));
	if (HeapTupleIsValid(class))
	{
		memcpy(&pair->table, table->rd_rel, CLASS_TUPLE_SIZE);
		memcpy(&pair->store, GETSTRUCT(class), CLASS_TUPLE_SIZE);
		pair->published = is_published(table);
		pair->decodable = ab_is_decodable(class);
		pair->moved = pair->store.reltablespace != pair->table.reltablespace ||
			index_is_elsewhere(pair->store.oid, pair->table.reltablespace);
		ReleaseSysCache(class);
	}
	relation_close(table, AccessShareLock);
	return HeapTupleIsValid(class) &&
		(pair->store.relrewrite != relid ||
		 pair->store.relpersistence != pair->table.relpersistence ||
		 pair->moved || (pair->published && !pair->decodable));
}

/* Have a store's table and index in a tablespace. */
static void
move_store(Oid relid, Oid tablespace)
{
	AbStore		store;
	Oid			heap;
	Oid			index;

	if (!ab_store_open(relid, AccessExclusiveLock, &store))
		return;
	heap = RelationGetRelid(store.heap);
	index = RelationGetRelid(store.index);
	ab_store_close(&store, NoLock);
	alter_store(heap, AT_SetTableSpace, tablespace_name(tablespace), NULL);
	alter_store(index, AT_SetTableSpace, tablespace_name(tablespace), NULL);
}

/*
 * Make the store of a table like the table: persistence, tablespace, and whether
 * logical decoding may read it.  Who publishes one table looks at the stores of all, so
 * those that are as they must be are left without a lock; changes come one after the other.
 */
void
ab_store_match(Oid relid)
{
	StorePair	pair;

	if (!differs(relid, &pair))
		return;
	LockRelationOid(relid, ShareUpdateExclusiveLock);
	if (!differs(relid, &pair))
		return;
	if (pair.store.relrewrite != relid)
		ab_set_relrewrite(pair.store.oid, relid);

	if (pair.store.relpersistence != pair.table.relpersistence)
	{
		ab_refuse_awaited(pair.store.oid);
		/* the server rewrites no table that is marked as this */
		if (pair.decodable)
			alter_store(pair.store.oid, AT_ResetRelOptions, NULL,
						(Node *) list_make1(makeDefElem("user_catalog_table", NULL, -1)));
		pair.decodable = false;
		alter_store(pair.store.oid,
					pair.table.relpersistence == RELPERSISTENCE_PERMANENT ? AT_SetLogged : AT_SetUnLogged,
					NULL, NULL);
	}

	/* where chunks are matters less than that a slot finds them */
	if (pair.moved && !ab_store_awaited(pair.store.oid))
		move_store(relid, pair.table.reltablespace);

	/* once decodable, always: slots that were made meanwhile may count on it */
	if (pair.published && !pair.decodable)
		alter_store(pair.store.oid, AT_SetRelOptions, NULL,
					(Node *) list_make1(makeDefElem("user_catalog_table",
													(Node *) makeString("true"), -1)));
}

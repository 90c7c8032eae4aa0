/*-------------------------------------------------------------------------
 *
 * keep.c
 *	  DROP TABLE: a table goes into the pool.
 *
 * keep_table() does to a plain table what makes it look dropped: its row in
 * pg_class, its two types, its keys and constraints leave their names.  These are
 * ordinary updates of catalog rows, so a rollback undoes them and nothing is to be
 * done here.  The TOAST table, columns and dependencies are left as they are.
 *
 * The rows of the table are needed until the DROP is committed.  recycle.c decides
 * about the files then.  The horizon of pg_class (relfrozenxid) moves on
 * only if the file is empty: VACUUM must not find rows that are older.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "catalog/storage.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "common/hashfn.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/pgstat_internal.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat_catalog.h"
#include "compat_storage.h"
#include "rename.h"

/*
 * How often the session dropped tables of these columns: one that is dropped once
 * is not worth keeping.  A hash collision keeps a table too early, which is harmless.
 */
#define SEEN 256
static struct
{
	uint32		hash;
	int			drops;
}			seen[SEEN];

static uint32
columns_hash(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	uint32		hash = desc->natts;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		hash = hash_combine(hash, hash_bytes((const unsigned char *) NameStr(column->attname), strlen(NameStr(column->attname))));
		hash = hash_combine(hash, column->atttypid);
	}
	return hash;
}

/* Count the DROP of a table.  A statement counts all of its tables first, so that the last one decides for all. */
void
keep_count_drop(Relation rel)
{
	uint32		hash = columns_hash(rel);

	if (seen[hash % SEEN].hash != hash)
	{
		seen[hash % SEEN].hash = hash;
		seen[hash % SEEN].drops = 0;
	}
	if (seen[hash % SEEN].drops < recycled_after_drops)
		seen[hash % SEEN].drops++;
}

/* Were enough tables like this one dropped? */
bool
keep_worthwhile(Relation rel)
{
	uint32		hash;

	if (pool_knows(RelationGetRelid(rel)))
		return true;
	hash = columns_hash(rel);
	return seen[hash % SEEN].hash == hash && seen[hash % SEEN].drops >= recycled_after_drops;
}

static void
drop_indexes(List *indexes)
{
	ObjectAddresses *objects = new_object_addresses();
	ListCell   *lc;

	foreach(lc, indexes)
	{
		ObjectAddress object;

		ObjectAddressSet(object, RelationRelationId, lfirst_oid(lc));
		add_exact_object_address(&object, objects);
	}
	performMultipleDeletions(objects, DROP_RESTRICT, PERFORM_DELETION_INTERNAL | PERFORM_DELETION_QUIETLY);
	free_object_addresses(objects);
}

/*
 * Write the pages of the files that stay as they are.  The owner of the table may
 * lose it to a DROP OWNED of another session, and a dirty page without a file would
 * be an error of any later statement that needs its buffer.
 */
static void
write_pages(Relation rel, RecycledTable *table)
{
	List	   *relids = NIL;
	ListCell   *lc;

	if (table->key_used)
	{
		FlushRelationBuffers(rel);
		foreach(lc, table->keys)
			relids = lappend_oid(relids, ((RecycledKey *) lfirst(lc))->index);
	}
	if (table->toast_used)
	{
		Relation	toast = table_open(table->toast, AccessShareLock);

		relids = list_concat(list_make1_oid(table->toast), list_concat_copy(relids, RelationGetIndexList(toast)));
		table_close(toast, NoLock);
	}
	foreach(lc, relids)
	{
		Relation	part = relation_open(lfirst_oid(lc), AccessShareLock);

		FlushRelationBuffers(part);
		relation_close(part, NoLock);
	}
}

/*
 * Put a table into the pool and close it.  inspect_table() found it plain, it is
 * locked and not in use.  "row" is afterwards the one that was stored, by the last
 * command.
 */
void
keep_table(Relation rel, RecycledTable *table)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	HeapTuple	row;
	Form_pg_class form;
	ListCell   *lc;
	char	   *name = pool_name(table->relid);

	InvokeObjectDropHook(RelationRelationId, table->relid, 0);
	if (table->key_used || table->toast_used)
		write_pages(rel, table);
	if (table->indexes)
		drop_indexes(table->indexes);
	pgstat_drop_relation(rel);
	remove_on_commit_action(table->relid);
	if (table->has_statistics)
		RemoveStatistics(table->relid, 0);

	if (table->indexes)
		table->row = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(table->relid));
	row = table->row;
	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for relation %u", table->relid);
	form = (Form_pg_class) GETSTRUCT(row);
	namestrcpy(&form->relname, name);
	form->relpages = 0;
	form->reltuples = -1;
	form->relallvisible = 0;
	ClassResetAllFrozen_compat(form);
	form->relhasindex = table->keys != NIL;
	if (blocks == 0)
	{
		form->relfrozenxid = RecentXmin;
		form->relminmxid = GetOldestMultiXactId();
	}
	else if (smgrexists(RelationGetSmgr(rel), VISIBILITYMAP_FORKNUM))

		/*
		 * bits of the map must not survive the rows: a new file, as TRUNCATE
		 * makes one
		 */
		rename_new_file(rel, form);
	rename_class(row);
	rename_types(table->rowtype, table->arraytype, name, makeObjectName("", name, NULL));
	foreach(lc, table->keys)
	{
		RecycledKey *key = lfirst(lc);

		LockRelationOid(key->index, AccessExclusiveLock);
		rename_index(key->index, pool_name(key->index), 0);
		rename_constraint(key->constraint, pool_name(key->constraint));
		pgstat_drop_transactional(PGSTAT_KIND_RELATION, MyDatabaseId, key->index);
	}
	foreach(lc, table->notnulls)
	{
		Oid			constraint = ((RecycledKey *) lfirst(lc))->constraint;

		rename_constraint(constraint, pool_name(constraint));
	}
	if (OidIsValid(table->toast))
		pgstat_drop_transactional(PGSTAT_KIND_RELATION, MyDatabaseId, table->toast);
	table_close(rel, NoLock);
	CommandCounterIncrement();
	pool_add(table->relid, shape_hash(&table->shape));
	recycled_kept++;
}

/*-------------------------------------------------------------------------
 *
 * recycle.c
 *	  DROP TABLE and CREATE TABLE by way of the pool, and what follows at the end
 *	  of the transaction.
 *
 * The rows in a pooled table's files are garbage for good once the transaction
 * that dropped it is committed.  A table whose pg_class row was last written by
 * another transaction is therefore truncated in place when it is used again:
 * however the current transaction ends, no statement can read these rows.  If
 * the row was written by the current transaction, a rollback may bring the old
 * table back, and the new one gets a new file, as TRUNCATE makes one; only a file
 * that this very subtransaction made is truncated in place.
 *
 * At commit, files of tables that were pooled in the transaction are emptied and
 * their pages leave the local buffers.  A heap with a filled index keeps both, so
 * that they agree if a command goes over them; recycle_create() empties them.  An
 * error at commit is ignored, because recycle_create() checks the files anyway.
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
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/sinval.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat_catalog.h"
#include "compat_storage.h"
#include "compat_table.h"
#include "rename.h"

typedef struct KeptFile
{
	RowVersion	version;
	RelFileLocator_compat locator;
} KeptFile;

/* Both in TopTransactionContext. */
static List *kept = NIL;		/* KeptFile: pooled, the file has pages */
static List *to_empty = NIL;	/* RelFileLocator_compat: once committed */

/* ---- DROP ---- */

/* Pool a table that was inspected, and note that its files are to be emptied. */
static void
keep(Relation rel, RecycledTable *table)
{
	bool		empty = RelationGetNumberOfBlocks(rel) == 0;

	keep_table(rel, table);
	if (!empty && !table->key_used)
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
		KeptFile   *file = palloc(sizeof(KeptFile));

		file->version.relid = table->relid;
		file->version.xmin = GetCurrentTransactionId();
		file->version.cmin = GetCurrentCommandId(false) - 1;
		file->locator = inspect_locator((Form_pg_class) GETSTRUCT(table->row));
		kept = lappend(kept, file);
		MemoryContextSwitchTo(old);
	}
}

/*
 * Has another relation the name that the table, or one of its indexes, would get?  Each
 * lookup costs an index scan, so a table that was in the pool before, with these names, is
 * not checked again.
 */
static bool
pool_names_are_taken(RecycledTable *table, Oid schema)
{
	bool		taken;
	ListCell   *lc;

	if (pool_knows(table->relid))
		return false;
	taken = OidIsValid(get_relname_relid(pool_name(table->relid), schema));
	foreach(lc, table->keys)
		taken = taken || OidIsValid(get_relname_relid(pool_name(((RecycledKey *) lfirst(lc))->index), schema));
	return taken;
}

/* "at_commit": the transaction makes no other table of it */
static bool
may_keep(Relation rel, RecycledTable *table, bool at_commit)
{
	const char *why_not;

	if (recycled_max_tables == 0 || !keep_worthwhile(rel))
		return false;
	why_not = inspect_table(RelationGetRelid(rel), table);

	/*
	 * such a table could not be used before the commit, and the next one like
	 * it would be kept, too
	 */
	if (why_not == NULL && !at_commit && (rel->rd_createSubid != InvalidSubTransactionId || HasNewStorage_compat(rel)))
	{
		if (!on_commit_has_no_entry(table->relid))
			why_not = "it has an ON COMMIT action of this transaction";
		else if ((table->keys || table->toast_used) && !CreatedInSubTransaction_compat(rel, GetCurrentSubTransactionId()))
			why_not = "it has rows of an outer subtransaction in an index or in TOAST";
	}
	if (why_not == NULL && pool_names_are_taken(table, RelationGetNamespace(rel)))
		why_not = "another table has the name that it would get";
	if (why_not)
		elog(DEBUG1, "recycled_temp: table \"%s\" is not kept: %s", RelationGetRelationName(rel), why_not);
	return why_not == NULL;
}

/* A temporary table of this session that this role may drop, or none. */
static Oid
droppable_table(RangeVar *rv)
{
	Oid			relid = RangeVarGetRelid(rv, NoLock, true);
	HeapTuple	row = OidIsValid(relid) ? SearchSysCache1(RELOID, ObjectIdGetDatum(relid)) : NULL;
	Form_pg_class form;
	bool		droppable;

	if (!HeapTupleIsValid(row))
		return InvalidOid;
	form = (Form_pg_class) GETSTRUCT(row);
	droppable = form->relpersistence == RELPERSISTENCE_TEMP && form->relkind == RELKIND_RELATION &&
		isTempNamespace(form->relnamespace) && RelationOwnerCheck_compat(relid, GetUserId()) &&
		strncmp(NameStr(form->relname), RECYCLED_PREFIX, strlen(RECYCLED_PREFIX)) != 0;
	ReleaseSysCache(row);
	return droppable ? relid : InvalidOid;
}

/*
 * Lock the table that a name means.  NULL if the session may not drop it, or if the
 * name means another table by the time it is locked.
 */
static Relation
open_droppable(List *name)
{
	RangeVar   *rv = makeRangeVarFromNameList(name);
	uint64		messages = SharedInvalidMessageCounter;
	Oid			relid = droppable_table(rv);
	Relation	rel = OidIsValid(relid) ? try_relation_open(relid, AccessExclusiveLock) : NULL;

	if (rel != NULL && messages != SharedInvalidMessageCounter && droppable_table(rv) != relid)
	{
		relation_close(rel, NoLock);
		rel = NULL;
	}
	return rel;
}

/*
 * Rows of pg_class are copied, judged and then updated.  Meanwhile VACUUM FULL by
 * another session must not move them.
 */
static void
lock_pg_class(void)
{
	LockRelationOid(RelationRelationId, RowExclusiveLock);
}

static void
unlock_pg_class(void)
{
	UnlockRelationOid(RelationRelationId, RowExclusiveLock);
}

/*
 * Pool the tables of a DROP TABLE: all of them, or none, and then the server drops
 * them.
 */
bool
recycle_drop(DropStmt *stmt)
{
	int			n = 0,
				count = list_length(stmt->objects);
	Relation   *rels;
	RecycledTable *tables;
	ListCell   *lc;
	bool		all = true;
	Oid			schema,
				toast_schema;

	/* a session without temporary tables pays for no lookup */
	GetTempNamespaceState(&schema, &toast_schema);
	if (!OidIsValid(schema) || count > recycled_max_tables || stmt->concurrent)
		return false;
	rels = palloc(count * sizeof(Relation));
	tables = palloc(count * sizeof(RecycledTable));
	foreach(lc, stmt->objects)
	{
		rels[n] = open_droppable(lfirst(lc));
		all = rels[n] != NULL;
		for (int i = 0; all && i < n; i++)
			all = RelationGetRelid(rels[i]) != RelationGetRelid(rels[n]);
		if (rels[n] != NULL)
			n++;
		if (!all)
			break;
	}
	for (int i = 0; all && i < n; i++)
		keep_count_drop(rels[i]);
	lock_pg_class();
	for (int i = 0; all && i < n; i++)
		all = may_keep(rels[i], &tables[i], false);
	for (int i = 0; i < n; i++)
	{
		if (all)
		{
			CheckTableNotInUse(rels[i], "DROP TABLE");
			keep(rels[i], &tables[i]);
		}
		else
			relation_close(rels[i], NoLock);
	}
	unlock_pg_class();
	if (all)
		pool_make_room();
	return all;
}

/* ---- CREATE ---- */

/* Are the names of the keys and NOT NULL constraints of a table free? */
static bool
names_are_free(RecycledTable *table, const char *relname, Oid schema, List *key_names, List **notnull_names)
{
	ListCell   *lc;

	if (list_length(key_names) != list_length(table->keys))
		return false;
	foreach(lc, key_names)
	{
		char	   *name = lfirst(lc);

		for (int i = 0; i < foreach_current_index(lc); i++)
			if (strcmp(list_nth(key_names, i), name) == 0)
				return false;
		if (OidIsValid(get_relname_relid(name, schema)) || ConstraintNameExists(name, schema) ||
			strcmp(name, relname) == 0)
			return false;
	}
	foreach(lc, table->notnulls)
	{
		RecycledKey *key = lfirst(lc);
		char	   *name = makeObjectName(relname, get_attname(table->relid, key->columns[0], false), "not_null");
		ListCell   *lc2;

		if (ConstraintNameExists(name, schema))
			return false;
		foreach(lc2, *notnull_names)
			if (strcmp(lfirst(lc2), name) == 0)
			return false;
		*notnull_names = lappend(*notnull_names, name);
	}
	return true;
}

/* Did this subtransaction make all files of a table, or empty them? */
static bool
has_own_files(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	bool		own = CreatedInSubTransaction_compat(rel, GetCurrentSubTransactionId());

	table_close(rel, NoLock);
	return own;
}

/*
 * Find a pooled table of this shape that can be used now.  "in_place": its files can
 * be truncated; otherwise only its heap has rows, and it needs a new file.
 */
static RecycledEntry *
find_candidate(RecycledRequest *request, uint32 hash, RecycledTable *table, bool *settled, bool *in_place)
{
	StringInfo	shape = &request->shape;

	for (int i = 0; i < list_length(recycled_pool); i++)
	{
		RecycledEntry *entry = list_nth(recycled_pool, i);
		const char *why_not;

		if (entry->hash != hash)
			continue;
		/* a rollback may bring back a table that is gone */
		if (!pool_sees(entry) || pool_in_use(entry->relid) || !ConditionalLockRelationOid(entry->relid, AccessExclusiveLock))
			continue;

		why_not = inspect_table(entry->relid, table);
		if (why_not == NULL && (table->indexes || table->has_statistics))
			why_not = "it got indexes or statistics";
		if (why_not == NULL && (table->shape.len != shape->len || memcmp(table->shape.data, shape->data, shape->len) != 0))
			why_not = "its shape has been changed";
		if (why_not)
		{
			elog(DEBUG1, "recycled_temp: pooled table %u is not used: %s", entry->relid, why_not);
			(void) pool_drop(entry);
			continue;
		}
		*settled = !TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(table->row->t_data));
		if (!*settled && !on_commit_has_no_entry(entry->relid))
			continue;
		if (!defaults_match(table, request))
			continue;
		*in_place = *settled || has_own_files(entry->relid);
		if (*in_place || (!table->toast_used && table->keys == NIL))
			return entry;
	}
	return NULL;
}

static void
assume_new_file(Oid relid, LOCKMODE lockmode)
{
	Relation	part = relation_open(relid, lockmode);

	RelationAssumeNewFile_compat(part);
	relation_close(part, NoLock);
}

/*
 * Let the files of TOAST and of indexes, which no other command of the transaction has
 * filled, count as new: pg_truncate_temp_relation() of parallel_temp looks at all files.
 */
static void
assume_new_parts(RecycledTable *table)
{
	ListCell   *lc;

	foreach(lc, table->keys)
		assume_new_file(((RecycledKey *) lfirst(lc))->index, NoLock);
	if (OidIsValid(table->toast))
	{
		assume_new_file(table->toast, AccessShareLock);
		assume_new_file(table->toast_index, AccessShareLock);
	}
}

/* The conditions under which the server creates a temporary table; false: the server reports why not. */
static bool
may_create(RangeVar *rv, Oid *schema)
{
	Oid			existing;

	if (InSecurityRestrictedOperation())
		return false;
	*schema = RangeVarGetAndCheckCreationNamespace(rv, NoLock, &existing);
	return !OidIsValid(existing) && isTempNamespace(*schema) &&
		get_user_default_acl(OBJECT_TABLE, GetUserId(), *schema) == NULL &&
		get_user_default_acl(OBJECT_TYPE, GetUserId(), *schema) == NULL &&
		!SearchSysCacheExists2(TYPENAMENSP, CStringGetDatum(rv->relname), ObjectIdGetDatum(*schema));
}

/*
 * Make the table of a statement of a pooled one.  Returns its OID, or none if the
 * server has to create a table.
 */
Oid
recycle_create(RecycledRequest *request)
{
	RangeVar   *rv;
	OnCommitAction oncommit = request->oncommit;
	List	   *key_names = request->key_names;
	Oid			schema;
	RecycledEntry *entry;
	RecycledTable table;
	Form_pg_class form;
	Relation	rel;
	List	   *notnull_names = NIL;
	uint32		hash = shape_hash(&request->shape);
	bool		settled;
	bool		in_place;

	if (!pool_has(hash))
		return InvalidOid;
	rv = copyObject(request->relation);
	if (!may_create(rv, &schema))
		return InvalidOid;
	lock_pg_class();
	entry = find_candidate(request, hash, &table, &settled, &in_place);
	if (entry == NULL || !names_are_free(&table, rv->relname, schema, key_names, &notnull_names))
	{
		unlock_pg_class();
		return InvalidOid;
	}

	form = (Form_pg_class) GETSTRUCT(table.row);
	namestrcpy(&form->relname, rv->relname);
	if (in_place)
	{
		form->relfrozenxid = RecentXmin;
		form->relminmxid = GetOldestMultiXactId();
	}
	else
	{
		rel = table_open(table.relid, NoLock);
		rename_new_file(rel, form);
		table_close(rel, NoLock);
	}
	rename_class(table.row);
	rename_types(table.rowtype, table.arraytype, rv->relname, makeArrayTypeName(rv->relname, schema));
	for (int i = 0; i < list_length(table.keys); i++)
	{
		RecycledKey *key = list_nth(table.keys, i);

		LockRelationOid(key->index, AccessExclusiveLock);
		rename_index(key->index, list_nth(key_names, i), 1);
		rename_constraint(key->constraint, list_nth(key_names, i));
	}
	for (int i = 0; i < list_length(table.notnulls); i++)
		rename_constraint(((RecycledKey *) list_nth(table.notnulls, i))->constraint, list_nth(notnull_names, i));
	unlock_pg_class();
	CommandCounterIncrement();

	/* other files are new in this subtransaction, or it has done this before */
	if (settled || !in_place)
	{
		rollback_note(&table, settled);
		assume_new_parts(&table);
	}
	rel = table_open(table.relid, NoLock);
	if (in_place && (table.toast_used || table.key_used))
		heap_truncate_one_rel(rel);
	else if (in_place && RelationGetNumberOfBlocks(rel) > 0)
		table_relation_nontransactional_truncate(rel);
	/* COPY FREEZE, TRUNCATE and loads know a new table by this */
	RelationAssumeNewFile_compat(rel);
	if (settled)
	{
		/*
		 * a DROP of this transaction has its own statistics still to drop, at
		 * commit
		 */
		if (pgstat_have_entry(PGSTAT_KIND_RELATION, MyDatabaseId, table.relid))
			pgstat_reset(PGSTAT_KIND_RELATION, MyDatabaseId, table.relid);
		else
			pgstat_create_relation(rel);
	}
	table_close(rel, NoLock);
	if (oncommit != ONCOMMIT_NOOP)
		register_on_commit_action(table.relid, oncommit);
	InvokeObjectPostCreateHook(RelationRelationId, table.relid, 0);
	on_commit_created(table.relid, oncommit);
	recycled_reused++;
	return table.relid;
}

/* ---- the end of the transaction ---- */

static void
pool_on_commit_drop(void)
{
	ListCell   *lc;

	foreach(lc, on_commit_take_drops())
	{
		RowVersion *made = lfirst(lc);
		HeapTuple	row = row_version_get(made);
		RecycledTable table;
		Relation	rel;

		if (!row)
			continue;
		ReleaseSysCache(row);
		rel = try_relation_open(made->relid, AccessExclusiveLock);
		if (rel == NULL)
			continue;
		keep_count_drop(rel);
		lock_pg_class();
		if (rel->rd_refcnt == 1 && may_keep(rel, &table, true))
			keep(rel, &table);
		else
			relation_close(rel, NoLock);
		unlock_pg_class();
	}
}

/*
 * Which files are to be emptied: those of tables that are still as they were pooled.
 * That is sure if no command came after the DROP, and no savepoint before it.
 */
static void
note_files(void)
{
	ListCell   *lc;

	foreach(lc, kept)
	{
		KeptFile   *file = lfirst(lc);
		HeapTuple	row;
		MemoryContext old;

		if (file->version.cmin + 1 != GetCurrentCommandId(false) || file->version.xmin != GetTopTransactionIdIfAny())
		{
			row = row_version_get(&file->version);
			if (!row)
				continue;
			ReleaseSysCache(row);
		}
		old = MemoryContextSwitchTo(TopTransactionContext);
		to_empty = lappend(to_empty, &file->locator);
		MemoryContextSwitchTo(old);
	}
}

void
recycle_at_pre_commit(void)
{
	bool		expired = pool_timer_fired();

	if (!on_commit_has_drops() && kept == NIL && !expired && !pool_has_gone())
		return;
	/* the last of several statements of one message has not done this */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (on_commit_has_drops() && hooks_usable())
	{
		pool_on_commit_drop();
		pool_make_room();
	}
	if (expired && !IsInParallelMode())
		(void) pool_empty(true);
	if (expired && pool_has_tables())
		pool_arm_timer();
	note_files();
	if (pool_has_gone())
		pool_mark_gone();
	PopActiveSnapshot();
}

/* The transaction is committed: no error may leave this function. */
void
recycle_at_commit(void)
{
	MemoryContext old = CurrentMemoryContext;
	ListCell   *lc;

	foreach(lc, to_empty)
	{
		PG_TRY();
		{
			rollback_empty_heap(smgropen(*(RelFileLocator_compat *) lfirst(lc), TempFileOwner_compat()));
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(old);
			FlushErrorState();
		}
		PG_END_TRY();
	}
}

void
recycle_at_end(void)
{
	(void) on_commit_take_drops();
	kept = to_empty = NIL;
}

/*-------------------------------------------------------------------------
 *
 * truncate.c
 *	  pg_truncate_temp_relation(): empty a temporary table without a trace.
 *
 * TRUNCATE gives the table, its indexes and its TOAST table new files, whose names are in
 * pg_class, so that it can be rolled back.  Here the same files are cut to no length:
 * buffers are dropped, all forks are truncated, and each index is built by its access
 * method over no rows.  That needs no transaction ID, writes no WAL and no row of a catalog,
 * and sends no invalidation message, not even that of the storage manager: no other
 * process has these files open.
 *
 * So it cannot be rolled back.  Invariant: whatever is rolled back later, an index never
 * has entries for rows that were removed here.  The server restores the files that the
 * table and its indexes had before a failed subtransaction, and indexes that it dropped;
 * these must not be older than the truncation.  Hence the call is refused if the current
 * transaction has given one of the relations another file, or has dropped or changed an
 * index, except if all files belong to the current subtransaction: then they
 * are removed with everything in them (the server's TRUNCATE truncates in place as well then).
 * A transaction that has modified rows has to ask for it, since ROLLBACK would not bring
 * back those that the table had before.
 *
 * Indexes are truncated before their table, and nothing interrupts in between.  If
 * a file cannot be truncated or an index cannot be built (a full disk), the indexes have no
 * pages, so using them fails; calling the function again, TRUNCATE or REINDEX repairs them.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/index.h"
#include "catalog/objectaccess.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "buffers/buffers.h"
#include "compat_storage.h"
#include "compat_table.h"
#include "statistics/gathered.h"

PG_FUNCTION_INFO_V1(pg_truncate_temp_relation);

/*
 * Open a table that may be truncated by this user; privileges are checked first.
 */
static Relation
open_table(Oid relid)
{
	char	   *name = get_rel_name(relid);
	Relation	rel;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (get_rel_relkind(relid) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table with storage", name),
				 errhint("Name a temporary table; of a partitioned one, each partition.")));
	if (pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, name);

	/* no other session can read the table, and this lock keeps away DROP */
	rel = table_open(relid, AccessShareLock);
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" is not temporary", name),
				 errhint("Use TRUNCATE.")));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot truncate temporary tables of other sessions")));
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the access method of table \"%s\" is not heap", name),
				 errhint("Use TRUNCATE.")));
	if (rel->trigdesc != NULL &&
		(rel->trigdesc->trig_truncate_before_statement || rel->trigdesc->trig_truncate_after_statement))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" has triggers for TRUNCATE", name),
				 errhint("Use TRUNCATE.")));
	InvokeObjectTruncateHook(relid);

	/* open cursors and queries, and pending trigger events */
	CheckTableNotInUse(rel, "empty");
	heap_truncate_check_FKs(list_make1(rel), false);
	return rel;
}

/* ---- what a rollback would bring back ------------------------------------- */

/*
 * Has the current transaction dropped or changed an index of this table?
 */
static bool
indexes_have_changed(Relation rel)
{
	Relation	catalog = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		result = false;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RelationGetRelid(rel)));
	scan = systable_beginscan(catalog, IndexIndrelidIndexId, true, SnapshotAny, 1, &key);
	while (!result && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		HeapTupleHeader header = tuple->t_data;

		result = !(header->t_infomask & HEAP_XMAX_INVALID) &&
			!HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

static bool
lock_is_held(Relation rel, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, rel->rd_lockInfo.lockRelId.dbId, rel->rd_lockInfo.lockRelId.relId);
	return LockHeldByMe_compat(&tag, mode);
}

/*
 * Statements that modify rows lock the table with RowExclusiveLock, or with a stronger
 * one that conflicts with it, to the end of the transaction; a subtransaction that fails
 * releases it.  (ShareLock and ShareUpdateExclusiveLock are those of CREATE INDEX and ANALYZE.)
 */
static bool
rows_may_have_changed(Relation rel)
{
	return lock_is_held(rel, RowExclusiveLock) || lock_is_held(rel, ShareRowExclusiveLock) ||
		lock_is_held(rel, ExclusiveLock) || lock_is_held(rel, AccessExclusiveLock);
}

/*
 * ERROR if the transaction could be rolled back to something that is wrong, or, without
 * "force", to other rows than the table has then.
 */
static void
check_transaction(Relation rel, Relation *rels, int n, bool force)
{
	bool		changed = false;
	bool		all_new = true;

	for (int i = 0; i < n; i++)
	{
		changed = changed || HasNewStorage_compat(rels[i]);
		/* the table may be alone: SET TABLESPACE moves no index */
		all_new = all_new && CreatedInSubTransaction_compat(rels[i], GetCurrentSubTransactionId());
	}
	/* what a rollback restores is older than the files that are truncated */
	if (all_new)
		return;
	/* DROP INDEX takes that lock on the table */
	if (changed || (lock_is_held(rel, AccessExclusiveLock) && indexes_have_changed(rel)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot empty table \"%s\" because this transaction has changed its files or indexes", RelationGetRelationName(rel)),
				 errdetail("A rollback would restore index entries for rows that do not exist any more."),
				 errhint("Commit first, or use TRUNCATE.")));
	if (!force && rows_may_have_changed(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot empty table \"%s\" because this transaction has modified it", RelationGetRelationName(rel)),
				 errdetail("A rollback would not bring back the rows that the table had before."),
				 errhint("Commit first, use TRUNCATE, or pass \"force\" as true if the table may be empty after a rollback.")));
}

/* ---- files and indexes ------------------------------------------------------ */

/*
 * The data about an index's pages in the relation cache.
 */
static void
forget_pages(Relation rel)
{
	if (rel->rd_amcache != NULL)
		pfree(rel->rd_amcache);
	rel->rd_amcache = NULL;
	RelationCloseSmgr(rel);
}

/*
 * Build an index over an empty table.
 */
static void
build_empty(Relation heap, Relation index)
{
	IndexInfo  *info = BuildIndexInfo(index);

	(void) index->rd_indam->ambuild(heap, index, info);
	forget_pages(index);
}

/*
 * pg_truncate_temp_relation(rel regclass, force boolean) -> void
 *
 * Remove all rows of a temporary table of this session; inherited tables keep theirs.
 * With "force" also in a transaction that has modified it.
 */
Datum
pg_truncate_temp_relation(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	bool		force = PG_GETARG_BOOL(1);
	Relation	rel;
	Relation   *rels;
	int			n;
	MemoryContext context;
	MemoryContext old;
	Oid			user;
	int			security;
	int			nest_level;

	pt_require_no_parallel_operation();
	rel = open_table(relid);
	context = AllocSetContextCreate(CurrentMemoryContext, "pg_truncate_temp_relation", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	rels = pt_localbuf_open_relations(rel, &n);
	check_transaction(rel, rels, n, force);

	/* as for the server's build: functions of the table's owner may be called */
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(rel->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();

	if (pt_localbuf_is_pinned(rels, n))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("pages of table \"%s\" are in use", RelationGetRelationName(rel))));

	HOLD_INTERRUPTS();
	for (int i = n - 1; i >= 0; i--)
	{
		pt_relfile_empty(rd_locator_compat(rels[i]));
		DropAllLocalBuffers_compat(rd_locator_compat(rels[i]));
		forget_pages(rels[i]);
	}
	for (int i = 0; i < n; i++)
	{
		Relation	table = rel;

		if (rels[i]->rd_rel->relkind != RELKIND_INDEX)
			continue;
		/* the other one is the TOAST table, which precedes its index */
		for (int j = 0; j < i; j++)
		{
			if (RelationGetRelid(rels[j]) == rels[i]->rd_index->indrelid)
				table = rels[j];
		}
		build_empty(table, rels[i]);
	}
	RESUME_INTERRUPTS();

	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	pgstat_count_truncate(rel);
	pt_gathered_emptied(relid);
	pt_localbuf_close_relations(rels, n, NoLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*-------------------------------------------------------------------------
 *
 * on_commit.c
 *	  ON COMMIT actions of tables that keep their OIDs.
 *
 * The server has a list of tables with an ON COMMIT action, by OID.  The entry of a
 * dropped table stays, marked with the subtransaction of the DROP, until the
 * transaction ends, and a rollback of the latest DROP of this OID revives it.  As an
 * OID is otherwise never used twice in a transaction, no second table may have the
 * OID as long as there may be such an entry: it would be dropped or emptied for the
 * first one.  This file knows tables without an entry; any other may have one.
 *
 * ON COMMIT DROP: tables are pooled before the server drops them.  A table is known
 * by the version of its pg_class row: another version means that the table was
 * dropped, changed, or made again, and the server decides.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "recycled_temp.h"

/* More tables than this are forgotten: then they may have an entry. */
#define WITHOUT_ENTRY_MAX 10000

static HTAB *without_entry = NULL;	/* of Oid */
static List *drop_at_commit = NIL;	/* RowVersion, in TopTransactionContext */

/* Is the table surely not in the server's list? */
bool
on_commit_has_no_entry(Oid relid)
{
	return without_entry != NULL && hash_search(without_entry, &relid, HASH_FIND, NULL) != NULL;
}

static void
remember(Oid relid)
{
	if (without_entry != NULL && hash_get_num_entries(without_entry) >= WITHOUT_ENTRY_MAX)
	{
		hash_destroy(without_entry);
		without_entry = NULL;
	}
	if (without_entry == NULL)
	{
		HASHCTL		info = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid)};

		without_entry = hash_create("recycled_temp tables", 64, &info, HASH_ELEM | HASH_BLOBS);
	}
	(void) hash_search(without_entry, &relid, HASH_ENTER, NULL);
}

static void
forget(Oid relid)
{
	if (without_entry != NULL)
		(void) hash_search(without_entry, &relid, HASH_REMOVE, NULL);
}

/*
 * A table was made, by the server or of a pooled one whose DROP is committed, or it
 * was in "without_entry" before.
 */
void
on_commit_created(Oid relid, OnCommitAction action)
{
	if (action == ONCOMMIT_NOOP)
		remember(relid);
	else
		forget(relid);
	if (action == ONCOMMIT_DROP)
	{
		HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

		if (!HeapTupleIsValid(row))
			return;
		hooks_watch_transactions();
		drop_at_commit = row_version_note(drop_at_commit, row, relid);
		ReleaseSysCache(row);
	}
}

/* The tables made ON COMMIT DROP in this transaction; the caller looks whether they are the same. */
List *
on_commit_take_drops(void)
{
	List	   *drops = drop_at_commit;

	drop_at_commit = NIL;
	return drops;
}

bool
on_commit_has_drops(void)
{
	return drop_at_commit != NIL;
}

/* ---- versions of pg_class rows ---- */

/*
 * Append this version to a list in TopTransactionContext.  It was written by the
 * current transaction.  Its place in pg_class would not do: VACUUM FULL by another
 * session moves rows, and another version of the row may be in that place then.
 */
List *
row_version_note(List *list, HeapTuple row, Oid relid)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	RowVersion *version = palloc(sizeof(RowVersion));

	version->relid = relid;
	version->xmin = HeapTupleHeaderGetRawXmin(row->t_data);
	version->cmin = HeapTupleHeaderGetCmin(row->t_data);
	list = lappend(list, version);
	MemoryContextSwitchTo(old);
	return list;
}

/* The table's pg_class row if it is still this version; the caller releases it. */
HeapTuple
row_version_get(RowVersion *version)
{
	HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(version->relid));

	if (HeapTupleIsValid(row) && (HeapTupleHeaderGetRawXmin(row->t_data) != version->xmin ||
								  HeapTupleHeaderGetCmin(row->t_data) != version->cmin))
	{
		ReleaseSysCache(row);
		row = NULL;
	}
	return row;
}

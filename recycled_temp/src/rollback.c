/*-------------------------------------------------------------------------
 *
 * rollback.c
 *	  Files of reused tables whose CREATE is rolled back.
 *
 * A rollback removes the files of a table that the server has created.  A table that
 * was reused returns to the pool with its files, so their rows are removed here, and
 * their pages leave the local buffers unwritten.  Otherwise the rows would take disk
 * space until the next reuse, and if another session removed the files (DROP OWNED), any
 * statement that needs the buffer of a dirty page would fail.
 *
 * recycle_create() notes the files.  Invariant: a noted file has no rows that a rollback
 * of the current subtransaction restores.  The table was dropped by a transaction that
 * is committed, or the file has no rows yet.
 *
 * Files are emptied when the resource owner of the failed (sub)transaction has released its
 * buffers; callbacks for the end of transactions are called before that.  No catalog can
 * be read then, and no error may leave this file.  If a file cannot be emptied, or if a
 * cursor of an outer subtransaction has pinned a page of it, its rows stay, as rolled back rows of any
 * table do, and the next reuse truncates the file.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/xact.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
#include "utils/resowner.h"

#include "compat_catalog.h"
#include "compat_storage.h"
#include "recycled_temp.h"

typedef struct ReusedFile
{
	RelFileLocator_compat locator;
	Oid			index;			/* none: a heap */
} ReusedFile;

/* The files of one table, indexes before their heaps. */
typedef struct ReusedTable
{
	int			nest_level;		/* of the subtransaction that reused it */
	int			n;
	ReusedFile	files[FLEXIBLE_ARRAY_MEMBER];
} ReusedTable;

/* ReusedTable, in TopTransactionContext; those of inner subtransactions are the last ones. */
static List *reused = NIL;

static void
note_file(ReusedTable *noted, RelFileLocator_compat locator, Oid index)
{
	noted->files[noted->n].locator = locator;
	noted->files[noted->n].index = index;
	noted->n++;
}

/*
 * Note the files of a table that the current subtransaction is about to reuse; "heap": also
 * the table's, and not only those of TOAST.
 */
void
rollback_note(RecycledTable *table, bool heap)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	ReusedTable *noted = palloc(offsetof(ReusedTable, files) + (list_length(table->keys) + 3) * sizeof(ReusedFile));
	ListCell   *lc;

	noted->nest_level = GetCurrentTransactionNestLevel();
	noted->n = 0;
	foreach(lc, heap ? table->keys : NIL)
		note_file(noted, ((RecycledKey *) lfirst(lc))->file, ((RecycledKey *) lfirst(lc))->index);
	if (heap)
		note_file(noted, table->file, InvalidOid);
	if (OidIsValid(table->toast))
	{
		note_file(noted, table->toast_index_file, table->toast_index);
		note_file(noted, table->toast_file, InvalidOid);
	}
	reused = lappend(reused, noted);
	MemoryContextSwitchTo(old);
}

/* Map and free space map go first: a bit must not outlive the page that it describes. */
void
rollback_empty_heap(SMgrRelation reln)
{
	static const ForkNumber forks[] = {VISIBILITYMAP_FORKNUM, FSM_FORKNUM, MAIN_FORKNUM};

	for (int i = 0; i < lengthof(forks); i++)
		if (forks[i] == MAIN_FORKNUM || smgrexists(reln, forks[i]))
			smgrtruncate_compat(reln, forks[i], 0);
	reln->smgr_targblock = InvalidBlockNumber;
}

/*
 * Make a B-tree index what it is after its creation over an empty table: a metapage.  The
 * build has written one to the file, which contains all that must be known of the
 * columns.
 */
static void
empty_index(SMgrRelation reln, Oid index)
{
	PGAlignedBlock_compat page;
	BTMetaPageData *meta = BTPageGetMeta((Page) page.data);

	smgrreadn_compat(reln, MAIN_FORKNUM, 0, page.data, 1);
	if (meta->btm_magic != BTREE_MAGIC)
		elog(ERROR, "index %u has no metapage", index);
	_bt_initmetapage((Page) page.data, P_NONE, 0, meta->btm_allequalimage);
	PageSetChecksumInplace_compat((Page) page.data, 0);
	DropAllLocalBuffers_compat(smgr_locator_compat(reln));
	smgrwrite(reln, MAIN_FORKNUM, 0, page.data, true);
	if (smgrexists(reln, FSM_FORKNUM))
		smgrtruncate_compat(reln, FSM_FORKNUM, 0);
	smgrtruncate_compat(reln, MAIN_FORKNUM, 1);
	/* its descriptor has a copy of the metapage */
	RelationCacheInvalidateEntry(index);
}

static SMgrRelation
open_file(ReusedFile *file)
{
	return smgropen(file->locator, TempFileOwner_compat());
}

static bool
has_rows(ReusedTable *table)
{
	for (int i = 0; i < table->n; i++)
		if (smgrnblocks(open_file(&table->files[i]), MAIN_FORKNUM) > (OidIsValid(table->files[i].index) ? 1 : 0))
			return true;
	return false;
}

static bool
is_pinned(ReusedTable *table)
{
	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		BufState_compat state = BufStateRead_compat(desc);

		if (!(state & BM_TAG_VALID) || (LocalRefCount[i] == 0 && BUF_STATE_GET_REFCOUNT(state) == 0))
			continue;
		for (int j = 0; j < table->n; j++)
			if (RelFileLocatorEquals_compat(BufTagGetRelFileLocator_compat(&desc->tag), table->files[j].locator))
				return true;
	}
	return false;
}

static void
empty_table(ReusedTable *table)
{
	MemoryContext old = CurrentMemoryContext;

	PG_TRY();
	{
		if (has_rows(table) && !is_pinned(table))
			for (int i = 0; i < table->n; i++)
			{
				ReusedFile *file = &table->files[i];

				if (OidIsValid(file->index))
					empty_index(open_file(file), file->index);
				else
					rollback_empty_heap(open_file(file));
			}
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		FlushErrorState();
	}
	PG_END_TRY();
}

/* A resource owner is released: that of a transaction or subtransaction that ends, or another one. */
void
rollback_resources_released(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	int			level;

	if (reused == NIL || phase != RESOURCE_RELEASE_BEFORE_LOCKS || CurrentResourceOwner != CurTransactionResourceOwner)
		return;
	level = GetCurrentTransactionNestLevel();
	if (isCommit && level > 1)
	{
		for (int i = list_length(reused) - 1; i >= 0; i--)
		{
			ReusedTable *table = list_nth(reused, i);

			if (table->nest_level < level)
				break;
			table->nest_level = level - 1;
		}
		return;
	}
	while (reused != NIL && ((ReusedTable *) llast(reused))->nest_level >= level)
	{
		/* the end of the session drops the table */
		if (!isCommit && !proc_exit_inprogress)
			empty_table(llast(reused));
		reused = list_delete_last(reused);
	}
}

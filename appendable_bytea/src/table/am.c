/*-------------------------------------------------------------------------
 *
 * am.c
 *	  The table access method appendable_heap: heap, with one way in for values.
 *
 * Tables of this access method are heap tables on disk.  Every callback is heap's
 * except those that store rows, which first convert each column of the type into what
 * may be stored (storing.c); those that end a row version, which also delete the chunks
 * of its values; those that give a table a new or an empty file, which empty its chunk
 * store; those that heap implements with heap_getnext, which insists on heap's routine
 * and gets it for the duration; and the fetch of a row by an index, which decides when
 * to prune the row's page.
 *
 * Order in an update, as in heaptoast.c external data first:
 *
 * 1. Decide, from the old row version, what each column takes.
 * 2. If chunks are to be written, lock the row, so that two appenders never write chunks
 *	  of one value concurrently, and return any result but TM_Ok.  A row version of our
 *	  own transaction needs no lock.
 * 3. Write the chunks.
 * 4. Update the row.  If we locked it, this cannot fail except by an error, which leaves
 *	  the chunks to a transaction that failed.
 * 5. Delete the chunks that end with the old version.
 *
 * The file is longer than 600 lines because all callbacks of an access method belong to one
 * struct, and most of those here are a few lines each.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/inval.h"

#include "compat_storage.h"
#include "table/table.h"

static TableAmRoutine routine;
static const TableAmRoutine *heap;

/* relations that show heap's routine for now; see show_heap_routine() */
typedef struct ShownAsHeap
{
	Relation	rel;
	struct ShownAsHeap *outer;
} ShownAsHeap;

static ShownAsHeap *shown_as_heap = NULL;

/* Ask for a pruning when the version that is replaced has such a line pointer. */
#define PRUNE_EVERY		16

/* Where what runs outside of commands that the hook has seen is remembered. */
AbCommand	ab_command_outside;
AbCommand  *ab_command = &ab_command_outside;

static bool
has_appendable_column(Relation rel)
{
	return ab_next_column(RelationGetDescr(rel), 0) > 0;
}

/*
 * In a rewrite into the transient table "rel", may values of this column have been
 * computed?  Then a reference in them may be another row's or another column's, and
 * is copied.  All others are those of the old rows, which keep their chunks.
 */
static bool
rewrite_computes(Relation rel, AttrNumber attnum)
{
	return ab_command->computed != NIL &&
		list_member(ab_command->computed, list_make2_oid(rel->rd_rel->relrewrite, attnum));
}

/* One row on its way into a relation. */
typedef struct RowStoring
{
	AbTarget	target;
	int			ncolumns;
	AbStoring **columns;
	bool		writes;			/* chunks */
	bool		may_end;		/* a column does not continue its old value */
	List	   *ended;			/* values that end with the old version (AbRef
								 * *) */
	MemoryContext context;		/* of all this, for an update */
} RowStoring;

/*
 * Decide how to store all columns of the type of a row.  old: the version that it
 * replaces, or NULL.  "row" is zeroed; allocates in the current context.
 */
static void
decide_row(RowStoring *row, Relation rel, TupleTableSlot *slot, HeapTuple old)
{
	TupleDesc	desc = RelationGetDescr(rel);

	row->target.rewriting = OidIsValid(rel->rd_rel->relrewrite);
	row->target.relid = row->target.rewriting ? rel->rd_rel->relrewrite : RelationGetRelid(rel);
	row->target.temporary = rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP;
	row->target.logged = RelationIsLogicallyLogged(rel);
	row->columns = palloc(desc->natts * sizeof(AbStoring *));
	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		AbTarget	target = row->target;
		AbStoring  *storing;
		Datum		value,
					old_value = (Datum) 0;
		bool		isnull,
					old_isnull = true;

		value = slot_getattr(slot, n, &isnull);
		row->may_end |= isnull;
		if (isnull)
			continue;
		if (old)
			old_value = heap_getattr(old, n, desc, &old_isnull);
		if (target.rewriting && rewrite_computes(rel, n))
			target.rewriting = false;
		target.counted = ab_counts_characters(TupleDescAttr(desc, n - 1)->atttypid);
		storing = palloc(sizeof(AbStoring));
		ab_storing_decide(storing, &target, value, !old_isnull, old_value);
		row->may_end |= !storing->grows;
		if (storing->action == AB_KEEP)
			continue;
		/* all other actions write chunks */
		row->writes |= storing->action != AB_INLINE;
		storing->attnum = n;
		row->columns[row->ncolumns++] = storing;
	}
}

/* Write the chunks, and put the row that is to be stored into the slot. */
static void
write_row(RowStoring *row, Relation rel, TupleTableSlot *slot)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum	   *values;
	bool	   *nulls;
	HeapTuple	tuple;
	ItemPointerData tid = slot->tts_tid;
	Oid			table_oid = slot->tts_tableOid;
	MemoryContext oldcontext;

	if (row->ncolumns == 0)
		return;
	slot_getallattrs(slot);
	/* what a tuple was taken apart into must stay what it says */
	values = memcpy(palloc(desc->natts * sizeof(Datum)), slot->tts_values, desc->natts * sizeof(Datum));
	nulls = memcpy(palloc(desc->natts * sizeof(bool)), slot->tts_isnull, desc->natts * sizeof(bool));
	for (int i = 0; i < row->ncolumns; i++)
		values[row->columns[i]->attnum - 1] = ab_storing_write(row->columns[i], &row->target);
	oldcontext = MemoryContextSwitchTo(slot->tts_mcxt);
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextSwitchTo(oldcontext);
	ExecForceStoreHeapTuple(tuple, slot, true);
	slot->tts_tid = tid;
	slot->tts_tableOid = table_oid;
}

/* Make a new row storable, in memory that is freed at once. */
static void
prepare_insert(Relation rel, TupleTableSlot *slot)
{
	MemoryContext context,
				oldcontext;
	RowStoring	row = {0};

	if (!has_appendable_column(rel))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea row",
									ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	decide_row(&row, rel, slot, NULL);
	write_row(&row, rel, slot);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
}

static void
appendable_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
				  TableOptions_compat options, BulkInsertState bistate)
{
	prepare_insert(rel, slot);
	heap->tuple_insert(rel, slot, cid, options, bistate);
}

static void
appendable_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
							  TableOptions_compat options, BulkInsertState bistate,
							  uint32 token)
{
	prepare_insert(rel, slot);
	heap->tuple_insert_speculative(rel, slot, cid, options, bistate, token);
}

static void
appendable_multi_insert(Relation rel, TupleTableSlot **slots, int nslots,
						CommandId cid, TableOptions_compat options,
						BulkInsertState bistate)
{
	for (int i = 0; i < nslots; i++)
		prepare_insert(rel, slots[i]);
	heap->multi_insert(rel, slots, nslots, cid, options, bistate);
}

/*
 * Was a row version created by this transaction and not updated yet?  Then no other session
 * can see it, and any lock that it carries belongs to us: no other lock is needed.  (Locks
 * of several subtransactions would become a multixact with each update.)
 */
static bool
row_is_private(HeapTuple tuple, CommandId cid, Buffer buffer)
{
	TM_Result	result;

	if (!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
		return false;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	result = HeapTupleSatisfiesUpdate(tuple, cid, buffer);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return result == TM_Ok || result == TM_BeingModified;
}

/* Have the next statement that comes to this page prune it. */
static void
set_page_full(Buffer buffer)
{
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	PageSetFull(BufferGetPage(buffer));
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
}

/*
 * Have the next statement that comes to this page prune it, if it is time: an append makes a
 * new version of the row.  The next one walks all those that are still in the page, with
 * short tails a hundred of them until the page is full; and one that finds no space in the
 * page goes to another, which takes entries in the table's indexes.
 */
static void
ask_for_pruning(HeapTuple old, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);

	if (PageIsFull(page) ||
		(ItemPointerGetOffsetNumber(&old->t_self) % PRUNE_EVERY != 0 &&
		 PageGetHeapFreeSpace(page) >= 2 * MAXALIGN(old->t_len)))
		return;
	set_page_full(buffer);
}

/* The reference in a column of a table's own row, if it is to the table's chunks. */
static bool
own_reference(Relation rel, Datum value, bool isnull, AbRef *ref)
{
	return !isnull && ab_parse_reference_lenient(value, false, ref) && ref->relid == RelationGetRelid(rel);
}

/*
 * The values of a row version that end with it: all that the new version, if there is one,
 * does not continue.
 */
static List *
find_ended(Relation rel, HeapTuple old, TupleTableSlot *new)
{
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *ended = NIL;

	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		AbRef		ref,
					continued;
		bool		isnull;
		Datum		value;

		value = heap_getattr(old, n, desc, &isnull);
		if (!own_reference(rel, value, isnull, &ref))
			continue;
		if (new)
			value = slot_getattr(new, n, &isnull);
		if (!new || !own_reference(rel, value, isnull, &continued) || continued.vid != ref.vid)
			ended = lappend(ended, memcpy(palloc(sizeof(AbRef)), &ref, sizeof(AbRef)));
	}
	return ended;
}

static void
delete_ended(List *ended)
{
	ListCell   *lc;

	foreach(lc, ended)
	{
		const AbRef *ref = lfirst(lc);

		ab_chunks_delete(ref->relid, ref->vid);
	}
}

/*
 * The lock that heap_update() takes: it differs if a column changes that a foreign key
 * may refer to.  A weaker lock would be upgraded while we hold it, which can deadlock
 * with holders of FOR KEY SHARE.
 */
static LockTupleMode
update_lock_mode(Relation rel, HeapTuple old, TupleTableSlot *slot)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *keys = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);
	LockTupleMode mode = LockTupleNoKeyExclusive;
	int			i = -1;

	while (mode == LockTupleNoKeyExclusive && (i = bms_next_member(keys, i)) >= 0)
	{
		AttrNumber	n = i + FirstLowInvalidHeapAttributeNumber;
		Form_pg_attribute att;
		Datum		before,
					after;
		bool		before_null,
					after_null;

		if (n <= 0)
		{
			mode = LockTupleExclusive;
			break;
		}
		att = TupleDescAttr(desc, n - 1);
		before = heap_getattr(old, n, desc, &before_null);
		after = slot_getattr(slot, n, &after_null);
		if (before_null != after_null ||
			(!before_null && !datumIsEqual(before, after, att->attbyval, att->attlen)))
			mode = LockTupleExclusive;
	}
	bms_free(keys);
	return mode;
}

/*
 * Make an updated row storable.  Returns TM_Ok, or what keeps the row from being
 * updated, with *tmfd and *lockmode filled in and nothing written.  After TM_Ok the
 * caller must call finish_update().
 */
static TM_Result
prepare_update(RowStoring *row, Relation rel, ItemPointer otid, TupleTableSlot *slot,
			   CommandId cid, bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode)
{
	MemoryContext oldcontext;
	HeapTupleData old;
	Buffer		buffer;
	TM_Result	result = TM_Ok;

	memset(row, 0, sizeof(*row));
	old.t_self = *otid;
	if (!heap_fetch(rel, SnapshotAny, &old, &buffer, true))
	{
		/* heap_update will say what is wrong with it */
		if (BufferIsValid(buffer))
			ReleaseBuffer(buffer);
		return TM_Ok;
	}
	ask_for_pruning(&old, buffer);
	row->context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea row",
										 ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(row->context);
	decide_row(row, rel, slot, &old);
	if (row->writes && !row_is_private(&old, cid, buffer))
	{
		HeapTupleData locked = {.t_self = *otid};
		Buffer		locked_buffer;

		/*
		 * Create the store first if it is missing: a session that waits for
		 * another one to create it must not hold the row
		 */
		ab_store_create(row->target.relid);
		*lockmode = update_lock_mode(rel, &old, slot);
		result = heap_lock_tuple(rel, &locked, cid, *lockmode, wait ? LockWaitBlock : LockWaitError,
								 false, &locked_buffer, tmfd);
		ReleaseBuffer(locked_buffer);
	}
	if (result == TM_Ok)
	{
		write_row(row, rel, slot);
		if (row->may_end)
			row->ended = find_ended(rel, &old, slot);
	}
	MemoryContextSwitchTo(oldcontext);
	ReleaseBuffer(buffer);
	if (result != TM_Ok)
		MemoryContextDelete(row->context);
	return result;
}

/* The row is stored: delete the chunks that ended with the old version, and free memory. */
static void
finish_update(RowStoring *row)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(row->context);

	for (int i = 0; i < row->ncolumns; i++)
		ab_storing_finish(row->columns[i], &row->target);
	delete_ended(row->ended);
	MemoryContextSwitchTo(oldcontext);
}

static TM_Result
appendable_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
				  SINCE_19_compat(uint32 options,) Snapshot snapshot, Snapshot crosscheck, bool wait,
				  TM_FailureData *tmfd, LockTupleMode *lockmode,
				  TU_UpdateIndexes_compat *update_indexes)
{
	RowStoring	row = {0};
	TM_Result	result;

	if (has_appendable_column(rel))
	{
		result = prepare_update(&row, rel, otid, slot, cid, wait, tmfd, lockmode);
		if (result != TM_Ok)
		{
			*update_indexes = TU_None_compat;
			return result;
		}
	}
	result = heap->tuple_update(rel, otid, slot, cid, SINCE_19_compat(options,) snapshot, crosscheck, wait,
								tmfd, lockmode, update_indexes);
	if (row.context == NULL)
		return result;
	if (result == TM_Ok)
		finish_update(&row);
	else if (row.writes && crosscheck != InvalidSnapshot)
	{
		/*
		 * A referential action in a serializable transaction: the executor
		 * would raise this error.  No chunk may stay without its row.
		 */
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update")));
	}
	else if (row.writes)
		elog(ERROR, "row (%u,%u) of table \"%s\" could not be updated while it was locked: %d",
			 ItemPointerGetBlockNumber(otid), ItemPointerGetOffsetNumber(otid),
			 RelationGetRelationName(rel), (int) result);
	MemoryContextDelete(row.context);
	return result;
}

static TM_Result
appendable_delete(Relation rel, ItemPointer tid, CommandId cid, SINCE_19_compat(uint32 options,)
				  Snapshot snapshot, Snapshot crosscheck, bool wait,
				  TM_FailureData *tmfd BEFORE_19_compat(, bool changingPart))
{
	TM_Result	result = heap->tuple_delete(rel, tid, cid, SINCE_19_compat(options,) snapshot, crosscheck, wait,
											tmfd BEFORE_19_compat(, changingPart));

	if (result == TM_Ok && has_appendable_column(rel))
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea row",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext oldcontext = MemoryContextSwitchTo(context);
		HeapTupleData old = {.t_self = *tid};
		Buffer		buffer;

		/* it is there for as long as we have not committed */
		if (!heap_fetch(rel, SnapshotAny, &old, &buffer, true))
			elog(ERROR, "deleted row of table \"%s\" is not there", RelationGetRelationName(rel));
		delete_ended(find_ended(rel, &old, NULL));

		/* unlike for an append, heap's rule decides when the page is pruned */
		if (PageGetHeapFreeSpace(BufferGetPage(buffer)) <
			Max(RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR), BLCKSZ / 10))
			set_page_full(buffer);
		ReleaseBuffer(buffer);
		MemoryContextSwitchTo(oldcontext);
		MemoryContextDelete(context);
	}
	return result;
}

static void
appendable_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token, bool succeeded)
{
	heap->tuple_complete_speculative(rel, slot, token, succeeded);
	if (!succeeded && has_appendable_column(rel))
	{
		bool		copied;
		HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, &copied);
		List	   *ended = find_ended(rel, tuple, NULL);

		delete_ended(ended);
		list_free_deep(ended);
		if (copied)
			heap_freetuple(tuple);
	}
}

/*
 * A new file for a relation that exists is a TRUNCATE: every rewrite fills a
 * transient table instead.
 */
static void
appendable_new_file(Relation rel, const RelFileLocator_compat *locator, char persistence,
					TransactionId *freezeXid, MultiXactId *minmulti)
{
	heap->relation_set_new_file_compat(rel, locator, persistence, freezeXid, minmulti);
	if (!OidIsValid(rel->rd_rel->relrewrite) && persistence != RELPERSISTENCE_TEMP)
		ab_store_truncate(RelationGetRelid(rel));
}

static void
appendable_nontransactional_truncate(Relation rel)
{
	heap->relation_nontransactional_truncate(rel);
	ab_store_truncate(RelationGetRelid(rel));
}

/*
 * Fetch a row that an index entry points to.  heap prunes the page if it has less space than fillfactor
 * leaves for updates, which a page that was filled up to there has after one of them: so each
 * append would examine all rows of its page and log which it removed.  Use up the free space
 * first, except a rest that a page may need until its dead rows are old enough.
 *
 * heap leaves pruning to the code that reads the buffer, which is this function.
 */
static bool
appendable_index_fetch(struct IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
					   TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	IndexFetchHeapData *fetch = (IndexFetchHeapData *) scan;

	if (!*call_again && heap_index_fetch_page_compat(fetch, ItemPointerGetBlockNumber(tid)))
	{
		Page		page = BufferGetPage(fetch->xs_cbuf);
		Size		kept = Min(RelationGetTargetPageFreeSpace(scan->rel, HEAP_DEFAULT_FILLFACTOR) / 2,
							   BLCKSZ / 10);

		/* who has no lock may be wrong, and prunes once too often, or later */
		if (PageIsFull(page) || PageGetHeapFreeSpace(page) < kept)
			heap_index_fetch_prune_compat(fetch);
	}
	return heap->index_fetch_tuple(scan, tid, snapshot, slot, call_again, all_dead);
}

/* Vacuum a table, and then its store. */
static void
appendable_vacuum(Relation rel, VacuumParams_compat params, BufferAccessStrategy strategy)
{
	heap->relation_vacuum(rel, params, strategy);
	ab_store_vacuum(RelationGetRelid(rel), params, strategy);
}

static Oid
appendable_toast_am(Relation rel)
{
	return HEAP_TABLE_AM_OID;
}

/*
 * Show heap's routine in a relation while heap's own code walks it.  The relcache
 * callback renews it when the entry is rebuilt in the meantime, as by a GRANT on the
 * table during CREATE INDEX CONCURRENTLY.
 */
static pg_noinline void
show_heap_routine(ShownAsHeap *mark, Relation rel)
{
	mark->rel = rel;
	mark->outer = shown_as_heap;
	shown_as_heap = mark;
	rel->rd_tableam = heap;
}

static pg_noinline void
restore_routine(ShownAsHeap *mark)
{
	mark->rel->rd_tableam = &routine;
	shown_as_heap = mark->outer;
	for (ShownAsHeap *l = shown_as_heap; l != NULL; l = l->outer)
		l->rel->rd_tableam = heap;
}

static void
relation_invalidated(Datum arg, Oid relid)
{
	for (ShownAsHeap *l = shown_as_heap; l != NULL; l = l->outer)
	{
		if (relid == InvalidOid || relid == RelationGetRelid(l->rel))
			l->rel->rd_tableam = heap;
	}
}

static double
appendable_index_build(Relation rel, Relation index, struct IndexInfo *info,
					   bool allow_sync, bool anyvisible, bool progress,
					   BlockNumber start, BlockNumber nblocks,
					   IndexBuildCallback callback, void *state, TableScanDesc scan)
{
	volatile double result = 0;
	ShownAsHeap mark;

	show_heap_routine(&mark, rel);
	PG_TRY();
	{
		result = heap->index_build_range_scan(rel, index, info, allow_sync, anyvisible,
											  progress, start, nblocks, callback,
											  state, scan);
	}
	PG_FINALLY();
	{
		restore_routine(&mark);
	}
	PG_END_TRY();
	return result;
}

static void
appendable_index_validate(Relation rel, Relation index, struct IndexInfo *info,
						  Snapshot snapshot, struct ValidateIndexState *state)
{
	ShownAsHeap mark;

	show_heap_routine(&mark, rel);
	PG_TRY();
	{
		heap->index_validate_scan(rel, index, info, snapshot, state);
	}
	PG_FINALLY();
	{
		restore_routine(&mark);
	}
	PG_END_TRY();
}

PG_FUNCTION_INFO_V1(appendable_heap_handler);

Datum
appendable_heap_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&routine);
}

/* Called once, from _PG_init. */
void
ab_am_install(void)
{
	heap = GetHeapamTableAmRoutine();
	routine = *heap;
	routine.tuple_insert = appendable_insert;
	routine.tuple_insert_speculative = appendable_insert_speculative;
	routine.multi_insert = appendable_multi_insert;
	routine.tuple_complete_speculative = appendable_complete_speculative;
	routine.tuple_delete = appendable_delete;
	routine.tuple_update = appendable_update;
	routine.index_fetch_tuple = appendable_index_fetch;
	routine.relation_set_new_file_compat = appendable_new_file;
	routine.relation_nontransactional_truncate = appendable_nontransactional_truncate;
	routine.relation_vacuum = appendable_vacuum;
	routine.relation_toast_am = appendable_toast_am;
	routine.index_build_range_scan = appendable_index_build;
	routine.index_validate_scan = appendable_index_validate;
	CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
}

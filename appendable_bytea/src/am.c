/*-------------------------------------------------------------------------
 *
 * am.c
 *	  The table access method appendable_heap: heap, with one way in for values.
 *
 * Tables of this access method are heap tables on disk.  Every callback is heap's
 * but those that store rows, which first turn each column of the type into what
 * may be stored (resolve.c), those that end a row version, which delete the chunks of
 * its values with it, those that give a table a new or an empty file, which
 * empty its chunk store, and those that heap implements with heap_getnext, which
 * insists on heap's own routine and gets it for the duration; and the fetch of a row
 * that an index names, which decides when to prune the row's page.
 *
 * Order in an update: look at the old version; if chunks are to be written, lock
 * the row and hand back any answer but TM_Ok, so that two appenders never write
 * chunks at once; write chunks; update.  An update that changes no column of the
 * type or only an inline tail goes to heap_update at once.  So does the commonest
 * one that writes, whose only chunk continues the value: what it stores is known
 * before, and the chunk is written when the row is ours.  Chunks that end with the old
 * version are deleted last.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat_storage.h"
#include "compat_table.h"
#include "store.h"

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

/* Where the values of this relation's rows go. */
static void
find_target(Relation rel, AbTarget *target)
{
	target->rewriting = OidIsValid(rel->rd_rel->relrewrite);
	target->relid = target->rewriting ? rel->rd_rel->relrewrite : RelationGetRelid(rel);
	target->temporary = rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP;
	target->permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	target->logged = RelationIsLogicallyLogged(rel);
}

static bool
has_appendable_column(Relation rel)
{
	return ab_next_column(RelationGetDescr(rel), 0) > 0;
}

/* One row on its way into a relation. */
typedef struct RowPlan
{
	AbTarget	target;
	int			ncolumns;
	AttrNumber *attnums;
	AbPlan	  **plans;
	bool		writes;
	bool		deferrable;		/* what is written can wait until the row is
								 * stored */
	bool		may_end;		/* a column does not continue what it had */
	int			nended;			/* values that end with the old version */
	AbRef	   *ended;
	MemoryContext context;		/* of all this, for an update */
} RowPlan;

/*
 * Plan all columns of the type of a row.  old: the version that it replaces, or
 * NULL.  The plan was zeroed; allocates in the current context.
 */
static void
plan_row(RowPlan *row, Relation rel, TupleTableSlot *slot, HeapTuple old)
{
	TupleDesc	desc = RelationGetDescr(rel);

	row->deferrable = true;
	find_target(rel, &row->target);
	row->attnums = palloc(desc->natts * sizeof(AttrNumber));
	row->plans = palloc(desc->natts * sizeof(AbPlan *));
	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		AbTarget	target = row->target;
		AbPlan	   *plan;
		Datum		value,
					old_value = (Datum) 0;
		bool		isnull,
					old_isnull = true;

		value = slot_getattr(slot, n, &isnull);
		if (isnull)
		{
			row->may_end = true;
			continue;
		}
		if (old)
			old_value = heap_getattr(old, n, desc, &old_isnull);
		if (target.rewriting && ab_rewrite_computes(rel, n))
			target.rewriting = false;
		plan = palloc(sizeof(AbPlan));
		ab_plan(plan, &target, value, !old_isnull, old_value);
		if (!plan->grows)
			row->may_end = true;
		if (plan->action == AB_KEEP)
			continue;
		if (ab_plan_writes(plan))
		{
			row->writes = true;
			row->deferrable = row->deferrable && ab_plan_deferrable(plan, &target);
		}
		row->plans[row->ncolumns] = plan;
		row->attnums[row->ncolumns++] = n;
	}
}

/*
 * Write what the plans say, or have it wait for the row, and put the row that is to
 * be stored into the slot.
 */
static void
execute_row(RowPlan *row, Relation rel, TupleTableSlot *slot, bool later)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum	   *values;
	bool	   *nulls;
	HeapTuple	tuple;
	ItemPointerData tid = slot->tts_tid;
	Oid			table_oid = slot->tts_tableOid;
	MemoryContext oldcontext;
	bool		formed = !TTS_IS_BUFFERTUPLE(slot) || ((BufferHeapTupleTableSlot *) slot)->base.tuple != NULL;

	if (row->ncolumns == 0)
		return;
	slot_getallattrs(slot);
	values = slot->tts_values;
	nulls = slot->tts_isnull;
	if (formed)
	{
		/* what a tuple was taken apart into must stay what it says */
		values = memcpy(palloc(desc->natts * sizeof(Datum)), values, desc->natts * sizeof(Datum));
		nulls = memcpy(palloc(desc->natts * sizeof(bool)), nulls, desc->natts * sizeof(bool));
	}
	for (int i = 0; i < row->ncolumns; i++)
	{
		AbPlan	   *plan = row->plans[i];

		values[row->attnums[i] - 1] = later && ab_plan_writes(plan) ?
			ab_plan_execute_later(plan, &row->target) : ab_plan_execute(plan, &row->target);
	}

	if (!formed)
	{
		/* values that a plan computed: the slot makes its tuple of them */
		ExecMaterializeSlot(slot);
		return;
	}
	oldcontext = MemoryContextSwitchTo(slot->tts_mcxt);
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextSwitchTo(oldcontext);
	ExecForceStoreHeapTuple(tuple, slot, true);
	slot->tts_tid = tid;
	slot->tts_tableOid = table_oid;
}

/* Make a new row storable, in memory that is given back at once. */
static void
prepare_insert(Relation rel, TupleTableSlot *slot)
{
	MemoryContext context,
				oldcontext;
	RowPlan		row = {0};

	if (!has_appendable_column(rel))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea row",
									ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	plan_row(&row, rel, slot, NULL);
	execute_row(&row, rel, slot, false);
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
 * Is a row version this transaction's own and not updated yet?  Then nobody else
 * can see it, and whatever lock it carries is ours: no other lock is needed.  (Locks
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

/*
 * Have the next statement that comes to this page prune it, if it is time: an append makes a
 * new version of the row.  The next one walks all those that are still in the page, with
 * short tails a hundred of them until the page is full; and one that finds no room in the
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
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	PageSetFull(page);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
}

/* The reference in a column of a table's own row, if it is to the table's chunks. */
static bool
own_reference(Relation rel, Datum value, bool isnull, AbRef *ref)
{
	return !isnull && ab_find_reference(value, ref) && ref->relid == RelationGetRelid(rel);
}

/* Does a column of the new row version continue what the old one has there? */
static bool
column_grows(const RowPlan *row, AttrNumber attnum)
{
	for (int i = 0; i < row->ncolumns; i++)
	{
		if (row->attnums[i] == attnum)
			return row->plans[i]->grows;
	}
	return false;
}

/*
 * The values of a row version that end with it: all that the new version, if there is one,
 * does not continue.  row: what was planned for it.  Returns how many.
 */
static int
find_ended(Relation rel, HeapTuple old, TupleTableSlot *new, const RowPlan *row, AbRef **ended)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			count = 0;

	*ended = NULL;
	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		AbRef		ref,
					continued;
		bool		isnull;
		Datum		value;

		if (new && column_grows(row, n))
			continue;
		value = heap_getattr(old, n, desc, &isnull);
		if (!own_reference(rel, value, isnull, &ref))
			continue;
		if (new)
			value = slot_getattr(new, n, &isnull);
		if (!new || !own_reference(rel, value, isnull, &continued) || continued.vid != ref.vid)
		{
			if (*ended == NULL)
				*ended = palloc(desc->natts * sizeof(AbRef));
			(*ended)[count++] = ref;
		}
	}
	return count;
}

static void
delete_ended(const AbRef *ended, int count)
{
	for (int i = 0; i < count; i++)
		ab_chunks_delete(ended[i].relid, ended[i].vid, 0, PG_INT64_MAX, AB_ANY_EDITION);
}

/*
 * Make an updated row storable.  Returns TM_Ok, or what keeps the row from being
 * updated, with *tmfd filled in and nothing written.  After TM_Ok the caller must
 * call finish_update().
 */
static TM_Result
prepare_update(RowPlan *row, Relation rel, ItemPointer otid, TupleTableSlot *slot,
			   CommandId cid, Snapshot snapshot, bool wait, TM_FailureData *tmfd)
{
	MemoryContext oldcontext;
	HeapTupleData old;
	Buffer		buffer;
	TM_Result	result = TM_Ok;
	bool		later = false;

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
	plan_row(row, rel, slot, &old);
	if (row->writes && row->deferrable)
		later = true;
	else if (row->writes && !row_is_private(&old, cid, buffer))
	{
		TupleTableSlot *locked = MakeSingleTupleTableSlot(RelationGetDescr(rel),
														  &TTSOpsBufferHeapTuple);

		/* should it not exist: who waits for its maker must not hold the row */
		if (!row->target.temporary)
			ab_store_create(row->target.relid);
		result = heap->tuple_lock(rel, otid, snapshot, locked, cid,
								  LockTupleNoKeyExclusive,
								  wait ? LockWaitBlock : LockWaitError, 0, tmfd);
		ExecDropSingleTupleTableSlot(locked);
	}
	if (result == TM_Ok)
	{
		execute_row(row, rel, slot, later);
		if (row->may_end)
			row->nended = find_ended(rel, &old, slot, row, &row->ended);
	}
	MemoryContextSwitchTo(oldcontext);
	ReleaseBuffer(buffer);
	if (result != TM_Ok)
		MemoryContextDelete(row->context);
	return result;
}

/*
 * The row was stored, or not: write what waited for it, delete the chunks that ended
 * with the old version, and give back memory.  Logical decoding meets the row first.
 */
static void
finish_update(RowPlan *row, bool stored)
{
	MemoryContext oldcontext;

	if (row->context == NULL)
		return;
	oldcontext = MemoryContextSwitchTo(row->context);
	for (int i = 0; i < row->ncolumns; i++)
		ab_plan_finish(row->plans[i], &row->target, stored);
	if (stored)
		delete_ended(row->ended, row->nended);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(row->context);
}

static TM_Result
appendable_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
				  TABLE_UPDATE_PARAM_compat Snapshot snapshot, Snapshot crosscheck, bool wait,
				  TM_FailureData *tmfd, LockTupleMode *lockmode,
				  TU_UpdateIndexes_compat *update_indexes)
{
	bool		appendable = has_appendable_column(rel);
	RowPlan		row;
	TM_Result	result;

	if (appendable)
	{
		result = prepare_update(&row, rel, otid, slot, cid, snapshot, wait, tmfd);
		if (result != TM_Ok)
		{
			*lockmode = LockTupleNoKeyExclusive;
			*update_indexes = TU_None_compat;
			return result;
		}
	}
	result = heap->tuple_update(rel, otid, slot, cid, TABLE_UPDATE_ARG_compat snapshot, crosscheck, wait,
								tmfd, lockmode, update_indexes);
	if (appendable)
		finish_update(&row, result == TM_Ok);
	return result;
}

/* Delete the chunks of all values of a row that was stored in the table. */
static void
delete_values(Relation rel, TupleTableSlot *slot)
{
	AbRef	   *ended;
	bool		copied;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, &copied);
	int			count = find_ended(rel, tuple, NULL, NULL, &ended);

	delete_ended(ended, count);
	if (ended)
		pfree(ended);
	if (copied)
		heap_freetuple(tuple);
}

static TM_Result
appendable_delete(TABLE_DELETE_PARAMS_compat)
{
	TM_Result	result = heap->tuple_delete(TABLE_DELETE_ARGS_compat);

	if (result == TM_Ok && has_appendable_column(rel))
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea row",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext oldcontext = MemoryContextSwitchTo(context);
		TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel),
														&TTSOpsBufferHeapTuple);

		/* it is there for as long as we have not committed */
		if (!heap->tuple_fetch_row_version(rel, tid, SnapshotAny, slot))
			elog(ERROR, "deleted row of table \"%s\" is not there", RelationGetRelationName(rel));
		delete_values(rel, slot);
		ExecDropSingleTupleTableSlot(slot);
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
		delete_values(rel, slot);
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
 * Fetch a row that an index names.  heap prunes the page if it has less room than fillfactor
 * leaves for updates, which a page that was filled up to there has after one of them: so each
 * append would look at all rows of its page and log what it took away.  Use the room up
 * first, but for a rest that a page may need until its dead rows are old enough.
 *
 * heap leaves pruning to whoever got the buffer: it is got here.
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

static Oid
appendable_toast_am(Relation rel)
{
	return HEAP_TABLE_AM_OID;
}

/*
 * Show heap's routine in a relation while heap's own code walks it.  The relcache
 * callback renews it when the entry is rebuilt meanwhile, as by a GRANT on the
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
	ab_stores_invalidated(relid);
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
	routine.relation_toast_am = appendable_toast_am;
	routine.index_build_range_scan = appendable_index_build;
	routine.index_validate_scan = appendable_index_validate;
	CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
}

/*-------------------------------------------------------------------------
 *
 * fastload_am.c
 *	  The bulk writer behind the server's own insertions into a temporary table.
 *
 * COPY FROM, and INSERT ... SELECT with work per row (triggers, RETURNING,
 * generated columns, row security), stay the server's own code.  But the rows that
 * this code has made ready go through the table's access method, and for the
 * length of the statement the relation shows heap's routine with three doors
 * changed: tuple_insert and multi_insert hand the row to the bulk writer,
 * finish_bulk_insert ends the load.  So the file grows in steps, no page is looked
 * for in the free space map, and without indexes and triggers pages beyond
 * temp_buffers are written once.
 *
 * Rows go heap's way until one lies on a new page at the end of the table and is
 * not one of the first few, as in fastload_insert.c.
 *
 * What must hold.  Only one door is open for a relation.  It is closed for good,
 * and heap's routine is back, as soon as a nested statement names the relation
 * (fastload.c), when the statement ends, and when it fails.  A relcache entry that
 * is rebuilt meanwhile shows heap's routine; the invalidation callback, which runs
 * right after, opens the door again, or rows would pass by a load in progress.  An
 * entry that a failing subtransaction invalidates is rebuilt later, when nobody
 * calls us: so a door is closed before a utility statement runs in a subtransaction
 * of the statement's.  Should such an entry be invalidated some other way, the
 * statement fails.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "compat_table.h"
#include "hooks.h"
#include "load/fastload.h"

/* A COPY has its table open here, in its own code and in its executor state. */
#define COPY_REFERENCES 3

static const TableAmRoutine *heap = NULL;
static TableAmRoutine routine;

static FastDoor *
find_door(Relation rel)
{
	for (FastDoor *door = statements.doors; door != NULL; door = door->outer)
	{
		if (door->open && door->relid == RelationGetRelid(rel))
			return door;
	}
	return NULL;
}

static inline bool
loading(FastDoor *door)
{
	return door->load != NULL && !door->load->handed_back;
}

/*
 * Rows may have passed by a load in progress, onto blocks that it counts its own.
 */
static void
check_stale(FastDoor *door)
{
	if (unlikely(door->stale) && loading(door))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("relation \"%s\" was changed by a failed subtransaction while rows were put into it",
						RelationGetRelationName(door->rel)),
				 errhint("Set parallel_temp.fast_load to off for this statement.")));
}

/*
 * Heap has put rows, the last one at "tid": go on with the bulk writer?  The page
 * must be the last one of the table, whatever heap has added ahead.
 */
static void
consider(FastDoor *door, ItemPointer tid, CommandId cid, TableOptions_compat options)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);

	if (door->load != NULL || door->stale || door->rows <= FEW_ROWS || block < door->first_new_block ||
		(!door->scanned && fastload_held_open(door->rel, door->own_references)) ||
		block + 1 != RelationGetNumberOfBlocks(door->rel))
		return;
	door->load = fastload_begin(door->rel, cid, door->may_freeze != NULL && door->may_freeze(), door->context);
	if (door->in_buffers)
		fastload_stay_in_buffers(door->load);
	if (door->scanned)
		fastload_keep_length(door->load);
	fastload_continue_at_end(door->load);
	fastload_push(door->load);
}

/* COPY FREEZE marks pages in the visibility map: that is heap's to do. */
static inline bool
options_fit(TableOptions_compat options)
{
	return (options & ~(TableOptions_compat) TABLE_INSERT_SKIP_FSM) == 0;
}

static void
door_insert(Relation rel, TupleTableSlot *slot, CommandId cid, TableOptions_compat options, BulkInsertState bistate)
{
	FastDoor   *door = find_door(rel);

	if (door == NULL || !options_fit(options))
		heap->tuple_insert(rel, slot, cid, options, bistate);
	else if (loading(door))
	{
		bool		free_tuple;
		HeapTuple	tuple;

		check_stale(door);
		tuple = ExecFetchSlotHeapTuple(slot, true, &free_tuple);
		slot->tts_tableOid = RelationGetRelid(rel);
		fastload_add_tuple(door->load, tuple);
		ItemPointerCopy(&tuple->t_self, &slot->tts_tid);
		if (free_tuple)
			pfree(tuple);
	}
	else
	{
		heap->tuple_insert(rel, slot, cid, options, bistate);
		door->rows++;
		consider(door, &slot->tts_tid, cid, options);
	}
}

static void
door_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
				  TableOptions_compat options, BulkInsertState bistate)
{
	FastDoor   *door = find_door(rel);
	int			done = 0;

	if (door == NULL || !options_fit(options))
	{
		heap->multi_insert(rel, slots, nslots, cid, options, bistate);
		return;
	}
	while (done < nslots)
	{
		int			n = nslots - done;

		if (loading(door))
		{
			check_stale(door);
			for (; done < nslots; done++)
			{
				slots[done]->tts_tableOid = RelationGetRelid(rel);
				fastload_add(door->load, slots[done]);
			}
			break;
		}
		/* a few at a time, so that the bulk writer comes in early */
		if (door->load == NULL)
			n = Min(n, FEW_ROWS + 1);
		heap->multi_insert(rel, slots + done, n, cid, options, bistate);
		done += n;
		door->rows += n;
		consider(door, &slots[done - 1]->tts_tid, cid, options);
	}
}

static void
door_finish(Relation rel, TableOptions_compat options)
{
	FastDoor   *door = find_door(rel);

	if (door != NULL)
		fastload_door_close(door);
	if (heap->finish_bulk_insert)
		heap->finish_bulk_insert(rel, options);
}

static void
relation_invalidated(Datum arg, Oid relid)
{
	if (proc_exit_inprogress)
		return;
	for (FastDoor *door = statements.doors; door != NULL; door = door->outer)
	{
		if (!door->open || (relid != InvalidOid && relid != door->relid))
			continue;
		door->rel->rd_tableam = &routine;
		/* where nothing can be read, the entry is not made again yet */
		if (!IsTransactionState())
			door->stale = true;
	}
}

/*
 * The statement that is about to run puts rows into this relation, which it keeps
 * open and which fastload_unfit() found no fault with: let them come to the bulk
 * writer.  The door and its load live in "context".
 */
FastDoor *
fastload_door_open(Relation rel, bool (*may_freeze) (void), bool in_buffers, bool scanned, int own_references,
				   MemoryContext context)
{
	FastDoor   *door;

	if (heap == NULL)
	{
		CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
		routine = *GetHeapamTableAmRoutine();
		routine.tuple_insert = door_insert;
		routine.multi_insert = door_multi_insert;
		routine.finish_bulk_insert = door_finish;
		heap = GetHeapamTableAmRoutine();
	}
	door = MemoryContextAllocZero(context, sizeof(FastDoor));
	door->rel = rel;
	door->relid = RelationGetRelid(rel);
	door->may_freeze = may_freeze;
	door->in_buffers = in_buffers;
	door->scanned = scanned;
	door->own_references = own_references;
	door->context = context;
	door->nest_level = GetCurrentTransactionNestLevel();
	door->first_new_block = RelationGetNumberOfBlocks(rel);
	door->open = true;
	door->outer = statements.doors;
	statements.doors = door;
	rel->rd_tableam = &routine;
	return door;
}

/*
 * The statement has put its last row, or from now on heap does it alone.  The door
 * stays on the stack until fastload_door_forget().
 */
void
fastload_door_close(FastDoor *door)
{
	if (!door->open)
		return;
	check_stale(door);
	door->open = false;
	door->rel->rd_tableam = heap;
	if (door->load != NULL)
		fastload_end(door->load);
}

/*
 * Take doors off the stack that were opened since "outer" was the innermost; some
 * are still open after an error.
 */
void
fastload_door_forget(FastDoor *outer)
{
	while (statements.doors != outer)
	{
		if (statements.doors->open)
		{
			statements.doors->open = false;
			statements.doors->rel->rd_tableam = heap;
		}
		statements.doors = statements.doors->outer;
	}
}

/*
 * A nested plan is about to use relations (all, if NULL is given): it must find
 * heap, and loads of theirs have been handed back.
 */
void
fastload_doors_shut(PlannedStmt *plan, const char *why)
{
	for (FastDoor *door = statements.doors; door != NULL; door = door->outer)
	{
		if (door->open && (plan == NULL || fastload_may_use(plan, door->rel)))
		{
			door->given_up = why;
			fastload_door_close(door);
		}
	}
}

/*
 * Loads are about to be handed back: not if rows may have passed by one of them.
 */
void
fastload_doors_check(void)
{
	for (FastDoor *door = statements.doors; door != NULL; door = door->outer)
	{
		if (door->open)
			check_stale(door);
	}
}

/*
 * Something is about to happen at this level of subtransactions that may touch any
 * relcache entry: doors of levels below go, with their loads.
 */
void
fastload_doors_shut_above(int nest_level, const char *why)
{
	for (FastDoor *door = statements.doors; door != NULL; door = door->outer)
	{
		if (door->open && nest_level > door->nest_level)
		{
			if (loading(door))
				fastload_hand_back(door->load, true);
			door->given_up = why;
			fastload_door_close(door);
		}
	}
}

/*
 * Open a door for a COPY that the bulk writer may serve; NULL for any other.  The
 * relation is opened here, with the lock that COPY takes; the caller closes it.
 */
FastDoor *
fastload_copy_prepare(CopyStmt *copy)
{
	Oid			temp_namespace;
	Oid			temp_toast_namespace;
	Oid			relid;
	Relation	rel;
	FastDoor   *door = NULL;

	if (!copy->is_from || copy->relation == NULL)
		return NULL;
	GetTempNamespaceState(&temp_namespace, &temp_toast_namespace);
	if (!OidIsValid(temp_namespace))
		return NULL;

	/*
	 * The quick way, which takes the wrong table if the search path has a
	 * permanent one first; then nothing comes through its door.
	 */
	if (copy->relation->schemaname == NULL)
		relid = get_relname_relid(copy->relation->relname, temp_namespace);
	else
	{
		relid = RangeVarGetRelid(copy->relation, NoLock, true);
		if (OidIsValid(relid) && get_rel_namespace(relid) != temp_namespace)
			return NULL;
	}
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_RELATION)
		return NULL;

	/* nobody but this session takes locks on its temporary tables */
	rel = table_open(relid, RowExclusiveLock);
	if (fastload_unfit(rel) == NULL)
		door = fastload_door_open(rel,
								  rel->trigdesc == NULL &&
								  CreatedInSubTransaction_compat(rel, GetCurrentSubTransactionId()) ?
								  fastload_copy_may_freeze : NULL,
								  rel->rd_rel->relhasindex || rel->trigdesc != NULL, false, COPY_REFERENCES,
								  CurrentMemoryContext);
	else
		table_close(rel, NoLock);
	return door;
}

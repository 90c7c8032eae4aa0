/*-------------------------------------------------------------------------
 *
 * fastload_am.c
 *	  The bulk writer behind the server's own insertions into a temporary table.
 *
 * COPY FROM, and INSERT ... SELECT with work per row (triggers, RETURNING,
 * generated columns, row security), stay the server's own code.  But the rows that
 * this code has made ready go through the table's access method, and for the
 * length of the statement the relation shows heap's routine with three callbacks
 * overridden: tuple_insert and multi_insert hand the row to the bulk writer,
 * finish_bulk_insert ends the load.  So the file grows in steps, no page is looked
 * for in the free space map, and without indexes and triggers pages beyond
 * temp_buffers are written once.
 *
 * Rows go heap's way until one lies on a new page at the end of the table and is
 * not one of the first few, as in fastload_insert.c.
 *
 * What must hold.  Only one statement at a time overrides for a relation.  That ends
 * for good, and heap's routine is back, as soon as a nested statement names the
 * relation (fastload.c), when the statement ends, and when it fails.  A relcache entry that
 * is rebuilt meanwhile shows heap's routine; the invalidation callback, which runs
 * right after, overrides again, or rows would pass by a load in progress.  An entry
 * that a failing subtransaction invalidates is rebuilt later, when nobody calls us:
 * so heap's routine comes back before a utility statement runs in a subtransaction
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
#include "load/fastload.h"
#include "query.h"

/* A COPY has its table open here, in its own code and in its executor state. */
#define COPY_REFERENCES 3

static const TableAmRoutine *heap = NULL;
static TableAmRoutine routine;

static FastFill *
override_find(Relation rel)
{
	FastFill   *fill;

	foreach_fill(fill)
	{
		if (fill->overrides && fill->relid == RelationGetRelid(rel))
			return fill;
	}
	return NULL;
}

/*
 * Rows may have passed by a load in progress, onto blocks that it counts its own: an
 * ERROR.
 */
void
fastload_override_check(FastFill *fill)
{
	if (unlikely(fill->rebuilt) && fastload_is_loading(fill))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("relation \"%s\" was changed by a failed subtransaction while rows were put into it",
						RelationGetRelationName(fill->rel)),
				 errhint("Set parallel_temp.fast_load to off for this statement.")));
}

/* COPY FREEZE marks pages in the visibility map: that is heap's to do. */
static inline bool
options_fit(TableOptions_compat options)
{
	return (options & ~(TableOptions_compat) TABLE_INSERT_SKIP_FSM) == 0;
}

static void
override_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, TableOptions_compat options, BulkInsertState bistate)
{
	FastFill   *fill = override_find(rel);

	if (fill == NULL || !options_fit(options))
		heap->tuple_insert(rel, slot, cid, options, bistate);
	else if (fastload_is_loading(fill))
	{
		bool		free_tuple;
		HeapTuple	tuple;

		fastload_override_check(fill);
		tuple = ExecFetchSlotHeapTuple(slot, true, &free_tuple);
		slot->tts_tableOid = RelationGetRelid(rel);
		fastload_add_tuple(fill->load, tuple);
		ItemPointerCopy(&tuple->t_self, &slot->tts_tid);
		if (free_tuple)
			pfree(tuple);
	}
	else
	{
		heap->tuple_insert(rel, slot, cid, options, bistate);
		fill->rows++;
		fastload_fill_consider(fill, &slot->tts_tid, cid);
	}
}

static void
override_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
					  TableOptions_compat options, BulkInsertState bistate)
{
	FastFill   *fill = override_find(rel);
	int			done = 0;

	if (fill == NULL || !options_fit(options))
	{
		heap->multi_insert(rel, slots, nslots, cid, options, bistate);
		return;
	}
	while (done < nslots)
	{
		int			n = nslots - done;

		if (fastload_is_loading(fill))
		{
			fastload_override_check(fill);
			for (; done < nslots; done++)
			{
				slots[done]->tts_tableOid = RelationGetRelid(rel);
				fastload_add(fill->load, slots[done]);
			}
			break;
		}
		/* a few at a time, so that the bulk writer comes in early */
		if (fill->load == NULL)
			n = Min(n, FEW_ROWS + 1);
		heap->multi_insert(rel, slots + done, n, cid, options, bistate);
		done += n;
		fill->rows += n;
		fastload_fill_consider(fill, &slots[done - 1]->tts_tid, cid);
	}
}

static void
override_finish_bulk_insert(Relation rel, TableOptions_compat options)
{
	FastFill   *fill = override_find(rel);

	if (fill != NULL)
		fastload_override_end(fill);
	if (heap->finish_bulk_insert)
		heap->finish_bulk_insert(rel, options);
}

static void
relation_invalidated(Datum arg, Oid relid)
{
	FastFill   *fill;

	if (proc_exit_inprogress)
		return;
	foreach_fill(fill)
	{
		if (!fill->overrides || (relid != InvalidOid && relid != fill->relid))
			continue;
		fill->rel->rd_tableam = &routine;
		/* where nothing can be read, the entry is not made again yet */
		if (!IsTransactionState())
			fill->rebuilt = true;
	}
}

/*
 * The statement that is about to run puts rows into this relation, which it keeps
 * open and which fastload_unfit() found no fault with: let them come to the bulk
 * writer.
 */
void
fastload_override_begin(FastFill *fill)
{
	Assert(fill->state == NULL && fill->load == NULL && override_find(fill->rel) == NULL);
	Assert(fill->rel->rd_tableam == GetHeapamTableAmRoutine());
	if (heap == NULL)
	{
		CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
		routine = *GetHeapamTableAmRoutine();
		routine.tuple_insert = override_tuple_insert;
		routine.multi_insert = override_multi_insert;
		routine.finish_bulk_insert = override_finish_bulk_insert;
		heap = GetHeapamTableAmRoutine();
	}
	fill->overrides = true;
	fill->rel->rd_tableam = &routine;
}

/*
 * Heap gets its routine back, whatever becomes of the load.
 */
void
fastload_override_restore(FastFill *fill)
{
	if (!fill->overrides)
		return;
	fill->overrides = false;
	fill->rel->rd_tableam = heap;
}

/*
 * The statement has put its last row, or from now on heap does it alone.
 */
void
fastload_override_end(FastFill *fill)
{
	if (!fill->overrides)
		return;
	fastload_override_check(fill);
	fastload_override_restore(fill);
	if (fill->load != NULL)
		fastload_end(fill->load);
}

/*
 * A COPY is about to run: if the bulk writer may serve it, it has a fill from now on.
 * The relation is opened here, with the lock that COPY takes.
 */
void
fastload_copy_begin(PtQuery *query, CopyStmt *copy)
{
	Oid			temp_namespace;
	Oid			temp_toast_namespace;
	Oid			relid;
	Relation	rel;
	FastFill   *fill;

	if (!copy->is_from || copy->relation == NULL)
		return;
	GetTempNamespaceState(&temp_namespace, &temp_toast_namespace);
	if (!OidIsValid(temp_namespace))
		return;

	/*
	 * The quick way, which takes the wrong table if the search path has a
	 * permanent one first; then no row comes by the override.
	 */
	if (copy->relation->schemaname == NULL)
		relid = get_relname_relid(copy->relation->relname, temp_namespace);
	else
	{
		relid = RangeVarGetRelid(copy->relation, NoLock, true);
		if (OidIsValid(relid) && get_rel_namespace(relid) != temp_namespace)
			return;
	}
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_RELATION)
		return;

	/* nobody but this session takes locks on its temporary tables */
	rel = table_open(relid, RowExclusiveLock);
	if (fastload_unfit(rel) == NULL)
	{
		fill = fastload_fill_begin(query, rel, CurrentMemoryContext);
		if (rel->trigdesc == NULL && CreatedInSubTransaction_compat(rel, GetCurrentSubTransactionId()))
			fill->may_freeze = fastload_copy_may_freeze;
		fill->in_buffers = rel->rd_rel->relhasindex || rel->trigdesc != NULL;
		fill->own_references = COPY_REFERENCES;
		fastload_override_begin(fill);
	}
	else
		table_close(rel, NoLock);
}

/*
 * It has run, and has a fill.  After an error the transaction closes the table.
 */
void
fastload_copy_end(PtQuery *query)
{
	Relation	rel = query->fill->rel;

	fastload_override_end(query->fill);
	query_end_fill(query);
	table_close(rel, NoLock);
}

/*-------------------------------------------------------------------------
 *
 * fastload_rows.c
 *	  The bulk writer's rows: formed in place, without a tuple in between.
 *
 * Code that has a row calls pt_load_add() or pt_load_add_materialized(); pages come from
 * fastload_write.c.  Invariant: between two calls every row of the page being
 * filled is complete, with its line pointer, so that an ERROR in between (of a TOAST
 * table, of a page that is not available) leaves a readable page.
 *
 * Rows land where the server would have put them: the same fill factor rule, the
 * same order, hence the same ctid.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "executor/executor.h"

#include "load/fastload.h"

/*
 * Is there space for a tuple of this (aligned) length on the page being filled?
 */
static inline bool
page_has_room(FastLoad *load, Size need)
{
	PageHeader	header = (PageHeader) load->page;
	int			room = (int) header->pd_upper - (int) header->pd_lower - (int) sizeof(ItemIdData);
	Size		wanted = need + load->save_space;
	Size		nearly_empty = MaxHeapTupleSize - (MaxHeapTuplesPerPage / 8 * sizeof(ItemIdData));

	/* a page counts as empty when little of it is taken */
	if (wanted > nearly_empty)
		wanted = Max(need, nearly_empty);
	return room >= 0 && (Size) room >= wanted &&
		PageGetMaxOffsetNumber(load->page) < MaxHeapTuplesPerPage;
}

/*
 * Find space for a tuple of this length; go to a new page if necessary.  The bytes
 * returned are zero.  Nothing is taken until commit_tuple().
 */
static char *
reserve_space(FastLoad *load, Size len)
{
	Size		need = MAXALIGN(len);
	char	   *place;

	if (unlikely(need > MaxHeapTupleSize))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						need, (Size) MaxHeapTupleSize)));

	if (load->page == NULL || !page_has_room(load, need))
		load->next_page(load);

	place = (char *) load->page + ((PageHeader) load->page)->pd_upper - need;
	if (load->used_hole)
		memset(place, 0, need);
	return place;
}

/* Set the transaction fields of a new row of this load. */
static inline void
set_transaction(FastLoad *load, HeapTupleHeader tuple)
{
	tuple->t_infomask &= ~HEAP_XACT_MASK;
	tuple->t_infomask2 &= ~HEAP2_XACT_MASK;
	tuple->t_infomask |= HEAP_XMAX_INVALID;
	HeapTupleHeaderSetXmin(tuple, load->xid);
	if (load->frozen)
		HeapTupleHeaderSetXminFrozen(tuple);
	HeapTupleHeaderSetCmin(tuple, load->cid);
	HeapTupleHeaderSetXmax(tuple, InvalidTransactionId);
}

/*
 * The tuple at the place that reserve_space() returned is complete except for its
 * transaction data: take the space and give it a line pointer.
 */
static inline void
commit_tuple(FastLoad *load, HeapTupleHeader tuple, Size len)
{
	PageHeader	header = (PageHeader) load->page;
	OffsetNumber offset = PageGetMaxOffsetNumber(load->page) + 1;

	set_transaction(load, tuple);
	ItemPointerSet(&tuple->t_ctid, load->block, offset);

	header->pd_upper -= MAXALIGN(len);
	ItemIdSetNormal(PageGetItemId(load->page, offset), header->pd_upper, len);
	header->pd_lower += sizeof(ItemIdData);
	load->tuples++;
}

/*
 * A tuple that is complete except for its transaction data.
 */
static void
add_tuple(FastLoad *load, HeapTuple tuple)
{
	char	   *place = reserve_space(load, tuple->t_len);

	memcpy(place, tuple->t_data, tuple->t_len);
	commit_tuple(load, (HeapTupleHeader) place, tuple->t_len);
}

/*
 * The slow way: a tuple that is long or has values stored elsewhere goes through
 * the server's TOAST code.
 */
static void
add_toasted_tuple(FastLoad *load, HeapTuple tuple)
{
	HeapTuple	stored = tuple;
	int			options = HEAP_INSERT_SKIP_FSM | (load->frozen ? HEAP_INSERT_FROZEN : 0);

	tuple->t_tableOid = load->relid;
	if (HeapTupleHasExternal(tuple) || tuple->t_len > TOAST_TUPLE_THRESHOLD)
		stored = heap_toast_insert_or_update(load->rel, tuple, NULL, options);
	add_tuple(load, stored);
	if (stored != tuple)
		heap_freetuple(stored);
}

static void
add_toasted(FastLoad *load, TupleTableSlot *slot)
{
	bool		free_tuple;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, true, &free_tuple);

	add_toasted_tuple(load, tuple);
	if (free_tuple)
		heap_freetuple(tuple);
}

/*
 * Does one of a slot's values live elsewhere?
 */
static bool
has_external(TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;

	for (int i = 0; i < desc->natts; i++)
	{
		if (!slot->tts_isnull[i] && TupleDescAttr(desc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(slot->tts_values[i])))
			return true;
	}
	return false;
}

/*
 * Form a row from a slot's values, on the page.  False if it has to be toasted.
 */
static bool
add_values(FastLoad *load, TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;
	int			natts = desc->natts;
	bool		has_null = false;
	Size		hoff = offsetof(HeapTupleHeaderData, t_bits);
	Size		data_len;
	HeapTupleHeader tuple;

	slot_getallattrs(slot);
	for (int i = 0; i < natts; i++)
	{
		if (slot->tts_isnull[i])
		{
			has_null = true;
			hoff += BITMAPLEN(natts);
			break;
		}
	}
	hoff = MAXALIGN(hoff);
	data_len = heap_compute_data_size(desc, slot->tts_values, slot->tts_isnull);
	if (hoff + data_len > TOAST_TUPLE_THRESHOLD)
		return false;

	/* no page is left for a row that will be shorter */
	if (load->page != NULL && !page_has_room(load, MAXALIGN(hoff + data_len)) && has_external(slot))
		return false;

	tuple = (HeapTupleHeader) reserve_space(load, hoff + data_len);
	HeapTupleHeaderSetNatts(tuple, natts);
	tuple->t_hoff = hoff;
	heap_fill_tuple(desc, slot->tts_values, slot->tts_isnull,
					(char *) tuple + hoff, data_len, &tuple->t_infomask,
					has_null ? tuple->t_bits : NULL);
	if (tuple->t_infomask & HEAP_HASEXTERNAL)
	{
		memset(tuple, 0, hoff + data_len);
		return false;
	}
	commit_tuple(load, tuple, hoff + data_len);
	return true;
}

/*
 * Add the row in a slot, whose descriptor has the columns of the table.  False, and
 * nothing is added, if it has to be toasted.
 */
bool
pt_load_add_untoasted(FastLoad *load, TupleTableSlot *slot)
{
	Assert(load->state < LOAD_HANDED_BACK);

	/*
	 * A row that is a tuple already is copied as it is; it may lie in a
	 * buffer, which the slot keeps pinned.  COPY's slots of that kind hold
	 * values.
	 */
	if ((TTS_IS_HEAPTUPLE(slot) || TTS_IS_BUFFERTUPLE(slot)) && ((HeapTupleTableSlot *) slot)->tuple != NULL)
	{
		HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, NULL);

		if (HeapTupleHasExternal(tuple) || tuple->t_len > TOAST_TUPLE_THRESHOLD)
			return false;
		add_tuple(load, tuple);
		return true;
	}
	if (TTS_IS_MINIMALTUPLE(slot))
	{
		MinimalTuple tuple = ExecFetchSlotMinimalTuple(slot, NULL);
		Size		len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
		const Size	common = offsetof(MinimalTupleData, t_infomask2);
		char	   *place;

		if ((tuple->t_infomask & HEAP_HASEXTERNAL) || len > TOAST_TUPLE_THRESHOLD)
			return false;
		place = reserve_space(load, len);
		memcpy(place + MINIMAL_TUPLE_OFFSET + common, (char *) tuple + common, tuple->t_len - common);
		commit_tuple(load, (HeapTupleHeader) place, len);
		return true;
	}
	return add_values(load, slot);
}

/*
 * Add the row in a slot, toasted if need be, and set the slot's tts_tid to its place.
 */
void
pt_load_add(FastLoad *load, TupleTableSlot *slot)
{
	if (!pt_load_add_untoasted(load, slot))
		add_toasted(load, slot);
	ItemPointerSet(&slot->tts_tid, load->block, PageGetMaxOffsetNumber(load->page));
}

/*
 * Add the row in a slot of the table's kind, and leave in the slot's tuple what
 * heap_insert() does, for expressions that read system columns: the place, and the
 * header of a new row.
 */
void
pt_load_add_materialized(FastLoad *load, TupleTableSlot *slot)
{
	bool		free_tuple;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, true, &free_tuple);

	Assert(load->state < LOAD_HANDED_BACK && !free_tuple);
	if (HeapTupleHasExternal(tuple) || tuple->t_len > TOAST_TUPLE_THRESHOLD)
		add_toasted_tuple(load, tuple);
	else
		add_tuple(load, tuple);
	set_transaction(load, tuple->t_data);
	tuple->t_tableOid = load->relid;
	ItemPointerSet(&tuple->t_self, load->block, PageGetMaxOffsetNumber(load->page));
	ItemPointerCopy(&tuple->t_self, &slot->tts_tid);
}

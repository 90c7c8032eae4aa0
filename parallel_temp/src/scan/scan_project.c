/*-------------------------------------------------------------------------
 *
 * scan_project.c
 *	  Columns of a row, copied without the expression interpreter.
 *
 * Core gives a plain sequential scan its table's whole row and so spares it a
 * projection; a custom scan gets exactly the columns that its parent asks for, and
 * core's projection deforms all columns up to the last of them and then copies
 * those asked for, even when these are none, as for count(*).  Here only what is
 * needed is taken: columns in front of the first one of variable length are at a
 * known place if the row has no nulls.  The rest is found by walking, as core does.
 *
 * Values of by-reference types point into the page, like those of any scan.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "executor/tuptable.h"

#include "scan/scan.h"

static uint8
alignment_of(Form_pg_attribute attribute)
{
	switch (attribute->attalign)
	{
		case TYPALIGN_CHAR:
			return 1;
		case TYPALIGN_SHORT:
			return ALIGNOF_SHORT;
		case TYPALIGN_INT:
			return ALIGNOF_INT;
		default:
			return ALIGNOF_DOUBLE;
	}
}

/*
 * The offset of the column that follows a known one in a row without nulls, or -1:
 * a short varlena needs no alignment, so padding may be there or not.
 */
static int
next_offset(int end, int16 length, uint8 align)
{
	int			aligned = TYPEALIGN(align, end);

	return length < 0 && aligned != end ? -1 : aligned;
}

int
pt_column_offset(TupleDesc desc, AttrNumber column)
{
	int			end = 0;

	for (int i = 0;; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		int			offset = next_offset(end, attribute->attlen, alignment_of(attribute));

		if (i == column - 1)
			return offset;
		if (attribute->attlen < 0)
			return -1;
		end = offset + attribute->attlen;
	}
}

ScanProjection *
pt_scan_projection_make(ScanState *ss)
{
	ProjectionInfo *info = ss->ps.ps_ProjInfo;
	Scan	   *plan = (Scan *) ss->ps.plan;
	TupleDesc	desc = ss->ss_ScanTupleSlot->tts_tupleDescriptor;
	ScanProjection *projection;
	int			needed = 0;
	int			end = 0;
	bool		known = true;
	ListCell   *lc;

	if (info == NULL)
		return NULL;
	foreach(lc, plan->plan.targetlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(var, Var) || var->varno != (int) plan->scanrelid || var->varattno <= 0 || var->varattno > desc->natts)
			return NULL;
		needed = Max(needed, var->varattno);
	}

	projection = palloc0(offsetof(ScanProjection, columns) + sizeof(ScanColumn) * needed);
	projection->result = info->pi_state.resultslot;
	projection->needed = needed;
	projection->direct = palloc(sizeof(ScanColumn) * Max(needed, 1));
	for (int i = 0; i < needed; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		projection->columns[i].length = attribute->attlen;
		projection->columns[i].align = alignment_of(attribute);
		projection->columns[i].byval = attribute->attbyval;
		projection->columns[i].target = -1;
		projection->columns[i].offset = known ? next_offset(end, attribute->attlen, alignment_of(attribute)) : -1;
		if (attribute->attlen < 0)
			known = false;
		else
			end = projection->columns[i].offset + attribute->attlen;
	}
	foreach(lc, plan->plan.targetlist)
	{
		int			column = ((Var *) lfirst_node(TargetEntry, lc)->expr)->varattno - 1;

		if (projection->columns[column].target >= 0)
			return NULL;
		projection->columns[column].target = foreach_current_index(lc);
	}
	for (int i = 0; i < needed && projection->columns[i].offset >= 0; i++)
	{
		projection->fixed = i + 1;
		if (projection->columns[i].target >= 0)
			projection->direct[projection->ndirect++] = projection->columns[i];
	}
	return projection;
}

/*
 * Take columns from one after another, beginning with the given one at the given
 * offset; nulls is the row's null bitmap or NULL.
 */
static void
walk_columns(const ScanProjection *projection, char *data, int column, uint32 offset, const uint8 *nulls)
{
	Datum	   *values = projection->result->tts_values;
	bool	   *isnull = projection->result->tts_isnull;

	for (; column < projection->needed; column++)
	{
		const ScanColumn *at = &projection->columns[column];
		char	   *value;

		if (nulls && att_isnull(column, nulls))
		{
			if (at->target >= 0)
			{
				values[at->target] = (Datum) 0;
				isnull[at->target] = true;
			}
			continue;
		}
		if (at->length != -1 || !VARATT_NOT_PAD_BYTE(data + offset))
			offset = TYPEALIGN(at->align, offset);
		value = data + offset;
		if (at->target >= 0)
		{
			values[at->target] = fetch_att(value, at->byval, at->length);
			isnull[at->target] = false;
		}
		if (at->length > 0)
			offset += at->length;
		else if (at->length == -1)
			offset += VARSIZE_ANY(value);
		else
			offset += strlen(value) + 1;
	}
}

bool
pt_scan_project(const ScanProjection *projection, HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;
	TupleTableSlot *result = projection->result;
	char	   *data = (char *) header + header->t_hoff;

	if (unlikely(HeapTupleHeaderGetNatts(header) < projection->needed))
		return false;
	if (unlikely(TTS_SHOULDFREE(result)))
		ExecClearTuple(result);
	if (likely(!(header->t_infomask & HEAP_HASNULL)))
	{
		for (int i = 0; i < projection->ndirect; i++)
		{
			const ScanColumn *column = &projection->direct[i];

			result->tts_values[column->target] = fetch_att(data + column->offset, column->byval, column->length);
			result->tts_isnull[column->target] = false;
		}
		if (projection->fixed < projection->needed)
		{
			/* From the last known place: its length may have to be looked up. */
			int			start = projection->fixed - 1;

			walk_columns(projection, data, start, projection->columns[start].offset, NULL);
		}
	}
	else
		walk_columns(projection, data, 0, 0, header->t_bits);
	result->tts_flags &= ~TTS_FLAG_EMPTY;
	result->tts_nvalid = result->tts_tupleDescriptor->natts;
	return true;
}

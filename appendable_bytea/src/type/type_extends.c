/*-------------------------------------------------------------------------
 *
 * type_extends.c
 *	  Values that only grow: appendable_extends() and appendable_only().
 *
 * Followers, caches and copies that keep an offset rely on bytes that do not
 * change.  appendable_extends(new, old) checks that "new" begins with the bytes of
 * "old".  Parts that both values take from the same chunks are not read, so the
 * check of an append costs the tail of the row, whatever the length of the value.
 *
 * appendable_only() is a trigger function that rejects any other update, but bytes may be
 * dropped at the front if another column counts them: so offsets stay the same.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "common/int.h"
#include "executor/spi.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_extends);
PG_FUNCTION_INFO_V1(appendable_only);

/*
 * Does "value" continue the chunks of "ref"?  Then a range of chunks below
 * ref->stored has the same bytes in both.
 */
static bool
continues_reference(AbValue *value, const AbRef *ref)
{
	AbReader   *reader;
	bool		result;

	if (value->base.vid == 0 || ref->vid == 0)
		return false;
	if (ab_same_reference(&value->base, ref))
		return true;
	/* an edit has chunks that its base does not show, so compare the bytes */
	if (value->edited)
		return false;
	reader = ab_reader_open_value(value);
	result = ab_reader_has_ancestor(reader, ref);
	ab_reader_close(reader);
	return result;
}

/*
 * Does "new" begin with the bytes of "old"?  same_chunks: the same places of their chunks
 * are known to have the same bytes.
 */
static bool
begins_with(Datum new, Datum old, bool same_chunks)
{
	AbValue		a,
				b;
	bool		same = false;

	ab_parse(new, &a);
	ab_parse(old, &b);
	if (b.length <= a.length)
	{
		AbReader   *x = ab_reader_open_value(&a);
		AbReader   *y = ab_reader_open_value(&b);
		int64		shared = ab_shared_bytes(&a, &b);	/* need not be read */

		if (shared > 0 && !same_chunks && !continues_reference(&a, &b.base))
			shared = 0;
		ab_reader_seek(x, shared);
		ab_reader_seek(y, shared);
		same = ab_reader_compare(x, y, b.length - shared) == 0;
		ab_reader_close(x);
		ab_reader_close(y);
	}
	ab_value_free(&a);
	ab_value_free(&b);
	return same;
}

/*
 * How many bytes an update dropped at the front of "old" to make "new", which begins with the others;
 * -1 if it did something else, or something that the list of pieces does not show.  "old" and "new" are of
 * a row version and of the one that replaced it.
 */
int64
ab_dropped_front(Datum new, Datum old)
{
	AbValue		a,
				b;
	int64		dropped = 0;
	bool		found = false;

	if (begins_with(new, old, false))
		return 0;
	ab_parse(new, &a);
	ab_parse(old, &b);
	/* each place of a value with a list is written once */
	if (a.base.pieces && a.nsegments > 0 && a.segments[0].source >= 0 && a.base.relid == b.base.relid && a.base.vid == b.base.vid)
	{
		for (int i = 0; i < b.nsegments && !found; i++)
		{
			int64		skipped = a.segments[0].source - b.segments[i].source;

			found = b.segments[i].source >= 0 && skipped >= 0 && skipped < b.segments[i].length;
			dropped += found ? skipped : b.segments[i].length;
		}
	}
	ab_value_free(&a);
	ab_value_free(&b);
	return found && begins_with(new, ab_splice(old, 0, dropped, NULL, 0), true) ? dropped : -1;
}

/* appendable_extends(new, old), of either type */
Datum
appendable_extends(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(begins_with(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), false));
}

/* By how much a column of type bigint has increased; a null value is 0. */
static int64
increase_of(const TriggerData *data, AttrNumber attnum)
{
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	bool		old_null;
	bool		new_null;
	Datum		old = heap_getattr(data->tg_trigtuple, attnum, desc, &old_null);
	Datum		new = heap_getattr(data->tg_newtuple, attnum, desc, &new_null);
	int64		increase;

	if (pg_sub_s64_overflow(new_null ? 0 : DatumGetInt64(new), old_null ? 0 : DatumGetInt64(old), &increase))
		return -1;
	return increase;
}

/*
 * Raise an error unless the column of the new row extends that of the old one, less as many bytes
 * at its front as the column "begin" increased, if that is not 0.
 */
static void
check_column(const TriggerData *data, AttrNumber attnum, AttrNumber begin)
{
	Relation	rel = data->tg_relation;
	TupleDesc	desc = RelationGetDescr(rel);
	bool		old_null;
	bool		new_null;
	Datum		old = heap_getattr(data->tg_trigtuple, attnum, desc, &old_null);
	Datum		new = heap_getattr(data->tg_newtuple, attnum, desc, &new_null);
	int64		dropped = begin == 0 ? 0 : increase_of(data, begin);

	if (old_null)
		return;
	if (dropped < 0 || dropped > ab_length(old))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("column \"%s\" of relation \"%s\" can only increase by the bytes that are dropped",
						NameStr(TupleDescAttr(desc, begin - 1)->attname), RelationGetRelationName(rel)),
				 errdetail("The old value of column \"%s\" has %lld bytes.",
						   NameStr(TupleDescAttr(desc, attnum - 1)->attname), (long long) ab_length(old)),
				 errtablecol(rel, begin)));
	if (!new_null && begins_with(new, dropped == 0 ? old : ab_splice(old, 0, dropped, NULL, 0), false))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("column \"%s\" of relation \"%s\" can only be appended to",
					NameStr(TupleDescAttr(desc, attnum - 1)->attname), RelationGetRelationName(rel)),
			 dropped == 0 ?
			 errdetail("The new value does not begin with the %lld bytes of the old one.",
					   (long long) ab_length(old)) :
			 errdetail("The new value does not begin with the bytes of the old one after the first %lld.",
					   (long long) dropped),
			 errtablecol(rel, attnum)));
}

/* The column that argument i of a trigger names. */
AttrNumber
ab_trigger_column(const TriggerData *data, int i)
{
	AttrNumber	attnum = SPI_fnumber(RelationGetDescr(data->tg_relation), data->tg_trigger->tgargs[i]);

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						data->tg_trigger->tgargs[i], RelationGetRelationName(data->tg_relation))));
	return attnum;
}

/*
 * Trigger (BEFORE UPDATE, for each row).  Its arguments are the columns that can only
 * be appended to; without arguments it is all columns of the types.  After a column,
 * one of type bigint may be named that has the number of bytes dropped at its front.
 */
Datum
appendable_only(PG_FUNCTION_ARGS)
{
	const TriggerData *data = (TriggerData *) fcinfo->context;
	TupleDesc	desc;
	AttrNumber	attnum = 0;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", "appendable_only")));
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired BEFORE UPDATE FOR EACH ROW", "appendable_only")));

	desc = RelationGetDescr(data->tg_relation);
	for (int i = 0; i < data->tg_trigger->tgnargs; i++)
	{
		AttrNumber	begin = 0;

		attnum = ab_trigger_column(data, i);
		if (ab_type_of(TupleDescAttr(desc, attnum - 1)->atttypid) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of relation \"%s\" is not of type appendable_bytea, appendable_text, appendable_json or appendable_jsonb",
							data->tg_trigger->tgargs[i], RelationGetRelationName(data->tg_relation))));
		if (i + 1 < data->tg_trigger->tgnargs)
			begin = ab_trigger_column(data, i + 1);
		if (begin != 0 && TupleDescAttr(desc, begin - 1)->atttypid == INT8OID)
			i++;
		else
			begin = 0;
		check_column(data, attnum, begin);
	}
	attnum = 0;
	while (data->tg_trigger->tgnargs == 0 && (attnum = ab_next_column(desc, attnum)) != InvalidAttrNumber)
		check_column(data, attnum, 0);
	return PointerGetDatum(data->tg_newtuple);
}

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
 * appendable_only() is a trigger function that rejects any other update.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_extends);
PG_FUNCTION_INFO_V1(appendable_only);

/* Number of bytes that are compared at once. */
#define COMPARE_SIZE 32768

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

/* Are bytes [from, until) of two values the same? */
static bool
same_bytes(Datum a, Datum b, int64 from, int64 until)
{
	AbReader   *x = ab_reader_open(a);
	AbReader   *y = ab_reader_open(b);
	char	   *buf = palloc(COMPARE_SIZE);
	char	   *other = palloc(COMPARE_SIZE);
	bool		same = true;

	for (int64 n; same && from < until; from += n)
	{
		CHECK_FOR_INTERRUPTS();
		n = Min(until - from, COMPARE_SIZE);
		ab_reader_read(x, from, buf, n);
		ab_reader_read(y, from, other, n);
		same = memcmp(buf, other, n) == 0;
	}
	pfree(buf);
	pfree(other);
	ab_reader_close(x);
	ab_reader_close(y);
	return same;
}

/* Does "new" begin with the bytes of "old"?  Both are values of one of the types. */
bool
ab_extends(Datum new, Datum old)
{
	AbValue		a,
				b;
	int64		shared = 0;		/* bytes that both take from the same chunks */
	bool		same;

	ab_parse(new, &a);
	ab_parse(old, &b);
	same = b.length <= a.length;

	/*
	 * pieces are the same bytes only where they are at the same place:
	 * compare
	 */
	if (same && b.length > 0 && a.nsegments <= 2 && b.nsegments <= 2 &&
		a.segments[0].source == 0 && b.segments[0].source == 0 && continues_reference(&a, &b.base))
		shared = Min(a.segments[0].length, b.segments[0].length);
	same = same && same_bytes(new, old, shared, b.length);
	ab_value_free(&a);
	ab_value_free(&b);
	return same;
}

/* appendable_extends(new, old), of either type */
Datum
appendable_extends(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(ab_extends(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}

/* Raise an error unless the column of the new row extends that of the old one. */
static void
check_column(const TriggerData *data, AttrNumber attnum)
{
	Relation	rel = data->tg_relation;
	TupleDesc	desc = RelationGetDescr(rel);
	bool		old_null;
	bool		new_null;
	Datum		old = heap_getattr(data->tg_trigtuple, attnum, desc, &old_null);
	Datum		new = heap_getattr(data->tg_newtuple, attnum, desc, &new_null);

	if (old_null || (!new_null && ab_extends(new, old)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("column \"%s\" of relation \"%s\" can only be appended to",
					NameStr(TupleDescAttr(desc, attnum - 1)->attname), RelationGetRelationName(rel)),
			 errdetail("The new value does not begin with the %lld bytes of the old one.",
					   (long long) ab_length(old)),
			 errtablecol(rel, attnum)));
}

/*
 * Trigger (BEFORE UPDATE, for each row).  Its arguments are the columns that can only
 * be appended to; without arguments it is all columns of the types.
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
		const char *name = data->tg_trigger->tgargs[i];

		attnum = SPI_fnumber(desc, name);
		if (attnum <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist",
							name, RelationGetRelationName(data->tg_relation))));
		if (ab_type_of(TupleDescAttr(desc, attnum - 1)->atttypid) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of relation \"%s\" is not of type appendable_bytea, appendable_text or appendable_json",
							name, RelationGetRelationName(data->tg_relation))));
		check_column(data, attnum);
	}
	attnum = 0;
	while (data->tg_trigger->tgnargs == 0 && (attnum = ab_next_column(desc, attnum)) != InvalidAttrNumber)
		check_column(data, attnum);
	return PointerGetDatum(data->tg_newtuple);
}

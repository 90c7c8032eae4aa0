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

/* Compare "length" bytes at the same offset of two values. */
static bool
same_bytes(AbReader *a, AbReader *b, int64 from, int64 length)
{
	char	   *x = palloc(COMPARE_SIZE);
	char	   *y = palloc(COMPARE_SIZE);
	bool		same = true;

	while (same && length > 0)
	{
		int64		n = Min(length, COMPARE_SIZE);

		CHECK_FOR_INTERRUPTS();
		ab_reader_read(a, from, x, n);
		ab_reader_read(b, from, y, n);
		same = memcmp(x, y, n) == 0;
		from += n;
		length -= n;
	}
	pfree(x);
	pfree(y);
	return same;
}

/* Does "new" begin with the bytes of "old"?  Both are values of one of the types. */
bool
ab_extends(Datum new, Datum old)
{
	AbValue		a,
				b;
	AbReader   *x = NULL;
	AbReader   *y = NULL;
	int			i = 0,
				j = 0;
	int64		i_at = 0,		/* bytes of the segments that are behind "at" */
				j_at = 0;
	int64		at = 0;
	bool		same;
	bool		chunks;

	ab_parse(new, &a);
	ab_parse(old, &b);
	same = b.length <= a.length;

	/*
	 * pieces are the same bytes only where they are at the same place:
	 * compare
	 */
	chunks = same && b.length > 0 && a.nsegments <= 2 && b.nsegments <= 2 && continues_reference(&a, &b.base);
	while (same && at < b.length)
	{
		const AbSegment *s = &a.segments[i];
		const AbSegment *t = &b.segments[j];
		int64		n = Min(s->length - i_at, t->length - j_at);

		if (s->source >= 0 && t->source >= 0)
			same = chunks && s->source + i_at == t->source + j_at;
		else
			same = s->source < 0 && t->source < 0 &&
				memcmp(s->data + i_at, t->data + j_at, n) == 0;
		if (!same)
		{
			if (x == NULL)
			{
				x = ab_reader_open(new);
				y = ab_reader_open(old);
			}
			same = same_bytes(x, y, at, n);
		}
		at += n;
		i_at += n;
		j_at += n;
		if (i_at == s->length)
			i++, i_at = 0;
		if (j_at == t->length)
			j++, j_at = 0;
	}
	if (x != NULL)
	{
		ab_reader_close(x);
		ab_reader_close(y);
	}
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

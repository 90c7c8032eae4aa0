/*-------------------------------------------------------------------------
 *
 * type_deltas.c
 *	  Appended bytes for consumers of logical decoding: appendable_deltas().
 *
 * Logical decoding gives the values of a changed row whole, so a consumer of a long log
 * gets all of it for each line.  This trigger function writes a logical message with the
 * bytes that an update appended.  The message is part of the transaction: it is
 * decoded if and where the transaction is.  docs/following.md has the format and a
 * program that maintains a copy.
 *
 * Bytes that were dropped at the front are sent as their number.  A value that was changed in
 * another way is sent as a new one.  A long one is sent in messages
 * of DELTA_SIZE bytes, so the trigger and the consumer need memory for that many.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_deltas);

/* The prefix of the messages. */
#define DELTA_PREFIX "appendable_deltas"

/* Number of bytes of a value in a message. */
#define DELTA_SIZE (1024 * 1024)

/* Is a column of a type that has appends?  JSON is always written whole. */
static bool
is_sent(Form_pg_attribute column)
{
	const AbType *type = ab_type_of(column->atttypid);

	return type != NULL && type->plain != JSONOID && type->plain != JSONBOID;
}

/*
 * Send a message: what happened to which column of which row; NULL for column: to the row,
 * for key: to all.  details: further JSON; n bytes follow the JSON.
 */
static void
send_message(const TriggerData *data, const char *op, const char *key, Form_pg_attribute column,
			 const char *details, const char *bytes, int64 n)
{
	Relation	rel = data->tg_relation;
	Oid			table = RelationGetRelid(rel);
	StringInfoData message;

	/* a row of a partition is one of the partitioned table */
	if (rel->rd_rel->relispartition)
		table = llast_oid(get_partition_ancestors(table));
	initStringInfo(&message);
	appendStringInfo(&message, "{\"op\": \"%s\", \"schema\": ", op);
	escape_json(&message, get_namespace_name(get_rel_namespace(table)));
	appendStringInfoString(&message, ", \"table\": ");
	escape_json(&message, get_rel_name(table));
	if (key)
	{
		appendStringInfoString(&message, ", \"key\": {");
		escape_json(&message, data->tg_trigger->tgargs[0]);
		appendStringInfoString(&message, ": ");
		escape_json(&message, key);
		appendStringInfoChar(&message, '}');
	}
	if (column)
	{
		appendStringInfoString(&message, ", \"column\": ");
		escape_json(&message, NameStr(column->attname));
	}
	appendStringInfo(&message, "%s}\n", details);
	appendBinaryStringInfo(&message, bytes, n);
	LogLogicalMessage_compat(DELTA_PREFIX, message.data, message.len, true);
	pfree(message.data);
}

/*
 * Send the bytes of a value from an offset on.  The operation of the first message is not
 * "append" if the value is new.
 */
static void
send_bytes(const TriggerData *data, const char *op, const char *key, Form_pg_attribute column, Datum value, int64 from)
{
	int64		length = ab_length(value);
	bool		is_text = ab_type_of(column->atttypid)->plain == TEXTOID;

	do
	{
		int64		n = Min(length - from, DELTA_SIZE);
		bytea	   *bytes = ab_read_bytea(value, from, n);

		CHECK_FOR_INTERRUPTS();
		/* a character is not divided */
		if (is_text && from + n < length)
			n = pg_mbcliplen(VARDATA(bytes), n, n);
		send_message(data, op, key, column,
					 psprintf(", \"type\": \"%s\", \"offset\": %lld, \"length\": %lld",
							  is_text ? "text" : "bytea", (long long) from, (long long) n),
					 VARDATA(bytes), n);
		pfree(bytes);
		from += n;
		op = "append";
	} while (from < length);
}

/* Send what became of a column; old is NULL if the row is new. */
static void
send_column(const TriggerData *data, const char *key, AttrNumber attnum, HeapTuple old, HeapTuple new)
{
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	Form_pg_attribute column = TupleDescAttr(desc, attnum - 1);
	bool		was_null = true;
	bool		is_null;
	Datum		was = old ? heap_getattr(old, attnum, desc, &was_null) : (Datum) 0;
	Datum		is = heap_getattr(new, attnum, desc, &is_null);
	int64		dropped = -1;	/* bytes at the front; -1: the value is new */

	if (is_null)
	{
		if (!old || !was_null)
			send_message(data, "null", key, column, "", "", 0);
		return;
	}
	if (!was_null)
		dropped = ab_identical(is, was) ? 0 : ab_dropped_front(is, was);
	if (dropped < 0)
	{
		send_bytes(data, "set", key, column, is, 0);
		return;
	}
	/* its own operation: a consumer that does not know it must fail */
	if (dropped > 0)
		send_message(data, "drop", key, column,
					 psprintf(", \"offset\": %lld, \"dropped\": %lld", (long long) ab_length(was), (long long) dropped),
					 "", 0);
	if (ab_length(is) > ab_length(was) - dropped)
		send_bytes(data, "append", key, column, is, ab_length(was) - dropped);
}

/* A row's key as text. */
static char *
key_of(const TriggerData *data, HeapTuple row)
{
	const char *name = data->tg_trigger->tgargs[0];
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	int			attnum = SPI_fnumber(desc, name);
	char	   *key;

	if (attnum <= 0 || IsVirtualColumn_compat(TupleDescAttr(desc, attnum - 1)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist, or is not stored",
						name, RelationGetRelationName(data->tg_relation)),
				 errhint("The first argument of appendable_deltas() is the column that identifies a row.")));
	key = SPI_getvalue(row, desc, attnum);
	if (key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("column \"%s\" of relation \"%s\" must not be null, because it identifies the row",
						name, RelationGetRelationName(data->tg_relation))));
	return key;
}

/*
 * Trigger (AFTER, for each row, or for each statement of TRUNCATE).  Its arguments are the column that
 * identifies a row, and the columns to send; without those all of appendable_bytea and appendable_text.
 */
Datum
appendable_deltas(PG_FUNCTION_ARGS)
{
	const TriggerData *data = (TriggerData *) fcinfo->context;
	const Trigger *trigger;
	TupleDesc	desc;
	HeapTuple	old = NULL;
	HeapTuple	new = NULL;
	char	   *old_key = NULL;
	char	   *key = NULL;
	AttrNumber	attnum = 0;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", "appendable_deltas")));
	if (!TRIGGER_FIRED_AFTER(data->tg_event) ||
		TRIGGER_FIRED_FOR_ROW(data->tg_event) == (bool) TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired AFTER INSERT, UPDATE or DELETE FOR EACH ROW, or AFTER TRUNCATE", "appendable_deltas")));
	trigger = data->tg_trigger;
	if (trigger->tgnargs < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("missing argument for function \"%s\" in trigger \"%s\"", "appendable_deltas", trigger->tgname),
				 errhint("Use appendable_deltas('key column' [, 'column' ...]).")));
	/* without logical decoding there are no consumers */
	if (!XLogLogicalInfoActive())
		return PointerGetDatum(NULL);
	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
	{
		send_message(data, "truncate", NULL, NULL, "", "", 0);
		return PointerGetDatum(NULL);
	}

	desc = RelationGetDescr(data->tg_relation);
	if (!TRIGGER_FIRED_BY_INSERT(data->tg_event))
		old_key = key_of(data, old = data->tg_trigtuple);
	if (!TRIGGER_FIRED_BY_DELETE(data->tg_event))
		key = key_of(data, new = TRIGGER_FIRED_BY_INSERT(data->tg_event) ? data->tg_trigtuple : data->tg_newtuple);
	if (old && (new == NULL || strcmp(key, old_key) != 0))
	{
		send_message(data, "delete", old_key, NULL, "", "", 0);
		old = NULL;
	}
	if (new == NULL)
		return PointerGetDatum(NULL);
	for (int i = 1; i < trigger->tgnargs; i++)
	{
		const char *name = trigger->tgargs[i];

		attnum = SPI_fnumber(desc, name);
		if (attnum <= 0 || !is_sent(TupleDescAttr(desc, attnum - 1)))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("relation \"%s\" has no column \"%s\" of type appendable_bytea or appendable_text",
							RelationGetRelationName(data->tg_relation), name)));
		send_column(data, key, attnum, old, new);
	}
	while (trigger->tgnargs == 1 && (attnum = ab_next_column(desc, attnum)) != InvalidAttrNumber)
		if (is_sent(TupleDescAttr(desc, attnum - 1)))
			send_column(data, key, attnum, old, new);
	return PointerGetDatum(NULL);
}

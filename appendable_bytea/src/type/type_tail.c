/*-------------------------------------------------------------------------
 *
 * type_tail.c
 *	  Following a value: read bytes after an offset, and notify of further ones.
 *
 * appendable_tail() returns the bytes after an offset and the offset to continue
 * from; it reads those bytes and no others.  Its result of a text ends with a
 * complete character, and on request with a complete line, so a caller that continues
 * from next_offset never gets a part of either.  If the front of a value was dropped, offsets
 * count the dropped bytes, whose number is an argument, so that they stay the same.
 *
 * appendable_lines() gives a value line by line and holds no more of it than a line
 * and what it reads at once.  appendable_line_offset() finds where lines begin; it reads the
 * chunks that it passes, one at a time and in either direction.
 *
 * appendable_notify() is a trigger's function: the table's owner creates the trigger on
 * tables whose appends are to be notified, and other tables are not affected.  The server sends a
 * transaction's equal notifications once, at its commit.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_tail);
PG_FUNCTION_INFO_V1(appendable_lines);
PG_FUNCTION_INFO_V1(appendable_line_offset);
PG_FUNCTION_INFO_V1(appendable_drop_front);
PG_FUNCTION_INFO_V1(appendable_notify);

/* Bytes that are read at once to find lines. */
#define LINES_SIZE 65536

/* Bytes that are read while they are dropped, to keep the number of characters known. */
#define COUNTED_MAX 1048576

/* Where the n-th line that ends at or after byte "at" ends, n > 0; -1 if there are fewer. */
static int64
line_end(Datum value, int64 at, int64 n)
{
	AbReader   *reader = ab_reader_open(value);
	const char *data;
	int64		size;

	ab_reader_seek(reader, at);
	while (n > 0 && (size = ab_reader_next(reader, &data)) > 0)
	{
		const char *from = data;
		const char *newline;

		while (n > 0 && (newline = memchr(from, '\n', data + size - from)) != NULL)
		{
			from = newline + 1;
			n--;
		}
		at += n > 0 ? size : from - data;
	}
	ab_reader_close(reader);
	return n > 0 ? -1 : at;
}

/* Where the line begins that byte "at" is in, for n = -1, or a line before that one; 0 if there are fewer. */
static int64
line_begin(Datum value, int64 at, int64 n)
{
	AbReader   *reader = ab_reader_open(value);
	const char *data;
	int64		size;

	ab_reader_seek(reader, at);
	while (n < 0 && (size = ab_reader_previous(reader, &data)) > 0)
	{
		at -= size;
		while (size > 0 && (data[size - 1] != '\n' || ++n < 0))
			size--;
		at += size;
	}
	ab_reader_close(reader);
	return at;
}

/* How characters are found in a function's first argument; of one that is no text, each byte is one. */
static AbCharacters
argument_characters(FunctionCallInfo fcinfo)
{
	const AbType *type;
	Oid		   *types;
	int			n;

	get_func_signature(fcinfo->flinfo->fn_oid, &types, &n);
	type = ab_type_of(types[0]);
	return type && type->plain == TEXTOID ? ab_character_kind() : AB_BYTES;
}

static void
refuse_part_of_character(int64 offset)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("offset %lld is inside a character", (long long) offset),
			 errhint("Continue from the next_offset that an earlier call returned.")));
}

/* Raise an error if a byte is in the middle of a character, where it tells; its offset counts dropped bytes, too. */
static void
check_character_begin(Datum value, int64 length, int64 at, int64 dropped, AbCharacters kind)
{
	if (at > 0 && at < length && kind == AB_UTF8 && !ab_begins_character(ab_read_byte(value, at)))
		refuse_part_of_character(at + dropped);
}

/*
 * At which byte of the value reading begins: at offset "from", which counts the bytes that were
 * dropped at its front, or where the last -from bytes do; those of a text with a whole
 * character, and if wanted both with a whole line: the first one that begins there, else the
 * last one if it has not ended.
 */
static int64
tail_begin(Datum value, int64 length, int64 from, int64 dropped, AbCharacters kind, bool lines)
{
	ab_check_index(dropped, PG_INT64_MAX);
	if (from >= 0 && (from < dropped || from - dropped > length))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 from < dropped ?
				 errmsg("offset %lld is before the first byte of the value, which is at offset %lld",
						(long long) from, (long long) dropped) :
				 errmsg("offset %lld is beyond the end of the value, which has %lld bytes",
						(long long) from, (long long) length),
				 from < dropped ? errdetail("The bytes before it have been dropped.") :
				 errdetail("The value has been truncated or replaced."),
				 errhint("Start again at offset %lld.", (long long) dropped)));
	if (from >= 0)
	{
		check_character_begin(value, length, from - dropped, dropped, kind);
		return from - dropped;
	}
	from += length;
	if (from <= 0)
		return 0;
	if (lines)
	{
		int64		next = line_end(value, from - 1, 1);

		/* a line that has not ended is still to come, with its first byte */
		return next < 0 ? line_begin(value, from, -1) : next;
	}
	if (kind == AB_UTF8)
	{
		while (from < length && !ab_begins_character(ab_read_byte(value, from)))
			from++;
	}
	else if (kind == AB_OTHER)
	{
		/* characters can only be found from the start */
		bytea	   *whole = ab_read_bytea(value, 0, length);

		while (pg_mbcliplen(VARDATA(whole), length, from) < from)
			from++;
		pfree(whole);
	}
	return from;
}

/* appendable_tail(value, from_offset, max_bytes, whole_lines, dropped): {data, next_offset} from an offset on. */
Datum
appendable_tail(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		length = ab_length(value);
	int64		max_bytes = PG_GETARG_INT32(2);
	bool		lines = PG_GETARG_BOOL(3);
	int64		dropped = PG_GETARG_INT64(4);
	AbCharacters kind = argument_characters(fcinfo);
	int64		from;
	int64		end;
	int64		n;
	bytea	   *data;
	Datum		values[2];

	if (max_bytes <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_bytes must be positive")));
	/* at least a character: a caller that continues always makes progress */
	if (kind != AB_BYTES)
		max_bytes = Max(max_bytes, pg_database_encoding_max_length());
	max_bytes = Min(max_bytes, AB_MAX_FLAT);

	from = tail_begin(value, length, PG_GETARG_INT64(1), dropped, kind, lines);
	end = Min(from + max_bytes, length);
	data = ab_read_bytea(value, from, end - from);
	n = end - from;
	if (lines)
	{
		while (n > 0 && VARDATA(data)[n - 1] != '\n')
			n--;
		if (n == 0 && end < length && (end = line_end(value, end, 1)) >= 0)
		{
			/* a line longer than max_bytes comes whole */
			pfree(data);
			data = ab_read_bytea(value, from, end - from);
			n = end - from;
		}
	}
	else if (kind != AB_BYTES && end < length)
		n = pg_mbcliplen(VARDATA(data), n, n);
	SET_VARSIZE(data, VARHDRSZ + n);
	/* an offset inside a character shows in no other way */
	if (kind == AB_OTHER)
		pg_verify_mbstr(GetDatabaseEncoding(), VARDATA(data), n, false);

	values[0] = PointerGetDatum(data);
	values[1] = Int64GetDatum(dropped + from + n);
	PG_RETURN_DATUM(ab_make_row(fcinfo, values));
}

/*
 * appendable_lines(value, from_offset, unfinished, dropped): {line, next_offset} of each line from an
 * offset on, without its end; the last one also if it has none, where that is wanted.
 */
Datum
appendable_lines(PG_FUNCTION_ARGS)
{
	typedef struct LinesState
	{
		Datum		value;
		int64		length;
		int64		dropped;
		int64		read;		/* where the value was read to */
		StringInfoData buf;		/* what was read last */
		int			at;			/* in it: where the next line begins */
		bool		unfinished;
		AbCharacters kind;
	} LinesState;

	FuncCallContext *call;
	LinesState *state;
	const char *newline;
	int			searched;
	int			n;
	Datum		values[2];
	bool		nulls[2] = {false, false};

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &call->tuple_desc) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		BlessTupleDesc(call->tuple_desc);
		state = palloc0(sizeof(LinesState));
		/* the argument's memory may be gone at the next call */
		state->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(0)));
		state->length = ab_length(state->value);
		state->kind = argument_characters(fcinfo);
		state->dropped = PG_GETARG_INT64(3);
		state->read = tail_begin(state->value, state->length, PG_GETARG_INT64(1), state->dropped, state->kind, true);
		state->unfinished = PG_GETARG_BOOL(2);
		initStringInfo(&state->buf);
		call->user_fctx = state;
		MemoryContextSwitchTo(old);
	}
	call = SRF_PERCALL_SETUP();
	state = call->user_fctx;

	searched = state->at;
	while ((newline = memchr(state->buf.data + searched, '\n', state->buf.len - searched)) == NULL &&
		   state->read < state->length)
	{
		int64		size = Min(LINES_SIZE, state->length - state->read);
		bytea	   *more = ab_read_bytea(state->value, state->read, size);

		state->buf.len -= state->at;
		memmove(state->buf.data, state->buf.data + state->at, state->buf.len);
		state->at = 0;
		searched = state->buf.len;
		appendBinaryStringInfo(&state->buf, VARDATA(more), size);
		state->read += size;
		pfree(more);
	}
	if (newline == NULL && (!state->unfinished || state->at == state->buf.len))
		SRF_RETURN_DONE(call);

	n = (newline ? newline - state->buf.data : state->buf.len) - state->at;
	if (state->kind == AB_OTHER)
		pg_verify_mbstr(GetDatabaseEncoding(), state->buf.data + state->at, n, false);
	values[0] = PointerGetDatum(cstring_to_text_with_len(state->buf.data + state->at, n));
	state->at += newline ? n + 1 : n;
	values[1] = Int64GetDatum(state->dropped + state->read - (state->buf.len - state->at));
	SRF_RETURN_NEXT(call, HeapTupleGetDatum(heap_form_tuple(call->tuple_desc, values, nulls)));
}

/*
 * appendable_line_offset(value, from_offset, n, dropped): where the n-th line after the one at an offset begins, or the -n-th line begin before the offset.  After
 * the last line that has ended there is none yet, and before the first one all that there is.
 */
Datum
appendable_line_offset(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		n = PG_GETARG_INT64(2);
	int64		dropped = PG_GETARG_INT64(3);
	int64		at = tail_begin(value, ab_length(value), PG_GETARG_INT64(1), dropped, argument_characters(fcinfo), true);

	if (n > 0)
		at = line_end(value, at, n);
	else if (n < 0 && at > 0)
		at = line_begin(value, at - 1, n);
	if (at < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(dropped + at);
}

/*
 * appendable_drop_front(value, bytes): the value without its first bytes, of which nothing is copied.  A
 * text must remain whole characters.
 */
Datum
appendable_drop_front(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		bytes = PG_GETARG_INT64(1);
	AbCharacters kind = argument_characters(fcinfo);
	int64		continuations = -1;
	AbValue		parsed;

	ab_parse(value, &parsed);
	if (bytes < 0 || bytes > parsed.length)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of bytes to drop must be between 0 and the value's length, %lld",
						(long long) parsed.length)));
	check_character_begin(value, parsed.length, bytes, 0, kind);
	if (kind == AB_UTF8 && !parsed.edited && parsed.base.counted && bytes <= Min(ab_chunk_bytes(&parsed), COUNTED_MAX))
		continuations = ab_count_continuations(VARDATA(ab_read_bytea(value, 0, bytes)), bytes);
	if (kind == AB_OTHER)
	{
		/* there, characters can only be found from the start */
		bytea	   *front = ab_read_bytea(value, 0, bytes);

		if (pg_mbcliplen(VARDATA(front), bytes, bytes) != bytes)
			refuse_part_of_character(bytes);
		pfree(front);
	}
	PG_RETURN_DATUM(ab_splice_counted(value, 0, bytes, NULL, 0, continuations));
}

/* Is a column's value certainly the same in both rows? */
static bool
is_unchanged(TupleDesc desc, AttrNumber attnum, HeapTuple old, HeapTuple new)
{
	Form_pg_attribute column = TupleDescAttr(desc, attnum - 1);
	bool		old_null;
	bool		new_null;
	Datum		a = heap_getattr(old, attnum, desc, &old_null);
	Datum		b = heap_getattr(new, attnum, desc, &new_null);

	if (old_null || new_null)
		return old_null == new_null;
	if (ab_type_of(column->atttypid) != NULL)
		return ab_identical(a, b);
	return datumIsEqual(a, b, column->attbyval, column->attlen);
}

/*
 * Does an update leave what the trigger is about as it was?  That is the columns it
 * names, else all of the type.
 */
static bool
changes_nothing(const TriggerData *data)
{
	const Trigger *trigger = data->tg_trigger;
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	bool		all = trigger->tgnattr == 0;
	AttrNumber	attnum = 0;

	for (int i = 0; all ? (attnum = ab_next_column(desc, attnum)) > 0 : i < trigger->tgnattr; i++)
	{
		if (!is_unchanged(desc, all ? attnum : trigger->tgattr[i], data->tg_trigtuple, data->tg_newtuple))
			return false;
	}
	return true;
}

/*
 * Trigger (AFTER, for each row or statement) with the arguments channel and, for
 * followers of single rows, the column whose value is the payload.
 */
Datum
appendable_notify(PG_FUNCTION_ARGS)
{
	const TriggerData *data = (TriggerData *) fcinfo->context;
	const char *payload = NULL;
	HeapTuple	row;
	int			n;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", "appendable_notify")));
	if (!TRIGGER_FIRED_AFTER(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired AFTER", "appendable_notify")));
	n = data->tg_trigger->tgnargs;
	if (n < 1 || n > 2 || (n == 2 && TRIGGER_FIRED_FOR_STATEMENT(data->tg_event)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid arguments for function \"%s\" in trigger \"%s\"", "appendable_notify", data->tg_trigger->tgname),
				 errhint("Use appendable_notify('channel') or, FOR EACH ROW, appendable_notify('channel', 'key column').")));

	if (TRIGGER_FIRED_FOR_ROW(data->tg_event))
	{
		if (TRIGGER_FIRED_BY_UPDATE(data->tg_event) && changes_nothing(data))
			return PointerGetDatum(NULL);
		row = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
		if (n == 2)
		{
			TupleDesc	desc = RelationGetDescr(data->tg_relation);
			AttrNumber	attnum = ab_trigger_column(data, 1);

			if (IsVirtualColumn_compat(TupleDescAttr(desc, attnum - 1)))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("column \"%s\" of relation \"%s\" is a virtual generated column",
								data->tg_trigger->tgargs[1], RelationGetRelationName(data->tg_relation)),
						 errdetail("Its value is not stored in the row."),
						 errhint("Specify another column.")));
			payload = SPI_getvalue(row, desc, attnum);
		}
	}
	Async_Notify(data->tg_trigger->tgargs[0], payload ? payload : "");
	return PointerGetDatum(NULL);
}

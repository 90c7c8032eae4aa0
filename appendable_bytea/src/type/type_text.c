/*-------------------------------------------------------------------------
 *
 * type_text.c
 *	  Types appendable_text and appendable_json: input, output and the functions that
 *	  count characters.
 *
 * A value is stored as the bytes of its text in the database's encoding; all of
 * storage, and what works on bytes (type_io.c, type_write.c, type_hash.c,
 * type_compare.c), is that of appendable_bytea.  Whatever makes a value takes a
 * text, so its encoding is right; no function cuts one inside a character.
 *
 * A value of appendable_json is stored as the bytes of its JSON text.  json's own input
 * functions check what comes in, so errors are the server's.  The type has no function
 * that changes a value: the cast from json makes each value that is stored, so what is
 * stored is JSON.
 *
 * Functions that count characters: in an encoding of one byte a character they count
 * bytes; in UTF8 they count bytes that begin a character as the value streams by, from the
 * end if that is nearer (right() costs as much as it returns), and the length of a value is
 * in its reference, except if it is not known there; in others, whose characters cannot be
 * found from the middle, core's function gets the whole text.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_text_length);
PG_FUNCTION_INFO_V1(appendable_text_substr);
PG_FUNCTION_INFO_V1(appendable_text_left);
PG_FUNCTION_INFO_V1(appendable_text_right);
PG_FUNCTION_INFO_V1(appendable_text_position);

/* How characters are found in texts of this database. */
AbCharacters
ab_character_kind(void)
{
	if (pg_database_encoding_max_length() == 1)
		return AB_BYTES;
	return GetDatabaseEncoding() == PG_UTF8 ? AB_UTF8 : AB_OTHER;
}

AB_FUNCTION(appendable_text_in, return ab_input_by(fcinfo, textin, ab_from_plain));
AB_FUNCTION(appendable_text_out, return ab_call_whole(fcinfo, textout));
AB_FUNCTION(appendable_text_recv, return ab_input_by(fcinfo, textrecv, ab_from_plain));
AB_FUNCTION(appendable_text_send, return ab_call_whole(fcinfo, textsend));
AB_FUNCTION(appendable_json_in, return ab_input_by(fcinfo, json_in, ab_from_plain));
AB_FUNCTION(appendable_json_recv, return ab_input_by(fcinfo, json_recv, ab_from_plain));

/* The cast from character, without trailing blanks as for text. */
AB_FUNCTION(appendable_from_bpchar, return ab_from_plain(DirectFunctionCall1(rtrim1, PG_GETARG_DATUM(0))));

/* Characters in the first "bytes" bytes of a value in UTF8. */
static int64
count_characters(Datum value, int64 bytes)
{
	AbReader   *reader = ab_reader_open(value);
	const char *data;
	int64		n;
	int64		count = 0;

	while (bytes > 0 && (n = ab_reader_next(reader, &data)) > 0)
	{
		n = Min(n, bytes);
		count += n - ab_count_continuations(data, n);
		bytes -= n;
	}
	ab_reader_close(reader);
	return count;
}

/*
 * Where the character begins that follows n others, of which the first one begins at byte
 * "from"; the value's length if there are not as many.
 */
static int64
skip_characters(Datum value, int64 from, int64 n, AbCharacters kind)
{
	int64		length = ab_length(value);
	AbReader   *reader;
	const char *data;
	int64		got;

	if (n <= 0)
		return from;
	if (kind == AB_BYTES || n >= length - from)
		return Min(from + n, length);
	reader = ab_reader_open(value);
	ab_reader_seek(reader, from);
	while (n >= 0 && (got = ab_reader_next(reader, &data)) > 0)
	{
		int64		i;

		for (i = 0; i < got; i++)
		{
			if (ab_begins_character(data[i]) && n-- == 0)
				break;
		}
		from += i;
	}
	ab_reader_close(reader);
	return from;
}

/* Where the last "n" characters of a value begin. */
static int64
offset_from_end(Datum value, int64 n, AbCharacters kind)
{
	int64		at = ab_length(value);
	AbReader   *reader;
	const char *data;
	int64		size;

	if (n <= 0)
		return at;
	if (kind == AB_BYTES || n >= at)
		return Max(at - n, 0);
	reader = ab_reader_open(value);
	ab_reader_seek(reader, at);
	while (n > 0 && (size = ab_reader_previous(reader, &data)) > 0)
	{
		at -= size;
		while (size > 0 && (!ab_begins_character(data[size - 1]) || --n > 0))
			size--;
		at += Max(size - 1, 0);
	}
	ab_reader_close(reader);
	return at;
}

/* length() */
Datum
appendable_text_length(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		length = ab_length(value);
	AbValue		parsed;

	switch (ab_character_kind())
	{
		case AB_BYTES:
			break;
		case AB_UTF8:
			ab_parse(value, &parsed);
			length = ab_characters(&parsed);
			if (length < 0)
				length = count_characters(value, parsed.length);
			ab_value_free(&parsed);
			break;
		case AB_OTHER:
			return ab_call_whole(fcinfo, textlen);
	}
	PG_RETURN_INT32(ab_narrow(length, NULL));
}

static Datum
text_slice(Datum value, int64 from, int64 end)
{
	return PointerGetDatum(ab_read_bytea(value, from, Max(end - from, 0)));
}

/* substr(value, start [, length]) */
Datum
appendable_text_substr(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		start = PG_GETARG_INT32(1);
	int64		length = PG_NARGS() > 2 ? PG_GETARG_INT32(2) : AB_MAX_LENGTH;
	AbCharacters kind = ab_character_kind();
	int64		from;

	if (kind == AB_OTHER)
		return ab_call_whole(fcinfo, PG_NARGS() > 2 ? text_substr : text_substr_no_len);
	if (length < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	if (start + length <= 1)
		return text_slice(value, 0, 0);
	from = skip_characters(value, 0, start - 1, kind);
	return text_slice(value, from, skip_characters(value, from, start + length - Max(start, 1), kind));
}

/* left(value, n): with a negative n, omit the last -n characters */
Datum
appendable_text_left(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		n = PG_GETARG_INT32(1);
	AbCharacters kind = ab_character_kind();

	if (kind == AB_OTHER)
		return ab_call_whole(fcinfo, text_left);
	return text_slice(value, 0, n < 0 ? offset_from_end(value, -n, kind) : skip_characters(value, 0, n, kind));
}

/* right(value, n): with a negative n, omit the first -n characters */
Datum
appendable_text_right(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	int64		n = PG_GETARG_INT32(1);
	AbCharacters kind = ab_character_kind();

	if (kind == AB_OTHER)
		return ab_call_whole(fcinfo, text_right);
	return text_slice(value, n < 0 ? skip_characters(value, 0, -n, kind) : offset_from_end(value, n, kind),
					  ab_length(value));
}

/*
 * position(pattern IN value) and strpos(): bytes are searched where a match cannot
 * begin inside a character and the collation finds nothing else equal.
 */
Datum
appendable_text_position(PG_FUNCTION_ARGS)
{
	Datum		value = PG_GETARG_DATUM(0);
	AbCharacters kind = ab_character_kind();
	int64		found;

	if (kind == AB_OTHER || !ab_is_deterministic(PG_GET_COLLATION()))
		return ab_call_whole(fcinfo, textpos);
	found = ab_position(value, PG_GETARG_BYTEA_PP(1));
	if (found > 1 && kind == AB_UTF8)
		found = count_characters(value, found - 1) + 1;
	PG_RETURN_INT32(ab_narrow(found, NULL));
}

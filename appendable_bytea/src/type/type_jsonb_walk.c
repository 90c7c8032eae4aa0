/*-------------------------------------------------------------------------
 *
 * type_jsonb_walk.c
 *	  Read parts of an appendable_jsonb; check that bytes are a jsonb.
 *
 * A jsonb is a container: a header, a JEntry for each element or for each key and then each
 * value, and the bytes of all of these in the same order (utils/jsonb.h).  A JEntry has a
 * type, and a length or the offset of its end.  So a path is followed by reading a header
 * and some JEntries at each step, and the keys that a binary search compares: a few of the
 * value's chunks.  Values without chunks and scalars are read whole, and jsonb's
 * functions are called.
 *
 * All that is read is checked: a container and its entries must be inside the bytes of
 * the container around it.  A part that is returned is checked to its last entry, because
 * jsonb's functions do not check what they read.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/string.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_jsonb_extract_path);
PG_FUNCTION_INFO_V1(appendable_jsonb_exists);
PG_FUNCTION_INFO_V1(appendable_jsonb_array_length);
PG_FUNCTION_INFO_V1(appendable_jsonb_typeof);

/* The sign bit of a numeric's first word: a header of one word (numeric.c). */
#define NUMERIC_ONE_WORD 0x8000

/* JEntries that are read at once. */
#define ENTRIES_READ	128

/* A part of a value: what a JEntry describes, without padding. */
typedef struct Part
{
	uint32		type;			/* JENTRY_IS... */
	int64		at;
	int64		length;
} Part;

/* A value being read, at one of its containers. */
typedef struct Walk
{
	Datum		value;
	AbReader   *reader;
	uint32		header;
	int64		nentries;
	int64		entries;		/* where the JEntries are in the value */
	int64		data;			/* where what they describe begins */
	int64		size;			/* bytes from there to the container's end */
	int64		first;			/* of the JEntries that were read last */
	int64		nread;
	JEntry		read[ENTRIES_READ];
} Walk;

static void
report_damage(void)
{
	ab_report_corrupted("A header or an offset of the binary JSON is out of bounds.");
}

/* The number of JEntries that follow a container's header.  An error if they do not fit in its "size" bytes. */
static int64
count_entries(uint32 header, int64 size, bool root)
{
	bool		object = (header & JB_FOBJECT) != 0;
	bool		array = (header & JB_FARRAY) != 0;
	int64		n = header & JB_CMASK;

	if (object == array || (header & ~(JB_CMASK | JB_FSCALAR | JB_FOBJECT | JB_FARRAY)) != 0 ||
		((header & JB_FSCALAR) != 0 && (!root || object || n != 1)))
		report_damage();
	if (object)
		n *= 2;
	if (n * (int64) sizeof(JEntry) > size - (int64) sizeof(uint32))
		report_damage();
	return n;
}

/* The part that a JEntry describes, which begins at "start" of the "size" bytes at "data". */
static Part
make_part(JEntry entry, int64 data, int64 size, int64 start)
{
	int64		end = JBE_OFFLENFLD(entry);
	Part		part = {entry & JENTRY_TYPEMASK};

	if (!JBE_HAS_OFF(entry))
		end += start;
	if (start > end || end > size)
		report_damage();
	if (part.type > JENTRY_ISCONTAINER)
		report_damage();
	if (part.type == JENTRY_ISNUMERIC || part.type == JENTRY_ISCONTAINER)
	{
		/* "data" is aligned */
		start = INTALIGN(start);
		if (end - start < (int64) sizeof(uint32))
			report_damage();
	}
	part.at = data + start;
	part.length = end - start;
	return part;
}

/* ---- in memory ----------------------------------------------------------- */

/* Check the bytes of a numeric as far as functions of numeric depend on its length. */
static void
check_numeric(const char *p, int64 n)
{
	int64		header = VARHDRSZ + sizeof(uint16);

	if (!VARATT_IS_4B_U(p) || VARSIZE(p) != n || n < header)
		report_damage();
	if ((*(const uint16 *) VARDATA(p) & NUMERIC_ONE_WORD) == 0)
		header += sizeof(int16);
	if (n < header)
		report_damage();
}

/* Are n aligned bytes a container?  An error if not.  root: of a whole jsonb, after its length word. */
void
ab_check_jsonb(const char *p, int64 n, bool root)
{
	uint32		header;
	const JEntry *entries;
	int64		nentries;
	int64		size;
	int64		at = 0;

	check_stack_depth();
	if (n < (int64) sizeof(uint32))
		report_damage();
	header = *(const uint32 *) p;
	entries = ((const JsonbContainer *) p)->children;
	nentries = count_entries(header, n, root);
	p = (const char *) (entries + nentries);
	size = n - sizeof(uint32) - nentries * sizeof(JEntry);
	for (int64 i = 0; i < nentries; i++)
	{
		Part		part = make_part(entries[i], 0, size, at);

		if (part.type != JENTRY_ISSTRING && (header & JB_FOBJECT) != 0 && i < nentries / 2)
			report_damage();
		if (part.type == JENTRY_ISNUMERIC)
			check_numeric(p + part.at, part.length);
		else if (part.type == JENTRY_ISCONTAINER)
		{
			if ((header & JB_FSCALAR) != 0)
				report_damage();
			ab_check_jsonb(p + part.at, part.length, false);
		}
		at = part.at + part.length;
	}
}

/* ---- in chunks ----------------------------------------------------------- */

/* Stand at a container. */
static void
enter_container(Walk *walk, const Part *part, bool root)
{
	if (part->length < (int64) sizeof(uint32))
		report_damage();
	ab_reader_read(walk->reader, part->at, (char *) &walk->header, sizeof(uint32));
	walk->nentries = count_entries(walk->header, part->length, root);
	walk->entries = part->at + sizeof(uint32);
	walk->data = walk->entries + walk->nentries * sizeof(JEntry);
	walk->size = part->at + part->length - walk->data;
	walk->nread = 0;
}

/* Begin to walk through a value of some kinds; false if it should be read whole. */
static bool
begin_walk(Walk *walk, Datum value, uint32 kinds)
{
	Part		root = {JENTRY_ISCONTAINER, 0, 0};
	AbRef		ref;

	if (!ab_parse_reference(value, &ref))
		return false;
	walk->value = value;
	walk->reader = ab_reader_open(value);
	root.length = ab_reader_length(walk->reader);
	enter_container(walk, &root, true);
	if ((walk->header & JB_FSCALAR) == 0 && (walk->header & kinds) != 0)
		return true;
	ab_reader_close(walk->reader);
	return false;
}

static JEntry
read_entry(Walk *walk, int64 i)
{
	if (i < walk->first || i >= walk->first + walk->nread || walk->nread == 0)
	{
		CHECK_FOR_INTERRUPTS();
		walk->first = i - i % ENTRIES_READ;
		walk->nread = Min(walk->nentries - walk->first, ENTRIES_READ);
		ab_reader_read(walk->reader, walk->entries + walk->first * sizeof(JEntry), (char *) walk->read,
					   walk->nread * sizeof(JEntry));
	}
	return walk->read[i - walk->first];
}

/* The part of an entry of the container. */
static Part
find_part(Walk *walk, int64 i)
{
	int64		start = 0;

	for (int64 before = i - 1; before >= 0; before--)
	{
		JEntry		entry = read_entry(walk, before);

		start += JBE_OFFLENFLD(entry);
		if (JBE_HAS_OFF(entry))
			break;
	}
	return make_part(read_entry(walk, i), walk->data, walk->size, start);
}

/* The value of a key of an object; false if it has none. */
static bool
find_key(Walk *walk, const char *key, int length, Part *part)
{
	int64		low = 0;
	int64		high = walk->nentries / 2;
	char	   *found = palloc(length);

	while (low < high)
	{
		int64		middle = low + (high - low) / 2;
		int			order;

		*part = find_part(walk, middle);
		if (part->type != JENTRY_ISSTRING)
			report_damage();
		/* jsonb's order of keys */
		if (part->length == length)
		{
			ab_reader_read(walk->reader, part->at, found, length);
			order = memcmp(found, key, length);
		}
		else
			order = part->length < length ? -1 : 1;
		if (order == 0)
		{
			*part = find_part(walk, middle + walk->nentries / 2);
			return true;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* An element of an array, counted from its end if negative; false if there is none. */
static bool
find_element(Walk *walk, int64 n, Part *part)
{
	if (n < 0)
		n += walk->nentries;
	if (n < 0 || n >= walk->nentries)
		return false;
	*part = find_part(walk, n);
	return true;
}

/* Is a text one of an array's strings? */
static bool
find_string(Walk *walk, const char *string, int length)
{
	Part		part = {JENTRY_ISNULL, walk->data, 0};
	char	   *found = palloc(length);

	for (int64 i = 0; i < walk->nentries; i++)
	{
		part = make_part(read_entry(walk, i), walk->data, walk->size, part.at + part.length - walk->data);
		if (part.type != JENTRY_ISSTRING || part.length != length)
			continue;
		ab_reader_read(walk->reader, part.at, found, length);
		if (memcmp(found, string, length) == 0)
			return true;
	}
	return false;
}

/* A part as a jsonb. */
static Jsonb *
part_as_jsonb(Walk *walk, const Part *part)
{
	JsonbValue	value;
	char	   *data = palloc(VARHDRSZ + part->length);

	if (part->type == JENTRY_ISCONTAINER)
	{
		SET_VARSIZE(data, VARHDRSZ + part->length);
		ab_reader_read(walk->reader, part->at, VARDATA(data), part->length);
		ab_check_jsonb(VARDATA(data), part->length, false);
		return (Jsonb *) data;
	}
	ab_reader_read(walk->reader, part->at, data, part->length);
	switch (part->type)
	{
		case JENTRY_ISSTRING:
			value.type = jbvString;
			value.val.string.val = data;
			value.val.string.len = part->length;
			break;
		case JENTRY_ISNUMERIC:
			check_numeric(data, part->length);
			value.type = jbvNumeric;
			value.val.numeric = (Numeric) data;
			break;
		case JENTRY_ISNULL:
			value.type = jbvNull;
			break;
		default:
			value.type = jbvBool;
			value.val.boolean = part->type == JENTRY_ISBOOL_TRUE;
			break;
	}
	return JsonbValueToJsonb(&value);
}

/* End with a part, or none, as the result. */
static Datum
end_walk(Walk *walk, const Part *part, bool found, AbJsonbForm form, bool *isnull)
{
	Datum		result = (Datum) 0;

	*isnull = !found;
	if (found && form == AB_AS_VALUE && part->type == JENTRY_ISCONTAINER)
	{
		int64		end = part->at + part->length;

		/* the rest cut off, and then the front: its bytes are not read */
		result = ab_splice(walk->value, end, ab_reader_length(walk->reader) - end, NULL, 0);
		result = ab_splice(result, 0, part->at, NULL, 0);
	}
	else if (found)
	{
		result = JsonbPGetDatum(part_as_jsonb(walk, part));
		/* an empty path means all of it */
		if (form == AB_AS_TEXT)
			result = jsonb_get_element((Jsonb *) DatumGetPointer(result), NULL, 0, isnull, true);
		else if (form == AB_AS_VALUE)
			result = ab_from_jsonb(result);
	}
	ab_reader_close(walk->reader);
	return result;
}

/* One step of a path, as jsonb_get_element() takes it. */
static bool
follow_path(Walk *walk, Datum element, Part *part)
{
	/* a subscript may be a toasted column */
	text	   *key = DatumGetTextPP(element);
	char	   *number;
	char	   *end;
	int			n;

	if ((walk->header & JB_FOBJECT) != 0)
		return find_key(walk, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), part);
	number = text_to_cstring(key);
	errno = 0;
	n = strtoint(number, &end, 10);
	return end != number && *end == '\0' && errno == 0 && find_element(walk, n, part);
}

/* The part of a value at a path of texts; null if there is none. */
Datum
ab_jsonb_at(Datum value, Datum *path, int npath, AbJsonbForm form, bool *isnull)
{
	Walk		walk;
	Part		part;

	if (npath == 0 || !begin_walk(&walk, value, JB_FOBJECT | JB_FARRAY))
	{
		value = jsonb_get_element((Jsonb *) DatumGetPointer(ab_as_jsonb(value)), path, npath, isnull, form == AB_AS_TEXT);
		return form == AB_AS_VALUE && !*isnull ? ab_from_jsonb(value) : value;
	}
	for (int i = 0; i < npath; i++)
	{
		if (i > 0 && part.type == JENTRY_ISCONTAINER)
			enter_container(&walk, &part, false);
		if ((i > 0 && part.type != JENTRY_ISCONTAINER) || !follow_path(&walk, path[i], &part))
			return end_walk(&walk, NULL, false, form, isnull);
	}
	return end_walk(&walk, &part, true, form, isnull);
}

/* ---- own forms of jsonb's functions -------------------------------------- */

/*
 * The form in which a function returns a part: jsonb's functions and those of text share
 * these, and so do those that return a value of the type, for another function of jsonb to
 * read a part of it.
 */
static AbJsonbForm
result_form(FunctionCallInfo fcinfo)
{
	Oid			type = get_fn_expr_rettype(fcinfo->flinfo);

	if (!OidIsValid(type))
		type = get_func_rettype(fcinfo->flinfo->fn_oid);
	return type == JSONBOID ? AB_AS_JSONB : type == TEXTOID ? AB_AS_TEXT : AB_AS_VALUE;
}

/* -> or ->> with a key of an object or the number of an array's element. */
static Datum
get_child(FunctionCallInfo fcinfo, uint32 kind, PGFunction function, PGFunction text_function)
{
	AbJsonbForm form = result_form(fcinfo);
	Walk		walk;
	Part		part;
	bool		found = false;

	if (!begin_walk(&walk, PG_GETARG_DATUM(0), JB_FOBJECT | JB_FARRAY))
	{
		Datum		result = ab_call_as_jsonb(fcinfo, form == AB_AS_TEXT ? text_function : function);

		return form == AB_AS_VALUE && !fcinfo->isnull ? ab_from_jsonb(result) : result;
	}
	if ((walk.header & kind) == 0)
		;
	else if (kind == JB_FARRAY)
		found = find_element(&walk, PG_GETARG_INT32(1), &part);
	else
	{
		text	   *key = PG_GETARG_TEXT_PP(1);

		found = find_key(&walk, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), &part);
	}
	return end_walk(&walk, &part, found, form, &fcinfo->isnull);
}

AB_FUNCTION(appendable_jsonb_object_field, return get_child(fcinfo, JB_FOBJECT, jsonb_object_field, jsonb_object_field_text));
AB_FUNCTION(appendable_jsonb_array_element, return get_child(fcinfo, JB_FARRAY, jsonb_array_element, jsonb_array_element_text));

/* #> or #>> */
Datum
appendable_jsonb_extract_path(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(1);
	Datum	   *path;
	bool	   *nulls;
	int			npath;

	if (array_contains_nulls(array))
		PG_RETURN_NULL();
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &path, &nulls, &npath);
	return ab_jsonb_at(PG_GETARG_DATUM(0), path, npath, result_form(fcinfo), &fcinfo->isnull);
}

/* ? */
Datum
appendable_jsonb_exists(PG_FUNCTION_ARGS)
{
	text	   *key = PG_GETARG_TEXT_PP(1);
	Walk		walk;
	Part		part;
	bool		found;

	if (!begin_walk(&walk, PG_GETARG_DATUM(0), JB_FOBJECT | JB_FARRAY))
		return ab_call_as_jsonb(fcinfo, jsonb_exists);
	if ((walk.header & JB_FOBJECT) != 0)
		found = find_key(&walk, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), &part);
	else
		found = find_string(&walk, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
	ab_reader_close(walk.reader);
	PG_RETURN_BOOL(found);
}

/* jsonb_array_length(): if it is no array, jsonb's function raises the error. */
Datum
appendable_jsonb_array_length(PG_FUNCTION_ARGS)
{
	Walk		walk;

	if (!begin_walk(&walk, PG_GETARG_DATUM(0), JB_FARRAY))
		return ab_call_as_jsonb(fcinfo, jsonb_array_length);
	ab_reader_close(walk.reader);
	PG_RETURN_INT32(walk.nentries);
}

Datum
appendable_jsonb_typeof(PG_FUNCTION_ARGS)
{
	Walk		walk;

	if (!begin_walk(&walk, PG_GETARG_DATUM(0), JB_FOBJECT | JB_FARRAY))
		return ab_call_as_jsonb(fcinfo, jsonb_typeof);
	ab_reader_close(walk.reader);
	PG_RETURN_TEXT_P(cstring_to_text((walk.header & JB_FOBJECT) != 0 ? "object" : "array"));
}

/*
 * jsonb.c
 *		Fuzz the readers of appendable_jsonb: any bytes as the binary form of a jsonb.
 *		If the check accepts them, functions like jsonb's, which check nothing, read each
 *		entry within the bytes, and a walk finds the same entries.  If not, a walk
 *		raises the error for damaged data, or returns parts that pass the check.
 */
#include "stubs.h"

#include "fmgr.h"

#undef snprintf
#include "type/type_jsonb_walk.c"

/* The value that is read. */
static const char *fuzz_value;
static int64 fuzz_length;

struct AbReader
{
	int			unused;
};

AbReader *
ab_reader_open(Datum datum)
{
	return palloc(sizeof(AbReader));
}

void
ab_reader_close(AbReader *reader)
{
	pfree(reader);
}

int64
ab_reader_length(AbReader *reader)
{
	return fuzz_length;
}

bool
ab_parse_reference(Datum datum, AbRef *ref)
{
	return true;
}

/* A walk may only ask for bytes of the value. */
void
ab_reader_read(AbReader *reader, int64 offset, char *buf, int64 length)
{
	MUST(offset >= 0 && length >= 0 && offset <= fuzz_length && length <= fuzz_length - offset);
	memcpy(buf, fuzz_value + offset, length);
}

void
ab_report_corrupted(const char *detail)
{
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("damaged")));
	pg_unreachable();
}

/* The sum of some bytes: reads each. */
static int64
sum_of(const char *p, int64 n)
{
	int64		sum = 0;

	for (int64 i = 0; i < n; i++)
		sum += (unsigned char) p[i];
	return sum;
}

Jsonb *
JsonbValueToJsonb(JsonbValue *value)
{
	struct varlena *result = palloc(VARHDRSZ);

	SET_VARSIZE(result, VARHDRSZ);
	if (value->type == jbvString)
		(void) sum_of(value->val.string.val, value->val.string.len);
	else if (value->type == jbvNumeric)
		(void) sum_of((char *) value->val.numeric, VARSIZE(value->val.numeric));
	return (Jsonb *) result;
}

Datum
jsonb_get_element(Jsonb *jb, Datum *path, int npath, bool *isnull, bool as_text)
{
	*isnull = false;
	return JsonbPGetDatum(jb);
}

Datum
ab_as_jsonb(Datum value)
{
	abort();					/* a scalar is not given to a walk */
}

/* The paths are not toasted. */
struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

char *
text_to_cstring(const text *t)
{
	int			n = VARSIZE_ANY_EXHDR(t);
	char	   *s = palloc(n + 1);

	memcpy(s, VARDATA_ANY(t), n);
	s[n] = '\0';
	return s;
}

int
strtoint(const char *str, char **endptr, int base)
{
	long		n = strtol(str, endptr, base);

	if (n != (int) n)
		errno = ERANGE;
	return (int) n;
}

/* Functions that only the SQL-callable ones call. */
#define NEVER(type, name, ...) type name(__VA_ARGS__) { abort(); }
NEVER(Datum, ab_from_jsonb, Datum datum)
NEVER(Datum, ab_splice, Datum value, int64 offset, int64 removed, const char *data, int64 length)
NEVER(Datum, ab_call_as_jsonb, FunctionCallInfo fcinfo, PGFunction function)
NEVER(Datum, jsonb_object_field, PG_FUNCTION_ARGS)
NEVER(Datum, jsonb_object_field_text, PG_FUNCTION_ARGS)
NEVER(Datum, jsonb_array_element, PG_FUNCTION_ARGS)
NEVER(Datum, jsonb_array_element_text, PG_FUNCTION_ARGS)
NEVER(Datum, jsonb_exists, PG_FUNCTION_ARGS)
NEVER(Datum, jsonb_array_length, PG_FUNCTION_ARGS)
NEVER(Datum, jsonb_typeof, PG_FUNCTION_ARGS)
NEVER(text *, cstring_to_text, const char *s)
NEVER(struct varlena *, pg_detoast_datum, struct varlena *datum)
NEVER(bool, array_contains_nulls, ArrayType *array)
NEVER(void, deconstruct_array, ArrayType *array, Oid type, int length, bool byval, char align, Datum **elements, bool **nulls, int *n)
NEVER(Oid, get_fn_expr_rettype, FmgrInfo *flinfo)
NEVER(Oid, get_func_rettype, Oid function)
NEVER(void, ProcessInterrupts, void)

volatile sig_atomic_t InterruptPending = false;

/* ---- readers that check nothing ------------------------------------------- */

/* The end of an entry's bytes: its own offset, or the sum of lengths after the last one. */
static uint32
end_of_entry(const JsonbContainer *container, int i)
{
	uint32		end = 0;

	for (; i >= 0; i--)
	{
		end += JBE_OFFLENFLD(container->children[i]);
		if (JBE_HAS_OFF(container->children[i]))
			break;
	}
	return end;
}

static int
entries_of(const JsonbContainer *container)
{
	int			n = container->header & JB_CMASK;

	return container->header & JB_FOBJECT ? 2 * n : n;
}

/* Read a numeric as its functions do: one or two words of header, then digits. */
static int64
read_numeric(const char *p)
{
	uint16		word;

	memcpy(&word, p + VARHDRSZ, sizeof(word));
	MUST(VARSIZE(p) >= VARHDRSZ + (word & NUMERIC_ONE_WORD ? 1 : 2) * sizeof(uint16));
	return sum_of(p, VARSIZE(p));
}

/* Read all of a container as jsonb's iterator does. */
static int64
read_container(const JsonbContainer *container)
{
	int			n = entries_of(container);
	const char *base = (const char *) &container->children[n];
	int64		sum = 0;

	for (int i = 0; i < n; i++)
	{
		JEntry		entry = container->children[i];
		uint32		start = i > 0 ? end_of_entry(container, i - 1) : 0;
		uint32		end = end_of_entry(container, i);

		if (JBE_ISSTRING(entry))
			sum += sum_of(base + start, end - start);
		else if (JBE_ISNUMERIC(entry))
			sum += read_numeric(base + INTALIGN(start));
		else if (JBE_ISCONTAINER(entry))
			sum += read_container((const JsonbContainer *) (base + INTALIGN(start)));
	}
	return sum;
}

/* A key or a number as an element of a path. */
static Datum
text_of(const char *p, int64 n)
{
	text	   *t = palloc(VARHDRSZ + n);

	SET_VARSIZE(t, VARHDRSZ + n);
	memcpy(VARDATA(t), p, n);
	return PointerGetDatum(t);
}

static void
walk_to(Datum *path, int npath)
{
	bool		isnull;
	Datum		found = ab_jsonb_at((Datum) 0, path, npath, AB_AS_JSONB, &isnull);

	/* a part that is returned passed the check */
	if (!isnull && VARSIZE(DatumGetPointer(found)) > VARHDRSZ)
		(void) read_container((const JsonbContainer *) VARDATA(DatumGetPointer(found)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	volatile bool accepted = false;
	const JsonbContainer *root;
	char	   *value;

	if (size < sizeof(uint32) + 4)
		return 0;
	/* where to walk to comes first */
	fuzz_length = size - 4;
	value = malloc(fuzz_length);
	fuzz_value = memcpy(value, data + 4, fuzz_length);
	root = (const JsonbContainer *) fuzz_value;
	if (setjmp(fuzz_error) == 0)
	{
		ab_check_jsonb(fuzz_value, fuzz_length, true);
		accepted = true;
	}
	else
		MUST(fuzz_sqlstate == ERRCODE_DATA_CORRUPTED);
	if (accepted)
		(void) read_container(root);
	/* a scalar is read whole, not walked through */
	if ((root->header & JB_FSCALAR) == 0)
	{
		if (setjmp(fuzz_error) == 0)
		{
			char		number[3][16];
			Datum		path[3];
			Walk		walk;

			/* the strings of an array, for ?; an error ends this input */
			if (data[3] > 127 && begin_walk(&walk, (Datum) 0, JB_FARRAY))
				(void) find_string(&walk, (const char *) data, 1 + data[3] % 4);

			for (int i = 0; i < 3; i++)
			{
				snprintf(number[i], sizeof(number[i]), "%d", (int8) data[i]);
				path[i] = text_of(number[i], strlen(number[i]));
			}
			walk_to(path, 1 + data[3] % 3);
			/* each key of an accepted object, and what is below it */
			if (accepted && (root->header & JB_FOBJECT) != 0)
			{
				int			n = entries_of(root) / 2;

				for (int i = 0; i < n && i < 40; i++)
				{
					uint32		start = i > 0 ? end_of_entry(root, i - 1) : 0;

					path[0] = text_of((const char *) &root->children[2 * n] + start, end_of_entry(root, i) - start);
					walk_to(path, 1 + data[3] % 3);
				}
			}
			/* an element is found if the array has it */
			if (accepted && (root->header & JB_FARRAY) != 0)
			{
				int			n = entries_of(root);
				bool		isnull;

				(void) ab_jsonb_at((Datum) 0, path, 1, false, &isnull);
				MUST(isnull == ((int8) data[0] >= n || (int8) data[0] < -n));
			}
		}
		else
			MUST(!accepted && fuzz_sqlstate == ERRCODE_DATA_CORRUPTED);
	}
	fuzz_free_all();
	free(value);
	return 0;
}

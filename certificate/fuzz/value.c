/*
 * value.c
 *		Fuzz the datum parser of appendable_bytea: any bytes as a value.  Either they
 *		are refused as damaged, or as too large, or they are a value of which all
 *		functions say the same, whose literal bytes lie within the datum, and from
 *		which appending and splicing make another such value.  A list of pieces that is
 *		accepted is the one that is written for these pieces.
 */
#include "stubs.h"

#include "value/datum.c"
#include "value/edit.c"
#include "value/pieces.c"

int			ab_max_size_mb = 64 * 1024;

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

struct varlena *
detoast_attr_slice(struct varlena *attr, int32 offset, int32 length)
{
	abort();					/* what is made here is never fetched */
}

Size
toast_raw_datum_size(Datum value)
{
	return VARSIZE_ANY_EXHDR(DatumGetPointer(value)) + VARHDRSZ;
}

void *
ab_palloc(Size size)
{
	return palloc(size);
}

/* A datum of exactly these bytes. */
static Datum
datum_of(const uint8_t *data, size_t size)
{
	struct varlena *v = palloc(size + VARHDRSZ);

	SET_VARSIZE(v, size + VARHDRSZ);
	memcpy(VARDATA(v), data, size);
	return PointerGetDatum(v);
}

/* A list says what it must, in the only way in which it can be written. */
static void
look_at_list(Datum datum, const AbValue *value)
{
	int			n = ab_chunk_segments(value);
	int64		sum = 0;
	struct varlena *again;
	char	   *end;

	MUST(n > 0 && n <= AB_MAX_PIECES);
	for (int i = 0; i < n; i++)
	{
		const AbSegment *s = &value->segments[i];

		sum += s->length;
		MUST(i == 0 || s->source != s[-1].source + s[-1].length);
		for (int k = 0; k < i; k++)
			MUST(s->source >= value->segments[k].source + value->segments[k].length ||
				 value->segments[k].source >= s->source + s->length);
	}
	MUST(sum == ab_chunk_bytes(value) && sum <= value->base.stored);
	end = ab_alloc_list(&value->base, value->segments, n, false, 0, &again);
	MUST(end - VARDATA(again) <= VARSIZE_ANY_EXHDR(DatumGetPointer(datum)) &&
		 memcmp(VARDATA(again) + 1, (char *) VARDATA_ANY(DatumGetPointer(datum)) + 1, end - VARDATA(again) - 1) == 0);
}

/* Take a datum apart and look whether everything agrees. */
static int64
look(Datum datum)
{
	const char *from = VARDATA_ANY(DatumGetPointer(datum));
	const char *to = from + VARSIZE_ANY_EXHDR(DatumGetPointer(datum));
	AbValue		value;
	AbRef		ref;
	int64		sum = 0;
	unsigned	bytes = 0;

	ab_parse(datum, &value);
	for (int i = 0; i < value.nsegments; i++)
	{
		AbSegment  *s = &value.segments[i];

		MUST(s->length > 0);
		sum += s->length;
		if (s->source < 0)
		{
			MUST(s->data >= from && s->length <= to - s->data);
			for (int64 k = 0; k < s->length; k++)
				bytes += (unsigned char) s->data[k];
		}
		else
			MUST(value.base.vid > 0 && s->source <= value.base.stored - s->length);
	}
	MUST(sum == value.length && value.length <= AB_MAX_LENGTH + (int64) MaxAllocSize);
	MUST(ab_length(datum) == value.length);
	MUST(ab_parse_reference(datum, &ref) == (value.base.vid != 0));
	if (value.base.vid != 0)
		MUST(ab_same_reference(&ref, &value.base));
	(void) ab_parse_reference_lenient(datum, true, &ref);
	MUST(value.base.vid == 0 || value.base.counted || ab_characters(&value) == -1);
	MUST(value.base.vid != 0 && !value.base.counted ? true : ab_characters(&value) >= 0 && ab_characters(&value) <= value.length);
	if (value.base.pieces && !value.edited)
		look_at_list(datum, &value);
	ab_value_free(&value);
	return sum + 0 * bytes;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (setjmp(fuzz_error) == 0)
	{
		uint32		numbers[3] = {0};
		Datum		datum;
		Datum		other;
		int64		length;
		int64		offset;
		int64		removed;

		/* where to splice comes first */
		if (size > sizeof(numbers))
		{
			memcpy(numbers, data, sizeof(numbers));
			data += sizeof(numbers);
			size -= sizeof(numbers);
		}
		datum = datum_of(data, size);
		length = look(datum);
		other = ab_append(datum, "new bytes", numbers[0] % 10);
		MUST(look(other) == length + numbers[0] % 10);
		offset = length > 0 ? numbers[1] % length : 0;
		removed = length > offset ? numbers[2] % (length - offset) : 0;
		other = ab_splice(datum, offset, removed, "spliced", numbers[0] % 8);
		MUST(look(other) == length - removed + numbers[0] % 8);
		other = ab_append(other, "x", 1);
		MUST(look(other) == length - removed + numbers[0] % 8 + 1);
	}
	else
		MUST(fuzz_sqlstate == ERRCODE_DATA_CORRUPTED || fuzz_sqlstate == ERRCODE_PROGRAM_LIMIT_EXCEEDED);
	fuzz_free_all();
	return 0;
}

/*
 * difference.c
 *		Fuzz the difference finder of appendable_bytea: an input is a list of commands
 *		that make an old string and a new one, of bytes, repetitions and parts of what
 *		is there.  Copies must ascend in both strings, lie within them and have the same
 *		bytes in both; the common start and end must be as long as they can be.
 */
#include "stubs.h"

#include "value/difference.c"

#define LONGEST		65536
#define MOST_COPIES	64

typedef struct Made
{
	char		bytes[LONGEST];
	int64		length;
} Made;

static void
add(Made *string, const char *data, int64 n)
{
	n = Min(n, LONGEST - string->length);
	memmove(string->bytes + string->length, data, n);
	string->length += n;
}

/* Make strings of commands: a byte for what, two for a length, two for a place. */
static void
make_strings(const uint8_t *data, size_t size, Made *old, Made *new)
{
	while (size >= 5)
	{
		Made	   *to = data[0] & 1 ? old : new;
		int64		n = data[1] | data[2] << 8;
		int64		at = data[3] | data[4] << 8;
		uint32		state = at;

		switch (data[0] >> 1 & 3)
		{
			case 0:				/* bytes of the input */
				n = Min(n, (int64) size - 5);
				add(to, (const char *) data + 5, n);
				data += n;
				size -= n;
				break;
			case 1:				/* one byte, many times */
				for (int64 i = 0; i < n; i++)
					add(to, (const char *) data + 3, 1);
				break;
			case 2:				/* bytes that do not repeat */
				for (int64 i = 0; i < n; i++)
				{
					char		byte;

					state = state * 1664525 + 1013904223;
					byte = (char) (state >> 24);
					add(to, &byte, 1);
				}
				break;
			case 3:				/* a part of the old one */
				if (at < old->length)
					add(to, old->bytes + at, Min(n, old->length - at));
				break;
		}
		data += 5;
		size -= 5;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Made old,
				new;
	AbCopy		copies[MOST_COPIES];
	char	   *a,
			   *b;
	int64		shorter;
	int64		prefix;
	int64		suffix;
	int			count;

	old.length = new.length = 0;
	make_strings(data, size, &old, &new);

	/* in memory of their lengths, so that the sanitizer sees what is read beyond */
	a = memcpy(palloc(old.length + 1), old.bytes, old.length);
	b = memcpy(palloc(new.length + 1), new.bytes, new.length);
	shorter = Min(old.length, new.length);
	prefix = ab_common_prefix(a, b, shorter);
	MUST(prefix <= shorter && memcmp(a, b, prefix) == 0 && (prefix == shorter || a[prefix] != b[prefix]));
	suffix = ab_common_suffix(a + old.length, b + new.length, shorter - prefix);
	MUST(prefix + suffix <= shorter && memcmp(a + old.length - suffix, b + new.length - suffix, suffix) == 0);
	MUST(prefix + suffix == shorter || a[old.length - suffix - 1] != b[new.length - suffix - 1]);

	count = ab_find_copies(a, old.length, b, new.length, copies, MOST_COPIES);
	MUST(count >= 0 && count <= MOST_COPIES);
	for (int i = 0; i < count; i++)
	{
		AbCopy	   *c = &copies[i];

		MUST(c->length >= MIN_COPY && c->old >= 0 && c->new >= 0);
		MUST(c->old <= old.length - c->length && c->new <= new.length - c->length);
		MUST(i == 0 || (c->old >= c[-1].old + c[-1].length && c->new >= c[-1].new + c[-1].length));
		MUST(memcmp(a + c->old, b + c->new, c->length) == 0);
	}
	if (new.length > 0)
	{
		AbBlockIndex *index = ab_index_blocks(b, new.length, ab_index_block_size(new.length), ab_index_block_size(new.length));

		(void) ab_index_shared(index, b, new.length, a, old.length, old.length);
		pfree(index);
	}
	fuzz_free_all();
	return 0;
}

/*
 * profile.c
 *		Fuzz the reader of light_explain's profile file: any bytes after a valid head, with
 *		their checksum.  Each plan that is accepted lies within the file, a file that
 *		is not whole is reported, and what was read and is written makes the same
 *		file as before, as far as it was read.
 */
#define _GNU_SOURCE
#include "stubs.h"

#include <sys/mman.h>

#include "show/profile_file.c"

#undef printf

/* One part, with plans in the order in which they were made. */
#define PLANS 64

typedef struct FuzzPlan
{
	LightPlan	plan;
	char	   *text;
	char	   *advice;
	LightPlanNode *nodes;
} FuzzPlan;

static FuzzPlan plans[PLANS];
static int	nplans;
static LightPart only_part;
static LightProfileShared shared = {.nparts = 1,.nplans = PLANS};
LightProfileShared *light_profile_shared = &shared;
bool		light_profile_keep = true;

static int	file = -1;			/* what there is by the name of the profile's file */
static int	temporary = -1;		/* ... by that name with .tmp */

static pg_crc32c
sum(pg_crc32c crc, const void *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		crc = crc * 31 + ((const unsigned char *) data)[i];
	return crc;
}

pg_crc32c	(*pg_comp_crc32c) (pg_crc32c crc, const void *data, size_t length) = sum;

pg_crc32c
pg_comp_crc32c_sse42(pg_crc32c crc, const void *data, size_t length)
{
	return sum(crc, data, length);
}

LightPart *
light_part(int part)
{
	return &only_part;
}

int
light_part_of(const LightPlanKey *key)
{
	return 0;
}

LightPlan *
light_plan(int part, int n)
{
	return &plans[n].plan;
}

LightPlan *
light_plan_make(int part, const LightPlanKey *key, uint64 shape, int nnodes, bool evict)
{
	FuzzPlan   *made = &plans[nplans];

	MUST(nnodes > 0);
	if (nplans == PLANS)
		return NULL;
	nplans++;
	only_part.nplans++;
	memset(made, 0, sizeof(*made));
	made->plan.key = *key;
	made->plan.shape = shape;
	made->plan.nnodes = nnodes;
	made->nodes = palloc0(nnodes * sizeof(LightPlanNode));
	return &made->plan;
}

void
light_plan_set_text(int part, LightPlan *plan, const char *source, int length, int encoding)
{
	((FuzzPlan *) plan)->text = memcpy(palloc(length), source, length);
	plan->text_length = length;
	plan->encoding = encoding;
}

void
light_plan_set_advice(int part, LightPlan *plan, const char *advice, int length)
{
	((FuzzPlan *) plan)->advice = memcpy(palloc(length), advice, length);
	plan->advice_length = length;
}

char *
light_plan_text(int part, int n)
{
	return plans[n].text;
}

char *
light_plan_advice(int part, int n)
{
	return plans[n].advice;
}

LightPlanNode *
light_plan_node(int part, const LightPlan *plan, int n, int *chunk)
{
	MUST(n >= 0 && n < plan->nnodes);
	return &((FuzzPlan *) plan)->nodes[n];
}

void
light_plan_closed(int part, LightPlan *plan)
{
}

/* ---- files in memory ------------------------------------------------------- */

FILE *
AllocateFile(const char *name, const char *mode)
{
	bool		writes = mode[0] == 'w';
	FILE	   *stream;

	if (writes)
		temporary = memfd_create("profile", 0);
	MUST(strcmp(name, writes ? PROFILE_FILE ".tmp" : PROFILE_FILE) == 0);
	stream = fdopen(dup(writes ? temporary : file), mode);
	rewind(stream);
	return stream;
}

int
FreeFile(FILE *stream)
{
	return fclose(stream);
}

int
durable_rename(const char *from, const char *to, int elevel)
{
	close(file);
	file = temporary;
	temporary = -1;
	return 0;
}

int
durable_unlink(const char *name, int elevel)
{
	return 0;
}

int
errcode_for_file_access(void)
{
	return 0;
}

/* Load the file: was it whole?  If not, that is in the server's log. */
static bool
load(void)
{
	nplans = only_part.nplans = 0;
	memset(plans, 0, sizeof(plans));
	fuzz_sqlstate = 0;
	light_profile_load();
	MUST(fuzz_sqlstate == 0 || fuzz_sqlstate == ERRCODE_DATA_CORRUPTED);
	return fuzz_sqlstate == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FileHead	head = expected_head;
	uint32		wanted = size > 0 ? data[0] % 8 : 0;
	pg_crc32c	crc;
	char	   *first;
	char	   *second;
	Size		length = 0;
	Size		again = 0;
	bool		whole;

	if (size == 0)
		return 0;
	head.nplans = wanted;
	file = memfd_create("profile", 0);
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &head, sizeof(head));
	COMP_CRC32C(crc, data + 1, size - 1);
	FIN_CRC32C(crc);
	if (write(file, &head, sizeof(head)) != sizeof(head) || write(file, data + 1, size - 1) != size - 1 || write(file, &crc, sizeof(crc)) != sizeof(crc))
		abort();
	if (setjmp(fuzz_error) != 0)
		abort();				/* a server that starts would not */
	whole = load();
	MUST(whole ? nplans == wanted : nplans < wanted);
	first = light_read_file(PROFILE_FILE, &length);
	if (nplans > 0)
	{
		int			had = nplans;

		light_profile_save(0, (Datum) 0);
		second = light_read_file(PROFILE_FILE, &again);
		MUST(again <= length && memcmp(second + sizeof(head), first + sizeof(head), again - sizeof(head) - sizeof(crc)) == 0);
		MUST(load() && nplans == had);
		free(second);
	}
	free(first);
	close(file);
	fuzz_free_all();
	return 0;
}

/*-------------------------------------------------------------------------
 *
 * profile_file.c
 *	  The profile in a file while the server is down.
 *
 * Written by the postmaster when all other processes are gone, to a file of
 * another name that is then renamed; read and removed when it starts, so that no
 * base backup takes it along and no crash brings back an old one.  A file that is
 * not whole, or of another version, is ignored.  A crash loses the profile, and a
 * shutdown that kills processes that part of which one was changing then.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "show/history.h"
#include "storage/fd.h"

#define PROFILE_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/light_explain_profile.stat"

#define FILE_MAGIC 0x4C455035

typedef struct FileHead
{
	uint32		magic;
	uint32		major;			/* of the server: names of nodes differ */
	uint32		plan_size;
	uint32		node_size;
	uint32		nplans;
	uint32		unused;
} FileHead;

/* A plan in the file, before its text and its nodes. */
typedef struct FilePlan
{
	LightPlanKey key;
	uint64		shape;
	int64		executions;
	int64		cancelled;
	int64		failed;
	int32		nnodes;
	int32		encoding;
	int32		text_length;
	int32		advice_length;
} FilePlan;

static const FileHead expected_head = {FILE_MAGIC, PG_VERSION_NUM / 10000, sizeof(FilePlan), sizeof(LightPlanNode), 0, 0};

/* ---- writing ------------------------------------------------------------ */

typedef struct Writer
{
	FILE	   *file;
	pg_crc32c	crc;
	bool		failed;
} Writer;

static void
put(Writer *writer, const void *data, Size size)
{
	if (writer->failed || size == 0)
		return;
	COMP_CRC32C(writer->crc, data, size);
	writer->failed = fwrite(data, size, 1, writer->file) != 1;
}

static void
put_plan(Writer *writer, int part, int n)
{
	LightPlan  *plan = light_plan(part, n);
	FilePlan	head = {.key = plan->key,.shape = plan->shape,.executions = plan->executions,.cancelled = plan->cancelled,.failed = plan->failed,
	.nnodes = plan->nnodes,.encoding = plan->encoding,.text_length = plan->text_length,.advice_length = plan->advice_length};
	int			chunk = -1;

	put(writer, &head, sizeof(head));
	put(writer, light_plan_text(part, n), plan->text_length);
	put(writer, light_plan_advice(part, n), plan->advice_length);
	for (int i = 0; i < plan->nnodes; i++)
		put(writer, light_plan_node(part, plan, i, &chunk), sizeof(LightPlanNode));
}

/* The server is shut down: on_shmem_exit() callback of the postmaster. */
void
light_profile_save(int code, Datum arg)
{
	FileHead	head = expected_head;
	Writer		writer = {0};

	/* after a crash shared memory is not to be trusted */
	if (code != 0 || light_profile_shared == NULL)
		return;
	for (int part = 0; part < light_profile_shared->nparts; part++)
	{
		if (!light_part(part)->changing)
			head.nplans += light_part(part)->nplans;
	}
	if (!light_profile_keep || head.nplans == 0)
		return;

	writer.file = AllocateFile(PROFILE_FILE ".tmp", PG_BINARY_W);
	if (writer.file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", PROFILE_FILE ".tmp")));
		return;
	}
	INIT_CRC32C(writer.crc);
	put(&writer, &head, sizeof(head));
	for (int part = 0; part < light_profile_shared->nparts; part++)
	{
		for (int n = 0; n < light_profile_shared->nplans; n++)
		{
			if (light_plan(part, n)->nnodes > 0 && !light_part(part)->changing)
				put_plan(&writer, part, n);
		}
	}
	FIN_CRC32C(writer.crc);
	writer.failed = writer.failed || fwrite(&writer.crc, sizeof(writer.crc), 1, writer.file) != 1;
	if (FreeFile(writer.file) != 0 || writer.failed)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", PROFILE_FILE ".tmp")));
		unlink(PROFILE_FILE ".tmp");
		return;
	}
	(void) durable_rename(PROFILE_FILE ".tmp", PROFILE_FILE, LOG);
}

/* ---- reading ------------------------------------------------------------ */

/*
 * Read a whole file to memory that the caller frees with free().  Returns NULL, and *size is
 * not set, if there is none, or after a report in the server's log if it cannot be read.
 */
char *
light_read_file(const char *path, Size *size)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_R);
	struct stat status;
	char	   *data = NULL;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not read file \"%s\": %m", path)));
		return NULL;
	}
	if (fstat(fileno(file), &status) == 0 && status.st_size > 0)
	{
		*size = status.st_size;
		data = malloc(*size);
	}
	if (data == NULL || fread(data, *size, 1, file) != 1)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", path)));
		free(data);
		data = NULL;
	}
	FreeFile(file);
	return data;
}

/* Take the next "size" bytes, or NULL if there are not that many. */
static const char *
take(const char **at, const char *end, Size size)
{
	const char *taken = *at;

	if (end - *at < size)
		return NULL;
	*at += size;
	return taken;
}

/* Add a plan of the file to the profile; false if it is not a whole one. */
static bool
load_plan(const char **at, const char *end)
{
	const char *from = take(at, end, sizeof(FilePlan));
	FilePlan	head;
	const char *source;
	const char *advice;
	const char *nodes;
	LightPlan  *plan;
	int			part;
	int			chunk = -1;

	if (from == NULL)
		return false;
	memcpy(&head, from, sizeof(head));
	if (head.nnodes <= 0 || head.text_length < 0 || head.advice_length < 0)
		return false;
	source = take(at, end, head.text_length);
	advice = take(at, end, head.advice_length);
	nodes = take(at, end, (Size) head.nnodes * sizeof(LightPlanNode));
	if (source == NULL || advice == NULL || nodes == NULL)
		return false;

	part = light_part_of(&head.key);
	plan = light_plan_make(part, &head.key, head.shape, head.nnodes, false);
	if (plan == NULL)
	{
		/* there is less room than there was */
		pg_atomic_fetch_add_u64(&light_profile_shared->dropped_plans, 1);
		return true;
	}
	plan->executions = head.executions;
	plan->cancelled = head.cancelled;
	plan->failed = head.failed;
	light_plan_set_text(part, plan, source, head.text_length, head.encoding);
	light_plan_set_advice(part, plan, advice, head.advice_length);
	for (int i = 0; i < plan->nnodes; i++)
		memcpy(light_plan_node(part, plan, i, &chunk), nodes + (Size) i * sizeof(LightPlanNode), sizeof(LightPlanNode));
	/* the history had all of it when the server was shut down */
	light_plan_closed(part, plan);
	return true;
}

/* Bring back the profile of the time before; called when the server starts. */
void
light_profile_load(void)
{
	Size		size = 0;
	bool		there = access(PROFILE_FILE, F_OK) == 0;
	char	   *data = light_read_file(PROFILE_FILE, &size);
	const char *at = data;
	const char *end;
	FileHead	head;
	pg_crc32c	crc;
	bool		whole = false;

	/* what is left of one that was being written when the power went */
	unlink(PROFILE_FILE ".tmp");

	/*
	 * Once read, the file is removed durably, so that no crash of the machine
	 * restores it in addition to later counts.
	 */
	if (there)
		(void) durable_unlink(PROFILE_FILE, LOG);
	if (data == NULL)
		return;
	if (size >= sizeof(FileHead) + sizeof(pg_crc32c))
	{
		end = data + size - sizeof(pg_crc32c);
		memcpy(&head, take(&at, end, sizeof(head)), sizeof(head));
		INIT_CRC32C(crc);
		COMP_CRC32C(crc, data, end - data);
		FIN_CRC32C(crc);
		whole = memcmp(&crc, end, sizeof(crc)) == 0 && memcmp(&head, &expected_head, offsetof(FileHead, nplans)) == 0;
		for (uint32 i = 0; whole && i < head.nplans; i++)
			whole = load_plan(&at, end);
	}
	if (!whole)
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring invalid data in file \"%s\"", PROFILE_FILE),
				 errdetail("The profile of plan nodes is empty.")));
	free(data);
}

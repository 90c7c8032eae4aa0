/*-------------------------------------------------------------------------
 *
 * history_file.c
 *	  The history's file: buckets that have ended, of plans and then of waits.
 *
 * The worker writes it from time to time, and the postmaster when all other processes have
 * ended, after it has ended the open buckets.  It is written under another name and renamed.  Buckets
 * that have ended do not change, except that a statement that ends has samples in them that get its plan, so the file is read at each start, also after a
 * crash, which loses only later counts.  It is in the directory that base
 * backups leave out: a copy of the server has a separate history.
 *
 * A file that is incomplete, or of another major version, is reported and removed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "show/history.h"
#include "show/samples.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define HISTORY_FILE PG_STAT_TMP_DIR "/light_explain_history.stat"

#define FILE_MAGIC 0x4C454832

typedef struct FileHead
{
	uint32		magic;
	uint32		major;			/* of the server: plans have other identifiers */
	uint32		bucket_size;
	uint32		plan_size;
	uint32		node_size;
	uint32		wait_bucket_size;
	uint32		wait_size;
	uint32		nbuckets;		/* of plans; those of waits end with one that
								 * has the number 0 */
} FileHead;

static const FileHead expected_head = {
	FILE_MAGIC, PG_VERSION_NUM / 10000, sizeof(LightBucket), sizeof(LightHistoryPlan), sizeof(LightHistoryNode),
	sizeof(LightWaitBucket), sizeof(LightWaitEntry), 0
};

/* ---- writing ------------------------------------------------------------ */

static void
report_unwritten(void)
{
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", HISTORY_FILE ".tmp")));
}

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

/*
 * Write the buckets of waits that have ended.  The sampler should not wait for long: the lock
 * is taken for one at a time.
 */
static void
put_waits(Writer *writer)
{
	LightWaitBucket last = {0};
	int64		open = light_waits != NULL ? light_waits->open : 0;

	for (int64 number = open - (light_waits != NULL ? light_waits->nbuckets : 0); number < open; number++)
	{
		LightWaitBucket bucket;
		LightWaitEntry *entries;

		if (IsUnderPostmaster)
			LWLockAcquire(light_samples_shared->lock, LW_SHARED);
		entries = light_waits_copy(number, &bucket, DT_NOBEGIN, DT_NOEND, InvalidOid, true);
		if (IsUnderPostmaster)
			LWLockRelease(light_samples_shared->lock);
		if (entries == NULL)
			continue;
		if (bucket.end != 0)
		{
			put(writer, &bucket, sizeof(bucket));
			put(writer, entries, bucket.used * sizeof(LightWaitEntry));
		}
		pfree(entries);
	}
	put(writer, &last, sizeof(last));
}

/* Which buckets a file contains that is written now. */
LightHistoryContents
light_history_contents(void)
{
	return (LightHistoryContents)
	{
		.open = light_history->open,.open_waits = light_waits != NULL ? light_waits->open : 0,.forgotten = light_history->forgotten
	};
}

/* Write copied buckets, and those of waits, to the file.  "contents": as they were when the buckets were copied, or before. */
static void
write_file(const LightHistoryCopy *copy, LightHistoryContents contents)
{
	FileHead	head = expected_head;
	Writer		writer = {.file = AllocateFile(HISTORY_FILE ".tmp", PG_BINARY_W)};

	if (writer.file == NULL)
	{
		report_unwritten();
		return;
	}
	head.nbuckets = copy->nbuckets;
	INIT_CRC32C(writer.crc);
	put(&writer, &head, sizeof(head));
	put(&writer, copy->data, copy->size);
	put_waits(&writer);
	FIN_CRC32C(writer.crc);
	writer.failed = writer.failed || fwrite(&writer.crc, sizeof(writer.crc), 1, writer.file) != 1;
	if (FreeFile(writer.file) != 0 || writer.failed)
	{
		report_unwritten();
		unlink(HISTORY_FILE ".tmp");
		return;
	}
	if (durable_rename(HISTORY_FILE ".tmp", HISTORY_FILE, LOG) == 0)
	{
		light_history->saved = GetCurrentTimestamp();
		light_history->in_file = contents;
	}
}

/* Write the file while the server runs. */
void
light_history_write(void)
{
	LightHistoryCopy copy;
	LightHistoryContents contents;
	bool		copied;

	LWLockAcquire(light_history->lock, LW_SHARED);
	contents = light_history_contents();
	copied = light_history_copy(&copy, InvalidOid, true, false);
	LWLockRelease(light_history->lock);
	if (!copied)
		return;
	write_file(&copy, contents);
	pfree(copy.data);
}

/* The server is shut down: on_shmem_exit() callback of the postmaster. */
void
light_history_save(int code, Datum arg)
{
	LightHistoryCopy copy;

	/* after a crash shared memory is not to be trusted */
	if (code != 0 || light_history == NULL || light_history->changing || light_history_save_interval == 0)
		return;
	light_bucket_close(GetCurrentTimestamp());
	if (light_waits != NULL && light_samples_shared->changing)
		light_waits = NULL;
	if (light_waits != NULL)
		light_waits_close(GetCurrentTimestamp());
	if (light_history_copy(&copy, InvalidOid, true, false))
		write_file(&copy, light_history_contents());
}

/* ---- reading ------------------------------------------------------------ */

/* Bytes of the plans of a bucket of the file, from its beginning, that fit into a slot; -1 if they are not complete. */
static int64
fitting(const char *plans, Size used, LightHistoryOther *other)
{
	Size		fits = 0;

	for (Size at = 0; at < used;)
	{
		LightHistoryPlan plan;
		Size		size;

		if (used - at < sizeof(plan))
			return -1;
		memcpy(&plan, plans + at, sizeof(plan));
		if (plan.nnodes < 0 || plan.ntimes < 0 || plan.ntimes > LIGHT_TIMES || (Size) plan.nnodes > used / sizeof(LightHistoryNode))
			return -1;
		size = light_history_size_of(&plan);
		if (size > used - at)
			return -1;
		if (fits == at && at + size <= light_history->bucket_size)
			fits += size;
		else
		{
			/* there is less room than there was */
			LightHistoryTime times[LIGHT_TIMES];

			memcpy(times, plans + at + size - plan.ntimes * sizeof(LightHistoryTime), plan.ntimes * sizeof(LightHistoryTime));
			for (int i = 0; i < plan.ntimes; i++)
			{
				if (times[i].interval >= LIGHT_TIMES)
					return -1;
				other->times[times[i].interval] += times[i].executions;
			}
			other->plans++;
			other->executions += plan.executions;
			other->cancelled += plan.cancelled;
			other->failed += plan.failed;
			other->time += plan.time;
			other->max_time = Max(other->max_time, plan.max_time);
			light_history->other++;
		}
		at += size;
	}
	return fits;
}

/* Put a bucket of the file into its slot; false if it is not a whole one that follows the last one. */
static bool
load_bucket(const char **at, const char *end, int64 *last)
{
	LightBucket bucket;
	const char *plans;
	int64		fits;

	if (end - *at < sizeof(bucket))
		return false;
	memcpy(&bucket, *at, sizeof(bucket));
	plans = *at + sizeof(bucket);
	if (bucket.number <= *last || bucket.used > end - plans)
		return false;
	fits = fitting(plans, bucket.used, &bucket.other);
	if (fits < 0)
		return false;
	*at = plans + bucket.used;
	*last = bucket.number;
	bucket.used = fits;
	memcpy(light_bucket(bucket.number), &bucket, sizeof(bucket));
	memcpy(light_bucket(bucket.number) + 1, plans, fits);
	return true;
}

/* Put the buckets of waits of the file into their slots; false if they are not complete. */
static bool
load_waits(const char **at, const char *end)
{
	for (;;)
	{
		LightWaitBucket bucket;

		if (end - *at < sizeof(bucket))
			return false;
		memcpy(&bucket, *at, sizeof(bucket));
		*at += sizeof(bucket);
		if (bucket.number == 0)
			return true;
		if (bucket.number < 0 || bucket.used < 0 || bucket.used > (end - *at) / sizeof(LightWaitEntry))
			return false;
		if (light_waits != NULL && !light_waits_restore(&bucket, *at))
			return false;
		*at += bucket.used * sizeof(LightWaitEntry);
	}
}

/* Restore the buckets of the time before, and begin one; called when the server starts. */
void
light_history_load(void)
{
	TimestampTz now = GetCurrentTimestamp();
	Size		size = 0;
	bool		there = access(HISTORY_FILE, F_OK) == 0;
	char	   *data;
	const char *at;
	const char *end;
	FileHead	head;
	pg_crc32c	crc;
	int64		last = 0;
	bool		whole = false;

	if (light_history == NULL || light_history->loaded)
		return;
	light_history->loaded = true;
	data = light_read_file(HISTORY_FILE, &size);
	/* what is left of one that was being written when the power went */
	unlink(HISTORY_FILE ".tmp");
	if (data != NULL && size >= sizeof(FileHead) + sizeof(pg_crc32c))
	{
		at = data + sizeof(head);
		end = data + size - sizeof(pg_crc32c);
		memcpy(&head, data, sizeof(head));
		INIT_CRC32C(crc);
		COMP_CRC32C(crc, data, end - data);
		FIN_CRC32C(crc);
		whole = memcmp(&crc, end, sizeof(crc)) == 0 && memcmp(&head, &expected_head, offsetof(FileHead, nbuckets)) == 0;
		for (uint32 i = 0; whole && i < head.nbuckets; i++)
			whole = load_bucket(&at, end, &last);
		whole = whole && load_waits(&at, end) && at == end;
	}
	if (!whole)
	{
		for (int i = 0; i < light_history->nbuckets; i++)
			light_bucket(i)->number = 0;
		last = 0;
		if (light_waits != NULL)
			light_waits->restored = 0;
	}
	if (there && !whole)
	{
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring invalid data in file \"%s\"", HISTORY_FILE),
				 errdetail("The histories of plan nodes and of waits are empty.")));
		(void) durable_unlink(HISTORY_FILE, LOG);
	}
	free(data);
	/* the system's time may have been set while the server was down */
	if (last > 0 && light_bucket(last)->end > now)
		light_history->jumps++;
	light_bucket_open(last + 1, now);
	light_history->discarded = 0;
	if (light_waits != NULL)
		light_waits_restored(now);
	light_history->in_file = light_history_contents();
}

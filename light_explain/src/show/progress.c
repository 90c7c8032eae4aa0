/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  light_explain_progress(): figures of running statements, from records in
 *	  shared memory (statement/slots.c).
 *
 * A role sees its own statements, pg_read_all_stats all.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "show/show.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* Blocks of temporary files. */
typedef struct TempBlocks
{
	int64		read;
	int64		written;
} TempBlocks;

/* Has a node been called, as far as its own record tells? */
static bool
was_called(const LightRecord *record)
{
	/* a node that core measures has no caller of ours */
	return record->caller != NULL || record->core.running || record->core.nloops > 0;
}

/*
 * What nodes read and wrote of temporary files in calls that began before there
 * were records.  A node that takes all of its input in its first call has most of
 * it there, and whether it went to disk is what tells how far it is.
 *
 * Core books such a call when it ends, with all that was called from it: less that
 * it is the node's.  While it goes on the node is not on the stack of records, so
 * what it uses is booked to the root; the lowest of such nodes is at work.
 */
static void
early_temp_blocks(LightProgressSlot *copy, TempBlocks *early)
{
	LightProgressNode *nodes = light_slot_nodes(copy);
	LightRecord *root = light_slot_records(copy);
	LightRecord *records = root + 1;
	TempBlocks	known = {0};
	int			inside = -1;

	for (int i = 0; i < copy->nnodes; i++)
	{
		BufferUsage *all = InstrBuffers_compat(&records[i].core);
		bool		below_called = false;

		early[i].read = all->temp_blks_read;
		early[i].written = all->temp_blks_written;
		for (int k = i + 1; k < copy->nnodes && nodes[k].depth > nodes[i].depth; k++)
		{
			early[i].read -= records[k].self.buffers.temp_blks_read;
			early[i].written -= records[k].self.buffers.temp_blks_written;
			if (nodes[k].parent == nodes[i].id)
			{
				early[i].read -= InstrBuffers_compat(&records[k].core)->temp_blks_read;
				early[i].written -= InstrBuffers_compat(&records[k].core)->temp_blks_written;
			}
			below_called |= was_called(&records[k]);
		}
		early[i].read = Max(early[i].read, 0);
		early[i].written = Max(early[i].written, 0);
		known.read += early[i].read;
		known.written += early[i].written;
		if (below_called && !was_called(&records[i]) && (i == 0 || (inside >= 0 && nodes[i].parent == nodes[inside].id)))
			inside = i;
	}
	if (inside >= 0)
	{
		early[inside].read += Max(root->self.buffers.temp_blks_read - known.read, 0);
		early[inside].written += Max(root->self.buffers.temp_blks_written - known.written, 0);
	}
}

/*
 * Bytes that a process has read and written since it began, by the kernel's
 * count (Linux, proc(5)); false where that is not to be had.
 *
 * A sort that merges runs on disk is in one call all the while, in which none of
 * our counters moves.  These do, and what it reads and writes then is its runs.
 */
static bool
process_bytes(uint32 pid, int64 *read, int64 *written)
{
	char		path[64];
	FILE	   *file;
	bool		found;

	snprintf(path, sizeof(path), "/proc/%u/io", pid);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return false;
	found = fscanf(file, "rchar: " INT64_FORMAT " wchar: " INT64_FORMAT, read, written) == 2;
	FreeFile(file);
	return found;
}

/* Rows of one statement.  A row's own memory is "row". */
static void
return_statement(ReturnSetInfo *result, uint32 pid, LightProgressSlot *copy, MemoryContext row)
{
	TempBlocks *early_temp = palloc(Max(copy->nnodes, 1) * sizeof(TempBlocks));
	int64		bytes_read = 0;
	int64		bytes_written = 0;
	bool		bytes_known = process_bytes(pid, &bytes_read, &bytes_written);

	early_temp_blocks(copy, early_temp);
	for (int i = 0; i < copy->nnodes; i++)
	{
		LightProgressNode *node = &light_slot_nodes(copy)[i];
		LightRecord *record = &light_slot_records(copy)[i + 1];
		BufferUsage *b = &record->self.buffers;
		MemoryContext old = MemoryContextSwitchTo(row);
		Datum		values[26];
		bool		nulls[26] = {0};
		char	   *label = light_format_name(&node->name, copy->database);
		int			n = 0;
		BufferUsage early = {0};

		/*
		 * A scan's first calls may have been measured by core, before there
		 * were records.  Of a node that calls no other these are its own.
		 */
		if (node->plan_blocks > 0)
			early = *InstrBuffers_compat(&record->core);

		values[n++] = Int32GetDatum((int32) pid);
		nulls[n] = copy->leader == 0;
		values[n++] = Int32GetDatum(copy->leader);
		values[n++] = ObjectIdGetDatum(copy->database);
		values[n++] = ObjectIdGetDatum(copy->role);
		nulls[n] = copy->query_id == 0;
		values[n++] = Int64GetDatum((int64) copy->query_id);
		values[n++] = TimestampTzGetDatum(copy->started);
		values[n++] = Int32GetDatum(node->id);
		nulls[n] = node->parent < 0;
		values[n++] = Int32GetDatum(node->parent);
		values[n++] = Int32GetDatum(node->depth);
		values[n++] = light_text_datum(label, strlen(label), copy->encoding);
		values[n++] = Float8GetDatum(node->plan_rows);
		values[n++] = Float8GetDatum(record->core.ntuples + record->core.tuplecount + light_rows_passed(record));
		values[n++] = Float8GetDatum(record->core.nloops + (record->core.running ? 1 : 0));
		values[n++] = BoolGetDatum(was_called(record));
		nulls[n] = copy->tick == 0;
		values[n++] = Float8GetDatum((InstrTotal_compat(&record->core) + record->total * copy->tick) * 1000.0);
		values[n++] = Int64GetDatum(b->shared_blks_hit + early.shared_blks_hit);
		values[n++] = Int64GetDatum(b->shared_blks_read + early.shared_blks_read);
		values[n++] = Int64GetDatum(b->local_blks_hit + b->local_blks_read + early.local_blks_hit + early.local_blks_read);
		values[n++] = Int64GetDatum(b->temp_blks_read + early_temp[i].read);
		values[n++] = Int64GetDatum(b->temp_blks_written + early_temp[i].written);
		values[n++] = Float8GetDatum(node->plan_cost);
		nulls[n] = node->plan_blocks == 0;
		values[n++] = Float8GetDatum(node->plan_blocks);
		values[n++] = Int32GetDatum(copy->work_mem);
		values[n++] = Int32GetDatum(node->plan_width);
		nulls[n] = !bytes_known;
		values[n++] = Int64GetDatum(bytes_read);
		nulls[n] = !bytes_known;
		values[n++] = Int64GetDatum(bytes_written);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row);
	}
	pfree(early_temp);
}

PG_FUNCTION_INFO_V1(light_explain_progress);

/* light_explain_progress(): nodes of all running statements that can be seen. */
Datum
light_explain_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "light_explain row", ALLOCSET_DEFAULT_SIZES);
	char	   *buffer;
	LightProgressSlot *copy;

	if (light_slots() < 0)
		light_not_shared("progress of statements is not visible");
	InitMaterializedSRF(fcinfo, 0);
	buffer = palloc(light_slot_size() + 64);
	copy = (LightProgressSlot *) TYPEALIGN64(64, (uintptr_t) buffer);
	for (int i = 0; i < light_slots(); i++)
	{
		uint32		pid = light_slot_copy(i, copy, see_all);

		if (pid != 0)
			return_statement(result, pid, copy, row);
	}
	pfree(buffer);
	MemoryContextDelete(row);
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  light_explain_progress(): counters of running statements, from records in
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
#include "miscadmin.h"
#include "show/show.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/timestamp.h"

/* Blocks of temporary files. */
typedef struct TempBlocks
{
	int64		read;
	int64		written;
} TempBlocks;

/* Has a node been called, according to its record? */
static bool
was_called(const LightRecord *record)
{
	/* a node that core measures has no caller in our records */
	return record->caller != NULL || record->core.running || record->core.nloops > 0;
}

/*
 * Temporary blocks that nodes read and wrote in calls that began before there
 * were records.  A node that reads all of its input in its first call has most of
 * them there, and the progress of a node that spills is computed from them.
 *
 * Core charges such a call when it ends, with all nodes called from it: less those,
 * it is the node's.  While the call runs, the node is not on the stack of records, so
 * its usage is charged to the root; the lowest of such nodes is running.
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
 * count (Linux, proc(5)); false if that is not available.
 *
 * A sort that merges runs on disk is in one call all the time, in which none of
 * our counters changes.  These do, and most of these bytes are its runs.
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

/* Rows of one statement. */
static void
return_statement(LightRows *rows, uint32 pid, LightProgressSlot *copy)
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
		BufferUsage early = {0};

		/*
		 * A scan's first calls may have been measured by core, before there
		 * were records.  Of a node that calls no other these are its own.
		 */
		if (node->plan_blocks > 0)
			early = *InstrBuffers_compat(&record->core);

		light_row_begin(rows);
		light_row_add(rows, Int32GetDatum((int32) pid));
		light_row_add_if(rows, copy->leader != 0, Int32GetDatum(copy->leader));
		light_row_add(rows, ObjectIdGetDatum(copy->database));
		light_row_add(rows, ObjectIdGetDatum(copy->role));
		light_row_add_if(rows, copy->query_id != 0, Int64GetDatum((int64) copy->query_id));
		light_row_add(rows, TimestampTzGetDatum(copy->started));
		light_row_add(rows, Int32GetDatum(node->id));
		light_row_add_if(rows, node->parent >= 0, Int32GetDatum(node->parent));
		light_row_add(rows, Int32GetDatum(node->depth));
		light_row_add_name(rows, &node->name, copy->database, copy->encoding);
		light_row_add(rows, Float8GetDatum(node->plan_rows));
		light_row_add(rows, Float8GetDatum(record->core.ntuples + record->core.tuplecount + light_rows_skipped(record)));
		light_row_add(rows, Float8GetDatum(record->core.nloops + (record->core.running ? 1 : 0)));
		light_row_add(rows, BoolGetDatum(was_called(record)));
		light_row_add_if(rows, copy->timed, Float8GetDatum((InstrTotal_compat(&record->core) + record->total / LIGHT_SECOND) * 1000.0));
		light_row_add(rows, Int64GetDatum(b->shared_blks_hit + early.shared_blks_hit));
		light_row_add(rows, Int64GetDatum(b->shared_blks_read + early.shared_blks_read));
		light_row_add(rows, Int64GetDatum(b->local_blks_hit + b->local_blks_read + early.local_blks_hit + early.local_blks_read));
		light_row_add(rows, Int64GetDatum(b->temp_blks_read + early_temp[i].read));
		light_row_add(rows, Int64GetDatum(b->temp_blks_written + early_temp[i].written));
		light_row_add(rows, Float8GetDatum(node->plan_cost));
		light_row_add_if(rows, node->plan_blocks != 0, Float8GetDatum(node->plan_blocks));
		light_row_add(rows, Int32GetDatum(copy->work_mem));
		light_row_add(rows, Int32GetDatum(node->plan_width));
		light_row_add_if(rows, bytes_known, Int64GetDatum(bytes_read));
		light_row_add_if(rows, bytes_known, Int64GetDatum(bytes_written));
		light_row_end(rows);
	}
	pfree(early_temp);
}

PG_FUNCTION_INFO_V1(light_explain_progress);

/* light_explain_progress(): nodes of all running statements that can be seen. */
Datum
light_explain_progress(PG_FUNCTION_ARGS)
{
	LightRows	rows;
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	char	   *buffer;
	LightProgressSlot *copy;

	if (light_slots() < 0)
		light_not_shared("progress of statements is not visible");
	light_rows_begin(&rows, fcinfo);
	buffer = palloc(light_slot_size() + 64);
	copy = (LightProgressSlot *) TYPEALIGN64(64, (uintptr_t) buffer);
	for (int i = 0; i < light_slots(); i++)
	{
		uint32		pid = light_slot_copy(i, copy, see_all);

		if (pid != 0)
			return_statement(&rows, pid, copy);
	}
	pfree(buffer);
	return (Datum) 0;
}

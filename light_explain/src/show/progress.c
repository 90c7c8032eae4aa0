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
#include "utils/acl.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* Rows of one statement. */
static void
return_statement(ReturnSetInfo *result, uint32 pid, LightProgressSlot *copy)
{
	for (int i = 0; i < copy->nnodes; i++)
	{
		LightProgressNode *node = &light_slot_nodes(copy)[i];
		LightRecord *record = &light_slot_records(copy)[i + 1];
		BufferUsage *b = &record->self.buffers;
		Datum		values[24];
		bool		nulls[24] = {0};
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
		values[n++] = Float8GetDatum(record->core.ntuples + record->core.tuplecount);
		values[n++] = Float8GetDatum(record->core.nloops + (record->core.running ? 1 : 0));
		/* a node that core measures has no caller of ours */
		values[n++] = BoolGetDatum(record->caller != NULL || record->core.running || record->core.nloops > 0);
		nulls[n] = copy->tick == 0;
		values[n++] = Float8GetDatum((InstrTotal_compat(&record->core) + record->total * copy->tick) * 1000.0);
		values[n++] = Int64GetDatum(b->shared_blks_hit + early.shared_blks_hit);
		values[n++] = Int64GetDatum(b->shared_blks_read + early.shared_blks_read);
		values[n++] = Int64GetDatum(b->local_blks_hit + b->local_blks_read + early.local_blks_hit + early.local_blks_read);
		values[n++] = Int64GetDatum(b->temp_blks_read);
		values[n++] = Int64GetDatum(b->temp_blks_written);
		values[n++] = Float8GetDatum(node->plan_cost);
		nulls[n] = node->plan_blocks == 0;
		values[n++] = Float8GetDatum(node->plan_blocks);
		values[n++] = Int32GetDatum(copy->work_mem);
		values[n++] = Int32GetDatum(node->plan_width);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

PG_FUNCTION_INFO_V1(light_explain_progress);

/* light_explain_progress(): nodes of all running statements that can be seen. */
Datum
light_explain_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
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
			return_statement(result, pid, copy);
	}
	pfree(buffer);
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  light_explain_memory(): shared memory of each part of the query store, how much of it
 *	  is used, and what it had no space for.
 *
 * PUBLIC may call it: it contains nothing of any statement.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "show/show.h"

static void
return_memory(LightRows *rows, const char *area, const LightMemory *memory)
{
	light_row_begin(rows);
	light_row_add_text(rows, area);
	light_row_add(rows, Int64GetDatum(memory->bytes));
	light_row_add(rows, Int64GetDatum(memory->used));
	light_row_add(rows, Int64GetDatum(memory->max_entries));
	light_row_add(rows, Int64GetDatum(memory->entries));
	light_row_add(rows, Int64GetDatum(memory->discarded));
	light_row_end(rows);
}

/* Slots for running statements. */
static void
progress_memory(LightMemory *memory)
{
	LightProgressCounts counts;

	memset(memory, 0, sizeof(LightMemory));
	if (light_slots() < 0)
		return;
	light_progress_counts(&counts);
	memory->bytes = light_progress_size();
	memory->used = (int64) counts.used * light_slot_size();
	memory->max_entries = counts.slots;
	memory->entries = counts.used;
	memory->discarded = counts.refused_full + counts.refused_role + counts.refused_nodes;
}

/* Pages for the sampler, which are not in the server's shared memory. */
static void
cells_memory(LightMemory *memory)
{
	memset(memory, 0, sizeof(LightMemory));
	memory->bytes = memory->used = light_cells() > 0 ? (int64) (light_cells() + 1) * LIGHT_CELL_SIZE : 0;
	memory->max_entries = memory->entries = light_cells();
	memory->discarded = light_cells_unmapped();
}

PG_FUNCTION_INFO_V1(light_explain_memory);

/* light_explain_memory(): a row for each part. */
Datum
light_explain_memory(PG_FUNCTION_ARGS)
{
	LightRows	rows;
	LightMemory one;
	LightMemory two;

	light_rows_begin(&rows, fcinfo);
	progress_memory(&one);
	return_memory(&rows, "progress", &one);
	light_profile_memory(&one, &two);
	return_memory(&rows, "profile", &one);
	return_memory(&rows, "texts", &two);
	light_history_memory_used(&one);
	return_memory(&rows, "history", &one);
	light_samples_memory(&one, &two);
	return_memory(&rows, "sums", &one);
	return_memory(&rows, "ring", &two);
	light_waits_memory_used(&one);
	return_memory(&rows, "waits", &one);
	light_plans_memory(&one);
	return_memory(&rows, "plans", &one);
	cells_memory(&one);
	return_memory(&rows, "cells", &one);
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  Core's figures of what the wrappers measured.
 *
 * Settle (after ExecutorFinish): what the wrappers measured is added to core's
 * part of the records.  Since it is added, whatever core itself measured before
 * (calls before the upgrade), beside (Hash, bitmap index scans, asynchronous
 * nodes, shutting down of Gather, workers) needs no special case.
 *
 * Usage is exclusive in the records and core's is inclusive along the *dynamic*
 * tree of calls: an InitPlan or a CTE counts where it is evaluated.  So each
 * record hangs in the list of the node that called it last.  When another node
 * calls it (light_change_caller), what its subtree used since the last change
 * is booked under the old caller and, at once, as the node's own inclusive
 * usage.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_instrument.h"
#include "light_explain.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* ---- callers ------------------------------------------------------------ */

/* In whose list of callees a record is while it has this caller. */
static LightRecord *
list_owner(LightRecord *record, LightRecord *caller)
{
	return caller->query == record->query ? caller : record->query->records;
}

/* Usage of a record and all in its lists, less what is booked elsewhere. */
static void
add_usage(LightRecord *record, LightUsage *sum)
{
	int64	   *to = (int64 *) sum;
	const int64 *self = (const int64 *) &record->self;

	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
		to[i] += self[i];
	if (record->moved != NULL)
	{
		const int64 *moved = (const int64 *) record->moved;

		for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
			to[i] += moved[i];
	}
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		add_usage(callee, sum);
}

/* Add usage to core's inclusive figures of a node. */
static void
add_to_core(LightRecord *record, const LightUsage *usage)
{
	int64	   *buffers = (int64 *) InstrBuffers_compat(&record->core);
	int64	   *wal = (int64 *) InstrWal_compat(&record->core);

	if (InstrNeedBuffers_compat(&record->core))
	{
		for (int i = 0; i < sizeof(BufferUsage) / sizeof(int64); i++)
			buffers[i] += ((const int64 *) &usage->buffers)[i];
		BufferUsageNormalize_compat(InstrBuffers_compat(&record->core));
	}
	if (InstrNeedWal_compat(&record->core))
	{
		for (int i = 0; i < sizeof(WalUsage) / sizeof(int64); i++)
			wal[i] += ((const int64 *) &usage->wal)[i];
	}
}

/* Move usage between the books of two records: from one, to the other. */
static void
move_usage(LightRecord *from, LightRecord *to, const LightUsage *usage)
{
	const int64 *u = (const int64 *) usage;

	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
	{
		((int64 *) from->moved)[i] -= u[i];
		if (to != NULL)
			((int64 *) to->moved)[i] += u[i];
	}
}

static LightUsage *
new_usage(LightQuery *query)
{
	return MemoryContextAllocZero(query->context, sizeof(LightUsage));
}

/*
 * A node is called by another one than before: close the account with the old
 * caller.  Called from the wrappers; may fail for lack of memory, with nothing
 * changed.
 */
void
light_change_caller(LightRecord *record, LightRecord *caller)
{
	LightRecord *owner = list_owner(record, caller);

	if (record->caller != NULL)
	{
		LightRecord *old = list_owner(record, record->caller);
		LightRecord **link;
		LightUsage	usage = {0};
		int64		total = record->total;

		if (old == owner)
		{
			/* only another statement's node below our root: same list */
			record->caller = caller;
			return;
		}
		if (record->query->usage)
		{
			bool		any = false;

			add_usage(record, &usage);
			for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
				any = any || ((int64 *) &usage)[i] != 0;
			if (any)
			{
				bool		to_root = old == record->query->records;

				if (record->moved == NULL)
					record->moved = new_usage(record->query);
				if (!to_root && old->moved == NULL)
					old->moved = new_usage(record->query);
				add_to_core(record, &usage);
				move_usage(record, to_root ? NULL : old, &usage);
			}
		}
		old->total_taken += total - record->total_moved;
		record->total_moved = total;

		for (link = &old->callees; *link != record; link = &(*link)->next_callee)
			;
		*link = record->next_callee;
	}
	record->next_callee = owner->callees;
	owner->callees = record;
	record->caller = caller;
}

/* ---- settle ------------------------------------------------------------- */

/* Add what the wrappers measured below a record to core's figures. */
static void
settle_record(LightRecord *record, LightUsage *sum)
{
	LightUsage	usage = {0};
	int64	   *to = (int64 *) &usage;

	check_stack_depth();
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		settle_record(callee, &usage);
	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
	{
		to[i] += ((int64 *) &record->self)[i];
		if (record->moved != NULL)
			to[i] += ((int64 *) record->moved)[i];
		((int64 *) sum)[i] += to[i];
	}
	if (record->planstate != NULL)
		add_to_core(record, &usage);
}

/*
 * The statement is finished: make core's figures whole.
 */
void
light_settle(LightQuery *query)
{
	LightUsage	all = {0};

	if (!query->upgraded || query->finished)
		return;
	light_progress_hide(query);
	if (query->usage)
		settle_record(&query->records[0], &all);
	if (query->timer)
	{
		query->tick = query->clock == LIGHT_CLOCK_SYSTEM ? 1e-9 : light_seconds_per_tick();
		if (query->clock == LIGHT_CLOCK_SAMPLED)
			light_settle_times(query);
		for (int i = 1; i < query->nrecords; i++)
		{
			LightRecord *record = &query->records[i];

			if (!record->left_to_core)
				InstrAddTime_compat(&record->core, record->startup * query->tick, record->total * query->tick);
		}
	}
	query->finished = true;
}

/*-------------------------------------------------------------------------
 *
 * samples_show.c
 *	  SQL functions over samples.
 *
 * A role sees its own statements, pg_read_all_stats all: nothing else is
 * copied.  Rows are made when the lock is released.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "show/history.h"
#include "show/samples.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

static const char *const activity_names[LIGHT_ACTIVITIES] = {
	[LIGHT_IDLE] = "other",
	[LIGHT_PLANNER] = "plan",
	[LIGHT_EXECUTOR] = "execute",
	[LIGHT_UTILITY] = "utility",
	[LIGHT_COMMIT] = "commit"
};

static void
check_shared(void)
{
	if (light_samples_shared != NULL)
		return;
	if (light_off_reason == NULL && light_slots() >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there are no samples of statements"),
				 errhint("Set light_explain.sample_interval to more than 0 and restart the server.")));
	light_not_shared("there are no samples of statements");
}

/* The columns after those that name process and time. */
static void
add_key(LightRows *rows, const LightWaitKey *key)
{
	const char *type = key->wait == 0 ? "CPU" : pgstat_get_wait_event_type(key->wait);
	const char *event = NULL;

	if (key->wait == 0)
		event = "CPU";
	else if ((key->wait & LIGHT_UNKNOWN_EVENT) != LIGHT_UNKNOWN_EVENT)
		event = pgstat_get_wait_event(key->wait);

	light_row_add(rows, ObjectIdGetDatum(key->database));
	light_row_add(rows, ObjectIdGetDatum(key->role));
	light_row_add_if(rows, key->query_id != 0, Int64GetDatum((int64) key->query_id));
	light_row_add_if(rows, key->plan_id != 0, Int64GetDatum((int64) key->plan_id));
	light_row_add_if(rows, key->node >= 0, Int32GetDatum(key->node));
	light_row_add_text(rows, key->activity >= 0 && key->activity < LIGHT_ACTIVITIES ? activity_names[key->activity] : NULL);
	light_row_add_text(rows, type);
	light_row_add_text(rows, event);
}

/* May the caller see what has this key? */
static inline bool
visible(const LightWaitKey *key, bool see_all)
{
	return see_all || key->role == GetUserId();
}

PG_FUNCTION_INFO_V1(light_explain_waits);

/* light_explain_waits(): samples by statement, plan, node and wait event. */
Datum
light_explain_waits(PG_FUNCTION_ARGS)
{
	LightRows	rows;
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	LightWait  *copy;
	int			n = 0;

	check_shared();
	light_rows_begin(&rows, fcinfo);
	copy = palloc_extended(light_samples_shared->nwaits * sizeof(LightWait), MCXT_ALLOC_HUGE);
	LWLockAcquire(light_samples_shared->lock, LW_SHARED);
	for (int i = 0; i < light_samples_shared->nwaits; i++)
	{
		LightWait  *wait = light_wait(i);

		if (wait->samples > 0 && visible(&wait->key, see_all))
			copy[n++] = *wait;
	}
	LWLockRelease(light_samples_shared->lock);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		light_row_begin(&rows);
		add_key(&rows, &copy[i].key);
		light_row_add(&rows, BoolGetDatum(copy[i].key.worker != 0));
		light_row_add(&rows, Int64GetDatum(copy[i].samples));
		light_row_add(&rows, Float8GetDatum(copy[i].seconds));
		light_row_end(&rows);
	}
	pfree(copy);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(light_explain_samples);

/* light_explain_samples(): the last samples, the oldest first. */
Datum
light_explain_samples(PG_FUNCTION_ARGS)
{
	LightRows	rows;
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	LightSample *copy;
	int			n = 0;

	check_shared();
	light_rows_begin(&rows, fcinfo);
	copy = palloc_extended(light_samples_shared->nring * sizeof(LightSample), MCXT_ALLOC_HUGE);
	LWLockAcquire(light_samples_shared->lock, LW_SHARED);
	for (int64 i = Max(light_samples_shared->taken - light_samples_shared->nring, 0); i < light_samples_shared->taken; i++)
	{
		if (visible(&light_sample(i)->key, see_all))
			copy[n++] = *light_sample(i);
	}
	LWLockRelease(light_samples_shared->lock);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		light_row_begin(&rows);
		light_row_add(&rows, TimestampTzGetDatum(copy[i].time));
		light_row_add(&rows, Int32GetDatum(copy[i].pid));
		light_row_add_if(&rows, copy[i].leader != 0, Int32GetDatum(copy[i].leader));
		add_key(&rows, &copy[i].key);
		light_row_add(&rows, Float8GetDatum(copy[i].seconds));
		light_row_end(&rows);
	}
	pfree(copy);
	return (Datum) 0;
}

static void
check_waits(void)
{
	check_shared();
	if (light_waits == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no history of waits"),
				 errhint("Set light_explain.waits_size and light_explain.history_size to more than 0 and restart the server.")));
}

/* The rows of a copied bucket: the last one is of the entries for which there was no space. */
static void
return_waits(LightRows *rows, const LightWaitBucket *bucket, const LightWaitEntry *entries)
{
	for (int i = 0; i < bucket->used + (bucket->other_samples > 0); i++)
	{
		light_row_begin(rows);
		light_row_add(rows, Int64GetDatum(bucket->number));
		light_row_add(rows, TimestampTzGetDatum(bucket->start));
		light_row_add_if(rows, bucket->end != 0, TimestampTzGetDatum(bucket->end));
		if (i < bucket->used)
		{
			add_key(rows, &entries[i].key);
			light_row_add(rows, BoolGetDatum(entries[i].key.worker != 0));
			light_row_add(rows, Int64GetDatum(entries[i].samples));
			light_row_add(rows, Float8GetDatum(entries[i].seconds));
		}
		else
		{
			for (int column = 0; column < 9; column++)
				light_row_add_if(rows, false, (Datum) 0);
			light_row_add(rows, Int64GetDatum(bucket->other_samples));
			light_row_add(rows, Float8GetDatum(bucket->other_seconds));
		}
		light_row_end(rows);
	}
}

PG_FUNCTION_INFO_V1(light_explain_waits_history);

/*
 * light_explain_waits_history(period_start, period_end): samples by statement, plan, node and wait event, in
 * intervals of time that have a part in the period.
 */
Datum
light_explain_waits_history(PG_FUNCTION_ARGS)
{
	LightRows	rows;
	TimestampTz start = PG_GETARG_TIMESTAMPTZ(0);
	TimestampTz end = PG_GETARG_TIMESTAMPTZ(1);
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	int64		open;

	check_waits();
	light_rows_begin(&rows, fcinfo);
	LWLockAcquire(light_samples_shared->lock, LW_SHARED);
	open = light_waits->open;
	LWLockRelease(light_samples_shared->lock);
	for (int64 number = open - light_waits->nbuckets + 1; number <= open; number++)
	{
		LightWaitBucket bucket;
		LightWaitEntry *entries;

		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(light_samples_shared->lock, LW_SHARED);
		entries = light_waits_copy(number, &bucket, start, end, GetUserId(), see_all);
		LWLockRelease(light_samples_shared->lock);
		if (entries == NULL)
			continue;
		return_waits(&rows, &bucket, entries);
		pfree(entries);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(light_explain_waits_history_reset);

/* light_explain_waits_history_reset(): forget all buckets; returns how many had samples. */
Datum
light_explain_waits_history_reset(PG_FUNCTION_ARGS)
{
	int64		n;

	check_waits();
	LWLockAcquire(light_samples_shared->lock, LW_EXCLUSIVE);
	n = light_waits_forget(GetCurrentTimestamp());
	LWLockRelease(light_samples_shared->lock);
	light_history_forgotten();
	PG_RETURN_INT64(n);
}

PG_FUNCTION_INFO_V1(light_explain_samples_reset);

/* light_explain_samples_reset(): forget all, except in the history; returns how many samples there were. */
Datum
light_explain_samples_reset(PG_FUNCTION_ARGS)
{
	int64		taken;

	check_shared();
	LWLockAcquire(light_samples_shared->lock, LW_EXCLUSIVE);
	taken = light_samples_shared->taken;
	light_samples_empty();
	LWLockRelease(light_samples_shared->lock);
	PG_RETURN_INT64(taken);
}

/* The sampler's state. */
void
light_samples_counts(LightSamplesCounts *counts)
{
	LightSamplesShared *shared = light_samples_shared;

	memset(counts, 0, sizeof(LightSamplesCounts));
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counts->pid = shared->pid;
	counts->rounds = shared->rounds;
	counts->late = shared->late;
	counts->torn = shared->torn;
	counts->taken = shared->taken;
	counts->ring = shared->nring;
	counts->overwritten = Max(shared->taken - shared->nring, 0);
	counts->max_waits = shared->nwaits;
	counts->waits = shared->used;
	counts->discarded = shared->discarded;
	LWLockRelease(shared->lock);
	counts->unmapped = light_cells_unmapped();
}

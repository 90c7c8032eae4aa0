/*-------------------------------------------------------------------------
 *
 * history_show.c
 *	  SQL functions over the history.
 *
 * A role sees its own statements, pg_read_all_stats all, and the sums of plans for
 * which there was no space: nothing else is copied.  Rows are made when the lock is
 * released.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "show/history.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/timestamp.h"

static void
check_shared(void)
{
	if (light_history != NULL)
		return;
	if (light_profile_shared != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no history of statements"),
				 errhint("Set light_explain.history_size to more than 0 and restart the server.")));
	light_not_shared("there is no history of statements");
}

/* Copy what the caller may see. */
static void
take_copy(LightHistoryCopy *copy)
{
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	Oid			role = GetUserId();
	bool		copied;

	check_shared();
	light_profile_flush();
	LWLockAcquire(light_history->lock, LW_SHARED);
	copied = light_history_copy(copy, role, see_all, true);
	LWLockRelease(light_history->lock);
	if (!copied)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
}

/* The columns that name a bucket and a plan, which is NULL for the sum of those that had no room. */
static void
add_key(LightRows *rows, const LightBucket *bucket, const LightPlanKey *key)
{
	bool		named = key != NULL;

	light_row_add(rows, Int64GetDatum(bucket->number));
	light_row_add(rows, TimestampTzGetDatum(bucket->start));
	light_row_add_if(rows, bucket->end != 0, TimestampTzGetDatum(bucket->end));
	light_row_add_if(rows, named, named ? ObjectIdGetDatum(key->database) : (Datum) 0);
	light_row_add_if(rows, named, named ? ObjectIdGetDatum(key->role) : (Datum) 0);
	light_row_add_if(rows, named, named ? Int64GetDatum((int64) key->query_id) : (Datum) 0);
	light_row_add_if(rows, named && key->caller_id != 0, named ? Int64GetDatum((int64) key->caller_id) : (Datum) 0);
	light_row_add_if(rows, named, named ? Int64GetDatum((int64) key->plan_id) : (Datum) 0);
}

/* The sum of natural logarithms of times in milliseconds, from that of light_time_log() of "n" of them. */
static double
natural_log(int64 sum, int64 n)
{
	return (ldexp((double) sum, -LIGHT_LOG_BITS) + (double) n * LIGHT_TIMES_LEAST) * log(2.0) + (double) n * log(1000.0);
}

static void
return_node(LightRows *rows, const LightBucket *bucket, const LightPlanKey *key, const LightHistoryNode *node)
{
	const LightNodeSums *sums = &node->sums;

	light_row_begin(rows);
	add_key(rows, bucket, key);
	light_row_add(rows, Int32GetDatum(node->id));
	light_row_add(rows, Int64GetDatum(sums->executions));
	light_row_add(rows, Float8GetDatum(sums->loops));
	light_row_add(rows, Float8GetDatum(sums->rows));
	light_row_add(rows, Float8GetDatum(sums->plan_rows));
	light_row_add(rows, Float8GetDatum(sums->total_time * 1000.0));
	light_row_add(rows, Float8GetDatum(sums->self_time * 1000.0));
	light_row_add(rows, Float8GetDatum(natural_log(sums->log_sum, sums->executions)));
	light_row_add(rows, Float8GetDatum(natural_log(node->log_max, 1)));
	light_row_add(rows, Int64GetDatum(sums->shared_hit));
	light_row_add(rows, Int64GetDatum(sums->shared_read));
	light_row_add(rows, Int64GetDatum(sums->temp_written));
	light_row_end(rows);
}

/* The plans of a copied bucket, one after the other; NULL after the last one. */
static const LightHistoryPlan *
next_plan(const LightBucket *bucket, const LightHistoryPlan *plan)
{
	const char *plans = (const char *) (bucket + 1);
	const char *next = plan == NULL ? plans : (const char *) plan + light_history_size_of(plan);

	return next < plans + bucket->used ? (const LightHistoryPlan *) next : NULL;
}

/* The copied buckets, one after the other. */
static const LightBucket *
next_bucket(const LightHistoryCopy *copy, const LightBucket *bucket)
{
	const char *next = bucket == NULL ? copy->data : (const char *) (bucket + 1) + bucket->used;

	return next < copy->data + copy->size ? (const LightBucket *) next : NULL;
}

PG_FUNCTION_INFO_V1(light_explain_history);

/* light_explain_history(): nodes that ran in each bucket, of all plans that the caller may see. */
Datum
light_explain_history(PG_FUNCTION_ARGS)
{
	LightHistoryCopy copy;
	LightRows	rows;

	take_copy(&copy);
	light_rows_begin(&rows, fcinfo);
	for (const LightBucket *bucket = next_bucket(&copy, NULL); bucket != NULL; bucket = next_bucket(&copy, bucket))
	{
		CHECK_FOR_INTERRUPTS();
		for (const LightHistoryPlan *plan = next_plan(bucket, NULL); plan != NULL; plan = next_plan(bucket, plan))
		{
			for (int i = 0; i < plan->nnodes; i++)
				return_node(&rows, bucket, &plan->key, &light_history_nodes(plan)[i]);
		}
	}
	pfree(copy.data);
	return (Datum) 0;
}

/* ---- times of statements ------------------------------------------------ */

/* Where an interval begins, in seconds. */
static double
interval_start(int interval)
{
	int			parts = 1 << LIGHT_TIMES_BITS;

	return ldexp(1.0 + (double) (interval % parts) / parts, interval / parts + LIGHT_TIMES_LEAST);
}

/*
 * The time that stands for an interval, in milliseconds: of all times t, the one for which the
 * largest |x - t| / x of the times x in it is least, (b - a) / (b + a), which is at most 1/17.  The last one
 * has no end.
 */
static double
interval_time(int interval)
{
	double		a = interval_start(interval);
	double		b = interval_start(interval + 1);

	return 1000.0 * (interval == LIGHT_TIMES - 1 ? a : 2 * a * b / (a + b));
}

/* Counters of executions, as kept in a bucket or added up. */
typedef struct Counted
{
	int64		executions;
	int64		cancelled;
	int64		failed;
	double		time;
	double		max_time;
	int			n;
	Datum		ms[LIGHT_TIMES];
	Datum		counts[LIGHT_TIMES];
} Counted;

static void
count(Counted *counted, int interval, int64 executions)
{
	if (executions == 0)
		return;
	counted->ms[counted->n] = Float8GetDatum(Min(interval_time(interval), counted->max_time * 1000.0));
	counted->counts[counted->n++] = Int64GetDatum(executions);
}

/* An array of numbers of eight bytes. */
static Datum
array_of(const Datum *values, int n, Oid type)
{
	return PointerGetDatum(construct_array((Datum *) values, n, type, sizeof(int64), sizeof(Datum) >= sizeof(int64), TYPALIGN_DOUBLE));
}

static void
return_counted(LightRows *rows, const Counted *counted)
{
	light_row_add(rows, Int64GetDatum(counted->executions));
	light_row_add(rows, Int64GetDatum(counted->cancelled));
	light_row_add(rows, Int64GetDatum(counted->failed));
	light_row_add(rows, Float8GetDatum(counted->time * 1000.0));
	light_row_add(rows, Float8GetDatum(counted->max_time * 1000.0));
	light_row_add(rows, array_of(counted->ms, counted->n, FLOAT8OID));
	light_row_add(rows, array_of(counted->counts, counted->n, INT8OID));
	light_row_end(rows);
}

static void
return_plan(LightRows *rows, const LightBucket *bucket, const LightHistoryPlan *plan)
{
	Counted		counted = {.executions = plan->executions,.cancelled = plan->cancelled,.failed = plan->failed,
	.time = plan->time,.max_time = plan->max_time};

	light_row_begin(rows);
	add_key(rows, bucket, &plan->key);
	for (int i = 0; i < plan->ntimes; i++)
		count(&counted, light_history_times(plan)[i].interval, light_history_times(plan)[i].executions);
	return_counted(rows, &counted);
}

static void
return_other(LightRows *rows, const LightBucket *bucket)
{
	const LightHistoryOther *other = &bucket->other;
	Counted		counted = {.executions = other->executions,.cancelled = other->cancelled,.failed = other->failed,
	.time = other->time,.max_time = other->max_time};

	light_row_begin(rows);
	add_key(rows, bucket, NULL);
	for (int i = 0; i < LIGHT_TIMES; i++)
		count(&counted, i, other->times[i]);
	return_counted(rows, &counted);
}

PG_FUNCTION_INFO_V1(light_explain_latency);

/* light_explain_latency(): executions of each plan in each bucket, and how long they took. */
Datum
light_explain_latency(PG_FUNCTION_ARGS)
{
	LightHistoryCopy copy;
	LightRows	rows;

	take_copy(&copy);
	light_rows_begin(&rows, fcinfo);
	for (const LightBucket *bucket = next_bucket(&copy, NULL); bucket != NULL; bucket = next_bucket(&copy, bucket))
	{
		CHECK_FOR_INTERRUPTS();
		for (const LightHistoryPlan *plan = next_plan(bucket, NULL); plan != NULL; plan = next_plan(bucket, plan))
			return_plan(&rows, bucket, plan);
		if (bucket->other.plans > 0)
			return_other(&rows, bucket);
	}
	pfree(copy.data);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(light_explain_history_reset);

/* light_explain_history_reset(): forget all buckets; returns how many had executions. */
Datum
light_explain_history_reset(PG_FUNCTION_ARGS)
{
	int64		n;

	check_shared();
	light_profile_flush();
	LWLockAcquire(light_history->lock, LW_EXCLUSIVE);
	n = light_history_forget(GetCurrentTimestamp());
	LWLockRelease(light_history->lock);
	light_history_forgotten();
	PG_RETURN_INT64(n);
}

/* Room in the history, how much is taken, and what it does not have. */
void
light_history_counts(LightHistoryCounts *counts)
{
	LightHistoryShared *shared = light_history;

	memset(counts, 0, sizeof(LightHistoryCounts));
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counts->pid = shared->pid;
	counts->max_buckets = shared->nbuckets - 1;
	for (int i = 0; i < shared->nbuckets; i++)
		counts->buckets += light_bucket(i)->number != 0 && light_bucket(i)->end != 0;
	counts->overwritten = shared->discarded;
	counts->other = shared->other;
	counts->jumps = shared->jumps;
	counts->saved = shared->saved;
	LWLockRelease(shared->lock);
	counts->bytes = (int64) (light_history_size() + light_profile_history_size());
}

/* Memory of buckets, and in the profile. */
void
light_history_memory_used(LightMemory *memory)
{
	LightHistoryShared *shared = light_history;
	LightHistoryCounts counts;

	memset(memory, 0, sizeof(LightMemory));
	if (shared == NULL)
		return;
	light_history_counts(&counts);
	memory->bytes = counts.bytes;
	memory->used = light_profile_history_size();
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->nbuckets; i++)
	{
		if (light_bucket(i)->number != 0)
			memory->used += sizeof(LightBucket) + light_bucket(i)->used;
	}
	LWLockRelease(shared->lock);
	memory->max_entries = counts.max_buckets;
	memory->entries = counts.buckets;
	memory->discarded = counts.other;
}

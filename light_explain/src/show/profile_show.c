/*-------------------------------------------------------------------------
 *
 * profile_show.c
 *	  SQL functions over the profile.
 *
 * A role sees its own statements, pg_read_all_stats all.  A table's plans are
 * copied under its lock and become rows after that.
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
#include "utils/acl.h"
#include "utils/memutils.h"

static void
check_shared(void)
{
	if (light_profile_shared == NULL)
		light_not_shared("there is no profile of statements");
}

/* A copy of a plan. */
typedef struct PlanCopy
{
	LightPlan	plan;
	LightPlanNode *nodes;
	char	   *source;
	char	   *advice;
}			PlanCopy;

/* Copy the plans of a table that a role may see; returns how many. */
static int
copy_plans(int part, Oid role, bool see_all, PlanCopy * *copies)
{
	LightPart  *p = light_part(part);
	int			n = 0;

	LWLockAcquire(p->lock, LW_SHARED);
	*copies = palloc(Max(p->nplans, 1) * sizeof(PlanCopy));
	for (int i = 0; i < light_profile_shared->nplans; i++)
	{
		LightPlan  *plan = light_plan(part, i);
		PlanCopy   *copy;
		int			chunk = -1;

		if (plan->nnodes == 0 || (!see_all && plan->key.role != role))
			continue;
		copy = &(*copies)[n++];
		copy->nodes = palloc(plan->nnodes * sizeof(LightPlanNode));
		copy->source = pnstrdup(light_plan_text(part, i), plan->text_length);
		LWLockAcquire(&plan->lock, LW_SHARED);
		copy->plan = *plan;
		for (int k = 0; k < plan->nnodes; k++)
			copy->nodes[k] = *light_plan_node(part, plan, k, &chunk);
		copy->advice = pnstrdup(light_plan_advice(part, i), plan->advice_length);
		LWLockRelease(&plan->lock);
	}
	LWLockRelease(p->lock);
	return n;
}

static void
return_node(LightRows *rows, const LightPlan *plan, const LightPlanNode *node, Datum query)
{
	const BufferUsage *b = &node->self.buffers;

	light_row_begin(rows);
	light_row_add(rows, ObjectIdGetDatum(plan->key.database));
	light_row_add(rows, ObjectIdGetDatum(plan->key.role));
	light_row_add(rows, Int64GetDatum((int64) plan->key.query_id));
	light_row_add_if(rows, plan->key.caller_id != 0, Int64GetDatum((int64) plan->key.caller_id));
	light_row_add(rows, Int64GetDatum((int64) plan->key.plan_id));
	light_row_add(rows, Int32GetDatum(node->id));
	light_row_add_if(rows, node->parent >= 0, Int32GetDatum(node->parent));
	light_row_add(rows, Int32GetDatum(node->depth));
	light_row_add_name(rows, &node->name, plan->key.database, plan->encoding);
	light_row_add(rows, Int64GetDatum(node->executions));
	light_row_add(rows, Int64GetDatum(plan->cancelled));
	light_row_add(rows, Int64GetDatum(plan->failed));
	light_row_add(rows, Float8GetDatum(node->loops));
	light_row_add(rows, Float8GetDatum(node->rows));
	light_row_add(rows, Float8GetDatum(node->plan_rows));
	light_row_add(rows, Float8GetDatum(node->filtered));
	light_row_add(rows, Float8GetDatum(node->total_time * 1000.0));
	light_row_add(rows, Float8GetDatum(node->self_time * 1000.0));
	light_row_add(rows, Float8GetDatum(node->max_self_time * 1000.0));
	light_row_add(rows, Int64GetDatum(b->shared_blks_hit));
	light_row_add(rows, Int64GetDatum(b->shared_blks_read));
	light_row_add(rows, Int64GetDatum(b->shared_blks_dirtied));
	light_row_add(rows, Int64GetDatum(b->local_blks_hit + b->local_blks_read));
	light_row_add(rows, Int64GetDatum(b->temp_blks_read));
	light_row_add(rows, Int64GetDatum(b->temp_blks_written));
	light_row_add(rows, Int64GetDatum((int64) node->self.wal.wal_bytes));
	light_row_add_if(rows, node->max_memory > 0, Int64GetDatum(node->max_memory));
	light_row_add_if(rows, node->max_memory > 0 || node->spilled > 0, Int64GetDatum(node->spilled));
	light_row_add_if(rows, node->parent < 0, Int64GetDatum(node->jit_functions));
	light_row_add_if(rows, node->parent < 0, Float8GetDatum(node->jit_time * 1000.0));
	light_row_add_if(rows, plan->text_length != 0, query);
	light_row_end(rows);
}

/* Add the rows of a plan: nodes that ran. */
static void
return_nodes(LightRows *rows, const PlanCopy * copy)
{
	Datum		query = light_text_datum(copy->source, copy->plan.text_length, copy->plan.encoding);

	for (int k = 0; k < copy->plan.nnodes; k++)
	{
		if (copy->nodes[k].executions > 0)
			return_node(rows, &copy->plan, &copy->nodes[k], query);
	}
}

/* Add the row of a plan whose advice is known. */
static void
return_advice(LightRows *rows, const PlanCopy * copy)
{
	const LightPlan *plan = &copy->plan;

	if (plan->advice_length == 0)
		return;
	light_row_begin(rows);
	light_row_add(rows, ObjectIdGetDatum(plan->key.database));
	light_row_add(rows, ObjectIdGetDatum(plan->key.role));
	light_row_add(rows, Int64GetDatum((int64) plan->key.query_id));
	light_row_add_if(rows, plan->key.caller_id != 0, Int64GetDatum((int64) plan->key.caller_id));
	light_row_add(rows, Int64GetDatum((int64) plan->key.plan_id));
	light_row_add(rows, light_text_datum(copy->advice, plan->advice_length, plan->encoding));
	light_row_end(rows);
}

/* The rows of all plans that the caller may see. */
static void
return_plans(FunctionCallInfo fcinfo, void (*return_plan) (LightRows *rows, const PlanCopy * copy))
{
	MemoryContext old = CurrentMemoryContext;
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	MemoryContext table = AllocSetContextCreate(CurrentMemoryContext, "light_explain plans of a table", ALLOCSET_DEFAULT_SIZES);
	LightRows	rows;

	check_shared();
	light_profile_flush();
	light_rows_begin(&rows, fcinfo);
	MemoryContextSwitchTo(table);
	for (int part = 0; part < light_profile_shared->nparts; part++)
	{
		PlanCopy   *copies;
		int			n = copy_plans(part, GetUserId(), see_all, &copies);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
			return_plan(&rows, &copies[i]);
		MemoryContextReset(table);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(table);
}

PG_FUNCTION_INFO_V1(light_explain_profile);

/* light_explain_profile(): nodes that ran, of all plans that the caller may see. */
Datum
light_explain_profile(PG_FUNCTION_ARGS)
{
	return_plans(fcinfo, return_nodes);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(light_explain_advice);

/* light_explain_advice(): the advice with which the server makes a plan again, of plans whose advice is known. */
Datum
light_explain_advice(PG_FUNCTION_ARGS)
{
	return_plans(fcinfo, return_advice);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(light_explain_profile_reset);

/* light_explain_profile_reset(): forget all except the history; returns how many nodes there were. */
Datum
light_explain_profile_reset(PG_FUNCTION_ARGS)
{
	int64		n = 0;

	check_shared();
	for (int part = 0; part < light_profile_shared->nparts; part++)
	{
		LightPart  *p = light_part(part);

		light_part_lock(part);
		n += p->nnodes;
		light_part_empty(part);
		light_part_unlock(part);
	}
	PG_RETURN_INT64(n);
}

/* Room in the profile, how much is taken, and what was dropped. */
void
light_profile_counts(LightProfileCounts *counts)
{
	memset(counts, 0, sizeof(LightProfileCounts));
	if (light_profile_shared == NULL)
		return;
	counts->max_nodes = light_profile_shared->nparts * light_profile_shared->nplans * LIGHT_CHUNK_NODES;
	for (int part = 0; part < light_profile_shared->nparts; part++)
	{
		LWLockAcquire(light_part(part)->lock, LW_SHARED);
		counts->nodes += light_part(part)->nnodes;
		counts->plans += light_part(part)->nplans;
		LWLockRelease(light_part(part)->lock);
	}
	counts->dropped_plans = (int64) pg_atomic_read_u64(&light_profile_shared->dropped_plans);
	counts->dropped_nodes = (int64) pg_atomic_read_u64(&light_profile_shared->dropped_nodes);
	counts->without_id = (int64) pg_atomic_read_u64(&light_profile_shared->without_id);
	counts->utility_without_id = (int64) pg_atomic_read_u64(&light_profile_shared->utility_without_id);
}

/* Memory of plans and their nodes, and of texts of statements and of advice; without that for the history. */
void
light_profile_memory(LightMemory *plans, LightMemory *texts)
{
	LightProfileShared *shared = light_profile_shared;
	LightProfileCounts counts;

	memset(plans, 0, sizeof(LightMemory));
	memset(texts, 0, sizeof(LightMemory));
	if (shared == NULL)
		return;
	light_profile_counts(&counts);
	for (int part = 0; part < shared->nparts; part++)
	{
		LightPart  *p = light_part(part);

		LWLockAcquire(p->lock, LW_SHARED);
		plans->used += p->nplans * sizeof(LightPlan) + (shared->nplans - p->nfree_chunks) * light_profile_chunk_size();
		for (int i = 0; i < shared->nplans; i++)
		{
			const LightPlan *plan = light_plan(part, i);

			if (plan->nnodes == 0)
				continue;
			texts->used += plan->text_length + plan->advice_length;
			texts->entries += plan->text_length > 0;
		}
		LWLockRelease(p->lock);
	}
	texts->max_entries = (int64) shared->nparts * shared->nplans;
	texts->bytes = texts->max_entries * (shared->text_size + LIGHT_ADVICE_SIZE);
	plans->bytes = light_profile_size() - light_profile_history_size() - texts->bytes;
	plans->max_entries = counts.max_nodes;
	plans->entries = counts.nodes;
	plans->discarded = counts.dropped_plans;
}

/*-------------------------------------------------------------------------
 *
 * plans_keep.c
 *	  Decide whether the plan of a finished statement is kept, and format it.
 *
 * A plan is formatted at the end of the executions that are kept and of no others: when one
 * took longer than any before, which soon becomes rare, and when none was kept
 * for light_explain.plans_interval.  The plan's entry of the profile, to which the
 * statement has just added, has both figures.  They are hints and are read without a lock: plans.c
 * decides whether the plan is kept.
 *
 * To format a plan reads catalogs, and calls functions of types for constants and
 * parameters.  If that fails the statement does not: it is done in a subtransaction, and
 * what failed is counted.  A cancelled statement is cancelled.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "common/pg_lzcompress.h"
#include "compat_executor.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/params.h"
#include "show/plans.h"
#include "show/samples.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* A plan is being formatted: what that runs is not kept. */
static bool keeping = false;

/* Samples of the statement whose plan it is, the most frequent first. */
static LightWait *sampled = NULL;
static int	nsampled = 0;

/* ---- decide ------------------------------------------------------------- */

/*
 * Is an execution that took "seconds" to be kept?  It took at least
 * light_explain.plans_min_duration.  Of several that end at once, one is the last.
 */
bool
light_plans_wanted(LightPlan *plan, double seconds)
{
	TimestampTz now;
	uint64		last;

	if (plan->kept_resets != light_plans->resets || seconds > plan->kept_slowest)
		return true;
	now = GetCurrentTimestamp();
	last = pg_atomic_read_u64(&plan->kept_last);

	/* the system's time may have been set */
	if (now >= (TimestampTz) last && now - (TimestampTz) last < light_plans_interval * INT64CONST(1000))
		return false;
	return pg_atomic_compare_exchange_u64(&plan->kept_last, &last, (uint64) now);
}

/* One was kept, or could not be: others are not tried at once. */
static void
note_kept(const LightKeep *keep, double slowest)
{
	LightPlan  *plan = keep->plan;

	LWLockAcquire(&plan->lock, LW_EXCLUSIVE);
	if (plan->serial == keep->serial)
	{
		plan->kept_slowest = slowest >= 0 ? slowest : keep->seconds;
		plan->kept_resets = light_plans->resets;
		pg_atomic_write_u64(&plan->kept_last, (uint64) GetCurrentTimestamp());
	}
	LWLockRelease(&plan->lock);
}

/* ---- format ------------------------------------------------------------- */

static int
more_samples(const void *a, const void *b)
{
	const LightWait *one = a;
	const LightWait *other = b;

	if (one->samples != other->samples)
		return one->samples > other->samples ? -1 : 1;
	return one->key.wait < other->key.wait ? -1 : one->key.wait > other->key.wait;
}

/*
 * The wait events in samples of a node of the plan that is being formatted, by plan_node_id;
 * palloc'd, or NULL if there are none.
 */
char *
light_sampled_text(int node)
{
	StringInfoData text;

	if (nsampled == 0)
		return NULL;
	initStringInfo(&text);
	for (int i = 0; i < nsampled; i++)
	{
		uint32		wait = sampled[i].key.wait;

		if (sampled[i].key.node != node)
			continue;
		if (text.len > 0)
			appendStringInfoString(&text, ", ");
		if (wait == 0)
			appendStringInfoString(&text, "CPU");
		else
			appendStringInfo(&text, "%s:%s", pgstat_get_wait_event_type(wait), pgstat_get_wait_event(wait));
		appendStringInfo(&text, " " INT64_FORMAT, sampled[i].samples);
	}
	return text.len > 0 ? text.data : NULL;
}

/* Values of parameters, if they are permitted and known. */
static char *
parameters_of(QueryDesc *queryDesc)
{
	if (light_plans_parameters == 0 || queryDesc->params == NULL || queryDesc->params->numParams == 0)
		return NULL;
	return BuildParamLogString(queryDesc->params, NULL, light_plans_parameters);
}

/* What EXPLAIN ANALYZE prints of a statement that took "seconds". */
static char *
format_plan(LightQuery *query, double seconds, const char *parameters, ExplainFormat format)
{
	QueryDesc  *queryDesc = query->queryDesc;
	int			options = query->estate->es_instrument;
	ExplainState *es = NewExplainState();

	es->format = format;
	es->analyze = true;
	es->timing = (options & INSTRUMENT_TIMER) != 0;
	es->buffers = (options & INSTRUMENT_BUFFERS) != 0;
	es->wal = (options & INSTRUMENT_WAL) != 0;
	es->summary = true;
	es->settings = true;
	light_own_ask(es);

	ExplainBeginOutput(es);
	ExplainOpenGroup("Query", NULL, true, es);
	if (parameters != NULL)
		ExplainPropertyText("Query Parameters", parameters, es);
	ExplainPrintPlan(es, queryDesc);
	ExplainPrintTriggers(es, queryDesc);
	ExplainPrintJITSummary(es, queryDesc);
	ExplainPropertyFloat("Execution Time", "ms", seconds * 1000.0, 3, es);
	ExplainCloseGroup("Query", NULL, true, es);
	ExplainEndOutput(es);
	while (es->str->len > 0 && es->str->data[es->str->len - 1] == '\n')
		es->str->data[--es->str->len] = '\0';
	return light_own_add(es->str->data, format, query);
}

/*
 * Format an execution and keep it; returns what light_plans_put() does.  All memory is the
 * current context's.
 */
static double
format_and_put(LightQuery *query, const LightKeep *keep)
{
	LightKept	kept = {.seconds = keep->seconds,.ended = GetCurrentTimestamp()};
	char	   *parameters = parameters_of(query->queryDesc);
	StringInfoData data;
	char	   *compressed = NULL;
	int32		stored = -1;

	sampled = light_samples_of(query->execution, GetCurrentTransactionStartTimestamp(), &nsampled);
	if (nsampled > 1)
		qsort(sampled, nsampled, sizeof(LightWait), more_samples);

	initStringInfo(&data);
	appendStringInfoString(&data, format_plan(query, keep->seconds, parameters, EXPLAIN_FORMAT_JSON));
	kept.json_length = data.len;
	appendStringInfoString(&data, format_plan(query, keep->seconds, parameters, EXPLAIN_FORMAT_TEXT));
	kept.text_length = data.len - kept.json_length;
	if (data.len < MaxAllocSize / 2)
	{
		compressed = palloc(PGLZ_MAX_OUTPUT(data.len));
		stored = pglz_compress(data.data, data.len, compressed, PGLZ_strategy_default);
	}
	kept.stored = stored >= 0 ? stored : data.len;
	return light_plans_put(&keep->key, &kept, stored >= 0 ? compressed : data.data);
}

/* Must a statement that is being kept fail with this error? */
static bool
must_fail(const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_TRANSACTION_ROLLBACK;
}

/* A plan was formatted, or could not be. */
static void
stop_keeping(void)
{
	keeping = false;
	sampled = NULL;
	nsampled = 0;
}

/* Keep the plan of a statement that was finished and whose nodes are still there. */
void
light_plans_keep(LightQuery *query, const LightKeep *keep)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext context;
	ErrorData  *volatile error = NULL;
	volatile double slowest = -1;

	if (keeping)
		return;

	/* a function of a parallel statement runs it: there is no subtransaction */
	if (IsInParallelMode() || (query->estate->es_instrument & INSTRUMENT_TIMER) == 0)
	{
		pg_atomic_fetch_add_u64(&light_plans->failed, 1);
		note_kept(keep, -1);
		return;
	}
	context = AllocSetContextCreate(old, "light_explain plan", ALLOCSET_DEFAULT_SIZES);
	BeginInternalSubTransaction(NULL);
	keeping = true;
	PG_TRY();
	{
		MemoryContextSwitchTo(context);
		slowest = format_and_put(query, keep);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		/* first of all: there may be no memory for what follows */
		stop_keeping();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		pg_atomic_fetch_add_u64(&light_plans->failed, 1);
	}
	PG_END_TRY();
	stop_keeping();
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;
	if (error != NULL && must_fail(error))
		ReThrowError(error);
	MemoryContextDelete(context);
	note_kept(keep, slowest);
}

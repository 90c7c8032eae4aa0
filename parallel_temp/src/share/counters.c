/*-------------------------------------------------------------------------
 *
 * counters.c
 *	  Counters of this session: the view parallel_temp_stats.
 *
 * The planner counts each temporary table of each planned query once, under the
 * reason why it is not read in parallel, or as chosen; the executor counts what
 * sharing did.  Pages that workers filled are counted where they are taken.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

#include "load/fastload.h"
#include "parallel_temp.h"
#include "share/share.h"

PtCounters	pt_counters;

static const struct
{
	const char *name;
	const char *text;
}			refusals[REFUSAL_COUNT] = {
	[REFUSED_NOT] = {"chosen", ""},
	[REFUSED_QUERY] = {"refused: query", "The query as a whole cannot run in parallel."},
	[REFUSED_CURSOR] = {"refused: cursor", "The query goes through a cursor, or another thing that the server runs without workers."},
	[REFUSED_WRITES] = {"refused: writes", "The query writes or locks rows."},
	[REFUSED_UNSAFE] = {"refused: unsafe function", "The query calls %s, which is parallel unsafe."},
	[REFUSED_KIND] = {"refused: kind of table", "The table's access method is not heap."},
	[REFUSED_SAMPLE] = {"refused: tablesample", "The query reads a sample of the table."},
	[REFUSED_EXPRESSION] = {"refused: expression", "The filter or the output of the scan calls %s, which is not parallel safe."},
	[REFUSED_DOMAIN] = {"refused: domain", "The filter or the output of the scan checks a domain's constraints."},
	[REFUSED_SUBQUERY] = {"refused: subquery", "The filter or the output of the scan has a subquery that workers cannot run."},
	[REFUSED_CORRELATED] = {"refused: correlated", "The scan depends on a row of the query around it (a correlated subquery)."},
	[REFUSED_LATERAL] = {"refused: lateral", "The scan depends on another table of a LATERAL query."},
	[REFUSED_MEMBER] = {"refused: append", "Another part of the same UNION ALL or inheritance tree cannot be read in parallel."},
	[REFUSED_SMALL] = {"refused: small", "The table is smaller than min_parallel_table_scan_size."},
	[REFUSED_REPLANNED] = {"refused: plan", "The parallel plan had a node that cannot read a temporary table in a worker."},
	[REFUSED_COST] = {"refused: cost", "A plan that reads it serially is cheaper."},
};

const char *
pt_refusal_text(PtRefusal refusal, Oid function)
{
	const char *text = refusals[refusal].text;
	char	   *name = OidIsValid(function) ? get_func_name(function) : NULL;

	if (strstr(text, "%s") == NULL)
		return text;

	return psprintf(text, name ? psprintf("function \"%s\"", name) : "a function");
}

void
pt_count_share(SharedArea *area, double milliseconds)
{
	if (area->use_pool)
		pt_counters.queries_shared++;
	else
		pt_counters.queries_flushed++;
	for (int i = 0; i < area->nrels; i++)
	{
		if (area->use_pool)
			pt_counters.pages_shared += area->rels[i].resident;
		pt_counters.pages_flushed += area->rels[i].flushed;
	}
	pt_counters.share_time += milliseconds;
}

void
pt_count_run_alone(const char *reason)
{
	pt_counters.queries_alone++;
	ereport(pt_explain_refusals ? NOTICE : DEBUG1,
			(errmsg("the query runs without parallel workers because of its temporary tables"),
			 errdetail_internal("Reason: %s.", reason)));
}

static void
stats_put(ReturnSetInfo *rsinfo, const char *name, double value)
{
	Datum		values[2] = {CStringGetTextDatum(name), Float8GetDatum(value)};
	bool		nulls[2] = {false, false};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(parallel_temp_stats);
Datum
parallel_temp_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	double		considered = 0;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < REFUSAL_COUNT; i++)
		considered += pt_counters.planned[i];
	stats_put(rsinfo, "tables considered", considered);
	for (int i = 0; i < REFUSAL_COUNT; i++)
		stats_put(rsinfo, refusals[i].name, pt_counters.planned[i]);
	stats_put(rsinfo, "plans replaced by a serial one", pt_counters.replanned);
	stats_put(rsinfo, "queries with shared pages", pt_counters.queries_shared);
	stats_put(rsinfo, "queries with flushed pages", pt_counters.queries_flushed);
	stats_put(rsinfo, "queries run without workers", pt_counters.queries_alone);
	stats_put(rsinfo, "pages shared", pt_counters.pages_shared);
	stats_put(rsinfo, "pages flushed", pt_counters.pages_flushed);
	stats_put(rsinfo, "pages with hint bits set", pt_counters.pages_hinted);
	stats_put(rsinfo, "times a worker could not open the pool", pt_counters.pool_unreachable);
	stats_put(rsinfo, "milliseconds spent sharing", pt_counters.share_time);
	stats_put(rsinfo, "pages filled by workers", pt_filled_pages.filled);
	stats_put(rsinfo, "pages written by workers", pt_filled_pages.written);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(parallel_temp_stats_reset);
Datum
parallel_temp_stats_reset(PG_FUNCTION_ARGS)
{
	memset(&pt_counters, 0, sizeof(pt_counters));
	memset(&pt_filled_pages, 0, sizeof(pt_filled_pages));
	PG_RETURN_VOID();
}

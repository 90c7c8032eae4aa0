/*-------------------------------------------------------------------------
 *
 * status.c
 *	  light_explain_status(): is the library on, and counters of everything that it could not
 *	  keep or show.
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
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(light_explain_status);

/* light_explain_status(): one row. */
Datum
light_explain_status(PG_FUNCTION_ARGS)
{
	LightRows	rows;
	LightProgressCounts progress;
	LightProfileCounts profile;
	LightSamplesCounts samples;
	LightHistoryCounts history;
	LightPlansCounts plans;
	const char *problem = light_off_reason;

	light_rows_begin(&rows, fcinfo);
	light_progress_counts(&progress);
	light_profile_counts(&profile);
	light_samples_counts(&samples);
	light_history_counts(&history);
	light_plans_counts(&plans);
	if (problem == NULL && light_other_minor())
		problem = "compiled for another minor version of the server";
	else if (problem == NULL && profile.max_nodes == 0)
		problem = "not in shared_preload_libraries: no progress and no profile";
	light_row_begin(&rows);
	light_row_add(&rows, BoolGetDatum(light_enabled));
	light_row_add_text(&rows, problem);
	light_row_add(&rows, Int32GetDatum(progress.slots));
	light_row_add(&rows, Int32GetDatum(progress.used));
	light_row_add(&rows, Int64GetDatum(progress.refused_full));
	light_row_add(&rows, Int64GetDatum(progress.refused_role));
	light_row_add(&rows, Int64GetDatum(progress.refused_nodes));
	light_row_add(&rows, Int32GetDatum(profile.max_nodes));
	light_row_add(&rows, Int32GetDatum(profile.nodes));
	light_row_add(&rows, Int32GetDatum(profile.plans));
	light_row_add(&rows, Int64GetDatum(profile.dropped_plans));
	light_row_add(&rows, Int64GetDatum(profile.dropped_nodes));
	light_row_add(&rows, Int64GetDatum(profile.without_id));
	light_row_add(&rows, Int64GetDatum(profile.utility_without_id));
	light_row_add_text(&rows, light_core_first != NULL ? light_clock_name() : NULL);
	light_row_add_if(&rows, samples.pid != 0, Int32GetDatum(samples.pid));
	light_row_add(&rows, Int64GetDatum(samples.rounds));
	light_row_add(&rows, Int64GetDatum(samples.late));
	light_row_add(&rows, Int64GetDatum(samples.torn));
	light_row_add(&rows, Int64GetDatum(samples.taken));
	light_row_add(&rows, Int32GetDatum(samples.ring));
	light_row_add(&rows, Int64GetDatum(samples.overwritten));
	light_row_add(&rows, Int32GetDatum(samples.max_waits));
	light_row_add(&rows, Int32GetDatum(samples.waits));
	light_row_add(&rows, Int64GetDatum(samples.discarded));
	light_row_add(&rows, Int64GetDatum(samples.unmapped));
	light_row_add_if(&rows, history.pid != 0, Int32GetDatum(history.pid));
	light_row_add(&rows, Int32GetDatum(history.max_buckets));
	light_row_add(&rows, Int32GetDatum(history.buckets));
	light_row_add(&rows, Int64GetDatum(history.overwritten));
	light_row_add(&rows, Int64GetDatum(history.other));
	light_row_add(&rows, Int64GetDatum(history.jumps));
	light_row_add_if(&rows, history.saved != 0, TimestampTzGetDatum(history.saved));
	light_row_add(&rows, Int64GetDatum(history.bytes));
	light_row_add(&rows, Int64GetDatum(plans.max_bytes));
	light_row_add(&rows, Int64GetDatum(plans.bytes));
	light_row_add(&rows, Int32GetDatum(plans.max_plans));
	light_row_add(&rows, Int32GetDatum(plans.plans));
	light_row_add(&rows, Int64GetDatum(plans.kept));
	light_row_add(&rows, Int64GetDatum(plans.dropped));
	light_row_add(&rows, Int64GetDatum(plans.too_large));
	light_row_add(&rows, Int64GetDatum(plans.failed));
	light_row_end(&rows);
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * status.c
 *	  light_explain_status(): is the library on, and what it could not keep or
 *	  show, counted.
 *
 * For everybody: there is nothing of any statement in it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "show/show.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(light_explain_status);

/* light_explain_status(): one row. */
Datum
light_explain_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	LightProgressCounts progress;
	LightProfileCounts profile;
	const char *problem = light_off_reason;
	Datum		values[14];
	bool		nulls[14] = {0};
	int			n = 0;

	InitMaterializedSRF(fcinfo, 0);
	light_progress_counts(&progress);
	light_profile_counts(&profile);
	if (problem == NULL && light_other_minor())
		problem = "compiled for another minor version of the server";
	else if (problem == NULL && profile.max_nodes == 0)
		problem = "not in shared_preload_libraries: no progress and no profile";
	values[n++] = BoolGetDatum(light_enabled);
	nulls[n] = problem == NULL;
	values[n++] = problem != NULL ? CStringGetTextDatum(problem) : (Datum) 0;
	values[n++] = Int32GetDatum(progress.slots);
	values[n++] = Int32GetDatum(progress.used);
	values[n++] = Int64GetDatum(progress.refused_full);
	values[n++] = Int64GetDatum(progress.refused_role);
	values[n++] = Int64GetDatum(progress.refused_nodes);
	values[n++] = Int32GetDatum(profile.max_nodes);
	values[n++] = Int32GetDatum(profile.nodes);
	values[n++] = Int32GetDatum(profile.plans);
	values[n++] = Int64GetDatum(profile.dropped_plans);
	values[n++] = Int64GetDatum(profile.dropped_nodes);
	values[n++] = Int64GetDatum(profile.without_id);
	nulls[n] = light_core_first == NULL;
	values[n++] = CStringGetTextDatum(light_clock_name());
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}

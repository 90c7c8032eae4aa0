/*-------------------------------------------------------------------------
 *
 * plans_show.c
 *	  SQL functions over kept plans.
 *
 * A role sees its own statements, pg_read_all_stats all: nothing else is copied.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "common/pg_lzcompress.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "show/plans.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

static const char *const which_names[LIGHT_WHICH] = {
	[LIGHT_SLOWEST] = "slowest",
	[LIGHT_LAST] = "last"
};

static void
check_shared(void)
{
	if (light_plans != NULL)
		return;
	if (light_profile_shared != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there are no plans of statements"),
				 errhint("Set light_explain.plans_size to more than 0 and restart the server.")));
	light_not_shared("there are no plans of statements");
}

PG_FUNCTION_INFO_V1(light_explain_plans);

/* light_explain_plans(): the executions that are kept, without their plans. */
Datum
light_explain_plans(PG_FUNCTION_ARGS)
{
	LightRows	rows;
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	LightKeptPlan *plans;
	int			n;

	check_shared();
	light_rows_begin(&rows, fcinfo);
	plans = light_plans_list(GetUserId(), see_all, &n);
	for (int i = 0; i < n * LIGHT_WHICH; i++)
	{
		const LightKeptPlan *plan = &plans[i / LIGHT_WHICH];
		LightWhich	which = i % LIGHT_WHICH;
		const LightKept *kept = light_kept(plan, which);

		CHECK_FOR_INTERRUPTS();
		light_row_begin(&rows);
		light_row_add(&rows, ObjectIdGetDatum(plan->key.database));
		light_row_add(&rows, ObjectIdGetDatum(plan->key.role));
		light_row_add(&rows, Int64GetDatum((int64) plan->key.query_id));
		light_row_add_if(&rows, plan->key.caller_id != 0, Int64GetDatum((int64) plan->key.caller_id));
		light_row_add(&rows, Int64GetDatum((int64) plan->key.plan_id));
		light_row_add_text(&rows, which_names[which]);
		light_row_add(&rows, TimestampTzGetDatum(kept->ended));
		light_row_add(&rows, Float8GetDatum(kept->seconds * 1000.0));
		light_row_add(&rows, Int32GetDatum(kept->stored));
		light_row_end(&rows);
	}
	pfree(plans);
	return (Datum) 0;
}

/* The number of a name, or an error about the argument. */
static int
choose(const char *argument, const char *name, const char *const names[2])
{
	for (int i = 0; i < 2; i++)
	{
		if (pg_strcasecmp(name, names[i]) == 0)
			return i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized value for argument \"%s\": \"%s\"", argument, name),
			 errhint("Available values: %s, %s.", names[0], names[1])));
}

PG_FUNCTION_INFO_V1(light_explain_plan);

/*
 * light_explain_plan(queryid, planid, which, format): the plan of the slowest or last execution of a
 * statement and plan (NULL: of any of its plans), or NULL if there is none that the caller may see.
 */
Datum
light_explain_plan(PG_FUNCTION_ARGS)
{
	static const char *const format_names[] = {"text", "json"};
	bool		see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	uint64		plan_id = PG_ARGISNULL(1) ? 0 : (uint64) PG_GETARG_INT64(1);
	LightWhich	which;
	bool		json;
	LightKept	kept;
	int			encoding;
	int			length;
	char	   *data;
	char	   *plan;

	check_shared();
	if (PG_ARGISNULL(0) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
		PG_RETURN_NULL();
	which = choose("which", text_to_cstring(PG_GETARG_TEXT_PP(2)), which_names);
	json = choose("format", text_to_cstring(PG_GETARG_TEXT_PP(3)), format_names) == 1;
	data = light_plans_find(GetUserId(), see_all, (uint64) PG_GETARG_INT64(0), PG_ARGISNULL(1) ? NULL : &plan_id, which, &kept, &encoding);
	if (data == NULL)
		PG_RETURN_NULL();

	length = kept.json_length + kept.text_length;
	plan = data;
	if (kept.stored < length)
	{
		plan = palloc_extended(length, MCXT_ALLOC_HUGE);
		if (pglz_decompress(data, kept.stored, plan, length, true) != length)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("a kept plan of light_explain is damaged"),
					 errhint("Call light_explain_plans_reset().")));
	}
	if (json)
		PG_RETURN_DATUM(light_text_datum(plan, kept.json_length, encoding));
	PG_RETURN_DATUM(light_text_datum(plan + kept.json_length, kept.text_length, encoding));
}

PG_FUNCTION_INFO_V1(light_explain_plans_reset);

/* light_explain_plans_reset(): forget all; returns how many plans there were. */
Datum
light_explain_plans_reset(PG_FUNCTION_ARGS)
{
	int64		n;

	check_shared();
	LWLockAcquire(light_plans->lock, LW_EXCLUSIVE);
	n = light_plans->used_plans;
	light_plans_empty();
	LWLockRelease(light_plans->lock);
	PG_RETURN_INT64(n);
}

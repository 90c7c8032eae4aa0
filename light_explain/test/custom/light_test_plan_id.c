/*-------------------------------------------------------------------------
 *
 * light_test_plan_id.c
 *	  An extension that sets the identifiers of plans, and reads them.
 *
 * While light_test_plan_id.set is not 0, every statement that is planned has this identifier.  The
 * function light_test_plan_id() returns the identifier that the statement before it had at its end.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "compat_module.h"
#include "compat_planner.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC_COMPAT("light_test_plan_id");

PGDLLEXPORT void _PG_init(void);

static int	to_set = 0;
static uint64 at_end = 0;
static planner_hook_type prev_planner = NULL;
static ExecutorEnd_hook_type prev_end = NULL;

static PlannedStmt *
set_id(PLANNER_PARAMS_compat)
{
	PlannedStmt *stmt = prev_planner ? prev_planner(PLANNER_ARGS_compat) : standard_planner(PLANNER_ARGS_compat);

	if (to_set != 0)
		SetPlanId_compat(stmt, to_set);
	return stmt;
}

static void
read_id(QueryDesc *queryDesc)
{
	at_end = PlanId_compat(queryDesc->plannedstmt);
	if (prev_end)
		prev_end(queryDesc);
	else
		standard_ExecutorEnd(queryDesc);
}

PG_FUNCTION_INFO_V1(light_test_plan_id);

Datum
light_test_plan_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) at_end);
}

void
_PG_init(void)
{
	DefineCustomIntVariable("light_test_plan_id.set", "Sets the identifier of all plans.", NULL, &to_set, 0, 0, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	prev_planner = planner_hook;
	planner_hook = set_id;
	prev_end = ExecutorEnd_hook;
	ExecutorEnd_hook = read_id;
}

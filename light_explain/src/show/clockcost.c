/*-------------------------------------------------------------------------
 *
 * clockcost.c
 *	  The time that each clock adds to its measurements.
 *
 * A clock that is read around each call of a node takes time itself.  Part of it
 * passes between the two readings and is shown in the node, the rest is shown in
 * the node that called it.  To compare shares of nodes under different
 * clocks, this has to be subtracted: the function light_explain_clock_costs() measures
 * it, with a node that does nothing.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>

#include "executor/executor.h"
#include "fmgr.h"
#include "show/show.h"
#include "miscadmin.h"

#define CALLS 5000
#define ROUNDS 40

static TupleTableSlot *
do_nothing(PlanState *node)
{
	return NULL;
}

/* Call a node many times.  Nanoseconds a call, as seen from outside. */
static double
call_often(PlanState *node)
{
	int64		start = light_now();

	for (int i = 0; i < CALLS; i++)
		(void) node->ExecProcNode(node);
	return (double) (light_now() - start) / CALLS;
}

/*
 * Cost of one call of a node under a clock, in nanoseconds: shown in the node, and
 * shown in its caller.  The least of many rounds, which was not interrupted.
 */
static void
measure(LightClock clock, double *inside, double *outside)
{
	PlanState  *node = palloc0(sizeof(PlanState));
	LightRecord *record = (LightRecord *) TYPEALIGN(64, palloc0(sizeof(LightRecord) + 63));
	double		bare = DBL_MAX;
	double		all = DBL_MAX;
	double		ns;

	*inside = DBL_MAX;
	node->ExecProcNodeReal = do_nothing;
	node->instrument = (NodeInstrumentation_compat *) record;
	for (int round = 0; round < ROUNDS; round++)
	{
		CHECK_FOR_INTERRUPTS();
		node->ExecProcNode = do_nothing;
		ns = call_often(node);
		bare = Min(bare, ns);

		/* nothing in here fails, and no node of a statement changes its clock */
		node->ExecProcNode = light_wrapper_for(clock, true, false);
		record->caller = light_stack.top;
		record->total = 0;
		ns = call_often(node);
		all = Min(all, ns);
		*inside = Min(*inside, (double) record->total / CALLS);
	}
	*inside = Max(*inside - bare, 0);
	*outside = Max(all - bare - *inside, 0);
}

PG_FUNCTION_INFO_V1(light_explain_clock_costs);

/* One row for each clock that is read around calls. */
Datum
light_explain_clock_costs(PG_FUNCTION_ARGS)
{
	static const struct
	{
		const char *timing;
		LightClock	clock;
	}			clocks[] = {
		{"auto", LIGHT_CLOCK_AUTO},
		{"system", LIGHT_CLOCK_SYSTEM},
		{"reference", LIGHT_CLOCK_REFERENCE}
	};
	LightRows	rows;

	light_rows_begin(&rows, fcinfo);
	if (light_core_first == NULL)
		return (Datum) 0;		/* light_explain is off on this server */
	for (int i = 0; i < lengthof(clocks); i++)
	{
		double		inside;
		double		outside;

		measure(clocks[i].clock, &inside, &outside);
		light_row_begin(&rows);
		light_row_add_text(&rows, clocks[i].timing);
		light_row_add(&rows, Float8GetDatum(inside));
		light_row_add(&rows, Float8GetDatum(outside));
		light_row_end(&rows);
	}
	return (Datum) 0;
}

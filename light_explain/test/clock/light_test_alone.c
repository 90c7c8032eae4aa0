/*-------------------------------------------------------------------------
 *
 * light_test_alone.c
 *	  Times of plan nodes without reading a clock in any of their calls.
 *
 * light_test_alone(query, rounds) executes a query's plan without instrumentation and reads the
 * system clock before its first and after its last row only.  It does so for the complete plan, and
 * for each node along the outer children alone: a loop calls the node until it returns no row.  The
 * difference of two nodes is the time that the upper one adds.  An Agg is also executed above a child that
 * returns the same row as many times as its real child returned rows.  So a node's
 * own time is known from both sides, and nothing in it depends on how a clock is read:
 *
 * whole	the node and those below it
 * adds		what that is longer than the node's outer child alone
 * alone	an Agg with a child that takes no time; otherwise NULL
 *
 * All in milliseconds, the fastest of the rounds, in which the kinds alternate.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <time.h>

#include "compat_module.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/plancache.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

PG_MODULE_MAGIC_COMPAT("light_test_alone");

PG_FUNCTION_INFO_V1(light_test_alone);

#define MAX_NODES 8

/* The row that a child without work returns, and how many more times. */
static TupleTableSlot *constant_row;
static int64 constant_rows;

static double
milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static TupleTableSlot *
return_constant(PlanState *node)
{
	return --constant_rows >= 0 ? constant_row : NULL;
}

/*
 * Execute the node at this depth along the outer children until it returns no row.  *rows is the
 * number of rows; if it is not 0 before, the node's outer child returns that many equal rows
 * without doing anything.
 */
static double
run(PlannedStmt *stmt, const char *query, int depth, int64 *rows)
{
	QueryDesc  *desc = CreateQueryDesc(stmt, query, GetActiveSnapshot(), InvalidSnapshot, None_Receiver, NULL, NULL, 0);
	PlanState  *node;
	double		began;
	double		ended;
	int64		n = 0;
	int64		child_rows = *rows;
	MemoryContext old;

	ExecutorStart(desc, 0);
	node = desc->planstate;
	for (int i = 0; i < depth; i++)
		node = outerPlanState(node);
	old = MemoryContextSwitchTo(desc->estate->es_query_cxt);
	if (child_rows > 0)
	{
		constant_row = ExecProcNode(outerPlanState(node));
		constant_rows = child_rows;
		outerPlanState(node)->ExecProcNode = return_constant;
	}
	CHECK_FOR_INTERRUPTS();
	began = milliseconds();
	for (;;)
	{
		TupleTableSlot *slot = ExecProcNode(node);

		if (TupIsNull(slot))
			break;
		n++;
	}
	ended = milliseconds();
	MemoryContextSwitchTo(old);
	*rows = n;
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	return ended - began;
}

Datum
light_test_alone(PG_FUNCTION_ARGS)
{
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int			rounds = PG_GETARG_INT32(1);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	double		whole[MAX_NODES + 1];
	double		alone[MAX_NODES];
	bool		is_agg[MAX_NODES];
	int64		rows[MAX_NODES];
	int			n = 0;
	SPIPlanPtr	plan;
	CachedPlan *cached;
	PlannedStmt *stmt;

	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	plan = SPI_prepare(query, 0, NULL);
	if (plan == NULL)
		elog(ERROR, "cannot prepare the query: %s", SPI_result_code_string(SPI_result));
	cached = SPI_plan_get_cached_plan(plan);
	if (cached == NULL || list_length(cached->stmt_list) != 1)
		elog(ERROR, "not one query");
	stmt = linitial_node(PlannedStmt, cached->stmt_list);
	for (Plan *node = stmt->planTree; node != NULL && n < MAX_NODES; node = outerPlan(node))
	{
		is_agg[n] = IsA(node, Agg);
		whole[n] = alone[n] = DBL_MAX;
		n++;
	}
	whole[n] = 0;
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int round = 0; round < rounds; round++)
	{
		for (int i = n - 1; i >= 0; i--)
		{
			double		ms;

			rows[i] = 0;
			ms = run(stmt, query, i, &rows[i]);
			whole[i] = Min(whole[i], ms);
			if (is_agg[i] && i + 1 < n && rows[i + 1] > 0)
			{
				int64		child_rows = rows[i + 1];

				ms = run(stmt, query, i, &child_rows);
				alone[i] = Min(alone[i], ms);
			}
		}
	}
	PopActiveSnapshot();
	ReleaseCachedPlan(cached, NULL);
	SPI_finish();
	for (int i = 0; i < n; i++)
	{
		Datum		values[5] = {Int32GetDatum(i), Int64GetDatum(rows[i]), Float8GetDatum(whole[i]), Float8GetDatum(whole[i] - whole[i + 1]), Float8GetDatum(alone[i])};
		bool		nulls[5] = {false, false, false, false, alone[i] == DBL_MAX};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * light_test_neighbor.c
 *	  An extension that measures statements, as light_explain's tests load it
 *	  before and after.
 *
 * As several extensions do, it asks the executor in ExecutorStart for
 * the measure of each statement (QueryDesc.totaltime) and relies on it in all
 * later hooks, those of the statements around the present one and those that an
 * error ends included: there it stops what the executor left running.  The
 * function light_test_looks() tells how often it looked, what it saw and what
 * was not as the executor leaves it, since it was asked last.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "compat_executor.h"
#include "compat_instrument.h"
#include "lib/stringinfo.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

#if !HAVE_QUICK_INSTR_CLOCK_COMPAT

#define MAX_NESTED 100

static ExecutorStart_hook_type prev_start;
static ExecutorRun_hook_type prev_run;
static ExecutorFinish_hook_type prev_finish;
static ExecutorEnd_hook_type prev_end;

/* Statements that are being run, the innermost last. */
static QueryDesc *running[MAX_NESTED];
static int	nrunning = 0;

static int64 starts,
			runs,
			failures,
			ends;
static double rows;				/* of statements that ended */
static int64 blocks;
static char faults[1000];

static void
fault(const char *hook, const char *what)
{
	if (strlen(faults) + strlen(hook) + strlen(what) + 5 < sizeof(faults))
	{
		strcat(faults, hook);
		strcat(faults, ": ");
		strcat(faults, what);
		strcat(faults, "; ");
	}
}

/* Nodes that are not measured as the statement asks for. */
static bool
is_changed(PlanState *node, void *arg)
{
	if (node == NULL)
		return false;
	if (node->instrument != NULL &&
		(!node->instrument->need_timer || !node->instrument->need_bufusage || !node->instrument->need_walusage))
		return true;
	return planstate_tree_walker(node, is_changed, arg);
}

/* A statement that the executor does not run at this moment. */
static bool
look(const char *hook, QueryDesc *queryDesc)
{
	Instrumentation *total = queryDesc->totaltime;

	if (total == NULL)
	{
		fault(hook, "no totaltime");
		return false;
	}
	if (!total->need_timer || !total->need_bufusage || !total->need_walusage)
		fault(hook, "flags");
	if (is_changed(queryDesc->planstate, NULL))
		fault(hook, "flags of nodes");
	return true;
}

/* Any moment: statements around this one are run. */
static void
look_around(const char *hook)
{
	for (int i = 0; i < nrunning; i++)
	{
		if (running[i]->totaltime == NULL)
			fault(hook, "no totaltime of a statement around it");
	}
}

static void
neighbor_start(QueryDesc *queryDesc, int eflags)
{
	look_around("start");
	queryDesc->instrument_options = INSTRUMENT_ALL;
	prev_start(queryDesc, eflags);
	if (queryDesc->totaltime == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(queryDesc->estate->es_query_cxt);

		queryDesc->totaltime = InstrAlloc(1, INSTRUMENT_ALL, false);
		MemoryContextSwitchTo(old);
	}
	starts++;
}

/* Run a part of a statement; "run" is ExecutorRun's, else ExecutorFinish's. */
static void
around(bool run, const char *hook, EXECUTORRUN_PARAMS_compat)
{
	volatile bool pushed = nrunning < MAX_NESTED;
	volatile double before = 0;
	Instrumentation *total;

	if (look(hook, queryDesc))
		before = INSTR_TIME_GET_DOUBLE(queryDesc->totaltime->counter) + queryDesc->totaltime->total;
	look_around(hook);
	if (pushed)
		running[nrunning++] = queryDesc;
	PG_TRY();
	{
		if (run)
			prev_run(EXECUTORRUN_ARGS_compat);
		else
			prev_finish(queryDesc);
	}
	PG_CATCH();
	{
		nrunning -= pushed;
		failures++;
		if (look("error", queryDesc))
		{
			total = queryDesc->totaltime;
			if (INSTR_TIME_IS_ZERO(total->starttime))
				fault("error", "not running");
			else
				InstrStopNode(total, 0);
			InstrEndLoop(total);
			if (total->total <= before)
				fault("error", "no time");
			blocks += total->bufusage.shared_blks_hit + total->bufusage.shared_blks_read + total->bufusage.local_blks_hit;
		}
		look_around("error");
		PG_RE_THROW();
	}
	PG_END_TRY();
	nrunning -= pushed;
	if (look(hook, queryDesc))
	{
		total = queryDesc->totaltime;
		if (!INSTR_TIME_IS_ZERO(total->starttime) || !total->running)
			fault(hook, "not stopped");
		if (run && INSTR_TIME_GET_DOUBLE(total->counter) + total->total <= before)
			fault(hook, "no time");
		if (INSTR_TIME_GET_DOUBLE(total->counter) < total->firsttuple)
			fault(hook, "first row after the end");
	}
	look_around(hook);
	runs++;
}

static void
neighbor_run(EXECUTORRUN_PARAMS_compat)
{
	around(true, "run", EXECUTORRUN_ARGS_compat);
}

static void
neighbor_finish(QueryDesc *queryDesc)
{
	/* arguments that it does not look at */
	ScanDirection direction = NoMovementScanDirection;
	uint64		count = 0;
	bool		execute_once = true;

	(void) execute_once;
	around(false, "finish", EXECUTORRUN_ARGS_compat);
}

static void
neighbor_end(QueryDesc *queryDesc)
{
	if (look("end", queryDesc))
	{
		Instrumentation *total = queryDesc->totaltime;

		InstrEndLoop(total);
		rows += total->ntuples;
		blocks += total->bufusage.shared_blks_hit + total->bufusage.shared_blks_read + total->bufusage.local_blks_hit;
	}
	look_around("end");
	ends++;
	prev_end(queryDesc);
}

#endif

PG_FUNCTION_INFO_V1(light_test_looks);

Datum
light_test_looks(PG_FUNCTION_ARGS)
{
	StringInfoData s;

	initStringInfo(&s);
#if !HAVE_QUICK_INSTR_CLOCK_COMPAT
	appendStringInfo(&s, INT64_FORMAT " starts, " INT64_FORMAT " runs, " INT64_FORMAT " failures, " INT64_FORMAT " ends, %g rows, blocks %s; %s",
					 starts, runs, failures, ends, rows, blocks > 0 ? "yes" : "no", faults);
	starts = runs = failures = ends = blocks = 0;
	rows = 0;
	faults[0] = '\0';
#endif
	PG_RETURN_TEXT_P(cstring_to_text(s.data));
}

void
_PG_init(void)
{
#if !HAVE_QUICK_INSTR_CLOCK_COMPAT
	prev_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = neighbor_start;
	prev_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = neighbor_run;
	prev_finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;
	ExecutorFinish_hook = neighbor_finish;
	prev_end = ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd;
	ExecutorEnd_hook = neighbor_end;
#endif
}

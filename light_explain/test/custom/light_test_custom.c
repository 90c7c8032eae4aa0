/*-------------------------------------------------------------------------
 *
 * light_test_custom.c
 *	  Custom scan nodes for the battery of light_explain's tests.
 *
 * While light_test_custom.kind is set, every plain table of a SELECT is read by a
 * custom scan of that kind.  These are what extensions do:
 *
 *	  child	  the node calls a child that EXPLAIN shows,
 *	  twice	  ... and shows twice,
 *	  shared  the node gives its instrumentation to its child as well,
 *	  hidden  the node calls a child that other code cannot find,
 *	  leaf	  the node reads the table itself.
 *
 * While light_test_custom.wrap is set, sequential scans have our entry function
 * from ExecutorStart on, which does the same as the server's that measures a node.
 *
 * The function light_test_instrumented() tells what is measured of the statement
 * that calls it (INSTRUMENT_...).
 *
 * The function light_test_interrupted(ms) sleeps in three of the ways that
 * procedural languages do and returns how many of them a signal ended early.
 *
 * The function light_test_lwlock(ms) sleeps with the wait event of the first LWLock that
 * an extension has defined.
 *
 * The function light_test_in_cleanup(sql) runs statements inside of
 * PG_ENSURE_ERROR_CLEANUP and returns the first value of the last one.
 *
 * A process that ends while light_test_custom.wait_at_exit names a file makes
 * FILE.waiting and continues when FILE is there: after the exit callbacks of libraries that
 * were loaded or first used later, before the transaction is aborted.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <errno.h>
#include <poll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "access/tableam.h"
#include "compat_instrument.h"
#include "compat_table.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

typedef enum Kind
{
	KIND_OFF,
	KIND_CHILD,
	KIND_TWICE,
	KIND_SHARED,
	KIND_HIDDEN,
	KIND_LEAF
} Kind;

typedef struct TestScanState
{
	CustomScanState css;		/* must be first */
	Kind		kind;
	PlanState  *hidden;
	TableScanDesc scan;
	TupleTableSlot *heap_slot;
} TestScanState;

static int	kind = KIND_OFF;
static bool wrap = false;
static char *wait_at_exit_file = NULL;

static const struct config_enum_entry kinds[] = {
	{"off", KIND_OFF, false},
	{"child", KIND_CHILD, false},
	{"twice", KIND_TWICE, false},
	{"shared", KIND_SHARED, false},
	{"hidden", KIND_HIDDEN, false},
	{"leaf", KIND_LEAF, false},
	{NULL, 0, false}
};

static set_rel_pathlist_hook_type prev_set_rel_pathlist = NULL;
static ExecutorStart_hook_type prev_start = NULL;

static Plan *plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans);
static Node *create_state(CustomScan *cscan);
static void begin_scan(CustomScanState *css, EState *estate, int eflags);
static TupleTableSlot *exec_scan(CustomScanState *css);
static void end_scan(CustomScanState *css);
static void rescan(CustomScanState *css);

static const CustomPathMethods path_methods = {
	.CustomName = "LightTest",
	.PlanCustomPath = plan_path,
};

static const CustomScanMethods scan_methods = {
	.CustomName = "LightTest",
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = "LightTest",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
};

/* ---- planner ------------------------------------------------------------ */

static void
set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	Path	   *child = NULL;
	CustomPath *path;
	ListCell   *lc;

	if (prev_set_rel_pathlist)
		prev_set_rel_pathlist(root, rel, rti, rte);
	if (kind == KIND_OFF || rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION || rte->inh ||
		rte->tablesample != NULL || root->parse->commandType != CMD_SELECT || root->parse->rowMarks != NIL ||
		rel->reltarget->exprs == NIL)
		return;
	foreach(lc, rel->pathlist)
	{
		Path	   *candidate = lfirst(lc);

		if (candidate->param_info == NULL && (child == NULL || candidate->total_cost < child->total_cost))
			child = candidate;
	}
	if (child == NULL)
		return;

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = child->rows;
	path->path.startup_cost = child->startup_cost;
	path->path.total_cost = child->total_cost;
	path->methods = &path_methods;
	path->custom_private = list_make1(makeInteger(kind));
	if (kind != KIND_LEAF)
		path->custom_paths = list_make1(child);
	rel->pathlist = list_make1(path);
	rel->partial_pathlist = NIL;
}

static Plan *
plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);

	cscan->scan.plan.targetlist = tlist;
	cscan->scan.scanrelid = rel->relid;
	cscan->custom_private = path->custom_private;
	cscan->methods = &scan_methods;
	if (custom_plans == NIL)
		cscan->scan.plan.qual = extract_actual_clauses(clauses, false);
	else
	{
		/* the child has filtered already, and its rows are the scan's */
		cscan->custom_plans = custom_plans;
		cscan->custom_scan_tlist = copyObject(((Plan *) linitial(custom_plans))->targetlist);
	}
	return &cscan->scan.plan;
}

/* ---- executor ----------------------------------------------------------- */

static Node *
create_state(CustomScan *cscan)
{
	TestScanState *state = (TestScanState *) newNode(sizeof(TestScanState), T_CustomScanState);

	state->css.methods = &exec_methods;
	state->kind = intVal(linitial(cscan->custom_private));
	return (Node *) state;
}

static void
begin_scan(CustomScanState *css, EState *estate, int eflags)
{
	TestScanState *state = (TestScanState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	if (state->kind == KIND_LEAF)
		state->heap_slot = table_slot_create(css->ss.ss_currentRelation, &estate->es_tupleTable);
	else if (state->kind == KIND_HIDDEN)
		state->hidden = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	else
	{
		css->custom_ps = list_make1(ExecInitNode(linitial(cscan->custom_plans), estate, eflags));
		if (state->kind == KIND_TWICE)
			css->custom_ps = lappend(css->custom_ps, linitial(css->custom_ps));
	}
}

static PlanState *
child_of(TestScanState *state)
{
	return state->kind == KIND_HIDDEN ? state->hidden : linitial(state->css.custom_ps);
}

static TupleTableSlot *
next_row(ScanState *ss)
{
	TestScanState *state = (TestScanState *) ss;
	TupleTableSlot *slot;

	if (state->kind == KIND_LEAF)
	{
		if (state->scan == NULL)
			state->scan = table_beginscan_compat(ss->ss_currentRelation, ss->ps.state->es_snapshot, 0, NULL);
		slot = state->heap_slot;
		if (!table_scan_getnextslot(state->scan, ForwardScanDirection, slot))
			return NULL;
	}
	else
	{
		PlanState  *child = child_of(state);

		if (state->kind == KIND_SHARED)
			child->instrument = ss->ps.instrument;
		slot = ExecProcNode(child);
		if (TupIsNull(slot))
			return NULL;
	}
	/* expressions over the scan's rows are compiled for a virtual slot */
	return ExecCopySlot(ss->ss_ScanTupleSlot, slot);
}

static bool
recheck_row(ScanState *ss, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
exec_scan(CustomScanState *css)
{
	return ExecScan(&css->ss, next_row, recheck_row);
}

static void
end_scan(CustomScanState *css)
{
	TestScanState *state = (TestScanState *) css;

	if (state->kind != KIND_LEAF)
		ExecEndNode(child_of(state));
	else if (state->scan != NULL)
		table_endscan(state->scan);
}

static void
rescan(CustomScanState *css)
{
	TestScanState *state = (TestScanState *) css;

	if (state->kind != KIND_LEAF)
	{
		PlanState  *child = child_of(state);

		if (css->ss.ps.chgParam != NULL)
			UpdateChangedParamSet(child, css->ss.ps.chgParam);
		if (child->chgParam == NULL)
			ExecReScan(child);
	}
	else if (state->scan != NULL)
		table_rescan(state->scan, NULL);
	ExecScanReScan(&css->ss);
}

/* ---- scans that another extension wrapped --------------------------------- */

static TupleTableSlot *
wrapped_scan(PlanState *node)
{
	TupleTableSlot *slot;

	InstrStartNode(node->instrument);
	slot = node->ExecProcNodeReal(node);
	InstrStopNode(node->instrument, TupIsNull(slot) ? 0.0 : 1.0);
	return slot;
}

static bool
wrap_scans(PlanState *node, void *arg)
{
	if (node == NULL)
		return false;
	if (IsA(node, SeqScanState) && node->instrument != NULL)
		node->ExecProcNode = wrapped_scan;
	return planstate_tree_walker(node, wrap_scans, arg);
}

static void
start(QueryDesc *queryDesc, int eflags)
{
	prev_start(queryDesc, eflags);
	if (wrap && queryDesc->planstate != NULL)
		(void) wrap_scans(queryDesc->planstate, NULL);
}

PG_FUNCTION_INFO_V1(light_test_instrumented);

Datum
light_test_instrumented(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(ActivePortal->queryDesc->estate->es_instrument);
}

/* ---- a process that takes its time to end -------------------------------- */

#define LONGEST_WAIT 60			/* seconds */

static void
wait_at_exit(int code, Datum arg)
{
	char		path[MAXPGPATH];
	FILE	   *file;

	if (wait_at_exit_file == NULL || wait_at_exit_file[0] == '\0')
		return;
	snprintf(path, sizeof(path), "%s.waiting", wait_at_exit_file);
	file = AllocateFile(path, "w");
	if (file != NULL)
		FreeFile(file);
	for (int i = 0; i < LONGEST_WAIT * 100 && access(wait_at_exit_file, F_OK) != 0; i++)
		pg_usleep(10000L);
}

/* ---- sleeps --------------------------------------------------------------- */

PG_FUNCTION_INFO_V1(light_test_interrupted);

Datum
light_test_interrupted(PG_FUNCTION_ARGS)
{
	int			ms = PG_GETARG_INT32(0);
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
	struct timeval v = {ms / 1000, (ms % 1000) * 1000};
	int			interrupted = 0;

	interrupted += nanosleep(&t, NULL) < 0 && errno == EINTR;
	interrupted += select(0, NULL, NULL, NULL, &v) < 0 && errno == EINTR;
	interrupted += poll(NULL, 0, ms) < 0 && errno == EINTR;
	PG_RETURN_INT32(interrupted);
}

PG_FUNCTION_INFO_V1(light_test_lwlock);

Datum
light_test_lwlock(PG_FUNCTION_ARGS)
{
	for (int i = 0; i < PG_GETARG_INT32(0); i++)
	{
		pgstat_report_wait_start(PG_WAIT_LWLOCK | LWTRANCHE_FIRST_USER_DEFINED);
		pg_usleep(1000L);
		pgstat_report_wait_end();
	}
	PG_RETURN_VOID();
}

/* ---- a statement with a callback for errors around it ---------------------- */

static void
nothing(int code, Datum arg)
{
}

PG_FUNCTION_INFO_V1(light_test_in_cleanup);

Datum
light_test_in_cleanup(PG_FUNCTION_ARGS)
{
	char	   *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *result;
	text	   *copy;

	SPI_connect();
	PG_ENSURE_ERROR_CLEANUP(nothing, (Datum) 0);
	{
		SPI_execute(sql, false, 0);
	}
	PG_END_ENSURE_ERROR_CLEANUP(nothing, (Datum) 0);
	result = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	copy = SPI_palloc(VARHDRSZ + strlen(result));
	SET_VARSIZE(copy, VARHDRSZ + strlen(result));
	memcpy(VARDATA(copy), result, strlen(result));
	SPI_finish();
	PG_RETURN_TEXT_P(copy);
}

void
_PG_init(void)
{
	RegisterCustomScanMethods(&scan_methods);
	before_shmem_exit(wait_at_exit, (Datum) 0);
	DefineCustomStringVariable("light_test_custom.wait_at_exit", "File for which the end of the process waits.", NULL,
							   &wait_at_exit_file, "", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("light_test_custom.kind", "Kind of custom scan that reads tables.", NULL,
							 &kind, KIND_OFF, kinds, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("light_test_custom.wrap", "Wraps sequential scans.", NULL,
							 &wrap, false, PGC_USERSET, 0, NULL, NULL, NULL);
	prev_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = start;
	prev_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = set_rel_pathlist;
}

/*-------------------------------------------------------------------------
 *
 * parallel_test_planless.c
 *	  What the tests load and is never installed: a library as others may write it.
 *
 * It has a function that puts rows into a table without a plan.  No hook sees such
 * rows, so a load that fills the same table must notice them.  And it has data under a
 * name of parallel_temp's, which must leave it alone where this one is loaded first.
 *
 * It offers the planner a scan of permanent tables that costs nothing and that workers
 * cannot run, and it may put another file in the place of the one that a session shares
 * with its workers.  It counts rows by reading pages as they are.  And it saves the
 * executor's hooks, to restore them later whatever has changed them since.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "nodes/extensible.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(insert_without_plan);
PG_FUNCTION_INFO_V1(own_data_is_untouched);
PG_FUNCTION_INFO_V1(offer_own_scans);
PG_FUNCTION_INFO_V1(exchange_pool);
PG_FUNCTION_INFO_V1(count_without_plan);
PG_FUNCTION_INFO_V1(scan_without_plan);
PG_FUNCTION_INFO_V1(restore_executor_hooks);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT char pt_running[4096];
char		pt_running[4096];

/*
 * own_data_is_untouched() -> boolean
 */
Datum
own_data_is_untouched(PG_FUNCTION_ARGS)
{
	for (int i = 0; i < (int) sizeof(pt_running); i++)
	{
		if (pt_running[i] != 0)
			PG_RETURN_BOOL(false);
	}
	PG_RETURN_BOOL(true);
}

/*
 * insert_without_plan(rel oid, n integer) -> void: n rows of nulls.
 */
Datum
insert_without_plan(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);
	int			natts = RelationGetDescr(rel)->natts;
	Datum	   *values = palloc0(sizeof(Datum) * natts);
	bool	   *nulls = palloc(sizeof(bool) * natts);

	memset(nulls, true, sizeof(bool) * natts);
	for (int i = 0; i < PG_GETARG_INT32(1); i++)
	{
		HeapTuple	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);

		simple_heap_insert(rel, tuple);
		heap_freetuple(tuple);
	}
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*
 * scan_without_plan(rel oid, unused integer) -> integer: rows, by heap's own scan, which accepts no other
 * access method (as pgstattuple does).
 */
Datum
scan_without_plan(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	TableScanDesc scan = table_beginscan_strat(rel, SnapshotAny, 0, NULL, true, true);
	int			n = 0;

	while (heap_getnext(scan, ForwardScanDirection) != NULL)
		n++;
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PG_RETURN_INT32(n);
}

/* A scan that the leader alone can run: the server's sequential scan, within a node of this library. */
static set_rel_pathlist_hook_type previous_set_rel_pathlist = NULL;
static bool offers = false;

static void
own_begin(CustomScanState *node, EState *estate, int eflags)
{
	Plan	   *below = linitial(((CustomScan *) node->ss.ps.plan)->custom_plans);

	node->custom_ps = list_make1(ExecInitNode(below, estate, eflags));
}

static TupleTableSlot *
own_exec(CustomScanState *node)
{
	if (IsParallelWorker())
		elog(ERROR, "a scan of another library runs in a worker");
	return ExecProcNode(linitial(node->custom_ps));
}

static void
own_end(CustomScanState *node)
{
	ExecEndNode(linitial(node->custom_ps));
}

static void
own_rescan(CustomScanState *node)
{
	ExecReScan(linitial(node->custom_ps));
}

static const CustomExecMethods own_exec_methods = {
	.CustomName = "Own Scan",
	.BeginCustomScan = own_begin,
	.ExecCustomScan = own_exec,
	.EndCustomScan = own_end,
	.ReScanCustomScan = own_rescan,
};

static Node *
own_state(CustomScan *scan)
{
	CustomScanState *state = (CustomScanState *) newNode(sizeof(CustomScanState), T_CustomScanState);

	state->methods = &own_exec_methods;
	return (Node *) state;
}

static const CustomScanMethods own_scan_methods = {
	.CustomName = "Own Scan",
	.CreateCustomScanState = own_state,
};

static Plan *
own_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);

	scan->scan.plan.targetlist = tlist;
	scan->custom_plans = custom_plans;
	scan->custom_scan_tlist = ((Plan *) linitial(custom_plans))->targetlist;
	scan->methods = &own_scan_methods;
	return (Plan *) scan;
}

static const CustomPathMethods own_path_methods = {
	.CustomName = "Own Scan",
	.PlanCustomPath = own_plan,
};

static void
own_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	CustomPath *path;

	if (previous_set_rel_pathlist)
		previous_set_rel_pathlist(root, rel, rti, rte);
	if (!offers || rte->rtekind != RTE_RELATION || rte->inh || get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
		return;
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;
	path->custom_paths = list_make1(create_seqscan_path(root, rel, NULL, 0));
	path->methods = &own_path_methods;
	add_path(rel, (Path *) path);
}

/*
 * offer_own_scans(boolean) -> void
 */
Datum
offer_own_scans(PG_FUNCTION_ARGS)
{
	offers = PG_GETARG_BOOL(0);
	PG_RETURN_VOID();
}

/*
 * exchange_pool() -> boolean: the descriptor of the file that this session shares with its
 * workers is one of another file of the same size, until the next call.  False if there is
 * no such descriptor.
 */
Datum
exchange_pool(PG_FUNCTION_ARGS)
{
	static int	away = -1;
	static int	place = -1;

	if (place >= 0)
	{
		dup2(away, place);
		close(away);
		place = -1;
		PG_RETURN_BOOL(true);
	}
	for (int fd = 3; fd < 1000 && place < 0; fd++)
	{
		char		path[64];
		char		target[64] = {0};

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "memfd:parallel_temp") != NULL)
			place = fd;
	}
	if (place >= 0)
	{
		struct stat st;
		int			other = memfd_create("another", 0);

		away = dup(place);
		if (fstat(place, &st) != 0 || ftruncate(other, st.st_size) != 0)
			elog(ERROR, "could not make a file of the same size: %m");
		dup2(other, place);
		close(other);
	}
	PG_RETURN_BOOL(place >= 0);
}

/*
 * count_without_plan(rel oid) -> integer: line pointers in use on all pages.
 */
Datum
count_without_plan(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	int32		count = 0;

	for (BlockNumber block = 0; block < blocks; block++)
	{
		Buffer		buffer = ReadBuffer(rel, block);
		Page		page = BufferGetPage(buffer);
		OffsetNumber last = PageIsNew(page) ? InvalidOffsetNumber : PageGetMaxOffsetNumber(page);

		for (OffsetNumber line = FirstOffsetNumber; line <= last; line++)
			count += ItemIdIsNormal(PageGetItemId(page, line)) ? 1 : 0;
		ReleaseBuffer(buffer);
	}
	table_close(rel, AccessShareLock);
	PG_RETURN_INT32(count);
}

/*
 * restore_executor_hooks() -> void: what a library does that has set the executor's hooks
 * before parallel_temp was loaded, and restores what it found: there were none.
 */
Datum
restore_executor_hooks(PG_FUNCTION_ARGS)
{
	ExecutorStart_hook = NULL;
	ExecutorRun_hook = NULL;
	ExecutorEnd_hook = NULL;
	PG_RETURN_VOID();
}

void
_PG_init(void)
{
	RegisterCustomScanMethods(&own_scan_methods);
	previous_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = own_paths;
}

/*-------------------------------------------------------------------------
 *
 * instrument.c
 *	  The life of a plan node's instrumentation: wrap, upgrade, settle.
 *
 * Wrap (first ExecutorRun of a statement, when parallel workers have attached
 * to their shared state): every node that core would instrument and that still
 * has core's own entry function gets light_first, then light_probe.  A probe
 * gives exactly what core does.  A short statement never gets further, needs no
 * memory and costs what core's instrumentation costs.
 *
 * Upgrade (a node's calls reached light_explain.switch_after, or at once in
 * EXPLAIN ANALYZE): all nodes of the statement get a LightRecord, a copy of
 * core's struct followed by ours, and a wrapper of hotpath.c.  Nodes that are
 * inside a call at that moment finish it the core way: core's struct moved, but
 * whoever stops a node reads the pointer again.
 *
 * Settle (after ExecutorFinish): what the wrappers measured is added to core's
 * part of the records.  Since it is added, whatever core itself measured before
 * (calls before the upgrade), beside (Hash, bitmap index scans, asynchronous
 * nodes, shutting down of Gather, workers) needs no special case.
 *
 * Usage is exclusive in the records and core's is inclusive along the *dynamic*
 * tree of calls: an InitPlan or a CTE counts where it is evaluated.  So each
 * record hangs in the list of the node that called it last.  When another node
 * calls it (light_change_caller), what its subtree used since the last change
 * is booked under the old caller and, at once, as the node's own inclusive
 * usage.
 *
 * Nodes under Gather: a Parallel Hash Join's entry function is set anew by core
 * when Gather starts workers, so nodes look at their children in their first
 * call, and Gather looks at all nodes below it after its own.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>

#include "executor/executor.h"
#include "light_explain.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

typedef struct WalkContext
{
	LightQuery *query;
	Bitmapset  *seen;			/* subplans visited already */
	void		(*visit) (struct WalkContext *context, PlanState *node);
	int			depth;
	int			parent;			/* record above, or -1 */
	int			count;
} WalkContext;

static TupleTableSlot *light_first(PlanState *node);
static TupleTableSlot *light_probe(PlanState *node);
static TupleTableSlot *light_gather(PlanState *node);
static TupleTableSlot *light_reenter(PlanState *node);

/*
 * Visit a node and all below it, each once: two expressions may share a subplan.
 */
static bool
walk(PlanState *node, void *arg)
{
	WalkContext *context = arg;
	int			subplan = 0;
	int			parent;
	ListCell   *lc;

	if (node == NULL)
		return false;
	foreach(lc, context->query->estate->es_subplanstates)
	{
		if (lfirst(lc) == node)
		{
			if (bms_is_member(subplan, context->seen))
				return false;
			context->seen = bms_add_member(context->seen, subplan);
			break;
		}
		subplan++;
	}
	parent = context->parent;
	context->visit(context, node);
	context->depth++;
	(void) planstate_tree_walker(node, walk, context);
	context->depth--;
	context->parent = parent;
	return false;
}

/* Visit all nodes of a statement. */
static int
walk_query(LightQuery *query, void (*visit) (WalkContext *context, PlanState *node))
{
	WalkContext context = {.query = query,.visit = visit,.parent = -1};
	ListCell   *lc;

	(void) walk(query->queryDesc->planstate, &context);
	foreach(lc, query->estate->es_subplanstates)
		(void) walk((PlanState *) lfirst(lc), &context);
	bms_free(context.seen);
	return context.count;
}

/*
 * Nodes that core instruments inside their own code instead of around it.
 */
static bool
measured_by_core(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_HashState:
		case T_BitmapIndexScanState:
		case T_BitmapAndState:
		case T_BitmapOrState:
			return true;
		default:
			return node->async_capable;
	}
}

bool
light_measured_by_core(PlanState *planstate)
{
	return measured_by_core(planstate);
}

/* ---- wrap --------------------------------------------------------------- */

static void
wrap_node(WalkContext *context, PlanState *node)
{
	if (IsA(node, GatherState) || IsA(node, GatherMergeState))
		context->query->has_gather = true;
	/* a node that somebody else wrapped is theirs */
	if (node->instrument != NULL && node->ExecProcNode == light_core_first && !measured_by_core(node))
		node->ExecProcNode = light_first;
}

/* Put the first wrapper around the nodes of a statement. */
void
light_wrap(LightQuery *query)
{
	PlanState  *top = query->queryDesc->planstate;

	light_clock_prepare();
	/* the shortest statements are one scan: spare them the walk */
	if (outerPlanState(top) == NULL && query->estate->es_subplanstates == NIL &&
		(IsA(top, IndexScanState) || IsA(top, IndexOnlyScanState) || IsA(top, SeqScanState) || IsA(top, ResultState)))
	{
		WalkContext context = {.query = query};

		wrap_node(&context, top);
	}
	else
		(void) walk_query(query, wrap_node);
	query->wrapped = true;
}

/* The record of a node, or NULL if core's struct is still its own. */
LightRecord *
light_record_of(LightQuery *query, PlanState *planstate)
{
	char	   *instr = (char *) planstate->instrument;

	if (query == NULL || !query->upgraded || instr < (char *) query->records ||
		instr >= (char *) (query->records + query->nrecords))
		return NULL;
	return (LightRecord *) instr;
}

/* Core set the entry function anew: put ours back.  For direct children. */
static bool
wrap_child(PlanState *node, void *arg)
{
	if (node == NULL)
		return false;
	if (measured_by_core(node))
		return planstate_tree_walker(node, wrap_child, arg);
	if (node->instrument != NULL && node->ExecProcNode == light_core_first)
		node->ExecProcNode = light_first;
	return false;
}

/* The same for all nodes below one that is not inside a call now. */
static bool
wrap_below(PlanState *node, void *arg)
{
	if (node == NULL)
		return false;
	if (node->instrument != NULL && !measured_by_core(node) &&
		(node->ExecProcNode == light_core_first || node->ExecProcNode == light_core_instr))
		node->ExecProcNode = light_first;
	return planstate_tree_walker(node, wrap_below, arg);
}

/*
 * The wrapper in the first call of a node, in place of core's ExecProcNodeFirst,
 * whose stack depth check it keeps.
 */
static TupleTableSlot *
light_first(PlanState *node)
{
	LightQuery *query = light_query_of(node->state);
	LightRecord *record;
	ExecProcNodeMtd next = light_probe;

	check_stack_depth();
	if (query != NULL && query->has_gather)
		(void) planstate_tree_walker(node, wrap_child, NULL);
	record = light_record_of(query, node);
	if (record != NULL)
	{
		record->ticking = query->ticking;
		next = IsA(node, GatherState) || IsA(node, GatherMergeState) ? light_gather : query->wrapper;
	}
	/* somebody may have put a function of theirs before ours */
	if (node->ExecProcNode == light_first)
		node->ExecProcNode = next;
	return next(node);
}

/* The wrapper until the upgrade: core's ExecProcNodeInstr, and a look at the calls. */
static TupleTableSlot *
light_probe(PlanState *node)
{
	NodeInstrumentation_compat *instr = node->instrument;
	LightQuery *query = light.current;

	/* a cycle of calls ends with an empty one */
	if (query != NULL && unlikely(instr->ntuples + instr->tuplecount + instr->nloops >= query->switch_after) &&
		node->ExecProcNode == light_probe && query->estate == node->state && !query->upgraded && light_upgrade(query))
		return node->ExecProcNode(node);

	return light_call_as_core(node);
}

/*
 * Gather's first call starts workers, in which core resets entry functions below.
 */
static TupleTableSlot *
light_gather(PlanState *node)
{
	LightQuery *query = light_query_of(node->state);
	TupleTableSlot *slot;

	slot = query->wrapper(node);
	(void) planstate_tree_walker(node, wrap_below, NULL);
	if (node->ExecProcNode == light_gather)
		node->ExecProcNode = query->wrapper;
	return slot;
}

/* ---- upgrade ------------------------------------------------------------ */

static void
count_node(WalkContext *context, PlanState *node)
{
	if (node->instrument != NULL)
		context->count++;
}

/* Move a node's instrumentation to its record. */
static void
upgrade_node(WalkContext *context, PlanState *node)
{
	LightQuery *query = context->query;
	LightRecord *record;
	NodeInstrumentation_compat *instr = node->instrument;

	if (instr == NULL)
		return;
	if (query->nrecords >= query->nrecords_allocated)
		return;					/* plan grew meanwhile; core measures it */
	record = &query->records[query->nrecords++];
	record->core = *instr;
	record->planstate = node;
	record->query = query;
	record->depth = context->depth;
	record->parent = context->parent;
	context->parent = query->nrecords - 1;
	record->ticking = query->ticking;
	record->left_to_core = measured_by_core(node);
	node->instrument = &record->core;
	if (node->ExecProcNode == light_probe)
		node->ExecProcNode = IsA(node, GatherState) || IsA(node, GatherMergeState) ? light_gather : query->wrapper;
	else if (node->ExecProcNode == light_core_first && !record->left_to_core)
		node->ExecProcNode = light_first;

	/* Nothing points to core's struct any more. */
	if (GetMemoryChunkContext(instr) == query->context)
		pfree(instr);
}

/* Choose clock and wrapper of a statement that is being upgraded. */
static void
choose_clock(LightQuery *query)
{
	query->clock = LIGHT_CLOCK_NONE;
	query->ticking = false;
	query->deadline = PG_INT64_MAX;
	if (query->timer)
	{
		LightClock	exact = light_tsc_usable ? LIGHT_CLOCK_TSC : LIGHT_CLOCK_SYSTEM;

		switch (query->timing)
		{
			case LIGHT_TIMING_TICKER:
				if (light_ticker_available())
					query->ticking = true;
				else
					query->clock = exact;
				break;
			case LIGHT_TIMING_EXACT:
				query->clock = exact;
				break;
			case LIGHT_TIMING_ORDERED:
				query->clock = light_tsc_usable ? LIGHT_CLOCK_ORDERED : LIGHT_CLOCK_SYSTEM;
				break;
			case LIGHT_TIMING_CORE:
				query->clock = LIGHT_CLOCK_SYSTEM;
				break;
			case LIGHT_TIMING_AUTO:
				query->clock = exact;
				if (light_ticker_available())
					query->deadline = light_now() + light_ticks(query->exact_time * 1e-6);
				break;
		}
	}
	query->wrapper = light_wrapper_for(query->clock, query->usage, query->usage_full);
}

/*
 * Give all nodes of a running statement records and light wrappers.  False, and
 * nothing changed for good, if there is no memory.
 */
bool
light_upgrade(LightQuery *query)
{
	MemoryContext old;
	int			n = 1 + walk_query(query, count_node);

	query->records = light_progress_claim(query, n);
	if (query->records == NULL)
	{
		char	   *chunk = MemoryContextAllocExtended(query->context, n * sizeof(LightRecord) + 63,
													   MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);

		if (chunk == NULL)
		{
			query->switch_after = DBL_MAX;
			return false;
		}
		query->records = (LightRecord *) TYPEALIGN(64, chunk);
	}
	memset(query->records, 0, n * sizeof(LightRecord));
	choose_clock(query);
	query->records[0].query = query;
	query->records[0].ticking = query->ticking;
	query->nrecords = 1;
	query->nrecords_allocated = n;
	query->upgraded = true;

	old = MemoryContextSwitchTo(query->context);
	(void) walk_query(query, upgrade_node);
	MemoryContextSwitchTo(old);
	light_progress_publish(query);

	light_root_enter(query);
	return true;
}

/* ---- callers ------------------------------------------------------------ */

/* In whose list of callees a record is while it has this caller. */
static LightRecord *
list_owner(LightRecord *record, LightRecord *caller)
{
	return caller->query == record->query ? caller : record->query->records;
}

/* Usage of a record and all in its lists, less what is booked elsewhere. */
static void
add_usage(LightRecord *record, LightUsage *sum)
{
	int64	   *to = (int64 *) sum;
	const int64 *self = (const int64 *) &record->self;

	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
		to[i] += self[i];
	if (record->moved != NULL)
	{
		const int64 *moved = (const int64 *) record->moved;

		for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
			to[i] += moved[i];
	}
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		add_usage(callee, sum);
}

/* Add usage to core's inclusive figures of a node. */
static void
add_to_core(LightRecord *record, const LightUsage *usage)
{
	int64	   *buffers = (int64 *) InstrBuffers_compat(&record->core);
	int64	   *wal = (int64 *) InstrWal_compat(&record->core);

	if (InstrNeedBuffers_compat(&record->core))
	{
		for (int i = 0; i < sizeof(BufferUsage) / sizeof(int64); i++)
			buffers[i] += ((const int64 *) &usage->buffers)[i];
		BufferUsageNormalize_compat(InstrBuffers_compat(&record->core));
	}
	if (InstrNeedWal_compat(&record->core))
	{
		for (int i = 0; i < sizeof(WalUsage) / sizeof(int64); i++)
			wal[i] += ((const int64 *) &usage->wal)[i];
	}
}

/* Move usage between the books of two records: from one, to the other. */
static void
move_usage(LightRecord *from, LightRecord *to, const LightUsage *usage)
{
	const int64 *u = (const int64 *) usage;

	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
	{
		((int64 *) from->moved)[i] -= u[i];
		if (to != NULL)
			((int64 *) to->moved)[i] += u[i];
	}
}

static LightUsage *
new_usage(LightQuery *query)
{
	return MemoryContextAllocZero(query->context, sizeof(LightUsage));
}

/*
 * A node is called by another one than before: close the account with the old
 * caller.  Called from the wrappers; may fail for lack of memory, with nothing
 * changed.
 */
void
light_change_caller(LightRecord *record, LightRecord *caller)
{
	LightRecord *owner = list_owner(record, caller);

	if (record->caller != NULL)
	{
		LightRecord *old = list_owner(record, record->caller);
		LightRecord **link;
		LightUsage	usage = {0};
		int64		total = record->total;

		if (old == owner)
		{
			/* only another statement's node below our root: same list */
			record->caller = caller;
			return;
		}
		if (record->query->usage)
		{
			bool		any = false;

			add_usage(record, &usage);
			for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
				any = any || ((int64 *) &usage)[i] != 0;
			if (any)
			{
				bool		to_root = old == record->query->records;

				if (record->moved == NULL)
					record->moved = new_usage(record->query);
				if (!to_root && old->moved == NULL)
					old->moved = new_usage(record->query);
				add_to_core(record, &usage);
				move_usage(record, to_root ? NULL : old, &usage);
			}
		}
		old->total_taken += total - record->total_moved;
		record->total_moved = total;

		for (link = &old->callees; *link != record; link = &(*link)->next_callee)
			;
		*link = record->next_callee;
	}
	record->next_callee = owner->callees;
	owner->callees = record;
	record->caller = caller;
}

/* ---- from exact clock to ticker ----------------------------------------- */

/*
 * The wrapper of a node that was inside a call when the ticker took over: that
 * call has been timed by its own clock; from the next one on, the ticker counts.
 */
static TupleTableSlot *
light_reenter(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	LightQuery *query = record->query;

	light_tick();
	record->ticking = true;
	if (node->ExecProcNode == light_reenter)
		node->ExecProcNode = query->wrapper;
	return query->wrapper(node);
}

/*
 * A statement with timing = auto has run long enough: the ticker takes over.
 * Called at the end of a wrapper, with the caller of its node on top again.
 */
void
light_deadline_passed(void)
{
	LightQuery *query = light.current;
	ExecProcNodeMtd old;

	light.deadline = PG_INT64_MAX;
	if (query == NULL || !query->upgraded || query->ticking)
		return;
	query->deadline = PG_INT64_MAX;
	old = query->wrapper;
	query->clock = LIGHT_CLOCK_NONE;
	query->wrapper = light_wrapper_for(query->clock, query->usage, query->usage_full);

	for (int i = 1; i < query->nrecords; i++)
	{
		LightRecord *record = &query->records[i];
		PlanState  *node = record->planstate;

		/* a node that somebody else wrapped goes on with its clock */
		record->ticking = node->ExecProcNode == old || node->ExecProcNode == light_first || node->ExecProcNode == light_gather;
		if (node->ExecProcNode == old)
			node->ExecProcNode = query->wrapper;
	}
	for (LightRecord *record = light.top; record != NULL && record->query == query; record = record->caller)
	{
		PlanState  *node = record->planstate;

		record->ticking = false;
		if (node != NULL && (node->ExecProcNode == query->wrapper || node->ExecProcNode == light_gather))
			node->ExecProcNode = light_reenter;
	}
	query->ticking = true;
	light_ticker_enter();
}

/* ---- settle ------------------------------------------------------------- */

/* Add what the wrappers measured below a record to core's figures. */
static void
settle_record(LightRecord *record, LightUsage *sum)
{
	LightUsage	usage = {0};
	int64	   *to = (int64 *) &usage;

	check_stack_depth();
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		settle_record(callee, &usage);
	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
	{
		to[i] += ((int64 *) &record->self)[i];
		if (record->moved != NULL)
			to[i] += ((int64 *) record->moved)[i];
		((int64 *) sum)[i] += to[i];
	}
	if (record->planstate != NULL)
		add_to_core(record, &usage);
}

/*
 * The statement is finished: make core's figures whole.
 */
void
light_settle(LightQuery *query)
{
	LightUsage	all = {0};

	if (!query->upgraded || query->finished)
		return;
	light_progress_hide(query);
	if (query->usage)
		settle_record(&query->records[0], &all);
	if (query->timer)
	{
		query->tick = query->timing == LIGHT_TIMING_CORE ? 1e-9 : light_seconds_per_tick();
		for (int i = 1; i < query->nrecords; i++)
		{
			LightRecord *record = &query->records[i];

			if (!record->left_to_core)
				InstrAddTime_compat(&record->core, record->startup * query->tick, record->total * query->tick);
		}
	}
	query->finished = true;
}

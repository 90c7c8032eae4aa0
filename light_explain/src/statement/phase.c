/*-------------------------------------------------------------------------
 *
 * phase.c
 *	  The phases of a statement, and the entry function of its nodes in each.
 *
 * At the first ExecutorRun, when parallel workers have attached to their shared
 * state, every node that core would instrument and that still has core's
 * entry function gets ours.  A short statement stays in that phase: it measures
 * exactly the same as core, needs no memory and costs no more.
 *
 * When a node was called light_explain.switch_after times, or at once in EXPLAIN
 * ANALYZE and where there are InitPlans (see self.c), all nodes of the statement get
 * a record, a copy of core's struct followed by our fields, and a wrapper of hotpath.c.
 * Nodes that are inside a call at that moment finish it the way they began: core's
 * struct moved, but the code that stops a node reads the pointer again.
 *
 * Nodes under Gather: core sets a Parallel Hash Join's entry function again
 * when Gather starts workers, so nodes check their children in their first
 * call, and Gather checks all nodes below it after its first call.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "executor/executor.h"
#include "measure/quick.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "statement/statement.h"
#include "utils/memutils.h"

static TupleTableSlot *first_call(PlanState *node);
static TupleTableSlot *core_call(PlanState *node);
static TupleTableSlot *core_fast_call(PlanState *node);
static TupleTableSlot *gather_call(PlanState *node);

/*
 * The entry functions of all nodes before there are records: in LIGHT_CORE_FAST one function for
 * all calls, which light_phase_init() chooses, in LIGHT_CORE first_call() and then
 * core_call().
 */
static ExecProcNodeMtd core_fast = core_fast_call;

static inline ExecProcNodeMtd
untracked_function(const LightQuery *query)
{
	return query->phase == LIGHT_CORE_FAST ? core_fast : core_call;
}

/* The entry function of a node with a record after its first call. */
static ExecProcNodeMtd
tracked_function(const LightQuery *query, LightTreatment treatment)
{
	switch (treatment)
	{
		case LIGHT_COUNT_BLOCKS:
			return light_count_blocks;
		case LIGHT_SKIP_PAGES:
			return light_scan_pages;
		case LIGHT_SKIP_FILTERED:
			return light_filter_pages;
		case LIGHT_SKIP_INDEX_ONLY:
			return light_index_only_pages;
		case LIGHT_GATHER:
			return gather_call;
		case LIGHT_EACH_CALL:
		case LIGHT_BY_CORE:
			break;
	}
	return query->books.wrapper;
}

static LightTreatment
choose_treatment(const LightQuery *query, PlanState *node, PlanState *parent)
{
	if (light_measured_by_core(node))
		return LIGHT_BY_CORE;
	if (IsA(node, GatherState) || IsA(node, GatherMergeState))
		return LIGHT_GATHER;
	if (query->count_blocks && light_counts_blocks(node))
		return LIGHT_COUNT_BLOCKS;

	/*
	 * a join by merging goes back in its inner index scan, also through a
	 * Result
	 */
	if (light_scans_pages(node) &&
		(IsA(node, SeqScanState) || parent == NULL || !(IsA(parent, MergeJoinState) || IsA(parent, ResultState) || IsA(parent, CustomScanState))))
		return node->qual != NULL ? LIGHT_SKIP_FILTERED : IsA(node, IndexOnlyScanState) ? LIGHT_SKIP_INDEX_ONLY : LIGHT_SKIP_PAGES;
	return LIGHT_EACH_CALL;
}

/* ---- wrap --------------------------------------------------------------- */

/* Has a node children other than the outer and the inner one? */
static inline bool
has_other_children(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_CustomScanState:
		case T_AppendState:
		case T_MergeAppendState:
		case T_BitmapAndState:
		case T_BitmapOrState:
		case T_SubqueryScanState:
			return true;
		default:
			return false;
	}
}

/* Does ExecShutdownNode() do something in a node? */
static inline bool
shuts_down(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_GatherState:
		case T_GatherMergeState:
		case T_ForeignScanState:
		case T_CustomScanState:
		case T_HashState:
		case T_HashJoinState:
			return true;
		default:
			return false;
	}
}

static bool wrap_below(PlanState *node, void *arg);

/*
 * Put the first wrapper around a node and those below it.  Each statement pays
 * for this, however short it is, so it goes down by itself where that is simple;
 * subplans are the caller's, who has a list of them.
 */
static void pg_attribute_hot
wrap_tree(LightQuery *query, PlanState *node)
{
	PlanState  *outer = outerPlanState(node);
	PlanState  *inner = innerPlanState(node);

	if (has_other_children(node))
	{
		check_stack_depth();
		(void) planstate_tree_walker(node, wrap_below, query);
	}
	else if (outer != NULL || inner != NULL)
	{
		check_stack_depth();
		if (outer != NULL)
			wrap_tree(query, outer);
		if (inner != NULL)
			wrap_tree(query, inner);
	}

	query->init_plans |= node->initPlan != NIL;
	query->shuts_down |= shuts_down(node);
	/* a node that another extension wrapped is not changed */
	if (node->instrument != NULL && node->ExecProcNode == light_core_first && !light_measured_by_core(node))
		node->ExecProcNode = query->phase == LIGHT_CORE_FAST ? core_fast : first_call;
}

static bool
wrap_below(PlanState *node, void *arg)
{
	if (node != NULL)
		wrap_tree(arg, node);
	return false;
}

/*
 * The statement is run for the first time: put a wrapper around its nodes, with or
 * without records.
 */
void		pg_attribute_hot
light_wrap(LightQuery *query)
{
	ListCell   *lc;

	Assert(query->phase == LIGHT_STARTED);
	query->phase = query->fast && !query->parallel ? LIGHT_CORE_FAST : LIGHT_CORE;
	query->init_plans = query->shuts_down = false;
	if (likely(query->switch_after > 0))
	{
		wrap_tree(query, query->queryDesc->planstate);
		foreach(lc, query->estate->es_subplanstates)
		{
			if (lfirst(lc) != NULL)
				wrap_tree(query, (PlanState *) lfirst(lc));
		}
	}
	if (unlikely(query->switch_after <= 0 || query->init_plans))
		query->whole = light_record(query);
}

/*
 * Core has set the entry function of nodes again: restore ours.  Checks the children
 * of a node, or all nodes below it, which then is not inside a call.
 */
typedef struct RewrapContext
{
	bool		all;
} RewrapContext;

static bool
rewrap(PlanState *node, void *arg)
{
	RewrapContext *context = arg;
	bool		by_core;

	if (node == NULL)
		return false;
	by_core = light_measured_by_core(node);
	if (node->instrument != NULL && !by_core &&
		(node->ExecProcNode == light_core_first || (context->all && node->ExecProcNode == light_core_instr)))
		node->ExecProcNode = first_call;
	return (context->all || by_core) && planstate_tree_walker(node, rewrap, arg);
}

static void
rewrap_below(PlanState *node, bool all)
{
	RewrapContext context = {.all = all};

	(void) planstate_tree_walker(node, rewrap, &context);
}

/* ---- calls -------------------------------------------------------------- */

/*
 * The first call of a node, in place of core's ExecProcNodeFirst, whose stack depth
 * check it keeps.
 */
static TupleTableSlot *
first_call(PlanState *node)
{
	LightQuery *query = light_query_of(node->state);
	LightRecord *record = light_record_of(query, node);
	ExecProcNodeMtd next = core_call;

	check_stack_depth();
	if (query != NULL && query->parallel)
		rewrap_below(node, false);
	if (record != NULL)
		next = tracked_function(query, query->nodes.node[record - query->books.records].treatment);
	/* another extension may have set a function that calls ours */
	if (node->ExecProcNode == first_call)
		node->ExecProcNode = next;
	return next(node);
}

/*
 * A node was called often in the innermost statement: may all nodes get records, and did
 * they?  Not if another extension set a function that calls ours.
 */
static pg_noinline bool
change_to_records(PlanState *node, LightQuery *query)
{
	return query->estate == node->state && !light_recorded(query) &&
		node->ExecProcNode == untracked_function(query) && light_record(query);
}

/* Calls of a node until now; a cycle of them ends with an empty one. */
static inline double
calls_of(const NodeInstrumentation_compat *instr)
{
	return instr->ntuples + instr->tuplecount + instr->nloops;
}

/*
 * A call in LIGHT_CORE_FAST that is a node's first one in a cycle, at which core looks
 * at the stack's depth, or may be one too many for that phase.
 */
static pg_noinline TupleTableSlot *pg_attribute_hot
core_fast_special(PlanState *node)
{
	LightQuery *query = light_chain.current;

	if (!node->instrument->running)
		check_stack_depth();
	if (query != NULL && unlikely(++query->calls >= query->switch_after) &&
		calls_of(node->instrument) >= query->switch_after && change_to_records(node, query))
		return node->ExecProcNode(node);

	return light_call_quickly(node, false);
}

/* A call in that phase. */
static pg_attribute_always_inline TupleTableSlot *
core_fast_inline(PlanState *node)
{
	LightQuery *query = light_chain.current;

	if (unlikely(query == NULL || !node->instrument->running || query->calls + 1 >= query->switch_after))
		return core_fast_special(node);
	query->calls++;
	return light_call_quickly(node, true);
}

static TupleTableSlot *pg_attribute_hot
core_fast_call(PlanState *node)
{
	return core_fast_inline(node);
}

#if LIGHT_HAVE_AVX2
/* The same instructions, but they take counters from memory wherever those are: some ten less. */
LIGHT_FOR_AVX2
static TupleTableSlot *pg_attribute_hot
core_fast_call_avx2(PlanState *node)
{
	return core_fast_inline(node);
}
#endif

/* The library was loaded: use the function that this CPU can run. */
void
light_phase_init(bool avx2)
{
#if LIGHT_HAVE_AVX2
	if (avx2)
		core_fast = core_fast_call_avx2;
#endif
}

/* A call in the other phase without records: core's ExecProcNodeInstr. */
static TupleTableSlot *
core_call(PlanState *node)
{
	LightQuery *query = light_chain.current;

	if (query != NULL && unlikely(calls_of(node->instrument) >= query->switch_after) && change_to_records(node, query))
		return node->ExecProcNode(node);

	return light_call_as_core(node, query != NULL && query->timing != LIGHT_TIMING_AUTO);
}

/*
 * Gather's first call starts workers, in which core resets entry functions below.
 */
static TupleTableSlot *
gather_call(PlanState *node)
{
	LightBooks *books = ((LightRecord *) node->instrument)->books;
	TupleTableSlot *slot = books->wrapper(node);

	rewrap_below(node, true);
	if (node->ExecProcNode == gather_call)
		node->ExecProcNode = books->wrapper;
	return slot;
}

/* ---- records ------------------------------------------------------------ */

/* The record of a node, or NULL if core's struct is still its own. */
LightRecord *
light_record_of(LightQuery *query, PlanState *planstate)
{
	char	   *instr = (char *) planstate->instrument;

	if (query == NULL || !light_recorded(query) || instr < (char *) query->books.records ||
		instr >= (char *) (query->books.records + query->books.nrecords))
		return NULL;
	return (LightRecord *) instr;
}

/* Move a node's instrumentation to its record. */
static void
move_to_record(LightQuery *query, LightNode *node, LightRecord *record)
{
	PlanState  *planstate = node->planstate;
	NodeInstrumentation_compat *instr = planstate->instrument;

	record->core = *instr;
	light_record_clear(record);
	record->books = &query->books;
	record->node_id = planstate->plan->plan_node_id;
	record->init_plan = node->init_plan;
	node->treatment = choose_treatment(query, planstate, query->nodes.node[node->parent].planstate);
	planstate->instrument = &record->core;
	if (node->treatment == LIGHT_SKIP_FILTERED)
		light_watch_filter(planstate);
	if (node->treatment != LIGHT_BY_CORE)
	{
		if (planstate->ExecProcNode == light_core_first)
			planstate->ExecProcNode = first_call;
		else if (planstate->ExecProcNode == untracked_function(query))
			planstate->ExecProcNode = calls_of(instr) > 0 ? tracked_function(query, node->treatment) : first_call;
	}

	/* Core's struct is not moved back: another extension's node may share it. */
}

static LightClock
choose_clock(const LightQuery *query)
{
	if (!query->timer)
		return LIGHT_CLOCK_NONE;
	return query->timing == LIGHT_TIMING_AUTO && light_counter_usable ? LIGHT_CLOCK_AUTO : LIGHT_CLOCK_SYSTEM;
}

/* Memory for records, not cleared, that others see if there is such, or NULL. */
static LightRecord *
allocate_records(LightQuery *query, int n)
{
	LightRecord *records = light_progress_claim(query, n);

	if (records == NULL)
	{
		char	   *chunk = MemoryContextAllocExtended(query->context, n * sizeof(LightRecord) + 63,
													   MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);

		if (chunk == NULL)
			return NULL;
		records = (LightRecord *) TYPEALIGN(64, chunk);
	}
	return records;
}

/*
 * Give all nodes of the statement that is being run records and light wrappers.
 * False, and nothing changed for good, if there is no memory.
 */
bool
light_record(LightQuery *query)
{
	LightBooks *books = &query->books;
	LightNodes *nodes = light_nodes(query);
	const BufferUsage buffers = pgBufferUsage;
	const WalUsage wal = pgWalUsage;

	Assert(light_chain.current == query && (query->phase == LIGHT_CORE_FAST || query->phase == LIGHT_CORE));
	books->records = nodes != NULL ? allocate_records(query, nodes->n) : NULL;
	if (books->records == NULL)
	{
		query->switch_after = INT_MAX;
		return false;
	}
	light_query_tie(query);
	books->nrecords = nodes->n;
	books->context = query->context;
	books->clock = choose_clock(query);
	books->usage = (query->estate->es_instrument & (INSTRUMENT_BUFFERS | INSTRUMENT_WAL)) != 0;
	books->usage_full = query->io_timing;
	books->wrapper = light_wrapper_for(books->clock, books->usage, books->usage_full);
	memset(&books->records[0], 0, sizeof(LightRecord));
	books->records[0].books = books;
	books->records[0].node_id = -1;
	for (int i = 1; i < nodes->n; i++)
		move_to_record(query, &nodes->node[i], &books->records[i]);

	/*
	 * Choosing a wrapper may read catalogs (light_scans_pages()).  The node
	 * that is being executed, this worker's Gather and the statement outside
	 * must not have these blocks.
	 */
	pgBufferUsage = buffers;
	pgWalUsage = wal;
	light_progress_publish(query);
	if (light_sampled && query->slot < 0)
		light_activity_private(books);

	query->phase = LIGHT_TRACKED;
	light_root_enter(books, query->outer_top);
	return true;
}

/*-------------------------------------------------------------------------
 *
 * phase.c
 *	  The life of a plan node's instrumentation: wrap, upgrade, change of
 *	  clock.  What the wrappers measured is made core's figures in usage.c.
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
 * Nodes under Gather: a Parallel Hash Join's entry function is set anew by core
 * when Gather starts workers, so nodes look at their children in their first
 * call, and Gather looks at all nodes below it after its own.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "executor/executor.h"
#include "compat_instrument.h"
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

/*
 * Two expressions may share a subplan, so a walk over all nodes comes to it more
 * than once.  Is this one, and was it met before?  Then its nodes were, too.
 */
bool
light_seen_before(PlanState *node, Bitmapset **seen)
{
	int			subplan = 0;
	ListCell   *lc;

	foreach(lc, node->state->es_subplanstates)
	{
		if (lfirst(lc) == node)
		{
			if (bms_is_member(subplan, *seen))
				return true;
			*seen = bms_add_member(*seen, subplan);
			return false;
		}
		subplan++;
	}
	return false;
}

/* Visit a node and all below it, each once. */
static bool
walk(PlanState *node, void *arg)
{
	WalkContext *context = arg;
	int			parent;

	if (node == NULL || light_seen_before(node, &context->seen))
		return false;
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

typedef struct WrapContext
{
	LightQuery *query;
	bool		shuts_down;
} WrapContext;

static bool wrap_below_special(PlanState *node, void *arg);

/*
 * Put the first wrapper around a node and those below it.  Each statement pays
 * for this, however short it is, so it goes down by itself where that is simple;
 * subplans are the caller's, who has a list of them.
 *
 * When a statement has all its rows, core starts and stops the instrumentation
 * of every node once more, around ExecShutdownNode().  Only in a few kinds of
 * nodes that does anything.  Where there are none of them, core is kept from it
 * by taking away the flags that say what to measure; our wrapper does not look
 * at them.  Not with subplans, which are shut down where they are used.  Returns
 * whether there are such nodes here or below.
 */
static bool pg_attribute_hot
wrap_tree(LightQuery *query, PlanState *node)
{
	PlanState  *outer = outerPlanState(node);
	PlanState  *inner = innerPlanState(node);
	bool		shuts_down = false;
	bool		walk = false;

	switch (nodeTag(node))
	{
		case T_GatherState:
		case T_GatherMergeState:
			query->has_gather = true;
			shuts_down = true;
			break;
		case T_CustomScanState:
			shuts_down = true;
			walk = true;
			break;
		case T_ForeignScanState:
		case T_HashState:
		case T_HashJoinState:
			shuts_down = true;
			break;
		case T_AppendState:
		case T_MergeAppendState:
		case T_BitmapAndState:
		case T_BitmapOrState:
		case T_SubqueryScanState:
			walk = true;
			break;
		default:
			break;
	}
	if (walk)
	{
		WrapContext context = {.query = query};

		check_stack_depth();
		(void) planstate_tree_walker(node, wrap_below_special, &context);
		shuts_down |= context.shuts_down;
	}
	else if (outer != NULL || inner != NULL)
	{
		check_stack_depth();
		if (outer != NULL)
			shuts_down |= wrap_tree(query, outer);
		if (inner != NULL)
			shuts_down |= wrap_tree(query, inner);
	}

	/* a node that somebody else wrapped is theirs */
	if (node->instrument != NULL && node->ExecProcNode == light_core_first && !measured_by_core(node))
	{
		if (query->quick && !query->has_gather)
		{
			node->ExecProcNode = light_quick_first;
			if (!shuts_down && query->estate->es_subplanstates == NIL)
				InstrSetNeeds_compat(node->instrument, 0);
		}
		else
			node->ExecProcNode = light_first;
	}
	return shuts_down;
}

static bool
wrap_below_special(PlanState *node, void *arg)
{
	WrapContext *context = arg;

	if (node != NULL)
		context->shuts_down |= wrap_tree(context->query, node);
	return false;
}

/* Put the first wrapper around the nodes of a statement. */
void		pg_attribute_hot
light_wrap(LightQuery *query)
{
	ListCell   *lc;

	/* from the subplans on, so that a Gather anywhere is known above it */
	foreach(lc, query->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL)
			(void) wrap_tree(query, (PlanState *) lfirst(lc));
	}
	(void) wrap_tree(query, query->queryDesc->planstate);
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

/* What an upgraded node calls first. */
static ExecProcNodeMtd
entry_of(LightQuery *query, PlanState *node)
{
	if (IsA(node, GatherState) || IsA(node, GatherMergeState))
		return light_gather;
	if (unlikely(query->count_blocks) && light_counts_blocks(node))
		return light_count_blocks;
	return query->wrapper;
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
		next = entry_of(query, node);
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
	if (node->ExecProcNode == light_quick || node->ExecProcNode == light_quick_first)
		InstrSetNeeds_compat(instr, query->estate->es_instrument);
	if (query->nrecords >= query->nrecords_allocated)
		return;					/* plan grew meanwhile; core measures it */
	record = &query->records[query->nrecords++];
	record->core = *instr;
	record->planstate = node;
	record->query = query;
	record->depth = context->depth;
	record->parent = context->parent;
	record->left[0] = record->left[1] = 1;
	context->parent = query->nrecords - 1;
	record->left_to_core = measured_by_core(node);
	node->instrument = &record->core;
	if (node->ExecProcNode == light_probe || node->ExecProcNode == light_quick)
		node->ExecProcNode = entry_of(query, node);
	else if ((node->ExecProcNode == light_core_first || node->ExecProcNode == light_quick_first) && !record->left_to_core)
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
	if (query->timer)
	{
		LightClock	exact = light_tsc_usable ? LIGHT_CLOCK_TSC : LIGHT_CLOCK_SYSTEM;

		switch (query->timing)
		{
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
				query->clock = LIGHT_CLOCK_SAMPLED;
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
			query->switch_after = INT_MAX;
			return false;
		}
		query->records = (LightRecord *) TYPEALIGN(64, chunk);
	}
	memset(query->records, 0, n * sizeof(LightRecord));
	light_query_tie(query);
	choose_clock(query);
	query->records[0].query = query;
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

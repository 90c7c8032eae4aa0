/*-------------------------------------------------------------------------
 *
 * phase.c
 *	  The phases of a statement, and the function that its nodes carry in each.
 *
 * At the first ExecutorRun, when parallel workers have attached to their shared
 * state, every node that core would instrument and that still has core's own
 * entry function gets ours.  A short statement stays in that phase: it gets
 * exactly what core measures, needs no memory and costs no more.
 *
 * When a node was called light_explain.switch_after times, or at once in EXPLAIN
 * ANALYZE of a statement that is not brief (brief.c), all nodes of the statement get a record, a copy of core's struct
 * followed by ours, and a wrapper of hotpath.c.  Nodes that are inside a call at
 * that moment finish it the way they began: core's struct moved, but whoever stops
 * a node reads the pointer again.
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
#include "measure/quick.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "statement/statement.h"
#include "utils/memutils.h"

static TupleTableSlot *first_call(PlanState *node);
static TupleTableSlot *quick_call(PlanState *node);
static TupleTableSlot *probing_call(PlanState *node);
static TupleTableSlot *recorded_call(PlanState *node);
static TupleTableSlot *gather_call(PlanState *node);

/*
 * What a node of a role carries in a phase of its statement.  Until its first call
 * it carries what it would in LIGHT_STARTED, but in the quick phase, which has one
 * function for all calls; light_phase_init() may take another one.  Beside these
 * there is only leap_join() of joins.c, which a join with a record may come to.
 */
static ExecProcNodeMtd wrappers[][LIGHT_ROLES] = {
	[LIGHT_STARTED] = {first_call, first_call, first_call, first_call, first_call, NULL},
	[LIGHT_QUICK] = {quick_call, quick_call, quick_call, quick_call, quick_call, NULL},
	[LIGHT_PROBED] = {probing_call, probing_call, probing_call, probing_call, probing_call, NULL},
	[LIGHT_RECORDED] = {recorded_call, light_count_blocks, light_scan_pages, light_pass_join, gather_call, NULL},
};

StaticAssertDecl(lengthof(wrappers) == LIGHT_FINISHED, "all phases in which nodes are called");

/* A node with a record of any role that has no wrapper of its own. */
static TupleTableSlot *
recorded_call(PlanState *node)
{
	return ((LightRecord *) node->instrument)->books->wrapper(node);
}

/* Is the clock read in every call? */
static inline bool
times_each_call(const LightQuery *query)
{
	return query->books.clock != LIGHT_CLOCK_SAMPLED && query->books.clock != LIGHT_CLOCK_NONE;
}

static ExecProcNodeMtd
wrapper_of(const LightQuery *query, LightPhase phase, LightRole role)
{
	ExecProcNodeMtd wrapper = wrappers[phase][role];

	/* the same in one step, for nodes with records are called often */
	if (wrapper == recorded_call ||
		((wrapper == light_scan_pages || wrapper == light_pass_join) && times_each_call(query)))
		return query->books.wrapper;
	return wrapper;
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
 * Returns whether there are nodes here or below in which ExecShutdownNode() does
 * something.
 */
static bool pg_attribute_hot
wrap_tree(LightQuery *query, PlanState *node)
{
	PlanState  *outer = outerPlanState(node);
	PlanState  *inner = innerPlanState(node);
	int			traits = light_node_traits(node);
	bool		shuts_down = (traits & LIGHT_SHUTS_DOWN) != 0;

	if ((traits & LIGHT_OTHER_CHILDREN) != 0)
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
	if (node->instrument != NULL && node->ExecProcNode == light_core_first && !light_left_to_core(node))
	{
		if (query->phase == LIGHT_QUICK)
			node->ExecProcNode = wrappers[LIGHT_QUICK][LIGHT_NODE];
		else
			node->ExecProcNode = first_call;
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

/*
 * The statement is run for the first time: put a wrapper around its nodes, with or
 * without records.
 *
 * When the executor has returned its rows, it starts and stops the instrumentation
 * of every node once more, around ExecShutdownNode(), which short statements would
 * feel.  It is kept from going down a plan in which that does nothing, subplans
 * included.  light_record() finds out the same.
 */
void		pg_attribute_hot
light_wrap(LightQuery *query)
{
	ListCell   *lc;
	bool		shuts_down;

	Assert(query->phase == LIGHT_STARTED);
	query->phase = query->quick && !query->parallel ? LIGHT_QUICK : LIGHT_PROBED;
	if (unlikely(query->switch_after <= 0) && light_record(query))
	{
		query->whole = true;
		return;
	}
	shuts_down = wrap_tree(query, query->queryDesc->planstate);
	foreach(lc, query->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL)
			shuts_down |= wrap_tree(query, (PlanState *) lfirst(lc));
	}
	query->stays = query->phase == LIGHT_QUICK && !shuts_down;
}

/*
 * Core set the entry function of nodes anew: put ours back.  Looks at the children
 * of a node, or at all nodes below it, which then is not inside a call.
 */
typedef struct RewrapContext
{
	bool		all;
} RewrapContext;

static bool
rewrap(PlanState *node, void *arg)
{
	RewrapContext *context = arg;
	bool		left;

	if (node == NULL)
		return false;
	left = light_left_to_core(node);
	if (node->instrument != NULL && !left &&
		(node->ExecProcNode == light_core_first || (context->all && node->ExecProcNode == light_core_instr)))
		node->ExecProcNode = first_call;
	return (context->all || left) && planstate_tree_walker(node, rewrap, arg);
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
	ExecProcNodeMtd next;

	check_stack_depth();
	if (query != NULL && query->parallel)
		rewrap_below(node, false);
	if (record != NULL)
		next = wrapper_of(query, LIGHT_RECORDED, query->nodes.node[record - query->books.records].role);
	else
		next = wrapper_of(query, LIGHT_PROBED, light_role(node, false));
	/* somebody may have put a function of theirs before ours */
	if (node->ExecProcNode == first_call)
		node->ExecProcNode = next;
	return next(node);
}

/*
 * A node was called often in the innermost statement: may all get records, and did
 * they?  Not if somebody put a function of theirs before ours.
 */
static pg_noinline bool
change_to_records(PlanState *node, LightQuery *query)
{
	return query->estate == node->state && !light_recorded(query) &&
		node->ExecProcNode == wrappers[query->phase][LIGHT_NODE] && light_record(query);
}

/* Calls of a node until now; a cycle of them ends with an empty one. */
static inline double
calls_of(const NodeInstrumentation_compat *instr)
{
	return instr->ntuples + instr->tuplecount + instr->nloops;
}

/*
 * A call in the quick phase that is a node's first one in a cycle, at which core looks
 * at the stack's depth, or may be one too many for that phase.
 */
static pg_noinline TupleTableSlot *pg_attribute_hot
quick_special(PlanState *node)
{
	LightQuery *query = light_chain.current;
	int64		start = 0;

	if (!node->instrument->running)
	{
		check_stack_depth();
		if (query != NULL && query->begun != 0 && node == query->queryDesc->planstate)
		{
			start = query->begun;
			query->begun = 0;
		}
	}
	if (query != NULL && unlikely(++query->calls >= query->switch_after) &&
		calls_of(node->instrument) >= query->switch_after && change_to_records(node, query))
		return node->ExecProcNode(node);

	return light_call_quickly(node, start, false);
}

/* A call in the quick phase. */
static pg_attribute_always_inline TupleTableSlot *
call_in_quick_phase(PlanState *node)
{
	LightQuery *query = light_chain.current;

	if (unlikely(query == NULL || !node->instrument->running || query->calls + 1 >= query->switch_after))
		return quick_special(node);
	query->calls++;
	return light_call_quickly(node, 0, true);
}

static TupleTableSlot *pg_attribute_hot
quick_call(PlanState *node)
{
	return call_in_quick_phase(node);
}

#if LIGHT_HAVE_AVX2
/* The same instructions, but they take counters from memory wherever those are: some ten less. */
LIGHT_FOR_AVX2
static TupleTableSlot *pg_attribute_hot
quick_call_avx2(PlanState *node)
{
	return call_in_quick_phase(node);
}
#endif

/* The library was loaded: take the function that this processor can run. */
void
light_phase_init(bool avx2)
{
#if LIGHT_HAVE_AVX2
	for (int role = 0; avx2 && role < LIGHT_LEFT; role++)
		wrappers[LIGHT_QUICK][role] = quick_call_avx2;
#endif
}

/* A call in the other phase without records: core's ExecProcNodeInstr. */
static TupleTableSlot *
probing_call(PlanState *node)
{
	LightQuery *query = light_chain.current;

	if (query != NULL && unlikely(calls_of(node->instrument) >= query->switch_after) && change_to_records(node, query))
		return node->ExecProcNode(node);

	return light_call_as_core(node, query != NULL && query->timing == LIGHT_TIMING_CORE);
}

/*
 * Gather's first call starts workers, in which core resets entry functions below.
 */
static TupleTableSlot *
gather_call(PlanState *node)
{
	TupleTableSlot *slot = recorded_call(node);

	rewrap_below(node, true);
	if (node->ExecProcNode == gather_call)
		node->ExecProcNode = ((LightRecord *) node->instrument)->books->wrapper;
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

/*
 * The record of the join that calls a node and may be passed, or NULL.  Who calls a
 * subplan is not known.
 */
static LightRecord *
passed_join(LightQuery *query, const LightNode *node)
{
	return node->parent > 0 && !node->subplan && query->nodes.node[node->parent].role == LIGHT_JOIN ?
		&query->books.records[node->parent] : NULL;
}

/* Move a node's instrumentation to its record. */
static void
move_to_record(LightQuery *query, const LightNode *node, LightRecord *record)
{
	PlanState  *planstate = node->planstate;
	NodeInstrumentation_compat *instr = planstate->instrument;

	record->core = *instr;
	light_record_clear(record);
	record->books = &query->books;
	light_sample_start(record, node->role == LIGHT_PAGES || node->role == LIGHT_JOIN);
	record->passed = passed_join(query, node);
	planstate->instrument = &record->core;
	if (node->role != LIGHT_LEFT)
	{
		if (planstate->ExecProcNode == light_core_first)
			planstate->ExecProcNode = first_call;
		else if (planstate->ExecProcNode == wrappers[query->phase][LIGHT_NODE])
			planstate->ExecProcNode = calls_of(instr) > 0 ? wrapper_of(query, LIGHT_RECORDED, node->role) : first_call;
	}

	/* Nothing points to core's struct any more. */
	if (GetMemoryChunkContext(instr) == query->context)
		pfree(instr);
}

static LightClock
choose_clock(const LightQuery *query)
{
	if (!query->timer)
		return LIGHT_CLOCK_NONE;
	switch (query->timing)
	{
		case LIGHT_TIMING_AUTO:
			return LIGHT_CLOCK_SAMPLED;
		case LIGHT_TIMING_EXACT:
			return light_tsc_usable ? LIGHT_CLOCK_TSC : LIGHT_CLOCK_SYSTEM;
		case LIGHT_TIMING_ORDERED:
			return light_tsc_usable ? LIGHT_CLOCK_ORDERED : LIGHT_CLOCK_SYSTEM;
		case LIGHT_TIMING_CORE:
			break;
	}
	return LIGHT_CLOCK_SYSTEM;
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
	bool		shuts_down = false;

	Assert(light_chain.current == query && (query->phase == LIGHT_QUICK || query->phase == LIGHT_PROBED));
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
	books->watched = false;
	books->wrapper = light_wrapper_for(books->clock, books->usage, books->usage_full);
	memset(&books->records[0], 0, sizeof(LightRecord));
	books->records[0].books = books;
	for (int i = 1; i < nodes->n; i++)
	{
		move_to_record(query, &nodes->node[i], &books->records[i]);
		shuts_down |= (light_node_traits(nodes->node[i].planstate) & LIGHT_SHUTS_DOWN) != 0;
	}
	query->stays = query->phase == LIGHT_QUICK && !shuts_down;
	light_progress_publish(query);

	query->phase = LIGHT_RECORDED;
	light_root_enter(books, query->outer_top);
	return true;
}

/*-------------------------------------------------------------------------
 *
 * self.c
 *	  What a node used itself, without the nodes that it calls.
 *
 * Called when the figures of a finished statement are shown or added to a
 * profile.  If all nodes had records from their first call on, as in EXPLAIN
 * ANALYZE, usage and time of what ran in this process come from these.
 *
 * Otherwise there are core's inclusive figures only: workers send no others, and
 * a statement that moved to the light wrappers when it was running already (or
 * never) has none of its first calls, nor of calls that were going on then.  So
 * the part of workers, and that of such a statement, is the difference to the
 * children in the plan tree.  A subplan is no child of the node on which the
 * plan hangs it: it counts where it is evaluated, which subplan_callers() finds.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "executor/execPartition.h"
#include "executor/executor.h"
#include "compat_instrument.h"
#include "light_explain.h"
#include "nodes/nodeFuncs.h"

/* Inclusive figures of a node, in workers or in this process. */
static LightSelf
inclusive(PlanState *node, bool workers)
{
	LightSelf	result = {0};
	int64	   *to = (int64 *) &result.usage;

	if (node->worker_instrument != NULL)
	{
		for (int i = 0; i < node->worker_instrument->num_workers; i++)
		{
			NodeInstrumentation_compat *instr = &node->worker_instrument->instrument[i];

			result.time += InstrTotal_compat(instr);
			for (int k = 0; k < sizeof(BufferUsage) / sizeof(int64); k++)
				to[k] += ((int64 *) InstrBuffers_compat(instr))[k];
			for (int k = 0; k < sizeof(WalUsage) / sizeof(int64); k++)
				to[k + sizeof(BufferUsage) / sizeof(int64)] += ((int64 *) InstrWal_compat(instr))[k];
		}
	}
	if (!workers)
	{
		NodeInstrumentation_compat *instr = node->instrument;

		result.time = InstrTotal_compat(instr) - result.time;
		for (int k = 0; k < sizeof(BufferUsage) / sizeof(int64); k++)
			to[k] = ((int64 *) InstrBuffers_compat(instr))[k] - to[k];
		for (int k = 0; k < sizeof(WalUsage) / sizeof(int64); k++)
		{
			int			n = k + sizeof(BufferUsage) / sizeof(int64);

			to[n] = ((int64 *) InstrWal_compat(instr))[k] - to[n];
		}
	}
	return result;
}

static void
subtract(LightSelf *from, const LightSelf *what)
{
	from->time -= what->time;
	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
		((int64 *) &from->usage)[i] -= ((int64 *) &what->usage)[i];
}

/*
 * Nothing is less than nothing.  The times of I/O are no plain numbers on every
 * version, and are not shown.
 */
static void
clamp(LightSelf *self)
{
	int64	   *words = (int64 *) &self->usage;

	self->time = Max(self->time, 0);
	for (int i = 0; i < LIGHT_LITE_WORDS; i++)
		words[i] = Max(words[i], 0);
	words += sizeof(BufferUsage) / sizeof(int64);
	for (int i = 0; i < sizeof(WalUsage) / sizeof(int64); i++)
		words[i] = Max(words[i], 0);
}

typedef struct ChildContext
{
	LightSelf  *self;
	LightQuery *query;			/* of only_core */
	bool		workers;
	bool		only_core;		/* only nodes that core measures, and their
								 * own part */
	bool		no_subplans;	/* only children in the plan tree */
} ChildContext;

static LightSelf by_difference(LightQuery *query, PlanState *node, bool workers);

static bool
subtract_child(PlanState *child, void *arg)
{
	ChildContext *context = arg;
	LightSelf	what;

	if (child == NULL || child->instrument == NULL)
		return false;
	if (context->no_subplans && list_member_ptr(child->state->es_subplanstates, child))
		return false;
	if (context->only_core)
	{
		if (!light_measured_by_core(child))
			return false;
		what = by_difference(context->query, child, false);
		subtract(context->self, &what);
		/* as the bitmap index scans below a BitmapAnd */
		return planstate_tree_walker(child, subtract_child, arg);
	}
	what = inclusive(child, context->workers);
	subtract(context->self, &what);
	return false;
}

/*
 * A node's figures less those of its children in the plan tree, and of subplans
 * that hang there if "subplans".
 */
static LightSelf
without_children(PlanState *node, bool workers, bool subplans)
{
	LightSelf	self = inclusive(node, workers);
	ChildContext context = {.self = &self,.workers = workers,.no_subplans = !subplans};

	(void) planstate_tree_walker(node, subtract_child, &context);
	clamp(&self);
	return self;
}

/* ---- who evaluates a subplan -------------------------------------------- */

/* A subplan, and what it and they used in this process [0] or in workers [1]. */
typedef struct LightCallers
{
	List	   *nodes;			/* that evaluate it */
	PlanState  *owner;			/* on which the plan hangs it, if that is
								 * another one */
	bool		summed[2];
	LightSelf	subplan[2];
	LightSelf	all[2];			/* the nodes without their children */
} LightCallers;

typedef struct CallersContext
{
	EState	   *estate;
	Bitmapset  *seen;
	LightCallers *callers;
} CallersContext;

typedef struct ParamContext
{
	int			param;
	PlanState  *found;
} ParamContext;

static bool
uses_param(PlanState *node, void *arg)
{
	ParamContext *context = arg;

	if (node == NULL || !bms_is_member(context->param, node->plan->allParam))
		return false;
	context->found = node;
	return true;
}

/* Does a node ask for a parameter that those below it use as well? */
static bool
asks_first(PlanState *node, int param)
{
	PartitionPruneState *prune = NULL;

	switch (nodeTag(node))
	{
			/* for what its workers need */
		case T_GatherState:
			return bms_is_member(param, ((Gather *) node->plan)->initParam);
		case T_GatherMergeState:
			return bms_is_member(param, ((GatherMerge *) node->plan)->initParam);
			/* to know which of its children to run */
		case T_AppendState:
			prune = ((AppendState *) node)->as_prune_state;
			break;
		case T_MergeAppendState:
			prune = ((MergeAppendState *) node)->ms_prune_state;
			break;
		default:
			break;
	}
	return prune != NULL && bms_is_member(param, prune->execparamids);
}

/* Did a node itself use as much as a subplan that it may have evaluated? */
static bool
covers(PlanState *node, const LightSelf *subplan)
{
	LightSelf	own = without_children(node, false, false);

	for (int i = 0; i < LIGHT_LITE_WORDS; i++)
	{
		if (((const int64 *) &own.usage)[i] < ((const int64 *) &subplan->usage)[i])
			return false;
	}
	return true;
}

/*
 * The node that asks for an InitPlan's value first: from the one that has the
 * InitPlan down to where no node below uses its parameter, and up again while
 * that one has used less than the InitPlan: keys of an index scan are evaluated
 * by who starts it anew.
 */
static PlanState *
evaluator(CallersContext *callers, PlanState *node, int param, PlanState *subplan)
{
	ParamContext context = {.param = param};
	LightSelf	what = inclusive(subplan, false);
	List	   *path = list_make1(node);
	ListCell   *lc;
	int			n = 0;

	foreach(lc, callers->estate->es_subplanstates)
	{
		if (lfirst(lc) == node)
			path = list_concat(path, callers->callers[n].nodes);
		n++;
	}

	while (!asks_first(node, param) && planstate_tree_walker(node, uses_param, &context))
	{
		node = context.found;
		path = lcons(node, path);
	}
	foreach(lc, path)
	{
		if (covers(lfirst(lc), &what))
		{
			node = lfirst(lc);
			break;
		}
	}
	list_free(path);
	return node;
}

static void
add_caller(CallersContext *context, int plan_id, PlanState *node)
{
	if (plan_id >= 1 && plan_id <= list_length(context->estate->es_subplanstates))
		context->callers[plan_id - 1].nodes = list_append_unique_ptr(context->callers[plan_id - 1].nodes, node);
}

static bool
find_callers(PlanState *node, void *arg)
{
	CallersContext *context = arg;
	ListCell   *lc;

	if (node == NULL || light_seen_before(node, &context->seen))
		return false;
	if (IsA(node, CteScanState))
		add_caller(context, ((CteScan *) node->plan)->ctePlanId, node);
	foreach(lc, node->subPlan)
		add_caller(context, lfirst_node(SubPlanState, lc)->subplan->plan_id, node);
	foreach(lc, node->initPlan)
	{
		SubPlanState *init = lfirst_node(SubPlanState, lc);
		SubPlan    *subplan = init->subplan;

		if (subplan->plan_id >= 1 && subplan->plan_id <= list_length(context->estate->es_subplanstates))
			context->callers[subplan->plan_id - 1].owner = node;
		if (subplan->subLinkType != CTE_SUBLINK && subplan->setParam != NIL &&
			init->planstate != NULL && init->planstate->instrument != NULL)
			add_caller(context, subplan->plan_id, evaluator(context, node, linitial_int(subplan->setParam), init->planstate));
	}
	return planstate_tree_walker(node, find_callers, arg);
}

/* For each subplan of a statement, the nodes that evaluate it. */
static LightCallers *
subplan_callers(LightQuery *query)
{
	if (query->callers == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(query->context);
		CallersContext context = {.estate = query->estate};

		context.callers = palloc0(list_length(query->estate->es_subplanstates) * sizeof(LightCallers));
		(void) find_callers(query->queryDesc->planstate, &context);
		query->callers = context.callers;
		bms_free(context.seen);
		MemoryContextSwitchTo(old);
	}
	return query->callers;
}

/*
 * Take what a subplan used from one of the nodes that evaluate it.  If there are
 * several, nobody knows which of them how often, and each bears as much of it as
 * its part is of what they used together.  What they did not use, as the blocks
 * of workers of which a Gather in a CTE hears at the end, is the owner's.
 */
static void
subtract_subplan(LightSelf *self, const LightSelf *own, PlanState *node, PlanState *subplan, LightCallers *callers, bool workers)
{
	bool		evaluates = list_member_ptr(callers->nodes, node);
	LightSelf  *all = &callers->all[workers];
	LightSelf  *what = &callers->subplan[workers];
	int64	   *to = (int64 *) &self->usage;

	if (!evaluates && callers->owner != node)
		return;
	if (!callers->summed[workers])
	{
		ListCell   *lc;

		*what = inclusive(subplan, workers);
		foreach(lc, callers->nodes)
		{
			LightSelf	one = without_children(lfirst(lc), workers, false);

			all->time += one.time;
			for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
				((int64 *) &all->usage)[i] += ((int64 *) &one.usage)[i];
		}
		callers->summed[workers] = true;
	}
	if (evaluates && all->time > 0)
		self->time -= Min(what->time, all->time) * own->time / all->time;
	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
	{
		int64		u = ((int64 *) &what->usage)[i];
		int64		a = ((int64 *) &all->usage)[i];

		if (evaluates && a > 0)
			to[i] -= (int64) rint((double) Min(u, a) * ((const int64 *) &own->usage)[i] / a);
		if (callers->owner == node && u > a)
			to[i] -= u - a;
	}
}

/* A node's figures less those of all that it called, from core's inclusive ones. */
static LightSelf
by_difference(LightQuery *query, PlanState *node, bool workers)
{
	LightSelf	self;
	LightSelf	own;
	LightCallers *callers;
	int			n = 0;
	ListCell   *lc;

	self = without_children(node, workers, query == NULL);
	if (query == NULL || query->estate->es_subplanstates == NIL)
		return self;
	own = self;
	callers = subplan_callers(query);
	foreach(lc, query->estate->es_subplanstates)
	{
		PlanState  *subplan = lfirst(lc);

		if (subplan != NULL && subplan->instrument != NULL)
			subtract_subplan(&self, &own, node, subplan, &callers[n], workers);
		n++;
	}
	clamp(&self);
	return self;
}

/* The part of workers (all together), or of this process. */
static LightSelf
self_in_process(LightQuery *query, PlanState *node, bool workers)
{
	LightRecord *record = workers ? NULL : light_record_of(query, node);
	LightSelf	self;
	ChildContext context = {.self = &self,.query = query,.only_core = true};
	int64		callees;

	if (record == NULL || !query->whole || record->left_to_core || record->caller == NULL)
		return by_difference(query, node, workers);

	/*
	 * Nodes that were called from here, wherever they are in the plan, and
	 * the own part of those that core measures.
	 */
	callees = record->total_taken;
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		callees += callee->total - callee->total_moved;
	self = inclusive(node, workers);
	self.time -= callees * query->tick;
	self.usage = record->self;
	BufferUsageNormalize_compat(&self.usage.buffers);
	(void) planstate_tree_walker(node, subtract_child, &context);
	return self;
}

typedef struct VarianceContext
{
	LightQuery *query;
	double		variance;
}			VarianceContext;

static bool
add_variance(PlanState *node, void *arg)
{
	VarianceContext *context = arg;
	LightRecord *record = node == NULL ? NULL : light_record_of(context->query, node);

	if (record != NULL)
		context->variance += light_sample_variance(record);
	return false;
}

/*
 * Time and usage of a node without its children, in all processes together.
 * The node must have been instrumented and the statement finished.
 */
LightSelf
light_self(LightQuery *query, PlanState *planstate)
{
	LightSelf	self = self_in_process(query, planstate, false);
	VarianceContext context = {0};

	if (planstate->worker_instrument != NULL)
	{
		LightSelf	workers = self_in_process(query, planstate, true);
		int64	   *to = (int64 *) &self.usage;

		self.time = Max(self.time, 0) + Max(workers.time, 0);
		for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
			to[i] += ((int64 *) &workers.usage)[i];
	}
	else if (IsA(planstate, GatherState) || IsA(planstate, GatherMergeState))
	{
		/* core books to Gather what the workers used, who booked it already */
		LightSelf	workers = inclusive(outerPlanState(planstate), true);
		int64	   *to = (int64 *) &self.usage;

		for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
			to[i] = Max(to[i] - ((int64 *) &workers.usage)[i], 0);
	}
	self.time = Max(self.time, 0);

	/* the node's own and that of what was taken away, in this process */
	context.query = query;
	(void) add_variance(planstate, &context);
	(void) planstate_tree_walker(planstate, add_variance, &context);
	self.error = query == NULL ? 0 : sqrt(context.variance) * query->tick;
	return self;
}

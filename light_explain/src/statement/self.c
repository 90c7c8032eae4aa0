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
 * a statement whose nodes got records when it was running already (or never) has
 * none of its first calls, nor of calls that were going on then.  So
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
#include "nodes/nodeFuncs.h"
#include "statement/statement.h"

/* The statement whose nodes are looked at. */
typedef struct SelfContext
{
	LightQuery *query;			/* NULL: there are the nodes only */
	EState	   *estate;
	const LightNodes *nodes;
} SelfContext;

/* Seconds of a node and all that it called, in this process. */
static double
inclusive_time(PlanState *node)
{
	double		time = InstrTotal_compat(node->instrument);

	for (int i = 0; node->worker_instrument != NULL && i < node->worker_instrument->num_workers; i++)
		time -= InstrTotal_compat(&node->worker_instrument->instrument[i]);
	return time;
}

/* Inclusive figures of a node, in workers or in this process. */
static LightSelf
inclusive(PlanState *node, bool workers)
{
	LightSelf	result = {0};

	if (!workers)
	{
		result.time = inclusive_time(node);
		result.usage.buffers = *InstrBuffers_compat(node->instrument);
		result.usage.wal = *InstrWal_compat(node->instrument);
	}
	for (int i = 0; node->worker_instrument != NULL && i < node->worker_instrument->num_workers; i++)
	{
		NodeInstrumentation_compat *instr = &node->worker_instrument->instrument[i];
		LightUsage	usage = {0};

		light_usage_add_core(&usage, instr);
		if (workers)
		{
			result.time += InstrTotal_compat(instr);
			light_usage_add(&result.usage, &usage);
		}
		else
			light_usage_subtract(&result.usage, &usage);
	}
	return result;
}

static void
subtract(LightSelf *from, const LightSelf *what)
{
	from->time -= what->time;
	light_usage_subtract(&from->usage, &what->usage);
}

/*
 * Node i's figures less those of its children in the plan tree.  Without a
 * statement nobody knows who evaluates subplans: then less those that hang there,
 * too.
 */
static LightSelf
without_children(const SelfContext *context, int i, bool workers)
{
	const LightNode *nodes = context->nodes->node;
	LightSelf	self = inclusive(nodes[i].planstate, workers);

	for (int k = i + 1; k < context->nodes->n && nodes[k].depth > nodes[i].depth; k++)
	{
		if (nodes[k].parent == i && (context->query == NULL || !nodes[k].subplan) && light_was_called(nodes[k].planstate))
		{
			LightSelf	child = inclusive(nodes[k].planstate, workers);

			subtract(&self, &child);
		}
	}
	self.time = Max(self.time, 0);
	light_usage_clamp(&self.usage);
	return self;
}

/* ---- who evaluates a subplan -------------------------------------------- */

/* A subplan, and what it and they used in this process [0] or in workers [1]. */
typedef struct LightCallers
{
	List	   *nodes;			/* that evaluate it */
	int			owner;			/* on which the plan hangs it, or 0 */
	bool		summed[2];
	LightSelf	subplan[2];
	LightSelf	all[2];			/* the nodes without their children */
} LightCallers;

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

/*
 * The node that asks for an InitPlan's value first: from the one that has the
 * InitPlan down to where no node below uses its parameter, and up again while
 * that one has used less than the InitPlan: keys of an index scan are evaluated
 * by who starts it anew.
 */
static int
evaluator(const SelfContext *context, LightCallers *callers, int i, int param, PlanState *subplan)
{
	ParamContext uses = {.param = param};
	PlanState  *node = context->nodes->node[i].planstate;
	LightSelf	what = inclusive(subplan, false);
	List	   *path = list_make1_int(i);
	ListCell   *lc;

	foreach(lc, context->estate->es_subplanstates)
	{
		if (lfirst(lc) == node)
			path = list_concat(path, callers[foreach_current_index(lc)].nodes);
	}

	while (!asks_first(node, param) && planstate_tree_walker(node, uses_param, &uses))
	{
		int			found = light_node_index(context->nodes, uses.found);

		/* a custom scan may have made it later than the array */
		if (found == 0)
			break;
		node = uses.found;
		i = found;
		path = lcons_int(i, path);
	}
	foreach(lc, path)
	{
		LightSelf	own = without_children(context, lfirst_int(lc), false);

		if (light_usage_covers(&own.usage, &what.usage))
		{
			i = lfirst_int(lc);
			break;
		}
	}
	list_free(path);
	return i;
}

/* For each subplan of a statement, the nodes that evaluate it. */
static LightCallers *
subplan_callers(const SelfContext *context)
{
	int			nsubplans = list_length(context->estate->es_subplanstates);
	MemoryContext old;
	LightCallers *callers;

	if (context->query->callers != NULL)
		return context->query->callers;
	old = MemoryContextSwitchTo(context->query->context);
	callers = palloc0(nsubplans * sizeof(LightCallers));
	for (int i = 1; i < context->nodes->n; i++)
	{
		PlanState  *node = context->nodes->node[i].planstate;
		ListCell   *lc;

#define ADD_CALLER(plan_id, caller) \
		if ((plan_id) >= 1 && (plan_id) <= nsubplans) \
			callers[(plan_id) - 1].nodes = list_append_unique_int(callers[(plan_id) - 1].nodes, caller)

		if (IsA(node, CteScanState))
			ADD_CALLER(((CteScan *) node->plan)->ctePlanId, i);
		foreach(lc, node->subPlan)
			ADD_CALLER(lfirst_node(SubPlanState, lc)->subplan->plan_id, i);
		foreach(lc, node->initPlan)
		{
			SubPlanState *init = lfirst_node(SubPlanState, lc);
			SubPlan    *subplan = init->subplan;

			if (subplan->plan_id >= 1 && subplan->plan_id <= nsubplans)
				callers[subplan->plan_id - 1].owner = i;
			if (subplan->subLinkType != CTE_SUBLINK && subplan->setParam != NIL &&
				init->planstate != NULL && init->planstate->instrument != NULL)
				ADD_CALLER(subplan->plan_id, evaluator(context, callers, i, linitial_int(subplan->setParam), init->planstate));
		}
#undef ADD_CALLER
	}
	MemoryContextSwitchTo(old);
	context->query->callers = callers;
	return callers;
}

/*
 * Take what a subplan used from one of the nodes that evaluate it.  If there are
 * several, nobody knows which of them how often, and each bears as much of it as
 * its part is of what they used together.  What they did not use, as the blocks
 * of workers of which a Gather in a CTE hears at the end, is the owner's.
 */
static void
subtract_subplan(const SelfContext *context, LightSelf *self, const LightSelf *own, int i,
				 PlanState *subplan, LightCallers *callers, bool workers)
{
	bool		evaluates = list_member_int(callers->nodes, i);
	LightSelf  *all = &callers->all[workers];
	LightSelf  *what = &callers->subplan[workers];
	LightWord  *to = (LightWord *) &self->usage;

	if (!evaluates && callers->owner != i)
		return;
	if (!callers->summed[workers])
	{
		ListCell   *lc;

		*what = inclusive(subplan, workers);
		foreach(lc, callers->nodes)
		{
			LightSelf	one = without_children(context, lfirst_int(lc), workers);

			all->time += one.time;
			light_usage_add(&all->usage, &one.usage);
		}
		callers->summed[workers] = true;
	}
	if (evaluates && all->time > 0)
		self->time -= Min(what->time, all->time) * own->time / all->time;
	for (int k = 0; k < LIGHT_USAGE_WORDS; k++)
	{
		int64		u = ((LightWord *) &what->usage)[k];
		int64		a = ((LightWord *) &all->usage)[k];

		if (evaluates && a > 0)
			to[k] -= (int64) rint((double) Min(u, a) * ((const LightWord *) &own->usage)[k] / a);
		if (callers->owner == i && u > a)
			to[k] -= u - a;
	}
}

/* ---- of a node ---------------------------------------------------------- */

/* A node's figures less those of all that it called, from core's inclusive ones. */
static LightSelf
by_difference(const SelfContext *context, int i, bool workers)
{
	LightSelf	self = without_children(context, i, workers);
	LightSelf	own = self;
	LightCallers *callers;
	ListCell   *lc;

	if (context->query == NULL || context->estate->es_subplanstates == NIL)
		return self;
	callers = subplan_callers(context);
	foreach(lc, context->estate->es_subplanstates)
	{
		PlanState  *subplan = lfirst(lc);

		if (subplan != NULL && subplan->instrument != NULL && light_was_called(subplan))
			subtract_subplan(context, &self, &own, i, subplan, &callers[foreach_current_index(lc)], workers);
	}
	self.time = Max(self.time, 0);
	light_usage_clamp(&self.usage);
	return self;
}

/*
 * Take away the own part of children that core measures, and of such children
 * below them, as the bitmap index scans below a BitmapAnd.
 */
static void
subtract_left(const SelfContext *context, LightSelf *self, int i)
{
	const LightNode *nodes = context->nodes->node;

	for (int k = i + 1; k < context->nodes->n && nodes[k].depth > nodes[i].depth; k++)
	{
		if (nodes[k].parent != i || !light_measured_by_others(context->query, k))
			continue;
		if (light_was_called(nodes[k].planstate))
		{
			LightSelf	child = by_difference(context, k, false);

			subtract(self, &child);
		}
		subtract_left(context, self, k);
	}
}

/* The part of workers (all together), or of this process. */
static void
self_in_process(const SelfContext *context, int i, bool workers, LightSelf *self)
{
	PlanState  *node = context->nodes->node[i].planstate;
	LightRecord *record = workers ? NULL : light_record_of(context->query, node);
	int64		callees;

	if (record == NULL || !context->query->whole || light_measured_by_others(context->query, i))
	{
		*self = by_difference(context, i, workers);
		return;
	}

	/*
	 * Nodes that were called from here, wherever they are in the plan, and
	 * the own part of those that core measures.
	 */
	callees = record->total_taken;
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		callees += callee->total - callee->total_moved;
	self->time = inclusive_time(node) - callees * context->query->tick;
	self->usage = record->self;
	BufferUsageNormalize_compat(&self->usage.buffers);
	if (context->query->others)
		subtract_left(context, self, i);
}

/* The standard error of a node's own time: its own and that of what was taken away. */
static double
error_of(const SelfContext *context, int i)
{
	const LightNode *nodes = context->nodes->node;
	double		variance = 0;

	/* the usual short statement: no call was left out */
	if (context->query == NULL || !light_recorded(context->query) || !context->query->books.watched)
		return 0;
	for (int k = i; k < context->nodes->n && (k == i || nodes[k].depth > nodes[i].depth); k++)
	{
		LightRecord *record = k == i || nodes[k].parent == i ? light_record_of(context->query, nodes[k].planstate) : NULL;

		if (record != NULL)
			variance += light_sample_variance(record);
	}
	return sqrt(variance) * context->query->tick;
}

/*
 * Time and usage of a node without its children, in all processes together.
 * The node must have been instrumented and its statement finished; "query" is
 * NULL if we had nothing to do with that.
 */
void
light_self(LightQuery *query, PlanState *planstate, LightSelf *self)
{
	LightNodes	below;
	SelfContext context = {.query = query,.estate = planstate->state};
	LightRecord *record = light_record_of(query, planstate);
	int			i;

	context.nodes = query != NULL ? light_nodes(query) : NULL;
	if (context.nodes == NULL)
		i = 0;
	else if (record != NULL)
		i = record - query->books.records;
	else
		i = light_node_index(context.nodes, planstate);
	if (i == 0)
	{
		context.query = NULL;
		context.nodes = &below;
		if (!light_nodes_below(planstate, false, CurrentMemoryContext, &below))
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
		i = 1;
	}
	Assert(context.nodes->node[i].planstate == planstate);

	self_in_process(&context, i, false, self);
	if (planstate->worker_instrument != NULL)
	{
		LightSelf	workers;

		self_in_process(&context, i, true, &workers);
		self->time = Max(self->time, 0) + Max(workers.time, 0);
		light_usage_add(&self->usage, &workers.usage);
	}
	else if (IsA(planstate, GatherState) || IsA(planstate, GatherMergeState))
	{
		/* core books to Gather what the workers used, who booked it already */
		LightSelf	workers = inclusive(outerPlanState(planstate), true);

		light_usage_subtract(&self->usage, &workers.usage);
		light_usage_clamp(&self->usage);
	}
	self->time = Max(self->time, 0);
	self->error = error_of(&context, i);
	self->added = record == NULL ? 0 : light_sample_added(record) * query->tick;
	if (context.nodes == &below)
		pfree(below.node);
}

/*
 * The estimate of distinct blocks for a node of a finished statement, or -1 if
 * there is none: not asked for, no such node, or a part of it ran in workers.
 */
double
light_distinct_blocks_of(LightQuery *query, PlanState *planstate)
{
	LightRecord *record = query != NULL && query->count_blocks ? light_record_of(query, planstate) : NULL;

	if (record == NULL || !light_counts_blocks(planstate) || record->caller == NULL ||
		(planstate->worker_instrument != NULL && planstate->worker_instrument->num_workers > 0))
		return -1;
	return light_blocks_estimate(record);
}

/*-------------------------------------------------------------------------
 *
 * self.c
 *	  Usage of a node itself, without the nodes that it called.
 *
 * Called when the counters of a finished statement are shown or added to a
 * profile.  All is computed from core's inclusive counters: a node's exclusive part is
 * the difference to the nodes that it called.  These are its children in the
 * plan tree, where a SubPlan belongs to the node whose expression contains it.  The part
 * of workers is computed separately, because a Gather does not count them.
 *
 * An InitPlan (and a CTE) is no child of the node to which it belongs in the plan: it is
 * evaluated by the first node that needs its value, and by several nodes if it is a CTE.  So
 * a statement that has some is tracked from its first call on, and the records contain
 * the usage of InitPlans on behalf of each node (LightRecord.init_plans).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "statement/statement.h"

/* Add or subtract a node's inclusive counters: those of workers, or of this process. */
static void
add_inclusive(LightSelf *to, PlanState *node, bool workers, int sign)
{
	LightUsage	usage = {0};

	if (!workers)
	{
		to->time += sign * InstrTotal_compat(node->instrument);
		light_usage_add_core(&usage, node->instrument);
	}
	for (int i = 0; node->worker_instrument != NULL && i < node->worker_instrument->num_workers; i++)
	{
		NodeInstrumentation_compat *instr = &node->worker_instrument->instrument[i];
		LightUsage	one = {0};

		light_usage_add_core(&one, instr);
		to->time += (workers ? sign : -sign) * InstrTotal_compat(instr);
		if (workers)
			light_usage_add(&usage, &one);
		else
			light_usage_subtract(&usage, &one);
	}
	if (sign > 0)
		light_usage_add(&to->usage, &usage);
	else
		light_usage_subtract(&to->usage, &usage);
}

/*
 * A node that core measures inside its code, such as a bitmap index scan whose
 * key is an InitPlan's value: the InitPlan is charged to the node above that has a
 * wrapper.  The first such node at or below i, or 0.
 */
static int
evaluated_by_core(const LightNodes *nodes, int i)
{
	for (int k = i + 1; k < nodes->n && nodes->node[k].depth > nodes->node[i].depth; k++)
	{
		PlanState  *node = nodes->node[k].planstate;
		int			below;

		if (nodes->node[k].parent != i || !light_measured_by_core(node) || bms_is_empty(node->plan->extParam))
			continue;
		below = evaluated_by_core(nodes, k);
		return below > 0 ? below : k;
	}
	return 0;
}

/* Node i's counters without those of its children; InitPlans do not count as children if the records have them. */
static LightSelf
without_children(const LightNodes *nodes, int i, bool workers, bool tracked)
{
	const LightNode *node = nodes->node;
	LightSelf	self = {0};

	add_inclusive(&self, node[i].planstate, workers, 1);
	for (int k = i + 1; k < nodes->n && node[k].depth > node[i].depth; k++)
	{
		if (node[k].parent == i && !(node[k].init_plan && tracked) && light_was_called(node[k].planstate))
			add_inclusive(&self, node[k].planstate, workers, -1);
	}
	self.time = Max(self.time, 0);
	light_usage_clamp(&self.usage);
	return self;
}

/*
 * Subtract the usage of InitPlans that a node evaluated: of the amount charged to a node
 * above one that core measures, subtract from that one as much as it has.
 */
static void
subtract_init_plans(const LightNodes *nodes, LightQuery *query, int i, LightSelf *self)
{
	int			booked_to = i;
	int			by_core;
	LightSelf	part;

	/* is it one of those? */
	while (booked_to > 0 && light_measured_by_core(nodes->node[booked_to].planstate))
		booked_to = nodes->node[booked_to].parent;
	if (booked_to <= 0 || query->books.records[booked_to].init_plans == NULL)
		return;
	part = *query->books.records[booked_to].init_plans;
	by_core = evaluated_by_core(nodes, booked_to);
	if (booked_to != i && by_core != i)
		return;
	if (by_core > 0)
	{
		LightSelf	all = part;
		LightSelf	has = without_children(nodes, by_core, false, true);

		part.time = Min(all.time, has.time);
		for (int k = 0; k < LIGHT_USAGE_WORDS; k++)
			((LightWord *) &part.usage)[k] = Min(((LightWord *) &all.usage)[k], ((LightWord *) &has.usage)[k]);
		if (booked_to == i)
		{
			self->time -= all.time - part.time;
			light_usage_subtract(&self->usage, &all.usage);
			light_usage_add(&self->usage, &part.usage);
			return;
		}
	}
	self->time -= part.time;
	light_usage_subtract(&self->usage, &part.usage);
}

/* Node i's counters without those of the nodes that it called, in workers or in this process. */
static LightSelf
own_part(const LightNodes *nodes, LightQuery *query, int i, bool workers)
{
	bool		tracked = query != NULL && query->whole;
	LightSelf	self = without_children(nodes, i, workers, tracked);

	if (tracked && !workers)
		subtract_init_plans(nodes, query, i, &self);
	self.time = Max(self.time, 0);
	light_usage_clamp(&self.usage);
	return self;
}

/*
 * The node that begins a Gather again: the join whose inner side it is in, the node whose
 * expression has the subplan, or the one that calls a node that depends on parameters,
 * because ExecProcNode() begins such a node when it is called next.  0 if it is none of the
 * plan's, such as for a cursor that is moved back.
 */
static int
begins_again(const LightNodes *nodes, int gather)
{
	const LightNode *node = nodes->node;

	for (int k = gather; node[k].parent > 0; k = node[k].parent)
	{
		PlanState  *above = node[node[k].parent].planstate;

		if (node[k].subplan || !bms_is_empty(node[k].planstate->plan->extParam) ||
			(IsA(above, NestLoopState) && innerPlanState(above) == node[k].planstate))
			return node[k].parent;
	}
	return 0;
}

/*
 * A Gather that begins again while its workers have rows ends them, and core books what they
 * used to the node that begins it, outside Gather.  So Gather has less than its workers.
 * The rest is subtracted from that node.  If it has less, because the parameter on which Gather
 * depends is an InitPlan's and did not change, a node above began it and has the rest.
 */
static void
subtract_abandoned(const LightNodes *nodes, LightQuery *query, int i, LightSelf *self)
{
	const LightNode *node = nodes->node;

	for (int k = i + 1; k < nodes->n && node[k].depth > node[i].depth; k++)
	{
		PlanState  *gather = node[k].planstate;
		int			above;
		LightSelf	rest = {0};
		LightSelf	has;

		if (!(IsA(gather, GatherState) || IsA(gather, GatherMergeState)) || gather->worker_instrument != NULL || !light_was_called(gather))
			continue;
		above = begins_again(nodes, k);
		if (above < i)
			continue;
		add_inclusive(&rest, outerPlanState(gather), true, 1);
		has = own_part(nodes, query, k, false);
		light_usage_subtract(&rest.usage, &has.usage);
		light_usage_clamp(&rest.usage);
		for (; above != i; above = node[above].parent)
		{
			has = own_part(nodes, query, above, false);
			light_usage_subtract(&rest.usage, &has.usage);
			light_usage_clamp(&rest.usage);
		}
		light_usage_subtract(&self->usage, &rest.usage);
		light_usage_clamp(&self->usage);
	}
}

/*
 * Time and usage of a node without those that it called, in all processes together.
 * The node must have been instrumented and its statement finished; "query" is NULL if
 * we had nothing to do with that.
 */
void
light_self_at(const LightNodes *nodes, LightQuery *query, int i, LightSelf *self)
{
	PlanState  *planstate = nodes->node[i].planstate;

	*self = own_part(nodes, query, i, false);
	/* only the plan of a statement with a Gather says so */
	if (planstate->state->es_plannedstmt->parallelModeNeeded)
		subtract_abandoned(nodes, query, i, self);
	if (planstate->worker_instrument != NULL)
	{
		LightSelf	workers = own_part(nodes, query, i, true);

		self->time += workers.time;
		light_usage_add(&self->usage, &workers.usage);
	}
	else if (IsA(planstate, GatherState) || IsA(planstate, GatherMergeState))
	{
		/* core books to Gather what the workers used, who booked it already */
		LightSelf	workers = {0};

		add_inclusive(&workers, outerPlanState(planstate), true, 1);
		light_usage_subtract(&self->usage, &workers.usage);
		light_usage_clamp(&self->usage);
	}
}

/* The same for one node of which only its state is known. */
void
light_self(LightQuery *query, PlanState *planstate, LightSelf *self)
{
	LightNodes *nodes = query != NULL ? light_nodes(query) : NULL;
	LightNodes	below;
	int			i = nodes != NULL ? light_node_index(nodes, planstate) : 0;

	if (i > 0)
	{
		light_self_at(nodes, query, i, self);
		return;
	}
	if (!light_nodes_below(planstate, CurrentMemoryContext, &below))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	light_self_at(&below, NULL, 1, self);
	pfree(below.node);
}

/*
 * The estimate of distinct blocks for a node of a finished statement, or -1 if
 * there is none: not enabled, no such node, or a part of it ran in workers.
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

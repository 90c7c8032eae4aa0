/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  The nodes of a statement as a flat array, in the order of EXPLAIN.
 *
 * It is made once, when the nodes get records or, in a statement that stays
 * short, when somebody asks what its nodes did.  Records, progress, the figures
 * of the last EXPLAIN ANALYZE and of the profile, and a plan's hash go over it;
 * but a statement of few nodes that got no records needs none for the profile,
 * which takes the same figures in one walk (light_brief_figures()).
 * It has no nodes that were not instrumented, and no subplan that hangs at no
 * node, which nothing evaluates.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "statement/statement.h"
#include "utils/memutils.h"

/* What is a node to us? */
LightRole
light_role(PlanState *node, bool count_blocks)
{
	if (light_left_to_core(node))
		return LIGHT_LEFT;
	switch (nodeTag(node))
	{
		case T_GatherState:
		case T_GatherMergeState:
			return LIGHT_GATHER;
		default:
			if (count_blocks && light_counts_blocks(node))
				return LIGHT_SCAN;
			if (light_scans_pages(node))
				return LIGHT_PAGES;
			return light_passes_join(node) ? LIGHT_JOIN : LIGHT_NODE;
	}
}

/* ---- the array ---------------------------------------------------------- */

typedef struct WalkContext
{
	MemoryContext context;
	bool		count_blocks;
	LightNodes *nodes;
	int			allocated;
	int			parent;
	int			depth;
	Bitmapset  *subplans;		/* met already: expressions may share one */
} WalkContext;

static bool
enlarge(WalkContext *context)
{
	int			allocated = context->allocated == 0 ? 16 : context->allocated * 2;
	LightNode  *node = MemoryContextAllocExtended(context->context, allocated * sizeof(LightNode),
												  MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);

	if (node == NULL)
		return false;
	if (context->nodes->node != NULL)
	{
		memcpy(node, context->nodes->node, context->nodes->n * sizeof(LightNode));
		pfree(context->nodes->node);
	}
	context->nodes->node = node;
	context->allocated = allocated;
	return true;
}

/* The number of a subplan, from 1 on, or 0 for a node that is none. */
static int
subplan_number(PlanState *node)
{
	ListCell   *lc;

	foreach(lc, node->state->es_subplanstates)
	{
		if (lfirst(lc) == node)
			return foreach_current_index(lc) + 1;
	}
	return 0;
}

/* Does a custom scan name a child twice?  One record serves both. */
static bool
is_there(const LightNodes *nodes, int parent, PlanState *node)
{
	if (parent <= 0 || !IsA(nodes->node[parent].planstate, CustomScanState))
		return false;
	for (int i = parent + 1; i < nodes->n; i++)
	{
		if (nodes->node[i].planstate == node)
			return true;
	}
	return false;
}

/* Add a node and all below it; ends early if there is no memory. */
static bool
add_nodes(PlanState *node, void *arg)
{
	WalkContext *context = arg;
	LightNodes *nodes = context->nodes;
	int			parent = context->parent;
	int			subplan;
	bool		failed;

	if (node == NULL)
		return false;
	subplan = subplan_number(node);
	if (subplan > 0)
	{
		if (bms_is_member(subplan, context->subplans))
			return false;
		context->subplans = bms_add_member(context->subplans, subplan);
	}
	if (node->instrument != NULL)
	{
		if (is_there(nodes, parent, node))
			return false;
		if (nodes->n >= context->allocated && !enlarge(context))
			return true;
		context->parent = nodes->n;
		nodes->node[nodes->n++] = (LightNode)
		{
			.planstate = node,.parent = parent,.depth = context->depth,
				.role = light_role(node, context->count_blocks),.subplan = subplan > 0
		};
	}
	context->depth++;
	failed = planstate_tree_walker(node, add_nodes, context);
	context->depth--;
	context->parent = parent;
	return failed;
}

/* The array of a node and those below it; false if there is no memory. */
bool
light_nodes_below(PlanState *top, bool count_blocks, MemoryContext where, LightNodes *nodes)
{
	WalkContext context = {.context = where,.count_blocks = count_blocks,.nodes = nodes};
	bool		failed;

	nodes->node = NULL;
	nodes->n = 0;
	if (!enlarge(&context))
		return false;
	nodes->node[nodes->n++] = (LightNode)
	{
		.parent = -1,.depth = -1
	};
	failed = add_nodes(top, &context);
	bms_free(context.subplans);
	if (failed)
	{
		pfree(nodes->node);
		nodes->node = NULL;
	}
	return !failed;
}

/* The array of a statement, or NULL if there is no memory. */
LightNodes *
light_nodes(LightQuery *query)
{
	if (query->nodes.node == NULL &&
		!light_nodes_below(query->queryDesc->planstate, query->count_blocks, query->context, &query->nodes))
		return NULL;
	return &query->nodes;
}

/* Where a node is in the array; 0 if it is not there. */
int
light_node_index(const LightNodes *nodes, PlanState *planstate)
{
	for (int i = 1; i < nodes->n; i++)
	{
		if (nodes->node[i].planstate == planstate)
			return i;
	}
	return 0;
}

/* ---- figures ------------------------------------------------------------ */

/* What core's figures of a node say. */
static void
take_figure(LightFigure *figure, PlanState *planstate, PlanState *parent, int depth)
{
	NodeInstrumentation_compat *instr = planstate->instrument;

	figure->planstate = planstate;
	figure->id = planstate->plan->plan_node_id;
	figure->parent = parent != NULL ? parent->plan->plan_node_id : -1;
	figure->depth = depth;
	figure->plan_rows = planstate->plan->plan_rows;
	figure->rows = instr->ntuples + instr->tuplecount;
	figure->loops = instr->nloops + (instr->running ? 1 : 0);
	figure->filtered = instr->nfiltered1 + instr->nfiltered2;
	figure->time = InstrTotal_compat(instr);
}

/*
 * A palloc'd array of what the nodes of a statement did, when core's figures are
 * whole.  No catalog is read and no lock taken.
 */
LightFigure *
light_figures(LightQuery *query, int *n)
{
	LightNodes *nodes = light_nodes(query);
	LightFigure *figures;

	*n = nodes == NULL ? 0 : nodes->n - 1;
	figures = palloc(Max(*n, 1) * sizeof(LightFigure));
	for (int i = 0; i < *n; i++)
	{
		const LightNode *node = &nodes->node[i + 1];
		LightFigure *figure = &figures[i];

		take_figure(figure, node->planstate, nodes->node[node->parent].planstate, node->depth);
		if (figure->loops > 0)
			light_self(query, node->planstate, &figure->self);
		else
			memset(&figure->self, 0, sizeof(LightSelf));
	}
	return figures;
}

/* ---- figures of short statements ---------------------------------------- */

typedef struct BriefContext
{
	LightFigure *figures;
	int			n;
	int			parent;			/* -1 at the top */
	int			depth;
	int			parents[LIGHT_BRIEF_NODES];
} BriefContext;

/* As add_nodes(), where there are no subplans; ends early if there are too many. */
static bool pg_attribute_hot
add_brief(PlanState *node, void *arg)
{
	BriefContext *context = arg;
	int			parent = context->parent;
	bool		failed = false;

	if (node == NULL)
		return false;
	if (node->instrument != NULL)
	{
		LightFigure *figure = &context->figures[context->n];

		if (context->n == LIGHT_BRIEF_NODES)
			return true;
		take_figure(figure, node, parent >= 0 ? context->figures[parent].planstate : NULL, context->depth);
		figure->self.time = figure->time;
		figure->self.error = figure->self.added = 0;
		figure->self.usage.buffers = *InstrBuffers_compat(node->instrument);
		figure->self.usage.wal = *InstrWal_compat(node->instrument);
		context->parents[context->n] = parent;
		context->parent = context->n++;
	}
	if (outerPlanState(node) != NULL || innerPlanState(node) != NULL || (light_node_traits(node) & LIGHT_OTHER_CHILDREN) != 0)
	{
		context->depth++;
		failed = planstate_tree_walker(node, add_brief, context);
		context->depth--;
	}
	context->parent = parent;
	return failed;
}

/*
 * What light_figures() tells, for a statement with few nodes that got no records,
 * has no subplans and starts no workers, written to the caller's array of
 * LIGHT_BRIEF_NODES; false for others.
 */
bool		pg_attribute_hot
light_brief_figures(LightQuery *query, LightFigure *figures, int *n)
{
	BriefContext context = {.figures = figures,.parent = -1};

	if (light_recorded(query) || query->parallel || query->estate->es_subplanstates != NIL ||
		add_brief(query->queryDesc->planstate, &context))
		return false;
	*n = context.n;

	/* less what children took; theirs is whole in "time" and in core's struct */
	for (int i = 1; i < context.n; i++)
	{
		LightSelf  *self;

		if (context.parents[i] < 0)
			continue;
		self = &figures[context.parents[i]].self;
		self->time -= figures[i].time;
		light_subtract_words(&self->usage.buffers, InstrBuffers_compat(figures[i].planstate->instrument), LIGHT_BUFFER_WORDS);
		light_subtract_words(&self->usage.wal, InstrWal_compat(figures[i].planstate->instrument), LIGHT_WAL_WORDS);
	}
	for (int i = 0; i < context.n - 1; i++)
	{
		figures[i].self.time = Max(figures[i].self.time, 0);
		light_usage_clamp(&figures[i].self.usage);
	}
	return true;
}

/* What measuring each call added to such figures' own times. */
void
light_brief_added(LightFigure *figures, int n)
{
	double		in_node;
	double		in_caller;

	light_quick_cost(&in_node, &in_caller);
	for (int i = 0; i < n; i++)
	{
		double		calls = figures[i].rows + figures[i].loops;
		int			parent = i - 1;

		/* the server measures it once, however many rows it has */
		if (light_left_to_core(figures[i].planstate))
			continue;
		figures[i].self.added += calls * in_node;
		while (parent >= 0 && figures[parent].id != figures[i].parent)
			parent--;
		if (parent >= 0)
			figures[parent].self.added += calls * in_caller;
	}
	for (int i = 0; i < n; i++)
		figures[i].self.added = Min(figures[i].self.added, figures[i].self.time);
}

/* Write the names of nodes, each "stride" bytes after the one before. */
void
light_figure_names(const LightFigure *figures, int n, LightNodeName *names, Size stride)
{
	LightAliases aliases = {0};

	for (int i = 0; i < n; i++)
		light_aliases_note(&aliases, figures[i].planstate);
	for (int i = 0; i < n; i++)
		light_node_name(figures[i].planstate, &aliases, (LightNodeName *) ((char *) names + i * stride));
}

/* Hash of a plan: names and shape. */
uint64
light_plan_hash(const LightFigure *figures, int n)
{
	uint64		hash = 0;

	for (int i = 0; i < n; i++)
	{
		hash = hash_combine64(hash, (uint64) figures[i].depth + 1);
		hash = light_hash_name(hash, figures[i].planstate);
	}
	return hash;
}

/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  The nodes of a statement as a flat array, in the order of EXPLAIN.
 *
 * It is built once, when the nodes get records or, in a statement that stays
 * short, when its nodes' counters are first requested.  Records, progress, the counters
 * of the last EXPLAIN ANALYZE and of the profile, and a plan's hash are based on it.
 * It does not contain nodes that were not instrumented, nor a subplan that belongs to no
 * node, because that is never evaluated.
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

/* ---- the array ---------------------------------------------------------- */

typedef struct WalkContext
{
	MemoryContext context;
	LightNodes *nodes;
	int			allocated;
	bool		palloced;
	int			parent;
	int			depth;
	Bitmapset  *subplans;		/* found already: expressions may share one */
} WalkContext;

static bool
enlarge(WalkContext *context)
{
	int			allocated = Max(context->allocated * 2, 16);
	LightNode  *node = MemoryContextAllocExtended(context->context, allocated * sizeof(LightNode),
												  MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);

	if (node == NULL)
		return false;
	if (context->nodes->node != NULL)
		memcpy(node, context->nodes->node, context->nodes->n * sizeof(LightNode));
	if (context->palloced)
		pfree(context->nodes->node);
	context->palloced = true;
	context->nodes->node = node;
	context->allocated = allocated;
	return true;
}

/* The number of a subplan, from 1 on, or 0 for another node. */
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

/* Does a subplan hang at its parent as an InitPlan? */
static bool
is_init_plan(const LightNodes *nodes, int parent, PlanState *node)
{
	ListCell   *lc;

	if (parent <= 0)
		return true;
	foreach(lc, nodes->node[parent].planstate->initPlan)
	{
		if (lfirst_node(SubPlanState, lc)->planstate == node)
			return true;
	}
	return false;
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
			.planstate = node,.parent = parent,.depth = context->depth,.subplan = subplan > 0,
				.init_plan = subplan > 0 && is_init_plan(nodes, parent, node)
		};
	}
	context->depth++;
	failed = planstate_tree_walker(node, add_nodes, context);
	context->depth--;
	context->parent = parent;
	return failed;
}

/* Make the array of a node and those below it in the context; false if there is no memory. */
static bool
make_nodes(PlanState *top, WalkContext *context)
{
	LightNodes *nodes = context->nodes;
	bool		failed;

	nodes->n = 0;
	if (nodes->node == NULL && !enlarge(context))
		return false;
	nodes->node[nodes->n++] = (LightNode)
	{
		.parent = -1,.depth = -1
	};
	failed = add_nodes(top, context);
	bms_free(context->subplans);
	if (failed)
	{
		if (context->palloced)
			pfree(nodes->node);
		nodes->node = NULL;
	}
	return !failed;
}

/* The array of a node and those below it; false if there is no memory. */
bool
light_nodes_below(PlanState *top, MemoryContext where, LightNodes *nodes)
{
	WalkContext context = {.context = where,.nodes = nodes};

	nodes->node = NULL;
	return make_nodes(top, &context);
}

/* The array of a statement, or NULL if there is no memory. */
LightNodes *
light_nodes(LightQuery *query)
{
	if (query->nodes.node == NULL && !light_nodes_below(query->queryDesc->planstate, query->context, &query->nodes))
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

/* Core's counters of a node. */
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
 * An array of counters of a statement's nodes, once core's counters are complete: in
 * "few", which has space for LIGHT_FEW_NODES, or palloc'd.  No catalog is read and no
 * lock taken.
 */
LightFigure *pg_attribute_hot
light_figures(LightQuery *query, LightFigure *few, int *n)
{
	/* short statements should not pay for memory */
	LightNode	room[LIGHT_FEW_NODES + 1];
	LightNodes	made = {.node = room};
	const LightNodes *nodes = &query->nodes;
	LightFigure *figures = few;

	if (nodes->node == NULL)
	{
		WalkContext context = {.context = query->context,.nodes = &made,.allocated = lengthof(room)};

		nodes = make_nodes(query->queryDesc->planstate, &context) ? &made : NULL;
	}
	*n = nodes == NULL ? 0 : nodes->n - 1;
	if (*n > LIGHT_FEW_NODES)
		figures = palloc(*n * sizeof(LightFigure));
	for (int i = 0; i < *n; i++)
	{
		const LightNode *node = &nodes->node[i + 1];
		LightFigure *figure = &figures[i];

		take_figure(figure, node->planstate, nodes->node[node->parent].planstate, node->depth);
		if (figure->loops > 0)
			light_self_at(nodes, query, i + 1, &figure->self);
		else
			memset(&figure->self, 0, sizeof(LightSelf));
	}
	return figures;
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

/* Hash of a plan: shape, and names as light_spell_name() writes them. */
uint64
light_plan_hash(const LightFigure *figures, int n)
{
	uint64		hash = 0;

	for (int i = 0; i < n; i++)
	{
		char		name[LIGHT_SPELLING_SIZE];
		Size		size = light_spell_name(figures[i].planstate, name, sizeof(name));

		hash = hash_combine64(hash, (uint64) figures[i].depth + 1);
		hash = hash_combine64(hash, hash_bytes_extended((const unsigned char *) name, size, 0));
	}
	return hash;
}

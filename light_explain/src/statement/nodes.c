/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  The nodes of a statement that has ended, as a flat array in the order of
 *	  the plan: what is kept for light_explain_last() and added to the profile.
 *
 * Called when core's figures are whole.  No catalog is read and no lock taken.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "compat_instrument.h"
#include "light_explain.h"
#include "nodes/nodeFuncs.h"

typedef struct FiguresContext
{
	LightQuery *query;
	LightFigure *figures;
	int			n;
	int			allocated;
	int			depth;
	int			parent;
	Bitmapset  *seen;
} FiguresContext;

static bool
add_figure(PlanState *node, void *arg)
{
	FiguresContext *context = arg;
	NodeInstrumentation_compat *instr;
	int			parent = context->parent;

	if (node == NULL || light_seen_before(node, &context->seen))
		return false;
	instr = node->instrument;
	if (instr != NULL)
	{
		LightFigure *figure;

		if (context->n >= context->allocated)
		{
			context->allocated *= 2;
			context->figures = repalloc(context->figures, context->allocated * sizeof(LightFigure));
		}
		figure = &context->figures[context->n++];
		figure->planstate = node;
		figure->id = node->plan->plan_node_id;
		figure->parent = parent;
		figure->depth = context->depth;
		figure->plan_rows = node->plan->plan_rows;
		figure->rows = instr->ntuples + instr->tuplecount;
		figure->loops = instr->nloops + (instr->running ? 1 : 0);
		figure->filtered = instr->nfiltered1 + instr->nfiltered2;
		figure->time = InstrTotal_compat(instr);
		if (figure->loops > 0)
			figure->self = light_self(context->query, node);
		else
			memset(&figure->self, 0, sizeof(LightSelf));
		context->parent = figure->id;
	}
	context->depth++;
	(void) planstate_tree_walker(node, add_figure, context);
	context->depth--;
	context->parent = parent;
	return false;
}

/* A palloc'd array of the nodes that were measured. */
LightFigure *
light_figures(LightQuery *query, int *n)
{
	FiguresContext context = {.query = query,.parent = -1,.allocated = 16};

	context.figures = palloc(context.allocated * sizeof(LightFigure));
	(void) add_figure(query->queryDesc->planstate, &context);
	bms_free(context.seen);
	*n = context.n;
	return context.figures;
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

/*-------------------------------------------------------------------------
 *
 * explain_hooks.c
 *	  EXPLAIN (LIGHT) on servers that ask extensions what to print of a node:
 *	  since 18.
 *
 * The Makefile uses this file for those; explain_older.c has the same functions for
 * others.  Here the server handles the option, and auto_explain's plans are printed the
 * same way, so most of the functions do nothing.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "commands/explain.h"
#include "compat_executor.h"
#include "show/show.h"

static explain_per_node_hook_type prev_explain_per_node = NULL;
static int	extension_id;

/* The option's value is kept in our slot of the state: NULL if it was not given. */
static void
light_option(ExplainState *es, DefElem *opt, ParseState *pstate)
{
	static const bool values[] = {false, true};

	SetExplainExtensionState(es, extension_id, (void *) &values[defGetBoolean(opt) ? 1 : 0]);
}

/* Is it asked for, by the option or by the setting, which the option overrides? */
static bool
shows_self(ExplainState *es)
{
	const bool *asked = GetExplainExtensionState(es, extension_id);

	return asked != NULL ? *asked : light_show_self;
}

static void
explain_per_node(PlanState *planstate, List *ancestors, const char *relationship,
				 const char *plan_name, ExplainState *es)
{
	LightQuery *query;
	LightShown	shown;
	LightProperty properties[LIGHT_MAX_PROPERTIES];
	int			n;

	if (prev_explain_per_node)
		prev_explain_per_node(planstate, ancestors, relationship, plan_name, es);
	if (!es->analyze || planstate->instrument == NULL || planstate->instrument->nloops <= 0 ||
		!shows_self(es))
		return;
	query = light_query_of(planstate->state);
	shown.loops = planstate->instrument->nloops;
	shown.blocks = light_distinct_blocks_of(query, planstate);
	shown.sampled = light_sampled_text(planstate->plan->plan_node_id);
	light_self(query, planstate, &shown.self);
	n = light_properties(&shown, es->timing, es->buffers, es->wal, properties);
	for (int i = 0; i < n; i++)
	{
		const LightProperty *p = &properties[i];

		if (es->format == EXPLAIN_FORMAT_TEXT && !p->always && p->value == 0)
			continue;
		if (p->string != NULL)
			ExplainPropertyText(p->name, p->string, es);
		else if (p->unit != NULL)
			ExplainPropertyFloat(p->name, p->unit, p->value, 3, es);
		else
			ExplainPropertyInteger(p->name, NULL, (int64) p->value, es);
	}
}

/* Is LIGHT an option of which the server knows nothing?  No. */
bool
light_take_option(PlannedStmt **pstmt)
{
	return false;
}

/* The receiver of EXPLAIN ANALYZE's output: the client's, unchanged. */
DestReceiver *
light_weaving_receiver(ExplainStmt *stmt, DestReceiver *to)
{
	return to;
}

/* A statement has been finished, and may be logged: the server will ask. */
void
light_note_finished(QueryDesc *queryDesc)
{
}

/* A plan is going to be printed, with own figures of its nodes. */
void
light_own_ask(ExplainState *es)
{
	static const bool yes = true;

	SetExplainExtensionState(es, extension_id, (void *) &yes);
}

/* The plan of a finished statement was printed: it has them. */
char *
light_own_add(char *plan, ExplainFormat format, LightQuery *query)
{
	return plan;
}

/* Take our place among the options; called once from light_explain_init(). */
void
light_explain_show_init(void)
{
	extension_id = GetExplainExtensionId("light_explain");
	RegisterExplainOption_compat("light", light_option);
	prev_explain_per_node = explain_per_node_hook;
	explain_per_node_hook = explain_per_node;
}

/*-------------------------------------------------------------------------
 *
 * explain_older.c
 *	  EXPLAIN (LIGHT), and self times in plans that auto_explain logs, on servers before
 *	  18, which ask no extension what to print of a node.
 *
 * The Makefile uses this file, and weave.c, for those; explain_hooks.c has the same
 * functions for others.
 *
 * The option is removed from the statement before core sees it.  EXPLAIN sends its output
 * to our receiver, which keeps it until it is complete, inserts our counters
 * (weave.c) and sends it on.
 *
 * auto_explain's messages pass emit_log_hook.  Core's comment there allows a hook to
 * turn a message off and supports no other change: but the text is a chunk of
 * assoc_context to which there is no other pointer, is printed after the hook
 * returns, and is freed after that, so another chunk may take its place.  The plan is that of the
 * statement whose ExecutorFinish was the last: core's ExecutorEnd, around which
 * auto_explain writes, follows it at once.  The supported way, turning the message off and
 * logging another one, would lose auto_explain.log_level and its context, and clients
 * would be sent another plan than the log has.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "compat_executor.h"
#include "executor/executor.h"
#include "show/show.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* ---- EXPLAIN ------------------------------------------------------------ */

static bool
is_light(const DefElem *option)
{
	return option->defname[0] == 'l' && strcmp(option->defname, "light") == 0;
}

/*
 * Is LIGHT asked for, by the option or by the setting, which the option overrides?
 * The statement is copied without the option, if it is there.
 */
bool
light_take_option(PlannedStmt **pstmt)
{
	ExplainStmt *stmt = (ExplainStmt *) (*pstmt)->utilityStmt;
	bool		asked = light_show_self;
	bool		given = false;
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (is_light(option))
		{
			asked = defGetBoolean(option);
			given = true;
		}
	}
	if (given)
	{
		*pstmt = copyObject(*pstmt);
		stmt = (ExplainStmt *) (*pstmt)->utilityStmt;
		foreach(lc, stmt->options)
		{
			if (is_light(lfirst_node(DefElem, lc)))
				stmt->options = foreach_delete_current(stmt->options, lc);
		}
	}
	return asked;
}

/* EXPLAIN's output on its way to the client. */
typedef struct Weaver
{
	DestReceiver pub;			/* must be first */
	DestReceiver *to;
	TupleDesc	desc;
	ExplainFormat format;
	StringInfoData plan;
} Weaver;

static void
weaver_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	((Weaver *) self)->desc = desc;
}

static bool
weaver_receive(TupleTableSlot *slot, DestReceiver *self)
{
	Weaver	   *weaver = (Weaver *) self;
	bool		isnull;
	char	   *line = TextDatumGetCString(slot_getattr(slot, 1, &isnull));

	appendStringInfoString(&weaver->plan, line);
	if (weaver->format == EXPLAIN_FORMAT_TEXT)
		appendStringInfoChar(&weaver->plan, '\n');
	pfree(line);
	return true;
}

/* All of it is there. */
static void
weaver_shutdown(DestReceiver *self)
{
	Weaver	   *weaver = (Weaver *) self;
	TupOutputState *out = begin_tup_output_tupdesc(weaver->to, weaver->desc, &TTSOpsVirtual);
	LightShown *nodes;
	int			n;
	char	   *woven = NULL;

	nodes = light_last_shown(&n);
	if (nodes != NULL)
		woven = light_weave(weaver->plan.data, weaver->format, nodes, n);
	if (woven == NULL)
		woven = weaver->plan.data;
	if (weaver->format == EXPLAIN_FORMAT_TEXT)
		do_text_output_multiline(out, woven);
	else
		do_text_output_oneline(out, woven);
	end_tup_output(out);
}

static void
weaver_destroy(DestReceiver *self)
{
	pfree(self);
}

static ExplainFormat
format_of(const char *name)
{
	return strcmp(name, "json") == 0 ? EXPLAIN_FORMAT_JSON : strcmp(name, "yaml") == 0 ? EXPLAIN_FORMAT_YAML :
		strcmp(name, "xml") == 0 ? EXPLAIN_FORMAT_XML : EXPLAIN_FORMAT_TEXT;
}

/* A receiver of EXPLAIN ANALYZE's output, which adds our counters. */
DestReceiver *
light_weaving_receiver(ExplainStmt *stmt, DestReceiver *to)
{
	Weaver	   *weaver = palloc0(sizeof(Weaver));
	ListCell   *lc;

	weaver->pub.receiveSlot = weaver_receive;
	weaver->pub.rStartup = weaver_startup;
	weaver->pub.rShutdown = weaver_shutdown;
	weaver->pub.rDestroy = weaver_destroy;
	weaver->pub.mydest = to->mydest;
	weaver->to = to;
	weaver->format = EXPLAIN_FORMAT_TEXT;
	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "format") == 0)
			weaver->format = format_of(defGetString(option));
	}
	initStringInfo(&weaver->plan);
	return &weaver->pub;
}

/* ---- auto_explain ------------------------------------------------------- */

static emit_log_hook_type prev_emit_log = NULL;

/* The statement that was finished last, as long as its memory is there. */
static EState *finished = NULL;
static PlanState *finished_top = NULL;

static void
forget_finished(void *arg)
{
	if (finished == arg)
		finished = NULL;
}

/* A statement has been finished, and may be logged. */
void
light_note_finished(QueryDesc *queryDesc)
{
	MemoryContextCallback *callback;

	if (queryDesc->planstate == NULL || queryDesc->planstate->instrument == NULL)
	{
		finished = NULL;
		return;
	}
	callback = MemoryContextAlloc(queryDesc->estate->es_query_cxt, sizeof(MemoryContextCallback));
	callback->func = forget_finished;
	callback->arg = queryDesc->estate;
	MemoryContextRegisterResetCallback(queryDesc->estate->es_query_cxt, callback);
	finished = queryDesc->estate;
	finished_top = queryDesc->planstate;
}

/* The counters of a finished statement's nodes; "query" is NULL if it is no longer known. */
static LightShown *
finished_nodes(LightQuery *query, PlanState *top, int *n)
{
	LightNodes	below;
	const LightNodes *nodes = query != NULL ? light_nodes(query) : NULL;
	LightShown *shown;

	if (nodes == NULL)
	{
		query = NULL;
		nodes = &below;
		if (!light_nodes_below(top, CurrentMemoryContext, &below))
			return NULL;
	}
	*n = nodes->n - 1;
	shown = palloc(Max(*n, 1) * sizeof(LightShown));
	for (int i = 0; i < *n; i++)
	{
		PlanState  *node = nodes->node[i + 1].planstate;

		shown[i].loops = node->instrument->nloops + (node->instrument->running ? 1 : 0);
		shown[i].blocks = -1;
		shown[i].sampled = light_sampled_text(node->plan->plan_node_id);
		if (shown[i].loops > 0)
			light_self_at(nodes, query, i + 1, &shown[i].self);
	}
	if (light_hides_top(top))
	{
		(*n)--;
		shown++;
	}
	return shown;
}

/* A plan is going to be printed, with own figures of its nodes: they are added when it has been. */
void
light_own_ask(ExplainState *es)
{
}

/* The plan of a finished statement was printed: one with own figures, or the same if that is not possible. */
char *
light_own_add(char *plan, ExplainFormat format, LightQuery *query)
{
	int			n;
	LightShown *nodes = finished_nodes(query, query->queryDesc->planstate, &n);
	char	   *woven = nodes != NULL ? light_weave(plan, format, nodes, n) : NULL;

	return woven != NULL ? woven : plan;
}

/* A message goes to the log: write own figures into auto_explain's. */
static void
emit_log(ErrorData *edata)
{
	if (unlikely(light_show_self) && finished != NULL && edata->message != NULL && edata->filename != NULL && edata->funcname != NULL &&
		strcmp(edata->funcname, "explain_ExecutorEnd") == 0 && strstr(edata->filename, "auto_explain.c") != NULL)
	{
		const char *format = GetConfigOption("auto_explain.log_format", true, false);
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "light_explain log", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(context);
		int			n;
		LightShown *nodes = finished_nodes(light_query_of(finished), finished_top, &n);
		char	   *woven = nodes != NULL ? light_weave(edata->message, format_of(format != NULL ? format : ""), nodes, n) : NULL;

		MemoryContextSwitchTo(old);
		if (woven != NULL)
		{
			char	   *message = MemoryContextStrdup(edata->assoc_context, woven);

			pfree(edata->message);
			edata->message = message;
		}
		MemoryContextDelete(context);
	}
	if (prev_emit_log)
		prev_emit_log(edata);
}

/* Take our place in the log; called once from light_explain_init(). */
void
light_explain_show_init(void)
{
	prev_emit_log = emit_log_hook;
	emit_log_hook = emit_log;
}

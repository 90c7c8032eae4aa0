/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  What EXPLAIN shows beyond core's figures.
 *
 * Since 18 EXPLAIN (ANALYZE, LIGHT) prints the own time and buffers of each
 * node beside the inclusive ones.  Every version keeps the nodes of the
 * session's last EXPLAIN ANALYZE for the function light_explain_last().
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/prepare.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "compat_executor.h"
#include "show/show.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

static ProcessUtility_hook_type prev_ProcessUtility = NULL;

/*
 * Inside an EXPLAIN ANALYZE: the statement that ran it, and the text from which
 * its own statement comes.
 */
bool		light_in_explain = false;
static LightQuery *explain_outer = NULL;
static const char *explain_source = NULL;

/* A node of the last EXPLAIN ANALYZE. */
typedef struct KeptNode
{
	LightNodeName name;
	double		blocks;			/* distinct ones, or -1 */
} KeptNode;

static MemoryContext kept_context = NULL;
static LightFigure *kept_figures = NULL;
static KeptNode *kept = NULL;
static int	nkept = 0;
static Oid	kept_role = InvalidOid; /* that ran it */

/*
 * Is the statement that starts now the one that EXPLAIN ANALYZE explains?
 * Planning may run others: those of functions that it evaluates, which have
 * texts of their own.
 */
bool
light_explaining(QueryDesc *queryDesc)
{
	return light_in_explain && light_chain.current == explain_outer && queryDesc->sourceText == explain_source;
}

/* Does an EXPLAIN run its statement? */
static bool
analyzes(ExplainStmt *stmt)
{
	bool		analyze = false;
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "analyze") == 0)
			analyze = defGetBoolean(option);
	}
	return analyze;
}

/* The text that EXPLAIN's own statement will name as its source. */
static const char *
source_of(ExplainStmt *stmt, const char *queryString)
{
	Node	   *utility = IsA(stmt->query, Query) ? ((Query *) stmt->query)->utilityStmt : NULL;

	if (utility != NULL && IsA(utility, CreateTableAsStmt) && IsA(((CreateTableAsStmt *) utility)->query, Query))
		utility = ((Query *) ((CreateTableAsStmt *) utility)->query)->utilityStmt;
	if (utility != NULL && IsA(utility, ExecuteStmt))
	{
		PreparedStatement *prepared = FetchPreparedStatement(((ExecuteStmt *) utility)->name, false);

		return prepared != NULL ? prepared->plansource->query_string : NULL;
	}
	return queryString;
}

/* Forget the last EXPLAIN ANALYZE. */
static void
forget_last(void)
{
	nkept = 0;
	kept = NULL;
	if (kept_context != NULL)
		MemoryContextReset(kept_context);
}

static void
call_utility(PROCESSUTILITY_PARAMS_compat)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(PROCESSUTILITY_ARGS_compat);
	else
		standard_ProcessUtility(PROCESSUTILITY_ARGS_compat);
}

static void
process_utility(PROCESSUTILITY_PARAMS_compat)
{
	bool		saved = light_in_explain;
	LightQuery *saved_outer = explain_outer;
	const char *saved_source = explain_source;
	Node	   *stmt = pstmt->utilityStmt;

	if (!IsA(stmt, ExplainStmt) || !analyzes((ExplainStmt *) stmt))
	{
		/* a session of a pool that goes to somebody else */
		bool		discard = IsA(stmt, DiscardStmt) && ((DiscardStmt *) stmt)->target == DISCARD_ALL;

		call_utility(PROCESSUTILITY_ARGS_compat);
		if (discard)
			forget_last();
		return;
	}
	PG_TRY();
	{
		light_in_explain = true;
		explain_outer = light_chain.current;
		explain_source = source_of((ExplainStmt *) stmt, queryString);
		call_utility(PROCESSUTILITY_ARGS_compat);
	}
	PG_FINALLY();
	{
		light_in_explain = saved;
		explain_outer = saved_outer;
		explain_source = saved_source;
	}
	PG_END_TRY();
}

/* ---- the session's last EXPLAIN ANALYZE --------------------------------- */

/* Keep the figures of a statement's nodes for light_explain_last(). */
void
light_keep_last(LightQuery *query)
{
	MemoryContext old;
	LightFigure *figures;
	int			n;

	if (kept_context == NULL)
		kept_context = AllocSetContextCreate(TopMemoryContext, "light_explain last statement", ALLOCSET_DEFAULT_SIZES);
	forget_last();
	old = MemoryContextSwitchTo(kept_context);
	figures = light_figures(query, &n);
	kept = palloc(n * sizeof(KeptNode));
	light_figure_names(figures, n, &kept[0].name, sizeof(KeptNode));
	for (int i = 0; i < n; i++)
		kept[i].blocks = light_distinct_blocks_of(query, figures[i].planstate);
	MemoryContextSwitchTo(old);
	kept_figures = figures;
	kept_role = GetUserId();
	nkept = n;
}

PG_FUNCTION_INFO_V1(light_explain_last);

/*
 * light_explain_last(): the nodes of the session's last EXPLAIN ANALYZE, for the
 * role that ran it and for pg_read_all_stats.
 */
Datum
light_explain_last(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (kept_role != GetUserId() && !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
		return (Datum) 0;
	for (int i = 0; i < nkept; i++)
	{
		LightFigure *node = &kept_figures[i];
		BufferUsage *b = &node->self.usage.buffers;
		Datum		values[20];
		bool		nulls[20] = {0};
		int			n = 0;

		values[n++] = Int32GetDatum(node->id);
		nulls[n] = node->parent < 0;
		values[n++] = Int32GetDatum(node->parent);
		values[n++] = Int32GetDatum(node->depth);
		values[n++] = CStringGetTextDatum(light_format_name(&kept[i].name, MyDatabaseId));
		values[n++] = Float8GetDatum(node->rows);
		values[n++] = Float8GetDatum(node->loops);
		values[n++] = Float8GetDatum(node->time * 1000.0);
		values[n++] = Float8GetDatum(node->self.time * 1000.0);
		values[n++] = Int64GetDatum(b->shared_blks_hit);
		values[n++] = Int64GetDatum(b->shared_blks_read);
		values[n++] = Int64GetDatum(b->shared_blks_dirtied);
		values[n++] = Int64GetDatum(b->shared_blks_written);
		values[n++] = Int64GetDatum(b->local_blks_hit + b->local_blks_read);
		values[n++] = Int64GetDatum(b->temp_blks_read);
		values[n++] = Int64GetDatum(b->temp_blks_written);
		values[n++] = Int64GetDatum(node->self.usage.wal.wal_records);
		values[n++] = Int64GetDatum((int64) node->self.usage.wal.wal_bytes);
		nulls[n] = kept[i].blocks < 0;
		values[n++] = Int64GetDatum((int64) kept[i].blocks);
		values[n++] = Float8GetDatum(node->self.error * 1000.0);
		values[n++] = Float8GetDatum(node->self.added * 1000.0);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ---- EXPLAIN (LIGHT) ---------------------------------------------------- */

#if HAVE_EXPLAIN_HOOKS_COMPAT

static explain_per_node_hook_type prev_explain_per_node = NULL;
static int	extension_id;

/* The option's value is kept in the state's slot of ours: NULL if it was not given. */
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
explain_usage(const LightUsage *usage, ExplainState *es)
{
	const BufferUsage *b = &usage->buffers;

	if (es->format != EXPLAIN_FORMAT_TEXT || b->shared_blks_hit != 0)
		ExplainPropertyInteger("Self Shared Hit Blocks", NULL, b->shared_blks_hit, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || b->shared_blks_read != 0)
		ExplainPropertyInteger("Self Shared Read Blocks", NULL, b->shared_blks_read, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || b->shared_blks_dirtied != 0)
		ExplainPropertyInteger("Self Shared Dirtied Blocks", NULL, b->shared_blks_dirtied, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || b->shared_blks_written != 0)
		ExplainPropertyInteger("Self Shared Written Blocks", NULL, b->shared_blks_written, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || b->local_blks_hit + b->local_blks_read != 0)
		ExplainPropertyInteger("Self Local Blocks", NULL, b->local_blks_hit + b->local_blks_read, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || b->temp_blks_read != 0)
		ExplainPropertyInteger("Self Temp Read Blocks", NULL, b->temp_blks_read, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || b->temp_blks_written != 0)
		ExplainPropertyInteger("Self Temp Written Blocks", NULL, b->temp_blks_written, es);
}

static void
explain_per_node(PlanState *planstate, List *ancestors, const char *relationship,
				 const char *plan_name, ExplainState *es)
{
	LightQuery *query;
	LightSelf	self;
	double		blocks;

	if (prev_explain_per_node)
		prev_explain_per_node(planstate, ancestors, relationship, plan_name, es);
	if (!es->analyze || planstate->instrument == NULL || planstate->instrument->nloops <= 0 ||
		!shows_self(es))
		return;
	query = light_query_of(planstate->state);
	self = light_self(query, planstate);
	if (es->timing)
	{
		ExplainPropertyFloat("Self Time", "ms", self.time * 1000.0, 3, es);
		if (es->format != EXPLAIN_FORMAT_TEXT || self.error > 0)
			ExplainPropertyFloat("Self Time Error", "ms", self.error * 1000.0, 3, es);
	}
	if (es->buffers)
		explain_usage(&self.usage, es);
	if (es->wal && (es->format != EXPLAIN_FORMAT_TEXT || self.usage.wal.wal_records != 0))
		ExplainPropertyInteger("Self WAL Records", NULL, self.usage.wal.wal_records, es);
	blocks = light_distinct_blocks_of(query, planstate);
	if (blocks >= 0)
		ExplainPropertyInteger("Distinct Heap Blocks", NULL, (int64) blocks, es);
}

#endif

/* The library is off: say so at the session's first EXPLAIN, if LOAD has not. */
static void
off_process_utility(PROCESSUTILITY_PARAMS_compat)
{
	static bool warned = false;

	if (!warned && IsA(pstmt->utilityStmt, ExplainStmt))
	{
		warned = true;
		light_warn_version();
	}
	call_utility(PROCESSUTILITY_ARGS_compat);
}

/* Take as much of our place as a library that is off needs. */
void
light_explain_init_off(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = off_process_utility;
}

/* Take our place in EXPLAIN; called once from _PG_init. */
void
light_explain_init(void)
{
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
#if HAVE_EXPLAIN_HOOKS_COMPAT
	extension_id = GetExplainExtensionId("light_explain");
	RegisterExplainOption_compat("light", light_option);
	prev_explain_per_node = explain_per_node_hook;
	explain_per_node_hook = explain_per_node;
#endif
}

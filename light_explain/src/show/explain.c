/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  Output of EXPLAIN in addition to core's counters.
 *
 * EXPLAIN (ANALYZE, LIGHT) prints the self time and buffers of each node next to the
 * inclusive ones, in all formats: through the server's hooks in explain_hooks.c, if
 * it has them, otherwise in explain_older.c.  Every version keeps the nodes of the session's last EXPLAIN
 * ANALYZE for the function light_explain_last().
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
#include "compat_executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "show/show.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/memutils.h"

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

/* Statements of few nodes should not pay for memory. */
static LightFigure few_figures[LIGHT_FEW_NODES];
static KeptNode few_kept[LIGHT_FEW_NODES];

static int	nkept = 0;
static Oid	kept_role = InvalidOid; /* that ran it */
static bool kept_hides_top = false;

/* Statements that the innermost EXPLAIN ANALYZE has run: rules can make several. */
static int	explained = 0;

/*
 * Is the statement that starts now the one that EXPLAIN ANALYZE explains?
 * Planning may run others: those of functions that it evaluates, which have
 * other texts.
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

		if (option->defname[0] == 'a' && strcmp(option->defname, "analyze") == 0)
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

/* Run an EXPLAIN ANALYZE. */
static void
explain_analyze(PROCESSUTILITY_PARAMS_compat)
{
	bool		saved = light_in_explain;
	LightQuery *saved_outer = explain_outer;
	const char *saved_source = explain_source;
	int			saved_explained = explained;

	PG_TRY();
	{
		light_in_explain = true;
		explain_outer = light_chain.current;
		explain_source = source_of((ExplainStmt *) pstmt->utilityStmt, queryString);
		explained = 0;
		call_utility(PROCESSUTILITY_ARGS_compat);
	}
	PG_FINALLY();
	{
		light_in_explain = saved;
		explain_outer = saved_outer;
		explain_source = saved_source;
		explained = saved_explained;
	}
	PG_END_TRY();
}

static void
process_utility(PROCESSUTILITY_PARAMS_compat)
{
	bool		analyze = false;
	int			begun = 0;

	if (light_sampled)
		begun = light_activity_begin(LIGHT_UTILITY, pstmt->queryId, GetUserId(), 0);
	if (IsA(pstmt->utilityStmt, ExplainStmt))
	{
		bool		weave = light_take_option(&pstmt);

		analyze = analyzes((ExplainStmt *) pstmt->utilityStmt);
		if (analyze && weave)
			dest = light_weaving_receiver((ExplainStmt *) pstmt->utilityStmt, dest);
	}
	if (analyze)
		explain_analyze(PROCESSUTILITY_ARGS_compat);
	else
	{
		/* a session of a pool that is passed to another client */
		bool		discard = IsA(pstmt->utilityStmt, DiscardStmt) && ((DiscardStmt *) pstmt->utilityStmt)->target == DISCARD_ALL;

		call_utility(PROCESSUTILITY_ARGS_compat);
		if (discard)
			forget_last();
	}
	if (light_sampled)
		light_activity_end(begun);
}

/* ---- the session's last EXPLAIN ANALYZE --------------------------------- */

/* Keep the counters of a statement's nodes for light_explain_last(). */
void
light_keep_last(LightQuery *query)
{
	MemoryContext old;
	LightFigure *figures;
	KeptNode   *nodes = few_kept;
	int			n;

	forget_last();
	if (kept_context == NULL)
		kept_context = AllocSetContextCreate(TopMemoryContext, "light_explain last statement", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(kept_context);
	figures = light_figures(query, few_figures, &n);
	if (n > LIGHT_FEW_NODES)
		nodes = palloc(n * sizeof(KeptNode));
	if (!light_progress_names(query, &nodes[0].name, sizeof(KeptNode)))
		light_figure_names(figures, n, &nodes[0].name, sizeof(KeptNode));
	for (int i = 0; i < n; i++)
		nodes[i].blocks = light_distinct_blocks_of(query, figures[i].planstate);
	MemoryContextSwitchTo(old);
	kept_figures = figures;
	kept = nodes;
	kept_role = query->role;
	kept_hides_top = light_hides_top(query->queryDesc->planstate);
	nkept = n;
	explained++;
}

/* Does EXPLAIN leave out the top node, a Gather for tests of the server? */
bool
light_hides_top(PlanState *top)
{
	return IsA(top, GatherState) && ((Gather *) top->plan)->invisible;
}

/*
 * The nodes that the innermost EXPLAIN ANALYZE prints, palloc'd; NULL if it did not
 * run one statement under our eyes.
 */
LightShown *
light_last_shown(int *n)
{
	int			hidden = kept_hides_top ? 1 : 0;
	LightShown *shown;

	if (explained != 1)
		return NULL;
	*n = nkept - hidden;
	shown = palloc(Max(*n, 1) * sizeof(LightShown));
	for (int i = 0; i < *n; i++)
	{
		shown[i].loops = kept_figures[i + hidden].loops;
		shown[i].blocks = kept[i + hidden].blocks;
		shown[i].sampled = NULL;
		shown[i].self = kept_figures[i + hidden].self;
	}
	return shown;
}

PG_FUNCTION_INFO_V1(light_explain_last);

/*
 * light_explain_last(): the nodes of the session's last EXPLAIN ANALYZE, for the
 * role that ran it and for pg_read_all_stats.
 */
Datum
light_explain_last(PG_FUNCTION_ARGS)
{
	LightRows	rows;

	light_rows_begin(&rows, fcinfo);
	if (kept_role != GetUserId() && !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
		return (Datum) 0;
	for (int i = 0; i < nkept; i++)
	{
		LightFigure *node = &kept_figures[i];
		BufferUsage *b = &node->self.usage.buffers;

		light_row_begin(&rows);
		light_row_add(&rows, Int32GetDatum(node->id));
		light_row_add_if(&rows, node->parent >= 0, Int32GetDatum(node->parent));
		light_row_add(&rows, Int32GetDatum(node->depth));
		light_row_add_name(&rows, &kept[i].name, MyDatabaseId, GetDatabaseEncoding());
		light_row_add(&rows, Float8GetDatum(node->rows));
		light_row_add(&rows, Float8GetDatum(node->loops));
		light_row_add(&rows, Float8GetDatum(node->time * 1000.0));
		light_row_add(&rows, Float8GetDatum(node->self.time * 1000.0));
		light_row_add(&rows, Int64GetDatum(b->shared_blks_hit));
		light_row_add(&rows, Int64GetDatum(b->shared_blks_read));
		light_row_add(&rows, Int64GetDatum(b->shared_blks_dirtied));
		light_row_add(&rows, Int64GetDatum(b->shared_blks_written));
		light_row_add(&rows, Int64GetDatum(b->local_blks_hit + b->local_blks_read));
		light_row_add(&rows, Int64GetDatum(b->temp_blks_read));
		light_row_add(&rows, Int64GetDatum(b->temp_blks_written));
		light_row_add(&rows, Int64GetDatum(node->self.usage.wal.wal_records));
		light_row_add(&rows, Int64GetDatum((int64) node->self.usage.wal.wal_bytes));
		light_row_add_if(&rows, kept[i].blocks >= 0, Int64GetDatum((int64) kept[i].blocks));
		light_row_end(&rows);
	}
	return (Datum) 0;
}

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
	light_explain_show_init();
}

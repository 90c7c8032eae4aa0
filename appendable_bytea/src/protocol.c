/*-------------------------------------------------------------------------
 *
 * protocol.c
 *	  Which statements are a client's own, so that it sees bytea in them.
 *
 * A client does not know the type, so its statements take and give bytea on the
 * wire: Describe, parameters, rows.  Inside the server nothing changes, so what is
 * needed is to tell apart, when a statement has been analysed, the ones whose
 * parameters come from a client and whose rows go to one:
 *
 * - Statements analysed with parameters of types still to be found: the Parse
 *	 message and PREPARE.  Nothing else in the server uses that hook of the parser.
 * - Statements of the simple protocol, and those that Bind analyses again: no
 *	 portal is active, and nothing has pushed an error context but Bind itself.
 *	 Functions that run while a statement is planned, at login or, as deferred
 *	 triggers, at COMMIT, have no active portal either, but SPI and SQL functions
 *	 push their error context.
 * - Statements that EXECUTE analyses again: the active portal and the error context
 *	 are those that EXECUTE started with.
 *
 * The parser's hooks are static functions; they are found by having them installed
 * into an empty ParseState.
 *
 * The library must be loaded when the statement has been analysed.  A table of ours
 * in it has loaded it by then; a view, a function or a partitioned table has not.
 * From 17 on a login event trigger loads it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pg_compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "nodes/params.h"
#include "parser/analyze.h"
#include "parser/parse_node.h"
#include "parser/parse_param.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"

#include "protocol.h"

PG_FUNCTION_INFO_V1(appendable_bytea_login);

int			ab_client_type = AB_CLIENT_BYTEA;

/* What setup_parse_variable_parameters() leaves in a ParseState; private to core. */
typedef struct VariableParameters
{
	Oid		  **types;
	int		   *ntypes;
} VariableParameters;

static post_parse_analyze_hook_type previous_analyze = NULL;
static ProcessUtility_hook_type previous_utility = NULL;

static ParseParamRefHook fixed_parameters = NULL;
static ParseParamRefHook variable_parameters = NULL;

/* EXECUTE is at work, with this active portal and this error context. */
static bool execute_runs = false;
static Portal execute_portal = NULL;
static ErrorContextCallback *execute_context = NULL;

/* Is a statement without parameters to be found a client's own? */
static bool
is_clients(const ParseState *pstate)
{
	const ErrorContextCallback *context = error_context_stack;

	/* somebody else's parameters: PL/pgSQL, SQL functions */
	if (pstate->p_paramref_hook != NULL && pstate->p_paramref_hook != fixed_parameters)
		return false;
	if (execute_runs && ActivePortal == execute_portal && context == execute_context)
		return true;
	return ActivePortal == NULL &&
		(context == NULL ||
		 (context->callback == ParamsErrorCallback && context->previous == NULL));
}

static void
show_bytea(ParseState *pstate, Query *query)
{
	bool		variable = pstate->p_paramref_hook == variable_parameters;
	Oid		   *types = NULL;
	int			ntypes = 0;
	AbCasts		casts;

	if (ab_client_type != AB_CLIENT_BYTEA || whereToSendOutput != DestRemote ||
		!IsTransactionState() || IsAbortedTransactionBlockState())
		return;
	if (variable)
	{
		const VariableParameters *parameters = pstate->p_ref_hook_state;

		types = *parameters->types;
		ntypes = *parameters->ntypes;
	}
	else if (!is_clients(pstate))
		return;
	if (!ab_may_concern(query, types, ntypes) || !ab_find_casts(&casts))
		return;
	ab_parameters_as_bytea(&casts, query, types, ntypes);
	ab_results_as_bytea(&casts, query);
}

static void
analyzed(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (previous_analyze)
		previous_analyze(pstate, query, jstate);
	show_bytea(pstate, query);
}

/* Does a utility statement run a prepared one? */
static bool
runs_prepared(Node *stmt)
{
	Node	   *inner;

	if (stmt == NULL)
		return false;
	if (IsA(stmt, ExecuteStmt))
		return true;
	if (IsA(stmt, ExplainStmt))
		inner = ((ExplainStmt *) stmt)->query;
	else if (IsA(stmt, CreateTableAsStmt))
		inner = ((CreateTableAsStmt *) stmt)->query;
	else
		return false;
	return inner != NULL && IsA(inner, Query) && runs_prepared(((Query *) inner)->utilityStmt);
}

static void
call_utility(PROCESSUTILITY_PARAMS_compat)
{
	if (previous_utility)
		previous_utility(PROCESSUTILITY_ARGS_compat);
	else
		standard_ProcessUtility(PROCESSUTILITY_ARGS_compat);
}

static void
process_utility(PROCESSUTILITY_PARAMS_compat)
{
	bool		saved_runs = execute_runs;
	Portal		saved_portal = execute_portal;
	ErrorContextCallback *saved_context = execute_context;

	if (!runs_prepared(pstmt->utilityStmt))
	{
		call_utility(PROCESSUTILITY_ARGS_compat);
		return;
	}
	PG_TRY();
	{
		execute_runs = true;
		execute_portal = ActivePortal;
		execute_context = error_context_stack;
		call_utility(PROCESSUTILITY_ARGS_compat);
	}
	PG_FINALLY();
	{
		execute_runs = saved_runs;
		execute_portal = saved_portal;
		execute_context = saved_context;
	}
	PG_END_TRY();
}

/* The function of the login event trigger: that it is called has loaded the library. */
Datum
appendable_bytea_login(PG_FUNCTION_ARGS)
{
	PG_RETURN_NULL();
}

/* Called once, from _PG_init. */
void
ab_protocol_install(void)
{
	ParseState *pstate = make_parsestate(NULL);
	Oid		   *types = NULL;
	int			ntypes = 0;

	setup_parse_fixed_parameters(pstate, NULL, 0);
	fixed_parameters = pstate->p_paramref_hook;
	setup_parse_variable_parameters(pstate, &types, &ntypes);
	variable_parameters = pstate->p_paramref_hook;
	free_parsestate(pstate);

	previous_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = analyzed;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

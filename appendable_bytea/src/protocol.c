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
 *	 message and PREPARE.  Nothing else in the server uses that hook of the parser, but
 *	 functions of other extensions do (Citus's EXPLAIN ANALYZE): no portal is active
 *	 with the message, and PREPARE is seen as it begins.
 * - Prepared statements that are analysed again: the plan cache knows them
 *	 (protocol_prepared.c), and what their clients were told.
 * - Statements of the simple protocol: no portal is active, and nothing has pushed an
 *	 error context.  Functions that run while a statement is planned, at login or, as
 *	 deferred triggers, at COMMIT, have no active portal either, but SPI and SQL
 *	 functions push their error context.
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

#include "access/xact.h"
#include "fmgr.h"
#include "parser/analyze.h"
#include "parser/parse_node.h"
#include "parser/parse_param.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/plancache.h"

#include "compat_executor.h"
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

/* Is PREPARE being run? */
static bool preparing = false;

/* Is a statement that nobody prepared one of the simple protocol, to be shown bytea? */
static bool
is_simple(void)
{
	return ab_client_type == AB_CLIENT_BYTEA &&
		ActivePortal == NULL && error_context_stack == NULL;
}

/*
 * EXPLAIN (GENERIC_PLAN) has the parser note parameters in variables of a function
 * that has returned when the hook is called.
 */
static bool
parameters_are_gone(Query *query)
{
	ListCell   *lc;

	if (query->utilityStmt == NULL || !IsA(query->utilityStmt, ExplainStmt))
		return false;
	foreach(lc, ((ExplainStmt *) query->utilityStmt)->options)
	{
		DefElem    *option = lfirst(lc);

		if (strcmp(option->defname, "generic_plan") == 0)
			return true;
	}
	return false;
}

static void
show_bytea(ParseState *pstate, Query *query)
{
	bool		prepares = pstate->p_paramref_hook == variable_parameters;
	CachedPlanSource *source = NULL;
	Oid		   *types = NULL;
	Oid		   *own_types = NULL;
	int			ntypes = 0;
	AbCasts		casts;
	bool		changed;

	if (whereToSendOutput != DestRemote ||
		!IsTransactionState() || IsAbortedTransactionBlockState())
		return;
	if (prepares && (parameters_are_gone(query) || (ActivePortal != NULL && !preparing)))
		return;
	if (prepares)
	{
		const VariableParameters *parameters = pstate->p_ref_hook_state;

		if (ab_client_type != AB_CLIENT_BYTEA)
			return;
		types = *parameters->types;
		ntypes = *parameters->ntypes;
	}
	else if (ab_prepared_parameters(pstate, &source, &types, &ntypes))
		;
	else if (pstate->p_paramref_hook != NULL && pstate->p_paramref_hook != fixed_parameters)
		return;					/* of PL/pgSQL, of SQL functions */

	if (!ab_may_concern(query, types, ntypes) || !ab_find_casts(&casts))
		return;
	if (!prepares && source == NULL)
	{
		source = ab_prepared_source(pstate->p_sourcetext);
		if (source == NULL ? !is_simple() : source->resultDesc == NULL)
			return;
	}
	if (prepares && ntypes > 0)
	{
		own_types = palloc(ntypes * sizeof(Oid));
		memcpy(own_types, types, ntypes * sizeof(Oid));
	}
	changed = ab_parameters_as_plain(&casts, query, types, ntypes);
	if (ab_results_as_plain(&casts, query, source ? source->resultDesc : NULL))
		changed = true;
	if (prepares && changed)
		ab_prepared_begin(query, own_types, ntypes);
}

static void
analyzed(ParseState *pstate, Query *query, JumbleState_compat *jstate)
{
	if (previous_analyze)
		previous_analyze(pstate, query, jstate);
	show_bytea(pstate, query);
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
	if (!IsA(pstmt->utilityStmt, PrepareStmt))
	{
		call_utility(PROCESSUTILITY_ARGS_compat);
		return;
	}
	PG_TRY();
	{
		preparing = true;
		call_utility(PROCESSUTILITY_ARGS_compat);
	}
	PG_FINALLY();
	{
		preparing = false;
		ab_prepared_done();
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

/*-------------------------------------------------------------------------
 *
 * protocol.c
 *	  Which statements give bytea and text instead of the extension's types.
 *
 * A client does not know the types, so its statements take and give bytea on the wire:
 * Describe, parameters, rows.  Neither does C code that runs statements by SPI: it
 * switches on the OIDs of columns, as xml.c and PL/Python do.  PL/pgSQL and SQL functions
 * keep the types, so that a variable holds a reference and not the bytes.  So after a
 * statement has been analyzed we have to know where it came from:
 *
 * - Statements analyzed with parameters whose types are still unknown: the Parse message
 *	 and PREPARE.  No other part of the server uses that hook of the parser, but
 *	 functions of other extensions do (Citus's EXPLAIN ANALYZE): no portal is active
 *	 with the message, and PREPARE is known to run.
 * - Statements of the simple protocol, and prepared ones that Bind or Describe have
 *	 analyzed again: no portal is active, and no error context callback is set, or only
 *	 that of Bind.  Functions that run while a statement is planned, at login or, as
 *	 deferred triggers, at COMMIT, have no active portal either, but SPI and SQL
 *	 functions set their callback.
 * - Prepared statements that EXECUTE has analyzed again: EXECUTE names them.
 * - Statements of SPI: below its callback and not PL/pgSQL's.  A statement that a utility
 *	 command analyzes, as CREATE VIEW does, is below the callback that was set when the
 *	 command began.
 *
 * PL/pgSQL converts what it assigns and returns, except the rows of RETURN QUERY: their
 * types must be those of the function's result.  A function that returns TABLE (body
 * text) from a column would fail when the column becomes appendable_text.  So the columns
 * of such a statement get the declared types.
 *
 * SPI analyzes a statement below its own error context callback, and PL/pgSQL calls SPI
 * below its callback, whose argument is the execution state (plpgsql.h): so the statement
 * that is being executed is known.
 *
 * A prepared statement that is analyzed again, because a table changed, is shown as the
 * settings and the loaded library are then.  If that differs from what its client was
 * told, core raises "cached plan must not change result type".
 *
 * The parser's hooks are static functions; they are found by having them installed
 * into an empty ParseState.
 *
 * The library must be loaded when the statement has been analyzed.  One of our tables
 * in it has loaded it by then; a view, a function or a partitioned table has not.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/prepare.h"
#include "nodes/makefuncs.h"
#include "nodes/params.h"
#include "parser/analyze.h"
#include "parser/parse_param.h"
#include "parser/parse_type.h"
#include "plpgsql.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"

#include "client/client.h"

int			ab_client_type = AB_CLIENT_BYTEA;

/* What setup_parse_variable_parameters() leaves in a ParseState; private to core. */
typedef struct VariableParameters
{
	Oid		  **types;
	int		   *ntypes;
} VariableParameters;

AbUtility	ab_utility;

static post_parse_analyze_hook_type previous_analyze = NULL;

static ParseParamRefHook fixed_parameters = NULL;
static ParseParamRefHook list_parameters = NULL;
static ParseParamRefHook variable_parameters = NULL;

/* Does a client prepare the statement, so that we may change its parameters' types? */
static bool
is_prepared(const ParseState *pstate, const Query *query)
{
	ListCell   *lc;

	if (whereToSendOutput != DestRemote || ab_client_type != AB_CLIENT_BYTEA ||
		(ActivePortal != NULL && !(ab_utility.stmt != NULL && IsA(ab_utility.stmt, PrepareStmt))))
		return false;
	if (query->utilityStmt == NULL || !IsA(query->utilityStmt, ExplainStmt))
		return true;

	/*
	 * EXPLAIN (GENERIC_PLAN) has the parser note parameters in variables of a
	 * function that has returned when the hook is called.
	 */
	foreach(lc, ((ExplainStmt *) query->utilityStmt)->options)
	{
		if (strcmp(((DefElem *) lfirst(lc))->defname, "generic_plan") == 0)
			return false;
	}
	return true;
}

/* Is a callback a function of the server's program (NULL) or of a library of this name? */
static bool
is_function_of(void (*callback) (void *), const char *library)
{
	Dl_info		found;
	Dl_info		server;
	const char *name;

	if (!dladdr((void *) callback, &found) || found.dli_fname == NULL)
		return false;
	if (library == NULL)
		return dladdr((void *) ParamsErrorCallback, &server) && server.dli_fbase == found.dli_fbase;
	name = strrchr(found.dli_fname, '/');
	name = name ? name + 1 : found.dli_fname;
	return strncmp(name, library, strlen(library)) == 0 && name[strlen(library)] == '.';
}

/* The execution state of the PL/pgSQL function that has called SPI to analyze a statement; or NULL. */
static PLpgSQL_execstate *
calling_function(void)
{
	const ErrorContextCallback *spi = error_context_stack;

	if (spi == NULL || spi->previous == NULL || !is_function_of(spi->previous->callback, "plpgsql"))
		return NULL;
	return spi->previous->arg;
}

/*
 * Was a statement without variables of PL/pgSQL given to SPI by C code, and not by
 * PL/pgSQL?  That has such ones only where it executes text.
 */
static bool
is_from_c_code(void)
{
	const PLpgSQL_execstate *estate;

	if (error_context_stack == NULL || !is_function_of(error_context_stack->callback, NULL))
		return false;
	estate = calling_function();
	if (estate == NULL || estate->err_stmt == NULL)
		return estate == NULL;
	switch (estate->err_stmt->cmd_type)
	{
		case PLPGSQL_STMT_DYNEXECUTE:
		case PLPGSQL_STMT_DYNFORS:
		case PLPGSQL_STMT_OPEN:
		case PLPGSQL_STMT_RETURN_QUERY:
			return false;
		default:
			return true;
	}
}

/*
 * The result columns that a RETURN QUERY must have if that is what has been analyzed;
 * NULL if it is something else, or a function whose callers declare its columns.
 * "hooks": the statement's text is PL/pgSQL's, with its variables; otherwise it is one
 * that EXECUTE runs.
 */
static TupleDesc
return_query_columns(const ParseState *pstate, bool hooks)
{
	const PLpgSQL_execstate *estate = calling_function();
	const PLpgSQL_stmt_return_query *stmt;

	if (estate == NULL || estate->err_stmt == NULL || estate->rsi == NULL ||
		estate->err_stmt->cmd_type != PLPGSQL_STMT_RETURN_QUERY ||
		(estate->func->fn_rettype == RECORDOID && estate->func->out_param_varno < 0))
		return NULL;
	stmt = (const PLpgSQL_stmt_return_query *) estate->err_stmt;
	if (hooks ? pstate->p_ref_hook_state != stmt->query : stmt->dynquery == NULL)
		return NULL;
	return estate->rsi->expectedDesc;
}

/*
 * Does a statement whose parameters have known types give bytea?  *shown: only in columns
 * that are bytea there; NULL: in all.
 */
static bool
gives_bytea(const ParseState *pstate, TupleDesc *shown)
{
	bool		hooks = pstate->p_paramref_hook != NULL &&
		pstate->p_paramref_hook != fixed_parameters && pstate->p_paramref_hook != list_parameters;
	const ErrorContextCallback *context = error_context_stack;

	*shown = NULL;
	if (context != NULL && context != ab_utility.context)
	{
		*shown = return_query_columns(pstate, hooks);
		if (*shown != NULL)
			return true;
	}
	if (hooks)
		return false;			/* of PL/pgSQL, of SQL functions */
	if (ab_utility.executed != NULL && pstate->p_sourcetext == ab_utility.executed->query_string)
	{
		*shown = ab_utility.executed->resultDesc;
		return *shown != NULL;
	}
	if (ActivePortal == NULL &&
		(context == NULL || (context->callback == ParamsErrorCallback && context->previous == NULL)))
		return whereToSendOutput == DestRemote && ab_client_type == AB_CLIENT_BYTEA;
	return context != ab_utility.context && is_from_c_code();
}

/* XMLELEMENT and XMLFOREST are in few statements; this keeps all others from being searched. */
static bool
may_have_xml(const char *source)
{
	while (source != NULL && (source = strpbrk(source, "xX")) != NULL)
	{
		if (pg_strncasecmp(source, "xml", 3) == 0)
			return true;
		source++;
	}
	return false;
}

static void
statement_analyzed(ParseState *pstate, Query *query, JumbleState_compat *jstate)
{
	Oid		   *types = NULL;
	int			ntypes = 0;
	bool		prepares = pstate->p_paramref_hook == variable_parameters;
	TupleDesc	shown = NULL;

	if (previous_analyze)
		previous_analyze(pstate, query, jstate);
	if (!IsTransactionState() || IsAbortedTransactionBlockState() || !OidIsValid(ab_am_oid()))
		return;
	if (may_have_xml(pstate->p_sourcetext))
		ab_xml_of_plain(query);
	if (prepares)
	{
		const VariableParameters *parameters = pstate->p_ref_hook_state;

		if (!is_prepared(pstate, query))
			return;
		types = *parameters->types;
		ntypes = *parameters->ntypes;
	}
	if (!ab_may_concern(query, types, ntypes))
		return;
	if (!prepares && !gives_bytea(pstate, &shown))
		return;
	ab_parameters_as_plain(query, types, ntypes);
	ab_results_as_plain(query, shown);
}

/* The prepared statement that a command executes, also EXPLAIN and CREATE TABLE AS; NULL if it executes none. */
static const CachedPlanSource *
executed_statement(const Node *stmt)
{
	const PreparedStatement *prepared;

	if (IsA(stmt, ExplainStmt))
		stmt = ((const ExplainStmt *) stmt)->query;
	else if (IsA(stmt, CreateTableAsStmt))
		stmt = ((const CreateTableAsStmt *) stmt)->query;
	if (IsA(stmt, Query))
		stmt = ((const Query *) stmt)->utilityStmt;
	if (stmt == NULL || !IsA(stmt, ExecuteStmt))
		return NULL;
	prepared = FetchPreparedStatement(((const ExecuteStmt *) stmt)->name, false);
	return prepared ? prepared->plansource : NULL;
}

/* IMPORT FOREIGN SCHEMA creates a foreign table: its columns are of bytea and text, as its server shows them. */
static void
import_as_plain(CreateForeignTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->base.tableElts)
	{
		ColumnDef  *column = lfirst(lc);
		const AbType *type;

		if (!IsA(column, ColumnDef))
			continue;
		type = ab_type_of(LookupTypeNameOid(NULL, column->typeName, true));
		if (type != NULL)
			column->typeName = makeTypeNameFromOid(type->plain, -1);
	}
}

/*
 * A utility command begins: statements that are analyzed from now on know it, until the
 * caller restores ab_utility.
 */
void
ab_protocol_begin(const PlannedStmt *pstmt)
{
	if (IsA(pstmt->utilityStmt, CreateForeignTableStmt) &&
		ab_utility.stmt != NULL && IsA(ab_utility.stmt, ImportForeignSchemaStmt))
		import_as_plain((CreateForeignTableStmt *) pstmt->utilityStmt);
	ab_utility.executed = IsTransactionState() ? executed_statement(pstmt->utilityStmt) : NULL;
	ab_utility.stmt = pstmt->utilityStmt;
	ab_utility.context = error_context_stack;
}

/* Called once, from _PG_init. */
void
ab_protocol_install(void)
{
	ParseState *pstate = make_parsestate(NULL);
	ParamListInfo list = makeParamList(0);
	Oid		   *types = NULL;
	int			ntypes = 0;

	setup_parse_fixed_parameters(pstate, NULL, 0);
	fixed_parameters = pstate->p_paramref_hook;
	setup_parse_variable_parameters(pstate, &types, &ntypes);
	variable_parameters = pstate->p_paramref_hook;
	list->parserSetup(pstate, list->parserSetupArg);
	list_parameters = pstate->p_paramref_hook;
	pfree(list);
	free_parsestate(pstate);

	previous_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = statement_analyzed;
}

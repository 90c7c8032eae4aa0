/*-------------------------------------------------------------------------
 *
 * protocol_plpgsql.c
 *	  RETURN QUERY of PL/pgSQL gives the columns that the function declares.
 *
 * PL/pgSQL converts what it assigns and returns, except the rows of RETURN QUERY: their
 * types must be those of the function's result.  A function that returns TABLE (body
 * text) from a column would fail when the column becomes appendable_text.  So when such
 * a statement has been analyzed, protocol.c casts its columns to the declared types.
 *
 * SPI analyzes a statement below its own error context callback, and PL/pgSQL calls SPI
 * below its callback, whose argument is the execution state (plpgsql.h): so the statement
 * that is being executed is known.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "catalog/pg_type.h"
#include "nodes/params.h"
#include "plpgsql.h"

#include "client/client.h"

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
bool
ab_is_from_c_code(void)
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
TupleDesc
ab_return_query_columns(const ParseState *pstate, bool hooks)
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

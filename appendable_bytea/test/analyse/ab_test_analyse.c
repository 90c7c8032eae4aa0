/*-------------------------------------------------------------------------
 *
 * ab_test_analyse.c
 *	  Functions that do what other extensions do: analyse a statement with parameters
 *	  whose types are still to be found, delete a row below the access method, and read
 *	  a value without a snapshot.
 *
 * ab_test_analyse(statement) returns the types of the statement's columns.  A caller of the
 * parser within a statement takes rows itself; none of them goes to the client.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_func.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(ab_test_analyse);

Datum
ab_test_analyse(PG_FUNCTION_ARGS)
{
	char	   *statement = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Oid		   *types = NULL;
	int			ntypes = 0;
	Query	   *query = parse_analyze_varparams(linitial_node(RawStmt, pg_parse_query(statement)),
												statement, &types, &ntypes, NULL);
	StringInfoData result;
	ListCell   *lc;

	initStringInfo(&result);
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst(lc);

		appendStringInfo(&result, "%s%s", result.len > 0 ? ", " : "",
						 format_type_be(exprType((Node *) tle->expr)));
	}
	for (int i = 0; i < ntypes; i++)
		appendStringInfo(&result, "; $%d %s", i + 1, format_type_be(types[i]));
	PG_RETURN_TEXT_P(cstring_to_text(result.data));
}

PG_FUNCTION_INFO_V1(ab_test_heap_delete);

/* ab_test_heap_delete(regclass, tid): delete a row as pglogical's apply worker does. */
Datum
ab_test_heap_delete(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);

	simple_heap_delete(rel, (ItemPointer) PG_GETARG_POINTER(1));
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(ab_test_read_without_snapshot);

/*
 * ab_test_read_without_snapshot(appendable_bytea): read a value after the end of the
 * transaction in which it was fetched, as a procedure can.
 */
Datum
ab_test_read_without_snapshot(PG_FUNCTION_ARGS)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	Oid			function = LookupFuncName(list_make1(makeString("appendable_md5")), 1, &type, false);

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	OidFunctionCall1(function, PG_GETARG_DATUM(0));
	SPI_finish();
	PG_RETURN_VOID();
}

/*-------------------------------------------------------------------------
 *
 * client.h
 *	  What the files that show bytea and text to clients share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_CLIENT_H
#define APPENDABLE_CLIENT_H

#include "nodes/parsenodes.h"
#include "utils/plancache.h"

#include "compat_executor.h"
#include "type/type.h"

/* ---- protocol_query.c ---------------------------------------------------- */

extern bool ab_may_concern(const Query *query, const Oid *types, int ntypes);
extern void ab_parameters_as_plain(Query *query, Oid *types, int ntypes);
extern void ab_results_as_plain(Query *query, TupleDesc shown);
extern void ab_xml_of_plain(Query *query);

/* ---- protocol.c ---------------------------------------------------------- */

typedef enum AbClientType
{
	AB_CLIENT_BYTEA,
	AB_CLIENT_OWN
} AbClientType;

/* The innermost utility command that runs; all zero if there is none. */
typedef struct AbUtility
{
	const Node *stmt;
	const ErrorContextCallback *context;	/* innermost when it began */
	const CachedPlanSource *executed;	/* by EXECUTE; NULL: another command */
} AbUtility;

extern AbUtility ab_utility;
extern void ab_protocol_begin(const PlannedStmt *pstmt);
extern void ab_protocol_install(void);

#endif							/* APPENDABLE_CLIENT_H */

/*-------------------------------------------------------------------------
 *
 * pool_utility.c
 *	  Make the pool when a statement is about to fill temporary buffers.
 *
 * Before a session's first INSERT, COPY or CREATE TABLE AS into a temporary table
 * the pool is made for nothing: no page has to be copied.  A plain CREATE TABLE
 * does not make it, because that would fix temp_buffers, which the user may still
 * want to set.
 *
 * Also told here: whether a statement is being explained.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "optimizer/cost.h"
#include "parser/parsetree.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"

#include "parallel_temp.h"
#include "plan.h"
#include "pool.h"

static ProcessUtility_hook_type previous_process_utility = NULL;
static int	explain_depth = 0;

bool
explaining(void)
{
	return explain_depth > 0;
}

void
pool_before_filling(Oid relid)
{
	if (pool_descriptor() < 0 && pt_enabled && max_parallel_workers_per_gather > 0 && !IsParallelWorker() &&
		get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		(void) pool_ensure();
}

static void
before_statement(Node *statement)
{
	if (IsA(statement, CreateTableAsStmt))
	{
		RangeVar   *target = ((CreateTableAsStmt *) statement)->into->rel;

		if (target->relpersistence == RELPERSISTENCE_TEMP && pt_enabled && max_parallel_workers_per_gather > 0)
			(void) pool_ensure();
	}
	else if (IsA(statement, CopyStmt) && ((CopyStmt *) statement)->is_from)
	{
		Oid			relid = RangeVarGetRelid(((CopyStmt *) statement)->relation, NoLock, true);

		if (OidIsValid(relid))
			pool_before_filling(relid);
	}
}

static void
utility_next(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, ProcessUtilityContext context,
			 ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	if (previous_process_utility)
		previous_process_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

static void
pool_process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, ProcessUtilityContext context,
					 ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	int			depth = explain_depth;

	if (pool_descriptor() < 0)
		before_statement(pstmt->utilityStmt);
	if (!IsA(pstmt->utilityStmt, ExplainStmt))
	{
		utility_next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		return;
	}
	explain_depth++;
	PG_TRY();
	{
		utility_next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		explain_depth = depth;
	}
	PG_END_TRY();
}

void
pool_utility_install(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = pool_process_utility;
}

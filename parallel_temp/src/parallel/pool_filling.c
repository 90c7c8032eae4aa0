/*-------------------------------------------------------------------------
 *
 * pool_filling.c
 *	  Make the pool when a statement is about to fill temporary buffers.
 *
 * Before a session's first INSERT of a query's rows, COPY or CREATE TABLE AS into a
 * temporary table the pool is made for nothing: no page has to be copied.  A plain
 * CREATE TABLE does not make it, because that would fix temp_buffers, which the user
 * may still want to set.  Rows that come one by one do not make it either: a session
 * of short statements would pay for it, and copying a page later costs little beside
 * filling it so.
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

#include "compat_planner.h"
#include "parallel/pool.h"
#include "parallel_temp.h"

/*
 * A statement is going to put rows into this table.
 */
static void
pool_before_filling(Oid relid)
{
	if (pt_enabled && max_parallel_workers_per_gather > 0 && !IsParallelWorker() &&
		get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		(void) pool_ensure();
}

void		pg_attribute_hot
pool_before_insert(PlannedStmt *plan)
{
	if (pool_descriptor() < 0 && ResultRelationsCount_compat(plan) > 0)
		pool_before_filling(rt_fetch(ResultRelationFirst_compat(plan), plan->rtable)->relid);
}

void		pg_attribute_hot
pool_before_utility(Node *statement)
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

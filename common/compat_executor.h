/*-------------------------------------------------------------------------
 *
 * compat_executor.h
 *	  Differences between PostgreSQL 15 and 19 in running statements: hooks,
 *	  EXPLAIN, index entries of new rows, custom scans.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_EXECUTOR_H
#define COMPAT_EXECUTOR_H

#include "commands/explain.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "nodes/extensible.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

/*
 * The largest size that a tuplestore had, in bytes: is it that of a file?  Recorded since 18.
 */
#if PG_VERSION_NUM >= 180000
static inline bool
TuplestoreStats_compat(Tuplestorestate *store, int64 *bytes)
{
	char	   *type;

	tuplestore_get_stats(store, &type, bytes);
	return strcmp(type, "Disk") == 0;
}
#else
#define TuplestoreStats_compat(store, bytes) ((void) (store), (void) (bytes), false)
#endif

/* Functions that print EXPLAIN's properties moved in 18. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* Parameter lists of hooks, to declare one and to call on. */
#if PG_VERSION_NUM >= 180000
#define EXECUTORRUN_PARAMS_compat QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define EXECUTORRUN_ARGS_compat queryDesc, direction, count
#else
#define EXECUTORRUN_PARAMS_compat QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define EXECUTORRUN_ARGS_compat queryDesc, direction, count, execute_once
#endif
#define PROCESSUTILITY_PARAMS_compat PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, \
	ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, \
	QueryCompletion *qc
#define PROCESSUTILITY_ARGS_compat pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc
#define EXPLAINONEQUERY_PARAMS_compat Query *query, int cursorOptions, IntoClause *into, ExplainState *es, \
	const char *queryString, ParamListInfo params, QueryEnvironment *queryEnv
#define EXPLAINONEQUERY_ARGS_compat query, cursorOptions, into, es, queryString, params, queryEnv

/* Since 19 hooks must not change the jumble state. */
#if PG_VERSION_NUM >= 190000
#define JumbleState_compat const JumbleState
#else
#define JumbleState_compat JumbleState
#endif

/* What EXPLAIN does with one query when no hook is set; exported since 17. */
#if PG_VERSION_NUM >= 170000
#define standard_ExplainOneQuery_compat(...) standard_ExplainOneQuery(__VA_ARGS__)
#else
static inline void
standard_ExplainOneQuery_compat(EXPLAINONEQUERY_PARAMS_compat)
{
	BufferUsage before = pgBufferUsage;
	BufferUsage used = {0};
	instr_time	start;
	instr_time	duration;
	PlannedStmt *plan;

	INSTR_TIME_SET_CURRENT(start);
	plan = pg_plan_query(query, queryString, cursorOptions, params);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	BufferUsageAccumDiff(&used, &pgBufferUsage, &before);
	ExplainOnePlan(plan, into, es, queryString, params, queryEnv, &duration, es->buffers ? &used : NULL);
}
#endif

/*
 * Index entries of a new row, no conflict handling: the list of those to check again.  One
 * more parameter since 16, flags since 19.
 */
#if PG_VERSION_NUM >= 190000
#define ExecInsertIndexTuples_compat(target, slot, estate) \
	ExecInsertIndexTuples(target, estate, 0, slot, NIL, NULL)
#elif PG_VERSION_NUM >= 160000
#define ExecInsertIndexTuples_compat(target, slot, estate) \
	ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL, false)
#else
#define ExecInsertIndexTuples_compat(target, slot, estate) \
	ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL)
#endif

/* The row that RETURNING of an INSERT computes; since 18 it may name the OLD row, which does not exist. */
static inline TupleTableSlot *
ExecInsertReturning_compat(ResultRelInfo *target, TupleTableSlot *slot, TupleTableSlot *plan_slot, EState *estate)
{
	ProjectionInfo *returning = target->ri_projectReturning;
	ExprContext *econtext = returning->pi_exprContext;

	econtext->ecxt_scantuple = slot;
	econtext->ecxt_outertuple = plan_slot;
#if PG_VERSION_NUM >= 180000
	econtext->ecxt_newtuple = slot;
	econtext->ecxt_oldtuple = (returning->pi_state.flags & EEO_FLAG_HAS_OLD) ? ExecGetAllNullSlot(estate, target) : NULL;
	returning->pi_state.flags |= EEO_FLAG_OLD_IS_NULL;
	returning->pi_state.flags &= ~EEO_FLAG_NEW_IS_NULL;
#endif
	return ExecProject(returning);
}

/*
 * The kind of slot that a custom scan returns: named in the state since 16.
 * Before, the executor insists on a virtual one, so slot, projection and filter
 * are made again in the Begin callback.
 */
#if PG_VERSION_NUM >= 160000
#define CustomScanSetSlotOps_compat(node, ops) ((node)->slotOps = (ops))
#define CustomScanRemakeSlot_compat(node, estate, ops) ((void) 0)
#else
#define CustomScanSetSlotOps_compat(node, ops) ((void) 0)
static inline void
CustomScanRemakeSlot_compat(CustomScanState *node, EState *estate, const TupleTableSlotOps *ops)
{
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	ExecInitScanTupleSlot(estate, &node->ss, RelationGetDescr(node->ss.ss_currentRelation), ops);
	ExecAssignScanProjectionInfoWithVarno(&node->ss, plan->scan.scanrelid);
	node->ss.ps.qual = ExecInitQual(plan->scan.plan.qual, (PlanState *) node);
}
#endif

#endif							/* COMPAT_EXECUTOR_H */

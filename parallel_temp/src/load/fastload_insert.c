/*-------------------------------------------------------------------------
 *
 * fastload_insert.c
 *	  INSERT ... SELECT into a temporary table through the bulk writer.
 *
 * pt_load_insert_prepare() checks a started plan.  If its top is an insertion into a
 * temporary heap, a function of this file takes the place of the server's for that one
 * node.  It does with each row what ExecInsert() does: triggers, which foreign keys are
 * too, generated columns, policies, constraints, index entries, transition tables, view
 * checks, RETURNING; only the row itself goes to the bulk writer.  ON CONFLICT and
 * partition routing are left to the server.  Defaults, identity columns and rules are
 * worked into the plan before it gets here.
 *
 * Rows go heap's way until one of them is placed on a new page at the end of the
 * table, and is not one of the first few: free space inside the table is
 * used first, and small insertions never reach the bulk writer.  (A load by workers into a
 * table without a block has begun before: fastload_leader.c.)  Of a table with
 * indexes or triggers every page is filled in local buffers, because a unique check or
 * a trigger may read any row at once.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

#include "compat_executor.h"
#include "compat_planner.h"
#include "compat_table.h"
#include "load/fastload.h"
#include "query.h"

/*
 * The row has its final values, as far as the plan and triggers are concerned: compute
 * the others, and check it.
 */
static void
complete_row(ResultRelInfo *target, TupleTableSlot *slot, EState *estate)
{
	Relation	rel = target->ri_RelationDesc;
	TupleConstr *constr = rel->rd_att->constr;

	slot->tts_tableOid = RelationGetRelid(rel);
	if (constr != NULL && constr->has_generated_stored)
		ExecComputeStoredGenerated(target, estate, slot, CMD_INSERT);
	if (target->ri_WithCheckOptions != NIL)
		ExecWithCheckOptions(WCO_RLS_INSERT_CHECK, target, slot, estate);
	if (constr != NULL)
		ExecConstraints(target, slot, estate);
	if (rel->rd_rel->relispartition)
		ExecPartitionCheck(target, slot, estate, true);
}

/*
 * Store a row.  A cursor may run the statement on after the ExecutorRun that its fill
 * belongs to; its rows are heap's then.
 */
static void
store_row(FastFill *fill, ResultRelInfo *target, TupleTableSlot *slot, EState *estate)
{
	if (fill != NULL && pt_load_is_loading(fill))
	{
		if (slot == target->ri_newTupleSlot)
			pt_load_add_materialized(fill->load, slot);
		else
			pt_load_add(fill->load, slot);
	}
	else
	{
		table_tuple_insert(target->ri_RelationDesc, slot, estate->es_output_cid, 0, NULL);
		if (fill == NULL)
			return;
		fill->rows++;
		pt_load_fill_consider(fill, &slot->tts_tid, estate->es_output_cid);
	}
}

/*
 * The last row is stored.
 */
static void
end_insert(ModifyTableState *state, FastFill *fill)
{
	if (fill != NULL)
	{
		const char *why_not = pt_load_fill_why_not(fill);

		if (fill->load != NULL)
			pt_load_end(fill->load);
		pt_load_remember(fill->load, why_not);
	}
	ExecASInsertTriggers(state->ps.state, state->rootResultRelInfo, state->mt_transition_capture);
	state->mt_done = true;
}

/*
 * Takes the place of the server's function of the ModifyTable node.
 */
static TupleTableSlot *
exec_fast_insert(PlanState *pstate)
{
	ModifyTableState *state = castNode(ModifyTableState, pstate);
	EState	   *estate = pstate->state;
	ResultRelInfo *target = state->resultRelInfo;
	TriggerDesc *triggers = target->ri_TrigDesc;
	Relation	rel = target->ri_RelationDesc;
	FastFill   *fill = NULL;

	CHECK_FOR_INTERRUPTS();

	/* ExecutorFinish calls again if a rule created the statement */
	if (state->mt_done)
		return NULL;
	foreach_fill(fill)
	{
		if (fill->state == state)
			break;
	}
	if (fill != NULL && fill->state != state)
		fill = NULL;
	if (state->fireBSTriggers)
	{
		ExecBSInsertTriggers(estate, state->rootResultRelInfo);
		state->fireBSTriggers = false;
	}
	if (rel->rd_rel->relhasindex && target->ri_IndexRelationDescs == NULL)
		ExecOpenIndices(target, false);

	for (;;)
	{
		TupleTableSlot *plan_slot;
		TupleTableSlot *slot;
		List	   *recheck = NIL;

		ResetPerTupleExprContext(estate);
		if (pstate->ps_ExprContext)
			ResetExprContext(pstate->ps_ExprContext);

		plan_slot = ExecProcNode(outerPlanState(state));
		if (TupIsNull(plan_slot))
			break;

		/*
		 * values that are changed or read again are copied, as the server
		 * does
		 */
		slot = plan_slot;
		if (target->ri_newTupleSlot != NULL)
			slot = ExecCopySlot(target->ri_newTupleSlot, plan_slot);
		if (triggers != NULL && triggers->trig_insert_before_row &&
			!ExecBRInsertTriggers(estate, target, slot))
			continue;
		complete_row(target, slot, estate);
		store_row(fill, target, slot, estate);
		if (target->ri_NumIndices > 0)
			recheck = ExecInsertIndexTuples_compat(target, slot, estate);
		if (state->canSetTag)
			estate->es_processed++;
		if (triggers != NULL || state->mt_transition_capture != NULL)
			ExecARInsertTriggers(estate, target, slot, recheck, state->mt_transition_capture);
		list_free(recheck);
		if (target->ri_WithCheckOptions != NIL)
			ExecWithCheckOptions(WCO_VIEW_CHECK, target, slot, estate);
		if (target->ri_projectReturning != NULL)
			return ExecInsertReturning_compat(target, slot, plan_slot, estate);
	}
	end_insert(state, fill);
	return NULL;
}

/*
 * Says why the bulk writer must not get rows of this plan; NULL if it may.
 */
static const char *
unfit_plan(QueryDesc *queryDesc)
{
	ModifyTableState *state = (ModifyTableState *) queryDesc->planstate;
	ModifyTable *plan = (ModifyTable *) state->ps.plan;
	ResultRelInfo *target = state->resultRelInfo;
	Relation	rel = target->ri_RelationDesc;
	const char *why_not;
	ListCell   *lc;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return "the rows go to partitions";
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return "not a table";
	why_not = pt_load_unfit(rel);
	if (why_not != NULL)
		return why_not;
	if (ResultRelationsCount_compat(queryDesc->plannedstmt) != 1)
		return "the statement writes other tables too";
	if (plan->onConflictAction != ONCONFLICT_NONE)
		return "ON CONFLICT";
	foreach(lc, outerPlan(plan)->targetlist)
	{
		if (lfirst_node(TargetEntry, lc)->resjunk)
			return "the plan's rows have other columns";
	}
	return NULL;
}

/*
 * Says why the executor has to see each row; NULL if it need not.
 */
static const char *
work_per_row(ModifyTableState *state)
{
	ModifyTable *plan = (ModifyTable *) state->ps.plan;
	ResultRelInfo *target = state->resultRelInfo;
	Relation	rel = target->ri_RelationDesc;

	if (plan->returningLists != NIL)
		return "RETURNING";
	if (rel->trigdesc != NULL || state->mt_transition_capture != NULL)
		return "the table has triggers";
	if (rel->rd_rel->relispartition)
		return "the table is a partition";
	if (target->ri_WithCheckOptions != NIL)
		return "row security or WITH CHECK OPTION";
	if (rel->rd_att->constr != NULL && HasGeneratedColumns_compat(rel->rd_att->constr))
		return "the table has generated columns";
	return NULL;
}

/*
 * A slot for rows that are changed after the plan has computed them, or that expressions
 * read: where the server has one as well.
 */
static void
make_slot(ResultRelInfo *target, EState *estate)
{
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	Assert(!target->ri_projectNewInfoValid);
	target->ri_newTupleSlot = table_slot_create(target->ri_RelationDesc, &estate->es_tupleTable);
	MemoryContextSwitchTo(old);
}

int
pt_load_count_entries(List *rtable, Oid relid)
{
	int			times = 0;
	ListCell   *lc;

	foreach(lc, rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relid == relid)
			times++;
	}
	return times;
}

/*
 * If the statement is an insertion that the bulk writer can do, take it over, with a
 * fill; it will run in the ExecutorRun that follows.  Returns NULL then, and for a
 * statement that is no insertion into a temporary table, otherwise a reason.
 */
const char *pg_attribute_hot
pt_load_insert_prepare(PtQuery *query)
{
	QueryDesc  *queryDesc = query->queryDesc;
	ModifyTableState *state = (ModifyTableState *) queryDesc->planstate;
	ResultRelInfo *target;
	Relation	rel;
	FastFill   *fill;
	const char *why_not;

	if (queryDesc->operation != CMD_INSERT || !IsA(state, ModifyTableState) ||
		state->operation != CMD_INSERT || state->mt_nrels != 1 || state->mt_done)
		return NULL;
	target = state->resultRelInfo;
	rel = target->ri_RelationDesc;
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		return NULL;
	/* one row of VALUES has nothing to gain */
	if (IsA(outerPlanState(state), ResultState) && outerPlanState(outerPlanState(state)) == NULL)
		return NULL;

	why_not = unfit_plan(queryDesc);
	if (why_not != NULL)
		return why_not;

	fill = pt_load_fill_begin(query, rel, queryDesc->estate->es_query_cxt);
	fill->state = state;

	/*
	 * If the statement also reads the target, a scan may return to the
	 * beginning after rows were added, and must not return frozen ones.
	 */
	fill->scanned = pt_load_count_entries(queryDesc->plannedstmt->rtable, RelationGetRelid(rel)) > 1;
	fill->in_buffers = rel->rd_rel->relhasindex || rel->trigdesc != NULL;
	fill->may_freeze = !fill->scanned && rel->trigdesc == NULL &&
		CreatedInSubTransaction_compat(rel, GetCurrentSubTransactionId());
	fill->row_by_row = work_per_row(state);
	if (fill->row_by_row != NULL && target->ri_newTupleSlot == NULL)
		make_slot(target, queryDesc->estate);

	/*
	 * Instrumentation, of this or another library, calls through
	 * ExecProcNodeReal; nothing has run yet.
	 */
	if (state->ps.ExecProcNode == state->ps.ExecProcNodeReal)
		state->ps.ExecProcNode = exec_fast_insert;
	state->ps.ExecProcNodeReal = exec_fast_insert;
	return NULL;
}

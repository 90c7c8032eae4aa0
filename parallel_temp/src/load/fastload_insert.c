/*-------------------------------------------------------------------------
 *
 * fastload_insert.c
 *	  INSERT ... SELECT into a temporary table through the bulk writer.
 *
 * fastload_insert_prepare() looks at a started plan.  When its top is a plain
 * insertion into a temporary heap, with nothing that has to happen per row beyond
 * index entries, NOT NULL and CHECK constraints, it takes the place of the server's
 * function for that one node.  With more to do per row (triggers, which foreign keys
 * are too, transition tables, RETURNING, row security and view checks, generated
 * columns) the server's function stays, and hands ready rows to the bulk writer
 * (fastload_am.c).  ON CONFLICT and partition routing are the server's alone.
 * Defaults, identity columns and rules are worked into the plan before it gets here.
 *
 * Rows go the server's own way until one of them comes to lie on a new page at the
 * end of the table, and is not one of the first few: free space inside the table is
 * used first, and small insertions never meet the bulk writer.  (A load by workers into a
 * table without a block has begun before: fastload_gather.c.)  Of a table with
 * indexes every page is filled in local buffers, because a unique check may look at
 * any row at once.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

#include "compat_executor.h"
#include "compat_planner.h"
#include "compat_table.h"
#include "load/fastload.h"
#include "query.h"

/*
 * Takes the place of the server's function of the ModifyTable node.
 */
static TupleTableSlot *
exec_fast_insert(PlanState *pstate)
{
	ModifyTableState *state = castNode(ModifyTableState, pstate);
	EState	   *estate = pstate->state;
	ResultRelInfo *target = state->resultRelInfo;
	Relation	rel = target->ri_RelationDesc;
	PlanState  *source = outerPlanState(state);
	FastFill   *fill = NULL;
	const char *why_not;

	CHECK_FOR_INTERRUPTS();

	/* ExecutorFinish calls once more when a rule made the statement */
	if (state->mt_done)
		return NULL;
	foreach_fill(fill)
	{
		if (fill->state == state)
			break;
	}
	if (fill == NULL || fill->state != state)
		elog(ERROR, "fast load state of the insertion is lost");
	Assert(fill->rel == rel && !fill->overrides);
	if (rel->rd_rel->relhasindex && target->ri_IndexRelationDescs == NULL)
		ExecOpenIndices(target, false);
	fill->in_buffers = target->ri_NumIndices > 0;

	for (;;)
	{
		TupleTableSlot *slot;

		ResetPerTupleExprContext(estate);
		if (pstate->ps_ExprContext)
			ResetExprContext(pstate->ps_ExprContext);

		slot = ExecProcNode(source);
		if (TupIsNull(slot))
			break;

		slot->tts_tableOid = RelationGetRelid(rel);
		if (rel->rd_att->constr)
			ExecConstraints(target, slot, estate);

		if (fastload_is_loading(fill))
			fastload_add(fill->load, slot);
		else
		{
			table_tuple_insert(rel, slot, estate->es_output_cid, 0, NULL);
			fill->rows++;
			fastload_fill_consider(fill, &slot->tts_tid, estate->es_output_cid);
		}

		/*
		 * Nothing comes back to be checked again: a deferrable constraint has
		 * a trigger, and such tables are the server's.
		 */
		if (target->ri_NumIndices > 0)
			ExecInsertIndexTuples_compat(target, slot, estate);
		if (state->canSetTag)
			estate->es_processed++;
	}

	why_not = fastload_fill_why_not(fill, !fill->scanned && fastload_held_open(rel, fill->own_references));
	if (fill->load != NULL)
		fastload_end(fill->load);
	fastload_remember(fill->load, NULL, why_not);
	state->mt_done = true;
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

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return "the rows go to partitions";
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return "not a table";
	why_not = fastload_unfit(rel);
	if (why_not != NULL)
		return why_not;
	if (ResultRelationsCount_compat(queryDesc->plannedstmt) != 1)
		return "the statement writes other tables too";
	if (plan->onConflictAction != ONCONFLICT_NONE)
		return "ON CONFLICT";
	return NULL;
}

/*
 * Says why the plan's top node has to stay with the server, which makes the rows
 * ready; NULL if it need not.
 */
static const char *
work_per_row(ModifyTableState *state)
{
	ModifyTable *plan = (ModifyTable *) state->ps.plan;
	ResultRelInfo *target = state->resultRelInfo;
	Relation	rel = target->ri_RelationDesc;

	if (plan->returningLists != NIL)
		return "RETURNING";
	if (rel->trigdesc != NULL)
		return "the table has triggers";
	if (rel->rd_rel->relispartition)
		return "the table is a partition";
	if (plan->withCheckOptionLists != NIL || target->ri_WithCheckOptions != NIL)
		return "row security or WITH CHECK OPTION";
	if (rel->rd_att->constr != NULL && HasGeneratedColumns_compat(rel->rd_att->constr))
		return "the table has generated columns";
	if (target->ri_projectNew != NULL || state->mt_transition_capture != NULL)
		return "the rows need work per row";
	return NULL;
}

/*
 * Is the target named anywhere else in the statement?  Then a scan of it may come
 * back to the beginning after rows were added, and must not take frozen ones for
 * its own.
 */
static bool
reads_target(PlannedStmt *plan, Oid relid)
{
	int			times = 0;
	ListCell   *cell;

	foreach(cell, plan->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);

		if (rte->rtekind == RTE_RELATION && rte->relid == relid)
			times++;
	}
	return times > 1;
}

/*
 * If the statement is an insertion that the bulk writer can do, take it over; it
 * will run in the ExecutorRun that follows.  If the server has to make each row
 * ready, let them come by the table's access method.  Both have a fill then.  Returns
 * NULL for a statement taken over and for one that is no insertion into a temporary
 * table, else a reason.
 */
const char *pg_attribute_hot
fastload_insert_prepare(PtQuery *query)
{
	QueryDesc  *queryDesc = query->queryDesc;
	ModifyTableState *state = (ModifyTableState *) queryDesc->planstate;
	ResultRelInfo *target;
	Relation	rel;
	FastFill   *fill;
	const char *why_not;
	bool		scanned;
	bool		may_freeze;

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

	scanned = reads_target(queryDesc->plannedstmt, RelationGetRelid(rel));
	may_freeze = CreatedInSubTransaction_compat(rel, GetCurrentSubTransactionId()) && !scanned;
	why_not = work_per_row(state);
	fill = fastload_fill_begin(query, rel, queryDesc->estate->es_query_cxt);
	fill->scanned = scanned;
	fill->own_references = 1;
	if (why_not != NULL)
	{
		if (may_freeze && rel->trigdesc == NULL)
			fill->may_freeze = fastload_may_freeze;
		fill->in_buffers = rel->rd_rel->relhasindex || rel->trigdesc != NULL;
		fastload_override_begin(fill);
		return why_not;
	}
	if (may_freeze)
		fill->may_freeze = fastload_may_freeze;
	fill->state = state;

	/*
	 * Instrumentation, ours or somebody else's, calls through
	 * ExecProcNodeReal; nothing has run yet.
	 */
	if (state->ps.ExecProcNode == state->ps.ExecProcNodeReal)
		state->ps.ExecProcNode = exec_fast_insert;
	state->ps.ExecProcNodeReal = exec_fast_insert;
	return NULL;
}

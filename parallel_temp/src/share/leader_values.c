/*-------------------------------------------------------------------------
 *
 * leader_values.c
 *	  Values that workers are given from outside: parameters of the statement, and
 *	  results of subplans that the leader runs once for them.
 *
 * Core sends such a value to workers as it is, and a long value of a temporary
 * table may be no more than a reference into the table's TOAST table.  Workers
 * cannot follow it unless their own part of the plan reads that table: its pages
 * are in the leader's buffers.  So the leader fetches these values before it starts
 * workers.  (The server alone refuses the query at this point; but there it has no
 * parallel part as often, because temporary tables are read serially.)
 *
 * pt_run_parallel_plan() calls pt_fetch_values_for_workers() before a parallel plan runs.  A
 * statement's parameters are known then.  Results of subplans are not, and must not
 * be asked for before their time, so a Gather that sends them is entered through a
 * function here, which does so just before core would.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "executor/nodeSubplan.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "share/share.h"

/* A Gather or Gather Merge that sends long values to its workers. */
typedef struct SendingGather
{
	struct SendingGather *outer;
	PlanState  *node;
	ExecProcNodeMtd real;		/* core's function of the node */
	Bitmapset  *params;			/* parameters of variable length */
	void	  **copies;			/* for each of these, what was made of it last */
} SendingGather;

static SendingGather *sending = NULL;

/*
 * Is this value of variable length a reference into a temporary table's TOAST
 * table?
 */
static bool
is_temporary_reference(Datum value)
{
	struct varlena *reference = (struct varlena *) DatumGetPointer(value);
	struct varatt_external pointer;
	HeapTuple	tuple;
	bool		result;

	if (!VARATT_IS_EXTERNAL_ONDISK(reference))
		return false;
	VARATT_EXTERNAL_GET_POINTER(pointer, reference);
	/* a variable of a function may be older than the end of its table */
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(pointer.va_toastrelid));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_class) GETSTRUCT(tuple))->relpersistence == RELPERSISTENCE_TEMP;
	ReleaseSysCache(tuple);
	return result;
}

static void *
values_fetch(Datum value)
{
	return detoast_external_attr((struct varlena *) DatumGetPointer(value));
}

/*
 * Replace references among the statement's parameters, in a copy of the list.
 */
static void
fetch_parameters(EState *estate)
{
	ParamListInfo params = estate->es_param_list_info;
	MemoryContext old;
	bool		found = false;

	for (int i = 0; params != NULL && i < params->numParams && !found; i++)
	{
		ParamExternData memory;
		ParamExternData *param = params->paramFetch ?
			params->paramFetch(params, i + 1, false, &memory) : &params->params[i];

		found = !param->isnull && OidIsValid(param->ptype) && get_typlen(param->ptype) == -1 &&
			is_temporary_reference(param->value);
	}
	if (!found)
		return;

	/*
	 * Expressions of the leader's have the old list already, which is as
	 * good.
	 */
	old = MemoryContextSwitchTo(estate->es_query_cxt);
	params = copyParamList(params);
	for (int i = 0; i < params->numParams; i++)
	{
		ParamExternData *param = &params->params[i];

		if (!param->isnull && OidIsValid(param->ptype) && get_typlen(param->ptype) == -1 &&
			is_temporary_reference(param->value))
			param->value = PointerGetDatum(values_fetch(param->value));
	}
	estate->es_param_list_info = params;
	MemoryContextSwitchTo(old);
}

/*
 * Compute what the Gather is about to send, as core does next, and replace
 * references.
 */
static void
values_fetch_results(SendingGather *gather)
{
	EState	   *estate = gather->node->state;
	MemoryContext old;
	int			id = -1;

	ExecSetParamPlanMulti(gather->params, GetPerTupleExprContext(estate));
	old = MemoryContextSwitchTo(estate->es_query_cxt);
	while ((id = bms_next_member(gather->params, id)) >= 0)
	{
		ParamExecData *param = &estate->es_param_exec_vals[id];

		if (param->isnull || !is_temporary_reference(param->value))
			continue;
		if (gather->copies[id])
			pfree(gather->copies[id]);
		gather->copies[id] = values_fetch(param->value);
		param->value = PointerGetDatum(gather->copies[id]);
	}
	MemoryContextSwitchTo(old);
}

static TupleTableSlot *
values_exec_gather(PlanState *node)
{
	SendingGather *gather = sending;

	while (gather != NULL && gather->node != node)
		gather = gather->outer;
	if (gather == NULL)
		elog(ERROR, "what a Gather sends to its workers is not known");
	if (node->state->es_use_parallel_mode &&
		!(IsA(node, GatherState) ? ((GatherState *) node)->initialized : ((GatherMergeState *) node)->initialized))
		values_fetch_results(gather);
	return gather->real(node);
}

/*
 * The query's memory goes away: take an entry off the list.
 */
static void
values_forget(void *arg)
{
	for (SendingGather **link = &sending; *link != NULL; link = &(*link)->outer)
	{
		if (*link == (SendingGather *) arg)
		{
			*link = (*link)->outer;
			return;
		}
	}
}

static void
values_watch_gather(PlanState *node, Bitmapset *sent)
{
	EState	   *estate = node->state;
	List	   *types = estate->es_plannedstmt->paramExecTypes;
	SendingGather *gather;
	MemoryContextCallback *callback;
	Bitmapset  *params = NULL;
	int			id = -1;

	while ((id = bms_next_member(sent, id)) >= 0)
	{
		if (get_typlen(list_nth_oid(types, id)) == -1)
			params = bms_add_member(params, id);
	}
	if (params == NULL || node->ExecProcNodeReal == values_exec_gather)
		return;

	gather = palloc0(sizeof(SendingGather));
	gather->node = node;
	gather->real = node->ExecProcNodeReal;
	gather->params = params;
	gather->copies = palloc0(sizeof(void *) * list_length(types));
	gather->outer = sending;
	callback = palloc(sizeof(MemoryContextCallback));
	callback->func = values_forget;
	callback->arg = gather;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
	sending = gather;

	/* Instrumentation calls the node through ExecProcNodeReal. */
	if (node->ExecProcNode == node->ExecProcNodeReal)
		node->ExecProcNode = values_exec_gather;
	node->ExecProcNodeReal = values_exec_gather;
}

static bool
watch_walker(PlanState *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, GatherState))
		values_watch_gather(node, ((Gather *) node->plan)->initParam);
	else if (IsA(node, GatherMergeState))
		values_watch_gather(node, ((GatherMerge *) node->plan)->initParam);
	return planstate_tree_walker(node, watch_walker, context);
}

/*
 * A plan with parallel parts is about to run.  "subplans" says that the leader may
 * read temporary tables for workers.
 */
void
pt_fetch_values_for_workers(QueryDesc *queryDesc, bool subplans)
{
	fetch_parameters(queryDesc->estate);
	if (subplans && queryDesc->plannedstmt->subplans != NIL)
	{
		MemoryContext old = MemoryContextSwitchTo(queryDesc->estate->es_query_cxt);

		watch_walker(queryDesc->planstate, NULL);
		MemoryContextSwitchTo(old);
	}
}

/*-------------------------------------------------------------------------
 *
 * self.c
 *	  What a node used itself, without the nodes that it calls; and its name.
 *
 * Called when the figures of a finished statement are shown or added to a
 * profile.  Usage and time of what ran in this process come from the records.
 * Workers send core's inclusive figures only, so their part, and that of a
 * statement that was never upgraded, is the difference to the children in the
 * plan tree.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "light_explain.h"
#include "nodes/nodeFuncs.h"
#include "utils/rel.h"

/* Inclusive figures of a node, in workers or in this process. */
static LightSelf
inclusive(PlanState *node, bool workers)
{
	LightSelf	result = {0};
	int64	   *to = (int64 *) &result.usage;

	if (node->worker_instrument != NULL)
	{
		for (int i = 0; i < node->worker_instrument->num_workers; i++)
		{
			NodeInstrumentation_compat *instr = &node->worker_instrument->instrument[i];

			result.time += InstrTotal_compat(instr);
			for (int k = 0; k < sizeof(BufferUsage) / sizeof(int64); k++)
				to[k] += ((int64 *) InstrBuffers_compat(instr))[k];
			for (int k = 0; k < sizeof(WalUsage) / sizeof(int64); k++)
				to[k + sizeof(BufferUsage) / sizeof(int64)] += ((int64 *) InstrWal_compat(instr))[k];
		}
	}
	if (!workers)
	{
		NodeInstrumentation_compat *instr = node->instrument;

		result.time = InstrTotal_compat(instr) - result.time;
		for (int k = 0; k < sizeof(BufferUsage) / sizeof(int64); k++)
			to[k] = ((int64 *) InstrBuffers_compat(instr))[k] - to[k];
		for (int k = 0; k < sizeof(WalUsage) / sizeof(int64); k++)
		{
			int			n = k + sizeof(BufferUsage) / sizeof(int64);

			to[n] = ((int64 *) InstrWal_compat(instr))[k] - to[n];
		}
	}
	return result;
}

static void
subtract(LightSelf *from, const LightSelf *what)
{
	from->time -= what->time;
	for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
		((int64 *) &from->usage)[i] -= ((int64 *) &what->usage)[i];
}

typedef struct ChildContext
{
	LightSelf  *self;
	bool		workers;
	bool		only_core;		/* only children that core measures */
} ChildContext;

static LightSelf self_in_process(LightQuery *query, PlanState *node, bool workers);

static bool
subtract_child(PlanState *child, void *arg)
{
	ChildContext *context = arg;
	LightSelf	what;

	if (child == NULL || child->instrument == NULL)
		return false;
	if (context->only_core)
	{
		if (!light_measured_by_core(child))
			return false;
		what = self_in_process(NULL, child, false);
	}
	else
		what = inclusive(child, context->workers);
	subtract(context->self, &what);
	return false;
}

/* The part of workers (all together), or of this process. */
static LightSelf
self_in_process(LightQuery *query, PlanState *node, bool workers)
{
	LightRecord *record = workers ? NULL : light_record_of(query, node);
	LightSelf	self = inclusive(node, workers);
	ChildContext context = {.self = &self,.workers = workers};

	if (record != NULL && !record->left_to_core && record->caller != NULL)
	{
		/*
		 * Nodes that were called from here, wherever they are in the plan,
		 * and the own part of those that core measures.
		 */
		int64		callees = record->total_taken;

		for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
			callees += callee->total - callee->total_moved;
		self.time -= callees * query->tick;
		self.usage = record->self;
		BufferUsageNormalize_compat(&self.usage.buffers);
		context.only_core = true;
	}
	(void) planstate_tree_walker(node, subtract_child, &context);
	return self;
}

/*
 * Time and usage of a node without its children, in all processes together.
 * The node must have been instrumented and the statement finished.
 */
LightSelf
light_self(LightQuery *query, PlanState *planstate)
{
	LightSelf	self = self_in_process(query, planstate, false);

	if (planstate->worker_instrument != NULL)
	{
		LightSelf	workers = self_in_process(query, planstate, true);
		int64	   *to = (int64 *) &self.usage;

		self.time = Max(self.time, 0) + Max(workers.time, 0);
		for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
			to[i] += ((int64 *) &workers.usage)[i];
	}
	else if (IsA(planstate, GatherState) || IsA(planstate, GatherMergeState))
	{
		/* core books to Gather what the workers used, who booked it already */
		LightSelf	workers = inclusive(outerPlanState(planstate), true);
		int64	   *to = (int64 *) &self.usage;

		for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
			to[i] = Max(to[i] - ((int64 *) &workers.usage)[i], 0);
	}
	self.time = Max(self.time, 0);
	return self;
}

/* EXPLAIN's name of a node type. */
static const char *
type_name(const LightNodeName *name)
{
	switch (name->tag)
	{
		case T_ModifyTable:
			switch (name->operation)
			{
				case CMD_INSERT:
					return "Insert";
				case CMD_UPDATE:
					return "Update";
				case CMD_DELETE:
					return "Delete";
				default:
					return "Merge";
			}
		case T_Result:
			return "Result";
		case T_ProjectSet:
			return "ProjectSet";
		case T_Append:
			return "Append";
		case T_MergeAppend:
			return "Merge Append";
		case T_RecursiveUnion:
			return "Recursive Union";
		case T_BitmapAnd:
			return "BitmapAnd";
		case T_BitmapOr:
			return "BitmapOr";
		case T_NestLoop:
			return "Nested Loop";
		case T_MergeJoin:
			return "Merge Join";
		case T_HashJoin:
			return "Hash Join";
		case T_SeqScan:
			return "Seq Scan";
		case T_SampleScan:
			return "Sample Scan";
		case T_Gather:
			return "Gather";
		case T_GatherMerge:
			return "Gather Merge";
		case T_IndexScan:
			return "Index Scan";
		case T_IndexOnlyScan:
			return "Index Only Scan";
		case T_BitmapIndexScan:
			return "Bitmap Index Scan";
		case T_BitmapHeapScan:
			return "Bitmap Heap Scan";
		case T_TidScan:
			return "Tid Scan";
		case T_TidRangeScan:
			return "Tid Range Scan";
		case T_SubqueryScan:
			return "Subquery Scan";
		case T_FunctionScan:
			return "Function Scan";
		case T_TableFuncScan:
			return "Table Function Scan";
		case T_ValuesScan:
			return "Values Scan";
		case T_CteScan:
			return "CTE Scan";
		case T_NamedTuplestoreScan:
			return "Named Tuplestore Scan";
		case T_WorkTableScan:
			return "WorkTable Scan";
		case T_ForeignScan:
			return "Foreign Scan";
		case T_CustomScan:
			return "Custom Scan";
		case T_Material:
			return "Materialize";
		case T_Memoize:
			return "Memoize";
		case T_Sort:
			return "Sort";
		case T_IncrementalSort:
			return "Incremental Sort";
		case T_Group:
			return "Group";
		case T_Agg:
			return "Aggregate";
		case T_WindowAgg:
			return "WindowAgg";
		case T_Unique:
			return "Unique";
		case T_SetOp:
			return "SetOp";
		case T_LockRows:
			return "LockRows";
		case T_Limit:
			return "Limit";
		case T_Hash:
			return "Hash";
		default:
			return "Node";
	}
}

/*
 * Take a node's name.  Made of what the executor has open: the catalogs must not
 * be read here, their buffers would count in the statement's figures.
 */
void
light_node_name(PlanState *node, LightNodeName *name)
{
	Relation	relation = NULL;
	Relation	index = NULL;

	name->tag = nodeTag(node->plan);
	name->operation = IsA(node->plan, ModifyTable) ? ((ModifyTable *) node->plan)->operation : CMD_UNKNOWN;
	name->parallel = node->plan->parallel_aware;
	switch (nodeTag(node))
	{
		case T_IndexScanState:
			index = ((IndexScanState *) node)->iss_RelationDesc;
			relation = ((ScanState *) node)->ss_currentRelation;
			break;
		case T_IndexOnlyScanState:
			index = ((IndexOnlyScanState *) node)->ioss_RelationDesc;
			relation = ((ScanState *) node)->ss_currentRelation;
			break;
		case T_BitmapIndexScanState:
			index = ((BitmapIndexScanState *) node)->biss_RelationDesc;
			break;
		case T_SeqScanState:
		case T_SampleScanState:
		case T_BitmapHeapScanState:
		case T_TidScanState:
		case T_TidRangeScanState:
		case T_ForeignScanState:
		case T_CustomScanState:
			relation = ((ScanState *) node)->ss_currentRelation;
			break;
		case T_ModifyTableState:
			if (((ModifyTableState *) node)->rootResultRelInfo != NULL)
				relation = ((ModifyTableState *) node)->rootResultRelInfo->ri_RelationDesc;
			break;
		default:
			break;
	}
	if (relation != NULL)
		name->relation = relation->rd_rel->relname;
	else
		NameStr(name->relation)[0] = '\0';
	if (index != NULL)
		name->index = index->rd_rel->relname;
	else
		NameStr(name->index)[0] = '\0';
}

/* A palloc'd name such as "Index Scan using t_pkey on t". */
char *
light_format_name(const LightNodeName *name)
{
	const char *relation = NameStr(name->relation);
	const char *index = NameStr(name->index);

	return psprintf("%s%s%s%s%s%s", name->parallel ? "Parallel " : "", type_name(name),
					index[0] ? " using " : "", index, relation[0] ? " on " : "", relation);
}

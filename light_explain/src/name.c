/*-------------------------------------------------------------------------
 *
 * name.c
 *	  A plan node's name, as EXPLAIN would say it.
 *
 * Taken in parts when figures are kept or a statement is described to other
 * sessions, and put together when they are read.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "light_explain.h"
#include "utils/rel.h"

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

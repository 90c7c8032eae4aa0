/*-------------------------------------------------------------------------
 *
 * label.c
 *	  A plan node's name as EXPLAIN says it, from the parts that statement/name.c
 *	  took.
 *
 * The name of a function is looked up here, which only its own database has.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_planner.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "show/show.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

static const char *
join_name(const LightNodeKind *kind)
{
	switch (kind->kind)
	{
		case JOIN_INNER:
			return kind->tag == T_NestLoop ? "" : " Join";
		case JOIN_LEFT:
			return " Left Join";
		case JOIN_FULL:
			return " Full Join";
		case JOIN_RIGHT:
			return " Right Join";
		case JOIN_SEMI:
			return " Semi Join";
		case JOIN_ANTI:
			return " Anti Join";
		default:
			return JoinIsRightAnti_compat(kind->kind) ? " Right Anti Join" :
				JoinIsRightSemi_compat(kind->kind) ? " Right Semi Join" : " ??? Join";
	}
}

static const char *
command_name(int operation)
{
	switch (operation)
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
}

static const char *
aggregate_name(int strategy)
{
	switch (strategy)
	{
		case AGG_SORTED:
			return "GroupAggregate";
		case AGG_HASHED:
			return "HashAggregate";
		case AGG_MIXED:
			return "MixedAggregate";
		default:
			return "Aggregate";
	}
}

static const char *
setop_name(int command)
{
	switch (command)
	{
		case SETOPCMD_INTERSECT:
			return "Intersect";
		case SETOPCMD_INTERSECT_ALL:
			return "Intersect All";
		case SETOPCMD_EXCEPT:
			return "Except";
		default:
			return "Except All";
	}
}

/* Names of nodes that have no more to say than their type. */
static const char *
type_name(int tag)
{
	switch (tag)
	{
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
		case T_WindowAgg:
			return "WindowAgg";
		case T_Unique:
			return "Unique";
		case T_LockRows:
			return "LockRows";
		case T_Limit:
			return "Limit";
		case T_Hash:
			return "Hash";
		default:
			return "???";
	}
}

static void
append_type(StringInfo label, const LightNodeName *name)
{
	const LightNodeKind *kind = &name->kind;

	if (kind->parallel)
		appendStringInfoString(label, "Parallel ");
	if (kind->async)
		appendStringInfoString(label, "Async ");
	switch (kind->tag)
	{
		case T_ModifyTable:
			appendStringInfoString(label, command_name(kind->kind));
			break;
		case T_NestLoop:
			appendStringInfo(label, "Nested Loop%s", join_name(kind));
			break;
		case T_MergeJoin:
			appendStringInfo(label, "Merge%s", join_name(kind));
			break;
		case T_HashJoin:
			appendStringInfo(label, "Hash%s", join_name(kind));
			break;
		case T_Agg:
			appendStringInfo(label, "%s%s", kind->variant == 1 ? "Partial " : kind->variant == 2 ? "Finalize " : "",
							 aggregate_name(kind->kind));
			break;
		case T_SetOp:
			appendStringInfo(label, "%sSetOp %s", kind->kind == SETOP_HASHED ? "Hash" : "", setop_name(kind->variant));
			break;
		case T_ForeignScan:
			appendStringInfo(label, "Foreign %s", kind->kind == CMD_SELECT ? "Scan" : command_name(kind->kind));
			break;
		case T_CustomScan:
			appendStringInfoString(label, "Custom Scan");
			if (NameStr(name->detail)[0])
				appendStringInfo(label, " (%s)", NameStr(name->detail));
			break;
		case T_IndexScan:
		case T_IndexOnlyScan:
			appendStringInfo(label, "%s%s using %s", type_name(kind->tag), kind->variant ? " Backward" : "",
							 quote_identifier(NameStr(name->detail)));
			break;
		default:
			appendStringInfoString(label, type_name(kind->tag));
			break;
	}
}

/*
 * A palloc'd name such as "Index Scan using t_pkey on t a".  A function's name is
 * known in its own database only: InvalidOid if that is not this one.
 */
char *
light_format_name(const LightNodeName *name, Oid database)
{
	StringInfoData label;
	const char *object = NameStr(name->object);
	const char *alias = NameStr(name->alias);

	initStringInfo(&label);
	append_type(&label, name);
	if (OidIsValid(name->kind.function) && database == MyDatabaseId)
	{
		const char *function = get_func_name(name->kind.function);

		if (function != NULL)
			object = function;
	}
	if (object[0] || alias[0])
		appendStringInfoString(&label, " on");
	if (object[0])
		appendStringInfo(&label, " %s", quote_identifier(object));
	if (alias[0] && strcmp(alias, object) != 0)
		appendStringInfo(&label, " %s", quote_identifier(alias));
	return label.data;
}

/*
 * Text of a database whose encoding this one may not have: bytes beyond ASCII are
 * then shown as question marks.
 */
Datum
light_text_datum(const char *string, int length, int encoding)
{
	char	   *copy = pnstrdup(string, length);

	if (encoding != GetDatabaseEncoding())
	{
		for (char *c = copy; *c; c++)
			*c = IS_HIGHBIT_SET(*c) ? '?' : *c;
	}
	return CStringGetTextDatum(copy);
}

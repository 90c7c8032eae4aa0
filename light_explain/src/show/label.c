/*-------------------------------------------------------------------------
 *
 * label.c
 *	  A plan node's name as EXPLAIN prints it, from the parts that statement/name.c
 *	  stored.
 *
 * The name of a function is looked up here, and only in a session of its database.
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

/* Types of nodes that are named by their tag alone. */
static const struct
{
	NodeTag		tag;
	const char *name;
}			types[] = {
	{T_Result, "Result"},
	{T_ProjectSet, "ProjectSet"},
	{T_Append, "Append"},
	{T_MergeAppend, "Merge Append"},
	{T_RecursiveUnion, "Recursive Union"},
	{T_BitmapAnd, "BitmapAnd"},
	{T_BitmapOr, "BitmapOr"},
	{T_SeqScan, "Seq Scan"},
	{T_SampleScan, "Sample Scan"},
	{T_Gather, "Gather"},
	{T_GatherMerge, "Gather Merge"},
	{T_IndexScan, "Index Scan"},
	{T_IndexOnlyScan, "Index Only Scan"},
	{T_BitmapIndexScan, "Bitmap Index Scan"},
	{T_BitmapHeapScan, "Bitmap Heap Scan"},
	{T_TidScan, "Tid Scan"},
	{T_TidRangeScan, "Tid Range Scan"},
	{T_SubqueryScan, "Subquery Scan"},
	{T_FunctionScan, "Function Scan"},
	{T_TableFuncScan, "Table Function Scan"},
	{T_ValuesScan, "Values Scan"},
	{T_CteScan, "CTE Scan"},
	{T_NamedTuplestoreScan, "Named Tuplestore Scan"},
	{T_WorkTableScan, "WorkTable Scan"},
	{T_Material, "Materialize"},
	{T_Memoize, "Memoize"},
	{T_Sort, "Sort"},
	{T_IncrementalSort, "Incremental Sort"},
	{T_Group, "Group"},
	{T_WindowAgg, "WindowAgg"},
	{T_Unique, "Unique"},
	{T_LockRows, "LockRows"},
	{T_Limit, "Limit"},
	{T_Hash, "Hash"},
	{T_NestLoop, "Nested Loop"},
	{T_MergeJoin, "Merge Join"},
	{T_HashJoin, "Hash Join"}
};

/*
 * The palloc'd type of a node as EXPLAIN's text form has it, such as "Index Scan" or "HashAggregate",
 * without the parts that it adds before and after: workers, kind of join, direction.
 */
char *
light_format_type(const LightNodeName *name)
{
	const LightNodeKind *kind = &name->kind;

	switch (kind->tag)
	{
		case T_ModifyTable:
			return pstrdup(command_name(kind->kind));
		case T_Agg:
			return pstrdup(aggregate_name(kind->kind));
		case T_SetOp:
			return pstrdup(kind->kind == SETOP_HASHED ? "HashSetOp" : "SetOp");
		case T_ForeignScan:
			return psprintf("Foreign %s", kind->kind == CMD_SELECT ? "Scan" : command_name(kind->kind));
		case T_CustomScan:
			return NameStr(name->detail)[0] ? psprintf("Custom Scan (%s)", NameStr(name->detail)) : pstrdup("Custom Scan");
		default:
			for (int i = 0; i < lengthof(types); i++)
			{
				if (types[i].tag == kind->tag)
					return pstrdup(types[i].name);
			}
			return pstrdup("???");
	}
}

/* The table that a node scans or changes, or NULL. */
const char *
light_name_relation(const LightNodeName *name)
{
	switch (name->kind.tag)
	{
		case T_ModifyTable:
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_ForeignScan:
		case T_CustomScan:
			return NameStr(name->object);
		default:
			return NULL;
	}
}

/* The index that a node scans, or NULL. */
const char *
light_name_index(const LightNodeName *name)
{
	switch (name->kind.tag)
	{
		case T_IndexScan:
		case T_IndexOnlyScan:
			return NameStr(name->detail);
		case T_BitmapIndexScan:
			return NameStr(name->object);
		default:
			return NULL;
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
	if (kind->tag == T_Agg && kind->variant != 0)
		appendStringInfoString(label, kind->variant == 1 ? "Partial " : "Finalize ");
	if (kind->tag == T_MergeJoin || kind->tag == T_HashJoin)
		appendStringInfoString(label, kind->tag == T_HashJoin ? "Hash" : "Merge");
	else
		appendStringInfoString(label, light_format_type(name));
	if (kind->tag == T_NestLoop || kind->tag == T_MergeJoin || kind->tag == T_HashJoin)
		appendStringInfoString(label, join_name(kind));
	else if (kind->tag == T_SetOp)
		appendStringInfo(label, " %s", setop_name(kind->variant));
	else if (kind->tag == T_IndexScan || kind->tag == T_IndexOnlyScan)
		appendStringInfo(label, "%s using %s", kind->variant ? " Backward" : "", quote_identifier(NameStr(name->detail)));
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

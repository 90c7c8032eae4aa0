/*-------------------------------------------------------------------------
 *
 * name.c
 *	  A plan node's name, as EXPLAIN prints it.
 *
 * Taken in parts, from objects that the executor has open: the catalogs must not be read
 * there, because their buffers would be counted in the statement, and a statement
 * that failed must not read them at all.  The parts contain no pointers, so they can
 * be kept and shown to other sessions; show/label.c assembles them when
 * they are read.
 *
 * A relation that is named twice gets a number, by the rules of EXPLAIN
 * (set_rtable_names() in ruleutils.c).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_planner.h"
#include "mb/pg_wchar.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "statement/statement.h"
#include "utils/builtins.h"
#include "utils/rel.h"

/* More relations than this are not numbered: it takes the square of them. */
#define MAX_NUMBERED 1000

/* The parts of a name where they are. */
typedef struct NameParts
{
	LightNodeKind kind;
	Index		rti;			/* whose alias it shows, or 0 */
	const char *object;
	const char *detail;
} NameParts;

static const char *
relation_name(Relation relation)
{
	return relation != NULL ? RelationGetRelationName(relation) : NULL;
}

/* The relation whose alias a node's name shows, or 0. */
static Index
shown_relation(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_ModifyTable:
			return ((const ModifyTable *) plan)->nominalRelation;
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_ForeignScan:
		case T_CustomScan:
		case T_FunctionScan:
		case T_TableFuncScan:
		case T_CteScan:
		case T_WorkTableScan:
		case T_NamedTuplestoreScan:
		case T_SubqueryScan:
		case T_ValuesScan:
			return ((const Scan *) plan)->scanrelid;
		default:
			return 0;
	}
}

static void
take_parts(PlanState *node, NameParts *parts)
{
	Plan	   *plan = node->plan;
	RangeTblEntry *rte;

	memset(parts, 0, sizeof(NameParts));
	parts->kind.tag = nodeTag(plan);
	parts->kind.parallel = plan->parallel_aware;
	parts->kind.async = plan->async_capable;
	parts->rti = shown_relation(plan);
	switch (nodeTag(plan))
	{
		case T_ModifyTable:
			parts->kind.kind = ((ModifyTable *) plan)->operation;
			if (IsA(node, ModifyTableState) && ((ModifyTableState *) node)->rootResultRelInfo != NULL)
				parts->object = relation_name(((ModifyTableState *) node)->rootResultRelInfo->ri_RelationDesc);
			break;
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			parts->kind.kind = ((Join *) plan)->jointype;
			break;
		case T_Agg:
			parts->kind.kind = ((Agg *) plan)->aggstrategy;
			if (DO_AGGSPLIT_SKIPFINAL(((Agg *) plan)->aggsplit))
				parts->kind.variant = 1;
			else if (DO_AGGSPLIT_COMBINE(((Agg *) plan)->aggsplit))
				parts->kind.variant = 2;
			break;
		case T_SetOp:
			parts->kind.kind = ((SetOp *) plan)->strategy;
			parts->kind.variant = ((SetOp *) plan)->cmd;
			break;
		case T_IndexScan:
			parts->kind.variant = ScanDirectionIsBackward(((IndexScan *) plan)->indexorderdir);
			parts->detail = relation_name(((IndexScanState *) node)->iss_RelationDesc);
			break;
		case T_IndexOnlyScan:
			parts->kind.variant = ScanDirectionIsBackward(((IndexOnlyScan *) plan)->indexorderdir);
			parts->detail = relation_name(((IndexOnlyScanState *) node)->ioss_RelationDesc);
			break;
		case T_BitmapIndexScan:
			parts->object = relation_name(((BitmapIndexScanState *) node)->biss_RelationDesc);
			return;
		case T_ForeignScan:
			parts->kind.kind = ((ForeignScan *) plan)->operation;
			break;
		case T_CustomScan:
			parts->detail = ((CustomScan *) plan)->methods->CustomName;
			break;
		default:
			break;
	}
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_ForeignScan:
		case T_CustomScan:
			if (parts->rti > 0)
				parts->object = relation_name(((ScanState *) node)->ss_currentRelation);
			break;
		case T_FunctionScan:
			{
				List	   *functions = ((FunctionScan *) plan)->functions;

				if (list_length(functions) == 1)
				{
					Node	   *expr = ((RangeTblFunction *) linitial(functions))->funcexpr;

					if (IsA(expr, FuncExpr))
						parts->kind.function = ((FuncExpr *) expr)->funcid;
				}
			}
			break;
		case T_TableFuncScan:
			parts->object = TableFuncName_compat((TableFuncScan *) plan);
			break;
		case T_CteScan:
		case T_WorkTableScan:
			rte = rt_fetch(parts->rti, node->state->es_range_table);
			parts->object = rte->ctename;
			break;
		case T_NamedTuplestoreScan:
			rte = rt_fetch(parts->rti, node->state->es_range_table);
			parts->object = rte->enrname;
			break;
		default:
			break;
	}
}

/* The alias of a range table entry before a number is added to it. */
static const char *
plain_alias(EState *estate, Index rti)
{
	RangeTblEntry *rte = rt_fetch(rti, estate->es_range_table);

	return rte->alias != NULL ? rte->alias->aliasname : rte->eref->aliasname;
}

/*
 * Write a node's name without numbers of aliases: nodes are named the same if the
 * bytes are.  Returns how many there are, at most LIGHT_SPELLING_SIZE, or 0 if there
 * is no room.
 */
Size
light_spell_name(PlanState *node, char *to, Size room)
{
	NameParts	parts;
	const char *strings[3];
	Size		size = sizeof(LightNodeKind) + 1;
	char		there = 0;

	if (room < size)
		return 0;
	take_parts(node, &parts);
	strings[0] = parts.object;
	strings[1] = parts.detail;
	strings[2] = parts.rti > 0 ? plain_alias(node->state, parts.rti) : NULL;
	StaticAssertStmt(LIGHT_SPELLING_SIZE == sizeof(LightNodeKind) + 1 + lengthof(strings) * NAMEDATALEN, "all strings fit");
	/* the function's number differs from one installation to the next */
	parts.kind.function = InvalidOid;
	memcpy(to, &parts.kind, sizeof(LightNodeKind));
	for (int i = 0; i < lengthof(strings); i++)
	{
		Size		length;

		if (strings[i] == NULL)
			continue;
		there |= 1 << i;
		length = strnlen(strings[i], NAMEDATALEN - 1);
		if (length + 1 > room - size)
			return 0;
		memcpy(to + size, strings[i], length);
		to[size + length] = '\0';
		size += length + 1;
	}
	to[sizeof(LightNodeKind)] = there;
	return size;
}

/* The relations that a node names, as EXPLAIN looks for them. */
void
light_aliases_note(LightAliases *aliases, PlanState *node)
{
	Plan	   *plan = node->plan;
	Index		rti;

	switch (nodeTag(plan))
	{
		case T_ForeignScan:
			aliases->used = bms_add_members(aliases->used, ForeignScanRelids_compat((ForeignScan *) plan));
			return;
		case T_CustomScan:
			aliases->used = bms_add_members(aliases->used, ((CustomScan *) plan)->custom_relids);
			return;
		case T_Append:
			aliases->used = bms_add_members(aliases->used, ((Append *) plan)->apprelids);
			return;
		case T_MergeAppend:
			aliases->used = bms_add_members(aliases->used, ((MergeAppend *) plan)->apprelids);
			return;
		case T_ModifyTable:
			if (((ModifyTable *) plan)->exclRelRTI > 0)
				aliases->used = bms_add_member(aliases->used, ((ModifyTable *) plan)->exclRelRTI);
			break;
		default:
			break;
	}
	rti = shown_relation(plan);
	if (rti > 0)
		aliases->used = bms_add_member(aliases->used, rti);
}

/*
 * Write a name with a number; the name is truncated so that the number fits.
 * Without psprintf(), which took half of the time to name the nodes of a statement.
 */
static void
number_name(NameData *to, const char *name, int *length, int number)
{
	char		digits[16] = "_";
	int			ndigits = 1 + pg_ltoa(number, digits + 1);

	/* whole characters, however many bytes they have */
	while (*length > NAMEDATALEN - 1 - ndigits)
		*length = pg_mbcliplen(name, *length, *length - 1);
	memcpy(NameStr(*to), name, *length);
	memcpy(NameStr(*to) + *length, digits, ndigits + 1);
}

/* Number relations that have the same name. */
static void
number_aliases(LightAliases *aliases, EState *estate)
{
	int			n = bms_num_members(aliases->used);
	const char **names;			/* of those before */
	int		   *counters;
	int			i = 0;
	int			rti = -1;

	aliases->names = palloc0((list_length(estate->es_range_table) + 1) * sizeof(char *));
	if (n > MAX_NUMBERED)
		return;
	names = palloc(n * sizeof(char *));
	counters = palloc0(n * sizeof(int));
	while ((rti = bms_next_member(aliases->used, rti)) >= 0)
	{
		const char *name = plain_alias(estate, rti);
		int			first = 0;

		while (first < i && strcmp(names[first], name) != 0)
			first++;
		if (first < i)
		{
			int			length = strlen(name);
			int			same;
			NameData   *numbered = palloc(sizeof(NameData));

			do
			{
				number_name(numbered, name, &length, ++counters[first]);
				for (same = 0; same < i && strcmp(names[same], NameStr(*numbered)) != 0; same++)
					;
			} while (same < i);
			name = aliases->names[rti] = NameStr(*numbered);
		}
		names[i++] = name;
	}
	pfree(names);
	pfree(counters);
}

static const char *
alias_of(LightAliases *aliases, EState *estate, Index rti)
{
	if (aliases->names == NULL)
	{
		if (bms_membership(aliases->used) != BMS_MULTIPLE)
			return plain_alias(estate, rti);
		number_aliases(aliases, estate);
	}
	return aliases->names[rti] != NULL ? aliases->names[rti] : plain_alias(estate, rti);
}

static void
copy_name(NameData *to, const char *from)
{
	Size		length = from != NULL ? strnlen(from, NAMEDATALEN - 1) : 0;

	/* not strlcpy(), which takes it letter by letter */
	if (length > 0)
		memcpy(NameStr(*to), from, length);
	NameStr(*to)[length] = '\0';
}

/*
 * Take a node's name.  All nodes of its statement must have been shown to
 * light_aliases_note() before.
 */
void
light_node_name(PlanState *node, LightAliases *aliases, LightNodeName *name)
{
	NameParts	parts;
	const char *alias;

	take_parts(node, &parts);
	alias = parts.rti > 0 ? alias_of(aliases, node->state, parts.rti) : NULL;
	name->kind = parts.kind;
	copy_name(&name->object, parts.object);
	copy_name(&name->detail, parts.detail);
	copy_name(&name->alias, alias);
}

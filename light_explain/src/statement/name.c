/*-------------------------------------------------------------------------
 *
 * name.c
 *	  A plan node's name, as EXPLAIN says it.
 *
 * Taken in parts, from what the executor has open: the catalogs must not be read
 * there, their buffers would count in the statement's figures, and a statement
 * that failed may not read them at all.  The parts hold no pointers, so they can
 * be kept and described to other sessions; show/label.c puts them together when
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

#include "common/hashfn.h"
#include "compat_planner.h"
#include "mb/pg_wchar.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "statement/statement.h"
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

static void
take_parts(PlanState *node, NameParts *parts)
{
	Plan	   *plan = node->plan;
	RangeTblEntry *rte;

	memset(parts, 0, sizeof(NameParts));
	parts->kind.tag = nodeTag(plan);
	parts->kind.parallel = plan->parallel_aware;
	parts->kind.async = plan->async_capable;
	switch (nodeTag(plan))
	{
		case T_ModifyTable:
			parts->kind.kind = ((ModifyTable *) plan)->operation;
			parts->rti = ((ModifyTable *) plan)->nominalRelation;
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
			parts->rti = ((Scan *) plan)->scanrelid;
			if (parts->rti > 0)
				parts->object = relation_name(((ScanState *) node)->ss_currentRelation);
			break;
		case T_FunctionScan:
			{
				List	   *functions = ((FunctionScan *) plan)->functions;

				parts->rti = ((Scan *) plan)->scanrelid;
				if (list_length(functions) == 1)
				{
					Node	   *expr = ((RangeTblFunction *) linitial(functions))->funcexpr;

					if (IsA(expr, FuncExpr))
						parts->kind.function = ((FuncExpr *) expr)->funcid;
				}
			}
			break;
		case T_TableFuncScan:
			parts->rti = ((Scan *) plan)->scanrelid;
			parts->object = TableFuncName_compat((TableFuncScan *) plan);
			break;
		case T_CteScan:
		case T_WorkTableScan:
			parts->rti = ((Scan *) plan)->scanrelid;
			rte = rt_fetch(parts->rti, node->state->es_range_table);
			parts->object = rte->ctename;
			break;
		case T_NamedTuplestoreScan:
			parts->rti = ((Scan *) plan)->scanrelid;
			rte = rt_fetch(parts->rti, node->state->es_range_table);
			parts->object = rte->enrname;
			break;
		case T_SubqueryScan:
		case T_ValuesScan:
			parts->rti = ((Scan *) plan)->scanrelid;
			break;
		default:
			break;
	}
}

/* What a range table entry is called before it gets a number. */
static const char *
plain_alias(EState *estate, Index rti)
{
	RangeTblEntry *rte = rt_fetch(rti, estate->es_range_table);

	return rte->alias != NULL ? rte->alias->aliasname : rte->eref->aliasname;
}

/* Hash of a node's name without numbers of aliases, mixed with what came before. */
uint64
light_hash_name(uint64 hash, PlanState *node)
{
	NameParts	parts;
	const char *strings[3];

	take_parts(node, &parts);
	strings[0] = parts.object;
	strings[1] = parts.detail;
	strings[2] = parts.rti > 0 ? plain_alias(node->state, parts.rti) : NULL;
	/* the function's number differs from one installation to the next */
	parts.kind.function = InvalidOid;
	hash = hash_combine64(hash, hash_bytes_extended((unsigned char *) &parts.kind, sizeof(parts.kind), 0));
	for (int i = 0; i < lengthof(strings); i++)
	{
		if (strings[i] != NULL)
			hash = hash_combine64(hash, hash_bytes_extended((const unsigned char *) strings[i], strlen(strings[i]), i));
	}
	return hash;
}

/*
 * Write what light_hash_name() would hash, so that nodes are named the same if the
 * bytes are.  Returns how many there are, or 0 if there is no room.
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
	memcpy(to, &parts.kind, sizeof(LightNodeKind));
	for (int i = 0; i < lengthof(strings); i++)
	{
		Size		length;

		if (strings[i] == NULL)
			continue;
		there |= 1 << i;
		length = strlen(strings[i]) + 1;
		if (length > room - size)
			return 0;
		memcpy(to + size, strings[i], length);
		size += length;
	}
	to[sizeof(LightNodeKind)] = there;
	return size;
}

/* The relations that a node names, as EXPLAIN looks for them. */
void
light_aliases_note(LightAliases *aliases, PlanState *node)
{
	Plan	   *plan = node->plan;
	NameParts	parts;

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
	take_parts(node, &parts);
	if (parts.rti > 0)
		aliases->used = bms_add_member(aliases->used, parts.rti);
}

/* A palloc'd name with a number, of which as much is left out as there is no room for. */
static char *
numbered_name(const char *name, int *length, int number)
{
	char		digits[16];
	int			room = NAMEDATALEN - 1 - snprintf(digits, sizeof(digits), "_%d", number);

	/* whole characters, however many bytes they have */
	while (*length > room)
		*length = pg_mbcliplen(name, *length, *length - 1);
	return psprintf("%.*s%s", *length, name, digits);
}

/* Number relations that have the same name. */
static void
number_aliases(LightAliases *aliases, EState *estate)
{
	int			n = bms_num_members(aliases->used);
	int		   *counters;
	int			i = 0;
	int			rti = -1;

	aliases->names = palloc(n * sizeof(char *));
	counters = palloc0(n * sizeof(int));
	while ((rti = bms_next_member(aliases->used, rti)) >= 0)
	{
		const char *name = plain_alias(estate, rti);
		int			first = 0;

		while (first < i && strcmp(aliases->names[first], name) != 0)
			first++;
		if (first < i && n <= MAX_NUMBERED)
		{
			int			length = strlen(name);
			int			same;
			char	   *numbered;

			do
			{
				numbered = numbered_name(name, &length, ++counters[first]);
				for (same = 0; same < i && strcmp(aliases->names[same], numbered) != 0; same++)
					;
			} while (same < i);
			name = numbered;
		}
		aliases->names[i++] = name;
	}
	pfree(counters);
}

static const char *
alias_of(LightAliases *aliases, EState *estate, Index rti)
{
	if (!bms_is_member(rti, aliases->used) || bms_num_members(aliases->used) == 1)
		return plain_alias(estate, rti);
	if (aliases->names == NULL)
		number_aliases(aliases, estate);
	return aliases->names[bms_member_index(aliases->used, rti)];
}

static void
copy_name(NameData *to, const char *from)
{
	if (from != NULL)
		strlcpy(NameStr(*to), from, NAMEDATALEN);
	else
		NameStr(*to)[0] = '\0';
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

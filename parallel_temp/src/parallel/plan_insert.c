/*-------------------------------------------------------------------------
 *
 * plan_insert.c
 *	  INSERT ... SELECT into a temporary table, with workers for the SELECT.
 *
 * The server gives no statement workers that changes data, though it lets the leader
 * of a parallel query put rows into a table: CREATE TABLE AS does.  So plan.c plans
 * the query that computes the rows by itself, as the SELECT that it is, and where
 * that plan has workers it takes the place of the serial one below the insertion's
 * ModifyTable node.  Nothing below that node knows of it, and the node is run by the
 * leader alone.
 *
 * What the leader may not do while it has workers: get a transaction id (it gets one
 * before, see pool_run.c), make a new command visible, draw from a sequence, and
 * whatever else a parallel unsafe function does.  So nothing may run with each row
 * that is not parallel safe, or volatile and not the server's own (plan_leader.c):
 * the query, checks of the table and of domains, generated columns, index expressions,
 * operator classes, RETURNING, triggers before or with a condition.  Triggers that run
 * after the statement, as foreign keys do, are called when the workers have gone.
 * Pages of the target change, so nothing in the plan may read it.
 *
 * Plans are kept, and functions may be marked otherwise meanwhile: the target is looked
 * at once more when a plan is run.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat_planner.h"
#include "parallel/plan_insert.h"
#include "parallel/plan_leader.h"
#include "parallel/plan_walk.h"

static const char *
trigger_refusal(TriggerDesc *triggers)
{
	if (triggers->trig_insert_before_row || triggers->trig_insert_instead_row || triggers->trig_insert_before_statement)
		return "a trigger runs before the rows are there";
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_INSERT(trigger->tgtype) && trigger->tgqual != NULL)
			return "a trigger has a condition";
	}
	return NULL;
}

/*
 * An index is searched for a new entry's place by functions of its operator classes.
 */
static const char *
opclass_refusal(Relation index)
{
	int			functions = IndexRelationGetNumberOfKeyAttributes(index) * index->rd_indam->amsupport;
	const char *reason = NULL;

	for (int i = 0; i < functions && reason == NULL; i++)
	{
		if (OidIsValid(index->rd_support[i]))
			reason = leader_must_not_call(index->rd_support[i]);
	}
	return reason;
}

static const char *
index_refusal(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	const char *reason = NULL;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisexclusion)
			reason = "the table has an exclusion constraint";
		if (reason == NULL)
			reason = opclass_refusal(index);
		if (reason == NULL)
			reason = leader_must_not_evaluate((Node *) RelationGetIndexExpressions(index));
		if (reason == NULL)
			reason = leader_must_not_evaluate((Node *) RelationGetIndexPredicate(index));
		index_close(index, NoLock);
		if (reason)
			break;
	}
	list_free(indexes);
	return reason;
}

/*
 * A column that the statement does not name gets a NULL that its domain checks.
 */
static const char *
domain_refusal(TupleDesc desc)
{
	const char *reason = NULL;

	for (int i = 0; i < desc->natts && reason == NULL; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, i);

		if (!attr->attisdropped && get_typtype(attr->atttypid) == TYPTYPE_DOMAIN)
			reason = leader_must_not_check(attr->atttypid);
	}
	return reason;
}

static const char *
constraint_refusal(TupleDesc desc)
{
	TupleConstr *constr = desc->constr;
	const char *reason = NULL;

	if (constr == NULL)
		return NULL;
	for (int i = 0; i < constr->num_check && reason == NULL; i++)
		reason = leader_must_not_evaluate(stringToNode(constr->check[i].ccbin));
	for (int i = 0; i < constr->num_defval && reason == NULL; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, constr->defval[i].adnum - 1);

		if (!attr->attgenerated)
			continue;
		if (get_typtype(attr->atttypid) == TYPTYPE_DOMAIN)
			return "a generated column is of a domain";
		reason = leader_must_not_evaluate(stringToNode(constr->defval[i].adbin));
	}
	return reason;
}

const char *
insert_target_refusal(Relation rel)
{
	const char *reason = NULL;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return "the rows go to partitions";
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return "not a table";
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP || !rel->rd_islocaltemp)
		return "not a temporary table of this session";
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return "the table's access method is not heap";
	if (rel->rd_rel->relispartition)
		return "the table is a partition";
	if (rel->trigdesc != NULL)
		reason = trigger_refusal(rel->trigdesc);
	if (reason == NULL)
		reason = domain_refusal(RelationGetDescr(rel));
	if (reason == NULL)
		reason = constraint_refusal(RelationGetDescr(rel));
	if (reason == NULL && rel->rd_rel->relhasindex)
		reason = index_refusal(rel);
	return reason;
}

const char *
insert_refusal(Query *parse)
{
	RangeTblEntry *target = rt_fetch(parse->resultRelation, parse->rtable);
	const char *reason;
	Relation	rel;

	if (parse->hasModifyingCTE)
		return "WITH changes data";
	if (parse->onConflict != NULL)
		return "ON CONFLICT";
	if (parse->withCheckOptions != NIL)
		return "row security or WITH CHECK OPTION";
	if (checkExprHasSubLink((Node *) parse->returningList))
		return "RETURNING has a subquery";
	reason = leader_must_not_evaluate((Node *) parse->returningList);
	if (reason == NULL)
		reason = leader_must_not_query(parse);
	if (reason != NULL)
		return reason;
	rel = table_open(target->relid, NoLock);
	reason = insert_target_refusal(rel);
	table_close(rel, NoLock);
	return reason;
}

/*
 * What the server puts into a column that the statement does not name.
 */
static Expr *
null_of_column(Form_pg_attribute attr)
{
	Oid			type = attr->atttypid;
	int32		typmod = attr->atttypmod;
	Node	   *null;

	if (attr->attisdropped)
		return (Expr *) makeConst(INT4OID, -1, InvalidOid, sizeof(int32), (Datum) 0, true, true);
	type = getBaseTypeAndTypmod(type, &typmod);
	null = (Node *) makeConst(type, typmod, attr->attcollation, attr->attlen, (Datum) 0, true, attr->attbyval);
	if (type != attr->atttypid)
		null = coerce_to_domain(null, type, typmod, attr->atttypid, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1, false);
	return (Expr *) null;
}

Query *
insert_source(Query *source)
{
	RangeTblEntry *target = rt_fetch(source->resultRelation, source->rtable);
	Relation	rel = table_open(target->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *named = source->targetList;
	ListCell   *next = list_head(named);

	source->commandType = CMD_SELECT;
	source->resultRelation = 0;
	source->returningList = NIL;
	source->targetList = NIL;

	/* The rewriter has put the columns into their order. */
	for (int attno = 1; attno <= desc->natts; attno++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, attno - 1);
		TargetEntry *entry;

		if (next != NULL && lfirst_node(TargetEntry, next)->resno == attno)
		{
			entry = lfirst_node(TargetEntry, next);
			next = lnext(named, next);
		}
		else
			entry = makeTargetEntry(null_of_column(attr), attno, pstrdup(NameStr(attr->attname)), false);
		source->targetList = lappend(source->targetList, entry);
	}
	table_close(rel, NoLock);
	return source;
}

PlannedStmt *
insert_with_source(PlannedStmt *serial, PlannedStmt *source, const char **reason)
{
	ModifyTable *insert = castNode(ModifyTable, serial->planTree);
	Index		target = linitial_int(insert->resultRelations);
	Plan	   *rows = source->planTree;
	Oid			relid = rt_fetch(target, serial->rtable)->relid;
	PlannedStmt *result;
	Plan	   *plan;
	int			times = 0;
	ListCell   *lc;

	foreach(lc, source->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relid == relid)
			times++;
	}
	if (times != 1 || rt_fetch(target, source->rtable)->relid != relid)
	{
		*reason = "the statement reads the table that it fills";
		return NULL;
	}

	insert = copyObject(insert);
	plan = &insert->plan;
	plan->plan_node_id = plan_highest_node_id(source) + 1;
	plan->lefttree = rows;
	plan->initPlan = NIL;
	plan->extParam = bms_copy(rows->extParam);
	plan->allParam = bms_copy(rows->allParam);
	plan->startup_cost = rows->startup_cost;
	plan->total_cost = rows->total_cost;

	/* All parameters, subplans and relations are those of the rows' plan. */
	result = makeNode(PlannedStmt);
	memcpy(result, source, sizeof(PlannedStmt));
	result->commandType = CMD_INSERT;
	result->planTree = plan;
	result->hasReturning = serial->hasReturning;
	result->transientPlan |= serial->transientPlan;
	result->dependsOnRole |= serial->dependsOnRole;
	SetResultRelations_compat(result, serial);
	result->relationOids = list_concat_unique_oid(list_copy(source->relationOids), serial->relationOids);
	result->invalItems = list_concat(list_copy(source->invalItems), serial->invalItems);
	insert->epqParam = list_length(source->paramExecTypes);
	result->paramExecTypes = lappend_oid(list_copy(source->paramExecTypes), InvalidOid);
	return result;
}

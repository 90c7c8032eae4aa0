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
 * The leader must not do the following while it has workers: get a transaction id (it gets one
 * before, see scan_run.c), make a new command visible, draw from a sequence, and call a
 * parallel unsafe function.  So the query, checks of the table and of domains, generated
 * columns, index expressions, operator classes and RETURNING are searched for that
 * (insert_target.c), and there must be no triggers before the rows or with a condition.
 * Triggers that run after the statement, as foreign keys do, are called when the workers
 * have ended.  Pages of the target change, so nothing in the plan may read it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
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
#include "load/fastload.h"
#include "plan/plan.h"
#include "scan/scan.h"
#include "share/share.h"

const char *
pt_insert_refusal(Query *parse)
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
	reason = pt_leader_refusal((Node *) parse->returningList, false);
	if (reason == NULL)
		reason = pt_leader_refusal((Node *) parse, true);
	if (reason != NULL)
		return reason;
	rel = table_open(target->relid, NoLock);
	reason = pt_insert_target_refusal(rel);
	table_close(rel, NoLock);
	return reason;
}

/*
 * The value of a column that the statement does not name.
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
pt_insert_source(Query *source)
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
pt_insert_with_source(PlannedStmt *serial, PlannedStmt *source, const char **reason)
{
	ModifyTable *insert = castNode(ModifyTable, serial->planTree);
	Index		target = linitial_int(insert->resultRelations);
	Plan	   *rows = source->planTree;
	Oid			relid = rt_fetch(target, serial->rtable)->relid;
	PlannedStmt *result;
	Plan	   *plan;

	if (pt_load_count_entries(source->rtable, relid) != 1 || rt_fetch(target, source->rtable)->relid != relid)
	{
		*reason = "the statement reads the table that it fills";
		return NULL;
	}

	insert = copyObject(insert);
	plan = &insert->plan;
	plan->plan_node_id = pt_highest_node_id(source) + 1;
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

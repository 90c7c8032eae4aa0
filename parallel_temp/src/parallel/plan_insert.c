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
 * that is not parallel safe, or volatile and not the server's own: checks of the table and of domains, generated columns,
 * index expressions, operator classes, RETURNING, triggers before or with a condition.  Triggers that run
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

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
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
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat_planner.h"
#include "parallel/plan_insert.h"

/* Looking for what the leader must not do while it has workers. */
typedef struct LeaderSearch
{
	bool		query;			/* in the query, whose restricted functions
								 * the planner leaves to the leader */
	const char *found;
} LeaderSearch;

static bool leader_must_not(Node *node, void *context);

static bool
is_not_for_leader(Oid funcid, void *context)
{
	LeaderSearch *search = context;
	char		parallel = func_parallel(funcid);

	if (parallel != PROPARALLEL_SAFE && !(search->query && parallel == PROPARALLEL_RESTRICTED))
	{
		search->found = psprintf("function %s() is not parallel safe", get_func_name(funcid));
		return true;
	}

	/*
	 * Before and after each of its statements a volatile function asks for a
	 * new command id, which there is none of while the insertion uses the
	 * current one and has workers.
	 */
	if (funcid >= FirstUnpinnedObjectId && func_volatile(funcid) == PROVOLATILE_VOLATILE)
	{
		search->found = psprintf("function %s() is volatile", get_func_name(funcid));
		return true;
	}
	return false;
}

/*
 * The functions of an aggregate; its own entry says nothing of them.
 */
static bool
aggregate_must_not(Oid aggregate, LeaderSearch *search)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Form_pg_aggregate agg;
	Oid			functions[8];
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	functions[0] = agg->aggtransfn;
	functions[1] = agg->aggfinalfn;
	functions[2] = agg->aggcombinefn;
	functions[3] = agg->aggserialfn;
	functions[4] = agg->aggdeserialfn;
	functions[5] = agg->aggmtransfn;
	functions[6] = agg->aggminvtransfn;
	functions[7] = agg->aggmfinalfn;
	ReleaseSysCache(tuple);
	for (int i = 0; i < lengthof(functions) && !found; i++)
		found = OidIsValid(functions[i]) && is_not_for_leader(functions[i], search);
	return found;
}

/*
 * The checks of a domain.
 */
static bool
domain_must_not(Oid type, LeaderSearch *search)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "parallel_temp domain", ALLOCSET_SMALL_SIZES);
	LeaderSearch within = {0};
	DomainConstraintRef ref;
	ListCell   *lc;

	InitDomainConstraintRef(type, &ref, context, false);
	foreach(lc, ref.constraints)
	{
		if (leader_must_not((Node *) lfirst_node(DomainConstraintState, lc)->check_expr, &within))
			break;
	}
	MemoryContextDelete(context);
	if (within.found)
		search->found = within.found;
	return within.found != NULL;
}

/*
 * The functions by which a join or a group hashes and sorts; the operator's own says nothing of them.
 */
static bool
operator_must_not(Oid operator, LeaderSearch *search)
{
	Oid			left = InvalidOid;
	Oid			right = InvalidOid;
	ListCell   *lc;

	if (operator < FirstUnpinnedObjectId)
		return false;
	(void) get_op_hash_functions(operator, &left, &right);
	if ((OidIsValid(left) && is_not_for_leader(left, search)) ||
		(OidIsValid(right) && is_not_for_leader(right, search)))
		return true;
	foreach(lc, get_mergejoin_opfamilies(operator))
	{
		Oid			type_left;
		Oid			type_right;
		Oid			function;

		op_input_types(operator, &type_left, &type_right);
		function = get_opfamily_proc(lfirst_oid(lc), type_left, type_right, BTORDER_PROC);
		if (OidIsValid(function) && is_not_for_leader(function, search))
			return true;
	}
	return false;
}

/*
 * The functions that sort and group, of which the operators' own are only a part.
 */
static bool
order_must_not(const SortGroupClause *clause, LeaderSearch *search)
{
	Oid			functions[3] = {InvalidOid};
	Oid			opfamily;
	Oid			type;
	OrderingKind_compat kind;
	bool		found = false;

	if (OidIsValid(clause->eqop))
	{
		if (operator_must_not(clause->eqop, search))
			return true;
		functions[0] = get_opcode(clause->eqop);
	}
	if (OidIsValid(clause->sortop))
	{
		functions[1] = get_opcode(clause->sortop);
		if (get_ordering_op_properties(clause->sortop, &opfamily, &type, &kind))
			functions[2] = get_opfamily_proc(opfamily, type, type, BTORDER_PROC);
	}
	for (int i = 0; i < lengthof(functions) && !found; i++)
		found = OidIsValid(functions[i]) && is_not_for_leader(functions[i], search);
	return found;
}

static bool
leader_must_not(Node *node, void *context)
{
	LeaderSearch *search = context;

	if (node == NULL)
		return false;
	if (IsA(node, SortGroupClause))
		return order_must_not((SortGroupClause *) node, search);
	if (check_functions_in_node(node, is_not_for_leader, context))
		return true;
	if (IsA(node, OpExpr) && operator_must_not(castNode(OpExpr, node)->opno, search))
		return true;
	if (IsA(node, ScalarArrayOpExpr) &&
		operator_must_not(castNode(ScalarArrayOpExpr, node)->opno, search))
		return true;
	if (IsA(node, NextValueExpr))
	{
		search->found = "a sequence is drawn from";
		return true;
	}
	if (IsA(node, Aggref) && aggregate_must_not(((Aggref *) node)->aggfnoid, search))
		return true;
	if (IsA(node, WindowFunc) && aggregate_must_not(((WindowFunc *) node)->winfnoid, search))
		return true;
	if (IsA(node, CoerceToDomain) && domain_must_not(((CoerceToDomain *) node)->resulttype, search))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, leader_must_not, context, QTW_EXAMINE_SORTGROUP);
	if (IsA(node, SetOperationStmt) && leader_must_not((Node *) ((SetOperationStmt *) node)->groupClauses, context))
		return true;
	return expression_tree_walker(node, leader_must_not, context);
}

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
static bool
opclass_must_not(Relation index, LeaderSearch *search)
{
	int			functions = IndexRelationGetNumberOfKeyAttributes(index) * index->rd_indam->amsupport;

	for (int i = 0; i < functions; i++)
	{
		if (OidIsValid(index->rd_support[i]) && is_not_for_leader(index->rd_support[i], search))
			return true;
	}
	return false;
}

static const char *
index_refusal(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	LeaderSearch search = {0};
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisexclusion)
			search.found = "the table has an exclusion constraint";
		else if (!opclass_must_not(index, &search) &&
				 !leader_must_not((Node *) RelationGetIndexExpressions(index), &search))
			(void) leader_must_not((Node *) RelationGetIndexPredicate(index), &search);
		index_close(index, NoLock);
		if (search.found)
			break;
	}
	list_free(indexes);
	return search.found;
}

/*
 * A column that the statement does not name gets a NULL that its domain checks.
 */
static const char *
domain_refusal(TupleDesc desc)
{
	LeaderSearch search = {0};

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, i);

		if (!attr->attisdropped && get_typtype(attr->atttypid) == TYPTYPE_DOMAIN &&
			domain_must_not(attr->atttypid, &search))
			return search.found;
	}
	return NULL;
}

static const char *
constraint_refusal(TupleDesc desc)
{
	TupleConstr *constr = desc->constr;
	LeaderSearch search = {0};

	if (constr == NULL)
		return NULL;
	for (int i = 0; i < constr->num_check; i++)
	{
		if (leader_must_not(stringToNode(constr->check[i].ccbin), &search))
			return search.found;
	}
	for (int i = 0; i < constr->num_defval; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, constr->defval[i].adnum - 1);

		if (!attr->attgenerated)
			continue;
		if (get_typtype(attr->atttypid) == TYPTYPE_DOMAIN)
			return "a generated column is of a domain";
		if (leader_must_not(stringToNode(constr->defval[i].adbin), &search))
			return search.found;
	}
	return NULL;
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
	LeaderSearch in_query = {.query = true};
	LeaderSearch in_returning = {0};
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
	if (leader_must_not((Node *) parse->returningList, &in_returning))
		return in_returning.found;
	if (leader_must_not((Node *) parse, &in_query))
		return in_query.found;
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

static int	highest_node_id(Plan *plan);

static int
highest_of_list(List *plans)
{
	int			result = 0;
	ListCell   *lc;

	foreach(lc, plans)
		result = Max(result, highest_node_id(lfirst(lc)));
	return result;
}

static int
highest_node_id(Plan *plan)
{
	int			result;

	if (plan == NULL)
		return 0;
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_Append:
			result = highest_of_list(((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			result = highest_of_list(((MergeAppend *) plan)->mergeplans);
			break;
		case T_BitmapAnd:
			result = highest_of_list(((BitmapAnd *) plan)->bitmapplans);
			break;
		case T_BitmapOr:
			result = highest_of_list(((BitmapOr *) plan)->bitmapplans);
			break;
		case T_SubqueryScan:
			result = highest_node_id(((SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			result = highest_of_list(((CustomScan *) plan)->custom_plans);
			break;
		default:
			result = 0;
			break;
	}
	result = Max(result, plan->plan_node_id);
	result = Max(result, highest_node_id(plan->lefttree));
	return Max(result, highest_node_id(plan->righttree));
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
	plan->plan_node_id = Max(highest_node_id(rows), highest_of_list(source->subplans)) + 1;
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

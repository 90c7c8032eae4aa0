/*-------------------------------------------------------------------------
 *
 * gathered_hooks.c
 *	  Planner hooks: what is known of temporary tables that were not analyzed.
 *
 * The planner asks for the size of a table, for the statistics of a column, and for its
 * width.  If the catalogs have none and the table is a temporary heap of this session, the
 * answer is what was gathered from it (gathered.c).
 *
 * Invariant: whether a user may see a column's values is decided as in the server, by the
 * relation that the query names.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "nodes/pathnodes.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

#include "buffers/buffers.h"
#include "compat_planner.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "query.h"
#include "statistics/gathered.h"

/* As many pages as the server takes any small table for that was never vacuumed. */
#define FEW_PAGES 10

/* A table that is not sampled in the planner run of this number. */
static struct
{
	Oid			relid;
	uint64		planning;
}			skipped;

static struct
{
	relation_info_hook_type_compat relation_info;
	get_relation_stats_hook_type relation_stats;
	get_attavgwidth_hook_type width;
}			next;

/*
 * Is this a table that we look at?
 */
static bool
is_ours(Relation rel)
{
	return rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP && rel->rd_islocaltemp &&
		rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_rel->relam == HEAP_TABLE_AM_OID;
}

/*
 * Is there a query?  For CLUSTER, REPACK and CREATE INDEX the server compares costs with
 * a Query that has only a range table.  The server's estimates are used then.
 */
static bool
is_for_query(PlannerInfo *root)
{
	return root->parse->jointree != NULL;
}

/*
 * Is a table of few pages all that the query reads?  Then no choice of a plan is
 * worth a sample, and such queries are short and frequent.
 */
static bool
is_small_and_alone(Relation rel, PlannerInfo *root)
{
	Node	   *from = (Node *) root->parse->jointree;

	if (root->parent_root != NULL || root->parse->hasSubLinks || root->parse->cteList != NIL ||
		pt_relfile_known_blocks(rel) > FEW_PAGES)
		return false;
	while (IsA(from, FromExpr) && list_length(((FromExpr *) from)->fromlist) == 1)
		from = linitial(((FromExpr *) from)->fromlist);
	return IsA(from, RangeTblRef);
}

/*
 * Only what is known already: this is asked for every column of a result.
 */
static int32
gathered_width(Oid relid, AttrNumber attno)
{
	int32		width = next.width ? next.width(relid, attno) : 0;
	Gathered   *table;

	if (width > 0 || attno <= 0)
		return width;
	table = pt_gathered_known(relid);
	if (table == NULL || attno > table->natts || table->widths[attno - 1] == 0 ||
		SearchSysCacheExists3(STATRELATTINH, ObjectIdGetDatum(relid), Int16GetDatum(attno), BoolGetDatum(false)))
		return 0;
	return table->widths[attno - 1];
}

static void
gathered_relation_info(RELATION_INFO_PARAMS_compat)
{
	Oid			relid = RelationInfoRelid_compat;
	Relation	rel;
	Gathered   *table;

	if (next.relation_info)
		next.relation_info(RELATION_INFO_ARGS_compat);
	if (!pt_statistics || RelationInfoInh_compat || !OidIsValid(relid) || !is_for_query(root))
		return;
	rel = table_open(relid, NoLock);
	/* what a VACUUM, an ANALYZE or a new index has counted stands */
	if (!is_ours(rel))
		;
	else if (is_small_and_alone(rel, root))
	{
		skipped.relid = relid;
		skipped.planning = pt_running.plannings;
	}
	else if (rel->rd_rel->reltuples < 0 && (table = pt_gathered_table(rel, root)) != NULL)
	{
		ListCell   *lc;

		/* the server takes a table that was never vacuumed for ten pages */
		info->pages = pt_relfile_known_blocks(rel);
		info->tuples = rint(table->density * info->pages);
		for (int i = 0; i < table->natts; i++)
		{
			if (i + 1 <= info->max_attr && table->widths[i] > 0)
				info->attr_widths[i + 1 - info->min_attr] = gathered_width(relid, i + 1);
		}
		foreach(lc, info->indexlist)
		{
			IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

			index->tuples = index->indpred == NIL ? info->tuples : Min(index->tuples, info->tuples);
		}
		pt_explain_statistics(relid);
	}
	table_close(rel, NoLock);
}

/*
 * May the user read this column of all rows?  If not, the estimator passes values of
 * the statistics only to leakproof functions.  As the server's all_rows_selectable(),
 * which the first minor releases of 15, 16 and 17 do not have: privileges and policies
 * are those of the table that the query names, so of the topmost parent of an
 * inheritance tree.  The entry of a child never has policies.
 */
static bool
column_is_selectable(PlannerInfo *root, const RangeTblEntry *entry, AttrNumber attno)
{
	Index		varno = 1;
	RangeTblEntry *rte;
	Oid			role;

	while (varno < root->simple_rel_array_size && root->simple_rte_array[varno] != entry)
		varno++;
	if (varno >= root->simple_rel_array_size)
		return false;
	while (root->append_rel_array != NULL && root->append_rel_array[varno] != NULL)
	{
		AppendRelInfo *child = root->append_rel_array[varno];

		/* a branch of UNION ALL is named by the query itself */
		if (planner_rt_fetch(child->parent_relid, root)->rtekind != RTE_RELATION)
			break;
		if (attno > child->num_child_cols || child->parent_colnos[attno - 1] == 0)
			return false;
		attno = child->parent_colnos[attno - 1];
		varno = child->parent_relid;
	}
	rte = planner_rt_fetch(varno, root);
	if (rte->securityQuals != NIL)
		return false;
	role = RelationReader_compat(root, varno);
	return pg_class_aclcheck(rte->relid, role, ACL_SELECT) == ACLCHECK_OK ||
		pg_attribute_aclcheck(rte->relid, attno, role, ACL_SELECT) == ACLCHECK_OK;
}

static bool
gathered_relation_stats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno, VariableStatData *vardata)
{
	Relation	rel;
	Gathered   *table;
	HeapTuple	column = NULL;

	if (next.relation_stats && next.relation_stats(root, rte, attno, vardata))
		return true;
	if (!pt_statistics || !is_for_query(root) || (skipped.relid == rte->relid && skipped.planning == pt_running.plannings))
		return false;
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION || rte->inh || attno <= 0 ||
		get_rel_persistence(rte->relid) != RELPERSISTENCE_TEMP ||
		SearchSysCacheExists3(STATRELATTINH, ObjectIdGetDatum(rte->relid), Int16GetDatum(attno), BoolGetDatum(false)))
		return false;

	rel = table_open(rte->relid, NoLock);
	if (is_ours(rel) && (table = pt_gathered_table(rel, root)) != NULL)
		column = pt_gathered_column(table, rel, attno, root);
	table_close(rel, NoLock);
	if (column == NULL)
		return false;
	vardata->statsTuple = heap_copytuple(column);
	vardata->freefunc = heap_freetuple;
	vardata->acl_ok = column_is_selectable(root, rte, attno);
	pt_explain_statistics(rte->relid);
	return true;
}

void
pt_gathered_install(void)
{
	next.relation_info = relation_info_hook_compat;
	relation_info_hook_compat = gathered_relation_info;
	next.relation_stats = get_relation_stats_hook;
	get_relation_stats_hook = gathered_relation_stats;
	next.width = get_attavgwidth_hook;
	get_attavgwidth_hook = gathered_width;
}

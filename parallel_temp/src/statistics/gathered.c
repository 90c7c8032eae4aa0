/*-------------------------------------------------------------------------
 *
 * gathered.c
 *	  Statistics of temporary tables that were not analyzed: gathered, kept, forgotten.
 *
 * Autovacuum does not see temporary tables.  Until ANALYZE is run the planner
 * guesses how many rows such a table has, from the types of its columns, and knows
 * nothing of their values.  When it asks for a table's size or a column for the first
 * time, a sample is taken from the table (sample.c), which is in memory as a rule, and
 * what ANALYZE would have computed for that column is kept in this session's memory:
 * no catalog row, nothing for columns that are not used, and nothing while a table
 * is filled.
 *
 * Invariants: Once the user has analyzed a table, the catalogs have precedence.
 * The kept statistics are used while the table's file is the same one, about as long as it
 * was, and few of its rows were changed since (then plans that were made with it are also
 * rebuilt); and not after the rollback of a transaction
 * that had changed or sampled it.  The rows that were sampled are kept
 * for columns that are needed later, unless they are many or have values stored
 * out of line, which may be removed: then only while one statement is planned.
 *
 * No sample is taken while a load fills the table or while there are workers, which read
 * pages that must not move.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/pathnodes.h"
#include "parser/parsetree.h"
#include "storage/sinval.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "buffers/buffers.h"
#include "compat_planner.h"
#include "load/fastload.h"
#include "parallel_temp.h"
#include "query.h"
#include "statistics/gathered.h"

/* Changed rows after which a table is sampled again: those of autovacuum. */
#define CHANGED_ROWS 50
#define CHANGED_PART 0.1

/* A sample of this size is kept, and of all tables together so much. */
#define KEEP_BYTES (1536 * 1024)
#define KEEP_ALL_BYTES (32 * 1024 * 1024)

int			pt_gathered_tables = 0;

static HTAB *tables = NULL;
static MemoryContext gathered_context = NULL;
static bool sampling = false;
static Size kept_bytes = 0;		/* of samples that are kept */
static int	deepest_level = 0;	/* the largest level of a table */

static void
relation_invalidated(Datum arg, Oid relid)
{
	Gathered   *table = tables != NULL && OidIsValid(relid) ? hash_search(tables, &relid, HASH_FIND, NULL) : NULL;

	if (table != NULL)
		table->stale = true;
}

static void
transaction_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		pt_gathered_end_level(1, event == XACT_EVENT_ABORT);
}

/*
 * Plans of this session that were made with a table's statistics are made again.  No other
 * session has plans over the table, so no message is sent, and nothing is written to WAL.
 */
static void
forget_plans(Oid relid)
{
	SharedInvalidationMessage message;

	memset(&message, 0, sizeof(message));
	message.rc.id = SHAREDINVALRELCACHE_ID;
	message.rc.dbId = MyDatabaseId;
	message.rc.relId = relid;
	LocalExecuteInvalidationMessage(&message);
}

/*
 * Look again before it is used; plans that were made with it are made again.
 */
static void
out_of_date(Gathered *table)
{
	if (table->stale)
		return;
	table->stale = true;
	forget_plans(table->relid);
}

void
pt_gathered_end_level(int level, bool aborted)
{
	HASH_SEQ_STATUS scan;
	Gathered   *table;

	/* at the end of most transactions there is nothing to do for many tables */
	if (pt_gathered_tables == 0 || deepest_level < level)
		return;
	hash_seq_init(&scan, tables);
	while ((table = hash_seq_search(&scan)) != NULL)
	{
		if (table->level < level)
			continue;
		if (aborted)
			out_of_date(table);
		table->level = level - 1;
	}
	deepest_level = level - 1;
}

/*
 * The transaction of this level may undo what is known of the table.
 */
static void
set_level(Gathered *table, int level)
{
	table->level = level;
	deepest_level = Max(deepest_level, level);
}

void
pt_gathered_dropped(Oid relid)
{
	Gathered   *table = pt_gathered_tables > 0 ? hash_search(tables, &relid, HASH_FIND, NULL) : NULL;

	if (table != NULL)
		table->stale = table->dropped = true;
}

/*
 * Forget tables that are gone: dropped, whether or not that is undone yet, or never
 * committed, which the catalogs tell.  Only where these can be read.
 */
static void
forget_dropped(void)
{
	HASH_SEQ_STATUS scan;
	Gathered   *table;

	hash_seq_init(&scan, tables);
	while ((table = hash_seq_search(&scan)) != NULL)
	{
		Oid			relid = table->relid;

		if (!table->stale || (!table->dropped && SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid))))
			continue;
		/* the search may have brought invalidations, but removes nothing */
		if (table->context != NULL)
			MemoryContextDelete(table->context);
		if (table->sample != NULL)
			MemoryContextDelete(table->sample->context);
		hash_search(tables, &relid, HASH_REMOVE, NULL);
		pt_gathered_tables--;
	}
}

static Gathered *
new_table(Oid relid)
{
	Gathered   *table;

	if (tables == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Gathered)};

		gathered_context = AllocSetContextCreate(TopMemoryContext, "parallel_temp statistics", ALLOCSET_DEFAULT_SIZES);
		ctl.hcxt = gathered_context;
		tables = hash_create("parallel_temp statistics", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
		RegisterXactCallback(transaction_callback, NULL);
	}
	forget_dropped();
	table = hash_search(tables, &relid, HASH_ENTER, NULL);
	memset(table, 0, sizeof(Gathered));
	table->relid = relid;
	pt_gathered_tables++;
	return table;
}

static void
sample_is_gone(void *arg)
{
	Gathered   *table = arg;

	if (table->keep_sample)
		kept_bytes -= table->sample->bytes;
	table->sample = NULL;
}

/*
 * A small sample stays for further columns.  Others go when the statement is planned.
 */
static void
take_sample(Gathered *table, Relation rel, PlannerInfo *root)
{
	if (table->sample != NULL)
		MemoryContextDelete(table->sample->context);
	sampling = true;
	PG_TRY();
	{
		table->sample = pt_sample_table(rel, root->planner_cxt);
	}
	PG_FINALLY();
	{
		sampling = false;
	}
	PG_END_TRY();
	table->keep_sample = !table->sample->external && table->sample->bytes <= KEEP_BYTES &&
		kept_bytes + table->sample->bytes <= KEEP_ALL_BYTES;
	table->sample_planning = pt_running.plannings;
	table->sample_gone.func = sample_is_gone;
	table->sample_gone.arg = table;
	MemoryContextRegisterResetCallback(table->sample->context, &table->sample_gone);
	if (table->keep_sample)
	{
		kept_bytes += table->sample->bytes;
		MemoryContextSetParent(table->sample->context, gathered_context);
	}
}

static bool
changed_too_much(const Gathered *table)
{
	return table->changed > CHANGED_ROWS + CHANGED_PART * table->density * table->pages;
}

static bool
is_valid(const Gathered *table, Relation rel, BlockNumber pages)
{
	return !table->stale && table->relfilenode == rel->rd_rel->relfilenode &&
		table->natts == RelationGetNumberOfAttributes(rel) &&
		pages <= table->pages + table->pages / 8 + 1 && pages >= table->pages - table->pages / 8 &&
		!changed_too_much(table);
}

static bool
may_sample(Relation rel)
{
	FastFill   *fill;

	if (sampling || IsInParallelMode() || !ActiveSnapshotSet() || !IsMVCCSnapshot(GetActiveSnapshot()))
		return false;
	foreach_fill(fill)
	{
		if (fill->relid == RelationGetRelid(rel))
			return false;
	}
	return true;
}

Gathered *
pt_gathered_table(Relation rel, PlannerInfo *root)
{
	Oid			relid = RelationGetRelid(rel);
	Gathered   *table = tables != NULL ? hash_search(tables, &relid, HASH_FIND, NULL) : NULL;
	BlockNumber pages;

	/* asked for each clause: once is enough */
	if (table != NULL && !table->stale && table->planning == pt_running.plannings)
		return table;
	pages = pt_relfile_known_blocks(rel);
	if (table != NULL && is_valid(table, rel, pages))
	{
		table->planning = pt_running.plannings;
		return table;
	}
	if (pages == 0 || !may_sample(rel))
		return NULL;
	if (table == NULL)
		table = new_table(relid);

	/* until it is done nothing is known */
	table->stale = true;
	table->dropped = false;
	if (table->context != NULL)
		MemoryContextDelete(table->context);
	table->context = NULL;
	take_sample(table, rel, root);

	table->context = AllocSetContextCreate(gathered_context, "parallel_temp table", ALLOCSET_SMALL_SIZES);
	table->natts = RelationGetNumberOfAttributes(rel);
	table->widths = MemoryContextAllocZero(table->context, sizeof(int32) * table->natts);
	table->known = MemoryContextAllocZero(table->context, sizeof(bool) * table->natts);
	table->columns = MemoryContextAllocZero(table->context, sizeof(HeapTuple) * table->natts);
	pt_sample_widths(rel, table->sample, table->widths);
	table->relfilenode = rel->rd_rel->relfilenode;
	set_level(table, GetCurrentTransactionNestLevel());
	table->pages = pages;
	table->density = table->sample->density;
	table->sampled = table->sample->nrows;
	table->changed = 0;
	table->planning = pt_running.plannings;
	table->stale = false;
	return table;
}

Gathered *
pt_gathered_known(Oid relid)
{
	Gathered   *table = pt_statistics && pt_gathered_tables > 0 ? hash_search(tables, &relid, HASH_FIND, NULL) : NULL;

	return table != NULL && !table->stale ? table : NULL;
}

HeapTuple
pt_gathered_column(Gathered *table, Relation rel, AttrNumber attno, PlannerInfo *root)
{
	if (attno > table->natts)
		return NULL;
	if (!table->known[attno - 1])
	{
		MemoryContext context = table->context;
		HeapTuple	column;

		if (table->sample == NULL || (!table->keep_sample && table->sample_planning != pt_running.plannings))
		{
			if (!may_sample(rel))
				return NULL;
			take_sample(table, rel, root);
		}
		column = pt_sample_column(rel, table->sample, attno, rint(table->density * pt_relfile_known_blocks(rel)), context);
		table->columns[attno - 1] = column;
		table->known[attno - 1] = true;
	}
	return table->columns[attno - 1];
}

static void
count_changed(Gathered *table, uint64 rows)
{
	table->changed += rows;
	set_level(table, Max(table->level, GetCurrentTransactionNestLevel()));
	if (changed_too_much(table))
		out_of_date(table);
}

void
pt_gathered_count_changes(QueryDesc *queryDesc)
{
	PlannedStmt *plan = queryDesc->plannedstmt;
	uint64		rows = queryDesc->estate->es_processed;
	bool		routed = false;
	HASH_SEQ_STATUS scan;
	Gathered   *table;

	if (pt_gathered_tables == 0)
		return;
	if (ResultRelationsCount_compat(plan) == 1 && !plan->hasModifyingCTE)
	{
		RangeTblEntry *rte = rt_fetch(ResultRelationFirst_compat(plan), plan->rtable);

		routed = rte->relkind == RELKIND_PARTITIONED_TABLE;
		if (!routed)
		{
			table = hash_search(tables, &rte->relid, HASH_FIND, NULL);
			if (table != NULL)
				count_changed(table, rows);
			return;
		}
	}

	/*
	 * Rows of several tables, or in a WITH: how many of each is not known;
	 * nor which partitions rows were put into, but no more than all of them.
	 */
	hash_seq_init(&scan, tables);
	while ((table = hash_seq_search(&scan)) != NULL)
	{
		if (!routed)
		{
			if (list_member_oid(plan->relationOids, table->relid))
				out_of_date(table);
		}
		else if (get_rel_relispartition(table->relid))
			count_changed(table, rows);
	}
}

void
pt_gathered_emptied(Oid relid)
{
	Gathered   *table = pt_gathered_tables > 0 ? hash_search(tables, &relid, HASH_FIND, NULL) : NULL;

	if (table != NULL)
		count_changed(table, (uint64) rint(table->density * table->pages));
}

/*
 * A COPY has run; how many rows it has added, and to which partitions, is not known.
 */
void
pt_gathered_after_copy(CopyStmt *copy)
{
	HASH_SEQ_STATUS scan;
	Gathered   *table;
	Oid			relid;
	bool		partitioned;

	if (!copy->is_from || pt_gathered_tables == 0)
		return;
	relid = RangeVarGetRelid(copy->relation, NoLock, true);
	partitioned = OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE;
	hash_seq_init(&scan, tables);
	while ((table = hash_seq_search(&scan)) != NULL)
	{
		if (table->relid == relid || (partitioned && get_rel_relispartition(table->relid)))
			out_of_date(table);
	}
}

void
pt_gathered_each(void (*function) (Gathered *table, void *argument), void *argument)
{
	HASH_SEQ_STATUS scan;
	Gathered   *table;

	if (pt_gathered_tables == 0)
		return;
	forget_dropped();
	hash_seq_init(&scan, tables);
	while ((table = hash_seq_search(&scan)) != NULL)
	{
		if (!table->stale)
			function(table, argument);
	}
}

/*-------------------------------------------------------------------------
 *
 * parallel_test_planless.c
 *	  What the tests load and is never installed: a library as others may write it.
 *
 * It has a function that puts rows into a table without a plan.  No hook sees such
 * rows, so a load that fills the same table must notice them.  And it has data under a
 * name of parallel_temp's, which must leave it alone where this one is loaded first.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "fmgr.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(insert_without_plan);
PG_FUNCTION_INFO_V1(own_data_is_untouched);

extern PGDLLEXPORT char pt_running[4096];
char		pt_running[4096];

/*
 * own_data_is_untouched() -> boolean
 */
Datum
own_data_is_untouched(PG_FUNCTION_ARGS)
{
	for (int i = 0; i < (int) sizeof(pt_running); i++)
	{
		if (pt_running[i] != 0)
			PG_RETURN_BOOL(false);
	}
	PG_RETURN_BOOL(true);
}

/*
 * insert_without_plan(rel oid, n integer) -> void: n rows of nulls.
 */
Datum
insert_without_plan(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);
	int			natts = RelationGetDescr(rel)->natts;
	Datum	   *values = palloc0(sizeof(Datum) * natts);
	bool	   *nulls = palloc(sizeof(bool) * natts);

	memset(nulls, true, sizeof(bool) * natts);
	for (int i = 0; i < PG_GETARG_INT32(1); i++)
	{
		HeapTuple	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);

		simple_heap_insert(rel, tuple);
		heap_freetuple(tuple);
	}
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

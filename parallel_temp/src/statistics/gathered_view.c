/*-------------------------------------------------------------------------
 *
 * gathered_view.c
 *	  Function behind the view of gathered statistics.
 *
 * One row for each column that the planner has asked for; what it says is read out of
 * the same tuple that the planner gets.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "catalog/pg_statistic.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/tuplestore.h"

#include "buffers/buffers.h"
#include "statistics/gathered.h"

#define COLUMNS 12

PG_FUNCTION_INFO_V1(pg_temp_stats_info);

typedef struct ViewState
{
	ReturnSetInfo *rsinfo;
	TupleDesc	desc;			/* of pg_statistic */
} ViewState;

/*
 * The slot of a kind, or -1.
 */
static int
slot_of(Form_pg_statistic form, int kind)
{
	for (int k = 0; k < STATISTIC_NUM_SLOTS; k++)
	{
		if ((&form->stakind1)[k] == kind)
			return k;
	}
	return -1;
}

static Datum
slot_array(ViewState *state, HeapTuple tuple, int first, int slot, bool *isnull)
{
	*isnull = true;
	if (slot < 0)
		return (Datum) 0;
	return heap_getattr(tuple, first + slot, state->desc, isnull);
}

static void
put_text(Datum array, bool isnull, Datum *value, bool *null)
{
	*null = isnull;
	if (!isnull)
		*value = CStringGetTextDatum(OidOutputFunctionCall(F_ARRAY_OUT, array));
}

static void
put_table(Gathered *table, void *argument)
{
	ViewState  *state = argument;

	/* who sees every row */
	if (check_enable_rls(table->relid, InvalidOid, true) == RLS_ENABLED)
		return;
	for (int i = 0; i < table->natts; i++)
	{
		HeapTuple	tuple = table->columns[i];
		Datum		values[COLUMNS] = {0};
		bool		nulls[COLUMNS] = {0};
		Form_pg_statistic form;
		Datum		array;
		bool		isnull;

		if (tuple == NULL ||
			(pg_class_aclcheck(table->relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
			 pg_attribute_aclcheck(table->relid, i + 1, GetUserId(), ACL_SELECT) != ACLCHECK_OK))
			continue;
		form = (Form_pg_statistic) GETSTRUCT(tuple);
		values[0] = ObjectIdGetDatum(table->relid);
		values[1] = Int16GetDatum(form->staattnum);
		values[2] = Float8GetDatum(rint(table->density * table->pages));
		values[3] = Int32GetDatum(table->sampled);
		values[4] = Float8GetDatum(table->changed);
		values[5] = Float4GetDatum(form->stanullfrac);
		values[6] = Int32GetDatum(form->stawidth);
		values[7] = Float4GetDatum(form->stadistinct);
		array = slot_array(state, tuple, Anum_pg_statistic_stavalues1, slot_of(form, STATISTIC_KIND_MCV), &isnull);
		put_text(array, isnull, &values[8], &nulls[8]);
		values[9] = slot_array(state, tuple, Anum_pg_statistic_stanumbers1, slot_of(form, STATISTIC_KIND_MCV), &nulls[9]);
		array = slot_array(state, tuple, Anum_pg_statistic_stavalues1, slot_of(form, STATISTIC_KIND_HISTOGRAM), &isnull);
		put_text(array, isnull, &values[10], &nulls[10]);
		array = slot_array(state, tuple, Anum_pg_statistic_stanumbers1, slot_of(form, STATISTIC_KIND_CORRELATION), &nulls[11]);
		if (!nulls[11])
			values[11] = Float4GetDatum(((float4 *) ARR_DATA_PTR(DatumGetArrayTypeP(array)))[0]);
		tuplestore_putvalues(state->rsinfo->setResult, state->rsinfo->setDesc, values, nulls);
	}
}

/*
 * pg_temp_stats_info() -> one row for each column that statistics are kept of.
 */
Datum
pg_temp_stats_info(PG_FUNCTION_ARGS)
{
	ViewState	state = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo};
	Relation	catalog;

	pt_require_leader();
	InitMaterializedSRF(fcinfo, 0);
	catalog = table_open(StatisticRelationId, AccessShareLock);
	state.desc = RelationGetDescr(catalog);
	pt_gathered_each(put_table, &state);
	table_close(catalog, AccessShareLock);
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * sample_column.c
 *	  Statistics of a column, computed from a sample.
 *
 * They are a row of pg_statistic that is in no catalog, computed by the type's own
 * function, that of ANALYZE; values that can be sorted faster come to it in order
 * (sample_order.c).  Only built-in functions are called: an error would fail
 * a statement that the server would have planned.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "commands/vacuum.h"
#include "utils/array.h"
#include "utils/attoptcache.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat_statistics.h"
#include "statistics/gathered.h"

static Datum
fetch_value(VacAttrStatsP stats, int rownum, bool *isnull)
{
	return heap_getattr(stats->rows[rownum], stats->tupattnum, stats->tupDesc, isnull);
}

/*
 * Are a type's comparisons, and the functions of ANALYZE for it, built in?
 * *less_than gets the operator by which the server's function for scalar types sorts, if
 * it is that function.
 */
static bool
type_is_the_servers(Oid type, Form_pg_type form, Oid *less_than)
{
	TypeCacheEntry *entry;

	if (form->typanalyze >= FirstNormalObjectId)
		return false;
	if (type >= FirstNormalObjectId && form->typtype != TYPTYPE_ENUM)
		return false;
	if (OidIsValid(form->typelem) && form->typelem >= FirstNormalObjectId)
		return false;
	if (form->typtype == TYPTYPE_COMPOSITE || form->typtype == TYPTYPE_PSEUDO)
		return false;
	entry = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR);
	*less_than = !OidIsValid(form->typanalyze) && OidIsValid(entry->eq_opr) ? entry->lt_opr : InvalidOid;
	return entry->eq_opr < FirstNormalObjectId && entry->lt_opr < FirstNormalObjectId;
}

/*
 * Prepare what the type's function wants to know, and let it say what it would do.
 * False if it would do nothing.
 */
static bool
examine_column(Relation rel, AttrNumber attno, VacAttrStats *stats, Oid *less_than)
{
	Form_pg_attribute attr = TupleDescAttr(RelationGetDescr(rel), attno - 1);
	HeapTuple	type;
	Oid			typeid = getBaseType(attr->atttypid);

	if (attr->attisdropped || !StatsTargetSet_compat(stats, rel, attr))
		return false;
	type = SearchSysCacheCopy1(TYPEOID, ObjectIdGetDatum(typeid));
	if (!HeapTupleIsValid(type))
		return false;
	stats->attrtypid = typeid;
	stats->attrtypmod = attr->atttypmod;
	stats->attrcollid = attr->attcollation;
	stats->attrtype = (Form_pg_type) GETSTRUCT(type);
	stats->anl_context = CurrentMemoryContext;
	stats->tupattnum = attno;
	for (int i = 0; i < STATISTIC_NUM_SLOTS; i++)
	{
		stats->statypid[i] = stats->attrtypid;
		stats->statyplen[i] = stats->attrtype->typlen;
		stats->statypbyval[i] = stats->attrtype->typbyval;
		stats->statypalign[i] = stats->attrtype->typalign;
	}
	if (!type_is_the_servers(typeid, stats->attrtype, less_than))
		return false;
	if (OidIsValid(stats->attrtype->typanalyze))
	{
		if (!DatumGetBool(OidFunctionCall1(stats->attrtype->typanalyze, PointerGetDatum(stats))))
			return false;
	}
	else if (!std_typanalyze(stats))
		return false;
	return stats->compute_stats != NULL;
}

/*
 * The row of pg_statistic.
 */
static HeapTuple
form_statistics(Relation rel, AttrNumber attno, VacAttrStats *stats)
{
	Relation	catalog = table_open(StatisticRelationId, AccessShareLock);
	Datum		values[Natts_pg_statistic] = {0};
	bool		nulls[Natts_pg_statistic] = {0};
	HeapTuple	result;

	values[Anum_pg_statistic_starelid - 1] = ObjectIdGetDatum(RelationGetRelid(rel));
	values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(attno);
	values[Anum_pg_statistic_stainherit - 1] = BoolGetDatum(false);
	values[Anum_pg_statistic_stanullfrac - 1] = Float4GetDatum(stats->stanullfrac);
	values[Anum_pg_statistic_stawidth - 1] = Int32GetDatum(stats->stawidth);
	values[Anum_pg_statistic_stadistinct - 1] = Float4GetDatum(stats->stadistinct);
	for (int k = 0; k < STATISTIC_NUM_SLOTS; k++)
	{
		int			numbers = stats->numnumbers[k];

		values[Anum_pg_statistic_stakind1 - 1 + k] = Int16GetDatum(stats->stakind[k]);
		values[Anum_pg_statistic_staop1 - 1 + k] = ObjectIdGetDatum(stats->staop[k]);
		values[Anum_pg_statistic_stacoll1 - 1 + k] = ObjectIdGetDatum(stats->stacoll[k]);
		nulls[Anum_pg_statistic_stanumbers1 - 1 + k] = numbers <= 0;
		nulls[Anum_pg_statistic_stavalues1 - 1 + k] = stats->numvalues[k] <= 0;
		if (numbers > 0)
		{
			Datum	   *datums = palloc(sizeof(Datum) * numbers);

			for (int i = 0; i < numbers; i++)
				datums[i] = Float4GetDatum(stats->stanumbers[k][i]);
			values[Anum_pg_statistic_stanumbers1 - 1 + k] =
				PointerGetDatum(construct_array(datums, numbers, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT));
		}
		if (stats->numvalues[k] > 0)
			values[Anum_pg_statistic_stavalues1 - 1 + k] =
				PointerGetDatum(construct_array(stats->stavalues[k], stats->numvalues[k], stats->statypid[k],
												stats->statyplen[k], stats->statypbyval[k], stats->statypalign[k]));
	}
	result = heap_form_tuple(RelationGetDescr(catalog), values, nulls);
	table_close(catalog, AccessShareLock);
	return result;
}

/*
 * Let the type's function compute what it does; "in_order" has the values in order if it
 * is faster so.
 */
static bool
compute_column(Relation rel, const TableSample *sample, AttrNumber attno, double total_rows, bool in_order, OrderedColumn *column)
{
	VacAttrStats *stats = &column->stats;
	Oid			less_than = InvalidOid;

	if (!examine_column(rel, attno, stats, &less_than))
		return false;
	stats->rows = sample->rows;
	stats->tupDesc = RelationGetDescr(rel);
	in_order = in_order && pt_sample_order(column, less_than, sample->nrows);
	stats->compute_stats(stats, in_order ? pt_sample_ordered_value : fetch_value, sample->nrows, Max(total_rows, sample->nrows));
	if (in_order)
		pt_sample_set_correlation(column);
	return stats->stats_valid;
}

#ifdef USE_ASSERT_CHECKING
/*
 * Are these the same statistics, to the last digit?
 */
static bool
computed_alike(const VacAttrStats *a, const VacAttrStats *b)
{
	if (a->stanullfrac != b->stanullfrac || a->stawidth != b->stawidth || a->stadistinct != b->stadistinct)
		return false;
	for (int k = 0; k < STATISTIC_NUM_SLOTS; k++)
	{
		if (a->stakind[k] != b->stakind[k] || a->numnumbers[k] != b->numnumbers[k] || a->numvalues[k] != b->numvalues[k])
			return false;
		if (a->numnumbers[k] > 0 && memcmp(a->stanumbers[k], b->stanumbers[k], sizeof(float4) * a->numnumbers[k]) != 0)
			return false;
		for (int i = 0; i < a->numvalues[k]; i++)
		{
			if (!datumIsEqual(a->stavalues[k][i], b->stavalues[k][i], a->statypbyval[k], a->statyplen[k]))
				return false;
		}
	}
	return true;
}
#endif

HeapTuple
pt_sample_column(Relation rel, TableSample *sample, AttrNumber attno, double total_rows, MemoryContext context)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "parallel_temp column", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	OrderedColumn *column = palloc0(sizeof(OrderedColumn));
	VacAttrStats *stats = &column->stats;
	HeapTuple	result = NULL;

	if (sample->nrows > 0 && compute_column(rel, sample, attno, total_rows, true, column))
	{
		AttributeOpts *options = get_attribute_options(RelationGetRelid(rel), attno);
		HeapTuple	formed;

#ifdef USE_ASSERT_CHECKING
		OrderedColumn *again = palloc0(sizeof(OrderedColumn));

		Assert(compute_column(rel, sample, attno, total_rows, false, again));
		Assert(computed_alike(stats, &again->stats));
#endif
		if (options != NULL && options->n_distinct != 0.0)
			stats->stadistinct = options->n_distinct;
		formed = form_statistics(rel, attno, stats);
		MemoryContextSwitchTo(context);
		result = heap_copytuple(formed);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return result;
}

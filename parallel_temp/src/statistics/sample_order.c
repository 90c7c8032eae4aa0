/*-------------------------------------------------------------------------
 *
 * sample_order.c
 *	  The values of a sample's column, in order.
 *
 * Most of what ANALYZE's function for scalar types does is to sort the values, through
 * three calls for each comparison.  Here they are sorted before it gets them: by the same
 * sort support, but byte by byte if it compares integers, as most abbreviated keys
 * are; the server's sort then finds the values sorted, by one comparison a value.
 *
 * The result is the same to the last digit: equal values stay in the order of the
 * table, as there.  Only the correlation of values and places is computed here.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "utils/sortsupport.h"

#include "statistics/gathered.h"

#define SIGN_BIT ((uint64) 1 << 63)
#define KEY_BYTES 8

/* Wider values are counted, but not read: WIDTH_THRESHOLD of the server's analyze.c. */
#define WIDEST_VALUE 1024

/* The sort key: a number in whose order the values are, or the datum that the type's sort support compares. */
typedef struct OrderKey
{
	union
	{
		uint64		number;
		Datum		datum;
	}			key;
	int			row;
	int			place;			/* among the values that are counted */
} OrderKey;

typedef struct Order
{
	SortSupportData sort;
	Datum	   *plain;			/* by row, what abbreviated keys stand for;
								 * NULL: keys are whole */
} Order;

/*
 * Keys that are equal: the values themselves, then their order in the table.
 */
static inline int
compare_further(const OrderKey *a, const OrderKey *b, Order *order)
{
	int			result = 0;

	if (order->plain != NULL)
		result = order->sort.abbrev_full_comparator(order->plain[a->row], order->plain[b->row], &order->sort);
	return result != 0 ? result : a->row - b->row;
}

static inline int
compare_datums(const OrderKey *a, const OrderKey *b, Order *order)
{
	int			result = order->sort.comparator(a->key.datum, b->key.datum, &order->sort);

	return result != 0 ? result : compare_further(a, b, order);
}

#define ST_SORT sort_datums
#define ST_ELEMENT_TYPE OrderKey
#define ST_COMPARE(a, b, arg) compare_datums(a, b, arg)
#define ST_COMPARE_ARG_TYPE Order
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * By number, byte after byte from the last one; bytes that are the same everywhere are
 * skipped.  Each step keeps the order of the one before, so equal numbers stay in the
 * order of the table.
 */
static void
sort_numbers(OrderKey *keys, int nkeys)
{
	OrderKey   *from = keys;
	OrderKey   *to = palloc(sizeof(OrderKey) * nkeys);
	int			counts[KEY_BYTES][256] = {0};

	for (int i = 0; i < nkeys; i++)
	{
		for (int byte = 0; byte < KEY_BYTES; byte++)
			counts[byte][(keys[i].key.number >> (8 * byte)) & 0xff]++;
	}
	for (int byte = 0; byte < KEY_BYTES; byte++)
	{
		int		   *count = counts[byte];
		OrderKey   *swap = from;
		int			next = 0;

		if (count[(keys[0].key.number >> (8 * byte)) & 0xff] == nkeys)
			continue;
		for (int value = 0; value < 256; value++)
		{
			int			start = next;

			next += count[value];
			count[value] = start;
		}
		for (int i = 0; i < nkeys; i++)
			to[count[(from[i].key.number >> (8 * byte)) & 0xff]++] = from[i];
		from = to;
		to = swap;
	}
	if (from != keys)
		memcpy(keys, from, sizeof(OrderKey) * nkeys);
}

/*
 * Sort by the type's sort support; where it compares datums as integers, by these.
 */
static void
sort_keys(OrderKey *keys, int nkeys, Order *order)
{
	int			end;

	if (nkeys == 0)
		return;
	if (order->sort.comparator == ssup_datum_int32_cmp)
	{
		for (int i = 0; i < nkeys; i++)
			keys[i].key.number = (uint64) (int64) DatumGetInt32(keys[i].key.datum) ^ SIGN_BIT;
	}
	else if (order->sort.comparator == ssup_datum_unsigned_cmp)
	{
		for (int i = 0; i < nkeys; i++)
			keys[i].key.number = (uint64) keys[i].key.datum;
	}
#if SIZEOF_DATUM >= 8
	else if (order->sort.comparator == ssup_datum_signed_cmp)
	{
		for (int i = 0; i < nkeys; i++)
			keys[i].key.number = (uint64) keys[i].key.datum ^ SIGN_BIT;
	}
#endif
	else
	{
		sort_datums(keys, nkeys, order);
		return;
	}
	sort_numbers(keys, nkeys);

	/* whose abbreviations are equal, by themselves */
	for (int start = 0; start < nkeys && order->plain != NULL; start = end)
	{
		for (end = start + 1; end < nkeys && keys[end].key.number == keys[start].key.number; end++)
			;
		if (end - start > 1)
			sort_datums(keys + start, end - start, order);
	}
}

bool
pt_sample_order(OrderedColumn *column, Oid less_than, int nrows)
{
	VacAttrStats *stats = &column->stats;
	bool		is_varlena = stats->attrtype->typlen == -1;
	Order		order = {0};
	OrderKey   *keys;
	Datum	   *raw;			/* by row, as stored: what widths are of */
	double		sum;
	double		squares;
	double		products = 0;
	int			nkeys = 0;
	int			last = nrows;

	if (!OidIsValid(less_than) || stats->attrtype->typlen == -2)
		return false;
	order.sort.ssup_cxt = CurrentMemoryContext;
	order.sort.ssup_collation = stats->attrcollid;
	order.sort.abbreviate = true;
	PrepareSortSupportFromOrderingOp(less_than, &order.sort);
	if (order.sort.abbrev_converter != NULL)
		order.plain = palloc(sizeof(Datum) * nrows);
	else if (!stats->attrtype->typbyval)
		return false;

	column->values = palloc(sizeof(Datum) * nrows);
	column->nulls = palloc(sizeof(bool) * nrows);
	raw = palloc(sizeof(Datum) * nrows);
	keys = palloc(sizeof(OrderKey) * nrows);
	for (int row = 0; row < nrows; row++)
	{
		bool		isnull;
		Datum		value = heap_getattr(stats->rows[row], stats->tupattnum, stats->tupDesc, &isnull);

		if (isnull || (is_varlena && toast_raw_datum_size(value) > WIDEST_VALUE))
		{
			column->values[--last] = value;
			column->nulls[last] = isnull;
			continue;
		}
		raw[row] = value;
		if (order.plain != NULL)
		{
			order.plain[row] = is_varlena ? PointerGetDatum(PG_DETOAST_DATUM_PACKED(value)) : value;
			keys[nkeys].key.datum = order.sort.abbrev_converter(order.plain[row], &order.sort);
		}
		else
			keys[nkeys].key.datum = value;
		keys[nkeys].row = row;
		keys[nkeys].place = nkeys;
		nkeys++;
	}
	Assert(nkeys == last);
	sort_keys(keys, nkeys, &order);
	for (int i = 0; i < nkeys; i++)
	{
		column->values[i] = raw[keys[i].row];
		column->nulls[i] = false;
		products += (double) i * keys[i].place;
	}

	/* of the numbers 0 to n - 1 with themselves in another order */
	sum = (double) nkeys * (nkeys - 1) / 2;
	squares = (double) nkeys * (nkeys - 1) * (2.0 * nkeys - 1) / 6;
	if (nkeys > 1)
		column->correlation = (nkeys * products - sum * sum) / (nkeys * squares - sum * sum);
	return true;
}

Datum
pt_sample_ordered_value(VacAttrStatsP stats, int rownum, bool *isnull)
{
	OrderedColumn *column = (OrderedColumn *) stats;

	*isnull = column->nulls[rownum];
	return column->values[rownum];
}

void
pt_sample_set_correlation(OrderedColumn *column)
{
	VacAttrStats *stats = &column->stats;

	for (int k = 0; k < STATISTIC_NUM_SLOTS; k++)
	{
		if (stats->stakind[k] != STATISTIC_KIND_CORRELATION)
			continue;
		Assert(stats->numnumbers[k] == 1 && stats->stanumbers[k][0] > 0.999);
		stats->stanumbers[k][0] = (float4) column->correlation;
	}
}

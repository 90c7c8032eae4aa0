/*-------------------------------------------------------------------------
 *
 * type_analyze.c
 *	  What ANALYZE gathers about a column of the type: the share of nulls and
 *	  the width in the row, nothing else.
 *
 * Core's default would put sampled values into pg_statistic.  Ours may be
 * references, which do not keep the chunks that they refer to: a plan
 * made after the row and its chunks are gone would fail to read them.  It would
 * also read whole values to sort them.  Distinct values are taken to be as many
 * as rows.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/vacuum.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_typanalyze);

static void
compute_stats(VacAttrStats *stats, AnalyzeAttrFetchFunc fetch, int samplerows,
			  double totalrows)
{
	int			nulls = 0;
	double		width = 0;

	for (int i = 0; i < samplerows; i++)
	{
		bool		isnull;
		Datum		value;

		vacuum_delay_point_compat(true);
		value = fetch(stats, i, &isnull);
		if (isnull)
			nulls++;
		else
			width += VARSIZE_ANY(DatumGetPointer(value));
	}
	if (samplerows == 0)
		return;
	stats->stats_valid = true;
	stats->stanullfrac = (double) nulls / samplerows;
	stats->stawidth = samplerows > nulls ? (int) (width / (samplerows - nulls)) : 0;
	stats->stadistinct = -1.0 * (1.0 - stats->stanullfrac);
}

Datum
appendable_typanalyze(PG_FUNCTION_ARGS)
{
	VacAttrStats *stats = (VacAttrStats *) PG_GETARG_POINTER(0);

	stats->compute_stats = compute_stats;
	stats->minrows = 300;
	PG_RETURN_BOOL(true);
}

/*-------------------------------------------------------------------------
 *
 * scan_explain.c
 *	  What EXPLAIN shows of a temp scan.
 *
 * Without ANALYZE: the planned method and the part of the cost that pays for
 * flushing.  With ANALYZE: what was done, leader and workers together.  Pages read
 * are those of our own scans of the table, whatever node of the plan caused them.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "parallel/scan.h"

void
temp_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	TempScanState *scan = (TempScanState *) node;
	const char *method = scan->reported ? scan->method : scan->plan.flush ? "flush" : "share";

	if (es->analyze && !scan->reported)
		method = "none";
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Temp Method", method, es);
		if (es->costs)
			ExplainPropertyFloat("Temp Start Cost", NULL, scan->plan.start_cost, 2, es);
		if (es->analyze)
		{
			ExplainPropertyInteger("Temp Pages Shared", NULL, scan->shared_pages, es);
			ExplainPropertyInteger("Temp Pages Flushed", NULL, scan->flushed, es);
			ExplainPropertyInteger("Hash Lookups Prefetched", NULL, scan->prefetches, es);
			if (es->buffers)
			{
				ExplainPropertyInteger("Temp Pool Reads", NULL, scan->pool_reads, es);
				ExplainPropertyInteger("Temp File Reads", NULL, scan->file_reads, es);
			}
		}
		return;
	}

	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Temp Pages: method=%s", method);
	if (es->costs && scan->plan.start_cost > 0)
		appendStringInfo(es->str, " start_cost=%.2f", scan->plan.start_cost);
	if (es->analyze && scan->reported)
	{
		appendStringInfo(es->str, " shared=" INT64_FORMAT " flushed=" INT64_FORMAT,
						 scan->shared_pages, scan->flushed);
		if (es->buffers)
			appendStringInfo(es->str, " pool=" INT64_FORMAT " file=" INT64_FORMAT,
							 scan->pool_reads, scan->file_reads);
		if (scan->prefetches > 0)
			appendStringInfo(es->str, " prefetched=" INT64_FORMAT, scan->prefetches);
	}
	appendStringInfoChar(es->str, '\n');
}

/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  Every setting of parallel_temp, in one table.
 *
 * Called once, from _PG_init.  Nothing here has an effect beyond the variables;
 * the files that use a setting read it when a statement is planned or started.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>

#include "buffers/localbuf.h"
#include "parallel/scan.h"
#include "parallel_temp.h"

bool		pt_enabled = true;
int			pt_method = PT_METHOD_AUTO;
bool		pt_index_access = true;
bool		pt_explain_refusals = false;
bool		pt_force = false;
bool		pt_compare_plans = true;

/*
 * Prices of parallel plans.  The prices of pages are round numbers of what "lab/run
 * calibrate" finds on a virtual machine of two processors.  What it finds for the start
 * of a worker depends on what else the machine does, and is twice as much at some
 * moments as at others: the default is a choice, rather for too few workers.
 */
double		pt_worker_start_cost = 1000;
double		pt_enter_page_cost = 0.05;
double		pt_held_page_cost = 0.15;

/* The published constants. */
double		pt_flush_page_cost = 1.3;
double		pt_scan_buffer_cost = 0.01;
bool		pt_parallel_insert = true;
bool		pt_statistics = false;
bool		pt_fast_load = true;
bool		pt_fill_pages = true;
bool		pt_lazy_files = true;
bool		pt_explain = true;
int			pt_flush_method = LOCALBUF_FLUSH_COALESCED;
int			pt_pool_read = POOL_READ_MAP;
int			pt_batch_pages = 32;
bool		pt_hash_prefetch = true;

static const struct config_enum_entry methods[] = {
	{"auto", PT_METHOD_AUTO, false},
	{"share", PT_METHOD_SHARE, false},
	{"flush", PT_METHOD_FLUSH, false},
	{NULL, 0, false}
};

static const struct config_enum_entry pool_read_methods[] = {
	{"copy", POOL_READ_COPY, false},
	{"map", POOL_READ_MAP, false},
	{NULL, 0, false}
};

static const struct config_enum_entry flush_methods[] = {
	{"coalesced", LOCALBUF_FLUSH_COALESCED, false},
	{"sorted", LOCALBUF_FLUSH_SORTED, false},
	{"buffer_order", LOCALBUF_FLUSH_BUFFER_ORDER, false},
	{NULL, 0, false}
};

/*
 * Define all settings and reserve their prefix.
 */
void
pt_define_settings(void)
{
	DefineCustomBoolVariable("parallel_temp.enabled",
							 "Lets queries over temporary tables run in parallel.",
							 "When off, temporary tables are scanned by the session alone, as in stock PostgreSQL.",
							 &pt_enabled,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("parallel_temp.method",
							 "Selects how parallel workers get at the pages of temporary tables.",
							 "\"share\" lets them read the session's temporary buffers, \"flush\" writes dirty buffers to the table's file first; \"auto\" shares wherever the system allows it.",
							 &pt_method,
							 PT_METHOD_AUTO,
							 methods,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.index_access",
							 "Lets parallel workers use the indexes of temporary tables.",
							 NULL,
							 &pt_index_access,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.explain_refusals",
							 "Tells, by a notice, why a temporary table of a query is not read in parallel.",
							 NULL,
							 &pt_explain_refusals,
							 false,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.force",
							 "Puts the extension's scan in the place of every sequential scan of a temporary table that workers could run.",
							 "This is for testing. EXPLAIN still shows what would be planned without it.",
							 &pt_force,
							 false,
							 PGC_USERSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.compare_plans",
							 "Keeps the server's serial plan unless one with workers is cheaper by what pages in memory cost.",
							 "When off, any plan is taken in which workers read a temporary table. This is for testing.",
							 &pt_compare_plans,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN | GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("parallel_temp.worker_start_cost",
							 "Sets the planner's estimate of the cost of starting one worker for temporary tables, in units of seq_page_cost.",
							 "What parallel_setup_cost does not cover of it, for all workers of a scan that they divide among them, is added to the scan, and to a query whose workers fill pages. The lab's calibration measures this machine's.",
							 &pt_worker_start_cost,
							 1000, 0, DBL_MAX,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("parallel_temp.enter_page_cost",
							 "Sets the planner's estimate of the cost of entering one page into the buffers of a worker that uses indexes or out-of-line values, in units of seq_page_cost.",
							 "Making each of these buffers is taken as 0.15 of it. The lab's calibration measures this machine's.",
							 &pt_enter_page_cost,
							 0.05, 0, DBL_MAX,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("parallel_temp.held_page_cost",
							 "Sets the planner's estimate of the cost of reading a page that is in temporary buffers, in units of seq_page_cost.",
							 "It decides between a plan with workers and the server's serial plan, which is never changed. The lab's calibration measures this machine's.",
							 &pt_held_page_cost,
							 0.15, 0, DBL_MAX,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("parallel_temp.flush_page_cost",
							 "Sets the planner's estimate of the cost of writing one dirty temporary buffer, in units of seq_page_cost.",
							 "The published constant is 1.3; the lab's calibration measures this machine's.",
							 &pt_flush_page_cost,
							 1.3, 0, DBL_MAX,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("parallel_temp.scan_buffer_cost",
							 "Sets the planner's estimate of the cost of looking at one allocated temporary buffer during a flush, in units of seq_page_cost.",
							 "The published constant is 0.01; the lab's calibration measures this machine's.",
							 &pt_scan_buffer_cost,
							 0.01, 0, DBL_MAX,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("parallel_temp.flush_method",
							 "Sets the order and the size of the writes that flush temporary buffers.",
							 "\"coalesced\" sorts the pages by file and block and writes neighbours together, \"sorted\" writes them one by one, "
							 "\"buffer_order\" neither sorts nor joins. The last two exist to measure what the first one gains.",
							 &pt_flush_method,
							 LOCALBUF_FLUSH_COALESCED, flush_methods,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("parallel_temp.pool_read",
							 "Sets how a parallel worker gets at a shared page of a temporary table.",
							 "\"map\" looks at pages where they are, \"copy\" reads them into private memory. The choice exists to measure it.",
							 &pt_pool_read,
							 POOL_READ_MAP, pool_read_methods,
							 PGC_USERSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("parallel_temp.batch_pages",
							"Sets how many neighbouring pages of a temporary table are read at once, at most, when a parallel query copies or reads them from the file.",
							"The choice exists to measure it.",
							&pt_batch_pages,
							32, 1, MAX_SCAN_BATCH,
							PGC_USERSET,
							GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("parallel_temp.hash_prefetch",
							 "Lets the scan of a temporary table below a hash join fetch what the join will look up into the processor's cache.",
							 "The choice exists to measure it.",
							 &pt_hash_prefetch,
							 true,
							 PGC_USERSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("parallel_temp.parallel_insert",
							 "Lets the query of an INSERT ... SELECT into a temporary table run in parallel.",
							 "The session puts the rows that its workers compute into the table. EXPLAIN says why a statement that costs more than starting workers does without them.",
							 &pt_parallel_insert,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.statistics",
							 "Lets the planner know a temporary table that nobody has analyzed by a sample of its rows.",
							 "The sample is taken when the planner first asks for the table, and again when much of it has changed; what it tells is kept in the session's memory. EXPLAIN names tables whose statistics were used.",
							 &pt_statistics,
							 false,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.fast_load",
							 "Lets CREATE TEMP TABLE AS, SELECT INTO TEMP and INSERT ... SELECT into a temporary table form rows directly on pages.",
							 "EXPLAIN ANALYZE says whether a statement was loaded this way, and if not, why.",
							 &pt_fast_load,
							 true,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.fill_pages",
							 "Lets parallel workers fill pages of the temporary table that their query's rows go into.",
							 "Off, rows go to the session one by one. It applies to CREATE TEMP TABLE AS, SELECT INTO TEMP and INSERT ... SELECT with fast load, where nothing but the rows is to be put away. EXPLAIN shows the node \"Temp Load\" where workers do.",
							 &pt_fill_pages,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.explain",
							 "Lets EXPLAIN ANALYZE say how a temporary table was loaded.",
							 "Off, the output of EXPLAIN is the server's own.",
							 &pt_explain,
							 true,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("parallel_temp.lazy_files",
							 "Lets a fast load lengthen the table's file without disk space for pages that stay in temporary buffers.",
							 "Space is then taken when a page is first written, and a full disk shows at that time. When off, and in RAM tablespaces, space is reserved as the table grows.",
							 &pt_lazy_files,
							 true,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	MarkGUCPrefixReserved("parallel_temp");
}

/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  Every setting of parallel_temp, in tables.
 *
 * Settings whose name begins with "debug_" are for tests and measurements.  Every user may
 * change every setting.  Nothing here has an effect beyond the variables; the files that
 * use a setting read it when a statement is planned or started.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>

#include "buffers/buffers.h"
#include "parallel_temp.h"
#include "scan/scan.h"

bool		pt_enabled;
bool		pt_index_access;
bool		pt_explain_refusals;
bool		pt_parallel_insert;
bool		pt_statistics;
bool		pt_fast_load;
bool		pt_fill_pages;
bool		pt_lazy_files;
bool		pt_explain;
int			pt_method = PT_METHOD_AUTO;
double		pt_worker_start_cost;
double		pt_enter_page_cost;
double		pt_held_page_cost;
double		pt_flush_page_cost;
double		pt_scan_buffer_cost;
bool		pt_debug_force;
bool		pt_debug_hash_prefetch;
int			pt_debug_batch_pages = 32;
int			pt_debug_build = 0;
int			pt_debug_flush_method = LOCALBUF_FLUSH_COALESCED;
int			pt_debug_pool_read = POOL_READ_MAP;

/* What EXPLAIN (SETTINGS) shows: settings that change plans. */
#define PLAN		GUC_EXPLAIN
#define DEBUG		GUC_NOT_IN_SAMPLE

static const struct
{
	const char *name;
	bool	   *variable;
	bool		value;			/* the default */
	int			flags;
	const char *description;
	const char *detail;
}			booleans[] =

{
	{"parallel_temp.enabled", &pt_enabled, true, PLAN,
		"Enables parallel queries over temporary tables.",
	"When off, temporary tables are scanned by the session alone, as in stock PostgreSQL."},
	{"parallel_temp.index_access", &pt_index_access, true, PLAN,
	"Enables the use of indexes of temporary tables in parallel workers.", NULL},
	{"parallel_temp.explain_refusals", &pt_explain_refusals, false, 0,
	"Enables a notice with the reason why a temporary table of a query is not read in parallel.", NULL},
	{"parallel_temp.parallel_insert", &pt_parallel_insert, true, PLAN,
		"Enables parallel workers for the query of an INSERT ... SELECT into a temporary table.",
	"The session inserts the rows that its workers compute. EXPLAIN shows why a statement that costs more than starting workers does not use them."},
	{"parallel_temp.statistics", &pt_statistics, false, PLAN,
		"Enables the planner's use of sampled statistics for temporary tables that have not been analyzed.",
	"The sample is taken when the planner first needs it, and again when much of the table has changed; its statistics are kept in the session's memory. EXPLAIN names tables whose statistics were used."},
	{"parallel_temp.fast_load", &pt_fast_load, true, 0,
		"Enables CREATE TEMP TABLE AS, SELECT INTO TEMP and INSERT ... SELECT into a temporary table to form rows directly on pages.",
	"EXPLAIN ANALYZE shows whether a statement was loaded this way, and if not, why."},
	{"parallel_temp.fill_pages", &pt_fill_pages, true, PLAN,
		"Enables parallel workers to fill pages of the temporary table that stores their query's rows.",
	"When off, workers send rows to the session one by one. It applies to CREATE TEMP TABLE AS, SELECT INTO TEMP and INSERT ... SELECT with fast load, if the rows only have to be stored. EXPLAIN shows the node \"Temp Load\" if workers fill pages."},
	{"parallel_temp.explain", &pt_explain, true, 0,
		"Enables a line of EXPLAIN ANALYZE that shows how a temporary table was loaded.",
	"When off, EXPLAIN prints only the server's output."},
	{"parallel_temp.lazy_files", &pt_lazy_files, true, 0,
		"Enables a fast load to extend the table's file without disk space for pages that stay in temporary buffers.",
	"Space is then allocated when a page is first written, and a full disk is reported at that time. When off, and in RAM tablespaces, space is reserved as the table grows."},
	{"parallel_temp.debug_force", &pt_debug_force, false, DEBUG,
		"Enables the replacement of every sequential scan of a temporary table that workers could run by the extension's scan.",
	"This is for testing. EXPLAIN still shows the plan without it."},
	{"parallel_temp.debug_hash_prefetch", &pt_debug_hash_prefetch, true, DEBUG,
		"Enables prefetching of hash table entries into the CPU's cache by the scan of a temporary table below a hash join.",
	"This is for measurements."},
};

/*
 * Costs of pages are rounded from what "lab/run calibrate" finds on a virtual machine with
 * two CPUs, except for the last two, which are the published constants.  The start of a
 * worker depends on the load of the machine, and may cost twice as much at another moment:
 * the default is a choice that prefers too few workers.
 */
static const struct
{
	const char *name;
	double	   *variable;
	double		value;			/* the default */
	const char *description;
	const char *detail;
}			costs[] =

{
	{"parallel_temp.worker_start_cost", &pt_worker_start_cost, 1000,
		"Sets the planner's estimate of the cost of starting one worker for temporary tables, at the default parallel_setup_cost.",
	"It is scaled with parallel_setup_cost, which it replaces. The lab's calibration measures this machine's."},
	{"parallel_temp.enter_page_cost", &pt_enter_page_cost, 0.05,
		"Sets the planner's estimate of the cost of entering one page into the buffers of a worker that uses indexes or out-of-line values, in units of seq_page_cost.",
	"Creating each of these buffers costs 0.15 of it. Both are scaled with parallel_setup_cost. The lab's calibration measures this machine's."},
	{"parallel_temp.held_page_cost", &pt_held_page_cost, 0.15,
		"Sets the planner's estimate of the cost of reading a page that is in temporary buffers, in units of seq_page_cost.",
	"It applies to serial and parallel paths alike when a query is planned with workers. A plan without workers is always the server's. The lab's calibration measures this machine's."},
	{"parallel_temp.flush_page_cost", &pt_flush_page_cost, 1.3,
		"Sets the planner's estimate of the cost of writing one dirty temporary buffer, in units of seq_page_cost.",
	"The published constant is 1.3; the lab's calibration measures this machine's."},
	{"parallel_temp.scan_buffer_cost", &pt_scan_buffer_cost, 0.01,
		"Sets the planner's estimate of the cost of checking one allocated temporary buffer during a flush, in units of seq_page_cost.",
	"The published constant is 0.01; the lab's calibration measures this machine's."},
};

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
	for (int i = 0; i < lengthof(booleans); i++)
		DefineCustomBoolVariable(booleans[i].name, booleans[i].description, booleans[i].detail,
								 booleans[i].variable, booleans[i].value, PGC_USERSET, booleans[i].flags, NULL, NULL, NULL);
	for (int i = 0; i < lengthof(costs); i++)
		DefineCustomRealVariable(costs[i].name, costs[i].description, costs[i].detail,
								 costs[i].variable, costs[i].value, 0, DBL_MAX, PGC_USERSET, PLAN, NULL, NULL, NULL);
	DefineCustomEnumVariable("parallel_temp.method",
							 "Selects the method by which parallel workers read the pages of temporary tables.",
							 "\"share\" lets them read the session's temporary buffers, \"flush\" writes dirty buffers to the table's file first; \"auto\" shares them if the system allows it.",
							 &pt_method, PT_METHOD_AUTO, methods, PGC_USERSET, PLAN, NULL, NULL, NULL);
	DefineCustomEnumVariable("parallel_temp.debug_flush_method",
							 "Sets the order and the size of the writes that flush temporary buffers.",
							 "\"coalesced\" sorts the pages by file and block and writes adjacent ones together, \"sorted\" writes them one by one, "
							 "\"buffer_order\" neither sorts nor joins them. The last two are for measurements.",
							 &pt_debug_flush_method, LOCALBUF_FLUSH_COALESCED, flush_methods, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	DefineCustomEnumVariable("parallel_temp.debug_pool_read",
							 "Selects the method by which a parallel worker reads a shared page of a temporary table.",
							 "\"map\" reads pages in place, \"copy\" copies them to private memory. This is for measurements.",
							 &pt_debug_pool_read, POOL_READ_MAP, pool_read_methods, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	DefineCustomIntVariable("parallel_temp.debug_batch_pages",
							"Sets the maximum number of adjacent pages of a temporary table that a parallel query copies or reads from the file at once.",
							"This is for measurements.",
							&pt_debug_batch_pages, 32, 1, MAX_SCAN_BATCH, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	DefineCustomIntVariable("parallel_temp.debug_build",
							"Sets the difference between the number of this library's build and the one that is sent to parallel workers.",
							"This is for testing: workers refuse areas of another build.",
							&pt_debug_build, 0, 0, 1, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	MarkGUCPrefixReserved("parallel_temp");
}

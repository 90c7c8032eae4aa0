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
		"Lets queries over temporary tables run in parallel.",
	"When off, temporary tables are scanned by the session alone, as in stock PostgreSQL."},
	{"parallel_temp.index_access", &pt_index_access, true, PLAN,
	"Lets parallel workers use the indexes of temporary tables.", NULL},
	{"parallel_temp.explain_refusals", &pt_explain_refusals, false, 0,
	"Tells, by a notice, why a temporary table of a query is not read in parallel.", NULL},
	{"parallel_temp.parallel_insert", &pt_parallel_insert, true, PLAN,
		"Lets the query of an INSERT ... SELECT into a temporary table run in parallel.",
	"The session puts the rows that its workers compute into the table. EXPLAIN says why a statement that costs more than starting workers does without them."},
	{"parallel_temp.statistics", &pt_statistics, false, PLAN,
		"Lets the planner know a temporary table that nobody has analyzed by a sample of its rows.",
	"The sample is taken when the planner first asks for the table, and again when much of it has changed; what it tells is kept in the session's memory. EXPLAIN names tables whose statistics were used."},
	{"parallel_temp.fast_load", &pt_fast_load, true, 0,
		"Lets CREATE TEMP TABLE AS, SELECT INTO TEMP and INSERT ... SELECT into a temporary table form rows directly on pages.",
	"EXPLAIN ANALYZE says whether a statement was loaded this way, and if not, why."},
	{"parallel_temp.fill_pages", &pt_fill_pages, true, PLAN,
		"Lets parallel workers fill pages of the temporary table that their query's rows go into.",
	"Off, rows go to the session one by one. It applies to CREATE TEMP TABLE AS, SELECT INTO TEMP and INSERT ... SELECT with fast load, where nothing but the rows is to be put away. EXPLAIN shows the node \"Temp Load\" where workers do."},
	{"parallel_temp.explain", &pt_explain, true, 0,
		"Lets EXPLAIN ANALYZE say how a temporary table was loaded.",
	"Off, the output of EXPLAIN is the server's own."},
	{"parallel_temp.lazy_files", &pt_lazy_files, true, 0,
		"Lets a fast load lengthen the table's file without disk space for pages that stay in temporary buffers.",
	"Space is then taken when a page is first written, and a full disk shows at that time. When off, and in RAM tablespaces, space is reserved as the table grows."},
	{"parallel_temp.debug_force", &pt_debug_force, false, DEBUG,
		"Puts the extension's scan in the place of every sequential scan of a temporary table that workers could run.",
	"This is for testing. EXPLAIN still shows what would be planned without it."},
	{"parallel_temp.debug_hash_prefetch", &pt_debug_hash_prefetch, true, DEBUG,
		"Lets the scan of a temporary table below a hash join fetch what the join will look up into the processor's cache.",
	"The choice exists to measure it."},
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
	"It is scaled with parallel_setup_cost, and replaces it if all workers of a query together cost more. The lab's calibration measures this machine's."},
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
		"Sets the planner's estimate of the cost of looking at one allocated temporary buffer during a flush, in units of seq_page_cost.",
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
							 "Selects how parallel workers get at the pages of temporary tables.",
							 "\"share\" lets them read the session's temporary buffers, \"flush\" writes dirty buffers to the table's file first; \"auto\" shares wherever the system allows it.",
							 &pt_method, PT_METHOD_AUTO, methods, PGC_USERSET, PLAN, NULL, NULL, NULL);
	DefineCustomEnumVariable("parallel_temp.debug_flush_method",
							 "Sets the order and the size of the writes that flush temporary buffers.",
							 "\"coalesced\" sorts the pages by file and block and writes neighbours together, \"sorted\" writes them one by one, "
							 "\"buffer_order\" neither sorts nor joins. The last two exist to measure what the first one gains.",
							 &pt_debug_flush_method, LOCALBUF_FLUSH_COALESCED, flush_methods, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	DefineCustomEnumVariable("parallel_temp.debug_pool_read",
							 "Sets how a parallel worker gets at a shared page of a temporary table.",
							 "\"map\" looks at pages where they are, \"copy\" reads them into private memory. The choice exists to measure it.",
							 &pt_debug_pool_read, POOL_READ_MAP, pool_read_methods, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	DefineCustomIntVariable("parallel_temp.debug_batch_pages",
							"Sets how many neighbouring pages of a temporary table are read at once, at most, when a parallel query copies or reads them from the file.",
							"The choice exists to measure it.",
							&pt_debug_batch_pages, 32, 1, MAX_SCAN_BATCH, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	DefineCustomIntVariable("parallel_temp.debug_build",
							"Sets the difference between the number of this library's build and the one that parallel workers are told.",
							"This is for testing: workers refuse areas of another build.",
							&pt_debug_build, 0, 0, 1, PGC_USERSET, DEBUG, NULL, NULL, NULL);
	MarkGUCPrefixReserved("parallel_temp");
}

/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  light_explain's settings.  They are read once, when a statement starts:
 *	  changing one inside a running statement has no effect on it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "measure/measure.h"
#include "miscadmin.h"
#include "utils/guc.h"

bool		light_enabled = true;
int			light_timing = LIGHT_TIMING_AUTO;
int			light_switch_after = -1;
bool		light_distinct_blocks = false;
bool		light_show_self = false;
bool		light_instrument_all = false;
bool		light_profile = false;
int			light_profile_max = 5000;
int			light_profile_text = 1024;
bool		light_profile_keep = true;
int			light_history_interval = 900;
int			light_history_buckets = 96;
int			light_history_memory = 8192;
int			light_history_save_interval = 900;
int			light_progress_statements = 64;
int			light_progress_nodes = 100;
int			light_sample_interval = 100;
int			light_sample_ring = 20000;
int			light_sample_waits = 5000;
int			light_plans_size = 4096;
int			light_plans_min_duration = 100;
int			light_plans_interval = 1000;
int			light_plans_parameters = 0;

static const struct config_enum_entry timing_options[] = {
	{"auto", LIGHT_TIMING_AUTO, false},
	{"system", LIGHT_TIMING_SYSTEM, false},
	{"reference", LIGHT_TIMING_REFERENCE, true},	/* for tests */
	{NULL, 0, false}
};

/* Where the library cannot work, nobody can turn it on. */
static bool
check_enabled(bool *newval, void **extra, GucSource source)
{
	if (!*newval || light_off_reason == NULL)
		return true;
	GUC_check_errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
	GUC_check_errmsg("light_explain cannot be turned on");
	GUC_check_errdetail("It is off because %s.", light_off_reason);
	GUC_check_errhint("Compile and install light_explain for this server.");
	return false;
}

/* Define all settings; called once from _PG_init, after the self-test. */
void
light_define_settings(void)
{
	light_enabled = light_off_reason == NULL;
	DefineCustomBoolVariable("light_explain.enabled",
							 "Measures plan nodes with little overhead.",
							 "When off, EXPLAIN ANALYZE and auto_explain use the server's own instrumentation.",
							 &light_enabled, light_enabled,
							 PGC_USERSET, 0, check_enabled, NULL, NULL);

	DefineCustomEnumVariable("light_explain.timing",
							 "Chooses the clock that times plan nodes.",
							 "auto reads the processor's counter, or the system clock where the counter cannot be trusted; "
							 "system reads the system clock.",
							 &light_timing, LIGHT_TIMING_AUTO, timing_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("light_explain.switch_after",
							"Calls of a plan node after which a statement moves from the server's instrumentation to the light one.",
							"-1 means after 128 calls, and at once in a statement that the planner expects to be long, or in EXPLAIN ANALYZE of one that may be.",
							&light_switch_after, -1, -1, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.distinct_blocks",
							 "Estimates how many different heap blocks the rows of each scan came from.",
							 "Takes 4 kB a scan.  Shown by light_explain_last() and, since PostgreSQL 18, by EXPLAIN (ANALYZE, LIGHT).",
							 &light_distinct_blocks, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.show_self",
							 "Shows own times and blocks of nodes in every EXPLAIN ANALYZE and in the plans that auto_explain logs.",
							 "As the option LIGHT does for one EXPLAIN.",
							 &light_show_self, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.instrument_all",
							 "Instruments every statement as EXPLAIN (ANALYZE, BUFFERS, WAL) does, without printing anything.",
							 "For tests of light_explain itself.",
							 &light_instrument_all, false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.profile",
							 "Adds up rows, loops, buffers and time of each plan node over all executions of a statement.",
							 "See the view light_explain_profile.  Needs light_explain in shared_preload_libraries and query identifiers.",
							 &light_profile, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("light_explain.plans_min_duration",
							"Sets the time that an execution must take for its plan to be kept.",
							"See the view light_explain_plans.  0 keeps plans of all statements, -1 keeps none.  Needs light_explain.profile.",
							&light_plans_min_duration, 100, -1, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("light_explain.plans_interval",
							"Sets the time after which the last execution of a plan is kept again.",
							"The slowest execution is kept at any time.  0 keeps each last one.",
							&light_plans_interval, 1000, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("light_explain.plans_parameters",
							"Sets the bytes that are kept of each parameter of a statement with its plan.",
							"0 keeps no parameters, -1 keeps them in full.",
							&light_plans_parameters, 0, -1, INT_MAX,
							PGC_SUSET, GUC_UNIT_BYTE, NULL, NULL, NULL);

	/*
	 * Sizes of shared memory; a library that one session loads has none, and
	 * may not make such settings.
	 */
	if (process_shared_preload_libraries_in_progress)
	{
		DefineCustomIntVariable("light_explain.profile_max",
								"Plan nodes of which a profile is kept.",
								NULL,
								&light_profile_max, 5000, 100, 1000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.profile_text",
								"Bytes that are kept of the text of a statement in the profile.",
								NULL,
								&light_profile_text, 1024, 0, 65536,
								PGC_POSTMASTER, GUC_UNIT_BYTE, NULL, NULL, NULL);

		DefineCustomBoolVariable("light_explain.profile_save",
								 "Keeps the profile in a file while the server is down.",
								 NULL,
								 &light_profile_keep, true,
								 PGC_SIGHUP, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_interval",
								"Sets the length of a bucket of the history.",
								"Buckets end at multiples of it.",
								&light_history_interval, 900, 1, 86400,
								PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_buckets",
								"Sets how many buckets the history keeps.",
								NULL,
								&light_history_buckets, 96, 1, 100000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_size",
								"Sets the shared memory for the plans of all buckets of the history.",
								"0 keeps no history.",
								&light_history_memory, 8192, 0, MAX_KILOBYTES,
								PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_save",
								"Sets the time after which the history is written to a file.",
								"It is written when a bucket has ended, and when the server is shut down.  0 writes none.",
								&light_history_save_interval, 900, 0, 86400,
								PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.progress_statements",
								"Instrumented statements whose progress other sessions can see at a time.",
								"0 keeps the figures of running statements private.",
								&light_progress_statements, 64, 0, 10000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.progress_nodes",
								"Plan nodes that a statement may have for its progress to be visible.",
								NULL,
								&light_progress_nodes, 100, 4, 1000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.sample_interval",
								"Sets the time between two samples of what all processes do.",
								"It varies by half at random.  0 takes none; if it is 0 when the server starts, there is no sampler.",
								&light_sample_interval, 100, 0, 60000,
								PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.sample_ring",
								"Sets how many of the last samples are kept one by one.",
								NULL,
								&light_sample_ring, 20000, 100, 100000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.sample_waits",
								"Sets for how many combinations of statement, plan, node and wait event samples are added up.",
								NULL,
								&light_sample_waits, 5000, 100, 10000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.plans_size",
								"Sets the shared memory for the plans of the slowest and last executions.",
								"0 keeps none; otherwise at least 64 kB are taken.",
								&light_plans_size, 4096, 0, MAX_KILOBYTES,
								PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	}

	MarkGUCPrefixReserved("light_explain");
}

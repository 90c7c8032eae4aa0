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
int			light_waits_interval = 60;
int			light_waits_buckets = 1440;
int			light_waits_memory = 32768;
int			light_plans_size = 4096;
int			light_plans_min_duration = 100;
int			light_plans_interval = 1000;
int			light_plans_parameters = 0;

static const struct config_enum_entry timing_options[] = {
	{"auto", LIGHT_TIMING_AUTO, false},
	{"system", LIGHT_TIMING_SYSTEM, false},
	{NULL, 0, false}
};

/* Refuse to turn the library on if the self test has failed. */
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
							 "Enables measuring plan nodes with little overhead.",
							 "When off, EXPLAIN ANALYZE and auto_explain use the server's instrumentation.",
							 &light_enabled, light_enabled,
							 PGC_USERSET, 0, check_enabled, NULL, NULL);

	DefineCustomEnumVariable("light_explain.timing",
							 "Selects the clock that times plan nodes.",
							 "auto reads the CPU's counter, or the system clock if the counter is not reliable; "
							 "system reads the system clock.",
							 &light_timing, LIGHT_TIMING_AUTO, timing_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("light_explain.switch_after",
							"Sets the number of calls of a plan node after which a statement uses the light instrumentation instead of the server's.",
							"-1 means after 16 calls, and at once in EXPLAIN ANALYZE and in a statement that the planner expects to be long or to have as many rows.",
							&light_switch_after, -1, -1, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.distinct_blocks",
							 "Enables an estimate of the distinct heap blocks from which each scan returned rows.",
							 "Uses 4 kB of memory for each scan.  Shown by light_explain_last() and, since PostgreSQL 18, by EXPLAIN (ANALYZE, LIGHT).",
							 &light_distinct_blocks, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.show_self",
							 "Enables the output of self times and blocks of nodes in every EXPLAIN ANALYZE and in the plans that auto_explain logs.",
							 "The option LIGHT does the same for one EXPLAIN.",
							 &light_show_self, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.instrument_all",
							 "Enables instrumentation of every statement, as by EXPLAIN (ANALYZE, BUFFERS, WAL), without printing anything.",
							 "This is for testing.",
							 &light_instrument_all, false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DefineCustomBoolVariable("light_explain.profile",
							 "Enables adding up rows, loops, buffers and time of each plan node over all executions of a statement.",
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
	 * must not define such settings.
	 */
	if (process_shared_preload_libraries_in_progress)
	{
		DefineCustomIntVariable("light_explain.profile_max",
								"Sets the maximum number of plan nodes in the profile.",
								NULL,
								&light_profile_max, 5000, 100, 1000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.profile_text",
								"Sets the number of bytes of a statement's text that the profile keeps.",
								NULL,
								&light_profile_text, 1024, 0, 65536,
								PGC_POSTMASTER, GUC_UNIT_BYTE, NULL, NULL, NULL);

		DefineCustomBoolVariable("light_explain.profile_save",
								 "Enables keeping the profile in a file while the server is down.",
								 NULL,
								 &light_profile_keep, true,
								 PGC_SIGHUP, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_interval",
								"Sets the length of a bucket of the history.",
								"Buckets end at multiples of it.",
								&light_history_interval, 900, 1, 86400,
								PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_buckets",
								"Sets the number of buckets that the history keeps.",
								NULL,
								&light_history_buckets, 96, 1, 100000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_size",
								"Sets the shared memory for the plans of all buckets of the history.",
								"0 keeps no history, and none of waits.",
								&light_history_memory, 8192, 0, MAX_KILOBYTES,
								PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.history_save",
								"Sets the time after which the history is written to a file.",
								"It is also written when the server is shut down.  0 writes none.",
								&light_history_save_interval, 900, 0, 86400,
								PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.progress_statements",
								"Sets the maximum number of running statements whose progress other sessions can see.",
								"0 keeps the counters of running statements private.",
								&light_progress_statements, 64, 0, 10000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.progress_nodes",
								"Sets the maximum number of plan nodes of a statement whose progress is visible.",
								NULL,
								&light_progress_nodes, 100, 4, 1000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.sample_interval",
								"Sets the time between two samples of the activity of all processes.",
								"It varies by half at random.  0 takes none; if it is 0 when the server starts, there is no sampler.",
								&light_sample_interval, 100, 0, 60000,
								PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.sample_ring",
								"Sets the number of samples that are kept one by one.",
								NULL,
								&light_sample_ring, 20000, 100, 100000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.sample_waits",
								"Sets the maximum number of combinations of statement, plan, node and wait event for which samples are added up.",
								NULL,
								&light_sample_waits, 5000, 100, 10000000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.waits_interval",
								"Sets the length of a bucket of the history of waits.",
								"Buckets end at multiples of it.",
								&light_waits_interval, 60, 1, 3600,
								PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.waits_buckets",
								"Sets the number of buckets that the history of waits keeps.",
								NULL,
								&light_waits_buckets, 1440, 1, 100000,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.waits_size",
								"Sets the shared memory for all buckets of the history of waits.",
								"0 keeps no history of waits.",
								&light_waits_memory, 32768, 0, MAX_KILOBYTES,
								PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);

		DefineCustomIntVariable("light_explain.plans_size",
								"Sets the shared memory for the plans of the slowest and last executions.",
								"0 keeps none; otherwise at least 64 kB are taken.",
								&light_plans_size, 4096, 0, MAX_KILOBYTES,
								PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	}

	MarkGUCPrefixReserved("light_explain");
}

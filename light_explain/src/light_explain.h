/*-------------------------------------------------------------------------
 *
 * light_explain.h
 *	  The ground that all floors of light_explain stand on: its settings.
 *
 * Above it are three floors, a folder with one header each; nothing calls up:
 *
 *	  measure/	  what is done around a call of a plan node, and the record that
 *				  it is done to: clock, counters, stack of running nodes.  Knows
 *				  no statement.
 *	  statement/  a statement from its start to its end: its phases, the array
 *				  of its nodes, what becomes of their records.
 *	  show/		  what users see: EXPLAIN, progress, profile.
 *
 * light_explain.c is on top of them: the executor's hooks.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_EXPLAIN_H
#define LIGHT_EXPLAIN_H

/* Functions and data that are visible only to files of this library. */
#define LIGHT_PRIVATE __attribute__((visibility("hidden")))

/* light_explain.timing */
typedef enum LightTiming
{
	LIGHT_TIMING_AUTO,
	LIGHT_TIMING_SYSTEM
} LightTiming;

/* guc.c */
extern LIGHT_PRIVATE bool light_enabled;
extern LIGHT_PRIVATE int light_timing;
extern LIGHT_PRIVATE int light_switch_after;
extern LIGHT_PRIVATE bool light_distinct_blocks;
extern LIGHT_PRIVATE bool light_show_self;
extern LIGHT_PRIVATE bool light_instrument_all;
extern LIGHT_PRIVATE bool light_profile;
extern LIGHT_PRIVATE int light_profile_max;
extern LIGHT_PRIVATE int light_profile_text;
extern LIGHT_PRIVATE bool light_profile_keep;
extern LIGHT_PRIVATE int light_history_interval;
extern LIGHT_PRIVATE int light_history_buckets;
extern LIGHT_PRIVATE int light_history_memory;
extern LIGHT_PRIVATE int light_history_save_interval;
extern LIGHT_PRIVATE int light_progress_statements;
extern LIGHT_PRIVATE int light_progress_nodes;
extern LIGHT_PRIVATE int light_sample_interval;
extern LIGHT_PRIVATE int light_sample_ring;
extern LIGHT_PRIVATE int light_sample_waits;
extern LIGHT_PRIVATE int light_waits_interval;
extern LIGHT_PRIVATE int light_waits_buckets;
extern LIGHT_PRIVATE int light_waits_memory;
extern LIGHT_PRIVATE int light_plans_size;
extern LIGHT_PRIVATE int light_plans_min_duration;
extern LIGHT_PRIVATE int light_plans_interval;
extern LIGHT_PRIVATE int light_plans_parameters;
extern LIGHT_PRIVATE void light_define_settings(void);

#endif							/* LIGHT_EXPLAIN_H */

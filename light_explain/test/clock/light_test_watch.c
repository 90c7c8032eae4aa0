/*-------------------------------------------------------------------------
 *
 * light_test_watch.c
 *	  light_explain's clock with a processor, a kernel and a time of the test's
 *	  own: which counters it takes, and what it does when one changes its rate or
 *	  the machine has slept.
 *
 * Loaded by a test, as the function light_test_watch(), which returns what was
 * found as one text.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "measure/measure.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
#include <cpuid.h>
#endif

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(light_test_watch);

/* Time goes on by each look at it: nanoseconds since the processor was started. */
static int64 running = 0;
static int64 slept = 0;			/* ... in which its counter stood still */
static double ticks_per_ns = 2.0;
static int64 tsc_offset = 0;
static int	pid = 1;
static bool preloading = true;

static int64
look_at_counter(void)
{
	running += 50;
	return tsc_offset + (int64) (running * ticks_per_ns);
}

static int64
look_at_system(void)
{
	running += 50;
	return running + slept;
}

/* From here on the counter is quicker by a part. */
static void
change_rate(double part)
{
	int64		before = tsc_offset + (int64) (running * ticks_per_ns);

	ticks_per_ns *= 1 + part;
	tsc_offset += before - (tsc_offset + (int64) (running * ticks_per_ns));
}

/* What the kernel says of clocks. */
static const char *current_clock;
static const char *available_clocks;

static FILE *
open_kernels(const char *path)
{
	const char *text = strstr(path, "current") != NULL ? current_clock : available_clocks;

	return text[0] == '\0' ? NULL : fmemopen((void *) text, strlen(text), "r");
}

#define light_now() look_at_counter()
#define light_system_ns() look_at_system()
#define MyProcPid pid
#define process_shared_preload_libraries_in_progress preloading
#define AllocateFile(path, mode) open_kernels(path)
#define FreeFile(file) fclose(file)
#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
#define __get_cpuid(leaf, a, b, c, d) (*(a) = *(b) = *(c) = 0, *(d) = 1 << 8, 1)
#endif

#include "measure/clock.c"

/* Is the counter taken if the kernel says this? */
static bool
taken(const char *current, const char *available)
{
	current_clock = current;
	available_clocks = available;
	light_tsc_usable = false;
	light_clock_init();
	return light_tsc_usable;
}

/* What a tick is said to last, over what it lasts; and the milliseconds of asking. */
static void
ask(StringInfo found, const char *when)
{
	int64		before = running;
	double		ratio = light_seconds_per_tick() * 1e9 * ticks_per_ns;

	appendStringInfo(found, "%s: %.3f after %d ms\n", when, ratio, (int) ((running - before) / 1000000));
}

Datum
light_test_watch(PG_FUNCTION_ARGS)
{
	static const char *const sources[][2] = {
		{COUNTER_NAME, COUNTER_NAME " hpet acpi_pm"},
		{"kvm-clock", "kvm-clock " COUNTER_NAME " acpi_pm"},
		{"kvm-clock", "kvm-clock acpi_pm"},
		{"xen", "xen " COUNTER_NAME},
		{"xen", "xen"},
		{"hyperv_clocksource_tsc_page", "hyperv_clocksource_tsc_page " COUNTER_NAME " acpi_pm"},
		{"hpet", "hpet acpi_pm"},
		{"hpet", COUNTER_NAME " hpet acpi_pm"},
		{"", ""}
	};
	StringInfoData found;

	initStringInfo(&found);
	for (int i = 0; i < lengthof(sources); i++)
	{
		bool		it_is = taken(sources[i][0], sources[i][1]);

		/* a counter's name is that of the processor */
		appendStringInfo(&found, "%s of%s: %s\n", strcmp(sources[i][0], COUNTER_NAME) == 0 ? "counter" : sources[i][0],
						 strstr(sources[i][1], COUNTER_NAME) != NULL ? " counter and others" : " others", it_is ? "counter" : "system");
	}
	if (!LIGHT_HAVE_COUNTER)
		PG_RETURN_TEXT_P(cstring_to_text(found.data));

	taken("", "");
	ask(&found, "preloaded");
	pid++;
	ask(&found, "another process");
	slept += INT64CONST(3600) * 1000000000;
	pid++;
	ask(&found, "one that began after the machine slept");
	running += INT64CONST(1000000000);
	ask(&found, "... a second later");
	slept += INT64CONST(3600) * 1000000000;
	ask(&found, "one that was there when it slept");
	ask(&found, "... once more");
	change_rate(0.001);
	running += INT64CONST(100000000000);
	ask(&found, "a thousandth quicker");
	change_rate(0.01);
	running += INT64CONST(10000000000000);
	ask(&found, "a hundredth quicker");
	ask(&found, "... once more");
	PG_RETURN_TEXT_P(cstring_to_text(found.data));
}

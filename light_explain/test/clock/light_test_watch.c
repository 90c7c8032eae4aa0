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
#include "storage/fd.h"
#include "utils/builtins.h"

/* Each reading advances the time: nanoseconds since the CPU was started. */
static int64 running = 0;
static int64 slept = 0;			/* ... in which its counter stood still */
static double ticks_per_ns = 2.0;
static int64 tsc_offset = 0;

#define LIGHT_TEST_CLOCK

static inline uint64
light_counter(void)
{
	running += 20;
	return tsc_offset + (int64) (running * ticks_per_ns);
}

static inline uint64
light_counter_ordered(void)
{
	return light_counter();
}

static inline int64
light_system_now(void)
{
	running += 50;
	return running + slept;
}

#include "measure/clock.h"
#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
#include <cpuid.h>
#endif

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(light_test_watch);

/* From here on the counter is quicker by a part. */
static void
change_rate(double part)
{
	int64		before = tsc_offset + (int64) (running * ticks_per_ns);

	ticks_per_ns *= 1 + part;
	tsc_offset += before - (tsc_offset + (int64) (running * ticks_per_ns));
}

/* The kernel's answers about clocks. */
static const char *current_clock;
static const char *available_clocks;

static FILE *
open_kernels(const char *path)
{
	const char *text = strstr(path, "current") != NULL ? current_clock : available_clocks;

	return text[0] == '\0' ? NULL : fmemopen((void *) text, strlen(text), "r");
}

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
	light_counter_usable = false;
	light_clock_init();
	return light_counter_usable;
}

#define MILLISECOND INT64CONST(1000000)
#define SECOND (1000 * MILLISECOND)

/* A process begins: what it knows of the clock is what the server's first one does. */
static void
begin_process(void)
{
	wrong = 0;
	light_counter_usable = true;
	memset(&light_scale, 0, sizeof(light_scale));
}

/*
 * Read the clock each microsecond for a time: how long was that by our clock, over
 * what it was?  And which clock was read in the end?
 */
static void
spend(StringInfo found, const char *when, int64 ns)
{
	int64		began = running + slept;
	int64		before = light_now();
	int64		last = before;
	bool		back = false;

	while (running + slept - began < ns)
	{
		int64		now;

		running += 1000;
		now = light_now();
		back |= now < last;
		last = now;
	}
	appendStringInfo(found, "%s: %.3f%s by the %s\n", when, (double) (last - before) / (running + slept - began), back ? ", goes back" : "",
					 light_scale.window != 0 ? "counter" : "system clock");
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
	begin_process();
	running += 3600 * SECOND;
	spend(&found, "a process begins", 5 * MILLISECOND);
	spend(&found, "... then", 20 * MILLISECOND);
	spend(&found, "... then", SECOND);
	running += 5 * SECOND;
	spend(&found, "it did nothing for a while", 5 * MILLISECOND);
	spend(&found, "... then", 20 * MILLISECOND);

	change_rate(0.5);
	spend(&found, "the counter became half as quick again", SECOND);
	spend(&found, "... a second later", 20 * MILLISECOND);
	begin_process();
	spend(&found, "a process begins then", 5 * MILLISECOND);
	spend(&found, "... then", 20 * MILLISECOND);

	/* what was running then has that hour, as it should: look after a window */
	slept += 3600 * SECOND;
	running += 10 * MILLISECOND;
	(void) light_now();
	spend(&found, "the machine has slept", 20 * MILLISECOND);
	spend(&found, "... then", SECOND);
	tsc_offset += 100000 * SECOND;
	spend(&found, "the counter jumped", 20 * MILLISECOND);
	spend(&found, "... then", SECOND);
	tsc_offset -= 200000 * SECOND;
	spend(&found, "the counter went back", 20 * MILLISECOND);
	spend(&found, "... then", SECOND);
	change_rate(-0.5);
	spend(&found, "a wrong rate for the third time", SECOND);
	spend(&found, "... a second later", SECOND);
	PG_RETURN_TEXT_P(cstring_to_text(found.data));
}

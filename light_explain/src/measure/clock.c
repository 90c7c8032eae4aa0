/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  Which clock this machine has, and what a tick of it is worth.
 *
 * Times of nodes are kept in ticks: of the processor's counter where it runs at a
 * constant rate and the kernel would rely on it (the time stamp counter of x86-64,
 * the generic timer of ARM64), nanoseconds of clock_gettime() elsewhere.  The
 * counter's rate is measured once, when the library is loaded, which in a preloaded
 * library is when the server starts: all processes have the same.  Where the
 * processor tells the rate, as ARM64 does, that is taken unless the measurement
 * says otherwise.  Each process watches from its own start on whether the counter
 * keeps that rate: after a machine slept, or moved to another one, the rate is
 * measured anew, by the processes that were there; others begin after that.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "measure/measure.h"
#include "miscadmin.h"
#include "storage/fd.h"

#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
#include <cpuid.h>
#endif

/* Least time between two readings from which a rate is computed: 10 ms. */
#define CALIBRATION_NS INT64CONST(10000000)

bool		light_tsc_usable = false;

/* What a tick of the processor's counter lasts; 0 if that is not known (yet). */
double		light_ns_per_tick = 0;

/* Both clocks when this process began to watch the counter. */
static int64 base_tsc;
static int64 base_ns;
static int	base_owner = 0;

/* Seconds a tick; 0 if that was not measured yet. */
static double rate = 0;

/* Part of the rate by which the counter may differ from it, and since when. */
#define RATE_TOLERANCE 0.002
#define WATCH_NS INT64CONST(100000000)

/* What Linux calls the counter. */
#if defined(__x86_64__)
#define COUNTER_NAME "tsc"
#else
#define COUNTER_NAME "arch_sys_counter"
#endif

#if LIGHT_HAVE_COUNTER

#if defined(__x86_64__)
/* Does the processor promise a counter that neither stops nor changes its rate? */
static bool
counter_invariant(void)
{
	unsigned	eax,
				ebx,
				ecx,
				edx;

	return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1 << 8)) != 0;
}

/* Ticks a second as the processor tells them; 0: it does not. */
static int64
counter_frequency(void)
{
	return 0;
}
#else
/* ARM's is so by its architecture; slower than this it could not time a node. */
#define LEAST_FREQUENCY 1000000

static int64
counter_frequency(void)
{
	int64		frequency;

	__asm__ volatile ("mrs %0, cntfrq_el0":"=r" (frequency));

	return frequency;
}

static bool
counter_invariant(void)
{
	return counter_frequency() >= LEAST_FREQUENCY;
}
#endif

/* The first line of one of the kernel's files about its clocks; empty if there is none. */
static void
read_clocksource(const char *which, char *line, int size)
{
	char		path[MAXPGPATH];
	FILE	   *file;

	line[0] = '\0';
	snprintf(path, sizeof(path), "/sys/devices/system/clocksource/clocksource0/%s_clocksource", which);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return;
	if (fgets(line, size, file) == NULL)
		line[0] = '\0';
	FreeFile(file);
}

/*
 * The kernel watches the counter, and when it finds it wanting it leaves it for
 * another clock and no longer names it as one that it could have.  Virtual machines
 * may have clocks that it likes better (kvm-clock, xen, hyperv), so what counts is
 * whether the counter is named.
 */
static bool
rejected_by_kernel(void)
{
	char		current[64];
	char		available[256];

	read_clocksource("current", current, sizeof(current));
	if (current[0] == '\0' || strncmp(current, COUNTER_NAME, strlen(COUNTER_NAME)) == 0)
		return false;
	read_clocksource("available", available, sizeof(available));
	return strstr(available, COUNTER_NAME) == NULL || strncmp(current, "hpet", 4) == 0 ||
		strncmp(current, "acpi_pm", 7) == 0 || strncmp(current, "jiffies", 7) == 0;
}

#endif

/* Does a rate say the same as the one that is known? */
static bool
rate_is(double known, double found)
{
	return found >= known * (1 - RATE_TOLERANCE) && found <= known * (1 + RATE_TOLERANCE);
}

/* Read both clocks, as nearly at one time as can be had. */
static void
read_both(int64 *tsc, int64 *ns)
{
	int64		least = PG_INT64_MAX;

	/* the process may be interrupted between them: the nearest of some */
	for (int i = 0; i < 5; i++)
	{
		int64		before = light_now();
		int64		between = light_system_ns();
		int64		after = light_now();

		if (after - before < least)
		{
			least = after - before;
			*tsc = before + least / 2;
			*ns = between;
		}
		if (least < 1000)
			break;
	}
}

/* Measure the rate, from now on; takes CALIBRATION_NS. */
static void
measure_rate(void)
{
	int64		tsc;
	int64		ns;

	read_both(&base_tsc, &base_ns);
	do
		read_both(&tsc, &ns);
	while (ns - base_ns < CALIBRATION_NS || tsc <= base_tsc);
	rate = (double) (ns - base_ns) / (double) (tsc - base_tsc) * 1e-9;
	base_tsc = tsc;
	base_ns = ns;
	base_owner = MyProcPid;
}

/* The processor's counter, as Linux calls it, or "system". */
const char *
light_clock_name(void)
{
	return light_tsc_usable ? COUNTER_NAME : "system";
}

/* Find the clock and measure its rate. */
void
light_clock_init(void)
{
#if LIGHT_HAVE_COUNTER
	int64		frequency;

	if (!counter_invariant() || rejected_by_kernel())
		return;
	light_tsc_usable = true;
	frequency = counter_frequency();

	/* one session alone learns it at its first measured statement's end */
	if (process_shared_preload_libraries_in_progress)
		measure_rate();
	else
	{
		read_both(&base_tsc, &base_ns);
		base_owner = MyProcPid;
	}
	if (frequency > 0 && (rate == 0 || rate_is(rate, 1.0 / frequency)))
		rate = 1.0 / frequency;
#endif
}

/*
 * What a tick of light_now() lasts, in seconds.  Waits up to CALIBRATION_NS when
 * the library was loaded just now by one session, or the counter no longer has
 * the rate that it had.
 */
double
light_seconds_per_tick(void)
{
	int64		tsc;
	int64		ns;
	double		now;

	if (!light_tsc_usable)
		return 1e-9;
	if (base_owner != MyProcPid)
	{
		/* what was before this process does not concern it */
		read_both(&base_tsc, &base_ns);
		base_owner = MyProcPid;
	}
	if (rate == 0)
	{
		/* since the library was loaded */
		do
			read_both(&tsc, &ns);
		while (ns - base_ns < CALIBRATION_NS);
		if (tsc > base_tsc)
			rate = (double) (ns - base_ns) / (double) (tsc - base_tsc) * 1e-9;
		else
			measure_rate();
		return rate;
	}

	/* the longer it runs, the better it is known whether it keeps its rate */
	read_both(&tsc, &ns);
	if (ns - base_ns < WATCH_NS)
		return rate;
	now = tsc > base_tsc ? (double) (ns - base_ns) / (double) (tsc - base_tsc) * 1e-9 : 0;
	if (!rate_is(rate, now))
	{
		measure_rate();
		if (light_ns_per_tick != 0)
			light_ns_per_tick = rate * 1e9;
	}
	return rate;
}

/*
 * Can the processor's counter take the place of the system clock, which shorter
 * statements are measured with?  Its rate is learnt as soon as that needs no
 * waiting.  The server has a quick clock of its own since 19.
 */
bool
light_clock_is_quick(void)
{
	if (light_ns_per_tick != 0)
		return true;
	if (HAVE_QUICK_INSTR_CLOCK_COMPAT || !light_tsc_usable ||
		(rate == 0 && light_system_ns() - base_ns < CALIBRATION_NS))
		return false;
	light_ns_per_tick = light_seconds_per_tick() * 1e9;
	return true;
}

/* About how many ticks a time is; good enough to show progress, and never waits. */
int64
light_ticks(double seconds)
{
	if (!light_tsc_usable)
		return (int64) (seconds * 1e9);
	if (rate == 0)
		return (int64) (seconds * 2e9);
	return (int64) (seconds / rate);
}

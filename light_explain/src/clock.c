/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  Which clock this machine has, and what a tick of it is worth.
 *
 * Times of nodes are kept in ticks: of the processor's time stamp counter where
 * it runs at a constant rate and the kernel itself relies on it, nanoseconds of
 * clock_gettime() elsewhere.  The counter's rate is measured against
 * clock_gettime() from the moment the library was loaded, which in a preloaded
 * library is when the server started.  A machine that slept meanwhile may have
 * begun to count anew, or go on with another processor's rate: so the rate over
 * all that time is compared with the one that was measured first.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "compat_instrument.h"
#include "light_explain.h"
#include "miscadmin.h"
#include "storage/fd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* Least time between two readings from which a rate is computed. */
#define CALIBRATION_NS INT64CONST(5000000)

bool		light_tsc_usable = false;

/* What a tick of the processor's counter lasts; 0 if that is not known (yet). */
double		light_ns_per_tick = 0;

static int64 base_tsc;
static int64 base_ns;

/* Seconds a tick, as measured first; 0 if that was not done. */
static double first_rate = 0;

/* Part of the first rate by which later ones may differ from it. */
#define RATE_TOLERANCE 0.02

/* Nanoseconds of the system clock. */
int64
light_system_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64CONST(1000000000) + t.tv_nsec;
}

#if defined(__x86_64__)

/* Does the processor promise a counter that neither stops nor changes its rate? */
static bool
tsc_invariant(void)
{
	unsigned	eax,
				ebx,
				ecx,
				edx;

	return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1 << 8)) != 0;
}

/*
 * The kernel watches the counter and leaves it for one of these clocks when it
 * finds it wanting.
 */
static bool
tsc_rejected_by_kernel(void)
{
	char		name[32] = "";
	FILE	   *file = AllocateFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");

	if (file == NULL)
		return false;
	if (fgets(name, sizeof(name), file) == NULL)
		name[0] = '\0';
	FreeFile(file);
	return strncmp(name, "hpet", 4) == 0 || strncmp(name, "acpi_pm", 7) == 0 ||
		strncmp(name, "jiffies", 7) == 0;
}

#endif

/* Read both clocks, as nearly at one time as can be had. */
static void
read_both(int64 *tsc, int64 *ns)
{
	int64		before;

	/* not if the process was interrupted between them */
	for (int i = 0; i < 5; i++)
	{
		before = light_now();
		*ns = light_system_ns();
		*tsc = light_now();
		if (*tsc - before < 10000)
			break;
	}
}

/* Find the clock and begin to measure its rate. */
void
light_clock_init(void)
{
#if defined(__x86_64__)
	light_tsc_usable = tsc_invariant() && !tsc_rejected_by_kernel();
#endif
	read_both(&base_tsc, &base_ns);

	/* the first rate is for all processes of the server */
	if (process_shared_preload_libraries_in_progress)
		(void) light_seconds_per_tick();
}

/*
 * What a tick of light_now() lasts, in seconds.  Waits up to 5 ms when the
 * library was loaded just now.
 */
double
light_seconds_per_tick(void)
{
	int64		tsc;
	int64		ns;
	double		rate = 1e-9;

	if (!light_tsc_usable)
		return rate;
	for (int i = 0; i < 3; i++)
	{
		do
			read_both(&tsc, &ns);
		while (ns - base_ns < CALIBRATION_NS);
		rate = (double) (ns - base_ns) / (double) (tsc - base_tsc) * 1e-9;
		if (first_rate == 0)
			first_rate = rate;
		if (rate > first_rate * (1 - RATE_TOLERANCE) && rate < first_rate * (1 + RATE_TOLERANCE))
			break;

		/* the counter was not the same all the time: begin anew */
		base_tsc = tsc;
		base_ns = ns;
		first_rate = 0;
	}
	return rate;
}

/*
 * Can the processor's counter take the place of the system clock, which shorter
 * statements are measured with?  Its rate is learnt as soon as that needs no
 * waiting and stays for the life of the process.  The server has a quick clock
 * of its own since 19.
 */
bool
light_clock_is_quick(void)
{
	if (light_ns_per_tick != 0)
		return true;
	if (HAVE_QUICK_INSTR_CLOCK_COMPAT || !light_tsc_usable || light_system_ns() - base_ns < CALIBRATION_NS)
		return false;
	light_ns_per_tick = light_seconds_per_tick() * 1e9;
	return true;
}

/* About how many ticks a time is; good enough for deadlines. */
int64
light_ticks(double seconds)
{
	static double rate = 0;

	if (rate == 0)
	{
		/* a rough rate is enough and must not wait */
		int64		ns = light_system_ns();

		if (!light_tsc_usable)
			rate = 1e9;
		else if (ns - base_ns < CALIBRATION_NS)
			return (int64) (seconds * 2e9);
		else
			rate = 1.0 / light_seconds_per_tick();
	}
	return (int64) (seconds * rate);
}

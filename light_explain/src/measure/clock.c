/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  Choose the clock of this machine, and measure the length of a tick of its counter.
 *
 * The CPU's counter is used if it runs at a constant rate and the kernel
 * would use it: the time stamp counter of x86-64, the generic timer of ARM64.
 * Each process measures the length of a tick for itself, in windows, with the
 * system clock (CLOCK_MONOTONIC) as the standard:
 *
 *	  no rate	 The system clock is read each time, until a window of 10 ms has
 *				 given the rate.
 *	  a rate	 The counter is read for 10 ms.  Then, at the next reading, both
 *				 clocks are read.  If the counter has kept its rate, the
 *				 next 10 ms begin with the rate measured in these.
 *
 * The rate is measured again if the counter went back, jumped, or changed its rate
 * (a virtual machine was moved or suspended), and if both clocks were not compared for a
 * second, in which that may have happened unnoticed: so a new process begins without a rate.
 * A wrong rate is used for one window at most.  A counter that does not keep its
 * rate for the third time is not used any more in this process.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "measure/clock.h"
#include "storage/fd.h"

#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
#include <cpuid.h>
#endif

/* All in nanoseconds. */
#define WINDOW INT64CONST(10000000) /* between comparisons with the system
									 * clock */
#define KNOWN_FOR INT64CONST(1000000000)	/* after this the rate is measured
											 * again */

/*
 * Part of the rate by which windows may differ: 1 / this.  Time servers adjust the
 * system clock by a quarter of it at most (adjtimex(2): 500 parts in a million).
 */
#define RATE_TOLERANCE 500

/* The time allowed between readings of the two clocks: a fraction of the tolerance. */
#define MAX_GAP INT64CONST(2000)

StaticAssertDecl(MAX_GAP * RATE_TOLERANCE * 10 <= WINDOW, "both clocks are read within a short enough time");

/* Wrong rates until the counter is given up. */
#define MAX_WRONG 3

bool		light_counter_usable = false;
LightScale	light_scale pg_attribute_aligned(64);

static int	wrong = 0;

/* What Linux calls the counter. */
#if defined(__x86_64__)
#define COUNTER_NAME "tsc"
#else
#define COUNTER_NAME "arch_sys_counter"
#endif

#if LIGHT_HAVE_COUNTER

#if defined(__x86_64__)
/* Does the CPU guarantee a counter that neither stops nor changes its rate? */
static bool
counter_invariant(void)
{
	unsigned	eax,
				ebx,
				ecx,
				edx;

	return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1 << 8)) != 0;
}

#else
/* ARM's is so by its architecture; slower than this it could not time a node. */
#define LEAST_FREQUENCY 1000000

static bool
counter_invariant(void)
{
	int64		frequency;

	__asm__ volatile ("mrs %0, cntfrq_el0":"=r" (frequency));

	return frequency >= LEAST_FREQUENCY;
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

/* The CPU's counter, as Linux calls it, or "system". */
const char *
light_clock_name(void)
{
	return light_counter_usable ? COUNTER_NAME : "system";
}

/* Is there a counter to be relied on?  Its rate is measured when it is first read. */
void
light_clock_init(void)
{
#if LIGHT_HAVE_COUNTER
	light_counter_usable = counter_invariant() && !rejected_by_kernel();
#endif
}

/* Look at both clocks, at one time as nearly as matters; false if we were interrupted each time. */
static bool
look_at_both(uint64 *ticks, int64 *ns)
{
	for (int i = 0; i < 5; i++)
	{
		*ns = light_system_now();
		*ticks = light_counter();
		if (light_system_now() - *ns <= MAX_GAP)
			return true;
	}
	return false;
}

/*
 * The counter was read when its scale was not valid, or not any more.  Returns the
 * system clock's time.
 */
int64
light_clock_look(void)
{
	LightScale	last = light_scale;
	int64		ns = light_system_now();
	uint64		ticks;
	uint64		scale;

	if (!light_counter_usable || (last.window == 0 && ns - last.ns < WINDOW) || !look_at_both(&ticks, &ns))
		return ns;

	/*
	 * unless the rate of the time since then counts, it is measured from here
	 * on
	 */
	light_scale = (LightScale)
	{
		.ticks = ticks,.ns = ns
	};
	if (ns - last.ns > KNOWN_FOR)
		return ns;
	scale = (int64) (ticks - last.ticks) > 0 ? ((uint64) (ns - last.ns) << LIGHT_SCALE_BITS) / (ticks - last.ticks) : 0;
	if (scale == 0 || (last.window != 0 && llabs((int64) (scale - last.scale)) > (int64) (last.scale / RATE_TOLERANCE)))
	{
		if (++wrong >= MAX_WRONG)
			light_counter_usable = false;
		return ns;
	}
	light_scale.scale = scale;
	light_scale.window = ((uint64) WINDOW << LIGHT_SCALE_BITS) / scale;
	return ns;
}

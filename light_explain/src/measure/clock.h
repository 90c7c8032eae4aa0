/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  How clocks are read: the system's, and the processor's counter where there
 *	  is one.
 *
 * A counter counts here if Linux can tell whether it is to be relied on; elsewhere,
 * and with LIGHT_NO_COUNTER, the system clock takes its place and its ticks are
 * nanoseconds.  Nothing but clock.c and what is inlined here knows processors.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_CLOCK_H
#define LIGHT_CLOCK_H

#include <time.h>

#if defined(__linux__) && !defined(LIGHT_NO_COUNTER) && (defined(__x86_64__) || defined(__aarch64__))
#define LIGHT_HAVE_COUNTER 1
#else
#define LIGHT_HAVE_COUNTER 0
#endif

/* Nanoseconds of the system clock. */
static inline int64
light_system_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64CONST(1000000000) + t.tv_nsec;
}

/* The processor's counter, as soon as it can be had. */
static inline int64
light_counter(void)
{
#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif LIGHT_HAVE_COUNTER
	int64		ticks;

	__asm__ volatile ("mrs %0, cntvct_el0":"=r" (ticks));

	return ticks;
#else
	return light_system_ns();
#endif
}

/* The same, but not before what comes earlier is done: a stall stays where it began. */
static inline int64
light_counter_ordered(void)
{
#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
	unsigned	cpu;

	return __builtin_ia32_rdtscp(&cpu);
#elif LIGHT_HAVE_COUNTER
	int64		ticks;

	__asm__ volatile ("isb\n\tmrs %0, cntvct_el0":"=r" (ticks)::"memory");

	return ticks;
#else
	return light_system_ns();
#endif
}

#endif							/* LIGHT_CLOCK_H */

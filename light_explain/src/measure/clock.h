/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The clock: nanoseconds, from the CPU's counter if it is reliable,
 *	  otherwise from the system.
 *
 * It works as the kernel's clock_gettime(), with a separate window: at
 * the last comparison with the system clock the counter was "ticks" and the clock "ns",
 * and the length of a tick was "scale".  As long as the counter is less than "window"
 * ticks beyond that, the time is computed from it.  Any other reading, also of a
 * counter that went back, reads the system clock, see clock.c.  So a counter
 * that changes its rate or jumps is used for one window at most, and every
 * reading by clock and counter belongs to one scale.
 *
 * A counter is used only if Linux reports whether it is reliable; otherwise,
 * and with LIGHT_NO_COUNTER, the system clock takes its place.  Only clock.c
 * and the functions inlined here depend on the CPU.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_CLOCK_H
#define LIGHT_CLOCK_H

#include <time.h>

#include "light_explain.h"

#if defined(__linux__) && !defined(LIGHT_NO_COUNTER) && (defined(__x86_64__) || defined(__aarch64__))
#define LIGHT_HAVE_COUNTER 1
#else
#define LIGHT_HAVE_COUNTER 0
#endif

#define LIGHT_SECOND 1e9		/* in nanoseconds */

/* The length of a tick: valid for "window" ticks after "ticks". */
typedef struct LightScale
{
	uint64		ticks;			/* counter at the last comparison with the
								 * system clock */
	uint64		window;			/* 0: the counter's rate is not known */
	uint64		scale;			/* nanoseconds a tick, times
								 * 2^LIGHT_SCALE_BITS */
	int64		ns;				/* system clock at that look */
} LightScale;

/* A window is less than two seconds, so ticks * scale is below 2^63. */
#define LIGHT_SCALE_BITS 32

extern LIGHT_PRIVATE LightScale light_scale;
extern LIGHT_PRIVATE bool light_counter_usable;
extern LIGHT_PRIVATE void light_clock_init(void);
extern LIGHT_PRIVATE const char *light_clock_name(void);
extern LIGHT_PRIVATE int64 light_clock_look(void);

/* The test of the clock has a counter and a system clock that it can change. */
#ifndef LIGHT_TEST_CLOCK

/* Nanoseconds of the system clock. */
static inline int64
light_system_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64CONST(1000000000) + t.tv_nsec;
}

/* The CPU's counter; earlier instructions may still be executing. */
static inline uint64
light_counter(void)
{
#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif LIGHT_HAVE_COUNTER
	uint64		ticks;

	__asm__ volatile ("mrs %0, cntvct_el0":"=r" (ticks));

	return ticks;
#else
	return 0;
#endif
}

/* The same, but not before all loads of earlier instructions are done. */
static inline uint64
light_counter_ordered(void)
{
#if LIGHT_HAVE_COUNTER && defined(__x86_64__)
	uint32		low;
	uint32		high;

	/*
	 * not the compiler's function: it stores the CPU's number, and callers
	 * then guard their stack
	 */
	__asm__ volatile ("rdtscp":"=a" (low), "=d"(high)::"rcx", "memory");

	return low | ((uint64) high << 32);
#elif LIGHT_HAVE_COUNTER
	uint64		ticks;

	__asm__ volatile ("isb\n\tmrs %0, cntvct_el0":"=r" (ticks)::"memory");

	return ticks;
#else
	return 0;
#endif
}

#endif							/* LIGHT_TEST_CLOCK */

/* The time of a reading of the counter that was made just now. */
static inline int64
light_time_of(uint64 counter)
{
	uint64		ticks = counter - light_scale.ticks;

	if (unlikely(ticks >= light_scale.window))
		return light_clock_look();
	return light_scale.ns + (int64) ((ticks * light_scale.scale) >> LIGHT_SCALE_BITS);
}

/* Nanoseconds, of which only differences are meaningful: read as soon as the CPU can. */
static inline int64
light_now(void)
{
	return light_time_of(light_counter());
}

/*
 * The same when a node returns.  A CPU that executes out of order would read
 * the counter while the node still waits for memory, and the node's caller would get that
 * time: a sort's 0.38 of a statement, an index scan's 0.30 below a Memoize.  A
 * node's first reading need not be ordered: the caller then waits for no
 * more than the CPU has begun, a few hundred instructions, and with both in
 * order filters and lateral aggregates were 10 points off instead of 2 and 5.
 */
static inline int64
light_now_ordered(void)
{
	return light_time_of(light_counter_ordered());
}

#endif							/* LIGHT_CLOCK_H */

/*-------------------------------------------------------------------------
 *
 * light_test_clock.c
 *	  light_explain's clock without a server, to be run where there is none of
 *	  that processor (ci/arm.sh runs it in an emulator): does its counter go
 *	  forward, does it agree with the system clock, and how long does a reading take?
 *
 * Takes the name of the clock that is expected.  The kernel that is asked about
 * clocks may be another processor's, so it is taken to say nothing.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "measure/clock.c"

#undef fprintf
#undef printf
#undef snprintf

/* what the clock uses of a server */
FILE *
AllocateFile(const char *name, const char *mode)
{
	return NULL;
}

int
FreeFile(FILE *file)
{
	return 0;
}

int
pg_snprintf(char *str, size_t count, const char *fmt,...)
{
	str[0] = '\0';
	return 0;
}

static void
fail(const char *what)
{
	fprintf(stderr, "light_test_clock: %s\n", what);
	exit(1);
}

/* Nanoseconds of one of many readings, in the fastest of some rounds: a process may lose the processor in others. */
#define READINGS 1000

static double
reading_takes(int64 (*now) (void))
{
	int64		fastest = PG_INT64_MAX;

	for (int round = 0; round < 2000; round++)
	{
		int64		began = light_system_now();

		for (int i = 0; i < READINGS; i++)
			(void) now();
		fastest = Min(fastest, light_system_now() - began);
	}
	return (double) fastest / READINGS;
}

int
main(int argc, char **argv)
{
	double		ratio = 0;
	int64		previous = 0;

	light_clock_init();
	if (argc != 2 || strcmp(light_clock_name(), argv[1]) != 0)
		fail(light_clock_name());

	/* readings, of both kinds, never go back */
	for (int i = 0; i < 100000; i++)
	{
		int64		now = i % 2 == 0 ? light_now() : light_now_ordered();

		if (now < previous)
			fail("the clock goes back");
		previous = now;
	}

	/*
	 * A stretch of time by both clocks.  The process may lose the processor
	 * between two readings, so one of many is enough.
	 */
	for (int i = 0; i < 50 && (ratio < 0.99 || ratio > 1.01); i++)
	{
		int64		now = light_now();
		int64		ns = light_system_now();

		while (light_system_now() - ns < 20000000)
			;
		ns = light_system_now() - ns;
		ratio = (double) (light_now() - now) / ns;
	}
	if (ratio < 0.99 || ratio > 1.01)
		fail("a time is not the system clock's");
	if (light_counter_usable && light_scale.window == 0)
		fail("the rate is not known");
	printf("%s: a time is %.5f of the system clock's; a reading takes %.0f ns, in order %.0f, of the system clock %.0f\n", light_clock_name(), ratio,
		   reading_takes(light_now), reading_takes(light_now_ordered), reading_takes(light_system_now));
	return 0;
}

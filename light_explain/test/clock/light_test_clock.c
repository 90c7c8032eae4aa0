/*-------------------------------------------------------------------------
 *
 * light_test_clock.c
 *	  light_explain's clock without a server, to be run where there is none of
 *	  that processor (ci/arm.sh runs it in an emulator): does its counter go
 *	  forward, and is a tick worth what the system clock says?
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
int			MyProcPid = 1;
bool		process_shared_preload_libraries_in_progress = false;

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
		int64		now = i % 2 == 0 ? light_now() : (light_tsc_usable ? light_counter_ordered() : light_system_ns());

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
		double		tick = light_seconds_per_tick();
		int64		ticks = light_now();
		int64		ns = light_system_ns();

		while (light_system_ns() - ns < 20000000)
			;
		ns = light_system_ns() - ns;
		ticks = light_now() - ticks;
		ratio = ticks * tick / (ns * 1e-9);
	}
	if (ratio < 0.99 || ratio > 1.01)
		fail("a tick is not what it is said to be");
	printf("%s: a tick is %.3f ns; by it a time is %.5f of the system clock's\n", light_clock_name(), light_seconds_per_tick() * 1e9, ratio);
	return 0;
}

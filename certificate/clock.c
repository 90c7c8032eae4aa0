/*
 * clock.c
 *		Preloaded into servers by chaos.py: their wall clock is the machine's plus
 *		the seconds that the file named by CHAOS_CLOCK holds (a binary int64, mapped,
 *		so that a change is a jump in all processes at once).  The monotonic clock is
 *		left alone, as an administrator or NTP leaves it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor))
static void
map_offset(void)
{
	const char *path = getenv("CHAOS_CLOCK");
	int			fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0)
	{
		void	   *map = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);

		if (map != MAP_FAILED)
			offset = map;
		close(fd);
	}
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	static int	(*real) (clockid_t, struct timespec *);
	int			result;

	if (real == NULL)
		real = (int (*) (clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, now);
	if (result == 0 && clock == CLOCK_REALTIME && offset != NULL)
		now->tv_sec += *offset;
	return result;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;

	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &precise) != 0)
		return -1;
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *result)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return (time_t) -1;
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}

/*-------------------------------------------------------------------------
 *
 * parallel_test_faults.c
 *	  Loaded into a test's server by LD_PRELOAD: calls of the system that fail as they do
 *	  on other systems and in containers.  Never installed.
 *
 * PARALLEL_TEST_FAULTS has the names of those that fail: fallocate (no space can be
 * reserved in tables' files), memfd (no anonymous files), proc (descriptors of other processes cannot be
 * opened), memory (from the first request of more than 256 MB there is no memory, until a file
 * is truncated); and of the machine's properties: cpus (16 CPUs), quota (the control group may use 3 of them).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/* since 16 the server's flags hide what an extension does not export */
#pragma GCC visibility push(default)

static int
fails(const char *what)
{
	const char *faults = getenv("PARALLEL_TEST_FAULTS");

	return faults != NULL && strstr(faults, what) != NULL;
}

/* How many more requests for memory fail. */
static int	starved = 0;

extern void *__libc_malloc(size_t size);

void *
malloc(size_t size)
{
	if (size > (size_t) 256 * 1024 * 1024 && fails("memory"))
		starved = 1000;
	if (starved == 0)
		return __libc_malloc(size);
	starved--;
	errno = ENOMEM;
	return NULL;
}

int
ftruncate(int fd, off_t length)
{
	int			(*real) (int, off_t) = (int (*) (int, off_t)) dlsym(RTLD_NEXT, "ftruncate");

	starved = 0;
	return real(fd, length);
}

int
posix_fallocate(int fd, off_t offset, off_t len)
{
	int			(*real) (int, off_t, off_t) = (int (*) (int, off_t, off_t)) dlsym(RTLD_NEXT, "posix_fallocate");

	char		link[64];
	char		path[1024];
	ssize_t		length;

	/* not of shared memory, without which no server starts */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = '\0';
	return fails("fallocate") && strstr(path, "/base/") != NULL ? EOPNOTSUPP : real(fd, offset, len);
}

int
memfd_create(const char *name, unsigned int flags)
{
	int			(*real) (const char *, unsigned int) = (int (*) (const char *, unsigned int)) dlsym(RTLD_NEXT, "memfd_create");

	if (!fails("memfd"))
		return real(name, flags);
	errno = ENOSYS;
	return -1;
}

int
open(const char *path, int flags,...)
{
	int			(*real) (const char *, int,...) = (int (*) (const char *, int,...)) dlsym(RTLD_NEXT, "open");
	va_list		args;
	mode_t		mode = 0;

	if (flags & O_CREAT)
	{
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	if (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/") != NULL && fails("proc"))
	{
		errno = ENOENT;
		return -1;
	}
	return real(path, flags, mode);
}

int
sched_getaffinity(pid_t pid, size_t size, cpu_set_t * mask)
{
	int			(*real) (pid_t, size_t, cpu_set_t *) = (int (*) (pid_t, size_t, cpu_set_t *)) dlsym(RTLD_NEXT, "sched_getaffinity");

	if (!fails("cpus"))
		return real(pid, size, mask);
	CPU_ZERO_S(size, mask);
	for (int cpu = 0; cpu < 16; cpu++)
		CPU_SET_S(cpu, size, mask);
	return 0;
}

FILE *
fopen(const char *path, const char *mode)
{
	FILE	   *(*real) (const char *, const char *) = (FILE *(*) (const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
	const char *name = strrchr(path, '/');
	FILE	   *file;

	if (strncmp(path, "/sys/fs/cgroup/", 15) != 0 || strcmp(name, "/cpu.max") != 0 || !fails("quota"))
		return real(path, mode);
	file = tmpfile();
	if (file != NULL)
	{
		fputs("300000 100000\n", file);
		rewind(file);
	}
	return file;
}

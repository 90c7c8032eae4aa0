/*
 * faults.c
 *		Preloaded into servers by chaos.py: a wall clock that jumps, and a disk that is
 *		full at times.
 *
 * CHAOS_FAULTS names a file that is mapped, so that a change is there in all processes at
 * once: struct faults.  The wall clock is the machine's plus so many seconds; the
 * monotonic clock is left alone, as an administrator or NTP leaves it.  While a
 * disk is full, files below `folder` neither grow nor come to be: for WAL those
 * in pg_wal, for data all others, for temporary files those of temporary tables and of
 * what spills, as in a temporary tablespace.  Existing files can be written, as a file
 * system does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Kept in step with chaos.py. */
struct faults
{
	int64_t		clock;			/* seconds */
	int64_t		full;			/* FULL_DATA, FULL_WAL, FULL_TEMPORARY */
	char		folder[PATH_MAX];	/* a data directory */
};

enum
{
	FULL_DATA = 1,
	FULL_WAL = 2,
	FULL_TEMPORARY = 4
};

#define REAL(result, name, ...) \
	static result (*real_##name) (__VA_ARGS__); \
	if (real_##name == NULL) \
		real_##name = (result (*) (__VA_ARGS__)) dlsym(RTLD_NEXT, #name)

static volatile struct faults *faults;

__attribute__((constructor))
static void
map_faults(void)
{
	const char *path = getenv("CHAOS_FAULTS");
	int			fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0)
	{
		void	   *map = mmap(NULL, sizeof(*faults), PROT_READ, MAP_SHARED, fd, 0);

		if (map != MAP_FAILED)
			faults = map;
		close(fd);
	}
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int			result;

	REAL(int, clock_gettime, clockid_t, struct timespec *);
	result = real_clock_gettime(clock, now);
	if (result == 0 && clock == CLOCK_REALTIME && faults != NULL)
		now->tv_sec += faults->clock;
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

/* ---- full disks ------------------------------------------------------------ */

/* Is this file one of a temporary relation (t3_16384) or of what spills (pgsql_tmp)? */
static int
is_temporary(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	return strstr(path, "/pgsql_tmp") != NULL || (name[0] == 't' && name[1] >= '0' && name[1] <= '9' && strchr(name, '_') != NULL);
}

/* Is this file on a disk that is full now? */
static int
on_full_disk(const char *path)
{
	size_t		length = strlen((const char *) faults->folder);
	int			disks = FULL_DATA;

	if (strncmp(path, (const char *) faults->folder, length) != 0 || path[length] != '/')
		return 0;
	if (strncmp(path + length, "/pg_wal/", 8) == 0)
		disks = FULL_WAL;
	else if (is_temporary(path + length))
		disks = FULL_DATA | FULL_TEMPORARY;
	return (faults->full & disks) != 0;
}

/* Would the file grow if it reached to `end`, and has its disk no room? */
static int
no_room(int fd, off_t end)
{
	struct stat st;
	char		name[64];
	char		path[PATH_MAX];
	ssize_t		n;
	int			error = errno;

	if (faults == NULL || faults->full == 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || end <= st.st_size)
		return 0;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, sizeof(path) - 1);
	errno = error;
	if (n <= 0)
		return 0;
	path[n] = '\0';
	return on_full_disk(path);
}

ssize_t
write(int fd, const void *data, size_t size)
{
	REAL(ssize_t, write, int, const void *, size_t);
	if (faults != NULL && faults->full != 0)
	{
		int			error = errno;
		off_t		at = lseek(fd, 0, SEEK_CUR);

		errno = error;
		if (at >= 0 && no_room(fd, at + size))
		{
			errno = ENOSPC;
			return -1;
		}
	}
	return real_write(fd, data, size);
}

ssize_t
pwrite(int fd, const void *data, size_t size, off_t offset)
{
	REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
	if (no_room(fd, offset + size))
	{
		errno = ENOSPC;
		return -1;
	}
	return real_pwrite(fd, data, size, offset);
}

ssize_t		pwrite64(int fd, const void *data, size_t size, off_t offset) __attribute__((alias("pwrite")));

ssize_t
pwritev(int fd, const struct iovec *data, int n, off_t offset)
{
	off_t		end = offset;

	REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
	for (int i = 0; i < n; i++)
		end += data[i].iov_len;
	if (no_room(fd, end))
	{
		errno = ENOSPC;
		return -1;
	}
	return real_pwritev(fd, data, n, offset);
}

ssize_t		pwritev64(int fd, const struct iovec *data, int n, off_t offset) __attribute__((alias("pwritev")));

int
posix_fallocate(int fd, off_t offset, off_t length)
{
	REAL(int, posix_fallocate, int, off_t, off_t);
	return no_room(fd, offset + length) ? ENOSPC : real_posix_fallocate(fd, offset, length);
}

int			posix_fallocate64(int fd, off_t offset, off_t length) __attribute__((alias("posix_fallocate")));

int
open(const char *path, int flags,...)
{
	mode_t		mode = 0;

	REAL(int, open, const char *, int,...);
	if (flags & (O_CREAT | O_TMPFILE))
	{
		va_list		args;

		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	if ((flags & O_CREAT) && faults != NULL && faults->full != 0 && access(path, F_OK) != 0)
	{
		char		full[2 * PATH_MAX] = "";

		if (path[0] != '/' && getcwd(full, PATH_MAX) != NULL)
			strcat(full, "/");
		strncat(full, path, PATH_MAX - 1);
		if (on_full_disk(full))
		{
			errno = ENOSPC;
			return -1;
		}
	}
	return real_open(path, flags, mode);
}

int			open64(const char *path, int flags,...) __attribute__((alias("open")));

int
__open_2(const char *path, int flags)
{
	return open(path, flags, 0);
}

int			__open64_2(const char *path, int flags) __attribute__((alias("__open_2")));

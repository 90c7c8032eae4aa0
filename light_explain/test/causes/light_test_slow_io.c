/*
 * light_test_slow_io.c
 *	  Preloaded into the server's processes (LD_PRELOAD): a disk that does not answer.
 *
 * LIGHT_TEST_SLOW_IO names a file.  While it exists, reads, writes or syncs of the files
 * that its lines name do not return:
 *
 *	  read|write|sync PROCESS PATTERN
 *
 * with 0 for all processes, and a pattern as in a shell, of the complete path.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* the server's flags hide symbols since 16 */
#define SHOWN __attribute__((visibility("default")))

/* The next library's function of this name. */
#define NEXT(name) \
	static __typeof__(name) *next = NULL; \
	if (next == NULL) \
		next = (__typeof__(name) *) dlsym(RTLD_NEXT, #name)

SHOWN ssize_t pread(int fd, void *buffer, size_t size, off_t offset);
SHOWN ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset);
SHOWN ssize_t preadv(int fd, const struct iovec *iov, int count, off_t offset);
SHOWN ssize_t preadv64(int fd, const struct iovec *iov, int count, off64_t offset);
SHOWN ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset);
SHOWN ssize_t pwrite64(int fd, const void *buffer, size_t size, off64_t offset);
SHOWN ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t offset);
SHOWN ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t offset);
SHOWN int	posix_fallocate(int fd, off_t offset, off_t length);
SHOWN int	posix_fallocate64(int fd, off64_t offset, off64_t length);
SHOWN int	fdatasync(int fd);
SHOWN int	fsync(int fd);

/* Does a line of the file name this operation on this descriptor? */
static int
is_slow(const char *control, const char *operation, int fd)
{
	char		link[64];
	char		path[PATH_MAX];
	char		lines[8192];
	char	   *rest = NULL;
	ssize_t		length;
	int			file = open(control, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return 0;
	length = read(file, lines, sizeof(lines) - 1);
	close(file);
	if (length <= 0)
		return 0;
	lines[length] = '\0';
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return 0;
	path[length] = '\0';
	for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
	{
		char		named[16];
		char		pattern[1024];
		int			pid;

		if (sscanf(line, "%15s %d %1023s", named, &pid, pattern) == 3 && strcmp(named, operation) == 0 &&
			(pid == 0 || pid == getpid()) && fnmatch(pattern, path, 0) == 0)
			return 1;
	}
	return 0;
}

static void
wait_while_slow(const char *operation, int fd)
{
	const char *control = getenv("LIGHT_TEST_SLOW_IO");
	int			saved = errno;

	while (control != NULL && access(control, F_OK) == 0 && is_slow(control, operation, fd))
		usleep(2000);
	errno = saved;
}

ssize_t
pread(int fd, void *buffer, size_t size, off_t offset)
{
	NEXT(pread);
	wait_while_slow("read", fd);
	return next(fd, buffer, size, offset);
}

ssize_t
pread64(int fd, void *buffer, size_t size, off64_t offset)
{
	NEXT(pread64);
	wait_while_slow("read", fd);
	return next(fd, buffer, size, offset);
}

ssize_t
preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	NEXT(preadv);
	wait_while_slow("read", fd);
	return next(fd, iov, count, offset);
}

ssize_t
preadv64(int fd, const struct iovec *iov, int count, off64_t offset)
{
	NEXT(preadv64);
	wait_while_slow("read", fd);
	return next(fd, iov, count, offset);
}

ssize_t
pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	NEXT(pwrite);
	wait_while_slow("write", fd);
	return next(fd, buffer, size, offset);
}

ssize_t
pwrite64(int fd, const void *buffer, size_t size, off64_t offset)
{
	NEXT(pwrite64);
	wait_while_slow("write", fd);
	return next(fd, buffer, size, offset);
}

ssize_t
pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	NEXT(pwritev);
	wait_while_slow("write", fd);
	return next(fd, iov, count, offset);
}

ssize_t
pwritev64(int fd, const struct iovec *iov, int count, off64_t offset)
{
	NEXT(pwritev64);
	wait_while_slow("write", fd);
	return next(fd, iov, count, offset);
}

int
posix_fallocate(int fd, off_t offset, off_t length)
{
	NEXT(posix_fallocate);
	wait_while_slow("write", fd);
	return next(fd, offset, length);
}

int
posix_fallocate64(int fd, off64_t offset, off64_t length)
{
	NEXT(posix_fallocate64);
	wait_while_slow("write", fd);
	return next(fd, offset, length);
}

int
fdatasync(int fd)
{
	NEXT(fdatasync);
	wait_while_slow("sync", fd);
	return next(fd);
}

int
fsync(int fd)
{
	NEXT(fsync);
	wait_while_slow("sync", fd);
	return next(fd);
}

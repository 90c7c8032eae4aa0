/*
 * record.c
 *		Preloaded into servers by power.py: what they do to files below a folder is
 *		written to one log, in the order in which the kernel did it.
 *
 * POWER_ROOT names the folder, POWER_LOG the log, POWER_COUNT a file of eight bytes,
 * mapped, in which the number of records so far stands.  A call is made and logged
 * under a lock that all processes share (a record lock on POWER_COUNT, which the kernel
 * takes back from a process that dies), with signals blocked: a handler must not come
 * between.  Nothing is really synced: what a sync keeps is for replay.py to say, and
 * the run is as fast as it would be with fsync off.
 *
 * A record is a struct head, and behind it `length` bytes: data of a write, or one
 * or two names, each ended by a zero byte.  Files are named by inode: who writes
 * need not know by what name a file was opened, nor whether it still has it.
 * A stdio stream is logged as a whole whenever it is flushed or closed; the library's
 * own write() passes by us.  Calls on files that are mapped are not seen (the server
 * maps none below its data directory).
 *
 * Longer than other files, for it has a function for each call that changes files.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536

/* Kept in step with replay.py. */
struct head
{
	uint32_t	kind;			/* a letter, see replay.py */
	uint32_t	length;			/* of what follows */
	uint64_t	inode;
	int64_t		offset;			/* or a length */
};

enum
{
	TRACKED = 1,				/* below the folder */
	SYNCED = 2,					/* each write is synced at once */
	STREAM = 4					/* a stdio stream's */
};

static unsigned char state[FILES];	/* by descriptor */
static volatile uint64_t *count;
static const char *root;
static size_t root_length;
static int	log_fd = -1;
static int	lock_fd = -1;

#define REAL(result, name, ...) \
	static result (*real_##name) (__VA_ARGS__); \
	if (real_##name == NULL) \
		real_##name = (result (*) (__VA_ARGS__)) dlsym(RTLD_NEXT, #name)

__attribute__((constructor))
static void
begin(void)
{
	const char *path = getenv("POWER_LOG");

	if (path == NULL || getenv("POWER_ROOT") == NULL || getenv("POWER_COUNT") == NULL)
		return;
	root = strdup(getenv("POWER_ROOT"));	/* a server writes its title over its environment */
	root_length = strlen(root);
	/* numbers that the server does not come to */
	log_fd = fcntl(open(path, O_WRONLY | O_APPEND | O_CLOEXEC), F_DUPFD_CLOEXEC, 500);
	lock_fd = fcntl(open(getenv("POWER_COUNT"), O_RDWR | O_CLOEXEC), F_DUPFD_CLOEXEC, 500);
	if (lock_fd >= 0)
	{
		void	   *map = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, lock_fd, 0);

		if (map != MAP_FAILED)
			count = map;
	}
	if (log_fd < 0 || count == NULL)
		abort();
}

static void
lock_log(sigset_t *mask)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	sigset_t	all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, mask);
	while (fcntl(lock_fd, F_SETLKW, &whole) < 0)
	{
		if (errno != EINTR)
			abort();
	}
}

static void
unlock_log(sigset_t *mask)
{
	struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	int			error = errno;

	fcntl(lock_fd, F_SETLK, &whole);
	sigprocmask(SIG_SETMASK, mask, NULL);
	errno = error;
}

/* One record; the caller holds the lock.  errno stays. */
static void
put(char kind, uint64_t inode, int64_t offset, const struct iovec *data, int n, size_t length)
{
	struct iovec parts[IOV_MAX];
	struct head head = {.kind = (unsigned char) kind, .length = length, .inode = inode, .offset = offset};
	int			error = errno;
	size_t		left = length;

	parts[0] = (struct iovec) {&head, sizeof(head)};
	if (n >= IOV_MAX)
		abort();
	for (int i = 0; i < n; i++)
	{
		size_t		part = data[i].iov_len < left ? data[i].iov_len : left;

		parts[i + 1] = (struct iovec) {data[i].iov_base, part};
		left -= part;
	}
	if (writev(log_fd, parts, n + 1) != (ssize_t) (sizeof(head) + length))
		abort();				/* a log with a hole says nothing */
	++*count;
	errno = error;
}

static void
put_names(char kind, uint64_t inode, const char *one, const char *two)
{
	struct iovec names[2] = {{(void *) one, strlen(one) + 1}, {(void *) two, two ? strlen(two) + 1 : 0}};

	put(kind, inode, 0, names, 2, names[0].iov_len + names[1].iov_len);
}

/* The name below the folder, in a buffer of PATH_MAX bytes; NULL if it is elsewhere. */
static const char *
below(const char *path, char *buffer)
{
	char		full[2 * PATH_MAX];

	if (count == NULL || path == NULL || strlen(path) >= PATH_MAX)
		return NULL;
	if (path[0] != '/')
	{
		if (getcwd(full, PATH_MAX) == NULL)
			return NULL;
		strcat(strcat(full, "/"), path);
		path = full;
	}
	if (strncmp(path, root, root_length) != 0 || (path[root_length] != '/' && path[root_length] != '\0'))
		return NULL;
	path += root_length;
	while (*path == '/')
		path++;
	return strlen(path) < PATH_MAX ? strcpy(buffer, path) : NULL;
}

static uint64_t
inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static int
is(int fd, int what)
{
	return count != NULL && fd >= 0 && fd < FILES && (state[fd] & what) != 0;
}

/* A descriptor that open() returned; the caller holds the lock. */
static void
opened(int fd, int flags, const char *name, int existed, int extra)
{
	struct stat st;

	if (fd < 0 || fd >= FILES || fstat(fd, &st) != 0)
		return;
	state[fd] = 0;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return;
	state[fd] = TRACKED | extra | ((flags & (O_SYNC | O_DSYNC)) ? SYNCED : 0);
	if (!existed)
		put_names('c', st.st_ino, name, NULL);
	else if ((flags & O_TRUNC) && (flags & O_ACCMODE) != O_RDONLY)
		put('t', st.st_ino, 0, NULL, 0, 0);
}

int
open(const char *path, int flags,...)
{
	char		buffer[PATH_MAX];
	const char *name = below(path, buffer);
	struct stat st;
	sigset_t	mask;
	mode_t		mode = 0;
	int			existed;
	int			fd;

	REAL(int, open, const char *, int,...);
	if (flags & (O_CREAT | O_TMPFILE))
	{
		va_list		args;

		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	if (name == NULL)
	{
		fd = real_open(path, flags, mode);
		if (fd >= 0 && fd < FILES)
			state[fd] = 0;
		return fd;
	}
	lock_log(&mask);
	existed = lstat(path, &st) == 0;
	fd = real_open(path, flags, mode);
	opened(fd, flags, name, existed, 0);
	unlock_log(&mask);
	return fd;
}

int			open64(const char *path, int flags,...) __attribute__((alias("open")));

int
__open_2(const char *path, int flags)
{
	return open(path, flags, 0);
}

int			__open64_2(const char *path, int flags) __attribute__((alias("__open_2")));

int
close(int fd)
{
	REAL(int, close, int);
	if (fd >= 0 && fd < FILES)
		state[fd] = 0;
	return real_close(fd);
}

static void
wrote(int fd, int64_t offset, const struct iovec *data, int n, ssize_t length)
{
	if (length > 0)
		put('w', inode_of(fd), offset, data, n, length);
	if (length > 0 && is(fd, SYNCED))
		put('s', inode_of(fd), 0, NULL, 0, 0);
}

ssize_t
write(int fd, const void *data, size_t size)
{
	struct iovec one = {(void *) data, size};
	sigset_t	mask;
	off_t		at;
	ssize_t		done;

	REAL(ssize_t, write, int, const void *, size_t);
	if (!is(fd, TRACKED))
		return real_write(fd, data, size);
	lock_log(&mask);
	done = real_write(fd, data, size);
	at = lseek(fd, 0, SEEK_CUR);	/* behind it, with O_APPEND too */
	wrote(fd, at - done, &one, 1, done);
	unlock_log(&mask);
	return done;
}

ssize_t
pwrite(int fd, const void *data, size_t size, off_t offset)
{
	struct iovec one = {(void *) data, size};
	sigset_t	mask;
	ssize_t		done;

	REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
	if (!is(fd, TRACKED))
		return real_pwrite(fd, data, size, offset);
	lock_log(&mask);
	done = real_pwrite(fd, data, size, offset);
	wrote(fd, offset, &one, 1, done);
	unlock_log(&mask);
	return done;
}

ssize_t		pwrite64(int fd, const void *data, size_t size, off_t offset) __attribute__((alias("pwrite")));

ssize_t
pwritev(int fd, const struct iovec *data, int n, off_t offset)
{
	sigset_t	mask;
	ssize_t		done;

	REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
	if (!is(fd, TRACKED))
		return real_pwritev(fd, data, n, offset);
	lock_log(&mask);
	done = real_pwritev(fd, data, n, offset);
	wrote(fd, offset, data, n, done);
	unlock_log(&mask);
	return done;
}

ssize_t		pwritev64(int fd, const struct iovec *data, int n, off_t offset) __attribute__((alias("pwritev")));

ssize_t
pwritev2(int fd, const struct iovec *data, int n, off_t offset, int flags)
{
	REAL(ssize_t, pwritev2, int, const struct iovec *, int, off_t, int);
	if (!is(fd, TRACKED))
		return real_pwritev2(fd, data, n, offset, flags);
	if (offset == -1)
		abort();				/* no server writes where it stands this way */
	return pwritev(fd, data, n, offset);
}

ssize_t		pwritev64v2(int fd, const struct iovec *data, int n, off_t offset, int flags) __attribute__((alias("pwritev2")));

int
ftruncate(int fd, off_t length)
{
	sigset_t	mask;
	int			result;

	REAL(int, ftruncate, int, off_t);
	if (!is(fd, TRACKED))
		return real_ftruncate(fd, length);
	lock_log(&mask);
	result = real_ftruncate(fd, length);
	if (result == 0)
		put('t', inode_of(fd), length, NULL, 0, 0);
	unlock_log(&mask);
	return result;
}

int			ftruncate64(int fd, off_t length) __attribute__((alias("ftruncate")));

int
truncate(const char *path, off_t length)
{
	char		buffer[PATH_MAX];
	struct stat st;
	sigset_t	mask;
	int			result;

	REAL(int, truncate, const char *, off_t);
	if (below(path, buffer) == NULL)
		return real_truncate(path, length);
	lock_log(&mask);
	result = real_truncate(path, length);
	if (result == 0 && stat(path, &st) == 0)
		put('t', st.st_ino, length, NULL, 0, 0);
	unlock_log(&mask);
	return result;
}

int			truncate64(const char *path, off_t length) __attribute__((alias("truncate")));

int
posix_fallocate(int fd, off_t offset, off_t length)
{
	sigset_t	mask;
	int			result;

	REAL(int, posix_fallocate, int, off_t, off_t);
	if (!is(fd, TRACKED))
		return real_posix_fallocate(fd, offset, length);
	lock_log(&mask);
	result = real_posix_fallocate(fd, offset, length);
	if (result == 0)
		put('a', inode_of(fd), offset + length, NULL, 0, 0);
	unlock_log(&mask);
	return result;
}

int			posix_fallocate64(int fd, off_t offset, off_t length) __attribute__((alias("posix_fallocate")));

/* ---- streams ------------------------------------------------------------- */

/* The contents of the stream's file; the caller holds the lock, and flushed. */
static void
put_stream(int fd)
{
	static char data[1 << 16];
	off_t		at = 0;
	ssize_t		n;
	char		name[64];
	int			other;

	REAL(int, open, const char *, int,...);
	REAL(int, close, int);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	other = real_open(name, O_RDONLY | O_CLOEXEC);	/* the stream's own may be for writing only */
	if (other < 0)
		abort();
	while ((n = pread(other, data, sizeof(data), at)) > 0)
	{
		struct iovec one = {data, n};

		put('w', inode_of(fd), at, &one, 1, n);
		at += n;
	}
	real_close(other);
}

FILE *
fopen(const char *path, const char *mode)
{
	char		buffer[PATH_MAX];
	const char *name = below(path, buffer);
	struct stat st;
	sigset_t	mask;
	FILE	   *file;
	int			existed;

	REAL(FILE *, fopen, const char *, const char *);
	if (name == NULL || strpbrk(mode, "wa+") == NULL)
	{
		file = real_fopen(path, mode);
		if (file != NULL && fileno(file) < FILES)
			state[fileno(file)] = 0;
		return file;
	}
	lock_log(&mask);
	existed = lstat(path, &st) == 0;
	file = real_fopen(path, mode);
	if (file != NULL)
		opened(fileno(file), O_RDWR | (mode[0] == 'w' ? O_TRUNC : 0), name, existed, STREAM);
	unlock_log(&mask);
	return file;
}

FILE	   *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

int
fflush(FILE *file)
{
	sigset_t	mask;
	int			result;

	REAL(int, fflush, FILE *);
	if (file == NULL || !is(fileno(file), STREAM))
		return real_fflush(file);
	lock_log(&mask);
	result = real_fflush(file);
	put_stream(fileno(file));
	unlock_log(&mask);
	return result;
}

int
fclose(FILE *file)
{
	sigset_t	mask;
	int			result;
	int			fd = fileno(file);

	REAL(int, fclose, FILE *);
	REAL(int, fflush, FILE *);
	if (!is(fd, STREAM))
	{
		if (fd >= 0 && fd < FILES)
			state[fd] = 0;
		return real_fclose(file);
	}
	lock_log(&mask);
	real_fflush(file);
	put_stream(fd);
	state[fd] = 0;
	result = real_fclose(file);
	unlock_log(&mask);
	return result;
}

/* ---- syncs ----------------------------------------------------------------- */

int
fsync(int fd)
{
	sigset_t	mask;

	REAL(int, fsync, int);
	if (!is(fd, TRACKED))
		return real_fsync(fd);
	lock_log(&mask);
	put('s', inode_of(fd), 0, NULL, 0, 0);
	unlock_log(&mask);
	return 0;
}

int
fdatasync(int fd)
{
	REAL(int, fdatasync, int);
	return is(fd, TRACKED) ? fsync(fd) : real_fdatasync(fd);
}

/* ---- names ----------------------------------------------------------------- */

int
rename(const char *from, const char *to)
{
	char		buffers[2][PATH_MAX];
	const char *old = below(from, buffers[0]);
	const char *new = below(to, buffers[1]);
	sigset_t	mask;
	int			result;

	REAL(int, rename, const char *, const char *);
	if (old == NULL && new == NULL)
		return real_rename(from, to);
	if (old == NULL || new == NULL)
		abort();
	lock_log(&mask);
	result = real_rename(from, to);
	if (result == 0)
		put_names('r', 0, old, new);
	unlock_log(&mask);
	return result;
}

int
link(const char *from, const char *to)
{
	char		buffers[2][PATH_MAX];
	const char *old = below(from, buffers[0]);
	const char *new = below(to, buffers[1]);
	sigset_t	mask;
	int			result;

	REAL(int, link, const char *, const char *);
	if (old == NULL || new == NULL)
		return real_link(from, to);
	lock_log(&mask);
	result = real_link(from, to);
	if (result == 0)
		put_names('l', 0, old, new);
	unlock_log(&mask);
	return result;
}

int
symlink(const char *target, const char *path)
{
	char		buffer[PATH_MAX];
	const char *name = below(path, buffer);
	struct stat st;
	sigset_t	mask;
	int			result;

	REAL(int, symlink, const char *, const char *);
	if (name == NULL)
		return real_symlink(target, path);
	lock_log(&mask);
	result = real_symlink(target, path);
	if (result == 0 && lstat(path, &st) == 0)
		put_names('y', st.st_ino, name, target);
	unlock_log(&mask);
	return result;
}

int
unlink(const char *path)
{
	char		buffer[PATH_MAX];
	const char *name = below(path, buffer);
	sigset_t	mask;
	int			result;

	REAL(int, unlink, const char *);
	if (name == NULL)
		return real_unlink(path);
	lock_log(&mask);
	result = real_unlink(path);
	if (result == 0)
		put_names('u', 0, name, NULL);
	unlock_log(&mask);
	return result;
}

int
rmdir(const char *path)
{
	char		buffer[PATH_MAX];
	const char *name = below(path, buffer);
	sigset_t	mask;
	int			result;

	REAL(int, rmdir, const char *);
	if (name == NULL)
		return real_rmdir(path);
	lock_log(&mask);
	result = real_rmdir(path);
	if (result == 0)
		put_names('u', 0, name, NULL);
	unlock_log(&mask);
	return result;
}

int
mkdir(const char *path, mode_t mode)
{
	char		buffer[PATH_MAX];
	const char *name = below(path, buffer);
	struct stat st;
	sigset_t	mask;
	int			result;

	REAL(int, mkdir, const char *, mode_t);
	if (name == NULL)
		return real_mkdir(path, mode);
	lock_log(&mask);
	result = real_mkdir(path, mode);
	if (result == 0 && stat(path, &st) == 0)
		put_names('d', st.st_ino, name, NULL);
	unlock_log(&mask);
	return result;
}

/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  The directories of RAM tablespaces, and the record of them.
 *
 * A RAM tablespace is an ordinary tablespace whose directory is located on a tmpfs mount.
 * ram_tablespace_create() gives the directory a name (see ram_directory.h) with the
 * cluster's identifier, which keeps servers apart that share a mount.  Its OID is
 * recorded in the data directory, so that a copy of the cluster whose tablespace is
 * mapped to another directory has the same rules.
 *
 * After a reboot the mount is empty.  ramspace_restore_directories() runs in the
 * postmaster while it loads libraries, before any session exists, and creates the
 * directories again.  A directory of that name that another user owns stops the
 * server: on a mount that all users may write to, such as /dev/shm, it would hand
 * temporary data to that user.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/file_perm.h"
#include "common/relpath.h"
#include "storage/fd.h"

#include "ram_directory.h"
#include "ram_tablespace.h"

/* file system types, as in linux/magic.h */
#define TYPE_TMPFS 0x01021994
#define TYPE_RAMFS 0x858458f6

char *
ramspace_make_location(const char *mount_point, const char *name)
{
	return psprintf("%s/" RAM_DIRECTORY_PREFIX UINT64_FORMAT ".%s", mount_point, GetSystemIdentifier(), name);
}

/* Does this path lie on a file system in memory? */
bool
ramspace_in_memory(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 &&
		((unsigned long) fs.f_type == TYPE_TMPFS || (unsigned long) fs.f_type == TYPE_RAMFS);
}

static void
record_path(char *path, Size size, Oid tablespace)
{
	snprintf(path, size, RAM_RECORD_FOLDER "/%u", tablespace);
}

/*
 * Record a RAM tablespace, durably.  A failure is reported with "elevel".
 */
void
ramspace_record(Oid tablespace, int elevel)
{
	char		path[64];
	int			fd;

	record_path(path, sizeof(path), tablespace);
	if (ram_directory_is_recorded(tablespace))
		return;
	if (MakePGDirectory(RAM_RECORD_FOLDER) != 0 && errno != EEXIST)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", RAM_RECORD_FOLDER)));
		return;
	}
	fd = OpenTransientFile(path, O_CREAT | O_WRONLY | PG_BINARY);
	if (fd < 0)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", path)));
		return;
	}
	CloseTransientFile(fd);
	fsync_fname(path, false);
	fsync_fname(RAM_RECORD_FOLDER, true);
	fsync_fname(".", true);
}

/*
 * The tablespace was dropped, or is a new one that is not in memory.
 */
void
ramspace_forget(Oid tablespace)
{
	char		path[64];

	record_path(path, sizeof(path), tablespace);
	if (unlink(path) != 0 && errno != ENOENT)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
}

/*
 * The directory itself.  One that the administrator chose for a copy of the cluster may
 * be a link; one that ram_tablespace_create() named must not be.
 */
static const char *
resolve(const char *location, char *buffer)
{
	if (ram_directory_is_named(location) || realpath(location, buffer) == NULL)
		return location;
	return buffer;
}

/*
 * Total size of the files below a directory.  Files might appear and vanish concurrently.
 */
static int64
bytes_below(const char *path)
{
	DIR		   *dir = AllocateDir(path);
	struct dirent *entry;
	int64		sum = 0;

	if (dir == NULL)
		return 0;
	while ((entry = ReadDirExtended(dir, path, DEBUG1)) != NULL)
	{
		char		child[MAXPGPATH * 2];
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		if (lstat(child, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode))
			sum += bytes_below(child);
		else
			sum += (int64) st.st_blocks * 512;
	}
	FreeDir(dir);
	return sum;
}

/*
 * The first number in a file, or -1 ("max" and missing files included).
 */
static int64
number_in_file(const char *path)
{
	FILE	   *file = AllocateFile(path, "r");
	long long	value;

	if (file == NULL)
		return -1;
	if (fscanf(file, "%lld", &value) != 1)
		value = -1;
	FreeFile(file);
	return value;
}

/*
 * Available memory: the kernel's estimate for the machine, or the rest of the control
 * group's limit if that is less (pages of tmpfs are charged to it).
 */
static int64
memory_available(void)
{
	FILE	   *file = AllocateFile("/proc/meminfo", "r");
	char		line[256];
	int64		result = -1;
	int64		limit;

	if (file != NULL)
	{
		while (fgets(line, sizeof(line), file) != NULL)
		{
			long long	kb;

			if (sscanf(line, "MemAvailable: %lld kB", &kb) == 1)
				result = (int64) kb * 1024;
		}
		FreeFile(file);
	}
	limit = number_in_file("/sys/fs/cgroup/memory.max");
	if (limit > 0)
	{
		int64		left = Max(0, limit - Max(0, number_in_file("/sys/fs/cgroup/memory.current")));

		if (result < 0 || left < result)
			result = left;
	}
	return result;
}

/* A directory that exists, is no link and belongs to the server's user. */
static bool
owned_directory(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

void
ramspace_inspect(const char *location, RamSpaceState *state)
{
	char		buffer[PATH_MAX];
	char	   *version;
	struct statfs fs;

	location = resolve(location, buffer);
	version = psprintf("%s/%s", location, TABLESPACE_VERSION_DIRECTORY);
	memset(state, 0, sizeof(*state));
	state->usable = owned_directory(location) && owned_directory(version);
	state->in_memory = ramspace_in_memory(location);
	state->used = bytes_below(location);
	state->memory_available = memory_available();
	if (statfs(location, &fs) == 0)
	{
		state->size = (int64) fs.f_blocks * fs.f_bsize;
		state->available = (int64) fs.f_bavail * fs.f_bsize;
	}
	pfree(version);
}

/*
 * Make one directory of a RAM tablespace unless it is there.
 */
static bool
restore_directory(const char *path)
{
	if (mkdir(path, pg_dir_create_mode) == 0)
	{
		/* whatever the umask was */
		(void) chmod(path, pg_dir_create_mode);
		return true;
	}
	if (errno != EEXIST)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\" of a RAM tablespace: %m", path),
				 errhint("Mount the file system (see /etc/fstab), create the parent directory if it is missing, and restart the server.")));
		return false;
	}
	if (!owned_directory(path))
		ereport(FATAL,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("directory \"%s\" of a RAM tablespace does not belong to the server's user", path),
				 errhint("Find out who made it, remove it, and start the server again.")));
	return true;
}

/*
 * Make the directories of all RAM tablespaces that are missing.  Called in the
 * postmaster at startup, with the data directory as working directory.
 */
void
ramspace_restore_directories(void)
{
	DIR		   *dir = AllocateDir("pg_tblspc");
	struct dirent *entry;

	if (dir == NULL)
		return;
	while ((entry = ReadDirExtended(dir, "pg_tblspc", LOG)) != NULL)
	{
		char	   *end;
		Oid			tablespace = strtoul(entry->d_name, &end, 10);
		char		buffer[PATH_MAX];
		const char *location;
		char	   *version;
		struct stat st;

		if (*end != '\0' || !OidIsValid(tablespace))
			continue;
		location = ram_directory_of(tablespace);
		if (!ram_directory_is_tablespace(tablespace))
			continue;
		/* created by a release without records, or replayed by a standby */
		ramspace_record(tablespace, LOG);
		location = resolve(location, buffer);
		version = psprintf("%s/%s", location, TABLESPACE_VERSION_DIRECTORY);
		if (lstat(location, &st) == 0 && lstat(version, &st) == 0 &&
			owned_directory(location) && owned_directory(version))
			continue;
		if (restore_directory(location) && restore_directory(version))
		{
			ereport(LOG,
					(errmsg("directory \"%s\" of RAM tablespace %u has been made again", location, tablespace)));
			if (!ramspace_in_memory(location))
				ereport(WARNING,
						(errmsg("directory \"%s\" of RAM tablespace %u is not in memory", location, tablespace),
						 errdetail("Its file system is not tmpfs, so temporary tables are written to a disk."),
						 errhint("Stop the server, mount a tmpfs there (see /etc/fstab), start the server again.")));
		}
	}
	FreeDir(dir);
}

/*-------------------------------------------------------------------------
 *
 * ram_directory.h
 *	  How a RAM tablespace is recognized: by a record in the data directory, or by
 *	  the name of its directory.
 *
 * ram_tablespace records the OID of each RAM tablespace as an empty file below
 * RAM_RECORD_FOLDER in the data directory.  A physical copy of the cluster contains
 * the record, also if it maps the tablespace to another directory (pg_basebackup -T).
 * A server that has not written the record yet, such as a standby that replays
 * CREATE TABLESPACE, knows the tablespace by the name of its directory, which the
 * link in pg_tblspc contains.  Neither needs a catalog, so the tablespace is
 * recognized in every database and in the postmaster.
 *
 * Code that extends files ahead (a load that reserves space) checks here, and calls
 * the limit check that ram_tablespace leaves in a rendezvous variable if it is loaded.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RAM_DIRECTORY_H
#define RAM_DIRECTORY_H

#include <unistd.h>

#include "catalog/pg_tablespace_d.h"

/* "ram_tablespace.<cluster>.<name>"; the other name is of tablespaces that parallel_temp made */
#define RAM_DIRECTORY_PREFIX "ram_tablespace."
#define RAM_DIRECTORY_OLD_PREFIX "parallel_temp_ram."

/* Contains an empty file for each RAM tablespace, whose name is the OID. */
#define RAM_RECORD_FOLDER "ram_tablespaces"

/* Holds a RamCheckRoom: raise an ERROR if the tablespace may not hold more. */
#define RAM_CHECK_ROOM_VARIABLE "ram_tablespace_check_room"
typedef void (*RamCheckRoom) (Oid tablespace);

/*
 * Where a tablespace is, palloc'd; NULL for those inside the data directory.
 */
static inline char *
ram_directory_of(Oid tablespace)
{
	char		link[MAXPGPATH];
	char		target[MAXPGPATH];
	ssize_t		len;

	if (!OidIsValid(tablespace) || tablespace == DEFAULTTABLESPACE_OID || tablespace == GLOBALTABLESPACE_OID)
		return NULL;
	snprintf(link, sizeof(link), "pg_tblspc/%u", tablespace);
	len = readlink(link, target, sizeof(target));
	if (len < 0 || len >= sizeof(target))
		return NULL;
	return pnstrdup(target, len);
}

/* Has this location (NULL: no) the name of a RAM tablespace's directory? */
static inline bool
ram_directory_is_named(const char *location)
{
	const char *slash = location ? strrchr(location, '/') : NULL;

	return slash != NULL &&
		(strncmp(slash + 1, RAM_DIRECTORY_PREFIX, strlen(RAM_DIRECTORY_PREFIX)) == 0 ||
		 strncmp(slash + 1, RAM_DIRECTORY_OLD_PREFIX, strlen(RAM_DIRECTORY_OLD_PREFIX)) == 0);
}

/* Is there a record of this tablespace? */
static inline bool
ram_directory_is_recorded(Oid tablespace)
{
	char		path[64];

	snprintf(path, sizeof(path), RAM_RECORD_FOLDER "/%u", tablespace);
	return access(path, F_OK) == 0;
}

/* Is this a RAM tablespace? */
static inline bool
ram_directory_is_tablespace(Oid tablespace)
{
	char	   *location = ram_directory_of(tablespace);
	bool		result;

	if (location == NULL)
		return false;
	result = ram_directory_is_named(location) || ram_directory_is_recorded(tablespace);
	pfree(location);
	return result;
}

#endif							/* RAM_DIRECTORY_H */

/*-------------------------------------------------------------------------
 *
 * ram_directory.h
 *	  How a tablespace in memory is known: by the name of its directory.
 *
 * The link that the server keeps in pg_tblspc is all that has to be read, so such
 * tablespaces are known without catalogs, in every database and in the postmaster.
 * ram_tablespace makes them; whoever extends files there in steps of its own (a
 * load that promises itself room) looks here, and at the limit that ram_tablespace
 * leaves in a rendezvous variable if it is loaded.
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

/* Is this (or NULL: no) the directory of a RAM tablespace? */
static inline bool
ram_directory_is_ours(const char *location)
{
	const char *slash = location ? strrchr(location, '/') : NULL;

	return slash != NULL &&
		(strncmp(slash + 1, RAM_DIRECTORY_PREFIX, strlen(RAM_DIRECTORY_PREFIX)) == 0 ||
		 strncmp(slash + 1, RAM_DIRECTORY_OLD_PREFIX, strlen(RAM_DIRECTORY_OLD_PREFIX)) == 0);
}

/* Is this a RAM tablespace? */
static inline bool
ram_directory_is_tablespace(Oid tablespace)
{
	char	   *location = ram_directory_of(tablespace);
	bool		result = ram_directory_is_ours(location);

	if (location)
		pfree(location);
	return result;
}

#endif							/* RAM_DIRECTORY_H */

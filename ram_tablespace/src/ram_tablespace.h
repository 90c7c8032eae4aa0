/*-------------------------------------------------------------------------
 *
 * ram_tablespace.h
 *	  Settings and entry points that the files of the extension share.
 *
 * ram_tablespace.c  entry: settings and hooks
 * procedures.c      procedures and functions for administrators
 * rules.c           accept only temporary tables, warn before memory is short
 * directory.c       directories: record, name, state, size, restoring after a reboot
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RAM_TABLESPACE_H
#define RAM_TABLESPACE_H

#include "nodes/parsenodes.h"

/* State of one RAM tablespace's directory. */
typedef struct RamSpaceState
{
	bool		in_memory;		/* the file system is tmpfs or ramfs */
	bool		usable;			/* directories exist and are the server's */
	int64		used;			/* bytes that the tablespace's files take */
	int64		size;			/* bytes of the file system; 0: no limit */
	int64		available;		/* bytes that it has left */
	int64		memory_available;	/* bytes of memory that the machine, or
									 * the control group, has left; -1:
									 * unknown */
} RamSpaceState;

/* ram_tablespace.c: settings */
extern int	ramspace_max_size;	/* ram_tablespace.max_size, megabytes */
extern int	ramspace_warn_percent;	/* ram_tablespace.warn_percent */

/* rules.c */
extern void ramspace_saw_relation(Oid relid, bool created);
extern void ramspace_saw_database(Oid database);
extern void ramspace_before_reindex(ReindexStmt *statement);
extern void ramspace_check_limit(Oid tablespace);

/* directory.c */
extern char *ramspace_make_location(const char *mount_point, const char *name);
extern void ramspace_inspect(const char *location, RamSpaceState *state);
extern bool ramspace_in_memory(const char *path);
extern void ramspace_record(Oid tablespace, int elevel);
extern void ramspace_forget(Oid tablespace);
extern void ramspace_restore_directories(void);

#endif							/* RAM_TABLESPACE_H */

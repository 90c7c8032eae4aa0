/*-------------------------------------------------------------------------
 *
 * ramspace.h
 *	  Tablespaces for temporary tables in memory (tmpfs).
 *
 * ramspace.c      nothing but temporary tables, warn before memory is short
 * ramspace_dir.c  directories: name, state, size, what a reboot took away
 * ramspace_sql.c  what the administrator calls
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RAMSPACE_H
#define RAMSPACE_H

#include "nodes/parsenodes.h"

/* State of one RAM tablespace's directory. */
typedef struct RamSpaceState
{
	bool		in_memory;		/* the file system is tmpfs or ramfs */
	bool		usable;			/* the directories are there and ours */
	int64		used;			/* bytes that the tablespace's files take */
	int64		size;			/* bytes of the file system; 0: no limit */
	int64		available;		/* bytes that it has left */
	int64		memory_available;	/* bytes of memory that the machine, or
									 * the control group, has left; -1:
									 * unknown */
} RamSpaceState;

/* ramspace.c */
extern void ramspace_install(void);
extern void ramspace_saw_relation(Oid relid, bool created);
extern void ramspace_saw_database(Oid database);
extern void ramspace_before_reindex(ReindexStmt *statement);
extern bool ramspace_is(Oid tablespace);
extern void ramspace_check_room(Oid tablespace, bool warn);

/* ramspace_dir.c */
extern char *ramspace_location(Oid tablespace);
extern bool ramspace_is_ours(const char *location);
extern char *ramspace_make_location(const char *mount_point, const char *name);
extern void ramspace_inspect(const char *location, RamSpaceState *state);
extern bool ramspace_in_memory(const char *path);
extern void ramspace_restore_directories(void);

#endif							/* RAMSPACE_H */

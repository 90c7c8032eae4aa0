/*-------------------------------------------------------------------------
 *
 * relfile.h
 *	  Files of temporary relations: path, open, write a run, extend, cut.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RELFILE_H
#define RELFILE_H

#include "storage/block.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "compat_storage.h"

/*
 * A segment file that is open for our own writes, or none.  The descriptor is the
 * transaction machinery's to close if an ERROR ends its use.
 */
typedef struct RelFile
{
	RelFileLocator_compat locator;
	ForkNumber	fork;
	BlockNumber segment;
	int			fd;				/* -1: none */
	char	   *path;
} RelFile;

#define RELFILE_NONE ((RelFile) {.fd = -1})

/*
 * Path of a segment of a temporary relation's fork, palloc'd.  "owner" is the
 * number that TempFileOwner_compat() or MyFileOwner_compat() gives.
 */
extern char *relfile_path(RelFileLocator_compat locator, int owner, ForkNumber fork, BlockNumber segment);

/* Bytes of one fork in all its segment files; *exists tells whether there is one. */
extern int64 relfile_fork_size(RelFileLocator_compat locator, ForkNumber fork, bool *exists);

/*
 * Write n neighbouring blocks that lie in one segment, through *file, which is
 * opened as needed and stays open for the next run.  A page of zero length at the
 * disk's end counts as a full disk.  False, with errno set, when that fails and
 * elevel is less than ERROR.
 */
extern bool relfile_write_run(RelFile *file, RelFileLocator_compat locator, ForkNumber fork, BlockNumber first,
							  void **pages, int n, int elevel);
extern bool relfile_close(RelFile *file, int elevel);

/* How many blocks from "from" on lie in the same segment file. */
extern BlockNumber relfile_room_in_segment(BlockNumber from);

/*
 * The next ones change the main fork's length, or what it takes, by numbers that the caller has kept
 * since it looked: who else has changed it meanwhile (a function in C that puts rows
 * without a plan) would lose what he wrote.  Each checks the length first, and that
 * is an ERROR.
 *
 * relfile_extend() and relfile_append() are exported under their names, so that
 * tracers can put probes on them as on the server's mdextend().
 */

/*
 * Lengthen the main fork from "from" to "to" blocks, which must lie in one
 * segment file.  The new blocks read as zeroes.  With "lazy" the file system
 * reserves no room for them.  If there is no room for all of them the file stays
 * as it was, and the result is false; for a single block that is an ERROR.
 */
extern PGDLLEXPORT bool relfile_extend(SMgrRelation reln, BlockNumber from, BlockNumber to, bool lazy);

/*
 * Have the file system reserve room for blocks that a lazy extension has added.  An
 * ERROR if there is none.
 */
extern void relfile_reserve(SMgrRelation reln, BlockNumber from, BlockNumber to);

/*
 * Append n finished pages (checksums are set here) at block "first", where the main
 * fork ends.  After an attempt that failed, up to "extra" blocks may be there already.
 */
extern PGDLLEXPORT void relfile_append(SMgrRelation reln, BlockNumber first, char *pages, int n, BlockNumber extra);

/*
 * The same in a parallel worker, without the storage manager, whose idea of the file is
 * the leader's: n pages at block "first", where the main fork ends, all in one segment
 * file, which is made if they are its first ones.  *file stays open for the next run.
 */
extern PGDLLEXPORT void relfile_append_in_worker(RelFile *file, RelFileLocator_compat locator, BlockNumber first,
												 void **pages, int n);

/* Others have changed the main fork's length: the storage manager forgets it. */
extern void relfile_forget_length(SMgrRelation reln);

/* Cut blocks behind "to", all of which lie in the last segment file, from a fork that has "from" of them. */
extern void relfile_cut(SMgrRelation reln, BlockNumber from, BlockNumber to);

/*
 * Cut blocks from "to" to "from", and up to "extra" blocks behind these, in
 * any number of segments, while an error is being handled: what cannot be cut stays.
 */
extern void relfile_cut_quietly(SMgrRelation reln, BlockNumber from, BlockNumber extra, BlockNumber to);

/*
 * The blocks of a temporary table of this session, for an estimate.  Nobody else extends
 * or truncates it, so what the storage manager remembers is right, where it remembers;
 * that spares a system call.
 */
static inline BlockNumber
relfile_known_blocks(Relation rel)
{
	BlockNumber known = RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM];

	return known != InvalidBlockNumber ? known : RelationGetNumberOfBlocks(rel);
}

#endif							/* RELFILE_H */

/*-------------------------------------------------------------------------
 *
 * extend.h
 *	  Growing a temporary relation's file in large steps.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXTEND_H
#define EXTEND_H


#include "storage/block.h"
#include "storage/smgr.h"

/*
 * The two functions that change a file are exported under their names, so that
 * tracers can put probes on them as on the server's mdextend().
 */

/*
 * Lengthen the main fork from "from" to "to" blocks, which must lie in one
 * segment file.  The new blocks read as zeroes.  With "lazy" the file system
 * reserves no room for them.  If there is no room for all of them the file stays
 * as it was, and the result is false; for a single block that is an ERROR.
 */
extern PGDLLEXPORT bool extend_main_fork(SMgrRelation reln, BlockNumber from, BlockNumber to, bool lazy);

/*
 * Append n finished pages (checksums are set here) at block "first", which must be
 * the present length of the main fork.
 */
extern PGDLLEXPORT void extend_with_pages(SMgrRelation reln, BlockNumber first, char *pages, int n);

/* Cut blocks that were added by extend_main_fork() and never used. */
extern void extend_undo(SMgrRelation reln, BlockNumber to);
extern void extend_undo_quietly(SMgrRelation reln, BlockNumber to);

/* How many blocks from "from" on lie in the same segment file. */
extern BlockNumber extend_room_in_segment(BlockNumber from);

#endif							/* EXTEND_H */

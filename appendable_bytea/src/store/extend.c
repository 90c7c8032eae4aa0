/*-------------------------------------------------------------------------
 *
 * extend.c
 *	  New pages for a store, many at once.
 *
 * A write of many chunks fills new pages.  Extending a table page by page, each
 * written as zeros first, makes a value of 100 MB take 1.20 of the CPU time on 15
 * (660 and 550 ms, medians of five interleaved runs).  From 16 on the server
 * has a function that extends by several pages; before that this file does what that
 * function does: it has the file system reserve the space (so that a full disk is
 * noticed now, not at a checkpoint) and gives the new pages zeroed buffers.
 *
 * The buffers are made under the extension lock and before the file grows, while
 * nobody else can know of these pages.  Then they are pages like any others: an
 * insertion into them takes the page's lock and looks for room, as always, and what
 * a crash leaves of them unused are empty pages, as it leaves them anyway.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "compat_storage.h"
#include "compat_table.h"
#include "store/store.h"

#ifndef EXTEND_BY_compat
#ifdef HAVE_POSIX_FALLOCATE

/* Have the file grow by n zeroed blocks of one segment; false if it cannot. */
static bool
grow_file(Relation rel, BlockNumber first, int n)
{
	char	   *path = smgr_path_compat(RelationGetSmgr(rel), MAIN_FORKNUM);
	BlockNumber segment = first / RELSEG_SIZE;
	off_t		offset = (off_t) (first % RELSEG_SIZE) * BLCKSZ;
	int			fd;
	int			error;

	if (segment > 0)
		path = psprintf("%s.%u", path, segment);
	fd = OpenTransientFile(path, O_RDWR | PG_BINARY);
	if (fd < 0)
		return false;
	do
	{
		error = posix_fallocate(fd, offset, (off_t) n * BLCKSZ);
	} while (error == EINTR && !InterruptPending);
	CloseTransientFile(fd);
	return error == 0;
}

/* As below, by our own means. */
static int
extend_by(Relation rel, int n, Buffer *buffers)
{
	BlockNumber first;
	int			made = 0;

	/* each session may pin its share of a small buffer pool */
	n = Min(n, NBuffers / Max(MaxBackends, 1) / 4);
	if (n < 2)
		return 0;
	LockRelationForExtension(rel, ExclusiveLock);
	first = RelationGetNumberOfBlocks(rel);

	/* the first page of a segment is the server's to make, with its file */
	if (first > MaxBlockNumber - n || (first > 0 && first % RELSEG_SIZE == 0))
		n = 0;
	n = Min(n, RELSEG_SIZE - first % RELSEG_SIZE);
	while (made < n)
	{
		Buffer		buffer = ReadBufferExtended(rel, MAIN_FORKNUM, first + made,
												RBM_ZERO_AND_LOCK, NULL);
		bool		usable = PageIsNew(BufferGetPage(buffer));

		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		if (!usable)
		{
			/* data beyond the end: the server complains when it gets there */
			ReleaseBuffer(buffer);
			break;
		}
		buffers[made++] = buffer;
	}
	if (made > 0 && !grow_file(rel, first, made))
	{
		while (made > 0)
			ReleaseBuffer(buffers[--made]);
	}
	UnlockRelationForExtension(rel, ExclusiveLock);
	return made;
}

#else

static int
extend_by(Relation rel, int n, Buffer *buffers)
{
	return 0;
}

#endif
#endif

/*
 * Add up to n pages to a relation: their pinned buffers, and how many there are.  0
 * means that the caller should go the usual way, which reports what is wrong.
 */
int
ab_extend(Relation rel, int n, Buffer *buffers)
{
#ifdef EXTEND_BY_compat
	return EXTEND_BY_compat(rel, n, buffers);
#else
	return extend_by(rel, n, buffers);
#endif
}

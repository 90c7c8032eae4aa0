/*-------------------------------------------------------------------------
 *
 * extend.c
 *	  Growing a temporary relation's file in large steps.
 *
 * The server extends a relation by writing zeroes (15: one page a call; later
 * versions: several, but still one a call for INSERT) and writes the page itself
 * when its buffer is evicted.  The bulk writer needs neither: pages that stay in
 * local buffers only need the file to be long enough, and pages that go to the
 * file are written once, many at a time.  The storage manager has no call for
 * either on all versions, so the segment file is opened here by its path; the
 * storage manager keeps no file length of its own outside recovery, so it sees the
 * result at its next lseek.
 *
 * Callers are the bulk writer's functions (fastload_write.c), in the session that
 * owns the relation.  The descriptor lives for one call and is closed by the
 * transaction machinery if the call ends in an ERROR.  Nothing is fsynced: files
 * of temporary relations are removed after a crash.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "buffers/page_checksum.h"
#include "compat_storage.h"
#include "load/extend.h"
#include "parallel_temp.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "utils/wait_event.h"

/*
 * Open the segment file that holds a block.  *path is for messages.
 */
static int
open_segment(SMgrRelation reln, BlockNumber block, char **path)
{
	char	   *base = smgr_path_compat(reln, MAIN_FORKNUM);
	BlockNumber segment = block / RELSEG_SIZE;
	int			fd;

	*path = base;
	if (segment > 0)
	{
		*path = psprintf("%s.%u", base, segment);
		pfree(base);
	}
	fd = OpenTransientFile(*path, O_RDWR | PG_BINARY);
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", *path)));
	return fd;
}

/*
 * A load calls this for every 256 kB, in the memory of its whole statement.
 */
static void
close_segment(SMgrRelation reln, int fd, char *path)
{
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
	pfree(path);
	reln->smgr_cached_nblocks[MAIN_FORKNUM] = InvalidBlockNumber;
}

static inline off_t
offset_in_segment(BlockNumber block)
{
	return (off_t) BLCKSZ * (block % RELSEG_SIZE);
}

static void
report_cannot_extend(const char *path)
{
	/* as the server words it */
	ereport(ERROR,
			(errcode_for_file_access(),
			 errmsg("could not extend file \"%s\": %m", path),
			 errhint("Check free disk space.")));
}

/*
 * A relation has at most MaxBlockNumber + 1 blocks; the server's wording again.
 */
static void
check_block_number(SMgrRelation reln, BlockNumber first, BlockNumber n)
{
	if ((uint64) first + n >= (uint64) MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot extend file \"%s\" beyond %u blocks",
						smgr_path_compat(reln, MAIN_FORKNUM), MaxBlockNumber)));
}

/*
 * The storage manager makes the file of a new segment, with its first page.
 */
static void
begin_segment(SMgrRelation reln, BlockNumber block, char *page)
{
	smgrextend(reln, MAIN_FORKNUM, block, page, true);
}

BlockNumber
extend_room_in_segment(BlockNumber from)
{
	return RELSEG_SIZE - from % RELSEG_SIZE;
}

bool
extend_main_fork(SMgrRelation reln, BlockNumber from, BlockNumber to, bool lazy)
{
	char	   *path;
	int			fd;
	int			rc;
	BlockNumber asked = to - from;
	instr_time	start;

	Assert(from < to && to - from <= extend_room_in_segment(from));
	check_block_number(reln, from, asked);

	start = IoTimeStart_compat();

	/*
	 * The storage manager makes the file of a new segment.  It also adds a
	 * single block most cheaply, which is all that a small table needs.
	 */
	if ((from % RELSEG_SIZE == 0 && from > 0) || asked == 1)
	{
		PGAlignedBlock_compat zeroes;

		memset(zeroes.data, 0, BLCKSZ);
		begin_segment(reln, from, zeroes.data);
		from++;
	}
	if (from < to)
	{
		fd = open_segment(reln, from, &path);
		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
		if (lazy)
			rc = ftruncate(fd, offset_in_segment(to - 1) + BLCKSZ) == 0 ? 0 : errno;
		else
		{
			do
			{
				rc = posix_fallocate(fd, offset_in_segment(from), (off_t) BLCKSZ * (to - from));
			} while (rc == EINTR);
		}
		pgstat_report_wait_end();
		if (rc != 0 && ftruncate(fd, offset_in_segment(to - asked)) != 0)
			elog(DEBUG1, "could not truncate file \"%s\": %m", path);
		close_segment(reln, fd, path);
		if (rc != 0)
			return false;
	}
	CountTempExtend_compat(start, asked);
	return true;
}

void
extend_with_pages(SMgrRelation reln, BlockNumber first, char *pages, int n)
{
	instr_time	start;
	BlockNumber block = first;
	char	   *next = pages;
	int			left = n;

	check_block_number(reln, first, n);
	for (int i = 0; i < n; i++)
	{
		char	   *page = pages + (Size) i * BLCKSZ;

		page_set_checksum((Page) page, first + i, i + 1 < n ? page + BLCKSZ : NULL);
	}

	start = IoTimeStart_compat();
	while (left > 0)
	{
		char	   *path;
		int			fd;
		Size		size;
		off_t		offset;

		if (block % RELSEG_SIZE == 0 && block > 0)
		{
			begin_segment(reln, block, next);
			block++;
			next += BLCKSZ;
			left--;
			continue;
		}

		size = (Size) BLCKSZ * Min(left, extend_room_in_segment(block));
		offset = offset_in_segment(block);
		fd = open_segment(reln, block, &path);
		block += size / BLCKSZ;
		left -= size / BLCKSZ;
		while (size > 0)
		{
			ssize_t		done;

			errno = 0;
			pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
			done = pg_pwrite(fd, next, size, offset);
			pgstat_report_wait_end();
			if (done < 0 && errno == EINTR)
				continue;
			if (done <= 0)
			{
				if (errno == 0)
					errno = ENOSPC;
				report_cannot_extend(path);
			}
			next += done;
			offset += done;
			size -= done;
		}
		close_segment(reln, fd, path);
	}
	CountTempExtend_compat(start, n);
}

void
extend_undo(SMgrRelation reln, BlockNumber to)
{
	char	   *path;
	int			fd;

	Assert(to > 0);
	fd = open_segment(reln, to - 1, &path);
	if (ftruncate(fd, offset_in_segment(to - 1) + BLCKSZ) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not truncate file \"%s\": %m", path)));
	close_segment(reln, fd, path);
}

/*
 * The same while an error is being handled: no other error may be raised.
 */
void
extend_undo_quietly(SMgrRelation reln, BlockNumber to)
{
	char	   *base = smgr_path_compat(reln, MAIN_FORKNUM);
	BlockNumber segment = (to - 1) / RELSEG_SIZE;
	char		path[MAXPGPATH];
	int			fd;

	if (segment == 0)
		strlcpy(path, base, sizeof(path));
	else
		snprintf(path, sizeof(path), "%s.%u", base, segment);
	fd = BasicOpenFile(path, O_RDWR | PG_BINARY);
	if (fd < 0)
		return;
	if (ftruncate(fd, offset_in_segment(to - 1) + BLCKSZ) != 0)
		elog(DEBUG1, "could not truncate file \"%s\": %m", path);
	close(fd);
	reln->smgr_cached_nblocks[MAIN_FORKNUM] = InvalidBlockNumber;
}

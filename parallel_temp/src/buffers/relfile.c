/*-------------------------------------------------------------------------
 *
 * relfile.c
 *	  Files of temporary relations: path, open, write a run, extend, cut.
 *
 * The server writes one page a call (several since 17) and extends a relation by
 * writing zeroes (15: one page a call; later versions: several, but still one a call
 * for INSERT).  A flush writes many adjacent blocks at once on every version; the
 * bulk writer needs files that are long enough for pages in local buffers, and to
 * append finished pages.  The storage manager has no call for either on all
 * versions, so the segment file is opened here by its path; it does not remember
 * a file's length outside recovery, so it sees the result at its next lseek.
 *
 * Callers are the flush (localbuf_flush.c), the bulk writer (fastload_write.c), the
 * views, workers that create files, each in the session that owns the
 * relation, and workers that append to their leader's.  A descriptor is closed by the
 * transaction machinery if a call ends in an ERROR.  Nothing is fsynced: files of temporary
 * relations are removed after a crash.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "utils/wait_event.h"

#include "buffers/buffers.h"
#include "compat_storage.h"

char *
pt_relfile_path(RelFileLocator_compat locator, int owner, ForkNumber fork, BlockNumber segment)
{
	char	   *base = relpathbackend_compat(locator, owner, fork);
	char	   *path;

	if (segment == 0)
		return base;
	path = psprintf("%s.%u", base, segment);
	pfree(base);
	return path;
}

int64
pt_relfile_fork_size(RelFileLocator_compat locator, ForkNumber fork, bool *exists)
{
	int64		size = 0;

	*exists = false;
	for (BlockNumber segment = 0;; segment++)
	{
		char	   *path = pt_relfile_path(locator, TempFileOwner_compat(), fork, segment);
		struct stat st;

		CHECK_FOR_INTERRUPTS();
		if (stat(path, &st) < 0)
		{
			if (errno != ENOENT)
				ereport(ERROR,
						(errcode_for_file_access(),
						 errmsg("could not stat file \"%s\": %m", path)));
			pfree(path);
			return size;
		}
		*exists = true;
		size += st.st_size;
		pfree(path);
	}
}

bool
pt_relfile_close(RelFile *file, int elevel)
{
	int			fd = file->fd;

	file->fd = -1;
	if (fd < 0)
		return true;
	if (CloseTransientFile(fd) != 0)
	{
		int			saved_errno = errno;

		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", file->path)));
		errno = saved_errno;
		return false;
	}
	pfree(file->path);
	return true;
}

/*
 * Make *file the open segment that holds this block.
 */
static bool
relfile_open(RelFile *file, RelFileLocator_compat locator, ForkNumber fork, BlockNumber block, int more_flags, int elevel)
{
	BlockNumber segment = block / ((BlockNumber) RELSEG_SIZE);

	if (file->fd >= 0 && file->fork == fork && file->segment == segment &&
		RelFileLocatorEquals_compat(file->locator, locator))
		return true;
	if (!pt_relfile_close(file, elevel))
		return false;
	file->path = pt_relfile_path(locator, TempFileOwner_compat(), fork, segment);
	file->locator = locator;
	file->fork = fork;
	file->segment = segment;
	file->fd = OpenTransientFile(file->path, O_RDWR | PG_BINARY | more_flags);
	if (file->fd < 0)
	{
		int			saved_errno = errno;

		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", file->path)));
		errno = saved_errno;
		return false;
	}
	return true;
}

static inline off_t
offset_in_segment(BlockNumber block)
{
	return (off_t) BLCKSZ * (block % ((BlockNumber) RELSEG_SIZE));
}

bool
pt_relfile_write_run(RelFile *file, RelFileLocator_compat locator, ForkNumber fork, BlockNumber first,
					 void **pages, int n, int elevel)
{
	struct iovec iov[PG_IOV_MAX];
	ssize_t		written;

	Assert(n > 0 && n <= PG_IOV_MAX && n <= pt_relfile_room_in_segment(first));
	if (!relfile_open(file, locator, fork, first, 0, elevel))
		return false;
	for (int i = 0; i < n; i++)
	{
		iov[i].iov_base = pages[i];
		iov[i].iov_len = BLCKSZ;
	}
	errno = 0;
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_WRITE);
	do
	{
		written = pg_pwritev_with_retry(file->fd, iov, n, offset_in_segment(first));
	} while (written < 0 && errno == EINTR);
	pgstat_report_wait_end();
	if (written != (ssize_t) n * BLCKSZ)
	{
		int			saved_errno;

		/* a write of nothing without a reason means a full disk */
		if (errno == 0)
			errno = ENOSPC;
		saved_errno = errno;
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not write blocks %u..%u in file \"%s\": %m",
						first, first + n - 1, file->path),
				 saved_errno == ENOSPC ? errhint("Check free disk space.") : 0));
		errno = saved_errno;
		return false;
	}
	return true;
}

/*
 * The segment of the main fork that holds a block, for one change of its length.
 */
static RelFile
open_main_fork(SMgrRelation reln, BlockNumber block)
{
	RelFile		file = RELFILE_NONE;

	relfile_open(&file, smgr_locator_compat(reln), MAIN_FORKNUM, block, 0, ERROR);
	return file;
}

/*
 * A load calls this for every 256 kB, in the memory of its whole statement.
 */
static void
close_main_fork(SMgrRelation reln, RelFile *file)
{
	pt_relfile_close(file, ERROR);
	pt_relfile_forget_length(reln);
}

void
pt_relfile_forget_length(SMgrRelation reln)
{
	reln->smgr_cached_nblocks[MAIN_FORKNUM] = InvalidBlockNumber;
}

static void
report_other_length(const char *path, BlockNumber length, BlockNumber expected)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("file \"%s\" has %u blocks while %u are expected during a load",
					path, length, expected),
			 errdetail("The file was changed during the load, but not by the load."),
			 errhint("Set parallel_temp.fast_load to off for this statement.")));
}

/*
 * The main fork must have this many blocks; "extra" more may be there.
 */
static void
check_length(SMgrRelation reln, BlockNumber expected, BlockNumber extra)
{
	BlockNumber length = smgrnblocks(reln, MAIN_FORKNUM);

	if (length < expected || length > expected + extra)
		report_other_length(smgr_path_compat(reln, MAIN_FORKNUM), length, expected);
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
check_block_number(RelFileLocator_compat locator, BlockNumber first, BlockNumber n)
{
	if ((uint64) first + n >= (uint64) MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot extend file \"%s\" beyond %u blocks",
						pt_relfile_path(locator, TempFileOwner_compat(), MAIN_FORKNUM, 0), MaxBlockNumber)));
}

/*
 * Reserve space by writing what the file has there: zeroes past its end and in blocks
 * that were never written.  No other process writes to it.
 */
static int
rewrite_blocks(RelFile *file, BlockNumber from, BlockNumber n)
{
	PGAlignedBlock_compat page;

	for (BlockNumber block = from; block < from + n; block++)
	{
		off_t		offset = offset_in_segment(block);
		ssize_t		there = pg_pread(file->fd, page.data, BLCKSZ, offset);

		if (there < 0)
			return errno;
		memset(page.data + there, 0, BLCKSZ - there);
		errno = 0;
		if (pg_pwrite(file->fd, page.data, BLCKSZ, offset) != BLCKSZ)
			return errno != 0 ? errno : ENOSPC;
	}
	return 0;
}

/*
 * Room for blocks that lie in one segment, which is open.  0 or an error number.
 */
static int
allocate_blocks(RelFile *file, BlockNumber from, BlockNumber n)
{
#ifdef HAVE_POSIX_FALLOCATE
	int			rc;

	do
	{
		rc = posix_fallocate(file->fd, offset_in_segment(from), (off_t) BLCKSZ * n);
	} while (rc == EINTR);
	/* as FileFallocate(): the file system, or the system, cannot */
	if (rc != EINVAL && rc != EOPNOTSUPP && rc != ENOSYS)
		return rc;
#endif
	return rewrite_blocks(file, from, n);
}

BlockNumber
pt_relfile_room_in_segment(BlockNumber from)
{
	return RELSEG_SIZE - from % RELSEG_SIZE;
}

bool
pt_relfile_extend(SMgrRelation reln, BlockNumber from, BlockNumber to, bool lazy)
{
	RelFile		file;
	int			rc;
	BlockNumber asked = to - from;
	instr_time	start;

	Assert(from < to && to - from <= pt_relfile_room_in_segment(from));
	check_block_number(smgr_locator_compat(reln), from, asked);
	check_length(reln, from, 0);

	start = IoTimeStart_compat();

	/*
	 * The storage manager makes the file of a new segment.  It also adds a
	 * single block most cheaply, which is all that a small table needs.
	 */
	if ((from % RELSEG_SIZE == 0 && from > 0) || asked == 1)
	{
		PGAlignedBlock_compat zeroes;

		memset(zeroes.data, 0, BLCKSZ);
		smgrextend(reln, MAIN_FORKNUM, from, zeroes.data, true);
		from++;
	}
	if (from < to)
	{
		file = open_main_fork(reln, from);
		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
		if (lazy)
			rc = ftruncate(file.fd, offset_in_segment(to - 1) + BLCKSZ) == 0 ? 0 : errno;
		else
			rc = allocate_blocks(&file, from, to - from);
		pgstat_report_wait_end();
		if (rc != 0 && ftruncate(file.fd, offset_in_segment(to - asked)) != 0)
			elog(DEBUG1, "could not truncate file \"%s\": %m", file.path);
		close_main_fork(reln, &file);
		if (rc != 0)
			return false;
	}
	CountTempExtend_compat(start, asked);
	return true;
}

void
pt_relfile_reserve(SMgrRelation reln, BlockNumber from, BlockNumber to)
{
	check_length(reln, to, 0);
	while (from < to)
	{
		BlockNumber n = Min(to - from, pt_relfile_room_in_segment(from));
		RelFile		file = open_main_fork(reln, from);

		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
		errno = allocate_blocks(&file, from, n);
		pgstat_report_wait_end();
		if (errno != 0)
			report_cannot_extend(file.path);
		close_main_fork(reln, &file);
		from += n;
	}
}

void
pt_relfile_append(SMgrRelation reln, BlockNumber first, char *pages, int n, BlockNumber extra)
{
	instr_time	start;
	BlockNumber block = first;
	char	   *next = pages;
	int			left = n;

	check_block_number(smgr_locator_compat(reln), first, n);
	check_length(reln, first, extra);
	for (int i = 0; i < n; i++)
	{
		char	   *page = pages + (Size) i * BLCKSZ;

		pt_page_set_checksum((Page) page, first + i, i + 1 < n ? page + BLCKSZ : NULL);
	}

	start = IoTimeStart_compat();
	while (left > 0)
	{
		RelFile		file;
		Size		size;
		off_t		offset;

		if (block % RELSEG_SIZE == 0 && block > 0)
		{
			/* the storage manager makes the file of a new segment */
			smgrextend(reln, MAIN_FORKNUM, block, next, true);
			block++;
			next += BLCKSZ;
			left--;
			continue;
		}

		size = (Size) BLCKSZ * Min(left, pt_relfile_room_in_segment(block));
		offset = offset_in_segment(block);
		file = open_main_fork(reln, block);
		block += size / BLCKSZ;
		left -= size / BLCKSZ;
		while (size > 0)
		{
			ssize_t		done;

			errno = 0;
			pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
			done = pg_pwrite(file.fd, next, size, offset);
			pgstat_report_wait_end();
			if (done < 0 && errno == EINTR)
				continue;
			if (done <= 0)
			{
				if (errno == 0)
					errno = ENOSPC;
				report_cannot_extend(file.path);
			}
			next += done;
			offset += done;
			size -= done;
		}
		close_main_fork(reln, &file);
	}
	CountTempExtend_compat(start, n);
}

void
pt_relfile_append_in_worker(RelFile *file, RelFileLocator_compat locator, BlockNumber first, void **pages, int n)
{
	instr_time	start;
	off_t		length;

	check_block_number(locator, first, n);
	relfile_open(file, locator, MAIN_FORKNUM, first, first % RELSEG_SIZE == 0 ? O_CREAT : 0, ERROR);
	/* that of other segments is known by the one that is being filled */
	length = lseek(file->fd, 0, SEEK_END);
	if (length < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek to end of file \"%s\": %m", file->path)));
	if (length / BLCKSZ != first % RELSEG_SIZE)
		report_other_length(file->path, (BlockNumber) (length / BLCKSZ), first % RELSEG_SIZE);
	for (int i = 0; i < n; i++)
		pt_page_set_checksum((Page) pages[i], first + i, i + 1 < n ? pages[i + 1] : NULL);
	start = IoTimeStart_compat();
	(void) pt_relfile_write_run(file, locator, MAIN_FORKNUM, first, pages, n, ERROR);
	CountTempExtend_compat(start, n);
}

void
pt_relfile_cut(SMgrRelation reln, BlockNumber from, BlockNumber to)
{
	RelFile		file;

	Assert(to > 0 && from > to && (from - 1) / RELSEG_SIZE == (to - 1) / RELSEG_SIZE);
	check_length(reln, from, 0);
	file = open_main_fork(reln, to - 1);
	if (ftruncate(file.fd, offset_in_segment(to - 1) + BLCKSZ) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not truncate file \"%s\": %m", file.path)));
	close_main_fork(reln, &file);
}

void
pt_relfile_cut_quietly(SMgrRelation reln, BlockNumber from, BlockNumber extra, BlockNumber to)
{
	BlockNumber length = 0;
	BlockNumber last = from + extra;
	BlockNumber kept = to > 0 ? (to - 1) / RELSEG_SIZE : 0;

	Assert(from >= to);
	for (BlockNumber segment = last / RELSEG_SIZE;; segment--)
	{
		char	   *path = pt_relfile_path(smgr_locator_compat(reln), TempFileOwner_compat(), MAIN_FORKNUM, segment);
		int			fd = BasicOpenFile(path, O_RDWR | PG_BINARY);
		struct stat st;

		if (fd >= 0)
		{
			/*
			 * the last segment determines the length; it is not cut if it is
			 * another
			 */
			if (length == 0 && fstat(fd, &st) == 0 && st.st_size > 0)
			{
				length = segment * RELSEG_SIZE + (BlockNumber) (st.st_size / BLCKSZ);
				if (length < from || length > last)
				{
					close(fd);
					return;
				}
			}
			/* as the storage manager does, whole segments stay, empty */
			if (ftruncate(fd, segment > kept || to == 0 ? 0 : offset_in_segment(to - 1) + BLCKSZ) != 0)
				elog(DEBUG1, "could not truncate file \"%s\": %m", path);
			close(fd);
		}
		pfree(path);
		if (segment == kept)
			break;
	}
	reln->smgr_cached_nblocks[MAIN_FORKNUM] = InvalidBlockNumber;
}

void
pt_relfile_empty(RelFileLocator_compat locator)
{
	for (ForkNumber fork = MAIN_FORKNUM; fork <= MAX_FORKNUM; fork++)
	{
		for (BlockNumber segment = 0;; segment++)
		{
			char	   *path = pt_relfile_path(locator, TempFileOwner_compat(), fork, segment);
			int			rc = truncate(path, 0);

			/* as the storage manager does, whole segments stay, empty */
			if (rc != 0 && (errno != ENOENT || (fork == MAIN_FORKNUM && segment == 0)))
				ereport(ERROR,
						(errcode_for_file_access(),
						 errmsg("could not truncate file \"%s\": %m", path)));
			pfree(path);
			if (rc != 0)
				break;
		}
	}
}

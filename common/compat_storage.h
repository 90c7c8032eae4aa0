/*-------------------------------------------------------------------------
 *
 * compat_storage.h
 *	  Differences between PostgreSQL 15 and 19 in storage: names and paths of
 *	  relation files, local buffers, reading and writing pages, checksums, and
 *	  the counts of pg_stat_io.
 *
 * Each compat_*.h covers one subject.  A wrapper has the name of the function
 * that it wraps, followed by _compat; no other file of the project uses
 * PG_VERSION_NUM.  They are included after postgres.h, by the files that need them.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_STORAGE_H
#define COMPAT_STORAGE_H

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_iovec.h"
#include "portability/instr_time.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/checksum.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/resowner.h"

/* pg_pwritev_with_retry() moved in 16. */
#if PG_VERSION_NUM >= 160000
#include "common/file_utils.h"
#endif

#if PG_VERSION_NUM >= 160000
typedef RelFileLocator RelFileLocator_compat;
#define rd_locator_compat(rel) ((rel)->rd_locator)
#else
typedef RelFileNode RelFileLocator_compat;
#define rd_locator_compat(rel) ((rel)->rd_node)
#endif

#if PG_VERSION_NUM >= 160000
#define BufTagGetRelFileLocator_compat(tag) BufTagGetRelFileLocator(tag)
#define BufTagGetForkNum_compat(tag) BufTagGetForkNum(tag)
#define RelFileLocatorEquals_compat(a, b) RelFileLocatorEquals(a, b)
#define RelFileNumber_compat(locator) ((locator).relNumber)
#define MakeLocator_compat(spc, db, number) ((RelFileLocator) {.spcOid = (spc), .dbOid = (db), .relNumber = (number)})
#else
#define BufTagGetRelFileLocator_compat(tag) ((tag)->rnode)
#define BufTagGetForkNum_compat(tag) ((tag)->forkNum)
#define RelFileLocatorEquals_compat(a, b) RelFileNodeEquals(a, b)
#define RelFileNumber_compat(locator) ((locator).relNode)
#define MakeLocator_compat(spc, db, number) ((RelFileNode) {.spcNode = (spc), .dbNode = (db), .relNode = (number)})
#endif

/*
 * Take the pages of one fork from block "first" on out of the local buffers, dirty
 * or not.  An ERROR if one is pinned.
 */
#if PG_VERSION_NUM >= 190000
#define DropForkLocalBuffers_compat(locator, fork, first) \
	DropRelationLocalBuffers(locator, &(ForkNumber) {fork}, 1, &(BlockNumber) {first})
#elif PG_VERSION_NUM >= 160000
#define DropForkLocalBuffers_compat(locator, fork, first) DropRelationLocalBuffers(locator, fork, first)
#else
#define DropForkLocalBuffers_compat(locator, fork, first) DropRelFileNodeLocalBuffers(locator, fork, first)
#endif

/* The same of all forks of a relation. */
#if PG_VERSION_NUM >= 160000
#define DropAllLocalBuffers_compat(locator) DropRelationAllLocalBuffers(locator)
#else
#define DropAllLocalBuffers_compat(locator) DropRelFileNodeAllLocalBuffers(locator)
#endif

/* The number in the names of this session's temporary files (the leader's, in a worker). */
#if PG_VERSION_NUM >= 170000
#define TempFileOwner_compat() ProcNumberForTempRelations()
#else
#include "storage/backendid.h"
#define TempFileOwner_compat() BackendIdForTempRelations()
#endif

/* The number of this process in the names of its temporary files. */
#if PG_VERSION_NUM >= 170000
#define MyFileOwner_compat() MyProcNumber
#else
#define MyFileOwner_compat() MyBackendId
#endif

/* A buffer's state word grew to 64 bits in 19. */
#if PG_VERSION_NUM >= 190000
typedef uint64 BufState_compat;
#define BufStateRead_compat(desc) pg_atomic_read_u64(&(desc)->state)
#define BufStateWrite_compat(desc, value) pg_atomic_unlocked_write_u64(&(desc)->state, value)
#else
typedef uint32 BufState_compat;
#define BufStateRead_compat(desc) pg_atomic_read_u32(&(desc)->state)
#define BufStateWrite_compat(desc, value) pg_atomic_unlocked_write_u32(&(desc)->state, value)
#endif

/* Since 19 nothing can be made dirty while it is being written. */
#if PG_VERSION_NUM >= 190000
#define BM_JUST_DIRTIED_compat ((BufState_compat) 0)
#else
#define BM_JUST_DIRTIED_compat BM_JUST_DIRTIED
#endif

/* Since 18 a read might still be in progress after the last pin was released. */
#if PG_VERSION_NUM >= 180000
#include "storage/aio.h"
static inline void
LocalBufferWaitIO_compat(BufferDesc *desc)
{
	if (pgaio_wref_valid(&desc->io_wref))
	{
		PgAioWaitRef ref = desc->io_wref;

		pgaio_wref_wait(&ref);
	}
}
#else
#define LocalBufferWaitIO_compat(desc) ((void) 0)
#endif

/*
 * PostgreSQL 18 marks unpinned local buffers as inaccessible to Valgrind.  Code that reads
 * one without a pin, which is safe if the buffer cannot be evicted in the meantime, must
 * bracket the access with these macros.  They do nothing except in Valgrind builds.
 */
#include "utils/memdebug.h"
#define LocalPageBeginAccess_compat(page) VALGRIND_MAKE_MEM_DEFINED((page), BLCKSZ)
#if PG_VERSION_NUM >= 180000
#define LocalPageEndAccess_compat(page) VALGRIND_MAKE_MEM_NOACCESS((page), BLCKSZ)
#else
#define LocalPageEndAccess_compat(page) ((void) 0)
#endif

/* Room in the resource owner for one more pin; 17+ does it inside LocalBufferAlloc. */
#if PG_VERSION_NUM >= 170000
#define ResourceOwnerEnlargeBuffers_compat() ResourceOwnerEnlarge(CurrentResourceOwner)
#else
#include "utils/resowner_private.h"
#define ResourceOwnerEnlargeBuffers_compat() ResourceOwnerEnlargeBuffers(CurrentResourceOwner)
#endif

/* 19 dropped "Inplace" from the name with the other variant. */
#if PG_VERSION_NUM >= 190000
#define PageSetChecksumInplace_compat(page, block) PageSetChecksum(page, block)
#else
#define PageSetChecksumInplace_compat(page, block) PageSetChecksumInplace(page, block)
#endif

/* 19 chooses wide instructions for page checksums itself. */
#define CHECKSUM_WORTH_COMPILING_COMPAT (PG_VERSION_NUM < 190000)

/* Is this page whole, as far as header and checksum tell? */
#if PG_VERSION_NUM >= 180000
static inline bool
PageIsVerified_compat(Page page, BlockNumber block, bool warn)
{
	bool		checksum_failed;

	return PageIsVerified((PageData *) page, block,
						  (warn ? PIV_LOG_WARNING : 0) | (ignore_checksum_failure ? PIV_IGNORE_CHECKSUM_FAILURE : 0),
						  &checksum_failed);
}
#else
#define PageIsVerified_compat(page, block, warn) PageIsVerifiedExtended(page, block, (warn) ? PIV_LOG_WARNING : 0)
#endif

/* Read n adjacent blocks of one segment file, one after another into memory. */
static inline void
smgrreadn_compat(SMgrRelation reln, ForkNumber fork, BlockNumber block, char *to, int n)
{
#if PG_VERSION_NUM >= 170000
	/* The storage manager takes no more than PG_IOV_MAX of them in one call. */
	while (n > 0)
	{
		void	   *pages[PG_IOV_MAX];
		int			now = Min(n, PG_IOV_MAX);

		for (int i = 0; i < now; i++)
			pages[i] = to + (Size) i * BLCKSZ;
		smgrreadv(reln, fork, block, pages, now);
		block += now;
		to += (Size) now * BLCKSZ;
		n -= now;
	}
#else
	for (int i = 0; i < n; i++)
		smgrread(reln, fork, block + i, to + (Size) i * BLCKSZ);
#endif
}

/*
 * How many local buffers one of the server's read streams (17+) may pin beyond those
 * that it needs, without regard to others.  Since 18.6 a stream counts what is pinned
 * and leaves three quarters of temp_buffers alone.
 */
static inline int
ReadStreamPins_compat(void)
{
#if PG_VERSION_NUM >= 180000
	static int	version = 0;

	if (version == 0)
		version = atoi(GetConfigOption("server_version_num", false, false));
	return version >= 180006 ? 0 : (effective_io_concurrency + 1) * io_combine_limit;
#elif PG_VERSION_NUM >= 170000
	/* only sequential scans are streams, which look ahead for one read */
	return io_combine_limit;
#else
	return 0;
#endif
}

/* A page that any kind of I/O accepts. */
#if PG_VERSION_NUM >= 160000
typedef PGIOAlignedBlock PGAlignedBlock_compat;
#else
typedef PGAlignedBlock PGAlignedBlock_compat;
#endif

/* Which relation's files a storage manager's handle is for. */
#if PG_VERSION_NUM >= 160000
#define smgr_locator_compat(reln) ((reln)->smgr_rlocator.locator)
#else
#define smgr_locator_compat(reln) ((reln)->smgr_rnode.node)
#endif

/* A palloc'd path; since 18 relpathbackend() itself returns a struct. */
#if PG_VERSION_NUM >= 180000
#define relpathbackend_compat(locator, owner, fork) pstrdup(relpathbackend(locator, owner, fork).str)
#else
#define relpathbackend_compat(locator, owner, fork) relpathbackend(locator, owner, fork)
#endif

/* Path of a relation fork's first segment, palloc'd. */
#if PG_VERSION_NUM >= 180000
#define smgr_path_compat(reln, fork) pstrdup(relpath((reln)->smgr_rlocator, fork).str)
#elif PG_VERSION_NUM >= 160000
#define smgr_path_compat(reln, fork) relpath((reln)->smgr_rlocator, fork)
#else
#define smgr_path_compat(reln, fork) relpath((reln)->smgr_rnode, fork)
#endif

/*
 * Writing several pages of a relation at once: smgrwritev() came with 17.
 * HAVE_SMGRWRITEV_COMPAT tells whether it is there.
 */
#if PG_VERSION_NUM >= 170000
#define HAVE_SMGRWRITEV_COMPAT 1
#define smgrwritev_compat(reln, fork, block, pages, n) smgrwritev(reln, fork, block, pages, n, false)
#else
#define HAVE_SMGRWRITEV_COMPAT 0
#define smgrwritev_compat(reln, fork, block, pages, n) elog(ERROR, "smgrwritev is not in this version")
#endif

/* Does the server read and write relations past the kernel's page cache? */
#if PG_VERSION_NUM >= 160000
#define DirectIO_compat() ((io_direct_flags & IO_DIRECT_DATA) != 0)
#else
#define DirectIO_compat() false
#endif

/*
 * Does stock code that reads a heap page leave the table's files alone?  19 also
 * sets, and for that extends, the visibility map.
 */
#define StockReadsLeaveFiles_compat (PG_VERSION_NUM < 190000)

/*
 * Count a write of n pages of a temporary relation in pg_stat_io (16+: pages
 * until 17, calls and bytes since 18).  IoTimeStart_compat() goes before it.
 */
#if PG_VERSION_NUM >= 180000
#define IoTimeStart_compat() pgstat_prepare_io_time(track_io_timing)
#define CountTempWrite_compat(start, n) \
	pgstat_count_io_op_time(IOOBJECT_TEMP_RELATION, IOCONTEXT_NORMAL, IOOP_WRITE, start, 1, (uint64) (n) * BLCKSZ)
#elif PG_VERSION_NUM >= 160000
#if PG_VERSION_NUM >= 170000
#define IoTimeStart_compat() pgstat_prepare_io_time(track_io_timing)
#else
#define IoTimeStart_compat() pgstat_prepare_io_time()
#endif
#define CountTempWrite_compat(start, n) \
	pgstat_count_io_op_time(IOOBJECT_TEMP_RELATION, IOCONTEXT_NORMAL, IOOP_WRITE, start, n)
#else
static inline instr_time
IoTimeStart_compat(void)
{
	instr_time	none;

	INSTR_TIME_SET_ZERO(none);
	return none;
}
#define CountTempWrite_compat(start, n) ((void) (start))
#endif

/* Count an extension by n pages in pg_stat_io, like CountTempWrite_compat(). */
#if PG_VERSION_NUM >= 180000
#define CountTempExtend_compat(start, n) \
	pgstat_count_io_op_time(IOOBJECT_TEMP_RELATION, IOCONTEXT_NORMAL, IOOP_EXTEND, start, 1, (uint64) (n) * BLCKSZ)
#elif PG_VERSION_NUM >= 160000
#define CountTempExtend_compat(start, n) \
	pgstat_count_io_op_time(IOOBJECT_TEMP_RELATION, IOCONTEXT_NORMAL, IOOP_EXTEND, start, n)
#else
#define CountTempExtend_compat(start, n) ((void) (start))
#endif

/* Count a read of n pages of a temporary relation in pg_stat_io, as CountTempWrite_compat() a write. */
#if PG_VERSION_NUM >= 180000
#define CountTempRead_compat(start, n) \
	pgstat_count_io_op_time(IOOBJECT_TEMP_RELATION, IOCONTEXT_NORMAL, IOOP_READ, start, 1, (uint64) (n) * BLCKSZ)
#elif PG_VERSION_NUM >= 160000
#define CountTempRead_compat(start, n) \
	pgstat_count_io_op_time(IOOBJECT_TEMP_RELATION, IOCONTEXT_NORMAL, IOOP_READ, start, n)
#else
#define CountTempRead_compat(start, n) ((void) (start))
#endif

#endif							/* COMPAT_STORAGE_H */

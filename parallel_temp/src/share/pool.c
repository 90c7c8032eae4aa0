/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  The session's local buffers, in memory that its parallel workers can open.
 *
 * Core gives a local buffer memory only when its slot in
 * LocalBufferBlockPointers is still NULL, and nothing points into a buffer that
 * is not pinned.  So every slot can be pointed into one anonymous shared
 * file (memfd), page n at offset n * BLCKSZ: used, unpinned buffers are copied
 * once, unused ones get memory only when they are first written.  From then on a
 * worker reads the leader's pages through /proc/<leader>/fd/<descriptor>, opened
 * read-only, and nothing has to be written to disk before it starts.
 *
 * The pool is made when a statement is about to fill temporary buffers for the
 * first time (there is nothing to copy then), or else when the first parallel
 * query needs it.  It lives as long as the session; the kernel frees it with the
 * last descriptor.  A buffer that is pinned, or still read into by an
 * asynchronous read, while the pool is made keeps its old memory for ever; its
 * page is flushed when workers need it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/parallel.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "parser/parsetree.h"
#include "storage/fd.h"
#include "utils/lsyscache.h"

#include "buffers/buffers.h"
#include "compat_planner.h"
#include "compat_storage.h"
#include "parallel_temp.h"
#include "share/share.h"

static char *pool_base = NULL;
static Size pool_size = 0;
static int	pool_fd = -1;
static uint64 pool_inode = 0;

/* The system, or a worker, said no: do not ask again in this session. */
static bool pool_refused = false;

/*
 * Where the kernel counts every page of shared memory against a limit when it is
 * first touched (vm.overcommit_memory = 2), running into the limit would be a bus
 * error instead of an "out of memory".
 * "for_now" is set if there was no descriptor to find out.
 */
static bool
pool_strict_overcommit(bool *for_now)
{
	int			fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char		mode = '2';

	*for_now = fd < 0 && (errno == EMFILE || errno == ENFILE);
	if (fd >= 0)
	{
		if (read(fd, &mode, 1) != 1)
			mode = '2';
		close(fd);
	}
	return mode == '2';
}

/*
 * Return the old memory of the moved buffers to the kernel: core never
 * frees it.  Only whole system pages are returned.
 */
static void
pool_give_back_memory(char *start, char *end)
{
	Size		page = sysconf(_SC_PAGESIZE);

	start = (char *) TYPEALIGN(page, start);
	end = (char *) TYPEALIGN_DOWN(page, end);
	if (start < end)
		(void) madvise(start, end - start, MADV_DONTNEED);
}

static void
pool_move_buffers(void)
{
	char	   *old_start = NULL;
	char	   *old_end = NULL;

	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		char	   *old = (char *) LocalBufferBlockPointers[i];
		char	   *new = pool_base + (Size) i * BLCKSZ;

		/* The count in the state word covers reads that are still under way. */
		if (LocalRefCount[i] != 0 || BUF_STATE_GET_REFCOUNT(BufStateRead_compat(desc)) != 0)
			continue;
		if (old != NULL)
		{
			LocalPageBeginAccess_compat(old);
			memcpy(new, old, BLCKSZ);
			LocalPageEndAccess_compat(new);
			if (old != old_end)
			{
				pool_give_back_memory(old_start, old_end);
				old_start = old;
			}
			old_end = old + BLCKSZ;
		}
		LocalBufferBlockPointers[i] = (Block) new;
	}
	pool_give_back_memory(old_start, old_end);
}

bool
pt_pool_ensure(void)
{
	int			fd;
	Size		size;
	char	   *base;
	struct stat st;
	bool		for_now;

	if (!pt_pool_usable() || IsParallelWorker())
		return false;
	if (pool_base != NULL)
		return true;
	if (pool_strict_overcommit(&for_now))
	{
		pool_refused = !for_now;
		return false;
	}

	pt_localbuf_ensure();
	size = (Size) NLocBuffer * BLCKSZ;

	/* One descriptor for the rest of the session; none to spare is no error. */
	if (!AcquireExternalFD())
		return false;
#ifdef MFD_CLOEXEC
	fd = memfd_create("parallel_temp", MFD_CLOEXEC);
#else
	fd = -1;
#endif
	if (fd < 0)
	{
		pool_refused = (errno != EMFILE && errno != ENFILE);
		ReleaseExternalFD();
		return false;
	}
	base = fstat(fd, &st) == 0 && ftruncate(fd, size) == 0 ?
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
	if (base == MAP_FAILED)
	{
		close(fd);
		ReleaseExternalFD();
		pool_refused = true;
		return false;
	}

	Assert(pool_base == NULL && pool_fd < 0);
	pool_base = base;
	pool_size = size;
	pool_fd = fd;
	pool_inode = st.st_ino;
	pt_localbuf_reserve(pool_base, pool_size);
	pool_move_buffers();
	return true;
}

bool
pt_pool_usable(void)
{
	return !pool_refused && pt_method != PT_METHOD_FLUSH;
}

void
pt_pool_disable(void)
{
	pool_refused = true;
}

bool
pt_pool_has_buffer(int buf_id)
{
	return pool_base != NULL &&
		(char *) LocalBufferBlockPointers[buf_id] == pool_base + (Size) buf_id * BLCKSZ;
}

int			pg_attribute_hot
pt_pool_descriptor(void)
{
	return pool_fd;
}

void
pt_pool_describe(SharedArea *area)
{
	area->pool_fd = pool_fd;
	area->pool_size = pool_size;
	area->pool_id = pool_inode;
}

int
pt_pool_open_leaders(const SharedArea *area)
{
	char		path[64];
	struct stat st;
	int			fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) area->leader_pid, area->pool_fd);
	if (!AcquireExternalFD())
	{
		errno = EMFILE;
		return -1;
	}
	fd = BasicOpenFile(path, O_RDONLY | O_CLOEXEC | PG_BINARY);
	if (fd >= 0)
	{
		int			error = 0;

		/* The leader may have closed it since, and opened something else. */
		if (fstat(fd, &st) != 0)
			error = errno;
		else if ((uint64) st.st_size != area->pool_size || (uint64) st.st_ino != area->pool_id)
			error = ESTALE;
		if (error != 0)
		{
			close(fd);
			fd = -1;
			errno = error;
		}
	}
	if (fd < 0)
	{
		int			error = errno;

		ReleaseExternalFD();
		errno = error;
	}
	return fd;
}

/*
 * ---- creating the pool in time
 *
 * Before a session's first INSERT of a query's rows, COPY or CREATE TABLE AS into a
 * temporary table the pool costs nothing: no page has to be copied.  A plain CREATE TABLE
 * does not create it, because that would fix temp_buffers, which the user may still want
 * to set.  Nor do rows that come one by one: a session of short statements would pay for
 * it, and copying a page later costs little compared with filling it that way.
 */

/*
 * A statement is going to put rows into this table.
 */
static void
pool_before_filling(Oid relid)
{
	if (pt_enabled && max_parallel_workers_per_gather > 0 && !IsParallelWorker() &&
		get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		(void) pt_pool_ensure();
}

/*
 * Does an insertion read its rows from a query?  A single row of VALUES is a Result that
 * reads nothing.
 */
static bool
inserts_query(PlannedStmt *plan)
{
	Plan	   *source = IsA(plan->planTree, ModifyTable) ? outerPlan(plan->planTree) : NULL;

	return source != NULL && !(IsA(source, Result) && outerPlan(source) == NULL);
}

void		pg_attribute_hot
pt_pool_before_insert(PlannedStmt *plan)
{
	if (pt_pool_descriptor() < 0 && ResultRelationsCount_compat(plan) > 0 && inserts_query(plan))
		pool_before_filling(rt_fetch(ResultRelationFirst_compat(plan), plan->rtable)->relid);
}

void		pg_attribute_hot
pt_pool_before_utility(Node *statement)
{
	if (IsA(statement, CreateTableAsStmt))
	{
		RangeVar   *target = ((CreateTableAsStmt *) statement)->into->rel;

		if (target->relpersistence == RELPERSISTENCE_TEMP && pt_enabled && max_parallel_workers_per_gather > 0)
			(void) pt_pool_ensure();
	}
	else if (IsA(statement, CopyStmt) && ((CopyStmt *) statement)->is_from)
	{
		Oid			relid = RangeVarGetRelid(((CopyStmt *) statement)->relation, NoLock, true);

		if (OidIsValid(relid))
			pool_before_filling(relid);
	}
}

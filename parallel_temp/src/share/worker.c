/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  A parallel worker finds what its leader shares, and lets stock code read
 *	  temporary relations here when the plan needs that.
 *
 * Our own scan needs no local buffers in a worker.  Index and bitmap scans, and
 * fetching an out-of-line value, are stock code that goes through the local
 * buffer manager, which core refuses to start in a worker.  For plans that need
 * it (and for no others: core's refusal is a safety net) it is started here with
 * the leader's size, and its first buffers are given the leader's pinned pages of
 * these relations: each buffer's memory is the page in a private, copy-on-write
 * mapping of the pool, entered into the lookup table by LocalBufferAlloc like any
 * page that was read.  Hint bits that stock code sets stay private.  These
 * buffers stay pinned as long as the query runs, so they are never evicted and
 * never pruned.
 *
 * Blocks that are not in the leader's buffers come from the leader's file, whose
 * name the relation cache of a worker resolves by itself.  A hint bit makes such a
 * page dirty, and when it is evicted it would be written to a file named
 * after the worker.  That name is created before and leads to /dev/null, so that
 * it takes no disk space; nothing ever reads it.  (The storage manager wants the
 * segments before the last one to have their full length, and direct I/O wants
 * a file.  The names of these are links of one sparse file of a segment's length, so
 * discarded data takes no more than that for each worker and file system.)  The names are
 * removed when the worker ends.
 *
 * Functions that workers run must not read other temporary tables, whose pages
 * the leader has not shared: with the local buffer manager running core would no
 * longer refuse, so queries inside the worker are checked here instead.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "access/parallel.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "buffers/buffers.h"
#include "compat_storage.h"
#include "parallel_temp.h"
#include "share/share.h"

PtWorker	pt_worker = {.pool_fd = -1};

static QueryDesc *area_query = NULL;	/* the worker's part of the plan */
static char *pool_map = NULL;
static bool leaves_work = false;
static bool local_buffers = false;
static ResourceOwner seed_pins = NULL;	/* parent of the owners of pins */
static ResourceOwner pin_owner = NULL;

/* Names that take evicted private pages, to remove, and one of a whole segment. */
static List *sink_paths = NIL;
static char *segment_sink = NULL;

char *
pt_worker_pool_map(void)
{
	if (pool_map == NULL)
	{
		pool_map = mmap(NULL, pt_worker.area->pool_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, pt_worker.pool_fd, 0);
		if (pool_map == MAP_FAILED)
			pool_map = NULL;
	}
	return pool_map;
}

bool
pt_worker_leaves_work(QueryDesc *queryDesc)
{
	return leaves_work && queryDesc == area_query;
}

/*
 * The leader's entry is the last one.  A user's entry can come to stand for no
 * relation, too, and have any name (a function of constants in FROM), but it is
 * marked as one of FROM.
 */
static dsm_handle
worker_find_handle(List *rtable)
{
	RangeTblEntry *rte = rtable == NIL ? NULL : llast_node(RangeTblEntry, rtable);

	if (rte == NULL || rte->rtekind != RTE_RESULT || rte->inFromCl || rte->alias == NULL ||
		strcmp(rte->alias->aliasname, SHARE_ALIAS) != 0)
		return DSM_HANDLE_INVALID;
	return (dsm_handle) strtoul(strVal(linitial(rte->alias->colnames)), NULL, 10);
}

static void
worker_remove_sinks(int code, Datum arg)
{
	ListCell   *lc;

	foreach(lc, sink_paths)
		(void) unlink(lfirst(lc));
	sink_paths = NIL;
}

/*
 * Remember, in the current memory context, that this name has to go when the worker ends.
 */
static void
worker_remember_sink(char *name)
{
	if (sink_paths == NIL)
		before_shmem_exit(worker_remove_sinks, (Datum) 0);
	sink_paths = lappend(sink_paths, name);
}

/*
 * Make a name that leads to /dev/null.  One of a worker that crashed may be there still.
 */
static void
worker_link_null_sink(char *name)
{
	if (symlink(DEVNULL, name) != 0 && (errno != EEXIST || unlink(name) != 0 || symlink(DEVNULL, name) != 0))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create symbolic link \"%s\": %m", name)));
	worker_remember_sink(name);
}

/*
 * Make a name of the file that has the length of a segment.  The names are hard links:
 * one that a killed worker leaves behind never leads nowhere.  The server, when it
 * chooses a file number, would not see such a name, and then fail to create the file.
 */
static void
worker_link_segment_sink(char *name)
{
	int			fd;

	/* a worker that crashed may have left it */
	(void) unlink(name);
	if (segment_sink != NULL && link(segment_sink, name) == 0)
	{
		worker_remember_sink(name);
		return;
	}

	/* the first one in its file system */
	fd = OpenTransientFile(name, O_RDWR | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", name)));
	worker_remember_sink(name);
	if (ftruncate(fd, (off_t) RELSEG_SIZE * BLCKSZ) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not extend file \"%s\": %m", name)));
	CloseTransientFile(fd);
	segment_sink = name;
}

/*
 * Make what takes private pages of this relation if they are evicted.
 */
static void
worker_make_sink(SharedRel *rel)
{
	BlockNumber last = rel->nblocks / RELSEG_SIZE;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	for (BlockNumber segment = 0; segment <= last; segment++)
	{
		char	   *name = pt_relfile_path(rel->locator, MyFileOwner_compat(), MAIN_FORKNUM, segment);

		if (segment == last && !DirectIO_compat())
			worker_link_null_sink(name);
		else
			worker_link_segment_sink(name);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Enter the leader's pinned pages of one relation into this worker's buffers.
 */
static int
worker_seed_relation(SharedRel *rel, char *pool, int next)
{
	int32	   *pages = pt_shared_relation_pages(pt_worker.area, rel);
	ResourceOwner saved_owner = CurrentResourceOwner;
	Relation	relation = relation_open(rel->relid, AccessShareLock);

	if (!RelFileLocatorEquals_compat(rd_locator_compat(relation), rel->locator))
		elog(ERROR, "temporary relation %u has changed since the query started", rel->relid);
	for (BlockNumber block = 0; block < rel->nblocks; block++)
	{
		BufferDesc *desc;
		bool		found;

		if (pages[block] < 0)
			continue;
		Assert(LocalBufferBlockPointers[next] == NULL);
		LocalBufferBlockPointers[next] = (Block) (pool + (Size) pages[block] * BLCKSZ);
		if (next % PINS_AN_OWNER == 0)
			pin_owner = ResourceOwnerCreate(seed_pins, "parallel_temp pins");
		CurrentResourceOwner = pin_owner;
		ResourceOwnerEnlargeBuffers_compat();
		desc = LocalBufferAlloc(RelationGetSmgr(relation), MAIN_FORKNUM, block, &found);
		if (found || -BufferDescriptorGetBuffer(desc) - 1 != next)
			elog(ERROR, "temporary buffers of a parallel worker are in an unexpected order");
		BufStateWrite_compat(desc, BufStateRead_compat(desc) | BM_VALID);
		next++;
	}
	CurrentResourceOwner = saved_owner;
	relation_close(relation, NoLock);
	return next;
}

/*
 * Start the local buffer manager, which refuses a worker.  Its test checks
 * only the worker's number.
 */
static void
worker_start_local_buffers(void)
{
	int			number = ParallelWorkerNumber;

	if (NLocBuffer != 0)
		elog(ERROR, "temporary buffers of a parallel worker are in use already");

	/*
	 * The table gets the leader's size.  The setting can differ from that if
	 * it was set in a transaction that has ended since; core counts on the
	 * two being the same.
	 */
	num_temp_buffers = pt_worker.area->nbuffers;

	ParallelWorkerNumber = -1;
	PG_TRY();
	{
		pt_localbuf_ensure();
	}
	PG_FINALLY();
	{
		ParallelWorkerNumber = number;
	}
	PG_END_TRY();
	local_buffers = true;
}

static void
worker_fill_local_buffers(void)
{
	int			next = 0;
	char	   *pool = NULL;

	if (pt_worker.pool_fd >= 0)
	{
		pool = mmap(NULL, pt_worker.area->pool_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, pt_worker.pool_fd, 0);
		if (pool == MAP_FAILED)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not map the temporary buffers of the parallel leader: %m")));
	}

	seed_pins = ResourceOwnerCreate(CurrentResourceOwner, "parallel_temp");
	for (int i = 0; i < pt_worker.area->nrels; i++)
	{
		SharedRel  *rel = &pt_worker.area->rels[i];

		if (!rel->stock)
			continue;
		if (pool != NULL)
			next = worker_seed_relation(rel, pool, next);
		if (pool == NULL || rel->resident < rel->nblocks)
			worker_make_sink(rel);
	}
}

/*
 * Open what the leader shares.
 */
static void
worker_attach(QueryDesc *queryDesc, dsm_handle handle)
{
	dsm_segment *segment = dsm_attach(handle);

	if (segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not map what the parallel leader shares of its temporary tables")));
	/* For the rest of this process: it runs one query. */
	dsm_pin_mapping(segment);
	pt_worker.area = dsm_segment_address(segment);
	if (pt_worker.area->magic != SHARED_AREA_MAGIC)
		elog(ERROR, "invalid magic number in the shared area of temporary tables");
	pt_check_shared_build(pt_worker.area->build, SHARED_BUILD(SharedArea));
	area_query = queryDesc;

	if (pt_worker.area->use_pool)
	{
		pt_worker.pool_fd = pt_pool_open_leaders(pt_worker.area);
		if (pt_worker.pool_fd >= 0)
			pg_atomic_fetch_add_u32(&pt_worker.area->attached, 1);
		else
		{
			/* Too many open files now say nothing about the next query. */
			if (errno != EMFILE && errno != ENFILE)
				pg_atomic_fetch_add_u32(&pt_worker.area->refused, 1);
			if (pt_worker.area->may_skip)
				leaves_work = true;
			else if (!pt_worker.area->files_current)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("could not open the temporary buffers of the parallel leader: %m"),
						 errhint("Set parallel_temp.method to \"flush\".")));
		}
	}
	if (pt_worker.area->stock && !leaves_work)
	{
		worker_start_local_buffers();
		worker_fill_local_buffers();
	}
}

/*
 * A query that a function runs inside a worker must leave temporary tables alone.
 */
static void
worker_check_inner_query(QueryDesc *queryDesc)
{
	ListCell   *lc;

	foreach(lc, queryDesc->plannedstmt->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relkind != RELKIND_VIEW &&
			get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
					 errmsg("cannot access temporary tables during a parallel operation"),
					 errhint("Functions that read temporary tables should be labeled parallel restricted.")));
	}
}

void
pt_worker_executor_start(QueryDesc *queryDesc)
{
	dsm_handle	handle;

	if (pt_worker.area != NULL)
	{
		if (local_buffers)
			worker_check_inner_query(queryDesc);
		return;
	}
	handle = worker_find_handle(queryDesc->plannedstmt->rtable);
	if (handle != DSM_HANDLE_INVALID)
		worker_attach(queryDesc, handle);
}

void
pt_worker_executor_end(QueryDesc *queryDesc)
{
	if (queryDesc != area_query || seed_pins == NULL)
		return;
	pt_share_release_pins(seed_pins);
	seed_pins = NULL;
}

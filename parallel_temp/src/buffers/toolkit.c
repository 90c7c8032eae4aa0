/*-------------------------------------------------------------------------
 *
 * toolkit.c
 *	  SQL functions that count, flush, read, dirty, evict and price the local
 *	  buffers of the calling session.
 *
 * Each function checks what it is given (open_temp_relation), takes an ordinary
 * AccessShareLock, and leaves the work to localbuf*.c.
 *
 * Privileges: local buffers belong to the session that calls the function, so
 * counting them shows nothing about others, and all roles may.  Functions that
 * change the state of one relation's buffers are for its owner (superusers own
 * everything).  Flushing all of them changes no data, and any query of the session
 * that needs a buffer does the same, so it is for everyone again.
 *
 * Functions that change buffers are PARALLEL UNSAFE and refuse to run during a
 * parallel operation: workers may be reading the files, or the buffers themselves.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "buffers/buffers.h"
#include "compat_table.h"
#include "parallel_temp.h"

PG_FUNCTION_INFO_V1(pg_allocated_local_buffers);
PG_FUNCTION_INFO_V1(pg_dirty_local_buffers);
PG_FUNCTION_INFO_V1(pg_flush_local_buffers);
PG_FUNCTION_INFO_V1(pg_flush_local_buffers_rel);
PG_FUNCTION_INFO_V1(pg_read_temp_relation);
PG_FUNCTION_INFO_V1(pg_temp_buffers_dirty);
PG_FUNCTION_INFO_V1(pg_evict_temp_relation);
PG_FUNCTION_INFO_V1(pg_temp_flush_cost);

void
pt_require_leader(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot access temporary buffers in a parallel worker"),
				 errhint("The functions of parallel_temp must not be marked PARALLEL SAFE, nor functions that call them.")));
}

void
pt_require_no_parallel_operation(void)
{
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot change temporary buffers during a parallel operation"),
				 errhint("Mark the function that does this PARALLEL UNSAFE.")));
}

/*
 * Open a temporary relation of this session that has pages.  "mutating" asks for
 * its ownership too.  The catalog row is checked first, so that no session waits
 * for a lock on, or locks, a relation that is not the session's.
 */
static Relation
open_temp_relation(Oid relid, bool mutating)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Relation	rel = NULL;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		const char *name = NameStr(form->relname);

		if (RELKIND_HAS_PARTITIONS(form->relkind))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("relation \"%s\" has no storage", name),
					 errdetail_relkind_not_supported(form->relkind),
					 errhint("Name its partitions; pg_partition_tree() lists them.")));
		if (!RELKIND_HAS_STORAGE(form->relkind))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("relation \"%s\" has no storage", name),
					 errdetail_relkind_not_supported(form->relkind),
					 errhint("Name a temporary table, or an index or sequence that is temporary.")));
		if (form->relpersistence != RELPERSISTENCE_TEMP)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("relation \"%s\" is not temporary", name),
					 errhint("Pages of other relations are in shared buffers; see the extensions pg_buffercache and pg_prewarm.")));
		if (!isTempOrTempToastNamespace(form->relnamespace))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot access the temporary relation \"%s\" of another session", name),
					 errhint("Its pages are in the memory of that session alone; call the function there.")));
		if (mutating && !RelationOwnerCheck_compat(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(form->relkind), name);
		ReleaseSysCache(tuple);
		rel = try_relation_open(relid, AccessShareLock);
	}
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	Assert(RelationUsesLocalBuffers(rel) && !RELATION_IS_OTHER_TEMP(rel));
	return rel;
}

/*
 * pg_allocated_local_buffers() -> integer: buffers that have memory.
 */
Datum
pg_allocated_local_buffers(PG_FUNCTION_ARGS)
{
	int			allocated;

	pt_require_leader();
	pt_localbuf_count(NULL, 0, &allocated, NULL);
	PG_RETURN_INT32(allocated);
}

/*
 * pg_dirty_local_buffers() -> integer: buffers whose page is not in its file yet.
 */
Datum
pg_dirty_local_buffers(PG_FUNCTION_ARGS)
{
	int			dirty;

	pt_require_leader();
	pt_localbuf_count(NULL, 0, NULL, &dirty);
	PG_RETURN_INT32(dirty);
}

/*
 * pg_flush_local_buffers() -> integer: pages written.
 */
Datum
pg_flush_local_buffers(PG_FUNCTION_ARGS)
{
	pt_require_no_parallel_operation();
	PG_RETURN_INT32(pt_localbuf_flush_all());
}

/*
 * pg_flush_local_buffers(rel regclass) -> integer: pages written, of the relation,
 * its TOAST table and the indexes of both.
 */
Datum
pg_flush_local_buffers_rel(PG_FUNCTION_ARGS)
{
	Relation	rel;
	Relation   *rels;
	int			n;
	int			written;

	pt_require_no_parallel_operation();
	rel = open_temp_relation(PG_GETARG_OID(0), true);
	rels = pt_localbuf_open_relations(rel, &n);
	written = pt_localbuf_flush(rels, n);
	pt_localbuf_close_relations(rels, n, AccessShareLock);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32(written);
}

/*
 * The blocks 0 .. nblocks - 1 in random order.
 */
static BlockNumber *
shuffled_blocks(BlockNumber nblocks)
{
	BlockNumber *blocks = MemoryContextAllocHuge(CurrentMemoryContext, mul_size(sizeof(BlockNumber), nblocks));

	/* each block goes to a random place among those before it */
	for (BlockNumber i = 0; i < nblocks; i++)
	{
		BlockNumber place = (BlockNumber) pg_prng_uint64_range(&pg_global_prng_state, 0, i);

		if (place != i)
			blocks[i] = blocks[place];
		blocks[place] = i;
	}
	return blocks;
}

/*
 * pg_read_temp_relation(rel regclass, randomize bool) -> integer: bring the main
 * fork's pages into the local buffers, in order or at random; returns how many had
 * to be read from the file.
 */
Datum
pg_read_temp_relation(PG_FUNCTION_ARGS)
{
	bool		randomize = PG_GETARG_BOOL(1);
	Relation	rel;
	BlockNumber nblocks;
	BlockNumber *blocks = NULL;
	int			unpinned = 0;
	int64		read_before;
	int64		read;

	pt_require_no_parallel_operation();
	rel = open_temp_relation(PG_GETARG_OID(0), true);
	pt_localbuf_ensure();
	nblocks = RelationGetNumberOfBlocks(rel);
	for (int i = 0; i < NLocBuffer; i++)
		unpinned += LocalRefCount[i] == 0;
	if (nblocks > 0 && unpinned == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no temporary buffer is free: all %d are in use", NLocBuffer),
				 errhint("Close open cursors, or set temp_buffers higher at the start of the session.")));
	if (nblocks > (BlockNumber) unpinned)
		ereport(WARNING,
				(errmsg("temporary buffers do not hold all of relation \"%s\"", RelationGetRelationName(rel)),
				 errdetail("The relation has %u pages, and %d buffers are free to take them.", nblocks, unpinned),
				 errhint("Set temp_buffers higher at the start of the session.")));

	if (randomize)
		blocks = shuffled_blocks(nblocks);
	read_before = pgBufferUsage.local_blks_read;
	for (BlockNumber i = 0; i < nblocks; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ReleaseBuffer(ReadBufferExtended(rel, MAIN_FORKNUM, blocks ? blocks[i] : i, RBM_NORMAL, NULL));
	}
	read = pgBufferUsage.local_blks_read - read_before;
	if (blocks)
		pfree(blocks);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32((int32) Min(read, PG_INT32_MAX));
}

/*
 * pg_temp_buffers_dirty(rel regclass) -> integer: mark the resident pages of the
 * main fork dirty; returns how many were clean.
 */
Datum
pg_temp_buffers_dirty(PG_FUNCTION_ARGS)
{
	Relation	rel;
	int			marked;

	pt_require_no_parallel_operation();
	rel = open_temp_relation(PG_GETARG_OID(0), true);
	marked = pt_localbuf_mark_dirty(rel);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32(marked);
}

/*
 * pg_evict_temp_relation(rel regclass) -> integer: write the relation's dirty pages
 * and take its pages out of the local buffers; returns how many left.
 */
Datum
pg_evict_temp_relation(PG_FUNCTION_ARGS)
{
	Relation	rel;
	LocalBufEvicted result;

	pt_require_no_parallel_operation();
	rel = open_temp_relation(PG_GETARG_OID(0), true);
	result = pt_localbuf_evict(rel);
	if (result.pinned > 0)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg_plural("%d page of relation \"%s\" stays in temporary buffers because it is in use",
							   "%d pages of relation \"%s\" stay in temporary buffers because they are in use",
							   result.pinned,
							   result.pinned, RelationGetRelationName(rel)),
				 errhint("Close open cursors over the relation, then call the function again.")));
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32(result.evicted);
}

/*
 * pg_temp_flush_cost(rel regclass default null) -> float8: what the planner adds
 * for flushing the relation with its TOAST table and indexes (NULL: everything),
 * in units of seq_page_cost.
 *
 * The published formula: a cost for each dirty page to write, and a small one for
 * each allocated buffer to check.
 */
Datum
pg_temp_flush_cost(PG_FUNCTION_ARGS)
{
	int			allocated;
	int			dirty;

	pt_require_leader();
	if (PG_ARGISNULL(0))
		pt_localbuf_count(NULL, 0, &allocated, &dirty);
	else
	{
		Relation	rel = open_temp_relation(PG_GETARG_OID(0), false);
		int			n;
		Relation   *rels = pt_localbuf_open_relations(rel, &n);

		pt_localbuf_count(rels, n, &allocated, &dirty);
		pt_localbuf_close_relations(rels, n, AccessShareLock);
		relation_close(rel, AccessShareLock);
	}
	PG_RETURN_FLOAT8(pt_flush_page_cost * dirty + pt_scan_buffer_cost * allocated);
}

/*-------------------------------------------------------------------------
 *
 * compat_table.h
 *	  Differences between PostgreSQL 15 and 19 in relations as such: their
 *	  catalogs, table access methods, indexes, and statistics of scans.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_TABLE_H
#define COMPAT_TABLE_H

#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#if PG_VERSION_NUM >= 160000
#define RelationOwnerCheck_compat(relid, role) object_ownercheck(RelationRelationId, relid, role)
#else
#define RelationOwnerCheck_compat(relid, role) pg_class_ownercheck(relid, role)
#endif

/* Roles that may maintain a table: its owner, and since 17 roles with that privilege. */
#if PG_VERSION_NUM >= 170000
#define MayMaintain_compat(relid, role) (pg_class_aclcheck(relid, role, ACL_MAINTAIN) == ACLCHECK_OK)
#else
#define MayMaintain_compat(relid, role) RelationOwnerCheck_compat(relid, role)
#endif

/* 19 has an argument that allows it to check again which transactions are running. */
#if PG_VERSION_NUM >= 190000
#define GlobalVisTestIsRemovableXid_compat(state, xid) GlobalVisTestIsRemovableXid(state, xid, true)
#else
#define GlobalVisTestIsRemovableXid_compat(state, xid) GlobalVisTestIsRemovableXid(state, xid)
#endif

/* Was the relation, or its present storage, made in this subtransaction? */
#if PG_VERSION_NUM >= 160000
#define CreatedInSubTransaction_compat(rel, subid) \
	((rel)->rd_createSubid == (subid) || (rel)->rd_newRelfilelocatorSubid == (subid))
#else
#define CreatedInSubTransaction_compat(rel, subid) \
	((rel)->rd_createSubid == (subid) || (rel)->rd_newRelfilenodeSubid == (subid))
#endif

/* Has the current transaction given the relation another file than it had before? */
#if PG_VERSION_NUM >= 160000
#define HasNewStorage_compat(rel) ((rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
#define HasNewStorage_compat(rel) ((rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

/* Does this transaction hold the lock?  Since 17 one that is stronger may count, too. */
#if PG_VERSION_NUM >= 170000
#define LockHeldByMe_compat(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define LockHeldByMe_compat(tag, mode) LockHeldByMe(tag, mode)
#endif

/* Virtual generated columns came with 18. */
#if PG_VERSION_NUM >= 180000
#define HasGeneratedColumns_compat(constr) ((constr)->has_generated_stored || (constr)->has_generated_virtual)
#else
#define HasGeneratedColumns_compat(constr) ((constr)->has_generated_stored)
#endif

#if PG_VERSION_NUM >= 180000
#define IsVirtualColumn_compat(attribute) ((attribute)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
#else
#define IsVirtualColumn_compat(attribute) false
#endif

/* 17 added an argument: whether a message that is not transactional is flushed. */
#if PG_VERSION_NUM >= 170000
#define LogLogicalMessage_compat(prefix, message, size, transactional) LogLogicalMessage(prefix, message, size, transactional, false)
#else
#define LogLogicalMessage_compat(prefix, message, size, transactional) LogLogicalMessage(prefix, message, size, transactional)
#endif

#if PG_VERSION_NUM >= 160000
#define relation_set_new_file_compat relation_set_new_filelocator
#define RelationSetNewRelfilenumber_compat(rel, persistence) RelationSetNewRelfilenumber(rel, persistence)
typedef TU_UpdateIndexes TU_UpdateIndexes_compat;
#define TU_None_compat TU_None
#define TU_All_compat TU_All
#else
#define relation_set_new_file_compat relation_set_new_filenode
#define RelationSetNewRelfilenumber_compat(rel, persistence) RelationSetNewRelfilenode(rel, persistence)
typedef bool TU_UpdateIndexes_compat;
#define TU_None_compat false
#define TU_All_compat true
#endif

/* Parameters and arguments that callbacks and hooks have only since 19, and only before. */
#if PG_VERSION_NUM >= 190000
#define SINCE_19_compat(...) __VA_ARGS__
#define BEFORE_19_compat(...)
#else
#define SINCE_19_compat(...)
#define BEFORE_19_compat(...) __VA_ARGS__
#endif

/* Options of rows' way into a table got a type in 19, and deletions and scans such a parameter. */
#if PG_VERSION_NUM >= 190000
typedef uint32 TableOptions_compat;
#define table_tuple_delete_compat(rel, tid, cid, snapshot, crosscheck, wait, tmfd) \
	table_tuple_delete(rel, tid, cid, 0, snapshot, crosscheck, wait, tmfd)
#define table_beginscan_compat(rel, snapshot, nkeys, key) table_beginscan(rel, snapshot, nkeys, key, SO_NONE)
#define table_beginscan_tidrange_compat(rel, snapshot, first, last) table_beginscan_tidrange(rel, snapshot, first, last, SO_NONE)
#else
typedef int TableOptions_compat;
#define table_tuple_delete_compat(rel, tid, cid, snapshot, crosscheck, wait, tmfd) \
	table_tuple_delete(rel, tid, cid, snapshot, crosscheck, wait, tmfd, false)
#define table_beginscan_compat(rel, snapshot, nkeys, key) table_beginscan(rel, snapshot, nkeys, key)
#define table_beginscan_tidrange_compat(rel, snapshot, first, last) table_beginscan_tidrange(rel, snapshot, first, last)
#endif

/* A plain index for internal use; 17 added operator class options and statistics targets. */
static inline Oid
index_create_compat(Relation heap, const char *name, IndexInfo *info, List *columns,
					Oid method, Oid tablespace, Oid *collations, Oid *opclasses,
					int16 *options)
{
#if PG_VERSION_NUM >= 170000
	return index_create(heap, name, InvalidOid, InvalidOid, InvalidOid, InvalidOid,
						info, columns, method, tablespace, collations, opclasses, NULL,
						options, NULL, (Datum) 0, 0, 0, true, true, NULL);
#else
	return index_create(heap, name, InvalidOid, InvalidOid, InvalidOid, InvalidOid,
						info, columns, method, tablespace, collations, opclasses,
						options, (Datum) 0, 0, 0, true, true, NULL);
#endif
}

static inline void
reindex_relation_compat(Oid relid)
{
	ReindexParams params = {0};

#if PG_VERSION_NUM >= 170000
	reindex_relation(NULL, relid, 0, &params);
#else
	reindex_relation(relid, 0, &params);
#endif
}

#if PG_VERSION_NUM >= 180000
#define PopulateCompactAttribute_compat(tupdesc, i) populate_compact_attribute(tupdesc, i)
#else
#define PopulateCompactAttribute_compat(tupdesc, i) ((void) 0)
#endif

/* Since 19 the parameters of a VACUUM are constant. */
#if PG_VERSION_NUM >= 190000
typedef const VacuumParams *VacuumParams_compat;
#else
typedef VacuumParams *VacuumParams_compat;
#endif

#if PG_VERSION_NUM >= 180000
#define vacuum_delay_point_compat(is_analyze) vacuum_delay_point(is_analyze)
#else
#define vacuum_delay_point_compat(is_analyze) vacuum_delay_point()
#endif

/* A datum is copied or not since 16; one of a type passed by value never is. */
#if PG_VERSION_NUM >= 160000
#define tuplesort_getdatum_compat(state, forward, value, isnull, abbrev) \
	tuplesort_getdatum(state, forward, false, value, isnull, abbrev)
#else
#define tuplesort_getdatum_compat(state, forward, value, isnull, abbrev) \
	tuplesort_getdatum(state, forward, value, isnull, abbrev)
#endif

/*
 * Take dead rows off a heap page that no other process has pinned, as a sequential scan
 * does.  Since 19 that also changes the visibility map, so there nothing is done.
 * PRUNES_BY_BUFFER_compat: whether it takes no more than the buffer, and so is done.
 */
#if PG_VERSION_NUM >= 190000
#define heap_page_prune_opt_compat(rel, buffer) ((void) 0)
#define PRUNES_BY_BUFFER_compat false
#else
#define heap_page_prune_opt_compat(rel, buffer) heap_page_prune_opt(rel, buffer)
#define PRUNES_BY_BUFFER_compat true
#endif

/*
 * Have the page of a block in the buffer of heap's fetch by an index; true if another one was
 * there.  heap then finds it there and does not prune it.
 */
static inline bool
heap_index_fetch_page_compat(IndexFetchHeapData *fetch, BlockNumber block)
{
#if PG_VERSION_NUM >= 190000
	if (fetch->xs_blk == block)
		return false;
	if (BufferIsValid(fetch->xs_cbuf))
		ReleaseBuffer(fetch->xs_cbuf);
	fetch->xs_cbuf = InvalidBuffer;
	fetch->xs_blk = InvalidBlockNumber;
	fetch->xs_cbuf = ReadBuffer(fetch->xs_base.rel, block);
	fetch->xs_blk = block;
	return true;
#else
	Buffer		before = fetch->xs_cbuf;

	fetch->xs_cbuf = ReleaseAndReadBuffer(before, fetch->xs_base.rel, block);
	return fetch->xs_cbuf != before;
#endif
}

/* Prune that page as heap does, which since 19 may also change the visibility map. */
#if PG_VERSION_NUM >= 190000
#define heap_index_fetch_prune_compat(fetch) \
	heap_page_prune_opt((fetch)->xs_base.rel, (fetch)->xs_cbuf, &(fetch)->xs_vmbuffer, \
						((fetch)->xs_base.flags & SO_HINT_REL_READ_ONLY) != 0)
#else
#define heap_index_fetch_prune_compat(fetch) heap_page_prune_opt((fetch)->xs_base.rel, (fetch)->xs_cbuf)
#endif

/* Count what a scan did in the relation's statistics. */
#if PG_VERSION_NUM >= 160000
#define RelationStats_compat(rel, field) ((rel)->pgstat_info->counts.field)
#else
#define RelationStats_compat(rel, field) ((rel)->pgstat_info->t_counts.t_##field)
#endif
#define CountScanned_compat(rel, field, n) \
	do { \
		if (pgstat_should_count_relation(rel)) \
			RelationStats_compat(rel, field) += (n); \
	} while (0)

#endif							/* COMPAT_TABLE_H */

/*-------------------------------------------------------------------------
 *
 * pg_compat.h
 *	  Every difference between PostgreSQL 15, 16, 17, 18 and 19 that this
 *	  project's C code meets, in one place.
 *
 * A wrapper carries the name of what it wraps and ends in _compat.  Nothing
 * else in the project looks at PG_VERSION_NUM.  The header is included after
 * postgres.h; each section includes what it needs.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_LEAN_COMPAT_H
#define PG_LEAN_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "pg_lean supports PostgreSQL 15 to 19"
#endif

/* ---- storage: relation file names -------------------------------------- */

#include "utils/rel.h"
#include "storage/buf_internals.h"

#if PG_VERSION_NUM >= 160000
typedef RelFileLocator RelFileLocator_compat;
#define rd_locator_compat(rel) ((rel)->rd_locator)
#else
typedef RelFileNode RelFileLocator_compat;
#define rd_locator_compat(rel) ((rel)->rd_node)
#endif

/* ---- local buffers: tags, state words, other backends' numbers ---------- */

#include "storage/bufmgr.h"
#include "storage/smgr.h"

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
 * Take every page of one fork out of the local buffers, dirty or not.  An ERROR
 * if one is pinned.
 */
#if PG_VERSION_NUM >= 190000
#define DropForkLocalBuffers_compat(locator, fork) \
	DropRelationLocalBuffers(locator, &(ForkNumber) {fork}, 1, &(BlockNumber) {0})
#elif PG_VERSION_NUM >= 160000
#define DropForkLocalBuffers_compat(locator, fork) DropRelationLocalBuffers(locator, fork, 0)
#else
#define DropForkLocalBuffers_compat(locator, fork) DropRelFileNodeLocalBuffers(locator, fork, 0)
#endif

/* 19 dropped "Inplace" from the name with the other variant. */
#if PG_VERSION_NUM >= 190000
#define PageSetChecksumInplace_compat(page, block) PageSetChecksum(page, block)
#else
#define PageSetChecksumInplace_compat(page, block) PageSetChecksumInplace(page, block)
#endif

/* 19 chooses wide instructions for page checksums itself. */
#define CHECKSUM_WORTH_COMPILING_COMPAT (PG_VERSION_NUM < 190000)

/* The number in the names of this session's temporary files (the leader's, in a worker). */
#if PG_VERSION_NUM >= 170000
#define TempFileOwner_compat() ProcNumberForTempRelations()
#else
#include "storage/backendid.h"
#include "miscadmin.h"
#define TempFileOwner_compat() BackendIdForTempRelations()
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

/* Since 18 a read may still be under way when nobody holds a pin any more. */
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
 * Count a write of n pages of a temporary relation in pg_stat_io (16+: pages
 * until 17, calls and bytes since 18).  IoTimeStart_compat() goes before it.
 */
#include "pgstat.h"
#include "portability/instr_time.h"
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

/* A palloc'd path; since 18 relpathbackend() itself returns a struct. */
#if PG_VERSION_NUM >= 180000
#define relpathbackend_compat(locator, owner, fork) pstrdup(relpathbackend(locator, owner, fork).str)
#else
#define relpathbackend_compat(locator, owner, fork) relpathbackend(locator, owner, fork)
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
#include "storage/fd.h"
#define DirectIO_compat() ((io_direct_flags & IO_DIRECT_DATA) != 0)
#else
#define DirectIO_compat() false
#endif

/* pg_pwritev_with_retry() moved in 16. */
#if PG_VERSION_NUM >= 160000
#include "common/file_utils.h"
#else
#include "storage/fd.h"
#endif
#include "port/pg_iovec.h"

/* ---- catalog: ownership of a relation ---------------------------------- */

#include "catalog/pg_class.h"
#include "utils/acl.h"

#if PG_VERSION_NUM >= 160000
#define RelationOwnerCheck_compat(relid, role) object_ownercheck(RelationRelationId, relid, role)
#else
#define RelationOwnerCheck_compat(relid, role) pg_class_ownercheck(relid, role)
#endif

/* ---- appendable_bytea: type ---------------------------------------------- */

#include "commands/vacuum.h"

#if PG_VERSION_NUM >= 180000
#define vacuum_delay_point_compat(is_analyze) vacuum_delay_point(is_analyze)
#else
#define vacuum_delay_point_compat(is_analyze) vacuum_delay_point()
#endif

/* ---- appendable_bytea: input functions ----------------------------------- */

#include "utils/builtins.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#endif

/*
 * Decode hexadecimal text to bytes; returns their number.  Malformed text raises
 * an error or, where the server knows soft errors and escontext asks for them,
 * returns -1.  ereturn_compat reports an error the same way.
 */
#if PG_VERSION_NUM >= 160000
static inline int64
hex_decode_compat(const char *src, size_t len, char *dst, Node *escontext)
{
	uint64		n = hex_decode_safe(src, len, dst, escontext);

	return SOFT_ERROR_OCCURRED(escontext) ? -1 : (int64) n;
}
#define ereturn_compat(escontext, dummy, ...) ereturn(escontext, dummy, __VA_ARGS__)
#else
static inline int64
hex_decode_compat(const char *src, size_t len, char *dst, Node *escontext)
{
	return (int64) hex_decode(src, len, dst);
}
#define ereturn_compat(escontext, dummy, ...) \
	do { \
		ereport(ERROR, __VA_ARGS__); \
		return dummy; \
	} while (0)
#endif

/* ---- bulk load and its hooks ------------------------------------------- */

#include "commands/explain.h"
#include "executor/executor.h"
#include "tcop/utility.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* Path of a relation fork's first segment, palloc'd. */
#if PG_VERSION_NUM >= 180000
#define smgr_path_compat(reln, fork) pstrdup(relpath((reln)->smgr_rlocator, fork).str)
#elif PG_VERSION_NUM >= 160000
#define smgr_path_compat(reln, fork) relpath((reln)->smgr_rlocator, fork)
#else
#define smgr_path_compat(reln, fork) relpath((reln)->smgr_rnode, fork)
#endif

/* A page that any kind of I/O accepts. */
#if PG_VERSION_NUM >= 160000
typedef PGIOAlignedBlock PGAlignedBlock_compat;
#else
typedef PGAlignedBlock PGAlignedBlock_compat;
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

/* Was the relation, or its present storage, made in this subtransaction? */
#if PG_VERSION_NUM >= 160000
#define CreatedInSubTransaction_compat(rel, subid) \
	((rel)->rd_createSubid == (subid) || (rel)->rd_newRelfilelocatorSubid == (subid))
#else
#define CreatedInSubTransaction_compat(rel, subid) \
	((rel)->rd_createSubid == (subid) || (rel)->rd_newRelfilenodeSubid == (subid))
#endif

/* Virtual generated columns came with 18. */
#if PG_VERSION_NUM >= 180000
#define HasGeneratedColumns_compat(constr) ((constr)->has_generated_stored || (constr)->has_generated_virtual)
#else
#define HasGeneratedColumns_compat(constr) ((constr)->has_generated_stored)
#endif

/* Index entries of a new row, no conflict handling; one more parameter since 16, flags since 19. */
#if PG_VERSION_NUM >= 190000
#define ExecInsertIndexTuples_compat(target, slot, estate) \
	list_free(ExecInsertIndexTuples(target, estate, 0, slot, NIL, NULL))
#elif PG_VERSION_NUM >= 160000
#define ExecInsertIndexTuples_compat(target, slot, estate) \
	list_free(ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL, false))
#else
#define ExecInsertIndexTuples_compat(target, slot, estate) \
	list_free(ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL))
#endif

/* The backend's own number of the transaction it is in. */
#if PG_VERSION_NUM >= 170000
#define CurrentLxid_compat (MyProc->vxid.lxid)
#else
#define CurrentLxid_compat (MyProc->lxid)
#endif

/* Parameter lists of hooks, to declare one and to call on. */
#if PG_VERSION_NUM >= 180000
#define EXECUTORRUN_PARAMS_compat QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define EXECUTORRUN_ARGS_compat queryDesc, direction, count
#else
#define EXECUTORRUN_PARAMS_compat QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define EXECUTORRUN_ARGS_compat queryDesc, direction, count, execute_once
#endif
#define PROCESSUTILITY_PARAMS_compat PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, \
	ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, \
	QueryCompletion *qc
#define PROCESSUTILITY_ARGS_compat pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc
#define EXPLAINONEQUERY_PARAMS_compat Query *query, int cursorOptions, IntoClause *into, ExplainState *es, \
	const char *queryString, ParamListInfo params, QueryEnvironment *queryEnv
#define EXPLAINONEQUERY_ARGS_compat query, cursorOptions, into, es, queryString, params, queryEnv

/* What EXPLAIN does with one query when no hook is set; exported since 17. */
#if PG_VERSION_NUM >= 170000
#define standard_ExplainOneQuery_compat(...) standard_ExplainOneQuery(__VA_ARGS__)
#else
#include "executor/instrument.h"
#include "tcop/tcopprot.h"
static inline void
standard_ExplainOneQuery_compat(EXPLAINONEQUERY_PARAMS_compat)
{
	BufferUsage before = pgBufferUsage;
	BufferUsage used = {0};
	instr_time	start;
	instr_time	duration;
	PlannedStmt *plan;

	INSTR_TIME_SET_CURRENT(start);
	plan = pg_plan_query(query, queryString, cursorOptions, params);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	BufferUsageAccumDiff(&used, &pgBufferUsage, &before);
	ExplainOnePlan(plan, into, es, queryString, params, queryEnv, &duration, es->buffers ? &used : NULL);
}
#endif

/* ---- instrumentation of plan nodes (light_explain) ---------------------- */

#include "executor/executor.h"
#include "executor/instrument.h"

/*
 * A plan node's instrumentation is one struct up to 18; 19 splits it into a
 * part that anything can use and what only nodes need.
 */
#if PG_VERSION_NUM >= 190000
typedef NodeInstrumentation NodeInstrumentation_compat;
#define InstrAllocNode_compat(options) InstrAllocNode(options, false)
#define InstrNeedTimer_compat(node) ((node)->instr.need_timer)
#define InstrNeedBuffers_compat(node) ((node)->instr.need_bufusage)
#define InstrNeedWal_compat(node) ((node)->instr.need_walusage)
#define InstrSetNeeds_compat(node, options) \
	((node)->instr.need_timer = ((options) & INSTRUMENT_TIMER) != 0, \
	 (node)->instr.need_bufusage = ((options) & INSTRUMENT_BUFFERS) != 0, \
	 (node)->instr.need_walusage = ((options) & INSTRUMENT_WAL) != 0)
#define InstrBuffers_compat(node) (&(node)->instr.bufusage)
#define InstrWal_compat(node) (&(node)->instr.walusage)
#define InstrTotal_compat(node) (INSTR_TIME_GET_DOUBLE((node)->instr.total) + INSTR_TIME_GET_DOUBLE((node)->counter))
#define InstrStartup_compat(node) (INSTR_TIME_GET_DOUBLE((node)->startup) + INSTR_TIME_GET_DOUBLE((node)->firsttuple))
static inline void
InstrAddTime_compat(NodeInstrumentation * node, double startup, double total)
{
	instr_time	t;

	INSTR_TIME_SET_ZERO(t);
	INSTR_TIME_ADD_NANOSEC(t, (int64) (startup * 1e9));
	INSTR_TIME_ADD(node->startup, t);
	INSTR_TIME_SET_ZERO(t);
	INSTR_TIME_ADD_NANOSEC(t, (int64) (total * 1e9));
	INSTR_TIME_ADD(node->instr.total, t);
}
#else
typedef Instrumentation NodeInstrumentation_compat;
#define InstrAllocNode_compat(options) InstrAlloc(1, options, false)
#define InstrNeedTimer_compat(node) ((node)->need_timer)
#define InstrNeedBuffers_compat(node) ((node)->need_bufusage)
#define InstrNeedWal_compat(node) ((node)->need_walusage)
#define InstrSetNeeds_compat(node, options) \
	((node)->need_timer = ((options) & INSTRUMENT_TIMER) != 0, \
	 (node)->need_bufusage = ((options) & INSTRUMENT_BUFFERS) != 0, \
	 (node)->need_walusage = ((options) & INSTRUMENT_WAL) != 0)
#define InstrBuffers_compat(node) (&(node)->bufusage)
#define InstrWal_compat(node) (&(node)->walusage)
#define InstrTotal_compat(node) ((node)->total + INSTR_TIME_GET_DOUBLE((node)->counter))
#define InstrStartup_compat(node) ((node)->startup + (node)->firsttuple)
static inline void
InstrAddTime_compat(Instrumentation *node, double startup, double total)
{
	node->startup += startup;
	node->total += total;
}
#endif

/*
 * Add nanoseconds to what a node has run in its present cycle.  19 has a quick
 * clock of its own, so nothing needs to be added.
 */
#if PG_VERSION_NUM >= 190000
#define HAVE_QUICK_INSTR_CLOCK_COMPAT 1
#define InstrAddCounter_compat(node, ns) ((void) (ns))
#define InstrSetFirstTuple_compat(node) ((node)->firsttuple = (node)->counter)
#else
#define HAVE_QUICK_INSTR_CLOCK_COMPAT 0
#define InstrSetFirstTuple_compat(node) ((node)->firsttuple = INSTR_TIME_GET_DOUBLE((node)->counter))
#if PG_VERSION_NUM >= 160000
#define InstrAddCounter_compat(node, ns) ((node)->counter.ticks += (ns))
#else
static inline void
InstrAddCounter_compat(Instrumentation *node, int64 ns)
{
	ns += node->counter.tv_nsec;
	if (unlikely(ns >= INT64CONST(1000000000)))
	{
		node->counter.tv_sec += ns / INT64CONST(1000000000);
		ns %= INT64CONST(1000000000);
	}
	node->counter.tv_nsec = ns;
}
#endif
#endif

/*
 * A sum of differences of struct timespec (the times in BufferUsage up to 15)
 * has nanoseconds out of their range.
 */
#if PG_VERSION_NUM >= 160000
#define BufferUsageNormalize_compat(usage) ((void) (usage))
#else
static inline void
BufferUsageNormalize_compat(BufferUsage *usage)
{
	instr_time *times[] = {&usage->blk_read_time, &usage->blk_write_time,
	&usage->temp_blk_read_time, &usage->temp_blk_write_time};

	for (int i = 0; i < lengthof(times); i++)
	{
		int64		ns = times[i]->tv_sec * INT64CONST(1000000000) + times[i]->tv_nsec;

		times[i]->tv_sec = ns / INT64CONST(1000000000);
		times[i]->tv_nsec = ns % INT64CONST(1000000000);
	}
}
#endif

/* EXPLAIN takes options and prints fields of extensions since 18. */
#if PG_VERSION_NUM >= 180000
#define HAVE_EXPLAIN_HOOKS_COMPAT 1
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#if PG_VERSION_NUM >= 190000
#define RegisterExplainOption_compat(name, handler) RegisterExtensionExplainOption(name, handler, GUCCheckBooleanExplainOption)
#else
#define RegisterExplainOption_compat(name, handler) RegisterExtensionExplainOption(name, handler)
#endif
#else
#define HAVE_EXPLAIN_HOOKS_COMPAT 0
#endif

/* ---- appendable_bytea: relations, indexes, table access methods --------- */

#include "access/tableam.h"
#include "catalog/index.h"
#include "utils/relcache.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#define relation_set_new_file_compat relation_set_new_filelocator
#define RelationSetNewRelfilenumber_compat(rel, persistence) RelationSetNewRelfilenumber(rel, persistence)
#define rd_newRelfileSubid_compat rd_newRelfilelocatorSubid
typedef TU_UpdateIndexes TU_UpdateIndexes_compat;
#define TU_None_compat TU_None
#else
#define relation_set_new_file_compat relation_set_new_filenode
#define RelationSetNewRelfilenumber_compat(rel, persistence) RelationSetNewRelfilenode(rel, persistence)
#define rd_newRelfileSubid_compat rd_newRelfilenodeSubid
typedef bool TU_UpdateIndexes_compat;
#define TU_None_compat false
#endif

/* Add up to n pages to a relation; their pinned buffers and how many there are.  Not defined before 16. */
#if PG_VERSION_NUM >= 160000
#include "storage/bufmgr.h"
#define EXTEND_BY_compat(rel, n, buffers) extend_by_compat(rel, n, buffers)
static inline int
extend_by_compat(Relation rel, int n, Buffer *buffers)
{
	uint32		made = 0;

	ExtendBufferedRelBy(BMR_REL(rel), MAIN_FORKNUM, NULL, 0, n, buffers, &made);
	return made;
}
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

/* ---- parallel_temp: planning and running parallel scans ------------------ */

#include "access/heapam.h"
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "storage/checksum.h"
#include "utils/resowner.h"

/* Until 17 a disabled path is a very dear one, since 18 a counted one. */
#if PG_VERSION_NUM >= 180000
#define PathSetDisabled_compat(path) ((path)->disabled_nodes++)
#else
#define PathSetDisabled_compat(path) \
	((path)->startup_cost += disable_cost, (path)->total_cost += disable_cost)
#endif

#if PG_VERSION_NUM >= 160000
#define create_subqueryscan_path_compat(root, rel, subpath, pathkeys, outer) \
	create_subqueryscan_path(root, rel, subpath, false, pathkeys, outer)
#else
#define create_subqueryscan_path_compat(root, rel, subpath, pathkeys, outer) \
	create_subqueryscan_path(root, rel, subpath, pathkeys, outer)
#endif

/*
 * The kind of slot that a custom scan returns: named in the state since 16.
 * Before, the executor insists on a virtual one, so slot, projection and filter
 * are made again in the Begin callback.
 */
#if PG_VERSION_NUM >= 160000
#define CustomScanSetSlotOps_compat(node, ops) ((node)->slotOps = (ops))
#define CustomScanRemakeSlot_compat(node, estate, ops) ((void) 0)
#else
#define CustomScanSetSlotOps_compat(node, ops) ((void) 0)
static inline void
CustomScanRemakeSlot_compat(CustomScanState *node, EState *estate, const TupleTableSlotOps *ops)
{
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	ExecInitScanTupleSlot(estate, &node->ss, RelationGetDescr(node->ss.ss_currentRelation), ops);
	ExecAssignScanProjectionInfoWithVarno(&node->ss, plan->scan.scanrelid);
	node->ss.ps.qual = ExecInitQual(plan->scan.plan.qual, (PlanState *) node);
}
#endif

/* Is this page whole, as far as header and checksum tell? */
#if PG_VERSION_NUM >= 180000
static inline bool
PageIsVerified_compat(Page page, BlockNumber block, bool warn)
{
	bool		checksum_failed;

	return PageIsVerified((PageData *) page, block, warn ? PIV_LOG_WARNING : 0, &checksum_failed);
}
#else
#define PageIsVerified_compat(page, block, warn) PageIsVerifiedExtended(page, block, (warn) ? PIV_LOG_WARNING : 0)
#endif

/* Read n neighbouring blocks of one segment file, one after another into memory. */
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
 * Does stock code that reads a heap page leave the table's files alone?  19 also
 * sets, and for that extends, the visibility map.
 */
#define StockReadsLeaveFiles_compat (PG_VERSION_NUM < 190000)

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

/* Room in the resource owner for one more pin; 17+ does it inside LocalBufferAlloc. */
#if PG_VERSION_NUM >= 170000
#define ResourceOwnerEnlargeBuffers_compat() ResourceOwnerEnlarge(CurrentResourceOwner)
#else
#include "utils/resowner_private.h"
#define ResourceOwnerEnlargeBuffers_compat() ResourceOwnerEnlargeBuffers(CurrentResourceOwner)
#endif

/* This process's own number, as it stands in the names of its temporary files. */
#if PG_VERSION_NUM >= 170000
#include "storage/proc.h"
#define MyFileOwner_compat() MyProcNumber
#else
#define MyFileOwner_compat() MyBackendId
#endif

/* Functions that print EXPLAIN's properties moved in 18. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#else
#include "commands/explain.h"
#endif

/* A table of a fixed number of entries in shared memory; 19 takes one size. */
#if PG_VERSION_NUM >= 190000
#define ShmemInitHash_compat(name, size, info, flags) ShmemInitHash(name, size, info, flags)
#else
#define ShmemInitHash_compat(name, size, info, flags) ShmemInitHash(name, size, size, info, flags)
#endif

/* ---- 19: hooks, plans and access methods took new parameters ------------- */

#include "optimizer/planner.h"
#include "utils/tuplestore.h"

#if PG_VERSION_NUM >= 190000
#define PLANNER_PARAMS_compat Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo params, ExplainState *es
#define PLANNER_ARGS_compat parse, query_string, cursor_options, params, es
#define ResultRelationsCount_compat(stmt) bms_num_members((stmt)->resultRelationRelids)
#define ResultRelationFirst_compat(stmt) bms_next_member((stmt)->resultRelationRelids, -1)
#define BM_JUST_DIRTIED_compat ((BufState_compat) 0)
typedef uint32 TableOptions_compat;
#define TABLE_UPDATE_PARAM_compat uint32 options,
#define TABLE_UPDATE_ARG_compat options,
#define table_beginscan_compat(rel, snapshot, nkeys, key) table_beginscan(rel, snapshot, nkeys, key, SO_NONE)
#else
#define PLANNER_PARAMS_compat Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo params
#define PLANNER_ARGS_compat parse, query_string, cursor_options, params
#define ResultRelationsCount_compat(stmt) list_length((stmt)->resultRelations)
#define ResultRelationFirst_compat(stmt) linitial_int((stmt)->resultRelations)
#define BM_JUST_DIRTIED_compat BM_JUST_DIRTIED
typedef int TableOptions_compat;
#define TABLE_UPDATE_PARAM_compat
#define TABLE_UPDATE_ARG_compat
#define table_beginscan_compat(rel, snapshot, nkeys, key) table_beginscan(rel, snapshot, nkeys, key)
#endif

/* ---- 19: join paths name the kind of join that may be disabled ------------ */

#include "optimizer/cost.h"
#include "optimizer/pathnode.h"

#if PG_VERSION_NUM >= 190000
#define initial_cost_nestloop_compat(root, workspace, jointype, outer, inner, extra) \
	initial_cost_nestloop(root, workspace, jointype, \
						  IsA(inner, MaterialPath) ? PGS_NESTLOOP_MATERIALIZE : PGS_NESTLOOP_PLAIN, outer, inner, extra)
#define create_material_path_compat(rel, subpath) create_material_path(rel, subpath, true)
#else
#define initial_cost_nestloop_compat(root, workspace, jointype, outer, inner, extra) \
	initial_cost_nestloop(root, workspace, jointype, outer, inner, extra)
#define create_material_path_compat(rel, subpath) create_material_path(rel, subpath)
#endif

#endif							/* PG_LEAN_COMPAT_H */

/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  The custom scan that reads a temporary table in leader and workers.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCAN_H
#define SCAN_H

#include "access/htup.h"
#include "access/htup_details.h"
#include "executor/hashjoin.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "storage/bufpage.h"

#include "buffers/buffers.h"
#include "share/share.h"

/* ---- scan_project.c ---------------------------------------------------------- */

/* A column of the table, as far as finding it in a row goes. */
typedef struct ScanColumn
{
	int			offset;			/* from the row's data in a row without nulls,
								 * or -1 if it depends on the row */
	int16		length;			/* attlen */
	uint8		align;			/* bytes */
	bool		byval;
	int			target;			/* column of the result, or -1 */
} ScanColumn;

typedef struct ScanProjection
{
	TupleTableSlot *result;
	int			needed;			/* the last column that is needed, counted
								 * from 1 */
	int			fixed;			/* how many of these are at a known place in a
								 * row without nulls */
	int			ndirect;		/* entries of direct */
	ScanColumn *direct;			/* those of them that the result has */
	ScanColumn	columns[FLEXIBLE_ARRAY_MEMBER]; /* "needed" of them */
} ScanProjection;

/*
 * How to make the scan's result rows, in the current memory context; NULL if they
 * are more than columns of the table, each at most once, or the table's whole row.
 */
extern ScanProjection *pt_scan_projection_make(ScanState *ss);

/*
 * Make the result row from a row of the table.  False if the row lacks a column
 * that was added to the table after the row: core knows its value.
 */
extern bool pt_scan_project(const ScanProjection *projection, HeapTuple tuple);

/*
 * Where a column, counted from 1, is in a row without nulls: bytes from the row's
 * data, or -1 if that depends on the row.
 */
extern int	pt_column_offset(TupleDesc desc, AttrNumber column);

/* ---- scan_probe.c ------------------------------------------------------------ */

/* The lookups that the parent of a scan does for each of its rows. */
typedef struct ScanProbe
{
	HashJoinState *join;
	FmgrInfo	hash;			/* hash function of the key */
	Oid			collation;
	AttrNumber	column;			/* the key, a column of the table */
	int			offset;			/* where it is in a row without nulls */
	int16		length;
} ScanProbe;

/*
 * The hash values that the hash join will look up for rows of this scan, its outer side, in the
 * current memory context.  NULL if its key is not one column by value at a known
 * place of the row, or if rows of the scan may not reach the join.
 */
extern ScanProbe *pt_scan_probe_make(HashJoinState *join, ScanState *ss);

/*
 * The scan is about to return these tuples of a page one after another: if the
 * hash table is too large for the CPU's caches, begin to fetch the entries that the join
 * will read.  Returns for how many of them.
 */
extern int	pt_scan_probe_prefetch(ScanProbe *probe, Page page, const OffsetNumber *tuples, int ntuples);

/* How a worker reads a page of the pool: parallel_temp.debug_pool_read. */
typedef enum PoolReadMethod
{
	POOL_READ_COPY,				/* read it into private memory */
	POOL_READ_MAP				/* read it in a mapping of the pool */
}			PoolReadMethod;

/* Most pages that are read at once. */
#define MAX_SCAN_BATCH	128

/* Members of a temp scan's custom_private, in this order. */
typedef struct TempScanPrivate
{
	bool		partial;		/* processes divide the table among them */
	bool		unknown_function;	/* the query calls functions of unknown
									 * doings in the leader */
	bool		flush;			/* planned to flush, not to share */
} TempScanPrivate;

/* How the processes of a partial scan divide the table, in shared memory. */
typedef struct TempScanShared
{
	pg_atomic_uint64 next;		/* first block that no process has taken */
} TempScanShared;

typedef struct TempScanState
{
	CustomScanState css;
	TempScanPrivate plan;
	ScanProjection *projection; /* NULL if core's is needed */
	ScanProbe  *probe;			/* what a hash join above looks up, or NULL */
	TempScanShared *shared;		/* NULL unless partial and with workers */
	bool		started;
	bool		finished;		/* nothing more until the next rescan */

	/* Where pages come from; valid while started. */
	SharedRel  *rel;			/* NULL: the leader's own buffers as usual */
	int32	   *pages;			/* block -> pinned buffer of the leader */
	uint8	   *notes;			/* block -> PageNote, for the leader */
	bool		in_worker;
	int			pool_fd;
	char	   *pool_map;

	/* Position. */
	BlockNumber nblocks;
	BlockNumber next;			/* next block of the chunk */
	BlockNumber chunk_end;
	BlockNumber chunk;			/* blocks taken at once */

	/* The pages at hand. */
	char	   *memory;			/* private memory for a batch, or NULL */
	int			memory_pages;
	char	   *batch;			/* the batch: in that memory, or in the pool */
	BlockNumber batch_start;
	BlockNumber batch_end;
	bool		batch_from_file;
	Buffer		buffer;			/* pinned by ReadBuffer, or InvalidBuffer */
	Page		page;
	int			nvisible;
	int			current;
	OffsetNumber visible[MaxHeapTuplesPerPage];
	HeapTupleData tuple;
	VisibilityMemo memo;
	int			crowded;		/* a page with less free space than this is
								 * pruned */

	/* For EXPLAIN, filled when the query has run. */
	bool		reported;
	const char *method;
	int64		shared_pages;
	int64		pool_reads;
	int64		file_reads;
	int64		flushed;
	int64		prefetches;
} TempScanState;

/* ---- scan.c -------------------------------------------------------------- */

extern void pt_scan_install(void);
extern bool pt_is_temp_scan(Plan *plan);
extern bool pt_scan_has_unknown_function(CustomScan *plan);
extern const CustomScanMethods *pt_scan_methods(void);
extern List *pt_scan_private(const TempScanPrivate *members);

/*
 * A query with temp scans is about to run, in the leader or in a worker: see for
 * which nodes above them they can do something.
 */
extern void pt_scan_prepare(QueryDesc *queryDesc);

/*
 * The query has run: note for EXPLAIN what its temp scans read, and forget the
 * shared area, which goes away.
 */
extern bool pt_scan_finish(PlanState *planstate, void *share_of_query);

/* ---- temp_plan.c ---------------------------------------------------------- */

/* Describe the temporary tables of a finished plan. */
extern void pt_temp_plan_collect(PlannedStmt *stmt, TempPlan *result);

/* May the value of one of these columns be stored out of line? */
extern bool pt_has_toastable_column(Relation rel, Bitmapset *attrs);

/* The highest plan_node_id, subplans included. */
extern int	pt_highest_node_id(PlannedStmt *stmt);

/* ---- scan_read.c ---------------------------------------------------------- */

/* A page of the table, good until the next call.  Sets the "page at hand". */
extern Page pt_scan_read_page(TempScanState *scan, BlockNumber block);

/* Read the page at hand again: it makes no sense.  An ERROR if that is no help. */
extern Page pt_scan_read_page_again(TempScanState *scan, BlockNumber block, int attempt);

/* Let go of the page at hand. */
extern void pt_scan_release(TempScanState *scan);

/* ---- scan_hint_bits.c ---------------------------------------------------------- */

/* Record the hint bits of the current page for its next reader. */
extern void pt_scan_note_hint_bits(TempScanState *scan, BlockNumber block, uint8 note);

/* No worker is left: do what the scans of a query have noted. */
extern void pt_scan_set_hint_bits(SharedArea *area, Snapshot snapshot);

/* ---- scan_run.c ----------------------------------------------------------- */

/*
 * Run a plan with parallel parts, or a part of one in a worker; "next" is the function
 * that runs plans after our hook.
 */
extern void pt_run_parallel_plan(PtQuery *query, ExecutorRun_hook_type next, EXECUTORRUN_PARAMS_compat);

/* The share of the query that this executor state belongs to, or NULL. */
extern PtShare *pt_share_of(EState *estate);

extern void pt_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* SCAN_H */

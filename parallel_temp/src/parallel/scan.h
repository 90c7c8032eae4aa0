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

#include "access/htup_details.h"
#include "nodes/extensible.h"

#include "buffers/visibility.h"
#include "parallel/pool.h"
#include "parallel/scan_probe.h"
#include "parallel/scan_project.h"

/* How a worker gets at a page of the pool: parallel_temp.pool_read. */
typedef enum PoolReadMethod
{
	POOL_READ_COPY,				/* read it into private memory */
	POOL_READ_MAP				/* look at it in a mapping of the pool */
}			PoolReadMethod;

/* Most pages that are read at once. */
#define MAX_SCAN_BATCH	128

/* Members of a temp scan's custom_private, in this order. */
typedef struct TempScanPrivate
{
	bool		partial;		/* processes divide the table among them */
	bool		hazard;			/* the query calls functions of unknown doings
								 * in the leader */
	double		start_cost;		/* part of the startup cost */
	bool		flush;			/* planned to flush, not to share */
} TempScanPrivate;

/* How the processes of a partial scan divide the table, in shared memory. */
typedef struct TempScanShared
{
	pg_atomic_uint64 next;		/* first block that nobody has taken */
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
	int			crowded;		/* a page with less room than this is pruned */

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

extern void scan_install(void);
extern bool is_temp_scan(Plan *plan);
extern bool temp_scan_hazard(CustomScan *plan);
extern const CustomScanMethods *temp_scan_methods(void);
extern List *temp_scan_private(const TempScanPrivate *members);

/*
 * A query with temp scans is about to run, in the leader or in a worker: see for
 * which nodes above them they can do something.
 */
extern void temp_scan_prepare(QueryDesc *queryDesc);

/*
 * The query has run: note for EXPLAIN what its temp scans read, and forget the
 * shared area, which goes away.
 */
extern void temp_scan_finish(PlanState *planstate, Share *share);

/* ---- scan_read.c ---------------------------------------------------------- */

/* A page of the table, good until the next call.  Sets the "page at hand". */
extern Page temp_scan_page(TempScanState *scan, BlockNumber block);

/* Read the page at hand again: it makes no sense.  An ERROR if that is no help. */
extern Page temp_scan_page_again(TempScanState *scan, BlockNumber block, int attempt);

/* Let go of the page at hand. */
extern void temp_scan_release(TempScanState *scan);

/* ---- scan_tidy.c ---------------------------------------------------------- */

/* The page at hand is read and has this to say to whoever reads it next. */
extern void scan_tidy_page(TempScanState *scan, BlockNumber block, uint8 note);

/* No worker is left: do what the scans of a query have noted. */
extern void scan_tidy_after(SharedArea *area, Snapshot snapshot);

/* ---- scan_explain.c ------------------------------------------------------- */

extern void temp_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* SCAN_H */

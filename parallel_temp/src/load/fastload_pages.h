/*-------------------------------------------------------------------------
 *
 * fastload_pages.h
 *	  Pages of a table that parallel workers fill and their leader takes.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTLOAD_PAGES_H
#define FASTLOAD_PAGES_H

#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "port/atomics.h"
#include "storage/proc.h"

#include "load/fastload.h"

/* Pages that a worker may be ahead of the leader: 256 kB. */
#define RING_PAGES (256 * 1024 / BLCKSZ)

/*
 * One worker's pages on their way to the leader.  Page n is at place n % RING_PAGES.
 * Each half is written by one process alone, and has its own lines of memory.
 */
typedef struct PageRing
{
	/* the worker's */
	PGPROC	   *worker;			/* set before the first page */
	pg_atomic_uint64 filled;	/* pages handed over */
	pg_atomic_uint64 unfinished;	/* number of the one that is not full, if
									 * any: the last */
	pg_atomic_uint64 rows;		/* rows that go through the server's queue */
	char		pad1[PG_CACHE_LINE_SIZE];

	/* the leader's */
	pg_atomic_uint64 taken;		/* pages that are done with */
	char		pad2[PG_CACHE_LINE_SIZE];
} PageRing;

/* What leader and workers share of one Gather. */
typedef struct FillShared
{
	bool		active;			/* workers fill pages; else rows pass by */
	PGPROC	   *leader;
	TransactionId xid;			/* of the rows */
	CommandId	cid;
	Size		save_space;		/* see FastLoad */
	pg_atomic_uint32 closed;	/* the leader takes no more */
	uint64		rings;			/* offsets from here */
	uint64		pages;
	int			not_nulls;		/* columns that must not be null */
	AttrNumber	not_null[FLEXIBLE_ARRAY_MEMBER];
} FillShared;

/*
 * The node "Temp Load" below a Gather whose rows go into a temporary table.
 */
typedef struct PageFiller
{
	CustomScanState css;
	FillShared *shared;			/* NULL before there are workers, and after */

	/* the leader's */
	PtQuery    *query;			/* whose rows these are; NULL: not prepared */
	FastFill   *fill;			/* NULL: workers do not fill pages */
	GatherState *gather;
	ExecProcNodeMtd gather_real;	/* the server's function of that node */
	const char *why_not;		/* reason for the former */
	bool		starting;		/* the Gather is starting workers */
	bool		running;		/* it has */
	int			nrings;
	uint64		rows;			/* that came through the server's queues */
	int			apart;			/* ring whose next page is taken apart, or -1 */
	OffsetNumber apart_row;		/* the last row taken */
	HeapTupleData apart_tuple;
	TupleTableSlot *apart_slot;
	uint64	   *pages;			/* taken whole from each ring */

	/* a worker's */
	PageRing   *ring;
	char	   *ring_pages;
	uint64		filled;			/* pages handed over */
	bool		finished;
	FastLoad	load;			/* the page being filled; nothing else of a
								 * load */
} PageFiller;

static inline PageRing *
page_ring(FillShared *shared, int number)
{
	return (PageRing *) ((char *) shared + shared->rings) + number;
}

static inline char *
page_ring_pages(FillShared *shared, int number)
{
	return (char *) shared + shared->pages + (Size) number * RING_PAGES * BLCKSZ;
}

/* fastload_filler.c */
extern const CustomScanMethods *filler_methods(void);
extern PageFiller *filler_of(PlanState *planstate);
extern void filler_install(void);

/* fastload_gather.c */
extern const char *fastload_pages_unfit(Relation rel);
extern void fastload_pages_prepare(PtQuery *query);
extern void filler_activate(PageFiller *filler);

#endif							/* FASTLOAD_PAGES_H */

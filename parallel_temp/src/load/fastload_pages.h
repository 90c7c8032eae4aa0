/*-------------------------------------------------------------------------
 *
 * fastload_pages.h
 *	  Pages of a table that parallel workers fill, and that their leader takes or that
 *	  they write.
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

/* A worker that may write its pages does so when so many wait. */
#define APPEND_PAGES (RING_PAGES / 2)

/* The leader is woken each time that so many more pages wait for him, */
#define WAKE_PAGES (RING_PAGES / 4)

/* ... and after so many times that a worker has written pages, to count them. */
#define WAKE_APPENDS 16

/*
 * One worker's pages on their way to the leader or to the file.  Page n is at place
 * n % RING_PAGES.  Each half is written by one process alone, and has its own lines of
 * memory.  Pages that wait are the worker's while the file's end is open to it
 * (FastLoadEnd) and it has not ended; else they are the leader's.
 */
typedef struct PageRing
{
	/* the worker's */
	PGPROC	   *worker;			/* set before the first page */
	pg_atomic_uint64 filled;	/* pages handed over */
	pg_atomic_uint64 unfinished;	/* number of the one that is not full, if
									 * any: the last */
	pg_atomic_uint64 rows;		/* rows that go through the server's queue */
	pg_atomic_uint64 written;	/* pages before this one are done with: it has
								 * written them, or the leader has taken them */
	pg_atomic_uint64 appended_pages;	/* that it has written */
	pg_atomic_uint64 appended_rows; /* on these */
	pg_atomic_uint32 ended;		/* no page follows but the unfinished one, and
								 * it writes none */
	char		pad1[PG_CACHE_LINE_SIZE];

	/* the leader's */
	pg_atomic_uint64 taken;		/* the same as "written", of pages that the
								 * leader has taken */
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
	RelFileLocator_compat locator;	/* of the table */
	NameData	relname;
	FastLoadEnd end;
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
	uint64	   *pages;			/* taken whole from each ring, or written by
								 * its worker; */
	uint64	   *counted_pages;	/* the latter, and the rows on them */
	uint64	   *counted_rows;

	/* a worker's */
	PageRing   *ring;
	char	   *ring_pages;
	uint64		filled;			/* pages handed over */
	uint64		appends;
	RelFile		file;
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

static inline Page
ring_page(FillShared *shared, int number, uint64 page)
{
	return (Page) (page_ring_pages(shared, number) + (Size) (page % RING_PAGES) * BLCKSZ);
}

/* The first page that is not done with. */
static inline uint64
ring_first(PageRing *ring)
{
	uint64		taken = pg_atomic_read_u64(&ring->taken);
	uint64		written = pg_atomic_read_u64(&ring->written);

	return Max(taken, written);
}

/* Pages that workers of this session have filled, and of these the ones that they wrote. */
typedef struct FilledPages
{
	int64		filled;
	int64		written;
} FilledPages;

extern FilledPages fastload_filled_pages;

/*
 * Is there a null where the table has none?  The error is raised by who puts rows away
 * one by one.
 */
static inline bool
breaks_not_null(const FillShared *shared, TupleTableSlot *slot)
{
	for (int i = 0; i < shared->not_nulls; i++)
	{
		if (slot_attisnull(slot, shared->not_null[i]))
			return true;
	}
	return false;
}

/*
 * In the leader the node gives this where it has no row and is not at its end.
 */
static inline TupleTableSlot *
filler_no_row(PageFiller *filler)
{
	return ExecStoreAllNullTuple(filler->css.ss.ss_ScanTupleSlot);
}

static inline bool
filler_is_no_row(const PageFiller *filler, const TupleTableSlot *slot)
{
	return slot == filler->css.ss.ss_ScanTupleSlot;
}

/* fastload_filler.c */
extern const CustomScanMethods *filler_methods(void);
extern PageFiller *filler_of(PlanState *planstate);
extern void filler_install(void);

/* fastload_gather.c */
extern const char *fastload_pages_unfit(Relation rel);
extern void fastload_pages_prepare(PtQuery *query);
extern void filler_activate(PageFiller *filler);
extern TupleTableSlot *filler_exec_leader(PageFiller *filler);

#endif							/* FASTLOAD_PAGES_H */

/*-------------------------------------------------------------------------
 *
 * fastload.h
 *	  Loading a temporary table past the per-row path of the server.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTLOAD_H
#define FASTLOAD_H

#include "executor/execdesc.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/parsenodes.h"
#include "port/atomics.h"
#include "storage/bufpage.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/resowner.h"

#include "buffers/buffers.h"
#include "compat_executor.h"
#include "parallel_temp.h"
#include "query.h"

/* Beginning a load costs about as much as putting this many rows. */
#define FEW_ROWS 50

/* Where a load's pages go; the states follow each other. */
typedef enum FastLoadState
{
	LOAD_TO_BUFFERS,			/* filled in local buffers */
	LOAD_TO_FILE,				/* filled in a batch that goes to the file */
	LOAD_HANDED_BACK,			/* the buffer manager finds all rows: further
								 * ones go heap's way */
	LOAD_ENDED					/* the statement has no more */
} FastLoadState;

/*
 * The end of a table's file while parallel workers also append pages to it; in
 * shared memory.  The lock holder may write there, and the lock protects all fields.
 */
typedef struct FastLoadEnd
{
	LWLock		lock;
	pg_atomic_uint32 open;		/* workers may append (a hint without the
								 * lock) */
	bool		failed;			/* a write did: some pages may be behind the
								 * end */
	bool		frozen;			/* rows are stored frozen */
	BlockNumber length;			/* of the file, in blocks */
	uint64		rows;			/* appended by workers; the load has not
								 * counted them */
} FastLoadEnd;

/*
 * A plan that has started while a load was running, and has not ended: if it is there
 * still when the load ends, it is a cursor's, whose snapshot may be older than the rows.
 */
typedef struct OpenPlan
{
	QueryDesc  *queryDesc;
	int			nest_level;		/* of the transaction that started it */
} OpenPlan;

/*
 * The bulk writer's state for one load, in the per-query memory context.
 */
typedef struct FastLoad
{
	FastLoadState state;
	Relation	rel;			/* target, opened by the caller */
	Oid			relid;
	TransactionId xid;			/* xmin of the rows */
	CommandId	cid;			/* their cmin */
	bool		frozen;			/* rows are stored frozen */
	bool		lazy_file;		/* no space is reserved for pages in buffers */
	Size		save_space;		/* free space that fillfactor asks for */
	ResourceOwner owner;		/* holds the pin on the page being filled */
	MemoryContext context;
	void		(*next_page) (struct FastLoad *load);	/* leaves the page being
														 * filled and begins
														 * another */

	/* the page being filled: NULL before the first and after the last */
	Page		page;
	BlockNumber block;
	Buffer		buffer;			/* its local buffer, or Invalid: private
								 * memory */
	bool		used_hole;		/* its free space is not all zeroes */

	/* the file, in blocks: what pages use, and how long it is */
	BlockNumber old_length;		/* before the load */
	BlockNumber first_block;	/* first block that this load may have changed */
	BlockNumber next_block;
	BlockNumber file_length;
	BlockNumber step;			/* how much to extend by next time */

	/* pages on their way to the file */
	char	   *batch;
	int			batch_pages;
	uint64		unchecked;		/* written, or tried, since a RAM tablespace's
								 * limit was looked at */
	bool		batch_failed;	/* some of them may be there already */
	FastLoadEnd *end;			/* NULL: no other process appends */

	bool		scanned;		/* the same statement scans the table, too */
	List	   *open_plans;		/* of OpenPlan: started inside it, while rows
								 * are frozen */
	int64		blocks_read;	/* the session's count when the load began */
	uint64		tuples;
	uint64		pool_pages;		/* new pages filled in local buffers */
	uint64		file_pages;		/* new pages written straight to the file */
	uint64		taken_pages;	/* of both, those that workers have filled */
	uint64		pool_limit;		/* go to the file after this many */
} FastLoad;

/*
 * A statement that fills a temporary table.  It belongs to the statement's record
 * (query.h) from pt_load_fill_begin() to the end of its ExecutorRun, however that ends.
 *
 * Its rows go heap's way at first; then a load begins (load is set), or never.  A
 * load continues until it is handed back (FastLoadState).
 */
typedef struct FastFill
{
	Relation	rel;			/* held open by the statement */
	Oid			relid;
	struct ModifyTableState *state; /* an INSERT; NULL: CREATE TABLE AS */
	const char *row_by_row;		/* why the executor has to see each row of an
								 * INSERT, or NULL */
	bool		may_freeze;		/* rows may be frozen, as far as the table is
								 * concerned */
	bool		freezing_settled;	/* and the snapshots, before workers start */
	bool		in_buffers;		/* rows are read before the end */
	bool		scanned;		/* the same statement scans the table, too */
	MemoryContext context;
	BlockNumber first_new_block;	/* a row here or beyond is on a new page */
	uint64		rows;			/* rows put by heap */
	FastLoad   *load;			/* NULL: not begun */
} FastFill;

/* The statement that EXPLAIN shows, and what it shows besides the plan. */
typedef struct PtExplained
{
	const Query *query;
	const char *text;			/* that the query is part of */
	struct ExplainState *state;
	QueryDesc  *queryDesc;		/* NULL until it starts */
	MemoryContext context;		/* of the following */
	List	   *statistics;		/* relids of tables whose gathered statistics
								 * its planning used */
	const char *serial_source;	/* why the rows that it inserts are computed
								 * without workers, or NULL */
	bool		load_ended;		/* the following is known: */
	const FastLoad *load;		/* NULL: none */
	const char *why_not;		/* NULL when the load was fast to its end */
} PtExplained;

/* Is this an insertion, or a statement whose rows go into a new table, that we look at? */
static inline bool
pt_load_may_fill(const QueryDesc *queryDesc)
{
	return (queryDesc->operation == CMD_INSERT ||
			(queryDesc->dest != NULL && queryDesc->dest->mydest == DestIntoRel)) &&
		(pt_fast_load || pt_running.explained != NULL);
}

/* Do rows of the statement go to the bulk writer? */
static inline bool
pt_load_is_loading(const FastFill *fill)
{
	return fill->load != NULL && fill->load->state < LOAD_HANDED_BACK;
}

/* Do pages go straight to the file, whose end is known for sure? */
static inline bool
pt_load_is_at_file(const FastLoad *load)
{
	return load->state == LOAD_TO_FILE && !load->batch_failed;
}

/* Is the page being filled in the batch? */
static inline bool
pt_load_page_in_batch(const FastLoad *load)
{
	return load->page != NULL && !BufferIsValid(load->buffer);
}

/*
 * Does anything except the statement have its target open?  That is a cursor, or a
 * query that calls the function with the statement: a scan that may continue at any
 * time, sees the rows that its snapshot allows, and expects blocks to stay.  Rows of
 * such a statement go heap's way.  (A plan that starts while a load is running
 * passes ExecutorStart, which ends the load.)  Not for a statement that scans its
 * target itself: its scans also count.
 */
static inline bool
pt_load_held_open(const FastFill *fill)
{
	return !fill->scanned && fill->rel->rd_refcnt > 1;
}

/* fastload_write.c */
extern PGDLLEXPORT FastLoad *pt_load_begin(Relation rel, CommandId cid, bool frozen, MemoryContext context);
extern void pt_load_continue_at_end(FastLoad *load);
extern void pt_load_stay_in_buffers(FastLoad *load);
extern void pt_load_keep_length(FastLoad *load);
extern void pt_load_take_page(FastLoad *load, Page filled);
extern void pt_load_count_written(FastLoad *load, uint64 pages);
extern void pt_load_hand_back(FastLoad *load, bool thaw);
extern PGDLLEXPORT void pt_load_end(FastLoad *load);
extern void pt_load_abandon(FastLoad *load);

/* fastload_file_end.c */
extern void pt_load_set_block(Page page, BlockNumber block, bool frozen);
extern void pt_load_open_file_end(FastLoad *load, FastLoadEnd *end);
extern void pt_load_follow_file_end(FastLoad *load);
extern void pt_load_close_file_end(FastLoad *load);
extern void pt_file_end_init(FastLoadEnd *end);
extern bool pt_file_end_lock(FastLoadEnd *end);
extern void pt_file_end_unlock(FastLoadEnd *end);
extern void pt_file_end_failed(FastLoadEnd *end);
extern int	pt_file_end_append(FastLoadEnd *end, RelFile *file, RelFileLocator_compat locator, Page *pages, int n, uint64 *rows);

/* fastload_rows.c */
extern void pt_load_add(FastLoad *load, TupleTableSlot *slot);
extern void pt_load_add_materialized(FastLoad *load, TupleTableSlot *slot);
extern bool pt_load_add_untoasted(FastLoad *load, TupleTableSlot *slot);

/* fastload.c */
extern void pt_load_run_begin(PtQuery *query);
extern void pt_load_run_end(PtQuery *query);
extern void pt_load_run_leave(PtQuery *query);
extern void pt_load_before_plan(PlannedStmt *plan);
extern void pt_load_plan_starts(QueryDesc *queryDesc);
extern void pt_load_open_plans_end(QueryDesc *queryDesc, int nest_level, bool aborted);
extern void pt_load_before_utility(Node *statement);
extern const char *pt_load_unfit(Relation rel);
extern FastFill *pt_load_fill_begin(PtQuery *query, Relation rel, MemoryContext context);
extern bool pt_load_fill_freezes(const FastFill *fill);
extern void pt_load_fill_load(FastFill *fill, CommandId cid, bool freeze);
extern void pt_load_fill_consider(FastFill *fill, ItemPointer tid, CommandId cid);
extern const char *pt_load_fill_why_not(const FastFill *fill);

/* fastload_explain.c */
extern void pt_load_explain_install(void);
extern void pt_explain_serial_source(const Query *insert, const char *reason);
extern void pt_explain_statistics(Oid relid);
extern void pt_load_remember(const FastLoad *load, const char *why_not);
extern void pt_load_explain_start(QueryDesc *queryDesc, int eflags);
extern void pt_load_print(QueryDesc *queryDesc);

/* fastload_ctas.c */
extern DestReceiver *pt_load_ctas_receiver(PtQuery *query, bool may_freeze);
extern void pt_load_ctas_saw_relation(Oid relid);

/* fastload_insert.c */
extern const char *pt_load_insert_prepare(PtQuery *query);

/* How many entries of a range table are this table? */
extern int	pt_load_count_entries(List *rtable, Oid relid);

/* ---- insert_target.c ------------------------------------------------------ */

/*
 * Why this expression, or the query (of which the planner leaves to the leader what only
 * that can do), must not run while the leader stores rows of its workers; NULL if it may.
 */
extern const char *pt_leader_refusal(Node *node, bool query);

/* Why the leader must not insert into this table while it has workers; NULL if it may. */
extern const char *pt_insert_target_refusal(Relation rel);

/* ---- pages that parallel workers fill ---------------------------------------- */

/* Pages that a worker may be ahead of the leader: 256 kB. */
#define RING_PAGES (256 * 1024 / BLCKSZ)

/* A worker that may write its pages does so when this many wait. */
#define APPEND_PAGES (RING_PAGES / 2)

/* The leader is woken each time that this many more pages wait for it, */
#define WAKE_PAGES (RING_PAGES / 4)

/* ... and each time that a worker has written pages this many times, to count them. */
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

/* Shared memory of the leader and the workers of one Gather. */
typedef struct FillShared
{
	uint32		build;			/* see parallel_temp.h */
	bool		active;			/* workers fill pages; else rows are returned */
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
	int			split;			/* ring whose next page is split into rows, or
								 * -1 */
	OffsetNumber split_row;		/* the last row taken */
	HeapTupleData split_tuple;
	TupleTableSlot *split_slot;
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
pt_page_ring(FillShared *shared, int number)
{
	return (PageRing *) ((char *) shared + shared->rings) + number;
}

static inline char *
pt_page_ring_pages(FillShared *shared, int number)
{
	return (char *) shared + shared->pages + (Size) number * RING_PAGES * BLCKSZ;
}

static inline Page
pt_ring_page(FillShared *shared, int number, uint64 page)
{
	return (Page) (pt_page_ring_pages(shared, number) + (Size) (page % RING_PAGES) * BLCKSZ);
}

/* The first page that is not done with. */
static inline uint64
pt_ring_first(PageRing *ring)
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

extern FilledPages pt_filled_pages;

/*
 * Is there a null where the table has none?  The error is raised by the code that
 * stores single rows.
 */
static inline bool
pt_breaks_not_null(const FillShared *shared, TupleTableSlot *slot)
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
pt_filler_no_row(PageFiller *filler)
{
	return ExecStoreAllNullTuple(filler->css.ss.ss_ScanTupleSlot);
}

static inline bool
pt_filler_is_no_row(const PageFiller *filler, const TupleTableSlot *slot)
{
	return slot == filler->css.ss.ss_ScanTupleSlot;
}

/* fastload_worker.c */
extern const CustomScanMethods *pt_filler_methods(void);
extern PageFiller *pt_filler_of(PlanState *planstate);
extern void pt_filler_install(void);

/* fastload_leader.c */
extern const char *pt_load_pages_unfit(Relation rel);
extern void pt_load_pages_prepare(PtQuery *query);
extern void pt_filler_activate(PageFiller *filler);
extern TupleTableSlot *pt_filler_exec_leader(PageFiller *filler);

#endif							/* FASTLOAD_H */

/*-------------------------------------------------------------------------
 *
 * fastload.h
 *	  Loading a temporary table past the per-row path of the server.
 *
 * fastload.c       when a load starts, and who must see its rows early
 * fastload_ctas.c  CREATE TABLE AS and SELECT INTO
 * fastload_insert.c  INSERT ... SELECT
 * fastload_am.c    COPY, and INSERT ... SELECT whose rows the server makes ready
 * fastload_write.c the bulk writer that all use: pages, their file, the end
 * fastload_rows.c  rows onto a page
 * fastload_filler.c  pages filled by parallel workers: their part of it
 * fastload_gather.c  ... and the leader's, who takes the pages, or lets them be written
 * fastload_explain.c  what EXPLAIN says
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTLOAD_H
#define FASTLOAD_H

#include "executor/execdesc.h"
#include "executor/tuptable.h"
#include "nodes/parsenodes.h"
#include "port/atomics.h"
#include "storage/bufpage.h"
#include "storage/lwlock.h"
#include "tcop/utility.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "buffers/relfile.h"
#include "compat_executor.h"
#include "parallel_temp.h"
#include "query.h"

/* Beginning a load costs about as much as putting this many rows. */
#define FEW_ROWS 50

/* What becomes of a load's pages; one state follows the other. */
typedef enum FastLoadState
{
	LOAD_TO_BUFFERS,			/* filled in local buffers */
	LOAD_TO_FILE,				/* filled in a batch that goes to the file */
	LOAD_HANDED_BACK,			/* the buffer manager finds all rows: further
								 * ones go heap's way */
	LOAD_ENDED					/* the statement has no more */
} FastLoadState;

/*
 * The end of a table's file while parallel workers append pages, too: in memory that
 * they share.  Who has the lock may write there, and all of this is his.
 */
typedef struct FastLoadEnd
{
	LWLock		lock;
	pg_atomic_uint32 open;		/* workers may append (a hint for who has not
								 * the lock) */
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
	bool		lazy_file;		/* no room is reserved for pages in buffers */
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
	FastLoadEnd *end;			/* NULL: nobody else appends */

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
 * (query.h) from fastload_fill_begin() to the end of its ExecutorRun or COPY, however
 * that ends.
 *
 * Its rows go heap's way at first; then a load begins (load is set), or never.  A
 * load goes on until it is handed back (FastLoadState).  Where the rows come from
 * the server's own code, the relation shows a routine of ours for as long as that
 * lasts (overrides).
 */
typedef struct FastFill
{
	Relation	rel;			/* held open by the statement */
	Oid			relid;
	struct ModifyTableState *state; /* whose rows we fetch and put ourselves;
									 * or NULL */
	bool		overrides;		/* the relation shows our routine */
	bool		rebuilt;		/* its relcache entry may have been made again
								 * behind our back */
	int			nest_level;		/* of the transaction that began it */
	const char *row_by_row;		/* why the server's own code makes the rows of
								 * an INSERT ready; NULL if we do, or a COPY */
	const char *given_up;		/* why heap got its routine back before the
								 * statement's end, or NULL */
	bool		(*may_freeze) (void);	/* asked when the load begins, or
										 * before workers start; NULL: no */
	bool		in_buffers;		/* rows are looked at before the end */
	bool		scanned;		/* the same statement scans the table, too */
	int			own_references; /* how often the statement has it open, unless
								 * it scans it */
	MemoryContext context;
	BlockNumber first_new_block;	/* a row here or beyond is on a new page */
	uint64		rows;			/* rows put by heap */
	FastLoad   *load;			/* NULL: not begun */
} FastFill;

/* What EXPLAIN says of the statement being explained. */
typedef struct FastLoadNote
{
	QueryDesc  *queryDesc;		/* the statement that EXPLAIN runs, once it
								 * has started */
	bool		set;
	bool		frozen;
	uint64		tuples;
	uint64		pool_pages;
	uint64		file_pages;
	uint64		taken_pages;
	const char *row_by_row;		/* why the server made the rows ready, or NULL */
	const char *why_not;		/* NULL when the load was fast to its end */
} FastLoadNote;

/* Is this an insertion, or a statement whose rows go into a new table, that we look at? */
static inline bool
fastload_may_fill(const QueryDesc *queryDesc)
{
	return (queryDesc->operation == CMD_INSERT ||
			(queryDesc->dest != NULL && queryDesc->dest->mydest == DestIntoRel)) &&
		(pt_fast_load || pt_running.explained != NULL);
}

static inline bool
fastload_may_copy(Node *statement)
{
	return pt_fast_load && IsA(statement, CopyStmt) && ((CopyStmt *) statement)->is_from;
}

/* Do rows of the statement go to the bulk writer? */
static inline bool
fastload_is_loading(const FastFill *fill)
{
	return fill->load != NULL && fill->load->state < LOAD_HANDED_BACK;
}

/* Do pages go straight to the file, whose end is known for sure? */
static inline bool
fastload_is_at_file(const FastLoad *load)
{
	return load->state == LOAD_TO_FILE && !load->batch_failed;
}

/*
 * Does anything but the statement have its target open?  That is a cursor, or a
 * query that calls the function with the statement: a scan that may go on at any
 * time, sees the rows that its snapshot allows, and expects blocks to stay.  Rows of
 * such a statement go the server's way.  (What is opened while a load is running
 * passes ExecutorStart, which ends the load.)  Not for a statement that scans its
 * target itself: scans count, too.
 */
static inline bool
fastload_held_open(Relation rel, int own_references)
{
	return rel->rd_refcnt > own_references;
}

/* fastload_write.c */
extern PGDLLEXPORT FastLoad *fastload_begin(Relation rel, CommandId cid, bool frozen, MemoryContext context);
extern void fastload_continue_at_end(FastLoad *load);
extern void fastload_stay_in_buffers(FastLoad *load);
extern void fastload_keep_length(FastLoad *load);
extern void fastload_take_page(FastLoad *load, Page filled);
extern void fastload_count_written(FastLoad *load, uint64 pages);
extern void fastload_open_end(FastLoad *load, FastLoadEnd *end);
extern void fastload_close_end(FastLoad *load);
extern void fastload_end_init(FastLoadEnd *end);
extern bool fastload_end_lock(FastLoadEnd *end);
extern void fastload_end_unlock(FastLoadEnd *end);
extern int	fastload_end_append(FastLoadEnd *end, RelFile *file, RelFileLocator_compat locator, Page *pages, int n, uint64 *rows);
extern void fastload_hand_back(FastLoad *load, bool thaw);
extern PGDLLEXPORT void fastload_end(FastLoad *load);
extern void fastload_abandon(FastLoad *load);

/* fastload_rows.c */
extern void fastload_add(FastLoad *load, TupleTableSlot *slot);
extern bool fastload_add_untoasted(FastLoad *load, TupleTableSlot *slot);
extern void fastload_add_tuple(FastLoad *load, HeapTuple tuple);

/* fastload.c */
extern void fastload_run_begin(PtQuery *query);
extern void fastload_run_end(PtQuery *query);
extern void fastload_before_plan(PlannedStmt *plan);
extern void fastload_plan_starts(QueryDesc *queryDesc);
extern void fastload_plan_ended(QueryDesc *queryDesc);
extern void fastload_plans_end_level(int nest_level, bool aborted);
extern void fastload_before_utility(Node *statement);
extern bool fastload_may_use(PlannedStmt *plan, Relation rel);
extern const char *fastload_unfit(Relation rel);
extern bool fastload_may_freeze(void);
extern bool fastload_copy_may_freeze(void);
extern FastFill *fastload_fill_begin(PtQuery *query, Relation rel, MemoryContext context);
extern void fastload_fill_load(FastFill *fill, CommandId cid, bool freeze);
extern void fastload_fill_consider(FastFill *fill, ItemPointer tid, CommandId cid);
extern const char *fastload_fill_why_not(const FastFill *fill, bool held_open);

/* fastload_explain.c */
extern void fastload_explain_install(void);
extern void fastload_remember(const FastLoad *load, const char *row_by_row, const char *why_not);
extern void fastload_explain_start(QueryDesc *queryDesc, int eflags);
extern void fastload_print(QueryDesc *queryDesc);

/* fastload_ctas.c */
extern DestReceiver *fastload_ctas_receiver(PtQuery *query, bool may_freeze);
extern void fastload_ctas_saw_relation(Oid relid);

/* fastload_insert.c */
extern const char *fastload_insert_prepare(PtQuery *query);

/* fastload_am.c */
extern void fastload_override_begin(FastFill *fill);
extern void fastload_override_end(FastFill *fill);
extern void fastload_override_restore(FastFill *fill);
extern void fastload_override_check(FastFill *fill);
extern void fastload_copy_begin(PtQuery *query, CopyStmt *copy);
extern void fastload_copy_end(PtQuery *query);

#endif							/* FASTLOAD_H */

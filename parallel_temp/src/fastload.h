/*-------------------------------------------------------------------------
 *
 * fastload.h
 *	  Loading a temporary table past the per-row path of the server.
 *
 * fastload.c       hooks: when a load starts, and who must see its rows early
 * fastload_ctas.c  CREATE TABLE AS and SELECT INTO
 * fastload_insert.c  INSERT ... SELECT
 * fastload_write.c the bulk writer that both use
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTLOAD_H
#define FASTLOAD_H

#include "executor/execdesc.h"
#include "executor/tuptable.h"
#include "storage/bufpage.h"
#include "utils/resowner.h"

#include "pg_compat.h"

/*
 * One load in progress.  Lives in the per-query memory context and on the stack
 * of running loads from fastload_begin() to the end of its ExecutorRun.
 */
typedef struct FastLoad
{
	struct FastLoad *outer;		/* the load that was running before */
	Relation	rel;			/* target, opened by the caller */
	Oid			relid;
	TransactionId xid;			/* xmin of the rows */
	CommandId	cid;			/* their cmin */
	bool		frozen;			/* rows are stored frozen */
	Size		save_space;		/* free space that fillfactor asks for */
	ResourceOwner owner;		/* holds the pin on the page being filled */
	MemoryContext context;

	/* the page being filled: NULL before the first and after the last */
	Page		page;
	BlockNumber block;
	Buffer		buffer;			/* its local buffer, or Invalid: private
								 * memory */
	bool		used_hole;		/* its free space is not all zeroes */

	/* the file, in blocks: what pages use, and how long it is */
	BlockNumber first_block;	/* first block that this load may have changed */
	BlockNumber next_block;
	BlockNumber file_length;
	BlockNumber step;			/* how much to extend by next time */

	/* pages on their way to the file */
	char	   *batch;
	int			batch_pages;

	bool		handed_back;	/* the server's own path does the rest */
	uint64		tuples;
	uint64		pool_pages;		/* new pages filled in local buffers */
	uint64		file_pages;		/* new pages written straight to the file */
	uint64		pool_limit;		/* go to the file after this many */
} FastLoad;

/* What EXPLAIN says of the statement being explained. */
typedef struct FastLoadNote
{
	bool		set;
	bool		frozen;
	uint64		tuples;
	uint64		pool_pages;
	uint64		file_pages;
	const char *why_not;		/* NULL when the load was fast to its end */
} FastLoadNote;

/* fastload_write.c */
extern FastLoad *fastload_begin(Relation rel, CommandId cid, bool frozen, MemoryContext context);
extern void fastload_continue_at_end(FastLoad *load);
extern void fastload_stay_in_buffers(FastLoad *load);
extern void fastload_add(FastLoad *load, TupleTableSlot *slot);
extern void fastload_hand_back(FastLoad *load, bool thaw);
extern void fastload_end(FastLoad *load);
extern void fastload_abandon(FastLoad *load);

/* fastload.c */
extern void fastload_install(void);
extern int	fastload_utility_depth(void);
extern const char *fastload_unfit(Relation rel);
extern void fastload_push(FastLoad *load);
extern void fastload_remember(const FastLoad *load, const char *why_not);

/* fastload_ctas.c */
extern DestReceiver *fastload_ctas_receiver(DestReceiver *inner, bool may_freeze, MemoryContext context);
extern void fastload_ctas_saw_relation(Oid relid);

/* fastload_insert.c */
extern const char *fastload_insert_prepare(QueryDesc *queryDesc, bool may_freeze);

#endif							/* FASTLOAD_H */

/*-------------------------------------------------------------------------
 *
 * cell.h
 *	  The page of a process that other processes can read: the top of the stack of
 *	  running nodes, and what surrounds it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_CELL_H
#define LIGHT_CELL_H

#include "light_explain.h"

/* The kind of work that a process does. */
typedef enum LightActivity
{
	LIGHT_IDLE,					/* nothing that a hook is called for */
	LIGHT_PLANNER,
	LIGHT_EXECUTOR,
	LIGHT_UTILITY,
	LIGHT_COMMIT
} LightActivity;

#define LIGHT_ACTIVITIES (LIGHT_COMMIT + 1)

/* No plan node. */
#define LIGHT_NO_NODE (-1)

/* An activity of a process. */
typedef struct LightDoing
{
	uint64		query_id;
	struct LightRecord *base;	/* top of the stack when this began: a record
								 * above it is a node of this statement */
	Oid			role;
	uint32		execution;		/* of a statement, by this page; 0: of none */
	int32		activity;
} LightDoing;

/*
 * The innermost statement that may have workers.  The server gives these the identifier
 * that the process reported when it began: the outermost statement's.
 */
typedef struct LightParallel
{
	uint32		execution;
	uint64		query_id;
	uint64		reported_query_id;
}			LightParallel;

/* Activities within each other of which the sampler is told; of deeper ones, that there are some. */
#define LIGHT_DEPTH 32

/* A statement that the sampler has seen, and what it wants to know of it when it ends. */
typedef struct LightQuestion
{
	uint32		execution;		/* 0 in a free entry; written by the sampler */
	uint64		plan_id;		/* 0: not known yet; written by the process */
} LightQuestion;

#define LIGHT_QUESTIONS 16

/* Most executions that end were not asked for: one bit tells. */
#define LIGHT_ASKED(execution) (UINT64CONST(1) << ((execution) % 64))

/* The statement has ended, and its plan is not in the profile. */
#define LIGHT_NO_PLAN PG_UINT64_MAX

/* An execution that has ended: short ones do so before the sampler has asked. */
typedef struct LightEnded
{
	uint32		execution;		/* 0 while it is written */
	uint64		plan_id;
}			LightEnded;

/* The last ones are kept, each at its number modulo this. */
#define LIGHT_ENDED 32

/* Nodes that a statement may have whose records are private, to be recognized. */
#define LIGHT_CELL_NODES 1024

/*
 * The owner writes, the sampler reads (show/sampler.c); the sampler writes "asked" and the
 * executions in "questions".  "changes" is odd while the owner writes more than one word.
 */
typedef struct LightCell
{
	struct LightRecord *volatile top;	/* must be first: of the stack of
										 * running nodes */
	uint32		changes;
	int32		pid;			/* 0: no process */
	volatile bool mapped;		/* the process sees this page, so "top" and
								 * "node" are there */
	volatile bool answered;		/* a plan_id in "questions" was written; reset
								 * by the sampler */
	volatile bool commits;		/* the transaction is being committed */
	uint32		executions;		/* number of the last one */
	int32		depth;			/* activities in progress; if not less than
								 * LIGHT_DEPTH, the innermost ones are not
								 * shown */
	int32		node;			/* plan_node_id of the innermost call of a
								 * node without a record */

	/* records of the innermost statement that are not in shared memory */
	struct LightRecord *volatile records;
	volatile int32 nrecords;

	volatile uint64 asked;		/* LIGHT_ASKED() of all executions in
								 * "questions" */

	LightDoing	doing[LIGHT_DEPTH]; /* the first one is what surrounds all
									 * activities */
	LightParallel parallel;
	volatile	LightEnded ended[LIGHT_ENDED];

	/*
	 * statements outlive their process here: the next one keeps these, and
	 * "asked"
	 */
	volatile LightQuestion questions[LIGHT_QUESTIONS];

	volatile int16 node_ids[LIGHT_CELL_NODES];	/* of "records" */
} LightCell;

#define LIGHT_CELL_SIZE 4096

StaticAssertDecl(sizeof(LightCell) <= LIGHT_CELL_SIZE, "a cell fits into a page");

/* The stack's top, by its old name, is the first word of the page. */
typedef union LightStack
{
	struct LightRecord *volatile top;
	LightCell	cell;
	char		page[LIGHT_CELL_SIZE];
} LightStack;

extern LIGHT_PRIVATE LightStack light_stack;

/* The cell that other processes see: the same page, or another one if it could not be mapped. */
extern LIGHT_PRIVATE LightCell *light_cell;

/* Is there a sampler, now or after the next change of settings? */
extern LIGHT_PRIVATE bool light_sampled;

/* cell.c */
extern LIGHT_PRIVATE void light_cells_startup(void);
extern LIGHT_PRIVATE int light_cells(void);
extern LIGHT_PRIVATE LightCell *light_cell_of(int procno);
extern LIGHT_PRIVATE void light_cell_take(void);
extern LIGHT_PRIVATE int64 light_cells_unmapped(void);

#endif							/* LIGHT_CELL_H */

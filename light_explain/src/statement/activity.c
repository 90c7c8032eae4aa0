/*-------------------------------------------------------------------------
 *
 * activity.c
 *	  What this process does, written into its cell for the sampler.
 *
 * The planner, the executor and utility commands call each other to any depth.  Each
 * begins with light_activity_begin(), which writes an entry of the cell, and ends with
 * light_activity_end(), which shows the entry before again.  An error ends any number of them: there is
 * no PG_TRY, and those of a transaction or subtransaction that is aborted are ended
 * then.  Of LIGHT_DEPTH or more within each other the innermost are not shown.
 *
 * Between them a process is idle, or reads a message, parses or sends rows: the sampler
 * tells these apart by its wait event.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat_planner.h"
#include "miscadmin.h"
#include "statement/statement.h"
#include "utils/backend_status.h"

/* The part of an activity that its end restores; the sampler does not read it. */
static struct
{
	int			level;			/* of the transaction */
	int			node;			/* the cell's before it began */
	int			parallel_depth; /* if it may have workers: what these were
								 * before */
	LightParallel parallel;
}			around[LIGHT_DEPTH];

/* Of the innermost activity that may have workers; 0: there is none. */
static int	parallel_depth = 0;

static planner_hook_type prev_planner = NULL;

static pg_noinline int
begin_first(LightActivity activity, uint64 query_id, Oid role, uint32 execution)
{
	light_cell_take();
	return light_activity_begin(activity, query_id, role, execution);
}

/*
 * Something begins, for a query and by a role; "execution" is that of a statement that
 * the executor runs, else 0.  Returns the argument for light_activity_end().
 *
 * The shortest statements pay for each store: the fields are written where they are read.
 */
int			pg_attribute_hot
light_activity_begin(LightActivity activity, uint64 query_id, Oid role, uint32 execution)
{
	LightCell  *cell = light_cell;
	int			depth = cell->depth + 1;

	if (unlikely(cell->pid == 0))
		return begin_first(activity, query_id, role, execution);
	cell->changes++;
	pg_write_barrier();
	if (likely(depth < LIGHT_DEPTH))
	{
		LightDoing *doing = &cell->doing[depth];

		around[depth].level = light_chain.level;
		around[depth].node = cell->node;
		cell->node = LIGHT_NO_NODE;
		doing->query_id = query_id;
		doing->base = light_stack.top;
		doing->role = role;
		doing->execution = execution;
		doing->activity = activity;
	}
	cell->depth = depth;
	pg_write_barrier();
	cell->changes++;
	return depth;
}

/* Activities of this depth and deeper that may have workers have ended. */
static pg_noinline void
end_parallel(int begun)
{
	while (parallel_depth >= begun)
	{
		/* workers of the outermost one may still run: it may be a cursor's */
		if (begun > 1)
			light_cell->parallel = around[parallel_depth].parallel;
		parallel_depth = around[parallel_depth].parallel_depth;
	}
}

/* It has ended, and with it all that began later; "begun" is what light_activity_begin() returned. */
void		pg_attribute_hot
light_activity_end(int begun)
{
	LightCell  *cell = light_cell;

	if (unlikely(begun > cell->depth))
		return;
	Assert(begun > 0);
	cell->changes++;
	pg_write_barrier();
	if (unlikely(parallel_depth >= begun))
		end_parallel(begun);

	/* an error may have ended calls of activities that are not shown */
	cell->node = likely(begun < LIGHT_DEPTH) ? around[begun].node : LIGHT_NO_NODE;
	cell->depth = begun - 1;
	pg_write_barrier();
	cell->changes++;
}

/* The statement that has just begun may start workers. */
void
light_activity_parallel(void)
{
	LightCell  *cell = light_cell;
	int			depth = cell->depth;

	if (depth >= LIGHT_DEPTH)
		return;
	Assert(depth > 0 && parallel_depth < depth);
	around[depth].parallel = cell->parallel;
	around[depth].parallel_depth = parallel_depth;
	parallel_depth = depth;
	cell->changes++;
	pg_write_barrier();
	cell->parallel.execution = cell->doing[depth].execution;
	cell->parallel.query_id = cell->doing[depth].query_id;
	cell->parallel.reported_query_id = pgstat_get_my_query_id();
	pg_write_barrier();
	cell->changes++;
}

/*
 * The transaction is being committed, or was: a procedure may continue.  The sampler shows the query that was
 * the last one outside of others, or the one that commits.  One word needs no odd "changes"; it is
 * written first: a sampler that sees what follows, but not this word, finds that "changes" has changed.
 */
void
light_activity_commit(bool begins)
{
	light_cell->commits = begins;
	pg_write_barrier();
	light_cell->changes += 2;
}

/* All that began in transactions of a level or deeper was ended by an error. */
void
light_activity_abort(int level)
{
	int			left = light_cell->depth;

	while (left > 0 && around[Min(left, LIGHT_DEPTH - 1)].level >= level)
		left--;
	light_activity_end(left + 1);
	if (light_cell->commits)
		light_activity_commit(false);
}

/*
 * The records of the statement that runs are private: the sampler needs to know which
 * node each of them is of.
 */
void
light_activity_private(const LightBooks *books)
{
	LightCell  *cell = light_cell;
	int			n = Min(books->nrecords, LIGHT_CELL_NODES);

	cell->changes++;
	pg_write_barrier();
	cell->records = books->records;
	cell->nrecords = n;
	for (int i = 0; i < n; i++)
		cell->node_ids[i] = (int16) Min(books->records[i].node_id, PG_INT16_MAX);
	pg_write_barrier();
	cell->changes++;
}

/*
 * A statement has ended, whose plan has this identifier: answer the sampler if it has
 * seen it.
 */
void
light_activity_answer(uint32 execution, uint64 plan_id)
{
	LightCell  *cell = light_cell;

	for (int i = 0; i < LIGHT_QUESTIONS; i++)
	{
		if (cell->questions[i].execution == execution)
		{
			cell->questions[i].plan_id = plan_id;
			pg_write_barrier();
			cell->answered = true;
		}
	}
}

static PlannedStmt *
show_planner(PLANNER_PARAMS_compat)
{
	int			begun = light_activity_begin(LIGHT_PLANNER, parse->queryId, GetUserId(), 0);
	PlannedStmt *stmt = prev_planner ? prev_planner(PLANNER_ARGS_compat) : standard_planner(PLANNER_ARGS_compat);

	light_activity_end(begun);
	return stmt;
}

/* There is a sampler: show it what processes do. */
void
light_activity_init(void)
{
	light_sampled = true;
	prev_planner = planner_hook;
	planner_hook = show_planner;
}

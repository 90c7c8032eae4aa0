/*-------------------------------------------------------------------------
 *
 * activity.c
 *	  What this process does, written into its cell for the sampler.
 *
 * The planner, the executor and utility commands call each other to any depth.  Each
 * begins with light_activity_begin(), which keeps what was before, and ends with
 * light_activity_end(), which restores it.  An error ends any number of them: there is
 * no PG_TRY, and those of a transaction or subtransaction that is aborted are ended
 * then.  Of more than MAX_DEPTH within each other the innermost are not shown.
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

#define MAX_DEPTH 64

/* The activities in progress: the state that each of them interrupted. */
static struct
{
	LightDoing	doing;
	int			level;			/* of the transaction */
}			around[MAX_DEPTH];
static int	depth = 0;

/* Before the commit. */
static LightActivity before_commit;

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

	if (unlikely(cell->pid == 0))
		return begin_first(activity, query_id, role, execution);
	if (likely(depth < MAX_DEPTH))
	{
		around[depth].level = light_chain.level;
		if (depth > 0)
			around[depth].doing = cell->doing;
	}
	cell->changes++;
	pg_write_barrier();
	cell->doing.query_id = query_id;
	cell->doing.base = light_stack.top;
	cell->doing.role = role;
	cell->doing.execution = execution;
	cell->doing.node = LIGHT_NO_NODE;
	cell->doing.activity = activity;
	pg_write_barrier();
	cell->changes++;
	return depth++;
}

/*
 * It has ended, and with it all that began later.  After the outermost activity query and role
 * stay, for the commit.
 */
void		pg_attribute_hot
light_activity_end(int begun)
{
	LightCell  *cell = light_cell;

	if (unlikely(begun >= depth))
		return;
	depth = begun;
	if (unlikely(depth >= MAX_DEPTH))
		return;
	cell->changes++;
	pg_write_barrier();
	if (depth > 0)
		cell->doing = around[depth].doing;
	else
		cell->doing.activity = LIGHT_IDLE;
	pg_write_barrier();
	cell->changes++;
}

/* The statement that has just begun may start workers. */
void
light_activity_parallel(void)
{
	LightCell  *cell = light_cell;

	cell->changes++;
	pg_write_barrier();
	cell->doing.parallel_execution = cell->doing.execution;
	cell->doing.parallel_query_id = cell->doing.query_id;
	cell->doing.reported_query_id = pgstat_get_my_query_id();
	pg_write_barrier();
	cell->changes++;
}

static void
show_activity(LightActivity activity)
{
	light_cell->changes++;
	pg_write_barrier();
	light_cell->doing.activity = activity;
	pg_write_barrier();
	light_cell->changes++;
}

/* The transaction is being committed: of the query that was the last one outside of others. */
void
light_activity_commit(void)
{
	before_commit = light_cell->doing.activity;
	show_activity(LIGHT_COMMIT);
}

/* It was committed: a procedure may continue. */
void
light_activity_committed(void)
{
	if (light_cell->doing.activity == LIGHT_COMMIT)
		show_activity(before_commit);
}

/* All that began in transactions of a level or deeper was ended by an error. */
void
light_activity_abort(int level)
{
	int			left = depth;

	while (left > 0 && around[Min(left, MAX_DEPTH) - 1].level >= level)
		left--;
	light_activity_end(left);
	if (depth == 0 && light_cell->doing.activity != LIGHT_IDLE)
		show_activity(LIGHT_IDLE);
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
		if (cell->questions[i].execution == execution && execution != 0)
			cell->questions[i].plan_id = plan_id;
	}
	pg_write_barrier();
	cell->answered = true;
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

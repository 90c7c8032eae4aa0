/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  Callers of nodes: compute core's counters, which include the nodes that a
 *	  node called, from the exclusive ones.
 *
 * Usage is exclusive in the records and core's is inclusive along the *dynamic*
 * tree of calls: an InitPlan or a CTE counts where it is evaluated.  So each
 * record hangs in the list of the node that called it last.  When another node
 * calls it (light_change_caller), what its subtree used since the last change
 * is booked under the old caller and, at once, as the node's own inclusive
 * usage.
 *
 * The root of a statement's books is on the stack while its executor runs.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "measure/measure.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* ---- callers ------------------------------------------------------------ */

/*
 * The record whose list of callees contains a record that has this caller.  A record of
 * another statement is not read: it may be freed.
 */
static LightRecord *
list_owner(LightRecord *record, LightRecord *caller)
{
	LightBooks *books = record->books;

	return caller >= books->records && caller < books->records + books->nrecords ? caller : books->records;
}

/* Usage of a record and all in its lists, less what is booked elsewhere. */
static void
add_usage(LightRecord *record, LightUsage *sum)
{
	light_usage_add(sum, &record->self);
	if (record->reattributed != NULL)
		light_usage_add(sum, record->reattributed);
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		add_usage(callee, sum);
}

static LightUsage *
new_usage(LightBooks *books)
{
	return MemoryContextAllocZero(books->context, sizeof(LightUsage));
}

/* Memory for what InitPlans used that a node evaluated; the root is no node. */
static LightSelf *
init_plans_of(LightRecord *caller)
{
	if (caller->init_plans == NULL && caller != caller->books->records)
		caller->init_plans = MemoryContextAllocZero(caller->books->context, sizeof(LightSelf));
	return caller->init_plans;
}

/* A node has evaluated an InitPlan, which used this. */
static void
book_init_plan(LightRecord *caller, int64 total, const LightUsage *usage)
{
	LightSelf  *init_plans = init_plans_of(caller);

	if (init_plans != NULL)
	{
		init_plans->time += total / LIGHT_SECOND;
		light_usage_add(&init_plans->usage, usage);
	}
}

/*
 * A node is called by another one than before: close the account with the old
 * caller.  Called from the wrappers; may fail for lack of memory, with nothing
 * changed.
 */
void
light_change_caller(LightRecord *record, LightRecord *caller)
{
	LightRecord *owner = list_owner(record, caller);

	/* another extension gave a node below the same instrumentation */
	if (caller == record)
		return;
	if (record->caller != NULL)
	{
		LightRecord *old = list_owner(record, record->caller);
		LightRecord **link;
		LightUsage	usage = {0};
		int64		total = record->total;

		if (old == owner)
		{
			/* only another statement's node below our root: same list */
			record->caller = caller;
			return;
		}
		if (record->init_plan)
			(void) init_plans_of(old);
		if (record->books->usage)
		{
			add_usage(record, &usage);
			if (light_usage_any(&usage))
			{
				bool		to_root = old == record->books->records;

				if (record->reattributed == NULL)
					record->reattributed = new_usage(record->books);
				if (!to_root && old->reattributed == NULL)
					old->reattributed = new_usage(record->books);
				light_usage_add_to_core(&record->core, &usage);
				light_usage_subtract(record->reattributed, &usage);
				if (!to_root)
					light_usage_add(old->reattributed, &usage);
			}
		}
		if (record->init_plan)
			book_init_plan(old, total - record->reattributed_total, &usage);
		record->reattributed_total = total;

		for (link = &old->callees; *link != record; link = &(*link)->next_callee)
			;
		*link = record->next_callee;
	}
	record->next_callee = owner->callees;
	owner->callees = record;
	record->caller = caller;
}

/* ---- root --------------------------------------------------------------- */

/* Put the root on the stack, above "caller". */
void
light_root_enter(LightBooks *books, LightRecord *caller)
{
	LightRecord *root = &books->records[0];

	Assert(light_stack.top == caller && root->books == books);
	light_sync(caller);
	books->entry = light_seen;
	root->caller = caller;
	light_stack.top = root;
	books->entered = light_read_clock(books->clock, false);
}

/*
 * Remove it from the stack, with all records above it.  The usage of the statement
 * also belongs to the node that called it.
 */
void
light_root_leave(LightBooks *books, LightRecord *caller)
{
	light_sync(light_stack.top);
	books->records[0].total += light_read_clock(books->clock, true) - books->entered;
	light_usage_add_since(&caller->self, &books->entry, &light_seen);
	light_stack.top = caller;
}

/* ---- settle ------------------------------------------------------------- */

/* Add what the wrappers measured below a record to core's counters. */
static void
settle_record(LightRecord *record, LightUsage *sum)
{
	LightUsage	usage = record->self;

	check_stack_depth();
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		settle_record(callee, &usage);
	if (record->reattributed != NULL)
		light_usage_add(&usage, record->reattributed);
	light_usage_add(sum, &usage);
	if (record == record->books->records)
		return;
	if (record->books->usage)
		light_usage_add_to_core(&record->core, &usage);
	if (record->init_plan)
		book_init_plan(list_owner(record, record->caller), record->total - record->reattributed_total, &usage);
}

/* A statement is finished: add its wrappers' measurements to core's counters. */
void
light_settle_usage(LightBooks *books)
{
	LightUsage	all = {0};

	settle_record(&books->records[0], &all);
}

/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  Who called whom: from what each node used itself to core's figures, which
 *	  contain what a node called.
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
 * In whose list of callees a record is while it has this caller.  One that belongs to
 * another statement is not looked at: it may be gone.
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
	if (record->moved != NULL)
		light_usage_add(sum, record->moved);
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		add_usage(callee, sum);
}

static LightUsage *
new_usage(LightBooks *books)
{
	return MemoryContextAllocZero(books->context, sizeof(LightUsage));
}

/*
 * Who calls a node?  Who is on the stack's top, but for a join that called it
 * without being there.
 */
static inline LightRecord *
caller_of(const LightRecord *record, LightRecord *top)
{
	LightRecord *join = record->passed;

	return join != NULL && light_passed(join) ? join : top;
}

/*
 * A node is called by another one than before, or with another one on the stack's
 * top: close the account with the old caller.  Called from the wrappers; may fail for
 * lack of memory, with nothing changed.
 */
void
light_change_caller(LightRecord *record, LightRecord *top)
{
	LightRecord *caller = caller_of(record, top);
	LightRecord *owner;

	if (record->caller == caller)
	{
		record->under = top;
		return;
	}
	owner = list_owner(record, caller);

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
			record->under = top;
			return;
		}
		if (record->books->usage)
		{
			add_usage(record, &usage);
			if (light_usage_any(&usage))
			{
				bool		to_root = old == record->books->records;

				if (record->moved == NULL)
					record->moved = new_usage(record->books);
				if (!to_root && old->moved == NULL)
					old->moved = new_usage(record->books);
				light_usage_add_to_core(&record->core, &usage);
				light_usage_subtract(record->moved, &usage);
				if (!to_root)
					light_usage_add(old->moved, &usage);
			}
		}
		old->total_taken += total - record->total_moved;
		record->total_moved = total;

		for (link = &old->callees; *link != record; link = &(*link)->next_callee)
			;
		*link = record->next_callee;
	}
	record->next_callee = owner->callees;
	owner->callees = record;
	record->caller = caller;
	record->under = top;
}

/* ---- root --------------------------------------------------------------- */

/* Put the root on the stack, above "caller". */
void
light_root_enter(LightBooks *books, LightRecord *caller)
{
	LightRecord *root = &books->records[0];

	Assert(light.top == caller && root->books == books);
	light_sync(caller);
	books->entry = light.seen;
	root->caller = caller;
	light.top = root;
	books->entered = light_now();
	if (unlikely(books->watched))
		light_watch(books);
}

/*
 * Take it from the stack, with all that is above it.  What the statement used
 * belongs to the node that called it as well.
 */
void
light_root_leave(LightBooks *books, LightRecord *caller)
{
	light_sync(light.top);
	books->records[0].total += light_now() - books->entered;
	if (books->watched)
		light_watched(books);
	light_usage_add_since(&caller->self, &books->entry, &light.seen);
	light.top = caller;
}

/* ---- settle ------------------------------------------------------------- */

/* Add what the wrappers measured below a record to core's figures. */
static void
settle_record(LightRecord *record, LightUsage *sum)
{
	LightUsage	usage = record->self;

	check_stack_depth();
	for (LightRecord *callee = record->callees; callee != NULL; callee = callee->next_callee)
		settle_record(callee, &usage);
	if (record->moved != NULL)
		light_usage_add(&usage, record->moved);
	light_usage_add(sum, &usage);
	if (record != record->books->records)
		light_usage_add_to_core(&record->core, &usage);
}

/* A statement is finished: add what its wrappers measured to core's figures. */
void
light_settle_usage(LightBooks *books)
{
	LightUsage	all = {0};

	if (books->usage)
		settle_record(&books->records[0], &all);
}

/*-------------------------------------------------------------------------
 *
 * hooks.h
 *	  What every statement passes: depth of nesting, and what is running.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef HOOKS_H
#define HOOKS_H

#include "catalog/objectaccess.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "storage/lock.h"
#include "tcop/utility.h"

#include "compat_executor.h"

struct FastFill;

/*
 * All that the hooks of a short statement read and write, side by side: what a
 * statement loses by a library is lines of memory that are not in the cache.
 * "next_*" are the hooks that were there before, or the server's functions.
 */
typedef struct Statements
{
	struct FastFill *fills;		/* statements that fill temporary tables,
								 * innermost first */
	int			executor_depth; /* see executor_depth() */
	LocalTransactionId transaction; /* that executor_depth belongs to */
	ExecutorStart_hook_type next_start;
	ExecutorRun_hook_type next_run;
	ExecutorEnd_hook_type next_end;
	object_access_hook_type next_object_access; /* may be NULL */
	ExplainState *explained;	/* the statement that EXPLAIN is running */
	ProcessUtility_hook_type next_utility;
	int			utility_depth;
	int			explain_depth;
}			Statements;

extern Statements statements;

extern void hooks_install(void);

/* Set the executor's hooks, unless they are set: a statement that needs them will run. */
extern void hooks_watch_executor(void);

/* Run the executor, after fast load has had its look at the statement. */
extern void hooks_run(EXECUTORRUN_PARAMS_compat);

/*
 * How many runs of the executor are inside each other, as far as their start was
 * seen: those that were running when the session first used the library are not.
 */
extern int	executor_depth(void);

/*
 * How many utility statements that may run queries are running inside each other,
 * the user's own included (CREATE TABLE AS, EXPLAIN and EXECUTE do not count).
 */
extern int	utility_depth(void);

/* Is a statement being explained? */
extern bool explaining(void);

#endif							/* HOOKS_H */

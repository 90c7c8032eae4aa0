/*-------------------------------------------------------------------------
 *
 * hooks.h
 *	  The hooks on the way of every statement.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef HOOKS_H
#define HOOKS_H

extern void hooks_install(void);

/* Set the executor's hooks, unless they are set: a statement that needs them will run. */
extern void hooks_watch_executor(void);

#endif							/* HOOKS_H */

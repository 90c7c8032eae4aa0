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

/* Set the hooks that each session has, and tell query.c how to set the executor's. */
extern void hooks_install(void);

#endif							/* HOOKS_H */

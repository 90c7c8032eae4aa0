/*-------------------------------------------------------------------------
 *
 * plan_paths.h
 *	  See plan_paths.c and plan_joins.c.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_PATHS_H
#define PLAN_PATHS_H

extern void plan_paths_install(void);
extern void plan_joins_install(void);

#endif							/* PLAN_PATHS_H */

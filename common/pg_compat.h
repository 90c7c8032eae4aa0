/*-------------------------------------------------------------------------
 *
 * pg_compat.h
 *	  Every difference between PostgreSQL 15, 16, 17, 18 and 19 that this
 *	  project's C code meets, in one place.
 *
 * A wrapper carries the name of what it wraps and ends in _compat.  Nothing
 * else in the project looks at PG_VERSION_NUM.  The header is included after
 * postgres.h; each section includes what it needs.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_LEAN_COMPAT_H
#define PG_LEAN_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "pg_lean supports PostgreSQL 15 to 19"
#endif

/* ---- storage: relation file names -------------------------------------- */

#include "utils/rel.h"
#include "storage/buf_internals.h"

#if PG_VERSION_NUM >= 160000
typedef RelFileLocator RelFileLocator_compat;
#define rd_locator_compat(rel) ((rel)->rd_locator)
#else
typedef RelFileNode RelFileLocator_compat;
#define rd_locator_compat(rel) ((rel)->rd_node)
#endif

#endif							/* PG_LEAN_COMPAT_H */

/*-------------------------------------------------------------------------
 *
 * pg_compat.h
 *	  All subjects of compat_*.h at once.  New code includes those that it uses.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_LEAN_COMPAT_H
#define PG_LEAN_COMPAT_H

#include "compat_executor.h"
#include "compat_instrument.h"
#include "compat_module.h"
#include "compat_planner.h"
#include "compat_storage.h"
#include "compat_table.h"
#include "compat_types.h"

#endif							/* PG_LEAN_COMPAT_H */

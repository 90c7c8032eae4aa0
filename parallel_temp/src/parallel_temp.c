/*-------------------------------------------------------------------------
 *
 * parallel_temp.c
 *	  Entry point: settings first, then each part installs its own hooks.
 *
 * The library works preloaded (shared_ or session_preload_libraries) and loaded
 * by LOAD or by the first call of one of its functions.  A part's *_install
 * function keeps the hook that was there before and calls it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat_module.h"
#include "hooks.h"
#include "load/fastload_pages.h"
#include "parallel/plan.h"
#include "parallel/scan.h"
#include "parallel_temp.h"

PG_MODULE_MAGIC_COMPAT("parallel_temp");

void		_PG_init(void);

void
_PG_init(void)
{
	pt_define_settings();
	scan_install();
	filler_install();
	plan_install();
	fastload_explain_install();
	hooks_install();
}

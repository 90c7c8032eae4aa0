/*-------------------------------------------------------------------------
 *
 * older.c
 *	  The self-test of light_explain as if the library had been compiled for
 *	  the minor version before the server's.
 *
 * Linked with the library's other files, for tests.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat_instrument.h"
#include "executor/executor.h"
#include "light_explain.h"
#include "utils/guc.h"
#include "utils/memutils.h"

enum
{
	/* or after it, where that is none */
	COMPILED_FOR = PG_VERSION_NUM % 10000 == 0 ? PG_VERSION_NUM + 1 : PG_VERSION_NUM - 1
};

#undef PG_VERSION_NUM
#define PG_VERSION_NUM COMPILED_FOR

#include "measure/selftest.c"

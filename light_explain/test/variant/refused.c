/*-------------------------------------------------------------------------
 *
 * refused.c
 *	  The self-test of light_explain on a server that counts rows in another
 *	  way: it must find out, and the library stay off.
 *
 * Linked with the library's other files, for tests.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"

#define InstrStopNode(instr, rows) InstrStopNode(instr, (rows) + 1)

#include "measure/selftest.c"

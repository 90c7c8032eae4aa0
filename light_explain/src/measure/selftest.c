/*-------------------------------------------------------------------------
 *
 * selftest.c
 *	  Check that this server lays out and treats plan nodes as the headers
 *	  with which this library was compiled.
 *
 * light_explain puts its struct where core's instrumentation is, so a
 * server whose structs differ would be corrupted, not only measured wrongly.
 * Run once when the library is loaded: if anything is unexpected, the
 * feature stays off, and an attempt to turn it on reports the reason.  Only the result of
 * this test counts, not the server's minor version: a minor update leaves the feature on, with
 * a warning.  The test also finds the addresses of core's two wrappers, which
 * are not exported.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "measure/measure.h"
#include "utils/guc.h"
#include "utils/memutils.h"

const char *light_off_reason = NULL;
ExecProcNodeMtd light_core_first = NULL;
ExecProcNodeMtd light_core_instr = NULL;

static int	probe_calls;

/* A plan node that returns no row. */
static TupleTableSlot *
empty_node(PlanState *node)
{
	probe_calls++;
	return NULL;
}

/* Has core's instrumentation struct the size and the fields of our headers? */
static const char *
instrumentation_fits(void)
{
	NodeInstrumentation_compat *instr;
	Size		expected;

	expected = GetMemoryChunkSpace(palloc(sizeof(NodeInstrumentation_compat)));
	instr = InstrAllocNode_compat(INSTRUMENT_ALL);
	if (GetMemoryChunkSpace(instr) != expected)
		return "the server's instrumentation of plan nodes has another size";
	if (!InstrNeedTimer_compat(instr) || !InstrNeedBuffers_compat(instr) || !InstrNeedWal_compat(instr))
		return "the server's instrumentation of plan nodes has other flags";

	InstrStartNode(instr);
	pgBufferUsage.temp_blks_read += 5;
	InstrStopNode(instr, 3.0);
	pgBufferUsage.temp_blks_read -= 5;
	if (!instr->running || instr->tuplecount != 3.0 || InstrBuffers_compat(instr)->temp_blks_read != 5)
		return "the server's instrumentation of plan nodes has other fields";
	InstrEndLoop(instr);
	if (instr->running || instr->tuplecount != 0.0 || instr->ntuples != 3.0 || instr->nloops != 1.0)
		return "the server's instrumentation of plan nodes adds up in another way";
	return NULL;
}

/* Does core call nodes through the pointers that we know? */
static const char *
planstate_fits(void)
{
	PlanState  *node = palloc0(sizeof(PlanState));

	node->type = T_ResultState;
	node->instrument = InstrAllocNode_compat(INSTRUMENT_ROWS);
	ExecSetExecProcNode(node, empty_node);
	if (node->ExecProcNodeReal != empty_node || node->ExecProcNode == NULL || node->ExecProcNode == empty_node)
		return "the server's plan nodes have another layout";
	light_core_first = node->ExecProcNode;
	probe_calls = 0;
	(void) node->ExecProcNode(node);
	if (probe_calls != 1 || !node->instrument->running || node->ExecProcNode == light_core_first)
		return "the server calls plan nodes in another way";
	light_core_instr = node->ExecProcNode;
	return NULL;
}

/* The server's version as a number, or 0. */
static int
server_version(void)
{
	const char *version = GetConfigOption("server_version_num", true, false);

	return version != NULL ? atoi(version) : 0;
}

/* Was the library compiled for another minor version than it runs on? */
bool
light_other_minor(void)
{
	return server_version() != PG_VERSION_NUM;
}

/*
 * Can light_explain work on this server?  If not, light_off_reason says why.
 */
bool
light_server_fits(void)
{
	MemoryContext context,
				old;

	if (server_version() / 10000 != PG_VERSION_NUM / 10000)
	{
		light_off_reason = "the server is of another major version";
		return false;
	}

	/* a generation context tells the exact size of a chunk */
	context = GenerationContextCreate(CurrentMemoryContext, "light_explain self-test", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	light_off_reason = instrumentation_fits();
	if (light_off_reason == NULL)
		light_off_reason = planstate_fits();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return light_off_reason == NULL;
}

/* Tell whoever loads the library what its version has to do with the server's. */
void
light_warn_version(void)
{
	/* workers load what their leader has loaded */
	int			elevel = IsParallelWorker() ? DEBUG1 : WARNING;

	if (light_off_reason != NULL)
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("light_explain is off: %s", light_off_reason),
				 errhint("Compile and install light_explain for this server.")));
	else
		ereport(elevel,
				(errmsg("light_explain was compiled for PostgreSQL %d.%d and runs on %d.%d",
						PG_VERSION_NUM / 10000, PG_VERSION_NUM % 10000, server_version() / 10000, server_version() % 10000),
				 errdetail("What it relies on was checked and is the same."),
				 errhint("Compile and install light_explain again.")));
}

/* ERROR: there is no memory that all processes share. */
void
light_not_shared(const char *what)
{
	if (light_off_reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s", what),
				 errdetail("light_explain is off: %s.", light_off_reason),
				 errhint("Compile and install light_explain for this server and restart it.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s", what),
			 errhint("Add light_explain to shared_preload_libraries and restart the server.")));
}

/*-------------------------------------------------------------------------
 *
 * ab_test_fail_memory.c
 *	  A function that has the server run out of memory at a place of the test's choice.
 *
 * ab_test_fail_memory(name) finds the memory context of that name below TopMemoryContext
 * and has its next allocation fail, once.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/memnodes.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(ab_test_fail_memory);

static MemoryContext failing = NULL;
static MemoryContextMethods methods;
static const MemoryContextMethods *before;

/* Stands for the method that allocates, whatever arguments a version gives it. */
static void *
fail(void)
{
	failing->methods = before;
	failing = NULL;
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("A test asked for it.")));
	return NULL;
}

static MemoryContext
find_context(MemoryContext context, const char *name)
{
	MemoryContext found = NULL;

	if (strcmp(context->name, name) == 0)
		return context;
	for (MemoryContext child = context->firstchild; child && !found; child = child->nextchild)
		found = find_context(child, name);
	return found;
}

Datum
ab_test_fail_memory(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	MemoryContext context = find_context(TopMemoryContext, name);

	if (context == NULL || failing != NULL)
		elog(ERROR, "there is no memory context \"%s\", or another one is to fail", name);
	before = context->methods;
	methods = *before;
	*(void **) &methods.alloc = (void *) fail;
	failing = context;
	context->methods = &methods;
	PG_RETURN_VOID();
}

/*-------------------------------------------------------------------------
 *
 * properties.c
 *	  What EXPLAIN (LIGHT) shows of a node, however it gets there: printed by
 *	  explain_hooks.c, or written into a finished plan by weave.c.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "show/show.h"

static void
add(LightProperty *to, int *n, const char *name, const char *unit, double value, bool always)
{
	LightProperty *property = &to[(*n)++];

	property->name = name;
	property->unit = unit;
	property->value = value;
	property->string = NULL;
	property->always = always;
}

/*
 * The properties that are shown of a node in addition to core's: "to" has space for
 * LIGHT_MAX_PROPERTIES.  Returns how many there are.
 */
int
light_properties(const LightShown *node, bool timing, bool buffers, bool wal, LightProperty *to)
{
	const BufferUsage *b = &node->self.usage.buffers;
	int			n = 0;

	if (node->loops <= 0)
		return 0;
	if (timing)
		add(to, &n, "Self Time", "ms", node->self.time * 1000.0, true);
	if (buffers)
	{
		add(to, &n, "Self Shared Hit Blocks", NULL, b->shared_blks_hit, false);
		add(to, &n, "Self Shared Read Blocks", NULL, b->shared_blks_read, false);
		add(to, &n, "Self Shared Dirtied Blocks", NULL, b->shared_blks_dirtied, false);
		add(to, &n, "Self Shared Written Blocks", NULL, b->shared_blks_written, false);
		add(to, &n, "Self Local Blocks", NULL, b->local_blks_hit + b->local_blks_read, false);
		add(to, &n, "Self Temp Read Blocks", NULL, b->temp_blks_read, false);
		add(to, &n, "Self Temp Written Blocks", NULL, b->temp_blks_written, false);
	}
	if (wal)
		add(to, &n, "Self WAL Records", NULL, node->self.usage.wal.wal_records, false);
	if (node->blocks >= 0)
		add(to, &n, "Distinct Heap Blocks", NULL, node->blocks, true);
	if (node->sampled != NULL)
	{
		add(to, &n, "Samples", NULL, 0, true);
		to[n - 1].string = node->sampled;
	}
	Assert(n <= LIGHT_MAX_PROPERTIES);
	return n;
}

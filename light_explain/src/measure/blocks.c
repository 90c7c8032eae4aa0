/*-------------------------------------------------------------------------
 *
 * blocks.c
 *	  How many different heap blocks a scan's rows came from.
 *
 * Buffer counts say how often a block was looked at; a nested loop that looks
 * at one block a thousand times hits a thousand buffers.  With
 * light_explain.distinct_blocks every scan of a table keeps a sketch
 * (HyperLogLog, 4 kB, standard error 1.6 %) of the block numbers in the row
 * identifiers that it returns, over all its calls and rescans.  So blocks are
 * seen that returned a row; index-only scans, which return none, have no figure,
 * nor do nodes that ran in parallel workers, whose sketches stay there.
 *
 * The sketch is made at the first row, in the statement's memory.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "lib/hyperloglog.h"
#include "light_explain.h"
#include "storage/block.h"
#include "storage/itemptr.h"
#include "utils/memutils.h"

/* Bits of a hash that choose one of the sketch's bytes. */
#define SKETCH_BITS 12

typedef struct LightBlocks
{
	BlockNumber last;			/* of the row before: rows come block by block */
	hyperLogLogState sketch;
} LightBlocks;

/* Is it a scan whose rows carry their place in a table? */
bool
light_counts_blocks(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_SeqScanState:
		case T_SampleScanState:
		case T_IndexScanState:
		case T_BitmapHeapScanState:
		case T_TidScanState:
		case T_TidRangeScanState:
			return true;
		default:
			return false;
	}
}

static pg_noinline void
add_block(LightRecord *record, BlockNumber block)
{
	LightBlocks *blocks = record->blocks;

	if (blocks == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(record->query->context);

		blocks = palloc(sizeof(LightBlocks));
		initHyperLogLog(&blocks->sketch, SKETCH_BITS);
		MemoryContextSwitchTo(old);
		record->blocks = blocks;
	}
	blocks->last = block;
	addHyperLogLog(&blocks->sketch, hash_bytes_uint32(block));
}

/* The function around such a node, outside the one that measures it. */
TupleTableSlot *
light_count_blocks(PlanState *node)
{
	LightRecord *record = (LightRecord *) node->instrument;
	TupleTableSlot *slot = record->query->wrapper(node);

	if (!TupIsNull(slot))
	{
		ItemPointer tid = &((ScanState *) node)->ss_ScanTupleSlot->tts_tid;

		if (ItemPointerIsValid(tid))
		{
			BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);

			if (record->blocks == NULL || record->blocks->last != block)
				add_block(record, block);
		}
	}
	return slot;
}

/*
 * The estimate for a node of a finished statement, or -1 if there is none: not
 * asked for, no such node, or a part of it ran in workers.
 */
double
light_distinct_blocks_of(LightQuery *query, PlanState *planstate)
{
	LightRecord *record = light_record_of(query, planstate);

	if (record == NULL || !query->count_blocks || !light_counts_blocks(planstate) || record->caller == NULL ||
		(planstate->worker_instrument != NULL && planstate->worker_instrument->num_workers > 0))
		return -1;
	return record->blocks == NULL ? 0 : rint(estimateHyperLogLog(&record->blocks->sketch));
}

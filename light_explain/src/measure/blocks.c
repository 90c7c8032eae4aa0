/*-------------------------------------------------------------------------
 *
 * blocks.c
 *	  Estimate the number of distinct heap blocks from which a scan returned rows.
 *
 * Buffer counts show how often blocks were accessed; a nested loop that reads
 * one block a thousand times hits a thousand buffers.  With
 * light_explain.distinct_blocks every scan of a table keeps a sketch
 * (HyperLogLog, 4 kB, standard error 1.6 %) of the block numbers in the row
 * identifiers that it returns, over all its calls and rescans.  So it counts
 * blocks that returned a row; index-only scans, which return none, have no estimate,
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
#include "measure/measure.h"
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
		MemoryContext old = MemoryContextSwitchTo(record->books->context);

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
	TupleTableSlot *slot = record->books->wrapper(node);

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

/* The estimate for a node that ran. */
double
light_blocks_estimate(const LightRecord *record)
{
	return record->blocks == NULL ? 0 : rint(estimateHyperLogLog(&record->blocks->sketch));
}

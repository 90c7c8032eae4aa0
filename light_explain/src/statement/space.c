/*-------------------------------------------------------------------------
 *
 * space.c
 *	  Memory and temporary files of a node, and just-in-time compilation of a statement, as
 *	  the executor has recorded them.
 *
 * Read when a statement has finished, before its nodes end, as EXPLAIN ANALYZE does.  Of most nodes
 * the executor records nothing.  Memory is that of one process; of several processes, and of several loops if
 * the executor records each, it is the largest.  Temporary files are added up.  Of a sort that is
 * repeated, the executor only has the last one.
 *
 * A node that has gone to disk has no recorded memory, except hash tables: it used what the settings
 * permit.  The batches of a hash join are its temporary blocks.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_executor.h"
#include "jit/jit.h"
#include "statement/statement.h"
#include "utils/tuplesort.h"

#define KILOBYTE INT64CONST(1024)

/* Memory and files, as the executor has recorded them. */
typedef struct Space
{
	int64		memory;			/* bytes; 0: it is not known */
	int64		spilled;
} Space;

static inline void
add_memory(Space *space, int64 bytes)
{
	space->memory = Max(space->memory, bytes);
}

static void
add_tuplesort(Space *space, const TuplesortInstrumentation *stats)
{
	if (stats->sortMethod == SORT_TYPE_STILL_IN_PROGRESS)
		return;
	if (stats->spaceType == SORT_SPACE_TYPE_DISK)
		space->spilled += stats->spaceUsed * KILOBYTE;
	else
		add_memory(space, stats->spaceUsed * KILOBYTE);
}

static void
space_of_sort(SortState *sort, Space *space)
{
	if (sort->sort_Done && sort->tuplesortstate != NULL)
	{
		TuplesortInstrumentation stats;

		tuplesort_get_stats((Tuplesortstate *) sort->tuplesortstate, &stats);
		add_tuplesort(space, &stats);
	}
	for (int i = 0; sort->shared_info != NULL && i < sort->shared_info->num_workers; i++)
		add_tuplesort(space, &sort->shared_info->sinstrument[i]);
}

static void
add_groups(Space *space, const IncrementalSortInfo *info)
{
	add_memory(space, Max(info->fullsortGroupInfo.maxMemorySpaceUsed, info->prefixsortGroupInfo.maxMemorySpaceUsed) * KILOBYTE);
	space->spilled += (info->fullsortGroupInfo.totalDiskSpaceUsed + info->prefixsortGroupInfo.totalDiskSpaceUsed) * KILOBYTE;
}

static void
space_of_incremental_sort(IncrementalSortState *sort, Space *space)
{
	add_groups(space, &sort->incsort_info);
	for (int i = 0; sort->shared_info != NULL && i < sort->shared_info->num_workers; i++)
		add_groups(space, &sort->shared_info->sinfo[i]);
}

static void
space_of_hash(HashState *hash, Space *space)
{
	if (hash->hinstrument != NULL)
		add_memory(space, hash->hinstrument->space_peak);
	for (int i = 0; hash->shared_info != NULL && i < hash->shared_info->num_workers; i++)
		add_memory(space, hash->shared_info->hinstrument[i].space_peak);
}

static void
space_of_agg(AggState *agg, Space *space)
{
	add_memory(space, agg->hash_mem_peak);
	space->spilled += agg->hash_disk_used * KILOBYTE;
	for (int i = 0; agg->shared_info != NULL && i < agg->shared_info->num_workers; i++)
	{
		add_memory(space, agg->shared_info->sinstrument[i].hash_mem_peak);
		space->spilled += agg->shared_info->sinstrument[i].hash_disk_used * KILOBYTE;
	}
}

static void
space_of_memoize(MemoizeState *memoize, Space *space)
{
	/* the peak is recorded when the first entry is evicted */
	add_memory(space, Max(memoize->stats.mem_peak, memoize->mem_used));
	for (int i = 0; memoize->shared_info != NULL && i < memoize->shared_info->num_workers; i++)
		add_memory(space, memoize->shared_info->sinstrument[i].mem_peak);
}

static void
space_of_tuplestore(Tuplestorestate *store, Space *space)
{
	int64		bytes = 0;

	if (store == NULL)
		return;
	if (TuplestoreStats_compat(store, &bytes))
		space->spilled += bytes;
	else
		add_memory(space, bytes);
}

/* It has two: their sum, and the kind of the larger one. */
static void
space_of_recursive_union(RecursiveUnionState *recursive, Space *space)
{
	int64		working = 0;
	int64		intermediate = 0;
	bool		working_on_disk = TuplestoreStats_compat(recursive->working_table, &working);
	bool		on_disk = TuplestoreStats_compat(recursive->intermediate_table, &intermediate);

	if (working > intermediate)
		on_disk = working_on_disk;
	if (on_disk)
		space->spilled += working + intermediate;
	else
		add_memory(space, working + intermediate);
}

/* Does the executor record something of a node?  Each node of each statement is asked. */
static inline bool
has_space(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_SortState:
		case T_IncrementalSortState:
		case T_HashState:
		case T_HashJoinState:
		case T_AggState:
		case T_MemoizeState:
		case T_MaterialState:
		case T_WindowAggState:
		case T_CteScanState:
		case T_TableFuncScanState:
		case T_RecursiveUnionState:
			return true;
		default:
			return false;
	}
}

/* Memory and temporary files of a node, which wrote so many blocks of these itself. */
static Space
space_of(PlanState *node, int64 temp_written)
{
	Space		space = {0};

	switch (nodeTag(node))
	{
		case T_SortState:
			space_of_sort((SortState *) node, &space);
			break;
		case T_IncrementalSortState:
			space_of_incremental_sort((IncrementalSortState *) node, &space);
			break;
		case T_HashState:
			space_of_hash((HashState *) node, &space);
			space.spilled = temp_written * BLCKSZ;
			break;
		case T_HashJoinState:
			space.spilled = temp_written * BLCKSZ;
			break;
		case T_AggState:
			space_of_agg((AggState *) node, &space);
			break;
		case T_MemoizeState:
			space_of_memoize((MemoizeState *) node, &space);
			break;
		case T_MaterialState:
			space_of_tuplestore(((MaterialState *) node)->tuplestorestate, &space);
			break;
		case T_WindowAggState:
			space_of_tuplestore(((WindowAggState *) node)->buffer, &space);
			break;
		case T_CteScanState:
			/* one of its scans has the table */
			if (((CteScanState *) node)->leader == (CteScanState *) node)
				space_of_tuplestore(((CteScanState *) node)->cte_table, &space);
			break;
		case T_TableFuncScanState:
			space_of_tuplestore(((TableFuncScanState *) node)->tupstore, &space);
			break;
		case T_RecursiveUnionState:
			space_of_recursive_union((RecursiveUnionState *) node, &space);
			break;
		default:
			break;
	}
	return space;
}

static void
add_jit(const JitInstrumentation *instr, LightFigure *figure)
{
	figure->jit_functions += instr->created_functions;
	figure->jit_time += INSTR_TIME_GET_DOUBLE(instr->generation_counter) + INSTR_TIME_GET_DOUBLE(instr->inlining_counter) +
		INSTR_TIME_GET_DOUBLE(instr->optimization_counter) + INSTR_TIME_GET_DOUBLE(instr->emission_counter);
}

/*
 * Memory and temporary files of the nodes of a statement, and, in the first one, the functions that it
 * has compiled in all processes, and the seconds which that took.  If it has not "finished" because of an
 * error, its nodes are left alone.
 */
void
light_figures_space(const LightQuery *query, LightFigure *figures, int n, bool finished)
{
	const EState *estate = query->estate;

	for (int i = 0; i < n; i++)
	{
		LightFigure *figure = &figures[i];

		figure->memory = figure->spilled = 0;
		if (finished && has_space(figure->planstate))
		{
			Space		space = space_of(figure->planstate, figure->self.usage.buffers.temp_blks_written);

			figure->memory = space.memory;
			figure->spilled = space.spilled;
		}
	}
	figures[0].jit_functions = 0;
	figures[0].jit_time = 0;
	if (unlikely(estate->es_jit != NULL))
		add_jit(&estate->es_jit->instr, &figures[0]);
	if (unlikely(estate->es_jit_worker_instr != NULL))
		add_jit(estate->es_jit_worker_instr, &figures[0]);
}

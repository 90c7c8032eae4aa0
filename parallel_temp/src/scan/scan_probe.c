/*-------------------------------------------------------------------------
 *
 * scan_probe.c
 *	  Prefetch the hash table entries that a hash join will look up.
 *
 * A hash join over a table that is much larger than the caches spends most of its
 * time waiting for memory, one row at a time: the bucket's head, then the first
 * tuple.  The scan that feeds it knows the rows of a page before it returns the
 * first of them.  So the keys of the whole page are hashed here, all bucket heads
 * are asked for, and then all first tuples: the CPU waits for many of them at
 * once.  The join computes its hash values again, which is cheap compared with a wait.
 *
 * This changes only caches.  It reads the join's hash table as the join
 * itself does, and only while that is complete: with one batch, in the phase of
 * looking up.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/tupmacs.h"
#include "executor/tuptable.h"
#include "utils/dsa.h"
#include "utils/lsyscache.h"

#include "scan/scan.h"

/*
 * Below this many buckets heads and tuples are found in a cache of the second
 * level anyway.
 */
#define SMALL_TABLE_BUCKETS 32768

ScanProbe *
pt_scan_probe_make(HashJoinState *join, ScanState *ss)
{
	HashJoin   *plan = (HashJoin *) join->js.ps.plan;
	List	   *targetlist = ss->ps.plan->targetlist;
	TupleDesc	desc = ss->ss_ScanTupleSlot->tts_tupleDescriptor;
	Var		   *var;
	ScanProbe  *probe;
	Oid			outer_hash;
	Oid			inner_hash;
	int			offset;

	if (ss->ps.qual != NULL || list_length(plan->hashkeys) != 1)
		return NULL;
	var = linitial(plan->hashkeys);
	if (!IsA(var, Var) || var->varno != OUTER_VAR || var->varattno <= 0 || var->varattno > list_length(targetlist))
		return NULL;
	var = (Var *) list_nth_node(TargetEntry, targetlist, var->varattno - 1)->expr;
	if (!IsA(var, Var) || var->varattno <= 0 || !TupleDescAttr(desc, var->varattno - 1)->attbyval)
		return NULL;
	offset = pt_column_offset(desc, var->varattno);

	/*
	 * A hash function of a user's could have effects, and be called for rows
	 * that are not needed.
	 */
	if (offset < 0 || !get_op_hash_functions(linitial_oid(plan->hashoperators), &outer_hash, &inner_hash) ||
		outer_hash >= FirstUnpinnedObjectId)
		return NULL;

	probe = palloc0(sizeof(ScanProbe));
	probe->join = join;
	fmgr_info(outer_hash, &probe->hash);
	probe->collation = linitial_oid(plan->hashcollations);
	probe->column = var->varattno;
	probe->offset = offset;
	probe->length = TupleDescAttr(desc, var->varattno - 1)->attlen;
	return probe;
}

/*
 * Is the column not null and where it is in a row without nulls?
 */
static inline bool
key_in_place(HeapTupleHeader tuple, AttrNumber column)
{
	if (HeapTupleHeaderGetNatts(tuple) < column)
		return false;
	if (tuple->t_infomask & HEAP_HASNULL)
	{
		for (int i = 0; i < column; i++)
		{
			if (att_isnull(i, tuple->t_bits))
				return false;
		}
	}
	return true;
}

int
pt_scan_probe_prefetch(ScanProbe *probe, Page page, const OffsetNumber *tuples, int ntuples)
{
	HashJoinTable table = probe->join->hj_HashTable;
	uint32		buckets[MaxHeapTuplesPerPage];
	int			n = 0;

	if (table == NULL || table->nbuckets < SMALL_TABLE_BUCKETS || table->nbatch != 1 || table->curbatch != 0 ||
		(table->parallel_state ? table->buckets.shared == NULL : table->buckets.unshared == NULL))
		return 0;

	for (int i = 0; i < ntuples; i++)
	{
		HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, tuples[i]));
		Datum		key;
		uint32		bucket;

		if (!key_in_place(tuple, probe->column))
			continue;
		key = fetch_att((char *) tuple + tuple->t_hoff + probe->offset, true, probe->length);
		bucket = DatumGetUInt32(FunctionCall1Coll(&probe->hash, probe->collation, key)) & (table->nbuckets - 1);
		if (table->parallel_state)
			__builtin_prefetch(&table->buckets.shared[bucket]);
		else
			__builtin_prefetch(&table->buckets.unshared[bucket]);
		buckets[n++] = bucket;
	}
	for (int i = 0; i < n; i++)
	{
		HashJoinTuple first;

		if (table->parallel_state)
			first = dsa_get_address(table->area, dsa_pointer_atomic_read(&table->buckets.shared[buckets[i]]));
		else
			first = table->buckets.unshared[buckets[i]];
		if (first)
			__builtin_prefetch(first);
	}
	return n;
}

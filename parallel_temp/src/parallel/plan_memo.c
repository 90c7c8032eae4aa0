/*-------------------------------------------------------------------------
 *
 * plan_memo.c
 *	  Statements that were planned with workers for nothing.
 *
 * To see whether workers would pay, a statement is planned a second time, which takes as
 * long as the first time.  A short one that stays serial and comes again and again would
 * pay for that each time.  So the session remembers such statements: by their text, and
 * by all that may make the second planning come out otherwise.  Sizes, statistics and values of
 * parameters are in the costs of the serial plan, which is at hand, to the last digit;
 * settings that matter to plans with workers only are looked at one by one.
 * What is left are definitions, of a table's number of workers or of how safe a function
 * is: when any of these changes, all is forgotten.
 *
 * A statement that is taken for another one, of the same hash, stays serial.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "parallel/plan_memo.h"
#include "parallel_temp.h"

#define REMEMBERED 256			/* keys, each at the place that it gives */

static uint64 remembered[REMEMBERED];

static void
forget_all(void)
{
	memset(remembered, 0, sizeof(remembered));
}

static void
relation_changed(Datum arg, Oid relid)
{
	forget_all();
}

static void
function_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	forget_all();
}

static uint64
hash_settings(uint64 hash)
{
	const double costs[] = {
		parallel_setup_cost, parallel_tuple_cost, pt_worker_start_cost, pt_enter_page_cost, pt_held_page_cost,
		pt_flush_page_cost, pt_scan_buffer_cost
	};
	const int	numbers[] = {
		max_parallel_workers_per_gather, min_parallel_table_scan_size, min_parallel_index_scan_size,
		work_mem, num_temp_buffers, pt_method
	};
	const bool	switches[] = {
		parallel_leader_participation, pt_index_access, enable_parallel_append, enable_parallel_hash, enable_gathermerge,
		enable_partitionwise_join, enable_partitionwise_aggregate, enable_seqscan, enable_indexscan, enable_indexonlyscan,
		enable_bitmapscan, enable_sort, enable_incremental_sort, enable_hashagg, enable_nestloop, enable_material,
		enable_memoize, enable_mergejoin, enable_hashjoin
	};

	hash = hash_combine64(hash, hash_bytes_extended((const unsigned char *) costs, sizeof(costs), 0));
	hash = hash_combine64(hash, hash_bytes_extended((const unsigned char *) numbers, sizeof(numbers), 0));
	return hash_combine64(hash, hash_bytes_extended((const unsigned char *) switches, sizeof(switches), 0));
}

uint64
plan_memo_key(Query *parse, const char *query_string, int cursor_options, PlannedStmt *serial, Cost held_cost)
{
	const double costs[] = {
		serial->planTree->startup_cost, serial->planTree->total_cost, serial->planTree->plan_rows, held_cost
	};
	const char *statement = query_string;
	uint64		hash;

	if (statement == NULL)
		return 0;
	if (parse->stmt_location > 0)
		statement += parse->stmt_location;
	hash = hash_bytes_extended((const unsigned char *) statement, parse->stmt_len > 0 ? parse->stmt_len : strlen(statement), 0);
	hash = hash_combine64(hash, hash_bytes_extended((const unsigned char *) costs, sizeof(costs), 0));
	return hash_settings(hash_combine64(hash, (uint64) cursor_options));
}

bool
plan_memo_stays_serial(uint64 key)
{
	return key != 0 && remembered[key % REMEMBERED] == key;
}

void
plan_memo_note_serial(uint64 key)
{
	static bool watching = false;

	if (key == 0)
		return;
	if (!watching)
	{
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
		CacheRegisterSyscacheCallback(PROCOID, function_changed, (Datum) 0);
		watching = true;
	}
	remembered[key % REMEMBERED] = key;
}

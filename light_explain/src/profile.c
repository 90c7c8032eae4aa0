/*-------------------------------------------------------------------------
 *
 * profile.c
 *	  Figures of each plan node added up over all executions of a statement.
 *
 * With light_explain.profile on, every statement is instrumented, which is cheap
 * enough with the light wrappers, and when one is finished the figures of its
 * nodes are added to entries in shared memory: one per database, role, statement
 * (its query identifier), plan and node.  Plans of one statement are told apart
 * by a hash over node types, relations and indexes.
 *
 * One LWLock protects the table of entries; adding to an entry takes the lock
 * shared and the entry's spinlock.  When the table is full, the twentieth part
 * that was not used longest goes.  Nothing is kept across a restart.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/pg_authid.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "compat_instrument.h"
#include "light_explain.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

typedef struct LightProfileKey
{
	Oid			database;
	Oid			role;
	uint64		query_id;
	uint64		plan_id;
	int64		node;			/* plan_node_id; wide, so that no padding is
								 * hashed */
} LightProfileKey;

typedef struct LightProfileEntry
{
	LightProfileKey key;		/* must be first */
	slock_t		mutex;
	int64		used;			/* number of the store that used it last */
	int			parent;
	int			depth;
	LightNodeName name;
	int64		executions;		/* of the statement in which the node ran */
	double		loops;
	double		rows;
	double		plan_rows;		/* estimated, over all loops */
	double		filtered;
	double		total_time;		/* seconds */
	double		self_time;
	double		max_self_time;
	LightUsage	self;
} LightProfileEntry;

typedef struct LightProfileShared
{
	LWLock	   *lock;
	pg_atomic_uint64 stores;
} LightProfileShared;

static LightProfileShared *shared = NULL;
static HTAB *entries = NULL;

/* Shared memory that is wanted. */
Size
light_profile_size(void)
{
	return add_size(MAXALIGN(sizeof(LightProfileShared)),
					hash_estimate_size(light_profile_max, sizeof(LightProfileEntry)));
}

/* Make or find it. */
void
light_profile_startup(void)
{
	bool		found;
	HASHCTL		control = {.keysize = sizeof(LightProfileKey),.entrysize = sizeof(LightProfileEntry)};

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("light_explain profile", sizeof(LightProfileShared), &found);
	if (!found)
	{
		shared->lock = &(GetNamedLWLockTranche("light_explain"))->lock;
		pg_atomic_init_u64(&shared->stores, 0);
	}
	entries = ShmemInitHash_compat("light_explain profile entries", light_profile_max, &control, HASH_ELEM | HASH_BLOBS);
	LWLockRelease(AddinShmemInitLock);
}

/* ---- storing ------------------------------------------------------------ */

typedef struct HashContext
{
	uint64		hash;
	Bitmapset  *seen;
} HashContext;

static uint64
hash_word(uint64 hash, uint64 word)
{
	return hash_combine64(hash, hash_bytes_extended((unsigned char *) &word, sizeof(word), 0));
}

/* Hash of the plan below a node: types, relations, indexes, shape. */
static bool
hash_plan(PlanState *node, void *arg)
{
	HashContext *context = arg;
	uint64	   *hash = &context->hash;
	LightNodeName name;

	if (node == NULL || light_seen_before(node, &context->seen))
		return false;
	light_node_name(node, &name);
	*hash = hash_word(*hash, ((uint64) name.tag << 16) | ((uint64) name.operation << 8) | name.parallel);
	if (NameStr(name.relation)[0])
		*hash = hash_word(*hash, hash_bytes((unsigned char *) NameStr(name.relation), strlen(NameStr(name.relation))));
	if (NameStr(name.index)[0])
		*hash = hash_word(*hash, hash_bytes((unsigned char *) NameStr(name.index), strlen(NameStr(name.index))));
	(void) planstate_tree_walker(node, hash_plan, context);
	*hash = hash_word(*hash, 1);
	return false;
}

static int
compare_used(const void *a, const void *b)
{
	int64		x = (*(LightProfileEntry *const *) a)->used;
	int64		y = (*(LightProfileEntry *const *) b)->used;

	return x < y ? -1 : x > y;
}

/* Make room; the lock is held exclusively. */
static void
drop_oldest(void)
{
	HASH_SEQ_STATUS scan;
	LightProfileEntry *entry;
	LightProfileEntry **all = palloc(hash_get_num_entries(entries) * sizeof(LightProfileEntry *));
	int			n = 0;
	int			drop;

	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		all[n++] = entry;
	qsort(all, n, sizeof(LightProfileEntry *), compare_used);
	drop = Min(n, Max(n / 20, 10));
	for (int i = 0; i < drop; i++)
		(void) hash_search(entries, &all[i]->key, HASH_REMOVE, NULL);
	pfree(all);
}

typedef struct StoreContext
{
	LightQuery *query;
	LightProfileKey key;
	int64		store;
	int			depth;
	int			parent;
	bool		exclusive;		/* how the lock is held */
	Bitmapset  *seen;
} StoreContext;

/* Find a node's entry or make it; the lock may be held exclusively afterwards. */
static LightProfileEntry *
find_entry(StoreContext *context, PlanState *node)
{
	LightProfileEntry *entry = hash_search(entries, &context->key, HASH_FIND, NULL);
	bool		found;

	if (entry != NULL)
		return entry;
	if (!context->exclusive)
	{
		LWLockRelease(shared->lock);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		context->exclusive = true;
	}
	if (hash_get_num_entries(entries) >= light_profile_max)
		drop_oldest();
	entry = hash_search(entries, &context->key, HASH_ENTER_NULL, &found);
	if (entry != NULL && !found)
	{
		memset((char *) entry + sizeof(LightProfileKey), 0, sizeof(LightProfileEntry) - sizeof(LightProfileKey));
		SpinLockInit(&entry->mutex);
		entry->parent = context->parent;
		entry->depth = context->depth;
		light_node_name(node, &entry->name);
	}
	return entry;
}

static bool
store_node(PlanState *node, void *arg)
{
	StoreContext *context = arg;
	NodeInstrumentation_compat *instr;
	int			parent = context->parent;
	double		loops;

	if (node == NULL || light_seen_before(node, &context->seen))
		return false;
	instr = node->instrument;
	loops = instr == NULL ? 0 : instr->nloops + (instr->running ? 1 : 0);
	if (instr != NULL && loops > 0)
	{
		LightSelf	self = light_self(context->query, node);
		LightProfileEntry *entry;

		context->key.node = node->plan->plan_node_id;
		entry = find_entry(context, node);
		if (entry != NULL)
		{
			SpinLockAcquire(&entry->mutex);
			entry->used = context->store;
			entry->executions++;
			entry->loops += loops;
			entry->rows += instr->ntuples + instr->tuplecount;
			entry->plan_rows += node->plan->plan_rows * loops;
			entry->filtered += instr->nfiltered1 + instr->nfiltered2;
			entry->total_time += InstrTotal_compat(instr);
			entry->self_time += self.time;
			entry->max_self_time = Max(entry->max_self_time, self.time);
			for (int i = 0; i < LIGHT_USAGE_WORDS; i++)
				((int64 *) &entry->self)[i] += ((int64 *) &self.usage)[i];
			SpinLockRelease(&entry->mutex);
		}
	}
	context->parent = node->plan->plan_node_id;
	context->depth++;
	(void) planstate_tree_walker(node, store_node, context);
	context->depth--;
	context->parent = parent;
	return false;
}

/* A statement is finished: add its figures to the profile. */
void
light_profile_store(LightQuery *query)
{
	QueryDesc  *queryDesc = query->queryDesc;
	StoreContext context = {.query = query,.parent = -1};
	HashContext plan = {0};

	if (!light_profile || shared == NULL || IsParallelWorker() || queryDesc->plannedstmt->queryId == 0)
		return;
	context.key.database = MyDatabaseId;
	context.key.role = GetUserId();
	context.key.query_id = queryDesc->plannedstmt->queryId;
	(void) hash_plan(queryDesc->planstate, &plan);
	bms_free(plan.seen);
	context.key.plan_id = plan.hash;
	context.store = (int64) pg_atomic_add_fetch_u64(&shared->stores, 1);

	LWLockAcquire(shared->lock, LW_SHARED);
	(void) store_node(queryDesc->planstate, &context);
	LWLockRelease(shared->lock);
	bms_free(context.seen);
}

/* ---- reading ------------------------------------------------------------ */

static void
check_shared(void)
{
	if (shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no profile of statements"),
				 errhint("Add light_explain to shared_preload_libraries and restart the server.")));
}

PG_FUNCTION_INFO_V1(light_explain_profile);

/* light_explain_profile(): all entries that the caller may see. */
Datum
light_explain_profile(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	HASH_SEQ_STATUS scan;
	LightProfileEntry *shared_entry;

	check_shared();
	InitMaterializedSRF(fcinfo, 0);
	LWLockAcquire(shared->lock, LW_SHARED);
	hash_seq_init(&scan, entries);
	while ((shared_entry = hash_seq_search(&scan)) != NULL)
	{
		LightProfileEntry entry;
		BufferUsage *b = &entry.self.buffers;
		Datum		values[25];
		bool		nulls[25] = {0};
		int			n = 0;

		if (!all && shared_entry->key.role != GetUserId())
			continue;
		SpinLockAcquire(&shared_entry->mutex);
		entry = *shared_entry;
		SpinLockRelease(&shared_entry->mutex);

		values[n++] = ObjectIdGetDatum(entry.key.database);
		values[n++] = ObjectIdGetDatum(entry.key.role);
		values[n++] = Int64GetDatum((int64) entry.key.query_id);
		values[n++] = Int64GetDatum((int64) entry.key.plan_id);
		values[n++] = Int32GetDatum((int32) entry.key.node);
		nulls[n] = entry.parent < 0;
		values[n++] = Int32GetDatum(entry.parent);
		values[n++] = Int32GetDatum(entry.depth);
		values[n++] = CStringGetTextDatum(light_format_name(&entry.name));
		values[n++] = Int64GetDatum(entry.executions);
		values[n++] = Float8GetDatum(entry.loops);
		values[n++] = Float8GetDatum(entry.rows);
		values[n++] = Float8GetDatum(entry.plan_rows);
		values[n++] = Float8GetDatum(entry.filtered);
		values[n++] = Float8GetDatum(entry.total_time * 1000.0);
		values[n++] = Float8GetDatum(entry.self_time * 1000.0);
		values[n++] = Float8GetDatum(entry.max_self_time * 1000.0);
		values[n++] = Int64GetDatum(b->shared_blks_hit);
		values[n++] = Int64GetDatum(b->shared_blks_read);
		values[n++] = Int64GetDatum(b->shared_blks_dirtied);
		values[n++] = Int64GetDatum(b->local_blks_hit + b->local_blks_read);
		values[n++] = Int64GetDatum(b->temp_blks_read);
		values[n++] = Int64GetDatum(b->temp_blks_written);
		values[n++] = Int64GetDatum((int64) entry.self.wal.wal_bytes);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	LWLockRelease(shared->lock);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(light_explain_profile_reset);

/* light_explain_profile_reset(): forget all entries; returns how many there were. */
Datum
light_explain_profile_reset(PG_FUNCTION_ARGS)
{
	HASH_SEQ_STATUS scan;
	LightProfileEntry *entry;
	int64		n = 0;

	check_shared();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		(void) hash_search(entries, &entry->key, HASH_REMOVE, NULL);
		n++;
	}
	LWLockRelease(shared->lock);
	PG_RETURN_INT64(n);
}

/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  Shared memory for the records of running statements.
 *
 * The records of a statement's nodes are in shared memory from the
 * start, so nothing is reported and nothing costs time while it runs: a reader
 * (show/progress.c) reads the counters directly.  They are aligned 64-bit words that only
 * their owner writes.
 *
 * A slot belongs to one statement of one process.  It is claimed by an atomic
 * exchange of its owner, in an array of all owners, when the statement's
 * nodes get records, and released with their memory.  "generation" is
 * odd while the slot's description is being written or is void; a reader copies
 * what it needs and discards the copy if the generation has changed.
 *
 * A login role can have three quarters of the slots: sessions of other roles, such as
 * one that looks for the reason, find one.  The number of a role's slots is only counted
 * when as many are taken by all of them.  Statements that got none are counted.
 *
 * Without shared_preload_libraries there is no such memory: records are then
 * private and not visible to other sessions.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "statement/statement.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

typedef struct LightProgressShared
{
	int			nslots;
	int			nnodes;			/* per slot */
	pg_atomic_uint32 taken;		/* at most this many slots have an owner */
	pg_atomic_uint64 refused_full;
	pg_atomic_uint64 refused_role;
	pg_atomic_uint64 refused_nodes;
	/* of the slots: login role and process, 0 if free */
	pg_atomic_uint64 owners[FLEXIBLE_ARRAY_MEMBER];
} LightProgressShared;

static LightProgressShared *shared = NULL;
static bool exit_registered = false;

/* A slot is its head, then nodes, then records with one more for the root. */
static Size
size_for(int nnodes)
{
	return MAXALIGN64(TYPEALIGN64(64, sizeof(LightProgressSlot)) +
					  TYPEALIGN64(64, mul_size(nnodes, sizeof(LightProgressNode))) +
					  mul_size(nnodes + 1, sizeof(LightRecord)));
}

/* Slots; -1 if there is no shared memory. */
int
light_slots(void)
{
	return shared != NULL ? shared->nslots : -1;
}

Size
light_slot_size(void)
{
	return size_for(shared->nnodes);
}

static LightProgressSlot *
slot_at(int n)
{
	/* each statement with records asks */
	static Size distance = 0;

	if (unlikely(distance == 0))
		distance = TYPEALIGN64(64, light_slot_size());
	return (LightProgressSlot *) (TYPEALIGN64(64, (uintptr_t) &shared->owners[shared->nslots]) + (Size) n * distance);
}

LightProgressNode *
light_slot_nodes(LightProgressSlot *slot)
{
	return (LightProgressNode *) ((char *) slot + TYPEALIGN64(64, sizeof(LightProgressSlot)));
}

LightRecord *
light_slot_records(LightProgressSlot *slot)
{
	return (LightRecord *) ((char *) light_slot_nodes(slot) + TYPEALIGN64(64, shared->nnodes * sizeof(LightProgressNode)));
}

/* Shared memory that is wanted. */
Size
light_progress_size(void)
{
	return add_size(offsetof(LightProgressShared, owners) + 64,
					mul_size(light_progress_statements, sizeof(pg_atomic_uint64) + TYPEALIGN64(64, size_for(light_progress_nodes))));
}

/* Make or find it. */
void
light_progress_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("light_explain progress", light_progress_size(), &found);
	if (!found)
	{
		memset(shared, 0, light_progress_size());
		shared->nslots = light_progress_statements;
		shared->nnodes = light_progress_nodes;
		pg_atomic_init_u32(&shared->taken, 0);
		pg_atomic_init_u64(&shared->refused_full, 0);
		pg_atomic_init_u64(&shared->refused_role, 0);
		pg_atomic_init_u64(&shared->refused_nodes, 0);
		for (int i = 0; i < shared->nslots; i++)
		{
			pg_atomic_init_u64(&shared->owners[i], 0);
			pg_atomic_init_u32(&slot_at(i)->generation, 1);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

/* Login role and process of a slot's owner. */
#define OWNER(role, pid) (((uint64) (role) << 32) | (uint32) (pid))
#define OWNER_ROLE(owner) ((Oid) ((owner) >> 32))
#define OWNER_PID(owner) ((uint32) (owner))

static void
free_slot(int n)
{
	LightProgressSlot *slot = slot_at(n);

	if (pg_atomic_read_u32(&slot->generation) % 2 == 0)
		pg_atomic_fetch_add_u32(&slot->generation, 1);
	pg_write_barrier();
	pg_atomic_write_u64(&shared->owners[n], 0);
	pg_atomic_fetch_sub_u32(&shared->taken, 1);
}

/*
 * The process ends: whatever happened, it keeps no slot.  Its transaction was
 * aborted before this, so no statement runs any more, but those of holdable
 * cursors have theirs still.
 */
static void
free_slots_at_exit(int code, Datum arg)
{
	light_forget_stack();
	for (LightQuery *query = light_chain.queries; query != NULL; query = query->next)
		query->slot = -1;
	for (int i = 0; i < shared->nslots; i++)
	{
		if (OWNER_PID(pg_atomic_read_u64(&shared->owners[i])) == (uint32) MyProcPid)
			free_slot(i);
	}
}

/*
 * How many slots has a role, and which one is free?  Processes begin at
 * different places; -1 if all are taken.
 */
static int
slots_of_role(Oid role, int *unowned)
{
	int			start = MyProcPid % shared->nslots;
	int			before = -1;
	int			after = -1;
	int			taken = 0;

	for (int i = shared->nslots - 1; i >= 0; i--)
	{
		uint64		owner = pg_atomic_read_u64(&shared->owners[i]);

		taken += OWNER_ROLE(owner) == role;
		if (owner == 0)
			*(i < start ? &before : &after) = i;
	}
	*unowned = after >= 0 ? after : before;
	return taken;
}

/* How many may it have? */
static int
share_of_role(void)
{
	return shared->nslots - (shared->nslots > 1 ? Max(shared->nslots / 4, 1) : 0);
}

/* Take a slot while there are so few that no role can have more than its share; -1 if all are taken. */
static int
take_any(Oid role)
{
	/* most likely the one that this process had last is free */
	static int	last = -1;

	if (last < 0)
		last = MyProcPid % shared->nslots;
	for (int i = 0; i < shared->nslots; i++)
	{
		int			n = last + i < shared->nslots ? last + i : last + i - shared->nslots;
		uint64		unowned = 0;

		if (pg_atomic_read_u64(&shared->owners[n]) == 0 &&
			pg_atomic_compare_exchange_u64(&shared->owners[n], &unowned, OWNER(role, MyProcPid)))
		{
			last = n;
			return n;
		}
	}
	return -1;
}

/* Take a slot if the role has less than its share; -1 if not, or if all are taken. */
static int
take_within_share(Oid role, pg_atomic_uint64 **refused)
{
	uint64		unowned;
	int			taken;
	int			n;
	int			ignored;

	do
	{
		taken = slots_of_role(role, &n);
		if (taken >= share_of_role() || n < 0)
		{
			*refused = taken >= share_of_role() ? &shared->refused_role : &shared->refused_full;
			return -1;
		}
		unowned = 0;
	} while (!pg_atomic_compare_exchange_u64(&shared->owners[n], &unowned, OWNER(role, MyProcPid)));

	/* others of the role may have done the same concurrently, but not all */
	if (taken >= share_of_role() / 2 && slots_of_role(role, &ignored) > share_of_role())
	{
		*refused = &shared->refused_role;
		pg_atomic_write_u64(&shared->owners[n], 0);
		return -1;
	}
	return n;
}

/*
 * Memory for a statement's records that others can see, or NULL if it has too
 * many nodes, its login role has its share, or all slots are taken.
 */
LightRecord *
light_progress_claim(LightQuery *query, int nrecords)
{
	pg_atomic_uint64 *refused;
	Oid			role;

	if (shared == NULL || shared->nslots == 0)
		return NULL;
	if (nrecords > shared->nnodes + 1)
	{
		pg_atomic_fetch_add_u64(&shared->refused_nodes, 1);
		return NULL;
	}
	if (!exit_registered)
	{
		/*
		 * We are in the middle of a statement, and who has registered a
		 * before_shmem_exit() callback around it takes it back as the latest
		 * one: this is another list.
		 */
		on_shmem_exit(free_slots_at_exit, (Datum) 0);
		exit_registered = true;
	}
	role = GetSessionUserId();
	refused = &shared->refused_full;
	if (pg_atomic_fetch_add_u32(&shared->taken, 1) < share_of_role())
		query->slot = take_any(role);
	else
		query->slot = take_within_share(role, &refused);
	if (query->slot < 0)
	{
		pg_atomic_fetch_sub_u32(&shared->taken, 1);
		pg_atomic_fetch_add_u64(refused, 1);
		return NULL;
	}
	return light_slot_records(slot_at(query->slot));
}

/*
 * Blocks that a sequential scan will read: how far it is does not depend on how
 * many rows its condition lets through.  0 for other nodes.
 */
static double
scanned_blocks(PlanState *planstate)
{
	Relation	relation = IsA(planstate, SeqScanState) ? ((ScanState *) planstate)->ss_currentRelation : NULL;

	return relation != NULL ? (double) RelationGetNumberOfBlocks(relation) : 0;
}

/* The statement's records are in place: describe its nodes. */
void
light_progress_publish(LightQuery *query)
{
	LightProgressSlot *slot;
	LightProgressNode *nodes;
	LightAliases aliases = {0};

	if (query->slot < 0)
		return;
	for (int i = 1; i < query->nodes.n; i++)
		light_aliases_note(&aliases, query->nodes.node[i].planstate);
	slot = slot_at(query->slot);
	nodes = light_slot_nodes(slot);
	slot->leader = IsParallelWorker() && MyProc->lockGroupLeader != NULL ? MyProc->lockGroupLeader->pid : 0;
	slot->database = MyDatabaseId;
	slot->encoding = GetDatabaseEncoding();
	slot->role = query->role;
	slot->query_id = query->queryDesc->plannedstmt->queryId;
	slot->started = GetCurrentStatementStartTimestamp();
	slot->timed = query->timer;
	slot->work_mem = work_mem;
	slot->nnodes = query->nodes.n - 1;
	for (int i = 1; i < query->nodes.n; i++)
	{
		const LightNode *from = &query->nodes.node[i];
		LightProgressNode *node = &nodes[i - 1];

		node->id = from->planstate->plan->plan_node_id;
		node->parent = from->parent > 0 ? query->nodes.node[from->parent].planstate->plan->plan_node_id : -1;
		node->depth = from->depth;
		node->plan_rows = from->planstate->plan->plan_rows;
		node->plan_cost = from->planstate->plan->total_cost;
		node->plan_width = from->planstate->plan->plan_width;

		/*
		 * without counters of buffers the number of blocks read so far is not
		 * known
		 */
		node->plan_blocks = query->books.usage ? scanned_blocks(from->planstate) : 0;
		light_node_name(from->planstate, &aliases, &node->name);
	}
	pg_write_barrier();
	pg_atomic_fetch_add_u32(&slot->generation, 1);
}

/* Write the names of its nodes, each "stride" bytes after the one before; false if they are not there. */
bool
light_progress_names(LightQuery *query, LightNodeName *names, Size stride)
{
	const LightProgressNode *nodes;

	if (query->slot < 0)
		return false;
	nodes = light_slot_nodes(slot_at(query->slot));
	for (int i = 0; i < query->nodes.n - 1; i++)
		*(LightNodeName *) ((char *) names + i * stride) = nodes[i].name;
	return true;
}

/* The statement is finished and its counters are core's now: stop showing them. */
void
light_progress_hide(LightQuery *query)
{
	if (query->slot >= 0)
		pg_atomic_fetch_add_u32(&slot_at(query->slot)->generation, 1);
}

/* The statement's memory goes away. */
void
light_progress_release(LightQuery *query)
{
	if (query->slot >= 0)
		free_slot(query->slot);
	query->slot = -1;
}

/*
 * Copy a slot if it has a statement that the caller may see; returns its process,
 * or 0.
 */
uint32
light_slot_copy(int n, LightProgressSlot *copy, bool see_all)
{
	LightProgressSlot *slot = slot_at(n);
	uint32		generation = pg_atomic_read_u32(&slot->generation);
	uint64		owner = pg_atomic_read_u64(&shared->owners[n]);
	int			nnodes;

	if (owner == 0 || generation % 2 != 0)
		return 0;
	pg_read_barrier();
	if (!see_all && slot->role != GetUserId())
		return 0;

	/*
	 * most statements have few nodes; how many changes with the generation
	 * only
	 */
	nnodes = slot->nnodes;
	if (nnodes < 0 || nnodes > shared->nnodes)
		return 0;
	memcpy(copy, slot, sizeof(LightProgressSlot));
	memcpy(light_slot_nodes(copy), light_slot_nodes(slot), nnodes * sizeof(LightProgressNode));
	memcpy(light_slot_records(copy), light_slot_records(slot), (nnodes + 1) * sizeof(LightRecord));
	pg_read_barrier();
	if (pg_atomic_read_u32(&slot->generation) != generation || pg_atomic_read_u64(&shared->owners[n]) != owner)
		return 0;
	return OWNER_PID(owner);
}

/* Is core inside of a node that it measures itself?  Known if it is timed. */
static inline bool
inside_by_core(const LightProgressNode *node, const LightRecord *record)
{
	switch (node->name.kind.tag)
	{
		case T_Hash:
		case T_BitmapIndexScan:
		case T_BitmapAnd:
		case T_BitmapOr:
			return !INSTR_TIME_IS_ZERO(InstrStarted_compat(&record->core));
		default:
			return false;
	}
}

/*
 * The node whose record another process has on top of its stack, or the node below it in which
 * core is; LIGHT_NO_NODE for the root.  False if the record is in no slot.  The owner
 * may do anything in the meantime, so nothing that is read is relied on.
 */
bool
light_slot_node(const LightRecord *top, int *node)
{
	const char *first = shared != NULL && shared->nslots > 0 ? (const char *) slot_at(0) : NULL;
	Size		distance = first != NULL ? (const char *) slot_at(1) - first : 0;
	LightProgressSlot *slot;
	const LightProgressNode *nodes;
	const LightRecord *records;
	int			nnodes;
	int			i;

	if (first == NULL || (const char *) top < first || (const char *) top >= first + distance * shared->nslots)
		return false;
	slot = slot_at(((const char *) top - first) / distance);
	nodes = light_slot_nodes(slot);
	records = light_slot_records(slot);
	i = top - records;
	if (top < records || i > shared->nnodes || &records[i] != top)
		return false;
	*node = top->node_id;
	nnodes = slot->nnodes;
	if (i == 0 || nnodes > shared->nnodes)
		return true;
	for (int k = i; k < nnodes; k++)
	{
		if (nodes[k].depth <= nodes[i - 1].depth)
			break;
		if (nodes[k].parent == *node && inside_by_core(&nodes[k], &records[k + 1]))
			*node = nodes[k].id;
	}
	return true;
}

/* Slots, how many are taken, and how many statements got none. */
void
light_progress_counts(LightProgressCounts *counts)
{
	memset(counts, 0, sizeof(LightProgressCounts));
	if (shared == NULL)
		return;
	counts->slots = shared->nslots;
	for (int i = 0; i < shared->nslots; i++)
		counts->used += pg_atomic_read_u64(&shared->owners[i]) != 0;
	counts->refused_full = (int64) pg_atomic_read_u64(&shared->refused_full);
	counts->refused_role = (int64) pg_atomic_read_u64(&shared->refused_role);
	counts->refused_nodes = (int64) pg_atomic_read_u64(&shared->refused_nodes);
}

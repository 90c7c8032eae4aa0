/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  Deleting chunks that no row version refers to any more.
 *
 * Deleting or replacing a row never touches chunks; this does, for one table T at
 * a time, called from SQL and by the background worker:
 *
 *	1. T in ACCESS SHARE, an advisory lock of the store's own (busy: skip), the
 *	   store in ROW EXCLUSIVE, in this order.
 *	2. One snapshot S, taken after the locks, for marking and sweeping.
 *	3. Mark: every row version of T but those that are dead to all, under a horizon
 *	   not after S.xmin.  References only, no chunk is read.  Anything that is not
 *	   understood ends the vacuum.
 *	4. Sweep: chunks that S sees and no marked reference covers are deleted.
 *
 * A chunk that S sees was committed, together with the row that refers to it,
 * before S.  That row version, or one that continued its value, is still in T when
 * T is read: whoever removed it is not before S.xmin.  Chunks of transactions that
 * run meanwhile are not seen by S and stay.
 *
 * The sweep goes through the index by value id: two descents a value that is in
 * order, so a large value costs no more than a small one.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat_table.h"
#include "ddl.h"
#include "store.h"
#include "sweep.h"

PG_FUNCTION_INFO_V1(appendable_bytea_vacuum);

/* the last field of our advisory locks; core's are 1 and 2 */
#define LOCK_CLASS		0xAB

/* what is noted about the store of a table that is gone */
#define ORPHAN_COMMENT	"table gone before WAL position %X/%X"

/* TIDs that are gathered before they are deleted */
#define DELETE_BATCH	4096

HTAB *
ab_marks_create(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(int64);
	ctl.entrysize = sizeof(AbMark);
	ctl.hcxt = CurrentMemoryContext;
	return hash_create("appendable_bytea marks", 1024, &ctl,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Note a reference that is in a row of rel. */
void
ab_marks_add(HTAB *marks, Relation rel, const AbRef *ref)
{
	AbMark	   *mark;
	bool		found;

	if (ref->home != RelationGetRelid(rel))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("table \"%s\" has an appendable_bytea value whose chunks belong to table %u",
						RelationGetRelationName(rel), ref->home),
				 errhint("Call appendable_bytea_repair() for the table.")));
	mark = hash_search(marks, &ref->vid, HASH_ENTER, &found);
	if (!found)
	{
		mark->stored = ref->stored;
		mark->min_edition = mark->max_edition = ref->edition;
		mark->references = 0;
	}
	mark->stored = Max(mark->stored, ref->stored);
	mark->min_edition = Min(mark->min_edition, ref->edition);
	mark->max_edition = Max(mark->max_edition, ref->edition);
	mark->references++;
}

/*
 * Every relation that stores the type must be one that vacuum looks into, or it
 * would delete chunks that others refer to.
 */
static void
require_all_attached(void)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			stray = InvalidOid;

	if (!OidIsValid(ab_type_oid()) || !OidIsValid(ab_am_oid()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("type or access method of extension \"%s\" is not where it belongs",
						AB_EXTENSION)));
	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(TypeRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ab_type_oid()));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
		HeapTuple	class;

		if (form->classid != RelationRelationId || form->objsubid == 0)
			continue;
		class = SearchSysCache1(RELOID, ObjectIdGetDatum(form->objid));
		if (HeapTupleIsValid(class))
		{
			Form_pg_class row = (Form_pg_class) GETSTRUCT(class);

			if ((row->relkind == RELKIND_RELATION && row->relam != ab_am_oid()) ||
				row->relkind == RELKIND_MATVIEW)
				stray = form->objid;
			ReleaseSysCache(class);
		}
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	if (OidIsValid(stray))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has a column of type %s but is not on access method \"%s\"",
						get_rel_name(stray), AB_TYPE, AB_AM),
				 errhint("Call appendable_bytea_repair() for that table.")));
}

/*
 * Mark all references in row versions that are not dead to all.  Returns how many of
 * these versions are on their way there.
 */
static int64
mark_table(Relation rel, Snapshot snapshot, HTAB *marks)
{
	TupleDesc	desc = RelationGetDescr(rel);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsBufferHeapTuple);
	TableScanDesc scan;
	TransactionId horizon = GetOldestNonRemovableTransactionId(rel);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "appendable_bytea mark",
												  ALLOCSET_DEFAULT_SIZES);
	int64		dying = 0;

	if (TransactionIdFollows(horizon, snapshot->xmin))
		horizon = snapshot->xmin;
	scan = table_beginscan_compat(rel, SnapshotAny, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		BufferHeapTupleTableSlot *bslot = (BufferHeapTupleTableSlot *) slot;
		HeapTuple	tuple = bslot->base.tuple;
		HTSV_Result state;
		MemoryContext oldcontext;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(bslot->buffer, BUFFER_LOCK_SHARE);
		state = HeapTupleSatisfiesVacuum(tuple, horizon, bslot->buffer);
		LockBuffer(bslot->buffer, BUFFER_LOCK_UNLOCK);
		if (state == HEAPTUPLE_DEAD)
			continue;
		if (state == HEAPTUPLE_RECENTLY_DEAD || state == HEAPTUPLE_DELETE_IN_PROGRESS)
			dying++;
		oldcontext = MemoryContextSwitchTo(context);
		for (int i = 0; i < desc->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(desc, i);
			bool		isnull;
			Datum		value;
			AbRef		ref;

			if (att->attisdropped || att->atttypid != ab_type_oid())
				continue;
			value = heap_getattr(tuple, i + 1, desc, &isnull);
			if (!isnull && ab_parse_reference(value, &ref))
				ab_marks_add(marks, rel, &ref);
		}
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(context);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(context);
	return dying;
}

/* Chunks to delete. */
typedef struct Garbage
{
	ItemPointerData tids[DELETE_BATCH];
	int			n;
	AbSweepResult *result;
} Garbage;

static void
delete_garbage(Relation heap, Garbage *garbage)
{
	for (int i = 0; i < garbage->n; i++)
	{
		simple_heap_delete(heap, &garbage->tids[i]);
		if (ab_vacuum_cost_delay > 0 && i % 200 == 199)
			pg_usleep((long) (ab_vacuum_cost_delay * 1000));
		CHECK_FOR_INTERRUPTS();
	}
	garbage->n = 0;
}

/*
 * Decide about the chunks of one value from byte "from" on.  Returns the offset to
 * go on at when the batch is full, or -1 when done.
 */
static int64
sweep_value(Relation heap, Relation index, Snapshot snapshot, int64 vid,
			const AbMark *mark, int64 from, Garbage *garbage)
{
	SysScanDesc scan = ab_chunk_scan(heap, index, snapshot, vid, from, PG_INT64_MAX);
	HeapTuple	tuple;
	int64		expected = 0;	/* where the next chunk of the layout starts */
	int64		last_off = -1;
	bool		superseded = false;
	bool		one_edition = mark && mark->min_edition == mark->max_edition;
	int64		next = -1;

	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		AbChunk		chunk;
		bool		unused;

		CHECK_FOR_INTERRUPTS();
		ab_chunk_deform(heap, tuple, &chunk);
		if (chunk.off != last_off)
		{
			/*
			 * a batch ends between two offsets, so that going on loses
			 * nothing
			 */
			if (garbage->n > DELETE_BATCH / 2)
			{
				next = chunk.off;
				break;
			}
			last_off = chunk.off;
			superseded = false;
		}
		if (mark == NULL || chunk.off >= mark->stored ||
			chunk.edition > mark->max_edition || superseded)
			unused = true;
		else if (one_edition && mark->max_edition > 0 && from == 0)
		{
			/*
			 * The one layout that is referred to says which chunks it has, as
			 * far as the snapshot sees it: a mark may come from an append
			 * that is not committed yet, and what then lies beyond the gap
			 * are chunks cut off by a truncation.  They wait for the next
			 * vacuum.
			 */
			if (chunk.off > expected)
				one_edition = false;
			unused = chunk.off < expected;
			if (!unused)
				expected += chunk.length;
		}
		else
			unused = false;
		if (!unused && mark && chunk.edition <= mark->min_edition)
			superseded = true;
		if (unused && garbage->n < DELETE_BATCH)
		{
			garbage->tids[garbage->n++] = tuple->t_self;
			garbage->result->chunks++;
			garbage->result->bytes += chunk.length;
		}
	}
	systable_endscan_ordered(scan);
	return next;
}

/* The smallest value id above "after" that has a chunk, or 0. */
static int64
next_value(Relation heap, Relation index, Snapshot snapshot, int64 after)
{
	ScanKeyData key[1];
	SysScanDesc scan;
	HeapTuple	tuple;
	int64		vid = 0;

	ScanKeyInit(&key[0], AB_CHUNK_VID, BTGreaterStrategyNumber, F_INT8GT,
				Int64GetDatum(after));
	scan = systable_beginscan_ordered(heap, index, snapshot, 1, key);
	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	if (tuple != NULL)
	{
		AbChunk		chunk;

		ab_chunk_deform(heap, tuple, &chunk);
		vid = chunk.vid;
	}
	systable_endscan_ordered(scan);
	return vid;
}

static void
sweep_store(Oid home, Snapshot snapshot, HTAB *marks, AbSweepResult *result)
{
	Relation	heap;
	Relation	index;
	Garbage    *garbage = palloc(sizeof(Garbage));
	int64		vid = 0;

	if (!ab_store_open(home, RowExclusiveLock, &heap, &index))
		elog(ERROR, "table %u has no chunk store", home);
	garbage->n = 0;
	garbage->result = result;
	while ((vid = next_value(heap, index, snapshot, vid)) != 0)
	{
		AbMark	   *mark = hash_search(marks, &vid, HASH_FIND, NULL);
		int64		from = 0;

		/* a value that was never edited has garbage behind its end alone */
		if (mark && mark->max_edition == 0)
			from = mark->stored;
		while (from >= 0)
		{
			from = sweep_value(heap, index, snapshot, vid, mark, from, garbage);
			if (from >= 0)
				delete_garbage(heap, garbage);
		}
		if (garbage->n > DELETE_BATCH / 2)
			delete_garbage(heap, garbage);
	}
	delete_garbage(heap, garbage);
	pfree(garbage);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

/*
 * May the store of a table that is gone be dropped?  While a slot has not passed the
 * last change of the table it may have to be read.  That change is before the first
 * vacuum that finds the table gone, which notes its WAL position in a comment.
 */
static bool
orphan_unused(Oid heap)
{
	char	   *comment;
	XLogRecPtr	since;
	uint32		high,
				low;

	if (!ab_store_decodable(heap) || !ab_logical_slots_exist())
		return true;
	comment = GetComment(heap, RelationRelationId, 0);
	if (comment != NULL && sscanf(comment, ORPHAN_COMMENT, &high, &low) == 2)
	{
		since = ((uint64) high << 32) | low;
		return ab_logical_slots_passed(since);
	}
	since = GetXLogInsertRecPtr();
	CreateComments(heap, RelationRelationId, 0,
				   psprintf(ORPHAN_COMMENT, (uint32) (since >> 32), (uint32) since));
	return false;
}

/*
 * Vacuum the store of table "home"; drop it if the table is gone or no longer ours.
 * Takes locks until the end of the transaction.
 */
void
ab_vacuum_store(Oid home, AbSweepResult *result)
{
	AbStore		store;
	Relation	rel;
	Snapshot	snapshot;
	HTAB	   *marks;
	LOCKTAG		tag;
	MemoryContext context,
				oldcontext;

	memset(result, 0, sizeof(*result));
	PreventCommandIfReadOnly("appendable_bytea_vacuum()");
	PreventCommandDuringRecovery("appendable_bytea_vacuum()");
	require_all_attached();

	/*
	 * held whether the table exists or not: it must not come into being
	 * meanwhile
	 */
	LockRelationOid(home, AccessShareLock);
	rel = try_table_open(home, NoLock);
	if (rel != NULL && !ab_is_ours(rel))
	{
		table_close(rel, NoLock);
		rel = NULL;
	}
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, home, 0, LOCK_CLASS);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL ||
		!ab_store_find(home, &store))
	{
		result->skipped = true;
		if (rel)
			table_close(rel, NoLock);
		return;
	}
	if (rel == NULL)
	{
		if (orphan_unused(store.heap))
			result->dropped = ab_store_drop(home);
		return;
	}
	LockRelationOid(store.heap, RowExclusiveLock);

	context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea vacuum",
									ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	marks = ab_marks_create();
	result->dying = mark_table(rel, snapshot, marks);
	result->values = hash_get_num_entries(marks);
	sweep_store(home, snapshot, marks, result);
	/* another vacuum of the same statement must see what is deleted */
	CommandCounterIncrement();
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
}

/*
 * appendable_bytea_vacuum(regclass): vacuum the store of one table, or with NULL of
 * all tables that the user owns (a superuser: of all, and of tables that are gone).
 */
Datum
appendable_bytea_vacuum(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *homes;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		homes = ab_store_list();
	else
	{
		Oid			relid = PG_GETARG_OID(0);

		if (get_rel_name(relid) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation with OID %u does not exist", relid)));
		if (!RelationOwnerCheck_compat(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
		homes = list_make1_oid(relid);
	}
	foreach(lc, homes)
	{
		Oid			home = lfirst_oid(lc);
		AbSweepResult result;
		Datum		values[4];
		bool		nulls[4] = {0};

		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(home)) ?
			!RelationOwnerCheck_compat(home, GetUserId()) : !superuser())
			continue;
		ab_vacuum_store(home, &result);
		values[0] = ObjectIdGetDatum(home);
		values[1] = Int64GetDatum(result.chunks);
		values[2] = Int64GetDatum(result.bytes);
		values[3] = CStringGetTextDatum(result.skipped ? "skipped" : result.dropped ? "store dropped" : "done");
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

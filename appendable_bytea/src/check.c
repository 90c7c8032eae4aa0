/*-------------------------------------------------------------------------
 *
 * check.c
 *	  appendable_bytea_check: every reference against its chunks.
 *
 * Reads each value that the snapshot sees, chunk by chunk, and reports a problem as
 * a row instead of an error, so that one damaged value does not hide the next.
 * Memory does not depend on the size of values.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/itemptr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat_table.h"
#include "store.h"
#include "sweep.h"

PG_FUNCTION_INFO_V1(appendable_bytea_check);

typedef struct Check
{
	ReturnSetInfo *rsinfo;
	Relation	rel;
	Relation	heap;			/* the store, or NULL */
	Relation	index;
	HTAB	   *marks;
} Check;

static void
report(Check *check, ItemPointer tid, const char *column, const char *problem)
{
	Datum		values[4];
	bool		nulls[4] = {0};

	values[0] = ObjectIdGetDatum(RelationGetRelid(check->rel));
	values[1] = PointerGetDatum(tid);
	values[2] = CStringGetTextDatum(column);
	values[3] = CStringGetTextDatum(problem);
	tuplestore_putvalues(check->rsinfo->setResult, check->rsinfo->setDesc, values, nulls);
}

/* What is wrong with the chunks of a reference, or NULL. */
static char *
check_chunks(Check *check, const AbRef *ref)
{
	SysScanDesc scan;
	HeapTuple	tuple;
	int64		expected = 0;
	uint32		crc = AB_CRC_INIT;
	char	   *problem = NULL;

	if (check->heap == NULL)
		return pstrdup("the table has no chunk store");
	scan = ab_chunk_scan(check->heap, check->index, GetActiveSnapshot(), ref->vid, 0, ref->stored);
	while (problem == NULL &&
		   (tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		AbChunk		chunk;

		CHECK_FOR_INTERRUPTS();
		ab_chunk_deform(check->heap, tuple, &chunk);
		if (chunk.edition > ref->edition || chunk.off < expected)
			continue;
		if (chunk.off > expected)
			break;
		if (!ab_chunk_intact(&chunk))
			problem = psprintf("the chunk at offset %lld is damaged", (long long) chunk.off);
		else if (ref->edition == 0 && chunk.prev != crc)
			problem = psprintf("the chunk at offset %lld does not continue the one before it",
							   (long long) chunk.off);
		crc = chunk.crc;
		expected = chunk.off + chunk.length;
	}
	systable_endscan_ordered(scan);
	if (problem)
		return problem;
	if (expected < ref->stored)
		return psprintf("byte %lld is in no chunk", (long long) expected);
	if (expected > ref->stored)
		return pstrdup("the last chunk reaches beyond the value");
	if (crc != ref->crc)
		return pstrdup("the last chunk is not the one that was written last");
	return NULL;
}

/*
 * Take a datum apart; what is wrong with it, or NULL.  Nothing but memory is used
 * once the datum is fetched, so that an error leaves nothing behind.
 */
static char *
parse_value(Datum value, AbValue *parsed)
{
	MemoryContext context = CurrentMemoryContext;
	const Datum fetched = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
	char	   *volatile problem = NULL;

	PG_TRY();
	{
		ab_parse(fetched, parsed);
		if (parsed->edited)
			problem = "the value is one that is never stored";
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		FlushErrorState();
		problem = psprintf("%s: %s", error->message, error->detail ? error->detail : "");
	}
	PG_END_TRY();
	return problem;
}

static void
check_value(Check *check, ItemPointer tid, const char *column, Datum value)
{
	AbValue		parsed;
	AbRef		ref;
	AbMark	   *mark;
	bool		found;
	char	   *problem = parse_value(value, &parsed);

	if (problem)
	{
		report(check, tid, column, problem);
		return;
	}
	ref = parsed.base;
	if (ref.vid == 0)
		return;
	if (ref.home != RelationGetRelid(check->rel))
	{
		report(check, tid, column, psprintf("the chunks belong to table %u", ref.home));
		return;
	}
	mark = hash_search(check->marks, &ref.vid, HASH_ENTER, &found);
	if (found)
		report(check, tid, column, "another row has the same chunks");
	mark->references = 1;
	problem = check_chunks(check, &ref);
	if (problem)
		report(check, tid, column, problem);
}

static void
check_table(ReturnSetInfo *rsinfo, Oid relid)
{
	Check		check;
	TupleDesc	desc;
	TupleTableSlot *slot;
	TableScanDesc scan;
	MemoryContext context;

	memset(&check, 0, sizeof(check));
	check.rsinfo = rsinfo;
	check.rel = table_open(relid, AccessShareLock);
	if (!ab_is_ours(check.rel))
	{
		table_close(check.rel, NoLock);
		return;
	}
	if (!ab_store_open(relid, AccessShareLock, &check.heap, &check.index))
		check.heap = NULL;
	check.marks = ab_marks_create();
	desc = RelationGetDescr(check.rel);
	slot = table_slot_create(check.rel, NULL);
	context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea check",
									ALLOCSET_DEFAULT_SIZES);
	scan = table_beginscan_compat(check.rel, GetActiveSnapshot(), 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(context);

		for (int i = 0; i < desc->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(desc, i);
			bool		isnull;
			Datum		value;

			if (att->attisdropped || att->atttypid != ab_type_oid())
				continue;
			value = slot_getattr(slot, i + 1, &isnull);
			if (!isnull)
				check_value(&check, &slot->tts_tid, NameStr(att->attname), value);
		}
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(context);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(context);
	hash_destroy(check.marks);
	if (check.heap)
	{
		index_close(check.index, NoLock);
		table_close(check.heap, NoLock);
	}
	table_close(check.rel, NoLock);
}

/*
 * appendable_bytea_check(regclass): a row for each value that is not as it must be;
 * with NULL, of all tables that have chunks.
 */
Datum
appendable_bytea_check(PG_FUNCTION_ARGS)
{
	List	   *homes;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	homes = PG_ARGISNULL(0) ? ab_store_list() : list_make1_oid(PG_GETARG_OID(0));
	foreach(lc, homes)
	{
		Oid			home = lfirst_oid(lc);

		if (get_rel_name(home) == NULL)
		{
			if (PG_ARGISNULL(0))
				continue;
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation with OID %u does not exist", home)));
		}
		if (!ab_may_look(home))
		{
			if (PG_ARGISNULL(0))
				continue;
			aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(home));
		}
		check_table((ReturnSetInfo *) fcinfo->resultinfo, home);
	}
	return (Datum) 0;
}

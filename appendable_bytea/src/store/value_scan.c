/*-------------------------------------------------------------------------
 *
 * value_scan.c
 *	  Find the values of the type: columns of a table, and its rows.
 *
 * Use ab_next_column() to iterate over the columns of a row.  Code that visits every
 * value of a table (check, repair, statistics) scans it with these functions; they
 * return the values visible to the snapshot, and free a value's memory when the next
 * one is fetched.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "store/store.h"

/* The first column of the extension's types after "attnum" (0: of all); 0 if there is none. */
AttrNumber
ab_next_column(TupleDesc desc, AttrNumber attnum)
{
	while (attnum < desc->natts)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attnum++);

		if (!att->attisdropped && ab_type_of(att->atttypid) != NULL)
			return attnum;
	}
	return 0;
}

/*
 * The type of a value of a table for messages, where only the reference is known: that of all
 * of its columns of our types, or "appendable" if they differ or there is none.
 */
const char *
ab_value_type_name(Oid relid)
{
	const AbType *found = NULL;

	for (AttrNumber n = 1; get_attname(relid, n, true) != NULL; n++)
	{
		const AbType *column = ab_type_of(get_atttype(relid, n));

		if (found != NULL && column != NULL && column != found)
			return "appendable";
		found = column ? column : found;
	}
	return found ? found->name : "appendable";
}

/* Begin to scan the values of a table, in the current memory context. */
void
ab_values_begin(AbValueScan *scan, Relation rel, Snapshot snapshot)
{
	scan->rel = rel;
	scan->slot = table_slot_create(rel, NULL);
	scan->scan = table_beginscan_compat(rel, snapshot, 0, NULL);
	scan->context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea values",
										  ALLOCSET_DEFAULT_SIZES);
	scan->attnum = 0;
}

/* The next value that is not null; false at the end. */
bool
ab_values_next(AbValueScan *scan)
{
	bool		isnull;

	MemoryContextReset(scan->context);
	do
	{
		if (scan->attnum > 0)
			scan->attnum = ab_next_column(RelationGetDescr(scan->rel), scan->attnum);
		while (scan->attnum == 0)
		{
			CHECK_FOR_INTERRUPTS();
			if (!table_scan_getnextslot(scan->scan, ForwardScanDirection, scan->slot))
				return false;
			scan->attnum = ab_next_column(RelationGetDescr(scan->rel), 0);
		}
		scan->value = slot_getattr(scan->slot, scan->attnum, &isnull);
	} while (isnull);
	return true;
}

void
ab_values_end(AbValueScan *scan)
{
	table_endscan(scan->scan);
	ExecDropSingleTupleTableSlot(scan->slot);
	MemoryContextDelete(scan->context);
}

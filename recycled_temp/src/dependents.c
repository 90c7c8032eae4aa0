/*-------------------------------------------------------------------------
 *
 * dependents.c
 *	  Catalog rows that belong to a table and its parts: dependencies, comments.
 *
 * The parts of a table were usually created by one statement, so their OIDs follow
 * each other.  One index scan therefore reads the rows of a range of OIDs, and the
 * rows of other objects in the range are skipped.  An object outside the range is
 * read by another scan, so the result does not depend on OIDs.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/indexing.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_seclabel.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat_catalog.h"
#include "inspect.h"

/* OIDs before and after an object that the scan for it also reads */
#define RANGE_BEFORE 4
#define RANGE_AFTER 20

static void
use_index(ObjectRows *rows, Oid index)
{
	rows->index = index_open(index, AccessShareLock);
	rows->index_id = index;
	rows->n = -1;
	/* indexes of pg_depend begin with the class, the others with the object */
	rows->by_class = index == DependReferenceIndexId || index == DependDependerIndexId;
	rows->scan = index_beginscan_compat(rows->catalog, rows->index, rows->snapshot, rows->by_class ? 3 : 2);
}

static void
leave_index(ObjectRows *rows)
{
	index_endscan(rows->scan);
	index_close(rows->index, AccessShareLock);
}

/* Prepare to read rows of "catalog" by "index". */
void
object_rows_open(ObjectRows *rows, Oid catalog, Oid index)
{
	rows->catalog = table_open(catalog, AccessShareLock);
	rows->slot = table_slot_create(rows->catalog, NULL);
	rows->snapshot = RegisterSnapshot(GetCatalogSnapshot(catalog));
	use_index(rows, index);
}

/* Continue with another index of the catalog. */
void
object_rows_by(ObjectRows *rows, Oid index)
{
	leave_index(rows);
	use_index(rows, index);
}

void
object_rows_close(ObjectRows *rows)
{
	leave_index(rows);
	UnregisterSnapshot(rows->snapshot);
	ExecDropSingleTupleTableSlot(rows->slot);
	table_close(rows->catalog, AccessShareLock);
}

/* The class and object by which the index finds a row. */
static void
fill_row(ObjectRow *row, Oid index, void *form)
{
	if (index == DependReferenceIndexId || index == DependDependerIndexId)
	{
		row->depend = *(Form_pg_depend) form;
		row->class = index == DependReferenceIndexId ? row->depend.refclassid : row->depend.classid;
		row->object = index == DependReferenceIndexId ? row->depend.refobjid : row->depend.objid;
	}
	else if (index == DescriptionObjIndexId)
	{
		row->class = ((Form_pg_description) form)->classoid;
		row->object = ((Form_pg_description) form)->objoid;
	}
	else
	{
		row->class = ((FormData_pg_seclabel *) form)->classoid;
		row->object = ((FormData_pg_seclabel *) form)->objoid;
	}
}

/* Read the rows of a range of objects; false if there are too many. */
static bool
load(ObjectRows *rows, Oid class, Oid first, Oid last)
{
	ScanKeyData key[3];
	int			n = 0;

	if (rows->by_class)
		ScanKeyInit(&key[n++], 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(class));
	ScanKeyInit(&key[n], n == 0 ? 1 : 2, BTGreaterEqualStrategyNumber, F_OIDGE, ObjectIdGetDatum(first));
	ScanKeyInit(&key[n + 1], n == 0 ? 1 : 2, BTLessEqualStrategyNumber, F_OIDLE, ObjectIdGetDatum(last));
	index_rescan(rows->scan, key, n + 2, NULL, 0);
	rows->class = class;
	rows->first = first;
	rows->last = last;
	rows->n = 0;
	while (index_getnext_slot(rows->scan, ForwardScanDirection, rows->slot))
	{
		bool		must_free;

		if (rows->n == OBJECT_ROWS_MAX)
		{
			rows->n = -1;
			return false;
		}
		fill_row(&rows->rows[rows->n++], rows->index_id,
				 GETSTRUCT(ExecFetchSlotHeapTuple(rows->slot, false, &must_free)));
	}
	return true;
}

/*
 * Begin with the rows of an object.  False if there are more than could be those of
 * a plain table.
 */
bool
object_rows_start(ObjectRows *rows, Oid class, Oid object)
{
	rows->wanted_class = class;
	rows->wanted = object;
	rows->next = 0;
	if (rows->n >= 0 && (!rows->by_class || rows->class == class) && object >= rows->first && object <= rows->last)
		return true;
	return load(rows, class, object - Min(object, RANGE_BEFORE), object + Min(PG_UINT32_MAX - object, RANGE_AFTER)) ||
		load(rows, class, object, object);
}

/* The next row of the object, or NULL. */
ObjectRow *
object_rows_next(ObjectRows *rows)
{
	while (rows->next < rows->n)
	{
		ObjectRow  *row = &rows->rows[rows->next++];

		if (row->object == rows->wanted && row->class == rows->wanted_class)
			return row;
	}
	return NULL;
}

/*-------------------------------------------------------------------------
 *
 * inspect.h
 *	  Catalog rows by object, shared by inspect.c, parts.c and defaults.c.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef INSPECT_H
#define INSPECT_H

#include "access/genam.h"
#include "catalog/pg_depend.h"
#include "executor/tuptable.h"
#include "utils/snapshot.h"

#include "recycled_temp.h"

#define OBJECT_ROWS_MAX 128

typedef struct ObjectRow
{
	Oid			class;
	Oid			object;
	FormData_pg_depend depend;	/* in pg_depend */
} ObjectRow;

/* Rows of a catalog that belong to one object after another. */
typedef struct ObjectRows
{
	Relation	catalog;
	Relation	index;
	Oid			index_id;
	bool		by_class;
	Snapshot	snapshot;
	IndexScanDesc scan;
	TupleTableSlot *slot;
	Oid			class;			/* the rows that were read: of this class */
	Oid			first;
	Oid			last;			/* and these objects */
	int			n;				/* -1: none were read */
	ObjectRow	rows[OBJECT_ROWS_MAX];
	Oid			wanted_class;
	Oid			wanted;
	int			next;
} ObjectRows;

/* dependents.c */
extern void object_rows_open(ObjectRows *rows, Oid catalog, Oid index);
extern void object_rows_by(ObjectRows *rows, Oid index);
extern void object_rows_close(ObjectRows *rows);
extern bool object_rows_start(ObjectRows *rows, Oid class, Oid object);
extern ObjectRow *object_rows_next(ObjectRows *rows);

/* parts.c */
extern bool plain_types(RecycledTable *table, Oid owner);
extern bool plain_toast(RecycledTable *table, Form_pg_class form);
extern bool plain_toast_index(RecycledTable *table);
extern bool plain_constraint(RecycledTable *table, Oid constraint, Form_pg_class heap, bool pooled);

/* defaults.c */
extern void defaults_read(RecycledTable *table);

#endif							/* INSPECT_H */

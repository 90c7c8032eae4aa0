/*-------------------------------------------------------------------------
 *
 * rename.c
 *	  Updates of catalog rows that keep.c and recycle.c share.
 *
 * The callers have locked the table, so that no other session updates these rows, and
 * increment the command counter afterwards.
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
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "catalog/storage.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat_catalog.h"
#include "compat_storage.h"
#include "rename.h"

/*
 * Store a changed copy of a pg_class row.  The caller has locked pg_class since before
 * it copied the row: VACUUM FULL of pg_class by another session moves rows.
 */
void
rename_class(HeapTuple row)
{
	Relation	rel = table_open(RelationRelationId, RowExclusiveLock);

	CatalogTupleUpdate(rel, &row->t_self, row);
	table_close(rel, RowExclusiveLock);
}

static void
rename_type(Relation rel, CatalogIndexState indexes, Oid type, const char *name)
{
	HeapTuple	row = SearchSysCacheCopy1(TYPEOID, ObjectIdGetDatum(type));

	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for type %u", type);
	namestrcpy(&((Form_pg_type) GETSTRUCT(row))->typname, name);
	CatalogTupleUpdateWithInfo(rel, &row->t_self, row, indexes);
	heap_freetuple(row);
}

void
rename_types(Oid rowtype, Oid arraytype, const char *name, const char *array_name)
{
	Relation	rel = table_open(TypeRelationId, RowExclusiveLock);
	CatalogIndexState indexes = CatalogOpenIndexes(rel);

	rename_type(rel, indexes, rowtype, name);
	rename_type(rel, indexes, arraytype, array_name);
	CatalogCloseIndexes(indexes);
	table_close(rel, RowExclusiveLock);
}

/* The index of a key; its rows are none. */
void
rename_index(Oid index, const char *name, int pages)
{
	Relation	rel = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	row = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(index));
	Form_pg_class form;

	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for relation %u", index);
	form = (Form_pg_class) GETSTRUCT(row);
	namestrcpy(&form->relname, name);
	form->relpages = pages;
	form->reltuples = 0;
	CatalogTupleUpdate(rel, &row->t_self, row);
	heap_freetuple(row);
	table_close(rel, RowExclusiveLock);
}

void
rename_constraint(Oid constraint, const char *name)
{
	Relation	rel = table_open(ConstraintRelationId, RowExclusiveLock);
	HeapTuple	row = SearchSysCacheCopy1(CONSTROID, ObjectIdGetDatum(constraint));

	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	namestrcpy(&((Form_pg_constraint) GETSTRUCT(row))->conname, name);
	CatalogTupleUpdate(rel, &row->t_self, row);
	heap_freetuple(row);
	table_close(rel, RowExclusiveLock);
}

/* Give a table an empty file, as TRUNCATE does; the old one is removed at commit. */
void
rename_new_file(Relation rel, Form_pg_class form)
{
	RelFileLocator_compat locator = rd_locator_compat(rel);

	SetLocatorFile_compat(locator, GetNewRelFile_compat(form->reltablespace));
	RelationDropStorage(rel);
	table_relation_set_new_file_compat(rel, &locator, &form->relfrozenxid, &form->relminmxid);
	form->relfilenode = RelFileNumber_compat(locator);
}

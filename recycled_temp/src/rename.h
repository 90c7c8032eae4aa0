/*-------------------------------------------------------------------------
 *
 * rename.h
 *	  Updates of catalog rows that keep.c and recycle.c share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RECYCLED_TEMP_RENAME_H
#define RECYCLED_TEMP_RENAME_H

#include "catalog/pg_class.h"

#include "recycled_temp.h"

extern void rename_class(HeapTuple row);
extern void rename_types(Oid rowtype, Oid arraytype, const char *name, const char *array_name);
extern void rename_index(Oid index, const char *name, int pages);
extern void rename_constraint(Oid constraint, const char *name);
extern void rename_new_file(Relation rel, Form_pg_class form);

#endif							/* RECYCLED_TEMP_RENAME_H */

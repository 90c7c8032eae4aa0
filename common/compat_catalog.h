/*-------------------------------------------------------------------------
 *
 * compat_catalog.h
 *	  Differences between PostgreSQL 15 and 19 in catalog rows, scans of
 *	  catalog indexes, and files of relations as the catalogs name them.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_CATALOG_H
#define COMPAT_CATALOG_H

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "catalog/catalog.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Privileges on a type and on a tablespace. */
#if PG_VERSION_NUM >= 160000
#define TypeAclCheck_compat(type, role, mode) object_aclcheck(TypeRelationId, type, role, mode)
#define TablespaceAclCheck_compat(tablespace, role, mode) object_aclcheck(TableSpaceRelationId, tablespace, role, mode)
#else
#define TypeAclCheck_compat(type, role, mode) pg_type_aclcheck(type, role, mode)
#define TablespaceAclCheck_compat(tablespace, role, mode) pg_tablespace_aclcheck(tablespace, role, mode)
#endif

/* The statistics target of a column is null by default since 17. */
static inline bool
HasStatisticsTarget_compat(HeapTuple attribute)
{
#if PG_VERSION_NUM >= 170000
	return !heap_attisnull(attribute, Anum_pg_attribute_attstattarget, NULL);
#else
	return ((Form_pg_attribute) GETSTRUCT(attribute))->attstattarget != -1;
#endif
}

/*
 * Does a column have options that a user set?  Minor releases from 15.20 on keep the
 * version of each column there.  The caller has found that there are no privileges, so
 * options are the first value after the fixed part of the row.
 */
static inline bool
HasColumnOptions_compat(HeapTuple attribute)
{
#ifdef ATTRIBUTE_VERSION_ATTOPTION
	const char *version = ATTRIBUTE_VERSION_ATTOPTION "=";
	const char *value = (const char *) GETSTRUCT(attribute) + ATTRIBUTE_FIXED_PART_SIZE;
	ArrayType  *array;
	text	   *first;
	bool		other;

	if (heap_attisnull(attribute, Anum_pg_attribute_attoptions, NULL))
		return false;
	if (!VARATT_NOT_PAD_BYTE(value))
		value = (const char *) INTALIGN(value);
	array = DatumGetArrayTypeP(PointerGetDatum(value));
	first = (text *) ARR_DATA_PTR(array);
	other = ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] != 1 || ARR_HASNULL(array) ||
		VARSIZE_ANY_EXHDR(first) <= strlen(version) ||
		strncmp(VARDATA_ANY(first), version, strlen(version)) != 0;
	if ((const char *) array != value)
		pfree(array);
	return other;
#else
	return !heap_attisnull(attribute, Anum_pg_attribute_attoptions, NULL);
#endif
}

/* 18 counts frozen pages. */
#if PG_VERSION_NUM >= 180000
#define ClassAllFrozen_compat(form) ((form)->relallfrozen)
#define ClassResetAllFrozen_compat(form) ((form)->relallfrozen = 0)
#else
#define ClassAllFrozen_compat(form) 0
#define ClassResetAllFrozen_compat(form) ((void) 0)
#endif

/* Since 18 NOT NULL is a constraint with a name, may be not yet valid, and keys have periods. */
#if PG_VERSION_NUM >= 180000
#define NOT_NULL_HAS_CONSTRAINT_compat true
#define CONSTRAINT_IS_NOT_NULL_compat(form) ((form)->contype == CONSTRAINT_NOTNULL)
#define ConstraintIsUnusual_compat(form) (!(form)->conenforced || (form)->conperiod)
#else
#define NOT_NULL_HAS_CONSTRAINT_compat false
#define CONSTRAINT_IS_NOT_NULL_compat(form) false
#define ConstraintIsUnusual_compat(form) false
#endif

/* Clauses of CREATE TABLE that came with 18 and 16. */
#if PG_VERSION_NUM >= 180000
#define ConstraintWithoutOverlaps_compat(constraint) ((constraint)->without_overlaps)
#else
#define ConstraintWithoutOverlaps_compat(constraint) false
#endif
#if PG_VERSION_NUM >= 160000
#define ColumnHasStorage_compat(column) ((column)->storage_name != NULL)
#else
#define ColumnHasStorage_compat(column) false
#endif

#if PG_VERSION_NUM >= 160000
#define GetNewRelFile_compat(tablespace) GetNewRelFileNumber(tablespace, NULL, RELPERSISTENCE_TEMP)
#define SetLocatorFile_compat(locator, number) ((locator).relNumber = (number))
#define RelationAssumeNewFile_compat(rel) RelationAssumeNewRelfilelocator(rel)
#define table_relation_set_new_file_compat(rel, locator, xid, multi) \
	table_relation_set_new_filelocator(rel, locator, RELPERSISTENCE_TEMP, xid, multi)
#else
#define GetNewRelFile_compat(tablespace) GetNewRelFileNode(tablespace, NULL, RELPERSISTENCE_TEMP)
#define SetLocatorFile_compat(locator, number) ((locator).relNode = (number))
#define RelationAssumeNewFile_compat(rel) RelationAssumeNewRelfilenode(rel)
#define table_relation_set_new_file_compat(rel, locator, xid, multi) \
	table_relation_set_new_filenode(rel, locator, RELPERSISTENCE_TEMP, xid, multi)
#endif

/* Truncate one fork; since 18 the length that it has is an argument. */
static inline void
smgrtruncate_compat(SMgrRelation reln, ForkNumber fork, BlockNumber length)
{
#if PG_VERSION_NUM >= 180000
	BlockNumber blocks = smgrnblocks(reln, fork);

	smgrtruncate(reln, &fork, 1, &blocks, &length);
#else
	smgrtruncate(reln, &fork, 1, &length);
#endif
}

/* Start a scan of a catalog's index that is restarted for several keys. */
static inline IndexScanDesc
index_beginscan_compat(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

#endif							/* COMPAT_CATALOG_H */

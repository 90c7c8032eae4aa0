/*-------------------------------------------------------------------------
 *
 * compat_statistics.h
 *	  Differences between PostgreSQL 15 and 19 in what ANALYZE computes.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_STATISTICS_H
#define COMPAT_STATISTICS_H

#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "commands/vacuum.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/*
 * Tell a type's function how many entries the user wants for a column; false if none.
 * Since 17 it is a separate field, and null in the catalog unless it was set.
 */
static inline bool
StatsTargetSet_compat(VacAttrStats *stats, Relation rel, Form_pg_attribute attr)
{
#if PG_VERSION_NUM >= 170000
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(rel)), Int16GetDatum(attr->attnum));
	bool		isnull;
	Datum		target;

	if (!HeapTupleIsValid(tuple))
		return false;
	target = SysCacheGetAttr(ATTNUM, tuple, Anum_pg_attribute_attstattarget, &isnull);
	stats->attstattarget = isnull ? -1 : DatumGetInt16(target);
	ReleaseSysCache(tuple);
#if PG_VERSION_NUM >= 180000
	if (attr->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		return false;
#endif
	return stats->attstattarget != 0;
#else
	stats->attr = palloc(ATTRIBUTE_FIXED_PART_SIZE);
	memcpy(stats->attr, attr, ATTRIBUTE_FIXED_PART_SIZE);
	return attr->attstattarget != 0;
#endif
}

#endif							/* COMPAT_STATISTICS_H */

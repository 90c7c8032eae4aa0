/*-------------------------------------------------------------------------
 *
 * names.c
 *	  Where the extension's type, access method and schema are in this database.
 *
 * Everything is found by syscaches from the access method's fixed name: its handler
 * function lives in the extension's schema, and so does the type.  search_path is
 * never used: it is empty in apply workers, in restores and in some event triggers.
 *
 * The answers are kept until a syscache that they came from is invalidated.  They
 * are OIDs, not pointers, and every caller asks again rather than keep one across
 * something that may process invalidations.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_range.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "store.h"

static bool names_valid = false;
static uint32 names_generation = 0;
static Oid	cached_am = InvalidOid;
static Oid	cached_type = InvalidOid;
static Oid	cached_schema = InvalidOid;
static Oid	cached_stores = InvalidOid;

static void
forget_names(Datum arg, int cacheid, uint32 hashvalue)
{
	names_valid = false;
	names_generation++;
}

/* Look everything up again if need be. */
static void
find_names(void)
{
	HeapTuple	tuple;
	Oid			am = InvalidOid,
				type = InvalidOid,
				schema = InvalidOid,
				handler = InvalidOid;
	uint32		generation = names_generation;

	if (names_valid)
		return;
	if (!IsTransactionState() || !OidIsValid(MyDatabaseId))
	{
		cached_am = cached_type = cached_schema = cached_stores = InvalidOid;
		return;
	}

	tuple = SearchSysCache1(AMNAME, CStringGetDatum(AB_AM));
	if (HeapTupleIsValid(tuple))
	{
		am = ((Form_pg_am) GETSTRUCT(tuple))->oid;
		handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler;
		ReleaseSysCache(tuple);
		tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(handler));
		if (HeapTupleIsValid(tuple))
		{
			Oid			namespace = ((Form_pg_proc) GETSTRUCT(tuple))->pronamespace;

			ReleaseSysCache(tuple);
			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
								   CStringGetDatum(AB_TYPE), ObjectIdGetDatum(namespace));
		}
		schema = get_namespace_oid(AB_SCHEMA, true);
	}
	cached_am = am;
	cached_type = type;
	cached_schema = schema;
	cached_stores = InvalidOid;

	/*
	 * not before: a look-up may be cancelled, and an invalidation may come
	 * meanwhile
	 */
	names_valid = generation == names_generation;
}

/* The type's OID in this database, or InvalidOid without the extension. */
Oid
ab_type_oid(void)
{
	find_names();
	return cached_type;
}

/* The access method's OID, or InvalidOid. */
Oid
ab_am_oid(void)
{
	find_names();
	return cached_am;
}

/* The schema of the chunk stores, or InvalidOid. */
Oid
ab_schema_oid(void)
{
	find_names();
	return cached_schema;
}

/*
 * The catalog of the stores, or InvalidOid.  It is made after the rest and cannot go
 * without it, so that it needs no invalidation of its own.
 */
Oid
ab_stores_oid(void)
{
	Oid			schema = ab_schema_oid();

	if (OidIsValid(schema) && !OidIsValid(cached_stores))
		cached_stores = get_relname_relid(AB_STORES, schema);
	return cached_stores;
}

/* Is it a table of our access method? */
bool
ab_is_ours(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION &&
		OidIsValid(rel->rd_rel->relam) && rel->rd_rel->relam == ab_am_oid();
}

/*
 * Does a type other than the type itself contain it?  Looks through domains,
 * arrays, composites, ranges and multiranges.
 */
bool
ab_type_contains(Oid type)
{
	Oid			wanted = ab_type_oid();
	char		kind;
	Oid			inner;

	check_stack_depth();
	if (!OidIsValid(wanted) || type == wanted || type < FirstNormalObjectId)
		return false;
	kind = get_typtype(type);
	inner = InvalidOid;
	if (kind == TYPTYPE_DOMAIN)
		inner = getBaseType(type);
	else if (kind == TYPTYPE_RANGE)
		inner = get_range_subtype(type);
	else if (kind == TYPTYPE_MULTIRANGE)
		inner = get_range_subtype(get_multirange_range(type));
	else if (kind == TYPTYPE_COMPOSITE)
	{
		Oid			relid = get_typ_typrelid(type);

		for (int i = 1; i <= MaxHeapAttributeNumber; i++)
		{
			HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(i));
			Oid			atttype = InvalidOid;

			if (!HeapTupleIsValid(tuple))
				break;
			if (!((Form_pg_attribute) GETSTRUCT(tuple))->attisdropped)
				atttype = ((Form_pg_attribute) GETSTRUCT(tuple))->atttypid;
			ReleaseSysCache(tuple);
			if (OidIsValid(atttype) && (atttype == wanted || ab_type_contains(atttype)))
				return true;
		}
		return false;
	}
	else
		inner = get_element_type(type);
	return OidIsValid(inner) && (inner == wanted || ab_type_contains(inner));
}

/* Keep the cache right; called once, from _PG_init. */
void
ab_names_install(void)
{
	CacheRegisterSyscacheCallback(AMNAME, forget_names, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPENAMENSP, forget_names, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACENAME, forget_names, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, forget_names, (Datum) 0);
}

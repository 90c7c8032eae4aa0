/*-------------------------------------------------------------------------
 *
 * oids.c
 *	  Where the extension's type, access method and schema are in this database.
 *
 * Everything is found by syscaches from the access method's fixed name: its handler
 * function lives in the extension's schema, and so does the type.  search_path is
 * never used: it is empty in apply workers, in restores and in some event triggers.
 *
 * The answers are kept until a syscache that they came from is invalidated, because each
 * statement is searched for the types and their casts.  They are OIDs, not pointers, and
 * every caller asks again rather than keep one across something that may process
 * invalidations.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "value/value.h"

static uint64 names_generation = 1; /* another one once names must be looked
									 * up */
static uint64 found_generation = 0; /* when everything was looked up */
static AbType cached_types[AB_NTYPES] = {
	{"appendable_bytea", BYTEAOID, "bytea", "a digest such as sha256(column)", BYTEAARRAYOID},
	{"appendable_text", TEXTOID, "text", "a digest such as md5(column)", TEXTARRAYOID},
	{"appendable_json", JSONOID, "json", "a digest such as md5(column::text)", JSONARRAYOID},
	{"appendable_jsonb", JSONBOID, "jsonb", "an expression such as (column::jsonb)", JSONBARRAYOID}
};
static Oid	cached_am = InvalidOid;
static Oid	cached_namespace = InvalidOid;
static Oid	cached_schema = InvalidOid;

static void
forget_names(Datum arg, int cacheid, uint32 hashvalue)
{
	names_generation++;
}

/* Look everything up again. */
static void
look_up_names(void)
{
	const bool	possible = IsTransactionState() && OidIsValid(MyDatabaseId);
	const uint64 generation = names_generation;
	AbType		types[AB_NTYPES];
	Oid			am = InvalidOid,
				namespace = InvalidOid,
				schema = InvalidOid;

	if (possible)
		am = GetSysCacheOid1(AMNAME, Anum_pg_am_oid, CStringGetDatum(AB_AM));
	if (OidIsValid(am))
	{
		namespace = get_func_namespace(GetSysCacheOid1(AMOID, Anum_pg_am_amhandler, ObjectIdGetDatum(am)));
		schema = get_namespace_oid(AB_SCHEMA, true);
	}
	memcpy(types, cached_types, sizeof(types));
	for (int i = 0; i < AB_NTYPES; i++)
	{
		AbType	   *type = &types[i];

		type->oid = type->array = type->to_plain = type->from_plain = InvalidOid;
		if (OidIsValid(namespace))
			type->oid = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(type->name),
										ObjectIdGetDatum(namespace));
		if (!OidIsValid(type->oid))
			continue;
		type->array = get_array_type(type->oid);
		type->to_plain = GetSysCacheOid2(CASTSOURCETARGET, Anum_pg_cast_castfunc,
										 ObjectIdGetDatum(type->oid), ObjectIdGetDatum(type->plain));
		type->from_plain = GetSysCacheOid2(CASTSOURCETARGET, Anum_pg_cast_castfunc,
										   ObjectIdGetDatum(type->plain), ObjectIdGetDatum(type->oid));
		type->to_plain_hash = GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(type->to_plain));
		type->from_plain_hash = GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(type->from_plain));
	}
	cached_am = am;
	cached_namespace = namespace;
	memcpy(cached_types, types, sizeof(types));
	cached_schema = schema;

	/*
	 * not before: a lookup may be canceled, and an invalidation may arrive
	 * during it
	 */
	if (possible)
		found_generation = generation;
}

static inline void
find_names(void)
{
	if (unlikely(found_generation != names_generation))
		look_up_names();
}

/* The types in this database, AB_NTYPES of them. */
const AbType *
ab_types(void)
{
	find_names();
	return cached_types;
}

/* The entry of a type of the extension; NULL for another type. */
const AbType *
ab_type_of(Oid type)
{
	if (type < FirstNormalObjectId)
		return NULL;
	find_names();
	for (int i = 0; i < AB_NTYPES; i++)
	{
		if (cached_types[i].oid == type)
			return &cached_types[i];
	}
	return NULL;
}

/* Do references of values of this type have the number of characters? */
bool
ab_counts_characters(Oid type)
{
	const AbType *found = GetDatabaseEncoding() == PG_UTF8 ? ab_type_of(type) : NULL;

	return found != NULL && found->plain == TEXTOID;
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

/* The schema of the types and their functions, or InvalidOid. */
Oid
ab_extension_schema(void)
{
	find_names();
	return cached_namespace;
}

/* The access method of a relation, or InvalidOid. */
Oid
ab_rel_am(Oid relid)
{
	return GetSysCacheOid1(RELOID, Anum_pg_class_relam, ObjectIdGetDatum(relid));
}

/* Is it a table of our access method? */
bool
ab_is_appendable(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION &&
		OidIsValid(rel->rd_rel->relam) && rel->rd_rel->relam == ab_am_oid();
}

/*
 * The type of the extension that another type contains; NULL if there is none.  Looks
 * through domains, arrays, composites, ranges and multiranges.
 */
const AbType *
ab_type_within(Oid type)
{
	char		kind;
	Oid			inner;

	check_stack_depth();
	if (type < FirstNormalObjectId || !OidIsValid(ab_am_oid()) || ab_type_of(type) != NULL)
		return NULL;
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
		const AbType *found = NULL;

		/* a dropped column has no type */
		for (AttrNumber n = 1; found == NULL && get_attname(relid, n, true) != NULL; n++)
			found = ab_type_in(get_atttype(relid, n));
		return found;
	}
	else
		inner = get_element_type(type);
	return ab_type_in(inner);
}

/* The type of the extension that a type is or contains. */
const AbType *
ab_type_in(Oid type)
{
	const AbType *found = ab_type_of(type);

	return found != NULL ? found : ab_type_within(type);
}

/* Keep the cache right; called once, from _PG_init. */
void
ab_names_install(void)
{
	CacheRegisterSyscacheCallback(AMNAME, forget_names, (Datum) 0);
	CacheRegisterSyscacheCallback(CASTSOURCETARGET, forget_names, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPENAMENSP, forget_names, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACENAME, forget_names, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, forget_names, (Datum) 0);
}

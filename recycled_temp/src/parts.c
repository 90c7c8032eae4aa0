/*-------------------------------------------------------------------------
 *
 * parts.c
 *	  Are the parts of a table as CREATE TABLE makes them?
 *
 * Types, the TOAST table with its index, keys and constraints.  inspect.c calls
 * these functions and judges the table, its columns and all dependencies.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "nodes/value.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat_catalog.h"
#include "inspect.h"

/* A horizon may be this old before the server makes a new TOAST table. */
#define TOAST_HORIZON_MAX 10000000

/* Are row type and array type as those of a new table? */
bool
plain_types(RecycledTable *table, Oid owner)
{
	HeapTuple	row = SearchSysCache1(TYPEOID, ObjectIdGetDatum(table->rowtype));
	Form_pg_type form;
	bool		plain;

	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_type) GETSTRUCT(row);
	table->arraytype = form->typarray;
	plain = OidIsValid(form->typarray) && form->typowner == owner && heap_attisnull(row, Anum_pg_type_typacl, NULL);
	ReleaseSysCache(row);
	row = plain ? SearchSysCache1(TYPEOID, ObjectIdGetDatum(table->arraytype)) : NULL;
	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_type) GETSTRUCT(row);
	plain = form->typowner == owner && heap_attisnull(row, Anum_pg_type_typacl, NULL);
	ReleaseSysCache(row);
	return plain;
}

/* Is the TOAST table like a new one, except for its rows? */
bool
plain_toast(RecycledTable *table, Form_pg_class form)
{
	HeapTuple	row;
	Form_pg_class toast;
	BlockNumber blocks;
	bool		plain;

	table->toast = form->reltoastrelid;
	if (!OidIsValid(table->toast))
		return true;
	row = SearchSysCache1(RELOID, ObjectIdGetDatum(table->toast));
	if (!HeapTupleIsValid(row))
		return false;
	toast = (Form_pg_class) GETSTRUCT(row);
	table->toast_file = inspect_locator(toast);
	blocks = inspect_blocks(toast);
	table->toast_used = blocks > 0;
	plain = toast->reltuples == -1 && toast->relpages == 0 && toast->relallvisible == 0 &&
		ClassAllFrozen_compat(toast) == 0 &&
		toast->reltablespace == form->reltablespace && toast->relowner == form->relowner &&
		heap_attisnull(row, Anum_pg_class_relacl, NULL) && heap_attisnull(row, Anum_pg_class_reloptions, NULL) &&
		TransactionIdFollows(toast->relfrozenxid + TOAST_HORIZON_MAX, ReadNextTransactionId()) &&
		blocks <= (BlockNumber) recycled_keep_size;
	ReleaseSysCache(row);
	return plain;
}

/* Is the index of the TOAST table as a new one? */
bool
plain_toast_index(RecycledTable *table)
{
	HeapTuple	row = OidIsValid(table->toast_index) ? SearchSysCache1(RELOID, ObjectIdGetDatum(table->toast_index)) : NULL;
	Form_pg_class form;
	bool		plain;

	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_class) GETSTRUCT(row);
	table->toast_index_file = inspect_locator(form);
	plain = form->relkind == RELKIND_INDEX && form->relpages == 1 && form->reltuples == 0 &&
		form->relallvisible == 0 && ClassAllFrozen_compat(form) == 0 &&
		heap_attisnull(row, Anum_pg_class_reloptions, NULL);
	ReleaseSysCache(row);
	return plain;
}

/* Is an index as PRIMARY KEY or UNIQUE makes it?  Fills in the key's columns. */
static bool
plain_index(RecycledTable *table, RecycledKey *key, Form_pg_class heap, bool pooled)
{
	HeapTuple	row = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(key->index));
	Form_pg_index index;
	Form_pg_class form;
	BlockNumber blocks;
	bool		plain;

	if (!HeapTupleIsValid(row))
		return false;
	index = (Form_pg_index) GETSTRUCT(row);
	plain = index->indrelid == table->relid && index->indisunique && index->indisprimary == key->primary &&
		index->indisvalid && index->indisready && index->indislive && index->indimmediate && !index->indnullsnotdistinct &&
		!index->indisexclusion && !index->indisclustered && !index->indisreplident && !index->indcheckxmin &&
		index->indnatts == index->indnkeyatts && heap_attisnull(row, Anum_pg_index_indexprs, NULL) &&
		heap_attisnull(row, Anum_pg_index_indpred, NULL);
	key->natts = index->indnatts;
	memcpy(key->columns, index->indkey.values, key->natts * sizeof(int16));
	ReleaseSysCache(row);
	row = plain ? SearchSysCache1(RELOID, ObjectIdGetDatum(key->index)) : NULL;
	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_class) GETSTRUCT(row);
	key->file = inspect_locator(form);
	blocks = inspect_blocks(form);
	table->key_used |= blocks != 1;
	plain = form->relam == BTREE_AM_OID && form->reltablespace == heap->reltablespace &&
		form->relowner == heap->relowner && heap_attisnull(row, Anum_pg_class_reloptions, NULL) &&
		heap_attisnull(row, Anum_pg_class_relacl, NULL) && blocks <= (BlockNumber) recycled_keep_size &&
		form->relallvisible == 0 && ClassAllFrozen_compat(form) == 0 &&
		(!pooled || (form->relpages == 0 && form->reltuples == 0));
	ReleaseSysCache(row);
	/* renaming a column leaves the index's column alone */
	for (int i = 0; plain && i < key->natts; i++)
	{
		char	   *name = get_attname(table->relid, key->columns[i], true);
		char	   *index_name = get_attname(key->index, i + 1, true);

		plain = key->columns[i] > 0 && name && index_name && strcmp(name, index_name) == 0;
	}
	return plain;
}

/*
 * Is a constraint a plain key or NOT NULL, with the name that the server gives it,
 * or, of a pooled table, that keep.c gives it?
 */
bool
plain_constraint(RecycledTable *table, Oid constraint, Form_pg_class heap, bool pooled)
{
	HeapTuple	row = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Form_pg_constraint form;
	RecycledKey *key = palloc0(sizeof(RecycledKey));
	char	   *name;
	bool		is_notnull,
				plain;

	if (!HeapTupleIsValid(row))
		return false;
	form = (Form_pg_constraint) GETSTRUCT(row);
	is_notnull = CONSTRAINT_IS_NOT_NULL_compat(form);
	key->constraint = constraint;
	key->index = form->conindid;
	key->primary = form->contype == CONSTRAINT_PRIMARY;
	plain = (is_notnull || key->primary || form->contype == CONSTRAINT_UNIQUE) && form->conrelid == table->relid &&
		!form->condeferrable && !form->condeferred && form->convalidated && form->conislocal &&
		form->coninhcount == 0 && !OidIsValid(form->conparentid) && !ConstraintIsUnusual_compat(form) &&
		form->connoinherit == !is_notnull && OidIsValid(key->index) == !is_notnull;
	if (plain && is_notnull)
	{
		bool		isnull;
		Datum		datum = SysCacheGetAttr(CONSTROID, row, Anum_pg_constraint_conkey, &isnull);
		ArrayType  *array = isnull ? NULL : DatumGetArrayTypeP(datum);

		plain = array && ARR_NDIM(array) == 1 && ARR_DIMS(array)[0] == 1;
		if (plain)
			key->columns[0] = *(int16 *) ARR_DATA_PTR(array);
		key->natts = 1;
	}
	else if (plain)
		plain = plain_index(table, key, heap, pooled);
	if (plain)
	{
		if (pooled)
			name = pool_name(constraint);
		else if (is_notnull)
			name = makeObjectName(NameStr(heap->relname), get_attname(table->relid, key->columns[0], false), "not_null");
		else
		{
			List	   *colnames = NIL;

			for (int i = 0; i < key->natts; i++)
				colnames = lappend(colnames, makeString(get_attname(table->relid, key->columns[i], false)));
			name = shape_key_name(NameStr(heap->relname), colnames, key->primary);
		}
		plain = strcmp(NameStr(form->conname), name) == 0 &&
			(is_notnull || strcmp(get_rel_name(key->index), pooled ? pool_name(key->index) : name) == 0);
	}
	ReleaseSysCache(row);
	if (is_notnull)
		table->notnulls = lappend(table->notnulls, key);
	else
		table->keys = lappend(table->keys, key);
	return plain;
}

/*-------------------------------------------------------------------------
 *
 * hidden.c
 *	  Catalogs must not keep references.
 *
 * Several catalogs keep values that a command computed: a column's default for the
 * rows that are there, bounds of partitions, statistics on columns, on expressions
 * of indexes and on extended statistics.  The chunks end with their row all the
 * same, and the next plan that looks would fail.  Called by hook.c when
 * an object is made or altered; each function raises an error or does nothing.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_index.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"
#include "store.h"

/*
 * ALTER TABLE ... ADD COLUMN keeps a constant default for the rows that are there in
 * pg_attribute.  A default that is computed from a table could be a reference, which
 * would outlive its row.
 */
void
ab_refuse_hidden_default(Oid relid)
{
	Relation	rel = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData key[1];
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *found = NULL;

	ScanKeyInit(&key[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, AttributeRelidNumIndexId, true, SnapshotSelf, 1, key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);
		bool		isnull;
		Datum		missing;
		Datum		value;
		int			one = 1;
		AbRef		ref;

		if (!att->atthasmissing || att->attisdropped || ab_type_of(att->atttypid) == NULL)
			continue;
		missing = heap_getattr(tuple, Anum_pg_attribute_attmissingval, RelationGetDescr(rel), &isnull);
		if (isnull)
			continue;
		value = array_get_element(missing, 1, &one, -1, att->attlen, att->attbyval,
								  att->attalign, &isnull);
		if (!isnull && ab_parse_reference(value, &ref))
			found = pstrdup(NameStr(att->attname));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("default of column \"%s\" is a value of another table", found),
				 errhint("Add the column without a default, fill it with UPDATE, and set the default then.")));
}

/*
 * May a value of this expression hold one of the type?  A record that is not made
 * here of its parts may if the expression has any such column.
 */
static const AbType *
may_hold(Node *expr)
{
	Oid			type = exprType(expr);
	const AbType *found;
	ListCell   *lc;

	check_stack_depth();
	if (IsA(expr, RowExpr))
	{
		foreach(lc, ((RowExpr *) expr)->args)
		{
			found = may_hold(lfirst(lc));
			if (found != NULL)
				return found;
		}
		return NULL;
	}
	found = ab_type_in(type);
	if (found != NULL)
		return found;
	if (type != RECORDOID && type != RECORDARRAYOID)
		return NULL;
	foreach(lc, pull_var_clause(expr, 0))
	{
		found = ab_type_in(exprType(lfirst(lc)));
		if (found != NULL)
			return found;
	}
	return NULL;
}

/*
 * The same for a list of expressions in a column of a catalog's row.  themselves: an
 * expression that is of the type, and not of one that contains it, counts too.
 */
static const AbType *
any_may_hold(int cacheid, HeapTuple tuple, AttrNumber attnum, bool themselves)
{
	const AbType *found = NULL;
	bool		isnull;
	Datum		expressions = SysCacheGetAttr(cacheid, tuple, attnum, &isnull);
	ListCell   *lc;

	if (isnull)
		return NULL;
	foreach(lc, (List *) stringToNode(TextDatumGetCString(expressions)))
	{
		if (found == NULL && (themselves || ab_type_of(exprType(lfirst(lc))) == NULL))
			found = may_hold(lfirst(lc));
	}
	return found;
}

/*
 * ANALYZE keeps statistics on what indexes compute, in a catalog.  On the type itself
 * they are without values (type_analyze.c); a hash index on an array of values would
 * have references there.
 */
void
ab_refuse_index_expressions(Oid indexid, const char *name)
{
	HeapTuple	tuple = ab_catalog_row(IndexRelationId, IndexRelidIndexId,
									   Anum_pg_index_indexrelid, indexid);
	const AbType *found = NULL;

	if (HeapTupleIsValid(tuple))
		found = any_may_hold(INDEXRELID, tuple, Anum_pg_index_indexprs, false);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" cannot be on an expression that contains values of type %s",
						name, found->name),
				 errhint("Use an index on a digest such as %s(column).", found->digest)));
}

/*
 * The bounds of partitions are kept in a catalog, and may be computed from a table:
 * a reference there would outlive its row.  Hash partitioning keeps no values.  The
 * key is known at the end of the command that makes the table.
 */
void
ab_refuse_partition_key(Oid relid, const char *name)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(relid));
	Form_pg_partitioned_table form;
	const AbType *found = NULL;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_partitioned_table) GETSTRUCT(tuple);
	for (int i = 0; i < form->partnatts; i++)
	{
		if (found == NULL && form->partattrs.values[i] != 0)
			found = ab_type_of(get_atttype(relid, form->partattrs.values[i]));
	}
	if (found == NULL)
		found = any_may_hold(PARTRELID, tuple, Anum_pg_partitioned_table_partexprs, true);
	if (form->partstrat == PARTITION_STRATEGY_HASH)
		found = NULL;
	ReleaseSysCache(tuple);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot be partitioned by values of type %s",
						name, found->name),
				 errhint("Partition by hash, or by a digest such as %s(column).", found->digest)));
}

/* Domains over the type are refused; other types are when a column has them. */
void
ab_refuse_domain(Oid typid)
{
	HeapTuple	tuple = ab_catalog_row(TypeRelationId, TypeOidIndexId, Anum_pg_type_oid, typid);
	Oid			base = InvalidOid;

	if (HeapTupleIsValid(tuple) && ((Form_pg_type) GETSTRUCT(tuple))->typtype == TYPTYPE_DOMAIN)
		base = ((Form_pg_type) GETSTRUCT(tuple))->typbasetype;
	if (ab_type_in(base) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("type %s cannot be the base of a domain", ab_type_in(base)->name),
				 errhint("Use a CHECK constraint on the column.")));
}

/* Extended statistics would keep values in a catalog. */
void
ab_refuse_statistics(Oid statid)
{
	HeapTuple	tuple = ab_catalog_row(StatisticExtRelationId, StatisticExtOidIndexId,
									   Anum_pg_statistic_ext_oid, statid);
	const AbType *found = NULL;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_statistic_ext form = (Form_pg_statistic_ext) GETSTRUCT(tuple);

		for (int i = 0; i < form->stxkeys.dim1; i++)
		{
			if (found == NULL)
				found = ab_type_of(get_atttype(form->stxrelid, form->stxkeys.values[i]));
		}
		if (found == NULL)
			found = any_may_hold(STATEXTOID, tuple, Anum_pg_statistic_ext_stxexprs, true);
	}
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("extended statistics cannot be kept on type %s", found->name)));
}

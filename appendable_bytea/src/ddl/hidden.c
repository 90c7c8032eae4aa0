/*-------------------------------------------------------------------------
 *
 * hidden.c
 *	  Catalogs must not keep references.
 *
 * Several catalogs keep values that a command computed: a column's default for the
 * rows that are there, bounds of partitions, statistics on columns, on expressions
 * of indexes and on extended statistics.  The chunks end with their row all the
 * same, and the next plan that looks would fail.  Called by relation.c when an
 * object is created or altered, or by command.c at the end of its command; each
 * function raises an error or does nothing.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tupdesc_details.h"
#include "catalog/pg_index.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"

/*
 * Does a table have columns of the type?  Raises an error if one has a default that must
 * not be kept: ALTER TABLE ... ADD COLUMN keeps a constant default for the rows that are
 * there in pg_attribute.  A default that is computed from a table could be a reference,
 * which would outlive its row.
 */
bool
ab_check_defaults(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	bool		result = false;
	AbRef		ref;

	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		result = true;
		if (desc->constr && desc->constr->missing && desc->constr->missing[n - 1].am_present &&
			ab_parse_reference(desc->constr->missing[n - 1].am_value, &ref))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("default of column \"%s\" is a value of another table",
							NameStr(TupleDescAttr(desc, n - 1)->attname)),
					 errhint("Add the column without a default, fill it with UPDATE, and then set the default.")));
	}
	relation_close(rel, NoLock);
	return result;
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
 * The type of the extension whose values a catalog contains, in some columns of a relation
 * (0: an expression) or in a list of expressions in a column of the catalog's row; or NULL.
 */
static const AbType *
kept_values(Oid relid, const int16 *columns, int ncolumns,
			int cacheid, HeapTuple tuple, AttrNumber attnum)
{
	const AbType *found = NULL;
	bool		isnull;
	Datum		expressions = SysCacheGetAttr(cacheid, tuple, attnum, &isnull);
	ListCell   *lc;

	for (int i = 0; i < ncolumns && found == NULL; i++)
	{
		if (columns[i] != 0)
			found = ab_type_of(get_atttype(relid, columns[i]));
	}
	if (found != NULL || isnull)
		return found;
	foreach(lc, (List *) stringToNode(TextDatumGetCString(expressions)))
	{
		/* an index's own values of the type are in no catalog: see below */
		if (found == NULL && (cacheid != INDEXRELID || ab_type_of(exprType(lfirst(lc))) == NULL))
			found = may_hold(lfirst(lc));
	}
	return found;
}

/*
 * ANALYZE keeps statistics on what indexes compute, in a catalog.  On the type itself
 * they are without values (type_plan.c); a hash index on an array of values would
 * have references there.
 */
void
ab_refuse_index_expressions(Oid indexid, const char *name)
{
	HeapTuple	tuple = ab_catalog_row(IndexRelationId, IndexRelidIndexId, indexid, SnapshotSelf);
	const AbType *found = NULL;

	if (HeapTupleIsValid(tuple))
		found = kept_values(InvalidOid, NULL, 0, INDEXRELID, tuple, Anum_pg_index_indexprs);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" cannot be on an expression that contains values of type %s",
						name, found->name),
				 errhint("Use an index on %s.", found->index_on)));
}

/*
 * The bounds of partitions are kept in a catalog, and may be computed from a table:
 * a reference there would outlive its row.  Hash partitioning keeps no values.  The
 * key is known at the end of the command that makes the table.
 */
void
ab_refuse_partition_key(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(relid));
	Form_pg_partitioned_table form;
	const AbType *found = NULL;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_partitioned_table) GETSTRUCT(tuple);
	if (form->partstrat != PARTITION_STRATEGY_HASH)
		found = kept_values(relid, form->partattrs.values, form->partnatts,
							PARTRELID, tuple, Anum_pg_partitioned_table_partexprs);
	ReleaseSysCache(tuple);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot be partitioned by values of type %s",
						get_rel_name(relid), found->name),
				 errhint("Partition by hash, or by %s.", found->index_on)));
}

/* Domains over the type are refused; other types are when a column has them. */
void
ab_refuse_domain(Oid typid)
{
	HeapTuple	tuple = ab_catalog_row(TypeRelationId, TypeOidIndexId, typid, SnapshotSelf);
	const AbType *found = NULL;

	if (HeapTupleIsValid(tuple) && ((Form_pg_type) GETSTRUCT(tuple))->typtype == TYPTYPE_DOMAIN)
		found = ab_type_in(((Form_pg_type) GETSTRUCT(tuple))->typbasetype);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("type %s cannot be the base of a domain", found->name),
				 errhint("Use a CHECK constraint on the column.")));
}

/* Extended statistics would keep values in a catalog. */
void
ab_refuse_statistics(Oid statid)
{
	HeapTuple	tuple = ab_catalog_row(StatisticExtRelationId, StatisticExtOidIndexId, statid, SnapshotSelf);
	const AbType *found = NULL;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_statistic_ext form = (Form_pg_statistic_ext) GETSTRUCT(tuple);

		found = kept_values(form->stxrelid, form->stxkeys.values, form->stxkeys.dim1,
							STATEXTOID, tuple, Anum_pg_statistic_ext_stxexprs);
	}
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("extended statistics cannot be kept on type %s", found->name)));
}

/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  Which relations may have columns of the type, and what they get by having one.
 *
 * One entry point for all commands: object_access_hook, called when a relation or a
 * column is created or altered.  A table with a column of the type is put on the access
 * method appendable_heap there and then, before any row is in it (CREATE TABLE in
 * all forms, CREATE TABLE AS, SELECT INTO, partitions, ALTER TABLE ... ADD COLUMN
 * and ... TYPE): its disk format is heap's, so pg_class.relam is all that changes.
 * A place where references could outlive their row is refused: arrays, composites,
 * domains, ranges, materialized views, indexes that keep keys, and values in
 * catalogs (hidden.c).  Work that can wait until the end of the command is only
 * recorded here and done by command.c.
 *
 * The catalogs are read with SnapshotSelf, because the command that calls has not made
 * its rows visible yet.  An ALTER reads no more than the altered column.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"

static object_access_hook_type previous_hook = NULL;

/* A relation's row of pg_class, which may not be visible yet; NULL if there is none. */
static Form_pg_class
new_class(Oid relid)
{
	HeapTuple	tuple = ab_catalog_row(RelationRelationId, ClassOidIndexId, relid, SnapshotSelf);

	return HeapTupleIsValid(tuple) ? (Form_pg_class) GETSTRUCT(tuple) : NULL;
}

/* The facts about a relation's columns that decide how it is treated. */
typedef struct ColumnTypes
{
	const AbType *direct;		/* a column's type is this */
	const AbType *within;		/* a column's type contains this ... */
	NameData	name;			/* ... and the column is called so */
	bool		generated;		/* the column of type "direct" is */
} ColumnTypes;

/*
 * Read the types of all columns of a relation, or of one (attnum), whose rows in
 * pg_attribute may not be visible yet.
 */
static void
read_columns(Oid relid, AttrNumber attnum, ColumnTypes *types)
{
	ScanKeyData key[2];
	ListCell   *lc;

	memset(types, 0, sizeof(*types));
	ScanKeyInit(&key[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&key[1], Anum_pg_attribute_attnum, attnum != 0 ? BTEqualStrategyNumber : BTGreaterStrategyNumber,
				attnum != 0 ? F_INT2EQ : F_INT2GT, Int16GetDatum(attnum));
	foreach(lc, ab_catalog_rows(AttributeRelationId, AttributeRelidNumIndexId, 2, key, SnapshotSelf))
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT((HeapTuple) lfirst(lc));
		const AbType *type;

		if (att->attisdropped)
			continue;
		type = ab_type_of(att->atttypid);
		if (type != NULL)
		{
			types->direct = type;
			types->generated = att->attgenerated != '\0';
		}
		else if ((type = ab_type_within(att->atttypid)) != NULL)
		{
			types->within = type;
			types->name = att->attname;
		}
	}
}

/* Remember a table for the end of the command. */
static void
remember_changed(Oid relid)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(TopTransactionContext);

	ab_command->changed = lappend_oid(ab_command->changed, relid);
	MemoryContextSwitchTo(oldcontext);
}

/*
 * Put a table on another access method of the same disk format.  The caller has
 * checked that its rows are right for it.
 */
void
ab_set_access_method(Oid relid, Oid am)
{
	Oid			old;
	ObjectAddress table,
				method;

	CommandCounterIncrement();
	LockRelationOid(relid, AccessExclusiveLock);
	old = ab_rel_am(relid);
	ab_set_class_column(relid, AccessExclusiveLock, Anum_pg_class_relam, ObjectIdGetDatum(am), false);

	/* on heap, as on all that the server comes with, none is recorded */
	deleteDependencyRecordsForSpecific(RelationRelationId, relid, DEPENDENCY_NORMAL,
									   AccessMethodRelationId, old);
	ObjectAddressSet(table, RelationRelationId, relid);
	ObjectAddressSet(method, AccessMethodRelationId, am);
	recordDependencyOn(&table, &method, DEPENDENCY_NORMAL);
	CommandCounterIncrement();
}

/* A row type with the type in it must not be in use as a column elsewhere. */
static void
refuse_row_type_in_use(Oid relid)
{
	Relation	rel;

	CommandCounterIncrement();
	rel = relation_open(relid, AccessShareLock);
	if (OidIsValid(rel->rd_rel->reltype))
		find_composite_type_dependencies(rel->rd_rel->reltype, rel, NULL);
	relation_close(rel, NoLock);
}

/*
 * A table has a column of the type: make sure that it has our access method and a chunk
 * store.  The store is created with the table, as a TOAST table is: if it were created
 * when first needed, sessions that write would wait for each other until the end
 * of a transaction, and CREATE TABLE AS may fill the table in parallel mode, in which
 * nothing can be created.
 */
static void
attach_store(Oid relid, const FormData_pg_class *row, const AbType *type)
{
	Oid			am = ab_am_oid();
	Form_pg_class old;

	if (row->relam != am && row->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot have a column of type %s",
						OidIsValid(row->relrewrite) ? get_rel_name(row->relrewrite) : NameStr(row->relname),
						type->name),
				 errdetail("Its access method is neither \"%s\" nor \"heap\".", AB_AM)));
	if (row->relam != am && (old = new_class(row->relrewrite)) != NULL && old->relam == am)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot leave access method \"%s\" with columns of type %s",
						NameStr(old->relname), AB_AM, type->name),
				 errhint("Call appendable_bytea_detach() for the table.")));
	if (row->relam != am)
		ab_set_access_method(relid, am);
	if (row->relpersistence == RELPERSISTENCE_TEMP || OidIsValid(row->relrewrite))
		return;
	ab_store_create(relid);
}

/*
 * Check a relation that was created, or a column of it that was created or altered
 * (attnum).  Raises an error if it must not have the type, and sees that a table that has
 * it is stored as it must be.
 */
void
ab_check_relation(Oid relid, AttrNumber attnum)
{
	Form_pg_class row = new_class(relid);
	ColumnTypes types;

	if (row == NULL || row->relnamespace == ab_schema_oid() ||
		row->relkind == RELKIND_SEQUENCE || row->relkind == RELKIND_TOASTVALUE)
		return;
	read_columns(relid, attnum, &types);
	if (row->relkind == RELKIND_INDEX || row->relkind == RELKIND_PARTITIONED_INDEX)
		ab_refuse_index_expressions(relid, NameStr(row->relname));
	if (row->relkind == RELKIND_VIEW)
	{
		/* it stores nothing, but a column elsewhere may be of its row type */
		if (types.direct != NULL || types.within != NULL)
			refuse_row_type_in_use(relid);
		return;
	}
	if (types.within != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" of relation \"%s\" has a type that contains %s",
						NameStr(types.name), NameStr(row->relname), types.within->name),
				 errdetail("Values of this type must be in columns of the table itself, so that their chunks end with the row."),
				 errhint("Use %s inside arrays, composite types, domains and ranges.",
						 types.within->plain_name)));
	if (types.direct == NULL)
		return;
	switch (row->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			refuse_row_type_in_use(relid);
			if (row->relkind == RELKIND_RELATION)
				attach_store(relid, row, types.direct);
			remember_changed(relid);
			break;
		case RELKIND_FOREIGN_TABLE:
		case RELKIND_MATVIEW:
		case RELKIND_COMPOSITE_TYPE:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s \"%s\" cannot have a column of type %s",
							row->relkind == RELKIND_FOREIGN_TABLE ? "foreign table" :
							row->relkind == RELKIND_MATVIEW ? "materialized view" : "composite type",
							NameStr(row->relname), types.direct->name),
					 row->relkind == RELKIND_MATVIEW ?
					 errhint("Cast the column to %s.", types.direct->plain_name) :
					 errhint("Use %s.", types.direct->plain_name)));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" cannot keep values of type %s",
							NameStr(row->relname), types.direct->name),
					 errhint("Use a hash index, or an index on %s.", types.direct->index_on)));
	}
}

/*
 * Does an ALTER TABLE of a column compute its values?  ALTER ... TYPE with USING does even
 * if the type stays.  A command that the library has not seen begin may be one.
 */
static bool
computes_values(Oid relid, AttrNumber attnum)
{
	Node	   *statement = ab_command->statement;
	ListCell   *lc;

	if (statement == NULL || !IsA(statement, AlterTableStmt))
		return true;
	foreach(lc, ((AlterTableStmt *) statement)->cmds)
	{
		AlterTableCmd *cmd = lfirst(lc);

		if (cmd->subtype == AT_AlterColumnType && strcmp(cmd->name, get_attname(relid, attnum, false)) == 0)
			return true;
	}
	return false;
}

/*
 * A column was created or altered.  A rewrite computes its values if it is new, gets a type,
 * or is generated, because its expression may be another one.
 */
static void
column_changed(Oid relid, AttrNumber attnum, bool created)
{
	ColumnTypes types;
	const AbType *before = created ? NULL : ab_type_of(get_atttype(relid, attnum));

	read_columns(relid, attnum, &types);
	if (types.direct != NULL && (types.direct != before || types.generated || computes_values(relid, attnum)))
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(TopTransactionContext);

		ab_command->computed = lappend(ab_command->computed, list_make2_oid(relid, attnum));
		MemoryContextSwitchTo(oldcontext);
	}
	if (types.direct != before || types.within != NULL)
		ab_check_relation(relid, attnum);
	if (before != NULL && types.direct == NULL)
		remember_changed(relid);
}

/*
 * Remember a table that is dropped, or loses a column.
 *
 * DROP EXTENSION ... CASCADE would drop every table of the access method, before it
 * drops the access method: refuse when what a table needs is dropped by the same command.
 */
static void
object_dropped(Oid classid, Oid objid, int subid)
{
	Form_pg_class row;

	if (classid == RelationRelationId)
	{
		if (subid != 0 ? ab_type_of(get_atttype(objid, subid)) == NULL : ab_rel_am(objid) != ab_am_oid())
			return;
		row = new_class(objid);
		if (row == NULL || row->relnamespace == ab_schema_oid())
			return;
		remember_changed(objid);
		/* partitions on heap are dropped with a partitioned table of our type */
		if (NameStr(ab_command->dropped_table)[0] == '\0' &&
			(row->relkind == RELKIND_RELATION || row->relkind == RELKIND_PARTITIONED_TABLE ||
			 row->relkind == RELKIND_MATVIEW))
			ab_command->dropped_table = row->relname;
	}
	else if (NameStr(ab_command->dropped_table)[0] != '\0' &&
			 ((classid == AccessMethodRelationId && objid == ab_am_oid()) ||
			  (classid == TypeRelationId && ab_type_of(objid) != NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop extension \"%s\" together with the tables that use it", AB_EXTENSION),
				 errdetail("Table \"%s\" would be dropped, or lose a column, with its data.",
						   NameStr(ab_command->dropped_table)),
				 errhint("Call appendable_bytea_detach() for each such table, or drop it, first.")));
}

static void
object_accessed(ObjectAccessType access, Oid classid, Oid objid, int subid, void *arg)
{
	if (previous_hook)
		previous_hook(access, classid, objid, subid, arg);
	/* functions and name lookups come by here with every statement */
	if (access != OAT_POST_CREATE && access != OAT_POST_ALTER && access != OAT_DROP)
		return;
	if (IsBinaryUpgrade || !IsTransactionState() || !OidIsValid(ab_am_oid()))
		return;
	if (access == OAT_DROP)
		object_dropped(classid, objid, subid);
	else if (classid == RelationRelationId && subid > 0)
		column_changed(objid, subid, access == OAT_POST_CREATE);
	else if (classid == RelationRelationId && access == OAT_POST_CREATE)
		ab_check_relation(objid, 0);
	else if (classid == RelationRelationId && ab_rel_am(objid) == ab_am_oid())
		remember_changed(objid);
	else if (classid == TypeRelationId && access == OAT_POST_CREATE)
		ab_refuse_domain(objid);
	else if (classid == StatisticExtRelationId && access == OAT_POST_CREATE)
		ab_refuse_statistics(objid);
}

/* Did this transaction make a table that is not on our access method? */
static bool
is_new_on_heap(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_class) GETSTRUCT(tuple))->relkind == RELKIND_RELATION &&
		((Form_pg_class) GETSTRUCT(tuple))->relam != ab_am_oid() &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	ReleaseSysCache(tuple);
	return result;
}

/*
 * The library was loaded in the middle of a transaction that may have made tables before,
 * as EXPLAIN ANALYZE CREATE TABLE AS does, whose query is run when the table is there: one
 * with a column of the type would stay on heap.  Called before the commit of such a transaction.
 */
void
ab_refuse_unseen_tables(void)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	for (const AbType *type = ab_types(); type < ab_types() + AB_NTYPES; type++)
	{
		ScanKeyData key[2];
		ListCell   *lc;

		ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(TypeRelationId));
		ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(type->oid));
		foreach(lc, ab_catalog_rows(DependRelationId, DependReferenceIndexId, 2, key, NULL))
		{
			Form_pg_depend form = (Form_pg_depend) GETSTRUCT((HeapTuple) lfirst(lc));

			if (form->classid == RelationRelationId && form->objsubid != 0 && is_new_on_heap(form->objid))
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("table \"%s\" with a column of type %s was created before library \"%s\" was loaded",
								get_rel_name(form->objid), type->name, AB_EXTENSION),
						 errhint("Run the command again.")));
		}
	}
}

/* Called once, from _PG_init. */
void
ab_relation_install(void)
{
	previous_hook = object_access_hook;
	object_access_hook = object_accessed;
}

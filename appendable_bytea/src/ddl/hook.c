/*-------------------------------------------------------------------------
 *
 * hook.c
 *	  Which relations may have columns of the type, and what they get by having one.
 *
 * One door for all commands: object_access_hook, called when a relation or a column
 * is made or altered.  A table with a column of the type is put on the access
 * method appendable_heap there and then, before any row is in it (CREATE TABLE in
 * all forms, CREATE TABLE AS, SELECT INTO, partitions, ALTER TABLE ... ADD COLUMN
 * and ... TYPE): its disk format is heap's, so pg_class.relam is all that changes.
 * A place where references could outlive their row is refused: arrays, composites,
 * domains, ranges, materialized views, indexes that keep keys, and what the catalogs
 * keep (hidden.c).
 *
 * The catalogs are read with SnapshotSelf, for the command that calls has not made
 * its rows visible yet.  Relations without the type cost one look at their columns.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"
#include "store.h"

static object_access_hook_type previous_hook = NULL;

/* a column that a statement of this transaction made or altered */
typedef struct ComputedColumn
{
	Oid			relid;
	int			attnum;
} ComputedColumn;

/* both in TopTransactionContext */
static List *computed_columns = NIL;
static List *made_permanent = NIL;	/* OIDs of tables */

/* the first table with columns of the type that this statement drops; empty: none */
static NameData dropped_table;

/* was the library loaded in this transaction? */
static bool loaded_meanwhile = false;

/* Read a pg_class row that may not be visible yet; false if there is none. */
static bool
read_class(Oid relid, FormData_pg_class *row)
{
	HeapTuple	tuple = ab_catalog_row(RelationRelationId, relid, SnapshotSelf);

	if (!HeapTupleIsValid(tuple))
		return false;
	memcpy(row, GETSTRUCT(tuple), CLASS_TUPLE_SIZE);
	heap_freetuple(tuple);
	return true;
}

/*
 * Does a relation, whose rows in pg_attribute may not be visible yet, have a column
 * of a type of ours (*direct), or one whose type contains one (*within, by name)?
 */
static void
read_columns(Oid relid, const AbType **direct, const AbType **within, NameData *name)
{
	Relation	rel = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	*direct = *within = NULL;
	ScanKeyInit(&key[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&key[1], Anum_pg_attribute_attnum, BTGreaterStrategyNumber, F_INT2GT,
				Int16GetDatum(0));
	scan = systable_beginscan(rel, AttributeRelidNumIndexId, true, SnapshotSelf, 2, key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);
		const AbType *type;

		if (att->attisdropped)
			continue;
		type = ab_type_of(att->atttypid);
		if (type != NULL)
			*direct = type;
		else if ((type = ab_type_within(att->atttypid)) != NULL)
		{
			*within = type;
			*name = att->attname;
		}
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/*
 * Put a table on another access method of the same disk format.  The caller has
 * checked that its rows are right for it.
 */
void
ab_set_access_method(Oid relid, Oid am)
{
	Relation	rel;
	HeapTuple	tuple;
	Form_pg_class form;
	Oid			old;
	ObjectAddress table,
				method;

	LockRelationOid(relid, AccessExclusiveLock);
	CommandCounterIncrement();
	rel = table_open(RelationRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	form = (Form_pg_class) GETSTRUCT(tuple);
	old = form->relam;
	form->relam = am;
	CatalogTupleUpdate(rel, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(rel, RowExclusiveLock);

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

/* Would a crash leave a table without its chunks? */
static bool
is_more_durable(Oid relid)
{
	Oid			store = ab_store_find(relid);

	return OidIsValid(store) && get_rel_persistence(store) != RELPERSISTENCE_PERMANENT;
}

/*
 * Has ALTER TABLE ... SET LOGGED left the store behind?  An event trigger makes it follow at
 * the command's end; a superuser can switch those off.
 */
static void
refuse_lost_stores(void)
{
	ListCell   *lc;

	foreach(lc, made_permanent)
	{
		if (get_rel_persistence(lfirst_oid(lc)) == RELPERSISTENCE_PERMANENT &&
			is_more_durable(lfirst_oid(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("chunk store of table \"%s\" is less durable than the table",
							get_rel_name(lfirst_oid(lc))),
					 errhint("Run the command with event triggers on, or call appendable_bytea_repair() for the table in the same transaction.")));
	}
}

/*
 * A table has a column of the type: see that its access method is ours, and that it
 * has a chunk store.  The store comes with the table, as a TOAST table does: made at
 * the first need it would have sessions that write wait for each other until the end
 * of a transaction, and CREATE TABLE AS may fill the table in parallel mode, which
 * forbids to create anything.
 */
static void
attach(Oid relid, const FormData_pg_class *row, const AbType *type)
{
	Oid			am = ab_am_oid();
	FormData_pg_class old;

	if (row->relam != am && row->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot have a column of type %s",
						OidIsValid(row->relrewrite) ? get_rel_name(row->relrewrite) : NameStr(row->relname),
						type->name),
				 errdetail("Its access method is neither \"%s\" nor \"heap\".", AB_AM)));
	if (row->relam != am && read_class(row->relrewrite, &old) && old.relam == am)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot leave access method \"%s\" with columns of type %s",
						NameStr(old.relname), AB_AM, type->name),
				 errhint("Call appendable_bytea_detach() for the table.")));
	if (row->relam != am)
		ab_set_access_method(relid, am);
	if (row->relpersistence == RELPERSISTENCE_TEMP || OidIsValid(row->relrewrite))
		return;
	ab_store_create(relid);
	if (row->relpersistence == RELPERSISTENCE_PERMANENT && is_more_durable(relid))
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(TopTransactionContext);

		made_permanent = list_append_unique_oid(made_permanent, relid);
		MemoryContextSwitchTo(oldcontext);
	}
}

/* Called when a relation, or one of its columns, was made or altered. */
void
ab_relation_changed(Oid relid)
{
	FormData_pg_class row;
	const AbType *direct;
	const AbType *within;
	NameData	name;

	if (!read_class(relid, &row))
		return;
	if (row.relnamespace == ab_schema_oid())
	{
		/*
		 * A rewrite of a store loses chunks that a slot still has to read.
		 * What a store's own relrewrite names is the table whose values it
		 * has.
		 */
		if (row.relrewrite != relid && get_rel_namespace(row.relrewrite) == ab_schema_oid())
			ab_refuse_awaited(row.relrewrite);
		return;
	}
	if (row.relkind == RELKIND_SEQUENCE || row.relkind == RELKIND_TOASTVALUE)
		return;
	if (row.relkind == RELKIND_INDEX || row.relkind == RELKIND_PARTITIONED_INDEX)
		ab_refuse_index_expressions(relid, NameStr(row.relname));
	read_columns(relid, &direct, &within, &name);
	if (row.relkind == RELKIND_VIEW)
	{
		/* it stores nothing, but a column elsewhere may be of its row type */
		if (direct != NULL || within != NULL)
			refuse_row_type_in_use(relid);
		return;
	}
	if (within != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" of relation \"%s\" has a type that contains %s",
						NameStr(name), NameStr(row.relname), within->name),
				 errdetail("Values of this type live in columns of their own, so that their chunks end with the row."),
				 errhint("Use %s inside arrays, composite types, domains and ranges.",
						 within->plain_name)));
	if (direct == NULL)
		return;
	switch (row.relkind)
	{
		case RELKIND_RELATION:
			refuse_row_type_in_use(relid);
			attach(relid, &row, direct);
			break;
		case RELKIND_PARTITIONED_TABLE:
			refuse_row_type_in_use(relid);
			ab_refuse_partition_key(relid, NameStr(row.relname));
			break;
		case RELKIND_FOREIGN_TABLE:
		case RELKIND_MATVIEW:
		case RELKIND_COMPOSITE_TYPE:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s \"%s\" cannot have a column of type %s",
							row.relkind == RELKIND_FOREIGN_TABLE ? "foreign table" :
							row.relkind == RELKIND_MATVIEW ? "materialized view" : "composite type",
							NameStr(row.relname), direct->name),
					 row.relkind == RELKIND_MATVIEW ?
					 errhint("Cast the column to %s.", direct->plain_name) :
					 errhint("Use %s.", direct->plain_name)));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" cannot keep values of type %s",
							NameStr(row.relname), direct->name),
					 errhint("Use a hash index, or an index on a digest such as %s(column).", direct->digest)));
	}
}

/* Remember a column whose values a table rewrite of this transaction computes. */
static void
remember_computed(Oid relid, int attnum)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(TopTransactionContext);
	ComputedColumn *column = palloc(sizeof(ComputedColumn));

	column->relid = relid;
	column->attnum = attnum;
	computed_columns = lappend(computed_columns, column);
	MemoryContextSwitchTo(oldcontext);
}

/*
 * In a rewrite into the transient table "rel", may values of this column have been
 * computed?  Then a reference in them may be another row's or another column's, and
 * is copied.
 */
bool
ab_rewrite_computes(Relation rel, int attnum)
{
	ListCell   *lc;

	foreach(lc, computed_columns)
	{
		ComputedColumn *column = lfirst(lc);

		if (column->relid == rel->rd_rel->relrewrite && column->attnum == attnum)
			return true;
	}
	return false;
}

/*
 * DROP EXTENSION ... CASCADE would drop every table of the access method, before it
 * drops the access method: remember tables that go, and refuse when what they need
 * goes in the same statement.
 */
static void
object_dropped(Oid classid, Oid objid, int subid)
{
	FormData_pg_class row;

	if (classid == RelationRelationId)
	{
		/* partitions on heap go with a partitioned table of ours */
		if (NameStr(dropped_table)[0] == '\0' && read_class(objid, &row) && row.relnamespace != ab_schema_oid() &&
			(row.relkind == RELKIND_RELATION || row.relkind == RELKIND_PARTITIONED_TABLE ||
			 row.relkind == RELKIND_MATVIEW) &&
			(subid == 0 ? row.relam == ab_am_oid() : ab_type_of(get_atttype(objid, subid)) != NULL))
			dropped_table = row.relname;
	}
	else if (NameStr(dropped_table)[0] != '\0' &&
			 ((classid == AccessMethodRelationId && objid == ab_am_oid()) ||
			  (classid == TypeRelationId && ab_type_of(objid) != NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop extension \"%s\" together with the tables that use it", AB_EXTENSION),
				 errdetail("Table \"%s\" would be dropped, or lose a column, with its data.",
						   NameStr(dropped_table)),
				 errhint("Call appendable_bytea_detach() for each such table, or drop it, first.")));
}

/* A new statement begins. */
void
ab_statement_begins(void)
{
	NameStr(dropped_table)[0] = '\0';
}

static void
object_accessed(ObjectAccessType access, Oid classid, Oid objid, int subid, void *arg)
{
	if (previous_hook)
		previous_hook(access, classid, objid, subid, arg);
	/* functions and name look-ups come by here with every statement */
	if (access != OAT_POST_CREATE && access != OAT_POST_ALTER && access != OAT_DROP)
		return;
	if (IsBinaryUpgrade || !IsTransactionState() || !OidIsValid(ab_am_oid()))
		return;
	if (access == OAT_POST_CREATE || access == OAT_POST_ALTER)
	{
		bool		internal;

		if (access == OAT_POST_CREATE)
			internal = arg && ((ObjectAccessPostCreate *) arg)->is_internal;
		else
			internal = arg && ((ObjectAccessPostAlter *) arg)->is_internal;
		if (!internal && (access == OAT_POST_ALTER || subid > 0 ||
						  classid == TriggerRelationId || classid == RewriteRelationId))
			ab_refuse_own_altered(classid, objid, subid);
		if (!internal && access == OAT_POST_ALTER && arg && classid == InheritsRelationId)
			ab_refuse_own_altered(classid, ((ObjectAccessPostAlter *) arg)->auxiliary_id, subid);
		if (classid == RelationRelationId)
		{
			if (subid > 0)
				remember_computed(objid, subid);
			ab_relation_changed(objid);
		}
		else if (classid == TypeRelationId && access == OAT_POST_CREATE)
			ab_refuse_domain(objid);
		else if (classid == StatisticExtRelationId && access == OAT_POST_CREATE)
			ab_refuse_statistics(objid);
	}
	else if (access == OAT_DROP)
	{
		if (subid > 0 && classid == RelationRelationId)
			ab_refuse_own_altered(classid, objid, subid);
		object_dropped(classid, objid, subid);
	}
}

/*
 * The library was loaded in the middle of a transaction that may have made tables before,
 * as EXPLAIN ANALYZE CREATE TABLE AS does, whose query is run when the table is there: one
 * with a column of the type would stay on heap.
 */
static void
refuse_unseen_tables(const AbType *type)
{
	Relation	depend;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			unseen = InvalidOid;

	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()) || !OidIsValid(type->oid))
		return;
	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(TypeRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type->oid));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
		HeapTuple	class;

		if (form->classid != RelationRelationId || form->objsubid == 0)
			continue;
		class = SearchSysCache1(RELOID, ObjectIdGetDatum(form->objid));
		if (HeapTupleIsValid(class))
		{
			Form_pg_class row = (Form_pg_class) GETSTRUCT(class);

			if (row->relkind == RELKIND_RELATION && row->relam != ab_am_oid() &&
				TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(class->t_data)))
				unseen = form->objid;
			ReleaseSysCache(class);
		}
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	if (OidIsValid(unseen))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" with a column of type %s was made before library \"%s\" was loaded",
						get_rel_name(unseen), type->name, AB_EXTENSION),
				 errhint("Run the command again.")));
}

static void
transaction_ended(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			refuse_lost_stores();
			if (loaded_meanwhile)
				for (int i = 0; i < AB_NTYPES; i++)
					refuse_unseen_tables(&ab_types()[i]);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			computed_columns = made_permanent = NIL;
			ab_statement_begins();
			loaded_meanwhile = false;
			break;
		default:
			break;
	}
}

/* Called once, from _PG_init. */
void
ab_ddl_install(void)
{
	previous_hook = object_access_hook;
	object_access_hook = object_accessed;
	loaded_meanwhile = IsTransactionState();
	RegisterXactCallback(transaction_ended, NULL);
}

/*-------------------------------------------------------------------------
 *
 * convert.c
 *	  Reasons why a column cannot get a type of the extension, or return to bytea or text.
 *
 * ALTER TABLE ... ALTER COLUMN TYPE stops at the first object that it cannot convert,
 * and some others would work no more when it is done.  Before anything is changed, one
 * error names all of them.  The command itself checks what it needs under its lock;
 * here catalogs are read without one.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_publication_rel.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/proclang.h"
#include "miscadmin.h"
#include "parser/parse_type.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"

/* Add a line for an object to a list, once. */
static void
add_object(StringInfo list, const ObjectAddress *object, const char *why)
{
	char	   *description = getObjectDescription(object, true);
	char	   *line = description ? psprintf("%s: %s", description, why) : NULL;

	if (line && strstr(list->data, line) == NULL)
		appendStringInfo(list, "%s%s", list->len > 0 ? "\n" : "", line);
}

static bool
has_column(const int16 *columns, int ncolumns, AttrNumber attnum)
{
	for (int i = 0; i < ncolumns; i++)
	{
		if (columns[i] == attnum)
			return true;
	}
	return false;
}

/*
 * Why the definition of an object that refers to a column (or, column 0, to the row type of "objid")
 * would have to change with its type: what core refuses one by one; NULL if it would not.
 */
static const char *
why_dependent(const FormData_pg_depend *depend)
{
	const bool	on_row_type = depend->refclassid == TypeRelationId;

	switch (depend->classid)
	{
		case RewriteRelationId:
			return "its query reads the column";
		case TriggerRelationId:
			return depend->deptype != DEPENDENCY_NORMAL ? NULL :
				"its condition, or its list of columns, names the column";
		case PolicyRelationId:
			return "its expression reads the column";
		case ProcedureRelationId:
			return "its body reads the column";
		case PublicationRelRelationId:
			return "its WHERE clause reads the column";
		case AttrDefaultRelationId:
			return !on_row_type && GetAttrDefaultColumnAddress(depend->objid).objectSubId == depend->refobjsubid ? NULL :
				"the generated column is computed from the column";
		case RelationRelationId:
			return on_row_type && depend->objsubid > 0 ? "the column is of the table's row type" : NULL;
		case TypeRelationId:
			return on_row_type && get_typtype(depend->objid) == TYPTYPE_DOMAIN ?
				"the domain is over the table's row type" : NULL;
		default:
			return NULL;
	}
}

/* Add the objects that refer to a column, or to a row type (column 0), and prevent a change of its type. */
static void
add_dependents(StringInfo list, Oid classid, Oid objid, AttrNumber attnum)
{
	ScanKeyData key[3];
	ListCell   *lc;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(classid));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(objid));
	ScanKeyInit(&key[2], Anum_pg_depend_refobjsubid, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(attnum));
	foreach(lc, ab_catalog_rows(DependRelationId, DependReferenceIndexId, 3, key, NULL))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT((HeapTuple) lfirst(lc));
		ObjectAddress object = {depend->classid, depend->objid, depend->objsubid};
		const char *why = why_dependent(depend);

		if (why != NULL)
			add_object(list, &object, why);
	}
}

/* Indexes that keep the column's values, or compare them in another way than the type does. */
static void
add_indexes(StringInfo list, Relation table, AttrNumber attnum, const AbType *type)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(table))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		const Form_pg_index form = index->rd_index;
		ObjectAddress object;

		ObjectAddressSet(object, RelationRelationId, RelationGetRelid(index));
		if (!has_column(form->indkey.values, form->indnatts, attnum))
			;
		else if (index->rd_rel->relam != HASH_AM_OID)
			add_object(list, &object, psprintf("only a hash index can be on the column itself; others can be on %s", type->index_on));
		else
		{
			bool		isnull;
			Datum		classes = SysCacheGetAttr(INDEXRELID, index->rd_indextuple, Anum_pg_index_indclass, &isnull);

			if (((oidvector *) DatumGetPointer(classes))->values[0] != GetDefaultOpClass(TupleDescAttr(RelationGetDescr(table), attnum - 1)->atttypid, HASH_AM_OID))
				add_object(list, &object, "its operator class does not accept the type");
		}
		index_close(index, AccessShareLock);
	}
}

/* Foreign keys of the column; what refers to it needs a unique index, which is listed. */
static void
add_foreign_keys(StringInfo list, Relation table, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, RelationGetFKeyList(table))
	{
		const ForeignKeyCacheInfo *key = lfirst(lc);
		ObjectAddress object;

		ObjectAddressSet(object, ConstraintRelationId, key->conoid);
		if (has_column(key->conkey, key->nkeys, attnum))
			add_object(list, &object, "a foreign key cannot be of the type");
	}
}

/* Does a PL/Python function lack the transform for a type? */
static bool
lacks_transform(Oid function, Oid type)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Datum		transforms;
	bool		isnull;
	bool		lacks = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == get_language_oid("plpython3u", true))
	{
		transforms = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_protrftypes, &isnull);
		lacks = isnull || !list_member_oid(oid_array_to_list(transforms), type);
	}
	ReleaseSysCache(tuple);
	return lacks;
}

/* Triggers for each row whose functions cannot read values of the type. */
static void
add_triggers(StringInfo list, Relation table, AttrNumber attnum, const AbType *type)
{
	const char *column = NameStr(TupleDescAttr(RelationGetDescr(table), attnum - 1)->attname);

	for (int i = 0; table->trigdesc && i < table->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &table->trigdesc->triggers[i];
		ObjectAddress object;

		ObjectAddressSet(object, TriggerRelationId, trigger->tgoid);
		if (type->plain == BYTEAOID && TRIGGER_FOR_ROW(trigger->tgtype) && lacks_transform(trigger->tgfoid, type->oid))
			add_object(list, &object, "its PL/Python function does not declare TRANSFORM FOR TYPE appendable_bytea");
		if (trigger->tgfoid == F_TSVECTOR_UPDATE_TRIGGER || trigger->tgfoid == F_TSVECTOR_UPDATE_TRIGGER_COLUMN)
		{
			for (int n = 2; n < trigger->tgnargs; n++)
			{
				if (strcmp(trigger->tgargs[n], column) == 0)
				{
					add_object(list, &object, "its function accepts text only; a generated column can replace it");
					break;
				}
			}
		}
	}
}

/*
 * Called before ALTER TABLE: raise an error that names all objects that cannot be used
 * with a type of the extension, if the command gives it to a column.  A command that the server refuses
 * anyway, as a table that is not the user's, is left to it.
 */
void
ab_check_conversion(const AlterTableStmt *stmt)
{
	StringInfoData list;
	const AbType *type = NULL;
	Oid			relid = InvalidOid;
	ListCell   *lc;
	ListCell   *lc2;

	if (stmt->objtype != OBJECT_TABLE || !OidIsValid(ab_am_oid()))
		return;
	initStringInfo(&list);
	foreach(lc, stmt->cmds)
	{
		const AlterTableCmd *cmd = lfirst(lc);
		const AbType *to;

		if (cmd->subtype != AT_AlterColumnType)
			continue;
		if (!OidIsValid(relid))
			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
		if (!OidIsValid(relid) || !RelationOwnerCheck_compat(relid, GetUserId()))
			continue;
		to = ab_type_of(LookupTypeNameOid(NULL, ((ColumnDef *) cmd->def)->typeName, true));
		if (to == NULL || get_attnum(relid, cmd->name) <= 0)
			continue;
		foreach(lc2, stmt->relation->inh ? find_all_inheritors(relid, NoLock, NULL) : list_make1_oid(relid))
		{
			Oid			child = lfirst_oid(lc2);
			AttrNumber	attnum = get_attnum(child, cmd->name);
			Relation	table;

			if (attnum <= 0 || ab_type_of(get_atttype(child, attnum)) != NULL ||
				(table = try_relation_open(child, AccessShareLock)) == NULL)
				continue;
			type = to;
			add_dependents(&list, RelationRelationId, child, attnum);
			add_dependents(&list, TypeRelationId, table->rd_rel->reltype, 0);
			add_indexes(&list, table, attnum, to);
			add_foreign_keys(&list, table, attnum);
			add_triggers(&list, table, attnum, to);
			relation_close(table, AccessShareLock);
		}
	}
	if (list.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot change columns of table \"%s\" to type %s because other objects cannot be used with it",
						stmt->relation->relname, type->name),
				 errdetail("%s", list.data),
				 errhint("Drop or change these objects first.")));
}

/* Does the definition of an object use an object of the extension? */
static bool
needs_extension(const FormData_pg_depend *object)
{
	const Oid	extension = get_extension_oid(AB_EXTENSION, false);
	ScanKeyData key[2];
	ListCell   *lc;

	ScanKeyInit(&key[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object->classid));
	ScanKeyInit(&key[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object->objid));
	foreach(lc, ab_catalog_rows(DependRelationId, DependDependerIndexId, 2, key, NULL))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT((HeapTuple) lfirst(lc));

		if (getExtensionOfObject(depend->refclassid, depend->refobjid) == extension)
			return true;
	}
	return false;
}

/*
 * Add the objects of a table, such as constraints and triggers, that use objects of the extension.
 * A default that calls a function of the type does so on purpose, and no column is dropped with it.
 */
static void
add_users(StringInfo list, Oid relid)
{
	ScanKeyData key[2];
	ListCell   *lc;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	foreach(lc, ab_catalog_rows(DependRelationId, DependReferenceIndexId, 2, key, NULL))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT((HeapTuple) lfirst(lc));
		ObjectAddress object = {depend->classid, depend->objid, depend->objsubid};

		/* not what only reads the table, such as a view */
		if (depend->deptype == DEPENDENCY_NORMAL || !needs_extension(depend))
			continue;
		if (depend->classid != AttrDefaultRelationId ||
			get_attgenerated(relid, GetAttrDefaultColumnAddress(depend->objid).objectSubId) != '\0')
			add_object(list, &object, "its definition uses the extension");
	}
}

/*
 * Called before columns of our types go back to bytea and text in all of these tables, and
 * when they have (converted): raise an error that names all objects that prevent it, or that
 * would be dropped with the extension.  The server converts the text of a constraint, in which
 * a string can be cast to the type.
 */
void
ab_require_no_dependents(List *tables, bool converted)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, tables)
	{
		Relation	table = relation_open(lfirst_oid(lc), NoLock);

		if (converted)
			add_users(&list, RelationGetRelid(table));
		for (AttrNumber n = 0; !converted && (n = ab_next_column(RelationGetDescr(table), n)) > 0;)
			add_dependents(&list, RelationRelationId, RelationGetRelid(table), n);
		relation_close(table, NoLock);
	}
	if (list.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot change columns of table \"%s\" to bytea and text because other objects depend on %s",
						get_rel_name(linitial_oid(tables)), converted ? "extension \"" AB_EXTENSION "\"" : "them"),
				 errdetail("%s", list.data),
				 errhint("Drop these objects, and create them again afterwards.")));
}

/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  The users' tables: open one that the user has a privilege on, and find its partitions
 *	  and its columns of the type.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"

#include "store/store.h"

/* Does the user have a privilege?  AB_READ also requires that row security hides no row. */
static bool
has_table_privilege(Oid relid, AbPrivilege privilege)
{
	bool		is_missing = false;

	switch (privilege)
	{
		case AB_OWNER:
			return RelationOwnerCheck_compat(relid, GetUserId());
		case AB_MAINTAIN:
			return MayMaintain_compat(relid, GetUserId());
		case AB_UPDATE:
			return pg_class_aclcheck_ext(relid, GetUserId(), ACL_UPDATE, &is_missing) == ACLCHECK_OK ||
				pg_attribute_aclcheck_all(relid, GetUserId(), ACL_UPDATE, ACLMASK_ANY) == ACLCHECK_OK;
		case AB_READ:
			return pg_class_aclcheck_ext(relid, GetUserId(), ACL_SELECT, &is_missing) == ACLCHECK_OK &&
				check_enable_rls(relid, InvalidOid, true) != RLS_ENABLED;
	}
	return false;
}

/*
 * May the user proceed?  If not, raises an error, or returns false if skip has the case's bit.
 */
static bool
require_privilege(Oid relid, AbPrivilege privilege, int skip)
{
	char	   *name = get_rel_name(relid);

	if (name != NULL && has_table_privilege(relid, privilege))
		return true;
	if (skip & (name == NULL ? AB_SKIP_MISSING : AB_SKIP_DENIED))
		return false;
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	aclcheck_error(privilege == AB_OWNER ? ACLCHECK_NOT_OWNER : ACLCHECK_NO_PRIV,
				   get_rel_relkind(relid) == RELKIND_VIEW ? OBJECT_VIEW : OBJECT_TABLE, name);
	return false;
}

/*
 * Lock and open a relation on which the user has a privilege.  A user without it does not
 * queue for the lock; and it is checked again under the lock, because the table may have
 * been dropped or the privilege revoked in the meantime.  If there is no such table, or no
 * privilege, raises an error, or returns NULL and holds no lock, as "skip" says: a set of
 * AB_SKIP_MISSING and AB_SKIP_DENIED.
 */
Relation
ab_open_checked(Oid relid, LOCKMODE mode, AbPrivilege privilege, int skip)
{
	Relation	rel;

	if (!require_privilege(relid, privilege, skip))
		return NULL;
	rel = try_relation_open(relid, mode);
	if (require_privilege(relid, privilege, skip))
		return rel;
	if (rel != NULL)
		relation_close(rel, mode);
	return NULL;
}

/* The same for a function that changes rows of a table, of all its partitions, or by UPDATE of a view. */
Relation
ab_open_table_checked(Oid relid, LOCKMODE mode, AbPrivilege privilege)
{
	Relation	rel = ab_open_checked(relid, mode, privilege, 0);

	if (rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		(rel->rd_rel->relkind != RELKIND_VIEW || privilege != AB_UPDATE))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(rel))));
	return rel;
}

/*
 * The tables that contain the rows of a table on which the user has a privilege: the table, or
 * the partitions of a partitioned one.
 */
List *
ab_tables_of(Oid relid, AbPrivilege privilege)
{
	Relation	rel = ab_open_table_checked(relid, AccessShareLock, privilege);
	bool		partitioned = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	List	   *result = NIL;
	ListCell   *lc;

	relation_close(rel, AccessShareLock);
	if (!partitioned)
		return list_make1_oid(relid);
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_RELATION)
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

/* The name of a table in a query. */
char *
ab_qualified_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  RelationGetRelationName(rel));
}

/* The first column of the extension's types after "attnum" (0: of all); 0 if there is none. */
AttrNumber
ab_next_column(TupleDesc desc, AttrNumber attnum)
{
	while (attnum < desc->natts)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attnum++);

		if (!att->attisdropped && ab_type_of(att->atttypid) != NULL)
			return attnum;
	}
	return 0;
}

/*
 * The type of a value of a table for messages, where only the reference is known: that of all
 * of its columns of our types, or "appendable" if they differ or there is none.
 */
const char *
ab_value_type_name(Oid relid)
{
	const AbType *found = NULL;

	for (AttrNumber n = 1; get_attname(relid, n, true) != NULL; n++)
	{
		const AbType *column = ab_type_of(get_atttype(relid, n));

		if (found != NULL && column != NULL && column != found)
			return "appendable";
		found = column ? column : found;
	}
	return found ? found->name : "appendable";
}

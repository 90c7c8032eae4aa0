/*-------------------------------------------------------------------------
 *
 * privileges.c
 *	  May the user do to a table what a function of the extension is to do?
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
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
		case AB_READ:
			return pg_class_aclcheck_ext(relid, GetUserId(), ACL_SELECT, &is_missing) == ACLCHECK_OK &&
				check_enable_rls(relid, InvalidOid, true) != RLS_ENABLED;
	}
	return false;
}

/* May the user go on?  skip: false if not, else an error. */
static bool
require_privilege(Oid relid, AbPrivilege privilege, bool skip)
{
	char	   *name = get_rel_name(relid);

	if (name != NULL && has_table_privilege(relid, privilege))
		return true;
	if (skip)
		return false;
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	aclcheck_error(privilege == AB_OWNER ? ACLCHECK_NOT_OWNER : ACLCHECK_NO_PRIV, OBJECT_TABLE, name);
	return false;
}

/*
 * Lock and open a relation on which the user has a privilege.  A user without it does not
 * queue for the lock; and it is checked again under the lock, because the table may have
 * been dropped or the privilege revoked in the meantime.  If there is no such table, or no
 * privilege, raises an error or, with skip, returns NULL and holds no lock.
 */
Relation
ab_open_checked(Oid relid, LOCKMODE mode, AbPrivilege privilege, bool skip)
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

/*-------------------------------------------------------------------------
 *
 * repair.c
 *	  Functions for owners of tables: convert columns to built-in types, and repair.
 *
 * appendable_bytea_detach() puts a table on heap with columns of type bytea or text.
 *
 * appendable_bytea_repair() is for the day when DDL ran without the extension noticing.
 * A superuser can switch event triggers off (or edit catalogs) in a session that
 * has not loaded the library, and so make a table with a column of the type that
 * stays on heap, with references of other tables in it: the chunks go with the rows of
 * those.  It puts that right while they are there.  It also removes chunks that belong to
 * no value, and stores that were left for a logical replication slot to read.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "ddl/ddl.h"

PG_FUNCTION_INFO_V1(appendable_bytea_detach);
PG_FUNCTION_INFO_V1(appendable_bytea_repair);

/*
 * Lock a table of the user's.  A role without the privilege does not get to wait for the
 * lock.
 */
static void
lock_own_table(Oid relid, LOCKMODE mode)
{
	relation_close(ab_open_checked(relid, mode, AB_OWNER, 0), NoLock);
}

/* ALTER COLUMN ... TYPE bytea or text for every column of our types; NULL if there is none. */
static char *
detach_command(Oid relid)
{
	Relation	rel = relation_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	StringInfoData command;
	const char *separator = " ";

	initStringInfo(&command);
	appendStringInfo(&command, "ALTER TABLE %s", ab_qualified_name(rel));
	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		Form_pg_attribute att = TupleDescAttr(desc, n - 1);
		const char *column = quote_identifier(NameStr(att->attname));
		const char *plain = ab_type_of(att->atttypid)->plain_name;
		Oid			collation = att->attcollation;

		appendStringInfo(&command, "%sALTER COLUMN %s TYPE pg_catalog.%s%s%s",
						 separator, column, plain, OidIsValid(collation) ? " COLLATE " : "",
						 OidIsValid(collation) ? generate_collation_name(collation) : "");
		/* a generated column is computed again */
		if (att->attgenerated == '\0')
			appendStringInfo(&command, " USING %s::pg_catalog.%s", column, plain);
		separator = ", ";
	}
	relation_close(rel, NoLock);
	return separator[0] == ',' ? command.data : NULL;
}

/*
 * Continue as the owner of a table: functions of a default or a trigger are the owner's, and
 * must not run with the privileges of a superuser who maintains the table.  The former user
 * is restored by SetUserIdAndSecContext(), or after an error at the end of the
 * transaction.
 */
void
ab_become_owner(Relation rel, Oid *user, int *security)
{
	GetUserIdAndSecContext(user, security);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   *security | SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
}

/*
 * A default of our type as the text of one of the type that it is like, with the same bytes; NULL: none.
 * A cast to our type is left out.  Other functions are called as before, and their result is cast.
 */
static char *
plain_default(Relation rel, int attnum)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	const AbType *type = ab_type_of(att->atttypid);
	Node	   *expr = build_column_default(rel, attnum);
	Oid			user;
	int			security;

	if (expr == NULL)
		return NULL;
	ab_become_owner(rel, &user, &security);
	expr = eval_const_expressions(NULL, expr);
	SetUserIdAndSecContext(user, security);
	if (IsA(expr, Const))
	{
		Const	   *value = (Const *) expr;

		if (value->constisnull)
			return NULL;
		expr = (Node *) makeConst(type->plain, -1, get_typcollation(type->plain), -1,
								  PointerGetDatum(ab_read_whole(value->constvalue)),
								  false, false);
	}
	else if (IsA(expr, FuncExpr) && ab_is_cast(((FuncExpr *) expr)->funcid, false))
		expr = linitial(((FuncExpr *) expr)->args);
	else
		expr = (Node *) makeFuncExpr(type->to_plain, type->plain, list_make1(expr),
									 get_typcollation(type->plain), InvalidOid, COERCE_EXPLICIT_CAST);
	return deparse_expression(expr, NIL, false, false);
}

/*
 * Add to "drop" and "set" the commands that drop the defaults of one table's columns of
 * our types and set them again as bytea: a default that is merely cast would
 * keep depending on the extension.
 */
static void
convert_defaults(Oid relid, List **drop, List **set)
{
	Relation	rel = relation_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	const char *table = ab_qualified_name(rel);

	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		Form_pg_attribute att = TupleDescAttr(desc, n - 1);
		const char *column;
		char	   *value;

		if (!att->atthasdef || att->attgenerated != '\0')
			continue;
		column = quote_identifier(NameStr(att->attname));
		value = plain_default(rel, n);
		*drop = lappend(*drop, psprintf("ALTER TABLE ONLY %s ALTER COLUMN %s DROP DEFAULT",
										table, column));
		if (value != NULL)
			*set = lappend(*set, psprintf("ALTER TABLE ONLY %s ALTER COLUMN %s SET DEFAULT %s",
										  table, column, value));
	}
	relation_close(rel, NoLock);
}

/*
 * Run commands as the owner of a table, each alone: an extension that sends DDL to other
 * servers sends the whole text that a command was in.
 */
static void
run_as_owner(Oid relid, List *commands)
{
	Relation	rel = relation_open(relid, NoLock);
	Oid			user;
	int			security;
	ListCell   *lc;

	ab_become_owner(rel, &user, &security);
	relation_close(rel, NoLock);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	foreach(lc, commands)
	{
		if (SPI_execute(lfirst(lc), false, 0) < 0)
			elog(ERROR, "could not run \"%s\"", (char *) lfirst(lc));
	}
	SPI_finish();
	SetUserIdAndSecContext(user, security);
	CommandCounterIncrement();
}

/*
 * appendable_bytea_detach(regclass): put a table, and all that inherit from it, on
 * heap with columns of type bytea.
 */
Datum
appendable_bytea_detach(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	List	   *tables;
	ListCell   *lc;
	List	   *commands = NIL;
	List	   *set_defaults = NIL;
	char	   *command;

	lock_own_table(relid, AccessExclusiveLock);
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		lock_own_table(lfirst_oid(lc), AccessExclusiveLock);
	tables = find_all_inheritors(relid, AccessExclusiveLock, NULL);
	ab_require_no_dependents(tables, false);
	foreach(lc, tables)
		convert_defaults(lfirst_oid(lc), &commands, &set_defaults);
	command = detach_command(relid);
	if (command != NULL)
		commands = lappend(commands, command);
	run_as_owner(relid, list_concat(commands, set_defaults));
	foreach(lc, tables)
	{
		if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_RELATION || ab_rel_am(lfirst_oid(lc)) != ab_am_oid())
			continue;
		if (detach_command(lfirst_oid(lc)) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" has columns of type %s that are not inherited",
							get_rel_name(lfirst_oid(lc)), ab_value_type_name(lfirst_oid(lc))),
					 errhint("Call appendable_bytea_detach() for that table first.")));
		ab_set_access_method(lfirst_oid(lc), HEAP_TABLE_AM_OID);
		ab_store_end(lfirst_oid(lc));
	}
	ab_require_no_dependents(tables, true);
	PG_RETURN_VOID();
}

/* Do the access method and the store of a table match it? */
static bool
is_set_up(Oid relid)
{
	Oid			store = ab_store_find(relid);

	return ab_rel_am(relid) == ab_am_oid() && OidIsValid(store) &&
		get_rel_persistence(store) == get_rel_persistence(relid);
}

/*
 * See that a table and its store are as hooks leave them, and remove chunks of no value, until
 * *chunks of them are "max".  Writers are locked out only if there is more to repair than chunks.
 */
static void
repair_table(Oid relid, int64 max, int64 *chunks, int64 *bytes)
{
	lock_own_table(relid, ShareUpdateExclusiveLock);
	if (!is_set_up(relid))
	{
		lock_own_table(relid, AccessExclusiveLock);
		ab_check_relation(relid, 0);
	}
	ab_table_changed(relid);
	if (*chunks < max)
		ab_free_unowned(relid, max, chunks, bytes);
}

/*
 * Drop the stores that were kept for slots, and, for a superuser, those of tables that
 * were dropped while event triggers were off.
 */
static void
drop_stores(void)
{
	ListCell   *lc;

	ab_store_drop_retained();
	if (!superuser())
		return;
	foreach(lc, ab_store_tables())
	{
		Oid			relid = lfirst_oid(lc);

		/* a table that is there, whatever has become of it, keeps its store */
		LockRelationOid(relid, AccessShareLock);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
			ab_store_end(relid);
		UnlockRelationOid(relid, AccessShareLock);
	}
}

/*
 * appendable_bytea_repair(regclass, max_chunks): see that a table, or each partition of one, is as
 * it must be; without a table, see to the stores of tables that were dropped.
 */
Datum
appendable_bytea_repair(PG_FUNCTION_ARGS)
{
	int64		chunks = 0;
	int64		bytes = 0;
	ListCell   *lc;
	Datum		values[2];

	if (PG_ARGISNULL(0))
		drop_stores();
	else
	{
		List	   *tables = ab_tables_of(PG_GETARG_OID(0), AB_OWNER);

		ab_refuse_partition_key(PG_GETARG_OID(0));
		foreach(lc, tables)
			repair_table(lfirst_oid(lc), PG_ARGISNULL(1) ? PG_INT64_MAX : PG_GETARG_INT64(1), &chunks, &bytes);
	}
	values[0] = Int64GetDatum(chunks);
	values[1] = Int64GetDatum(bytes);
	PG_RETURN_DATUM(ab_make_row(fcinfo, values));
}

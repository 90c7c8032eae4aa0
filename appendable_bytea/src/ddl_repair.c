/*-------------------------------------------------------------------------
 *
 * ddl_repair.c
 *	  For the day when DDL ran without the extension noticing.
 *
 * A superuser can switch event triggers off (or edit catalogs) in a session that
 * has not loaded the library, and so make a table with a column of the type that
 * stays on heap, with references of other tables in it.  Vacuum refuses to work
 * while there is such a table; appendable_bytea_repair() puts it right.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat_table.h"
#include "ddl.h"
#include "store.h"

PG_FUNCTION_INFO_V1(appendable_bytea_repair);

static void
run_command(const char *command)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(command, false, 0) < 0)
		elog(ERROR, "could not run \"%s\"", command);
	SPI_finish();
}

/*
 * The command that stores every value of a table once more, if one of them has
 * chunks of another table; NULL if none has.
 */
static char *
adopt_command(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan;
	StringInfoData command;
	const char *separator = " SET ";
	bool		foreign = false;

	initStringInfo(&command);
	appendStringInfo(&command, "UPDATE ONLY %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		const char *column = quote_identifier(NameStr(att->attname));

		if (att->attisdropped || att->attgenerated != '\0' || att->atttypid != ab_type_oid())
			continue;
		appendStringInfo(&command, "%s%s = %s", separator, column, column);
		separator = ", ";
	}
	scan = table_beginscan_compat(rel, GetActiveSnapshot(), 0, NULL);
	while (!foreign && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		for (int i = 0; i < desc->natts; i++)
		{
			bool		isnull;
			Datum		value;
			AbRef		ref;

			if (TupleDescAttr(desc, i)->attisdropped ||
				TupleDescAttr(desc, i)->atttypid != ab_type_oid())
				continue;
			value = slot_getattr(slot, i + 1, &isnull);
			foreign |= !isnull && ab_parse_reference(value, &ref) && ref.home != relid;
		}
		CHECK_FOR_INTERRUPTS();
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return foreign && separator[0] == ',' ? command.data : NULL;
}

/*
 * appendable_bytea_repair(regclass): see that the table, its values and its store
 * are as the hooks and event triggers would have left them, had they been there.
 */
Datum
appendable_bytea_repair(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	char	   *command;

	ab_lock_own_table(relid);
	ab_relation_changed(relid);
	ab_store_match(relid);
	command = get_rel_relkind(relid) == RELKIND_RELATION ? adopt_command(relid) : NULL;
	if (command)
	{
		Relation	rel = table_open(relid, NoLock);
		Oid			user;
		int			security;

		ab_become_owner(rel, &user, &security);
		run_command(command);
		SetUserIdAndSecContext(user, security);
		table_close(rel, NoLock);
	}
	PG_RETURN_VOID();
}

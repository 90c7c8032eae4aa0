/*-------------------------------------------------------------------------
 *
 * repair.c
 *	  For the day when DDL ran without the extension noticing.
 *
 * A superuser can switch event triggers off (or edit catalogs) in a session that
 * has not loaded the library, and so make a table with a column of the type that
 * stays on heap, with references of other tables in it: the chunks go with the rows of
 * those.  appendable_bytea_repair() puts it right while they are there.  It also removes
 * chunks that belong to no value, and stores that were left for a logical replication
 * slot to read.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat_table.h"
#include "ddl/ddl.h"
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
	AbValueScan scan;
	StringInfoData command;
	const char *separator = " SET ";
	bool		foreign = false;
	AbRef		ref;

	initStringInfo(&command);
	appendStringInfo(&command, "UPDATE ONLY %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)));
	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		Form_pg_attribute att = TupleDescAttr(desc, n - 1);
		const char *column = quote_identifier(NameStr(att->attname));

		if (att->attgenerated != '\0')
			continue;
		appendStringInfo(&command, "%s%s = %s", separator, column, column);
		separator = ", ";
	}
	ab_values_begin(&scan, rel, GetActiveSnapshot());
	while (!foreign && ab_values_next(&scan))
		foreign = ab_parse_reference(scan.value, &ref) && ref.relid != relid;
	ab_values_end(&scan);
	table_close(rel, NoLock);
	return foreign && separator[0] == ',' ? command.data : NULL;
}

/* See that a table, its values and its store are as hooks and triggers leave them. */
static void
repair_table(Oid relid, int64 *chunks, int64 *bytes)
{
	char	   *command;

	*chunks = *bytes = 0;
	ab_lock_own_table(relid);
	ab_relation_changed(relid);
	ab_store_match(relid);
	if (get_rel_relkind(relid) != RELKIND_RELATION)
		return;
	command = adopt_command(relid);
	if (command)
	{
		Relation	rel = table_open(relid, NoLock);
		Oid			user;
		int			security;

		ab_become_owner(rel, &user, &security);
		run_command(command);
		SetUserIdAndSecContext(user, security);
		table_close(rel, NoLock);
		CommandCounterIncrement();
	}
	ab_free_unowned(relid, chunks, bytes);
}

/*
 * appendable_bytea_repair(regclass): see that a table is as it must be; without a table,
 * see to the stores of tables that are gone.
 */
Datum
appendable_bytea_repair(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	int64		chunks = 0;
	int64		bytes = 0;
	Datum		values[2];
	bool		nulls[2] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (PG_ARGISNULL(0))
		ab_drop_retained_stores(superuser());
	else
		repair_table(PG_GETARG_OID(0), &chunks, &bytes);
	values[0] = Int64GetDatum(chunks);
	values[1] = Int64GetDatum(bytes);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

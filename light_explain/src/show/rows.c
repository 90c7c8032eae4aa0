/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Rows of the SQL functions.  A caller adds one value for each column, in the
 *	  order of CREATE FUNCTION.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "show/show.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

/* Make the function return a set of rows.  Values of a row are allocated in a context that each row resets. */
void
light_rows_begin(LightRows *rows, FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	rows->store = result->setResult;
	rows->desc = result->setDesc;
	rows->values = palloc(rows->desc->natts * sizeof(Datum));
	rows->nulls = palloc(rows->desc->natts * sizeof(bool));
	rows->n = 0;
	rows->caller = CurrentMemoryContext;
	rows->context = AllocSetContextCreate(CurrentMemoryContext, "light_explain row", ALLOCSET_DEFAULT_SIZES);
}

/* Start a row: until light_row_end(), the current memory is the row's. */
void
light_row_begin(LightRows *rows)
{
	rows->caller = MemoryContextSwitchTo(rows->context);
	rows->n = 0;
}

/* Add the next column's value, or NULL if it is not there. */
void
light_row_add_if(LightRows *rows, bool there, Datum value)
{
	/* the extension's objects may be those of another version of the library */
	if (rows->n >= rows->desc->natts)
		elog(ERROR, "function of light_explain returns too many columns");
	rows->nulls[rows->n] = !there;
	rows->values[rows->n++] = value;
}

void
light_row_add(LightRows *rows, Datum value)
{
	light_row_add_if(rows, true, value);
}

void
light_row_add_text(LightRows *rows, const char *string)
{
	light_row_add_if(rows, string != NULL, string != NULL ? CStringGetTextDatum(string) : (Datum) 0);
}

/*
 * Add the columns that name a node: label, type, relation, alias, index.  "database" and
 * "encoding" are those of its statement.
 */
void
light_row_add_name(LightRows *rows, const LightNodeName *name, Oid database, int encoding)
{
	const char *columns[] = {
		light_format_name(name, database),
		light_format_type(name),
		light_name_relation(name),
		NameStr(name->alias),
		light_name_index(name)
	};

	for (int i = 0; i < lengthof(columns); i++)
	{
		bool		there = columns[i] != NULL && columns[i][0] != '\0';

		light_row_add_if(rows, there, there ? light_text_datum(columns[i], strlen(columns[i]), encoding) : (Datum) 0);
	}
}

/* The row is complete. */
void
light_row_end(LightRows *rows)
{
	if (rows->n != rows->desc->natts)
		elog(ERROR, "function of light_explain returns %d columns instead of %d", rows->n, rows->desc->natts);
	tuplestore_putvalues(rows->store, rows->desc, rows->values, rows->nulls);
	MemoryContextSwitchTo(rows->caller);
	MemoryContextReset(rows->context);
}

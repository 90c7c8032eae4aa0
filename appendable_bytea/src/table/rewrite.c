/*-------------------------------------------------------------------------
 *
 * rewrite.c
 *	  The command that runs, as far as rows need to know it.
 *
 * ddl/ follows commands and writes what it finds here; the access method asks, when
 * a table is rewritten, whether the values of a column are those of the old rows.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table/table.h"

/* Where what runs outside of commands that the hook has seen is remembered. */
AbCommand	ab_command_outside;
AbCommand  *ab_command = &ab_command_outside;

/*
 * In a rewrite into the transient table "rel", may values of this column have been
 * computed?  Then a reference in them may be another row's or another column's, and
 * is copied.  All others are those of the old rows, which keep their chunks.
 */
bool
ab_rewrite_computes(Relation rel, int attnum)
{
	ListCell   *lc;

	foreach(lc, ab_command->computed)
	{
		AbComputedColumn *column = lfirst(lc);

		if (column->relid == rel->rd_rel->relrewrite && column->attnum == attnum)
			return true;
	}
	return false;
}

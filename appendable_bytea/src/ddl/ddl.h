/*-------------------------------------------------------------------------
 *
 * ddl.h
 *	  What the files that follow DDL commands call of each other.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_DDL_H
#define APPENDABLE_DDL_H

#include "table/table.h"

/* ---- command.c ----------------------------------------------------------- */

extern void ab_ddl_install(void);
extern void ab_table_changed(Oid relid);

/* ---- relation.c ---------------------------------------------------------- */

extern void ab_relation_install(void);
extern void ab_check_relation(Oid relid, AttrNumber attnum);
extern void ab_set_access_method(Oid relid, Oid am);
extern void ab_refuse_unseen_tables(void);

/* ---- hidden.c ------------------------------------------------------------ */

extern bool ab_check_defaults(Oid relid);
extern void ab_refuse_index_expressions(Oid indexid, const char *name);
extern void ab_refuse_partition_key(Oid relid);
extern void ab_refuse_domain(Oid typid);
extern void ab_refuse_statistics(Oid statid);

/* ---- repair.c ------------------------------------------------------------ */

extern void ab_become_owner(Relation rel, Oid *user, int *security);

/* ---- convert.c ----------------------------------------------------------- */

extern void ab_check_conversion(const AlterTableStmt *stmt);
extern void ab_require_no_dependents(List *tables, bool converted);

#endif							/* APPENDABLE_DDL_H */

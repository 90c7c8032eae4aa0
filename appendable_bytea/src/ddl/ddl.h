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

#include "utils/rel.h"

extern void ab_relation_changed(Oid relid);
extern void ab_refuse_hidden_default(Oid relid);
extern void ab_refuse_index_expressions(Oid indexid, const char *name);
extern void ab_refuse_partition_key(Oid relid, const char *name);
extern void ab_refuse_domain(Oid typid);
extern void ab_refuse_statistics(Oid statid);
extern void ab_refuse_own_altered(Oid classid, Oid objid, int subid);
extern void ab_refuse_own_table(Oid relid);
extern void ab_statement_begins(void);
extern void ab_end_store(Oid relid);
extern void ab_become_owner(Relation rel, Oid *user, int *security);
extern void ab_utility_install(void);
extern void ab_drop_retained_stores(bool forgotten);

#endif							/* APPENDABLE_DDL_H */

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

#include "access/xlogdefs.h"

extern void ab_relation_changed(Oid relid);
extern void ab_forget_dropped(void);
extern bool ab_logical_slots_exist(void);
extern bool ab_logical_slots_passed(XLogRecPtr position);

#endif							/* APPENDABLE_DDL_H */

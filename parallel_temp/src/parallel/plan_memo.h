/*-------------------------------------------------------------------------
 *
 * plan_memo.h
 *	  See plan_memo.c.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_MEMO_H
#define PLAN_MEMO_H

#include "nodes/plannodes.h"

/*
 * A statement whose serial plan is "serial", of this cost by held_cost(): a number by which
 * it is known again, or 0 if it cannot be.
 */
extern uint64 plan_memo_key(Query *parse, const char *query_string, int cursor_options, PlannedStmt *serial, Cost held_cost);

/* Was the statement planned with workers before, and stayed serial? */
extern bool plan_memo_stays_serial(uint64 key);

/* It was now. */
extern void plan_memo_note_serial(uint64 key);

#endif							/* PLAN_MEMO_H */

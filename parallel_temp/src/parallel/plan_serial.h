/*-------------------------------------------------------------------------
 *
 * plan_serial.h
 *	  Plans that have no workers in the end.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_SERIAL_H
#define PLAN_SERIAL_H

#include "nodes/plannodes.h"

/* Put the server's sequential scans back into a plan without Gather. */
extern void restore_serial_plan(PlannedStmt *stmt);

#endif							/* PLAN_SERIAL_H */

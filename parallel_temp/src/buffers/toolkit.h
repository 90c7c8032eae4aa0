/*-------------------------------------------------------------------------
 *
 * toolkit.h
 *	  What the files behind the SQL functions share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef TOOLKIT_H
#define TOOLKIT_H

/*
 * ERROR unless this process has the session's local buffers: a parallel worker
 * has none, and would answer 0 to every question.  The functions are marked so
 * that no worker gets them; this is for those who mark them otherwise.
 */
extern void toolkit_require_leader(void);

#endif							/* TOOLKIT_H */

/*-------------------------------------------------------------------------
 *
 * localbuf.h
 *	  What the rest of the extension may ask of the session's local buffers.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LOCALBUF_H
#define LOCALBUF_H

#include "pg_compat.h"

/*
 * Make sure that the session's local buffer table exists (core makes it at the
 * first use of a temporary relation).  Fixes temp_buffers for the session.
 */
extern void localbuf_ensure(void);

/*
 * Count local buffers: *allocated gets those with memory, *dirty those whose
 * page is not written yet and belongs to one of the relations (all relations
 * when nrels is 0).  Either may be NULL.
 */
extern void localbuf_count(Relation *rels, int nrels, int *allocated, int *dirty);

/*
 * Write the dirty local buffers of these relations (every fork), sorted by file
 * and block, neighbours in one vectored write.  Buffers stay resident and become
 * clean.  Returns the number of pages written.  An ERROR leaves the pages that
 * were not written dirty.
 */
extern int	localbuf_flush(Relation *rels, int nrels);

/* The same for every temporary relation of the session. */
extern int	localbuf_flush_all(void);

/*
 * OIDs of the relation, its TOAST table and the indexes of both: everything that
 * a scan of the relation may read.
 */
extern List *localbuf_family(Relation rel);

#endif							/* LOCALBUF_H */

/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  What vacuum, check, statistics and the background worker share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_SWEEP_H
#define APPENDABLE_SWEEP_H

#include "utils/hsearch.h"

#include "store.h"

/* What the rows of a table say about one value id. */
typedef struct AbMark
{
	int64		vid;			/* hash key */
	int64		stored;			/* largest of its references */
	uint32		min_edition;
	uint32		max_edition;
	int			references;
} AbMark;

typedef struct AbSweepResult
{
	bool		skipped;		/* another vacuum of this store is at work */
	bool		dropped;		/* the store of a table that is gone */
	int64		chunks;			/* rows deleted */
	int64		bytes;			/* data in them */
	int64		values;			/* value ids found in the table */
	int64		dying;			/* row versions that keep chunks only for old
								 * snapshots */
} AbSweepResult;

extern HTAB *ab_marks_create(void);
extern void ab_marks_add(HTAB *marks, Relation rel, const AbRef *ref);
extern void ab_vacuum_store(Oid home, AbSweepResult *result);

#endif							/* APPENDABLE_SWEEP_H */

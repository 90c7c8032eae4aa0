/*-------------------------------------------------------------------------
 *
 * plans.h
 *	  The shared memory of kept plans (plans.c), for the files that format plans
 *	  (plans_keep.c) and show them (plans_show.c).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_PLANS_H
#define LIGHT_PLANS_H

#include "datatype/timestamp.h"
#include "show/profile.h"

/* Which executions of a plan are kept. */
typedef enum LightWhich
{
	LIGHT_SLOWEST,
	LIGHT_LAST
} LightWhich;

#define LIGHT_WHICH (LIGHT_LAST + 1)

/* An execution. */
typedef struct LightKept
{
	double		seconds;
	TimestampTz ended;
	int			json_length;	/* the plan as JSON, then as text */
	int			text_length;
	int			stored;			/* bytes of both: less if they are compressed */
	int			block;			/* first one */
	int			nblocks;
} LightKept;

/* A plan of a statement. */
typedef struct LightKeptPlan
{
	LightPlanKey key;
	bool		used;
	int			next;			/* in its bucket or of the free ones, or -1 */
	int			older;			/* by the execution that was kept last, or -1 */
	int			newer;
	int			encoding;
	bool		same;			/* the last execution is the slowest: it is
								 * kept once, as that */
	LightKept	kept[LIGHT_WHICH];
} LightKeptPlan;

typedef struct LightPlansShared
{
	LWLock	   *lock;			/* for all that follows but "failed" */
	int			nplans;			/* room */
	int			nblocks;
	int			used_plans;
	int			used_blocks;
	int			oldest;			/* of the used plans, or -1 */
	int			newest;
	int			free_plan;		/* lists */
	int			free_block;
	int64		resets;			/* from 1 on; also read without the lock */
	int64		kept;			/* executions until now */
	int64		dropped;		/* plans, to make room */
	int64		too_large;		/* executions */
	pg_atomic_uint64 failed;	/* executions that could not be formatted */
} LightPlansShared;

extern LIGHT_PRIVATE LightPlansShared *light_plans;

/* plans.c */
extern LIGHT_PRIVATE double light_plans_put(const LightPlanKey *key, const LightKept *kept, const char *data);
extern LIGHT_PRIVATE LightKeptPlan *light_plans_list(Oid role, bool see_all, int *n);
extern LIGHT_PRIVATE char *light_plans_find(Oid role, bool see_all, uint64 query_id, const uint64 *plan_id,
											LightWhich which, LightKept *kept, int *encoding);
extern LIGHT_PRIVATE void light_plans_empty(void);

/* The last or the slowest execution of a plan. */
static inline const LightKept *
light_kept(const LightKeptPlan *plan, LightWhich which)
{
	return &plan->kept[which == LIGHT_LAST && !plan->same ? LIGHT_LAST : LIGHT_SLOWEST];
}

#endif							/* LIGHT_PLANS_H */

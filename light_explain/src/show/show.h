/*-------------------------------------------------------------------------
 *
 * show.h
 *	  The upper floor: what users see of statements.  profile.h has what the
 *	  profile's own files share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_SHOW_H
#define LIGHT_SHOW_H

#include "compat_executor.h"
#include "fmgr.h"
#include "statement/statement.h"
#include "storage/lwlock.h"

/* Memory of a part of the query store. */
typedef struct LightMemory
{
	int64		bytes;			/* allocated when the server started */
	int64		used;			/* of them, by entries */
	int64		max_entries;
	int64		entries;
	int64		discarded;		/* what there was no space for */
} LightMemory;

/* label.c */
extern LIGHT_PRIVATE char *light_format_name(const LightNodeName *name, Oid database);
extern LIGHT_PRIVATE char *light_format_type(const LightNodeName *name);
extern LIGHT_PRIVATE const char *light_name_relation(const LightNodeName *name);
extern LIGHT_PRIVATE const char *light_name_index(const LightNodeName *name);
extern LIGHT_PRIVATE Datum light_text_datum(const char *string, int length, int encoding);

/* rows.c */

/* The rows that an SQL function returns. */
typedef struct LightRows
{
	Tuplestorestate *store;
	TupleDesc	desc;
	Datum	   *values;
	bool	   *nulls;
	int			n;				/* columns of this row until now */
	MemoryContext context;		/* of one row */
	MemoryContext caller;
} LightRows;

extern LIGHT_PRIVATE void light_rows_begin(LightRows *rows, FunctionCallInfo fcinfo);
extern LIGHT_PRIVATE void light_row_begin(LightRows *rows);
extern LIGHT_PRIVATE void light_row_add(LightRows *rows, Datum value);
extern LIGHT_PRIVATE void light_row_add_if(LightRows *rows, bool there, Datum value);
extern LIGHT_PRIVATE void light_row_add_text(LightRows *rows, const char *string);
extern LIGHT_PRIVATE void light_row_add_name(LightRows *rows, const LightNodeName *name, Oid database, int encoding);
extern LIGHT_PRIVATE void light_row_end(LightRows *rows);

/* explain.c */
extern LIGHT_PRIVATE void light_explain_init(void);
extern LIGHT_PRIVATE void light_explain_init_off(void);
extern LIGHT_PRIVATE bool light_in_explain;
extern LIGHT_PRIVATE bool light_explaining(QueryDesc *queryDesc);
extern LIGHT_PRIVATE void light_keep_last(LightQuery *query);

extern LIGHT_PRIVATE bool light_hides_top(PlanState *top);

/* The counters of a node that ran, in addition to core's. */
typedef struct LightShown
{
	double		loops;
	double		blocks;			/* distinct ones, or -1 */
	const char *sampled;		/* what it waited for, or NULL */
	LightSelf	self;
} LightShown;

/* One of these figures. */
typedef struct LightProperty
{
	const char *name;
	const char *unit;			/* of a fraction; NULL: a whole number */
	double		value;
	const char *string;			/* instead of a number, or NULL */
	bool		always;			/* in text, too, where it is 0 */
} LightProperty;

#define LIGHT_MAX_PROPERTIES 13

/* properties.c */
extern LIGHT_PRIVATE int light_properties(const LightShown *node, bool timing, bool buffers, bool wal, LightProperty *to);

/* weave.c */
extern LIGHT_PRIVATE char *light_weave(const char *plan, ExplainFormat format, const LightShown *nodes, int n);

/* explain.c */
extern LIGHT_PRIVATE LightShown *light_last_shown(int *n);

/* explain_hooks.c or explain_older.c: one of them is built */
extern LIGHT_PRIVATE bool light_take_option(PlannedStmt **pstmt);
extern LIGHT_PRIVATE DestReceiver *light_weaving_receiver(ExplainStmt *stmt, DestReceiver *to);
extern LIGHT_PRIVATE void light_note_finished(QueryDesc *queryDesc);
extern LIGHT_PRIVATE void light_own_ask(ExplainState *es);
extern LIGHT_PRIVATE char *light_own_add(char *plan, ExplainFormat format, LightQuery *query);
extern LIGHT_PRIVATE void light_explain_show_init(void);

/* profile.c */
extern LIGHT_PRIVATE Size light_profile_size(void);
extern LIGHT_PRIVATE int light_profile_locks(void);
extern LIGHT_PRIVATE void light_profile_startup(void);
extern LIGHT_PRIVATE bool light_profiled(void);
extern LIGHT_PRIVATE double light_top_time(LightQuery *query);
extern LIGHT_PRIVATE void light_profile_store(LightQuery *query, double finishing);
extern LIGHT_PRIVATE void light_profile_failed(LightQuery *query, LightQuery *outer, int64 started, double before);

/* profile_show.c */

/* How full the profile is, and what it has no room for. */
typedef struct LightProfileCounts
{
	int			max_nodes;
	int			nodes;
	int			plans;
	int64		dropped_plans;	/* made room for others */
	int64		dropped_nodes;	/* of plans that are too large */
	int64		without_id;		/* statements, because none are computed */
	int64		utility_without_id; /* statements that the server computes
									 * none for */
} LightProfileCounts;

extern LIGHT_PRIVATE void light_profile_counts(LightProfileCounts *counts);
extern LIGHT_PRIVATE void light_profile_memory(LightMemory *plans, LightMemory *texts);

/* history.c */
extern LIGHT_PRIVATE Size light_history_size(void);
extern LIGHT_PRIVATE void light_history_startup(LWLock *lock);

/* history_file.c */
extern LIGHT_PRIVATE void light_history_load(void);

/* history_worker.c */
extern LIGHT_PRIVATE void light_history_init(void);

/* history_show.c */

/* How full the history is, and what it does not have. */
typedef struct LightHistoryCounts
{
	int			pid;			/* of the worker, 0: it does not run */
	int			max_buckets;	/* that have ended */
	int			buckets;
	int64		overwritten;	/* buckets, by newer ones */
	int64		other;			/* plans that a bucket had no room for */
	int64		jumps;			/* of the system's time */
	TimestampTz saved;			/* 0: the file was not written yet */
	int64		bytes;			/* of shared memory */
} LightHistoryCounts;

extern LIGHT_PRIVATE void light_history_counts(LightHistoryCounts *counts);
extern LIGHT_PRIVATE void light_history_memory_used(LightMemory *memory);

/* samples.c */
extern LIGHT_PRIVATE Size light_samples_size(void);
extern LIGHT_PRIVATE void light_samples_startup(LWLock *lock);

/* waits.c */
extern LIGHT_PRIVATE Size light_waits_size(void);
extern LIGHT_PRIVATE void light_waits_startup(void);

/* sampler.c */
extern LIGHT_PRIVATE void light_sampler_init(void);

/* samples_show.c */

/* The sampler's state. */
typedef struct LightSamplesCounts
{
	int			pid;			/* of the sampler, 0: it does not run */
	int64		rounds;
	int64		late;			/* of them, by more than an interval */
	int64		torn;			/* processes that could not be read */
	int64		taken;			/* samples */
	int			ring;			/* of them are kept at most */
	int64		overwritten;	/* in the ring */
	int			max_waits;		/* sums */
	int			waits;
	int64		discarded;		/* samples of dropped sums */
	int64		unmapped;		/* processes without nodes */
} LightSamplesCounts;

extern LIGHT_PRIVATE void light_samples_counts(LightSamplesCounts *counts);
extern LIGHT_PRIVATE void light_samples_memory(LightMemory *sums, LightMemory *ring);
extern LIGHT_PRIVATE void light_waits_memory_used(LightMemory *memory);

/* plans.c */

/* How full the memory for plans is, and what it does not have. */
typedef struct LightPlansCounts
{
	int64		max_bytes;
	int64		bytes;
	int			max_plans;
	int			plans;
	int64		kept;			/* executions until now */
	int64		dropped;		/* plans that made room for others */
	int64		too_large;		/* executions */
	int64		failed;			/* executions that could not be formatted */
} LightPlansCounts;

extern LIGHT_PRIVATE Size light_plans_wanted_size(void);
extern LIGHT_PRIVATE void light_plans_startup(LWLock *lock);
extern LIGHT_PRIVATE void light_plans_counts(LightPlansCounts *counts);
extern LIGHT_PRIVATE void light_plans_memory(LightMemory *memory);

/* plans_keep.c */
extern LIGHT_PRIVATE char *light_sampled_text(int node);

#endif							/* LIGHT_SHOW_H */

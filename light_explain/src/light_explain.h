/*-------------------------------------------------------------------------
 *
 * light_explain.h
 *	  What the parts of light_explain share: the record of a plan node, the
 *	  statement that owns records, and the stack of running nodes.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_EXPLAIN_H
#define LIGHT_EXPLAIN_H

#include "postgres.h"

#include "clock.h"
#include "executor/execdesc.h"
#include "executor/instrument.h"
#include "nodes/execnodes.h"

#include "compat_instrument.h"

/* Functions and data of this library that its other files use, but nobody else. */
#define LIGHT_PRIVATE __attribute__((visibility("hidden")))

typedef struct LightUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} LightUsage;

#define LIGHT_USAGE_WORDS (sizeof(LightUsage) / sizeof(int64))

/* The counters of blocks, all but times of I/O: the first ten of BufferUsage. */
#define LIGHT_LITE_WORDS 10

/* Two counters at a time, as every processor of ours can. */
typedef long long LightWords2 __attribute__((vector_size(16), aligned(8), may_alias));

StaticAssertDecl(LIGHT_LITE_WORDS % 2 == 0, "counters are taken by twos");

/* How the wrapper around a node reads the clock. */
typedef enum LightClock
{
	LIGHT_CLOCK_NONE,			/* not at all */
	LIGHT_CLOCK_TSC,			/* processor's counter, unordered */
	LIGHT_CLOCK_ORDERED,		/* processor's counter, ordered after loads */
	LIGHT_CLOCK_SYSTEM,			/* clock_gettime(), as core up to 18 */
	LIGHT_CLOCK_SAMPLED			/* in some of the calls: see sample.c */
} LightClock;

/* light_explain.timing */
typedef enum LightTiming
{
	LIGHT_TIMING_AUTO,
	LIGHT_TIMING_EXACT,
	LIGHT_TIMING_ORDERED,
	LIGHT_TIMING_CORE
} LightTiming;

/* Calls of a node that were timed, of one kind: see sample.c. */
typedef struct LightSamples
{
	int32		weight;			/* calls for which the next timed one stands */
	int32		timed;			/* calls that were timed */
	int64		average;		/* ticks of a usual call, many times */
	int64		assumed;		/* ticks of calls that were not timed */
	double		v[3];			/* of the estimate's variance: sums of w(w-1),
								 * w(w-1)t, w(w-1)t^2 */
}			LightSamples;

/*
 * The record of one plan node, to which PlanState.instrument points once the
 * statement has moved to the light wrappers.  Core goes on using its own part;
 * of that part the wrappers only keep "running" and "tuplecount".  What they
 * measure is here and is added to core's part when the statement is finished.
 *
 * The second part is one cache line: all that a call of the node touches beside
 * the first line of core's part.
 */
typedef struct LightRecord
{
	NodeInstrumentation_compat core;	/* must be first */

	struct LightRecord *caller pg_attribute_aligned(64);	/* on top when this node
															 * was last called */
	int64		total;			/* ticks in this node and what it called */
	int64		startup;		/* ... of the first call of each cycle */
	int64		total_moved;	/* part of total booked under earlier callers */
	int64		total_taken;	/* ticks of nodes called from here earlier,
								 * from elsewhere now */
	struct LightRecord *callees;	/* list of nodes whose caller this is */
	struct LightRecord *next_callee;
	int32		left[2];		/* calls until one is timed: first ones of a
								 * cycle, others */

	/* seldom touched */
	LightUsage	self pg_attribute_aligned(64);	/* usage while on top */
	LightUsage *moved;			/* usage taken from callees that went to other
								 * callers, less usage booked under earlier
								 * callers of this node */
	PlanState  *planstate;
	struct LightQuery *query;
	struct LightBlocks *blocks; /* see blocks.c */
	int32		parent;			/* record in the plan tree above, or -1 */
	int16		depth;			/* in the plan tree */
	bool		left_to_core;	/* no wrapper: core measures this node */
	LightSamples samples[2];	/* of first calls of a cycle, of others */
} LightRecord;

StaticAssertDecl(sizeof(LightRecord) - sizeof(NodeInstrumentation_compat) + sizeof(LightUsage) <= 640,
				 "a record takes at most 640 bytes beyond core's struct");

/* What kind of node: all of its name but strings.  Without gaps, it is hashed. */
typedef struct LightNodeKind
{
	int16		tag;			/* of the plan node */
	int16		kind;			/* operation, type of join, strategy */
	int16		variant;		/* direction, part of an aggregate, command */
	bool		parallel;
	bool		async;
	Oid			function;		/* of a function scan */
} LightNodeKind;

StaticAssertDecl(sizeof(LightNodeKind) == 12, "no gap in LightNodeKind");

/* A node's name in parts, cheap to take and without pointers: see name.c. */
typedef struct LightNodeName
{
	LightNodeKind kind;
	NameData	object;			/* relation, CTE, index of a bitmap */
	NameData	detail;			/* index, kind of custom scan */
	NameData	alias;
} LightNodeName;

/* Relations that the nodes of a statement name. */
typedef struct LightAliases
{
	Bitmapset  *used;
	const char **names;			/* of each of them, once asked for */
} LightAliases;

/*
 * A statement with instrumentation, from its ExecutorStart to its end.
 * light_query_start() sets each field of the first part, light_query_enter()
 * those of the second and light_upgrade() those of the third: the shortest
 * statements pay for every store, and for every cache line.
 */
typedef struct LightQuery
{
	struct LightQuery *next;
	QueryDesc  *queryDesc;
	EState	   *estate;
	MemoryContext context;		/* the statement's own */
	int			level;			/* of the transaction in which it started */

	/* the statement is being run: see light_query_enter() */
	int			run_level;		/* of the transaction that runs it */
	struct LightQuery *outer;	/* statement that runs around it */
	LightRecord *outer_top;		/* light.top before */

	LightTiming timing;
	int			calls;			/* calls by light_quick */
	int			switch_after;	/* calls of a node before all are switched */
	int			nrecords;		/* with the root */
	int			slot;			/* shared memory that holds the records, or -1 */
	LightRecord *records;		/* [0] is the root: the executor itself */
	double		tick;			/* seconds a tick, once finished */
	bool		explained;		/* EXPLAIN ANALYZE's own statement */
	bool		tied;			/* lives until its memory context is reset */
	bool		wrapped;		/* nodes carry light_first or light_probe */
	bool		upgraded;		/* nodes have records */
	bool		finished;		/* figures were added to core's */
	bool		on_stack;		/* the root is on the stack */
	bool		has_gather;
	bool		usage;			/* count buffers and WAL */
	bool		usage_full;		/* also times of I/O may change */
	bool		count_blocks;	/* estimate distinct heap blocks */
	bool		timer;
	bool		quick;			/* nodes may carry light_quick at first */
	bool		whole;			/* nodes had records from their first call on */

	/* set when the statement is tied */
	MemoryContextCallback callback;
	struct LightCallers *callers;	/* of each subplan, once asked for: see
									 * self.c */

	/* set when the nodes get records */
	LightClock	clock;
	ExecProcNodeMtd wrapper;	/* what an upgraded node calls */
	int			nrecords_allocated;
	LightUsage	entry;			/* counters when the root was put on top */
	int64		entered;		/* clock at that moment */

	/* since a call was left out: see sample.c */
	bool		watched;
	int64		watched_from;	/* clock at the last look */
	int64		watched_cpu;	/* microseconds of the processor then */
	int64		watched_waits;	/* voluntary ones, then */
	int64		ran;			/* ticks between looks, ... */
	int64		cpu;			/* microseconds of the processor, ... */
	int64		waits;			/* and waits in them */
} LightQuery;

/* The server's own measure of a whole statement, while we take it: see total.c. */
typedef struct LightTotal
{
	Instrumentation *instr;		/* QueryDesc's */
	bool		empty;			/* there is nothing to measure */
	bool		first;			/* it had not run before */
	int64		start;
	LightWords2 blocks[LIGHT_LITE_WORDS / 2];
	WalUsage	wal;
} LightTotal;

/*
 * The stack of running nodes: its top; the links are LightRecord.caller.  The
 * counters were last looked at when they were "seen".
 */
typedef struct LightState
{
	LightUsage	seen pg_attribute_aligned(64);
	LightRecord *volatile top pg_attribute_aligned(64);
	LightQuery *current;		/* innermost statement that is being run */
	LightQuery *queries;		/* all statements, the latest first */
	int			level;			/* of the (sub)transaction */
} LightState;

extern LIGHT_PRIVATE LightState light;
extern LIGHT_PRIVATE LightRecord light_bottom;

/* guc.c */
extern LIGHT_PRIVATE bool light_enabled;
extern LIGHT_PRIVATE int light_timing;
extern LIGHT_PRIVATE int light_switch_after;
extern LIGHT_PRIVATE bool light_distinct_blocks;
extern LIGHT_PRIVATE bool light_instrument_all;
extern LIGHT_PRIVATE bool light_profile;
extern LIGHT_PRIVATE int light_profile_max;
extern LIGHT_PRIVATE int light_profile_text;
extern LIGHT_PRIVATE bool light_profile_keep;
extern LIGHT_PRIVATE int light_progress_statements;
extern LIGHT_PRIVATE int light_progress_nodes;
extern LIGHT_PRIVATE void light_define_settings(void);

/* selftest.c */
extern LIGHT_PRIVATE ExecProcNodeMtd light_core_first;
extern LIGHT_PRIVATE ExecProcNodeMtd light_core_instr;
extern LIGHT_PRIVATE const char *light_off_reason;	/* NULL: it is not off */
extern LIGHT_PRIVATE bool light_server_fits(void);
extern LIGHT_PRIVATE bool light_other_minor(void);
extern LIGHT_PRIVATE void light_warn_version(void);
extern LIGHT_PRIVATE void light_not_shared(const char *what);

/* clock.c */
extern LIGHT_PRIVATE bool light_tsc_usable;
extern LIGHT_PRIVATE double light_ns_per_tick;
extern LIGHT_PRIVATE bool light_clock_is_quick(void);
extern LIGHT_PRIVATE void light_clock_init(void);
extern LIGHT_PRIVATE const char *light_clock_name(void);
extern LIGHT_PRIVATE double light_seconds_per_tick(void);
extern LIGHT_PRIVATE int64 light_ticks(double seconds);

/* The clock in ticks, as the wrappers of all but the system clock read it. */
static inline int64
light_now(void)
{
	if (likely(light_tsc_usable))
		return light_counter();
	return light_system_ns();
}

/* sample.c */
extern LIGHT_PRIVATE void light_sample_init(void);
extern LIGHT_PRIVATE double light_sample_cost(void);
extern LIGHT_PRIVATE void light_sample(LightRecord *record, int kind, int64 elapsed);
extern LIGHT_PRIVATE double light_sample_variance(const LightRecord *record);
extern LIGHT_PRIVATE void light_settle_times(LightQuery *query);
extern LIGHT_PRIVATE void light_watch(LightQuery *query);
extern LIGHT_PRIVATE void light_watched(LightQuery *query);

/* hotpath.c */
extern LIGHT_PRIVATE TupleTableSlot *light_call_as_core(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_quick_first(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_quick(PlanState *node);
extern LIGHT_PRIVATE void light_sync(LightRecord *record);
extern LIGHT_PRIVATE ExecProcNodeMtd light_wrapper_for(LightClock clock, bool usage, bool full);
extern LIGHT_PRIVATE void light_hotpath_init(void);

/* blocks.c */
extern LIGHT_PRIVATE bool light_counts_blocks(PlanState *node);
extern LIGHT_PRIVATE TupleTableSlot *light_count_blocks(PlanState *node);
extern LIGHT_PRIVATE double light_distinct_blocks_of(LightQuery *query, PlanState *planstate);

/* phase.c */
extern LIGHT_PRIVATE void light_wrap(LightQuery *query);
extern LIGHT_PRIVATE bool light_upgrade(LightQuery *query);
extern LIGHT_PRIVATE bool light_seen_before(PlanState *node, Bitmapset **seen);
extern LIGHT_PRIVATE LightRecord *light_record_of(LightQuery *query, PlanState *planstate);

/* total.c */
extern LIGHT_PRIVATE bool light_total_start(LightTotal *total, LightQuery *query, bool finish);
extern LIGHT_PRIVATE void light_total_stop(LightTotal *total);
extern LIGHT_PRIVATE void light_total_failed(LightTotal *total);

/* usage.c */
extern LIGHT_PRIVATE void light_change_caller(LightRecord *record, LightRecord *caller);
extern LIGHT_PRIVATE void light_settle(LightQuery *query);

/* query.c */
extern LIGHT_PRIVATE void light_query_start(QueryDesc *queryDesc, bool explained);
extern LIGHT_PRIVATE LightQuery *light_query_of(EState *estate);
extern LIGHT_PRIVATE void light_query_tie(LightQuery *query);
extern LIGHT_PRIVATE void light_query_done(LightQuery *query);
extern LIGHT_PRIVATE void light_query_enter(LightQuery *query);
extern LIGHT_PRIVATE void light_query_leave(LightQuery *query);
extern LIGHT_PRIVATE void light_root_enter(LightQuery *query);
extern LIGHT_PRIVATE void light_query_init(void);

/* Our part of a statement, or NULL. */
static inline LightQuery *
light_query_find(QueryDesc *queryDesc)
{
	LightQuery *query = light.queries;

	while (query != NULL && (query->queryDesc != queryDesc || query->estate != queryDesc->estate))
		query = query->next;
	return query;
}

extern LIGHT_PRIVATE void light_forget_stack(void);

/* self.c */
typedef struct LightSelf
{
	double		time;			/* seconds */
	double		error;			/* standard error of the time */
	LightUsage	usage;
} LightSelf;

extern LIGHT_PRIVATE LightSelf light_self(LightQuery *query, PlanState *planstate);
extern LIGHT_PRIVATE bool light_measured_by_core(PlanState *planstate);

/* name.c */
extern LIGHT_PRIVATE uint64 light_hash_name(uint64 hash, PlanState *planstate);
extern LIGHT_PRIVATE void light_aliases_note(LightAliases *aliases, PlanState *planstate);
extern LIGHT_PRIVATE void light_node_name(PlanState *planstate, LightAliases *aliases, LightNodeName *name);
extern LIGHT_PRIVATE char *light_format_name(const LightNodeName *name, Oid database);
extern LIGHT_PRIVATE Datum light_text_datum(const char *string, int length, int encoding);

/* nodes.c */

/* A node of a statement that has ended. */
typedef struct LightFigure
{
	PlanState  *planstate;
	int			id;				/* plan_node_id */
	int			parent;			/* likewise, -1 at the top */
	int			depth;
	double		plan_rows;
	double		rows;
	double		loops;
	double		filtered;
	double		time;			/* seconds, with the nodes that it called */
	LightSelf	self;
} LightFigure;

extern LIGHT_PRIVATE LightFigure *light_figures(LightQuery *query, int *n);
extern LIGHT_PRIVATE void light_figure_names(const LightFigure *figures, int n, LightNodeName *names, Size stride);
extern LIGHT_PRIVATE uint64 light_plan_hash(const LightFigure *figures, int n);

/* explain.c */
extern LIGHT_PRIVATE void light_explain_init(void);
extern LIGHT_PRIVATE void light_explain_init_off(void);
extern LIGHT_PRIVATE bool light_in_explain;
extern LIGHT_PRIVATE bool light_explaining(QueryDesc *queryDesc);
extern LIGHT_PRIVATE void light_keep_last(LightQuery *query);

/* progress.c */

/* What became of statements that wanted to be seen. */
typedef struct LightProgressCounts
{
	int			slots;
	int			used;
	int64		refused_full;	/* no slot was free */
	int64		refused_role;	/* the login role had its share */
	int64		refused_nodes;	/* too many plan nodes */
} LightProgressCounts;

extern LIGHT_PRIVATE Size light_progress_size(void);
extern LIGHT_PRIVATE void light_progress_startup(void);
extern LIGHT_PRIVATE void light_progress_counts(LightProgressCounts *counts);
extern LIGHT_PRIVATE LightRecord *light_progress_claim(LightQuery *query, int nrecords);
extern LIGHT_PRIVATE void light_progress_publish(LightQuery *query);
extern LIGHT_PRIVATE void light_progress_hide(LightQuery *query);
extern LIGHT_PRIVATE void light_progress_release(LightQuery *query);

/* profile.c */
extern LIGHT_PRIVATE Size light_profile_size(void);
extern LIGHT_PRIVATE int light_profile_locks(void);
extern LIGHT_PRIVATE void light_profile_startup(void);
extern LIGHT_PRIVATE bool light_profiled(LightQuery *query);
extern LIGHT_PRIVATE void light_profile_store(LightQuery *query);
extern LIGHT_PRIVATE void light_profile_failed(LightQuery *query, LightQuery *outer, Oid role, int64 started);

/* profile_show.c */

/* How full the profile is, and what it has no room for. */
typedef struct LightProfileCounts
{
	int			max_nodes;
	int			nodes;
	int			plans;
	int64		dropped_plans;	/* made room for others */
	int64		dropped_nodes;	/* of plans that are too large */
	int64		without_id;		/* statements without an identifier */
} LightProfileCounts;

extern LIGHT_PRIVATE void light_profile_counts(LightProfileCounts *counts);

#endif							/* LIGHT_EXPLAIN_H */

/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  The middle floor: statements with instrumentation, their phases, the flat
 *	  array of their nodes, and what nodes used and are called.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_STATEMENT_H
#define LIGHT_STATEMENT_H

#include "compat_executor.h"
#include "datatype/timestamp.h"
#include "executor/execdesc.h"
#include "measure/measure.h"
#include "port/atomics.h"
#include "tcop/dest.h"

/* ---- nodes -------------------------------------------------------------- */

/*
 * How far a statement is.  It only goes forward, and from LIGHT_CORE_FAST or
 * LIGHT_CORE to LIGHT_TRACKED only if a node is called often, or at once in EXPLAIN
 * ANALYZE and where there are InitPlans.
 */
typedef enum LightPhase
{
	LIGHT_STARTED,				/* not run yet */
	LIGHT_CORE_FAST,			/* measured as core does, into core's structs,
								 * by our clock and what short calls need */
	LIGHT_CORE,					/* measured as core does, into core's structs */
	LIGHT_TRACKED,				/* nodes have records */
	LIGHT_FINISHED				/* what records had was added to core's */
} LightPhase;

/* How the calls of a node with a record are measured. */
typedef enum LightTreatment
{
	LIGHT_EACH_CALL,
	LIGHT_COUNT_BLOCKS,			/* ... with the distinct blocks of a scan */
	LIGHT_SKIP_PAGES,			/* but those that pages.c skips */
	LIGHT_SKIP_FILTERED,		/* ... of a scan with a filter */
	LIGHT_SKIP_INDEX_ONLY,		/* ... of an index-only scan */
	LIGHT_GATHER,				/* core sets entry functions below it again */
	LIGHT_BY_CORE				/* by core, inside its code */
} LightTreatment;

/* Is a node measured by core, inside its code? */
static inline bool
light_measured_by_core(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_HashState:
		case T_BitmapIndexScanState:
		case T_BitmapAndState:
		case T_BitmapOrState:
			return true;
		default:
			return node->async_capable;
	}
}

/* Was a node called, in this process or in a worker?  If not, it has no counters. */
static inline bool
light_was_called(const PlanState *node)
{
	return node->instrument->running || node->instrument->nloops > 0;
}

/*
 * A node of a statement.  They are in the order of EXPLAIN, so what is below a
 * node follows it.  The first one is the root, which represents the executor and
 * has no planstate; nodes at the top have it as parent.
 */
typedef struct LightNode
{
	PlanState  *planstate;
	int			parent;			/* index */
	int16		depth;			/* 0 at the top */
	uint8		treatment;		/* LightTreatment, once there are records */
	bool		subplan;		/* top of one */
	bool		init_plan;		/* and evaluated when its value is first
								 * needed */
} LightNode;

typedef struct LightNodes
{
	LightNode  *node;			/* NULL until it is first needed */
	int			n;				/* with the root */
} LightNodes;

/* The kind of a node: all of its name except strings.  Without gaps, because it is hashed. */
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

/* Bytes of a name as light_spell_name() writes it, at most. */
#define LIGHT_SPELLING_SIZE (sizeof(LightNodeKind) + 1 + 3 * NAMEDATALEN)

/* Relations that the nodes of a statement name. */
typedef struct LightAliases
{
	Bitmapset  *used;
	const char **names;			/* of those with a number, by range table
								 * index, once asked for */
} LightAliases;

/* Plan nodes of a statement whose counters need no allocation. */
#define LIGHT_FEW_NODES 8

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

	/* of light_figures_space() */
	int64		memory;			/* bytes at most; 0: not known */
	int64		spilled;		/* bytes */
	int64		jit_functions;	/* of the statement; only in the first one */
	double		jit_time;
} LightFigure;

/* ---- statements --------------------------------------------------------- */

/*
 * A statement with instrumentation, from its ExecutorStart to its end.
 * light_query_start() sets each field of the first part, light_query_enter()
 * those of the second and light_record() those of the third: the shortest
 * statements pay for every store, and for every cache line.
 */
typedef struct LightQuery
{
	struct LightQuery *next;
	QueryDesc  *queryDesc;
	EState	   *estate;
	MemoryContext context;		/* the statement's own */
	Oid			role;			/* that started it */
	int			level;			/* of the transaction in which it started */
	LightPhase	phase;
	LightTiming timing;
	int			calls;			/* by nodes in LIGHT_CORE_FAST */
	int			switch_after;	/* calls of a node before all get records */
	int			slot;			/* shared memory that holds the records, or -1 */
	uint32		execution;		/* its number, for the sampler */
	LightNodes	nodes;
	bool		explained;		/* EXPLAIN ANALYZE's own statement */
	bool		tied;			/* lives until its memory context is reset */
	bool		timer;
	bool		fast;			/* LIGHT_CORE_FAST is possible */
	bool		parallel;		/* may start workers */
	bool		count_blocks;	/* estimate distinct heap blocks */
	bool		io_timing;		/* times of I/O may change */
	bool		whole;			/* nodes had records from their first call on */
	bool		init_plans;		/* there are some */
	bool		shuts_down;		/* a node has something to do in
								 * ExecShutdownNode() */

	/* the statement is being run: see light_query_enter() */
	int			run_level;		/* of the transaction that runs it */
	struct LightQuery *outer;	/* statement that runs around it */
	LightRecord *outer_top;		/* of the stack, before */
	int			begun;			/* as light_activity_begin() returned it */

	/* set when the nodes get records */
	LightBooks	books;

	/* set when the statement is tied */
	MemoryContextCallback callback;
} LightQuery;

/* All statements of this process. */
typedef struct LightChain
{
	LightQuery *current;		/* innermost one that is being run */
	LightQuery *queries;		/* all, the latest first */
	int			level;			/* of the (sub)transaction */
} LightChain;

extern LIGHT_PRIVATE LightChain light_chain;

/* Have the nodes of a statement records? */
static inline bool
light_recorded(const LightQuery *query)
{
	return query->phase >= LIGHT_TRACKED;
}

/* ---- records that others can see ---------------------------------------- */

/*
 * A slot is its head, then nodes, then records with one more for the root.  Its
 * owner writes, others copy: see slots.c.
 */
typedef struct LightProgressNode
{
	int			id;
	int			parent;			/* node number, -1 at the top */
	int			depth;
	double		plan_rows;
	double		plan_cost;		/* of a loop, with all below */
	double		plan_blocks;	/* of a sequential scan's table, else 0 */
	int			plan_width;		/* bytes of a row */
	LightNodeName name;
} LightProgressNode;

typedef struct LightProgressSlot
{
	pg_atomic_uint32 generation;
	int			leader;			/* its process in a parallel worker, else 0 */
	Oid			database;
	int			encoding;		/* of the database */
	Oid			role;
	uint64		query_id;
	TimestampTz started;
	bool		timed;
	int			work_mem;		/* the process's, in kilobytes */
	int			nnodes;
} LightProgressSlot;

/* Counters of statements that needed a slot. */
typedef struct LightProgressCounts
{
	int			slots;
	int			used;
	int64		refused_full;	/* no slot was free */
	int64		refused_role;	/* the login role had its share */
	int64		refused_nodes;	/* too many plan nodes */
} LightProgressCounts;

/* ---- functions ---------------------------------------------------------- */

/* query.c */
extern LIGHT_PRIVATE void light_query_init(void);
extern LIGHT_PRIVATE void light_query_start(QueryDesc *queryDesc, bool explained);
extern LIGHT_PRIVATE LightQuery *light_query_of(EState *estate);
extern LIGHT_PRIVATE void light_query_tie(LightQuery *query);
extern LIGHT_PRIVATE void light_query_enter(LightQuery *query, bool shown);
extern LIGHT_PRIVATE void light_query_leave(LightQuery *query);
extern LIGHT_PRIVATE void light_query_done(LightQuery *query);
extern LIGHT_PRIVATE void light_forget_stack(void);

/* Our part of a statement, or NULL. */
static inline LightQuery *
light_query_find(QueryDesc *queryDesc)
{
	LightQuery *query = light_chain.queries;

	while (query != NULL && (query->queryDesc != queryDesc || query->estate != queryDesc->estate))
		query = query->next;
	return query;
}

/* activity.c */
extern LIGHT_PRIVATE void light_activity_init(void);
extern LIGHT_PRIVATE int light_activity_begin(LightActivity activity, uint64 query_id, Oid role, uint32 execution);
extern LIGHT_PRIVATE void light_activity_parallel(void);
extern LIGHT_PRIVATE void light_activity_end(int begun);
extern LIGHT_PRIVATE void light_activity_commit(bool begins);
extern LIGHT_PRIVATE void light_activity_abort(int level);
extern LIGHT_PRIVATE void light_activity_private(const LightBooks *books);
extern LIGHT_PRIVATE void light_activity_answer(uint32 execution, uint64 plan_id);

/*
 * An execution has ended, and its plan is known: for the sampler, which asks when it has seen the
 * execution, or learns then that it has just ended.
 */
static inline void
light_activity_ended(uint32 execution, uint64 plan_id)
{
	volatile	LightEnded *ended = &light_cell->ended[execution % LIGHT_ENDED];

	if (execution == 0)
		return;
	ended->execution = 0;
	pg_write_barrier();
	ended->plan_id = plan_id;
	pg_write_barrier();
	ended->execution = execution;
	if (unlikely(light_cell->asked & LIGHT_ASKED(execution)))
		light_activity_answer(execution, plan_id);
}

/* A number for an execution of a statement, which is unique among the last ones of its cell. */
static inline uint32
light_execution_number(void)
{
	if (unlikely(light_cell->pid == 0))
		light_cell_take();
	if (unlikely(++light_cell->executions == 0))
		light_cell->executions = 1;
	return light_cell->executions;
}

/* phase.c */
extern LIGHT_PRIVATE void light_phase_init(bool avx2);
extern LIGHT_PRIVATE void light_wrap(LightQuery *query);
extern LIGHT_PRIVATE bool light_record(LightQuery *query);
extern LIGHT_PRIVATE LightRecord *light_record_of(LightQuery *query, PlanState *planstate);

/* nodes.c */
extern LIGHT_PRIVATE bool light_nodes_below(PlanState *top, MemoryContext context, LightNodes *nodes);
extern LIGHT_PRIVATE LightNodes *light_nodes(LightQuery *query);
extern LIGHT_PRIVATE int light_node_index(const LightNodes *nodes, PlanState *planstate);
extern LIGHT_PRIVATE LightFigure *light_figures(LightQuery *query, LightFigure *few, int *n);
extern LIGHT_PRIVATE void light_figure_names(const LightFigure *figures, int n, LightNodeName *names, Size stride);
extern LIGHT_PRIVATE uint64 light_plan_hash(const LightFigure *figures, int n);

/* settle.c */
extern LIGHT_PRIVATE void light_turn_back(LightQuery *query);
extern LIGHT_PRIVATE void light_settle(LightQuery *query);

/* self.c */
extern LIGHT_PRIVATE void light_self_at(const LightNodes *nodes, LightQuery *query, int i, LightSelf *self);
extern LIGHT_PRIVATE void light_self(LightQuery *query, PlanState *planstate, LightSelf *self);
extern LIGHT_PRIVATE double light_distinct_blocks_of(LightQuery *query, PlanState *planstate);

/* space.c */
extern LIGHT_PRIVATE void light_figures_space(const LightQuery *query, LightFigure *figures, int n, bool finished);

/* name.c */
extern LIGHT_PRIVATE Size light_spell_name(PlanState *planstate, char *to, Size room);
extern LIGHT_PRIVATE void light_aliases_note(LightAliases *aliases, PlanState *planstate);
extern LIGHT_PRIVATE void light_node_name(PlanState *planstate, LightAliases *aliases, LightNodeName *name);

/* total.c */
extern LIGHT_PRIVATE void light_total_run(LightQuery *query, EXECUTORRUN_PARAMS_compat);
extern LIGHT_PRIVATE void light_total_finish_empty(QueryDesc *queryDesc);

/* slots.c */
extern LIGHT_PRIVATE Size light_progress_size(void);
extern LIGHT_PRIVATE void light_progress_startup(void);
extern LIGHT_PRIVATE void light_progress_counts(LightProgressCounts *counts);
extern LIGHT_PRIVATE LightRecord *light_progress_claim(LightQuery *query, int nrecords);
extern LIGHT_PRIVATE void light_progress_publish(LightQuery *query);
extern LIGHT_PRIVATE bool light_progress_names(LightQuery *query, LightNodeName *names, Size stride);
extern LIGHT_PRIVATE void light_progress_hide(LightQuery *query);
extern LIGHT_PRIVATE void light_progress_release(LightQuery *query);
extern LIGHT_PRIVATE int light_slots(void);
extern LIGHT_PRIVATE bool light_slot_node(const LightRecord *top, int *node);
extern LIGHT_PRIVATE Size light_slot_size(void);
extern LIGHT_PRIVATE LightProgressNode *light_slot_nodes(LightProgressSlot *slot);
extern LIGHT_PRIVATE LightRecord *light_slot_records(LightProgressSlot *slot);
extern LIGHT_PRIVATE uint32 light_slot_copy(int n, LightProgressSlot *copy, bool see_all);

#endif							/* LIGHT_STATEMENT_H */

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

#include "datatype/timestamp.h"
#include "executor/execdesc.h"
#include "measure/measure.h"
#include "port/atomics.h"
#include "tcop/dest.h"

/* ---- nodes -------------------------------------------------------------- */

/*
 * How far a statement is.  It only goes forward, and from QUICK or PROBED to
 * RECORDED only if a node is called often, or at once in EXPLAIN ANALYZE of a
 * statement that is not brief.
 */
typedef enum LightPhase
{
	LIGHT_STARTED,				/* not run yet */
	LIGHT_QUICK,				/* measured as core does, with the quick clock */
	LIGHT_PROBED,				/* measured as core does */
	LIGHT_RECORDED,				/* nodes have records */
	LIGHT_FINISHED				/* what records had was added to core's */
} LightPhase;

/* What a node is to us. */
typedef enum LightRole
{
	LIGHT_NODE,					/* any other */
	LIGHT_SCAN,					/* a scan whose distinct blocks are counted */
	LIGHT_PAGES,				/* a scan that moves counters page by page */
	LIGHT_JOIN,					/* a join that moves none once it is prepared */
	LIGHT_GATHER,				/* core sets entry functions below it anew */
	LIGHT_LEFT					/* left to core, which measures it inside its
								 * own code */
} LightRole;

#define LIGHT_ROLES (LIGHT_LEFT + 1)

/* Is a node of the last role? */
static inline bool
light_left_to_core(PlanState *node)
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

/* Was a node called, in this process or in a worker?  If not, it has no figures. */
static inline bool
light_was_called(const PlanState *node)
{
	return node->instrument->running || node->instrument->nloops > 0;
}

/* What kind of node is it to who goes down a plan? */
#define LIGHT_SHUTS_DOWN 1		/* ExecShutdownNode() does something */
#define LIGHT_OTHER_CHILDREN 2	/* beside or instead of outer and inner ones */

static inline int
light_node_traits(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_GatherState:
		case T_GatherMergeState:
		case T_ForeignScanState:
		case T_HashState:
		case T_HashJoinState:
			return LIGHT_SHUTS_DOWN;
		case T_CustomScanState:
			return LIGHT_SHUTS_DOWN | LIGHT_OTHER_CHILDREN;
		case T_AppendState:
		case T_MergeAppendState:
		case T_BitmapAndState:
		case T_BitmapOrState:
		case T_SubqueryScanState:
			return LIGHT_OTHER_CHILDREN;
		default:
			return 0;
	}
}

/*
 * A node of a statement.  They are in the order of EXPLAIN, so what is below a
 * node follows it.  The first one is the root, which stands for the executor and
 * has no planstate; nodes at the top have it as parent.
 */
typedef struct LightNode
{
	PlanState  *planstate;
	int			parent;			/* index */
	int16		depth;			/* 0 at the top */
	uint8		role;			/* LightRole */
	bool		subplan;		/* evaluated by who needs its value */
} LightNode;

typedef struct LightNodes
{
	LightNode  *node;			/* NULL as long as nobody asked */
	int			n;				/* with the root */
} LightNodes;

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
	const char **names;			/* of those with a number, by range table
								 * index, once asked for */
} LightAliases;

/* What a node used without the nodes that it called. */
typedef struct LightSelf
{
	double		time;			/* seconds */
	double		error;			/* standard error of the time */
	double		added;			/* part of the time that measuring costs */
	LightUsage	usage;
} LightSelf;

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
	int			level;			/* of the transaction in which it started */
	LightPhase	phase;
	LightTiming timing;
	int			calls;			/* by nodes in the quick phase */
	int			switch_after;	/* calls of a node before all get records */
	int			slot;			/* shared memory that holds the records, or -1 */
	LightNodes	nodes;
	struct LightCallers *callers;	/* of each subplan, once asked for: see
									 * self.c */
	double		tick;			/* seconds a tick, once finished */
	bool		explained;		/* EXPLAIN ANALYZE's own statement */
	bool		tied;			/* lives until its memory context is reset */
	bool		timer;
	bool		quick;			/* may be measured by the quick clock */
	bool		parallel;		/* may start workers */
	bool		count_blocks;	/* estimate distinct heap blocks */
	bool		io_timing;		/* times of I/O may change */
	bool		whole;			/* nodes had records from their first call on */
	bool		others;			/* nodes without our wrapper were called, once
								 * finished: see self.c */

	/* the statement is being run: see light_query_enter() */
	bool		stays;			/* nothing to shut down when it has its rows */
	int			run_level;		/* of the transaction that runs it */
	int64		begun;			/* clock when the executor was called, if the
								 * top node's first call begins with that */
	struct LightQuery *outer;	/* statement that runs around it */
	LightRecord *outer_top;		/* light.top before */

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
	return query->phase >= LIGHT_RECORDED;
}

/* The server's own measure of a whole statement, while we take it: see total.c. */
typedef struct LightTotal
{
	Instrumentation *instr;		/* QueryDesc's */
	bool		first;			/* it had not run before */
	int64		start;
	LightGlance before;
} LightTotal;

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
	double		tick;			/* seconds; 0 if the statement is not timed */
	int			work_mem;		/* the process's, in kilobytes */
	int			nnodes;
} LightProgressSlot;

/* What became of statements that wanted to be seen. */
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
extern LIGHT_PRIVATE void light_query_enter(LightQuery *query);
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

/*
 * The executor itself is called to run a statement in the quick phase: returns the
 * clock.  A reading takes as long as a hundred instructions or more, so the one
 * that begins the statement serves the first call of its top node as well.  What is
 * between them is the start of who receives the rows: no more than the making of a
 * memory context inside of functions, but a message to clients elsewhere.
 */
static inline int64
light_query_begin(LightQuery *query)
{
	int64		now = light_now();
	DestReceiver *dest = query->queryDesc->dest;

	if (dest != NULL && (dest->mydest == DestSPI || dest->mydest == DestSQLFunction))
		query->begun = now;
	return now;
}

/* brief.c */

/* Plan nodes that such a statement may have. */
#define LIGHT_BRIEF_NODES 8

extern LIGHT_PRIVATE bool light_is_brief(const PlannedStmt *stmt);

/* phase.c */
extern LIGHT_PRIVATE void light_phase_init(bool avx2);
extern LIGHT_PRIVATE void light_wrap(LightQuery *query);
extern LIGHT_PRIVATE bool light_record(LightQuery *query);
extern LIGHT_PRIVATE LightRecord *light_record_of(LightQuery *query, PlanState *planstate);

/* Was a node with a record not measured by our wrapper?  Nor is one that another library wrapped. */
static inline bool
light_measured_by_others(const LightQuery *query, int i)
{
	return query->nodes.node[i].role == LIGHT_LEFT || query->books.records[i].caller == NULL;
}

/* nodes.c */
extern LIGHT_PRIVATE LightRole light_role(PlanState *planstate, bool count_blocks);
extern LIGHT_PRIVATE bool light_nodes_below(PlanState *top, bool count_blocks, MemoryContext context, LightNodes *nodes);
extern LIGHT_PRIVATE LightNodes *light_nodes(LightQuery *query);
extern LIGHT_PRIVATE int light_node_index(const LightNodes *nodes, PlanState *planstate);
extern LIGHT_PRIVATE LightFigure *light_figures(LightQuery *query, int *n);
extern LIGHT_PRIVATE bool light_brief_figures(LightQuery *query, LightFigure *figures, int *n);
extern LIGHT_PRIVATE void light_brief_added(LightFigure *figures, int n);
extern LIGHT_PRIVATE void light_figure_names(const LightFigure *figures, int n, LightNodeName *names, Size stride);
extern LIGHT_PRIVATE uint64 light_plan_hash(const LightFigure *figures, int n);

/* settle.c */
extern LIGHT_PRIVATE void light_settle(LightQuery *query);

/* self.c */
extern LIGHT_PRIVATE void light_self(LightQuery *query, PlanState *planstate, LightSelf *self);
extern LIGHT_PRIVATE double light_distinct_blocks_of(LightQuery *query, PlanState *planstate);

/* name.c */
extern LIGHT_PRIVATE uint64 light_hash_name(uint64 hash, PlanState *planstate);
extern LIGHT_PRIVATE Size light_spell_name(PlanState *planstate, char *to, Size room);
extern LIGHT_PRIVATE void light_aliases_note(LightAliases *aliases, PlanState *planstate);
extern LIGHT_PRIVATE void light_node_name(PlanState *planstate, LightAliases *aliases, LightNodeName *name);

/* total.c */
extern LIGHT_PRIVATE void light_total_provide(QueryDesc *queryDesc);
extern LIGHT_PRIVATE bool light_total_start(LightTotal *total, LightQuery *query);
extern LIGHT_PRIVATE void light_total_finish_empty(QueryDesc *queryDesc);
extern LIGHT_PRIVATE void light_total_stop(LightTotal *total);
extern LIGHT_PRIVATE void light_total_failed(LightTotal *total);

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
extern LIGHT_PRIVATE Size light_slot_size(void);
extern LIGHT_PRIVATE LightProgressNode *light_slot_nodes(LightProgressSlot *slot);
extern LIGHT_PRIVATE LightRecord *light_slot_records(LightProgressSlot *slot);
extern LIGHT_PRIVATE uint32 light_slot_copy(int n, LightProgressSlot *copy, bool see_all);

#endif							/* LIGHT_STATEMENT_H */

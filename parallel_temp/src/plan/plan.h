/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  Planning parallel scans of temporary tables.
 *
 * Costs are in units of seq_page_cost = 1, like the planner's.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_H
#define PLAN_H

#include "executor/execdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "utils/relcache.h"

#include "share/share.h"

/* Settings of core that a planner run with our paths changes. */
typedef struct CostSettings
{
	double		setup;			/* parallel_setup_cost */
	double		random_page;	/* random_page_cost */
	double		seq_page;		/* seq_page_cost */
	int			cache;			/* effective_cache_size */
	int			workers;		/* max_parallel_workers_per_gather */
}			CostSettings;

/*
 * One planner run in which the library takes part.  Lives on the stack of the planner
 * hook; the path hooks find it with pt_current_planning().
 */
typedef struct PtPlanning
{
	bool		temp_paths;		/* add paths by which workers read temporary
								 * tables, and cost pages where they are */
	bool		fills;			/* the rows go into a table that workers may
								 * fill pages of (plan_fill.c) */
	bool		unknown_function;	/* see TempScanPrivate */
	bool		for_explain;	/* parallel_temp.debug_force has no effect */
	bool		leader_counts;	/* see pt_leader_counts() */
	double		setup_scale;	/* see pt_plan_setup_scale() */
	const TempPlan *serial;		/* the server's plan, or NULL if there is none */
	CostSettings settings;		/* the user's, if temp_paths is set */
	List	   *considered;		/* of ConsideredTable */
	List	   *refused_parents;	/* append relations found not to be
									 * parallel */
} PtPlanning;

typedef struct ConsideredTable
{
	RelOptInfo *rel;
	Oid			relid;
	PtRefusal	refusal;		/* why there is no parallel path;
								 * REFUSED_COST: there is one */
	Oid			function;		/* that is the reason, or InvalidOid */
} ConsideredTable;

extern void pt_plan_install(void);

/* The innermost planner run, or NULL if the library takes no part in it. */
extern PtPlanning *pt_current_planning(void);

/*
 * May workers run the append relation that this member belongs to, if any?
 * Decides for all members at the call for the first one.
 */
extern bool pt_append_members_parallel(PlannerInfo *root, RelOptInfo *rel, PtPlanning *planning);

/* ---- plan_paths.c ------------------------------------------------------------ */

extern void pt_plan_paths_install(void);

/*
 * A second planner run begins: have our path hook called after all others.  If this returns
 * true, pt_plan_paths_restore_order() is called when the run ends, however it does.
 */
extern bool pt_plan_paths_come_last(void);
extern void pt_plan_paths_restore_order(void);

/* ---- plan_cost.c ------------------------------------------------------------- */

/* The user's values of the settings that a planner run changes, for the caller's GUC nest level. */
extern CostSettings pt_cost_settings(void);
extern void pt_set_cost_setting(const char *name, double value);
extern void pt_restore_cost_settings(const CostSettings * settings);

/* Costs of one temporary table, while its paths are created. */
typedef struct TempTableCost
{
	Cost		page;			/* one visit to a page of the table or of its
								 * indexes */
	Cost		saved;			/* by which the server's sequential scan is
								 * too expensive */
	Cost		share;			/* once: pin the table's pages, or flush them */
	bool		own_page_costs; /* its tablespace sets page costs, which are
								 * used as they are */
	bool		flush;			/* workers read the file */
}			TempTableCost;

extern void pt_temp_table_cost(TempTableCost * cost, RelOptInfo *rel, Oid relid, double setup_scale);

/*
 * parallel_setup_cost in units of its default: the factor for everything that is charged
 * because workers start (their start, sharing, entering pages).
 */
extern double pt_plan_setup_scale(void);

/* The cost of starting that many workers for a query over temporary tables. */
extern Cost pt_workers_start_cost(int workers, double setup_scale);

/* The factor by which that many workers and the leader are faster, as core estimates it. */
extern double pt_parallel_divisor(int workers);

/* The same, limited by the number of usable CPUs. */
extern double pt_cpu_divisor(int workers);

/*
 * Is the leader one of the processes for which there are CPUs?  "temporary_pages" of all
 * temporary tables that the query reads.
 */
extern bool pt_leader_counts(bool fills, double temporary_pages);

/* How many workers at most may divide a table? */
extern int	pt_most_workers(RelOptInfo *rel, PtPlanning *planning);

/* How many workers would divide a table?  Before there is a planner run. */
extern int	pt_table_workers(Relation relation, bool leader, double setup_scale);

/*
 * The cost, in each worker, of starting core's code on that many pages of temporary
 * relations.
 */
extern Cost pt_enter_cost(double pages, double setup_scale);

/* The same for the TOAST table, if a scan of the table may read it. */
extern Cost pt_toast_enter_cost(RelOptInfo *rel, Oid relid, double setup_scale);

/*
 * The total cost below which a serial plan is kept without a second planner run.  "workers" is
 * the highest number of workers that divide one of its tables, "pairs" the number of pairs of
 * relations that its planner run has joined.
 */
extern Cost pt_second_run_bound(PlannedStmt *serial, int workers, uint64 pairs);

/* parallel_setup_cost in the second run: the start of that many workers, and a margin. */
extern Cost pt_second_run_setup_cost(PlannedStmt *serial, int workers);

/* The pairs of relations that planner runs of this session have joined. */
extern uint64 pt_joined_pairs;

/* Will more than one process take part, as far as is known before the plan runs? */
extern bool pt_workers_add_processes(TempPlan *plan);

extern void pt_plan_cost_install(void);

/* The number of CPUs that this process may use, at least 1. */
extern int	pt_usable_cpus(void);

/* ---- plan_refusal.c ---------------------------------------------------------- */

/* Do the relation's own expressions let workers compute them? */
extern bool pt_expressions_parallel_safe(PlannerInfo *root, RelOptInfo *rel);

/*
 * Can this table be read by workers?  REFUSED_NOT if so, else the first cause, and
 * in *function the function that is it, if one is.
 */
extern PtRefusal pt_temp_table_refusal(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, Oid *function);

/* Count, and tell, why a temporary table is not read in parallel, or that it is. */
extern void pt_report_refusal(Oid relid, PtRefusal refusal, Oid function);

/*
 * Does the server allow a query as a whole no workers, and what of it is the reason?  If
 * it does (REFUSED_NOT), *unknown_function says whether the query calls functions that might read
 * temporary tables in the leader.
 */
extern PtRefusal pt_query_refusal(Query *query, bool *unknown_function, Oid *function);

/* Count, and tell, for each temporary table of a plan, one reason for all. */
extern void pt_report_refusals(PlannedStmt *serial, PtRefusal refusal, Oid function);

/* The same where a plan with workers was looked for. */
extern void pt_account_refusals(PtPlanning *frame, TempPlan *plan, bool replanned);

/* ---- plan_insert.c: INSERT ... SELECT with workers for the SELECT ------------ */

/*
 * Why the SELECT of this insertion into a temporary table cannot have workers; NULL if
 * nothing of the statement or of its target is against it.
 */
extern const char *pt_insert_refusal(Query *parse);

/* Make of an insertion, in place, the query that computes the rows, with every column of the target. */
extern Query *pt_insert_source(Query *source);

/*
 * The insertion's plan with the rows of "source", a plan of its source with workers.
 * NULL, with *reason set, if that plan reads the target.
 */
extern PlannedStmt *pt_insert_with_source(PlannedStmt *serial, PlannedStmt *source, const char **reason);

/* ---- plan_fill.c: workers that fill pages ------------------------------------ */

/*
 * Does an insertion, of which the server's plan is known, insert only rows into a
 * table whose pages workers may fill, and enough of them?
 */
extern bool pt_insert_may_fill(Query *insert, PlannedStmt *serial);

/* A planner run with Planning.fills set offers workers that fill pages from here on. */
extern void pt_plan_fill_install(void);

/* A plan is about to start: if workers may fill pages it gets the node for that. */
extern void pt_plan_fill_start(QueryDesc *queryDesc);

#endif							/* PLAN_H */

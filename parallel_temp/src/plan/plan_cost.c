/*-------------------------------------------------------------------------
 *
 * plan_cost.c
 *	  Costs of reading a temporary table in one process and in several.
 *
 * Used while paths are created (plan_paths.c), so that serial and parallel paths of one
 * planner run have the same costs for the same pages.  There are few terms:
 *
 *  - per page: parallel_temp.held_page_cost if it is in temporary buffers, otherwise
 *    seq_page_cost, also for an index lookup: a page of the file is usually in the
 *    kernel's cache, where a random read costs no more than a sequential one.  Every
 *    visit is charged, because copying rows out of a page in memory is not free;
 *  - per Gather: the start of its workers.  parallel_temp.worker_start_cost is the cost
 *    for one worker at the default parallel_setup_cost, and is scaled with that
 *    setting, as is everything below.  So parallel_setup_cost = 0 makes workers free,
 *    over temporary tables as over others;
 *  - per table: pinning its pages, or the flush, per dirty page and allocated buffer;
 *  - per worker that runs core's index scans on a table, or detoasts its values:
 *    creating local buffers, and parallel_temp.enter_page_cost for each page that can be
 *    in the leader's buffers.
 *
 * "make bench-sweep" compares the plans chosen by these costs with the faster ones, and
 * "lab/run calibrate" measures the constants.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>
#include <sched.h>
#include <unistd.h>

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "storage/fd.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "buffers/buffers.h"
#include "compat_planner.h"
#include "compat_storage.h"
#include "parallel_temp.h"
#include "plan/plan.h"
#include "scan/scan.h"
#include "share/share.h"

/* Sharing, in units of seq_page_cost: examining a buffer, pinning a page. */
#define EXAMINE_BUFFER_COST		0.002
#define PIN_PAGE_COST			0.01

/* In a worker that runs core's scans: creating a buffer, as a part of entering a page. */
#define CREATE_BUFFER_PART		0.15

/* The highest number of buffers that are examined for an estimate. */
#define SAMPLED_BUFFERS			1024

/*
 * A second planner run, in units of seq_page_cost: for each relation, and for each pair of
 * relations that are joined (0.014 ms and 0.007 ms on 15 where a unit was 2.3 us, joins of 1
 * to 12 tables by "make bench-planning"); and the part of the serial plan's cost that it may
 * have.
 */
#define SECOND_RUN_RELATION		6.0
#define SECOND_RUN_PAIR			3.0
#define SECOND_RUN_PART			0.05

/*
 * Workers must win by this part of the serial plan's cost, or by the cost of their start if
 * that is less: a plan that ties takes CPUs from other sessions.  In bench-analytics 0.05 leaves
 * "stock that matters" and "sleeping customers" serial, which workers run in 0.65 and 0.78 of the
 * time, and without it a tie is decided by chance.
 */
#define WORKERS_MARGIN			0.02

static set_join_pathlist_hook_type previous_set_join_pathlist = NULL;
uint64		pt_joined_pairs = 0;

/*
 * The part of a relation's pages that is in temporary buffers.  A table that is too small
 * for a sample of many buffers counts as held: its pages cost little in any case.
 */
static double
held_part(Relation relation, double pages)
{
	int			step = Max(NLocBuffer / SAMPLED_BUFFERS, 1);
	RelFileLocator_compat locator = rd_locator_compat(relation);
	double		held = 0;

	if (NLocBuffer == 0)
		return 0;
	if (pages < 16 * step)
		return 1.0;
	for (int i = 0; i < NLocBuffer; i += step)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);

		if ((BufStateRead_compat(desc) & BM_TAG_VALID) &&
			RelFileLocatorEquals_compat(BufTagGetRelFileLocator_compat(&desc->tag), locator) &&
			BufTagGetForkNum_compat(&desc->tag) == MAIN_FORKNUM)
			held += step;
	}
	return Min(held / pages, 1.0);
}

CostSettings
pt_cost_settings(void)
{
	return (CostSettings)
	{
		.setup = parallel_setup_cost,.random_page = random_page_cost,.seq_page = seq_page_cost,.cache = effective_cache_size,
			.workers = max_parallel_workers_per_gather
	};
}

void
pt_set_cost_setting(const char *name, double value)
{
	char text[	64];

	/*
	 * no setting may be infinite, as the sum of costs that the user has set
	 * can be
	 */
	snprintf(text, sizeof(text), "%.17g", Min(value, DBL_MAX));
	(void) set_config_option(name, text, superuser() ? PGC_SUSET : PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

void
pt_restore_cost_settings(const CostSettings * settings)
{
	pt_set_cost_setting("parallel_setup_cost", settings->setup);
	pt_set_cost_setting("random_page_cost", settings->random_page);
	pt_set_cost_setting("seq_page_cost", settings->seq_page);
	pt_set_cost_setting("effective_cache_size", settings->cache);
	pt_set_cost_setting("max_parallel_workers_per_gather", settings->workers);
}

double
pt_plan_setup_scale(void)
{
	return parallel_setup_cost / DEFAULT_PARALLEL_SETUP_COST;
}

/* Infinity times nothing would not be a number. */
static Cost
scaled(Cost cost, double setup_scale)
{
	return setup_scale * Min(cost, DBL_MAX);
}

Cost
pt_workers_start_cost(int workers, double setup_scale)
{
	Cost		examine = pt_pool_usable() ? seq_page_cost * EXAMINE_BUFFER_COST * NLocBuffer : 0;

	return scaled(workers * pt_worker_start_cost + examine, setup_scale);
}

void
pt_temp_table_cost(TempTableCost * cost, RelOptInfo *rel, Oid relid, double setup_scale)
{
	Relation	relation = table_open(relid, NoLock);
	double		random_cost;
	double		seq_cost;
	int			allocated;
	int			dirty;

	get_tablespace_page_costs(rel->reltablespace, &random_cost, &seq_cost);
	cost->own_page_costs = random_cost != random_page_cost || seq_cost != seq_page_cost;
	cost->page = seq_cost;
	if (!cost->own_page_costs)
	{
		double		held = held_part(relation, rel->pages);

		cost->page = held * Min(pt_held_page_cost, seq_cost) + (1 - held) * seq_cost;
	}
	cost->saved = rel->pages * (seq_cost - cost->page);
	cost->flush = !pt_pool_usable();
	if (cost->flush)
	{
		pt_localbuf_count(&relation, 1, &allocated, &dirty);
		cost->share = seq_page_cost * (pt_flush_page_cost * dirty + pt_scan_buffer_cost * allocated);
	}
	else
		cost->share = seq_page_cost * PIN_PAGE_COST * Min(rel->pages, NLocBuffer);
	cost->share = scaled(cost->share, setup_scale);
	table_close(relation, NoLock);
}

double
pt_parallel_divisor(int workers)
{
	double		divisor = workers;

	/* The leader helps less, the more workers there are. */
	if (parallel_leader_participation && workers < 4)
		divisor += 1.0 - 0.3 * workers;
	return divisor;
}

/*
 * Processes that can run at once.  One CPU counts as two, because one of them may wait for the disk.
 */
static int
most_processes(void)
{
	return Max(pt_usable_cpus(), 2);
}

double
pt_cpu_divisor(int workers)
{
	return Min(pt_parallel_divisor(workers), most_processes());
}

/*
 * More processes than CPUs gain nothing, unless the user asks for them, and what they do not divide
 * takes longer: two workers and their leader, which aggregate the same table, took 0.92 to 0.99 of
 * the serial time on two CPUs, one worker 0.58 ("large orders" of bench-analytics, 15).  "leader":
 * it is one of them.
 */
static int
most_workers(int wanted, bool leader, double setup_scale)
{
	if (wanted != -1 || setup_scale == 0)
		return max_parallel_workers_per_gather;
	return Min(max_parallel_workers_per_gather, most_processes() - (leader && parallel_leader_participation ? 1 : 0));
}

/*
 * The leader has other work if workers fill pages, and leaves scans to them of tables that
 * temporary buffers do not hold (pt_workers_add_processes()).
 */
bool
pt_leader_counts(bool fills, double temporary_pages)
{
	return !fills && temporary_pages <= num_temp_buffers;
}

int
pt_most_workers(RelOptInfo *rel, PtPlanning *planning)
{
	return most_workers(rel->rel_parallel_workers, planning->leader_counts, planning->setup_scale);
}

/*
 * Core's compute_parallel_worker() reads nothing of the RelOptInfo but these two fields.
 */
int
pt_table_workers(Relation relation, bool leader, double setup_scale)
{
	RelOptInfo	rel = {.type = T_RelOptInfo,.reloptkind = RELOPT_BASEREL};

	rel.rel_parallel_workers = RelationGetParallelWorkers(relation, -1);
	return compute_parallel_worker(&rel, RelationGetNumberOfBlocks(relation), -1,
								   most_workers(rel.rel_parallel_workers, leader, setup_scale));
}

/*
 * A worker enters the pages that its leader has pinned (worker_seed_relation()), at most one for
 * each of the leader's buffers, and none if workers read the file.
 */
Cost
pt_enter_cost(double pages, double setup_scale)
{
	double		entered = pt_pool_usable() ? Min(pages, NLocBuffer) : 0;

	return scaled(pt_enter_page_cost * (CREATE_BUFFER_PART * num_temp_buffers + entered), setup_scale);
}

Cost
pt_toast_enter_cost(RelOptInfo *rel, Oid relid, double setup_scale)
{
	Relation	relation = table_open(relid, NoLock);
	Bitmapset  *attrs = NULL;
	BlockNumber pages = 0;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attrs);
	pull_varattnos((Node *) extract_actual_clauses(rel->baserestrictinfo, false), rel->relid, &attrs);
	if (pt_has_toastable_column(relation, attrs))
	{
		Relation	toast = table_open(relation->rd_rel->reltoastrelid, AccessShareLock);

		pages = RelationGetNumberOfBlocks(toast);
		table_close(toast, NoLock);
	}
	table_close(relation, NoLock);
	return pages > 0 ? pt_enter_cost(pages, setup_scale) : 0;
}

/*
 * Called for each pair of relations that the planner joins, in either order.  How many they
 * are tells how long the planner takes, which the number of relations does not: eight
 * tables have 168 pairs in a chain of joins, and 6,050 if any two of them can be joined.
 */
static void pg_attribute_hot
count_joined_pair(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
				  JoinType jointype, JoinPathExtraData *extra)
{
	pt_joined_pairs++;
	if (previous_set_join_pathlist)
		previous_set_join_pathlist(root, joinrel, outerrel, innerrel, jointype, extra);
}

void
pt_plan_cost_install(void)
{
	previous_set_join_pathlist = set_join_pathlist_hook;
	set_join_pathlist_hook = count_joined_pair;
}

/*
 * Workers save at most the part of a plan that they take over from the leader, which must be
 * more than their start costs.  A second planner run must not cost more than a small part of
 * the serial plan, because it is lost if the statement stays serial.  (A user who makes the
 * start of workers cheaper wants more plans with workers.)
 */
Cost
pt_second_run_bound(PlannedStmt *serial, int workers, uint64 pairs)
{
	double		setup_scale = pt_plan_setup_scale();
	Cost		start = pt_workers_start_cost(1, setup_scale) / (1 - 1 / pt_cpu_divisor(Max(workers, 1)));
	Cost		planning = SECOND_RUN_RELATION * list_length(serial->rtable) + SECOND_RUN_PAIR * pairs;

	return Max(start, Min(setup_scale, 1) * planning / SECOND_RUN_PART);
}

Cost
pt_second_run_setup_cost(PlannedStmt *serial, int workers)
{
	double		setup_scale = pt_plan_setup_scale();

	workers = Max(workers, 1);
	return pt_workers_start_cost(workers, setup_scale) +
		Min(WORKERS_MARGIN * serial->planTree->total_cost, setup_scale * workers * pt_worker_start_cost);
}

/*
 * If core's scans in workers read more pages than can be pinned, the leader leaves that part
 * of the plan to them, or runs the plan alone (shared_relations.c).
 */
bool
pt_workers_add_processes(TempPlan *plan)
{
	double		space = (NLocBuffer > 0 ? Min(NLocBuffer, num_temp_buffers) : num_temp_buffers) - pt_share_unpinned_buffers(plan);
	double		pages = 0;
	bool		leader = parallel_leader_participation;
	bool		alone = plan->unknown_function || plan->gathers > 1;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, plan->uses)
	{
		TempUse    *use = lfirst(lc);
		Relation	relation;

		if (!use->own_below && !use->stock_below)
			continue;
		relation = table_open(use->relid, NoLock);
		if (use->stock_below)
		{
			pages += RelationGetNumberOfBlocks(relation);
			alone |= use->stock_above > 0;
		}
		else
			space -= held_part(relation, RelationGetNumberOfBlocks(relation)) * RelationGetNumberOfBlocks(relation);
		table_close(relation, NoLock);
		foreach(lc2, use->indexes)
		{
			Relation	index = index_open(lfirst_oid(lc2), AccessShareLock);

			pages += RelationGetNumberOfBlocks(index);
			index_close(index, NoLock);
		}
	}
	if (pages > Max(space, 0))
	{
		if (alone)
			return false;
		leader = false;
	}
	return plan->workers + (leader ? 1 : 0) > 1;
}

/*
 * ---- usable CPUs
 *
 * A container sees all CPUs of its host, but may run on a part of them: the affinity mask
 * lists them, and the CPU quota of the control group limits their time.  Both are read
 * once in a session.
 */

/*
 * Read one or two numbers of a file; how many there are, or -1 without the file.
 */
static int
read_numbers(const char *folder, const char *name, double *first, double *second)
{
	char	   *path = psprintf("%s/%s", folder, name);
	FILE	   *file = AllocateFile(path, "r");
	int			n = -1;

	if (file != NULL)
	{
		n = fscanf(file, "%lf %lf", first, second);
		FreeFile(file);
	}
	pfree(path);
	return n;
}

/*
 * The CPUs that a quota allows: "QUOTA PERIOD" in cpu.max of version 2, two files in
 * version 1.  "max" and -1 mean that there is none.  0 if there is no quota.
 */
static double
group_quota(const char *folder)
{
	double		quota = 0;
	double		period = 0;
	double		none;

	if (read_numbers(folder, "cpu.max", &quota, &period) < 0)
	{
		(void) read_numbers(folder, "cpu.cfs_quota_us", &quota, &none);
		(void) read_numbers(folder, "cpu.cfs_period_us", &period, &none);
	}
	return quota > 0 && period > 0 ? quota / period : 0;
}

/*
 * The lowest quota of this process's control group and the groups around it, or 0.
 */
static double
cgroup_quota(void)
{
	FILE	   *file = AllocateFile("/proc/self/cgroup", "r");
	char		line[MAXPGPATH];
	double		lowest = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		char	   *name = strchr(line, ':');
		char	   *path = name ? strchr(++name, ':') : NULL;
		char	   *slash;

		if (path == NULL)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (*name != '\0' && strcmp(name, "cpu") != 0 && strcmp(name, "cpu,cpuacct") != 0)
			continue;
		/* from the group itself up to the root of the mount */
		do
		{
			char	   *folder = psprintf("/sys/fs/cgroup%s%s%s", *name ? "/" : "", name, path);
			double		quota = group_quota(folder);

			if (quota > 0 && (lowest == 0 || quota < lowest))
				lowest = quota;
			pfree(folder);
			slash = strrchr(path, '/');
			if (slash != NULL)
				*slash = '\0';
		} while (slash != NULL);
	}
	if (file != NULL)
		FreeFile(file);
	return lowest;
}

int
pt_usable_cpus(void)
{
	static int	cpus = 0;

	if (cpus == 0)
	{
		double		quota = cgroup_quota();
#ifdef CPU_COUNT
		cpu_set_t	mask;

		if (sched_getaffinity(0, sizeof(mask), &mask) == 0)
			cpus = CPU_COUNT(&mask);
#endif
		if (cpus <= 0)
			cpus = sysconf(_SC_NPROCESSORS_ONLN);
		if (quota > 0 && quota < cpus)
			cpus = (int) ceil(quota);
		cpus = Max(cpus, 1);
	}
	return cpus;
}

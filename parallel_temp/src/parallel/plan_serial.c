/*-------------------------------------------------------------------------
 *
 * plan_serial.c
 *	  A plan that has no workers in the end reads its tables by the server's own
 *	  scan.
 *
 * In a subquery our complete scan stands in place of the sequential scan, at its
 * price, or the cheapest plan of the subquery would be one that workers cannot run
 * (plan_paths.c).  Where the query does not go parallel after all, the server's scan
 * takes its place again: it sets hint bits and prunes, which the next reader profits
 * by.
 *
 * Called by the planner hook for finished plans.  The two nodes differ in their kind
 * alone: both have one relation and no expressions but target list and filter.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "parallel/plan_serial.h"
#include "parallel/scan.h"

static Plan *restore_seq_scans(Plan *plan);

static void
restore_list(List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = restore_seq_scans(lfirst(lc));
}

static Plan *
restore_seq_scans(Plan *plan)
{
	if (plan == NULL)
		return NULL;
	check_stack_depth();

	switch (nodeTag(plan))
	{
		case T_Append:
			restore_list(((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			restore_list(((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = restore_seq_scans(((SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			if (is_temp_scan(plan))
			{
				SeqScan    *scan = makeNode(SeqScan);

				Assert(!plan->parallel_aware);
				scan->scan = ((CustomScan *) plan)->scan;
				NodeSetTag(scan, T_SeqScan);
				scan->scan.plan.parallel_safe = false;
				plan = (Plan *) scan;
			}
			else
				restore_list(((CustomScan *) plan)->custom_plans);
			break;
		default:
			break;
	}
	plan->lefttree = restore_seq_scans(plan->lefttree);
	plan->righttree = restore_seq_scans(plan->righttree);
	return plan;
}

void
restore_serial_plan(PlannedStmt *stmt)
{
	Assert(!stmt->parallelModeNeeded);
	stmt->planTree = restore_seq_scans(stmt->planTree);
	restore_list(stmt->subplans);
}

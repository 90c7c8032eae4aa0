/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  A clock that is read in few of the calls: what the others are taken to have
 *	  lasted, and how far that may be wrong.
 *
 * The first calls of a node are all timed, then one of every k by chance: the
 * distance to the next one is drawn from 1 to 2k - 1, so no rhythm of the plan
 * is met again and again.  A timed call stands for all since the one before it.
 * k grows with the calls that were timed and is so small that reading the clock
 * costs about half a percent of the node's time: nodes whose calls take
 * microseconds are timed at each of them.  The first call of each cycle (which
 * may sort, hash, or begin a scan) and the following ones are two kinds of
 * calls, sampled apart.
 *
 * A rare call that would outweigh all that the node has done so far stands for
 * itself only; the others since the last timed one are taken as usual ones.
 *
 * Where other processes take the processor away, that happens in calls which are
 * not timed as well, in proportion to their time.  So the kernel is asked how long
 * the statement had the processor; if it never waited of its own will, calls that
 * were left out get their part of the rest.
 *
 * There is no timer and no signal: a session that waits pays nothing.
 *
 * What a wrapper costs is measured when the library is loaded.  What it adds to
 * a time that it takes is left out of it; what a call costs besides is added to
 * the node's own time, else it would be seen in the caller's.
 *
 * What was estimated is made to agree by statement/settle.c: no node is below the
 * sum of its children.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>
#include <sys/resource.h>

#include "executor/tuptable.h"
#include "measure/measure.h"

/*
 * The mean distance of timed calls of a kind is the square of their number over
 * this, so none of the first 32 is left out, and about 200 of 5,000 calls are timed.
 */
#define GROWTH 512

/* So many calls have none left out after them. */
#define ALL_TIMED 31

StaticAssertDecl(ALL_TIMED * ALL_TIMED < 2 * GROWTH && (ALL_TIMED + 1) * (ALL_TIMED + 1) >= 2 * GROWTH,
				 "a mean distance of two is the first that leaves out calls");

/* Longest mean distance between timed calls. */
#define MAX_DISTANCE 512

/* Part of a node's time that reading the clock may cost: 1 / this. */
#define COST_RATIO 1000

/* Calls over which the time of a usual call is averaged. */
#define AVERAGED 64

/* What a call of a wrapper costs, in ticks. */
static struct
{
	int64		inside;			/* shown in the time of a timed call */
	int64		timed;			/* all that a timed call costs */
	int64		untimed;		/* all that another one costs */
	int64		in_page;		/* ... that is not looked at: see pages.c and
								 * joins.c */
	int64		worth;			/* time for which one timed call is enough */
}			cost;

/* Not from 0 to n - 1 with equal chances, but nearly, and quick. */
static inline uint32
draw(uint32 n)
{
	static uint64 state = UINT64CONST(0x9E3779B97F4A7C15);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32) (((state >> 32) * n) >> 32);
}

/* ---- a processor that others use, too ------------------------------------ */

static void
look(int64 *cpu, int64 *waits)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	*cpu = (int64) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
	*waits = usage.ru_nvcsw;
}

/* From here on calls of the statement are left out, or it is run again. */
void
light_watch(LightBooks *books)
{
	if (!books->watched)
		books->ran = books->cpu = books->waits = 0;
	books->watched = true;
	look(&books->watched_cpu, &books->watched_waits);
	books->watched_from = light_now();
}

/* The executor leaves such a statement. */
void
light_watched(LightBooks *books)
{
	int64		cpu;
	int64		waits;

	books->ran += light_now() - books->watched_from;
	look(&cpu, &waits);
	books->cpu += cpu - books->watched_cpu;
	books->waits += waits - books->watched_waits;
}

/* ---- while a statement runs ---------------------------------------------- */

/* Ticks of a usual call, of a number that is never negative: a shift, not a division. */
static inline int64
usual_call(const LightSamples *samples)
{
	return (int64) ((uint64) samples->average / AVERAGED);
}

/* A node gets a record: its first calls will be timed.  Most others may need no look. */
void
light_sample_start(LightRecord *record, bool unlooked)
{
	record->left[0] = record->left[1] = 1;
	record->cost = unlooked ? cost.in_page : cost.untimed;
}

/* Keep a call that took "net", and for which "sum" is added to the node's time. */
static inline void
keep_sample(LightRecord *record, int kind, int64 net, int64 sum, int64 added)
{
	LightSamples *samples = &record->samples[kind];

	record->total += sum;
	record->added += added;
	if (kind == 0)
		record->startup += sum;
	samples->timed++;
	samples->average += net - usual_call(samples);
}

/* A call was timed, and others were left out before or will be now. */
static pg_noinline void
sample_further(LightRecord *record, int kind, int64 net)
{
	LightSamples *samples = &record->samples[kind];
	int64		usual = usual_call(samples);
	int64		untimed = Max(samples->weight, 1) - 1;
	int64		sum = net + cost.timed;
	int64		distance;

	if (untimed > 0)
	{
		int64		each = net;
		double		v = (double) untimed * (untimed + 1);

		if (net > usual && net * (untimed + 1) > record->total / 4)
			each = usual;
		each = untimed * (each + record->cost);
		sum += each;
		samples->assumed += each;
		samples->v[0] += v;
		samples->v[1] += v * net;
		samples->v[2] += v * net * net;
	}
	keep_sample(record, kind, net, sum, cost.timed + untimed * record->cost);

	usual = usual_call(samples);
	distance = Min((int64) samples->timed * samples->timed / GROWTH, MAX_DISTANCE);
	if (distance > 1)
	{
		if (distance * usual > cost.worth)
			distance = cost.worth / usual;
		if (unlikely(!record->books->watched))
			light_watch(record->books);
	}
	samples->weight = distance > 1 ? 1 + draw(2 * distance - 1) : 1;
	record->left[kind] = samples->weight;
}

/*
 * A call of a node was timed.  "kind" is 0 for the first call of a cycle, 1 for
 * all others.  In short statements all calls are first ones.
 */
void
light_sample(LightRecord *record, int kind, int64 elapsed)
{
	LightSamples *samples = &record->samples[kind];
	int64		net = Max(elapsed - cost.inside, 0);

	if (samples->weight > 1 || samples->timed >= ALL_TIMED)
	{
		sample_further(record, kind, net);
		return;
	}
	keep_sample(record, kind, net, net + cost.timed, cost.timed);
	samples->weight = record->left[kind] = 1;
}

/* The square of the standard error of a node's time, in ticks. */
double
light_sample_variance(const LightRecord *record)
{
	double		result = 0;

	for (int kind = 0; kind < 2; kind++)
	{
		const double *v = record->samples[kind].v;

		if (v[0] > 0)
			result += Max(v[2] - v[1] * v[1] / v[0], 0);
	}
	return result;
}

/* Ticks that measuring added to a node's own time. */
double
light_sample_added(const LightRecord *record)
{
	return Min(record->added, record->total);
}

/* ---- a finished statement ----------------------------------------------- */

/* Calls since the last timed one are as usual. */
static void
add_rest(LightRecord *record)
{
	for (int kind = 0; kind < 2; kind++)
	{
		LightSamples *samples = &record->samples[kind];

		/* an error may have left a call to be timed that did not return */
		int64		untimed = Min((int64) samples->weight - record->left[kind], samples->weight);
		int64		sum;

		if (samples->weight == 0 || untimed <= 0)
			continue;
		sum = untimed * (samples->average / Min(Max(samples->timed, 1), AVERAGED) + record->cost);
		record->total += sum;
		samples->assumed += sum;
		record->added += untimed * record->cost;
		if (kind == 0)
			record->startup += sum;
		record->left[kind] = samples->weight;
	}
}

/* Calls were assumed to have had the processor all the time: they had part of it. */
static void
stretch(LightRecord *record, double by)
{
	for (int kind = 0; kind < 2; kind++)
	{
		int64		more = (int64) rint(record->samples[kind].assumed * by);

		record->total += more;
		if (kind == 0)
			record->startup += more;
	}
}

/* Was a call left out, so that the node's time is an estimate? */
bool
light_sampled(const LightRecord *record)
{
	return record->samples[0].v[0] + record->samples[1].v[0] > 0;
}

/* The statement is finished: calls after the last timed ones are added. */
void
light_sample_finish(LightBooks *books, double seconds_per_tick)
{
	for (int i = 1; i < books->nrecords; i++)
		add_rest(&books->records[i]);
	if (books->watched && books->waits == 0 && books->cpu > 0)
	{
		double		by = books->ran * seconds_per_tick / (books->cpu * 1e-6) - 1;

		for (int i = 1; by > 0 && i < books->nrecords; i++)
			stretch(&books->records[i], by);
	}
}

/* ---- what a wrapper costs ------------------------------------------------ */

#define CALLS 30				/* all of them are timed */
#define ROUNDS 40

static TupleTableSlot *
return_row(PlanState *node)
{
	static TupleTableSlot row;

	return &row;
}

/* Least ticks a call of many rounds; "inside" if what the record says is meant. */
static int64
least(PlanState *node, LightRecord *record, bool timed, bool inside)
{
	int64		result = PG_INT64_MAX;

	for (int round = 0; round < ROUNDS; round++)
	{
		int64		ticks;

		memset(record->samples, 0, sizeof(record->samples));
		record->left[0] = record->left[1] = timed ? 1 : PG_INT32_MAX;
		record->caller = record->under = light.top;
		record->total = 0;
		ticks = light_now();
		for (int i = 0; i < CALLS; i++)
			(void) node->ExecProcNode(node);
		ticks = light_now() - ticks;
		result = Min(result, inside ? record->total : ticks);
	}
	return result;
}

/*
 * What the wrappers of sampled nodes cost, in nanoseconds a call; what all calls
 * cost is shown in the node.
 */
double
light_sample_cost(void)
{
	return cost.untimed * light_seconds_per_tick() * 1e9;
}

/*
 * About what a call costs that is timed before there are records (light_call_quickly()),
 * in seconds: what its node shows of it, and what its caller does.  0 with the server's
 * clock.
 */
void
light_quick_cost(double *in_node, double *in_caller)
{
	*in_node = cost.inside * light_ns_per_tick * 1e-9;
	*in_caller = Max(cost.timed - cost.inside, 0) * light_ns_per_tick * 1e-9;
}

/* Measure them; called once from _PG_init. */
void
light_sample_init(void)
{
	PlanState  *node = palloc0(sizeof(PlanState));
	EState	   *estate = palloc0(sizeof(EState));
	char	   *chunk = palloc0(sizeof(LightRecord) + 63);
	LightRecord *record = (LightRecord *) TYPEALIGN(64, chunk);
	int64		bare,
				inside,
				timed,
				untimed,
				in_page;

	memset(&cost, 0, sizeof(cost));
	node->ExecProcNodeReal = return_row;
	node->instrument = (NodeInstrumentation_compat *) record;
	node->ExecProcNode = return_row;
	bare = least(node, record, false, false);
	node->ExecProcNode = light_wrapper_for(LIGHT_CLOCK_SAMPLED, true, false);
	untimed = least(node, record, false, false);
	timed = least(node, record, true, false);
	inside = least(node, record, true, true);

	/* a page without end */
	estate->es_direction = ForwardScanDirection;
	node->state = estate;
	record->core.running = true;
	record->in_page = PG_INT32_MAX;
	node->ExecProcNode = light_scan_pages;
	in_page = least(node, record, false, false);

	cost.inside = Max(inside - bare, 0) / CALLS;
	cost.timed = Max(timed - bare, CALLS) / CALLS;
	cost.untimed = Max(untimed - bare, 0) / CALLS;
	cost.in_page = Max(in_page - bare, 0) / CALLS;
	cost.worth = cost.timed * COST_RATIO;
	pfree(chunk);
	pfree(estate);
	pfree(node);
}

/*-------------------------------------------------------------------------
 *
 * sampler.c
 *	  The background worker that samples all processes several times a second.
 *
 * In each round it reads, for each process of a database, its cell (measure/cell.h) and
 * its wait event.  Neither is locked, and the process may continue in between, so the node is
 * read before and after the wait event: if it changed, or if the sampler was interrupted, both
 * are read again.  The time between two rounds varies at random, so that it does not coincide
 * with work that statements do at intervals.
 *
 * A statement's plan is known when it has ended and its counters are added to the
 * profile: its identifier takes too long for short statements, of which hardly any is ever
 * seen.  So a statement that was seen is noted in the cell of its process, and when it ends
 * the process answers with the plan; one that ended before that is found among the last executions in
 * the cell.  Until then, and without the profile, its samples are
 * added up without a plan; the samples that have to be moved to the plan are remembered here.  A parallel
 * worker's samples are those of its leader's statement.
 *
 * The worker is connected to no database and reads no catalog.  It may be terminated, and
 * is started again; samples of statements that run then stay without a plan.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "show/samples.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Attempts to read a process that keeps changing. */
#define ATTEMPTS 5

/* From one reading of the clock to the next, in nanoseconds: more, and the sampler was interrupted. */
#define READ_WITHIN INT64CONST(20000)

/*
 * Processes that are requested from memory ahead of the one that is read.  Since the last round the caches have
 * lost a dozen lines of each, and waiting for them one by one would be most of the time of a round.
 */
#define AHEAD 8

/*
 * Sums that one execution may have waiting for its plan, in all buckets: then the older
 * half of them stays without a plan.
 */
#define MOST_PENDING 16384

/* A sample stands for the time since the round before, up to this many intervals. */
#define MOST_INTERVALS 10

/* Seconds until a worker that ended is started again. */
#define RESTART_AFTER 5

/* Samples with one key in one bucket of the waits' history. */
typedef struct PendingWait
{
	LightWaitKey key;
	int64		bucket;
	int64		samples;
	double		seconds;
} PendingWait;

/* Samples of one execution that may have to move to a plan. */
typedef struct Pending
{
	uint32		execution;		/* 0: none */
	int64		last;			/* number of its last sample in the ring */
	int			n;
	int			allocated;
	PendingWait *waits;			/* in the order of their buckets */
} Pending;

/* A process as it was seen. */
typedef struct Seen
{
	int			procno;
	int			pid;
	int			leader;			/* number of its PGPROC, or -1 */
	uint32		execution;
	LightWaitKey key;
} Seen;

static Pending (*pending_of)[LIGHT_QUESTIONS];	/* by process */
static bool *asked;				/* by process: may it answer? */
static Seen *seen;				/* those of one round */
static int64 resets;			/* ... of pending samples */

PGDLLEXPORT void light_explain_sampler_main(Datum arg);

/* ---- a process ---------------------------------------------------------- */

/* The node that a process is in, and what it does around it. */
static int
node_of(const volatile LightCell *cell, LightDoing *doing)
{
	struct LightRecord *top = cell->top;
	int			depth = cell->depth;
	int			node = LIGHT_NO_NODE;

	if (cell->commits)
	{
		/* after the outermost activity its entry is still there */
		*doing = cell->doing[Min(Max(depth, 1), LIGHT_DEPTH - 1)];
		doing->activity = LIGHT_COMMIT;
		return LIGHT_NO_NODE;
	}
	*doing = cell->doing[Min(depth, LIGHT_DEPTH - 1)];
	if (!cell->mapped || doing->activity != LIGHT_EXECUTOR || depth >= LIGHT_DEPTH)
		return LIGHT_NO_NODE;
	if (top != doing->base && !light_slot_node(top, &node))
	{
		struct LightRecord *records = cell->records;

		if (top >= records && top < records + Min(cell->nrecords, LIGHT_CELL_NODES))
			node = cell->node_ids[top - records];
	}
	return node >= 0 ? node : cell->node;
}

/* Does a process that is idle for all hooks only wait for work? */
static bool
waits_for_work(uint32 wait)
{
	uint32		class = wait & 0xFF000000;

	return wait == WAIT_EVENT_CLIENT_READ || class == PG_WAIT_ACTIVITY || class == PG_WAIT_EXTENSION || class == PG_WAIT_TIMEOUT;
}

/* Have the caches load what is read of a process; whether there is one was requested before. */
static inline void
request_process(int procno)
{
	const PGPROC *proc = &ProcGlobal->allProcs[procno];
	const LightCell *cell = light_cell_of(procno);

	if (proc->pid == 0)
		return;
	__builtin_prefetch(&proc->roleId);
	__builtin_prefetch(&proc->wait_event_info);
	__builtin_prefetch(&proc->lockGroupLeader);
	__builtin_prefetch((const void *) &cell->top);
	__builtin_prefetch(&cell->doing[1]);
	__builtin_prefetch((const void *) cell->node_ids);
	__builtin_prefetch(pending_of[procno]);
}

/* Read a process; false if it does nothing, or changed each time.  "now" is a reading of the clock, before and after. */
static bool
read_process(int procno, Seen *found, int64 *torn, int64 *now)
{
	PGPROC	   *proc = &ProcGlobal->allProcs[procno];
	volatile LightCell *cell = light_cell_of(procno);
	int			pid = proc->pid;
	Oid			database;
	PGPROC	   *leader;
	LightDoing	doing;

	if (pid == 0 || pid == MyProcPid)
		return false;
	database = proc->databaseId;
	if (!OidIsValid(database) || !OidIsValid(proc->roleId))
		return false;
	leader = proc->lockGroupLeader;
	found->procno = procno;
	found->pid = pid;
	found->leader = leader != NULL && leader != proc ? (int) (leader - ProcGlobal->allProcs) : -1;
	memset(&found->key, 0, sizeof(LightWaitKey));
	found->key.database = database;

	for (int attempt = 0; attempt < ATTEMPTS; attempt++)
	{
		int64		began = *now;
		uint32		changes = cell->changes;
		int			node;
		int			again;
		uint32		wait;
		LightDoing	after;

		pg_read_barrier();
		if (cell->pid != pid)
		{
			/* no hook has seen a statement of it yet */
			doing = (LightDoing)
			{
				.role = proc->roleId,.activity = LIGHT_IDLE
			};
			node = again = LIGHT_NO_NODE;
			wait = proc->wait_event_info;
		}
		else
		{
			node = node_of(cell, &doing);
			pg_read_barrier();
			wait = proc->wait_event_info;
			pg_read_barrier();
			again = node_of(cell, &after);
			pg_read_barrier();
		}
		*now = light_system_now();
		if (proc->pid != pid)
			return false;
		if (changes % 2 != 0 || cell->changes != changes || node != again || *now - began > READ_WITHIN)
			continue;

		if (doing.activity == LIGHT_IDLE)
		{
			/*
			 * a process that has ended has its PGPROC until another one takes
			 * it, on 15 with its pid (18 clears that)
			 */
			if (waits_for_work(wait) || BackendPidGetProc(pid) != proc)
				return false;
			doing.role = proc->roleId;
			doing.query_id = 0;
		}
		found->execution = doing.activity == LIGHT_EXECUTOR ? doing.execution : 0;
		found->key.role = doing.role;
		found->key.query_id = doing.query_id;
		found->key.node = node;
		found->key.wait = wait;
		found->key.activity = doing.activity;
		found->key.worker = found->leader >= 0;
		return true;
	}
	(*torn)++;
	return false;
}

/* ---- plans -------------------------------------------------------------- */

/* Forget what is pending of an execution. */
static void
forget(Pending *pending)
{
	if (pending->waits != NULL)
		pfree(pending->waits);
	memset(pending, 0, sizeof(Pending));
}

/* A process has told the plan of an execution: move its samples there. */
static void
move_to_plan(Pending *pending, uint64 plan_id)
{
	LightSamplesShared *shared = light_samples_shared;
	int64		number = pending->last;

	for (int i = 0; i < pending->n; i++)
	{
		PendingWait *wait = &pending->waits[i];

		light_wait_move(&wait->key, wait->bucket, plan_id, wait->samples, wait->seconds);
	}
	while (number >= 0 && number > shared->taken - 1 - shared->nring)
	{
		LightSample *sample = light_sample(number);

		sample->key.plan_id = plan_id;
		number = sample->previous;
	}
}

/* Questions were added or removed; are there any? */
static bool
note_asked(LightCell *cell)
{
	uint64		bits = 0;

	for (int i = 0; i < LIGHT_QUESTIONS; i++)
	{
		if (cell->questions[i].execution != 0)
			bits |= LIGHT_ASKED(cell->questions[i].execution);
	}
	cell->asked = bits;
	return bits != 0;
}

/* Answers of a process; its cell may have another owner now. */
static void
take_answers(int procno)
{
	LightCell  *cell = light_cell_of(procno);

	cell->answered = false;
	pg_memory_barrier();
	for (int i = 0; i < LIGHT_QUESTIONS; i++)
	{
		uint64		plan_id;

		if (cell->questions[i].execution == 0)
			continue;
		plan_id = cell->questions[i].plan_id;
		if (plan_id == 0)
			continue;
		if (pending_of[procno][i].execution == cell->questions[i].execution)
		{
			if (plan_id != LIGHT_NO_PLAN)
				move_to_plan(&pending_of[procno][i], plan_id);
			forget(&pending_of[procno][i]);
		}
		cell->questions[i].execution = 0;
	}
	asked[procno] = note_asked(cell);
}

/* If the execution of a question is one of the last that have ended, answer it as the process would. */
static void
answer_ended(LightCell *cell, int question)
{
	uint32		execution = cell->questions[question].execution;
	volatile	LightEnded *ended = &cell->ended[execution % LIGHT_ENDED];
	uint64		plan_id;

	if (ended->execution != execution)
		return;
	pg_read_barrier();
	plan_id = ended->plan_id;
	pg_read_barrier();
	if (ended->execution != execution)
		return;
	cell->questions[question].plan_id = plan_id;
	pg_write_barrier();
	cell->answered = true;
}

/*
 * The pending samples of an execution of a process; the first time its plan is requested.
 * If there are too many, the oldest one is dropped: its plan is not stored.
 */
static Pending *
pending_for(int procno, uint32 execution)
{
	LightCell  *cell = light_cell_of(procno);
	int			chosen = 0;
	Pending    *pending;

	for (int i = 0; i < LIGHT_QUESTIONS; i++)
	{
		if (cell->questions[i].execution == execution)
		{
			chosen = i;
			break;
		}
		/* the first free one, so that few lines of the cell are read */
		if (cell->questions[chosen].execution != 0 &&
			(cell->questions[i].execution == 0 || (int32) (cell->questions[i].execution - cell->questions[chosen].execution) < 0))
			chosen = i;
	}
	pending = &pending_of[procno][chosen];
	if (cell->questions[chosen].execution != execution)
	{
		cell->questions[chosen].execution = 0;
		pg_write_barrier();
		cell->questions[chosen].plan_id = 0;
		pg_write_barrier();
		cell->questions[chosen].execution = execution;
		asked[procno] = note_asked(cell);

		/* it may have ended before it could see the question */
		pg_memory_barrier();
		answer_ended(cell, chosen);
	}
	if (pending->execution != execution)
	{
		forget(pending);
		pending->execution = execution;
		pending->last = -1;
	}
	return pending;
}

/* Remember a sample that may have to move. */
static void
keep_pending(Pending *pending, const LightWaitKey *key, double seconds)
{
	int64		bucket = light_waits != NULL ? light_waits->open : 0;
	int			i = pending->n - 1;

	while (i >= 0 && pending->waits[i].bucket == bucket && memcmp(&pending->waits[i].key, key, sizeof(LightWaitKey)) != 0)
		i--;
	if (i < 0 || pending->waits[i].bucket != bucket)
	{
		if (pending->n == MOST_PENDING)
		{
			pending->n /= 2;
			memmove(pending->waits, pending->waits + pending->n, pending->n * sizeof(PendingWait));
		}
		if (pending->n == pending->allocated)
		{
			pending->allocated = Max(pending->allocated * 2, 4);
			pending->waits = pending->waits == NULL ? MemoryContextAlloc(TopMemoryContext, pending->allocated * sizeof(PendingWait)) :
				repalloc(pending->waits, pending->allocated * sizeof(PendingWait));
		}
		i = pending->n++;
		pending->waits[i] = (PendingWait)
		{
			.key = *key,.bucket = bucket
		};
	}
	pending->waits[i].samples++;
	pending->waits[i].seconds += seconds;
}

/* ---- a round ------------------------------------------------------------ */

/*
 * The statement that a worker works for is the leader's, also if it is a nested one or executes another one now;
 * its process is asked for the plan.
 */
static void
take_leaders(Seen *found)
{
	const		LightParallel parallel = light_cell_of(found->leader)->parallel;

	found->execution = 0;
	if (found->key.activity == LIGHT_EXECUTOR && parallel.reported_query_id == found->key.query_id)
	{
		found->key.query_id = parallel.query_id;
		found->execution = parallel.execution;
		found->procno = found->leader;
	}
}

static void
add_sample(Seen *found, TimestampTz now, double seconds)
{
	LightSample sample = {.time = now,.pid = found->pid,.previous = -1,.seconds = seconds};
	Pending    *pending;

	if (found->leader >= 0)
	{
		sample.leader = ProcGlobal->allProcs[found->leader].pid;
		take_leaders(found);
	}
	sample.key = found->key;
	sample.execution = found->execution;
	light_wait_add(&found->key, 1, seconds);
	if (found->execution == 0)
	{
		(void) light_sample_add(&sample);
		return;
	}
	pending = pending_for(found->procno, found->execution);
	keep_pending(pending, &found->key, seconds);
	sample.previous = pending->last;
	pending->last = light_sample_add(&sample);
}

/* Read all processes, then add their samples. */
static void
sample_all(double seconds, bool late)
{
	LightSamplesShared *shared = light_samples_shared;
	TimestampTz now = GetCurrentTimestamp();
	int64		clock = light_system_now();
	int64		torn = 0;
	int			n = 0;

	for (int procno = 0; procno < light_cells(); procno++)
	{
		if (procno + 2 * AHEAD < light_cells())
			__builtin_prefetch(&ProcGlobal->allProcs[procno + 2 * AHEAD].pid);
		if (procno + AHEAD < light_cells())
			request_process(procno + AHEAD);
		n += read_process(procno, &seen[n], &torn, &clock);
	}

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (shared->resets != resets)
	{
		for (int procno = 0; procno < light_cells(); procno++)
		{
			for (int i = 0; i < LIGHT_QUESTIONS; i++)
				forget(&pending_of[procno][i]);
		}
		resets = shared->resets;
	}
	shared->changing = true;
	light_waits_turn(now);
	shared->rounds++;
	shared->late += late;
	shared->torn += torn;
	for (int i = 0; i < n; i++)
	{
		if (i + AHEAD < n)
			__builtin_prefetch(pending_of[seen[i + AHEAD].procno][0].waits);
		add_sample(&seen[i], now, seconds);
	}

	/* some were asked for in this round, and have ended since */
	for (int procno = 0; procno < light_cells(); procno++)
	{
		if (asked[procno] && light_cell_of(procno)->answered)
			take_answers(procno);
	}
	shared->changing = false;
	LWLockRelease(shared->lock);
}

static void
not_running(int code, Datum arg)
{
	light_samples_shared->pid = 0;
}

/* The worker's main function. */
void
light_explain_sampler_main(Datum arg)
{
	int64		last;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	/* the library was not preloaded again, or has no memory */
	if (light_samples_shared == NULL || light_cells() == 0)
		proc_exit(0);
	on_shmem_exit(not_running, (Datum) 0);
	light_samples_shared->pid = MyProcPid;
	pending_of = MemoryContextAllocZero(TopMemoryContext, light_cells() * sizeof(*pending_of));
	asked = MemoryContextAllocZero(TopMemoryContext, light_cells() * sizeof(bool));
	seen = MemoryContextAlloc(TopMemoryContext, light_cells() * sizeof(Seen));
	resets = -1;
	LWLockAcquire(light_samples_shared->lock, LW_EXCLUSIVE);
	light_samples_shared->changing = false;
	LWLockRelease(light_samples_shared->lock);

	/* answers that another worker waited for */
	for (int procno = 0; procno < light_cells(); procno++)
	{
		for (int i = 0; i < LIGHT_QUESTIONS; i++)
			light_cell_of(procno)->questions[i].execution = 0;
		light_cell_of(procno)->asked = 0;
	}

	last = light_system_now();
	while (!ShutdownRequestPending)
	{
		double		interval = light_sample_interval;
		double		pause = interval * (0.5 + pg_prng_double(&pg_global_prng_state));
		int64		now;

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (interval > 0 ? WL_TIMEOUT : 0),
						 Max((long) pause, 1), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		now = light_system_now();
		if (light_sample_interval > 0 && !ShutdownRequestPending && interval > 0)
		{
			double		elapsed = (now - last) / 1e6;

			sample_all(Min(elapsed, MOST_INTERVALS * interval) / 1000.0, elapsed > pause + interval);
		}
		last = now;
	}

	/* not 0: the postmaster starts another one, unless the server stops */
	proc_exit(1);
}

/* Have the postmaster start it. */
void
light_sampler_init(void)
{
	BackgroundWorker worker = {0};

	light_activity_init();
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = RESTART_AFTER;
	snprintf(worker.bgw_name, BGW_MAXLEN, "light_explain sampler");
	snprintf(worker.bgw_type, BGW_MAXLEN, "light_explain sampler");
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "light_explain");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "light_explain_sampler_main");
	RegisterBackgroundWorker(&worker);
}

/*-------------------------------------------------------------------------
 *
 * ticker.c
 *	  A clock that costs nothing per call: a timer looks at the stack of running
 *	  nodes every light_explain.tick_interval and adds the time since its last
 *	  look to every record on it.
 *
 * So the time of a node is that of all looks at which it was running, and a
 * child can never have more than its parent.  What is lost is resolution: about
 * one interval.  When a statement enters or leaves the executor the time since
 * the last look is added as well, so nothing is lost or attributed to the wrong
 * statement.
 *
 * The timer is the process's own (timer_create) and sends SIGPROF, which
 * PostgreSQL does not use.  If somebody else in this process handles SIGPROF,
 * there is no ticker.  It is armed by the first statement that needs it and
 * disarms itself when it finds none, so that a cursor fetched in small parts
 * does not arm it each time.
 *
 * The handler reads and writes records of running statements only.  It must
 * find none once the process is exiting: a FATAL error unwinds no stack.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <time.h>

#include "light_explain.h"
#include "miscadmin.h"
#include "storage/ipc.h"

/* A stack deeper than any plan: do not loop in a signal handler, whatever happened. */
#define MAX_DEPTH 100000

static timer_t timer;
static int	timer_owner = 0;	/* process that made it */
static bool unavailable = false;
static int	armed_interval = 0; /* microseconds, of the running timer */

static volatile int users = 0;	/* statements on the stack that use the ticker */
static volatile bool armed = false;
static volatile bool booking = false;
static volatile int64 last = 0;

/* Add the time since the last look to all running nodes. */
static void
book(void)
{
	int64		now = light_now();
	int64		elapsed = now - last;
	int			depth = 0;

	last = now;
	if (elapsed <= 0)
		return;
	for (LightRecord *record = light.top; record != NULL && depth < MAX_DEPTH; record = record->caller, depth++)
	{
		if (!record->ticking)
			continue;
		record->total += elapsed;
		if (!record->core.running)
			record->startup += elapsed;
	}
}

static void
set_timer(int microseconds)
{
	struct itimerspec when;

	when.it_interval.tv_sec = microseconds / 1000000;
	when.it_interval.tv_nsec = (microseconds % 1000000) * 1000;
	when.it_value = when.it_interval;
	(void) timer_settime(timer, 0, &when, NULL);
}

static void
handle_tick(int signo)
{
	int			save_errno = errno;

	if (proc_exit_inprogress || users == 0)
	{
		armed = false;
		set_timer(0);
	}
	else if (!booking)
		book();
	errno = save_errno;
}

/* The process ends: nothing may be found by the handler from now on. */
static void
stop_at_exit(int code, Datum arg)
{
	users = 0;
	light_forget_stack();
	if (armed)
	{
		armed = false;
		set_timer(0);
	}
}

/*
 * Can there be a ticker in this process?  Makes the timer at the first question.
 */
bool
light_ticker_available(void)
{
	struct sigaction action;
	struct sigevent event;

	if (timer_owner == MyProcPid)
		return true;
	if (unavailable)
		return false;
	unavailable = true;

	if (sigaction(SIGPROF, NULL, &action) != 0 ||
		(action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN && action.sa_handler != handle_tick))
		return false;
	memset(&action, 0, sizeof(action));
	action.sa_handler = handle_tick;
	action.sa_flags = SA_RESTART;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGPROF, &action, NULL) != 0)
		return false;
	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGPROF;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
		return false;
	before_shmem_exit(stop_at_exit, (Datum) 0);
	timer_owner = MyProcPid;
	unavailable = false;
	return true;
}

/* Add the time until now to the nodes that run now. */
void
light_tick(void)
{
	booking = true;
	book();
	booking = false;
}

/* A statement whose clock is the ticker begins to run; its root is not yet on top. */
void
light_ticker_enter(void)
{
	if (users > 0)
		light_tick();
	else
		last = light_now();
	users++;
	if (!armed || armed_interval != light_tick_interval)
	{
		armed = true;
		armed_interval = light_tick_interval;
		set_timer(armed_interval);
	}
}

/* It stops to run; its nodes are still on the stack. */
void
light_ticker_leave(void)
{
	light_tick();
	users--;
}

/*-------------------------------------------------------------------------
 *
 * light_test_hold.c
 *	  A process that keeps a lightweight lock.
 *
 * light_test_hold(what, table, block) acquires the lock exclusively, writes "a cause begins"
 * to the log and returns when a file "stop" exists in the data directory.  Of what: "content", the
 * content of a block; "xid", the next transaction ID; "wal", writing of WAL.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/relation.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(light_test_hold);

static void
wait_for_stop(void)
{
	ereport(LOG, (errmsg("a cause begins"), errhidestmt(true)));
	while (access("stop", F_OK) != 0)
		usleep(2000);
}

Datum
light_test_hold(PG_FUNCTION_ARGS)
{
	char	   *what = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (strcmp(what, "content") == 0)
	{
		Relation	rel = relation_open(PG_GETARG_OID(1), AccessShareLock);
		Buffer		buffer = ReadBuffer(rel, PG_GETARG_INT32(2));

		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		wait_for_stop();
		UnlockReleaseBuffer(buffer);
		relation_close(rel, AccessShareLock);
	}
	else
	{
		LWLock	   *lock = strcmp(what, "xid") == 0 ? XidGenLock : WALWriteLock;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		wait_for_stop();
		LWLockRelease(lock);
	}
	PG_RETURN_BOOL(true);
}

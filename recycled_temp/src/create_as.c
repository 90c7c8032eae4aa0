/*-------------------------------------------------------------------------
 *
 * create_as.c
 *	  CREATE TABLE AS and SELECT INTO by way of the pool.
 *
 * The server runs the statement.  When its executor starts, a receiver of this file
 * takes the place of the server's: its start finds a pooled table and it stores the
 * rows, or it passes everything on to the server's receiver.  parallel_temp, which
 * precedes the receiver that it finds while the executor runs, is notified of
 * the table by the object access hook, as of a new one.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/createas.h"
#include "executor/tuptable.h"
#include "tcop/dest.h"
#include "utils/rel.h"

#include "recycled_temp.h"

/* The clause of the statement that is about to start its executor, or NULL. */
IntoClause *create_as_into = NULL;

/* Has the statement that ended last used a pooled table? */
bool		create_as_reused = false;

typedef struct IntoReceiver
{
	DestReceiver pub;
	IntoClause *into;
	DestReceiver *server;
	Relation	rel;			/* NULL: the server's receiver has it all */
	CommandId	cid;
	BulkInsertState bistate;
} IntoReceiver;

static void
into_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	IntoReceiver *receiver = (IntoReceiver *) self;
	RecycledRequest request = {.relation = receiver->into->rel,.oncommit = receiver->into->onCommit};
	Oid			relid = InvalidOid;

	if (shape_of_query(receiver->into, desc, &request.shape))
		relid = recycle_create(&request);
	if (!OidIsValid(relid))
	{
		receiver->server->rStartup(receiver->server, operation, desc);
		return;
	}
	receiver->rel = table_open(relid, AccessExclusiveLock);
	receiver->cid = GetCurrentCommandId(true);
	receiver->bistate = GetBulkInsertState();
}

static bool
into_receive(TupleTableSlot *slot, DestReceiver *self)
{
	IntoReceiver *receiver = (IntoReceiver *) self;

	if (receiver->rel == NULL)
		return receiver->server->receiveSlot(slot, receiver->server);
	table_tuple_insert(receiver->rel, slot, receiver->cid, TABLE_INSERT_SKIP_FSM, receiver->bistate);
	return true;
}

static void
into_shutdown(DestReceiver *self)
{
	IntoReceiver *receiver = (IntoReceiver *) self;

	if (receiver->rel == NULL)
	{
		receiver->server->rShutdown(receiver->server);
		return;
	}
	FreeBulkInsertState(receiver->bistate);
	table_finish_bulk_insert(receiver->rel, TABLE_INSERT_SKIP_FSM);
	table_close(receiver->rel, NoLock);
	receiver->rel = NULL;
	create_as_reused = true;
}

static void
into_destroy(DestReceiver *self)
{
	/* lives in the statement's memory context */
}

/* Is it the server's receiver, and not another library's? */
static bool
is_server_receiver(DestReceiver *dest)
{
	static void (*startup) (DestReceiver *self, int operation, TupleDesc desc) = NULL;

	if (startup == NULL)
	{
		DestReceiver *probe = CreateIntoRelDestReceiver(NULL);

		startup = probe->rStartup;
		probe->rDestroy(probe);
	}
	return dest->rStartup == startup;
}

/* An executor is about to start. */
void
create_as_begin(QueryDesc *queryDesc)
{
	IntoReceiver *receiver;
	IntoClause *into = create_as_into;

	if (queryDesc->dest == NULL || queryDesc->dest->mydest != DestIntoRel || !is_server_receiver(queryDesc->dest))
		return;
	create_as_into = NULL;
	receiver = palloc0(sizeof(IntoReceiver));
	receiver->pub.receiveSlot = into_receive;
	receiver->pub.rStartup = into_startup;
	receiver->pub.rShutdown = into_shutdown;
	receiver->pub.rDestroy = into_destroy;
	receiver->pub.mydest = DestIntoRel;
	receiver->into = into;
	receiver->server = queryDesc->dest;
	queryDesc->dest = &receiver->pub;
}

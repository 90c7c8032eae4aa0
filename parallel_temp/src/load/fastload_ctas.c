/*-------------------------------------------------------------------------
 *
 * fastload_ctas.c
 *	  CREATE TEMP TABLE AS and SELECT INTO TEMP through the bulk writer.
 *
 * The server hands the rows of such a statement to a receiver, whose start makes
 * the table.  For the length of one ExecutorRun another receiver precedes
 * it: it lets the server's make the table, learns which table that was from the
 * object access hook, and if the table is one that the bulk writer may fill it
 * keeps the rows for itself.  In every other case, and from the moment a load is
 * handed back, rows continue to the server's receiver.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "nodes/execnodes.h"
#include "tcop/dest.h"
#include "utils/lsyscache.h"

#include "compat_table.h"
#include "load/fastload.h"
#include "query.h"

typedef struct CtasReceiver
{
	DestReceiver pub;
	DestReceiver *inner;		/* the server's receiver */
	PtQuery    *query;			/* whose rows it gets */
	bool		may_freeze;
	Relation	rel;
	FastFill   *fill;			/* NULL: all rows go to the server's receiver */
	const char *why_not;
} CtasReceiver;

/* While the server's receiver starts: the table that it made. */
static bool watching = false;
static Oid	seen_relid = InvalidOid;

/*
 * The object access hook saw a new relation.  The first one is the table; its
 * TOAST table and index come after it.
 */
void
pt_load_ctas_saw_relation(Oid relid)
{
	if (watching && !OidIsValid(seen_relid))
		seen_relid = relid;
}

static void
ctas_startup(DestReceiver *self, int operation, TupleDesc typeinfo)
{
	CtasReceiver *receiver = (CtasReceiver *) self;

	watching = true;
	seen_relid = InvalidOid;
	PG_TRY();
	{
		receiver->inner->rStartup(receiver->inner, operation, typeinfo);
	}
	PG_FINALLY();
	{
		watching = false;
	}
	PG_END_TRY();

	if (!OidIsValid(seen_relid) || get_rel_persistence(seen_relid) != RELPERSISTENCE_TEMP)
		return;					/* not a temporary table */

	/* the server's receiver holds the lock */
	receiver->rel = table_open(seen_relid, NoLock);
	receiver->why_not = pt_load_unfit(receiver->rel);
	if (receiver->why_not == NULL && receiver->rel->rd_rel->relkind != RELKIND_RELATION)
		receiver->why_not = "not a table";
	if (receiver->why_not == NULL)
	{
		/*
		 * recycled_temp gives an existing table a new file, or one that it
		 * has emptied
		 */
		bool		freeze = receiver->may_freeze &&
			CreatedInSubTransaction_compat(receiver->rel, GetCurrentSubTransactionId());

		receiver->fill = pt_load_fill_begin(receiver->query, receiver->rel,
											receiver->query->queryDesc->estate->es_query_cxt);
		pt_load_fill_load(receiver->fill, GetCurrentCommandId(true), freeze);
	}
}

static bool
ctas_receive(TupleTableSlot *slot, DestReceiver *self)
{
	CtasReceiver *receiver = (CtasReceiver *) self;

	if (receiver->fill == NULL || !pt_load_is_loading(receiver->fill))
		return receiver->inner->receiveSlot(slot, receiver->inner);
	pt_load_add(receiver->fill->load, slot);
	return true;
}

static void
ctas_shutdown(DestReceiver *self)
{
	CtasReceiver *receiver = (CtasReceiver *) self;

	if (receiver->fill != NULL)
	{
		receiver->why_not = pt_load_fill_why_not(receiver->fill);
		pt_load_end(receiver->fill->load);
	}
	if (receiver->rel != NULL)
	{
		pt_load_remember(receiver->fill ? receiver->fill->load : NULL, receiver->why_not);
		table_close(receiver->rel, NoLock);
		receiver->rel = NULL;
	}
	receiver->inner->rShutdown(receiver->inner);
}

static void
ctas_destroy(DestReceiver *self)
{
	/* in the per-query context; the server frees its receiver */
}

/*
 * A receiver to stand in front of the server's for one ExecutorRun.
 */
DestReceiver *
pt_load_ctas_receiver(PtQuery *query, bool may_freeze)
{
	CtasReceiver *receiver = MemoryContextAllocZero(query->queryDesc->estate->es_query_cxt, sizeof(CtasReceiver));

	receiver->pub.receiveSlot = ctas_receive;
	receiver->pub.rStartup = ctas_startup;
	receiver->pub.rShutdown = ctas_shutdown;
	receiver->pub.rDestroy = ctas_destroy;
	receiver->pub.mydest = query->dest->mydest;
	receiver->inner = query->dest;
	receiver->query = query;
	receiver->may_freeze = may_freeze;
	return &receiver->pub;
}

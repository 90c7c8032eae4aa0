/*-------------------------------------------------------------------------
 *
 * toolkit_view.c
 *	  The rows of the views pg_local_buffers and pg_temp_relations.
 *
 * Both begin with one pass over pg_class that collects the session's temporary
 * relations by file, because a buffer knows only the file of its page.  (Core's
 * map from file to relation is no use here: other sessions' temporary relations
 * may have the same file number.)  A second pass over the local buffers adds what
 * is resident.  Sizes come from the files, as pg_relation_size() does it, so that
 * a missing file is shown as a row and is not an error.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "buffers/buffers.h"
#include "compat_storage.h"

PG_FUNCTION_INFO_V1(pg_local_buffers_info);
PG_FUNCTION_INFO_V1(pg_temp_relations_info);

/* One temporary relation of the session. */
typedef struct TempRelation
{
	RelFileLocator_compat locator;	/* hash key */
	Oid			relid;
	int			resident;		/* buffers that hold a page of it */
	int			dirty;			/* of these, not written yet */
} TempRelation;

/*
 * Collect the session's temporary relations with storage, by file.
 */
static HTAB *
collect_temp_relations(void)
{
	HASHCTL		ctl = {
		.keysize = sizeof(RelFileLocator_compat),
		.entrysize = sizeof(TempRelation),
		.hcxt = CurrentMemoryContext
	};
	HTAB	   *table = hash_create("temporary relations", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		RelFileLocator_compat locator;
		TempRelation *entry;

		CHECK_FOR_INTERRUPTS();
		if (form->relpersistence != RELPERSISTENCE_TEMP ||
			!RELKIND_HAS_STORAGE(form->relkind) ||
			!isTempOrTempToastNamespace(form->relnamespace))
			continue;
		locator = MakeLocator_compat(OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace,
									 MyDatabaseId, form->relfilenode);
		entry = hash_search(table, &locator, HASH_ENTER, NULL);
		entry->relid = form->oid;
		entry->resident = 0;
		entry->dirty = 0;
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return table;
}

/*
 * pg_local_buffers_info() -> one row for each allocated local buffer.
 */
Datum
pg_local_buffers_info(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HTAB	   *table;
	int			allocated;

	pt_require_leader();
	InitMaterializedSRF(fcinfo, 0);
	table = collect_temp_relations();
	pt_localbuf_count(NULL, 0, &allocated, NULL);
	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		BufState_compat state = BufStateRead_compat(desc);
		Datum		values[9] = {0};
		bool		nulls[9] = {0};

		CHECK_FOR_INTERRUPTS();
		if (!pt_localbuf_is_allocated(i))
			continue;
		values[0] = Int32GetDatum(i + 1);
		if (state & BM_TAG_VALID)
		{
			RelFileLocator_compat locator = BufTagGetRelFileLocator_compat(&desc->tag);
			TempRelation *entry = hash_search(table, &locator, HASH_FIND, NULL);

			/* the catalog may not show the owner of the page (any more) */
			nulls[1] = entry == NULL;
			values[1] = ObjectIdGetDatum(entry ? entry->relid : InvalidOid);
			values[2] = ObjectIdGetDatum(RelFileNumber_compat(locator));
			values[3] = CStringGetTextDatum(forkNames[BufTagGetForkNum_compat(&desc->tag)]);
			values[4] = Int64GetDatum((int64) desc->tag.blockNum);
			values[5] = BoolGetDatum((state & BM_DIRTY) != 0);
			values[6] = Int32GetDatum((int32) BUF_STATE_GET_USAGECOUNT(state));
		}
		else
		{
			for (int a = 1; a <= 6; a++)
				nulls[a] = true;
		}
		values[7] = Int32GetDatum(LocalRefCount[i]);
		values[8] = Int32GetDatum(BLCKSZ);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	hash_destroy(table);
	return (Datum) 0;
}

/*
 * pg_temp_relations_info() -> one row for each temporary relation of the session.
 */
Datum
pg_temp_relations_info(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HTAB	   *table;
	HASH_SEQ_STATUS seq;
	TempRelation *entry;

	pt_require_leader();
	InitMaterializedSRF(fcinfo, 0);
	table = collect_temp_relations();
	for (int i = 0; i < NLocBuffer; i++)
	{
		BufferDesc *desc = GetLocalBufferDescriptor(i);
		BufState_compat state = BufStateRead_compat(desc);
		RelFileLocator_compat locator;

		if (!(state & BM_VALID))
			continue;
		locator = BufTagGetRelFileLocator_compat(&desc->tag);
		entry = hash_search(table, &locator, HASH_FIND, NULL);
		if (entry)
		{
			entry->resident++;
			entry->dirty += (state & BM_DIRTY) != 0;
		}
	}

	hash_seq_init(&seq, table);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		Datum		values[8];
		bool		nulls[8] = {0};
		char	   *path = pt_relfile_path(entry->locator, TempFileOwner_compat(), MAIN_FORKNUM, 0);
		bool		exists;
		int64		size = pt_relfile_fork_size(entry->locator, MAIN_FORKNUM, &exists);
		int64		total = size;

		for (ForkNumber fork = MAIN_FORKNUM + 1; fork <= MAX_FORKNUM; fork++)
		{
			bool		ignored;

			total += pt_relfile_fork_size(entry->locator, fork, &ignored);
		}
		values[0] = ObjectIdGetDatum(entry->relid);
		values[1] = ObjectIdGetDatum(RelFileNumber_compat(entry->locator));
		values[2] = Int64GetDatum(size / BLCKSZ);
		values[3] = Int64GetDatum(total);
		values[4] = Int32GetDatum(entry->resident);
		values[5] = Int32GetDatum(entry->dirty);
		values[6] = CStringGetTextDatum(path);
		values[7] = BoolGetDatum(exists);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	hash_destroy(table);
	return (Datum) 0;
}

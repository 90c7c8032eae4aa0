/*-------------------------------------------------------------------------
 *
 * recycled_temp.h
 *	  Settings, and what the files of the library share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RECYCLED_TEMP_H
#define RECYCLED_TEMP_H

#include "access/htup.h"
#include "catalog/pg_class.h"
#include "datatype/timestamp.h"
#include "executor/execdesc.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "storage/block.h"
#include "utils/relcache.h"
#include "utils/resowner.h"

#include "compat_storage.h"

/* A pooled table is called this and its OID; so are its types, indexes and constraints. */
#define RECYCLED_PREFIX "pg_temp_recycled_"

/* settings: recycled_temp.c */
extern bool recycled_enabled;
extern int	recycled_max_tables;
extern int	recycled_keep_size;
extern int	recycled_idle_timeout;
extern int	recycled_after_drops;

/* counts of this session */
extern long recycled_kept;
extern long recycled_reused;

/* A primary key or unique constraint, or a NOT NULL constraint (no index). */
typedef struct RecycledKey
{
	Oid			constraint;
	Oid			index;
	RelFileLocator_compat file; /* of the index */
	bool		primary;
	int			natts;
	int16		columns[INDEX_MAX_KEYS];
} RecycledKey;

/* The catalog rows of one table, as the current transaction sees them. */
typedef struct RecycledTable
{
	Oid			relid;
	HeapTuple	row;			/* copy of its pg_class row */
	RelFileLocator_compat file;
	Oid			rowtype;
	Oid			arraytype;
	Oid			toast;
	Oid			toast_index;
	RelFileLocator_compat toast_file;
	RelFileLocator_compat toast_index_file;
	List	   *keys;			/* RecycledKey, in the order of their making */
	List	   *notnulls;		/* RecycledKey with one column (18 and later) */
	List	   *indexes;		/* OIDs of all other indexes */
	List	   *attrdefs;		/* OIDs of defaults */
	List	   *defaults;		/* their expressions as text, by column */
	bool		has_statistics;
	bool		toast_used;		/* the TOAST table has pages */
	bool		key_used;		/* an index has more than its first page */
	StringInfoData shape;
} RecycledTable;

/*
 * The table that a statement asks for.  "source" is the text of the statement, for
 * positions in errors.
 */
typedef struct RecycledRequest
{
	RangeVar   *relation;
	OnCommitAction oncommit;
	StringInfoData shape;
	List	   *key_names;		/* in the order of their making */
	List	   *defaults;		/* DefaultClause, by column */
	const char *source;
} RecycledRequest;

/* A version of a table's pg_class row, written by the current transaction. */
typedef struct RowVersion
{
	Oid			relid;
	TransactionId xmin;
	CommandId	cmin;
} RowVersion;

/* A table that was pooled; a hint only, see pool.c. */
typedef struct RecycledEntry
{
	Oid			relid;
	uint32		hash;			/* of its shape */
	TimestampTz since;
	bool		gone;			/* to be removed at commit */
} RecycledEntry;

/* shape.c */
extern void shape_begin(StringInfo shape, Oid owner, Oid tablespace);
extern void shape_column(StringInfo shape, const char *name, Oid type, int32 typmod, Oid collation, int ndims,
						 bool notnull, bool has_default);
extern void shape_key(StringInfo shape, bool primary, int natts, const int16 *columns);
extern bool shape_of_statement(CreateStmt *stmt, RecycledRequest *request);
extern bool shape_of_query(IntoClause *into, TupleDesc desc, StringInfo shape);
extern uint32 shape_hash(StringInfo shape);
extern char *shape_key_name(const char *relname, List *colnames, bool primary);

/* defaults.c */
extern bool default_is_simple(Node *raw);
extern List *default_add(List *defaults, Node *raw, const char *column, Oid type, int32 typmod);
extern bool defaults_match(RecycledTable *table, RecycledRequest *request);

/* inspect.c */
extern const char *inspect_table(Oid relid, RecycledTable *table);
extern RelFileLocator_compat inspect_locator(Form_pg_class form);
extern BlockNumber inspect_blocks(Form_pg_class form);

/* recycle.c */
extern bool recycle_drop(DropStmt *stmt);
extern Oid	recycle_create(RecycledRequest *request);
extern void recycle_at_pre_commit(void);
extern void recycle_at_commit(void);
extern void recycle_at_end(void);

/* rollback.c */
extern void rollback_note(RecycledTable *table, bool heap);
extern void rollback_empty_heap(SMgrRelation reln);
extern void rollback_resources_released(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg);

/* on_commit.c */
extern bool on_commit_has_no_entry(Oid relid);
extern void on_commit_created(Oid relid, OnCommitAction action);
extern bool on_commit_has_drops(void);
extern List *on_commit_take_drops(void);
extern List *row_version_note(List *list, HeapTuple row, Oid relid);
extern HeapTuple row_version_get(RowVersion *version);

/* keep.c */
extern void keep_table(Relation rel, RecycledTable *table);
extern void keep_count_drop(Relation rel);
extern bool keep_worthwhile(Relation rel);

/* pool.c */
extern List *recycled_pool;
extern char *pool_name(Oid relid);
extern bool pool_has(uint32 hash);
extern bool pool_knows(Oid relid);
extern bool pool_sees(RecycledEntry *entry);
extern void pool_add(Oid relid, uint32 hash);
extern bool pool_in_use(Oid relid);
extern bool pool_drop(RecycledEntry *entry);
extern void pool_make_room(void);
extern int	pool_empty(bool idle_only);
extern bool pool_has_gone(void);
extern void pool_mark_gone(void);
extern void pool_at_end(bool committed);
extern void pool_arm_timer(void);
extern bool pool_has_tables(void);
extern bool pool_timer_fired(void);

/* create_as.c */
extern void create_as_begin(QueryDesc *queryDesc);
extern IntoClause *create_as_into;
extern bool create_as_reused;

/* hooks.c */
extern void hooks_install(void);
extern void hooks_watch_transactions(void);
extern const char *hooks_obstacle(void);
extern bool hooks_usable(void);

#endif							/* RECYCLED_TEMP_H */

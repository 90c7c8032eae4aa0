/*-------------------------------------------------------------------------
 *
 * store.h
 *	  Chunk stores, the access method and what works on them: the storage side's
 *	  own interface.  The type's functions need appendable.h alone.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_STORE_H
#define APPENDABLE_STORE_H

#include "access/genam.h"
#include "access/hio.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "executor/tuptable.h"

#include "appendable.h"

#define AB_EXTENSION	"appendable_bytea"
#define AB_AM			"appendable_heap"
#define AB_SCHEMA		"appendable_store"
#define AB_STORES		"stores"

/* Columns of a chunk store, as in its only index for the first three. */
#define AB_CHUNK_VID		1
#define AB_CHUNK_OFF		2
#define AB_CHUNK_EDITION	3	/* descending in the index */
#define AB_CHUNK_PREV		4	/* crc of the chunk written before this one */
#define AB_CHUNK_CRC		5	/* over prev, vid, off, edition and data */
#define AB_CHUNK_DATA		6
#define AB_CHUNK_NATTS		6

/* Data bytes of a chunk that fills a page. */
#define AB_CHUNK_MAX \
	((int) (MaxHeapTupleSize - MAXALIGN(SizeofHeapTupleHeader) - (8 + 8 + 4 + 4 + 4 + VARHDRSZ)))

/*
 * Bytes of a value in one compressed chunk, which is no larger than others as it is
 * stored.  A slice decompresses the whole of it.
 */
#define AB_COMPRESSED_MAX	(8 * AB_CHUNK_MAX)

/* ---- names.c: what is where in this database ----------------------------- */

/* A type of ours and the server's own that it is like. */
typedef struct AbType
{
	const char *name;
	Oid			plain;
	const char *plain_name;
	const char *digest;			/* of it, for hints */
	Oid			oid;			/* in this database; InvalidOid: not there */
} AbType;

#define AB_NTYPES 2

/* Another one whenever names, and what is found by them, must be looked up again. */
extern uint64 ab_names_generation;

extern const AbType *ab_types(void);
extern const AbType *ab_type_of(Oid type);
extern Oid	ab_am_oid(void);
extern Oid	ab_schema_oid(void);
extern Oid	ab_stores_oid(void);
extern bool ab_is_appendable(Relation rel);
extern const AbType *ab_type_within(Oid type);
extern const AbType *ab_type_in(Oid type);
extern void ab_names_install(void);

/* ---- values.c: the values of rows and tables ------------------------------ */

typedef struct AbValueScan
{
	Relation	rel;
	TableScanDesc scan;
	TupleTableSlot *slot;		/* the row */
	AttrNumber	attnum;
	Datum		value;
	MemoryContext context;		/* for what is needed until the next value */
} AbValueScan;

extern AttrNumber ab_next_column(TupleDesc desc, AttrNumber attnum);
extern void ab_values_begin(AbValueScan *scan, Relation rel, Snapshot snapshot);
extern bool ab_values_next(AbValueScan *scan);
extern void ab_values_end(AbValueScan *scan);

/* ---- datum.c ------------------------------------------------------------- */

extern bool ab_find_reference(Datum datum, AbRef *ref);
extern Datum ab_make_stored(const AbRef *ref, const char *tail, int64 n, int64 room);

/* ---- catalog.c: which store belongs to which table ------------------------ */

extern HeapTuple ab_catalog_row(Oid catalog, Oid objid, Snapshot snapshot);
extern Oid	ab_store_find(Oid relid);
extern List *ab_store_list(void);
extern void ab_store_record(Oid relid, Oid heap, FullTransactionId dropped_by);
extern bool ab_store_is_retained(Oid relid, FullTransactionId *dropped_by);
extern void ab_stores_invalidated(Oid relid);

/* ---- store.c: stores as relations ----------------------------------------- */

/* An open store: its table and all indexes of that, which are the same. */
typedef struct AbStore
{
	Relation	heap;
	Relation	index;			/* the one to look things up in */
	Relation   *indexes;		/* &index, if it is the only one */
	int			nindexes;
} AbStore;

extern bool ab_store_open(Oid relid, LOCKMODE mode, AbStore *store);
extern void ab_store_close(AbStore *store, LOCKMODE mode);
extern void ab_store_create(Oid relid);
extern void ab_store_drop(Oid relid);
extern void ab_store_truncate(Oid relid);
extern void ab_store_match(Oid relid);
extern bool ab_store_matching;	/* it is what alters a store */
extern bool ab_is_decodable(HeapTuple class);
extern bool ab_slots_passed(TransactionId xid);
extern bool ab_store_awaited(Oid heap);
extern void ab_refuse_awaited(Oid heap);
extern void ab_set_relrewrite(Oid relid, Oid relrewrite);

/* ---- chunk.c: rows of a store -------------------------------------------- */

typedef struct AbChunk
{
	int64		vid;
	int64		off;
	uint32		edition;
	uint32		prev;
	uint32		crc;
	int			length;			/* bytes of the value */
	const char *data;			/* they; NULL: decompress them first */
	bool		compressed;
	int			stored_length;
	const char *stored;			/* what the row holds of them */
	const char *problem;		/* of its row, which is not taken apart then */
} AbChunk;

/*
 * A row of a store as it lies in its tuple, behind the header.  describe_column()
 * makes the data's storage plain, so that its length word has four bytes always.
 */
typedef struct AbChunkRow
{
	int64		vid;
	int64		off;
	uint32		edition;
	uint32		prev;
	uint32		crc;
	char		length_word[VARHDRSZ];	/* of a varlena, plain or compressed */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} AbChunkRow;

#define AB_CHUNK_ROW_HEADER		MAXALIGN(SizeofHeapTupleHeader)

/* Every edition; see ab_chunks_delete(). */
#define AB_ANY_EDITION	PG_INT64_MAX

extern bool ab_chunk_parse(HeapTuple tuple, AbChunk *chunk);
extern uint32 ab_chunk_crc(const AbChunk *chunk);
extern bool ab_chunk_intact(const AbChunk *chunk);
extern int64 ab_new_vid(void);
extern SysScanDesc ab_chunk_scan(const AbStore *store, Snapshot snapshot,
								 int64 vid, int64 from, int64 before);
extern bool ab_chunk_next(SysScanDesc scan, ScanDirection direction, AbChunk *chunk);
extern bool ab_chunk_removable(SysScanDesc scan);
extern void ab_chunk_insert(Relation heap, HeapTuple tuple, CommandId cid,
							struct BulkInsertStateData *bulk);
extern void ab_chunk_delete(Relation heap, HeapTuple tuple);
extern void ab_chunks_delete(Oid relid, int64 vid, int64 from, int64 before, int64 edition);
extern void ab_chunks_delete_all(Relation heap);

/* ---- writer.c: writing chunks -------------------------------------------- */

typedef struct AbWriter AbWriter;

extern PGDLLEXPORT AbWriter *ab_writer_open(Oid relid, const AbRef *from, int64 expected);
extern bool ab_writer_is_permanent(const AbWriter *writer);
extern PGDLLEXPORT void ab_writer_put(AbWriter *writer, const char *data, int64 length);
extern void ab_writer_put_compressed(AbWriter *writer, const struct varlena *compressed);
extern void ab_writer_overwrite(AbWriter *writer, int64 off, const char *data, int length);
extern void ab_writer_seal(AbWriter *writer, AbRef *ref);
extern void ab_writer_abandon(AbWriter *writer);
extern PGDLLEXPORT void ab_writer_close(AbWriter *writer, AbRef *ref);

/* ---- compress.c ----------------------------------------------------------- */

typedef struct AbCompressor AbCompressor;

extern AbCompressor *ab_compressor_open(AbWriter *writer);
extern void ab_compressor_put(AbCompressor *compressor, const char *data, int64 length);
extern void ab_compressor_close(AbCompressor *compressor);
extern bool ab_compressible(const char *data, int length);
extern bool ab_decompressible(const AbChunk *chunk);
extern struct varlena *ab_decompress(const AbChunk *chunk, bool lenient);

/* ---- extend.c ------------------------------------------------------------ */

extern int	ab_extend(Relation rel, int n, Buffer *buffers);

/* ---- crc.c --------------------------------------------------------------- */

extern uint32 ab_crc(uint32 crc, const char *data, size_t length);

/* ---- layout.c: which chunk covers a byte of a reference ------------------- */

/* Zeroed, but for context and snapshot, before it is used. */
typedef struct AbLayout
{
	MemoryContext context;		/* of the scan */
	Snapshot	snapshot;		/* SnapshotAny: what chunk.c says; MVCC: to
								 * check one chunk after the other */
	AbRef		ref;			/* once the store is open */
	AbStore		store;
	SysScanDesc scan;			/* its next chunk covers or follows scan_at */
	int64		scan_at;		/* chunk offset that the scan stands before */
	int64		scan_end;		/* chunks from this offset on are not in it */
	AbChunk		chunk;			/* found last; no length: none */
	struct varlena *decompressed;	/* its bytes, if it had to be */
	bool		lenient;		/* a damaged chunk counts as a missing one */
	bool		to_end;			/* nothing is used before the last chunk was
								 * asked for */
	bool		verifying;		/* a chunk that this server cannot decompress
								 * counts, without its data */
	bool		undecompressed; /* there was such a one */
	const char *problem;		/* why there is no chunk, for the lenient */
} AbLayout;

extern const AbChunk *ab_layout_find(AbLayout *layout, const AbRef *ref, int64 at, int64 until);
extern void ab_layout_missing(AbLayout *layout, int64 at);
extern void ab_layout_close(AbLayout *layout);
extern void ab_layout_install(void);

/* ---- reader.c ------------------------------------------------------------ */

extern void *ab_palloc(Size size);
extern AbReader *ab_reader_open_value(AbValue *value);
extern int64 ab_reader_try_next(AbReader *reader, const char **piece);
extern const AbChunk *ab_reader_chunk(AbReader *reader, int64 at);

/* ---- resolve.c: what may be stored --------------------------------------- */

typedef enum AbAction
{
	AB_KEEP,					/* store the datum as it is */
	AB_INLINE,					/* store another datum, no chunk is written */
	AB_APPEND,					/* write the tail as chunks of the same value */
	AB_REWRITE,					/* overwrite chunks of the same value, or cut
								 * it */
	AB_COPY						/* write everything as a new value */
} AbAction;

typedef struct AbTarget
{
	Oid			relid;			/* table whose store is written */
	bool		temporary;		/* keeps flat values */
	bool		permanent;		/* survives a crash */
	bool		rewriting;		/* transient table of a table rewrite */
	bool		logged;			/* rows are logged whole for logical decoding */
} AbTarget;

typedef struct AbPlan
{
	AbAction	action;
	Datum		datum;
	AbValue		value;
	AbValue		old;
	bool		has_old;
	bool		grows;			/* continues the old value, if that has
								 * chunks; an inline part is padded */
	AbWriter   *writer;			/* of a chunk that is written after the row */

	/* what a rewrite leaves behind: chunks below its edition */
	int64		edition;		/* 0: no rewrite */
	int64		cut;			/* all of them from here on ... */
	List	   *overwritten;	/* ... and those at these offsets (int64 *) */
} AbPlan;

extern void ab_plan(AbPlan *plan, const AbTarget *target, Datum datum, bool has_old, Datum old);
extern bool ab_plan_writes(const AbPlan *plan);
extern bool ab_plan_deferrable(const AbPlan *plan, const AbTarget *target);
extern Datum ab_plan_execute(AbPlan *plan, const AbTarget *target);
extern Datum ab_plan_execute_later(AbPlan *plan, const AbTarget *target);
extern void ab_plan_finish(AbPlan *plan, const AbTarget *target, bool stored);

/* ---- am.c ---------------------------------------------------------------- */

extern void ab_am_install(void);

/* ---- ddl/hook.c ---------------------------------------------------------- */

extern void ab_ddl_install(void);
extern bool ab_rewrite_computes(Relation rel, int attnum);
extern void ab_set_access_method(Oid relid, Oid am);

/* ---- check.c ------------------------------------------------------------- */

extern void ab_free_unowned(Oid relid, int64 *chunks, int64 *bytes);

/* ---- stats.c ------------------------------------------------------------- */

extern List *ab_open_tables(FunctionCallInfo fcinfo);

/* ---- guc.c --------------------------------------------------------------- */

extern int	ab_inline_max;
extern int	ab_tail_max;
extern int	ab_chunk_size;
extern int	ab_compression;

extern void ab_define_settings(void);

#endif							/* APPENDABLE_STORE_H */

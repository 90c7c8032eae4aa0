/*-------------------------------------------------------------------------
 *
 * store.h
 *	  Chunk stores: their rows, writing and reading them.
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

#include "compat_table.h"
#include "value/value.h"

/* Columns of a chunk store; the first two are those of its only index. */
#define AB_CHUNK_VID		1
#define AB_CHUNK_OFF		2
#define AB_CHUNK_PREV		3	/* crc of the chunk written before this one */
#define AB_CHUNK_CRC		4	/* over prev, vid, off and data */
#define AB_CHUNK_DATA		5
#define AB_CHUNK_NATTS		5

/*
 * Data bytes of a chunk that fills a page, the largest chunk.  Part of the format: a reader
 * looks back this far (AB_COMPRESSED_MAX in values with compressed chunks) for the chunk that
 * covers a byte (chunk_cursor.c), so it must not become smaller than chunks that were written.
 */
#define AB_CHUNK_MAX \
	((int) (MaxHeapTupleSize - MAXALIGN(SizeofHeapTupleHeader) - (8 + 8 + 4 + 4 + VARHDRSZ)))

/*
 * Bytes of a value in one compressed chunk, which is no larger than others as it is
 * stored.  A slice decompresses all of it.
 */
#define AB_COMPRESSED_MAX	(8 * AB_CHUNK_MAX)

/* ---- store.c: stores as relations ----------------------------------------- */

/* An open store: its table and all indexes of that, which are the same. */
typedef struct AbStore
{
	Relation	heap;
	Relation	index;			/* the one to look things up in */
	Relation   *indexes;
	int			nindexes;
} AbStore;

extern List *ab_catalog_rows(Oid catalog, Oid index, int nkeys, ScanKey keys, Snapshot snapshot);
extern HeapTuple ab_catalog_row(Oid catalog, Oid index, Oid objid, Snapshot snapshot);
extern Oid	ab_store_find(Oid relid);
extern List *ab_store_tables(void);
extern bool ab_store_open(Oid relid, LOCKMODE mode, AbStore *store);
extern void ab_store_close(AbStore *store, LOCKMODE mode);
extern void ab_store_create(Oid relid);
extern void ab_store_mark(Oid heap, Oid relid);
extern void ab_store_end(Oid relid);
extern void ab_store_drop_retained(void);
extern void ab_store_truncate(Oid relid);
extern bool ab_slots_exist(void);

/* ---- store_match.c: stores like their tables ------------------------------ */

extern Oid	ab_schema_owner(void);
extern Datum ab_store_options(Oid relid);
extern void ab_set_class_column(Oid relid, LOCKMODE mode, AttrNumber column, Datum value, bool isnull);
extern void ab_store_match(Oid relid);
extern void ab_store_vacuum(Oid relid, VacuumParams_compat params, BufferAccessStrategy strategy);

/* ---- chunk.c: rows of a store -------------------------------------------- */

typedef struct AbChunk
{
	int64		vid;
	int64		off;
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
 * A row of a store as it is stored in its tuple, after the header.  describe_column()
 * makes the data's storage plain, so that its length word has four bytes always.
 */
typedef struct AbChunkRow
{
	int64		vid;
	int64		off;
	uint32		prev;
	uint32		crc;
	char		length_word[VARHDRSZ];	/* of a varlena, plain or compressed */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} AbChunkRow;

#define AB_CHUNK_ROW_HEADER		MAXALIGN(SizeofHeapTupleHeader)


extern bool ab_chunk_parse(HeapTuple tuple, AbChunk *chunk);
extern uint32 ab_chunk_crc(const AbChunk *chunk);
extern int64 ab_new_vid(void);
extern SysScanDesc ab_chunk_scan(const AbStore *store, Snapshot snapshot,
								 int64 vid, int64 from, int64 before);
extern bool ab_chunk_next(SysScanDesc scan, ScanDirection direction, AbChunk *chunk);
extern void ab_chunks_count(const AbStore *store, int64 vid, Snapshot snapshot,
							int64 *chunks, int64 *bytes);
extern bool ab_chunk_is_settled(SysScanDesc scan);
extern void ab_chunk_insert(Relation heap, HeapTuple tuple, CommandId cid,
							struct BulkInsertStateData *bulk);
extern void ab_chunk_delete(Relation heap, HeapTuple tuple);
extern void ab_chunks_delete(Oid relid, int64 vid);
extern void ab_chunks_delete_all(Relation heap);

/* ---- pages.c: pages that could be cut off -------------------------------- */

extern BlockNumber ab_pages_needed(Relation rel, double rows);
extern void ab_pages_close(Relation rel, BlockNumber limit);
extern bool ab_chunks_beyond(const AbStore *store, int64 vid, BlockNumber limit);

/* ---- writer.c: writing chunks -------------------------------------------- */

typedef struct AbWriter AbWriter;

extern PGDLLEXPORT AbWriter *ab_writer_open(Oid relid, const AbRef *from, int64 expected);
extern PGDLLEXPORT void ab_writer_put(AbWriter *writer, const char *data, int64 length);
extern void ab_writer_put_compressed(AbWriter *writer, const struct varlena *compressed);
extern PGDLLEXPORT void ab_writer_close(AbWriter *writer, AbRef *ref);

/* ---- chunk_cursor.c: which chunk covers a byte of a reference ------------- */

typedef enum AbReadMode
{
	AB_READ_PART,				/* each chunk is used at once */
	AB_READ_ALL,				/* no chunk is used before the last one was
								 * requested; if one is not found, the caller
								 * starts again with AB_READ_PART */
	AB_READ_COMPARE,			/* the same, but a missing or damaged chunk is
								 * an answer */
	AB_READ_TRY					/* as AB_READ_PART, but a missing or damaged
								 * chunk is an answer */
} AbReadMode;

/* Where an unsettled chunk is in its value, and its crc. */
typedef struct AbChunkPlace
{
	int64		off;
	uint32		crc;
} AbChunkPlace;

/* Zero it, except context, mode and snapshot, before use. */
typedef struct AbChunkCursor
{
	MemoryContext context;		/* of the scan */
	AbReadMode	mode;
	Snapshot	snapshot;		/* SnapshotAny, see chunk_counts(); that of a
								 * check */
	AbRef		ref;			/* once the store is open */
	AbStore		store;
	SysScanDesc scan;			/* its next chunk covers or follows scan_at */
	int64		scan_at;		/* chunk offset before which the scan is
								 * positioned */
	int64		scan_end;		/* chunks from this offset on are not in it */
	AbChunk		chunk;			/* found last, as far as it is decompressed;
								 * no length: none */
	int			chunk_length;	/* of all of it */
	int64		needed;			/* bytes that will be used; 0: all that follow */
	struct varlena *decompressed;	/* its bytes, if it was compressed */
	const char *problem;		/* why there is no chunk, for a check */

	/*
	 * if the reference's end is not settled, what trace_unsettled_writes()
	 * found
	 */
	bool		traced;
	AbChunkPlace *writes;		/* the unsettled chunks, from the end on */
	int			nwrites;
	int64		settled_end;	/* where the settled ones before them end */
} AbChunkCursor;

extern const AbChunk *ab_chunk_cursor_find(AbChunkCursor *cursor, const AbRef *ref,
										   int64 at, int64 until);
extern void ab_chunk_cursor_missing(AbChunkCursor *cursor, int64 at);
extern void ab_chunk_cursor_rewind(AbChunkCursor *cursor);
extern void ab_chunk_cursor_close(AbChunkCursor *cursor);
extern void ab_chunk_cursor_install(void);

/* ---- reader.c: reading a value --------------------------------------------------- */

typedef struct AbReader AbReader;

/*
 * Open a value for reading, in the current memory context.  Holds the chunk
 * store open (relation references are released on error by the resource
 * owner); memory is bounded by the inline part plus one chunk.
 */
extern AbReader *ab_reader_open(Datum datum);
extern int64 ab_reader_length(AbReader *reader);

/*
 * Copy exactly "length" bytes at "offset" (both within the value) to buf.
 * Consecutive calls continue one index scan.  Missing or damaged chunks raise
 * ERRCODE_DATA_CORRUPTED: never partial data.
 */
extern void ab_reader_read(AbReader *reader, int64 offset, char *buf, int64 length);

/*
 * The next piece at the reader's position without copying: its length (0 at the
 * end) and *piece, valid until the next call.  For hashing, comparing, encoding
 * in bounded memory.  Start elsewhere with ab_reader_seek.
 */
extern int64 ab_reader_next(AbReader *reader, const char **piece);
extern void ab_reader_seek(AbReader *reader, int64 offset);

/* The same backwards: the piece that ends at the reader's position, 0 at the start. */
extern int64 ab_reader_previous(AbReader *reader, const char **piece);

extern void ab_reader_close(AbReader *reader);

/* Bytes [offset, offset + length) of a value as a bytea; checks the 1 GB limit. */
extern bytea *ab_read_bytea(Datum datum, int64 offset, int64 length);

/* All of a value as a bytea. */
extern bytea *ab_read_whole(Datum datum);

extern AbReader *ab_reader_open_value(AbValue *value);
extern AbReader *ab_reader_open_bytes(const char *data, int64 length);
extern int	ab_reader_compare(AbReader *a, AbReader *b, int64 n);
extern const AbChunk *ab_reader_chunk(AbReader *reader, int64 at);
extern int64 ab_reader_common(AbReader *reader, int64 from, const char *data, int64 length, bool whole);
extern bool ab_reader_load(AbReader *reader, int64 from);
extern bool ab_reader_try_read(AbReader *reader, int64 offset, char *buf, int64 length);
extern bool ab_reader_has_ancestor(AbReader *reader, const AbRef *ref);

/* ---- compress.c ----------------------------------------------------------- */

extern void ab_write_compressed(Oid relid, AbReader *reader, bool quick, AbRef *ref);
extern bool ab_compressible(const char *data, int length);
extern struct varlena *ab_decompress(const AbChunk *chunk, int length, bool lenient);

/* ---- tables.c: the users' tables ------------------------------------------ */

/* The privilege that a function of the extension requires on a table. */
typedef enum AbPrivilege
{
	AB_OWNER,
	AB_MAINTAIN,				/* see MayMaintain_compat() */
	AB_UPDATE,					/* of any column */
	AB_READ						/* SELECT on all rows and columns */
} AbPrivilege;

/* What ab_open_checked() returns NULL for, instead of an error. */
#define AB_SKIP_MISSING	0x1
#define AB_SKIP_DENIED	0x2

extern Relation ab_open_checked(Oid relid, LOCKMODE mode, AbPrivilege privilege, int skip);
extern Relation ab_open_table_checked(Oid relid, LOCKMODE mode, AbPrivilege privilege);
extern List *ab_tables_of(Oid relid, AbPrivilege privilege);
extern char *ab_qualified_name(Relation rel);

extern AttrNumber ab_next_column(TupleDesc desc, AttrNumber attnum);
extern const char *ab_value_type_name(Oid relid);

#endif							/* APPENDABLE_STORE_H */

/*-------------------------------------------------------------------------
 *
 * value.h
 *	  The datum of type appendable_bytea, and the OIDs of its objects.
 *
 * A value is a list of *segments*: ranges of the chunks of at most one stored
 * value (its base), and literal bytes.  Eight encodings follow the varlena
 * header; the first byte names the encoding:
 *
 *	AB_FLAT			bytes
 *	AB_FLAT_PADDED	bytes 0x80 zeros
 *	AB_REF			reference tail
 *	AB_REF_PADDED	reference tail 0x80 zeros
 *	AB_EDIT			reference length segments
 *	AB_PIECES		reference list tail
 *	AB_PIECES_PADDED	reference list tail 0x80 zeros
 *	AB_EDIT_PIECES	as AB_EDIT, of a value that has a list
 *
 * A reference is {relid, vid, stored, crc, edition}: the first "stored" bytes of
 * value "vid" as chunks of table "relid".  With AB_COUNTED in the first
 * byte it also has the number of bytes, of the value's bytes in chunks, that continue
 * a character in UTF8: before "stored", so that heap_update logs only what changed of
 * both.  A tail is what follows those bytes.  Padding lets heap_update log only the bytes that changed; only
 * the access method makes padded forms, and every reader takes them off.
 *
 * Functions of the type are PURE: they never write chunks.  They return flat
 * values, references with a longer tail (ab_append) or edits (ab_splice), and
 * the table access method turns what it is given into what may be stored: flat,
 * or a reference to the table's own chunks, padded or not.  An edit is never on
 * disk.  All of them can be read, at once and again, through AbReader.
 *
 * Chunks are immutable rows (vid, off, prev, crc, data), of plain or compressed
 * data.  Byte p of a reference is in the row that covers p.  Appends write rows after "stored".
 *
 * Any other change writes the new bytes after "stored" as well, and makes a list of pieces
 * (pieces.c), by which the value is read.  The edition counts the lists, because a change without new
 * bytes leaves all else in the reference as it is.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_VALUE_H
#define APPENDABLE_VALUE_H

#include "access/tableam.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#define AB_EXTENSION	"appendable_bytea"
#define AB_AM			"appendable_heap"
#define AB_SCHEMA		"appendable_store"

/* ---- settings: appendable_bytea.c ---------------------------------------- */

extern bool ab_store_differences;
extern bool ab_compress_new;
extern int	ab_difference_memory_kb;
extern int	ab_max_pieces;
extern int	ab_inline_max;
extern int	ab_tail_max;
extern int	ab_chunk_size;
extern int	ab_compression;
extern int	ab_client_type;
extern PGDLLIMPORT int ab_max_size_mb;	/* cap of a value's length */

/* ---- the datum: datum.c -------------------------------------------------- */

#define AB_FLAT			1
#define AB_FLAT_PADDED	2
#define AB_REF			3
#define AB_REF_PADDED	4
#define AB_EDIT			5
#define AB_PIECES		6
#define AB_PIECES_PADDED	7
#define AB_EDIT_PIECES	8

/* in addition to an encoding that has a reference */
#define AB_COUNTED		0x10

/* format, relid, vid, stored, crc, edition */
#define AB_REF_SIZE		(1 + 4 + 8 + 8 + 4 + 4)

/* seven bits a byte of a number that is at most AB_MAX_LENGTH */
#define AB_COUNT_MAX	8

/* a slice of this many bytes holds the header of any encoding */
#define AB_HEADER_SIZE	(AB_REF_SIZE + AB_COUNT_MAX + 8 + 2)

/* pieces of a list */
#define AB_MAX_PIECES	256

/* the largest value that fits a single datum (varlena limit, format byte) */
#define AB_MAX_FLAT		((int64) MaxAllocSize - VARHDRSZ - 1)

/* no value is ever longer than this, whatever the cap */
#define AB_MAX_LENGTH	(INT64CONST(1) << 50)

/* CRC32C chain of a value without chunks */
#define AB_CRC_INIT		0xFFFFFFFF

typedef struct AbRef
{
	Oid			relid;			/* table that the chunks belong to */
	uint32		edition;		/* counts lists of pieces; 0: has none */
	int64		vid;			/* value id, never 0 in a reference */
	int64		stored;			/* bytes in chunks, > 0 in a reference */
	uint32		crc;			/* chained CRC32C after the last chunk written */
	bool		pieces;			/* has a list */
	bool		counted;		/* the next field is known */
	int64		continuations;	/* bytes of the value in chunks that continue
								 * a character */
} AbRef;

typedef struct AbSegment
{
	int64		source;			/* offset in the base's chunks, -1: literal */
	int64		length;			/* > 0 */
	const char *data;			/* literal bytes, NULL for chunks */
} AbSegment;

typedef struct AbValue
{
	AbRef		base;			/* vid is 0 if no segment is of chunks */
	int64		length;			/* sum of the segments' lengths */
	int			nsegments;
	AbSegment  *segments;		/* in order of the value's bytes */
	AbSegment	space[2];		/* what segments points to if it fits */
	bool		edited;			/* encoding AB_EDIT or AB_EDIT_PIECES */
	void	   *copy;			/* the fetched datum, if it had to be fetched */
} AbValue;

/*
 * Decode a datum of the type, from any varlena form (toasted, compressed, short
 * header).  Literal segments point into the datum or into memory allocated in
 * the current context.  Anything malformed raises ERRCODE_DATA_CORRUPTED.
 * "value" must not be copied by assignment (segments may point into it).
 */
extern void ab_parse(Datum datum, AbValue *value);

/* Free what ab_parse() allocated: segments and literal bytes end with it. */
extern void ab_value_free(AbValue *value);

/*
 * Decode only the reference: true and *ref if the datum has chunks, false if it
 * is flat.  Fetches no more than a header's slice of a toasted datum.
 */
extern bool ab_parse_reference(Datum datum, AbRef *ref);

/* Bytes of the value.  Fetches a header, or a short tail when it is padded. */
extern int64 ab_length(Datum datum);

/*
 * Do two references name the same chunks, and lists of the same change?  Transactions
 * that failed may have made another list with the same edition.
 */
extern bool ab_same_reference(const AbRef *a, const AbRef *b);

/* A flat value of these bytes. */
extern Datum ab_make_flat(const char *data, int64 length);

/* A flat value of "length" bytes that the caller fills in at *data. */
extern Datum ab_alloc_flat(int64 length, char **data);

/*
 * value || data, in the cost of data and of the value's tail: existing chunks are
 * neither read nor written.
 */
extern Datum ab_append(Datum value, const char *data, int64 length);

/*
 * Replace "removed" bytes at "offset" by "length" bytes of data (any of the two
 * lengths may be 0).  offset and offset + removed must lie in the value: the
 * caller checks the user's arguments and words the error.  Covers overwrite
 * (removed == length), insertion, deletion, and truncation (offset + removed ==
 * length of the value, data NULL).  Chunks are neither read nor written.
 */
extern Datum ab_splice(Datum value, int64 offset, int64 removed,
					   const char *data, int64 length);

/*
 * The same.  continuations: how many of the bytes removed from chunks continue a character; -1 if
 * that is not known, unless there are none.
 */
extern Datum ab_splice_counted(Datum value, int64 offset, int64 removed,
							   const char *data, int64 length, int64 continuations);

/* Characters of a value in UTF8, or -1 if only its chunks can tell. */
extern int64 ab_characters(const AbValue *value);

/* How many of n bytes continue a character in UTF8. */
extern int64 ab_count_continuations(const char *data, int64 n);

/* Raise ERRCODE_PROGRAM_LIMIT_EXCEEDED if a value may not be that long. */
extern void ab_check_length(int64 length);

/* The reference of a datum that may be damaged: false if it has none that can be read. */
extern bool ab_parse_reference_lenient(Datum datum, bool edits, AbRef *ref);

/* A reference with its list of pieces, if it has one, and a tail of n bytes, padded to room. */
extern Datum ab_make_stored(const AbRef *ref, const AbSegment *pieces, int npieces,
							const char *tail, int64 n, int64 room);

/* Raise ERRCODE_DATA_CORRUPTED. */
extern void ab_report_corrupted(const char *detail);

/* Functions that only the files of this folder call. */
extern int	ab_read_reference(const char *p, int64 n, AbRef *ref);
extern int	ab_reference_size(const AbRef *ref);
extern char *ab_write_reference(char *p, char format, const AbRef *ref);
extern void ab_add_segment(AbValue *value, int64 source, int64 length, const char *data);
extern char *ab_alloc_datum(int64 n, struct varlena **result);
extern char *ab_alloc_stored(const AbRef *ref, const AbSegment *pieces, int npieces, bool padded,
							 int64 n, struct varlena **result);

/* ---- edit.c -------------------------------------------------------------- */

extern int	ab_chunk_segments(const AbValue *value);
extern int64 ab_chunk_bytes(const AbValue *value);
extern int64 ab_shared_bytes(const AbValue *a, const AbValue *b);
extern int	ab_cut_out_segments(const AbValue *value, int64 from, int64 until, AbSegment *segments);
extern void ab_parse_edit(const char *p, int64 n, AbValue *value);
extern int	ab_join_segments(AbSegment *segments, int count);
extern int64 ab_literal_bytes(const AbSegment *segments, int count);

/* ---- pieces.c: lists of pieces ------------------------------------------- */

extern int64 ab_parse_list(const char *p, int64 n, AbValue *value);
extern int64 ab_list_header(const char *p, int64 head, int64 n, int64 whole, int64 *length);
extern char *ab_alloc_list(const AbRef *ref, const AbSegment *pieces, int npieces, bool padded,
						   int64 n, struct varlena **result);
extern int	ab_compare_sources(const void *a, const void *b);
extern bool ab_segments_overlap(const AbSegment *segments, int n);

/* ---- difference.c: what two strings of bytes have in common ---------------- */

/* Bytes that two strings have in common. */
typedef struct AbCopy
{
	int64		old;			/* where they are in the one */
	int64		new;			/* and in the other */
	int64		length;
} AbCopy;

typedef struct AbBlockIndex AbBlockIndex;

extern int64 ab_common_prefix(const char *a, const char *b, int64 n);
extern int64 ab_common_suffix(const char *a_end, const char *b_end, int64 n);
extern AbBlockIndex *ab_index_blocks(const char *data, int64 n, int block, int step);
extern int64 ab_index_shared(const AbBlockIndex *index, const char *data, int64 m, const char *sample, int64 n, int64 enough);
extern int	ab_index_block_size(int64 n);
extern int	ab_find_copies(const char *old, int64 n, const char *new, int64 m,
						   AbCopy *copies, int max);

/* ---- oids.c: the OIDs of the extension's objects in this database --------- */

/* A type of the extension and the built-in type that it is like. */
typedef struct AbType
{
	const char *name;
	Oid			plain;
	const char *plain_name;
	const char *index_on;		/* what indexes can be on instead of a column */
	Oid			plain_array;	/* arrays of the built-in type */

	/* in this database; InvalidOid: not there */
	Oid			oid;
	Oid			array;
	Oid			to_plain;		/* functions of its casts */
	Oid			from_plain;
	uint32		to_plain_hash;	/* by which a plan depends on them */
	uint32		from_plain_hash;
} AbType;

#define AB_NTYPES 4

extern const AbType *ab_types(void);
extern const AbType *ab_type_of(Oid type);
extern bool ab_counts_characters(Oid type);
extern Oid	ab_am_oid(void);
extern Oid	ab_schema_oid(void);
extern Oid	ab_extension_schema(void);
extern Oid	ab_rel_am(Oid relid);
extern bool ab_is_appendable(Relation rel);
extern const AbType *ab_type_within(Oid type);
extern const AbType *ab_type_in(Oid type);
extern void ab_names_install(void);

#endif							/* APPENDABLE_VALUE_H */

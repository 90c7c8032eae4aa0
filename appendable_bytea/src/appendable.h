/*-------------------------------------------------------------------------
 *
 * appendable.h
 *	  The datum of type appendable_bytea and what its files call of each other.
 *
 * A value is a list of *segments*: ranges of the chunks of at most one stored
 * value (its base), and literal bytes.  Five encodings follow the varlena
 * header; the first byte names the encoding:
 *
 *	AB_FLAT			bytes
 *	AB_FLAT_PADDED	bytes 0x80 zeros
 *	AB_REF			reference tail
 *	AB_REF_PADDED	reference tail 0x80 zeros
 *	AB_EDIT			reference length segments
 *
 * A reference is {relid, vid, stored, crc, edition}: the first "stored" bytes of
 * value "vid" as chunks of table "relid" at "edition".  A tail is what follows
 * those bytes.  Padding lets heap_update log only the bytes that changed; only
 * the access method makes padded forms, and every reader takes them off.
 *
 * Functions of the type are PURE: they never write chunks.  They return flat
 * values, references with a longer tail (ab_append) or edits (ab_splice), and
 * the table access method turns what it is given into what may be stored: flat,
 * or a reference to the table's own chunks, padded or not.  An edit is never on
 * disk.  All of them can be read, at once and again, through AbReader.
 *
 * Chunks are immutable rows (vid, off, edition, prev, crc, data), of plain or compressed
 * data.  Byte p of a
 * reference is in the row that covers p and has the highest edition not above
 * the reference's.  Appends write rows after "stored" in the same edition; an
 * overwrite or a truncation below "stored" takes the next edition and writes
 * rows for the chunks concerned alone.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_H
#define APPENDABLE_H

#include "access/tableam.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "storage/itemptr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* ---- the datum: datum.c -------------------------------------------------- */

#define AB_FLAT			1
#define AB_FLAT_PADDED	2
#define AB_REF			3
#define AB_REF_PADDED	4
#define AB_EDIT			5

/* format, relid, vid, stored, crc, edition */
#define AB_REF_SIZE		(1 + 4 + 8 + 8 + 4 + 4)

/* a slice of this many bytes holds the header of any encoding */
#define AB_HEADER_SIZE	(AB_REF_SIZE + 8)

/* the largest value that fits a single datum (varlena limit, format byte) */
#define AB_MAX_FLAT		((int64) MaxAllocSize - VARHDRSZ - 1)

/* no value is ever longer than this, whatever the cap */
#define AB_MAX_LENGTH	(INT64CONST(1) << 50)

/* CRC32C chain of a value without chunks */
#define AB_CRC_INIT		0xFFFFFFFF

typedef struct AbRef
{
	Oid			relid;			/* table that the chunks belong to */
	uint32		edition;		/* counts overwrites and truncations */
	int64		vid;			/* value id, never 0 in a reference */
	int64		stored;			/* bytes in chunks, > 0 in a reference */
	uint32		crc;			/* chained CRC32C after the last chunk written */
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
	bool		edited;			/* encoding AB_EDIT */
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

/* Do two references name the same bytes? */
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

/* Raise ERRCODE_PROGRAM_LIMIT_EXCEEDED if a value may not be that long. */
extern void ab_check_length(int64 length);

/* ---- reading: reader.c --------------------------------------------------- */

typedef struct AbReader AbReader;

/*
 * Open a value for reading, in the current memory context.  Holds the chunk
 * store open (relation references are given back on error by the resource
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

/*
 * Tell a new reader that all pieces will be read before anything is made of them, which
 * saves it to look at the value's end first.
 */
extern void ab_reader_whole(AbReader *reader);
extern void ab_reader_close(AbReader *reader);

/* Bytes [offset, offset + length) of a value as a bytea; checks the 1 GB limit. */
extern bytea *ab_read_bytea(Datum datum, int64 offset, int64 length);

/* ---- the type's functions: type_*.c --------------------------------------- */

/* Raise ERRCODE_ARRAY_SUBSCRIPT_ERROR unless 0 <= n < limit. */
extern void ab_check_index(int64 n, int64 limit);

/* Where the bytes of a pattern are first, counted from 1; 0 if nowhere. */
extern int64 ab_position(Datum value, bytea *pattern);

/*
 * True if both datums certainly hold the same bytes because they name the same
 * chunks and equal tails; false says nothing.
 */
extern bool ab_identical(Datum a, Datum b);

/* The byte at an offset that lies in the value. */
extern int	ab_read_byte(Datum value, int64 offset);

/* ---- settings: guc.c ----------------------------------------------------- */

extern PGDLLIMPORT int ab_max_size_mb;	/* cap of a value's length */

#endif							/* APPENDABLE_H */

/*-------------------------------------------------------------------------
 *
 * pieces.h
 *	  The order in which the bytes of a value's log make up the value.
 *
 * The chunks of a value followed by its inline tail are a log: bytes are only
 * ever added at its end, so byte i of the log has the address i for ever, be it
 * still in the tail or in a chunk by now.  An ordinary value IS its log.  After
 * a write in the middle or a truncation the value is a list of pieces of the
 * log instead: new bytes are added to the log's end like any append, and the
 * list says where in the value they belong.  Storing a value never looks into
 * the list; it moves bytes from the tail to chunks, which keeps their addresses.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_PIECES_H
#define APPENDABLE_PIECES_H

/* a run of bytes of the log; length is never 0 in a list */
typedef struct AppendablePiece
{
	int64		start;			/* address of its first byte in the log */
	int64		length;
} AppendablePiece;

/*
 * A value with more pieces than this, or one that uses less than half of its
 * log, is copied to a fresh log without a list when it is stored.
 */
#define APPENDABLE_MAX_PIECES	32

/* Sum of the lengths: the length of the value. */
extern int64 appendable_pieces_length(const AppendablePiece *pieces, int npieces);

/*
 * True if every piece is a non-empty run within a log of log_length bytes and
 * the sum does not overflow: the test a datum from outside has to pass.
 */
extern bool appendable_pieces_valid(const AppendablePiece *pieces, int npieces,
									int64 log_length);

/*
 * Replace the bytes [offset, offset + length) of the value by the run (start,
 * added) of the log; added may be 0.  The range must lie within the value.
 * "out" has room for npieces + 2; neighbours that touch are merged.  Returns
 * the number of pieces in "out".
 */
extern int	appendable_pieces_replace(const AppendablePiece *pieces, int npieces,
									  int64 offset, int64 length,
									  int64 start, int64 added,
									  AppendablePiece *out);

#endif							/* APPENDABLE_PIECES_H */

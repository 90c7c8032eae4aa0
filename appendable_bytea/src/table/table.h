/*-------------------------------------------------------------------------
 *
 * table.h
 *	  Rows of a table: what may be stored for a value, and checks.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_TABLE_H
#define APPENDABLE_TABLE_H

#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"

#include "type/type.h"

/* ---- storing.c: what is stored for a value -------------------------------- */

typedef enum AbStoreAction
{
	AB_KEEP,					/* store the datum as it is */
	AB_INLINE,					/* store another datum without writing chunks */
	AB_APPEND,					/* write the tail as chunks of the same value */
	AB_STORE_PIECES,			/* write new bytes as chunks of the same
								 * value, which has a list of pieces then */
	AB_NEW_VALUE				/* write everything as a new value */
} AbStoreAction;

typedef struct AbTarget
{
	Oid			relid;			/* table whose store is written */
	bool		temporary;		/* has flat values only */
	bool		rewriting;		/* transient table of a table rewrite */
	bool		logged;			/* rows are logged whole for logical decoding */
	bool		counted;		/* characters of the column's new values are
								 * counted */
} AbTarget;

/* One value on its way into a row. */
typedef struct AbStoring
{
	AbStoreAction action;
	AttrNumber	attnum;			/* set by the access method */
	Datum		datum;
	AbValue		value;
	AbValue		old;
	bool		has_old;
	bool		counted;		/* as the target's */
	bool		grows;			/* continues the old value, if that has
								 * chunks; an inline part is padded */

	bool		compared;		/* ab_pieces_find() made an edit of it */
	int64		kept_end;		/* bytes at its end that stay in the row, if
								 * any do */

	/* once an edit or an append is stored with a list: that, and the end */
	AbSegment  *pieces;
	int			npieces;
	int64		stored;
} AbStoring;

/* A common end of at most this many bytes stays in the row. */
#define AB_KEPT_END_MAX		300

extern void ab_storing_decide(AbStoring *storing, const AbTarget *target, Datum datum,
							  bool has_old, Datum old);
extern Datum ab_storing_write(AbStoring *storing, const AbTarget *target);
extern void ab_storing_finish(AbStoring *storing, const AbTarget *target);
extern int	ab_tail_max_of(const AbTarget *target);
extern int	ab_direct_min_of(const AbTarget *target);
extern int64 ab_room_for(const AbTarget *target, int64 n);
extern int64 ab_inline_rest(const AbTarget *target, int64 n);

/* ---- store_pieces.c: changes stored as pieces ----------------------------- */

extern bool ab_pieces_within(const AbValue *value, const AbValue *old);
extern bool ab_pieces_continue(const AbValue *value, const AbValue *old, bool same);
extern Datum ab_pieces_write(AbStoring *storing, const AbTarget *target);
extern void ab_pieces_finish(AbStoring *storing, const AbTarget *target);
extern int	ab_needed_places(const AbSegment *segments, int count, int64 stored, AbSegment *places);
extern bool ab_meets_place(const AbSegment *places, int n, int64 from, int64 until);

/* ---- find_pieces.c: which pieces a value is stored as ---------------------- */

extern void ab_pieces_find(AbStoring *storing, const AbTarget *target, AbReader *reader, int64 common);
extern bool ab_pieces_accept(AbStoring *storing, const AbTarget *target);

/* ---- check.c ------------------------------------------------------------- */

extern const char *ab_parse_stored(Datum datum, AbValue *value);
extern void ab_free_unowned(Oid relid, int64 max, int64 *chunks, int64 *bytes);

/* ---- am.c: the access method, and the command that rewrites a table ------- */

extern void ab_am_install(void);

/*
 * State of a running utility command.  The lists are in TopTransactionContext,
 * and empty in a new transaction.
 */
typedef struct AbCommand
{
	struct AbCommand *outer;	/* the command that this one runs in */
	Node	   *statement;		/* NULL: not known */
	List	   *changed;		/* OIDs of tables that it created, altered or
								 * dropped */
	List	   *computed;		/* columns whose values a rewrite of their
								 * table computes (lists of its OID and the
								 * column's number) */
	NameData	dropped_table;	/* the first table with columns of the type
								 * that it drops; empty: none */
} AbCommand;

/* The innermost command.  Commands whose start the library did not see share one, without a statement. */
extern AbCommand *ab_command;
extern AbCommand ab_command_outside;

#endif							/* APPENDABLE_TABLE_H */

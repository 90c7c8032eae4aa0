/*-------------------------------------------------------------------------
 *
 * type.h
 *	  What the functions of the type call of each other, and its casts.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_TYPE_H
#define APPENDABLE_TYPE_H

#include "nodes/primnodes.h"

#include "store/store.h"

/* Raise ERRCODE_ARRAY_SUBSCRIPT_ERROR unless 0 <= n < limit. */
extern void ab_check_index(int64 n, int64 limit);

/*
 * Raise ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE unless n is an int4; own_form is the function with
 * an int8 result, NULL if there is none.
 */
extern int32 ab_narrow(int64 n, const char *own_form);

/* Where the bytes of a pattern are first, counted from 1; 0 if nowhere. */
extern int64 ab_position(Datum value, bytea *pattern);

/*
 * True if both datums certainly hold the same bytes because they name the same
 * chunks and equal tails; false says nothing.
 */
extern bool ab_identical(Datum a, Datum b);

/* type_extends.c: does "new" begin with the bytes of "old"?  Reads no chunk that both share. */
extern bool ab_extends(Datum new, Datum old);

/* How many bytes an update of a row dropped at the front, if it changed nothing else except for an append; else -1. */
extern int64 ab_dropped_front(Datum new, Datum old);

/* The byte at an offset inside the value. */
extern int	ab_read_byte(Datum value, int64 offset);

/* type_io.c */
extern Datum ab_input_by(FunctionCallInfo fcinfo, PGFunction input);

/* type_jsonb.c */
extern Datum ab_as_jsonb(Datum value);
extern Datum ab_from_jsonb(Datum datum);
extern Datum ab_call_as_jsonb(FunctionCallInfo fcinfo, PGFunction function);

/* type_jsonb_walk.c */

/* The form in which a part of a value is returned: a jsonb, a text, or a value that refers to the same chunks. */
typedef enum AbJsonbForm
{
	AB_AS_JSONB,
	AB_AS_TEXT,
	AB_AS_VALUE
} AbJsonbForm;

extern void ab_check_jsonb(const char *p, int64 n);
extern Datum ab_jsonb_at(Datum value, Datum *path, int npath, AbJsonbForm form, bool *isnull);

/* type_python.c */
extern void ab_refuse_plpython(FmgrInfo *flinfo);

/* A type of the extension with its casts in this database. */
typedef struct AbCast
{
	Oid			type;
	Oid			array;			/* of the type */
	Oid			plain;			/* the server's type that it is like */
	Oid			plain_array;
	Oid			to_plain;
	Oid			from_plain;
} AbCast;

typedef struct AbCasts
{
	int			ntypes;
	AbCast		types[AB_NTYPES];
	Oid			schema;			/* of the types' functions */
} AbCasts;

/* The parameters of a search through expressions. */
typedef struct AbSearch
{
	AbCasts		casts;
	bool		parameters;		/* change only calls on parameters */
} AbSearch;

/* A function of bytea or text and the name of the type's form of it. */
typedef struct AbOwnForm
{
	Oid			function;
	const char *name;
} AbOwnForm;

/* ---- type_value.c -------------------------------------------------------- */

extern bool ab_is_cast(const AbCasts *casts, Oid function, bool to_plain);
extern Oid	ab_own_form(const AbCasts *casts, const AbOwnForm *forms, int nforms, Oid function, int at, Oid type);
extern Expr *ab_as_value(const AbSearch *search, Node *node);

/* ---- type_plan.c --------------------------------------------------------- */

extern bool ab_find_casts(AbCasts *casts);
extern const AbCast *ab_cast_of(const AbCasts *casts, Oid type);
extern void ab_own_forms_install(void);

#endif							/* APPENDABLE_TYPE_H */

/*-------------------------------------------------------------------------
 *
 * type.h
 *	  What the functions of the type call of each other.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_TYPE_H
#define APPENDABLE_TYPE_H

#include "commands/trigger.h"
#include "nodes/primnodes.h"

#include "store/store.h"

/* An SQL function that is one of several that differ in a function that they call, or in their result. */
#define AB_FUNCTION(name, statement) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		statement; \
	} \
	extern Datum name(PG_FUNCTION_ARGS)

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

/* Are texts equal under a collation if and only if their bytes are? */
extern bool ab_is_deterministic(Oid collation);

/* How many bytes an update of a row dropped at the front, if it changed nothing else except for an append; else -1. */
extern int64 ab_dropped_front(Datum new, Datum old);

/* The byte at an offset inside the value. */
extern int	ab_read_byte(Datum value, int64 offset);

/* The row that a function returns, of these columns, none of which is null. */
extern Datum ab_make_row(FunctionCallInfo fcinfo, Datum *values);

/* The column that argument i of a trigger names. */
extern AttrNumber ab_trigger_column(const TriggerData *data, int i);

/* type_text.c: how characters are found */
typedef enum AbCharacters
{
	AB_BYTES,					/* each byte is one */
	AB_UTF8,					/* by their first bytes */
	AB_OTHER					/* from the start only */
} AbCharacters;

extern AbCharacters ab_character_kind(void);

/* In UTF8. */
static inline bool
ab_begins_character(char byte)
{
	return ((unsigned char) byte & 0xC0) != 0x80;
}

/* type_io.c */
extern Datum ab_from_plain(Datum plain);
extern Datum ab_input_by(FunctionCallInfo fcinfo, PGFunction input, Datum (*from_plain) (Datum));
extern Datum ab_call_with(FunctionCallInfo fcinfo, PGFunction function, Datum plain);
extern Datum ab_call_whole(FunctionCallInfo fcinfo, PGFunction function);

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

extern void ab_check_jsonb(const char *p, int64 n, bool root);
extern Datum ab_jsonb_at(Datum value, Datum *path, int npath, AbJsonbForm form, bool *isnull);

/* type_python.c */
extern void ab_refuse_plpython(FmgrInfo *flinfo);

/* A function of bytea or text and the name of the type's form of it. */
typedef struct AbOwnForm
{
	Oid			function;
	const char *name;
} AbOwnForm;

/* ---- type_value.c -------------------------------------------------------- */

extern bool ab_is_cast(Oid function, bool to_plain);
extern Oid	ab_own_form(const AbOwnForm *forms, int nforms, Oid function, int at, Oid type);
extern bool ab_get_call(const Node *node, Oid *function, List **args);
extern Expr *ab_as_value(Node *node, bool parameters);

/* ---- type_plan.c --------------------------------------------------------- */

extern void ab_own_forms_install(void);

#endif							/* APPENDABLE_TYPE_H */

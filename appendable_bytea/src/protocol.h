/*-------------------------------------------------------------------------
 *
 * protocol.h
 *	  What the files that show bytea to clients, and put in the type's own forms of
 *	  functions, share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_PROTOCOL_H
#define APPENDABLE_PROTOCOL_H

#include "nodes/parsenodes.h"
#include "parser/parse_node.h"
#include "utils/plancache.h"

#include "store.h"

/* A type of ours with its casts in this database. */
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

/* ---- type_plan.c --------------------------------------------------------- */

extern bool ab_find_casts(AbCasts *casts);
extern const AbCast *ab_cast_of(const AbCasts *casts, Oid type);
extern void ab_own_forms_install(void);

/* ---- protocol_query.c ---------------------------------------------------- */

extern bool ab_may_concern(const Query *query, const Oid *types, int ntypes);
extern bool ab_parameters_as_plain(const AbCasts *casts, Query *query, Oid *types, int ntypes);
extern bool ab_results_as_plain(const AbCasts *casts, Query *query, TupleDesc shown);

/* ---- protocol_prepared.c ------------------------------------------------- */

extern void ab_prepared_begin(const Query *query, const Oid *types, int ntypes);
extern void ab_prepared_done(void);
extern bool ab_prepared_parameters(const ParseState *pstate, CachedPlanSource **source,
								   Oid **types, int *ntypes);
extern CachedPlanSource *ab_prepared_source(const char *text);

/* ---- protocol.c ---------------------------------------------------------- */

typedef enum AbClientType
{
	AB_CLIENT_BYTEA,
	AB_CLIENT_OWN
} AbClientType;

extern int	ab_client_type;

extern void ab_protocol_install(void);

#endif							/* APPENDABLE_PROTOCOL_H */

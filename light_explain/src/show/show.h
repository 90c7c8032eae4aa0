/*-------------------------------------------------------------------------
 *
 * show.h
 *	  The upper floor: what users see of statements.  profile.h has what the
 *	  profile's own files share.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIGHT_SHOW_H
#define LIGHT_SHOW_H

#include "statement/statement.h"

/* label.c */
extern LIGHT_PRIVATE char *light_format_name(const LightNodeName *name, Oid database);
extern LIGHT_PRIVATE Datum light_text_datum(const char *string, int length, int encoding);

/* explain.c */
extern LIGHT_PRIVATE void light_explain_init(void);
extern LIGHT_PRIVATE void light_explain_init_off(void);
extern LIGHT_PRIVATE bool light_in_explain;
extern LIGHT_PRIVATE bool light_explaining(QueryDesc *queryDesc);
extern LIGHT_PRIVATE void light_keep_last(LightQuery *query);

/* profile.c */
extern LIGHT_PRIVATE Size light_profile_size(void);
extern LIGHT_PRIVATE int light_profile_locks(void);
extern LIGHT_PRIVATE void light_profile_startup(void);
extern LIGHT_PRIVATE bool light_profiled(LightQuery *query);
extern LIGHT_PRIVATE void light_profile_store(LightQuery *query);
extern LIGHT_PRIVATE void light_profile_failed(LightQuery *query, LightQuery *outer, Oid role, int64 started);

/* profile_show.c */

/* How full the profile is, and what it has no room for. */
typedef struct LightProfileCounts
{
	int			max_nodes;
	int			nodes;
	int			plans;
	int64		dropped_plans;	/* made room for others */
	int64		dropped_nodes;	/* of plans that are too large */
	int64		without_id;		/* statements without an identifier */
} LightProfileCounts;

extern LIGHT_PRIVATE void light_profile_counts(LightProfileCounts *counts);

#endif							/* LIGHT_SHOW_H */

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

#include "compat_executor.h"
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

extern LIGHT_PRIVATE bool light_hides_top(PlanState *top);

/* What is shown of a node that ran, beyond core's figures. */
typedef struct LightShown
{
	double		loops;
	double		blocks;			/* distinct ones, or -1 */
	LightSelf	self;
} LightShown;

/* One of these figures. */
typedef struct LightProperty
{
	const char *name;
	const char *unit;			/* of a fraction; NULL: a whole number */
	double		value;
	bool		always;			/* in text, too, where it is 0 */
} LightProperty;

#define LIGHT_MAX_PROPERTIES 12

/* properties.c */
extern LIGHT_PRIVATE int light_properties(const LightShown *node, bool timing, bool buffers, bool wal, LightProperty *to);

/* weave.c */
extern LIGHT_PRIVATE char *light_weave(const char *plan, ExplainFormat format, const LightShown *nodes, int n);

/* explain.c */
extern LIGHT_PRIVATE LightShown *light_last_shown(int *n);

/* explain_hooks.c or explain_older.c: one of them is built */
extern LIGHT_PRIVATE bool light_take_option(PlannedStmt **pstmt);
extern LIGHT_PRIVATE DestReceiver *light_weaving_receiver(ExplainStmt *stmt, DestReceiver *to);
extern LIGHT_PRIVATE void light_note_finished(QueryDesc *queryDesc);
extern LIGHT_PRIVATE void light_explain_show_init(void);

/* profile.c */
extern LIGHT_PRIVATE Size light_profile_size(void);
extern LIGHT_PRIVATE int light_profile_locks(void);
extern LIGHT_PRIVATE void light_profile_startup(void);
extern LIGHT_PRIVATE bool light_profiled(void);
extern LIGHT_PRIVATE double light_top_time(LightQuery *query);
extern LIGHT_PRIVATE void light_profile_store(LightQuery *query);
extern LIGHT_PRIVATE void light_profile_failed(LightQuery *query, LightQuery *outer, Oid role, int64 started, double before);

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

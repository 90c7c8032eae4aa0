/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Counters of this session.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef STATS_H
#define STATS_H

#include "parallel/pool.h"

/* Why a temporary table is not read in parallel. */
typedef enum Refusal
{
	REFUSED_NOT,
	REFUSED_QUERY,
	REFUSED_CURSOR,
	REFUSED_WRITES,
	REFUSED_UNSAFE,
	REFUSED_KIND,
	REFUSED_SAMPLE,
	REFUSED_EXPRESSION,
	REFUSED_DOMAIN,
	REFUSED_SUBQUERY,
	REFUSED_CORRELATED,
	REFUSED_LATERAL,
	REFUSED_FAMILY,
	REFUSED_SMALL,
	REFUSED_REPLANNED,
	REFUSED_COST,
	REFUSAL_COUNT
} Refusal;

/* A sentence for the user; "function" is the one that is the reason, if one is. */
extern const char *refusal_text(Refusal refusal, Oid function);

extern void stats_count_planned(Refusal refusal);
extern void stats_count_replanned(void);
extern void stats_count_share(SharedArea *area, double milliseconds);
extern void stats_count_alone(const char *reason);
extern void stats_count_unreachable(void);
extern void stats_count_tidied(int64 pages);

#endif							/* STATS_H */

/*-------------------------------------------------------------------------
 *
 * compat_types.h
 *	  Differences between PostgreSQL 15 and 19 in what functions of data types
 *	  use: soft errors and values of variable length.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_TYPES_H
#define COMPAT_TYPES_H

#include "fmgr.h"
#include "utils/builtins.h"

#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#include "varatt.h"
#endif

/*
 * Decode hexadecimal text to bytes; returns their number.  Malformed text raises
 * an error or, where the server knows soft errors and escontext asks for them,
 * returns -1.  ereturn_compat reports an error the same way.
 */
#if PG_VERSION_NUM >= 160000
static inline int64
hex_decode_compat(const char *src, size_t len, char *dst, Node *escontext)
{
	uint64		n = hex_decode_safe(src, len, dst, escontext);

	return SOFT_ERROR_OCCURRED(escontext) ? -1 : (int64) n;
}
#define ereturn_compat(escontext, dummy, ...) ereturn(escontext, dummy, __VA_ARGS__)
#else
static inline int64
hex_decode_compat(const char *src, size_t len, char *dst, Node *escontext)
{
	return (int64) hex_decode(src, len, dst);
}
#define ereturn_compat(escontext, dummy, ...) \
	do { \
		ereport(ERROR, __VA_ARGS__); \
		return dummy; \
	} while (0)
#endif

#endif							/* COMPAT_TYPES_H */

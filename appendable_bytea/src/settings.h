/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The settings, as all files see them.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_SETTINGS_H
#define APPENDABLE_SETTINGS_H

extern bool ab_store_differences;
extern bool ab_compress_new;
extern int	ab_difference_memory_kb;
extern int	ab_max_pieces;
extern int	ab_inline_max;
extern int	ab_tail_max;
extern int	ab_chunk_size;
extern int	ab_compression;
extern int	ab_client_type;
extern PGDLLIMPORT int ab_max_size_mb;	/* cap of a value's length */

#endif							/* APPENDABLE_SETTINGS_H */

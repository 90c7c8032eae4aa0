/*-------------------------------------------------------------------------
 *
 * datum.h
 *	  What datum.c and datum_edit.c share about encodings.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPENDABLE_DATUM_H
#define APPENDABLE_DATUM_H

#include "appendable.h"

/* AB_EDIT after the reference: length, number of segments, the segments */
#define EDIT_FIXED_SIZE		(AB_REF_SIZE + 8 + 4)
#define EDIT_SEGMENT_SIZE	16

extern char *ab_datum_payload(Datum datum, int64 *length, void **copy);
extern int64 ab_datum_unpadded(const char *data, int64 n);
extern void ab_datum_read_reference(const char *p, int64 n, AbRef *ref);
extern void ab_datum_write_reference(char *p, char format, const AbRef *ref);
extern char *ab_datum_alloc(int64 n, struct varlena **result);

#endif							/* APPENDABLE_DATUM_H */

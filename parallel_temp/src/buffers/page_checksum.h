/*-------------------------------------------------------------------------
 *
 * page_checksum.h
 *	  Page checksums, as fast as this processor can.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef PAGE_CHECKSUM_H
#define PAGE_CHECKSUM_H

#include "storage/bufpage.h"

/*
 * The value that pg_checksum_page() of the server returns.  The page must not be
 * new; its checksum field is zeroed for the time of the call, so nobody else may
 * be writing the page.
 */
extern uint16 page_checksum(Page page, BlockNumber block);

/*
 * What PageSetChecksumInplace() does, with page_checksum().  "next" is the page that
 * the caller will ask for next, to be fetched into the cache meanwhile, or NULL.
 */
extern void page_set_checksum(Page page, BlockNumber block, const void *next);

#endif							/* PAGE_CHECKSUM_H */

/*-------------------------------------------------------------------------
 *
 * page_checksum.c
 *	  Page checksums, as fast as this processor can.
 *
 * Where data checksums are on, half the time of a flush is the checksum: servers
 * up to 18 are built for the oldest processor of their architecture, and that code
 * takes over a microsecond for a page.  The algorithm was made for vector units, and core offers
 * it to programs as a header; so it is compiled here once more with AVX2, and used
 * where the processor has it.  The result is the same by construction: it is the
 * same source.  Everywhere else, core's function does the work.
 *
 * Called by the flush for every page, and by whoever verifies pages read from a
 * file.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "storage/checksum.h"

#include "page_checksum.h"
#include "pg_compat.h"

#if CHECKSUM_WORTH_COMPILING_COMPAT && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HAVE_CHECKSUM_AVX2 1

#pragma GCC push_options
#pragma GCC optimize("O3", "no-loop-unroll-and-jam")
#pragma GCC target("avx2")
#define pg_checksum_page checksum_page_avx2
extern uint16 checksum_page_avx2(char *page, BlockNumber blkno);

#include "storage/checksum_impl.h"
#undef pg_checksum_page
#pragma GCC pop_options

#endif

uint16
page_checksum(Page page, BlockNumber block)
{
#ifdef HAVE_CHECKSUM_AVX2
	if (__builtin_cpu_supports("avx2"))
		return checksum_page_avx2((char *) page, block);
#endif
	return pg_checksum_page((char *) page, block);
}

void
page_set_checksum(Page page, BlockNumber block)
{
	if (!PageIsNew(page) && DataChecksumsEnabled())
		((PageHeader) page)->pd_checksum = page_checksum(page, block);
}

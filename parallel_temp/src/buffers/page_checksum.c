/*-------------------------------------------------------------------------
 *
 * page_checksum.c
 *	  Page checksums, with the instructions of this CPU.
 *
 * Where data checksums are on, half the time of a flush is the checksum: servers
 * up to 18 are built for the oldest CPU of their architecture, and that code
 * takes over a microsecond for a page.  The algorithm was made for vector units, and
 * core offers it to programs as a header; so it is compiled here again, with AVX2,
 * and used if the CPU has it.  Everywhere else, core's function does the work.
 *
 * With AVX2 memory is what it waits for: the pages of a flush lie anywhere in temporary
 * buffers, and at each page the CPU's prefetching starts again.  A caller that knows
 * the next page passes it, and that page is prefetched.  For this the header's outer
 * loop is repeated here around the header's step.
 *
 * Called by the flush for every page, and to verify pages that were read from a
 * file.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "storage/checksum.h"

#include "buffers/buffers.h"
#include "compat_storage.h"

#if CHECKSUM_WORTH_COMPILING_COMPAT && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HAVE_CHECKSUM_AVX2 1
#define CACHE_LINE 64			/* of every x86-64 CPU */

#pragma GCC push_options
#pragma GCC optimize("O3", "no-loop-unroll-and-jam")
#pragma GCC target("avx2")
#define pg_checksum_page checksum_page_avx2
extern uint16 checksum_page_avx2(char *page, BlockNumber blkno);

#include "storage/checksum_impl.h"
#undef pg_checksum_page

/* pg_checksum_block() of the header, fetching the page "next" into the cache. */
static uint32
checksum_block_ahead(const PGChecksummablePage *page, const char *next)
{
	const int	rounds = BLCKSZ / (sizeof(uint32) * N_SUMS);
	uint32		sums[N_SUMS];
	uint32		result = 0;

	memcpy(sums, checksumBaseOffsets, sizeof(sums));
	for (int i = 0; i < rounds; i++)
	{
		for (Size at = 0; at < sizeof(sums); at += CACHE_LINE)
			__builtin_prefetch(next + i * sizeof(sums) + at);
		for (int j = 0; j < N_SUMS; j++)
			CHECKSUM_COMP(sums[j], page->data[i][j]);
	}
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < N_SUMS; j++)
			CHECKSUM_COMP(sums[j], 0);
	for (int j = 0; j < N_SUMS; j++)
		result ^= sums[j];
	return result;
}

/* As pg_checksum_page() of the header. */
static uint16
checksum_page_ahead(char *page, BlockNumber block, const char *next)
{
	PGChecksummablePage *checksummed = (PGChecksummablePage *) page;
	uint16		saved = checksummed->phdr.pd_checksum;
	uint32		checksum;

	checksummed->phdr.pd_checksum = 0;
	checksum = checksum_block_ahead(checksummed, next) ^ block;
	checksummed->phdr.pd_checksum = saved;
	return (uint16) (checksum % 65535 + 1);
}

#pragma GCC pop_options

#endif

uint16
pt_page_checksum(Page page, BlockNumber block)
{
#ifdef HAVE_CHECKSUM_AVX2
	if (__builtin_cpu_supports("avx2"))
		return checksum_page_avx2((char *) page, block);
#endif
	return pg_checksum_page((char *) page, block);
}

void
pt_page_set_checksum(Page page, BlockNumber block, const void *next)
{
	if (PageIsNew(page) || !DataChecksumsEnabled())
		return;
#ifdef HAVE_CHECKSUM_AVX2
	if (next != NULL && __builtin_cpu_supports("avx2"))
	{
		((PageHeader) page)->pd_checksum = checksum_page_ahead((char *) page, block, next);
		return;
	}
#endif
	((PageHeader) page)->pd_checksum = pt_page_checksum(page, block);
}

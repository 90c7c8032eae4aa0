/*-------------------------------------------------------------------------
 *
 * difference.c
 *	  Find what two strings of bytes have in common.
 *
 * Works on memory alone; store_pieces.c calls it for the part of a replaced value that
 * remains without the common start and end.
 *
 * ab_find_copies() goes through both strings from the front.  Where they differ, it looks
 * for the next place at which they agree again: the aligned blocks of a window of the new
 * string are put in a hash table, and a hash of as many bytes rolls over a window of the
 * old one.  The windows begin small and grow, with larger blocks, so that a change costs
 * what it moves, and a nearby match is preferred to a distant one: what applications store
 * repeats itself.
 *
 * Invariants: Every copy was compared byte by byte, so a collision of hashes, even a
 * deliberate one, costs time only.  Copies ascend in both strings.  Memory
 * is bounded by MAX_ENTRIES.  Time is bounded by a budget of bytes, from which every byte is taken that
 * is hashed, rolled over or compared: an eighth of the lengths, or all that short strings need, and a
 * little for each copy.  So the paragraphs of 1 MB in another order take 1.5 of TOAST's CPU time (15,
 * by hand; 3.6 with twice the lengths).  Places farther apart than that are not found.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "value/value.h"

/* blocks of a hash table */
#define MAX_ENTRIES		65536

/*
 * Entries of the table for each block.  With two, every third look met another block's entry,
 * which the CPU cannot foresee: a value in another order took 1.46 of TOAST's time instead of 1.27.
 */
#define TABLE_SIZE		8

/* entries with the same hash, or in the way, that are checked */
#define MAX_PROBES		8

/* the shortest copy: reading a piece costs more than storing a few bytes again */
#define MIN_COPY		64

/* a copy of this length is used, whatever its distance */
#define LONG_COPY		4096

/* Bytes that may be rolled over in any case: with 16384, parts of 73 kB that changed places are not found (sql/pieces). */
#define ALWAYS_SEARCHED	98304

/* the first window and its blocks; each further window is eight times as large */
#define FIRST_WINDOW	512
#define FIRST_BLOCK		16
#define WINDOWS			8

/* of the rolling hash: the number of a byte's place, and how a hash is spread */
#define MULTIPLIER		0x9E3779B1U

typedef struct BlockEntry
{
	uint32		block;			/* number of the block plus 1; 0: no entry */
	uint32		hash;
} BlockEntry;

struct AbBlockIndex
{
	int			block;			/* bytes of a block */
	int			step;			/* from one block to the next */
	uint32		mask;
	uint32		leaving;		/* MULTIPLIER to the power of "block" */
	BlockEntry	entries[FLEXIBLE_ARRAY_MEMBER];
};

/* Where two strings are found to agree. */
typedef struct Search
{
	const char *old;
	const char *new;
	int64		n;
	int64		m;
	int64		budget;			/* bytes that may still be rolled over; others
								 * take less time and count less */
	int64		long_copy;		/* a copy of this length is used, whatever its
								 * distance */
} Search;

/* How many bytes two strings of n bytes have in common at their start. */
int64
ab_common_prefix(const char *a, const char *b, int64 n)
{
	int64		at = 0;

	/* where much is equal, the library's comparison is faster */
	while (n - at >= 256 && memcmp(a + at, b + at, 256) == 0)
		at += 256;
	while (n - at >= (int64) sizeof(uint64) && memcmp(a + at, b + at, sizeof(uint64)) == 0)
		at += sizeof(uint64);
	while (at < n && a[at] == b[at])
		at++;
	return at;
}

/* How many bytes two strings of n bytes, which end before these places, have in common at their end. */
int64
ab_common_suffix(const char *a_end, const char *b_end, int64 n)
{
	int64		common = 0;

	while (n - common >= 256 && memcmp(a_end - common - 256, b_end - common - 256, 256) == 0)
		common += 256;
	while (n - common >= (int64) sizeof(uint64) &&
		   memcmp(a_end - common - sizeof(uint64), b_end - common - sizeof(uint64), sizeof(uint64)) == 0)
		common += sizeof(uint64);
	while (common < n && a_end[-common - 1] == b_end[-common - 1])
		common++;
	return common;
}

static inline uint32
hash_of_block(const char *data, int block)
{
	uint32		hash = 0;

	for (int i = 0; i < block; i++)
		hash = hash * MULTIPLIER + (unsigned char) data[i];
	return hash;
}

/* The place in a table where an entry of this hash is looked for first. */
static inline uint32
first_place(uint32 hash)
{
	hash ^= hash >> 15;
	hash *= 0x85EBCA6BU;
	return hash ^ (hash >> 13);
}

/* The smallest size of blocks with which n bytes fit into a table. */
int
ab_index_block_size(int64 n)
{
	int64		block = FIRST_BLOCK;

	while (n / block > MAX_ENTRIES)
		block *= 2;
	return (int) block;
}

/* Put blocks of a string in a hash table, to be freed; step: from one to the next, "block" or more. */
AbBlockIndex *
ab_index_blocks(const char *data, int64 n, int block, int step)
{
	uint32		blocks = (uint32) (n / step);
	uint32		size = pg_nextpower2_32(Max(TABLE_SIZE * blocks, 16));
	AbBlockIndex *index = palloc0(offsetof(AbBlockIndex, entries) + size * sizeof(BlockEntry));

	Assert(blocks <= MAX_ENTRIES);
	index->block = block;
	index->step = step;
	index->mask = size - 1;
	index->leaving = 1;
	for (int i = 0; i < block; i++)
		index->leaving *= MULTIPLIER;
	for (uint32 i = 0; i < blocks; i++)
	{
		uint32		hash = hash_of_block(data + (int64) i * step, block);
		uint32		at = first_place(hash);

		/* of equal blocks the first ones are found */
		for (int probes = 0; probes < MAX_PROBES; probes++, at++)
		{
			BlockEntry *entry = &index->entries[at & index->mask];

			if (entry->block != 0)
				continue;
			entry->block = i + 1;
			entry->hash = hash;
			break;
		}
	}
	return index;
}

/*
 * A block of the new string was found in the old one: extend it both ways, but not before
 * (old_from, new_from).  False if the copy is too short for its distance.
 */
static bool
extend_copy(Search *search, int64 old_from, int64 new_from, int64 old_at, int64 new_at, AbCopy *copy)
{
	int64		after = ab_common_prefix(search->old + old_at, search->new + new_at,
										 Min(search->n - old_at, search->m - new_at));
	int64		before = ab_common_suffix(search->old + old_at, search->new + new_at,
										  Min(old_at - old_from, new_at - new_from));
	int64		skipped = Max(old_at - before - old_from, new_at - before - new_from);

	search->budget -= (after + before) / 8 + 1;
	copy->old = old_at - before;
	copy->new = new_at - before;
	copy->length = after + before;
	return copy->length >= MIN_COPY && copy->length >= Min(skipped / 8, search->long_copy);
}

/*
 * Find a block of an index, which is of the new string from new_from on, in wo bytes of
 * the old one from old_from on.
 */
static bool
search_window(Search *search, const AbBlockIndex *index, int64 old_from, int64 wo,
			  int64 new_from, AbCopy *copy)
{
	const char *old = search->old + old_from;
	const int	block = index->block;
	uint32		hash;

	if (wo < block)
		return false;
	hash = hash_of_block(old, block);
	for (int64 i = 0; search->budget > 0; i++)
	{
		uint32		at = first_place(hash);
		int64		refused = 0;

		search->budget--;
		for (int probes = 0; probes < MAX_PROBES; probes++, at++)
		{
			const BlockEntry *entry = &index->entries[at & index->mask];
			int64		new_at;

			if (entry->block == 0)
				break;
			new_at = new_from + (int64) (entry->block - 1) * index->step;
			if (entry->hash != hash || memcmp(old + i, search->new + new_at, block) != 0)
				continue;
			if (extend_copy(search, old_from, new_from, old_from + i, new_at, copy))
				return true;
			refused = Max(refused, copy->old + copy->length - (old_from + i));
		}
		if (refused > block)
		{
			/* no place within a copy that was refused begins a better one */
			i += refused - 1;
			if (i + 1 > wo - block)
				return false;
			hash = hash_of_block(old + i + 1, block);
			search->budget -= block;
			continue;
		}
		if (i >= wo - block)
			return false;
		hash = hash * MULTIPLIER + (unsigned char) old[i + block] - (unsigned char) old[i] * index->leaving;
	}
	return false;
}

/* The number of bytes of a sample that can be copied from the m indexed bytes; at most about "enough". */
int64
ab_index_shared(const AbBlockIndex *index, const char *data, int64 m, const char *sample, int64 n, int64 enough)
{
	Search		search = {.old = sample,.new = data,.n = n,.m = m,.budget = PG_INT64_MAX,.long_copy = MIN_COPY};
	AbCopy		copy = {0};
	int64		shared = 0;

	while (shared < enough && search_window(&search, index, copy.old + copy.length, n - copy.old - copy.length, 0, &copy))
		shared += copy.length;
	return shared;
}

/* Find the next place from which on the strings agree. */
static bool
find_next(Search *search, int64 old_from, int64 new_from, AbCopy *copy)
{
	int64		window = FIRST_WINDOW;
	int			block = FIRST_BLOCK;

	for (int level = 0; level < WINDOWS && search->budget > 0; level++)
	{
		bool		last = level == WINDOWS - 1;
		int64		wo = last ? search->n - old_from : Min(window, search->n - old_from);
		int64		wn = last ? search->m - new_from : Min(window, search->m - new_from);
		AbBlockIndex *index;
		bool		found;

		block = Max(block, ab_index_block_size(wn));
		if ((search->budget -= wn / 4) <= 0)
			break;
		index = ab_index_blocks(search->new + new_from, wn, block, block);
		found = search_window(search, index, old_from, wo, new_from, copy);
		pfree(index);
		if (found)
			return true;
		if (wo == search->n - old_from && wn == search->m - new_from)
			break;
		window *= 8;
		block *= 2;
	}
	return false;
}

/*
 * Find parts of "old" in "new", in ascending order and at most "max" of them; returns how
 * many.  Bytes outside all copies need not be different.
 */
int
ab_find_copies(const char *old, int64 n, const char *new, int64 m, AbCopy *copies, int max)
{
	Search		search = {.old = old,.new = new,.n = n,.m = m,.budget = Max((n + m) / 8, ALWAYS_SEARCHED),.long_copy = LONG_COPY};
	int64		old_at = 0,
				new_at = 0,
				copied = 0;
	int			count = 0;

	while (old_at < n && new_at < m && count < max)
	{
		AbCopy		copy;

		/* many short copies: the strings are shuffled */
		if (new_at > 65536 + m / 16 && copied < new_at / 4)
			break;
		if (!find_next(&search, old_at, new_at, &copy))
			break;
		copies[count++] = copy;
		copied += copy.length;
		search.budget += copy.length / 16;
		old_at = copy.old + copy.length;
		new_at = copy.new + copy.length;
	}
	return count;
}

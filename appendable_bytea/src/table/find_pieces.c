/*-------------------------------------------------------------------------
 *
 * find_pieces.c
 *	  Decide which pieces of the old value a new one is stored as.
 *
 * Called by storing.c, before the row is locked: it reads the old value and writes
 * nothing.  A whole new value is compared with the old one; an edit that a function of
 * the type made has its pieces already.  Both get a limited number of pieces, and are
 * refused if a list would store little less than the value, or keep too many dead bytes:
 * parts of chunks of which other parts are needed.
 *
 * A new value that has nothing in common with a short old one must not cost much more than
 * without differences.  So the start of a compressed chunk is compared, and a sample is sought,
 * before the rest is decompressed: that only the first part was replaced is not noticed.
 *
 * Memory is bounded by the setting difference_memory, in addition to the new value.  A
 * damaged old value is never an error here: the new one may be there to replace it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/snapmgr.h"

#include "table/table.h"

/* Bytes of the old value that are read at once from its end on. */
#define SUFFIX_BLOCK		65536

/*
 * Samples of the old value, sought before all of it is read: blocks of a part of the new value
 * are indexed, and a sample has two of them.  A short value has some at any length.
 */
#define SAMPLES				16
#define SAMPLE_DISTANCE		131072
#define SAMPLED				8
#define SAMPLED_OF_LONG		32
#define SHORT_MAX			65536
#define SHORT_SAMPLES		5

/*
 * Two parts of a short value decide whether more of it than these and what precedes them is
 * decompressed; they follow this share of it.
 */
#define FIRST_PART			96
#define FIRST_PARTS			(2 * FIRST_PART)
#define FIRST_SHARE			8

/* A part of a value that is not worth looking for other common bytes in. */
#define PART_MIN			64

/* A part that is searched without a sample, also as a share of the bytes known to be common. */
#define SMALL_PART			1024
#define SMALL_SHARE			16

/* Copies that are looked for at most; there can be fewer pieces. */
#define COPIES_MAX			(4 * AB_MAX_PIECES)

/* Dead bytes that a value may always have in its chunks, and else the share of its length. */
#define DEAD_ALWAYS			16384
#define DEAD_SHARE			4

/* How many bytes at the end of the old value are those of "data"; -1 if it cannot be read. */
static int64
common_suffix(AbReader *reader, const char *data, int64 length, int64 most)
{
	const int64 n = ab_reader_length(reader);
	char	   *buf = palloc(SUFFIX_BLOCK);
	int64		common = 0;

	while (common < most)
	{
		/* little of the end is compared if it differs */
		int64		size = Min(Min(most - common, Max(4 * common, 1024)), SUFFIX_BLOCK);
		int64		same;

		if (!ab_reader_try_read(reader, n - common - size, buf, size))
			return -1;
		same = ab_common_suffix(buf + size, data + length - common, size);
		common += same;
		if (same < size)
			break;
	}
	pfree(buf);
	return common;
}

/*
 * Does a part of the old value have anything in common with the new one?  Half of one of
 * some samples must be there: what all values of an application contain is less.
 */
static bool
shares_samples(AbReader *reader, int64 from, int64 n, const char *data, int64 m)
{
	const int	sampled = m > SHORT_MAX ? SAMPLED_OF_LONG : SAMPLED;
	const int	block = ab_index_block_size(m / sampled);
	const int	samples = n > SHORT_MAX ? Min(2 + n / SAMPLE_DISTANCE, SAMPLES) : SHORT_SAMPLES;
	const int64 size = Min(2 * sampled * block, n / 2);
	AbBlockIndex *index = ab_index_blocks(data, m, block, sampled * block);
	char	   *buf = palloc(size);
	bool		found = false;

	for (int i = 0; i < samples && !found; i++)
	{
		int64		at = (n - size) * i / (samples - 1);

		if (!ab_reader_try_read(reader, from + at, buf, size))
			break;
		found = ab_index_shared(index, data, m, buf, size, size / 2) >= size / 2;
	}
	pfree(index);
	return found;
}

/*
 * The same with little of the work, for a short old value: is one of two parts of it there?  For 7 kB
 * this takes some 11,000 instructions, an index of blocks and one sample 23,000 (make instructions
 * ARGS='--replaced 7000').
 */
static bool
shares_parts(AbReader *reader, int64 from, int64 n, const char *data, int64 m)
{
	char		parts[FIRST_PARTS];

	Assert(n / FIRST_SHARE + FIRST_PARTS <= n);
	return ab_reader_try_read(reader, from + n / FIRST_SHARE, parts, FIRST_PARTS) &&
		(memmem(data, m, parts, FIRST_PART) != NULL ||
		 memmem(data, m, parts + FIRST_PART, FIRST_PART) != NULL);
}

/*
 * Find copies in the middle of a value, between the common start and end; returns how
 * many, or -1 if the old value cannot be read.
 */
static int
find_in_middle(AbReader *reader, int64 from, int64 n, const char *data, int64 m, int64 known,
			   AbCopy *copies)
{
	char	   *old;
	int			count;

	if (n < PART_MIN || m < PART_MIN || n / 1024 >= ab_difference_memory_kb)
		return 0;
	if (Min(n, m) >= SMALL_PART && known < SMALL_SHARE * m && !shares_samples(reader, from, n, data, m))
		return 0;
	old = palloc_extended(n, MCXT_ALLOC_HUGE);
	if (!ab_reader_try_read(reader, from, old, n))
		count = -1;
	else
		count = ab_find_copies(old, n, data, m, copies, COPIES_MAX);
	pfree(old);
	for (int i = 0; i < count; i++)
	{
		copies[i].old += from;
		copies[i].new += from;
	}
	return count;
}

/* The segments of a new value of which some parts are copied from the old one; returns how many. */
static int
plan_segments(const AbValue *old, const char *data, int64 length, const AbCopy *copies, int ncopies,
			  AbSegment *segments)
{
	int			n = 0;
	int64		at = 0;

	for (int i = 0; i <= ncopies; i++)
	{
		int64		from = i < ncopies ? copies[i].new : length;
		int			added;

		segments[n].source = -1;
		segments[n].length = from - at;
		segments[n++].data = data + at;
		at = from;
		if (i == ncopies)
			break;
		added = ab_cut_out_segments(old, copies[i].old, copies[i].old + copies[i].length, segments + n);
		for (int k = n; k < n + added; k++)
		{
			/* what the old row has in its tail */
			if (segments[k].source < 0)
				segments[k].data = data + at;
			at += segments[k].length;
		}
		n += added;
	}
	return ab_join_segments(segments, n);
}

/* The bytes that have to be written again if a segment is joined with its neighbor. */
static inline int64
joining_cost(const AbSegment *segments, int i)
{
	return (segments[i].source >= 0 ? segments[i].length : 0) +
		(segments[i + 1].source >= 0 ? segments[i + 1].length : 0);
}

/*
 * Have at most "most" segments: turn neighbors into new bytes, those with few bytes
 * first.  data: all of the value.  Goes down to three quarters, so that the next
 * changes need not do it again.
 */
static int
limit_segments(AbSegment *segments, int count, int most, const char *data)
{
	const int	target = Max(most * 3 / 4, 1);
	int64		at = 0;

	if (count <= most)
		return count;
	for (int i = 0; i < count; i++)
	{
		segments[i].data = data + at;
		at += segments[i].length;
	}
	count = ab_join_segments(segments, count);
	for (int64 limit = PART_MIN; count > target; limit *= 2)
	{
		int			excess = count - target;

		for (int i = 0; i + 1 < count && excess > 0; i++)
		{
			if (joining_cost(segments, i) > limit)
				continue;
			segments[i].source = segments[i + 1].source = -1;
			excess--;
			i++;
		}
		count = ab_join_segments(segments, count);
	}
	return count;
}

/*
 * Bytes of the old value's chunks that would be kept for others alone, if a value with these
 * segments replaced it; or what they are at most, if that is not above "allowed": then the chunks
 * need not be read.
 */
static int64
dead_bytes(const AbTarget *target, const AbRef *base, const AbSegment *segments, int count, int64 allowed)
{
	AbSegment  *places = palloc((count + 1) * sizeof(AbSegment));
	int			n = ab_needed_places(segments, count, base->stored, places);
	int64		live = 0;
	int64		kept = 0;
	int64		most;
	int64		at = 0;

	/* new bytes will take the place of the old end */
	if (ab_literal_bytes(segments, count) > 0)
		n--;
	most = 0;
	for (int i = 0; i < n; i++)
	{
		live += places[i].length;
		/* a gap's ends are in chunks that are needed on their other side */
		most += Min(Max(places[i].source - at, 0), (at > 0 ? 2 : 1) * AB_COMPRESSED_MAX);
		at = Max(at, places[i].source + places[i].length);
	}
	most += Min(base->stored - at, AB_COMPRESSED_MAX);
	if (most > allowed)
	{
		AbStore		store;

		if (ab_store_open(target->relid, AccessShareLock, &store))
		{
			SysScanDesc scan = ab_chunk_scan(&store, SnapshotSelf, base->vid, 0, base->stored);
			AbChunk		chunk;

			while (ab_chunk_next(scan, ForwardScanDirection, &chunk))
			{
				if (!chunk.problem && ab_meets_place(places, n, chunk.off, chunk.off + chunk.length))
					kept += chunk.length;
			}
			systable_endscan_ordered(scan);
			ab_store_close(&store, AccessShareLock);
		}
		most = kept - live;
	}
	pfree(places);
	return most;
}

/* Is a value with these segments worth a list: is most of it there, and do few dead bytes stay? */
static bool
is_worth_a_list(const AbTarget *target, const AbRef *base, const AbSegment *segments, int count, int64 length)
{
	int64		literals = ab_literal_bytes(segments, count);
	int64		allowed = Max(DEAD_ALWAYS, length / DEAD_SHARE);

	if (literals > length / 2 || base->edition >= PG_INT32_MAX)
		return false;
	return dead_bytes(target, base, segments, count, allowed) <= allowed;
}

/* Count the characters of the value's segments in chunks.  data: all of the value. */
static void
count_characters(AbStoring *storing, const char *data)
{
	AbValue    *value = &storing->value;

	value->base.counted = storing->counted;
	value->base.continuations = 0;
	for (int i = 0; storing->counted && i < value->nsegments; data += value->segments[i++].length)
	{
		if (value->segments[i].source >= 0)
			value->base.continuations += ab_count_continuations(data, value->segments[i].length);
	}
}

/*
 * Let a flat value that replaces another be an edit of it, if that takes little of it.
 * common: the bytes that both have at their start.  Otherwise it is stored as a new one; a
 * damaged old value is such a case.
 */
void
ab_pieces_find(AbStoring *storing, const AbTarget *target, AbReader *reader, int64 common)
{
	AbValue    *value = &storing->value;
	AbValue    *old = &storing->old;
	const char *data = value->segments[0].data;
	const int64 n = old->length;
	const int64 m = value->length;
	const int	kept_end = target->logged ? ab_tail_max_of(target) : AB_KEPT_END_MAX;
	AbCopy	   *copies;
	AbSegment  *segments;
	int			ncopies;
	int			count;
	int64		suffix;
	int64		kept;

	Assert(value->nsegments == 1 && !old->edited);
	if (common < SMALL_PART && Min(n, m) - common >= SMALL_PART &&
		!(n > SHORT_MAX ? shares_samples : shares_parts) (reader, common, n - common, data + common, m - common))
		return;
	if (!ab_reader_load(reader, common))
		return;
	suffix = common_suffix(reader, data, m, Min(n, m) - common);
	if (suffix < 0)
		return;
	/* the first and the last one may be empty */
	copies = palloc((COPIES_MAX + 2) * sizeof(AbCopy));
	copies[0].old = copies[0].new = 0;
	copies[0].length = common;
	ncopies = find_in_middle(reader, common, n - suffix - common, data + common, m - suffix - common,
							 common + suffix, copies + 1) + 2;
	if (ncopies < 2)
		return;

	/*
	 * a short end stays in the row, so that what is put before it is an
	 * append
	 */
	kept = suffix > kept_end ? 0 : suffix;
	copies[ncopies - 1].length = suffix - kept;
	copies[ncopies - 1].old = n - (suffix - kept);
	copies[ncopies - 1].new = m - (suffix - kept);
	segments = palloc((2 * ncopies + 2 + old->nsegments) * sizeof(AbSegment));
	count = plan_segments(old, data, m, copies, ncopies, segments);
	count = limit_segments(segments, count, ab_max_pieces, data);
	if (!is_worth_a_list(target, &old->base, segments, count, m))
		return;
	storing->kept_end = kept;
	value->base = old->base;
	value->segments = segments;
	value->nsegments = count;
	count_characters(storing, data);
	value->edited = storing->compared = true;
}

/*
 * May an edit of the value in the replaced row version be stored with a list?  If it has too many
 * segments, some become new bytes, which takes memory for all of them.
 */
bool
ab_pieces_accept(AbStoring *storing, const AbTarget *target)
{
	AbValue    *value = &storing->value;

	if (value->nsegments > ab_max_pieces)
	{
		char	   *data;
		AbReader   *reader;
		AbSegment  *segments;

		if (value->length / 1024 >= ab_difference_memory_kb)
			return false;
		data = palloc_extended(value->length, MCXT_ALLOC_HUGE);
		reader = ab_reader_open_value(value);
		segments = palloc(value->nsegments * sizeof(AbSegment));
		ab_reader_read(reader, 0, data, value->length);
		ab_reader_close(reader);
		memcpy(segments, value->segments, value->nsegments * sizeof(AbSegment));
		value->nsegments = limit_segments(segments, value->nsegments, ab_max_pieces, data);
		value->segments = segments;
		count_characters(storing, data);
	}

	/*
	 * none of the type's functions makes a list with a byte twice, and it
	 * could not be read
	 */
	return !ab_segments_overlap(value->segments, value->nsegments) &&
		is_worth_a_list(target, &value->base, value->segments, value->nsegments, value->length);
}

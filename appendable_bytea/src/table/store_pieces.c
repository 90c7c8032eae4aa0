/*-------------------------------------------------------------------------
 *
 * store_pieces.c
 *	  Store a changed value as pieces of the old one and new chunks.
 *
 * Called by storing.c for a value that is an edit of the one in the replaced row version:
 * a function of the type made it (overlay, truncation, insertion), or a whole new value
 * was compared with the old one here, which makes the same edit of it.  Only bytes that
 * the old value's chunks do not have are written, as chunks at the value's physical end;
 * the row gets a list of pieces (pieces.c), and the chunks that no piece needs any more
 * are deleted once the row is stored.
 *
 * Invariants, in addition to those of storing.c:
 *
 * A chunk of a value with a list is never covered by another one: its places are written
 * once by transactions that did not fail, in ascending order.  A value some chunks of
 * which an overwrite covered before (edition above 0 without a list) gets no list.
 *
 * The row version at hand needs the chunks that its pieces meet and the one at the
 * physical end, by whose checksum a reader verifies the reference.  All others of the
 * value are deleted.
 *
 * Every change but an append raises the edition, which counts lists: a change without new
 * bytes leaves value id, end and checksum as they are.  Transactions that failed may have
 * made another list of the same edition, so a value's pieces are compared as well before
 * it is taken for the row's (ab_pieces_within).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "table/table.h"

/* Bytes of the old value that are read at once from its end on. */
#define SUFFIX_BLOCK		65536

/* Places of the old value that are looked for in the new one before all of it is read. */
#define SAMPLES				32

/* A part of a value that is not worth looking for other common bytes in. */
#define PART_MIN			64

/* Copies that are looked for at most; there can be fewer pieces. */
#define COPIES_MAX			(4 * AB_MAX_PIECES)

/* Dead bytes that a value may always have in its chunks, and else the share of its length. */
#define DEAD_ALWAYS			16384
#define DEAD_SHARE			4

/* Are the bytes of chunks that a value refers to among those that the old value refers to? */
bool
ab_pieces_within(const AbValue *value, const AbValue *old)
{
	int			count = ab_chunk_segments(old);
	int			at = 0;

	for (int i = 0; i < value->nsegments; i++)
	{
		int64		from = value->segments[i].source;
		int64		until = from + value->segments[i].length;
		int			tried = 0;

		/* both are in the same order, as a rule; a segment may be of several pieces */
		while (from >= 0 && from < until)
		{
			const AbSegment *piece = &old->segments[at];

			if (from >= piece->source && from < piece->source + piece->length)
			{
				from = piece->source + piece->length;
				tried = 0;
			}
			else if (++tried > count)
				return false;
			else
				at = (at + 1) % count;
		}
	}
	return true;
}

/*
 * Do a value's pieces come first in the old value, which was only appended to since, or
 * are they the same (same)?
 */
bool
ab_pieces_continue(const AbValue *value, const AbValue *old, bool same)
{
	int			n = ab_chunk_segments(value);
	int			m = ab_chunk_segments(old);

	if (n > m || (same && n != m))
		return false;
	for (int i = 0; i < n; i++)
	{
		const AbSegment *s = &value->segments[i];
		const AbSegment *t = &old->segments[i];

		if (s->source != t->source ||
			(i < n - 1 || same ? s->length != t->length : s->length > t->length))
			return false;
	}
	return true;
}

/* Join literal segments that follow each other in memory, and pieces that touch; returns how many remain. */
static int
join_segments(AbSegment *segments, int count)
{
	int			n = 0;

	for (int i = 0; i < count; i++)
	{
		AbSegment  *s = &segments[i];
		AbSegment  *last = n > 0 ? &segments[n - 1] : NULL;

		if (s->length == 0)
			continue;
		if (last && last->source >= 0 && s->source == last->source + last->length)
			last->length += s->length;
		else if (last && last->source < 0 && s->source < 0 && last->data + last->length == s->data)
			last->length += s->length;
		else
			segments[n++] = *s;
	}
	return n;
}

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
		{
			common = -1;
			break;
		}
		same = ab_common_suffix(buf + size, data + length - common, size);
		common += same;
		if (same < size)
			break;
		CHECK_FOR_INTERRUPTS();
	}
	pfree(buf);
	return common;
}

/*
 * Does a part of the old value have anything in common with the new one?  A quarter of
 * some samples must be there.
 */
static bool
shares_samples(AbReader *reader, int64 from, int64 n, const char *data, int64 m)
{
	AbBlockIndex *index;
	const int	block = ab_index_block_size(m);
	const int64 step = n / SAMPLES;
	const int64 size = Min(3 * block, step);
	char	   *buf;
	int			found = 0;

	if (n < SAMPLES * 128)
		return true;
	buf = palloc(size);
	index = ab_index_blocks(data, m, block);
	for (int i = 0; i < SAMPLES && found < SAMPLES / 4 && found + SAMPLES - i >= SAMPLES / 4; i++)
	{
		if (!ab_reader_try_read(reader, from + i * step, buf, size))
		{
			found = 0;
			break;
		}
		if (ab_index_has_part(index, buf, size))
			found++;
		CHECK_FOR_INTERRUPTS();
	}
	ab_index_free(index);
	pfree(buf);
	return found >= SAMPLES / 4;
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
	/* a part that is small next to what is known to be common is read at once */
	if (known < m && !shares_samples(reader, from, n, data, m))
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
	return join_segments(segments, n);
}

static int64
literal_bytes(const AbSegment *segments, int count)
{
	int64		result = 0;

	for (int i = 0; i < count; i++)
		result += segments[i].source < 0 ? segments[i].length : 0;
	return result;
}

/* What joining a segment with a neighbor makes be written again. */
static inline int64
joining_cost(const AbSegment *segments, int i)
{
	return (segments[i].source >= 0 ? segments[i].length : 0) +
		(segments[i + 1].source >= 0 ? segments[i + 1].length : 0);
}

static int
compare_costs(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/*
 * Have at most "most" segments: turn neighbors into new bytes, those with the fewest
 * bytes first.  data: all of the value.  Goes down to three quarters, so that the next
 * changes need not do it again.
 */
static int
limit_segments(AbSegment *segments, int count, int most, const char *data)
{
	const int	target = Max(most * 3 / 4, 1);
	int64	   *costs;
	int64		at = 0;

	if (count <= most)
		return count;
	for (int i = 0; i < count; i++)
	{
		if (segments[i].source < 0)
			segments[i].data = data + at;
		at += segments[i].length;
	}
	count = join_segments(segments, count);
	costs = palloc(count * sizeof(int64));
	while (count > target)
	{
		int			excess = count - target;
		int64		limit;

		at = 0;

		for (int i = 0; i + 1 < count; i++)
			costs[i] = joining_cost(segments, i);
		qsort(costs, count - 1, sizeof(int64), compare_costs);
		limit = costs[Min(excess, count - 1) - 1];
		for (int i = 0; i < count; i++)
		{
			bool		join = excess > 0 && i + 1 < count && joining_cost(segments, i) <= limit;

			for (int k = i; k <= i + (join ? 1 : 0); k++)
			{
				if (join)
				{
					segments[k].source = -1;
					segments[k].data = data + at;
				}
				at += segments[k].length;
			}
			if (join)
			{
				excess--;
				i++;
			}
		}
		count = join_segments(segments, count);
	}
	pfree(costs);
	return count;
}

/*
 * The places of chunks that a value with these segments and this end needs, sorted;
 * returns how many.
 */
static int
needed_places(const AbSegment *segments, int count, int64 stored, AbSegment *places)
{
	int			n = 0;

	for (int i = 0; i < count; i++)
	{
		if (segments[i].source >= 0)
			places[n++] = segments[i];
	}
	places[n].source = stored - 1;
	places[n++].length = 1;
	qsort(places, n, sizeof(AbSegment), ab_compare_sources);
	return n;
}

/* Is any byte of [from, until) in one of these places?  The end may be in another one of them. */
static bool
meets_place(const AbSegment *places, int n, int64 from, int64 until)
{
	int			low = 0;
	int			high = n;

	/* the first place that begins at or after "until" */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (places[middle].source < until)
			low = middle + 1;
		else
			high = middle;
	}
	/* the end is one byte long, so the place before it may reach further */
	for (int i = low - 1; i >= 0 && i >= low - 2; i--)
	{
		if (places[i].source + places[i].length > from)
			return true;
	}
	return false;
}

/*
 * Bytes of the old value's chunks that would be kept for others alone, if a value with these
 * segments replaced it.
 */
static int64
dead_bytes(const AbTarget *target, const AbRef *base, const AbSegment *segments, int count)
{
	AbSegment  *places = palloc((count + 1) * sizeof(AbSegment));
	int			n = needed_places(segments, count, base->stored, places);
	int64		live = 0;
	int64		kept = 0;
	int64		most;
	int64		at = 0;

	/* new bytes will take the place of the old end */
	if (literal_bytes(segments, count) > 0)
		n--;
	most = 0;
	for (int i = 0; i < n; i++)
	{
		live += places[i].length;
		/* a gap's ends are in chunks that are needed on their other side */
		most += Min(Max(places[i].source - at, 0), 2 * AB_COMPRESSED_MAX);
		at = Max(at, places[i].source + places[i].length);
	}
	most += Min(base->stored - at, AB_COMPRESSED_MAX);
	if (most > DEAD_ALWAYS)
	{
		AbStore		store;

		if (ab_store_open(target->relid, AccessShareLock, &store))
		{
			SysScanDesc scan = ab_chunk_scan(&store, SnapshotSelf, base->vid, 0, base->stored);
			AbChunk		chunk;

			while (ab_chunk_next(scan, ForwardScanDirection, &chunk))
			{
				CHECK_FOR_INTERRUPTS();
				if (!chunk.problem && meets_place(places, n, chunk.off, chunk.off + chunk.length))
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
	int64		literals = literal_bytes(segments, count);
	int64		dead;

	if (literals > length / 2 || base->edition >= PG_INT32_MAX)
		return false;
	dead = dead_bytes(target, base, segments, count);
	return dead <= DEAD_ALWAYS || dead <= length / DEAD_SHARE;
}

/*
 * Let a flat value that replaces another be an edit of it, if that takes little of it.
 * common: the bytes that both have at their start.  Returns false if the value is to be
 * stored as a new one; a damaged old value is such a case.
 */
bool
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
	int			ncopies = 0;
	int			found;
	int			count;
	int64		suffix;

	Assert(value->nsegments == 1 && !old->edited);
	if (old->base.edition > 0 && !old->base.pieces)
		return false;
	suffix = common_suffix(reader, data, m, Min(n, m) - common);
	if (suffix < 0)
		return false;
	copies = palloc((COPIES_MAX + 2) * sizeof(AbCopy));
	if (common > 0)
		copies[ncopies++] = (AbCopy)
	{
		0, 0, common
	};
	found = find_in_middle(reader, common, n - suffix - common, data + common, m - suffix - common,
						   common + suffix, copies + ncopies);
	if (found < 0)
		return false;
	ncopies += found;
	/* a short end stays in the row, so that what is put before it is an append */
	if (suffix > kept_end)
		copies[ncopies++] = (AbCopy)
	{
		n - suffix, m - suffix, suffix
	};
	else
		storing->kept_end = suffix;

	segments = palloc((2 * ncopies + 2 + old->nsegments) * sizeof(AbSegment));
	count = plan_segments(old, data, m, copies, ncopies, segments);
	count = limit_segments(segments, count, ab_max_pieces, data);
	pfree(copies);
	if (!is_worth_a_list(target, &old->base, segments, count, m))
	{
		storing->kept_end = 0;
		return false;
	}
	value->base = old->base;
	value->segments = segments;
	value->nsegments = count;
	value->edited = storing->compared = true;
	return true;
}

/*
 * May an edit of the value in the replaced row version be stored with a list?  If it has
 * too many segments, some become new bytes.
 */
bool
ab_pieces_accept(AbStoring *storing, const AbTarget *target)
{
	AbValue    *value = &storing->value;

	if (!value->base.pieces && (!ab_store_differences || value->base.edition > 0))
		return false;
	if (value->nsegments > ab_max_pieces)
	{
		char	   *data = palloc_extended(value->length, MCXT_ALLOC_HUGE);
		AbReader   *reader = ab_reader_open_value(value);
		AbSegment  *segments = palloc(value->nsegments * sizeof(AbSegment));

		ab_reader_read(reader, 0, data, value->length);
		ab_reader_close(reader);
		memcpy(segments, value->segments, value->nsegments * sizeof(AbSegment));
		value->nsegments = limit_segments(segments, value->nsegments, ab_max_pieces, data);
		value->segments = segments;
	}
	return is_worth_a_list(target, &value->base, value->segments, value->nsegments, value->length);
}

/* How many literal bytes at the end of the value stay in the row. */
static int64
bytes_in_row(const AbStoring *storing, const AbTarget *target)
{
	const AbValue *value = &storing->value;
	const AbSegment *last = &value->segments[value->nsegments - 1];
	int64		old_tail = storing->old.length - ab_chunk_bytes(&storing->old);
	int64		n = last->source < 0 ? last->length : 0;
	int64		end = Min(storing->kept_end, n);

	if (n <= ab_tail_max_of(target) && n - old_tail < ab_direct_min_of(target))
		return n;
	return end > 0 ? end : ab_inline_rest(target, n);
}

/*
 * Store an edit, or an append to a value that has a list: write its literal segments as
 * chunks at the physical end, except a short end that stays in the row.  Remembers the new
 * pieces for ab_pieces_finish().
 */
Datum
ab_pieces_write(AbStoring *storing, const AbTarget *target)
{
	AbValue    *value = &storing->value;
	int64		rest = bytes_in_row(storing, target);
	int64		written = literal_bytes(value->segments, value->nsegments) - rest;
	AbRef		ref = value->base;
	AbWriter   *writer = NULL;
	AbSegment  *pieces = palloc((value->nsegments + 1) * sizeof(AbSegment));
	int64		end = ref.stored;
	int			count = 0;
	const char *tail = NULL;
	Datum		result;

	if (value->edited)
		ref.edition++;
	if (written > 0)
		writer = ab_open_writer(target, &ref, written);
	for (int i = 0; i < value->nsegments; i++)
	{
		AbSegment	s = value->segments[i];

		if (s.source < 0)
		{
			if (i == value->nsegments - 1)
			{
				s.length -= rest;
				tail = s.data + s.length;
			}
			if (s.length > 0)
				ab_writer_put(writer, s.data, s.length);
			s.source = end;
			s.data = NULL;
			end += s.length;
		}
		pieces[count++] = s;
	}
	if (writer)
		ab_writer_close(writer, &ref);
	Assert(ref.stored == end);
	count = join_segments(pieces, count);
	ref.pieces = true;
	storing->pieces = pieces;
	storing->npieces = count;
	storing->stored = ref.stored;
	result = ab_make_stored(&ref, pieces, count, tail, rest, ab_room_for(target, rest));
	return result;
}

/* Delete the chunks that meet [from, until) and none of these places. */
static void
delete_given_up(const AbStore *store, int64 vid, int64 from, int64 until, const AbSegment *places, int n)
{
	/* a compressed chunk may begin this far before */
	SysScanDesc scan = ab_chunk_scan(store, SnapshotSelf, vid, Max(from - AB_COMPRESSED_MAX + 1, 0), until);
	HeapTuple	tuple;

	while ((tuple = systable_getnext_ordered(scan, BackwardScanDirection)) != NULL)
	{
		AbChunk		chunk;

		CHECK_FOR_INTERRUPTS();
		/* a damaged row stays until its value ends */
		if (!ab_chunk_parse(tuple, &chunk))
			continue;
		/* no chunk covers another, so those before it end before it begins */
		if (chunk.off + chunk.length <= from)
			break;
		if (!meets_place(places, n, chunk.off, chunk.off + chunk.length))
			ab_chunk_delete(store->heap, tuple);
	}
	systable_endscan_ordered(scan);
}

/*
 * The row is stored: delete the chunks that the replaced version needed and the new one
 * does not.
 */
void
ab_pieces_finish(AbStoring *storing, const AbTarget *target)
{
	const AbRef *base = &storing->old.base;
	AbSegment  *before = palloc((storing->old.nsegments + 1) * sizeof(AbSegment));
	AbSegment  *after = palloc((storing->npieces + 1) * sizeof(AbSegment));
	int			nbefore = needed_places(storing->old.segments, storing->old.nsegments, base->stored, before);
	int			nafter = needed_places(storing->pieces, storing->npieces, storing->stored, after);
	AbStore		store;
	int			at = 0;

	if (!ab_store_open(target->relid, RowExclusiveLock, &store))
		elog(ERROR, "chunk store of table %u is gone", target->relid);
	for (int i = 0; i < nbefore; i++)
	{
		int64		from = before[i].source;
		int64		until = from + before[i].length;

		while (at < nafter && after[at].source + after[at].length <= from)
			at++;
		for (int k = at; from < until; k++)
		{
			int64		gap = k < nafter ? Min(after[k].source, until) : until;

			if (gap > from)
				delete_given_up(&store, base->vid, from, gap, after, nafter);
			if (k == nafter)
				break;
			from = Max(from, after[k].source + after[k].length);
		}
	}
	ab_store_close(&store, NoLock);
}

/*-------------------------------------------------------------------------
 *
 * store_pieces.c
 *	  Store a changed value as pieces of the old one and new chunks.
 *
 * Called by storing.c for a value that is an edit of the one in the replaced row version:
 * a function of the type made it (overlay, truncation, insertion), or a whole new value
 * was compared with the old one (find_pieces.c), which makes the same edit of it.  Only bytes that
 * the old value's chunks do not have are written, as chunks at the value's physical end;
 * the row gets a list of pieces (pieces.c), and the chunks that no piece needs any more
 * are deleted once the row is stored.
 *
 * Invariants, in addition to those of storing.c:
 *
 * No chunk covers another one: the places of a value are written once by transactions that did not
 * fail, in ascending order.
 *
 * The row version at hand needs the chunks that its pieces overlap and the one at the
 * physical end, by whose checksum a reader verifies the reference.  All others of the
 * value are deleted.
 *
 * Every change except an append raises the edition, which counts lists: a change without new
 * bytes leaves value id, end and checksum as they are.  Transactions that failed may have
 * made another list of the same edition, so a value's pieces are compared as well before
 * it is taken for the row's (ab_pieces_within).
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "table/table.h"

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

		/*
		 * both are in the same order, as a rule; a segment may be of several
		 * pieces
		 */
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
	int64		shared = ab_shared_bytes(value, old);

	return shared == ab_chunk_bytes(value) && (!same || shared == ab_chunk_bytes(old));
}

/*
 * The places of chunks that a value with these segments and this end needs, sorted;
 * returns how many.
 */
int
ab_needed_places(const AbSegment *segments, int count, int64 stored, AbSegment *places)
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

/* Compare a range with a place: 0 if they have a byte in common. */
static int
compare_range(const void *range, const void *place)
{
	const AbSegment *x = range;
	const AbSegment *y = place;

	if (x->source + x->length <= y->source)
		return -1;
	return x->source >= y->source + y->length;
}

/*
 * Is any byte of [from, until) in one of these places?  If the end is in another one of them, it is that
 * one's last byte, so both their starts and their ends ascend.
 */
bool
ab_meets_place(const AbSegment *places, int n, int64 from, int64 until)
{
	AbSegment	range = {.source = from,.length = until - from};

	return bsearch(&range, places, n, sizeof(AbSegment), compare_range) != NULL;
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
	int64		written = ab_literal_bytes(value->segments, value->nsegments) - rest;
	AbRef		ref = value->base;
	AbWriter   *writer = NULL;
	AbSegment  *pieces = palloc((value->nsegments + 1) * sizeof(AbSegment));
	int64		end = ref.stored;
	int			count = 0;
	const char *tail = NULL;

	if (value->edited)
		ref.edition++;
	if (written > 0)
		writer = ab_writer_open(target->relid, &ref, written);
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
	count = ab_join_segments(pieces, count);
	ref.pieces = true;
	storing->pieces = pieces;
	storing->npieces = count;
	storing->stored = ref.stored;
	return ab_make_stored(&ref, pieces, count, tail, rest, ab_room_for(target, rest));
}

/* Delete the chunks that overlap [from, until) and none of these places. */
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
		if (!ab_meets_place(places, n, chunk.off, chunk.off + chunk.length))
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
	int			nbefore = ab_needed_places(storing->old.segments, storing->old.nsegments, base->stored, before);
	int			nafter = ab_needed_places(storing->pieces, storing->npieces, storing->stored, after);
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

/*-------------------------------------------------------------------------
 *
 * pieces.c
 *	  Arithmetic on the list of pieces of a value (see pieces.h).
 *
 * Pure functions over small arrays: no memory, no storage, no errors.  Called
 * by the functions that write in the middle of a value or truncate it, by the
 * reader, and by everything that checks a datum.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "pieces.h"

int64
appendable_pieces_length(const AppendablePiece *pieces, int npieces)
{
	int64		total = 0;

	for (int i = 0; i < npieces; i++)
		total += pieces[i].length;
	return total;
}

bool
appendable_pieces_valid(const AppendablePiece *pieces, int npieces,
						int64 log_length)
{
	int64		total = 0;

	for (int i = 0; i < npieces; i++)
	{
		if (pieces[i].start < 0 || pieces[i].length <= 0 ||
			pieces[i].start > log_length ||
			pieces[i].length > log_length - pieces[i].start ||
			pg_add_s64_overflow(total, pieces[i].length, &total))
			return false;
	}
	return true;
}

/* Add a run to a list, merging it with the last one if it continues it. */
static int
add_piece(AppendablePiece *out, int n, int64 start, int64 length)
{
	if (length <= 0)
		return n;
	if (n > 0 && out[n - 1].start + out[n - 1].length == start)
	{
		out[n - 1].length += length;
		return n;
	}
	out[n].start = start;
	out[n].length = length;
	return n + 1;
}

int
appendable_pieces_replace(const AppendablePiece *pieces, int npieces,
						  int64 offset, int64 length,
						  int64 start, int64 added,
						  AppendablePiece *out)
{
	int64		end = offset + length;
	int64		pos = 0;
	int			n = 0;
	bool		placed = false;

	for (int i = 0; i < npieces; i++)
	{
		int64		first = pos;
		int64		last = pos + pieces[i].length;

		pos = last;

		/* what lies before the replaced range */
		if (first < offset)
			n = add_piece(out, n, pieces[i].start, Min(last, offset) - first);

		/* the new bytes, once everything before them is there */
		if (!placed && last >= offset)
		{
			n = add_piece(out, n, start, added);
			placed = true;
		}

		/* what lies behind it */
		if (last > end)
		{
			int64		skip = Max(end - first, 0);

			n = add_piece(out, n, pieces[i].start + skip,
						  pieces[i].length - skip);
		}
	}
	if (!placed)
		n = add_piece(out, n, start, added);
	return n;
}

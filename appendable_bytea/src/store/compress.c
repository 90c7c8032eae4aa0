/*-------------------------------------------------------------------------
 *
 * compress.c
 *	  Compressed chunks: writing values in them, and reading them.
 *
 * A compressed chunk holds as many bytes of a value as fit a page when they are compressed, up to
 * eight pages of them, in the form in which the server compresses a value inside a row.  So the
 * server's functions compress and decompress, and a query on the store returns the bytes.  How many
 * bytes will fit is not known in advance: two lengths are tried, the first one that of the chunk
 * before.  (Six tries save 0.2 % of the bytes of JSON lines and none of those of logs.)  Bytes that
 * do not get smaller by an eighth become plain chunks.
 *
 * A statement that stores a value cannot spend more on it than the server does, which
 * compresses each byte once.  So it takes a chunk that is full to three quarters, and after bytes
 * that do not compress it stores twice as many as before without a try.
 *
 * Compressed chunks are of new values, which compaction (compact.c) and storing.c write.  So
 * they are the first ones of their value.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/toast_internals.h"
#include "miscadmin.h"

#include "store/store.h"

/* lengths that are tried for one chunk: a guess, and one computed from its result */
#define MAX_TRIES		2

#define MAX_UNTRIED		255

/* bytes of a page that a chunk takes in addition to its data */
#define CHUNK_OVERHEAD	((int) (AB_CHUNK_ROW_HEADER + offsetof(AbChunkRow, data) + sizeof(ItemIdData)))

typedef struct AbCompressor
{
	AbWriter   *writer;
	AbReader   *reader;
	bool		quick;			/* a statement waits for it */
	bool		counted;		/* characters are, in the next field */
	int64		continuations;
	int64		at;				/* bytes that are in chunks */
	struct varlena *tried;		/* bytes after them that were tried */
	int			ntried;
	int			most;			/* of them */
	int			guess;			/* bytes that fit the next chunk */
	int			untried;		/* chunks that are plain before the next try */
	int			failed;			/* what it was after the last try */
} AbCompressor;

/* The first n bytes of a varlena, compressed; NULL if that does not pay. */
static struct varlena *
compress_first(struct varlena *plain, int n, bool quick)
{
	struct varlena *compressed;

	CHECK_FOR_INTERRUPTS();
	SET_VARSIZE(plain, n + VARHDRSZ);
	compressed = (struct varlena *) DatumGetPointer(toast_compress_datum(PointerGetDatum(plain), ab_compression));
	if (compressed && (int) VARSIZE(compressed) - VARHDRSZ > n - n / (quick ? 32 : 8))
	{
		pfree(compressed);
		compressed = NULL;
	}
	return compressed;
}

/*
 * Have the next n bytes in compressor->tried.  Not all that may be in a chunk: the server returns
 * the memory of a value of 100 kB to the kernel, so that each page that is touched costs a fault in
 * each UPDATE (88 instead of 99).
 */
static struct varlena *
read_tried(AbCompressor *compressor, int n)
{
	char	   *data = VARDATA(compressor->tried);
	int			added = n - compressor->ntried;

	if (added > 0)
	{
		ab_reader_read(compressor->reader, compressor->at + compressor->ntried, data + compressor->ntried, added);
		if (compressor->counted)
			compressor->continuations += ab_count_continuations(data + compressor->ntried, added);
		compressor->ntried = n;
	}
	return compressor->tried;
}

/* Would compaction make a smaller chunk of these bytes? */
bool
ab_compressible(const char *data, int length)
{
	struct varlena *plain = palloc(length + VARHDRSZ);
	struct varlena *compressed;

	memcpy(VARDATA(plain), data, length);
	compressed = compress_first(plain, length, false);
	pfree(plain);
	if (compressed)
		pfree(compressed);
	return compressed != NULL;
}

/*
 * All that may be in a chunk was compressed to less than a page: reduce it to a size of
 * which several chunks fill a page.  Heartbeats of which LZ4 makes a 14th take 90 pages
 * instead of 150 for ten values of 1 MB, and their compaction 12.3 million instructions a
 * value instead of 7.2.  Logs and JSON lines that become a half to a fourth never come here.
 */
static struct varlena *
compress_to_share_page(AbCompressor *compressor, struct varlena *all)
{
	int			stored = VARSIZE(all) - VARHDRSZ;
	int			in_page = ab_chunk_size / stored + 1;
	int			room = (ab_chunk_size + CHUNK_OVERHEAD) / in_page - CHUNK_OVERHEAD - MAXIMUM_ALIGNOF;
	int			n = compressor->most;
	struct varlena *compressed;

	if (stored > ab_chunk_size - ab_chunk_size / 50)
		return all;
	n = (int64) n * room / stored;
	n -= n / 100;
	compressed = n < ab_chunk_size ? NULL : compress_first(read_tried(compressor, n), n, compressor->quick);
	if (compressed && (int) VARSIZE(compressed) - VARHDRSZ > room)
	{
		pfree(compressed);
		compressed = NULL;
	}
	if (compressed == NULL)
		return all;
	pfree(all);
	return compressed;
}

/*
 * The longest run of the next bytes found that fits a chunk, compressed, or NULL if
 * compression does not pay.
 */
static struct varlena *
compress_to_fit(AbCompressor *compressor, int available)
{
	int			n = Min(available, compressor->guess);
	int			too_many = available + 1;	/* known not to fit */
	int			margin = compressor->quick ? 16 : 50;
	int			fits = 0;		/* known to fit, as "best" */
	struct varlena *best = NULL;

	for (int try = 0; try < MAX_TRIES; try++)
	{
		struct varlena *compressed = compress_first(read_tried(compressor, n), n, compressor->quick);
		int			stored = compressed ? VARSIZE(compressed) - VARHDRSZ : n;
		int64		next = (int64) n * ab_chunk_size / stored;

		if (compressed && stored <= ab_chunk_size)
		{
			if (best)
				pfree(best);
			best = compressed;
			fits = n;
			/* full, or nothing more to put in */
			if (n == available || stored > ab_chunk_size - ab_chunk_size / (compressor->quick ? 4 : 50))
				break;
			next -= next / (2 * margin);
		}
		else
		{
			if (compressed)
				pfree(compressed);
			else if (n <= ab_chunk_size || compressor->quick)
				break;
			too_many = n;
			next -= next / margin;
		}
		n = Min(next, too_many - 1);
		if (n <= fits)
			break;
	}
	if (best && fits == compressor->most && !compressor->quick)
		best = compress_to_share_page(compressor, best);

	/* a plain chunk is only for what does not compress by itself either */
	if (best == NULL && (!compressor->quick || too_many <= available))
		best = compress_first(read_tried(compressor, Min(available, ab_chunk_size)),
							  Min(available, ab_chunk_size), compressor->quick);
	return best;
}

/* Write the next chunk. */
static void
write_next(AbCompressor *compressor)
{
	int			available = Min(compressor->most, ab_reader_length(compressor->reader) - compressor->at);
	struct varlena *compressed = NULL;
	int			n;

	if (compressor->untried > 0)
		compressor->untried--;
	else if ((compressed = compress_to_fit(compressor, available)) == NULL && compressor->quick)
		compressor->untried = compressor->failed = Min(2 * compressor->failed + 1, MAX_UNTRIED);
	if (compressed)
	{
		n = VARDATA_COMPRESSED_GET_EXTSIZE(compressed);
		ab_writer_put_compressed(compressor->writer, compressed);
		compressor->guess = n;
		if (compressor->quick)
			compressor->guess = (int64) n * (ab_chunk_size - ab_chunk_size / 16) / (VARSIZE(compressed) - VARHDRSZ);
		compressor->guess = Max(compressor->guess, ab_chunk_size);
		pfree(compressed);
		compressor->failed = 0;
	}
	else
	{
		n = Min(available, ab_chunk_size);
		ab_writer_put(compressor->writer, VARDATA(read_tried(compressor, n)), n);
		compressor->guess = 2 * ab_chunk_size;
	}
	compressor->at += n;
	compressor->ntried -= n;
	memmove(VARDATA(compressor->tried), VARDATA(compressor->tried) + n, compressor->ntried);
}

/*
 * Write a value under a new id, in compressed chunks where that pays.  quick: a statement
 * waits for it.  ref->counted: count characters.
 */
void
ab_write_compressed(Oid relid, AbReader *reader, bool quick, AbRef *ref)
{
	/*
	 * Values of a table compress alike.  Without these, an INSERT of log or
	 * JSON lines takes 18 % more instructions if it has 20 kB, 4 % if it has
	 * 100 kB; without any guess from one chunk to the next, 1 MB takes 16 to
	 * 19 % more.
	 */
	static Oid	guessed_for = InvalidOid;
	static int	guessed = 0;
	AbRef		none = {0};
	AbCompressor compressor = {0};
	const int64 length = ab_reader_length(reader);

	compressor.writer = ab_writer_open(relid, &none, length);
	compressor.reader = reader;
	compressor.quick = quick;
	compressor.counted = ref->counted;
	/* smaller chunks are for tests */
	compressor.most = Min(AB_COMPRESSED_MAX, 8 * ab_chunk_size);
	compressor.guess = quick ? ab_chunk_size + ab_chunk_size / 2 : 2 * ab_chunk_size;
	if (quick && relid == guessed_for)
		compressor.guess = guessed;
	compressor.tried = palloc(Min(compressor.most, length) + VARHDRSZ);
	while (compressor.at < length)
		write_next(&compressor);
	guessed_for = relid;
	guessed = compressor.guess;
	pfree(compressor.tried);
	ab_writer_close(compressor.writer, ref);
	ref->counted = compressor.counted;
	ref->continuations = compressor.continuations;
}

/*
 * The first bytes of a compressed chunk that is what its crc says.  Only one that was forged can
 * be no compressed data, and only one of another server be compressed by a method that this
 * one lacks: an error of the server's, or NULL for the lenient.
 */
struct varlena *
ab_decompress(const AbChunk *chunk, int length, bool lenient)
{
	struct varlena *compressed = (struct varlena *) (chunk->stored - VARHDRSZ);
	MemoryContext context = CurrentMemoryContext;
	struct varlena *volatile result = NULL;

	PG_TRY();
	{
		result = length == chunk->length ? detoast_attr(compressed) : detoast_attr_slice(compressed, 0, length);
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		MemoryContextSwitchTo(context);
		if (!lenient || (code != ERRCODE_DATA_CORRUPTED && code != ERRCODE_FEATURE_NOT_SUPPORTED &&
						 code != ERRCODE_INTERNAL_ERROR))
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	if (result && (int) VARSIZE(result) - VARHDRSZ != length)
	{
		pfree(result);
		result = NULL;
	}
	return result;
}

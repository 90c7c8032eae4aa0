/*-------------------------------------------------------------------------
 *
 * type_hash.c
 *	  Hashes of a value: the cryptographic ones, and the ones behind hash
 *	  joins, hash aggregation, hash indexes and hash partitioning.
 *
 * All of them read the value as a stream, so they need one chunk of memory
 * whatever the value's length.  Cryptographic hashes give what the functions of
 * the same name give for bytea.
 *
 * The internal hash must depend on the bytes alone, not on how they lie in
 * chunks, and bytea values hash the same so that the two types can be joined.
 * It takes the value in blocks of HASH_BLOCK bytes: the first is hashed as core
 * hashes a bytea, each further one with the hash so far as its seed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/hashfn.h"
#include "common/md5.h"
#include "common/sha2.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "type/type.h"

#define HASH_BLOCK 8192

PG_FUNCTION_INFO_V1(appendable_md5);
PG_FUNCTION_INFO_V1(appendable_hash);
PG_FUNCTION_INFO_V1(bytea_hash);
PG_FUNCTION_INFO_V1(appendable_text_hash);
PG_FUNCTION_INFO_V1(text_hash);

/* Compute a cryptographic hash of "size" bytes. */
static void
compute_digest(Datum value, pg_cryptohash_type type, const char *name, uint8 *result, int size)
{
	AbReader   *reader = ab_reader_open(value);
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(type);
	bool		failed = pg_cryptohash_init(ctx) < 0;
	const char *data;
	int64		len;

	while (!failed && (len = ab_reader_next(reader, &data)) > 0)
		failed = pg_cryptohash_update(ctx, (const uint8 *) data, len) < 0;
	if (failed || pg_cryptohash_final(ctx, result, size) < 0)
		elog(ERROR, "could not compute %s hash: %s", name, pg_cryptohash_error(ctx));
	pg_cryptohash_free(ctx);
	ab_reader_close(reader);
}

/* md5() as hexadecimal text */
Datum
appendable_md5(PG_FUNCTION_ARGS)
{
	uint8		sum[MD5_DIGEST_LENGTH];
	char		hex[MD5_DIGEST_LENGTH * 2];

	compute_digest(PG_GETARG_DATUM(0), PG_MD5, "MD5", sum, MD5_DIGEST_LENGTH);
	hex_encode((char *) sum, MD5_DIGEST_LENGTH, hex);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(hex, sizeof(hex)));
}

static bytea *
compute_sha2(Datum value, pg_cryptohash_type type, const char *name, int size)
{
	bytea	   *result = palloc(VARHDRSZ + size);

	SET_VARSIZE(result, VARHDRSZ + size);
	compute_digest(value, type, name, (uint8 *) VARDATA(result), size);
	return result;
}

AB_FUNCTION(appendable_sha224, PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA224, "SHA224", PG_SHA224_DIGEST_LENGTH)));
AB_FUNCTION(appendable_sha256, PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA256, "SHA256", PG_SHA256_DIGEST_LENGTH)));
AB_FUNCTION(appendable_sha384, PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA384, "SHA384", PG_SHA384_DIGEST_LENGTH)));
AB_FUNCTION(appendable_sha512, PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA512, "SHA512", PG_SHA512_DIGEST_LENGTH)));

/*
 * The internal hash with a seed; its low 32 bits with seed 0 are the hash
 * without a seed, which is what core asks of the two support functions, which
 * are one function here.  Closes the reader.
 */
static uint64
hash_bytes_of(AbReader *reader, uint64 seed)
{
	unsigned char block[HASH_BLOCK];
	int			fill = 0;
	bool		first = true;
	const char *data;
	int64		len;

	while ((len = ab_reader_next(reader, &data)) > 0)
	{
		for (int n; len > 0; data += n, len -= n)
		{
			n = Min(len, HASH_BLOCK - fill);
			memcpy(block + fill, data, n);
			fill += n;
			if (fill < HASH_BLOCK)
				continue;
			/* a seed of 0 means "no seed" to the hash function */
			seed = hash_bytes_extended(block, fill, first ? seed : seed | 1);
			first = false;
			fill = 0;
		}
	}
	ab_reader_close(reader);
	if (fill > 0 || first)
		seed = hash_bytes_extended(block, fill, first ? seed : seed | 1);
	return seed;
}

/* A hash as the result of either support function: only the one with a seed has an int8. */
static Datum
hash_result(FunctionCallInfo fcinfo, AbReader *reader)
{
	if (PG_NARGS() == 1)
		PG_RETURN_INT32((int32) hash_bytes_of(reader, 0));
	PG_RETURN_INT64((int64) hash_bytes_of(reader, (uint64) PG_GETARG_INT64(1)));
}

Datum
appendable_hash(PG_FUNCTION_ARGS)
{
	return hash_result(fcinfo, ab_reader_open(PG_GETARG_DATUM(0)));
}

Datum
bytea_hash(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	Datum		result = hash_result(fcinfo, ab_reader_open_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)));

	PG_FREE_IF_COPY(bytes, 0);
	return result;
}

/*
 * Texts that a collation finds equal have the same hash: core's, of the whole text,
 * where these may have different bytes.
 */
Datum
appendable_text_hash(PG_FUNCTION_ARGS)
{
	if (ab_is_deterministic(PG_GET_COLLATION()))
		return appendable_hash(fcinfo);
	return ab_call_whole(fcinfo, PG_NARGS() == 1 ? hashtext : hashtextextended);
}

Datum
text_hash(PG_FUNCTION_ARGS)
{
	if (ab_is_deterministic(PG_GET_COLLATION()))
		return bytea_hash(fcinfo);
	return PG_NARGS() == 1 ? hashtext(fcinfo) : hashtextextended(fcinfo);
}

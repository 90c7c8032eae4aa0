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
#include "utils/lsyscache.h"

#include "type/type.h"

#define HASH_BLOCK 8192

PG_FUNCTION_INFO_V1(appendable_md5);
PG_FUNCTION_INFO_V1(appendable_sha224);
PG_FUNCTION_INFO_V1(appendable_sha256);
PG_FUNCTION_INFO_V1(appendable_sha384);
PG_FUNCTION_INFO_V1(appendable_sha512);
PG_FUNCTION_INFO_V1(appendable_hash);
PG_FUNCTION_INFO_V1(appendable_hash_extended);
PG_FUNCTION_INFO_V1(bytea_hash);
PG_FUNCTION_INFO_V1(bytea_hash_extended);
PG_FUNCTION_INFO_V1(appendable_text_hash);
PG_FUNCTION_INFO_V1(appendable_text_hash_extended);
PG_FUNCTION_INFO_V1(text_hash);
PG_FUNCTION_INFO_V1(text_hash_extended);

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

Datum
appendable_sha224(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA224, "SHA224", PG_SHA224_DIGEST_LENGTH));
}

Datum
appendable_sha256(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA256, "SHA256", PG_SHA256_DIGEST_LENGTH));
}

Datum
appendable_sha384(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA384, "SHA384", PG_SHA384_DIGEST_LENGTH));
}

Datum
appendable_sha512(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(compute_sha2(PG_GETARG_DATUM(0), PG_SHA512, "SHA512", PG_SHA512_DIGEST_LENGTH));
}

/* The internal hash being computed. */
typedef struct ValueHash
{
	uint64		seed;
	uint64		hash;			/* of the blocks that are complete */
	bool		first;			/* no block is */
	int			fill;
	char		block[HASH_BLOCK];	/* that is being filled */
} ValueHash;

static void
hash_begin(ValueHash *state, uint64 seed)
{
	state->seed = seed;
	state->hash = 0;
	state->first = true;
	state->fill = 0;
}

/* Hash the block; the first one is hashed as core hashes a bytea. */
static void
hash_block(ValueHash *state)
{
	/* a seed of 0 means "no seed" to the hash function */
	state->hash = hash_bytes_extended((const unsigned char *) state->block, state->fill,
									  state->first ? state->seed : state->hash | 1);
	state->first = false;
	state->fill = 0;
}

static void
hash_add(ValueHash *state, const char *data, int64 len)
{
	while (len > 0)
	{
		int			n = Min(len, HASH_BLOCK - state->fill);

		memcpy(state->block + state->fill, data, n);
		state->fill += n;
		if (state->fill == HASH_BLOCK)
			hash_block(state);
		data += n;
		len -= n;
	}
}

static uint64
hash_finish(ValueHash *state)
{
	if (state->fill > 0 || state->first)
		hash_block(state);
	return state->hash;
}

/*
 * The internal hash with a seed; its low 32 bits with seed 0 are the hash
 * without a seed, which is what core asks of the two support functions.
 */
static uint64
hash_value(Datum value, uint64 seed)
{
	ValueHash	state;
	AbReader   *reader = ab_reader_open(value);
	const char *data;
	int64		len;

	hash_begin(&state, seed);
	while ((len = ab_reader_next(reader, &data)) > 0)
		hash_add(&state, data, len);
	ab_reader_close(reader);
	return hash_finish(&state);
}

static uint64
hash_bytea(bytea *bytes, uint64 seed)
{
	ValueHash	state;

	hash_begin(&state, seed);
	hash_add(&state, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	return hash_finish(&state);
}

Datum
appendable_hash(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32((int32) hash_value(PG_GETARG_DATUM(0), 0));
}

Datum
appendable_hash_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) hash_value(PG_GETARG_DATUM(0), (uint64) PG_GETARG_INT64(1)));
}

Datum
bytea_hash(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	uint64		hash = hash_bytea(bytes, 0);

	PG_FREE_IF_COPY(bytes, 0);
	PG_RETURN_INT32((int32) hash);
}

Datum
bytea_hash_extended(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	uint64		hash = hash_bytea(bytes, (uint64) PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(bytes, 0);
	PG_RETURN_INT64((int64) hash);
}

/*
 * Texts that a collation finds equal have the same hash: core's, of the whole text,
 * where these may have different bytes.
 */
static bool
is_deterministic(Oid collation)
{
	return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

Datum
appendable_text_hash(PG_FUNCTION_ARGS)
{
	if (is_deterministic(PG_GET_COLLATION()))
		return appendable_hash(fcinfo);
	return DirectFunctionCall1Coll(hashtext, PG_GET_COLLATION(),
								   PointerGetDatum(ab_read_whole(PG_GETARG_DATUM(0))));
}

Datum
appendable_text_hash_extended(PG_FUNCTION_ARGS)
{
	if (is_deterministic(PG_GET_COLLATION()))
		return appendable_hash_extended(fcinfo);
	return DirectFunctionCall2Coll(hashtextextended, PG_GET_COLLATION(),
								   PointerGetDatum(ab_read_whole(PG_GETARG_DATUM(0))),
								   PG_GETARG_DATUM(1));
}

Datum
text_hash(PG_FUNCTION_ARGS)
{
	if (is_deterministic(PG_GET_COLLATION()))
		return bytea_hash(fcinfo);
	return DirectFunctionCall1Coll(hashtext, PG_GET_COLLATION(), PG_GETARG_DATUM(0));
}

Datum
text_hash_extended(PG_FUNCTION_ARGS)
{
	if (is_deterministic(PG_GET_COLLATION()))
		return bytea_hash_extended(fcinfo);
	return DirectFunctionCall2Coll(hashtextextended, PG_GET_COLLATION(),
								   PG_GETARG_DATUM(0), PG_GETARG_DATUM(1));
}

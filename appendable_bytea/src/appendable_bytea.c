/*-------------------------------------------------------------------------
 *
 * appendable_bytea.c
 *	  Entry point: settings first, in one table, then each part installs what it needs.
 *
 * The library works preloaded, and loaded by the first table or value of the type
 * that a session uses: its access method, its functions and its event trigger
 * all load it.
 *
 * The sizes decide what new rows look like; values that were stored under other settings
 * stay readable.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/toast_compression.h"
#include "utils/guc.h"

#include "compat_module.h"
#include "client/client.h"
#include "ddl/ddl.h"

PG_MODULE_MAGIC_COMPAT("appendable_bytea");

void		_PG_init(void);

int			ab_max_size_mb = 1023;
int			ab_inline_max = 2000;
int			ab_tail_max = 500;
int			ab_chunk_size;
bool		ab_store_differences = false;
bool		ab_compress_new = true;
int			ab_difference_memory_kb = 65536;
int			ab_max_pieces = AB_MAX_PIECES;

/* LZ4 where the server has it */
#ifdef USE_LZ4
int			ab_compression = TOAST_LZ4_COMPRESSION;
#else
int			ab_compression = TOAST_PGLZ_COMPRESSION;
#endif

static const struct config_enum_entry compressions[] = {
	{"pglz", TOAST_PGLZ_COMPRESSION, false},
#ifdef USE_LZ4
	{"lz4", TOAST_LZ4_COMPRESSION, false},
#endif
	{NULL, 0, false}
};

static const struct config_enum_entry client_types[] = {
	{"bytea", AB_CLIENT_BYTEA, false},
	{"own", AB_CLIENT_OWN, false},
	{NULL, 0, false}
};

/* Define all settings and reserve their prefix. */
static void
define_settings(void)
{
	DefineCustomIntVariable("appendable_bytea.max_size",
							"Sets the largest size of an appendable value.",
							"Values beyond 1 GB can be stored by appends and read in slices only; pg_dump cannot dump them.",
							&ab_max_size_mb,
							1023, 1, INT_MAX,
							PGC_USERSET,
							GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("appendable_bytea.inline_max",
							"Sets the largest value that a row keeps without chunks when it is inserted.",
							NULL,
							&ab_inline_max,
							2000, 0, 4000,
							PGC_USERSET,
							GUC_UNIT_BYTE,
							NULL, NULL, NULL);
	DefineCustomIntVariable("appendable_bytea.tail_max",
							"Sets the number of appended bytes that a row collects before they become a chunk.",
							"The limit is lower for tables that are logically decoded, because their rows are logged in full.",
							&ab_tail_max,
							500, 0, 2000,
							PGC_USERSET,
							GUC_UNIT_BYTE,
							NULL, NULL, NULL);
	DefineCustomIntVariable("appendable_bytea.chunk_size",
							"Sets the largest chunk that is written.",
							"The default fills a page. Smaller chunks are for tests.",
							&ab_chunk_size,
							AB_CHUNK_MAX, 64, AB_CHUNK_MAX,
							PGC_SUSET,
							GUC_UNIT_BYTE | GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("appendable_bytea.store_differences",
							 "Enables storing only the difference when a value is replaced by another one that was sent whole.",
							 "A value that was stored in pieces stays in pieces when this is off.",
							 &ab_store_differences,
							 false,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("appendable_bytea.compress_new",
							 "Enables compressing values that are stored whole.",
							 "Appended bytes and differences are not compressed until compaction.",
							 &ab_compress_new,
							 true,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("appendable_bytea.difference_memory",
							"Sets the largest part of a replaced value that is searched for common bytes.",
							"The common start and end are not part of it. It is kept in memory. Zero compares start and end only.",
							&ab_difference_memory_kb,
							65536, 0, 262144,
							PGC_USERSET,
							GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("appendable_bytea.max_pieces",
							"Sets the maximum number of pieces of a value.",
							"Fewer pieces are read faster, but more bytes are written.",
							&ab_max_pieces,
							AB_MAX_PIECES, 2, AB_MAX_PIECES,
							PGC_USERSET,
							0,
							NULL, NULL, NULL);
	DefineCustomEnumVariable("appendable_bytea.client_type",
							 "Selects the type that clients see: bytea, or the type itself.",
							 "Prepared statements keep the type with which they were prepared.",
							 &ab_client_type,
							 AB_CLIENT_BYTEA, client_types,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("appendable_bytea.compression",
							 "Selects the compression method of chunks.",
							 "Compressed chunks are not changed, and every server that was built with the method can read them.",
							 &ab_compression,
							 ab_compression, compressions,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	MarkGUCPrefixReserved("appendable_bytea");
}

void
_PG_init(void)
{
	define_settings();
	ab_names_install();
	ab_am_install();
	ab_chunk_cursor_install();
	ab_ddl_install();
	ab_own_forms_install();
	ab_protocol_install();
}

/*-------------------------------------------------------------------------
 *
 * appendable_bytea.c
 *	  Entry point: settings first, then each part installs what it needs.
 *
 * The library works preloaded, and loaded by the first table or value of the type
 * that a session uses: its access method, its functions and its event trigger
 * all load it.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_module.h"
#include "client/client.h"
#include "ddl/ddl.h"

PG_MODULE_MAGIC_COMPAT("appendable_bytea");

void		_PG_init(void);

void
_PG_init(void)
{
	ab_define_settings();
	ab_names_install();
	ab_am_install();
	ab_chunk_cursor_install();
	ab_ddl_install();
	ab_own_forms_install();
	ab_protocol_install();
}

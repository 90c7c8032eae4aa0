/*-------------------------------------------------------------------------
 *
 * compat_module.h
 *	  What a library tells the server about itself.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_MODULE_H
#define COMPAT_MODULE_H

#include "fmgr.h"

/* META.json's */
#define PG_LEAN_VERSION "0.9.0"

/*
 * Stands where PG_MODULE_MAGIC would; from 18 on pg_get_loaded_modules() shows
 * the library's name and version.
 */
#if PG_VERSION_NUM >= 180000
#define PG_MODULE_MAGIC_COMPAT(library) \
	PG_MODULE_MAGIC_EXT(.name = library, .version = PG_LEAN_VERSION)
#else
#define PG_MODULE_MAGIC_COMPAT(library) PG_MODULE_MAGIC
#endif

#endif							/* COMPAT_MODULE_H */

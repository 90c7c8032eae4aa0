/*-------------------------------------------------------------------------
 *
 * recycled_temp.c
 *	  Entry point: settings, and which servers are supported.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "compat_module.h"
#include "recycled_temp.h"

PG_MODULE_MAGIC_COMPAT("recycled_temp");

PG_FUNCTION_INFO_V1(recycled_temp_status);

bool		recycled_enabled = false;
int			recycled_max_tables = 32;
int			recycled_keep_size = 128;
int			recycled_idle_timeout = 600000;
int			recycled_after_drops = 2;

long		recycled_kept = 0;
long		recycled_reused = 0;

/* The major versions whose catalogs test/sql/catalogs.sql has compared. */
static const int compared_majors[] = {15, 16, 17, 18, 19};

static bool
check_enabled(bool *newval, void **extra, GucSource source)
{
	if (*newval && hooks_obstacle() != NULL)
	{
		GUC_check_errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
		GUC_check_errmsg("recycled_temp cannot be enabled");
		GUC_check_errdetail("%s.", hooks_obstacle());
		GUC_check_errhint("Make recycled_temp the first library of shared_preload_libraries.");
		return false;
	}
	return true;
}

void		_PG_init(void);

void
_PG_init(void)
{
	int			major = atoi(GetConfigOption("server_version_num", false, false)) / 10000;
	bool		compared = false;

	for (int i = 0; i < lengthof(compared_majors); i++)
		compared |= compared_majors[i] == major;
	if (!compared)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("recycled_temp does not support PostgreSQL %d", major),
				 errdetail("The catalog rows of this version have not been compared.")));
	hooks_install();
	DefineCustomBoolVariable("recycled_temp.enabled",
							 "Enables keeping dropped temporary tables for tables of the same columns.",
							 "Tables in the pool are dropped when the session ends, or after recycled_temp.idle_timeout.",
							 &recycled_enabled,
							 false,
							 PGC_USERSET,
							 0,
							 check_enabled, NULL, NULL);
	DefineCustomIntVariable("recycled_temp.max_tables",
							"Sets the number of tables that a session keeps.",
							"If there are more, the table that was dropped first is removed.",
							&recycled_max_tables,
							32, 0, 10000,
							PGC_USERSET,
							0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("recycled_temp.keep_size",
							"Sets the size of a TOAST table or index above which a table is not kept.",
							"The rows of a table without a key take no space once it is dropped.",
							&recycled_keep_size,
							128, 1, INT_MAX / 2,
							PGC_USERSET,
							GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("recycled_temp.idle_timeout",
							"Sets the time after which a table in the pool is dropped.",
							"Zero keeps tables until the session ends.",
							&recycled_idle_timeout,
							600000, 0, INT_MAX / 2,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("recycled_temp.after_drops",
							"Sets the number of DROPs of tables with the same columns from which on a table is kept.",
							NULL,
							&recycled_after_drops,
							2, 1, INT_MAX,
							PGC_USERSET,
							0,
							NULL, NULL, NULL);
	MarkGUCPrefixReserved("recycled_temp");
	if (hooks_obstacle() != NULL)
		ereport(LOG,
				(errmsg("recycled_temp is disabled: %s", hooks_obstacle()),
				 errhint("Make recycled_temp the first library of shared_preload_libraries.")));
}

/* recycled_temp_status(OUT kept, OUT reused, OUT obstacle): the counts are those of this session */
Datum
recycled_temp_status(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(recycled_kept);
	values[1] = Int64GetDatum(recycled_reused);
	nulls[2] = hooks_obstacle() == NULL;
	if (!nulls[2])
		values[2] = CStringGetTextDatum(hooks_obstacle());
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  appendable_append: many appends to many rows in one statement.
 *
 * The pieces for one row are joined first, in the order of the arrays, so a row is updated
 * once however many pieces it gets.  Then the rows are updated one after the other by an
 * ordinary UPDATE that finds them by a unique column: privileges, row security, triggers,
 * generated columns, partitions and HOT need no code here.  A row is found by a key if it is
 * found by "WHERE column = key", and by the unique index, so keys are of the same row if the
 * index's operator family has them equal.  Rows are updated in the order of that family, so
 * that two concurrent calls wait for each other and do not deadlock.  A view has no index: there,
 * the family is the default one of the type, and a key of several rows is an error.
 *
 * A call may give the length that each value must have, so that an append which is repeated
 * changes nothing: it is a condition of that UPDATE, and a recheck after a wait sees it too.
 * With skip_locked, each row is locked by a SELECT ... SKIP LOCKED first.
 *
 * The plan of that UPDATE is kept for the session, by its text; the server replans it
 * if an object that it depends on has changed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "parser/parse_oper.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#include "table/table.h"

PG_FUNCTION_INFO_V1(appendable_append);

/* plans that a session keeps */
#define KEPT_PLANS		64

typedef struct KeptPlan
{
	const char *query;
	Oid			key_type;
	Oid			chunk_type;
	SPIPlanPtr	plan;
} KeptPlan;

static KeptPlan kept_plans[KEPT_PLANS];
static int	nkept_plans = 0;
static MemoryContext kept_queries = NULL;

/* The table's columns that a call is about, and how keys are compared. */
typedef struct Target
{
	Relation	rel;
	Form_pg_attribute column;
	Form_pg_attribute key;
	Oid			opfamily;		/* of the key's unique index, or type */
	Oid			equal;			/* its operator: key column = key */
	Oid			key_type;		/* right operand of that operator */
	FmgrInfo	compare;		/* orders values of key_type as the index does */
} Target;

/* One piece for a row. */
typedef struct Piece
{
	Datum		given;			/* the key */
	Datum		key;			/* the same as a value of Target.key_type */
	struct varlena *data;
	int64		offset;			/* where it must begin; -1: anywhere */
	int			number;			/* among those that were given */
} Piece;

/* The column to append to: the one of that name, or the only one that takes such chunks. */
static Form_pg_attribute
find_column(Relation rel, const char *name, Oid chunk_type)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Form_pg_attribute found = NULL;

	for (AttrNumber n = 0; (n = ab_next_column(desc, n)) > 0;)
	{
		Form_pg_attribute column = TupleDescAttr(desc, n - 1);

		if (ab_type_of(column->atttypid)->plain != chunk_type ||
			(name && strcmp(NameStr(column->attname), name) != 0))
			continue;
		if (found)
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_COLUMN),
					 errmsg("table \"%s\" has more than one column that %s can be appended to",
							RelationGetRelationName(rel), format_type_be(chunk_type)),
					 errhint("Specify the column name.")));
		found = column;
	}
	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 name ?
				 errmsg("table \"%s\" has no column \"%s\" that %s can be appended to",
						RelationGetRelationName(rel), name, format_type_be(chunk_type)) :
				 errmsg("table \"%s\" has no column that %s can be appended to",
						RelationGetRelationName(rel), format_type_be(chunk_type))));
	return found;
}

/* Does an index keep one column, and that alone, unique over all rows? */
static bool
is_key(Relation index)
{
	Form_pg_index form = index->rd_index;

	return form->indisunique && form->indisvalid && form->indimmediate && form->indnkeyatts == 1 &&
		form->indkey.values[0] > 0 &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);
}

/* Find the column that rows are found by: the one of that name, which must be unique, but of a view is any, or the primary key. */
static void
find_key(Target *target, const char *name)
{
	Relation	rel = target->rel;
	ListCell   *lc;

	target->key = NULL;
	if (rel->rd_rel->relkind == RELKIND_VIEW && name && get_attnum(RelationGetRelid(rel), name) > 0)
	{
		target->key = TupleDescAttr(RelationGetDescr(rel), get_attnum(RelationGetRelid(rel), name) - 1);
		target->opfamily = lookup_type_cache(getBaseType(target->key->atttypid), TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	}
	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (is_key(index))
		{
			Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), index->rd_index->indkey.values[0] - 1);

			if (name ? strcmp(NameStr(column->attname), name) == 0 : index->rd_index->indisprimary)
			{
				target->key = column;
				target->opfamily = index->rd_opfamily[0];
			}
		}
		index_close(index, AccessShareLock);
	}
	if (target->key == NULL && name)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" has no unique index on its column \"%s\" alone",
						RelationGetRelationName(rel), name)));
	if (target->key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" has no primary key of one column", RelationGetRelationName(rel)),
				 errhint("Specify a unique column, or use UPDATE ... FROM unnest(...).")));
}

/*
 * Find how the key column is compared with keys of this type: by the operator that
 * "column = key" means.  It must be one of the unique index, which then finds the row,
 * and whose order tells which keys are of the same row.
 */
static void
find_operator(Target *target, Oid type)
{
	Oid			column_type = getBaseType(target->key->atttypid);
	Operator	operator = oper(NULL, list_make1(makeString("=")), column_type, type, true, -1);
	int			strategy;
	Oid			left;
	Oid			right;
	Oid			compare;

	target->equal = operator ? oprid(operator) : InvalidOid;
	if (operator)
	{
		target->key_type = ((Form_pg_operator) GETSTRUCT(operator))->oprright;
		ReleaseSysCache((HeapTuple) operator);
	}
	if (!OidIsValid(target->equal) ||
		get_op_opfamily_strategy(target->equal, target->opfamily) != BTEqualStrategyNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("the unique index on column \"%s\" of table \"%s\" cannot find keys of type %s",
						NameStr(target->key->attname), RelationGetRelationName(target->rel), format_type_be(type)),
				 errhint("Cast the keys to %s[].", format_type_with_typemod(target->key->atttypid, target->key->atttypmod))));
	get_op_opfamily_properties(target->equal, target->opfamily, false, &strategy, &left, &right);
	compare = get_opfamily_proc(target->opfamily, right, right, BTORDER_PROC);
	if (!OidIsValid(compare))
		elog(ERROR, "operator family %u cannot compare type %u", target->opfamily, right);
	fmgr_info(compare, &target->compare);
	if (IsPolymorphicType(target->key_type))
		target->key_type = type;
}

/* The statements about one row; $1 is its key. */
typedef struct RowQueries
{
	char	   *append;			/* $2: what is appended; $3, if offsets are
								 * given: the length before, or null */
	char	   *length;			/* no row if there is no such row */
	char	   *lock;			/* no row if there is none, or it is locked */
} RowQueries;

static void
make_queries(const Target *target, bool offsets, RowQueries *queries)
{
	HeapTuple	operator = SearchSysCache1(OPEROID, ObjectIdGetDatum(target->equal));
	Form_pg_operator form;
	const char *column = quote_identifier(NameStr(target->column->attname));
	const AbType *type = ab_type_of(target->column->atttypid);
	char	   *table;
	char	   *where;
	char	   *length;

	if (!HeapTupleIsValid(operator))
		elog(ERROR, "cache lookup failed for operator %u", target->equal);
	form = (Form_pg_operator) GETSTRUCT(operator);
	table = psprintf("%s%s t", target->rel->rd_rel->relkind == RELKIND_RELATION ? "ONLY " : "",
					 ab_qualified_name(target->rel));
	where = psprintf("t.%s OPERATOR(%s.%s) $1", quote_identifier(NameStr(target->key->attname)),
					 quote_identifier(get_namespace_name(form->oprnamespace)), NameStr(form->oprname));
	length = psprintf("%s.%s(t.%s)", quote_identifier(get_namespace_name(ab_extension_schema())),
					  type->plain == TEXTOID ? "appendable_octet_length" : "appendable_length", column);
	queries->append = psprintf("UPDATE %s SET %s = coalesce(t.%s, ''::%s) OPERATOR(pg_catalog.||) $2 WHERE %s%s RETURNING %s",
							   table, column, column, format_type_be_qualified(type->oid), where,
							   offsets ? psprintf(" AND ($3 IS NULL OR coalesce(%s, 0) OPERATOR(pg_catalog.=) $3)", length) : "",
							   length);
	queries->length = psprintf("SELECT coalesce(%s, 0) FROM %s WHERE %s", length, table, where);
	queries->lock = psprintf("SELECT NULL::bigint FROM %s WHERE %s FOR NO KEY UPDATE SKIP LOCKED", table, where);
	ReleaseSysCache(operator);
}

/* The plan of a query of nargs parameters, kept if there is space. */
static SPIPlanPtr
find_plan(const char *query, int nargs, Oid key_type, Oid chunk_type)
{
	Oid			types[3] = {key_type, chunk_type, INT8OID};
	SPIPlanPtr	plan;

	for (int i = 0; i < nkept_plans; i++)
	{
		const KeptPlan *kept = &kept_plans[i];

		if (kept->key_type == key_type && kept->chunk_type == chunk_type && strcmp(kept->query, query) == 0)
			return kept->plan;
	}

	/* a row that is found by its key is planned alike for all keys */
	plan = SPI_prepare_cursor(query, nargs, types, CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", query, SPI_result_code_string(SPI_result));
	if (nkept_plans < KEPT_PLANS)
	{
		/* memory is taken before the plan is kept: nothing fails after that */
		if (kept_queries == NULL)
			kept_queries = AllocSetContextCreate(TopMemoryContext, "appendable_append queries", ALLOCSET_SMALL_SIZES);
		kept_plans[nkept_plans] = (KeptPlan)
		{
			MemoryContextStrdup(kept_queries, query), key_type, chunk_type, plan
		};
		SPI_keepplan(plan);
		nkept_plans++;
	}
	return plan;
}

static int
compare_keys(Target *target, const Piece *a, const Piece *b)
{
	return DatumGetInt32(FunctionCall2Coll(&target->compare, target->key->attcollation, a->key, b->key));
}

static int
compare_pieces(const void *a, const void *b, void *arg)
{
	const Piece *x = a;
	const Piece *y = b;
	int			result = compare_keys(arg, x, y);

	return result ? result : x->number - y->number;
}

/* The pieces of two arrays, or three: offsets may be NULL. */
static Piece *
take_pieces(ArrayType *keys, ArrayType *chunks, ArrayType *offsets, int *count)
{
	Oid			key_type = ARR_ELEMTYPE(keys);
	int16		length;
	bool		by_value;
	char		align;
	Datum	   *key_values;
	Datum	   *chunk_values;
	bool	   *key_nulls;
	bool	   *chunk_nulls;
	int			nchunks;
	Datum	   *offset_values = NULL;
	bool	   *offset_nulls = NULL;
	int			noffsets;
	Piece	   *pieces;

	get_typlenbyvalalign(key_type, &length, &by_value, &align);
	deconstruct_array(keys, key_type, length, by_value, align, &key_values, &key_nulls, count);
	get_typlenbyvalalign(ARR_ELEMTYPE(chunks), &length, &by_value, &align);
	deconstruct_array(chunks, ARR_ELEMTYPE(chunks), length, by_value, align, &chunk_values, &chunk_nulls, &nchunks);
	if (nchunks != *count)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("numbers of keys and chunks differ: %d and %d", *count, nchunks),
				 errhint("Each chunk is appended to the row of the key in the same place.")));
	if (offsets)
	{
		get_typlenbyvalalign(INT8OID, &length, &by_value, &align);
		deconstruct_array(offsets, INT8OID, length, by_value, align, &offset_values, &offset_nulls, &noffsets);
		if (noffsets != *count)
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("numbers of keys and offsets differ: %d and %d", *count, noffsets),
					 errhint("An offset is the length of the value before the chunk in the same place; a null offset accepts any length.")));
	}
	pieces = palloc(Max(*count, 1) * sizeof(Piece));
	for (int i = 0; i < *count; i++)
	{
		if (key_nulls[i] || chunk_nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("key and chunk %d must not be null", i + 1)));
		pieces[i].given = pieces[i].key = key_values[i];
		pieces[i].data = PG_DETOAST_DATUM_PACKED(chunk_values[i]);
		pieces[i].number = i;
		pieces[i].offset = -1;
		if (offsets && !offset_nulls[i])
		{
			pieces[i].offset = DatumGetInt64(offset_values[i]);
			if (pieces[i].offset < 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("offset %d must not be negative: %lld", i + 1, (long long) pieces[i].offset)));
		}
	}
	return pieces;
}

/* Make the keys of type "from", by an implicit cast, those of type "to". */
static void
convert_keys(Piece *pieces, int count, Oid from, Oid to)
{
	Oid			function;
	CoercionPathType path = find_coercion_pathway(to, getBaseType(from), COERCION_IMPLICIT, &function);

	if (path == COERCION_PATH_RELABELTYPE || path == COERCION_PATH_NONE)
		return;
	Assert(path == COERCION_PATH_FUNC && get_func_nargs(function) == 1);
	for (int i = 0; i < count; i++)
		pieces[i].key = OidFunctionCall1(function, pieces[i].given);
}

/* Join n pieces of one row. */
static struct varlena *
join_pieces(const Piece *pieces, int n)
{
	int64		size = VARHDRSZ;
	struct varlena *result;
	char	   *p;

	if (n == 1)
		return pieces->data;
	for (int i = 0; i < n; i++)
		size += VARSIZE_ANY_EXHDR(pieces[i].data);
	if (size > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot append %lld bytes to a row at once", (long long) size)));
	result = palloc(size);
	SET_VARSIZE(result, size);
	p = VARDATA(result);
	for (int i = 0; i < n; i++)
	{
		memcpy(p, VARDATA_ANY(pieces[i].data), VARSIZE_ANY_EXHDR(pieces[i].data));
		p += VARSIZE_ANY_EXHDR(pieces[i].data);
	}
	return result;
}

/*
 * Find the length that a value must have so that each of n pieces of its row begins at its
 * offset: -1 if it may have any, PG_INT64_MAX, which no value has, if the offsets contradict
 * each other.
 */
static int64
required_length(const Piece *pieces, int n)
{
	int64		required = -1;
	int64		before = 0;

	for (int i = 0; i < n; i++)
	{
		if (pieces[i].offset >= 0)
		{
			int64		begin = pieces[i].offset - before;

			if (begin < 0 || (required >= 0 && begin != required))
				return PG_INT64_MAX;
			required = begin;
		}
		before += VARSIZE_ANY_EXHDR(pieces[i].data);
	}
	return required;
}

/*
 * Run a plan about one row: true if it finds the row, then *result is its first column, -1 if
 * that is null.
 */
static bool
run_plan(SPIPlanPtr plan, Datum *values, const char *nulls, int64 *result)
{
	int			code = SPI_execute_plan(plan, values, nulls, false, 0);
	bool		found = false;

	*result = -1;
	if (code < 0)
		elog(ERROR, "could not append: %s", SPI_result_code_string(code));
	if (SPI_processed > 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("more than one row of the view has the same key"),
				 errhint("Specify a unique column.")));
	if (SPI_processed > 0)
	{
		bool		isnull;
		Datum		first = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);

		found = true;
		if (!isnull)
			*result = DatumGetInt64(first);
	}
	SPI_freetuptable(SPI_tuptable);
	return found;
}

/* appendable_append(regclass, anyarray, text[] or bytea[], name, name, bigint[], boolean): see the SQL script. */
Datum
appendable_append(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *column = PG_ARGISNULL(3) ? NULL : NameStr(*PG_GETARG_NAME(3));
	const char *key = PG_ARGISNULL(4) ? NULL : NameStr(*PG_GETARG_NAME(4));
	ArrayType  *offsets = PG_ARGISNULL(5) ? NULL : PG_GETARG_ARRAYTYPE_P(5);
	bool		skip_locked = !PG_ARGISNULL(6) && PG_GETARG_BOOL(6);
	ArrayType  *keys;
	ArrayType  *chunks;
	Target		target;
	Oid			chunk_type;
	Oid			key_type;
	Piece	   *pieces;
	int			count;
	RowQueries	queries;
	SPIPlanPtr	append;
	SPIPlanPtr	read_length = NULL;
	SPIPlanPtr	lock = NULL;
	MemoryContext context;
	MemoryContext oldcontext;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table, keys and chunks must not be null")));
	InitMaterializedSRF(fcinfo, 0);
	keys = PG_GETARG_ARRAYTYPE_P(1);
	chunks = PG_GETARG_ARRAYTYPE_P(2);
	key_type = ARR_ELEMTYPE(keys);
	chunk_type = ARR_ELEMTYPE(chunks);
	pieces = take_pieces(keys, chunks, offsets, &count);

	/* the UPDATE asks for more privileges */
	target.rel = ab_open_table_checked(PG_GETARG_OID(0), RowExclusiveLock, AB_UPDATE);
	target.column = find_column(target.rel, column, chunk_type);
	find_key(&target, key);
	find_operator(&target, key_type);
	convert_keys(pieces, count, key_type, target.key_type);
	qsort_arg(pieces, count, sizeof(Piece), compare_pieces, &target);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	make_queries(&target, offsets != NULL, &queries);
	append = find_plan(queries.append, offsets ? 3 : 2, target.key_type, chunk_type);
	if (skip_locked)
		lock = find_plan(queries.lock, 1, target.key_type, chunk_type);
	if (skip_locked || offsets)
		read_length = find_plan(queries.length, 1, target.key_type, chunk_type);
	context = AllocSetContextCreate(CurrentMemoryContext, "appendable_bytea append", ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	for (int i = 0, n; i < count; i += n)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, false};
		int64		required;
		int64		length = -1;
		bool		done = false;

		CHECK_FOR_INTERRUPTS();
		for (n = 1; i + n < count && compare_keys(&target, &pieces[i], &pieces[i + n]) == 0;)
			n++;
		values[0] = pieces[i].key;
		if (lock && !run_plan(lock, values, NULL, &length))
		{
			/* whether it is locked or not there */
			nulls[2] = run_plan(read_length, values, NULL, &length);
			length = -1;
		}
		else
		{
			required = required_length(&pieces[i], n);
			values[1] = PointerGetDatum(join_pieces(&pieces[i], n));
			values[2] = Int64GetDatum(required);
			done = run_plan(append, values, required < 0 ? "  n" : NULL, &length);
			if (!done && required >= 0)
				run_plan(read_length, values, NULL, &length);
		}
		values[0] = pieces[i].given;
		values[1] = Int64GetDatum(length);
		nulls[1] = length < 0;
		values[2] = BoolGetDatum(done);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(oldcontext);
	SPI_finish();
	table_close(target.rel, NoLock);
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * shape.c
 *	  Which tables are alike.
 *
 * A shape is a string of bytes.  Two tables of the same shape cannot be
 * distinguished by their catalog rows, except by names, OIDs and file numbers: it holds
 * the owner, the tablespace, and of each column the name, type, modifier,
 * collation, declared dimensions, whether it is NOT NULL and whether it has a
 * default; then the columns of the primary key and of unique constraints.  The
 * expressions of defaults are compared later, by defaults.c.  shape_of_statement() and
 * shape_of_query() compute the shape that a statement asks for, inspect.c that of
 * a table.  A statement with anything that has no place in a shape has none, and
 * the server executes it.
 *
 * Nothing here raises an error that the server would not: names that are not
 * found are the server's to report, with the position in the statement.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "parser/parse_type.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat_catalog.h"
#include "recycled_temp.h"

uint32
shape_hash(StringInfo shape)
{
	return hash_bytes((const unsigned char *) shape->data, shape->len);
}

void
shape_begin(StringInfo shape, Oid owner, Oid tablespace)
{
	initStringInfo(shape);
	appendBinaryStringInfo(shape, (char *) &owner, sizeof(owner));
	appendBinaryStringInfo(shape, (char *) &tablespace, sizeof(tablespace));
}

void
shape_column(StringInfo shape, const char *name, Oid type, int32 typmod,
			 Oid collation, int ndims, bool notnull, bool has_default)
{
	struct
	{
		Oid			type;
		int32		typmod;
		Oid			collation;
		int32		ndims;
		int16		notnull;
		int16		has_default;
	}			column = {type, typmod, collation, ndims, notnull, has_default};

	appendBinaryStringInfo(shape, name, strlen(name) + 1);
	appendBinaryStringInfo(shape, (char *) &column, sizeof(column));
}

void
shape_key(StringInfo shape, bool primary, int natts, const int16 *columns)
{
	appendStringInfoChar(shape, primary ? 'p' : 'u');
	appendStringInfoChar(shape, (char) natts);
	appendBinaryStringInfo(shape, (const char *) columns, natts * sizeof(int16));
}

/* The name that the server gives a key's index and constraint if it is free. */
char *
shape_key_name(const char *relname, List *colnames, bool primary)
{
	char		addition[NAMEDATALEN * 2];
	int			length = 0;
	ListCell   *lc;

	if (primary)
		return makeObjectName(relname, NULL, "pkey");
	addition[0] = '\0';
	foreach(lc, colnames)
	{
		if (length > 0)
			addition[length++] = '_';
		strlcpy(addition + length, strVal(lfirst(lc)), NAMEDATALEN);
		length += strlen(addition + length);
		if (length >= NAMEDATALEN)
			break;
	}
	return makeObjectName(relname, addition, "key");
}

/*
 * Where a new temporary table goes: false if the server would choose between
 * several tablespaces, makes tables of another kind, or would report that this role may
 * not create tables there.  The choice was made once for the transaction, perhaps by
 * another role.
 */
static bool
storage_of_new_table(const char *access_method, Oid *tablespace)
{
	Oid			tablespaces[2];
	int			n;

	if (strcmp(access_method ? access_method : default_table_access_method, "heap") != 0)
		return false;
	PrepareTempTablespaces();
	n = GetTempTablespaces(tablespaces, 2);
	*tablespace = n == 1 ? tablespaces[0] : InvalidOid;
	return n < 2 && (!OidIsValid(*tablespace) || *tablespace == MyDatabaseTableSpace ||
					 TablespaceAclCheck_compat(*tablespace, GetUserId(), ACL_CREATE) == ACLCHECK_OK);
}

/* A type that every server has and that this role may use. */
static bool
usable_type(HeapTuple type)
{
	Form_pg_type form = (Form_pg_type) GETSTRUCT(type);

	return form->typisdefined && form->oid < FirstUnpinnedObjectId && form->typtype != TYPTYPE_PSEUDO &&
		(heap_attisnull(type, Anum_pg_type_typacl, NULL) ||
		 TypeAclCheck_compat(form->oid, GetUserId(), ACL_USAGE) == ACLCHECK_OK);
}

/* PRIMARY KEY or UNIQUE and nothing else */
static bool
plain_key(Constraint *constraint)
{
	return (constraint->contype == CONSTR_PRIMARY || constraint->contype == CONSTR_UNIQUE) &&
		!constraint->conname && !constraint->options && !constraint->indexname && !constraint->indexspace &&
		!constraint->including && !constraint->deferrable && !constraint->initdeferred &&
		!constraint->access_method && !constraint->nulls_not_distinct &&
		!ConstraintWithoutOverlaps_compat(constraint) && list_length(constraint->keys) <= INDEX_MAX_KEYS;
}

/* One key of a statement: its columns' names, and whether it is the primary key. */
typedef struct KeyClause
{
	bool		primary;
	List	   *colnames;
} KeyClause;

static bool
add_key(List **keys, Constraint *constraint, List *colnames)
{
	KeyClause  *key = palloc(sizeof(KeyClause));
	ListCell   *lc;

	if (!plain_key(constraint))
		return false;
	key->primary = constraint->contype == CONSTR_PRIMARY;
	key->colnames = colnames;
	foreach(lc, *keys)
	{
		KeyClause  *other = lfirst(lc);

		/* the server merges such keys, or reports an error */
		if ((key->primary && other->primary) || equal(key->colnames, other->colnames))
			return false;
	}
	/* the primary key is the first one to be made */
	*keys = key->primary ? lcons(key, *keys) : lappend(*keys, key);
	return true;
}

/* Find the keys among a statement's clauses; false if there is one that is not plain. */
static bool
keys_of_statement(CreateStmt *stmt, List **keys)
{
	ListCell   *lc,
			   *lc2;

	foreach(lc, stmt->tableElts)
	{
		if (IsA(lfirst(lc), ColumnDef))
		{
			ColumnDef  *column = lfirst(lc);

			foreach(lc2, column->constraints)
			{
				Constraint *constraint = lfirst(lc2);

				if (constraint->contype == CONSTR_NULL || constraint->contype == CONSTR_NOTNULL ||
					constraint->contype == CONSTR_DEFAULT)
					continue;
				if (!add_key(keys, constraint, list_make1(makeString(column->colname))))
					return false;
			}
		}
		else if (!IsA(lfirst(lc), Constraint) ||
				 !add_key(keys, lfirst(lc), ((Constraint *) lfirst(lc))->keys))
			return false;
	}
	return true;
}

/* Is the column NOT NULL?  False if the clauses are not plain or contradict each other. */
static bool
nullability(ColumnDef *column, List *keys, bool *notnull)
{
	bool		null = false;
	ListCell   *lc;

	*notnull = column->is_not_null;
	foreach(lc, column->constraints)
	{
		Constraint *constraint = lfirst(lc);

		if (constraint->contype == CONSTR_NULL)
			null = true;
		if (constraint->contype != CONSTR_NOTNULL)
			continue;
		/* 18 names the constraint, has NO INHERIT and NOT VALID, and warns */
		if (constraint->conname || constraint->is_no_inherit || constraint->skip_validation || *notnull)
			return false;
		*notnull = true;
	}
	foreach(lc, keys)
		if (((KeyClause *) lfirst(lc))->primary)
		*notnull |= list_member(((KeyClause *) lfirst(lc))->colnames, makeString(column->colname));
	return !(null && *notnull);
}

/* The expression of a column's default, if any; false if it is not a simple one. */
static bool
default_of_column(ColumnDef *column, Node **raw)
{
	ListCell   *lc;

	*raw = NULL;
	foreach(lc, column->constraints)
	{
		Constraint *constraint = lfirst(lc);

		if (constraint->contype != CONSTR_DEFAULT)
			continue;
		if (*raw != NULL || !default_is_simple(constraint->raw_expr))
			return false;
		*raw = constraint->raw_expr;
	}
	return true;
}

static bool
append_column(RecycledRequest *request, ParseState *pstate, ColumnDef *column, List *keys)
{
	Node	   *raw;
	Type		type;
	int32		typmod;
	Oid			typeid,
				collation;
	bool		notnull,
				usable;

	if (column->raw_default || column->cooked_default || column->identity || column->generated ||
		column->compression || column->fdwoptions || !column->typeName || column->storage ||
		ColumnHasStorage_compat(column) || column->typeName->setof || column->typeName->pct_type ||
		!default_of_column(column, &raw) || !nullability(column, keys, &notnull))
		return false;
	type = LookupTypeName(pstate, column->typeName, &typmod, true);
	if (!type)
		return false;
	usable = usable_type(type);
	typeid = ((Form_pg_type) GETSTRUCT(type))->oid;
	collation = ((Form_pg_type) GETSTRUCT(type))->typcollation;
	ReleaseSysCache(type);
	if (usable && column->collClause)
	{
		/* a wrong clause is the server's to report */
		usable = OidIsValid(collation);
		collation = get_collation_oid(column->collClause->collname, true);
		usable = usable && OidIsValid(collation);
	}
	if (usable)
	{
		shape_column(&request->shape, column->colname, typeid, typmod, collation,
					 list_length(column->typeName->arrayBounds), notnull, raw != NULL);
		if (raw)
			request->defaults = default_add(request->defaults, raw, column->colname, typeid, typmod);
	}
	return usable;
}

/* The columns of a key by number; false if there is no such column or it is there twice. */
static bool
append_key(StringInfo shape, CreateStmt *stmt, KeyClause *key)
{
	int16		columns[INDEX_MAX_KEYS];
	int			n = 0;
	ListCell   *lc,
			   *lc2;

	foreach(lc, key->colnames)
	{
		int16		number = 0,
					found = 0;

		foreach(lc2, stmt->tableElts)
			if (IsA(lfirst(lc2), ColumnDef))
		{
			number++;
			if (strcmp(((ColumnDef *) lfirst(lc2))->colname, strVal(lfirst(lc))) == 0)
				found = number;
		}
		for (int i = 0; i < n; i++)
			if (columns[i] == found)
				return false;
		if (found == 0)
			return false;
		columns[n++] = found;
	}
	shape_key(shape, key->primary, n, columns);
	return true;
}

/*
 * Fill in shape, names of keys and defaults of the table that a CREATE TABLE makes.
 * False if the statement has anything else.
 */
bool
shape_of_statement(CreateStmt *stmt, RecycledRequest *request)
{
	List	   *keys = NIL;
	Oid			tablespace;
	ParseState *pstate;
	ListCell   *lc;
	bool		found = true;

	request->key_names = request->defaults = NIL;
	if (stmt->inhRelations || stmt->partspec || stmt->partbound || stmt->ofTypename || stmt->constraints ||
		stmt->options || stmt->tablespacename || stmt->tableElts == NIL ||
		!storage_of_new_table(stmt->accessMethod, &tablespace) || !keys_of_statement(stmt, &keys))
		return false;
	shape_begin(&request->shape, GetUserId(), tablespace);
	pstate = make_parsestate(NULL);

	/*
	 * looking up a type modifier may raise the server's error, with its
	 * position
	 */
	pstate->p_sourcetext = request->source;
	foreach(lc, stmt->tableElts)
		found = found && (!IsA(lfirst(lc), ColumnDef) || append_column(request, pstate, lfirst(lc), keys));
	free_parsestate(pstate);
	foreach(lc, keys)
	{
		KeyClause  *key = lfirst(lc);

		found = found && append_key(&request->shape, stmt, key);
		request->key_names = lappend(request->key_names, shape_key_name(stmt->relation->relname, key->colnames, key->primary));
	}
	return found;
}

/* The shape of the table that CREATE TABLE AS makes of the rows of a plan. */
bool
shape_of_query(IntoClause *into, TupleDesc desc, StringInfo shape)
{
	ListCell   *lc = list_head(into->colNames);
	Oid			tablespace;

	if (into->options || into->tableSpaceName || into->viewQuery || into->skipData || desc->natts == 0 ||
		list_length(into->colNames) > desc->natts || !storage_of_new_table(into->accessMethod, &tablespace))
		return false;
	shape_begin(shape, GetUserId(), tablespace);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);
		const char *name = NameStr(column->attname);
		HeapTuple	type;
		bool		usable;

		if (lc)
		{
			name = strVal(lfirst(lc));
			lc = lnext(into->colNames, lc);
		}
		type = SearchSysCache1(TYPEOID, ObjectIdGetDatum(column->atttypid));
		if (!HeapTupleIsValid(type))
			return false;
		/* a collation that is not known is the server's to report */
		usable = usable_type(type) &&
			OidIsValid(column->attcollation) == OidIsValid(((Form_pg_type) GETSTRUCT(type))->typcollation);
		ReleaseSysCache(type);
		if (!usable)
			return false;
		shape_column(shape, name, column->atttypid, column->atttypmod, column->attcollation, 0, false, false);
	}
	return true;
}

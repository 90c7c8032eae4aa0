/*-------------------------------------------------------------------------
 *
 * type_python.c
 *	  appendable_bytea in PL/Python: a transform from and to Python's bytes.
 *
 * PL/Python knows bytea by its OID and converts all other types by their text.  For
 * appendable_bytea that would store Python's notation of a bytes object, b'...', and
 * give a function hexadecimal digits whose length and slices are not those of the value.
 * Functions that declare TRANSFORM FOR TYPE appendable_bytea get and return bytes, in
 * arguments, results, triggers and plans (extension appendable_bytea_plpython3u).  In
 * all others the conversion raises an error, except from text that can only have been
 * meant: the hexadecimal format.  Results of plpy.execute() are bytea (protocol.c).
 *
 * PL/Perl and PL/Tcl convert bytea by its text too, and so need nothing.
 *
 * Python's functions are found through PL/Python's library, which is linked with them,
 * so that our library is not linked, and works with any version of Python.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "type/type.h"

PG_FUNCTION_INFO_V1(appendable_to_plpython);
PG_FUNCTION_INFO_V1(appendable_from_plpython);

#define PLPYTHON "$libdir/plpython3"

/* Python's stable interface: PyObject and Py_ssize_t. */
typedef struct PythonObject PythonObject;

static PythonObject *(*bytes_from_size) (const char *data, ssize_t size);
static char *(*bytes_data) (PythonObject *bytes);
static ssize_t (*bytes_size) (PythonObject *bytes);
static PythonObject *(*bytes_of) (PythonObject *object);
static void (*release) (PythonObject *object);

/* PL/Python's, which reports Python's error */
static void (*python_error) (int elevel, const char *fmt,...);

static void
find_python(void)
{
	if (python_error != NULL)
		return;
	bytes_from_size = load_external_function(PLPYTHON, "PyBytes_FromStringAndSize", true, NULL);
	bytes_data = load_external_function(PLPYTHON, "PyBytes_AsString", true, NULL);
	bytes_size = load_external_function(PLPYTHON, "PyBytes_Size", true, NULL);
	bytes_of = load_external_function(PLPYTHON, "PyObject_Bytes", true, NULL);
	release = load_external_function(PLPYTHON, "Py_DecRef", true, NULL);
	python_error = load_external_function(PLPYTHON, "PLy_elog_impl", true, NULL);
}

/* The transform from SQL: a bytes object. */
Datum
appendable_to_plpython(PG_FUNCTION_ARGS)
{
	AbReader   *reader = ab_reader_open(PG_GETARG_DATUM(0));
	int64		length = ab_reader_length(reader);
	PythonObject *bytes;

	find_python();
	bytes = bytes_from_size(NULL, length);
	if (bytes == NULL)
		python_error(ERROR, "could not convert a value of %lld bytes to Python bytes", (long long) length);
	PG_TRY();
	{
		ab_reader_read(reader, 0, bytes_data(bytes), length);
		ab_reader_close(reader);
	}
	PG_CATCH();
	{
		release(bytes);
		PG_RE_THROW();
	}
	PG_END_TRY();
	PG_RETURN_POINTER(bytes);
}

/* The transform to SQL: from what bytea is converted from, with the same errors. */
Datum
appendable_from_plpython(PG_FUNCTION_ARGS)
{
	PythonObject *volatile bytes;
	Datum volatile result = (Datum) 0;

	find_python();
	bytes = bytes_of((PythonObject *) PG_GETARG_POINTER(0));
	if (bytes == NULL)
		python_error(ERROR, "could not create bytes representation of Python object");
	PG_TRY();
	{
		result = ab_make_flat(bytes_data(bytes), bytes_size(bytes));
	}
	PG_FINALLY();
	{
		release(bytes);
	}
	PG_END_TRY();
	PG_RETURN_DATUM(result);
}

/*
 * Called by the input and output functions: raise an error if PL/Python calls them for
 * a value of a function without the transform.  It keeps what it converts by in memory
 * contexts named after it; a conversion to or from text in SQL has an expression.
 */
void
ab_refuse_plpython(FmgrInfo *flinfo)
{
	if (likely(flinfo == NULL || flinfo->fn_expr != NULL || flinfo->fn_mcxt == NULL ||
			   strncmp(flinfo->fn_mcxt->name, "PL/Python", strlen("PL/Python")) != 0))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("PL/Python function cannot convert a value of type appendable_bytea without a transform"),
			 errdetail("Values are Python bytes in functions that declare the transform."),
			 errhint("Create the extension appendable_bytea_plpython3u, and add TRANSFORM FOR TYPE appendable_bytea to the function.")));
}

/* appendable_bytea_plpython3u--0.9.sql */

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION appendable_bytea_plpython3u" to load this file. \quit

-- PL/Python's handler loads its library, in which the transform finds Python.
CREATE FUNCTION appendable_bytea_to_plpython(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'appendable_to_plpython' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION appendable_bytea_to_plpython(internal) IS 'transform a value to Python bytes';

CREATE FUNCTION appendable_bytea_from_plpython(internal) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_from_plpython' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION appendable_bytea_from_plpython(internal) IS 'transform Python bytes to a value';

CREATE TRANSFORM FOR appendable_bytea LANGUAGE plpython3u (
	FROM SQL WITH FUNCTION appendable_bytea_to_plpython(internal),
	TO SQL WITH FUNCTION appendable_bytea_from_plpython(internal)
);
COMMENT ON TRANSFORM FOR appendable_bytea LANGUAGE plpython3u IS 'appendable_bytea as Python bytes';

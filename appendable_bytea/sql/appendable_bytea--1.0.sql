\echo Use "CREATE EXTENSION appendable_bytea" to load this file. \quit

--
-- 1. The type, its input and output
--

CREATE TYPE appendable_bytea;

CREATE FUNCTION appendable_bytea_in(cstring) RETURNS appendable_bytea
AS 'MODULE_PATHNAME' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_in(cstring) IS 'input, in the formats of bytea';

CREATE FUNCTION appendable_bytea_out(appendable_bytea) RETURNS cstring
AS 'MODULE_PATHNAME' LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_out(appendable_bytea) IS 'output, in the formats of bytea';

CREATE FUNCTION appendable_bytea_recv(internal) RETURNS appendable_bytea
AS 'MODULE_PATHNAME' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_recv(internal) IS 'binary input: the bytes themselves';

CREATE FUNCTION appendable_bytea_send(appendable_bytea) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_send(appendable_bytea) IS 'binary output: the bytes themselves';

CREATE FUNCTION appendable_bytea_typanalyze(internal) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_typanalyze(internal) IS 'statistics of null fraction and width alone: no value may hide in pg_statistic';

-- MAIN: a reference stays in its row; temporary tables keep flat values in TOAST.
CREATE TYPE appendable_bytea (
	INPUT = appendable_bytea_in,
	OUTPUT = appendable_bytea_out,
	RECEIVE = appendable_bytea_recv,
	SEND = appendable_bytea_send,
	ANALYZE = appendable_bytea_typanalyze,
	STORAGE = main,
	ALIGNMENT = int4
);
COMMENT ON TYPE appendable_bytea IS 'binary string to which an append costs the appended bytes alone';

--
-- 2. Casts, functions and operators of the type
--

--
-- 3. Storage: access method, chunk stores, vacuum, check, statistics
--

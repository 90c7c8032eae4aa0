/* appendable_bytea--0.9.sql */

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION appendable_bytea" to load this file. \quit

-- ---------------------------------------------------------------------------
-- The type.  No function of bytea gets an overload: one that takes the type as well
-- would change what an untyped argument means in statements that have nothing to do
-- with it.  Calls written for bytea take a value through the implicit cast, and the
-- planner puts in the type's own form of the function where there is one: those are
-- the functions appendable_bytea_*.  Operators are overloads in pg_catalog: an
-- operand of the type is what chooses them.
-- ---------------------------------------------------------------------------

CREATE TYPE appendable_bytea;

CREATE FUNCTION appendable_bytea_in(cstring) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_in(cstring) IS 'I/O';

CREATE FUNCTION appendable_bytea_out(appendable_bytea) RETURNS cstring
	AS 'MODULE_PATHNAME', 'appendable_out' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_out(appendable_bytea) IS 'I/O';

CREATE FUNCTION appendable_bytea_recv(internal) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_recv(internal) IS 'I/O';

CREATE FUNCTION appendable_bytea_send(appendable_bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_send(appendable_bytea) IS 'I/O';

CREATE FUNCTION appendable_bytea_typanalyze(internal) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_typanalyze' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_typanalyze(internal) IS 'statistics of a column: only nulls and width';

CREATE TYPE appendable_bytea (
	INPUT = appendable_bytea_in,
	OUTPUT = appendable_bytea_out,
	RECEIVE = appendable_bytea_recv,
	SEND = appendable_bytea_send,
	ANALYZE = appendable_bytea_typanalyze,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main,
	CATEGORY = 'U',
	PREFERRED = true
);
COMMENT ON TYPE appendable_bytea IS 'bytea whose appends cost as much as the appended bytes';

-- ---- casts: a value is accepted wherever a bytea is; a bytea may be stored ----

CREATE FUNCTION appendable_bytea_to_bytea(appendable_bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_to_bytea(appendable_bytea) IS 'convert appendable_bytea to bytea';

CREATE FUNCTION appendable_bytea(bytea) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea(bytea) IS 'convert bytea to appendable_bytea';

CREATE CAST (appendable_bytea AS bytea) WITH FUNCTION appendable_bytea_to_bytea(appendable_bytea) AS IMPLICIT;
CREATE CAST (bytea AS appendable_bytea) WITH FUNCTION appendable_bytea(bytea) AS IMPLICIT;

-- ---- concatenation ----

CREATE FUNCTION appendable_bytea_cat(appendable_bytea, bytea) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_cat_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_cat(appendable_bytea, bytea) IS 'implementation of || operator';

CREATE FUNCTION appendable_bytea_cat(appendable_bytea, appendable_bytea) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_cat' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_cat(appendable_bytea, appendable_bytea) IS 'implementation of || operator';

CREATE FUNCTION appendable_bytea_cat(bytea, appendable_bytea) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'bytea_cat_appendable' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_cat(bytea, appendable_bytea) IS 'implementation of || operator';

CREATE OPERATOR pg_catalog.|| (LEFTARG = appendable_bytea, RIGHTARG = bytea, FUNCTION = appendable_bytea_cat);
COMMENT ON OPERATOR pg_catalog.|| (appendable_bytea, bytea) IS 'concatenate';
CREATE OPERATOR pg_catalog.|| (LEFTARG = appendable_bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_cat);
COMMENT ON OPERATOR pg_catalog.|| (appendable_bytea, appendable_bytea) IS 'concatenate';
CREATE OPERATOR pg_catalog.|| (LEFTARG = bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_cat);
COMMENT ON OPERATOR pg_catalog.|| (bytea, appendable_bytea) IS 'concatenate';

-- ---- reading; first the forms that calls written for bytea run as ----

CREATE FUNCTION appendable_bytea_length(appendable_bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_length4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_length(appendable_bytea) IS 'length() and octet_length() of a value';

CREATE FUNCTION appendable_bytea_substr(appendable_bytea, integer, integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_substr4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_substr(appendable_bytea, integer, integer) IS 'substr() of a value';

CREATE FUNCTION appendable_bytea_substr(appendable_bytea, integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_substr4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_substr(appendable_bytea, integer) IS 'substr() of a value';

CREATE FUNCTION appendable_bytea_get_byte(appendable_bytea, integer) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_get_byte4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_get_byte(appendable_bytea, integer) IS 'get_byte() of a value';

CREATE FUNCTION appendable_bytea_get_bit(appendable_bytea, bigint) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_get_bit' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_get_bit(appendable_bytea, bigint) IS 'get_bit() of a value';

CREATE FUNCTION appendable_bytea_position(appendable_bytea, bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_position4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_position(appendable_bytea, bytea) IS 'position() in a value';

-- the same for values of any length

CREATE FUNCTION appendable_length(value appendable_bytea) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_length(appendable_bytea) IS 'bytes of the value';

CREATE FUNCTION appendable_substr(value appendable_bytea, start bigint, length bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_substr8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_substr(appendable_bytea, bigint, bigint) IS 'length bytes of the value from start, counted from 1';

CREATE FUNCTION appendable_substr(value appendable_bytea, start bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_substr8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_substr(appendable_bytea, bigint) IS 'all bytes of the value from start, counted from 1';

CREATE FUNCTION appendable_get_byte(value appendable_bytea, "offset" bigint) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_get_byte8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_get_byte(appendable_bytea, bigint) IS 'the byte at an offset, counted from 0';

CREATE FUNCTION appendable_position(value appendable_bytea, pattern bytea) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_position' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_position(appendable_bytea, bytea) IS 'position of the first match of the pattern, counted from 1; 0 if there is none';

CREATE FUNCTION appendable_chunks(value appendable_bytea, chunk_size integer DEFAULT 262144) RETURNS SETOF bytea
	AS 'MODULE_PATHNAME', 'appendable_chunks' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 100;
COMMENT ON FUNCTION appendable_chunks(appendable_bytea, integer) IS 'the value in order as a set of pieces of chunk_size bytes';

-- ---- writing: new values, stored by the UPDATE or INSERT that gets them ----

CREATE FUNCTION appendable_bytea_overlay(appendable_bytea, bytea, integer, integer) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_overlay4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_overlay(appendable_bytea, bytea, integer, integer) IS 'overlay() of a value';

CREATE FUNCTION appendable_bytea_overlay(appendable_bytea, bytea, integer) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_overlay4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_overlay(appendable_bytea, bytea, integer) IS 'overlay() of a value';

CREATE FUNCTION appendable_bytea_set_byte(appendable_bytea, integer, integer) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_set_byte4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_set_byte(appendable_bytea, integer, integer) IS 'set_byte() of a value';

CREATE FUNCTION appendable_bytea_set_bit(appendable_bytea, bigint, integer) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_set_bit' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_set_bit(appendable_bytea, bigint, integer) IS 'set_bit() of a value';

CREATE FUNCTION appendable_overlay(value appendable_bytea, data bytea, start bigint, length bigint) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_overlay8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_overlay(appendable_bytea, bytea, bigint, bigint) IS 'the value with length bytes from start, counted from 1, replaced by data';

CREATE FUNCTION appendable_overlay(value appendable_bytea, data bytea, start bigint) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_overlay8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_overlay(appendable_bytea, bytea, bigint) IS 'the value with data in place of as many bytes from start, counted from 1';

CREATE FUNCTION appendable_set_byte(value appendable_bytea, "offset" bigint, byte integer) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_set_byte8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_set_byte(appendable_bytea, bigint, integer) IS 'the value with a new byte at an offset, counted from 0';

CREATE FUNCTION appendable_write(value appendable_bytea, data bytea, "offset" bigint, length bigint) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_write' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION appendable_write(appendable_bytea, bytea, bigint, bigint) IS
	'replace length bytes from offset (0 is the first; null appends) by data (null truncates at offset)';

CREATE FUNCTION appendable_truncate(value appendable_bytea, length bigint) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_truncate' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_truncate(appendable_bytea, bigint) IS 'the first length bytes of the value';

-- ---- hashes, streamed; calls written for bytea run as these ----

CREATE FUNCTION appendable_md5(appendable_bytea) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_md5' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_md5(appendable_bytea) IS 'MD5 hash';

CREATE FUNCTION appendable_sha224(appendable_bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_sha224' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_sha224(appendable_bytea) IS 'SHA-224 hash';

CREATE FUNCTION appendable_sha256(appendable_bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_sha256' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_sha256(appendable_bytea) IS 'SHA-256 hash';

CREATE FUNCTION appendable_sha384(appendable_bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_sha384' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_sha384(appendable_bytea) IS 'SHA-384 hash';

CREATE FUNCTION appendable_sha512(appendable_bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_sha512' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_sha512(appendable_bytea) IS 'SHA-512 hash';

-- ---- order and equality ----

CREATE FUNCTION appendable_as_key(appendable_bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_as_key' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_as_key(appendable_bytea) IS 'value as a key of an index on bytea; null if it is too large for one';

CREATE FUNCTION appendable_equal_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'appendable_equal_support' LANGUAGE C STRICT;
COMMENT ON FUNCTION appendable_equal_support(internal) IS 'planner support for = operators with bytea and text';

CREATE FUNCTION appendable_bytea_eq(appendable_bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_eq(appendable_bytea, appendable_bytea) IS 'implementation of = operator';

CREATE FUNCTION appendable_bytea_ne(appendable_bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_ne(appendable_bytea, appendable_bytea) IS 'implementation of <> operator';

CREATE FUNCTION appendable_bytea_lt(appendable_bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_lt(appendable_bytea, appendable_bytea) IS 'implementation of < operator';

CREATE FUNCTION appendable_bytea_le(appendable_bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_le(appendable_bytea, appendable_bytea) IS 'implementation of <= operator';

CREATE FUNCTION appendable_bytea_gt(appendable_bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_gt(appendable_bytea, appendable_bytea) IS 'implementation of > operator';

CREATE FUNCTION appendable_bytea_ge(appendable_bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_ge(appendable_bytea, appendable_bytea) IS 'implementation of >= operator';

CREATE FUNCTION appendable_bytea_eq(appendable_bytea, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_bytea_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT appendable_equal_support;
COMMENT ON FUNCTION appendable_bytea_eq(appendable_bytea, bytea) IS 'implementation of = operator';

CREATE FUNCTION appendable_bytea_ne(appendable_bytea, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_bytea_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_ne(appendable_bytea, bytea) IS 'implementation of <> operator';

CREATE FUNCTION appendable_bytea_lt(appendable_bytea, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_bytea_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_lt(appendable_bytea, bytea) IS 'implementation of < operator';

CREATE FUNCTION appendable_bytea_le(appendable_bytea, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_bytea_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_le(appendable_bytea, bytea) IS 'implementation of <= operator';

CREATE FUNCTION appendable_bytea_gt(appendable_bytea, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_bytea_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_gt(appendable_bytea, bytea) IS 'implementation of > operator';

CREATE FUNCTION appendable_bytea_ge(appendable_bytea, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_bytea_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_ge(appendable_bytea, bytea) IS 'implementation of >= operator';

CREATE FUNCTION appendable_bytea_eq(bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'bytea_appendable_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT appendable_equal_support;
COMMENT ON FUNCTION appendable_bytea_eq(bytea, appendable_bytea) IS 'implementation of = operator';

CREATE FUNCTION appendable_bytea_ne(bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'bytea_appendable_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_ne(bytea, appendable_bytea) IS 'implementation of <> operator';

CREATE FUNCTION appendable_bytea_lt(bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'bytea_appendable_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_lt(bytea, appendable_bytea) IS 'implementation of < operator';

CREATE FUNCTION appendable_bytea_le(bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'bytea_appendable_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_le(bytea, appendable_bytea) IS 'implementation of <= operator';

CREATE FUNCTION appendable_bytea_gt(bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'bytea_appendable_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_gt(bytea, appendable_bytea) IS 'implementation of > operator';

CREATE FUNCTION appendable_bytea_ge(bytea, appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'bytea_appendable_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_ge(bytea, appendable_bytea) IS 'implementation of >= operator';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = appendable_bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES, MERGES
);
COMMENT ON OPERATOR pg_catalog.= (appendable_bytea, appendable_bytea) IS 'equal';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = appendable_bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (appendable_bytea, appendable_bytea) IS 'not equal';

CREATE OPERATOR pg_catalog.< (
	LEFTARG = appendable_bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_lt,
	COMMUTATOR = OPERATOR(pg_catalog.>), NEGATOR = OPERATOR(pg_catalog.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR pg_catalog.< (appendable_bytea, appendable_bytea) IS 'less than';

CREATE OPERATOR pg_catalog.<= (
	LEFTARG = appendable_bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_le,
	COMMUTATOR = OPERATOR(pg_catalog.>=), NEGATOR = OPERATOR(pg_catalog.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR pg_catalog.<= (appendable_bytea, appendable_bytea) IS 'less than or equal';

CREATE OPERATOR pg_catalog.> (
	LEFTARG = appendable_bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_gt,
	COMMUTATOR = OPERATOR(pg_catalog.<), NEGATOR = OPERATOR(pg_catalog.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR pg_catalog.> (appendable_bytea, appendable_bytea) IS 'greater than';

CREATE OPERATOR pg_catalog.>= (
	LEFTARG = appendable_bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_ge,
	COMMUTATOR = OPERATOR(pg_catalog.<=), NEGATOR = OPERATOR(pg_catalog.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR pg_catalog.>= (appendable_bytea, appendable_bytea) IS 'greater than or equal';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = appendable_bytea, RIGHTARG = bytea, FUNCTION = appendable_bytea_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES
);
COMMENT ON OPERATOR pg_catalog.= (appendable_bytea, bytea) IS 'equal';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = appendable_bytea, RIGHTARG = bytea, FUNCTION = appendable_bytea_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (appendable_bytea, bytea) IS 'not equal';

CREATE OPERATOR pg_catalog.< (
	LEFTARG = appendable_bytea, RIGHTARG = bytea, FUNCTION = appendable_bytea_lt,
	COMMUTATOR = OPERATOR(pg_catalog.>), NEGATOR = OPERATOR(pg_catalog.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR pg_catalog.< (appendable_bytea, bytea) IS 'less than';

CREATE OPERATOR pg_catalog.<= (
	LEFTARG = appendable_bytea, RIGHTARG = bytea, FUNCTION = appendable_bytea_le,
	COMMUTATOR = OPERATOR(pg_catalog.>=), NEGATOR = OPERATOR(pg_catalog.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR pg_catalog.<= (appendable_bytea, bytea) IS 'less than or equal';

CREATE OPERATOR pg_catalog.> (
	LEFTARG = appendable_bytea, RIGHTARG = bytea, FUNCTION = appendable_bytea_gt,
	COMMUTATOR = OPERATOR(pg_catalog.<), NEGATOR = OPERATOR(pg_catalog.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR pg_catalog.> (appendable_bytea, bytea) IS 'greater than';

CREATE OPERATOR pg_catalog.>= (
	LEFTARG = appendable_bytea, RIGHTARG = bytea, FUNCTION = appendable_bytea_ge,
	COMMUTATOR = OPERATOR(pg_catalog.<=), NEGATOR = OPERATOR(pg_catalog.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR pg_catalog.>= (appendable_bytea, bytea) IS 'greater than or equal';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES
);
COMMENT ON OPERATOR pg_catalog.= (bytea, appendable_bytea) IS 'equal';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (bytea, appendable_bytea) IS 'not equal';

CREATE OPERATOR pg_catalog.< (
	LEFTARG = bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_lt,
	COMMUTATOR = OPERATOR(pg_catalog.>), NEGATOR = OPERATOR(pg_catalog.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR pg_catalog.< (bytea, appendable_bytea) IS 'less than';

CREATE OPERATOR pg_catalog.<= (
	LEFTARG = bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_le,
	COMMUTATOR = OPERATOR(pg_catalog.>=), NEGATOR = OPERATOR(pg_catalog.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR pg_catalog.<= (bytea, appendable_bytea) IS 'less than or equal';

CREATE OPERATOR pg_catalog.> (
	LEFTARG = bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_gt,
	COMMUTATOR = OPERATOR(pg_catalog.<), NEGATOR = OPERATOR(pg_catalog.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR pg_catalog.> (bytea, appendable_bytea) IS 'greater than';

CREATE OPERATOR pg_catalog.>= (
	LEFTARG = bytea, RIGHTARG = appendable_bytea, FUNCTION = appendable_bytea_ge,
	COMMUTATOR = OPERATOR(pg_catalog.<=), NEGATOR = OPERATOR(pg_catalog.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR pg_catalog.>= (bytea, appendable_bytea) IS 'greater than or equal';

CREATE FUNCTION appendable_bytea_cmp(appendable_bytea, appendable_bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_cmp(appendable_bytea, appendable_bytea) IS 'less-equal-greater';

CREATE FUNCTION appendable_bytea_cmp(appendable_bytea, bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_bytea_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_cmp(appendable_bytea, bytea) IS 'less-equal-greater';

CREATE FUNCTION appendable_bytea_cmp(bytea, appendable_bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'bytea_appendable_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_cmp(bytea, appendable_bytea) IS 'less-equal-greater';

CREATE FUNCTION appendable_bytea_hash(appendable_bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_hash(appendable_bytea) IS 'hash';

CREATE FUNCTION appendable_bytea_hash_extended(appendable_bytea, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_hash_extended(appendable_bytea, bigint) IS 'hash';

CREATE FUNCTION appendable_bytea_hash(bytea) RETURNS integer
	AS 'MODULE_PATHNAME', 'bytea_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_hash(bytea) IS 'hash of a bytea, equal to that of an equal appendable_bytea';

CREATE FUNCTION appendable_bytea_hash_extended(bytea, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'bytea_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_bytea_hash_extended(bytea, bigint) IS 'hash of a bytea, equal to that of an equal appendable_bytea';

-- For ORDER BY, DISTINCT and merge joins.  An index key would hold references
-- to chunks that go with the row, so a btree index on the type is refused.
CREATE OPERATOR CLASS appendable_bytea_ops DEFAULT FOR TYPE appendable_bytea USING btree AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>,
	FUNCTION 1 appendable_bytea_cmp(appendable_bytea, appendable_bytea);

CREATE OPERATOR CLASS appendable_bytea_ops DEFAULT FOR TYPE appendable_bytea USING hash AS
	OPERATOR 1 pg_catalog.=,
	FUNCTION 1 appendable_bytea_hash(appendable_bytea),
	FUNCTION 2 appendable_bytea_hash_extended(appendable_bytea, bigint);

-- The families have bytea as well: for joins by hash, and for comparisons of rows,
-- (data, id) > (bytea, integer).  Between two bytea values they have operators of their
-- own: with core's, plans over bytea alone could come to use these families.
CREATE OPERATOR #=# (
	LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = pg_catalog.byteaeq,
	COMMUTATOR = #=#, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);
COMMENT ON OPERATOR #=# (bytea, bytea) IS 'equal, for joins of bytea with appendable_bytea';

CREATE OPERATOR #<# (
	LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = pg_catalog.bytealt,
	COMMUTATOR = #>#, NEGATOR = #>=#, RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR #<# (bytea, bytea) IS 'less than, for comparisons of bytea with appendable_bytea';

CREATE OPERATOR #<=# (
	LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = pg_catalog.byteale,
	COMMUTATOR = #>=#, NEGATOR = #>#, RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR #<=# (bytea, bytea) IS 'less than or equal, for comparisons of bytea with appendable_bytea';

CREATE OPERATOR #># (
	LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = pg_catalog.byteagt,
	COMMUTATOR = #<#, NEGATOR = #<=#, RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR #># (bytea, bytea) IS 'greater than, for comparisons of bytea with appendable_bytea';

CREATE OPERATOR #>=# (
	LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = pg_catalog.byteage,
	COMMUTATOR = #<=#, NEGATOR = #<#, RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR #>=# (bytea, bytea) IS 'greater than or equal, for comparisons of bytea with appendable_bytea';

ALTER OPERATOR FAMILY appendable_bytea_ops USING hash ADD
	OPERATOR 1 pg_catalog.= (appendable_bytea, bytea),
	OPERATOR 1 pg_catalog.= (bytea, appendable_bytea),
	OPERATOR 1 #=# (bytea, bytea),
	FUNCTION 1 (bytea, bytea) appendable_bytea_hash(bytea),
	FUNCTION 2 (bytea, bytea) appendable_bytea_hash_extended(bytea, bigint);

ALTER OPERATOR FAMILY appendable_bytea_ops USING btree ADD
	OPERATOR 1 pg_catalog.< (appendable_bytea, bytea),
	OPERATOR 2 pg_catalog.<= (appendable_bytea, bytea),
	OPERATOR 3 pg_catalog.= (appendable_bytea, bytea),
	OPERATOR 4 pg_catalog.>= (appendable_bytea, bytea),
	OPERATOR 5 pg_catalog.> (appendable_bytea, bytea),
	FUNCTION 1 (appendable_bytea, bytea) appendable_bytea_cmp(appendable_bytea, bytea),
	OPERATOR 1 pg_catalog.< (bytea, appendable_bytea),
	OPERATOR 2 pg_catalog.<= (bytea, appendable_bytea),
	OPERATOR 3 pg_catalog.= (bytea, appendable_bytea),
	OPERATOR 4 pg_catalog.>= (bytea, appendable_bytea),
	OPERATOR 5 pg_catalog.> (bytea, appendable_bytea),
	FUNCTION 1 (bytea, appendable_bytea) appendable_bytea_cmp(bytea, appendable_bytea),
	OPERATOR 1 #<# (bytea, bytea),
	OPERATOR 2 #<=# (bytea, bytea),
	OPERATOR 3 #=# (bytea, bytea),
	OPERATOR 4 #>=# (bytea, bytea),
	OPERATOR 5 #># (bytea, bytea),
	FUNCTION 1 (bytea, bytea) pg_catalog.byteacmp(bytea, bytea);

-- ---------------------------------------------------------------------------
-- The same for text.
-- ---------------------------------------------------------------------------

CREATE TYPE appendable_text;

CREATE FUNCTION appendable_text_in(cstring) RETURNS appendable_text
	AS 'MODULE_PATHNAME', 'appendable_text_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_in(cstring) IS 'I/O';

CREATE FUNCTION appendable_text_out(appendable_text) RETURNS cstring
	AS 'MODULE_PATHNAME', 'appendable_text_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_out(appendable_text) IS 'I/O';

CREATE FUNCTION appendable_text_recv(internal) RETURNS appendable_text
	AS 'MODULE_PATHNAME', 'appendable_text_recv' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_recv(internal) IS 'I/O';

CREATE FUNCTION appendable_text_send(appendable_text) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_text_send' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_send(appendable_text) IS 'I/O';

CREATE TYPE appendable_text (
	INPUT = appendable_text_in,
	OUTPUT = appendable_text_out,
	RECEIVE = appendable_text_recv,
	SEND = appendable_text_send,
	ANALYZE = appendable_bytea_typanalyze,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main,
	CATEGORY = 'S',
	COLLATABLE = true
);
COMMENT ON TYPE appendable_text IS 'text whose appends cost as much as the appended bytes';

CREATE FUNCTION appendable_text_to_text(appendable_text) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_to_text(appendable_text) IS 'convert appendable_text to text';

CREATE FUNCTION appendable_text(text) RETURNS appendable_text
	AS 'MODULE_PATHNAME', 'appendable_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text(text) IS 'convert text to appendable_text';

CREATE FUNCTION appendable_text(character) RETURNS appendable_text
	AS 'MODULE_PATHNAME', 'appendable_from_bpchar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text(character) IS 'convert character to appendable_text';

CREATE CAST (appendable_text AS text) WITH FUNCTION appendable_text_to_text(appendable_text) AS IMPLICIT;
CREATE CAST (text AS appendable_text) WITH FUNCTION appendable_text(text) AS IMPLICIT;
CREATE CAST (varchar AS appendable_text) WITH FUNCTION appendable_text(text) AS IMPLICIT;
CREATE CAST (bpchar AS appendable_text) WITH FUNCTION appendable_text(bpchar) AS IMPLICIT;

CREATE FUNCTION appendable_text_cat(appendable_text, text) RETURNS appendable_text
	AS 'MODULE_PATHNAME', 'appendable_cat_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_cat(appendable_text, text) IS 'implementation of || operator';

CREATE FUNCTION appendable_text_cat(text, appendable_text) RETURNS appendable_text
	AS 'MODULE_PATHNAME', 'bytea_cat_appendable' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_cat(text, appendable_text) IS 'implementation of || operator';

-- Only one: what is appended is text, also if its type is unknown, so that a parameter
-- may be used for a text elsewhere in its statement.  For the others the planner puts in
-- the functions.
CREATE OPERATOR pg_catalog.|| (LEFTARG = appendable_text, RIGHTARG = text, FUNCTION = appendable_text_cat);
COMMENT ON OPERATOR pg_catalog.|| (appendable_text, text) IS 'concatenate';

CREATE FUNCTION appendable_text_length(appendable_text) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_text_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_length(appendable_text) IS 'length() of a value, in characters';

CREATE FUNCTION appendable_octet_length(value appendable_text) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_octet_length(appendable_text) IS 'bytes of the value, of any length';

CREATE FUNCTION appendable_text_octet_length(appendable_text) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_length4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_octet_length(appendable_text) IS 'octet_length() of a value';

CREATE FUNCTION appendable_text_substr(appendable_text, integer, integer) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_text_substr' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_substr(appendable_text, integer, integer) IS 'substr() of a value';

CREATE FUNCTION appendable_text_substr(appendable_text, integer) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_text_substr' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_substr(appendable_text, integer) IS 'substr() of a value';

CREATE FUNCTION appendable_text_left(appendable_text, integer) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_text_left' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_left(appendable_text, integer) IS 'left() of a value';

CREATE FUNCTION appendable_text_right(appendable_text, integer) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_text_right' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_right(appendable_text, integer) IS 'right() of a value';

CREATE FUNCTION appendable_text_position(appendable_text, text) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_text_position' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_position(appendable_text, text) IS 'position() in a value';

CREATE FUNCTION appendable_text_md5(appendable_text) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_md5' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_md5(appendable_text) IS 'md5() of a value';

CREATE FUNCTION appendable_as_key(appendable_text) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_as_key' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_as_key(appendable_text) IS 'value as a key of an index on text; null if it is too large for one';

CREATE FUNCTION appendable_text_eq(appendable_text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_texts_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_eq(appendable_text, appendable_text) IS 'implementation of = operator';

CREATE FUNCTION appendable_text_ne(appendable_text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_texts_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_ne(appendable_text, appendable_text) IS 'implementation of <> operator';

CREATE FUNCTION appendable_text_lt(appendable_text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_texts_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_lt(appendable_text, appendable_text) IS 'implementation of < operator';

CREATE FUNCTION appendable_text_le(appendable_text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_texts_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_le(appendable_text, appendable_text) IS 'implementation of <= operator';

CREATE FUNCTION appendable_text_gt(appendable_text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_texts_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_gt(appendable_text, appendable_text) IS 'implementation of > operator';

CREATE FUNCTION appendable_text_ge(appendable_text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_texts_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_ge(appendable_text, appendable_text) IS 'implementation of >= operator';

CREATE FUNCTION appendable_text_cmp(appendable_text, appendable_text) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_texts_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_cmp(appendable_text, appendable_text) IS 'less-equal-greater';

CREATE FUNCTION appendable_text_eq(appendable_text, text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_text_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT appendable_equal_support;
COMMENT ON FUNCTION appendable_text_eq(appendable_text, text) IS 'implementation of = operator';

CREATE FUNCTION appendable_text_ne(appendable_text, text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_text_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_ne(appendable_text, text) IS 'implementation of <> operator';

CREATE FUNCTION appendable_text_lt(appendable_text, text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_text_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_lt(appendable_text, text) IS 'implementation of < operator';

CREATE FUNCTION appendable_text_le(appendable_text, text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_text_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_le(appendable_text, text) IS 'implementation of <= operator';

CREATE FUNCTION appendable_text_gt(appendable_text, text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_text_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_gt(appendable_text, text) IS 'implementation of > operator';

CREATE FUNCTION appendable_text_ge(appendable_text, text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_text_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_ge(appendable_text, text) IS 'implementation of >= operator';

CREATE FUNCTION appendable_text_cmp(appendable_text, text) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_text_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_cmp(appendable_text, text) IS 'less-equal-greater';

CREATE FUNCTION appendable_text_eq(text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'text_appendable_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT appendable_equal_support;
COMMENT ON FUNCTION appendable_text_eq(text, appendable_text) IS 'implementation of = operator';

CREATE FUNCTION appendable_text_ne(text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'text_appendable_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_ne(text, appendable_text) IS 'implementation of <> operator';

CREATE FUNCTION appendable_text_lt(text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'text_appendable_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_lt(text, appendable_text) IS 'implementation of < operator';

CREATE FUNCTION appendable_text_le(text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'text_appendable_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_le(text, appendable_text) IS 'implementation of <= operator';

CREATE FUNCTION appendable_text_gt(text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'text_appendable_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_gt(text, appendable_text) IS 'implementation of > operator';

CREATE FUNCTION appendable_text_ge(text, appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'text_appendable_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_ge(text, appendable_text) IS 'implementation of >= operator';

CREATE FUNCTION appendable_text_cmp(text, appendable_text) RETURNS integer
	AS 'MODULE_PATHNAME', 'text_appendable_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_cmp(text, appendable_text) IS 'less-equal-greater';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = appendable_text, RIGHTARG = appendable_text, FUNCTION = appendable_text_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES, MERGES
);
COMMENT ON OPERATOR pg_catalog.= (appendable_text, appendable_text) IS 'equal';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = appendable_text, RIGHTARG = appendable_text, FUNCTION = appendable_text_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (appendable_text, appendable_text) IS 'not equal';

CREATE OPERATOR pg_catalog.< (
	LEFTARG = appendable_text, RIGHTARG = appendable_text, FUNCTION = appendable_text_lt,
	COMMUTATOR = OPERATOR(pg_catalog.>), NEGATOR = OPERATOR(pg_catalog.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR pg_catalog.< (appendable_text, appendable_text) IS 'less than';

CREATE OPERATOR pg_catalog.<= (
	LEFTARG = appendable_text, RIGHTARG = appendable_text, FUNCTION = appendable_text_le,
	COMMUTATOR = OPERATOR(pg_catalog.>=), NEGATOR = OPERATOR(pg_catalog.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR pg_catalog.<= (appendable_text, appendable_text) IS 'less than or equal';

CREATE OPERATOR pg_catalog.> (
	LEFTARG = appendable_text, RIGHTARG = appendable_text, FUNCTION = appendable_text_gt,
	COMMUTATOR = OPERATOR(pg_catalog.<), NEGATOR = OPERATOR(pg_catalog.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR pg_catalog.> (appendable_text, appendable_text) IS 'greater than';

CREATE OPERATOR pg_catalog.>= (
	LEFTARG = appendable_text, RIGHTARG = appendable_text, FUNCTION = appendable_text_ge,
	COMMUTATOR = OPERATOR(pg_catalog.<=), NEGATOR = OPERATOR(pg_catalog.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR pg_catalog.>= (appendable_text, appendable_text) IS 'greater than or equal';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = appendable_text, RIGHTARG = text, FUNCTION = appendable_text_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES
);
COMMENT ON OPERATOR pg_catalog.= (appendable_text, text) IS 'equal';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = appendable_text, RIGHTARG = text, FUNCTION = appendable_text_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (appendable_text, text) IS 'not equal';

CREATE OPERATOR pg_catalog.< (
	LEFTARG = appendable_text, RIGHTARG = text, FUNCTION = appendable_text_lt,
	COMMUTATOR = OPERATOR(pg_catalog.>), NEGATOR = OPERATOR(pg_catalog.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR pg_catalog.< (appendable_text, text) IS 'less than';

CREATE OPERATOR pg_catalog.<= (
	LEFTARG = appendable_text, RIGHTARG = text, FUNCTION = appendable_text_le,
	COMMUTATOR = OPERATOR(pg_catalog.>=), NEGATOR = OPERATOR(pg_catalog.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR pg_catalog.<= (appendable_text, text) IS 'less than or equal';

CREATE OPERATOR pg_catalog.> (
	LEFTARG = appendable_text, RIGHTARG = text, FUNCTION = appendable_text_gt,
	COMMUTATOR = OPERATOR(pg_catalog.<), NEGATOR = OPERATOR(pg_catalog.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR pg_catalog.> (appendable_text, text) IS 'greater than';

CREATE OPERATOR pg_catalog.>= (
	LEFTARG = appendable_text, RIGHTARG = text, FUNCTION = appendable_text_ge,
	COMMUTATOR = OPERATOR(pg_catalog.<=), NEGATOR = OPERATOR(pg_catalog.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR pg_catalog.>= (appendable_text, text) IS 'greater than or equal';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = text, RIGHTARG = appendable_text, FUNCTION = appendable_text_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES
);
COMMENT ON OPERATOR pg_catalog.= (text, appendable_text) IS 'equal';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = text, RIGHTARG = appendable_text, FUNCTION = appendable_text_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (text, appendable_text) IS 'not equal';

CREATE OPERATOR pg_catalog.< (
	LEFTARG = text, RIGHTARG = appendable_text, FUNCTION = appendable_text_lt,
	COMMUTATOR = OPERATOR(pg_catalog.>), NEGATOR = OPERATOR(pg_catalog.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR pg_catalog.< (text, appendable_text) IS 'less than';

CREATE OPERATOR pg_catalog.<= (
	LEFTARG = text, RIGHTARG = appendable_text, FUNCTION = appendable_text_le,
	COMMUTATOR = OPERATOR(pg_catalog.>=), NEGATOR = OPERATOR(pg_catalog.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR pg_catalog.<= (text, appendable_text) IS 'less than or equal';

CREATE OPERATOR pg_catalog.> (
	LEFTARG = text, RIGHTARG = appendable_text, FUNCTION = appendable_text_gt,
	COMMUTATOR = OPERATOR(pg_catalog.<), NEGATOR = OPERATOR(pg_catalog.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR pg_catalog.> (text, appendable_text) IS 'greater than';

CREATE OPERATOR pg_catalog.>= (
	LEFTARG = text, RIGHTARG = appendable_text, FUNCTION = appendable_text_ge,
	COMMUTATOR = OPERATOR(pg_catalog.<=), NEGATOR = OPERATOR(pg_catalog.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR pg_catalog.>= (text, appendable_text) IS 'greater than or equal';

CREATE FUNCTION appendable_text_hash(appendable_text) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_text_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_hash(appendable_text) IS 'hash';

CREATE FUNCTION appendable_text_hash_extended(appendable_text, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_text_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_hash_extended(appendable_text, bigint) IS 'hash';

CREATE FUNCTION appendable_text_hash(text) RETURNS integer
	AS 'MODULE_PATHNAME', 'text_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_hash(text) IS 'hash of a text, equal to that of an equal appendable_text';

CREATE FUNCTION appendable_text_hash_extended(text, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'text_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_text_hash_extended(text, bigint) IS 'hash of a text, equal to that of an equal appendable_text';

CREATE OPERATOR CLASS appendable_text_ops DEFAULT FOR TYPE appendable_text USING btree AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>,
	FUNCTION 1 appendable_text_cmp(appendable_text, appendable_text);

CREATE OPERATOR CLASS appendable_text_ops DEFAULT FOR TYPE appendable_text USING hash AS
	OPERATOR 1 pg_catalog.=,
	FUNCTION 1 appendable_text_hash(appendable_text),
	FUNCTION 2 appendable_text_hash_extended(appendable_text, bigint);

CREATE OPERATOR #=# (
	LEFTARG = text, RIGHTARG = text, FUNCTION = pg_catalog.texteq,
	COMMUTATOR = #=#, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);
COMMENT ON OPERATOR #=# (text, text) IS 'equal, for joins of text with appendable_text';

CREATE OPERATOR #<# (
	LEFTARG = text, RIGHTARG = text, FUNCTION = pg_catalog.text_lt,
	COMMUTATOR = #>#, NEGATOR = #>=#, RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR #<# (text, text) IS 'less than, for comparisons of text with appendable_text';

CREATE OPERATOR #<=# (
	LEFTARG = text, RIGHTARG = text, FUNCTION = pg_catalog.text_le,
	COMMUTATOR = #>=#, NEGATOR = #>#, RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR #<=# (text, text) IS 'less than or equal, for comparisons of text with appendable_text';

CREATE OPERATOR #># (
	LEFTARG = text, RIGHTARG = text, FUNCTION = pg_catalog.text_gt,
	COMMUTATOR = #<#, NEGATOR = #<=#, RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR #># (text, text) IS 'greater than, for comparisons of text with appendable_text';

CREATE OPERATOR #>=# (
	LEFTARG = text, RIGHTARG = text, FUNCTION = pg_catalog.text_ge,
	COMMUTATOR = #<=#, NEGATOR = #<#, RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR #>=# (text, text) IS 'greater than or equal, for comparisons of text with appendable_text';

ALTER OPERATOR FAMILY appendable_text_ops USING hash ADD
	OPERATOR 1 pg_catalog.= (appendable_text, text),
	OPERATOR 1 pg_catalog.= (text, appendable_text),
	OPERATOR 1 #=# (text, text),
	FUNCTION 1 (text, text) appendable_text_hash(text),
	FUNCTION 2 (text, text) appendable_text_hash_extended(text, bigint);

ALTER OPERATOR FAMILY appendable_text_ops USING btree ADD
	OPERATOR 1 pg_catalog.< (appendable_text, text),
	OPERATOR 2 pg_catalog.<= (appendable_text, text),
	OPERATOR 3 pg_catalog.= (appendable_text, text),
	OPERATOR 4 pg_catalog.>= (appendable_text, text),
	OPERATOR 5 pg_catalog.> (appendable_text, text),
	FUNCTION 1 (appendable_text, text) appendable_text_cmp(appendable_text, text),
	OPERATOR 1 pg_catalog.< (text, appendable_text),
	OPERATOR 2 pg_catalog.<= (text, appendable_text),
	OPERATOR 3 pg_catalog.= (text, appendable_text),
	OPERATOR 4 pg_catalog.>= (text, appendable_text),
	OPERATOR 5 pg_catalog.> (text, appendable_text),
	FUNCTION 1 (text, appendable_text) appendable_text_cmp(text, appendable_text),
	OPERATOR 1 #<# (text, text),
	OPERATOR 2 #<=# (text, text),
	OPERATOR 3 #=# (text, text),
	OPERATOR 4 #>=# (text, text),
	OPERATOR 5 #># (text, text),
	FUNCTION 1 (text, text) pg_catalog.bttextcmp(text, text);

-- ---------------------------------------------------------------------------
-- json.  The casts to and from json have functions: by that of the type to json,
-- to_json(), json_build_object() and row_to_json() see that a value is JSON.  There is no
-- operator of the type's own: json has none that compares or makes a value.
-- ---------------------------------------------------------------------------

CREATE TYPE appendable_json;

CREATE FUNCTION appendable_json_in(cstring) RETURNS appendable_json
	AS 'MODULE_PATHNAME', 'appendable_json_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_json_in(cstring) IS 'I/O';

CREATE FUNCTION appendable_json_out(appendable_json) RETURNS cstring
	AS 'MODULE_PATHNAME', 'appendable_text_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_json_out(appendable_json) IS 'I/O';

CREATE FUNCTION appendable_json_recv(internal) RETURNS appendable_json
	AS 'MODULE_PATHNAME', 'appendable_json_recv' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_json_recv(internal) IS 'I/O';

CREATE FUNCTION appendable_json_send(appendable_json) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_text_send' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_json_send(appendable_json) IS 'I/O';

CREATE TYPE appendable_json (
	INPUT = appendable_json_in,
	OUTPUT = appendable_json_out,
	RECEIVE = appendable_json_recv,
	SEND = appendable_json_send,
	ANALYZE = appendable_bytea_typanalyze,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main,
	CATEGORY = 'U'
);
COMMENT ON TYPE appendable_json IS 'json for which an UPDATE can store only the difference';

CREATE FUNCTION appendable_json_to_json(appendable_json) RETURNS json
	AS 'MODULE_PATHNAME', 'appendable_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_json_to_json(appendable_json) IS 'convert appendable_json to json';

CREATE FUNCTION appendable_json(json) RETURNS appendable_json
	AS 'MODULE_PATHNAME', 'appendable_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_json(json) IS 'convert json to appendable_json';

CREATE CAST (appendable_json AS json) WITH FUNCTION appendable_json_to_json(appendable_json) AS IMPLICIT;
CREATE CAST (json AS appendable_json) WITH FUNCTION appendable_json(json) AS IMPLICIT;
-- as between json and jsonb
CREATE CAST (appendable_json AS jsonb) WITH INOUT AS ASSIGNMENT;
CREATE CAST (jsonb AS appendable_json) WITH INOUT AS ASSIGNMENT;

CREATE FUNCTION appendable_octet_length(value appendable_json) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_octet_length(appendable_json) IS 'bytes of the value';

-- ---------------------------------------------------------------------------
-- jsonb.  A value has the bytes of a jsonb, and functions and operators of jsonb take it by
-- the implicit cast.  The cast from jsonb is for assignments only, so that an operator
-- between a value and a jsonb is that of jsonb.  By the cast to json, to_json() and similar
-- functions see that a value is JSON.  The planner puts in the functions that read a part.
-- ---------------------------------------------------------------------------

CREATE TYPE appendable_jsonb;

CREATE FUNCTION appendable_jsonb_in(cstring) RETURNS appendable_jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_in(cstring) IS 'I/O';

CREATE FUNCTION appendable_jsonb_out(appendable_jsonb) RETURNS cstring
	AS 'MODULE_PATHNAME', 'appendable_jsonb_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_out(appendable_jsonb) IS 'I/O';

CREATE FUNCTION appendable_jsonb_recv(internal) RETURNS appendable_jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_recv' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_recv(internal) IS 'I/O';

CREATE FUNCTION appendable_jsonb_send(appendable_jsonb) RETURNS bytea
	AS 'MODULE_PATHNAME', 'appendable_jsonb_send' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_send(appendable_jsonb) IS 'I/O';

CREATE FUNCTION appendable_jsonb_subscript(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'appendable_jsonb_subscript' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_subscript(internal) IS 'subscripts of jsonb';

CREATE TYPE appendable_jsonb (
	INPUT = appendable_jsonb_in,
	OUTPUT = appendable_jsonb_out,
	RECEIVE = appendable_jsonb_recv,
	SEND = appendable_jsonb_send,
	ANALYZE = appendable_bytea_typanalyze,
	SUBSCRIPT = appendable_jsonb_subscript,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main,
	CATEGORY = 'U'
);
COMMENT ON TYPE appendable_jsonb IS 'jsonb for which an UPDATE can store only the difference';

CREATE FUNCTION appendable_jsonb_to_jsonb(appendable_jsonb) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_to_jsonb' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_to_jsonb(appendable_jsonb) IS 'convert appendable_jsonb to jsonb';

CREATE FUNCTION appendable_jsonb_to_json(appendable_jsonb) RETURNS json
	AS 'MODULE_PATHNAME', 'appendable_jsonb_to_json' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_to_json(appendable_jsonb) IS 'convert appendable_jsonb to json';

CREATE FUNCTION appendable_jsonb(jsonb) RETURNS appendable_jsonb
	AS 'MODULE_PATHNAME', 'appendable_from_jsonb' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb(jsonb) IS 'convert jsonb to appendable_jsonb';

CREATE CAST (appendable_jsonb AS jsonb) WITH FUNCTION appendable_jsonb_to_jsonb(appendable_jsonb) AS IMPLICIT;
CREATE CAST (jsonb AS appendable_jsonb) WITH FUNCTION appendable_jsonb(jsonb) AS ASSIGNMENT;
CREATE CAST (appendable_jsonb AS json) WITH FUNCTION appendable_jsonb_to_json(appendable_jsonb) AS ASSIGNMENT;
CREATE CAST (json AS appendable_jsonb) WITH INOUT AS ASSIGNMENT;
CREATE CAST (appendable_jsonb AS appendable_json) WITH INOUT AS ASSIGNMENT;
CREATE CAST (appendable_json AS appendable_jsonb) WITH INOUT AS ASSIGNMENT;

-- As between jsonb and numbers.  Strings, not parsed bodies: a dump creates functions before the cast to jsonb.

CREATE FUNCTION appendable_jsonb_to_bool(appendable_jsonb) RETURNS boolean
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb::pg_catalog.bool';
COMMENT ON FUNCTION appendable_jsonb_to_bool(appendable_jsonb) IS 'convert appendable_jsonb to boolean';
CREATE CAST (appendable_jsonb AS boolean) WITH FUNCTION appendable_jsonb_to_bool(appendable_jsonb);

CREATE FUNCTION appendable_jsonb_to_numeric(appendable_jsonb) RETURNS numeric
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb::pg_catalog.numeric';
COMMENT ON FUNCTION appendable_jsonb_to_numeric(appendable_jsonb) IS 'convert appendable_jsonb to numeric';
CREATE CAST (appendable_jsonb AS numeric) WITH FUNCTION appendable_jsonb_to_numeric(appendable_jsonb);

CREATE FUNCTION appendable_jsonb_to_int2(appendable_jsonb) RETURNS smallint
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb::pg_catalog.int2';
COMMENT ON FUNCTION appendable_jsonb_to_int2(appendable_jsonb) IS 'convert appendable_jsonb to smallint';
CREATE CAST (appendable_jsonb AS smallint) WITH FUNCTION appendable_jsonb_to_int2(appendable_jsonb);

CREATE FUNCTION appendable_jsonb_to_int4(appendable_jsonb) RETURNS integer
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb::pg_catalog.int4';
COMMENT ON FUNCTION appendable_jsonb_to_int4(appendable_jsonb) IS 'convert appendable_jsonb to integer';
CREATE CAST (appendable_jsonb AS integer) WITH FUNCTION appendable_jsonb_to_int4(appendable_jsonb);

CREATE FUNCTION appendable_jsonb_to_int8(appendable_jsonb) RETURNS bigint
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb::pg_catalog.int8';
COMMENT ON FUNCTION appendable_jsonb_to_int8(appendable_jsonb) IS 'convert appendable_jsonb to bigint';
CREATE CAST (appendable_jsonb AS bigint) WITH FUNCTION appendable_jsonb_to_int8(appendable_jsonb);

CREATE FUNCTION appendable_jsonb_to_float4(appendable_jsonb) RETURNS real
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb::pg_catalog.float4';
COMMENT ON FUNCTION appendable_jsonb_to_float4(appendable_jsonb) IS 'convert appendable_jsonb to real';
CREATE CAST (appendable_jsonb AS real) WITH FUNCTION appendable_jsonb_to_float4(appendable_jsonb);

CREATE FUNCTION appendable_jsonb_to_float8(appendable_jsonb) RETURNS double precision
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb::pg_catalog.float8';
COMMENT ON FUNCTION appendable_jsonb_to_float8(appendable_jsonb) IS 'convert appendable_jsonb to double precision';
CREATE CAST (appendable_jsonb AS double precision) WITH FUNCTION appendable_jsonb_to_float8(appendable_jsonb);

-- for constants of unknown type, which the operator of text would take otherwise

CREATE FUNCTION appendable_jsonb_cat(appendable_jsonb, appendable_jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1::pg_catalog.jsonb OPERATOR(pg_catalog.||) $2::pg_catalog.jsonb';
COMMENT ON FUNCTION appendable_jsonb_cat(appendable_jsonb, appendable_jsonb) IS 'implementation of || operator';

CREATE OPERATOR pg_catalog.|| (LEFTARG = appendable_jsonb, RIGHTARG = appendable_jsonb, FUNCTION = appendable_jsonb_cat);
COMMENT ON OPERATOR pg_catalog.|| (appendable_jsonb, appendable_jsonb) IS 'concatenate';

-- ---- what calls written for jsonb run as ----

CREATE FUNCTION appendable_jsonb_object_field(appendable_jsonb, text) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_object_field' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_object_field(appendable_jsonb, text) IS '-> of a value';

CREATE FUNCTION appendable_jsonb_object_field_text(appendable_jsonb, text) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_jsonb_object_field' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_object_field_text(appendable_jsonb, text) IS '->> of a value';

CREATE FUNCTION appendable_jsonb_array_element(appendable_jsonb, integer) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_array_element' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_array_element(appendable_jsonb, integer) IS '-> of a value';

CREATE FUNCTION appendable_jsonb_array_element_text(appendable_jsonb, integer) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_jsonb_array_element' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_array_element_text(appendable_jsonb, integer) IS '->> of a value';

CREATE FUNCTION appendable_jsonb_extract_path(appendable_jsonb, VARIADIC text[]) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_extract_path' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_extract_path(appendable_jsonb, text[]) IS '#> of a value';

CREATE FUNCTION appendable_jsonb_extract_path_text(appendable_jsonb, VARIADIC text[]) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_jsonb_extract_path' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_extract_path_text(appendable_jsonb, text[]) IS '#>> of a value';

CREATE FUNCTION appendable_jsonb_part(appendable_jsonb, text) RETURNS appendable_jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_object_field' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_part(appendable_jsonb, text) IS '-> of a value, for another operator';

CREATE FUNCTION appendable_jsonb_part(appendable_jsonb, integer) RETURNS appendable_jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_array_element' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_part(appendable_jsonb, integer) IS '-> of a value, for another operator';

CREATE FUNCTION appendable_jsonb_part(appendable_jsonb, text[]) RETURNS appendable_jsonb
	AS 'MODULE_PATHNAME', 'appendable_jsonb_extract_path' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_part(appendable_jsonb, text[]) IS '#> of a value, for another operator';

CREATE FUNCTION appendable_jsonb_exists(appendable_jsonb, text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_jsonb_exists' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_exists(appendable_jsonb, text) IS '? of a value';

CREATE FUNCTION appendable_jsonb_array_length(appendable_jsonb) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_jsonb_array_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_array_length(appendable_jsonb) IS 'jsonb_array_length() of a value';

CREATE FUNCTION appendable_jsonb_typeof(appendable_jsonb) RETURNS text
	AS 'MODULE_PATHNAME', 'appendable_jsonb_typeof' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_typeof(appendable_jsonb) IS 'jsonb_typeof() of a value';

CREATE FUNCTION appendable_octet_length(value appendable_jsonb) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_octet_length(appendable_jsonb) IS 'bytes of the value';

-- ---- order and equality ----

CREATE FUNCTION appendable_jsonb_eq(appendable_jsonb, appendable_jsonb) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_jsonb_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_eq(appendable_jsonb, appendable_jsonb) IS 'implementation of = operator';

CREATE FUNCTION appendable_jsonb_ne(appendable_jsonb, appendable_jsonb) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_jsonb_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_ne(appendable_jsonb, appendable_jsonb) IS 'implementation of <> operator';

CREATE FUNCTION appendable_jsonb_lt(appendable_jsonb, appendable_jsonb) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_jsonb_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_lt(appendable_jsonb, appendable_jsonb) IS 'implementation of < operator';

CREATE FUNCTION appendable_jsonb_le(appendable_jsonb, appendable_jsonb) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_jsonb_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_le(appendable_jsonb, appendable_jsonb) IS 'implementation of <= operator';

CREATE FUNCTION appendable_jsonb_gt(appendable_jsonb, appendable_jsonb) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_jsonb_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_gt(appendable_jsonb, appendable_jsonb) IS 'implementation of > operator';

CREATE FUNCTION appendable_jsonb_ge(appendable_jsonb, appendable_jsonb) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_jsonb_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_ge(appendable_jsonb, appendable_jsonb) IS 'implementation of >= operator';

CREATE FUNCTION appendable_jsonb_cmp(appendable_jsonb, appendable_jsonb) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_jsonb_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_cmp(appendable_jsonb, appendable_jsonb) IS 'less-equal-greater';

CREATE FUNCTION appendable_jsonb_hash(appendable_jsonb) RETURNS integer
	AS 'MODULE_PATHNAME', 'appendable_jsonb_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_hash(appendable_jsonb) IS 'hash';

CREATE FUNCTION appendable_jsonb_hash_extended(appendable_jsonb, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_jsonb_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_jsonb_hash_extended(appendable_jsonb, bigint) IS 'hash';

CREATE OPERATOR pg_catalog.= (
	LEFTARG = appendable_jsonb, RIGHTARG = appendable_jsonb, FUNCTION = appendable_jsonb_eq,
	COMMUTATOR = OPERATOR(pg_catalog.=), NEGATOR = OPERATOR(pg_catalog.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES, MERGES
);
COMMENT ON OPERATOR pg_catalog.= (appendable_jsonb, appendable_jsonb) IS 'equal';

CREATE OPERATOR pg_catalog.<> (
	LEFTARG = appendable_jsonb, RIGHTARG = appendable_jsonb, FUNCTION = appendable_jsonb_ne,
	COMMUTATOR = OPERATOR(pg_catalog.<>), NEGATOR = OPERATOR(pg_catalog.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR pg_catalog.<> (appendable_jsonb, appendable_jsonb) IS 'not equal';

CREATE OPERATOR pg_catalog.< (
	LEFTARG = appendable_jsonb, RIGHTARG = appendable_jsonb, FUNCTION = appendable_jsonb_lt,
	COMMUTATOR = OPERATOR(pg_catalog.>), NEGATOR = OPERATOR(pg_catalog.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR pg_catalog.< (appendable_jsonb, appendable_jsonb) IS 'less than';

CREATE OPERATOR pg_catalog.<= (
	LEFTARG = appendable_jsonb, RIGHTARG = appendable_jsonb, FUNCTION = appendable_jsonb_le,
	COMMUTATOR = OPERATOR(pg_catalog.>=), NEGATOR = OPERATOR(pg_catalog.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR pg_catalog.<= (appendable_jsonb, appendable_jsonb) IS 'less than or equal';

CREATE OPERATOR pg_catalog.> (
	LEFTARG = appendable_jsonb, RIGHTARG = appendable_jsonb, FUNCTION = appendable_jsonb_gt,
	COMMUTATOR = OPERATOR(pg_catalog.<), NEGATOR = OPERATOR(pg_catalog.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR pg_catalog.> (appendable_jsonb, appendable_jsonb) IS 'greater than';

CREATE OPERATOR pg_catalog.>= (
	LEFTARG = appendable_jsonb, RIGHTARG = appendable_jsonb, FUNCTION = appendable_jsonb_ge,
	COMMUTATOR = OPERATOR(pg_catalog.<=), NEGATOR = OPERATOR(pg_catalog.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR pg_catalog.>= (appendable_jsonb, appendable_jsonb) IS 'greater than or equal';

CREATE OPERATOR CLASS appendable_jsonb_ops DEFAULT FOR TYPE appendable_jsonb USING btree AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>,
	FUNCTION 1 appendable_jsonb_cmp(appendable_jsonb, appendable_jsonb);

CREATE OPERATOR CLASS appendable_jsonb_ops DEFAULT FOR TYPE appendable_jsonb USING hash AS
	OPERATOR 1 pg_catalog.=,
	FUNCTION 1 appendable_jsonb_hash(appendable_jsonb),
	FUNCTION 2 appendable_jsonb_hash_extended(appendable_jsonb, bigint);

--
-- Following: what is new since an offset, and being told of more
--

CREATE FUNCTION appendable_tail(value appendable_bytea, from_offset bigint, max_bytes integer DEFAULT 1048576,
	whole_lines boolean DEFAULT false, dropped bigint DEFAULT 0, OUT data bytea, OUT next_offset bigint)
	AS 'MODULE_PATHNAME', 'appendable_tail' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_tail(appendable_bytea, bigint, integer, boolean, bigint) IS 'bytes after an offset, and the offset to continue from';

CREATE FUNCTION appendable_tail(value appendable_text, from_offset bigint, max_bytes integer DEFAULT 1048576,
	whole_lines boolean DEFAULT false, dropped bigint DEFAULT 0, OUT data text, OUT next_offset bigint)
	AS 'MODULE_PATHNAME', 'appendable_tail' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_tail(appendable_text, bigint, integer, boolean, bigint) IS 'complete characters after an offset in bytes, and the offset to continue from';

CREATE FUNCTION appendable_lines(value appendable_bytea, from_offset bigint DEFAULT 0, unfinished boolean DEFAULT true,
	dropped bigint DEFAULT 0, OUT line bytea, OUT next_offset bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'appendable_lines' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_lines(appendable_bytea, bigint, boolean, bigint) IS 'lines from an offset on, each with the offset after it';

CREATE FUNCTION appendable_lines(value appendable_text, from_offset bigint DEFAULT 0, unfinished boolean DEFAULT true,
	dropped bigint DEFAULT 0, OUT line text, OUT next_offset bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'appendable_lines' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_lines(appendable_text, bigint, boolean, bigint) IS 'lines from an offset in bytes on, each with the offset after it';

CREATE FUNCTION appendable_line_offset(value appendable_bytea, from_offset bigint, n bigint, dropped bigint DEFAULT 0) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_line_offset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_line_offset(appendable_bytea, bigint, bigint, bigint) IS 'offset of the n-th line after an offset, or of the -n-th before it';

CREATE FUNCTION appendable_line_offset(value appendable_text, from_offset bigint, n bigint, dropped bigint DEFAULT 0) RETURNS bigint
	AS 'MODULE_PATHNAME', 'appendable_line_offset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_line_offset(appendable_text, bigint, bigint, bigint) IS 'offset in bytes of the n-th line after an offset in bytes, or of the -n-th before it';

CREATE FUNCTION appendable_notify() RETURNS trigger
	AS 'MODULE_PATHNAME', 'appendable_notify' LANGUAGE C;
COMMENT ON FUNCTION appendable_notify() IS 'trigger that notifies a channel of appends: arguments are the channel and, for a trigger of each row, the column whose value is sent';

CREATE FUNCTION appendable_extends(new appendable_bytea, old appendable_bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_extends' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_extends(appendable_bytea, appendable_bytea) IS 'whether new begins with the bytes of old';

CREATE FUNCTION appendable_extends(new appendable_text, old appendable_text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'appendable_extends' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_extends(appendable_text, appendable_text) IS 'whether new begins with the bytes of old';

CREATE FUNCTION appendable_only() RETURNS trigger
	AS 'MODULE_PATHNAME', 'appendable_only' LANGUAGE C;
COMMENT ON FUNCTION appendable_only() IS 'trigger that rejects an update that changes bytes of a value: arguments are columns, each followed by the column that counts its dropped bytes, if there is one; without arguments, all columns of the types';

CREATE FUNCTION appendable_drop_front(value appendable_bytea, bytes bigint) RETURNS appendable_bytea
	AS 'MODULE_PATHNAME', 'appendable_drop_front' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_drop_front(appendable_bytea, bigint) IS 'the value without its first bytes';

CREATE FUNCTION appendable_drop_front(value appendable_text, bytes bigint) RETURNS appendable_text
	AS 'MODULE_PATHNAME', 'appendable_drop_front' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_drop_front(appendable_text, bigint) IS 'the text without its first bytes, which end with a character';

-- ---- deltas for consumers of logical decoding ----

CREATE FUNCTION appendable_deltas() RETURNS trigger
	AS 'MODULE_PATHNAME', 'appendable_deltas' LANGUAGE C;
COMMENT ON FUNCTION appendable_deltas() IS 'trigger that writes appended bytes as logical messages: arguments are the column that identifies a row, and columns; without further columns, all columns of the types';

--
-- 3. Storage: access method, chunk stores, check, statistics
--

CREATE SCHEMA appendable_store;
COMMENT ON SCHEMA appendable_store IS 'chunks of appendable_bytea values, one table for each table that has any';
REVOKE ALL ON SCHEMA appendable_store FROM PUBLIC;

CREATE FUNCTION appendable_heap_handler(internal) RETURNS table_am_handler
AS 'MODULE_PATHNAME' LANGUAGE c STRICT PARALLEL SAFE;
COMMENT ON FUNCTION appendable_heap_handler(internal) IS 'handler of the table access method appendable_heap';

CREATE ACCESS METHOD appendable_heap TYPE TABLE HANDLER appendable_heap_handler;
COMMENT ON ACCESS METHOD appendable_heap IS 'heap whose columns of type appendable_bytea keep their values in chunks';

CREATE FUNCTION appendable_bytea_command_start() RETURNS event_trigger
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE;
COMMENT ON FUNCTION appendable_bytea_command_start() IS 'loads the library before a command that may need it';
REVOKE ALL ON FUNCTION appendable_bytea_command_start() FROM PUBLIC;

CREATE EVENT TRIGGER appendable_bytea_command_start ON ddl_command_start
	EXECUTE FUNCTION appendable_bytea_command_start();
COMMENT ON EVENT TRIGGER appendable_bytea_command_start IS 'loads appendable_bytea before a command that may need it';
ALTER EVENT TRIGGER appendable_bytea_command_start ENABLE ALWAYS;

-- Clients see bytea from the first statement of a session on if the library is loaded
-- when it is analyzed.
DO $$
BEGIN
	IF pg_catalog.concat(pg_catalog.current_setting('shared_preload_libraries'), pg_catalog.current_setting('session_preload_libraries')) OPERATOR(pg_catalog.!~) 'appendable_bytea' THEN
		RAISE NOTICE 'the library is not preloaded'
			USING HINT = pg_catalog.format('ALTER DATABASE %I SET session_preload_libraries = ''appendable_bytea'' lets clients see bytea in a session''s first statement, too.', pg_catalog.current_database());
	END IF;
END $$;

CREATE FUNCTION appendable_bytea_repair(relation regclass DEFAULT NULL, max_chunks bigint DEFAULT NULL,
	OUT chunks_removed bigint, OUT bytes_removed bigint)
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION appendable_bytea_repair(regclass, bigint) IS 'repairs a table with columns of the types and its chunk store, and removes chunks that belong to no value, at most max_chunks; without a table, removes stores of dropped tables';

CREATE PROCEDURE appendable_compact(relation regclass, condition text DEFAULT NULL,
	INOUT rows_compacted bigint DEFAULT NULL, INOUT rows_skipped bigint DEFAULT NULL,
	INOUT chunks_before bigint DEFAULT NULL, INOUT chunks_after bigint DEFAULT NULL,
	INOUT bytes_before bigint DEFAULT NULL, INOUT bytes_after bigint DEFAULT NULL)
AS 'MODULE_PATHNAME' LANGUAGE c;
COMMENT ON PROCEDURE appendable_compact(regclass, text, bigint, bigint, bigint, bigint, bigint, bigint) IS 'compresses values of a table that no longer grow, with one transaction for each row';

CREATE PROCEDURE appendable_shrink(relation regclass, condition text DEFAULT NULL,
	INOUT rows_compacted bigint DEFAULT NULL, INOUT rows_moved bigint DEFAULT NULL, INOUT rows_skipped bigint DEFAULT NULL,
	INOUT pages_before bigint DEFAULT NULL, INOUT pages_after bigint DEFAULT NULL)
AS 'MODULE_PATHNAME' LANGUAGE c;
COMMENT ON PROCEDURE appendable_shrink(regclass, text, bigint, bigint, bigint, bigint, bigint) IS 'moves rows and chunks from the last pages of a table and its chunk store to free space before them, so that VACUUM can truncate the files';

CREATE FUNCTION appendable_append(relation regclass, keys anyarray, chunks text[],
	column_name name DEFAULT NULL, key_column name DEFAULT NULL, offsets bigint[] DEFAULT NULL, skip_locked boolean DEFAULT false,
	OUT key anyelement, OUT length bigint, OUT done boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION appendable_append(regclass, anyarray, text[], name, name, bigint[], boolean) IS 'appends each chunk to the row of the key at the same array position, if the length of the value is the offset at that position; one row for each key, with the length of its value, or null if there is no such row, and whether it was appended to, null if the row was locked and skipped';

CREATE FUNCTION appendable_append(relation regclass, keys anyarray, chunks bytea[],
	column_name name DEFAULT NULL, key_column name DEFAULT NULL, offsets bigint[] DEFAULT NULL, skip_locked boolean DEFAULT false,
	OUT key anyelement, OUT length bigint, OUT done boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION appendable_append(regclass, anyarray, bytea[], name, name, bigint[], boolean) IS 'appends each chunk to the row of the key at the same array position, if the length of the value is the offset at that position; one row for each key, with the length of its value, or null if there is no such row, and whether it was appended to, null if the row was locked and skipped';

CREATE FUNCTION appendable_bytea_detach(regclass) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE STRICT;
COMMENT ON FUNCTION appendable_bytea_detach(regclass) IS 'converts a table, and all tables that inherit from it, to heap with columns of type bytea, text, json and jsonb';

CREATE FUNCTION appendable_bytea_check(relation regclass DEFAULT NULL,
	OUT table_name regclass, OUT row_id tid, OUT column_name text, OUT problem text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION appendable_bytea_check(regclass) IS 'compares every value with its chunks, and checks that all chunks belong to a value; one row for each problem';

CREATE FUNCTION appendable_bytea_stats(relation regclass DEFAULT NULL,
	OUT table_name regclass, OUT store regclass, OUT "values" bigint, OUT values_in_chunks bigint,
	OUT chunk_bytes bigint, OUT inline_bytes bigint, OUT store_bytes bigint, OUT other_store_bytes bigint,
	OUT store_total_bytes bigint, OUT hot_ratio float8, OUT compressed_share float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION appendable_bytea_stats(regclass) IS 'number and size of the values of a table, in its rows and in its chunk store';

CREATE FUNCTION appendable_bytea_total_size(regclass) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE c VOLATILE STRICT;
COMMENT ON FUNCTION appendable_bytea_total_size(regclass) IS 'bytes of a table with indexes, TOAST and chunks';

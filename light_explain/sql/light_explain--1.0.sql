/* light_explain/sql/light_explain--1.0.sql */

\echo Use "CREATE EXTENSION light_explain" to load this file. \quit

CREATE FUNCTION light_explain_last(
    OUT node integer,
    OUT parent integer,
    OUT depth integer,
    OUT label text,
    OUT rows double precision,
    OUT loops double precision,
    OUT total_ms double precision,
    OUT self_ms double precision,
    OUT shared_hit bigint,
    OUT shared_read bigint,
    OUT shared_dirtied bigint,
    OUT shared_written bigint,
    OUT local_blocks bigint,
    OUT temp_read bigint,
    OUT temp_written bigint,
    OUT wal_records bigint,
    OUT wal_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_last'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_last() IS
'the plan nodes of the session''s last EXPLAIN ANALYZE: rows over all loops, total time, and time, blocks and WAL of each node without the nodes that it calls';

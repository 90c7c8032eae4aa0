\echo Use "CREATE EXTENSION parallel_temp" to load this file. \quit

-- ---- Toolkit: the session's temporary buffers -------------------------------
--
-- Temporary buffers are private to a session, and every function here reads
-- those of the calling session alone.  So no session learns anything about another
-- one, and PUBLIC may call all of them; the functions that change the state of
-- one relation's pages check that the caller owns it.

CREATE FUNCTION pg_allocated_local_buffers()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_allocated_local_buffers() IS
'temporary buffers of this session that have memory';

CREATE FUNCTION pg_dirty_local_buffers()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_dirty_local_buffers() IS
'temporary buffers of this session whose page is not written to its file yet';

CREATE FUNCTION pg_flush_local_buffers()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flush_local_buffers() IS
'writes all dirty temporary buffers of this session; returns the number of pages written';

CREATE FUNCTION pg_flush_local_buffers(rel regclass)
RETURNS integer
AS 'MODULE_PATHNAME', 'pg_flush_local_buffers_rel'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flush_local_buffers(regclass) IS
'writes the dirty temporary buffers of a relation, its TOAST table and the indexes of both; returns the number of pages written';

CREATE FUNCTION pg_read_temp_relation(rel regclass, randomize boolean)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_read_temp_relation(regclass, boolean) IS
'reads all pages of a temporary relation into temporary buffers, in order or at random; returns the number of pages read from its file';

CREATE FUNCTION pg_temp_buffers_dirty(rel regclass)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_temp_buffers_dirty(regclass) IS
'marks the pages of a temporary relation that are in temporary buffers as dirty; returns the number of pages that were clean';

CREATE FUNCTION pg_evict_temp_relation(rel regclass)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_evict_temp_relation(regclass) IS
'writes the dirty pages of a temporary relation and evicts its pages from temporary buffers; returns the number of evicted pages';

CREATE FUNCTION pg_truncate_temp_relation(rel regclass, force boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_truncate_temp_relation(regclass, boolean) IS
'removes all rows of a temporary table without a transaction ID, WAL or catalog changes; cannot be rolled back';

CREATE FUNCTION pg_temp_flush_cost(rel regclass DEFAULT NULL)
RETURNS float8
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_temp_flush_cost(regclass) IS
'the planner''s cost, in units of seq_page_cost, of flushing a temporary relation with its TOAST table and indexes, or all relations';

CREATE FUNCTION pg_local_buffers_info(OUT buffer integer, OUT relation regclass, OUT relfilenode oid, OUT fork text, OUT block bigint,
	OUT dirty boolean, OUT usage_count integer, OUT pins integer, OUT bytes integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_local_buffers_info() IS 'rows of the view pg_local_buffers';

CREATE VIEW pg_local_buffers AS
SELECT buffer, relation, relfilenode, fork, block, dirty, usage_count, pins, bytes
FROM @extschema@.pg_local_buffers_info();

COMMENT ON VIEW pg_local_buffers IS
'temporary buffers of this session: one row for each that has memory; without a page all columns but pins and bytes are null';

CREATE FUNCTION pg_temp_relations_info(OUT relation regclass, OUT relfilenode oid, OUT pages bigint, OUT bytes bigint,
	OUT resident integer, OUT dirty integer, OUT path text, OUT path_exists boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_temp_relations_info() IS 'rows of the view pg_temp_relations';

CREATE VIEW pg_temp_relations AS
SELECT relation, relfilenode, pages, bytes, resident, dirty, path, path_exists
FROM @extschema@.pg_temp_relations_info();

COMMENT ON VIEW pg_temp_relations IS
'temporary relations of this session with their TOAST tables and indexes: pages of the main fork in the file, bytes of all forks, pages of all forks in temporary buffers and how many of these are dirty, path of the file and whether it exists';

GRANT SELECT ON pg_local_buffers, pg_temp_relations TO PUBLIC;

-- Statistics of tables that have not been analyzed.

CREATE FUNCTION pg_temp_stats_info(OUT relation regclass, OUT attnum smallint, OUT rows float8, OUT sampled integer, OUT changed float8,
	OUT null_frac real, OUT avg_width integer, OUT n_distinct real, OUT most_common_vals text, OUT most_common_freqs real[],
	OUT histogram_bounds text, OUT correlation real)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_temp_stats_info() IS 'rows of the view pg_temp_stats';

CREATE VIEW pg_temp_stats AS
SELECT s.relation, a.attname, s.rows, s.sampled, s.changed, s.null_frac, s.avg_width, s.n_distinct,
	s.most_common_vals, s.most_common_freqs, s.histogram_bounds, s.correlation
FROM @extschema@.pg_temp_stats_info() s
JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) s.relation AND a.attnum OPERATOR(pg_catalog.=) s.attnum;

COMMENT ON VIEW pg_temp_stats IS
'statistics that the planner has of temporary tables of this session that have not been analyzed, one row for each column that it needed; changed counts rows since they were gathered';

GRANT SELECT ON pg_temp_stats TO PUBLIC;

-- Counters of the session.

CREATE FUNCTION parallel_temp_stats(OUT counter text, OUT value float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION parallel_temp_stats() IS 'rows of the view parallel_temp_stats';

CREATE VIEW parallel_temp_stats AS
SELECT counter, value FROM @extschema@.parallel_temp_stats();

COMMENT ON VIEW parallel_temp_stats IS
'what this session did with temporary tables: tables considered for parallel plans, chosen and refused by reason, queries and pages shared and flushed, time';

CREATE FUNCTION parallel_temp_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION parallel_temp_stats_reset() IS 'sets the counters of parallel_temp_stats to zero';

GRANT SELECT ON parallel_temp_stats TO PUBLIC;

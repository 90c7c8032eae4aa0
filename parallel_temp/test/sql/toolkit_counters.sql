-- The server's statistics stay correct: EXPLAIN (BUFFERS) and pg_stat_io.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.fast_load = off;
SET parallel_temp.enabled = off;
CREATE FUNCTION local_counters(query text, OUT hit int, OUT read int, OUT dirtied int, OUT written int) LANGUAGE plpgsql AS
$$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	plan := plan -> 0 -> 'Plan';
	hit := plan ->> 'Local Hit Blocks';
	read := plan ->> 'Local Read Blocks';
	dirtied := plan ->> 'Local Dirtied Blocks';
	written := plan ->> 'Local Written Blocks';
END
$$;
CREATE TEMP TABLE t (id int, filler text);
INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 10000) g;
SELECT pg_relation_size('t') / current_setting('block_size')::int AS pages;
SELECT pg_dirty_local_buffers() AS dirty \gset
SELECT hit, read, dirtied, written = :dirty AS written FROM local_counters('SELECT pg_flush_local_buffers()');
SELECT * FROM local_counters('SELECT pg_flush_local_buffers()');
SELECT pg_evict_temp_relation('t') > 0 AS evicted;
SELECT * FROM local_counters('SELECT pg_read_temp_relation(''t'', false)');
SELECT * FROM local_counters('SELECT pg_read_temp_relation(''t'', true)');
SELECT * FROM local_counters('SELECT pg_temp_buffers_dirty(''t'')');
SELECT * FROM local_counters('SELECT pg_flush_local_buffers(''t'')');
SELECT * FROM local_counters('SELECT pg_temp_buffers_dirty(''t'')');
SELECT * FROM local_counters('SELECT pg_evict_temp_relation(''t'')');

-- pg_stat_io came with 16, and counts bytes since 18
CREATE FUNCTION temp_written() RETURNS numeric LANGUAGE plpgsql AS
$$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		RETURN (SELECT sum(write_bytes) FROM pg_stat_io WHERE object = 'temp relation');
	ELSIF current_setting('server_version_num')::int >= 160000 THEN
		RETURN (SELECT sum(writes * op_bytes) FROM pg_stat_io WHERE object = 'temp relation');
	END IF;
	RETURN NULL;
END
$$;
SELECT pg_read_temp_relation('t', true) > 0 AS read, pg_temp_buffers_dirty('t') > 0 AS marked;
SELECT pg_stat_force_next_flush();
CREATE TABLE stat_before AS SELECT temp_written() AS bytes;
SELECT pg_flush_local_buffers() AS written \gset
SELECT pg_stat_force_next_flush();
SELECT coalesce(temp_written() - bytes = :written::numeric * current_setting('block_size')::int, current_setting('server_version_num')::int < 160000) AS as_many_bytes_as_pages
FROM stat_before;
DROP TABLE stat_before;
DROP FUNCTION temp_written, local_counters;

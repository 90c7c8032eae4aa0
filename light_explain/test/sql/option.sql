-- EXPLAIN (LIGHT): on 18 through the server's hooks, before inserted into its output.
\set VERBOSITY terse
LOAD 'light_explain';
SELECT name, setting, context FROM pg_settings WHERE name = 'light_explain.show_self';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE o AS SELECT g AS id FROM generate_series(1, 2000) g;
VACUUM ANALYZE o;
CREATE FUNCTION own(options text) RETURNS SETOF text LANGUAGE plpgsql AS
$$DECLARE line text; BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, ' || options || ') SELECT count(*) FROM o' LOOP
		RETURN NEXT regexp_replace(regexp_replace(line, '[0-9.]+ ms|[0-9]+\.[0-9]{3,}', 'N', 'g'), '=N\.\.N|=N', '=N', 'g');
	END LOOP; END$$;
SELECT count(*) > 0 AS there FROM own('LIGHT');
SELECT own('LIGHT');
SELECT own('LIGHT, TIMING OFF, BUFFERS, WAL');
SELECT regexp_count(own, '"Self Shared Hit Blocks": [09],') AS own_blocks, own ~ 'Self Time' AS own_time FROM own('LIGHT, TIMING OFF, BUFFERS, FORMAT JSON');
SET light_explain.distinct_blocks = on;
SELECT own('LIGHT, TIMING OFF, BUFFERS OFF');
RESET light_explain.distinct_blocks;
SELECT own('LIGHT OFF, TIMING OFF, BUFFERS OFF');
EXPLAIN (LIGHT, COSTS OFF) SELECT count(*) FROM o;
DROP FUNCTION own;
DROP TABLE o;

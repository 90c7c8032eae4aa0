-- The user interface: settings, functions, views, and counters next to core's.
CREATE EXTENSION light_explain;
-- all except one, which exists since 18: see option
SELECT name, setting, context FROM pg_settings WHERE name LIKE 'light\_explain.%' AND name <> 'light_explain.show_self' ORDER BY name;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
CREATE TABLE t AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 10000) g;
CREATE INDEX t_id ON t (id);
VACUUM ANALYZE t;

-- nothing explained yet
SELECT count(*) FROM light_explain_last();

-- a statement that planning runs is not the one that is explained
CREATE FUNCTION three() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
$$BEGIN RETURN (SELECT count(*) FROM generate_series(1, 3)); END$$;
SET light_explain.instrument_all = on;
EXPLAIN (COSTS OFF) SELECT three();
RESET light_explain.instrument_all;
SELECT count(*) FROM light_explain_last();
DROP FUNCTION three;

-- EXPLAIN's own figures do not change
CREATE FUNCTION plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS
$$BEGIN RETURN QUERY EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || statement; END$$;
SET light_explain.enabled = off;
CREATE TEMP TABLE core AS SELECT * FROM plan('SELECT count(*) FROM t WHERE k < 5') WITH ORDINALITY;
SET light_explain.enabled = on;
SELECT count(*) > 3 AS whole, bool_and(c.plan = l.plan) AS same
FROM core c FULL JOIN plan('SELECT count(*) FROM t WHERE k < 5') WITH ORDINALITY l(plan, ordinality) USING (ordinality);

-- own figures of each node
SELECT node, parent, depth, label, rows, loops, shared_hit + shared_read > 0 AS used_blocks FROM light_explain_last() ORDER BY node;
DO $$BEGIN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS) SELECT count(*) FROM (SELECT id FROM t WHERE id < 200 OFFSET 0) a, LATERAL (SELECT * FROM t WHERE t.id = a.id OFFSET 0) b'; END$$;
SELECT node, parent, label, rows, loops, shared_hit + shared_read > 0 AS used_blocks, self_ms > 0 AS took_time, self_ms <= total_ms * 1.001 AS own_in_total
FROM light_explain_last() ORDER BY node;
SELECT abs(sum(self_ms) / max(total_ms) - 1) < 0.05 AS own_times_add_up FROM light_explain_last();

-- rows of an index scan that stay on a page: deleted ones are none, and a join by merging goes back in them
CREATE TABLE d AS SELECT g / 3 AS id, repeat('x', 50) AS v FROM generate_series(1, 3000) g;
CREATE INDEX d_id ON d (id);
VACUUM ANALYZE d;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_sort = off; SET enable_material = off;
CREATE FUNCTION same_as_core(statement text) RETURNS text LANGUAGE plpgsql AS
$$DECLARE core text; light text; BEGIN
	SET light_explain.enabled = off;
	SELECT string_agg(p, E'\n') INTO core FROM plan(statement) p;
	SET light_explain.enabled = on;
	SELECT string_agg(p, E'\n') INTO light FROM plan(statement) p;
	RETURN CASE WHEN light = core AND core LIKE '%Index Scan using d_id%' THEN 'same' ELSE light END; END$$;
SELECT same_as_core('SELECT count(v) FROM d WHERE id BETWEEN 100 AND 800');
SELECT same_as_core('SELECT count(a.v || b.v) FROM d a JOIN d b USING (id)');
DELETE FROM d WHERE id % 5 = 0;
SELECT same_as_core('SELECT count(v) FROM d WHERE id BETWEEN 100 AND 800');
DROP TABLE d; DROP FUNCTION same_as_core;
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_hashjoin; RESET enable_nestloop; RESET enable_sort; RESET enable_material;
-- a scan's last call, which returns no row, may be the long one: each call is timed
CREATE FUNCTION last_one_sleeps(i int) RETURNS bool LANGUAGE plpgsql AS
$$BEGIN IF i > 500 THEN PERFORM pg_sleep(0.1); RETURN false; END IF; RETURN true; END$$;
DO $$BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT count(*) FROM (SELECT * FROM t WHERE id <= 501 OFFSET 0) s WHERE last_one_sleeps(id)'; END$$;
SELECT label, rows, self_ms > 90 AS slept FROM light_explain_last() ORDER BY node;
DROP FUNCTION last_one_sleeps;
-- a row of the page that is being scanned takes the scan's time, not the caller's
-- (in one of some runs: another process may interrupt the caller)
DO $$DECLARE part float8;
BEGIN
	FOR i IN 1..20 LOOP
		EXECUTE 'EXPLAIN ANALYZE SELECT count(*) FROM t';
		SELECT sum(self_ms) FILTER (WHERE label LIKE '%Scan%') / sum(self_ms) INTO part FROM light_explain_last();
		EXIT WHEN part > 0.3;
	END LOOP;
	RAISE NOTICE 'the scan has its part: %', part > 0.3;
END$$;
-- records are made when as many rows are expected, also in statements of a millisecond; otherwise when there were as many calls
CREATE FUNCTION recorded(i int) RETURNS bool LANGUAGE plpgsql AS
$$BEGIN RETURN CASE WHEN i IN (5, 14, 18) THEN (SELECT count(*) > 0 FROM light_explain_progress() WHERE pid = pg_backend_pid() AND label IN ('Limit', 'Function Scan on unexpected id')) END; END$$;
CREATE FUNCTION unexpected(n int) RETURNS SETOF int ROWS 1 LANGUAGE plpgsql AS $$BEGIN RETURN QUERY SELECT generate_series(1, n); END$$;
SET light_explain.instrument_all = on;
SELECT id, recorded FROM (SELECT id, recorded(id) FROM t ORDER BY id LIMIT 20) s WHERE recorded IS NOT NULL;
SELECT id, recorded FROM (SELECT id, recorded(id) FROM t ORDER BY id LIMIT 5) s WHERE recorded IS NOT NULL;
SELECT id, recorded FROM (SELECT id, recorded(id) FROM unexpected(20) id) s WHERE recorded IS NOT NULL;
RESET light_explain.instrument_all;
DROP FUNCTION recorded, unexpected;

-- a CTE and an InitPlan count where they run
DO $$BEGIN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS) WITH c AS MATERIALIZED (SELECT * FROM t WHERE id < 50) SELECT count(*) FROM c WHERE k = (SELECT min(k) FROM t)'; END$$;
SELECT label, rows, loops FROM light_explain_last() ORDER BY node;

-- temporary files and WAL
SET work_mem = 64;
DO $$BEGIN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL) CREATE TABLE copied AS SELECT * FROM t ORDER BY k, id DESC'; END$$;
SELECT label, temp_read > 0 AS temp_read, temp_written > 0 AS temp_written FROM light_explain_last() ORDER BY node;
RESET work_mem;
DO $$BEGIN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL) UPDATE t SET k = k + 1 WHERE id < 100'; END$$;
SELECT label, wal_records > 0 AS wal, wal_bytes > 0 AS bytes FROM light_explain_last() ORDER BY node;

-- different heap blocks, however often they were looked at
CREATE TABLE blocks AS SELECT g AS id, repeat('x', 500) AS pad FROM generate_series(1, 3000) g;
CREATE INDEX blocks_id ON blocks (id);
VACUUM ANALYZE blocks;
SET light_explain.distinct_blocks = on;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
DO $$BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT count(pad) FROM blocks'; END$$;
SELECT label, abs(distinct_blocks::float8 / (pg_relation_size('blocks') / 8192) - 1) < 0.1 AS nearly_all FROM light_explain_last() ORDER BY node;
DO $$BEGIN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS) SELECT count(pad) FROM generate_series(1, 2000) g JOIN blocks ON id = g % 50 + 1'; END$$;
SELECT label, distinct_blocks, shared_hit > 2000 AS many_hits FROM light_explain_last() ORDER BY node;
SET light_explain.switch_after = 100;
DO $$BEGIN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS) SELECT count(pad) FROM blocks WHERE ctid < ''(5,1)'' OR id < (SELECT 0)'; END$$;
SELECT label, distinct_blocks FROM light_explain_last() WHERE distinct_blocks IS NOT NULL;
RESET light_explain.switch_after;
RESET light_explain.distinct_blocks;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_memoize;
DO $$BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT count(pad) FROM blocks'; END$$;
SELECT count(distinct_blocks) FROM light_explain_last();

-- settings that are refused
SET light_explain.timing = 'sundial';
SET light_explain.switch_after = -2;
SET light_explain.nonsense = 1;

-- progress of the statement that asks
SET light_explain.switch_after = 0;
SET light_explain.instrument_all = on;
SELECT count(*) > 0 AS seen FROM light_explain_progress WHERE pid = pg_backend_pid() AND called AND plan_rows > 0;
-- bytes that the process has read and written, where the kernel tells
SELECT count(*) > 0 AS seen, bool_and(process_read > 0 AND process_written > 0) IS NOT FALSE AS counted FROM light_explain_progress() WHERE pid = pg_backend_pid();
RESET light_explain.instrument_all;
RESET light_explain.switch_after;
SELECT count(*) FROM light_explain_progress() WHERE pid = pg_backend_pid();

-- profile over executions
SET compute_query_id = on;
SELECT light_explain_profile_reset() >= 0 AS reset;
SET light_explain.profile = on;
SELECT count(*) FROM t WHERE id < 300;
SELECT count(*) FROM t WHERE id < 300;
SELECT count(*) FROM t WHERE id < 30;
RESET light_explain.profile;
SELECT label, executions, loops, rows, self_ms > 0 AS took_time, total_ms >= self_ms AS own_in_total, shared_hit + shared_read > 0 AS used_blocks
FROM light_explain_profile WHERE datname = current_database() AND label LIKE '%t_id%';
-- memory: all of it is reported, a day takes 64 MB at most, and what is used is counted
SELECT sum(bytes) - (SELECT sum(size) FROM pg_shmem_allocations WHERE name LIKE 'light\_explain %') AS missing, sum(bytes) <= 64 * 1024 * 1024 AS within_bound
FROM light_explain_memory() WHERE area <> 'cells';
SELECT area, bytes > 0 AS allocated, used_bytes BETWEEN 0 AND bytes AS within, entries BETWEEN 0 AND entries_max AS bounded, discarded FROM light_explain_memory();
SELECT entries - (SELECT count(*) FROM light_explain_profile()) AS missing, used_bytes > entries * 100 AS used FROM light_explain_memory() WHERE area = 'profile';
SELECT entries - count(*) AS missing, used_bytes - sum(octet_length(query)) AS bytes FROM light_explain_memory(), light_explain_profile() WHERE area = 'texts' AND parent IS NULL GROUP BY entries, used_bytes;
SELECT light_explain_profile_reset() > 0 AS reset;
SELECT count(*) FROM light_explain_profile();
SELECT used_bytes, entries FROM light_explain_memory() WHERE area IN ('profile', 'texts');

-- who may do what
CREATE ROLE regress_light LOGIN;
SET ROLE regress_light;
SELECT count(*) FROM light_explain_last() WHERE false;
SELECT count(*) FROM light_explain_profile;
SELECT light_explain_profile_reset();
SET light_explain.profile = on;
SET light_explain.instrument_all = on;
SET light_explain.enabled = off;
RESET ROLE;
DROP ROLE regress_light;
DROP FUNCTION plan;
DROP TABLE t, copied, core, blocks;
DROP EXTENSION light_explain;

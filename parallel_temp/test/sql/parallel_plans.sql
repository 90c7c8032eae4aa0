-- The plans of queries over temporary tables, and EXPLAIN's output.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
-- what can be is asked here, not what pays
SET parallel_temp.worker_start_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET temp_buffers = '16MB';
SET enable_mergejoin = off;

CREATE TABLE plans_perm AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 50000) g;
CREATE TEMP TABLE t AS SELECT g AS id, g % 100 AS k, 'text ' || g AS txt FROM generate_series(1, 30000) g;
CREATE TEMP TABLE s AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 20000) g;
CREATE INDEX s_id ON s (id);
ANALYZE plans_perm;
ANALYZE t;
ANALYZE s;

-- a partial scan
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 3;
SELECT count(*), sum(id) FROM t WHERE k = 3;
SET parallel_tuple_cost = 0.1;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE k = 3 ORDER BY txt LIMIT 3;
SET parallel_tuple_cost = 0;
SELECT id FROM t WHERE k = 3 ORDER BY txt LIMIT 3;

-- joins
EXPLAIN (COSTS OFF) SELECT count(*) FROM t JOIN plans_perm p USING (id) WHERE p.k = 1;
SELECT count(*) FROM t JOIN plans_perm p USING (id) WHERE p.k = 1;
SET enable_hashjoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM plans_perm p JOIN s USING (id) WHERE p.k = 1;
SELECT count(*) FROM plans_perm p JOIN s USING (id) WHERE p.k = 1;
SET parallel_temp.index_access = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM plans_perm p JOIN s USING (id) WHERE p.k = 1;
RESET parallel_temp.index_access;
RESET enable_hashjoin;

-- UNION ALL with permanent and temporary arms
EXPLAIN (COSTS OFF) SELECT count(*) FROM (SELECT id FROM plans_perm UNION ALL SELECT id FROM t UNION ALL SELECT id FROM s) x;
SELECT count(*) FROM (SELECT id FROM plans_perm UNION ALL SELECT id FROM t UNION ALL SELECT id FROM s) x;

-- off means off
SET parallel_temp.enabled = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 3;
RESET parallel_temp.enabled;

-- settings of the server count as they do for other tables
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM s WHERE id < 10;
RESET enable_seqscan;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 3;
SET max_parallel_workers_per_gather = 2;

-- structured output
CREATE FUNCTION scan_properties(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY
		WITH RECURSIVE nodes AS (SELECT plan -> 0 -> 'Plan' AS node UNION ALL SELECT json_array_elements(node -> 'Plans') FROM nodes)
		SELECT format('%s %s: parallel %s, method %s, shared %s, flushed %s, from file %s, local blocks %s',
			node ->> 'Custom Plan Provider', node ->> 'Relation Name', node ->> 'Parallel Aware', node ->> 'Temp Method',
			(node ->> 'Temp Pages Shared')::int > 0, (node ->> 'Temp Pages Flushed')::int > 0, (node ->> 'Temp File Reads')::int > 0,
			(node ->> 'Local Hit Blocks')::int + (node ->> 'Local Read Blocks')::int = pg_relation_size('t') / current_setting('block_size')::int)
		FROM nodes WHERE node ->> 'Custom Plan Provider' IS NOT NULL;
END
$$;
SET parallel_leader_participation = off;
SELECT scan_properties('SELECT count(*) FROM t');
SET parallel_temp.method = flush;
SET parallel_temp.flush_page_cost = 0;
UPDATE t SET k = k WHERE id < 1000;
SELECT scan_properties('SELECT count(*) FROM t');
RESET parallel_temp.method;
RESET parallel_temp.flush_page_cost;
RESET parallel_leader_participation;

-- below a hash join over a table that no cache holds, what the join looks up is prefetched, and nothing is where that cannot help
CREATE FUNCTION prefetched(query text) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY
		WITH RECURSIVE nodes AS (SELECT plan -> 0 -> 'Plan' AS node UNION ALL SELECT json_array_elements(node -> 'Plans') FROM nodes)
		SELECT (node ->> 'Hash Lookups Prefetched')::bigint FROM nodes WHERE node ->> 'Custom Plan Provider' IS NOT NULL;
END
$$;
CREATE TABLE large AS SELECT i AS id, i::int8 AS id8, i::text AS txt FROM generate_series(1, 60000) i;
CREATE TABLE little AS SELECT i AS id FROM generate_series(1, 1000) i;
CREATE TEMP TABLE probe AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN i END AS id8, i::text AS txt FROM generate_series(1, 80000) i;
ANALYZE large, little, probe;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT * FROM prefetched('SELECT count(*) FROM probe LEFT JOIN large USING (id)');
SELECT * FROM prefetched('SELECT count(*) FROM probe LEFT JOIN large ON probe.id8 = large.id8');
SELECT * FROM prefetched('SELECT count(*) FROM probe LEFT JOIN little USING (id)');
SELECT * FROM prefetched('SELECT count(*) FROM probe LEFT JOIN large USING (txt)');
SELECT * FROM prefetched('SELECT count(*) FROM probe LEFT JOIN large USING (id) WHERE probe.id8 > 0');
SET parallel_temp.debug_hash_prefetch = off;
SELECT * FROM prefetched('SELECT count(*) FROM probe LEFT JOIN large USING (id)');
RESET parallel_temp.debug_hash_prefetch;
RESET enable_mergejoin;
RESET enable_nestloop;
DROP TABLE large, little, probe;
CREATE FUNCTION scan_lines(format text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE format('EXPLAIN (COSTS OFF, FORMAT %s) %s', format, query) INTO plan;
	RETURN QUERY SELECT btrim(line) FROM regexp_split_to_table(plan, '\n') line WHERE line ~ 'Custom.Plan|Temp.Method';
END
$$;
SELECT scan_lines('XML', 'SELECT count(*) FROM t');
SELECT scan_lines('YAML', 'SELECT count(*) FROM t');

-- why not
SET parallel_temp.explain_refusals = on;
CREATE FUNCTION restricted(int) RETURNS int LANGUAGE sql PARALLEL RESTRICTED AS 'SELECT $1 + (random() * 0)::int';
CREATE FUNCTION unsafe(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE restricted(k) = 3;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE unsafe(k) = 3;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t TABLESAMPLE SYSTEM (10);
SET min_parallel_table_scan_size = '1GB';
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 1000000;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
SET parallel_setup_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM (SELECT unsafe(id) AS id FROM plans_perm UNION ALL SELECT id FROM t) x;
EXPLAIN (COSTS OFF) SELECT count(*) FROM (SELECT restricted(id) AS id FROM plans_perm UNION ALL SELECT id FROM t) x;
RESET parallel_temp.explain_refusals;

-- a page that the buffers cannot hold, and a leader that reads the table too: no workers
CREATE TEMP TABLE big AS SELECT g AS id, repeat('x', 500) AS txt FROM generate_series(1, 60000) g;
CREATE FUNCTION peek(int) RETURNS bigint LANGUAGE plpgsql PARALLEL RESTRICTED AS 'BEGIN RETURN (SELECT count(*) FROM big WHERE id = $1); END';
SELECT parallel_temp_stats_reset();
SELECT count(*) FROM big;
SELECT counter, value FROM parallel_temp_stats WHERE counter IN ('queries with shared pages', 'queries run without workers');
SET parallel_temp.explain_refusals = on;
SELECT count(*), peek(1) FROM big;
RESET parallel_temp.explain_refusals;
SELECT counter, value FROM parallel_temp_stats WHERE counter IN ('queries with shared pages', 'queries run without workers');
-- so do built-in functions that read tables: these, and there are no others
SELECT proname, proparallel FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prosrc ~ '_to_xml' ORDER BY 1;
SET parallel_temp.explain_refusals = on;
SELECT format('SELECT count(*), CASE WHEN count(*) < 0 THEN %s::text END AS never FROM big', call)
FROM unnest(ARRAY[
	$$table_to_xml('pg_am', true, false, '')$$, $$table_to_xml_and_xmlschema('pg_am', true, false, '')$$,
	$$schema_to_xml('public', true, false, '')$$, $$schema_to_xml_and_xmlschema('public', true, false, '')$$,
	$$database_to_xml(true, false, '')$$, $$database_to_xml_and_xmlschema(true, false, '')$$]) call \gexec
RESET parallel_temp.explain_refusals;
SELECT sum(pins) FROM pg_local_buffers;

DROP TABLE t, s, big, plans_perm;
DROP FUNCTION scan_properties, scan_lines, restricted, unsafe, peek;

-- to find the reason there is a second planner run, in which tables of a page get no workers
RESET ALL;
CREATE TEMP TABLE page1 AS SELECT 1::numeric AS a;
CREATE TEMP TABLE page2 AS SELECT 2::numeric AS a;
SET parallel_temp.explain_refusals = on;
EXPLAIN (COSTS OFF) SELECT a FROM page1 WHERE a = 1 UNION ALL SELECT a FROM page2 WHERE a = 1;
RESET parallel_temp.explain_refusals;
DROP TABLE page1, page2;

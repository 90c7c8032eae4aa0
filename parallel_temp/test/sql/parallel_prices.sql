-- Costs by which plans are chosen, and the number of planner runs.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 100;
SET parallel_tuple_cost = 0.01;
SET temp_buffers = '64MB';
SET enable_memoize = off;

CREATE TEMP TABLE big AS SELECT g AS id, g % 1000 AS k, repeat('x', 60) AS pad FROM generate_series(1, 200000) g;
CREATE INDEX ON big (id);
CREATE TEMP TABLE outer_rows AS SELECT (g * 37) % 200000 AS id, g % 100 AS k, repeat('y', 200) AS pad FROM generate_series(1, 60000) g;
CREATE TEMP TABLE long (id int, txt text);
ALTER TABLE long ALTER txt SET STORAGE EXTERNAL;
INSERT INTO long SELECT g, repeat('z', 3000) FROM generate_series(1, 3000) g;
CREATE UNLOGGED TABLE prices_big AS SELECT * FROM big;
CREATE INDEX ON prices_big (id);
CREATE UNLOGGED TABLE prices_outer AS SELECT * FROM outer_rows;
ANALYZE big;
ANALYZE outer_rows;
ANALYZE long;
ANALYZE prices_big;
ANALYZE prices_outer;

CREATE FUNCTION goes_parallel(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan LIKE '%"Gather%';
END
$$;
-- Do workers read an index?
CREATE FUNCTION index_in_workers(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_exists(plan, '$.** ? (@."Node Type" like_regex "Gather").** ? (@."Node Type" like_regex "Index")');
END
$$;
CREATE FUNCTION total_cost(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Total Cost')::numeric;
END
$$;

-- The start of workers costs parallel_temp.worker_start_cost where parallel_setup_cost is 1000, and a tenth of it here.
SELECT goes_parallel('SELECT count(*) FROM big WHERE k = 3');
SET parallel_temp.worker_start_cost = 50000;
SELECT goes_parallel('SELECT count(*) FROM big WHERE k = 3');
-- One worker is planned.  Its start costs a tenth of the setting here, also below parallel_setup_cost; the margin is its start, at most a fiftieth of the serial plan.
SET parallel_temp.worker_start_cost = 0;
SELECT total_cost('SELECT count(*) FROM big WHERE k = 3') AS with_0 \gset
SET parallel_temp.worker_start_cost = 500;
SELECT total_cost('SELECT count(*) FROM big WHERE k = 3') - :with_0 AS difference;
SET parallel_temp.worker_start_cost = 6000;
SELECT round((total_cost('SELECT count(*) FROM big WHERE k = 3') - :with_0)::numeric) AS difference;
RESET parallel_temp.worker_start_cost;

-- Settings that force workers over other tables do so over temporary ones, however expensive their start and sharing is.
CREATE TEMP TABLE tiny AS SELECT g AS id FROM generate_series(1, 10) g;
CREATE TEMP TABLE empty (id int);
CREATE UNLOGGED TABLE prices_tiny AS SELECT * FROM tiny;
ANALYZE tiny, empty, prices_tiny;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_temp.worker_start_cost = 1e6;
SET parallel_temp.enter_page_cost = 1e6;
SELECT goes_parallel('SELECT * FROM prices_tiny') AS unlogged, goes_parallel('SELECT * FROM tiny') AS temporary;
SELECT goes_parallel('SELECT count(*) FROM prices_tiny a JOIN prices_tiny b USING (id)') AS unlogged, goes_parallel('SELECT count(*) FROM tiny a JOIN tiny b USING (id)') AS temporary;
SET min_parallel_index_scan_size = 0;
SELECT index_in_workers('SELECT count(pad) FROM prices_big WHERE id < 2000') AS unlogged, index_in_workers('SELECT count(pad) FROM big WHERE id < 2000') AS temporary;
SET parallel_temp.method = flush;
SET parallel_temp.flush_page_cost = 1e6;
SELECT goes_parallel('SELECT * FROM tiny') AS flushed;
RESET parallel_temp.flush_page_cost;
RESET parallel_temp.method;
SET parallel_setup_cost = 100;
SELECT goes_parallel('SELECT * FROM tiny') AS not_forced;
SET parallel_tuple_cost = 0.01;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
RESET parallel_temp.worker_start_cost;
RESET parallel_temp.enter_page_cost;
-- the server's settings of methods
SET enable_seqscan = off;
SELECT goes_parallel('SELECT count(*) FROM prices_big WHERE k = 3') = goes_parallel('SELECT count(*) FROM big WHERE k = 3') AS same;
RESET enable_seqscan;
ALTER TABLE big SET (parallel_workers = 0);
SELECT goes_parallel('SELECT count(*) FROM big WHERE k = 3') AS no_workers;
ALTER TABLE big RESET (parallel_workers);
DROP TABLE tiny, empty, prices_tiny;

-- a nested loop whose inner side makes each worker enter a table and its index: a few rows do not pay for that, many do
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT index_in_workers('SELECT count(*) FROM prices_outer o JOIN prices_big b USING (id) WHERE o.k = 3 AND o.id % 7 = 1') AS unlogged,
	index_in_workers('SELECT count(*) FROM outer_rows o JOIN big b USING (id) WHERE o.k = 3 AND o.id % 7 = 1') AS temporary;
SELECT index_in_workers('SELECT count(*) FROM prices_outer o JOIN prices_big b USING (id)') AS unlogged,
	index_in_workers('SELECT count(*) FROM outer_rows o JOIN big b USING (id)') AS temporary;
SET parallel_temp.enter_page_cost = 100;
SELECT index_in_workers('SELECT count(*) FROM outer_rows o JOIN big b USING (id)') AS temporary;
RESET parallel_temp.enter_page_cost;
-- a serial plan pays nothing of it
SET max_parallel_workers_per_gather = 0;
SELECT total_cost('SELECT count(*) FROM outer_rows o JOIN big b USING (id) WHERE o.k = 3 AND o.id % 7 = 1') AS stock \gset
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 1000000;
SET parallel_temp.enter_page_cost = 100;
SELECT total_cost('SELECT count(*) FROM outer_rows o JOIN big b USING (id) WHERE o.k = 3 AND o.id % 7 = 1') - :stock AS difference;
SET parallel_setup_cost = 100;
RESET parallel_temp.enter_page_cost;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- an index in order, and a bitmap
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.enter_page_cost = 0;
SET enable_seqscan = off;
SELECT goes_parallel('SELECT count(pad) FROM big WHERE id < 190000');
SET parallel_temp.enter_page_cost = 100;
SELECT goes_parallel('SELECT count(pad) FROM big WHERE id < 190000');
RESET parallel_temp.worker_start_cost;
RESET parallel_temp.enter_page_cost;
RESET enable_seqscan;

-- pages in buffers: few index lookups are cheaper than full scans by workers, though the server's cost for them is that of disk reads
CREATE TEMP TABLE facts AS SELECT g AS id, (g::bigint * 7919) % 4000 AS k, repeat('x', 60) AS pad FROM generate_series(1, 120000) g;
CREATE INDEX ON facts (k);
CREATE TEMP TABLE few AS SELECT g AS k, g % 133 AS kind FROM generate_series(1, 4000) g;
ANALYZE facts;
ANALYZE few;
SET parallel_setup_cost = 10;
SET parallel_temp.worker_start_cost = 0;
CREATE UNLOGGED TABLE prices_facts AS SELECT * FROM facts;
CREATE INDEX ON prices_facts (k);
CREATE UNLOGGED TABLE prices_few AS SELECT * FROM few;
ANALYZE prices_facts, prices_few;
SELECT goes_parallel('SELECT count(pad) FROM prices_facts JOIN prices_few USING (k) WHERE kind = 3') AS unlogged,
	goes_parallel('SELECT count(pad) FROM facts JOIN few USING (k) WHERE kind = 3') AS temporary;
DROP TABLE prices_facts, prices_few;
-- a row that an index in no order leads to is a visit to a page: the server's plan of so many has to beat one that sorts in workers
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT index_in_workers('SELECT count(f.pad) FROM facts f JOIN few USING (k)') AS held, goes_parallel('SELECT count(f.pad) FROM facts f JOIN few USING (k)');
SELECT pg_evict_temp_relation('facts') > 0 AS evicted;
SELECT index_in_workers('SELECT count(f.pad) FROM facts f JOIN few USING (k)') AS not_held, goes_parallel('SELECT count(f.pad) FROM facts f JOIN few USING (k)');
RESET enable_hashjoin;
RESET enable_nestloop;
-- pages of a file are divided like rows, as the kernel mostly has them
SET parallel_temp.worker_start_cost = 1000;
SET parallel_setup_cost = 800;
SELECT goes_parallel('SELECT count(*) FROM facts') AS not_held;
SELECT pg_read_temp_relation('facts', false) > 0 AS read;
SELECT goes_parallel('SELECT count(*) FROM facts') AS held;
SET parallel_setup_cost = 10;
SET parallel_temp.worker_start_cost = 0;
-- what the server charged for pages is their tablespace's
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_cheap LOCATION '' WITH (seq_page_cost = 0.1, random_page_cost = 0.1);
CREATE TEMP TABLE cheap TABLESPACE regress_cheap AS SELECT * FROM facts;
ANALYZE cheap;
SELECT goes_parallel('SELECT count(pad) FROM facts'), goes_parallel('SELECT count(pad) FROM cheap') AS cheap;
DROP TABLE cheap;
DROP TABLESPACE regress_cheap;
RESET parallel_temp.worker_start_cost;
-- a plan that costs less than the start of workers is the server's, and planned once
SELECT parallel_temp_stats_reset();
SET parallel_setup_cost = 100000;
SELECT goes_parallel('SELECT count(*) FROM facts');
SELECT counter, value FROM parallel_temp_stats WHERE counter IN ('tables considered', 'refused: cost');
-- each table counts once, and one that is too small is that, whatever is done with its rows
SELECT parallel_temp_stats_reset();
SELECT goes_parallel('SELECT count(*) FROM few a JOIN few b USING (k) JOIN facts c USING (k)');
SELECT counter, value FROM parallel_temp_stats WHERE counter IN ('tables considered', 'refused: cost', 'refused: small');
SELECT parallel_temp_stats_reset();
SELECT goes_parallel('SELECT kind, count(*) FROM few GROUP BY kind');
SELECT counter, value FROM parallel_temp_stats WHERE counter IN ('tables considered', 'refused: cost', 'refused: small');
SET parallel_setup_cost = 100;
-- A second planner run is for statements that may gain from it.
CREATE FUNCTION told() RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RAISE NOTICE ''planned''; RETURN 1; END';
CREATE FUNCTION may_write() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE TEMP TABLE filled (n bigint);
SET client_min_messages = notice;
SELECT goes_parallel('SELECT count(*) FROM big WHERE k > told()') AS twice;
SELECT goes_parallel('INSERT INTO filled SELECT count(*) FROM big WHERE k > told()') AS twice;
SELECT goes_parallel('SELECT count(*) FROM few a, few b WHERE a.kind + b.kind > told()') AS all_are_small;
SELECT goes_parallel('DECLARE c CURSOR FOR SELECT count(*) FROM big WHERE k > told()') AS cursor;
SELECT goes_parallel('SELECT count(*) FROM big WHERE k > told() AND may_write() = 1') AS unsafe;
SELECT goes_parallel('SELECT * FROM big WHERE k > told() FOR UPDATE') AS locks;
SELECT goes_parallel('CREATE TEMP TABLE made AS SELECT * FROM big WHERE k > told()') AS twice;
SELECT goes_parallel('CREATE TEMP TABLE made AS SELECT * FROM prices_big WHERE k > told()') AS permanent;
SELECT goes_parallel('CREATE TEMP TABLE made AS SELECT * FROM big WHERE k > told() AND may_write() = 1') AS unsafe;
SELECT goes_parallel('INSERT INTO filled SELECT id FROM big WHERE k > told() AND may_write() = 1') AS unsafe;
PREPARE kept AS SELECT count(*) FROM big WHERE k > told();
EXPLAIN (COSTS OFF) EXECUTE kept;
EXECUTE kept;
DEALLOCATE kept;
-- Many relations that can all be joined with each other take longer to plan than workers could save.
SELECT goes_parallel('SELECT count(*) FROM few a JOIN few b USING (k) JOIN few c USING (k) JOIN few d USING (k) JOIN few e USING (k) JOIN few f USING (k) JOIN facts g USING (k) WHERE a.kind > told()') AS seven;

-- Settings of the server are the user's while a function of the statement plans its own, and after it failed.
SELECT set_config('regress.cost', total_cost('SELECT count(id) FROM prices_big WHERE k > 3')::text, false) <> '' AS set;
CREATE FUNCTION shows() RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	RAISE NOTICE 'same cost: %', total_cost('SELECT count(id) FROM prices_big WHERE k > 3') = current_setting('regress.cost')::numeric;
	RETURN 1;
END $$;
SELECT goes_parallel('SELECT count(*) FROM big WHERE k > shows()') AS twice;
SELECT goes_parallel('CREATE TEMP TABLE made AS SELECT * FROM big WHERE k > shows()') AS twice;
CREATE SEQUENCE calls;
CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET parallel_setup_cost = 1 SET parallel_tuple_cost = 1 SET random_page_cost = 1 AS $$
BEGIN
	IF nextval('calls') % 2 = 0 THEN
		RAISE EXCEPTION 'second run';
	END IF;
	RETURN 1;
END $$;
SELECT count(*) FROM big WHERE k > fails();
SELECT name, setting, source FROM pg_settings WHERE name IN ('parallel_setup_cost', 'parallel_tuple_cost', 'random_page_cost', 'seq_page_cost', 'effective_cache_size', 'parallel_leader_participation') ORDER BY name;
CREATE TEMP TABLE made AS SELECT * FROM big WHERE k > fails();
INSERT INTO filled SELECT id FROM big WHERE k > fails();
SELECT name, setting, source FROM pg_settings WHERE name IN ('parallel_setup_cost', 'parallel_tuple_cost', 'random_page_cost', 'seq_page_cost', 'effective_cache_size', 'parallel_leader_participation') ORDER BY name;
DROP FUNCTION shows, fails;
DROP SEQUENCE calls;

-- CREATE TABLE AS EXECUTE leaves the plan that the server makes in the cache.
SET parallel_tuple_cost = 10;
SET plan_cache_mode = force_generic_plan;
PREPARE rows_of(int) AS SELECT * FROM prices_big WHERE k >= $1;
CREATE TEMP TABLE made AS EXECUTE rows_of(0);
EXPLAIN (COSTS OFF) EXECUTE rows_of(0);
DEALLOCATE rows_of;
RESET plan_cache_mode;
DROP TABLE made;
-- A trigger whose query is planned first is not taken for the query of CREATE TABLE AS.
CREATE FUNCTION reads_first() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	PERFORM id, k, pad FROM prices_big WHERE k >= 0 AND in_leader();
	GET DIAGNOSTICS n = ROW_COUNT;
	RAISE WARNING 'rows that the leader read: %', n;
END $$;
CREATE FUNCTION in_leader() RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE COST 0.01 AS
	'BEGIN RETURN pg_backend_pid() = current_setting(''regress.leader'')::int; END';
SELECT set_config('regress.leader', pg_backend_pid()::text, false) IS NOT NULL AS set;
CREATE EVENT TRIGGER reads_first ON ddl_command_start WHEN TAG IN ('CREATE TABLE AS') EXECUTE FUNCTION reads_first();
-- (workers alone, so that it does not depend on when they start)
SET parallel_leader_participation = off;
SET max_parallel_workers_per_gather = 4;
ALTER TABLE prices_big SET (parallel_workers = 4);
SELECT parallel_temp_stats_reset();
CREATE TEMP TABLE made AS SELECT id, k, pad FROM prices_big WHERE k >= 0;
SELECT value > 0 AS pages_of_workers FROM parallel_temp_stats WHERE counter = 'pages filled by workers';
RESET parallel_leader_participation;
SET max_parallel_workers_per_gather = 2;
ALTER TABLE prices_big RESET (parallel_workers);
DROP EVENT TRIGGER reads_first;
DROP FUNCTION reads_first, in_leader;
DROP TABLE made;
SET parallel_tuple_cost = 0.01;

-- children of a permanent table, and tables that a function reads, may be temporary: the first plan shows it
CREATE TABLE parent (k int, pad text);
CREATE TABLE heir () INHERITS (parent);
INSERT INTO heir SELECT k, pad FROM big;
ANALYZE heir;
CREATE FUNCTION reads() RETURNS SETOF heir LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT * FROM heir';
SELECT goes_parallel('SELECT count(*) FROM parent WHERE k > told()') AS permanent_child;
SELECT goes_parallel('SELECT count(*) FROM parent a JOIN parent b USING (k) WHERE a.k > told()') AS permanent_children;
SELECT goes_parallel('SELECT count(*) FROM reads() WHERE k > told()') AS permanent_of_function;
CREATE TEMP TABLE near () INHERITS (parent);
SELECT goes_parallel('SELECT count(*) FROM parent WHERE k > told()') AS temporary_child;
SET client_min_messages = warning;
DROP TABLE parent CASCADE;
DROP FUNCTION told, may_write;
DROP TABLE facts, few, filled;

-- values out of line: their table has to be entered, but only if they may be asked for
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 10;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.enter_page_cost = 20;
SELECT goes_parallel('SELECT max(length(txt)) FROM long WHERE id + id + id + id + id > 0') AS out_of_line, goes_parallel('SELECT max(id) FROM long WHERE id + id + id + id + id > 0') AS in_line;
RESET parallel_temp.enter_page_cost;

DROP TABLE big, outer_rows, long, prices_big, prices_outer;

-- A table that is larger than the buffers, which contain only its pages after a scan:
-- the processes divide it none the less.
\c -
SET temp_buffers = 100;
CREATE TEMP TABLE filed AS SELECT g AS id, g % 1000 AS k, repeat('x', 60) AS pad FROM generate_series(1, 200000) g;
ANALYZE filed;
SET max_parallel_workers_per_gather = 0;
SELECT count(pad) FROM filed;
SET max_parallel_workers_per_gather = 1;
SELECT goes_parallel('SELECT count(pad) FROM filed');

-- A function fails that sets a setting that is switched off where the leader leaves an index to its workers.
CREATE INDEX ON filed (id);
SET parallel_setup_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE FUNCTION participation(n bigint) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN current_setting(''parallel_leader_participation''); END';
CREATE FUNCTION sets_and_fails(n bigint) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE SET parallel_leader_participation = on AS 'BEGIN RETURN 1 / (n - n); END';
SELECT participation(count(pad)) = CASE WHEN current_setting('server_version_num')::int < 190000 THEN 'off' ELSE 'on' END AS left_to_workers FROM filed WHERE id < 150000;
SELECT sets_and_fails(count(pad)) FROM filed WHERE id < 150000;
SHOW parallel_leader_participation;
DROP FUNCTION participation, sets_and_fails;
DROP TABLE filed;

-- costs whose sum is not finite, of a table that temporary buffers do not hold
\c -
SET max_parallel_workers_per_gather = 2;
CREATE TEMP TABLE costly AS SELECT g AS id, repeat('x', 200) AS pad FROM generate_series(1, 60000) g;
SET seq_page_cost = 1.7e308;
SELECT count(*) FROM costly;
SET parallel_setup_cost = 0;
SELECT count(*) FROM costly;
RESET seq_page_cost;
SET parallel_temp.worker_start_cost = 1.7e308;
SELECT count(*) FROM costly;
SET parallel_setup_cost = 1.7e308;
SELECT count(*) FROM costly;
DROP TABLE costly;

DROP FUNCTION goes_parallel, index_in_workers, total_cost;

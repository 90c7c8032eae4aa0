-- A function in C that puts rows into a table without a plan, while the table is
-- being filled: no row may get lost.  Where it cannot go well the statement fails.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
\getenv abs_builddir PG_ABS_BUILDDIR
\set library :abs_builddir '/test/planless/parallel_test_planless'
CREATE FUNCTION insert_without_plan(rel regclass, n integer) RETURNS void AS :'library' LANGUAGE C STRICT;
\set VERBOSITY sqlstate
SET temp_buffers = '800kB';

-- on pages that the load has added and not used yet, and behind its end
CREATE TEMP TABLE t (id int, pad text);
INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 100) i;
INSERT INTO t SELECT i, repeat('x', 500) || CASE WHEN i = 600 THEN insert_without_plan('t', 20)::text ELSE '' END FROM generate_series(1, 1200) i;
SELECT count(*), count(id) FROM t;
INSERT INTO t SELECT i, repeat('x', 500) || CASE WHEN i = 600 THEN insert_without_plan('t', 100000)::text ELSE '' END FROM generate_series(1, 1200) i;
SELECT count(*), count(id) FROM t;

-- while pages go straight to the file
INSERT INTO t SELECT i, repeat('x', 500) || CASE WHEN i = 9000 THEN insert_without_plan('t', 20)::text ELSE '' END FROM generate_series(1, 10000) i;
SELECT count(*), count(id) FROM t;

-- the hint
\set VERBOSITY default
SET parallel_temp.fast_load = off;
INSERT INTO t SELECT i, repeat('x', 500) || CASE WHEN i = 600 THEN insert_without_plan('t', 100000)::text ELSE '' END FROM generate_series(1, 1200) i;
SELECT count(*), count(id) FROM t;

-- a load that fails removes the pages that it has added to the table
SET parallel_temp.fast_load = on;
TRUNCATE t;
INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 100) i;
SELECT pg_relation_size('t') AS before \gset
INSERT INTO t SELECT 1 / (20000 - i), repeat('x', 500) FROM generate_series(1, 20000) i;
SELECT (pg_relation_size('t') - :before) / 8192 < 8 AS file_given_back, count(*) < 8 AS buffers_given_back
FROM pg_local_buffers WHERE relation = 't'::regclass AND dirty AND block >= :before / 8192;
SELECT count(*), sum(id) FROM t;
INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i;
SELECT count(*), sum(id) FROM t;
DROP FUNCTION insert_without_plan;
DROP TABLE t;

-- one that reads pages without a plan sees what is finished of a load, and no more
CREATE FUNCTION count_without_plan(rel regclass) RETURNS integer AS :'library' LANGUAGE C STRICT PARALLEL SAFE;
CREATE TEMP TABLE t (id int, pad text, counted int);
INSERT INTO t SELECT i, repeat('x', 500), CASE WHEN i = 9000 THEN count_without_plan('t') END FROM generate_series(1, 10000) i;
SELECT counted BETWEEN 50 AND 8999 AS some FROM t WHERE counted IS NOT NULL;
SELECT count_without_plan('t');

-- one that uses heap's scan may be called by triggers and generated columns
CREATE FUNCTION scan_without_plan(rel regclass, unused int) RETURNS integer AS :'library' LANGUAGE C STRICT IMMUTABLE;
CREATE TEMP TABLE triggered (id int, pad text, seen int);
CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id % 1000 = 0 THEN NEW.seen := scan_without_plan('triggered', NEW.id); END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER counts BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION count_rows();
INSERT INTO triggered SELECT i, repeat('x', 100) FROM generate_series(1, 3000) i;
SELECT id, seen FROM triggered WHERE seen IS NOT NULL ORDER BY id;
CREATE TEMP TABLE generated (id int, pad text);
ALTER TABLE generated ADD seen int GENERATED ALWAYS AS (CASE WHEN id % 1000 = 0 THEN scan_without_plan('generated', id) END) STORED;
INSERT INTO generated SELECT i, repeat('x', 500) FROM generate_series(1, 3000) i;
SELECT id, seen BETWEEN 50 AND id AS some FROM generated WHERE seen IS NOT NULL ORDER BY id;
INSERT INTO generated SELECT i FROM generate_series(1, 3) i RETURNING id, scan_without_plan('generated', id);
COPY triggered (id) FROM PROGRAM 'seq 1000 1000 2000';
SELECT id, seen FROM triggered WHERE seen > 2999 ORDER BY id;
DROP TABLE triggered, generated;
DROP FUNCTION count_rows, scan_without_plan;

-- The same where workers write pages: who reads them finds whole ones, and who puts rows there is refused.  (The leader alone does so.
-- A plan with a constant of type regclass would name the table.)
CREATE FUNCTION insert_without_plan(rel regclass, n integer) RETURNS void AS :'library' LANGUAGE C STRICT PARALLEL SAFE;
CREATE FUNCTION meanwhile(i int, every int, what text) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF pg_backend_pid()::text <> current_setting('my.pid') THEN
		IF i % 150 = 0 THEN PERFORM pg_sleep(0.005); END IF;
	ELSIF i % every = 0 THEN
		EXECUTE what;
	ELSIF i % 20 = 0 THEN
		PERFORM pg_sleep(0.0005);
	END IF;
	RETURN i;
END $$;
SELECT set_config('my.pid', pg_backend_pid()::text, false) IS NOT NULL;
CREATE TABLE source AS SELECT i AS id, repeat('x', 400) AS pad FROM generate_series(1, 20000) i;
ANALYZE source;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;
CREATE TEMP TABLE u (id int, pad text);
EXPLAIN (COSTS off) INSERT INTO u SELECT meanwhile(id, 97, 'SELECT count_without_plan(''u''::text::regclass)'), pad FROM source;
INSERT INTO u SELECT meanwhile(id, 97, 'SELECT count_without_plan(''u''::text::regclass)'), pad FROM source;
SELECT count(*), sum(id), count_without_plan('u') FROM u;
CREATE TEMP TABLE w AS SELECT meanwhile(id, 101, 'SELECT count_without_plan(''w''::text::regclass)') AS id, pad FROM source;
SELECT count(*), sum(id), count_without_plan('w') FROM w;
\set VERBOSITY sqlstate
INSERT INTO u SELECT meanwhile(id, 7, 'SELECT insert_without_plan(''u''::text::regclass, 3000)'), pad FROM source;
SELECT count(*), sum(id) FROM u WHERE id IS NOT NULL;
\set VERBOSITY default
DROP TABLE u, w, source;
DROP FUNCTION insert_without_plan;

-- in a worker that reads no index of a temporary table it is refused
\set VERBOSITY sqlstate
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET parallel_leader_participation = off;
CREATE TEMP TABLE other AS SELECT i AS id FROM generate_series(1, 1000) i;
SELECT count(*) FROM other WHERE count_without_plan('t') > id;
SET max_parallel_workers_per_gather = 0;
SELECT count(*) FROM other WHERE id < 10 AND count_without_plan('t') > id;
DROP TABLE t, other;
DROP FUNCTION count_without_plan;

-- a library that restores the executor's hooks as they were before they were set: the next statement that needs the extension's sets them again
\c -
CREATE FUNCTION restore_executor_hooks() RETURNS void AS :'library' LANGUAGE C STRICT;
CREATE FUNCTION fast_load(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || command LOOP
		IF line ~ 'Fast Load' THEN RETURN line; END IF;
	END LOOP;
	RETURN 'none';
END $$;
CREATE TEMP TABLE t (id int);
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
SELECT restore_executor_hooks();
SELECT fast_load('INSERT INTO t SELECT i FROM generate_series(1, 1000) i') ~ '^Fast Load: [0-9]+ rows' AS loaded;
SELECT restore_executor_hooks();
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
SELECT fast_load('INSERT INTO t SELECT i FROM generate_series(1, 1000) i') ~ '^Fast Load: [0-9]+ rows' AS loaded;
SELECT count(*), sum(id) FROM t;
-- also by a cached plan with workers, which nothing plans
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET plan_cache_mode = force_generic_plan;
PREPARE kept AS SELECT count(*), sum(id) FROM t;
EXPLAIN (COSTS OFF) EXECUTE kept;
EXECUTE kept;
SELECT restore_executor_hooks();
EXECUTE kept;
EXECUTE kept;
DROP TABLE t;
DROP FUNCTION restore_executor_hooks, fast_load;

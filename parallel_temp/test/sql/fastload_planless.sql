-- A function in C that puts rows into a table without a plan, while the table is
-- being filled: no row may get lost.  Where it cannot go well the statement fails.
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

-- a load that fails gives back what it has added to the table
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
SET parallel_temp.compare_plans = off;
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
SET parallel_temp.compare_plans = off;
SET parallel_leader_participation = off;
CREATE TEMP TABLE other AS SELECT i AS id FROM generate_series(1, 1000) i;
SELECT count(*) FROM other WHERE count_without_plan('t') > id;
SET max_parallel_workers_per_gather = 0;
SELECT count(*) FROM other WHERE id < 10 AND count_without_plan('t') > id;
DROP TABLE t, other;
DROP FUNCTION count_without_plan;

-- a library that sets the executor's hooks for a while and puts back what it saw: before ours were there
\c -
CREATE FUNCTION executor_hooks(put_back boolean) RETURNS void AS :'library' LANGUAGE C STRICT;
CREATE FUNCTION fast_load(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || command LOOP
		IF line ~ 'Fast Load' THEN RETURN line; END IF;
	END LOOP;
	RETURN 'none';
END $$;
\c -
SELECT executor_hooks(false);
CREATE TEMP TABLE t (id int);
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
SELECT executor_hooks(true);
SELECT fast_load('INSERT INTO t SELECT i FROM generate_series(1, 1000) i') ~ '^Fast Load: [0-9]+ rows' AS loaded;
SELECT executor_hooks(true);
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
SELECT fast_load('INSERT INTO t SELECT i FROM generate_series(1, 1000) i') ~ '^Fast Load: [0-9]+ rows' AS loaded;
SELECT count(*), sum(id) FROM t;
DROP TABLE t;
DROP FUNCTION executor_hooks, fast_load;

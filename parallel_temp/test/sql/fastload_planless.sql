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

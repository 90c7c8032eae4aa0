-- Beside a library of others: its scans stay where it wants them, and a file in place of the pool's is not taken for it.
\getenv abs_builddir PG_ABS_BUILDDIR
\set library :abs_builddir '/test/planless/parallel_test_planless'
CREATE FUNCTION offer_own_scans(boolean) RETURNS void AS :'library' LANGUAGE C STRICT;
CREATE FUNCTION exchange_pool() RETURNS boolean AS :'library' LANGUAGE C;
LOAD :'library';
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;

-- the first member of a tree decides for all of them; a scan that another library added for it is not for workers
CREATE TABLE others_first AS SELECT g AS id FROM generate_series(1, 10000) g;
CREATE TEMP TABLE second AS SELECT g AS id FROM generate_series(1, 60000) g;
ANALYZE others_first;
ANALYZE second;
SET parallel_leader_participation = off;
SELECT offer_own_scans(true);
EXPLAIN (COSTS OFF) SELECT id FROM others_first;
SELECT count(*), sum(id) FROM (SELECT id FROM others_first UNION ALL SELECT id FROM second) x;
SELECT offer_own_scans(false);
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM (SELECT id FROM others_first UNION ALL SELECT id FROM second) x;
RESET parallel_leader_participation;

-- a descriptor of the same number and size may be of another file
SELECT count(*) FROM second;
SELECT exchange_pool() AS away;
\set VERBOSITY terse
SET parallel_leader_participation = off;
SELECT count(*) FROM second;
RESET parallel_leader_participation;
SELECT exchange_pool() AS back;
SELECT count(*), sum(id) FROM second;
SELECT count(*) AS pinned FROM pg_local_buffers WHERE pins <> 0;
DROP TABLE others_first, second;
DROP FUNCTION offer_own_scans, exchange_pool;

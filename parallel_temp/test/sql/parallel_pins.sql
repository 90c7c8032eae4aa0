-- Beside pages that are pinned for workers the leader's own scans find buffers: on 18
-- each may be a stream that pins as many as it is allowed to.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
SET temp_buffers = 1024;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.flush_page_cost = 0;
SET parallel_temp.scan_buffer_cost = 0;
SET effective_io_concurrency = 100;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;


-- two tables that only the leader reads, a row a page, and none of these in the buffers
CREATE TEMP TABLE b (id int, pad text) WITH (parallel_workers = 0);
CREATE TEMP TABLE c (id int, pad text) WITH (parallel_workers = 0);
ALTER TABLE b ALTER pad SET STORAGE PLAIN;
ALTER TABLE c ALTER pad SET STORAGE PLAIN;
INSERT INTO b SELECT i, repeat('x', 5000) FROM generate_series(1, 300) i;
INSERT INTO c SELECT i, repeat('x', 5000) FROM generate_series(1, 300) i;
SELECT pg_evict_temp_relation('b') > 0 AS b, pg_evict_temp_relation('c') > 0 AS c;

-- one that workers read, larger than all of them
CREATE TEMP TABLE a AS SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 80000) i;
SET parallel_temp.enabled = off;
SELECT count(*) FROM a;
RESET parallel_temp.enabled;
SELECT parallel_temp_stats_reset();
SELECT x.n, count(*) FROM b JOIN c ON b.id = c.id, (SELECT count(*) AS n FROM a) x GROUP BY x.n;
SELECT counter, value > 0 AS is FROM parallel_temp_stats WHERE counter IN ('queries with shared pages', 'pages shared');
SELECT count(*) AS pinned FROM pg_local_buffers WHERE pins <> 0;
DROP TABLE a, b, c;

-- each scan of one table counts, not each table
\c -
SET client_min_messages = warning;
SET temp_buffers = 200;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
CREATE TEMP TABLE b (id int, pad text) WITH (parallel_workers = 0);
ALTER TABLE b ALTER pad SET STORAGE PLAIN;
INSERT INTO b SELECT i, repeat('x', 5000) FROM generate_series(1, 80) i;
CREATE TEMP TABLE a AS SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 80000) i;
SET parallel_temp.enabled = off;
SELECT count(*) FROM a;
RESET parallel_temp.enabled;
SELECT parallel_temp_stats_reset();
SELECT x.n, count(*) FROM b b1, b b2, b b3, b b4, b b5, b b6, b b7, b b8, (SELECT count(*) AS n FROM a) x
	WHERE b1.id = b2.id AND b2.id = b3.id AND b3.id = b4.id AND b4.id = b5.id AND b5.id = b6.id AND b6.id = b7.id AND b7.id = b8.id GROUP BY x.n;
SELECT counter, value > 0 AS is FROM parallel_temp_stats WHERE counter IN ('queries with shared pages', 'pages shared');
DROP TABLE a, b;

-- Buffers follow transactions, rewrites and functions.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.fast_load = off;
CREATE TEMP TABLE t (id int, filler text);

-- rows of a subtransaction that was rolled back stay invisible, flushed or not
BEGIN;
INSERT INTO t SELECT g, repeat('a', 100) FROM generate_series(1, 1000) g;
SAVEPOINT s;
INSERT INTO t SELECT g, repeat('b', 100) FROM generate_series(1001, 2000) g;
SELECT pg_flush_local_buffers('t') > 0 AS written;
SELECT pg_evict_temp_relation('t') > 0 AS evicted;
ROLLBACK TO s;
SELECT count(*), max(filler) = repeat('a', 100) AS only_a FROM t;
COMMIT;
SELECT count(*) FROM t;

-- a flush that is rolled back has still been written
SELECT pg_flush_local_buffers('t') >= 0 AS clean, pg_temp_buffers_dirty('t') > 0 AS marked;
BEGIN;
SELECT pg_flush_local_buffers('t') > 0 AS written;
ROLLBACK;
SELECT pg_dirty_local_buffers();

-- a table created and flushed in a transaction that is rolled back leaves no buffer
BEGIN;
CREATE TEMP TABLE aborted AS SELECT g FROM generate_series(1, 1000) g;
SELECT relation, dirty > 0 AS dirty FROM pg_temp_relations WHERE relation::text = 'aborted';
SELECT pg_flush_local_buffers('aborted') > 0 AS written;
SELECT pg_temp_buffers_dirty('aborted') > 0 AS marked;
ROLLBACK;
SELECT pg_dirty_local_buffers(), (SELECT count(*) FROM pg_temp_relations WHERE relation::text = 'aborted') AS shown;

-- new files: rewrite, truncation, cluster
CREATE INDEX t_id ON t (id);
BEGIN;
ALTER TABLE t ALTER COLUMN id TYPE bigint;
SELECT r.path = pg_relation_filepath('t') AS new_path, r.path_exists, dirty > 0 AS dirty FROM pg_temp_relations r WHERE relation = 't'::regclass;
-- the old file's pages have no relation any more until the end of the transaction
SELECT count(*) FILTER (WHERE relation IS NULL AND relfilenode IS NOT NULL) > 0 AS of_the_old_file FROM pg_local_buffers;
SELECT pg_flush_local_buffers('t') > 0 AS written, pg_evict_temp_relation('t') > 0 AS evicted;
ROLLBACK;
SELECT count(*), sum(id) FROM t;
CLUSTER t USING t_id;
SELECT pg_flush_local_buffers('t') >= 0 AS written, pg_evict_temp_relation('t') > 0 AS evicted;
SELECT count(*), sum(id) FROM t;
BEGIN;
TRUNCATE t;
SELECT pages, resident, dirty FROM pg_temp_relations WHERE relation = 't'::regclass;
ROLLBACK;
SELECT count(*), sum(id) FROM t;

-- ON COMMIT DELETE ROWS
CREATE TEMP TABLE d (a int) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO d SELECT g FROM generate_series(1, 1000) g;
SELECT pg_flush_local_buffers('d') > 0 AS written;
COMMIT;
SELECT pages, dirty FROM pg_temp_relations WHERE relation = 'd'::regclass;

-- in PL/pgSQL, with an exception block that a failure goes through
DO $$
DECLARE
	written int;
	r record;
BEGIN
	FOR i IN 1 .. 5 LOOP
		INSERT INTO t SELECT g, 'loop' FROM generate_series(1, 1000) g;
		BEGIN
			written := pg_flush_local_buffers('t');
			ASSERT written > 0, 'something was dirty';
			PERFORM pg_flush_local_buffers('pg_class');
		EXCEPTION WHEN wrong_object_type THEN
			NULL;
		END;
		ASSERT pg_flush_local_buffers('t') = 0, 'written for good';
	END LOOP;
	-- while a loop over the table is open
	FOR r IN SELECT id FROM t WHERE filler = 'loop' LIMIT 3 LOOP
		PERFORM pg_temp_buffers_dirty('t');
		ASSERT pg_flush_local_buffers('t') > 0, 'pinned pages are written too';
	END LOOP;
END
$$;
SELECT count(*) FROM t;

-- within one statement that reads the table
SELECT count(*), sum(w) >= 0 AS written FROM (SELECT pg_flush_local_buffers('t') AS w FROM t LIMIT 100) x;
SELECT count(*), sum(m) > 0 AS marked FROM t, LATERAL (SELECT pg_temp_buffers_dirty('t') + id AS m) x WHERE id < 10;
UPDATE t SET filler = 'flushed ' || pg_flush_local_buffers() WHERE id = 10;
SELECT count(*) > 0 AS updated FROM t WHERE filler LIKE 'flushed %';

-- a prepared statement that outlives the table
PREPARE p AS SELECT pg_flush_local_buffers('t') >= 0;
EXECUTE p;
DROP TABLE t;
\set VERBOSITY sqlstate
EXECUTE p;
\set VERBOSITY default
DISCARD ALL;

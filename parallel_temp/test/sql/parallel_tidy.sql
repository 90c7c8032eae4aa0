-- What parallel scans leave on the pages of a table that was filled row by row:
-- hint bits, and dead rows pruned.  They do it when no worker is left.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
CREATE EXTENSION pageinspect;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.flush_page_cost = 0;
SET parallel_temp.scan_buffer_cost = 0;

CREATE TEMP TABLE t (id int, v int, pad text);

-- Rows whose insertion, or whose deletion, has no hint bit (256: committed, 512:
-- aborted; 1024 and 2048 for the deletion), and line pointers that are dead or lead
-- to another.
CREATE VIEW pages AS
  SELECT count(*) FILTER (WHERE t_infomask & 768 = 0) AS unhinted,
         count(*) FILTER (WHERE t_infomask & 3072 = 0) AS unhinted_deletions,
         count(*) FILTER (WHERE lp_flags IN (2, 3)) > 0 AS pruned
  FROM generate_series(0, pg_relation_size('t') / current_setting('block_size')::int - 1) AS block,
       heap_page_items(get_raw_page('t', block::int));
CREATE FUNCTION plan_is_parallel(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
    IF line ~ 'Gather' THEN RETURN true; END IF;
  END LOOP;
  RETURN false;
END $$;
CREATE FUNCTION fill(first int, last int, modulo int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN first .. last LOOP
    BEGIN
      INSERT INTO t VALUES (i, 0, repeat('x', 50));
      IF i % modulo = 0 THEN RAISE division_by_zero; END IF;
    EXCEPTION WHEN division_by_zero THEN NULL;
    END;
  END LOOP;
END $$;

-- a transaction a row, all committed: one parallel scan does
SELECT fill(1, 3000, 100000);
SELECT unhinted FROM pages;
SELECT plan_is_parallel('SELECT count(*), sum(id) FROM t');
SELECT count(*), sum(id) FROM t;
SELECT unhinted FROM pages;
SELECT value > 0 AS tidied FROM parallel_temp_stats WHERE counter = 'pages with hint bits set';
SELECT parallel_temp_stats_reset();
SELECT count(*), sum(id) FROM t;
SELECT value AS nothing_left FROM parallel_temp_stats WHERE counter = 'pages with hint bits set';

-- some aborted, some deleted by a transaction that committed or did not
TRUNCATE t;
SELECT fill(1, 3000, 7);
DELETE FROM t WHERE id % 5 = 0;
BEGIN;
DELETE FROM t WHERE id % 3 = 0;
ROLLBACK;

SELECT unhinted_deletions > 0 AS unhinted_deletions FROM pages;
SELECT count(*), sum(id) FROM t;
SELECT unhinted, unhinted_deletions FROM pages;
SELECT count(*), sum(id) FROM t;

-- nothing is recorded of a transaction that continues, whatever becomes of its parts
TRUNCATE t;
BEGIN;
SELECT fill(1, 1000, 9);
SELECT count(*), sum(id) FROM t;
SAVEPOINT a;
SELECT fill(1001, 1500, 9);
SELECT count(*), sum(id) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(id) FROM t;
DELETE FROM t WHERE id % 2 = 0;
SELECT count(*), sum(id) FROM t;
SELECT unhinted FROM pages;
COMMIT;
SELECT count(*), sum(id) FROM t;
SELECT unhinted, unhinted_deletions FROM pages;

-- a cursor that was opened before keeps seeing what it saw
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM t;
DELETE FROM t WHERE id % 3 = 0;
SELECT count(*) FROM t;
FETCH c;
COMMIT;

-- a locked row is there, whichever transaction locked it: this transaction, also a part of it
-- (a multixact), one that is over; and one that a part locked and another changed
TRUNCATE t;
INSERT INTO t SELECT i, 0, repeat('x', 50) FROM generate_series(1, 3000) i;
BEGIN;
SELECT count(*) FROM (SELECT FROM t WHERE id % 2 = 0 FOR KEY SHARE) locked;
SELECT plan_is_parallel('SELECT count(*), sum(id), sum(v) FROM t');
SELECT count(*), sum(id), sum(v) FROM t;
SAVEPOINT a;
SELECT count(*) FROM (SELECT FROM t WHERE id % 3 = 0 FOR UPDATE) locked;
SELECT count(*), sum(id), sum(v) FROM t;
SAVEPOINT b;
UPDATE t SET v = 1 WHERE id % 5 = 0;
DELETE FROM t WHERE id % 7 = 0;
SELECT count(*), sum(id), sum(v) FROM t;
ROLLBACK TO b;
SELECT count(*), sum(id), sum(v) FROM t;
UPDATE t SET v = 1 WHERE id % 10 = 0;
RELEASE a;
SELECT count(*), sum(id), sum(v) FROM t;
COMMIT;
SELECT count(*), sum(id), sum(v) FROM t;

-- deleted rows are pruned from full pages
TRUNCATE t;
INSERT INTO t SELECT i, 0, repeat('x', 50) FROM generate_series(1, 3000) i;
DELETE FROM t WHERE id % 10 = 0;
SELECT pruned FROM pages;
SELECT count(*), sum(v) FROM t;
SELECT pruned FROM pages;
SELECT count(*), sum(v) FROM t;

-- a leader without workers does it as it reads
SET parallel_temp.debug_force = on;
SET parallel_setup_cost = 1000000;
TRUNCATE t;
SELECT fill(1, 1000, 7);
SELECT parallel_temp_stats_reset();
SELECT count(*), sum(id) FROM t;
SELECT value > 0 AS tidied FROM parallel_temp_stats WHERE counter = 'pages with hint bits set';
SELECT unhinted FROM pages;
DELETE FROM t WHERE id % 10 = 0;
SELECT pruned FROM pages;
SELECT count(*), sum(id) FROM t;
SELECT unhinted_deletions, pruned FROM pages;

DROP TABLE t CASCADE;
DROP FUNCTION plan_is_parallel, fill;
DROP EXTENSION pageinspect;

-- a subtransaction that ends between two pages of a scan in the session itself
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_temp.worker_start_cost = 0;
CREATE TEMP TABLE deleted AS SELECT g, repeat('x', 100) AS m FROM generate_series(1, 3000) g;
CREATE FUNCTION undeleted() RETURNS SETOF int LANGUAGE sql VOLATILE AS 'SELECT g FROM deleted WHERE length(m) = 100';
BEGIN;
DECLARE c CURSOR FOR SELECT undeleted();
FETCH 1 FROM c;
SAVEPOINT a;
DELETE FROM deleted;
MOVE 200 IN c;
ROLLBACK TO a;
MOVE ALL IN c;
COMMIT;
DROP FUNCTION undeleted;
DROP TABLE deleted;

-- rows that the running command has deleted are still visible to an older snapshot of it
SET parallel_temp.debug_force = off;
SET parallel_leader_participation = on;
CREATE TEMP TABLE going AS SELECT g AS id FROM generate_series(1, 3000) g;
CREATE FUNCTION there(int) RETURNS SETOF bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT count(*) FROM going; END';
SELECT parallel_temp_stats_reset();
DELETE FROM going WHERE id > 2997 AND (SELECT n FROM there(id) n) = 3000;
SELECT value > 0 AS with_workers FROM parallel_temp_stats WHERE counter = 'queries with shared pages';
SELECT count(*) FROM going;
DROP FUNCTION there;
DROP TABLE going;

-- and what it has put there is not there yet
CREATE TEMP TABLE coming AS SELECT g AS id FROM generate_series(1, 3000) g;
CREATE FUNCTION there() RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM coming); END';
SELECT parallel_temp_stats_reset();
INSERT INTO coming VALUES (there()), (there()), (there()) RETURNING id;
SELECT value > 0 AS with_workers FROM parallel_temp_stats WHERE counter = 'queries with shared pages';
SELECT count(*) FROM coming;
DROP FUNCTION there;
DROP TABLE coming;

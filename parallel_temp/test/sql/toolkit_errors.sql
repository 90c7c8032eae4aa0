-- What cannot be done is refused with a reason, and nothing is half done.
-- The library's own parallel scans are another test's.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.fast_load = off;
SET parallel_temp.enabled = off;
CREATE TABLE permanent (a int);
CREATE TEMP TABLE t AS SELECT g AS id, repeat('x', 100) AS filler FROM generate_series(1, 3000) g;
CREATE TEMP VIEW v AS SELECT 1 AS one;
CREATE TEMP TABLE parted (a int) PARTITION BY RANGE (a);
CREATE TEMP TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE INDEX parted_idx ON parted (a);

-- not a temporary relation with pages
SELECT pg_flush_local_buffers('permanent');
SELECT pg_read_temp_relation('permanent', false);
SELECT pg_temp_buffers_dirty('permanent');
SELECT pg_evict_temp_relation('permanent');
SELECT pg_temp_flush_cost('permanent');
SELECT pg_flush_local_buffers('v');
SELECT pg_temp_flush_cost('v');
SELECT pg_flush_local_buffers('parted');
SELECT pg_flush_local_buffers('parted_idx');
SELECT pg_flush_local_buffers('part');
SELECT pg_flush_local_buffers(0);
SELECT pg_flush_local_buffers('no_such_table');

-- dropped in this transaction
BEGIN;
CREATE TEMP TABLE gone AS SELECT 1 AS a;
SELECT 'gone'::regclass::oid AS gone \gset
DROP TABLE gone;
SAVEPOINT s;
\set VERBOSITY sqlstate
SELECT pg_flush_local_buffers(:gone);
\set VERBOSITY default
ROLLBACK TO s;
SELECT pg_flush_local_buffers() > 0 AS written;
COMMIT;

-- another role's table
CREATE ROLE regress_pt_user;
SET ROLE regress_pt_user;
SELECT pg_flush_local_buffers('t');
SELECT pg_read_temp_relation('t', false);
SELECT pg_temp_buffers_dirty('t');
SELECT pg_evict_temp_relation('t');
-- looking is free, and so is writing what the session would write anyway
SELECT pg_allocated_local_buffers() > 0 AS allocated, pg_dirty_local_buffers() AS dirty, pg_temp_flush_cost('t') > 0 AS cost, pg_flush_local_buffers() AS written;
SELECT count(*) > 0 AS seen FROM pg_local_buffers;
SELECT count(*) > 0 AS seen FROM pg_temp_relations;
RESET ROLE;
ALTER TABLE t OWNER TO regress_pt_user;
SET ROLE regress_pt_user;
SELECT pg_temp_buffers_dirty('t') > 0 AS marked, pg_flush_local_buffers('t') > 0 AS written, pg_evict_temp_relation('t') > 0 AS evicted, pg_read_temp_relation('t', false) > 0 AS read;
RESET ROLE;

-- pages in use stay, with a warning; the rest goes, and dirty ones are written
SELECT pg_temp_buffers_dirty('t') > 0 AS marked;
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id FROM t WHERE ctid = '(3,1)';
FETCH c;
SELECT block, pins > 0 AS pinned FROM pg_local_buffers WHERE relation = 't'::regclass AND pins > 0;
SELECT pg_flush_local_buffers('t') > 0 AS written;
SELECT pg_evict_temp_relation('t') > 0 AS evicted;
SELECT block, dirty, pins > 0 AS pinned FROM pg_local_buffers WHERE relation = 't'::regclass;
-- and the page that stayed can still be found
SELECT pg_read_temp_relation('t', false) = pg_relation_size('t') / current_setting('block_size')::int - 1 AS read_the_others;
CLOSE c;
SELECT pg_evict_temp_relation('t') = pg_relation_size('t') / current_setting('block_size')::int AS evicted_all;
COMMIT;
SELECT count(*), sum(id) FROM t;

-- cancelled inside the loop: nothing is lost, and it can be done again
SELECT pg_flush_local_buffers('t') >= 0 AS clean, pg_temp_buffers_dirty('t') AS dirty \gset
SELECT pg_cancel_backend(pg_backend_pid()), pg_flush_local_buffers('t');
SELECT pg_dirty_local_buffers() = :dirty AS still_dirty;
SELECT pg_cancel_backend(pg_backend_pid()), pg_evict_temp_relation('t');
SELECT resident >= pages AS still_resident, dirty = :dirty AS still_dirty FROM pg_temp_relations WHERE relation = 't'::regclass;
SELECT pg_flush_local_buffers() = :dirty AS written;
SELECT pg_cancel_backend(pg_backend_pid()), pg_temp_buffers_dirty('t');
SELECT pg_dirty_local_buffers() AS dirty;
SELECT pg_evict_temp_relation('t') >= :dirty AS evicted;
SELECT pg_cancel_backend(pg_backend_pid()), pg_read_temp_relation('t', true);
SELECT resident FROM pg_temp_relations WHERE relation = 't'::regclass;
SELECT count(*), sum(id) FROM t;

-- reads that an error left under way (18 reads ahead in the background)
SELECT pg_evict_temp_relation('t') > 0 AS evicted;
SELECT sum(1 / (id - 5)) FROM t;
SELECT pg_evict_temp_relation('t') > 0 AS evicted, pg_flush_local_buffers() AS dirty;
SELECT sum(1 / (id - 5)) FROM t;
SELECT pg_read_temp_relation('t', true) > 0 AS read, pg_temp_buffers_dirty('t') > 0 AS marked, pg_flush_local_buffers() > 0 AS written;
SELECT count(*), sum(id) FROM t;

-- not below or next to a parallel plan, whatever a wrapper's marking says
CREATE TABLE big AS SELECT g AS a FROM generate_series(1, 20000) g;
ANALYZE big;
CREATE FUNCTION flush_in_worker() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN pg_flush_local_buffers(); END';
CREATE FUNCTION count_in_worker() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN pg_dirty_local_buffers(); END';
CREATE FUNCTION cost_in_worker() RETURNS float8 LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN pg_temp_flush_cost(); END';
CREATE FUNCTION view_in_worker() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN (SELECT count(*) FROM pg_local_buffers); END';
CREATE FUNCTION flush_in_leader() RETURNS int LANGUAGE plpgsql PARALLEL RESTRICTED AS 'BEGIN RETURN pg_flush_local_buffers(); END';
CREATE FUNCTION count_in_leader() RETURNS int LANGUAGE plpgsql PARALLEL RESTRICTED AS 'BEGIN RETURN pg_dirty_local_buffers(); END';
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;
SELECT pg_temp_buffers_dirty('t') > 0 AS marked;
\set VERBOSITY terse
SELECT count(*) FROM big WHERE a + flush_in_worker() < 0;
SELECT count(*) FROM big WHERE a + count_in_worker() < 0;
SELECT count(*) FROM big WHERE a + cost_in_worker() < 0;
SELECT count(*) FROM big WHERE a + view_in_worker() < 0;
SELECT count(*) + flush_in_leader() FROM big;
SELECT count(*) + count_in_leader() > 20000 AS counted FROM big;
\set VERBOSITY default
SELECT pg_flush_local_buffers('t') > 0 AS still_dirty;
RESET ALL;

DROP FUNCTION flush_in_worker, count_in_worker, cost_in_worker, view_in_worker, flush_in_leader, count_in_leader;
DROP TABLE big, permanent, t;
DROP ROLE regress_pt_user;

-- When temp_buffers is too small for the relation, or all of it is in use.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.fast_load = off;
SET temp_buffers = 100;
CREATE TEMP TABLE t (id int, filler text);
INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g;
CREATE TEMP TABLE small AS SELECT 1 AS a;
SELECT pg_allocated_local_buffers();
SELECT pg_relation_size('t') / current_setting('block_size')::int AS pages;

-- reads all of it, keeps what fits, says so
SELECT pg_read_temp_relation('t', false) > 0 AS read;
SELECT resident < pages AS partly FROM pg_temp_relations WHERE relation = 't'::regclass;

-- each cursor keeps one page; room for one page is enough to work
BEGIN;
DO $$
DECLARE
	c refcursor;
	place tid;
	id int;
BEGIN
	FOR block IN 0 .. 98 LOOP
		c := 'c' || block;
		place := format('(%s,1)', block);
		OPEN c NO SCROLL FOR SELECT t.id FROM t WHERE ctid = place;
		FETCH c INTO id;
	END LOOP;
END
$$;
SELECT count(*) FROM pg_local_buffers WHERE pins > 0;
SELECT pg_read_temp_relation('small', false) AS read, pg_flush_local_buffers('small') >= 0 AS written, pg_evict_temp_relation('small') AS evicted;
-- and without any it is refused
DECLARE last NO SCROLL CURSOR FOR SELECT id FROM t WHERE ctid = '(99,1)';
FETCH last;
SAVEPOINT s;
SELECT pg_read_temp_relation('small', false);
ROLLBACK TO s;
SELECT pg_dirty_local_buffers() = pg_flush_local_buffers() AS flushed;
SELECT pg_evict_temp_relation('t') AS evicted;
COMMIT;
SELECT pg_read_temp_relation('small', false) AS read;
SELECT count(*), sum(id), sum(length(filler)) FROM t;

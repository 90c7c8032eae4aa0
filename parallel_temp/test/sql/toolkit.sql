-- Counting, flushing, evicting, reading and dirtying temporary buffers, the cost of a flush,
-- and the views over them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.fast_load = off;

-- before any temporary table
SELECT pg_allocated_local_buffers(), pg_dirty_local_buffers(), pg_flush_local_buffers(), pg_temp_flush_cost();
SELECT count(*) FROM pg_local_buffers;
SELECT count(*) FROM pg_temp_relations;

-- a table with everything: TOAST, index, free space map
CREATE TEMP TABLE t (id int PRIMARY KEY, filler text);
ALTER TABLE t ALTER COLUMN filler SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, repeat('x', CASE WHEN g % 500 = 0 THEN 40000 ELSE 100 END) FROM generate_series(1, 5000) g;
CREATE TEMP TABLE other AS SELECT g AS id FROM generate_series(1, 1000) g;
CREATE TEMP SEQUENCE s;

-- the counters agree with the view
SELECT pg_allocated_local_buffers() = count(*) AS allocated_agrees,
	   pg_dirty_local_buffers() = count(*) FILTER (WHERE dirty) AS dirty_agrees,
	   count(*) FILTER (WHERE dirty) > 100 AS many_dirty,
	   sum(bytes) = count(*) * current_setting('block_size')::int AS bytes_agree,
	   bool_and(usage_count BETWEEN 1 AND 5) AS used,
	   bool_and(pins = 0) AS no_pins,
	   count(*) = count(DISTINCT buffer) AS distinct_buffers,
	   count(*) = count(DISTINCT (relfilenode, fork, block)) AS distinct_pages
FROM pg_local_buffers;

-- and the two views with each other and with core's own functions
SELECT CASE WHEN r.relation::text LIKE 'pg_toast%index' THEN 'toast index' WHEN r.relation::text LIKE 'pg_toast%' THEN 'toast' ELSE r.relation::text END AS relation,
	   r.pages = pg_relation_size(r.relation) / current_setting('block_size')::int AS pages,
	   r.bytes = pg_relation_size(r.relation) + pg_relation_size(r.relation, 'fsm') + pg_relation_size(r.relation, 'vm') AS bytes,
	   r.path = pg_relation_filepath(r.relation) AS path, r.path_exists,
	   r.relfilenode = pg_relation_filenode(r.relation) AS relfilenode,
	   r.resident = b.resident AS resident, r.dirty = b.dirty AS dirty
FROM pg_temp_relations r
JOIN (SELECT relation, count(*) AS resident, count(*) FILTER (WHERE dirty) AS dirty FROM pg_local_buffers GROUP BY relation) b USING (relation)
ORDER BY 1;

-- the published formula, and its two constants
SELECT pg_temp_flush_cost() = 1.3::float8 * pg_dirty_local_buffers() + 0.01::float8 * pg_allocated_local_buffers() AS formula,
	   pg_temp_flush_cost('t') = 1.3::float8 * sum(dirty) FILTER (WHERE relation::text <> 'other' AND relation::text <> 's') + 0.01::float8 * pg_allocated_local_buffers() AS family_only,
	   pg_temp_flush_cost(NULL) = pg_temp_flush_cost() AS null_is_all
FROM pg_temp_relations;
SET parallel_temp.flush_page_cost = 7;
SET parallel_temp.scan_buffer_cost = 0;
SELECT pg_temp_flush_cost() = 7 * pg_dirty_local_buffers() AS formula;
RESET parallel_temp.flush_page_cost;
RESET parallel_temp.scan_buffer_cost;

-- flushing one table takes its TOAST table and indexes along and leaves others
CREATE FUNCTION dirty_of(text) RETURNS bigint LANGUAGE sql AS
$$ SELECT sum(dirty) FROM pg_temp_relations WHERE relation::text ~ $1 $$;
SELECT dirty_of('^pg_toast.*[0-9]$') > 0 AS toast, dirty_of('index$') > 0 AS toast_index, dirty_of('pkey') > 0 AS pkey, dirty_of('^t$') > 0 AS t, dirty_of('other') > 0 AS other;
SELECT dirty_of('^(pg_toast.*|t_pkey|t)$') AS expected \gset
SELECT pg_flush_local_buffers('t') = :expected AS written;
SELECT dirty_of('^(pg_toast.*|t_pkey|t)$') AS t, dirty_of('other') > 0 AS other, pg_flush_local_buffers('t') AS again;
SELECT pg_flush_local_buffers() > 0 AS rest, pg_dirty_local_buffers() AS dirty, pg_flush_local_buffers() AS dry;

-- evict, and read back what was written
SELECT md5(string_agg(id || filler, ',' ORDER BY id)) AS before FROM t \gset
SELECT pg_evict_temp_relation('t') > 80 AS evicted, pg_evict_temp_relation('t') AS again;
SELECT resident, dirty FROM pg_temp_relations WHERE relation = 't'::regclass;
SELECT pg_relation_size('t') / current_setting('block_size')::int AS pages \gset
SELECT pg_read_temp_relation('t', false) = :pages AS read, pg_read_temp_relation('t', false) AS again;
SELECT pg_evict_temp_relation('t') = :pages AS evicted;
SELECT pg_read_temp_relation('t', true) = :pages AS read, pg_read_temp_relation('t', true) AS again;
SELECT pg_temp_buffers_dirty('t') = :pages AS marked, pg_temp_buffers_dirty('t') AS again;
-- an eviction writes what is dirty first
UPDATE t SET filler = 'y' WHERE id = 4321;
SELECT pg_evict_temp_relation('t') >= :pages AS evicted, pg_dirty_local_buffers() < :pages AS written;
SELECT filler FROM t WHERE id = 4321;
UPDATE t SET filler = repeat('x', 100) WHERE id = 4321;
SELECT md5(string_agg(id || filler, ',' ORDER BY id)) = :'before' AS unchanged FROM t;

-- every method of flushing writes the same
SET parallel_temp.debug_flush_method = sorted;
SELECT pg_temp_buffers_dirty('t') > 0 AS marked, pg_flush_local_buffers() > 0 AS written, pg_dirty_local_buffers() AS dirty, pg_evict_temp_relation('t') > 0 AS evicted;
SELECT md5(string_agg(id || filler, ',' ORDER BY id)) = :'before' AS unchanged FROM t;
SET parallel_temp.debug_flush_method = buffer_order;
SELECT pg_read_temp_relation('t', true) AS resident, pg_temp_buffers_dirty('t') > 0 AS marked, pg_flush_local_buffers() > 0 AS written, pg_dirty_local_buffers() AS dirty, pg_evict_temp_relation('t') > 0 AS evicted;
SELECT md5(string_agg(id || filler, ',' ORDER BY id)) = :'before' AS unchanged FROM t;
RESET parallel_temp.debug_flush_method;

-- blocks with gaps, in random order of buffers: runs of every length
SELECT pg_evict_temp_relation('t') > 0 AS evicted, pg_read_temp_relation('t', true) > 0 AS read;
UPDATE t SET filler = upper(filler) WHERE id % 300 < 100;
SELECT pg_flush_local_buffers() > 0 AS written, pg_evict_temp_relation('t') > 0 AS evicted;
SELECT md5(string_agg(id || lower(filler), ',' ORDER BY id)) = :'before' AS unchanged FROM t;

-- an index, a TOAST table and a sequence are relations, too
SELECT pg_temp_buffers_dirty('t_pkey') > 0 AS marked, pg_flush_local_buffers('t_pkey') > 0 AS written, pg_evict_temp_relation('t_pkey') > 0 AS evicted,
	   pg_read_temp_relation('t_pkey', false) > 0 AS read;
SELECT pg_temp_buffers_dirty(reltoastrelid) > 0 AS marked, pg_flush_local_buffers(reltoastrelid) > 0 AS written, pg_evict_temp_relation(reltoastrelid) > 0 AS evicted
FROM pg_class WHERE oid = 't'::regclass;
SELECT nextval('s'), pg_flush_local_buffers('s'), pg_evict_temp_relation('s'), pg_read_temp_relation('s', false);
SELECT nextval('s');

-- an empty table has no pages
CREATE TEMP TABLE empty (a int);
SELECT pg_flush_local_buffers('empty'), pg_read_temp_relation('empty', true), pg_temp_buffers_dirty('empty'), pg_evict_temp_relation('empty');
SELECT relation, pages, bytes, resident, dirty, path_exists FROM pg_temp_relations WHERE relation = 'empty'::regclass;

-- another tablespace is another folder
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_pt_space LOCATION '';
CREATE TEMP TABLE elsewhere (id int, filler text) TABLESPACE regress_pt_space;
INSERT INTO elsewhere SELECT g, repeat('e', 100) FROM generate_series(1, 2000) g;
SELECT path ~ '^pg_tblspc/' AS in_tablespace, path = pg_relation_filepath('elsewhere') AS path, path_exists, resident >= pages AS resident
FROM pg_temp_relations WHERE relation = 'elsewhere'::regclass;
SELECT pg_flush_local_buffers('elsewhere') > 0 AS written, pg_evict_temp_relation('elsewhere') > 0 AS evicted;
SELECT count(*), sum(id), min(filler) = repeat('e', 100) AS same FROM elsewhere;
DROP TABLE elsewhere;
DROP TABLESPACE regress_pt_space;

-- null asks for nothing
SELECT pg_flush_local_buffers(NULL), pg_read_temp_relation(NULL, true), pg_read_temp_relation('t', NULL), pg_temp_buffers_dirty(NULL), pg_evict_temp_relation(NULL);

-- dropped: its buffers keep their memory and hold no page
DROP TABLE other;
SELECT count(*) FILTER (WHERE relation IS NULL AND relfilenode IS NULL AND fork IS NULL AND block IS NULL AND dirty IS NULL AND usage_count IS NULL) > 0 AS empty_buffers,
	   count(*) = pg_allocated_local_buffers() AS allocated
FROM pg_local_buffers;
DISCARD TEMP;
SELECT pg_dirty_local_buffers() AS dirty, pg_allocated_local_buffers() > 0 AS allocated, (SELECT count(*) FROM pg_temp_relations) AS relations;
DROP FUNCTION dirty_of;

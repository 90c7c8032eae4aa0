-- pg_truncate_temp_relation(): a temporary table is emptied without a trace.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
CREATE EXTENSION amcheck;
RESET client_min_messages;
CREATE TABLE permanent (id int);

-- indexes of all types, out-of-line values, free space and visibility maps
CREATE TEMP TABLE t (id int GENERATED ALWAYS AS IDENTITY, a int, words text[], place point, s text, PRIMARY KEY (id), EXCLUDE USING hash (id WITH =));
CREATE INDEX t_gist ON t USING gist (place);
CREATE INDEX t_hash ON t USING hash (a);
CREATE INDEX t_gin ON t USING gin (words);
CREATE INDEX t_spgist ON t USING spgist (place);
CREATE INDEX t_brin ON t USING brin (a);
CREATE INDEX t_some ON t (lower(s)) WHERE a > 5;
CREATE UNIQUE INDEX t_two ON t (a, id) INCLUDE (place);
ALTER TABLE t ALTER s SET STORAGE EXTERNAL;
CREATE PROCEDURE fill(rows int) LANGUAGE sql AS $$
	INSERT INTO t (a, words, place, s) SELECT i, ARRAY['w' || i % 50, 'all'], point(i, -i), CASE WHEN i % 10 = 0 THEN repeat(i::text, 2000) ELSE 'v' || i END FROM generate_series(1, rows) i;
$$;
-- each row is found by each index
CREATE FUNCTION found() RETURNS TABLE (by_index text, n bigint) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE condition text;
BEGIN
	FOREACH condition IN ARRAY ARRAY['id > 0', 'a = 7', 'words @> ''{all}''', 'words @> ''{w3}''', 'place <@ box(point(-1, 1), point(1e6, -1e6))', 'place ~= point(9, -9)', 'a BETWEEN 1 AND 1000000',
		'lower(s) = ''v11'' AND a > 5', 's = repeat(''20'', 2000)'] LOOP
		EXECUTE 'SELECT count(*) FROM t WHERE ' || condition INTO n;
		by_index := condition;
		RETURN NEXT;
	END LOOP;
END $$;
CREATE FUNCTION pages() RETURNS TABLE (relation text, fork text, pages bigint) LANGUAGE sql AS $$
	SELECT c.relname, f, pg_relation_size(c.oid, f) / 8192 FROM pg_class c, unnest('{main, fsm, vm}'::text[]) f
	WHERE (c.oid = 't'::regclass OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 't'::regclass)) ORDER BY 1, 2 $$;
CREATE FUNCTION writes_wal(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, WAL) ' || query LOOP
		IF line ~ 'WAL:' THEN RETURN true; END IF;
	END LOOP;
	RETURN false;
END $$;
CREATE TEMP TABLE empty_pages AS SELECT * FROM pages();
CALL fill(6000);
DELETE FROM t WHERE a % 3 = 0;
VACUUM t;
SELECT * FROM found();
SELECT count(*) > 5 AS larger FROM pages() p JOIN empty_pages e USING (relation, fork) WHERE p.pages > e.pages;
SELECT pg_relation_size(reltoastrelid) > 0 AS toasted FROM pg_class WHERE oid = 't'::regclass;
SELECT relpages, reltuples, relfilenode, xmin FROM pg_class WHERE oid = 't'::regclass \gset
SELECT writes_wal('SELECT pg_truncate_temp_relation(''t'')'), pg_current_xact_id_if_assigned() IS NULL AS no_transaction_id;
SELECT writes_wal('INSERT INTO permanent VALUES (1)');
SELECT relpages = :relpages AND reltuples = :reltuples AND relfilenode = :relfilenode AND xmin = :'xmin' AS row_of_pg_class_stays FROM pg_class WHERE oid = 't'::regclass;
SELECT relation, fork, p.pages, e.pages FROM pages() p FULL JOIN empty_pages e USING (relation, fork) WHERE p.pages IS DISTINCT FROM e.pages;
SELECT pg_relation_size(reltoastrelid), pg_relation_size(reltoastrelid, 'fsm'), pg_relation_size(reltoastrelid, 'vm') FROM pg_class WHERE oid = 't'::regclass;
SELECT sum(n) FROM found();
SELECT count(*) FROM t;
SELECT bt_index_parent_check(indexrelid, true) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
	WHERE amname = 'btree' AND (indrelid = 't'::regclass OR indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass)) ORDER BY indexrelid;
-- again with rows, more and fewer; the sequence continues
CALL fill(9000);
SELECT * FROM found();
SELECT min(id), max(id), count(DISTINCT s) FROM t;
SELECT bt_index_parent_check(indexrelid, true) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
	WHERE amname = 'btree' AND (indrelid = 't'::regclass OR indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass)) ORDER BY indexrelid;
SELECT * FROM verify_heapam('t');
SELECT pg_truncate_temp_relation('t');
SELECT pg_truncate_temp_relation('t');
CALL fill(30);
SELECT * FROM found();
INSERT INTO t (a, place) VALUES (1, point(9, -9));
-- pages in the file and in buffers
SELECT pg_flush_local_buffers('t') > 0 AS flushed, pg_evict_temp_relation('t') > 0 AS evicted;
CALL fill(0);
SELECT pg_truncate_temp_relation('t');
CALL fill(3000);
SELECT * FROM found();
SELECT count(*) FROM pg_local_buffers WHERE relation = 't'::regclass AND fork = 'main' AND block >= pg_relation_size('t') / 8192;

-- prepared statements
SET plan_cache_mode = force_generic_plan;
PREPARE seen(int) AS SELECT count(*) FROM t WHERE id > $1 AND a > 5;
PREPARE put(int) AS INSERT INTO t (a, place) VALUES ($1, point($1, 3));
EXECUTE seen(0);
SELECT pg_truncate_temp_relation('t');
EXECUTE seen(0);
EXECUTE put(10);
EXECUTE seen(0);
DEALLOCATE ALL;
RESET plan_cache_mode;

-- in use: cursors, the query that calls it, a query around the function that calls it
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t;
SELECT pg_truncate_temp_relation('t');
ROLLBACK;
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t;
COMMIT;
SELECT pg_truncate_temp_relation('t');
FETCH c;
CLOSE c;
CALL fill(3);
SELECT pg_truncate_temp_relation('t') FROM t;
WITH w AS (DELETE FROM t RETURNING a) SELECT pg_truncate_temp_relation('t', true) FROM w;
SELECT count(*) FROM t;
BEGIN;
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION noted();
COMMIT;
BEGIN;
CALL fill(1);
SELECT pg_truncate_temp_relation('t', true);
ROLLBACK;
DROP TRIGGER later ON t;
CREATE TRIGGER truncated BEFORE TRUNCATE ON t EXECUTE FUNCTION noted();
SELECT pg_truncate_temp_relation('t');
DROP FUNCTION noted CASCADE;

-- transactions: one that has modified the table has to ask for it
SELECT pg_truncate_temp_relation('t');
CALL fill(30);
BEGIN;
SELECT pg_truncate_temp_relation('t');
ROLLBACK;
SELECT count(*) AS cannot_be_rolled_back FROM t;
BEGIN;
CALL fill(20);
SAVEPOINT s;
SELECT pg_truncate_temp_relation('t');
ROLLBACK TO s;
SELECT count(*) FROM t;
SELECT pg_truncate_temp_relation('t', force => true);
CALL fill(10);
SELECT count(*) FROM t;
ROLLBACK;
SELECT count(*) FROM t;
SELECT sum(n) FROM found();
BEGIN;
SAVEPOINT s;
CALL fill(20);
ROLLBACK TO s;
SELECT pg_truncate_temp_relation('t');
COMMIT;
CALL fill(5);
BEGIN;
ANALYZE t;
CREATE INDEX t_new ON t (a DESC);
SELECT pg_truncate_temp_relation('t');
ROLLBACK;
SELECT count(*) FROM t;
DO $$
BEGIN
	FOR i IN 1 .. 3 LOOP
		CALL fill(i * 300);
		RAISE NOTICE '%', (SELECT count(*) FROM t);
		PERFORM pg_truncate_temp_relation('t', true);
	END LOOP;
END $$;
-- what a rollback would bring back must not have entries for rows that are not there
CALL fill(40);
BEGIN;
DROP INDEX t_hash;
SELECT pg_truncate_temp_relation('t', true);
ROLLBACK;
BEGIN;
REINDEX INDEX t_gin;
SELECT pg_truncate_temp_relation('t', true);
ROLLBACK;
BEGIN;
REINDEX TABLE t;
SELECT pg_truncate_temp_relation('t', true);
ROLLBACK;
BEGIN;
ALTER TABLE t DROP CONSTRAINT t_pkey;
SAVEPOINT s;
SELECT pg_truncate_temp_relation('t', true);
ROLLBACK;
BEGIN;
SAVEPOINT s;
CLUSTER t USING t_pkey;
RELEASE s;
SAVEPOINT s;
SELECT pg_truncate_temp_relation('t', true);
ROLLBACK;
-- unless the table's file goes as well
BEGIN;
TRUNCATE t;
CALL fill(5);
SELECT pg_truncate_temp_relation('t');
CALL fill(6);
SELECT count(*) FROM t;
ROLLBACK;
SELECT * FROM found();
BEGIN;
CREATE TEMP TABLE made (id int PRIMARY KEY, s text) ON COMMIT DELETE ROWS;
INSERT INTO made SELECT i FROM generate_series(1, 100) i;
SELECT pg_truncate_temp_relation('made');
SAVEPOINT s;
INSERT INTO made SELECT i FROM generate_series(1, 10) i;
SELECT pg_truncate_temp_relation('made');
ROLLBACK TO s;
SELECT count(*) FROM made;
COMMIT;
BEGIN;
INSERT INTO made SELECT i FROM generate_series(1, 10) i;
SELECT pg_truncate_temp_relation('made', true);
INSERT INTO made SELECT i FROM generate_series(1, 20) i;
SELECT count(*) FROM made;
COMMIT;
SELECT count(*) FROM made;

-- and with it those of all indexes, which SET TABLESPACE leaves where they are
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_truncate_space LOCATION '';
BEGIN;
ALTER TABLE t SET TABLESPACE regress_truncate_space;
SELECT pg_truncate_temp_relation('t', true);
ROLLBACK;
SELECT * FROM found();
BEGIN;
CREATE TEMP TABLE moved (id int PRIMARY KEY);
INSERT INTO moved VALUES (1);
ALTER TABLE moved SET TABLESPACE regress_truncate_space;
SELECT pg_truncate_temp_relation('moved');
SELECT count(*) FROM moved;
ROLLBACK;
DROP TABLESPACE regress_truncate_space;

-- what it refuses
SELECT pg_truncate_temp_relation(0);
SELECT pg_truncate_temp_relation('permanent');
SELECT pg_truncate_temp_relation('t_gin');
SELECT pg_truncate_temp_relation(pg_get_serial_sequence('t', 'id')::regclass);
\set VERBOSITY sqlstate
SELECT pg_truncate_temp_relation(reltoastrelid) FROM pg_class WHERE oid = 't'::regclass;
\set VERBOSITY default
CREATE TEMP TABLE parted (a int) PARTITION BY LIST (a);
CREATE TEMP TABLE part PARTITION OF parted DEFAULT;
SELECT pg_truncate_temp_relation('parted');
INSERT INTO parted VALUES (1);
SELECT pg_truncate_temp_relation('part');
SELECT count(*) FROM parted;
CREATE TEMP TABLE referring (id int REFERENCES t);
SELECT pg_truncate_temp_relation('t');
DROP TABLE referring;
CREATE ROLE regress_truncates;
SET ROLE regress_truncates;
SELECT pg_truncate_temp_relation('t');
RESET ROLE;
GRANT TRUNCATE ON t TO regress_truncates;
SET ROLE regress_truncates;
SELECT pg_truncate_temp_relation('t');
RESET ROLE;
SELECT count(*) FROM t;
REVOKE TRUNCATE ON t FROM regress_truncates;
DROP ROLE regress_truncates;

-- gathered statistics follow; a plan that is kept is made again when the table is another one
SET parallel_temp.statistics = on;
CREATE TEMP TABLE few (id int);
INSERT INTO few SELECT 1 FROM generate_series(1, 40);
SELECT count(*) FROM few a JOIN few b USING (id) WHERE a.id = 1;
SELECT rows, most_common_vals FROM pg_temp_stats WHERE relation = 'few'::regclass;
SELECT pg_truncate_temp_relation('few');
INSERT INTO few SELECT 2 FROM generate_series(1, 40);
SELECT count(*) FROM few a JOIN few b USING (id) WHERE a.id = 1;
SELECT rows, most_common_vals FROM pg_temp_stats WHERE relation = 'few'::regclass;
RESET parallel_temp.statistics;

DROP TABLE t, made, permanent, parted, few, empty_pages;
DROP FUNCTION found, pages, writes_wal;
DROP PROCEDURE fill;
DROP EXTENSION amcheck;

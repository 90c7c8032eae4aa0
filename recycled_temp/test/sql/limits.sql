-- What the pool avoids, counted; its limits, and the functions that show and empty it.
CREATE EXTENSION recycled_temp;
CREATE FUNCTION pooled_tables() RETURNS bigint LANGUAGE sql AS $$SELECT count(*) FROM pg_class WHERE relname LIKE 'pg\_temp\_recycled\_%' AND relkind = 'r'$$;
-- off by default
SHOW recycled_temp.enabled;
CREATE TEMP TABLE t (a int, b text);
DROP TABLE t;
SELECT pooled_tables(), * FROM recycled_temp_status();
SET recycled_temp.enabled = on;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g;
DROP TABLE t;
SELECT relation::text = 'pg_temp_recycled_' || relation::oid AS name, dropped_at <= now() AS time, bytes FROM recycled_temp_tables;
SELECT * FROM pg_temp.t;

-- Row versions of catalogs that a hundred tables make in one transaction, and locks that
-- another hundred add: at most as many as there are kinds of objects.
CREATE FUNCTION written() RETURNS TABLE (catalog text, versions bigint) LANGUAGE sql AS $$
SELECT relname::text, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_sys_tables WHERE schemaname = 'pg_catalog' AND n_tup_ins + n_tup_upd + n_tup_del > 0
$$;
CREATE FUNCTION cycles(create_table text, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1 .. n LOOP
    EXECUTE create_table;
    DROP TABLE t;
  END LOOP;
END $$;
CREATE TABLE counted (what text, catalog text, n bigint);
CREATE PROCEDURE count_cycles(what text, create_table text) LANGUAGE plpgsql AS $$
DECLARE
  locks bigint;
BEGIN
  PERFORM cycles(create_table, 2);
  COMMIT;
  INSERT INTO counted SELECT what, w.catalog, -w.versions FROM written() w;
  PERFORM cycles(create_table, 100);
  INSERT INTO counted SELECT what, w.catalog, w.versions FROM written() w;
  SELECT count(*) INTO locks FROM pg_locks WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid';
  PERFORM cycles(create_table, 100);
  INSERT INTO counted SELECT what, 'locks', count(*) - locks FROM pg_locks WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid';
  COMMIT;
  PERFORM recycled_temp_empty();
  COMMIT;
END $$;
CALL count_cycles('text', 'CREATE TEMP TABLE t (a int, b text)');
CALL count_cycles('select', 'CREATE TEMP TABLE t AS SELECT 1 AS a, ''x''::text AS b');
CALL count_cycles('key', 'CREATE TEMP TABLE t (a int UNIQUE, b text)');
SELECT what, catalog, sum(n) FROM counted GROUP BY what, catalog HAVING sum(n) <> 0 ORDER BY what COLLATE "C", catalog COLLATE "C";

-- The least recently dropped table makes room.
SET recycled_temp.max_tables = 2;
CREATE TEMP TABLE a (a int);
CREATE TEMP TABLE b (a int, b int);
CREATE TEMP TABLE c (a int, b int, c int);
DROP TABLE a;
DROP TABLE b;
DROP TABLE c;
SELECT (SELECT relnatts FROM pg_class WHERE oid = relation) AS columns FROM recycled_temp_pool();
CREATE TEMP TABLE a (a int);
CREATE TEMP TABLE b (a int, b int);
CREATE TEMP TABLE c (a int, b int, c int);
DROP TABLE a, b, c;
SELECT count(*) FROM recycled_temp_pool();
SET recycled_temp.max_tables = 0;
CREATE TEMP TABLE a (a int);
DROP TABLE a;
SELECT count(*) FROM recycled_temp_pool();
RESET recycled_temp.max_tables;

-- A table that a rollback returns to the pool is known: it was dropped to make room for another
-- table, or used, or dropped by the function.
SET recycled_temp.max_tables = 1;
CREATE TEMP TABLE a (a int);
CREATE TEMP TABLE b (a int, b int);
DROP TABLE a;
BEGIN;
DROP TABLE b;
SELECT pooled_tables();
ROLLBACK;
SELECT pooled_tables(), (SELECT count(*) FROM recycled_temp_pool());
BEGIN;
CREATE TEMP TABLE a (a int);
SAVEPOINT s;
DROP TABLE b;
ROLLBACK;
SELECT pooled_tables(), (SELECT count(*) FROM recycled_temp_pool());
BEGIN;
SELECT recycled_temp_empty();
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT recycled_temp_empty();
ROLLBACK TO s;
COMMIT;
SELECT pooled_tables(), (SELECT count(*) FROM recycled_temp_pool());
SELECT reused AS before FROM recycled_temp_status() \gset
CREATE TEMP TABLE a (a int);
SELECT reused - :before AS reused FROM recycled_temp_status();
-- A table that is used does not take the place of one in the pool.
DROP TABLE b;
CREATE TEMP TABLE c (a int, b int, c int);
SELECT pooled_tables();
DROP TABLE a;
SELECT (SELECT relnatts FROM pg_class WHERE oid = relation) AS columns FROM recycled_temp_pool();
CREATE TEMP TABLE a (a int);
DROP TABLE c;
SELECT pooled_tables(), (SELECT count(*) FROM recycled_temp_pool());
SELECT recycled_temp_empty(), pooled_tables();
DROP TABLE a;
SELECT recycled_temp_empty(), pooled_tables();
RESET recycled_temp.max_tables;

-- Many tables at once, also in one statement.
CREATE TEMP TABLE a (a int);
CREATE TEMP TABLE b (a int);
DROP TABLE a, b;
SELECT recycled_temp_empty(), pooled_tables();
BEGIN;
CREATE TEMP TABLE a (a int);
DROP TABLE a;
SELECT recycled_temp_empty();
ROLLBACK;
SELECT pooled_tables();

-- Large parts are not kept.
SET recycled_temp.keep_size = '64kB';
CREATE TEMP TABLE a (a int PRIMARY KEY);
INSERT INTO a SELECT generate_series(1, 10000);
DROP TABLE a;
CREATE TEMP TABLE a (b text);
ALTER TABLE a ALTER b SET STORAGE external;
INSERT INTO a SELECT repeat('x', 100000);
ALTER TABLE a ALTER b SET STORAGE extended;
DROP TABLE a;
SELECT pooled_tables();
RESET recycled_temp.keep_size;

-- A DROP of several tables counts each.
SET recycled_temp.after_drops = 2;
CREATE TEMP TABLE a (first int);
CREATE TEMP TABLE b (second int);
CREATE TEMP TABLE c (second int);
DROP TABLE a, b, c;
SELECT pooled_tables();
CREATE TEMP TABLE a (first int);
CREATE TEMP TABLE b (second int);
DROP TABLE a, b;
SELECT pooled_tables();
SELECT recycled_temp_empty();

-- Only what is dropped again is kept.
SET recycled_temp.after_drops = 3;
CREATE TEMP TABLE a (often int);
DROP TABLE a;
CREATE TEMP TABLE a (often int);
DROP TABLE a;
SELECT pooled_tables();
CREATE TEMP TABLE a (often int);
DROP TABLE a;
SELECT pooled_tables();
RESET recycled_temp.after_drops;

-- A pooled table that a view refers to stays until the view is dropped.
\set ECHO none
\set VERBOSITY terse
SELECT format('CREATE VIEW v AS SELECT * FROM %s', relation) FROM recycled_temp_pool() \gexec
\set VERBOSITY default
\set ECHO all
SELECT recycled_temp_empty(), pooled_tables();
DROP VIEW v;
SELECT recycled_temp_empty(), pooled_tables();
DISCARD TEMP;
SELECT pooled_tables();

-- So does one that an extension has.
CREATE TEMP TABLE a (a int);
DROP TABLE a;
\set ECHO none
SELECT format('ALTER EXTENSION recycled_temp ADD TABLE %s', relation) FROM recycled_temp_pool() \gexec
\set ECHO all
CREATE TEMP TABLE a (a int);
SELECT recycled_temp_empty(), pooled_tables();
\set ECHO none
SELECT format('ALTER EXTENSION recycled_temp DROP TABLE %s', relation) FROM recycled_temp_pool() \gexec
\set ECHO all
SELECT recycled_temp_empty(), pooled_tables();
DROP TABLE a;
SELECT recycled_temp_empty();
-- An unusual type is the server's.
CREATE TYPE mood AS ENUM ('good');
CREATE TEMP TABLE a (m mood);
DROP TABLE a;
DROP TYPE mood;
SELECT pooled_tables();

-- A table is used again in its tablespace only, where it is in the way of DROP TABLESPACE.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_recycled_space LOCATION '';
SET temp_tablespaces = regress_recycled_space;
CREATE TEMP TABLE a (a int, b text);
DROP TABLE a;
CREATE TEMP TABLE a (a int, b text);
SELECT c.reltablespace = s.oid AS table_there, t.reltablespace = s.oid AS toast_there, pooled_tables()
FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid, pg_tablespace s WHERE c.oid = 'a'::regclass AND s.spcname = 'regress_recycled_space';
DROP TABLE a;
RESET temp_tablespaces;
CREATE TEMP TABLE a (a int, b text);
SELECT reltablespace, pooled_tables() FROM pg_class WHERE oid = 'a'::regclass;
DROP TABLE a;
SELECT pooled_tables();
DROP TABLESPACE regress_recycled_space;
SELECT recycled_temp_empty();
DROP TABLESPACE regress_recycled_space;

-- The privilege to create tables in a tablespace is checked for each table, although a
-- transaction chooses the tablespace only once.
SELECT recycled_temp_empty();
CREATE TABLESPACE regress_recycled_space LOCATION '';
CREATE ROLE regress_recycled;
GRANT CREATE ON TABLESPACE regress_recycled_space TO regress_recycled;
SET temp_tablespaces = regress_recycled_space;
SET ROLE regress_recycled;
CREATE TEMP TABLE a (a int);
DROP TABLE a;
RESET ROLE;
REVOKE CREATE ON TABLESPACE regress_recycled_space FROM regress_recycled;
BEGIN;
CREATE TEMP TABLE b (a int, b int);
SET LOCAL ROLE regress_recycled;
CREATE TEMP TABLE a (a int);
ROLLBACK;
BEGIN;
CREATE TEMP TABLE b (a int, b int);
SET LOCAL ROLE regress_recycled;
CREATE TEMP TABLE a AS SELECT 1 AS a;
ROLLBACK;
GRANT CREATE ON TABLESPACE regress_recycled_space TO regress_recycled;
SET ROLE regress_recycled;
SELECT reused AS before FROM recycled_temp_status() \gset
CREATE TEMP TABLE a (a int);
SELECT reused - :before AS reused FROM recycled_temp_status();
DROP TABLE a;
RESET ROLE;
RESET temp_tablespaces;
SELECT recycled_temp_empty();
DROP TABLESPACE regress_recycled_space;
DROP ROLE regress_recycled;

-- In another tablespace a pooled table is another one.
SELECT recycled_temp_empty();
CREATE TABLESPACE regress_recycled_space LOCATION '';
CREATE TEMP TABLE a (a int, b text);
DROP TABLE a;
\set ECHO none
SELECT format('ALTER TABLE %s SET TABLESPACE regress_recycled_space', relation) FROM recycled_temp_pool() \gexec
\set ECHO all
CREATE TEMP TABLE a (a int, b text);
SELECT c.reltablespace, t.reltablespace FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = 'a'::regclass;
DROP TABLE a;
SELECT recycled_temp_empty();
DROP TABLESPACE regress_recycled_space;

-- A pooled table that the session uses by its name is left alone.
CREATE TEMP TABLE a (a int, b text);
DROP TABLE a;
\set ECHO none
SELECT format('INSERT INTO %s SELECT g, ''x'' FROM generate_series(1, 500) g', relation) FROM recycled_temp_pool() \gexec
SELECT relation::oid AS pooled FROM recycled_temp_pool() \gset
SELECT format('CREATE TEMP TABLE a AS SELECT * FROM %s', relation) FROM recycled_temp_pool() \gexec
\set ECHO all
SELECT count(*), 'a'::regclass::oid = :pooled AS reused FROM a;
BEGIN;
\set ECHO none
SELECT format('DECLARE c CURSOR FOR SELECT a FROM %s', relation) FROM recycled_temp_pool() \gexec
\set ECHO all
FETCH c;
CREATE TEMP TABLE b (a int, b text);
SELECT 'b'::regclass::oid = :pooled AS reused;
FETCH c;
SELECT recycled_temp_empty();
SET LOCAL recycled_temp.max_tables = 1;
DROP TABLE b;
MOVE ALL c;
COMMIT;
SELECT recycled_temp_empty(), pooled_tables();
DROP TABLE a;

-- The last statement of several in one message is not lost at the commit.
CREATE TEMP TABLE a (a int);
INSERT INTO a SELECT generate_series(1, 10);
\set ECHO none
SELECT format('DROP TABLE a; ALTER TABLE pg_temp.pg_temp_recycled_%s RENAME TO mine', 'a'::regclass::oid) \gexec
\set ECHO all
SELECT count(*) FROM mine;
BEGIN;
CREATE TEMP TABLE a (a int) ON COMMIT DROP;
SELECT 'DROP TABLE a; CREATE TEMP TABLE a (a int); INSERT INTO a VALUES (1); COMMIT' \gexec
SELECT * FROM a;
DROP TABLE a, mine;
SELECT recycled_temp_empty();
-- Rows that are written into a pooled table remain in its file if the DROP is rolled back,
-- as rolled back rows of any table do.
CREATE TEMP TABLE a (a int, b int);
CREATE TEMP TABLE b (a int, b int);
SELECT 'pg_temp.pg_temp_recycled_' || 'a'::regclass::oid AS pooled \gset
BEGIN;
SAVEPOINT s;
DROP TABLE a;
\set ECHO none
INSERT INTO :pooled SELECT g, g FROM generate_series(1, 1000) g;
\set ECHO all
ROLLBACK TO s;
INSERT INTO b SELECT g, g FROM generate_series(1, 1000) g;
ROLLBACK TO s;
COMMIT;
ANALYZE a, b;
SELECT relname, relpages, reltuples FROM pg_class WHERE oid IN ('a'::regclass, 'b'::regclass) ORDER BY 1;
SELECT count(*) FROM a;
DROP TABLE a, b;
SELECT recycled_temp_empty();
-- A rolled back CREATE leaves no rows in the files of the table that it has reused: neither in
-- the table, nor in TOAST, nor in an index.  Both indexes have a page.
CREATE FUNCTION pooled_pages() RETURNS bigint LANGUAGE sql AS $$
SELECT sum(pg_total_relation_size(oid))::bigint / current_setting('block_size')::int FROM pg_class WHERE relname LIKE 'pg\_temp\_recycled\_%' AND relkind = 'r'
$$;
CREATE FUNCTION long(g int) RETURNS text LANGUAGE sql AS $$SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 200) i$$;
CREATE TEMP TABLE a (a int PRIMARY KEY, b text);
SELECT 'pg_temp.pg_temp_recycled_' || 'a'::regclass::oid AS pooled \gset
DROP TABLE a;
SELECT pooled_pages();
BEGIN;
CREATE TEMP TABLE a (a int PRIMARY KEY, b text);
INSERT INTO a SELECT g, long(g) FROM generate_series(1, 500) g;
SELECT pooled_tables(), (SELECT sum(length(b)) FROM a);
ROLLBACK;
SELECT pooled_pages();
BEGIN;
SAVEPOINT s;
CREATE TEMP TABLE a (a int PRIMARY KEY, b text);
INSERT INTO a SELECT g, long(g) FROM generate_series(1, 500) g;
SAVEPOINT t;
INSERT INTO a SELECT g, long(g) FROM generate_series(501, 600) g;
RELEASE t;
ROLLBACK TO s;
SELECT pooled_pages();
CREATE TEMP TABLE a (a int PRIMARY KEY, b text);
INSERT INTO a SELECT g, long(g) FROM generate_series(1, 100) g;
SAVEPOINT u;
DELETE FROM a;
ROLLBACK TO u;
COMMIT;
SET enable_seqscan = off;
SELECT sum(length(b)), (SELECT length(b) FROM a WHERE a = 90) FROM a;
DROP TABLE a;
BEGIN;
SAVEPOINT s;
CREATE TEMP TABLE a (a int PRIMARY KEY, b text);
INSERT INTO a SELECT g, long(g) FROM generate_series(1, 500) g;
RELEASE s;
SAVEPOINT t;
INSERT INTO a SELECT g, long(g) FROM generate_series(501, 600) g;
ROLLBACK TO t;
SELECT sum(length(b)), (SELECT length(b) FROM a WHERE a = 400) FROM a;
ROLLBACK;
SELECT pooled_pages();
DO $$
BEGIN
  CREATE TEMP TABLE a (a int PRIMARY KEY, b text);
  INSERT INTO a SELECT g, long(1 / (500 - g)) FROM generate_series(1, 500) g;
EXCEPTION WHEN division_by_zero THEN
  RAISE NOTICE 'caught';
END $$;
SELECT pooled_pages();
-- The pooled table can be used by its name.
\set ECHO none
INSERT INTO :pooled SELECT g, long(g) FROM generate_series(1, 100) g;
SELECT sum(length(b)) FROM :pooled WHERE a > 50;
\set ECHO all
SELECT recycled_temp_empty();
RESET enable_seqscan;
-- The page is still pinned when the statement fails.
CREATE TEMP TABLE a (a int, b int);
SELECT 'pg_temp.pg_temp_recycled_' || 'a'::regclass::oid AS pooled \gset
DROP TABLE a;
CREATE TEMP TABLE a AS SELECT g AS a, 1 / (2000 - g) AS b FROM generate_series(1, 2000) g;
SELECT pooled_pages();
-- Rows that a pooled table got by its name are not in the table that is created of it.
\set ECHO none
INSERT INTO :pooled VALUES (1, 1);
\set ECHO all
CREATE TEMP TABLE a (a int, b int);
SELECT count(*) FROM a;
DROP TABLE a;
-- The table was not in the pool, and gets its rows back, in its old file.
CREATE TEMP TABLE a (a int, b text);
INSERT INTO a VALUES (1, 'short');
BEGIN;
DROP TABLE a;
CREATE TEMP TABLE a (a int, b text);
INSERT INTO a SELECT g, long(g) FROM generate_series(1, 500) g;
ROLLBACK;
SELECT pg_table_size('a') / current_setting('block_size')::int AS pages, a.* FROM a;
INSERT INTO a SELECT g, long(g) FROM generate_series(1, 500) g;
SELECT sum(length(b)) FROM a;
DROP TABLE a;
SELECT recycled_temp_empty();
DROP FUNCTION pooled_pages, long;
-- A table is dropped by the server if another one has the name that it would get, or that its index would get.
CREATE TEMP TABLE a (a int);
CREATE TEMP TABLE b (a int, b int PRIMARY KEY);
\set ECHO none
SELECT format('CREATE TEMP TABLE pg_temp_recycled_%s (a int)', oid::oid) FROM unnest(ARRAY['a', 'b_pkey']::regclass[]) oid \gexec
\set ECHO all
DROP TABLE a;
DROP TABLE b;
SELECT recycled_temp_empty();
SELECT count(*) AS dropped FROM (SELECT to_regclass('a'), to_regclass('b')) names (a, b) WHERE a IS NULL AND b IS NULL;
DISCARD TEMP;
-- In a read-only transaction nothing is emptied.
BEGIN READ ONLY;
SELECT recycled_temp_empty();
ROLLBACK;

DROP TABLE counted;
DROP EXTENSION recycled_temp;

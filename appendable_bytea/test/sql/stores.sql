-- Chunk stores follow TOAST's rules.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
-- chunks of a known size
SET appendable_bytea.compress_new = off;
CREATE SCHEMA st;
SET search_path = st, public;
CREATE FUNCTION bytes(n int, c text) RETURNS bytea LANGUAGE sql AS $$ SELECT convert_to(repeat(c, n), 'UTF8') $$;
CREATE VIEW shown AS SELECT t.relname AS "table", s.relname = 'chunks_' || t.oid AS by_name, s.relpersistence AS persistence, s.reloptions AS options,
	(SELECT bool_and(coalesce(attstattarget, -1) = 0) FROM pg_attribute WHERE attrelid = s.oid AND attnum > 0) AS not_analyzed
	FROM pg_class t JOIN pg_class s ON s.relname = 'chunks_' || t.oid AND s.relnamespace = 'appendable_store'::regnamespace
	WHERE t.relnamespace = 'st'::regnamespace ORDER BY 1;
-- a store has its table's settings of vacuum, from the beginning and later, and is marked always
CREATE TABLE a (id int PRIMARY KEY, data appendable_bytea) WITH (autovacuum_enabled = off, fillfactor = 80);
CREATE UNLOGGED TABLE b (id int PRIMARY KEY, data appendable_bytea);
SELECT * FROM shown;
ALTER TABLE a SET (autovacuum_vacuum_scale_factor = 0.01, vacuum_truncate = off), RESET (autovacuum_enabled);
ALTER TABLE b SET LOGGED;
SELECT * FROM shown;
ALTER TABLE a SET UNLOGGED, RESET (autovacuum_vacuum_scale_factor, vacuum_truncate);
BEGIN;
ALTER TABLE b SET (log_autovacuum_min_duration = 7);
ROLLBACK;
SELECT * FROM shown;
ALTER TABLE a SET LOGGED;
INSERT INTO a VALUES (1, bytes(30000, 'a')), (2, bytes(30000, 'b'));
SELECT length(data) FROM a ORDER BY id;
SELECT count(*) FROM appendable_bytea_check();
-- the owner of a table vacuums its store, and needs no privilege on that
CREATE ROLE ab_vacuums;
ALTER TABLE a OWNER TO ab_vacuums;
GRANT USAGE ON SCHEMA st TO ab_vacuums;
DELETE FROM a WHERE id = 2;
SET ROLE ab_vacuums;
VACUUM (PROCESS_TOAST off) a;
SELECT pg_relation_size(store) AS bytes FROM appendable_bytea_stats('a') \gset
VACUUM (INDEX_CLEANUP on) a;
SELECT pg_relation_size(store) < :bytes AS shorter FROM appendable_bytea_stats('a');
RESET ROLE;
ALTER TABLE a OWNER TO CURRENT_USER;
DROP OWNED BY ab_vacuums;
DROP ROLE ab_vacuums;
-- ANALYZE looks at no more of it than it must
INSERT INTO a SELECT n, bytes(3000, 'c') FROM generate_series(10, 500) n;
SELECT format('ANALYZE %s', store) AS analyze FROM appendable_bytea_stats('a') \gset
:analyze;
SELECT count(*) FROM pg_stats WHERE schemaname = 'appendable_store';
-- no column of the type, no store
ALTER TABLE b ADD COLUMN more appendable_text, ADD COLUMN n int;
ALTER TABLE b DROP COLUMN data;
SELECT "table" FROM shown;
BEGIN;
ALTER TABLE b DROP COLUMN more;
SELECT "table" FROM shown;
ROLLBACK;
SELECT "table" FROM shown;
ALTER TABLE b ALTER more TYPE text, ALTER n TYPE int8;
ALTER TABLE a ALTER data TYPE bytea USING data || '\x00', ADD COLUMN r float DEFAULT random();
SELECT "table" FROM shown;
SELECT id, length(data), get_byte(data, 29999) FROM a WHERE id = 1;
-- and one again
ALTER TABLE a ALTER data TYPE appendable_bytea;
UPDATE a SET data = data || '\x01' WHERE id = 1;
SELECT id, length(data), get_byte(data, 30001) FROM a WHERE id = 1;
SELECT "table" FROM shown;
-- a store is dropped with its table, however that is done
CREATE SCHEMA st2;
CREATE TABLE st2.c (data appendable_bytea);
CREATE TABLE st2.root (k int, data appendable_bytea) PARTITION BY RANGE (k);
CREATE TABLE st2.leaf PARTITION OF st2.root FOR VALUES FROM (0) TO (10);
DROP SCHEMA st2 CASCADE;
CREATE TABLE d AS SELECT * FROM a;
BEGIN;
DROP TABLE d;
ROLLBACK;
SELECT "table" FROM shown;
DO $$ BEGIN DROP TABLE d; END $$;
SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r';
-- a rewrite copies the values of columns that it computes, and no others
CREATE FUNCTION unowned(t regclass) RETURNS SETOF text LANGUAGE sql AS $$ SELECT problem FROM appendable_bytea_check(t) $$;
CREATE TABLE w (id int, data appendable_bytea, other appendable_bytea);
INSERT INTO w SELECT n, bytes(9000, 'w'), bytes(9000, 'x') FROM generate_series(1, 3) n;
ALTER TABLE w ALTER data SET STATISTICS 10, ADD COLUMN y float DEFAULT random();
SELECT unowned('w');
ALTER TABLE w ALTER data SET NOT NULL, ALTER id TYPE bigint;
SELECT unowned('w');
BEGIN;
ALTER TABLE w ALTER data DROP NOT NULL;
ALTER TABLE w RENAME data TO renamed;
ALTER TABLE w ALTER id TYPE int;
ALTER TABLE w RENAME renamed TO data;
COMMIT;
SELECT unowned('w');
DO $$ BEGIN
	ALTER TABLE w ALTER data SET STORAGE main, ALTER id TYPE bigint;
	ALTER TABLE w ALTER data SET STATISTICS -1;
	ALTER TABLE w ALTER id TYPE int;
END $$;
SELECT unowned('w');
-- computed, with the type that it has: each is copied
ALTER TABLE w ALTER data TYPE appendable_bytea USING other, ALTER other TYPE appendable_bytea USING data;
UPDATE w SET data = data || '\x01', other = other || '\x02';
SELECT id, length(data), get_byte(data, 0), get_byte(other, 0), get_byte(data, 9000), get_byte(other, 9000) FROM w;
SELECT regexp_replace(unowned('w'), '[0-9]+', 'N');
SELECT chunks_removed > 0 AS removed FROM appendable_bytea_repair('w');
SELECT unowned('w');
-- what pg_upgrade does not bring along
UPDATE pg_class SET relrewrite = 0 WHERE oid = (SELECT store FROM appendable_bytea_stats('w'));
DELETE FROM pg_depend WHERE objid = 'w'::regclass AND refclassid = 'pg_extension'::regclass;
SELECT chunks_removed FROM appendable_bytea_repair('w', 0);
SELECT relrewrite = 'w'::regclass AS marked, (SELECT count(*) FROM pg_depend WHERE objid = 'w'::regclass AND refclassid = 'pg_extension'::regclass) AS dependencies
	FROM pg_class WHERE oid = (SELECT store FROM appendable_bytea_stats('w'));
-- locks on tables that are checked one by one are released
BEGIN;
SELECT count(*) FROM appendable_bytea_check();
SELECT count(*) >= 2 AS some FROM appendable_bytea_stats();
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN
	(SELECT oid FROM pg_class WHERE relnamespace IN ('st'::regnamespace, 'appendable_store'::regnamespace));
COMMIT;
SET client_min_messages = warning;
DROP SCHEMA st CASCADE;
SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace;

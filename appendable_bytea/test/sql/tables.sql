-- Tables with columns of the type under what else a table can be part of.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE SCHEMA tb;
SET search_path = tb, public;
CREATE FUNCTION bytes(n int, c text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT convert_to(repeat(c, n), 'UTF8') $$;

-- COPY FREEZE; what a savepoint undoes afterwards
BEGIN;
CREATE TABLE fr (id int, data appendable_bytea);
COPY fr FROM STDIN (FREEZE);
1	\\x0102
\.
UPDATE fr SET data = data || bytes(20000, 'g');
COMMIT;
SELECT id, length(data), substr(data, 3) = bytes(20000, 'g') AS same FROM fr;
BEGIN;
TRUNCATE fr;
\copy fr FROM PROGRAM 'printf "1,\134x%040000d\n" 0' WITH (FORMAT csv, FREEZE)
SAVEPOINT s;
UPDATE fr SET data = data || bytes(9000, 'h');
ROLLBACK TO s;
COMMIT;
SELECT id, length(data), data = decode(repeat('00', 20000), 'hex') AS same FROM fr;

-- values in TOAST: inline values of a wide row, with and without compression
CREATE TABLE wide (id int, a appendable_bytea, b appendable_bytea, c appendable_bytea, d appendable_bytea, e appendable_bytea, f appendable_bytea, t text);
INSERT INTO wide SELECT 1, x, x, x, x, x, x, repeat('t', 3000) FROM bytes(1800, 'x') x;
INSERT INTO wide SELECT 2, x, x, x, x, x, x, repeat('t', 3000) FROM (SELECT string_agg(decode(md5(i::text), 'hex'), '') x FROM generate_series(1, 110) i) y;
SELECT id, pg_column_size(a) < 100 AS compressed, length(a), a = f AS same FROM wide ORDER BY id;
SELECT pg_relation_size(reltoastrelid) > 0 AS toasted FROM pg_class WHERE oid = 'wide'::regclass;
UPDATE wide SET a = a || '\x01'::bytea, f = f || bytes(400, 'z');
UPDATE wide SET b = appendable_write(b, '\xaa', 100, 1), c = appendable_truncate(c, 5);
ALTER TABLE wide ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE PLAIN, ALTER d SET STORAGE EXTENDED, ALTER e SET COMPRESSION pglz;
UPDATE wide SET a = a || '\x02'::bytea, d = d || '\x02'::bytea, e = e || '\x03'::bytea;
VACUUM FULL wide;
SELECT id, length(a), length(b), length(c), length(d), length(e), length(f), substr(a, length(a) - 1) AS a, substr(e, length(e)) AS e, get_byte(b, 100) FROM wide ORDER BY id;

-- ANALYZE reads no values: they could be gone
CREATE TABLE an (id int, data appendable_bytea);
INSERT INTO an SELECT i, bytes(i * 4000, 'a') FROM generate_series(1, 50) i;
INSERT INTO an VALUES (51, NULL);
CREATE INDEX an_hash ON an USING hash (data);
BEGIN;
DO $$ BEGIN EXECUTE format('DELETE FROM appendable_store.chunks_%s', 'an'::regclass::oid); END $$;
ANALYZE an;
SELECT attname, null_frac > 0 AS nulls, avg_width < 100 AS narrow, most_common_vals IS NULL AND histogram_bounds IS NULL AS no_values FROM pg_stats WHERE tablename = 'an' AND attname = 'data';
ROLLBACK;
SELECT count(*) FROM appendable_bytea_check('an');

-- partial indexes, exclusion constraints, unique digests
CREATE INDEX an_long ON an (id) WHERE length(data) > 100000;
UPDATE an SET data = appendable_truncate(data, 10) WHERE id BETWEEN 30 AND 39;
UPDATE an SET data = data || bytes(100000, 'l') WHERE id = 1;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM an WHERE length(data) > 100000;
SELECT count(*) FROM an WHERE length(data) > 100000;
SELECT id FROM an WHERE data = bytes(8000, 'a');
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE TABLE ex (data appendable_bytea, EXCLUDE USING hash (data WITH =));
INSERT INTO ex VALUES (bytes(9000, 'e')), (bytes(9001, 'e'));
INSERT INTO ex VALUES (bytes(9000, 'e')) ON CONFLICT DO NOTHING;
DO $$ BEGIN INSERT INTO ex VALUES (bytes(9000, 'e')); EXCEPTION WHEN exclusion_violation THEN RAISE WARNING '%', SQLERRM; END $$;
CREATE TABLE un (data appendable_bytea);
CREATE UNIQUE INDEX ON un (sha256(data));
INSERT INTO un VALUES (bytes(9000, 'u'));
INSERT INTO un VALUES (bytes(9000, 'u')) ON CONFLICT (sha256(data)) DO UPDATE SET data = un.data || '\x01'::bytea RETURNING length(data);

-- tables that prepared transactions make, empty and drop
BEGIN;
CREATE TABLE pt (id int, data appendable_bytea);
INSERT INTO pt VALUES (1, bytes(9000, 'p'));
PREPARE TRANSACTION 'appendable 1';
COMMIT PREPARED 'appendable 1';
UPDATE pt SET data = data || bytes(9000, 'p');
BEGIN;
TRUNCATE pt;
INSERT INTO pt VALUES (2, bytes(9000, 'q'));
PREPARE TRANSACTION 'appendable 2';
ROLLBACK PREPARED 'appendable 2';
BEGIN;
DROP TABLE pt;
PREPARE TRANSACTION 'appendable 3';
ROLLBACK PREPARED 'appendable 3';
SELECT id, length(data), data = bytes(18000, 'p') AS same FROM pt;
BEGIN;
DROP TABLE pt;
PREPARE TRANSACTION 'appendable 4';
COMMIT PREPARED 'appendable 4';

-- triggers that fire always, for replicas, or never
CREATE TABLE tr (id int, data appendable_bytea, n int DEFAULT 0);
CREATE FUNCTION grow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.data := NEW.data || bytes(3000, TG_ARGV[0]);
	NEW.n := NEW.n + 1;
	RETURN NEW;
END $$;
CREATE TRIGGER a_always BEFORE INSERT OR UPDATE ON tr FOR EACH ROW EXECUTE FUNCTION grow('a');
CREATE TRIGGER b_replica BEFORE INSERT OR UPDATE ON tr FOR EACH ROW EXECUTE FUNCTION grow('b');
CREATE TRIGGER c_origin BEFORE INSERT OR UPDATE ON tr FOR EACH ROW EXECUTE FUNCTION grow('c');
ALTER TABLE tr ENABLE ALWAYS TRIGGER a_always;
ALTER TABLE tr ENABLE REPLICA TRIGGER b_replica;
INSERT INTO tr VALUES (1, '');
SET session_replication_role = replica;
UPDATE tr SET data = data || bytes(1000, '-');
CREATE TABLE made_by_replica (id int, data appendable_bytea);
INSERT INTO made_by_replica SELECT id, data FROM tr;
ALTER TABLE tr DISABLE TRIGGER ALL;
UPDATE tr SET data = data || bytes(1000, '-');
RESET session_replication_role;
DELETE FROM tr RETURNING n, data = bytes(3000, 'a') || bytes(3000, 'c') || bytes(1000, '-') || bytes(3000, 'a') || bytes(3000, 'b') || bytes(1000, '-') AS same;
SELECT store AS "STORE" FROM appendable_bytea_stats('tr') \gset
SELECT count(*) FROM :STORE;
VACUUM :STORE;
SELECT length(data), md5(data) = md5(data::bytea) AS readable FROM made_by_replica;
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'made_by_replica'::regclass;
DROP TABLE tr, made_by_replica;

-- our event trigger only loads the library: without it the hooks do the same
UPDATE pg_event_trigger SET evtenabled = 'D' WHERE evtname ~ '^appendable_bytea_';
CREATE TABLE eo (id int, data appendable_bytea);
INSERT INTO eo VALUES (1, bytes(9000, 'o'));
ALTER TABLE eo SET UNLOGGED;
UPDATE eo SET data = data || bytes(9000, 'o');
ALTER TABLE eo SET LOGGED;
UPDATE eo SET data = data || bytes(9000, 'o');
SELECT relpersistence FROM pg_class WHERE oid IN ('eo'::regclass, (SELECT store FROM appendable_bytea_stats('eo')));
BEGIN;
SAVEPOINT s;
ALTER TABLE eo SET UNLOGGED;
ROLLBACK TO s;
COMMIT;
SELECT relpersistence FROM pg_class WHERE oid IN ('eo'::regclass, (SELECT store FROM appendable_bytea_stats('eo')));
SELECT length(data), data = bytes(27000, 'o') AS same FROM eo;
DROP TABLE eo;
UPDATE pg_event_trigger SET evtenabled = 'A' WHERE evtname ~ '^appendable_bytea_';
SELECT count(*) FROM pg_class c WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r' AND NOT EXISTS (SELECT FROM pg_class t WHERE 'chunks_' || t.oid = c.relname);

-- tablespaces
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_appendable LOCATION '';
CREATE TABLE ts (id int, data appendable_bytea);
INSERT INTO ts VALUES (1, bytes(9000, 't'));
ALTER TABLE ts SET TABLESPACE regress_appendable;
UPDATE ts SET data = data || bytes(9000, 't');
SELECT c.relkind, s.spcname FROM pg_class c LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
	WHERE c.relname IN ('ts', 'chunks_' || 'ts'::regclass::oid, 'chunks_' || 'ts'::regclass::oid || '_index') ORDER BY 1, 2;
CREATE TABLE ts2 (data appendable_bytea) TABLESPACE regress_appendable;
ALTER TABLE ALL IN TABLESPACE regress_appendable SET TABLESPACE pg_default;
SELECT length(data), data = bytes(18000, 't') AS same FROM ts;
SELECT count(*) FROM pg_class WHERE reltablespace <> 0 AND relnamespace IN ('tb'::regnamespace, 'appendable_store'::regnamespace);
DROP TABLESPACE regress_appendable;

-- access methods other than heap
CREATE ACCESS METHOD other_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE other (id int, data appendable_bytea) USING other_heap;
CREATE TABLE other (id int) USING other_heap;
ALTER TABLE other ADD COLUMN data appendable_bytea;
SET default_table_access_method = other_heap;
CREATE TABLE other2 AS SELECT * FROM an;
RESET default_table_access_method;
ALTER TABLE an SET ACCESS METHOD other_heap;
SELECT count(*) FROM an;
DROP TABLE other;
DROP ACCESS METHOD other_heap;

SELECT * FROM appendable_bytea_check();
DROP SCHEMA tb CASCADE;
SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace;

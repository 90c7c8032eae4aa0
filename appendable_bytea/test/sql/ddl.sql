-- Every way to get a column of the type puts its table on the access method.
SET client_min_messages = warning;
-- chunks are counted as they are without differences
SET appendable_bytea.store_differences = off;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE SCHEMA d;
SET search_path = d, public;
CREATE VIEW methods AS
	SELECT c.relname, c.relkind, a.amname,
		(SELECT count(*) FROM pg_class s WHERE s.relname = 'chunks_' || c.oid) AS stores
	FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam AND c.relkind = 'r'
	WHERE relnamespace = 'd'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1;
CREATE FUNCTION bytes(n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT string_agg(decode(md5(i::text), 'hex'), '') FROM generate_series(1, n / 16) i $$;

CREATE TABLE a (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO a SELECT i, bytes(6400 * i) FROM generate_series(1, 3) i;
CREATE TABLE liked (LIKE a INCLUDING ALL);
CREATE TABLE inherited (x int) INHERITS (a);
CREATE TABLE ctas AS SELECT * FROM a;
SELECT id, data INTO selected FROM a;
SET appendable_bytea.client_type = own;
PREPARE q AS SELECT * FROM a;
RESET appendable_bytea.client_type;
CREATE TABLE executed AS EXECUTE q;
CREATE TABLE parent (id int, data appendable_bytea) PARTITION BY LIST (id);
CREATE TABLE part1 PARTITION OF parent FOR VALUES IN (1);
CREATE TABLE part2 (id int, data appendable_bytea);
ALTER TABLE parent ATTACH PARTITION part2 FOR VALUES IN (2);
INSERT INTO parent SELECT * FROM a WHERE id < 3;
UPDATE parent SET id = 3 - id WHERE id = 1;
SELECT p.tableoid::regclass, p.id, length(p.data), p.data = a.data AS same
	FROM parent p JOIN a ON length(a.data) = length(p.data) ORDER BY 3;
ALTER TABLE parent DETACH PARTITION part2;
CREATE TABLE was_bytea (id int, data bytea);
INSERT INTO was_bytea SELECT * FROM a;
ALTER TABLE was_bytea ALTER data TYPE appendable_bytea;
CREATE TABLE added (id int);
INSERT INTO added VALUES (1);
ALTER TABLE added ADD COLUMN data appendable_bytea;
ALTER TABLE added ADD COLUMN d2 appendable_bytea DEFAULT '\x0102';
SELECT * FROM added;
CREATE TABLE without_type (id int, data bytea) USING appendable_heap;
INSERT INTO without_type VALUES (1, '\x00');
CREATE TABLE plain (id int, data bytea);
CREATE TYPE row_type AS (id int);
SELECT * FROM methods;
-- spilled at once, so that the first append is cheap
SELECT w.id, w.data = a.data AS same FROM was_bytea w JOIN a USING (id) ORDER BY 1;
SELECT values_in_chunks FROM appendable_bytea_stats('was_bytea');
SELECT count(*) FROM appendable_bytea_check();

-- Where references could hide: refused.
CREATE TABLE r (x appendable_bytea[]);
CREATE TYPE r AS (x appendable_bytea);
ALTER TYPE row_type ADD ATTRIBUTE x appendable_bytea;
CREATE DOMAIN r AS appendable_bytea;
CREATE MATERIALIZED VIEW r AS SELECT * FROM a;
CREATE TABLE r (x a);
CREATE TABLE r (x a[]);
CREATE TYPE rng AS RANGE (subtype = appendable_bytea);
CREATE TABLE r (x rng);
CREATE TABLE r (x appendable_bytea UNIQUE);
CREATE INDEX ON a (data);
CREATE INDEX ON a (id) INCLUDE (data);
CREATE INDEX ON a ((data || '\x00'::bytea));
CREATE INDEX ON a USING hash ((ARRAY[data]));
CREATE STATISTICS r ON id, data FROM a;
CREATE STATISTICS r ON id, (data || '\x00'::bytea) FROM a;
CREATE STATISTICS r ON id, (ARRAY[data]) FROM a;
DO $$ BEGIN CREATE STATISTICS r ON id, (ROW(id, data)) FROM a; EXCEPTION WHEN OTHERS THEN RAISE WARNING 'statistics on records are refused'; END $$;
CREATE TABLE small (id int);
CREATE TABLE holder (s small);
ALTER TABLE small ADD COLUMN data appendable_bytea;
CREATE VIEW hiding AS SELECT 1 AS id;
CREATE TABLE holder2 (x hiding[]);
CREATE OR REPLACE VIEW hiding AS SELECT id, data FROM a;
CREATE OR REPLACE VIEW hiding AS SELECT id, ARRAY[data] FROM a;
DROP TABLE holder2;
CREATE OR REPLACE VIEW hiding AS SELECT id, data FROM a;
CREATE TABLE holder2 (x hiding);
DROP VIEW hiding;
CREATE TABLE r (data appendable_bytea) PARTITION BY LIST (data);
CREATE TABLE r (data appendable_bytea) PARTITION BY RANGE (data);
CREATE TABLE r (id int, data appendable_bytea) PARTITION BY RANGE (id, (data || '\x00'::bytea));
CREATE TABLE r (id int, data appendable_bytea) PARTITION BY LIST ((ARRAY[data]));
CREATE TABLE hashed (data appendable_bytea) PARTITION BY HASH (data);
CREATE TABLE hashed0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hashed1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT data FROM a;
UPDATE hashed SET data = data || '\x00'::bytea;
SELECT count(*) FROM hashed h JOIN a ON h.data = a.data || '\x00'::bytea;
DROP TABLE hashed;
ALTER TABLE a SET ACCESS METHOD heap;
DROP EXTENSION appendable_bytea CASCADE;
SELECT count(*) FROM a;
CREATE FUNCTION of_a() RETURNS appendable_bytea LANGUAGE sql STABLE AS 'SELECT data FROM d.a WHERE id = 3';
ALTER TABLE added ADD COLUMN hidden appendable_bytea DEFAULT of_a();
ALTER TABLE added ADD COLUMN seen appendable_bytea DEFAULT substr(of_a(), 1, 100);
SELECT seen = substr(a.data, 1, 100) AS same FROM added, a WHERE a.id = 3;
-- what keeps no reference is not
CREATE INDEX ON a USING hash (data);
CREATE INDEX ON a USING hash ((data || '\x00'::bytea));
CREATE INDEX ON a (sha256(data));
CREATE INDEX CONCURRENTLY ON a (substr(data, 1, 10));
REINDEX TABLE CONCURRENTLY a;
CREATE STATISTICS of_length ON id, (length(data)) FROM a;
DROP STATISTICS of_length;
CREATE VIEW v AS SELECT data, ARRAY[data] AS several FROM a;

-- CREATE TABLE AS from a parallel plan: nothing can be created while it runs.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE TABLE par AS SELECT id, data FROM a WHERE length(data) > 0;
DO $$ BEGIN EXECUTE 'CREATE TABLE par2 AS SELECT id, data FROM a WHERE length(data) > 0'; END $$;
SELECT id, data INTO par3 FROM a WHERE length(data) > 0;
\o /dev/null
EXPLAIN ANALYZE CREATE TABLE par4 AS SELECT id, data FROM a WHERE length(data) > 0;
\o
SELECT count(*) FROM par4 JOIN par USING (id, data) JOIN par2 USING (id, data) JOIN par3 USING (id, data);
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
DROP TABLE par, par2, par3, par4;

-- A table that came to be behind our back.
CREATE TABLE stray (id int, data appendable_bytea);
UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'heap') WHERE oid = 'stray'::regclass;
INSERT INTO stray SELECT * FROM a;
SELECT appendable_bytea_repair('stray');
UPDATE stray SET data = data;
DELETE FROM a WHERE id = 3;
SELECT store AS "STORE" FROM appendable_bytea_stats('a') \gset
VACUUM :STORE;
SELECT id, data = bytes(6400 * id) AS same FROM stray ORDER BY 1;
SELECT count(*) FROM appendable_bytea_check('stray');
INSERT INTO a SELECT * FROM stray WHERE id = 3;
DROP TABLE stray;

-- Generated columns: two columns never share chunks.
CREATE TABLE g (id int, data appendable_bytea,
	n int8 GENERATED ALWAYS AS (length(data)) STORED,
	h bytea GENERATED ALWAYS AS (sha256(data)) STORED);
INSERT INTO g VALUES (1, bytes(64000));
UPDATE g SET data = data || '\x01'::bytea;
SELECT n, h = sha256(data) AS same FROM g;
ALTER TABLE g ADD COLUMN copy appendable_bytea GENERATED ALWAYS AS (data) STORED;
UPDATE g SET data = appendable_write(data, '\xffff', 100, 2);
SELECT length(copy), copy = data AS same, h = sha256(copy) AS same FROM g;
SELECT count(*) FROM appendable_bytea_check('g');
-- a rewrite that swaps columns or takes another row's value
CREATE TABLE sw (id int, x appendable_bytea, y appendable_bytea);
INSERT INTO sw VALUES (1, bytes(16000), bytes(32000));
ALTER TABLE sw ALTER x TYPE appendable_bytea USING y, ALTER y TYPE appendable_bytea USING x;
UPDATE sw SET x = x || '\x01'::bytea, y = y || '\x02'::bytea;
SELECT length(x), length(y) FROM sw;
ALTER TABLE sw ALTER x TYPE appendable_bytea USING y;
UPDATE sw SET x = appendable_write(x, '\x00', 0, 1);
UPDATE sw SET y = appendable_write(y, '\x11', 9000, 1);
SELECT x = y AS same, substr(x, 2, 8000) = substr(y, 2, 8000) AS same, get_byte(x, 9000) <> get_byte(y, 9000) AS differ FROM sw;
-- such a rewrite, and a column that is dropped, leave chunks without an owner
SELECT * FROM appendable_bytea_check('sw');
ALTER TABLE sw DROP COLUMN y;
SELECT row_id, column_name, problem FROM appendable_bytea_check('sw');
CREATE FUNCTION stores_rows(t regclass) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE n int8; BEGIN EXECUTE format('SELECT count(*) FROM appendable_store.chunks_%s', t::oid) INTO n; RETURN n; END $$;
SELECT stores_rows('sw');
BEGIN;
SELECT * FROM appendable_bytea_repair('sw');
SELECT * FROM appendable_bytea_check('sw');
ROLLBACK;
SELECT * FROM appendable_bytea_repair('sw');
SELECT * FROM appendable_bytea_repair('sw');
SELECT * FROM appendable_bytea_check('sw');
SELECT stores_rows('sw');
SELECT length(x), get_byte(x, 0) AS x, substr(x, 2, 8000) = substr(bytes(32000), 2, 8000) AS same FROM sw;
DROP FUNCTION stores_rows;

-- TRUNCATE, rewrites and moves
BEGIN;
TRUNCATE ctas;
SELECT count(*) FROM ctas;
INSERT INTO ctas SELECT * FROM a WHERE id = 3;
SELECT id, length(data) FROM ctas;
ROLLBACK;
SELECT id, length(data), md5(data) = md5(bytes(6400 * id)) AS same FROM ctas ORDER BY 1;
TRUNCATE ctas;
SELECT store_bytes FROM appendable_bytea_stats('ctas');
BEGIN;
CREATE TABLE fresh (id int, data appendable_bytea);
INSERT INTO fresh SELECT * FROM a;
TRUNCATE fresh;
INSERT INTO fresh SELECT * FROM a WHERE id = 2;
COMMIT;
SELECT id, length(data) FROM fresh;
VACUUM FULL selected;
CLUSTER a USING a_pkey;
REINDEX TABLE a;
ALTER TABLE selected ALTER id TYPE int8;
SELECT s.id, s.data = a.data AS same FROM selected s JOIN a USING (id) ORDER BY 1;
CREATE VIEW persistence AS
	SELECT t.relname, t.relpersistence AS of_table, s.relpersistence AS of_store, i.relpersistence AS of_index
	FROM pg_class t JOIN pg_class s ON s.relname = 'chunks_' || t.oid
		JOIN pg_class i ON i.relname = s.relname || '_index' WHERE t.relname = 'selected';
ALTER TABLE selected SET UNLOGGED;
SELECT * FROM persistence;
ALTER TABLE selected SET LOGGED;
SELECT * FROM persistence;
SELECT s.id, s.data = a.data AS same FROM selected s JOIN a USING (id) ORDER BY 1;

-- so does a table that was published once
SET client_min_messages = error;
CREATE PUBLICATION once FOR TABLE selected;
DROP PUBLICATION once;
SET client_min_messages = warning;
ALTER TABLE selected SET UNLOGGED;
SELECT * FROM persistence;
ALTER TABLE selected SET LOGGED;
SELECT * FROM persistence;
CREATE FOREIGN DATA WRAPPER none;
CREATE SERVER nowhere FOREIGN DATA WRAPPER none;
CREATE FOREIGN TABLE r (id int, data appendable_bytea) SERVER nowhere;
DROP FOREIGN DATA WRAPPER none CASCADE;

-- Temporary tables keep values flat.
CREATE TEMP TABLE tmp AS SELECT * FROM a;
UPDATE tmp SET data = data || '\x01'::bytea;
INSERT INTO selected SELECT id + 10, data FROM tmp;
SELECT id, length(data), substr(data, 1, length(data) - 1) = bytes(6400 * (id::int - 10)) AS same FROM selected WHERE id > 10 ORDER BY 1;
SELECT count(*) FROM appendable_bytea_check();

-- Functions for a partitioned table visit its partitions.
CREATE TABLE parted (id int, data appendable_bytea, more appendable_bytea) PARTITION BY LIST (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_others PARTITION OF parted DEFAULT PARTITION BY LIST (id);
CREATE TABLE parted_2 PARTITION OF parted_others FOR VALUES IN (2);
INSERT INTO parted SELECT id, bytes(64000), bytes(64000) FROM generate_series(1, 2) id;
SELECT table_name, values_in_chunks FROM appendable_bytea_stats('parted');
SELECT format('DELETE FROM %s WHERE off = 0 AND vid = (SELECT min(vid) FROM %1$s)', store) AS "BREAK" FROM appendable_bytea_stats('parted_2') \gset
:BREAK;
SELECT table_name, row_id, column_name, problem FROM appendable_bytea_check('parted');
UPDATE parted SET data = NULL;
ALTER TABLE parted DROP COLUMN more;
SELECT table_name, problem ~ 'chunks belong to no value' AS without_value FROM appendable_bytea_check('parted');
SELECT chunks_removed FROM appendable_bytea_repair('parted', 1);
SELECT chunks_removed > 1 AS removed FROM appendable_bytea_repair('parted');
SELECT * FROM appendable_bytea_check('parted');
DROP TABLE parted;
-- what cannot have such columns has no problems to be found
CREATE VIEW shows AS SELECT * FROM a;
SELECT * FROM appendable_bytea_check('shows');
SELECT * FROM appendable_bytea_stats('shows');
SELECT * FROM appendable_bytea_repair('shows');
DROP VIEW shows;

-- Back to bytea.
SELECT appendable_bytea_detach('was_bytea');
SELECT appendable_bytea_detach('parent');
DROP VIEW v;
SELECT appendable_bytea_detach('a');
ALTER TABLE selected ALTER data TYPE bytea, SET ACCESS METHOD heap;
SELECT id, pg_typeof(data), length(data) FROM was_bytea ORDER BY 1;
SELECT * FROM methods;
SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname = 'chunks_' || 'selected'::regclass::oid;

-- Rights: a user needs none on stores; only the owner repairs.
CREATE ROLE ab_user;
GRANT USAGE, CREATE ON SCHEMA d TO ab_user;
GRANT SELECT ON fresh TO ab_user;
SET ROLE ab_user;
CREATE TABLE own (id int, data appendable_bytea);
INSERT INTO own SELECT * FROM fresh;
UPDATE own SET data = data || bytes(3200);
INSERT INTO own SELECT * FROM own;
DELETE FROM own WHERE ctid = (SELECT max(ctid) FROM own);
ALTER TABLE own SET UNLOGGED;
SELECT length(data) FROM own;
SELECT * FROM appendable_bytea_check('own');
SELECT * FROM appendable_bytea_repair('own');
SELECT * FROM appendable_bytea_repair('fresh');
SELECT * FROM appendable_bytea_detach('fresh');
SELECT count(*) FROM appendable_bytea_check('fresh');
SELECT count(*) FROM appendable_bytea_stats('selected');
SELECT count(*) FROM appendable_bytea_check('selected');
-- stores cannot be changed by any role, under any name
SELECT format('appendable_store.chunks_%s', 'own'::regclass::oid) AS store \gset
\set VERBOSITY sqlstate
SELECT * FROM :store;
INSERT INTO :store SELECT;
DELETE FROM :store;
TRUNCATE :store;
DROP TABLE :store;
CREATE TABLE appendable_store.mine (id int);
\set VERBOSITY default
-- a function of another user's
RESET ROLE;
CREATE FUNCTION add_bytes(row_id int, bytes bytea) RETURNS int8 LANGUAGE sql SECURITY DEFINER SET search_path = d, public AS
	$$ UPDATE fresh SET data = data || bytes WHERE id = row_id RETURNING length(data) $$;
SET ROLE ab_user;
UPDATE fresh SET data = data || '\x01'::bytea;
SELECT add_bytes(2, bytes(3200));
SELECT length(data) FROM fresh;
RESET ROLE;
ALTER TABLE fresh ENABLE ROW LEVEL SECURITY;
CREATE POLICY nothing ON fresh USING (id < 0);
SET ROLE ab_user;
SELECT count(*) FROM fresh;
SELECT count(*) FROM appendable_bytea_stats('fresh');
SELECT count(*) FROM appendable_bytea_check('fresh');
RESET ROLE;
SELECT has_schema_privilege('ab_user', 'appendable_store', 'USAGE') AS usage;

-- functions of a table's owner do not run with the privileges of the role that repairs it
SET ROLE ab_user;
CREATE FUNCTION who() RETURNS appendable_bytea LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN convert_to(current_user, 'UTF8'); END $$;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'trigger runs as %', current_user; RETURN NEW; END $$;
CREATE FUNCTION tells(data bytea) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'constraint is checked as %', current_user; RETURN true; END $$;
CREATE TABLE trap (id int, data appendable_bytea DEFAULT who(), CHECK (tells(data::bytea)));
CREATE TRIGGER trap BEFORE UPDATE ON trap FOR EACH ROW EXECUTE FUNCTION tell();
ALTER TABLE trap ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
RESET ROLE;
UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'heap') WHERE oid = 'trap'::regclass;
SET client_min_messages = error; -- the warning would name who runs the tests
INSERT INTO trap SELECT * FROM own LIMIT 1;
SET client_min_messages = warning;
SELECT appendable_bytea_repair('trap');
SELECT count(*) FROM appendable_bytea_check('trap');
SELECT appendable_bytea_detach('trap');
SELECT convert_from(substring(pg_get_expr(adbin, adrelid) from '''(.*)''')::bytea, 'UTF8') AS evaluated_as FROM pg_attrdef WHERE adrelid = 'trap'::regclass;
DROP TABLE own, tmp, trap;
DROP SCHEMA d CASCADE;
DROP ROLE ab_user;
SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace;
DROP EXTENSION appendable_bytea;

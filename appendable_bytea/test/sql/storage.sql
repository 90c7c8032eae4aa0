-- Chunks: what is written when, and that nothing is lost or mixed.
SET client_min_messages = warning;
-- chunks are counted as they are without differences
SET appendable_bytea.store_differences = off;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
SET appendable_bytea.chunk_size = 100;
CREATE TABLE s (id int PRIMARY KEY, data appendable_bytea) WITH (fillfactor = 80, autovacuum_enabled = off);
-- the number of chunks, and the bytes in them
CREATE FUNCTION chunks(OUT n int, OUT bytes int) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*), sum(length(data)) FROM appendable_store.chunks_%s', 's'::regclass::oid) INTO n, bytes;
END $$;
CREATE FUNCTION bytes(n int, seed int DEFAULT 0) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(decode(md5((i + seed)::text), 'hex'), ''), 1, n) FROM generate_series(1, n / 16 + 1) i $$;
INSERT INTO s VALUES (1, ''), (2, '\x01'), (3, NULL);
-- small appends gather in the row
DO $$ BEGIN FOR i IN 1..40 LOOP UPDATE s SET data = data || '\x0102030405060708090a'::bytea WHERE id = 1; END LOOP; END $$;
SELECT * FROM chunks();
DO $$ BEGIN FOR i IN 1..20 LOOP UPDATE s SET data = data || '\x0102030405060708090a'::bytea WHERE id = 1; END LOOP; END $$;
SELECT * FROM chunks();
SELECT length(data), md5(data) = md5(decode(repeat('0102030405060708090a', 60), 'hex')) AS same FROM s WHERE id = 1;
-- larger ones become chunks at once; a short rest stays in the row
UPDATE s SET data = bytes(1010) WHERE id = 2;
UPDATE s SET data = data || bytes(250, 7) WHERE id = 2;
SELECT length(data), data = bytes(1010) || bytes(250, 7) AS same FROM s WHERE id = 2;
SELECT * FROM chunks() \gset
SELECT :n AS n, :bytes AS bytes;
-- an append does not write old bytes again
BEGIN;
UPDATE s SET data = data || bytes(300, 9) WHERE id = 2;
SELECT n - :n AS added FROM chunks();
ROLLBACK;
-- a change in the middle writes the bytes that change
TRUNCATE s;
INSERT INTO s VALUES (1, bytes(2500)), (2, bytes(2500));
SELECT * FROM chunks();
UPDATE s SET data = appendable_write(data, bytes(150, 3), 1020, 150) WHERE id = 1;
SELECT * FROM chunks();
SELECT data = substr(bytes(2500), 1, 1020) || bytes(150, 3) || substr(bytes(2500), 1171) AS same FROM s WHERE id = 1;
SELECT data = bytes(2500) AS same FROM s WHERE id = 2;
UPDATE s SET data = appendable_write(appendable_write(data, '\xaa', 5, 1), '\xbb', 2495, 1) WHERE id = 1;
SELECT get_byte(data, 5) = 170 AND get_byte(data, 2495) = 187 AS written, length(data) FROM s WHERE id = 1;
SELECT * FROM chunks();
-- cutting, and growing again
UPDATE s SET data = appendable_truncate(data, 1210) WHERE id = 1;
SELECT length(data), substr(data, 1201, 10) = substr(bytes(2500), 1201, 10) AS same FROM s WHERE id = 1;
UPDATE s SET data = data || bytes(700, 5) WHERE id = 1;
SELECT length(data), substr(data, 1211) = bytes(700, 5) AS same, substr(data, 1172, 39) = substr(bytes(2500), 1172, 39) AS same FROM s WHERE id = 1;
-- bytes put in and taken out
UPDATE s SET data = appendable_write(data, '\xcafe', 850, 0) WHERE id = 2;
SELECT data = substr(bytes(2500), 1, 850) || '\xcafe'::bytea || substr(bytes(2500), 851) AS same FROM s WHERE id = 2;
UPDATE s SET data = appendable_write(data, '', 850, 2) WHERE id = 2;
SELECT data = bytes(2500) AS same FROM s WHERE id = 2;
SELECT * FROM appendable_bytea_check('s');
SELECT store AS "STORE" FROM appendable_bytea_stats('s') \gset
VACUUM :STORE;
SELECT * FROM appendable_bytea_check('s');
SELECT * FROM chunks();
SELECT data = bytes(2500) AS same FROM s WHERE id = 2;
SELECT length(data), substr(data, 1211) = bytes(700, 5) AS same FROM s WHERE id = 1;
-- a short value needs no chunks any more
UPDATE s SET data = appendable_truncate(data, 30) WHERE id = 1;
SELECT data = set_byte(bytes(30), 5, 170) AS same FROM s WHERE id = 1;
SELECT * FROM chunks();
-- old values in variables stay what they were
DO $$
DECLARE
	old appendable_bytea;
	cur CURSOR FOR SELECT data FROM s WHERE id = 2;
	late appendable_bytea;
BEGIN
	SELECT data INTO old FROM s WHERE id = 2;
	OPEN cur;
	UPDATE s SET data = data || bytes(500, 1) WHERE id = 2;
	UPDATE s SET data = appendable_write(data, '\xff', 0, 1) WHERE id = 2;
	UPDATE s SET data = appendable_truncate(data, 10) WHERE id = 2;
	FETCH cur INTO late;
	ASSERT old = bytes(2500), 'old value changed';
	ASSERT late = bytes(2500), 'value of a cursor changed';
	-- storing it again diverges: the chunks are copied
	UPDATE s SET data = old || '\x01'::bytea WHERE id = 2;
END $$;
SELECT data = bytes(2500) || '\x01'::bytea AS same FROM s WHERE id = 2;
-- copies diverge
INSERT INTO s SELECT 4, data FROM s WHERE id = 2;
UPDATE s SET data = data || bytes(300, 4) WHERE id = 4;
UPDATE s SET data = data || bytes(300, 2) WHERE id = 2;
SELECT id, substr(data, 2502) = bytes(300, id) AS same FROM s WHERE id IN (2, 4) ORDER BY 1;
-- savepoints
BEGIN;
UPDATE s SET data = data || bytes(300, 5) WHERE id = 2;
SAVEPOINT a;
UPDATE s SET data = data || bytes(300, 6) WHERE id = 2;
ROLLBACK TO a;
UPDATE s SET data = data || bytes(400, 7) WHERE id = 2;
SAVEPOINT b;
UPDATE s SET data = data || bytes(400, 8) WHERE id = 2;
RELEASE b;
COMMIT;
SELECT length(data), substr(data, 2802) = bytes(300, 5) || bytes(400, 7) || bytes(400, 8) AS same FROM s WHERE id = 2;
-- ON CONFLICT, MERGE, RETURNING
INSERT INTO s VALUES (2, bytes(5000)) ON CONFLICT (id) DO NOTHING;
INSERT INTO s AS t VALUES (2, bytes(600, 9)) ON CONFLICT (id) DO UPDATE SET data = t.data || EXCLUDED.data::bytea RETURNING length(data);
MERGE INTO s USING (VALUES (2), (5)) v(id) ON s.id = v.id
	WHEN MATCHED THEN UPDATE SET data = data || bytes(300, 1)
	WHEN NOT MATCHED THEN INSERT VALUES (v.id, bytes(3000));
SELECT id, length(data) FROM s WHERE id IN (2, 5) ORDER BY 1;
UPDATE s SET data = data || bytes(300) WHERE id = 5 RETURNING length(data), data = bytes(3000) || bytes(300) AS same;
-- triggers see and change what is stored, whatever their order
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.data := NEW.data || '\xee'::bytea; RETURN NEW; END $$;
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE WARNING '% -> %', length(OLD.data), length(NEW.data); RETURN NULL; END $$;
CREATE TRIGGER t1 BEFORE INSERT OR UPDATE ON s FOR EACH ROW EXECUTE FUNCTION trg();
CREATE TRIGGER t2 AFTER UPDATE ON s FOR EACH ROW EXECUTE FUNCTION seen();
UPDATE s SET data = data || bytes(300, 3) WHERE id = 5;
ALTER TABLE s DISABLE TRIGGER ALL;
UPDATE s SET data = data || bytes(300, 3) WHERE id = 5;
SELECT length(data) FROM s WHERE id = 5;
-- a whole value that starts with the old one adds chunks only for the rest
SELECT n FROM chunks() \gset
UPDATE s SET data = data::bytea || bytes(1000, 3) WHERE id = 5;
SELECT n - :n AS added FROM chunks();
-- what is deleted or replaced takes its chunks with it
SELECT sum(values_in_chunks) AS "values" FROM appendable_bytea_stats('s');
BEGIN;
DELETE FROM s WHERE id <> 5;
SELECT * FROM chunks();
ROLLBACK;
SELECT n * 100 > 6000 AS many FROM chunks();
DELETE FROM s WHERE id <> 5;
SELECT n * 100 < 6000 AS few FROM chunks();
BEGIN;
SELECT * FROM chunks() \gset
UPDATE s SET data = NULL WHERE id = 5;
SELECT * FROM chunks();
ROLLBACK;
BEGIN;
UPDATE s SET data = bytes(4000) WHERE id = 5;
SELECT * FROM chunks();
SAVEPOINT a;
UPDATE s SET data = data || bytes(5000) WHERE id = 5;
UPDATE s SET data = appendable_truncate(data, 3110) WHERE id = 5;
SELECT * FROM chunks();
DELETE FROM s;
SELECT * FROM chunks();
ROLLBACK TO a;
SELECT * FROM chunks();
SELECT data = bytes(4000) AS same FROM s;
ROLLBACK;
SELECT n = :n AS as_before FROM chunks();
-- a row that is inserted and does not stay
BEGIN;
INSERT INTO s SELECT 5, bytes(5000) ON CONFLICT (id) DO NOTHING;
INSERT INTO s SELECT 5, bytes(5000) ON CONFLICT (id) DO UPDATE SET data = EXCLUDED.data;
SELECT * FROM chunks();
ROLLBACK;
SELECT n = :n AS as_before FROM chunks();
SELECT length(data) FROM s;
SELECT * FROM appendable_bytea_check();
SELECT "values", values_in_chunks, chunk_bytes + inline_bytes AS bytes FROM appendable_bytea_stats('s');
SELECT appendable_bytea_total_size('s') > pg_total_relation_size('s') AS larger;
-- damage is found and never read
SET appendable_bytea.chunk_size = 200;
INSERT INTO s VALUES (6, bytes(2500)), (7, bytes(2500)), (8, bytes(2500));
DO $$ DECLARE store text := (SELECT store FROM appendable_bytea_stats('s')); BEGIN
	EXECUTE format('UPDATE %s SET data = set_byte(data, 0, 0) WHERE (vid, off) = (SELECT max(vid), 400 FROM %1$s)', store);
	EXECUTE format('DELETE FROM %s WHERE (vid, off) = (SELECT max(vid), 800 FROM %1$s WHERE vid < (SELECT max(vid) FROM %1$s))', store);
END $$;
VACUUM :STORE;
SELECT column_name, problem FROM appendable_bytea_check('s');
\set VERBOSITY terse
SELECT substr(data, 1, 400) = bytes(400) AS same FROM s WHERE id = 8;
DO $$ BEGIN PERFORM md5(data) FROM s WHERE id = 8; RAISE 'read'; EXCEPTION WHEN data_corrupted THEN RAISE WARNING '%', SQLERRM; END $$;
DO $$ BEGIN PERFORM md5(data) FROM s WHERE id = 7; RAISE 'read'; EXCEPTION WHEN data_corrupted THEN RAISE WARNING '%', SQLERRM; END $$;
-- a size cap
SET appendable_bytea.max_size = '1MB';
UPDATE s SET data = data || convert_to(repeat('x', 1048576), 'UTF8') WHERE id = 6;
RESET appendable_bytea.max_size;
-- forged datums: a superuser's function is the only way to make one
CREATE FUNCTION forge(bytea) RETURNS appendable_bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION le(n int8, bytes int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT string_agg(set_byte('\x00'::bytea, 0, ((n >> (8 * i)) & 255)::int), '' ORDER BY i) FROM generate_series(0, bytes - 1) i $$;
CREATE FUNCTION ref(format int, home int8, vid int8, stored int8, tail bytea) RETURNS appendable_bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT forge(le(format, 1) || le(home, 4) || le(vid, 8) || le(stored, 8) || le(0, 4) || le(0, 4) || tail) $$;
SELECT length(forge('')), md5(forge(''));
SELECT length(forge('\x09aa'));
SELECT forge('\x03aabb');
SELECT forge('\x02aabb');
SELECT length(forge('\x020000'));
SELECT ref(3, 0, 1, 1, '');
SELECT ref(3, 1, -1, 1, '');
SELECT ref(3, 1, 1, 1::int8 << 60, '');
SELECT ref(4, 1, 1, 1, '\xaa');
SELECT ref(5, 1, 1, 1, '\x01');
SELECT ref(5, 1, 1, 1, le(5, 8) || le(1, 4) || le(0, 8) || le(5, 8));
SELECT ref(5, 1, 1, 9, le(5, 8) || le(1, 4) || le(-1, 8) || le(5, 8) || '\xaa');
SELECT ref(5, 1, 1, 9, le(5, 8) || le(1000000, 4) || le(-1, 8) || le(5, 8));
SELECT ref(3, 1, 1, 100, '\xaa');
SELECT appendable_length(ref(3, 1, 1, 100, '\xaa'));
INSERT INTO s VALUES (10, ref(3, 1, 1, 100, '\xaa'));
INSERT INTO s VALUES (10, ref(3, 's'::regclass::oid::int8, 1, 3000, '\xaa'));
UPDATE s SET data = ref(3, 's'::regclass::oid::int8, 1, 3000, '\xaa') WHERE id = 6;
INSERT INTO s VALUES (10, forge('\x09aa'));
SELECT count(*) FROM s WHERE id = 10;
SELECT data = bytes(2500) AS same FROM s WHERE id = 6;
DROP TABLE s;
DROP FUNCTION trg, seen, chunks, bytes, ref, forge, le;
DROP EXTENSION appendable_bytea;

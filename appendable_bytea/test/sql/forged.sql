-- Datums that were never made by the type: a damaged page, a superuser's function.
-- Whatever they hold, the answer is an error or bytes that the datum itself holds:
-- never another value's bytes, never a crash.
SET client_min_messages = warning;
-- chunks are counted as they are without differences
SET appendable_bytea.compress_new = off;
SET appendable_bytea.store_differences = off;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
-- the bytes of a datum as they are, and back
CREATE FUNCTION raw(appendable_bytea) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION forge(bytea) RETURNS appendable_bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE TABLE victim (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO victim VALUES (1, convert_to(repeat('v', 20000), 'UTF8')), (2, convert_to(repeat('w', 20000), 'UTF8'));
UPDATE victim SET data = data || 'tail'::bytea WHERE id = 1;
CREATE TABLE thief (id int, data appendable_bytea);
-- what is done with a datum, and what comes of it
CREATE FUNCTION try(what text, value appendable_bytea) RETURNS TABLE (datum text, result text, attempts text) LANGUAGE plpgsql AS $$
DECLARE
	results text[] := '{}';
	commands text[] := ARRAY['length($1)', '$1 = $1', 'length($1::bytea)', 'md5($1)', 'length($1 || ''x''::bytea)', 'substr($1, 5, 1)', 'length(encode($1, ''hex''))', 'stored'];
	detail text;
	one text;
BEGIN
	FOR i IN 1 .. array_length(commands, 1) LOOP
		BEGIN
			IF commands[i] = 'stored' THEN
				INSERT INTO thief VALUES (1, value);
				one := 'stored';
			ELSE
				EXECUTE 'SELECT (' || commands[i] || ')::text' INTO one USING value;
			END IF;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
			one := SQLSTATE || ' ' || SQLERRM || '. ' || regexp_replace(detail, '(table|value|chunks_|Byte|offset)( ?)[0-9]+', '\1\2N', 'g');
		END;
		results := results || one;
	END LOOP;
	RETURN QUERY SELECT what, r, string_agg(commands[n], ', ' ORDER BY n) FROM unnest(results) WITH ORDINALITY t(r, n) GROUP BY r ORDER BY min(n);
END $$;
-- a reference that is the table's own, to another row's chunks: it is copied, not shared
SELECT get_byte(raw(data), 0) AS format, length(raw(data)) AS bytes FROM victim ORDER BY id;
INSERT INTO thief SELECT 0, forge(raw(data)) FROM victim WHERE id = 2;
INSERT INTO victim SELECT 3, forge(raw(data)) FROM victim WHERE id = 2;
UPDATE victim SET data = data || convert_to(repeat('3', 500), 'UTF8') WHERE id = 3;
UPDATE victim SET data = data || convert_to(repeat('2', 500), 'UTF8') WHERE id = 2;
SELECT id, length(data), convert_from(substr(data, 20000, 2), 'UTF8') FROM victim ORDER BY id;
SELECT length(data), md5(data) = md5(repeat('w', 20000)) AS right FROM thief WHERE id = 0;
TRUNCATE thief;
-- formats and sizes
SELECT t.* FROM (VALUES ('empty', ''::bytea), ('format 0', '\x00616263'), ('format 9', '\x09616263'), ('flat', '\x01616263'),
	('padded', '\x02616263800000'), ('padding without an end', '\x02616263000000'), ('nothing but padding', '\x028000'), ('no padding', '\x02'),
	('short reference', '\x0301020304'), ('short edit', '\x0501020304')) v(what, bytes), try(what, forge(bytes)) t;
SELECT convert_from(data, 'UTF8') FROM thief;
TRUNCATE thief;
-- each field of a reference: home, value id, length, crc, edition
SELECT t.* FROM victim, (VALUES ('home', '\xffffff7f'::bytea, 1), ('no home', '\x00000000', 1), ('value id', '\x0100000000000000', 5),
	('negative id', '\xffffffffffffffff', 5), ('longer', '\x214e000000000000', 13), ('shorter', '\x1f4e000000000000', 13),
	('huge', '\xffffffffffffff7f', 13), ('crc', '\x01020304', 21), ('edition', '\x07000000', 25)) v(what, bytes, at),
	try(what, forge(overlay(raw(data) PLACING bytes FROM at + 1))) t WHERE id = 1;
SELECT count(*) FROM thief;
-- the number of bytes that continue a character
SELECT t.* FROM (SELECT set_byte(substr(raw(data), 1, 13), 0, get_byte(raw(data), 0) + 16) AS head, substr(raw(data), 14) AS rest FROM victim WHERE id = 1) f,
	LATERAL (VALUES ('none', head || '\x00' || rest), ('some', head || '\x8105' || rest), ('as many as bytes', head || '\x819c20' || rest),
	('more than bytes', head || '\x819c21' || rest), ('more than needed', head || '\x8005' || rest), ('too many bytes', head || '\x81808080808080808000' || rest),
	('too large', head || '\xffffffffffffffff7f' || rest), ('without an end', head || '\x8080808080808080' || rest), ('cut off', head || substr(rest, 1, 16)),
	('cut off later', head || '\x8105' || substr(rest, 1, 16)), ('of a flat value', '\x11616263'), ('format 25', set_byte(head, 0, 25) || '\x00' || rest)) v(what, bytes), try(what, forge(bytes)) t;
TRUNCATE thief;
-- an edit with wrong segments
SELECT t.* FROM (SELECT raw(overlay(data PLACING 'new' FROM 100)) AS edit FROM victim WHERE id = 1) e,
	LATERAL (VALUES ('whole', edit), ('cut off', substr(edit, 1, length(edit) - 1)), ('too long', edit || '\x00'),
	('wrong length', overlay(edit PLACING '\x01' FROM 30)), ('many segments', overlay(edit PLACING '\xffffff7f' FROM 38)),
	('no segments', overlay(edit PLACING '\x00000000' FROM 38)), ('source', overlay(edit PLACING '\xffffffffffffff7f' FROM 42)),
	-- 19,997 of its bytes are in chunks
	('counted', set_byte(substr(edit, 1, 13), 0, get_byte(edit, 0) + 16) || '\x819c1d' || substr(edit, 14)),
	('overcounted', set_byte(substr(edit, 1, 13), 0, get_byte(edit, 0) + 16) || '\x819c1e' || substr(edit, 14))) v(what, bytes),
	try(what, forge(bytes)) t;
TRUNCATE thief;
-- an edit with bytes of chunks twice: it is stored as its bytes, because no list of pieces has a byte twice
BEGIN;
CREATE TEMPORARY TABLE twice AS SELECT overlay(raw(overlay(data PLACING 'new' FROM 100)) PLACING '\x32' FROM 74) AS edit FROM victim WHERE id = 2;
SELECT md5(forge(edit)) AS before FROM twice \gset
UPDATE victim SET data = forge(edit) FROM twice WHERE id = 2;
SELECT length(data), md5(data) = :'before' AS same FROM victim WHERE id = 2;
UPDATE victim SET data = data || '\x21' WHERE id = 2;
SELECT count(*) FROM appendable_bytea_check('victim');
ROLLBACK;
-- bytes changed at random: an error of the right kind, or what is there
DO $$
DECLARE
	seed bytea;
	value bytea;
	n int := 0;
	errors int := 0;
BEGIN
	PERFORM setseed(0.7);
	FOR i IN 1 .. 4000 LOOP
		SELECT raw(CASE i % 4 WHEN 0 THEN overlay(data PLACING 'new' FROM 100) WHEN 1 THEN appendable_write(data, 'ins', 5, 0) ELSE data END) INTO seed FROM victim WHERE id = 1 + i % 2;
		value := seed;
		FOR j IN 0 .. floor(random() * 3)::int LOOP
			value := set_byte(value, floor(random() * length(value))::int, floor(random() * 256)::int);
		END LOOP;
		IF random() < 0.2 THEN
			value := substr(value, 1, floor(random() * (length(value) + 1))::int);
		END IF;
		CONTINUE WHEN value = seed;
		BEGIN
			n := n + 1;
			PERFORM appendable_length(forge(value)), forge(value) = forge(value), md5(forge(value)), substr(forge(value), 3, 9);
			INSERT INTO thief VALUES (i, forge(value));
			UPDATE thief SET data = data || convert_to(repeat('z', 300), 'UTF8') WHERE id = i;
			PERFORM md5(data) FROM thief WHERE id = i;
		EXCEPTION WHEN data_corrupted OR program_limit_exceeded THEN
			errors := errors + 1;
		END;
	END LOOP;
	RAISE WARNING 'most are refused: %, some change only bytes that the datum itself contains: %', errors > n * 0.6, errors < n;
END $$;
-- nothing of other values came into any
SELECT count(*) FROM appendable_bytea_check();
SELECT id, length(data), md5(data) = md5(data::bytea) AS readable FROM victim ORDER BY id;
-- what is on disk and wrong is reported, and stops repair
CREATE TABLE damaged (id int, data appendable_bytea);
INSERT INTO damaged VALUES (1, convert_to(repeat('d', 9000), 'UTF8'));
CREATE TABLE plain (id int, data bytea) USING appendable_heap;
INSERT INTO plain SELECT 1, raw(data) FROM damaged;
INSERT INTO plain SELECT 2, '\x0901';
UPDATE pg_attribute SET atttypid = 'appendable_bytea'::regtype WHERE attrelid = 'plain'::regclass AND attname = 'data';
SELECT row_id, column_name, regexp_replace(problem, '[0-9]{5,}', 'N', 'g') AS problem FROM appendable_bytea_check('plain');
DO $$ BEGIN
	PERFORM appendable_bytea_repair('plain');
EXCEPTION WHEN data_corrupted THEN RAISE WARNING '%', SQLERRM;
END $$;
DELETE FROM plain WHERE id = 2;
SELECT appendable_bytea_repair('plain');
UPDATE plain SET data = data;
SELECT * FROM appendable_bytea_check('plain');
SELECT p.data = d.data AS same FROM plain p, damaged d;
-- a row with a damaged value can be updated, and the value replaced: no other one loses its chunks
CREATE TABLE replaced (id int PRIMARY KEY, data appendable_bytea, n int DEFAULT 0);
INSERT INTO replaced SELECT i, convert_to(repeat(i::text, 20000), 'UTF8') FROM generate_series(1, 5) i;
UPDATE replaced SET data = overlay(data PLACING 'new' FROM 100);
UPDATE pg_attribute SET atttypid = 'bytea'::regtype WHERE attrelid = 'replaced'::regclass AND attname = 'data';
-- the format; a length that is negative; the size of a list
UPDATE replaced SET data = CASE id WHEN 1 THEN set_byte(data, 0, 9) WHEN 2 THEN overlay(data PLACING '\xff' FROM 21) ELSE overlay(data PLACING '\xff' FROM 38) END WHERE id < 4;
UPDATE pg_attribute SET atttypid = 'appendable_bytea'::regtype WHERE attrelid = 'replaced'::regclass AND attname = 'data';
UPDATE replaced SET n = 1;
SELECT column_name, problem FROM appendable_bytea_check('replaced');
SELECT "values", values_in_chunks FROM appendable_bytea_stats('replaced');
CALL appendable_compact('replaced') \gset
SELECT :rows_compacted AS compacted, :rows_skipped AS skipped;
\set VERBOSITY sqlstate
UPDATE replaced SET data = data || 'more'::bytea WHERE id = 1;
UPDATE replaced SET data = data || 'more'::bytea WHERE id = 2;
UPDATE replaced SET data = data || 'more'::bytea WHERE id = 3;
\set VERBOSITY default
UPDATE replaced SET data = convert_to(repeat('r', 9000), 'UTF8') WHERE id < 4;
SELECT id, n, length(data), md5(data) = md5(CASE WHEN id < 4 THEN repeat('r', 9000) ELSE overlay(repeat(id::text, 20000) PLACING 'new' FROM 100) END) AS same FROM replaced ORDER BY id;
-- the chunks of a reference that could not be read stay until they are removed
SELECT column_name, problem FROM appendable_bytea_check('replaced');
SELECT chunks_removed FROM appendable_bytea_repair('replaced');
SELECT * FROM appendable_bytea_check('replaced');
DROP TABLE replaced;
-- chunks that were changed, or are not there
CREATE FUNCTION break(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format(command, 'appendable_store.chunks_' || 'damaged'::regclass::oid);
END $$;
SELECT store AS "STORE" FROM appendable_bytea_stats('damaged') \gset
SELECT break('UPDATE %s SET data = set_byte(data, 10, 0) WHERE off > 0');
VACUUM :STORE;
SELECT substr(data, 1, 3) FROM damaged;
\set VERBOSITY sqlstate
SELECT md5(data) FROM damaged;
UPDATE damaged SET data = appendable_write(data, '\x00', 8999, 1);
\set VERBOSITY default
SELECT column_name, regexp_replace(problem, '[0-9]{8,}', 'N', 'g') AS problem FROM appendable_bytea_check('damaged');
SELECT break('DELETE FROM %s WHERE off > 0');
VACUUM :STORE;
\set VERBOSITY sqlstate
SELECT length(data), substr(data, 1, 3) FROM damaged;
\set VERBOSITY default
SELECT column_name, regexp_replace(problem, '[0-9]{8,}', 'N', 'g') AS problem FROM appendable_bytea_check('damaged');
-- a row of a store that is none: the values behind it are checked, and its own can be deleted
TRUNCATE damaged;
INSERT INTO damaged SELECT i, convert_to(repeat(i::text, 9000), 'UTF8') FROM generate_series(1, 3) i;
SELECT break('UPDATE %s SET data = '''' WHERE off = 0 AND get_byte(data, 0) <> 50');
VACUUM :STORE;
SELECT row_id, column_name, problem FROM appendable_bytea_check('damaged');
SELECT md5(data) = md5(repeat('2', 9000)) AS same FROM damaged WHERE id = 2;
\set VERBOSITY terse
DO $$ BEGIN PERFORM md5(data) FROM damaged WHERE id = 1; EXCEPTION WHEN data_corrupted THEN RAISE WARNING '%', regexp_replace(SQLERRM, '[0-9]+', 'N'); END $$;
\set VERBOSITY default
DELETE FROM damaged WHERE id = 1;
-- the last one is such a row: a read of other chunks says so
SELECT break('UPDATE %s SET data = '''' WHERE off > 0 AND get_byte(data, 0) = 50');
VACUUM :STORE;
\set VERBOSITY terse
DO $$ BEGIN PERFORM substr(data, 1, 3) FROM damaged WHERE id = 2; EXCEPTION WHEN data_corrupted THEN RAISE WARNING '%', regexp_replace(SQLERRM, '[0-9]+', 'N'); END $$;
\set VERBOSITY default
UPDATE damaged SET data = 'new' WHERE id = 3;
SELECT row_id, column_name, problem FROM appendable_bytea_check('damaged');
SELECT count(*) FROM :STORE;
DROP FUNCTION break;
DROP TABLE plain, damaged;

-- a reference from another database, whatever is there under the same OID
SELECT raw(data) AS stolen  FROM victim WHERE id = 1 \gset
\set database :DBNAME
CREATE DATABASE regression_appendable_other;
\c regression_appendable_other
SET client_min_messages = warning;
CREATE EXTENSION appendable_bytea;
CREATE FUNCTION forge(bytea) RETURNS appendable_bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE TABLE own (id int, data appendable_bytea);
\set VERBOSITY terse
SELECT appendable_length(forge(:'stolen'));
SELECT forge(:'stolen')::bytea IS NULL;
INSERT INTO own VALUES (1, forge(:'stolen'));
-- with a home that exists here and has chunks
INSERT INTO own VALUES (2, convert_to(repeat('o', 30000), 'UTF8'));
SELECT overlay(:'stolen'::bytea PLACING (SELECT string_agg(set_byte('\x00', 0, (('own'::regclass::oid::int8 >> (8 * i)) & 255)::int), '' ORDER BY i) FROM generate_series(0, 3) i) FROM 2) AS stolen \gset
SELECT md5(forge(:'stolen'));
INSERT INTO own VALUES (1, forge(:'stolen'));
SELECT id, length(data) FROM own;
SELECT count(*) FROM appendable_bytea_check();
\c :database
DROP DATABASE regression_appendable_other;
-- a store with other columns, as a build of before 2026-12 made it, is neither read nor written
BEGIN;
INSERT INTO pg_attribute SELECT (jsonb_populate_record(a, jsonb_build_object('attnum', attnum + 1, 'attname', 'more'))).*
FROM pg_attribute a WHERE attrelid = format('appendable_store.chunks_%s', 'victim'::regclass::oid)::regclass AND attnum = 5;
UPDATE pg_class SET relnatts = 6 WHERE oid = format('appendable_store.chunks_%s', 'victim'::regclass::oid)::regclass;
SAVEPOINT s;
SELECT md5(data) FROM victim WHERE id = 1;
ROLLBACK TO s;
UPDATE victim SET data = data || convert_to(repeat('4', 5000), 'UTF8') WHERE id = 1;
ROLLBACK;
DROP TABLE victim, thief;
DROP FUNCTION raw, forge, try;

--
-- Calls written for bytea run as the type's own forms, which read what they need
-- and write what they change.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE TABLE f (id int PRIMARY KEY, data appendable_bytea, plain bytea, CONSTRAINT short CHECK (length(data) < 100000)) WITH (fillfactor = 80);
INSERT INTO f SELECT i, convert_to(repeat('v', 9000 + i), 'UTF8'), convert_to(repeat('v', 9000 + i), 'UTF8') FROM generate_series(1, 3) i;
-- what a statement runs as
CREATE FUNCTION runs_as(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		IF line ~ '(Output|Filter|Cond|Key|Check): .*(data|\$1)' THEN
			RETURN NEXT regexp_replace(replace(line, 'public.', ''), 'OVER (\(\?\)|w1)', 'OVER w');
		END IF;
	END LOOP;
END $$;
SELECT query, runs_as('SELECT ' || query || ' FROM f') FROM unnest(ARRAY[
	'length(data)', 'octet_length(data)', 'bit_length(data)', 'substr(data, 2, 3)', 'substr(data, 2)', 'substring(data FROM 2 FOR 3)', 'substring(data, 2)',
	'get_byte(data, 1)', 'get_bit(data, 1)', 'position(''v'' IN data)', 'md5(data)', 'sha224(data)', 'sha256(data)', 'sha384(data)', 'sha512(data)',
	'length(data::bytea)', 'length(data || plain)', 'sha256(plain || data::bytea)', 'md5(overlay(data PLACING ''x'' FROM 2))', 'length(set_byte(set_bit(data, 5, 1), 9, 2))',
	'overlay(data PLACING ''x'' FROM 2)', 'overlay(data PLACING ''x'' FROM 2 FOR 5)::appendable_bytea', 'appendable_bytea(data::bytea || plain)', 'encode(data, ''hex'')',
	'length(plain)', 'sha256(plain)']) WITH ORDINALITY v(query, n) ORDER BY n;
SELECT runs_as(query) FROM unnest(ARRAY[
	'UPDATE f SET data = overlay(data PLACING ''x'' FROM 2) WHERE length(data) > 5 RETURNING sha256(data)',
	'INSERT INTO f VALUES (9, ''x'') ON CONFLICT (id) DO UPDATE SET data = set_byte(excluded.data, 0, 1) WHERE length(f.data) > 1 RETURNING length(f.data)',
	'SELECT length(data), count(*) FROM f GROUP BY length(data) HAVING max(length(data)) > 1 ORDER BY min(md5(data))',
	'SELECT 1 FROM f a JOIN f b ON length(a.data) = length(b.data) AND substr(a.data, 1, 2) < substr(b.data, 1, 2)',
	'SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM f g WHERE md5(g.data) = md5(f.data) OFFSET 0)',
	'SELECT id, sum(length(data)) OVER (ORDER BY sha256(data)) FROM f']) WITH ORDINALITY v(query, n) ORDER BY n;
-- indexes, constraints and views keep what was written, and serve it
CREATE INDEX f_sha256 ON f (sha256(data)) WHERE length(data) > 9001;
CREATE VIEW fv AS SELECT id, sha256(data) AS sum, overlay(data PLACING 'x' FROM 2) AS changed FROM f WHERE length(data) > 9001;
SELECT replace(pg_get_viewdef('fv'), 'f.', '') AS fv, pg_get_indexdef('f_sha256'::regclass), pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'short';
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM fv WHERE sum = '\xab';
SELECT id FROM fv WHERE sum = sha256(convert_to(repeat('v', 9003), 'UTF8'));
RESET enable_seqscan;
-- a value is appended to, changed and measured without reading its chunks
DROP INDEX f_sha256;
SELECT store::oid AS store FROM appendable_bytea_stats('f') \gset
CREATE FUNCTION variable() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v appendable_bytea;
	n int;
BEGIN
	SELECT data INTO v FROM f WHERE id = 11;
	v := overlay(v PLACING 'y' FROM 2);
	v := set_byte(v, 100, 7);
	SELECT length(v) + length(v || 'x'::bytea) INTO n WHERE octet_length(v) > 5;
	RETURN format('%s %s', n, length(v));
END $$;
SELECT pg_stat_force_next_flush();
BEGIN;
UPDATE f SET id = id + 10 WHERE length(data) <> 7 AND data::bytea IS NOT NULL;
SELECT id, length(data), length(data::bytea), length(overlay(data PLACING 'xxx' FROM 5 FOR 1)), length(data::bytea || 'x'::bytea) FROM f ORDER BY id;
SELECT variable();
SELECT coalesce(sum(idx_scan + seq_scan), 0) AS looks FROM pg_stat_xact_all_tables WHERE relid = :store;
SELECT id FROM f WHERE encode(data, 'hex') = '';
SELECT sum(idx_scan + seq_scan) > 0 AS looked FROM pg_stat_xact_all_tables WHERE relid = :store;
ROLLBACK;
-- what is stored is an append, also when it is written as one of bytea
SELECT substr(data, 9002) AS tail FROM f WHERE id = 1;
UPDATE f SET data = data::bytea || '\x0102'::bytea;
SELECT id, length(data), substr(data, 9001) AS tail, (SELECT chunk_bytes FROM appendable_bytea_stats('f')) AS chunk_bytes FROM f ORDER BY id;
-- a value that is cast below a sort is fetched when the sort takes it
UPDATE f SET data = convert_to(repeat('v', 9000) || id, 'UTF8');
SELECT id, right(convert_from(data, 'UTF8'), 4) AS tail FROM (SELECT id, data::bytea FROM f ORDER BY id OFFSET 0) s;
SELECT id, length(d) FROM (SELECT id, CASE WHEN id > 0 THEN data::bytea END AS d FROM f ORDER BY id OFFSET 0) s;
-- what bytea refuses
SELECT overlay(data PLACING 'xx' FROM 2147483647) FROM f LIMIT 1;
DROP TABLE f CASCADE;
DROP FUNCTION runs_as, variable;
-- names cached for planning are looked up again after the extension was dropped and created again, or its drop rolled back
CREATE TABLE f (data appendable_bytea);
EXPLAIN (VERBOSE, COSTS OFF) SELECT sha256(data) FROM f;
SET client_min_messages = warning;
BEGIN;
DROP TABLE f;
DROP EXTENSION appendable_bytea CASCADE;
SELECT sum(length(data)) FROM (SELECT sha256(convert_to('a', 'UTF8')) AS data) s;
ROLLBACK;
EXPLAIN (VERBOSE, COSTS OFF) SELECT sha256(data) FROM f;
DROP TABLE f;
DROP EXTENSION appendable_bytea CASCADE;
SELECT sum(length(data)) FROM (SELECT sha256(convert_to('a', 'UTF8')) AS data) s;
CREATE EXTENSION appendable_bytea;
CREATE TABLE f (data appendable_bytea);
EXPLAIN (VERBOSE, COSTS OFF) SELECT sha256(data) FROM f;
DROP TABLE f;

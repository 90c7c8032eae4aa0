-- values that are stored whole are compressed, and read, changed and appended to as others
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
RESET client_min_messages;
SET default_toast_compression = pglz;
SET appendable_bytea.compression = pglz;
CREATE FUNCTION noise(seed int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(string_agg(sha512(format('%s %s', seed, i)::bytea), '' ORDER BY i), 1, n) FROM generate_series(0, n / 64) i $$;
CREATE FUNCTION lines(first int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT string_agg(format(E'%s worker-%s INFO step %s finished in %s ms, status=ok\n', i, i % 7, i * 31, i * 7919 % 1000), '') FROM generate_series(first, first + n - 1) i $$;
CREATE TABLE stored (id int PRIMARY KEY, log appendable_text, data appendable_bytea);
CREATE TABLE model (id int PRIMARY KEY, log text, data bytea);
CREATE FUNCTION both_tables(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, '@', 'stored');
	EXECUTE replace(command, '@', 'model');
END $$;
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s', id) FROM stored s FULL JOIN model m USING (id)
	WHERE s.log::text IS DISTINCT FROM m.log OR s.data::bytea IS DISTINCT FROM m.data OR length(s.log) IS DISTINCT FROM length(m.log)
		OR md5(s.log) IS DISTINCT FROM md5(m.log) OR right(s.log, 300) IS DISTINCT FROM right(m.log, 300)
	UNION ALL SELECT format('%s at %s', id, o) FROM stored s JOIN model m USING (id), generate_series(1, 260000, 13007) o
	WHERE substr(s.data, o, 5000) IS DISTINCT FROM substr(m.data, o, 5000) OR substr(s.log, o, 50) IS DISTINCT FROM substr(m.log, o, 50)
	UNION ALL SELECT problem FROM appendable_bytea_check('stored') $$;
-- short values and long ones, those that compress and those that do not, and both in turns
SELECT both_tables('INSERT INTO @ VALUES (1, lines(1, 10), noise(1, 2001)), (2, lines(1, 150), noise(2, 9000)), (3, lines(1, 5000), noise(3, 200000)),
	(4, repeat(''x'', 300000), decode(repeat(''00'', 250000), ''hex'')), (5, NULL, convert_to(lines(7, 1000), ''UTF8'') || noise(5, 60000) || convert_to(lines(9, 2000), ''UTF8''))');
SELECT * FROM differences();
SELECT compressed_share > 0.5 AS most FROM appendable_bytea_stats('stored');
SELECT store AS "STORE" FROM appendable_bytea_stats('stored') \gset
-- what does not compress is not made longer
SELECT bool_or(pg_column_compression(data) IS NOT NULL) AS compressed, sum(length(data)) = 200000 AS all FROM :STORE
	WHERE vid = (SELECT vid FROM :STORE GROUP BY vid HAVING sum(length(data)) = 200000);
-- as small as the server's compression makes them
SELECT sum(pg_column_size(data)) < 1.1 * (SELECT sum(pg_column_size(log)) + sum(pg_column_size(data)) FROM model) AS as_small FROM :STORE;
-- nothing to gain from compaction
CALL appendable_compact('stored') \gset
SELECT :rows_compacted AS rows;
-- appends are plain chunks after compressed ones
SELECT both_tables('UPDATE @ SET log = log || lines(90, 300), data = data || noise(6, 30000)');
SELECT * FROM differences();
-- changes of all kinds
SELECT both_tables('UPDATE @ SET data = overlay(data PLACING ''\x0102'' FROM 1001), log = overlay(log PLACING ''written'' FROM 500)');
SELECT * FROM differences();
SELECT both_tables('UPDATE @ SET data = substr(data, 1, 150000) WHERE id > 2');
SELECT * FROM differences();
-- replaced by another value, by the same, and by one that compresses less
SELECT both_tables('UPDATE @ SET log = lines(7 * id, 2000), data = data || '''' WHERE id <> 3');
SELECT both_tables('UPDATE @ SET log = convert_from(convert_to(log::text, ''UTF8''), ''UTF8''), data = noise(9, 100000) WHERE id = 3');
SELECT * FROM differences();
-- with differences, pieces of compressed chunks
SET appendable_bytea.store_differences = on;
SELECT both_tables('UPDATE @ SET log = replace(log::text, ''step 3100 '', ''another step '')');
SELECT * FROM differences();
SELECT both_tables('UPDATE @ SET log = ''front '' || substr(log::text, 1, 50000) || ''middle'' || substr(log::text, 50100) || ''end''');
SELECT * FROM differences();
SELECT both_tables('UPDATE @ SET log = reverse(log::text)');
SELECT * FROM differences();
-- short values, of which little is decompressed if they have nothing in common: what they have is found
SELECT both_tables('TRUNCATE @');
SELECT both_tables('INSERT INTO @ SELECT i, lines(i, 70 * i * i) FROM generate_series(1, 4) i');
CREATE FUNCTION replaced(command text, OUT kept bool, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	vids text := (SELECT format('SELECT array_agg(DISTINCT vid ORDER BY vid)::text FROM %s', store) FROM appendable_bytea_stats('stored'));
	before text;
	after text;
BEGIN
	EXECUTE vids INTO before;
	PERFORM both_tables('UPDATE @ SET log = ' || command);
	EXECUTE vids INTO after;
	kept := before = after;
	wrong := (SELECT string_agg(d, ', ') FROM differences() d);
END $$;
SELECT * FROM replaced($$substr(log::text, 1, 700) || 'inserted' || substr(log::text, 701)$$);
SELECT * FROM replaced($$lines(1000 + id, 70 * id * id)$$);
SELECT * FROM replaced($$substr(log::text, 1, length(log) - 700) || 'inserted' || right(log::text, 700)$$);
SELECT * FROM replaced($$lines(20000 + id, 70 * id * id)$$);
SELECT * FROM replaced($$'another front' || substr(log::text, 300)$$);
SELECT * FROM replaced($$lines(30000 + id, 70 * id * id)$$);
SELECT * FROM replaced($$substr(log::text, 400) || lines(5000, 10)$$);
SELECT * FROM replaced($$substr(log::text, 1, length(log) - 2000)$$);
SELECT * FROM replaced($$lines(40000 + id, 70 * id * id) || 'the same end'$$);
SELECT * FROM replaced($$lines(50000 + id, 70 * id * id) || 'the same end'$$);
DROP FUNCTION replaced;
-- a few bytes that close a JSON text are in the row: then an element that is added is an append, without a list
CREATE FUNCTION raw(appendable_text) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
SELECT both_tables('TRUNCATE @');
SELECT both_tables($$INSERT INTO @ SELECT id, '["' || lines(id::int, 300) || e FROM unnest(ARRAY['"]', E'"\n  ]\n}\n', 'no end', repeat(']', 100)]) WITH ORDINALITY u(e, id)$$);
SELECT id, get_byte(raw(log), 0) % 16 AS form, length(raw(log)) - 29 - get_byte(raw(log), 0) / 16 AS in_row FROM stored ORDER BY id;
SELECT both_tables($$UPDATE @ SET log = regexp_replace(log::text, '["\]} \n]*$', '", "added in ' || id || '\&')$$) FROM generate_series(1, 2);
SELECT id, get_byte(raw(log), 0) % 16 IN (3, 4) AS without_a_list FROM stored ORDER BY id;
SELECT * FROM differences();
DROP FUNCTION raw;
RESET appendable_bytea.store_differences;
-- rolled back, and in a subtransaction
BEGIN;
SELECT both_tables('UPDATE @ SET log = lines(1, 777)');
SAVEPOINT s;
SELECT both_tables('UPDATE @ SET log = lines(2, 777)');
ROLLBACK TO s;
SELECT * FROM differences();
ROLLBACK;
SELECT * FROM differences();
-- by the method that is the server's best, next to chunks that were compressed by the other; and small chunks
SELECT bool_and(pg_column_compression(data) = 'pglz') AS pglz FROM :STORE WHERE pg_column_compression(data) IS NOT NULL;
RESET appendable_bytea.compression;
SELECT both_tables('UPDATE @ SET log = lines(4, 3000) WHERE id = 1');
SET appendable_bytea.chunk_size = 100;
SELECT both_tables('UPDATE @ SET log = lines(5, 3000), data = noise(8, 5000) || decode(repeat(''0001'', 5000), ''hex'') WHERE id = 2');
RESET appendable_bytea.chunk_size;
SELECT * FROM differences();
-- columns that are converted, copied and loaded; a value that grows in its row is not compressed
CREATE TABLE converted AS SELECT id, log FROM model;
ALTER TABLE converted ALTER log TYPE appendable_text;
SELECT compressed_share > 0.9 AS compressed FROM appendable_bytea_stats('converted');
SELECT count(*) AS same FROM converted JOIN model USING (id) WHERE converted.log::text = model.log;
CREATE TABLE grown (log appendable_text);
INSERT INTO grown VALUES (repeat('x', 1900));
UPDATE grown SET log = log || repeat('y', 3000);
SELECT compressed_share FROM appendable_bytea_stats('grown');
-- off: as before
SET appendable_bytea.compress_new = off;
TRUNCATE grown;
INSERT INTO grown VALUES (repeat('x', 100000));
SELECT compressed_share FROM appendable_bytea_stats('grown');
RESET appendable_bytea.compress_new;
UPDATE grown SET log = repeat('z', 100000);
SELECT compressed_share > 0.9 AS compressed, log = repeat('z', 100000) AS same FROM grown, appendable_bytea_stats('grown');
DROP TABLE stored, model, converted, grown;
DROP FUNCTION noise, lines, both_tables, differences;

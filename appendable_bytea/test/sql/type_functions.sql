--
-- Every function of the type against the one of bytea, over values of every
-- shape: each row of grid holds the same bytes twice.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;

CREATE FUNCTION noise(seed int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(coalesce(string_agg(sha256(int8send(seed::bigint * 1000000 + i)), '' ORDER BY i), ''), 1, n)
	FROM generate_series(1, n / 32 + 1) i
$$;

CREATE TABLE grid (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, how text NOT NULL,
	data appendable_bytea, plain bytea) WITH (fillfactor = 80);

-- stored at once
INSERT INTO grid (how, data, plain)
SELECT 'stored ' || n, b, b FROM (SELECT n, noise(n, n) AS b FROM unnest(ARRAY[0, 1, 2, 99, 100, 101, 199, 200, 201, 498, 499, 500, 501,
	1999, 2000, 2001, 2048, 8000, 8091, 8092, 8093, 8111, 8112, 8113, 8192, 16223, 16224, 16225, 24336, 50000, 300000]) n) v;
INSERT INTO grid (how) VALUES ('null');

-- grown by appends of one size each
CREATE PROCEDURE grow(start int, step int, times int) LANGUAGE plpgsql AS $$
DECLARE
	row_id int;
BEGIN
	INSERT INTO grid (how, data, plain)
	VALUES (format('%s + %s x %s', start, times, step), noise(start, start), noise(start, start)) RETURNING id INTO row_id;
	FOR i IN 1 .. times LOOP
		UPDATE grid SET data = data || noise(i, step), plain = plain || noise(i, step) WHERE id = row_id;
		COMMIT;
	END LOOP;
END $$;
CALL grow(0, 1, 70);
CALL grow(0, 7, 100);
CALL grow(0, 31, 60);
CALL grow(10, 99, 30);
CALL grow(490, 1, 30);
CALL grow(0, 100, 30);
CALL grow(0, 101, 30);
CALL grow(100, 199, 20);
CALL grow(100, 200, 20);
CALL grow(1, 500, 10);
CALL grow(8000, 1000, 10);
CALL grow(8112, 1, 20);
CALL grow(8112, 8112, 4);
CALL grow(5, 8113, 4);
CALL grow(20000, 20000, 4);
CALL grow(0, 30000, 4);

-- changed in the middle, lengthened, shortened, truncated, and appended to again
CREATE PROCEDURE change(size int, what text, new_data text, new_plain text) LANGUAGE plpgsql AS $$
DECLARE
	row_id int;
BEGIN
	INSERT INTO grid (how, data, plain) VALUES (format('%s of %s', what, size), noise(size, size), noise(size, size)) RETURNING id INTO row_id;
	COMMIT;
	FOR i IN 1 .. 3 LOOP
		EXECUTE format('UPDATE grid SET data = %s, plain = %s WHERE id = %s', new_data, new_plain, row_id);
		COMMIT;
		EXECUTE format('UPDATE grid SET data = data || noise(77, 300 * %s), plain = plain || noise(77, 300 * %1$s) WHERE id = %s', i, row_id);
		COMMIT;
	END LOOP;
END $$;
SELECT format('CALL change(%s, %L, %L, %L)', size, what, new_data, new_plain)
FROM unnest(ARRAY[150, 600, 5000, 8112, 30000, 100000]) size,
	(VALUES
	('overwrite at 0', 'overlay(data PLACING noise(5, 50) FROM 1)', 'overlay(plain PLACING noise(5, 50) FROM 1)'),
	('overwrite in the middle', 'overlay(data PLACING noise(6, 90) FROM length(data) / 2)', 'overlay(plain PLACING noise(6, 90) FROM length(plain) / 2)'),
	('overwrite of much', 'overlay(data PLACING noise(6, length(plain) / 2) FROM 17)', 'overlay(plain PLACING noise(6, length(plain) / 2) FROM 17)'),
	('overwrite at the end', 'overlay(data PLACING noise(7, 40) FROM length(data) - 39)', 'overlay(plain PLACING noise(7, 40) FROM length(plain) - 39)'),
	('overwrite across the end', 'overlay(data PLACING noise(7, 400) FROM length(data) - 100)', 'overlay(plain PLACING noise(7, 400) FROM length(plain) - 100)'),
	('insertion', 'overlay(data PLACING noise(8, 500) FROM 101 FOR 0)', 'overlay(plain PLACING noise(8, 500) FROM 101 FOR 0)'),
	('deletion', 'overlay(data PLACING '''' FROM 50 FOR 60)', 'overlay(plain PLACING '''' FROM 50 FOR 60)'),
	('replacement by more', 'overlay(data PLACING noise(9, 900) FROM 101 FOR 20)', 'overlay(plain PLACING noise(9, 900) FROM 101 FOR 20)'),
	('prepending', 'noise(10, 30) || data', 'noise(10, 30) || plain'),
	('truncation by little', 'appendable_truncate(data, length(data) - 30)', 'substr(plain, 1, length(plain) - 30)'),
	('truncation by half', 'appendable_truncate(data, length(data) / 2)', 'substr(plain, 1, length(plain) / 2)'),
	('truncation to nothing', 'appendable_truncate(data, 0)', ''''''),
	('set_byte', 'set_byte(data, 100, 65)', 'set_byte(plain, 100, 65)'),
	('set_bit', 'set_bit(data, 1000, 1)', 'set_bit(plain, 1000, 1)'),
	('cleared bits', 'set_bit(set_bit(set_bit(data, 999, 0), 1001, 0), 1003, 0)', 'set_bit(set_bit(set_bit(plain, 999, 0), 1001, 0), 1003, 0)'),
	('doubling', 'data || data', 'plain || plain'),
	('swapped halves', 'substr(data, length(data) / 2 + 1) || substr(data, 1, length(data) / 2)', 'substr(plain, length(plain) / 2 + 1) || substr(plain, 1, length(plain) / 2)')
	) v(what, new_data, new_plain)
ORDER BY size, what
\gexec

-- several changes in one transaction, some of them rolled back
CREATE PROCEDURE change_in_steps(size int) LANGUAGE plpgsql AS $$
DECLARE
	row_id int;
BEGIN
	INSERT INTO grid (how, data, plain) VALUES ('steps of ' || size, noise(size, size), noise(size, size)) RETURNING id INTO row_id;
	FOR i IN 1 .. 8 LOOP
		BEGIN
			UPDATE grid SET data = data || noise(i, i * 150), plain = plain || noise(i, i * 150) WHERE id = row_id;
			UPDATE grid SET data = overlay(data PLACING noise(i, 20) FROM 5), plain = overlay(plain PLACING noise(i, 20) FROM 5) WHERE id = row_id;
			UPDATE grid SET data = data || noise(i, 9), plain = plain || noise(i, 9) WHERE id = row_id;
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			UPDATE grid SET data = data || noise(i, 200), plain = plain || noise(i, 200) WHERE id = row_id;
		END;
	END LOOP;
END $$;
CALL change_in_steps(0);
CALL change_in_steps(100);
CALL change_in_steps(3000);
CALL change_in_steps(20000);

-- how much there is, and that it is the same
SELECT count(*) > 140 AS rows, max(length(data)) > 500000 AS long, bool_and(data::bytea IS NOT DISTINCT FROM plain) AS equal FROM grid;
SELECT how FROM grid WHERE data::bytea IS DISTINCT FROM plain ORDER BY id;

-- one expression on both; X stands for the value
CREATE FUNCTION differ(expression text) RETURNS TABLE (compared bigint, different bigint) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT count(*), count(*) FILTER (WHERE (%s)::text IS DISTINCT FROM (%s)::text) FROM grid',
		replace(expression, 'X', 'data'), replace(expression, 'X', 'plain'));
END $$;
CREATE FUNCTION outcome(expression text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'SELECT (' || expression || ')::text' INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT at, outcome(format('appendable_bytea_set_byte(''abc'', %s, 65)', at)) AS set_byte, outcome(format('appendable_set_byte(''abc'', %s, 65)', at)) AS set_byte_8,
	outcome(format('appendable_bytea_set_bit(''abc'', %s, 1)', at * 8)) AS set_bit
FROM generate_series(-1, 3) at;

WITH expressions(expression) AS (VALUES
	('X'), ('length(X)'), ('octet_length(X)'), ('bit_length(X)'), ('X IS NULL'),
	('md5(X)'), ('sha224(X)'), ('sha256(X)'), ('sha384(X)'), ('sha512(X)'),
	('substr(X, 1)'), ('substr(X, 0)'), ('substr(X, -5)'), ('substr(X, 2)'), ('substr(X, 8112)'), ('substr(X, 8113)'), ('substr(X, 1000000)'),
	('substr(X, 1, 0)'), ('substr(X, 1, 1)'), ('substr(X, 0, 1)'), ('substr(X, -5, 3)'), ('substr(X, -5, 6)'), ('substr(X, -5, 7)'),
	('substr(X, 400, 200)'), ('substr(X, 8000, 200)'), ('substr(X, 8112, 1)'), ('substr(X, 8112, 2)'), ('substr(X, 8113, 8112)'), ('substr(X, 3, 2147483647)'),
	('substr(X, length(X)::int, 5)'), ('substr(X, length(X)::int - 3, 5)'), ('substr(X, length(X)::int / 2, 10000)'), ('substr(X, length(X)::int / 3)'),
	('substr(X, 2147483647, 2147483647)'), ('substr(X, -2147483648, 2147483647)'),
	('substring(X, 100, 1000)'), ('substring(X, 100)'), ('substring(X FROM 16000 FOR 500)'), ('substring(X FROM 16000)'), ('substring(X FOR 7)'),
	('position(substr(X, 1, 3) IN X)'), ('position(substr(X, 8110, 5) IN X)'), ('position(substr(X, greatest(length(X)::int - 9, 1)) IN X)'),
	('position(substr(X, 400, 9000) IN X)'), ('position(''not there'' IN X)'), ('position('''' IN X)'), ('position(''\x00'' IN X)'),
	('position(X || ''x''::bytea IN X)'), ('position(X IN X)'),
	('overlay(X PLACING ''abc'' FROM 1)'), ('overlay(X PLACING ''abc'' FROM 400 FOR 200)'), ('overlay(X PLACING '''' FROM 8000 FOR 8112)'), ('overlay(X PLACING ''abc'' FROM 1000000)'),
	('overlay(X PLACING ''abc'' FROM 10 FOR -3)'), ('overlay(X PLACING ''abc'' FROM 10 FOR -30)'), ('overlay(X PLACING ''abc'' FROM 8113 FOR 0)'),
	('X || ''tail''::bytea'), ('''head''::bytea || X'), ('X || X'), ('X || ''''::bytea'), ('X || ''\x00ff'''), ('X || NULL::bytea'), ('substr(X || X, 200, 20000)'),
	('overlay(X || ''abc''::bytea PLACING X FROM 300 FOR 10) || substr(X, 5, 5)'),
	('btrim(X, ''\x00''::bytea)'), ('ltrim(X, substr(X, 1, 2))'), ('rtrim(X, substr(X, greatest(length(X)::int - 1, 1)))'),
	('encode(X, ''hex'')'), ('encode(X, ''base64'')'), ('encode(X, ''escape'')'), ('bit_count(X)'),
	('X = substr(X, 1)'), ('X < ''\x80'''), ('X >= ''\x80''::bytea'), ('''\x80''::bytea <> X'), ('X > substr(X, 1, 8112)'), ('X <= X || ''a''::bytea'), ('X || ''b''::bytea > X || ''a''::bytea'),
	('X BETWEEN ''\x20'' AND ''\xa0'''), ('X LIKE ''%a%'''), ('coalesce(X, ''none'')'), ('greatest(X, ''\x90'')'), ('nullif(X, ''''::bytea)'))
SELECT expression, compared, different FROM expressions, differ(expression);

-- the functions for values of any length, and offsets beyond int4
WITH expressions(expression, plain) AS (VALUES
	('appendable_substr(data, 400, 200)', 'substr(plain, 400, 200)'), ('appendable_substr(data, 8113)', 'substr(plain, 8113)'),
	('appendable_substr(data, -5, 10)', 'substr(plain, -5, 10)'), ('appendable_substr(data, 5000000000)', '''''::bytea'), ('appendable_substr(data, 5000000000, 1)', '''''::bytea'),
	('appendable_substr(data, -5000000000, 5000000011)', 'substr(plain, 1, 10)'), ('appendable_substr(data, 3, 9223372036854775807)', 'substr(plain, 3)'),
	('appendable_length(data)', 'length(plain)'), ('appendable_position(data, ''\x61'')', 'position(''\x61''::bytea IN plain)'),
	('appendable_overlay(data, ''abc'', 400)', 'overlay(plain PLACING ''abc'' FROM 400)'),
	('appendable_overlay(data, ''abc'', 400, 5000000000)', 'overlay(plain PLACING ''abc'' FROM 400 FOR 2000000000)'))
SELECT expression, count(*) AS compared, count(*) FILTER (WHERE outcome(format(replace(expression, 'data', '%L::appendable_bytea'), g.data))
	IS DISTINCT FROM outcome(format(replace(expressions.plain, 'plain', '%L::bytea'), g.plain))) AS different
FROM expressions, grid g WHERE length(data) < 60000 GROUP BY expression ORDER BY expression;

-- bytes and bits, everywhere
SELECT count(*) AS compared, count(*) FILTER (WHERE get_byte(data, i) IS DISTINCT FROM get_byte(plain, i) OR appendable_get_byte(data, i) IS DISTINCT FROM get_byte(plain, i)
	OR get_bit(data, i * 3) IS DISTINCT FROM get_bit(plain, i * 3)) AS different
FROM grid, generate_series(0, length(data) - 1, greatest(length(data) / 20, 1)) n, LATERAL (SELECT n::int) x(i);
SELECT count(*) AS compared, count(*) FILTER (WHERE set_byte(data, i, 200 + j) IS DISTINCT FROM set_byte(plain, i, 200 + j)
	OR appendable_set_byte(data, i, 200 + j) IS DISTINCT FROM set_byte(plain, i, 200 + j)
	OR set_bit(data, i * 8 + j, j % 2) IS DISTINCT FROM set_bit(plain, i * 8 + j, j % 2)) AS different
FROM grid, generate_series(0, least(length(data), 20000) - 1, greatest(length(data) / 3, 1)) n, LATERAL (SELECT n::int, n::int % 8) x(i, j);

-- the same refusals
WITH expressions(expression) AS (VALUES
	('get_byte(X, -1)'), ('get_byte(X, 5)'), ('get_byte(X, 2147483647)'), ('set_byte(X, 5, 0)'), ('set_byte(X, -1, 0)'),
	('get_bit(X, 40)'), ('get_bit(X, -1)'), ('set_bit(X, 40, 1)'), ('set_bit(X, 3, 2)'),
	('substr(X, 1, -1)'), ('substring(X FROM 2 FOR -1)'), ('overlay(X PLACING ''a'' FROM 0)'), ('overlay(X PLACING ''a'' FROM -1 FOR 2)'),
	('overlay(X PLACING ''a'' FROM 2147483647 FOR 2147483647)'), ('encode(X, ''no such format'')'), ('convert_from(X, ''UTF8'')'))
SELECT expression, outcome(replace(expression, 'X', '''\x01020304ff''::appendable_bytea')) AS outcome,
	outcome(replace(expression, 'X', '''\x01020304ff''::appendable_bytea')) = outcome(replace(expression, 'X', '''\x01020304ff''::bytea')) AS as_bytea
FROM expressions;

-- types are those of bytea, except for operators with a value
SELECT pg_typeof(length(data)), pg_typeof(octet_length(data)), pg_typeof(bit_length(data)), pg_typeof(position('a' IN data)),
	pg_typeof(overlay(data PLACING 'a' FROM 1)), pg_typeof(set_byte(data, 0, 1)), pg_typeof(data || 'a'), pg_typeof('a'::bytea || data), pg_typeof(data || data)
FROM grid WHERE how = 'stored 1';
-- also where only pg_catalog is searched

SET search_path = '';
SELECT pg_typeof('a'::public.appendable_bytea || '\x00'::bytea), pg_typeof(length('a'::public.appendable_bytea)),
	pg_typeof('a'::public.appendable_bytea = '\x00'::bytea), 'a'::public.appendable_bytea = 'a';
RESET search_path;

-- a value in pieces
SELECT count(*) AS compared, count(*) FILTER (WHERE joined IS DISTINCT FROM nullif(plain, '') OR pieces <> (length(plain) + size - 1) / size) AS different
FROM grid, unnest(ARRAY[1000, 8112, 262144]) size,
	LATERAL (SELECT string_agg(c, '' ORDER BY n) AS joined, count(c) AS pieces FROM appendable_chunks(data, size) WITH ORDINALITY p(c, n)) x
WHERE plain IS NOT NULL;
SELECT length(c) FROM (SELECT appendable_chunks(data) AS c FROM grid WHERE how = 'stored 300000') x;
SELECT appendable_chunks(data, 100000) IS NOT NULL FROM grid WHERE how = 'stored 300000' LIMIT 2;
SELECT * FROM appendable_chunks(NULL);
SELECT appendable_chunks('abc', 0);
SELECT appendable_chunks('abc', -1);

DROP TABLE grid;
DROP FUNCTION differ, outcome, noise;
DROP PROCEDURE grow, change, change_in_steps;

-- appendable_line_offset(): where lines begin, in both directions and over values of every shape;
-- appendable_lines() of bytes.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
SET appendable_bytea.chunk_size = 64;
SET appendable_bytea.inline_max = 50;
SET appendable_bytea.tail_max = 30;
CREATE TABLE shapes (name text PRIMARY KEY, log appendable_text, data appendable_bytea);
INSERT INTO shapes VALUES ('empty', '', ''), ('no end', 'abc', 'abc'), ('one line', E'abc\n', E'abc\n'), ('ends alone', E'\n\n\n', E'\n\n\n');
-- lines of 6 to 40 bytes, none of which ends with a chunk for long; one of 300 bytes, and ends side by side
CREATE FUNCTION nth_line(i int) RETURNS text LANGUAGE sql AS
	$$ SELECT CASE WHEN i = 31 THEN repeat('eur', 100) WHEN i % 7 = 0 THEN '' ELSE 'line ' || i || repeat(' ae', i % 9) END || chr(10) $$;
INSERT INTO shapes SELECT 'stored whole', string_agg(nth_line(i), '' ORDER BY i), convert_to(string_agg(nth_line(i), '' ORDER BY i), 'UTF8') FROM generate_series(1, 60) i;
RESET appendable_bytea.chunk_size;
INSERT INTO shapes SELECT 'compressed', repeat(log::text, 100), convert_to(repeat(log::text, 100), 'UTF8') FROM shapes WHERE name = 'stored whole';
SET appendable_bytea.chunk_size = 64;
SELECT compressed_share > 0.1 AS compressed FROM appendable_bytea_stats('shapes');
INSERT INTO shapes SELECT unnest(ARRAY['appended', 'overwritten', 'in pieces', 'without its front']), '', '';
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		UPDATE shapes SET log = log || nth_line(i), data = data || convert_to(nth_line(i), 'UTF8') WHERE name IN ('appended', 'without its front');
		UPDATE shapes SET data = data || convert_to(replace(replace(nth_line(i), 'ae', 'a'), 'eur', 'e'), 'UTF8') WHERE name IN ('overwritten', 'in pieces');
	END LOOP;
END $$;
UPDATE shapes SET data = appendable_write(data, E'\n', 100, 1) WHERE name = 'overwritten';
UPDATE shapes SET data = appendable_write(data, E'x\n\ny', 700, 4) WHERE name = 'overwritten';
UPDATE shapes SET data = appendable_truncate(data, octet_length(data) - 10) WHERE name = 'overwritten';
UPDATE shapes SET data = data || E'\nmore\n' WHERE name = 'overwritten';
SET appendable_bytea.store_differences = on;
UPDATE shapes SET data = appendable_write(data, E'x\ny\n', 10, 0) WHERE name = 'in pieces';
UPDATE shapes SET data = appendable_write(data, '', 400, 111) WHERE name = 'in pieces';
UPDATE shapes SET data = appendable_write(data, convert_to(nth_line(31), 'UTF8'), 600, 2) WHERE name = 'in pieces';
RESET appendable_bytea.store_differences;
UPDATE shapes SET log = appendable_drop_front(log, 500), data = appendable_drop_front(data, 500) WHERE name = 'without its front';
UPDATE shapes SET log = log || 'end', data = data || 'end' WHERE name IN ('without its front', 'appended');
UPDATE shapes SET log = convert_from(data, 'UTF8') WHERE name IN ('overwritten', 'in pieces');
-- in memory only
INSERT INTO shapes VALUES ('an edit', NULL, NULL);

-- the same from where lines end
CREATE FUNCTION ends_of(data bytea) RETURNS bigint[] LANGUAGE sql AS
	$$ SELECT coalesce(array_agg(p ORDER BY p), '{}') FROM generate_series(1, octet_length(data)) p WHERE get_byte(data, p - 1) = 10 $$;
CREATE FUNCTION wanted(ends bigint[], at bigint, n bigint) RETURNS bigint LANGUAGE sql AS $$
	SELECT CASE WHEN n > 0 THEN ends[width_bucket(at, ends) + n] WHEN n < 0 THEN coalesce(ends[width_bucket(at - 1, ends) + n + 1], 0) ELSE at END $$;
CREATE FUNCTION compare(name text, log appendable_text, data appendable_bytea) RETURNS TABLE (shape text, compared bigint, nulls bigint, wrong bigint) LANGUAGE sql AS $$
	WITH ends AS MATERIALIZED (SELECT ends_of(data::bytea) AS ends, octet_length(data) AS length),
	calls AS MATERIALIZED (
		SELECT a, n, wanted(ends, a, n) AS wanted, appendable_line_offset(data, a, n) AS of_data,
			CASE WHEN a < length AND get_byte(data, a) & 192 = 128 THEN NULL ELSE appendable_line_offset(log, a, n) END AS of_text,
			a < length AND get_byte(data, a) & 192 = 128 AS inside
		FROM ends, LATERAL (SELECT generate_series(0, least(length, 1400), CASE WHEN length > 10000 THEN 100 ELSE 13 END) UNION SELECT generate_series(greatest(length - 30, 0), length)) x(a), unnest(ARRAY[-100, -7, -2, -1, 0, 1, 2, 7, 100]) n)
	SELECT name, count(*), count(*) FILTER (WHERE wanted IS NULL),
		count(*) FILTER (WHERE of_data IS DISTINCT FROM wanted OR NOT inside AND of_text IS DISTINCT FROM wanted)
	FROM calls $$;
SELECT c.* FROM shapes s, compare(name, log, data) c WHERE name <> 'an edit' ORDER BY 1;
SELECT c.* FROM shapes s, compare('an edit', log || E'of\nthree\n', appendable_write(data, convert_to(E'of\nthree\n', 'UTF8'), NULL, 0)) c WHERE name = 'appended';
SELECT c.* FROM shapes s, LATERAL (SELECT appendable_write(appendable_write(data, E'\n', 3, 1), E'\n\n\n', 600, 3) AS d) e, compare('an edit in the middle', convert_from(d, 'UTF8'), d) c WHERE name = 'appended';
SELECT count(*) AS problems FROM appendable_bytea_check('shapes');

-- the last lines; more than there are; one that has not ended; a line that is still to come
SELECT t.data FROM shapes, appendable_tail(log, appendable_line_offset(log, octet_length(log), -3)) t WHERE name = 'stored whole';
SELECT t.data FROM shapes, appendable_tail(log, appendable_line_offset(log, octet_length(log), -2)) t WHERE name = 'appended';
SELECT appendable_line_offset(log, octet_length(log), -1000) AS all_of_it, appendable_line_offset(log, 0, 60) = octet_length(log) AS next, appendable_line_offset(log, 0, 61) AS none
	FROM shapes WHERE name = 'stored whole';
SELECT n, appendable_line_offset(E'a\nb\n'::appendable_text, 2, n), appendable_line_offset('\x610a620a'::appendable_bytea, 2, n) AS of_bytes
	FROM unnest(ARRAY[-9223372036854775808, -9223372036854775807, -1, 0, 1, 2, 9223372036854775807]) n;
-- an offset from the end is where a line begins, as elsewhere
SELECT a, n, appendable_line_offset(E'one\ntwo\nthree'::appendable_text, a, n) FROM unnest(ARRAY[-1, -6, -7, -100]) a, unnest(ARRAY[-1, 0, 1]) n ORDER BY a DESC, n;
-- what is refused, and nulls
SELECT appendable_line_offset('abc'::text::appendable_text, 4, 1);
SELECT appendable_line_offset('abc'::bytea::appendable_bytea, 4, -1);
SELECT appendable_line_offset(log, 0, 1) IS NULL AS null_value, appendable_line_offset('a'::appendable_text, NULL, 1) IS NULL AS null_offset FROM shapes WHERE name = 'an edit';

-- paging backwards and forwards gives each line once
CREATE FUNCTION pages(log appendable_text, size int) RETURNS TABLE (backwards bool, forwards bool) LANGUAGE plpgsql AS $$
DECLARE at bigint := octet_length(log); before bigint; got text := ''; plain text := log;
BEGIN
	WHILE at > 0 LOOP
		before := appendable_line_offset(log, at, -size);
		IF before >= at THEN RAISE 'no line begins before %', at; END IF;
		got := (SELECT string_agg(line || chr(10), '' ORDER BY next_offset) FROM appendable_lines(log, before) WHERE next_offset <= at) || got;
		at := before;
	END LOOP;
	backwards := got = plain; got := '';
	WHILE at < octet_length(log) LOOP
		before := at;
		at := coalesce(appendable_line_offset(log, at, size), octet_length(log));
		got := got || (SELECT string_agg(line || chr(10), '' ORDER BY next_offset) FROM appendable_lines(log, before) WHERE next_offset <= at);
	END LOOP;
	forwards := got = plain;
	RETURN NEXT;
END $$;
SELECT size, p.* FROM shapes, unnest(ARRAY[1, 7, 1000]) size, pages(log, size) p WHERE name = 'stored whole';

-- lines of bytes are those of the text
SELECT name, count(*), count(*) FILTER (WHERE convert_from(line, 'UTF8') IS DISTINCT FROM text_line OR next_offset IS DISTINCT FROM text_offset) AS wrong
	FROM shapes, ROWS FROM (appendable_lines(shapes.data), appendable_lines(log)) l(line, next_offset, text_line, text_offset) GROUP BY name ORDER BY name;
SELECT * FROM appendable_lines('\x61ff0a000a62'::appendable_bytea);
SELECT * FROM appendable_lines('\x61ff0a000a62'::appendable_bytea, 3, unfinished => false);
SELECT * FROM appendable_lines('\x61ff0a000a62'::appendable_bytea, -3);
SELECT * FROM appendable_lines('\x61'::appendable_bytea, 2);

-- chunks that are not passed are not read: they are gone; whether a line begins shows the byte before it
CREATE TABLE passed (log appendable_text, data appendable_bytea);
INSERT INTO passed VALUES ('', '');
DO $$
BEGIN
	-- a line of 64 bytes is a chunk of each
	FOR i IN 0 .. 99 LOOP
		UPDATE passed SET log = log || (lpad(i::text, 63, '.') || chr(10)), data = data || convert_to(lpad(i::text, 63, '.') || chr(10), 'UTF8');
	END LOOP;
END $$;
SELECT store FROM appendable_bytea_stats('passed') \gset
SELECT count(*), count(DISTINCT off) AS places FROM :store;
DELETE FROM :store WHERE off NOT BETWEEN 49 * 64 AND 55 * 64 AND off < 98 * 64;
VACUUM :store;
SELECT appendable_line_offset(log, 50 * 64, 5) / 64.0 AS forwards, appendable_line_offset(log, 55 * 64, -5) / 64.0 AS backwards, appendable_line_offset(log, 53 * 64 + 10, -2) / 64.0 AS inside,
	appendable_line_offset(log, octet_length(log), -1) / 64.0 AS last_line FROM passed;
SELECT appendable_line_offset(data, 50 * 64, 5) / 64.0 AS forwards, appendable_line_offset(data, 55 * 64, -5) / 64.0 AS backwards, appendable_line_offset(data, 53 * 64 + 10, -2) / 64.0 AS inside,
	appendable_line_offset(data, octet_length(data), -1) / 64.0 AS last_line FROM passed;
\set VERBOSITY sqlstate
SELECT appendable_line_offset(log, 50 * 64, 7) FROM passed;
SELECT appendable_line_offset(log, 55 * 64, -6) FROM passed;
\set VERBOSITY default
DROP TABLE passed, shapes;
DROP FUNCTION nth_line, ends_of, wanted, compare, pages;

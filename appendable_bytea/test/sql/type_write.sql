--
-- appendable_write() and appendable_truncate(): the contract at its edges.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;

CREATE TABLE w (id int, data appendable_bytea);
INSERT INTO w VALUES (1, '0123456789');

-- replaced in place, by more, by less, by nothing
SELECT appendable_write(data, 'abc', 2, 3), appendable_write(data, 'abcdef', 2, 3), appendable_write(data, 'a', 2, 3), appendable_write(data, '', 2, 3) FROM w;
-- offset null appends, whatever the length; offset at the end appends too
SELECT appendable_write(data, 'abc', NULL, 3), appendable_write(data, 'abc', NULL, NULL), appendable_write(data, 'abc', 10, 5), appendable_write(data, '', NULL, 0) FROM w;
-- data null truncates at the offset, whatever the length
SELECT appendable_write(data, NULL, 4, 2), appendable_write(data, NULL, 0, NULL), appendable_write(data, NULL, 10, 0), appendable_write(data, NULL, NULL, NULL) FROM w;
-- length null, or beyond the end: up to the end
SELECT appendable_write(data, 'abc', 4, NULL), appendable_write(data, 'abc', 4, 1000), appendable_write(data, 'abc', 4, 9223372036854775807) FROM w;
-- insertion
SELECT appendable_write(data, 'abc', 0, 0), appendable_write(data, 'abc', 5, 0) FROM w;
-- errors
SELECT appendable_write(data, 'abc', 11, 0) FROM w;
SELECT appendable_write(data, NULL, 11, 0) FROM w;
SELECT appendable_write(data, 'abc', -1, 0) FROM w;
SELECT appendable_write(data, 'abc', 0, -1) FROM w;
SELECT appendable_write(NULL, 'abc', 0, 0);

SELECT appendable_truncate(data, 4), appendable_truncate(data, 10), appendable_truncate(data, 0), appendable_truncate(data, NULL) FROM w;
SELECT appendable_truncate(data, 11) FROM w;
SELECT appendable_truncate(data, -1) FROM w;

-- the same with a value in chunks: each result is what bytea functions make of it
CREATE FUNCTION expected(value bytea, data bytea, off bigint, len bigint) RETURNS bytea LANGUAGE sql AS $$
	SELECT CASE WHEN data IS NULL THEN substr(value, 1, coalesce(off, length(value))::int)
		WHEN off IS NULL THEN value || data
		ELSE substr(value, 1, off::int) || data || substr(value, least(off + coalesce(len, length(value)), length(value))::int + 1) END
$$;
INSERT INTO w SELECT n, (SELECT string_agg(sha256(int4send(i)), '' ORDER BY i) FROM generate_series(1, n) i) FROM unnest(ARRAY[10, 260, 3000]) n;
SELECT id, count(*), bool_and(result = expected(value, chunk, off, len)) AS right, bool_and(length(result) = length(expected(value, chunk, off, len))) AS lengths
FROM w, LATERAL (SELECT data::bytea AS value) v,
	(VALUES (NULL), (''::bytea), ('\x00'), (sha256('x'::bytea)), (convert_to(repeat('long', 3000), 'UTF8'))) c(chunk),
	unnest(ARRAY[NULL, 0, 1, 300, 8100, 8112, 16000, 90000]) o(off), unnest(ARRAY[NULL, 0, 1, 12000, 1000000]) l(len),
	LATERAL (SELECT appendable_write(data, chunk, off, len) AS result) r
WHERE id > 1 AND coalesce(off, 0) <= length(data) GROUP BY id ORDER BY id;
-- and when they are stored, over and over
CREATE TABLE w_model (id int, data bytea);
INSERT INTO w_model SELECT * FROM w WHERE id > 1;
DO $$
DECLARE
	n bigint;
	off bigint;
	len bigint;
	chunk bytea;
	row_id int;
BEGIN
	PERFORM setseed(0.4);
	FOR i IN 1 .. 150 LOOP
		FOR row_id IN SELECT id FROM w_model LOOP
			SELECT length(data) INTO n FROM w_model WHERE id = row_id;
			off := CASE WHEN random() < 0.3 THEN NULL ELSE floor(random() * (n + 1)) END;
			len := CASE WHEN random() < 0.5 THEN 0 ELSE floor(random() * 2000) END;
			chunk := CASE WHEN random() < 0.1 AND off > n / 2 THEN NULL ELSE convert_to(repeat(chr(65 + i % 26), floor(random() * random() * 3000)::int), 'UTF8') END;
			IF random() < 0.4 THEN
				len := length(chunk);
			END IF;
			UPDATE w SET data = appendable_write(data, chunk, off, len) WHERE id = row_id;
			UPDATE w_model SET data = expected(data, chunk, off, len) WHERE id = row_id;
		END LOOP;
		IF EXISTS (SELECT 1 FROM w JOIN w_model m USING (id) WHERE w.data <> m.data) THEN
			RAISE EXCEPTION 'the values differ after % writes', i;
		END IF;
	END LOOP;
END $$;
SELECT id, w.data = m.data AS right, length(m.data) > 3000 AS long FROM w JOIN w_model m USING (id) ORDER BY id;

DROP TABLE w, w_model;
DROP FUNCTION expected;

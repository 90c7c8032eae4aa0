-- What is computed from values in order is what ANALYZE computes, to the last digit: the
-- sample of a table of few rows is all of it, as that of ANALYZE is.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.statistics = on;
SET max_parallel_workers_per_gather = 0;
CREATE TYPE pg_temp.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TEMP TABLE kinds WITH (toast_tuple_target = 128) AS
SELECT n::int AS whole, (n * 37 % 11 - 5)::int AS signed, (n * 37 % 13 - 6)::smallint AS small, n::bigint * n * (1 - n % 3) * 100000000000 AS big,
	(4000000000::bigint + n * 53 % 40)::oid AS id, n % 3 = 0 AS truth, (chr(97 + (n * 7 % 20)::int))::"char" AS letter,
	(n * 71 % 17 - 8)::float8 / 3 AS dbl, CASE WHEN n % 19 = 0 THEN 'NaN' ELSE (n * 71 % 23 - 8)::float4 END AS flt,
	CASE WHEN n % 31 = 0 THEN 'NaN' ELSE (n * 29 % 41 - 20) * 1.25 END AS num, (n * 12345678901234567.5)::numeric AS digits,
	date '2026-01-01' + (n * 43 % 29 - 14)::int AS day, timestamptz '1999-12-31 12:00' + n * 31 % 47 * interval '5 hours' AS moment,
	time '00:00' + n * 31 % 53 * interval '20 minutes' AS hour, make_interval(mins => (n * 31 % 7)::int) AS span,
	('the same start ' || n * 61 % 37) COLLATE "C" AS word, (CASE WHEN n % 2 = 0 THEN 'abc' ELSE 'ab' END) COLLATE "C" AS two,
	(repeat('x', (n * 61 % 5 * 300)::int) || n % 9) COLLATE "C" AS wide, 'W ' || n * 61 % 37 AS spoken, ((n * 61 % 37)::text::char(9)) COLLATE "C" AS padded,
	('name ' || n * 61 % 37)::name AS called, decode(md5((n % 60)::text), 'hex') AS bytes, md5((n % 60)::text)::uuid AS unique_id,
	('10.0.' || n % 4 || '.' || n * 61 % 37)::inet AS address, CASE WHEN n % 4 = 0 THEN n * 17 % 10 END::int AS mostly_null, NULL::int AS nothing,
	(ARRAY['sad', 'ok', 'happy'])[n % 3 + 1]::pg_temp.mood AS mood, point(n, n) AS place, ARRAY[n % 5] AS list
FROM (SELECT i * 89 % 150 AS n FROM generate_series(0, 149) i) numbers;
-- values that are compressed or stored elsewhere, of the same first bytes
ALTER TABLE kinds ADD COLUMN long text COLLATE "C", ADD COLUMN longer text COLLATE "C", ADD COLUMN few int;
ALTER TABLE kinds ALTER COLUMN long SET STORAGE MAIN, ALTER COLUMN longer SET STORAGE EXTERNAL;
UPDATE kinds SET long = repeat('long and longer ', 60) || whole * 61 % 7, longer = repeat('longer than long ', 58) || whole * 61 % 47, few = abs(signed) * 2 - 3;
DELETE FROM kinds WHERE whole > 140;
CREATE TEMP TABLE kept WITH (toast_tuple_target = 128) AS SELECT * FROM kinds ORDER BY ctid;
DROP TABLE kinds;
SELECT max(pg_column_size(long)) < 200 AS compressed FROM kept;
SELECT pg_relation_size(reltoastrelid) > 0 AS elsewhere FROM pg_class WHERE oid = 'kept'::regclass;
ALTER TABLE kept ALTER COLUMN few SET STATISTICS 3, ALTER COLUMN signed SET STATISTICS 4, ALTER COLUMN word SET STATISTICS 5, ALTER COLUMN num SET STATISTICS 6,
	ALTER COLUMN moment SET STATISTICS 7, ALTER COLUMN bytes SET STATISTICS 8, ALTER COLUMN unique_id SET STATISTICS 9, ALTER COLUMN longer SET STATISTICS 10;
CREATE TEMP TABLE asked (kind text, attname name, null_frac real, avg_width int, n_distinct real, vals text, freqs real[], bounds text, correlation real);
CREATE FUNCTION pg_temp.ask() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	col name;
BEGIN
	FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'kept'::regclass AND attnum > 0
	LOOP
		EXECUTE format('EXPLAIN SELECT FROM kept, (VALUES (1), (2)) two WHERE kept.%I IS NOT NULL', col);
	END LOOP;
	INSERT INTO asked SELECT 'gathered', attname, null_frac, avg_width, n_distinct, most_common_vals::text, most_common_freqs, histogram_bounds::text, correlation
		FROM pg_temp_stats WHERE relation = 'kept'::regclass;
	RETURN (SELECT count(*) FROM asked);
END $$;
SELECT pg_temp.ask();
ANALYZE kept;
INSERT INTO asked SELECT 'analyzed', attname, null_frac, avg_width, n_distinct, most_common_vals::text, most_common_freqs, histogram_bounds::text, correlation
	FROM pg_stats WHERE tablename = 'kept' AND schemaname LIKE 'pg_temp%';
-- that tells something: values that are neither in order nor against it, most common ones and bounds
SELECT count(*) FILTER (WHERE abs(correlation) < 0.9) AS without_order, count(vals) AS most_common, count(bounds) AS bounds FROM asked WHERE kind = 'analyzed';
SELECT attname, count(*), min(null_frac), min(avg_width), max(avg_width), min(n_distinct), max(n_distinct), min(correlation), max(correlation)
	FROM asked GROUP BY attname, null_frac, avg_width, n_distinct, vals, freqs, bounds, correlation HAVING count(*) <> 2 ORDER BY 1;
DROP TABLE asked, kept;

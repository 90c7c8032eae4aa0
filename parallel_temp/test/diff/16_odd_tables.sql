-- Tables of unusual shape: no columns, many columns, rows of the greatest length,
-- tables of a type, names and options that are seldom used.

CREATE TEMP TABLE zero ();
INSERT INTO zero SELECT FROM generate_series(1, 5000);

--@ parallel
SELECT count(*) FROM zero;

CREATE TEMP TABLE zero_copy AS SELECT FROM zero;
INSERT INTO zero SELECT FROM zero;
SELECT count(*), (SELECT count(*) FROM zero_copy) FROM zero;

SELECT FROM zero LIMIT 2;

SELECT zero FROM zero LIMIT 2;

SELECT zero IS NULL, count(*) FROM zero GROUP BY 1;

ALTER TABLE zero ADD COLUMN x int DEFAULT 3, ADD COLUMN y text;
INSERT INTO zero SELECT i, 'y' || i FROM generate_series(1, 3000) i;
SELECT x, count(*), max(y) FROM zero GROUP BY x HAVING count(*) > 1;

ALTER TABLE zero DROP COLUMN x, DROP COLUMN y;
INSERT INTO zero SELECT FROM generate_series(1, 100);
INSERT INTO zero SELECT FROM zero;

--@ parallel
SELECT count(*), count(zero) FROM zero;

-- As many columns as a table may have, every one in use, most of them null.
DO $$BEGIN EXECUTE 'CREATE TEMP TABLE wide (' || (SELECT string_agg('c' || i || CASE i % 4 WHEN 0 THEN ' int' WHEN 1 THEN ' text' WHEN 2 THEN ' bool' ELSE ' bigint' END, ', ') FROM generate_series(1, 1600) i) || ')'; END$$;

INSERT INTO wide (c4, c5, c6, c7, c1598, c1599, c1600) SELECT i, 't' || i, i % 2 = 0, i * 10, i % 3 = 0, i, -i FROM generate_series(1, 3000) i;
INSERT INTO wide SELECT * FROM wide WHERE c4 % 2 = 0;
CREATE TEMP TABLE wide_copy AS SELECT * FROM wide;
ANALYZE wide (c4); ANALYZE wide_copy (c4);
SELECT sum(c1600), sum(c1599), count(*) FILTER (WHERE c1598), max(c5), count(c1), count(c6) FROM wide;

--@ parallel
SELECT sum(c1600), sum(c1599), count(*) FILTER (WHERE c1598), max(c5), count(c1), count(c6) FROM wide_copy;

--@ parallel
SELECT md5(string_agg(wide::text, '' ORDER BY c4, c1600)) FROM wide WHERE c4 % 50 = 0;

-- Rows that fill a page, and rows that fill all except one byte of it.
CREATE TEMP TABLE full_page (id int, a text, b text, c text, d text, e text);
ALTER TABLE full_page ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN, ALTER c SET STORAGE PLAIN, ALTER d SET STORAGE PLAIN, ALTER e SET STORAGE PLAIN;
INSERT INTO full_page SELECT i, repeat('a', 8100 + i % 30) FROM generate_series(1, 300) i;
SELECT count(*), sum(length(a)), pg_relation_size('full_page') FROM full_page;

INSERT INTO full_page SELECT i, repeat('a', 8200) FROM generate_series(1, 300) i;

INSERT INTO full_page SELECT i, repeat('a', 8130), repeat('b', i) FROM generate_series(1, 300) i;

CREATE TEMP TABLE too_long AS SELECT i, (SELECT array_agg(n) FROM generate_series(1, 1) n) FROM generate_series(1, 10) i;

--@ parallel
SELECT count(*), sum(length(a)), count(b) FROM full_page WHERE length(a) % 3 <> 1;

CREATE TEMP TABLE tight (id int, t text) WITH (fillfactor = 10, toast_tuple_target = 128, parallel_workers = 1);
INSERT INTO tight SELECT i, repeat(md5(i::text), i % 40) FROM generate_series(1, 2000) i;
INSERT INTO tight SELECT * FROM tight;

--@ parallel
SELECT count(*), sum(length(t)) FROM tight;

CREATE TEMP TABLE never (id int, t text) WITH (parallel_workers = 0);
INSERT INTO never SELECT id, left(t, 40) FROM tight;
SELECT count(*), sum(length(t)) FROM never;

-- Tables of a type that changes, and of inherited columns that are merged.
CREATE TYPE item AS (id int, name text);
CREATE TEMP TABLE typed OF item;
INSERT INTO typed SELECT i, 'n' || i FROM generate_series(1, 4000) i;
ALTER TYPE item ADD ATTRIBUTE price numeric CASCADE;
INSERT INTO typed SELECT i, 'm' || i, i / 4.0 FROM generate_series(1, 1000) i;

--@ parallel
SELECT count(*), sum(price), max(name) FROM typed;

ALTER TYPE item DROP ATTRIBUTE name CASCADE;
INSERT INTO typed SELECT * FROM typed WHERE price > 100;

--@ parallel
SELECT count(*), sum(price), max(typed::text) FROM typed;

CREATE TEMP TABLE holds (i item, is_ item[]);
INSERT INTO holds SELECT (id, price)::item, ARRAY[(id, 1)::item] FROM typed;
ALTER TYPE item ADD ATTRIBUTE late text;

ALTER TABLE holds DROP COLUMN i, DROP COLUMN is_;
ALTER TYPE item ADD ATTRIBUTE late text CASCADE;
SELECT count(*), count(late) FROM typed;

-- Names of the temporary schema.
SET search_path = pg_temp;
CREATE TABLE here (id int);
INSERT INTO here SELECT i FROM generate_series(1, 3000) i;
INSERT INTO pg_temp.here SELECT id FROM pg_temp.here;

--@ parallel
SELECT count(*), sum(id) FROM pg_temp.here;

RESET search_path;
DO $$BEGIN EXECUTE format('INSERT INTO %s.here SELECT 1 FROM generate_series(1, 500)', pg_my_temp_schema()::regnamespace); END$$;
SELECT count(*), sum(id) FROM here;

-- Rows that come from nowhere, and rules that put them elsewhere.
CREATE TEMP TABLE target (id int, v text DEFAULT 'd');
INSERT INTO target SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v, generate_series(1, 0) WHERE false;

INSERT INTO target SELECT i FROM generate_series(1, 2000) i OFFSET 1990;
INSERT INTO target (SELECT i, 'limit' FROM generate_series(1, 2000) i ORDER BY -i LIMIT 300);
INSERT INTO target TABLE target;
INSERT INTO target VALUES (1, 'one'), (2, DEFAULT), (DEFAULT, DEFAULT);
INSERT INTO target SELECT id, v FROM target UNION SELECT id, 'union' FROM here;
INSERT INTO target SELECT (json_populate_record(NULL::target, '{"id": 4}')).* FROM generate_series(1, 200);
SELECT v, count(*), sum(id) FROM target GROUP BY v;

CREATE VIEW pg_temp.over_target AS SELECT id + 1 AS id, v FROM target;
CREATE RULE ins AS ON INSERT TO over_target DO INSTEAD (INSERT INTO target SELECT new.id - 1, new.v; DELETE FROM target WHERE id = 3);
INSERT INTO over_target SELECT id, 'rule' FROM here ORDER BY id LIMIT 700;
SELECT v, count(*), sum(id) FROM over_target GROUP BY v;

MERGE INTO target USING (SELECT DISTINCT id FROM here) h ON target.id = h.id AND target.v = 'rule' WHEN MATCHED AND h.id % 2 = 0 THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (h.id, 'merged');
SELECT v, count(*), sum(id) FROM target GROUP BY v;

DROP TYPE item CASCADE;

-- Scans, filters, aggregates, sorting, windows over one temporary table.

CREATE TEMP TABLE t (id int, grp int, val bigint, txt text, num numeric, d date, flag bool);
INSERT INTO t SELECT i, i % 37, (i * 7919::bigint) % 100003, md5(i::text), i / 7.0, date '2020-01-01' + i % 1000,
	CASE WHEN i % 5 = 0 THEN NULL ELSE i % 2 = 0 END FROM generate_series(1, 20000) i;
CREATE TEMP TABLE empty (a int, b text);
CREATE TEMP TABLE one (a int);
INSERT INTO one VALUES (42);

--@ parallel
SELECT count(*) FROM t;

--@ parallel
SELECT count(*), count(flag), sum(id), min(val), max(val), sum(num), avg(num), min(txt), max(txt), min(d), bool_or(flag), bit_and(id), every(flag) FROM t;

--@ parallel
SELECT * FROM t WHERE val < 300;

--@ parallel
SELECT id, txt FROM t WHERE txt LIKE '%abc%' AND flag;

--@ parallel
SELECT id FROM t WHERE flag IS NULL AND grp = 3;

--@ parallel
SELECT id, upper(txt), val + grp FROM t WHERE num BETWEEN 100 AND 120;

--@ parallel
SELECT grp, count(*), sum(val), max(txt) FROM t GROUP BY grp;

--@ parallel
SELECT grp, flag, count(*), avg(val) FROM t GROUP BY grp, flag HAVING count(*) > 100;

--@ parallel
SELECT grp % 5, grp % 3, sum(val) FROM t GROUP BY GROUPING SETS ((grp % 5), (grp % 3), ());

--@ parallel
SELECT grp, count(DISTINCT val % 100), sum(val) FILTER (WHERE flag) FROM t GROUP BY grp;

--@ parallel
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY val), mode() WITHIN GROUP (ORDER BY grp) FROM t;

--@ parallel
--@ ordered
SELECT id, val FROM t ORDER BY val, id LIMIT 200;

--@ parallel
--@ ordered
SELECT id, txt FROM t WHERE grp < 4 ORDER BY txt COLLATE "C" DESC, id OFFSET 17;

--@ parallel
SELECT DISTINCT grp, flag FROM t;

--@ parallel
SELECT DISTINCT ON (grp) grp, id, val FROM t ORDER BY grp, val, id;

--@ parallel
SELECT id, rank() OVER (PARTITION BY grp ORDER BY val), sum(val) OVER (PARTITION BY grp ORDER BY id) FROM t WHERE id % 11 = 0;

--@ parallel
SELECT grp, sum(count(*)) OVER (ORDER BY grp) FROM t GROUP BY grp;

--@ parallel
SELECT id, lag(val, 3) OVER w, first_value(txt) OVER w FROM t WHERE grp = 11 WINDOW w AS (ORDER BY id);

--@ parallel
SELECT string_agg(txt, ',' ORDER BY id) FROM t WHERE val < 100;

--@ parallel
SELECT t FROM t WHERE val < 60;

--@ parallel
SELECT (t).id, row_to_json(t) FROM t WHERE val < 60;

--@ parallel
SELECT count(*) FROM t WHERE (id, grp) < (5000, 3);

--@ parallel
SELECT count(*) FROM t WHERE id = ANY (ARRAY[1, 5, 900, 77777]) OR val IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);

SELECT count(*) FROM empty;

SELECT * FROM empty;

SELECT a, count(*) FROM empty GROUP BY a;

SELECT sum(a), max(b) FROM empty;

SELECT * FROM one;

SELECT count(*) FROM one, t WHERE t.id = one.a;

-- System columns.
--@ parallel
SELECT ctid, id FROM t WHERE val < 200;

--@ parallel
SELECT tableoid::regclass, count(*) FROM t GROUP BY tableoid;

--@ parallel
SELECT count(DISTINCT xmin::text), count(DISTINCT cmin::text), count(*) FILTER (WHERE xmax::text <> '0') FROM t;

SELECT id FROM t WHERE ctid = '(3,7)';

SELECT count(*) FROM t WHERE ctid >= '(10,1)' AND ctid < '(20,1)';

-- Stock's samplers stay as they are.
SELECT count(*), sum(id) FROM t TABLESAMPLE SYSTEM (30) REPEATABLE (7);

SELECT count(*), sum(id) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7);

SELECT count(*) FROM t a, t TABLESAMPLE SYSTEM (30) REPEATABLE (7) b WHERE a.id = b.id;

-- Limits stop workers early.
--@ ordered
SELECT count(*) FROM (SELECT * FROM t LIMIT 13) s;

SELECT EXISTS (SELECT 1 FROM t WHERE val = 5), EXISTS (SELECT 1 FROM t WHERE val < 0);

SELECT count(*) FROM (SELECT 1 FROM t OFFSET 19990 LIMIT 100) s;

-- No columns, many columns, wide rows.
CREATE TEMP TABLE nocol ();
INSERT INTO nocol DEFAULT VALUES; INSERT INTO nocol DEFAULT VALUES;
SELECT count(*) FROM nocol;

DO $$BEGIN
	EXECUTE 'CREATE TEMP TABLE manycol AS SELECT ' || (SELECT string_agg(format('CASE WHEN i %% %s = 0 THEN NULL ELSE i * %s END AS c%s', n + 1, n, n), ', ') FROM generate_series(1, 120) n) ||
		' FROM generate_series(1, 2000) i';
END$$;

--@ parallel
SELECT count(c1), count(c7), count(c8), count(c9), sum(c17), sum(c64), sum(c120), count(*) FILTER (WHERE c99 IS NULL) FROM manycol;

--@ parallel
SELECT c120, c1, c64 FROM manycol WHERE c3 % 100 = 0;

CREATE TEMP TABLE wide (id int, a char(1900), b char(1900), c char(1900), e char(1900));
ALTER TABLE wide ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN, ALTER c SET STORAGE PLAIN, ALTER e SET STORAGE PLAIN;
INSERT INTO wide SELECT i, i::text, (i * 2)::text, (i * 3)::text, (i * 5)::text FROM generate_series(1, 400) i;

SELECT id, trim(a), trim(e) FROM wide WHERE b::int % 20 = 0;

-- (Without statistics the planner takes so wide a table for one row, and with pages
-- at their price the rows weigh too little for the plans to differ.)
ANALYZE wide;
SET seq_page_cost = 0.01;

--@ parallel
SELECT count(*), sum(c::int), count(DISTINCT md5(e)) FROM wide;

RESET seq_page_cost;

-- Rows without room for a second one, and pages made empty again.
DELETE FROM wide WHERE id % 3 = 0;
SELECT count(*), sum(id) FROM wide;

DELETE FROM wide;
SELECT count(*), sum(id) FROM wide;

INSERT INTO wide SELECT i, i::text, 'x', 'y', 'z' FROM generate_series(1, 100) i;
SELECT count(*), sum(a::int) FROM wide;

-- Settings that a plan depends on.
SET enable_hashagg = off;
SELECT grp, count(*) FROM t GROUP BY grp;
RESET enable_hashagg;

SET enable_sort = off; SET enable_incremental_sort = off;
SELECT id FROM t WHERE val < 500 ORDER BY val, id;
RESET enable_sort; RESET enable_incremental_sort;

SET enable_seqscan = off;
SELECT count(*), sum(val) FROM t;
RESET enable_seqscan;

SET enable_gathermerge = off;
SELECT count(*) FROM (SELECT id FROM t ORDER BY txt, id OFFSET 100) s;
RESET enable_gathermerge;

SET work_mem = '64kB';
SELECT val % 3000, count(*), min(txt) FROM t GROUP BY 1;
SELECT count(*) FROM (SELECT DISTINCT txt, val FROM t) s;
RESET work_mem;

ALTER TABLE t SET (parallel_workers = 3);
SELECT count(*), sum(val) FROM t;

ALTER TABLE t SET (parallel_workers = 0);
SELECT count(*), sum(val) FROM t;

ALTER TABLE t RESET (parallel_workers);

-- The same statement many times: nothing is used up.
DO $$
DECLARE n bigint;
BEGIN
	FOR i IN 1 .. 12 LOOP
		EXECUTE 'SELECT count(*) FROM t WHERE grp <> ' || i INTO n;
		IF n <> 20000 - (SELECT count(*) FROM t WHERE grp = i) THEN
			RAISE EXCEPTION 'wrong count % for %', n, i;
		END IF;
	END LOOP;
END$$;

-- Statistics are gathered from the same rows.
ANALYZE t;
SELECT n_distinct FROM pg_stats WHERE tablename = 't' AND attname = 'grp';

--@ parallel
SELECT grp, count(*) FROM t WHERE d > '2021-06-01' GROUP BY grp;

VACUUM t;
SELECT count(*), sum(id) FROM t;

VACUUM (FREEZE) t;
SELECT count(*), sum(id) FROM t;

-- Places where the session's buffers, its files and its snapshots could disagree.

CREATE TEMP TABLE t (id int, a int, pad text);
INSERT INTO t SELECT i, i % 100, repeat('p', 150) FROM generate_series(1, 8000) i;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_id ON t (id);
CREATE TEMP TABLE small AS SELECT i AS k FROM generate_series(1, 40) i;
CREATE TABLE perm AS SELECT i AS id, i % 100 AS a FROM generate_series(1, 6000) i;
ANALYZE t; ANALYZE small; ANALYZE perm;

-- The visibility map in the file is older than the one in the buffers.
VACUUM t;
SELECT pg_evict_temp_relation('t') > 0;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET random_page_cost = 1;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;

DELETE FROM t WHERE id % 3 = 0;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;

BEGIN;
DELETE FROM t WHERE id % 5 = 0;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;
SELECT count(t.a), sum(t.a) FROM perm JOIN t USING (a) WHERE perm.id < 500;
ROLLBACK;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;

UPDATE t SET pad = 'q' WHERE id % 4 = 0;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;

VACUUM t;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;

INSERT INTO t SELECT i, i % 100, 'late' FROM generate_series(20001, 23000) i;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;

SELECT pg_evict_temp_relation('t') > 0;
SELECT count(a), sum(a) FROM t WHERE a BETWEEN 10 AND 90;
RESET enable_seqscan; RESET enable_bitmapscan; RESET random_page_cost;

-- An index that grows, splits and loses entries between queries.
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(*), sum(id) FROM t WHERE id > 100;
INSERT INTO t SELECT i, 5, 'split' FROM generate_series(100, 4000) i;
SELECT count(*), sum(id) FROM t WHERE id > 100;
UPDATE t SET id = id + 50000 WHERE pad = 'split';
SELECT count(*), sum(id) FROM t WHERE id > 100;
DELETE FROM t WHERE id > 50000;
SELECT count(*), sum(id) FROM t WHERE id > 100;
VACUUM t;
SELECT count(*), sum(id) FROM t WHERE id > 100;
SELECT pg_evict_temp_relation('t') > 0;
SELECT count(*), sum(id) FROM t WHERE id > 100;
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;

-- Gather run again for each outer row.
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(*), sum(t.id) FROM small JOIN t ON t.a = small.k;

SELECT small.k, x.c FROM small, LATERAL (SELECT count(*) AS c FROM t WHERE t.a < small.k) x WHERE small.k < 12;

SELECT small.k, x.c FROM small LEFT JOIN (SELECT a, count(*) AS c FROM t GROUP BY a) x ON x.a = small.k;

SELECT k, (SELECT count(*) FROM t WHERE t.a = small.k), (SELECT max(id) FROM t) FROM small WHERE k < 12;

SELECT count(*) FROM small WHERE k IN (SELECT a FROM t WHERE id % 7 = small.k % 7);
RESET ALL;
SET jit = off;

-- A cursor keeps pages pinned while others queries run, and while the pages change.
BEGIN;
DECLARE c CURSOR FOR SELECT id, a FROM t WHERE id < 20000;
FETCH 3 c;
SELECT count(*), sum(id) FROM t;
UPDATE t SET a = a + 1 WHERE id < 50;
SELECT count(*), sum(a) FROM t;
FETCH 3 c;
DECLARE d CURSOR FOR SELECT id, a FROM t WHERE id > 30;
FETCH 2 d;
DELETE FROM t WHERE id BETWEEN 5 AND 25;
SELECT count(*), sum(a) FROM t;
SAVEPOINT s;
DECLARE e CURSOR FOR SELECT k FROM small;
FETCH 2 e;
SELECT count(*), sum(a) FROM t, small WHERE t.a = small.k;
ROLLBACK TO s;
SELECT count(*), sum(a) FROM t, small WHERE t.a = small.k;
FETCH 3 c;
FETCH 2 d;
COMMIT;
SELECT count(*), sum(a) FROM t;

-- The pages came to the buffers with the feature off, or are pinned when it is turned on.
SET parallel_temp.enabled = off;
CREATE TEMP TABLE early AS SELECT i AS id, repeat('e', 100) AS pad FROM generate_series(1, 5000) i;
SELECT count(*), sum(id) FROM early;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM early;
FETCH 2 c;
RESET parallel_temp.enabled;
SELECT count(*), sum(id) FROM early;
DELETE FROM early WHERE id % 2 = 0;
SELECT count(*), sum(id) FROM early;
FETCH 2 c;
COMMIT;
SELECT count(*), sum(id) FROM early;

-- A function that adds rows to a table made in the same transaction while it is read.
CREATE FUNCTION pg_temp.adds(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i % 100 = 0 THEN INSERT INTO z SELECT 100000 + i, 'added' FROM generate_series(1, 200); END IF;
	RETURN i;
END$$;
CREATE FUNCTION pg_temp.sees() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM z); END';
BEGIN;
CREATE TEMP TABLE z (id int, s text);
INSERT INTO z SELECT i, 'first' FROM generate_series(1, 1000) i;
SELECT count(pg_temp.adds(id)) FROM z;
SELECT s, count(*) FROM z GROUP BY s;
SELECT pg_temp.sees(), count(*) FROM z;
DECLARE c CURSOR FOR SELECT s, count(*) FROM z GROUP BY s;
INSERT INTO z SELECT i, 'second' FROM generate_series(1, 1000) i;
FETCH ALL c;
SELECT s, count(*) FROM z GROUP BY s;
SAVEPOINT s;
TRUNCATE z;
INSERT INTO z SELECT i, 'third' FROM generate_series(1, 500) i;
SELECT s, count(*) FROM z GROUP BY s;
ROLLBACK TO s;
SELECT s, count(*) FROM z GROUP BY s;
COMMIT;
SELECT s, count(*) FROM z GROUP BY s;

-- Command ids of rows that the transaction touched twice.
BEGIN;
INSERT INTO z SELECT i, 'mine' FROM generate_series(1, 300) i;
UPDATE z SET s = 'twice' WHERE s = 'mine' AND id < 200;
DELETE FROM z WHERE s = 'twice' AND id < 100;
SELECT s, count(*), count(DISTINCT xmin::text), count(DISTINCT cmin::text), count(DISTINCT cmax::text), bool_and(xmax::text = '0') FROM z GROUP BY s;
SELECT count(*) FROM z WHERE xmin::text::bigint = (SELECT max(xmin::text::bigint) FROM z);
COMMIT;

-- A domain whose check is of the leader alone.
CREATE FUNCTION pg_temp.listed(i int) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN i >= (SELECT min(k) - 1 FROM small); END';
CREATE DOMAIN pg_temp.of_list AS int CHECK (pg_temp.listed(VALUE));
SELECT count(*), sum((id % 100)::pg_temp.of_list) FROM t WHERE id < 500;

SELECT count(*) FROM t WHERE (a - 100000)::pg_temp.of_list > 0;
SELECT count(*), sum(a) FROM t;

-- Row types, whole rows and system columns above a Gather and a join.
SELECT count(x), count(y), max(x::text) FROM (SELECT t AS x, small AS y FROM t JOIN small ON t.a = small.k) q;

SELECT (x).a, count(*), max((x).id) FROM (SELECT t AS x FROM t) q WHERE (x).a < 9 GROUP BY 1;

SELECT t.tableoid = 't'::regclass, small.tableoid = 'small'::regclass, count(*) FROM t LEFT JOIN small ON t.a = small.k GROUP BY 1, 2;

SELECT count(*) FROM t x JOIN t y ON x.ctid = y.ctid;

SELECT count(*) FROM t WHERE ctid IN (SELECT ctid FROM t WHERE a < 10);

-- Many temporary tables in one query, with few buffers for each.
DO $$BEGIN FOR i IN 1 .. 30 LOOP EXECUTE format('CREATE TEMP TABLE m%s AS SELECT g AS id, repeat(''m'', 300) AS pad FROM generate_series(1, 200) g', i); END LOOP; END$$;

DO $$
DECLARE n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM (' || (SELECT string_agg(format('SELECT id FROM m%s', i), ' UNION ALL ') FROM generate_series(1, 30) i) || ') x' INTO n;
	IF n <> 6000 THEN RAISE EXCEPTION 'wrong count %', n; END IF;
	SET LOCAL join_collapse_limit = 1;
	EXECUTE 'SELECT count(*) FROM m1' || (SELECT string_agg(format(' JOIN m%s USING (id)', i), '') FROM generate_series(2, 30) i) INTO n;
	IF n <> 200 THEN RAISE EXCEPTION 'wrong count %', n; END IF;
	EXECUTE 'CREATE TEMP TABLE joined AS SELECT x.id, x.pad FROM t x JOIN m1 USING (id) JOIN m2 USING (id) JOIN m3 USING (id)';
	UPDATE m1 SET pad = 'u'; DELETE FROM m2 WHERE id > 100;
	EXECUTE 'SELECT count(*) FROM (' || (SELECT string_agg(format('SELECT id FROM m%s', i), ' UNION ALL ') FROM generate_series(1, 30) i) || ') x' INTO n;
	IF n <> 5900 THEN RAISE EXCEPTION 'wrong count %', n; END IF;
END$$;

SELECT count(*) FROM joined;

-- EXPLAIN ANALYZE runs the same plan.
DO $$
DECLARE j json;
BEGIN
	FOR i IN 1 .. 5 LOOP
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, VERBOSE, FORMAT JSON) SELECT a, count(*) FROM t JOIN small ON t.a = small.k GROUP BY a' INTO j;
		IF (j -> 0 -> 'Plan' ->> 'Actual Rows')::numeric <> 40 THEN RAISE EXCEPTION 'wrong rows: %', j; END IF;
	END LOOP;
END$$;

DROP TABLE perm;

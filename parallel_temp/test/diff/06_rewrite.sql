-- Statements that change a table's file or shape, in and out of transactions.

CREATE TEMP TABLE t (id int, a int, b text);
INSERT INTO t SELECT i, i % 100, 'b' || i FROM generate_series(1, 6000) i;
SELECT count(*), sum(a) FROM t;

-- Fast defaults: old rows lack the column.
ALTER TABLE t ADD COLUMN c int DEFAULT 7;
ALTER TABLE t ADD COLUMN d text DEFAULT 'dflt';
ALTER TABLE t ADD COLUMN e text;
INSERT INTO t (id, a, b, c) SELECT i, i % 100, 'n' || i, 8 FROM generate_series(6001, 7000) i;

--@ parallel
SELECT c, d, e, count(*), sum(a) FROM t GROUP BY c, d, e;

--@ parallel
SELECT t FROM t WHERE id % 1500 = 1;

UPDATE t SET e = 'set' WHERE id % 10 = 0;
SELECT c, d, e, count(*), sum(a) FROM t GROUP BY c, d, e;

ALTER TABLE t ALTER c SET DEFAULT 99;
INSERT INTO t (id, a) VALUES (7001, 1);
SELECT c, d, e, count(*) FROM t GROUP BY c, d, e;

-- Dropped columns.
ALTER TABLE t DROP COLUMN a;

--@ parallel
SELECT c, d, count(*), max(b) FROM t GROUP BY c, d;

SELECT * FROM t WHERE id % 2000 = 1;

ALTER TABLE t ADD COLUMN a bigint DEFAULT -1;
INSERT INTO t (id, a) SELECT i, i FROM generate_series(8001, 8100) i;
SELECT count(*), sum(a), count(e) FROM t;

ALTER TABLE t DROP COLUMN e, DROP COLUMN d;
SELECT count(*), sum(a), count(b), sum(c) FROM t;

-- Generated columns, domains, checks.
CREATE TEMP TABLE gen (id int, twice int GENERATED ALWAYS AS (id * 2) STORED, txt text GENERATED ALWAYS AS ('v' || id) STORED);
INSERT INTO gen SELECT i FROM generate_series(1, 5000) i;

--@ parallel
SELECT count(*), sum(twice), max(txt) FROM gen WHERE twice % 3 = 0;

UPDATE gen SET id = id + 1;
SELECT count(*), sum(twice), max(txt) FROM gen WHERE twice % 3 = 0;

-- A new file in the same transaction.
BEGIN;
SELECT count(*) FROM t;
ALTER TABLE t ALTER c TYPE bigint USING c * 10;
SELECT count(*), sum(c) FROM t;
SAVEPOINT a;
ALTER TABLE t ALTER c TYPE text USING 'c' || c;
SELECT c, count(*) FROM t GROUP BY c;
ROLLBACK TO a;
SELECT count(*), sum(c) FROM t;
COMMIT;

--@ parallel
SELECT count(*), sum(c) FROM t;

BEGIN;
TRUNCATE t;
SELECT count(*) FROM t;
INSERT INTO t (id, c) SELECT i, i FROM generate_series(1, 1000) i;

--@ parallel
SELECT count(*), sum(c) FROM t;

SAVEPOINT a;
TRUNCATE t;
SELECT count(*), sum(c) FROM t;
INSERT INTO t (id, c) SELECT i, 1 FROM generate_series(1, 4000) i;
SELECT count(*), sum(c) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(c) FROM t;
ROLLBACK;
SELECT count(*), sum(c) FROM t;

TRUNCATE t;
SELECT count(*), sum(c) FROM t;
INSERT INTO t (id, c) SELECT i, i % 50 FROM generate_series(1, 6000) i;
SELECT count(*), sum(c) FROM t;

CREATE INDEX t_c ON t (c, id);
CLUSTER t USING t_c;

--@ parallel
SELECT count(*), sum(c), sum(id) FROM t;

BEGIN;
DELETE FROM t WHERE id % 3 = 0;
CLUSTER t USING t_c;
SELECT count(*), sum(c), sum(id) FROM t;
ROLLBACK;
SELECT count(*), sum(c), sum(id) FROM t;

DELETE FROM t WHERE id % 3 = 0;
VACUUM FULL t;
SELECT count(*), sum(c), sum(id) FROM t;

VACUUM t;
DELETE FROM t WHERE id > 3000;
VACUUM t;
SELECT count(*), sum(c), sum(id) FROM t;

REINDEX TABLE t;
SELECT count(*), sum(c), sum(id) FROM t;

ALTER TABLE t SET (fillfactor = 50);
ALTER TABLE t RENAME TO t2;
SELECT count(*), sum(c), sum(id) FROM t2;
ALTER TABLE t2 RENAME COLUMN c TO cc;
SELECT count(*), sum(cc), sum(id) FROM t2;

-- Created in the same transaction, and gone again.
BEGIN;
CREATE TEMP TABLE fresh (x int, y text);
SELECT count(*) FROM fresh;
INSERT INTO fresh SELECT i, 'y' || i FROM generate_series(1, 5000) i;

--@ parallel
SELECT count(*), sum(x), max(y) FROM fresh;

SAVEPOINT a;
DROP TABLE fresh;
ROLLBACK TO a;
SELECT count(*), sum(x), max(y) FROM fresh;
ROLLBACK;
SELECT count(*) FROM fresh;

BEGIN;
CREATE TEMP TABLE fresh AS SELECT i AS x FROM generate_series(1, 5000) i;
SELECT count(*), sum(x) FROM fresh;
DROP TABLE fresh;
COMMIT;
SELECT count(*) FROM fresh;

-- The same name again, many times: no stale page of the former file.
DO $$
DECLARE n bigint;
BEGIN
	FOR i IN 1 .. 12 LOOP
		EXECUTE format('CREATE TEMP TABLE again AS SELECT g AS x, %s AS run FROM generate_series(1, %s) g', i, 300 * i);
		EXECUTE 'SELECT count(*) FROM again WHERE run = ' || i INTO n;
		IF n <> 300 * i THEN RAISE EXCEPTION 'run %: % rows', i, n; END IF;
		IF i % 2 = 0 THEN
			EXECUTE 'TRUNCATE again';
			EXECUTE 'SELECT count(*) FROM again' INTO n;
			IF n <> 0 THEN RAISE EXCEPTION 'run %: % rows after TRUNCATE', i, n; END IF;
		END IF;
		EXECUTE 'DROP TABLE again';
	END LOOP;
END$$;

-- Shrinks and grows.
CREATE TEMP TABLE s (x int, pad text);
INSERT INTO s SELECT i, repeat('x', 300) FROM generate_series(1, 6000) i;
DELETE FROM s WHERE x > 100;
VACUUM s;
SELECT count(*), sum(x) FROM s;
INSERT INTO s SELECT i, repeat('y', 300) FROM generate_series(1, 6000) i;
SELECT count(*), sum(x), count(*) FILTER (WHERE pad LIKE 'y%') FROM s;

-- Persistence and access method changes are refused alike.
ALTER TABLE s SET LOGGED;

ALTER TABLE s SET UNLOGGED;

-- COPY in and out.
COPY (SELECT x FROM s WHERE x % 1000 = 0) TO STDOUT;

COPY s (x) TO PROGRAM 'cat > /dev/null';

BEGIN;
TRUNCATE s;
COPY s FROM PROGRAM 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "$i	pad$i"; done' WITH (FREEZE);
SELECT count(*), sum(x), max(pad) FROM s;
COMMIT;
SELECT count(*), sum(x), max(pad) FROM s;

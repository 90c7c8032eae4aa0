-- Tables whose pages workers fill, from permanent and temporary tables: rows, tags,
-- and what becomes of them afterwards.

CREATE TEMP TABLE near AS SELECT i AS id, i % 13 AS k, CASE WHEN i % 5 > 0 THEN md5(i::text) END AS s, CASE WHEN i % 400 = 0 THEN repeat(md5(i::text), 300) WHEN i % 90 = 0 THEN repeat('z', 9000) ELSE 'w' || i END AS wide FROM generate_series(1, 20000) i;
CREATE TABLE far AS SELECT * FROM near;
ANALYZE near, far;

CREATE TEMP TABLE a AS SELECT * FROM far;
SELECT count(*), sum(id), sum(k), count(s), sum(hashtext(s)::bigint), sum(hashtext(wide)::bigint), count(DISTINCT ctid) = count(*) FROM a;

CREATE TEMP TABLE b AS SELECT * FROM near WHERE k < 12;
SELECT count(*), sum(id), sum(k), count(s), sum(hashtext(s)::bigint), sum(hashtext(wide)::bigint), count(DISTINCT ctid) = count(*) FROM b;

SELECT n.id, n.s, f.wide INTO TEMP c FROM near n JOIN far f USING (id) WHERE f.k <> 3;
SELECT count(*), sum(id), sum(hashtext(s)::bigint), sum(hashtext(wide)::bigint) FROM c;

CREATE TEMP TABLE e (id int NOT NULL, gone int, k int, s text, wide text) WITH (fillfactor = 50);
ALTER TABLE e DROP COLUMN gone;
ALTER TABLE e ADD COLUMN n numeric(10, 2);
INSERT INTO e SELECT id, k, s, wide, id / 3.0 FROM far;
INSERT INTO e (id, wide) SELECT id + 100000, wide FROM near;
INSERT INTO e (id, wide) SELECT nullif(id, 9999), wide FROM near;
SELECT count(*), sum(id), sum(k), sum(n), sum(hashtext(s)::bigint), sum(hashtext(wide)::bigint), count(DISTINCT ctid) = count(*) FROM e;

BEGIN;
SAVEPOINT one;
INSERT INTO e SELECT id, k, s, wide FROM far;
SELECT count(*), sum(id) FROM e;
ROLLBACK TO one;
SELECT count(*), sum(id) FROM e;
SAVEPOINT two;
INSERT INTO e SELECT id, k, s, wide FROM far WHERE k = 1;
CREATE TEMP TABLE f AS SELECT * FROM far;
CREATE TEMP TABLE g AS SELECT f.* FROM f JOIN near USING (id);
RELEASE two;
DELETE FROM f WHERE id % 2 = 0;
UPDATE g SET k = k + 1 WHERE id % 3 = 0;
SELECT (SELECT count(*) FROM e), (SELECT sum(k) FROM f), (SELECT sum(k) FROM g);
COMMIT;
SELECT (SELECT count(*) FROM e), (SELECT sum(k) FROM f), (SELECT sum(k) FROM g);

BEGIN;
CREATE TEMP TABLE h (LIKE near);
INSERT INTO h SELECT * FROM far;
INSERT INTO h SELECT * FROM near;
DECLARE d CURSOR FOR SELECT count(*), sum(id) FROM h;
INSERT INTO h SELECT * FROM far WHERE k = 2;
FETCH d;
UPDATE h SET s = 'u' WHERE k = 4;
SELECT s = 'u', count(*) FROM h GROUP BY 1 ORDER BY 1;
COMMIT;
CREATE INDEX ON h (id);
INSERT INTO h SELECT * FROM far;
SET enable_seqscan = off;
SELECT count(*), sum(id), count(DISTINCT ctid) FROM h WHERE id BETWEEN 5 AND 19990;
RESET enable_seqscan;
VACUUM FULL h;
SELECT count(*), sum(id) FROM h;

DELETE FROM a WHERE id % 2 = 0;
VACUUM a;
INSERT INTO a SELECT * FROM near WHERE id % 2 = 0;
INSERT INTO a SELECT * FROM far WHERE id % 2 = 1 AND k = 0;
SELECT count(*), sum(id), sum(hashtext(wide)::bigint), count(DISTINCT ctid) = count(*) FROM a;

PREPARE p AS INSERT INTO b SELECT * FROM far WHERE k = $1;
EXECUTE p(1);
EXECUTE p(2);
CREATE TEMP TABLE j AS SELECT * FROM b WHERE id > 7;
DO $$ DECLARE n bigint; BEGIN INSERT INTO j SELECT * FROM far; GET DIAGNOSTICS n = ROW_COUNT; RAISE WARNING '%', n; CREATE TEMP TABLE l AS SELECT * FROM j; GET DIAGNOSTICS n = ROW_COUNT; RAISE WARNING '%', n; END $$;
SELECT (SELECT count(*) FROM b), (SELECT sum(id) FROM j), (SELECT sum(id) FROM l);

INSERT INTO j SELECT id, 1 / (id - 18000), s, wide FROM far;
CREATE TEMP TABLE m AS SELECT id, 1 / (id - 18000) FROM near;
SELECT count(*), sum(id) FROM j;

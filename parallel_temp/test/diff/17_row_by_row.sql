-- Tables filled row by row: a transaction each, committed or not.  Scans leave hint
-- bits there and prune, and every later one reads what was left.

CREATE TEMP TABLE t (id int, v int, s text);
CREATE INDEX t_id ON t (id);
CREATE PROCEDURE fill(first int, last int, bad int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN first .. last LOOP BEGIN INSERT INTO t VALUES (i, i % 100, repeat('x', 30 + i % 50)); IF i % bad = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; IF i % 500 = 0 THEN COMMIT; END IF; END LOOP; END $$;
CALL fill(1, 6000, 11);

--@ parallel
SELECT count(*), sum(v), sum(length(s)) FROM t;

SELECT count(*), sum(v), sum(length(s)) FROM t;

--@ parallel
SELECT a.v, count(*), sum(b.id) FROM t a JOIN t b ON a.v = b.id GROUP BY a.v ORDER BY a.v;

DELETE FROM t WHERE id % 7 = 0;
UPDATE t SET v = v + 1 WHERE id % 13 = 0;

--@ parallel
SELECT count(*), sum(v), sum(length(s)) FROM t;

SELECT count(*), sum(v), sum(length(s)) FROM t;

BEGIN;
DELETE FROM t WHERE id % 3 = 0;
SAVEPOINT a;
UPDATE t SET v = -v WHERE id % 5 = 0;
SELECT count(*), sum(v), sum(length(s)) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(v), sum(length(s)) FROM t;
DECLARE c CURSOR FOR SELECT count(*), sum(v) FROM t;
INSERT INTO t SELECT i, 1, 'later' FROM generate_series(7001, 8000) i;
SELECT count(*), sum(v), sum(length(s)) FROM t;
FETCH c;
ROLLBACK;

SELECT count(*), sum(v), sum(length(s)) FROM t;

UPDATE t SET v = v + 1;
UPDATE t SET v = v + 1;

--@ parallel
SELECT count(*), sum(v), sum(length(s)) FROM t;

SET enable_seqscan = off;
SELECT count(*), sum(v) FROM t WHERE id < 500;
RESET enable_seqscan;
SELECT id, v FROM t WHERE id % 500 = 1 ORDER BY id;

DROP PROCEDURE fill;

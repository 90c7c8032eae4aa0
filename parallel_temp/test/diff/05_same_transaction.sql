-- What the session itself did and has not committed: inserts, updates, deletes,
-- savepoints, command ids, row locks.

CREATE TEMP TABLE t (id int, v int, s text);
INSERT INTO t SELECT i, i % 100, 'row ' || i FROM generate_series(1, 10000) i;

BEGIN;
INSERT INTO t SELECT i, i % 100, 'new ' || i FROM generate_series(10001, 13000) i;

--@ parallel
SELECT count(*), sum(v), min(s) FROM t;

DELETE FROM t WHERE id % 7 = 0;

--@ parallel
SELECT count(*), sum(v), min(s) FROM t;

UPDATE t SET v = v + 1 WHERE id % 5 = 0;
SELECT count(*), sum(v) FROM t;

UPDATE t SET v = v + 1 WHERE id % 5 = 0;
UPDATE t SET s = s || ' longer than it was before, so that it must move' WHERE id % 11 = 0;
SELECT count(*), sum(v), sum(length(s)) FROM t;

SAVEPOINT a;
DELETE FROM t WHERE id % 2 = 0;
SELECT count(*), sum(v) FROM t;

SAVEPOINT b;
INSERT INTO t SELECT i, -1, 'inner' FROM generate_series(20001, 21000) i;
SELECT count(*), sum(v) FROM t;

ROLLBACK TO b;
SELECT count(*), sum(v) FROM t;

INSERT INTO t SELECT i, -2, 'inner' FROM generate_series(20001, 20500) i;
RELEASE a;
SELECT count(*), sum(v) FROM t;

SAVEPOINT c;
UPDATE t SET v = 0;
SELECT count(*), sum(v) FROM t;

ROLLBACK TO c;

--@ parallel
SELECT count(*), sum(v) FROM t;

UPDATE t SET v = v * 2 WHERE id < 100;
SAVEPOINT d;
UPDATE t SET v = v * 2 WHERE id < 100;
SAVEPOINT e;
UPDATE t SET v = v * 2 WHERE id < 100;
SELECT count(*), sum(v) FROM t WHERE id < 120;
ROLLBACK TO d;
SELECT count(*), sum(v) FROM t WHERE id < 120;

COMMIT;
SELECT count(*), sum(v) FROM t;

-- An aborted transaction leaves nothing.
BEGIN;
INSERT INTO t SELECT i, 5, 'gone' FROM generate_series(1, 2000) i;
DELETE FROM t WHERE id < 500;
UPDATE t SET v = -v;
SELECT count(*), sum(v) FROM t;
ROLLBACK;
SELECT count(*), sum(v) FROM t;

-- Combo command ids: inserted and deleted by the same transaction, at once and in parts.
TRUNCATE t;
BEGIN;
INSERT INTO t SELECT i, i % 10, 'x' FROM generate_series(1, 3000) i;
UPDATE t SET v = v + 1 WHERE id % 3 = 0;
DELETE FROM t WHERE id % 4 = 0;
UPDATE t SET v = v + 1 WHERE id % 5 = 0;
DECLARE early CURSOR FOR SELECT count(*), sum(v) FROM t;
DELETE FROM t WHERE id % 6 = 0;
UPDATE t SET s = 'y' WHERE id % 9 = 0;
FETCH ALL early;

--@ parallel
SELECT s, count(*), sum(v) FROM t GROUP BY s;

SAVEPOINT a;
DELETE FROM t;
SELECT count(*) FROM t;
ROLLBACK TO a;
SELECT s, count(*), sum(v) FROM t GROUP BY s;
COMMIT;
SELECT s, count(*), sum(v) FROM t GROUP BY s;

-- A long chain of updates of the same rows, hot and then not.
CREATE TEMP TABLE hot (id int, v int, pad text) WITH (fillfactor = 40);
INSERT INTO hot SELECT i, 0, repeat('p', 50) FROM generate_series(1, 2000) i;

DO $$BEGIN FOR i IN 1 .. 8 LOOP UPDATE hot SET v = v + id % i; END LOOP; END$$;

--@ parallel
SELECT count(*), sum(v), count(DISTINCT id) FROM hot;

CREATE INDEX hot_v ON hot (v);
UPDATE hot SET v = v + 1 WHERE id % 2 = 0;
SELECT count(*), sum(v), count(DISTINCT id) FROM hot;

UPDATE hot SET pad = 'q' WHERE id % 2 = 1;
SELECT count(*), sum(v), count(DISTINCT id) FROM hot;

BEGIN;
UPDATE hot SET v = v + 1;
UPDATE hot SET v = v + 1;
SELECT count(*), sum(v), count(DISTINCT id) FROM hot;
ROLLBACK;
SELECT count(*), sum(v), count(DISTINCT id) FROM hot;

VACUUM hot;
SELECT count(*), sum(v), count(DISTINCT id) FROM hot;

-- Row locks: one locker, a stronger one in a savepoint (a multixact), a lock and an update.
CREATE TEMP TABLE l (id int PRIMARY KEY, v int);
INSERT INTO l SELECT i, i FROM generate_series(1, 2000) i;
BEGIN;
SELECT count(*) FROM (SELECT 1 FROM l WHERE id % 2 = 0 FOR KEY SHARE) x;
SAVEPOINT a;
SELECT count(*) FROM (SELECT 1 FROM l WHERE id % 3 = 0 FOR SHARE) x;
SAVEPOINT b;
SELECT count(*) FROM (SELECT 1 FROM l WHERE id % 5 = 0 FOR NO KEY UPDATE) x;

--@ parallel
SELECT count(*), sum(v) FROM l;

UPDATE l SET v = v + 1 WHERE id % 7 = 0;
SELECT count(*), sum(v) FROM l;

ROLLBACK TO b;
SELECT count(*), sum(v) FROM l;

UPDATE l SET v = v + 1 WHERE id % 30 = 0;
SELECT count(*), sum(v) FROM l;

ROLLBACK TO a;
SELECT count(*), sum(v) FROM l;

SELECT count(*) FROM (SELECT 1 FROM l WHERE id % 3 = 0 FOR UPDATE) x;
DELETE FROM l WHERE id % 6 = 0;
SAVEPOINT c;
DELETE FROM l WHERE id % 9 = 0;
SELECT count(*), sum(v) FROM l;

ROLLBACK TO c;
SELECT count(*), sum(v) FROM l;
COMMIT;

--@ parallel
SELECT count(*), sum(v) FROM l;

BEGIN;
SELECT count(*) FROM (SELECT 1 FROM l WHERE id < 900 FOR SHARE) x;
SAVEPOINT a;
UPDATE l SET v = 0 WHERE id < 300;
RELEASE a;
SELECT count(*), sum(v) FROM l;
ROLLBACK;
SELECT count(*), sum(v) FROM l;

-- Locking and writing statements over a parallel source.
BEGIN;
SELECT count(*) FROM (SELECT l.id FROM l JOIN t ON t.id = l.id FOR UPDATE OF l) x;
UPDATE l SET v = s.c FROM (SELECT id, count(*) AS c FROM t GROUP BY id) s WHERE s.id = l.id;
SELECT count(*), sum(v) FROM l;
DELETE FROM l USING t WHERE t.id = l.id AND t.v > 3;
SELECT count(*), sum(v) FROM l;
INSERT INTO l SELECT id + 100000, v FROM l;
SELECT count(*), sum(v) FROM l;
INSERT INTO l SELECT id, v FROM t ON CONFLICT (id) DO UPDATE SET v = l.v + 1;
SELECT count(*), sum(v) FROM l;
COMMIT;
SELECT count(*), sum(v) FROM l;

MERGE INTO l USING (SELECT id, max(v) AS v FROM t GROUP BY id) x ON x.id = l.id
	WHEN MATCHED AND x.v > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET v = x.v WHEN NOT MATCHED THEN INSERT VALUES (x.id, -1);
SELECT count(*), sum(v) FROM l;

-- Isolation levels.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(v) FROM t;
INSERT INTO t SELECT i, 1, 'rr' FROM generate_series(50001, 51000) i;
SELECT count(*), sum(v) FROM t;
SAVEPOINT a;
DELETE FROM t WHERE s = 'rr' AND id % 2 = 0;
SELECT count(*), sum(v) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM t;
COMMIT;

BEGIN ISOLATION LEVEL SERIALIZABLE;

--@ parallel
SELECT count(*), sum(v) FROM t;

UPDATE t SET v = v + 1 WHERE id % 2 = 0;
SELECT count(*), sum(v) FROM t;
COMMIT;

BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT count(*), sum(v) FROM t;
COMMIT;

-- Many subtransactions, so that their ids spill out of any small cache.
BEGIN;
DO $$BEGIN
	FOR i IN 1 .. 150 LOOP
		BEGIN
			INSERT INTO t VALUES (60000 + i, i, 'sub');
			IF i % 3 = 0 THEN RAISE EXCEPTION 'undo'; END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END$$;

--@ parallel
SELECT s, count(*), sum(v) FROM t GROUP BY s;

COMMIT;
SELECT s, count(*), sum(v) FROM t GROUP BY s;

-- A statement does not see its own writes.
INSERT INTO t SELECT id + 200000, v, 'copy' FROM t;
SELECT count(*), sum(v) FROM t;

WITH i AS (INSERT INTO t SELECT 300000 + g, g, 'cte' FROM generate_series(1, 100) g RETURNING v) SELECT (SELECT count(*) FROM t WHERE s = 'cte'), count(*) FROM i;

WITH d AS (DELETE FROM t WHERE s = 'cte' RETURNING v) SELECT (SELECT count(*) FROM t WHERE s = 'cte'), count(*) FROM d;

-- Two-phase commit is refused after use of a temporary table, in either mode.
BEGIN;
SELECT count(*) FROM t;
PREPARE TRANSACTION 'x';

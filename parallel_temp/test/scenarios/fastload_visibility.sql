-- Visibility of rows during and after a load.  Run by test/sql/fastload_visibility.sql on the
-- server's path and with the bulk writer.
CREATE FUNCTION loads_v(t text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %I', t) INTO n; RETURN n; END $$;
CREATE FUNCTION loads_s(t text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %I', t) INTO n; RETURN n; END $$;
CREATE FUNCTION loads_fail(t text, i int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE n bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM %I', t) INTO n;
  IF i % 500 = 0 THEN RAISE EXCEPTION 'at %', i; END IF;
  RETURN n;
EXCEPTION WHEN raise_exception THEN RETURN -1;
END $$;
CREATE FUNCTION loads_write(t text, i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF i % 400 = 0 THEN EXECUTE format('INSERT INTO %I SELECT -%s, -g FROM generate_series(1, 3) g', t, i); END IF;
  IF i % 600 = 0 THEN EXECUTE format('DELETE FROM %I WHERE id = %s', t, i - 1); END IF;
  IF i % 700 = 0 THEN EXECUTE format('UPDATE %I SET n = n + 1000000 WHERE id = %s', t, i - 1); END IF;
  RETURN i;
END $$;
CREATE FUNCTION loads_copy(t text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  EXECUTE format('COPY %I TO ''/dev/null''', t);
  RETURN 1;
END $$;

-- savepoints
BEGIN;
CREATE TEMP TABLE a AS SELECT i AS id, i * 2 AS n FROM generate_series(1, 3000) i;
SAVEPOINT one;
INSERT INTO a SELECT i, i FROM generate_series(1, 4000) i;
SELECT count(*), sum(id), sum(n) FROM a;
SAVEPOINT two;
CREATE TEMP TABLE b AS SELECT * FROM a;
INSERT INTO a SELECT * FROM b;
SELECT count(*), sum(id) FROM a;
ROLLBACK TO two;
SELECT count(*), sum(id) FROM a;
SELECT count(*) FROM b;
ROLLBACK TO one;
SELECT count(*), sum(id) FROM a;
INSERT INTO a SELECT i, i FROM generate_series(1, 10) i;
SELECT count(*), sum(id) FROM a;
RELEASE one;
COMMIT;
SELECT count(*), sum(id), sum(n) FROM a;
INSERT INTO a SELECT * FROM a;
SELECT count(*), sum(id) FROM a;
DROP TABLE a;

-- a subtransaction that made the table and one that only filled it
BEGIN;
SAVEPOINT one;
CREATE TEMP TABLE a (id int, n int);
INSERT INTO a SELECT i, i FROM generate_series(1, 5000) i;
RELEASE one;
SAVEPOINT two;
INSERT INTO a SELECT i, i FROM generate_series(1, 5000) i;
SELECT count(*) FROM a;
ROLLBACK TO two;
SELECT count(*) FROM a;
SAVEPOINT three;
TRUNCATE a;
INSERT INTO a SELECT i, i FROM generate_series(1, 2000) i;
SELECT count(*) FROM a;
ROLLBACK TO three;
SELECT count(*) FROM a;
COMMIT;
SELECT count(*), sum(n) FROM a;

-- cursors opened before the rows came
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT count(*) FROM a WHERE n > 0;
DECLARE d CURSOR FOR SELECT id FROM a ORDER BY id LIMIT 3;
DECLARE e CURSOR FOR SELECT id FROM a;
FETCH 2 FROM e;
INSERT INTO a SELECT i, i FROM generate_series(-3000, 0) i;
CREATE TEMP TABLE b AS SELECT * FROM a;
FETCH ALL FROM c;
FETCH ALL FROM d;
MOVE ALL FROM e;
SELECT count(*) FROM a;
SELECT count(*) FROM b;
COMMIT;
DROP TABLE a, b;
BEGIN;
CREATE TEMP TABLE a (id int, n int);
DECLARE c CURSOR FOR SELECT count(*) FROM a;
INSERT INTO a SELECT i, i FROM generate_series(1, 3000) i;
DECLARE d CURSOR FOR SELECT count(*) FROM a;
INSERT INTO a SELECT i, i FROM generate_series(1, 3000) i;
FETCH c;
FETCH d;
SELECT count(*) FROM a;
COMMIT;
DROP TABLE a;

-- one snapshot for the whole transaction
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1 AS snapshot_taken;
CREATE TEMP TABLE a AS SELECT i AS id, i AS n FROM generate_series(1, 3000) i;
SELECT count(*) FROM a;
DECLARE c CURSOR FOR SELECT count(*) FROM a;
INSERT INTO a SELECT * FROM a;
SELECT count(*) FROM a;
FETCH c;
COMMIT;
SELECT count(*) FROM a;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO a SELECT * FROM a;
SELECT count(*) FROM a;
COMMIT;
DROP TABLE a;

-- functions of the query that look at the table being filled
CREATE TEMP TABLE a AS SELECT i AS id, loads_v('a') AS n FROM generate_series(1, 600) i;
SELECT count(*), min(n), max(n), sum(n) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a AS SELECT i AS id, loads_s('a') AS n FROM generate_series(1, 600) i;
SELECT count(*), min(n), max(n), sum(n) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a AS SELECT i AS id, CASE WHEN i > 1200 AND i % 4000 = 0 THEN loads_s('a') + 1000000 * loads_v('a') END AS n FROM generate_series(1, 40000) i;
SELECT count(*), min(n), max(n), sum(n) FROM a;
INSERT INTO a SELECT i, CASE WHEN i > 1200 AND i % 4000 = 0 THEN loads_s('a') + 1000000 * loads_v('a') END FROM generate_series(1, 40000) i;
SELECT count(*), min(n), max(n), sum(n) FROM a;
BEGIN;
TRUNCATE a;
INSERT INTO a SELECT i, CASE WHEN i > 1200 AND i % 5000 = 0 THEN loads_s('a') + 1000000 * loads_v('a') END FROM generate_series(1, 40000) i;
SELECT count(*), min(n), max(n), sum(n) FROM a;
COMMIT;
DROP TABLE a;
CREATE TEMP TABLE a AS SELECT i AS id, loads_fail('a', i) AS n FROM generate_series(1, 600) i;
SELECT count(*), min(n), max(n), sum(n), count(*) FILTER (WHERE n = -1) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a AS SELECT i AS id, i AS n, CASE WHEN i = 30000 THEN loads_copy('a') END AS copied FROM generate_series(1, 40000) i;
SELECT count(*), sum(copied) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a (id int, n int);
INSERT INTO a SELECT loads_write('a', i), i FROM generate_series(1, 5000) i;
SELECT count(*), count(DISTINCT id), sum(id), sum(n) FROM a;
INSERT INTO a SELECT loads_write('a', i), i FROM generate_series(5001, 9000) i;
SELECT count(*), count(DISTINCT id), sum(id), sum(n) FROM a;
DROP TABLE a;

-- a statement that reads the table it fills, also with rescans
CREATE TEMP TABLE a AS SELECT i AS id, i AS n FROM generate_series(1, 2000) i;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
BEGIN;
CREATE TEMP TABLE b (id int, n int);
INSERT INTO b VALUES (1, 1), (2, 2);
INSERT INTO b SELECT x.i, y.n FROM generate_series(1, 500) x(i), b y;
SELECT count(*), sum(id), sum(n) FROM b;
INSERT INTO b SELECT x.id, (SELECT count(*) FROM b WHERE b.id <= x.id) FROM a x WHERE x.id <= 700;
SELECT count(*), sum(id), sum(n) FROM b;
COMMIT;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
WITH d AS (DELETE FROM a WHERE id > 1000 RETURNING *) INSERT INTO a SELECT id + 10000, n FROM d;
SELECT count(*), sum(id), sum(n) FROM a;
WITH d AS (INSERT INTO a SELECT -i, i FROM generate_series(1, 3000) i RETURNING *) INSERT INTO a SELECT id - 5000, n FROM d;
SELECT count(*), sum(id), sum(n) FROM a;
DROP TABLE a, b;

-- rows changed again in the same transaction, and command ids
BEGIN;
CREATE TEMP TABLE a AS SELECT i AS id, i AS n FROM generate_series(1, 5000) i;
UPDATE a SET n = n + 1 WHERE id % 2 = 0;
DELETE FROM a WHERE id % 3 = 0;
SAVEPOINT one;
UPDATE a SET n = n + 1;
DELETE FROM a WHERE id % 5 = 0;
SELECT count(*), sum(n) FROM a;
ROLLBACK TO one;
SELECT count(*), sum(n) FROM a;
INSERT INTO a SELECT * FROM a;
SELECT count(*), sum(n) FROM a;
COMMIT;
SELECT count(*), sum(n), count(DISTINCT xmin::text) FROM a;
UPDATE a SET n = 0 WHERE id < 100;
SELECT count(*), sum(n) FROM a;
VACUUM a;
SELECT count(*), sum(n) FROM a;
INSERT INTO a SELECT i, i FROM generate_series(1, 10) i;
SELECT count(*), sum(n) FROM a;
DROP TABLE a;

-- statements that fail half-way
CREATE TEMP TABLE a AS SELECT i AS id, 1 / (30000 - i) AS n FROM generate_series(1, 40000) i;
SELECT count(*) FROM a;
CREATE TEMP TABLE a (id int, n int);
INSERT INTO a SELECT i, 1 / (30000 - i) FROM generate_series(1, 40000) i;
SELECT count(*) FROM a;
INSERT INTO a SELECT i, i FROM generate_series(1, 40000) i;
SELECT count(*), sum(n) FROM a;
BEGIN;
SAVEPOINT one;
INSERT INTO a SELECT i, 1 / (30000 - i) FROM generate_series(1, 40000) i;
ROLLBACK TO one;
INSERT INTO a SELECT i, i FROM generate_series(1, 40000) i;
COMMIT;
SELECT count(*), sum(n) FROM a;
DROP TABLE a;

-- inside PL/pgSQL, with blocks that catch errors
DO $$
DECLARE n bigint;
BEGIN
  CREATE TEMP TABLE a AS SELECT i AS id, i AS n FROM generate_series(1, 3000) i;
  BEGIN
    INSERT INTO a SELECT i, 1 / (2000 - i) FROM generate_series(1, 3000) i;
  EXCEPTION WHEN division_by_zero THEN NULL;
  END;
  SELECT count(*) INTO n FROM a;
  RAISE NOTICE '% rows', n;
  FOR n IN SELECT count(*) FROM a LOOP
    INSERT INTO a SELECT i, i FROM generate_series(1, 3000) i;
  END LOOP;
  SELECT count(*) INTO n FROM a;
  RAISE NOTICE '% rows', n;
END $$;
SELECT count(*) FROM a;
DROP TABLE a;
CREATE FUNCTION loads_make() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  CREATE TEMP TABLE a AS SELECT i AS id, i AS n FROM generate_series(1, 3000) i;
  RETURN loads_s('a');
END $$;
SELECT loads_make(), loads_s('a'), loads_v('a');
DROP TABLE a;
CREATE PROCEDURE loads_commit() LANGUAGE plpgsql AS $$
BEGIN
  CREATE TEMP TABLE a AS SELECT i AS id, i AS n FROM generate_series(1, 3000) i;
  COMMIT;
  INSERT INTO a SELECT * FROM a;
  ROLLBACK;
  INSERT INTO a SELECT * FROM a LIMIT 1500;
END $$;
CALL loads_commit();
SELECT count(*), sum(n) FROM a;
DROP TABLE a;

-- prepared statements
PREPARE make AS SELECT i AS id, i + $1 AS n FROM generate_series(1, 3000) i;
CREATE TEMP TABLE a AS EXECUTE make(1);
SELECT count(*), sum(n) FROM a;
PREPARE add AS INSERT INTO a SELECT i, $1 FROM generate_series(1, 3000) i;
EXECUTE add(2);
EXECUTE add(3);
SELECT count(*), sum(n) FROM a;
CREATE TEMP TABLE e AS EXECUTE make(1) WITH NO DATA;
SELECT count(*) FROM e;
DEALLOCATE ALL;
DROP TABLE a, e;

-- a cursor that was opened by a function of the load, and looks when that is over
CREATE FUNCTION loads_rows(relation text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  n bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM %I', relation) INTO n;
  RETURN n;
END $$;
CREATE FUNCTION loads_open(i int, at int, how text) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
  c refcursor := 'later';
BEGIN
  IF i = at THEN
    BEGIN
      OPEN c FOR SELECT loads_rows('a');
      IF how = 'undone' THEN
        PERFORM 1 / 0;
      END IF;
    EXCEPTION WHEN division_by_zero THEN
      NULL;
    END;
  ELSIF i = at + 1 AND how = 'and another one undone' THEN
    BEGIN
      PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
      NULL;
    END;
  ELSIF i = at + 1 AND how = 'closed' THEN
    CLOSE c;
  END IF;
  RETURN i;
END $$;
BEGIN;
CREATE TEMP TABLE a AS SELECT loads_open(i, 3000, 'left') AS id, i AS n FROM generate_series(1, 9000) i;
FETCH later;
CLOSE later;
SELECT count(*), sum(n) FROM a;
ROLLBACK;
BEGIN;
CREATE TEMP TABLE a AS SELECT loads_open(i, 1, 'and another one undone') AS id, i AS n FROM generate_series(1, 9000) i;
FETCH later;
ROLLBACK;
BEGIN;
CREATE TEMP TABLE a (id int, n int);
INSERT INTO a SELECT loads_open(i, 3000, 'and another one undone'), i FROM generate_series(1, 9000) i;
FETCH later;
ROLLBACK;
BEGIN;
CREATE TEMP TABLE a (id int, n int GENERATED ALWAYS AS (id) STORED);
INSERT INTO a SELECT loads_open(i, 3000, 'left') FROM generate_series(1, 9000) i;
FETCH later;
ROLLBACK;
BEGIN;
CREATE TEMP TABLE a AS SELECT loads_open(i, 3000, 'undone') AS id, i AS n FROM generate_series(1, 9000) i;
SELECT name FROM pg_cursors;
SELECT count(*), sum(n) FROM a;
ROLLBACK;
BEGIN;
CREATE TEMP TABLE a AS SELECT loads_open(i, 3000, 'closed') AS id, i AS n FROM generate_series(1, 9000) i;
SELECT name FROM pg_cursors;
SELECT count(*), sum(n) FROM a;
ROLLBACK;

-- what happens to the rows at commit
BEGIN;
CREATE TEMP TABLE a ON COMMIT DELETE ROWS AS SELECT i AS id, i AS n FROM generate_series(1, 3000) i;
CREATE TEMP TABLE b ON COMMIT DROP AS SELECT * FROM a;
SELECT count(*) FROM a;
SELECT count(*) FROM b;
COMMIT;
SELECT count(*) FROM a;
BEGIN;
INSERT INTO a SELECT i, i FROM generate_series(1, 5000) i;
SELECT count(*) FROM a;
COMMIT;
SELECT count(*) FROM a;
INSERT INTO a SELECT i, i FROM generate_series(1, 5000) i;
SELECT count(*) FROM a;
DROP TABLE a;

DROP FUNCTION loads_v, loads_s, loads_fail, loads_write, loads_copy, loads_make, loads_rows, loads_open;
DROP PROCEDURE loads_commit;

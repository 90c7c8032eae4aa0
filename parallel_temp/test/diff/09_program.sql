-- Functions, procedures, prepared statements, cursors, CREATE TABLE AS.

CREATE TEMP TABLE t (id int, g int, v int);
INSERT INTO t SELECT i, i % 40, (i * 13) % 1000 FROM generate_series(1, 8000) i;
CREATE TEMP TABLE log (msg text);
CREATE TABLE perm AS SELECT i AS id, i % 30 AS g FROM generate_series(1, 5000) i;
ANALYZE t; ANALYZE perm;

-- PL/pgSQL.
CREATE FUNCTION pg_temp.total(lim int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE s bigint; r record; n int := 0;
BEGIN
	SELECT sum(v) INTO s FROM t WHERE id <= lim;
	FOR r IN SELECT g, count(*) AS c FROM t GROUP BY g LOOP n := n + r.c; END LOOP;
	RETURN s + n;
END$$;

SELECT pg_temp.total(100), pg_temp.total(8000);

SELECT g, pg_temp.total(g) FROM t WHERE id < 5;

--@ parallel
DO $$
DECLARE n bigint;
BEGIN
	SELECT count(*) INTO n FROM t WHERE v > 500;
	INSERT INTO log VALUES ('n ' || n);
END$$;

SELECT * FROM log;

DO $$
DECLARE n bigint;
BEGIN
	FOR i IN 1 .. 10 LOOP
		UPDATE t SET v = v + 1 WHERE id % 10 = i;
		SELECT sum(v) INTO n FROM t;
		INSERT INTO log VALUES (i || ': ' || n);
		BEGIN
			DELETE FROM t WHERE id % 20 = i;
			SELECT sum(v) INTO n FROM t;
			INSERT INTO log VALUES (i || ' deleted: ' || n);
			IF i % 2 = 0 THEN PERFORM 1 / (SELECT count(*) - count(*) FROM t); END IF;
		EXCEPTION WHEN division_by_zero THEN
			SELECT sum(v) INTO n FROM t;
			INSERT INTO log VALUES (i || ' undone: ' || n);
		END;
	END LOOP;
END$$;

SELECT * FROM log;

-- A loop that changes what it reads.
DO $$
DECLARE r record; n bigint;
BEGIN
	FOR r IN SELECT id, v FROM t WHERE g = 3 ORDER BY id LOOP
		UPDATE t SET v = r.v + 1 WHERE id = r.id;
		IF r.id % 400 = 3 THEN
			SELECT sum(v) INTO n FROM t;
			INSERT INTO log VALUES ('loop ' || r.id || ' ' || n);
		END IF;
	END LOOP;
END$$;

SELECT count(*), md5(string_agg(msg, ',' ORDER BY msg)) FROM log;

CREATE PROCEDURE pg_temp.steps() LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	FOR i IN 1 .. 4 LOOP
		INSERT INTO t SELECT 10000 * i + x, x, x FROM generate_series(1, 500) x;
		SELECT count(*) INTO n FROM t;
		INSERT INTO log VALUES ('step ' || i || ' ' || n);
		IF i % 2 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
		SELECT count(*) INTO n FROM t;
		INSERT INTO log VALUES ('after ' || i || ' ' || n);
	END LOOP;
END$$;

CALL pg_temp.steps();

SELECT * FROM log WHERE msg LIKE 'step%' OR msg LIKE 'after%';

SELECT count(*), sum(v) FROM t;

CREATE FUNCTION pg_temp.rows(lo int, hi int) RETURNS SETOF t LANGUAGE plpgsql AS $$BEGIN RETURN QUERY SELECT * FROM t WHERE id BETWEEN lo AND hi; END$$;

SELECT * FROM pg_temp.rows(10, 20);

SELECT count(*), sum(r.v) FROM pg_temp.rows(1, 6000) r JOIN t USING (id);

-- A volatile function called for each row reads and writes the same table.
CREATE FUNCTION pg_temp.bump(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	UPDATE t SET v = v + 1 WHERE id = i RETURNING v INTO n;
	RETURN n;
END$$;

SELECT id, pg_temp.bump(id) FROM t WHERE id <= 60;

SELECT sum(v) FROM t WHERE id <= 60;

-- SQL functions, inlined or not.
CREATE FUNCTION pg_temp.cnt(gg int) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t WHERE g = gg';

CREATE FUNCTION pg_temp.cnt_stable(gg int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t WHERE g = gg';

CREATE FUNCTION pg_temp.set_of(gg int) RETURNS TABLE (id int, v int) LANGUAGE sql STABLE AS 'SELECT id, v FROM t WHERE g = gg';

SELECT pg_temp.cnt(3), pg_temp.cnt_stable(4);

SELECT g, pg_temp.cnt(g), pg_temp.cnt_stable(g) FROM t WHERE id < 10;

SELECT count(*), sum(v) FROM pg_temp.set_of(7);

CREATE FUNCTION pg_temp.changes() RETURNS bigint LANGUAGE sql AS 'INSERT INTO t VALUES (-1, -1, -1); DELETE FROM t WHERE id = -1; SELECT count(*) FROM t';

SELECT pg_temp.changes();

-- A function that claims to be parallel safe and is not forced to prove it.
CREATE FUNCTION pg_temp.safe(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN i * 2; END';

SELECT sum(pg_temp.safe(v)) FROM t;

CREATE FUNCTION safe_perm(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN i * 2; END';

--@ parallel
SELECT sum(safe_perm(v)) FROM t WHERE safe_perm(g) > 10;

-- Prepared statements.
PREPARE q (int) AS SELECT count(*), sum(v) FROM t WHERE g = $1;
EXECUTE q (1);
EXECUTE q (2);
EXECUTE q (3);
EXECUTE q (4);
EXECUTE q (5);
EXECUTE q (6);
EXECUTE q (7);
SET plan_cache_mode = force_generic_plan;

--@ parallel
PREPARE gen (int) AS SELECT count(*), sum(v) FROM t WHERE g <> $1;
EXECUTE gen (1);

INSERT INTO t SELECT i, i % 40, 1 FROM generate_series(90001, 92000) i;
EXECUTE gen (1);

BEGIN;
DELETE FROM t WHERE g < 10;
EXECUTE gen (1);
ROLLBACK;
EXECUTE gen (1);

TRUNCATE t;
EXECUTE gen (1);

INSERT INTO t SELECT i, i % 40, (i * 13) % 1000 FROM generate_series(1, 8000) i;
EXECUTE gen (1);

BEGIN;
TRUNCATE t;
EXECUTE gen (1);
INSERT INTO t SELECT i, 5, 5 FROM generate_series(1, 100) i;
EXECUTE gen (1);
ROLLBACK;
EXECUTE gen (1);

ALTER TABLE t ADD COLUMN w int DEFAULT 3;
EXECUTE gen (1);
CREATE INDEX t_g ON t (g);
EXECUTE gen (1);
VACUUM FULL t;
EXECUTE gen (1);
DISCARD PLANS;
EXECUTE gen (1);

DO $$BEGIN EXECUTE 'DROP TABLE t CASCADE'; EXECUTE 'CREATE TEMP TABLE t (id int, g int, v int, w int)'; EXECUTE 'INSERT INTO t SELECT i, i % 4, i, 1 FROM generate_series(1, 3000) i'; END$$;
EXECUTE gen (1);

PREPARE j (int) AS SELECT count(*), sum(v) FROM t JOIN perm USING (id) WHERE perm.g < $1;
EXECUTE j (5);
EXECUTE j (50);
RESET plan_cache_mode;
EXECUTE j (5);
DEALLOCATE ALL;

-- Extended protocol.
SELECT count(*), sum(v) FROM t WHERE g = $1 \bind 2 \g

-- Cursors.
BEGIN;
DECLARE c CURSOR FOR SELECT id, v FROM t ORDER BY id;
FETCH 5 c;
UPDATE t SET v = 0 WHERE id < 100;
DELETE FROM t WHERE id BETWEEN 8 AND 12;
FETCH 5 c;
TRUNCATE log;
FETCH 5 c;
MOVE 2000 c;
FETCH 3 c;
CLOSE c;
SELECT count(*), sum(v) FROM t;
ROLLBACK;

BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM t WHERE g = 1 ORDER BY id;
FETCH LAST c;
FETCH FIRST c;
FETCH ABSOLUTE 20 c;
FETCH RELATIVE -3 c;
FETCH BACKWARD 3 c;
COMMIT;

DECLARE h CURSOR WITH HOLD FOR SELECT g, count(*), sum(v) FROM t GROUP BY g ORDER BY g;
UPDATE t SET v = v + 1;
FETCH ALL h;
CLOSE h;

BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id DESC;
FETCH 2 h;
DELETE FROM t WHERE id > 2900;
COMMIT;
FETCH 2 h;
DROP TABLE t;
FETCH 2 h;
CLOSE h;

CREATE TEMP TABLE t AS SELECT i AS id, i % 4 AS g, i AS v FROM generate_series(1, 3000) i;

BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE g = 1 FOR UPDATE;
FETCH 3 c;
UPDATE t SET v = -1 WHERE CURRENT OF c;
FETCH 2 c;
DELETE FROM t WHERE CURRENT OF c;
SELECT count(*), sum(v) FROM t;
COMMIT;

DO $$
DECLARE c CURSOR FOR SELECT id, v FROM t; r record; n int := 0;
BEGIN
	FOR r IN c LOOP
		n := n + r.v;
		IF r.id % 1000 = 0 THEN PERFORM count(*) FROM t; INSERT INTO t SELECT i, 0, 1 FROM generate_series(1, 500) i; END IF;
	END LOOP;
	INSERT INTO log VALUES ('cursor ' || n);
END$$;

SELECT * FROM log WHERE msg LIKE 'cursor%';

-- CREATE TABLE AS, SELECT INTO, INSERT SELECT, materialised views.
--@ parallel
CREATE TEMP TABLE ctas AS SELECT g, count(*) AS c, sum(v) AS s FROM t GROUP BY g;

SELECT * FROM ctas;

--@ parallel
SELECT id, v INTO TEMP sel FROM t WHERE v % 3 = 0;

SELECT count(*), sum(v) FROM sel;

--@ parallel
CREATE TABLE perm_ctas AS SELECT id, g FROM t WHERE id % 2 = 0;

SELECT count(*), sum(id) FROM perm_ctas;

CREATE TEMP TABLE nodata AS SELECT * FROM t WITH NO DATA;
SELECT count(*) FROM nodata;

INSERT INTO nodata SELECT * FROM t WHERE v < 1000;
SELECT count(*), sum(v) FROM nodata;

INSERT INTO perm SELECT id, g FROM t;
SELECT count(*), sum(id) FROM perm;

CREATE MATERIALIZED VIEW mv AS SELECT count(*) FROM perm;

CREATE MATERIALIZED VIEW mv_bad AS SELECT count(*) FROM t;

COPY (SELECT g, count(*) FROM t GROUP BY g) TO STDOUT;

DROP FUNCTION safe_perm;
DROP TABLE perm CASCADE;
DROP TABLE perm_ctas;

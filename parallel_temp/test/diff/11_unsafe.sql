-- Functions that must not leave the leader, functions that must not run in a
-- parallel plan at all, and errors in the middle of a scan.

CREATE TEMP TABLE t (id int, v int, s text);
INSERT INTO t SELECT i, i % 1000, 's' || i FROM generate_series(1, 9000) i;
CREATE TEMP TABLE calls (n int);
CREATE TABLE perm AS SELECT i AS id FROM generate_series(1, 5000) i;
CREATE FUNCTION f_unsafe(i int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS 'BEGIN INSERT INTO calls VALUES (i); RETURN i; END';
CREATE FUNCTION f_restricted(i int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN i + (SELECT count(*) FROM (SELECT n FROM calls LIMIT 3) x)::int; END';
CREATE FUNCTION f_safe(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN i + 1; END';
CREATE FUNCTION f_reads_temp(i int) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN (SELECT count(*) FROM t WHERE t.v = i); END';
CREATE FUNCTION f_writes_temp(i int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS
	'BEGIN UPDATE t SET v = v + 1 WHERE id = i; IF i % 100 = 0 THEN DELETE FROM t WHERE id = i + 1; END IF; RETURN i; END';
CREATE FUNCTION f_fails(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN IF i = 777 THEN RAISE EXCEPTION ''no %'', i; END IF; RETURN i; END';

SELECT count(f_unsafe(id)) FROM t WHERE v < 10;

SELECT count(*), sum(n) FROM calls;

SELECT count(*) FROM t WHERE id < 3000 AND f_unsafe(v) = 5;

SELECT count(*), sum(n) FROM calls;

SELECT sum(f_restricted(v)) FROM t;

SELECT count(*) FROM t WHERE f_restricted(v) % 2 = 0;

SELECT f_restricted(v % 3), count(*) FROM t GROUP BY 1;

--@ parallel
SELECT v % 10, sum(f_safe(v)) FROM t WHERE f_safe(id) > 7 GROUP BY 1;

SELECT sum(f_reads_temp(v)) FROM t WHERE id <= 8;

SELECT sum(f_reads_temp(v % 3)) FROM (SELECT v FROM t ORDER BY v, id LIMIT 8) x;

SELECT count(*) FROM t WHERE id <= 10 AND f_reads_temp(v) > 0;

SELECT sum(f_writes_temp(id)) FROM t WHERE id <= 400;

SELECT count(*), sum(v) FROM t;

SELECT sum(f_writes_temp(id)) FROM (SELECT id FROM t ORDER BY id DESC LIMIT 300) x;

SELECT count(*), sum(v) FROM t;

SELECT count(*) FROM t a JOIN t b USING (id) WHERE f_writes_temp(a.id) = b.id AND a.id < 200;

SELECT count(*), sum(v) FROM t;

SELECT count(*), sum(f_writes_temp(x.id)) FROM (SELECT v % 100 AS id FROM t GROUP BY 1) x;

SELECT count(*), sum(v) FROM t;

-- Errors in a qual, in a target, in an aggregate, below and above Gather.
SELECT count(*) FROM t WHERE 1 / (v - 500) > 5;

SELECT count(*), sum(v) FROM t;

SELECT sum(f_fails(v)) FROM t;

SELECT sum(f_fails(v)) FROM t WHERE v <> 777;

SELECT sum(s::int) FROM t;

SELECT count(*) FROM t WHERE id = 8999 / (SELECT count(*) - count(*) FROM t);

BEGIN;
INSERT INTO t SELECT i, 1, 'more' FROM generate_series(10001, 11000) i;
SAVEPOINT a;
SELECT sum(f_fails(v)) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM t;
SAVEPOINT a;
SELECT count(*) FROM t JOIN perm USING (id) WHERE 1 / (v - 500) > 5;
SELECT 1;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM t JOIN perm USING (id);
COMMIT;

DO $$
DECLARE n bigint;
BEGIN
	FOR i IN 1 .. 10 LOOP
		BEGIN
			SELECT sum(f_fails(v + i)) INTO n FROM t;
			RAISE WARNING 'not reached';
		EXCEPTION WHEN raise_exception THEN
			SELECT count(*) INTO n FROM t;
			INSERT INTO calls VALUES (n);
		END;
	END LOOP;
END$$;

SELECT n, count(*) FROM calls WHERE n > 8000 GROUP BY n;

DROP TABLE t;
CREATE TEMP TABLE t AS SELECT i AS id, i % 10 AS v FROM generate_series(1, 5000) i;
SELECT count(*), sum(v) FROM t;

-- A subquery with its own parallel-restricted part.
SELECT count(*) FROM perm WHERE id IN (SELECT f_restricted(v) FROM t WHERE v > 2);

SELECT count(*) FROM perm JOIN (SELECT f_restricted(id) AS id FROM t WHERE v = 1) x USING (id);

SELECT x, count(*) FROM (SELECT random() < 2 AS x FROM t) y GROUP BY x;

-- Roles of the session and row locks forbid it in core too.
SELECT count(*) FROM (SELECT id FROM t FOR SHARE) x;

SELECT count(*) FROM (SELECT id FROM t FOR UPDATE SKIP LOCKED) x;

SELECT currval('no_such_sequence') FROM t;

DROP FUNCTION f_unsafe, f_restricted, f_safe, f_reads_temp, f_writes_temp, f_fails;
DROP TABLE perm;

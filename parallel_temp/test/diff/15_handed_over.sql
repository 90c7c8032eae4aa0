-- Data passed from one process, or one statement, to another: long values given to
-- workers, pages that are read while a table is being filled.

CREATE TEMP TABLE t (id int, ext text, arr int[]);
ALTER TABLE t ALTER ext SET STORAGE EXTERNAL, ALTER arr SET STORAGE EXTERNAL;
INSERT INTO t SELECT i, repeat(md5(i::text), 200), (SELECT array_agg(i + n) FROM generate_series(1, 1500) n) FROM generate_series(1, 100) i;
CREATE TEMP TABLE u (id int, x text, arr int[]);
ALTER TABLE u ALTER x SET STORAGE EXTERNAL;
INSERT INTO u SELECT i % 100, i::text FROM generate_series(1, 20000) i;
INSERT INTO u SELECT id, ext, arr FROM t WHERE id % 10 = 5;
CREATE TEMP TABLE narrow AS SELECT id, id::text AS x, id % 7 AS g FROM u;

-- Results of subplans.
--@ parallel
SELECT count(*) FROM u WHERE x = (SELECT ext FROM t WHERE id = 5);

--@ parallel
SELECT count(*) FROM narrow WHERE x < (SELECT ext FROM t WHERE id = 5);

--@ parallel
SELECT count(*) FROM u WHERE x > (SELECT ext FROM t WHERE id = 5) OR arr = (SELECT arr FROM t WHERE id = 25) OR x = (SELECT string_agg(ext, '') FROM t WHERE id = 35);

--@ ordered
SELECT id FROM u WHERE x >= (SELECT min(ext) FROM t WHERE id < 30) AND x <= (SELECT ext FROM t ORDER BY ext DESC LIMIT 1) ORDER BY x, id LIMIT 5;

SELECT y, (SELECT count(*) FROM u WHERE x = (SELECT ext FROM t WHERE id = y OFFSET 0)) FROM generate_series(1, 8) y;

SELECT g, l.c FROM (SELECT DISTINCT g FROM narrow) n, LATERAL (SELECT count(*) AS c FROM u WHERE x = (SELECT ext FROM t WHERE t.id = n.g OFFSET 0)) l;

WITH c AS MATERIALIZED (SELECT ext, arr FROM t WHERE id = 5) SELECT count(*) FROM u WHERE x = (SELECT ext FROM c) AND arr = (SELECT arr FROM c);

-- A table that every worker reads whole, from the file if need be.
CREATE TABLE perm AS SELECT i AS id, i % 100 AS k FROM generate_series(1, 30000) i;
CREATE TEMP TABLE wide AS SELECT id AS k, n, (SELECT string_agg(md5((id * 100 + n * 10 + m)::text), '') FROM generate_series(1, 12) m) AS pad FROM t, generate_series(1, 30) n;
ANALYZE perm; ANALYZE wide;
SET enable_parallel_hash = off; SET enable_mergejoin = off; SET enable_nestloop = off;

--@ parallel
SELECT count(*), sum(length(pad) + n) FROM perm JOIN wide USING (k) WHERE perm.id % 3 = 0;

SELECT count(*) FROM perm WHERE k NOT IN (SELECT k + n FROM wide WHERE pad > '8') AND id % 3 = 0;
RESET enable_parallel_hash; RESET enable_mergejoin; RESET enable_nestloop;
DROP TABLE perm;

-- Parameters that are references: variables, fields of records, arguments.
SET plan_cache_mode = force_generic_plan;

CREATE FUNCTION pg_temp.by_argument(v text) RETURNS SETOF bigint LANGUAGE plpgsql AS $$BEGIN RETURN QUERY SELECT count(*) FROM u WHERE x = v; END$$;

CREATE FUNCTION pg_temp.by_field() RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE r t; s record;
BEGIN
	FOR r IN SELECT * FROM t WHERE id IN (5, 6, 15) ORDER BY id LOOP
		s := r;
		RETURN QUERY SELECT count(*) FROM u WHERE x = r.ext;
		RETURN QUERY SELECT count(*) FROM u WHERE x = s.ext OR arr = s.arr;
		RETURN QUERY SELECT count(*) FROM u WHERE x = (r).ext;
	END LOOP;
END$$;

--@ parallel
SELECT pg_temp.by_argument(ext) FROM t WHERE id IN (5, 6);

--@ parallel
SELECT pg_temp.by_field();

-- A variable whose table is gone.
CREATE FUNCTION pg_temp.orphan() RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE v text;
BEGIN
	EXECUTE 'CREATE TEMP TABLE gone AS SELECT ''short'' AS x';
	EXECUTE 'SELECT x FROM gone' INTO v;
	EXECUTE 'DROP TABLE gone';
	RETURN QUERY SELECT count(*) FROM u WHERE x <> v;
END$$;

SELECT pg_temp.orphan();
RESET plan_cache_mode;

-- A name that looks like the leader's word to its workers.
--@ parallel
SELECT count(*), sum(y) FROM narrow, abs(5) AS "parallel_temp share" (y) WHERE g < y;

--@ parallel
SELECT count(*), sum("4711") FROM abs(5) AS "parallel_temp share" ("4711"), narrow WHERE g < "4711";

CREATE TABLE perm AS SELECT id, g FROM narrow;

SELECT count(*), sum("4711") FROM perm, abs(5) AS "parallel_temp share" ("4711") WHERE g < "4711";
DROP TABLE perm;

-- A cursor opened before a load begins to read in the middle of it, and continues after it.
CREATE FUNCTION pg_temp.moves(i int, at int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE early refcursor := 'early';
BEGIN
	IF i = at THEN MOVE FORWARD 1 FROM early; ELSIF i = -at THEN MOVE FORWARD ALL FROM early; END IF;
	RETURN i;
END$$;

BEGIN;
CREATE TEMP TABLE f (id int, pad text);
INSERT INTO f VALUES (0, 'first'), (-1, 'second');
DECLARE early CURSOR FOR SELECT id FROM f;
INSERT INTO f SELECT pg_temp.moves(i, 5000), repeat('p', 400) FROM generate_series(1, 5050) i;
MOVE ALL FROM early;
SELECT count(*), count(DISTINCT id) FROM f;
CLOSE early;
TRUNCATE f;
INSERT INTO f VALUES (0, 'first'), (-1, 'second');
DECLARE early CURSOR FOR SELECT id FROM f;
INSERT INTO f SELECT -pg_temp.moves(-i, 1200), repeat('p', 400) FROM generate_series(1, 9000) i;
INSERT INTO f SELECT i, repeat('q', 400) FROM generate_series(10001, 20000) i;
MOVE ALL FROM early;
SELECT count(*), count(DISTINCT id) FROM f;
COMMIT;

--@ parallel
SELECT count(*), count(DISTINCT id) FROM f;

BEGIN;
DECLARE early CURSOR FOR SELECT id FROM f;
SAVEPOINT a;
INSERT INTO f SELECT 1 / (8000 - pg_temp.moves(i, 4000)), repeat('p', 400) FROM generate_series(1, 9000) i;
ROLLBACK TO a;
INSERT INTO f SELECT i, repeat('r', 400) FROM generate_series(20001, 29000) i;
MOVE ALL FROM early;
COMMIT;
SELECT count(*), count(DISTINCT id) FROM f;

-- The same while the statement reads its own target.
BEGIN;
TRUNCATE f;
INSERT INTO f VALUES (0, 'first'), (-1, 'second');
DECLARE early CURSOR FOR SELECT id FROM f;
INSERT INTO f SELECT pg_temp.moves(i, 5000), repeat('p', 400) FROM generate_series(1, 5050) i WHERE (SELECT count(*) FROM f) > 0;
MOVE ALL FROM early;
SELECT count(*), count(DISTINCT id) FROM f;
COMMIT;

-- A cursor opened by the statement's own function sees the rows that are there when it reads.
CREATE TEMP SEQUENCE sq;
CREATE FUNCTION pg_temp.opens(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'within'; n int;
BEGIN
	IF i = 10 THEN OPEN c FOR SELECT id FROM w; END IF;
	IF i = 5 THEN OPEN c FOR SELECT id FROM w; CLOSE c; END IF;
	IF i = 1900 THEN MOVE FORWARD ALL FROM c; GET DIAGNOSTICS n = ROW_COUNT; CLOSE c; RETURN n; END IF;
	RETURN NULL;
END$$;

BEGIN;
CREATE TEMP TABLE w (id int, n int DEFAULT pg_temp.opens(nextval('sq')::int), pad text);
INSERT INTO w SELECT i, pg_temp.opens(i), repeat('p', 400) FROM generate_series(1, 4000) i;
SELECT max(n), count(*) FROM w;
TRUNCATE w;
COPY w (id, pad) FROM PROGRAM 'for i in $(seq 1 4000); do echo "$i	pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"; done';
SELECT max(n), count(*) FROM w;
TRUNCATE w;
CREATE INDEX ON w (id);
INSERT INTO w SELECT i, pg_temp.opens(i), repeat('p', 400) FROM generate_series(1, 4000) i;
SELECT max(n), count(*) FROM w;
COMMIT;

DO $$
DECLARE n bigint;
BEGIN
	FOR n IN SELECT id FROM w WHERE id % 1500 = 1 LOOP
		INSERT INTO w SELECT i, n, repeat('d', 100) FROM generate_series(1, 700) i;
	END LOOP;
END$$;

SELECT n, count(*) FROM w GROUP BY n;

-- Pages read without a plan in the middle of a load.
SET client_min_messages = error;
CREATE TEMP TABLE r AS SELECT i AS id, repeat('p', 400) AS pad, CASE WHEN i % 1100 = 700 THEN pg_read_temp_relation(to_regclass('r'), false) >= 0 END AS read FROM generate_series(1, 20000) i;
SELECT count(*), count(DISTINCT id) FROM r;

INSERT INTO r SELECT i, repeat('p', 400), CASE WHEN i % 1100 = 700 THEN pg_read_temp_relation('r', true) >= 0 END FROM generate_series(20001, 20080) i;
INSERT INTO r SELECT i, repeat('p', 400), CASE WHEN i % 1100 = 700 THEN pg_read_temp_relation('r', false) >= 0 END FROM generate_series(20081, 30000) i;
SELECT count(*), count(DISTINCT id) FROM r;
RESET client_min_messages;


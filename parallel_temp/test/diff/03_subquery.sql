-- Subqueries of every kind, CTEs, LATERAL, set operations.

CREATE TEMP TABLE t (id int, g int, v int, s text);
INSERT INTO t SELECT i, i % 50, (i * 31) % 1009, 's' || (i % 200) FROM generate_series(1, 8000) i;
CREATE TEMP TABLE u (id int, g int, v int);
INSERT INTO u SELECT i, i % 60, (i * 17) % 997 FROM generate_series(1, 2000) i;
CREATE TABLE perm (id int, g int, v int);
INSERT INTO perm SELECT i, i % 40, (i * 13) % 991 FROM generate_series(1, 6000) i;
ANALYZE t; ANALYZE u; ANALYZE perm;

-- InitPlans.
--@ parallel
SELECT count(*) FROM t WHERE v > (SELECT avg(v) FROM u);

--@ parallel
SELECT count(*) FROM perm WHERE v > (SELECT avg(v) FROM u);

SELECT (SELECT max(v) FROM t), (SELECT min(v) FROM u), (SELECT count(*) FROM perm);

--@ parallel
SELECT count(*) FROM t WHERE g = (SELECT min(g) FROM u WHERE v = (SELECT max(v) FROM u));

SELECT id FROM t WHERE v = (SELECT max(v) FROM t WHERE g = (SELECT max(g) FROM perm));

-- SubPlans, hashed and not.
SELECT count(*) FROM t WHERE v IN (SELECT v FROM u WHERE g < 5) OR id < 10;

SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u WHERE g < 5);

SELECT id, (SELECT count(*) FROM u WHERE u.g = t.g) FROM t WHERE id % 500 = 0;

SELECT id, (SELECT count(*) FROM perm WHERE perm.g = t.g) FROM t WHERE id % 500 = 0;

SELECT id, (SELECT max(v) FROM t WHERE t.g = perm.g) FROM perm WHERE id % 500 = 0;

SELECT count(*) FROM perm WHERE v IN (SELECT v FROM u WHERE g < 5) OR id < 10;

SELECT count(*) FROM t WHERE g > ALL (SELECT g FROM u WHERE id < 3);

SELECT g, ARRAY(SELECT id FROM u WHERE u.g = t.g AND id < 200 ORDER BY id) FROM t WHERE id < 20;

SELECT count(*) FROM t WHERE (g, v) IN (SELECT g, v FROM u);

SELECT g, EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.v > 990) FROM t WHERE id <= 50;

SELECT sum(CASE WHEN v > (SELECT avg(v) FROM u) THEN 1 ELSE 0 END) FROM t;

SELECT g, count(*) FROM t GROUP BY g HAVING count(*) > (SELECT count(*) FROM u WHERE g = 1);

SELECT id FROM t WHERE id < 100 ORDER BY (SELECT max(u.v) FROM u WHERE u.g = t.g), id;

-- CTEs.
--@ parallel
WITH c AS (SELECT g, sum(v) AS s FROM t GROUP BY g) SELECT * FROM c WHERE s > 1000;

WITH c AS MATERIALIZED (SELECT g, v FROM t WHERE id % 3 = 0) SELECT count(*), sum(x.v) FROM c x JOIN c y USING (g) WHERE y.v < 20;

WITH c AS NOT MATERIALIZED (SELECT g, v FROM t) SELECT count(*) FROM c x JOIN c y USING (v) WHERE x.g = 1;

WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 20) SELECT n, (SELECT count(*) FROM t WHERE g = n) FROM r;

WITH RECURSIVE r(id, depth) AS (SELECT id, 1 FROM t WHERE id = 1 UNION SELECT t.id, depth + 1 FROM r JOIN t ON t.id = r.id * 2 WHERE depth < 14) SELECT * FROM r;

WITH ins AS (INSERT INTO u SELECT id + 100000, g, v FROM t WHERE id <= 10 RETURNING id) SELECT count(*), (SELECT count(*) FROM u) FROM ins;

WITH del AS (DELETE FROM u WHERE id > 100000 RETURNING *) SELECT count(*), sum(v), (SELECT count(*) FROM t) FROM del;

SELECT count(*) FROM u;

-- LATERAL.
SELECT t.id, l.c FROM t, LATERAL (SELECT count(*) AS c FROM u WHERE u.g = t.g AND u.v < t.v) l WHERE t.id % 400 = 0;

SELECT t.id, l.id FROM t CROSS JOIN LATERAL (SELECT id FROM u WHERE u.g = t.g ORDER BY v, id LIMIT 2) l WHERE t.id % 800 = 1;

SELECT perm.id, l.m FROM perm LEFT JOIN LATERAL (SELECT max(v) AS m FROM t WHERE t.g = perm.g HAVING count(*) > 10) l ON true WHERE perm.id < 30;

SELECT count(*) FROM t, LATERAL generate_series(1, t.g % 3) n;

SELECT count(*), sum(x) FROM t, LATERAL (SELECT t.v + u.v AS x FROM u WHERE u.id = t.id) l;

-- Set operations.
--@ parallel
SELECT count(*), sum(v) FROM (SELECT v FROM t UNION ALL SELECT v FROM u) x;

--@ parallel
SELECT count(*), sum(v) FROM (SELECT v FROM t UNION ALL SELECT v FROM perm) x;

--@ parallel
SELECT count(*), sum(v) FROM (SELECT v FROM perm UNION ALL SELECT v FROM u UNION ALL SELECT v FROM perm) x;

--@ parallel
SELECT g, count(*) FROM (SELECT g, v FROM t WHERE v > 500 UNION ALL SELECT g, v FROM u WHERE v < 10) x GROUP BY g;

SELECT count(*), sum(v) FROM (SELECT v FROM t UNION ALL (SELECT v FROM u ORDER BY v, id LIMIT 100)) x;

SELECT count(*), sum(v) FROM (SELECT v FROM t UNION ALL SELECT sum(v) FROM u GROUP BY g) x;

SELECT count(*), sum(v) FROM (SELECT v FROM perm UNION ALL SELECT max(v) FROM t GROUP BY g UNION ALL SELECT v FROM u) x;

SELECT count(*), sum(v) FROM (SELECT v FROM t UNION ALL SELECT (random() * 0)::int FROM u) x;

SELECT count(*) FROM (SELECT v FROM t UNION SELECT v FROM u) x;

SELECT v FROM t INTERSECT SELECT v FROM u WHERE v % 10 = 0;

SELECT v FROM t EXCEPT SELECT v FROM u;

SELECT count(*) FROM (SELECT g, v FROM t EXCEPT ALL SELECT g, v FROM perm) x;

SELECT count(*) FROM (SELECT g FROM t INTERSECT ALL SELECT g FROM perm) x;

SELECT 't', count(*) FROM t UNION ALL SELECT 'u', count(*) FROM u UNION ALL SELECT 'perm', count(*) FROM perm;

--@ ordered
SELECT v, id FROM t WHERE g = 1 UNION ALL SELECT v, id FROM u WHERE g = 1 ORDER BY 1, 2;

-- Derived tables with their own order, limit and aggregate.
SELECT count(*), sum(id) FROM (SELECT id FROM t ORDER BY v, id LIMIT 500) x;

SELECT x.g, y.c FROM (SELECT DISTINCT g FROM t) x LEFT JOIN (SELECT g, count(*) AS c FROM u GROUP BY g) y USING (g);

SELECT count(*) FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY v, id) AS n FROM t) x WHERE n <= 3;

SELECT count(*) FROM (SELECT * FROM t OFFSET 0) x JOIN (SELECT * FROM u OFFSET 0) y USING (id);

-- Subqueries whose temporary tables workers read themselves: a Gather in each of them would be more expensive.
SET parallel_setup_cost = 25;

--@ parallel
SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u WHERE g < 5);

--@ parallel
SELECT count(*) FROM perm WHERE v NOT IN (SELECT v FROM u WHERE g < 5);

--@ parallel
SELECT count(*), sum(id) FROM t WHERE v IN (SELECT v FROM u WHERE g < 5) OR id < 10;

--@ parallel
SELECT count(*) FROM t WHERE g > ALL (SELECT g FROM u WHERE id < 3);

--@ parallel
SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u WHERE g NOT IN (SELECT g FROM u WHERE v < 20));

--@ parallel
SELECT count(*) FROM t WHERE v NOT IN (SELECT a.v FROM u a JOIN u b USING (id) WHERE a.g < 5);

--@ parallel
SELECT id, v IN (SELECT v FROM u WHERE g < 30) FROM t WHERE g = 3;

--@ parallel
SELECT count(*) FROM t WHERE s NOT IN (SELECT 's' || v FROM u);

--@ parallel
SELECT count(*), (SELECT max(v) FROM u) FROM t WHERE v > (SELECT avg(v) FROM u);

SELECT count(*) FROM t WHERE v NOT IN (SELECT NULLIF(v, 5) FROM u WHERE g < 5);

SELECT count(*) FROM t WHERE id IN (SELECT id FROM t WHERE v NOT IN (SELECT v FROM u)) OR v = 3;

SELECT count(*) FROM (SELECT v FROM t WHERE v NOT IN (SELECT v FROM u WHERE g < 5) LIMIT 20) x;

CREATE INDEX ON u (v);

SELECT count(*) FROM t WHERE id % 7 NOT IN (SELECT id FROM u WHERE v < 40);

UPDATE u SET v = v + 1 WHERE v < 40;

SELECT count(*) FROM t WHERE id % 7 NOT IN (SELECT id FROM u WHERE v < 40);

PREPARE q (int) AS SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u WHERE g < $1);
EXECUTE q (5); EXECUTE q (6); EXECUTE q (7); EXECUTE q (8); EXECUTE q (9); EXECUTE q (10); EXECUTE q (11);
TRUNCATE u;
EXECUTE q (5);
DEALLOCATE q;

BEGIN;
INSERT INTO u SELECT i, i % 60, i FROM generate_series(1, 500) i;
SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u);
SAVEPOINT a;
DELETE FROM u WHERE v < 250;
SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u);
ROLLBACK TO a;
SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u);
COMMIT;

DECLARE c CURSOR WITH HOLD FOR SELECT count(*) FROM t WHERE v NOT IN (SELECT v FROM u);
FETCH ALL FROM c;
CLOSE c;

RESET parallel_setup_cost;

DROP TABLE perm;

-- Inheritance and partitioned temporary tables.

CREATE TEMP TABLE base (id int, v int, s text);
INSERT INTO base SELECT i, i % 100, 'base' || i FROM generate_series(1, 3000) i;
CREATE TEMP TABLE child1 (extra int) INHERITS (base);
INSERT INTO child1 SELECT i, i % 90, 'c1' || i, i FROM generate_series(3001, 7000) i;
CREATE TEMP TABLE child2 () INHERITS (base);
INSERT INTO child2 SELECT i, i % 80, 'c2' || i FROM generate_series(7001, 8000) i;
CREATE TEMP TABLE grand () INHERITS (child1);
INSERT INTO grand SELECT i, i % 70, 'g' || i, -i FROM generate_series(8001, 9000) i;
CREATE TABLE perm_base (id int, v int);
INSERT INTO perm_base SELECT i, i % 60 FROM generate_series(1, 4000) i;
CREATE TEMP TABLE temp_child () INHERITS (perm_base);
INSERT INTO temp_child SELECT i, i % 50 FROM generate_series(4001, 9000) i;

--@ parallel
SELECT count(*), sum(id), min(s), max(s) FROM base;

--@ parallel
SELECT count(*), sum(id) FROM ONLY base;

--@ parallel
SELECT v, count(*) FROM base GROUP BY v;

--@ parallel
SELECT tableoid::regclass, count(*), sum(id) FROM base GROUP BY 1;

--@ parallel
SELECT count(*), sum(extra) FROM child1 WHERE v < 30;

-- A permanent parent with a temporary child.
SELECT count(*), sum(id) FROM perm_base;

SELECT v, count(*) FROM perm_base GROUP BY v;

SELECT count(*) FROM perm_base x JOIN base y USING (id);

SELECT count(*), sum(x.id) FROM base x JOIN child1 y USING (id) WHERE y.v < 10;

UPDATE base SET v = v + 1000 WHERE id % 100 = 0;
SELECT count(*), sum(v) FROM base;

DELETE FROM base WHERE id % 101 = 0;
SELECT tableoid::regclass, count(*), sum(v) FROM base GROUP BY 1;

ALTER TABLE child2 NO INHERIT base;
SELECT count(*), sum(v) FROM base;

-- Partitions.
CREATE TEMP TABLE pt (id int, k int, v int, s text) PARTITION BY RANGE (id);
CREATE TEMP TABLE pt1 PARTITION OF pt FOR VALUES FROM (MINVALUE) TO (2000);
CREATE TEMP TABLE pt2 PARTITION OF pt FOR VALUES FROM (2000) TO (5000) PARTITION BY LIST (k);
CREATE TEMP TABLE pt2a PARTITION OF pt2 FOR VALUES IN (0, 1);
CREATE TEMP TABLE pt2b PARTITION OF pt2 DEFAULT;
CREATE TEMP TABLE pt3 (s text, v int, k int, id int);
ALTER TABLE pt ATTACH PARTITION pt3 FOR VALUES FROM (5000) TO (9000);
CREATE TEMP TABLE pt4 PARTITION OF pt DEFAULT;
INSERT INTO pt SELECT i, i % 4, i % 77, 's' || i FROM generate_series(1, 10000) i;
CREATE TEMP TABLE qt (id int, w int) PARTITION BY RANGE (id);
CREATE TEMP TABLE qt1 PARTITION OF qt FOR VALUES FROM (MINVALUE) TO (2000);
CREATE TEMP TABLE qt2 PARTITION OF qt FOR VALUES FROM (2000) TO (5000);
CREATE TEMP TABLE qt3 PARTITION OF qt FOR VALUES FROM (5000) TO (9000);
CREATE TEMP TABLE qt4 PARTITION OF qt DEFAULT;
INSERT INTO qt SELECT i * 2, i % 7 FROM generate_series(1, 5000) i;
ANALYZE pt; ANALYZE qt;

--@ parallel
SELECT count(*), sum(id), max(s) FROM pt;

--@ parallel
SELECT k, count(*), sum(v) FROM pt GROUP BY k;

--@ parallel
SELECT count(*), sum(v) FROM pt WHERE id BETWEEN 1500 AND 2500;

--@ parallel
SELECT tableoid::regclass, count(*) FROM pt GROUP BY 1;

--@ parallel
SELECT count(*), sum(w) FROM pt JOIN qt USING (id);

--@ parallel
--@ ordered
SELECT id, v FROM pt WHERE k = 1 ORDER BY v, id LIMIT 100;

SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;

--@ parallel
SELECT count(*), sum(w) FROM pt JOIN qt USING (id);

--@ parallel
SELECT id / 1000, count(*), sum(w) FROM pt JOIN qt USING (id) GROUP BY 1;

--@ parallel
SELECT id, count(*), sum(v) FROM pt GROUP BY id HAVING id % 1000 = 0;

--@ parallel
SELECT k, count(*), max(s) FROM pt GROUP BY k;

SELECT count(*), count(qt.id), sum(w) FROM pt LEFT JOIN qt USING (id) WHERE v < 20;

SELECT count(*), count(pt.id), count(qt.id) FROM pt FULL JOIN qt USING (id);

SELECT count(*) FROM pt WHERE EXISTS (SELECT 1 FROM qt WHERE qt.id = pt.id AND w = 3);

SELECT count(*) FROM pt WHERE NOT EXISTS (SELECT 1 FROM qt WHERE qt.id = pt.id);

RESET enable_partitionwise_join; RESET enable_partitionwise_aggregate;

SET enable_parallel_append = off;
SELECT count(*), sum(v) FROM pt;
SELECT count(*), sum(v) FROM base;
RESET enable_parallel_append;

-- Run-time pruning.
PREPARE prune (int, int) AS SELECT count(*), sum(v) FROM pt WHERE id BETWEEN $1 AND $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE prune (1, 100);
EXECUTE prune (4000, 6000);
EXECUTE prune (20000, 30000);
RESET plan_cache_mode;

SELECT count(*) FROM pt WHERE id = (SELECT max(id) FROM qt WHERE w = 2);

SELECT count(*) FROM qt JOIN pt ON pt.id = qt.id WHERE qt.w = 1 AND qt.id < 100;

-- Rows move between partitions.
BEGIN;
UPDATE pt SET id = id + 3000 WHERE id BETWEEN 1000 AND 1500;
SELECT tableoid::regclass, count(*), sum(v) FROM pt GROUP BY 1;
ROLLBACK;

SELECT tableoid::regclass, count(*), sum(v) FROM pt GROUP BY 1;

ALTER TABLE pt DETACH PARTITION pt1;
SELECT count(*), sum(v) FROM pt;
SELECT count(*), sum(v) FROM pt1;

-- UNION ALL arms that are appended as children.
SELECT count(*), sum(v) FROM (SELECT id, v FROM pt UNION ALL SELECT id, v FROM base UNION ALL SELECT id, v FROM perm_base) x WHERE id % 3 = 0;

SELECT tbl, count(*) FROM (SELECT 'pt' AS tbl, v FROM pt UNION ALL SELECT 'base', v FROM base UNION ALL SELECT 'u', max(v) FROM pt1) x GROUP BY tbl;

DROP TABLE perm_base CASCADE;
SELECT count(*) FROM pt;

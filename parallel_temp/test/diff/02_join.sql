-- Joins of temporary and permanent tables, both ways round.

CREATE TEMP TABLE a (id int, k int, s text);
INSERT INTO a SELECT i, i % 500, 'a' || i FROM generate_series(1, 12000) i;
CREATE TEMP TABLE b (id int, k int, s text);
INSERT INTO b SELECT i, CASE WHEN i % 17 = 0 THEN NULL ELSE i % 700 END, 'b' || i FROM generate_series(1, 3000) i;
CREATE TEMP TABLE small (k int, name text);
INSERT INTO small SELECT i, 'n' || i FROM generate_series(0, 60) i;
CREATE TABLE p (id int, k int, s text);
INSERT INTO p SELECT i, i % 600, 'p' || i FROM generate_series(1, 12000) i;
CREATE TABLE p_small (k int PRIMARY KEY, name text);
INSERT INTO p_small SELECT i, 'q' || i FROM generate_series(0, 99) i;
ANALYZE a; ANALYZE b; ANALYZE small; ANALYZE p; ANALYZE p_small;

--@ parallel
SELECT count(*), sum(a.id), sum(p.id) FROM a JOIN p ON a.id = p.id;

--@ parallel
SELECT count(*), sum(a.id), max(p.s) FROM p JOIN a ON a.k = p.id;

--@ parallel
SELECT a.k, count(*), sum(p.id) FROM a JOIN p USING (k) WHERE a.id % 10 = 0 GROUP BY a.k;

--@ parallel
SELECT count(*), sum(a.id), sum(b.id) FROM a JOIN b ON a.id = b.id;

--@ parallel
SELECT a.id, b.s FROM a JOIN b USING (k) WHERE a.id < 40;

--@ parallel
SELECT name, count(*) FROM a JOIN small USING (k) GROUP BY name;

--@ parallel
SELECT name, count(*) FROM p JOIN small USING (k) GROUP BY name;

--@ parallel
SELECT name, count(*) FROM a JOIN p_small USING (k) GROUP BY name;

--@ parallel
SELECT count(*), count(b.id), sum(b.id) FROM a LEFT JOIN b ON a.id = b.id;

--@ parallel
SELECT count(*), count(b.id), sum(a.id) FROM b RIGHT JOIN a ON a.k = b.k AND b.id < 100;

SELECT count(*), count(a.id), count(b.id), sum(a.id) FROM a FULL JOIN b ON a.id = b.k;

SELECT count(*), count(a.id), count(p.id), sum(p.id) FROM a FULL JOIN p ON a.id = p.k;

--@ parallel
SELECT count(*), sum(id) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k);

--@ parallel
SELECT count(*), sum(id) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k);

--@ parallel
SELECT count(*), sum(id) FROM p WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = p.k);

--@ parallel
SELECT count(*), sum(id) FROM p WHERE k IN (SELECT k FROM b WHERE s LIKE '%7');

SELECT count(*), sum(id) FROM a WHERE k NOT IN (SELECT k FROM b);

SELECT count(*), sum(id) FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL);

--@ parallel
SELECT count(*) FROM a x JOIN a y ON x.id = y.id + 1;

--@ parallel
SELECT count(*), sum(x.id) FROM a x, a y, a z WHERE x.id = y.id AND y.id = z.k AND z.id < 300;

--@ parallel
SELECT count(*), sum(a.id) FROM a, b, p, small WHERE a.id = b.id AND b.k = p.id AND p.k = small.k;

SELECT count(*) FROM small x CROSS JOIN small y WHERE x.k < y.k;

SELECT count(*) FROM a JOIN small s ON a.id % 100 BETWEEN s.k AND s.k + 3;

-- Each join method alone.
SET enable_hashjoin = off; SET enable_nestloop = off;

--@ parallel
SELECT count(*), sum(a.id), sum(p.id) FROM a JOIN p ON a.id = p.id;

SELECT count(*), sum(a.id), sum(b.id) FROM a LEFT JOIN b ON a.id = b.id;

SELECT count(*), count(a.id), count(b.id) FROM a FULL JOIN b ON a.id = b.id;

SELECT count(*), sum(id) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k);

RESET enable_nestloop; SET enable_mergejoin = off;

--@ parallel
SELECT count(*), sum(a.id) FROM a JOIN small USING (k);

SELECT count(*), sum(small.k) FROM small JOIN p_small USING (k);

SELECT count(*), sum(p_small.k), count(small.name) FROM p_small LEFT JOIN small USING (k);

RESET enable_hashjoin; RESET enable_mergejoin; SET enable_mergejoin = off; SET enable_nestloop = off;

SET enable_parallel_hash = off;

--@ parallel
SELECT count(*), sum(a.id), sum(p.id) FROM a JOIN p ON a.id = p.id;

--@ parallel
SELECT count(*), sum(a.id), sum(b.id) FROM p JOIN b ON p.id = b.id JOIN a ON a.id = p.id;

RESET enable_parallel_hash;

--@ parallel
SELECT count(*), sum(a.id), sum(p.id) FROM a JOIN p ON a.id = p.id;

SET work_mem = '64kB';

--@ parallel
SELECT count(*), sum(a.id), sum(p.id), max(a.s || p.s) FROM a JOIN p ON a.id = p.id;

--@ parallel
SELECT count(*), sum(a.id), max(a.s || b.s) FROM a JOIN b ON a.id = b.id;

RESET work_mem; RESET enable_mergejoin; RESET enable_nestloop;

-- Parameterised inner side.
CREATE INDEX a_id ON a (id); CREATE INDEX p_id ON p (id);
SET enable_hashjoin = off; SET enable_mergejoin = off;

SELECT count(*), sum(a.id) FROM p JOIN a ON a.id = p.id WHERE p.k < 100;

SELECT count(*), sum(a.id) FROM a JOIN p ON a.id = p.id WHERE a.k < 100;

SELECT count(*), sum(b.id) FROM b JOIN a ON a.id = b.id;

SELECT count(*), sum(p.id), count(a.id) FROM p LEFT JOIN a ON a.id = p.k AND a.k < 20;

SET enable_memoize = off;
SELECT count(*), sum(a.id) FROM p JOIN a ON a.id = p.k;
RESET enable_memoize; RESET enable_hashjoin; RESET enable_mergejoin;

-- Join with rows that a join filter, an expression or a row value decide.
--@ parallel
SELECT count(*) FROM a JOIN b ON a.k = b.k AND a.id > b.id AND length(a.s) <> length(b.s);

--@ parallel
SELECT count(*), max(a.s) FROM a JOIN p ON md5(a.s) = md5('a' || p.id);

SELECT a.k, b.cnt FROM (SELECT k, count(*) AS cnt FROM a GROUP BY k) a JOIN (SELECT k, count(*) AS cnt FROM b GROUP BY k) b USING (k, cnt);

SELECT count(*) FROM a JOIN generate_series(1, 400) g ON a.id = g;

--@ parallel
SELECT count(*) FROM a JOIN generate_series(1, 400) g ON length(a.s) = g;

SELECT count(*) FROM a JOIN (VALUES (1, 'x'), (7, 'y')) v (id, n) USING (id);

SELECT count(*) FROM a NATURAL JOIN b;

SET enable_partitionwise_join = on; SET geqo_threshold = 2;
SELECT count(*), sum(a.id) FROM a, b, p, small, p_small ps WHERE a.id = b.id AND b.k = p.id AND p.k = small.k AND ps.k = small.k;
RESET geqo_threshold;

DROP TABLE p, p_small;

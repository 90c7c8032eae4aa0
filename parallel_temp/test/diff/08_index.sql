-- Index, index-only and bitmap access to temporary tables.

CREATE TEMP TABLE t (id int, k int, v int, s text, arr int[], pt point);
INSERT INTO t SELECT i, i % 400, (i * 37) % 5003, md5(i::text), ARRAY[i % 10, i % 13], point(i % 100, i / 100) FROM generate_series(1, 12000) i;
CREATE INDEX t_id ON t (id);
CREATE INDEX t_k ON t (k) INCLUDE (v);
CREATE INDEX t_s ON t (s text_pattern_ops);
CREATE INDEX t_hash ON t USING hash (v);
CREATE INDEX t_gin ON t USING gin (arr);
CREATE INDEX t_gist ON t USING gist (pt);
CREATE INDEX t_brin ON t USING brin (id);
CREATE INDEX t_part ON t (v) WHERE k < 20;
CREATE INDEX t_expr ON t ((id % 77));
CREATE TABLE perm (id int, k int);
INSERT INTO perm SELECT i, i % 300 FROM generate_series(1, 8000) i;
CREATE INDEX perm_k ON perm (k);
ANALYZE t; ANALYZE perm;
SET random_page_cost = 1; SET min_parallel_index_scan_size = 0;

SELECT count(*), sum(v) FROM t WHERE id BETWEEN 100 AND 5000;

SELECT count(*), sum(v) FROM t WHERE k = 17;

SELECT count(*) FROM t WHERE s LIKE 'ab%';

SELECT count(*) FROM t WHERE v = 37;

SELECT count(*) FROM t WHERE arr @> ARRAY[3];

SELECT count(*) FROM t WHERE pt <@ box '((0,0),(20,20))';

SELECT count(*) FROM t WHERE id % 77 = 5;

SELECT count(*), sum(id) FROM t WHERE v < 100 AND k < 20;

SELECT count(*), sum(t.v) FROM perm JOIN t USING (id) WHERE perm.k < 100;

-- Every kind of index, without sequential scans.
SET enable_seqscan = off;

SELECT count(*), max(s) FROM t WHERE s LIKE 'ab%';

SELECT count(*), max(s) FROM t WHERE v = 37;

SELECT count(*), max(s) FROM t WHERE arr @> ARRAY[3];

SELECT count(*), max(s) FROM t WHERE pt <@ box '((0,0),(60,60))';

SELECT count(*), max(s) FROM t WHERE id % 77 BETWEEN 5 AND 30;

SELECT count(*), sum(id) FROM t WHERE v < 3000 AND k < 20;

SELECT count(*) FROM perm JOIN t ON t.v = perm.id AND t.s > '2' WHERE perm.k < 100;

SELECT count(*) FROM perm WHERE EXISTS (SELECT 1 FROM t WHERE t.arr @> ARRAY[perm.k % 20] AND t.id % 77 = perm.id);

-- One access at a time.
SET enable_bitmapscan = off; SET enable_indexonlyscan = off;

--@ index
SELECT count(*), sum(v), max(s) FROM t WHERE id BETWEEN 100 AND 9000;

SELECT k, count(*), sum(v) FROM t WHERE k < 50 GROUP BY k;

--@ ordered
SELECT id, v FROM t WHERE id > 11900 ORDER BY id;

--@ ordered
SELECT id FROM t WHERE id < 300 ORDER BY id DESC;

RESET enable_indexonlyscan; SET enable_indexscan = off;

SELECT count(id) FROM t WHERE id BETWEEN 100 AND 9000;

SELECT k, sum(v) FROM t WHERE k BETWEEN 10 AND 90 GROUP BY k;

VACUUM t;

SELECT count(id) FROM t WHERE id BETWEEN 100 AND 9000;

SELECT k, sum(v) FROM t WHERE k BETWEEN 10 AND 90 GROUP BY k;

RESET enable_indexscan; SET enable_bitmapscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off;

--@ index
SELECT count(*), sum(v), max(s) FROM t WHERE id BETWEEN 100 AND 9000;

SELECT count(*), sum(v) FROM t WHERE id < 2000 AND k < 50;

SELECT count(*), sum(v) FROM t WHERE id < 200 OR k = 50 OR v = 37;

SET work_mem = '64kB';
SELECT count(*), sum(v) FROM t WHERE id BETWEEN 100 AND 9000 AND s > 'a';
RESET work_mem;

RESET enable_seqscan; RESET enable_indexscan; RESET enable_indexonlyscan;

-- Parameterised inner scans: the commonest plan with a permanent outer table.
SET enable_hashjoin = off; SET enable_mergejoin = off;

SELECT count(*), sum(t.v) FROM perm JOIN t ON t.id = perm.id;

SELECT count(*), sum(t.v) FROM perm JOIN t ON t.id = perm.id AND t.k < 200;

SELECT count(*), sum(t.id) FROM perm JOIN t ON t.k = perm.k WHERE perm.id < 200;

SELECT count(*), sum(t.v), count(t.id) FROM perm LEFT JOIN t ON t.id = perm.id * 2;

SELECT count(*) FROM perm WHERE EXISTS (SELECT 1 FROM t WHERE t.id = perm.id + 5000);

SELECT count(*) FROM perm WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.id = perm.id + 5000);

SELECT count(*), sum(b.v) FROM t a JOIN t b ON b.id = a.v WHERE a.k < 60;

SELECT count(*), sum(p.id) FROM t JOIN perm p ON p.k = t.k WHERE t.id < 500;

SET enable_indexscan = off;
SELECT count(*), sum(t.v) FROM perm JOIN t ON t.id = perm.id;
RESET enable_indexscan;

RESET enable_hashjoin; RESET enable_mergejoin;

-- Merge joins on index order, min and max from an index, k nearest neighbors.
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT count(*), sum(t.v) FROM perm JOIN t ON t.id = perm.id;
RESET enable_hashjoin; RESET enable_nestloop;

SELECT min(id), max(id), min(k) FROM t;

--@ ordered
SELECT id FROM t ORDER BY pt <-> point(50.3, 50.2), id LIMIT 5;

-- After changes that the index does not know as dead yet.
BEGIN;
DELETE FROM t WHERE id % 3 = 0;
UPDATE t SET k = k + 1000 WHERE id % 5 = 0;
UPDATE t SET v = v + 1 WHERE id % 7 = 0;
SELECT count(*), sum(v) FROM t WHERE id BETWEEN 100 AND 5000;
SELECT count(*), sum(v) FROM t WHERE k BETWEEN 10 AND 30;
SELECT count(*), sum(t.v) FROM perm JOIN t USING (id);
SAVEPOINT a;
INSERT INTO t (id, k, v) SELECT i, 17, i FROM generate_series(20000, 22000) i;
SELECT count(*), sum(v) FROM t WHERE k = 17;
SELECT count(*), sum(v) FROM t WHERE id > 11990;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM t WHERE k = 17;
COMMIT;
SELECT count(*), sum(v) FROM t WHERE k = 17;
SELECT count(*), sum(t.v) FROM perm JOIN t USING (id);

-- Twice the same index scan: the first may kill index entries.
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(v) FROM t WHERE id BETWEEN 1 AND 9000;
SELECT count(*), sum(v) FROM t WHERE id BETWEEN 1 AND 9000;
RESET enable_seqscan; RESET enable_bitmapscan;

REINDEX TABLE t;
SELECT count(*), sum(v) FROM t WHERE id BETWEEN 1 AND 9000;

-- Unique and foreign keys between temporary tables.
CREATE TEMP TABLE parent (id int PRIMARY KEY, n text);
CREATE TEMP TABLE kid (id int, parent int REFERENCES parent ON DELETE CASCADE);
INSERT INTO parent SELECT i, 'n' || i FROM generate_series(1, 1000) i;
INSERT INTO kid SELECT i, 1 + i % 1000 FROM generate_series(1, 5000) i;
INSERT INTO kid VALUES (1, 5000);

INSERT INTO parent VALUES (5, 'again');

SELECT count(*), sum(k.id) FROM kid k JOIN parent p ON p.id = k.parent;

DELETE FROM parent WHERE id % 2 = 0;
SELECT count(*), sum(k.id) FROM kid k JOIN parent p ON p.id = k.parent;

SELECT count(*) FROM kid LEFT JOIN parent p ON p.id = kid.parent;

ALTER TABLE kid ADD CONSTRAINT positive CHECK (id > 3);

SELECT n FROM parent WHERE id = 501;

DROP TABLE perm;

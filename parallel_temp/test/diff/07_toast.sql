-- Values out of line and compressed.

CREATE TEMP TABLE t (id int, ext text, ext2 text, main text, comp text);
ALTER TABLE t ALTER ext SET STORAGE EXTERNAL, ALTER ext2 SET STORAGE EXTENDED, ALTER main SET STORAGE MAIN;
INSERT INTO t SELECT i, (SELECT string_agg(md5((i * 1000 + n)::text), '') FROM generate_series(1, 100) n), repeat('abc' || i, 2000), repeat('m' || i, 500), repeat('c', i % 4000)
	FROM generate_series(1, 300) i;
CREATE TABLE perm (id int, x text);
INSERT INTO perm SELECT i, repeat('p' || i, 1000) FROM generate_series(1, 300) i;

--@ parallel
SELECT count(*), sum(id) FROM t;

--@ parallel
SELECT count(*), sum(length(ext)), sum(length(ext2)), sum(length(main)), sum(length(comp)) FROM t;

--@ parallel
SELECT id, md5(ext), md5(ext2), md5(main), md5(comp) FROM t WHERE id % 7 = 0;

--@ parallel
SELECT id, substr(ext, 1000, 20), substr(ext2, 3000, 10) FROM t WHERE right(ext, 1) = '0';

--@ parallel
SELECT count(*) FROM t WHERE ext LIKE '%abcd%';

SELECT id, ext FROM t WHERE id = 17;

SELECT count(*), max(length(x || ext)) FROM t JOIN perm USING (id);

SELECT count(*) FROM perm JOIN t ON perm.x = repeat('p' || t.id, 1000) AND length(t.ext) > 100;

SELECT md5(string_agg(ext, '' ORDER BY id)) FROM t;

SELECT count(DISTINCT ext), count(DISTINCT ext2) FROM t;

--@ ordered
SELECT id FROM t ORDER BY ext COLLATE "C" LIMIT 30;

SELECT pg_column_size(ext), count(*) FROM t GROUP BY 1;

SELECT id, octet_length(ext2), pg_column_size(ext2) < 4000 FROM t WHERE id < 5;

-- Changed values, in and out of a transaction.
BEGIN;
UPDATE t SET ext = reverse(ext) WHERE id % 3 = 0;
SELECT md5(string_agg(ext, '' ORDER BY id)), sum(length(ext)) FROM t;
SAVEPOINT a;
UPDATE t SET ext = 'short' WHERE id % 2 = 0;
SELECT md5(string_agg(ext, '' ORDER BY id)), sum(length(ext)) FROM t;
ROLLBACK TO a;
SELECT md5(string_agg(ext, '' ORDER BY id)), sum(length(ext)) FROM t;
DELETE FROM t WHERE id % 10 = 0;
SELECT md5(string_agg(ext, '' ORDER BY id)), sum(length(ext)) FROM t;
COMMIT;
SELECT md5(string_agg(ext, '' ORDER BY id)), sum(length(ext)) FROM t;

INSERT INTO t SELECT id + 1000, ext, ext2, main, comp FROM t;
SELECT count(*), count(DISTINCT md5(ext)), sum(length(ext)) FROM t;

UPDATE t SET id = id + 1;
SELECT count(*), sum(id), count(DISTINCT md5(ext)), sum(length(ext)) FROM t;

VACUUM t;
SELECT count(*), sum(id), count(DISTINCT md5(ext)), sum(length(ext)) FROM t;

VACUUM FULL t;
SELECT count(*), sum(id), count(DISTINCT md5(ext)), sum(length(ext)) FROM t;

-- Through a function, a CTE, a function scan result and into other tables.
CREATE TEMP TABLE copy AS SELECT * FROM t WHERE length(ext) > 100;
SELECT count(*), md5(string_agg(ext, '' ORDER BY id)) FROM copy;

WITH c AS MATERIALIZED (SELECT id, ext FROM t) SELECT sum(length(ext)) FROM c;

INSERT INTO perm SELECT id, ext FROM t;
SELECT count(*), sum(length(x)) FROM perm;

CREATE FUNCTION long_of(int) RETURNS text LANGUAGE sql STABLE PARALLEL RESTRICTED AS 'SELECT ext FROM t WHERE id = $1 LIMIT 1';

SELECT sum(length(long_of(id))) FROM t WHERE id < 60;

-- Both compression methods where the server has them.
CREATE TEMP TABLE z (id int, l text COMPRESSION pglz);
INSERT INTO z SELECT i, repeat('compress me ' || i, 400) FROM generate_series(1, 200) i;
SELECT sum(length(l)), md5(string_agg(l, '' ORDER BY id)) FROM z;

DO $$BEGIN ALTER TABLE z ALTER l SET COMPRESSION lz4; EXCEPTION WHEN feature_not_supported THEN NULL; END$$;

INSERT INTO z SELECT i, repeat('compress me ' || i, 400) FROM generate_series(201, 400) i;

--@ parallel
SELECT sum(length(l)), md5(string_agg(l, '' ORDER BY id)) FROM z;

-- Other types that are long: arrays, jsonb, bytea, numeric, composite.
CREATE TYPE pair AS (n int, txt text);
CREATE TEMP TABLE o (id int, arr int[], j jsonb, b bytea, n numeric, r pair, rs pair[]);
INSERT INTO o SELECT i, (SELECT array_agg(x * i) FROM generate_series(1, 1500) x), jsonb_build_object('k', repeat(md5(i::text), 100), 'i', i),
	decode(repeat(md5(i::text), 200), 'hex'), ('1' || repeat('7', 3000 + i))::numeric, (i, repeat('r' || i, 900))::pair, ARRAY[(i, repeat('s' || i, 900))::pair, NULL]
	FROM generate_series(1, 120) i;

--@ parallel
SELECT sum(arr[700]), sum((j ->> 'i')::int), sum(length(b)), sum(length(n::text)), sum(length((r).txt)), sum(length((rs[1]).txt)) FROM o;

SELECT id, md5(arr::text), md5(j::text), md5(b), md5(n::text), md5(r::text), md5(rs::text) FROM o WHERE id % 20 = 0;

SELECT count(*) FROM o WHERE j @> '{"i": 7}' OR 14000 = ANY (arr);

SELECT count(*), sum(n) FROM o JOIN t USING (id);

DROP TABLE o;
DROP FUNCTION long_of;
DROP TABLE perm;
DROP TYPE pair;

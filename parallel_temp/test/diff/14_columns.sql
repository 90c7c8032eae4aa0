-- Which columns a scan gives to its parent: of every length and alignment, in front of
-- and behind the first of variable length, null, dropped, and added after the row.

CREATE TEMP TABLE c (a int2, b "char", c int8, d bool, e uuid, f name, g text, h "char", i int2, j numeric, k float8, l int4[], m text, n timetz, o int4);
INSERT INTO c SELECT i % 300, chr(65 + i % 26)::"char", i * 1000000007::bigint, i % 3 = 0, md5(i::text)::uuid, 'n' || i % 77,
	repeat('x', i % 7), chr(97 + i % 26)::"char", i % 200, i / 13.0, i / 3.0, ARRAY[i, i % 5], CASE WHEN i % 11 = 0 THEN repeat(md5(i::text), 10) ELSE i::text END,
	'00:00:00+00'::timetz + i * interval '1 second', i FROM generate_series(1, 9000) i;
-- the same with nulls in every place
CREATE TEMP TABLE n AS SELECT CASE WHEN o % 2 = 0 THEN a END a, CASE WHEN o % 3 = 0 THEN b END b, CASE WHEN o % 5 <> 0 THEN c END c, CASE WHEN o % 7 <> 0 THEN d END d,
	CASE WHEN o % 11 <> 0 THEN e END e, CASE WHEN o % 13 <> 0 THEN f END f, CASE WHEN o % 4 <> 1 THEN g END g, CASE WHEN o % 6 <> 1 THEN h END h, CASE WHEN o % 8 <> 3 THEN i END i,
	CASE WHEN o % 9 <> 4 THEN j END j, CASE WHEN o % 10 <> 5 THEN k END k, CASE WHEN o % 12 <> 5 THEN l END l, CASE WHEN o % 14 <> 2 THEN m END m, CASE WHEN o % 15 <> 2 THEN n END n, o FROM c;

--@ parallel
SELECT count(*) FROM c;

--@ parallel
SELECT count(*) FROM n WHERE true;

--@ parallel
SELECT sum(a) FROM c;

--@ parallel
SELECT a, count(*) FROM n GROUP BY a;

--@ parallel
SELECT o, count(*), sum(c), sum(a) FROM c GROUP BY o HAVING o % 500 = 1;

--@ parallel
SELECT d, b, max(g), min(h::text), sum(i) FROM c GROUP BY d, b;

--@ parallel
SELECT d, b, max(g), min(h::text), sum(i), count(e), max(f::text) FROM n GROUP BY d, b;

--@ parallel
SELECT max(e::text), min(f), max(n), sum(k::numeric), avg(j) FROM c;

--@ parallel
SELECT max(e::text), min(f), max(n), sum(k::numeric), avg(j) FROM n;

--@ parallel
SELECT g, m, o FROM c WHERE i = 77;

--@ parallel
SELECT m, l, j, h, g, f, e, d, c, b, a FROM n WHERE o % 100 = 7;

--@ parallel
SELECT n, o, l FROM n WHERE k < 100 AND g IS NOT NULL;

--@ parallel
SELECT h, i FROM c WHERE a = 5 AND d;

--@ parallel
SELECT f FROM c WHERE o < 100;

--@ parallel
SELECT a, a, b, b FROM n WHERE o % 200 = 3;

--@ parallel
SELECT ctid, a, tableoid::regclass FROM c WHERE o % 300 = 3;

--@ parallel
SELECT c FROM c WHERE o % 300 = 3;

--@ parallel
SELECT c.*::text FROM c WHERE o % 300 = 4;

--@ parallel
SELECT x.h, x.m, y.f, y.e, y.l FROM c x JOIN n y ON x.o = y.o WHERE y.a < 10;

--@ parallel
SELECT count(*), sum(y.i), max(x.m) FROM c x JOIN n y ON x.c = y.c AND x.d = y.d;

--@ parallel
SELECT x.e, count(y.e), max(y.g) FROM n x LEFT JOIN n y ON x.e = y.e AND y.o % 2 = 0 GROUP BY x.e HAVING count(y.e) <> 1;

ALTER TABLE c DROP COLUMN d, DROP COLUMN g;
ALTER TABLE n DROP COLUMN b, DROP COLUMN l;

--@ parallel
SELECT count(*), sum(a), max(e::text), max(m) FROM c;

--@ parallel
SELECT i, count(*), max(m) FROM n GROUP BY i;

--@ parallel
SELECT o, h FROM c WHERE i = 78;

--@ parallel
SELECT n.o, n.k, n.m, n.d FROM n WHERE a = 4;

ALTER TABLE c ADD COLUMN p int DEFAULT 7, ADD COLUMN q text DEFAULT 'later', ADD COLUMN r int;
INSERT INTO c (a, o, p, q, r) SELECT 1, i, i % 3, i::text, i FROM generate_series(9001, 11000) i;

--@ parallel
SELECT p, count(*), max(q), sum(r) FROM c GROUP BY p;

--@ parallel
SELECT r, q, a FROM c WHERE o % 500 = 0;

--@ parallel
SELECT sum(p), sum(o), count(e) FROM c;

--@ parallel
SELECT x.p, y.q, count(*) FROM c x JOIN c y ON x.o = y.p GROUP BY x.p, y.q;

-- joins and groups whose keys are looked up in large tables
CREATE TEMP TABLE big AS SELECT i AS id, i % 1000 AS k, i::int8 * 3 AS id8, CASE WHEN i % 5 <> 0 THEN i END AS maybe FROM generate_series(1, 150000) i;
CREATE TEMP TABLE probe AS SELECT (i * 7919::bigint % 200000)::int AS id, (i * 104729::bigint % 500000) AS id8, CASE WHEN i % 3 <> 0 THEN i END AS maybe, i::text AS txt FROM generate_series(1, 60000) i;
ANALYZE big, probe;

--@ parallel
SELECT count(*), sum(b.k), sum(p.id) FROM probe p JOIN big b ON p.id = b.id;

--@ parallel
SELECT count(*), sum(b.k), sum(p.id8) FROM probe p JOIN big b ON p.id8 = b.id8;

--@ parallel
SELECT count(*), count(b.id), sum(b.k) FROM probe p LEFT JOIN big b ON p.maybe = b.maybe;

--@ parallel
SELECT count(*), sum(p.id) FROM probe p WHERE EXISTS (SELECT 1 FROM big b WHERE b.id = p.id);

--@ parallel
SELECT count(*), sum(p.id) FROM probe p WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.id8 = p.id8);

--@ parallel
SELECT b.k, count(*), max(p.txt) FROM probe p JOIN big b ON p.id = b.id AND p.maybe = b.maybe GROUP BY b.k;

--@ parallel
SELECT count(*), count(p.id), count(b.id), sum(b.k) FROM big b RIGHT JOIN probe p ON p.id = b.id AND b.k < 500;

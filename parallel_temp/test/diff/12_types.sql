-- Column types, null bitmaps, alignment; compiled expressions.

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TEMP TABLE t (b bool, c "char", n name, i2 int2, i8 int8, f4 float4, f8 float8, num numeric(20, 5), ts timestamp, tz timestamptz, tm time, iv interval, u uuid, ip inet,
	mac macaddr, bits bit(11), vb varbit, e mood, p positive, r pair, ir int4range, mr int4multirange, arr text[], j json, jb jsonb, x xml, tsv tsvector, o oid, pt point, by bytea, bp char(9), vc varchar(20));
INSERT INTO t SELECT i % 2 = 0, chr(65 + i % 20)::"char", 'name' || i, i % 30000, i * 1000000000::int8, i / 4.0, i / 8.0, i / 3.0, timestamp '2000-01-01' + i * interval '1 hour',
	timestamptz '2000-01-01 00:00+00' + i * interval '1 hour', time '00:00' + i * interval '1 second', i * interval '1 day 1 second', md5(i::text)::uuid, ('10.' || i % 256 || '.0.' || i % 200)::inet,
	'08:00:2b:01:02:03'::macaddr, (i % 2048)::bit(11), (i % 7)::bit(3)::varbit, (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood, i, (i, 'b' || i)::pair, int4range(i, i + 10), int4multirange(int4range(i, i + 2)),
	ARRAY['x' || i, NULL, 'z'], json_build_object('i', i), jsonb_build_object('i', i, 'a', ARRAY[i, 2]), NULL, to_tsvector('simple', 'word' || i || ' other'), i, point(i, -i), decode(md5(i::text), 'hex'), 'bp' || i, 'vc' || i
	FROM generate_series(1, 3000) i;
INSERT INTO t (e, bp) SELECT 'sad', 'null row' FROM generate_series(1, 100);
INSERT INTO t DEFAULT VALUES;

--@ parallel
SELECT count(*), count(b), min(c), max(n), sum(i2), sum(i8), sum(f4), sum(f8), sum(num), max(ts), min(tz AT TIME ZONE 'UTC'), max(tm), sum(iv) FROM t;

--@ parallel
SELECT count(DISTINCT u), max(ip), count(mac), count(bits), count(vb), max(e), sum(p), max((r).b), max(upper(ir)), count(mr), max(arr[1]), sum((j ->> 'i')::int), sum((jb -> 'a' ->> 0)::int), count(x) FROM t;

--@ parallel
SELECT e, count(*), count(tsv), sum(o::int8), sum(pt[0]), max(encode(by, 'hex')), max(bp), max(vc) FROM t GROUP BY e;

--@ parallel
SELECT t FROM t WHERE p % 500 = 0 OR p IS NULL AND e IS NULL;

--@ parallel
SELECT count(*) FROM t WHERE tsv @@ 'word77 | word99'::tsquery OR ir @> 1500 OR jb @> '{"i": 3}' OR arr @> ARRAY['x5'] OR ip << '10.7.0.0/16';

SELECT e, b, count(*) FROM t GROUP BY ROLLUP (e, b);

SELECT count(*) FROM t x JOIN t y ON x.u = y.u AND x.r = y.r AND x.num = y.num;

SELECT count(*) FROM t x JOIN t y ON x.ir && y.ir AND x.p < 50;

SELECT array_agg(e ORDER BY e, p) FROM t WHERE p < 30;

UPDATE t SET r.b = 'changed', arr[2] = 'set', jb = jb || '{"n": 1}' WHERE p % 3 = 0;
SELECT count(*), count(*) FILTER (WHERE (r).b = 'changed'), count(*) FILTER (WHERE arr[2] = 'set'), count(*) FILTER (WHERE jb ? 'n') FROM t;

-- Bit patterns of nulls around byte borders.
CREATE TEMP TABLE nulls (c1 int, c2 int8, c3 "char", c4 text, c5 int2, c6 float8, c7 bool, c8 text, c9 int, c10 text);
INSERT INTO nulls SELECT CASE WHEN i & 1 > 0 THEN i END, CASE WHEN i & 2 > 0 THEN i END, CASE WHEN i & 4 > 0 THEN 'c' END, CASE WHEN i & 8 > 0 THEN 't' || i END, CASE WHEN i & 16 > 0 THEN i END,
	CASE WHEN i & 32 > 0 THEN i END, CASE WHEN i & 64 > 0 THEN true END, CASE WHEN i & 128 > 0 THEN repeat('l', 200) END, CASE WHEN i & 256 > 0 THEN i END, CASE WHEN i & 512 > 0 THEN 'e' || i END
	FROM generate_series(0, 4095) i;

--@ parallel
SELECT count(c1), count(c2), count(c3), count(c4), count(c5), count(c6), count(c7), count(c8), count(c9), count(c10), sum(c1), sum(c2), sum(c5), sum(c6), sum(c9), max(c10), sum(length(c8)) FROM nulls;

--@ parallel
SELECT c10, c2, c9 FROM nulls WHERE c7 AND c3 IS NULL AND c9 > 4000;

SELECT nulls IS NULL, nulls IS NOT NULL, count(*) FROM nulls GROUP BY 1, 2;

-- Compiled expressions and tuple deforming, where the server can.
SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0;

--@ parallel
SELECT count(c1), sum(c2), count(c3), max(c10), sum(c9 + c1) FROM nulls WHERE c5 IS NOT NULL OR c6 > 7;

--@ parallel
SELECT e, sum(i2), sum(num), max(vc) FROM t WHERE p > 10 GROUP BY e;

RESET jit; RESET jit_above_cost; RESET jit_inline_above_cost; RESET jit_optimize_above_cost;

-- Types that go and change below a table.
CREATE TEMP TABLE dom (v positive);
INSERT INTO dom SELECT generate_series(1, 2000);
SELECT count(*), sum(v) FROM dom;
ALTER DOMAIN positive ADD CHECK (VALUE < 1500);
ALTER DOMAIN positive DROP CONSTRAINT positive_check;
SELECT count(*), sum(v) FROM dom;
ALTER TYPE mood ADD VALUE 'glad' AFTER 'ok';
INSERT INTO t (e) VALUES ('glad');
SELECT e, count(*) FROM t GROUP BY e;

-- Collations.
CREATE TEMP TABLE coll (s text, c text COLLATE "C");
INSERT INTO coll SELECT (ARRAY['a', 'B', 'b', 'A', 'é', '-a', ' a'])[1 + i % 7] || i % 9, (ARRAY['a', 'B', 'b'])[1 + i % 3] FROM generate_series(1, 3000) i;

--@ parallel
SELECT max(s), min(s), max(c), min(s COLLATE "C") FROM coll;

--@ ordered
SELECT DISTINCT s, c FROM coll ORDER BY s, c;

SELECT lower(s), count(*) FROM coll WHERE s ILIKE '%A%' GROUP BY 1;

DROP TABLE t, dom;
DROP TYPE mood; DROP DOMAIN positive; DROP TYPE pair;

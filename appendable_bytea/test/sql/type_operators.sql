--
-- Order, equality and hashing of the type: in joins, sorts and grouping, among
-- values and against bytea.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;

-- the same content in different shapes, prefixes, and neighbors in the order
CREATE TABLE ordered (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data appendable_bytea, plain bytea);
INSERT INTO ordered (data, plain)
SELECT b, b FROM (SELECT convert_to(repeat(letter, n), 'UTF8') AS b
	FROM unnest(ARRAY['a', 'b', 'ab']) letter, unnest(ARRAY[0, 1, 3, 100, 450, 5000, 8112, 9000, 20000]) n) v;
-- equal values that lie in other chunks
INSERT INTO ordered (data, plain) SELECT '', '' FROM generate_series(1, 4);
UPDATE ordered SET data = data || convert_to(repeat('a', 3000), 'UTF8'), plain = plain || convert_to(repeat('a', 3000), 'UTF8') WHERE id > 27;
UPDATE ordered SET data = data || convert_to(repeat('a', 2000), 'UTF8'), plain = plain || convert_to(repeat('a', 2000), 'UTF8') WHERE id > 27;
UPDATE ordered SET data = data || convert_to(repeat('a', 3112), 'UTF8'), plain = plain || convert_to(repeat('a', 3112), 'UTF8') WHERE id > 29;
UPDATE ordered SET data = overlay(data PLACING '\xff' FROM 4000), plain = overlay(plain PLACING '\xff' FROM 4000) WHERE id = 31;
INSERT INTO ordered (data) VALUES (NULL);

-- every operator on every pair, and across the types in both directions
SELECT '=' AS operator, count(*) AS pairs, count(*) FILTER (WHERE (a.data = b.data) IS DISTINCT FROM (a.plain = b.plain)) AS values_differ,
	count(*) FILTER (WHERE (a.data = b.plain) IS DISTINCT FROM (a.plain = b.plain)) AS left_differs,
	count(*) FILTER (WHERE (a.plain = b.data) IS DISTINCT FROM (a.plain = b.plain)) AS right_differs FROM ordered a, ordered b
UNION ALL
SELECT '<>' AS operator, count(*) AS pairs, count(*) FILTER (WHERE (a.data <> b.data) IS DISTINCT FROM (a.plain <> b.plain)) AS values_differ,
	count(*) FILTER (WHERE (a.data <> b.plain) IS DISTINCT FROM (a.plain <> b.plain)) AS left_differs,
	count(*) FILTER (WHERE (a.plain <> b.data) IS DISTINCT FROM (a.plain <> b.plain)) AS right_differs FROM ordered a, ordered b
UNION ALL
SELECT '<' AS operator, count(*) AS pairs, count(*) FILTER (WHERE (a.data < b.data) IS DISTINCT FROM (a.plain < b.plain)) AS values_differ,
	count(*) FILTER (WHERE (a.data < b.plain) IS DISTINCT FROM (a.plain < b.plain)) AS left_differs,
	count(*) FILTER (WHERE (a.plain < b.data) IS DISTINCT FROM (a.plain < b.plain)) AS right_differs FROM ordered a, ordered b
UNION ALL
SELECT '<=' AS operator, count(*) AS pairs, count(*) FILTER (WHERE (a.data <= b.data) IS DISTINCT FROM (a.plain <= b.plain)) AS values_differ,
	count(*) FILTER (WHERE (a.data <= b.plain) IS DISTINCT FROM (a.plain <= b.plain)) AS left_differs,
	count(*) FILTER (WHERE (a.plain <= b.data) IS DISTINCT FROM (a.plain <= b.plain)) AS right_differs FROM ordered a, ordered b
UNION ALL
SELECT '>' AS operator, count(*) AS pairs, count(*) FILTER (WHERE (a.data > b.data) IS DISTINCT FROM (a.plain > b.plain)) AS values_differ,
	count(*) FILTER (WHERE (a.data > b.plain) IS DISTINCT FROM (a.plain > b.plain)) AS left_differs,
	count(*) FILTER (WHERE (a.plain > b.data) IS DISTINCT FROM (a.plain > b.plain)) AS right_differs FROM ordered a, ordered b
UNION ALL
SELECT '>=' AS operator, count(*) AS pairs, count(*) FILTER (WHERE (a.data >= b.data) IS DISTINCT FROM (a.plain >= b.plain)) AS values_differ,
	count(*) FILTER (WHERE (a.data >= b.plain) IS DISTINCT FROM (a.plain >= b.plain)) AS left_differs,
	count(*) FILTER (WHERE (a.plain >= b.data) IS DISTINCT FROM (a.plain >= b.plain)) AS right_differs FROM ordered a, ordered b
ORDER BY operator;

-- rows are compared column by column, also with bytea
SELECT count(*) FILTER (WHERE ((a.data, a.id) < (b.plain, b.id)) IS DISTINCT FROM ((a.plain, a.id) < (b.plain, b.id))) AS lt,
	count(*) FILTER (WHERE ((a.data, a.id) <= (b.plain, b.id)) IS DISTINCT FROM ((a.plain, a.id) <= (b.plain, b.id))) AS le,
	count(*) FILTER (WHERE ((a.plain, a.id) = (b.data, b.id)) IS DISTINCT FROM ((a.plain, a.id) = (b.plain, b.id))) AS eq,
	count(*) FILTER (WHERE ((a.plain, a.id) <> (b.data, b.id)) IS DISTINCT FROM ((a.plain, a.id) <> (b.plain, b.id))) AS ne,
	count(*) FILTER (WHERE ((a.data, a.id) >= (b.plain, b.id)) IS DISTINCT FROM ((a.plain, a.id) >= (b.plain, b.id))) AS ge,
	count(*) FILTER (WHERE ((a.plain, a.id) > (b.data, b.id)) IS DISTINCT FROM ((a.plain, a.id) > (b.plain, b.id))) AS gt, count(*) > 100 AS compared
FROM ordered a, ordered b;
SELECT (data, id) > ('\x62'::bytea, 1) AS greater FROM ordered WHERE id = 1;

-- sorting, distinct values, groups
SELECT array_agg(id ORDER BY data, id) = array_agg(id ORDER BY plain, id) AS ascending,
	array_agg(id ORDER BY data DESC, id) = array_agg(id ORDER BY plain DESC, id) AS descending,
	array_agg(id ORDER BY data NULLS FIRST, id) = array_agg(id ORDER BY plain NULLS FIRST, id) AS nulls_first,
	count(DISTINCT data) = count(DISTINCT plain) AS distinct_values
FROM ordered;
SET enable_hashagg = off;
SELECT count(*), sum(n) FROM (SELECT data, count(*) AS n FROM ordered GROUP BY data) g;
SELECT count(*) FROM (SELECT DISTINCT data FROM ordered) d;
RESET enable_hashagg;
SET enable_sort = off;
SELECT count(*), sum(n) FROM (SELECT data, count(*) AS n FROM ordered GROUP BY data) g;
SELECT count(*) FROM (SELECT data FROM ordered UNION SELECT plain::appendable_bytea FROM ordered) u;
SELECT count(*) FROM (SELECT data FROM ordered INTERSECT SELECT plain::appendable_bytea FROM ordered) u;
SELECT count(*) FROM (SELECT data FROM ordered EXCEPT SELECT plain::appendable_bytea FROM ordered) u;
RESET enable_sort;
SELECT count(*), sum(n) FROM (SELECT plain, count(*) AS n FROM ordered GROUP BY plain) g;

-- each way to join, the result that bytea gives
SELECT count(*) FROM ordered a JOIN ordered b ON a.plain = b.plain;
SET enable_hashjoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.data;
SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.data;
RESET enable_hashjoin;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.data;
SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.data;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.plain;
SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.plain;
SELECT count(*) FROM ordered a JOIN ordered b ON a.plain = b.data;
RESET enable_mergejoin;
RESET enable_nestloop;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.data;
SELECT count(*) FROM ordered a JOIN ordered b ON a.data = b.plain;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*) FROM ordered a JOIN ordered b USING (data);
SELECT count(*) FROM ordered WHERE data IN (SELECT plain FROM ordered WHERE length(plain) > 8000);
SELECT count(*) FROM ordered WHERE plain IN (SELECT data FROM ordered WHERE length(plain) > 8000);
SELECT count(*) FROM ordered WHERE data NOT IN (SELECT plain FROM ordered WHERE length(plain) > 8000);
SELECT count(*) FROM ordered o WHERE EXISTS (SELECT 1 FROM ordered i WHERE i.plain = o.data AND i.id <> o.id);
SELECT count(*) FROM ordered WHERE data NOT IN ('', 'a', 'bbb') AND length(data) < 10;
-- an equivalence class over both types
SELECT count(*) FROM ordered a, ordered b, ordered c WHERE a.data = b.plain AND b.plain = c.plain AND c.plain = 'a';

-- equal hashes for equal bytes, with every seed; different ones for all others
SELECT count(DISTINCT plain) = count(DISTINCT appendable_bytea_hash_extended(data, 0)) AS distinct_hashes,
	bool_and(appendable_bytea_hash(data) = appendable_bytea_hash(plain)) AS hash,
	bool_and(appendable_bytea_hash_extended(data, seed) = appendable_bytea_hash_extended(plain, seed)) AS extended,
	bool_and(appendable_bytea_hash_extended(data, 0) & 4294967295 = appendable_bytea_hash(data)::bigint & 4294967295) AS low_bits,
	bool_and(appendable_bytea_hash_extended(data, 1) <> appendable_bytea_hash_extended(data, 2)) AS seeds_matter
FROM ordered, unnest(ARRAY[0, 1, -5, 123456789012345]) seed WHERE data IS NOT NULL;

-- hash indexes hold hash values alone
CREATE INDEX ordered_hash ON ordered USING hash (data);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM ordered WHERE data = 'bbb';
SELECT id FROM ordered WHERE data = 'bbb';
SELECT count(*) FROM ordered a, ordered b WHERE a.id = 28 AND b.data = a.data;
UPDATE ordered SET data = data || 'more'::bytea WHERE id = 28;
SELECT count(*) FROM ordered a, ordered b WHERE a.id = 28 AND b.data = a.data;
SELECT count(*) FROM ordered a, ordered b WHERE a.id = 29 AND b.data = a.plain;
DELETE FROM ordered WHERE id = 29;
VACUUM ordered;
REINDEX INDEX ordered_hash;
SELECT count(*) FROM ordered a, ordered b WHERE a.id = 30 AND b.data = a.plain;
RESET enable_seqscan;
-- and indexes on expressions of the value
CREATE UNIQUE INDEX ordered_sha ON ordered (id, sha256(data));
CREATE INDEX ordered_bytea ON ordered (substr(data, 1, 100));
CREATE INDEX ordered_length ON ordered (length(data));
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM ordered WHERE length(data) = 9000;
SELECT id FROM ordered WHERE length(data) = 9000;
SELECT count(*) FROM ordered WHERE substr(data, 1, 100) = convert_to(repeat('b', 100), 'UTF8');
RESET enable_seqscan;
RESET enable_bitmapscan;

-- the catalogs' own view of the classes
SELECT amname, amvalidate FROM pg_opclass c JOIN pg_am ON pg_am.oid = opcmethod, LATERAL amvalidate(c.oid) WHERE opcname = 'appendable_bytea_ops' ORDER BY 1;
SELECT count(*) AS without_comment FROM pg_depend d LEFT JOIN pg_description s ON s.objoid = d.objid AND s.classoid = d.classid AND s.objsubid = 0
WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'appendable_bytea')
	AND d.classid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass) AND s.description IS NULL
	AND NOT EXISTS (SELECT 1 FROM pg_type WHERE pg_type.oid = d.objid AND (typelem <> 0 OR typrelid <> 0));

DROP TABLE ordered;

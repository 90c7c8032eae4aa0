-- A sort frees what it fetches to compare, as for bytea: the memory of all contexts
-- is summed up during the sort, after some hundred MB were fetched.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
SET appendable_bytea.inline_max = 4000;
CREATE TABLE sorted (id int, data appendable_bytea);
INSERT INTO sorted SELECT i, convert_to(repeat('same', 900) || md5(i::text), 'UTF8') FROM generate_series(1, 5000) i;
SELECT max(pg_column_size(data)) < 1000 AS compressed, max(length(data)) FROM sorted;
SET work_mem = '32MB';
SELECT (SELECT sum(total_bytes) < 64 * 1024 * 1024 FROM pg_backend_memory_contexts) AS little
	FROM (SELECT id FROM sorted ORDER BY data OFFSET 0) s LIMIT 1;
SELECT (SELECT sum(total_bytes) < 64 * 1024 * 1024 FROM pg_backend_memory_contexts) AS little
	FROM (SELECT id FROM sorted ORDER BY data USING OPERATOR(pg_catalog.>) OFFSET 0) s LIMIT 1;
-- the hash join and the hash aggregate hash and compare
SET enable_sort = off;
SET enable_mergejoin = off;
SELECT (SELECT sum(total_bytes) < 64 * 1024 * 1024 FROM pg_backend_memory_contexts) AS little, n
	FROM (SELECT count(*) AS n FROM (SELECT DISTINCT data FROM sorted OFFSET 0) d) s;
SELECT count(*) FROM sorted a JOIN sorted b USING (data);
DROP TABLE sorted;

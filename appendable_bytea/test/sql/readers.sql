-- what reads bytea and text in the server reads the types
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
RESET client_min_messages;
CREATE TABLE plain (id int PRIMARY KEY, data bytea, log text) WITH (fillfactor = 80);
CREATE TABLE own (id int PRIMARY KEY, data appendable_bytea, log appendable_text) WITH (fillfactor = 80);
INSERT INTO plain SELECT i, convert_to(repeat('<' || i || '>', i * i), 'UTF8'), repeat('&' || i || ' words ', i * i) FROM generate_series(1, 40) i;
INSERT INTO own SELECT * FROM plain;
-- RETURN QUERY
CREATE FUNCTION docs(n int) RETURNS TABLE (id int, data bytea, log text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN RETURN QUERY SELECT id, data, log FROM plain WHERE id <= n; RETURN QUERY EXECUTE 'SELECT * FROM plain WHERE id = $1' USING n; END $$;
CREATE FUNCTION logs(n int) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT log FROM plain WHERE id <= n ORDER BY log; RETURN QUERY EXECUTE 'SELECT log FROM plain WHERE id = $1' USING n; END $$;
SELECT sum(length(data)), sum(length(log)) FROM docs(30);
SELECT sum(length(logs)) FROM logs(30);
ALTER TABLE plain ALTER data TYPE appendable_bytea, ALTER log TYPE appendable_text;
SELECT sum(length(data)), sum(length(log)) FROM docs(30);
SELECT sum(length(logs)) FROM logs(30);
SELECT count(*), pg_typeof(log) FROM docs(30) GROUP BY 2;
-- a result of the type is one: no value is read
CREATE FUNCTION rows(n int) RETURNS SETOF plain LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT * FROM plain WHERE id <= n; RETURN QUERY EXECUTE 'SELECT * FROM plain WHERE id = $1' USING n; END $$;
SELECT pg_typeof(data), pg_typeof(log), sum(length(log)) FROM rows(30) GROUP BY 1, 2;
CREATE FUNCTION any_columns() RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT log FROM plain WHERE id = 1; END $$;
SELECT * FROM any_columns() AS (log appendable_text);
\set VERBOSITY terse
SELECT * FROM any_columns() AS (log text);
\set VERBOSITY default
-- what PL/pgSQL keeps stays of the type
DO $$ DECLARE x appendable_text; r record; BEGIN
	EXECUTE 'SELECT log FROM plain WHERE id = 2' INTO x;
	EXECUTE 'SELECT data, log FROM plain WHERE id = 2' INTO r;
	RAISE NOTICE '% % %', pg_typeof(x), pg_typeof(r.data), pg_typeof(r.log);
END $$;
-- views that are created by statements of functions are of the type
CREATE FUNCTION make_view() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'CREATE VIEW made AS SELECT data, log FROM plain'; END $$;
SELECT make_view();
SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'made'::regclass;
DROP VIEW made;
DROP FUNCTION docs, logs, rows, any_columns, make_view;
-- EXECUTE after the table has changed, also inside PL/pgSQL
PREPARE one(int) AS SELECT data, log FROM plain WHERE id = $1;
EXECUTE one(1);
ALTER TABLE plain ADD more int;
EXECUTE one(1);
ALTER TABLE plain ADD even_more int;
DO $$ BEGIN EXECUTE 'EXECUTE one(1)'; END $$;
ALTER TABLE plain ADD most int;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS off) EXECUTE one(1);
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE TABLE executed AS EXECUTE one(1);
SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'executed'::regclass AND attnum > 0;
DROP TABLE executed;
-- an index on bytea or text finds rows by a value
CREATE TABLE keys (k bytea PRIMARY KEY, t text UNIQUE, c text COLLATE "C" UNIQUE, h bytea);
INSERT INTO keys SELECT data, log, log, data FROM (SELECT convert_to('key ' || i, 'UTF8') AS data, 'log ' || i AS log FROM generate_series(1, 3000) i) x;
CREATE INDEX ON keys USING hash (h);
ANALYZE keys;
UPDATE own SET data = convert_to('key ' || id, 'UTF8'), log = 'log ' || id;
ANALYZE own;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET enable_memoize = off;
SELECT t FROM keys WHERE k = (SELECT data FROM own WHERE id = 3);
EXPLAIN (COSTS off) SELECT o.id FROM own o JOIN keys ON o.data = h WHERE o.id < 4;
SELECT o.id, convert_from(h, 'UTF8') FROM own o JOIN keys ON o.data = h WHERE o.id < 4;
EXPLAIN (COSTS off) SELECT o.id FROM own o JOIN keys ON t = o.log WHERE o.id < 4;
SELECT count(*) FROM own o JOIN keys ON t = o.log;
-- not by an index of another collation
EXPLAIN (COSTS off) SELECT o.id FROM own o JOIN keys ON c = o.log COLLATE "POSIX" WHERE o.id = 4;
DO $$ DECLARE x appendable_bytea; n int; plan text; BEGIN
	SELECT data INTO x FROM own WHERE id = 4;
	SELECT count(*) INTO n FROM keys WHERE k = x;
	FOR plan IN EXPLAIN (COSTS off) SELECT count(*) FROM keys WHERE k = x LOOP
		IF plan LIKE '%Index%' THEN RAISE NOTICE '% % %', n, substr(plan, 1, 20), plan LIKE '%keys_pkey%'; END IF;
	END LOOP;
END $$;
RESET ALL;
DROP TABLE plain, own, keys;

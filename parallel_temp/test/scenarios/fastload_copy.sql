-- COPY, and INSERT ... SELECT with triggers and other work for each row.  Run by
-- test/sql/fastload_copy.sql on the server's path and with fast load.
CREATE TABLE source AS SELECT i AS id, i % 10 AS k, CASE WHEN i % 7 > 0 THEN rpad('row ' || i, 90, '.') END AS t FROM generate_series(1, 8000) i;
COPY source TO :'file';
CREATE FUNCTION loads_all(t text, OUT n bigint, OUT rows text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT count(*), md5(string_agg(x::text, '' '' ORDER BY x::text)) FROM %I x', t) INTO n, rows;
END $$;
CREATE FUNCTION loads_in_order(t text, OUT n bigint, OUT last tid, OUT in_order text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT count(*), max(ctid), md5(string_agg(x::text, '' '' ORDER BY ctid)) FROM %I x', t) INTO n, last, in_order;
END $$;

-- into an empty table, one with rows, one with free space, one of this transaction
CREATE TEMP TABLE a (LIKE source);
COPY a FROM :'file';
\echo :ROW_COUNT
SELECT * FROM loads_in_order('a');
COPY a (t, id) FROM PROGRAM 'echo few!1; echo rows!2' WITH (DELIMITER '!');
COPY a FROM :'file' WHERE k < 5 AND t IS NOT NULL;
\echo :ROW_COUNT
SELECT * FROM loads_all('a');
DELETE FROM a WHERE id % 3 = 0;
VACUUM a;
COPY a FROM :'file';
SELECT * FROM loads_all('a');
BEGIN;
CREATE TEMP TABLE b (LIKE source) ON COMMIT DROP;
COPY b FROM :'file';
SELECT * FROM loads_in_order('b');
SAVEPOINT one;
COPY b FROM :'file';
ROLLBACK TO one;
SELECT * FROM loads_all('b');
TRUNCATE b;
COPY b FROM :'file' WITH (FREEZE);
COPY b FROM :'file' WITH (FREEZE);
SELECT * FROM loads_all('b');
DECLARE c CURSOR FOR SELECT count(*) FROM b;
COPY b FROM :'file';
FETCH c;
SELECT * FROM loads_all('b');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1 AS snapshot_taken;
CREATE TEMP TABLE b (LIKE source);
COPY b FROM :'file';
DECLARE c CURSOR FOR SELECT count(*) FROM b;
COPY b FROM :'file';
SELECT * FROM loads_all('b');
FETCH c;
COMMIT;
DROP TABLE a, b;

-- what has to happen for each row
CREATE TEMP TABLE a (id int, k int DEFAULT 3, t text CHECK (id <> 7000), twice int GENERATED ALWAYS AS (id * 2) STORED, s serial, i int GENERATED ALWAYS AS IDENTITY);
COPY a (id, k, t) FROM :'file';
COPY a (id, k, t) FROM :'file' WHERE id <> 7000;
COPY a (id, k) FROM PROGRAM 'seq 1 3000 | sed "s/.*/& &/"' WITH (DELIMITER ' ');
SELECT count(*), sum(twice), sum(s), sum(i) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a (id int PRIMARY KEY, k int, t text);
CREATE INDEX ON a (k, t);
COPY a FROM :'file';
COPY a FROM :'file';
COPY a FROM PROGRAM 'seq 10001 17000 | sed "s/.*/&\t1\tx/"; echo "1\t1\ty"';
COPY a FROM PROGRAM 'seq 10001 17000 | sed "s/.*/&\t1\tx/"; echo "wrong"';
COPY a FROM PROGRAM 'seq 10001 17000 | sed "s/.*/&\t1\tx/"';
SELECT * FROM loads_all('a');
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM a WHERE id > 0;
SELECT count(*), sum(id) FROM a WHERE k = 1 AND t = 'x';
RESET enable_seqscan;
DROP TABLE a;
CREATE TEMP TABLE a (id int, k int, t text) WITH (fillfactor = 30);
ALTER TABLE a ALTER t SET STORAGE EXTERNAL;
COPY (SELECT id, k, repeat(t, id % 700) FROM source WHERE id <= 3000) TO :'file';
COPY a FROM :'file';
SELECT * FROM loads_all('a');
COPY source TO :'file';
DROP TABLE a;

-- foreign keys, row security, partitions
CREATE TEMP TABLE a (id int PRIMARY KEY);
CREATE TEMP TABLE b (id int REFERENCES a, k int, t text);
INSERT INTO a SELECT id FROM source WHERE id <> 2345;
COPY b FROM :'file';
INSERT INTO b SELECT * FROM source;
INSERT INTO a VALUES (2345);
COPY b FROM :'file';
INSERT INTO b SELECT * FROM source;
SELECT * FROM loads_all('b');
DROP TABLE a, b;
CREATE TEMP TABLE a (id int PRIMARY KEY, k int REFERENCES a DEFERRABLE INITIALLY DEFERRED, t text);
BEGIN;
COPY a FROM :'file' WHERE k > 0;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO a SELECT id, k, t FROM source WHERE k = 0;
COMMIT;
COPY a FROM :'file' WHERE k > 0;
SELECT * FROM loads_all('a');
DROP TABLE a;
CREATE ROLE loads_reader;
GRANT SELECT ON source TO loads_reader;
GRANT pg_read_server_files TO loads_reader;
CREATE TEMP TABLE a (LIKE source);
GRANT SELECT ON a TO loads_reader;
SET ROLE loads_reader;
COPY a FROM :'file';
RESET ROLE;
GRANT INSERT (id, k) ON a TO loads_reader;
SET ROLE loads_reader;
COPY a FROM :'file';
INSERT INTO a (id, k) SELECT id, k FROM source;
RESET ROLE;
GRANT INSERT ON a TO loads_reader;
ALTER TABLE a ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON a TO loads_reader USING (k < 8) WITH CHECK (id <> 6000);
SET ROLE loads_reader;
COPY a FROM :'file';
INSERT INTO a SELECT * FROM source;
INSERT INTO a SELECT * FROM source WHERE id < 6000;
RESET ROLE;
SELECT * FROM loads_all('a');
DROP TABLE a;
REVOKE ALL ON source FROM loads_reader;
DROP ROLE loads_reader;
CREATE TEMP TABLE p (id int, k int, t text) PARTITION BY LIST (k);
CREATE TEMP TABLE p1 PARTITION OF p FOR VALUES IN (0, 1, 2, 3, 4);
CREATE TEMP TABLE p2 PARTITION OF p DEFAULT;
COPY p FROM :'file';
COPY p1 FROM :'file';
COPY p1 FROM :'file' WHERE k < 5;
INSERT INTO p1 SELECT * FROM source WHERE k < 5;
SELECT loads_all('p1'), loads_all('p2');
DROP TABLE p;

-- RETURNING: the new row and its system columns
CREATE TEMP TABLE a (id int, k int, t text, d int DEFAULT 5);
\t on
INSERT INTO a SELECT * FROM source WHERE id <= 150 RETURNING a.*, ctid, tableoid::regclass, xmin::text = pg_current_xact_id()::text AS mine, xmax;
\t off
ALTER TABLE a ALTER t SET STORAGE EXTERNAL;
WITH i AS (INSERT INTO a SELECT id, k, repeat(t, 300) FROM source WHERE id < 1000 RETURNING *) SELECT count(*), sum(length(t)) FROM i;
PREPARE returns AS INSERT INTO a SELECT id, k, repeat(t, 300) FROM source WHERE id < $1 RETURNING left(t, 10), length(t);
EXECUTE returns(100);
DEALLOCATE returns;
DO $$
DECLARE r record; n bigint := 0;
BEGIN
  FOR r IN INSERT INTO a SELECT * FROM source RETURNING *, (SELECT count(*) FROM a) AS before LOOP n := n + r.id + r.before; END LOOP;
  INSERT INTO a VALUES (n, 0, 'sum');
  INSERT INTO a SELECT * FROM source RETURNING id INTO n;
  INSERT INTO a VALUES (n, 0, 'first');
  INSERT INTO a SELECT * FROM source RETURNING id INTO STRICT n;
EXCEPTION WHEN too_many_rows THEN
  INSERT INTO a VALUES (0, 0, 'too many');
END $$;
SELECT * FROM loads_all('a');
SELECT * FROM a WHERE k = 0 AND t IN ('sum', 'first', 'too many');
DROP TABLE a;

-- triggers: before and after, for rows and statements, that look at the table,
-- change it, fail, or have its relcache entry rebuilt
CREATE TABLE heard (n bigint, w text, x text);
CREATE FUNCTION loads_hear() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_LEVEL = 'STATEMENT' THEN
    INSERT INTO heard SELECT count(*), TG_NAME, TG_WHEN FROM a;
  ELSIF TG_NAME = 'looks' AND NEW.id % 3000 = 0 THEN
    INSERT INTO heard SELECT count(*), TG_NAME, NEW.id FROM a;
  ELSIF TG_NAME = 'looks_early' AND NEW.id = 10 THEN
    INSERT INTO heard SELECT count(*), TG_NAME, NEW.id FROM a;
  ELSIF TG_NAME = 'puts' AND NEW.id % 2500 = 0 THEN
    INSERT INTO a SELECT -id, k, t FROM source WHERE id < 500;
  ELSIF TG_NAME = 'grants' AND NEW.id % 1500 = 0 THEN
    EXECUTE 'GRANT SELECT ON a TO PUBLIC';
  ELSIF TG_NAME = 'fails' AND NEW.id = 7000 THEN
    RAISE EXCEPTION 'at %', NEW.id;
  ELSIF TG_NAME = 'skips' AND NEW.id % 2 = 0 THEN
    RETURN NULL;
  ELSIF TG_NAME = 'catches' AND NEW.id % 1000 = 0 THEN
    BEGIN
      PERFORM 1 / (NEW.id - NEW.id);
    EXCEPTION WHEN division_by_zero THEN
      NEW.t := 'caught';
    END;
  END IF;
  RETURN NEW;
END $$;
CREATE TEMP TABLE a (LIKE source);
CREATE FUNCTION loads_with(name text, kind text, file text) RETURNS TABLE (what text, result text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TRIGGER %I %s ON a FOR EACH %s EXECUTE FUNCTION loads_hear()', name, kind,
                 CASE WHEN name ~ 'statement' THEN 'STATEMENT' ELSE 'ROW' END);
  FOREACH what IN ARRAY ARRAY['INSERT INTO a SELECT * FROM source', format('COPY a FROM %L', file)] LOOP
    TRUNCATE a;
    BEGIN
      EXECUTE what;
      result := loads_all('a')::text;
    EXCEPTION WHEN OTHERS THEN
      result := SQLERRM;
    END;
    what := name || ' ' || kind || ' ' || left(what, 4);
    RETURN NEXT;
  END LOOP;
  EXECUTE format('DROP TRIGGER %I ON a', name);
END $$;
SELECT r.* FROM (VALUES ('looks', 'BEFORE INSERT'), ('looks', 'AFTER INSERT'), ('looks_early', 'BEFORE INSERT'), ('looks_early', 'AFTER INSERT'),
  ('puts', 'BEFORE INSERT'), ('puts', 'AFTER INSERT'), ('grants', 'BEFORE INSERT'), ('grants', 'AFTER INSERT'), ('fails', 'BEFORE INSERT'),
  ('fails', 'AFTER INSERT'), ('skips', 'BEFORE INSERT'), ('catches', 'BEFORE INSERT'), ('other', 'BEFORE UPDATE'),
  ('statement', 'BEFORE INSERT'), ('statement', 'AFTER INSERT')) v(name, kind), loads_with(name, kind, :'file') r;
SELECT * FROM heard;
CREATE FUNCTION loads_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO heard SELECT sum(id), 'transition', count(*) FROM arrived;
  RETURN NULL;
END $$;
CREATE TRIGGER transition AFTER INSERT ON a REFERENCING NEW TABLE AS arrived EXECUTE FUNCTION loads_transition();
INSERT INTO a SELECT * FROM source;
COPY a FROM :'file';
SELECT * FROM heard WHERE w = 'transition';
DROP TABLE a, heard;

-- defaults and checks whose functions read the table, or have its relcache entry rebuilt
CREATE TEMP TABLE a (id int, k int, t text);
CREATE FUNCTION loads_count(i int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF i % 1900 = 0 THEN RETURN (SELECT count(*) FROM a); END IF;
  IF i % 1300 = 0 THEN EXECUTE 'GRANT SELECT ON a TO PUBLIC'; END IF;
  RETURN i;
END $$;
ALTER TABLE a ADD CHECK (loads_count(id) > 100 OR id <= 100);
COPY a FROM :'file';
INSERT INTO a SELECT * FROM source RETURNING id \g /dev/null
INSERT INTO a SELECT loads_count(id), k, t FROM source RETURNING id \g /dev/null
SELECT * FROM loads_all('a');
SELECT id FROM a GROUP BY id HAVING count(*) > 3 ORDER BY id;
DROP TABLE a;

-- a scan of the table that is being filled, begun again after rows were put
CREATE FUNCTION loads_many(n int) RETURNS SETOF int LANGUAGE plpgsql ROWS 1 AS $$
BEGIN FOR i IN 1..n LOOP RETURN NEXT i; END LOOP; END $$;
CREATE FUNCTION loads_look(i int, at int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF i % at = 0 THEN RETURN (SELECT count(*) FROM a); END IF;
  RETURN i;
END $$;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
CREATE TEMP TABLE a AS SELECT i AS id, i AS n, repeat('p', 400) AS pad FROM generate_series(1, 2) i;
CREATE TEMP TABLE b AS SELECT * FROM a;
INSERT INTO a SELECT x.i, y.n, y.pad FROM loads_many(1500) x(i), a y;
SELECT * FROM loads_all('a');
TRUNCATE a;
INSERT INTO a SELECT * FROM b;
INSERT INTO a SELECT loads_look(x.i, 700), y.n, y.pad FROM loads_many(1500) x(i), a y;
SELECT * FROM loads_all('a');
INSERT INTO a SELECT 1, 1, y.pad FROM loads_many(300), b y;
SELECT * FROM loads_all('a');
TRUNCATE a;
INSERT INTO a SELECT * FROM b;
INSERT INTO a SELECT loads_look(x.i, 600), y.n, y.pad FROM loads_many(1500) x(i), a y RETURNING id \g /dev/null
SELECT * FROM loads_all('a');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
DROP TABLE a, b;

-- inside functions, and by name of schema
CREATE FUNCTION loads_copy(file text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE n bigint;
BEGIN
  CREATE TEMP TABLE a (LIKE source);
  EXECUTE format('COPY a FROM %L', file);
  BEGIN
    EXECUTE format('COPY pg_temp.a FROM %L WHERE 1 / (id - 7500) < 2', file);
  EXCEPTION WHEN division_by_zero THEN NULL;
  END;
  EXECUTE format('COPY pg_temp.a FROM %L', file);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
SELECT loads_copy(:'file');
SELECT * FROM loads_all('a');
SELECT pg_stat_get_xact_tuples_inserted('a'::regclass) IS NOT NULL AS counted;
BEGIN READ ONLY;
COPY a FROM :'file';
SELECT count(*) FROM a;
COMMIT;
BEGIN;
SELECT pg_stat_get_xact_tuples_inserted('a'::regclass) AS before \gset
COPY a FROM :'file';
SELECT pg_stat_get_xact_tuples_inserted('a'::regclass) - :before AS inserted;
COMMIT;
COPY source FROM :'file';
SELECT count(*) FROM source;
COPY nothing FROM :'file';
DROP TABLE a, source;
DROP FUNCTION loads_all, loads_in_order, loads_hear, loads_with, loads_transition, loads_count, loads_many, loads_look, loads_copy;

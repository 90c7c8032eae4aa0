-- Changes by a statement's functions to the table being filled without naming it in a
-- query.  Run by test/sql/fastload_nested.sql on the server's path and with
-- the bulk writer.
CREATE TEMP TABLE evictor AS SELECT i, repeat('e', 1000) AS pad FROM generate_series(1, 2000) i;

-- buffers flushed, read, marked and evicted while a page is half filled
CREATE FUNCTION nested_buffers(i int, what text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF i % 97 = 0 THEN EXECUTE what; END IF;
  RETURN i;
END $$;
CREATE TEMP TABLE a AS SELECT nested_buffers(i, 'SELECT pg_flush_local_buffers()') AS id, repeat('p', 100) AS pad FROM generate_series(1, 6000) i;
SELECT sum(i) FROM evictor;
SELECT count(*), count(DISTINCT id) FROM a;
TRUNCATE a;
INSERT INTO a SELECT nested_buffers(i, 'SELECT pg_flush_local_buffers(''a'')'), repeat('p', 100) FROM generate_series(1, 6000) i;
SELECT sum(i) FROM evictor;
SELECT count(*), count(DISTINCT id) FROM a;
TRUNCATE a;
INSERT INTO a SELECT nested_buffers(i, 'SELECT pg_evict_temp_relation(''evictor''), pg_temp_buffers_dirty(''a''), pg_flush_local_buffers()'), repeat('p', 100) FROM generate_series(1, 6000) i RETURNING NULL \g /dev/null
SELECT sum(i) FROM evictor;
SELECT count(*), count(DISTINCT id) FROM a;
DROP TABLE a;

-- rows that come to the table through the one that it is a partition of
CREATE TEMP TABLE parent (id int, n int) PARTITION BY RANGE (id);
CREATE TEMP TABLE a PARTITION OF parent FOR VALUES FROM (0) TO (1000000);
CREATE TEMP TABLE other PARTITION OF parent FOR VALUES FROM (1000000) TO (2000000);
CREATE FUNCTION nested_routed(i int, fail bool) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO parent VALUES (i, -1);
  BEGIN
    INSERT INTO parent VALUES (i, -2);
    IF fail AND i % 3 = 0 THEN RAISE EXCEPTION 'undone'; END IF;
  EXCEPTION WHEN raise_exception THEN NULL;
  END;
  RETURN i;
END $$;
INSERT INTO a SELECT nested_routed(i, true), 1 FROM generate_series(1, 3000) i;
SELECT n, count(*), sum(id) FROM a GROUP BY n ORDER BY n;
TRUNCATE a;
CREATE UNIQUE INDEX ON parent (id, n);
CREATE FUNCTION nested_upsert(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF i % 10 = 0 THEN INSERT INTO parent VALUES (i, -1), (i - 1, 1), (i, -1) ON CONFLICT DO NOTHING; END IF;
  IF i = 900 THEN INSERT INTO parent SELECT 1000000 + g, 5 FROM generate_series(1, 500) g; END IF;
  IF i = 1200 THEN UPDATE parent SET id = id - 900000 WHERE id >= 1000000; END IF;
  RETURN i;
END $$;
INSERT INTO a SELECT nested_upsert(i), 1 FROM generate_series(1, 3000) i;
SELECT n, count(*), sum(id) FROM a GROUP BY n ORDER BY n;
SET enable_seqscan = off;
SELECT count(*), count(DISTINCT ctid) FROM a WHERE id > 0;
RESET enable_seqscan;
CREATE FUNCTION nested_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.n = 1 THEN INSERT INTO parent VALUES (NEW.id, -3), (NEW.id, -4); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER nested BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION nested_before();
TRUNCATE parent;
INSERT INTO a SELECT i, 1 FROM generate_series(1, 3000) i;
SELECT n, count(*), sum(id) FROM a GROUP BY n ORDER BY n;
DROP TABLE parent;

-- statements that look for rows without a plan
CREATE FUNCTION nested_ddl(i int, what text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF i = 4000 THEN EXECUTE what; END IF;
  RETURN i;
END $$;
CREATE DOMAIN pg_temp.small AS int;
CREATE TEMP TABLE a (id pg_temp.small, pad text);
INSERT INTO a SELECT nested_ddl(i, 'ALTER DOMAIN pg_temp.small ADD CHECK (VALUE NOT BETWEEN 3990 AND 3999)'), repeat('p', 300) FROM generate_series(1, 5000) i;
SELECT count(*) FROM a WHERE id BETWEEN 3990 AND 3999;
DROP TABLE a;
DROP DOMAIN pg_temp.small;
CREATE TEMP TABLE parent (id int, pad text) PARTITION BY RANGE (id);
CREATE TEMP TABLE a (id int, pad text);
INSERT INTO a SELECT 10000 - 2 * nested_ddl(i, 'ALTER TABLE parent ATTACH PARTITION a FOR VALUES FROM (2003) TO (100000)'), repeat('p', 300) FROM generate_series(1, 4000) i;
SELECT count(*), min(id) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a PARTITION OF parent DEFAULT;
INSERT INTO a SELECT nested_ddl(i, 'CREATE TEMP TABLE later PARTITION OF parent FOR VALUES FROM (3990) TO (3999)'), repeat('p', 300) FROM generate_series(1, 5000) i;
SELECT count(*) FROM parent WHERE id = 3995;
DROP TABLE parent;

-- a relcache entry that is made again after a subtransaction failed
CREATE TEMP TABLE a (id int, pad text, twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE FUNCTION nested_grant(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
  IF i = 500 THEN
    BEGIN
      GRANT SELECT ON a TO PUBLIC;
      RAISE EXCEPTION 'undone';
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
    n := pg_relation_size('a');
  END IF;
  IF i = 600 THEN PERFORM sum(e.i) FROM evictor e; END IF;
  RETURN i;
END $$;
INSERT INTO a SELECT nested_grant(i), repeat('p', 300) FROM generate_series(1, 600) i;
SELECT count(*), count(DISTINCT id), pg_relation_size('a') / current_setting('block_size')::int AS pages FROM a;
DROP TABLE a, evictor;

DROP FUNCTION nested_buffers, nested_routed, nested_upsert, nested_before, nested_ddl, nested_grant;

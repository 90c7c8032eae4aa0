-- Features of tables and statements.  Run by test/sql/fastload_features.sql with the
-- server's path and with fast load.
CREATE TABLE source AS SELECT i AS id, i % 10 AS k, 'row ' || i AS t FROM generate_series(1, 3000) i;

-- defaults, identity, sequences, generated columns
CREATE TEMP TABLE a (id int, s serial, g int GENERATED ALWAYS AS IDENTITY, d text DEFAULT 'x', n int NOT NULL DEFAULT 7);
INSERT INTO a (id) SELECT id FROM source;
INSERT INTO a (id, d) SELECT id, t FROM source;
SELECT count(*), sum(id), sum(s), sum(g), count(DISTINCT d), sum(n) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a (id int, twice int GENERATED ALWAYS AS (id * 2) STORED);
INSERT INTO a SELECT id FROM source;
INSERT INTO a SELECT id FROM source;
SELECT count(*), sum(twice) FROM a;
DROP TABLE a;

-- constraints: the failing row, and what stays
CREATE TEMP TABLE a (id int NOT NULL, k int CHECK (k < 9), t text, CHECK (length(t) > 3 OR id > 0));
INSERT INTO a SELECT * FROM source WHERE k < 9;
INSERT INTO a SELECT * FROM source;
INSERT INTO a SELECT NULLIF(id, 2500), 1, t FROM source;
SELECT count(*), sum(id), sum(k) FROM a;
DROP TABLE a;

-- dropped and added columns of the target
CREATE TEMP TABLE a (x int, id int, y text, t text);
ALTER TABLE a DROP COLUMN x, DROP COLUMN y, ADD COLUMN z int DEFAULT 5, ADD COLUMN w text;
INSERT INTO a (id, t) SELECT id, t FROM source;
INSERT INTO a SELECT id, t, k, t FROM source;
SELECT count(*), sum(id), sum(z), count(w), count(t) FROM a;
SELECT * FROM a WHERE id = 1234;
DROP TABLE a;

-- indexes and keys
CREATE TEMP TABLE a (id int PRIMARY KEY, t text);
INSERT INTO a SELECT id, t FROM source;
INSERT INTO a SELECT id, t FROM source;
INSERT INTO a SELECT id, t FROM source ON CONFLICT DO NOTHING;
INSERT INTO a SELECT id, t FROM source ON CONFLICT (id) DO UPDATE SET t = 'again';
SELECT count(*), count(*) FILTER (WHERE t = 'again') FROM a;
SET enable_seqscan = off;
SELECT * FROM a WHERE id = 777;
RESET enable_seqscan;
DROP TABLE a;
CREATE TEMP TABLE a (id int, t text);
INSERT INTO a SELECT id, t FROM source ON CONFLICT DO NOTHING;
INSERT INTO a SELECT id, t FROM source;
CREATE INDEX ON a (id);
ANALYZE a;
INSERT INTO a SELECT id + 3000, t FROM source;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM a WHERE id BETWEEN 2990 AND 3010;
RESET enable_seqscan;
CREATE TEMP TABLE b AS SELECT * FROM a;
CREATE UNIQUE INDEX ON b (id, t) WHERE id > 3000;
SELECT count(*) FROM b;
DROP TABLE a, b;

CREATE TEMP TABLE a (id int, t text, EXCLUDE USING btree (id WITH =));
CREATE INDEX ON a (lower(t)) INCLUDE (id);
CREATE INDEX ON a USING brin (id);
CREATE INDEX ON a USING hash (t);
CREATE INDEX ON a USING gin (to_tsvector('simple', t));
INSERT INTO a SELECT id, t FROM source WHERE id <= 2000;
INSERT INTO a SELECT id, t FROM source WHERE id > 1900;
INSERT INTO a SELECT id, t FROM source WHERE id > 2000;
INSERT INTO a SELECT NULL, t FROM source;
SELECT count(*), count(id), sum(id) FROM a;
SET enable_seqscan = off;
SELECT count(*) FROM a WHERE lower(t) = 'row 2222';
SELECT count(*) FROM a WHERE t = 'row 1111';
SELECT count(*) FROM a WHERE to_tsvector('simple', t) @@ 'row & 333'::tsquery;
SELECT count(*) FROM a WHERE id BETWEEN 1990 AND 2010;
RESET enable_seqscan;
BEGIN;
SAVEPOINT one;
CREATE UNIQUE INDEX ON a (t) WHERE id IS NOT NULL;
INSERT INTO a SELECT id + 3000, 'more ' || id FROM source;
INSERT INTO a SELECT id + 6000, 'more ' || id FROM source;
ROLLBACK TO one;
INSERT INTO a SELECT id + 3000, 'more ' || id FROM source;
COMMIT;
SELECT count(*), count(id), sum(id) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, t text);
BEGIN;
INSERT INTO a SELECT id, t FROM source;
INSERT INTO a SELECT id, t FROM source WHERE id < 10;
DELETE FROM a WHERE id < 10 AND ctid > '(10,1)';
COMMIT;
INSERT INTO a SELECT id, t FROM source WHERE id < 10; SELECT count(*) FROM a;
DROP TABLE a;
CREATE TEMP TABLE a (p tsrange, EXCLUDE USING gist (p WITH &&));
INSERT INTO a SELECT tsrange('2026-01-01'::timestamp + id * interval '1 hour', '2026-01-01'::timestamp + (id + 1) * interval '1 hour') FROM source;
INSERT INTO a SELECT tsrange('2025-01-01', '2027-01-01') FROM source LIMIT 1;
INSERT INTO a SELECT tsrange('2027-01-01'::timestamp + id * interval '1 hour', '2027-01-01'::timestamp + (id + 2) * interval '1 hour') FROM source;
SELECT count(*) FROM a;
DROP TABLE a;

-- RETURNING
CREATE TEMP TABLE a (id int, t text);
INSERT INTO a SELECT id, t FROM source WHERE id <= 3 RETURNING *, ctid;
WITH i AS (INSERT INTO a SELECT id, t FROM source RETURNING id) SELECT count(*), sum(id) FROM i;
WITH i AS (INSERT INTO a SELECT id, t FROM source RETURNING id) INSERT INTO a SELECT id, 'w' FROM i;
SELECT count(*), sum(id) FROM a;

-- triggers: per row, per statement, transition tables
CREATE TABLE heard (w text, n bigint);
CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_LEVEL = 'ROW' THEN NEW.t := 'triggered'; RETURN NEW; END IF;
  INSERT INTO heard SELECT TG_NAME || ' ' || TG_WHEN, count(*) FROM a;
  RETURN NULL;
END $$;
CREATE FUNCTION hear_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO heard SELECT TG_NAME, count(*) FROM arrived;
  RETURN NULL;
END $$;
TRUNCATE a;
CREATE TRIGGER before_rows BEFORE INSERT ON a FOR EACH ROW WHEN (NEW.id % 2 = 0) EXECUTE FUNCTION hear();
INSERT INTO a SELECT id, t FROM source;
SELECT count(*), count(*) FILTER (WHERE t = 'triggered') FROM a;
DROP TRIGGER before_rows ON a;
CREATE TRIGGER before_statement BEFORE INSERT ON a EXECUTE FUNCTION hear();
CREATE TRIGGER after_statement AFTER INSERT ON a EXECUTE FUNCTION hear();
CREATE TRIGGER arrivals AFTER INSERT ON a REFERENCING NEW TABLE AS arrived EXECUTE FUNCTION hear_rows();
INSERT INTO a SELECT id, t FROM source;
SELECT * FROM heard ORDER BY 1, 2;
ALTER TABLE a DISABLE TRIGGER ALL;
INSERT INTO a SELECT id, t FROM source;
SELECT count(*) FROM heard;
SELECT count(*) FROM a;
DROP TABLE a, heard;

-- foreign keys, both sides
CREATE TEMP TABLE parent (id int PRIMARY KEY);
CREATE TEMP TABLE child (id int REFERENCES parent, k int);
INSERT INTO parent SELECT id FROM source;
INSERT INTO child SELECT id, k FROM source;
INSERT INTO child SELECT id + 1, k FROM source;
SELECT count(*) FROM child;
BEGIN;
ALTER TABLE child DROP CONSTRAINT child_id_fkey, ADD FOREIGN KEY (id) REFERENCES parent DEFERRABLE INITIALLY DEFERRED;
INSERT INTO child SELECT id + 1, k FROM source;
COMMIT;
SELECT count(*) FROM child;
DROP TABLE child, parent;

-- row security
CREATE ROLE loads_user;
GRANT SELECT ON source TO loads_user;
GRANT TEMPORARY ON DATABASE contrib_regression TO loads_user;
CREATE TEMP TABLE a (id int, t text);
ALTER TABLE a ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON a FOR INSERT TO loads_user WITH CHECK (id <> 2000);
CREATE POLICY q ON a FOR SELECT TO loads_user USING (id > 10);
GRANT SELECT, INSERT ON a TO loads_user;
SET ROLE loads_user;
INSERT INTO a SELECT id, t FROM source;
INSERT INTO a SELECT id, t FROM source WHERE id < 2000;
SELECT count(*) FROM a;
CREATE TEMP TABLE b AS SELECT * FROM a;
SELECT count(*) FROM b;
DROP TABLE b;
RESET ROLE;
SELECT count(*) FROM a;
DROP TABLE a;
REVOKE ALL ON source FROM loads_user;
REVOKE ALL ON DATABASE contrib_regression FROM loads_user;
DROP ROLE loads_user;

-- views, rules
CREATE TEMP TABLE a (id int, t text);
CREATE TEMP TABLE log (id int, t text);
CREATE TEMP VIEW v AS SELECT * FROM a WHERE id < 2900 WITH CHECK OPTION;
INSERT INTO v SELECT id, t FROM source WHERE id < 2900;
INSERT INTO v SELECT id, t FROM source;
SELECT count(*) FROM a;
CREATE RULE also AS ON INSERT TO a DO ALSO INSERT INTO log SELECT NEW.id, NEW.t;
INSERT INTO a SELECT id, t FROM source;
SELECT count(*), sum(id) FROM log;
CREATE RULE instead AS ON INSERT TO log DO INSTEAD INSERT INTO a SELECT NEW.id, 'rule';
DROP RULE also ON a;
INSERT INTO log SELECT id, t FROM source;
SELECT count(*), count(*) FILTER (WHERE t = 'rule') FROM a;
DROP TABLE a, log CASCADE;

-- partitions and inheritance
CREATE TEMP TABLE p (id int, t text) PARTITION BY RANGE (id);
CREATE TEMP TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1500);
CREATE TEMP TABLE p2 (t text, id int);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1500) TO (10000);
INSERT INTO p SELECT id, t FROM source;
INSERT INTO p1 SELECT id, t FROM source WHERE id < 1500;
INSERT INTO p1 SELECT id, t FROM source;
SELECT tableoid::regclass, count(*), sum(id) FROM p GROUP BY 1 ORDER BY 1;
DROP TABLE p;
CREATE TEMP TABLE a (id int, t text);
CREATE TEMP TABLE heir (extra int) INHERITS (a);
INSERT INTO heir SELECT id, t, k FROM source;
INSERT INTO a SELECT id, t FROM a;
SELECT tableoid::regclass, count(*), sum(id) FROM a GROUP BY 1 ORDER BY 1;
DROP TABLE a CASCADE;

-- composite and domain targets, subscripted and partial columns
CREATE TYPE point3 AS (x int, y int, z int);
CREATE DOMAIN few AS int CHECK (VALUE < 2950);
CREATE TEMP TABLE a (id few, p point3, r int[]);
INSERT INTO a (id, p.y, p.z, r[2]) SELECT id, k, id, k FROM source WHERE id < 2950;
INSERT INTO a (id) SELECT id FROM source;
SELECT count(*), sum(id), sum((p).y), sum((p).z), sum(r[2]) FROM a;
CREATE TEMP TABLE b AS TABLE a;
SELECT count(*), sum((p).z), count(*) FILTER (WHERE r[2] = 3) FROM b;
DROP TABLE a, b;
DROP TYPE point3;
DROP DOMAIN few;

-- TOAST: values stay readable after their source is gone
CREATE TEMP TABLE s (id int, v text);
ALTER TABLE s ALTER v SET STORAGE EXTERNAL;
INSERT INTO s SELECT i, repeat(md5(i::text), 200) FROM generate_series(1, 200) i;
CREATE TEMP TABLE a AS SELECT * FROM s;
CREATE TEMP TABLE b (id int, v text);
INSERT INTO b SELECT * FROM s;
INSERT INTO b SELECT id, left(v, 1990) FROM s;
DROP TABLE s;
SELECT count(*), sum(length(v)), count(DISTINCT md5(v)) FROM a;
SELECT count(*), sum(length(v)), count(DISTINCT md5(v)) FROM b;
BEGIN;
SAVEPOINT one;
INSERT INTO a SELECT id, v || v FROM a;
SELECT sum(length(v)) FROM a;
ROLLBACK TO one;
SELECT sum(length(v)) FROM a;
COMMIT;
DELETE FROM a WHERE id % 2 = 0;
VACUUM a;
INSERT INTO a SELECT * FROM b;
SELECT count(*), sum(length(v)), count(DISTINCT md5(v)) FROM a;
DROP TABLE a, b;

-- MERGE and COPY stay the server's; free space is used before new pages
CREATE TEMP TABLE a (id int, t text);
INSERT INTO a SELECT id, t FROM source;
MERGE INTO a USING source s ON a.id = s.id + 1000
  WHEN MATCHED THEN UPDATE SET t = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (-s.id, s.t);
SELECT count(*), sum(id), count(*) FILTER (WHERE t = 'merged') FROM a;
DELETE FROM a WHERE id % 2 = 0;
VACUUM a;
SELECT pg_relation_size('a') AS before \gset
INSERT INTO a SELECT id, t FROM source WHERE id < 1000;
SELECT pg_relation_size('a') = :before AS same_size, count(*) FROM a;
DROP TABLE a;

-- tablespaces, and a table with another access method or of another kind
CREATE TEMP TABLE a USING heap TABLESPACE pg_default AS SELECT * FROM source;
SELECT count(*) FROM a;
CREATE TABLE permanent AS SELECT * FROM a;
INSERT INTO permanent SELECT * FROM a;
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM a;
INSERT INTO unlogged SELECT * FROM a;
CREATE MATERIALIZED VIEW mat AS SELECT * FROM source;
REFRESH MATERIALIZED VIEW mat;
SELECT (SELECT count(*) FROM permanent), (SELECT count(*) FROM unlogged), (SELECT count(*) FROM mat);
DROP MATERIALIZED VIEW mat;
DROP TABLE permanent, unlogged;

-- counters of the statistics system, and row counts of the statements
BEGIN;
SELECT pg_stat_get_xact_tuples_inserted('a'::regclass) AS before \gset
INSERT INTO a SELECT * FROM source;
INSERT INTO a SELECT * FROM source WHERE id < 20;
SELECT pg_stat_get_xact_tuples_inserted('a'::regclass) - :before AS inserted;
COMMIT;
INSERT INTO a SELECT * FROM source;
\echo :ROW_COUNT
CREATE TEMP TABLE b AS SELECT * FROM source;
\echo :ROW_COUNT
CREATE TEMP TABLE IF NOT EXISTS b AS SELECT * FROM source;
SELECT 1 AS a INTO TEMP c;
SELECT * FROM c;
DROP TABLE a, b, c, source;
DROP FUNCTION hear, hear_rows;

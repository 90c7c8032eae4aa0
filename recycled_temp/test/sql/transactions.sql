-- Statements whose results must not depend on the pool.  The expected output is the same
-- with recycled_temp.enabled = off, except for the last query.
CREATE EXTENSION recycled_temp;
SET recycled_temp.enabled = on;
\set VERBOSITY terse

-- rollback of DROP, of CREATE, of both
CREATE TEMP TABLE t (a int, b text);
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t SELECT g, repeat(md5(g::text), 300) FROM generate_series(1, 20) g;
BEGIN;
DROP TABLE t;
SELECT * FROM t;
ROLLBACK;
SELECT count(*), sum(length(b)) FROM t;
BEGIN;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t SELECT g, 'y' FROM generate_series(1, 1000) g;
SELECT count(*), sum(length(b)) FROM t;
ROLLBACK;
SELECT count(*), sum(length(b)) FROM t;
BEGIN;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t SELECT g, 'y' FROM generate_series(1, 1000) g;
COMMIT;
SELECT count(*), sum(length(b)) FROM t;
DROP TABLE t;
BEGIN;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t SELECT g, repeat('z', 3000) FROM generate_series(1, 100) g;
ROLLBACK;
SELECT * FROM t;
CREATE TEMP TABLE t (a int, b text);
SELECT count(*) FROM t;

-- savepoints
BEGIN;
INSERT INTO t VALUES (1, 'outer');
SAVEPOINT one;
DROP TABLE t;
SAVEPOINT two;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (2, 'two');
SELECT * FROM t;
ROLLBACK TO two;
SELECT * FROM t;
ROLLBACK TO one;
SELECT * FROM t;
SAVEPOINT three;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (3, 'three');
RELEASE three;
SELECT * FROM t;
SAVEPOINT four;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (4, 'four');
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (5, 'five');
SELECT * FROM t;
ROLLBACK TO four;
SELECT * FROM t;
COMMIT;
SELECT * FROM t;

-- a rolled back use of a pooled table leaves it usable, and its row version unused
DROP TABLE t;
BEGIN;
SAVEPOINT s;
CREATE TEMP TABLE t (a int, b text) ON COMMIT DROP;
ROLLBACK TO s;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (1, 'stays');
COMMIT;
SELECT * FROM t;

-- keys
CREATE TEMP TABLE k (a int PRIMARY KEY, b text);
INSERT INTO k SELECT g, 'old' FROM generate_series(1, 2000) g;
DROP TABLE k;
CREATE TEMP TABLE k (a int PRIMARY KEY, b text);
INSERT INTO k SELECT g, 'new' FROM generate_series(1, 2000) g;
BEGIN;
DROP TABLE k;
CREATE TEMP TABLE k (a int PRIMARY KEY, b text);
INSERT INTO k SELECT g, 'none' FROM generate_series(1, 2000) g;
SELECT count(*), max(b) FROM k;
ROLLBACK;
SET enable_seqscan = off;
SELECT count(*), max(b) FROM k WHERE a > 0;
RESET enable_seqscan;
INSERT INTO k VALUES (1, 'again');
DROP TABLE k;
BEGIN;
CREATE TEMP TABLE k (a int PRIMARY KEY, b text);
INSERT INTO k SELECT g, 'none' FROM generate_series(1, 2000) g;
ROLLBACK;
CREATE TEMP TABLE k (a int PRIMARY KEY, b text);
INSERT INTO k VALUES (5, 'five');
INSERT INTO k VALUES (5, 'five');
SELECT * FROM k WHERE a = 5;
CREATE TEMP TABLE k_pkey2 (a int);
DROP TABLE k;
CREATE TEMP TABLE k_pkey (a int);
CREATE TEMP TABLE k (a int PRIMARY KEY, b text);
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'k'::regclass;
DROP TABLE k, k_pkey, k_pkey2;
CREATE TEMP TABLE k (a int PRIMARY KEY, b text UNIQUE);
CREATE TEMP TABLE l (a int REFERENCES k);
DROP TABLE k;
DROP TABLE k CASCADE;
INSERT INTO l VALUES (1);
DROP TABLE l;

-- COPY FREEZE wants a table or file of this subtransaction
DROP TABLE t;
BEGIN;
CREATE TEMP TABLE t (a int, b text);
COPY t FROM STDIN WITH (FREEZE);
1	frozen
\.
ROLLBACK;
CREATE TEMP TABLE t (a int, b text);
SELECT * FROM t;
COPY t FROM STDIN WITH (FREEZE);
1	no
\.
BEGIN;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
COPY t FROM STDIN WITH (FREEZE);
2	frozen
\.
SAVEPOINT s;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
COPY t FROM STDIN WITH (FREEZE);
3	frozen
\.
SELECT * FROM t;
ROLLBACK TO s;
SELECT * FROM t;
COMMIT;
SELECT * FROM t;

-- cursors, prepared statements, row variables
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t;
FETCH c;
DROP TABLE t;
ROLLBACK;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT * FROM t;
COMMIT;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
FETCH ALL h;
CLOSE h;
INSERT INTO t VALUES (1, 'p');
PREPARE p AS SELECT * FROM t;
EXECUTE p;
DROP TABLE t;
EXECUTE p;
CREATE TEMP TABLE t (a int, b text);
EXECUTE p;
INSERT INTO t VALUES (2, 'q');
EXECUTE p;
DROP TABLE t;
CREATE TEMP TABLE u (a int, b text);
INSERT INTO u VALUES (7, 'u');
EXECUTE p;
SELECT * FROM u;
DROP TABLE u;
DEALLOCATE p;
DO $$
DECLARE
  v record;
  w int;
BEGIN
  CREATE TEMP TABLE t (a int, b text);
  INSERT INTO t VALUES (1, 'old');
  SELECT * INTO v FROM t;
  DROP TABLE t;
  CREATE TEMP TABLE t (a int, b text);
  INSERT INTO t VALUES (v.a + 1, v.b);
  SELECT a INTO w FROM t;
  RAISE NOTICE '% %', v, w;
  DROP TABLE t;
END $$;
DO $$
BEGIN
  FOR i IN 1 .. 3 LOOP
    BEGIN
      CREATE TEMP TABLE t (a int, b text);
      INSERT INTO t VALUES (i, 'do');
      IF i = 2 THEN RAISE 'no'; END IF;
      DROP TABLE t;
    EXCEPTION WHEN raise_exception THEN
      RAISE NOTICE 'caught, %', to_regclass('t');
    END;
  END LOOP;
END $$;

-- a permanent table and types of the same name
CREATE TABLE public.t (x text, a int);
INSERT INTO public.t VALUES ('permanent', 0);
SELECT '(x,1)'::t;
CREATE TEMP TABLE t (a int, b text);
SELECT '(1,x)'::t, '{"(1,x)"}'::t[];
DROP TABLE t;
SELECT '(x,1)'::t, '{"(x,1)"}'::t[];
SELECT * FROM t;
DROP TABLE public.t;
SELECT NULL::t;
SELECT NULL::t[];
CREATE TYPE pg_temp.t AS (z int);
CREATE TEMP TABLE t (a int, b text);
DROP TYPE pg_temp.t;
CREATE DOMAIN pg_temp._t AS int;
CREATE TEMP TABLE t (a int, b text);
SELECT '{}'::t[];
DROP TABLE t;
DROP DOMAIN pg_temp._t;
CREATE TEMP TABLE _t (a int, b text);
CREATE TEMP TABLE t (a int, b text);
SELECT '(1,2)'::_t, '(1,2)'::t, '{}'::t[], '{}'::_t[];
DROP TABLE _t, t;

-- IF EXISTS, IF NOT EXISTS, errors
DROP TABLE IF EXISTS t, nothing;
DROP TABLE t;
DROP TABLE nowhere.t;
CREATE TEMP TABLE IF NOT EXISTS t (a int, b text);
CREATE TEMP TABLE IF NOT EXISTS t (a int, b text);
CREATE TEMP TABLE t (a int, b text);
CREATE TEMP TABLE IF NOT EXISTS t AS SELECT 1 AS a, 'x'::text AS b;
DROP VIEW t;
DROP TABLE t, t;
CREATE TEMP TABLE t (a int, a int);
CREATE TEMP TABLE t (a int, b varchar(0));
CREATE TEMP TABLE t (a int, b text COLLATE nosuch.nosuch);
CREATE TEMP TABLE t (a int NULL NOT NULL);
CREATE TEMP TABLE t (a int PRIMARY KEY, PRIMARY KEY (a));
CREATE TEMP TABLE public.t (a int, b text);
BEGIN READ ONLY;
CREATE TEMP TABLE t (a int, b text);
ROLLBACK;
BEGIN;
CREATE TEMP TABLE t (a int, b text);
PREPARE TRANSACTION 'x';

-- ON COMMIT
BEGIN;
CREATE TEMP TABLE t (a int, b text) ON COMMIT DROP;
INSERT INTO t VALUES (1, 'x');
SELECT * FROM t;
COMMIT;
SELECT * FROM t;
BEGIN;
CREATE TEMP TABLE t (a int, b text) ON COMMIT DROP;
SAVEPOINT s;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (2, 'stays');
COMMIT;
SELECT * FROM t;
DROP TABLE t;
BEGIN;
CREATE TEMP TABLE t (a int, b text) ON COMMIT DROP;
SAVEPOINT s;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
ROLLBACK TO s;
COMMIT;
SELECT * FROM t;
CREATE TEMP TABLE t (a int, b text) ON COMMIT DELETE ROWS;
INSERT INTO t VALUES (1, 'x');
SELECT * FROM t;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (1, 'kept');
SELECT * FROM t;
DROP TABLE t;
BEGIN;
CREATE TEMP TABLE t (a, b) ON COMMIT DROP AS VALUES (1, 'x'::text);
CREATE VIEW v AS SELECT * FROM t;
COMMIT;
SELECT * FROM v;
CREATE TEMP TABLE t (a, b) ON COMMIT DROP AS VALUES (1, 'x'::text);
SELECT * FROM t;

-- an entry of the server's list of ON COMMIT actions that a rollback revives
BEGIN;
CREATE TEMP TABLE t (a int, b text) ON COMMIT DROP;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (1, 'stays');
SAVEPOINT s;
DROP TABLE t;
ROLLBACK TO s;
COMMIT;
SELECT * FROM t;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text) ON COMMIT DELETE ROWS;
BEGIN;
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (1, 'stays');
SAVEPOINT s;
DROP TABLE t;
ROLLBACK TO s;
COMMIT;
SELECT * FROM t;
BEGIN;
CREATE TEMP TABLE IF NOT EXISTS t (a int, b text) ON COMMIT DROP;
COMMIT;
SELECT * FROM t;
DROP TABLE t;

-- CREATE TABLE AS, SELECT INTO
CREATE TEMP TABLE t AS SELECT g AS a, g::text AS b FROM generate_series(1, 10) g;
SELECT count(*) FROM t;
DROP TABLE t;
SELECT 1 AS a, 'y'::text AS b INTO TEMP t;
SELECT * FROM t;
DROP TABLE t;
CREATE TEMP TABLE t AS SELECT 1 / 0 AS a, 'v'::text AS b;
SELECT * FROM t;
CREATE TEMP TABLE t (a, b, c) AS VALUES (1, 'v'::text);
CREATE TEMP TABLE t AS SELECT 1 AS a, 'v'::text AS b WITH NO DATA;
DROP TABLE t;
PREPARE p(int) AS SELECT $1 AS a, 'e'::text AS b;
CREATE TEMP TABLE t AS EXECUTE p(4);
SELECT * FROM t;
DROP TABLE t;
DO $$BEGIN EXECUTE 'EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1 AS a, ''v''::text AS b'; END$$;
SELECT * FROM t;
DROP TABLE t;
CREATE FUNCTION pg_temp.nested() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  CREATE TEMP TABLE inner_t AS SELECT 2 AS a, 'inner'::text AS b;
  RETURN (SELECT a FROM inner_t);
END $$;
CREATE TEMP TABLE t AS SELECT pg_temp.nested() AS a, 'outer'::text AS b;
SELECT * FROM t, inner_t;
DROP TABLE t, inner_t;

-- owners, default privileges, event triggers
CREATE ROLE regress_recycled;
SET ROLE regress_recycled;
CREATE TEMP TABLE t (a int, b text);
SELECT relowner::regrole FROM pg_class WHERE oid = 't'::regclass;
DROP TABLE t;
RESET ROLE;
CREATE TEMP TABLE t (a int, b text);
SELECT relowner = current_user::regrole FROM pg_class WHERE oid = 't'::regclass;
SET ROLE regress_recycled;
DROP TABLE t;
RESET ROLE;
DROP TABLE t;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO regress_recycled;
CREATE TEMP TABLE t (a int, b text);
SELECT has_table_privilege('regress_recycled', 't', 'SELECT');
DROP TABLE t;
ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM regress_recycled;
DROP OWNED BY regress_recycled;
DROP ROLE regress_recycled;
CREATE FUNCTION seen() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
  names text;
BEGIN
  IF tg_event = 'sql_drop' THEN
    SELECT string_agg(object_name, ' ' ORDER BY object_name) INTO names FROM pg_event_trigger_dropped_objects() WHERE object_type = 'table';
  END IF;
  RAISE NOTICE '% % %', tg_event, tg_tag, names;
END $$;
CREATE TEMP TABLE t (a int, b text);
DROP TABLE t;
CREATE EVENT TRIGGER seen_end ON ddl_command_end EXECUTE FUNCTION seen();
CREATE TEMP TABLE t (a int, b text);
DROP TABLE t;
DROP EVENT TRIGGER seen_end;
CREATE EVENT TRIGGER seen_drop ON sql_drop EXECUTE FUNCTION seen();
CREATE TEMP TABLE t (a int, b text);
DROP TABLE t;
DROP EVENT TRIGGER seen_drop;

-- parts that an extension has
CREATE TEMP TABLE t (a int, b text);
ALTER EXTENSION recycled_temp ADD TABLE t;
DROP TABLE t;
ALTER EXTENSION recycled_temp DROP TABLE t;
ALTER EXTENSION recycled_temp ADD TYPE t;
DROP TABLE t;
ALTER EXTENSION recycled_temp DROP TYPE t;
DROP TABLE t;

-- defaults and their errors
CREATE TEMP TABLE d (a int DEFAULT 3, b text DEFAULT 'x', c date DEFAULT CURRENT_DATE);
INSERT INTO d DEFAULT VALUES;
DROP TABLE d;
CREATE TEMP TABLE d (a int DEFAULT 3, b text DEFAULT 'x', c date DEFAULT CURRENT_DATE);
INSERT INTO d DEFAULT VALUES;
SELECT a, b, c = CURRENT_DATE FROM d;
DROP TABLE d;
CREATE TEMP TABLE d (a int DEFAULT 4, b text DEFAULT 'y', c date DEFAULT CURRENT_DATE);
INSERT INTO d DEFAULT VALUES;
SELECT a, b, c = CURRENT_DATE FROM d;
DROP TABLE d;
\set VERBOSITY default
CREATE TEMP TABLE d (a int DEFAULT 'x', b text DEFAULT 'x', c date DEFAULT CURRENT_DATE);
\set VERBOSITY terse
CREATE TEMP TABLE d (a int DEFAULT 3, b text DEFAULT 'x', c date DEFAULT nosuch(1));
\set VERBOSITY default
CREATE TEMP TABLE d (a int DEFAULT 3 DEFAULT 4, b text DEFAULT 'x', c date DEFAULT CURRENT_DATE);
CREATE TEMP TABLE d (a int DEFAULT 3, b text DEFAULT 'x', c date DEFAULT true);
CREATE TEMP TABLE d (a int DEFAULT 3, b text DEFAULT b, c date DEFAULT CURRENT_DATE);
CREATE TEMP TABLE d (a int DEFAULT 3, b text DEFAULT 'x', c date DEFAULT generate_series(1, 2));
CREATE TEMP TABLE d (a int DEFAULT 3, b text DEFAULT NULL, c date DEFAULT CURRENT_DATE);
\set VERBOSITY terse
INSERT INTO d DEFAULT VALUES;
SELECT a, b, c = CURRENT_DATE FROM d;
DROP TABLE d;
-- the server's error for a default that is nested too deep
CREATE TEMP TABLE t (a int);
DROP TABLE t;
\set ECHO none
SELECT 'CREATE TEMP TABLE deep (a int DEFAULT ' || repeat('1+', 500000) || '1)' \gexec
\set ECHO all
SELECT 1 AS alive;
-- DISCARD
CREATE TEMP TABLE t (a int, b text);
DISCARD TEMP;
SELECT * FROM t;
CREATE TEMP TABLE t (a int, b text);
DROP TABLE t;
CREATE TEMP TABLE t (a int, b text);
INSERT INTO t VALUES (1, 'after');
SELECT * FROM t;
SELECT reused > 30 AS reused FROM recycled_temp_status();
DROP EXTENSION recycled_temp;

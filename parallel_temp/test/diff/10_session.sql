-- Life of temporary tables in a session: ON COMMIT, DISCARD, tablespaces, views,
-- rules, triggers, row security, schemas, roles.

BEGIN;
CREATE TEMP TABLE del (x int) ON COMMIT DELETE ROWS;
INSERT INTO del SELECT generate_series(1, 3000);

--@ parallel
SELECT count(*), sum(x) FROM del;

SAVEPOINT a;
INSERT INTO del SELECT generate_series(1, 3000);
SELECT count(*), sum(x) FROM del;
ROLLBACK TO a;
SELECT count(*), sum(x) FROM del;
COMMIT;
SELECT count(*), sum(x) FROM del;

BEGIN;
INSERT INTO del SELECT generate_series(1, 2000);
SELECT count(*), sum(x) FROM del;
COMMIT;
SELECT count(*), sum(x) FROM del;

BEGIN;
INSERT INTO del SELECT generate_series(5, 200);
SELECT count(*), sum(x) FROM del;
ROLLBACK;
SELECT count(*), sum(x) FROM del;

BEGIN;
CREATE TEMP TABLE dropped (x int) ON COMMIT DROP;
INSERT INTO dropped SELECT generate_series(1, 3000);
SELECT count(*), sum(x) FROM dropped;
COMMIT;
SELECT count(*), sum(x) FROM dropped;

BEGIN;
CREATE TEMP TABLE dropped ON COMMIT DROP AS SELECT generate_series(1, 4000) AS x;
SELECT count(*), sum(x) FROM dropped;
ROLLBACK;
SELECT count(*), sum(x) FROM dropped;

-- DISCARD.
CREATE TEMP TABLE t (id int, v int);
INSERT INTO t SELECT i, i % 10 FROM generate_series(1, 5000) i;
PREPARE q AS SELECT count(*), sum(v) FROM t;
EXECUTE q;
DISCARD TEMP;
EXECUTE q;
SELECT count(*) FROM t;

CREATE TEMP TABLE t (id int, v int);
INSERT INTO t SELECT i, 1 FROM generate_series(1, 2000) i;
EXECUTE q;
SELECT count(*), sum(v) FROM t;

-- Another tablespace.
CREATE TEMP TABLE sp (id int, v text) TABLESPACE pt_space;
INSERT INTO sp SELECT i, md5(i::text) FROM generate_series(1, 8000) i;

--@ parallel
SELECT count(*), max(v) FROM sp;

CREATE INDEX sp_id ON sp (id) TABLESPACE pt_space;
SELECT count(*), max(v) FROM sp WHERE id < 300;

SET temp_tablespaces = 'pt_space';
CREATE TEMP TABLE sp2 AS SELECT * FROM sp;

--@ parallel
SELECT count(*), max(v) FROM sp2 JOIN sp USING (id, v);

ALTER TABLE sp SET TABLESPACE pg_default;
SELECT count(*), max(v) FROM sp;
BEGIN;
ALTER TABLE t SET TABLESPACE pt_space;
SELECT count(*), sum(v) FROM t;
ROLLBACK;
SELECT count(*), sum(v) FROM t;
RESET temp_tablespaces;

-- Views, rules, triggers.
CREATE TEMP VIEW vw AS SELECT v, count(*) AS c FROM t GROUP BY v;
INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 3000) i;

--@ parallel
SELECT * FROM vw;

CREATE VIEW becomes_temp AS SELECT id, v FROM t WHERE v > 2;
SELECT count(*), sum(id) FROM becomes_temp;

CREATE TEMP VIEW barrier WITH (security_barrier) AS SELECT id, v FROM t WHERE v > 2;
SELECT count(*), sum(id) FROM barrier WHERE id % 2 = 0;

CREATE TEMP TABLE audit (what text, id int);
CREATE RULE r AS ON DELETE TO t WHERE old.v = 6 DO ALSO INSERT INTO audit VALUES ('rule', old.id);
DELETE FROM t WHERE id <= 100;
SELECT what, count(*), sum(id) FROM audit GROUP BY what;
SELECT count(*), sum(v) FROM t;

CREATE FUNCTION pg_temp.trg() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
	INSERT INTO audit SELECT 'trigger', count(*) FROM t; RETURN NULL; END$$;
CREATE TRIGGER s AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.trg();
UPDATE t SET v = v + 1 WHERE id % 50 = 0;
SELECT what, count(*), sum(id) FROM audit GROUP BY what;

CREATE FUNCTION pg_temp.trg_row() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
	new.v := (SELECT count(*) FROM t WHERE v = new.v); RETURN new; END$$;
CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION pg_temp.trg_row();
INSERT INTO t SELECT i, i % 5 FROM generate_series(1, 20) i;
SELECT count(*), sum(v) FROM t;
DROP TRIGGER b ON t;

CREATE FUNCTION pg_temp.trg_trans() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
	INSERT INTO audit SELECT 'transition', count(*) FROM fresh JOIN t USING (id); RETURN NULL; END$$;
CREATE TRIGGER n AFTER INSERT ON t REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.trg_trans();
INSERT INTO t SELECT i, 1 FROM generate_series(100000, 100500) i;
SELECT what, count(*), sum(id) FROM audit GROUP BY what;

-- Row security.
CREATE TEMP TABLE rls (id int, owner name, v int);
INSERT INTO rls SELECT i, CASE WHEN i % 3 = 0 THEN 'pt_reader' ELSE 'other' END, i % 100 FROM generate_series(1, 6000) i;
ALTER TABLE rls ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON rls USING (owner = current_user);
GRANT SELECT ON rls TO pt_reader;
SELECT count(*), sum(v) FROM rls;
SET ROLE pt_reader;

--@ parallel
SELECT count(*), sum(v) FROM rls;

SELECT count(*) FROM rls WHERE v < 50;

SELECT count(*) FROM t;

RESET ROLE;
ALTER POLICY own ON rls USING (v < (SELECT avg(v) FROM t));
SET ROLE pt_reader;
SELECT count(*), sum(v) FROM rls;
RESET ROLE;
GRANT SELECT ON t TO pt_reader;
SET ROLE pt_reader;
SELECT count(*), sum(v) FROM rls;
RESET ROLE;

GRANT SELECT (id) ON sp TO pt_reader;
SET ROLE pt_reader;
SELECT count(id) FROM sp;
SELECT max(v) FROM sp;
RESET ROLE;

-- Security definer, set role inside.
CREATE FUNCTION pg_temp.definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM sp2';
GRANT USAGE ON SCHEMA public TO pt_reader;
SET ROLE pt_reader;
SELECT pg_temp.definer();
RESET ROLE;

SELECT current_user, count(*) FROM t WHERE current_user <> 'x';

-- Names: a temporary table hides a permanent one.
CREATE TABLE twin (x int);
INSERT INTO twin SELECT generate_series(1, 100);
CREATE TEMP TABLE twin (x int);
INSERT INTO twin SELECT generate_series(1, 5000);
SELECT count(*) FROM twin;
SELECT count(*) FROM public.twin;
SELECT count(*) FROM pg_temp.twin JOIN public.twin p USING (x);
SET search_path = public, pg_temp;
SELECT count(*) FROM twin;
RESET search_path;
DROP TABLE pg_temp.twin;
SELECT count(*) FROM twin;
DROP TABLE twin;

-- Sequences and identity.
CREATE TEMP SEQUENCE sq;
CREATE TEMP TABLE ident (id int GENERATED ALWAYS AS IDENTITY, n bigint DEFAULT nextval('sq'), v int);
INSERT INTO ident (v) SELECT i % 3 FROM generate_series(1, 3000) i;
SELECT v, count(*), min(id), max(n) FROM ident GROUP BY v;
SELECT count(nextval('sq')) FROM t WHERE id <= 10;
SELECT last_value FROM sq;
SELECT count(*) FROM ident WHERE n > (SELECT last_value / 2 FROM sq);

-- The session's state as seen by a worker.
SET DateStyle = 'German';
CREATE TEMP TABLE dates AS SELECT date '2024-01-01' + i AS d FROM generate_series(1, 2000) i;

--@ parallel
SELECT max(d::text), min(d::text) FROM dates;

SET TimeZone = 'Asia/Tokyo';
SELECT max(d::timestamptz::text) FROM dates;

SET LOCAL work_mem = '1MB';
SET extra_float_digits = 0;
SELECT min((id / 3.0::float8)::text), max((id / 3.0::float8)::text) FROM t;

SELECT current_setting('TimeZone'), count(*) FROM dates WHERE current_setting('DateStyle') LIKE 'German%' GROUP BY 1;

RESET ALL;
DISCARD ALL;
SELECT count(*) FROM t;

-- A table from the pool has the same catalog rows as a new one, except for OIDs and file
-- numbers, whatever happened to it before its DROP, and to the pooled table before the
-- next CREATE.  kept, reused: whether recycled_temp took it; same, empty, works: must be true.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION recycled_temp;
CREATE ROLE regress_recycled_other;
CREATE TABLE result (n serial, what text, kept boolean, reused boolean, same boolean, empty boolean, works boolean, difference text);
CREATE TABLE expected (make text PRIMARY KEY, rows text[]);

-- All catalog rows of a table, with OIDs replaced by names.
CREATE FUNCTION catalog_rows(rel regclass) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  oids oid[] := '{}';
  labels text[] := '{}';
  found text[];
  one record;
BEGIN
  FOR one IN
    WITH classes AS (
      SELECT c.oid, 'table' AS label FROM pg_class c WHERE c.oid = rel
      UNION ALL SELECT c.reltoastrelid, 'toast' FROM pg_class c WHERE c.oid = rel AND c.reltoastrelid <> 0
      UNION ALL SELECT i.indexrelid, 'index ' || row_number() OVER (ORDER BY i.indexrelid) FROM pg_index i WHERE i.indrelid = rel
      UNION ALL SELECT i.indexrelid, 'toast index' FROM pg_index i JOIN pg_class c ON c.oid = rel AND i.indrelid = c.reltoastrelid)
    SELECT oid, label FROM classes
    UNION ALL SELECT t.oid, 'row type' FROM pg_type t WHERE t.typrelid = rel
    UNION ALL SELECT t.typarray, 'array type' FROM pg_type t WHERE t.typrelid = rel
    UNION ALL SELECT t.oid, 'toast row type' FROM pg_type t JOIN pg_class c ON t.typrelid = c.reltoastrelid WHERE c.oid = rel AND c.reltoastrelid <> 0
    UNION ALL SELECT d.oid, 'default ' || d.adnum FROM pg_attrdef d WHERE d.adrelid = rel
    UNION ALL SELECT c.oid, 'constraint ' || row_number() OVER (ORDER BY c.contype, c.conkey) FROM pg_constraint c WHERE c.conrelid = rel
  LOOP
    oids := oids || one.oid;
    labels := labels || one.label;
  END LOOP;
  SELECT array_agg(line) INTO found FROM (
    SELECT 'pg_class ' || (to_jsonb(c) - 'oid' - 'relfilenode' - 'relfrozenxid' - 'relminmxid')::text || (age(c.relfrozenxid) < 10000000) AS line
      FROM pg_class c WHERE c.oid = ANY (oids)
    UNION ALL SELECT 'pg_attribute ' || (to_jsonb(a) || CASE WHEN a.attoptions::text ~ '^{pg_attver=\d+}$' THEN '{"attoptions": null}'::jsonb ELSE '{}' END)::text
      FROM pg_attribute a WHERE a.attrelid = ANY (oids)
    UNION ALL SELECT 'pg_type ' || (to_jsonb(t) - 'oid')::text FROM pg_type t WHERE t.oid = ANY (oids)
    UNION ALL SELECT 'pg_index ' || to_jsonb(i)::text FROM pg_index i WHERE i.indexrelid = ANY (oids)
    UNION ALL SELECT 'pg_constraint ' || (to_jsonb(c) - 'oid')::text FROM pg_constraint c WHERE c.oid = ANY (oids)
    UNION ALL SELECT 'pg_depend ' || to_jsonb(d)::text FROM pg_depend d WHERE d.objid = ANY (oids) OR d.refobjid = ANY (oids)
    UNION ALL SELECT 'pg_shdepend ' || to_jsonb(d)::text FROM pg_shdepend d WHERE d.objid = ANY (oids)
      AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL SELECT 'pg_description ' || to_jsonb(d)::text FROM pg_description d WHERE d.objoid = ANY (oids)
    UNION ALL SELECT 'pg_statistic ' || s.staattnum FROM pg_statistic s WHERE s.starelid = rel
    UNION ALL SELECT 'pg_statistic_ext ' || s.stxname FROM pg_statistic_ext s WHERE s.stxrelid = rel
    UNION ALL SELECT 'pg_attrdef ' || (to_jsonb(d) - 'oid')::text FROM pg_attrdef d WHERE d.adrelid = rel
    UNION ALL SELECT 'pg_trigger ' || t.tgname FROM pg_trigger t WHERE t.tgrelid = rel
    UNION ALL SELECT 'pg_rewrite ' || r.rulename FROM pg_rewrite r WHERE r.ev_class = rel
    UNION ALL SELECT 'pg_policy ' || p.polname FROM pg_policy p WHERE p.polrelid = rel
    UNION ALL SELECT 'pg_inherits ' || i.inhseqno FROM pg_inherits i WHERE rel IN (i.inhrelid, i.inhparent)) s;
  FOR i IN 1 .. cardinality(oids) LOOP
    SELECT array_agg(replace(line, oids[i]::text, '<' || labels[i] || '>')) INTO found FROM unnest(found) line;
  END LOOP;
  RETURN ARRAY(SELECT line FROM unnest(found) line ORDER BY line COLLATE "C");
END $$;

CREATE FUNCTION reused() RETURNS bigint LANGUAGE sql AS 'SELECT reused FROM recycled_temp_status()';
CREATE FUNCTION pooled() RETURNS text LANGUAGE sql AS $$SELECT 'pg_temp.' || c.relname FROM recycled_temp_pool() p JOIN pg_class c ON c.oid = p.relation LIMIT 1$$;

-- What the server makes of a statement is asked once.
CREATE PROCEDURE ask_server(make text) LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM expected e WHERE e.make = ask_server.make) THEN RETURN; END IF;
  SET recycled_temp.enabled = off;
  EXECUTE make;
  INSERT INTO expected VALUES (make, catalog_rows('t'));
  DROP TABLE t;
  COMMIT;
  SET recycled_temp.enabled = on;
END $$;

-- The second half: create the table again and compare.
CREATE PROCEDURE again(what text, make text, kept boolean) LANGUAGE plpgsql AS $$
DECLARE
  before bigint := reused();
  rows text[];
  want text[];
  n bigint;
  good boolean := true;
  is_reused boolean;
BEGIN
  CALL ask_server(make);
  EXECUTE make;
  is_reused := reused() > before;
  rows := catalog_rows('t');
  want := (SELECT e.rows FROM expected e WHERE e.make = again.make);
  SELECT count(*) FROM t INTO n;
  IF EXISTS (SELECT FROM pg_index WHERE indrelid = 't'::regclass) THEN
    SET LOCAL enable_seqscan = off;
    SELECT count(*) FROM t WHERE a > 0 INTO good;
    good := NOT good;
  END IF;
  INSERT INTO t (a) SELECT generate_series(1, 500);
  good := good AND (SELECT count(*) = 500 AND sum(a) = 125250 FROM t) AND (SELECT count(*) = 1 FROM t WHERE a = 77);
  IF EXISTS (SELECT FROM pg_index WHERE indrelid = 't'::regclass AND indisunique) THEN
    BEGIN
      INSERT INTO t (a) VALUES (77);
      good := false;
    EXCEPTION WHEN unique_violation THEN NULL;
    END;
  END IF;
  COMMIT;
  INSERT INTO result (what, kept, reused, same, empty, works, difference)
  VALUES (again.what, again.kept, is_reused, NOT is_reused OR rows = want, n = 0, good,
    (SELECT string_agg(line, E'\n') FROM (SELECT 'new:    ' || line FROM unnest(want) line EXCEPT SELECT 'new:    ' || line FROM unnest(rows) line
      UNION (SELECT 'reused: ' || line FROM unnest(rows) line EXCEPT SELECT 'reused: ' || line FROM unnest(want) line)) d (line)));
  DROP TABLE t CASCADE;
  COMMIT;
END $$;

CREATE PROCEDURE make_and_drop(make text, changes text[] DEFAULT '{}') LANGUAGE plpgsql AS $$
DECLARE
  change text;
BEGIN
  SET recycled_temp.enabled = on;
  PERFORM recycled_temp_empty();
  COMMIT;
  EXECUTE make;
  FOREACH change IN ARRAY changes LOOP EXECUTE change; END LOOP;
  COMMIT;
  DROP TABLE t CASCADE;
  COMMIT;
END $$;

CREATE PROCEDURE try(what text, make text, changes text[] DEFAULT '{}', pooled_changes text[] DEFAULT '{}') LANGUAGE plpgsql AS $$
DECLARE
  change text;
  name text;
BEGIN
  CALL make_and_drop(make, changes);
  name := pooled();
  IF name IS NOT NULL THEN
    FOREACH change IN ARRAY pooled_changes LOOP EXECUTE replace(change, 'POOLED', name); END LOOP;
    COMMIT;
  END IF;
  CALL again(what, make, name IS NOT NULL);
END $$;

CREATE FUNCTION pg_temp.seven() RETURNS int LANGUAGE sql AS 'SELECT 7';
\set plain '''CREATE TEMP TABLE t (a int, b text)'''
\set keyed '''CREATE TEMP TABLE t (a int PRIMARY KEY, b text, c int)'''
\set fill '''INSERT INTO t SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 50) g'''

-- shapes
CALL try('four integers', 'CREATE TEMP TABLE t (a int, b int, c int, d int)');
CALL try('a text column', :plain);
CALL try('rows in TOAST', :plain, ARRAY[:fill]);
CALL try('NOT NULL', 'CREATE TEMP TABLE t (a int NOT NULL, b text)');
CALL try('PRIMARY KEY', :keyed);
CALL try('PRIMARY KEY with rows', :keyed, ARRAY[:fill]);
CALL try('UNIQUE of several columns', 'CREATE TEMP TABLE t (b int, a int, c int, UNIQUE (a), UNIQUE (b, c))', ARRAY['INSERT INTO t SELECT g, g, g FROM generate_series(1, 1000) g']);
CALL try('PRIMARY KEY and UNIQUE', 'CREATE TEMP TABLE t (a int PRIMARY KEY, b int UNIQUE, c int, UNIQUE (c, a))', ARRAY['INSERT INTO t SELECT g, g, g FROM generate_series(1, 1000) g']);
CALL try('UNIQUE NOT NULL', 'CREATE TEMP TABLE t (a int UNIQUE NOT NULL, b varchar(10))', ARRAY['INSERT INTO t SELECT generate_series(1, 10)']);
CALL try('types with modifiers and dimensions', 'CREATE TEMP TABLE t (a int, b numeric(8,3), c varchar(5)[], d int[][], e timestamp(3), f "char", g text COLLATE "C")');
CALL try('dimensions that differ', 'CREATE TEMP TABLE t (a int, d int[])', ARRAY['DROP TABLE t', 'CREATE TEMP TABLE t (a int, d int[][])']);
CALL try('ON COMMIT DELETE ROWS', :plain || ' ON COMMIT PRESERVE ROWS', ARRAY['DROP TABLE t', :plain || ' ON COMMIT DELETE ROWS']);
CALL try('defaults', 'CREATE TEMP TABLE t (a int DEFAULT -3, b text DEFAULT ''x'' NOT NULL, c date DEFAULT CURRENT_DATE, d varchar(3) DEFAULT ''y''::text, e timestamptz DEFAULT now(), f bool DEFAULT true, g int[] DEFAULT ''{1}'')', ARRAY['INSERT INTO t VALUES (1)']);
CALL try('a default and a key', 'CREATE TEMP TABLE t (a int DEFAULT 7 PRIMARY KEY, b text DEFAULT ''x'')', ARRAY[:fill]);
CALL try('a default of NULL', 'CREATE TEMP TABLE t (a int DEFAULT NULL)');
CALL try('another default', 'CREATE TEMP TABLE t (a int DEFAULT 1, b int)', ARRAY['DROP TABLE t', 'CREATE TEMP TABLE t (a int DEFAULT 2, b int)']);
CALL try('a default of another column', 'CREATE TEMP TABLE t (a int DEFAULT 1, b int)', ARRAY['DROP TABLE t', 'CREATE TEMP TABLE t (a int, b int DEFAULT 1)']);
CALL try('a default by a function of a user', 'CREATE TEMP TABLE t (a int DEFAULT pg_temp.seven(), b int)');
CALL try('a default that computes', 'CREATE TEMP TABLE t (a int DEFAULT 1 + 1, b int)');
CALL try('CREATE TABLE AS', 'CREATE TEMP TABLE t AS SELECT a, ''x''::text AS b FROM generate_series(1, 0) a');
CALL try('CREATE TABLE AS after CREATE TABLE', 'CREATE TEMP TABLE t (a, b) AS SELECT 1::int, ''x''::text WHERE false', ARRAY['DROP TABLE t', :plain]);

-- before DROP: commands over rows and files
CALL try('ANALYZE', :plain, ARRAY[:fill, 'ANALYZE t']);
CALL try('ANALYZE and TRUNCATE', :plain, ARRAY[:fill, 'ANALYZE t', 'TRUNCATE t']);
CALL try('TRUNCATE', :keyed, ARRAY[:fill, 'TRUNCATE t']);
CALL try('DELETE, UPDATE', :keyed, ARRAY[:fill, 'DELETE FROM t WHERE a > 10', 'UPDATE t SET c = a']);
CALL try('REINDEX', :keyed, ARRAY[:fill, 'REINDEX TABLE t']);
CALL try('broken HOT chains', :keyed, ARRAY[:fill, 'UPDATE t SET c = a', 'UPDATE t SET c = a + 1', 'CREATE INDEX i ON t (c)']);
CALL try('CLUSTER ON', :keyed, ARRAY[:fill, 'ALTER TABLE t CLUSTER ON t_pkey']);
CALL try('a rewrite', :plain, ARRAY[:fill, 'ALTER TABLE t ALTER a TYPE bigint', 'ALTER TABLE t ALTER a TYPE int']);
CALL try('a large table', 'CREATE TEMP TABLE t (a int)', ARRAY['INSERT INTO t SELECT generate_series(1, 100000)']);
CALL try('a large index', 'CREATE TEMP TABLE t (a int PRIMARY KEY)', ARRAY['INSERT INTO t SELECT generate_series(1, 100000)']);
CALL try('a temporary tablespace', 'CREATE TEMP TABLE t (a int) TABLESPACE pg_default');

-- before DROP: definitions
CALL try('an index', :plain, ARRAY[:fill, 'CREATE INDEX i ON t (a)', 'CREATE INDEX ON t (lower(b)) WHERE a > 3']);
CALL try('an index that is dropped', :plain, ARRAY['CREATE INDEX i ON t (a)', 'DROP INDEX i']);
CALL try('a unique index with a foreign key', 'CREATE TEMP TABLE t (a int, b text)', ARRAY['CREATE UNIQUE INDEX i ON t (a)', 'CREATE TEMP TABLE f (a int REFERENCES t (a))']);
DROP TABLE IF EXISTS f;
CALL try('a default', :plain, ARRAY['ALTER TABLE t ALTER a SET DEFAULT 5']);
CALL try('a default that is dropped', :plain, ARRAY['ALTER TABLE t ALTER a SET DEFAULT 5', 'ALTER TABLE t ALTER a DROP DEFAULT']);
CALL try('serial', 'CREATE TEMP TABLE t (a serial, b text)');
CALL try('identity', 'CREATE TEMP TABLE t (a int GENERATED BY DEFAULT AS IDENTITY, b text)');
CALL try('a generated column', 'CREATE TEMP TABLE t (a int, b int GENERATED ALWAYS AS (a + 1) STORED)');
CALL try('a sequence that is owned', :plain, ARRAY['CREATE TEMP SEQUENCE s OWNED BY t.a']);
CALL try('CHECK', :plain, ARRAY['ALTER TABLE t ADD CHECK (a > 0)']);
CALL try('a foreign key', :plain, ARRAY['CREATE TEMP TABLE f (a int PRIMARY KEY)', 'ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES f']);
DROP TABLE IF EXISTS f;
CALL try('a referenced key', :keyed, ARRAY['CREATE TEMP TABLE f (a int REFERENCES t)']);
DROP TABLE IF EXISTS f;
CALL try('EXCLUDE', :plain, ARRAY['ALTER TABLE t ADD EXCLUDE USING btree (a WITH =)']);
CALL try('a deferrable key', :plain, ARRAY['ALTER TABLE t ADD UNIQUE (a) DEFERRABLE']);
CALL try('a key with INCLUDE', :plain, ARRAY['ALTER TABLE t ADD UNIQUE (a) INCLUDE (b)']);
CALL try('NULLS NOT DISTINCT', :plain, ARRAY['ALTER TABLE t ADD UNIQUE NULLS NOT DISTINCT (a)']);
CALL try('a renamed key', :keyed, ARRAY['ALTER TABLE t RENAME CONSTRAINT t_pkey TO other']);
CALL try('a key of a renamed column', :keyed, ARRAY['ALTER TABLE t RENAME a TO x', 'ALTER TABLE t RENAME c TO a', 'ALTER TABLE t RENAME x TO c']);
CALL try('a renamed column of a key', :keyed, ARRAY['ALTER TABLE t RENAME a TO x', 'ALTER TABLE t_pkey RENAME COLUMN a TO y', 'ALTER TABLE t RENAME x TO a']);
CALL try('a key with options', :keyed, ARRAY['ALTER INDEX t_pkey SET (fillfactor = 50)']);
CALL try('a key made later', :keyed, ARRAY['ALTER TABLE t DROP CONSTRAINT t_pkey', 'ALTER TABLE t ADD PRIMARY KEY (a)']);
CALL try('a trigger', :plain, ARRAY['CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()']);
CALL try('a trigger that is dropped', :plain, ARRAY['CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()', 'DROP TRIGGER g ON t']);
CALL try('a rule', :plain, ARRAY['CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING']);
CALL try('a policy', :plain, ARRAY['CREATE POLICY p ON t USING (a > 0)']);
CALL try('row security', :plain, ARRAY['ALTER TABLE t ENABLE ROW LEVEL SECURITY']);
CALL try('row security of the owner', :plain, ARRAY['ALTER TABLE t FORCE ROW LEVEL SECURITY']);
CALL try('extended statistics', :plain, ARRAY['CREATE STATISTICS s ON a, b FROM t']);
CALL try('a child', :plain, ARRAY['CREATE TEMP TABLE c () INHERITS (t)', 'DROP TABLE c']);
CALL try('a parent', :plain, ARRAY['CREATE TEMP TABLE p (a int)', 'ALTER TABLE t INHERIT p']);
DROP TABLE IF EXISTS p;
CALL try('a view', :plain, ARRAY['CREATE VIEW v AS SELECT * FROM t']);
CALL try('a function of the row type', :plain, ARRAY['CREATE FUNCTION pg_temp.f(t) RETURNS int LANGUAGE sql AS ''SELECT 1''']);
CALL try('a table of the array type', :plain, ARRAY['CREATE TEMP TABLE u (x t[])']);
DROP TABLE IF EXISTS u;
CALL try('a typed table', 'CREATE TEMP TABLE t (a int, b text)', ARRAY['DROP TABLE t', 'CREATE TYPE y AS (a int, b text)', 'CREATE TEMP TABLE t OF y']);
DROP TYPE IF EXISTS y;
CALL try('a dropped column', 'CREATE TEMP TABLE t (a int)', ARRAY['ALTER TABLE t ADD b int', 'ALTER TABLE t DROP b']);
CALL try('an added column', 'CREATE TEMP TABLE t (a int, b text)', ARRAY['ALTER TABLE t DROP b', 'ALTER TABLE t ADD b text DEFAULT ''x''']);
CALL try('a missing value', 'CREATE TEMP TABLE t (a int, b text)', ARRAY['DROP TABLE t', 'CREATE TEMP TABLE t (a int)', 'INSERT INTO t VALUES (1)', 'ALTER TABLE t ADD b text DEFAULT ''x''', 'ALTER TABLE t ALTER b DROP DEFAULT']);
CALL try('a renamed table', :plain, ARRAY['ALTER TABLE t RENAME TO x', 'ALTER TABLE x RENAME TO t']);
CALL try('DROP NOT NULL', :plain, ARRAY['ALTER TABLE t ALTER a SET NOT NULL', 'ALTER TABLE t ALTER a DROP NOT NULL']);
CALL try('SET NOT NULL', 'CREATE TEMP TABLE t (a int NOT NULL, b text)', ARRAY['ALTER TABLE t ALTER a DROP NOT NULL', 'ALTER TABLE t ALTER a SET NOT NULL']);
CALL try('NOT NULL of a renamed column', 'CREATE TEMP TABLE t (a int NOT NULL)', ARRAY['DROP TABLE t', 'CREATE TEMP TABLE t (x int NOT NULL)', 'ALTER TABLE t RENAME x TO a']);

-- before DROP: properties
CALL try('GRANT', :plain, ARRAY['GRANT SELECT ON t TO PUBLIC']);
CALL try('GRANT and REVOKE', :plain, ARRAY['GRANT SELECT ON t TO PUBLIC', 'REVOKE SELECT ON t FROM PUBLIC']);
CALL try('GRANT on a column', :plain, ARRAY['GRANT SELECT (b) ON t TO PUBLIC']);
CALL try('GRANT on a system column', :plain, ARRAY['GRANT SELECT (ctid) ON t TO PUBLIC']);
CALL try('GRANT on the type', :plain, ARRAY['GRANT USAGE ON TYPE t TO regress_recycled_other']);
CALL try('COMMENT', :plain, ARRAY['COMMENT ON TABLE t IS ''x''']);
CALL try('COMMENT on a column', :plain, ARRAY['COMMENT ON COLUMN t.b IS ''x''']);
CALL try('COMMENT on the type', :plain, ARRAY['COMMENT ON TYPE t IS ''x''']);
CALL try('COMMENT on the array type', :plain, ARRAY['COMMENT ON TYPE _t IS ''x''']);
CALL try('COMMENT on an index', :keyed, ARRAY['COMMENT ON INDEX t_pkey IS ''x''']);
CALL try('COMMENT on a system column', :plain, ARRAY['COMMENT ON COLUMN t.ctid IS ''x''']);
CALL try('COMMENT on the TOAST index', :plain, ARRAY['DO $c$ BEGIN EXECUTE format(''COMMENT ON INDEX %s IS %L'', (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = ''t''::regclass)), ''x''); END $c$']);
CALL try('COMMENT on a constraint', :keyed, ARRAY['COMMENT ON CONSTRAINT t_pkey ON t IS ''x''']);
CALL try('SET STATISTICS', :plain, ARRAY['ALTER TABLE t ALTER a SET STATISTICS 5']);
CALL try('SET STORAGE', :plain, ARRAY['ALTER TABLE t ALTER b SET STORAGE external']);
CALL try('SET COMPRESSION', :plain, ARRAY['ALTER TABLE t ALTER b SET COMPRESSION pglz']);
CALL try('column options', :plain, ARRAY['ALTER TABLE t ALTER a SET (n_distinct = 5)']);
CALL try('table options', :plain, ARRAY['ALTER TABLE t SET (fillfactor = 50)']);
CALL try('TOAST options', :plain, ARRAY['ALTER TABLE t SET (toast.vacuum_truncate = off)']);
CALL try('table options that are reset', :plain, ARRAY['ALTER TABLE t SET (fillfactor = 50)', 'ALTER TABLE t RESET (fillfactor)']);
CALL try('REPLICA IDENTITY FULL', :plain, ARRAY['ALTER TABLE t REPLICA IDENTITY FULL']);
CALL try('REPLICA IDENTITY of an index', :keyed, ARRAY['ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey']);
CALL try('another owner', :plain, ARRAY['ALTER TABLE t OWNER TO regress_recycled_other']);
CALL try('REASSIGN OWNED', :plain, ARRAY['ALTER TABLE t OWNER TO regress_recycled_other', 'REASSIGN OWNED BY regress_recycled_other TO CURRENT_USER']);
CALL try('another access method', 'CREATE TEMP TABLE t (a int) USING heap');

CALL try('an index that depends on an extension', :keyed, ARRAY['ALTER INDEX t_pkey DEPENDS ON EXTENSION recycled_temp']);
CALL try('a label', :plain, ARRAY['SET LOCAL allow_system_table_mods = on', 'INSERT INTO pg_seclabel VALUES (''t''::regclass, ''pg_class''::regclass, 0, ''x'', ''y'')']);
CALL try('a label on the type', :plain, ARRAY['SET LOCAL allow_system_table_mods = on', 'INSERT INTO pg_seclabel VALUES (''t''::regtype, ''pg_type''::regclass, 0, ''x'', ''y'')']);
CALL try('a cast from the row type', :plain, ARRAY['CREATE FUNCTION pg_temp.f(t) RETURNS int LANGUAGE sql AS ''SELECT 1''', 'CREATE CAST (t AS int) WITH FUNCTION pg_temp.f(t)']);
CALL try('a domain of the row type', :plain, ARRAY['CREATE DOMAIN pg_temp.d AS t']);
CALL try('a function with a body', :plain, ARRAY['CREATE FUNCTION pg_temp.g() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM t; END']);
CALL try('a constraint trigger of another table', :plain, ARRAY['CREATE TEMP TABLE o (a int)', 'CREATE CONSTRAINT TRIGGER g AFTER UPDATE ON o FROM t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()']);
DROP TABLE IF EXISTS o;
CREATE COLLATION regress_recycled_collation FROM "C";
CALL try('a collation that is not pinned', 'CREATE TEMP TABLE t (a int, b text COLLATE regress_recycled_collation)');

-- the pooled table, by its name
CALL try('pooled: INSERT', :plain, '{}', ARRAY['INSERT INTO POOLED SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 50) g']);
CALL try('pooled: INSERT into a key', :keyed, '{}', ARRAY['INSERT INTO POOLED SELECT generate_series(1, 1000)']);
CALL try('pooled: TRUNCATE', :keyed, ARRAY[:fill], ARRAY['TRUNCATE POOLED']);
CALL try('pooled: ANALYZE', :plain, ARRAY[:fill], ARRAY['ANALYZE POOLED']);
CALL try('pooled: ANALYZE and TRUNCATE', :plain, '{}', ARRAY['INSERT INTO POOLED VALUES (1)', 'ANALYZE POOLED', 'TRUNCATE POOLED']);
CALL try('pooled: REINDEX', :keyed, ARRAY[:fill], ARRAY['REINDEX TABLE POOLED']);
CALL try('pooled: CREATE INDEX', :plain, '{}', ARRAY['CREATE INDEX ON POOLED (a)']);
CALL try('pooled: CREATE INDEX, DROP INDEX', :plain, '{}', ARRAY['CREATE INDEX i ON POOLED (a)', 'DROP INDEX i']);
CALL try('pooled: CREATE INDEX in addition to a key', :keyed, '{}', ARRAY['CREATE INDEX ON POOLED (c)']);
CALL try('pooled: ADD COLUMN', :plain, '{}', ARRAY['ALTER TABLE POOLED ADD c int']);
CALL try('pooled: RENAME COLUMN', :plain, '{}', ARRAY['ALTER TABLE POOLED RENAME b TO c']);
CALL try('pooled: SET STATISTICS', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER a SET STATISTICS 5']);
CALL try('pooled: SET STORAGE', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER b SET STORAGE plain']);
CALL try('pooled: SET NOT NULL', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER a SET NOT NULL']);
CALL try('pooled: default', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER a SET DEFAULT 5']);
CALL try('pooled: another default', 'CREATE TEMP TABLE t (a int DEFAULT 5, b int)', '{}', ARRAY['ALTER TABLE POOLED ALTER a SET DEFAULT 6']);
CALL try('pooled: DROP DEFAULT', 'CREATE TEMP TABLE t (a int DEFAULT 5, b int)', '{}', ARRAY['ALTER TABLE POOLED ALTER a DROP DEFAULT']);
CALL try('pooled: DROP NOT NULL', 'CREATE TEMP TABLE t (a int NOT NULL, b int)', '{}', ARRAY['ALTER TABLE POOLED ALTER a DROP NOT NULL']);
CALL try('pooled: DROP CONSTRAINT', :keyed, '{}', ARRAY['DO $c$ BEGIN EXECUTE format(''ALTER TABLE %s DROP CONSTRAINT %I'', ''POOLED'', (SELECT conname FROM pg_constraint WHERE conrelid = ''POOLED''::regclass AND contype = ''p'')); END $c$']);
CALL try('pooled: RENAME CONSTRAINT', :keyed, '{}', ARRAY['DO $c$ BEGIN EXECUTE format(''ALTER TABLE %s RENAME CONSTRAINT %I TO other'', ''POOLED'', (SELECT conname FROM pg_constraint WHERE conrelid = ''POOLED''::regclass AND contype = ''p'')); END $c$']);
CALL try('pooled: an index that depends on an extension', :keyed, '{}', ARRAY['DO $c$ BEGIN EXECUTE format(''ALTER INDEX %s DEPENDS ON EXTENSION recycled_temp'', (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = ''POOLED''::regclass)); END $c$']);
CALL try('pooled: options of an index', :keyed, '{}', ARRAY['DO $c$ BEGIN EXECUTE format(''ALTER INDEX %s SET (fillfactor = 50)'', (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = ''POOLED''::regclass)); END $c$']);
CALL try('pooled: DROP COLUMN, ADD COLUMN', :plain, '{}', ARRAY['ALTER TABLE POOLED DROP b', 'ALTER TABLE POOLED ADD b text']);
CALL try('pooled: a rewrite', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER a TYPE bigint', 'ALTER TABLE POOLED ALTER a TYPE int']);
CALL try('pooled: a rewrite with a key', :keyed, '{}', ARRAY['ALTER TABLE POOLED ALTER a TYPE bigint', 'ALTER TABLE POOLED ALTER a TYPE int']);
CALL try('pooled: another type', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER b TYPE varchar(5)']);
CALL try('pooled: SET COMPRESSION', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER b SET COMPRESSION pglz']);
CALL try('pooled: column options', :plain, '{}', ARRAY['ALTER TABLE POOLED ALTER a SET (n_distinct = 5)']);
CALL try('pooled: TOAST options', :plain, '{}', ARRAY['ALTER TABLE POOLED SET (toast.vacuum_truncate = off)']);
CALL try('pooled: UPDATE, DELETE', :keyed, ARRAY[:fill], ARRAY['UPDATE POOLED SET c = a', 'DELETE FROM POOLED WHERE a > 10']);
CALL try('pooled: foreign key', :keyed, '{}', ARRAY['CREATE TEMP TABLE f (a int REFERENCES POOLED)']);
DROP TABLE IF EXISTS f;
CALL try('pooled: INHERIT', :plain, '{}', ARRAY['CREATE TEMP TABLE p (a int)', 'ALTER TABLE POOLED INHERIT p']);
DROP TABLE IF EXISTS p;
CALL try('pooled: an owned sequence', :plain, '{}', ARRAY['CREATE TEMP SEQUENCE s OWNED BY POOLED.a']);
SELECT nextval('s');
DROP SEQUENCE IF EXISTS s;
CALL try('pooled: GRANT on a system column', :plain, '{}', ARRAY['GRANT SELECT (ctid) ON POOLED TO PUBLIC']);
CALL try('pooled: GRANT on the type', :plain, '{}', ARRAY['GRANT USAGE ON TYPE POOLED TO regress_recycled_other']);
CALL try('pooled: COMMENT on a constraint', :keyed, '{}', ARRAY['DO $c$ BEGIN EXECUTE format(''COMMENT ON CONSTRAINT %I ON %s IS %L'', (SELECT conname FROM pg_constraint WHERE conrelid = ''POOLED''::regclass AND contype = ''p''), ''POOLED'', ''x''); END $c$']);
CALL try('pooled: COMMENT on the TOAST index', :plain, '{}', ARRAY['DO $c$ BEGIN EXECUTE format(''COMMENT ON INDEX %s IS %L'', (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = ''POOLED''::regclass)), ''x''); END $c$']);
CALL try('pooled: a label', :plain, '{}', ARRAY['SET LOCAL allow_system_table_mods = on', 'INSERT INTO pg_seclabel VALUES (''POOLED''::regclass, ''pg_class''::regclass, 0, ''x'', ''y'')']);
CALL try('pooled: an extension has it', :plain, '{}', ARRAY['ALTER EXTENSION recycled_temp ADD TABLE POOLED']);
DO $$ BEGIN EXECUTE format('ALTER EXTENSION recycled_temp DROP TABLE %s', (SELECT objid::regclass FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_class'::regclass AND objid <> 'recycled_temp_tables'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'recycled_temp'))); END $$;
CALL try('pooled: an extension has its type', :plain, '{}', ARRAY['ALTER EXTENSION recycled_temp ADD TYPE POOLED']);
DO $$ BEGIN EXECUTE format('ALTER EXTENSION recycled_temp DROP TYPE %s', (SELECT objid::regtype FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_type'::regclass AND objid <> 'recycled_temp_tables'::regtype AND objid::regtype::text !~ '\[\]$' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'recycled_temp'))); END $$;
CALL try('pooled: CHECK', :plain, '{}', ARRAY['ALTER TABLE POOLED ADD CHECK (a > 5000)']);
CALL try('pooled: trigger', :plain, '{}', ARRAY['CREATE TRIGGER g BEFORE UPDATE ON POOLED FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()']);
CALL try('pooled: rule', :plain, '{}', ARRAY['CREATE RULE r AS ON INSERT TO POOLED DO INSTEAD NOTHING']);
CALL try('pooled: policy', :plain, '{}', ARRAY['CREATE POLICY p ON POOLED USING (a > 0)']);
CALL try('pooled: extended statistics', :plain, '{}', ARRAY['CREATE STATISTICS s ON a, b FROM POOLED']);
DROP STATISTICS IF EXISTS s;
CALL try('pooled: child', :plain, '{}', ARRAY['CREATE TEMP TABLE c () INHERITS (POOLED)']);
DROP TABLE IF EXISTS c;
CALL try('pooled: view', :plain, '{}', ARRAY['CREATE TEMP VIEW v AS SELECT * FROM POOLED']);
SELECT count(*) FROM v;
DROP VIEW IF EXISTS v;
CALL try('pooled: function', :plain, '{}', ARRAY['CREATE FUNCTION pg_temp.f(POOLED) RETURNS int LANGUAGE sql AS ''SELECT 1''']);
CALL try('pooled: GRANT', :plain, '{}', ARRAY['GRANT SELECT ON POOLED TO PUBLIC']);
CALL try('pooled: GRANT on all tables', :plain, '{}', ARRAY['DO $g$ BEGIN EXECUTE ''GRANT SELECT ON ALL TABLES IN SCHEMA '' || pg_my_temp_schema()::regnamespace || '' TO PUBLIC''; END $g$']);
CALL try('pooled: GRANT on a column', :plain, '{}', ARRAY['GRANT SELECT (a) ON POOLED TO PUBLIC']);
CALL try('pooled: COMMENT', :plain, '{}', ARRAY['COMMENT ON TABLE POOLED IS ''x''']);
CALL try('pooled: COMMENT on a column', :plain, '{}', ARRAY['COMMENT ON COLUMN POOLED.a IS ''x''']);
CALL try('pooled: COMMENT on the type', :plain, '{}', ARRAY['COMMENT ON TYPE POOLED IS ''x''']);
CALL try('pooled: options', :plain, '{}', ARRAY['ALTER TABLE POOLED SET (fillfactor = 50)']);
CALL try('pooled: REPLICA IDENTITY', :plain, '{}', ARRAY['ALTER TABLE POOLED REPLICA IDENTITY NOTHING']);
CALL try('pooled: row security', :plain, '{}', ARRAY['ALTER TABLE POOLED ENABLE ROW LEVEL SECURITY']);
CALL try('pooled: owner', :plain, '{}', ARRAY['ALTER TABLE POOLED OWNER TO regress_recycled_other']);
CALL try('pooled: RENAME', :plain, '{}', ARRAY['ALTER TABLE POOLED RENAME TO mine']);
SELECT count(*) FROM mine;
DROP TABLE IF EXISTS mine;
CALL try('pooled: DROP', :plain, '{}', ARRAY['DROP TABLE POOLED']);
CALL try('pooled: CLUSTER', :keyed, ARRAY[:fill], ARRAY['ALTER TABLE POOLED SET WITHOUT CLUSTER']);

-- DROP and CREATE in one transaction
CREATE PROCEDURE at_once(what text, make text, changes text[] DEFAULT '{}') LANGUAGE plpgsql AS $$
DECLARE
  change text;
BEGIN
  CALL ask_server(make);
  PERFORM recycled_temp_empty();
  COMMIT;
  EXECUTE make;
  FOREACH change IN ARRAY changes LOOP EXECUTE change; END LOOP;
  COMMIT;
  DROP TABLE t;
  CALL again(what, make, pooled() IS NOT NULL);
END $$;
CALL at_once('at once', :plain);
CALL at_once('at once: rows', 'CREATE TEMP TABLE t (a int, c int)', ARRAY['INSERT INTO t SELECT generate_series(1, 1000)']);
CALL at_once('at once: TOAST', :plain, ARRAY[:fill]);
CALL at_once('at once: PRIMARY KEY', :keyed, ARRAY[:fill]);

-- what cannot run in a procedure (names of pooled tables are not shown)
\set ECHO none
CALL make_and_drop(:keyed, ARRAY[:fill]);
SELECT 'VACUUM ' || pooled() \gexec
CALL again('pooled: VACUUM', :keyed, true);
CALL make_and_drop(:plain, ARRAY[:fill]);
VACUUM ANALYZE;
CALL again('pooled: VACUUM ANALYZE of all tables', :plain, true);
CALL make_and_drop(:keyed, ARRAY[:fill]);
SELECT 'VACUUM FULL ' || pooled() \gexec
CALL again('pooled: VACUUM FULL', :keyed, true);
CALL make_and_drop(:plain, ARRAY[:fill]);
SELECT 'VACUUM ' || reltoastrelid::regclass FROM pg_class WHERE oid = pooled()::regclass \gexec
CALL again('pooled: VACUUM of the TOAST table', :plain, true);
CALL make_and_drop(:keyed, ARRAY[:fill]);
SELECT 'CLUSTER ' || pooled() || ' USING ' || indexrelid::regclass FROM pg_index WHERE indrelid = pooled()::regclass \gexec
CALL again('pooled: CLUSTER USING', :keyed, true);
CALL make_and_drop(:keyed, ARRAY[:fill]);
SELECT 'REINDEX INDEX ' || indexrelid::regclass FROM pg_index WHERE indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = pooled()::regclass) \gexec
CALL again('pooled: REINDEX of the TOAST index', :keyed, true);
CREATE TEMP TABLE t (a int PRIMARY KEY, b text, c int);
INSERT INTO t SELECT g, 'x' FROM generate_series(1, 5000) g;
VACUUM (FREEZE, ANALYZE) t;
DROP TABLE t;
CALL again('VACUUM FREEZE', :keyed, pooled() IS NOT NULL);
CREATE TEMP TABLE t (a int, c int);
INSERT INTO t SELECT g, g FROM generate_series(1, 5000) g;
VACUUM (FREEZE) t;
DROP TABLE t;
CALL again('VACUUM FREEZE of a table without TOAST', 'CREATE TEMP TABLE t (a int, c int)', pooled() IS NOT NULL);

\set ECHO all
SELECT what, kept, reused, same, empty, works FROM result ORDER BY n;
SELECT what, difference FROM result WHERE (same AND empty AND works) IS NOT TRUE ORDER BY n;
DROP COLLATION regress_recycled_collation;
DROP OWNED BY regress_recycled_other;
DROP ROLE regress_recycled_other;
DROP EXTENSION recycled_temp;

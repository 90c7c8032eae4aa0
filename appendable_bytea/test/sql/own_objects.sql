-- What values are read through stays what and where it is, whoever alters it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE SCHEMA elsewhere;
CREATE TABLE o (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO o VALUES (1, convert_to(repeat('o', 30000), 'UTF8'));
CREATE FUNCTION on_store(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, '%s', 'appendable_store.chunks_' || 'o'::regclass::oid);
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || regexp_replace(SQLERRM, '[0-9]+', 'N', 'g');
END $$;
ALTER TYPE appendable_bytea SET SCHEMA elsewhere;
ALTER TYPE appendable_bytea RENAME TO other;
ALTER TYPE appendable_bytea SET (STORAGE = plain);
ALTER FUNCTION appendable_heap_handler(internal) SET SCHEMA elsewhere;
ALTER SCHEMA appendable_store RENAME TO other;
ALTER EXTENSION appendable_bytea DROP TYPE appendable_bytea;
ALTER EXTENSION appendable_bytea DROP ACCESS METHOD appendable_heap;
ALTER EXTENSION appendable_bytea DROP SCHEMA appendable_store;
ALTER EXTENSION appendable_bytea SET SCHEMA elsewhere;
ALTER EVENT TRIGGER appendable_bytea_command_end DISABLE;
ALTER EVENT TRIGGER appendable_bytea_dropped RENAME TO other;
-- but for the one that loads the library for clients, where there is one
DO $$ BEGIN
	IF EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'appendable_bytea_login') THEN
		ALTER EVENT TRIGGER appendable_bytea_login DISABLE;
		ALTER EVENT TRIGGER appendable_bytea_login ENABLE ALWAYS;
	END IF;
END $$;
SELECT command, on_store(command) FROM unnest(ARRAY['ALTER TABLE %s RENAME TO other', 'ALTER TABLE %s SET SCHEMA elsewhere',
	'ALTER TABLE %s ADD COLUMN x int', 'ALTER TABLE %s DROP COLUMN prev', 'ALTER TABLE %s RENAME COLUMN prev TO x',
	'ALTER TABLE %s ALTER data SET STORAGE external',
	'ALTER INDEX %s_index RENAME TO other', 'DROP INDEX %s_index', 'DROP TABLE %s']) command;
SELECT on_store('ALTER EXTENSION appendable_bytea DROP TABLE %s') = 'done' AS taken_out;
SELECT length(data), md5(data) = md5(repeat('o', 30000)) AS same FROM o;
SELECT count(*) FROM appendable_bytea_check();
-- nor is the catalog of stores changed by SQL
INSERT INTO appendable_store.stores VALUES ('o', 'o');
UPDATE appendable_store.stores SET store = 'o';
DELETE FROM appendable_store.stores;
TRUNCATE appendable_store.stores;
COPY appendable_store.stores FROM stdin;
1	1	\N
\.
SET session_replication_role = replica;
DELETE FROM appendable_store.stores;
RESET session_replication_role;
ALTER TABLE appendable_store.stores RENAME TO other;
ALTER TABLE appendable_store.stores ADD COLUMN x int;
DROP TABLE appendable_store.stores;
ALTER EXTENSION appendable_bytea DROP TABLE appendable_store.stores;
ALTER TABLE appendable_store.stores DISABLE TRIGGER refuse_write;
ALTER TABLE appendable_store.stores DISABLE TRIGGER ALL;
ALTER TABLE appendable_store.stores ENABLE TRIGGER refuse_write;
ALTER TRIGGER refuse_write ON appendable_store.stores RENAME TO other;
DROP TRIGGER refuse_write ON appendable_store.stores;
ALTER TABLE appendable_store.stores RESET (user_catalog_table);
ALTER TABLE appendable_store.stores SET (user_catalog_table = false);
ALTER TABLE appendable_store.stores SET SCHEMA elsewhere;
ALTER TABLE appendable_store.stores RENAME COLUMN store TO other;
ALTER TABLE appendable_store.stores ALTER store TYPE oid;
ALTER TABLE appendable_store.stores DROP CONSTRAINT stores_pkey;
ALTER TABLE appendable_store.stores SET UNLOGGED;
ALTER INDEX appendable_store.stores_pkey RENAME TO other;
CREATE TABLE elsewhere.parent (relation regclass, store regclass, dropped_by xid8);
ALTER TABLE appendable_store.stores INHERIT elsewhere.parent;
SELECT tgname, tgenabled, reloptions, relrewrite = c.oid AS not_decoded FROM pg_class c JOIN pg_trigger ON tgrelid = c.oid
	WHERE c.oid = 'appendable_store.stores'::regclass;
-- nor do triggers, rules, policies or heirs come between
CREATE FUNCTION elsewhere.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER mine BEFORE INSERT ON appendable_store.stores FOR EACH ROW EXECUTE FUNCTION elsewhere.nothing();
CREATE RULE mine AS ON DELETE TO appendable_store.stores DO INSTEAD NOTHING;
ALTER TABLE appendable_store.stores ENABLE ROW LEVEL SECURITY;
ALTER TABLE appendable_store.stores FORCE ROW LEVEL SECURITY;
CREATE TABLE elsewhere.heir () INHERITS (appendable_store.stores);
CREATE TABLE elsewhere.heir (LIKE appendable_store.stores INCLUDING ALL);
ALTER TABLE elsewhere.heir INHERIT appendable_store.stores;
CREATE TABLE elsewhere.refers (relation regclass REFERENCES appendable_store.stores);
DROP TRIGGER refuse_write ON appendable_store.stores;
SELECT command, on_store(command) FROM unnest(ARRAY['CREATE TABLE elsewhere.other () INHERITS (%s)',
	'CREATE TRIGGER mine BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION elsewhere.nothing()',
	'CREATE RULE mine AS ON DELETE TO %s DO INSTEAD NOTHING', 'ALTER TABLE %s ENABLE ROW LEVEL SECURITY',
	'CREATE TABLE elsewhere.other (LIKE %s); ALTER TABLE elsewhere.other INHERIT %s']) command;
DROP TABLE elsewhere.heir, elsewhere.refers;
DROP FUNCTION elsewhere.nothing;
-- other tables may have all of that
CREATE TABLE elsewhere.base (id int, data appendable_bytea);
CREATE TABLE elsewhere.heir () INHERITS (elsewhere.base);
CREATE RULE mine AS ON DELETE TO elsewhere.base DO INSTEAD NOTHING;
ALTER TABLE elsewhere.base ENABLE ROW LEVEL SECURITY;
DROP TABLE elsewhere.base, elsewhere.heir;
-- a store that logical decoding may read stays so
SET client_min_messages = error;
CREATE PUBLICATION ab_own FOR TABLE o;
SET client_min_messages = warning;
SELECT command, on_store(command) FROM unnest(ARRAY['ALTER TABLE %s RESET (user_catalog_table)', 'ALTER TABLE %s SET (user_catalog_table = false)',
	'ALTER TABLE %s SET (user_catalog_table = true, autovacuum_enabled = true)']) command;
DROP PUBLICATION ab_own;
ALTER TABLE o SET UNLOGGED;
SELECT reloptions FROM pg_class JOIN appendable_store.stores ON store = oid WHERE relation = 'o'::regclass;
ALTER TABLE o SET LOGGED;
-- what changes nothing of that may be done
CREATE ROLE ab_keeper;
ALTER TYPE appendable_bytea OWNER TO ab_keeper;
ALTER SCHEMA appendable_store OWNER TO ab_keeper;
REASSIGN OWNED BY ab_keeper TO CURRENT_USER;
GRANT USAGE ON TYPE appendable_bytea TO ab_keeper;
SELECT command, on_store(command) FROM unnest(ARRAY['ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.1)', 'REINDEX TABLE %s'
	]) command;
ALTER TABLE appendable_store.stores SET (autovacuum_vacuum_scale_factor = 0.1);
REINDEX TABLE appendable_store.stores;
REINDEX TABLE CONCURRENTLY appendable_store.stores;
VACUUM FULL appendable_store.stores;
SELECT format('appendable_store.chunks_%s', 'o'::regclass::oid) AS store \gset
VACUUM FULL :store;
REINDEX TABLE CONCURRENTLY :store;
UPDATE o SET data = data || convert_to(repeat('p', 30000), 'UTF8');
SELECT length(data), md5(data) = md5(repeat('o', 30000) || repeat('p', 30000)) AS same FROM o;
-- what a store is called, and what is said of it, decides nothing
SELECT store::oid AS oid FROM appendable_store.stores WHERE relation = 'o'::regclass \gset
UPDATE pg_class SET relname = relkind::text || 'other', relnamespace = 'elsewhere'::regnamespace
	WHERE oid IN (SELECT :oid UNION SELECT indexrelid FROM pg_index WHERE indrelid = :oid);
\c -
SET client_min_messages = warning;
COMMENT ON TABLE elsewhere.rother IS 'left by transaction 3 for logical replication slots';
UPDATE o SET data = data || '\x01' RETURNING length(data);
SELECT appendable_bytea_repair(), appendable_bytea_repair('o');
SELECT length(data), md5(substr(data, 1, 60000)) = md5(repeat('o', 30000) || repeat('p', 30000)) AS same FROM o;
SELECT table_name, store FROM appendable_bytea_stats();
SELECT count(*) FROM appendable_bytea_check();
DROP OWNED BY ab_keeper;
DROP ROLE ab_keeper;
DROP TABLE o;
SELECT * FROM appendable_store.stores;
DROP TABLE elsewhere.parent;
DROP SCHEMA elsewhere;
DROP FUNCTION on_store;

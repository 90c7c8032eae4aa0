-- What the library finds by its name stays where it is; stores are altered as little as TOAST tables.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE SCHEMA elsewhere;
CREATE TABLE o (id int PRIMARY KEY, data appendable_bytea);
CREATE TABLE beside (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO o VALUES (1, convert_to(repeat('o', 30000), 'UTF8'));
INSERT INTO beside SELECT * FROM o;
CREATE FUNCTION on_store(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, '%s', 'appendable_store.chunks_' || 'o'::regclass::oid);
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || regexp_replace(SQLERRM, '[0-9]+', 'N', 'g');
END $$;
ALTER TYPE appendable_bytea SET SCHEMA elsewhere;
ALTER TYPE appendable_bytea RENAME TO other;
ALTER TYPE appendable_text RENAME TO other;
ALTER FUNCTION appendable_heap_handler(internal) SET SCHEMA elsewhere;
ALTER ROUTINE appendable_heap_handler(internal) SET SCHEMA elsewhere;
ALTER ROUTINE appendable_heap_handler(internal) RENAME TO other;
ALTER SCHEMA appendable_store RENAME TO other;
ALTER EXTENSION appendable_bytea SET SCHEMA elsewhere;
SELECT command, on_store(command) FROM unnest(ARRAY['ALTER TABLE %s RENAME TO other', 'ALTER TABLE %s SET SCHEMA elsewhere',
	'ALTER TABLE %s ADD COLUMN x int', 'ALTER TABLE %s DROP COLUMN prev', 'ALTER TABLE %s RENAME COLUMN prev TO x',
	'ALTER TABLE %s ALTER data SET STORAGE external', 'ALTER TABLE %s SET (user_catalog_table = false)',
	'ALTER TABLE %s ENABLE ROW LEVEL SECURITY', 'ALTER TABLE %s OWNER TO CURRENT_USER',
	'CREATE INDEX ON %s (crc)',
	'ALTER INDEX %s_index RENAME TO other', 'DROP INDEX %s_index', 'DROP TABLE %s']) command;
-- what changes nothing of that may be done
CREATE ROLE ab_keeper;
ALTER TYPE appendable_bytea OWNER TO ab_keeper;
ALTER SCHEMA appendable_store OWNER TO ab_keeper;
REASSIGN OWNED BY ab_keeper TO CURRENT_USER;
GRANT USAGE ON TYPE appendable_bytea TO ab_keeper;
DROP OWNED BY ab_keeper;
DROP ROLE ab_keeper;
SELECT format('appendable_store.chunks_%s', 'o'::regclass::oid) AS store \gset
REINDEX TABLE :store;
REINDEX TABLE CONCURRENTLY :store;
VACUUM FULL :store;
UPDATE o SET data = data || convert_to(repeat('p', 30000), 'UTF8');
SELECT length(data), md5(data) = md5(repeat('o', 30000) || repeat('p', 30000)) AS same FROM o;
SELECT count(*) FROM appendable_bytea_check();
-- a store that a superuser drops all the same: an error, and no effect on other data
SELECT on_store('DELETE FROM pg_depend WHERE deptype = ''e'' AND objid = ''%s''::regclass') AS taken_out;
SELECT on_store('DROP TABLE %s') AS dropped;
SELECT md5(data) FROM o;
SELECT length(data) FROM o;
UPDATE o SET data = data || '\x01';
SELECT problem FROM appendable_bytea_check('o');
SELECT length(data), md5(data) = md5(repeat('o', 30000)) AS same FROM beside;
INSERT INTO o VALUES (2, convert_to(repeat('q', 30000), 'UTF8'));
SELECT md5(data) = md5(repeat('q', 30000)) AS same FROM o WHERE id = 2;
DELETE FROM o WHERE id = 1;
SELECT count(*) FROM appendable_bytea_check();
-- a database of a version that was never released is refused, and stays as it is
BEGIN;
UPDATE pg_extension SET extversion = '1.0' WHERE extname = 'appendable_bytea';
\set VERBOSITY sqlstate
ALTER EXTENSION appendable_bytea UPDATE;
\set VERBOSITY default
ROLLBACK;
-- messages name the type of the values
CREATE TABLE t (id int PRIMARY KEY, dropped appendable_bytea, log appendable_text);
ALTER TABLE t DROP dropped;
CREATE TABLE j (chat appendable_json);
CREATE TABLE several (log appendable_text, data appendable_bytea);
INSERT INTO t SELECT 1, repeat('t', 30000);
INSERT INTO j SELECT to_json(repeat('t', 30000));
INSERT INTO several SELECT repeat('t', 30000), convert_to(repeat('t', 30000), 'UTF8');
CREATE FUNCTION without_chunks(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; BEGIN
	FOR r IN SELECT relname FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r' LOOP
		EXECUTE format('TRUNCATE appendable_store.%I', r.relname);
	END LOOP;
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT without_chunks('SELECT md5(log) FROM t');
SELECT without_chunks('SELECT chat::text FROM j');
SELECT without_chunks('SELECT md5(log) FROM several');
SELECT without_chunks('SELECT md5(data) FROM o');
DROP FUNCTION without_chunks;
DROP TABLE t, j, several;
DROP TABLE o, beside;
SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace;
DROP SCHEMA elsewhere;
DROP FUNCTION on_store;

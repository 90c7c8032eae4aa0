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
SELECT command, on_store(command) FROM unnest(ARRAY['ALTER TABLE %s RENAME TO other', 'ALTER TABLE %s SET SCHEMA elsewhere',
	'ALTER TABLE %s ADD COLUMN x int', 'ALTER TABLE %s DROP COLUMN prev', 'ALTER TABLE %s RENAME COLUMN prev TO x',
	'ALTER TABLE %s ALTER data SET STORAGE external',
	'ALTER INDEX %s_index RENAME TO other', 'DROP INDEX %s_index', 'DROP TABLE %s']) command;
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
-- what changes nothing of that may be done
CREATE ROLE ab_keeper;
ALTER TYPE appendable_bytea OWNER TO ab_keeper;
ALTER SCHEMA appendable_store OWNER TO ab_keeper;
REASSIGN OWNED BY ab_keeper TO CURRENT_USER;
GRANT USAGE ON TYPE appendable_bytea TO ab_keeper;
SELECT command, on_store(command) FROM unnest(ARRAY['ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.1)', 'REINDEX TABLE %s'
	]) command;
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
DROP SCHEMA elsewhere;
DROP FUNCTION on_store;

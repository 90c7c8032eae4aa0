-- compaction: values in full, compressed chunks that are read, changed and appended to as others
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
RESET client_min_messages;
-- values that compaction finds uncompressed
SET appendable_bytea.compress_new = off;
-- what compresses and what does not
CREATE FUNCTION log_line(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT format(E'%s worker-%s INFO step %s finished in %s ms, status=ok\n', n, n % 7, n, n * 7919 % 1000) $$;
CREATE FUNCTION noise(seed int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(string_agg(sha512(format('%s %s', seed, i)::bytea), '' ORDER BY i), 1, n) FROM generate_series(0, n / 64) i $$;
CREATE TABLE c (id int PRIMARY KEY, log appendable_text, data appendable_bytea, n int DEFAULT 0);
CREATE TABLE model (id int PRIMARY KEY, log text, data bytea);
CREATE FUNCTION both_tables(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'UPDATE c SET ' || command;
	EXECUTE 'UPDATE model SET ' || command;
END $$;
-- slices everywhere, and everything that reads
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s at %s', id, o) FROM c JOIN model m USING (id), generate_series(-5, 330000, 16411) o
	WHERE substr(c.log, o, 50) IS DISTINCT FROM substr(m.log, o, 50) OR substr(c.data, o, 50) IS DISTINCT FROM substr(m.data, o, 50)
		OR substr(c.data, o, 20000) IS DISTINCT FROM substr(m.data, o, 20000)
	UNION ALL SELECT format('%s', id) FROM c FULL JOIN model m USING (id)
	WHERE c.log IS DISTINCT FROM m.log::appendable_text OR md5(c.log) IS DISTINCT FROM md5(m.log) OR c.log::text IS DISTINCT FROM m.log OR length(c.log) IS DISTINCT FROM length(m.log)
		OR right(c.log, 500) IS DISTINCT FROM right(m.log, 500) OR c.data::bytea IS DISTINCT FROM m.data OR sha256(c.data) IS DISTINCT FROM sha256(m.data)
		OR position('step 1999 ' IN c.log) IS DISTINCT FROM position('step 1999 ' IN m.log)
	UNION ALL SELECT problem FROM appendable_bytea_check('c') $$;
INSERT INTO c SELECT i, '', '' FROM generate_series(1, 4) i;
INSERT INTO model SELECT i, '', '' FROM generate_series(1, 4) i;
DO $$ BEGIN
	FOR i IN 1..30 LOOP
		PERFORM both_tables(format('log = log || (SELECT string_agg(log_line(i + id), '''') FROM generate_series(%s, %s) i) WHERE id < 4', i * 100, i * 100 + 99));
		PERFORM both_tables(format('data = data || noise(%s, 1800) WHERE id < 3', i));
	END LOOP;
	PERFORM both_tables('data = data || decode(repeat(''00'', 300000), ''hex'') || noise(7, 9000) WHERE id = 3');
END $$;
SELECT id, log IS NULL AS none, length(log) AS log, length(data) AS data FROM c ORDER BY id;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'a trigger fires'; RETURN NEW; END $$;
CREATE TRIGGER tell BEFORE UPDATE ON c FOR EACH ROW EXECUTE FUNCTION tell();
ALTER TABLE c ENABLE ALWAYS TRIGGER tell;
SELECT compressed_share FROM appendable_bytea_stats('c');
CALL appendable_compact('c') \gset
SELECT :rows_compacted AS rows, :rows_skipped AS skipped, :chunks_after < :chunks_before / 4 AS fewer, :bytes_after < :bytes_before * 0.6 AS smaller;
SELECT compressed_share > 0.3 AS some, compressed_share < 1 AS not_all FROM appendable_bytea_stats('c');
SELECT * FROM differences();
ALTER TABLE c DISABLE TRIGGER tell;
-- full chunks, and so full pages
SELECT store AS "STORE" FROM appendable_bytea_stats('c') \gset
VACUUM FULL :STORE;
SELECT pg_relation_size(:'STORE') < 1.2 * sum(pg_column_size(data)) AS full FROM :STORE;
-- nothing to gain
CALL appendable_compact('c');
-- where a compressed chunk is longer than a page: slices read no other
SELECT max(length(data)) > 3 * 8192 AS longest FROM :STORE;
-- changes of all kinds, of the first, the middle and the last of a compressed chunk
SELECT both_tables('data = data || noise(3, 10), log = log || ''tail''');
SELECT * FROM differences();
SELECT both_tables('log = log || repeat(''more'', 5000), data = data || noise(3, 10000) WHERE id < 4');
SELECT * FROM differences();
SELECT both_tables('data = overlay(data PLACING ''\x0102'' FROM 100001), log = overlay(log PLACING ''written'' FROM 30000)');
SELECT * FROM differences();
SELECT both_tables('data = set_byte(data, 0, 9), log = overlay(log PLACING ''first'' FROM 1)');
SELECT * FROM differences();
SELECT both_tables('data = overlay(data PLACING noise(9, 100000) FROM 30001) WHERE id = 3');
SELECT * FROM differences();
SELECT both_tables('data = overlay(data PLACING ''longer'' FROM 40000 FOR 1), log = overlay(log PLACING '''' FROM 20000 FOR 7) WHERE id <> 2');
SELECT * FROM differences();
SELECT both_tables('data = substr(data, 1, 200000), log = left(log, 50000)');
SELECT * FROM differences();
SELECT both_tables('data = data || noise(4, 500), log = log || ''end''');
VACUUM :STORE;
SELECT * FROM differences();
CALL appendable_compact('c') \gset
SELECT :rows_compacted AS rows;
SELECT * FROM differences();
-- in a transaction that is rolled back, and one that is not
BEGIN;
SELECT both_tables('log = log || repeat(''and more'', 10000)');
CALL appendable_compact('c') \gset
SELECT :rows_compacted AS rows;
SELECT * FROM differences();
SAVEPOINT s;
SELECT both_tables('log = log || repeat(''and more'', 20000)');
CALL appendable_compact('c') \gset
ROLLBACK TO s;
SELECT * FROM differences();
SELECT both_tables('log = log || ''x''');
ROLLBACK;
SELECT * FROM differences();
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT both_tables('log = log || repeat(''and more'', 10000)');
CALL appendable_compact('c') \gset
COMMIT;
SELECT * FROM differences();
-- rewrites and deletions take them along
ALTER TABLE c ALTER n TYPE bigint;
VACUUM FULL c;
VACUUM FULL :STORE;
SELECT * FROM differences();
ALTER TABLE c SET UNLOGGED;
ALTER TABLE c SET LOGGED;
SELECT * FROM differences();
CREATE TABLE copied AS SELECT * FROM c;
SELECT count(*) AS same FROM copied JOIN c USING (id) WHERE copied.log = c.log AND copied.data = c.data;
-- rows that a condition names; the first column alone
CALL appendable_compact('copied', 'id = 3 -- one of them
') \gset
SELECT :rows_compacted AS rows;
CALL appendable_compact('copied', 'false') \gset
SELECT :rows_compacted AS rows;
CALL appendable_compact('copied', 'no_such_column');
-- indexes get entries for the new row version
CREATE UNIQUE INDEX ON copied (sha256(data));
CREATE INDEX ON copied USING hash (log);
CREATE INDEX ON copied USING brin ((length(log)));
CALL appendable_compact('copied') \gset
SELECT :rows_compacted AS rows;
SET enable_seqscan = off;
SELECT id FROM copied WHERE sha256(data) = (SELECT sha256(data) FROM model WHERE id = 1);
SELECT id FROM copied WHERE log = (SELECT log FROM model WHERE id = 2)::appendable_text ORDER BY id;
RESET enable_seqscan;
-- what is prepared is locked
BEGIN;
UPDATE copied SET data = data || noise(5, 100000), log = log || 'x' WHERE id = 1;
PREPARE TRANSACTION 'compact';
CALL appendable_compact('copied') \gset
SELECT :rows_compacted AS rows;
UPDATE copied SET log = log || repeat('y', 300000) WHERE id = 2;
COMMIT PREPARED 'compact';
BEGIN;
CALL appendable_compact('copied') \gset
SELECT :rows_compacted AS rows;
PREPARE TRANSACTION 'compact';
SELECT problem FROM appendable_bytea_check('copied');
COMMIT PREPARED 'compact';
SELECT problem FROM appendable_bytea_check('copied');
DELETE FROM copied WHERE id = 2;
SELECT problem FROM appendable_bytea_check('copied');
DROP TABLE copied;
-- partitions, inheritance, temporary tables, tables that are no tables
CREATE TABLE parts (id int, log appendable_text) PARTITION BY LIST (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES IN (2) PARTITION BY LIST (id);
CREATE TABLE parts21 PARTITION OF parts2 DEFAULT;
INSERT INTO parts SELECT i, repeat('partition', 5000) FROM generate_series(1, 2) i;
CALL appendable_compact('parts', 'id > 0') \gset
SELECT :rows_compacted AS rows;
SELECT id, log = repeat('partition', 5000)::appendable_text AS same FROM parts ORDER BY id;
DROP TABLE parts;
CREATE TEMP TABLE temporary (log appendable_text);
INSERT INTO temporary VALUES (repeat('t', 100000));
CALL appendable_compact('temporary');
CALL appendable_compact('model');
CREATE VIEW seen AS SELECT * FROM c;
CALL appendable_compact('seen');
CALL appendable_compact('c_pkey');
DROP VIEW seen;
CALL appendable_compact(0);
CALL appendable_compact(NULL);
BEGIN READ ONLY;
CALL appendable_compact('c');
ROLLBACK;
-- only who may maintain a table
CREATE ROLE ab_compacts;
GRANT ALL ON model TO ab_compacts;
SET ROLE ab_compacts;
CALL appendable_compact('c');
CREATE TEMP TABLE own (log appendable_text);
CALL appendable_compact('own') \gset
RESET ROLE;
DROP TABLE own;
DROP OWNED BY ab_compacts;
DROP ROLE ab_compacts;
-- a deferred check takes a row version that was replaced for one that is checked elsewhere
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int, fk int REFERENCES parent DEFERRABLE INITIALLY DEFERRED, u int UNIQUE DEFERRABLE INITIALLY DEFERRED, log appendable_text);
BEGIN;
INSERT INTO child VALUES (1, 999, 1, repeat('x', 100000));
CALL appendable_compact('child');
ROLLBACK;
BEGIN;
INSERT INTO child VALUES (1, NULL, 5, repeat('x', 100000)), (2, NULL, 5, repeat('x', 100000));
CALL appendable_compact('child');
ROLLBACK;
BEGIN;
INSERT INTO child VALUES (1, NULL, 5, repeat('x', 100000));
SET CONSTRAINTS ALL IMMEDIATE;
CALL appendable_compact('child') \gset
SELECT :rows_compacted AS rows;
COMMIT;
-- what is more than a condition
CALL appendable_compact('child', 'false) UNION ALL SELECT NULL::tid WHERE (true');
CALL appendable_compact('child', 'true); SELECT 1 WHERE (true');
CALL appendable_compact('child', 'false) UNION ALL SELECT ''(9999,1)''::tid WHERE (true');
DROP TABLE child, parent;
-- expressions of indexes run as the table's owner
CREATE ROLE ab_owner;
CREATE TABLE mine (log appendable_text);
CREATE FUNCTION who(appendable_text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE WARNING 'run as %', CASE current_user WHEN session_user THEN 'the caller' ELSE current_user END; RETURN 'x'; END $$;
INSERT INTO mine VALUES (repeat('m', 50000));
CREATE INDEX ON mine (who(log));
ALTER TABLE mine OWNER TO ab_owner;
CALL appendable_compact('mine') \gset
SELECT :rows_compacted AS rows, current_user = session_user AS still;
DROP TABLE mine;
DROP FUNCTION who;
DROP ROLE ab_owner;
-- by another method, next to chunks that were compressed by this one
SET appendable_bytea.compression = pglz;
SELECT both_tables('log = log || (SELECT string_agg(log_line(i), '''') FROM generate_series(1, 3000) i), data = data || decode(repeat(''00ff'', 30000), ''hex'') WHERE id < 3');
CALL appendable_compact('c') \gset
SELECT :rows_compacted AS rows, :bytes_after < :bytes_before * 0.7 AS smaller;
SELECT bool_or(pg_column_compression(data) = 'pglz') AS pglz FROM :STORE;
SELECT * FROM differences();
SELECT both_tables('data = overlay(data PLACING ''changed'' FROM 250001), log = log || ''and a tail''');
SELECT * FROM differences();
RESET appendable_bytea.compression;
SELECT both_tables('log = log || (SELECT string_agg(log_line(i), '''') FROM generate_series(1, 5000) i) WHERE id = 1');
CALL appendable_compact('c') \gset
SELECT :rows_compacted AS rows;
SELECT * FROM differences();
-- a chunk that was changed
UPDATE c SET log = repeat('damaged', 20000), data = NULL;
CALL appendable_compact('c') \gset
UPDATE :STORE SET crc = crc + 1 WHERE off = 0;
VACUUM :STORE;
\set VERBOSITY sqlstate
SELECT md5(log) FROM c WHERE id = 1;
\set VERBOSITY default
SELECT row_id IS NOT NULL AS row, problem FROM appendable_bytea_check('c');
UPDATE c SET log = 'new';
SELECT problem FROM appendable_bytea_check('c');
DROP TABLE c, model;

-- shrinking: the last pages of table and store become empty, and vacuum cuts them off
CREATE TABLE s (id int PRIMARY KEY, pad text, log appendable_text, data appendable_bytea) WITH (autovacuum_enabled = off);
CREATE INDEX ON s (pad);
INSERT INTO s SELECT i, repeat('p', 300) || i, '', noise(i, 20000) FROM generate_series(1, 300) i;
UPDATE s SET log = log || (SELECT string_agg(log_line(n), '') FROM generate_series(1, 100) n);
UPDATE s SET log = log || (SELECT string_agg(log_line(n), '') FROM generate_series(101, 200) n);
CREATE TRIGGER tell BEFORE UPDATE ON s FOR EACH ROW EXECUTE FUNCTION tell();
DELETE FROM s WHERE id % 10 < 7 AND id < 290;
CREATE TABLE kept AS SELECT id, pad, log::text, data::bytea FROM s;
CREATE FUNCTION other_values() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s', id) FROM s FULL JOIN kept k USING (id)
	WHERE s.pad IS DISTINCT FROM k.pad OR s.log::text IS DISTINCT FROM k.log OR s.data::bytea IS DISTINCT FROM k.data
	UNION ALL SELECT problem FROM appendable_bytea_check('s') $$;
SELECT store AS "STORE" FROM appendable_bytea_stats('s') \gset
-- without free space there is nothing to do
CREATE TABLE full_table (id int, data appendable_bytea);
INSERT INTO full_table SELECT i, noise(i, 20000) FROM generate_series(1, 10) i;
CALL appendable_shrink('full_table') \gset
SELECT :rows_compacted AS compacted, :rows_moved AS moved, :pages_after = :pages_before AS same;
VACUUM s;
SELECT pg_relation_size('s') AS table_before, pg_relation_size(:'STORE') AS store_before \gset
-- rolled back; a cursor sees what it saw
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE before CURSOR FOR SELECT log, data FROM s ORDER BY id DESC;
CALL appendable_shrink('s') \gset
SELECT :rows_compacted > 20 AS compacted, :rows_moved > 20 AS moved, :rows_skipped AS skipped, :pages_after < :pages_before * 0.6 AS fewer;
FETCH 1 FROM before \gset
SELECT length(:'log') = length(k.log) AS log, :'data'::bytea = k.data AS data FROM kept k WHERE id = 300;
SELECT * FROM other_values();
ROLLBACK;
SELECT * FROM other_values();
VACUUM s;
CREATE EXTENSION pg_freespacemap;
SELECT max(avail) FILTER (WHERE blkno > (SELECT max(blkno) - 10 FROM pg_freespace(:'STORE'))) > 0 AS last FROM pg_freespace(:'STORE');
-- canceled; the pages that were closed to new rows are found again
SET statement_timeout = '100ms';
\set VERBOSITY terse
CALL appendable_shrink('s', 'pg_sleep(1) IS NOT NULL');
\set VERBOSITY default
RESET statement_timeout;
SELECT max(avail) FILTER (WHERE blkno < 10) > 0 AS first, max(avail) FILTER (WHERE blkno > (SELECT max(blkno) - 10 FROM pg_freespace(:'STORE'))) > 0 AS last FROM pg_freespace(:'STORE');
CALL appendable_shrink('s') \gset
SELECT :rows_compacted > 20 AS compacted, :rows_moved > 20 AS moved, :rows_skipped AS skipped, :pages_after < :pages_before * 0.6 AS fewer;
VACUUM s;
SELECT pg_relation_size('s') < :table_before * 0.6 AS table, pg_relation_size(:'STORE') < :store_before * 0.6 AS store;
SELECT * FROM other_values();
SET enable_seqscan = off;
SELECT count(*) FROM s JOIN kept k ON s.pad = k.pad;
RESET enable_seqscan;
CALL appendable_shrink(NULL);
CALL appendable_shrink('kept');
CREATE VIEW over_s AS SELECT * FROM s;
CALL appendable_shrink('over_s');
START TRANSACTION READ ONLY;
CALL appendable_shrink('s');
ROLLBACK;
DROP TABLE s, kept, full_table CASCADE;
DROP EXTENSION pg_freespacemap;
DROP FUNCTION log_line, noise, both_tables, differences, other_values, tell;

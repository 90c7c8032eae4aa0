-- appendable_append: many appends to many rows in one statement
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
RESET client_min_messages;
CREATE TABLE logs (id int PRIMARY KEY, name text COLLATE "C" UNIQUE, log appendable_text, data appendable_bytea NOT NULL DEFAULT '', n int DEFAULT 0) WITH (fillfactor = 80);
INSERT INTO logs (id, name, log) SELECT i, 'log ' || i, CASE WHEN i <> 3 THEN '' END FROM generate_series(1, 5) i;
-- pieces in the order in which they are given, rows in the order of their keys; a value that is null begins; a row that is not there
SELECT * FROM appendable_append('logs', ARRAY[4, 1, 4, 9, 3, 1], ARRAY['d', 'a', 'dd', 'nobody', 'first', 'aa']);
SELECT * FROM appendable_append('logs', ARRAY['log 2', 'log 1', 'log 2'], ARRAY['\x01', '\x02', '\x03']::bytea[], 'data', 'name');
SELECT id, log, data FROM logs ORDER BY id;
SELECT * FROM appendable_append('logs', '{}'::int[], '{}'::text[]);
-- keys of another type, and many at once, compared with a model
SELECT * FROM appendable_append('logs', ARRAY[5, 4]::bigint[], ARRAY['e', 'd']);
SELECT * FROM appendable_append('logs', ARRAY[5000000000], ARRAY['e']);
CREATE TABLE model AS SELECT id, coalesce(log, '')::text AS log FROM logs;
DO $$
DECLARE
	keys int[];
	chunks text[];
BEGIN
	FOR i IN 1..40 LOOP
		SELECT array_agg((j * 7 + i) % 5 + 1 ORDER BY j), array_agg(repeat(chr(65 + j % 26), i * j % 900) ORDER BY j) INTO keys, chunks FROM generate_series(1, 30) j;
		PERFORM appendable_append('logs', keys, chunks);
		UPDATE model SET log = log || added FROM (SELECT k, string_agg(c, '' ORDER BY at) AS added FROM unnest(keys, chunks) WITH ORDINALITY u(k, c, at) GROUP BY k) a WHERE k = id;
	END LOOP;
END $$;
SELECT count(*) AS same FROM logs JOIN model USING (id) WHERE logs.log = model.log AND octet_length(logs.log) > 50000;
SELECT problem FROM appendable_bytea_check('logs');
-- a key finds the rows that WHERE finds: none is rounded or truncated to find another one
SELECT * FROM appendable_append('logs', ARRAY[1.4, 1.6], ARRAY['x', 'y']);
CREATE TABLE days (day date PRIMARY KEY, log appendable_text);
INSERT INTO days VALUES ('2026-01-01', ''), ('2026-01-02', '');
SELECT * FROM appendable_append('days', ARRAY['2026-01-01 12:00', '2026-01-02', '2026-01-01']::timestamp[], ARRAY['noon', 'second', 'first']);
SELECT * FROM days ORDER BY day;
CREATE TABLE measured (x numeric PRIMARY KEY, log appendable_text);
INSERT INTO measured VALUES (1, ''), (1.5, '');
SELECT * FROM appendable_append('measured', ARRAY[1, 1, 2], ARRAY['a', 'b', 'c']);
SELECT * FROM appendable_append('measured', ARRAY[1.5, 1.0, 1.50], ARRAY['d', 'e', 'f']);
SELECT * FROM measured ORDER BY x;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN short AS varchar(10);
CREATE TABLE words (word short PRIMARY KEY, m mood UNIQUE, c char(3) UNIQUE, log appendable_text);
INSERT INTO words VALUES ('a', 'happy', 'x', '');
SELECT * FROM appendable_append('words', ARRAY['a', 'b']::text[], ARRAY['1', '2']);
SELECT * FROM appendable_append('words', ARRAY['a', 'b']::short[], ARRAY['3', '4']);
SELECT * FROM appendable_append('words', ARRAY['sad', 'happy']::mood[], ARRAY['5', '6'], 'log', 'm');
SELECT * FROM appendable_append('words', ARRAY['x', 'x  ']::char(3)[], ARRAY['7', '8'], 'log', 'c');
SELECT * FROM appendable_append('words', ARRAY['x']::text[], ARRAY['9'], 'log', 'c');
SELECT log FROM words;
-- keys that are equal by the column's type are of one row, whose pieces keep their order
SET client_min_messages = warning;
CREATE EXTENSION citext;
RESET client_min_messages;
CREATE TABLE names (name citext PRIMARY KEY, log appendable_text);
INSERT INTO names VALUES ('b', '');
SELECT * FROM appendable_append('names', ARRAY['b', 'B', 'b', 'B']::citext[], ARRAY['1', '2', '3', '4']);
SELECT * FROM appendable_append('names', ARRAY['b', 'B']::text[], ARRAY['5', '6']);
SELECT * FROM names;
DROP TABLE days, measured, words, names;
DROP DOMAIN short;
DROP TYPE mood;
DROP EXTENSION citext;
-- HOT
SELECT pg_stat_force_next_flush();
SELECT hot_ratio > 0.8 AS hot FROM appendable_bytea_stats('logs');
-- triggers, generated columns, transactions
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	NEW.n := OLD.n + 1;
	IF NEW.id = 5 THEN RETURN NULL; END IF;
	RAISE NOTICE '% % of row %', TG_WHEN, TG_OP, NEW.id;
	RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE UPDATE OF log ON logs FOR EACH ROW EXECUTE FUNCTION tell();
ALTER TABLE logs ADD last text GENERATED ALWAYS AS (right(log, 3)) STORED;
BEGIN;
SELECT key, length - length(model.log) AS more FROM appendable_append('logs', ARRAY[5, 2, 2], ARRAY['x', 'yy', 'zz']) LEFT JOIN model ON id = key AND length IS NOT NULL;
SELECT id, n, last FROM logs WHERE n > 0;
ROLLBACK;
SELECT id, n FROM logs WHERE n > 0;
DROP TRIGGER before ON logs;
-- what it needs
SELECT * FROM appendable_append('logs', ARRAY[1, 2], ARRAY['x']);
SELECT * FROM appendable_append('logs', ARRAY[1, NULL], ARRAY['x', 'y']);
SELECT * FROM appendable_append('logs', ARRAY[1, 2], ARRAY['x', NULL]);
SELECT * FROM appendable_append('logs', NULL::int[], ARRAY['x']);
SELECT * FROM appendable_append(NULL, ARRAY[1], ARRAY['x']);
SELECT * FROM appendable_append('logs', ARRAY[1], ARRAY['x'], 'data');
SELECT * FROM appendable_append('logs', ARRAY[1], ARRAY['x'], 'nothing');
SELECT * FROM appendable_append('logs', ARRAY[1], ARRAY['x'], 'log', 'n');
SELECT * FROM appendable_append('model', ARRAY[1], ARRAY['x']);
SELECT * FROM appendable_append('logs_pkey', ARRAY[1], ARRAY['x']);
SELECT * FROM appendable_append(0, ARRAY[1], ARRAY['x']);
SELECT * FROM appendable_append('logs', ARRAY['(1,1)'::point], ARRAY['x']);
ALTER TABLE logs ADD second appendable_text;
SELECT * FROM appendable_append('logs', ARRAY[1], ARRAY['x']);
SELECT key FROM appendable_append('logs', ARRAY[1], ARRAY['x'], 'second');
BEGIN READ ONLY;
SELECT * FROM appendable_append('logs', ARRAY[1], ARRAY['x'], 'second');
ROLLBACK;
-- its plan follows what becomes of the table
ALTER TABLE logs RENAME TO renamed;
CREATE TABLE logs (id bigint PRIMARY KEY, log appendable_text);
INSERT INTO logs VALUES (1, 'another'), (5000000000, '');
SELECT * FROM appendable_append('logs', ARRAY[1], ARRAY[' one']);
SELECT * FROM appendable_append('logs', ARRAY[5000000000], ARRAY['far']);
SELECT key, length FROM appendable_append('renamed', ARRAY[1], ARRAY['x'], 'second');
DROP TABLE logs;
-- partitions
CREATE TABLE parts (id int PRIMARY KEY, log appendable_text) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts2 (log appendable_text, id int NOT NULL);
ALTER TABLE parts ATTACH PARTITION parts2 FOR VALUES FROM (10) TO (20);
INSERT INTO parts SELECT i, 'p' FROM generate_series(1, 19, 6) i;
SELECT * FROM appendable_append('parts', ARRAY[19, 1, 13, 5], ARRAY['1', '22', '333', '']);
SELECT tableoid::regclass, id, log FROM parts ORDER BY id;
-- an inherited table has separate keys
CREATE TABLE child () INHERITS (renamed);
INSERT INTO child (id, log) VALUES (1, 'of the child');
SELECT key FROM appendable_append('renamed', ARRAY[1], ARRAY['end'], 'log');
SELECT log FROM child;
DROP TABLE child;
-- privileges: of the column, of the rows
CREATE ROLE ab_appends;
SET ROLE ab_appends;
SELECT * FROM appendable_append('parts', ARRAY[1], ARRAY['x']);
RESET ROLE;
GRANT SELECT ON parts TO ab_appends;
GRANT UPDATE (id) ON parts TO ab_appends;
SET ROLE ab_appends;
SELECT * FROM appendable_append('parts', ARRAY[1], ARRAY['x']);
RESET ROLE;
GRANT UPDATE (log) ON parts TO ab_appends;
CREATE POLICY near ON parts USING (id < 10);
ALTER TABLE parts ENABLE ROW LEVEL SECURITY;
SET ROLE ab_appends;
SELECT * FROM appendable_append('parts', ARRAY[1, 13], ARRAY['x', 'x']);
RESET ROLE;
SELECT * FROM appendable_append('parts', ARRAY[1, 13], ARRAY['x', 'x']);
DROP OWNED BY ab_appends;
DROP ROLE ab_appends;
-- temporary tables keep values whole
CREATE TEMP TABLE temporary (id int PRIMARY KEY, log appendable_text);
INSERT INTO temporary VALUES (1, '');
SELECT * FROM appendable_append('temporary', ARRAY[1, 1], ARRAY[repeat('x', 10000), 'y']);
DROP TABLE temporary, parts, renamed, model;
DROP FUNCTION tell;
-- with the length that a value must have, a repeated call changes nothing, and a row that is not appended to has its length
CREATE TABLE runs (id int PRIMARY KEY, log appendable_text, data appendable_bytea) WITH (fillfactor = 80);
INSERT INTO runs VALUES (1, 'line 1', ''), (2, NULL, NULL), (3, repeat('x', 9000), 'abc');
SELECT * FROM appendable_append('runs', ARRAY[1, 2, 3, 4], ARRAY['a', 'b', 'c', 'd'], 'log', offsets => ARRAY[6, 0, 8999, 0]);
SELECT * FROM appendable_append('runs', ARRAY[1, 2, 3, 4], ARRAY['a', 'b', 'c', 'd'], 'log', offsets => ARRAY[6, 0, 9000, NULL]);
SELECT * FROM appendable_append('runs', ARRAY[3, 2], ARRAY['\x64', '\x65']::bytea[], offsets => ARRAY[3, 1]);
-- pieces of a row, all or none: the second begins where the first ends
SELECT * FROM appendable_append('runs', ARRAY[1, 1, 1], ARRAY['é', '', 'end'], offsets => ARRAY[NULL, 9, 9]);
SELECT * FROM appendable_append('runs', ARRAY[1, 1], ARRAY['one', 'two'], offsets => ARRAY[12, 14]);
SELECT * FROM appendable_append('runs', ARRAY[1, 1], ARRAY['one', 'two'], offsets => ARRAY[NULL, 2]);
SELECT * FROM appendable_append('runs', ARRAY[1, 1], ARRAY['one', 'two'], offsets => ARRAY[12, 15]);
SELECT id, CASE WHEN octet_length(log) < 100 THEN replace(log::text, 'é', '~') END AS log, octet_length(log), data FROM runs ORDER BY id;
SELECT * FROM appendable_append('runs', ARRAY[1, 2], ARRAY['x', 'y'], offsets => ARRAY[1]);
SELECT * FROM appendable_append('runs', ARRAY[1], ARRAY['x'], offsets => ARRAY[-1]);
SELECT * FROM appendable_append('runs', ARRAY[1, 4], ARRAY['x', 'y'], 'log', 'id', NULL, NULL);
-- rows that are not locked, and not there
SELECT * FROM appendable_append('runs', ARRAY[1, 2, 4], ARRAY['x', 'y', 'z'], 'log', offsets => ARRAY[19, 7, 0], skip_locked => true);
SELECT * FROM appendable_append('runs', ARRAY[4, 3], ARRAY['x', 'y'], 'log', skip_locked => true);
-- a trigger that keeps a row from being updated, and one that makes its value null
CREATE FUNCTION stops() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 1 THEN RETURN NULL; END IF; NEW.log := NULL; RETURN NEW; END $$;
CREATE TRIGGER stops BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION stops();
SELECT * FROM appendable_append('runs', ARRAY[1, 2, 3], ARRAY['x', 'y', 'z'], 'log', offsets => ARRAY[19, NULL, 9002], skip_locked => true);
SELECT problem FROM appendable_bytea_check('runs');
DROP TABLE runs;
DROP FUNCTION stops;
-- through views: a row is one of the view, found by a column that is named, and changed with the privileges of the view's owner
CREATE TABLE runs (id int PRIMARY KEY, name text COLLATE "C" UNIQUE, kind text, log appendable_text, data appendable_bytea, closed boolean NOT NULL DEFAULT false) WITH (fillfactor = 80);
INSERT INTO runs SELECT i, 'run ' || i, 'kind ' || i % 2, 'line' || chr(10), '\x00', i = 4 FROM generate_series(1, 5) i;
CREATE VIEW open_runs AS SELECT log AS text, id AS key, name, kind, closed FROM runs WHERE NOT closed WITH CHECK OPTION;
CREATE VIEW seen_runs WITH (security_barrier) AS SELECT key AS n, text AS lines, name FROM open_runs WHERE key <> 5;
SELECT * FROM appendable_append('open_runs', ARRAY[3, 1, 4, 3, 9], ARRAY['a', 'b', 'closed', 'aa', 'missing'], key_column => 'key');
SELECT * FROM appendable_append('seen_runs', ARRAY['run 2', 'run 1', 'run 5'], ARRAY['c', 'd', 'hidden'], 'lines', 'name');
SELECT * FROM appendable_append('seen_runs', ARRAY[1, 1, 2, 4], ARRAY['é', 'f', 'g', 'h'], key_column => 'n', offsets => ARRAY[7, 9, 5, 5], skip_locked => true);
SELECT * FROM appendable_append('open_runs', ARRAY[1, 2]::bigint[], ARRAY['x', 'y'], 'text', 'key', ARRAY[10, 6]);
SELECT id, replace(replace(log::text, chr(10), '/'), 'é', '~') AS log FROM runs ORDER BY id;
-- the value is the row's: read, compacted and appended to again through the view
SELECT n, t.* FROM seen_runs, appendable_tail(lines, 5) t WHERE n = 3;
SELECT key, length FROM appendable_append('seen_runs', ARRAY[3], ARRAY[repeat('compressible ', 4000)], key_column => 'n');
CALL appendable_compact('runs', 'id = 3') \gset
SELECT * FROM appendable_append('seen_runs', ARRAY[3], ARRAY['end'], key_column => 'n', offsets => ARRAY[52008]);
SELECT right(lines, 16) AS last, (SELECT count(*) FROM appendable_bytea_check('runs')) AS problems FROM seen_runs WHERE n = 3;
-- a key of several rows, one that is none, a column that is not there, and a view that cannot be updated
SELECT * FROM appendable_append('open_runs', ARRAY['kind 1'], ARRAY['x'], key_column => 'kind');
SELECT * FROM appendable_append('open_runs', ARRAY['kind 1'], ARRAY['x'], key_column => 'kind', skip_locked => true);
SELECT * FROM appendable_append('open_runs', ARRAY[1], ARRAY['x']);
SELECT * FROM appendable_append('open_runs', ARRAY[1], ARRAY['x'], key_column => 'id');
SELECT * FROM appendable_append('open_runs', ARRAY[true], ARRAY['x'], key_column => 'key');
CREATE VIEW distinct_runs AS SELECT DISTINCT ON (id) id, log FROM runs ORDER BY id;
SELECT * FROM appendable_append('distinct_runs', ARRAY[1], ARRAY['x'], key_column => 'id');
-- unless a trigger updates instead
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE runs SET log = NEW.log || '!' WHERE id = NEW.id RETURNING log INTO NEW.log; RETURN NEW; END $$;
CREATE TRIGGER instead INSTEAD OF UPDATE ON distinct_runs FOR EACH ROW EXECUTE FUNCTION instead();
SELECT * FROM appendable_append('distinct_runs', ARRAY[1, 2], ARRAY['x', 'y'], key_column => 'id', offsets => ARRAY[10, 7]);
SELECT id, right(log, 2) AS last FROM runs WHERE id < 3 ORDER BY id;
-- a role with privileges on the view alone, one of its columns alone, and of a view that has the privileges of its user
CREATE ROLE ab_views;
CREATE VIEW invoked_runs WITH (security_invoker) AS SELECT * FROM runs;
CREATE VIEW both_runs AS SELECT id, log, data FROM runs;
GRANT SELECT ON open_runs, invoked_runs, both_runs TO ab_views;
SET ROLE ab_views;
SELECT * FROM appendable_append('open_runs', ARRAY[1], ARRAY['x'], key_column => 'key');
RESET ROLE;
GRANT UPDATE ON open_runs, invoked_runs TO ab_views;
GRANT UPDATE (data) ON both_runs TO ab_views;
SET ROLE ab_views;
SELECT * FROM appendable_append('open_runs', ARRAY[1, 4], ARRAY['x', 'closed'], key_column => 'key');
SELECT * FROM appendable_append('invoked_runs', ARRAY[1], ARRAY['x'], key_column => 'id');
SELECT * FROM appendable_append('runs', ARRAY[1], ARRAY['x']);
SELECT * FROM appendable_append('both_runs', ARRAY[1], ARRAY['\x01']::bytea[], key_column => 'id');
SELECT * FROM appendable_append('both_runs', ARRAY[1], ARRAY['x'], key_column => 'id');
RESET ROLE;
-- row security of the table is that of the view's owner, too
CREATE ROLE ab_owner;
ALTER VIEW open_runs OWNER TO ab_owner;
GRANT SELECT, UPDATE ON runs TO ab_owner;
CREATE POLICY odd ON runs USING (id % 2 = 1);
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
SET ROLE ab_views;
SELECT * FROM appendable_append('open_runs', ARRAY[1, 2], ARRAY['x', 'y'], key_column => 'key');
RESET ROLE;
REVOKE UPDATE ON runs FROM ab_owner;
SET ROLE ab_views;
SELECT * FROM appendable_append('open_runs', ARRAY[1], ARRAY['x'], key_column => 'key');
RESET ROLE;
DROP VIEW distinct_runs, invoked_runs, both_runs, seen_runs, open_runs;
DROP TABLE runs;
DROP FUNCTION instead;
DROP OWNED BY ab_views, ab_owner;
DROP ROLE ab_views, ab_owner;
-- a view of partitions
CREATE TABLE parts (id int, log appendable_text, PRIMARY KEY (id)) PARTITION BY HASH (id);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT i, 'p' FROM generate_series(1, 6) i;
CREATE VIEW part_logs AS SELECT log, id FROM parts WHERE id < 6;
SELECT * FROM appendable_append('part_logs', ARRAY[5, 6, 1, 5], ARRAY['a', 'b', 'c', 'd'], key_column => 'id');
SELECT string_agg(log, ' ' ORDER BY id) FROM parts;
DROP VIEW part_logs;
DROP TABLE parts;

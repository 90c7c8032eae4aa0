-- appendable_extends() and appendable_only(): values that can only be appended to.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
SET appendable_bytea.chunk_size = 64;
SET appendable_bytea.inline_max = 50;
SET appendable_bytea.tail_max = 30;
CREATE TABLE kept (id int PRIMARY KEY, log appendable_text, data appendable_bytea, note text);
CREATE TABLE states (n int, log appendable_text);

-- every earlier state of a value is a beginning of every later one, and of no changed one
INSERT INTO kept VALUES (1, '', '', ''), (2, NULL, NULL, '');
DO $$
DECLARE old appendable_text; grown appendable_text; n int := 0; wrong int := 0;
BEGIN
	FOR i IN 1 .. 60 LOOP
		SELECT log INTO old FROM kept WHERE id = 1;
		UPDATE kept SET log = log || ('line ' || i || repeat(' x', i % 9) || chr(10)) WHERE id = 1 RETURNING log INTO grown;
		IF NOT appendable_extends(grown, old) THEN RAISE 'append % is not seen', i; END IF;
		IF appendable_extends(old, grown) THEN RAISE 'a shorter value extends'; END IF;
		INSERT INTO states VALUES (i, grown);
	END LOOP;
END $$;
SELECT count(*) FILTER (WHERE appendable_extends(a.log, b.log)) AS extends, count(*) FILTER (WHERE appendable_extends(a.log, b.log) IS DISTINCT FROM (a.n >= b.n)) AS wrong
	FROM states a, states b;
SELECT count(*) AS wrong FROM states s, kept k WHERE k.id = 1 AND NOT appendable_extends(k.log, s.log);
-- one byte changed at any place of the old value, in memory and stored
SELECT count(*) AS places, count(*) FILTER (WHERE appendable_extends(convert_from(set_byte(k.log::text::bytea, i, 33), 'UTF8')::appendable_text, k.log)) AS flat_wrong
	FROM kept k, generate_series(0, octet_length(log) - 1) i WHERE id = 1;
UPDATE kept SET data = log::text::bytea WHERE id = 1;
SELECT count(*) AS places, count(*) FILTER (WHERE appendable_extends(appendable_set_byte(data, i, 33), data)) AS edit_wrong,
		count(*) FILTER (WHERE appendable_extends(data, appendable_set_byte(data, i, 33))) AS other_wrong,
		count(*) FILTER (WHERE NOT appendable_extends(appendable_set_byte(data, i, get_byte(data, i)) || '\x00', data)) AS same_byte_wrong
	FROM kept, generate_series(0, octet_length(data) - 1) i WHERE id = 1;
-- bytes that are moved or left out
SELECT appendable_extends(overlay(data placing '\x' from 10 for 1), data) AS shorter, appendable_extends(overlay(data placing '\x4142' from 10 for 1), data) AS longer,
	appendable_extends(data || data, data) AS doubled, appendable_extends(appendable_truncate(data, 100), data) AS cut, appendable_extends(data, appendable_truncate(data, 100)) AS of_a_part,
	appendable_extends(data, '') AS of_empty, appendable_extends(data, NULL) AS of_null
	FROM kept WHERE id = 1;
-- a value cut and grown again to the length that it had
CREATE TABLE cuts AS SELECT data FROM kept WHERE id = 1;
UPDATE kept SET data = appendable_truncate(data, appendable_length(data) - 40) WHERE id = 1;
UPDATE kept SET data = data || convert_to(repeat('z', 200), 'UTF8') WHERE id = 1;
SELECT appendable_extends(k.data, c.data), appendable_extends(k.data, appendable_truncate(c.data, appendable_length(c.data) - 40)) AS before_cut FROM kept k, cuts c WHERE id = 1;
-- appends that were rolled back share offsets with those that took their place
CREATE TABLE branches (n int, log appendable_text);
INSERT INTO branches VALUES (0, repeat('b', 300));
DO $$
DECLARE before appendable_text; lost text; kept appendable_text;
BEGIN
	SELECT log INTO before FROM branches;
	BEGIN
		UPDATE branches SET log = log || repeat('1', 200) RETURNING log INTO lost;
		RAISE 'back';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	UPDATE branches SET log = log || repeat('2', 300) RETURNING log INTO kept;
	RAISE WARNING 'of the state before: %, of the lost one: %', appendable_extends(kept, before), appendable_extends(kept, lost::appendable_text);
END $$;

-- a large value is not read: its chunks are gone
CREATE TABLE large (id int, log appendable_bytea);
INSERT INTO large VALUES (1, convert_to(repeat('large', 20000), 'UTF8'));
CREATE TRIGGER zz_only BEFORE UPDATE ON large FOR EACH ROW EXECUTE FUNCTION appendable_only();
CREATE FUNCTION chunks_read(of regclass, statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE before bigint; after bigint; store regclass := ('appendable_store.chunks_' || of::oid)::regclass;
BEGIN
	before := pg_stat_get_xact_tuples_fetched(i.indexrelid) FROM pg_index i WHERE indrelid = store;
	EXECUTE statement;
	after := pg_stat_get_xact_tuples_fetched(i.indexrelid) FROM pg_index i WHERE indrelid = store;
	RETURN after - before > 20;
END $$;
SELECT chunks_read('large', 'UPDATE large SET log = log || ''\x0a''') AS append_reads, chunks_read('large', 'SELECT md5(log) FROM large') AS md5_reads;
-- parts at the same places after one that ends elsewhere
SELECT appendable_extends(a, b), appendable_extends(a, appendable_truncate(a, 70000)) AS own_begin
	FROM large, LATERAL (SELECT appendable_write(log, '', 50002, 10000) AS a, appendable_truncate(appendable_write(log, '', 20001, 40001), 50000) AS b) parts;

-- the trigger
CREATE TRIGGER zz_only BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION appendable_only('log');
UPDATE kept SET log = log || 'more', note = 'appended' WHERE id = 1;
UPDATE kept SET log = 'first' WHERE id = 2;
UPDATE kept SET note = 'not of the log', data = 'other' WHERE id = 1;
SELECT * FROM appendable_append('kept', ARRAY[1, 2], ARRAY['a', 'b'], 'log', 'id');
\set VERBOSITY sqlstate
UPDATE kept SET log = 'other' WHERE id = 2;
\set VERBOSITY default
UPDATE kept SET log = NULL WHERE id = 2;
UPDATE kept SET log = left(log, 10) WHERE id = 1;
UPDATE kept SET log = overlay(log::text placing 'X' from 10 for 1) WHERE id = 1;
INSERT INTO kept VALUES (2, 'upsert') ON CONFLICT (id) DO UPDATE SET log = excluded.log;
INSERT INTO kept VALUES (2, 'upsert') ON CONFLICT (id) DO UPDATE SET log = kept.log || excluded.log;
MERGE INTO kept USING (VALUES (2)) v(id) ON kept.id = v.id WHEN MATCHED THEN UPDATE SET log = 'merged';
SELECT id, right(log, 20) AS log, note FROM kept ORDER BY id;
-- a trigger that fires before it cannot evade it, nor one without the column in the list
CREATE FUNCTION overwrite() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.log := 'overwritten'; RETURN NEW; END $$;
CREATE TRIGGER aa BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION overwrite();
UPDATE kept SET note = 'x' WHERE id = 2;
DROP TRIGGER aa ON kept;
-- all columns of the types; wrong triggers
DROP TRIGGER zz_only ON kept;
CREATE TRIGGER zz_only BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION appendable_only();
UPDATE kept SET data = 'third' WHERE id = 1;
DROP TRIGGER zz_only ON kept;
CREATE TRIGGER zz_only BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION appendable_only('note');
UPDATE kept SET note = 'x' WHERE id = 2;
DROP TRIGGER zz_only ON kept;
CREATE TRIGGER zz_only BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION appendable_only('nothing');
UPDATE kept SET note = 'x' WHERE id = 2;
DROP TRIGGER zz_only ON kept;
CREATE TRIGGER zz_only AFTER UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION appendable_only();
UPDATE kept SET note = 'x' WHERE id = 2;
DROP TRIGGER zz_only ON kept;

-- an append that is retried after its answer was lost
UPDATE kept SET log = log || 'once' WHERE id = 2 AND octet_length(log) = 12 RETURNING octet_length(log);
UPDATE kept SET log = log || 'once' WHERE id = 2 AND octet_length(log) = 12 RETURNING octet_length(log);
SELECT right(log, 8) FROM kept WHERE id = 2;
DROP TABLE kept, cuts, states, branches, large;
DROP FUNCTION overwrite;

-- values in pieces: the same chunks may be at other places
SET appendable_bytea.store_differences = on;
CREATE TABLE pieced (new appendable_text, old appendable_text);
INSERT INTO pieced SELECT string_agg(md5(g::text), '') FROM generate_series(1, 20000) g;
UPDATE pieced SET old = new;
UPDATE pieced SET new = left(new::text, 100) || 'abc' || substr(new::text, 101);
SELECT appendable_extends(new, old), appendable_extends(new, new) FROM pieced;
UPDATE pieced SET old = new;
UPDATE pieced SET new = new || 'tail';
UPDATE pieced SET new = new::text || 'more';
SELECT appendable_extends(new, old), appendable_extends(old, new) FROM pieced;
UPDATE pieced SET new = left(new::text, 100000) || substr(new::text, 100002);
SELECT appendable_extends(new, old) FROM pieced;
RESET appendable_bytea.store_differences;
DROP TABLE pieced;

-- retention: bytes are dropped at the front, and positions in the whole value stay the same
CREATE TABLE trimmed (id int PRIMARY KEY, log appendable_text, log_begin bigint NOT NULL DEFAULT 0, data appendable_bytea) WITH (fillfactor = 80);
CREATE TRIGGER zz_only BEFORE UPDATE ON trimmed FOR EACH ROW EXECUTE FUNCTION appendable_only('log', 'log_begin', 'data');
INSERT INTO trimmed SELECT 1, string_agg(lpad(g::text, 9, '0') || chr(10), '' ORDER BY g), 0, 'data' FROM generate_series(0, 49999) g;
-- each step appends, drops or both, in its own transaction; the kept lines are as in a text
CREATE PROCEDURE trim_and_append() LANGUAGE plpgsql AS $$
DECLARE plain text; r record;
BEGIN
	SELECT log INTO plain FROM trimmed;
	FOR i IN 0 .. 199 LOOP
		plain := substr(plain, CASE WHEN i % 3 > 0 THEN 1501 ELSE 1 END) || CASE WHEN i % 3 < 2 THEN repeat('x', i) || chr(10) ELSE '' END;
		UPDATE trimmed SET log = appendable_drop_front(log, CASE WHEN i % 3 > 0 THEN 1500 ELSE 0 END) || CASE WHEN i % 3 < 2 THEN repeat('x', i) || chr(10) ELSE '' END,
			log_begin = log_begin + CASE WHEN i % 3 > 0 THEN 1500 ELSE 0 END;
		SELECT log = plain AS same, octet_length(log) AS n INTO r FROM trimmed;
		IF NOT r.same OR r.n <> octet_length(plain) THEN RAISE 'step %: % bytes, expected %', i, r.n, octet_length(plain); END IF;
		COMMIT;
	END LOOP;
END $$;
CALL trim_and_append();
SELECT log_begin, octet_length(log), left(log, 10) AS first FROM trimmed;
-- neither is the rest of the value read
SELECT chunks_read('trimmed', $$UPDATE trimmed SET log = appendable_drop_front(log, 100) || 'x', log_begin = log_begin + 100$$) AS drop_reads, chunks_read('trimmed', 'SELECT md5(log) FROM trimmed') AS md5_reads;
-- the store gives up what was dropped
UPDATE trimmed SET log = appendable_drop_front(log, octet_length(log) - 1000), log_begin = log_begin + octet_length(log) - 1000;
VACUUM trimmed;
SELECT chunk_bytes < 40000 AS small FROM appendable_bytea_stats('trimmed');
SELECT count(*) FROM appendable_bytea_check('trimmed');
-- compaction stores the rest as one value
CREATE TEMP TABLE rest AS SELECT log::text AS log, appendable_octet_length(log) AS n FROM trimmed;
CALL appendable_compact('trimmed') \gset
SELECT :rows_compacted AS rows, t.log = r.log AS same, appendable_octet_length(t.log) = r.n AS same_length FROM trimmed t, rest r;
UPDATE trimmed SET log = appendable_drop_front(log, 100) || 'y', log_begin = log_begin + 100;
SELECT t.log = substr(r.log, 101) || 'y' AS same FROM trimmed t, rest r;
-- all of it, and again an append
UPDATE trimmed SET log = appendable_drop_front(log, octet_length(log)), log_begin = log_begin + octet_length(log);
UPDATE trimmed SET log = log || 'new';
SELECT log, log_begin FROM trimmed;
-- what is refused
UPDATE trimmed SET log = appendable_drop_front(log, 1);
UPDATE trimmed SET log_begin = log_begin + 1;
UPDATE trimmed SET log = appendable_drop_front(log, 1), log_begin = log_begin + 2;
UPDATE trimmed SET log_begin = log_begin + 4;
UPDATE trimmed SET log_begin = log_begin - 1;
UPDATE trimmed SET log_begin = -9223372036854775808;
UPDATE trimmed SET data = 'other';
SELECT appendable_drop_front(log, 4) FROM trimmed;
SELECT appendable_drop_front(log, -1) FROM trimmed;
SELECT appendable_drop_front('aab'::appendable_text, 2), appendable_drop_front('\x010203'::appendable_bytea, 2), appendable_drop_front(''::appendable_text, 0) = '' AS none;
-- the same through a view; an offset that is kept, and one that is not
CREATE VIEW seen AS SELECT id AS key, log AS text, log_begin AS start FROM trimmed;
UPDATE seen SET text = text || E'\nnext' WHERE octet_length(text) = 3 RETURNING octet_length(text);
UPDATE seen SET text = text || E'\nnext' WHERE octet_length(text) = 3 RETURNING octet_length(text);
UPDATE seen SET text = 'other';
UPDATE seen SET text = appendable_drop_front(text, 4), start = start + 4;
SELECT start, t.* FROM seen, appendable_tail(text, start + 1, dropped => start) t;
SELECT t.* FROM seen, appendable_tail(text, start - 1, dropped => start) t;
SELECT t.* FROM seen, appendable_tail(text, start + 5, dropped => start) t;
-- offsets count the dropped bytes in all functions; -1 is from the end
SELECT l.* FROM seen, appendable_lines(text || E'\nthird', start, dropped => start) l;
SELECT l.* FROM seen, appendable_lines(text, start - 1, dropped => start) l;
SELECT t.* FROM seen, appendable_tail(text, -2, dropped => start) t;
SELECT t.* FROM seen, appendable_tail(text || E'\nthird', start, 1, true, start) t;
SELECT n, appendable_line_offset(text || E'\nthird\n', start + 6, n, start) - start AS at FROM seen, unnest(ARRAY[-9, -2, -1, 0, 1, 2]) n ORDER BY n;
SELECT appendable_line_offset(text, 3, -1, start) FROM seen;
SELECT appendable_tail('abc'::appendable_bytea, 0, dropped => -1);
SELECT appendable_tail('abc'::appendable_bytea, 9223372036854775802, dropped => 9223372036854775800), appendable_tail('abc'::appendable_bytea, 9223372036854775807, dropped => 1);
SELECT appendable_tail('abc'::appendable_bytea, 9223372036854775802, dropped => 9223372036854775800);
SELECT (appendable_tail(repeat('é', 3)::appendable_text, 12, dropped => 10)).next_offset, (appendable_lines(repeat('é', 3)::appendable_text, 14, dropped => 10)).next_offset;
SELECT appendable_tail('abc'::appendable_bytea, 1, dropped => NULL) IS NULL AS "null";
-- functions of values do not count them
SELECT substr(text, 1, 2) AS first, position('x' IN text) AS at FROM seen;
DROP VIEW seen;
DROP TRIGGER zz_only ON trimmed;
CREATE TRIGGER zz_only BEFORE UPDATE ON trimmed FOR EACH ROW EXECUTE FUNCTION appendable_only('log_begin', 'log');
UPDATE trimmed SET log = log || 'x';
DROP TABLE trimmed;
DROP PROCEDURE trim_and_append;
DROP FUNCTION chunks_read;

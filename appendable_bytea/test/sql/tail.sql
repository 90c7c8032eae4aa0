-- appendable_tail(): bytes after an offset, complete characters or lines, and
-- the offset to continue from; appendable_notify(): notifications of appends.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
SET appendable_bytea.chunk_size = 64;
SET appendable_bytea.inline_max = 50;
SET appendable_bytea.tail_max = 30;
CREATE TABLE followed (id int PRIMARY KEY, data appendable_bytea, log appendable_text);
INSERT INTO followed VALUES (1, '', ''), (2, NULL, NULL);
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		UPDATE followed SET log = log || ('line ' || i || repeat(' x', i % 9) || chr(10)),
			data = data || convert_to('line ' || i || repeat(' x', i % 9) || chr(10), 'UTF8') WHERE id = 1;
	END LOOP;
END $$;

-- from the beginning to the end, however it is cut
CREATE FUNCTION followed_in_pieces(max_bytes int, lines bool) RETURNS TABLE (pieces bigint, text_is_whole bool, bytes_are_whole bool, all_lines bool)
LANGUAGE plpgsql AS $$
DECLARE
	t record; b record; o bigint := 0; got text := ''; bytes bytea := ''; n bigint := 0; ends bool := true;
BEGIN
	LOOP
		SELECT x.* INTO t FROM followed, appendable_tail(log, o, max_bytes, lines) x WHERE id = 1;
		SELECT x.* INTO b FROM followed, appendable_tail(followed.data, o, max_bytes, lines) x WHERE id = 1;
		IF convert_to(t.data, 'UTF8') <> b.data OR t.next_offset <> b.next_offset THEN RAISE 'text and bytes differ at %', o; END IF;
		IF t.next_offset <> o + octet_length(t.data) THEN RAISE 'wrong offset'; END IF;
		EXIT WHEN t.next_offset = o;
		ends := ends AND right(t.data, 1) = chr(10);
		got := got || t.data; bytes := bytes || b.data; o := t.next_offset; n := n + 1;
	END LOOP;
	RETURN QUERY SELECT n, got = log::text, bytes = followed.data::bytea, ends FROM followed WHERE id = 1;
END $$;
SELECT m, lines, f.* FROM unnest(ARRAY[1, 5, 63, 64, 65, 200, 100000]) m, unnest(ARRAY[false, true]) lines, followed_in_pieces(m, lines) f
	WHERE NOT (m = 1 AND NOT lines);

-- at the end, behind it, from the end, with a line that has not ended
SELECT octet_length(log) AS total FROM followed WHERE id = 1 \gset
SELECT t.*, next_offset = :total AS at_end FROM followed, appendable_tail(log, :total) t WHERE id = 1;
SELECT t.* FROM followed, appendable_tail(log, :total + 1) t WHERE id = 1;
SELECT t.data FROM followed, appendable_tail(log, -20) t WHERE id = 1;
SELECT t.data FROM followed, appendable_tail(log, -30, whole_lines => true) t WHERE id = 1;
SELECT t.next_offset = :total AS all_of_it FROM followed, appendable_tail(log, -9223372036854775808) t WHERE id = 1;
UPDATE followed SET log = log || 'no end' || repeat('.', 200) WHERE id = 1;
SELECT t.data, t.next_offset - :total AS more FROM followed, appendable_tail(log, :total, whole_lines => true) t WHERE id = 1;
SELECT t.data, t.next_offset - :total AS more FROM followed, appendable_tail(log, :total, 100, true) t WHERE id = 1;
SELECT t.data, t.next_offset - :total AS more FROM followed, appendable_tail(log, :total, 10) t WHERE id = 1;
UPDATE followed SET log = log || E'\nnext' WHERE id = 1;
SELECT t.data, t.next_offset - :total AS more FROM followed, appendable_tail(log, :total, 10, true) t WHERE id = 1;
-- from the end on in whole lines: a line that has not ended comes from its first byte on, once it ends
SELECT t.data, octet_length(log) - t.next_offset AS before_end FROM followed, appendable_tail(log, -3, whole_lines => true) t WHERE id = 1;
CREATE TABLE unfinished (log appendable_text, data appendable_bytea);
INSERT INTO unfinished VALUES ('abc', 'abc'), (E'a\nbc', E'a\nbc'), (E'a\n' || repeat('€', 70000), convert_to(E'a\n' || repeat('€', 70000), 'UTF8')), (E'a\nbc\n', E'a\nbc\n');
SELECT n, t.data, t.next_offset, b.next_offset = t.next_offset AS same, l.lines, l.md5
	FROM unfinished u, unnest(ARRAY[-1, -2, -100, -65537]) n, appendable_tail(log, n, whole_lines => true) t, appendable_tail(u.data, n, whole_lines => true) b,
	LATERAL (SELECT count(*) AS lines, left(md5(string_agg(line, '|' ORDER BY l.next_offset)), 8) AS md5 FROM appendable_lines(log, n) l) l
	ORDER BY octet_length(log), t.next_offset, n;
DROP TABLE unfinished;

-- nulls, and arguments that are none
SELECT t.* FROM followed, appendable_tail(log, 0) t WHERE id = 2;
SELECT t.* FROM followed, appendable_tail(log, NULL) t WHERE id = 1;
SELECT t.* FROM followed, appendable_tail(log, 0, 0) t WHERE id = 1;
SELECT t.* FROM followed, appendable_tail(data, 0, -1) t WHERE id = 1;
SELECT t.* FROM appendable_tail('abc'::text::appendable_text, 1) t;

-- line by line: all of it, also lines longer than one read, and after an offset
CREATE TABLE events (id int PRIMARY KEY, log appendable_text, plain text);
INSERT INTO events VALUES (1, '', ''), (2, '', ''), (3, 'one', 'one'), (4, E'\n', E'\n'), (5, NULL, NULL), (6, E'\n\nx\n', E'\n\nx\n');
DO $$
DECLARE
	chunk text;
BEGIN
	FOR i IN 1 .. 40 LOOP
		chunk := repeat(i || ' äß€', CASE WHEN i % 10 = 3 THEN 20000 ELSE i % 7 END) || CASE WHEN i % 3 > 0 THEN E'\n' ELSE '' END;
		UPDATE events SET log = log || chunk, plain = plain || chunk WHERE id = 1;
		UPDATE events SET log = log || ('{"n": ' || i || ', "what": "event"}' || chr(10)) WHERE id = 2;
	END LOOP;
END $$;
SELECT id, count(l.line), max(l.next_offset) = octet_length(log) AS at_end,
	array_agg(l.line ORDER BY l.ordinality) IS NOT DISTINCT FROM
		CASE WHEN plain LIKE E'%\n' THEN trim_array(string_to_array(plain, E'\n'), 1) ELSE string_to_array(plain, E'\n') END AS same
	FROM events, appendable_lines(log) WITH ORDINALITY l WHERE id <> 2 GROUP BY id ORDER BY id;
SELECT count(*), sum((line::jsonb ->> 'n')::int) FROM events, appendable_lines(log) WHERE id = 2;
SELECT l.* FROM events, appendable_lines(log) l WHERE id = 2 LIMIT 2;
SELECT l.* FROM events, appendable_lines(log, 56, false) l WHERE id = 2 LIMIT 1;
SELECT l.* FROM events, appendable_lines(log, -60) l WHERE id = 2;
SELECT (appendable_lines(log, 1044)).line FROM events WHERE id = 2;
UPDATE events SET log = log || '{"n": 41' WHERE id = 2;
SELECT l.line FROM events, appendable_lines(log, -45) l WHERE id = 2;
SELECT l.line FROM events, appendable_lines(log, -45, unfinished => false) l WHERE id = 2;
SELECT l.line FROM events, appendable_lines(log, 100000) l WHERE id = 2;
SELECT l.line FROM events, appendable_lines(log, NULL) l WHERE id = 2;
-- what follows each line is what follows its offset
SELECT count(*) FROM events, appendable_lines(log) a, LATERAL (SELECT line FROM appendable_lines(log, a.next_offset) LIMIT 1) b,
	appendable_tail(log, a.next_offset, 1, true) t WHERE id = 2 AND t.data = b.line || chr(10);
DROP TABLE events;

-- the trigger's function wants to be used as it is meant
CREATE TRIGGER told BEFORE INSERT ON followed FOR EACH ROW EXECUTE FUNCTION appendable_notify('more');
INSERT INTO followed VALUES (3);
DROP TRIGGER told ON followed;
CREATE TRIGGER told AFTER INSERT ON followed FOR EACH ROW EXECUTE FUNCTION appendable_notify();
INSERT INTO followed VALUES (3);
DROP TRIGGER told ON followed;
CREATE TRIGGER told AFTER INSERT ON followed FOR EACH ROW EXECUTE FUNCTION appendable_notify('more', 'nothing');
INSERT INTO followed VALUES (3);
DROP TRIGGER told ON followed;
CREATE TRIGGER told AFTER INSERT ON followed FOR EACH STATEMENT EXECUTE FUNCTION appendable_notify('more', 'id');
INSERT INTO followed VALUES (3);
DROP TRIGGER told ON followed;
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		CREATE TABLE virtual (id int, log appendable_text);
		EXECUTE 'ALTER TABLE virtual ADD COLUMN key int GENERATED ALWAYS AS (id + 1) VIRTUAL';
		CREATE TRIGGER told AFTER INSERT ON virtual FOR EACH ROW EXECUTE FUNCTION appendable_notify('more', 'key');
		BEGIN
			INSERT INTO virtual VALUES (1, 'x');
			RAISE 'a virtual column was taken for a key';
		EXCEPTION WHEN feature_not_supported THEN
			DROP TABLE virtual;
		END;
	END IF;
END $$;

-- it reads what it gives, and nothing else: chunks that are gone elsewhere are not missed
SELECT store FROM appendable_bytea_stats('followed') \gset
SELECT count(*) > 10 AS chunks FROM :store;
DELETE FROM :store WHERE off < 300;
VACUUM :store;
SELECT t.data FROM followed, appendable_tail(log, 600, 12) t WHERE id = 1;
\set VERBOSITY sqlstate
SELECT t.data FROM followed, appendable_tail(log, 0, 12) t WHERE id = 1;
\set VERBOSITY default
DROP TABLE followed;
DROP FUNCTION followed_in_pieces;

-- Whole values that replace others are stored as differences: pieces of the old value
-- and new chunks.  Whatever is changed, what is read is what was stored.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
-- chunks of a known size; compress_new.sql has compressed ones
SET appendable_bytea.compress_new = off;
SET appendable_bytea.store_differences = on;
-- the bytes of a datum as they are, and back
CREATE FUNCTION raw(appendable_bytea) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION forge(bytea) RETURNS appendable_bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
-- bytes that do not repeat
CREATE FUNCTION random_bytes(seed int, size int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(string_agg(sha256(int4send(seed) || int4send(i)), '' ORDER BY i), 1, size) FROM generate_series(1, size / 32 + 1) i $$;
-- a column of the type and what it must contain
CREATE TABLE pieces (id int PRIMARY KEY, data appendable_bytea, wanted bytea) WITH (fillfactor = 50);
CREATE FUNCTION list_of(value bytea, OUT pieces int, OUT in_chunks int8, OUT tail int) LANGUAGE plpgsql AS $$
DECLARE
	at int := 39;
	numbers int := 0;
	size int;
BEGIN
	-- format, reference, bytes in chunks, bytes of the list, list, tail
	IF get_byte(value, 0) IN (3, 4) THEN
		pieces := 1;
		RETURN;
	ELSIF get_byte(value, 0) NOT IN (6, 7) THEN
		pieces := 0;
		RETURN;
	END IF;
	in_chunks := get_byte(value, 29) + get_byte(value, 30) * 256 + get_byte(value, 31) * 65536 + get_byte(value, 32) * 16777216;
	size := get_byte(value, 37) + get_byte(value, 38) * 256;
	FOR i IN 39 .. 38 + size LOOP
		numbers := numbers + (get_byte(value, i) < 128)::int;
	END LOOP;
	pieces := numbers / 2;
END $$;
-- replace a value by another, and look what is stored for it
CREATE FUNCTION replace_value(what text, i int, new bytea) RETURNS TABLE (change text, pieces int, new_bytes int8, same bool, checked bool) LANGUAGE plpgsql AS $$
DECLARE
	before int8;
	after int8;
	store regclass := (SELECT s.store FROM appendable_bytea_stats('pieces') s);
	vid bytea;
	vid_after bytea;
BEGIN
	EXECUTE format('SELECT coalesce(max(off + length(data)), 0) FROM %s', store) INTO before;
	SELECT substr(raw(data), 6, 8) INTO vid FROM pieces WHERE id = i;
	UPDATE pieces SET data = new, wanted = new WHERE id = i;
	EXECUTE format('SELECT coalesce(max(off + length(data)), 0) FROM %s', store) INTO after;
	SELECT substr(raw(data), 6, 8) INTO vid_after FROM pieces WHERE id = i;
	RETURN QUERY SELECT what, (list_of(raw(p.data))).pieces, CASE WHEN vid = vid_after THEN after - before END,
		p.data = p.wanted AND md5(p.data) = md5(p.wanted) AND length(p.data) = length(p.wanted) AND p.data::bytea = p.wanted,
		NOT EXISTS (SELECT FROM appendable_bytea_check('pieces')) FROM pieces p WHERE id = i;
END $$;

INSERT INTO pieces VALUES (1, random_bytes(1, 100000), random_bytes(1, 100000));
SELECT r.* FROM pieces, replace_value('as it is', 1, wanted) r;
SELECT r.* FROM pieces, replace_value('an append', 1, wanted || random_bytes(2, 1000)) r;
SELECT r.* FROM pieces, replace_value('one byte in the middle', 1, overlay(wanted PLACING '\x00' FROM 50000)) r;
SELECT r.* FROM pieces, replace_value('an insertion', 1, overlay(wanted PLACING random_bytes(3, 5000) FROM 20000 FOR 0)) r;
SELECT r.* FROM pieces, replace_value('a deletion', 1, overlay(wanted PLACING '' FROM 30000 FOR 7000)) r;
SELECT r.* FROM pieces, replace_value('the first bytes', 1, random_bytes(4, 300) || substr(wanted, 301)) r;
SELECT r.* FROM pieces, replace_value('the last bytes', 1, substr(wanted, 1, length(wanted) - 10) || random_bytes(5, 300)) r;
SELECT r.* FROM pieces, replace_value('cut off', 1, substr(wanted, 1, 70000)) r;
SELECT r.* FROM pieces, replace_value('two places', 1, overlay(overlay(wanted PLACING random_bytes(6, 400) FROM 10000 FOR 100) PLACING random_bytes(7, 500) FROM 60000 FOR 50)) r;
SELECT r.* FROM pieces, replace_value('an append to pieces', 1, wanted || random_bytes(8, 1000)) r;
UPDATE pieces SET data = data || random_bytes(9, 1000), wanted = wanted || random_bytes(9, 1000);
SELECT (list_of(raw(data))).pieces, data = wanted AS same FROM pieces;
UPDATE pieces SET data = data || 'short'::bytea, wanted = wanted || 'short'::bytea;
SELECT (list_of(raw(data))).pieces, data = wanted AS same FROM pieces;
SELECT r.* FROM pieces, replace_value('moved', 1, substr(wanted, 40001) || substr(wanted, 1, 40000)) r;
SELECT r.* FROM pieces, replace_value('doubled', 1, wanted || wanted) r;
SELECT r.* FROM pieces, replace_value('a third', 1, substr(wanted, 1, 47000)) r;
SELECT r.* FROM pieces, replace_value('all new', 1, random_bytes(10, 30000)) r;
-- the same bytes repeatedly: the common start and end meet
SELECT r.* FROM pieces, replace_value('one byte', 1, convert_to(repeat('a', 30000), 'UTF8')) r;
SELECT r.* FROM pieces, replace_value('fewer of them', 1, convert_to(repeat('a', 20000), 'UTF8')) r;
SELECT r.* FROM pieces, replace_value('more of them', 1, convert_to(repeat('a', 25000) || 'b', 'UTF8')) r;
SELECT r.* FROM pieces, replace_value('two kinds', 1, convert_to(repeat('a', 12000) || repeat('ab', 6000) || 'b', 'UTF8')) r;
SELECT r.* FROM pieces, replace_value('short', 1, 'short') r;
SELECT r.* FROM pieces, replace_value('empty', 1, '') r;
SELECT r.* FROM pieces, replace_value('long again', 1, random_bytes(1, 100000)) r;
-- a short end that stays: a value to which something is added before it has two pieces for ever, and the end of an array is in no piece
CREATE TABLE seen (change text, pieces int, new_bytes int8, same bool, checked bool);
DO $$
DECLARE
	e text;
BEGIN
	FOREACH e IN ARRAY ARRAY['"]', 'end'] LOOP
		INSERT INTO seen SELECT * FROM replace_value('a value with ' || e, 1, random_bytes(11 + length(e), 20000) || e::bytea);
		FOR i IN 0 .. 40 LOOP
			INSERT INTO seen SELECT r.* FROM pieces, replace_value('elements before ' || e, 1, overlay(wanted PLACING random_bytes(i, 306) FROM 20001 + i * 306 FOR 0)) r;
		END LOOP;
	END LOOP;
END $$;
SELECT DISTINCT * FROM seen ORDER BY change, new_bytes;
-- functions of the type make pieces as well
UPDATE pieces SET data = overlay(data PLACING '\x010203' FROM 5000), wanted = overlay(wanted PLACING '\x010203' FROM 5000);
UPDATE pieces SET data = appendable_write(data, 'inserted', 3000, 0), wanted = overlay(wanted PLACING 'inserted' FROM 3001 FOR 0);
UPDATE pieces SET data = appendable_truncate(data, 20000), wanted = substr(wanted, 1, 20000);
UPDATE pieces SET data = set_byte(data, 100, 7), wanted = set_byte(wanted, 100, 7);
SELECT (list_of(raw(data))).pieces, length(data), data = wanted AS same FROM pieces;
SELECT count(*) FROM appendable_bytea_check('pieces');
-- the setting off: what has pieces keeps them, and is read and changed as before
SET appendable_bytea.store_differences = off;
UPDATE pieces SET data = overlay(data PLACING '\x040506' FROM 6000), wanted = overlay(wanted PLACING '\x040506' FROM 6000);
UPDATE pieces SET data = data || random_bytes(12, 1000), wanted = wanted || random_bytes(12, 1000);
SELECT (list_of(raw(data))).pieces, length(data), data = wanted AS same FROM pieces;
SELECT r.* FROM pieces, replace_value('without differences', 1, overlay(wanted PLACING '\x00' FROM 1000)) r;
UPDATE pieces SET data = overlay(data PLACING '\x070809' FROM 9000), wanted = overlay(wanted PLACING '\x070809' FROM 9000);
SELECT (list_of(raw(data))).pieces, data = wanted AS same FROM pieces;
SET appendable_bytea.store_differences = on;
-- such a change makes pieces as well
SELECT r.* FROM pieces, replace_value('after an overwrite', 1, overlay(wanted PLACING '\x00' FROM 1500)) r;

-- slices and followers
UPDATE pieces SET data = random_bytes(20, 60000), wanted = random_bytes(20, 60000);
TRUNCATE seen;
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		INSERT INTO seen SELECT r.* FROM pieces, replace_value('scattered', 1, overlay(wanted PLACING random_bytes(i, i * 10) FROM 1 + i * 7919 % 59000 FOR i)) r;
	END LOOP;
END $$;
SELECT max(pieces) AS pieces, sum(new_bytes) AS new_bytes, bool_and(same AND checked) AS same FROM seen;
SELECT count(*) FILTER (WHERE substr(data, i * 997, 1500) <> substr(wanted, i * 997, 1500)) AS wrong, count(*) AS slices FROM pieces, generate_series(0, 65) i;
SELECT string_agg(t.data, '' ORDER BY o) = (SELECT wanted FROM pieces) AS followed
	FROM generate_series(0, 70) o, LATERAL (SELECT (appendable_tail(data, least(o * 1000, length(data)), 1000)).data FROM pieces) t;
SELECT position(substr(wanted, 30000, 20) IN data) = position(substr(wanted, 30000, 20) IN wanted) AS found, sha256(data) = sha256(wanted) AS hashed,
	data < wanted || '\x00'::bytea AS ordered FROM pieces;
SELECT values_in_chunks, chunk_bytes + inline_bytes = (SELECT length(data) FROM pieces) AS all_bytes FROM appendable_bytea_stats('pieces');
-- more pieces than there may be: the cheapest are written again
SET appendable_bytea.max_pieces = 6;
SELECT r.pieces <= 6 AS few, r.same, r.checked FROM pieces, replace_value('merged', 1, overlay(wanted PLACING 'abc' FROM 33333)) r;
UPDATE pieces SET data = overlay(overlay(data PLACING 'x' FROM 500) PLACING 'y' FROM 50000), wanted = overlay(overlay(wanted PLACING 'x' FROM 500) PLACING 'y' FROM 50000);
SELECT (list_of(raw(data))).pieces <= 6 AS few, data = wanted AS same FROM pieces;
-- that takes memory for the value: without so much it is written as one piece
CREATE FUNCTION mark(value bytea) RETURNS bytea LANGUAGE sql AS
	$$ SELECT overlay(overlay(overlay(overlay(value PLACING 'w' FROM 59000) PLACING 'x' FROM 59100) PLACING 'y' FROM 59200) PLACING 'z' FROM 59300) $$;
CREATE FUNCTION mark(value appendable_bytea) RETURNS appendable_bytea LANGUAGE sql AS
	$$ SELECT overlay(overlay(overlay(overlay(value PLACING 'w' FROM 59000) PLACING 'x' FROM 59100) PLACING 'y' FROM 59200) PLACING 'z' FROM 59300) $$;
UPDATE pieces SET data = random_bytes(21, 60000), wanted = random_bytes(21, 60000);
UPDATE pieces SET data = mark(data), wanted = mark(wanted);
SELECT (list_of(raw(data))).pieces, data = wanted AS same FROM pieces;
UPDATE pieces SET data = random_bytes(22, 60000), wanted = random_bytes(22, 60000);
SET appendable_bytea.difference_memory = '16kB';
UPDATE pieces SET data = mark(data), wanted = mark(wanted);
SELECT (list_of(raw(data))).pieces, data = wanted AS same FROM pieces;
RESET appendable_bytea.difference_memory;
RESET appendable_bytea.max_pieces;
DROP FUNCTION mark(bytea), mark(appendable_bytea);
-- dead bytes: of each chunk a little stays, until the value is written as one piece
CREATE TABLE dead (change int, pieces int, kept bool, same bool);
DO $$
DECLARE
	value bytea := random_bytes(30, 240000);
	p record;
BEGIN
	UPDATE pieces SET data = value, wanted = value;
	FOR i IN 0 .. 25 LOOP
		-- most of the i-th chunk, but not its ends
		value := (SELECT substr(wanted, 1, i * 1104 + 500) || substr(wanted, i * 1104 + 7501) FROM pieces);
		SELECT * INTO p FROM replace_value('dead', 1, value);
		INSERT INTO dead VALUES (i, p.pieces, p.new_bytes IS NOT NULL, p.same AND p.checked);
	END LOOP;
END $$;
SELECT bool_and(same) AS same, bool_or(NOT kept) AS written_as_one_piece, max(pieces) > 2 AS had_pieces FROM dead;

-- transactions that fail leave another list of the same edition, and end nothing
UPDATE pieces SET data = random_bytes(40, 50000), wanted = random_bytes(40, 50000);
DO $$
DECLARE
	v appendable_bytea;
	w appendable_bytea;
	wanted_v bytea := overlay(random_bytes(40, 50000) PLACING '' FROM 100 FOR 1000);
	others bytea := overlay(random_bytes(40, 50000) PLACING '' FROM 30000 FOR 9000);
	list bool;
BEGIN
	BEGIN
		UPDATE pieces SET data = wanted_v RETURNING data INTO v;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	UPDATE pieces SET data = others RETURNING data INTO w;
	RAISE WARNING 'the same reference: %, list: %', substr(raw(v), 1, 29) = substr(raw(w), 1, 29), raw(v) = raw(w);
	IF v = w OR v::bytea <> wanted_v THEN
		RAISE 'taken for the row''s';
	END IF;
	-- the same, with chunks and a tail behind it, and edited
	UPDATE pieces SET data = v || random_bytes(41, 700), wanted = wanted_v || random_bytes(41, 700);
	IF EXISTS (SELECT FROM pieces WHERE data <> wanted) THEN
		RAISE 'not what was stored';
	END IF;
END $$;
SELECT data = wanted AS same FROM pieces;
SELECT count(*) FROM appendable_bytea_check('pieces');
UPDATE pieces SET data = random_bytes(40, 50000), wanted = random_bytes(40, 50000);
DO $$
DECLARE
	v appendable_bytea;
	wanted_v bytea := overlay(random_bytes(40, 50000) PLACING '' FROM 100 FOR 1000);
BEGIN
	BEGIN
		UPDATE pieces SET data = wanted_v RETURNING data INTO v;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	UPDATE pieces SET data = overlay(random_bytes(40, 50000) PLACING '' FROM 30000 FOR 9000);
	UPDATE pieces SET data = data || random_bytes(42, 8000);
	-- now it looks like an ancestor with as many bytes in chunks
	UPDATE pieces SET data = v || 'end'::bytea, wanted = wanted_v || 'end'::bytea;
END $$;
SELECT data = wanted AS same FROM pieces;
UPDATE pieces SET data = random_bytes(47, 100000), wanted = random_bytes(47, 100000);
DO $$
DECLARE
	v appendable_bytea;
	wanted_v bytea := overlay(random_bytes(47, 100000) PLACING '' FROM 100 FOR 1000);
BEGIN
	BEGIN
		UPDATE pieces SET data = wanted_v RETURNING data INTO v;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	UPDATE pieces SET data = overlay(random_bytes(47, 100000) PLACING '' FROM 30000 FOR 20000);
	-- an edit of it refers to chunks that the row has given up
	UPDATE pieces SET data = overlay(v PLACING 'edit' FROM 31000), wanted = overlay(wanted_v PLACING 'edit' FROM 31000);
END $$;
SELECT data = wanted AS same FROM pieces;
SELECT count(*) FROM appendable_bytea_check('pieces');
-- a list that has less than the row's, and the same reference: what it does not need ends
UPDATE pieces SET data = random_bytes(46, 100000), wanted = random_bytes(46, 100000);
DO $$
DECLARE
	v appendable_bytea;
	others bytea := overlay(random_bytes(46, 100000) PLACING '' FROM 30000 FOR 9000);
	wanted_v bytea := overlay(others PLACING '' FROM 100 FOR 17000);
BEGIN
	BEGIN
		UPDATE pieces SET data = wanted_v RETURNING data INTO v;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	UPDATE pieces SET data = others;
	UPDATE pieces SET data = v || 'end'::bytea, wanted = wanted_v || 'end'::bytea;
END $$;
SELECT data = wanted AS same, (list_of(raw(data))).pieces FROM pieces;
SELECT count(*) FROM appendable_bytea_check('pieces');
-- what a transaction that failed stored is read by its own chunks, although others took
-- their places, and the last change wrote none
UPDATE pieces SET data = random_bytes(40, 50000), wanted = random_bytes(40, 50000);
DO $$
DECLARE
	v appendable_bytea;
	wanted_v bytea;
BEGIN
	BEGIN
		UPDATE pieces SET data = overlay(wanted PLACING random_bytes(43, 2000) FROM 7001);
		UPDATE pieces SET data = overlay(overlay(wanted PLACING random_bytes(43, 2000) FROM 7001) PLACING random_bytes(44, 9000) FROM 30001);
		UPDATE pieces SET data = overlay(data::bytea PLACING '' FROM 20001 FOR 500) RETURNING data, data::bytea INTO v, wanted_v;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	RAISE WARNING 'read after a rollback: %', v::bytea = wanted_v AND substr(v, 29501, 9000) = random_bytes(44, 9000);
	UPDATE pieces SET data = overlay(wanted PLACING random_bytes(45, 11000) FROM 8001), wanted = overlay(wanted PLACING random_bytes(45, 11000) FROM 8001);
	RAISE WARNING 'and after another change: %', v::bytea = wanted_v AND substr(v, 29501, 9000) = random_bytes(44, 9000);
END $$;
SELECT data = wanted AS same FROM pieces;
-- savepoints that write at the same places
UPDATE pieces SET data = random_bytes(50, 50000), wanted = random_bytes(50, 50000);
BEGIN;
UPDATE pieces SET data = overlay(wanted PLACING random_bytes(51, 3000) FROM 7000 FOR 10);
SAVEPOINT a;
UPDATE pieces SET data = overlay(wanted PLACING random_bytes(52, 4000) FROM 9000 FOR 10);
ROLLBACK TO a;
UPDATE pieces SET data = overlay(wanted PLACING random_bytes(53, 4000) FROM 11000 FOR 10), wanted = overlay(wanted PLACING random_bytes(53, 4000) FROM 11000 FOR 10);
SELECT data = wanted AS same FROM pieces;
SAVEPOINT b;
UPDATE pieces SET data = overlay(wanted PLACING random_bytes(54, 4000) FROM 1 FOR 10);
SELECT data = overlay(wanted PLACING random_bytes(54, 4000) FROM 1 FOR 10) AS same FROM pieces;
ROLLBACK TO b;
SELECT data = wanted AS same FROM pieces;
COMMIT;
SELECT data = wanted AS same, (list_of(raw(data))).pieces FROM pieces;
SELECT count(*) FROM appendable_bytea_check('pieces');
-- an old snapshot over many changes
SELECT store AS "STORE" FROM appendable_bytea_stats('pieces') \gset
DECLARE old CURSOR WITH HOLD FOR SELECT data = wanted AS same FROM pieces;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE older CURSOR FOR SELECT data = wanted AS same, md5(data) = md5(wanted) AS hashed FROM pieces;
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		UPDATE pieces SET data = d, wanted = d FROM (SELECT overlay(wanted PLACING random_bytes(i, i * 17) FROM 1 + i * 733 FOR i * 19) AS d FROM pieces) q;
	END LOOP;
END $$;
FETCH older;
COMMIT;
FETCH old;
CLOSE old;
VACUUM pieces;
SELECT data = wanted AS same FROM pieces;
-- the same over hundreds of changes and as many savepoints, every third of which is rolled back
DECLARE old CURSOR WITH HOLD FOR SELECT data = wanted AS same FROM pieces;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE older CURSOR FOR SELECT data = wanted AS same, md5(data) = md5(wanted) AS hashed FROM pieces;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			UPDATE pieces SET data = d, wanted = d FROM (SELECT overlay(wanted PLACING random_bytes(i, i * 3) FROM 1 + i * 157 FOR i * 3) AS d FROM pieces) q;
			IF i % 3 = 0 THEN
				RAISE division_by_zero;
			END IF;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP;
END $$;
SELECT data = wanted AS same FROM pieces;
FETCH older;
COMMIT;
FETCH old;
CLOSE old;
VACUUM pieces;
SELECT data = wanted AS same FROM pieces;
-- a rewrite of the table, and values that move to other tables
ALTER TABLE pieces ALTER id TYPE int8;
SELECT data = wanted AS same, (list_of(raw(data))).pieces > 10 AS still_pieces FROM pieces;
CREATE TABLE other AS SELECT * FROM pieces;
SELECT data = wanted AS same, (list_of(raw(data))).pieces FROM other;
INSERT INTO pieces SELECT 2, data, wanted FROM pieces;
SELECT id, data = wanted AS same, (list_of(raw(data))).pieces = 1 AS one FROM pieces ORDER BY id;
SELECT count(*) FROM appendable_bytea_check();
-- compaction makes one piece
CALL appendable_compact('pieces', 'id = 1');
SELECT id, data = wanted AS same, (list_of(raw(data))).pieces FROM pieces ORDER BY id;
SELECT r.change, r.pieces, r.same, r.checked FROM pieces p, replace_value('after compaction', 1, overlay(wanted PLACING random_bytes(60, 100) FROM 17000)) r WHERE p.id = 1;
CALL appendable_compact('pieces', 'id = 1');
SELECT id, data = wanted AS same, (list_of(raw(data))).pieces FROM pieces WHERE id = 1;
DELETE FROM pieces WHERE id = 2;
SELECT count(*) FROM appendable_bytea_check('pieces');
-- back to bytea
SELECT appendable_bytea_detach('other');
SELECT data = wanted AS same FROM other;

-- lists that the type never writes
TRUNCATE pieces;
INSERT INTO pieces VALUES (1, random_bytes(70, 60000), random_bytes(70, 60000));
SELECT r.* FROM pieces, replace_value('a list', 1, overlay(wanted PLACING random_bytes(71, 700) FROM 20000 FOR 5)) r;
CREATE FUNCTION forged_list(stored bytea, pieces int8[]) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
	list bytea := '';
	at int8 := 0;
	number int8;
	total int8 := 0;
	head bytea;
BEGIN
	FOR i IN 1 .. array_length(pieces, 1) / 2 LOOP
		FOREACH number IN ARRAY ARRAY[CASE WHEN pieces[2 * i - 1] >= at THEN 2 * (pieces[2 * i - 1] - at) ELSE 2 * (at - pieces[2 * i - 1]) - 1 END, pieces[2 * i]] LOOP
			WHILE number >= 128 LOOP
				list := list || set_byte('\x00', 0, (number % 128 + 128)::int);
				number := number / 128;
			END LOOP;
			list := list || set_byte('\x00', 0, number::int);
		END LOOP;
		at := pieces[2 * i - 1] + pieces[2 * i];
		total := total + pieces[2 * i];
	END LOOP;
	head := substr(stored, 1, 29);
	FOR i IN 0 .. 7 LOOP
		head := head || set_byte('\x00', 0, ((total >> (8 * i)) & 255)::int);
	END LOOP;
	RETURN set_byte(head, 0, 6) || set_byte('\x00', 0, length(list) % 256) || set_byte('\x00', 0, length(list) / 256) || list;
END $$;
CREATE FUNCTION try_list(what text, value bytea) RETURNS TABLE (list text, result text) LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	n int8;
BEGIN
	list := what;
	BEGIN
		n := length(decode(encode(forge(value)::bytea, 'hex'), 'hex'));
		result := n || ' bytes';
	EXCEPTION WHEN data_corrupted THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
		result := SQLERRM || ': ' || regexp_replace(detail, 'value [0-9]+', 'value N');
	END;
	RETURN NEXT;
END $$;
SELECT t.* FROM pieces p, LATERAL (SELECT raw(p.data) AS r) s, LATERAL (VALUES
	('its own', forged_list(r, ARRAY[0, 19999, 60000, 700, 20004, 39996])),
	('a part', forged_list(r, ARRAY[0, 100])),
	('another order', forged_list(r, ARRAY[30000, 100, 0, 100])),
	('beyond the end', forged_list(r, ARRAY[0, 100, 60000, 701])),
	('negative', substr(forged_list(r, ARRAY[0, 100]), 1, 39) || '\x0164'::bytea),
	('touching', forged_list(r, ARRAY[0, 100, 100, 100])),
	('overlapping', forged_list(r, ARRAY[0, 100, 50, 100])),
	('twice', forged_list(r, ARRAY[0, 100, 200, 100, 0, 100])),
	('empty piece', forged_list(r, ARRAY[0, 0])),
	('given up', forged_list(r, ARRAY[19990, 40])),
	('no list', substr(r, 1, 37) || '\x0000'::bytea),
	('cut off', substr(r, 1, 45)),
	('a header', substr(r, 1, 38)),
	('length', overlay(r PLACING '\x01' FROM 30)),
	('negative length', overlay(r PLACING '\x80' FROM 37)),
	('size', overlay(r PLACING '\xffff' FROM 38)),
	('edition 0', overlay(r PLACING '\x00000000' FROM 26)),
	('another edition', overlay(r PLACING '\x09000000' FROM 26)),
	('crc', overlay(r PLACING '\x01020304' FROM 22)),
	('too many', forged_list(r, (SELECT array_agg(n ORDER BY i, k) FROM generate_series(0, 256) i, LATERAL (VALUES (0, i * 20), (1, 10)) x(k, n)))),
	('as many as there may be', forged_list(r, (SELECT array_agg(n ORDER BY i, k) FROM generate_series(0, 255) i, LATERAL (VALUES (0, i * 20), (1, 10)) x(k, n)))),
	('padded varint', overlay(forged_list(r, ARRAY[0, 100]) PLACING '\x8000' FROM 40 FOR 1))) v(what, bytes),
	try_list(what, bytes) t;
-- what is on disk and wrong is reported with its row
CREATE TABLE plain (id int, data bytea) USING appendable_heap;
INSERT INTO plain SELECT i, overlay(forged_list(raw(data), CASE i WHEN 1 THEN ARRAY[0, 100] WHEN 2 THEN ARRAY[0, 100, 50, 100] ELSE ARRAY[0, 90000] END)
	PLACING (SELECT string_agg(set_byte('\x00', 0, (('plain'::regclass::oid::int8 >> (8 * k)) & 255)::int), '' ORDER BY k) FROM generate_series(0, 3) k) FROM 2)
	FROM pieces, generate_series(1, 3) i;
UPDATE pg_attribute SET atttypid = 'appendable_bytea'::regtype WHERE attrelid = 'plain'::regclass AND attname = 'data';
SELECT row_id, column_name, problem FROM appendable_bytea_check('plain');
-- such a row can be deleted, and one without its chunks changed
DELETE FROM plain WHERE id > 1;
UPDATE plain SET data = random_bytes(80, 5000);
SELECT count(*) FROM plain WHERE data = random_bytes(80, 5000);
SELECT count(*) FROM appendable_bytea_check('plain');
-- an edit on disk is not continued, whatever it refers to
SELECT encode(raw(overlay(data PLACING 'edit' FROM 100)), 'hex') AS "EDIT", encode(raw(data), 'hex') AS "STORED" FROM pieces \gset
UPDATE pg_attribute SET atttypid = 'bytea'::regtype WHERE attrelid = 'pieces'::regclass AND attname = 'data';
UPDATE pieces SET data = decode(:'EDIT', 'hex');
UPDATE pg_attribute SET atttypid = 'appendable_bytea'::regtype WHERE attrelid = 'pieces'::regclass AND attname = 'data';
SELECT row_id, column_name, problem FROM appendable_bytea_check('pieces') WHERE row_id IS NOT NULL;
UPDATE pieces SET data = overlay(wanted PLACING 'other' FROM 300), wanted = overlay(wanted PLACING 'other' FROM 300);
SELECT data = wanted AS same FROM pieces;
SELECT problem FROM appendable_bytea_check('pieces');
SELECT chunks_removed FROM appendable_bytea_repair('pieces');
SELECT r.* FROM pieces, replace_value('a list again', 1, overlay(wanted PLACING random_bytes(72, 700) FROM 20000 FOR 5)) r;
-- a chunk that is missing or damaged: never a part of a value, and it can be replaced
SELECT format('DELETE FROM %s WHERE off = 0', store) AS "BREAK", store AS "STORE" FROM appendable_bytea_stats('pieces') \gset
:BREAK;
VACUUM :STORE;
\set VERBOSITY sqlstate
SELECT md5(data) FROM pieces;
SELECT length(substr(data, 30000, 100)) FROM pieces;
\set VERBOSITY default
SELECT row_id, column_name, problem FROM appendable_bytea_check('pieces');
SELECT r.* FROM pieces, replace_value('of a damaged value', 1, overlay(wanted PLACING 'x' FROM 40000)) r;
-- a checksum that is wrong: of a chunk that was only compared in part with the new value, too
TRUNCATE pieces;
SET appendable_bytea.inline_max = 100;
INSERT INTO pieces SELECT i, random_bytes(i::int, size), random_bytes(i::int, size) FROM unnest(ARRAY[160, 1100, 1500, 7000, 40000, 300000, 300000]) WITH ORDINALITY u(size, i);
SET appendable_bytea.compress_new = on;
INSERT INTO pieces SELECT i, d, d FROM generate_series(8, 9) i, convert_to((SELECT string_agg('line ' || n * i, ' ') FROM generate_series(1, 900) n), 'UTF8') d;
UPDATE pieces SET data = data || random_bytes(90, 60), wanted = wanted || random_bytes(90, 60);
SELECT store AS "STORE" FROM appendable_bytea_stats('pieces') \gset
UPDATE :STORE SET prev = prev # 1 WHERE off = 0;
VACUUM :STORE;
SELECT count(*) FROM appendable_bytea_check('pieces');
-- another byte after the only chunk, or near its start; the start of the first chunk, and samples of others, are as before
CREATE TEMPORARY TABLE changed AS
	SELECT id, CASE id WHEN 1 THEN overlay(wanted PLACING random_bytes(91, 1) FROM 181) WHEN 2 THEN overlay(wanted PLACING random_bytes(91, 1) FROM 300)
			WHEN 7 THEN overlay(wanted PLACING random_bytes(91, 20000) FROM 40) ELSE overlay(wanted PLACING random_bytes(91, 1) FROM 40) END AS new FROM pieces;
UPDATE pieces p SET data = new, wanted = new FROM changed c WHERE p.id = c.id;
SELECT count(*) FILTER (WHERE data = wanted) FROM pieces;
SELECT count(*) FROM appendable_bytea_check('pieces');
DROP TABLE changed;
DROP TABLE pieces, other, plain, dead, seen;
DROP FUNCTION raw, forge, random_bytes, list_of, replace_value, forged_list, try_list;

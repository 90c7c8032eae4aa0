-- A reference to an ancestor of the row's value, which others have appended to since,
-- continues the row's chunks: it costs what differs, not a copy of the value.
SET client_min_messages = warning;
CREATE EXTENSION appendable_bytea;
CREATE FUNCTION bytes(n int, c text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT convert_to(repeat(c, n), 'UTF8') $$;
CREATE TABLE v (id int PRIMARY KEY, data appendable_bytea, plain bytea);
CREATE TABLE size (bytes bigint);
CREATE FUNCTION grown() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before bigint := (SELECT max(bytes) FROM size);
	now bigint := (SELECT sum(pg_relation_size(store)) FROM appendable_bytea_stats('v'));
BEGIN
	INSERT INTO size VALUES (now);
	RETURN CASE WHEN now - before < 300000 THEN 'little' ELSE 'by ' || now - before END;
END $$;
INSERT INTO v VALUES (1, bytes(3000000, 'a'), bytes(3000000, 'a'));
SELECT grown() IS NULL AS first;
-- a variable that is appended to in a loop
DO $$
DECLARE
	x appendable_bytea := (SELECT data FROM v);
BEGIN
	FOR i IN 1 .. 6 LOOP
		x := x || bytes(300, chr(97 + i));
		UPDATE v SET data = x, plain = plain || bytes(300, chr(97 + i));
	END LOOP;
END $$;
SELECT data = plain AS same, length(data), grown() FROM v;
-- short pieces, which stay in the row
DO $$
DECLARE
	x appendable_bytea := (SELECT data FROM v);
BEGIN
	FOR i IN 1 .. 40 LOOP
		x := x || bytes(30, chr(70 + i));
		UPDATE v SET data = x, plain = plain || bytes(30, chr(70 + i));
	END LOOP;
END $$;
SELECT data = plain AS same, length(data), grown() FROM v;
-- other bytes were appended in the meantime, fewer or more
DO $$
DECLARE
	x appendable_bytea;
	y bytea;
	extra int;
BEGIN
	FOREACH extra IN ARRAY ARRAY[300, 5000, 20000] LOOP
		SELECT data, data INTO x, y FROM v;
		UPDATE v SET data = data || bytes(9000, '-');
		UPDATE v SET data = x || bytes(extra, '+');
		ASSERT (SELECT data = y || bytes(extra, '+') FROM v), extra || ' bytes';
	END LOOP;
	-- the ancestor itself, and edits of it
	SELECT data, data INTO x, y FROM v;
	UPDATE v SET data = data || bytes(9000, '-');
	UPDATE v SET data = x;
	ASSERT (SELECT data = y FROM v), 'the ancestor';
	SELECT data, data INTO x, y FROM v;
	UPDATE v SET data = data || bytes(9000, '-');
	UPDATE v SET data = overlay(x PLACING 'new' FROM 100);
	ASSERT (SELECT data = overlay(y PLACING 'new' FROM 100) FROM v), 'an edit';
	SELECT data, data INTO x, y FROM v;
	UPDATE v SET data = data || bytes(9000, '-');
	UPDATE v SET data = appendable_truncate(x, 2999000) || bytes(20, '+');
	ASSERT (SELECT data = substr(y, 1, 2999000) || bytes(20, '+') FROM v), 'a truncation';
END $$;
UPDATE v SET plain = data;
SELECT grown();
-- the value that a trigger kept from before the change
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('test.append', true) = 'on' THEN
		PERFORM set_config('test.append', 'off', true);
		UPDATE v SET data = data || bytes(500, '1') WHERE id = OLD.id;
		UPDATE v SET data = OLD.data || bytes(500, '1') || bytes(400, '2') WHERE id = OLD.id;
		RETURN NULL;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER keep BEFORE UPDATE ON v FOR EACH ROW EXECUTE FUNCTION keep();
SET test.append = on;
UPDATE v SET id = id;
SELECT data = plain || bytes(500, '1') || bytes(400, '2') AS same, grown() FROM v;
DROP TRIGGER keep ON v;
-- flat values that begin with the row's chunks, with another tail
UPDATE v SET data = data || bytes(40, 't'), plain = data::bytea;
UPDATE v SET data = plain || bytes(20, 'u');
SELECT data = plain || bytes(20, 'u') AS same FROM v;
UPDATE v SET data = plain;
SELECT data = plain AS same, grown() FROM v;
-- what looks like an ancestor and is none: its transaction failed, and others wrote as
-- many bytes in its place
TRUNCATE v;
INSERT INTO v VALUES (1, bytes(30000, 'a'), bytes(30000, 'a'));
DO $$
DECLARE
	x appendable_bytea;
	y bytea := (SELECT plain || bytes(500, 'x') FROM v);
BEGIN
	BEGIN
		UPDATE v SET data = data || bytes(500, 'x') RETURNING data INTO x;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	UPDATE v SET data = data || bytes(500, 'o');
	UPDATE v SET data = data || bytes(500, 'p');
	UPDATE v SET data = x || bytes(700, 'q');
	ASSERT (SELECT data = y || bytes(700, 'q') FROM v), 'other bytes';
END $$;
SELECT count(*) FROM appendable_bytea_check();
DROP TABLE v, size;
DROP FUNCTION bytes, grown, keep;
DROP EXTENSION appendable_bytea;

--
-- The type in the places where a column's value goes: variables, RETURNING,
-- upserts, MERGE, triggers, policies, keys, generated columns, rules, prepared
-- statements, cursors.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;

CREATE TABLE logs (id int PRIMARY KEY, data appendable_bytea NOT NULL DEFAULT '') WITH (fillfactor = 80);
INSERT INTO logs SELECT i, convert_to(repeat(i::text, 10000), 'UTF8') FROM generate_series(1, 5) i;

-- a variable keeps the value it was given, whatever happens to the row
DO $$
DECLARE
	before appendable_bytea;
	after appendable_bytea;
	copy appendable_bytea;
BEGIN
	SELECT data INTO before FROM logs WHERE id = 1;
	copy := before;
	FOR i IN 1 .. 20 LOOP
		UPDATE logs SET data = data || convert_to(repeat('x', i * 100), 'UTF8') WHERE id = 1 RETURNING data INTO after;
	END LOOP;
	RAISE WARNING 'before %, after %, prefix %', length(before), length(after), substr(after, 1, 10000) = before;
	UPDATE logs SET data = overlay(data PLACING 'middle' FROM 5000) WHERE id = 1;
	RAISE WARNING 'still % and %', md5(before) = md5(repeat('1', 10000)), md5(copy) = md5(before);
	DELETE FROM logs WHERE id = 1;
	RAISE WARNING 'and % after DELETE', md5(before) = md5(repeat('1', 10000));
	-- an old value may be stored again, in this row and in another one
	INSERT INTO logs VALUES (1, before), (6, after);
	UPDATE logs SET data = before || 'y'::bytea WHERE id = 6;
	copy := copy || 'one'::bytea || 'two'::bytea;
	before := before || 'three'::bytea;
	RAISE WARNING 'two branches: % %', right(convert_from(copy, 'UTF8'), 7), right(convert_from(before, 'UTF8'), 7);
	UPDATE logs SET data = copy WHERE id = 1;
	UPDATE logs SET data = before WHERE id = 6;
END $$;
SELECT id, length(data), right(convert_from(data, 'UTF8'), 8) FROM logs WHERE id IN (1, 6) ORDER BY id;
-- across a subtransaction that is rolled back
DO $$
DECLARE
	kept appendable_bytea;
BEGIN
	BEGIN
		UPDATE logs SET data = data || convert_to(repeat('z', 5000), 'UTF8') WHERE id = 2 RETURNING data INTO kept;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	UPDATE logs SET data = data || convert_to(repeat('w', 5000), 'UTF8') WHERE id = 2;
	BEGIN
		RAISE WARNING 'the value of a change that was undone: % bytes', length(substr(kept, 1));
	EXCEPTION WHEN data_corrupted OR object_not_in_prerequisite_state THEN
		RAISE WARNING 'the value of a change that was undone cannot be read';
	END;
END $$;
-- the same with changes in the middle: never other bytes than the variable was given
DO $$
DECLARE
	kept appendable_bytea;
BEGIN
	INSERT INTO logs VALUES (0, convert_to(repeat('0', 20000), 'UTF8'));
	BEGIN
		UPDATE logs SET data = overlay(data PLACING 'undone' FROM 10000) WHERE id = 0 RETURNING data INTO kept;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	UPDATE logs SET data = overlay(data PLACING 'really' FROM 10000) WHERE id = 0;
	BEGIN
		RAISE WARNING 'the value of a change that was undone: %', convert_from(substr(kept, 10000, 6), 'UTF8');
	EXCEPTION WHEN data_corrupted OR object_not_in_prerequisite_state THEN
		RAISE WARNING 'the value of a change that was undone cannot be read';
	END;
END $$;
SELECT length(data), convert_from(substr(data, 9999, 8), 'UTF8') FROM logs WHERE id = 0;
DELETE FROM logs WHERE id = 0;
SELECT length(data), right(convert_from(data, 'UTF8'), 3), md5(data) = md5(repeat('2', 10000) || repeat('w', 5000)) AS right FROM logs WHERE id = 2;

-- RETURNING, CTEs that write, UPDATE .. FROM
WITH changed AS (UPDATE logs SET data = data || 'returned'::bytea WHERE id = 3 RETURNING id, data)
SELECT id, length(data), right(convert_from(data, 'UTF8'), 9) FROM changed;
WITH gone AS (DELETE FROM logs WHERE id = 6 RETURNING data)
INSERT INTO logs SELECT 7, data || 'moved'::bytea FROM gone RETURNING length(data);
UPDATE logs SET data = logs.data || other.data FROM logs other WHERE logs.id = 3 AND other.id = 4 RETURNING length(logs.data);
UPDATE logs a SET data = b.data FROM logs b WHERE a.id + b.id = 9 AND a.id IN (4, 5) RETURNING a.id, convert_from(substr(a.data, 1, 3), 'UTF8');

-- ON CONFLICT and MERGE
INSERT INTO logs VALUES (3, 'upsert') ON CONFLICT (id) DO NOTHING RETURNING id;
INSERT INTO logs VALUES (3, 'upsert'), (8, 'new') ON CONFLICT (id) DO UPDATE SET data = logs.data || excluded.data RETURNING id, length(data);
INSERT INTO logs VALUES (8, convert_to(repeat('u', 9000), 'UTF8')) ON CONFLICT (id) DO UPDATE SET data = excluded.data || logs.data RETURNING id, length(data), right(convert_from(data, 'UTF8'), 4);
MERGE INTO logs USING (VALUES (8, 'merged'::bytea), (9, convert_to(repeat('m', 6000), 'UTF8'))) v(id, chunk) ON logs.id = v.id
WHEN MATCHED THEN UPDATE SET data = data || chunk
WHEN NOT MATCHED THEN INSERT VALUES (v.id, chunk);
MERGE INTO logs USING (VALUES (8), (9)) v(id) ON logs.id = v.id
WHEN MATCHED AND length(data) = 6000 THEN DELETE
WHEN MATCHED THEN UPDATE SET data = data || data;
SELECT id, length(data), right(convert_from(data, 'UTF8'), 9) FROM logs WHERE id > 7 ORDER BY id;

-- triggers see and may change both versions
CREATE TABLE audit (n int GENERATED ALWAYS AS IDENTITY, id int, old appendable_bytea, new appendable_bytea);
CREATE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO audit (id, old, new) VALUES (NEW.id, OLD.data, NEW.data);
	RETURN NEW;
END $$;
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.data := NEW.data || '!'::bytea;
	RETURN NEW;
END $$;
CREATE TRIGGER a_stamp BEFORE INSERT OR UPDATE ON logs FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE TRIGGER b_log AFTER UPDATE ON logs FOR EACH ROW EXECUTE FUNCTION log_change();
UPDATE logs SET data = data || convert_to(repeat('t', n), 'UTF8') FROM (VALUES (2, 5), (3, 5000)) v(key, n) WHERE id = key;
UPDATE logs SET data = data || convert_to(repeat('t', n), 'UTF8') FROM (VALUES (2, 5), (3, 5000)) v(key, n) WHERE id = key;
SELECT id, length(old), length(new), new = old || substr(new, length(old) + 1) AS continues, right(convert_from(new, 'UTF8'), 2) FROM audit ORDER BY n;
ALTER TABLE logs DISABLE TRIGGER USER;
UPDATE logs SET data = data || 'quiet'::bytea WHERE id = 2 RETURNING length(data);
CREATE TRIGGER c_columns BEFORE UPDATE OF data ON logs FOR EACH ROW WHEN (length(NEW.data) > 20000) EXECUTE FUNCTION stamp();
UPDATE logs SET data = data || 'loud'::bytea WHERE id IN (2, 3) RETURNING id, length(data), right(convert_from(data, 'UTF8'), 1);
-- transition tables
CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING '% bytes before, % after', (SELECT sum(length(data)) FROM was), (SELECT sum(length(data)) FROM became);
	RETURN NULL;
END $$;
CREATE TRIGGER d_count AFTER UPDATE ON logs REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION count_change();
UPDATE logs SET data = data || 'counted'::bytea WHERE id IN (2, 4);
DROP TRIGGER d_count ON logs;
DROP TRIGGER c_columns ON logs;

-- row security
CREATE ROLE regress_appendable_reader;
GRANT SELECT, UPDATE ON logs TO regress_appendable_reader;
ALTER TABLE logs ENABLE ROW LEVEL SECURITY;
CREATE POLICY short ON logs USING (length(data) < 20000) WITH CHECK (position('forbidden' IN data) = 0);
SET ROLE regress_appendable_reader;
SELECT id, length(data) FROM logs ORDER BY id;
UPDATE logs SET data = data || convert_to(repeat('p', 1000), 'UTF8') WHERE id IN (2, 7) RETURNING id, length(data);
UPDATE logs SET data = data || 'this is forbidden'::bytea WHERE id = 7;
SELECT length(data), md5(data) FROM logs WHERE id = 7;
RESET ROLE;
ALTER TABLE logs DISABLE ROW LEVEL SECURITY;
DROP POLICY short ON logs;
REVOKE ALL ON logs FROM regress_appendable_reader;
DROP ROLE regress_appendable_reader;

-- a foreign key to the same table; generated columns; checks; rules
CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree ON UPDATE CASCADE ON DELETE SET NULL, data appendable_bytea,
	bytes bigint GENERATED ALWAYS AS (length(data)) STORED, sum text GENERATED ALWAYS AS (md5(data)) STORED,
	CONSTRAINT not_too_long CHECK (length(data) < 50000), CONSTRAINT clean CHECK (position('\x00'::bytea IN data) = 0));
INSERT INTO tree VALUES (1, NULL, convert_to(repeat('r', 10000), 'UTF8')), (2, 1, 'leaf'), (3, 2, convert_to(repeat('l', 300), 'UTF8'));
UPDATE tree SET data = data || convert_to(repeat('g', 250), 'UTF8');
UPDATE tree SET data = data || convert_to(repeat('g', 250), 'UTF8'), id = id + 10 WHERE id = 1;
UPDATE tree SET data = data || '\x00'::bytea WHERE id = 2;
UPDATE tree SET data = data || convert_to(repeat('g', 45000), 'UTF8');
DELETE FROM tree WHERE id = 2;
SELECT id, parent, bytes, bytes = length(data) AND sum = md5(data) AS generated, convert_from(substr(data, 1, 2), 'UTF8') FROM tree ORDER BY id;
CREATE RULE tree_insert AS ON INSERT TO tree WHERE NEW.id = 99 DO INSTEAD UPDATE tree SET data = data || NEW.data WHERE id = 11;
INSERT INTO tree VALUES (99, NULL, convert_to(repeat('n', 500), 'UTF8'));
SELECT id, bytes FROM tree ORDER BY id;
DROP RULE tree_insert ON tree;
CREATE VIEW tree_view AS SELECT id, data FROM tree;
UPDATE tree_view SET data = data || 'through a view'::bytea WHERE id = 11;
INSERT INTO tree_view VALUES (20, 'view') RETURNING id, data;
SELECT id, length(data), right(convert_from(data, 'UTF8'), 7) FROM tree_view ORDER BY id;
DROP TABLE tree CASCADE;

-- prepared statements, custom and generic plans, every type of parameter
PREPARE add_bytes(int, bytea) AS UPDATE logs SET data = data || $2 WHERE id = $1 RETURNING length(data);
PREPARE add_value(int, appendable_bytea) AS UPDATE logs SET data = data || $2 WHERE id = $1 RETURNING length(data);
PREPARE add_unknown AS UPDATE logs SET data = data || $2 WHERE id = $1 RETURNING length(data);
SET plan_cache_mode = force_generic_plan;
EXECUTE add_bytes(4, 'generic');
EXECUTE add_value(4, 'generic');
EXECUTE add_unknown(4, 'generic');
SET plan_cache_mode = force_custom_plan;
EXECUTE add_bytes(4, 'custom');
EXECUTE add_value(4, 'custom');
EXECUTE add_unknown(4, 'custom');
RESET plan_cache_mode;
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'add_unknown';
SELECT right(convert_from(data, 'UTF8'), 39) FROM logs WHERE id = 4;
DEALLOCATE ALL;

-- a cursor reads what there was when it was opened
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, length(data), right(convert_from(data, 'UTF8'), 4), data FROM logs WHERE id < 4 ORDER BY id;
FETCH 1 FROM c \gset before_
UPDATE logs SET data = data || convert_to(repeat('c', 1000), 'UTF8');
UPDATE logs SET data = overlay(data PLACING 'CCCC' FROM 3000);
DELETE FROM logs WHERE id = 3;
FETCH ABSOLUTE 1 FROM c \gset after_
SELECT :'before_data' = :'after_data' AS same_bytes, :before_length = :after_length AS same_length;
MOVE ABSOLUTE 2 FROM c;
FETCH RELATIVE 1 FROM c \gset third_
SELECT :third_id AS id, length(:'third_data'::bytea) = :third_length AS complete;
ROLLBACK;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT data FROM logs WHERE id = 2;
UPDATE logs SET data = data || 'after the cursor'::bytea WHERE id = 2;
COMMIT;
FETCH h \gset
SELECT substr(data, 1, length(:'data'::bytea)) = :'data'::bytea AS old_value, length(data) - length(:'data'::bytea) AS more FROM logs WHERE id = 2;
CLOSE h;

-- a positioned update
BEGIN;
DECLARE u CURSOR FOR SELECT data FROM logs WHERE id = 5 FOR UPDATE;
MOVE u;
UPDATE logs SET data = data || 'positioned'::bytea WHERE CURRENT OF u RETURNING length(data);
UPDATE logs SET data = data || 'again'::bytea WHERE id = 5 RETURNING length(data);
COMMIT;

-- copies go their own ways
CREATE TABLE logs_copy AS SELECT * FROM logs;
INSERT INTO logs_copy SELECT id + 100, data FROM logs;
UPDATE logs SET data = data || 'original'::bytea;
UPDATE logs_copy SET data = data || 'copy'::bytea;
SELECT count(*), bool_and(right(convert_from(c.data, 'UTF8'), 4) = 'copy' AND right(convert_from(l.data, 'UTF8'), 8) = 'original'
	AND substr(c.data, 1, length(c.data) - 4) = substr(l.data, 1, length(l.data) - 8)) AS right
FROM logs l JOIN logs_copy c ON l.id = c.id % 100;
DROP TABLE logs;
SELECT count(*), sum(length(data)) > 0 AS readable, bool_and(length(data) = length(data::bytea)) AS complete FROM logs_copy;
DROP TABLE logs_copy, audit;
DROP FUNCTION log_change, stamp, count_change;

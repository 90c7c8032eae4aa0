-- appendable_json: the text of json with json's input check, and json to all that reads it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
\set VERBOSITY terse
CREATE TABLE docs (id int PRIMARY KEY, data appendable_json, plain json) WITH (fillfactor = 80);
INSERT INTO docs VALUES (1, '{"a": 1, "b": [1, 2, {"c": "x"}], "a":  2}', '{"a": 1, "b": [1, 2, {"c": "x"}], "a":  2}'), (2, ' [1,"zwei",null] ', ' [1,"zwei",null] '),
	(3, '"text"', '"text"'), (4, 'null', 'null'), (5, NULL, NULL);
INSERT INTO docs SELECT 6, d, d FROM (SELECT json_agg(json_build_object('line', i, 'text', repeat('x', i % 50))) AS d FROM generate_series(1, 1000) i) q;
SELECT "values", values_in_chunks FROM appendable_bytea_stats('docs');
-- the bytes are kept, with blanks and doubled keys
SELECT id, data, data::text = plain::text AS same FROM docs WHERE id < 6 ORDER BY id;
-- only JSON comes in, by json's own errors
INSERT INTO docs VALUES (7, '[1,');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO docs VALUES (7, '');
INSERT INTO docs VALUES (7, '{"a": 01}');
INSERT INTO docs VALUES (7, ('[' || 'x]')::appendable_json);
SELECT convert_from('\x22c3', 'LATIN1')::appendable_json;
UPDATE docs SET data = '{"a" 1}' WHERE id = 1;
COPY docs (id, data) FROM STDIN;
7	[1, 2
\.
COPY docs (id, data) FROM STDIN;
7	{"copied": [1, "\\n"]}
\.
SELECT data, data ->> 'copied' AS copied FROM docs WHERE id = 7;
COPY (SELECT data FROM docs WHERE id <> 6 ORDER BY id) TO STDOUT;
-- operators and functions of json: what they give is what they give for json
CREATE FUNCTION compare(expression text) RETURNS TABLE (value text, differs text) LANGUAGE plpgsql AS $$
DECLARE
	own text;
	plain text;
	n int;
	own_state text := '';
	plain_state text := '';
BEGIN
	BEGIN
		EXECUTE format('SELECT string_agg(x::text, '' '' ORDER BY o, x::text) FROM (SELECT id AS o, (%s)::text AS x FROM docs WHERE id < 6) q', regexp_replace(expression, '@(?!>)', 'data', 'g')) INTO own;
	EXCEPTION WHEN OTHERS THEN
		own_state := replace(SQLERRM, 'appendable_json', 'json');
	END;
	BEGIN
		EXECUTE format('SELECT string_agg(x::text, '' '' ORDER BY o, x::text) FROM (SELECT id AS o, (%s)::text AS x FROM docs WHERE id < 6) q', regexp_replace(expression, '@(?!>)', 'plain', 'g')) INTO plain;
	EXCEPTION WHEN OTHERS THEN
		plain_state := SQLERRM;
	END;
	RETURN QUERY SELECT left(coalesce(plain, plain_state), 100), nullif(own || own_state, plain || plain_state);
END $$;
SELECT e, c.* FROM unnest(ARRAY['@ -> ''a''', '@ ->> ''a''', '@ -> 1', '@ ->> 1', '@ #> ''{b,2}''', '@ #>> ''{b,2,c}''', 'json_typeof(@)',
	'json_extract_path(@, ''b'', ''0'')', 'json_extract_path_text(@, ''b'', ''0'')', 'json_strip_nulls(@)', '@::jsonb', 'to_json(@)', 'to_jsonb(@)',
	'json_build_object(''x'', @)', 'json_build_array(@, 1)', 'jsonb_build_object(''x'', @)', 'row_to_json(row(@, 1))', 'to_jsonb(row(@))', 'array_to_json(ARRAY[@])',
	'@::text', '@::varchar(5)', 'concat(@, 1)', '@ || ''x''', 'CASE id WHEN 1 THEN jsonb_pretty(@::jsonb) END', '@::jsonb @> ''{"a": 2}''', '@ = @', '@::text = @::text', 'md5(@::text)', 'length(@::text)',
	'quote_literal(@)', 'format(''%s'', @)', 'coalesce(@, ''[]'')', 'nullif(@::text, ''null'')', 'CASE WHEN id = 1 THEN @ ELSE ''{}'' END', 'CASE WHEN id = 2 THEN json_array_length(@) END', 'jsonb_path_query_first(@::jsonb, ''$.b[0]'')',
	'(@)[''a'']', '@::bytea', '@::int', 'json_object_keys(@)', 'length(@)', 'to_tsvector(''simple'', @)', 'pg_column_size(@) > 0'])
	WITH ORDINALITY AS u(e, n), LATERAL compare(e) c ORDER BY n;
SELECT json_agg(data ORDER BY id) AS own, json_agg(plain ORDER BY id)::text = json_agg(data ORDER BY id)::text AS same FROM docs WHERE id < 6;
SELECT json_object_agg(id, data ORDER BY id)::text = json_object_agg(id, plain ORDER BY id)::text AS objects, jsonb_agg(data ORDER BY id) = jsonb_agg(plain ORDER BY id) AS binary_objects FROM docs;
SELECT row_to_json(d) FROM (SELECT id, data FROM docs WHERE id IN (1, 5)) d;
SELECT row_to_json(docs) -> 'data' ->> 'a' AS a FROM docs WHERE id = 1;
SELECT k.key, k.value FROM docs, json_each(data) k WHERE id = 1;
SELECT value FROM docs, json_array_elements_text(data) WHERE id = 2;
SELECT count(*), sum((e ->> 'line')::int) FROM docs, json_array_elements(data) e WHERE id = 6;
SELECT r.* FROM docs, json_to_record(data) AS r(a int, b json) WHERE id = 1;
SELECT DISTINCT data FROM docs;
SELECT id FROM docs ORDER BY data;
-- rows out of JSON: an object or an array is a value; a string must be JSON in itself, as in no column of json
SELECT id, data, data ->> 'k' AS k FROM json_populate_record(NULL::docs, '{"id": 8, "data": {"k": "v"}}');
SELECT id, data FROM jsonb_populate_record(NULL::docs, '{"id": 8, "data": [1]}');
SELECT id, plain FROM json_populate_record(NULL::docs, '{"id": 8, "plain": "s"}');
SELECT id, data FROM json_populate_record(NULL::docs, '{"id": 8, "data": "s"}');
-- assignments: json and jsonb are taken, text is not, and || makes text, as for json
UPDATE docs SET data = plain WHERE id IN (1, 5);
UPDATE docs SET data = jsonb_set(data::jsonb, '{a}', '3') WHERE id = 1;
SELECT data FROM docs WHERE id = 1;
UPDATE docs SET data = data || '[2]' WHERE id = 1;
UPDATE docs SET data = 'x'::text WHERE id = 1;
UPDATE docs SET data = (left(data::text, -1) || ', "z": 0}')::appendable_json WHERE id = 1;
SELECT data FROM docs WHERE id = 1;
SELECT * FROM appendable_append('docs', ARRAY[1], ARRAY['x']);
CREATE TABLE copied AS SELECT id, data FROM docs;
INSERT INTO copied (data) SELECT data FROM docs WHERE id = 6;
SELECT pg_typeof(data), count(*), bool_and(coalesce(data::text = (SELECT d.data::text FROM docs d WHERE d.id = copied.id), true)) FROM copied GROUP BY 1;
-- what columns of the type may have
CREATE TABLE made (id int PRIMARY KEY, data appendable_json NOT NULL DEFAULT '{"n": 0}' CHECK (json_typeof(data) = 'object'),
	n int GENERATED ALWAYS AS ((data ->> 'n')::int) STORED, other appendable_json DEFAULT json_build_array(1));
CREATE INDEX ON made ((data ->> 'k'));
CREATE INDEX ON made (md5(data::text));
CREATE INDEX ON made USING gin ((data::jsonb));
CREATE INDEX ON made (data);
CREATE INDEX ON made USING hash (data);
INSERT INTO made (id) VALUES (1);
INSERT INTO made VALUES (2, json_build_object('n', 5, 'k', repeat('k', 100), 'l', repeat('l', 9000)));
INSERT INTO made VALUES (3, '[]');
UPDATE made SET data = '{"n": 7, "k": "seven"}' WHERE id = 1;
SELECT id, n, data -> 'n' AS in_value, other FROM made ORDER BY id;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id FROM made WHERE data ->> 'k' = 'seven';
EXPLAIN (COSTS off) SELECT id FROM made WHERE data::jsonb @> '{"n": 5}';
SELECT id FROM made WHERE data::jsonb @> '{"n": 5}';
RESET enable_seqscan;
ALTER TYPE appendable_json RENAME TO other;
CREATE DOMAIN object AS appendable_json;
CREATE DOMAIN object AS json CHECK (json_typeof(VALUE) = 'object');
SELECT data::object AS checked FROM made WHERE id = 1;
SELECT (data -> 'k')::object FROM made WHERE id = 1;
CREATE TABLE arrays (data appendable_json[]);
SELECT pg_typeof(ARRAY[data]), (ARRAY[data])[1] ->> 'n' AS n FROM made WHERE id = 2;
CREATE VIEW shown AS SELECT id, data, data -> 'n' AS n FROM made;
UPDATE shown SET data = '{"n": 8}' WHERE id = 1;
SELECT * FROM shown WHERE id = 1;
CREATE FUNCTION keep(d appendable_json) RETURNS appendable_json LANGUAGE plpgsql AS $$
DECLARE
	v appendable_json := d;
BEGIN
	v := (v::jsonb || '{"kept": true}');
	RETURN v;
END $$;
UPDATE made SET data = keep(data) WHERE id = 1 RETURNING data ->> 'kept' AS kept, n;
SELECT keep('{"a": 1}'), keep('{"a": 2}'::json);
SELECT 'x' FROM made WHERE keep(data)::text ~ 'kept' AND id = 1;
PREPARE put (int, appendable_json) AS UPDATE made SET data = $2 WHERE id = $1 RETURNING data;
EXECUTE put (1, '{"n": 9}');
EXECUTE put (1, '{"n": 9');
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'put';
DEALLOCATE put;
-- what is rolled back, also in a subtransaction, is not there
BEGIN;
SAVEPOINT s;
UPDATE made SET data = json_build_object('n', 1, 'l', repeat('m', 9000)) WHERE id = 2;
ROLLBACK TO s;
UPDATE made SET data = '{"n": 10}' WHERE id = 1;
COMMIT;
SELECT id, n, length(data::text) FROM made ORDER BY id;
SELECT count(*) FROM appendable_bytea_check();
-- a column converted, and back
CREATE TABLE chats (id int PRIMARY KEY, chat json DEFAULT '{}' CHECK (chat IS NULL OR json_typeof(chat) <> 'null'), t text);
INSERT INTO chats SELECT i, json_build_object('messages', repeat('m', i * 5000)), json_build_array(i)::text FROM generate_series(1, 3) i;
ALTER TABLE chats ALTER chat TYPE appendable_json;
ALTER TABLE chats ALTER t TYPE appendable_json;
ALTER TABLE chats ALTER t TYPE appendable_json USING t::appendable_json;
INSERT INTO chats (id) VALUES (4);
SELECT id, pg_typeof(chat), length(chat ->> 'messages'), t FROM chats ORDER BY id;
SELECT "values", values_in_chunks FROM appendable_bytea_stats('chats');
ALTER TABLE chats ALTER chat TYPE jsonb, ALTER t TYPE text;
SELECT id, pg_typeof(chat), length(chat ->> 'messages'), pg_typeof(t), t FROM chats ORDER BY id;
ALTER TABLE chats ALTER chat TYPE appendable_json, ALTER t TYPE appendable_text;
ALTER TABLE chats ALTER t TYPE appendable_json USING t::appendable_json;
ALTER TABLE chats ALTER chat TYPE json;
ALTER TABLE chats ALTER chat TYPE appendable_json;
SELECT appendable_bytea_detach('chats');
INSERT INTO chats (id) VALUES (5);
SELECT id, pg_typeof(chat), length(chat ->> 'messages'), pg_typeof(t), t FROM chats ORDER BY id;
SELECT relname, am.amname FROM pg_class c JOIN pg_am am ON am.oid = relam WHERE relname = 'chats';
-- an application that reads, extends and writes back a whole array pays only for the added bytes
SET appendable_bytea.store_differences = on;
CREATE TABLE logs (id int PRIMARY KEY, lines appendable_json) WITH (fillfactor = 50);
INSERT INTO logs SELECT 1, json_agg(json_build_object('order', i, 'output', md5(i::text) || repeat(md5((-i)::text), 7))) FROM generate_series(1, 3600) i;
SELECT appendable_octet_length(lines) > 1000000 AS large FROM logs;
CREATE FUNCTION add_line(i int) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
	whole text := (SELECT lines::text FROM logs);
	line text := ', ' || json_build_object('order', i, 'output', md5(i::text) || repeat(md5((-i)::text), 7))::text;
	before pg_lsn;
BEGIN
	whole := left(whole, -1) || line || ']';
	before := pg_current_wal_insert_lsn();
	UPDATE logs SET lines = whole::json;
	RETURN pg_current_wal_insert_lsn() - before - length(line);
END $$;
CHECKPOINT;
SELECT count(add_line(i)) FROM generate_series(4001, 4005) i;
SELECT i, add_line(i) < 1000 AS line_and_a_little FROM generate_series(5001, 5005) i;
SELECT json_array_length(lines), lines #>> '{-1,order}' AS last FROM logs;
SELECT count(*) FROM appendable_bytea_check('logs');
-- an element changed in the middle as well
UPDATE logs SET lines = replace(lines::text, '"order" : 1700,', '"order" : 17000,')::json;
SELECT lines #>> '{1699,order}' AS changed, json_array_length(lines) FROM logs;
-- text that is no JSON leaves the value as it is
UPDATE logs SET lines = left(lines::text, -1)::json;
SELECT json_array_length(lines) FROM logs;
SELECT count(*) FROM appendable_bytea_check();
DROP VIEW shown;
DROP TABLE docs, copied, made, chats, logs;
DROP DOMAIN object;
DROP FUNCTION compare, keep, add_line;

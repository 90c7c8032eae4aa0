-- Columns of appendable_jsonb: assignments, subscripts, indexes, conversions.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
\set VERBOSITY terse
CREATE TABLE docs (id int PRIMARY KEY, data appendable_jsonb, plain jsonb) WITH (fillfactor = 80);
INSERT INTO docs SELECT id, d, d FROM (VALUES (1, '{"a": 1, "b": [1, 2, {"c": "x"}]}'::jsonb), (5, NULL)) v(id, d);
INSERT INTO docs SELECT 11, d, d FROM (SELECT jsonb_object_agg('key' || i, repeat(md5(i::text), i % 20)) || '{"num": -12.340}' AS d FROM generate_series(1, 300) i) q;
INSERT INTO docs SELECT 12, d, d FROM (SELECT jsonb_agg(jsonb_build_object('line', i, 'a', repeat(md5(i::text), i % 5)) ORDER BY i) AS d FROM generate_series(1, 1000) i) q;
-- rows out of JSON, and assignments: json and jsonb are taken, text is not
SELECT id, data, data ->> 'k' AS k FROM jsonb_populate_record(NULL::docs, '{"id": 8, "data": {"k": "v"}}');
SELECT id, data FROM json_populate_record(NULL::docs, '{"id": 8, "data": [1]}');
UPDATE docs SET data = plain WHERE id IN (1, 5);
UPDATE docs SET data = jsonb_set(data, '{a}', '3') WHERE id = 1;
UPDATE docs SET data = data || '{"z": [0]}' WHERE id = 1;
UPDATE docs SET data = data - 'b' WHERE id = 1 RETURNING data;
UPDATE docs SET data = data #- '{z,0}' WHERE id = 1 RETURNING data;
UPDATE docs SET data = json_build_object('json', 1) WHERE id = 1 RETURNING data;
UPDATE docs SET data = 'x'::text WHERE id = 1;
SELECT * FROM appendable_append('docs', ARRAY[1], ARRAY['x']);
-- subscripts that are assigned to
UPDATE docs SET data['new'] = '"value"' WHERE id = 1 RETURNING data;
UPDATE docs SET data['list'][2] = '{"in": [true]}' WHERE id = 1 RETURNING data;
UPDATE docs SET data['list'][2]['in'][-1] = to_jsonb(5), data['json'] = 'null' WHERE id = 1 RETURNING data;
UPDATE docs SET data[0] = '1' WHERE id = 5 RETURNING data;
UPDATE docs SET data = NULL WHERE id = 5;
UPDATE docs SET data['k'] = '1' WHERE id = 5 RETURNING data;
UPDATE docs SET data['k'][NULL] = '1' WHERE id = 5;
UPDATE docs SET data[1:2] = '1' WHERE id = 5;
UPDATE docs SET data['k']['l'] = '1' WHERE id = 5;
UPDATE docs SET data['k'] = NULL WHERE id = 5 RETURNING data;
UPDATE docs SET data['k'] = '[1,' WHERE id = 5;
INSERT INTO docs (id, data['a']['b']) VALUES (9, '7') RETURNING data;
UPDATE docs SET data['num'] = '99', plain['num'] = '99' WHERE id = 11;
UPDATE docs SET data[17]['added'] = '"x"', plain[17]['added'] = '"x"' WHERE id = 12;
SELECT id, data = plain AS same, data #>> '{17,added}' AS added, data['num'] AS num FROM docs WHERE id IN (11, 12);
DO $$
DECLARE
	v appendable_jsonb := '{"list": [1]}';
BEGIN
	v['list'][1] := '2';
	v['more'] := to_jsonb(v['list'][0]);
	RAISE WARNING '% % %', v, v['list'], v ->> 'more';
END $$;
CREATE TABLE copied AS SELECT id, data FROM docs;
INSERT INTO copied (data) SELECT data FROM docs WHERE id = 12;
SELECT pg_typeof(data), count(*), bool_and(coalesce(data = (SELECT d.data FROM docs d WHERE d.id = copied.id), true)) FROM copied GROUP BY 1;
-- what columns of the type may have
CREATE TABLE made (id int PRIMARY KEY, data appendable_jsonb NOT NULL DEFAULT '{"n": 0}' CHECK (jsonb_typeof(data) = 'object' AND NOT data ? 'forbidden'),
	n int GENERATED ALWAYS AS ((data ->> 'n')::int) STORED, other appendable_jsonb DEFAULT jsonb_build_array(1));
CREATE INDEX made_k ON made ((data ->> 'k'));
CREATE INDEX ON made ((data['s']));
CREATE INDEX made_gin ON made USING gin ((data::jsonb));
CREATE INDEX made_path ON made USING gin ((data::jsonb) jsonb_path_ops);
CREATE INDEX made_part ON made (id) WHERE data @> '{"part": true}';
CREATE INDEX ON made (data);
CREATE INDEX ON made USING gin (data);
CREATE INDEX ON made USING gin (data jsonb_path_ops);
CREATE INDEX made_hash ON made USING hash (data);
CREATE UNIQUE INDEX made_unique ON made (((data -> 'u')::text));
INSERT INTO made (id) VALUES (1);
INSERT INTO made VALUES (2, jsonb_build_object('n', 5, 'k', repeat('k', 100), 'l', repeat('l', 90000), 'part', true));
INSERT INTO made VALUES (3, '[]');
INSERT INTO made VALUES (3, '{"forbidden": 1}');
UPDATE made SET data = data || '{"forbidden": 1}' WHERE id = 2;
INSERT INTO made VALUES (3, '{"u": 3}'), (4, '{"u": 3}');
UPDATE made SET data = '{"n": 7, "k": "seven"}' WHERE id = 1;
SELECT id, n, data -> 'n' AS in_value, other FROM made ORDER BY id;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id FROM made WHERE data ->> 'k' = 'seven';
EXPLAIN (COSTS off) SELECT id FROM made WHERE data @> '{"n": 5}';
EXPLAIN (COSTS off) SELECT id FROM made WHERE data::jsonb ? 'k';
EXPLAIN (COSTS off) SELECT id FROM made WHERE data = '{"n": 7, "k": "seven"}';
EXPLAIN (COSTS off) SELECT id FROM made WHERE data @> '{"part": true}' AND id > 1;
SELECT id FROM made WHERE data ->> 'k' = 'seven';
SELECT id FROM made WHERE data @> '{"n": 5}';
SELECT id FROM made WHERE data ? 'k' ORDER BY id;
SELECT id FROM made WHERE data = '{"k": "seven", "n": 7}';
SELECT id FROM made WHERE data @> '{"part": true}' AND id > 1;
RESET enable_seqscan;
-- the plan calls the functions that read a part; the operators stay
EXPLAIN (VERBOSE, COSTS off) SELECT data -> 'n', data #>> '{a,b}', jsonb_array_length(data), jsonb_extract_path(data, 'a', 'b') FROM made WHERE data ? 'k';
ALTER TYPE appendable_jsonb RENAME TO other;
CREATE DOMAIN object AS appendable_jsonb;
CREATE TABLE arrays (data appendable_jsonb[]);
CREATE TABLE parts (data appendable_jsonb) PARTITION BY LIST (data);
SELECT pg_typeof(ARRAY[data]), (ARRAY[data])[1] ->> 'n' AS n FROM made WHERE id = 2;
CREATE VIEW shown AS SELECT id, data, data -> 'n' AS n, data['k'] AS k, data[1] AS one FROM made;
SELECT replace(pg_get_viewdef('shown'), 'made.', '') AS definition;
UPDATE shown SET data = '{"n": 8}' WHERE id = 1;
SELECT * FROM shown WHERE id = 1;
CREATE FUNCTION keep(d appendable_jsonb) RETURNS appendable_jsonb LANGUAGE plpgsql AS $$
DECLARE
	v appendable_jsonb := d;
BEGIN
	v := v || '{"kept": true}';
	RETURN v;
END $$;
UPDATE made SET data = keep(data) WHERE id = 1 RETURNING data ->> 'kept' AS kept, n;
SELECT keep('{"a": 1}'), keep('{"a": 2}'::jsonb::appendable_jsonb);
PREPARE put (int, appendable_jsonb) AS UPDATE made SET data = $2 WHERE id = $1 RETURNING data;
EXECUTE put (1, '{"n": 9}');
EXECUTE put (1, '{"n": 9');
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'put';
DEALLOCATE put;
PREPARE get (text) AS SELECT data -> $1, data ->> $1, data ? $1, data[$1] FROM made WHERE id = 2;
EXECUTE get ('n');
DEALLOCATE get;
-- subscripts and parts of a path that are compressed, out of line, or in chunks
CREATE TABLE keys (id int, key text, own appendable_text);
INSERT INTO keys VALUES (1, repeat('k', 3000), repeat('k', 3000)), (2, (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 100) i), (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 100) i));
CREATE TABLE keyed (doc appendable_jsonb);
INSERT INTO keyed SELECT jsonb_object_agg(key, id) || jsonb_build_object('lines', (SELECT jsonb_agg(md5(i::text)) FROM generate_series(1, 1000) i)) FROM keys;
SELECT id, pg_column_size(key) < 3000 AS compressed, doc[key] AS subscript, doc[own] AS own_subscript, doc #> ARRAY[key] AS path, doc -> key AS child, doc ? key AS exists, doc ->> own AS own_child
	FROM keyed, keys ORDER BY id;
DROP TABLE keys, keyed;
-- what is rolled back, also in a subtransaction, is not there
BEGIN;
SAVEPOINT s;
UPDATE made SET data = jsonb_build_object('n', 1, 'l', repeat('m', 90000)) WHERE id = 2;
ROLLBACK TO s;
UPDATE made SET data = '{"n": 10}' WHERE id = 1;
COMMIT;
SELECT id, n, length(data::text) FROM made ORDER BY id;
SELECT count(*) FROM appendable_bytea_check();
-- a column converted, and back
CREATE TABLE chats (id int PRIMARY KEY, chat jsonb DEFAULT '{}' CHECK (chat IS NULL OR jsonb_typeof(chat) <> 'null'), j json, t text);
CREATE INDEX chats_gin ON chats USING gin (chat);
CREATE INDEX chats_title ON chats ((chat ->> 'title'));
CREATE INDEX chats_hash ON chats USING hash (chat);
INSERT INTO chats SELECT i, jsonb_build_object('title', i, 'messages', repeat('m', i * 5000)), json_build_array(i), json_build_array(i)::text FROM generate_series(1, 3) i;
ALTER TABLE chats ALTER chat TYPE appendable_jsonb;
DROP INDEX chats_gin;
ALTER TABLE chats ALTER chat TYPE appendable_jsonb;
ALTER TABLE chats ALTER j TYPE appendable_jsonb;
ALTER TABLE chats ALTER t TYPE appendable_jsonb;
ALTER TABLE chats ALTER t TYPE appendable_jsonb USING t::appendable_jsonb;
INSERT INTO chats (id) VALUES (4);
SELECT id, pg_typeof(chat), length(chat ->> 'messages'), j, t FROM chats ORDER BY id;
SELECT "values", values_in_chunks FROM appendable_bytea_stats('chats');
ALTER TABLE chats ALTER j TYPE appendable_json;
ALTER TABLE chats ALTER j TYPE appendable_jsonb;
ALTER TABLE chats ALTER chat TYPE jsonb, ALTER j TYPE json, ALTER t TYPE text;
SELECT id, pg_typeof(chat), length(chat ->> 'messages'), pg_typeof(j), pg_typeof(t), t FROM chats ORDER BY id;
ALTER TABLE chats ALTER chat TYPE appendable_jsonb, ALTER j TYPE appendable_jsonb;
SELECT appendable_bytea_detach('chats');
INSERT INTO chats (id) VALUES (5);
SELECT id, pg_typeof(chat), length(chat ->> 'messages'), pg_typeof(j), j FROM chats ORDER BY id;
SELECT relname, am.amname FROM pg_class c JOIN pg_am am ON am.oid = relam WHERE relname = 'chats';
-- what is changed in a large value is about what is stored
SET appendable_bytea.store_differences = on;
CREATE TABLE logs (id int PRIMARY KEY, doc appendable_jsonb) WITH (fillfactor = 50);
INSERT INTO logs SELECT 1, jsonb_build_object('title', 'first', 'lines', jsonb_agg(jsonb_build_object('order', i, 'output', md5(i::text) || repeat(md5((-i)::text), 7)))) FROM generate_series(1, 3600) i;
SELECT appendable_octet_length(doc) > 1000000 AS large FROM logs;
CREATE FUNCTION logged(statement text) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
	before pg_lsn := pg_current_wal_insert_lsn();
BEGIN
	EXECUTE statement;
	RETURN pg_current_wal_insert_lsn() - before;
END $$;
CHECKPOINT;
SELECT count(logged('UPDATE logs SET doc = doc || ''{"title": "0"}''')) FROM generate_series(1, 5) i;
SELECT logged('UPDATE logs SET doc = doc || ''{"title": "other"}''') < 20000 AS title;
SELECT logged('UPDATE logs SET doc[''lines''][1800][''output''] = ''"changed"''') < 40000 AS in_the_middle;
SELECT logged($$UPDATE logs SET doc = jsonb_insert(doc, '{lines,-1}', '{"order": 3601}', true)$$) < 20000 AS at_the_end;
-- an assignment to a member takes about as much WAL as a short append
SELECT count(logged('UPDATE logs SET doc[''meta''][''state''] = ''"new"''')) FROM generate_series(1, 5) i;
SELECT logged('UPDATE logs SET doc[''meta''][''state''] = ''"old"''') < 1000 AS of_same_length, logged('UPDATE logs SET doc[''meta''][''state''] = ''"finished"''') < 1000 AS longer;
SELECT doc ->> 'title' AS title, doc['meta'] AS meta, doc #>> '{lines,1800,output}' AS changed, doc #>> '{lines,-1,order}' AS last, jsonb_array_length(doc -> 'lines') FROM logs;
SELECT count(*) FROM appendable_bytea_check();
-- a member is added to an object, or an element to an array, that has many: what follows has other offsets
CREATE TABLE maps (id int PRIMARY KEY, doc appendable_jsonb, plain jsonb) WITH (fillfactor = 50);
INSERT INTO maps SELECT 1, d, d FROM (SELECT jsonb_object_agg(md5(i::text), jsonb_build_object('n', i, 'text', repeat(md5((-i)::text), i % 20))) || '{"list": [1, {"x": "y"}]}' AS d FROM generate_series(1, 10000) i) q;
INSERT INTO maps SELECT 2, d, d FROM (SELECT jsonb_build_object('a', jsonb_agg(CASE i % 4 WHEN 0 THEN to_jsonb(i) WHEN 1 THEN to_jsonb(md5(i::text)) WHEN 2 THEN 'null' ELSE jsonb_build_array(i, 'x') END)) AS d FROM generate_series(1, 70000) i) q;
CHECKPOINT;
SELECT count(logged(format('UPDATE maps SET doc = doc || jsonb_build_object(%L, %L), plain = NULL WHERE id = 1', md5((i * 20000)::text), 'added'))) FROM generate_series(1, 3) i;
SELECT logged(format('UPDATE maps SET doc = doc || jsonb_build_object(%L, %L) WHERE id = 1', md5(80000::text), 'added')) < 12000 AS into_an_object;
SELECT count(logged('UPDATE maps SET doc = jsonb_insert(doc, ''{a,30000}'', ''"added"''), plain = NULL WHERE id = 2')) FROM generate_series(1, 3) i;
SELECT logged('UPDATE maps SET doc = jsonb_insert(doc, ''{a,100}'', ''"added"'') WHERE id = 2') < 12000 AS into_an_array;
UPDATE maps SET plain = (doc::text)::jsonb;
SELECT id, doc = plain AS same, doc::text = plain::text AS same_text, appendable_jsonb_hash(doc) = jsonb_hash(plain) AS same_hash, jsonb_array_length(coalesce(doc -> 'a', '[]')) AS n,
	appendable_octet_length(doc) = pg_column_size(plain::text::jsonb) - 4 AS same_size FROM maps ORDER BY id;
SELECT count(*), count(*) FILTER (WHERE doc -> k IS DISTINCT FROM plain -> k OR doc ->> k IS DISTINCT FROM plain ->> k OR (doc ? k) IS DISTINCT FROM (plain ? k) OR doc::jsonb -> k IS DISTINCT FROM plain -> k) AS different
	FROM maps, LATERAL (SELECT md5(i::text) AS k FROM generate_series(1, 80000, 4000) i UNION ALL VALUES ('list'), ('none')) keys WHERE id = 1;
SELECT count(*), count(*) FILTER (WHERE doc #> ARRAY['a', i::text] IS DISTINCT FROM plain #> ARRAY['a', i::text] OR doc -> 'a' -> i IS DISTINCT FROM plain -> 'a' -> i) AS different
	FROM maps, (SELECT generate_series(-80000, 80000, 9970) UNION ALL VALUES (0), (1023), (1024), (1025), (70003), (70004)) n(i) WHERE id = 2;
SELECT doc = plain AS same FROM (SELECT doc || '{"x": 1}'::jsonb, plain || '{"x": 1}' FROM maps) q(doc, plain);
SELECT count(*) FROM appendable_bytea_check();
DROP TABLE maps;
DROP VIEW shown;
DROP TABLE docs, copied, made, chats, logs;
DROP FUNCTION keep, logged;
-- workers run the functions that are in the leader's plan
CREATE TABLE in_workers (id int, own appendable_jsonb, plain jsonb) WITH (parallel_workers = 2);
INSERT INTO in_workers SELECT id, d, d FROM generate_series(1, 8) id, LATERAL (SELECT jsonb_build_object('id', id, 'lines', jsonb_agg(md5((i * id)::text))) AS d FROM generate_series(1, 1000) i) q;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
DO $$ DECLARE plan json; BEGIN EXECUTE 'EXPLAIN (FORMAT JSON) SELECT count(*) FROM in_workers WHERE own ? ''id''' INTO plan; ASSERT plan::text ~ '"Gather"'; END $$;
SELECT count(*) FROM in_workers WHERE own -> 'lines' -> 3 = plain -> 'lines' -> 3 AND own ->> 'id' = plain ->> 'id' AND own #>> '{lines,5}' = plain #>> '{lines,5}'
	AND own ? 'id' AND jsonb_array_length(own -> 'lines') = 1000 AND own['lines'][2] = plain['lines'][2];
DROP TABLE in_workers;

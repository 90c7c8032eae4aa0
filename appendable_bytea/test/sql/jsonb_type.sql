-- appendable_jsonb: the bytes of jsonb, and jsonb to all that reads it.
SET client_min_messages = warning;
-- chunks are counted as they are without compression
SET appendable_bytea.compress_new = off;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
\set VERBOSITY terse
CREATE TABLE docs (id int PRIMARY KEY, data appendable_jsonb, plain jsonb) WITH (fillfactor = 80);
INSERT INTO docs SELECT id, d, d FROM (VALUES (1, '{"a": 1, "b": [1, 2, {"c": "x"}], "a":  2}'::jsonb), (2, ' [1,"zwei",null, -3.50, true] '), (3, '"text"'), (4, 'null'), (5, NULL), (6, '{}'), (7, '[]'), (8, '1.0')) v(id, d);
-- an object of 300 keys, one of them an array and one an object; an array; a large scalar
INSERT INTO docs SELECT 11, d, d FROM (SELECT jsonb_object_agg('key' || i, repeat(md5(i::text), i % 20))
	|| '{"a": {"b": {"c": [1, {"d": "deep"}]}}, "n": null, "t": true, "f": false, "": "empty key", "num": -12.340}' || jsonb_build_object('b', (SELECT jsonb_agg(i) FROM generate_series(1, 1000) i)) AS d FROM generate_series(1, 300) i) q;
INSERT INTO docs SELECT 12, d, d FROM (SELECT jsonb_agg(jsonb_build_object('line', i, 'a', repeat('x', i % 80)) ORDER BY i) || '["zwei", null, 5, [1, 2, {"c": "x"}]]' AS d FROM generate_series(1, 2000) i) q;
INSERT INTO docs SELECT 13, d, d FROM (SELECT to_jsonb(repeat('scalar', 10000)) AS d) q;
SELECT "values", values_in_chunks FROM appendable_bytea_stats('docs');
SELECT id, data, data::text = plain::text AS same FROM docs WHERE id < 10 ORDER BY id;
SELECT bool_and(data::text = plain::text AND data = plain AND appendable_jsonb_send(data) = jsonb_send(plain)) AS same FROM docs WHERE id <> 5;
-- only JSON comes in, by jsonb's own errors
INSERT INTO docs VALUES (9, '[1,');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO docs VALUES (9, '');
INSERT INTO docs VALUES (9, '"\u0000"');
INSERT INTO docs VALUES (9, ('[' || 'x]')::appendable_jsonb);
INSERT INTO docs VALUES (9, '1e400000');
UPDATE docs SET data = '{"a" 1}' WHERE id = 1;
COPY docs (id, data) FROM STDIN;
9	[1, 2
\.
COPY docs (id, data) FROM STDIN;
9	{"copied": [1, "\\n"]}
\.
SELECT data, data ->> 'copied' AS copied FROM docs WHERE id = 9;
DELETE FROM docs WHERE id = 9;
COPY (SELECT data FROM docs WHERE id < 10 ORDER BY id) TO STDOUT;
-- operators and functions of jsonb: what they give for values of each kind is what they give for jsonb
CREATE FUNCTION compare(expression text) RETURNS TABLE (value text, differs text) LANGUAGE plpgsql AS $$
DECLARE
	found text[] := '{}';
	one text;
	r record;
BEGIN
	FOR r IN SELECT id, c FROM docs, unnest(ARRAY['data', 'plain']) WITH ORDINALITY u(c, o) ORDER BY id, o LOOP
		BEGIN
			EXECUTE format('SELECT string_agg(x::text, '' '' ORDER BY x::text) FROM (SELECT (%s)::text AS x FROM docs WHERE id = %s) q', regexp_replace(expression, '(?<![<@])@(?![>@?])', r.c, 'g'), r.id) INTO one;
			found := found || coalesce(one, '-');
		EXCEPTION WHEN OTHERS THEN
			found := found || (SQLSTATE || ' ' || replace(SQLERRM, 'appendable_jsonb', 'jsonb'));
		END;
	END LOOP;
	RETURN QUERY SELECT string_agg(left(f, 12), ' ' ORDER BY n) FILTER (WHERE n % 2 = 0 AND f <> '-'),
		string_agg(left(f, 100), ' ' ORDER BY n) FILTER (WHERE found[n::int + n::int % 2] <> found[n::int + n::int % 2 - 1])
		FROM unnest(found) WITH ORDINALITY u(f, n);
END $$;
\pset format unaligned
SELECT e, c.* FROM unnest(ARRAY['@ -> ''a''', '@ ->> ''a''', '@ -> 1', '@ ->> 1', '@ -> 0', '@ -> -1', '@ ->> -2', '@ -> -5000', '@ -> 5000', '@ -> 2003', '@ ->> ''num''', '@ ->> ''n''', '@ -> ''n''', '@ ->> ''t''', '@ ->> ''f''',
	'@ -> ''''', '@ -> ''key299''', '@ -> ''key300''', '@ -> ''key301''', '@ -> ''kez''', '@ -> NULL::text', '@ -> NULL::int', '@ #> ''{b,2}''', '@ #>> ''{b,2,c}''', '@ #> ''{a,b,c,1,d}''', '@ #>> ''{a,b,c,1,d}''', '@ #> ''{a,b,c,-1,d}''', '@ #> ''{a,b,c,-3}''',
	'@ #> ''{b,999}''', '@ #> ''{b,1000}''', '@ #> ''{b,x}''', '@ #> ''{b,1x}''', '@ #> ''{b,-1}''', '@ #> ''{b,99999999999}''', '@ #> ''{}''', '@ #>> ''{}''', '@ #> ''{b,NULL}''', '@ #> ''{-1,2,c}''', '@ #>> ''{17,line}''', '@ #> ''{t,1}''',
	'@ ? ''a''', '@ ? ''zwei''', '@ ? ''nothing''', '@ ? ''text''', '@ ? ''zwe''', '@ ? ''five''', '@ ? ''''', '@ ?| ARRAY[''a'', ''zwei'']', '@ ?& ARRAY[''a'', ''b'']', 'jsonb_array_length(@)', 'jsonb_typeof(@)', 'jsonb_array_length(@ -> ''b'')',
	'@ -> ''a'' -> ''b'' ->> ''c''', '@ -> ''a'' -> ''b'' -> ''c'' -> 1 ->> ''d''', '@ -> ''b'' -> 2 -> ''c''', '@ -> ''b'' -> -1', '@ -> ''b'' ? ''x''', '@ -> ''a'' ? ''b''', 'jsonb_typeof(@ -> 0)', 'jsonb_typeof(@ -> ''num'')', '@ -> 17 ->> ''line''', '@ -> 2003 #>> ''{2,c}''', '@ #> ''{a,b}'' -> ''c'' -> 1',
	'@ -> ''num'' -> ''x''', '@ -> ''n'' ->> 0', '@ -> ''t'' -> 0', 'jsonb_array_length(@ #> ''{}'')', 'jsonb_array_length(@ -> ''a'')', '@ -> ''a'' #>> ''{}''', '@ -> 0 -> 0', '@ -> ''a'' -> NULL::text -> 1', '@ -> ''nothing'' -> ''a''', 'jsonb_extract_path(@, ''a'', ''b'') ->> ''c''',
	'jsonb_extract_path(@, ''b'', ''0'')', 'jsonb_extract_path_text(@, ''b'', ''0'')', 'jsonb_extract_path(@, VARIADIC ''{b,1}'')', 'jsonb_object_field(@, ''a'')', '(@)[''a'']', '(@)[''a''][''b''][''c''][1][''d'']', '(@)[0]', '(@)[-1][2]', '(@)[''b''][2]', '(@)[NULL]', '(@)[1:2]', '(@)[true]',
	'@ || ''{"a": 3}''', '@ || ''[7]''::jsonb', '''[7]''::jsonb || @', '@ || @', '@ - ''a''', '@ - 0', '@ - ARRAY[''a'', ''b'']', '@ #- ''{a}''', 'jsonb_set(@, ''{a}'', ''5'')', 'jsonb_insert(@, ''{b,0}'', ''5'')', 'jsonb_strip_nulls(@)', 'md5(jsonb_pretty(@))',
	'@ @> ''{"a": 2}''', '@ <@ ''{"a": 2, "b": 1}''', '@ @? ''$.b[1]''', '@ @@ ''$.a == 2''', 'jsonb_path_query_first(@, ''$.b[0]'')', 'jsonb_path_exists(@, ''$.a'')', 'jsonb_object_keys(@)', 'jsonb_each_text(@)', 'jsonb_array_elements(@)',
	'@ = @', '@ = ''{"a": 2, "b": [1, 2, {"c": "x"}]}''', '@ = ''1''', '@ <> ''{}''', '@ < ''[]''', '@ <= ''{}''::jsonb', '@ > ''1''', '@ >= ''{}''', '@ IN (''{}'', ''[]'')', '@ = ANY (ARRAY[''{}'', ''null'']::jsonb[])', '@ IS DISTINCT FROM ''{}''', 'nullif(@, ''{}'')',
	'to_json(@)', 'to_jsonb(@)', 'json_build_object(''x'', @)', 'json_build_array(@, 1)', 'jsonb_build_object(''x'', @)', 'row_to_json(row(@, 1))', 'to_jsonb(row(@))', 'array_to_json(ARRAY[@])', '@::json', '@::json -> ''a''', '@::text', '@::varchar(5)', 'concat(@, 1)', 'md5(@::text)', 'length(@::text)',
	'quote_literal(@)', 'format(''%s'', @)', 'coalesce(@, ''[]'')', 'coalesce(@, ''[]''::jsonb) -> 0', 'coalesce(@, ''[]'') -> ''a''', 'CASE WHEN id = 1 THEN @ ELSE ''{}'' END', 'to_tsvector(''simple'', @)', 'jsonb_hash(@)', '@::bytea', 'length(@)', '(@ -> ''a'')::int', 'jsonb_typeof(@) || 1', 'pg_column_size(@) > 0'])
	WITH ORDINALITY AS u(e, n), LATERAL compare(e) c ORDER BY n;
-- casts to numbers; since PostgreSQL 18 a null of jsonb is one of SQL
SELECT string_agg(e, ' ' ORDER BY n) AS casts, string_agg(c.differs, ' ') AS differs, bool_or(c.value ~ '^22') AS errors FROM unnest(ARRAY['@::int', '@::bool', '@::numeric', '@::smallint', '@::bigint', '@::real', '@::double precision']) WITH ORDINALITY AS u(e, n), LATERAL compare(e) c;
\pset format aligned
SELECT jsonb_agg(data ORDER BY id) = jsonb_agg(plain ORDER BY id) AS arrays, json_agg(data ORDER BY id)::text = json_agg(plain ORDER BY id)::text AS texts,
	jsonb_object_agg(id, data) = jsonb_object_agg(id, plain) AS objects FROM docs;
SELECT row_to_json(docs) -> 'data' ->> 'a' AS a, to_jsonb(docs) -> 'data' -> 'b' AS b FROM docs WHERE id = 1;
SELECT count(*), sum((e ->> 'line')::int) FROM docs, jsonb_array_elements(data) e WHERE id = 12 AND jsonb_typeof(e) = 'object';
SELECT r.* FROM docs, jsonb_to_record(data) AS r(a int, b jsonb) WHERE id = 1;
SELECT appendable_jsonb_send('[1]') FROM generate_series(1, 2);
-- order and equality are those of jsonb
SELECT string_agg(id::text, ' ' ORDER BY data, id) = string_agg(id::text, ' ' ORDER BY plain, id) AS ordered FROM docs;
SELECT id FROM docs ORDER BY data DESC, id;
INSERT INTO docs VALUES (20, '1', '1'), (21, '1.00', '1.00'), (22, '{"b": 1, "aa": 2}', '{"b": 1, "aa": 2}'), (23, '{"aa": 2, "b": 1.0}', '{"aa": 2, "b": 1.0}');
SELECT data, count(*) FROM docs WHERE id >= 20 OR id = 8 GROUP BY data ORDER BY count(*);
SELECT count(DISTINCT data) = count(DISTINCT plain) AS same, count(DISTINCT data) FROM docs;
SET enable_hashagg = off;
SELECT count(*) FROM (SELECT DISTINCT data FROM docs) d;
RESET enable_hashagg;
SELECT count(*) FROM docs a JOIN docs b ON a.data = b.data;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*) FROM docs a JOIN docs b ON a.data = b.data;
RESET enable_hashjoin;
RESET enable_nestloop;
SELECT count(*) FROM docs a JOIN docs b ON a.data = b.plain;
SELECT appendable_jsonb_hash(data) = jsonb_hash(plain) AS hash, appendable_jsonb_hash_extended(data, 7) = jsonb_hash_extended(plain, 7) AS extended, count(*) FROM docs GROUP BY 1, 2 ORDER BY 3;
DELETE FROM docs WHERE id >= 20;
-- a part of a large value is read without the rest of it
CREATE FUNCTION chunks_read(statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE before bigint; after bigint; store regclass := ('appendable_store.chunks_' || 'docs'::regclass::oid)::regclass;
BEGIN
	before := pg_stat_get_xact_tuples_fetched(i.indexrelid) FROM pg_index i WHERE indrelid = store;
	EXECUTE statement;
	after := pg_stat_get_xact_tuples_fetched(i.indexrelid) FROM pg_index i WHERE indrelid = store;
	RETURN after - before > 8;
END $$;
INSERT INTO docs SELECT 14, jsonb_build_object('in', jsonb_build_object('lines', data)), NULL FROM docs WHERE id = 12;
SELECT e, chunks_read(format('SELECT %s FROM docs WHERE id = %s', e, id)) AS read_whole FROM (VALUES (11, 'data -> ''num'''), (11, 'data ->> ''num'''), (11, 'data #> ''{a,b}'''), (11, 'data #>> ''{a,b,c}'''), (11, 'data ? ''num'''), (11, 'data[''a''][''b'']'),
	(11, 'coalesce(data, ''{}'') -> ''num'''), (14, 'jsonb_array_length(data -> ''in'' -> ''lines'')'), (14, 'jsonb_typeof(data #> ''{in,lines}'')'), (14, 'data -> ''in'' -> ''lines'' -> 900 ->> ''line'''), (14, 'data #> ''{in,lines}'' -> -1 ? ''line'''), (14, 'jsonb_array_elements(data -> ''in'' -> ''lines'')'), (14, 'jsonb_array_length(jsonb_path_query_first(data, ''$.in.lines''))'), (12, 'data -> 900'), (12, 'data ->> -1'), (12, 'jsonb_array_length(data)'), (12, 'jsonb_typeof(data)'), (11, 'jsonb_typeof(data)'), (12, 'data ? ''zwei'''), (12, 'data ? ''drei'''), (12, 'jsonb_extract_path(data, ''900'', ''line'')'), (12, 'data[900][''line'']'), (12, 'data -> 900 -> ''line'''), (12, 'jsonb_path_query_first(data, ''$[900]'')'), (11, 'data::text'), (12, 'data || ''[]''')) v(id, e);
DROP TABLE docs;
DROP FUNCTION compare, chunks_read;

-- The ways in which applications write an append to a text: which run as one, and that
-- the results are those of text.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE TABLE a (id int PRIMARY KEY, data appendable_text, plain text, n int DEFAULT 7, d date DEFAULT '2026-01-02') WITH (fillfactor = 50);
INSERT INTO a SELECT i, repeat('line ', 3000 * i), repeat('line ', 3000 * i) FROM generate_series(1, 3) i;
INSERT INTO a VALUES (4, '', ''), (5, NULL, NULL);
-- run an UPDATE on both columns; does it read the value, and what WAL does it write for a long one?
CREATE FUNCTION append(expression text) RETURNS TABLE (same bool, in_chunk bool) LANGUAGE plpgsql AS $$
DECLARE
	before pg_lsn;
BEGIN
	in_chunk := false;
	-- twice, for the first change of a page after a checkpoint logs all of it, also one that a read makes
	FOR i IN 1..2 LOOP
		EXECUTE format('UPDATE a SET plain = %s', replace(expression, '@', 'plain'));
		PERFORM md5(data::text) FROM a;
		EXECUTE format('UPDATE a SET data = %s WHERE id <> 1', replace(expression, '@', 'data'));
		before := pg_current_wal_insert_lsn();
		EXECUTE format('UPDATE a SET data = %s WHERE id = 1', replace(expression, '@', 'data'));
		in_chunk := in_chunk OR pg_current_wal_insert_lsn() - before < 2000;
	END LOOP;
	SELECT bool_and(a.data::text IS NOT DISTINCT FROM a.plain) INTO same FROM a;
	RETURN NEXT;
END $$;
CREATE FUNCTION runs_as(expression text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (VERBOSE, COSTS OFF) UPDATE a SET data = %s', replace(expression, '@', 'data')) LOOP
		IF line ~ 'Output: .*data' THEN
			RETURN NEXT regexp_replace(replace(line, 'public.', ''), '^ *Output: (.*), (a\.)?ctid$', '\1');
		END IF;
	END LOOP;
END $$;
CHECKPOINT;
SELECT r.same FROM append('concat(@, ''warm'')') r;
SELECT e, runs_as(e), r.* FROM unnest(ARRAY['@ || ''x''', 'concat(@, ''x'')', 'concat(@, ''x'', NULL, id, d, true)', 'concat(@, NULL)', 'concat(@::text, ''x'')', 'concat(@ || ''y'', ''x'')', 'concat(concat(@, ''y''), ''x'')',
	'concat(@, ''x'') || ''y''', 'concat_ws('', '', @, ''x'')', 'concat_ws('', '', @, NULL, ''x'', n)', 'concat_ws('', '', @, NULL)', 'format(''%s%s'', @, ''x'')', 'format(''%s, %L %I %% %5s|'', @, n, ''Id'', d)',
	'format(''%s line'', @, 1)', 'format(''%s%*s'', @, n, ''w'')', 'coalesce(@, '''') || ''x''', 'coalesce(@, ''''::text) || ''x''', 'coalesce(@::text, ''none'') || ''x'' || n', 'CASE WHEN n = 7 THEN concat(@, ''c'') ELSE @ END']) WITH ORDINALITY u(e, o), LATERAL append(e) r ORDER BY o;
-- these read the value: the chunk alone is stored all the same, for the old value is the start of the new one
SELECT e, runs_as(e), r.* FROM unnest(ARRAY['concat(VARIADIC ARRAY[@::text, ''x''])', 'format(''%1$s%2$s'', @, ''x'')', 'format(''%s%2$s'', @, ''x'')', '(SELECT concat(@, ''s''))', 'concat_ws('', '', @ || ''y'', ''x'')', 'rpad(@, length(@) + 1, ''r'')',
	'array_to_string(ARRAY[@, ''x''], '''')', 'coalesce(concat_ws(NULL, @, ''x''), @)', 'coalesce(@::text, d::text, n::text) || ''x''']) WITH ORDINALITY u(e, o), LATERAL append(e) r ORDER BY o;
-- what reads the value, by looks at its store
CREATE FUNCTION looks(expression text) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
	store oid := (SELECT s.store FROM appendable_bytea_stats('a') s);
	before int8 := (SELECT coalesce(idx_scan, 0) + seq_scan FROM pg_stat_xact_all_tables WHERE relid = store);
BEGIN
	EXECUTE format('UPDATE a SET data = %s WHERE id = 1', expression);
	RETURN (SELECT idx_scan + seq_scan FROM pg_stat_xact_all_tables WHERE relid = store) - coalesce(before, 0);
END $$;
BEGIN;
SELECT e, looks(e) = looks('data || ''x''') AS as_an_append FROM unnest(ARRAY['data || ''x''', 'concat(data, ''x'')', 'concat_ws('','', data, ''x'')', 'format(''%s%s'', data, ''x'')', 'coalesce(data, ''''::text) || ''x''', 'array_to_string(ARRAY[data, ''x''], '''')']) e;
ROLLBACK;
-- and these are no appends
SELECT e, runs_as(e), r.same FROM unnest(ARRAY['concat(''x'', @)', 'concat_ws(''x'', '''', @)', 'format(''x%s%s'', @, ''x'')', 'concat(id, @, @)']) WITH ORDINALITY u(e, o), LATERAL append(e) r ORDER BY o;
-- errors are those of the functions
UPDATE a SET data = format('%s%s', data);
UPDATE a SET data = format('%s%d', data, 1);
UPDATE a SET data = format('%s%', data, 1);
UPDATE a SET data = concat(data, 1 / (n - 7));
-- values of other types are as they were
CREATE TABLE others (id int PRIMARY KEY, b appendable_bytea, j appendable_json, t text);
INSERT INTO others VALUES (1, '\x61', '[1]', 't');
UPDATE others SET t = concat(b, j, t) RETURNING t, concat(b, 'x'), concat(j, 'x'), format('%s%s', b, j), concat_ws('-', b, j);
SELECT concat(t, 'x'), format('%s%s', t, 1) FROM others;
-- as applications send it: prepared, an upsert that measures, a variable, a subtransaction
PREPARE p (int, text) AS UPDATE a SET data = concat(data, $2) WHERE id = $1;
EXECUTE p (1, 'prepared');
EXECUTE p (1, NULL);
SET plan_cache_mode = force_generic_plan;
EXECUTE p (1, 'generic');
RESET plan_cache_mode;
INSERT INTO a (id, data) VALUES (1, 'upsert'), (6, 'new') ON CONFLICT (id) DO UPDATE SET data = concat(a.data, excluded.data) RETURNING id, right(data, 10);
CREATE FUNCTION variable() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v appendable_text;
BEGIN
	v := concat(v, 'first');
	SELECT data INTO v FROM a WHERE id = 1;
	v := concat(v, ' variable');
	v := concat_ws(', ', v, 'two');
	v := format('%s%s', v, '!');
	v := coalesce(v::text) || '?';
	v := coalesce(v::text, 'none') || '.';
	UPDATE a SET data = v WHERE id = 1;
	RETURN right(v, 20);
END $$;
SELECT variable();
BEGIN;
SAVEPOINT s;
UPDATE a SET data = concat(data, 'undone') WHERE id = 1;
ROLLBACK TO s;
UPDATE a SET data = concat_ws(' ', data, 'done') WHERE id = 1;
COMMIT;
SELECT right(data, 12) FROM a WHERE id = 1;
SELECT count(*) FROM appendable_bytea_check();
DROP TABLE a, others;
DROP FUNCTION append, runs_as, looks, variable;

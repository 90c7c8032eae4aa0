-- The SELECT of INSERT ... SELECT into a temporary table has workers where it would alone.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.enter_page_cost = 0;
SET max_parallel_workers_per_gather = 2;
CREATE TABLE source AS SELECT i AS id, i % 10 AS v, 'row ' || i AS s FROM generate_series(1, 3000) i;
ANALYZE source;
CREATE TEMP TABLE target (id int, v int, s text);

-- The same rows with workers and without; prints whether the plan has a Gather, and, from
-- the statement run, whether workers ran, and what is left in the table.
CREATE FUNCTION fill(statement text, relation text DEFAULT 'target', OUT gather bool, OUT workers bool, OUT refusal text, OUT same bool, OUT count bigint)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	left_by_one text;
	left_by_all text;
BEGIN
	gather := false;
	workers := false;
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || statement LOOP
		gather := gather OR line LIKE '%Gather%';
		refusal := coalesce(refusal, substring(line FROM 'Parallel Select: not used \((.*)\)'));
	END LOOP;
	EXECUTE 'TRUNCATE ' || relation;
	SET LOCAL parallel_temp.parallel_insert = off;
	EXECUTE statement;
	EXECUTE format('SELECT md5(string_agg(t::text, E''\n'' ORDER BY t::text)), count(*) FROM %I t', relation) INTO left_by_one, count;
	EXECUTE 'TRUNCATE ' || relation;
	SET LOCAL parallel_temp.parallel_insert = on;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || statement LOOP
		workers := workers OR line ~ 'Workers Launched: [1-9]';
	END LOOP;
	EXECUTE format('SELECT md5(string_agg(t::text, E''\n'' ORDER BY t::text)) FROM %I t', relation) INTO left_by_all;
	same := left_by_one IS NOT DISTINCT FROM left_by_all;
END $$;

-- Did workers run?
CREATE FUNCTION ran(statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result bool := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || statement LOOP
		result := result OR line ~ 'Workers Launched: [1-9]';
	END LOOP;
	RETURN result;
END $$;

-- shape
EXPLAIN (COSTS off) INSERT INTO target SELECT * FROM source WHERE v = 1;
EXPLAIN (COSTS off) INSERT INTO target SELECT * FROM source ORDER BY id LIMIT 10;
EXPLAIN (VERBOSE, COSTS off) INSERT INTO target (s) SELECT a.s FROM source a JOIN source b USING (id) WHERE b.v = 3;

-- kinds of queries
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE v = 1');
SELECT * FROM fill('INSERT INTO target (s, id) SELECT s, id FROM source');
SELECT * FROM fill('INSERT INTO target SELECT a.id, b.v FROM source a JOIN source b USING (id)');
SELECT * FROM fill('INSERT INTO target SELECT count(*), v FROM source GROUP BY v');
SELECT * FROM fill('INSERT INTO target SELECT id, v, (SELECT max(s) FROM source) FROM source WHERE id > (SELECT avg(id) FROM source)');
SELECT * FROM fill('INSERT INTO target WITH c AS MATERIALIZED (SELECT * FROM source WHERE v = 2) SELECT a.* FROM c a JOIN source b USING (id)');
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE v = 1 UNION ALL SELECT * FROM source WHERE v = 2');
SELECT * FROM fill('INSERT INTO target SELECT id, v, s FROM (SELECT *, row_number() OVER (PARTITION BY v ORDER BY id) AS n FROM source) x WHERE n < 5');
SELECT * FROM fill('INSERT INTO target VALUES (1, 2), (3, 4)');
SELECT * FROM fill('INSERT INTO target SELECT i FROM generate_series(1, 100) i');

-- from a temporary table; from one that has wide values; from itself
CREATE TEMP TABLE near AS SELECT id, v, CASE WHEN v = 1 THEN repeat(s || md5(s), 400) ELSE s END AS s FROM source;
SELECT * FROM fill('INSERT INTO target SELECT * FROM near WHERE v < 3');
SELECT * FROM fill('INSERT INTO target SELECT a.* FROM near a JOIN source b USING (id)');
EXPLAIN (COSTS off) INSERT INTO near SELECT * FROM near;
BEGIN;
INSERT INTO near SELECT id + 3000, v, s FROM near;
SELECT count(*), count(DISTINCT id) FROM near;
ROLLBACK;
CREATE TEMP TABLE child () INHERITS (near);
BEGIN;
EXPLAIN (COSTS off) INSERT INTO child SELECT * FROM near;
INSERT INTO child SELECT * FROM near;
SELECT count(*) FROM near;
ROLLBACK;
DROP TABLE child;

-- what columns may have
CREATE DOMAIN small AS int;
CREATE FUNCTION odd(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN $1 % 2 = 1; END';
CREATE FUNCTION odd_safe(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN $1 % 2 = 1; END';
CREATE DOMAIN looked_at AS int CHECK (odd(VALUE) IS NOT NULL);
CREATE TEMP TABLE defaults (id int NOT NULL, dropped text, d int DEFAULT 7, small small, at timestamptz DEFAULT '2026-01-01', g int GENERATED ALWAYS AS (id * 2) STORED, CHECK (id > 0), CHECK (odd_safe(id) IS NOT NULL));
ALTER TABLE defaults DROP COLUMN dropped;
SELECT * FROM fill('INSERT INTO defaults (id, small) SELECT id, v FROM source', 'defaults');
ALTER DOMAIN small ADD CHECK (VALUE < 100000);
SELECT * FROM fill('INSERT INTO defaults (id, small) SELECT id, v FROM source', 'defaults');
ALTER DOMAIN small DROP CONSTRAINT small_check;
SELECT * FROM fill('INSERT INTO defaults SELECT id FROM source', 'defaults');
CREATE TEMP TABLE serials (i serial, id int);
SELECT gather, workers, refusal, count FROM fill('INSERT INTO serials (id) SELECT id FROM source', 'serials');
SELECT * FROM fill('INSERT INTO serials SELECT id, id FROM source', 'serials');
CREATE TEMP TABLE identities (i int GENERATED ALWAYS AS IDENTITY, id int);
SELECT gather, workers, refusal, count FROM fill('INSERT INTO identities (id) SELECT id FROM source', 'identities');
CREATE TEMP TABLE checked (id int CHECK (odd(id) IS NOT NULL));
SELECT * FROM fill('INSERT INTO checked SELECT id FROM source', 'checked');
CREATE TEMP TABLE of_domain (id looked_at);
SELECT * FROM fill('INSERT INTO of_domain SELECT id FROM source', 'of_domain');
SELECT * FROM fill('INSERT INTO target SELECT id FROM source WHERE odd(id)');
SELECT * FROM fill('INSERT INTO target SELECT id FROM source WHERE odd_safe(id)');

-- functions of defaults: workers call what is safe for them, and nothing else
CREATE FUNCTION given() RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN 7; END';
CREATE FUNCTION given_unsafe() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 8; END';
CREATE FUNCTION given_restricted() RETURNS int LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN pg_backend_pid(); END';
CREATE TEMP TABLE given (id int, d int DEFAULT given());
SELECT * FROM fill('INSERT INTO given (id) SELECT id FROM source', 'given');
SELECT count(*) FROM given WHERE d = 7;
ALTER TABLE given ALTER d SET DEFAULT given_restricted();
SELECT * FROM fill('INSERT INTO given (id) SELECT id FROM source', 'given');
SELECT count(*) FROM given WHERE d = pg_backend_pid();
ALTER TABLE given ALTER d SET DEFAULT given_unsafe();
SELECT * FROM fill('INSERT INTO given (id) SELECT id FROM source', 'given');
SELECT count(*) FROM given WHERE d = 8;
ALTER TABLE given ALTER d SET DEFAULT (random() * 1000)::int;
SELECT gather, workers, refusal, count FROM fill('INSERT INTO given (id) SELECT id FROM source', 'given');
DROP TABLE given;
DROP FUNCTION given, given_unsafe, given_restricted;

-- an error of the target's own
INSERT INTO defaults SELECT id - 1 FROM source;
INSERT INTO defaults SELECT nullif(id, 500) FROM source;
SELECT count(*) FROM defaults WHERE id IS NULL OR id <= 0;

-- indexes
CREATE TEMP TABLE indexed (id int PRIMARY KEY, v int, s text);
CREATE INDEX ON indexed ((id % 7)) WHERE v > 2;
SELECT * FROM fill('INSERT INTO indexed SELECT * FROM source', 'indexed');
SET enable_seqscan = off;
SELECT id, s FROM indexed WHERE id IN (1, 1500, 3000) ORDER BY id;
RESET enable_seqscan;
\set VERBOSITY terse
INSERT INTO indexed SELECT * FROM source;
\set VERBOSITY default
CREATE INDEX by_function ON indexed (odd_safe(id));
SELECT * FROM fill('INSERT INTO indexed SELECT * FROM source', 'indexed');
ALTER FUNCTION odd_safe PARALLEL UNSAFE;
SELECT * FROM fill('INSERT INTO indexed SELECT * FROM source', 'indexed');
ALTER FUNCTION odd_safe PARALLEL SAFE;
DROP INDEX by_function;
CREATE TEMP TABLE excluded (id int, EXCLUDE USING btree (id WITH =));
SELECT * FROM fill('INSERT INTO excluded SELECT id FROM source', 'excluded');
SELECT * FROM fill('INSERT INTO indexed SELECT * FROM source ON CONFLICT DO NOTHING', 'indexed');
SELECT * FROM fill('INSERT INTO indexed SELECT * FROM source ON CONFLICT (id) DO UPDATE SET v = indexed.v', 'indexed');

-- triggers: those that run when the workers have gone may do anything
CREATE TABLE log (n bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log SELECT count(*) FROM target; RETURN new; END';
CREATE FUNCTION note_new() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log SELECT count(*) FROM new_rows; RETURN NULL; END';
CREATE TRIGGER after_each AFTER INSERT ON target FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after_all AFTER INSERT ON target REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_new();
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE id <= 100');
SELECT n, count(*) FROM log GROUP BY n;
DROP TRIGGER after_each ON target;
CREATE TRIGGER after_some AFTER INSERT ON target FOR EACH ROW WHEN (odd(new.id)) EXECUTE FUNCTION note();
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE id <= 100');
DROP TRIGGER after_some ON target;
CREATE TRIGGER before_each BEFORE INSERT ON target FOR EACH ROW EXECUTE FUNCTION note();
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE id <= 100');
DROP TRIGGER before_each ON target;
CREATE TRIGGER before_all BEFORE INSERT ON target EXECUTE FUNCTION note();
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE id <= 100');
DROP TRIGGER before_all ON target;
DROP TRIGGER after_all ON target;
CREATE TEMP TABLE referring (id int REFERENCES indexed);
SELECT * FROM fill('INSERT INTO referring SELECT id FROM source', 'referring');
INSERT INTO referring SELECT id + 1 FROM source;
SELECT count(*) FROM referring;

-- RETURNING, WITH, row security, views, rules, partitions, permanent tables
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE v = 1 RETURNING id + 1');
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE v = 1 RETURNING odd(id)');
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE v = 1 RETURNING (SELECT max(id) FROM source)');
TRUNCATE target;
INSERT INTO target SELECT * FROM source WHERE id < 4 RETURNING id, v, s;
SELECT gather, workers, refusal, same, count FROM fill('WITH w AS (INSERT INTO log SELECT 1 RETURNING n) INSERT INTO target SELECT id FROM source, w');
SET client_min_messages = warning;
CREATE VIEW pg_temp.narrow AS SELECT id, v FROM target WHERE v < 100;
SELECT * FROM fill('INSERT INTO narrow SELECT id, v FROM source');
CREATE OR REPLACE VIEW pg_temp.narrow AS SELECT id, v FROM target WHERE v < 100 WITH CHECK OPTION;
SELECT * FROM fill('INSERT INTO narrow SELECT id, v FROM source');
RESET client_min_messages;
CREATE TEMP TABLE parted (id int, v int) PARTITION BY LIST (v);
CREATE TEMP TABLE part PARTITION OF parted DEFAULT;
SELECT * FROM fill('INSERT INTO parted SELECT id, v FROM source', 'parted');
SELECT * FROM fill('INSERT INTO part SELECT id, v FROM source', 'part');
CREATE TABLE permanent (id int);
EXPLAIN (COSTS off) INSERT INTO permanent SELECT id FROM source;

-- privileges are those of the insertion
CREATE ROLE pt_filler;
GRANT SELECT ON source TO pt_filler;
GRANT USAGE ON SCHEMA public TO pt_filler;
SET ROLE pt_filler;
INSERT INTO target SELECT * FROM source;
RESET ROLE;
REVOKE ALL ON source FROM pt_filler;
REVOKE ALL ON SCHEMA public FROM pt_filler;

-- prepared statements; a kept plan whose target's check is no longer safe
PREPARE fill_some(int) AS INSERT INTO target SELECT id, v, s FROM source WHERE v = $1;
SET plan_cache_mode = force_generic_plan;
TRUNCATE target;
EXPLAIN (COSTS off) EXECUTE fill_some(1);
EXECUTE fill_some(1);
EXECUTE fill_some(2);
SELECT v, count(*) FROM target GROUP BY v ORDER BY v;
PREPARE fill_defaults AS INSERT INTO defaults SELECT id FROM source;
TRUNCATE defaults;
SELECT ran('EXECUTE fill_defaults');
ALTER FUNCTION odd_safe PARALLEL UNSAFE;
CREATE OR REPLACE FUNCTION odd_safe(int) RETURNS bool LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS 'BEGIN IF $1 = 1 THEN INSERT INTO log VALUES (9999); END IF; RETURN true; END';
SELECT ran('EXECUTE fill_defaults');
SELECT count(*), (SELECT count(*) FROM log WHERE n = 9999) FROM defaults;
SET parallel_temp.parallel_insert = off;
SELECT ran('EXECUTE fill_some(3)');
RESET parallel_temp.parallel_insert;
RESET plan_cache_mode;
DEALLOCATE ALL;

-- transactions: ids and commands of the leader
TRUNCATE target;
BEGIN;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_id;
SAVEPOINT a;
INSERT INTO target SELECT * FROM source WHERE v = 1;
SELECT count(*) FROM target;
ROLLBACK TO a;
SELECT count(*) FROM target;
SAVEPOINT b;
INSERT INTO target SELECT * FROM source WHERE v = 2;
RELEASE b;
INSERT INTO target SELECT * FROM source WHERE v = 3;
UPDATE target SET v = 4 WHERE v = 3;
INSERT INTO source SELECT 5000 + i, 5, 'new' FROM generate_series(1, 10) i;
INSERT INTO target SELECT * FROM source WHERE v = 5 AND id > 3000;
COMMIT;
SELECT v, count(*), count(DISTINCT xmin::text) FROM target GROUP BY v ORDER BY v;

-- PL/pgSQL, SPI, exceptions, cursors, functions in functions
CREATE FUNCTION fill_in_function(bad int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint; r record; found_rows bigint := 0;
BEGIN
	BEGIN
		INSERT INTO target SELECT id / bad, v, s FROM source;
	EXCEPTION WHEN division_by_zero THEN
		INSERT INTO target SELECT -1, v, s FROM source WHERE v = 1;
	END;
	GET DIAGNOSTICS n = ROW_COUNT;
	FOR r IN INSERT INTO target SELECT -2, v, s FROM source WHERE v = 2 RETURNING id LOOP
		found_rows := found_rows + 1;
	END LOOP;
	RETURN n * 10000 + found_rows;
END $$;
TRUNCATE target;
SELECT fill_in_function(1);
SELECT fill_in_function(0);
SELECT sign(id) * least(abs(id), 3) AS id, count(*) FROM target GROUP BY 1 ORDER BY 1;
CREATE FUNCTION fill_and_return_one() RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	INSERT INTO target SELECT id, v, s FROM source WHERE id = 77 RETURNING id INTO n;
	RETURN n;
END $$;
SELECT fill_and_return_one();
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM target WHERE id = 77;
INSERT INTO target SELECT 77, v, s FROM source;
FETCH ALL FROM c;
COMMIT;

-- A volatile function begins commands, for which there are no ids while there are workers;
-- a domain checks columns that the statement does not name, and its function may change after planning.
CREATE FUNCTION looks(n int) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS
	'DECLARE r text; BEGIN SELECT count(*) INTO r FROM generate_series(1, n); RETURN r; END';
CREATE FUNCTION adds(a int, b int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
	'BEGIN PERFORM count(*) FROM generate_series(1, 2); RETURN coalesce(a, 0) + b; END';
CREATE AGGREGATE added(int) (SFUNC = adds, STYPE = int, PARALLEL = SAFE);
CREATE FUNCTION is_there(n int) RETURNS bool LANGUAGE plpgsql AS
	'BEGIN RETURN n IS NULL OR EXISTS (SELECT FROM source WHERE id = n); END';
CREATE FUNCTION is_right(n int) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN true; END';
CREATE DOMAIN there AS int CHECK (is_there(VALUE));
CREATE DOMAIN right_one AS int CHECK (is_right(VALUE));
CREATE TEMP TABLE unnamed (id int, n there);
CREATE TEMP TABLE kept (id int, n right_one);
CREATE SEQUENCE drawn;
SELECT * FROM fill('INSERT INTO target (id, s) SELECT id, looks(v) FROM source');
SELECT * FROM fill('INSERT INTO target (id, v) SELECT v, added(id) FROM source GROUP BY v');
SELECT * FROM fill('INSERT INTO target (id, v) SELECT id, added(v) OVER (ORDER BY id) FROM source');
SELECT * FROM fill('INSERT INTO unnamed (id) SELECT id FROM source', 'unnamed');
SET plan_cache_mode = force_generic_plan;
PREPARE keep AS INSERT INTO kept SELECT id, v FROM source;
EXECUTE keep;
CREATE OR REPLACE FUNCTION is_right(n int) RETURNS bool LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS
	'BEGIN PERFORM nextval(''drawn''); RETURN true; END';
EXECUTE keep;
SELECT count(*) FROM kept;
DEALLOCATE keep;
RESET plan_cache_mode;
DROP TABLE unnamed, kept;
DROP DOMAIN there, right_one;
DROP AGGREGATE added(int);
DROP FUNCTION looks, adds, is_there, is_right;
DROP SEQUENCE drawn;

-- So do the functions of operator classes, of an index and of a sort.  Those of an index are
-- checked.  Those of an operator are not searched for: one that is not built in has no workers,
-- whatever its functions are marked as.
CREATE FUNCTION compares(a int, b int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN PERFORM count(*) FROM generate_series(1, 2); RETURN sign(a - b); END';
CREATE FUNCTION precedes(a int, b int) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a < b';
CREATE FUNCTION equals(a int, b int) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a = b';
CREATE FUNCTION follows(a int, b int) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a > b';
CREATE OPERATOR <<< (FUNCTION = precedes, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR === (FUNCTION = equals, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR >>> (FUNCTION = follows, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR CLASS by_query FOR TYPE int USING btree AS OPERATOR 1 <<<, OPERATOR 3 ===, OPERATOR 5 >>>, FUNCTION 1 compares(int, int);
CREATE TEMP TABLE by_class (id int);
CREATE INDEX ON by_class (id by_query);
SELECT * FROM fill('INSERT INTO by_class SELECT id FROM source', 'by_class');
SELECT * FROM fill('INSERT INTO target (id) SELECT id FROM source ORDER BY id USING <<<');
ALTER FUNCTION compares STABLE PARALLEL SAFE;
SELECT * FROM fill('INSERT INTO by_class SELECT id FROM source', 'by_class');
SELECT * FROM fill('INSERT INTO target (id) SELECT id FROM source ORDER BY id USING <<<');
DROP TABLE by_class;
-- and those by which a join sorts and hashes
ALTER FUNCTION compares VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION hashes(n int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN PERFORM count(*) FROM generate_series(1, 2); RETURN n; END';
CREATE OPERATOR ==== (FUNCTION = equals, LEFTARG = int, RIGHTARG = int, COMMUTATOR = ====, HASHES, MERGES);
CREATE OPERATOR CLASS joined_by_query FOR TYPE int USING btree AS OPERATOR 1 <<<, OPERATOR 3 ====, OPERATOR 5 >>>, FUNCTION 1 compares(int, int);
CREATE OPERATOR CLASS hashed_by_query FOR TYPE int USING hash AS OPERATOR 1 ====, FUNCTION 1 hashes(int);
SELECT * FROM fill('INSERT INTO target (id) SELECT a.id FROM source a JOIN source b ON a.id ==== b.id');
SELECT * FROM fill('INSERT INTO target (id, v) SELECT id, v FROM source WHERE (id, v) OPERATOR(<<<) (1500, 0)');
ALTER FUNCTION hashes STABLE PARALLEL SAFE;
SELECT * FROM fill('INSERT INTO target (id) SELECT a.id FROM source a JOIN source b ON a.id ==== b.id');
ALTER FUNCTION compares STABLE PARALLEL SAFE;
SELECT * FROM fill('INSERT INTO target (id) SELECT a.id FROM source a JOIN source b ON a.id ==== b.id');
DROP OPERATOR FAMILY by_query USING btree;
DROP OPERATOR FAMILY joined_by_query USING btree;
DROP OPERATOR FAMILY hashed_by_query USING hash;
DROP OPERATOR <<< (int, int), === (int, int), >>> (int, int), ==== (int, int);
DROP FUNCTION compares, precedes, equals, follows, hashes;

-- Nor does a query name what the server calls by itself for the values of a type, or for a window's
-- frame.  So types that are not built in have no workers either, except enums.
CREATE TYPE measure AS (n int);
CREATE FUNCTION measured(a measure, b measure) RETURNS int LANGUAGE plpgsql AS
	'BEGIN PERFORM count(*) FROM generate_series(1, 2); RETURN sign(a.n - b.n); END';
CREATE FUNCTION lower(a measure, b measure) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a.n < b.n';
CREATE FUNCTION level(a measure, b measure) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a.n = b.n';
CREATE FUNCTION higher(a measure, b measure) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a.n > b.n';
CREATE OPERATOR <<< (FUNCTION = lower, LEFTARG = measure, RIGHTARG = measure);
CREATE OPERATOR === (FUNCTION = level, LEFTARG = measure, RIGHTARG = measure);
CREATE OPERATOR >>> (FUNCTION = higher, LEFTARG = measure, RIGHTARG = measure);
CREATE OPERATOR CLASS measures DEFAULT FOR TYPE measure USING btree AS OPERATOR 1 <<<, OPERATOR 3 ===, OPERATOR 5 >>>, FUNCTION 1 measured(measure, measure);
CREATE TYPE measures AS (id int, m measure);
CREATE TYPE span AS RANGE (SUBTYPE = measure);
SELECT * FROM fill('INSERT INTO target (id, s) SELECT id, greatest(ROW(id)::measure, ROW(v)::measure)::text FROM source');
SELECT * FROM fill('INSERT INTO target (id, v) SELECT id, (ARRAY[ROW(id)::measure] < ARRAY[ROW(v)::measure])::int FROM source');
SELECT * FROM fill('INSERT INTO target (id, v) SELECT id, (ROW(id, ROW(v))::measures < ROW(v, ROW(id))::measures)::int FROM source');
SELECT * FROM fill('INSERT INTO target (id, s) SELECT id, span(ROW(0)::measure, ROW(v + 1)::measure)::text FROM source');
SELECT * FROM fill('INSERT INTO target (id, v) SELECT id, v FROM source WHERE s < greatest(s, ''z'')');
ALTER FUNCTION measured STABLE PARALLEL RESTRICTED;
SELECT * FROM fill('INSERT INTO target (id, s) SELECT id, greatest(ROW(id)::measure, ROW(v)::measure)::text FROM source');
ALTER FUNCTION measured STABLE PARALLEL SAFE;
SELECT * FROM fill('INSERT INTO target (id, s) SELECT id, greatest(ROW(id)::measure, ROW(v)::measure)::text FROM source');
-- domains that text, JSON and XML are put through
CREATE FUNCTION asks(n int) RETURNS bool LANGUAGE plpgsql AS
	'BEGIN PERFORM count(*) FROM generate_series(1, 2); RETURN true; END';
CREATE DOMAIN asked AS int CHECK (asks(VALUE));
CREATE TYPE asked_rows AS (n asked);
CREATE TYPE asked_lists AS (l asked_rows[]);
SELECT * FROM fill('INSERT INTO target (id) SELECT (jsonb_populate_record(NULL::asked_rows, jsonb_build_object(''n'', id))).n FROM source');
SELECT * FROM fill('INSERT INTO target (id) SELECT (jsonb_populate_record(NULL::asked_lists, jsonb_build_object(''l'', jsonb_build_array(jsonb_build_object(''n'', id))))).l[1].n FROM source');
SELECT * FROM fill('INSERT INTO target (id) SELECT x.o FROM source, jsonb_to_record(jsonb_build_object(''o'', id)) AS x (o int, n asked)');
SELECT * FROM fill('INSERT INTO target (id) SELECT ((''('' || id || '')'')::asked_rows).n FROM source');
ALTER FUNCTION asks STABLE PARALLEL SAFE;
SELECT * FROM fill('INSERT INTO target (id) SELECT (jsonb_populate_record(NULL::asked_rows, jsonb_build_object(''n'', id))).n FROM source');
-- a distance from the current row
CREATE FUNCTION near_to(v int, base int, distance int, sub bool, less bool) RETURNS bool LANGUAGE plpgsql AS
	'BEGIN PERFORM count(*) FROM generate_series(1, 2); IF sub THEN distance := -distance; END IF; RETURN CASE WHEN less THEN v <= base + distance ELSE v >= base + distance END; END';
CREATE FUNCTION sooner(a int, b int) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a < b';
CREATE FUNCTION alike(a int, b int) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a = b';
CREATE FUNCTION later(a int, b int) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT a > b';
CREATE OPERATOR <<< (FUNCTION = sooner, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR === (FUNCTION = alike, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR >>> (FUNCTION = later, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR CLASS by_distance FOR TYPE int USING btree AS OPERATOR 1 <<<, OPERATOR 3 ===, OPERATOR 5 >>>, FUNCTION 1 btint4cmp(int, int), FUNCTION 3 near_to(int, int, int, bool, bool);
SELECT * FROM fill('INSERT INTO target (id, v) SELECT id, count(*) OVER (ORDER BY id USING <<< RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM source');
ALTER FUNCTION near_to STABLE PARALLEL SAFE;
SELECT * FROM fill('INSERT INTO target (id, v) SELECT id, count(*) OVER (ORDER BY id USING <<< RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM source');
DROP OPERATOR FAMILY by_distance USING btree;
DROP OPERATOR <<< (int, int), === (int, int), >>> (int, int);
DROP FUNCTION near_to, sooner, alike, later;
DROP TYPE span, measures, asked_lists, asked_rows;
DROP DOMAIN asked;
DROP FUNCTION asks;
DROP OPERATOR FAMILY measures USING btree;
DROP OPERATOR <<< (measure, measure), === (measure, measure), >>> (measure, measure);
DROP FUNCTION measured, lower(measure, measure), level, higher;
DROP TYPE measure;

-- What these rules lose: base types of extensions, operators in no operator family, aggregates.
-- CREATE TABLE AS, which follows the server's rules, has workers for them.
SET client_min_messages = error;
CREATE TYPE base_text;
CREATE FUNCTION base_text_in(cstring) RETURNS base_text LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'textin';
CREATE FUNCTION base_text_out(base_text) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'textout';
CREATE TYPE base_text (INPUT = base_text_in, OUTPUT = base_text_out, LIKE = text);
CREATE CAST (text AS base_text) WITHOUT FUNCTION;
CREATE OPERATOR ~~~ (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int);
CREATE AGGREGATE total(int) (SFUNC = int4pl, STYPE = int, COMBINEFUNC = int4pl, INITCOND = 0, PARALLEL = SAFE);
RESET client_min_messages;
CREATE TEMP TABLE of_base (id int, b base_text);
SELECT * FROM fill('INSERT INTO of_base SELECT id, s::base_text FROM source', 'of_base');
SELECT * FROM fill('INSERT INTO target (id) SELECT id FROM source WHERE v ~~~ 3');
SELECT * FROM fill('INSERT INTO target (id) SELECT total(id) FROM source');
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT id, s::base_text FROM source WHERE v ~~~ 3;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT total(id) FROM source;
-- and what they do not: enums, arrays and domains of built-in types
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN moods AS mood[];
CREATE TEMP TABLE of_enum (id int, m mood DEFAULT 'ok', l mood[], d moods);
SELECT * FROM fill('INSERT INTO of_enum (id, l, d) SELECT id, ARRAY[greatest(''sad'', ''ok''::mood)], ''{happy}'' FROM source', 'of_enum');
ALTER DOMAIN moods ADD CHECK (cardinality(VALUE) < 2);
SELECT * FROM fill('INSERT INTO of_enum (id) SELECT id FROM source', 'of_enum');
DROP TABLE of_base, of_enum;
DROP DOMAIN moods;
DROP TYPE mood;
DROP OPERATOR ~~~ (int, int);
DROP AGGREGATE total(int);
SET client_min_messages = error;
DROP TYPE base_text CASCADE;
RESET client_min_messages;

-- EXPLAIN shows its statement, not those that a trigger or the planner runs.
CREATE TEMP TABLE by_trigger (id int);
CREATE TABLE has_trigger (id int);
CREATE FUNCTION not_safe(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN n; END';
CREATE FUNCTION filling() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN INSERT INTO by_trigger SELECT not_safe(id) FROM source; RETURN NULL; END';
CREATE TRIGGER fills AFTER INSERT ON has_trigger EXECUTE FUNCTION filling();
CREATE FUNCTION inserts() RETURNS int LANGUAGE plpgsql AS
	'BEGIN INSERT INTO by_trigger SELECT not_safe(id) FROM source; RETURN 1; END';
CREATE FUNCTION planned() RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN inserts(); END';
CREATE FUNCTION tells(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	line text;
	n bigint := 0;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE) ' || statement LOOP
		n := n + (line LIKE '%Parallel Select%')::int;
	END LOOP;
	RETURN n;
END $$;
SELECT tells('INSERT INTO has_trigger VALUES (1)');
SELECT tells('SELECT FROM source WHERE id = planned() - 1');
SELECT tells('INSERT INTO has_trigger SELECT planned()');
SELECT count(*) FROM by_trigger;
DROP TABLE by_trigger, has_trigger;
DROP FUNCTION filling, not_safe, inserts, planned, tells;

-- no worker is available
SET max_parallel_workers = 0;
TRUNCATE target;
INSERT INTO target SELECT * FROM source WHERE v = 1;
SELECT count(*) FROM target;
RESET max_parallel_workers;

-- isolation levels
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO target SELECT * FROM source WHERE v = 1;
SELECT count(*) FROM target;
COMMIT;

SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;
DROP FUNCTION fill, ran, fill_in_function, fill_and_return_one;
DROP TABLE source, log, permanent, defaults, of_domain, checked, indexed, referring, target CASCADE;
DROP DOMAIN small, looked_at;
DROP FUNCTION odd, odd_safe, note, note_new;
DROP ROLE pt_filler;

-- EXPLAIN ANALYZE says which way the rows went; pages tell the rest.
SET temp_buffers = 100;
CREATE EXTENSION pageinspect;
CREATE TABLE source AS SELECT i AS id, i % 10 AS k, 'row ' || i AS t FROM generate_series(1, 30000) i;
CREATE FUNCTION loaded(command text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || command LOOP
    IF line ~ 'Fast Load' THEN RETURN NEXT line; END IF;
  END LOOP;
END $$;

SELECT * FROM loaded('CREATE TEMP TABLE small AS SELECT * FROM source LIMIT 1000');
SELECT * FROM loaded('CREATE TEMP TABLE large AS SELECT * FROM source');
SELECT * FROM loaded('CREATE TEMP TABLE none AS SELECT * FROM source WHERE false');
SELECT * FROM loaded('INSERT INTO none SELECT * FROM source LIMIT 100');
SELECT * FROM loaded('INSERT INTO none SELECT * FROM source LIMIT 10');
SELECT * FROM loaded('INSERT INTO none SELECT * FROM source');
SELECT * FROM loaded('INSERT INTO none VALUES (1, 1, ''one'')');
SELECT * FROM loaded('INSERT INTO none VALUES (1, 1, ''one''), (2, 2, ''two'')');
SELECT * FROM loaded('CREATE TABLE permanent AS SELECT * FROM source');
SELECT * FROM loaded('SELECT count(*) FROM none');
EXPLAIN (COSTS OFF) INSERT INTO none SELECT * FROM source;

-- the server gives no place for the line in EXPLAIN EXECUTE of an insertion
CREATE TEMP TABLE executed (LIKE source);
PREPARE fills AS INSERT INTO executed SELECT * FROM source;
SELECT * FROM loaded('EXECUTE fills');
DEALLOCATE fills;
DROP TABLE executed;

-- rows that have index entries stay in local buffers
CREATE TEMP TABLE indexed (LIKE source);
CREATE UNIQUE INDEX ON indexed (id);
SELECT * FROM loaded('INSERT INTO indexed SELECT * FROM source WHERE id <= 20000');
SELECT * FROM loaded('INSERT INTO indexed SELECT * FROM source WHERE id > 15000');
SELECT * FROM loaded('INSERT INTO indexed SELECT * FROM source WHERE id > 20000');
SET enable_seqscan = off;
SELECT count(*), sum(k) FROM indexed WHERE id BETWEEN 100 AND 29900;
RESET enable_seqscan;
SELECT count(*), sum(k), (SELECT sum(k) FROM source) FROM indexed;

-- rows with more work for each
SELECT * FROM loaded('INSERT INTO none SELECT * FROM source RETURNING id');
SELECT * FROM loaded('INSERT INTO none SELECT * FROM source LIMIT 20 RETURNING id');
CREATE TEMP TABLE triggered (LIKE source);
CREATE TRIGGER t BEFORE UPDATE ON triggered FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT * FROM loaded('INSERT INTO triggered SELECT * FROM source');
CREATE TEMP TABLE generated (id int, k int, t text, g int GENERATED ALWAYS AS (id + k) STORED);
SELECT * FROM loaded('INSERT INTO generated SELECT * FROM source');
CREATE TEMP TABLE parent (LIKE source) PARTITION BY RANGE (id);
CREATE TEMP TABLE part PARTITION OF parent DEFAULT;
SELECT * FROM loaded('INSERT INTO part SELECT * FROM source');
CREATE TEMP VIEW checking AS SELECT * FROM generated WHERE k < 20 WITH CHECK OPTION;
SELECT * FROM loaded('INSERT INTO checking (id, k, t) SELECT * FROM source');
CREATE FUNCTION look_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id = 1500 THEN NEW.k := (SELECT count(*) FROM watched); END IF;
  RETURN NEW;
END $$;
CREATE TEMP TABLE watched (LIKE source);
CREATE TRIGGER t BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION look_trigger();
SELECT * FROM loaded('INSERT INTO watched SELECT * FROM source');

-- left to the server
SELECT * FROM loaded('INSERT INTO parent SELECT * FROM source');
SET parallel_temp.fast_load = off;
SELECT * FROM loaded('CREATE TEMP TABLE off AS SELECT * FROM source');
SELECT * FROM loaded('INSERT INTO none SELECT * FROM source');
RESET parallel_temp.fast_load;
SELECT * FROM loaded('INSERT INTO none SELECT * FROM source ON CONFLICT DO NOTHING');

-- a constraint does not count as work for each row
CREATE TEMP TABLE checked (LIKE source, CHECK (id > 0));
SELECT * FROM loaded('INSERT INTO checked SELECT * FROM source');
CREATE FUNCTION look(i int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
  IF i = 1500 THEN EXECUTE 'SELECT count(*) FROM seen' INTO n; END IF;
  RETURN n;
END $$;
SELECT * FROM loaded('CREATE TEMP TABLE seen AS SELECT look(id) FROM source');

-- with the setting off, only the server's output
SET parallel_temp.explain = off;
SELECT * FROM loaded('CREATE TEMP TABLE quiet AS SELECT * FROM source');
RESET parallel_temp.explain;

-- every format stays well-formed, and has numbers
CREATE FUNCTION loaded_json(command text) RETURNS TABLE (key text, type text, value text) LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
  EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || command INTO plan;
  RETURN QUERY SELECT e.key, jsonb_typeof(e.value), e.value #>> '{}' FROM jsonb_each(plan->0) e WHERE e.key LIKE 'Fast Load%' ORDER BY e.key COLLATE "C";
END $$;
SELECT * FROM loaded_json('CREATE TEMP TABLE in_json AS SELECT * FROM source');
SELECT * FROM loaded_json('INSERT INTO in_json SELECT * FROM source ON CONFLICT DO NOTHING');
SELECT * FROM loaded_json('INSERT INTO in_json SELECT * FROM source WHERE id < 0');

-- a load of a trigger's statement, or of a function that the planner calls, is not the explained statement's
CREATE TEMP TABLE journal (id int);
CREATE FUNCTION fill_journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO journal SELECT id FROM source;
  RETURN NULL;
END $$;
CREATE FUNCTION fill_journal_now() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO journal SELECT id FROM source;
  RETURN 1;
END $$;
CREATE FUNCTION fill_journal_early() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT fill_journal_now()); END $$;
CREATE TEMP TABLE journalled (LIKE source);
CREATE TABLE journalled_too (LIKE source);
CREATE TRIGGER t AFTER INSERT ON journalled FOR EACH STATEMENT EXECUTE FUNCTION fill_journal();
CREATE TRIGGER t AFTER INSERT ON journalled_too FOR EACH STATEMENT EXECUTE FUNCTION fill_journal();
CREATE FUNCTION explained(format text, command text) RETURNS TABLE (lines text, after_the_plan boolean) LANGUAGE plpgsql AS $$
DECLARE line text; doc text := '';
BEGIN
  FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT %s) %s', format, command) LOOP
    doc := doc || line || E'\n';
  END LOOP;
  IF format = 'JSON' THEN PERFORM doc::json; END IF;
  lines := (SELECT string_agg(trim(l), '; ') FROM regexp_split_to_table(doc, '\n') l WHERE l ~ 'Fast.Load');
  after_the_plan := position('Fast' IN doc) > position('source' IN doc);
  RETURN NEXT;
END $$;
SELECT format, e.* FROM unnest(ARRAY['TEXT', 'JSON', 'YAML', 'XML']) format,
  explained(format, 'INSERT INTO journalled SELECT * FROM source') e;
SELECT format, e.lines FROM unnest(ARRAY['TEXT', 'JSON', 'YAML', 'XML']) format,
  explained(format, 'INSERT INTO journalled_too SELECT * FROM source') e;
SELECT format, e.lines FROM unnest(ARRAY['TEXT', 'JSON', 'YAML', 'XML']) format,
  explained(format, 'SELECT count(*) FROM source WHERE id > fill_journal_early()') e;

-- frozen in the user's own statement on a new table, and only there
CREATE FUNCTION frozen(t regclass) RETURNS text LANGUAGE sql AS $$
  SELECT sum(p.frozen) || ' of ' || sum(p.items) || ' frozen, ' ||
         count(*) FILTER (WHERE (page_header(page)).flags & 4 = 4) || ' of ' || count(*) || ' pages all-visible'
  FROM generate_series(0, (pg_relation_size(t) / current_setting('block_size')::int)::int - 1) b,
       LATERAL (SELECT get_raw_page(t::text, b) AS page OFFSET 0) r,
       LATERAL (SELECT count(*) AS items, count(*) FILTER (WHERE t_infomask & 768 = 768) AS frozen FROM heap_page_items(page)) p
  WHERE items > 0 $$;
CREATE TEMP TABLE own AS SELECT * FROM source;
SELECT frozen('own');
INSERT INTO own SELECT * FROM source;
SELECT frozen('own');
BEGIN;
CREATE TEMP TABLE same_transaction (LIKE source);
INSERT INTO same_transaction SELECT * FROM source;
SELECT frozen('same_transaction');
SAVEPOINT one;
INSERT INTO same_transaction SELECT * FROM source;
SELECT frozen('same_transaction');
DECLARE c CURSOR FOR SELECT 1;
CREATE TEMP TABLE open_cursor AS SELECT * FROM source;
SELECT frozen('open_cursor');
COMMIT;
DO $$ BEGIN CREATE TEMP TABLE in_block AS SELECT * FROM source; END $$;
SELECT frozen('in_block');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1 AS one;
CREATE TEMP TABLE one_snapshot AS SELECT * FROM source;
COMMIT;
SELECT frozen('one_snapshot');
CREATE TEMP TABLE thawed AS SELECT id, CASE WHEN id = 20000 THEN (SELECT count(*) FROM loaded('SELECT * FROM thawed')) END AS n FROM source;
SELECT frozen('thawed');

-- statements that failed are not running any more
SELECT 1 / (id - 1000) FROM source;
CREATE TEMP TABLE after_error AS SELECT * FROM source;
SELECT frozen('after_error');
BEGIN;
SAVEPOINT one;
SELECT 1 / (id - 1000) FROM source;
ROLLBACK TO one;
CREATE TEMP TABLE after_rollback AS SELECT * FROM source;
SELECT frozen('after_rollback');
COMMIT;
CREATE FUNCTION caught(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF i % 1000 = 1 THEN PERFORM 1 / (id - 2) FROM source; END IF;
  RETURN i;
EXCEPTION WHEN division_by_zero THEN RETURN -1;
END $$;
CREATE TEMP TABLE after_caught (i int);
SELECT * FROM loaded('INSERT INTO after_caught SELECT caught(id) FROM source');
SELECT count(*), sum(i) FROM after_caught;
BEGIN;
SELECT sum(caught(id)) FROM source;
CREATE TEMP TABLE after_function AS SELECT * FROM source;
SELECT frozen('after_function');
COMMIT;

-- a function that the planner calls, whose statement another library measures, is not the statement that EXPLAIN runs
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_analyze = on;
SET auto_explain.log_nested_statements = on;
CREATE FUNCTION planned() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (SELECT count(*) FROM pg_type WHERE typname = 'int4'); END $$;
CREATE TEMP TABLE filled (id int);
SELECT * FROM loaded('INSERT INTO filled SELECT id FROM source WHERE id >= planned()');
SET auto_explain.log_min_duration = -1;
DROP FUNCTION planned;

-- a table that fits takes no room on disk, whatever its file's length
CREATE TEMP TABLE fits AS SELECT * FROM source LIMIT 5000;
SELECT pg_relation_size('fits') / current_setting('block_size')::int AS pages;
SELECT trim(pg_read_binary_file(pg_relation_filepath('fits')), '\x00') = '' AS file_is_empty;
SELECT count(*), sum(id) FROM fits;

DROP TABLE source, permanent CASCADE;
DROP FUNCTION loaded, loaded_json, look, frozen, caught;
DROP FUNCTION look_trigger CASCADE;
DROP EXTENSION pageinspect;

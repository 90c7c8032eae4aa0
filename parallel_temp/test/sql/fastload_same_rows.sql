-- The same CREATE TEMP TABLE AS and INSERT ... SELECT on the server's path and
-- by the bulk writer: rows and their size must be the same, and for a new table
-- also their order and their place.
SET parallel_temp.explain = off;
SET temp_buffers = 100;
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small AS int CHECK (VALUE < 100000);
CREATE TABLE plain AS
  SELECT i AS id, i % 100 AS k, 'row ' || i AS t, CASE WHEN i % 3 = 0 THEN NULL ELSE i * 1.5 END AS n
  FROM generate_series(1, 6000) i;
CREATE TABLE changed AS SELECT i AS a, i::text AS b, i AS c FROM generate_series(1, 3000) i;
ALTER TABLE changed DROP COLUMN b;
ALTER TABLE changed ADD COLUMN d int DEFAULT 42;
ALTER TABLE changed ADD COLUMN e text;
INSERT INTO changed SELECT i, i, i, 'later' FROM generate_series(1, 100) i;
CREATE TABLE wide (id int, v text, x text, m text);
ALTER TABLE wide ALTER v SET STORAGE EXTERNAL, ALTER m SET STORAGE MAIN;
INSERT INTO wide SELECT i, repeat('v', i * 40), repeat(md5(i::text), i), repeat('m', i * 90)
  FROM generate_series(1, 120) i;

CREATE TABLE query (n int GENERATED ALWAYS AS IDENTITY, q text);
INSERT INTO query (q) VALUES
  ('SELECT * FROM plain'),
  ('SELECT id + 1 AS id, t, n FROM plain'),
  ('SELECT id, n FROM plain WHERE false'),
  ('SELECT FROM plain'),
  ('SELECT NULL::int AS a, NULL::text AS b FROM plain'),
  ('SELECT * FROM plain ORDER BY t'),
  ('SELECT DISTINCT k, t FROM plain ORDER BY 1, 2'),
  ('SELECT k, count(*), sum(n), array_agg(id ORDER BY id) AS ids FROM plain GROUP BY k ORDER BY k'),
  ('SELECT a.id, b.t FROM plain a JOIN plain b USING (id) ORDER BY a.id'),
  ('SELECT id FROM plain UNION ALL SELECT k FROM plain'),
  ('SELECT * FROM changed'),
  ('SELECT a, d, e FROM changed'),
  ('SELECT * FROM wide'),
  ('SELECT id, v || ''!'' AS v, x, m FROM wide'),
  ('SELECT id, v, x, m FROM wide ORDER BY id DESC'),
  ('SELECT id, ROW(id, t)::pair AS p, ARRAY[id, k] AS r, id::small AS s FROM plain'),
  ('SELECT id, array_append(ARRAY[k], id) AS r FROM plain'),
  ('SELECT p.*, w.x FROM plain p JOIN wide w ON w.id = p.k ORDER BY p.id LIMIT 500'),
  ('SELECT i AS c, true AS b, 1::"char" AS q, 2::int2 AS w, 3.5::float8 AS f, B''101'' AS bits, NULL::jsonb AS j, '
   '''{"a": [1, 2]}''::jsonb AS jj, ''10.0.0.1''::inet AS ip, ''n''::name AS nm, decode(md5(i::text), ''hex'') AS raw '
   'FROM generate_series(1, 2000) i'),
  ('WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 2500) SELECT i, repeat(''x'', i % 1500) AS pad FROM r'),
  ('SELECT id, repeat(chr(65 + id % 26), 1900 + id % 200) AS pad FROM plain WHERE id <= 400'),
  ('VALUES (1, ''one''), (2, NULL), (NULL, ''three'')');

-- How two tables differ: columns that must all be 0.
CREATE FUNCTION differences(a text, b text, place bool) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
  EXECUTE format(
    'SELECT format(''%%s rows'', count(x_.r_)) ||
            CASE WHEN count(*) FILTER (WHERE x_.r_ IS NULL OR y_.r_ IS NULL OR x_.v_ <> y_.v_ OR x_.s_ <> y_.s_) > 0 THEN '', other rows'' ELSE '''' END ||
            CASE WHEN %L AND count(*) FILTER (WHERE x_.p_ <> y_.p_) > 0 THEN '', other places'' ELSE '''' END
     FROM (SELECT row_number() OVER (ORDER BY %s) AS r_, x_::text AS v_, pg_column_size(x_.*) AS s_, ctid AS p_ FROM %I x_) x_
     FULL JOIN (SELECT row_number() OVER (ORDER BY %s) AS r_, y_::text AS v_, pg_column_size(y_.*) AS s_, ctid AS p_ FROM %I y_) y_ USING (r_)',
    place, CASE WHEN place THEN 'ctid' ELSE 'x_::text' END, a, CASE WHEN place THEN 'ctid' ELSE 'y_::text' END, b) INTO result;
  RETURN result;
END $$;
CREATE TABLE result (n int, kind text, found text);

\set ECHO none
\set QUIET on
-- a new table
SELECT unnest(ARRAY[
  'SET parallel_temp.fast_load = off', 'CREATE TEMP TABLE s AS ' || q,
  'SET parallel_temp.fast_load = on', 'CREATE TEMP TABLE f AS ' || q,
  format('INSERT INTO result VALUES (%s, %L, differences(''s'', ''f'', true))', n, 'create'),
  'DROP TABLE s, f'])
FROM query ORDER BY n \gexec
-- a new table with room left on each page, and SELECT INTO
SELECT unnest(ARRAY[
  'SET parallel_temp.fast_load = off', 'CREATE TEMP TABLE s WITH (fillfactor = 30) AS ' || q,
  'SET parallel_temp.fast_load = on', 'CREATE TEMP TABLE f WITH (fillfactor = 30) AS ' || q,
  format('INSERT INTO result VALUES (%s, %L, differences(''s'', ''f'', true))', n, 'fillfactor'),
  'DROP TABLE s, f'])
FROM query WHERE n IN (1, 13, 21) ORDER BY n \gexec
-- INSERT into an empty table of the same transaction, then into one that has rows
SELECT unnest(ARRAY[
  'SET parallel_temp.fast_load = off', 'CREATE TEMP TABLE s AS ' || q || ' LIMIT 0', 'INSERT INTO s ' || q, 'INSERT INTO s ' || q,
  'SET parallel_temp.fast_load = on', 'BEGIN', 'CREATE TEMP TABLE f AS ' || q || ' LIMIT 0', 'INSERT INTO f ' || q, 'COMMIT', 'INSERT INTO f ' || q,
  format('INSERT INTO result VALUES (%s, %L, differences(''s'', ''f'', false))', n, 'insert'),
  'DROP TABLE s, f'])
FROM query WHERE q !~ 'LIMIT' ORDER BY n \gexec
-- space reserved as the table grows
SET parallel_temp.lazy_files = off;
SELECT unnest(ARRAY[
  'SET parallel_temp.fast_load = off', 'CREATE TEMP TABLE s AS ' || q,
  'SET parallel_temp.fast_load = on', 'CREATE TEMP TABLE f AS ' || q,
  format('INSERT INTO result VALUES (%s, %L, differences(''s'', ''f'', true))', n, 'reserved'),
  'DROP TABLE s, f'])
FROM query WHERE n IN (1, 3, 13) ORDER BY n \gexec
RESET parallel_temp.lazy_files;
\set QUIET off
\set ECHO all
SELECT kind, n, found FROM result ORDER BY kind, n;

-- Rows and pages that are too large fail as in the server.
SELECT 'SELECT ' || string_agg('repeat(''x'', 20)::char(20) AS c' || i, ', ') AS q FROM generate_series(1, 500) i \gset
SET parallel_temp.fast_load = off;
CREATE TEMP TABLE too_wide AS :q;
SET parallel_temp.fast_load = on;
CREATE TEMP TABLE too_wide AS :q;

-- The rows of a failed statement are counted as in the server if their pages stay: with an
-- index, and if a query has read the table in between.
CREATE FUNCTION look(g int, name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  IF g = 500 THEN EXECUTE format('SELECT count(*) FROM %I', name) INTO n; END IF;
  RETURN 1 / (g - 4000);
END $$;
CREATE TEMP TABLE indexed_off (a int, b int);
CREATE TEMP TABLE indexed_on (a int, b int);
CREATE TEMP TABLE read_off (a int, b int);
CREATE TEMP TABLE read_on (a int, b int);
CREATE INDEX ON indexed_off (a);
CREATE INDEX ON indexed_on (a);
SET parallel_temp.fast_load = off;
INSERT INTO indexed_off SELECT g, 1 FROM generate_series(1, 1000) g;
INSERT INTO indexed_off SELECT g, 1 / (g - 4000) FROM generate_series(1, 5000) g;
INSERT INTO read_off SELECT g, look(g, 'read_off') FROM generate_series(1, 5000) g;
SET parallel_temp.fast_load = on;
INSERT INTO indexed_on SELECT g, 1 FROM generate_series(1, 1000) g;
INSERT INTO indexed_on SELECT g, 1 / (g - 4000) FROM generate_series(1, 5000) g;
INSERT INTO read_on SELECT g, look(g, 'read_on') FROM generate_series(1, 5000) g;
SELECT pg_stat_force_next_flush();
SELECT relname, n_tup_ins, n_live_tup, n_dead_tup, pg_relation_size(relid) / current_setting('block_size')::int AS pages
FROM pg_stat_user_tables WHERE relname ~ '^(indexed|read)_' ORDER BY relname COLLATE "C";
DROP TABLE indexed_off, indexed_on, read_off, read_on;
DROP FUNCTION look;

DROP TABLE plain, changed, wide, query, result;
DROP FUNCTION differences;
DROP TYPE pair;
DROP DOMAIN small;

-- Buffers flushed, rows routed, constraints added, subtransactions rolled back in the
-- middle of a load: the server's path and the bulk writer must have the same results.
\getenv srcdir PG_ABS_SRCDIR
\getenv builddir PG_ABS_BUILDDIR
\set own :builddir '/results/fastload_nested.own'
\set bulk :builddir '/results/fastload_nested.bulk'
\cd :srcdir
SET temp_buffers = 100;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
\set ECHO none
SET parallel_temp.fast_load = off;
\o :own
\i scenarios/fastload_nested.sql
\o
SET parallel_temp.fast_load = on;
\o :bulk
\i scenarios/fastload_nested.sql
\o
\set ECHO all
\setenv OWN :own
\setenv BULK :bulk
\! diff "$OWN" "$BULK" && echo the same
\! cat "$BULK"

-- A subtransaction that changes the table in the catalogs by hand, and fails: its
-- relcache entry is rebuilt, and no row is lost.
CREATE TEMP TABLE a (id int, pad text, twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE FUNCTION pg_temp.by_hand(i int, at int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i = at THEN
		UPDATE pg_class SET relpages = relpages WHERE relname = 'a' AND relnamespace = pg_my_temp_schema();
		RAISE EXCEPTION 'undone';
	END IF;
	RETURN i;
EXCEPTION WHEN raise_exception THEN RETURN i + pg_relation_size('a') * 0;
END$$;
INSERT INTO a SELECT pg_temp.by_hand(i, 500), repeat('p', 300) FROM generate_series(1, 600) i;
INSERT INTO a SELECT pg_temp.by_hand(i, 600), repeat('p', 300) FROM generate_series(1, 600) i;
INSERT INTO a SELECT pg_temp.by_hand(i, 10), repeat('p', 300) FROM generate_series(1, 600) i;
SELECT count(*), count(DISTINCT id) FROM a;
DROP TABLE a;

-- what a statement sets while it loads stays set
CREATE TEMP TABLE settings (x text);
INSERT INTO settings SELECT set_config('parallel_leader_participation', 'off', false) FROM generate_series(1, 3);
SHOW parallel_leader_participation;
CREATE TEMP TABLE settings2 AS SELECT set_config('parallel_leader_participation', 'on', false);
SHOW parallel_leader_participation;
DROP TABLE settings, settings2;

-- Buffers flushed, rows routed, constraints added, subtransactions rolled back in the
-- middle of a load: what the server's own path gives, the bulk writer must give.
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

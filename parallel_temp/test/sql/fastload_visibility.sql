-- Savepoints, cursors, snapshots, functions that look at the table being filled,
-- failures: the server's path and the bulk writer must show the same.
\getenv srcdir PG_ABS_SRCDIR
\getenv builddir PG_ABS_BUILDDIR
\set own :builddir '/results/fastload_visibility.own'
\set bulk :builddir '/results/fastload_visibility.bulk'
\cd :srcdir
SET temp_buffers = 100;
\set ECHO none
SET parallel_temp.fast_load = off;
\o :own
\i scenarios/fastload_visibility.sql
\o
SET parallel_temp.fast_load = on;
\o :bulk
\i scenarios/fastload_visibility.sql
\o
\set ECHO all
\setenv OWN :own
\setenv BULK :bulk
\! diff "$OWN" "$BULK" && echo the same
\! cat "$BULK"

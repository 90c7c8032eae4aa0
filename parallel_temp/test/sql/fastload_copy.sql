-- COPY, and INSERT ... SELECT with triggers and other work for each row: rows,
-- places, triggers, errors as without fast load.
\getenv srcdir PG_ABS_SRCDIR
\getenv builddir PG_ABS_BUILDDIR
\set own :builddir '/results/fastload_copy.own'
\set bulk :builddir '/results/fastload_copy.bulk'
\set file :builddir '/results/fastload_copy.data'
\cd :srcdir
SET temp_buffers = 100;
\set ECHO none
SET parallel_temp.fast_load = off;
\o :own
\i scenarios/fastload_copy.sql
\o
SET parallel_temp.fast_load = on;
\o :bulk
\i scenarios/fastload_copy.sql
\o
\set ECHO all
\setenv OWN :own
\setenv BULK :bulk
\! diff "$OWN" "$BULK" && echo the same
\! cat "$BULK"

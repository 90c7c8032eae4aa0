-- Everything that may have to happen per inserted row: the results of the server's
-- path and of fast load must be the same, whether the bulk writer or the server does it.
\getenv srcdir PG_ABS_SRCDIR
\getenv builddir PG_ABS_BUILDDIR
\set own :builddir '/results/fastload_features.own'
\set bulk :builddir '/results/fastload_features.bulk'
\cd :srcdir
SET temp_buffers = 100;
\set ECHO none
SET parallel_temp.fast_load = off;
\o :own
\i scenarios/fastload_features.sql
\o
SET parallel_temp.fast_load = on;
\o :bulk
\i scenarios/fastload_features.sql
\o
\set ECHO all
\setenv OWN :own
\setenv BULK :bulk
\! diff "$OWN" "$BULK" && echo the same
\! cat "$BULK"

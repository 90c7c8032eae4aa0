-- Everything that may have to happen per inserted row: what the server's own path
-- does, must happen with fast load on, in the bulk writer or left to the server.
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

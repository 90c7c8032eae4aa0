# ci/neighbours.pl: writes the SQL that ci/neighbours.sh runs with other libraries.
# The output is the same on every server if pg_lean works correctly.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../light_explain/test/t";
use Battery;

my ($custom, $fragile) = @ARGV;

print <<'SQL';
\set QUIET on
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;
CREATE EXTENSION light_explain;
CREATE EXTENSION parallel_temp;
CREATE EXTENSION appendable_bytea;
CREATE EXTENSION ram_tablespace;
SQL

# ---- light_explain: figures of every node with and without ----

if ($fragile)
{
	# For a library that crashes by itself where a function runs EXPLAIN, and in parallel plans: the
	# battery's other statements outside of functions, compared in one that it does not look at.
	print "LOAD '$custom';\n", battery_sql();
	my $n = 0;
	for my $s (grep { $_->[2] !~ /^TRIGGER:/ && ($_->[0] !~ /parallel_setup_cost/ || $_->[0] =~ /max_parallel_workers = 0/) } battery_statements())
	{
		my ($set, $prepare, $statement) = @$s;
		my $explain = "EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING OFF, FORMAT JSON) $statement;\n";
		print "RESET ALL; SET client_min_messages = error; SET jit = off;\n$set;\n\\set same f\n";
		# A checkpoint or the background writer between two runs changes what the second one dirties
		# and logs, so figures differ only if they do so three times.
		for my $try (1 .. 3)
		{
			print "\\if :same\n\\else\n";
			for my $run ([ 'off', 'core' ], [ 'off', 'core' ], [ 'on', 'ours' ])
			{
				my ($enabled, $name) = @$run;
				print "SET light_explain.enabled = $enabled;\n$prepare;\n\\o $name.json\n$explain\\o\n\\set $name `cat $name.json`\n";
			}
			print "SET pg_tracing.sample_rate = 0;\nSELECT figures(:'core'::jsonb) = figures(:'ours'::jsonb) AS same \\gset\nRESET pg_tracing.sample_rate;\n\\endif\n";
		}
		print "SET pg_tracing.sample_rate = 0;\n";
		print "SELECT '" . $n++ . " ' || CASE WHEN :'same' THEN 'same' ELSE 'differs: ' || :'core' || :'ours' END;\n";
	}
	print "RESET ALL; SET client_min_messages = error;\n";
	for my $enabled (qw(off on))
	{
		print "SET light_explain.enabled = $enabled;\n";
		print "$_;\n" for ('SELECT * FROM t WHERE id = 7', 'SELECT count(*), sum(k) FROM t', 'SELECT 1 / (id - 50) FROM t WHERE id = 50', 'SELECT sum(1 / (id - 50)) FROM t',
			'SELECT sum(1 / (id - 2500)) FROM t', 'CREATE TABLE c AS SELECT * FROM t', 'CREATE TABLE c AS SELECT 1 / (id - 50) FROM t', 'SELECT count(*) FROM c', 'DROP TABLE c',
			'UPDATE t SET k = k + 1 WHERE id < 100', 'SELECT count(*) FROM t a JOIN t b USING (id)');
	}
}
else
{
	print "LOAD '$custom';\n", battery_sql();
	my $n = 0;
	for my $s (battery_statements())
	{
		my ($set, $prepare, $statement) = map { my $x = $_; $x =~ s/'/''/g; $x } @$s;
		print "RESET ALL; SET client_min_messages = error; SET jit = off;\n$s->[0];\n";
		print "SELECT '" . $n++ . " ' || compare('$prepare', '$statement', 'TIMING OFF');\n";
	}
	print <<'SQL';
RESET ALL; SET client_min_messages = error;
SELECT sum(1 / (id - 500)) FROM t;
SELECT f_caught(id) FROM t WHERE id < 10;
CREATE TABLE made AS SELECT id, f_plpgsql(id) FROM t WHERE id < 50;
CREATE TABLE made_not AS SELECT 1 / (id - 500) FROM t;
SELECT count(*), sum(f_plpgsql) FROM made;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) CREATE TABLE made_too AS SELECT count(*) FROM t;
BEGIN; DECLARE c CURSOR FOR SELECT 1 / (id - 60) FROM t; FETCH 2 FROM c; SAVEPOINT s; FETCH 100 FROM c; ROLLBACK TO s; COMMIT;
SQL
}

# ---- parallel_temp: answers with and without ----

print <<'SQL';
RESET ALL; SET client_min_messages = error;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
CREATE TABLE dim AS SELECT g AS region, 'r' || g AS name FROM generate_series(0, 99) g;
SQL
print "SET enable_hashjoin = off;\n" if $fragile;
for my $enabled (qw(off on))
{
	print <<"SQL";
SELECT 'parallel_temp $enabled';
SET parallel_temp.enabled = $enabled; SET parallel_temp.fast_load = $enabled;
CREATE TEMP TABLE w AS SELECT g AS id, g % 100 AS region, g AS amount, repeat('x', g % 50) AS v FROM generate_series(1, 60000) g;
CREATE INDEX ON w (id); ANALYZE w;
INSERT INTO w SELECT id + 60000, region, amount, v FROM w WHERE id % 3 = 0;
SELECT count(*), sum(amount), sum(length(v)) FROM w;
SELECT md5(string_agg(concat(region, ' ', n, ' ', s), ',' ORDER BY region)) FROM (SELECT region, count(*) AS n, sum(amount) AS s FROM w GROUP BY region) x;
SELECT name, count(*) FROM w JOIN dim USING (region) WHERE region < 3 GROUP BY name ORDER BY name;
SELECT sum(1 / (amount - 777)) FROM w;
SELECT count(*) FROM w WHERE id = 5;
CREATE TEMP TABLE w2 AS SELECT region, sum(amount) AS amount FROM w GROUP BY region;
CREATE TEMP TABLE w3 AS SELECT 1 / (amount - 777) FROM w;
SELECT count(*), sum(amount) FROM w2;
BEGIN; UPDATE w SET amount = amount + 1 WHERE region = 3; SAVEPOINT s; DELETE FROM w WHERE region < 50; SELECT sum(1 / (amount - 778)) FROM w; ROLLBACK TO s; SELECT count(*), sum(amount) FROM w; COMMIT;
SELECT count(*), sum(amount) FROM w;
DROP TABLE w, w2;
SQL
}
print <<'SQL' unless $fragile;
CREATE TEMP TABLE w AS SELECT g AS id, g % 100 AS region FROM generate_series(1, 60000) g; ANALYZE w;
EXPLAIN (COSTS OFF) SELECT region, count(*) FROM w GROUP BY region;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT count(*) FROM w WHERE id < 0;
SQL

# Hints of pg_hint_plan, if that is the neighbor, apply to a temporary table as well: one that is too
# small for workers without a hint, alone, in a join and as the source of an insertion.
print <<'SQL' unless $fragile;
RESET ALL; SET client_min_messages = error;
CREATE TEMP TABLE hinted (id int);
SELECT current_setting('pg_hint_plan.enable_hint', true) IS NOT NULL AS hints \gset
SQL
my @hinted = (
	[ 3, 'SELECT count(*), sum(id) FROM w' ],
	[ 2, 'SELECT count(*), sum(w.id) FROM w JOIN dim ON w.region = dim.region AND dim.region < 5' ],
	[ 2, 'INSERT INTO hinted SELECT id FROM w WHERE id % 3 = 1' ],
	[ 0, 'SELECT region, count(*) FROM w GROUP BY region' ]);
for my $case ($fragile ? () : @hinted)
{
	my ($workers, $statement) = @$case;
	my $wanted = $workers ? qq{:'plan' ~ '"Workers Planned": $workers.*"Temp Scan"'} : q{:'plan' !~ 'Gather'};
	print "\\o plan.json\n/*+ Parallel(w $workers hard) */ EXPLAIN (FORMAT JSON, COSTS OFF) $statement;\n\\o\n\\set plan `cat plan.json`\n";
	print "SELECT CASE WHEN NOT :'hints' OR $wanted THEN 'the hint applies' ELSE 'the hint does not apply: ' || :'plan' END;\n";
	print "/*+ Parallel(w $workers hard) */ $statement;\n" if $workers;
}
print "SELECT count(*), sum(id) FROM hinted;\n" unless $fragile;

# ---- appendable_bytea: values next to bytea ----

print <<'SQL';
RESET ALL; SET client_min_messages = error;
SELECT 'appendable_bytea';
CREATE TABLE a (id int PRIMARY KEY, b bytea, d appendable_bytea) WITH (fillfactor = 80);
INSERT INTO a SELECT g, decode(repeat(lpad(to_hex(g), 2, '0'), g * 1000), 'hex'), decode(repeat(lpad(to_hex(g), 2, '0'), g * 1000), 'hex') FROM generate_series(1, 20) g;
UPDATE a SET b = b || '\x0102', d = d || '\x0102';
UPDATE a SET b = b || decode(repeat('ab', 5000), 'hex'), d = d || decode(repeat('ab', 5000), 'hex') WHERE id % 2 = 0;
UPDATE a SET b = b || '\x09', d = d || '\x09' WHERE 1 / (id - 20) = 0;
BEGIN; UPDATE a SET b = b || '\x03', d = d || '\x03'; SAVEPOINT s; UPDATE a SET d = d || '\x04'; ROLLBACK TO s; COMMIT;
BEGIN; UPDATE a SET d = d || '\x05'; ROLLBACK;
SELECT count(*), bool_and(md5(b) = md5(d::bytea)), sum(octet_length(b)), bool_and(substring(b FROM 900 FOR 300) = substring(d FROM 900 FOR 300)) FROM a;
CREATE TABLE a2 AS SELECT id, b, d FROM a WHERE id > 5;
SELECT count(*), bool_and(md5(b) = md5(d::bytea)) FROM a2;
DELETE FROM a WHERE id % 5 = 0;
VACUUM a;
SELECT count(*), bool_and(md5(b) = md5(d::bytea)) FROM a;
SQL

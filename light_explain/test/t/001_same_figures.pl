# Rows, loops, filtered rows, buffers and WAL of every node are what core shows.
# Slow: each statement of the battery in each mode
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Battery;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
autovacuum = off
full_page_writes = off
checkpoint_timeout = 1h
max_wal_size = 4GB
max_parallel_workers = 8
max_worker_processes = 16
jit = off
CONF
$node->start;

my $has_fdw = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'});
my @statements = battery_statements();
my @required = battery_node_types();
my $setup = "LOAD '$FindBin::RealBin/../custom/light_test_custom.so';\n" . battery_sql();

# XML needs a server with libxml, JSON_TABLE needs 17
if ($node->psql('postgres', q{SELECT '<a/>'::xml}) == 0)
{
	push @required, 'Table Function Scan';
	push @statements, [ '', '', q{SELECT * FROM xmltable('/r/i' PASSING '<r><i>1</i><i>2</i></r>' COLUMNS i int PATH '.')} ];
}
if ($node->safe_psql('postgres', 'SHOW server_version_num') >= 170000)
{
	push @required, 'Table Function Scan';
	push @statements, [ '', '', q{SELECT * FROM t, JSON_TABLE('[1, 2, 3]'::jsonb, '$[*]' COLUMNS (i int PATH '$')) j WHERE t.id = j.i} ];
}
if ($has_fdw)
{
	my $connection = sprintf "host '%s', port '%s', dbname 'postgres'", $node->host, $node->port;
	$setup .= <<"SQL";
CREATE EXTENSION postgres_fdw;
CREATE SERVER loop1 FOREIGN DATA WRAPPER postgres_fdw OPTIONS ($connection, async_capable 'true');
CREATE SERVER loop2 FOREIGN DATA WRAPPER postgres_fdw OPTIONS ($connection, async_capable 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER loop1;
CREATE USER MAPPING FOR CURRENT_USER SERVER loop2;
CREATE FOREIGN TABLE ft1 (id int, k int) SERVER loop1 OPTIONS (table_name 't');
CREATE FOREIGN TABLE ft2 (id int, t_id int) SERVER loop2 OPTIONS (table_name 'u');
CREATE TABLE fp (id int, k int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE fp1 PARTITION OF fp FOR VALUES FROM (0) TO (500) SERVER loop1 OPTIONS (table_name 'par1');
CREATE FOREIGN TABLE fp2 PARTITION OF fp FOR VALUES FROM (500) TO (1000) SERVER loop2 OPTIONS (table_name 'par2');
CREATE TABLE fp3 PARTITION OF fp FOR VALUES FROM (1000) TO (2000);
INSERT INTO fp3 SELECT g, g % 7 FROM generate_series(1000, 1999) g;
ANALYZE fp3;
SQL
	push @required, 'Foreign Scan';
	push @statements, map { [ '', '', $_ ] } (
		'SELECT * FROM ft1 WHERE k < 5',
		'SELECT count(*) FROM ft1 JOIN t ON ft1.id = t.id',
		'SELECT count(*) FROM ft1 JOIN ft2 ON ft1.id = ft2.t_id',
		'SELECT * FROM fp',
		'SELECT count(*) FROM fp WHERE k = 3',
		'SELECT * FROM fp LIMIT 20',
		'UPDATE ft2 SET t_id = t_id WHERE id = 5');
}
# parallel_temp's node, if it is also installed
if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'parallel_temp'}))
{
	$setup = "LOAD 'parallel_temp';\n$setup";
	push @statements, map { [ 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 1; '
		. 'SET max_parallel_workers_per_gather = 2; SET max_parallel_workers = 1; SET parallel_leader_participation = off', '', $_ ] } (
		'SELECT v, count(*) FROM tmp JOIN u USING (id) GROUP BY v',
		'SELECT count(*), max(w) FROM tmp a JOIN u USING (id) WHERE u.id > 5');
}
cmp_ok(scalar(@statements), '>=', 120, 'the battery has at least 120 statements');

# Run the battery in one session under some settings; every statement is a test.
sub run_battery
{
	my ($name, $settings, $options, $only) = @_;
	my $script = "\\pset format unaligned\n\\pset tuples_only on\n$setup\n";

	# what each statement needs is set and reset around it
	my $n = 0;
	my @run;
	for my $s (@statements)
	{
		next if $only && $s->[2] !~ $only;
		push @run, $s;
		my ($set, $prepare, $statement) = map { my $x = $_; $x =~ s/'/''/g; $x } @$s;
		$script .= "RESET ALL; SET jit = off; $settings;\n$s->[0];\n"
		  . "SELECT '<<' || " . $n++ . " || '>>' || compare('$prepare', '$statement', '$options');\n";
	}
	$script .= "SELECT '<<types>>' || string_agg(name, '|') FROM node_types;\n";
	$node->safe_psql('postgres', "DROP DATABASE IF EXISTS battery");
	$node->safe_psql('postgres', "CREATE DATABASE battery");
	(my $in_battery = $script) =~ s/dbname 'postgres'/dbname 'battery'/g;
	my ($rc, $out, $err) = $node->psql('battery', $in_battery);
	is($rc, 0, "$name: ran");
	diag($err) if $err =~ /ERROR/;

	my %result = $out =~ /^<<(\w+)>>(.*?)(?=^<<|\z)/msg;
	chomp(%result);
	my $same = 0;
	for my $i (0 .. $#run)
	{
		my $r = $result{$i} // 'no result';
		if ($r eq 'same') { $same++; next; }
		fail("$name: $run[$i][2]");
		diag($r);
	}
	is($same, scalar(@run), "$name: all figures are core's");
	return split /\|/, $result{types} // '';
}

my %met = map { $_ => 1 } run_battery('as EXPLAIN does', '', 'TIMING OFF');
my @missing = grep { !$met{$_} } @required;
is("@missing", '', 'every node type was met');

run_battery('records from the first call on', 'SET light_explain.switch_after = 0', 'TIMING OFF');
run_battery('track_io_timing', 'SET track_io_timing = on', 'TIMING ON');
run_battery('switching while nodes run', 'SET light_explain.switch_after = 3', 'TIMING OFF');
run_battery('switching late', 'SET light_explain.switch_after = 20', 'TIMING ON');
run_battery('never switching', 'SET light_explain.switch_after = 1000000000', 'TIMING ON');
run_battery('system clock', 'SET light_explain.timing = system', 'TIMING ON', qr/SELECT/);
run_battery('nested statements measured as well', 'SET light_explain.instrument_all = on', 'TIMING ON', qr/f_|UPDATE|DELETE|INSERT|EXECUTE|ft|fp/);

# Figures of whole statements, which light_explain takes for others too.
if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'}))
{
	for my $libraries ('pg_stat_statements, light_explain', 'light_explain, pg_stat_statements')
	{
		my %shown;
		$node->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'\npg_stat_statements.track = all");
		$node->restart;
		# another process may make a catalog be read again: a wrong counter is wrong each time
		for (1 .. 5)
		{
			for my $enabled ('off', 'on')
			{
				# nothing left over from the other run
				$node->safe_psql('postgres', <<'SQL');
DROP TABLE IF EXISTS s, c;
CREATE EXTENSION IF NOT EXISTS pg_stat_statements;
CREATE TABLE s (id int PRIMARY KEY, v int);
CREATE TABLE c (id int REFERENCES s);
INSERT INTO s SELECT g, g FROM generate_series(1, 1000) g;
VACUUM ANALYZE s;
CREATE OR REPLACE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int; BEGIN
	FOR i IN 1..5 LOOP
		BEGIN SELECT 1 / (v - 3) INTO r FROM s WHERE id = i; EXCEPTION WHEN division_by_zero THEN NULL; END;
	END LOOP;
	RETURN r;
END$$;
SQL
				$shown{$enabled} = $node->safe_psql('postgres', <<"SQL");
SET light_explain.instrument_all = on; SET light_explain.enabled = $enabled;
\\o /dev/null
SELECT v FROM s WHERE id = 7;
SELECT sum(v), pg_sleep(0.05) FROM s;
SELECT pg_stat_statements_reset();
CHECKPOINT;
SELECT v FROM s WHERE id = 7;
SELECT sum(v), pg_sleep(0.05) FROM s;
BEGIN;
DECLARE d CURSOR FOR SELECT * FROM s; FETCH 3 FROM d; FETCH 30 FROM d; CLOSE d;
INSERT INTO c SELECT id FROM s;
INSERT INTO s VALUES (2000, 1), (2001, 2);
WITH w AS (UPDATE s SET v = v + 1 WHERE id <= 5 RETURNING id) SELECT 1;
SELECT caught();
ROLLBACK;
\\o
SELECT string_agg(concat_ws(' ', calls, rows, shared_blks_hit, shared_blks_dirtied, wal_records, total_exec_time > 0,
	total_exec_time > 49 AND query ~ 'pg_sleep', query), chr(10) ORDER BY query COLLATE "C")
FROM pg_stat_statements WHERE query ~ ' (s|c|d)\\M|caught' AND query !~ 'pg_stat|DECLARE';
SQL
			}
			last if $shown{on} eq $shown{off};
		}
		is($shown{on}, $shown{off}, "statements as a whole, $libraries");
		like($shown{on}, qr/^1 1 \d+ .* t t SELECT sum\(v\)/m, "their time is measured, $libraries");
	}
}

# Blocks that calls in the middle of a page use: a comparison that reads the catalog of a value added to
# an enum, once in a session, and rows that are fetched because the caller has changed their page.
$node->safe_psql('postgres', <<'SQL');
CREATE TYPE letter AS ENUM ('a', 'c');
ALTER TYPE letter ADD VALUE 'b' BEFORE 'c';
CREATE TABLE letters AS SELECT CASE WHEN g < 150 THEN 'a' ELSE 'b' END::letter AS x FROM generate_series(1, 300) g;
CREATE TABLE changed (id int PRIMARY KEY, v int) WITH (autovacuum_enabled = off);
CREATE FUNCTION changes(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS
$$BEGIN IF i % 226 = 100 THEN DELETE FROM changed WHERE id = i + 1; END IF; RETURN i; END$$;
SQL
for my $case (
	[ 'an enum', 'VACUUM letters', "SELECT * FROM letters WHERE x < 'c'" ],
	[ 'partitions', '', 'SELECT count(*) FROM pg_class WHERE pg_partition_root(oid) IS NULL' ],
	[ 'an index-only scan', 'TRUNCATE changed; INSERT INTO changed SELECT g, g FROM generate_series(1, 2000) g; VACUUM ANALYZE changed',
		'SELECT count(changes(id)) FROM (SELECT id FROM changed WHERE id > 0 ORDER BY id OFFSET 0) s' ])
{
	my ($what, $prepare, $statement) = @$case;
	my %shown;
	for (1 .. 5)
	{
		for my $enabled ('off', 'on')
		{
			$node->safe_psql('postgres', $prepare);
			$shown{$enabled} = $node->safe_psql('postgres', "SET enable_seqscan = @{[$what eq 'an index-only scan' ? 'off' : 'on']}; SET enable_bitmapscan = off; SET light_explain.enabled = $enabled;
				EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $statement");
			$shown{$enabled} =~ s/^Planning:.*//ms;
		}
		last if $shown{on} eq $shown{off};
	}
	is($shown{on}, $shown{off}, "blocks in the middle of pages: $what");
	like($shown{on}, qr/Index Only Scan.*Heap Fetches: [1-9]/s, 'rows are fetched') if $what eq 'an index-only scan';
}

is($node->safe_psql('postgres', 'SELECT 1'), '1', 'the server is alive');
$node->stop;
done_testing();

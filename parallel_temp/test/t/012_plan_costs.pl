# Which plan is chosen where workers take part of the work, and with how many processes: what
# regression tests cannot show because it depends on the machine, or on other processes.

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('costs');
$node->init;
$node->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = 'parallel_temp'
autovacuum = off
fsync = off
max_parallel_workers_per_gather = 2
EOC
$node->start;

sub session
{
	my ($sql) = @_;
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$sql, '>', \$stdout, '2>', \$stderr);
	return $stderr . $stdout;
}

# The plans of statements in a session after "setup", each as serial or parallel.
sub chosen
{
	my ($setup, @statements) = @_;
	my $result = session("$setup;\n" . join('', map { "\\echo *\nEXPLAIN (COSTS OFF) $_;\n" } @statements));
	my (undef, @plans) = split /^\*$/m, $result;
	return (join(' ', map { /Gather/ ? 'parallel' : 'serial' } @plans), $result);
}

my $tables = <<'SQL';
SET temp_buffers = '64MB';
CREATE TEMP TABLE small AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 5000) g;
CREATE TEMP TABLE large AS SELECT g AS id, g % 1000 AS k, repeat('p', 60) AS pad FROM generate_series(1, 400000) g;
CREATE INDEX ON small (id);
CREATE INDEX ON large (id);
VACUUM ANALYZE small, large
SQL

# Since 19 workers use no index of a temporary table.
my $by_index = $node->safe_psql('postgres', "SELECT current_setting('server_version_num')::int >= 190000") eq 't' ? 'serial' : 'parallel';

# By default: long statements have workers, short ones and those with few lookups do not.
my ($plans, $output) = chosen(
	$tables,
	'SELECT count(*) FROM small',
	'SELECT k, count(*) FROM large GROUP BY k',
	'SELECT count(pad) FROM large WHERE id < 100',
	'SELECT count(pad) FROM small JOIN large USING (id) WHERE small.id < 50',
	'SELECT count(*) FROM large a JOIN large b USING (id) WHERE a.k < 900',
	'SELECT id, pad FROM large',
	'CREATE TEMP TABLE made AS SELECT id, pad FROM large WHERE k % 3 <> 1',
	'INSERT INTO small SELECT id, k FROM large WHERE k % 30 = 1');
is($plans, 'serial parallel serial serial parallel serial parallel parallel', 'what pays has workers') or diag($output);

# One worker without its leader is as slow as the leader alone.
($plans, $output) = chosen(
	"$tables;\nALTER TABLE large SET (parallel_workers = 1);\nSET parallel_leader_participation = off",
	'SELECT k, count(*) FROM large GROUP BY k');
is($plans, 'serial', 'a worker in place of the leader') or diag($output);

# A filter that costs much is divided, whatever path reads the rows.
($plans, $output) = chosen(
	<<"SQL",
$tables;
CREATE FUNCTION expensive(int) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE COST 100 AS 'BEGIN RETURN \$1 > 0; END';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0
SQL
	'SELECT count(pad) FROM large WHERE id < 30000 AND expensive(k)',
	'SELECT count(id) FROM large WHERE id < 30000 AND expensive(id)');
is($plans, "$by_index $by_index", 'a filter that costs much') or diag($output);

# Where workers start faster than by default, one of them pays earlier, also if the server's
# parallel_setup_cost is more.
my $medium = "$tables;\nCREATE TEMP TABLE medium AS SELECT * FROM large WHERE id <= 100000;\nANALYZE medium";
($plans, $output) = chosen($medium, 'SELECT count(*) FROM medium');
is($plans, 'serial', 'the start of a worker costs more than it saves') or diag($output);
($plans, $output) = chosen("$medium;\nSET parallel_temp.worker_start_cost = 300", 'SELECT count(*) FROM medium');
is($plans, 'parallel', 'the start of a worker costs less than parallel_setup_cost') or diag($output);

# The server hashes, because it takes lookups in an index for reads of a disk.  They would be the
# cheapest serial plan, which is not used: workers must only be cheaper than the hash join.
($plans, $output) = chosen(
	<<"SQL",
$tables;
CREATE TEMP TABLE keys AS SELECT (g * 7919) % 400000 + 1 AS id, g % 100 AS k, repeat('k', 60) AS pad FROM generate_series(1, 60000) g;
VACUUM ANALYZE keys;
SET parallel_temp.enter_page_cost = 0.2
SQL
	'SELECT count(large.pad) FROM keys JOIN large USING (id) WHERE keys.k < 8');
is($plans, 'parallel', 'a serial plan that is not used does not win') or diag($output);

# A worker enters pages that are in buffers, however large the table is.
($plans, $output) = chosen(
	<<"SQL",
SET temp_buffers = '8MB';
@{[ $tables =~ s/SET temp_buffers[^;]*;//r ]};
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.enter_page_cost = 1
SQL
	'SELECT count(pad) FROM large WHERE id < 390000');
is($plans, $by_index, 'pages in files are not entered') or diag($output);

# The leader leaves an index that is larger than the buffers to its workers: one of them is as slow as the leader.
for my $case ([ $by_index, '128MB', 'one worker and its leader' ], [ 'serial', '8MB', 'one worker, to which the leader leaves the index' ])
{
	my ($expected, $buffers, $name) = @$case;
	($plans, $output) = chosen(
		<<"SQL",
SET temp_buffers = '$buffers';
@{[ $tables =~ s/SET temp_buffers[^;]*;//r ]};
ALTER TABLE large SET (parallel_workers = 1);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.enter_page_cost = 0
SQL
		'SELECT count(pad) FROM large WHERE id < 390000');
	is($plans, $expected, $name) or diag($output);
}

# Random reads may cost nothing.
($plans, $output) = chosen("$tables;\nSET random_page_cost = 0;\nSET seq_page_cost = 0",
	'SELECT count(*) FROM small', 'SELECT k, count(*) FROM large GROUP BY k');
is($plans, 'serial parallel', 'pages that cost nothing') or diag($output);

# The setting that makes a plan parallel over an unlogged table, however small, does so over a
# temporary one.
my @shapes = (
	'SELECT * FROM %s', 'SELECT count(*) FROM %s', 'SELECT * FROM %s ORDER BY k', 'SELECT DISTINCT k FROM %s',
	'SELECT count(*) FROM %s a JOIN %s b USING (id)', 'SELECT count(*) FROM %s WHERE k IN (SELECT k FROM %s)',
	'SELECT * FROM %s UNION ALL SELECT * FROM %s', 'SELECT max(id) OVER (PARTITION BY k) FROM %s');
my $forced = <<'SQL';
CREATE TEMP TABLE tt AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 40) g;
CREATE UNLOGGED TABLE IF NOT EXISTS ut AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 40) g;
ANALYZE tt; ANALYZE ut;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0
SQL
my ($unlogged, $of_unlogged) = chosen($forced, map { s/%s/ut/gr } @shapes);
my ($temporary, $of_temporary) = chosen($forced, map { s/%s/tt/gr } @shapes);
is($temporary, $unlogged, 'forced plans are parallel over temporary tables too') or diag("$of_unlogged\n$of_temporary");
like($unlogged, qr/^(parallel ?){7,}/, 'and forced at all') or diag($of_unlogged);

# Not more processes than CPUs that this process may use, two at least: the server is started on one of them.
my $cpus = `taskset -p $$ 2>/dev/null` =~ /mask: (\w+)/ ? hex($1) : undef;
SKIP:
{
	skip 'no taskset', 4 unless defined $cpus;
	my $many = "$tables;\nSET max_parallel_workers_per_gather = 8;\nSET min_parallel_table_scan_size = '8kB'";
	my $count = grep { $cpus >> $_ & 1 } 0 .. 62;
	my $limit = $count < 2 ? 2 : $count;
	my $query = 'EXPLAIN (COSTS OFF) SELECT k, count(*) FROM large GROUP BY k';
	$output = session("$many;\n$query;");
	my ($workers) = $output =~ /Workers Planned: (\d+)/;
	cmp_ok($workers // 99, '<=', $limit - 1, 'as many processes as CPUs') or diag($output);
	my $first = 0;
	$first++ until $cpus >> $first & 1;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	system_or_bail('taskset', '-p', sprintf('%x', 1 << $first), $postmaster);
	for my $case ([ '', 1, 'one and the leader on one CPU' ],
		[ 'SET parallel_leader_participation = off;', 2, 'two without the leader' ],
		[ 'SET parallel_setup_cost = 0;', 'more', 'more if the user asks for them' ])
	{
		my ($setting, $expected, $name) = @$case;
		$output = session("$many;\n$setting\n$query;");
		($workers) = $output =~ /Workers Planned: (\d+)/;
		$workers = 'more' if ($workers // 0) > 2;
		is($workers, $expected, $name) or diag($output);
	}
}

unlike(slurp_file($node->logfile), qr/refcount leak|TRAP|PANIC|was terminated by signal/, 'no leak, no crash');
$node->stop;
done_testing();

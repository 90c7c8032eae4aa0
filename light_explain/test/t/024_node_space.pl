# Memory, temporary files and compilation of statements in the profile are those that EXPLAIN ANALYZE prints.
use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
autovacuum = off
jit = off
compute_query_id = on
max_parallel_workers_per_gather = 0
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION light_explain;
CREATE TABLE t AS SELECT g AS id, g % 100 AS k, md5(g::text) AS v FROM generate_series(1, 20000) g;
CREATE INDEX t_k ON t (k);
VACUUM ANALYZE t;
SQL
# with jit = off the server does not look for the library
my ($version, $has_jit) = split /\|/, $node->safe_psql('postgres', q{SET jit = on; SELECT current_setting('server_version_num')::int / 10000, pg_jit_available()});

# The names of the profile for the nodes of which EXPLAIN prints something.
sub name_of
{
	my ($plan) = @_;
	my $type = $plan->{'Node Type'};
	return $type eq 'Aggregate' ? { Hashed => 'HashAggregate', Mixed => 'MixedAggregate' }->{ $plan->{Strategy} } : $type;
}

# Kilobytes of a node, and of its workers: the largest memory, and the sum of files.
sub add_space
{
	my ($plan, $found) = @_;
	my $name = name_of($plan);
	for my $part ($plan, @{ $plan->{Workers} || [] })
	{
		last unless defined $name;
		my ($memory, $disk) = (0, 0);
		for my $group ($part->{'Full-sort Groups'}, $part->{'Pre-sorted Groups'})
		{
			next unless $group;
			my $peak = $group->{'Sort Space Memory'}{'Peak Sort Space Used'} || 0;
			$memory = $peak if $peak > $memory;
		}
		$memory = $part->{'Peak Memory Usage'} if $part->{'Peak Memory Usage'};
		$disk = $part->{'Disk Usage'} if $part->{'Disk Usage'};
		($part->{'Sort Space Type'} eq 'Disk' ? $disk : $memory) = $part->{'Sort Space Used'} if $part->{'Sort Space Used'};
		($part->{'Storage'} eq 'Disk' ? $disk : $memory) = $part->{'Maximum Storage'} if $part->{'Maximum Storage'};
		$disk = ($part->{'Temp Written Blocks'} - ($plan->{below} || 0)) * 8 if $name eq 'Hash' && $part == $plan;
		next unless $memory || $disk;
		$found->{$name} ||= [ 0, 0 ];
		$found->{$name}[0] = $memory if $memory > $found->{$name}[0];
		$found->{$name}[1] += $disk;
	}
	add_space($_, $found) for @{ $plan->{Plans} || [] };
	return $found;
}

# Run a statement $times, and compare.
sub same
{
	my ($what, $settings, $statement, $expected, $times) = @_;
	$times ||= 1;
	$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
	my $out = $node->safe_psql('postgres', join(";\n", @$settings, 'SET light_explain.profile = on', ("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $statement") x $times));
	my $explained = (decode_json('[' . join(',', $out =~ /^(\[.*?^\])/msg) . ']'))->[-1][0];
	my $found = add_space($explained->{Plan}, {});
	my $shown = join ' ', map { "$_:$found->{$_}[0]:" . $found->{$_}[1] * $times } sort keys %$found;
	my $profile = $node->safe_psql('postgres', q{
		SELECT string_agg(format('%s:%s:%s', node_type, (max_memory_bytes + 1023) / 1024, (spilled_bytes + 1023) / 1024), ' ' ORDER BY node_type COLLATE "C")
		FROM (SELECT node_type, coalesce(max(max_memory_bytes), 0) AS max_memory_bytes, sum(spilled_bytes)::bigint AS spilled_bytes FROM light_explain_profile()
			WHERE (max_memory_bytes IS NOT NULL OR spilled_bytes IS NOT NULL) AND node_type <> 'Hash Join' GROUP BY node_type) n});
	is($profile, $shown, "$what: $shown");
	like($shown, $expected, "... of the kind that is tested");
	return $explained;
}

my $small = "SET work_mem = '64kB'";
my $large = "SET work_mem = '64MB'";
my $sort = 'SELECT v FROM t ORDER BY v';
same('a sort', [$large], $sort, qr/^Sort:\d{3,}:0$/);
same('... three times', [$large], $sort, qr/^Sort:\d{3,}:0$/, 3);
same('a sort on disk', [$small], $sort, qr/^Sort:0:\d{3,}$/);
same('... three times', [$small], $sort, qr/^Sort:0:\d{3,}$/, 3);
same('an incremental sort', [ $large, 'SET enable_sort = off', 'SET enable_seqscan = off' ], 'SELECT k, v FROM t ORDER BY k, v LIMIT 500', qr/^Incremental Sort:\d+:0$/);
same('a hash', [ $large, 'SET enable_mergejoin = off', 'SET enable_nestloop = off' ], 'SELECT count(*) FROM t a JOIN t b ON a.id = b.id', qr/^Hash:\d{3,}:0$/);
same('a hash with batches', [ $small, "SET hash_mem_multiplier = 1", 'SET enable_mergejoin = off', 'SET enable_nestloop = off' ], 'SELECT count(*) FROM t a JOIN t b ON a.v = b.v', qr/^Hash:\d{2,}:\d{3,}$/);
like($node->safe_psql('postgres', q{SELECT max_memory_bytes IS NULL, spilled_bytes = temp_written * 8192, spilled_bytes > 100000 FROM light_explain_profile() WHERE node_type = 'Hash Join'}), qr/^t\|t\|t$/, '... and of its join');
same('a hash aggregate', [ $large, 'SET enable_sort = off' ], 'SELECT v, count(*) FROM t GROUP BY v', qr/^HashAggregate:\d{3,}:0$/);
same('a hash aggregate on disk', [ $small, 'SET enable_sort = off', 'SET hash_mem_multiplier = 1' ], 'SELECT v, count(*) FROM t GROUP BY v', qr/^HashAggregate:\d{2,}:\d{3,}$/);
same('memoize', [ $large, 'SET enable_hashjoin = off', 'SET enable_mergejoin = off', 'SET enable_seqscan = off', 'SET enable_bitmapscan = off' ], 'SELECT count(b.v) FROM (SELECT id, k FROM t OFFSET 0) a JOIN t b ON a.k = b.k WHERE a.id < 300', qr/Memoize:\d{2,}:0/);
if ($version >= 18)
{
	my @loops = ('SET enable_hashjoin = off', 'SET enable_mergejoin = off', 'SET enable_indexscan = off', 'SET enable_bitmapscan = off');
	same('materialize', [ $large, @loops ], 'SELECT count(*) FROM (SELECT v FROM t WHERE id < 5) a LEFT JOIN (SELECT v FROM t OFFSET 0) b ON a.v < b.v', qr/^Materialize:\d{3,}:0$/);
	same('materialize on disk', [ $small, @loops ], 'SELECT count(*) FROM (SELECT v FROM t WHERE id < 5) a LEFT JOIN (SELECT v FROM t OFFSET 0) b ON a.v < b.v', qr/^Materialize:0:\d{3,}$/);
	same('a CTE', [$large], 'WITH c AS MATERIALIZED (SELECT v FROM t) SELECT count(*) FROM c', qr/^CTE Scan:\d{3,}:0$/);
	same('a window', [$large], 'SELECT count(*) OVER () FROM t', qr/^WindowAgg:\d{3,}:0$/);
	same('a recursive union', [$large], 'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT n FROM r', qr/Recursive Union:\d+:0/);
}
same('a sort in workers', [ $small, 'SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0' ],
	$sort, qr/^Sort:\d+:\d{3,}$/);

# a statement that fails has none
$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
$node->psql('postgres', 'SET light_explain.profile = on; SELECT 1 / (id - 20000) FROM (SELECT id FROM t ORDER BY id, v OFFSET 0) s');
is($node->safe_psql('postgres', 'SELECT max(failed), count(max_memory_bytes) FROM light_explain_profile()'), '1|0', 'a statement that failed has none');

SKIP:
{
	skip 'no just-in-time compilation here', 10 unless $has_jit eq 't';
	my @jit = ('SET jit = on', 'SET jit_above_cost = 0', 'SET jit_optimize_above_cost = 0');
	for my $parallel ([], [ 'SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0' ])
	{
		my $jit = same('compilation', [ $large, @jit, @$parallel ], 'SELECT k, sum(id + 1) FROM t GROUP BY k ORDER BY k', qr/./)->{JIT};
		my ($functions, $ms, $others) = split /\|/, $node->safe_psql('postgres', q{SELECT sum(jit_functions), sum(jit_ms), count(jit_ms) FROM light_explain_profile()});
		is($functions, $jit->{Functions}, "functions: $functions");
		ok(abs($ms - $jit->{Timing}{Total}) < 0.01, "time: $ms");
		is($others, 1, 'in the row of the top node');
	}
}
$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
$node->safe_psql('postgres', 'SET light_explain.profile = on; SELECT count(*) FROM t');
is($node->safe_psql('postgres', 'SELECT sum(jit_functions), sum(jit_ms), count(max_memory_bytes) FROM light_explain_profile()'), '0|0|0', 'a statement that compiles nothing');

$node->stop;
done_testing();

# Times agree with each other: the top node with the execution time, every node
# with its parent, own times with the total, for each clock.
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
max_parallel_workers_per_gather = 0
work_mem = 64MB
enable_material = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION light_explain;
CREATE TABLE t AS SELECT g AS id, g % 1000 AS k, repeat('x', 50) AS v FROM generate_series(1, 60000) g;
CREATE INDEX ON t (id);
VACUUM ANALYZE t;
SQL

my %query = (
	'aggregate' => 'SELECT count(*), sum(k) FROM t, generate_series(1, 4)',
	'hash join' => 'SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND b.id < 2000',
	'sort' => 'SELECT count(*) FROM (SELECT * FROM t ORDER BY k, v, id DESC OFFSET 0) s',
	'nested loop' => 'SELECT count(b.v) FROM (SELECT * FROM t WHERE id < 30000 OFFSET 0) a JOIN LATERAL (SELECT * FROM t b WHERE b.id = a.id OFFSET 0) b ON true',
	# a small CTE: what the executor frees at its end belongs to no node
	'subplans' => 'WITH c AS MATERIALIZED (SELECT id, k FROM t WHERE id <= 3000) SELECT (SELECT max(k) FROM c), count(*) FROM c, generate_series(1, 60) WHERE id > (SELECT avg(id) FROM c)');

# Faults in the times of a node and all nodes below it.
sub faults
{
	my ($plan, $parent) = @_;
	my @faults;
	my $total = $plan->{'Actual Total Time'} * $plan->{'Actual Loops'};
	my $slack = 0.001 * ($plan->{'Actual Loops'} + ($parent ? $parent->{'Actual Loops'} : 0)) + 0.002;

	# shown times are of one loop, rounded to microseconds
	if ($parent)
	{
		my $above = $parent->{'Actual Total Time'} * $parent->{'Actual Loops'};
		push @faults, "$plan->{'Node Type'} $total above its parent's $above" if $total > $above + $slack;
	}
	push @faults, "$plan->{'Node Type'} starts after its end" if $plan->{'Actual Startup Time'} > $plan->{'Actual Total Time'} + 0.0011;
	push @faults, "$plan->{'Node Type'} has a negative time" if $total < 0 || $plan->{'Actual Startup Time'} < 0;
	# an InitPlan or a CTE runs where it is first needed, not in the node above it
	push @faults, map { faults($_, ($_->{'Parent Relationship'} // '') =~ /InitPlan|SubPlan/ ? undef : $plan) } @{ $plan->{Plans} // [] };
	return @faults;
}

for my $timing (qw(auto system))
{
	for my $name (sort keys %query)
	{
		my ($apart, @faults, $sum);
		# a busy machine may interrupt between the last node and the end
		for (1 .. 25)
		{
			my ($plan, $self) = split /\n<<>>\n/, $node->safe_psql('postgres', "SET light_explain.timing = $timing;\n"
				  . "EXPLAIN (ANALYZE, FORMAT JSON) $query{$name};\n\\echo <<>>\nSELECT sum(self_ms) FROM light_explain_last();");
			my $result = decode_json($plan)->[0];
			my $root = $result->{Plan}{'Actual Total Time'};
			@faults = faults($result->{Plan});
			push @faults, "top node above execution time" if $root > $result->{'Execution Time'} + 0.001;
			# the executor's work outside every node, such as freeing a sort's memory, is not counted in a node
			my $core = decode_json($node->safe_psql('postgres', "SET light_explain.enabled = off; EXPLAIN (ANALYZE, FORMAT JSON) $query{$name}"))->[0];
			my $outside = $core->{'Execution Time'} - $core->{Plan}{'Actual Total Time'};
			$apart = ($result->{'Execution Time'} - $root - $outside) / $result->{'Execution Time'};
			$sum = $self / $root;
			last if !@faults && $apart <= 0.01 && abs($sum - 1) < 0.02;
		}
		is("@faults", '', "$timing, $name: no node above its parent");
		cmp_ok($apart, '<=', 0.01, "$timing, $name: top node is the execution time");
		cmp_ok(abs($sum - 1), '<', 0.02, "$timing, $name: own times add up");
	}
}

$node->stop;
done_testing();

# Measures, and tests only that it can: each node's part of a statement's time by construction, by light_explain and by the server.
#
# By construction: light_test_alone() executes the plan, each node below without those above it, and the aggregate above a child that
# does nothing, without instrumentation.  The time that the aggregate adds and the time that it takes alone differ by the instructions of
# both that the CPU executes at once, so the true part is between them.  Rounds alternate; the least times and medians of the fastest quarter are printed.
#
#	  make -C light_explain installcheck REGRESS= ISOLATION= PROVE_TESTS=test/clock/alone_times.pl PROVE_FLAGS=-v
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t";
use JSON::PP;
use List::Util qw(max min sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TrueShares;

my $rounds = $ENV{ROUNDS} // 40;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
shared_buffers = 256MB
work_mem = 256MB
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION light_explain;' . shares_sql(200_000));
$node->safe_psql('postgres', qq{CREATE FUNCTION light_test_alone(query text, rounds int, OUT node int, OUT rows bigint, OUT whole float8, OUT adds float8, OUT alone float8)
	RETURNS SETOF record LANGUAGE c AS '$FindBin::RealBin/light_test_alone.so'});

# how EXPLAIN measures, and the settings for that
my @ways = ([ 'light_explain', 'SET light_explain.enabled = on' ], [ 'the server', 'SET light_explain.enabled = off' ]);
push @ways, [ "the server, system's clock", "SET light_explain.enabled = off; SET timing_clock_source = 'system'" ]
  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'timing_clock_source'});

sub percent { return join(' ', map { sprintf '%5.1f', 100 * $_ } @_) }

for my $statement ('SELECT count(*) FROM clustered', 'SELECT sum(id) FROM clustered', 'SELECT count(*) FROM clustered WHERE k < 50',
	'SELECT count(*) FROM (SELECT * FROM clustered ORDER BY anywhere, k OFFSET 0) s')
{
	my $script = "\\pset format unaligned\n\\pset tuples_only on\n$statement \\g /dev/null\n";
	for (1 .. $rounds)
	{
		$script .= "SET light_explain.enabled = off;\nSELECT json_agg(a ORDER BY node) FROM light_test_alone(\$q\$$statement\$q\$, 1) a;\n\\echo <<>>\n";
		$script .= "$_->[1];\nEXPLAIN (ANALYZE, BUFFERS OFF, FORMAT JSON) $statement;\n\\echo <<>>\n" for @ways;
	}
	my @results = map { decode_json($_) } grep { /\S/ } split /<<>>\n?/, $node->safe_psql('postgres', $script);
	my @built = map { $results[ $_ * (@ways + 1) ] } 0 .. $rounds - 1;
	my @whole = map { my $i = $_; min(map { $_->[$i]{whole} } @built) } 0 .. $#{ $built[0] };
	my $adds = $whole[0] - $whole[1];
	my $alone = min(map { $_->[0]{alone} } @built);
	note "$statement\n" . sprintf "by construction: %.3f ms, the aggregate adds %.3f (%.1f %%) and takes %.3f alone (%.1f %%)", $whole[0], $adds, 100 * $adds / $whole[0], $alone, 100 * $alone / $whole[0];
	for my $way (0 .. $#ways)
	{
		my @own = sort { sum(@$a) <=> sum(@$b) } map { (own_times($results[ $_ * (@ways + 1) + 1 + $way ][0]))[0] } 0 .. $rounds - 1;
		@own = @own[ 0 .. max(2, int(@own / 4) - 1) ];
		my @shares = map { my $all = sum(@$_); [ map { $_ / $all } @$_ ] } @own;
		note sprintf '%-28s %.3f ms, percent of the nodes from the top: %s', $ways[$way][0], sum(@{ $own[0] }), percent(map { my $i = $_; median(map { $_->[$i] } @shares) } 0 .. $#{ $own[0] });
	}
	cmp_ok($whole[0], '>', 0, "measured: $statement");
}

$node->stop;
done_testing();

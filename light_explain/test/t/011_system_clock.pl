# Where no counter of the processor is known the system clock takes its place: every
# setting works, with the same figures and times that agree.
# Slow: the library is built a second time
use strict;
use warnings;

use FindBin;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = "$FindBin::RealBin/../variant/system_clock.so";
(my $functions = slurp_file("$FindBin::RealBin/../../sql/light_explain--0.9.sql")) =~ s/^(?:\\echo|SET LOCAL) .*$//mg;
$functions =~ s/\@extschema\@/public/g;
$functions =~ s/MODULE_PATHNAME/$library/g;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<"CONF");
shared_preload_libraries = '$library'
autovacuum = off
jit = off
compute_query_id = on
max_parallel_workers_per_gather = 0
CONF
$node->start;
$node->safe_psql('postgres', $functions);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT g AS id, g % 1000 AS k FROM generate_series(1, 20000) g;
CREATE INDEX ON t (id);
VACUUM ANALYZE t;
SQL

is($node->safe_psql('postgres', 'SELECT enabled, clock FROM light_explain_status()'), 't|system', 'the clock is the system\'s');

# A plan's nodes as lines of figures; what is wrong with their times goes to @$faults.
sub nodes
{
	my ($plan, $parent, $faults) = @_;
	my $total = $plan->{'Actual Total Time'} * $plan->{'Actual Loops'};

	# times of a loop are rounded to microseconds: a lookup may take none
	push @$faults, "$plan->{'Node Type'} took no time" if $total <= 0 && $plan->{'Actual Loops'} == 1;
	push @$faults, "$plan->{'Node Type'} $total above $parent" if defined $parent && $total > $parent + 0.0011 * ($plan->{'Actual Loops'} + 2);
	return join("\n", join(' ', map { $plan->{$_} } 'Node Type', 'Actual Rows', 'Actual Loops', 'Shared Hit Blocks'), map { nodes($_, $total, $faults) } @{ $plan->{Plans} // [] });
}

my %statement = (
	'aggregate' => 'SELECT count(*), sum(k) FROM t',
	'hash join' => 'SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND b.id < 200',
	'nested loop' => 'SELECT count(b.k) FROM (SELECT * FROM t WHERE id < 3000 OFFSET 0) a JOIN LATERAL (SELECT * FROM t b WHERE b.id = a.id OFFSET 0) b ON true');

for my $name (sort keys %statement)
{
	my $explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $statement{$name}";
	my $plan = sub { return decode_json($node->safe_psql('postgres', "SELECT count(*) FROM t \\g /dev/null\n$_[0];\n$explain"))->[0]{Plan} };
	my $core = nodes($plan->('SET light_explain.enabled = off'), undef, []);

	for my $timing (qw(auto system))
	{
		my @faults;
		is(nodes($plan->("SET light_explain.timing = $timing"), undef, \@faults), $core, "$name, $timing: figures are core's");
		is("@faults", '', "$name, $timing: times agree");
		is($node->safe_psql('postgres', "SET light_explain.timing = $timing; $explain \\g /dev/null\nSELECT count(*) > 1, min(total_ms) > 0 FROM light_explain_last()"), 't|t', "$name, $timing: each node took time");
	}
}

$node->safe_psql('postgres', 'SET light_explain.profile = on; SELECT sum(k) FROM t');
is($node->safe_psql('postgres', q{SELECT label, rows, total_ms > 0 AND self_ms <= total_ms FROM light_explain_profile WHERE query ~ 'sum' ORDER BY node}),
	"Aggregate|1|t\n  Seq Scan on t|20000|t", 'the profile has times');

# a library that one session loads has nothing to wait for
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is($node->safe_psql('postgres', "LOAD '$library'; SELECT clock FROM light_explain_status()"), 'system', 'loaded by one session: the same clock');
like($node->safe_psql('postgres', "LOAD '$library'; EXPLAIN ANALYZE SELECT count(*) FROM t"), qr/Seq Scan on t .*\(actual time=\d.*rows=20000/, 'and its figures');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'nothing bad in the log');
done_testing();

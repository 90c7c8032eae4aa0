# Random statements give the same rows with the feature off and on.
#
# FUZZ_SEED=n and FUZZ_COUNT=n in the environment choose others, or more.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Differential;
use RandomQuery;

my $seed = $ENV{FUZZ_SEED} || 1;
my $count = $ENV{FUZZ_COUNT} || 300;

my $node = PostgreSQL::Test::Cluster->new('random');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = 'parallel_temp'
max_worker_processes = 12
fsync = off
EOC
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION parallel_temp;
CREATE TABLE perm AS SELECT g AS id, g % 100 AS k, 'row ' || g AS txt FROM generate_series(1, 5000) g;
CREATE INDEX ON perm (id);
CREATE TABLE parent (id int, k int);
INSERT INTO parent SELECT g, g % 50 FROM generate_series(1, 500) g;
ANALYZE;
SQL

my @settings = (
	'', 'SET enable_hashjoin = off; SET enable_mergejoin = off;', 'SET enable_seqscan = off;',
	'SET enable_hashjoin = off; SET enable_nestloop = off;', 'SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;',
	'SET parallel_leader_participation = off;', 'SET enable_hashagg = off; SET enable_material = off;');
my @buffers = ('800kB', '2MB', '32MB');
my $sessions = 6;
foreach my $i (0 .. $sessions - 1)
{
	my $random = RandomQuery->new($seed * 1000 + $i);
	my $session = Differential->new(
		node => $node, temp_buffers => $buffers[ $i % @buffers ],
		settings => "SET statement_timeout = '60s'; $settings[$i % @settings]");
	$session->setup($RandomQuery::SETUP);
	$session->compare($random->statement) foreach 1 .. $count / $sessions;
	my ($complaints, $counters) = $session->run;
	is(join("\n\n", grep { defined } @$complaints[ 0 .. 4 ]), '', "seed $seed, session $i: the same rows");
	cmp_ok($counters->{'queries with shared pages'}, '>', $count / $sessions / 10, '... and many statements share');
	note(join(', ', map { "$_ $counters->{$_}" } grep { $counters->{$_} } sort keys %$counters));
}
unlike(slurp_file($node->logfile), qr/refcount leak|TRAP|PANIC|was terminated by signal/, 'no leak, no crash');
$node->stop;
done_testing();

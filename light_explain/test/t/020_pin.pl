# Regressions on 19: the statement that view and function print pins the plan of before.
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
plan skip_all => 'the server has no plan advice before 19' if $node->pg_version->major < 19;
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain, pg_stash_advice, pg_plan_advice'
autovacuum = off
jit = off
compute_query_id = on
max_parallel_workers_per_gather = 0
light_explain.history_interval = 1d
pg_plan_advice.always_explain_supplied_advice = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA "the stash's"; CREATE EXTENSION pg_stash_advice SCHEMA "the stash's"; CREATE EXTENSION light_explain;
CREATE ROLE other LOGIN;
CREATE TABLE s AS SELECT g AS id, g % 1000 AS k, repeat('x', 100) AS v FROM generate_series(1, 100000) g;
CREATE INDEX "an ""index""" ON s (id); CREATE TABLE b AS SELECT g AS id FROM generate_series(1, 3) g;
VACUUM ANALYZE s, b;
SELECT "the stash's".pg_create_advice_stash('pinned');
SQL
sub query { return $node->safe_psql('postgres', @_); }

sub configure
{
	my ($name, $value) = @_;
	$node->append_conf('postgresql.conf', "$name = $value");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$value' FROM pg_settings WHERE name = '$name'") or die "$name is not reloaded";
}

sub end_bucket
{
	my $last = query('SELECT max(bucket) FROM light_explain_latency()');
	configure('light_explain.history_interval', 1);
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM light_explain_latency() WHERE bucket = $last AND bucket_end IS NULL") or die 'does not end';
	configure('light_explain.history_interval', 86400);
}

# The first statement has a plan of one table, the second one of two; the third is a function's.
my @statements = ('SELECT v FROM s WHERE id = 77', 'SELECT count(*) FROM b JOIN s ON s.id = b.id', 'SELECT f()');
my $plan = sub { return query("SET light_explain.profile = off; $_[1]; EXPLAIN (COSTS OFF) $_[0]"); };
query(q{CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM s x WHERE x.id < 9); END$$});
my @good = map { $plan->($_, 'SELECT') } @statements;
like($good[0], qr/Index Scan using "an ""index"""/, 'the plan before');

sub run
{
	my ($set) = @_;
	query("SET light_explain.profile = on; $set;" . join ';', map { ($_) x 6 } @statements);
}

# Six buckets before the plans' advice is stored, and six after; a session knows its plans then.
my $session = $node->background_psql('postgres');
$session->query_safe('SET light_explain.profile = on');
for (1 .. 6)
{
	$session->query_safe("$_;" x 6) for @statements;
	end_bucket();
}
is(query('SELECT count(*) FROM light_explain_advice()'), '0', 'without the setting there is no advice');
configure('pg_plan_advice.always_store_advice_details', 'on');
# the function's plan is a cached one
$session->query_safe('DISCARD PLANS');
for (1 .. 6)
{
	$session->query_safe("$_;" x 6) for @statements;
	end_bucket();
}
$session->quit;
is(query(q{SELECT count(*) FROM light_explain_advice() a JOIN light_explain_profile() p USING (dbid, userid, queryid, planid) WHERE p.node_type ~ 'Index' AND a.advice ~ 'INDEX_(ONLY_)?SCAN\((s|x)[ @]'}), '3', 'plans that a session knew before have it, those of functions, too');

# They become slower by a setting.
my $worse = 'SET random_page_cost = 1e7';
run($worse);
end_bucket();
my $found = q{FROM light_explain_regressions WHERE slower AND change = 'plan'};
is(query("SELECT count(*), count(pin) $found"), '3|0', 'without a stash no statement is printed');
my $stash = 'SET pg_stash_advice.stash_name = pinned';
is(query("$stash; SELECT count(*), count(pin) FROM light_explain_regressions WHERE slower"), '4|3', 'with one it is for each slower plan, and not for the function that has one');
is($node->safe_psql('postgres', "$stash; SELECT count(*) FROM light_explain_advice()", extra_params => [ '-U', 'other' ]), '0', 'another role sees its own advice only');
query('CREATE DATABASE elsewhere');
$node->safe_psql('elsewhere', 'CREATE EXTENSION light_explain; CREATE EXTENSION pg_stash_advice');
is($node->safe_psql('elsewhere', "$stash; SELECT count(*), count(pin) $found"), '3|0', 'statements of another database have another stash, perhaps');

# The printed statements pin the plans, for sessions that have the stash.
my @pins = map { pack 'H*', $_ } split /\n/, query("$stash; SELECT encode(convert_to(pin, 'UTF8'), 'hex') $found");
is(scalar(@pins), 3, 'statements are printed');
for my $n (0 .. 1)
{
	unlike($plan->($statements[$n], $worse), qr/Index/, "$statements[$n] has the worse plan");
}
query($_) for @pins;
for my $n (0 .. 1)
{
	is($plan->($statements[$n], "$stash; $worse"), $good[$n], "$statements[$n] has the plan of before");
	unlike($plan->($statements[$n], $worse), qr/Index/, 'not without the stash');
}
query('SELECT light_explain_profile_reset()');
query("SET light_explain.profile = on; $stash; $worse; SELECT f()");
is(query(q{SELECT count(*) FROM light_explain_profile() WHERE node_type ~ 'Index'}), '1', 'so has a statement of a function');

# Advice is kept while the server is down; what is too long is not stored.
query('SET light_explain.profile = on; SELECT ' . join ', ', map { "(SELECT count(*) FROM s AS long_${_}_" . 'x' x 50 . ' WHERE id = 7)' } 1 .. 20);
my $advice = 'SELECT queryid, planid, advice FROM light_explain_advice() ORDER BY queryid, planid';
my $before = query($advice);
cmp_ok(length($before), '>', 0, 'advice');
unlike($before, qr/xxxxx/, 'that is not too long');
$node->restart;
is(query($advice), $before, 'is there after a restart');

$node->stop;
ok(slurp_file($node->logfile) !~ /TRAP:|PANIC|was terminated by signal/, 'nothing bad in the server log');
done_testing();

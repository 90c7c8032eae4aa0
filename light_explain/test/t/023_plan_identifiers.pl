# Identifiers of plans are shared with other extensions (since 18), and plans that have the same one
# but other nodes are not added up.
use strict;
use warnings;

use FindBin;
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
my $shared = $node->safe_psql('postgres', q{SELECT current_setting('server_version_num')::int >= 180000}) eq 't';
my $library = "$FindBin::RealBin/../custom/light_test_plan_id.so";
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION light_explain;
CREATE FUNCTION light_test_plan_id() RETURNS bigint VOLATILE LANGUAGE c AS '$library';
CREATE TABLE t AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 1000) g;
CREATE INDEX t_id ON t (id);
VACUUM ANALYZE t;
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
INSERT INTO p SELECT g, g FROM generate_series(0, 199) g;
VACUUM ANALYZE p;
SQL

my @profiled = ("LOAD '$library'", 'SET light_explain.profile = on');
sub session { return $node->safe_psql('postgres', join(";\n", @profiled, @_)); }
sub plans
{
	my ($pattern) = @_;
	return $node->safe_psql('postgres', "SELECT planid, executions, string_agg(btrim(label), ',' ORDER BY node) FROM light_explain_profile WHERE query ~ '$pattern' GROUP BY 1, 2 ORDER BY 2 DESC, 3");
}

# ---- what the profile has set ----

my $out = session('SELECT max(k) FROM t WHERE id < 5', 'SELECT light_test_plan_id()', 'SELECT max(k) FROM t WHERE id < 6', 'SELECT light_test_plan_id()');
my @ids = (split /\n/, $out)[1, 3];
like(my $plans = plans('max.k'), qr/^-?\d+\|2\|Aggregate,Index Scan using t_id on t$/, 'two executions of a plan');
my ($id) = split /\|/, $plans;
is("@ids", $shared ? "$id $id" : '0 0', 'others can read its identifier at the end of the statement');

# ---- what another extension has set ----

session('SET light_test_plan_id.set = 4711', ('SELECT min(k) FROM t WHERE id < 5') x 3);
my $given = $shared ? '4711' : '-?\d+';
like(plans('min.k'), qr/^$given\|3\|Aggregate,Index Scan using t_id on t$/, 'an identifier that is set is used');
# other nodes
session('SET light_test_plan_id.set = 4711', 'SET enable_indexscan = off', 'SET enable_bitmapscan = off', ('SELECT min(k) FROM t WHERE id < 5') x 2);
like(plans('min.k'), qr/^$given\|3\|Aggregate,Index Scan using t_id on t\n-?\d+\|2\|Aggregate,Seq Scan on t$/, 'and not for other nodes');
unlike(plans('min.k'), qr/4711.*4711/s, '... which have another one');
# both in one session, which remembers them
session('SET light_test_plan_id.set = 4711', map { ("SET enable_indexscan = $_", "SET enable_bitmapscan = off", 'SELECT min(k) FROM t WHERE id < 5') } ('on', 'off') x 4);
like(plans('min.k'), qr/^$given\|7\|Aggregate,Index Scan using t_id on t\n-?\d+\|6\|Aggregate,Seq Scan on t$/, 'also if they alternate');

# ---- nodes that are removed when a plan is started ----

session('SET plan_cache_mode = force_generic_plan', 'PREPARE p AS SELECT count(v) FROM p WHERE id < $1', 'EXECUTE p(50)', 'EXECUTE p(150)', 'EXECUTE p(60)', 'EXECUTE p(160)', 'EXECUTE p(70)');
$plans = plans('count.v');
like($plans, qr/^-?\d+\|3\|Aggregate,Append,Seq Scan on p1 p_1\n-?\d+\|2\|Aggregate,Append,Seq Scan on p1 p_1,Seq Scan on p2 p_2$/, 'a plan with and without pruned partitions is two')
	or diag($plans);

# ---- restart ----

$node->restart;
session('SET light_test_plan_id.set = 4711', 'SET enable_indexscan = off', 'SET enable_bitmapscan = off', 'SELECT min(k) FROM t WHERE id < 5', 'SET enable_indexscan = on', 'SELECT min(k) FROM t WHERE id < 5');
like(plans('min.k'), qr/^$given\|8\|Aggregate,Index Scan using t_id on t\n-?\d+\|7\|Aggregate,Seq Scan on t$/, 'after a restart plans are added up as before');
is($node->safe_psql('postgres', q{SELECT count(*) FROM light_explain_profile WHERE query ~ 'min.k' AND executions > 0 AND rows > 0 AND loops <> executions}), '0', 'with the loops of their executions');

$node->stop;
done_testing();

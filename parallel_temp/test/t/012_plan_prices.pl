# What plans are taken to cost when one with workers is compared with the server's: the
# plan that is chosen, and both costs as the debug message tells them.

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('prices');
$node->init;
$node->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = 'parallel_temp'
autovacuum = off
fsync = off
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
max_parallel_workers_per_gather = 2
parallel_temp.worker_start_cost = 0
parallel_temp.flush_page_cost = 0
EOC
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION dear(int) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE COST 100
	AS 'BEGIN RETURN $1 > 0; END';
SQL

# What a session prints, and all costs that were compared, as pairs: with workers, the
# server's.
sub compared
{
	my ($sql) = @_;
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$sql, '>', \$stdout, '2>', \$stderr);
	my @costs;
	push @costs, [ $1, $2 ] while $stderr =~ /a plan with workers costs (-?[0-9.]+), the server's (-?[0-9.]+)/g;
	return ($stderr . $stdout, @costs);
}

sub near
{
	my ($got, $want, $part) = @_;
	return defined $got && abs($got - $want) <= $part * $want;
}

# What a plan with two workers costs whose Gather runs a part of this cost, of which each
# process does so much as a whole: 2.4 of them count, and not more than the machine has processors run at once.
chomp(my $processors = `getconf _NPROCESSORS_ONLN`);
my $running = $processors < 2 ? 2 : $processors > 3 ? 3 : $processors;
sub by_three
{
	my ($total, $part, $whole) = @_;
	return $total - $part + ($part - $whole) * 2.4 / $running + $whole * 3 / $running;
}

# Every row that an index leads to costs its filter, and what the filter costs is not the
# price of a page.
my ($plans) = compared(<<'SQL');
CREATE TEMP TABLE t AS SELECT g AS a, g % 1000 AS b, repeat('p', 60) AS pad FROM generate_series(1, 100000) g;
CREATE INDEX ON t (a);
VACUUM ANALYZE t;
SET client_min_messages = debug1;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM t WHERE a < 30000 AND dear(b);
SET enable_indexonlyscan = on;
EXPLAIN (COSTS OFF) SELECT count(a) FROM t WHERE a < 30000 AND dear(a);
SET enable_bitmapscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM t WHERE a < 30000 AND dear(b);
SQL
like($plans, qr/Gather.*Parallel Index Scan.*Gather.*Parallel Index Only Scan.*Gather.*Parallel Bitmap Heap Scan/s,
	'the cost of a filter stays with a serial plan')
  or diag($plans);

# Where a random read costs nothing, what is left of a cost is not read for a billion pages.
my @costs;
($plans, @costs) = compared(<<'SQL');
CREATE TEMP TABLE t AS SELECT g AS a, repeat('p', 60) AS pad FROM generate_series(1, 100000) g;
CREATE INDEX ON t (a);
VACUUM ANALYZE t;
SET client_min_messages = debug1;
SET random_page_cost = 0;
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN SELECT count(pad) FROM t WHERE a < 30000;
EXPLAIN SELECT count(a) FROM t WHERE a < 30000;
SET enable_bitmapscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off;
EXPLAIN SELECT count(pad) FROM t WHERE a < 30000;
SQL
ok(@costs == 3 && !(grep { $_->[1] < 300 || $_->[1] > 2000 } @costs), 'random reads for nothing') or diag($plans);

# One worker without its leader is as slow as the leader alone.
($plans, @costs) = compared(<<'SQL');
CREATE TEMP TABLE t AS SELECT g AS a FROM generate_series(1, 100000) g;
ALTER TABLE t SET (parallel_workers = 1);
VACUUM ANALYZE t;
SET client_min_messages = debug1;
SET parallel_leader_participation = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
SQL
ok(@costs == 1 && $costs[0][0] >= $costs[0][1] && $plans !~ /Gather/, 'a worker in the place of the leader') or diag($plans);

# The order of a table is known without ANALYZE as well.
($plans, @costs) = compared(<<'SQL');
SET parallel_temp.statistics = on;
CREATE TEMP TABLE t AS SELECT g AS a, g % 1000 AS b, repeat('p', 60) AS pad FROM generate_series(1, 100000) g;
CREATE INDEX ON t (a);
SET client_min_messages = debug1;
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM t WHERE a < 30000;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM t WHERE a < 30000 AND dear(b);
ANALYZE t;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM t WHERE a < 30000;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM t WHERE a < 30000 AND dear(b);
SQL
ok(@costs == 4 && near($costs[0][1], $costs[2][1], 0.1) && near($costs[1][1], $costs[3][1], 0.1), 'order without ANALYZE')
  or diag($plans);

# What only the leader runs is not charged for its start in workers: neither look-ups by an
# index for the rows of a Gather, nor a bitmap scan of a subquery, which was not charged either.
($plans, @costs) = compared(<<'SQL');
SET temp_buffers = '16MB';
CREATE TEMP TABLE few AS SELECT g AS id, g % 50 AS part, repeat('b', 40) AS pad FROM generate_series(1, 30000) g;
CREATE TEMP TABLE many AS SELECT (hashint8extended(g, 1) & 1073741823)::int % 30000 + 1 AS few_id, g % 50 AS part, repeat('a', 60) AS pad FROM generate_series(1, 100000) g;
CREATE INDEX ON few (id);
CREATE INDEX ON few (part);
ALTER TABLE few SET (parallel_workers = 0);
VACUUM ANALYZE few, many;
SET client_min_messages = debug1;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;
SET parallel_temp.enter_page_cost = 0.06;
EXPLAIN SELECT count(few.pad) FROM (SELECT few_id, count(*) FROM many WHERE part < 10 GROUP BY few_id) m JOIN few ON few_id = few.id;
SET parallel_temp.enter_page_cost = 0.08;
EXPLAIN SELECT count(few.pad) FROM (SELECT few_id, count(*) FROM many WHERE part < 10 GROUP BY few_id) m JOIN few ON few_id = few.id;
SET enable_hashjoin = on; SET enable_nestloop = off; SET enable_indexscan = off;
SET parallel_temp.enter_page_cost = 0.06;
EXPLAIN SELECT count(many.pad), count(f.pad) FROM many JOIN (SELECT id, max(pad) AS pad FROM few WHERE part < 25 GROUP BY id OFFSET 0) f ON few_id = f.id
	JOIN few g ON g.id = few_id AND g.part >= 0;
SET parallel_temp.enter_page_cost = 0.08;
EXPLAIN SELECT count(many.pad), count(f.pad) FROM many JOIN (SELECT id, max(pad) AS pad FROM few WHERE part < 25 GROUP BY id OFFSET 0) f ON few_id = f.id
	JOIN few g ON g.id = few_id AND g.part >= 0;
SQL
is(scalar(() = $plans =~ /Nested Loop.*?Gather.*?->  Index Scan using few_id_idx/gs), 2, 'look-ups in the leader');
ok(@costs == 4 && $costs[0][0] == $costs[1][0], 'are not charged for workers') or diag($plans);
is(scalar(() = $plans =~ /Hash Join.*?Gather.*?Custom Scan.*?->  Bitmap Heap Scan/gs), 2, 'a bitmap scan in the leader');
ok(@costs == 4 && $costs[2][0] == $costs[3][0], 'gets nothing back that it was not charged') or diag($plans);

# Of a plan that is not run to its end no more is saved than was charged.
($plans, @costs) = compared(<<'SQL');
CREATE TEMP TABLE a AS SELECT g % 500 + 1 AS id FROM generate_series(1, 20000) g;
CREATE TEMP TABLE b AS SELECT g AS id, repeat('b', 60) AS pad FROM generate_series(1, 200000) g;
CREATE INDEX ON b (id);
VACUUM ANALYZE a, b;
SET client_min_messages = debug1;
EXPLAIN SELECT count(*) FROM a;
EXPLAIN SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE id >= 0);
SET enable_hashjoin = off; SET enable_nestloop = off;
EXPLAIN SELECT count(b.pad) FROM a JOIN b ON a.id = b.id;
SET join_collapse_limit = 1;
SELECT 'EXPLAIN (COSTS OFF) SELECT count(*) FROM b b1' || string_agg(format(' JOIN b b%s USING (id)', i), '') FROM generate_series(2, 30) i \gexec
SQL
ok(@costs == 4 && near($costs[1][1], $costs[0][1], 0.01), 'a subplan that ends with its first row') or diag($plans);
my ($merge) = $plans =~ /Merge Join  \(cost=[0-9.]+?\.\.([0-9.]+)/;
ok(@costs == 4 && near($costs[2][1], $merge, 0.2), 'a merge join that ends early') or diag($plans);

# What each process does as a whole: it makes its own hash table of a subplan, and of an
# inner side in each arm of an Append.
($plans, @costs) = compared(<<'SQL');
CREATE TABLE p AS SELECT g * 2 AS x FROM generate_series(1, 20000) g;
ALTER TABLE p SET (parallel_workers = 0);
CREATE TEMP TABLE t AS SELECT g AS id FROM generate_series(1, 100000) g;
CREATE TEMP TABLE u AS SELECT g AS id FROM generate_series(1, 100000) g;
VACUUM ANALYZE t, u, p;
SET client_min_messages = debug1;
SET enable_parallel_hash = off;
EXPLAIN SELECT count(*) FROM t WHERE id NOT IN (SELECT x FROM p);
SET enable_nestloop = off; SET enable_mergejoin = off;
EXPLAIN SELECT count(*) FROM (SELECT t.id FROM t JOIN p ON x = t.id UNION ALL SELECT u.id FROM u JOIN p ON x = u.id) j;
SQL
my $cost = qr/\(cost=[0-9.]+?\.\.([0-9.]+) /;
my ($total, $part, $inner) = $plans =~ /Finalize Aggregate  $cost.*?Partial Aggregate  $cost.*?SubPlan.*?Seq Scan on p  $cost/s;
ok(@costs == 2 && near($costs[0][0], by_three($total, $part, $inner + 20000 * 0.0025), 0.01), 'hash tables of a subplan') or diag($plans);
($total, $part, $inner) = $plans =~ /.*Finalize Aggregate  $cost.*?Partial Aggregate  $cost.*?Append.*?->  Hash  $cost/s;
ok(@costs == 2 && near($costs[1][0], by_three($total, $part, 2 * $inner), 0.01), 'hash tables in arms of an Append') or diag($plans);

# Workers' look-ups are charged half of what the server takes for the way down an index, by
# which the best plan with workers is found, and the whole when it is compared.
($plans, @costs) = compared(<<'SQL');
SET temp_buffers = '16MB';
SET parallel_temp.enter_page_cost = 0;
CREATE TEMP TABLE few AS SELECT g AS id, repeat('b', 40) AS pad FROM generate_series(1, 30000) g;
CREATE TEMP TABLE many AS SELECT g % 30000 + 1 AS few_id FROM generate_series(1, 100000) g;
CREATE INDEX ON few (id);
ALTER TABLE few SET (parallel_workers = 0);
VACUUM ANALYZE few, many;
SET client_min_messages = debug1;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; SET enable_bitmapscan = off;
EXPLAIN SELECT count(few.pad) FROM many JOIN few ON few_id = few.id;
SET parallel_temp.enabled = off;
EXPLAIN SELECT count(few.pad) FROM many JOIN few ON few_id = few.id;
SQL
my @starts = $plans =~ /Index Scan using few_id_idx on few\s+\(cost=([0-9.]+?)\.\./g;
ok(@starts == 2 && near($starts[1] - $starts[0], 0.125, 0.2), 'half of the way down an index') or diag($plans);
my ($loops) = $plans =~ /Partial Aggregate  \(cost=[0-9.]+?\.\.([0-9.]+)/;
ok(@costs == 1 && $costs[0][0] > by_three($loops, $loops, 0) + 0.1 * 100000 / 2.4, 'and the whole of it') or diag("$loops: $plans");

# A statement that stays serial is planned with workers once, until something changes.
my $once = 'SELECT count(*) FROM t;';
($plans) = compared(<<"SQL");
CREATE TEMP TABLE t AS SELECT g AS a FROM generate_series(1, 100000) g;
CREATE FUNCTION one() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1';
ALTER TABLE t SET (parallel_workers = 1);
VACUUM ANALYZE t;
SET client_min_messages = debug1;
SET parallel_leader_participation = off;
$once
\\warn *again
$once
$once
\\warn *another text
SELECT count(*)  FROM t;
\\warn *explained
EXPLAIN (COSTS OFF) $once
$once
\\warn *another setting
SET enable_mergejoin = off;
$once
$once
\\warn *another function
CREATE OR REPLACE FUNCTION one() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 2';
$once
\\warn *other rows
INSERT INTO t SELECT g FROM generate_series(1, 20000) g;
$once
\\warn *compared no more
SET parallel_temp.compare_plans = off;
EXPLAIN (COSTS OFF) $once
SET parallel_temp.compare_plans = on;
\\warn *more workers
ALTER TABLE t SET (parallel_workers = 4);
$once
SQL
my @parts = map { scalar(() = /a plan with workers costs/g) } split /^\*/m, $plans;
is("@parts", '1 0 1 1 1 1 1 0 1', 'planned with workers once') or diag($plans);

unlike(slurp_file($node->logfile), qr/refcount leak|TRAP|PANIC|was terminated by signal/, 'no leak, no crash');
$node->stop;
done_testing();

# The extensions on a server where Citus distributes tables: a coordinator and two
# workers.  Run by ci/citus.sh.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub start_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'citus, parallel_temp, appendable_bytea, light_explain'
listen_addresses = '127.0.0.1'
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
max_prepared_transactions = 50
max_worker_processes = 32
autovacuum = off
fsync = off
citus.shard_count = 8
citus.enable_statistics_collection = off
light_explain.profile = on
compute_query_id = on
});
	$node->start;
	$node->safe_psql('postgres', "CREATE EXTENSION $_") for qw(citus appendable_bytea parallel_temp light_explain);
	return $node;
}

my $coordinator = start_node('coordinator');
my @workers = (start_node('one'), start_node('two'));
sub ask { my ($sql) = @_; return $coordinator->safe_psql('postgres', $sql); }
sub on_worker { my ($n, $sql) = @_; return $workers[$n]->safe_psql('postgres', $sql); }

note('Citus ' . (split / /, ask('SELECT citus_version()'))[1]);
ask(sprintf("SELECT citus_set_coordinator_host('127.0.0.1', %d)", $coordinator->port));
ask(sprintf("SELECT citus_add_node('127.0.0.1', %d)", $_->port)) for @workers;

# no value whose chunks are wrong, and none that is not what the same statements made of a bytea
sub whole
{
	my ($what) = @_;
	is(ask(q{SELECT count(*), count(*) FILTER (WHERE l.data = p.data::bytea AND md5(l.data) = md5(p.data)) FROM logs l JOIN plain p USING (id)}), '50|50', "$what: every value");
	is(join(' ', map { on_worker($_, 'SELECT count(*) FROM appendable_bytea_check()') } 0, 1), '0 0', "$what: every chunk");
	return;
}

sub both
{
	my ($sql) = @_;
	ask($sql =~ s/TABLE/$_/gr) for qw(logs plain);
	return;
}

# -- appended values ----------------------------------------------------------------
ask(q{CREATE TABLE logs (id int PRIMARY KEY, data appendable_bytea NOT NULL DEFAULT '') WITH (fillfactor = 80)});
ask(q{CREATE TABLE plain (id int PRIMARY KEY, data bytea NOT NULL DEFAULT '')});
ask("SELECT create_distributed_table('$_', 'id')") for qw(logs plain);
both(q{INSERT INTO TABLE SELECT i, convert_to(repeat(md5(i::text), 900 + i), 'UTF8') FROM generate_series(1, 50) i});
is(join(' ', map { on_worker($_, q{SET citus.override_table_visibility = off; SELECT DISTINCT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname ~ '^logs_' AND relkind = 'r'}) } 0, 1),
	'appendable_heap appendable_heap', 'shards of a distributed table have the access method');
both(q{UPDATE TABLE SET data = data || '\x0102'});
both(q{UPDATE TABLE SET data = data || decode(md5(id::text), 'hex')});
both(q{UPDATE TABLE SET data = data || '\xaabb' WHERE id = 7});
both(q{PREPARE append(int, bytea) AS UPDATE TABLE SET data = data || $2 WHERE id = $1; } . join(' ', map { "EXECUTE append($_, '\\xcc$_');" } 10 .. 19, (20) x 8));
both(q{UPDATE TABLE SET data = overlay(data PLACING '\xff00' FROM 5000) WHERE id BETWEEN 20 AND 30});
ask(q{UPDATE logs SET data = appendable_truncate(data, 25000) WHERE id = 40});
ask(q{UPDATE plain SET data = substr(data, 1, 25000) WHERE id = 40});
both(q{BEGIN; UPDATE TABLE SET data = data || '\x01' WHERE id < 9; SAVEPOINT a; UPDATE TABLE SET data = data || '\x02' WHERE id < 9; ROLLBACK TO a; COMMIT});
both(q{BEGIN; UPDATE TABLE SET data = data || '\x03'; ROLLBACK});
whole('appended through the coordinator, and rolled back');
is(ask(q{SELECT count(*) FROM logs l JOIN plain p USING (id) WHERE substr(l.data, 4990, 30) = substr(p.data, 4990, 30) AND length(l.data) = length(p.data)}), '50', 'slices and lengths');

# the worker's WAL is that of the bytes, not that of the value
ask(q{INSERT INTO logs VALUES (100, convert_to(repeat('x', 4000000), 'UTF8'))});
my $written = sub { my $sum = 0; $sum += on_worker($_, q{SELECT pg_current_wal_insert_lsn() - '0/0'}) for 0, 1; return $sum; };
my $before = $written->();
ask(q{UPDATE logs SET data = data || '\x01' WHERE id = 100});
cmp_ok($written->() - $before, '<', 1_000_000, 'an append to four million bytes writes no million of WAL');
ask('DELETE FROM logs WHERE id = 100');

# other ways into a table
ask(q{CREATE TABLE other (id int PRIMARY KEY, data appendable_bytea); SELECT create_distributed_table('other', 'id', colocate_with => 'logs')});
ask(q{INSERT INTO other SELECT id, data FROM logs; INSERT INTO other SELECT id + 1000, data || '\x04' FROM logs});
ask(q{INSERT INTO other SELECT id, data FROM logs ON CONFLICT (id) DO UPDATE SET data = other.data || '\x05'});
ask(q{MERGE INTO other o USING logs l ON o.id = l.id WHEN MATCHED THEN UPDATE SET data = o.data || '\x06'});
is(ask(q{SELECT string_agg(md5(data), ' ' ORDER BY id) FROM other}),
	ask(q{SELECT string_agg(md5(data || '\x0506'), ' ' ORDER BY id) FROM plain}) . ' ' . ask(q{SELECT string_agg(md5(data || '\x04'), ' ' ORDER BY id) FROM plain}),
	'INSERT ... SELECT within and between shards, ON CONFLICT, MERGE');
my $file = $coordinator->basedir . '/copied';
ask("COPY (SELECT * FROM logs) TO '$file' (FORMAT binary); TRUNCATE other; COPY other FROM '$file' (FORMAT binary)");
is(ask('SELECT count(*) FROM other JOIN logs USING (id, data)'), '50', 'COPY out and in, TRUNCATE');

# -- shards that move ---------------------------------------------------------------
my $from = $workers[0]->port;
my $to = $workers[1]->port;
for my $how (qw(block_writes force_logical))
{
	ask(qq{SELECT citus_move_shard_placement(shardid, '127.0.0.1', $from, '127.0.0.1', $to, '$how') FROM citus_shards
		WHERE table_name = 'logs'::regclass AND nodeport = $from ORDER BY shardid LIMIT 1});
	ask('CALL citus_cleanup_orphaned_resources()');
	whole("a shard moved with $how");
}
my $per_node = q{SELECT string_agg(n::text, ' ') FROM (SELECT count(*) AS n FROM citus_shards WHERE table_name = 'logs'::regclass GROUP BY nodeport) s};
ask(q{SELECT rebalance_table_shards('logs', shard_transfer_mode => 'force_logical')});
ask('CALL citus_cleanup_orphaned_resources()');
is(ask($per_node), '4 4', 'shards are rebalanced');
both(q{UPDATE TABLE SET data = data || '\x0708'});
whole('rebalanced, then appended');
ask(qq{SELECT citus_split_shard_by_split_points((SELECT max(shardid) FROM citus_shards WHERE table_name = 'logs'::regclass), ARRAY['2000000000'],
	(SELECT array_agg(nodeid) FROM pg_dist_node WHERE nodeport IN ($from, $to)), 'block_writes')});
whole('a shard split');
ask(q{SELECT alter_distributed_table('logs', shard_count := 4, cascade_to_colocated := true)});
both(q{UPDATE TABLE SET data = data || '\x0a'});
whole('another number of shards');
ask('CALL citus_cleanup_orphaned_resources()');
# Citus hides shards in pg_class
is(join(' ', map { on_worker($_, q{SET citus.override_table_visibility = off; SELECT count(*) FROM pg_class s WHERE relname ~ '^chunks_[0-9]+$' AND relkind = 'r' AND NOT EXISTS (SELECT FROM pg_class t WHERE t.oid = substr(s.relname, 8)::oid)}) } 0, 1),
	'0 0', 'no store is left of shards that are gone');

# -- text, partitions, reference tables, conversions --------------------------------
ask(q{ALTER TABLE logs ADD COLUMN more appendable_text DEFAULT ''});
ask(q{UPDATE logs SET more = more || repeat('line ' || id::text, 1000)});
ask(q{UPDATE logs SET more = more || 'end'});
is(ask(q{SELECT count(*), sum(length(more)) FROM logs WHERE right(more, 7) = 'e ' || right(id::text, 2) || 'end'}), '41|287123', 'a column of appendable_text is added and appended to');
ask(q{CREATE TABLE parted (id int, day int, data appendable_bytea, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
	CREATE TABLE parted1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
	SELECT create_distributed_table('parted', 'id', colocate_with => 'plain');
	CREATE TABLE parted2 PARTITION OF parted FOR VALUES FROM (10) TO (20);
	INSERT INTO parted SELECT id, id % 20, data FROM plain;
	UPDATE parted SET data = data || '\x0b'});
is(ask(q{SELECT count(*) FROM parted JOIN plain p USING (id) WHERE parted.data = p.data || '\x0b'}), '50', 'a distributed table with partitions');
ask(q{DROP TABLE parted1; CREATE TABLE everywhere (id int PRIMARY KEY, data appendable_bytea); INSERT INTO everywhere SELECT * FROM plain;
	SELECT create_reference_table('everywhere'); UPDATE everywhere SET data = data || '\x0c'});
is(join(' ', map { on_worker($_, q{SELECT count(*) FROM everywhere JOIN plain p USING (id) WHERE everywhere.data = p.data || '\x0c'}) } 0, 1), '50 50',
	'a reference table, read on each worker');
ask(q{CREATE TABLE grown AS SELECT * FROM plain; SELECT create_distributed_table('grown', 'id', colocate_with => 'plain'); ALTER TABLE grown ALTER data TYPE appendable_bytea; UPDATE grown SET data = data || '\x0d'});
is(ask(q{SELECT count(*) FROM grown JOIN plain p USING (id) WHERE grown.data = p.data || '\x0d'}), '50', 'a distributed column of bytea is converted');
ask(q{SELECT undistribute_table('grown'); UPDATE grown SET data = data || '\x0e'});
is(ask(q{SELECT count(*) FROM grown JOIN plain p USING (id) WHERE grown.data = p.data || '\x0d0e'}), '50', 'a table comes back to the coordinator: every value');
is(ask(q{SELECT count(*) FROM appendable_bytea_check('grown')}), '0', 'a table comes back to the coordinator: every chunk');

# -- temporary tables on the coordinator --------------------------------------------
my $fast = 'SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;';
my $analytics = q{CREATE TEMP TABLE t AS SELECT id, length(data) AS l, md5(data) AS m FROM logs;
	INSERT INTO t SELECT i, i % 1000, md5(i::text) FROM generate_series(101, 200000) i; ANALYZE t;};
my $questions = q{SELECT count(*), sum(l), min(m), max(m) FROM t; SELECT l % 7, count(*) FROM t GROUP BY 1 ORDER BY 1;
	SELECT count(*), sum(t.l), sum(length(logs.data)) FROM logs JOIN t USING (id);};
my $answers = ask("SET parallel_temp.enabled = off; SET parallel_temp.fast_load = off; $analytics $questions");
is(ask("$fast $analytics $questions"), $answers, 'temporary tables filled from and joined with a distributed table');
like(ask("$fast $analytics EXPLAIN (COSTS OFF) SELECT count(*), sum(l) FROM t"), qr/Parallel Custom Scan \(Temp Scan\)/, 'which are read in parallel');

# -- figures of plans ---------------------------------------------------------------
my $explain = q{EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id % 3, count(*), sum(length(data)) FROM logs GROUP BY 1};
ask('SELECT id % 3, count(*), sum(length(data)) FROM logs GROUP BY 1');
my @shown = map {
	my $text = ask("SET citus.explain_all_tasks = on; SET citus.max_adaptive_executor_pool_size = 1; SET light_explain.enabled = $_; $explain");
	# shards come in the order in which they answer, and planning reads what catalogs it needs
	join("\n", sort grep { /logs|rows=/ } split /\n/, $text);
} qw(off on);
is($shown[1], $shown[0], 'EXPLAIN ANALYZE of a distributed statement says the same');
like($shown[1], qr/logs_\d+ .*rows=/, 'with the nodes of the workers');
ask('SELECT count(*) FROM logs WHERE length(data) > 5') for 1 .. 3;
is(join(' ', map { on_worker($_, q{SELECT sum(executions) > 0 FROM light_explain_profile() WHERE label ~ 'Scan on logs_'}) } 0, 1), 't t', 'the profile of each worker has the nodes on its shards')
	or diag(on_worker(0, 'SELECT DISTINCT label FROM light_explain_profile()'));

# -- dump, and taking it out again --------------------------------------------------
my $dump = $coordinator->basedir . '/dump';
command_ok([ 'pg_dump', '-Fc', '-t', 'logs', '-f', $dump, $coordinator->connstr('postgres') ], 'the coordinator is dumped');
my $single = PostgreSQL::Test::Cluster->new('single');
$single->init;
$single->start;
$single->safe_psql('postgres', 'CREATE EXTENSION appendable_bytea');
command_ok([ 'pg_restore', '-d', $single->connstr('postgres'), $dump ], 'and restored on a single server');
is($single->safe_psql('postgres', q{SELECT md5(string_agg(md5(data), '' ORDER BY id)) FROM logs}), ask(q{SELECT md5(string_agg(md5(data), '' ORDER BY id)) FROM plain}), 'with every value');

ask('DROP TABLE other, parted, everywhere, grown');
ask(q{SELECT appendable_bytea_detach('logs')});
ask(q{SELECT run_command_on_shards('logs', $$SELECT appendable_bytea_detach('%1$s')$$)});
ask(q{SELECT run_command_on_workers($$SELECT appendable_bytea_detach('logs')$$)});
is(ask(q{SELECT count(*) FILTER (WHERE l.data = p.data) FROM logs l JOIN plain p USING (id)}), '50', 'detached: every value');
ask('DROP EXTENSION appendable_bytea');
is(join(' ', map { on_worker($_, q{SELECT count(*) FROM pg_class WHERE relname ~ '^chunks_'}) } 0, 1), '0 0', 'and nothing is left on the workers when the extension is dropped');

for my $node ($coordinator, @workers)
{
	unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, $node->name . ': no process died');
}
done_testing();


# Logical replication: a subscriber gets the values whole, also when it lags while
# rows are deleted, chunks vacuumed, and the table truncated or dropped.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('logical');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
autovacuum = off
logical_decoding_work_mem = '64kB'
});
$node->start;
my $connstr = $node->connstr('postgres');
$node->safe_psql('postgres', 'CREATE DATABASE sub');
for my $db ('postgres', 'sub')
{
	$node->safe_psql($db, q{
CREATE EXTENSION appendable_bytea;
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea) WITH (fillfactor = 80);
CREATE TABLE gone (id int PRIMARY KEY, data appendable_bytea);
CREATE FUNCTION bytes(n int, c text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT convert_to(repeat(c, n), 'UTF8') $$;
});
}
$node->safe_psql('postgres', q{
INSERT INTO t SELECT i, bytes(20000, 'a') FROM generate_series(1, 3) i;
CREATE PUBLICATION p FOR TABLE t, gone;
SELECT pg_create_logical_replication_slot('s', 'pgoutput');
});
# two databases of one server: the slot is made beforehand
$node->safe_psql('sub', "CREATE SUBSCRIPTION s CONNECTION \$c\$$connstr\$c\$ PUBLICATION p WITH (create_slot = false, slot_name = 's', streaming = on)");
$node->poll_query_until('sub', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel});

my $digest = 'SELECT id, length(data), md5(data) FROM t ORDER BY id';

sub same
{
	my ($what) = @_;
	my $want = $node->safe_psql('postgres', $digest);
	$node->wait_for_catchup('s');
	is($node->safe_psql('sub', $digest), $want, $what);
	is($node->safe_psql('sub', 'SELECT count(*) FROM appendable_bytea_check()'), '0', "$what: chunks");
	return;
}
same('initial copy');
$node->safe_psql('postgres', q{
UPDATE t SET data = data || '\x01'::bytea WHERE id = 1;
UPDATE t SET data = data || bytes(30000, 'b') WHERE id = 2;
BEGIN;
UPDATE t SET data = data || bytes(400, 'c') WHERE id = 3;
SAVEPOINT s;
UPDATE t SET data = data || bytes(400, 'd') WHERE id = 3;
ROLLBACK TO s;
UPDATE t SET data = data || bytes(500, 'e') WHERE id = 3;
COMMIT;
INSERT INTO t VALUES (4, bytes(50000, '4'));
UPDATE t SET data = appendable_write(data, '\xff', 100, 1) WHERE id = 4;
UPDATE t SET data = appendable_truncate(data, 30000) WHERE id = 4;
});
same('appends, overwrites, cuts');
ok($node->safe_psql('sub', q{SELECT store_bytes < 300000 FROM appendable_bytea_stats('t')}) eq 't',
	'the subscriber writes what was appended, not the whole value');

# A transaction that is decoded while it runs, with parts of it rolled back.
$node->safe_psql('postgres', q{
BEGIN;
INSERT INTO t SELECT i, bytes(3000 + i, 's') FROM generate_series(1001, 1200) i;
SAVEPOINT s;
UPDATE t SET data = data || bytes(500, 'u') WHERE id > 1000;
ROLLBACK TO s;
UPDATE t SET data = data || bytes(700, 'v') WHERE id > 1000;
UPDATE t SET data = appendable_write(data, '\x00', 2990, 1) WHERE id > 1000 AND id % 2 = 0;
COMMIT;
});
same('a large transaction that is streamed');
is($node->safe_psql('postgres', q{SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = 's'}), 't', 'it was streamed');

# Old values in the WAL of a table with full replica identity.
$node->safe_psql('postgres', q{
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET data = data || bytes(300, 'f') WHERE id = 1;
DELETE FROM t WHERE id = 2;
ALTER TABLE t REPLICA IDENTITY DEFAULT;
});
same('replica identity full');

# Compaction is an update for the subscriber, which has the bytes already.
$node->safe_psql('postgres', q{
UPDATE t SET data = data || bytes(100, 'g') || bytes(30000, 'h') WHERE id = 1;
CALL appendable_compact('t', 'id < 10');
UPDATE t SET data = data || bytes(300, 'i') WHERE id = 1;
CALL appendable_compact('t', 'id < 10');
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET data = data || bytes(50000, 'j') WHERE id = 1;
CALL appendable_compact('t', 'id < 10');
ALTER TABLE t REPLICA IDENTITY DEFAULT;
});
same('compaction');
is($node->safe_psql('postgres', q{SELECT compressed_share > 0 FROM appendable_bytea_stats('t')}), 't', 'it was compacted');

# Lag.
$node->safe_psql('sub', 'ALTER SUBSCRIPTION s DISABLE');
$node->poll_query_until('postgres', q{SELECT NOT active FROM pg_replication_slots WHERE slot_name = 's'});
$node->safe_psql('postgres', $_) for (
	q{INSERT INTO t VALUES (5, bytes(50000, '5'))},
	q{UPDATE t SET data = data || bytes(50000, '6') WHERE id = 5},
	q{DELETE FROM t WHERE id = 5},
	'VACUUM',
	q{INSERT INTO t VALUES (6, bytes(50000, '7'))}, 'TRUNCATE t',
	q{INSERT INTO t VALUES (7, bytes(50000, '8'))},
	'VACUUM',
	q{INSERT INTO gone VALUES (1, bytes(50000, '9'))},
	q{ALTER PUBLICATION p DROP TABLE gone},
	q{DROP TABLE gone}, q{SELECT appendable_bytea_repair()}, 'VACUUM',
	q{UPDATE t SET data = bytes(60000, 'r') WHERE id = 7});
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r'}),
	'2', 'a store stays while a slot may need it');
# a store that gets new files keeps what a slot needs
$node->safe_psql('postgres', q{SELECT format('VACUUM FULL %s', store) FROM appendable_bytea_stats('t') \gexec});
$node->safe_psql('postgres', q{SELECT format('REINDEX TABLE %s', store) FROM appendable_bytea_stats('t') \gexec});
$node->safe_psql('postgres', q{SET allow_in_place_tablespaces = on; CREATE TABLESPACE aside LOCATION ''});
$node->safe_psql('postgres', 'ALTER TABLE t SET TABLESPACE aside');
my ($status, $stdout, $stderr) = $node->psql('postgres',
	q{SELECT format('REINDEX TABLE CONCURRENTLY %s', store) FROM appendable_bytea_stats('t') \gexec});
like($stderr, qr/cannot be reindexed concurrently while logical replication slots exist/, 'an index without what a slot needs is refused');
($status, $stdout, $stderr) = $node->psql('postgres', 'ALTER TABLE t SET UNLOGGED');
like($stderr, qr/cannot be rewritten while logical replication slots exist|is (part of|referenced by) a publication/, 'and so is a store without it');
$node->safe_psql('sub', 'ALTER SUBSCRIPTION s ENABLE');
same('after lagging through deletes, vacuum and truncation');
is($node->safe_psql('sub', 'SELECT id, md5(data) = md5(bytes(50000, \'9\')) FROM gone'), '1|t', 'the table that was dropped meanwhile');
$node->safe_psql('postgres', 'INSERT INTO t VALUES (8, bytes(10, \'x\'))');
same('and continues');
my $stores = q{SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r'};
for (1 .. 300)
{
	# what slots need is known when they meet a list of running transactions
	$node->safe_psql('postgres', 'CHECKPOINT; INSERT INTO t VALUES (9, NULL); DELETE FROM t WHERE id = 9');
	$node->wait_for_catchup('s');
	# any command about a table of the type drops what no slot needs any more
	$node->safe_psql('postgres', 'ALTER TABLE t SET (fillfactor = 90)');
	last if $node->safe_psql('postgres', $stores) eq '1';
	usleep(200_000);
}
is($node->safe_psql('postgres', $stores),
	'1', 'the store goes when the slot has passed');

# A publication of all tables includes stores, which nothing in the server prevents.
# Their changes are not sent, and a subscriber that has stores of the same names (its
# database began as a copy) does not subscribe to them.
$node->safe_psql('sub', 'DROP SUBSCRIPTION s');
($status, $stdout, $stderr) = $node->psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
like($stderr, qr/WARNING:  publication of all tables includes the chunk stores/, 'a publication of all tables is warned of');
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot(name, 'pgoutput') FROM unnest(ARRAY['all', 'twin']) name});
$node->safe_psql('template1', 'CREATE DATABASE twin TEMPLATE postgres');
$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE made (data appendable_bytea)');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (20, bytes(100000, 'i')); UPDATE t SET data = data || bytes(5000, 'u') WHERE id = 20});
is($node->safe_psql('postgres', q{SELECT string_agg(chr(get_byte(data, 0)), '') FROM pg_logical_slot_peek_binary_changes('all', NULL, NULL, 'proto_version', '1', 'publication_names', 'everything')}),
	'BYRICBUC', 'neither chunks nor whose they are is sent');
$node->safe_psql('twin', 'TRUNCATE t');
$node->safe_psql('twin', "CREATE SUBSCRIPTION twin CONNECTION \$c\$$connstr\$c\$ PUBLICATION everything WITH (create_slot = false, slot_name = 'twin')");
$node->poll_query_until('twin', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel});
is($node->safe_psql('twin', q{SELECT string_agg(srrelid::regclass::text, ' ') FROM pg_subscription_rel}), 't', 'stores are not subscribed to');
$node->safe_psql('postgres', q{UPDATE t SET data = data || bytes(5000, 'w') WHERE id = 20; INSERT INTO t VALUES (21, bytes(40000, 'j'))});
$node->wait_for_catchup('twin');
is($node->safe_psql('twin', $digest), $node->safe_psql('postgres', $digest), 'a subscriber that began as a copy: values');
is($node->safe_psql('twin', 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'a subscriber that began as a copy: chunks');
$node->safe_psql('twin', 'ALTER SUBSCRIPTION twin REFRESH PUBLICATION');
is($node->safe_psql('twin', q{SELECT string_agg(srrelid::regclass::text, ' ') FROM pg_subscription_rel}), 't', 'nor when the subscription is refreshed');
$node->safe_psql('twin', 'DROP SUBSCRIPTION twin');

# A partition is published with the table that it is attached to, and so is a tree of
# partitions that moves into a schema; a publication may be older than wal_level.
$node->safe_psql('postgres', 'DROP PUBLICATION everything');
$node->append_conf('postgresql.conf', 'wal_level = replica');
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('all')");
$node->restart;
$node->safe_psql('postgres', q{
CREATE TABLE root (id int, data appendable_bytea) PARTITION BY LIST (id);
CREATE TABLE early PARTITION OF root FOR VALUES IN (1);
CREATE SCHEMA shown;
CREATE PUBLICATION p_root FOR TABLE root;
CREATE PUBLICATION p_shown FOR TABLES IN SCHEMA shown;
});
$node->append_conf('postgresql.conf', 'wal_level = logical');
$node->restart;
$node->safe_psql('postgres', q{
CREATE TABLE branch (id int, data appendable_bytea) PARTITION BY LIST (id);
CREATE TABLE leaf (id int, data appendable_bytea);
ALTER TABLE branch ATTACH PARTITION leaf FOR VALUES IN (2);
ALTER TABLE root ATTACH PARTITION branch FOR VALUES IN (2);
CREATE TABLE moved (id int, data appendable_bytea) PARTITION BY LIST (id);
CREATE TABLE moved_leaf PARTITION OF moved FOR VALUES IN (3);
ALTER TABLE moved SET SCHEMA shown;
});
$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('tree', 'pgoutput')");
$node->safe_psql('postgres', q{INSERT INTO root SELECT i, bytes(20000, 'r') FROM generate_series(1, 2) i; INSERT INTO shown.moved VALUES (3, bytes(20000, 'r'))});
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_binary_changes('tree', NULL, NULL, 'proto_version', '1', 'publication_names', 'p_root,p_shown') WHERE length(data) > 20000}),
	'3', 'partitions are decoded');
$node->safe_psql('postgres', q{INSERT INTO root SELECT i, bytes(20000, 'r') FROM generate_series(1, 2) i});
$node->safe_psql('postgres', q{SELECT appendable_bytea_detach('root')});
$node->safe_psql('postgres', 'SELECT appendable_bytea_repair()');
$node->safe_psql('postgres', 'VACUUM');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_binary_changes('tree', NULL, NULL, 'proto_version', '1', 'publication_names', 'p_root,p_shown') WHERE length(data) > 20000}),
	'2', 'what was written before a table was detached is decoded');
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('tree')");

# A table in no publication is decoded by plugins that need none, whatever vacuum does.
$node->safe_psql('postgres', q{CREATE TABLE unpublished (id int PRIMARY KEY, data appendable_bytea)});
my @plugins = ('test_decoding', -e $node->config_data('--pkglibdir') . '/wal2json.so' ? 'wal2json' : ());
# since 15.20 and its like, a server names the plugins that may be used
if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}))
{
	$node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput, test_decoding, wal2json'\n");
	$node->reload;
}
$node->safe_psql('postgres', qq{SELECT pg_create_logical_replication_slot('$_', '$_')}) for @plugins;
$node->safe_psql('postgres', q{INSERT INTO unpublished VALUES (1, bytes(10000, 'p'))});
is($node->safe_psql('postgres', q{SELECT string_agg(substr(data, 1, 40) || (length(data) > 20000), ' ') FROM pg_logical_slot_peek_changes('test_decoding', NULL, NULL, 'skip-empty-xacts', '1') WHERE data !~ 'BEGIN|COMMIT'}),
	'table public.unpublished: INSERT: id[inttrue', 'chunks are not decoded as changes');
$node->safe_psql('postgres', $_) for (q{UPDATE unpublished SET data = bytes(12000, 'q')}, 'DELETE FROM unpublished', 'VACUUM',
	'DROP TABLE unpublished', 'SELECT appendable_bytea_repair()', 'VACUUM');
is($node->safe_psql('postgres', q{SELECT string_agg(split_part(data, ' ', 3) || (length(data) > 20000), ' ') FROM pg_logical_slot_get_changes('test_decoding', NULL, NULL, 'skip-empty-xacts', '1') WHERE data ~ '^table'}),
	'INSERT:true UPDATE:true DELETE:false', 'a table without a publication, updated, emptied, vacuumed and dropped');
SKIP:
{
	skip 'wal2json is not installed', 1 if @plugins < 2;
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_changes('wal2json', NULL, NULL), json_array_elements(data::json->'change') c WHERE c->>'table' = 'unpublished'}),
		'3', 'the same by wal2json');
}
$node->safe_psql('postgres', q{CREATE TABLE unpublished (id int PRIMARY KEY, data appendable_bytea); INSERT INTO unpublished VALUES (2, bytes(10000, 'p'))});
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_changes('test_decoding', NULL, NULL) WHERE length(data) > 20000}), '1', 'and another one of its name');
$node->safe_psql('postgres', q{UPDATE unpublished SET data = appendable_write(data, '\xff', 0, 1); UPDATE unpublished SET data = data || bytes(10000, 'q'); DELETE FROM unpublished});
$node->safe_psql('postgres', 'VACUUM');
is($node->safe_psql('postgres', q{SELECT string_agg(split_part(data, ' ', 2) || split_part(data, ' ', 3), ' ') FROM pg_logical_slot_get_changes('test_decoding', NULL, NULL, 'skip-empty-xacts', '1') WHERE data !~ 'BEGIN|COMMIT'}),
	'public.unpublished:UPDATE: public.unpublished:UPDATE: public.unpublished:DELETE:', 'neither are deleted chunks');

# pg_upgrade does not bring along what has decoding skip changes of a store: the first
# writer sets it again.
$node->safe_psql('postgres', q{INSERT INTO unpublished VALUES (3, bytes(10000, 'p'))});
$node->safe_psql('postgres', q{UPDATE pg_class SET relrewrite = 0 WHERE oid = (SELECT store FROM appendable_bytea_stats('unpublished'))});
$node->safe_psql('postgres', 'DELETE FROM unpublished');
is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE data ~ 'appendable_store'), count(*) FILTER (WHERE data ~ 'DELETE') FROM pg_logical_slot_get_changes('test_decoding', NULL, NULL)}), '0|1', 'after an upgrade');
$node->stop;
done_testing();

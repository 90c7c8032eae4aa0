
# Replication by other extensions: pglogical, whose apply worker inserts and deletes rows
# below the access method, and wal2json.  One that is not installed is left out.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('replicators');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nshared_preload_libraries = 'appendable_bytea'\ntrack_commit_timestamp = on\nmax_worker_processes = 20\nmax_replication_slots = 10\nmax_wal_senders = 10\n");
$node->start;
# since 15.20 and its like, a server names the plugins that may be used
if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}))
{
	$node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput, test_decoding, pglogical_output, wal2json'\n");
	$node->reload;
}
sub available
{
	my ($name) = @_;
	return -e $node->config_data('--pkglibdir') . "/$name.so";
}

SKIP:
{
	skip 'pglogical is not installed', 8 unless available('pglogical');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pglogical, appendable_bytea'\n");
	$node->restart;
	foreach my $db ('provider', 'subscriber')
	{
		$node->safe_psql('postgres', "CREATE DATABASE $db");
		$node->safe_psql($db, q{CREATE EXTENSION pglogical; CREATE EXTENSION appendable_bytea; CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea, log appendable_text) WITH (fillfactor = 80)});
	}
	# a store that is read by decoding is marked for it
	$node->safe_psql('provider', 'CREATE PUBLICATION keep FOR TABLE t');
	my $dsn = 'host=' . $node->host . ' port=' . $node->port . ' dbname';
	$node->safe_psql('provider', qq{INSERT INTO t SELECT i, convert_to(repeat('copied', 5000), 'UTF8'), 'copied' FROM generate_series(1, 20) i;
		SELECT pglogical.create_node('p', '$dsn=provider'), pglogical.replication_set_add_table('default', 't')});
	$node->safe_psql('subscriber', qq{SELECT pglogical.create_node('s', '$dsn=subscriber')});
	$node->safe_psql('subscriber', qq{SELECT pglogical.create_subscription('s', '$dsn=provider')});
	$node->safe_psql('subscriber', q{SELECT pglogical.wait_for_subscription_sync_complete('s')});

	my $rows = q{SELECT count(*), md5(string_agg(id || ' ' || md5(data) || ' ' || md5(log), ',' ORDER BY id)) FROM t};

	# wait until both tables are the same
	sub replicated
	{
		my ($what) = @_;
		my $expected = $node->safe_psql('provider', $rows);
		ok($node->poll_query_until('subscriber', $rows, $expected), "$what by pglogical");
	}
	replicated('copied');
	$node->safe_psql('provider', q{
		INSERT INTO t SELECT i, convert_to(repeat('inserted', i * 1000), 'UTF8'), repeat('text', i * 500) FROM generate_series(30, 60) i;
		UPDATE t SET data = data || convert_to(repeat('appended', 1000), 'UTF8'), log = log || 'appended' WHERE id % 3 = 0;
		UPDATE t SET data = overlay(data PLACING 'xyz'::bytea FROM 1000) WHERE id % 5 = 0;
		UPDATE t SET id = id + 1000 WHERE id % 7 = 0;
		UPDATE t SET data = '' WHERE id = 31});
	replicated('changed');
	is($node->safe_psql('subscriber', q{SELECT problem FROM appendable_bytea_check('t')}), '', 'every chunk of the subscriber belongs to a value');
	$node->safe_psql('provider', 'DELETE FROM t WHERE id % 2 = 0');
	replicated('deleted');
	like($node->safe_psql('subscriber', q{SELECT problem FROM appendable_bytea_check('t')}), qr{^\d+ chunks belong to no value$}, 'its apply worker leaves the chunks of deleted rows');
	my ($leaked) = $node->safe_psql('subscriber', q{SELECT problem FROM appendable_bytea_check('t')}) =~ /^(\d+)/;
	is($node->safe_psql('subscriber', q{SELECT chunks_removed FROM appendable_bytea_repair('t')}), $leaked, 'repair removes them while it applies');
	$node->safe_psql('provider', q{UPDATE t SET data = data || 'end', log = log || 'end'});
	replicated('appended');
	is($node->safe_psql('subscriber', q{SELECT problem FROM appendable_bytea_check('t')}), '', 'and nothing else');
	$node->safe_psql('subscriber', q{SELECT pglogical.drop_subscription('s')});
}

SKIP:
{
	skip 'wal2json is not installed', 2 unless available('wal2json');
	$node->safe_psql('postgres', q{CREATE EXTENSION appendable_bytea; CREATE TABLE w (id int PRIMARY KEY, data appendable_bytea, plain bytea, log appendable_text);
		CREATE PUBLICATION w FOR TABLE w});
	$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('w', 'wal2json')});
	$node->safe_psql('postgres', q{INSERT INTO w VALUES (1, 'ab', 'ab', 'x'); UPDATE w SET data = data || convert_to(repeat('long', 20000), 'UTF8'); DELETE FROM w});
	my $changes = $node->safe_psql('postgres', q{SELECT data FROM pg_logical_slot_get_changes('w', NULL, NULL, 'format-version', '2')});
	like($changes, qr{"data","type":"appendable_bytea","value":"\\\\x6162"\},\{"name":"plain","type":"bytea","value":"6162"\},\{"name":"log","type":"appendable_text","value":"x"}, 'what wal2json prints is as documented');
	my $long = unpack('H*', 'ab' . 'long' x 20000);
	like($changes, qr{"value":"\\\\x$long"}, 'and a value in chunks is complete');
}

$node->stop;
done_testing();


# Compaction with readers elsewhere: snapshots of a standby, and a server that lacks
# the method by which chunks were compressed.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\nautovacuum = off\nappendable_bytea.compress_new = off\n");
$primary->start;
$primary->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE TABLE t (id int PRIMARY KEY, n int, log appendable_text) WITH (fillfactor = 80);
CREATE FUNCTION line(id int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT format(E'%s worker-%s INFO step %s took %s ms\n', n, id, n, n * 7919 % 1000) $$;
CREATE FUNCTION whole(id int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(string_agg(line(id, i), '' ORDER BY i), '') FROM generate_series(1, n) i $$;
INSERT INTO t SELECT i, 0, '' FROM generate_series(1, 3) i;
CREATE PROCEDURE lines(more int) LANGUAGE plpgsql AS $$ BEGIN
	FOR round IN 1..more LOOP
		UPDATE t SET n = n + 30, log = log || (SELECT string_agg(line(id, i), '' ORDER BY i) FROM generate_series(n + 1, n + 30) i);
		COMMIT;
	END LOOP;
END $$;
CALL lines(40);
});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my $right = 'SELECT count(*), sum((log = whole(id, n))::int), sum((log::text = whole(id, n))::int) FROM t';

# A snapshot of the standby that is older than a compaction can still be read if no row that it
# needs is removed: because recovery waits, or because the primary knows of it.
for my $way ([ 'recovery waits', "max_standby_streaming_delay = 600s\nhot_standby_feedback = off" ],
	[ 'feedback', "max_standby_streaming_delay = 0\nhot_standby_feedback = on" ],
	[ 'neither', "max_standby_streaming_delay = 0\nhot_standby_feedback = off" ])
{
	my ($what, $settings) = @$way;
	$standby->append_conf('postgresql.conf', "$settings\nwal_receiver_status_interval = 1\n");
	$standby->reload;
	$primary->safe_psql('postgres', 'CALL lines(10); VACUUM t');
	$primary->wait_for_catchup($standby);
	my ($out, $err) = ('', '');
	my $reader = IPC::Run::start([ 'psql', '-X', '-At', '-d', $standby->connstr('postgres'), '-c', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
			'-c', 'SELECT count(*) FROM t', '-c', q{DO $$ BEGIN FOR i IN 1 .. 3000 LOOP EXIT WHEN EXISTS (SELECT FROM pg_ls_dir('.') f WHERE f = 'go_on'); PERFORM pg_sleep(0.1); END LOOP; END $$},
			'-c', "SELECT 'read', sum((log = whole(id, n))::int) FROM t", '-c', 'COMMIT' ],
		'>', \$out, '2>', \$err);
	$standby->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'DO%' AND state = 'active' AND backend_xmin IS NOT NULL)}) or die;
	if ($what eq 'feedback')
	{
		$primary->poll_query_until('postgres', q{SELECT backend_xmin IS NOT NULL FROM pg_stat_replication}) or die;
	}
	is($primary->safe_psql('postgres', q{CALL appendable_compact('t')}) =~ /^3\|0\|/ ? 'all' : '', 'all', "$what: rows are compacted");
	$primary->safe_psql('postgres', 'VACUUM');
	$primary->wait_for_catchup($standby) if $what ne 'recovery waits';
	append_to_file($standby->data_dir . '/go_on', '');
	$reader->finish;
	unlink $standby->data_dir . '/go_on';
	if ($what eq 'neither')
	{
		like($err, qr/conflict with recovery/, "$what: an old snapshot of the standby is cancelled");
		unlike($out, qr/^read/m, "$what: and reads nothing");
	}
	else
	{
		like($out, qr/^read\|3$/m, "$what: an old snapshot of the standby reads on") or diag($err);
	}
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $right), '3|3|3', "$what: compacted values on the standby");
	is($standby->safe_psql('postgres', q{SELECT (SELECT count(*) FROM appendable_bytea_check('t')), compressed_share > 0.9 FROM appendable_bytea_stats('t')}), '0|t', "$what: check on the standby");
}
$standby->promote;
$standby->safe_psql('postgres', q{CALL lines(10); CALL appendable_compact('t')});
is($standby->safe_psql('postgres', $right), '3|3|3', 'the promoted server appends and compacts');
$standby->stop;

# A method that this server lacks: there is none that all servers lack, so the bits that name it
# are changed in the files, and the checksums with them.
$primary->safe_psql('postgres', q{
CREATE TABLE u (id int PRIMARY KEY, log appendable_text);
INSERT INTO u VALUES (1, repeat('line of a log, ', 2000)), (2, repeat('plain', 1000));
SET appendable_bytea.compression = pglz;
CALL appendable_compact('u', 'id = 1');
});
my $store = $primary->safe_psql('postgres', q{SELECT store FROM appendable_bytea_stats('u')});
my $chunk = $primary->safe_psql('postgres', "SELECT vid, off, prev, crc FROM $store WHERE pg_column_compression(data) = 'pglz'");
my ($vid, $off, $prev, $crc) = split /\|/, $chunk;
$primary->safe_psql('postgres', "UPDATE $store SET crc = crc + 1 WHERE vid <> $vid");
my @files = map { $primary->data_dir . '/' . $primary->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } ($store, 'u');
my $checksums = $primary->safe_psql('postgres', 'SHOW data_checksums');
$primary->stop;
command_ok([ 'pg_checksums', '--disable', '-D', $primary->data_dir ], 'no page checksums') if $checksums eq 'on';

sub crc32c
{
	my ($value, $bytes) = @_;
	for my $byte (unpack 'C*', $bytes)
	{
		$value ^= $byte;
		$value = ($value >> 1) ^ ($value & 1 ? 0x82F63B78 : 0) for 1 .. 8;
	}
	return $value;
}

my $old_crc = pack 'L', $crc & 0xffffffff;
my ($stored_file, $table_file) = map { slurp_file($_) } @files;
my $at = index $stored_file, pack('qqL', $vid, $off, $prev & 0xffffffff) . $old_crc;
ok($at > 0, 'the chunk is in its file') or BAIL_OUT('the layout of a chunk is not what this test knows');
my $length = (unpack('L', substr $stored_file, $at + 24, 4) >> 2) - 4;
my $stored = substr $stored_file, $at + 28, $length;
substr($stored, 3, 1) = chr(ord(substr $stored, 3, 1) | 0x80);
my $new_crc = pack 'L', crc32c($prev & 0xffffffff, pack('qq', $vid, $off) . 'compressed' . $stored);
substr($stored_file, $at + 28, $length) = $stored;
substr($stored_file, $at + 20, 4) = $new_crc;
is($table_file =~ s/\Q$old_crc\E/$new_crc/g, 1, 'and its value in the table');
for my $file ([ $files[0], $stored_file ], [ $files[1], $table_file ])
{
	open my $handle, '+<:raw', $file->[0] or die "$file->[0]: $!";
	print $handle $file->[1];
	close $handle or die $!;
}
$primary->start;
my ($status, $stdout, $stderr) = $primary->psql('postgres', 'SELECT md5(log) FROM u WHERE id = 1');
like($stderr, qr/invalid compression method/, 'a value that cannot be decompressed is an error');
is($primary->safe_psql('postgres', 'SELECT octet_length(log) FROM u WHERE id = 1'), '30000', 'its length is known');
($status, $stdout, $stderr) = $primary->psql('postgres', q{SELECT row_id, problem FROM appendable_bytea_check('u')});
like($stdout, qr/^(\(\d+,\d+\)\|.*(damaged|last chunk).*\n?){2}$/, 'check reports it, and finds the fault of another value');
is($primary->safe_psql('postgres', q{UPDATE u SET log = 'new'; SELECT count(*) FROM appendable_bytea_check('u')}), '0', 'the values can be replaced');
$primary->stop;
done_testing();

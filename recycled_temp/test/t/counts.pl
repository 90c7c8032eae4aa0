# The cost of a cycle of CREATE and DROP, in numbers that do not depend on the machine:
# WAL, invalidation messages in commit records, growth of catalogs, and locks of a
# transaction, without and with the pool.  RECYCLED_COUNTS=1 prints them as a table.
# Slow: hundreds of cycles of many kinds of tables
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('counts');
# commit records have messages if there may be a standby
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'recycled_temp'
recycled_temp.after_drops = 1
autovacuum = off
fsync = off
checkpoint_timeout = 1h
max_wal_size = 10GB
wal_keep_size = 10GB
max_locks_per_transaction = 1000
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION recycled_temp');
my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);

# At most so many kB of WAL (on 15), and so much of the server's invalidation messages.
my @kinds = (
	[ '4 int columns', 'CREATE TEMP TABLE t (a int, b int, c int, d int)', 2.5, 0.35 ],
	[ '20 int columns', 'CREATE TEMP TABLE t (' . join(', ', map { "c$_ int" } 1 .. 20) . ')', 2.5, 0.2 ],
	[ '4 columns, one of them text', 'CREATE TEMP TABLE t (a int, b int, c int, d text)', 2.5, 0.2 ],
	[ 'CREATE TABLE AS of one row, one column of them text', "CREATE TEMP TABLE t AS SELECT 1 AS a, 2 AS b, 3 AS c, 'x'::text AS d", 2.5, 0.2 ],
	[ '4 int columns, primary key', 'CREATE TEMP TABLE t (a int PRIMARY KEY, b int, c int, d int)', 4.5, 0.37 ]);
my $warm = 20;
my $cycles = 100;
my $many = 1000;

sub cycles { my ($create, $n) = @_; return "$create; DROP TABLE t;\n" x $n }

# Per cycle: bytes of WAL and messages; of many cycles: by how many bytes two catalogs grow, and the locks of one transaction.
sub counted
{
	my ($enabled, $create) = @_;
	my $sizes = "SELECT pg_relation_size('pg_attribute') + pg_relation_size('pg_depend');\n";
	my $out = $node->safe_psql('postgres', "SET recycled_temp.enabled = $enabled;\n" . cycles($create, $warm) . "SELECT pg_current_wal_insert_lsn();\n" . cycles($create, $cycles)
		  . "SELECT pg_current_wal_insert_lsn();\n" . $sizes . cycles($create, $many) . $sizes);
	my ($from, $to, $before, $after) = split /\n/, $out;
	my $wal = $node->safe_psql('postgres', "SELECT '$to'::pg_lsn - '$from'::pg_lsn") / $cycles;
	my ($records) = run_command([ 'pg_waldump', '--path', $node->data_dir . '/pg_wal', '--start', $from, '--end', $to, '--rmgr', 'Transaction' ]);
	my $messages = 0;
	while ($records =~ /inval msgs:(.*)/g) { $messages += () = $1 =~ /catcache|catalog|relcache|snapshot|relmap|smgr/g }
	my $locks = $node->safe_psql('postgres', "SET recycled_temp.enabled = $enabled; BEGIN;\n" . cycles($create, $many) . "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid' AND relation IS DISTINCT FROM 'pg_locks'::regclass; COMMIT");
	return { wal => $wal, messages => $messages / $cycles, grown => $after - $before, locks => $locks };
}

diag sprintf('%-52s %s', "what is created and dropped, PostgreSQL $major", 'WAL: off, on; messages: off, on; bytes in 1000 cycles: off, on; locks of 1000 cycles: off, on') if $ENV{RECYCLED_COUNTS};
for my $kind (@kinds)
{
	my ($name, $create, $wal, $messages) = @$kind;
	my ($off, $on) = map { counted($_, $create) } 'off', 'on';
	diag sprintf('%-52s %6.0f %6.0f %6.1f %6.1f %8d %8d %6d %6d', $name, map { ($off->{$_}, $on->{$_}) } qw(wal messages grown locks)) if $ENV{RECYCLED_COUNTS};
	cmp_ok($on->{wal}, '<=', 1024 * $wal * ($major > 15 ? 1.2 : 1), "$name: WAL");
	cmp_ok($on->{messages}, '>', 0, "$name: messages are seen");
	cmp_ok($on->{messages}, '<=', $messages * $off->{messages}, "$name: messages");
	is($on->{grown}, 0, "$name: catalogs do not grow");
	cmp_ok($off->{grown}, '>', 0, "$name: they do without the pool");
	cmp_ok($on->{locks}, '<=', 10, "$name: locks of a transaction");
}
$node->stop;
done_testing();

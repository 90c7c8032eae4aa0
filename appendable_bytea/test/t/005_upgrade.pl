
# pg_upgrade keeps values and stores, with the chunks in them.
#
# Needs two majors on one machine: PG_LEAN_OLD_BINDIR names the bin folder of the
# older server, into which this extension must be installed too.  ci/upgrade.sh sees
# to both.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old_bindir = $ENV{PG_LEAN_OLD_BINDIR};
plan skip_all => 'PG_LEAN_OLD_BINDIR does not name the programs of an older server'
  unless $old_bindir && -x "$old_bindir/initdb";

my $new_bindir = `pg_config --bindir`;
chomp $new_bindir;
my $base = PostgreSQL::Test::Utils::tempdir_short();
my $old = "$base/old";
my $new = "$base/new";
my @initdb_new = ("$new_bindir/initdb", '-D', $new, '-A', 'trust', '-U', 'postgres', '-N', '--no-locale', '-E', 'UTF8');
push @initdb_new, '--no-data-checksums' if `$new_bindir/initdb --help` =~ /no-data-checksums/;
command_ok([ "$old_bindir/initdb", '-D', $old, '-A', 'trust', '-U', 'postgres', '-N', '--no-locale', '-E', 'UTF8' ], 'initdb of the old server');
command_ok(\@initdb_new, 'initdb of the new server');
for my $dir ($old, $new)
{
	append_to_file("$dir/postgresql.conf", "listen_addresses = ''\nunix_socket_directories = '$base'\nfsync = off\n" .
		"shared_preload_libraries = 'appendable_bytea'\n");
}

# start, run SQL, stop
sub with_server
{
	my ($bindir, $dir, @statements) = @_;
	system_or_bail("$bindir/pg_ctl", '-D', $dir, '-l', "$base/log", '-w', '-s', '-o', '-p 5999', 'start');
	my @results;
	for my $sql (@statements)
	{
		my ($out, $err);
		IPC::Run::run([ "$new_bindir/psql", '-X', '-A', '-t', '-q', '-v', 'ON_ERROR_STOP=1', '-h', $base, '-p', '5999', '-U', 'postgres', '-d', 'postgres', '-c', $sql ],
			'>', \$out, '2>', \$err) or diag($err);
		push @results, $out;
	}
	system_or_bail("$bindir/pg_ctl", '-D', $dir, '-w', '-s', '-m', 'fast', 'stop');
	return @results;
}
my $digest = q{SELECT id, length(data), md5(data), length(log), md5(log), right(log, 3) FROM t ORDER BY id};
# A build of 15 stamps columns with an option that later servers do not know, so that
# no table of it can be upgraded: that is taken off.
my $no_stamps = "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%'";
my (undef, undef, undef, undef, $want) = with_server($old_bindir, $old,
	'CREATE EXTENSION appendable_bytea',
	'CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea, log appendable_text) WITH (fillfactor = 80)',
	q{INSERT INTO t SELECT i, convert_to(repeat(md5(i::text), i * 300), 'UTF8'), repeat('line ' || i || U&' \20AC ', i * 300) FROM generate_series(0, 6) i; UPDATE t SET data = data || '\x00ff'::bytea, log = log || U&'\00DF\20AC'; UPDATE t SET data = appendable_write(data, '\xaa', 1, 1) WHERE id = 5},
	'CREATE UNLOGGED TABLE u AS SELECT * FROM t; CREATE TABLE short (id int, data appendable_bytea, log appendable_text)',
	$digest, $no_stamps);
chdir $base or die;
command_ok([ "$new_bindir/pg_upgrade", '--no-sync', '-U', 'postgres', '-d', $old, '-D', $new, '-b', $old_bindir, '-B', $new_bindir, '-s', $base, '-p', '5998', '-P', '5997' ],
	'pg_upgrade') or diag(map { slurp_file($_) =~ /((?:.*\n){1,12})\z/ } glob("$new/pg_upgrade_output.d/*/log/pg_upgrade_dump_*.log"));
my ($got, undef, $check, $after) = with_server($new_bindir, $new, $digest,
	q{UPDATE t SET data = data || '\x01'::bytea, log = log || 'more'; INSERT INTO short SELECT * FROM t; DELETE FROM short WHERE id = 1},
	'SELECT count(*) FROM appendable_bytea_check()',
	q{DROP TABLE u; SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r'});
is($got, $want, 'the same values');
is($check, "0\n", 'chunks are right');
is($after, "2\n", 'a store goes with its table');
done_testing();

# A RAM tablespace on a mount that fills up: the statement fails, the session goes
# on, and what was there stays usable.
use strict;
use warnings;
use File::Temp qw(tempdir);

# A small tmpfs takes a separate mount namespace, in which this test runs again
# (before the modules below take its output).
BEGIN
{
	if (!defined $ENV{RAM_TABLESPACE_MOUNT})
	{
		my $folder = tempdir();
		my @namespace = ('unshare', '--user', '--map-current-user', '--mount', '--keep-caps', 'sh', '-c',
			'mount -t tmpfs -o size=8m,mode=0700 tmpfs "$0" 2>/dev/null && exec "$@"', $folder);
		open(my $stderr, '>&', \*STDERR) or die $!;
		open(STDERR, '>', '/dev/null') or die $!;
		my $able = system(@namespace, 'true') == 0;
		open(STDERR, '>&', $stderr) or die $!;
		$ENV{RAM_TABLESPACE_MOUNT} = $able ? $folder : '';
		exec(@namespace, $^X, (map { "-I$_" } @INC), $0) if $able;
		rmdir($folder);
	}
}

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mount = $ENV{RAM_TABLESPACE_MOUNT};
plan skip_all => 'no mount namespaces here' if $mount eq '';

# Where parallel_temp is installed its loads are tried as well: they promise themselves room.
my $libdir = `pg_config --pkglibdir`;
chomp $libdir;
my $parallel_temp = -e "$libdir/parallel_temp.so";
my $libraries = $parallel_temp ? 'ram_tablespace,parallel_temp' : 'ram_tablespace';

my $node = PostgreSQL::Test::Cluster->new('ramfull');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION ram_tablespace');
$node->safe_psql('postgres', "CALL ram_tablespace_create('ram', '$mount')");

my $rows = "SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 200000) i";
my $few = "SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 20000) i";
my $program = 'seq -f "%.0f,' . ('x' x 100) . '" 1 200000';
# A COPY that fails leaves the mount full, in pages that its table keeps, with fast load and without.
for my $fast ($parallel_temp ? ('on', 'off') : ('off'))
{
	for my $buffers ('1MB', '64MB')
	{
		my ($rc, $out, $err) = $node->psql('postgres', qq{
			SELECT ram_tablespace_use('ram');
			SET temp_buffers = '$buffers';
			SELECT set_config('parallel_temp.fast_load', '$fast', false);
			CREATE TEMP TABLE kept AS $few;
			CREATE TEMP TABLE t AS $rows;
			INSERT INTO kept $rows;
			COPY kept FROM PROGRAM '$program' WITH (FORMAT csv);
			INSERT INTO kept $rows RETURNING NULL;
			SELECT 'kept', count(*), sum(id) FROM kept;
			CREATE TEMP TABLE warned (id int);
			SELECT 'check', count(*) FROM ram_tablespace_check() WHERE problem ~ 'file system has';
			SET temp_tablespaces = '';
			CREATE TEMP TABLE elsewhere AS $rows;
			SELECT 'elsewhere', count(*) FROM elsewhere;
			DROP TABLE IF EXISTS kept, filler, warned;
			SET temp_tablespaces = ram;
			CREATE TEMP TABLE kept AS $few;
			SELECT 'again', count(*) FROM kept;
		}, on_error_stop => 0);
		my $name = "fast_load = $fast, temp_buffers = $buffers";
		my @failures = $err =~ /ERROR:  could not (?:extend|write)[^\n]*No space left on device/g;
		is(scalar(@failures), 4, "$name: each statement that wants too much fails");
		is(scalar(my @errors = $err =~ /ERROR:/g), 4, "$name: no other does");
		like($err, qr/WARNING:  RAM tablespace "ram" is nearly full/, "$name: the next table warns");
		unlike($err, qr/FATAL|PANIC|server closed/, "$name: nothing worse");
		like($out, qr/^kept\|20000\|200010000\ncheck\|1\nelsewhere\|200000\nagain\|20000$/m, "$name: the session continues");
	}
}
$node->poll_query_until('postgres', "SELECT used_bytes = 0 FROM ram_tablespaces()");
$node->safe_psql('postgres', "CALL ram_tablespace_drop('ram')");
$node->stop;
done_testing();

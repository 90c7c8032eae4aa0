# The rules of a RAM tablespace hold in a copy of the cluster that maps it to another
# directory.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Path qw(make_path remove_tree);

my $type = `stat -f -c %T /dev/shm 2>&1`;
plan skip_all => "/dev/shm is not a tmpfs here: $type" unless $type =~ /tmpfs/;
my $mount = "/dev/shm/ram_tablespace_copy.$$";
make_path($mount);
END { remove_tree($mount) if defined $mount }

my $node = PostgreSQL::Test::Cluster->new('original');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'ram_tablespace'\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION ram_tablespace');
$node->safe_psql('postgres', "CALL ram_tablespace_create('ram', '$mount')");
my $location = $node->safe_psql('postgres', "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = 'ram'");
my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_tablespace WHERE spcname = 'ram'");
# what a restore of pg_dumpall runs
my $system = $node->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()');
make_path("$mount/ram_tablespace.$system.restored");
$node->safe_psql('postgres', "CREATE TABLESPACE restored LOCATION '$mount/ram_tablespace.$system.restored'");
my $restored = $node->safe_psql('postgres', "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = 'restored'");

# copy_of($name, DIRECTORY, OTHER): a physical copy whose tablespaces are located there
sub copy_of
{
	my ($name, $mapped, $other) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name);
	command_ok([ 'pg_basebackup', '--no-sync', '--checkpoint=fast', '-D', $copy->data_dir, '-h', $node->host, '-p', $node->port,
			'-T', "$location=$mapped", '-T', "$restored=$other" ], "$name: pg_basebackup -T");
	$copy->append_conf('postgresql.conf', 'port = ' . $copy->port . "\n");
	$copy->start;
	is($copy->safe_psql('postgres', "SELECT pg_tablespace_location($oid)"), $mapped, "$name: the tablespace is elsewhere");
	return $copy;
}

# refuses($copy, $space): permanent relations are refused, temporary ones are not
sub refuses
{
	my ($copy, $space) = @_;
	my $name = $copy->name;
	my $refused = qr/cannot place .* in RAM tablespace "$space"/;
	for my $sql ("CREATE TABLE t (a int) TABLESPACE $space", "REINDEX (TABLESPACE $space) TABLE pg_temp.u", "CREATE DATABASE d TABLESPACE $space")
	{
		my ($rc, $out, $err) = $copy->psql('postgres', "CREATE TEMP TABLE u (a int); $sql");
		like($err, $refused, "$name: $sql");
	}
	is($copy->safe_psql('postgres', "SET temp_tablespaces = $space; CREATE TEMP TABLE t AS SELECT 1 AS a; SELECT a, pg_relation_filepath('t') ~ 'pg_tblspc' FROM t"),
		'1|t', "$name: a temporary table in $space");
}

my $problems = "SELECT name, problem FROM ram_tablespace_check() WHERE problem !~ 'of memory left' ORDER BY 1, 2";

# ---- mapped to another directory in memory ----
my $mapped = "$mount/mapped";
my $copy = copy_of('copy', $mapped, "$mapped-restored");
refuses($copy, $_) for ('ram', 'restored');
is($copy->safe_psql('postgres', 'SELECT name, location, in_memory, usable, protected FROM ram_tablespaces() ORDER BY 1'),
	"ram|$mapped|t|t|t\nrestored|$mapped-restored|t|t|t", 'copy: ram_tablespaces()');
is($copy->safe_psql('postgres', $problems), '', 'copy: nothing is wrong');
is($copy->safe_psql('postgres', "SELECT ram_tablespace_use('ram')"), '', 'copy: ram_tablespace_use()');
# the limit holds, too
$copy->safe_psql('postgres', "ALTER SYSTEM SET ram_tablespace.max_size = '1MB'");
$copy->reload;
$copy->poll_query_until('postgres', "SELECT current_setting('ram_tablespace.max_size') = '1MB'");
my ($rc, $out, $err) = $copy->psql('postgres', "SET temp_tablespaces = ram;
	CREATE TEMP TABLE t AS SELECT i, repeat('x', 100) FROM generate_series(1, 50000) i; CREATE TEMP TABLE u (a int)");
like($err, qr/RAM tablespace "ram" is full/, 'copy: the limit holds');
$copy->stop;

# ---- reboot of the copy's machine ----
remove_tree($mapped, "$mapped-restored");
$copy->start;
refuses($copy, 'ram');
is((stat($mapped))[2] & 07777, 0700, 'copy: its directory was restored');

# ---- a copy of the copy, whose directory is a link ----
$node->stop;
($node, $location, $restored) = ($copy, $mapped, "$mapped-restored");
make_path("$mount/target");
my $link = $copy->basedir . '/link';
symlink("$mount/target", $link) or die $!;
my $second = copy_of('second', $link, "$mount/second-restored");
refuses($second, 'ram');
$second->restart;
is($second->safe_psql('postgres', $problems), '', 'second: nothing is wrong');
$second->stop;

# ---- a tablespace in memory that nothing protects is reported, and can be protected ----
make_path("$mount/plain");
$copy->safe_psql('postgres', 'ALTER SYSTEM RESET ram_tablespace.max_size');
$copy->reload;
$copy->safe_psql('postgres', "CREATE TABLESPACE plain LOCATION '$mount/plain'");
$copy->safe_psql('postgres', 'CREATE TABLE kept (a int) TABLESPACE plain');
$copy->safe_psql('postgres', 'CREATE DATABASE kept_too TABLESPACE plain');
is($copy->safe_psql('postgres', $problems),
	"plain|holds database kept_too\nplain|holds public.kept, which is not temporary\nplain|is located in memory and accepts relations that are not temporary, which a restart of the machine loses",
	'an unprotected tablespace in memory is reported');
my $plain = $copy->safe_psql('postgres', "SELECT oid FROM pg_tablespace WHERE spcname = 'plain'");
ok(!-e $copy->data_dir . "/ram_tablespaces/$plain", 'it has no record');
$copy->safe_psql('postgres', "CALL ram_tablespace_protect('plain')");
is($copy->safe_psql('postgres', $problems), "plain|holds database kept_too\nplain|holds public.kept, which is not temporary", 'protected, and what it holds is reported');
$copy->safe_psql('postgres', 'DROP TABLE kept');
$copy->safe_psql('postgres', 'ALTER DATABASE kept_too SET TABLESPACE pg_default');
refuses($copy, 'plain');
is($copy->safe_psql('postgres', $problems), '', 'nothing is wrong any more');

# ---- the record is dropped with the tablespace ----
ok(-e $copy->data_dir . "/ram_tablespaces/$plain", 'it has a record');
$copy->safe_psql('postgres', 'DROP TABLESPACE plain');
ok(!-e $copy->data_dir . "/ram_tablespaces/$plain", 'which DROP TABLESPACE removes');
$copy->poll_query_until('postgres', "SELECT used_bytes = 0 FROM ram_tablespaces() WHERE name = 'ram'");
$copy->safe_psql('postgres', "CALL ram_tablespace_drop('ram')");
ok(!-e $copy->data_dir . "/ram_tablespaces/$oid", 'ram_tablespace_drop() removes it, too');
ok(!-e $mapped, 'and the mapped directory');
# a record of an OID that a new tablespace gets
make_path("$mount/later");
$copy->safe_psql('postgres', "CREATE TABLESPACE later LOCATION '$mount/later'");
is($copy->safe_psql('postgres', "SELECT ram_tablespace_is_protected('later'), ram_tablespace_is_protected('restored'), ram_tablespace_is_protected('none')"),
	'f|t|f', 'ram_tablespace_is_protected()');
$copy->stop;
done_testing();

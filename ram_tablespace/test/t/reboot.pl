# RAM tablespaces: temporary relations only, limits, and a reboot that empties the
# mount.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Path qw(make_path remove_tree);

# A folder of /dev/shm stands for a mount point; any tmpfs will do.
my $mount = "/dev/shm/ram_tablespace_test.$$";
my $type = `stat -f -c %T /dev/shm 2>&1`;
plan skip_all => "/dev/shm is not a tmpfs here: $type" unless $type =~ /tmpfs/;
make_path($mount);
END { remove_tree($mount) if defined $mount }

my $node = PostgreSQL::Test::Cluster->new('ram');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'ram_tablespace'\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION ram_tablespace');

# fails($sql, $pattern, $name): the statement fails with that message.
sub fails
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	isnt($rc, 0, "$name: fails");
	like($err, $pattern, "$name: says why");
}

# ---- making one ----
my $disk = $node->basedir;
fails("CALL ram_tablespace_create('ram', '$disk')", qr/is not a tmpfs mount.*mount -t tmpfs -o size=/s, 'directory on a disk')
  if `stat -f -c %T $disk` !~ /tmpfs/;
fails("CALL ram_tablespace_create('ram', 'shm')", qr/must be an absolute path/, 'relative path');
fails("CALL ram_tablespace_create('R/am', '$mount')", qr/lower-case letters/, 'unusable name');
fails("BEGIN; CALL ram_tablespace_create('ram', '$mount'); COMMIT", qr/cannot run inside a transaction block/, 'transaction block');
fails("DO 'BEGIN CALL ram_tablespace_create(''ram'', ''$mount''); END'", qr/cannot run inside a transaction block or a function/, 'DO block');
$node->safe_psql('postgres', 'CREATE ROLE worker LOGIN; CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher');
fails("SET ROLE worker; CALL ram_tablespace_create('ram', '$mount')", qr/permission denied/, 'ordinary user');
is_deeply([ glob("$mount/*") ], [], 'nothing was left behind');

$node->safe_psql('postgres', "CALL ram_tablespace_create('ram', '$mount')");
fails("CALL ram_tablespace_create('ram', '$mount')", qr/already exists/, 'same name again');
my $system = $node->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()');
is($node->safe_psql('postgres', 'SELECT name, location, in_memory, usable, used_bytes, limit_bytes IS NULL FROM ram_tablespaces()'),
	"ram|$mount/ram_tablespace.$system.ram|t|t|0|t", 'the new tablespace');
is($node->safe_psql('postgres', 'SET ROLE watcher; SELECT count(*) FROM ram_tablespaces()'), '1', 'monitors may look');
my $location = "$mount/ram_tablespace.$system.ram";

# ---- only temporary relations ----
my $refused = qr/cannot place .* in RAM tablespace "ram".*holds temporary relations only/s;
$node->safe_psql('postgres', 'CREATE TABLE kept (id int PRIMARY KEY)');
fails($_, $refused, $_)
  for (
	'CREATE TABLE t (a int) TABLESPACE ram',
	'CREATE UNLOGGED TABLE t (a int) TABLESPACE ram',
	'CREATE TABLE t TABLESPACE ram AS SELECT 1 AS a',
	'CREATE TABLE t (a int) PARTITION BY RANGE (a) TABLESPACE ram',
	'SET default_tablespace = ram; CREATE TABLE t (a int)',
	'CREATE MATERIALIZED VIEW t TABLESPACE ram AS SELECT 1 AS a',
	'CREATE INDEX ON kept (id) TABLESPACE ram',
	'CREATE TABLE t (a int, UNIQUE (a) USING INDEX TABLESPACE ram)',
	'ALTER TABLE kept SET TABLESPACE ram',
	'ALTER INDEX kept_pkey SET TABLESPACE ram',
	'ALTER TABLE ALL IN TABLESPACE pg_default SET TABLESPACE ram',
	'REINDEX (TABLESPACE ram) TABLE kept',
	'CREATE DATABASE d TABLESPACE ram');
$node->safe_psql('postgres', 'CREATE DATABASE d');
fails('ALTER DATABASE d SET TABLESPACE ram', $refused, 'ALTER DATABASE');

# also in a database without the extension
my ($rc, $out, $err) = $node->psql('d', 'CREATE TABLE t (a int) TABLESPACE ram');
like($err, $refused, 'database without the extension');
# (/dev/shm may be larger than the memory of this machine, and rightly called so)
is($node->safe_psql('postgres', "SELECT problem FROM ram_tablespace_check() WHERE problem !~ 'of memory left'"), '', 'nothing is wrong');

# ---- use ----
my $load = "CREATE TEMP TABLE t AS SELECT i, repeat('x', 100) AS pad FROM generate_series(1, 100000) i;
	CREATE INDEX ON t (i); SELECT count(*), pg_relation_filepath('t') ~ '^pg_tblspc' FROM t";
is($node->safe_psql('postgres', "SELECT ram_tablespace_use('ram'); $load"), "\n100000|t", 'session');
fails("SELECT ram_tablespace_use('pg_default')", qr/"pg_default" is not a RAM tablespace/, 'a tablespace of another kind');
$node->safe_psql('postgres', "SELECT ram_tablespace_use('ram', 'worker'); GRANT CREATE ON TABLESPACE ram TO worker");
is($node->safe_psql('postgres', $load, extra_params => [ '-U', 'worker' ]), '100000|t', 'role');
$node->safe_psql('postgres', "SELECT ram_tablespace_use('ram', NULL, 'd'), ram_tablespace_use('ram', 'watcher', 'd')");
is($node->safe_psql('d', $load), '100000|t', 'database');
$node->safe_psql('postgres', "SELECT ram_tablespace_use(NULL, NULL, 'd'), ram_tablespace_use(NULL, 'watcher', 'd'), ram_tablespace_use(NULL, 'worker')");
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_db_role_setting'), '0', 'reset');

# ---- limits ----
$node->safe_psql('postgres', "ALTER SYSTEM SET ram_tablespace.max_size = '4MB'");
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('ram_tablespace.max_size') = '4MB'");
($rc, $out, $err) = $node->psql('postgres', "SELECT ram_tablespace_use('ram');
	CREATE TEMP TABLE t AS SELECT i, repeat('x', 100) AS pad FROM generate_series(1, 100000) i;
	SELECT problem ~ '^holds' FROM ram_tablespace_check();
	CREATE TEMP TABLE u (a int);
	SELECT 'alive', count(*) FROM t;", on_error_stop => 0);
like($err, qr/RAM tablespace "ram" is full.*ram_tablespace\.max_size is 4 MB/s, 'limit');
like($out, qr/^t\nalive\|100000/m, 'the session lives, the table too, the check says so');
($rc, $out, $err) = $node->psql('postgres', "SELECT ram_tablespace_use('ram');
	CREATE TEMP TABLE t AS SELECT i, repeat('x', 100) AS pad FROM generate_series(1, 90000) i LIMIT 87000;
	CREATE TEMP TABLE u AS SELECT 1 AS a;
	CREATE TEMP TABLE w AS SELECT i, repeat('x', 100) AS pad FROM generate_series(1, 300000) i;
	SELECT 'alive', count(*) FROM u;", on_error_stop => 0);
like($err, qr/RAM tablespace "ram" is (nearly )?full/, 'nearly full, or full during a load');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ram_tablespace.max_size');
$node->reload;

# ---- reboot: the mount is empty, then the server starts ----
$node->stop;
remove_tree($location);
ok(!-e $location, 'the directory is gone');
$node->start;
is($node->safe_psql('postgres', "SELECT ram_tablespace_use('ram'); $load"), "\n100000|t", 'usable in the first session after a reboot');
my $mode = (stat($location))[2] & 07777;
is($mode, 0700, 'no other user may read the directory');

# only the inner directory lost, and a crash
$node->stop('immediate');
remove_tree($_) for glob("$location/PG_*");
$node->start;
is($node->safe_psql('postgres', "SELECT ram_tablespace_use('ram'); $load"), "\n100000|t", 'usable after a crash that lost the inner directory');

# a directory that is no directory stops the server
$node->stop;
remove_tree($location);
symlink($disk, $location) or die $!;
ok(!$node->start(fail_ok => 1), 'a link in its place stops the server');
like(slurp_file($node->logfile), qr/FATAL:.*does not belong to the server's user/, 'and the log says so');
unlink($location);
$node->start;

# ---- one that parallel_temp made, before there was this extension ----
my $old = "$mount/parallel_temp_ram.$system.old";
mkdir($old, 0700) or die $!;
$node->safe_psql('postgres', "CREATE TABLESPACE old LOCATION '$old'");
is($node->safe_psql('postgres', "SELECT string_agg(name, ',' ORDER BY name) FROM ram_tablespaces()"), 'old,ram', 'is known by its directory');
fails('CREATE TABLE t (a int) TABLESPACE old', qr/holds temporary relations only/, 'rules hold there');
$node->stop;
remove_tree($old);
$node->start;
is($node->safe_psql('postgres', "SELECT ram_tablespace_use('old'); $load"), "\n100000|t", 'usable after a reboot');
$node->poll_query_until('postgres', "SELECT sum(used_bytes) = 0 FROM ram_tablespaces()");
$node->safe_psql('postgres', "CALL ram_tablespace_drop('old')");
ok(!-e $old, 'dropped with its directory');

# ---- pipelines: what cannot be rolled back is committed at once, or refused ----
# pipeline(STATEMENT...): in one pipeline
sub pipeline
{
	my $script = $node->basedir . '/pipeline.sql';
	open(my $file, '>', $script) or die $!;
	print $file join("\n", '\startpipeline', @_, '\endpipeline', '');
	close($file);
	my $err = '';
	local %ENV = $node->_get_env();
	IPC::Run::run([ 'pgbench', '--no-vacuum', '--transactions=1', '--protocol=extended', '--file', $script, 'postgres' ],
		'>', \my $out, '2>', \$err);
	return $err;
}

my $tablespaces = 'SELECT count(*), bool_and(usable) FROM ram_tablespaces()';
like(pipeline("CALL ram_tablespace_create('second', '$mount');", 'SELECT 1/0;'), qr/division by zero/, 'a pipeline fails after making one');
is($node->safe_psql('postgres', $tablespaces), '2|t', 'which is there, with its directory');
like(pipeline('SELECT 1;', "CALL ram_tablespace_drop('second');"), qr/cannot be executed within a pipeline|cannot run inside a transaction block/, 'dropping it later in a pipeline');
is($node->safe_psql('postgres', $tablespaces), '2|t', 'is refused');
like(pipeline("CALL ram_tablespace_drop('second');", 'SELECT 1/0;'), qr/division by zero/, 'a pipeline fails after dropping it');
is($node->safe_psql('postgres', $tablespaces), '1|t', 'which is gone, with its directory');

# ---- dropping ----
fails("SELECT ram_tablespace_use('ram'); CREATE TEMP TABLE t (a int); CALL ram_tablespace_drop('ram')", qr/is not empty/, 'in use');
fails("CALL ram_tablespace_drop('pg_default')", qr/is not a RAM tablespace/, 'a tablespace of another kind');
$node->poll_query_until('postgres', "SELECT used_bytes = 0 FROM ram_tablespaces()");
$node->safe_psql('postgres', "CALL ram_tablespace_drop('ram')");
ok(!-e $location, 'the directory went with it');
is($node->safe_psql('postgres', 'SELECT count(*) FROM ram_tablespaces()'), '0', 'nothing is left');
$node->restart;
$node->stop;
done_testing();

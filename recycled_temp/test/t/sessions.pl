# Other sessions, crashes, the idle timeout, a standby, and other libraries.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use CrashedServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('recycled');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'recycled_temp'
recycled_temp.enabled = on
recycled_temp.after_drops = 1
autovacuum = off
restart_after_crash = on
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION recycled_temp; CREATE ROLE carol LOGIN');

# A session that stays: say($statements) returns what it prints.
my ($in, $out, $err, $psql);
sub open_session
{
	my ($role) = @_;
	($in, $out, $err) = ('', '', '');
	$psql = IPC::Run::start([ 'psql', '-XAtq', '-U', $role // $node->safe_psql('postgres', 'SELECT current_user'), '-d', $node->connstr('postgres') ],
		'<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
}
sub say_to
{
	my ($statements) = @_;
	($out, $err) = ('', '');
	$in .= "$statements\n\\echo said\n";
	$psql->pump until $out =~ /^said$/m;
	$out =~ s/^said\n//m;
	return $out . $err;
}
sub close_session { $in .= "\\q\n"; $psql->finish; }
my $count = "SELECT count(*) FROM pg_class WHERE relname LIKE 'pg_temp_recycled_%' AND relkind = 'r'";
my $make = 'CREATE TEMP TABLE t (a int PRIMARY KEY, b text)';
my $fill = "INSERT INTO t SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 100) g";
sub pooled { return $node->safe_psql('postgres', $count) }

# ---- what another session does to a pooled table ----
open_session();
say_to("$make; $fill; DROP TABLE t;");
is(pooled(), 1, 'one table is pooled');
my $name = $node->safe_psql('postgres', "SELECT relnamespace::regnamespace || '.' || relname FROM pg_class WHERE relname LIKE 'pg_temp_recycled_%' AND relkind = 'r'");
$node->safe_psql('postgres', "COMMENT ON TABLE $name IS 'theirs'");
is(say_to("$make; SELECT obj_description('t'::regclass), (SELECT count(*) FROM t); $fill; SELECT count(*) FROM t; SELECT reused FROM recycled_temp_status();"),
	"|0\n100\n0\n", 'a table with the comment of another session is not used');
is(pooled(), 0, 'but dropped');
for my $change ("GRANT SELECT ON %s TO carol", "GRANT SELECT (a) ON %s TO carol", "COMMENT ON COLUMN %s.a IS 'x'")
{
	say_to("DROP TABLE t;");
	$name = $node->safe_psql('postgres', "SELECT relnamespace::regnamespace || '.' || relname FROM pg_class WHERE relname LIKE 'pg_temp_recycled_%' AND relkind = 'r'");
	$node->safe_psql('postgres', sprintf($change, $name));
	is(say_to("$make; SELECT count(*) FROM t; SELECT reused FROM recycled_temp_status();"), "0\n0\n", "not used after $change");
}
say_to("DROP TABLE t; $make;");
is(say_to("SELECT reused FROM recycled_temp_status();"), "1\n", 'untouched, it is used');
close_session();
$node->poll_query_until('postgres', $count, '0') or die;

# ---- DROP OWNED, DROP ROLE, REASSIGN OWNED from another session ----
open_session('carol');
say_to("$make; $fill; DROP TABLE t;");
my ($rc, $stdout, $stderr) = $node->psql('postgres', 'DROP ROLE carol');
like($stderr, qr/owner of table pg_temp_\d+\.pg_temp_recycled_\d+/, 'DROP ROLE names the pooled table');
$node->safe_psql('postgres', 'DROP OWNED BY carol');
is(pooled(), 0, 'DROP OWNED drops it');
is(say_to("$make; $fill; SELECT count(*), max(a) FROM t; CREATE TEMP TABLE filler AS SELECT repeat('x', 500) FROM generate_series(1, 30000); SELECT count(*) FROM filler;"),
	"100|100\n30000\n", 'the session continues, also when its buffers are reused');
say_to("DROP TABLE t, filler; BEGIN; $make; $fill; ROLLBACK;");
is(pooled(), 2, 'a rolled back CREATE returns a table to the pool');
$node->safe_psql('postgres', 'DROP OWNED BY carol');
is(say_to("CREATE TEMP TABLE filler AS SELECT repeat('x', 500) FROM generate_series(1, 30000); SELECT count(*) FROM filler; $make;"),
	"30000\n", 'and no page in the buffers, which have no file after DROP OWNED');
say_to("DROP TABLE t;");
$node->safe_psql('postgres', 'REASSIGN OWNED BY carol TO CURRENT_USER');
is(say_to("$make; SELECT tableowner, (SELECT count(*) FROM t) FROM pg_tables WHERE tablename = 't';"), "carol|0\n", 'a table of another owner is not used');
close_session();
$node->poll_query_until('postgres', $count, '0') or die;
$node->safe_psql('postgres', 'DROP OWNED BY carol; DROP ROLE carol; CREATE ROLE carol LOGIN');
open_session();
say_to("SET ROLE carol; CREATE TEMP TABLE t (a int); DROP TABLE t; RESET ROLE;");
is(say_to("DROP ROLE carol; $count;"), "0\n", 'DROP ROLE in the session itself empties the pool');
close_session();

# ---- another session moves rows of pg_class, or renames a table ----
open_session();
say_to("CREATE TEMP TABLE t (a int); DROP TABLE t; BEGIN; CREATE TEMP TABLE t (a int) ON COMMIT DROP; INSERT INTO t VALUES (1);");
$node->safe_psql('postgres', 'VACUUM FULL pg_class');
is(say_to("COMMIT; SELECT kept, reused FROM recycled_temp_status(); SELECT to_regclass('t');"), "2|1\n\n", 'ON COMMIT DROP keeps a table whose row has moved');
say_to("BEGIN; CREATE TEMP TABLE t (a int) ON COMMIT DROP; DROP TABLE t; CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (2);");
$node->safe_psql('postgres', 'VACUUM FULL pg_class');
is(say_to("COMMIT; SELECT * FROM t; DROP TABLE t; CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (3); SELECT * FROM t;"), "2\n3\n", 'and not the table that was created after it');
my $schema = say_to('SELECT pg_my_temp_schema()::regnamespace;');
chomp $schema;
my $rename = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "BEGIN; ALTER TABLE $schema.t RENAME TO moved; SELECT pg_sleep(3); COMMIT" ]);
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.mode = 'AccessExclusiveLock' AND c.relnamespace = '$schema'::regnamespace") or die;
like(say_to('DROP TABLE t;'), qr/table "t" does not exist/, 'DROP waits, and finds that the name is gone');
$rename->finish;
is(say_to('SELECT * FROM moved;'), "3\n", 'the renamed table is there');
close_session();
# ---- idle timeout ----
open_session();
say_to("SET recycled_temp.idle_timeout = '500ms'; CREATE TEMP TABLE t (a int); DROP TABLE t;");
is(say_to('SELECT kept FROM recycled_temp_status();'), "1\n", 'a table is pooled');
ok($node->poll_query_until('postgres', $count, '0'), 'and dropped in an idle session');
say_to("CREATE TEMP TABLE t (a int); DROP TABLE t;");
is(say_to('SELECT kept FROM recycled_temp_status();'), "2\n", 'again');
ok($node->poll_query_until('postgres', $count, '0'), 'and dropped again');
is(say_to("BEGIN; CREATE TEMP TABLE t (a int); DROP TABLE t; SELECT pg_sleep(1); COMMIT; CREATE TEMP TABLE t (a int); SELECT count(*) FROM t;"), "\n0\n", 'the timer fires in a transaction');
close_session();

# ---- a crash ----
open_session();
my $pid = say_to("$make; $fill; DROP TABLE t; SELECT pg_backend_pid();");
chomp $pid;
my $before = -s $node->logfile;
kill 'KILL', $pid;
eval { $psql->finish };
wait_until_back($node, $before);
is($node->safe_psql('postgres', "$make; $fill; SELECT count(*) FROM t; DROP TABLE t; $make; SELECT count(*), (SELECT reused FROM recycled_temp_status()) FROM t"),
	"100\n0|1", 'after a crash, a session may get the same temporary schema');

# ---- autovacuum, a standby ----
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1\n");
$node->reload;
is($node->safe_psql('postgres', "$make; $fill; DROP TABLE t; SELECT pg_sleep(2.5); $make; SELECT count(*), (SELECT reused FROM recycled_temp_status()) FROM t"),
	"\n0|1", 'autovacuum leaves a pooled table alone');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $count), 0, 'the standby has no pooled table left');
($rc, $stdout, $stderr) = $standby->psql('postgres', 'CREATE TEMP TABLE t (a int)');
like($stderr, qr/read-only transaction/, 'a standby has no temporary tables, as ever');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM recycled_temp_pool()'), 0, 'and no pool');
$standby->stop;

# ---- a library with a utility hook that was loaded before ----
SKIP:
{
	skip 'no pg_stat_statements', 4 unless -e $node->config_data('--sharedir') . '/extension/pg_stat_statements.control';
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'recycled_temp, pg_stat_statements'\n");
	$node->restart;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');
	is($node->safe_psql('postgres', "$make; DROP TABLE t; $make; DROP TABLE t; SELECT calls FROM pg_stat_statements WHERE query ~ '^(CREATE TEMP|DROP TABLE)' ORDER BY 1; SELECT reused FROM recycled_temp_status()"),
		"2\n2\n1", 'a library loaded later sees all statements');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_stat_statements, recycled_temp'\n");
	$node->restart;
	is($node->safe_psql('postgres', "$make; DROP TABLE t; $make; SELECT kept, obstacle FROM recycled_temp_status(); SHOW recycled_temp.enabled"),
		"0|another library that processes utility statements is loaded before recycled_temp\noff", 'disabled if such a library is loaded before');
	($rc, $stdout, $stderr) = $node->psql('postgres', 'SET recycled_temp.enabled = on');
	like($stderr, qr/recycled_temp cannot be enabled.*HINT:  Make recycled_temp the first library/s, 'and says so');
	like(slurp_file($node->logfile), qr/recycled_temp is disabled: another library/, 'also in the log');
}
$node->stop;
done_testing();

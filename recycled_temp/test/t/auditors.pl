# pgaudit and pgtt, which also process utility statements.  One that is not installed is
# left out; ci/neighbours.sh installs them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('auditors');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nrecycled_temp.after_drops = 1\n");
my $libraries = `$ENV{PG_CONFIG} --pkglibdir`;
chomp $libraries;
sub available { return -e "$libraries/$_[0].so" }

# Start with these libraries and settings.
sub start_with
{
	my ($preload, @settings) = @_;
	$node->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = '$preload'", @settings, ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS recycled_temp');
}

my $cycles = <<'SQL';
CREATE TEMP TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t VALUES (1, 'x');
DROP TABLE t;
CREATE TEMP TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t VALUES (2, 'y');
SELECT a, b FROM t;
DROP TABLE IF EXISTS t;
CREATE TEMP TABLE u AS SELECT 1 AS a;
DROP TABLE u;
CREATE TEMP TABLE u AS SELECT 2 AS a;
SELECT a FROM u;
SQL

# The messages of pgaudit about the cycles, without the numbers of statements and of temporary schemas.
my $mark = 0;
sub audited
{
	my ($script) = @_;
	my $from = -s $node->logfile;
	my $printed = $node->safe_psql('postgres', $script);
	my @lines = map { s/.*AUDIT: SESSION,\d+,\d+,//r =~ s/pg_temp_\d+/pg_temp/gr } grep { /AUDIT: SESSION/ && !/recycled_temp_status|recycled_temp.enabled/ } split /\n/, slurp_file($node->logfile, $from);
	return ($printed, join("\n", @lines));
}

SKIP:
{
	skip 'pgaudit is not installed', 10 unless available('pgaudit');
	my @settings = ("pgaudit.log = 'all'", 'pgaudit.log_relation = on', 'log_min_messages = warning', 'pgaudit.log_level = log');
	start_with('recycled_temp, pgaudit', @settings);
	$node->safe_psql('postgres', 'CREATE EXTENSION pgaudit');
	# its extension creates event triggers for DDL, with which the pool is not used
	my ($stock, $written) = audited($cycles);
	like($written, qr/DDL,CREATE TABLE.*DDL,DROP TABLE/s, 'pgaudit writes the statements');
	my ($pooled, $same) = audited("SET recycled_temp.enabled = on; $cycles SELECT kept, reused FROM recycled_temp_status()");
	is($pooled, "$stock\n0|0", 'with event triggers the pool is not used');
	is($same, $written, 'and pgaudit writes the same');

	$node->safe_psql('postgres', 'DROP EXTENSION pgaudit');
	($stock, $written) = audited($cycles);
	like($written, qr/DDL,CREATE TABLE.*DDL,DROP TABLE/s, 'pgaudit without its extension writes the statements');
	($pooled, $same) = audited("SET recycled_temp.enabled = on; $cycles SELECT kept, reused FROM recycled_temp_status()");
	is($pooled, "$stock\n3|2", 'the pool is used');
	is($same, $written, 'and pgaudit writes the statements that the user wrote');

	$node->stop;
	start_with('pgaudit, recycled_temp', 'recycled_temp.enabled = on');
	($pooled, $same) = audited("$cycles SELECT kept, reused, obstacle IS NOT NULL FROM recycled_temp_status()");
	is($pooled, "$stock\n0|0|t", 'not used if pgaudit is loaded before');
	is($same, $written, 'which writes the same');
	like(slurp_file($node->logfile), qr/recycled_temp is disabled: another library/, 'and the log has the reason');
	my ($rc, $stdout, $stderr) = $node->psql('postgres', 'SET recycled_temp.enabled = on');
	like($stderr, qr/recycled_temp cannot be enabled/, 'as has SET');
	$node->stop;
}

SKIP:
{
	skip 'pgtt is not installed', 3 unless available('pgtt');
	start_with('recycled_temp', 'session_preload_libraries = pgtt', 'recycled_temp.enabled = off');
	$node->safe_psql('postgres', 'CREATE EXTENSION pgtt');
	# pgtt makes a temporary table of a "global" one at first use in a session
	my $global = <<'SQL';
CREATE /*GLOBAL*/ TEMPORARY TABLE g (a int, b text) ON COMMIT PRESERVE ROWS;
SQL
	$node->safe_psql('postgres', $global);
	my $uses = "INSERT INTO g VALUES (1, 'x'); SELECT a, b FROM g; $cycles INSERT INTO g VALUES (2, 'y'); SELECT count(*) FROM g;";
	my $stock = $node->safe_psql('postgres', $uses);
	like($stock, qr/^1\|x\n2\|y\n2\n2$/, 'global temporary tables and the cycles');
	is($node->safe_psql('postgres', "SET recycled_temp.enabled = on; $uses"), $stock, 'print the same with the pool');
	is($node->safe_psql('postgres', "SET recycled_temp.enabled = on; $uses DROP TABLE u; $uses SELECT count(*) FROM g"), $node->safe_psql('postgres', "$uses DROP TABLE u; $uses SELECT count(*) FROM g"), 'also when they are used again');
	$node->stop;
}
done_testing();

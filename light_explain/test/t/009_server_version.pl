# A minor update of the server leaves the library on if the layout that it relies on is the
# same, with a warning; if it is not, each attempt to turn it on is reported.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $variants = "$FindBin::RealBin/../variant";
(my $sql = slurp_file("$FindBin::RealBin/../../sql/light_explain--0.9.sql")) =~ s/^(?:\\echo|SET LOCAL) .*$//mg;
$sql =~ s/\@extschema\@/s/g;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 100) g');

my $ask = <<'SQL';
SHOW light_explain.enabled;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM t;
EXPLAIN SELECT 1;
SELECT coalesce(string_agg(label || ' ' || rows, ','), 'no figures') FROM light_explain_last();
SELECT 'status', enabled, problem FROM light_explain_status();
SELECT 'progress', count(*) FROM light_explain_progress;
SELECT 'profile', count(*) FROM light_explain_profile;
SQL

# A session that loads the library itself, and one of a server that has loaded it.
sub ask
{
	my ($library, $preloaded, $extra) = @_;
	(my $functions = $sql) =~ s/MODULE_PATHNAME/$variants\/$library.so/g;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '" . ($preloaded ? "$variants/$library.so" : '') . "'");
	$node->restart;
	# the functions are made in another session, which loads the library too
	$node->psql('postgres', "DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s; SET search_path = s; $functions");
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = notice;\n" . ($preloaded ? '' : "LOAD '$variants/$library.so';\n") . "SET search_path = s, public;\n" . ($extra // $ask), on_error_stop => 0);
	return ($out, $err);
}

for my $preloaded (0, 1)
{
	my $how = $preloaded ? 'preloaded' : 'loaded';
	my $offset = -s $node->logfile;
	my ($out, $err) = ask('older', $preloaded);
	like($out, qr/^on$/m, "compiled for the minor version before, $how: it is on");
	like($out, qr/^Aggregate 1,Seq Scan on t 100$/m, 'and has figures');
	like($out, qr/^status\|t\|compiled for another minor version of the server$/m, 'the status says so');
	my $where = $preloaded ? slurp_file($node->logfile, $offset) : $err;
	like($where, qr/WARNING:  light_explain was compiled for PostgreSQL \d+\.\d+ and runs on \d+\.\d+.*HINT:  Compile and install light_explain again\./s, 'with a warning');
	unlike($err, qr/WARNING/, 'not in every session') if $preloaded;
	like($out, qr/^profile\|0$/m, 'there is a profile') if $preloaded;

	$offset = -s $node->logfile;
	($out, $err) = ask('refused', $preloaded);
	like($out, qr/^off$/m, "a server that does otherwise, $how: it is off");
	like($out, qr/Seq Scan on t \(actual rows=100/, 'EXPLAIN is the server\'s own');
	like($out, qr/^no figures$/m, 'and nothing is kept');
	like($out, qr/^status\|f\|the server's instrumentation of plan nodes has other fields$/m, 'the status tells the reason');
	my @warnings = $err =~ /(WARNING:  light_explain is off: the server's instrumentation of plan nodes has other fields)/g;
	is(scalar(@warnings), 1, 'one warning in the session that asks');
	like(slurp_file($node->logfile, $offset), qr/WARNING:  light_explain is off/, 'and one in the log');
	for my $what ('progress of statements is not visible', 'there is no profile of statements')
	{
		like($err, qr/ERROR:  $what\nDETAIL:  light_explain is off: the server's instrumentation[^\n]*\nHINT:  Compile and install light_explain for this server and restart it\./, "$what: the real reason");
	}
	($out, $err) = ask('refused', $preloaded, 'SET light_explain.enabled = on; SHOW light_explain.enabled; SET light_explain.enabled = off; SELECT 1');
	like($err, qr/ERROR:  light_explain cannot be turned on\nDETAIL:  It is off because the server's instrumentation/, 'it cannot be turned on');
	like($out, qr/^1$/m, 'off is off');
}

# asked for in the configuration
$node->append_conf('postgresql.conf', 'light_explain.enabled = on');
my ($out, $err) = ask('refused', 1, 'SHOW light_explain.enabled');
is($out, 'off', 'off also if the configuration asks for it');

# workers do not repeat what their leader was told
(undef, $err) = ask('older', 0, 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off; SELECT count(*) FROM t');
my @warnings = $err =~ /(WARNING)/g;
is(scalar(@warnings), 1, 'workers do not warn');

$node->stop;
done_testing();

# Without shared_preload_libraries: loaded by LOAD, and by session_preload_libraries.
# Only what other sessions see is missing, and says so.

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('loaded');
$node->init;
$node->append_conf('postgresql.conf', "light_explain.profile_max = 500\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION light_explain; CREATE TABLE t AS SELECT i FROM generate_series(1, 20000) i; ANALYZE t');

my $statements = <<'END';
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
EXPLAIN (ANALYZE, TIMING, COSTS OFF, SUMMARY OFF) SELECT count(*) FROM t;
SELECT 'last: ' || label || ' ' || rows FROM light_explain_last() WHERE label LIKE '%Seq Scan%';
END

my ($code, $out, $err) = $node->psql('postgres', "LOAD 'light_explain';\n$statements");
is($code, 0, "LOAD and EXPLAIN ANALYZE in one session: $err");
like($out, qr/Seq Scan on t \(actual time=[0-9.]+ rows=/, 'the plan has figures');
like($out, qr/^last: .*Seq Scan on t 20000$/m, 'light_explain_last() has them, too, workers included');

($code, $out, $err) = $node->psql('postgres', "SET client_min_messages = warning;\n$statements", connstr => $node->connstr('postgres') . " options='-c session_preload_libraries=light_explain'");
is($code, 0, "session_preload_libraries: $err");
like($out, qr/^last: .*Seq Scan on t 20000$/m, 'and its figures');

for my $view ('light_explain_progress', 'light_explain_profile')
{
	($code, $out, $err) = $node->psql('postgres', "LOAD 'light_explain';\nSELECT * FROM $view");
	is($code, 3, "$view needs shared memory");
	like($err, qr/HINT:  Add light_explain to shared_preload_libraries and restart the server\./, 'and the error tells what to do');
}
($code, $out, $err) = $node->psql('postgres', "LOAD 'light_explain';\nSET light_explain.profile = on;\n$statements");
is($code, 0, "light_explain.profile has no effect there: $err");

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|FATAL:  (?!terminating connection)|terminated by signal/, 'nothing bad in the log');
done_testing();

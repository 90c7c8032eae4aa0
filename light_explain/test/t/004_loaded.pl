# Without shared_preload_libraries: loaded by LOAD, and by session_preload_libraries.
# Only what other sessions see is missing, and says so.

use strict;
use warnings;
use JSON::PP;
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

# Own times of nodes in what auto_explain logs, and as JSON for programs that read plans.
if ($node->safe_psql('postgres', 'SHOW server_version_num') >= 180000)
{
	my $log = "LOAD 'light_explain'; LOAD 'auto_explain'; SET auto_explain.log_analyze = on; SET auto_explain.log_format = json; SET auto_explain.log_level = notice;\n"
	  . "SET max_parallel_workers_per_gather = 0; SET auto_explain.log_min_duration = 0;\n";
	for my $setting ('on', 'off')
	{
		($code, $out, $err) = $node->psql('postgres', "$log SET light_explain.show_self = $setting; SELECT count(*) FROM t;");
		my ($plan) = $err =~ /plan:\n(\{.*^\})/ms;
		my $top = $plan ? decode_json($plan)->{Plan} : {};
		is($top->{Plans}[0]{'Node Type'}, 'Seq Scan', "auto_explain logs a plan, $setting: $err");
		my $own = grep { ($_->{'Self Time'} // '') =~ /^[0-9.]+\z/ && $_->{'Self Time'} <= $_->{'Actual Total Time'} + 0.001 && defined $_->{'Self Time Error'} } $top, $top->{Plans}[0];
		is($own, $setting eq 'on' ? 2 : 0, "with own times of nodes: $setting");
	}
	my $self = $node->safe_psql('postgres', "LOAD 'light_explain'; SET light_explain.show_self = on; EXPLAIN (ANALYZE, FORMAT JSON, LIGHT OFF) SELECT count(*) FROM t");
	unlike($self, qr/Self Time/, 'the option decides where it is given');
	$self = decode_json($node->safe_psql('postgres', "LOAD 'light_explain'; SET light_explain.show_self = on; EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) SELECT count(*) FROM t"));
	is(scalar(grep { !/^[0-9.]+\z/ } map { $self->[0]{Plan}{$_} // 'none' } 'Self Time', 'Self Time Error', 'Self Shared Hit Blocks', 'Self WAL Records'), 0, 'numbers are numbers in JSON');
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|FATAL:  (?!terminating connection)|terminated by signal/, 'nothing bad in the log');
done_testing();

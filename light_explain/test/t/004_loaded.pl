# Without shared_preload_libraries: loaded by LOAD, and by session_preload_libraries.
# Only what other sessions see is missing, and says so.

use strict;
use warnings;
use FindBin;
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
is($node->safe_psql('postgres', <<"SQL"), "0\n1", 'and nothing is measured for it');
CREATE FUNCTION light_test_instrumented() RETURNS int LANGUAGE c AS '$FindBin::RealBin/../custom/light_test_custom.so';
LOAD 'light_explain';
SET light_explain.profile = on;
SELECT light_test_instrumented();
SET light_explain.instrument_all = on;
SELECT light_test_instrumented() & 1;
SQL

# Own times of nodes in what auto_explain logs and what EXPLAIN prints, in each format.
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $log = "LOAD 'light_explain'; LOAD 'auto_explain'; SET auto_explain.log_analyze = on; SET auto_explain.log_format = json; SET auto_explain.log_level = notice;\n"
  . "SET max_parallel_workers_per_gather = 0; SET log_min_messages = notice; SET auto_explain.log_min_duration = 0;\n";

# All nodes of a plan, from the top.
sub nodes_of
{
	my ($plan) = @_;
	return ($plan, map { nodes_of($_) } @{ $plan->{Plans} // [] });
}

sub has_own
{
	return scalar grep { ($_->{'Self Time'} // '') =~ /^[0-9.]+\z/ && $_->{'Self Time'} <= $_->{'Actual Total Time'} * $_->{'Actual Loops'} + 0.002 } @_;
}

for my $setting ('on', 'off')
{
	($code, $out, $err) = $node->psql('postgres', "$log SET light_explain.show_self = $setting; SELECT count(*) FROM t;");
	my ($plan) = $err =~ /plan:\n(\{.*^\})/ms;
	my $top = $plan ? decode_json($plan)->{Plan} : {};
	is($top->{Plans}[0]{'Node Type'}, 'Seq Scan', "auto_explain logs a plan, $setting: $err");
	is(has_own(nodes_of($top)), $setting eq 'on' ? 2 : 0, "with own times of nodes: $setting");
}
($code, $out, $err) = $node->psql('postgres', "$log SET auto_explain.log_format = text; SET light_explain.show_self = on; SELECT count(*) FROM t WHERE i < 10");
is(scalar(() = $err =~ /^\s+Self Time: [0-9.]+ ms$/mg), 2, "and in text: $err");
like($err, qr/^\s+Filter: \(i < 10\)$/m, 'which has all that it had');

# Short statements, those in functions, and those with the library loaded after auto_explain.
($code, $out, $err) = $node->psql('postgres', "LOAD 'auto_explain'; $log SET auto_explain.log_nested_statements = on; SET light_explain.show_self = on;\n"
	  . "DO 'DECLARE n bigint; BEGIN FOR k IN 1 .. 3 LOOP SELECT count(*) INTO n FROM t WHERE i < k * 1000; END LOOP; END'; SELECT 1; EXPLAIN SELECT 2;");
my @logged = map { decode_json($_)->{Plan} } $err =~ /plan:\n(\{.*?^\})/msg;
is(scalar(grep { my @n = nodes_of($_); has_own(@n) == @n } @logged), 4, "own times of statements in functions, and of the shortest: $err");
unlike($err, qr/ERROR/, 'and nothing failed');

my $self = $node->safe_psql('postgres', "LOAD 'light_explain'; SET light_explain.show_self = on; EXPLAIN (ANALYZE, FORMAT JSON, LIGHT OFF) SELECT count(*) FROM t");
unlike($self, qr/Self Time/, 'the option decides where it is given');
$self = decode_json($node->safe_psql('postgres', "LOAD 'light_explain'; SET light_explain.show_self = on; EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) SELECT count(*) FROM t"));
is(scalar(grep { !/^[0-9.]+\z/ } map { $self->[0]{Plan}{$_} // 'none' } 'Self Time', 'Self Shared Hit Blocks', 'Self WAL Records'), 0, 'numbers are numbers in JSON');

# A viewer of plans reads the server's output: all of it must be there, and our additions.
my $query = "SELECT a.i, (SELECT max(b.i) FROM t b WHERE b.i < 10), 'Node Type: x (actual time=1..2 rows=3 loops=4)' FROM t a JOIN t c USING (i) WHERE a.i < 1000 AND NOT EXISTS (SELECT FROM t d WHERE false AND d.i = a.i) ORDER BY 1";
for my $options ('BUFFERS, WAL, VERBOSE', 'BUFFERS OFF, TIMING OFF', 'COSTS OFF, SUMMARY OFF')
{
	my %seen;
	for my $light ('OFF', 'ON')
	{
		$seen{$light} = decode_json($node->safe_psql('postgres', "LOAD 'light_explain'; SET max_parallel_workers_per_gather = 0; EXPLAIN (ANALYZE, $options, FORMAT JSON, LIGHT $light) $query"))->[0]{Plan};
	}
	my @stock = nodes_of($seen{OFF});
	my @light = nodes_of($seen{ON});
	is(scalar(@light), scalar(@stock), "all nodes, $options");
	for my $i (0 .. $#stock)
	{
		my @missing = grep { !exists $light[$i]{$_} } keys %{ $stock[$i] };
		is("@missing", '', "$stock[$i]{'Node Type'} has all keys that viewers know");
		my @ours = grep { !exists $stock[$i]{$_} } keys %{ $light[$i] };
		is(scalar(grep { !/^Self / } @ours), 0, 'and the additions');
		cmp_ok(scalar(@ours), '>', 0, "for a node that ran: @ours") if $stock[$i]{'Actual Loops'} > 0 && $options !~ /TIMING OFF/;
	}
	is(scalar(() = $node->safe_psql('postgres', "LOAD 'light_explain'; SET max_parallel_workers_per_gather = 0; EXPLAIN (ANALYZE, $options, FORMAT XML, LIGHT) $query") =~ /<Self-Time>[0-9.]+<\/Self-Time>/g),
		$options =~ /TIMING OFF/ ? 0 : scalar(grep { $_->{'Actual Loops'} > 0 } @stock), 'the same in XML');
	is(scalar(() = $node->safe_psql('postgres', "LOAD 'light_explain'; SET max_parallel_workers_per_gather = 0; EXPLAIN (ANALYZE, $options, FORMAT YAML, LIGHT) $query") =~ /^ +Self Time: [0-9.]+$/mg),
		$options =~ /TIMING OFF/ ? 0 : scalar(grep { $_->{'Actual Loops'} > 0 } @stock), 'and in YAML');
}
($code, $out, $err) = $node->psql('postgres', "LOAD 'light_explain'; PREPARE p AS SELECT count(*) FROM t; EXPLAIN (ANALYZE, LIGHT) EXECUTE p; EXPLAIN (ANALYZE, LIGHT) CREATE TABLE copied AS SELECT * FROM t; DROP TABLE copied");
is(scalar(() = $out =~ /^ +Self Time: /mg), 3, "prepared statements and CREATE TABLE AS: $out $err");

# A line of the query that looks like a node's: then the plan stays as the server prints it.
if ($version < 180000)
{
	my $odd = $node->safe_psql('postgres', "LOAD 'light_explain'; EXPLAIN (ANALYZE, LIGHT) SELECT * FROM t WHERE i::text = E'x\n y (actual time=1..2 rows=3 loops=1)\n'");
	unlike($odd, qr/Self Time/, 'where it is not certain which lines are nodes, nothing is written');
	like($odd, qr/Seq Scan on t/, 'the plan is there');
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|FATAL:  (?!terminating connection)|terminated by signal/, 'nothing bad in the log');
done_testing();

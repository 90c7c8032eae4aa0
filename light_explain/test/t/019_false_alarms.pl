# Regressions: the rate of false alarms is what the reference states, with simulated times and in a
# run without a cause; periods, small histories, roles.
# Slow: a run of many buckets
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use FindBin;
use lib $FindBin::RealBin;
use Crowded;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
compute_query_id = on
max_parallel_workers_per_gather = 0
autovacuum = off
light_explain.history_interval = 1
light_explain.history_buckets = 96
light_explain.plans_size = 0
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION light_explain');
sub query { return $node->safe_psql('postgres', @_); }

# ---- a run without a cause: pgbench and analytic statements, many buckets ----

my $dir = PostgreSQL::Test::Utils::tempdir();
$node->run_log([ 'pgbench', '-i', '-q', '-s', '1', '-h', $node->host, '-p', $node->port, 'postgres' ]);
append_to_file("$dir/analytic.sql", <<'SQL');
SELECT abalance / 1000 AS g, count(*), sum(abalance) FROM pgbench_accounts GROUP BY g ORDER BY g;
SELECT b.bid, count(*), max(a.abalance) FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) GROUP BY b.bid;
SELECT count(*) FROM (SELECT aid FROM pgbench_accounts ORDER BY filler, aid DESC LIMIT 10) s;
SQL
$node->append_conf('postgresql.conf', 'light_explain.profile = on');
$node->reload;
$node->poll_query_until('postgres', q{SELECT setting = 'on' FROM pg_settings WHERE name = 'light_explain.profile'}) or die 'is not reloaded';
my $seconds = $ENV{LIGHT_FALSE_ALARMS_SECONDS} // 20;
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-j', '1', '-T', $seconds, '-b', 'select-only@10', '-b', 'tpcb-like@5', '-f', "$dir/analytic.sql\@2", '-h', $node->host, '-p', $node->port, 'postgres' ], '>', \my $ignored, '2>', \my $ignored_too);
my ($seen, $alarms, $compared, @pids, @before) = (0, '', 0);
# in each second, how many times as long as their work pgbench's sessions took because they waited for a processor
my @crowded = (1, 1);
while ($load->pumpable)
{
	my @now = scheduled(@pids);
	push @crowded, 1 + ($now[1] - $before[1]) / ($now[0] - $before[0]) if @before && $now[0] > $before[0];
	@pids = split /\n/, query(q{SET light_explain.profile = off; SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
	@before = scheduled(@pids);

	# what is asked here is in the history, too
	my $row = query(q{SET light_explain.profile = off; SELECT max(bucket) FROM light_explain_latency() WHERE bucket_end IS NOT NULL});
	if ($row ne '' && $row > $seen)
	{
		$seen = $row;
		$compared++;
		my $found = query(q{SET light_explain.profile = off; SELECT factor, e_value, executions, before_executions, before_buckets, mean_ms, before_mean_ms, label, query FROM light_explain_regressions WHERE slower AND query ~ 'pgbench_'});
		# other work is a cause; the bucket may have begun two seconds ago
		if ($found ne '' && is_crowded(max(@crowded[ -2, -1 ]), @crowded)) { diag("not judged: $seen: $found\nwaiting for a processor: @crowded"); }
		elsif ($found ne '') { $alarms .= "$seen: $found\n"; }
	}
	$load->pump_nb;
	sleep 1;
}
$load->finish;
note("waiting for a processor: @crowded");
ok($compared > $seconds / 8, "$compared buckets of a run without a cause");
is($alarms, '', 'have no false alarm');

# ---- roles ----

query('CREATE ROLE other LOGIN; CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats');
# everything that ran in both halves, and was slower in the first or in the second one, by however little
my $middle = '(SELECT min(bucket_start) + (max(bucket_start) - min(bucket_start)) / 2 FROM public.light_explain_latency())';
my $count = "SELECT (SELECT count(*) FROM public.light_explain_regressions($middle, 'infinity', '-infinity', 'infinity', 1e300, 0)) + (SELECT count(*) FROM public.light_explain_regressions('-infinity', $middle, '-infinity', 'infinity', 1e300, 0))";
my $new = "$count > 0";
is($node->safe_psql('postgres', "SET light_explain.profile = off; $new"), 't', 'a superuser sees all statements');
is($node->safe_psql('postgres', $new, extra_params => [ '-U', 'reader' ]), 't', 'pg_read_all_stats, too');
is($node->safe_psql('postgres', $count, extra_params => [ '-U', 'other' ]), '0', 'another role its own');
is($node->safe_psql('postgres', 'SELECT count(*) FROM light_explain_regressions', extra_params => [ '-U', 'other' ]), '0', 'in the view, too');
# another role's functions are not called
query(q{CREATE SCHEMA bad; CREATE FUNCTION bad.ln(double precision) RETURNS double precision LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'called'; END$$;
CREATE FUNCTION bad.light_explain_latency() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'called'; END$$; GRANT USAGE ON SCHEMA bad TO PUBLIC});
is(query("SET light_explain.profile = off; SET search_path = bad, public, pg_catalog; $new"), 't', 'no function of the search_path is called');

# ---- simulated times ----

$node->append_conf('postgresql.conf', "light_explain.profile = off\nlight_explain.history_interval = 86400");
$node->reload;
query(<<'SQL');
-- times of executions; node_times: of each node
CREATE TABLE simulated (bucket bigint, queryid bigint, planid bigint, times float8[], node_times float8[][], rows float8, temp bigint DEFAULT 0);
CREATE FUNCTION at(bucket bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$SELECT timestamptz '2026-01-01 00:00+00' + bucket * interval '15min'$$;
CREATE OR REPLACE FUNCTION light_explain_history(OUT bucket bigint, OUT bucket_start timestamptz, OUT bucket_end timestamptz, OUT dbid oid, OUT userid oid, OUT queryid bigint, OUT caller_queryid bigint, OUT planid bigint, OUT node integer,
	OUT executions bigint, OUT loops double precision, OUT rows double precision, OUT plan_rows double precision, OUT total_ms double precision, OUT self_ms double precision, OUT self_log_sum double precision, OUT self_log_max double precision, OUT shared_hit bigint, OUT shared_read bigint, OUT temp_written bigint)
RETURNS SETOF record LANGUAGE sql AS $$SELECT bucket, public.at(bucket), public.at(bucket + 1), 1::oid, 10::oid, queryid, NULL::bigint, planid, node - 1, array_length(node_times, 2)::bigint, 1::float8, rows, 1::float8, ms, ms, log_sum, log_max, 0::bigint, 0::bigint,
	CASE node WHEN 2 THEN temp ELSE 0 END FROM public.simulated, generate_subscripts(node_times, 1) node, LATERAL (SELECT sum(t), sum(ln(t + 0.001)), max(ln(t + 0.001)) FROM unnest(node_times[node:node]) t) s(ms, log_sum, log_max)$$;
CREATE OR REPLACE FUNCTION light_explain_latency(OUT bucket bigint, OUT bucket_start timestamptz, OUT bucket_end timestamptz, OUT dbid oid, OUT userid oid, OUT queryid bigint, OUT caller_queryid bigint, OUT planid bigint,
	OUT executions bigint, OUT cancelled bigint, OUT failed bigint, OUT total_ms double precision, OUT max_ms double precision, OUT times_ms double precision[], OUT counts bigint[])
RETURNS SETOF record LANGUAGE sql AS $$SELECT bucket, public.at(bucket), public.at(bucket + 1), 1::oid, 10::oid, queryid, NULL::bigint, planid, cardinality(times)::bigint, 0::bigint, 0::bigint, (SELECT sum(t) FROM unnest(times) t), (SELECT max(t) FROM unnest(times) t), times,
	array_fill(1::bigint, ARRAY[cardinality(times)]) FROM public.simulated$$;
-- names of the nodes of each statement's plans: 1 and 2 scan the same table in different ways, 3 another one
DO $do$
DECLARE arguments text; columns text;
BEGIN
	SELECT pg_get_function_arguments(oid), (SELECT string_agg(CASE name WHEN 'dbid' THEN '1::oid' WHEN 'userid' THEN '10::oid' WHEN 'queryid' THEN 'queryid' WHEN 'planid' THEN 'planid' WHEN 'node' THEN 'node'
			WHEN 'label' THEN 'CASE node WHEN 1 THEN (ARRAY[''Index Scan using i on t'', ''Seq Scan on t'', ''Seq Scan on u''])[planid] ELSE ''Node '' || node END'
			WHEN 'node_type' THEN 'CASE node WHEN 1 THEN (ARRAY[''Index Scan'', ''Seq Scan'', ''Seq Scan''])[planid] ELSE ''Node'' END'
			WHEN 'relation' THEN 'CASE node WHEN 1 THEN (ARRAY[''t'', ''t'', ''u''])[planid] END'
			ELSE 'NULL::' || type::regtype END, ', ' ORDER BY place) FROM unnest(proargnames, proallargtypes) WITH ORDINALITY a(name, type, place))
	INTO arguments, columns FROM pg_proc WHERE proname = 'light_explain_profile';
	EXECUTE format('CREATE OR REPLACE FUNCTION light_explain_profile(%s) RETURNS SETOF record LANGUAGE sql AS %L', arguments,
		'SELECT ' || columns || ' FROM generate_series(1, 100::bigint) queryid, generate_series(1, 3::bigint) planid, generate_series(0, 4) node');
END$do$;
-- 100 statements with five nodes, 25 buckets of 20 executions; what is compared is the last bucket
CREATE FUNCTION normal(anything bigint) RETURNS float8 LANGUAGE sql VOLATILE AS $$SELECT sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())$$;
CREATE FUNCTION simulate(kind text) RETURNS void LANGUAGE sql AS $$
	TRUNCATE simulated;
	INSERT INTO simulated SELECT bucket, queryid, 1, (array_agg(times ORDER BY node))[1:1], array_agg(times ORDER BY node) FILTER (WHERE node > 0), 1
	FROM (SELECT bucket, queryid, node, normal(bucket) AS z FROM generate_series(1, 25) bucket, generate_series(1, 100) queryid, generate_series(0, 5) node) b,
		LATERAL (SELECT array_agg(CASE kind WHEN 'normal' THEN 10 * exp(0.3 * z) WHEN 'exponential' THEN -ln(1 - random()) * 10
			ELSE -ln(1 - random()) * 10 + CASE WHEN i % 5 = 0 AND random() < 0.1 THEN 5000 ELSE 0 END END) AS times FROM generate_series(1, 20) i WHERE z IS NOT NULL) t
	GROUP BY bucket, queryid$$;
SQL
# The times of a kind and a round are the same in each run: with random ones a bound would be exceeded now and then.
my $kinds = 0;
for my $kind (qw(normal exponential waits))
{
	my ($many, $few, $rounds) = (0, 0, 8);
	for (1 .. $rounds)
	{
		# 96 periods of a day: each may have 10, or a tenth of one
		my ($m, $f) = split /\|/, query('SELECT setseed(' . ($kinds * $rounds + $_) / 100 . ") \\gset\nSELECT simulate('$kind') \\gset\n"
			  . 'SELECT count(*), count(*) FILTER (WHERE e_value <= 9.6) FROM light_explain_regressions(at(25), at(26), at(1), at(25), 960, 1) WHERE slower');
		$many += $m;
		$few += $f;
	}
	$kinds++;
	diag("$kind: $many of at most " . 10 * $rounds . ", $few of at most " . 0.1 * $rounds);
	# five standard deviations of a Poisson variable more
	cmp_ok($many, '<=', 10 * $rounds + 5 * sqrt(10 * $rounds), "$kind: false alarms are as frequent as stated");
	cmp_ok($few, '<=', 5, "$kind: and so are rare ones");
	cmp_ok($many, '>=', $rounds, "$kind: and not much less frequent") if $kind eq 'normal';
}

# All statements have a new plan, whose nodes take as long as those of the usual one.
{
	my ($many, $rounds) = (0, 4);
	for (1 .. $rounds)
	{
		$many += query("SELECT setseed(0.9 + $_ / 100.0) \\gset\nSELECT simulate('normal') \\gset\nUPDATE simulated SET planid = 2 WHERE bucket = 25;\n"
			  . "SELECT count(*) FROM light_explain_regressions(at(25), at(26), at(1), at(25), 960, 1) WHERE tested = 'node' AND slower");
	}
	diag("nodes of new plans: $many of at most " . 5 * $rounds);
	cmp_ok($many, '<=', 5 * $rounds + 5 * sqrt(5 * $rounds), 'nodes of new plans: false alarms are as frequent as stated');
	cmp_ok($many, '>=', 1, 'and there are some');
}

# ---- what is found, and what is not ----

# One statement with two nodes and ten executions in a bucket is changed; what is reported, with a quarter of the factor.
sub changed
{
	my ($change) = @_;
	query(<<"SQL");
TRUNCATE simulated;
INSERT INTO simulated SELECT bucket, 1, 1, array_fill(10 * exp(0.1 * cos(bucket * 7)), ARRAY[10]), ARRAY[array_fill(5::float8, ARRAY[10]), array_fill(5 * exp(0.1 * cos(bucket * 7)), ARRAY[10])], 10 FROM generate_series(1, 25) bucket;
$change
SQL
	return query(q{SELECT change, slower, node, CASE WHEN slower THEN round((factor / 4)::numeric) END, executions, before_buckets, tested FROM light_explain_regressions(at(25), at(26), at(1), at(25))});
}
# In times that are slower by a factor, the first node is slower by less than the factor that is reported.
my $times = sub {
	my ($factor, $where) = @_;
	return "UPDATE simulated SET times = (SELECT array_agg(t * $factor) FROM unnest(times) t), node_times = ARRAY[(SELECT array_agg(t * 1.2) FROM unnest(node_times[1:1]) t), (SELECT array_agg(t * $factor) FROM unnest(node_times[2:2]) t)] WHERE $where;";
};
my $node_times = sub { my ($factor, $where) = @_; return "UPDATE simulated SET node_times = node_times[1:1] || (SELECT array_agg(t * $factor) FROM unnest(node_times[2:2]) t) WHERE $where;" };
is(changed(''), '', 'nothing is reported without a change');
is(changed($times->(8, 'bucket = 25')), 'node|t|1|2|10|24|statement', 'a statement that is slower, with the node');
is(changed('UPDATE simulated SET times[3] = 100000, node_times[1][3] = 100000 WHERE bucket = 25'), '', 'one execution that waited is not reported');
is(changed('UPDATE simulated SET times[3] = 100, times[4] = 100, node_times[1][3] = 95, node_times[1][4] = 95 WHERE bucket = 25'), '', 'nor are two of ten');
is(changed('UPDATE simulated SET times = ARRAY[100], node_times = ARRAY[[90], [10]], rows = 1 WHERE bucket = 25'), '', 'nor is a single execution');
is(changed('UPDATE simulated SET times = ARRAY[100], node_times = ARRAY[[90], [10]], rows = 10000 WHERE bucket = 25; UPDATE simulated SET times = times[1:1], node_times = node_times[1:2][1:1] WHERE bucket < 25'), 'node|t|0|3|1|24|statement', 'unless it did more work');
is(changed('UPDATE simulated SET planid = 2 WHERE bucket = 25;' . $times->(20, 'bucket = 25')), 'plan|t|1|5|10|24|plan', 'a new plan that is slower');
is(changed('UPDATE simulated SET planid = 2 WHERE bucket = 25'), 'plan|f|1||10|24|plan', 'a new plan that is not');
is(changed('UPDATE simulated SET planid = 2 WHERE bucket = 25; INSERT INTO simulated SELECT 3, queryid, planid, times, node_times, rows FROM simulated WHERE bucket = 25'), '', 'a plan that was used before');
is(changed('UPDATE simulated SET temp = 7 WHERE bucket = 25'), 'spill|f|1||10|24|', 'a node that spills');
is(changed('UPDATE simulated SET temp = 7 WHERE bucket IN (3, 25)'), '', 'a node that spilled before');
is(changed($times->(20, 'bucket % 8 = 1')), '', 'a time that recurs is not reported');
is(changed($times->(20, 'bucket = 25') . 'DELETE FROM simulated WHERE bucket < 22'), '', 'nor is anything after three buckets');
is(changed($times->(20, 'bucket = 25') . 'DELETE FROM simulated WHERE bucket < 25'), '', 'or without any');
is(changed($times->(1e-7, 'true') . $times->(20, 'bucket = 25')), '', 'or below a microsecond');
is(changed($times->(1.4, 'bucket = 25') . $times->(0.9, 'bucket = 0')), '', 'or a factor below 1.5');

# A node whose statement takes as long as before.
is(changed($node_times->(8, 'bucket = 25')), 'node|t|1|2|10|24|node', 'a node that is slower than before');
is(query('SELECT mean_ms / before_mean_ms < 1.2, node_ms / before_node_ms > 7, planid = before_planid, label FROM light_explain_regressions(at(25), at(26), at(1), at(25))'), 't|t|t|Index Scan using i on t', 'in a statement that is not');
is(changed($node_times->(8, 'bucket = 25') . 'UPDATE simulated SET node_times[1][3] = 100000 WHERE bucket = 25'), 'node|t|1|2|10|24|node', 'the node is the one that is slower, not the one that waited');
is(changed($node_times->(8, 'bucket = 25') . 'UPDATE simulated SET node_times = array_fill(100::float8, ARRAY[10]) || node_times[2:2] WHERE bucket = 25'), 'node|t|0|5|10|24|node', 'of two slower nodes the one that takes more time');
is(changed($node_times->(3, 'bucket = 25') . 'UPDATE simulated SET node_times[2][3] = 100000 WHERE bucket < 25'), 'node|t|1|1|10|24|node', 'one execution in each bucket that waited before does not hide it');
is(changed('UPDATE simulated SET node_times[2][3] = 100000 WHERE bucket = 25'), '', 'one execution of a node that waited is not reported');
is(changed('UPDATE simulated SET node_times[2][3] = 95, node_times[2][4] = 95 WHERE bucket = 25'), '', 'nor are two of ten');
is(changed('UPDATE simulated SET times = times[1:1], node_times = ARRAY[[5], [95]], rows = 1 WHERE bucket = 25'), '', 'nor is a single execution of a node');
is(changed('UPDATE simulated SET times = times[1:1], node_times = ARRAY[[5], [95]], rows = 10000 WHERE bucket = 25; UPDATE simulated SET times = times[1:1], node_times = node_times[1:2][1:1] WHERE bucket < 25'), 'node|t|1|5|1|24|node', 'unless it did more work');
is(changed($node_times->(20, 'bucket = 25') . 'UPDATE simulated SET temp = 7 WHERE bucket = 25'), 'spill|t|1|5|10|24|node', 'a node that is slower and spills');
is(changed($node_times->(20, 'bucket % 8 = 1')), '', 'a time of a node that recurs is not reported');
is(changed($node_times->(20, 'bucket = 25') . 'DELETE FROM simulated WHERE bucket < 22'), '', 'nor is a node after three buckets');
is(changed($node_times->(1e-7, 'true') . $node_times->(20, 'bucket = 25')), '', 'or below a microsecond');
is(changed($node_times->(1.4, 'bucket = 25')), '', 'or a factor below 1.5');
# A new plan that is not slower, with a node that is.
my $new_plan = $node_times->(20, 'bucket = 25') . 'UPDATE simulated SET planid = 2 WHERE bucket = 25;';
is(changed($new_plan), 'plan|t|1|5|10|24|node', 'a node of a new plan is compared with the scan of the same table in the usual plan');
is(query('SELECT label, before_node_ms BETWEEN 4 AND 6, node_ms / before_node_ms > 15, planid, before_planid FROM light_explain_regressions(at(25), at(26), at(1), at(25))'), 'Seq Scan on t|t|t|2|1', 'and both times are shown');
is(changed('UPDATE simulated SET node_times = (SELECT array_agg(t * 20) FROM unnest(node_times[1:1]) t) || node_times[2:2], planid = 2 WHERE bucket = 25'), 'plan|t|0|5|10|24|node', 'or with the node of the same name');
is(changed($node_times->(20, 'bucket = 25') . 'UPDATE simulated SET planid = 3 WHERE bucket = 25'), 'plan|f|1||10|24|plan', 'a scan of a table that the usual plan does not scan is not tested');
is(changed($new_plan . 'UPDATE simulated SET times = (SELECT array_agg(t / 10) FROM unnest(times) t) WHERE bucket = 25'), 'plan|f|1||10|24|plan', 'nor are nodes of a faster plan');
is(changed($new_plan . 'UPDATE simulated SET times = times[1:1], node_times = node_times[1:2][1:1], rows = 1 WHERE bucket = 25'), 'plan|f|1||1|24|plan', 'nor is a single execution');
is(changed($new_plan . 'UPDATE simulated SET times = times[1:1], node_times = node_times[1:2][1:1], rows = 10000 WHERE bucket = 25; UPDATE simulated SET times = times[1:1], node_times = node_times[1:2][1:1] WHERE bucket < 25'), 'plan|t|1|5|1|24|node', 'unless the node did more work');
is(changed($new_plan . $times->(20, 'bucket = 25')), 'plan|t|1|5|10|24|plan', 'a new plan that is slower is reported rather than its node');
is(changed('UPDATE simulated SET node_times = ARRAY[array_fill(100::float8, ARRAY[10]), array_fill(104::float8, ARRAY[10])]; UPDATE simulated SET planid = 2 WHERE bucket = 25;' . $times->(20, 'bucket = 25')
	. 'UPDATE simulated SET node_times = ARRAY[array_fill(115::float8, ARRAY[10]), array_fill(116::float8, ARRAY[10])] WHERE bucket = 25'), 'plan|t|0|5|10|24|plan', 'and its node is the one that takes more time than its counterpart, not the one that takes most');
changed('INSERT INTO simulated SELECT bucket, queryid, 2, times[1:5], node_times[1:2][1:5], rows FROM simulated;' . $node_times->(20, 'bucket = 25 AND planid = 2'));
is(query('SELECT change, tested, node, planid, before_planid, before_executions, executions FROM light_explain_regressions(at(25), at(26), at(1), at(25))'), 'node|node|1|2|2|360|15', 'nodes of each plan are compared with themselves');
# each of the two tests' halves counts its tests
my $e_value = sub { my ($change) = @_; changed($change); return query('SELECT max(e_value) FROM light_explain_regressions(at(25), at(26), at(1), at(25))') };
my $more = sub { my ($n) = @_; return "UPDATE simulated SET node_times = node_times || (SELECT array_agg(array_fill(5::float8, ARRAY[10])) FROM generate_series(1, $n)) WHERE true;" };
my $of_node = $e_value->($node_times->(2, 'bucket = 25'));
is(sprintf('%.3f', $e_value->($node_times->(2, 'bucket = 25') . $more->(8)) / $of_node), '5.000', 'with five times as many nodes one has five times the number of false alarms');
my $of_statement = $e_value->($times->(2, 'bucket = 25'));
is(sprintf('%.3f', $e_value->($times->(2, 'bucket = 25') . $more->(8)) / $of_statement), '1.000', 'and a statement the same one');
is(sprintf('%.3f', $e_value->($times->(2, 'bucket = 25') . 'INSERT INTO simulated SELECT bucket, 2, planid, array_fill(1::float8, ARRAY[10]), node_times[1:1], rows FROM simulated') / $of_statement), '2.000', 'but not with another statement');
changed($times->(20, 'bucket > 20'));
is(query(q{SELECT before_buckets, executions, round((factor / 4)::numeric) FROM light_explain_regressions(at(21), 'infinity', '-infinity', at(21))}), '20|50|5', 'periods of several buckets');
is(query(q{SELECT count(*) FROM light_explain_regressions(at(21), at(22), '-infinity', 'infinity')}), '0', 'a bucket in both periods is a recent one, and the others are those before');
is(query(q{SELECT count(*) FROM light_explain_regressions(NULL, NULL, NULL, NULL)}), '0', 'no periods');
is(query('SELECT count(*) FROM light_explain_regressions'), '0', 'the view: the day before was as slow');
changed($times->(20, 'bucket = 25'));
is(query('SELECT count(*), min(recent_start) = at(25), min(before_buckets) FROM light_explain_regressions WHERE slower'), '1|t|24', 'the view: it was not');
is(query('SELECT count(*) FROM light_explain_regressions(at(25), at(26), at(1), at(25), 1e-30)'), '0', 'a lower rate of false alarms');
is(query('SELECT count(*) FROM light_explain_regressions(at(25), at(26), at(1), at(25), 0.01, 25)'), '0', 'a higher factor');

$node->stop;
ok(slurp_file($node->logfile) !~ /TRAP:|PANIC|was terminated by signal/, 'nothing bad in the server log');
done_testing();

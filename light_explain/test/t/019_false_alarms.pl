# Regressions: the rate of false alarms is what the reference states, with simulated times and in a
# run without a cause; periods, small histories, roles.
# Slow: a run of many buckets
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
compute_query_id = on
max_parallel_workers_per_gather = 0
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
my ($seen, $alarms, $compared) = (0, '', 0);
while ($load->pumpable)
{
	# what is asked here is in the history, too
	my $row = query(q{SET light_explain.profile = off; SELECT max(bucket) FROM light_explain_latency() WHERE bucket_end IS NOT NULL});
	if ($row ne '' && $row > $seen)
	{
		$seen = $row;
		$compared++;
		my $found = query(q{SET light_explain.profile = off; SELECT factor, e_value, executions, before_executions, before_buckets, mean_ms, before_mean_ms, label, query FROM light_explain_regressions WHERE slower AND query ~ 'pgbench_'});
		$alarms .= "$seen: $found\n" if $found ne '';
	}
	$load->pump_nb;
	sleep 1;
}
$load->finish;
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
CREATE TABLE simulated (bucket bigint, queryid bigint, planid bigint, times float8[], node_ms float8[], rows float8, temp bigint DEFAULT 0);
CREATE FUNCTION at(bucket bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$SELECT timestamptz '2026-01-01 00:00+00' + bucket * interval '15min'$$;
CREATE OR REPLACE FUNCTION light_explain_history(OUT bucket bigint, OUT bucket_start timestamptz, OUT bucket_end timestamptz, OUT dbid oid, OUT userid oid, OUT queryid bigint, OUT caller_queryid bigint, OUT planid bigint, OUT node integer,
	OUT executions bigint, OUT loops double precision, OUT rows double precision, OUT plan_rows double precision, OUT total_ms double precision, OUT self_ms double precision, OUT shared_hit bigint, OUT shared_read bigint, OUT temp_written bigint)
RETURNS SETOF record LANGUAGE sql AS $$SELECT bucket, public.at(bucket), public.at(bucket + 1), 1::oid, 10::oid, queryid, NULL::bigint, planid, node::int - 1, cardinality(times)::bigint, 1::float8, rows, 1::float8, ms, ms, 0::bigint, 0::bigint,
	CASE node WHEN 2 THEN temp ELSE 0 END FROM public.simulated, unnest(node_ms) WITH ORDINALITY n(ms, node)$$;
CREATE OR REPLACE FUNCTION light_explain_latency(OUT bucket bigint, OUT bucket_start timestamptz, OUT bucket_end timestamptz, OUT dbid oid, OUT userid oid, OUT queryid bigint, OUT caller_queryid bigint, OUT planid bigint,
	OUT executions bigint, OUT cancelled bigint, OUT failed bigint, OUT total_ms double precision, OUT max_ms double precision, OUT times_ms double precision[], OUT counts bigint[])
RETURNS SETOF record LANGUAGE sql AS $$SELECT bucket, public.at(bucket), public.at(bucket + 1), 1::oid, 10::oid, queryid, NULL::bigint, planid, cardinality(times)::bigint, 0::bigint, 0::bigint, (SELECT sum(t) FROM unnest(times) t), (SELECT max(t) FROM unnest(times) t), times,
	array_fill(1::bigint, ARRAY[cardinality(times)]) FROM public.simulated$$;
-- 300 statements, 25 buckets of 20 executions; what is compared is the last bucket
CREATE FUNCTION normal(anything bigint) RETURNS float8 LANGUAGE sql VOLATILE AS $$SELECT sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())$$;
CREATE FUNCTION simulate(kind text) RETURNS void LANGUAGE sql AS $$
	TRUNCATE simulated;
	INSERT INTO simulated SELECT bucket, queryid, 1, times, ARRAY[(SELECT sum(t) FROM unnest(times) t)], 1
	FROM (SELECT bucket, queryid, normal(bucket) AS z FROM generate_series(1, 25) bucket, generate_series(1, 300) queryid) b,
		LATERAL (SELECT array_agg(CASE kind WHEN 'normal' THEN 10 * exp(0.3 * z) WHEN 'exponential' THEN -ln(1 - random()) * 10
			ELSE -ln(1 - random()) * 10 + CASE WHEN i % 5 = 0 AND random() < 0.1 THEN 5000 ELSE 0 END END) AS times FROM generate_series(1, 20) i WHERE z IS NOT NULL) t$$;
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

# ---- what is found, and what is not ----

# One statement with two nodes and ten executions in a bucket is changed; what is reported, with a quarter of the factor.
sub changed
{
	my ($change) = @_;
	query(<<"SQL");
TRUNCATE simulated;
INSERT INTO simulated SELECT bucket, 1, 1, array_fill(10 * exp(0.1 * cos(bucket * 7)), ARRAY[10]), ARRAY[50, 50 * exp(0.1 * cos(bucket * 7))], 10 FROM generate_series(1, 25) bucket;
$change
SQL
	return query(q{SELECT change, slower, node, CASE WHEN slower THEN round((factor / 4)::numeric) END, executions, before_buckets FROM light_explain_regressions(at(25), at(26), at(1), at(25))});
}
my $times = sub { my ($factor, $where) = @_; return "UPDATE simulated SET times = (SELECT array_agg(t * $factor) FROM unnest(times) t), node_ms[1] = node_ms[1] * 2, node_ms[2] = node_ms[2] * $factor WHERE $where;" };
is(changed(''), '', 'nothing is reported without a change');
is(changed($times->(8, 'bucket = 25')), 'node|t|1|2|10|24', 'a statement that is slower, with the node');
is(changed('UPDATE simulated SET times[3] = 100000, node_ms[1] = 100000 WHERE bucket = 25'), '', 'one execution that waited is not reported');
is(changed('UPDATE simulated SET times[3] = 100, times[4] = 100, node_ms[1] = 200 WHERE bucket = 25'), '', 'nor are two of ten');
is(changed('UPDATE simulated SET times = ARRAY[100], node_ms[1] = 90, rows = 1 WHERE bucket = 25'), '', 'nor is a single execution');
is(changed('UPDATE simulated SET times = ARRAY[100], node_ms[1] = 90, rows = 10000 WHERE bucket = 25; UPDATE simulated SET times = times[1:1] WHERE bucket < 25'), 'node|t|0|3|1|24', 'unless it did more work');
is(changed('UPDATE simulated SET planid = 2 WHERE bucket = 25;' . $times->(20, 'bucket = 25')), 'plan|t|1|5|10|24', 'a new plan that is slower');
is(changed('UPDATE simulated SET planid = 2 WHERE bucket = 25'), 'plan|f|1||10|24', 'a new plan that is not');
is(changed('UPDATE simulated SET planid = 2 WHERE bucket = 25; INSERT INTO simulated SELECT 3, queryid, planid, times, node_ms, rows FROM simulated WHERE bucket = 25'), '', 'a plan that was used before');
is(changed('UPDATE simulated SET temp = 7 WHERE bucket = 25'), 'spill|f|1||10|24', 'a node that spills');
is(changed('UPDATE simulated SET temp = 7 WHERE bucket IN (3, 25)'), '', 'a node that spilled before');
is(changed($times->(20, 'bucket % 8 = 1')), '', 'a time that recurs is not reported');
is(changed($times->(20, 'bucket = 25') . 'DELETE FROM simulated WHERE bucket < 22'), '', 'nor is anything after three buckets');
is(changed($times->(20, 'bucket = 25') . 'DELETE FROM simulated WHERE bucket < 25'), '', 'or without any');
is(changed($times->(1e-7, 'true') . $times->(20, 'bucket = 25')), '', 'or below a microsecond');
is(changed($times->(1.4, 'bucket = 25') . $times->(0.9, 'bucket = 0')), '', 'or a factor below 1.5');
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
